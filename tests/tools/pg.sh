#!/bin/sh
# A private PostgreSQL for tests: in a temporary folder, on a unix socket only, gone after stop.
#   tests/tools/pg.sh start, stop URL ...   as private.sh says; and
#   tests/tools/pg.sh follow URL            starts a standby of that one, which runs; prints its URL
#   tests/tools/pg.sh promote URL
# Lines in SQLOCK_TEST_PG_CONF are put into the configuration. SQLOCK_TEST_PG_BIN is the folder of the server's
# programs, in place of the newest that is installed.
kind=pg user=postgres parameter=host signals="INT QUIT KILL"
# shellcheck source=tests/tools/private.sh
. "$(dirname "$0")/private.sh"

url() { echo "postgresql:///postgres?host=$dir&user=postgres"; }
server_pid() { head -n 1 "$dir/data/postmaster.pid" 2>/dev/null; }

# The newest server that is installed.
bin_dir()
{
    [ -z "${SQLOCK_TEST_PG_BIN:-}" ] || { echo "$SQLOCK_TEST_PG_BIN"; return; }
    for at in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
        [ -x "$at/initdb" ] && echo "$at"
    done | sort -t/ -k5 -V | tail -n 1 | grep . && return
    if command -v initdb >/dev/null; then
        dirname "$(command -v initdb)"
    else
        at=$(pg_config --bindir 2>/dev/null) && [ -x "$at/initdb" ] && echo "$at"
    fi
}

find_server()
{
    bin=$(bin_dir) || die "no PostgreSQL server is installed"
}

fill_dir()
{
    as "$bin/initdb" --no-sync -A trust -U postgres -E UTF8 --locale=C -D "$dir/data" \
        >"$dir/initdb.log" 2>&1 </dev/null || { cat "$dir/initdb.log" >&2; return 1; }
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

# Processes that a killed server has left keep a new one out until they have noticed.
launch()
{
    for i in 1 2 3 4 5 6 7 8 9; do
        [ "$verb" = again ] || break
        control start 2>/dev/null && return
        sleep 0.$i
    done
    control start
}

become_server()
{
    become QUIT env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"} \
        "$bin/postgres" -D "$dir/data" >>"$dir/log" 2>&1 </dev/null
}

# A copy of the one in this folder, in a new one. What the configuration says last counts.
copy() # DIR
{
    enter_new_dir
    as "$bin/pg_basebackup" -h "$1" -U postgres -D "$dir/data" -c fast -X stream >"$dir/copy.log" 2>&1 \
        </dev/null || { cat "$dir/copy.log" >&2; die "it cannot be copied"; }
    as touch "$dir/data/standby.signal"
    cat >>"$dir/data/postgresql.conf" <<CONF
unix_socket_directories = '$dir'
primary_conninfo = 'host=$1 user=postgres'
CONF
}

own_verb()
{
    find_server
    case $verb in
    follow) copy "$dir" && start ;;
    promote) enter_dir && control promote || die "it cannot be promoted" ;;
    *) false ;;
    esac
}

main "$@"
