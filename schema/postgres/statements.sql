-- sqlock's statements for PostgreSQL 10 and newer. schema/README.md says how to read this file.
-- Each block stands alone in autocommit, READ COMMITTED, and keeps nothing in the session that it relies on. So it
-- works behind a transaction pooler too.
-- PostgreSQL never inlines a CTE that locks rows, so no MATERIALIZED of PostgreSQL 12 is necessary. One index serves
-- all blocks: the primary key (ns, name).
-- The session may have any search_path. The build writes operators, functions, types and catalogues with their
-- schema. schema/qualify.awk says what this demands of a statement.

-- date_part() counts in floating point, which is exact here to the microsecond, and takes half the time of extract().
-- :define now (date_part('epoch', clock_timestamp()) * 1000000)::bigint
-- How long notes of breaks stay: longer than any lease lasts.
-- :define month 2678400000000
-- No lease is longer than 7 days.
-- :define longest_ever 604800000000
-- How long a waiter has to take up the lock that it is offered. That is longer than from one beat to the next, so a
-- notification that is lost costs it no place.
-- :define offer 1200000
-- A grant lasts for its lease; a turn, beside which others may have seats, no longer than an offer: who dies with it
-- costs others no more. It is extended by acquire.
-- A client that has the turn is late a second behind its last request, even if its lease is shorter. By then it has sent
-- a beat.
-- :define whole_turn 1000000
-- :define lasts CASE WHEN l.seats = 0 THEN :ttl ELSE least(:ttl, {offer}) END
-- A client p lives: it has said so, and its session has not ended. A session that listens for the client holds this
-- advisory lock. So the end of a program that was killed shows at once.
-- :define session_number ('x'::text || encode(substr(p.id, 1, 8), 'hex'::text))::bit(64)::bigint
-- :define living (p.alive_until > {now} AND (p.session = 0 OR NOT pg_try_advisory_xact_lock_shared({session_number})))
-- The waiter w is of a client that lives. Or it is of this client, whose own session shows no lock to itself.
-- :define is_there (w.client = :client OR EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND {living}))
-- So often in a row a waiter of the holder's own client comes before older ones of others.
-- :define passes 16
-- What the waiter w wants, or what the seats of c are, does not go with :mode. Slots go with as many slots, and all else
-- goes together.
-- :define unlike greatest(w.mode, 0) <> greatest(:mode, 0)
-- :define seats_unlike c.seats <> 0 AND greatest(c.seats, 0) <> greatest(:mode, 0)
-- The mode that the first waiter who lives wants, if it does not: all go together that wait at the same time.
-- :define unlike_mode (SELECT CASE WHEN {unlike} THEN w.mode END FROM {waiter} w WHERE w.ns = :ns AND w.name = :name AND {is_there} ORDER BY w.ns, w.name, w.ticket LIMIT 1)
-- The rows of a lock's seats (z): their names are the lock's, a byte 00, and the seat's number in three bytes. Names
-- that users give have no byte 00. A seat's number, and the name of the seat with the number x.n.
-- :define seat z.ns = :ns AND z.name > (:name || decode('00', 'hex')) AND z.name < (:name || decode('01', 'hex'))
-- :define number ((get_byte(z.name, octet_length(z.name) - 3) * 65536) + (get_byte(z.name, octet_length(z.name) - 2) * 256) + get_byte(z.name, octet_length(z.name) - 1))
-- :define numbered (:name || decode('00'::text || lpad(to_hex(x.n), 6, '0'), 'hex'))
-- The row l is a seat; the lock h that it is of; the same, if someone has its turn.
-- :define is_seat (octet_length(l.name) > 4 AND get_byte(l.name, octet_length(l.name) - 4) = 0)
-- :define seat_of h.ns = l.ns AND h.name = substr(l.name, 1, octet_length(l.name) - 4)
-- :define turn {seat_of} AND h.seats <> 0 AND h.exp > {now}
-- A client that ended so long ago is forgotten.
-- :define gone 3600000000
-- The ids of ten clients behind a place drawn at random. Behind the last one comes the first one.
-- :define ten (SELECT s.id FROM {client} s WHERE s.id > (SELECT int4send((random() * 4294967295 - 2147483648)::int)) ORDER BY s.id LIMIT 10) UNION ALL (SELECT f.id FROM {client} f ORDER BY f.id LIMIT 10) LIMIT 10
-- How long it counts that someone has said where it waits with the turn.
-- :define stood 60000000
-- The row l after its release.
-- :define freed owner = NULL, exp = NULL, since = NULL, label = NULL, ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED}, idle_since = {now}
-- Larger than any ticket of a queue.
-- :define last_ticket 9223372036854775807
-- When the server was started.
-- :define started (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint::text
-- What a session, or the client of a pooler, can see change during its life:
-- - the meta table's number: a dump that is put back has another one;
-- - the timeline: it rises with each promotion;
-- - the server's start: data that another server has overtaken may have been started again.
-- :define life ({meta:text}::regclass::oid::text || '/'::text || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/'::text || {started})
-- meta's server is this one, and forgets no commits that meta does not say it may forget ('@'). Each grant checks
-- this. A reload can turn fsync off, and one statement makes a table UNLOGGED. A connected session notices neither.
-- pg_relation_is_publishable looks into the server's cache of pg_class, so it costs nothing. Of such functions it
-- alone says that a table is neither temporary nor UNLOGGED.
-- :define known (split_part(m.server, '#', 2) = {life} AND (current_setting('fsync') = 'on' OR strpos(m.server, '@') > 0) AND pg_relation_is_publishable({lock:text}::regclass) AND pg_relation_is_publishable({meta:text}::regclass))
-- The server may lack commits of another server. A program may have been granted the lock by one of them, and still
-- believe in it. :grace is the application's maximum; 0 means that this does not matter. Each grant checks it,
-- because this connection may have had no handshake since: behind a pooler, or where another connection noticed the
-- change.
-- Until when:
-- :define grace_end (m.lost_at + least(m.longest, :grace))
-- :define graced (:grace > 0 AND {now} < {grace_end})
-- The same for registers, whose table is younger than the others.
-- :define kept pg_relation_is_publishable({register:text}::regclass)

-- The running server and the database, for guards. A copy of either has another start, whatever else is the same.
-- :define running ((SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database()) || '@'::text || {started})

-- Those who wait to write one row come one by one, first come first served, where a statement has this condition. A row
-- lock wakes all that wait for it each time that the row gets a new version, and they overtake each other. It stands
-- first in its transaction: who waits here has locked nothing. It ends by itself when the request is worth nothing any
-- more: to end it from outside costs the connection. Two names that share a number wait for each other, too. The first
-- number is ours among the pairs of numbers that a database's advisory locks may have.
-- :define in_turn_number hashtext({lock:text}::text || encode(:ns, 'hex'::text) || '/'::text || encode(:name, 'hex'::text))
-- :define in_turn_ms greatest(1, least(2000, (:not_after - {now}) / 1000))::text
-- :define in_turn CASE WHEN set_config('lock_timeout', {in_turn_ms}, true) IS NOT NULL THEN pg_advisory_xact_lock(1397836619, {in_turn_number})::text IS NOT NULL END
-- Our own number among all advisory locks of the database.
-- :define migrators 7312051953419

-- A session that sets nothing may come with synchronous_commit off and be accepted (SQLOCK_OPEN_ACCEPT_WEAK). This
-- turns it on for the transaction: a token that was handed out and then forgotten would be handed out again.
-- :define durable (current_setting('synchronous_commit') <> 'off' OR set_config('synchronous_commit', 'on', true) = 'on')
-- The opposite: what the transaction writes may be lost in a crash, as long as no later commit has reached the disk.
-- :define unwaited set_config('synchronous_commit', 'off', true) = 'off'
-- The same, if the call need not wait; else it waits.
-- :define lazily CASE WHEN :lazy THEN {unwaited} ELSE {durable} END

-- Always true of the requests u of an array. The planner expects ten requests, and would rather read a small table whole
-- than look for ten keys. It would go on when the table has grown. With this it expects one, and goes by the primary
-- key.
-- :define few u.ord = abs(u.ord)

-- A session that is in the way (a of pg_stat_activity): for how long its transaction has been open, in microseconds;
-- and what people want to know about it.
-- :define open (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint
-- :define about convert_to(CASE WHEN a.pid IS NULL THEN 'a prepared transaction' ELSE concat_ws(', ', 'user ' || a.usename, 'application ' || CASE WHEN a.application_name <> '' THEN a.application_name END, 'from ' || host(a.client_addr), a.state) END, 'UTF8')

-- What compare and set compares. Both may be NULL.
-- :define as_expected (({version} = {expected}) IS TRUE OR {version} IS NULL AND {expected}::bigint IS NULL)

-- A role that may create in the schema may make a table of our name before we do. What hangs on such a table (a
-- trigger, a CHECK, a policy, a view's functions) runs with the rights of the role that uses it. So the migrating
-- role uses plain tables only, and only those of owners who gain nothing by this:
-- - an owner that may act as the migrating role (superusers may), as the owner of the schema, or as the owner of the
--   database;
-- - a group that the administrator of roles gave to the migrating role. Membership alone proves nothing: before
--   PostgreSQL 15 each role may make any other its member.
-- :define granted WITH RECURSIVE g (oid) AS (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user UNION SELECT m.roleid FROM g JOIN pg_auth_members m ON m.member = g.oid JOIN pg_roles b ON b.oid = m.grantor WHERE b.rolsuper OR b.rolcreaterole) SELECT g.oid FROM g
-- :define trusted (pg_has_role(c.relowner, current_user, 'MEMBER') OR pg_has_role(c.relowner, n.nspowner, 'MEMBER') OR pg_has_role(c.relowner, d.datdba, 'MEMBER') OR c.relowner = ANY ({granted}))
-- All tables that we may have (tab), as one look shows them: whether each is there, and what is wrong with it. A call
-- that changes nothing (:changes = 0) may read plain tables of any owner.
-- :define looked SELECT t.tab, c.oid, c.relkind = 'r' AS plain, CASE WHEN c.relkind <> 'r' THEN t.name || ' of ' || o.rolname || ' is no plain table' WHEN NOT {trusted} THEN t.name || ' belongs to ' || o.rolname || ', and what hangs on it would run with the rights of ' || current_user END AS fault FROM (SELECT u.tab, '{prefix}' || u.tab AS name FROM unnest(ARRAY['meta', 'lock', 'migration', 'row', 'register', 'broken', 'waiter', 'client']) AS u (tab)) t LEFT JOIN pg_class c ON c.oid = to_regclass('{schema}.{prefix}' || t.tab) LEFT JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_roles o ON o.oid = c.relowner LEFT JOIN pg_database d ON d.datname = current_database()

-- :block handshake
-- What server this is, whether locks are safe on it, and which schema it has.
-- UNFIT in any case:
-- - a view in the place of a table: its functions would run with our rights;
-- - a rule: grants fail with it;
-- - row level security: a row that is hidden from this role looks like one that another session has locked;
-- - an UNLOGGED table: a crash empties it, and all tokens go with it;
-- - a session that does not get the warning that the wait for the standby was cut.
-- WEAK: the disk may not have all commits, or the standby for which the server was configured to wait.
-- The checks read the catalogue alone, and may go in one packet. The last step reads meta: not before it is known to be a
-- table, for a view's functions would run.
-- The server's identity: what its data is, with '@' if that data may forget commits; '#'; what changes during its
-- life.
-- :step
SELECT 0, CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN {READONLY}
               ELSE {UNFIT} END,
       0, 0, {now}, 0, NULL::bytea,
       convert_to(CASE WHEN pg_is_in_recovery() THEN 'the server is a replica'
            WHEN current_setting('transaction_read_only') = 'on' THEN 'default_transaction_read_only is on'
            ELSE 'transactions are not READ COMMITTED by default' END, 'UTF8')
WHERE pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'
   OR current_setting('transaction_isolation') <> 'read committed';
-- :step look
SELECT 0, {UNFIT}, 0, 0, {now}, 0, NULL::bytea,
       convert_to(CASE WHEN u.fault IS NOT NULL THEN u.fault
            ELSE 'client_min_messages is above warning' END, 'UTF8')
FROM (SELECT (SELECT CASE WHEN c.relkind <> 'r' THEN c.relname || ' is no plain table'
                          WHEN c.relpersistence = 'u' THEN 'a table of the schema is UNLOGGED'
                          WHEN row_security_active(c.oid) THEN c.relname || ' has row level security, which may hide rows from this role'
                          ELSE c.relname || ' has a rule' END
              FROM pg_class c
              WHERE c.oid = ANY (ARRAY[to_regclass({lock:text}), to_regclass({meta:text}),
                                       to_regclass('{schema}.{prefix}row'),
                                       to_regclass('{schema}.{prefix}register'),
                                       to_regclass('{schema}.{prefix}broken'),
                                       to_regclass('{schema}.{prefix}waiter'),
                                       to_regclass('{schema}.{prefix}client')])
                AND (c.relkind <> 'r' OR c.relpersistence = 'u' OR row_security_active(c.oid)
                     OR EXISTS (SELECT 1 FROM pg_rewrite w WHERE w.ev_class = c.oid))
              LIMIT 1) AS fault) u
WHERE u.fault IS NOT NULL
   OR current_setting('client_min_messages') = ANY (ARRAY['error', 'fatal', 'panic']);
-- :step look
SELECT 0, {WEAK}, 0, 0, {now}, 0, NULL::bytea,
       convert_to(CASE WHEN current_setting('fsync') = 'off' THEN 'fsync is off'
            ELSE 'synchronous_commit is ' || current_setting('synchronous_commit') END, 'UTF8')
WHERE :accept_weak = 0
  AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off'
       OR current_setting('synchronous_commit') = ANY (ARRAY['local', 'remote_write'])
          AND current_setting('synchronous_standby_names') <> '');
-- :step look
SELECT 0, {DENIED}, 0, 0, {now}, 0, NULL::bytea,
       convert_to('permission denied: ' || r.rights || ' on ' || r.name, 'UTF8')
FROM (VALUES ({lock:text}, 'SELECT'), ({lock:text}, 'INSERT'), ({lock:text}, 'UPDATE'),
             ({meta:text}, 'SELECT'), ({meta:text}, 'UPDATE')) r (name, rights)
WHERE NOT has_any_column_privilege(to_regclass(r.name)::oid, r.rights) LIMIT 1;
-- :step look
SELECT 0, {DONE}, 0, 0, {now} WHERE to_regclass({meta:text}) IS NULL;
-- :step
SELECT 0, {DONE}, m.version, m.min_reader, {now}, (m.server = i.server)::int, convert_to(i.server, 'UTF8'), NULL::bytea,
       {running}, m.longest, m.fence_floor
FROM {meta} m,
     (SELECT s.system_identifier::text || CASE WHEN current_setting('fsync') = 'off' THEN '@' ELSE '' END
             || '/' || d.oid || '#' || {life} AS server
      FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()) i
WHERE m.id = 1;

-- :block reincarnate
-- meta knew another server, or this one was started anew. It may have forgotten grants of its own past, or its data
-- may have overtaken this one. So from now on tokens are above the clock. All tokens that were drawn before are below
-- it: such a token is the clock of an earlier takeover, and one more for each grant since. Nothing is added to the
-- clock: another server that is promoted a little later would draw the same tokens again.
-- BEHIND: a clock that is behind the floor is not to be trusted. With :lift the floor becomes 2^32 more than it was,
-- which is 71 minutes of a clock.
-- The same happens where meta knows this server, but the caller has met another one that draws above :floor. Then
-- this server was overtaken, and grants again without a restart.
-- Commits may be missing (lost_at) on another timeline, on other data, on data that may forget commits, and on a
-- server that was overtaken. A server that was merely started anew has all of them. If no lease is known here yet,
-- the first ones may be among the missing commits, with any length.
-- No row: another session was quicker.
-- :step
WITH i AS (
    SELECT m.server, m.fence_floor < :floor AS overtaken, greatest(m.fence_floor, :floor) AS above, {now} AS t,
           convert_from(:server, 'UTF8') AS here
    FROM {meta} m
    WHERE m.id = 1 AND (m.server <> convert_from(:server, 'UTF8') OR m.fence_floor < :floor) AND {durable}
    FOR UPDATE
)
UPDATE {meta} m SET
    fence_floor = CASE WHEN i.t > i.above THEN i.t ELSE i.above + 4294967296 END,
    inc = m.inc + 1,
    lost_at = CASE WHEN i.server = '' OR NOT i.overtaken
                     AND strpos(i.here, '@') = 0 AND regexp_replace(i.here, '[0-9]+$', '') = regexp_replace(i.server, '[0-9]+$', '')
                   THEN m.lost_at ELSE i.t END,
    longest = CASE WHEN m.longest > 0 OR i.server = '' THEN m.longest ELSE {longest_ever} END,
    server = i.here
FROM i WHERE m.id = 1 AND (i.t > i.above OR :lift = 1)
RETURNING 0, {DONE}, m.fence_floor;
-- :step
SELECT 0, {BEHIND}, m.fence_floor, greatest(m.fence_floor, :floor) - {now}, {now}
FROM {meta} m
WHERE m.id = 1 AND (m.server <> convert_from(:server, 'UTF8') OR m.fence_floor < :floor)
  AND greatest(m.fence_floor, :floor) >= {now};

-- :block longest
-- No lease is longer than meta says. Before a longer one is granted, this raises the value. Always one row.
-- :step
WITH g AS (
    UPDATE {meta} m SET longest = :ttl WHERE m.id = 1 AND m.longest < :ttl AND {durable} RETURNING 1
)
SELECT 0, {DONE} FROM (SELECT count(*) FROM g) one;

-- :block acquire
-- Grants the lock if its row is free, run out, or ours (the same request sent again), and if not_after has not
-- passed. The row is first locked FOR UPDATE. That lock waits for no other (SKIP LOCKED), and it is the one strength
-- that a guard's FOR KEY SHARE keeps out. All decisions are made at one time, k.t, on the locked row. The token is
-- drawn under the lock.
-- While another one holds the lock, nothing is written. HELD says so, also to a caller that is too late.
-- The time limit is checked again under the lock: by then another look may have reported that this request was not
-- granted.
-- During the grace after a loss, only the holder itself is granted the lock (GRACE).
-- Where others may have seats beside the lock (seats), a free row is granted by `queue` alone, as the turn, or when
-- `drain` has found all seats empty (SEATED). To the owner of the turn it says TURN, which is not yet the lock. While
-- another one has the turn, `drain` says who holds the lock (SEATED).
-- A grant is the row that the UPDATE returns. Where none comes, nothing was granted, and nothing will be by this step.
-- The second step only says why not, as the row is by then. SKIPPED: others came and went between the two, or have
-- locked the row. Try again. It costs a refusal one more statement, and a grant none.
-- No row of either: the lock has no row yet. The third step makes it, and does not wait for the disk. A row without a
-- grant may be lost, and the commit of a grant in it takes it to the disk too. Then the first two steps come again. A
-- pruner raises the floor before it takes a row away. So a session that finds the row made after that reads the new
-- floor too.
-- :step beside
WITH k AS (
    SELECT c.ns, c.name, m.fence_floor AS floor, {now} AS t
    FROM {lock} c, {meta} m
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND m.id = 1 AND {known}
      AND (c.owner IS NULL OR c.owner = :owner OR c.exp <= {now})
      AND (c.waiters = 0 OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
      AND (c.seats = 0 OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
      AND (c.ended_why <> {ENDED_RELEASED} OR (c.ended_owner = :owner) IS NOT TRUE)
      AND (c.withdrawn = :owner) IS NOT TRUE
      AND {now} <= :not_after AND {durable}
      AND (NOT {graced} OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE {lock} l SET
    token = CASE WHEN l.owner = :owner AND l.exp > k.t AND l.token > k.floor THEN l.token
                 ELSE greatest(l.token, k.floor) + 1 END,
    since = CASE WHEN l.owner = :owner AND l.exp > k.t THEN l.since ELSE k.t END,
    ended_owner = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > k.t
                       THEN l.ended_owner ELSE l.owner END,
    ended_token = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > k.t
                       THEN l.ended_token ELSE l.token END,
    ended_why = CASE WHEN l.owner IS NULL OR l.owner = :owner AND l.exp > k.t
                     THEN l.ended_why ELSE {ENDED_TAKEN} END,
    owner = :owner, exp = k.t + {lasts}, ttl = :ttl, label = :label, idle_since = NULL, offered = 0,
    client = CASE WHEN l.owner = :owner AND l.exp > k.t THEN l.client END
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0
  AND (l.owner IS NULL OR l.owner = :owner OR l.exp <= k.t)
  AND (l.waiters = 0 OR (l.owner = :owner AND l.exp > k.t) IS TRUE)
  AND (l.seats = 0 OR (l.owner = :owner AND l.exp > k.t) IS TRUE)
  AND (l.ended_why <> {ENDED_RELEASED} OR (l.ended_owner = :owner) IS NOT TRUE)
  AND (l.withdrawn = :owner) IS NOT TRUE
  AND {now} <= :not_after
RETURNING 0, CASE WHEN l.seats <> 0 THEN {TURN} ELSE {DONE} END, l.token, l.exp - k.t, k.t, l.since;
-- :step look
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT {known} THEN {STRANGER}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN h.owner <> :owner AND h.exp > {now} THEN CASE WHEN h.seats = 0 THEN {HELD} ELSE {SEATED} END
            WHEN {now} > :not_after THEN {LATE}
            WHEN {graced} THEN {GRACE}
            WHEN h.waiters = 0 AND h.seats <> 0 AND (h.owner = :owner AND h.exp > {now}) IS NOT TRUE THEN {SEATED}
            WHEN h.waiters <> 0 AND (h.owner = :owner AND h.exp > {now}) IS NOT TRUE THEN {QUEUED}
            ELSE {SKIPPED} END,
       h.token,
       CASE WHEN h.exp > {now} THEN h.exp - {now}
            WHEN {graced} THEN {grace_end} - {now}
            ELSE h.exp - {now} END,
       {now}, h.since, h.label
FROM {lock} h CROSS JOIN {meta} m
WHERE h.ns = :ns AND h.name = :name AND m.id = 1;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 AND {unwaited}
ON CONFLICT (ns, name) DO NOTHING;
-- :step same 1
-- :step same 2

-- For many: it decides as the first step does. It answers those that are granted, and those that are held. The others
-- get no row, and each is sent again alone. It waits for no row, so it is in no deadlock. While all are granted, the
-- last part does not run.
-- :array
WITH m AS (
    SELECT m.fence_floor, m.lost_at, m.longest FROM {meta} m WHERE m.id = 1 AND {known} AND {durable}
), i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:owner), unnest(:ttl), unnest(:not_after), unnest(:grace),
        unnest(:label)) WITH ORDINALITY AS u (ns, name, owner, ttl, not_after, grace, label, ord) WHERE {few}
), k AS (
    SELECT c.ns, c.name, i.owner, i.ttl, i.not_after, i.label, i.ord, m.fence_floor AS floor, {now} AS t
    FROM m CROSS JOIN i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.seats = 0
      AND (c.owner IS NULL OR c.owner = i.owner OR c.exp <= {now})
      AND (c.waiters = 0 OR (c.owner = i.owner AND c.exp > {now}) IS TRUE)
      AND (c.ended_why <> {ENDED_RELEASED} OR (c.ended_owner = i.owner) IS NOT TRUE)
      AND (c.withdrawn = i.owner) IS NOT TRUE
      AND {now} <= i.not_after
      AND (i.grace <= 0 OR {now} >= (m.lost_at + least(m.longest, i.grace))
           OR (c.owner = i.owner AND c.exp > {now}) IS TRUE)
    FOR UPDATE OF c SKIP LOCKED
), g AS (
    UPDATE {lock} l SET
        token = CASE WHEN l.owner = k.owner AND l.exp > k.t AND l.token > k.floor THEN l.token
                     ELSE greatest(l.token, k.floor) + 1 END,
        since = CASE WHEN l.owner = k.owner AND l.exp > k.t THEN l.since ELSE k.t END,
        ended_owner = CASE WHEN l.owner IS NULL OR l.owner = k.owner AND l.exp > k.t
                           THEN l.ended_owner ELSE l.owner END,
        ended_token = CASE WHEN l.owner IS NULL OR l.owner = k.owner AND l.exp > k.t
                           THEN l.ended_token ELSE l.token END,
        ended_why = CASE WHEN l.owner IS NULL OR l.owner = k.owner AND l.exp > k.t
                         THEN l.ended_why ELSE {ENDED_TAKEN} END,
        owner = k.owner, exp = k.t + k.ttl, ttl = k.ttl, label = k.label, idle_since = NULL, offered = 0,
        client = CASE WHEN l.owner = k.owner AND l.exp > k.t THEN l.client END
    FROM k
    WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0 AND l.seats = 0
      AND (l.owner IS NULL OR l.owner = k.owner OR l.exp <= k.t)
      AND (l.waiters = 0 OR (l.owner = k.owner AND l.exp > k.t) IS TRUE)
      AND (l.ended_why <> {ENDED_RELEASED} OR (l.ended_owner = k.owner) IS NOT TRUE)
      AND (l.withdrawn = k.owner) IS NOT TRUE
      AND {now} <= k.not_after
    RETURNING k.ord, l.token, l.since, l.exp, k.t
)
SELECT (g.ord - 1)::int, {DONE}, g.token, g.exp - g.t, g.t, g.since, NULL::bytea FROM g
UNION ALL
SELECT (i.ord - 1)::int, {HELD}, h.token, h.exp - {now}, {now}, h.since, h.label
FROM m CROSS JOIN i JOIN {lock} h ON h.ns = i.ns AND h.name = i.name
WHERE (SELECT count(*) FROM g) < (SELECT count(*) FROM i)
  AND i.ord <> ALL (ARRAY(SELECT g.ord FROM g))
  AND h.kind = 0 AND h.seats = 0 AND h.owner <> i.owner AND h.exp > {now}
  AND (h.ended_why <> {ENDED_RELEASED} OR (h.ended_owner = i.owner) IS NOT TRUE)
  AND (h.withdrawn = i.owner) IS NOT TRUE;

-- :block guarded
-- After acquire answered SKIPPED (possible, but the row is locked): by whom? The weaker lock is taken first, and
-- kept. A guard lets it pass, a writer of the row does not. Only then does it prove a guard (GUARDED) that the
-- stronger lock fails. The writer may have ended by now, so the locked row has the first word: HELD, or SKIPPED if we
-- hold the lock or nothing is in the way any more.
-- No row: another session is writing the row. Try again.
-- :step
WITH w AS (
    SELECT l.ns, l.name, l.token, l.owner, l.exp, l.since, l.label, l.seats
    FROM {lock} l WHERE l.ns = :ns AND l.name = :name FOR NO KEY UPDATE SKIP LOCKED
), g AS (
    SELECT 1 FROM {lock} l WHERE (l.ns, l.name) = (SELECT w.ns, w.name FROM w) FOR UPDATE SKIP LOCKED
)
SELECT 0,
       CASE WHEN w.exp > {now} THEN CASE WHEN w.owner = :owner THEN {SKIPPED} ELSE {HELD} END
            WHEN EXISTS (SELECT 1 FROM g) THEN {SKIPPED}
            ELSE {GUARDED} END,
       CASE WHEN w.seats = 0 THEN w.token ELSE 0 END, w.exp - {now}, {now}, w.since, w.label
FROM w;

-- :block renew
-- Extends a lease that has not run out, for its exact grant. Locked rows are skipped (SKIPPED: try again, alone), so
-- that none of them delays another. The end is set, not raised: after a step back of the server's clock, a raised one
-- would last for as long as the step. Always one row for each request. As in acquire, the second step only says why
-- nothing was renewed.
-- While all of an array are renewed, its last part does not run.
-- :step
WITH k AS (
    SELECT c.ns, c.name, {now} AS t
    FROM {lock} c
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.exp > {now} AND {now} <= :not_after
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {lock} l SET exp = k.t + :ttl, ttl = :ttl
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.owner = :owner AND l.token = :token AND l.exp > k.t
RETURNING 0, {DONE}, l.token, l.exp - k.t, k.t;
-- :step look
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN {now} > :not_after THEN {LATE}
            WHEN h.owner = :owner AND h.token = :token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = :owner AND h.token = :token THEN {EXPIRED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}
FROM (VALUES (1)) one LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:owner), unnest(:token), unnest(:ttl), unnest(:not_after))
        WITH ORDINALITY AS u (ns, name, owner, token, ttl, not_after, ord) WHERE {few}
), k AS (
    SELECT c.ns, c.name, i.owner, i.token, i.ttl, i.ord, {now} AS t
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner = i.owner AND c.token = i.token AND c.exp > {now}
      AND {now} <= i.not_after
    FOR NO KEY UPDATE OF c SKIP LOCKED
), g AS (
    UPDATE {lock} l SET exp = k.t + k.ttl, ttl = k.ttl
    FROM k
    WHERE l.ns = k.ns AND l.name = k.name AND l.owner = k.owner AND l.token = k.token AND l.exp > k.t
    RETURNING k.ord, l.token, l.exp, k.t
)
SELECT (g.ord - 1)::int, {DONE}, g.token, g.exp - g.t, g.t FROM g
UNION ALL
SELECT (i.ord - 1)::int,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN {now} > i.not_after THEN {LATE}
            WHEN h.owner = i.owner AND h.token = i.token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = i.owner AND h.token = i.token THEN {EXPIRED}
            WHEN h.ended_owner = i.owner AND h.ended_token = i.token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}
FROM i LEFT JOIN {lock} h ON h.ns = i.ns AND h.name = i.name
WHERE (SELECT count(*) FROM g) < (SELECT count(*) FROM i)
  AND i.ord <> ALL (ARRAY(SELECT g.ord FROM g));

-- :block release
-- Frees the row for its exact grant, and remembers how the grant ended. So the same release, sent again, is DONE. A
-- guard's lock is not touched: the name is granted to no one before the guard's transaction ends.
-- Always one row. As in acquire, the third step only says why nothing was freed. SKIPPED: look again. QUEUED: others
-- wait, so send `pass`. If the release was sent before, by a `pass` whose answer was lost, this names the next holder.
-- A seat's release names who has the turn, and may wait for the seat. Whom this snapshot does not show looks soon.
-- The step behind the look waits for no row, for a release beside other requests in one packet. Alone no release comes
-- that far.
-- :step without seat
UPDATE {lock} l SET {freed}
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0
  AND l.owner = :owner AND l.token = :token AND l.waiters = 0 AND :seat = 0 AND {lazily}
RETURNING 0, {DONE}, l.token, NULL::bigint, {now};
-- :step with seat
UPDATE {lock} l SET {freed}
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0
  AND l.owner = :owner AND l.token = :token AND l.waiters = 0 AND :seat = 1 AND {lazily}
RETURNING 0, {DONE}, l.token, NULL::bigint, {now}, NULL::bigint, NULL::bytea, NULL::bigint,
    (SELECT h.client FROM {lock} h WHERE {turn}), (SELECT h.owner FROM {lock} h WHERE {turn});
-- :step look
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token AND h.waiters <> 0 THEN {QUEUED}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE WHEN h.ended_why = {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}, NULL::bigint, NULL::bytea, NULL::bigint,
       h.client, h.owner
FROM (VALUES (1)) one LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;
-- :step beside without seat
WITH k AS (
    SELECT 1 FROM {lock} c
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.waiters = 0 AND :seat = 0 AND {lazily}
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {lock} l SET {freed}
FROM k
WHERE l.ns = :ns AND l.name = :name AND l.owner = :owner AND l.token = :token AND l.waiters = 0
RETURNING 0, {DONE}, l.token, NULL::bigint, {now};

-- For many: it answers those that it frees, and steps over locked rows.
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:owner), unnest(:token))
        WITH ORDINALITY AS u (ns, name, owner, token, ord) WHERE {few}
), k AS (
    SELECT c.ns, c.name, i.owner, i.token, i.ord
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner = i.owner AND c.token = i.token AND c.waiters = 0
    FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE {lock} l SET {freed}
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0 AND l.owner = k.owner AND l.token = k.token AND l.waiters = 0
  AND (SELECT {lazily})
RETURNING (k.ord - 1)::int, {DONE}, l.token, NULL::bigint, {now}, NULL::bigint, NULL::bytea, NULL::bigint,
    CASE WHEN {is_seat} THEN (SELECT h.client FROM {lock} h WHERE {turn}) END,
    CASE WHEN {is_seat} THEN (SELECT h.owner FROM {lock} h WHERE {turn}) END;

-- :block withdraw
-- The release of an acquire whose answer is not known. It gives back what this owner was granted. The request may
-- still be on its way, so it also writes a tombstone (withdrawn) under the row's lock. With it the request is granted
-- nothing when it comes (RELEASED).
-- This waits for the row's lock. The snapshot does not show a grant that is still committing (it may be waiting for a
-- standby); only a later look does. How the last grant ended stays in the row: its holder may not have learned of it
-- yet.
-- DONE: it was granted, and is given back.
-- EARLY: it has not come yet. The tombstone is no proof against a later arrival, because the next withdrawal replaces
-- it.
-- NEVER: not_after has passed, and there will never be a sign of this owner.
-- The row counts as idle from now on. A pruner that was about to take it would take the tombstone with it.
-- No row: the lock has none. The next step makes it, so that the tombstone has a place.
-- :step
WITH k AS (
    SELECT c.ns, c.name, c.kind, c.owner, c.token, c.exp, c.ended_owner, c.withdrawn
    FROM {lock} c WHERE c.ns = :ns AND c.name = :name
    FOR NO KEY UPDATE
), g AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL, withdrawn = :owner,
        ended_owner = k.owner, ended_token = k.token, ended_why = {ENDED_RELEASED}, idle_since = {now}
    FROM k
    WHERE l.ns = k.ns AND l.name = k.name AND k.kind = 0 AND k.owner = :owner
), s AS (
    UPDATE {lock} l SET withdrawn = :owner, idle_since = CASE WHEN k.owner IS NULL THEN {now} END
    FROM k
    WHERE l.ns = k.ns AND l.name = k.name AND k.kind = 0 AND (k.owner = :owner) IS NOT TRUE
      AND (k.withdrawn = :owner) IS NOT TRUE
)
SELECT 0,
       CASE WHEN k.kind <> 0 THEN {KIND}
            WHEN k.owner = :owner OR k.ended_owner = :owner THEN {DONE}
            WHEN {now} <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       k.token, k.exp - {now}, {now}
