-- The largest version goes into meta's floor, so that versions go on rising after a later up.
UPDATE {meta} SET version = 1,
    fence_floor = max(fence_floor,
        (SELECT coalesce(max(r.version), 0) FROM {register} AS r)) WHERE id = 1;

DELETE FROM {migration} WHERE version = 2;

DROP TABLE {row};

DROP TABLE {register};
