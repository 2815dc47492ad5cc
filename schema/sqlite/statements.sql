-- sqlock's statements for SQLite 3.37 and newer. How this file is read: schema/README.md.
-- Steps marked `write` run in one BEGIN IMMEDIATE ... COMMIT: one writer at a time, so that the decisions
-- are serial by themselves. The one index that serves all is the primary key (ns, name).
-- What is asked often does not answer by RETURNING, for which SQLite makes a temporary table with 87 KB of
-- memory each time: the next step, in the same transaction, asks changes() whether the write was done.

-- Milliseconds. SQLite keeps 'now' the same within one step and takes it after the wait for the write
-- lock; unixepoch('subsec') would be NULL before 3.42, without an error.
-- :define now CAST(strftime('%s','now') || substr(strftime('%f','now'), 4) AS INTEGER)
-- No token and no version of a register is below this; and with which one a register begins.
-- :define least_token {now} * 1000
-- Nothing takes over from a file.
-- :define not_overtaken (:above IS NOT NULL)
-- :define first_version max({now} * 1000 + abs(random() % 1000), m.fence_floor + 1)
-- For how long notes of breaks are kept: longer than any lease lasts.
-- :define month 2678400000

-- :block handshake
-- Which schema this file has. Weak durability and read-only files are the driver's to see.
-- :step
SELECT 0, {DONE}, 0, 0, {now} * 1000
WHERE :accept_weak IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now} * 1000, 1 FROM {meta} WHERE id = 1;

-- :block reincarnate
-- A file has no server that could be another one, and a file that was put back shows nothing of it: here tokens follow
-- the clock all the time. Never asked for.
-- :step
SELECT 0, {DONE} WHERE :server IS NULL AND :lift IS NULL AND :floor IS NULL;

-- :block longest
-- Nobody waits for what a server has lost. Never asked for.
-- :step
SELECT 0, {DONE} WHERE :ttl IS NULL;

-- :block acquire
-- The first step only reads: while the lock is held by somebody else, waiting writes nothing and takes
-- no write lock. The second grants the lock if its row is missing, free, run out, or ours (the same
-- request sent again), and not_after has not passed; the last says why it did not. No row: meta has none.
-- A token is above the row's and the floor's, and no smaller than the clock: so tokens rise also where a copy of the
-- file is put back, which nothing in it tells; so there is no grace either.
-- :step
SELECT 0, CASE WHEN kind <> 0 THEN {KIND} ELSE {HELD} END, token, (exp - {now}) * 1000, {now} * 1000,
       since * 1000, label
FROM {lock}
WHERE ns = :ns AND name = :name
  AND (kind <> 0 OR owner IS NOT NULL AND owner <> :owner AND exp > {now});
-- :step write
INSERT INTO {lock} AS l (ns, name, owner, token, exp, ttl, since, label)
SELECT :ns, :name, :owner, max(m.fence_floor + 1, {least_token}), {now} + :ttl / 1000, :ttl / 1000, {now}, :label
FROM {meta} m WHERE m.id = 1 AND {now} * 1000 <= :not_after AND :grace IS NOT NULL
ON CONFLICT (ns, name) DO UPDATE SET
    token = CASE WHEN l.owner = excluded.owner AND l.exp > {now} THEN l.token
                 ELSE max(l.token + 1, excluded.token) END,
    since = CASE WHEN l.owner = excluded.owner AND l.exp > {now} THEN l.since ELSE excluded.since END,
    ended_owner = CASE WHEN l.owner IS NULL OR l.owner = excluded.owner AND l.exp > {now}
                       THEN l.ended_owner ELSE l.owner END,
    ended_token = CASE WHEN l.owner IS NULL OR l.owner = excluded.owner AND l.exp > {now}
                       THEN l.ended_token ELSE l.token END,
    ended_why = CASE WHEN l.owner IS NULL OR l.owner = excluded.owner AND l.exp > {now}
                     THEN l.ended_why ELSE {ENDED_TAKEN} END,
    owner = excluded.owner, exp = excluded.exp, ttl = excluded.ttl, label = excluded.label, idle_since = NULL