FROM k;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 AND {unwaited}
ON CONFLICT (ns, name) DO NOTHING;
-- :step same 1

-- For many: a locked row may have a grant that is still committing, so such a request is sent again alone, and waits.
-- The same goes for one whose tombstone stands already.
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:owner), unnest(:not_after))
        WITH ORDINALITY AS u (ns, name, owner, not_after, ord) WHERE {few}
), k AS (
    SELECT c.ns, c.name, c.token, c.exp, c.owner IS NULL AS is_free, (c.owner = i.owner) IS TRUE AS is_own,
           (c.owner = i.owner OR c.ended_owner = i.owner) IS TRUE AS was_own, i.owner, i.not_after, i.ord
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND (c.owner = i.owner OR (c.withdrawn = i.owner) IS NOT TRUE)
    FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE {lock} l SET withdrawn = k.owner,
    owner = CASE WHEN NOT k.is_own THEN l.owner END, exp = CASE WHEN NOT k.is_own THEN l.exp END,
    since = CASE WHEN NOT k.is_own THEN l.since END, label = CASE WHEN NOT k.is_own THEN l.label END,
    ended_owner = CASE WHEN k.is_own THEN l.owner ELSE l.ended_owner END,
    ended_token = CASE WHEN k.is_own THEN l.token ELSE l.ended_token END,
    ended_why = CASE WHEN k.is_own THEN {ENDED_RELEASED} ELSE l.ended_why END,
    idle_since = CASE WHEN k.is_own OR k.is_free THEN {now} END
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0
  AND ((l.owner = k.owner) IS TRUE) = k.is_own AND (l.owner IS NULL) = k.is_free
RETURNING (k.ord - 1)::int,
    CASE WHEN k.was_own THEN {DONE} WHEN {now} <= k.not_after THEN {EARLY} ELSE {NEVER} END,
    k.token, k.exp - {now}, {now};

-- :block break
-- As release, by token alone: an operator ends a grant whose holder is dead. After a lost reply the same request
-- finds BROKEN (it was broken before) or TAKEN (others came and went since, and how it ended is no longer known).
-- Always one row. SKIPPED: look again.
-- :step
WITH g AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_BROKEN}, idle_since = {now}
    WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND l.owner IS NOT NULL AND l.token = :token
    RETURNING l.token
)
SELECT 0,
       CASE WHEN g.token IS NOT NULL THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       coalesce(g.token, h.token), h.exp - {now}, {now}
