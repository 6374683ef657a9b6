-- Forgets everything. A table takes its triggers and indexes along; its rows may stay until then, so no rule is asked.
DROP TABLE call_artifacts;
DROP TABLE artifacts;
DROP TABLE receipts;
DROP TABLE answer_entries;
DROP TABLE answers;
DROP TABLE approvals;
DROP TABLE claims;
DROP TABLE calls;
DROP TABLE operators;
DROP TABLE tool_versions;
DROP TABLE tools;
DROP TABLE checkpoints;
DROP TABLE head;
DROP TABLE ledger;
DROP TABLE gate;
