-- As it was: with the indexes, and with lists in the rules.
CREATE INDEX call_keys_by_request ON call_keys (same_request);
CREATE INDEX calls_unsettled ON calls (asked_at) WHERE settled_at IS NULL;

CREATE TABLE receipts_by_call (
    call TEXT PRIMARY KEY REFERENCES calls (id),
    seq INTEGER NOT NULL UNIQUE REFERENCES ledger (seq),
    envelope TEXT NOT NULL
) STRICT;

INSERT INTO receipts_by_call (call, seq, envelope) SELECT call, seq, envelope FROM receipts ORDER BY seq;

DROP TABLE receipts;
PRAGMA legacy_alter_table = ON;
ALTER TABLE receipts_by_call RENAME TO receipts;
PRAGMA legacy_alter_table = OFF;

CREATE TRIGGER receipts_are_not_changed BEFORE UPDATE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;

CREATE TRIGGER receipts_are_not_removed BEFORE DELETE ON receipts
BEGIN SELECT RAISE(ABORT, 'receipts are never removed'); END;

CREATE TRIGGER receipts_not_replaced BEFORE INSERT ON receipts
WHEN EXISTS (SELECT 1 FROM receipts WHERE call = NEW.call OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'receipts are never replaced'); END;

DROP TRIGGER calls_begin_open;
CREATE TRIGGER calls_begin_open BEFORE INSERT ON calls
WHEN NEW.status NOT IN ('planned', 'waiting', 'running')
BEGIN SELECT RAISE(ABORT, 'a call begins as planned, waiting or running'); END;

DROP TRIGGER calls_take_known_ways;
CREATE TRIGGER calls_take_known_ways BEFORE UPDATE OF status ON calls
WHEN NOT (
    (OLD.status = 'planned' AND NEW.status IN ('running', 'refused', 'failed', 'cancelled'))
    OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'refused', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('completed', 'failed', 'cancelled', 'unknown'))
)
BEGIN SELECT RAISE(ABORT, 'a call cannot take this way'); END;

DROP TRIGGER calls_end_with_a_receipt;
CREATE TRIGGER calls_end_with_a_receipt BEFORE UPDATE OF status ON calls
WHEN NEW.status NOT IN ('planned', 'waiting', 'running')
    AND NOT EXISTS (SELECT 1 FROM receipts WHERE call = NEW.id)
BEGIN SELECT RAISE(ABORT, 'a call ends with a receipt'); END;

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql,
    'status = ''planned'' OR status = ''waiting'' OR status = ''running'' OR status = ''completed''
        OR status = ''failed'' OR status = ''refused'' OR status = ''cancelled'' OR status = ''unknown''',
    'status IN
        (''planned'', ''waiting'', ''running'', ''completed'', ''failed'', ''refused'', ''cancelled'', ''unknown'')'),
    'status = ''planned'' OR status = ''waiting'' OR status = ''running''',
    'status IN (''planned'', ''waiting'', ''running'')'),
    'decision = ''run'' OR decision = ''ask'' OR decision = ''refuse''',
    'decision IN (''run'', ''ask'', ''refuse'')'),
    'safety = ''read'' OR safety = ''write'' OR safety = ''network'' OR safety = ''financial'' OR safety = ''privileged''',
    'safety IN (''read'', ''write'', ''network'', ''financial'', ''privileged'')')
WHERE type = 'table' AND name = 'calls';

UPDATE sqlite_schema SET sql = replace(sql,
    'kind = ''asked'' OR kind = ''result'' OR kind = ''raw'' OR kind = ''artifact'' OR kind = ''found''',
    'kind IN (''asked'', ''result'', ''raw'', ''artifact'', ''found'')')
WHERE type = 'table' AND name = 'private';

PRAGMA writable_schema = RESET;