FROM (VALUES (1)) one LEFT JOIN g ON true LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- For many: it answers those that it breaks, and steps over locked rows.
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:token)) WITH ORDINALITY AS u (ns, name, token, ord)
    WHERE {few}
), k AS (
    SELECT c.ns, c.name, c.token, i.ord
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner IS NOT NULL AND c.token = i.token
    FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
    ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_BROKEN}, idle_since = {now}
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0 AND l.owner IS NOT NULL AND l.token = k.token
RETURNING (k.ord - 1)::int, {DONE}, l.token, NULL::bigint, {now};

-- :block list
-- A page in byte order after the name :after, of names that start with :prefix (no byte of UTF-8 is ff). :free = 1:
-- free rows too.
-- The planner must go by the primary key and stop after a page. Before it knows the table, it expects next to no row
-- to pass an equality. Then it reads and sorts all following rows for each page, which took 5 s for 100,000 names. So
-- the bounds are whole keys, and the kind is compared by a range.
-- The owner of a row beside which others may have seats waits for those, and is no holder: such a row is as good as free.
-- The last column: what may stand beside the lock of this row, or of which it is a seat.
-- :step
SELECT 0, {DONE}, l.token, CASE WHEN l.seats = 0 THEN l.exp - {now} END, {now}, CASE WHEN l.seats = 0 THEN l.since END,
       CASE WHEN l.seats = 0 THEN l.label END, l.name, CASE WHEN l.seats = 0 THEN l.owner END,
       CASE WHEN {is_seat} THEN (SELECT h.seats FROM {lock} h WHERE {seat_of}) ELSE l.seats END::bigint
FROM {lock} l
WHERE (l.ns, l.name) > (:ns, :after) AND (l.ns, l.name) >= (:ns, :prefix)
  AND (l.ns, l.name) < (:ns, :prefix || decode('ff', 'hex'))
  AND abs(l.kind) < 1 AND (:free = 1 OR l.owner IS NOT NULL AND l.seats = 0)
ORDER BY l.ns, l.name LIMIT :limit;

-- :block sweep
-- A page of the whole table in key order, after (:ns, :after). It answers rows that ran out at least :grace ago
-- (EXPIRED), rows that have been free for :idle (IDLE), and a row for the page itself (DONE): how many rows, and the
-- last key. SEATED: the row is free, and its seats are pruned. Once `drain` has noted that, it is idle.
-- The clock is read once for the page. There is no index on exp, so this goes by the primary key, and reads :limit
-- rows, whatever they hold. It only looks: reap and prune decide.
-- :step
WITH t AS (SELECT {now} AS now), p AS (
    SELECT l.ns, l.name, l.kind, l.owner, l.token, l.exp, l.idle_since, l.waiters, l.next_ticket, l.seats
    FROM {lock} l
    WHERE (l.ns, l.name) > (:ns, :after) AND l.ns <> :own
    ORDER BY l.ns, l.name LIMIT :limit
)
SELECT 0, {EXPIRED}, p.token, p.exp - t.now, t.now, NULL::bigint, NULL::bytea, p.name, p.ns
FROM p, t
WHERE p.kind = 0 AND p.exp <= (t.now - :grace)
UNION ALL
SELECT 0, CASE WHEN p.seats = 0 THEN {IDLE} ELSE {SEATED} END, p.token, p.idle_since - t.now, t.now, p.idle_since,
       NULL, p.name, p.ns
FROM p, t
WHERE p.kind = 0 AND p.owner IS NULL AND p.waiters = 0 AND p.next_ticket = 0
  AND (p.idle_since <= (t.now - :idle) OR p.idle_since IS NULL AND p.seats <> 0)
  AND (p.seats = 0 OR NOT EXISTS (SELECT 1 FROM {lock} z WHERE z.ns = p.ns AND z.name > (p.name || decode('00', 'hex'))
                                     AND z.name < (p.name || decode('01', 'hex'))))
UNION ALL
SELECT 0, {DONE}, (SELECT count(*) FROM p), NULL, t.now, NULL, NULL, z.name, z.ns
FROM t LEFT JOIN (SELECT p.ns, p.name FROM p ORDER BY p.ns DESC, p.name DESC LIMIT 1) z ON true;

-- :block reap
-- Frees rows from (:ns, :name) to (:to_ns, :to) whose lease ran out before :cut, :limit at most. It remembers how
-- they ended, so that their holders learn of it. A session that renews a row, takes it over or works on it at this
-- moment was quicker: the locked row is judged again, and a locked or guarded row is skipped. So no client waits here
-- for the row of another, and none can deadlock. The end of the lease is also compared with the running clock, which
-- may have been put back since the page was read.
-- The keys go through arrays because the planner expects those to be short: it finds their rows one by one by the
-- primary key. For k it would read the whole table.
-- Always one row: how many rows were freed.
-- :step
WITH k AS (
    SELECT c.ns, c.name, {now} AS t
    FROM {lock} c
    WHERE (c.ns, c.name) >= (:ns, :name) AND (c.ns, c.name) <= (:to_ns, :to) AND c.ns <> :own
      AND c.kind = 0 AND c.exp <= :cut AND c.exp <= {now}
    ORDER BY c.ns, c.name LIMIT :limit
    FOR UPDATE SKIP LOCKED
), g AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_REAPED}, idle_since = i.t
    FROM ROWS FROM (unnest((SELECT array_agg(k.ns) FROM k)), unnest((SELECT array_agg(k.name) FROM k)),
                    unnest((SELECT array_agg(k.t) FROM k))) AS i (ns, name, t)
    WHERE l.ns = i.ns AND l.name = i.name AND l.kind = 0 AND l.exp <= :cut AND l.exp <= i.t
    RETURNING 1
)
SELECT 0, {DONE}, count(*), NULL::bigint, {now} FROM g;

-- :block prune
-- Deletes a row that has been free since before :cut. Tokens go on rising, because the next creator of the row draws
-- above the floor. The first step raises the floor to :floor, the largest token of the batch. The second step deletes
-- only rows whose token is not above the floor. A session that sees the new row sees that floor too, whatever token
-- the row was made with. Nothing is locked between the two steps, so a reaper that stops there delays no one. A floor
-- that is too high does no harm.
-- A locked or guarded row is skipped. A row that a queue uses, or beside which others may have seats, is left alone.
-- The first step changes meta only where the floor is too low, and otherwise locks nothing.
-- No row: there was nothing to delete.
-- :step
UPDATE {meta} m SET fence_floor = :floor WHERE m.id = 1 AND m.fence_floor < :floor;
-- :step
WITH k AS (
    SELECT c.ns, c.name, c.token
    FROM {lock} c, {meta} m
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND c.owner IS NULL
      AND c.waiters = 0 AND c.next_ticket = 0 AND c.seats = 0 AND c.idle_since <= :cut AND c.idle_since <= {now}
      AND m.id = 1 AND c.token <= m.fence_floor
    FOR UPDATE OF c SKIP LOCKED
)
DELETE FROM {lock} l USING k
WHERE l.ns = k.ns AND l.name = k.name AND l.token = k.token AND l.kind = 0 AND l.owner IS NULL
  AND l.waiters = 0 AND l.next_ticket = 0 AND l.seats = 0 AND l.idle_since <= :cut
RETURNING 0, {DONE}, l.token;
-- :array
UPDATE {meta} m SET fence_floor = x.top
FROM (SELECT max(u.floor) AS top FROM unnest(:floor) AS u (floor)) x
WHERE m.id = 1 AND m.fence_floor < x.top;
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:cut)) WITH ORDINALITY AS u (ns, name, cut, ord)
), k AS (
    SELECT c.ns, c.name, c.token, i.cut, i.ord
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name CROSS JOIN {meta} m
    WHERE c.kind = 0 AND c.owner IS NULL
      AND c.waiters = 0 AND c.next_ticket = 0 AND c.seats = 0 AND c.idle_since <= i.cut AND c.idle_since <= {now}
      AND m.id = 1 AND c.token <= m.fence_floor
    FOR UPDATE OF c SKIP LOCKED
)
DELETE FROM {lock} l USING k
WHERE l.ns = k.ns AND l.name = k.name AND l.token = k.token AND l.kind = 0 AND l.owner IS NULL
  AND l.waiters = 0 AND l.next_ticket = 0 AND l.seats = 0 AND l.idle_since <= k.cut
RETURNING (k.ord - 1)::int, {DONE}, l.token;

-- :block migrate_lock
-- One migrator at a time, until its transaction ends.
-- :step
SELECT 0, {DONE} FROM (SELECT pg_advisory_xact_lock({migrators})) one;

-- :block migrate_version
-- Reads nothing from tables that strangers may have made. What the first step sees decides: a table that appears
-- after it is not read either.
-- :step
SELECT 0, CASE WHEN s.fault IS NULL THEN {DONE} ELSE {UNFIT} END, 0, 0, {now}, 0, NULL::bytea, convert_to(s.fault, 'UTF8')
FROM ({looked}) s
WHERE s.fault IS NOT NULL AND (:changes = 1 OR NOT s.plain) OR s.tab = 'meta' AND s.oid IS NULL
ORDER BY (s.fault IS NULL) LIMIT 1;
-- :step
SELECT 0, {DONE}, m.version, m.min_reader, {now} FROM {meta} m WHERE m.id = 1;

-- :block migrate_record
-- The meta row says what is applied. :done = 0 writes only the record, before a step that is not a transaction. A
-- record above meta's version means that its migration was begun and not ended; it is written anew.
-- :step
WITH r AS (
    INSERT INTO {migration} (version, name, checksum, applied)
    VALUES (:version, convert_from(:name, 'UTF8'), convert_from(:checksum, 'UTF8'), {now})
    ON CONFLICT (version) DO UPDATE
    SET name = excluded.name, checksum = excluded.checksum, applied = excluded.applied
)
UPDATE {meta} SET version = greatest(version, :version) WHERE id = 1 AND :done = 1;

-- :block migrate_ledger
-- All records. NONE: there is no table for them. As in migrate_version, what the first step sees decides.
-- :step
SELECT 0, CASE WHEN s.fault IS NULL THEN {NONE} ELSE {UNFIT} END, 0, NULL::bytea, NULL::bytea, NULL::bigint, NULL::bytea,
       convert_to(s.fault, 'UTF8')
FROM ({looked}) s
WHERE s.tab = 'migration' AND (s.fault IS NOT NULL AND (:changes = 1 OR NOT s.plain) OR s.oid IS NULL);
-- :step
SELECT 0, {DONE}, version, convert_to(name, 'UTF8'), convert_to(checksum, 'UTF8'), applied
FROM {migration} ORDER BY version;

-- A column's type, without the schema that the server adds where others come first.
-- :define type replace(format_type(a.atttypid, NULL), 'pg_catalog.', '')

-- :block migrate_differ
-- What the tables lack of what tables.sql says, a row each. No row: they have all of it. Columns come first. Then
-- indexes that should not be there: a unique one refuses what locks have to write, and one with the token in it lets
-- a guard's lock keep renewals out. On the lock table any index beyond the names, except a BRIN one, ends the HOT
-- updates of renewals. Then CHECKs, by their number.
-- :step
SELECT 0, {DONE}, (t.oid IS NOT NULL)::int,
       convert_to(CASE WHEN t.oid IS NULL THEN 'there is no table ' || e.tab
            WHEN a.attname IS NULL THEN 'table ' || e.tab || ' has no column ' || e.col
            ELSE 'column ' || e.col || ' of table ' || e.tab || CASE
                WHEN {type} <> e.type
                    THEN ' is ' || {type} || ', not ' || e.type
                WHEN a.attnotnull::int < e.must THEN ' may be NULL'
                WHEN a.attnotnull::int > e.must THEN ' may not be NULL'
                ELSE ' is not at its place in the primary key' END END, 'UTF8'),
       e.since
FROM ({columns}) e
CROSS JOIN LATERAL (SELECT to_regclass('{schema}.{prefix}' || e.tab)::oid AS oid) t
LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = e.col AND NOT a.attisdropped
LEFT JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'p'
WHERE CASE WHEN t.oid IS NULL THEN e.pk = 1
      ELSE a.attname IS NULL OR {type} <> e.type OR a.attnotnull::int <> e.must
           OR coalesce(array_position(k.conkey, a.attnum), 0) <> e.pk END
ORDER BY e.pos;
-- :step
SELECT 0, {DONE}, 1, convert_to('table ' || e.tab || ' has an index that is not ours, ' || c.relname || CASE
           WHEN i.indisunique OR i.indisexclusion THEN ', which lets no two rows be equal'
           ELSE ', over what renewals and releases change' END, 'UTF8')
