-- sqlock's statements for SQLite 3.37 and newer. schema/README.md says how to read this file.
-- Steps marked `write` run in one BEGIN IMMEDIATE ... COMMIT. There is one writer at a time, so the decisions are
-- serial by themselves. One index serves all blocks: the primary key (ns, name).
-- What is sent often does not answer by RETURNING: SQLite makes a temporary table for it, with 87 KB of memory each
-- time. Instead the next step, in the same transaction, looks at changes() whether the write was done.

-- Milliseconds. SQLite keeps 'now' the same within one step, and takes it after the wait for the write lock.
-- The function unixepoch('subsec') would be NULL before 3.42, without an error. Days are counted as a fraction, which is
-- exact to the millisecond once it is rounded. To make the time of texts (strftime) takes several times as long.
-- :define now CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
-- No token, and no version of a register, is below this.
-- :define least_token {now} * 1000
-- The token of a grant that is extended by its own request.
-- :define own_token token
-- The version with which a register begins.
-- :define first_version max({now} * 1000 + abs(random() % 1000), m.fence_floor + 1)
-- No server takes over from a file.
-- :define not_overtaken (:above IS NOT NULL)
-- How long notes of breaks stay: longer than any lease lasts.
-- :define month 2678400000
-- How long a waiter has to take up the lock that it is offered.
-- :define offer 1000
-- A grant lasts for its lease; a turn, beside which others may have seats, no longer than an offer: who dies with it
-- costs others no more. It is extended by acquire.
-- A client that has the turn is late a second behind its last request, even if its lease is shorter. By then it has sent
-- a beat.
-- :define late_at CASE WHEN h.offered = 1 THEN h.exp WHEN h.seats <> 0 THEN h.exp + {offer} - min(h.ttl, {offer}) END
-- :define lasts (CASE seats WHEN 0 THEN :ttl / 1000 ELSE min(:ttl / 1000, {offer}) END)
-- So often in a row a waiter of the holder's own client comes before older ones of others.
-- :define passes 16
-- A client that ended so long ago is forgotten.
-- :define gone 3600000
-- The ids of ten clients behind a place drawn at random. Behind the last one comes the first one.
-- :define ten SELECT * FROM (SELECT s.id FROM {client} s WHERE s.id > (SELECT randomblob(4)) ORDER BY s.id LIMIT 10) UNION ALL SELECT * FROM (SELECT f.id FROM {client} f ORDER BY f.id LIMIT 10) LIMIT 10
-- How long it counts that someone has said where it waits with the turn.
-- :define stood 60000
-- The largest ticket in the queue.
-- :define last_queued coalesce((SELECT max(w.ticket) FROM {waiter} w WHERE w.ns = :ns AND w.name = :name), 0)
-- Larger than any ticket of a queue.
-- :define last_ticket 9223372036854775807
-- 1: there are waiters.
-- :define queued EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = :ns AND w.name = :name)
-- :owner has a place in the queue, and its client lives.
-- :define in_queue EXISTS (SELECT 1 FROM {waiter} w LEFT JOIN {client} p ON p.id = w.client WHERE w.ns = :ns AND w.name = :name AND w.owner = :owner AND (w.client = :client OR p.alive_until > {now}))
-- The mode that the first waiter who lives wants, if it does not go with :mode: all go together that wait at the same
-- time. Slots go with as many slots, and all else goes together.
-- :define unlike_mode (SELECT CASE WHEN max(w.mode, 0) <> max(:mode, 0) THEN w.mode END FROM {waiter} w LEFT JOIN {client} p ON p.id = w.client WHERE w.ns = :ns AND w.name = :name AND (w.client = :client OR p.alive_until > {now}) ORDER BY w.ticket LIMIT 1)
-- The same of those who have seats beside the lock h.
-- :define seats_mode CASE WHEN h.seats <> 0 AND max(h.seats, 0) <> max(:mode, 0) AND EXISTS (SELECT 1 FROM {lock} s WHERE {seats} AND {seated}) THEN h.seats END
-- An owner that is to be queued for h is not, because of them.
-- :define unlike (:waits = 1 AND coalesce({unlike_mode}, {seats_mode}) IS NOT NULL AND NOT {in_queue})
-- :owner may have a place in the queue for h.
-- :define may_wait :waits = 1 AND h.ns = :ns AND h.name = :name AND h.kind = 0 AND (h.owner = :owner AND h.exp > {now}) IS NOT TRUE AND (h.ended_why <> {ENDED_RELEASED} OR h.ended_owner IS NOT :owner) AND h.withdrawn IS NOT :owner AND {now} * 1000 <= :not_after AND EXISTS (SELECT 1 FROM {meta} WHERE id = 1) AND {unlike_mode} IS NULL AND {seats_mode} IS NULL
-- The place of :owner in the queue, among those who live. NULL: it is not there.
-- :define place (SELECT 1 + (SELECT count(*) FROM {waiter} w LEFT JOIN {client} p ON p.id = w.client WHERE w.ns = o.ns AND w.name = o.name AND w.ticket < o.ticket AND (w.client = :client OR p.alive_until > {now})) FROM {waiter} o WHERE o.ns = :ns AND o.name = :name AND o.owner = :owner)
-- The rows of those who have a seat beside the lock (s): their keys, and a seat's number of its key. Bytes become numbers,
-- and numbers bytes, by this list. Bytes that are put together are a text, until they are cast.
-- :define bytes x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'
-- :define seats s.ns = :ns AND s.name > CAST(:name || x'00' AS BLOB) AND s.name < CAST(:name || x'01' AS BLOB)
-- :define seat_number ((instr({bytes}, substr(s.name, -3, 1)) - 1) * 65536 + (instr({bytes}, substr(s.name, -2, 1)) - 1) * 256 + instr({bytes}, substr(s.name, -1)) - 1)
-- :define seat_key CAST(:name || x'00' || substr({bytes}, 1 + c.n / 65536, 1) || substr({bytes}, 1 + c.n / 256 % 256, 1) || substr({bytes}, 1 + c.n % 256, 1) AS BLOB)
-- It is taken.
-- :define seated s.owner IS NOT NULL AND s.exp > {now}
-- The lowest number of a seat that is not taken.
-- :define seat_free (SELECT min(c.n) FROM (SELECT 0 AS n UNION ALL SELECT {seat_number} + 1 FROM {lock} s WHERE {seats} AND {seated}) c WHERE NOT EXISTS (SELECT 1 FROM {lock} s WHERE s.ns = :ns AND s.name = {seat_key} AND {seated}))
-- The lock h of which :name is a seat, if someone has its turn.
-- :define turn h.ns = :ns AND h.name = substr(:name, 1, length(:name) - 4) AND h.seats <> 0 AND h.exp > {now}
-- The row h of the lock is free, or this owner's.
-- :define turn_ours (h.owner = :owner AND h.exp > {now}) IS TRUE
-- :define turn_free (h.owner IS NULL OR h.exp <= {now})
-- The seats beside it may be of another kind than :seats. What one that has the turn finds is said otherwise.
-- :define seats_unlike (:turn = 0 AND h.seats <> 0 AND h.seats <> :seats)
-- The token of who holds it. 0: who has its row waits for the last seat to be empty, and holds nothing yet.
-- :define held_token CASE h.seats WHEN 0 THEN h.token ELSE 0 END
-- Another one has it, or others wait for it.
-- :define turn_stays (h.exp > {now} AND (h.owner <> :owner OR h.waiters <> 0))
-- Whom a release may pass the lock {lock} l on to: their tickets. They are the client's own first waiter in the queue, and
-- the first one of all whose client lives. :next waits in the client alone, and may still be waiting.
-- :define own_ticket (SELECT w.ticket FROM {waiter} w WHERE w.client = :client AND w.ns = l.ns AND w.name = l.name AND l.passes < {passes} AND l.seats = 0 AND EXISTS (SELECT 1 FROM {client} p WHERE p.id = :client AND p.alive_until > {now}) ORDER BY w.ticket LIMIT 1)
-- :define first_ticket (SELECT w.ticket FROM {waiter} w CROSS JOIN {client} p WHERE w.ns = l.ns AND w.name = l.name AND p.id = w.client AND p.alive_until > {now} ORDER BY w.ticket LIMIT 1)
-- :define next_waits (:next IS NOT NULL AND {now} * 1000 <= :not_after AND l.withdrawn IS NOT :next AND {unlike_mode} IS NULL)
-- It is granted the lock itself.
-- :define next_gets ({next_waits} AND {own_ticket} IS NULL AND (l.passes < {passes} AND l.seats = 0 OR {first_ticket} IS NULL))
-- :define released l.ns = :ns AND l.name = :name AND l.kind = 0 AND l.owner = :owner AND l.token = :token

