-- 001 locks: leases, tokens, the server. Statements end with a semicolon at the end of a line.
-- DDL commits by itself here. So every statement can be run again, after any of them was cut off.

CREATE TABLE IF NOT EXISTS {meta} (
    -- One row for all: the schema's version, and what keeps tokens rising when their rows are deleted.
    id TINYINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version INT NOT NULL,            -- of the schema; 0 after the last migration was taken down
    min_reader INT NOT NULL,         -- the oldest generation of libraries that may work here
    inc INT NOT NULL,                -- counts the servers on which this data has lived, and their starts
    server VARBINARY(512) NOT NULL,  -- identity of the present one, its start first; empty before the first
    fence_floor BIGINT NOT NULL,     -- every token from now on is larger: than any before this server's start,
                                     -- and than those of deleted rows
    lost_at BIGINT NOT NULL,         -- when a server was first met that may lack commits of another; 0: never
    longest BIGINT NOT NULL          -- no lease was longer, microseconds
) ENGINE = InnoDB;

INSERT INTO {meta} (id, version, min_reader, inc, server, fence_floor, lost_at, longest)
VALUES (1, 0, 4, 0, '', 0, 0, 0) ON DUPLICATE KEY UPDATE id = 1;

CREATE TABLE IF NOT EXISTS {migration} (
    -- What was applied, for people and for verify.
    version INT NOT NULL PRIMARY KEY,
    name VARBINARY(255) NOT NULL,
    checksum VARBINARY(64) NOT NULL, -- of the file that was applied
    applied BIGINT NOT NULL          -- microseconds since 1970 UTC, the server's clock
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {waiter} (
    -- Who waits for a lock, in the order of tickets. A row here is made and deleted only under the lock of the
    -- name's row in {lock}, and counted there (changes).
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(255) NOT NULL,
    ticket BIGINT NOT NULL,                   -- smaller ones come first
    owner VARBINARY(16) NOT NULL,             -- as in {lock}: who is granted the lock
    client VARBINARY(16) NOT NULL,            -- the program's manager that waits
    ttl BIGINT NOT NULL,                      -- the lease that it wants
    grace BIGINT NOT NULL,                    -- after a loss it is offered nothing for so long
    label VARBINARY(1024),                    -- as in {lock}
    since BIGINT NOT NULL,                    -- it waits since then
    mode INT NOT NULL DEFAULT 0,              -- what it wants: 0 the lock alone, -1 a shared one, N: one of N slots
    PRIMARY KEY (ns, name, ticket),
    KEY by_client (client, ns, name, ticket)  -- to find all waiters of a client, and its first one for a name
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {client} (
    -- The managers that wait for locks. Each says that it lives as long as it waits.
    id VARBINARY(16) NOT NULL PRIMARY KEY,    -- drawn for each manager
    alive_until BIGINT NOT NULL,              -- after that its waiters are passed over
    session SMALLINT NOT NULL                 -- 1: it is notified by its session; here there is nothing like it
) ENGINE = InnoDB;

-- Last: a migrator that finds it takes its lease in it, and those above for made.
CREATE TABLE IF NOT EXISTS {lock} (
    -- A row for each name that was ever locked. A release empties the row and keeps it, so that tokens
    -- only rise. Times are microseconds since 1970 UTC by the server's running clock. A guard locks an
    -- entry of nt. A grant changes that entry (it draws a token), a renewal or release does not. A drain
    -- changes those of all seats.
    -- In REPEATABLE READ that lock reaches to the entry before it. Tokens descend there: so the next entry of a
    -- name comes before its last one, and not into what the guard of another name has locked.
    -- A shared holder, or the holder of a slot, has a row of its own, a seat: its name is the lock's, a byte 00, and
    -- the seat's number in three bytes.
    ns VARBINARY(63) NOT NULL,
    name VARBINARY(259) NOT NULL CHECK (octet_length(name) >= 1),
    kind SMALLINT NOT NULL DEFAULT 0,         -- 0: a lease; this version refuses other kinds
    mode SMALLINT NOT NULL DEFAULT 0,         -- of the holder, for kinds that have several
    owner VARBINARY(16) CHECK (octet_length(owner) = 16), -- drawn for each acquire; NULL: free
    token BIGINT NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991), -- of the last grant
    exp BIGINT,                               -- end of the lease; NULL: free
    since BIGINT,                             -- time of the grant
    label VARBINARY(1024),                    -- what the holder says about itself
    ttl BIGINT NOT NULL DEFAULT 0,            -- length of the last lease
    ended_owner VARBINARY(16),                -- the last grant that ended: its owner,
    ended_token BIGINT NOT NULL DEFAULT 0,    -- its token,
    ended_why SMALLINT NOT NULL DEFAULT 0,    -- and how it ended: RELEASED 1, BROKEN 2, REAPED 3, TAKEN 4
    withdrawn VARBINARY(16),                  -- an owner whose request is granted nothing if it still comes
    idle_since BIGINT,                        -- free since then, for the pruner; NULL: held
    waiters SMALLINT NOT NULL DEFAULT 0,      -- 1: there are waiters, who come first
    next_ticket BIGINT NOT NULL DEFAULT 0,    -- of the queue: the next waiter's; 0 when none waits
    changes BIGINT NOT NULL DEFAULT 0,        -- counts the changes of the queue
    client VARBINARY(16),                     -- the holder's, if it waited in the queue
    offered SMALLINT NOT NULL DEFAULT 0,      -- 1: the holder was offered the lock, and has not taken it up
    passes SMALLINT NOT NULL DEFAULT 0,       -- so often in a row one client's own waiter came first
    seats INT NOT NULL DEFAULT 0,             -- 0: none but the holder. -1: shared holders, or N: of N slots, may
                                              -- stand in rows of their own
    PRIMARY KEY (ns, name),
    UNIQUE KEY nt (ns, name, token DESC),
    CHECK ((owner IS NULL) = (exp IS NULL))
) ENGINE = InnoDB;