FROM ({tables}) e
JOIN pg_index i ON i.indrelid = to_regclass('{schema}.{prefix}' || e.tab)::oid AND NOT i.indisprimary
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am am ON am.oid = c.relam
WHERE i.indisunique OR i.indisexclusion
   OR e.tab = 'lock' AND am.amname <> 'brin'
      AND EXISTS (SELECT 1 FROM unnest(i.indkey::smallint[]) AS u (n)
                  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.n
                  WHERE a.attname IS NULL OR a.attname <> ALL (ARRAY['ns', 'name', 'kind']))
ORDER BY e.tab, c.relname;
-- :step
SELECT 0, {DONE}, 1, convert_to('table ' || e.tab || ' has ' || n.has || ' CHECKs, not ' || e.checks, 'UTF8')
FROM ({tables}) e
CROSS JOIN LATERAL (SELECT count(*) AS has FROM pg_constraint k
                    WHERE k.conrelid = to_regclass('{schema}.{prefix}' || e.tab)::oid
                      AND k.contype = 'c') n
WHERE n.has <> e.checks
ORDER BY e.tab;

-- :block migrate_close
-- From here to the end of the transaction no one is granted a lock, so what migrate_held says stays true. It waits
-- for transactions that use the table, guards among them. No row.
-- :step
LOCK TABLE {lock} IN ACCESS EXCLUSIVE MODE;

-- :block migrate_held
-- How many leases run outside of one namespace (our own), and the name of one. No row: none.
-- :step
SELECT 0, {DONE}, count(*) OVER (), l.name
FROM {lock} l WHERE l.owner IS NOT NULL AND l.exp > {now} AND l.ns <> :ns LIMIT 1;

-- :block migrate_lease
-- Never sent: the transaction of migrate_lock keeps other migrators out.
-- :step
SELECT 0, {DONE} WHERE :ns IS NULL AND :name IS NULL AND :owner IS NULL AND :ttl IS NULL AND :label IS NULL;

-- :block migrate_around
-- What stands before and behind migrations that are written out as text.
-- :step
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock({migrators});
-- :step
COMMIT;

-- :block guard
-- In the application's transaction: proves the lease, and keeps every grant out until the transaction ends. KEY SHARE
-- lets renewals and releases pass, because they change no key. It keeps out the FOR UPDATE that each grant begins
-- with. It waits for a grant that is being written, and for nothing else.
-- The row is judged as it is when it is locked. In REPEATABLE READ and SERIALIZABLE it is judged by the transaction's
-- snapshot. That cannot say whether a lease has run out, or is younger than the snapshot, or was renewed since
-- (STALE). That the grant has ended, or that there was a later one, is true in any snapshot. A row that was granted
-- to others since is an error there, 40001.
-- Always one row. SKIPPED: look again.
-- :step
WITH k AS (
    SELECT c.token, c.exp FROM {lock} c
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.exp > {now} AND :ttl > 0
    FOR KEY SHARE
)
SELECT 0,
       CASE WHEN k.token IS NOT NULL THEN {DONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN current_setting('transaction_isolation') = ANY (ARRAY['repeatable read', 'serializable'])
                 AND NOT coalesce(h.token > :token OR h.ended_owner = :owner AND h.ended_token = :token, false)
                 THEN {STALE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.owner = :owner AND h.token = :token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = :owner AND h.token = :token THEN {EXPIRED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       coalesce(k.token, h.token), coalesce(k.exp, h.exp) - {now}, {now}, NULL::bigint, {running}
FROM (VALUES (1)) one LEFT JOIN k ON true LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block probe
-- Does a guard of this grant keep others out of the row now (GUARDED)? As in `guarded` the weaker lock is taken
-- first, and kept. After a later grant no guard of this grant can be left; a guard that is there belongs to the later
-- one. Always one row. SKIPPED: another session, such as a waiter's, works on the row; try again.
-- :step
WITH w AS (
    SELECT l.ns, l.name FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.token = :token
    FOR NO KEY UPDATE SKIP LOCKED
), g AS (
    SELECT 1 FROM {lock} l WHERE (l.ns, l.name) = (SELECT w.ns, w.name FROM w) FOR UPDATE SKIP LOCKED
)
SELECT 0, CASE WHEN EXISTS (SELECT 1 FROM w) AND NOT EXISTS (SELECT 1 FROM g) THEN {GUARDED}
               WHEN NOT EXISTS (SELECT 1 FROM w)
                AND EXISTS (SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.token = :token) THEN {SKIPPED}
               ELSE {DONE} END;

-- :block ensure
-- Makes the row that transactions lock by this name, if it is not there. A second session waits while the first one
-- makes the row, and finds it. No row: it was deleted in between. Try again.
-- :step
SELECT 0, {DONE}, NULL::bigint, NULL::bigint, {now} FROM {row} r WHERE r.ns = :ns AND r.name = :name;
-- :step
INSERT INTO {row} (ns, name) VALUES (:ns, :name) ON CONFLICT (ns, name) DO NOTHING RETURNING 0, {DONE};
-- :step same 1

-- :block register_get
-- Always one row. GONE: there is no such register; its version is 0.
-- :step
SELECT 0, CASE WHEN r.name IS NULL THEN {GONE} ELSE {DONE} END, coalesce(r.version, 0), NULL::bigint, {now}, r.value
FROM (VALUES (1)) one LEFT JOIN {register} r ON r.ns = :ns AND r.name = :name;

-- :block register_set
-- Changes a register whose version is :expected (0: it does not exist), if not_after has not passed. The row is first
-- locked at that version. The lock waits for a session that is changing the row, and then finds another version. t
-- reads the clock behind that wait. While the version is another one, nothing is locked or written.
-- The writer stays beside what it wrote. So the same request, sent again after a lost reply, is DONE, until another
-- one has changed the register. It also writes the row once more, so that it waits for the standby as the first one
-- did, or should have.
-- STRANGER: the server's floor is not above that of another server (:above), so it was overtaken.
-- CONFLICT and GONE are final: no version comes twice for a name. A new one begins at the clock, so that it is above
-- the versions of a row that was deleted. All are above the floor, as tokens are: above those that a failover forgot.
-- No row: there is no such register. The next step makes it if the request says so; the last one says why nothing was
-- done. Of two creators, the second waits for the first, and makes nothing. If the first one rolls back when it is
-- too late for the second, an error rolls back the second as well; no one is left to hear it.
-- :step
WITH k AS (
    SELECT r.version, r.writer FROM {register} r
    WHERE r.ns = :ns AND r.name = :name AND (r.version = :expected OR r.writer = :writer)
    FOR NO KEY UPDATE
), t AS (
    SELECT k.version, (k.writer = :writer) IS TRUE AS again, {now} AS now FROM k
), g AS (
    UPDATE {register} r SET
        version = CASE WHEN t.again THEN r.version ELSE greatest(r.version, m.fence_floor) + 1 END,
        value = :value, writer = :writer, updated = t.now
    FROM t, {meta} m
    WHERE r.ns = :ns AND r.name = :name AND r.version = t.version AND (t.now <= :not_after OR t.again)
      AND m.id = 1 AND {known} AND m.fence_floor >= :above AND {kept} AND {durable}
    RETURNING r.version
)
SELECT 0,
       CASE WHEN g.version IS NOT NULL THEN {DONE}
            WHEN h.version <> :expected AND (h.writer = :writer) IS NOT TRUE THEN {CONFLICT}
            WHEN NOT ({known} AND m.fence_floor >= :above AND {kept}) THEN {STRANGER}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       coalesce(g.version, h.version), NULL::bigint, {now}
FROM {register} h CROSS JOIN {meta} m LEFT JOIN g ON true
WHERE h.ns = :ns AND h.name = :name AND m.id = 1;
-- :step
WITH g AS (
    INSERT INTO {register} (ns, name, version, value, writer, updated)
    SELECT :ns, :name, greatest({now}, m.fence_floor + 1), :value, :writer, {now}
    FROM {meta} m
    WHERE :expected = 0 AND {now} <= :not_after AND m.id = 1 AND {known} AND m.fence_floor >= :above AND {kept} AND {durable}
    ON CONFLICT (ns, name) DO NOTHING
    RETURNING version
)
SELECT 0, {DONE}, g.version, NULL::bigint, {now} FROM g
WHERE {now} <= :not_after OR 1 / (g.version - g.version) = 0;
-- :step
SELECT 0,
       CASE WHEN h.writer = :writer THEN {SKIPPED}
            WHEN h.version <> :expected THEN {CONFLICT}
            WHEN h.name IS NULL AND :expected <> 0 THEN {GONE}
            WHEN NOT ({known} AND m.fence_floor >= :above AND {kept}) THEN {STRANGER}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       coalesce(h.version, 0), NULL::bigint, {now}
FROM {meta} m LEFT JOIN {register} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block table_key
-- In the application's transaction: the unique indexes of one of its tables, by their columns. No row: there is no
-- such table. A name that is too long counts as one that is not there, even if the parser would cut it to a name that
-- is.
-- An index may compare in another way than the table does (a collation, an operator class). Then several rows may be
-- the same to `=`, as in tables that inherit. A column of such an index is NULL, so that it is no key. The server
-- reads a value as the type of its column.
-- A row is looked up by the index's own operator. An operator of another schema might come first, and the index would
-- not serve it.
-- :step
WITH t AS (
    SELECT c.oid, n.nspname, c.relrowsecurity,
           CASE WHEN c.relkind <> ALL (ARRAY['r', 'p']) THEN 'it is a view, or another thing that is no table'
                WHEN c.relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid)
                THEN 'other tables inherit from it, and may have a row of the same key'
                WHEN EXISTS (SELECT 1 FROM pg_rewrite r WHERE r.ev_class = c.oid)
                THEN 'it has rules'
           END AS detail
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(
              coalesce(quote_ident(convert_from(:schema, 'UTF8')) || '.', '')
              || quote_ident(convert_from(:table, 'UTF8')))
      AND c.relname::text = convert_from(:table, 'UTF8')
      AND (:schema IS NULL OR n.nspname::text = convert_from(:schema, 'UTF8'))
), k AS (
    SELECT x.relname::text AS key,
           CASE WHEN o.opcdefault AND i.indcollation[s.at] = a.attcollation THEN a.attname::text END AS col,
           CASE WHEN 'pg_catalog.bytea'::regtype = ANY (ARRAY[y.oid, y.typbasetype]) THEN 'b' ELSE 'it' END AS fits,
           'OPERATOR(' || quote_ident(e.nspname) || '.' || q.oprname || ')' AS equals
    FROM t
    JOIN pg_index i ON i.indrelid = t.oid
     AND i.indisunique AND i.indisvalid AND i.indisready AND i.indislive AND i.indimmediate
     AND i.indpred IS NULL AND i.indexprs IS NULL
    JOIN pg_class x ON x.oid = i.indexrelid
    CROSS JOIN LATERAL generate_series(
        0, coalesce((to_json(i) ->> 'indnkeyatts')::int, i.indnatts) - 1) s (at)
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[s.at]
    JOIN pg_type y ON y.oid = a.atttypid
    JOIN pg_opclass o ON o.oid = i.indclass[s.at]
    LEFT JOIN pg_amop m ON m.amopfamily = o.opcfamily AND m.amoplefttype = o.opcintype
     AND m.amoprighttype = o.opcintype AND m.amopstrategy = 3
    LEFT JOIN pg_operator q ON q.oid = m.amopopr
    LEFT JOIN pg_namespace e ON e.oid = q.oprnamespace
)
SELECT 0, CASE WHEN t.detail IS NULL THEN {DONE} ELSE {UNFIT} END, k.key, k.col, k.fits,
       CASE WHEN t.relrowsecurity THEN 2 ELSE 1 END, t.nspname::text, t.detail,
       NULL, k.equals
FROM t LEFT JOIN k ON true ORDER BY k.key;

-- :block table_at
-- Never sent: the catalogue is read in the application's transaction here.
-- :step
SELECT 0, {DONE}, current_schema()::text;

-- :block row_lock
-- Templates. Steps: without waiting; waiting; without waiting where rows may be hidden; a look when no row came. Then
-- the first three again, for a caller that keeps the key.
-- SKIP LOCKED, not NOWAIT, which writes an error into the server's log for each locked row. But a policy may let a
-- user read a row and not lock it. Such a row looks as if another session had locked it. So NOWAIT decides where the
-- table has policies.
-- A session that waited, and finds the row deleted meanwhile, gets no row, also when the same transaction has
-- inserted it anew. So a look with a newer snapshot decides. SKIPPED: try again. GONE: it does not exist. The levels
-- with one snapshot raise 40001 instead.
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR UPDATE SKIP LOCKED;
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR UPDATE;
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR UPDATE NOWAIT;
-- :step
SELECT 0, CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE {match}) THEN {SKIPPED} ELSE {GONE} END;
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR NO KEY UPDATE SKIP LOCKED;
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR NO KEY UPDATE;
-- :step
SELECT 0, {DONE} FROM {table} WHERE {match} FOR NO KEY UPDATE NOWAIT;

-- :block table_version
-- In the application's transaction: whether a column of one of its tables can hold versions. Of timestamps only those
-- that keep every microsecond can. No row: there is no such column, or table.
-- :step
SELECT 0,
       CASE WHEN k.timestamp IS NULL THEN {UNFIT} ELSE {DONE} END,
       k.timestamp,
       CASE WHEN k.base = 'pg_catalog.int4'::regtype THEN 2147483647 ELSE 9223372036854775807 END,
       NULL::bigint, NULL::bigint, NULL::bigint,
       CASE WHEN k.timestamp IS NULL
            THEN 'is no integer of 32 or 64 bits, and no timestamp with microseconds' END
FROM (
    SELECT b.base,
           CASE WHEN b.base = ANY (ARRAY['pg_catalog.int4', 'pg_catalog.int8']::regtype[]) THEN 0
                WHEN b.base = ANY (ARRAY['pg_catalog.timestamp', 'pg_catalog.timestamptz']::regtype[])
                 AND (b.modifier = -1 OR b.modifier = 6) THEN 1
           END AS timestamp
    FROM (
        SELECT CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END AS base,
               CASE WHEN y.typtype = 'd' THEN y.typtypmod ELSE a.atttypmod END AS modifier
        FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
        WHERE a.attrelid = to_regclass(
                  coalesce(quote_ident(convert_from(:schema, 'UTF8')) || '.', '')
                  || quote_ident(convert_from(:table, 'UTF8')))
          AND a.attname::text = convert_from(:column, 'UTF8')
          AND a.attnum > 0 AND NOT a.attisdropped
    ) b
) k;

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
-- The same for timestamps, as microseconds since 1970. Each is later than the one before, also when two changes fall
-- into one microsecond, or after a step back of the clock. It is the clock's time, not the transaction's.
-- :step
(extract(epoch FROM {column}) * 1000000)::bigint
-- :step
CASE WHEN {column} IS NULL OR {column} < clock_timestamp() THEN clock_timestamp()
     ELSE {column} + '1 microsecond'::interval END
-- :step
clock_timestamp()

-- :block cas_update
-- Changes a row of the application's if it has the expected version. It waits for a session that is changing the row,
-- and judges the condition again on the new row. In a snapshot that is older than that session's commit this is an
-- error (40001). The second step says why nothing was changed. SKIPPED: it would be now, try again. No row: there is
-- none.
-- :step write
UPDATE {table} SET {set}{name} = {next} WHERE {match} AND {as_expected}
RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {as_expected} THEN {SKIPPED} ELSE {CONFLICT} END, {version}
FROM {table} WHERE {match};

-- :block cas_delete
-- The same, and the row is gone.
-- :step write
DELETE FROM {table} WHERE {match} AND {as_expected} RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {as_expected} THEN {SKIPPED} ELSE {CONFLICT} END, {version}
FROM {table} WHERE {match};

-- :block cas_insert
-- Makes a row that is not there. It waits for a session that is making or deleting it. No row: it is there.
-- :step write
INSERT INTO {table} ({names}, {name}) VALUES ({values}, {first})
ON CONFLICT ({arbiter}) DO NOTHING RETURNING 0, {DONE}, {version};

-- :block cas_met
-- What was in the way of cas_insert. No row: it is not there any more.
-- :step
SELECT 0, {CONFLICT}, {version} FROM {table} WHERE {match};

-- :block fence
-- Accepts a token that is not smaller than the largest so far, and keeps it. A later session waits for the end of
-- this transaction, and is judged by what it left. Steps as in cas_update. CONFLICT: there was a larger token.
-- :step write
UPDATE {table} SET {name} = {token} WHERE {match} AND ({version} IS NULL OR {version} <= {token})
RETURNING 0, {DONE}, {version};
-- :step write
SELECT 0, CASE WHEN {version} IS NULL OR {version} <= {token} THEN {SKIPPED} ELSE {CONFLICT} END, {version}
FROM {table} WHERE {match};

-- :block session
-- In the application's transaction: the number by which `blockers` knows its session. Behind a pooler the client
-- library has another one.
-- :step
SELECT 0, {DONE}, pg_backend_pid()::bigint;

-- :block blockers
-- Not in the application's transaction: which sessions keep this one waiting now. Of the sessions that wait for one
-- row, the first waits for the row's holder. The others wait for the first, for its lock on the row's tuple. So this
-- looks at what the first one waits for.
-- A session of another role shows only its number, user and application, unless this role may read all statistics. A
-- prepared transaction has the number 0.
-- :step
WITH wait AS (
    SELECT l.locktype, l.database, l.relation, l.page, l.tuple
    FROM pg_locks l WHERE l.pid = :session::int AND NOT l.granted
), first AS (
    SELECT coalesce((SELECT l.pid FROM wait w
                     JOIN pg_locks l ON l.locktype = 'tuple' AND l.granted AND l.database = w.database
                      AND l.relation = w.relation AND l.page = w.page AND l.tuple = w.tuple
                     WHERE w.locktype = 'tuple' LIMIT 1), :session::int) AS pid
), held AS (
    SELECT DISTINCT b.pid FROM first, unnest(pg_blocking_pids(first.pid)) b (pid)
)
SELECT 0, {DONE}, h.pid::bigint, {open}, {about}
FROM held h LEFT JOIN pg_stat_activity a ON a.pid = h.pid ORDER BY a.xact_start LIMIT 100;
-- The session does not wait: it was refused a row of this table. This finds the only transaction that has rows of the
-- table locked, if there is only one. Each such transaction also has this lock on the table, to its end, and has an
-- id. The server does not say which row it is, where a savepoint was released since. So with several transactions
-- none is named. Where the table has partitions, the lock may be on these.
-- :step
WITH held AS (
    SELECT DISTINCT l.pid, l.virtualtransaction
    FROM pg_class c
    JOIN pg_locks l ON l.locktype = 'relation' AND l.relation = c.oid AND l.granted
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     AND l.mode = ANY (ARRAY['RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'])
    WHERE c.relkind = 'r' AND NOT c.relispartition
      AND c.oid = to_regclass(quote_ident(convert_from(:schema, 'UTF8')) || '.'
                                         || quote_ident(convert_from(:table, 'UTF8')))
      AND (l.pid = :session::int) IS NOT TRUE
      AND EXISTS (SELECT 1 FROM pg_locks x
                  WHERE x.locktype = 'transactionid' AND x.granted AND x.virtualtransaction = l.virtualtransaction)
)
SELECT 0, {DONE}, coalesce(h.pid, 0)::bigint, {open}, {about}
FROM held h LEFT JOIN pg_stat_activity a ON a.pid = h.pid
WHERE (SELECT count(*) FROM held) = 1;

-- :block lease
-- How long the lease of this exact grant still runs (DONE), or how it ended. No row: the name has no row. The clock
-- is read once, so that the computed end is not later than the real one.
-- :step
WITH t AS (SELECT {now} AS now)
SELECT 0,
       CASE WHEN l.owner = :owner AND l.token = :token THEN {DONE}
            WHEN l.ended_owner = :owner AND l.ended_token = :token THEN {ENDED} + l.ended_why
            ELSE {TAKEN} END,
       l.token, l.exp - t.now, t.now
FROM {lock} l, t
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0;

-- :block break_noted
-- The same as break, with a note of it that stays for a month. So the broken holder learns of the break also when
-- others have come and gone since, and the row has forgotten it. Both are one statement: there is no break without a
-- note, and no note without a break. Old notes go a hundred at a time. A note that another session is deleting is
-- left to that session.
-- :step
WITH g AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_BROKEN}, idle_since = {now}
    WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND l.owner IS NOT NULL AND l.token = :token
    RETURNING l.ns, l.name, l.token
), noted AS (
    INSERT INTO {broken} (ns, name, token, noted)
    SELECT g.ns, g.name, g.token, {now} FROM g
    ON CONFLICT (ns, name, token) DO UPDATE SET noted = excluded.noted
), old AS (
    DELETE FROM {broken} b
    WHERE (b.ns, b.name, b.token) = ANY (
        SELECT o.ns, o.name, o.token FROM {broken} o WHERE o.noted < (SELECT {now} - {month})
        ORDER BY o.noted LIMIT 100 FOR UPDATE SKIP LOCKED)
)
SELECT 0,
       CASE WHEN g.token IS NOT NULL THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN b.token IS NOT NULL THEN {BROKEN}
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       coalesce(g.token, h.token), h.exp - {now}, {now}
FROM (VALUES (1)) one LEFT JOIN g ON true LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
    LEFT JOIN {broken} b ON b.ns = :ns AND b.name = :name AND b.token = :token;
