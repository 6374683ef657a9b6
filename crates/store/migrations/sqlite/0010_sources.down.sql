-- Forgets where tools come from.
ALTER TABLE tools DROP COLUMN source;
