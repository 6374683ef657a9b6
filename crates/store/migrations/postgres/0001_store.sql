-- Everything the gate remembers: the same tables, rules and messages as in ../sqlite/0001_store.sql.
--
-- What must never happen is refused here, so that no code path, and no one with a SQL prompt, can do it by mistake:
-- state machines, single use, write-class approval, and records that only grow.

-- A function keeps the path that it was made with (`SET search_path FROM CURRENT`): this schema, and temporary tables
-- last. So it looks into these tables, whatever path its caller has set and whatever temporary tables there are.

-- Refuses, with the message that the trigger gives.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;

-- ---- who signs

CREATE TABLE gate (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    public_key TEXT NOT NULL
);

CREATE TRIGGER gate_keeps_its_key BEFORE UPDATE ON gate
FOR EACH ROW EXECUTE FUNCTION refuse('a gate keeps its key');

CREATE TRIGGER gate_is_not_forgotten BEFORE DELETE ON gate
FOR EACH ROW EXECUTE FUNCTION refuse('a gate keeps its key');

CREATE FUNCTION gate_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM gate WHERE one = NEW.one) THEN
        RAISE EXCEPTION 'a gate keeps its key';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER gate_not_replaced BEFORE INSERT ON gate
FOR EACH ROW EXECUTE FUNCTION gate_not_replaced();

-- ---- the ledger

CREATE TABLE ledger (
    seq BIGINT PRIMARY KEY CHECK (seq >= 0),
    time BIGINT NOT NULL,
    kind TEXT NOT NULL,
    -- Canonical JSON.
    body TEXT NOT NULL,
    -- The leaf hash of the entry before.
    prev BYTEA NOT NULL CHECK (length(prev) = 32),
    -- The leaf hash of this entry, then the hash of each perfect subtree that it completes, from small to large.
    hashes BYTEA NOT NULL CHECK (length(hashes) > 0 AND length(hashes) % 32 = 0)
);

CREATE FUNCTION ledger_has_no_gaps() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NEW.seq <> (SELECT coalesce(max(seq) + 1, 0) FROM ledger) THEN
        RAISE EXCEPTION 'ledger entries follow each other without gaps';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ledger_has_no_gaps BEFORE INSERT ON ledger
FOR EACH ROW EXECUTE FUNCTION ledger_has_no_gaps();

CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger
FOR EACH ROW EXECUTE FUNCTION refuse('ledger entries are never changed');

CREATE TRIGGER ledger_is_not_cut BEFORE DELETE ON ledger
FOR EACH ROW EXECUTE FUNCTION refuse('ledger entries are never removed');

-- The signed root over all entries, renewed with every entry: what has no key cannot put another history in its place.
CREATE TABLE head (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    size BIGINT NOT NULL,
    note TEXT NOT NULL
);

CREATE TRIGGER head_moves_forward BEFORE UPDATE ON head
FOR EACH ROW WHEN (NEW.size <= OLD.size)
EXECUTE FUNCTION refuse('the head of the ledger moves forward only');

CREATE TRIGGER head_is_not_removed BEFORE DELETE ON head
FOR EACH ROW EXECUTE FUNCTION refuse('the head of the ledger is never removed');

CREATE FUNCTION head_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM head) THEN
        RAISE EXCEPTION 'the head of the ledger moves forward only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER head_not_replaced BEFORE INSERT ON head
FOR EACH ROW EXECUTE FUNCTION head_not_replaced();

-- Checkpoints that were handed out.
CREATE TABLE checkpoints (
    size BIGINT PRIMARY KEY CHECK (size > 0),
    made_at BIGINT NOT NULL,
    note TEXT NOT NULL
);

CREATE TRIGGER checkpoints_are_not_changed BEFORE UPDATE ON checkpoints
FOR EACH ROW EXECUTE FUNCTION refuse('checkpoints are never changed');

CREATE TRIGGER checkpoints_are_not_removed BEFORE DELETE ON checkpoints
FOR EACH ROW EXECUTE FUNCTION refuse('checkpoints are never removed');

CREATE FUNCTION checkpoints_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM checkpoints WHERE size = NEW.size) THEN
        RAISE EXCEPTION 'checkpoints are never changed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkpoints_not_replaced BEFORE INSERT ON checkpoints
