-- sqlock's statements for MariaDB 10.6, MySQL 5.6 and newer. schema/README.md says how to read this file.
-- Each block stands alone in autocommit, READ COMMITTED.
--
-- There is no UPDATE ... RETURNING. So what most requests do is one statement, whose count of changed rows and last
-- insert id answer. Other steps are often a packet of statements, which the driver sends in one round
-- trip. The last one answers. First the clock is read into @sqlock_t, then the row is changed, then it is looked at.
-- If the grant or renewal that is there ends no earlier than @sqlock_t + ttl, the look takes it for the one of this
-- packet. An older one of the same owner would do as well then, because the holder counts from before the packet was
-- sent. An offer would not: it may last longer than a lease, and what takes it up may be on its way, and shorten it.
--
-- The derived table k locks a row, or skips it if another session has locked it. Its LIMIT keeps the server from
-- merging it away; MySQL skips locked rows only in a derived table that is not merged. MySQL 5.6 does not lock there
-- at all. So k may be old when its row l is locked, and two clients that read the same free row would both be granted
-- it. So a change is made only to a row that is still as k has seen it.
-- l is found by its key, by force. The server would rather read a table of a few rows whole, and lock each row of it.
-- Then requests for other names would wait, and deadlock. Right sides read k alone, so that the order in which the
-- server assigns columns does not matter (SIMULTANEOUS_ASSIGNMENT). Where there is no k, they read what is assigned
-- later.

-- Microseconds of a clock that runs during the statement, whatever the session's time zone.
-- :lacks notify
-- :define now (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))
-- The same clock when the statement began. If it waited since, this is too early.
-- :define start TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
-- How long notes of breaks stay: longer than any lease lasts.
-- :define month 2678400000000
-- How long a waiter has to take up the lock that it is offered.
-- :define offer 1000000
-- A grant lasts for its lease; a turn, beside which others may have seats, no longer than an offer: who dies with it
-- costs others no more. It is extended by acquire.
-- :define turn_lasts LEAST(:ttl, {offer})
-- A client that says nothing for so long is dead.
-- :define alive 1500000
-- So often in a row a waiter of the holder's own client comes before older ones of others.
-- :define passes 16
-- The mode that the first waiter who lives wants, if it does not go with :mode: all go together that wait at the same
-- time. Slots go with as many slots, and all else goes together.
-- :define unlike_mode (SELECT IF(GREATEST(w.mode, 0) <> GREATEST(:mode, 0), w.mode, NULL) FROM {waiter} w FORCE INDEX (PRIMARY) LEFT JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = w.client WHERE w.ns = :ns AND w.name = :name AND (w.client = :client OR p.alive_until > {start}) ORDER BY w.ns, w.name, w.ticket LIMIT 1)
-- A client that ended so long ago is forgotten.
-- :define gone 3600000000
-- The ids of ten clients behind a place that the clock draws. Behind the last one comes the first one.
-- :define drawn UNHEX(LPAD(HEX(CRC32(@sqlock_t)), 8, '0'))
-- :define ten SELECT * FROM (SELECT s.id, s.alive_until FROM {client} s FORCE INDEX (PRIMARY) WHERE s.id > {drawn} ORDER BY s.id LIMIT 10) s UNION ALL SELECT * FROM (SELECT f.id, f.alive_until FROM {client} f FORCE INDEX (PRIMARY) WHERE f.id <= {drawn} ORDER BY f.id LIMIT 10) f LIMIT 10
-- One of the ids that stand in a row in @sqlock_dead, from this byte on; NULL: there is none.
-- :define dead_from NULLIF(SUBSTRING(@sqlock_dead,
-- :define dead_end , 16), '')
-- How long it counts that someone has said where it waits with the turn.
-- :define stood 60000000
-- Larger than any ticket of a queue.
-- :define last_ticket 9223372036854775807
-- What a request keeps of the waiter w that it offers the lock to.
-- :define waiter_of w.ticket, w.owner, w.client, w.ttl, w.label, @sqlock_lost + LEAST(@sqlock_longest, w.grace)
-- :define waiter_into @sqlock_head, @sqlock_to, @sqlock_to_client, @sqlock_to_ttl, @sqlock_to_label, @sqlock_to_grace
-- What a beat says of a waiter w.
-- :define waiting {waiter} w FORCE INDEX (by_client) LEFT JOIN (SELECT h.ns, h.name, MIN(h.ticket) AS ticket FROM {waiter} h FORCE INDEX (by_client) WHERE h.client = :client GROUP BY h.ns, h.name) f ON f.ns = w.ns AND f.name = w.name AND f.ticket = w.ticket LEFT JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = f.ns AND l.name = f.name
-- :define before FROM {waiter} b FORCE INDEX (PRIMARY) WHERE b.ns = w.ns AND b.name = w.name AND b.ticket < w.ticket
-- :define is_next NOT EXISTS (SELECT 1 FROM {waiter} b FORCE INDEX (PRIMARY) STRAIGHT_JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = b.client WHERE b.ns = w.ns AND b.name = w.name AND b.ticket < w.ticket AND p.alive_until > {start})
-- The places of all who wait where it does. Servers without window functions say nothing.
-- :define number ROW_NUMBER() OVER (PARTITION BY b.ns, b.name ORDER BY b.ticket)
-- :define places SELECT b.ns, b.name, b.ticket, COALESCE(/*M!100600 {number}, */ /*!80002 {number}, */ NULL) AS place FROM (SELECT DISTINCT n.ns, n.name FROM {waiter} n FORCE INDEX (by_client) WHERE n.client = :client) n STRAIGHT_JOIN {waiter} b FORCE INDEX (PRIMARY) ON b.ns = n.ns AND b.name = n.name
-- :define first_place 1 + IF({is_next}, 0, (SELECT COUNT(*) {before}))
-- :define told IF(f.ticket IS NULL, {month}, l.exp - {start}), {start}, w.owner, w.ns, w.name
-- A client p lives: it has said so.
-- :define living COALESCE(p.alive_until > @sqlock_t, 0)
-- No lease is longer than 7 days.
-- :define longest_ever 604800000000
-- Which server this is. MariaDB has no identity of its own.
-- :define server CAST(COALESCE(/*!80000 @@server_uuid, */ CONCAT(@@server_id, '/', @@hostname, ':', @@port, @@datadir)) AS BINARY)
-- Why this server is one of several that grant locks in the same tables; NULL: it is not. Percona's cluster is of
-- MySQL's kind. Before 5.7 its name alone shows it.
-- :define galera a Galera node, and each node grants by a clock of its own
-- :define group a member of a replication group with several primaries, and each grants by a clock of its own
-- :define many COALESCE({many_maria} {many_mysql} IF(@@version LIKE '5.6.%' AND @@version_comment LIKE '%wsrep%', '{galera}', NULL))
-- :define many_maria /*M!100000 IF(@@global.wsrep_provider IN ('', 'none'), NULL, IF((SELECT s.variable_value FROM information_schema.global_status s WHERE s.variable_name = 'WSREP_CLUSTER_STATUS') = 'Primary', '{galera}', 'a Galera node that is not in the primary component')), */
-- :define many_mysql /*!50708 (SELECT MAX(IF(v.variable_name = 'wsrep_provider', '{galera}', '{group}')) FROM performance_schema.global_variables v WHERE v.variable_name = 'wsrep_provider' AND v.variable_value NOT IN ('', 'none') OR v.variable_name = 'group_replication_single_primary_mode' AND v.variable_value = 'OFF'), */
-- When the server was started. Both numbers come from one clock reading, so that their difference stands still. It
-- does so also when the clock is put back to before the start, where Uptime is shown without its sign. NULL: before
-- MySQL 5.7.8 there is no way to know.
-- :define started COALESCE(/*!50708 (SELECT UNIX_TIMESTAMP() - CAST(CAST(s.variable_value AS UNSIGNED) AS SIGNED) FROM performance_schema.global_status s WHERE s.variable_name = 'Uptime'), */ /*M!100000 (SELECT UNIX_TIMESTAMP() - CAST(CAST(s.variable_value AS UNSIGNED) AS SIGNED) FROM information_schema.global_status s WHERE s.variable_name = 'UPTIME'), */ NULL)
-- The redo log is off (ALTER INSTANCE DISABLE INNODB REDO_LOG).
-- :define no_redo (FALSE /*!80021 OR EXISTS (SELECT 1 FROM performance_schema.global_status s WHERE s.variable_name = 'Innodb_redo_log_enabled' AND s.variable_value = 'OFF') */)
-- Commits may be forgotten after a crash, as far as variables show it. Each grant reads these.
-- :define loose (@@global.innodb_flush_log_at_trx_commit NOT IN (1, 3) OR @@global.log_bin AND @@global.sync_binlog <> 1)
-- Files are written, and nothing makes them last. This is chosen at the start and cannot change. (MySQL 5.6 does not
-- show it.)
-- :define no_sync ({no_sync_maria} {no_sync_mysql} FALSE)
-- :define no_sync_maria /*M!100000 EXISTS (SELECT 1 FROM information_schema.global_variables v WHERE v.variable_name = 'INNODB_FLUSH_METHOD' AND v.variable_value IN ('nosync', 'littlesync')) OR */
-- :define no_sync_mysql /*!50700 COALESCE(@@global.innodb_flush_method, '') IN ('nosync', 'littlesync') OR */
-- :define weak ({loose} OR {no_redo} OR {no_sync})
-- How meta knows the server: the second of its start, in ten digits; '@' where commits may be forgotten, else '=';
-- and which server it is.
-- :define identity CAST(CONCAT(LPAD(COALESCE({started}, 0), 10, '0'), IF({weak}, '@', '='), {server}) AS BINARY)
-- meta's server is this one. The start needs no second look: no session outlives it. But these variables may be set
-- while the server runs, and again before its next start. What is granted in between, under the name of a server that
-- forgets nothing, would be forgotten and granted again.
-- :define known (SUBSTRING(m.server, 12) = {server} AND (SUBSTRING(m.server, 11, 1) = '@' OR NOT {loose}))
-- The same where this session has seen it before (acquire), when meta's server had this whole name. No other server
-- has it. While the session lasts, this one keeps it, except where it comes to forget commits.
-- :define met (m.server = @sqlock_server AND (SUBSTRING(m.server, 11, 1) = '@' OR NOT {loose}))
-- The server may lack commits of another server. A program may have been granted the lock by one of them, and still
-- believe in it. :grace is the application's maximum; 0 means that this does not matter. Each grant checks it,
-- because this connection may have had no handshake since another connection noticed the change.
-- Until when:
-- :define grace_end IF(:grace = 0, 0, m.lost_at + LEAST(m.longest, :grace))
-- Skips rows that others have locked.
-- :define skip FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */
-- The same, and rows that others have share-locked are not in the way.
-- :define skip_share /*!80001 FOR SHARE SKIP LOCKED */ /*M!100600 LOCK IN SHARE MODE SKIP LOCKED */
-- The server can skip locked rows. Only then can a session that is kept out distinguish a guard from a writer.
-- :define shows_guards (FALSE /*!80001 OR TRUE */ /*M!100600 OR TRUE */)
-- The requests of a batch, a row for each. MariaDB reads a list of values in half the time of as many SELECTs. Its list
-- begins with a row of NULLs, so that a comma may stand before each of the others. The first SELECT names the columns,
-- and has no row.
-- :define member /*M!100600 , ( *//*!80001 UNION ALL SELECT */
-- :define member_end /*M!100600 ) */
-- Renewals:
-- :define requests SELECT :index AS ord, :ns AS ns, :name AS name, :owner AS owner, :token AS token, :ttl AS ttl, :not_after AS not_after FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :owner, :token, :ttl, :not_after{member_end}/*end*/
-- Others. acquired: what the look after an acquire needs.
-- :define acquires SELECT :index AS ord, :ns AS ns, :name AS name, :owner AS owner, :ttl AS ttl, :not_after AS not_after, :grace AS grace, :label AS label FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :owner, :ttl, :not_after, :grace, :label{member_end}/*end*/
-- :define acquired SELECT :index AS ord, :ns AS ns, :name AS name, :owner AS owner, :ttl AS ttl FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :owner, :ttl{member_end}/*end*/
-- :define releases SELECT :index AS ord, :ns AS ns, :name AS name, :owner AS owner, :token AS token FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :owner, :token{member_end}/*end*/
-- :define withdrawals SELECT :index AS ord, :ns AS ns, :name AS name, :owner AS owner, :not_after AS not_after FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :owner, :not_after{member_end}/*end*/
-- :define breaks SELECT :index AS ord, :ns AS ns, :name AS name, :token AS token FROM DUAL WHERE FALSE /*M!100600 UNION ALL VALUES (NULL, NULL, NULL, NULL) *//*each */{member} :index, :ns, :name, :token{member_end}/*end*/
-- Whether a row t of information_schema is of the schema that our tables are in. MariaDB reads the catalogue of one
-- database if, in a WHERE, the column by itself equals a constant; in an ON, or otherwise, it reads that of all
-- databases. It opens no table whose name such a condition leaves out. So these conditions stand in derived tables,
-- whose LIMIT keeps the server from merging them.
-- :define here t.table_schema = CONVERT(IF({meta:text} LIKE '%`.`%', SUBSTRING(SUBSTRING_INDEX({meta:text}, '`.`', 1), 2), DATABASE()) USING utf8)
-- :define ours {here} AND t.table_name LIKE '{prefix}%'
-- The unique keys beside the primary one, of all tables in the schema.
-- :define uniques SELECT t.table_name AS tab, t.index_name AS name, GROUP_CONCAT(t.column_name, COALESCE(CONCAT('(', t.sub_part, ')'), '') ORDER BY t.seq_in_index) AS cols FROM information_schema.statistics t WHERE t.non_unique = 0 AND t.index_name <> 'PRIMARY' AND {ours} GROUP BY t.table_name, t.index_name
-- In front of one statement: it waits for no row (1205). MySQL has nothing like it.
-- :define at_once /*M!100301 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
-- A row that another session has locked is an error, at once (3572; 1205 on MariaDB).
-- :define nowait /*!80001 NOWAIT */ /*M!100301 NOWAIT */
-- Where a table of the application's is, and what it is called.
-- :define of_schema CONVERT(:schema USING utf8)
-- :define of_table CONVERT(:table USING utf8)
-- A session that is in the way (x of innodb_trx, p or b of the sessions): for how long its transaction has been open,
-- in microseconds; and what people want to know about it. InnoDB knows only the second, in the server's zone.
-- :define open GREATEST(0, TIMESTAMPDIFF(MICROSECOND, x.trx_started, CONVERT_TZ(SYSDATE(6), @@session.time_zone, 'SYSTEM')))
-- :define about_maria CAST(CONCAT_WS(', ', CONCAT('user ', p.user), CONCAT('from ', p.host), IF(p.command = 'Sleep', 'idle in transaction', 'active')) AS BINARY)
-- :define about_mysql CAST(CONCAT_WS(', ', CONCAT('user ', b.processlist_user), CONCAT('from ', b.processlist_host), IF(b.processlist_command = 'Sleep', 'idle in transaction', 'active')) AS BINARY)
-- The seats s of a lock, by the primary key: its name, a byte 00, and the seat's number in three bytes. No name has a byte
-- 00. (There is no name with the upper bound either, and it is left out.)
-- :define seats s.name > CONCAT(:name, X'00') AND s.name < CONCAT(:name, X'01')
-- The name of seat N, {seat_key} N {key_end}, and the number of the name NAME, {number_of} NAME {of}.
-- :define seat_key CONCAT(:name, X'00', UNHEX(LPAD(HEX(
-- :define key_end ), 6, '0')))
-- :define number_of CAST(CONV(HEX(SUBSTRING(
-- :define of , -3)), 16, 10) AS SIGNED)
-- The token that the seat had, if there is one. A variable that is NULL has no type: what is computed of it would be a
-- DOUBLE, whose text loses digits.
-- :define old COALESCE(CAST(@sqlock_old AS SIGNED), 0)
-- There are no more numbers than this.
-- :define most_seats 16777216
-- It was granted since the last drain: that gives an empty seat a token which is not that of its end.
-- :define used (s.owner IS NOT NULL OR s.token = s.ended_token)
-- A page of the sweep.
-- :define page (SELECT l.ns, l.name, l.kind, l.owner, l.token, l.exp, l.idle_since, l.waiters, l.next_ticket, l.seats FROM {lock} l FORCE INDEX (PRIMARY) WHERE (l.ns > :ns OR l.ns = :ns AND l.name > :after) AND l.ns <> :own ORDER BY l.ns, l.name LIMIT :limit)
-- There is no meta table: nothing was ever migrated here. Where no database is chosen, no table can be, and the next
-- step says so.
-- :define no_meta (({meta:text} LIKE '%`.`%' OR DATABASE() IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM information_schema.tables t WHERE t.table_name = '{prefix}meta' AND {here}))

-- :block handshake
-- What server this is, whether locks are safe on it, and which schema it has.
-- READONLY: the server is read-only, also where this user could write. It is a replica, or about to become one.
-- UNFIT: the session's changes reach no binlog. A replica that takes over would not know the tokens.
-- UNFIT: several servers grant. One whose clock is ahead takes over a lease that runs by the clock of the server that
-- granted it. The holder believes in it until it renews. Moreover, row locks and guards know one server only, and such
-- a cluster can forget commits when it is started anew. This check reads no table, and derives none: a node outside of
-- the primary component would refuse that.
-- WEAK: the disk may not have all commits.
-- The last step but two changes nothing, three times. The server denies each of these to a user who lacks a right:
-- with roles, wildcards and columns, only the server knows the rights. No row changes, so nothing goes to a binlog.
-- To a user without any right on the tables MySQL shows none, so for that user there is no schema.
-- A start is known by its second. Two starts must not look like one, so the handshake waits for the end of the second
-- of a start.
-- Then the session notes meta's server, if it is this one, for acquire ({met}).
-- :step
SELECT 0, {UNFIT}, 0, 0, {now}, 0, NULL, {many} FROM DUAL WHERE {many} IS NOT NULL;
-- :step
SELECT 0, {READONLY}, 0, 0, {now}, 0, NULL, 'the server is read-only, as a replica is'
FROM DUAL
WHERE CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') OR @@global.innodb_read_only;
-- :step
SELECT 0, {UNFIT}, 0, 0, {now}, 0, NULL,
       CASE WHEN @@global.log_bin AND @@session.binlog_format = 'STATEMENT'
            THEN 'binlog_format is STATEMENT, which READ COMMITTED cannot write'
            WHEN @@global.log_bin AND NOT @@session.sql_log_bin
            THEN 'sql_log_bin is off, so no replica learns what is changed here'
            WHEN SYSDATE(6) = NOW(6) THEN 'sysdate_is_now: the server has no clock that runs'
            ELSE 'a table of the schema is not InnoDB' END
FROM DUAL
WHERE @@global.log_bin AND (@@session.binlog_format = 'STATEMENT' OR NOT @@session.sql_log_bin)
   OR SYSDATE(6) = NOW(6) AND SLEEP(0.001) = 0 AND SYSDATE(6) = NOW(6)
   OR EXISTS (SELECT 1 FROM information_schema.tables t
              WHERE t.table_name IN ('{prefix}lock', '{prefix}meta', '{prefix}row', '{prefix}register',
                                     '{prefix}broken', '{prefix}waiter', '{prefix}client')
                AND t.engine <> 'InnoDB' AND {here});
