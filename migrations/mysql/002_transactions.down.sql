-- Each statement can be run again. Versions go on rising after a later up, because the largest one goes into meta's
-- floor. The table locks keep sets out between the look for it and the drop. If the session dies in between, they
-- are gone.
CREATE TABLE IF NOT EXISTS {register} (version BIGINT NOT NULL);

LOCK TABLES {register} WRITE, {meta} WRITE;

UPDATE {meta} SET version = LEAST(version, 1),
    fence_floor = greatest(fence_floor,
        (SELECT coalesce(max({register}.version), 0) FROM {register})) WHERE id = 1;

DROP TABLE {register};

UNLOCK TABLES;

DROP TABLE IF EXISTS {row};

DELETE FROM {migration} WHERE version = 2;
