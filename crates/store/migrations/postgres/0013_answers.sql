-- Messages of chats that were taken, until they are too old to be taken anyway. None is taken twice.
CREATE TABLE deliveries (
    digest TEXT PRIMARY KEY,
    until BIGINT NOT NULL
);
CREATE INDEX deliveries_by_end ON deliveries (until);

CREATE TRIGGER deliveries_stay BEFORE UPDATE ON deliveries
FOR EACH ROW EXECUTE FUNCTION refuse('what was taken was taken');

-- Who was told of a question, by which channel: -1 is that it was asked, others are steps of its escalation.
CREATE TABLE notices (
    approval TEXT NOT NULL REFERENCES approvals (id),
    step BIGINT NOT NULL,
    channel TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- Not before then is it tried again: whoever tries has it until then.
    next_at BIGINT NOT NULL,
    ended_at BIGINT,
    outcome TEXT CHECK (outcome IN ('sent', 'failed', 'moot')),
    PRIMARY KEY (approval, step, channel),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX notices_open ON notices (channel, next_at) WHERE ended_at IS NULL;

CREATE TRIGGER notices_end_once BEFORE UPDATE ON notices
FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL)
EXECUTE FUNCTION refuse('a notice ends once');
