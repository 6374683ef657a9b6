-- Forgets what was spent.
DROP TABLE charges, spending;
DROP FUNCTION charges_begin_as_reserved, charges_are_added_up, charges_are_spent, spending_begins_once;
