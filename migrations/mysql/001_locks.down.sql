-- Taking 001 down keeps meta, and the largest token in its floor: tokens go on rising after a later up.
-- The table locks keep grants out between reading the largest token and the drop; should the session
-- die in between, they are gone and all of it can be run again.
LOCK TABLES {lock} WRITE, {meta} WRITE, {migration} WRITE;

UPDATE {meta} SET version = 0,
    fence_floor = greatest(fence_floor,
        (SELECT coalesce(max(token), 0) FROM {lock})) WHERE id = 1;

DELETE FROM {migration} WHERE version = 1;

DROP TABLE {lock};

UNLOCK TABLES;
