-- The fake driver's dialect: SQLite's, in one database in memory. These blocks replace those in which a server
-- differs from a file. schema/README.md says how to read this file.

-- The server's clock, which a test steps, as the database gives it: milliseconds as in the tables, and microseconds.
-- :define now fake_ms()
-- :define us fake_us()
-- A test's database has these tables, whatever prefix a manager names.
-- :define schema main
-- :define prefix sqlock_
-- :define lock main.sqlock_lock
-- :define meta main.sqlock_meta
-- :define migration main.sqlock_migration
-- :define row main.sqlock_row
-- :define register main.sqlock_register
-- :define broken main.sqlock_broken
-- :define waiter main.sqlock_waiter
-- :define client main.sqlock_client
-- As on a server, tokens and versions are one more than the last, and above the floor. The floor follows the clock
-- when another server takes over.
-- :define least_token (SELECT fence_floor + 1 FROM {meta} WHERE id = 1)
-- One of another server is drawn anew.
-- :define own_token max(token, {least_token})
-- :define not_overtaken ((SELECT fence_floor FROM {meta} WHERE id = 1) >= :above)
-- :define first_version max({us}, {least_token})
-- Until then a program may believe in a lock that a missing commit granted it.
-- :define grace_end CASE :grace WHEN 0 THEN 0 ELSE s.lost_at + min(s.longest, :grace) END
-- The same for a waiter {waiter} w.
-- :define waiter_end (s.lost_at + min(s.longest, w.grace * 1000))

-- :block handshake
-- :step
SELECT 0, {DONE}, m.version, m.min_reader, {now} * 1000, m.server = s.server, CAST(s.server AS BLOB), NULL, NULL,
       s.longest, m.fence_floor
FROM {meta} m, fake_server s WHERE m.id = 1 AND :accept_weak IS NOT NULL;

-- :block reincarnate
-- A trigger sets lost_at (drivers/fake/db.c). No row: another session was quicker.
-- :step write
UPDATE {meta} SET
    fence_floor = CASE WHEN {us} > max(fence_floor, :floor) THEN {us} ELSE max(fence_floor, :floor) + 4294967296 END,
    inc = inc + 1, server = CAST(:server AS TEXT)
WHERE id = 1 AND (server <> CAST(:server AS TEXT) OR fence_floor < :floor)
  AND ({us} > max(fence_floor, :floor) OR :lift = 1)
RETURNING 0, {DONE}, fence_floor;
-- :step write
SELECT 0, {BEHIND}, fence_floor, max(fence_floor, :floor) - {us}, {us}
FROM {meta} WHERE id = 1 AND (server <> CAST(:server AS TEXT) OR fence_floor < :floor);

-- :block longest
-- :step write
UPDATE fake_server SET longest = max(longest, :ttl) RETURNING 0, {DONE};

-- :block acquire before
-- A server that meta does not know grants nothing (STRANGER). Nor does one in the grace (GRACE), except what its
-- owner has. A missing row is made by itself, as on servers: so a failover that forgets a grant leaves the row.
-- :step
SELECT 0, CASE WHEN m.server <> s.server THEN {STRANGER} ELSE {GRACE} END, coalesce(h.token, 0),
       CASE WHEN m.server <> s.server THEN (h.exp - {now}) * 1000 ELSE {grace_end} - {now} * 1000 END,
       {now} * 1000, h.since * 1000, h.label
FROM {meta} m, fake_server s LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
WHERE m.id = 1 AND coalesce(h.kind, 0) = 0
  AND (m.server <> s.server
       OR {now} * 1000 < {grace_end} AND {now} * 1000 <= :not_after AND (h.owner IS NULL OR h.exp <= {now})
          AND h.withdrawn IS NOT :owner AND (h.ended_why IS NOT {ENDED_RELEASED} OR h.ended_owner IS NOT :owner));
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 ON CONFLICT (ns, name) DO NOTHING;

-- :block migrate_lease
-- For tests in which DDL commits by itself. It is granted if free, run out or this owner's; :ttl = 0 gives it back.
-- :step write
INSERT INTO {lock} AS l (ns, name, owner, token, exp, ttl, since, label)
SELECT :ns, :name, :owner, {least_token}, {now} + :ttl / 1000, :ttl / 1000, {now}, :label WHERE 1
ON CONFLICT (ns, name) DO UPDATE SET
    token = CASE WHEN l.owner = excluded.owner AND l.exp > {now} THEN l.token ELSE l.token + 1 END,
    since = CASE WHEN l.owner = excluded.owner AND l.exp > {now} THEN l.since ELSE excluded.since END,
    owner = CASE WHEN :ttl > 0 THEN excluded.owner END, exp = CASE WHEN :ttl > 0 THEN excluded.exp END,
    ttl = excluded.ttl, label = excluded.label
