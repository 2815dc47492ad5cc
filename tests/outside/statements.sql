-- What a driver for leases only needs to say in SQL, here in SQLite's. schema/README.md of sqlock says how to
-- read this file; sqlock/request.h lists the requests, their parameters and the columns of their answers.
-- Steps marked `write` are one BEGIN IMMEDIATE ... COMMIT: no other program decides at the same time. The first step
-- that returns a row ends the request.

-- What the driver does without. Core refuses what would need it.
-- :lacks reincarnate longest guarded guard probe ensure register_get register_set was_broken break_noted
-- :lacks migrate_differ migrate_lease migrate_around table_key table_at table_version row_lock session blockers
-- :lacks version_integer version_timestamp cas_update cas_delete cas_insert cas_met fence
-- :lacks queue leave beat notify waiters pass seat drain unseat stand circle

-- The database's clock. SQLite has milliseconds, and keeps 'now' the same within a step.
-- :define now CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
-- :define this ns = :ns AND name = :name
-- One row, also where the name has none.
-- :define at_most (SELECT 1) LEFT JOIN {lock} ON {this}
-- The end of a grant. The row remembers whose it was, so that the same request, sent again, has the same answer.
-- :define empty last_owner = owner, last_token = token, owner = NULL, exp = NULL, since = NULL, label = NULL, idle = {now}
-- An owner that has released, or withdrawn its request, gets nothing if an old request of it still comes.
-- :define over (withdrawn IS :owner OR last_owner IS :owner AND last_end = {RELEASED})
-- :define exact owner = :owner AND token = :token
-- :define ended last_owner = :owner AND last_token = :token

-- :block handshake
-- Which schema the file has (0: none). The 1: it is the server that granted all tokens, since a file has no other.
-- :step
SELECT 0, {DONE}, 0, 0, {now} WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now}, 1 FROM {meta};

-- :block acquire
-- A row for the name; the same request once more, which keeps its token; a grant of what is free or has run out; and
-- why there was none. Nothing is granted after :not_after, when the caller does not wait any more. A token is larger
-- than all before it of this name.
-- :step write
INSERT OR IGNORE INTO {lock} (ns, name, token, idle) SELECT :ns, :name, floor, {now} FROM {meta};
-- :step write
UPDATE {lock} SET exp = {now} + :ttl
WHERE {this} AND owner = :owner AND exp > {now} AND {now} <= :not_after
RETURNING 0, {DONE}, token, exp - {now}, {now}, since, label;
-- :step write
UPDATE {lock} SET
    last_owner = coalesce(owner, last_owner), last_token = iif(owner IS NULL, last_token, token),
    last_end = iif(owner IS NULL, last_end, {TAKEN}),
    owner = :owner, token = max(token + 1, {now}), exp = {now} + :ttl, since = {now}, label = :label, idle = NULL
WHERE {this} AND (owner IS NULL OR exp <= {now}) AND {now} <= :not_after AND NOT {over}
RETURNING 0, {DONE}, token, exp - {now}, {now}, since, label;
-- :step write
SELECT 0, CASE WHEN {now} > :not_after THEN {LATE} WHEN {over} THEN {RELEASED} ELSE {HELD} END,
       token, exp - {now}, {now}, since, label
FROM {lock} WHERE {this};

-- :block renew
-- Only what has not run out. What has may be another owner's by now, or was for a while.
-- :step write
UPDATE {lock} SET exp = {now} + :ttl WHERE {this} AND {exact} AND exp > {now} AND {now} <= :not_after
RETURNING 0, {DONE}, token, exp - {now}, {now};
-- :step write
SELECT 0, CASE WHEN name IS NULL THEN {GONE} WHEN {now} > :not_after THEN {LATE} WHEN {exact} THEN {EXPIRED}
               WHEN {ended} THEN last_end ELSE {TAKEN} END,
       token, exp - {now}, {now}
FROM {at_most};

-- :block release
-- Exactly this grant. Sent again, it is DONE again.
-- :step write
UPDATE {lock} SET {empty}, last_end = {RELEASED} WHERE {this} AND {exact} RETURNING 0, {DONE}, token, NULL, {now};
-- :step write
SELECT 0, CASE WHEN name IS NULL THEN {GONE} WHEN {ended} AND last_end = {RELEASED} THEN {DONE}
               WHEN {ended} THEN last_end ELSE {TAKEN} END,
       token, exp - {now}, {now}
FROM {at_most};

