-- Forgets who was removed, what questions were about, and every yes for more than one call.
DROP TRIGGER approvals_that_were_taken_back_do_not_run;
DROP TRIGGER approvals_need_their_quorum;
DROP TRIGGER answers_do_not_come_from_the_proposer;
DROP TRIGGER answers_come_from_those_who_may;
DROP TABLE standing_uses;
DROP TABLE revocations;
DROP TABLE standing;
DROP TABLE escalations;
DROP TABLE questions;
DROP TRIGGER reconciliations_come_from_those_who_may;
DROP TRIGGER operators_not_replaced;
DROP TRIGGER operators_are_not_forgotten;
DROP TRIGGER operators_keep_an_admin;
DROP TRIGGER operators_stay_who_they_are;
ALTER TABLE operators DROP COLUMN revoked_at;

CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
WHEN OLD.state = 'pending' AND NEW.state = 'approved'
    AND (SELECT count(*) FROM answers WHERE approval = OLD.id AND verdict = 'approve') < OLD.quorum
BEGIN SELECT RAISE(ABORT, 'too few people have approved'); END;

CREATE TRIGGER answers_come_from_those_who_may BEFORE INSERT ON answers
WHEN NOT EXISTS (SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin'))
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin answers'); END;

CREATE TRIGGER reconciliations_come_from_those_who_may BEFORE INSERT ON reconciliations
WHEN NOT EXISTS (SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin'))
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin reconciles'); END;