-- :block handshake
-- Which schema this file has. The driver itself sees weak durability and read-only files.
-- :step
SELECT 0, {DONE}, 0, 0, {now} * 1000
WHERE :accept_weak IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now} * 1000, 1 FROM {meta} WHERE id = 1;

-- :block reincarnate
-- Never sent. A file has no server that could change, and nothing in a file shows that it was put back. So tokens
-- follow the clock all the time here.
-- :step
SELECT 0, {DONE} WHERE :server IS NULL AND :lift IS NULL AND :floor IS NULL;

-- :block longest
-- Never sent: a file has no grace.
-- :step
SELECT 0, {DONE} WHERE :ttl IS NULL;

-- :block acquire
-- The first step only reads. While another one holds the lock, waiting writes nothing and takes no write lock. The
-- second step grants the lock if its row is free, run out, or ours (the same request sent again), and if not_after has
-- not passed. The third one answers that. The fourth makes a row that is missing, already granted: nothing can come
-- between, so a name's first grant takes one commit. The last one says why there was no grant. No row: meta has none.
-- A token is above that of the row, or, in a new row, above the floor; and no smaller than the clock. So tokens rise
-- also where a copy of the file is put back, which nothing in the file shows. So there is no grace either.
-- :step
SELECT 0, CASE WHEN kind <> 0 THEN {KIND} ELSE {HELD} END, token, (exp - {now}) * 1000, {now} * 1000,
       since * 1000, label
FROM {lock}
WHERE ns = :ns AND name = :name
  AND (kind <> 0 OR owner IS NOT NULL AND owner <> :owner AND exp > {now} AND seats = 0);
-- :step write
UPDATE {lock} SET
    token = CASE WHEN owner = :owner AND exp > {now} THEN {own_token} ELSE max(token + 1, {least_token}) END,
    since = CASE WHEN owner = :owner AND exp > {now} THEN since ELSE {now} END,
    ended_owner = CASE WHEN owner IS NULL OR owner = :owner AND exp > {now} THEN ended_owner ELSE owner END,
    ended_token = CASE WHEN owner IS NULL OR owner = :owner AND exp > {now} THEN ended_token ELSE token END,
    ended_why = CASE WHEN owner IS NULL OR owner = :owner AND exp > {now} THEN ended_why ELSE {ENDED_TAKEN} END,
    owner = :owner, exp = {now} + {lasts}, ttl = {lasts}, label = :label, idle_since = NULL, offered = 0,
    client = CASE WHEN owner = :owner AND exp > {now} THEN client END
WHERE ns = :ns AND name = :name AND kind = 0 AND (owner IS NULL OR owner = :owner OR exp <= {now})
  AND (waiters = 0 OR owner = :owner AND exp > {now}) AND (seats = 0 OR owner = :owner AND exp > {now})
  AND (ended_why <> {ENDED_RELEASED} OR ended_owner IS NOT :owner) AND withdrawn IS NOT :owner
  AND {now} * 1000 <= :not_after AND :grace IS NOT NULL AND EXISTS (SELECT 1 FROM {meta} WHERE id = 1);
