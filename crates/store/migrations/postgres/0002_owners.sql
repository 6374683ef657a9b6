-- Who owns a call that is under way: the same tables, rules and messages as in ../sqlite/0002_owners.sql.
-- DECISION(0010)

-- ---- gates

-- A process that makes calls. Whether it lives is not written here: it holds a lock as long as it does.
CREATE TABLE gates (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) = 32),
    began_at BIGINT NOT NULL,
    -- When others found that it had ended with calls under way. From then on nothing is begun in its name.
    lost_at BIGINT
);

CREATE TRIGGER gates_begin_living BEFORE INSERT ON gates
FOR EACH ROW WHEN (NEW.lost_at IS NOT NULL)
EXECUTE FUNCTION refuse('a gate begins living');

CREATE TRIGGER gates_are_lost_once BEFORE UPDATE ON gates
FOR EACH ROW WHEN (NEW.id <> OLD.id OR NEW.began_at <> OLD.began_at OR OLD.lost_at IS NOT NULL OR NEW.lost_at IS NULL)
EXECUTE FUNCTION refuse('a gate is lost once, and stays lost');

CREATE TRIGGER gates_are_not_forgotten BEFORE DELETE ON gates
FOR EACH ROW EXECUTE FUNCTION refuse('gates are never removed');

CREATE TRIGGER gates_are_not_emptied BEFORE TRUNCATE ON gates
EXECUTE FUNCTION refuse('gates are never removed');

CREATE FUNCTION gates_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM gates WHERE id = NEW.id) THEN
        RAISE EXCEPTION 'gates are never replaced';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER gates_not_replaced BEFORE INSERT ON gates
FOR EACH ROW EXECUTE FUNCTION gates_not_replaced();

-- ---- calls and their owners

-- Nobody's while it waits for people; else the id of the gate that sees it through.
ALTER TABLE calls ADD COLUMN owner TEXT COLLATE "C";
-- Of calls from before nothing better is known, so the worst is assumed.
ALTER TABLE calls ADD COLUMN decision TEXT NOT NULL DEFAULT 'refuse' CHECK (decision IN ('run', 'ask', 'refuse'));
ALTER TABLE calls ADD COLUMN safety TEXT NOT NULL DEFAULT 'privileged'
    CHECK (safety IN ('read', 'write', 'network', 'financial', 'privileged'));

CREATE INDEX calls_under_way ON calls (owner) WHERE status IN ('planned', 'running');

-- `running` means that the effect may have begun, `planned` that it has not.
DROP TRIGGER calls_take_known_ways ON calls;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (NOT (
    (OLD.status = 'planned' AND NEW.status IN ('running', 'refused', 'failed', 'cancelled'))
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
))
EXECUTE FUNCTION refuse('a call cannot take this way');

CREATE TRIGGER calls_run_if_so_decided BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (OLD.status = 'planned' AND NEW.status = 'running' AND OLD.decision <> 'run')
EXECUTE FUNCTION refuse('what was refused does not run');

-- However late a lost gate wakes up, it begins nothing.
CREATE FUNCTION gate_lives() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    -- The lock: what is looked at here stays so until the call is changed.
    PERFORM 1 FROM gates WHERE id = NEW.owner AND lost_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION '%', TG_ARGV[0];
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_under_way_have_an_owner BEFORE INSERT ON calls
FOR EACH ROW WHEN (NEW.status IN ('planned', 'running'))
EXECUTE FUNCTION gate_lives('a call is made by a gate that lives');

CREATE TRIGGER calls_are_begun_by_the_living BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (NEW.status = 'running')
EXECUTE FUNCTION gate_lives('a call is begun by a gate that lives');

CREATE TRIGGER calls_that_wait_are_nobodys BEFORE INSERT ON calls
FOR EACH ROW WHEN (NEW.status = 'waiting' AND NEW.owner IS NOT NULL)
EXECUTE FUNCTION refuse('a call that waits belongs to nobody');

CREATE TRIGGER calls_keep_their_owner BEFORE UPDATE ON calls
FOR EACH ROW WHEN (NEW.owner IS DISTINCT FROM OLD.owner
    AND NOT (OLD.owner IS NULL AND OLD.status = 'waiting' AND NEW.status = 'running'))
EXECUTE FUNCTION refuse('a call keeps its owner');

CREATE TRIGGER calls_stay_what_was_decided BEFORE UPDATE ON calls
FOR EACH ROW WHEN ((NEW.decision, NEW.safety) IS DISTINCT FROM (OLD.decision, OLD.safety))
EXECUTE FUNCTION refuse('a call stays what was decided');

-- ---- reconciliations: what people found out about calls whose outcome nobody knew

CREATE TABLE reconciliations (
    call TEXT COLLATE "C" PRIMARY KEY REFERENCES calls (id),
    found TEXT NOT NULL CHECK (found IN ('happened', 'did_not')),
    operator TEXT COLLATE "C" NOT NULL REFERENCES operators (name),
    reason TEXT,
    made_at BIGINT NOT NULL,
    -- The call's second receipt, and the entry that it is the receipt of.
    seq BIGINT NOT NULL UNIQUE REFERENCES ledger (seq),
    envelope TEXT NOT NULL,
    result TEXT NOT NULL
);

CREATE INDEX calls_unknown ON calls (asked_at) WHERE status = 'unknown';

CREATE FUNCTION reconciliations_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM reconciliations WHERE call = NEW.call OR seq = NEW.seq) THEN
        RAISE EXCEPTION 'a call is reconciled once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reconciliations_not_replaced BEFORE INSERT ON reconciliations
FOR EACH ROW EXECUTE FUNCTION reconciliations_not_replaced();

CREATE FUNCTION reconciliations_are_of_the_unknown() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM calls WHERE id = NEW.call AND status = 'unknown') THEN
        RAISE EXCEPTION 'only a call whose outcome is unknown is reconciled';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reconciliations_are_of_the_unknown BEFORE INSERT ON reconciliations
FOR EACH ROW EXECUTE FUNCTION reconciliations_are_of_the_unknown();

CREATE FUNCTION reconciliations_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin reconciles';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reconciliations_come_from_those_who_may BEFORE INSERT ON reconciliations
FOR EACH ROW EXECUTE FUNCTION reconciliations_come_from_those_who_may();

CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
FOR EACH ROW EXECUTE FUNCTION refuse('reconciliations are never changed');

CREATE TRIGGER reconciliations_are_not_removed BEFORE DELETE ON reconciliations
FOR EACH ROW EXECUTE FUNCTION refuse('reconciliations are never removed');

CREATE TRIGGER reconciliations_are_not_emptied BEFORE TRUNCATE ON reconciliations
EXECUTE FUNCTION refuse('reconciliations are never removed');

-- One whose call may still have its effect, or may have had it, is not given to another.
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