-- :array
WITH i AS (
    SELECT * FROM ROWS FROM (unnest(:ns), unnest(:name), unnest(:token)) WITH ORDINALITY AS u (ns, name, token, ord)
    WHERE {few}
), k AS (
    SELECT c.ns, c.name, c.token, i.ord
    FROM i JOIN {lock} c ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner IS NOT NULL AND c.token = i.token
    FOR NO KEY UPDATE OF c SKIP LOCKED
), g AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_BROKEN}, idle_since = {now}
    FROM k
    WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0 AND l.owner IS NOT NULL AND l.token = k.token
    RETURNING k.ord, l.ns, l.name, l.token
), noted AS (
    INSERT INTO {broken} (ns, name, token, noted)
    SELECT g.ns, g.name, g.token, {now} FROM g
    ON CONFLICT (ns, name, token) DO UPDATE SET noted = excluded.noted
), old AS (
    DELETE FROM {broken} b
    WHERE (b.ns, b.name, b.token) = ANY (
        SELECT o.ns, o.name, o.token FROM {broken} o WHERE o.noted < (SELECT {now} - {month})
        ORDER BY o.noted LIMIT 100 FOR UPDATE SKIP LOCKED)
)
SELECT (g.ord - 1)::int, {DONE}, g.token, NULL::bigint, {now} FROM g;

-- :block was_broken
-- Follows an answer that others came since (TAKEN): was this very grant broken? It had ended by then, so what is seen
-- now was so already. No row: it was not broken, or the break left no note (an older schema, an older library).
-- :step
SELECT 0, {BROKEN} FROM {broken} b WHERE b.ns = :ns AND b.name = :name AND b.token = :token;

-- :block queue
-- Grants or offers a lock that others wait for, or puts this owner into the queue. Sent after acquire was refused.
-- The snapshot shows the queue as it was when the statement began. The locked row counts the queue's changes. If it has
-- counted more than the snapshot shows, nothing is decided: no row, and the last step says to try again. So no one
-- is put into a queue that a release has just found empty, and no waiter is passed over.
-- The weaker row lock lets the holder's guard pass: one can queue behind it. A grant or an offer takes the stronger
-- one, as in acquire.
-- A free lock goes to the first waiter whose client lives. If that is this owner, or if none lives, it is granted at
-- once, with its whole lease. To another one it is offered: granted for a short time, in which it must extend it by
-- acquire. An offer or a turn that ran out counts its client as dead, until it says again that it lives: a program with many
-- waiters costs the others one offer, not one for each.
-- Waiters that are passed over lose their place, and queue anew when they find out. One whose session has just ended is
-- only left out: its client may connect again.
-- A waiter that comes with an owner whose row in the queue is of a client that is dead takes that place: its program was
-- started again. The row is made anew, with the same ticket. While that client lives, it keeps the place.
-- The row may have been deleted while there were waiters, and made anew: tickets go on behind theirs.
-- During its grace after a loss a waiter is offered nothing, and no other before it.
-- TURN in place of DONE: others may still have seats beside the lock.
-- :waits = 0: not to be queued; but whoever finds the lock free with waiters passes it on.
-- UNLIKE: someone waits, in the queue or with the turn, in a mode that does not go with this one. It is not queued.
-- The second step is for the most frequent case: another owner's lease runs, and this one comes. It decides as the
-- fourth does.
-- place: 1 is the next in line; NULL: not in the queue.
-- With {in_turn} a release, or a renewal, waits for the row behind one of those who come, and not behind all. Of 44
-- processes that begin at once each plans its statements first: the first release took 400 to 580 ms before, and 0 to
-- 220 ms with it (two busy cores).
-- :step first with waits
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND {in_turn} FOR NO KEY UPDATE OFFSET 1;
-- :step with waits
WITH k AS (
    SELECT c.ns, c.name, {now} AS t,
           greatest(c.next_ticket, (SELECT max(w.ticket) FROM {waiter} w WHERE w.ns = q.ns AND w.name = q.name)) + 1 AS ticket,
           1 + (SELECT count(*) FROM {waiter} w JOIN {client} p ON p.id = w.client
                WHERE w.ns = q.ns AND w.name = q.name AND (w.client = :client OR {living})) AS place
    FROM {lock} q JOIN {lock} c ON c.ns = q.ns AND c.name = q.name AND c.changes = q.changes CROSS JOIN {meta} m
    WHERE q.ns = :ns AND q.name = :name AND c.kind = 0
      AND c.owner <> :owner AND c.exp > {now} AND :waits = 1
      AND m.id = 1 AND {known}
      AND (c.ended_why <> {ENDED_RELEASED} OR (c.ended_owner = :owner) IS NOT TRUE)
      AND (c.withdrawn = :owner) IS NOT TRUE
      AND {now} <= :not_after AND NOT ({seats_unlike}) AND {unwaited}
      AND NOT EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = q.ns AND w.name = q.name AND (w.owner = :owner OR {unlike}))
    FOR NO KEY UPDATE OF c SKIP LOCKED
), a AS (
    INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
    SELECT k.ns, k.name, k.ticket, :owner, :client, :ttl, greatest(:grace, 0), :label, k.t, :mode FROM k
)
UPDATE {lock} l SET waiters = 1, changes = l.changes + 1, next_ticket = k.ticket
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0
RETURNING 0, {HELD}, CASE WHEN l.seats = 0 THEN l.token ELSE 0 END, l.exp - k.t, k.t, l.since, l.label, k.place, NULL::bytea, NULL::bytea;
-- :step first
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND {in_turn} FOR NO KEY UPDATE OFFSET 1;
-- :step
WITH q AS (
    SELECT l.changes FROM {lock} l WHERE l.ns = :ns AND l.name = :name
), k AS (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, c.since, c.label, c.client, c.offered, c.next_ticket, c.changes,
           c.seats, {seats_unlike} AS unlike,
           CASE WHEN c.offered = 1 THEN c.exp WHEN c.seats <> 0 THEN c.exp + {whole_turn} - least(c.ttl, {whole_turn}) END
           AS late_at,
           m.fence_floor, {now} AS t, {graced} AS graced, {grace_end} AS grace_end, m.lost_at, m.longest
    FROM {lock} c, {meta} m
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND m.id = 1 AND {known}
      AND (c.ended_why <> {ENDED_RELEASED} OR (c.ended_owner = :owner) IS NOT TRUE)
      AND (c.withdrawn = :owner) IS NOT TRUE
      AND {now} <= :not_after AND {durable}
    FOR NO KEY UPDATE OF c SKIP LOCKED
), s AS (
    SELECT k.*, (k.owner = :owner AND k.exp > k.t) IS TRUE AS own,
           (k.owner IS NULL OR k.exp <= k.t) AND NOT k.graced AS free,
           CASE WHEN k.late_at <= k.t AND k.client <> :client THEN k.client END AS late,
           CASE WHEN :waits = 1 THEN coalesce({unlike_mode}, CASE WHEN k.unlike
               AND EXISTS (SELECT 1 FROM {lock} z WHERE {seat} AND z.exp > k.t) THEN k.seats END) END AS unlike_is
    FROM k JOIN q ON q.changes = k.changes
), o AS (
    SELECT w.ticket, w.client <> :client AND ((w.client = s.late) IS TRUE
               OR NOT EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND {living})) AS dead
    FROM s JOIN {waiter} w ON w.ns = s.ns AND w.name = s.name AND w.owner = :owner
), f AS (
    SELECT 1 FROM {lock} l WHERE (l.ns, l.name) = (SELECT s.ns, s.name FROM s WHERE s.own OR s.free)
    FOR UPDATE SKIP LOCKED
), h AS (
    SELECT f.ticket, f.owner, f.client, f.ttl, f.label, f.grace
    FROM s LEFT JOIN o ON o.dead AND :waits = 1 AND s.unlike_is IS NULL CROSS JOIN LATERAL (
        SELECT w.ticket, w.owner, w.client, w.ttl, w.label, w.grace FROM {waiter} w
        WHERE w.ns = s.ns AND w.name = s.name
          AND (w.ticket = o.ticket OR (w.client = s.late) IS NOT TRUE
               AND {is_there})
        ORDER BY w.ns, w.name, w.ticket LIMIT 1) f
    WHERE s.free
), d AS (
    SELECT s.*, h.ticket AS h_ticket, h.owner AS h_owner, h.client AS h_client, h.ttl AS h_ttl, h.label AS h_label,
           s.lost_at + least(s.longest, h.grace) AS h_end,
           CASE WHEN NOT (s.own OR s.free) OR NOT EXISTS (SELECT 1 FROM f) THEN 0
                WHEN s.own OR h.owner IS NULL OR h.owner = :owner THEN 1
                WHEN s.t < (s.lost_at + least(s.longest, h.grace)) THEN 0
                ELSE 2 END AS act,
           CASE WHEN NOT o.dead THEN o.ticket END AS mine, CASE WHEN o.dead THEN o.ticket END AS kept,
           greatest(s.next_ticket, (SELECT max(w.ticket) FROM {waiter} w WHERE w.ns = s.ns AND w.name = s.name)) + 1 AS ticket
    FROM s LEFT JOIN h ON true LEFT JOIN o ON true
), e AS (
    SELECT d.*, d.act <> 1 AND d.mine IS NULL AND :waits = 1 AND d.unlike_is IS NULL AS comes,
           d.act <> 1 AND d.mine IS NULL AND d.unlike_is IS NOT NULL AS refused,
           CASE WHEN d.act = 0 OR d.own THEN -1 ELSE coalesce(d.h_ticket, {last_ticket}) END AS upto
    FROM d
), g AS (
    SELECT w.ticket
    FROM e JOIN {waiter} w ON w.ns = e.ns AND w.name = e.name LEFT JOIN {client} p ON p.id = w.client
    WHERE w.ticket <= e.upto AND (w.ticket = e.h_ticket OR w.client = e.late OR (p.alive_until > e.t) IS NOT TRUE)
       OR (e.act = 1 OR e.comes) AND w.owner = :owner
), r AS (
    SELECT CASE WHEN e.comes OR EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = e.ns AND w.name = e.name
                    AND w.ticket <> ALL (ARRAY(SELECT g.ticket FROM g))) THEN 1 ELSE 0 END AS more,
           CASE WHEN e.act <> 1 AND (e.comes OR e.mine IS NOT NULL) THEN 1 + (SELECT count(*)
                    FROM {waiter} w JOIN {client} p ON p.id = w.client
                    WHERE w.ns = e.ns AND w.name = e.name AND w.ticket <> ALL (ARRAY(SELECT g.ticket FROM g))
                      AND w.ticket < coalesce(e.mine, e.kept, {last_ticket}) AND (w.client = :client OR {living})) END AS place
    FROM e
), x AS (
    DELETE FROM {waiter} w USING e, g WHERE w.ns = e.ns AND w.name = e.name AND w.ticket = g.ticket
    RETURNING w.ticket
), a AS (
    INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
    SELECT e.ns, e.name, coalesce(x.ticket, e.ticket), :owner, :client, :ttl, greatest(:grace, 0), :label, e.t, :mode
    FROM e LEFT JOIN x ON x.ticket = e.kept
    WHERE e.comes AND CASE WHEN e.act = 0 THEN {unwaited} ELSE true END
), z AS (
    UPDATE {client} p SET alive_until = 0
    WHERE p.id = ANY (ARRAY(SELECT c.id FROM {client} c
                            WHERE c.id = (SELECT e.late FROM e WHERE e.act > 0) FOR UPDATE SKIP LOCKED))
), u AS (
    UPDATE {lock} l SET
        owner = CASE WHEN e.act = 1 THEN :owner WHEN e.act = 2 THEN e.h_owner ELSE l.owner END,
        token = CASE WHEN e.act = 0 OR e.own AND l.token > e.fence_floor THEN l.token
                     ELSE greatest(l.token, e.fence_floor) + 1 END,
        exp = CASE WHEN e.act = 1 THEN e.t + {lasts} WHEN e.act = 2 THEN e.t + {offer} ELSE l.exp END,
        ttl = CASE WHEN e.act = 1 THEN :ttl WHEN e.act = 2 THEN e.h_ttl ELSE l.ttl END,
        since = CASE WHEN e.act = 0 OR e.own THEN l.since ELSE e.t END,
        label = CASE WHEN e.act = 1 THEN :label WHEN e.act = 2 THEN e.h_label ELSE l.label END,
        client = CASE WHEN e.act = 1 THEN :client WHEN e.act = 2 THEN e.h_client ELSE l.client END,
        offered = CASE WHEN e.act = 1 THEN 0 WHEN e.act = 2 THEN 1 ELSE l.offered END,
        passes = CASE WHEN e.act = 2 OR e.act = 1 AND NOT e.own THEN 0 ELSE l.passes END,
        ended_owner = CASE WHEN e.act = 0 OR e.own OR l.owner IS NULL THEN l.ended_owner ELSE l.owner END,
        ended_token = CASE WHEN e.act = 0 OR e.own OR l.owner IS NULL THEN l.ended_token ELSE l.token END,
        ended_why = CASE WHEN e.act = 0 OR e.own OR l.owner IS NULL THEN l.ended_why ELSE {ENDED_TAKEN} END,
        idle_since = CASE WHEN e.act = 0 THEN l.idle_since END,
        waiters = r.more, changes = l.changes + 1,
        next_ticket = CASE WHEN e.comes THEN e.ticket ELSE l.next_ticket * r.more END
    FROM e CROSS JOIN r
    WHERE l.ns = :ns AND l.name = :name AND (e.act > 0 OR e.comes)
    RETURNING l.token, l.exp, l.since, l.label
)
SELECT 0,
       CASE WHEN e.act = 1 THEN CASE WHEN e.seats <> 0 THEN {TURN} ELSE {DONE} END
            WHEN e.refused THEN {UNLIKE}
            WHEN e.act = 2 OR e.exp > e.t THEN {HELD}
            WHEN e.graced OR e.t < e.h_end THEN {GRACE}
            ELSE {SKIPPED} END,
       CASE WHEN e.refused THEN e.unlike_is WHEN e.act = 1 OR e.seats = 0 THEN coalesce(u.token, e.token) ELSE 0 END,
       CASE WHEN e.act > 0 THEN u.exp - e.t
            WHEN e.exp > e.t THEN e.exp - e.t
            WHEN e.graced THEN e.grace_end - e.t
            WHEN e.t < e.h_end THEN e.h_end - e.t
            ELSE e.exp - e.t END,
       e.t, coalesce(u.since, e.since), coalesce(u.label, e.label), r.place,
       CASE WHEN e.act = 2 THEN e.h_client END, CASE WHEN e.act = 2 THEN e.h_owner END