-- :step write
SELECT 0, CASE seats WHEN 0 THEN {DONE} ELSE {TURN} END, token, ttl * 1000, (exp - ttl) * 1000, since * 1000, label
FROM {lock} WHERE ns = :ns AND name = :name AND changes() = 1;
-- :step write
INSERT INTO {lock} (ns, name, owner, token, exp, ttl, since, label)
SELECT :ns, :name, :owner, max(m.fence_floor + 1, {least_token}), {now} + :ttl / 1000, :ttl / 1000, {now}, :label
FROM {meta} m WHERE m.id = 1 AND {now} * 1000 <= :not_after AND :grace IS NOT NULL
ON CONFLICT (ns, name) DO NOTHING;
-- :step write
SELECT 0,
       CASE WHEN changes() = 1 THEN {DONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN {now} * 1000 > :not_after THEN {LATE}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN h.owner IS NOT NULL AND h.owner <> :owner AND h.exp > {now}
                THEN CASE h.seats WHEN 0 THEN {HELD} ELSE {SEATED} END
            WHEN h.waiters <> 0 AND (h.owner = :owner AND h.exp > {now}) IS NOT TRUE THEN {QUEUED}
            WHEN h.seats <> 0 AND (h.owner = :owner AND h.exp > {now}) IS NOT TRUE THEN {SEATED}
            ELSE {SKIPPED} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000, h.since * 1000, h.label
FROM {meta} m LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block guarded
-- A guard is a write transaction here: other requests wait for it. Never a row.
-- :step
SELECT 0, {GUARDED} WHERE :ns IS NULL AND :name IS NULL AND :owner IS NULL;

-- :block renew
-- Extends a lease that has not run out, for its exact grant. The end is set, not raised: after a step back of the
-- clock, a raised one would last for as long as the step. Always one row for each request.
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
-- Frees the row for its exact grant, and remembers how the grant ended. So the same release, sent again, is DONE. The
-- second step answers what was done, without a look at the row, and the last one says why nothing was. QUEUED: others
-- wait, so send `pass`. If the release was sent before, by a `pass` whose answer was lost, this names the next holder.
-- A seat's release names who has the turn, and may wait for the seat.
-- Always one row.
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token AND waiters = 0;
-- :step write
SELECT 0, {DONE}, :token, NULL, {now} * 1000, NULL, NULL, NULL,
       CASE WHEN :seat = 1 THEN (SELECT h.client FROM {lock} h WHERE {turn}) END,
       CASE WHEN :seat = 1 THEN (SELECT h.owner FROM {lock} h WHERE {turn}) END
WHERE changes() = 1;
-- :step write
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token AND h.waiters <> 0 THEN {QUEUED}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE h.ended_why WHEN {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000, NULL, NULL, NULL, h.client, h.owner
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block withdraw
-- The release of an acquire whose answer is not known. It gives back what this owner was granted. The request may
-- still be on its way, so the first step also writes a tombstone (withdrawn), in a new row where there is none. With
-- it the request is granted nothing when it comes (RELEASED). How the last grant ended stays in the row: its holder
-- may not have learned of it yet. The owner leaves the queue too, or it would still be offered the lock.
-- DONE: it was granted, and is given back.
-- EARLY: it has not come yet. The tombstone is no proof against a later arrival, because the next withdrawal replaces
-- it.
-- NEVER: not_after has passed, and there will never be a sign of this owner.
-- The row counts as idle from now on. A pruner that was about to take it would take the tombstone with it. No row:
-- meta has none.
-- :step write
DELETE FROM {waiter} WHERE ns = :ns AND name = :name AND owner = :owner;
-- :step write
INSERT INTO {lock} AS l (ns, name, token, idle_since, waiters, withdrawn)
SELECT :ns, :name, m.fence_floor, {now}, {queued}, :owner FROM {meta} m WHERE m.id = 1
ON CONFLICT (ns, name) DO UPDATE SET
    ended_token = CASE WHEN l.owner = :owner THEN l.token ELSE l.ended_token END,
    ended_owner = CASE WHEN l.owner = :owner THEN l.owner ELSE l.ended_owner END,
    ended_why = CASE WHEN l.owner = :owner THEN {ENDED_RELEASED} ELSE l.ended_why END,
    withdrawn = :owner,
    idle_since = CASE WHEN l.owner IS NULL OR l.owner = :owner THEN {now} END,
    since = CASE WHEN l.owner = :owner THEN NULL ELSE l.since END,
    label = CASE WHEN l.owner = :owner THEN NULL ELSE l.label END,
    exp = CASE WHEN l.owner = :owner THEN NULL ELSE l.exp END,
    owner = CASE WHEN l.owner = :owner THEN NULL ELSE l.owner END,
    waiters = {queued}, changes = l.changes + 1, next_ticket = l.next_ticket * {queued}
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
-- As release, by token alone: an operator ends a grant whose holder is dead. After a lost reply the same request
-- finds BROKEN (it was broken before) or TAKEN (others came and went since, and how it ended is no longer known).
-- Always one row.
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
-- A page in byte order after the name :after, of names that start with :prefix. :free = 1: free rows too.
-- The owner of a row beside which others may have seats waits for those, and is no holder: such a row is as good as free.
-- The last column: what may stand beside the lock of this row, or of which it is a seat.
-- :step
SELECT 0, {DONE}, token, CASE seats WHEN 0 THEN (exp - {now}) * 1000 END, {now} * 1000,
       CASE seats WHEN 0 THEN since * 1000 END, CASE seats WHEN 0 THEN label END, name, CASE seats WHEN 0 THEN owner END,
       CASE WHEN length(name) > 4 AND substr(name, -4, 1) = x'00'
            THEN (SELECT h.seats FROM {lock} h WHERE h.ns = l.ns AND h.name = substr(l.name, 1, length(l.name) - 4))
            ELSE seats END
FROM {lock} l
WHERE ns = :ns AND name > :after AND name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix
  AND kind = 0 AND (:free = 1 OR owner IS NOT NULL AND seats = 0)
ORDER BY ns, name LIMIT :limit;

-- :block sweep
-- A page of the whole table in key order, after (:ns, :after). It answers rows that ran out at least :grace ago
-- (EXPIRED), rows that have been free for :idle (IDLE), and a row for the page itself (DONE): how many rows, and the
-- last key. SEATED: the row is free, and its seats are pruned. Once `drain` has noted that, it is idle.
-- It only reads, and :limit rows at most: without WAL a reader keeps a commit out.
-- :step
WITH p AS MATERIALIZED (
    SELECT ns, name, kind, owner, token, exp, idle_since, waiters, next_ticket, seats
    FROM {lock}
    WHERE (ns, name) > (:ns, :after) AND ns <> :own
    ORDER BY ns, name LIMIT :limit
)
SELECT 0, {EXPIRED}, p.token, (p.exp - {now}) * 1000, {now} * 1000, NULL, NULL, p.name, p.ns
FROM p
WHERE p.kind = 0 AND p.exp <= {now} - :grace / 1000
UNION ALL
SELECT 0, CASE p.seats WHEN 0 THEN {IDLE} ELSE {SEATED} END, p.token, (p.idle_since - {now}) * 1000, {now} * 1000,
       p.idle_since * 1000, NULL, p.name, p.ns
FROM p
WHERE p.kind = 0 AND p.owner IS NULL AND p.waiters = 0 AND p.next_ticket = 0
  AND (p.idle_since <= {now} - :idle / 1000 OR p.idle_since IS NULL AND p.seats <> 0)
  AND (p.seats = 0 OR NOT EXISTS (SELECT 1 FROM {lock} s WHERE s.ns = p.ns AND s.name > CAST(p.name || x'00' AS BLOB)
                                     AND s.name < CAST(p.name || x'01' AS BLOB)))
UNION ALL
SELECT 0, {DONE}, (SELECT count(*) FROM p), NULL, {now} * 1000, NULL, NULL, z.name, z.ns
FROM (SELECT 1) LEFT JOIN (SELECT ns, name FROM p ORDER BY ns DESC, name DESC LIMIT 1) z;

-- :block reap
-- Frees rows from (:ns, :name) to (:to_ns, :to) whose lease ran out before :cut, :limit at most. It remembers how
-- they ended, so that their holders learn of it. A session that renewed a row or took it over since the page was read
-- was quicker: the row is judged again under the write lock. Every other writer waits meanwhile, so this is brief. No
-- row: there was nothing to free. Otherwise one row for each.
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
-- Deletes a row that has been free since before :cut. Tokens go on rising, because the next creator of the row starts
-- from the floor. The first step raises the floor to :floor, the largest token of the batch. The second deletes
-- nothing whose token is above the floor. A row that a queue uses is left alone. No row: there was nothing to delete.
-- :step write
UPDATE {meta} SET fence_floor = :floor WHERE id = 1 AND fence_floor < :floor;
-- :step write
DELETE FROM {lock}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner IS NULL
  AND waiters = 0 AND next_ticket = 0 AND seats = 0 AND idle_since <= :cut / 1000 AND idle_since <= {now}
  AND token <= (SELECT fence_floor FROM {meta} WHERE id = 1)
RETURNING 0, {DONE}, token;

-- :block migrate_lock
-- The write transaction around a migration is the lock.
-- :step
SELECT 0, {DONE};

-- :block migrate_version
-- A program that can make tables in the file can do all else to it too, so :changes makes no difference here.
-- :step
SELECT 0, {DONE}, 0, 0, {now} * 1000
WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}meta');
-- :step
SELECT 0, {DONE}, version, min_reader, {now} * 1000 FROM {meta} WHERE id = 1 AND :changes IS NOT NULL;

-- :block migrate_record
-- The meta row says what is applied. :done = 0 writes only the record, before a step that is not a transaction. A
-- record above meta's version means that its migration was begun and not ended; it is written anew.
-- :step write
INSERT INTO {migration} (version, name, checksum, applied)
VALUES (:version, :name, :checksum, {now})
ON CONFLICT (version) DO UPDATE
SET name = excluded.name, checksum = excluded.checksum, applied = excluded.applied;
-- :step write
UPDATE {meta} SET version = max(version, :version) WHERE id = 1 AND :done = 1;

-- :block migrate_ledger
-- All records. NONE: there is no table for them.
-- :step
SELECT 0, {NONE}
WHERE NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}migration');
-- :step
SELECT 0, {DONE}, version, name, checksum, applied * 1000 FROM {migration} WHERE :changes IS NOT NULL ORDER BY version;

-- :block migrate_differ
-- What the tables lack of what tables.sql says, a row each. No row: they have all of it. Columns come first. Then
-- unique indexes that should not be there. Then CHECKs, by their number in the table's text, which is all that SQLite
-- shows of them.
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
-- The write transaction around a migration keeps everyone else out. No row.
-- :step
SELECT 0, {DONE} WHERE 0;

-- :block migrate_held
-- How many leases run outside of one namespace (our own), and the name of one. No row: none.
-- :step
SELECT 0, {DONE}, count(*) OVER (), name
FROM {lock} WHERE owner IS NOT NULL AND exp > {now} AND ns <> :ns LIMIT 1;

