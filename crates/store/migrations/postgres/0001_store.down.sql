-- Forgets everything.
DROP TABLE call_artifacts, artifacts, receipts, answer_entries, answers, approvals, claims, calls, operators, tool_versions, tools,
    checkpoints, head, ledger, gate;
DROP FUNCTION refuse, gate_not_replaced, ledger_has_no_gaps, head_not_replaced, checkpoints_not_replaced,
    tools_that_write_outside_ask, tool_versions_not_replaced, calls_not_replaced, calls_run_once_approved,
    calls_end_with_a_receipt, claims_outlive_their_calls, claims_not_replaced, approvals_are_not_replaced,
    approvals_belong_to_waiting_calls, approvals_need_their_quorum, approvals_are_rejected_by_someone,
    answers_are_given_once, answers_come_from_those_who_may, answers_come_while_it_waits, answer_entries_not_replaced,
    receipts_not_replaced;