FROM e CROSS JOIN r LEFT JOIN u ON true;
-- :step look
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT {known} THEN {STRANGER}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       h.token, h.exp - {now}, {now}, h.since, h.label
FROM {lock} h CROSS JOIN {meta} m
WHERE h.ns = :ns AND h.name = :name AND m.id = 1;

-- :block leave
-- Takes an owner that waits no longer out of the queue, and gives back what it was given meanwhile. With :gives = 1 that is
-- all that it has, since no one else has the owner; with 2 no more than an offer or a turn; with 0 nothing.
-- If the lock is free then, the answer names the next one that lives: whoever was called before may be about to leave too.
-- The session of this client is mostly this one, so its own lock does not show here that it lives.
-- SKIPPED: try again. No row: the lock has none.
-- :step first
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 FOR NO KEY UPDATE OFFSET 1;
-- :step
WITH q AS (
    SELECT l.changes FROM {lock} l WHERE l.ns = :ns AND l.name = :name
), k AS (
    SELECT c.ns, c.name, c.changes, c.client, c.owner IS NULL AS free,
           (c.owner = :owner AND (:gives = 1 OR :gives = 2 AND (c.offered = 1 OR c.seats <> 0))) IS TRUE AS own,
           {now} AS t
    FROM {lock} c WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
    FOR NO KEY UPDATE SKIP LOCKED
), s AS (
    SELECT k.*, EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = k.ns AND w.name = k.name AND w.owner = :owner) AS waits,
           coalesce((SELECT w.client FROM {waiter} w WHERE w.ns = k.ns AND w.name = k.name AND w.owner = :owner LIMIT 1),
                    CASE WHEN k.own THEN k.client END) AS ours,
           CASE WHEN EXISTS (SELECT 1 FROM {waiter} w
                             WHERE w.ns = k.ns AND w.name = k.name AND w.owner <> :owner) THEN 1 ELSE 0 END AS more
    FROM k JOIN q ON q.changes = k.changes
), x AS (
    DELETE FROM {waiter} w USING s WHERE w.ns = s.ns AND w.name = s.name AND w.owner = :owner
), u AS (
    UPDATE {lock} l SET
        owner = CASE WHEN NOT s.own THEN l.owner END, exp = CASE WHEN NOT s.own THEN l.exp END,
        since = CASE WHEN NOT s.own THEN l.since END, label = CASE WHEN NOT s.own THEN l.label END,
        offered = CASE WHEN s.own THEN 0 ELSE l.offered END,
        ended_owner = CASE WHEN s.own THEN l.owner ELSE l.ended_owner END,
        ended_token = CASE WHEN s.own THEN l.token ELSE l.ended_token END,
        ended_why = CASE WHEN s.own THEN {ENDED_RELEASED} ELSE l.ended_why END,
        idle_since = CASE WHEN s.own THEN s.t ELSE l.idle_since END,
        waiters = s.more, changes = l.changes + 1, next_ticket = l.next_ticket * s.more
    FROM s
    WHERE l.ns = :ns AND l.name = :name AND (s.own OR s.waits AND {unwaited})
)
SELECT 0, CASE WHEN s.ns IS NULL THEN {SKIPPED} ELSE {DONE} END, h.token, NULL::bigint, {now},
       NULL::bigint, NULL::bytea, NULL::bigint,
       f.client, f.owner
FROM {lock} h LEFT JOIN s ON true LEFT JOIN LATERAL (
    SELECT w.client, w.owner FROM {waiter} w
    WHERE (s.own OR s.free AND s.waits) AND w.ns = s.ns AND w.name = s.name AND w.owner <> :owner
      AND (w.client = s.ours OR EXISTS (SELECT 1 FROM {client} p WHERE p.id = w.client AND {living}))
    ORDER BY w.ns, w.name, w.ticket LIMIT 1) f ON true
WHERE h.ns = :ns AND h.name = :name;

-- :block beat
-- The client lives, for :alive from now on (0: it is closed, and its waiters are passed over). It need not wait for the
-- disk: after a crash the next one says it again.
-- Answers with all that wait for it: their places, and how long the lock's lease still runs. An owner that is missing was
-- offered the lock, or passed over: it looks by itself. One that the client does not know is to leave. The first row only says that it was done.
-- Tables come in the order in which all statements and migrations lock them.
-- :session = 1: this session listens for the client, and holds the advisory lock from now on. It may be that another one
-- holds it: a look of this moment, or a session of ours whose end the server has not noticed yet. Then the client does not
-- depend on it. Each beat tries again: a pooler may have given us another session.
-- Places count only those who live. Clients that ended an hour ago go: each beat looks at ten clients, by their keys.
-- :step
WITH r AS (
    SELECT l.exp, w.owner, w.client, w.ns, w.name, w.ticket
    FROM {lock} l JOIN {waiter} w ON w.ns = l.ns AND w.name = l.name
    WHERE (l.ns, l.name) = ANY (SELECT n.ns, n.name FROM {waiter} n WHERE n.client = :client)
), c AS (
    SELECT p.id FROM {client} p
    WHERE p.id <> :client AND {living} AND p.id = ANY (SELECT r.client FROM r)
), o AS (
    SELECT r.owner, r.exp, r.client, r.ns, r.name, row_number() OVER (PARTITION BY r.ns, r.name ORDER BY r.ticket) AS place
    FROM r WHERE r.client = :client OR r.client = ANY (SELECT c.id FROM c)
), b AS (
    INSERT INTO {client} (id, alive_until, session)
    SELECT p.id, {now} + :alive, CASE WHEN :session = 1 AND pg_try_advisory_lock({session_number}) THEN 1 ELSE 0 END
    FROM (VALUES (:client)) p (id) WHERE {unwaited}
    ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until, session = excluded.session
    RETURNING 1
), x AS (
    DELETE FROM {client} p
    WHERE p.id = ANY (ARRAY(SELECT g.id FROM {client} g
                            WHERE g.id = ANY (ARRAY({ten})) AND g.id <> :client AND g.alive_until < (SELECT {now} - {gone})
                            FOR UPDATE SKIP LOCKED))
)
SELECT 0, {DONE}, 0::bigint, NULL::bigint, {now}, NULL::bytea, NULL::bytea, NULL::bytea FROM b
UNION ALL
SELECT 0, {DONE}, o.place, o.exp - {now}, {now}, o.owner, o.ns, o.name FROM o WHERE o.client = :client;

-- :block notify
-- Wakes a waiter of another client. In a transaction of its own that writes nothing, so that it waits for no disk, and no
-- other that notifies waits for it. Others may keep it waiting, for so long at most. If it is lost, the waiter looks a moment
-- later.
-- :step
SELECT 0, CASE WHEN set_config('lock_timeout', '200ms', true) IS NULL
                 OR pg_notify('sqlock_'::text || encode(:client, 'hex'::text), encode(:owner, 'hex'::text))::text IS NULL
               THEN {NEVER} ELSE {DONE} END;

-- :block waiters
-- A page of those who wait, in the order of their places, behind the ticket :ticket of the name :after, and of names
-- below :below. Only those who live: others are passed over. Not for the session that listens for a client: it would get
-- the advisory lock that it holds itself.
-- First on each name (ticket 0), who has the turn and waits with it for the seats beside the lock. For
-- them it reads the locks' rows between the bounds.
-- There the CASE hides from the planner how few they are: it would read all rows, and sort.
-- As in list, the bounds are whole keys, and it stops after a page. The client is looked up for each row: joined, all
-- clients might be read, and the waiters sorted.
-- :step
SELECT 0, {DONE}, w.ticket, NULL::bigint, {now}, w.since, w.label, w.name, w.owner, w.mode::bigint, w.client
FROM (
    (SELECT l.name, 0::bigint AS ticket, l.since, l.label, l.owner, l.client, greatest(l.seats, 0) AS mode
     FROM {lock} l
     WHERE (l.ns, l.name) >= (:ns, :after) AND (l.ns, l.name) < (:ns, :below) AND (:ticket < 0 OR l.name <> :after)
       AND CASE WHEN l.kind = 0 AND l.seats <> 0 AND l.owner IS NOT NULL THEN l.exp > {now} ELSE false END
     ORDER BY l.ns, l.name LIMIT :limit)
    UNION ALL
    (SELECT w.name, w.ticket, w.since, w.label, w.owner, w.client, w.mode
     FROM {waiter} w
     WHERE (w.ns, w.name, w.ticket) > (:ns, :after, :ticket) AND (w.ns, w.name) < (:ns, :below)
       AND (SELECT {living} FROM {client} p WHERE p.id = w.client)
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
-- The lock is only freed, and the answer names who should look,
-- - if the queue was changed meanwhile, or a guard has locked the row;
-- - in the waiter's grace after a loss: another holder, whose grant this server has lost, may still believe in it.
-- All else is as in release.
-- The first step is for an empty queue. There :next needs no place, whatever comes. The second is for the most frequent
-- case: the first in the queue lives, and is of another client. It decides as the fifth does. The third is for the last
-- one that waited: no one does any more. It is the release, and spares a new session the plan of the fifth, some ms.
-- It compares :next in a way that says nothing to the planner: with a NULL it would make a plan anew each time.
-- An offer waits for the disk, and for a standby. Others see its token as a holder's, and must not see the former holder
-- again after a failover.
-- Where others may have seats beside the lock, what is passed on at once is the turn and no grant. Its new owner sends
-- more requests.
-- place: not NULL: :next is in the queue.
-- :step with next
WITH k AS (
    SELECT c.ns, c.name, greatest(c.token, m.fence_floor) AS above, {now} AS t
    FROM {lock} c, {meta} m
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.waiters = 0
      AND :next IS NOT NULL AND {now} <= :not_after AND (c.withdrawn = :next) IS NOT TRUE
      AND m.id = 1 AND {known} AND {durable} AND NOT {graced}
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE {lock} l SET
    owner = :next, token = k.above + 1, exp = k.t + :ttl, ttl = :ttl, since = k.t, label = :label, client = :client,
    offered = 0, passes = least(l.passes + 1, {passes}),
    ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED}
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0
  AND l.owner = :owner AND l.token = :token AND l.waiters = 0 AND {now} <= :not_after
RETURNING 0, {DONE}, l.ended_token, NULL::bigint, k.t, NULL::bigint, NULL::bytea, NULL::bigint, l.client, l.owner,
    l.token, l.exp - k.t, CASE WHEN l.seats <> 0 THEN 0 ELSE 1 END;
-- :step without next
WITH k AS (
    SELECT c.ns, c.name, greatest(c.token, m.fence_floor) + 1 AS token, {now} AS t,
           f.ticket, f.owner, f.client, f.ttl, f.label,
           CASE WHEN EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = c.ns AND w.name = c.name AND w.ticket > f.ticket)
                THEN 1 ELSE 0 END AS more
    FROM {lock} q JOIN {lock} c ON c.ns = q.ns AND c.name = q.name AND c.changes = q.changes CROSS JOIN {meta} m
    CROSS JOIN LATERAL (
        SELECT w.ticket, w.owner, w.client, w.ttl, w.label, w.grace FROM {waiter} w
        WHERE w.ns = q.ns AND w.name = q.name ORDER BY w.ns, w.name, w.ticket LIMIT 1) f
    WHERE q.ns = :ns AND q.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.waiters <> 0
      AND coalesce(:next, c.owner) = c.owner AND f.client <> :client
      AND EXISTS (SELECT 1 FROM {client} p WHERE p.id = f.client AND {living})
      AND NOT EXISTS (SELECT 1 FROM {waiter} w WHERE w.client = :client AND w.ns = c.ns AND w.name = c.name)
      AND m.id = 1 AND {known} AND {now} >= (m.lost_at + least(m.longest, f.grace)) AND {durable}
    FOR UPDATE OF c SKIP LOCKED
), x AS (
    DELETE FROM {waiter} w USING k WHERE w.ns = k.ns AND w.name = k.name AND w.ticket = k.ticket
)
UPDATE {lock} l SET
    owner = k.owner, token = k.token, exp = k.t + {offer}, since = k.t, label = k.label, client = k.client,
    ttl = k.ttl, offered = 1, passes = 0, changes = l.changes + 1,
    ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED}, idle_since = NULL,
    waiters = k.more, next_ticket = l.next_ticket * k.more
FROM k
WHERE l.ns = k.ns AND l.name = k.name AND l.kind = 0 AND l.owner = :owner AND l.token = :token
RETURNING 0, {DONE}, l.ended_token, NULL::bigint, k.t, NULL::bigint, NULL::bytea, NULL::bigint, l.client, l.owner,
    l.token, l.exp - k.t, 0;
-- :step without next
UPDATE {lock} l SET {freed}
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0
  AND l.owner = :owner AND l.token = :token AND l.waiters = 0 AND coalesce(:next, l.owner) = l.owner AND {lazily}
