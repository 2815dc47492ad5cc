-- 002 transactions: rows to be locked by name within a transaction, and registers.

-- A row for each name that transactions lock (SELECT ... FOR UPDATE). That it is there is all.
CREATE TABLE {row} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 255),
    PRIMARY KEY (ns, name)
);

-- A value for each name, which is changed only by who knows its version.
CREATE TABLE {register} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 255),
    version bigint NOT NULL CHECK (version > 0), -- rises with each change; none comes twice for a name
    value bytea NOT NULL CHECK (octet_length(value) <= 65536),
    writer bytea NOT NULL CHECK (octet_length(writer) = 16), -- drawn for each change, to know it again
    updated bigint NOT NULL,                  -- microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name)
) WITH (fillfactor = 50);
