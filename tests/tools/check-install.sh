#!/usr/bin/env bash
# make check-install: `make install` into an empty place; then C and C++ programs are built against what is
# there through pkg-config, shared and static, for each driver, and run. DESTDIR= and uninstall leave what
# they should. BUILT_DRIVERS is the Makefile's.
set -u
export LC_ALL=C
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0 built=0
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX LIBDIR LD_LIBRARY_PATH
# Another check may install too, and make writes into the build folder for it.
run_make() { flock "${BUILD:-build}/installing" "${MAKE:-make}" -s DRIVERS="$BUILT_DRIVERS" "$@" >"$dir/make.log" 2>&1; }

complain()
{
    echo "$*"
    bad=1
}

# What is below a folder, without the folders.
files() { (cd "$1" && find . ! -type d | sort); }

# ---- into a place of its own, and away again -----------------------------------------------------

# root may have a umask that hides what others are to read.
old=$(umask) && umask 077
run_make install DESTDIR="$dir/stage" PREFIX=/opt/sq LIBDIR=/opt/sq/lib64 || complain "$(cat "$dir/make.log")"
umask "$old"
hidden=$(find "$dir/stage" -mindepth 1 ! -type l ! -perm -004) && [ -z "$hidden" ] ||
    complain "make install lets nobody read $hidden"
for wanted in include/sqlock/sqlock.h lib64/libsqlock.a lib64/libsqlock.so lib64/libsqlock.so.0 \
    lib64/pkgconfig/libsqlock.pc lib64/libsqlock-fake.so.0 include/sqlock/fake.h bin/sqlock \
    share/man/man1/sqlock.1 lib/systemd/system/sqlock-reap.service lib/systemd/system/sqlock-reap.timer \
    share/sqlock/embed.awk share/doc/sqlock/sqlock-reap.cron share/doc/sqlock/nightly-job.cron; do
    [ -e "$dir/stage/opt/sq/$wanted" ] || complain "make install did not install $wanted"
done
[ "$(ls "$dir/stage")" = opt ] || complain "make install left its DESTDIR or PREFIX: $(files "$dir/stage")"
grep -rl '@[a-z]*@' "$dir"/stage/opt/sq/lib/systemd "$dir"/stage/opt/sq/share/doc && bad=1
grep -q '^ExecStart=/opt/sq/bin/sqlock ' "$dir/stage/opt/sq/lib/systemd/system/sqlock-reap.service" ||
    complain "the unit does not start /opt/sq/bin/sqlock"
grep -rl "$dir" "$dir/stage" | sed 's/^/DESTDIR is written into /' | grep . && bad=1
for driver in $BUILT_DRIVERS; do
    [ $driver != fake ] || continue
    for file in migrations/$driver/*.sql; do
        grep -q "CREATE TABLE\|DROP TABLE" "$dir/stage/opt/sq/share/sqlock/$file" || complain "$file is not installed"
        grep -H '[{}]' "$dir/stage/opt/sq/share/sqlock/$file" && complain "$file has names that are not filled in"
    done
done
[ ! -e "$dir/stage/opt/sq/share/sqlock/migrations/fake" ] || complain "the fake driver's migrations are installed"
# Also when the clients' packages, jansson and scdoc have gone meanwhile.
run_make uninstall DESTDIR="$dir/stage" PREFIX=/opt/sq LIBDIR=/opt/sq/lib64 \
    BUILD="$dir/build" DRIVERS=fake PKG_CONFIG=false || complain "$(cat "$dir/make.log")"
[ -z "$(files "$dir/stage")" ] || complain "make uninstall left $(files "$dir/stage")"
[ -z "$(ls "$dir/stage/opt/sq/share" | grep -v '^man$\|^doc$')" ] || complain "make uninstall left folders"

# ---- the manual tells every exit code of the command's -----------------------------------------------

for code in $(sed -n 's/.*EXIT_[A-Z_]* = \([0-9]*\).*/\1/p' cli/exits.h); do
    grep -qE "^\*$code[+*]|\*$code\*|\*$code\+n\*" cli/manual/tail.scd || complain "the manual does not tell exit code $code"
done

# ---- programs against it -------------------------------------------------------------------------

