-- After the next up versions go on from the clock.
UPDATE {meta} SET version = 1 WHERE id = 1;

DELETE FROM {migration} WHERE version = 2;

DROP TABLE {row};

DROP TABLE {register};