-- :step
SELECT 0, IF(:accept_weak = 0, {WEAK}, {UNFIT}), 0, 0, {now}, 0, NULL,
       CASE WHEN :accept_weak <> 0 THEN 'commits may be forgotten, and this version does not say when it was started'
            WHEN @@global.innodb_flush_log_at_trx_commit NOT IN (1, 3)
            THEN 'innodb_flush_log_at_trx_commit is not 1'
            WHEN {no_redo} THEN 'the redo log is disabled'
            WHEN {no_sync} THEN 'innodb_flush_method is nosync or littlesync'
            ELSE 'sync_binlog is not 1, and recovery follows the binlog' END
FROM DUAL
WHERE {weak} AND (:accept_weak = 0 OR {started} IS NULL);
-- :step
SELECT 0, {DONE}, 0, 0, {now} FROM DUAL WHERE {no_meta};
-- :step
INSERT INTO {lock} (ns, name, owner, token, exp, ttl, since, label, idle_since)
SELECT l.ns, l.name, l.owner, l.token, l.exp, l.ttl, l.since, l.label, l.idle_since FROM {lock} l WHERE FALSE;
UPDATE {lock} SET owner = owner, token = token, exp = exp, ttl = ttl, since = since, label = label,
    ended_owner = ended_owner, ended_token = ended_token, ended_why = ended_why, withdrawn = withdrawn,
    idle_since = idle_since, client = client, offered = offered
WHERE FALSE;
UPDATE {meta} SET fence_floor = fence_floor, inc = inc, server = server, lost_at = lost_at, longest = longest
WHERE FALSE;
-- :step
DO IF({started} = UNIX_TIMESTAMP(), SLEEP(1.001 - MICROSECOND(NOW(6)) / 1000000), 0);
SELECT MAX(m.server) INTO @sqlock_server FROM {meta} m WHERE m.id = 1 AND {known};
-- :step
SELECT 0, {DONE}, m.version, m.min_reader, {now}, m.server = i.server, i.server,
       CAST(DATABASE() AS BINARY), {server}, m.longest, m.fence_floor
FROM {meta} m JOIN (SELECT {identity} AS server LIMIT 1) i WHERE m.id = 1;

-- :block reincarnate
-- meta knew another server, or this one was started anew. It may have forgotten grants of its own past, or its data
-- may have overtaken this one. So from now on tokens are above the clock. All tokens that were drawn before are below
-- it: such a token is the clock of an earlier takeover, and one more for each grant since. Nothing is added to the
-- clock: another server that is promoted a little later would draw the same tokens again.
-- BEHIND: a clock that is behind the floor is not to be trusted. With :lift the floor becomes 2^32 more than it was,
-- which is 71 minutes of a clock.
-- The same happens where meta knows this server, but the caller has met another one that draws above :floor. Then
-- this server was overtaken, and grants again without a restart.
-- Commits may be missing (lost_at) where the data lived on another server, where it may forget commits, and on a
-- server that was overtaken. A server that was merely started anew has all of them. If no lease is known here yet,
-- the first ones may be among the missing commits, with any length.
-- The floor and server are assigned last, so that what is read is old in either order of assignments. No row: another
-- session was quicker.
-- :step
SET @sqlock_t = {now};
UPDATE {meta} SET
    inc = inc + 1,
    lost_at = IF(server = '' OR fence_floor >= :floor
                 AND SUBSTRING(server, 11) = SUBSTRING(:server, 11) AND SUBSTRING(:server, 11, 1) = '=',
                 lost_at, @sqlock_t),
    longest = IF(longest > 0 OR server = '', longest, {longest_ever}),
    fence_floor = IF(@sqlock_t > GREATEST(fence_floor, :floor), @sqlock_t, GREATEST(fence_floor, :floor) + 4294967296),
    server = :server
WHERE id = 1 AND (server <> :server OR fence_floor < :floor)
  AND (@sqlock_t > GREATEST(fence_floor, :floor) OR :lift = 1);
SELECT 0, IF(m.server = :server AND m.fence_floor >= :floor, {DONE}, {BEHIND}), m.fence_floor,
       GREATEST(m.fence_floor, :floor) - {now}, {now}
FROM {meta} m
WHERE m.id = 1 AND (m.server = :server AND m.fence_floor >= :floor OR GREATEST(m.fence_floor, :floor) >= @sqlock_t);

-- :block longest
-- No lease is longer than meta says. Before a longer one is granted, this raises the value. Always one row.
-- :step
UPDATE {meta} SET longest = :ttl WHERE id = 1 AND longest < :ttl;
SELECT 0, {DONE};

-- :block acquire
-- Grants the lock if its row is free, run out, or ours (the same request sent again), and if not_after has not
-- passed.
-- The first step decides most requests, on MariaDB, in one statement that waits for no row. It grants what is free or
-- run out. The new token replaces an entry of nt, so a guard, which share-locks that entry, keeps it out (1205). What
-- it reads is assigned later, or nowhere, so that either order of assignments will do; the owner comes last. What it
-- decides goes by the clock of its start. That may be old if the table was locked meanwhile; then a lease only looks
-- longer than it is. For not_after, and for the new lease, the clock runs.
-- Its look at meta takes no lock (a single-table UPDATE in READ COMMITTED). It shows what it would to a SELECT before
-- it: {met}, no grace. The token must have reached the floor, so the next one is above it.
-- The second step says who holds the lock. Whatever else there is comes to the third: our own lease, a token below the
-- floor, a grace, a locked row, another server, a session that has met none yet.
-- There first the row is locked, then its entry of nt, without waiting. The token is drawn under these locks. While
-- another one holds the lock, nothing is written. HELD says so, also to a caller that is too late.
-- The entry is sought with its token. A search for the name alone would read what earlier grants have left in nt. That
-- stays for as long as any transaction has an older snapshot, and can be thousands of entries.
-- A SELECT of its own reads the floor before. In that UPDATE, of two tables, the floor would be share-locked: a grant
-- that has locked its row would wait for a pruner that has locked meta and wants that row.
-- During the grace after a loss, only the holder itself is granted the lock (GRACE).
-- Where others may have seats, the first step leaves it to the others. No one is granted such a row by them but its
-- owner, for whom it is only the turn (TURN). SEATED: it has seats, and is free, or another one has the turn.
-- No row: the lock has none yet. The next step makes it, with the floor for a token. It reads the floor under a share
-- lock, which the pruner's lock excludes. Then the third step comes again. To make it as a granted one would spare a
-- commit; but all that the grant depends on would have to be read under that lock.
-- :step nowait
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = COALESCE(owner, ended_owner),
    ended_token = IF(owner IS NULL, ended_token, token),
    ended_why = IF(owner IS NULL, ended_why, {ENDED_TAKEN}),
    token = LAST_INSERT_ID(token + 1), since = {start},
    exp = (@sqlock_t := {now}) + (@sqlock_ttl := :ttl), ttl = :ttl, label = :label,
    idle_since = NULL, client = NULL, offered = 0, owner = :owner
WHERE ns = :ns AND name = :name AND kind = 0 AND (owner IS NULL OR exp <= {start}) AND waiters = 0 AND seats = 0
  AND NOT (ended_owner <=> :owner AND ended_why = {ENDED_RELEASED}) AND NOT (withdrawn <=> :owner)
  AND {now} <= :not_after
  AND token >= (SELECT m.fence_floor FROM {meta} m WHERE m.id = 1 AND {met} AND {grace_end} <= {start});
SELECT 0, {DONE}, LAST_INSERT_ID(), @sqlock_ttl, @sqlock_t FROM DUAL WHERE ROW_COUNT() = 1;
-- :step nowait
SELECT 0, {HELD}, h.token, h.exp - {now}, {now}, h.since, h.label
FROM {meta} m STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = :ns AND h.name = :name
WHERE m.id = 1 AND {met} AND h.kind = 0 AND h.seats = 0 AND h.owner <> :owner AND h.exp > {now}
  AND NOT (h.withdrawn <=> :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner <=> :owner);
-- :step
SELECT {now}, MAX(m.fence_floor), MAX({grace_end}), MAX(m.server)
INTO @sqlock_t, @sqlock_floor, @sqlock_grace, @sqlock_server
FROM {meta} m WHERE m.id = 1 AND {known};
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, c.since, c.ended_owner, c.ended_token,
           c.ended_why, c.withdrawn, c.waiters, c.client, c.seats, {now} AS t
    FROM {lock} c FORCE INDEX (PRIMARY)
    STRAIGHT_JOIN {lock} e FORCE INDEX (nt) ON e.ns = c.ns AND e.name = c.name AND e.token = c.token
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND (c.owner IS NULL OR c.owner = :owner OR c.exp <= {now})
      AND (c.waiters = 0 OR c.owner = :owner AND c.exp > {now})
      AND (c.seats = 0 OR c.owner = :owner AND c.exp > {now})
      AND (c.ended_why <> {ENDED_RELEASED} OR c.ended_owner IS NULL OR c.ended_owner <> :owner)
      AND NOT (c.withdrawn <=> :owner)
      AND {now} <= :not_after AND @sqlock_floor IS NOT NULL
      AND ({now} >= @sqlock_grace OR c.owner = :owner AND c.exp > {now})
    LIMIT 1 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.token = k.token AND l.owner <=> k.owner AND l.exp <=> k.exp
    AND l.ended_owner <=> k.ended_owner AND l.ended_why = k.ended_why AND l.withdrawn <=> k.withdrawn
    AND l.waiters = k.waiters AND l.seats = k.seats
SET l.token = IF(k.owner <=> :owner AND k.exp > k.t AND k.token > @sqlock_floor, k.token,
                 GREATEST(k.token, @sqlock_floor) + 1),
    l.since = IF(k.owner <=> :owner AND k.exp > k.t, k.since, k.t),
    l.ended_owner = IF(k.owner IS NULL OR k.owner = :owner AND k.exp > k.t, k.ended_owner, k.owner),
    l.ended_token = IF(k.owner IS NULL OR k.owner = :owner AND k.exp > k.t, k.ended_token, k.token),
    l.ended_why = IF(k.owner IS NULL OR k.owner = :owner AND k.exp > k.t, k.ended_why, {ENDED_TAKEN}),
    l.owner = :owner, l.exp = k.t + IF(k.seats = 0, :ttl, {turn_lasts}), l.ttl = :ttl, l.label = :label,
    l.idle_since = NULL, l.offered = 0, l.client = IF(k.owner <=> :owner AND k.exp > k.t, k.client, NULL);
SELECT 0,
       CASE WHEN h.owner = :owner AND h.offered = 0 AND h.exp >= @sqlock_t + IF(h.seats = 0, :ttl, {turn_lasts})
                THEN IF(h.seats = 0, {DONE}, {TURN})
            WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT {known} THEN {STRANGER}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN h.owner <> :owner AND h.exp > {now} THEN IF(h.seats = 0, {HELD}, {SEATED})
            WHEN {now} > :not_after THEN {LATE}
            WHEN {now} < @sqlock_grace THEN {GRACE}
            WHEN h.seats <> 0 AND h.waiters = 0 AND NOT (h.owner <=> :owner AND h.exp > {now}) THEN {SEATED}
            WHEN h.waiters <> 0 AND NOT (h.owner <=> :owner AND h.exp > {now}) THEN {QUEUED}
            ELSE {SKIPPED} END,
       h.token, IF(h.exp > @sqlock_t OR @sqlock_t >= COALESCE(@sqlock_grace, 0), h.exp, @sqlock_grace) - @sqlock_t,
       @sqlock_t, h.since, h.label
FROM {meta} m STRAIGHT_JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE mode = {lock}.mode;
-- :step same 3