RETURNING 0, {DONE}, l.token, NULL::bigint, {now};
-- :step first
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 FOR NO KEY UPDATE OFFSET 1;
-- :step
WITH q AS (
    SELECT l.changes FROM {lock} l WHERE l.ns = :ns AND l.name = :name
), k AS (
    SELECT c.ns, c.name, c.token, greatest(c.token, m.fence_floor) AS above, c.changes, c.next_ticket,
           CASE WHEN c.seats = 0 THEN c.passes ELSE {passes} END AS passes, c.withdrawn, m.lost_at, m.longest, {now} AS t
    FROM {lock} c, {meta} m
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.waiters <> 0
      AND m.id = 1 AND {known} AND {durable}
    FOR UPDATE OF c SKIP LOCKED
), s AS (
    SELECT k.* FROM k JOIN q ON q.changes = k.changes
), n AS (
    SELECT :next AS owner, :ttl AS ttl, :label AS label, greatest(:grace, 0) AS grace
    FROM s
    WHERE :next IS NOT NULL AND s.t <= :not_after AND (s.withdrawn = :next) IS NOT TRUE AND {unlike_mode} IS NULL
), first AS (
    SELECT f.ticket, f.owner, f.client, f.ttl, f.label, f.grace
    FROM s CROSS JOIN LATERAL (
        SELECT w.ticket, w.owner, w.client, w.ttl, w.label, w.grace FROM {waiter} w
        WHERE w.ns = s.ns AND w.name = s.name
          AND {is_there}
        ORDER BY w.ns, w.name, w.ticket LIMIT 1) f
), own AS (
    SELECT f.ticket, f.owner, f.client, f.ttl, f.label, f.grace
    FROM s CROSS JOIN LATERAL (
        SELECT w.ticket, w.owner, w.client, w.ttl, w.label, w.grace FROM {waiter} w
        WHERE w.client = :client AND w.ns = s.ns AND w.name = s.name
        ORDER BY w.client, w.ns, w.name, w.ticket LIMIT 1) f
    WHERE s.passes < {passes} AND EXISTS (SELECT 1 FROM {client} p WHERE p.id = :client AND p.alive_until > s.t)
), h AS (
    SELECT own.ticket, own.owner, own.client, own.ttl, own.label, own.grace, 1 AS passed FROM own
    UNION ALL
    SELECT NULL::bigint, n.owner, :client, n.ttl, n.label, n.grace, 1
    FROM s CROSS JOIN n
    WHERE NOT EXISTS (SELECT 1 FROM own) AND (s.passes < {passes} OR NOT EXISTS (SELECT 1 FROM first))
    UNION ALL
    SELECT f.ticket, f.owner, f.client, f.ttl, f.label, f.grace, 0
    FROM s CROSS JOIN first f
    WHERE NOT EXISTS (SELECT 1 FROM own) AND (s.passes >= {passes} OR NOT EXISTS (SELECT 1 FROM n))
), a AS (
    SELECT s.* FROM s WHERE NOT EXISTS (SELECT 1 FROM h WHERE s.t < (s.lost_at + least(s.longest, h.grace)))
), d AS (
    SELECT w.ticket
    FROM a s JOIN {waiter} w ON w.ns = s.ns AND w.name = s.name LEFT JOIN {client} p ON p.id = w.client
    WHERE w.owner = (SELECT h.owner FROM h)
       OR w.ticket < coalesce((SELECT f.ticket FROM first f), {last_ticket}) AND (p.alive_until > s.t) IS NOT TRUE
), j AS (
    SELECT greatest(s.next_ticket, (SELECT max(w.ticket) FROM {waiter} w WHERE w.ns = s.ns AND w.name = s.name)) + 1 AS ticket,
           1 + (SELECT count(*) FROM {waiter} w
                WHERE w.ns = s.ns AND w.name = s.name AND w.ticket <> ALL (ARRAY(SELECT d.ticket FROM d))) AS place
    FROM a s CROSS JOIN n
    WHERE EXISTS (SELECT 1 FROM h WHERE h.owner <> n.owner)
      AND NOT EXISTS (SELECT 1 FROM {waiter} w WHERE w.ns = s.ns AND w.name = s.name AND w.owner = n.owner)
), r AS (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM j)
                  OR EXISTS (SELECT 1 FROM a s JOIN {waiter} w ON w.ns = s.ns AND w.name = s.name
                             WHERE w.ticket <> ALL (ARRAY(SELECT d.ticket FROM d))) THEN 1 ELSE 0 END AS more
), x AS (
    DELETE FROM {waiter} w USING a s, d WHERE w.ns = s.ns AND w.name = s.name AND w.ticket = d.ticket
), i AS (
    INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
    SELECT s.ns, s.name, j.ticket, n.owner, :client, n.ttl, n.grace, n.label, s.t, :mode FROM a s CROSS JOIN n CROSS JOIN j
)
UPDATE {lock} l SET
    owner = h.owner, token = CASE WHEN h.owner IS NULL THEN l.token ELSE s.above + 1 END,
    exp = CASE WHEN h.passed = 1 THEN s.t + h.ttl WHEN h.passed = 0 THEN s.t + {offer} END,
    since = CASE WHEN h.owner IS NOT NULL THEN s.t END, label = h.label, client = h.client,
    ttl = coalesce(h.ttl, l.ttl), offered = CASE WHEN h.passed = 0 THEN 1 ELSE 0 END,
    passes = CASE WHEN h.passed = 1 THEN least(l.passes + 1, {passes}) ELSE 0 END,
    ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED},
    idle_since = CASE WHEN h.owner IS NULL THEN s.t END, changes = l.changes + 1,
    waiters = r.more, next_ticket = coalesce((SELECT j.ticket FROM j), l.next_ticket * r.more)
FROM r CROSS JOIN a s LEFT JOIN h ON true
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND l.owner = :owner AND l.token = :token
RETURNING 0, {DONE}, s.token, NULL::bigint, s.t, NULL::bigint, NULL::bytea, (SELECT j.place FROM j), h.client, h.owner,
    l.token, l.exp - s.t, CASE WHEN l.seats <> 0 THEN 0 ELSE h.passed END;
-- :step
UPDATE {lock} l SET {freed}
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0
  AND l.owner = :owner AND l.token = :token AND {lazily}
RETURNING 0, {DONE}, l.token, NULL::bigint, {now}, NULL::bigint, NULL::bytea, NULL::bigint,
    (SELECT w.client FROM {waiter} w WHERE w.ns = l.ns AND w.name = l.name AND {is_there}
     ORDER BY w.ns, w.name, w.ticket LIMIT 1),
    (SELECT w.owner FROM {waiter} w WHERE w.ns = l.ns AND w.name = l.name AND {is_there}
     ORDER BY w.ns, w.name, w.ticket LIMIT 1);
-- :step look
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE WHEN h.ended_why = {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}, NULL::bigint, NULL::bytea, NULL::bigint,
       h.client, h.owner