-- :block withdraw
-- The release of an acquire whose answer was lost. It gives back what there is (DONE). The request may still be on its
-- way (EARLY), so its owner stays in the row.
-- :step write
INSERT OR IGNORE INTO {lock} (ns, name, token, idle) SELECT :ns, :name, floor, {now} FROM {meta};
-- :step write
UPDATE {lock} SET {empty}, last_end = {RELEASED} WHERE {this} AND owner = :owner;
-- :step write
UPDATE {lock} SET withdrawn = :owner, idle = iif(owner IS NULL, {now}, NULL) WHERE {this};
-- :step write
SELECT 0, CASE WHEN last_owner = :owner THEN {DONE} WHEN {now} <= :not_after THEN {EARLY} ELSE {NEVER} END,
       token, exp - {now}, {now}
FROM {lock} WHERE {this};

-- :block break
-- :step write
UPDATE {lock} SET {empty}, last_end = {BROKEN} WHERE {this} AND owner IS NOT NULL AND token = :token
RETURNING 0, {DONE}, token, NULL, {now};
-- :step write
SELECT 0, CASE WHEN name IS NULL THEN {GONE} WHEN last_token = :token THEN last_end
               WHEN token > :token THEN {TAKEN} ELSE {NEVER} END,
       token, exp - {now}, {now}
FROM {at_most};

-- :block list
-- A page in the order of names, behind the name :after.
-- :step
SELECT 0, {DONE}, token, exp - {now}, {now}, since, label, name, owner FROM {lock}
WHERE ns = :ns AND name > :after AND substr(name, 1, length(:prefix)) = :prefix AND (:free = 1 OR owner IS NOT NULL)
ORDER BY name LIMIT :limit;

-- :block sweep
-- A page of the whole table, behind (:ns, :after): what ran out, what has been free for long, and the page itself.
-- :step
WITH page AS MATERIALIZED (
    SELECT * FROM {lock} WHERE (ns, name) > (:ns, :after) AND ns <> :own ORDER BY ns, name LIMIT :limit)
SELECT 0, {EXPIRED}, token, exp - {now}, {now}, NULL, NULL, name, ns FROM page WHERE exp <= {now} - :grace
UNION ALL
SELECT 0, {IDLE}, token, idle - {now}, {now}, idle, NULL, name, ns FROM page WHERE idle <= {now} - :idle
UNION ALL
SELECT 0, {DONE}, (SELECT count(*) FROM page), NULL, {now}, NULL, NULL, name, ns
FROM (SELECT 1) LEFT JOIN (SELECT ns, name FROM page ORDER BY ns DESC, name DESC LIMIT 1);

-- :block reap
-- Frees what ran out before :cut. A row for each.
-- :step write
UPDATE {lock} SET {empty}, last_end = {REAPED}
WHERE (ns, name) IN (
    SELECT ns, name FROM {lock}
    WHERE (ns, name) >= (:ns, :name) AND (ns, name) <= (:to_ns, :to) AND ns <> :own AND exp <= :cut AND exp <= {now}
    ORDER BY ns, name LIMIT :limit)
RETURNING 0, {DONE}, 1, NULL, {now};

-- :block prune
-- Deletes a row that has long been free. Whoever makes the next row of this name draws tokens above the floor.
-- :step write
UPDATE {meta} SET floor = max(floor, :floor);
-- :step write
DELETE FROM {lock}
WHERE {this} AND owner IS NULL AND idle <= :cut AND idle <= {now} AND token <= (SELECT floor FROM {meta})
RETURNING 0, {DONE}, token;

-- :block migrate_lock
-- The write transaction around migrations keeps other migrators out.
-- :step
SELECT 0, {DONE};

-- :block migrate_version
-- :step
SELECT 0, {DONE}, 0, 0, {now} WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now} FROM {meta};

-- :block migrate_record
-- :step write
INSERT OR REPLACE INTO {migration} (version, name, checksum, applied) VALUES (:version, :name, :checksum, {now});
-- :step write
UPDATE {meta} SET version = max(version, :version) WHERE :done = 1;

-- :block migrate_ledger
-- :step
SELECT 0, {NONE} WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '{prefix}migration');
-- :step
SELECT 0, {DONE}, version, name, checksum, applied FROM {migration} ORDER BY version;

-- :block migrate_close
-- No row: the write transaction keeps everyone out already.
-- :step
SELECT 0, {DONE} WHERE 0;

-- :block migrate_held
-- How many leases run, and the name of one.
-- :step
SELECT 0, {DONE}, count(*) OVER (), name FROM {lock} WHERE exp > {now} AND ns <> :ns LIMIT 1;

-- :block lease
-- How long this exact grant still runs, or how it ended. No row: the name has none.
-- :step
SELECT 0, CASE WHEN {exact} THEN {DONE} WHEN {ended} THEN last_end ELSE {TAKEN} END, token, exp - {now}, {now}
FROM {lock} WHERE {this};
