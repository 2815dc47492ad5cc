-- Each statement can be run again. From now on only the lock's row remembers a break, as before 003.
UPDATE {meta} SET version = LEAST(version, 2) WHERE id = 1;

DROP TABLE IF EXISTS {broken};

DELETE FROM {migration} WHERE version = 3;