WHERE l.kind = 0 AND (l.owner IS NULL OR l.owner = excluded.owner OR l.exp <= {now})
  AND (l.ended_why <> {ENDED_RELEASED} OR l.ended_owner IS NOT excluded.owner) AND l.withdrawn IS NOT excluded.owner;
-- :step write
SELECT 0,
       CASE WHEN changes() = 1 THEN {DONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN {now} * 1000 > :not_after THEN {LATE}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN h.owner IS NOT NULL AND h.owner <> :owner AND h.exp > {now} THEN {HELD}
            ELSE {SKIPPED} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000, h.since * 1000, h.label
FROM {meta} m LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block guarded
-- A guard is a write transaction here: who asks waits for it. Never a row.
-- :step
SELECT 0, {GUARDED} WHERE :ns IS NULL AND :name IS NULL AND :owner IS NULL;

-- :block renew
-- Extends a lease that has not run out, for its exact grant. exp is set, not raised: after the clock was
-- put back, a raised one would last for as long as the step. Always one row for each request.
-- :step write
UPDATE {lock} SET exp = {now} + :ttl / 1000, ttl = :ttl / 1000
WHERE ns = :ns AND name = :name AND kind = 0
  AND owner = :owner AND token = :token AND exp > {now} AND {now} * 1000 <= :not_after;
-- :step write
SELECT 0,
       CASE WHEN changes() = 1 THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN {now} * 1000 > :not_after THEN {LATE}
            WHEN h.owner = :owner AND h.token = :token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = :owner AND h.token = :token THEN {EXPIRED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block release
-- Frees the row for its exact grant and remembers how it ended, so that the same release sent again is
-- answered with 1. Always one row.
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token;
-- :step write
SELECT 0,
       CASE WHEN changes() = 1 THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE h.ended_why WHEN {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block withdraw
-- The release of an acquire whose answer is not known: gives back what this owner was granted, and makes
-- its request, which may still be on its way, grant nothing when it comes (5): a tombstone, withdrawn,
-- which the first step writes, in a row that it makes where there is none. How the last grant ended stays: its
-- holder may not have asked yet.
-- 1: it was granted, and is given back. 15: it is not there yet. The tombstone is no proof against a
-- later one, for another who withdraws takes its place; so only when not_after has passed is it 14, no
-- sign of this owner for ever. The row counts as idle from now on: the pruner, who may have been about to
-- take it, would take the tombstone with it. No row: meta has none.
-- :step write
INSERT INTO {lock} AS l (ns, name, token, idle_since, withdrawn)
SELECT :ns, :name, m.fence_floor, {now}, :owner FROM {meta} m WHERE m.id = 1
ON CONFLICT (ns, name) DO UPDATE SET
    ended_token = CASE WHEN l.owner = :owner THEN l.token ELSE l.ended_token END,
    ended_owner = CASE WHEN l.owner = :owner THEN l.owner ELSE l.ended_owner END,
    ended_why = CASE WHEN l.owner = :owner THEN {ENDED_RELEASED} ELSE l.ended_why END,
    withdrawn = :owner,
    idle_since = CASE WHEN l.owner IS NULL OR l.owner = :owner THEN {now} END,
    since = CASE WHEN l.owner = :owner THEN NULL ELSE l.since END,
    label = CASE WHEN l.owner = :owner THEN NULL ELSE l.label END,
    exp = CASE WHEN l.owner = :owner THEN NULL ELSE l.exp END,
    owner = CASE WHEN l.owner = :owner THEN NULL ELSE l.owner END
WHERE l.kind = 0 AND (l.owner = :owner OR l.withdrawn IS NOT :owner);
-- :step write
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN h.ended_owner = :owner THEN {DONE}
            WHEN {now} * 1000 <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM {meta} m LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block break
-- As release, by token alone: what an operator does to a grant whose holder is dead. Asked again after
-- a lost reply, 6 is that it was broken before; 8, others came and went since, and nobody can tell any
-- more. Always one row.
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_BROKEN}, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner IS NOT NULL AND token = :token
RETURNING 0, {DONE}, token, NULL, {now} * 1000;
-- :step write
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block list
-- A page in byte order after the name `after`; names that start with prefix; free = 1: free rows too.
-- :step
SELECT 0, {DONE}, token, (exp - {now}) * 1000, {now} * 1000, since * 1000, label, name, owner
FROM {lock}
WHERE ns = :ns AND name > :after AND name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix
  AND kind = 0 AND (:free = 1 OR owner IS NOT NULL)
ORDER BY ns, name LIMIT :limit;

-- :block sweep
-- A page of the whole table in key order, after (ns, after); the rows in it that ran out at least `grace`
-- ago (10), or have been free for `idle` (16); and the page itself (1): how many rows, and the last key.
-- It only reads, and `limit` rows at most: without WAL a reader keeps a commit out.
-- :step
WITH p AS MATERIALIZED (
    SELECT ns, name, kind, owner, token, exp, idle_since, waiters, next_ticket
    FROM {lock}
    WHERE (ns, name) > (:ns, :after) AND ns <> :own
    ORDER BY ns, name LIMIT :limit
)
SELECT 0, {EXPIRED}, p.token, (p.exp - {now}) * 1000, {now} * 1000, NULL, NULL, p.name, p.ns
FROM p
WHERE p.kind = 0 AND p.exp <= {now} - :grace / 1000
UNION ALL
SELECT 0, {IDLE}, p.token, (p.idle_since - {now}) * 1000, {now} * 1000, p.idle_since * 1000, NULL, p.name, p.ns
FROM p
WHERE p.kind = 0 AND p.owner IS NULL AND p.waiters = 0 AND p.next_ticket = 0
  AND p.idle_since <= {now} - :idle / 1000
UNION ALL
SELECT 0, {DONE}, (SELECT count(*) FROM p), NULL, {now} * 1000, NULL, NULL, z.name, z.ns
FROM (SELECT 1) LEFT JOIN (SELECT ns, name FROM p ORDER BY ns DESC, name DESC LIMIT 1) z;

-- :block reap
-- Frees the rows from (ns, name) to (to_ns, to) whose lease ran out before cut, `limit` at most, and remembers
-- it, so that their holders are told. Whoever renewed one or took it over since the page was read was
-- quicker: the predicate is asked again under the write lock. Every other writer waits meanwhile: it is brief.
-- No row: there was nothing to free; else one for each.
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_REAPED}, idle_since = {now}
WHERE (ns, name) IN (
    SELECT ns, name FROM {lock}
    WHERE (ns, name) >= (:ns, :name) AND (ns, name) <= (:to_ns, :to) AND ns <> :own
      AND kind = 0 AND exp <= :cut / 1000 AND exp <= {now}
    ORDER BY ns, name LIMIT :limit)
RETURNING 0, {DONE}, 1, NULL, {now} * 1000;

-- :block prune
-- Deletes a row that has been free since before cut. Tokens go on rising: whoever makes the row again
-- starts from the floor, which is raised first to `floor`, the largest token of the batch, and nothing
-- above it is deleted. One in use for a queue is left alone.
-- No row: there was nothing to delete.
-- :step write
UPDATE {meta} SET fence_floor = :floor WHERE id = 1 AND fence_floor < :floor;
-- :step write
DELETE FROM {lock}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner IS NULL
  AND waiters = 0 AND next_ticket = 0 AND idle_since <= :cut / 1000 AND idle_since <= {now}
  AND token <= (SELECT fence_floor FROM {meta} WHERE id = 1)
RETURNING 0, {DONE}, token;

-- :block migrate_lock
-- The write transaction around a migration is the lock.
-- :step
SELECT 0, {DONE};

-- :block migrate_version
-- Who can make tables in the file can do all else to it too, so :changes tells nothing here.
-- :step
SELECT 0, {DONE}, 0, 0, {now} * 1000
WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now} * 1000 FROM {meta} WHERE id = 1 AND :changes IS NOT NULL;

