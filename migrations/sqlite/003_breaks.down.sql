-- From now on only the lock's row remembers a break, as before 003.
UPDATE {meta} SET version = 2 WHERE id = 1;

DELETE FROM {migration} WHERE version = 3;

DROP TABLE {broken};