FOR EACH ROW EXECUTE FUNCTION checkpoints_not_replaced();

-- ---- the registry

CREATE TABLE tools (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    look TEXT COLLATE "C" NOT NULL UNIQUE,
    category TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    output_schema TEXT NOT NULL,
    auth TEXT NOT NULL,
    requires_approval BIGINT NOT NULL CHECK (requires_approval IN (0, 1)),
    is_dangerous BIGINT NOT NULL CHECK (is_dangerous IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('active', 'disabled', 'deprecated', 'suspended')),
    egress TEXT NOT NULL CHECK (egress IN ('none', 'read_only', 'write')),
    safety TEXT NOT NULL CHECK (safety IN ('read', 'write', 'network', 'financial', 'privileged')),
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    trust TEXT NOT NULL CHECK (trust IN ('untrusted', 'imported', 'pinned', 'internal')),
    definition TEXT NOT NULL,
    registered_at BIGINT NOT NULL
);

-- Egress `write` means approval, whoever writes the row and however.
CREATE FUNCTION tools_that_write_outside_ask() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    NEW.requires_approval := 1;
    RETURN NEW;
END $$;
CREATE TRIGGER tools_that_write_outside_ask BEFORE INSERT OR UPDATE ON tools
FOR EACH ROW WHEN (NEW.egress = 'write') EXECUTE FUNCTION tools_that_write_outside_ask();

CREATE TABLE tool_versions (
    name TEXT COLLATE "C" NOT NULL,
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    definition TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (name, hash)
);

CREATE TRIGGER tool_versions_are_not_changed BEFORE UPDATE ON tool_versions
FOR EACH ROW EXECUTE FUNCTION refuse('versions of a tool are never changed');

CREATE TRIGGER tool_versions_are_not_removed BEFORE DELETE ON tool_versions
FOR EACH ROW EXECUTE FUNCTION refuse('versions of a tool are never removed');

CREATE FUNCTION tool_versions_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM tool_versions WHERE name = NEW.name AND hash = NEW.hash) THEN
        RAISE EXCEPTION 'versions of a tool are never changed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tool_versions_not_replaced BEFORE INSERT ON tool_versions
FOR EACH ROW EXECUTE FUNCTION tool_versions_not_replaced();

-- ---- people

CREATE TABLE operators (
    name TEXT COLLATE "C" PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'approver', 'admin')),
    credential TEXT NOT NULL UNIQUE CHECK (length(credential) = 64),
    added_at BIGINT NOT NULL
);

-- ---- calls

CREATE TABLE calls (
    id TEXT COLLATE "C" PRIMARY KEY,
    agent TEXT NOT NULL,
    task TEXT,
    tool TEXT NOT NULL,
    contract TEXT NOT NULL CHECK (length(contract) = 64),
    request TEXT NOT NULL CHECK (length(request) = 64),
    arguments TEXT NOT NULL CHECK (length(arguments) = 64),
    arguments_json TEXT NOT NULL,
    policy TEXT NOT NULL CHECK (length(policy) = 64),
    purpose TEXT,
    trace TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    planned_seq BIGINT NOT NULL UNIQUE REFERENCES ledger (seq),
    status TEXT NOT NULL CHECK (status IN
        ('planned', 'waiting', 'running', 'completed', 'failed', 'refused', 'cancelled', 'unknown')),
    settled_at BIGINT,
    result TEXT,
    CHECK ((settled_at IS NULL) = (status IN ('planned', 'waiting', 'running')))
);

CREATE INDEX calls_by_time ON calls (asked_at, id);
CREATE INDEX calls_by_agent ON calls (agent, asked_at, id);
CREATE INDEX calls_open ON calls (request) WHERE status = 'waiting';
CREATE INDEX calls_waiting ON calls (agent) WHERE status = 'waiting';
CREATE INDEX calls_unsettled ON calls (asked_at) WHERE settled_at IS NULL;

CREATE TRIGGER calls_begin_open BEFORE INSERT ON calls
FOR EACH ROW WHEN (NEW.status NOT IN ('planned', 'waiting', 'running'))
EXECUTE FUNCTION refuse('a call begins as planned, waiting or running');

