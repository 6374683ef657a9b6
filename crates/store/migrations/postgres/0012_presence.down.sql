-- Nobody signs in by password or passkey any more; credentials and links stay.
DROP TABLE sign_in_failures;
DROP TABLE passkey_uses;
DROP TABLE operator_passwords;
