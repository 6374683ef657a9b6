-- Everything the gate remembers.
--
-- What must never happen is refused here, so that no code path, and no one with a SQL prompt, can do it by mistake:
-- state machines, single use, write-class approval, and records that only grow.

-- ---- who signs

CREATE TABLE gate (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    public_key TEXT NOT NULL
) STRICT;

CREATE TRIGGER gate_keeps_its_key BEFORE UPDATE ON gate
BEGIN SELECT RAISE(ABORT, 'a gate keeps its key'); END;

CREATE TRIGGER gate_is_not_forgotten BEFORE DELETE ON gate
BEGIN SELECT RAISE(ABORT, 'a gate keeps its key'); END;

-- ---- the ledger

CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY CHECK (seq >= 0),
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- Canonical JSON.
    body TEXT NOT NULL,
    -- The leaf hash of the entry before.
    prev BLOB NOT NULL CHECK (length(prev) = 32),
    -- The leaf hash of this entry, then the hash of each perfect subtree that it completes, from small to large.
    hashes BLOB NOT NULL CHECK (length(hashes) > 0 AND length(hashes) % 32 = 0)
) STRICT;

CREATE TRIGGER ledger_has_no_gaps BEFORE INSERT ON ledger
WHEN NEW.seq <> (SELECT coalesce(max(seq) + 1, 0) FROM ledger)
BEGIN SELECT RAISE(ABORT, 'ledger entries follow each other without gaps'); END;

CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'ledger entries are never changed'); END;

CREATE TRIGGER ledger_is_not_cut BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'ledger entries are never removed'); END;

-- The signed root over all entries, renewed with every entry: what has no key cannot put another history in its place.
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    size INTEGER NOT NULL,
    note TEXT NOT NULL
) STRICT;

CREATE TRIGGER head_moves_forward BEFORE UPDATE ON head
WHEN NEW.size <= OLD.size
BEGIN SELECT RAISE(ABORT, 'the head of the ledger moves forward only'); END;

CREATE TRIGGER head_is_not_removed BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'the head of the ledger is never removed'); END;

CREATE TRIGGER head_not_replaced BEFORE INSERT ON head
WHEN EXISTS (SELECT 1 FROM head)
BEGIN SELECT RAISE(ABORT, 'the head of the ledger moves forward only'); END;

-- Checkpoints that were handed out.
CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY CHECK (size > 0),
    made_at INTEGER NOT NULL,
    note TEXT NOT NULL
) STRICT;

CREATE TRIGGER checkpoints_are_not_changed BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are never changed'); END;

CREATE TRIGGER checkpoints_are_not_removed BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are never removed'); END;

-- ---- the registry

CREATE TABLE tools (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    look TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    output_schema TEXT NOT NULL,
    auth TEXT NOT NULL,
    requires_approval INTEGER NOT NULL CHECK (requires_approval IN (0, 1)),
    is_dangerous INTEGER NOT NULL CHECK (is_dangerous IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('active', 'disabled', 'deprecated', 'suspended')),
    egress TEXT NOT NULL CHECK (egress IN ('none', 'read_only', 'write')),
    safety TEXT NOT NULL CHECK (safety IN ('read', 'write', 'network', 'financial', 'privileged')),
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    trust TEXT NOT NULL CHECK (trust IN ('untrusted', 'imported', 'pinned', 'internal')),
    definition TEXT NOT NULL,
    registered_at INTEGER NOT NULL
) STRICT;

-- Egress `write` means approval, whoever writes the row and however.
CREATE TRIGGER tools_that_write_outside_ask_on_insert AFTER INSERT ON tools
WHEN NEW.egress = 'write' AND NEW.requires_approval <> 1
BEGIN UPDATE tools SET requires_approval = 1 WHERE key = NEW.key; END;

CREATE TRIGGER tools_that_write_outside_ask_on_update AFTER UPDATE ON tools
WHEN NEW.egress = 'write' AND NEW.requires_approval <> 1
BEGIN UPDATE tools SET requires_approval = 1 WHERE key = NEW.key; END;

CREATE TABLE tool_versions (
    name TEXT NOT NULL,
    hash TEXT NOT NULL CHECK (length(hash) = 64),
    definition TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (name, hash)
) STRICT;