-- :block migrate_record
-- The meta row says what is applied. done = 0: only the record, before a step that is not a transaction;
-- one above meta's version was begun and not ended, and is written anew.
-- :step write
INSERT INTO {migration} (version, name, checksum, applied)
VALUES (:version, :name, :checksum, {now})
ON CONFLICT (version) DO UPDATE
SET name = excluded.name, checksum = excluded.checksum, applied = excluded.applied;
-- :step write
UPDATE {meta} SET version = max(version, :version) WHERE id = 1 AND :done = 1;

-- :block migrate_ledger
-- All records. 0: there is no table for them.
-- :step
SELECT 0, {NONE}
WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}migration');
-- :step
SELECT 0, {DONE}, version, name, checksum, applied * 1000 FROM {migration} WHERE :changes IS NOT NULL ORDER BY version;

-- :block migrate_differ
-- What the tables have not of what tables.sql says, a row each. No row: they have all of it. Columns first;
-- then unique indexes that there should not be; then CHECKs, by their number in the table's text, which is
-- all that SQLite tells of them.
-- :step
SELECT 0, {DONE}, t.name IS NOT NULL,
       CASE WHEN t.name IS NULL THEN 'there is no table ' || e.tab
            WHEN a.name IS NULL THEN 'table ' || e.tab || ' has no column ' || e.col
            ELSE 'column ' || e.col || ' of table ' || e.tab || CASE
                WHEN upper(a.type) <> e.type THEN ' is ' || a.type || ', not ' || e.type
                WHEN (a."notnull" OR a.pk) < e.must THEN ' may be NULL'
                WHEN (a."notnull" OR a.pk) > e.must THEN ' may not be NULL'
                ELSE ' is not at its place in the primary key' END END,
       e.since
