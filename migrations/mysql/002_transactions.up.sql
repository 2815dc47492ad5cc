-- 002 transactions: rows to be locked by name within a transaction, and registers.

CREATE TABLE IF NOT EXISTS {row} (
    -- A row for each name that transactions lock (SELECT ... FOR UPDATE). That it is there is all.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(255) NOT NULL CHECK (octet_length(name) >= 1),
    PRIMARY KEY (ns, name)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {register} (
    -- A value for each name, which is changed only by who knows its version.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(255) NOT NULL CHECK (octet_length(name) >= 1),
    version BIGINT NOT NULL CHECK (version > 0), -- rises with each change; none comes twice for a name
    value MEDIUMBLOB NOT NULL CHECK (octet_length(value) <= 65536),
    writer VARBINARY(16) NOT NULL CHECK (octet_length(writer) = 16), -- drawn for each change, to know it again
    updated BIGINT NOT NULL,                  -- microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name)
) ENGINE = InnoDB;
