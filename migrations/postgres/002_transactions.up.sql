-- 002 transactions: registers, and rows that transactions lock by name.

-- A row for each name that transactions lock (SELECT ... FOR UPDATE). It holds nothing else.
CREATE TABLE {row} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 255),
    PRIMARY KEY (ns, name)
);

-- A value for each name. Only a caller that knows its version changes it.
CREATE TABLE {register} (
    ns bytea NOT NULL CHECK (octet_length(ns) <= 63),
    name bytea NOT NULL CHECK (octet_length(name) >= 1 AND octet_length(name) <= 255),
    version bigint NOT NULL CHECK (version > 0), -- rises with each change; none comes twice for a name
    value bytea NOT NULL CHECK (octet_length(value) <= 65536),
    writer bytea NOT NULL CHECK (octet_length(writer) = 16), -- drawn for each change, to recognize it
    updated bigint NOT NULL,                  -- microseconds since 1970 UTC, the server's clock
    PRIMARY KEY (ns, name)
) WITH (fillfactor = 50);
