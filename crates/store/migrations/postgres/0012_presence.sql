-- What operators prove themselves with besides their credential. The ledger tells who has which, by digests; these rows hold
-- what it only names, and count for nothing where it does not.
CREATE TABLE operator_passwords (
    operator TEXT NOT NULL PRIMARY KEY REFERENCES operators (name),
    -- argon2id, with its own salt, as a PHC string.
    verifier TEXT NOT NULL CHECK (verifier LIKE '$argon2id$%'),
    set_at BIGINT NOT NULL
);

-- How often an authenticator says that it was used. One that says less than before was copied.
CREATE TABLE passkey_uses (
    id TEXT NOT NULL PRIMARY KEY,
    operator TEXT NOT NULL REFERENCES operators (name),
    uses BIGINT NOT NULL CHECK (uses >= 0)
);

-- Who tried to sign in and has not succeeded since, so that guessing does not start over with the gate.
CREATE TABLE sign_in_failures (
    account TEXT NOT NULL,
    tried_at BIGINT NOT NULL
);
CREATE INDEX sign_in_failures_by_time ON sign_in_failures (tried_at);
