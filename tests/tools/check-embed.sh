#!/bin/sh
# make check-embed: the awk that makes C of the SQL refuses what schema/README.md forbids, and every awk
# that is here makes the same of it.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

embed() # AWK STATEMENTS MIGRATION...
{
    awk=$1
    shift
    $awk -v dialect=postgres -v style='$' -v quote='"' -v schema=public -v fixed_schema=0 \
        -f schema/qualify.awk -f schema/embed.awk include/sqlock/request.h $tables "$@"
}

tables=schema/postgres/tables.sql
statements=schema/postgres/statements.sql
migrations=$(echo migrations/postgres/*.sql)
first="migrations/postgres/001_locks.up.sql migrations/postgres/001_locks.down.sql"

embed awk $statements $migrations >"$dir/awk.c" || bad=1
for awk in gawk mawk original-awk "busybox awk"; do
    command -v ${awk%% *} >/dev/null || continue
    embed "$awk" $statements $migrations >"$dir/other.c" && cmp "$dir/awk.c" "$dir/other.c" ||
        { echo "$awk makes something else"; bad=1; }
done

# A text that was damaged by sed must be refused.
postgres() { embed awk "$1" $migrations; }
maker=postgres
refused() # WHAT SED_SCRIPT
{
    sed "$2" $statements >"$dir/statements.sql"
    cmp -s $statements "$dir/statements.sql" && { echo "self test: '$2' changes nothing"; bad=1; }
    $maker "$dir/statements.sql" >/dev/null 2>"$dir/message" && {
        echo "accepted: $1"
        bad=1
    }
    [ -s "$dir/message" ] || { echo "refused without a word: $1"; bad=1; }
}
refused "a parameter that the request has not" 's/:not_after/:not_later/'
refused "an operator that cannot be named" 's/^  AND abs(l.kind) < 1/  AND l.kind IN (0)/'
refused "a comparison that cannot be named" 's/(l.ended_owner = :owner) IS NOT TRUE/l.ended_owner IS DISTINCT FROM :owner/'
refused "a sum without parentheses" 's/greatest(l.token, k.floor) + 1 END/greatest(l.token, k.floor) = 1 + 1 END/'
refused "an outcome that driver.h has not" 's/{SKIPPED}/{SKIPT}/'
tables_said=$tables
sed 's/REAPED 3/REAPED 4/' $tables_said >"$dir/tables.sql" && tables=$dir/tables.sql
refused "an end that is not the outcome of its name" 's/^-- sqlock/-- Sqlock/'
sed 's/, TAKEN 4//' $tables_said >"$dir/tables.sql"
refused "an end that tables.sql has not" 's/^-- sqlock/-- Sqlock/'
tables=$tables_said

# The fake's blocks stand before SQLite's, or in their place.
fake()
{
    awk -v dialect=fake -v own="$1" -v style='?N' -v quote='"' -v schema=main -v fixed_schema=1 \
        -f schema/qualify.awk -f schema/embed.awk include/sqlock/request.h "$1" schema/sqlite/tables.sql \
        schema/sqlite/statements.sql migrations/sqlite/*.sql
}
sed 's/^-- :block longest/-- :block longer/' schema/fake/statements.sql >"$dir/own.statements.sql"
fake "$dir/own.statements.sql" >/dev/null 2>&1 && { echo "accepted: a block of the fake's that no dialect has"; bad=1; }
fake schema/fake/statements.sql >"$dir/fake.c" && ! grep -q strftime "$dir/fake.c" ||
    { echo "the fake's definitions do not count"; bad=1; }

# A driver that is made elsewhere may do without requests, if it names them. Without migrate_differ it needs no tables.
outside() # STATEMENTS
{
    awk -v dialect=small -v style='?N' -v quote='"' -v schema=main -v fixed_schema=1 \
        -f schema/qualify.awk -f schema/embed.awk include/sqlock/request.h "$1" tests/outside/*.up.sql tests/outside/*.down.sql
}
outside tests/outside/statements.sql >/dev/null || bad=1
statements_said=$statements statements=tests/outside/statements.sql maker=outside
refused "a request that the driver neither has nor names" 's/^-- :lacks reincarnate/-- :lacks/'
refused "a request that the driver has, and names" 's/^-- :lacks reincarnate/& renew/'
refused "a request that there is not" 's/^-- :lacks reincarnate/& renews/'
refused "a comparison of tables that are not known" 's/^-- :lacks migrate_differ/-- :lacks/; s/^-- :block migrate_close/-- :block migrate_differ\n-- :step\nSELECT 1;\n&/'
statements=$statements_said

embed awk $statements $(echo migrations/postgres/*.up.sql) >/dev/null 2>&1 &&
    { echo "accepted: a migration without its way down"; bad=1; }
embed awk $statements $first >/dev/null 2>&1 && { echo "accepted: a table without its migration"; bad=1; }
embed awk $statements >/dev/null 2>&1 && { echo "accepted: no migrations"; bad=1; }
tables=
embed awk $statements $migrations >/dev/null 2>&1 && { echo "accepted: no tables"; bad=1; }

[ $bad = 0 ] && echo "embed: 16 faults were refused"
