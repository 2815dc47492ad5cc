-- The table comes first, because programs lock it before the meta row. From now on only the lock's row remembers a
-- break, as before 003.
LOCK TABLE {broken} IN ACCESS EXCLUSIVE MODE;

UPDATE {meta} SET version = 2 WHERE id = 1;

DELETE FROM {migration} WHERE version = 3;

DROP TABLE {broken};
