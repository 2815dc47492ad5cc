-- 002 transactions: registers, and rows that transactions lock by name.

CREATE TABLE {row} (
    -- A row for each name that transactions lock. Here a write transaction locks everything, and the
    -- row only says that its name was used.
    ns BLOB NOT NULL CHECK (length(ns) <= 63),
    name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE {register} (
    -- A value for each name. Only a caller that knows its version changes it. Values are long: a table
    -- with rowids keeps them out of the way of a search for a name.
    ns BLOB NOT NULL CHECK (length(ns) <= 63),
    name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    version INTEGER NOT NULL CHECK (version > 0), -- rises with each change; none comes twice for a name
    value BLOB NOT NULL CHECK (length(value) <= 65536),
    writer BLOB NOT NULL CHECK (length(writer) = 16), -- drawn for each change, to recognize it
    updated INTEGER NOT NULL,                 -- milliseconds since 1970 UTC
    PRIMARY KEY (ns, name)
) STRICT;
