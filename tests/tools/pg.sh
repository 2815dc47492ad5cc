#!/bin/sh
# A private PostgreSQL for tests: in a temporary folder, on a unix socket only, gone after stop.
#   tests/tools/pg.sh start        prints its URL
#   tests/tools/pg.sh stop URL     (or the folder that the URL names as host)
#   tests/tools/pg.sh create       makes all that start makes, but starts nothing; prints the URL
#   tests/tools/pg.sh run URL      becomes the server: it is the caller's child, and ends with it
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

start()
{
    create
    as env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"} "$bin/pg_ctl" -s -w -t 60 -D "$dir/data" -l "$dir/log" start >"$dir/pg_ctl.log" 2>&1 \
        </dev/null || { cat "$dir/pg_ctl.log" "$dir/log" >&2; stop_dir; die "the server did not start"; }
    trap - EXIT
    echo "postgresql:///postgres?host=$dir&user=postgres"
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
    start
    ;;
create)
    create
    trap - EXIT
    echo "postgresql:///postgres?host=$dir&user=postgres"
    ;;
stop | run)
    find_dir host "$2"
    if [ "$1" = run ]; then
        run
    elif [ -d "$dir" ]; then
        stop_dir
    fi
    ;;
*)
    die "usage: pg.sh start | create | run URL | stop URL"
    ;;
esac