CREATE FUNCTION calls_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM calls WHERE id = NEW.id OR planned_seq = NEW.planned_seq) THEN
        RAISE EXCEPTION 'calls are never replaced';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_not_replaced BEFORE INSERT ON calls
FOR EACH ROW EXECUTE FUNCTION calls_not_replaced();

CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (NOT (
    (OLD.status = 'planned' AND NEW.status = 'refused')
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
))
EXECUTE FUNCTION refuse('a call cannot take this way');

CREATE FUNCTION calls_run_once_approved() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    -- The lock: what is looked at here stays so until the call is changed.
    PERFORM 1 FROM approvals WHERE call = NEW.id AND state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a call that waits runs only with an approval';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_run_once_approved BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (OLD.status = 'waiting' AND NEW.status = 'running')
EXECUTE FUNCTION calls_run_once_approved();

CREATE FUNCTION calls_end_with_a_receipt() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM receipts WHERE call = NEW.id) THEN
        RAISE EXCEPTION 'a call ends with a receipt';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calls_end_with_a_receipt BEFORE UPDATE OF status ON calls
FOR EACH ROW WHEN (NEW.status NOT IN ('planned', 'waiting', 'running'))
EXECUTE FUNCTION calls_end_with_a_receipt();

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

CREATE TRIGGER calls_are_not_forgotten BEFORE DELETE ON calls
FOR EACH ROW EXECUTE FUNCTION refuse('calls are never removed');

-- ---- claims: the same key, the same effect

CREATE TABLE claims (
    claim TEXT COLLATE "C" PRIMARY KEY,
    -- Several keys may stand for one call: each that joined it while it waited.
    call TEXT COLLATE "C" NOT NULL REFERENCES calls (id),
    request TEXT NOT NULL,
    made_at BIGINT NOT NULL
);

CREATE INDEX claims_of_calls ON claims (call);

CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
FOR EACH ROW EXECUTE FUNCTION refuse('claims are never changed');

-- One whose call may still have its effect, or may have had it, is not given to another.
CREATE FUNCTION claims_outlive_their_calls() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM calls WHERE id = OLD.call AND status IN ('waiting', 'running', 'unknown')) THEN
        RAISE EXCEPTION 'a claim is kept until its call has a known end';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER claims_outlive_their_calls BEFORE DELETE ON claims
FOR EACH ROW EXECUTE FUNCTION claims_outlive_their_calls();

CREATE FUNCTION claims_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM claims WHERE claim = NEW.claim) THEN
        RAISE EXCEPTION 'the claim is taken';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER claims_not_replaced BEFORE INSERT ON claims
FOR EACH ROW EXECUTE FUNCTION claims_not_replaced();

-- ---- approvals

CREATE TABLE approvals (
    id TEXT COLLATE "C" PRIMARY KEY,
    -- One question per call, and one use of its answer.
    call TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES calls (id),
    why TEXT NOT NULL,
    quorum BIGINT NOT NULL CHECK (quorum >= 1),
    state TEXT NOT NULL CHECK (state IN
        ('pending', 'approved', 'running', 'completed', 'failed', 'rejected', 'expired', 'cancelled')),
    asked_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    -- Until when an approval may be used.
    usable_until BIGINT,
    reason TEXT
);

CREATE INDEX approvals_by_time ON approvals (asked_at, id);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';

CREATE TRIGGER approvals_begin_pending BEFORE INSERT ON approvals
FOR EACH ROW WHEN (NEW.state <> 'pending') EXECUTE FUNCTION refuse('an approval begins as pending');

CREATE FUNCTION approvals_are_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM approvals WHERE id = NEW.id OR call = NEW.call) THEN
        RAISE EXCEPTION 'approvals are never replaced';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approvals_are_not_replaced BEFORE INSERT ON approvals
FOR EACH ROW EXECUTE FUNCTION approvals_are_not_replaced();

CREATE FUNCTION approvals_belong_to_waiting_calls() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM calls WHERE id = NEW.call AND status = 'waiting' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'an approval belongs to a call that waits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approvals_belong_to_waiting_calls BEFORE INSERT ON approvals
FOR EACH ROW EXECUTE FUNCTION approvals_belong_to_waiting_calls();

