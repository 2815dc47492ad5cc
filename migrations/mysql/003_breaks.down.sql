-- Each can be run again. Breaks from now on are remembered as before 003.
UPDATE {meta} SET version = LEAST(version, 2) WHERE id = 1;

DROP TABLE IF EXISTS {broken};

DELETE FROM {migration} WHERE version = 3;
