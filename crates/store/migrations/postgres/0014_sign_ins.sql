-- What the gate has to show servers that it is signed in to, sealed under the gate's own key.
CREATE TABLE sign_ins (
    server TEXT NOT NULL PRIMARY KEY,
    sealed BYTEA NOT NULL,
    changed_at BIGINT NOT NULL
);
