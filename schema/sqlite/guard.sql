-- The guard (P11) as plain SQL, for an application in any language on SQLite. Within your transaction it proves that a
-- lease is still held. It keeps its name from being granted to anyone else until that transaction ends. Here a write
-- transaction keeps everyone out, the holder's own renewals too. So the guard extends the lease, by :ttl milliseconds
-- from now, as long as the lease is. If the lease is lost the second statement fails (integer overflow). Roll back
-- then.
--
-- It is for exclusive locks. A shared holder, or that of a slot, has a row of its own, which sqlock_guard() knows.
--
-- Put in: :name, the lock's name; :owner, 32 hexadecimal digits, and :token. `sqlock run` (SQLOCK_OWNER,
-- SQLOCK_TOKEN), `sqlock acquire`, or sqlock_lock_owner() and sqlock_lock_token() give them. :ns is the namespace, ''
-- by default. Another prefix than the default: another name of the table.
-- In a file of UTF-16 (PRAGMA encoding) bind :ns and :name as blobs of UTF-8.
--
--   BEGIN IMMEDIATE;
--   <these statements>          first of all: what was read before may be older than the lease
--   SELECT ...; UPDATE ...;
--   COMMIT;
--
-- Keep such transactions shorter than half of the lease. SQLITE_BUSY_SNAPSHOT: begin again.
UPDATE sqlock_lock
SET exp = max(exp, CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER) + :ttl)
WHERE ns = CAST(:ns AS BLOB) AND name = CAST(:name AS BLOB) AND kind = 0
  AND hex(owner) = upper(:owner) AND token = :token
  AND exp > CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER);
SELECT iif(changes() = 1, 1, abs(-9223372036854775808)) AS held;
