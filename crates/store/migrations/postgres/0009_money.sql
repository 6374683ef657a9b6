-- What calls cost: the same tables, rules and messages as in ../sqlite/0009_money.sql.

CREATE TABLE spending (
    what TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    task TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    reserved BIGINT NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (what, day, agent, tool, task)
);

CREATE TABLE charges (
    call TEXT COLLATE "C" NOT NULL REFERENCES calls (id),
    what TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    task TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    currency TEXT COLLATE "C" NOT NULL,
    quoted BIGINT NOT NULL CHECK (quoted >= 0),
    counted BIGINT CHECK (counted >= 0),
    PRIMARY KEY (call, what)
);

CREATE FUNCTION charges_begin_as_reserved() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NEW.counted IS NOT NULL OR EXISTS (SELECT 1 FROM charges WHERE call = NEW.call AND what = NEW.what) THEN
        RAISE EXCEPTION 'what a call takes is reserved once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER charges_begin_as_reserved BEFORE INSERT ON charges
FOR EACH ROW EXECUTE FUNCTION charges_begin_as_reserved();

CREATE FUNCTION charges_are_added_up() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO spending (what, day, agent, task, tool, spent, reserved)
    SELECT NEW.what, NEW.day, NEW.agent, NEW.task, NEW.tool, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM spending
        WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent AND tool = NEW.tool AND task = NEW.task);
    UPDATE spending SET reserved = reserved + NEW.quoted
    WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent AND tool = NEW.tool AND task = NEW.task;
    RETURN NULL;
END $$;
CREATE TRIGGER charges_are_added_up AFTER INSERT ON charges
FOR EACH ROW EXECUTE FUNCTION charges_are_added_up();

CREATE TRIGGER charges_are_counted_once BEFORE UPDATE ON charges
FOR EACH ROW WHEN (OLD.counted IS NOT NULL OR NEW.counted IS NULL OR NEW.call IS DISTINCT FROM OLD.call
    OR NEW.what IS DISTINCT FROM OLD.what OR NEW.day IS DISTINCT FROM OLD.day OR NEW.agent IS DISTINCT FROM OLD.agent
    OR NEW.task IS DISTINCT FROM OLD.task OR NEW.tool IS DISTINCT FROM OLD.tool
    OR NEW.currency IS DISTINCT FROM OLD.currency OR NEW.quoted IS DISTINCT FROM OLD.quoted)
EXECUTE FUNCTION refuse('what a call takes is counted once');

CREATE FUNCTION charges_are_spent() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    UPDATE spending SET reserved = reserved - OLD.quoted, spent = spent + NEW.counted
    WHERE what = OLD.what AND day = OLD.day AND agent = OLD.agent AND tool = OLD.tool AND task = OLD.task;
    RETURN NULL;
END $$;
CREATE TRIGGER charges_are_spent AFTER UPDATE ON charges
FOR EACH ROW EXECUTE FUNCTION charges_are_spent();

CREATE TRIGGER charges_are_kept_until_counted BEFORE DELETE ON charges
FOR EACH ROW WHEN (OLD.counted IS NULL)
EXECUTE FUNCTION refuse('what is reserved is kept until it is counted');

CREATE TRIGGER charges_are_not_emptied BEFORE TRUNCATE ON charges
EXECUTE FUNCTION refuse('what is reserved is kept until it is counted');

CREATE FUNCTION spending_begins_once() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF EXISTS (SELECT 1 FROM spending WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent
        AND tool = NEW.tool AND task = NEW.task)
    THEN
        RAISE EXCEPTION 'what was spent stays spent';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER spending_begins_once BEFORE INSERT ON spending
FOR EACH ROW EXECUTE FUNCTION spending_begins_once();

CREATE TRIGGER spending_only_grows BEFORE UPDATE ON spending
FOR EACH ROW WHEN (NEW.what IS DISTINCT FROM OLD.what OR NEW.day IS DISTINCT FROM OLD.day
    OR NEW.agent IS DISTINCT FROM OLD.agent OR NEW.task IS DISTINCT FROM OLD.task
    OR NEW.tool IS DISTINCT FROM OLD.tool OR NEW.spent < OLD.spent)
EXECUTE FUNCTION refuse('what was spent stays spent');

CREATE TRIGGER spending_is_kept BEFORE DELETE ON spending
FOR EACH ROW EXECUTE FUNCTION refuse('what was spent stays spent');

CREATE TRIGGER spending_is_not_emptied BEFORE TRUNCATE ON spending
EXECUTE FUNCTION refuse('what was spent stays spent');