-- For many: it decides as the first step does, in one statement, which waits for no row. The look answers those that
-- were granted, and those that are held. The others get no row, and each is sent again alone.
-- :array
SELECT {now}, MAX(m.fence_floor), MAX(m.lost_at), MAX(m.longest)
INTO @sqlock_t, @sqlock_floor, @sqlock_lost, @sqlock_longest
FROM {meta} m WHERE m.id = 1 AND {known};
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, c.since, c.ended_owner, c.ended_token,
           c.ended_why, c.withdrawn, c.waiters, c.client, c.seats, i.owner AS new_owner, i.ttl, i.label, {now} AS t
    FROM ({acquires}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    STRAIGHT_JOIN {lock} e FORCE INDEX (nt) ON e.ns = c.ns AND e.name = c.name AND e.token = c.token
    WHERE c.kind = 0
      AND (c.owner IS NULL OR c.owner = i.owner OR c.exp <= {now})
      AND (c.waiters = 0 OR c.owner = i.owner AND c.exp > {now})
      AND c.seats = 0
      AND (c.ended_why <> {ENDED_RELEASED} OR c.ended_owner IS NULL OR c.ended_owner <> i.owner)
      AND NOT (c.withdrawn <=> i.owner)
      AND {now} <= i.not_after AND @sqlock_floor IS NOT NULL
      AND (i.grace = 0 OR {now} >= @sqlock_lost + LEAST(@sqlock_longest, i.grace)
           OR c.owner = i.owner AND c.exp > {now})
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.token = k.token AND l.owner <=> k.owner AND l.exp <=> k.exp
    AND l.ended_owner <=> k.ended_owner AND l.ended_why = k.ended_why AND l.withdrawn <=> k.withdrawn
    AND l.waiters = k.waiters AND l.seats = k.seats
SET l.token = IF(k.owner <=> k.new_owner AND k.exp > k.t AND k.token > @sqlock_floor, k.token,
                 GREATEST(k.token, @sqlock_floor) + 1),
    l.since = IF(k.owner <=> k.new_owner AND k.exp > k.t, k.since, k.t),
    l.ended_owner = IF(k.owner IS NULL OR k.owner = k.new_owner AND k.exp > k.t, k.ended_owner, k.owner),
    l.ended_token = IF(k.owner IS NULL OR k.owner = k.new_owner AND k.exp > k.t, k.ended_token, k.token),
    l.ended_why = IF(k.owner IS NULL OR k.owner = k.new_owner AND k.exp > k.t, k.ended_why, {ENDED_TAKEN}),
    l.owner = k.new_owner, l.exp = k.t + k.ttl, l.ttl = k.ttl, l.label = k.label, l.idle_since = NULL, l.offered = 0,
    l.client = IF(k.owner <=> k.new_owner AND k.exp > k.t, k.client, NULL);
SELECT i.ord, IF(h.owner = i.owner, {DONE}, {HELD}), h.token, h.exp - @sqlock_t, @sqlock_t, h.since, h.label
FROM ({acquired}) i STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = i.ns AND h.name = i.name
WHERE h.owner = i.owner AND h.offered = 0 AND h.exp >= @sqlock_t + i.ttl AND h.seats = 0
   OR h.owner <> i.owner AND h.exp > {now} AND h.kind = 0 AND h.seats = 0 AND @sqlock_floor IS NOT NULL
      AND NOT (h.withdrawn <=> i.owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner <=> i.owner);

-- :block guarded
-- After acquire answered SKIPPED (possible, but the row is locked): by whom? The locks are taken one after the other,
-- and kept:
-- - the row, which a writer has locked and a guard has not. This lock also keeps out others who look;
-- - a share of the row's entry in nt. It fails where a session is being granted the lock;
-- - the entry, exclusively. Only now does it prove a guard (GUARDED) that this fails.
-- Each reads what the one before has found, so that none comes first. The writer may have ended by now, so the locked
-- row has the first word: HELD, or SKIPPED if we hold the lock or nothing is in the way any more.
-- No row: another session is writing the row. Try again.
-- :step
SELECT 0,
       CASE WHEN s.exp > {now} THEN IF(s.owner = :owner, {SKIPPED}, {HELD})
            WHEN x.token IS NULL AND {shows_guards} THEN {GUARDED}
            ELSE {SKIPPED} END,
       IF(s.seats = 0, s.token, 0), s.exp - {now}, {now}, s.since, s.label
FROM (SELECT p.ns, p.name, p.token, p.owner, p.exp, p.since, p.label, p.seats
      FROM (SELECT l.ns, l.name, l.token, l.owner, l.exp, l.since, l.label, l.seats
            FROM {lock} l FORCE INDEX (PRIMARY) WHERE l.ns = :ns AND l.name = :name LIMIT 1 {skip}) p
      STRAIGHT_JOIN {lock} c FORCE INDEX (nt) ON c.ns = p.ns AND c.name = p.name AND c.token = p.token
      LIMIT 1 {skip_share}) s
LEFT JOIN {lock} x FORCE INDEX (nt) ON x.ns = s.ns AND x.name = s.name AND x.token = s.token {skip};

-- :block renew
-- Extends a lease that has not run out, for its exact grant. A locked row is skipped (SKIPPED: try again, alone), so
-- that it delays no other. This goes by the primary key, where no guard stands. The end is set, not raised: after a
-- step back of the server's clock, a raised one would last for as long as the step. Always one row for each request.
-- :step
SET @sqlock_t = {now};
UPDATE (
    SELECT c.ns, c.name, {now} AS t
    FROM {lock} c FORCE INDEX (PRIMARY)
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND c.owner = :owner AND c.token = :token AND c.exp > {now} AND {now} <= :not_after
    LIMIT 1 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = :owner AND l.token = :token AND l.exp > {now}
SET l.exp = k.t + :ttl, l.ttl = :ttl;
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token AND h.exp >= @sqlock_t + :ttl THEN {DONE}
            WHEN {now} > :not_after THEN {LATE}
            WHEN h.owner = :owner AND h.token = :token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = :owner AND h.token = :token THEN {EXPIRED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, h.exp - @sqlock_t, @sqlock_t
FROM (SELECT 1 AS one) o LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- For many: one statement reads, locks and extends all of them, and skips locked rows. A row of i stands for a
-- request.
-- :array
SET @sqlock_t = {now};
UPDATE (
    SELECT c.ns, c.name, i.owner, i.token, i.ttl, {now} AS t
    FROM ({requests}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner = i.owner AND c.token = i.token AND c.exp > {now}
      AND {now} <= i.not_after
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = k.owner AND l.token = k.token AND l.exp > {now}
SET l.exp = k.t + k.ttl, l.ttl = k.ttl;
SELECT i.ord,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = i.owner AND h.token = i.token AND h.exp >= @sqlock_t + i.ttl THEN {DONE}
            WHEN {now} > i.not_after THEN {LATE}
            WHEN h.owner = i.owner AND h.token = i.token AND h.exp > {now} THEN {SKIPPED}
            WHEN h.owner = i.owner AND h.token = i.token THEN {EXPIRED}
            WHEN h.ended_owner = i.owner AND h.ended_token = i.token THEN {ENDED} + h.ended_why
            ELSE {TAKEN} END,
       h.token, h.exp - @sqlock_t, @sqlock_t
FROM ({requests}) i LEFT JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = i.ns AND h.name = i.name
WHERE i.ord IS NOT NULL;

-- :block release
-- Frees the row for its exact grant, and remembers how the grant ended. So the same release, sent again, is DONE. The
-- index nt, where guards stand, is not touched: the name is granted to no one before the guard's transaction ends.
-- The count of changed rows says that it was done. (It is 1 whatever the client's flags, because the row always
-- changes.) The look does not: before it, others may have been granted the lock and have released it, and the row
-- remembers only the last of them. What is read is assigned later or not at all, so either order of assignments will
-- do.
-- QUEUED: others wait, so send `pass`. If the release was sent before, by a `pass` whose answer was lost, the look names
-- the next holder.
-- No row: nothing was released, and the look says why. SKIPPED: the row is locked. (MySQL waits for that lock, for a
-- second at most.) Try again.
-- :step gives now
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = LAST_INSERT_ID({now}),
    exp = NULL, since = NULL, label = NULL, owner = NULL
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token AND waiters = 0;
-- :step often
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token AND h.waiters <> 0 THEN {QUEUED}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE h.ended_why WHEN {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}, NULL, NULL, NULL, h.client, h.owner
FROM (SELECT 1 AS one) o LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- For many: the look is in the same transaction, so that no other has been granted a lock since it was released. Locked
-- rows are skipped. Those that are not released get no row, and each is sent again alone.
-- :array
START TRANSACTION;
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, {now} AS t
    FROM ({releases}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner = i.owner AND c.token = i.token AND c.waiters = 0
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = k.owner AND l.token = k.token AND l.waiters = 0
SET l.owner = NULL, l.exp = NULL, l.since = NULL, l.label = NULL, l.ended_owner = k.owner,
    l.ended_token = k.token, l.ended_why = {ENDED_RELEASED}, l.idle_since = k.t;
SELECT i.ord, {DONE}, i.token, NULL, {now}
FROM ({releases}) i STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = i.ns AND h.name = i.name
WHERE h.ended_owner = i.owner AND h.ended_token = i.token AND h.ended_why = {ENDED_RELEASED} AND h.kind = 0;
COMMIT;

-- :block withdraw
-- The release of an acquire whose answer is not known. It gives back what this owner was granted. The request may
-- still be on its way, so it also writes a tombstone (withdrawn) under the row's lock. With it the request is granted
-- nothing when it comes (RELEASED).
-- SKIPPED: the row is locked, perhaps by that very grant, which is still committing. Look again. How the last grant
-- ended stays in the row: its holder may not have learned of it yet.
-- DONE: it was granted, and is given back.
-- EARLY: it has not come yet. The tombstone is no proof against a later arrival, because the next withdrawal replaces
-- it.
-- NEVER: not_after has passed, and there will never be a sign of this owner. The tombstone stood when the row was
-- looked at, and the clock was read before that.
-- The row counts as idle from now on. A pruner that was about to take it would take the tombstone with it.
-- No row: the lock has none. The next step makes it, so that the tombstone has a place.
-- :step
SET @sqlock_t = {now};
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, c.since, c.label, c.ended_owner, c.ended_token,
           c.ended_why, {now} AS t
    FROM {lock} c FORCE INDEX (PRIMARY)
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
      AND (c.owner = :owner OR NOT (c.withdrawn <=> :owner))
    LIMIT 1 {skip}
) k STRAIGHT_JOIN {lock} l ON l.ns = k.ns AND l.name = k.name
    AND l.token = k.token AND l.owner <=> k.owner AND l.exp <=> k.exp
    AND l.ended_owner <=> k.ended_owner AND l.ended_token = k.ended_token AND l.ended_why = k.ended_why
SET l.owner = IF(k.owner <=> :owner, NULL, k.owner), l.exp = IF(k.owner <=> :owner, NULL, k.exp),
    l.since = IF(k.owner <=> :owner, NULL, k.since), l.label = IF(k.owner <=> :owner, NULL, k.label),
    l.idle_since = IF(k.owner IS NULL OR k.owner = :owner, k.t, NULL),
    l.ended_owner = IF(k.owner <=> :owner, k.owner, k.ended_owner),
    l.ended_token = IF(k.owner <=> :owner, k.token, k.ended_token),
    l.ended_why = IF(k.owner <=> :owner, {ENDED_RELEASED}, k.ended_why), l.withdrawn = :owner;
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT (h.withdrawn <=> :owner) THEN {SKIPPED}
            WHEN h.ended_owner <=> :owner THEN {DONE}
            WHEN @sqlock_t <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       h.token, h.exp - {now}, {now}
FROM {lock} h WHERE h.ns = :ns AND h.name = :name;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE mode = {lock}.mode;
-- :step same 1

-- For many: as for releases. A request gets no row where the lock's row is locked, or is not there.
-- :array
START TRANSACTION;
SET @sqlock_t = {now};
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, c.since, c.label, c.ended_owner, c.ended_token,
           c.ended_why, i.owner AS by_owner, {now} AS t
    FROM ({withdrawals}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND (c.owner = i.owner OR NOT (c.withdrawn <=> i.owner))
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.token = k.token AND l.owner <=> k.owner AND l.exp <=> k.exp
    AND l.ended_owner <=> k.ended_owner AND l.ended_token = k.ended_token AND l.ended_why = k.ended_why
SET l.owner = IF(k.owner <=> k.by_owner, NULL, k.owner), l.exp = IF(k.owner <=> k.by_owner, NULL, k.exp),
    l.since = IF(k.owner <=> k.by_owner, NULL, k.since), l.label = IF(k.owner <=> k.by_owner, NULL, k.label),
    l.idle_since = IF(k.owner IS NULL OR k.owner = k.by_owner, k.t, NULL),
    l.ended_owner = IF(k.owner <=> k.by_owner, k.owner, k.ended_owner),
    l.ended_token = IF(k.owner <=> k.by_owner, k.token, k.ended_token),
    l.ended_why = IF(k.owner <=> k.by_owner, {ENDED_RELEASED}, k.ended_why), l.withdrawn = k.by_owner;
SELECT i.ord, CASE WHEN h.ended_owner <=> i.owner THEN {DONE} WHEN @sqlock_t <= i.not_after THEN {EARLY} ELSE {NEVER} END,
       h.token, h.exp - {now}, {now}
FROM ({withdrawals}) i STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = i.ns AND h.name = i.name
WHERE h.kind = 0 AND h.withdrawn = i.owner;
COMMIT;

-- :block break
-- As release, by token alone: an operator ends a grant whose holder is dead. It waits for the row. What is read is
-- assigned later or not at all, so either order of assignments will do. Such a change always changes the row, so its
-- count is 1 whatever the client's flags.
-- After a lost reply the same request finds BROKEN (it was broken before) or TAKEN (others came and went since, and
-- how it ended is no longer known).
-- Always one row. SKIPPED: look again.
-- :step
UPDATE {lock} SET ended_owner = owner, ended_token = token, ended_why = {ENDED_BROKEN},
    owner = NULL, exp = NULL, since = NULL, label = NULL, idle_since = {now}
WHERE ns = :ns AND name = :name AND kind = 0 AND owner IS NOT NULL AND token = :token;
SELECT 0,
       CASE WHEN ROW_COUNT() > 0 THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       h.token, h.exp - {now}, {now}
FROM (SELECT 1 AS one) o LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- For many: first the rows are locked. Locked ones are skipped. Those that are locked now are broken by this
-- transaction and by no other, whatever the rows show. The others get no row, and each is sent again alone.
-- :array
START TRANSACTION;
SELECT GROUP_CONCAT(k.ord) INTO @sqlock_mine
FROM (SELECT i.ord FROM ({breaks}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
      WHERE c.kind = 0 AND c.owner IS NOT NULL AND c.token = i.token LIMIT 1000000 {skip}) k;
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, {now} AS t
    FROM ({breaks}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    WHERE FIND_IN_SET(i.ord, @sqlock_mine)
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = k.owner AND l.token = k.token
SET l.owner = NULL, l.exp = NULL, l.since = NULL, l.label = NULL, l.ended_owner = k.owner,
    l.ended_token = k.token, l.ended_why = {ENDED_BROKEN}, l.idle_since = k.t;
SELECT i.ord, {DONE}, i.token, NULL, {now} FROM ({breaks}) i WHERE FIND_IN_SET(i.ord, @sqlock_mine);
COMMIT;

-- :block list
-- A page in byte order after the name :after, of names that start with :prefix. :free = 1: free rows too.
-- The owner of a row beside which others may have seats waits for those, and is no holder: such a row is as good as free.
-- The last column: what may stand beside the lock of this row, or of which it is a seat.
-- :step
SELECT 0, {DONE}, l.token, IF(l.seats = 0, l.exp - {now}, NULL), {now}, IF(l.seats = 0, l.since, NULL),
       IF(l.seats = 0, l.label, NULL), l.name, IF(l.seats = 0, l.owner, NULL),
       IF(OCTET_LENGTH(l.name) > 4 AND SUBSTRING(l.name, -4, 1) = X'00',
          (SELECT h.seats FROM {lock} h FORCE INDEX (PRIMARY)
           WHERE h.ns = l.ns AND h.name = SUBSTRING(l.name, 1, OCTET_LENGTH(l.name) - 4)), l.seats)
FROM {lock} l FORCE INDEX (PRIMARY)
WHERE l.ns = :ns AND l.name > :after AND l.name >= :prefix
  AND SUBSTRING(l.name, 1, OCTET_LENGTH(:prefix)) = :prefix
  AND l.kind = 0 AND (:free = 1 OR l.owner IS NOT NULL AND l.seats = 0)
ORDER BY l.ns, l.name LIMIT :limit;

-- :block sweep
-- A page of the whole table in key order, after (:ns, :after). It answers rows that ran out at least :grace ago
-- (EXPIRED), rows that have been free for :idle (IDLE), and a row for the page itself (DONE): how many rows, and the
-- last key. SEATED: the row is free, and its seats are pruned. Once `drain` has noted that, it is idle.
-- The clock is read once for the page. There is no index on exp, so this goes by the primary key, and reads :limit
-- rows, whatever they hold. MySQL 5.6 knows no WITH, so it reads them three times, all in the statement's one
-- snapshot. It only looks, and locks nothing: reap and prune decide.
-- The rows come in the order of their keys, on which core relies. Without the ORDER BY MySQL reads a page by a
-- temporary index, in any order.
-- :step
SET @sqlock_t = {now};
SELECT 0, {EXPIRED}, p.token, p.exp - @sqlock_t, @sqlock_t, NULL, NULL, p.name AS name, p.ns AS ns
FROM {page} p
WHERE p.kind = 0 AND p.exp <= @sqlock_t - :grace
UNION ALL
SELECT 0, IF(p.seats = 0, {IDLE}, {SEATED}), p.token, p.idle_since - @sqlock_t, @sqlock_t, p.idle_since, NULL, p.name, p.ns
FROM {page} p
WHERE p.kind = 0 AND p.owner IS NULL AND p.waiters = 0 AND p.next_ticket = 0
  AND (p.idle_since <= @sqlock_t - :idle OR p.idle_since IS NULL AND p.seats <> 0)
  AND (p.seats = 0 OR NOT EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = p.ns
                                    AND s.name > CONCAT(p.name, X'00') AND s.name < CONCAT(p.name, X'01')))
UNION ALL
SELECT 0, {DONE}, c.n, NULL, @sqlock_t, NULL, NULL, z.name, z.ns
FROM (SELECT COUNT(*) AS n FROM {page} p) c
LEFT JOIN (SELECT p.ns, p.name FROM {page} p ORDER BY p.ns DESC, p.name DESC LIMIT 1) z ON TRUE
ORDER BY ns, name;

-- :block reap
-- Frees rows from (:ns, :name) to (:to_ns, :to) whose lease ran out before :cut, :limit at most. It remembers how
-- they ended, so that their holders learn of it. A session that renews a row, takes it over or works on it at this
-- moment was quicker. A row is changed only if it is still as k has seen it; a locked one is skipped. (Before MySQL
-- 8.0 the statement waits for a locked row, two seconds at most. Then none of the batch is freed this time; the count
-- is -1 after that.)
-- It goes by the primary key, where no guard stands, and changes no key. So it frees a guarded row as a release does,
-- and the name is granted to no one before the guard's transaction ends.
-- Where locked rows are skipped it waits for nothing, so it is in no deadlock. It is one statement, so a reaper that
-- stops in the middle keeps nothing locked.
-- The end of the lease is also compared with the running clock, which may have been put back since the page was read.
-- Always one row: how many rows were freed. Each row that is found is changed, so the client's flags do not matter.
-- :step
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, c.exp, {now} AS t
    FROM {lock} c FORCE INDEX (PRIMARY)
    WHERE (c.ns > :ns OR c.ns = :ns AND c.name >= :name)
      AND (c.ns < :to_ns OR c.ns = :to_ns AND c.name <= :to) AND c.ns <> :own
      AND c.kind = 0 AND c.exp <= :cut AND c.exp <= {now}
    ORDER BY c.ns, c.name LIMIT :limit {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.kind = 0 AND l.owner = k.owner AND l.token = k.token AND l.exp = k.exp
SET l.owner = NULL, l.exp = NULL, l.since = NULL, l.label = NULL, l.ended_owner = k.owner,
    l.ended_token = k.token, l.ended_why = {ENDED_REAPED}, l.idle_since = k.t;
SELECT 0, {DONE}, GREATEST(ROW_COUNT(), 0);

-- :block prune
-- Deletes a row that has been free since before :cut. Tokens go on rising, because the next creator of the row starts
-- from the floor. The first step raises the floor to :floor, the largest token of the batch. The second step deletes
-- only rows whose token is not above the floor.
-- A creator reads the floor under a share lock, which it keeps until its row is there. If it read the old floor, it
-- has ended before the first step gets its lock. The old row was still there then, so it has made nothing. Nothing is
-- locked between the two steps, so a reaper that stops there delays no one. A floor that is too high does no harm.
-- The first step locks meta only where the floor is too low. The second reads the floor without a lock: with a share
-- lock and the row's lock it could meet a creator that holds and wants the same two the other way round.
-- A row is deleted only if it is still as k has seen it. A locked or guarded one is skipped (before MySQL 8.0 the
-- statement waits for it). A row that a queue uses is left alone, and so is one that may have seats.
-- The row has no alias: the server would look for one in the connection's database, and there may be none.
-- No row: there was nothing to delete.
-- :step
SELECT MAX(id) INTO @sqlock_id FROM {meta} WHERE id = 1 AND fence_floor < :floor;
UPDATE {meta} SET fence_floor = :floor WHERE id = @sqlock_id AND fence_floor < :floor;
-- :step
SELECT MAX(fence_floor) INTO @sqlock_floor FROM {meta} WHERE id = 1;
DELETE {lock} FROM (
    SELECT c.ns, c.name, c.token, c.idle_since
    FROM {lock} c FORCE INDEX (nt)
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND c.owner IS NULL
      AND c.waiters = 0 AND c.next_ticket = 0 AND c.seats = 0 AND c.idle_since <= :cut AND c.idle_since <= {now}
      AND c.token <= @sqlock_floor
    LIMIT 1 {skip}
) k STRAIGHT_JOIN {lock} FORCE INDEX (PRIMARY) ON {lock}.ns = k.ns AND {lock}.name = k.name
    AND {lock}.token = k.token AND {lock}.idle_since = k.idle_since AND {lock}.kind = 0 AND {lock}.owner IS NULL
    AND {lock}.waiters = 0 AND {lock}.next_ticket = 0 AND {lock}.seats = 0;
SELECT 0, {DONE} FROM DUAL WHERE ROW_COUNT() > 0;

-- For many, where the server can skip locked rows. A commit for each row would take an hour for a million. A session
-- that holds rows here waits for nothing, so it is in no deadlock. There are as many rows in the answer as were
-- deleted; which ones they were does not matter.
-- :array
SET @sqlock_top = GREATEST(0, /*each , */:floor/*end*/);
SELECT MAX(id) INTO @sqlock_id FROM {meta} WHERE id = 1 AND fence_floor < @sqlock_top;
UPDATE {meta} SET fence_floor = @sqlock_top WHERE id = @sqlock_id AND fence_floor < @sqlock_top;
-- :array
SELECT MAX(fence_floor) INTO @sqlock_floor FROM {meta} WHERE id = 1;
DELETE {lock} FROM (
    SELECT c.ns, c.name, c.token, c.idle_since
    FROM (/*each UNION ALL */SELECT :ns AS ns, :name AS name, :cut AS cut /*end*/) i
    STRAIGHT_JOIN {lock} c FORCE INDEX (nt) ON c.ns = i.ns AND c.name = i.name
    WHERE c.kind = 0 AND c.owner IS NULL
      AND c.waiters = 0 AND c.next_ticket = 0 AND c.seats = 0 AND c.idle_since <= i.cut AND c.idle_since <= {now}
      AND c.token <= @sqlock_floor
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} FORCE INDEX (PRIMARY) ON {lock}.ns = k.ns AND {lock}.name = k.name
    AND {lock}.token = k.token AND {lock}.idle_since = k.idle_since AND {lock}.kind = 0 AND {lock}.owner IS NULL
    AND {lock}.waiters = 0 AND {lock}.next_ticket = 0 AND {lock}.seats = 0;
SELECT i.ord, {DONE} FROM (/*each UNION ALL */SELECT :index AS ord /*end*/) i WHERE i.ord < ROW_COUNT();

-- :block migrate_lock
-- One migrator at a time on this server, until its connection ends; only while there is no lock table to take a lease
-- in. The client cuts the wait. No row: the server ended it, and nothing is locked.
-- :step
SELECT 0, {DONE} FROM DUAL WHERE GET_LOCK('sqlock_migrate', 31536000) = 1;

-- :block migrate_version
-- A meta table without its row was left by a migration that was cut off before it put the row in. The table itself
-- must say that it does not exist (42P01): to a user who may not read it the catalogue shows none either. Triggers
-- run with the rights of their makers, so :changes makes no difference.
-- :step
SELECT 0, {DONE}, m.version, m.min_reader, {now} FROM {meta} m WHERE m.id = 1 AND :changes IS NOT NULL;
-- :step
SELECT 0, {DONE}, 0, 0, {now};

-- :block migrate_record
-- The meta row says what is applied. :done = 0 writes only the record, before a step that is not a transaction. A
-- record above meta's version means that its migration was begun and not ended; it is written anew.
-- :step
INSERT INTO {migration} (version, name, checksum, applied) VALUES (:version, :name, :checksum, {now})
ON DUPLICATE KEY UPDATE name = VALUES(name), checksum = VALUES(checksum), applied = VALUES(applied);
-- :step
UPDATE {meta} SET version = GREATEST(version, :version) WHERE id = 1 AND :done = 1;

-- :block migrate_ledger
-- All records. 42P01: there is no table for them.
-- :step
SELECT 0, {DONE}, version, name, checksum, applied FROM {migration} WHERE :changes IS NOT NULL ORDER BY version;

-- :block migrate_differ
-- What the tables lack of what tables.sql says, a row each. No row: they have all of it. Columns come first. Then
-- unique keys that are missing (acquire and guard go by nt), or should not be there (INSERT ... ON DUPLICATE KEY
-- would take another row for the name's own). Then CHECKs, by their number: MySQL before 8.0.16 keeps none, and a
-- user who may only read sees none.
-- :step
SELECT 0, {DONE}, t.table_name IS NOT NULL,
       CASE WHEN t.table_name IS NULL THEN CONCAT('there is no table ', e.tab, ', or no right to it')
            WHEN a.column_name IS NULL THEN CONCAT('table ', e.tab, ' has no column ', e.col)
            ELSE CONCAT('column ', e.col, ' of table ', e.tab, CASE
                WHEN UPPER(a.data_type) <> e.type THEN CONCAT(' is ', a.data_type, ', not ', e.type)
                WHEN (a.is_nullable = 'NO') < e.must THEN ' may be NULL'
                WHEN (a.is_nullable = 'NO') > e.must THEN ' may not be NULL'
                ELSE ' is not at its place in the primary key' END) END,
       e.since
FROM ({columns}) e
LEFT JOIN (SELECT t.table_name FROM information_schema.tables t WHERE {ours} LIMIT 1000000) t
    ON t.table_name = CONCAT('{prefix}', e.tab)
LEFT JOIN (SELECT t.table_name, t.column_name, t.data_type, t.is_nullable
           FROM information_schema.columns t WHERE {ours} LIMIT 1000000) a
    ON a.table_name = t.table_name AND a.column_name = e.col
LEFT JOIN (SELECT t.table_name, t.column_name, t.seq_in_index
           FROM information_schema.statistics t WHERE {ours} AND t.index_name = 'PRIMARY' LIMIT 1000000) k
    ON k.table_name = t.table_name AND k.column_name = e.col
WHERE CASE WHEN t.table_name IS NULL THEN e.pk = 1
      ELSE a.column_name IS NULL OR UPPER(a.data_type) <> e.type OR (a.is_nullable = 'NO') <> e.must
           OR COALESCE(k.seq_in_index, 0) <> e.pk END
ORDER BY e.pos;
-- :step
SELECT 0, {DONE}, 1, CONCAT('table ', e.tab, ' has no unique key ', e.name, ' (', e.cols, ')')
FROM ({keys}) e LEFT JOIN ({uniques}) u
    ON u.tab = CONCAT('{prefix}', e.tab) AND u.name = e.name AND u.cols = e.cols
WHERE u.tab IS NULL;
-- :step
SELECT 0, {DONE}, 1, CONCAT('table ', e.tab, ' has a unique key that is not ours, ', u.name, ' (', u.cols, ')')
FROM ({tables}) e JOIN ({uniques}) u ON u.tab = CONCAT('{prefix}', e.tab)
WHERE u.name NOT IN (SELECT k.name FROM ({keys}) k WHERE k.tab = e.tab)
ORDER BY e.tab, u.name;
-- :step
SELECT 0, {DONE}, 1, CONCAT('table ', c.tab, ' has ', c.has, ' CHECKs, not ', c.checks)
FROM (SELECT e.tab, e.checks, COUNT(t.table_name) AS has
      FROM ({tables}) e
      LEFT JOIN (SELECT t.table_name FROM information_schema.table_constraints t
                 WHERE {ours} AND t.constraint_type = 'CHECK' LIMIT 1000000) t
          ON t.table_name = CONCAT('{prefix}', e.tab)
      GROUP BY e.tab, e.checks) c
WHERE c.has <> c.checks AND (FALSE /*!80016 OR TRUE */ /*M!100600 OR TRUE */)
  AND EXISTS (SELECT 1 FROM information_schema.table_constraints t
              WHERE t.constraint_type = 'CHECK' AND {here})
ORDER BY c.tab;

-- :block migrate_close
-- No lock on the table can be kept here: it would have to be taken together with the locks on all tables that the way
-- down drops. So a lease that is granted after the answer of migrate_held may be lost. Its token is not: the way down
-- of 001 reads the largest one under table locks. No row.
-- :step
SELECT 0, {DONE} FROM DUAL WHERE FALSE;

-- :block migrate_held
-- How many leases run outside of one namespace (our own), and the name of one. No row: none.
-- :step
SELECT 0, {DONE}, COUNT(*), MIN(name)
FROM {lock} WHERE owner IS NOT NULL AND exp > {now} AND ns <> :ns HAVING COUNT(*) > 0;

-- :block migrate_lease
-- The migrators' lease. It is granted if its row is free, run out, or ours. It is renewed, with the same token, if it
-- is ours and has not run out. :ttl = 0 gives it back.
-- It knows the columns of 001 alone, because it is sent at every version of the schema. It gives no table another
-- name, because it may be sent under LOCK TABLES. The token is assigned first: what it reads is old in either order
-- of assignments.
-- No row: it is not there yet. The next step makes it, then the first one comes again.
-- :step
SET @sqlock_t = {now};
UPDATE {lock} SET
    token = IF(owner <=> :owner AND exp > @sqlock_t, token, token + 1),
    since = IF(:ttl = 0, NULL, IF(owner <=> :owner AND exp > @sqlock_t, since, @sqlock_t)),
    label = IF(:ttl = 0, NULL, :label),
    idle_since = IF(:ttl = 0, @sqlock_t, NULL),
    exp = IF(:ttl = 0, NULL, @sqlock_t + :ttl),
    owner = IF(:ttl = 0, NULL, :owner)
WHERE ns = :ns AND name = :name
  AND (owner = :owner OR :ttl > 0 AND (owner IS NULL OR exp <= @sqlock_t));
SELECT 0, CASE WHEN :ttl = 0 OR owner = :owner AND exp = @sqlock_t + :ttl THEN {DONE} ELSE {HELD} END, token,
       exp - @sqlock_t, @sqlock_t
FROM {lock} WHERE ns = :ns AND name = :name;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE mode = {lock}.mode;
-- :step same 1

-- :block migrate_around
-- Never sent: nothing can be put around DDL that commits by itself.
-- :step
DO 0;
-- :step
DO 0;

-- :block guard
-- In the application's transaction: proves the lease, and keeps every grant out until the transaction ends. It
-- share-locks the entry of nt, which renewals and releases leave alone and each grant replaces. It reads nothing but
-- that index: one more column would lock the row, and stop the renewals. So the token alone is the proof: after a
-- later grant the name has another one. For a lease that has run out, and was granted to no one since, the holder's
-- own deadline decides.
-- A locking read sees the newest row, whatever the transaction's snapshot. MySQL waits for a grant that is just being
-- written, for the session's lock wait timeout at most. MariaDB reports at once that it is busy.
-- What the transaction reads next comes from its snapshot. In REPEATABLE READ that may be older than the grant, and show
-- what an earlier holder has changed since. So the entry must be in the snapshot too (p): else STALE. It is read behind
-- the lock. If the transaction has no snapshot yet, this makes it, and it is younger.
-- No row: others have the name, or had it, as the next step says. UNFIT: the server cannot skip locked rows. Others
-- would hang on the guard, and not learn of it.
-- :step
SELECT 0,
       IF({shows_guards},
          IF(EXISTS (SELECT 1 FROM {lock} p FORCE INDEX (nt) WHERE p.ns = g.ns AND p.name = g.name AND p.token = g.token),
             {DONE}, {STALE}),
          {UNFIT}), g.token, NULL, {now}, NULL, {server}
FROM {lock} g FORCE INDEX (nt)
WHERE g.ns = :ns AND g.name = :name AND g.token = :token AND :ttl > 0 AND :owner IS NOT NULL
LOCK IN SHARE MODE /*M!100301 NOWAIT */;
-- :step
SELECT 0, {TAKEN}, NULL, NULL, {now}, NULL, {server};

-- :block probe
-- Does a guard of this grant keep others out of the row now (GUARDED)? It is found as in `guarded`. After a later
-- grant the entry is another one, and so are guards. Always one row. SKIPPED: another session, such as a waiter's, works
-- on the row; try again. The subquery locks nothing.
-- :step
SELECT 0,
       CASE WHEN s.token IS NULL AND {shows_guards}
             AND EXISTS (SELECT 1 FROM {lock} h FORCE INDEX (PRIMARY)
                         WHERE h.ns = :ns AND h.name = :name AND h.token = :token) THEN {SKIPPED}
            WHEN s.token IS NOT NULL AND x.token IS NULL AND {shows_guards} THEN {GUARDED}
            ELSE {DONE} END
FROM (SELECT 1 AS one) o
LEFT JOIN (SELECT p.ns, p.name, p.token
           FROM (SELECT l.ns, l.name, l.token FROM {lock} l FORCE INDEX (PRIMARY)
                 WHERE l.ns = :ns AND l.name = :name AND l.token = :token LIMIT 1 {skip}) p
           STRAIGHT_JOIN {lock} c FORCE INDEX (nt) ON c.ns = p.ns AND c.name = p.name AND c.token = p.token
           LIMIT 1 {skip_share}) s ON TRUE
LEFT JOIN {lock} x FORCE INDEX (nt) ON x.ns = s.ns AND x.name = s.name AND x.token = s.token {skip};

-- :block ensure
-- Makes the row that transactions lock by this name, if it is not there. The look takes no lock, so it waits for no
-- transaction that keeps the row locked. If another session is quicker, this INSERT fails (1062: try again). No row:
-- it was deleted in between. Try again.
-- :step
SELECT 0, {DONE}, NULL, NULL, {now} FROM {row} WHERE ns = :ns AND name = :name;
-- :step
INSERT INTO {row} (ns, name) VALUES (:ns, :name);
SELECT 0, {DONE} FROM DUAL WHERE ROW_COUNT() > 0;
-- :step same 1

-- :block register_get
-- Always one row. GONE: there is no such register; its version is 0.
-- :step
SELECT 0, IF(r.name IS NULL, {GONE}, {DONE}), COALESCE(r.version, 0), NULL, {now}, r.value
FROM (SELECT 1 AS one) o LEFT JOIN {register} r ON r.ns = :ns AND r.name = :name;

-- :block register_set
-- Changes a register whose version is :expected (0: it does not exist), if not_after has not passed. The UPDATE waits
-- for a session that is changing the row, and then finds another version. The clock is read for the row, behind that
-- wait. The count of changed rows says that it was done. (It is 1 whatever the client's flags, because the version
-- always changes.) The look does not: others may have changed the row by then. The version is assigned first: what is
-- read is old in either order of assignments.
-- The writer stays beside what it wrote. So the same request, sent again after a lost reply, is DONE, until another
-- one has changed the register.
-- CONFLICT and GONE are final: no version comes twice for a name. A new one begins at the clock, so that it is above
-- the versions of a row that was deleted. All are above the floor, as tokens are: above those that a failover forgot.
-- STRANGER: the server's floor is not above that of another server (:above), so it was overtaken.
-- No row: there is no such register. The next step makes it if the request says so; the last one says why nothing was
-- done. Of two creators, the second one's INSERT fails (1062: try again). It waits for the first one for the
-- session's lock wait timeout at most, by which it may be late.
-- :step
SELECT {now}, MAX(m.fence_floor) INTO @sqlock_t, @sqlock_floor FROM {meta} m WHERE m.id = 1 AND {known} AND m.fence_floor >= :above;
UPDATE {register} SET
    version = LAST_INSERT_ID(GREATEST(version, @sqlock_floor) + 1),
    value = :value, writer = :writer, updated = {now}
WHERE ns = :ns AND name = :name AND version = :expected
  AND @sqlock_floor IS NOT NULL AND {now} <= :not_after;
SELECT 0,
       CASE WHEN ROW_COUNT() > 0 OR h.writer = :writer THEN {DONE}
            WHEN h.version <> :expected THEN {CONFLICT}
            WHEN @sqlock_floor IS NULL THEN {STRANGER}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       IF(ROW_COUNT() > 0, LAST_INSERT_ID(), h.version), NULL, {now}
FROM (SELECT 1 AS one) o LEFT JOIN {register} h ON h.ns = :ns AND h.name = :name
WHERE ROW_COUNT() > 0 OR h.name IS NOT NULL;
-- :step
SELECT {now}, MAX(m.fence_floor) INTO @sqlock_t, @sqlock_floor FROM {meta} m WHERE m.id = 1 AND {known} AND m.fence_floor >= :above;
INSERT INTO {register} (ns, name, version, value, writer, updated)
SELECT :ns, :name, GREATEST(@sqlock_t, @sqlock_floor + 1), :value, :writer, @sqlock_t
FROM DUAL WHERE :expected = 0 AND @sqlock_floor IS NOT NULL AND {now} <= :not_after;
SELECT 0, {DONE}, GREATEST(@sqlock_t, @sqlock_floor + 1), NULL, {now} FROM DUAL WHERE ROW_COUNT() > 0;
-- :step
SELECT 0,
       CASE WHEN h.writer = :writer THEN {DONE}
            WHEN h.version <> :expected THEN {CONFLICT}
            WHEN h.name IS NULL AND :expected <> 0 THEN {GONE}
            WHEN NOT ({known} AND m.fence_floor >= :above) THEN {STRANGER}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       COALESCE(h.version, 0), NULL, {now}
FROM {meta} m LEFT JOIN {register} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block table_key
-- The unique indexes of a table of the application's, by their columns. No row: there is no such table.
-- This does not run in the application's transaction. MySQL 8 keeps the catalogue in tables. Reading them would make
-- the transaction's snapshot, before it has the lock that the application reads under.
-- A part of a column, or something that is no column, is NULL, so that it is no key. A value of another kind than the
-- column does not find its place in the index; the server then reads, and locks, the whole index. This happens with
-- numbers and texts, with a text that cannot be converted to the column's character set, and with dates that are
-- none.
-- MariaDB's NOWAIT is a timeout to innodb_rollback_on_timeout, and ends the transaction. So it is not used where that
-- is on. In a cluster of several writers only one of them knows a row lock.
-- MariaDB looks a table up by the names in a WHERE, and not by those in an ON: there it opens every table of every
-- database. So columns and indexes are derived tables, whose LIMIT keeps the server from merging them.
-- :step
SELECT 0,
       CASE WHEN t.detail IS NULL THEN {DONE} ELSE {UNFIT} END,
       s.index_name,
       CASE WHEN s.sub_part IS NULL THEN s.column_name END,
       CASE WHEN c.data_type IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'decimal', 'float', 'double', 'year', 'bit')
            THEN 'i'
            WHEN c.data_type IN ('binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob') THEN 'bt'
            WHEN c.character_set_name = 'utf8mb4' THEN 't'
            WHEN c.character_set_name IN ('utf8', 'utf8mb3') THEN 'm'
            WHEN c.character_set_name IS NOT NULL THEN 'a'
            ELSE '' END,
       0 /*!80001 + 1 */ /*M!100301 + 1 - @@innodb_rollback_on_timeout */,
       CAST(:schema AS BINARY),
       t.detail
FROM (
    SELECT CASE WHEN i.table_type NOT IN ('BASE TABLE', 'TEMPORARY') THEN 'it is a view, or another thing that is no table'
                WHEN COALESCE(i.engine, '') <> 'InnoDB' THEN 'its engine is not InnoDB'
                ELSE {many}
           END AS detail
    FROM information_schema.tables i
    WHERE i.table_schema = {of_schema} AND i.table_name = {of_table}
      AND (@@lower_case_table_names <> 0 OR BINARY i.table_name = :table)
) t
LEFT JOIN (
    SELECT x.index_name, x.sub_part, x.column_name FROM information_schema.statistics x
    WHERE x.table_schema = {of_schema} AND x.table_name = {of_table}
      AND x.non_unique = 0 AND x.index_type = 'BTREE' /*!80000 AND x.is_visible = 'YES' */ /*M!100600 AND x.ignored = 'NO' */
    LIMIT 1000000
) s ON TRUE
LEFT JOIN (
    SELECT x.column_name, x.data_type, x.character_set_name FROM information_schema.columns x
    WHERE x.table_schema = {of_schema} AND x.table_name = {of_table}
    LIMIT 1000000
) c ON c.column_name = s.column_name
ORDER BY s.index_name;

-- :block table_at
-- In the application's transaction: where it finds its tables. This reads no table.
-- :step
SELECT 0, {DONE}, CAST(DATABASE() AS BINARY);

-- :block row_lock
-- Templates. Steps: without waiting; waiting; the first one again (no row is hidden here); a look when no row came.
-- Then the first three again, for a caller that keeps the key.
-- The index is forced. If it is gone meanwhile, that is an error (1176); otherwise the server would read, and lock,
-- the table.
-- NOWAIT, not SKIP LOCKED, with which a locked row looks like one that is not there. A plain read could distinguish
-- the two, but would make the transaction's snapshot before the application has read anything. So the look is a
-- locking one too, and locks what was inserted anew while the first step waited.
-- :step
SELECT 0, {DONE} FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE {nowait};
-- :step
SELECT 0, {DONE} FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE;
-- :step same 1
-- :step
SELECT 0, IF(COUNT(*) > 0, {DONE}, {GONE}) FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE {nowait};
-- :step same 1
-- :step same 2
-- :step same 1

-- :block table_version
-- Whether a column of a table of the application's can hold versions. It runs where table_key runs. Of timestamps
-- only those that keep every microsecond can. No row: there is no such column, or table.
-- :step
SELECT 0,
       CASE WHEN k.kind IS NULL THEN {UNFIT} ELSE {DONE} END,
       k.kind,
       CASE WHEN k.data_type = 'bigint' THEN 9223372036854775807
            WHEN k.column_type LIKE '%unsigned%' THEN 4294967295
            ELSE 2147483647 END,
       NULL, NULL, NULL,
       CASE WHEN k.kind IS NULL
            THEN 'is no integer of 32 or 64 bits, and no timestamp with microseconds' END
FROM (
    SELECT c.data_type, c.column_type,
           CASE WHEN c.data_type IN ('int', 'bigint') THEN 0
                WHEN c.data_type IN ('datetime', 'timestamp') AND c.datetime_precision = 6 THEN 1
           END AS kind
    FROM information_schema.columns c
    WHERE c.table_schema = {of_schema} AND c.table_name = {of_table} AND BINARY c.column_name = :column
) k;

-- :block version_integer
-- Not a request: three expressions for {version}, {next} and {first} of the blocks below. They read a version as an
-- integer or NULL, raise it, and begin with one. {start} is a random number.
-- :step
{column}
-- :step
COALESCE({column} + 1, {start})
-- :step
{start}

-- :block version_timestamp
-- The same for timestamps, as microseconds since 1970. Each is later than the one before, also when two changes fall
-- into one microsecond, or after a step back of the clock.
-- :step
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})
-- :step
COALESCE(GREATEST(NOW(6), {column} + INTERVAL 1 MICROSECOND), NOW(6))
-- :step
NOW(6)

-- :block cas_update
-- Changes a row of the application's if it has the expected version. The first step waits for a session that is
-- changing the row, locks the row, and reads the newest version ({there} and {seen} from then on). The index is
-- forced as in row_lock, and cannot be dropped after that. What is locked does not change, so the second step changes
-- the row, or does not, by that alone.
-- The third step reads as the application does. Of a row that was changed it answers the new version. CONFLICT:
-- another version, and the application would read the same now. STALE: the application's snapshot shows something
-- else, and would go on doing so. GONE: there is no row.
-- :step
SELECT 0, {NONE}, {version} FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE;
-- :step write
UPDATE {table} SET {set}{name} = {next} WHERE {match} AND {version} <=> {expected};
-- :step write
SELECT 0,
       CASE WHEN {there} = 0 AND p.there IS NULL THEN {GONE}
            WHEN {there} = 0 OR p.there IS NULL THEN {STALE}
            WHEN {seen} <=> {expected} THEN {DONE}
            WHEN {seen} <=> p.version THEN {CONFLICT}
            ELSE {STALE} END,
       p.version
FROM (SELECT 1 AS one) o LEFT JOIN (SELECT 1 AS there, {version} AS version FROM {table} WHERE {match}) p ON 1 = 1;

-- :block cas_delete
-- The same, and the row is gone.
-- :step
SELECT 0, {NONE}, {version} FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE;
-- :step write
DELETE FROM {table} WHERE {match} AND {version} <=> {expected};
-- :step write
SELECT 0,
       CASE WHEN {there} = 1 AND {seen} <=> {expected} THEN {DONE}
            WHEN {there} = 0 AND p.there IS NULL THEN {GONE}
            WHEN {there} = 0 OR p.there IS NULL THEN {STALE}
            WHEN {seen} <=> p.version THEN {CONFLICT}
            ELSE {STALE} END,
       {seen}
FROM (SELECT 1 AS one) o LEFT JOIN (SELECT 1 AS there, {version} AS version FROM {table} WHERE {match}) p ON 1 = 1;

-- :block cas_insert
-- Makes a row that is not there. It waits for a session that is making or deleting it. A row that is there is an
-- error (1062), and so is one that has the values of another unique index.
-- :step write
INSERT INTO {table} ({names}, {name}) VALUES ({values}, {first});
-- :step write
SELECT 0, {DONE}, {version} FROM {table} WHERE {match};

-- :block cas_met
-- What was in the way of cas_insert, as the third step of cas_update answers it. cas_insert has share-locked it
-- already.
-- :step
SELECT 0, {NONE}, {version} FROM {table} WHERE {match} LOCK IN SHARE MODE;
-- :step
SELECT 0,
       CASE WHEN {there} = 0 AND p.there IS NULL THEN {GONE}
            WHEN {there} = 1 AND p.there = 1 AND {seen} <=> p.version THEN {CONFLICT}
            ELSE {STALE} END,
       {seen}
FROM (SELECT 1 AS one) o LEFT JOIN (SELECT 1 AS there, {version} AS version FROM {table} WHERE {match}) p ON 1 = 1;

-- :block fence
-- Accepts a token that is not smaller than the largest so far, and keeps it. A later session waits for the end of
-- this transaction, and is judged by what it left. Before anything is changed, the second step looks whether the
-- transaction's snapshot is older than the row (STALE). If it has none yet, it gets one now, behind the lock.
-- CONFLICT: there was a larger token. GONE: there is no row.
-- :step
SELECT 0, {NONE}, {version} FROM {table} FORCE INDEX ({key}) WHERE {match} FOR UPDATE;
-- :step
SELECT 0,
       CASE WHEN {there} = 0 AND p.there IS NULL THEN {GONE}
            WHEN {there} = 0 OR p.there IS NULL OR NOT ({seen} <=> p.version) THEN {STALE}
            WHEN {seen} > {token} THEN {CONFLICT}
            ELSE {NONE} END,
       {seen}
FROM (SELECT 1 AS one) o LEFT JOIN (SELECT 1 AS there, {version} AS version FROM {table} WHERE {match}) p ON 1 = 1;
-- :step write
UPDATE {table} SET {name} = {token} WHERE {match} AND ({version} IS NULL OR {version} <= {token});
-- :step write
SELECT 0, {DONE}, {version} FROM {table} WHERE {match};

-- :block session
-- In the application's transaction: the number by which `blockers` knows its session. This reads no table.
-- :step
SELECT 0, {DONE}, CONNECTION_ID();

-- :block blockers
-- Not in the application's transaction: which sessions keep this one waiting now. A session that waits for the same
-- row, before this one, is in the way too, but does not have the row. Then the lock that blocks is the one for which
-- that session itself waits. MariaDB shows what it gathered for any session within the last 0.1 s. PROCESS is needed,
-- and on MySQL the right to read performance_schema. On MySQL before 8.0 this finds nothing. No server shows what a
-- session without a wait was refused.
-- :step
SELECT 0, {DONE}, q.id, q.opened, q.about
FROM (SELECT NULL AS id, NULL AS opened, NULL AS about FROM DUAL WHERE :session IS NULL AND :schema IS NULL AND :table IS NULL
      /*!80000 UNION ALL
      SELECT b.processlist_id, {open}, {about_mysql}
      FROM performance_schema.threads t
      JOIN performance_schema.data_lock_waits w ON w.requesting_thread_id = t.thread_id
      JOIN performance_schema.data_locks l ON l.engine_lock_id = w.blocking_engine_lock_id AND l.lock_status = 'GRANTED'
      JOIN performance_schema.threads b ON b.thread_id = w.blocking_thread_id
      LEFT JOIN information_schema.innodb_trx x ON x.trx_mysql_thread_id = b.processlist_id
      WHERE t.processlist_id = :session */
      /*M!100000 UNION ALL
      SELECT x.trx_mysql_thread_id, {open}, {about_maria}
      FROM information_schema.innodb_trx t
      JOIN information_schema.innodb_lock_waits w ON w.requesting_trx_id = t.trx_id
      JOIN information_schema.innodb_trx x ON x.trx_id = w.blocking_trx_id
       AND (x.trx_requested_lock_id IS NULL OR x.trx_requested_lock_id <> w.blocking_lock_id)
      LEFT JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id
      WHERE t.trx_mysql_thread_id = :session */) q
ORDER BY q.opened DESC LIMIT 100;

-- :block lease
-- How long the lease of this exact grant still runs (DONE), or how it ended. No row: the name has no row. The clock
-- is read once, so that the computed end is not later than the real one.
-- :step
SET @sqlock_t = {now};
SELECT 0,
       CASE WHEN l.owner = :owner AND l.token = :token THEN {DONE}
            WHEN l.ended_owner = :owner AND l.ended_token = :token THEN {ENDED} + l.ended_why
            ELSE {TAKEN} END,
       l.token, l.exp - @sqlock_t, @sqlock_t
FROM {lock} l
WHERE l.ns = :ns AND l.name = :name AND l.kind = 0;

-- :block break_noted
-- The same as break, with a note of it that stays for a month. So the broken holder learns of the break also when
-- others have come and gone since, and the row has forgotten it. The note is written before, with a time less than 0,
-- which says nothing yet. Then one statement breaks the grant and makes the note true. So there is no break without a
-- note, and no note that says more than was done, wherever it ends.
-- Old notes go a hundred at a time, because their authors cannot be at work any more. If this note was deleted in
-- between, nothing is broken. SKIPPED: look again.
-- :step aside
SET @sqlock_t = {now} - {month};
DELETE FROM {broken} WHERE noted BETWEEN -@sqlock_t AND @sqlock_t ORDER BY noted LIMIT 100;
INSERT INTO {broken} (ns, name, token, noted)
SELECT h.ns, h.name, h.token, -{now} FROM {lock} h
WHERE h.ns = :ns AND h.name = :name AND h.kind = 0 AND h.owner IS NOT NULL AND h.token = :token
ON DUPLICATE KEY UPDATE noted = IF({broken}.noted > 0, {broken}.noted, -{now});
-- :step
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, {now} AS t
    FROM {lock} c FORCE INDEX (PRIMARY)
    WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND c.owner IS NOT NULL AND c.token = :token
    LIMIT 1 FOR UPDATE
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = k.owner AND l.token = k.token
STRAIGHT_JOIN {broken} b FORCE INDEX (PRIMARY) ON b.ns = k.ns AND b.name = k.name AND b.token = k.token
SET l.owner = NULL, l.exp = NULL, l.since = NULL, l.label = NULL, l.ended_owner = k.owner,
    l.ended_token = k.token, l.ended_why = {ENDED_BROKEN}, l.idle_since = k.t, b.noted = k.t;
SELECT 0,
       CASE WHEN ROW_COUNT() > 0 THEN {DONE}
            WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner IS NOT NULL AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_token = :token THEN {ENDED} + h.ended_why
            WHEN b.noted > 0 THEN {BROKEN}
            WHEN h.token > :token THEN {TAKEN}
            ELSE {NEVER} END,
       h.token, h.exp - {now}, {now}
FROM (SELECT 1 AS one) o LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name
    LEFT JOIN {broken} b ON b.ns = :ns AND b.name = :name AND b.token = :token;

-- For many: notes first, as above. A grant whose note was deleted in between is not broken.
-- :array aside
SET @sqlock_t = {now} - {month};
DELETE FROM {broken} WHERE noted BETWEEN -@sqlock_t AND @sqlock_t ORDER BY noted LIMIT 100;
INSERT INTO {broken} (ns, name, token, noted)
SELECT h.ns, h.name, h.token, -{now}
FROM ({breaks}) i STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = i.ns AND h.name = i.name
WHERE h.kind = 0 AND h.owner IS NOT NULL AND h.token = i.token
ON DUPLICATE KEY UPDATE noted = IF({broken}.noted > 0, {broken}.noted, -{now});
-- :array
START TRANSACTION;
SELECT GROUP_CONCAT(k.ord) INTO @sqlock_mine
FROM (SELECT i.ord FROM ({breaks}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
      STRAIGHT_JOIN {broken} b FORCE INDEX (PRIMARY) ON b.ns = c.ns AND b.name = c.name AND b.token = c.token
      WHERE c.kind = 0 AND c.owner IS NOT NULL AND c.token = i.token LIMIT 1000000 {skip}) k;
UPDATE (
    SELECT c.ns, c.name, c.owner, c.token, {now} AS t
    FROM ({breaks}) i STRAIGHT_JOIN {lock} c FORCE INDEX (PRIMARY) ON c.ns = i.ns AND c.name = i.name
    WHERE FIND_IN_SET(i.ord, @sqlock_mine)
    LIMIT 1000000 {skip}
) k STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = k.ns AND l.name = k.name
    AND l.owner = k.owner AND l.token = k.token
STRAIGHT_JOIN {broken} b FORCE INDEX (PRIMARY) ON b.ns = k.ns AND b.name = k.name AND b.token = k.token
SET l.owner = NULL, l.exp = NULL, l.since = NULL, l.label = NULL, l.ended_owner = k.owner,
    l.ended_token = k.token, l.ended_why = {ENDED_BROKEN}, l.idle_since = k.t, b.noted = k.t;
SELECT i.ord, {DONE}, i.token, NULL, {now} FROM ({breaks}) i WHERE FIND_IN_SET(i.ord, @sqlock_mine);
COMMIT;

-- :block was_broken
-- Follows an answer that others came since (TAKEN): was this very grant broken? It had ended by then, so what is seen
-- now was so already. No row: it was not broken, or the break left no note (an older schema, an older library).
-- :step
SELECT 0, {BROKEN} FROM {broken} b WHERE b.ns = :ns AND b.name = :name AND b.token = :token AND b.noted > 0;

-- :block queue
-- Grants or offers a lock that others wait for, or puts this owner into the queue. Sent after acquire was refused.
-- Each statement has a snapshot of its own (READ COMMITTED). The first one locks the row; all that follow see the queue
-- as it is, because it changes only under that lock. What they find is kept in the session, and what they change is
-- made of that. So the order of assignments does not matter. A change reads no other table, so it locks only what it
-- changes: the row, waiters of this name, and a client that is late.
-- The first one waits for the row's lock, which is never kept for longer than such a request takes. To step over a locked
-- row, and to try again, took three requests for each grant, where 256 waited. It holds nothing while it waits, so it is in
-- no deadlock. If a statement fails, the transaction is rolled back.
-- A key that is compared with NULL finds no row, and locks none.
-- The entry of nt is locked only where the token would change: the holder's guard lets others queue behind it.
-- A free lock goes to the first waiter whose client lives. If that is this owner, or if none lives, it is granted at
-- once, with its whole lease. To another one it is offered: granted for a short time, in which it must extend it by
-- acquire. An offer or a turn that ran out counts its client as dead, until it says again that it lives: a program with many
-- waiters costs the others one offer, not one for each.
-- Waiters that are passed over lose their place, and queue anew when they find out. Those are all before the first one
-- that lives.
-- A waiter that comes with an owner whose row in the queue is of a client that is dead takes that place: its program was
-- started again. The row (@sqlock_kept) is made anew, with the same ticket. While that client lives, it keeps the place.
-- The row may have been deleted while there were waiters, and made anew: tickets go on behind theirs.
-- During its grace after a loss a waiter is offered nothing, and no other before it.
-- :waits = 0: not to be queued; but whoever finds the lock free with waiters passes it on.
-- UNLIKE: someone waits, in the queue or with the turn, in a mode that does not go with this one. It is not queued.
-- place: 1 is the next in line; NULL: not in the queue. Who is not the next counts dead ones too, until a grant or an offer
-- passes them over. That takes no look at their clients.
-- TURN: it was granted, but others may have seats. Seats are taken and given up under the lock of this row.
-- No row: nothing was decided, and the look says why.
-- act: 0 no grant, 1 granted to this owner, 2 offered to another one.
-- The first step, on MariaDB, is for who has waited (:again): mostly it was offered the lock, and this takes the offer up.
-- It is the offer's grant, so its token stays. No guard can stand on it, and the queue does not change. It waits for no
-- row. If a newcomer has just locked this one, the second step waits for that.
-- :step nowait with again
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    token = LAST_INSERT_ID(token), exp = (@sqlock_t := {now}) + (@sqlock_ttl := :ttl), ttl = :ttl, label = :label,
    offered = 0
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND offered = 1 AND exp > {now} AND seats = 0
  AND NOT (ended_owner <=> :owner AND ended_why = {ENDED_RELEASED}) AND NOT (withdrawn <=> :owner)
  AND {now} <= :not_after AND :again = 1
  AND token > (SELECT m.fence_floor FROM {meta} m WHERE m.id = 1 AND {met});
SELECT 0, {DONE}, LAST_INSERT_ID(), @sqlock_ttl, @sqlock_t FROM DUAL WHERE ROW_COUNT() = 1;
-- :step often
START TRANSACTION;
SELECT MAX(c.token), MAX(c.owner), MAX(c.exp), MAX(c.since), MAX(c.label), MAX(c.client),
       MAX(CASE WHEN c.offered = 1 THEN c.exp WHEN c.seats <> 0 THEN c.exp + {offer} - LEAST(c.ttl, {offer}) END),
       MAX(c.next_ticket), MAX(c.seats), NULL, NULL, NULL, NULL, NULL, NULL
INTO @sqlock_token, @sqlock_owner, @sqlock_exp, @sqlock_since, @sqlock_label, @sqlock_client, @sqlock_late_at,
     @sqlock_ticket, @sqlock_seats, {waiter_into}
FROM {lock} c FORCE INDEX (PRIMARY)
WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
  AND NOT (c.ended_why = {ENDED_RELEASED} AND c.ended_owner <=> :owner) AND NOT (c.withdrawn <=> :owner)
FOR UPDATE;
SELECT {now}, MAX(m.fence_floor), MAX({grace_end}), MAX(m.lost_at), MAX(m.longest)
INTO @sqlock_t, @sqlock_floor, @sqlock_grace, @sqlock_lost, @sqlock_longest
FROM {meta} m WHERE m.id = 1 AND {known} AND @sqlock_token IS NOT NULL AND {now} <= :not_after;
SELECT COALESCE(@sqlock_floor IS NOT NULL AND @sqlock_owner = :owner AND @sqlock_exp > @sqlock_t, 0),
       COALESCE(@sqlock_floor IS NOT NULL AND (@sqlock_owner IS NULL OR @sqlock_exp <= @sqlock_t)
                AND @sqlock_t >= @sqlock_grace, 0),
       IF(@sqlock_late_at <= @sqlock_t AND @sqlock_client <> :client, @sqlock_client, NULL),
       (SELECT MAX(w.ticket) FROM {waiter} w FORCE INDEX (PRIMARY)
        WHERE w.ns = :ns AND w.name = :name AND w.owner = :owner),
       GREATEST(@sqlock_ticket, COALESCE((SELECT MAX(w.ticket) FROM {waiter} w FORCE INDEX (PRIMARY)
                                          WHERE w.ns = :ns AND w.name = :name), 0)) + 1,
       IF(:waits = 1, COALESCE({unlike_mode}, IF(@sqlock_seats <> 0 AND GREATEST(@sqlock_seats, 0) <> GREATEST(:mode, 0)
              AND EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = :ns AND {seats} AND s.exp > @sqlock_t),
              @sqlock_seats, NULL)), NULL)
INTO @sqlock_own, @sqlock_free, @sqlock_late, @sqlock_mine, @sqlock_ticket, @sqlock_unlike;
SELECT COUNT(*) INTO @sqlock_open
FROM {lock} e FORCE INDEX (nt)
WHERE e.ns = :ns AND e.name = :name AND e.token = IF(@sqlock_own OR @sqlock_free, @sqlock_token, NULL) {skip};
SELECT {waiter_of}
INTO {waiter_into}
FROM {waiter} w FORCE INDEX (PRIMARY) LEFT JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = w.client
WHERE w.ns = IF(@sqlock_free, :ns, NULL) AND w.name = :name
  AND (w.ticket = IF(:waits = 1 AND @sqlock_unlike IS NULL, @sqlock_mine, NULL)
       OR NOT (w.client <=> @sqlock_late) AND (w.client = :client OR {living}))
ORDER BY w.ns, w.name, w.ticket LIMIT 1;
SELECT CASE WHEN @sqlock_open = 0 THEN 0
            WHEN @sqlock_own OR @sqlock_to IS NULL OR @sqlock_to = :owner THEN 1
            WHEN @sqlock_t < @sqlock_to_grace THEN 0
            ELSE 2 END,
       (SELECT MAX(w.ticket) FROM {waiter} w FORCE INDEX (PRIMARY) LEFT JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = w.client
        WHERE w.ns = :ns AND w.name = :name AND w.ticket = @sqlock_mine AND w.client <> :client
          AND (w.client <=> @sqlock_late OR NOT {living}))
INTO @sqlock_act, @sqlock_kept;
SELECT @sqlock_floor IS NOT NULL AND @sqlock_act <> 1 AND @sqlock_mine <=> @sqlock_kept AND :waits = 1 AND @sqlock_unlike IS NULL,
       @sqlock_act <> 1 AND @sqlock_mine <=> @sqlock_kept AND @sqlock_unlike IS NOT NULL,
       CAST(IF(@sqlock_act = 0 OR @sqlock_own, 0, COALESCE(@sqlock_head, {last_ticket})) AS SIGNED),
       CAST(COALESCE(CASE WHEN @sqlock_act = 1 THEN @sqlock_mine WHEN :waits = 1 AND @sqlock_unlike IS NULL THEN @sqlock_kept END, 0) AS SIGNED),
       CAST(CASE WHEN @sqlock_act = 1 THEN 0 WHEN :waits = 1 AND @sqlock_unlike IS NULL THEN COALESCE(@sqlock_mine, @sqlock_ticket)
            ELSE COALESCE(NULLIF(@sqlock_mine, @sqlock_kept), 0) END AS SIGNED),
       IF(@sqlock_act = 0 OR @sqlock_own AND @sqlock_token > @sqlock_floor, @sqlock_token,
          GREATEST(@sqlock_token, @sqlock_floor) + 1)
INTO @sqlock_comes, @sqlock_refused, @sqlock_upto, @sqlock_gone, @sqlock_mine, @sqlock_new;
SELECT @sqlock_comes OR EXISTS (SELECT 1 FROM {waiter} w FORCE INDEX (PRIMARY)
                                WHERE w.ns = :ns AND w.name = :name AND w.ticket > @sqlock_upto AND w.ticket <> @sqlock_gone),
       IF(EXISTS (SELECT 1 FROM {waiter} w FORCE INDEX (PRIMARY) LEFT JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = w.client
                  WHERE w.ns = :ns AND w.name = :name AND w.ticket > @sqlock_upto AND w.ticket < @sqlock_mine
                    AND (w.client = :client OR {living})),
          (SELECT COUNT(*) FROM {waiter} w FORCE INDEX (PRIMARY)
           WHERE w.ns = :ns AND w.name = :name AND w.ticket > @sqlock_upto AND w.ticket < @sqlock_mine), 0) + 1
INTO @sqlock_more, @sqlock_place;
DELETE {waiter} FROM {waiter} FORCE INDEX (PRIMARY)
WHERE {waiter}.ns = IF(@sqlock_act > 0 OR @sqlock_comes AND @sqlock_gone > 0, :ns, NULL) AND {waiter}.name = :name
  AND ({waiter}.ticket <= @sqlock_upto OR {waiter}.ticket = @sqlock_gone);
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
SELECT :ns, :name, COALESCE(@sqlock_kept, @sqlock_ticket), :owner, :client, :ttl, GREATEST(:grace, 0), :label, @sqlock_t, :mode
FROM DUAL WHERE @sqlock_comes;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    token = @sqlock_new,
    owner = CASE @sqlock_act WHEN 1 THEN :owner WHEN 2 THEN @sqlock_to ELSE owner END,
    exp = CASE @sqlock_act WHEN 1 THEN @sqlock_t + IF(@sqlock_seats = 0, :ttl, {turn_lasts}) WHEN 2 THEN @sqlock_t + {offer} ELSE exp END,
    ttl = CASE @sqlock_act WHEN 1 THEN :ttl WHEN 2 THEN @sqlock_to_ttl ELSE ttl END,
    since = IF(@sqlock_act = 0 OR @sqlock_own, since, @sqlock_t),
    label = CASE @sqlock_act WHEN 1 THEN :label WHEN 2 THEN @sqlock_to_label ELSE label END,
    client = CASE @sqlock_act WHEN 1 THEN :client WHEN 2 THEN @sqlock_to_client ELSE client END,
    offered = CASE @sqlock_act WHEN 1 THEN 0 WHEN 2 THEN 1 ELSE offered END,
    passes = IF(@sqlock_act = 0 OR @sqlock_own, passes, 0),
    ended_owner = IF(@sqlock_act = 0 OR @sqlock_own OR @sqlock_owner IS NULL, ended_owner, @sqlock_owner),
    ended_token = IF(@sqlock_act = 0 OR @sqlock_own OR @sqlock_owner IS NULL, ended_token, @sqlock_token),
    ended_why = IF(@sqlock_act = 0 OR @sqlock_own OR @sqlock_owner IS NULL, ended_why, {ENDED_TAKEN}),
    idle_since = IF(@sqlock_act = 0, idle_since, NULL), changes = changes + 1,
    waiters = @sqlock_more, next_ticket = IF(@sqlock_more, IF(@sqlock_comes, @sqlock_ticket, next_ticket), 0)
WHERE ns = IF(@sqlock_act > 0 OR @sqlock_comes, :ns, NULL) AND name = :name;
UPDATE {client} SET alive_until = 0 WHERE id = IF(@sqlock_act > 0, @sqlock_late, NULL);
SELECT 0,
       CASE WHEN @sqlock_act = 1 THEN IF(@sqlock_seats = 0, {DONE}, {TURN})
            WHEN @sqlock_refused THEN {UNLIKE}
            WHEN @sqlock_act = 2 OR @sqlock_exp > @sqlock_t THEN {HELD}
            WHEN @sqlock_t < @sqlock_grace OR @sqlock_t < @sqlock_to_grace THEN {GRACE}
            ELSE {SKIPPED} END,
       CAST(IF(@sqlock_refused, @sqlock_unlike, IF(@sqlock_act = 1 OR @sqlock_seats = 0, @sqlock_new, 0)) AS SIGNED),
       CAST(CASE WHEN @sqlock_act = 1 THEN IF(@sqlock_seats = 0, :ttl, {turn_lasts})
                 WHEN @sqlock_act = 2 THEN {offer}
                 WHEN @sqlock_exp > @sqlock_t THEN @sqlock_exp - @sqlock_t
                 WHEN @sqlock_t < @sqlock_grace THEN @sqlock_grace - @sqlock_t
                 WHEN @sqlock_t < @sqlock_to_grace THEN @sqlock_to_grace - @sqlock_t
                 ELSE @sqlock_exp - @sqlock_t END AS SIGNED),
       CAST(@sqlock_t AS SIGNED), CAST(IF(@sqlock_act = 0 OR @sqlock_own, @sqlock_since, @sqlock_t) AS SIGNED),
       CAST(CASE @sqlock_act WHEN 1 THEN :label WHEN 2 THEN @sqlock_to_label ELSE @sqlock_label END AS BINARY),
       CAST(IF(@sqlock_mine > 0, @sqlock_place, NULL) AS SIGNED),
       CAST(IF(@sqlock_act = 2, @sqlock_to_client, NULL) AS BINARY), CAST(IF(@sqlock_act = 2, @sqlock_to, NULL) AS BINARY)
FROM DUAL WHERE @sqlock_floor IS NOT NULL;
COMMIT;
-- :step look
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT {known} THEN {STRANGER}
            WHEN h.withdrawn = :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner THEN {RELEASED}
            WHEN {now} > :not_after THEN {LATE}
            ELSE {SKIPPED} END,
       h.token, h.exp - {now}, {now}, h.since, h.label
FROM {meta} m STRAIGHT_JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;

-- :block leave
-- Takes an owner that waits no longer out of the queue, and gives back what it was given meanwhile. With :gives = 1 that is
-- all that it has, since no one else has the owner; with 2 no more than an offer or a turn; with 0 nothing. It locks and decides as `queue` does, but
-- grants nothing. SKIPPED: try again. No row: the lock has none.
-- :step often
START TRANSACTION;
SELECT MAX(c.token),
       MAX(IF(c.owner = :owner AND (:gives = 1 OR :gives = 2 AND (c.offered = 1 OR c.seats <> 0)), c.token, NULL))
INTO @sqlock_token, @sqlock_own
FROM {lock} c FORCE INDEX (PRIMARY) WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 FOR UPDATE;
SELECT {now}, MAX(IF(w.owner = :owner, w.ticket, NULL)), COALESCE(SUM(w.owner <> :owner), 0) > 0,
       MIN(IF(w.owner = :owner, NULL, w.ticket))
INTO @sqlock_t, @sqlock_mine, @sqlock_more, @sqlock_head
FROM {waiter} w FORCE INDEX (PRIMARY)
WHERE w.ns = IF(@sqlock_token IS NULL, NULL, :ns) AND w.name = :name;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    owner = IF(@sqlock_own IS NULL, owner, NULL), exp = IF(@sqlock_own IS NULL, exp, NULL),
    since = IF(@sqlock_own IS NULL, since, NULL), label = IF(@sqlock_own IS NULL, label, NULL),
    offered = IF(@sqlock_own IS NULL, offered, 0),
    ended_owner = IF(@sqlock_own IS NULL, ended_owner, :owner),
    ended_token = IF(@sqlock_own IS NULL, ended_token, @sqlock_own),
    ended_why = IF(@sqlock_own IS NULL, ended_why, {ENDED_RELEASED}),
    idle_since = IF(@sqlock_own IS NULL, idle_since, @sqlock_t),
    waiters = @sqlock_more, changes = changes + 1, next_ticket = IF(@sqlock_more, next_ticket, 0)
WHERE ns = IF(@sqlock_own IS NULL AND @sqlock_mine IS NULL, NULL, :ns) AND name = :name;
DELETE {waiter} FROM {waiter} FORCE INDEX (PRIMARY)
WHERE {waiter}.ns = :ns AND {waiter}.name = :name AND {waiter}.ticket = @sqlock_mine;
SELECT MAX(w.owner), MAX(w.client) INTO @sqlock_to, @sqlock_to_client
FROM {waiter} w FORCE INDEX (PRIMARY)
WHERE w.ns = :ns AND w.name = :name AND w.ticket = IF(@sqlock_own IS NULL, NULL, @sqlock_head);
SELECT 0, IF(@sqlock_token IS NULL, {SKIPPED}, {DONE}), h.token, NULL, {now}, NULL, NULL, NULL,
       CAST(@sqlock_to_client AS BINARY), CAST(@sqlock_to AS BINARY)
FROM {lock} h WHERE h.ns = :ns AND h.name = :name;
COMMIT;

-- :block beat
-- The client lives, for :alive from now on, and {alive} at most (0: it is closed, and its waiters are passed over): it looks often here, and nothing else shows that it was
-- killed. Nothing is written while it has more than half of that left: then the first step answers.
-- Answers with all that wait for it, and how long the lock's lease still runs. An owner that is missing was offered the
-- lock, or passed over: it looks by itself. One that the client does not know is to leave. The first row only says that it
-- was done.
-- The place of a client's first waiter for a name is as in queue. The others are behind it, and for them the lease
-- seems to run for a month: they look when they have become the first. Their places take a look at the whole queue. So
-- only the second step says them, and the first one does not (NULL).
-- Clients that ended an hour ago go. Each beat that writes looks at ten clients by their keys, without a lock, and deletes
-- the dead ones among them. So does the first beat of a client that waits for a moment: who makes a row takes rows away. The
-- delete finds its rows one by one, and judges each once more under its lock, since a client may have come to life again. No
-- beat locks the row of another client that lives.
-- :step often
SELECT 0, {DONE}, 0, NULL, {now}, NULL, NULL, NULL
FROM {client} p FORCE INDEX (PRIMARY)
WHERE p.id = :client AND :alive > 0 AND p.alive_until > {start} + LEAST(:alive, {alive}) / 2
UNION ALL
SELECT 0, {DONE}, IF(f.ticket IS NULL, NULL, {first_place}), {told}
FROM {client} a FORCE INDEX (PRIMARY) STRAIGHT_JOIN {waiting}
WHERE a.id = :client AND :alive > 0 AND a.alive_until > {start} + LEAST(:alive, {alive}) / 2 AND w.client = a.id;
-- :step
INSERT INTO {client} (id, alive_until, session)
VALUES (:client, (@sqlock_t := {now}) + LEAST(:alive, {alive}), :session)
ON DUPLICATE KEY UPDATE alive_until = VALUES(alive_until), session = :session;
SELECT 0, {DONE}, 0 * ((@sqlock_dead := (SELECT GROUP_CONCAT(p.id SEPARATOR '') FROM ({ten}) p
                                         WHERE p.alive_until < @sqlock_t - {gone})) IS NULL),
       NULL, @sqlock_t, NULL, NULL, NULL FROM DUAL
UNION ALL
SELECT 0, {DONE}, IF(f.ticket IS NULL, q.place, {first_place}), {told}
FROM {waiting} LEFT JOIN ({places}) q ON q.ns = w.ns AND q.name = w.name AND q.ticket = w.ticket
WHERE w.client = :client;
DELETE {client} FROM {client} FORCE INDEX (PRIMARY)
WHERE {client}.id IN ({dead_from} 1 {dead_end}, {dead_from} 17 {dead_end}, {dead_from} 33 {dead_end},
                      {dead_from} 49 {dead_end}, {dead_from} 65 {dead_end}, {dead_from} 81 {dead_end},
                      {dead_from} 97 {dead_end}, {dead_from} 113 {dead_end}, {dead_from} 129 {dead_end},
                      {dead_from} 145 {dead_end})
  AND {client}.alive_until < @sqlock_t - {gone};

-- :block waiters
-- A page of those who wait, in the order of their places, behind the ticket :ticket of the name :after, and of names
-- below :below. Only those who live: others are passed over. The client is looked up for each row.
-- First on each name (ticket 0), who has the turn and waits with it for the seats beside the lock.
-- The bounds are two ranges of one key. The server does not read a comparison of rows as one.
-- :step
(SELECT 0, {DONE}, 0 AS ticket, NULL, {now}, l.since, l.label, l.name AS name, l.owner, GREATEST(l.seats, 0), l.client
 FROM {lock} l FORCE INDEX (PRIMARY)
 WHERE l.ns = :ns AND l.name >= :after AND l.name < :below AND (:ticket < 0 OR l.name <> :after)
   AND l.kind = 0 AND l.seats <> 0 AND l.owner IS NOT NULL AND l.exp > {now}
 ORDER BY l.ns, l.name LIMIT :limit)
UNION ALL
(SELECT 0, {DONE}, w.ticket, NULL, {now}, w.since, w.label, w.name, w.owner, w.mode, w.client
 FROM {waiter} w FORCE INDEX (PRIMARY)
 WHERE w.ns = :ns AND (w.name = :after AND w.ticket > :ticket OR w.name > :after AND w.name < :below)
   AND (SELECT p.alive_until > {now} FROM {client} p FORCE INDEX (PRIMARY) WHERE p.id = w.client)
 ORDER BY w.ns, w.name, w.ticket LIMIT :limit)
ORDER BY name, ticket LIMIT :limit;

-- :block pass
-- The release of a lock that others wait for: it passes the lock on. To whom:
-- - The first waiter of this client in the queue, or, if it has none there, :next, which waits in the client alone. It
--   is granted the lock at once, with its whole lease. But only so often in a row, and not the turn beside seats: a writer
--   would wait for all its readers.
-- - Then the first waiter whose client lives. The lock is offered to it: see queue.
-- :next, if it was not granted the lock, is put into the queue. But if the lock went to one of its own client, and no other
-- client waits, it waits on alone: then the queue is empty soon, and the first step does the rest.
-- :next may be NULL. Late requests (:not_after) pass nothing on to it: it may not wait any more. So it is if others wait
-- in a mode that does not go with its own: it looks by itself, and is refused.
-- The lock is only freed by the third step, and a waiter looks later,
-- - if a guard stands in the way, or the server is another one;
-- - in the waiter's grace after a loss: another holder, whose grant this server has lost, may still believe in it.
-- All else is as in release, and it decides as queue does.
-- The first step is for an empty queue, on MariaDB. There :next needs no place, whatever comes. It waits for no row, and
-- takes the entry of nt as acquire does.
-- place: not NULL: :next is in the queue.
-- grant: 0 also where others may have seats. The next holder has only the turn then.
-- :step nowait with next
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = owner, ended_token = (@sqlock_given := token), ended_why = {ENDED_RELEASED},
    token = LAST_INSERT_ID(token + 1), since = {start},
    exp = (@sqlock_t := {now}) + (@sqlock_ttl := :ttl), ttl = :ttl, label = :label, offered = 0,
    seats = (@sqlock_seats := seats),
    passes = LEAST(passes + 1, {passes}), client = (@sqlock_to_client := :client), owner = (@sqlock_to := :next)
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token AND waiters = 0
  AND :next IS NOT NULL AND {now} <= :not_after AND NOT (withdrawn <=> :next)
  AND token >= (SELECT m.fence_floor FROM {meta} m WHERE m.id = 1 AND {met} AND {grace_end} <= {start});
SELECT 0, {DONE}, @sqlock_given, NULL, @sqlock_t, NULL, NULL, NULL, CAST(@sqlock_to_client AS BINARY),
       CAST(@sqlock_to AS BINARY), LAST_INSERT_ID(), @sqlock_ttl, @sqlock_seats = 0
FROM DUAL WHERE ROW_COUNT() = 1;
-- :step often
START TRANSACTION;
SELECT MAX(c.token), MAX(IF(c.seats = 0, c.passes, {passes})), MAX(c.next_ticket), MAX(:next IS NOT NULL AND NOT (c.withdrawn <=> :next)),
       MAX(c.seats), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
INTO @sqlock_token, @sqlock_passes, @sqlock_ticket, @sqlock_waits, @sqlock_seats, @sqlock_first, @sqlock_own, {waiter_into}
FROM {lock} c FORCE INDEX (PRIMARY)
WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND c.owner = :owner AND c.token = :token
FOR UPDATE;
SELECT COUNT(*) INTO @sqlock_open
FROM {lock} e FORCE INDEX (nt) WHERE e.ns = :ns AND e.name = :name AND e.token = @sqlock_token {skip};
SELECT {now}, MAX(IF(@sqlock_open = 1, GREATEST(m.fence_floor, @sqlock_token), NULL)), MAX(m.lost_at), MAX(m.longest),
       MAX(m.server), IF(@sqlock_waits, {unlike_mode} IS NULL, 0)
INTO @sqlock_t, @sqlock_floor, @sqlock_lost, @sqlock_longest, @sqlock_server, @sqlock_waits
FROM {meta} m WHERE m.id = 1 AND {known};
SELECT w.ticket, {waiter_of}
INTO @sqlock_first, {waiter_into}
FROM {waiter} w FORCE INDEX (PRIMARY) STRAIGHT_JOIN {client} p FORCE INDEX (PRIMARY) ON p.id = w.client
WHERE w.ns = IF(@sqlock_floor IS NULL, NULL, :ns) AND w.name = :name AND {living}
ORDER BY w.ns, w.name, w.ticket LIMIT 1;
SELECT w.ticket, {waiter_of}
INTO @sqlock_own, {waiter_into}
FROM {client} p FORCE INDEX (PRIMARY) STRAIGHT_JOIN {waiter} w FORCE INDEX (by_client) ON w.client = p.id
WHERE p.id = IF(@sqlock_floor IS NOT NULL AND @sqlock_passes < {passes}, :client, NULL) AND {living}
  AND w.ns = :ns AND w.name = :name
ORDER BY w.client, w.ns, w.name, w.ticket LIMIT 1;
SELECT COALESCE(@sqlock_waits AND @sqlock_t <= :not_after, 0),
       COALESCE(@sqlock_waits AND @sqlock_t <= :not_after AND @sqlock_own IS NULL
                AND (@sqlock_passes < {passes} OR @sqlock_first IS NULL), 0),
       (SELECT MAX(w.ticket) FROM {waiter} w FORCE INDEX (PRIMARY)
        WHERE w.ns = :ns AND w.name = :name AND w.owner = :next),
       GREATEST(@sqlock_ticket, COALESCE((SELECT MAX(w.ticket) FROM {waiter} w FORCE INDEX (PRIMARY)
                                          WHERE w.ns = :ns AND w.name = :name), 0)) + 1,
       CAST(COALESCE(@sqlock_first, {last_ticket}) AS SIGNED)
INTO @sqlock_waits, @sqlock_gets, @sqlock_mine, @sqlock_ticket, @sqlock_first;
SELECT IF(@sqlock_gets, COALESCE(@sqlock_mine, 0), @sqlock_head), IF(@sqlock_gets, :next, @sqlock_to),
       IF(@sqlock_gets, :client, @sqlock_to_client), IF(@sqlock_gets, :ttl, @sqlock_to_ttl),
       IF(@sqlock_gets, :label, @sqlock_to_label),
       IF(@sqlock_gets, @sqlock_lost + LEAST(@sqlock_longest, GREATEST(:grace, 0)), @sqlock_to_grace),
       @sqlock_gets OR @sqlock_own IS NOT NULL
INTO {waiter_into}, @sqlock_own;
SELECT IF(@sqlock_t < @sqlock_to_grace, NULL, @sqlock_floor),
       @sqlock_waits AND NOT @sqlock_gets AND @sqlock_mine IS NULL
       AND (NOT @sqlock_own OR EXISTS (SELECT 1 FROM {waiter} w FORCE INDEX (PRIMARY)
                                       WHERE w.ns = :ns AND w.name = :name AND w.client <> :client))
INTO @sqlock_floor, @sqlock_comes;
DELETE {waiter} FROM {waiter} FORCE INDEX (PRIMARY)
WHERE {waiter}.ns = IF(@sqlock_floor IS NULL, NULL, :ns) AND {waiter}.name = :name
  AND ({waiter}.ticket < @sqlock_first OR {waiter}.ticket = @sqlock_head);
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since, mode)
SELECT :ns, :name, @sqlock_ticket, :next, :client, :ttl, GREATEST(:grace, 0), :label, @sqlock_t, :mode
FROM DUAL WHERE @sqlock_comes AND @sqlock_floor IS NOT NULL;
SELECT EXISTS (SELECT 1 FROM {waiter} w FORCE INDEX (PRIMARY) WHERE w.ns = :ns AND w.name = :name),
       IF(@sqlock_comes, (SELECT COUNT(*) FROM {waiter} w FORCE INDEX (PRIMARY) WHERE w.ns = :ns AND w.name = :name), NULL)
INTO @sqlock_more, @sqlock_place;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    token = IF(@sqlock_to IS NULL, token, @sqlock_floor + 1), owner = @sqlock_to,
    exp = CASE WHEN @sqlock_to IS NULL THEN NULL WHEN @sqlock_own THEN @sqlock_t + @sqlock_to_ttl
               ELSE @sqlock_t + {offer} END,
    since = IF(@sqlock_to IS NULL, NULL, @sqlock_t), label = @sqlock_to_label, client = @sqlock_to_client,
    ttl = COALESCE(@sqlock_to_ttl, ttl), offered = (@sqlock_to IS NOT NULL AND NOT @sqlock_own),
    passes = IF(@sqlock_own, LEAST(passes + 1, {passes}), 0),
    ended_owner = :owner, ended_token = :token, ended_why = {ENDED_RELEASED},
    idle_since = IF(@sqlock_to IS NULL, @sqlock_t, NULL), changes = changes + 1,
    waiters = @sqlock_more, next_ticket = IF(@sqlock_more, IF(@sqlock_comes, @sqlock_ticket, next_ticket), 0)
WHERE ns = IF(@sqlock_floor IS NULL, NULL, :ns) AND name = :name;
SELECT 0, {DONE}, :token, NULL, CAST(@sqlock_t AS SIGNED), NULL, NULL, CAST(@sqlock_place AS SIGNED),
       CAST(@sqlock_to_client AS BINARY), CAST(@sqlock_to AS BINARY), CAST(@sqlock_floor + 1 AS SIGNED),
       CAST(IF(@sqlock_own, @sqlock_to_ttl, {offer}) AS SIGNED), @sqlock_own AND @sqlock_seats = 0
FROM DUAL WHERE @sqlock_floor IS NOT NULL;
COMMIT;
-- :step gives now
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = owner, ended_token = token, ended_why = {ENDED_RELEASED}, idle_since = LAST_INSERT_ID({now}),
    exp = NULL, since = NULL, label = NULL, owner = NULL
WHERE ns = :ns AND name = :name AND kind = 0 AND owner = :owner AND token = :token;
-- :step look
SELECT 0,
       CASE WHEN h.name IS NULL THEN {GONE}
            WHEN h.kind <> 0 THEN {KIND}
            WHEN h.owner = :owner AND h.token = :token THEN {SKIPPED}
            WHEN h.ended_owner = :owner AND h.ended_token = :token
                 THEN CASE h.ended_why WHEN {ENDED_RELEASED} THEN {DONE} ELSE {ENDED} + h.ended_why END
            ELSE {TAKEN} END,
       h.token, h.exp - {now}, {now}, NULL, NULL, NULL, h.client, h.owner
FROM (SELECT 1 AS one) o LEFT JOIN {lock} h ON h.ns = :ns AND h.name = :name;

-- :block seat
-- Grants a shared holder, or the holder of a slot, a row of its own, a seat. Sent for a lock that is free, or by who has
-- the turn: it owns the lock's row.
-- It locks the lock's row, as queue does, and waits for it. Seats are taken, and the turn given back, only under that
-- lock. So the statements that follow see the seats as they are. But leases end, and are renewed, at any time: a seat
-- is granted only if its locked row is still as it was seen. Two that come at once are granted two seats, and the same
-- request twice one. Everything goes by the range of the name's seats in the primary key.
-- Then the row's entry of nt is locked without waiting: an exclusive holder's guard keeps all seats out. A seat that
-- has a guard, or that others have locked, is passed over as if it was taken. Locks are taken in the order of keys. Who
-- has locked a seat never waits for the lock's row.
-- Which seat: the one that this owner has, else the first one that is empty or has run out, else a new row with the
-- first number that has none. If an own seat cannot be locked, no other one is granted.
-- Its own seat whose lease runs is granted to the owner again, whoever has the turn by now: otherwise it would wait for
-- itself. It keeps its token, as in a renewal, and only its own turn is given back. As in acquire, a token that is not
-- above the floor is drawn anew, but not from a row that is another one's.
-- Any other grant draws its token from the lock's row, and both rows get it. So it is above all tokens of the name, and
-- the guard of an exclusive holder who was here before finds another entry.
-- :turn = 1: only for an owner that has the turn, or its seat already. Then no other grant came in between: an exclusive
-- holder becomes a shared one. Otherwise the answer says how the turn has ended (EXPIRED, BROKEN ...).
-- The turn is given back here, and ends as a release does (RELEASED), so that a request for it that comes late is
-- granted nothing. But if others wait, it is kept for `pass` (kept). There is one case in which that could not name the
-- grant: a turn that came to the owner of a seat later. Then it is freed, and a waiter looks later.
-- UNLIKE: the lock has seats of another kind. FULL: all slots are taken, or passed over. GUARDED: all are passed over, no
-- lease runs in any of them, and no one is writing one: guards stand there.
-- RELEASED is what the seats say, and the tombstone of `unseat`. The end of the turn counts only if there is no sign of a
-- seat: the turn was given up without one.
-- No row: nothing was decided, and the look says why, or the lock has no row yet. Then it is made as in acquire. HELD is
-- said there to a caller that is too late, but not to one that may have a seat.
-- The first step grants most seats, on MariaDB, and waits for no row. A look finds out whether the owner was here before,
-- or an empty seat has a larger token than the lock (then it decides nothing), and whether there is an empty seat. Then
-- one UPDATE goes through the rows in the order of keys. The first is the lock's row: it must be free, and have counted no
-- more seats than the look has seen. The second is the first seat that is empty. It gets the next token of the lock's row.
-- Guards keep it out as in acquire. If only the lock's row was changed, nothing is lost but a token.
-- The token is drawn where the lock's row is judged, by IF: an AND goes on behind a condition that is NULL, and two seats
-- would be changed without the lock's row.
-- The second step refuses, without a lock, whoever comes while another one has the lock or its turn, or others wait, or
-- all slots are taken. Many that try would otherwise stand in a line for the lock's row, and keep its holder from
-- renewing: a lease of 1.5 s ran out beside three of them. And on a busy server no one was granted a slot for two seconds:
-- when a request came to the row, its caller had given up. Who was here before, or has a turn to give back, goes on.
-- A new seat waits for no guard of the name behind it (REPEATABLE READ locks the gap before the guarded entry of nt): it
-- would keep the lock's row locked meanwhile.
-- Values of act: 0 no grant, 1 of a seat that is there, 2 of a new one.
-- :step nowait
SELECT IF(SUM(s.owner = :owner OR s.ended_owner = :owner) > 0 OR SUM(s.name <> :name AND s.owner IS NULL) = 0
          OR MAX(IF(s.owner IS NULL, s.token, 0)) > MAX(IF(s.name = :name, s.token, 0))
          OR SUM(s.name = :name AND (s.waiters <> 0 OR s.owner IS NOT NULL AND s.exp > {now})) > 0,
          NULL, MAX(IF(s.name = :name, s.changes, NULL))), NULL, NULL
INTO @sqlock_changes, @sqlock_new, @sqlock_rows
FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = :ns AND (s.name = :name OR {seats});
{at_once} UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = COALESCE(owner, ended_owner),
    ended_token = IF(owner IS NULL, ended_token, token),
    ended_why = IF(owner IS NULL, ended_why, {ENDED_TAKEN}),
    token = @sqlock_new, since = IF(name = :name, NULL, {start}),
    exp = IF(name = :name, NULL, (@sqlock_t := {now}) + (@sqlock_ttl := :ttl)), ttl = IF(name = :name, ttl, :ttl),
    label = IF(name = :name, NULL, :label), seats = IF(name = :name, :seats, seats), changes = changes + (name = :name),
    idle_since = NULL, client = NULL, offered = 0, owner = IF(name = :name, NULL, :owner)
WHERE ns = IF(@sqlock_changes IS NULL, NULL, :ns)
  AND name >= :name AND name < IF(:seats > 0, {seat_key} :seats {key_end}, CONCAT(:name, X'01'))
  AND IF(name = :name,
         (@sqlock_new := IF(changes = @sqlock_changes AND kind = 0 AND (owner IS NULL OR exp <= {start}) AND waiters = 0
                            AND seats IN (0, :seats) AND :turn = 0 AND {now} <= :not_after AND NOT (withdrawn <=> :owner)
                            AND token >= (SELECT m.fence_floor FROM {meta} m
                                          WHERE m.id = 1 AND {met} AND {grace_end} <= {start}),
                            token + 1, NULL)) IS NOT NULL,
         kind = 0 AND (owner IS NULL OR exp <= {start}) AND token < @sqlock_new AND (@sqlock_seat := name) IS NOT NULL)
ORDER BY ns, name LIMIT 2;
SET @sqlock_rows = ROW_COUNT();
SELECT 0, {DONE}, @sqlock_new, @sqlock_ttl, @sqlock_t, NULL, NULL, {number_of} @sqlock_seat {of}, 0
FROM DUAL WHERE @sqlock_rows = 2;
-- :step aside
SELECT 0,
       CASE WHEN h.owner <> :owner AND h.exp > x.t THEN IF(:turn = 0 AND h.seats NOT IN (0, :seats), {UNLIKE}, {HELD})
            WHEN h.waiters <> 0 THEN {QUEUED} ELSE {FULL} END,
       CASE WHEN NOT COALESCE(h.owner <> :owner AND h.exp > x.t, 0) THEN IF(h.waiters <> 0, h.token, f.token)
            WHEN h.seats = 0 THEN h.token
            WHEN :turn = 0 AND h.seats <> :seats THEN h.seats ELSE 0 END,
       CASE WHEN h.owner <> :owner AND h.exp > x.t THEN h.exp - x.t
            WHEN h.waiters = 0 THEN GREATEST(CAST(f.exp AS SIGNED) - x.t, 0) END,
       x.t, IF(h.owner IS NULL AND h.waiters = 0, f.since, h.since), IF(h.owner IS NULL AND h.waiters = 0, f.label, h.label),
       {number_of} f.name {of}, 0
FROM (SELECT {now} AS t, SUM(s.exp > {now}) AS taken, MIN(IF(s.exp > {now}, s.exp, NULL)) AS ends
      FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = :ns AND {seats} LIMIT 1) x
STRAIGHT_JOIN {meta} m STRAIGHT_JOIN {lock} h FORCE INDEX (PRIMARY) ON h.ns = :ns AND h.name = :name
LEFT JOIN {lock} f FORCE INDEX (PRIMARY)
    ON f.ns = :ns AND f.name > CONCAT(:name, X'00') AND f.name < CONCAT(:name, X'01') AND f.exp = x.ends
WHERE m.id = 1 AND {met} AND h.kind = 0
  AND (h.owner <> :owner AND h.exp > x.t
       OR (h.waiters <> 0 AND NOT (h.owner <=> :owner AND h.exp > x.t)
           OR h.owner IS NULL AND h.seats = :seats AND x.taken >= :seats AND x.ends IS NOT NULL AND :seats > 0)
          AND :turn = 0 AND x.t <= :not_after AND {grace_end} <= x.t)
  AND NOT (h.withdrawn <=> :owner OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner <=> :owner)
  AND NOT EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY)
                  WHERE s.ns = :ns AND {seats} AND (s.owner = :owner OR s.ended_owner = :owner))
LIMIT 1;
-- :step often
START TRANSACTION;
SELECT MAX(c.token), MAX(c.owner), MAX(c.exp), MAX(c.since), MAX(c.label), MAX(c.waiters), MAX(c.seats),
       MAX(c.ended_why = {ENDED_RELEASED} AND c.ended_owner <=> :owner), MAX(IF(c.ended_owner = :owner, c.ended_why, NULL)),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
INTO @sqlock_token, @sqlock_owner, @sqlock_exp, @sqlock_since, @sqlock_label, @sqlock_more, @sqlock_seats, @sqlock_gave,
     @sqlock_why, @sqlock_seat, @sqlock_old, @sqlock_former, @sqlock_until, @sqlock_began,
     @sqlock_by, @sqlock_by_exp, @sqlock_by_since, @sqlock_by_label, @sqlock_by_number
FROM {lock} c FORCE INDEX (PRIMARY)
WHERE c.ns = :ns AND c.name = :name AND c.kind = 0 AND NOT (c.withdrawn <=> :owner)
FOR UPDATE;
SELECT {now}, MAX(m.fence_floor), MAX({grace_end})
INTO @sqlock_t, @sqlock_floor, @sqlock_grace
FROM {meta} m WHERE m.id = 1 AND {known} AND @sqlock_token IS NOT NULL AND {now} <= :not_after;
SELECT MAX(IF(s.owner = :owner, s.name, NULL)),
       COALESCE(MAX(s.owner = :owner AND s.exp > @sqlock_t), 0),
       COALESCE(MAX(s.owner = :owner AND s.exp > @sqlock_t AND s.token > @sqlock_floor), 0),
       COALESCE(MAX(s.ended_owner = :owner AND s.ended_why = {ENDED_RELEASED}), 0)
       OR @sqlock_gave AND COALESCE(MAX(s.owner = :owner OR s.ended_owner = :owner), 0) = 0,
       MIN(IF(s.owner IS NULL OR s.exp <= @sqlock_t, s.name, NULL)),
       MIN(IF(s.exp > @sqlock_t, s.exp, NULL)), COUNT(*), MAX(s.name)
INTO @sqlock_mine, @sqlock_alive, @sqlock_above, @sqlock_gone, @sqlock_first, @sqlock_ends, @sqlock_rows, @sqlock_last
FROM {lock} s FORCE INDEX (PRIMARY)
WHERE s.ns = IF(@sqlock_floor IS NULL, NULL, :ns) AND {seats};
SELECT COALESCE(@sqlock_owner = :owner AND @sqlock_exp > @sqlock_t, 0),
       COALESCE(@sqlock_owner IS NULL OR @sqlock_exp <= @sqlock_t, 0),
       IF(:seats > 0, :seats, {most_seats})
INTO @sqlock_own, @sqlock_free, @sqlock_most;
SET @sqlock_runs = @sqlock_above OR @sqlock_alive AND NOT (@sqlock_own OR @sqlock_free AND @sqlock_more = 0);
SET @sqlock_may = COALESCE(@sqlock_floor IS NOT NULL AND @sqlock_gone = 0
                           AND (@sqlock_t >= @sqlock_grace OR @sqlock_alive OR @sqlock_own)
                           AND (:turn = 0 OR @sqlock_own OR @sqlock_alive)
                           AND (@sqlock_runs OR (@sqlock_own OR @sqlock_free AND @sqlock_more = 0)
                                                AND (@sqlock_seats = 0 OR @sqlock_seats = :seats)), 0);
SELECT COUNT(*) INTO @sqlock_open
FROM {lock} e FORCE INDEX (nt)
WHERE e.ns = :ns AND e.name = :name AND e.token = IF(@sqlock_may AND NOT @sqlock_runs, @sqlock_token, NULL) {skip};
SET @sqlock_may = @sqlock_may AND (@sqlock_runs OR @sqlock_open = 1);
SELECT s.name, s.token, s.owner, s.exp, s.since
INTO @sqlock_seat, @sqlock_old, @sqlock_former, @sqlock_until, @sqlock_began
FROM {lock} s FORCE INDEX (PRIMARY)
STRAIGHT_JOIN {lock} e FORCE INDEX (nt) ON e.ns = s.ns AND e.name = s.name AND e.token = s.token
WHERE s.ns = IF(@sqlock_may, :ns, NULL) AND s.name >= COALESCE(@sqlock_mine, @sqlock_first)
  AND s.name < IF(@sqlock_mine IS NULL, IF(:seats > 0, {seat_key} :seats {key_end}, CONCAT(:name, X'01')),
                  CONCAT(@sqlock_mine, X'00'))
  AND s.kind = 0 AND IF(@sqlock_mine IS NULL, s.owner IS NULL OR s.exp <= @sqlock_t, s.owner = :owner)
ORDER BY s.ns, s.name LIMIT 1 {skip};
SELECT CAST(CASE WHEN @sqlock_seat IS NOT NULL THEN {number_of} @sqlock_seat {of}
                 WHEN @sqlock_may = 0 OR @sqlock_mine IS NOT NULL THEN NULL
                 WHEN @sqlock_rows = 0 THEN 0
                 WHEN @sqlock_rows = {number_of} @sqlock_last {of} + 1 THEN @sqlock_rows
                 ELSE (SELECT IF(MIN({number_of} s.name {of}) > 0, 0,
                                 MIN(IF(n.name IS NULL, {number_of} s.name {of} + 1, NULL)))
                       FROM {lock} s FORCE INDEX (PRIMARY) LEFT JOIN {lock} n FORCE INDEX (PRIMARY)
                           ON n.ns = s.ns AND n.name = {seat_key} {number_of} s.name {of} + 1 {key_end}
                       WHERE s.ns = :ns AND {seats}) END AS SIGNED)
INTO @sqlock_number;
SET @sqlock_act = CASE WHEN @sqlock_may = 0 THEN 0 WHEN @sqlock_seat IS NOT NULL THEN 1
                       WHEN @sqlock_mine IS NULL AND @sqlock_number < @sqlock_most THEN 2 ELSE 0 END;
SELECT @sqlock_may AND @sqlock_act = 0 AND @sqlock_mine IS NULL,
       IF(@sqlock_runs, {old}, GREATEST(@sqlock_token, {old}, @sqlock_floor) + 1),
       @sqlock_act > 0 AND (@sqlock_own AND (@sqlock_more = 0 OR @sqlock_runs AND @sqlock_token <> @sqlock_old)
                            OR @sqlock_free AND NOT @sqlock_runs)
INTO @sqlock_full, @sqlock_new, @sqlock_gives;
SELECT s.token, s.exp, s.since, s.label, {number_of} s.name {of}
INTO @sqlock_by, @sqlock_by_exp, @sqlock_by_since, @sqlock_by_label, @sqlock_by_number
FROM {lock} s FORCE INDEX (PRIMARY)
WHERE s.ns = IF(@sqlock_full, :ns, NULL) AND {seats} AND s.exp = @sqlock_ends
LIMIT 1;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = CASE WHEN NOT @sqlock_gives OR @sqlock_owner IS NULL THEN ended_owner ELSE @sqlock_owner END,
    ended_token = IF(NOT @sqlock_gives OR @sqlock_owner IS NULL, ended_token, @sqlock_token),
    ended_why = CASE WHEN NOT @sqlock_gives OR @sqlock_owner IS NULL THEN ended_why
                     WHEN @sqlock_own THEN {ENDED_RELEASED} ELSE {ENDED_TAKEN} END,
    token = IF(@sqlock_runs, token, @sqlock_new), seats = IF(@sqlock_runs, seats, :seats), changes = changes + 1,
    owner = IF(@sqlock_gives, NULL, owner), exp = IF(@sqlock_gives, NULL, exp), since = IF(@sqlock_gives, NULL, since),
    label = IF(@sqlock_gives, NULL, label), client = IF(@sqlock_gives, NULL, client), offered = 0, idle_since = NULL
WHERE ns = IF(@sqlock_act > 0 AND (@sqlock_gives OR NOT @sqlock_runs), :ns, NULL) AND name = :name;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = IF(@sqlock_former IS NULL OR @sqlock_former = :owner AND @sqlock_until > @sqlock_t, ended_owner, @sqlock_former),
    ended_token = IF(@sqlock_former IS NULL OR @sqlock_former = :owner AND @sqlock_until > @sqlock_t, ended_token, @sqlock_old),
    ended_why = IF(@sqlock_former IS NULL OR @sqlock_former = :owner AND @sqlock_until > @sqlock_t, ended_why, {ENDED_TAKEN}),
    token = @sqlock_new, owner = :owner, exp = @sqlock_t + :ttl, ttl = :ttl, since = IF(@sqlock_runs, @sqlock_began, @sqlock_t),
    label = :label, idle_since = NULL, client = NULL, offered = 0
WHERE ns = IF(@sqlock_act = 1, :ns, NULL) AND name = @sqlock_seat;
{at_once} INSERT INTO {lock} (ns, name, owner, token, exp, ttl, since, label)
SELECT :ns, {seat_key} @sqlock_number {key_end}, :owner, @sqlock_new, @sqlock_t + :ttl, :ttl, @sqlock_t, :label
FROM DUAL WHERE @sqlock_act = 2;
SELECT 0,
       CASE WHEN @sqlock_act > 0 THEN {DONE}
            WHEN @sqlock_runs THEN {SKIPPED}
            WHEN NOT @sqlock_own AND NOT @sqlock_free
                 THEN IF(:turn = 0 AND @sqlock_seats NOT IN (0, :seats), {UNLIKE}, {HELD})
            WHEN :turn = 1 AND NOT @sqlock_own
                 THEN IF(@sqlock_owner <=> :owner, {EXPIRED}, COALESCE({ENDED} + @sqlock_why, {TAKEN}))
            WHEN @sqlock_t < @sqlock_grace AND NOT @sqlock_alive AND NOT @sqlock_own THEN {GRACE}
            WHEN @sqlock_more <> 0 AND NOT @sqlock_own THEN {QUEUED}
            WHEN @sqlock_seats <> 0 AND @sqlock_seats <> :seats THEN {UNLIKE}
            WHEN @sqlock_full AND @sqlock_ends IS NULL
                THEN IF({shows_guards} AND @sqlock_rows = (
                            SELECT COUNT(*) FROM {lock} s FORCE INDEX (PRIMARY)
                            WHERE s.ns = IF(@sqlock_full AND @sqlock_ends IS NULL, :ns, NULL) AND {seats} {skip}),
                        {GUARDED}, {SKIPPED})
            WHEN @sqlock_full THEN {FULL}
            ELSE {SKIPPED} END,
       CAST(CASE WHEN @sqlock_act > 0 THEN @sqlock_new
                 WHEN NOT @sqlock_own AND NOT @sqlock_free AND @sqlock_seats = 0 THEN @sqlock_token
                 WHEN NOT @sqlock_own AND NOT @sqlock_free AND (:turn = 1 OR @sqlock_seats = :seats) THEN 0
                 WHEN @sqlock_seats <> 0 AND @sqlock_seats <> :seats THEN @sqlock_seats
                 WHEN @sqlock_full THEN @sqlock_by ELSE @sqlock_token END AS SIGNED),
       CAST(CASE WHEN @sqlock_act > 0 THEN :ttl WHEN NOT @sqlock_own AND NOT @sqlock_free THEN @sqlock_exp - @sqlock_t
                 WHEN @sqlock_t < @sqlock_grace AND NOT @sqlock_alive AND NOT @sqlock_own THEN @sqlock_grace - @sqlock_t
                 WHEN @sqlock_full THEN GREATEST(COALESCE(CAST(@sqlock_by_exp AS SIGNED), @sqlock_t) - @sqlock_t, 0) END AS SIGNED),
       CAST(@sqlock_t AS SIGNED),
       CAST(CASE WHEN @sqlock_act > 0 THEN IF(@sqlock_runs, @sqlock_began, @sqlock_t)
                 WHEN @sqlock_full THEN @sqlock_by_since ELSE @sqlock_since END AS SIGNED),
       CAST(CASE WHEN @sqlock_act > 0 THEN :label WHEN @sqlock_full THEN @sqlock_by_label ELSE @sqlock_label END AS BINARY),
       CAST(IF(@sqlock_act > 0, @sqlock_number, @sqlock_by_number) AS SIGNED),
       CAST(COALESCE(@sqlock_own AND NOT @sqlock_gives, 0) AS SIGNED)
FROM DUAL WHERE @sqlock_floor IS NOT NULL AND @sqlock_gone = 0;
COMMIT;
-- :step look
SELECT 0,
       CASE WHEN h.kind <> 0 THEN {KIND}
            WHEN NOT {known} THEN {STRANGER}
            WHEN h.withdrawn = :owner
                 OR EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY)
                            WHERE s.ns = :ns AND {seats} AND s.ended_owner = :owner AND s.ended_why = {ENDED_RELEASED})
                 OR h.ended_why = {ENDED_RELEASED} AND h.ended_owner = :owner
                    AND NOT EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY)
                                    WHERE s.ns = :ns AND {seats} AND (s.owner = :owner OR s.ended_owner = :owner))
                 THEN {RELEASED}
            WHEN {now} > :not_after
                 THEN IF(h.owner <> :owner AND h.exp > {now}
                         AND NOT EXISTS (SELECT 1 FROM {lock} s FORCE INDEX (PRIMARY)
                                         WHERE s.ns = :ns AND {seats} AND s.owner = :owner AND s.exp > {now}),
                         {HELD}, {LATE})
            ELSE {SKIPPED} END,
       IF(h.seats = 0, h.token, 0), h.exp - {now}, {now}, h.since, h.label
