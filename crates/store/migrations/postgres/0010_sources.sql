-- Where a tool comes from, such as `mcp:files`; empty for our own. A name stays with the source that had it first.
ALTER TABLE tools ADD COLUMN source TEXT NOT NULL DEFAULT '';
