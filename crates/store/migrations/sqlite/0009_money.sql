-- What calls cost: reserved when a call is recorded, counted when it has ended, and added up by the day, so that budgets
-- outlive a restart and hold for all gates on one store.

-- What was added up: what was spent stays, whatever the budgets are.
CREATE TABLE spending (
    -- calls, cost, or argument: and where it stands
    what TEXT NOT NULL,
    -- in days since 1970, by UTC
    day INTEGER NOT NULL,
    agent TEXT NOT NULL,
    -- empty where none was named
    task TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- calls, or millionths
    spent INTEGER NOT NULL CHECK (spent >= 0),
    reserved INTEGER NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (what, day, agent, tool, task)
) STRICT, WITHOUT ROWID;

-- What calls that have not ended may take. When they have, it is in the sums, and here no longer: what an argument says
-- is the call's own.
CREATE TABLE charges (
    call TEXT NOT NULL REFERENCES calls (id),
    what TEXT NOT NULL,
    day INTEGER NOT NULL,
    agent TEXT NOT NULL,
    task TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- empty where there are no prices
    currency TEXT NOT NULL,
    quoted INTEGER NOT NULL CHECK (quoted >= 0),
    -- nothing as long as it is only reserved
    counted INTEGER CHECK (counted >= 0),
    PRIMARY KEY (call, what)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER charges_begin_as_reserved BEFORE INSERT ON charges
BEGIN
    SELECT RAISE(ABORT, 'what a call takes is reserved once') WHERE NEW.counted IS NOT NULL
        OR EXISTS (SELECT 1 FROM charges WHERE call = NEW.call AND what = NEW.what);
END;

CREATE TRIGGER charges_are_added_up AFTER INSERT ON charges
BEGIN
    INSERT INTO spending (what, day, agent, task, tool, spent, reserved)
    SELECT NEW.what, NEW.day, NEW.agent, NEW.task, NEW.tool, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM spending
        WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent AND tool = NEW.tool AND task = NEW.task);
    UPDATE spending SET reserved = reserved + NEW.quoted
    WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent AND tool = NEW.tool AND task = NEW.task;
END;

CREATE TRIGGER charges_are_counted_once BEFORE UPDATE ON charges
WHEN OLD.counted IS NOT NULL OR NEW.counted IS NULL OR NEW.call IS NOT OLD.call OR NEW.what IS NOT OLD.what
    OR NEW.day IS NOT OLD.day OR NEW.agent IS NOT OLD.agent OR NEW.task IS NOT OLD.task OR NEW.tool IS NOT OLD.tool
    OR NEW.currency IS NOT OLD.currency OR NEW.quoted IS NOT OLD.quoted
BEGIN SELECT RAISE(ABORT, 'what a call takes is counted once'); END;

CREATE TRIGGER charges_are_spent AFTER UPDATE ON charges
BEGIN
    UPDATE spending SET reserved = reserved - OLD.quoted, spent = spent + NEW.counted
    WHERE what = OLD.what AND day = OLD.day AND agent = OLD.agent AND tool = OLD.tool AND task = OLD.task;
END;

CREATE TRIGGER charges_are_kept_until_counted BEFORE DELETE ON charges
WHEN OLD.counted IS NULL
BEGIN SELECT RAISE(ABORT, 'what is reserved is kept until it is counted'); END;

CREATE TRIGGER spending_begins_once BEFORE INSERT ON spending
BEGIN
    SELECT RAISE(ABORT, 'what was spent stays spent') WHERE EXISTS (SELECT 1 FROM spending
        WHERE what = NEW.what AND day = NEW.day AND agent = NEW.agent AND tool = NEW.tool AND task = NEW.task);
END;

CREATE TRIGGER spending_only_grows BEFORE UPDATE ON spending
WHEN NEW.what IS NOT OLD.what OR NEW.day IS NOT OLD.day OR NEW.agent IS NOT OLD.agent OR NEW.task IS NOT OLD.task
    OR NEW.tool IS NOT OLD.tool OR NEW.spent < OLD.spent
BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END;

CREATE TRIGGER spending_is_kept BEFORE DELETE ON spending
BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END;