FROM ({columns}) e
LEFT JOIN sqlite_master t ON t.type = 'table' AND t.name = '{prefix}' || e.tab
LEFT JOIN pragma_table_info('{prefix}' || e.tab, 'main') a ON a.name = e.col
WHERE CASE WHEN t.name IS NULL THEN e.pk = 1
      ELSE a.name IS NULL OR upper(a.type) <> e.type OR (a."notnull" OR a.pk) <> e.must OR a.pk <> e.pk END
ORDER BY e.pos;
-- :step
SELECT 0, {DONE}, 1, 'table ' || e.tab || ' has an index that is not ours, ' || i.name
       || ', which lets no two rows be equal'
FROM ({tables}) e JOIN pragma_index_list('{prefix}' || e.tab, 'main') i
WHERE i."unique" AND i.origin <> 'pk'
ORDER BY e.tab, i.name;
-- :step
SELECT 0, {DONE}, 1, 'table ' || c.tab || ' has ' || c.has || ' CHECKs, not ' || c.checks
FROM (SELECT x.tab, x.checks, (length(x.sql) - length(replace(x.sql, 'CHECK(', ''))) / 6 AS has
      FROM (SELECT e.tab, e.checks, replace(replace(upper(t.sql), ' ', ''), char(10), '') AS sql
            FROM ({tables}) e
            JOIN sqlite_master t ON t.type = 'table' AND t.name = '{prefix}' || e.tab) x) c
WHERE c.has <> c.checks
ORDER BY c.tab;

-- :block migrate_close
-- The write transaction around a migration keeps everybody out. No row.
-- :step
SELECT 0, {DONE} WHERE 0;

-- :block migrate_held
-- How many leases run outside of a namespace (our own), and the name of one. No row: none.
-- :step
SELECT 0, {DONE}, count(*) OVER (), name
FROM {lock} WHERE owner IS NOT NULL AND exp > {now} AND ns <> :ns LIMIT 1;

