-- The guard (P11) as plain SQL, for an application in any language on MariaDB or MySQL. It proves, within
-- your transaction, that a lease is still held, and keeps its name from being granted to anybody else
-- until that transaction ends. If others have been granted the lock the statement fails (error 1242):
-- roll back then, for here a statement that failed does not keep the others from being committed.
--
-- Put in: :name, the lock's name; :token, as `sqlock run` (SQLOCK_TOKEN), `sqlock acquire` or
-- sqlock_lock_token() tell it. :ns is the namespace, '' by default. Another prefix than the default:
-- another name of the table.
--
--   START TRANSACTION;
--   <this statement>            first of all: what was read before may be older than the lease
--   SELECT ...; UPDATE ...;
--   COMMIT;
--
-- It reads the unique key nt and nothing else of the row, so that the holder's renewals go on: do not add a
-- column. The token is the proof: a lease that ran out, was released or broken, and that was granted to
-- nobody since passes, and is kept from everybody as well; the holder's deadline is the application's to
-- look at. Guard again after a ROLLBACK TO a savepoint from before the guard. No use in XA transactions
-- on MariaDB, whose PREPARE drops the lock, nor on MySQL before 8.0, where others would wait for it, nor on
-- Galera and Group Replication, where locks are of one node. The user needs SELECT on the table. It covers
-- this database alone.
SELECT IF((SELECT COUNT(*)
           FROM (SELECT 1 FROM sqlock_lock FORCE INDEX (nt)
                 WHERE ns = :ns AND name = :name AND token = :token LOCK IN SHARE MODE) AS guard) = 1,
          1, (SELECT 1 UNION ALL SELECT 2)) AS held;