FROM {meta} m STRAIGHT_JOIN {lock} h ON h.ns = :ns AND h.name = :name WHERE m.id = 1;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE mode = {lock}.mode;
-- :step same 1
-- :step same 3

-- :block drain
-- Are all seats of the lock empty? Then no one can take one any more (DONE): seats becomes 0 under the lock of the row,
-- which only its owner may change from then on. For a row that is free, or that :owner has. The last column is 1 if
-- :owner has it: then it has the lock. Otherwise the lock is merely free. A turn that has run out, or was broken, gives
-- no one more than that.
-- The first step only looks. HELD: the lease of a seat runs. It names the one that ends last. The seat of :beside comes
-- behind all others: its owner wants the lock alone, and gives that seat back once there is no other.
-- The second step locks the lock's row, as seat does. Then it locks, in the order of keys, each seat that was granted
-- since the last drain, and its entry of nt, without waiting. GUARDED: it could lock all the rows, which a guard allows
-- and a writer does not, and one of the entries not. It looks at the leases of the locked rows, because a clock that was
-- put back lets one be renewed that had run out.
-- Those rows are emptied, so that none of them can be renewed. And each gets another token, which is above all of the
-- name and is no one's. Otherwise a guard of a former holder, which knows its token alone, would pass beside the
-- exclusive holder. So an empty row whose token is not that of its last end was not granted since, and is left alone.
-- The row of the lock keeps its token: it may be that of its owner's turn. The lock is held since now, and not since the
-- turn began; but whoever changes from a shared lock (:beside) has held that one.
-- HELD: another one has the turn. QUEUED: others wait, and :owner does not have the turn. No row: there is no such lock,
-- or, behind a deadlock, nothing is known.
-- :step aside
SELECT 0, {HELD}, s.token, s.exp - {now}, {now}, s.since, s.label, {number_of} s.name {of},
       (SELECT h.seats FROM {lock} h FORCE INDEX (PRIMARY) WHERE h.ns = :ns AND h.name = :name)