CREATE TRIGGER tool_versions_are_not_changed BEFORE UPDATE ON tool_versions
BEGIN SELECT RAISE(ABORT, 'versions of a tool are never changed'); END;

CREATE TRIGGER tool_versions_are_not_removed BEFORE DELETE ON tool_versions
BEGIN SELECT RAISE(ABORT, 'versions of a tool are never removed'); END;

-- ---- people

CREATE TABLE operators (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'approver', 'admin')),
    credential TEXT NOT NULL UNIQUE CHECK (length(credential) = 64),
    added_at INTEGER NOT NULL
) STRICT;

-- ---- calls

CREATE TABLE calls (
    id TEXT PRIMARY KEY,
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
    asked_at INTEGER NOT NULL,
    planned_seq INTEGER NOT NULL UNIQUE REFERENCES ledger (seq),
    status TEXT NOT NULL CHECK (status IN
        ('planned', 'waiting', 'running', 'completed', 'failed', 'refused', 'cancelled', 'unknown')),
    settled_at INTEGER,
    result TEXT,
    CHECK ((settled_at IS NULL) = (status IN ('planned', 'waiting', 'running')))
) STRICT;

CREATE INDEX calls_by_time ON calls (asked_at, id);
CREATE INDEX calls_by_agent ON calls (agent, asked_at, id);
CREATE INDEX calls_open ON calls (request) WHERE status = 'waiting';
CREATE INDEX calls_waiting ON calls (agent) WHERE status = 'waiting';
CREATE INDEX calls_unsettled ON calls (asked_at) WHERE settled_at IS NULL;

CREATE TRIGGER calls_begin_open BEFORE INSERT ON calls
WHEN NEW.status NOT IN ('planned', 'waiting', 'running')
BEGIN SELECT RAISE(ABORT, 'a call begins as planned, waiting or running'); END;

CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
WHEN NOT (
    (OLD.status = 'planned' AND NEW.status = 'refused')
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
)
BEGIN SELECT RAISE(ABORT, 'a call cannot take this way'); END;

CREATE TRIGGER calls_run_once_approved BEFORE UPDATE OF status ON calls
WHEN OLD.status = 'waiting' AND NEW.status = 'running'
    AND NOT EXISTS (SELECT 1 FROM approvals WHERE call = NEW.id AND state = 'running')
BEGIN SELECT RAISE(ABORT, 'a call that waits runs only with an approval'); END;

CREATE TRIGGER calls_end_with_a_receipt BEFORE UPDATE OF status ON calls
WHEN NEW.status NOT IN ('planned', 'waiting', 'running')
    AND NOT EXISTS (SELECT 1 FROM receipts WHERE call = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a call ends with a receipt'); END;

CREATE TRIGGER calls_stay_what_was_asked BEFORE UPDATE ON calls
WHEN NEW.id IS NOT OLD.id OR NEW.agent IS NOT OLD.agent OR NEW.task IS NOT OLD.task OR NEW.tool IS NOT OLD.tool
    OR NEW.contract IS NOT OLD.contract OR NEW.request IS NOT OLD.request
    OR NEW.arguments IS NOT OLD.arguments OR NEW.arguments_json IS NOT OLD.arguments_json
    OR NEW.policy IS NOT OLD.policy OR NEW.purpose IS NOT OLD.purpose OR NEW.trace IS NOT OLD.trace
    OR NEW.asked_at IS NOT OLD.asked_at OR NEW.planned_seq IS NOT OLD.planned_seq
    OR OLD.settled_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a call stays what was asked, and is settled once'); END;

CREATE TRIGGER calls_are_not_forgotten BEFORE DELETE ON calls
BEGIN SELECT RAISE(ABORT, 'calls are never removed'); END;

-- ---- claims: the same key, the same effect

CREATE TABLE claims (
    claim TEXT PRIMARY KEY,
    -- Several keys may stand for one call: each that joined it while it waited.
    call TEXT NOT NULL REFERENCES calls (id),
    request TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;

CREATE INDEX claims_of_calls ON claims (call);

CREATE TRIGGER claims_are_not_changed BEFORE UPDATE ON claims
BEGIN SELECT RAISE(ABORT, 'claims are never changed'); END;

-- One whose call may still have its effect, or may have had it, is not given to another.
CREATE TRIGGER claims_outlive_their_calls BEFORE DELETE ON claims
WHEN EXISTS (SELECT 1 FROM calls WHERE id = OLD.call AND status IN ('waiting', 'running', 'unknown'))
BEGIN SELECT RAISE(ABORT, 'a claim is kept until its call has a known end'); END;

-- ---- approvals

CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    -- One question per call, and one use of its answer.
    call TEXT NOT NULL UNIQUE REFERENCES calls (id),
    why TEXT NOT NULL,
    quorum INTEGER NOT NULL CHECK (quorum >= 1),
    state TEXT NOT NULL CHECK (state IN
        ('pending', 'approved', 'running', 'completed', 'failed', 'rejected', 'expired', 'cancelled')),
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    -- Until when an approval may be used.
    usable_until INTEGER,
    reason TEXT
) STRICT;

CREATE INDEX approvals_by_time ON approvals (asked_at, id);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';

CREATE TRIGGER approvals_begin_pending BEFORE INSERT ON approvals
WHEN NEW.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'an approval begins as pending'); END;

