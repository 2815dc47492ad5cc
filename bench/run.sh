#!/bin/sh
# make bench: on private servers, or on those of SQLOCK_BENCH_POSTGRES_URL and SQLOCK_BENCH_MYSQL_URL. The private ones
# listen on loopback, and clients reach all of them by TCP. The peers are measured beside PostgreSQL.
#   bench/run.sh BENCH_PROGRAM [OPTION...]
set -u
connections=1000 # at most, of all loops together
bench=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/sqlock-bench.XXXXXX") || exit 1
chmod 755 "$dir"
postgres= mysql=
finish()
{
    peers_stop
    [ -z "$postgres" ] || tests/tools/pg.sh stop "$postgres"
    [ -z "$mysql" ] || tests/tools/my.sh stop "$mysql"
    rm -rf "$dir"
}
# shellcheck source=bench/peers.sh
. bench/peers.sh
trap finish EXIT
trap 'exit 130' HUP INT TERM

has()
{
    case " $BUILT_DRIVERS " in *" $1 "*) return 0 ;; esac
    echo "$1: SKIPPED, the driver is not built" >&2
    return 1
}

# A port that nobody uses now.
port() { "$bench" --port; }

# With what counts statements, if the server has it.
start_postgres() # PORT
{
    conf="listen_addresses = '127.0.0.1'
port = $1
max_connections = $connections"
    SQLOCK_TEST_PG_CONF="$conf
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track = none" tests/tools/pg.sh start 2>/dev/null ||
        SQLOCK_TEST_PG_CONF=$conf tests/tools/pg.sh start
}

# Its queue of clients is as long as they are many: who is dropped from it waits for a greeting that never comes.
start_mysql() # PORT
{
    SQLOCK_TEST_MYSQL_ARGS="--skip-networking=0 --bind-address=127.0.0.1 --port=$1 --loose-mysqlx=OFF
        --max-connections=$connections --back-log=$connections" tests/tools/my.sh start
}

databases= instructions=
! has sqlite || databases="sqlite=sqlite:$dir/bench.db"
if has postgres; then
    url=${SQLOCK_BENCH_POSTGRES_URL:-} name=postgres
    if [ -z "$url" ]; then
        port=$(port) && postgres=$(start_postgres "$port") && [ -n "$postgres" ] || exit 1
        home=${postgres#*host=}
        name=postgres:$(head -n 1 "${home%%&*}/data/postmaster.pid")
        url=postgresql://postgres@127.0.0.1:$port/postgres
    fi
    databases="$databases $name=$url"
    instructions=$(bench/instructions.sh "$bench" "postgres=$url")
    peers_start
fi
if has mysql; then
    url=${SQLOCK_BENCH_MYSQL_URL:-} name=mysql
    if [ -z "$url" ]; then
        port=$(port) && mysql=$(start_mysql "$port") && [ -n "$mysql" ] || exit 1
        home=${mysql#*socket=}
        name=mysql:$(cat "${home%/s}/pid")
        url=mysql://root@127.0.0.1:$port/test
    fi
    databases="$databases $name=$url"
fi
# shellcheck disable=SC2086
"$@" --instructions "${instructions:-0}" $databases $peers
