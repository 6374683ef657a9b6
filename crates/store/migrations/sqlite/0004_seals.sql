-- What questions bind: the files that a call names, as they were when people were asked about it.

CREATE TABLE seals (
    approval TEXT PRIMARY KEY REFERENCES approvals (id),
    -- Canonical JSON: what is bound, and what is not.
    operands TEXT NOT NULL,
    -- What an answer is given to.
    digest TEXT NOT NULL CHECK (length(digest) = 64)
) STRICT;

CREATE TRIGGER seals_are_made_with_the_question BEFORE INSERT ON seals
WHEN NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.approval AND state = 'pending')
    OR EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'what a question binds is said before anybody answers'); END;

CREATE TRIGGER seals_not_replaced BEFORE INSERT ON seals
WHEN EXISTS (SELECT 1 FROM seals WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'what a question binds is never changed'); END;

CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
BEGIN SELECT RAISE(ABORT, 'what a question binds is never changed'); END;

CREATE TRIGGER seals_are_not_removed BEFORE DELETE ON seals
BEGIN SELECT RAISE(ABORT, 'what a question binds is never changed'); END;

-- The copies, once each however many questions need one.
CREATE TABLE sealed_contents (
    digest TEXT PRIMARY KEY CHECK (length(digest) = 64),
    content BLOB NOT NULL CHECK (length(content) <= 33554432)
) STRICT;

CREATE TABLE sealed_files (
    approval TEXT NOT NULL REFERENCES seals (approval),
    digest TEXT NOT NULL REFERENCES sealed_contents (digest),
    PRIMARY KEY (approval, digest)
) STRICT;

CREATE INDEX sealed_files_by_content ON sealed_files (digest);

CREATE TRIGGER sealed_contents_are_not_changed BEFORE UPDATE ON sealed_contents
BEGIN SELECT RAISE(ABORT, 'a sealed copy is never changed'); END;

CREATE TRIGGER sealed_contents_not_replaced BEFORE INSERT ON sealed_contents
WHEN EXISTS (SELECT 1 FROM sealed_contents WHERE digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'a sealed copy is never changed'); END;

CREATE TRIGGER sealed_contents_are_kept BEFORE DELETE ON sealed_contents
WHEN EXISTS (SELECT 1 FROM sealed_files WHERE digest = OLD.digest)
BEGIN SELECT RAISE(ABORT, 'a sealed copy is kept until its call has ended'); END;

CREATE TRIGGER sealed_files_are_made_with_the_question BEFORE INSERT ON sealed_files
WHEN NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.approval AND state = 'pending')
    OR EXISTS (SELECT 1 FROM answers WHERE approval = NEW.approval)
BEGIN SELECT RAISE(ABORT, 'what a question binds is said before anybody answers'); END;

CREATE TRIGGER sealed_files_are_not_changed BEFORE UPDATE ON sealed_files
BEGIN SELECT RAISE(ABORT, 'what a question binds is never changed'); END;

CREATE TRIGGER sealed_files_are_kept BEFORE DELETE ON sealed_files
WHEN EXISTS (
    SELECT 1 FROM approvals a JOIN calls c ON c.id = a.call WHERE a.id = OLD.approval AND c.settled_at IS NULL
)
BEGIN SELECT RAISE(ABORT, 'a sealed copy is kept until its call has ended'); END;
