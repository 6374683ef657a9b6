-- Forgets who owned which call, and what people found out about those whose outcome nobody knew.
DROP TABLE reconciliations;

CREATE OR REPLACE FUNCTION claims_outlive_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM calls WHERE id = OLD.call AND status IN ('waiting', 'running', 'unknown')) THEN
        RAISE EXCEPTION 'a claim is kept until its call has a known end';
    END IF;
    RETURN OLD;
END $$;

DROP TRIGGER calls_take_known_ways ON calls;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (NOT (
    (OLD.status = 'planned' AND NEW.status = 'refused')
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
))
EXECUTE FUNCTION refuse('a call cannot take this way');

DROP TRIGGER calls_run_if_so_decided ON calls;
DROP TRIGGER calls_under_way_have_an_owner ON calls;
DROP TRIGGER calls_that_wait_are_nobodys ON calls;
DROP TRIGGER calls_are_begun_by_the_living ON calls;
DROP TRIGGER calls_keep_their_owner ON calls;
DROP TRIGGER calls_stay_what_was_decided ON calls;
DROP INDEX calls_under_way;
DROP INDEX calls_unknown;
ALTER TABLE calls DROP COLUMN owner, DROP COLUMN decision, DROP COLUMN safety;
DROP TABLE gates;
DROP FUNCTION gates_not_replaced, gate_lives, reconciliations_not_replaced, reconciliations_are_of_the_unknown,
    reconciliations_come_from_those_who_may;