-- :block migrate_lease
-- Never sent: the write transaction around a migration keeps other migrators out.
-- :step
SELECT 0, {DONE} WHERE :ns IS NULL AND :name IS NULL AND :owner IS NULL AND :ttl IS NULL AND :label IS NULL;

-- :block migrate_around
-- What stands before and behind migrations that are written out as text.
-- :step
BEGIN IMMEDIATE;
-- :step
COMMIT;

-- :block guard
-- In the application's transaction: proves the lease, and extends it. The extension counts once it is committed. This
-- write keeps every grant out, because there is one writer. A guard that only read would keep no one out. Always one
-- row.
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
-- A guard is a write transaction here. What it keeps out waits for it, and then finds none. Always one row.
-- :step
SELECT 0, {DONE} WHERE :ns IS NOT NULL AND :name IS NOT NULL AND :token IS NOT NULL;

-- :block ensure
-- Makes the row that transactions lock by this name, if it is not there. The look takes no write lock. No row: it was
-- deleted in between. Try again.
-- :step
SELECT 0, {DONE}, NULL, NULL, {now} * 1000 FROM {row} WHERE ns = :ns AND name = :name;
-- :step write
INSERT INTO {row} (ns, name) VALUES (:ns, :name) ON CONFLICT (ns, name) DO NOTHING RETURNING 0, {DONE};
-- :step write
SELECT 0, {DONE}, NULL, NULL, {now} * 1000 FROM {row} WHERE ns = :ns AND name = :name;

-- :block register_get
-- Always one row. GONE: there is no such register; its version is 0.
-- :step
SELECT 0, CASE WHEN r.name IS NULL THEN {GONE} ELSE {DONE} END, coalesce(r.version, 0), NULL, {now} * 1000, r.value
FROM (SELECT 1) LEFT JOIN {register} r ON r.ns = :ns AND r.name = :name;

-- :block register_set
-- Changes a register whose version is :expected (0: it does not exist), if not_after has not passed.
-- The writer stays beside what it wrote. So the same request, sent again after a lost reply, is DONE, until another
-- one has changed the register. CONFLICT and GONE are final: no version comes twice for a name. A new one begins at
-- the clock, so that it is above the versions of a row that was deleted, and all follow the clock, as tokens do. The
-- clock knows milliseconds, and versions are microseconds as elsewhere: chance fills what is missing of a new one.
-- The second step makes a register that is not there, if the request says so. The last one says why nothing was done.
-- No row: meta has none.
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
-- In the application's transaction: the unique indexes of one of its tables, by their columns. No row: there is no
-- such table. The columns of a primary key are one, also where it is the rowid, which no index shows. Values of any
-- type are compared as the column's affinity says, and by the index's collation. That may be finer than the column's,
-- so it is in the answer: no two rows may be the same. CROSS JOIN keeps the order, in which each pragma has its
-- arguments.
-- Where the request names no schema, the table is the first one of its name in SQLite's order: temp, main, then as
-- they were attached. Its indexes are looked up in its schema: another one may have an index of the same name.
-- The write lock comes first, by a statement that writes nothing. A transaction that has read cannot take it any more
-- while another session writes, and the row lock that the key is for needs it. RETURNING, so that no row comes where
-- the application has set `count_changes`.
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
-- Never sent: the catalogue is read in the application's transaction here.
-- :step
SELECT 0, {DONE}, 'main';

-- :block row_lock
-- Templates. Steps: without waiting; waiting; the first one again (no row is hidden here); a look when no row came.
-- Then the first three again, for a caller that keeps the key.
-- A statement that writes takes the write lock for the whole file, also when it finds no row to write. No trigger
-- runs, and no row comes. The look is made under that lock.
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
-- In the application's transaction: whether a column of one of its tables can hold versions. Dates are texts or
-- numbers here, so that none has microseconds for sure. No row: there is no such column, or table.
-- :step
SELECT 0, CASE WHEN upper(c.type) LIKE '%INT%' THEN {DONE} ELSE {UNFIT} END, 0, 9223372036854775807, NULL, NULL, NULL,
       CASE WHEN upper(c.type) NOT LIKE '%INT%' THEN 'is no integer, and SQLite has no timestamps' END
FROM pragma_table_info(:table, :schema) c WHERE c.name = :column;

-- :block version_integer
-- Not a request: three expressions for {version}, {next} and {first} of the blocks below. They read a version as an
-- integer or NULL, raise it, and begin with one. {start} is a random number.
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
-- Changes a row of the application's if it has the expected version. From the first step on, the transaction is the
-- only writer, and what it reads is the newest. Where another session wrote after the transaction had begun to read,
-- the first step fails (40001). The second step says why nothing was changed. SKIPPED: it would be now, try again. No
-- row: there is none.
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
-- Accepts a token that is not smaller than the largest so far, and keeps it. Steps as in cas_update. CONFLICT: there
-- was a larger token.
-- :step write
UPDATE {table} SET {name} = {token} WHERE {match} AND ({version} IS NULL OR {version} <= {token})
RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {version} IS NULL OR {version} <= {token} THEN {SKIPPED} ELSE {CONFLICT} END, {version}
FROM {table} WHERE {match};

-- :block session
-- Never sent: there is one writer, and no way to know which session it is.
-- :step
SELECT 0, {DONE}, 0;

-- :block blockers
-- Never sent.
-- :step
SELECT 0, {DONE} WHERE :session IS NULL AND :schema IS NULL AND :table IS NULL;

-- :block lease
-- How long the lease of this exact grant still runs (DONE), or how it ended. No row: the name has no row.
-- :step
SELECT 0,
       CASE WHEN owner = :owner AND token = :token THEN {DONE}
            WHEN ended_owner = :owner AND ended_token = :token THEN {ENDED} + ended_why
            ELSE {TAKEN} END,
       token, (exp - {now}) * 1000, {now} * 1000
FROM {lock}
WHERE ns = :ns AND name = :name AND kind = 0;

-- :block break_noted
-- The same as break, with a note of it that stays for a month. So the broken holder learns of the break also when
-- others have come and gone since, and the row has forgotten it. All steps are one transaction.
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
-- Follows an answer that others came since (TAKEN): was this very grant broken? It had ended by then, so what is seen
-- now was so already. No row: it was not broken, or the break left no note (an older schema, an older library).
-- :step
SELECT 0, {BROKEN} FROM {broken} b WHERE b.ns = :ns AND b.name = :name AND b.token = :token;

-- :block queue
-- Grants or offers a lock that others wait for, or puts this owner into the queue. Sent after acquire was refused.
-- The first step only reads: while another one holds the lock, a waiter that has its place writes nothing. The second is
-- for an owner whose place is of a client that is dead: its program was started again, and takes that place. While that
-- client lives, it keeps the place.
-- The third and fourth steps put this owner into the queue, and the fifth one answers whatever leaves the lock as it is.
-- What is granted must be on the disk. A place or an offer need not be: the acquire that takes an offer up waits for the
-- disk, and so for what was written before. If the power fails earlier, no one has used the offer's token.
-- The row may have been deleted while there were waiters, and made anew: tickets go on behind theirs.
-- The rest serves the queue. A free lock goes to the first waiter whose client lives. If that is this owner, or if none
-- lives, it is granted at once, with its whole lease. To another one it is offered: granted for a short time, in which
-- it must extend it by acquire. An offer or a turn that ran out counts its client as dead, until it says again that it lives: a
-- program with many waiters costs the others one offer, not one for each. Waiters that are passed over lose their
-- place, and queue anew when they find out.
-- The time limit is checked in the fifth step, under the write lock. The sixth one extends what this owner has got
-- already (the same request sent again). Behind that it has the lock only if this request has granted it.
-- :waits = 0: not to be queued; but whoever finds the lock free with waiters passes it on.
-- UNLIKE: someone waits, in the queue or with the turn, in a mode that does not go with this one. It is not queued.
-- place: 1 is the next in line; NULL: not in the queue. No row: the lock or meta has none.
-- :step
SELECT 0, CASE WHEN h.kind <> 0 THEN {KIND} ELSE {HELD} END, {held_token}, (h.exp - {now}) * 1000, {now} * 1000,
       h.since * 1000, h.label, {place}
