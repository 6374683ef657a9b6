-- What ends a yes for more than one call besides time and people, and how time went on while the clock did not: the same
-- tables, rules and messages as in ../sqlite/0007_endings.sql.

-- ---- a yes ends with the policy under which it was given, also if that policy comes back

CREATE TABLE standing_ends (
    approval TEXT PRIMARY KEY REFERENCES standing (approval),
    -- The other policy, by which calls were decided in the same workspace.
    policy TEXT NOT NULL CHECK (length(policy) = 64),
    ended_at BIGINT NOT NULL
);

CREATE FUNCTION standing_ends_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM standing_ends WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'what has ended stays so';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER standing_ends_not_replaced BEFORE INSERT ON standing_ends
FOR EACH ROW EXECUTE FUNCTION standing_ends_not_replaced();

CREATE TRIGGER standing_ends_are_not_changed BEFORE UPDATE ON standing_ends
FOR EACH ROW EXECUTE FUNCTION refuse('what has ended stays so');

CREATE TRIGGER standing_ends_are_not_removed BEFORE DELETE ON standing_ends
FOR EACH ROW EXECUTE FUNCTION refuse('what has ended stays so');

CREATE TRIGGER standing_ends_are_not_emptied BEFORE TRUNCATE ON standing_ends
EXECUTE FUNCTION refuse('what has ended stays so');

CREATE OR REPLACE FUNCTION standing_uses_are_covered() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
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
            AND NOT EXISTS (SELECT 1 FROM standing_ends e WHERE e.approval = s.approval)
            AND c.status = 'running' AND c.agent = asked.agent AND c.tool = asked.tool
            AND c.contract = asked.contract AND c.policy = asked.policy
            AND (s.scope = 'type' OR k.same_arguments = first.same_arguments)
            AND (s.scope <> 'task' OR c.task = asked.task)
    ) THEN
        RAISE EXCEPTION 'this yes does not cover the call';
    END IF;
    RETURN NEW;
END $$;

-- ---- time, by a witness that nobody sets: how long the host has been up

CREATE TABLE clocks (
    -- Which start of which host.
    boot TEXT PRIMARY KEY,
    -- Milliseconds since that start, and what time it was then, in milliseconds since 1970.
    since_boot BIGINT NOT NULL CHECK (since_boot >= 0),
    time BIGINT NOT NULL
);

CREATE TRIGGER clocks_go_forward BEFORE UPDATE ON clocks
FOR EACH ROW WHEN (NEW.boot IS DISTINCT FROM OLD.boot OR NEW.time - NEW.since_boot < OLD.time - OLD.since_boot)
EXECUTE FUNCTION refuse('time does not go back');
