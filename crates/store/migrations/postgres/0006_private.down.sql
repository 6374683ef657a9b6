-- Forgets what calls were asked and what they gave: it can be read only with keys that are kept here.
CREATE OR REPLACE FUNCTION standing_uses_are_covered() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM standing_uses WHERE call = NEW.call) THEN
        RAISE EXCEPTION 'uses are never changed';
    END IF;
    IF NOT EXISTS (
        SELECT 1 FROM standing s
        JOIN approvals a ON a.id = s.approval
        JOIN calls asked ON asked.id = a.call
        JOIN operators o ON o.name = s.granted_by
        JOIN calls c ON c.id = NEW.call
        WHERE s.approval = NEW.approval AND NEW.used_at < s.expires_at AND o.revoked_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval)
            AND c.status = 'running' AND c.agent = asked.agent AND c.tool = asked.tool
            AND c.contract = asked.contract AND c.policy = asked.policy
            AND (s.scope = 'type' OR c.arguments = asked.arguments)
            AND (s.scope <> 'task' OR c.task = asked.task)
    ) THEN
        RAISE EXCEPTION 'this yes does not cover the call';
    END IF;
    RETURN NEW;
END $$;

-- No two questions are the same from then on.
DROP TRIGGER questions_are_not_changed ON questions;
ALTER TABLE questions ADD COLUMN fold TEXT CHECK (length(fold) = 64);
UPDATE questions SET fold = approval || approval;
ALTER TABLE questions ALTER COLUMN fold SET NOT NULL;
CREATE TRIGGER questions_are_not_changed BEFORE UPDATE ON questions
FOR EACH ROW EXECUTE FUNCTION refuse('questions are never changed');

DROP TRIGGER call_artifacts_are_sealed ON call_artifacts;
DROP TRIGGER artifacts_are_sealed ON artifacts;
DROP TRIGGER claims_are_not_changed ON claims;
CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
FOR EACH ROW EXECUTE FUNCTION refuse('claims are never changed');
CREATE OR REPLACE FUNCTION claims_outlive_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (
        SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
            c.status IN ('planned', 'waiting', 'running')
            OR (c.status = 'unknown' AND NOT EXISTS (
                SELECT 1 FROM reconciliations r WHERE r.call = c.id AND r.found = 'did_not'
            ))
        )
    ) THEN
        RAISE EXCEPTION 'a claim is kept until its call has a known end';
    END IF;
    RETURN OLD;
END $$;
DROP TRIGGER claims_are_sealed ON claims;
DROP TRIGGER reconciliations_are_not_changed ON reconciliations;
CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
FOR EACH ROW EXECUTE FUNCTION refuse('reconciliations are never changed');
DROP TRIGGER reconciliations_are_sealed ON reconciliations;
DROP TRIGGER calls_lose_plain_text_once_sealed ON calls;
DROP TRIGGER calls_stay_what_was_asked ON calls;
CREATE TRIGGER calls_stay_what_was_asked BEFORE UPDATE ON calls
FOR EACH ROW WHEN (
    (NEW.id, NEW.agent, NEW.task, NEW.tool, NEW.contract, NEW.request, NEW.arguments, NEW.arguments_json, NEW.policy,
        NEW.purpose, NEW.trace, NEW.asked_at, NEW.planned_seq)
    IS DISTINCT FROM
    (OLD.id, OLD.agent, OLD.task, OLD.tool, OLD.contract, OLD.request, OLD.arguments, OLD.arguments_json, OLD.policy,
        OLD.purpose, OLD.trace, OLD.asked_at, OLD.planned_seq)
    OR OLD.settled_at IS NOT NULL
)
EXECUTE FUNCTION refuse('a call stays what was asked, and is settled once');
DROP INDEX calls_in_the_clear;
DROP TRIGGER calls_are_sealed ON calls;
DROP TABLE private, call_keys, wrapping;
DROP FUNCTION call_keys_are_made_with_their_calls, call_keys_outlive_their_calls, private_has_a_key,
    private_goes_after_its_key, calls_lose_plain_text_once_sealed, reconciliations_are_not_changed,
    claims_are_not_changed, wrapping_not_replaced;
