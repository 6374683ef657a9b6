-- Forgets what floods that go on were made of.
ALTER TABLE floods DROP COLUMN digest;
