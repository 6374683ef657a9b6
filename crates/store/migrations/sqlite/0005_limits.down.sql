-- Forgets how often agents have called.
DROP TABLE floods;
DROP TABLE spent;
