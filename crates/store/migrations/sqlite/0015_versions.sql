-- Of a tool that comes from somewhere the newest versions are kept, and not every one that its author ever thought of. What is
-- listed is kept, and so is every version of our own tools; what was pinned is kept by whoever reads the ledger.
DROP TRIGGER tool_versions_are_not_removed;

CREATE TRIGGER tool_versions_are_not_removed BEFORE DELETE ON tool_versions
WHEN NOT EXISTS (SELECT 1 FROM tools WHERE name = OLD.name AND source <> '' AND hash <> OLD.hash)
    OR (SELECT count(*) FROM tool_versions WHERE name = OLD.name AND seen_at >= OLD.seen_at) <= 20
BEGIN SELECT RAISE(ABORT, 'the newest versions of a tool are never removed'); END;