FROM (VALUES (1)) one LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block seat
-- Gives a shared holder (:seats = -1), or the holder of one of :seats slots, a seat: a row of its own, which is an
-- ordinary lease from then on. The lock's own row is the turn: whoever has it decides next. So a seat is granted
-- under the lock of that row, and only while the row is free and no one waits, or while this owner has the turn. Its
-- token is drawn there, and both rows get it: tokens of a name rise over all its grants.
-- The lock of the row is the strong one, as in acquire: a guard of an exclusive holder keeps it out. The seat is
-- locked alike: one whose row is locked or guarded is passed over, as if it were taken.
-- The seats are those of the snapshot, and each one that is granted is counted in the lock's row (changes). If the
-- row has counted more than the snapshot shows, nothing is decided. So two clients never get one seat, one owner
-- never gets two, and a slot too many is never granted. A seat that has become empty meanwhile is not counted: it
-- looks taken at worst.
-- The same request sent again finds its own seat, if that lease still runs, whoever has the turn by now. It keeps its
-- token. But below the floor it draws a new one, unless another has the turn, whose token stays what it is.
-- An owner that has released its seat gets no other one. Nor does one that has given up its turn without a seat.
-- :turn = 1: only for an owner that has the turn, or its seat already. Then no other grant came in between: an exclusive
-- holder becomes a shared one. Otherwise the answer says how the turn has ended (EXPIRED, BROKEN ...).
-- With the turn and no one waiting, the turn goes back here. It is remembered as released: the queue's request of
-- this owner, if it comes once more, must not get it. Otherwise this owner keeps the turn (1 in the last column), and
-- has to pass it on.
-- The second step says why nothing was granted, where that is certain: UNLIKE (other holders stand there: -1, or of N
-- slots), FULL (all slots are taken; it names the one whose lease ends first). Else the third step makes the row, as
-- in acquire; the fourth waits for those that write it, and the next ones have a snapshot that is younger than its
-- lock. Where many come at once, a request begins with the fourth.
-- With {in_turn}, 64 sessions that share one name had 907 grants a second, and one in a hundred took longer than 161 ms.
-- Without it there were 506, and 604 ms (PostgreSQL 15 on two cores).
-- The last step: GUARDED: the slots that are not taken are all guarded. SKIPPED: try again.
-- It goes by the primary key, and reads all seats of the name.
-- :step
WITH o AS (
    SELECT (z.owner = :owner) IS TRUE AS has, (z.owner = :owner AND z.exp > {now}) IS TRUE AS runs,
           (z.ended_owner = :owner AND z.ended_why = {ENDED_RELEASED}) IS TRUE AS released
    FROM {lock} z WHERE {seat} AND (z.owner = :owner OR z.ended_owner = :owner)
), k AS (
    SELECT c.owner, c.token, c.exp, c.waiters, c.seats, c.ended_owner, c.ended_why, m.fence_floor AS floor,
           {graced} AS graced
    FROM {lock} q JOIN {lock} c ON c.ns = q.ns AND c.name = q.name AND c.changes = q.changes CROSS JOIN {meta} m
    WHERE q.ns = :ns AND q.name = :name AND c.kind = 0
      AND m.id = 1 AND {known} AND :seats <> 0
      AND (c.withdrawn = :owner) IS NOT TRUE
      AND {now} <= :not_after AND {durable}
      AND (EXISTS (SELECT 1 FROM o WHERE o.runs)
           OR (c.owner IS NULL OR c.owner = :owner OR c.exp <= {now})
              AND (c.waiters = 0 OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
              AND (c.seats = 0 OR c.seats = :seats)
              AND (NOT {graced} OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
              AND (:turn = 0 OR (c.owner = :owner AND c.exp > {now}) IS TRUE)
              AND (:seats < 0 OR (SELECT count(*) FROM {lock} z WHERE {seat} AND z.exp > {now}) < :seats))
    FOR UPDATE OF c SKIP LOCKED
), t AS (
    SELECT k.*, {now} AS t FROM k WHERE {now} <= :not_after
), b AS (
    SELECT t.*, (t.owner = :owner AND t.exp > t.t) IS TRUE AS turn, t.owner IS NULL OR t.exp <= t.t AS free FROM t
), a AS (
    SELECT b.t, b.token, b.floor FROM b
    WHERE (b.free OR b.turn) AND (b.waiters = 0 OR b.turn) AND (NOT b.graced OR b.turn)
      AND (b.seats = 0 OR b.seats = :seats) AND (b.turn OR :turn = 0)
      AND NOT EXISTS (SELECT 1 FROM o WHERE o.released)
      AND (EXISTS (SELECT 1 FROM o) OR b.ended_why <> {ENDED_RELEASED} OR (b.ended_owner = :owner) IS NOT TRUE)
), w AS (
    SELECT z.name, z.token, z.exp > b.t AS runs
    FROM b CROSS JOIN {lock} z WHERE {seat} AND z.kind = 0 AND z.owner = :owner
    LIMIT 1 FOR UPDATE OF z SKIP LOCKED
), v AS (
    SELECT z.name, z.token
    FROM a CROSS JOIN {lock} z
    WHERE {seat} AND z.kind = 0 AND (z.owner IS NULL OR z.exp <= a.t) AND (:seats < 0 OR {number} < :seats)
      AND NOT EXISTS (SELECT 1 FROM o WHERE o.has)
    ORDER BY z.ns, z.name LIMIT 1 FOR UPDATE OF z SKIP LOCKED
), n AS (
    SELECT min(x.n) AS n
    FROM (SELECT 0 AS n UNION ALL SELECT {number} + 1 FROM {lock} z WHERE {seat}) x
    WHERE NOT EXISTS (SELECT 1 FROM v) AND NOT EXISTS (SELECT 1 FROM o WHERE o.has)
      AND x.n < 16777216 AND (:seats < 0 OR x.n < :seats)
      AND (SELECT count(*) FROM {lock} y WHERE y.ns = :ns AND y.name = {numbered}) = 0
), g AS (
    SELECT w.name, w.runs, 0 AS made, b.t,
           CASE WHEN w.runs AND (w.token > b.floor OR NOT (b.free OR b.turn)) THEN w.token
                ELSE greatest(b.token, w.token, b.floor) + 1 END AS token
    FROM b CROSS JOIN w WHERE w.runs OR EXISTS (SELECT 1 FROM a)
    UNION ALL
    SELECT v.name, false, 0, a.t, greatest(a.token, v.token, a.floor) + 1 FROM a CROSS JOIN v
    UNION ALL
    SELECT {numbered}, false, 1, a.t, greatest(a.token, a.floor) + 1 FROM a CROSS JOIN n x WHERE x.n IS NOT NULL
), u AS (
    UPDATE {lock} z SET
        owner = :owner, token = g.token, exp = g.t + :ttl, ttl = :ttl, label = :label, idle_since = NULL, offered = 0,
        client = NULL, since = CASE WHEN g.runs THEN z.since ELSE g.t END,
        ended_owner = CASE WHEN z.owner IS NULL OR g.runs THEN z.ended_owner ELSE z.owner END,
        ended_token = CASE WHEN z.owner IS NULL OR g.runs THEN z.ended_token ELSE z.token END,
        ended_why = CASE WHEN z.owner IS NULL OR g.runs THEN z.ended_why ELSE {ENDED_TAKEN} END
    FROM g
    WHERE z.ns = :ns AND z.name = g.name AND g.made = 0
    RETURNING z.name, z.token, z.exp, z.since
), i AS (
    INSERT INTO {lock} (ns, name, token, owner, exp, ttl, since, label)
    SELECT :ns, g.name, g.token, :owner, g.t + :ttl, :ttl, g.t, :label FROM g WHERE g.made = 1
    ON CONFLICT (ns, name) DO NOTHING
    RETURNING name, token, exp, since
), e AS (
    SELECT b.*, (b.free OR b.turn) AND b.waiters = 0 AS gives FROM b
)
UPDATE {lock} l SET
    token = greatest(l.token, z.token), seats = CASE WHEN l.seats = 0 THEN :seats ELSE l.seats END,
    changes = l.changes + 1, idle_since = NULL,
    owner = CASE WHEN NOT e.gives THEN l.owner END, exp = CASE WHEN NOT e.gives THEN l.exp END,
    since = CASE WHEN NOT e.gives THEN l.since END, label = CASE WHEN NOT e.gives THEN l.label END,
    offered = CASE WHEN e.gives OR e.turn THEN 0 ELSE l.offered END,
    ended_owner = CASE WHEN e.gives AND l.owner IS NOT NULL THEN l.owner ELSE l.ended_owner END,
    ended_token = CASE WHEN e.gives AND l.owner IS NOT NULL THEN l.token ELSE l.ended_token END,
    ended_why = CASE WHEN e.gives AND l.owner = :owner THEN {ENDED_RELEASED}
                     WHEN e.gives AND l.owner IS NOT NULL THEN {ENDED_TAKEN}
                     ELSE l.ended_why END
FROM e CROSS JOIN (SELECT u.name, u.token, u.exp, u.since FROM u
                   UNION ALL SELECT i.name, i.token, i.exp, i.since FROM i) z
WHERE l.ns = :ns AND l.name = :name
RETURNING 0, {DONE}, z.token, z.exp - e.t, e.t, z.since, NULL::bytea, {number}::bigint,
    CASE WHEN e.turn AND NOT e.gives THEN 1 ELSE 0 END;
-- :step look
SELECT 0, d.outcome,
       CASE WHEN d.outcome = {UNLIKE} THEN d.seats
            WHEN d.outcome = {FULL} THEN z.token
            WHEN d.outcome = {HELD} AND d.seats <> 0 THEN 0
            ELSE d.token END,
       CASE WHEN d.outcome = {FULL} THEN z.exp - d.t
            WHEN d.exp > d.t OR NOT d.graced THEN d.exp - d.t
            ELSE d.grace_end - d.t END,
       d.t,
       CASE WHEN d.outcome = {FULL} THEN z.since ELSE d.since END,
       CASE WHEN d.outcome = {FULL} THEN z.label ELSE d.label END,
       CASE WHEN d.outcome = {FULL} THEN {number} END
FROM (
    SELECT h.seats, h.token, h.exp, h.since, h.label, a.t, a.first, {graced} AS graced, {grace_end} AS grace_end,
           CASE WHEN h.kind <> 0 THEN {KIND}
                WHEN NOT {known} THEN {STRANGER}
                WHEN h.withdrawn = :owner OR a.released
                     OR NOT a.seen AND h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
                WHEN a.t > :not_after AND a.runs THEN {LATE}
                WHEN a.runs THEN {SKIPPED}
                WHEN h.owner <> :owner AND h.exp > a.t
                    THEN CASE WHEN :turn = 0 AND h.seats <> 0 AND h.seats <> :seats THEN {UNLIKE} ELSE {HELD} END
                WHEN a.t > :not_after THEN {LATE}
                WHEN :turn = 1 AND h.owner = :owner AND h.exp <= a.t THEN {EXPIRED}
                WHEN :turn = 1 AND h.ended_owner = :owner AND (h.owner = :owner) IS NOT TRUE THEN {ENDED} + h.ended_why
                WHEN :turn = 1 AND (h.owner = :owner) IS NOT TRUE THEN {TAKEN}
                WHEN {graced} AND (h.owner = :owner AND h.exp > a.t) IS NOT TRUE THEN {GRACE}
                WHEN h.waiters <> 0 AND (h.owner = :owner AND h.exp > a.t) IS NOT TRUE THEN {QUEUED}
                WHEN h.seats <> 0 AND h.seats <> :seats THEN {UNLIKE}
                WHEN :seats > 0 AND a.taken >= :seats THEN {FULL}
                ELSE {SKIPPED} END AS outcome
    FROM {lock} h CROSS JOIN {meta} m CROSS JOIN (
        SELECT max(c.t) AS t, count(z.exp) FILTER (WHERE z.exp > c.t) AS taken,
               min(z.exp) FILTER (WHERE z.exp > c.t) AS first,
               coalesce(bool_or(z.owner = :owner AND z.exp > c.t), false) AS runs,
               coalesce(bool_or(z.owner = :owner OR z.ended_owner = :owner), false) AS seen,
               coalesce(bool_or(z.ended_owner = :owner AND z.ended_why = {ENDED_RELEASED}), false) AS released
        FROM (SELECT {now} AS t) c LEFT JOIN {lock} z ON {seat}) a
    WHERE h.ns = :ns AND h.name = :name AND m.id = 1
) d LEFT JOIN LATERAL (
    SELECT z.name, z.token, z.exp, z.since, z.label FROM {lock} z WHERE {seat} AND z.exp = d.first LIMIT 1
) z ON true
WHERE d.outcome <> {SKIPPED};
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 AND {unwaited}
ON CONFLICT (ns, name) DO NOTHING;
-- :step first crowded
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 AND {in_turn} FOR NO KEY UPDATE OFFSET 1;
-- :step same 1
-- :step same 2
-- :step aside
WITH s AS (
    SELECT z.token, z.exp, z.since, z.label, {number} AS number, (z.exp > c.t) IS TRUE AS runs, c.t
    FROM (SELECT {now} AS t) c CROSS JOIN {lock} z WHERE {seat} AND {number} < :seats
), w AS (
    SELECT z.ns, z.name FROM {lock} z
    WHERE {seat} AND {number} < :seats AND (z.exp > {now}) IS NOT TRUE AND (SELECT count(*) FROM s) >= :seats
    FOR NO KEY UPDATE SKIP LOCKED
), x AS (
    SELECT 1 FROM {lock} z WHERE (z.ns, z.name) = ANY (SELECT w.ns, w.name FROM w) LIMIT 1 FOR UPDATE SKIP LOCKED
), d AS (
    SELECT CASE WHEN :seats < 0 OR (SELECT count(*) FROM w) = 0
                  OR (SELECT count(*) FROM w) + (SELECT count(*) FROM s WHERE s.runs) < :seats
                  OR EXISTS (SELECT 1 FROM x) THEN {SKIPPED}
                WHEN EXISTS (SELECT 1 FROM s WHERE s.runs) THEN {FULL}
                ELSE {GUARDED} END AS outcome
)
SELECT 0, d.outcome, f.token, f.exp - f.t, {now}, f.since, f.label, f.number::bigint
FROM d LEFT JOIN LATERAL (
    SELECT s.token, s.exp, s.t, s.since, s.label, s.number FROM s
    WHERE d.outcome = {FULL} AND s.exp = (SELECT min(s.exp) FROM s WHERE s.runs) LIMIT 1
) f ON true;

-- :block drain
-- Are all seats of the lock empty? For one who has the turn, or for anyone while the lock's row is free and no one
-- waits. If so, it says so in the row (seats = 0): DONE. From then on no one gets a seat, as long as another owner
-- has the row. The last column is 1 if it is this owner's. Send acquire, which grants the lock to whoever has the turn. A
-- turn that was broken or has run out gives no one more than that. Where a seat is held, that column says of which kind.
-- The first step only looks. It names the seat whose lease ends last, or, without one, the holder of the row (HELD).
-- The seat of :beside comes last: its owner wants the lock alone, and gives that seat back once there is no other.
-- The second one locks the row, and all seats as strongly as acquire does: no guard of a seat is open. The row may
-- have counted more seats than the snapshot shows: then nothing is decided. All seats are written, also those that
-- are empty. So the guard of a transaction with an older snapshot fails on them, as it does on a row that was granted
-- to others. And no clock that steps back revives a lease that has run out.
-- The lock is held since now, and not since the turn began. But whoever changes from a shared lock (:beside) has held
-- that one.
-- GUARDED: it could lock all of them, and as in `guarded` one only as weakly as a guard allows. SKIPPED: try again,
-- another session is writing one of them. No row: the lock has none.
-- It goes by the primary key, and reads all seats of the name.
-- :step aside
SELECT 0, d.outcome,
       CASE WHEN d.seated THEN z.token WHEN d.outcome = {HELD} AND d.seats <> 0 THEN 0 ELSE d.token END,
       CASE WHEN d.seated THEN z.exp ELSE d.exp END - d.t, d.t,
       CASE WHEN d.seated THEN z.since ELSE d.since END, CASE WHEN d.seated THEN z.label ELSE d.label END,
       CASE WHEN d.seated THEN {number} END, CASE WHEN d.seated THEN d.seats WHEN d.ours THEN 1 ELSE 0 END
FROM (
    SELECT a.*, a.outcome = {HELD} AND a.last IS NOT NULL AS seated
    FROM (
        SELECT r.*,
               CASE WHEN r.kind <> 0 THEN {KIND}
                    WHEN NOT r.known THEN {STRANGER}
                    WHEN NOT r.ours AND NOT r.free THEN {HELD}
                    WHEN NOT r.ours AND r.waiters <> 0 THEN {QUEUED}
                    WHEN r.seats = 0 THEN {DONE}
                    WHEN r.last IS NOT NULL THEN {HELD}
                    ELSE {SKIPPED} END AS outcome
        FROM (
            SELECT h.kind, h.token, h.exp, h.since, h.label, h.waiters, h.seats, c.t, {known} AS known,
                   (h.owner = :owner AND h.exp > c.t) IS TRUE AS ours, (h.exp > c.t) IS NOT TRUE AS free,
                   y.last, y.own
            FROM (SELECT {now} AS t) c CROSS JOIN {lock} h CROSS JOIN {meta} m CROSS JOIN LATERAL (
                SELECT coalesce(max(z.exp) FILTER (WHERE z.owner <> :beside), max(z.exp)) AS last,
                       bool_and(z.owner = :beside) AS own
                FROM {lock} z WHERE {seat} AND z.exp > c.t) y
            WHERE h.ns = :ns AND h.name = :name AND m.id = 1
        ) r
    ) a
) d LEFT JOIN LATERAL (
    SELECT z.name, z.token, z.exp, z.since, z.label FROM {lock} z
    WHERE {seat} AND z.exp = d.last AND (z.owner = :beside) = d.own LIMIT 1
) z ON true
WHERE d.outcome <> {SKIPPED};
-- :step
WITH k AS (
    SELECT c.owner, c.token, c.exp, c.seats
    FROM {lock} q JOIN {lock} c ON c.ns = q.ns AND c.name = q.name AND c.changes = q.changes CROSS JOIN {meta} m
    WHERE q.ns = :ns AND q.name = :name AND c.kind = 0 AND c.seats <> 0
      AND m.id = 1 AND {known} AND {durable}
      AND ((c.owner = :owner AND c.exp > {now}) IS TRUE OR (c.owner IS NULL OR c.exp <= {now}) AND c.waiters = 0)
    FOR UPDATE OF c SKIP LOCKED
), s AS (
    SELECT z.ns, z.name, z.exp FROM k CROSS JOIN {lock} z WHERE {seat} FOR NO KEY UPDATE OF z SKIP LOCKED
), g AS (
    SELECT 1 FROM s JOIN {lock} z ON z.ns = s.ns AND z.name = s.name FOR UPDATE OF z SKIP LOCKED
), t AS (
    SELECT k.*, {now} AS t, (SELECT count(*) FROM {lock} z WHERE {seat}) AS seated, (SELECT count(*) FROM s) AS locked,
           (SELECT count(*) FROM g) AS unguarded, (SELECT max(s.exp) FROM s) AS last
    FROM k
), a AS (
    SELECT t.*, t.unguarded = t.seated AND (t.last > t.t) IS NOT TRUE AS drained FROM t
), e AS (
    UPDATE {lock} z SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = CASE WHEN z.owner IS NULL THEN z.ended_owner ELSE z.owner END,
        ended_token = CASE WHEN z.owner IS NULL THEN z.ended_token ELSE z.token END,
        ended_why = CASE WHEN z.owner IS NULL THEN z.ended_why ELSE {ENDED_TAKEN} END,
        idle_since = coalesce(z.idle_since, a.t)
    FROM a WHERE {seat} AND a.drained
), u AS (
    UPDATE {lock} l SET seats = 0, changes = l.changes + 1,
        idle_since = CASE WHEN l.owner IS NULL THEN a.t ELSE l.idle_since END,
        since = CASE WHEN l.owner = :owner AND l.exp > a.t AND :beside = :owner THEN a.t ELSE l.since END
    FROM a WHERE l.ns = :ns AND l.name = :name AND a.drained
    RETURNING l.token
)
SELECT 0,
       CASE WHEN u.token IS NOT NULL THEN {DONE}
            WHEN z.name IS NOT NULL THEN {HELD}
            WHEN a.locked = a.seated AND a.unguarded < a.locked THEN {GUARDED}
            ELSE {SKIPPED} END,
       CASE WHEN a.drained THEN a.token ELSE z.token END, CASE WHEN a.drained THEN a.exp ELSE z.exp END - a.t, a.t,
       z.since, z.label, {number},
       CASE WHEN u.token IS NULL THEN a.seats WHEN a.owner = :owner AND a.exp > a.t THEN 1 ELSE 0 END
FROM a LEFT JOIN u ON true LEFT JOIN LATERAL (
    SELECT z.name, z.token, z.exp, z.since, z.label FROM {lock} z
    WHERE {seat} AND NOT a.drained
      AND z.exp = (SELECT max(z.exp) FROM {lock} z WHERE {seat} AND z.exp > a.t) LIMIT 1
) z ON true;
-- :step same 1
-- :step look
SELECT 0, {SKIPPED}, h.token, h.exp - {now}, {now} FROM {lock} h WHERE h.ns = :ns AND h.name = :name;

-- :block unseat
-- The release of a seat whose request's answer is not known; as withdraw. Under the lock of the lock's row, for which
-- it waits, it writes the tombstone (withdrawn): the request is granted nothing when it comes (RELEASED). It gives
-- back the turn, if this owner has it, and the seat that it has.
-- The first step waits: the snapshot of the next one shows what was committed meanwhile. Where that one has waited
-- itself, and the row has counted more seats than the snapshot shows, nothing is decided: SKIPPED, send it again.
-- DONE: it had a seat, or has had one. EARLY: there is no sign of it, but it may still come. The tombstone is no
-- proof against a later arrival, because the next withdrawal replaces it. NEVER: not_after has passed, and it will
-- never come. A turn is no sign of a seat.
-- The row counts as idle from now on, as in withdraw. No row: the lock has none. The third step makes it, so that the
-- tombstone has a place.
-- It goes by the primary key, and reads all seats of the name.
-- :step first
SELECT 1 FROM {lock} l WHERE l.ns = :ns AND l.name = :name AND l.kind = 0 FOR NO KEY UPDATE OFFSET 1;
-- :step
WITH k AS (
    SELECT c.kind, c.owner, c.token, c.exp, c.withdrawn
    FROM {lock} q JOIN {lock} c ON c.ns = q.ns AND c.name = q.name AND c.changes = q.changes
    WHERE q.ns = :ns AND q.name = :name
    FOR NO KEY UPDATE OF c
), o AS (
    SELECT 1 FROM {lock} z WHERE {seat} AND (z.owner = :owner OR z.ended_owner = :owner)
), f AS (
    UPDATE {lock} z SET owner = NULL, exp = NULL, since = NULL, label = NULL,
        ended_owner = z.owner, ended_token = z.token, ended_why = {ENDED_RELEASED}, idle_since = {now}
    FROM k WHERE {seat} AND z.kind = 0 AND z.owner = :owner AND k.kind = 0
), u AS (
    UPDATE {lock} l SET owner = NULL, exp = NULL, since = NULL, label = NULL, withdrawn = :owner,
        ended_owner = l.owner, ended_token = l.token, ended_why = {ENDED_RELEASED}, idle_since = {now}
    FROM k WHERE l.ns = :ns AND l.name = :name AND k.kind = 0 AND k.owner = :owner
), w AS (
    UPDATE {lock} l SET idle_since = CASE WHEN k.owner IS NULL THEN {now} END, withdrawn = :owner
    FROM k WHERE l.ns = :ns AND l.name = :name AND k.kind = 0 AND (k.owner = :owner) IS NOT TRUE
      AND (k.withdrawn = :owner) IS NOT TRUE
)
SELECT 0,
       CASE WHEN k.kind <> 0 THEN {KIND}
            WHEN EXISTS (SELECT 1 FROM o) THEN {DONE}
            WHEN {now} <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       k.token, k.exp - {now}, {now}
FROM k;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 AND {unwaited}
ON CONFLICT (ns, name) DO NOTHING;
-- :step same 1
-- :step same 2
-- :step look
SELECT 0, {SKIPPED}, h.token, h.exp - {now}, {now} FROM {lock} h WHERE h.ns = :ns AND h.name = :name;

-- :block stand
-- The owner has the turn, and waits for those who have seats. Where it waits could not be seen: its place in the queue
-- is gone, and no index finds a lock's row by its owner. So a row here says it, in the library's own namespace (:own).
-- It has the lock's name and token, the owner in the place of the client, and the lock's namespace as the label. It is
-- no place in a queue, and decides nothing. A minute later it goes, a few at a time, if it was not said again.
-- No row: the owner has no such turn.
-- :step
WITH k AS (
    SELECT l.ns, l.name, l.token, l.owner, {now} AS t FROM {lock} l
    WHERE l.ns = :ns AND l.name = :name AND l.owner = :owner AND l.seats <> 0 AND {unwaited}
), x AS (
    DELETE FROM {waiter} w
    WHERE (w.ns, w.name, w.ticket) = ANY (SELECT g.ns, g.name, g.ticket FROM {waiter} g
                                          WHERE g.ns = :own AND g.name <> :name AND g.since < (SELECT {now} - {stood})
                                          LIMIT 10 FOR UPDATE SKIP LOCKED)
)
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since)
SELECT :own, k.name, k.token, k.owner, k.owner, 0, 0, k.ns, k.t FROM k
ON CONFLICT (ns, name, ticket) DO UPDATE SET owner = excluded.owner, client = excluded.client, label = excluded.label,
    since = excluded.since
RETURNING 0, {DONE};

-- :block circle
-- Who waits for whom: all waiters of the namespace that live, and the holders of the locks that they wait for; also of
-- those locks whose turn someone has who waits for seats (stand). Seats are listed by `list`. At most :limit rows. A
-- wait that is missing hides a circle, and makes none. It only reads.
-- Where the session listens for the client it would get the advisory lock that it holds itself. So waiters of the
-- client that sends this live.
-- It goes by the primary keys: a range of waiters, and each lock once.
-- :step
SELECT 0, {DONE}, w.ticket, NULL::bigint, {now}, w.since, w.label, w.name, w.owner, NULL::bigint
FROM {waiter} w
WHERE w.ns = :ns AND (w.client = :client OR (SELECT {living} FROM {client} p WHERE p.id = w.client))
UNION ALL
SELECT 0, {DONE}, l.token, l.exp - {now}, {now}, l.since, l.label, l.name, l.owner, l.seats::bigint
FROM (SELECT v.name FROM {waiter} v WHERE v.ns = :ns
      UNION
      SELECT v.name FROM {waiter} v WHERE v.ns = :own AND v.label = :ns) n
    JOIN {lock} l ON l.ns = :ns AND l.name = n.name
WHERE l.kind = 0 AND l.exp > {now}
LIMIT :limit;
