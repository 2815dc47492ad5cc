-- The table first, as programs take it before the meta row. Breaks from now on are remembered as before 003.
LOCK TABLE {broken} IN ACCESS EXCLUSIVE MODE;

UPDATE {meta} SET version = 2 WHERE id = 1;

DELETE FROM {migration} WHERE version = 3;

DROP TABLE {broken};
