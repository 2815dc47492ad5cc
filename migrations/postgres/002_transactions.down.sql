-- The tables come first, because programs lock them before the meta row. The largest version goes into meta's floor,
-- so that versions go on rising after a later up.
LOCK TABLE {row}, {register} IN ACCESS EXCLUSIVE MODE;

UPDATE {meta} SET version = 1,
    fence_floor = greatest(fence_floor,
        (SELECT coalesce(max(r.version), 0) FROM {register} r)) WHERE id = 1;

DELETE FROM {migration} WHERE version = 2;

DROP TABLE {row}, {register};
