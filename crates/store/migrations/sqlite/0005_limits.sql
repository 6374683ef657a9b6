-- How often agents have called, for limits that outlive a restart and hold for all gates on one store.

CREATE TABLE spent (
    agent TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('run', 'refuse')),
    -- Counts the agent's calls of this kind, without gaps.
    number INTEGER NOT NULL CHECK (number >= 1),
    tool TEXT NOT NULL,
    -- When, in milliseconds since 1970, by the clock as it stands now.
    at INTEGER NOT NULL,
    PRIMARY KEY (agent, kind, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX spent_by_tool ON spent (agent, kind, tool, at);

CREATE TRIGGER spent_is_counted_in_order BEFORE INSERT ON spent
BEGIN
    SELECT RAISE(ABORT, 'what is spent is counted without gaps')
    WHERE NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM spent WHERE agent = NEW.agent AND kind = NEW.kind);
    SELECT RAISE(ABORT, 'what is spent later is not earlier')
    WHERE NEW.at < (SELECT at FROM spent WHERE agent = NEW.agent AND kind = NEW.kind ORDER BY number DESC LIMIT 1);
END;

-- Only the times move, and only back: with a clock that was set back.
CREATE TRIGGER spent_stays_spent BEFORE UPDATE ON spent
WHEN NEW.agent IS NOT OLD.agent OR NEW.kind IS NOT OLD.kind OR NEW.number IS NOT OLD.number
    OR NEW.tool IS NOT OLD.tool OR NEW.at > OLD.at
BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END;

-- An hour at least, whatever the limits are: one that is configured later counts what was before.
CREATE TRIGGER spent_is_kept_an_hour BEFORE DELETE ON spent
WHEN OLD.at > (SELECT at FROM spent WHERE agent = OLD.agent AND kind = OLD.kind ORDER BY number DESC LIMIT 1) - 3600000
BEGIN SELECT RAISE(ABORT, 'what is spent is kept for an hour'); END;

-- Agents whose refused calls are too many to be recorded one by one.
CREATE TABLE floods (
    agent TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    unrecorded INTEGER NOT NULL CHECK (unrecorded >= 1)
) STRICT;