FROM (SELECT MAX(IF(s.owner = :beside, NULL, s.exp)) AS other, MAX(IF(s.owner = :beside, s.exp, NULL)) AS own, {now} AS t
      FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = :ns AND {seats} LIMIT 1) x
STRAIGHT_JOIN {lock} s FORCE INDEX (PRIMARY) ON s.ns = :ns AND {seats}
    AND IF(x.other > x.t, s.exp = x.other AND s.owner <> :beside, s.owner = :beside AND s.exp = x.own AND x.own > x.t)
LIMIT 1;
-- :step
START TRANSACTION;
SELECT MAX(c.token), MAX(c.owner), MAX(c.exp), MAX(c.since), MAX(c.label), MAX(c.waiters), MAX(c.seats)
INTO @sqlock_token, @sqlock_owner, @sqlock_exp, @sqlock_since, @sqlock_label, @sqlock_more, @sqlock_seats
FROM {lock} c FORCE INDEX (PRIMARY)
WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
FOR UPDATE;
SELECT {now}, COUNT(*) INTO @sqlock_t, @sqlock_known FROM {meta} m WHERE m.id = 1 AND {known};
SELECT COALESCE(@sqlock_owner = :owner AND @sqlock_exp > @sqlock_t, 0),
       COALESCE(@sqlock_owner IS NULL OR @sqlock_exp <= @sqlock_t, 0)