CREATE TRIGGER approvals_are_asked_by_waiting_calls BEFORE INSERT ON approvals
WHEN NOT EXISTS (SELECT 1 FROM calls WHERE id = NEW.call AND status = 'waiting')
BEGIN SELECT RAISE(ABORT, 'an approval belongs to a call that waits'); END;

CREATE TRIGGER approvals_take_known_ways BEFORE UPDATE OF state ON approvals
WHEN NOT (
    (OLD.state = 'pending' AND NEW.state IN ('approved', 'rejected', 'expired', 'cancelled'))
    OR (OLD.state = 'approved' AND NEW.state = 'running')
    OR (OLD.state = 'running' AND NEW.state IN ('completed', 'failed'))
)
BEGIN SELECT RAISE(ABORT, 'an approval cannot take this way'); END;

CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
WHEN OLD.state = 'pending' AND NEW.state = 'approved'
    AND (SELECT count(*) FROM answers WHERE approval = OLD.id AND verdict = 'approve') < OLD.quorum
BEGIN SELECT RAISE(ABORT, 'too few people have approved'); END;

CREATE TRIGGER approvals_are_rejected_by_someone BEFORE UPDATE OF state ON approvals
WHEN OLD.state = 'pending' AND NEW.state = 'rejected'
    AND NOT EXISTS (SELECT 1 FROM answers WHERE approval = OLD.id AND verdict = 'reject')
BEGIN SELECT RAISE(ABORT, 'nobody has rejected it'); END;

CREATE TRIGGER approvals_stay_what_was_asked BEFORE UPDATE ON approvals
WHEN NEW.id IS NOT OLD.id OR NEW.call IS NOT OLD.call OR NEW.why IS NOT OLD.why OR NEW.quorum IS NOT OLD.quorum
    OR NEW.asked_at IS NOT OLD.asked_at OR NEW.expires_at IS NOT OLD.expires_at
    OR (OLD.state <> 'pending' AND (NEW.decided_at IS NOT OLD.decided_at
        OR NEW.usable_until IS NOT OLD.usable_until OR NEW.reason IS NOT OLD.reason))
BEGIN SELECT RAISE(ABORT, 'an approval stays what was asked and answered'); END;

CREATE TRIGGER approvals_are_not_forgotten BEFORE DELETE ON approvals
BEGIN SELECT RAISE(ABORT, 'approvals are never removed'); END;

CREATE TABLE answers (
    approval TEXT NOT NULL REFERENCES approvals (id),
    operator TEXT NOT NULL REFERENCES operators (name),
    verdict TEXT NOT NULL CHECK (verdict IN ('approve', 'reject')),
    via TEXT NOT NULL,
    reason TEXT,
    answered_at INTEGER NOT NULL,
    -- Two answers of one person are one.
    PRIMARY KEY (approval, operator)
) STRICT;

CREATE TRIGGER answers_come_while_it_waits BEFORE INSERT ON answers
WHEN NOT EXISTS (
    SELECT 1 FROM approvals WHERE id = NEW.approval AND state = 'pending' AND NEW.answered_at < expires_at
)
BEGIN SELECT RAISE(ABORT, 'only what is pending can be answered'); END;

