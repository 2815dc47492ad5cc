-- The tables first, as programs take them before the meta row. After the next up versions go on from
-- the clock.
LOCK TABLE {row}, {register} IN ACCESS EXCLUSIVE MODE;

UPDATE {meta} SET version = 1 WHERE id = 1;

DELETE FROM {migration} WHERE version = 2;

DROP TABLE {row}, {register};
