-- As it was: with the indexes.
CREATE INDEX call_keys_by_request ON call_keys (same_request);
CREATE INDEX calls_unsettled ON calls (asked_at) WHERE settled_at IS NULL;
