-- The guard (P11) as plain SQL, for an application in any language on MariaDB or MySQL. Within your transaction it
-- proves that a lease is still held. It keeps its name from being granted to anyone else until that transaction ends.
-- If others have been granted the lock, or the transaction's snapshot is older than the grant, the statement fails
-- (error 1242). Roll back then: here the transaction's other statements could still be committed.
--
-- It is for exclusive locks. A shared holder, or that of a slot, has a row of its own, which sqlock_guard() knows.
--
-- Put in: :name, the lock's name; :token. `sqlock run` (SQLOCK_TOKEN), `sqlock acquire` or sqlock_lock_token() give
-- it. :ns is the namespace, '' by default. Another prefix than the default: another name of the table.
--
--   START TRANSACTION;
--   <this statement>            first of all: what was read before may be older than the lease
--   SELECT ...; UPDATE ...;
--   COMMIT;
--
-- It reads the unique key nt and nothing else of the row, so that the holder's renewals go on. Do not add a column.
-- The token is the proof. So a lease passes that ran out, or was released or broken, if it was granted to no one since.
-- Its name is kept from everyone as well. The holder's deadline is for the application to check.
--
-- Guard again after a ROLLBACK TO a savepoint from before the guard. Do not use it
-- - in XA transactions on MariaDB, whose PREPARE drops the lock;
-- - on MySQL before 8.0, where others would wait for it;
-- - on Galera and Group Replication, where locks are of one node.
-- The user needs SELECT on the table. It covers this database alone.
SELECT IF((SELECT COUNT(*)
           FROM (SELECT 1 FROM sqlock_lock FORCE INDEX (nt)
                 WHERE ns = :ns AND name = :name AND token = :token LOCK IN SHARE MODE) AS guard) = 1
          AND EXISTS (SELECT 1 FROM sqlock_lock FORCE INDEX (nt)
                      WHERE ns = :ns AND name = :name AND token = :token),
          1, (SELECT 1 UNION ALL SELECT 2)) AS held;
