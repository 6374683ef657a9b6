-- People who come and go, what a question is about, whom it reaches, and a yes for more than one call.

-- ---- people

ALTER TABLE operators ADD COLUMN revoked_at INTEGER;

CREATE TRIGGER operators_stay_who_they_are BEFORE UPDATE ON operators
WHEN NEW.name IS NOT OLD.name OR NEW.role IS NOT OLD.role OR NEW.added_at IS NOT OLD.added_at
    OR OLD.revoked_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an operator stays who they are, and one who was removed stays removed'); END;

CREATE TRIGGER operators_keep_an_admin BEFORE UPDATE OF revoked_at ON operators
WHEN NEW.revoked_at IS NOT NULL AND OLD.role = 'admin'
    AND NOT EXISTS (SELECT 1 FROM operators WHERE role = 'admin' AND revoked_at IS NULL AND name <> OLD.name)
BEGIN SELECT RAISE(ABORT, 'the last admin is not removed'); END;

CREATE TRIGGER operators_are_not_forgotten BEFORE DELETE ON operators
BEGIN SELECT RAISE(ABORT, 'operators are never forgotten'); END;

CREATE TRIGGER operators_not_replaced BEFORE INSERT ON operators
WHEN EXISTS (SELECT 1 FROM operators WHERE name = NEW.name OR credential = NEW.credential)
BEGIN SELECT RAISE(ABORT, 'operators are never replaced'); END;

DROP TRIGGER reconciliations_come_from_those_who_may;
CREATE TRIGGER reconciliations_come_from_those_who_may BEFORE INSERT ON reconciliations
WHEN NOT EXISTS (
    SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL
)
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin reconciles'); END;

-- ---- what a question is about, as it was when it was asked

CREATE TABLE questions (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    -- The workspace: for people, and the digest of its path.
    workspace TEXT NOT NULL,
    place TEXT NOT NULL CHECK (length(place) = 64),
    action TEXT NOT NULL,
    safety TEXT NOT NULL CHECK (safety IN ('read', 'write', 'network', 'financial', 'privileged')),
    egress TEXT NOT NULL CHECK (egress IN ('none', 'read_only', 'write')),
    profile TEXT,
    -- The digest of the files that its arguments name, where that can be told.
    content TEXT CHECK (content IS NULL OR length(content) = 64),
    -- Questions that are the same to people have the same.
    fold TEXT NOT NULL CHECK (length(fold) = 64),
    -- The operator who proposed the call, where one is known.
    proposer TEXT REFERENCES operators (name)
) STRICT;

CREATE TRIGGER questions_about_guards_take_two_people BEFORE INSERT ON questions
WHEN NEW.safety = 'privileged'
    AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.approval AND quorum >= 2)
BEGIN SELECT RAISE(ABORT, 'a privileged call takes two people'); END;

CREATE TRIGGER questions_are_asked_while_it_waits BEFORE INSERT ON questions
WHEN NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.approval AND state = 'pending')
    OR EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'what a question is about is known before it is answered'); END;

CREATE TRIGGER questions_not_replaced BEFORE INSERT ON questions
WHEN EXISTS (SELECT 1 FROM questions WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'questions are never changed'); END;

CREATE TRIGGER questions_are_not_changed BEFORE UPDATE ON questions
BEGIN SELECT RAISE(ABORT, 'questions are never changed'); END;

CREATE TRIGGER questions_are_not_removed BEFORE DELETE ON questions
BEGIN SELECT RAISE(ABORT, 'questions are never removed'); END;

-- ---- whom a question reaches that nobody answers

CREATE TABLE escalations (
    approval TEXT NOT NULL REFERENCES approvals (id),
    step INTEGER NOT NULL CHECK (step >= 0),
    due_at INTEGER NOT NULL,
    -- Names, as a JSON list.
    operators TEXT NOT NULL,
    reached_at INTEGER,
    PRIMARY KEY (approval, step)
) STRICT;

CREATE INDEX escalations_due ON escalations (due_at) WHERE reached_at IS NULL;

CREATE TRIGGER escalations_happen_once_while_it_waits BEFORE UPDATE ON escalations
WHEN NEW.approval IS NOT OLD.approval OR NEW.step IS NOT OLD.step OR NEW.due_at IS NOT OLD.due_at
    OR NEW.operators IS NOT OLD.operators OR OLD.reached_at IS NOT NULL OR NEW.reached_at IS NULL
    OR NOT EXISTS (SELECT 1 FROM approvals WHERE id = OLD.approval AND state = 'pending')
BEGIN SELECT RAISE(ABORT, 'a step is taken once, while the question waits'); END;

CREATE TRIGGER escalations_not_replaced BEFORE INSERT ON escalations
WHEN EXISTS (SELECT 1 FROM escalations WHERE approval = NEW.approval AND step = NEW.step)
BEGIN SELECT RAISE(ABORT, 'a step is taken once, while the question waits'); END;

CREATE TRIGGER escalations_are_not_removed BEFORE DELETE ON escalations
BEGIN SELECT RAISE(ABORT, 'steps are never removed'); END;

-- ---- a yes for more than one call

CREATE TABLE standing (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    scope TEXT NOT NULL CHECK (scope IN ('task', 'agent', 'type')),
    granted_by TEXT NOT NULL REFERENCES operators (name),
    granted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- Thirty days at the very most, whatever is configured.
    CHECK (expires_at > granted_at AND expires_at <= granted_at + 2592000000)
) STRICT;

