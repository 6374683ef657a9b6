-- Of a tool that comes from somewhere the newest versions are kept, and not every one that its author ever thought of. What is
-- listed is kept, and so is every version of our own tools; what was pinned is kept by whoever reads the ledger.
DROP TRIGGER tool_versions_are_not_removed ON tool_versions;

CREATE FUNCTION tool_versions_are_not_removed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM tools WHERE name = OLD.name AND source <> '' AND hash <> OLD.hash)
        OR (SELECT count(*) FROM tool_versions WHERE name = OLD.name AND seen_at >= OLD.seen_at) <= 20 THEN
        RAISE EXCEPTION 'the newest versions of a tool are never removed';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER tool_versions_are_not_removed BEFORE DELETE ON tool_versions
FOR EACH ROW EXECUTE FUNCTION tool_versions_are_not_removed();