FROM {lock} h
WHERE h.ns = :ns AND h.name = :name
  AND (h.kind <> 0
       OR h.owner IS NOT NULL AND h.owner <> :owner AND h.exp > {now}
          AND (h.ended_why <> {ENDED_RELEASED} OR h.ended_owner IS NOT :owner) AND h.withdrawn IS NOT :owner
          AND {now} * 1000 <= :not_after AND :grace IS NOT NULL
          AND (:waits = 0 OR h.waiters <> 0 AND {in_queue}));
-- :step write
UPDATE {waiter} AS o
SET client = :client, ttl = :ttl / 1000, grace = max(:grace, 0) / 1000, label = :label, since = {now}, mode = :mode
FROM {lock} h
WHERE o.ns = :ns AND o.name = :name AND o.owner = :owner AND o.client <> :client AND {may_wait}
  AND ({late_at} <= {now} AND h.client = o.client
       OR NOT EXISTS (SELECT 1 FROM {client} p WHERE p.id = o.client AND p.alive_until > {now}));
-- :step write
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
SELECT h.ns, h.name, max(h.next_ticket, {last_queued}) + 1, :owner, :client, :ttl / 1000, max(:grace, 0) / 1000, :label, {now},
       :mode
FROM {lock} h
WHERE {may_wait} AND NOT EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = :ns AND w.name = :name AND w.owner = :owner);
-- :step write
UPDATE {lock} SET waiters = 1, next_ticket = max(next_ticket, {last_queued}), changes = changes + 1
WHERE ns = :ns AND name = :name AND (changes() = 1 OR waiters = 0 AND :waits = 1 AND {queued});
-- :step write
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN {now} * 1000 > :not_after THEN {LATE}
            WHEN {unlike} THEN {UNLIKE}
            ELSE {HELD} END,
       CASE WHEN {unlike} THEN coalesce({unlike_mode}, {seats_mode}) ELSE {held_token} END, (h.exp - {now}) * 1000, {now} * 1000,
       h.since * 1000, h.label, {place}
FROM {lock} h
WHERE h.ns = :ns AND h.name = :name
  AND (h.kind <> 0 OR h.withdrawn IS :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner IS :owner
       OR {now} * 1000 > :not_after OR h.owner IS NOT NULL AND h.owner <> :owner AND h.exp > {now});
-- :step write
UPDATE {lock} SET exp = {now} + {lasts}, ttl = {lasts}, label = :label, client = :client, offered = 0
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND exp > {now}
  AND EXISTS (SELECT 1 FROM {meta} WHERE id = 1);
-- :step durable
SELECT 1 WHERE changes() = 1;
-- :step write
SELECT 0, CASE seats WHEN 0 THEN {DONE} ELSE {TURN} END, token, ttl * 1000, (exp - ttl) * 1000, since * 1000, label
FROM {lock} WHERE ns = :ns AND name = :name AND changes() = 1;
-- :step write
UPDATE {client} SET alive_until = 0
WHERE id = (SELECT h.client FROM {lock} h
            WHERE h.ns = :ns AND h.name = :name AND {late_at} <= {now} AND h.client <> :client);
-- :step write
WITH s AS (
    SELECT {now} AS t,
           (SELECT w.ticket FROM {waiter} w LEFT JOIN {client} p ON p.id = w.client
            WHERE w.ns = l.ns AND w.name = l.name AND (w.client = :client OR p.alive_until > {now})
            ORDER BY w.ticket LIMIT 1) AS first
    FROM {lock} l CROSS JOIN {meta} m
    WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND m.id = 1
      AND (l.owner IS NULL OR l.exp <= {now})
), e AS (
    SELECT s.t, w.owner, w.client, w.ttl, w.label, w.owner IS NULL OR w.owner = :owner AS mine,
           EXISTS (SELECT 1 FROM {waiter} o WHERE o.ns = :ns AND o.name = :name AND o.ticket > w.ticket) AS more
    FROM s LEFT JOIN {waiter} w ON w.ns = :ns AND w.name = :name AND w.ticket = s.first
)
UPDATE {lock} AS l SET
    owner = CASE WHEN e.mine THEN :owner ELSE e.owner END,
    token = max(l.token + 1, {least_token}),
    exp = e.t + CASE WHEN e.mine THEN {lasts} ELSE {offer} END,
    ttl = CASE WHEN e.mine THEN {lasts} ELSE e.ttl END,
    since = e.t,
    label = CASE WHEN e.mine THEN :label ELSE e.label END,
    client = CASE WHEN e.mine THEN :client ELSE e.client END,
    offered = NOT e.mine, passes = 0,
    ended_owner = coalesce(l.owner, l.ended_owner),
    ended_token = CASE WHEN l.owner IS NULL THEN l.ended_token ELSE l.token END,
    ended_why = CASE WHEN l.owner IS NULL THEN l.ended_why ELSE {ENDED_TAKEN} END,
    idle_since = NULL, waiters = e.more, changes = l.changes + 1, next_ticket = l.next_ticket * e.more
FROM e WHERE l.ns = :ns AND l.name = :name;
-- :step write
DELETE FROM {waiter} AS w
WHERE w.ns = :ns AND w.name = :name
  AND w.ticket <= coalesce((SELECT n.ticket FROM {lock} l JOIN {waiter} n ON n.ns = l.ns AND n.name = l.name
                            WHERE l.ns = :ns AND l.name = :name AND n.owner = l.owner), {last_ticket})
  AND (w.owner = (SELECT l.owner FROM {lock} l WHERE l.ns = :ns AND l.name = :name)
       OR w.client <> :client
          AND NOT EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND p.alive_until > {now}));
-- :step durable
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.owner = :owner;
-- :step write
SELECT 0,
       CASE WHEN h.owner = :owner AND h.offered = 0 THEN CASE h.seats WHEN 0 THEN {DONE} ELSE {TURN} END WHEN {unlike} THEN {UNLIKE} WHEN h.owner <> :owner THEN {HELD} ELSE {SKIPPED} END,
       CASE WHEN h.owner IS NOT :owner AND {unlike} THEN coalesce({unlike_mode}, {seats_mode}) WHEN h.owner = :owner OR h.seats = 0 THEN h.token ELSE 0 END,
       CASE WHEN h.owner = :owner THEN h.ttl * 1000 ELSE (h.exp - {now}) * 1000 END,
       CASE WHEN h.owner = :owner THEN (h.exp - h.ttl) * 1000 ELSE {now} * 1000 END, h.since * 1000, h.label, {place},
       CASE WHEN h.offered = 1 AND h.owner <> :owner THEN h.client END,
       CASE WHEN h.offered = 1 AND h.owner <> :owner THEN h.owner END
FROM {lock} h CROSS JOIN {meta} m WHERE h.ns = :ns AND h.name = :name AND m.id = 1;