CREATE TRIGGER standing_follows_one_persons_yes BEFORE INSERT ON standing
WHEN NOT EXISTS (
    SELECT 1 FROM approvals a JOIN answers w ON w.approval = a.id
    WHERE a.id = NEW.approval AND a.state = 'approved' AND a.quorum = 1
        AND w.operator = NEW.granted_by AND w.verdict = 'approve'
)
BEGIN SELECT RAISE(ABORT, 'it takes the yes of the one person who was asked'); END;

CREATE TRIGGER standing_is_not_for_money_or_guards BEFORE INSERT ON standing
WHEN NOT EXISTS (
    SELECT 1 FROM questions WHERE approval = NEW.approval AND safety IN ('read', 'write', 'network')
)
BEGIN SELECT RAISE(ABORT, 'such calls are approved one by one'); END;

CREATE TRIGGER standing_not_replaced BEFORE INSERT ON standing
WHEN EXISTS (SELECT 1 FROM standing WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'a yes is never changed'); END;

CREATE TRIGGER standing_is_not_changed BEFORE UPDATE ON standing
BEGIN SELECT RAISE(ABORT, 'a yes is never changed'); END;

CREATE TRIGGER standing_is_not_removed BEFORE DELETE ON standing
BEGIN SELECT RAISE(ABORT, 'a yes is taken back, never removed'); END;

-- A yes that was taken back, for one call or for more. There is no way to undo it.
CREATE TABLE revocations (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    operator TEXT NOT NULL REFERENCES operators (name),
    reason TEXT,
    revoked_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER revocations_take_back_a_yes BEFORE INSERT ON revocations
WHEN NOT EXISTS (
    SELECT 1 FROM approvals WHERE id = NEW.approval AND state IN ('approved', 'running', 'completed', 'failed')
)
BEGIN SELECT RAISE(ABORT, 'only a yes can be taken back'); END;

CREATE TRIGGER revocations_come_from_those_who_may BEFORE INSERT ON revocations
WHEN NOT EXISTS (
    SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL
)
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin takes a yes back'); END;

CREATE TRIGGER revocations_not_replaced BEFORE INSERT ON revocations
WHEN EXISTS (SELECT 1 FROM revocations WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'what was taken back stays so'); END;

CREATE TRIGGER revocations_are_not_changed BEFORE UPDATE ON revocations
BEGIN SELECT RAISE(ABORT, 'what was taken back stays so'); END;

CREATE TRIGGER revocations_are_not_removed BEFORE DELETE ON revocations
BEGIN SELECT RAISE(ABORT, 'what was taken back stays so'); END;

-- Which calls ran under which yes.
CREATE TABLE standing_uses (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    approval TEXT NOT NULL REFERENCES standing (approval),
    used_at INTEGER NOT NULL
) STRICT;

CREATE INDEX standing_uses_by_approval ON standing_uses (approval);

-- Whoever records a use holds the write lock: what was taken back before is seen here, by every gate.
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

CREATE TRIGGER standing_uses_not_replaced BEFORE INSERT ON standing_uses
WHEN EXISTS (SELECT 1 FROM standing_uses WHERE call = NEW.call)
BEGIN SELECT RAISE(ABORT, 'uses are never changed'); END;

CREATE TRIGGER standing_uses_are_not_changed BEFORE UPDATE ON standing_uses
BEGIN SELECT RAISE(ABORT, 'uses are never changed'); END;

CREATE TRIGGER standing_uses_are_not_removed BEFORE DELETE ON standing_uses
BEGIN SELECT RAISE(ABORT, 'uses are never removed'); END;

-- ---- rules that now also know who was removed, who proposed, and what was taken back

DROP TRIGGER answers_come_from_those_who_may;

CREATE TRIGGER answers_come_from_those_who_may BEFORE INSERT ON answers
WHEN NOT EXISTS (
    SELECT 1 FROM operators WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL
)
BEGIN SELECT RAISE(ABORT, 'only an approver or an admin answers'); END;

CREATE TRIGGER answers_do_not_come_from_the_proposer BEFORE INSERT ON answers
WHEN EXISTS (SELECT 1 FROM questions WHERE approval = NEW.approval AND proposer = NEW.operator)
BEGIN SELECT RAISE(ABORT, 'whoever proposed a call does not answer for it'); END;

DROP TRIGGER approvals_need_their_quorum;

CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
WHEN ((OLD.state = 'pending' AND NEW.state = 'approved') OR (OLD.state = 'approved' AND NEW.state = 'running'))
    AND (SELECT count(*) FROM answers w JOIN operators o ON o.name = w.operator
        WHERE w.approval = OLD.id AND w.verdict = 'approve' AND o.revoked_at IS NULL) < OLD.quorum
BEGIN SELECT RAISE(ABORT, 'too few people have approved'); END;

CREATE TRIGGER approvals_that_were_taken_back_do_not_run BEFORE UPDATE OF state ON approvals
WHEN NEW.state = 'running' AND EXISTS (SELECT 1 FROM revocations WHERE approval = OLD.id)
BEGIN SELECT RAISE(ABORT, 'the yes was taken back'); END;
