-- 002 transactions: registers, and rows that transactions lock by name.

CREATE TABLE IF NOT EXISTS {row} (
    -- A row for each name that transactions lock (SELECT ... FOR UPDATE). It holds nothing else.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(255) NOT NULL CHECK (octet_length(name) >= 1),
    PRIMARY KEY (ns, name)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {register} (
    -- A value for each name. Only a caller that knows its version changes it.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(255) NOT NULL CHECK (octet_length(name) >= 1),
    version BIGINT NOT NULL CHECK (version > 0), -- rises with each change; none comes twice for a name
    value MEDIUMBLOB NOT NULL CHECK (octet_length(value) <= 65536),
    writer VARBINARY(16) NOT NULL CHECK (octet_length(writer) = 16), -- drawn for each change, to recognize it
    updated BIGINT NOT NULL,                  -- microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name)
) ENGINE = InnoDB;