-- :block leave
-- Takes an owner that waits no longer out of the queue, and gives back what it was given meanwhile. With :gives = 1 that is
-- all that it has, since no one else has the owner; with 2 no more than an offer or a turn; with 0 nothing. No row: the lock has none.
-- :step write
DELETE FROM {waiter} WHERE ns = :ns AND name = :name AND owner = :owner;
-- :step write
UPDATE {lock} SET changes = changes + 1, waiters = {queued}, next_ticket = next_ticket * {queued}
WHERE ns = :ns AND name = :name AND changes() > 0;
-- :step write
UPDATE {lock} SET owner = NULL, exp = NULL, since = NULL, label = NULL, offered = 0, changes = changes + 1,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner
  AND (:gives = 1 OR :gives = 2 AND (offered = 1 OR seats <> 0));
-- :step write
SELECT 0, {DONE}, l.token, NULL, {now} * 1000, NULL, NULL, NULL, w.client, w.owner
FROM {lock} l LEFT JOIN {waiter} w ON w.ns = l.ns AND w.name = l.name AND l.owner IS NULL
WHERE l.ns = :ns AND l.name = :name
ORDER BY w.ticket LIMIT 1;

-- :block beat
-- The client lives, for :alive from now on (0: it is closed, and its waiters are passed over). Answers with all that wait
-- for it: their places, and how long the lock's lease still runs. An owner that is missing was offered the lock, or passed over: it looks by itself. One that the
-- client does not know is to leave. The first row only says that it was done. While the client has said so a moment
-- ago, nothing is written. Places count only those who live. Each queue is read once, however many places the client has.
-- Clients that ended an hour ago go: each beat that writes looks at ten clients, by their keys.
-- :step
WITH b AS MATERIALIZED (
    SELECT {now} AS t FROM {client} c
    WHERE c.id = :client AND c.alive_until BETWEEN {now} + :alive / 3000 * 2 AND {now} + :alive / 1000
), n AS MATERIALIZED (
    SELECT w.ns, w.name, max(w.ticket) AS last FROM b CROSS JOIN {waiter} w WHERE w.client = :client GROUP BY w.ns, w.name
), o AS (
    SELECT q.owner, q.client, q.ns, q.name, row_number() OVER (PARTITION BY q.ns, q.name ORDER BY q.ticket) AS place
    FROM b CROSS JOIN n CROSS JOIN {waiter} q LEFT JOIN {client} p ON p.id = q.client
    WHERE q.ns = n.ns AND q.name = n.name AND q.ticket <= n.last AND (q.client = :client OR p.alive_until > b.t)
)
SELECT 0, {DONE}, 0, NULL, b.t * 1000, NULL, NULL, NULL FROM b
UNION ALL
SELECT 0, {DONE}, o.place, (l.exp - b.t) * 1000, b.t * 1000, o.owner, o.ns, o.name
FROM o CROSS JOIN b CROSS JOIN {lock} l
WHERE o.client = :client AND l.ns = o.ns AND l.name = o.name;
-- :step write
INSERT INTO {client} (id, alive_until, session) VALUES (:client, {now} + :alive / 1000, :session * 0)
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until;
-- :step write
DELETE FROM {client} WHERE id IN ({ten}) AND alive_until < {now} - {gone};
-- :step same 1

-- :block notify
-- The driver's own function sends the message. If it is lost, the waiter sees a moment later that the file has changed.
-- :step
SELECT 0, {DONE} WHERE sqlock_notify(:client, :owner);

-- :block waiters
-- A page of those who wait, in the order of their places, behind the ticket :ticket of the name :after, and of names
-- below :below. Only those who live: others are passed over.
-- First on each name (ticket 0), who has the turn and waits with it for the seats beside the lock.
-- :step
SELECT 0, {DONE}, w.ticket, NULL, {now} * 1000, w.since * 1000, w.label, w.name, w.owner, w.mode, w.client
FROM (
    SELECT * FROM (
        SELECT l.name, 0 AS ticket, l.since, l.label, l.owner, l.client, max(l.seats, 0) AS mode
        FROM {lock} l
        WHERE (l.ns, l.name) >= (:ns, :after) AND (l.ns, l.name) < (:ns, :below) AND (:ticket < 0 OR l.name <> :after)
          AND l.kind = 0 AND l.seats <> 0 AND l.owner IS NOT NULL AND l.exp > {now}
        ORDER BY l.ns, l.name LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT w.name, w.ticket, w.since, w.label, w.owner, w.client, w.mode
        FROM {waiter} w
        WHERE (w.ns, w.name, w.ticket) > (:ns, :after, :ticket) AND (w.ns, w.name) < (:ns, :below)
          AND EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND p.alive_until > {now})
        ORDER BY w.ns, w.name, w.ticket LIMIT :limit)
) w
ORDER BY w.name, w.ticket LIMIT :limit;

-- :block pass
-- The release of a lock that others wait for: it passes the lock on. To whom:
-- - The first waiter of this client in the queue, or, if it has none there, :next, which waits in the client alone. It
--   is granted the lock at once, with its whole lease. But only so often in a row, and not the turn beside seats: a writer
--   would wait for all its readers.
-- - Then the first waiter whose client lives. The lock is offered to it: see queue. :next, if it was not granted the
--   lock, is put into the queue. So a client needs one place there, however many of its own wait.
-- :next may be NULL. Late requests (:not_after) pass nothing on to it: it may not wait any more. So it is if others wait
-- in a mode that does not go with its own: it looks by itself, and is refused.
-- The first three steps are for a lock that no one waits for any more. They free it, and say what came of that. The
-- fourth one queues :next, the fifth one passes the lock on, and the sixth one takes out of the queue who has got it, and
-- those who are dead. What is granted must be on the disk, and an offer need not be: see queue. Always one row.
-- place: not NULL: :next is in the queue.
-- :step write
UPDATE {lock} AS l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE {released} AND waiters = 0 AND NOT {next_waits};
-- :step write
SELECT 0, {DONE}, :token, NULL, {now} * 1000 WHERE changes() = 1;
-- :step write
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE h.ended_why WHEN {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000, NULL, NULL, NULL, h.client, h.owner
FROM (SELECT 1) LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
WHERE (h.kind = 0 AND h.owner = :owner AND h.token = :token) IS NOT TRUE;
-- :step write
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
SELECT l.ns, l.name, max(l.next_ticket, {last_queued}) + 1, :next, :client, :ttl / 1000, max(:grace, 0) / 1000, :label, {now},
       :mode
FROM {lock} l
WHERE {released} AND {next_waits} AND NOT {next_gets}
  AND NOT EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = :ns AND w.name = :name AND w.owner = :next);
-- :step write
WITH s AS (
    SELECT {now} AS t, {own_ticket} AS own, {first_ticket} AS first, {next_gets} AS gets FROM {lock} l WHERE {released}
), h AS (
    SELECT s.t, s.first, CASE WHEN s.gets THEN :next ELSE w.owner END AS owner,
           CASE WHEN s.gets THEN :client ELSE w.client END AS client,
           CASE WHEN s.gets THEN :ttl / 1000 ELSE w.ttl END AS ttl, CASE WHEN s.gets THEN :label ELSE w.label END AS label,
           CASE WHEN s.gets THEN 1 WHEN w.owner IS NOT NULL THEN s.own IS NOT NULL END AS passed
    FROM s LEFT JOIN {waiter} w ON w.ns = :ns AND w.name = :name AND w.ticket = coalesce(s.own, s.first)
), r AS (
    SELECT h.*, EXISTS (SELECT 1 FROM {waiter} o WHERE o.ns = :ns AND o.name = :name AND o.owner IS NOT h.owner
                                                   AND o.ticket >= h.first) AS more
    FROM h
)
UPDATE {lock} AS l SET
    owner = r.owner, token = CASE WHEN r.owner IS NULL THEN l.token ELSE max(l.token + 1, {least_token}) END,
    exp = CASE r.passed WHEN 1 THEN r.t + r.ttl WHEN 0 THEN r.t + {offer} END,
    since = CASE WHEN r.owner IS NOT NULL THEN r.t END, label = r.label, client = r.client,
    ttl = coalesce(r.ttl, l.ttl), offered = r.passed IS 0,
    passes = CASE r.passed WHEN 1 THEN min(l.passes + 1, {passes}) ELSE 0 END,
    ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED},
    idle_since = CASE WHEN r.owner IS NULL THEN r.t END,
    waiters = r.more, changes = l.changes + 1, next_ticket = max(l.next_ticket, {last_queued}) * r.more
