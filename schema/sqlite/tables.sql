-- The schema of SQLite as it is today: what all migrations together build (a test compares them).

CREATE TABLE IF NOT EXISTS {meta} (
    -- One row for all: the schema's version, and what keeps tokens rising when their rows are deleted.
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,        -- of the schema; 0 after the last migration was taken down
    min_reader INTEGER NOT NULL,     -- the oldest generation of libraries that may work here
    inc INTEGER NOT NULL,            -- counts servers, on other databases; always 0 for a file
    server TEXT NOT NULL,            -- identity of the server, on other databases
    fence_floor INTEGER NOT NULL     -- no token of a deleted row was larger
) STRICT;

INSERT INTO {meta} (id, version, min_reader, inc, server, fence_floor)
VALUES (1, 0, 4, 0, 'file', 0) ON CONFLICT (id) DO NOTHING;

CREATE TABLE IF NOT EXISTS {migration} (
    -- What was applied, for people and for verify.
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,          -- of the file that was applied
    applied INTEGER NOT NULL         -- milliseconds since 1970 UTC
) STRICT;

CREATE TABLE {lock} (
    -- A row for each name that was ever locked. A release empties the row and keeps it, so that tokens
    -- only rise. Times are milliseconds since 1970 UTC. Names and owners are blobs and nothing else.
    ns BLOB NOT NULL CHECK (length(ns) <= 63),
    name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 259), -- a seat's is 4 bytes longer
    kind INTEGER NOT NULL DEFAULT 0,          -- 0: a lease; this version refuses other kinds
    mode INTEGER NOT NULL DEFAULT 0,          -- of the holder, for kinds that have several
    owner BLOB CHECK (length(owner) = 16),    -- drawn for each acquire; NULL: free
    token INTEGER NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991), -- of the last grant
    exp INTEGER,                              -- end of the lease; NULL: free
    since INTEGER,                            -- time of the grant
    label BLOB,                               -- what the holder says about itself
    ttl INTEGER NOT NULL DEFAULT 0,           -- length of the last lease
    ended_owner BLOB,                         -- the last grant that ended: its owner,
    ended_token INTEGER NOT NULL DEFAULT 0,   -- its token,
    ended_why INTEGER NOT NULL DEFAULT 0,     -- and how it ended: RELEASED 1, BROKEN 2, REAPED 3, TAKEN 4
    withdrawn BLOB,                           -- an owner whose request is granted nothing if it still comes
    idle_since INTEGER,                       -- free since then, for the pruner; NULL: held
    waiters INTEGER NOT NULL DEFAULT 0,       -- 1: there are waiters, who come first
    next_ticket INTEGER NOT NULL DEFAULT 0,   -- of the queue: the next waiter's; 0 when none waits
    changes INTEGER NOT NULL DEFAULT 0,       -- counts the changes of the queue
    client BLOB,                              -- the holder's, if it waited in the queue
    offered INTEGER NOT NULL DEFAULT 0,       -- 1: the holder was offered the lock, and has not taken it up
    passes INTEGER NOT NULL DEFAULT 0,        -- so often in a row one client's own waiter came first
    seats INTEGER NOT NULL DEFAULT 0,         -- 0: none but the holder; -1: shared holders, N: those of N slots may have
                                              -- rows of their own: the name, a byte 00, and three of their number
    PRIMARY KEY (ns, name),
    CHECK ((owner IS NULL) = (exp IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE {waiter} (
    -- Who waits for a lock, in the order of tickets. A row here is made and deleted only by a transaction that
    -- counts it in the name's row of {lock} (changes).
    ns BLOB NOT NULL CHECK (length(ns) <= 63),
    name BLOB NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    ticket INTEGER NOT NULL,                  -- smaller ones come first
    owner BLOB NOT NULL CHECK (length(owner) = 16), -- as in {lock}: who is granted the lock
    client BLOB NOT NULL,                     -- the program's manager that waits
    ttl INTEGER NOT NULL,                     -- the lease that it wants
    grace INTEGER NOT NULL,                   -- of other databases; a file loses no grants
    label BLOB,                               -- as in {lock}
    since INTEGER NOT NULL,                   -- it waits since then
    mode INTEGER NOT NULL DEFAULT 0,          -- what it wants: 0 the lock alone, -1 a shared one, N: one of N slots
    PRIMARY KEY (ns, name, ticket)
) STRICT, WITHOUT ROWID;

-- To find all waiters of a client, and its first one for a name.
CREATE INDEX {schema}.{prefix}waiter_client ON {prefix}waiter (client, ns, name, ticket);

CREATE TABLE {client} (
    -- The managers that wait for locks. Each says that it lives as long as it waits.
    id BLOB PRIMARY KEY,                      -- 16 bytes, drawn for each manager
    alive_until INTEGER NOT NULL,             -- after that its waiters are passed over
    session INTEGER NOT NULL                  -- of other databases; always 0 for a file
) STRICT, WITHOUT ROWID;

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
