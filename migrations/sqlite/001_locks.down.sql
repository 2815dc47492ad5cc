-- Taking 001 down keeps meta, and the largest token in its floor: tokens go on rising after a later up.
-- To each is added what its row's next grant would add for the incarnations since: a server that was lost
-- may have granted it, and given away larger tokens than the row shows.
UPDATE {meta} SET version = 0,
    fence_floor = max(fence_floor,
        (SELECT coalesce(max(token + ({meta}.inc - inc) * 4294967296), 0) FROM {lock})) WHERE id = 1;

DELETE FROM {migration} WHERE version = 1;

DROP TABLE {lock};