FROM r WHERE {released};
-- :step write
DELETE FROM {waiter} AS o
WHERE o.ns = :ns AND o.name = :name
  AND (o.owner = (SELECT l.owner FROM {lock} l WHERE l.ns = :ns AND l.name = :name)
       OR o.ticket < coalesce((SELECT {first_ticket} FROM {lock} l WHERE l.ns = :ns AND l.name = :name), {last_ticket}));
-- :step durable
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.owner IS NOT NULL AND l.offered = 0;
-- :step write
SELECT 0, {DONE}, :token, NULL, {now} * 1000, NULL, NULL,
       (SELECT 1 + (SELECT count(*) FROM {waiter} w WHERE w.ns = o.ns AND w.name = o.name AND w.ticket < o.ticket)
        FROM {waiter} o WHERE o.ns = :ns AND o.name = :name AND o.owner = :next),
       l.client, l.owner, CASE WHEN l.owner IS NOT NULL THEN l.token END, (l.exp - l.since) * 1000,
       l.offered = 0 AND l.seats = 0
FROM {lock} l WHERE l.ns = :ns AND l.name = :name;

-- :block seat
-- A seat for a shared holder (:seats = -1), or for the holder of one of N slots (:seats = N): a lease in a row of its own.
-- It is granted while the lock's own row is free and no one queues, or to whom that row was granted: that is the turn. An
-- exclusive holder has that row, and so keeps out who wants a seat. The row's token is drawn on, so that the tokens of all
-- kinds rise together.
-- The first step only reads. The second makes the lock's row where there is none. The third says why there is no seat, and
-- behind it there is one: the one that this owner has already (the same request sent again), or that with the lowest number.
-- The fifth step gives the turn back, unless others wait: then core passes it on. The turn ends as a release does, so that
-- a request for it that comes late is granted nothing. Since nothing can come between, the seats are what the write
-- transaction sees.
-- An owner that ran out loses the row, so that a clock that steps back cannot revive it beside the new holder.
-- An owner that has released its seat, or given up its turn without one, gets no other.
-- :turn = 1: only for an owner that has the turn, or its seat already: no other grant came in between. Otherwise the answer
-- says how the turn has ended.
-- Who has a seat already is answered even while another one has the row: it waits for this very seat to be empty.
-- The last column: 1 if this owner has the turn still. No row: meta has none.
-- :step
SELECT 0, CASE WHEN h.kind <> 0 THEN {KIND} WHEN {seats_unlike} THEN {UNLIKE} ELSE {HELD} END,
       CASE WHEN {seats_unlike} THEN h.seats ELSE {held_token} END, (h.exp - {now}) * 1000, {now} * 1000,
       h.since * 1000, h.label
FROM {lock} h
WHERE h.ns = :ns AND h.name = :name
  AND (h.kind <> 0 OR h.owner IS NOT NULL AND h.owner <> :owner AND h.exp > {now}
                      AND NOT EXISTS (SELECT 1 FROM {lock} s WHERE {seats} AND :owner IN (s.owner, s.ended_owner)));
-- :step write
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now}
FROM {meta} m WHERE m.id = 1 AND {now} * 1000 <= :not_after AND :grace IS NOT NULL
ON CONFLICT (ns, name) DO NOTHING;
-- :step write
WITH t AS (
    SELECT h.*, (SELECT s.name FROM {lock} s WHERE {seats} AND s.owner = :owner AND s.exp > {now}) AS mine,
           EXISTS (SELECT 1 FROM {lock} s
                   WHERE {seats} AND s.ended_owner = :owner AND s.ended_why = {ENDED_RELEASED})
           OR h.ended_owner IS :owner AND h.ended_why = {ENDED_RELEASED}
              AND NOT EXISTS (SELECT 1 FROM {lock} s WHERE {seats} AND :owner IN (s.owner, s.ended_owner)) AS was_mine
    FROM {lock} h WHERE h.ns = :ns AND h.name = :name
), d AS (
    SELECT h.*,
           CASE WHEN h.kind <> 0 THEN {KIND}
                WHEN {now} * 1000 > :not_after THEN {LATE}
                WHEN h.withdrawn = :owner OR h.was_mine THEN {RELEASED}
                WHEN h.mine IS NOT NULL THEN {DONE}
                WHEN NOT {turn_ours} AND NOT {turn_free} THEN CASE WHEN {seats_unlike} THEN {UNLIKE} ELSE {HELD} END
                WHEN :turn = 1 AND h.owner IS :owner AND NOT {turn_ours} THEN {EXPIRED}
                WHEN :turn = 1 AND h.ended_owner IS :owner AND NOT {turn_ours} THEN {ENDED} + h.ended_why
                WHEN :turn = 1 AND NOT {turn_ours} THEN {TAKEN}
                WHEN h.waiters <> 0 AND NOT {turn_ours} THEN {QUEUED}
                WHEN h.seats <> 0 AND h.seats <> :seats THEN {UNLIKE}
                WHEN :seats > 0 AND {seat_free} >= :seats THEN {FULL}
                ELSE {DONE} END AS outcome
    FROM t h
)
SELECT 0, d.outcome,
       CASE d.outcome WHEN {UNLIKE} THEN d.seats WHEN {FULL} THEN s.token WHEN {HELD} THEN CASE d.seats WHEN 0 THEN d.token ELSE 0 END ELSE d.token END,
       (CASE d.outcome WHEN {FULL} THEN s.exp ELSE d.exp END - {now}) * 1000, {now} * 1000,
       CASE d.outcome WHEN {FULL} THEN s.since ELSE d.since END * 1000,
       CASE d.outcome WHEN {FULL} THEN s.label ELSE d.label END
FROM d LEFT JOIN {lock} s ON d.outcome = {FULL} AND {seats} AND {seated}
WHERE d.outcome <> {DONE}
ORDER BY s.exp LIMIT 1;
-- :step write
INSERT INTO {lock} AS l (ns, name, owner, token, exp, ttl, since, label)
SELECT :ns, coalesce((SELECT s.name FROM {lock} s WHERE {seats} AND s.owner = :owner AND s.exp > {now}),
                     (SELECT {seat_key} FROM (SELECT {seat_free} AS n) c)),
       :owner, max(h.token + 1, {least_token}), {now} + :ttl / 1000, :ttl / 1000, {now}, :label
FROM {lock} h JOIN {meta} m ON m.id = 1
WHERE h.ns = :ns AND h.name = :name
ON CONFLICT (ns, name) DO UPDATE SET
    token = CASE WHEN l.owner = :owner AND l.exp > {now} THEN {own_token} ELSE max(l.token + 1, excluded.token) END,
    since = CASE WHEN l.owner = :owner AND l.exp > {now} THEN l.since ELSE excluded.since END,
    ended_owner = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > {now} THEN l.ended_owner ELSE l.owner END,
    ended_token = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > {now} THEN l.ended_token ELSE l.token END,
    ended_why = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > {now} THEN l.ended_why ELSE {ENDED_TAKEN} END,
    owner = :owner, exp = excluded.exp, ttl = excluded.ttl, label = excluded.label, idle_since = NULL;
