-- Forgets which messages were taken, and who was told.
DROP TABLE notices;
DROP TABLE deliveries;
