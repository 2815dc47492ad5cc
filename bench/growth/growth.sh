#!/bin/sh
# make growth: large tables, long churn and old snapshots, on private servers that are as they come.
#   bench/growth/growth.sh GROWTH_PROGRAM [--seconds N] [--most N] [--databases "NAME..."] [--parts "PART..."]
# --seconds is for each churn (300), --most the names in the largest table (10000000), which takes up to 6 GB of disk. The
# parts are sizes, churn and snapshot. GROWTH_PG_CONF and GROWTH_MYSQL_ARGS go to the servers.
set -u
program=$1
shift
seconds=300 most=10000000 databases=$BUILT_DRIVERS parts="sizes churn snapshot"
while [ $# -gt 1 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --most) most=$2 ;;
    --databases) databases=$2 ;;
    --parts) parts=$2 ;;
    *) break ;;
    esac
    shift 2
done
[ $# = 0 ] || { echo "growth: what is $1?" >&2; exit 64; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/sqlock-growth.XXXXXX") || exit 1
server= url= pacer=
finish()
{
    exec 9>&-
    [ -z "$server" ] || eval "$server"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM

# Each file defines, for its database:
#   begin             sets url and pacer (another database, with tables p_), and server, which stops it
#   ask SQL           prints the answers
#   fill PREFIX N     makes N free names, as releases leave them
#   drop PREFIX
#   size PREFIX       says what the table takes
#   hold, let_go      begin and end a transaction with a snapshot
#   held              says what the snapshot has kept so far
load()
{
    case $1 in
    postgres) client=psql ;;
    mysql) client=mariadb ;;
    sqlite) client=sqlite3 ;;
    *) return 1 ;;
    esac
    command -v "$client" >/dev/null || { echo "$1: SKIPPED, there is no $client" >&2; return 1; }
    # shellcheck source=/dev/null
    . "bench/growth/$1.sh"
}

say() { printf '%-9s %s\n' "$database" "$*"; }
grow() # VERB [WORD...]: the program, on this database
{
    verb=$1
    shift
    "$program" "$verb" "$database=$url" "$@" >"$dir/out" || exit 1
    while read -r line; do say "$verb: $line"; done <"$dir/out"
}

# All tables take turns, so they are there at the same time.
sizes()
{
    tables=
    for n in 1000 100000 1000000 10000000; do
        [ "$n" -le "$most" ] || break
        grow migrate "t${n}_"
        fill "t${n}_" "$n"
        say "$n names: $(size "t${n}_")"
        tables="$tables t${n}_:$n"
    done
    turns=$((seconds / 20 > 0 ? seconds / 20 : 1))
    # shellcheck disable=SC2086
    {
        grow turns --threads 1 --connections 1 --seconds "$turns" $tables
        grow turns --threads 8 --seconds "$turns" $tables
    }
    for table in $tables; do
        say "${table#*:} names afterwards: $(size "${table%:*}")"
        drop "${table%:*}"
    done
}

# On 8 names each thread has a connection; the 64 threads share one, as by default.
churn()
{
    for names in 8 64; do
        grow migrate c_
        grow churn --threads "$names" --connections $((names == 8 ? 8 : 0)) --seconds "$seconds" \
            "c_:$names" "$pacer/p_:$names"
        say "churn of $names names: $(size c_)"
        drop c_
    done
}

snapshot()
{
    grow migrate c_
    grow churn --threads 8 --connections 8 --seconds 5 c_:8
    say "before: $(size c_)"
    short=$((seconds / 10 > 0 ? seconds / 10 : 1))
    hold
    grow churn --threads 8 --connections 8 --seconds "$short" c_:8 "$pacer/p_:8"
    say "with an old snapshot: $(size c_); $(held)"
    grow churn --threads 8 --seconds "$short" c_:8 "$pacer/p_:8"
    say "with an older one, by one connection: $(size c_); $(held)"
    let_go
    grow churn --threads 8 --connections 8 --seconds "$short" c_:8 "$pacer/p_:8"
    say "without it: $(size c_); $(held)"
    drop c_
}

for database in $databases; do
    load "$database" || continue
    server=
    begin || exit 1
    "$program" migrate "$database=$pacer" p_ || exit 1
    for part in $parts; do $part; done
    eval "$server"
    server=
done
