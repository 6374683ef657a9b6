-- Forgets what questions bind. Those that wait bind their words alone from then on.
DROP TABLE sealed_files, sealed_contents, seals;
DROP FUNCTION seals_are_made_with_the_question, seals_not_replaced, sealed_contents_not_replaced,
    sealed_contents_are_kept, sealed_files_are_kept;
