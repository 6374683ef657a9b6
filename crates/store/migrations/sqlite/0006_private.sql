-- What calls were asked and what they gave, each under a key of its own that can be dropped.
-- DECISION(0015)

-- Which key wraps those of the calls.
CREATE TABLE wrapping (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL CHECK (length(id) = 64)
) STRICT;

CREATE TRIGGER wrapping_stays BEFORE UPDATE ON wrapping
BEGIN SELECT RAISE(ABORT, 'a store keeps its wrapping key'); END;

CREATE TRIGGER wrapping_is_not_forgotten BEFORE DELETE ON wrapping
BEGIN SELECT RAISE(ABORT, 'a store keeps its wrapping key'); END;

CREATE TRIGGER wrapping_not_replaced BEFORE INSERT ON wrapping
WHEN EXISTS (SELECT 1 FROM wrapping)
BEGIN SELECT RAISE(ABORT, 'a store keeps its wrapping key'); END;

CREATE TABLE call_keys (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    -- The key, and the digests of what was asked.
    wrapped BLOB NOT NULL CHECK (length(wrapped) = 136),
    -- By which the gate finds the same request, and the same arguments, again.
    same_request TEXT NOT NULL CHECK (length(same_request) = 64),
    same_arguments TEXT NOT NULL CHECK (length(same_arguments) = 64)
) STRICT;

CREATE INDEX call_keys_by_request ON call_keys (same_request);

-- A call from before this step has one from when it is sealed.
CREATE TRIGGER call_keys_are_made_with_their_calls BEFORE INSERT ON call_keys
WHEN NOT EXISTS (
        SELECT 1 FROM calls WHERE id = NEW.call
            AND (settled_at IS NULL OR arguments_json <> '' OR result IS NOT NULL)
    )
    OR EXISTS (SELECT 1 FROM call_keys WHERE call = NEW.call)
BEGIN SELECT RAISE(ABORT, 'a call has one key, from its beginning'); END;

CREATE TRIGGER call_keys_are_not_changed BEFORE UPDATE ON call_keys
BEGIN SELECT RAISE(ABORT, 'a call keeps its key, or loses it'); END;

CREATE TRIGGER call_keys_outlive_their_calls BEFORE DELETE ON call_keys
WHEN NOT EXISTS (
    SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
        c.status IN ('completed', 'failed', 'refused', 'cancelled')
        OR EXISTS (SELECT 1 FROM reconciliations r WHERE r.call = c.id)
    )
)
BEGIN SELECT RAISE(ABORT, 'a call without a known end is not erased'); END;

CREATE TABLE private (
    call TEXT NOT NULL REFERENCES calls (id),
    kind TEXT NOT NULL CHECK (kind IN ('asked', 'result', 'raw', 'artifact', 'found')),
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    -- By which the gate finds an artifact.
    lookup TEXT CHECK (length(lookup) = 64),
    PRIMARY KEY (call, kind, name)
) STRICT;

CREATE INDEX private_by_lookup ON private (lookup) WHERE lookup IS NOT NULL;

CREATE TRIGGER private_has_a_key BEFORE INSERT ON private
WHEN NOT EXISTS (SELECT 1 FROM call_keys WHERE call = NEW.call)
    OR EXISTS (SELECT 1 FROM private WHERE call = NEW.call AND kind = NEW.kind AND name = NEW.name)
BEGIN SELECT RAISE(ABORT, 'what is private is sealed once, under the key of its call'); END;

CREATE TRIGGER private_is_not_changed BEFORE UPDATE ON private
BEGIN SELECT RAISE(ABORT, 'what is private is never changed'); END;

CREATE TRIGGER private_goes_after_its_key BEFORE DELETE ON private
WHEN EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.call)
BEGIN SELECT RAISE(ABORT, 'what is private goes after its key'); END;

-- ---- nothing more is kept in the clear, and what was is sealed once and then gone

CREATE INDEX calls_in_the_clear ON calls (id) WHERE arguments_json <> '' OR result IS NOT NULL;

CREATE TRIGGER calls_are_sealed BEFORE INSERT ON calls
WHEN NEW.arguments_json <> '' OR NEW.result IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'what is private is sealed'); END;

