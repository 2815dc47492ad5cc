-- The guard (P11) as plain SQL, for an application in any language on PostgreSQL. It proves, within your
-- transaction, that a lease is still held, and keeps its name from being granted to anybody else until
-- that transaction ends. If the lease is lost it fails (division by zero), and so nothing of the
-- transaction can be committed.
--
-- Put in: :name, the lock's name; :owner, 32 hexadecimal digits, and :token, as `sqlock run` (SQLOCK_OWNER,
-- SQLOCK_TOKEN), `sqlock acquire` or sqlock_lock_owner() and sqlock_lock_token() tell them. :ns is the
-- namespace, '' by default. Another schema or prefix than the default: another name of the table. In psql
-- texts are quoted by it: :'ns', :'name', :'owner', and :token. All is named with its schema: by your
-- search_path a stranger's operators may come first.
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
SELECT 1 OPERATOR(pg_catalog./) pg_catalog.count(*) AS held
FROM (SELECT 1 FROM public.sqlock_lock
      WHERE ns OPERATOR(pg_catalog.=) pg_catalog.convert_to(:ns, 'UTF8')
        AND name OPERATOR(pg_catalog.=) pg_catalog.convert_to(:name, 'UTF8')
        AND kind OPERATOR(pg_catalog.=) 0 AND token OPERATOR(pg_catalog.=) :token
        AND owner OPERATOR(pg_catalog.=) pg_catalog.decode(:owner, 'hex')
        AND exp OPERATOR(pg_catalog.>)
            (extract(epoch from pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint
      FOR KEY SHARE) AS guard;
