-- 003 breaks: what was broken, for holders that look when others have come and gone.

CREATE TABLE IF NOT EXISTS {broken} (
    -- A note of each break, for a month: longer than any lease. The lock's row remembers only the last
    -- grant that ended, and the broken holder may look when others have come and gone.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(259) NOT NULL CHECK (octet_length(name) >= 1),
    token BIGINT NOT NULL CHECK (token > 0),  -- of the grant that was broken
    noted BIGINT NOT NULL,                    -- when: microseconds since 1970 UTC, or
                                              -- less than 0: someone was about to do it then
    PRIMARY KEY (ns, name, token),
    KEY noted (noted)                         -- to find the old notes that go
) ENGINE = InnoDB;