CREATE TRIGGER approvals_take_known_ways BEFORE UPDATE OF state ON approvals
FOR EACH ROW WHEN (NOT (
    (OLD.state = 'pending' AND NEW.state IN ('approved', 'rejected', 'expired', 'cancelled'))
    OR (OLD.state = 'approved' AND NEW.state = 'running')
    OR (OLD.state = 'running' AND NEW.state IN ('completed', 'failed'))
))
EXECUTE FUNCTION refuse('an approval cannot take this way');

CREATE FUNCTION approvals_need_their_quorum() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF (SELECT count(*) FROM answers WHERE approval = OLD.id AND verdict = 'approve') < OLD.quorum THEN
        RAISE EXCEPTION 'too few people have approved';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
FOR EACH ROW WHEN (OLD.state = 'pending' AND NEW.state = 'approved')
EXECUTE FUNCTION approvals_need_their_quorum();

CREATE FUNCTION approvals_are_rejected_by_someone() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM answers WHERE approval = OLD.id AND verdict = 'reject') THEN
        RAISE EXCEPTION 'nobody has rejected it';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER approvals_are_rejected_by_someone BEFORE UPDATE OF state ON approvals
FOR EACH ROW WHEN (OLD.state = 'pending' AND NEW.state = 'rejected')
EXECUTE FUNCTION approvals_are_rejected_by_someone();

CREATE TRIGGER approvals_stay_what_was_asked BEFORE UPDATE ON approvals
FOR EACH ROW WHEN (
    (NEW.id, NEW.call, NEW.why, NEW.quorum, NEW.asked_at, NEW.expires_at)
    IS DISTINCT FROM (OLD.id, OLD.call, OLD.why, OLD.quorum, OLD.asked_at, OLD.expires_at)
    OR (OLD.state <> 'pending' AND (NEW.decided_at, NEW.usable_until, NEW.reason)
        IS DISTINCT FROM (OLD.decided_at, OLD.usable_until, OLD.reason))
)
EXECUTE FUNCTION refuse('an approval stays what was asked and answered');

CREATE TRIGGER approvals_are_not_forgotten BEFORE DELETE ON approvals
FOR EACH ROW EXECUTE FUNCTION refuse('approvals are never removed');

CREATE TABLE answers (
    approval TEXT COLLATE "C" NOT NULL REFERENCES approvals (id),
    operator TEXT COLLATE "C" NOT NULL REFERENCES operators (name),
    verdict TEXT NOT NULL CHECK (verdict IN ('approve', 'reject')),
    via TEXT NOT NULL,
    reason TEXT,
    answered_at BIGINT NOT NULL,
    -- Two answers of one person are one.
    PRIMARY KEY (approval, operator)
);

CREATE FUNCTION answers_are_given_once() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval AND operator = NEW.operator) THEN
        RAISE EXCEPTION 'one person answers once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answers_are_given_once BEFORE INSERT ON answers
FOR EACH ROW EXECUTE FUNCTION answers_are_given_once();

CREATE FUNCTION answers_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin answers';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answers_come_from_those_who_may BEFORE INSERT ON answers
FOR EACH ROW EXECUTE FUNCTION answers_come_from_those_who_may();

CREATE FUNCTION answers_come_while_it_waits() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM approvals WHERE id = NEW.approval AND state = 'pending' AND NEW.answered_at < expires_at FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only what is pending can be answered';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answers_come_while_it_waits BEFORE INSERT ON answers
FOR EACH ROW EXECUTE FUNCTION answers_come_while_it_waits();

CREATE TRIGGER answers_are_not_changed BEFORE UPDATE ON answers
FOR EACH ROW EXECUTE FUNCTION refuse('answers are never changed');

CREATE TRIGGER answers_are_not_removed BEFORE DELETE ON answers
FOR EACH ROW EXECUTE FUNCTION refuse('answers are never removed');