INTO @sqlock_own, @sqlock_free;
SET @sqlock_may = COALESCE(@sqlock_known = 1 AND @sqlock_seats <> 0 AND (@sqlock_own OR @sqlock_free AND @sqlock_more = 0), 0);
SELECT COUNT(*), COALESCE(MAX(s.exp > @sqlock_t), 0) INTO @sqlock_rows, @sqlock_runs
FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = IF(@sqlock_may, :ns, NULL) AND {seats} AND {used};
SELECT COUNT(*), COUNT(e.token), COALESCE(MAX(s.exp > @sqlock_t), 0) INTO @sqlock_locked, @sqlock_open, @sqlock_alive
FROM {lock} s FORCE INDEX (PRIMARY)
LEFT JOIN {lock} e FORCE INDEX (nt) ON e.ns = s.ns AND e.name = s.name AND e.token = s.token
WHERE s.ns = IF(@sqlock_may AND NOT @sqlock_runs, :ns, NULL) AND {seats} AND {used} {skip};
SET @sqlock_act = @sqlock_may AND NOT @sqlock_runs AND NOT @sqlock_alive AND @sqlock_open = @sqlock_rows;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    seats = 0, changes = changes + 1, idle_since = IF(owner IS NULL, @sqlock_t, idle_since),
    since = IF(@sqlock_own AND :beside = :owner, @sqlock_t, since)
