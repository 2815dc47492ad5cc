#!/bin/sh
# make check-layers: every file includes and calls only what its layer may. Then the same check is made
# to fail on planted breaches, one of each kind, in a copy of nothing but them.
set -u
here=$(cd "$(dirname "$0")" && pwd)

# Generated files are made of a driver's header only; they are not looked at.
check()
{
    find include core drivers cli recipes -name '*.[ch]' -exec awk -f "$here/check-layers.awk" {} +
}

check || { echo "layers: breached"; exit 1; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
missed=0
planted=0

# The file with this line must be refused (1) or allowed (0).
expect() # REFUSED FILE LINE
{
    mkdir -p include core drivers cli recipes "${2%/*}"
    printf '%s\n' "$3" >"$2"
    check >out
    refused=$?
    planted=$((planted + 1))
    if [ $refused != "$1" ]; then
        echo "self test: $2 with '$3' was $([ "$1" = 1 ] && echo allowed || echo refused)"
        cat out
        missed=1
    fi
    rm -rf include core drivers cli recipes
}

expect 1 core/base/x.c '#include "core/model/lease.h"'
expect 1 core/model/x.c '#include "core/engine/pool.h"'
expect 1 core/engine/x.h '#include "core/leases/leases.h"'
expect 1 core/leases/x.c '#include "drivers/fake/fake.h"'
expect 1 core/leases/x.c '#include "../engine/pool.h"'
expect 1 core/leases/x.c '#include <sqlock/sqlite.h>'
expect 1 core/engine/x.c '#include <libpq-fe.h>'
expect 1 core/extra/x.c 'int x;'
expect 1 recipes/x.c '#include "core/engine/pool.h"'
expect 1 recipes/x.c '#include <sqlock/sqlite.h>'
expect 0 recipes/x.c '#include <sqlock/register.h>'
expect 1 drivers/sqlite/x.c '#include "core/base/clock.h"'
expect 1 drivers/sqlite/x.c '#include <libpq-fe.h>'
expect 1 drivers/sqlite/x.c '#include <sqlock/postgres.h>'
expect 1 drivers/fake/x.c '#include <libpq-fe.h>'
expect 1 include/sqlock/sqlite.h '#include <sqlite3.h>'
expect 1 include/sqlock/sqlock.h '#include <sqlock/fake.h>'
expect 1 core/engine/x.c 'int x(void) { return poll(0, 0, 0); }'
expect 1 core/model/x.c '    t = time(NULL);'
expect 1 core/leases/x.c '    rc = pthread_create (&t, NULL, fn, p);'
expect 1 drivers/postgres/x.c '    usleep(10); /* a nap */'
expect 1 core/leases/x.c '#include SOME_HEADER'
expect 1 drivers/fake/x.c '    reads = stmt < SQLOCK_STMT_LIST;'
expect 0 drivers/fake/x.c '    long seen[SQLOCK_STMT_COUNT];'
expect 1 core/engine/x.c '    if (op->attempt->request.stmt == SQLOCK_STMT_ACQUIRE)'
expect 1 core/engine/x.c '    case SQLOCK_STMT_ACQUIRE:'
expect 0 core/engine/x.c '    rc = call_one(m, c, op, SQLOCK_STMT_LONGEST, &value);'
expect 1 cli/x.c '#include <sqlock/postgres.h>'
expect 1 cli/base/x.c '#include <libpq-fe.h>'
expect 1 cli/x.c '#include "core/base/clock.h"'
expect 1 core/leases/x.c '#include <jansson.h>'
expect 0 cli/x.c '#include "cli/base/options.h"'
expect 0 cli/run/x.c '    poll(NULL, 0, 10);'
expect 0 core/base/x.c '    clock_gettime(CLOCK_BOOTTIME, &t);'
expect 0 core/leases/x.c '#include "core/base/clock.h"'
expect 0 core/leases/x.c '/* like poll(), "sleep(1)" */ char *s = "poll(";'
expect 0 core/engine/x.c '    c->driver->poll(c); sqlock_wake_set(fd); lease_time(l);'
expect 0 drivers/postgres/x.c '#include <libpq-fe.h>'
expect 0 drivers/postgres/x.c '#include <sqlock/postgres.h>'
expect 0 drivers/fake/x.c '#include <sqlite3.h>'

[ $missed = 0 ] && echo "layers: no breach; $planted planted lines were judged right"
