-- The guard (P11) as plain SQL, for an application in any language on PostgreSQL. Within your transaction it proves
-- that a lease is still held. It keeps its name from being granted to anyone else until that transaction ends. If the
-- lease is lost the statement fails (division by zero), and so nothing of the transaction can be committed.
--
-- It is for exclusive locks. A shared holder, or that of a slot, has a row of its own, which sqlock_guard() knows.
--
-- Put in: :name, the lock's name; :owner, 32 hexadecimal digits, and :token. `sqlock run` (SQLOCK_OWNER,
-- SQLOCK_TOKEN), `sqlock acquire`, or sqlock_lock_owner() and sqlock_lock_token() give them. :ns is the namespace, ''
-- by default. Another schema or prefix than the default: another name of the table. psql quotes texts by itself:
-- :'ns', :'name', :'owner', and :token. Everything is written with its schema, because your search_path may put a
-- stranger's operators first.
--
--   BEGIN;
--   <this statement>            first of all: what was read before may be older than the lease
--   SELECT ...; UPDATE ...;
--   COMMIT;
--
-- Guard again after a ROLLBACK TO a savepoint from before the guard. In REPEATABLE READ and SERIALIZABLE begin the
-- transaction anew after an error 40001. "division by zero" may mean the same there, when the snapshot is older than
-- the last renewal.
--
-- The role needs SELECT on the table, and UPDATE on one column of it:
-- GRANT SELECT, UPDATE (next_ticket) ON public.sqlock_lock TO app.
-- It covers this database alone. On a connection to a copy of the database it passes, and keeps no one out of here.
SELECT 1 OPERATOR(pg_catalog./) pg_catalog.count(*) AS held
FROM (SELECT 1 FROM public.sqlock_lock
      WHERE ns OPERATOR(pg_catalog.=) pg_catalog.convert_to(:ns, 'UTF8')
        AND name OPERATOR(pg_catalog.=) pg_catalog.convert_to(:name, 'UTF8')
        AND kind OPERATOR(pg_catalog.=) 0 AND token OPERATOR(pg_catalog.=) :token
        AND owner OPERATOR(pg_catalog.=) pg_catalog.decode(:owner, 'hex')
        AND exp OPERATOR(pg_catalog.>)
            (extract(epoch from pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint
      FOR KEY SHARE) AS guard;
