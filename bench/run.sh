#!/bin/sh
# make bench: on private servers, or on those of SQLOCK_BENCH_POSTGRES_URL and the like.
#   bench/run.sh BENCH_PROGRAM [OPTION...]
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/sqlock-bench.XXXXXX") || exit 1
chmod 755 "$dir"
postgres= mysql=
finish()
{
    [ -z "$postgres" ] || tests/tools/pg.sh stop "$postgres"
    [ -z "$mysql" ] || tests/tools/my.sh stop "$mysql"
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM

databases= instructions=
has()
{
    case " $BUILT_DRIVERS " in *" $1 "*) return 0 ;; esac
    echo "$1: SKIPPED, the driver is not built" >&2
    return 1
}
! has sqlite || databases="sqlite=sqlite:$dir/bench.db"
if has postgres; then
    url=${SQLOCK_BENCH_POSTGRES_URL:-}
    [ -n "$url" ] || url=$(tests/tools/pg.sh start) && [ -n "$url" ] || exit 1
    [ -n "${SQLOCK_BENCH_POSTGRES_URL:-}" ] || postgres=$url
    databases="$databases postgres=$url"
    instructions=$(bench/instructions.sh "$1" "postgres=$url")
fi
if has mysql; then
    url=${SQLOCK_BENCH_MYSQL_URL:-}
    [ -n "$url" ] || url=$(tests/tools/my.sh start) && [ -n "$url" ] || exit 1
    [ -n "${SQLOCK_BENCH_MYSQL_URL:-}" ] || mysql=$url
    databases="$databases mysql=$url"
fi
# shellcheck disable=SC2086
"$@" --instructions "${instructions:-0}" $databases
