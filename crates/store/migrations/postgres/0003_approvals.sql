-- People who come and go, what a question is about, whom it reaches, and a yes for more than one call: the same tables,
-- rules and messages as in ../sqlite/0003_approvals.sql.

-- ---- people

ALTER TABLE operators ADD COLUMN revoked_at BIGINT;

CREATE TRIGGER operators_stay_who_they_are BEFORE UPDATE ON operators
FOR EACH ROW WHEN (NEW.name IS DISTINCT FROM OLD.name OR NEW.role IS DISTINCT FROM OLD.role
    OR NEW.added_at IS DISTINCT FROM OLD.added_at OR OLD.revoked_at IS NOT NULL)
EXECUTE FUNCTION refuse('an operator stays who they are, and one who was removed stays removed');

CREATE FUNCTION operators_keep_an_admin() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators WHERE role = 'admin' AND revoked_at IS NULL AND name <> OLD.name FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the last admin is not removed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER operators_keep_an_admin BEFORE UPDATE OF revoked_at ON operators
FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL AND OLD.role = 'admin')
EXECUTE FUNCTION operators_keep_an_admin();

CREATE TRIGGER operators_are_not_forgotten BEFORE DELETE ON operators
FOR EACH ROW EXECUTE FUNCTION refuse('operators are never forgotten');

CREATE OR REPLACE FUNCTION reconciliations_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators
    WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin reconciles';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION operators_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM operators WHERE name = NEW.name OR credential = NEW.credential) THEN
        RAISE EXCEPTION 'operators are never replaced';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER operators_not_replaced BEFORE INSERT ON operators
FOR EACH ROW EXECUTE FUNCTION operators_not_replaced();

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
);

CREATE FUNCTION questions_are_asked_once() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM questions WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'questions are never changed';
    END IF;
    PERFORM 1 FROM approvals WHERE id = NEW.approval AND state = 'pending' FOR SHARE;
    IF NOT FOUND OR EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'what a question is about is known before it is answered';
    END IF;
    IF NEW.safety = 'privileged'
        AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.approval AND quorum >= 2) THEN
        RAISE EXCEPTION 'a privileged call takes two people';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER questions_are_asked_once BEFORE INSERT ON questions
FOR EACH ROW EXECUTE FUNCTION questions_are_asked_once();

CREATE TRIGGER questions_are_not_changed BEFORE UPDATE ON questions
FOR EACH ROW EXECUTE FUNCTION refuse('questions are never changed');

CREATE TRIGGER questions_are_not_removed BEFORE DELETE ON questions
FOR EACH ROW EXECUTE FUNCTION refuse('questions are never removed');

-- ---- whom a question reaches that nobody answers

CREATE TABLE escalations (
    approval TEXT NOT NULL REFERENCES approvals (id),
    step BIGINT NOT NULL CHECK (step >= 0),
    due_at BIGINT NOT NULL,
    -- Names, as a JSON list.
    operators TEXT NOT NULL,
    reached_at BIGINT,
    PRIMARY KEY (approval, step)
);

CREATE INDEX escalations_due ON escalations (due_at) WHERE reached_at IS NULL;

CREATE FUNCTION escalations_happen_while_it_waits() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM approvals WHERE id = OLD.approval AND state = 'pending' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a step is taken once, while the question waits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER escalations_happen_while_it_waits BEFORE UPDATE ON escalations
FOR EACH ROW EXECUTE FUNCTION escalations_happen_while_it_waits();

CREATE TRIGGER escalations_happen_once BEFORE UPDATE ON escalations
FOR EACH ROW WHEN (NEW.approval IS DISTINCT FROM OLD.approval OR NEW.step IS DISTINCT FROM OLD.step
    OR NEW.due_at IS DISTINCT FROM OLD.due_at OR NEW.operators IS DISTINCT FROM OLD.operators
    OR OLD.reached_at IS NOT NULL OR NEW.reached_at IS NULL)
EXECUTE FUNCTION refuse('a step is taken once, while the question waits');

CREATE FUNCTION escalations_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM escalations WHERE approval = NEW.approval AND step = NEW.step) THEN
        RAISE EXCEPTION 'a step is taken once, while the question waits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER escalations_not_replaced BEFORE INSERT ON escalations
FOR EACH ROW EXECUTE FUNCTION escalations_not_replaced();

CREATE TRIGGER escalations_are_not_removed BEFORE DELETE ON escalations
FOR EACH ROW EXECUTE FUNCTION refuse('steps are never removed');

-- ---- a yes for more than one call

CREATE TABLE standing (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    scope TEXT NOT NULL CHECK (scope IN ('task', 'agent', 'type')),
    granted_by TEXT NOT NULL REFERENCES operators (name),
    granted_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- Thirty days at the very most, whatever is configured.
    CHECK (expires_at > granted_at AND expires_at <= granted_at + 2592000000)
);

CREATE FUNCTION standing_follows_one_persons_yes() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM standing WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'a yes is never changed';
    END IF;
    IF NOT EXISTS (
        SELECT 1 FROM approvals a JOIN answers w ON w.approval = a.id
        WHERE a.id = NEW.approval AND a.state = 'approved' AND a.quorum = 1
            AND w.operator = NEW.granted_by AND w.verdict = 'approve'
    ) THEN
        RAISE EXCEPTION 'it takes the yes of the one person who was asked';
    END IF;
    IF NOT EXISTS (
        SELECT 1 FROM questions WHERE approval = NEW.approval AND safety IN ('read', 'write', 'network')
    ) THEN
        RAISE EXCEPTION 'such calls are approved one by one';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER standing_follows_one_persons_yes BEFORE INSERT ON standing
