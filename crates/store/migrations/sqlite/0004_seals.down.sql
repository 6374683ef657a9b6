-- Forgets what questions bind. Those that wait bind their words alone from then on.
DROP TABLE sealed_files;
DROP TABLE sealed_contents;
DROP TABLE seals;
