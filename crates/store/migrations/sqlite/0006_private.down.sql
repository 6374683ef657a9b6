-- Forgets what calls were asked and what they gave: it can be read only with keys that are kept here.
DROP TRIGGER standing_uses_are_covered;
CREATE TRIGGER standing_uses_are_covered BEFORE INSERT ON standing_uses
WHEN NOT EXISTS (
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
)
BEGIN SELECT RAISE(ABORT, 'this yes does not cover the call'); END;

-- No two questions are the same from then on.
DROP TRIGGER questions_are_not_changed;
ALTER TABLE questions ADD COLUMN fold TEXT NOT NULL
    DEFAULT '0000000000000000000000000000000000000000000000000000000000000000' CHECK (length(fold) = 64);
UPDATE questions SET fold = approval || approval;
CREATE TRIGGER questions_are_not_changed BEFORE UPDATE ON questions
BEGIN SELECT RAISE(ABORT, 'questions are never changed'); END;

DROP TRIGGER call_artifacts_are_sealed;
DROP TRIGGER artifacts_are_sealed;
DROP TRIGGER claims_are_not_changed;
CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
BEGIN SELECT RAISE(ABORT, 'claims are never changed'); END;
DROP TRIGGER claims_outlive_their_calls;
CREATE TRIGGER claims_outlive_their_calls BEFORE DELETE ON claims
WHEN EXISTS (
    SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
        c.status IN ('planned', 'waiting', 'running')
        OR (c.status = 'unknown' AND NOT EXISTS (
            SELECT 1 FROM reconciliations r WHERE r.call = c.id AND r.found = 'did_not'
        ))
    )
)
BEGIN SELECT RAISE(ABORT, 'a claim is kept until its call has a known end'); END;
DROP TRIGGER claims_are_sealed;
DROP TRIGGER reconciliations_are_not_changed;
CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
BEGIN SELECT RAISE(ABORT, 'reconciliations are never changed'); END;
DROP TRIGGER reconciliations_are_sealed;
DROP TRIGGER calls_stay_what_was_asked;
CREATE TRIGGER calls_stay_what_was_asked BEFORE UPDATE ON calls
WHEN NEW.id IS NOT OLD.id OR NEW.agent IS NOT OLD.agent OR NEW.task IS NOT OLD.task OR NEW.tool IS NOT OLD.tool
    OR NEW.contract IS NOT OLD.contract OR NEW.request IS NOT OLD.request
    OR NEW.arguments IS NOT OLD.arguments OR NEW.arguments_json IS NOT OLD.arguments_json
    OR NEW.policy IS NOT OLD.policy OR NEW.purpose IS NOT OLD.purpose OR NEW.trace IS NOT OLD.trace
    OR NEW.asked_at IS NOT OLD.asked_at OR NEW.planned_seq IS NOT OLD.planned_seq
    OR OLD.settled_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a call stays what was asked, and is settled once'); END;
DROP INDEX calls_in_the_clear;
DROP TRIGGER calls_are_sealed;
DROP TABLE private;
DROP TABLE call_keys;
DROP TABLE wrapping;
