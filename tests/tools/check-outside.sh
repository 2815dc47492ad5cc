#!/bin/sh
# make check-outside: the driver of tests/outside has at most 500 lines of C, and is made outside of the tree of what an
# installation has. A program that is linked with its shared library and the installed core then takes leases. The
# suite runs it too: tests/drivers/small_test.c. BUILT_DRIVERS is the Makefile's.
set -u
export LC_ALL=C
most=500
bad=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX LIBDIR LD_LIBRARY_PATH

complain() { echo "$*"; bad=1; }

# What its author wrote in C, comments and all.
fits() # FOLDER
{
    lines=$(cat "$1"/*.c "$1"/*.h | wc -l)
    [ "$lines" -le $most ] || { echo "$1 has $lines lines of C (at most $most)"; return 1; }
    others=$(find "$1" -type f ! -name '*.[ch]' ! -name '*.sql' ! -name Makefile ! -name README.md ! -name build.sh)
    [ -z "$others" ] || { echo "$1 has more than C and SQL: $others"; return 1; }
}

fits tests/outside || bad=1
counted=$lines
mkdir "$dir/long" "$dir/other"
cp tests/outside/*.[ch] "$dir/long" && yes '' | head -n $((most + 1 - lines)) >>"$dir/long/small.c"
fits "$dir/long" >/dev/null && complain "self test: a longer driver was accepted"
cp tests/outside/*.[ch] "$dir/other" && touch "$dir/other/small.cc"
fits "$dir/other" >/dev/null && complain "self test: C++ was accepted"

tests/outside/build.sh "$dir" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

# Nothing of the tree may be in what was made.
tree=$(pwd)
strings -a "$dir/driver/libsqlock-small.so" | grep -F "$tree/" && complain "the driver knows the tree"

cat >"$dir/program.c" <<'C'
#include <sqlock/migrate.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include "driver/small.h"
int main(int argc, char **argv)
{
    sqlock_acquire_opts now = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock *m = NULL;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock_conn *conn = NULL;
    sqlock_error err = {0};
    int busy, adopted;
    now.wait_ms = 0;
    if (argc < 2 || sqlock_migrate(sqlock_driver_small(), argv[1], NULL, NULL, &err) != 0 ||
        sqlock_open(sqlock_driver_small(), argv[1], NULL, &m, &err) != 0 ||
        sqlock_acquire(m, "outside", NULL, &lock, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    busy = sqlock_acquire(m, "outside", &now, &none, &err);
    adopted = sqlock_adopt(m, argv, 0, NULL, &conn, &err);
    printf("%d %d %d %d\n", sqlock_lock_token(lock) > 0, busy == SQLOCK_EBUSY, adopted == SQLOCK_EREFUSED,
           sqlock_release(lock, &err));
    sqlock_lock_free(lock);
    sqlock_close(m);
    return 0;
}
C
export PKG_CONFIG_PATH="$dir/stage/lib/pkgconfig"
# shellcheck disable=SC2046
"${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -o "$dir/program" "$dir/program.c" -L"$dir/driver" -lsqlock-small \
    $(pkg-config --cflags --libs libsqlock) || complain "the program cannot be linked"
said=$(LD_LIBRARY_PATH="$dir/stage/lib:$dir/driver" "$dir/program" "small:$dir/locks.db" 2>&1)
[ "$said" = "1 1 1 0" ] || complain "the program said: $said"

[ $bad = 0 ] && echo "outside: a driver for leases in $counted lines of C"