WHERE ns = IF(@sqlock_act, :ns, NULL) AND name = :name;
UPDATE {lock} s FORCE INDEX (PRIMARY) SET
    s.ended_owner = COALESCE(s.owner, s.ended_owner),
    s.ended_token = IF(s.owner IS NULL, s.ended_token, s.token),
    s.ended_why = IF(s.owner IS NULL, s.ended_why, {ENDED_TAKEN}),
    s.idle_since = IF(s.owner IS NULL, s.idle_since, @sqlock_t),
    s.token = GREATEST(s.token, @sqlock_token) + 1,
    s.exp = NULL, s.since = NULL, s.label = NULL, s.owner = NULL
WHERE s.ns = IF(@sqlock_act AND @sqlock_rows > 0, :ns, NULL) AND {seats} AND {used};
SELECT 0,
       CASE WHEN @sqlock_act THEN {DONE}
            WHEN @sqlock_known = 0 THEN {STRANGER}
            WHEN NOT @sqlock_own AND NOT @sqlock_free THEN {HELD}
            WHEN @sqlock_more <> 0 AND NOT @sqlock_own THEN {QUEUED}
            WHEN @sqlock_seats = 0 THEN {DONE}
            WHEN @sqlock_locked = @sqlock_rows AND @sqlock_open < @sqlock_rows AND NOT @sqlock_alive AND {shows_guards}
                THEN {GUARDED}
            ELSE {SKIPPED} END,
       CAST(IF(@sqlock_own OR @sqlock_free OR @sqlock_seats = 0, @sqlock_token, 0) AS SIGNED),
       CAST(@sqlock_exp - @sqlock_t AS SIGNED), CAST(@sqlock_t AS SIGNED),
       CAST(@sqlock_since AS SIGNED), CAST(@sqlock_label AS BINARY), NULL, CAST(@sqlock_own AS SIGNED)