-- :block migrate_lease
-- The write transaction around a migration is the guard here. Never asked for.
-- :step
SELECT 0, {DONE} WHERE :ns IS NULL AND :name IS NULL AND :owner IS NULL AND :ttl IS NULL AND :label IS NULL;

-- :block migrate_around
-- Before and behind migrations that are written out as text.
-- :step
BEGIN IMMEDIATE;
-- :step
COMMIT;

-- :block guard
-- In the application's transaction: proves the lease, and extends it; the extension counts once it is
-- committed. That it is a write is what keeps every grant out: there is one writer. A guard that only
-- read would keep out nobody. Always one row.
-- :step write
UPDATE {lock} SET exp = max(exp, {now} + :ttl / 1000)
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token AND exp > {now}
RETURNING 0, {DONE}, token, (exp - {now}) * 1000, {now} * 1000;
-- :step write
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token THEN {EXPIRED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block probe
-- A guard is a write transaction here: what it keeps out waits for it, and finds none. Always one row.
-- :step
SELECT 0, {DONE} WHERE :ns IS NOT NULL AND :name IS NOT NULL AND :token IS NOT NULL;

-- :block ensure
-- Makes the row that transactions lock by this name, if it is not there. Looking for it takes no write lock.
-- No row: it was deleted in between, ask again.
-- :step
SELECT 0, {DONE}, NULL, NULL, {now} * 1000 FROM {row} WHERE ns = :ns AND name = :name;
-- :step write
INSERT INTO {row} (ns, name) VALUES (:ns, :name) ON CONFLICT (ns, name) DO NOTHING RETURNING 0, {DONE};
-- :step write
SELECT 0, {DONE}, NULL, NULL, {now} * 1000 FROM {row} WHERE ns = :ns AND name = :name;

-- :block register_get
-- Always one row; 9: there is no such register, whose version is 0.
-- :step
SELECT 0, CASE WHEN r.name IS NULL THEN {GONE} ELSE {DONE} END, coalesce(r.version, 0), NULL, {now} * 1000, r.value
FROM (SELECT 1) LEFT JOIN {register} r ON r.ns = :ns AND r.name = :name;

-- :block register_set
-- Changes a register whose version is `expected` (0: that is not there), and not_after has not passed.
-- The writer stays with what it wrote: the same request sent again, after its reply was lost, is told 1, until
-- somebody else has changed the register since. 18 and 9 are final: no version comes twice for a name. A new
-- one begins at the clock, so that it lies above those of a row that was deleted, and all follow it, as tokens do. The
-- clock knows milliseconds, and versions are microseconds as elsewhere: chance fills what is missing of a new one.
-- The second step makes a register that is not there, if that was asked for; the last one tells why nothing
-- was done. No row: meta has none.
-- :step write
UPDATE {register} AS r SET
    version = max(r.version + 1, {least_token}), value = :value, writer = :writer, updated = {now}
WHERE r.ns = :ns AND r.name = :name AND r.version = :expected AND {now} * 1000 <= :not_after AND {not_overtaken}
RETURNING 0, {DONE}, version, NULL, {now} * 1000;
-- :step write
INSERT INTO {register} (ns, name, version, value, writer, updated)
SELECT :ns, :name, {first_version}, :value, :writer, {now}
FROM {meta} AS m WHERE m.id = 1 AND :expected = 0 AND {now} * 1000 <= :not_after AND {not_overtaken}
ON CONFLICT (ns, name) DO NOTHING
RETURNING 0, {DONE}, version, NULL, {now} * 1000;
-- :step write
SELECT 0,
       CASE WHEN h.writer = :writer THEN {DONE}
            WHEN h.version <> :expected THEN {CONFLICT}
            WHEN h.name IS NULL AND :expected <> 0 THEN {GONE}
            WHEN NOT {not_overtaken} THEN {STRANGER}
            WHEN {now} * 1000 > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       coalesce(h.version, 0), NULL, {now} * 1000
FROM {meta} m LEFT JOIN {register} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block table_key
-- In the application's transaction: the unique indexes of a table of its own, by their columns. The columns of
-- a primary key are one, also where it is the rowid, which no index shows. Values of any type are compared as
-- the column's affinity has it, and as the index's collation, which may be finer than the column's: told, so that
-- no two rows are the same. CROSS JOIN keeps the order, in which each pragma has its arguments. No row: there is
-- no such table.
-- Where no schema is named the table is the first one of its name, in SQLite's order: temp, main, then as they
-- were attached. Its indexes are asked for in its schema: another one may have an index of the same name.
-- The write lock comes first, with a statement that writes nothing. A transaction that has read cannot take it
-- any more while somebody else writes; and what the key is asked for wants it. RETURNING, so that it gives no row
-- where the application has set `count_changes`.
-- :step write
DELETE FROM {meta} WHERE 0 RETURNING 0;
-- :step write
WITH s (name) AS MATERIALIZED (
    SELECT coalesce(:schema,
                    (SELECT d.name FROM pragma_database_list d
                     WHERE EXISTS (SELECT 1 FROM pragma_table_info(:table, d.name))
                     ORDER BY d.seq <> 1, d.seq LIMIT 1))
)
SELECT 0, {DONE}, k.key, k.col, 'itb', 1, NULL, NULL, k.coll
FROM (SELECT 1 FROM s CROSS JOIN pragma_table_info(:table, s.name) LIMIT 1) t
LEFT JOIN (
    SELECT '' AS key, p.name AS col, NULL AS coll
    FROM s CROSS JOIN pragma_table_info(:table, s.name) p
    WHERE p.pk > 0
      AND NOT EXISTS (SELECT 1 FROM pragma_index_list(:table, s.name) o WHERE o.origin = 'pk')
    UNION ALL
    SELECT l.name, x.name, x.coll
    FROM s CROSS JOIN pragma_index_list(:table, s.name) l
    CROSS JOIN pragma_index_xinfo(l.name, s.name) x
    WHERE l."unique" AND NOT l.partial AND x.key
) k ON 1
ORDER BY k.key;

-- :block table_at
-- The catalogue is asked in the application's transaction here: never asked for.
-- :step
SELECT 0, {DONE}, 'main';

-- :block row_lock
-- Templates; steps: without waiting, waiting, the first one again (no row is hidden here), a look when no row came;
-- then the first three for who keeps the key.
-- A statement that writes takes the write lock, which is for the whole file, also when it finds no row to write;
-- no trigger runs. No row comes of it. The look is made under that lock.
-- :step write
DELETE FROM {table} WHERE 0;
-- :step write
DELETE FROM {table} WHERE 0;
-- :step write
DELETE FROM {table} WHERE 0;
-- :step write
SELECT 0, CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE {match}) THEN {DONE} ELSE {GONE} END;
-- :step write
DELETE FROM {table} WHERE 0;
-- :step write
DELETE FROM {table} WHERE 0;
-- :step write
DELETE FROM {table} WHERE 0;

