-- Who owns a call that is under way, what may be said of it when its owner is no more, and what people find out then.
-- DECISION(0010)

-- ---- gates

-- A process that makes calls. Whether it lives is not written here: it holds a lock as long as it does.
CREATE TABLE gates (
    id TEXT PRIMARY KEY CHECK (length(id) = 32),
    began_at INTEGER NOT NULL,
    -- When others found that it had ended with calls under way. From then on nothing is begun in its name.
    lost_at INTEGER
) STRICT;

CREATE TRIGGER gates_begin_living BEFORE INSERT ON gates
WHEN NEW.lost_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a gate begins living'); END;

CREATE TRIGGER gates_are_lost_once BEFORE UPDATE ON gates
WHEN NEW.id IS NOT OLD.id OR NEW.began_at IS NOT OLD.began_at OR OLD.lost_at IS NOT NULL OR NEW.lost_at IS NULL
BEGIN SELECT RAISE(ABORT, 'a gate is lost once, and stays lost'); END;

CREATE TRIGGER gates_are_not_forgotten BEFORE DELETE ON gates
BEGIN SELECT RAISE(ABORT, 'gates are never removed'); END;

CREATE TRIGGER gates_not_replaced BEFORE INSERT ON gates
WHEN EXISTS (SELECT 1 FROM gates WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'gates are never replaced'); END;

-- ---- calls and their owners

-- Nobody's while it waits for people; else the id of the gate that sees it through.
ALTER TABLE calls ADD COLUMN owner TEXT;
-- Of calls from before nothing better is known, so the worst is assumed.
ALTER TABLE calls ADD COLUMN decision TEXT NOT NULL DEFAULT 'refuse' CHECK (decision IN ('run', 'ask', 'refuse'));
ALTER TABLE calls ADD COLUMN safety TEXT NOT NULL DEFAULT 'privileged'
    CHECK (safety IN ('read', 'write', 'network', 'financial', 'privileged'));

CREATE INDEX calls_under_way ON calls (owner) WHERE status IN ('planned', 'running');

-- `running` means that the effect may have begun, `planned` that it has not.
DROP TRIGGER calls_take_known_ways;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
WHEN NOT (
    (OLD.status = 'planned' AND NEW.status IN ('running', 'refused', 'failed', 'cancelled'))
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
)
BEGIN SELECT RAISE(ABORT, 'a call cannot take this way'); END;

CREATE TRIGGER calls_run_if_so_decided BEFORE UPDATE OF status ON calls
WHEN OLD.status = 'planned' AND NEW.status = 'running' AND OLD.decision <> 'run'
BEGIN SELECT RAISE(ABORT, 'what was refused does not run'); END;

CREATE TRIGGER calls_under_way_have_an_owner BEFORE INSERT ON calls
WHEN NEW.status IN ('planned', 'running')
    AND NOT EXISTS (SELECT 1 FROM gates WHERE id = NEW.owner AND lost_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a call is made by a gate that lives'); END;

CREATE TRIGGER calls_that_wait_are_nobodys BEFORE INSERT ON calls
WHEN NEW.status = 'waiting' AND NEW.owner IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a call that waits belongs to nobody'); END;

-- However late a lost gate wakes up, it begins nothing.
CREATE TRIGGER calls_are_begun_by_the_living BEFORE UPDATE OF status ON calls
WHEN NEW.status = 'running' AND NOT EXISTS (SELECT 1 FROM gates WHERE id = NEW.owner AND lost_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a call is begun by a gate that lives'); END;

CREATE TRIGGER calls_keep_their_owner BEFORE UPDATE ON calls
WHEN NEW.owner IS NOT OLD.owner
    AND NOT (OLD.owner IS NULL AND OLD.status = 'waiting' AND NEW.status = 'running')
BEGIN SELECT RAISE(ABORT, 'a call keeps its owner'); END;

CREATE TRIGGER calls_stay_what_was_decided BEFORE UPDATE ON calls
WHEN NEW.decision IS NOT OLD.decision OR NEW.safety IS NOT OLD.safety
BEGIN SELECT RAISE(ABORT, 'a call stays what was decided'); END;

-- ---- reconciliations: what people found out about calls whose outcome nobody knew

CREATE TABLE reconciliations (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    found TEXT NOT NULL CHECK (found IN ('happened', 'did_not')),
    operator TEXT NOT NULL REFERENCES operators (name),
    reason TEXT,
    made_at INTEGER NOT NULL,
    -- The call's second receipt, and the entry that it is the receipt of.
    seq INTEGER NOT NULL UNIQUE REFERENCES ledger (seq),
    envelope TEXT NOT NULL,
    result TEXT NOT NULL
) STRICT;

CREATE INDEX calls_unknown ON calls (asked_at) WHERE status = 'unknown';

CREATE TRIGGER reconciliations_are_of_the_unknown BEFORE INSERT ON reconciliations
WHEN NOT EXISTS (SELECT 1 FROM calls WHERE id = NEW.call AND status = 'unknown')
BEGIN SELECT RAISE(ABORT, 'only a call whose outcome is unknown is reconciled'); END;

CREATE TRIGGER reconciliations_come_from_those_who_may BEFORE INSERT ON reconciliations
WHEN NOT EXISTS (SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin'))
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin reconciles'); END;

CREATE TRIGGER reconciliations_are_not_changed BEFORE UPDATE ON reconciliations
BEGIN SELECT RAISE(ABORT, 'reconciliations are never changed'); END;

CREATE TRIGGER reconciliations_are_not_removed BEFORE DELETE ON reconciliations
BEGIN SELECT RAISE(ABORT, 'reconciliations are never removed'); END;

CREATE TRIGGER reconciliations_not_replaced BEFORE INSERT ON reconciliations
WHEN EXISTS (SELECT 1 FROM reconciliations WHERE call = NEW.call OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'a call is reconciled once'); END;

-- One whose call may still have its effect, or may have had it, is not given to another.
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
