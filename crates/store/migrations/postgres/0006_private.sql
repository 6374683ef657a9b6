-- What calls were asked and what they gave: the same tables, rules and messages as in ../sqlite/0006_private.sql.
-- DECISION(0015)

-- Which key wraps those of the calls.
CREATE TABLE wrapping (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL CHECK (length(id) = 64)
);

CREATE TRIGGER wrapping_stays BEFORE UPDATE ON wrapping
FOR EACH ROW EXECUTE FUNCTION refuse('a store keeps its wrapping key');

CREATE TRIGGER wrapping_is_not_forgotten BEFORE DELETE ON wrapping
FOR EACH ROW EXECUTE FUNCTION refuse('a store keeps its wrapping key');

CREATE FUNCTION wrapping_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM wrapping) THEN
        RAISE EXCEPTION 'a store keeps its wrapping key';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER wrapping_not_replaced BEFORE INSERT ON wrapping
FOR EACH ROW EXECUTE FUNCTION wrapping_not_replaced();

CREATE TRIGGER wrapping_is_not_emptied BEFORE TRUNCATE ON wrapping
EXECUTE FUNCTION refuse('a store keeps its wrapping key');

CREATE TABLE call_keys (
    call TEXT COLLATE "C" PRIMARY KEY REFERENCES calls (id),
    -- The key, and the digests of what was asked.
    wrapped BYTEA NOT NULL CHECK (length(wrapped) = 136),
    -- By which the gate finds the same request, and the same arguments, again.
    same_request TEXT COLLATE "C" NOT NULL CHECK (length(same_request) = 64),
    same_arguments TEXT COLLATE "C" NOT NULL CHECK (length(same_arguments) = 64)
);

CREATE INDEX call_keys_by_request ON call_keys (same_request);

-- A call from before this step has one from when it is sealed.
CREATE FUNCTION call_keys_are_made_with_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (
            SELECT 1 FROM calls WHERE id = NEW.call
                AND (settled_at IS NULL OR arguments_json <> '' OR result IS NOT NULL)
        )
        OR EXISTS (SELECT 1 FROM call_keys WHERE call = NEW.call) THEN
        RAISE EXCEPTION 'a call has one key, from its beginning';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER call_keys_are_made_with_their_calls BEFORE INSERT ON call_keys
FOR EACH ROW EXECUTE FUNCTION call_keys_are_made_with_their_calls();

CREATE TRIGGER call_keys_are_not_changed BEFORE UPDATE ON call_keys
FOR EACH ROW EXECUTE FUNCTION refuse('a call keeps its key, or loses it');

CREATE FUNCTION call_keys_outlive_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
            c.status IN ('completed', 'failed', 'refused', 'cancelled')
            OR EXISTS (SELECT 1 FROM reconciliations r WHERE r.call = c.id)
        )
    ) THEN
        RAISE EXCEPTION 'a call without a known end is not erased';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER call_keys_outlive_their_calls BEFORE DELETE ON call_keys
FOR EACH ROW EXECUTE FUNCTION call_keys_outlive_their_calls();

CREATE TRIGGER call_keys_are_not_emptied BEFORE TRUNCATE ON call_keys
EXECUTE FUNCTION refuse('a call without a known end is not erased');

CREATE TABLE private (
    call TEXT COLLATE "C" NOT NULL REFERENCES calls (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('asked', 'result', 'raw', 'artifact', 'found')),
    name TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    -- By which the gate finds an artifact.
    lookup TEXT COLLATE "C" CHECK (length(lookup) = 64),
    PRIMARY KEY (call, kind, name)
);

CREATE INDEX private_by_lookup ON private (lookup) WHERE lookup IS NOT NULL;

CREATE FUNCTION private_has_a_key() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM call_keys WHERE call = NEW.call)
        OR EXISTS (SELECT 1 FROM private WHERE call = NEW.call AND kind = NEW.kind AND name = NEW.name) THEN
        RAISE EXCEPTION 'what is private is sealed once, under the key of its call';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER private_has_a_key BEFORE INSERT ON private
FOR EACH ROW EXECUTE FUNCTION private_has_a_key();

CREATE TRIGGER private_is_not_changed BEFORE UPDATE ON private
FOR EACH ROW EXECUTE FUNCTION refuse('what is private is never changed');

CREATE FUNCTION private_goes_after_its_key() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.call) THEN
        RAISE EXCEPTION 'what is private goes after its key';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER private_goes_after_its_key BEFORE DELETE ON private
FOR EACH ROW EXECUTE FUNCTION private_goes_after_its_key();

CREATE TRIGGER private_is_not_emptied BEFORE TRUNCATE ON private
EXECUTE FUNCTION refuse('what is private goes after its key');

-- ---- nothing more is kept in the clear, and what was is sealed once and then gone

CREATE INDEX calls_in_the_clear ON calls (id) WHERE arguments_json <> '' OR result IS NOT NULL;

CREATE TRIGGER calls_are_sealed BEFORE INSERT ON calls
FOR EACH ROW WHEN (NEW.arguments_json <> '' OR NEW.result IS NOT NULL)
EXECUTE FUNCTION refuse('what is private is sealed');