-- :block table_version
-- In the application's transaction: whether a column of a table of its own can hold versions. Dates are texts or
-- numbers here, so that none has microseconds for sure. No row: there is no such column, or table.
-- :step
SELECT 0, CASE WHEN upper(c.type) LIKE '%INT%' THEN {DONE} ELSE {UNFIT} END, 0, 9223372036854775807, NULL, NULL, NULL,
       CASE WHEN upper(c.type) NOT LIKE '%INT%' THEN 'is no integer, and SQLite has no timestamps' END
FROM pragma_table_info(:table, :schema) c WHERE c.name = :column;

-- :block version_integer
-- Not a request: three expressions for {version}, {next} and {first} of the blocks below, which read a version as
-- an integer or NULL, raise it, and begin with one. {start} is a random number.
-- :step
{column}
-- :step
coalesce({column} + 1, {start})
-- :step
{start}

-- :block version_timestamp
-- Not used: table_version finds no timestamps.
-- :step
{column}
-- :step
{column}
-- :step
{column}

-- :block cas_update
-- Changes a row of the application's if it has the expected version. From the first step on the transaction is
-- the only writer, and what it reads is the newest; where somebody wrote after it had begun to read, the first
-- step fails (40001). The second one tells why nothing was changed; 3: it would be now, ask again. No row:
-- there is none.
-- :step write
UPDATE {table} SET {set}{name} = {next} WHERE {match} AND {version} IS {expected} RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {version} IS {expected} THEN {SKIPPED} ELSE {CONFLICT} END, {version} FROM {table} WHERE {match};

