-- How often agents have called: the same tables, rules and messages as in ../sqlite/0005_limits.sql.

CREATE TABLE spent (
    agent TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('run', 'refuse')),
    -- Counts the agent's calls of this kind, without gaps.
    number BIGINT NOT NULL CHECK (number >= 1),
    tool TEXT COLLATE "C" NOT NULL,
    -- When, in milliseconds since 1970, by the clock as it stands now.
    at BIGINT NOT NULL,
    PRIMARY KEY (agent, kind, number)
);

CREATE INDEX spent_by_tool ON spent (agent, kind, tool, at);

CREATE FUNCTION spent_is_counted_in_order() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM spent WHERE agent = NEW.agent AND kind = NEW.kind) THEN
        RAISE EXCEPTION 'what is spent is counted without gaps';
    END IF;
    IF NEW.at < (SELECT at FROM spent WHERE agent = NEW.agent AND kind = NEW.kind ORDER BY number DESC LIMIT 1) THEN
        RAISE EXCEPTION 'what is spent later is not earlier';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER spent_is_counted_in_order BEFORE INSERT ON spent
FOR EACH ROW EXECUTE FUNCTION spent_is_counted_in_order();

-- Only the times move, and only back: with a clock that was set back.
CREATE TRIGGER spent_stays_spent BEFORE UPDATE ON spent
FOR EACH ROW WHEN (NEW.agent IS DISTINCT FROM OLD.agent OR NEW.kind IS DISTINCT FROM OLD.kind
    OR NEW.number IS DISTINCT FROM OLD.number OR NEW.tool IS DISTINCT FROM OLD.tool OR NEW.at > OLD.at)
EXECUTE FUNCTION refuse('what is spent stays spent');

-- An hour at least, whatever the limits are: one that is configured later counts what was before.
CREATE FUNCTION spent_is_kept_an_hour() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF OLD.at > (SELECT at FROM spent WHERE agent = OLD.agent AND kind = OLD.kind ORDER BY number DESC LIMIT 1) - 3600000
    THEN
        RAISE EXCEPTION 'what is spent is kept for an hour';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER spent_is_kept_an_hour BEFORE DELETE ON spent
FOR EACH ROW EXECUTE FUNCTION spent_is_kept_an_hour();

CREATE TRIGGER spent_is_not_emptied BEFORE TRUNCATE ON spent
EXECUTE FUNCTION refuse('what is spent is kept for an hour');

-- Agents whose refused calls are too many to be recorded one by one.
CREATE TABLE floods (
    agent TEXT COLLATE "C" PRIMARY KEY,
    since BIGINT NOT NULL,
    unrecorded BIGINT NOT NULL CHECK (unrecorded >= 1)
);
