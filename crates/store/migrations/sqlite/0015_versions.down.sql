-- Keeps every version again. What was removed is gone.
DROP TRIGGER tool_versions_are_not_removed;

CREATE TRIGGER tool_versions_are_not_removed BEFORE DELETE ON tool_versions
BEGIN SELECT RAISE(ABORT, 'versions of a tool are never removed'); END;