-- :block cas_delete
-- The same, and the row is gone.
-- :step write
DELETE FROM {table} WHERE {match} AND {version} IS {expected} RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {version} IS {expected} THEN {SKIPPED} ELSE {CONFLICT} END, {version} FROM {table} WHERE {match};

-- :block cas_insert
-- Makes a row that is not there. No row: it is there.
-- :step write
INSERT INTO {table} ({names}, {name}) VALUES ({values}, {first})
ON CONFLICT ({arbiter}) DO NOTHING RETURNING 0, {DONE}, {version};

-- :block cas_met
-- What was in the way of cas_insert. No row: it is not there any more.
-- :step
SELECT 0, {CONFLICT}, {version} FROM {table} WHERE {match};

-- :block fence
-- Lets a token through that is not smaller than the largest so far, and keeps it. Steps as in cas_update; 18:
-- there was a larger one.
-- :step write
UPDATE {table} SET {name} = {token} WHERE {match} AND ({version} IS NULL OR {version} <= {token})
RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {version} IS NULL OR {version} <= {token} THEN {SKIPPED} ELSE {CONFLICT} END, {version}
FROM {table} WHERE {match};

-- :block session
-- There is one writer, and nobody knows who: never asked for.
-- :step
SELECT 0, {DONE}, 0;

-- :block blockers
-- Never asked for.
-- :step
SELECT 0, {DONE} WHERE :session IS NULL AND :schema IS NULL AND :table IS NULL;

-- :block lease
-- How long the lease of this exact grant still runs (1), or how it ended. No row: the name has none.
-- :step
SELECT 0,
       CASE WHEN owner = :owner AND token = :token THEN {DONE}
            WHEN ended_owner = :owner AND ended_token = :token THEN {ENDED} + ended_why
            ELSE {TAKEN} END,
       token, (exp - {now}) * 1000, {now} * 1000
FROM {lock}
WHERE ns = :ns AND name = :name AND kind = 0;

-- :block break_noted
-- The same as break, and a note of it, which nobody takes away for a month, so that the broken holder is told also
-- when others have come and gone since and the row has forgotten. All steps are one transaction.
-- :step write
DELETE FROM {broken} WHERE (ns, name, token) IN (
    SELECT ns, name, token FROM {broken} WHERE noted < {now} - {month} ORDER BY noted LIMIT 100);
-- :step write
INSERT INTO {broken} (ns, name, token, noted)
SELECT h.ns, h.name, h.token, {now} FROM {lock} h
WHERE h.ns = :ns AND h.name = :name AND h.kind = 0 AND h.owner IS NOT NULL AND h.token = :token
ON CONFLICT (ns, name, token) DO UPDATE SET noted = excluded.noted;
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_BROKEN}, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner IS NOT NULL AND token = :token
RETURNING 0, {DONE}, token, NULL, {now} * 1000;
-- :step write
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN b.token IS NOT NULL THEN {BROKEN}
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
    LEFT JOIN {broken} b ON b.ns = :ns AND b.name = :name AND b.token = :token;

-- :block was_broken
-- Behind an answer that others came since (8): was this very grant broken? It had ended by then, so what is seen now
-- was so already. No row: it was not, or nobody noted it (an older schema, an older library).
-- :step
SELECT 0, {BROKEN} FROM {broken} b WHERE b.ns = :ns AND b.name = :name AND b.token = :token;
