-- Forgets who owned which call, and what people found out about those whose outcome nobody knew.
DROP TABLE reconciliations;

DROP TRIGGER claims_outlive_their_calls;
CREATE TRIGGER claims_outlive_their_calls BEFORE DELETE ON claims
WHEN EXISTS (SELECT 1 FROM calls WHERE id = OLD.call AND status IN ('waiting', 'running', 'unknown'))
BEGIN SELECT RAISE(ABORT, 'a claim is kept until its call has a known end'); END;

DROP TRIGGER calls_take_known_ways;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
WHEN NOT (
    (OLD.status = 'planned' AND NEW.status = 'refused')
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
)
BEGIN SELECT RAISE(ABORT, 'a call cannot take this way'); END;

DROP TRIGGER calls_run_if_so_decided;
DROP TRIGGER calls_under_way_have_an_owner;
DROP TRIGGER calls_that_wait_are_nobodys;
DROP TRIGGER calls_are_begun_by_the_living;
DROP TRIGGER calls_keep_their_owner;
DROP TRIGGER calls_stay_what_was_decided;
DROP INDEX calls_under_way;
DROP INDEX calls_unknown;
ALTER TABLE calls DROP COLUMN owner;
ALTER TABLE calls DROP COLUMN decision;
ALTER TABLE calls DROP COLUMN safety;
DROP TABLE gates;
