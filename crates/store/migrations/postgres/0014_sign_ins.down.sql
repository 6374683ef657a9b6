-- Forgets every sign-in: somebody has to sign in again.
DROP TABLE sign_ins;
