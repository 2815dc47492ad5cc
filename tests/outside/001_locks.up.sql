-- 001 locks: all that leases need. Times are microseconds since 1970 UTC.

CREATE TABLE {meta} (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,    -- of the schema
    min_reader INTEGER NOT NULL, -- the generation of libraries that may work here
    floor INTEGER NOT NULL       -- no token of a deleted row was larger
) STRICT;

INSERT INTO {meta} (id, version, min_reader, floor) VALUES (1, 0, 4, 0);

CREATE TABLE {migration} (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied INTEGER NOT NULL
) STRICT;

CREATE TABLE {lock} (
    -- A row for each name that was ever locked. A release empties it.
    ns BLOB NOT NULL,
    name BLOB NOT NULL,
    owner BLOB,             -- NULL: free
    token INTEGER NOT NULL, -- of the last grant
    exp INTEGER,            -- end of its lease; NULL: free
    since INTEGER,          -- time of the grant
    label BLOB,             -- what the holder says about itself
    last_owner BLOB,        -- the last grant that ended: its owner,
    last_token INTEGER,     -- its token,
    last_end INTEGER,       -- and how, as an outcome
    withdrawn BLOB,         -- an owner that is granted nothing any more
    idle INTEGER,           -- free since then
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;
