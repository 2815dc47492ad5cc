-- Each can be run again. After the next up versions go on from the clock.
UPDATE {meta} SET version = LEAST(version, 1) WHERE id = 1;

DROP TABLE IF EXISTS {row};

DROP TABLE IF EXISTS {register};

DELETE FROM {migration} WHERE version = 2;
