-- Forgets what was spent.
DROP TABLE charges;
DROP TABLE spending;
