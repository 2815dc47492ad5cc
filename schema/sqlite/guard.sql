-- The guard (P11) as plain SQL, for an application in any language on SQLite. It proves, within your
-- transaction, that a lease is still held, and keeps its name from being granted to anybody else until
-- that transaction ends: here a write transaction keeps everybody out, the holder's own renewals too, so
-- the guard extends the lease (by :ttl milliseconds from now, as long as the lease is). If the lease is
-- lost the second statement fails (integer overflow): roll back then.
--
-- Put in: :name, the lock's name; :owner, 32 hexadecimal digits, and :token, as `sqlock run` (SQLOCK_OWNER,
-- SQLOCK_TOKEN), `sqlock acquire` or sqlock_lock_owner() and sqlock_lock_token() tell them. :ns is the
-- namespace, '' by default. Another prefix than the default: another name of the table.
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