FROM DUAL WHERE @sqlock_token IS NOT NULL;
COMMIT;
-- :step look
SELECT 0, IF(h.kind <> 0, {KIND}, {SKIPPED}), h.token, h.exp - {now}, {now}, h.since, h.label
FROM {lock} h WHERE h.ns = :ns AND h.name = :name;

-- :block unseat
-- The release of a `seat` whose answer is not known, as withdraw is that of an acquire. Under the lock of the lock's row,
-- for which it waits, it writes the tombstone there. A seat that comes later is granted nothing (RELEASED). It gives
-- back the turn, if :owner has it, and the seat that :owner has. The seats are read behind the lock, and no seat is
-- granted then. Of a seat only the row is locked, as in a release: a guard does not keep this out.
-- DONE: it had a seat, and has none now. EARLY, NEVER: there is no sign of one, as in withdraw.
-- SKIPPED: others have locked its seat. The tombstone stands. Try again.
-- No row: the lock has none. It is made, so that the tombstone has a place.
-- :step
START TRANSACTION;
SELECT MAX(c.token), COALESCE(MAX(c.owner = :owner), 0), NULL, NULL
INTO @sqlock_token, @sqlock_own, @sqlock_seat, @sqlock_old
FROM {lock} c FORCE INDEX (PRIMARY)
WHERE c.ns = :ns AND c.name = :name AND c.kind = 0
FOR UPDATE;
SELECT {now}, MAX(IF(s.owner = :owner, s.name, NULL)), COALESCE(MAX(s.ended_owner = :owner), 0)
INTO @sqlock_t, @sqlock_mine, @sqlock_gone
FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = IF(@sqlock_token IS NULL, NULL, :ns) AND {seats};
SELECT s.name, s.token INTO @sqlock_seat, @sqlock_old
FROM {lock} s FORCE INDEX (PRIMARY) WHERE s.ns = :ns AND s.name = @sqlock_mine AND s.owner = :owner {skip};
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = IF(@sqlock_own, :owner, ended_owner), ended_token = IF(@sqlock_own, @sqlock_token, ended_token),
    ended_why = IF(@sqlock_own, {ENDED_RELEASED}, ended_why),
    idle_since = IF(@sqlock_own OR owner IS NULL, @sqlock_t, NULL),
    exp = IF(@sqlock_own, NULL, exp), since = IF(@sqlock_own, NULL, since), label = IF(@sqlock_own, NULL, label),
    offered = IF(@sqlock_own, 0, offered), owner = IF(@sqlock_own, NULL, owner),
    withdrawn = :owner, changes = changes + 1
WHERE ns = IF(@sqlock_token IS NULL, NULL, :ns) AND name = :name;
UPDATE {lock} FORCE INDEX (PRIMARY) SET
    ended_owner = :owner, ended_token = @sqlock_old, ended_why = {ENDED_RELEASED}, idle_since = @sqlock_t,
    owner = NULL, exp = NULL, since = NULL, label = NULL
WHERE ns = IF(@sqlock_seat IS NULL, NULL, :ns) AND name = @sqlock_seat;
SELECT 0,
       CASE WHEN @sqlock_mine IS NOT NULL AND @sqlock_seat IS NULL THEN {SKIPPED}
            WHEN @sqlock_mine IS NOT NULL OR @sqlock_gone THEN {DONE}
            WHEN @sqlock_t <= :not_after THEN {EARLY}
            ELSE {NEVER} END,
       CAST(COALESCE(@sqlock_old, @sqlock_token) AS SIGNED), NULL, CAST(@sqlock_t AS SIGNED)
FROM DUAL WHERE @sqlock_token IS NOT NULL;
COMMIT;
-- :step look
SELECT 0, IF(h.kind <> 0, {KIND}, {SKIPPED}), h.token, h.exp - {now}, {now}
FROM {lock} h WHERE h.ns = :ns AND h.name = :name;
-- :step aside
INSERT INTO {lock} (ns, name, token, idle_since)
SELECT :ns, :name, m.fence_floor, {now} FROM {meta} m WHERE m.id = 1 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE mode = {lock}.mode;
-- :step same 1
-- :step same 2

-- :block stand
-- The owner has the turn, and waits for those who have seats. Where it waits could not be seen: its place in the queue
-- is gone, and no index finds a lock's row by its owner. So a row here says it, in the library's own namespace (:own).
-- It has the lock's name and token, the owner in the place of the client, and the lock's namespace as the label. It is
-- no place in a queue, and decides nothing. A minute later it goes, those of one name at a time, if it was not said
-- again. INSERT reads the lock's row without locking it (READ COMMITTED).
-- :step
SET @sqlock_t = {now};
INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since)
SELECT :own, l.name, l.token, l.owner, l.owner, 0, 0, l.ns, @sqlock_t
FROM {lock} l FORCE INDEX (PRIMARY) WHERE l.ns = :ns AND l.name = :name AND l.owner = :owner AND l.seats <> 0
ON DUPLICATE KEY UPDATE owner = VALUES(owner), client = VALUES(client), label = VALUES(label), since = VALUES(since);
SELECT MIN(w.name) INTO @sqlock_late
FROM {waiter} w FORCE INDEX (PRIMARY) WHERE w.ns = :own AND w.since < @sqlock_t - {stood};
DELETE {waiter} FROM {waiter} FORCE INDEX (PRIMARY)
WHERE {waiter}.ns = :own AND {waiter}.name = @sqlock_late AND {waiter}.since < @sqlock_t - {stood};
SELECT 0, {DONE};

-- :block circle
-- Who waits for whom: all waiters of the namespace that live, and the holders of the locks that they wait for; also of
-- those locks whose turn someone has who waits for seats (stand). Seats are listed by `list`. At most :limit rows. A
-- wait that is missing hides a circle, and makes none. It only reads.
-- Waiters of the client that sends this live.
-- It goes by the primary keys: a range of waiters, and each lock once.
-- :step
SELECT 0, {DONE}, w.ticket, NULL, {now}, w.since, w.label, w.name, w.owner, NULL
FROM {waiter} w FORCE INDEX (PRIMARY)
WHERE w.ns = :ns
  AND (w.client = :client OR (SELECT p.alive_until > {now} FROM {client} p FORCE INDEX (PRIMARY) WHERE p.id = w.client))
UNION ALL
SELECT 0, {DONE}, l.token, l.exp - {now}, {now}, l.since, l.label, l.name, l.owner, l.seats
FROM (SELECT v.name FROM {waiter} v FORCE INDEX (PRIMARY) WHERE v.ns = :ns
      UNION
      SELECT v.name FROM {waiter} v FORCE INDEX (PRIMARY) WHERE v.ns = :own AND v.label = :ns) n
    STRAIGHT_JOIN {lock} l FORCE INDEX (PRIMARY) ON l.ns = :ns AND l.name = n.name
WHERE l.kind = 0 AND l.exp > {now}
LIMIT :limit;