-- :step write
UPDATE {lock} AS h SET
    token = max(h.token, (SELECT s.token FROM {lock} s WHERE {seats} AND s.owner = :owner)),
    seats = :seats, changes = h.changes + 1,
    ended_owner = CASE WHEN h.owner IS NOT NULL AND NOT {turn_stays} THEN h.owner ELSE h.ended_owner END,
    ended_token = CASE WHEN h.owner IS NOT NULL AND NOT {turn_stays} THEN h.token ELSE h.ended_token END,
    ended_why = CASE WHEN h.owner IS NULL OR {turn_stays} THEN h.ended_why
                     WHEN {turn_ours} THEN {ENDED_RELEASED} ELSE {ENDED_TAKEN} END,
    owner = CASE WHEN {turn_stays} THEN h.owner END, exp = CASE WHEN {turn_stays} THEN h.exp END,
    since = CASE WHEN {turn_stays} THEN h.since END, label = CASE WHEN {turn_stays} THEN h.label END,
    offered = CASE WHEN {turn_stays} AND NOT {turn_ours} THEN h.offered ELSE 0 END, idle_since = NULL
WHERE h.ns = :ns AND h.name = :name;
-- :step write
SELECT 0, {DONE}, s.token, s.ttl * 1000, (s.exp - s.ttl) * 1000, s.since * 1000, s.label, {seat_number},
       h.owner IS :owner
FROM {lock} h JOIN {lock} s ON {seats} AND s.owner = :owner
WHERE h.ns = :ns AND h.name = :name;

-- :block drain
-- Are all seats of the lock empty? Then there are none any more (seats = 0), and the owner of the lock's row holds it alone:
-- no one takes a seat but who has that row. For who has it, or for a row that is free.
-- The first step only reads: a holder whose lease runs, the last one to end. The seat of :beside comes last: its owner
-- wants the lock alone, and gives that seat back once there is no other. What ran out is taken from its holder, so that
-- a clock that steps back cannot revive it. No row: the lock has none.
-- The lock is held since now, and not since the turn began. But whoever changes from a shared lock (:beside) has held
-- that one.
-- :step
SELECT 0, {HELD}, s.token, (s.exp - {now}) * 1000, {now} * 1000, s.since * 1000, s.label, {seat_number}, h.seats
FROM {lock} h JOIN {lock} s ON {seats} AND {seated}
WHERE h.ns = :ns AND h.name = :name AND h.seats <> 0
  AND ({turn_ours} OR NOT {turn_free} OR h.waiters = 0)
ORDER BY s.owner = :beside, s.exp DESC LIMIT 1;
-- :step write
UPDATE {lock} AS h SET seats = 0, changes = changes + 1, idle_since = CASE WHEN h.owner IS NULL THEN {now} END,
    since = CASE WHEN {turn_ours} AND :beside = :owner THEN {now} ELSE since END
WHERE h.ns = :ns AND h.name = :name AND h.kind = 0 AND h.seats <> 0
  AND ({turn_ours} OR {turn_free} AND h.waiters = 0)
  AND NOT EXISTS (SELECT 1 FROM {lock} s WHERE {seats} AND {seated});
-- :step write
UPDATE {lock} AS s SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_TAKEN}, idle_since = {now}
WHERE {seats} AND s.owner IS NOT NULL AND changes() = 1;
-- :step write
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN h.seats = 0 THEN {DONE}
            WHEN NOT {turn_ours} AND NOT {turn_free} THEN {HELD}
            WHEN NOT {turn_ours} AND h.waiters <> 0 THEN {QUEUED}
            ELSE {SKIPPED} END,
       {held_token}, (h.exp - {now}) * 1000, {now} * 1000, h.since * 1000, h.label
FROM {lock} h WHERE h.ns = :ns AND h.name = :name;

-- :block unseat
-- As withdraw, for a `seat` whose answer is not known. It gives back the seat that this owner was granted, and the lock's
-- row if it has that, and writes the tombstone there.
-- :step write
DELETE FROM {waiter} WHERE ns = :ns AND name = :name AND owner = :owner;
-- :step write
INSERT INTO {lock} AS l (ns, name, token, idle_since, waiters, withdrawn)
SELECT :ns, :name, m.fence_floor, {now}, {queued}, :owner FROM {meta} m WHERE m.id = 1
ON CONFLICT (ns, name) DO UPDATE SET
    ended_token = CASE WHEN l.owner = :owner THEN l.token ELSE l.ended_token END,
    ended_owner = CASE WHEN l.owner = :owner THEN l.owner ELSE l.ended_owner END,
    ended_why = CASE WHEN l.owner = :owner THEN {ENDED_RELEASED} ELSE l.ended_why END,
    withdrawn = :owner,
    idle_since = CASE WHEN l.owner IS NULL OR l.owner = :owner THEN {now} END,
    since = CASE WHEN l.owner = :owner THEN NULL ELSE l.since END,
    label = CASE WHEN l.owner = :owner THEN NULL ELSE l.label END,
    exp = CASE WHEN l.owner = :owner THEN NULL ELSE l.exp END,
    owner = CASE WHEN l.owner = :owner THEN NULL ELSE l.owner END,
    waiters = {queued}, changes = l.changes + 1, next_ticket = l.next_ticket * {queued}
WHERE l.kind = 0 AND (l.owner = :owner OR l.withdrawn IS NOT :owner);
-- :step write
UPDATE {lock} AS s SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE {seats} AND s.owner = :owner;
-- :step write
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN EXISTS (SELECT 1 FROM {lock} s WHERE {seats} AND s.ended_owner = :owner) THEN {DONE}
            WHEN {now} * 1000 <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM {meta} m LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block stand
-- The owner has the turn, and waits for those who have seats. Where it waits could not be seen: its place in the queue
-- is gone, and no index finds a lock's row by its owner. So a row here says it, in the library's own namespace (:own).
-- It has the lock's name and token, the owner in the place of the client, and the lock's namespace as the label. It is
-- no place in a queue, and decides nothing. A minute later it goes, if it was not said again.
-- :step write
DELETE FROM {waiter} WHERE ns = :own AND since < {now} - {stood};
-- :step write
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since)
SELECT :own, l.name, l.token, l.owner, l.owner, 0, 0, l.ns, {now} FROM {lock} l
WHERE l.ns = :ns AND l.name = :name AND l.owner = :owner AND l.seats <> 0
ON CONFLICT (ns, name, ticket) DO UPDATE SET owner = excluded.owner, client = excluded.client, label = excluded.label,
    since = excluded.since;
-- :step write
SELECT 0, {DONE};

-- :block circle
-- Who waits for whom: all waiters of the namespace that live, and the holders of the locks that they wait for; also of
-- those locks whose turn someone has who waits for seats (stand). Seats are listed by `list`. At most :limit rows. A
-- wait that is missing hides a circle, and makes none. It only reads.
-- Waiters of the client that sends this live.
-- It goes by the primary keys: a range of waiters, and each lock once.
-- :step
SELECT 0, {DONE}, w.ticket, NULL, {now} * 1000, w.since * 1000, w.label, w.name, w.owner, NULL
FROM {waiter} w
WHERE w.ns = :ns
  AND (w.client = :client OR EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND p.alive_until > {now}))
UNION ALL
SELECT 0, {DONE}, l.token, (l.exp - {now}) * 1000, {now} * 1000, l.since * 1000, l.label, l.name, l.owner, l.seats
FROM (SELECT v.name FROM {waiter} v WHERE v.ns = :ns
      UNION
      SELECT v.name FROM {waiter} v WHERE v.ns = :own AND v.label = :ns) n
    CROSS JOIN {lock} l
WHERE l.ns = :ns AND l.name = n.name AND l.kind = 0 AND l.exp > {now}
LIMIT :limit;
