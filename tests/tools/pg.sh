#!/bin/sh
# A private PostgreSQL for tests: in a temporary folder, on a unix socket only, gone after stop.
#   tests/tools/pg.sh start        prints its URL
#   tests/tools/pg.sh stop URL     (or the folder that the URL names as host)
#   tests/tools/pg.sh create       makes all that start makes, but starts nothing; prints the URL
#   tests/tools/pg.sh folder       makes the folder alone, for a copy of another server's data; prints the URL
#   tests/tools/pg.sh run URL      becomes the server: it is the caller's child, and ends with it
#   tests/tools/pg.sh follow URL   starts a standby of that one, which runs; prints its URL
#   tests/tools/pg.sh kill URL     kills it, with -9
#   tests/tools/pg.sh again URL    starts it on what is on its disk
#   tests/tools/pg.sh promote URL
# It never runs as root: then as user postgres, or nobody. fsync is on, because the library asks. Killed,
# it leaves nothing outside of its folder.
# SQLOCK_TEST_PRELOAD is loaded into the server, if that is set. Lines in SQLOCK_TEST_PG_CONF are put into
# the configuration. SQLOCK_TEST_PG_BIN is the folder of the
# server's programs, in place of the newest that is installed.
kind=pg user=postgres
# shellcheck source=tests/tools/private.sh
. "$(dirname "$0")/private.sh"

# The newest server that is installed.
bin_dir()
{
    [ -z "${SQLOCK_TEST_PG_BIN:-}" ] || { echo "$SQLOCK_TEST_PG_BIN"; return; }
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
        [ -x "$dir/initdb" ] && echo "$dir"
    done | sort -t/ -k5 -V | tail -n 1 | grep . && return
    if command -v initdb >/dev/null; then
        dirname "$(command -v initdb)"
    else
        dir=$(pg_config --bindir 2>/dev/null) && [ -x "$dir/initdb" ] && echo "$dir"
    fi
}

create()
{
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
    enter_new_dir
    as "$bin/initdb" --no-sync -A trust -U postgres -E UTF8 --locale=C -D "$dir/data" \
        >"$dir/initdb.log" 2>&1 </dev/null || { cat "$dir/initdb.log" >&2; die "initdb failed"; }
    cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$dir'
port = 5432
fsync = on
shared_buffers = 32MB
dynamic_shared_memory_type = mmap
max_connections = 100
max_prepared_transactions = 10
log_min_messages = fatal
log_min_error_statement = panic
${SQLOCK_TEST_PG_CONF:-}
CONF
}

control() # WORDS...
{
    as env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"} "$bin/pg_ctl" -s -w -t 60 -D "$dir/data" \
        -l "$dir/log" "$@" >"$dir/pg_ctl.log" 2>&1 </dev/null || { cat "$dir/pg_ctl.log" "$dir/log" >&2; return 1; }
}

start()
{
    control start || { stop_dir; die "the server did not start"; }
    trap - EXIT
    echo "postgresql:///postgres?host=$dir&user=postgres"
}

# A copy of the one in this folder, in a new one. What it is told again counts.
copy() # DIR
{
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
    enter_new_dir
    as "$bin/pg_basebackup" -h "$1" -U postgres -D "$dir/data" -c fast -X stream >"$dir/copy.log" 2>&1 \
        </dev/null || { cat "$dir/copy.log" >&2; die "it cannot be copied"; }
    as touch "$dir/data/standby.signal"
    cat >>"$dir/data/postgresql.conf" <<CONF
unix_socket_directories = '$dir'
primary_conninfo = 'host=$1 user=postgres'
CONF
}

# Processes that it has left keep a new server out until they have noticed.
again()
{
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
    cd "$dir" || exit 1
    for i in 1 2 3 4 5 6 7 8 9; do
        control start 2>/dev/null && return
        sleep 0.$i
    done
    control start || die "the server did not start again"
}

run()
{
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
    cd "$dir" || exit 1
    become QUIT env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"} \
        "$bin/postgres" -D "$dir/data" >>"$dir/log" 2>&1 </dev/null
}

# Fast shutdown, immediate, kill.
stop_dir()
{
    end_server "$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null)" INT QUIT KILL
}

case ${1:-} in
start)
    create
    start
    ;;
create)
    create
    trap - EXIT
    echo "postgresql:///postgres?host=$dir&user=postgres"
    ;;
folder)
    enter_new_dir
    trap - EXIT
    echo "postgresql:///postgres?host=$dir&user=postgres"
    ;;
stop)
    find_dir host "$2"
    [ ! -d "$dir" ] || stop_dir
    ;;
run | again)
    find_dir host "$2"
    "$1"
    ;;
follow)
    find_dir host "$2"
    copy "$dir"
    start
    ;;
kill)
    find_dir host "$2"
    kill_server "$(head -n 1 "$dir/data/postmaster.pid")"
    ;;
promote)
    find_dir host "$2"
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
    cd "$dir" && control promote || die "it cannot be promoted"
    ;;
*)
    die "usage: pg.sh start | create | folder | follow URL | run URL | kill URL | again URL | promote URL | stop URL"
    ;;
esac