FOR EACH ROW EXECUTE FUNCTION standing_follows_one_persons_yes();

CREATE TRIGGER standing_is_not_changed BEFORE UPDATE ON standing
FOR EACH ROW EXECUTE FUNCTION refuse('a yes is never changed');

CREATE TRIGGER standing_is_not_removed BEFORE DELETE ON standing
FOR EACH ROW EXECUTE FUNCTION refuse('a yes is taken back, never removed');

-- A yes that was taken back, for one call or for more. There is no way to undo it.
CREATE TABLE revocations (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    operator TEXT NOT NULL REFERENCES operators (name),
    reason TEXT,
    revoked_at BIGINT NOT NULL
);

CREATE FUNCTION revocations_take_back_a_yes() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM revocations WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'what was taken back stays so';
    END IF;
    PERFORM 1 FROM approvals
    WHERE id = NEW.approval AND state IN ('approved', 'running', 'completed', 'failed') FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only a yes can be taken back';
    END IF;
    PERFORM 1 FROM operators
    WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin takes a yes back';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER revocations_take_back_a_yes BEFORE INSERT ON revocations
FOR EACH ROW EXECUTE FUNCTION revocations_take_back_a_yes();

CREATE TRIGGER revocations_are_not_changed BEFORE UPDATE ON revocations
FOR EACH ROW EXECUTE FUNCTION refuse('what was taken back stays so');

CREATE TRIGGER revocations_are_not_removed BEFORE DELETE ON revocations
FOR EACH ROW EXECUTE FUNCTION refuse('what was taken back stays so');

-- Which calls ran under which yes.
CREATE TABLE standing_uses (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    approval TEXT NOT NULL REFERENCES standing (approval),
    used_at BIGINT NOT NULL
);

CREATE INDEX standing_uses_by_approval ON standing_uses (approval);

-- Whoever records a use holds the write lock: what was taken back before is seen here, by every gate.
CREATE FUNCTION standing_uses_are_covered() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
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
CREATE TRIGGER standing_uses_are_covered BEFORE INSERT ON standing_uses
FOR EACH ROW EXECUTE FUNCTION standing_uses_are_covered();

CREATE TRIGGER standing_uses_are_not_changed BEFORE UPDATE ON standing_uses
FOR EACH ROW EXECUTE FUNCTION refuse('uses are never changed');

CREATE TRIGGER standing_uses_are_not_removed BEFORE DELETE ON standing_uses
FOR EACH ROW EXECUTE FUNCTION refuse('uses are never removed');

-- ---- rules that now also know who was removed, who proposed, and what was taken back

CREATE OR REPLACE FUNCTION answers_come_from_those_who_may() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM operators
    WHERE name = NEW.operator AND role IN ('approver', 'admin') AND revoked_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only an approver or an admin answers';
    END IF;
    IF EXISTS (SELECT 1 FROM questions WHERE approval = NEW.approval AND proposer = NEW.operator) THEN
        RAISE EXCEPTION 'whoever proposed a call does not answer for it';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION approvals_need_their_quorum() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    IF (SELECT count(*) FROM answers w JOIN operators o ON o.name = w.operator
        WHERE w.approval = OLD.id AND w.verdict = 'approve' AND o.revoked_at IS NULL) < OLD.quorum THEN
        RAISE EXCEPTION 'too few people have approved';
    END IF;
    IF NEW.state = 'running' AND EXISTS (SELECT 1 FROM revocations WHERE approval = OLD.id) THEN
        RAISE EXCEPTION 'the yes was taken back';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER approvals_need_their_quorum ON approvals;
CREATE TRIGGER approvals_need_their_quorum BEFORE UPDATE OF state ON approvals
FOR EACH ROW WHEN ((OLD.state = 'pending' AND NEW.state = 'approved') OR (OLD.state = 'approved' AND NEW.state = 'running'))
EXECUTE FUNCTION approvals_need_their_quorum();

-- ---- nothing is emptied

CREATE TRIGGER operators_are_not_emptied BEFORE TRUNCATE ON operators
EXECUTE FUNCTION refuse('operators are never forgotten');
CREATE TRIGGER questions_are_not_emptied BEFORE TRUNCATE ON questions
EXECUTE FUNCTION refuse('questions are never removed');
CREATE TRIGGER escalations_are_not_emptied BEFORE TRUNCATE ON escalations
EXECUTE FUNCTION refuse('steps are never removed');
CREATE TRIGGER standing_is_not_emptied BEFORE TRUNCATE ON standing
EXECUTE FUNCTION refuse('a yes is taken back, never removed');
CREATE TRIGGER revocations_are_not_emptied BEFORE TRUNCATE ON revocations
EXECUTE FUNCTION refuse('what was taken back stays so');
CREATE TRIGGER standing_uses_are_not_emptied BEFORE TRUNCATE ON standing_uses
EXECUTE FUNCTION refuse('uses are never removed');