CREATE TRIGGER answers_come_from_those_who_may BEFORE INSERT ON answers
WHEN NOT EXISTS (SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin'))
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin answers'); END;

CREATE TRIGGER answers_are_not_changed BEFORE UPDATE ON answers
BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;

CREATE TRIGGER answers_are_not_removed BEFORE DELETE ON answers
BEGIN SELECT RAISE(ABORT, 'answers are never removed'); END;

-- The ledger entry that tells of an answer. An answer of which no entry tells is nobody's.
CREATE TABLE answer_entries (
    seq INTEGER PRIMARY KEY REFERENCES ledger (seq),
    approval TEXT NOT NULL,
    operator TEXT NOT NULL,
    UNIQUE (approval, operator),
    FOREIGN KEY (approval, operator) REFERENCES answers (approval, operator)
) STRICT;

CREATE TRIGGER answer_entries_are_not_changed BEFORE UPDATE ON answer_entries
BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;

CREATE TRIGGER answer_entries_are_not_removed BEFORE DELETE ON answer_entries
BEGIN SELECT RAISE(ABORT, 'answers are never removed'); END;

-- ---- receipts and what calls left behind

CREATE TABLE receipts (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    seq INTEGER NOT NULL UNIQUE REFERENCES ledger (seq),
    envelope TEXT NOT NULL
) STRICT;

CREATE TRIGGER receipts_are_not_changed BEFORE UPDATE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;

CREATE TRIGGER receipts_are_not_removed BEFORE DELETE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never removed'); END;

CREATE TABLE artifacts (
    digest TEXT PRIMARY KEY CHECK (length(digest) = 64),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE call_artifacts (
    call TEXT NOT NULL REFERENCES calls (id),
    name TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES artifacts (digest),
    PRIMARY KEY (call, name)
) STRICT;

-- ---- nothing is replaced
--
-- `INSERT OR REPLACE` removes the old row without asking the triggers on DELETE, so each table that only grows asks
-- before the insert.

CREATE TRIGGER gate_not_replaced BEFORE INSERT ON gate
WHEN EXISTS (SELECT 1 FROM gate WHERE one = NEW.one)
BEGIN SELECT RAISE(ABORT, 'a gate keeps its key'); END;

CREATE TRIGGER checkpoints_not_replaced BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE size = NEW.size)
BEGIN SELECT RAISE(ABORT, 'checkpoints are never changed'); END;

CREATE TRIGGER tool_versions_not_replaced BEFORE INSERT ON tool_versions
WHEN EXISTS (SELECT 1 FROM tool_versions WHERE name = NEW.name AND hash = NEW.hash)
BEGIN SELECT RAISE(ABORT, 'versions of a tool are never changed'); END;

CREATE TRIGGER calls_not_replaced BEFORE INSERT ON calls
WHEN EXISTS (SELECT 1 FROM calls WHERE id = NEW.id OR planned_seq = NEW.planned_seq)
BEGIN SELECT RAISE(ABORT, 'calls are never replaced'); END;

CREATE TRIGGER claims_not_replaced BEFORE INSERT ON claims
WHEN EXISTS (SELECT 1 FROM claims WHERE claim = NEW.claim)
BEGIN SELECT RAISE(ABORT, 'the claim is taken'); END;

CREATE TRIGGER approvals_not_replaced BEFORE INSERT ON approvals
WHEN EXISTS (SELECT 1 FROM approvals WHERE id = NEW.id OR call = NEW.call)
BEGIN SELECT RAISE(ABORT, 'approvals are never replaced'); END;

CREATE TRIGGER answers_not_replaced BEFORE INSERT ON answers
WHEN EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval AND operator = NEW.operator)
BEGIN SELECT RAISE(ABORT, 'one person answers once'); END;

CREATE TRIGGER answer_entries_not_replaced BEFORE INSERT ON answer_entries
WHEN EXISTS (SELECT 1 FROM answer_entries
    WHERE seq = NEW.seq OR (approval = NEW.approval AND operator = NEW.operator))
BEGIN SELECT RAISE(ABORT, 'one person answers once'); END;

CREATE TRIGGER receipts_not_replaced BEFORE INSERT ON receipts
WHEN EXISTS (SELECT 1 FROM receipts WHERE call = NEW.call OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'receipts are never replaced'); END;