-- The ledger entry that tells of an answer. An answer of which no entry tells is nobody's.
CREATE TABLE answer_entries (
    seq BIGINT PRIMARY KEY REFERENCES ledger (seq),
    approval TEXT COLLATE "C" NOT NULL,
    operator TEXT COLLATE "C" NOT NULL,
    UNIQUE (approval, operator),
    FOREIGN KEY (approval, operator) REFERENCES answers (approval, operator)
);

CREATE TRIGGER answer_entries_are_not_changed BEFORE UPDATE ON answer_entries
FOR EACH ROW EXECUTE FUNCTION refuse('answers are never changed');

CREATE TRIGGER answer_entries_are_not_removed BEFORE DELETE ON answer_entries
FOR EACH ROW EXECUTE FUNCTION refuse('answers are never removed');

CREATE FUNCTION answer_entries_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM answer_entries
        WHERE seq = NEW.seq OR (approval = NEW.approval AND operator = NEW.operator)) THEN
        RAISE EXCEPTION 'one person answers once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answer_entries_not_replaced BEFORE INSERT ON answer_entries
FOR EACH ROW EXECUTE FUNCTION answer_entries_not_replaced();

-- ---- receipts and what calls left behind

CREATE TABLE receipts (
    call TEXT COLLATE "C" PRIMARY KEY REFERENCES calls (id),
    seq BIGINT NOT NULL UNIQUE REFERENCES ledger (seq),
    envelope TEXT NOT NULL
);

CREATE TRIGGER receipts_are_not_changed BEFORE UPDATE ON receipts
FOR EACH ROW EXECUTE FUNCTION refuse('receipts are never changed');

CREATE TRIGGER receipts_are_not_removed BEFORE DELETE ON receipts
FOR EACH ROW EXECUTE FUNCTION refuse('receipts are never removed');

CREATE FUNCTION receipts_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM receipts WHERE call = NEW.call OR seq = NEW.seq) THEN
        RAISE EXCEPTION 'receipts are never replaced';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER receipts_not_replaced BEFORE INSERT ON receipts
FOR EACH ROW EXECUTE FUNCTION receipts_not_replaced();

CREATE TABLE artifacts (
    digest TEXT COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
    content BYTEA NOT NULL
);

CREATE TABLE call_artifacts (
    call TEXT COLLATE "C" NOT NULL REFERENCES calls (id),
    name TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL REFERENCES artifacts (digest),
    PRIMARY KEY (call, name)
);

-- ---- nothing is emptied
--
-- `TRUNCATE` removes rows without asking the triggers on DELETE.

CREATE TRIGGER gate_is_not_emptied BEFORE TRUNCATE ON gate
EXECUTE FUNCTION refuse('a gate keeps its key');
CREATE TRIGGER ledger_is_not_emptied BEFORE TRUNCATE ON ledger
EXECUTE FUNCTION refuse('ledger entries are never removed');
CREATE TRIGGER head_is_not_emptied BEFORE TRUNCATE ON head
EXECUTE FUNCTION refuse('the head of the ledger is never removed');
CREATE TRIGGER checkpoints_are_not_emptied BEFORE TRUNCATE ON checkpoints
EXECUTE FUNCTION refuse('checkpoints are never removed');
CREATE TRIGGER tool_versions_are_not_emptied BEFORE TRUNCATE ON tool_versions
EXECUTE FUNCTION refuse('versions of a tool are never removed');
CREATE TRIGGER calls_are_not_emptied BEFORE TRUNCATE ON calls
EXECUTE FUNCTION refuse('calls are never removed');
CREATE TRIGGER claims_are_not_emptied BEFORE TRUNCATE ON claims
EXECUTE FUNCTION refuse('a claim is kept until its call has a known end');
CREATE TRIGGER approvals_are_not_emptied BEFORE TRUNCATE ON approvals
EXECUTE FUNCTION refuse('approvals are never removed');
CREATE TRIGGER answers_are_not_emptied BEFORE TRUNCATE ON answers
EXECUTE FUNCTION refuse('answers are never removed');
CREATE TRIGGER answer_entries_are_not_emptied BEFORE TRUNCATE ON answer_entries
EXECUTE FUNCTION refuse('answers are never removed');
CREATE TRIGGER receipts_are_not_emptied BEFORE TRUNCATE ON receipts
EXECUTE FUNCTION refuse('receipts are never removed');
