-- What questions bind: the files that a call names, as they were when people were asked about it.

CREATE TABLE seals (
    approval TEXT COLLATE "C" PRIMARY KEY REFERENCES approvals (id),
    -- Canonical JSON: what is bound, and what is not.
    operands TEXT NOT NULL,
    -- What an answer is given to.
    digest TEXT NOT NULL CHECK (length(digest) = 64)
);

CREATE FUNCTION seals_are_made_with_the_question() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$ BEGIN
    PERFORM 1 FROM approvals WHERE id = NEW.approval AND state = 'pending' FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'what a question binds is said before anybody answers';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER seals_are_made_with_the_question BEFORE INSERT ON seals
FOR EACH ROW EXECUTE FUNCTION seals_are_made_with_the_question();

CREATE FUNCTION seals_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM seals WHERE approval = NEW.approval) THEN
        RAISE EXCEPTION 'what a question binds is never changed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER seals_not_replaced BEFORE INSERT ON seals
FOR EACH ROW EXECUTE FUNCTION seals_not_replaced();

CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
FOR EACH ROW EXECUTE FUNCTION refuse('what a question binds is never changed');

CREATE TRIGGER seals_are_not_removed BEFORE DELETE ON seals
FOR EACH ROW EXECUTE FUNCTION refuse('what a question binds is never changed');

-- The copies, once each however many questions need one.
CREATE TABLE sealed_contents (
    digest TEXT COLLATE "C" PRIMARY KEY CHECK (length(digest) = 64),
    content BYTEA NOT NULL CHECK (length(content) <= 33554432)
);

CREATE TABLE sealed_files (
    approval TEXT COLLATE "C" NOT NULL REFERENCES seals (approval),
    digest TEXT COLLATE "C" NOT NULL REFERENCES sealed_contents (digest),
    PRIMARY KEY (approval, digest)
);

CREATE INDEX sealed_files_by_content ON sealed_files (digest);

CREATE TRIGGER sealed_contents_are_not_changed BEFORE UPDATE ON sealed_contents
FOR EACH ROW EXECUTE FUNCTION refuse('a sealed copy is never changed');

CREATE FUNCTION sealed_contents_not_replaced() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM sealed_contents WHERE digest = NEW.digest) THEN
        RAISE EXCEPTION 'a sealed copy is never changed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sealed_contents_not_replaced BEFORE INSERT ON sealed_contents
FOR EACH ROW EXECUTE FUNCTION sealed_contents_not_replaced();

CREATE FUNCTION sealed_contents_are_kept() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM sealed_files WHERE digest = OLD.digest) THEN
        RAISE EXCEPTION 'a sealed copy is kept until its call has ended';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER sealed_contents_are_kept BEFORE DELETE ON sealed_contents
FOR EACH ROW EXECUTE FUNCTION sealed_contents_are_kept();

CREATE TRIGGER sealed_files_are_made_with_the_question BEFORE INSERT ON sealed_files
FOR EACH ROW EXECUTE FUNCTION seals_are_made_with_the_question();

CREATE TRIGGER sealed_files_are_not_changed BEFORE UPDATE ON sealed_files
FOR EACH ROW EXECUTE FUNCTION refuse('what a question binds is never changed');

CREATE FUNCTION sealed_files_are_kept() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (
        SELECT 1 FROM approvals a JOIN calls c ON c.id = a.call WHERE a.id = OLD.approval AND c.settled_at IS NULL
    ) THEN
        RAISE EXCEPTION 'a sealed copy is kept until its call has ended';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER sealed_files_are_kept BEFORE DELETE ON sealed_files
FOR EACH ROW EXECUTE FUNCTION sealed_files_are_kept();

CREATE TRIGGER seals_are_not_emptied BEFORE TRUNCATE ON seals
EXECUTE FUNCTION refuse('what a question binds is never changed');
CREATE TRIGGER sealed_files_are_not_emptied BEFORE TRUNCATE ON sealed_files
EXECUTE FUNCTION refuse('a sealed copy is kept until its call has ended');
CREATE TRIGGER sealed_contents_are_not_emptied BEFORE TRUNCATE ON sealed_contents
EXECUTE FUNCTION refuse('a sealed copy is kept until its call has ended');
