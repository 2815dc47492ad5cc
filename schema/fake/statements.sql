-- The fake driver's dialect: its database is C (drivers/fake/db.c) and knows the requests by number,
-- so each text only names its block. How this file is read: schema/README.md.

-- :block handshake
-- :step
handshake;

-- :block reincarnate
-- :step
reincarnate;

-- :block longest
-- :step
longest;

-- :block acquire
-- :step
acquire;

-- :block guarded
-- :step
guarded;

-- :block renew
-- :step
renew;

-- :block release
-- :step
release;

-- :block withdraw
-- :step
withdraw;

-- :block break
-- :step
break;

-- :block list
-- :step
list;

-- :block sweep
-- :step
sweep;

-- :block reap
-- :step
reap;

-- :block prune
-- :step
prune;

-- :block migrate_lock
-- :step
migrate_lock;

-- :block migrate_version
-- :step
migrate_version;

-- :block migrate_record
-- :step
migrate_record;

-- :block migrate_ledger
-- :step
migrate_ledger;

-- :block migrate_differ
-- :step
migrate_differ;

-- :block migrate_close
-- :step
migrate_close;

-- :block migrate_held
-- :step
migrate_held;

-- :block migrate_lease
-- :step
migrate_lease;

-- :block migrate_around
-- :step
BEGIN;
-- :step
COMMIT;

-- :block guard
-- The fake adopts no connections: never asked for.
-- :step
guard;

-- :block probe
-- :step
probe;

-- :block ensure
-- :step
ensure;

-- :block register_get
-- :step
register_get;

-- :block register_set
-- :step
register_set;

-- :block table_key
-- :step
table_key;

-- :block table_at
-- :step
table_at;

-- :block row_lock
-- :step
row_lock;

-- :block table_version
-- :step
table_version;

-- :block version_integer
-- :step
version_integer;

-- :block version_timestamp
-- :step
version_timestamp;

-- :block cas_update
-- :step
cas_update;

-- :block cas_delete
-- :step
cas_delete;

-- :block cas_insert
-- :step
cas_insert;

-- :block cas_met
-- :step
cas_met;

-- :block fence
-- :step
fence;

-- :block session
-- :step
session;

-- :block blockers
-- :step
blockers;

-- :block lease
-- :step
lease;

-- :block break_noted
-- :step
break_noted;

-- :block was_broken
-- :step
was_broken;
