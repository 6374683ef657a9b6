-- A call has fewer pages written, and is checked without a table being made for each list that a rule looks in.

-- ---- indexes that no question needs

-- The same request is looked for among the calls that wait, and those are few: `calls_waiting` has them.
DROP INDEX call_keys_by_request;
-- What is not settled waits or is under way: `calls_waiting` and `calls_under_way` have both.
DROP INDEX calls_unsettled;

-- ---- receipts lie in the order of the ledger: one index less to be kept

CREATE TABLE receipts_in_order (
    call TEXT NOT NULL UNIQUE REFERENCES calls (id),
    seq INTEGER PRIMARY KEY REFERENCES ledger (seq),
    envelope TEXT NOT NULL
) STRICT;

INSERT INTO receipts_in_order (call, seq, envelope) SELECT call, seq, envelope FROM receipts ORDER BY seq;

DROP TABLE receipts;
-- Rules of calls speak of receipts, and mean these from now on.
PRAGMA legacy_alter_table = ON;
ALTER TABLE receipts_in_order RENAME TO receipts;
PRAGMA legacy_alter_table = OFF;

CREATE TRIGGER receipts_are_not_changed BEFORE UPDATE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;

CREATE TRIGGER receipts_are_not_removed BEFORE DELETE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never removed'); END;

CREATE TRIGGER receipts_not_replaced BEFORE INSERT ON receipts
WHEN EXISTS (SELECT 1 FROM receipts WHERE call = NEW.call OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'receipts are never replaced'); END;

-- SQLite would choose a place for one that has none.
CREATE TRIGGER receipts_have_their_place BEFORE INSERT ON receipts
WHEN NEW.seq IS NULL OR NEW.seq < 0
BEGIN SELECT RAISE(ABORT, 'a receipt is of an entry of the ledger'); END;

-- ---- the same rules, in words that SQLite compares one by one
--
-- For a list of three and more after `IN` it makes a table, fills it, and drops it again, for every row that is written.

DROP TRIGGER calls_begin_open;
CREATE TRIGGER calls_begin_open BEFORE INSERT ON calls
WHEN NOT (NEW.status = 'planned' OR NEW.status = 'waiting' OR NEW.status = 'running')
BEGIN SELECT RAISE(ABORT, 'a call begins as planned, waiting or running'); END;

DROP TRIGGER calls_take_known_ways;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
WHEN NOT (
    (OLD.status = 'planned' AND (NEW.status = 'running' OR NEW.status = 'refused' OR NEW.status = 'failed'
        OR NEW.status = 'cancelled'))
    OR (OLD.status = 'waiting' AND (NEW.status = 'running' OR NEW.status = 'refused' OR NEW.status = 'cancelled'))
    OR (OLD.status = 'running' AND (NEW.status = 'completed' OR NEW.status = 'failed' OR NEW.status = 'cancelled'
        OR NEW.status = 'unknown'))
)
BEGIN SELECT RAISE(ABORT, 'a call cannot take this way'); END;

DROP TRIGGER calls_end_with_a_receipt;
CREATE TRIGGER calls_end_with_a_receipt BEFORE UPDATE OF status ON calls
WHEN NOT (NEW.status = 'planned' OR NEW.status = 'waiting' OR NEW.status = 'running')
    AND NOT EXISTS (SELECT 1 FROM receipts WHERE call = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a call ends with a receipt'); END;

-- The checks of two tables, in their definitions: what they hold stays where it is. SQLite's own documentation has this for
-- changes that no row notices.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql,
    'status IN
        (''planned'', ''waiting'', ''running'', ''completed'', ''failed'', ''refused'', ''cancelled'', ''unknown'')',
    'status = ''planned'' OR status = ''waiting'' OR status = ''running'' OR status = ''completed''
        OR status = ''failed'' OR status = ''refused'' OR status = ''cancelled'' OR status = ''unknown'''),
    'status IN (''planned'', ''waiting'', ''running'')',
    'status = ''planned'' OR status = ''waiting'' OR status = ''running'''),
    'decision IN (''run'', ''ask'', ''refuse'')',
    'decision = ''run'' OR decision = ''ask'' OR decision = ''refuse'''),
    'safety IN (''read'', ''write'', ''network'', ''financial'', ''privileged'')',
    'safety = ''read'' OR safety = ''write'' OR safety = ''network'' OR safety = ''financial'' OR safety = ''privileged''')
WHERE type = 'table' AND name = 'calls';

UPDATE sqlite_schema SET sql = replace(sql,
    'kind IN (''asked'', ''result'', ''raw'', ''artifact'', ''found'')',
    'kind = ''asked'' OR kind = ''result'' OR kind = ''raw'' OR kind = ''artifact'' OR kind = ''found''')
WHERE type = 'table' AND name = 'private';

PRAGMA writable_schema = RESET;
