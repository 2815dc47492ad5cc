-- The guard (P11) as plain SQL, for an application in any language on PostgreSQL. It proves, within your
-- transaction, that a lease is still held, and keeps its name from being granted to anybody else until
-- that transaction ends. If the lease is lost it fails (division by zero), and so nothing of the
-- transaction can be committed.
--
-- Put in: :name, the lock's name; :owner, 32 hexadecimal digits, and :token, as `sqlock run` (SQLOCK_OWNER,
-- SQLOCK_TOKEN), `sqlock acquire` or sqlock_lock_owner() and sqlock_lock_token() tell them. :ns is the
-- namespace, '' by default. Another schema or prefix than the default: another name of the table.
--
--   BEGIN;
--   <this statement>            first of all: what was read before may be older than the lease
--   SELECT ...; UPDATE ...;
--   COMMIT;
--
-- Guard again after a ROLLBACK TO a savepoint from before the guard. In REPEATABLE READ and SERIALIZABLE
-- an error 40001 asks for the transaction to be begun anew; so may "division by zero" there, when the
-- snapshot is older than the last renewal. The role needs SELECT on the table, and UPDATE on one column of
-- it: GRANT SELECT, UPDATE (next_ticket) ON public.sqlock_lock TO app. It covers this database alone;
-- on a connection to a copy of it, it passes, and keeps nobody out of here.
SELECT 1 / count(*) AS held
FROM (SELECT 1 FROM public.sqlock_lock
      WHERE ns = convert_to(:ns, 'UTF8') AND name = convert_to(:name, 'UTF8') AND kind = 0
        AND owner = decode(:owner, 'hex') AND token = :token
        AND exp > (extract(epoch from clock_timestamp()) * 1000000)::bigint
      FOR KEY SHARE) AS guard;
