-- A call has fewer pages written.

-- The same request is looked for among the calls that wait, and those are few: `calls_waiting` has them.
DROP INDEX call_keys_by_request;
-- What is not settled waits or is under way: `calls_waiting` and `calls_under_way` have both.
DROP INDEX calls_unsettled;