WHERE l.owner IS NULL OR l.owner = excluded.owner OR l.exp <= {now}
RETURNING 0, {DONE}, token, (exp - {now}) * 1000, {now} * 1000;
-- :step write
SELECT 0, {HELD}, token, (exp - {now}) * 1000, {now} * 1000 FROM {lock} WHERE ns = :ns AND name = :name;

-- :block register_set before
-- A server that meta does not know changes nothing (STRANGER).
-- :step
SELECT 0, {STRANGER}, coalesce(r.version, 0), NULL, {now} * 1000
FROM {meta} m, fake_server s LEFT JOIN {register} r ON r.ns = :ns AND r.name = :name
WHERE m.id = 1 AND m.server <> s.server AND coalesce(r.version, 0) = :expected AND r.writer IS NOT :writer;

-- :block queue before
-- As in acquire. In the grace of the first waiter, which the caller need not have, nothing is offered to it, nor to others
-- before it.
-- :step
SELECT 0, CASE WHEN m.server <> s.server THEN {STRANGER} ELSE {GRACE} END, coalesce(h.token, 0),
       CASE WHEN m.server <> s.server THEN (h.exp - {now}) * 1000
            ELSE max({grace_end}, coalesce({waiter_end}, 0)) - {now} * 1000 END,
       {now} * 1000, h.since * 1000, h.label
FROM {meta} m, fake_server s LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
     LEFT JOIN {waiter} w ON w.ns = :ns AND w.name = :name AND w.ticket = (
         SELECT f.ticket FROM {waiter} f LEFT JOIN {client} p ON p.id = f.client
         WHERE f.ns = :ns AND f.name = :name AND (f.client = :client OR f.owner = :owner AND :waits = 1 OR p.alive_until > {now})
         ORDER BY f.ticket LIMIT 1)
WHERE m.id = 1 AND coalesce(h.kind, 0) = 0
  AND (m.server <> s.server
       OR ({now} * 1000 < {grace_end} OR w.owner <> :owner AND {now} * 1000 < {waiter_end})
          AND {now} * 1000 <= :not_after AND (h.owner IS NULL OR h.exp <= {now})
          AND h.withdrawn IS NOT :owner AND (h.ended_why IS NOT {ENDED_RELEASED} OR h.ended_owner IS NOT :owner));

-- :block notify
-- No one listens.
-- :step
SELECT 0, {DONE} WHERE :client IS NOT NULL AND :owner IS NOT NULL;

-- :block pass before
-- Such a server passes nothing on, nor does one in the grace of who would be next. It only frees the lock, and names the
-- first waiter.
-- :step write
UPDATE {lock} AS l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = {now}
WHERE {released}
  AND EXISTS (SELECT 1
              FROM {meta} m, fake_server s
              LEFT JOIN {waiter} w ON w.ns = :ns AND w.name = :name AND w.ticket = coalesce({own_ticket}, {first_ticket})
              WHERE m.id = 1 AND (m.server <> s.server
                    OR {now} * 1000 < CASE WHEN {next_gets} THEN {grace_end} ELSE {waiter_end} END))
RETURNING 0, {DONE}, token, NULL, {now} * 1000, NULL, NULL, NULL,
          (SELECT w.client FROM {waiter} w WHERE w.ns = :ns AND w.name = :name ORDER BY w.ticket LIMIT 1),
          (SELECT w.owner FROM {waiter} w WHERE w.ns = :ns AND w.name = :name ORDER BY w.ticket LIMIT 1);

-- :block seat before
-- As in acquire. Who has a seat already keeps it in the grace.
-- :step
SELECT 0, CASE WHEN m.server <> s.server THEN {STRANGER} ELSE {GRACE} END, coalesce(h.token, 0),
       CASE WHEN m.server <> s.server THEN (h.exp - {now}) * 1000 ELSE {grace_end} - {now} * 1000 END,
       {now} * 1000, h.since * 1000, h.label
FROM {meta} m, fake_server s LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
WHERE m.id = 1 AND coalesce(h.kind, 0) = 0
  AND (m.server <> s.server
       OR {now} * 1000 < {grace_end} AND {now} * 1000 <= :not_after AND (h.owner IS NULL OR h.exp <= {now})
          AND h.withdrawn IS NOT :owner
          AND NOT EXISTS (SELECT 1 FROM {lock} o
                          WHERE o.ns = :ns AND o.name > CAST(:name || x'00' AS BLOB)
                            AND o.name < CAST(:name || x'01' AS BLOB) AND :owner IN (o.owner, o.ended_owner)));

-- :block drain before
-- A server that meta does not know decides nothing (STRANGER).
-- :step
SELECT 0, {STRANGER}, h.token, (h.exp - {now}) * 1000, {now} * 1000
FROM {meta} m, fake_server s, {lock} h
WHERE m.id = 1 AND m.server <> s.server AND h.ns = :ns AND h.name = :name AND :owner IS NOT NULL;
