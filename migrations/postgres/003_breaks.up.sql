-- 003 breaks: what was broken, for holders that look when others have come and gone.

-- A note of each break, for a month: longer than any lease. The lock's row remembers only the last grant that
-- ended, and the broken holder may look when others have come and gone.
CREATE TABLE {broken} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 259), -- a seat's is longer
    token bigint NOT NULL CHECK (token > 0),  -- of the grant that was broken
    noted bigint NOT NULL,                    -- when: microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name, token)
);

-- To find the old notes that go.
CREATE INDEX {prefix}broken_noted ON {broken} (noted);