run_make install PREFIX="$dir/shared" || complain "$(cat "$dir/make.log")"
cp -a "$dir/shared" "$dir/static"
rm -f "$dir"/static/lib/*.so*
find "$dir/static" -name '*.pc' -exec sed -i "s|^prefix=.*|prefix=$dir/static|" {} +

# The SQL that is installed, run by the databases' own clients, is what the command would have done.
migrate_with() # DRIVER URL CLIENT...
{
    local driver=$1 url=$2 up down
    local -x LD_LIBRARY_PATH=$dir/shared/lib
    shift 2
    for up in "$dir/shared/share/sqlock/migrations/$driver"/*.up.sql; do
        "$@" <"$up" >"$dir/log" 2>&1 || complain "$driver: $up: $(cat "$dir/log")"
    done
    for step in "verify" "status --exit-code"; do
        # shellcheck disable=SC2086
        "$dir/shared/bin/sqlock" -U "$url" migrate $step >"$dir/log" 2>&1 || complain "$driver: migrate $step: $(cat "$dir/log")"
    done
    "$dir/shared/bin/sqlock" -U "$url" run installed true || complain "$driver: no lock on the installed SQL's tables"
    for down in $(printf '%s\n' "$dir/shared/share/sqlock/migrations/$driver"/*.down.sql | sort -r); do
        "$@" <"$down" >"$dir/log" 2>&1 || complain "$driver: $down: $(cat "$dir/log")"
    done
    "$dir/shared/bin/sqlock" -U "$url" ls >"$dir/log" 2>&1
    [ $? = 78 ] || complain "$driver: after its down files: $(cat "$dir/log")"
}

migrate_on_postgres()
{
    local url=${SQLOCK_TEST_POSTGRES_URL:-} name=sqlock_install_$$ own
    own=${url/\/\/\/postgres//\/\/$name}
    [ "$own" != "$url" ] || { echo "no private PostgreSQL: its installed SQL is not run"; return; }
    psql -X -q -d "$url" -c "CREATE DATABASE $name" || { complain "psql cannot make a database"; return; }
    migrate_with postgres "$own" psql -X -q -v ON_ERROR_STOP=1 -d "$own"
    psql -X -q -d "$url" -c "DROP DATABASE $name" || complain "psql cannot drop its database"
}

migrate_on_mysql()
{
    local url=${SQLOCK_TEST_MYSQL_URL:-} name=sqlock_install_$$ client socket
    [ -n "$url" ] || { echo "no MariaDB or MySQL: its installed SQL is not run"; return; }
    client=$(command -v mariadb || command -v mysql)
    socket=${url##*socket=}
    "$client" --no-defaults -u root -S "$socket" -e "CREATE DATABASE $name" || { complain "$client cannot make a database"; return; }
    migrate_with mysql "mysql://root@localhost/$name?socket=$socket" "$client" --no-defaults -u root -S "$socket" "$name"
    "$client" --no-defaults -u root -S "$socket" -e "DROP DATABASE $name" || complain "$client cannot drop its database"
}

for driver in $BUILT_DRIVERS; do
    case $driver in
    sqlite)
        migrate_with sqlite "sqlite:$dir/migrated.db" sqlite3 -bail "$dir/migrated.db"
        # As cron starts it.
        env -i "$dir/shared/bin/sqlock" -U "sqlite:$dir/cron.db" migrate up >"$dir/log" 2>&1 ||
            complain "it does not find its libraries by itself: $(cat "$dir/log")"
        ;;
    postgres) migrate_on_postgres ;;
    mysql) migrate_on_mysql ;;
    esac
done

cat >"$dir/program.c" <<'C'
#include <stdio.h>
#include <string.h>
#include DRIVER_HEADER
#include <sqlock/migrate.h>
int main(int argc, char **argv)
{
    sqlock *m = NULL;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    if (argc < 2) { /* no server to talk to: linked and loaded is all that can be seen */
        printf("%d\n", DRIVER() != NULL && strcmp(sqlock_version(), SQLOCK_VERSION) == 0);
        return 0;
    }
    memset(&err, 0, sizeof err);
    if (sqlock_migrate(DRIVER(), argv[1], NULL, NULL, &err) != 0 ||
        sqlock_open(DRIVER(), argv[1], NULL, &m, &err) != 0 ||
        sqlock_acquire(m, "installed", NULL, &lock, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%d\n", sqlock_lock_token(lock) > 0 && sqlock_release(lock, &err) == 0);
    sqlock_lock_free(lock);
    sqlock_close(m);
    return 0;
}
C
cp "$dir/program.c" "$dir/program.cc"

try() # KIND DRIVER COMPILER FLAG... FILE
{
    local kind=$1 driver=$2 program=$dir/program-$1-$2 static= url=
    local -x PKG_CONFIG_PATH=$dir/$kind/lib/pkgconfig
    shift 2
    [ "$kind" = shared ] || static=--static
    # shellcheck disable=SC2046
    "$@" -DDRIVER_HEADER="<sqlock/$driver.h>" -DDRIVER="sqlock_driver_$driver" -o "$program" \
        $(pkg-config $static --cflags --libs "libsqlock-$driver") >"$dir/log" 2>&1 ||
        { complain "$driver, $kind, $*: $(cat "$dir/log")"; return; }
    case $driver in
    sqlite) url=sqlite:$program.db && rm -f "$program.db" ;;
    esac
    # shellcheck disable=SC2086
    [ "$(LD_LIBRARY_PATH=$dir/shared/lib "$program" $url 2>&1)" = 1 ] ||
        complain "$driver, $kind, $*: $(LD_LIBRARY_PATH=$dir/shared/lib "$program" $url 2>&1)"
    readelf -d "$program" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' >"$program.needed"
    if [ "$kind" = shared ]; then
        grep -qx "libsqlock-$driver.so.0" "$program.needed" || complain "$driver: not linked with its soname"
    elif grep -q sqlock "$program.needed"; then
        complain "$driver: the static program needs $(grep sqlock "$program.needed")"
    fi
    built=$((built + 1))
}

for driver in $BUILT_DRIVERS; do
    for kind in shared static; do
        try $kind "$driver" "${CC:-gcc}" -std=c99 -Wall -Wextra -pedantic -Werror "$dir/program.c"
        try $kind "$driver" "${CXX:-g++}" -std=c++11 -Wall -Wextra -Werror "$dir/program.cc"
    done
done

# Who links one driver needs no other database's client.
for driver in $BUILT_DRIVERS; do
    others='libpq|libsqlite3|libmariadb|libmysqlclient'
    case $driver in
    fake | sqlite) others=${others/|libsqlite3/} ;;
    postgres) others=${others/libpq|/} ;;
    mysql) others=${others/|libmariadb|libmysqlclient/} ;;
    esac
    for kind in shared static; do
        needed=$(LD_LIBRARY_PATH=$dir/shared/lib ldd "$dir/program-$kind-$driver" | grep -E "$others") &&
            complain "$driver, $kind: needs $needed"
    done
done

[ "$built" -gt 0 ] || complain "no program was built"
[ $bad = 0 ] && echo "install: $built programs for $BUILT_DRIVERS"
