#!/bin/sh
# A private MariaDB or MySQL for tests: in a temporary folder, on a unix socket only, gone after stop.
#   tests/tools/my.sh start, stop URL ...   as private.sh says; a server that `run` becomes has no database "test"
#                                           before someone makes it; and
#   tests/tools/my.sh crash URL             kills it, and starts it again
#   tests/tools/my.sh copy URL              makes another one of what is on its disk, while it does not run;
#                                           prints the URL
# Words in SQLOCK_TEST_MYSQL_ARGS are given to the server too. SQLOCK_TEST_MYSQLD is the program to run, in place
# of the one that is installed.
kind=my user=mysql parameter=socket signals="TERM KILL"
# shellcheck source=tests/tools/private.sh
. "$(dirname "$0")/private.sh"

url() { echo "mysql://root@localhost/test?socket=$dir/s"; }
server_pid() { cat "$dir/pid" 2>/dev/null; }

find_program() # NAME...
{
    for name in "$@"; do
        for at in $(echo "$PATH" | tr ':' ' ') /usr/sbin /usr/libexec; do
            [ -x "$at/$name" ] && echo "$at/$name" && return
        done
    done
    return 1
}

find_server()
{
    server=${SQLOCK_TEST_MYSQLD:-}
    [ -n "$server" ] || server=$(find_program mariadbd mysqld) ||
        die "no MariaDB or MySQL server is installed"
    client=$(find_program mariadb mysql) || die "no command line client is installed"
}

fill_dir()
{
    if [ -z "${SQLOCK_TEST_MYSQLD:-}" ] &&
        install=$(find_program mariadb-install-db mysql_install_db); then
        as "$install" --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal \
            --skip-test-db --skip-name-resolve
    else
        as "$server" --no-defaults --initialize-insecure --datadir="$dir/data"
    fi >"$dir/install.log" 2>&1 </dev/null || { cat "$dir/install.log" >&2; return 1; }
}

# The server's command line, behind the words that are given.
with_server()
{
    # shellcheck disable=SC2086
    "$@" "$server" --no-defaults --datadir="$dir/data" --socket="$dir/s" --pid-file="$dir/pid" \
        --skip-networking --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=32M \
        --max-connections=200 --log-error="$dir/log" ${SQLOCK_TEST_MYSQL_ARGS:-} \
        >"$dir/out" 2>&1 </dev/null
}

# The server answers when its socket takes a login; with whatever certificate it has, which newer clients verify
# of themselves.
answers()
{
    "$client" --no-defaults --loose-skip-ssl -uroot -S "$dir/s" -e 'CREATE DATABASE IF NOT EXISTS test' \
        >"$dir/client.log" 2>&1 </dev/null
}

launch()
{
    (with_server as setsid) >/dev/null 2>&1 </dev/null &
    i=0
    until answers; do
        if [ $i -ge 900 ] || ! kill -0 $! 2>/dev/null; then
            cat "$dir/log" "$dir/out" "$dir/client.log" >&2
            return 1
        fi
        sleep 0.1
        i=$((i + 1))
    done
}

become_server() { with_server become TERM env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"}; }

# MySQL's name for itself is not for two.
copy() # DIR
{
    enter_new_dir
    cp -a "$1/data" "$dir/data" && rm -f "$dir/data/auto.cnf" || die "it cannot be copied"
    keep_dir
}

own_verb()
{
    case $verb in
    crash) kill_server && again ;;
    copy) copy "$dir" ;;
    *) false ;;
    esac
}

main "$@"