CREATE FUNCTION calls_lose_plain_text_once_sealed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NEW.arguments_json <> '' OR NEW.result IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.id) THEN
        RAISE EXCEPTION 'a call stays what was asked, and is settled once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_lose_plain_text_once_sealed BEFORE UPDATE ON calls
FOR EACH ROW WHEN ((NEW.arguments_json, NEW.result) IS DISTINCT FROM (OLD.arguments_json, OLD.result))
EXECUTE FUNCTION calls_lose_plain_text_once_sealed();

DROP TRIGGER calls_stay_what_was_asked ON calls;
CREATE TRIGGER calls_stay_what_was_asked BEFORE UPDATE ON calls
FOR EACH ROW WHEN (
    (NEW.id, NEW.agent, NEW.task, NEW.tool, NEW.contract, NEW.request, NEW.arguments, NEW.policy,
        NEW.purpose, NEW.trace, NEW.asked_at, NEW.planned_seq)
    IS DISTINCT FROM
    (OLD.id, OLD.agent, OLD.task, OLD.tool, OLD.contract, OLD.request, OLD.arguments, OLD.policy,
        OLD.purpose, OLD.trace, OLD.asked_at, OLD.planned_seq)
    OR (OLD.settled_at IS NOT NULL AND (
        (NEW.settled_at, NEW.status) IS DISTINCT FROM (OLD.settled_at, OLD.status)
        OR (NEW.arguments_json, NEW.result) IS NOT DISTINCT FROM (OLD.arguments_json, OLD.result)
    ))
)
EXECUTE FUNCTION refuse('a call stays what was asked, and is settled once');

CREATE TRIGGER reconciliations_are_sealed BEFORE INSERT ON reconciliations
FOR EACH ROW WHEN (NEW.result <> '')
EXECUTE FUNCTION refuse('what is private is sealed');

CREATE FUNCTION reconciliations_are_not_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF (NEW.call, NEW.found, NEW.operator, NEW.reason, NEW.made_at, NEW.seq, NEW.envelope)
            IS DISTINCT FROM
            (OLD.call, OLD.found, OLD.operator, OLD.reason, OLD.made_at, OLD.seq, OLD.envelope)
        OR NEW.result <> '' OR OLD.result = ''
        OR NOT EXISTS (SELECT 1 FROM private WHERE call = OLD.call AND kind = 'found') THEN
        RAISE EXCEPTION 'reconciliations are never changed';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER reconciliations_are_not_changed ON reconciliations;
CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
FOR EACH ROW EXECUTE FUNCTION reconciliations_are_not_changed();

-- A claim is a name that only the gate can make. One from before is made such before its call has a key.
CREATE TRIGGER claims_are_sealed BEFORE INSERT ON claims
FOR EACH ROW WHEN (length(NEW.claim) <> 64)
EXECUTE FUNCTION refuse('what is private is sealed');

CREATE FUNCTION claims_are_not_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF (NEW.call, NEW.made_at) IS DISTINCT FROM (OLD.call, OLD.made_at) OR length(NEW.claim) <> 64
        OR EXISTS (SELECT 1 FROM call_keys WHERE call = OLD.call) THEN
        RAISE EXCEPTION 'claims are never changed';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER claims_are_not_changed ON claims;
CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
FOR EACH ROW EXECUTE FUNCTION claims_are_not_changed();

-- A claim goes with what is erased of its call.
CREATE OR REPLACE FUNCTION claims_outlive_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (
        SELECT 1 FROM calls c WHERE c.id = OLD.call AND (
            c.status IN ('planned', 'waiting', 'running')
            OR (c.status = 'unknown' AND NOT EXISTS (
                SELECT 1 FROM reconciliations r WHERE r.call = c.id
                    AND (r.found = 'did_not' OR NOT EXISTS (SELECT 1 FROM call_keys k WHERE k.call = c.id))
            ))
        )
    ) THEN
        RAISE EXCEPTION 'a claim is kept until its call has a known end';
    END IF;
    RETURN OLD;
END $$;

-- Artifacts are private now; these hold what was left before, until it is sealed.
CREATE TRIGGER artifacts_are_sealed BEFORE INSERT ON artifacts
FOR EACH ROW EXECUTE FUNCTION refuse('what is private is sealed');

CREATE TRIGGER call_artifacts_are_sealed BEFORE INSERT ON call_artifacts
FOR EACH ROW EXECUTE FUNCTION refuse('what is private is sealed');

-- The same to people is told from what is shown; a digest of it would tell what was asked.
ALTER TABLE questions DROP COLUMN fold;

-- ---- a yes covers the same arguments, which have the same name and no other

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
        LEFT JOIN call_keys k ON k.call = c.id
        LEFT JOIN call_keys first ON first.call = asked.id
        WHERE s.approval = NEW.approval AND NEW.used_at < s.expires_at AND o.revoked_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.approval = s.approval)
            AND c.status = 'running' AND c.agent = asked.agent AND c.tool = asked.tool
            AND c.contract = asked.contract AND c.policy = asked.policy
            AND (s.scope = 'type' OR k.same_arguments = first.same_arguments)
            AND (s.scope <> 'task' OR c.task = asked.task)
    ) THEN
        RAISE EXCEPTION 'this yes does not cover the call';
    END IF;
    RETURN NEW;
END $$;
