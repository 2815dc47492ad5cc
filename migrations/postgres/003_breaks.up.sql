-- 003 breaks: what was broken, for holders who ask when others have come and gone.

-- A note of each break, for a month: longer than any lease. The row remembers the last grant that ended, and
-- the broken holder may ask only when others have come and gone.
CREATE TABLE {broken} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 255),
    token bigint NOT NULL CHECK (token > 0),  -- of the grant that was broken
    noted bigint NOT NULL,                    -- when: microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name, token)
);

-- For who takes old notes away.
CREATE INDEX {prefix}broken_noted ON {broken} (noted);
