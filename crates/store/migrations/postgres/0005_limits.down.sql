-- Forgets how often agents have called.
DROP TABLE floods, spent;
DROP FUNCTION spent_is_counted_in_order, spent_is_kept_an_hour;
