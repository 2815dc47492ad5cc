-- 001 locks: leases, tokens, the server. Statements end with a semicolon at the end of a line.

-- One row for all: the schema's version, and what keeps tokens rising when their rows are deleted.
CREATE TABLE IF NOT EXISTS {meta} (
    id smallint PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,        -- of the schema; 0 after the last migration was taken down
    min_reader integer NOT NULL,     -- the oldest generation of libraries that may work here
    inc integer NOT NULL,            -- counts the servers on which this data has lived, and their starts
    server text NOT NULL,            -- identity of the present one, its start last; '' before the first
    fence_floor bigint NOT NULL,     -- every token from now on is larger: than any before this server's start,
                                     -- and than those of deleted rows
    lost_at bigint NOT NULL,         -- when a server was first met that may lack commits of another; 0: never
    longest bigint NOT NULL          -- no lease was longer, microseconds
);

-- What was applied, for people and for verify.
CREATE TABLE IF NOT EXISTS {migration} (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,          -- of the file that was applied
    applied bigint NOT NULL          -- microseconds since 1970 UTC, the server's clock
);

-- A stranger who may create here may have been quicker. What hangs on a stranger's table would run with our rights.
-- Then this fails, and its message says what is wrong.
SELECT s.fault::bigint FROM ({looked}) s WHERE s.fault IS NOT NULL;

INSERT INTO {meta} (id, version, min_reader, inc, server, fence_floor, lost_at, longest)
VALUES (1, 0, 4, 0, '', 0, 0, 0) ON CONFLICT (id) DO NOTHING;

-- A row for each name that was ever locked. A release empties the row and keeps it, so that tokens only rise.
-- Shared holders, and holders of slots, have seats: rows beside the lock's, with the lock's name, a byte 00, and the
-- seat's number in three bytes. Names that users give have no byte 00.
-- Times are microseconds since 1970 UTC by the server's running clock. There is no index on exp or token: so
-- renewals stay HOT, and the guard relies on these columns being in no key.
-- It has no CHECKs: PostgreSQL reads and compiles them anew for each statement, and five of them took a sixth of the
-- time of acquire and release. The library checks what it writes, and the tokens that it reads.
CREATE TABLE {lock} (
    ns bytea NOT NULL,                        -- at most 63 bytes
    name bytea NOT NULL,                      -- 1 to 255 bytes; of a seat: 4 more, a byte 00 and its number
    kind smallint NOT NULL DEFAULT 0,         -- 0: a lease; this version refuses other kinds
    mode smallint NOT NULL DEFAULT 0,         -- of the holder, for kinds that have several
    owner bytea,                              -- 16 bytes, drawn for each acquire; NULL: free
    token bigint NOT NULL,                    -- of the last grant; below 2^53
    exp bigint,                               -- end of the lease; NULL: free, as owner is
    since bigint,                             -- time of the grant
    label bytea,                              -- what the holder says about itself
    ttl bigint NOT NULL DEFAULT 0,            -- length of the last lease
    ended_owner bytea,                        -- the last grant that ended: its owner,
    ended_token bigint NOT NULL DEFAULT 0,    -- its token,
    ended_why smallint NOT NULL DEFAULT 0,    -- and how it ended: RELEASED 1, BROKEN 2, REAPED 3, TAKEN 4
    withdrawn bytea,                          -- an owner whose request is granted nothing if it still comes
    idle_since bigint,                        -- free since then, for the pruner; NULL: held
    waiters smallint NOT NULL DEFAULT 0,      -- 1: there are waiters, who come first
    next_ticket bigint NOT NULL DEFAULT 0,    -- of the queue: the next waiter's; 0 when none waits
    changes bigint NOT NULL DEFAULT 0,        -- counts the changes of the queue, and the seats granted
    client bytea,                             -- the holder's, if it waited in the queue
    offered smallint NOT NULL DEFAULT 0,      -- 1: the holder was offered the lock, and has not taken it up
    passes smallint NOT NULL DEFAULT 0,       -- so often in a row one client's own waiter came first
    seats integer NOT NULL DEFAULT 0,         -- 0: none but the holder. -1: shared holders, or N: of N slots, may stand in
                                              -- rows of their own
    PRIMARY KEY (ns, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who waits for a lock, in the order of tickets. A row here is made and deleted only under the lock of the name's row in
-- {lock}, and counted there (changes).
CREATE TABLE {waiter} (
    ns bytea NOT NULL,
    name bytea NOT NULL,
    ticket bigint NOT NULL,                   -- smaller ones come first
    owner bytea NOT NULL,                     -- as in {lock}: who is granted the lock
    client bytea NOT NULL,                    -- the program's manager that waits
    ttl bigint NOT NULL,                      -- the lease that it wants
    grace bigint NOT NULL,                    -- after a loss it is offered nothing for so long
    label bytea,                              -- as in {lock}
    since bigint NOT NULL,                    -- it waits since then
    mode integer NOT NULL DEFAULT 0,          -- what it wants: 0 the lock alone, -1 a shared one, N: one of N slots
    PRIMARY KEY (ns, name, ticket)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- To find all waiters of a client, and its first one for a name.
CREATE INDEX {prefix}waiter_client ON {waiter} (client, ns, name, ticket);

-- The managers that wait for locks. Each says that it lives as long as it waits.
CREATE TABLE {client} (
    id bytea PRIMARY KEY,                     -- 16 bytes, drawn for each manager
    alive_until bigint NOT NULL,              -- after that its waiters are passed over
    session smallint NOT NULL                 -- 1: alive only while its session holds the advisory lock of its number
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
