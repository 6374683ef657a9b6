-- Forgets who was removed, what questions were about, and every yes for more than one call.
DROP TABLE standing_uses, revocations, standing, escalations, questions;
DROP TRIGGER operators_are_not_emptied ON operators;
DROP TRIGGER operators_not_replaced ON operators;
DROP TRIGGER operators_are_not_forgotten ON operators;
DROP TRIGGER operators_keep_an_admin ON operators;
DROP TRIGGER operators_stay_who_they_are ON operators;
DROP FUNCTION operators_keep_an_admin, operators_not_replaced, questions_are_asked_once,
    escalations_happen_while_it_waits, escalations_not_replaced, standing_follows_one_persons_yes,
    revocations_take_back_a_yes, standing_uses_are_covered;
ALTER TABLE operators DROP COLUMN revoked_at;

CREATE OR REPLACE FUNCTION answers_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin answers';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION approvals_need_their_quorum() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    IF (SELECT count(*) FROM answers WHERE approval = OLD.id AND verdict = 'approve') < OLD.quorum THEN
        RAISE EXCEPTION 'too few people have approved';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER approvals_need_their_quorum ON approvals;
CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
FOR EACH ROW WHEN (OLD.state = 'pending' AND NEW.state = 'approved')
EXECUTE FUNCTION approvals_need_their_quorum();

CREATE OR REPLACE FUNCTION reconciliations_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators
    WHERE name = NEW.operator AND role IN ('approver', 'admin') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin reconciles';
    END IF;
    RETURN NEW;
END $$;
