-- Taking 001 down keeps meta, and the largest token in its floor: tokens go on rising after a later up.
-- To each is added what its row's next grant would add for the incarnations since: a server that was lost
-- may have granted it, and given away larger tokens than the row shows.
-- The table locks keep grants out between reading the largest token and the drop; should the session
-- die in between, they are gone and all of it can be run again.
LOCK TABLES {lock} WRITE, {meta} WRITE, {migration} WRITE;

UPDATE {meta} SET version = 0,
    fence_floor = greatest(fence_floor,
        (SELECT coalesce(max(token + ({meta}.inc - inc) * 4294967296), 0) FROM {lock})) WHERE id = 1;

DELETE FROM {migration} WHERE version = 1;

DROP TABLE {lock};

UNLOCK TABLES;