DROP TRIGGER calls_stay_what_was_asked;
CREATE TRIGGER calls_stay_what_was_asked BEFORE UPDATE ON calls
WHEN NEW.id IS NOT OLD.id OR NEW.agent IS NOT OLD.agent OR NEW.task IS NOT OLD.task OR NEW.tool IS NOT OLD.tool
    OR NEW.contract IS NOT OLD.contract OR NEW.request IS NOT OLD.request
    OR NEW.arguments IS NOT OLD.arguments
    OR NEW.policy IS NOT OLD.policy OR NEW.purpose IS NOT OLD.purpose OR NEW.trace IS NOT OLD.trace
    OR NEW.asked_at IS NOT OLD.asked_at OR NEW.planned_seq IS NOT OLD.planned_seq
    OR ((NEW.arguments_json IS NOT OLD.arguments_json OR NEW.result IS NOT OLD.result)
        AND (NEW.arguments_json <> '' OR NEW.result IS NOT NULL
            OR NOT EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.id)))
    OR (OLD.settled_at IS NOT NULL AND (NEW.settled_at IS NOT OLD.settled_at OR NEW.status IS NOT OLD.status
        OR (NEW.arguments_json IS OLD.arguments_json AND NEW.result IS OLD.result)))
BEGIN SELECT RAISE(ABORT, 'a call stays what was asked, and is settled once'); END;

CREATE TRIGGER reconciliations_are_sealed BEFORE INSERT ON reconciliations
WHEN NEW.result <> ''
BEGIN SELECT RAISE(ABORT, 'what is private is sealed'); END;

DROP TRIGGER reconciliations_are_not_changed;
CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
WHEN NEW.call IS NOT OLD.call OR NEW.found IS NOT OLD.found OR NEW.operator IS NOT OLD.operator
    OR NEW.reason IS NOT OLD.reason OR NEW.made_at IS NOT OLD.made_at OR NEW.seq IS NOT OLD.seq
    OR NEW.envelope IS NOT OLD.envelope OR NEW.result <> '' OR OLD.result = ''
    OR NOT EXISTS (SELECT 1 FROM private WHERE call = OLD.call AND kind = 'found')
BEGIN SELECT RAISE(ABORT, 'reconciliations are never changed'); END;

-- A claim is a name that only the gate can make. One from before is made such before its call has a key.
CREATE TRIGGER claims_are_sealed BEFORE INSERT ON claims
WHEN length(NEW.claim) <> 64
BEGIN SELECT RAISE(ABORT, 'what is private is sealed'); END;

DROP TRIGGER claims_are_not_changed;
CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
WHEN NEW.call IS NOT OLD.call OR NEW.made_at IS NOT OLD.made_at OR length(NEW.claim) <> 64
    OR EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.call)
BEGIN SELECT RAISE(ABORT, 'claims are never changed'); END;

-- A claim goes with what is erased of its call.
DROP TRIGGER claims_outlive_their_calls;
CREATE TRIGGER claims_outlive_their_calls BEFORE DELETE ON claims
WHEN EXISTS (
    SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
        c.status IN ('planned', 'waiting', 'running')
        OR (c.status = 'unknown' AND NOT EXISTS (
            SELECT 1 FROM reconciliations r WHERE r.call = c.id
                AND (r.found = 'did_not' OR NOT EXISTS (SELECT 1 FROM call_keys k WHERE k.call = c.id))
        ))
    )
)
BEGIN SELECT RAISE(ABORT, 'a claim is kept until its call has a known end'); END;

-- Artifacts are private now; these hold what was left before, until it is sealed.
CREATE TRIGGER artifacts_are_sealed BEFORE INSERT ON artifacts
BEGIN SELECT RAISE(ABORT, 'what is private is sealed'); END;

CREATE TRIGGER call_artifacts_are_sealed BEFORE INSERT ON call_artifacts
BEGIN SELECT RAISE(ABORT, 'what is private is sealed'); END;

-- The same to people is told from what is shown; a digest of it would tell what was asked.
ALTER TABLE questions DROP COLUMN fold;

-- ---- a yes covers the same arguments, which have the same name and no other

DROP TRIGGER standing_uses_are_covered;
CREATE TRIGGER standing_uses_are_covered BEFORE INSERT ON standing_uses
WHEN NOT EXISTS (
    SELECT 1 FROM standing s
    JOIN approvals a ON a.id = s.approval
    JOIN calls asked ON asked.id = a.call
    JOIN operators o ON o.name = s.granted_by
    JOIN calls c ON c.id = NEW.call
    LEFT JOIN call_keys k ON k.call = c.id
    LEFT JOIN call_keys first ON first.call = asked.id
    WHERE s.approval = NEW.approval AND NEW.used_at < s.expires_at AND o.revoked_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval)
        AND c.status = 'running' AND c.agent = asked.agent AND c.tool = asked.tool
        AND c.contract = asked.contract AND c.policy = asked.policy
        AND (s.scope = 'type' OR k.same_arguments = first.same_arguments)
        AND (s.scope <> 'task' OR c.task = asked.task)
)
BEGIN SELECT RAISE(ABORT, 'this yes does not cover the call'); END;
