-- 003 breaks: what was broken, for holders that look when others have come and gone.

CREATE TABLE {broken} (
    -- A note of each break, for a month: longer than any lease. The lock's row remembers only the last
    -- grant that ended, and the broken holder may look when others have come and gone.
    ns BLOB NOT NULL CHECK (length(ns) <= 63),
    name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 259),
    token INTEGER NOT NULL CHECK (token > 0), -- of the grant that was broken
    noted INTEGER NOT NULL,                   -- when: milliseconds since 1970 UTC
    PRIMARY KEY (ns, name, token)
) STRICT, WITHOUT ROWID;

-- To find the old notes that go.
CREATE INDEX {schema}.{prefix}broken_noted ON {prefix}broken (noted);
