#!/bin/sh
# A private MariaDB or MySQL for tests: in a temporary folder, on a unix socket only, gone after stop.
#   tests/tools/my.sh start        prints its URL
#   tests/tools/my.sh stop URL     (or the folder that the URL's socket lies in)
#   tests/tools/my.sh create       makes all that start makes, but starts nothing; prints the URL
#   tests/tools/my.sh folder       makes the folder alone, for a copy of another server's data; prints the URL
#   tests/tools/my.sh run URL      becomes the server: it is the caller's child, and ends with it. It has
#                                  no database "test" before somebody makes it. It is the one that
#                                  SQLOCK_TEST_PRELOAD is loaded into, if that is set
#   tests/tools/my.sh crash URL    kills it, and starts it again on what is on its disk
#   tests/tools/my.sh kill URL     kills it, with -9
#   tests/tools/my.sh again URL    starts it on what is on its disk
#   tests/tools/my.sh copy URL     makes another one of what is on its disk, while it does not run; prints the URL
# It never runs as root: then as user mysql, or nobody. Commits are flushed, because the library asks.
# Words in SQLOCK_TEST_MYSQL_ARGS are given to the server too. SQLOCK_TEST_MYSQLD is the program to run,
# in place of the one that is installed.
kind=my user=mysql
# shellcheck source=tests/tools/private.sh
. "$(dirname "$0")/private.sh"

find_program() # NAME...
{
    for name in "$@"; do
        for dir in $(echo "$PATH" | tr ':' ' ') /usr/sbin /usr/libexec; do
            [ -x "$dir/$name" ] && echo "$dir/$name" && return
        done
    done
    return 1
}

fill_dir()
{
    if [ -z "${SQLOCK_TEST_MYSQLD:-}" ] &&
        install=$(find_program mariadb-install-db mysql_install_db); then
        as "$install" --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal \
            --skip-test-db --skip-name-resolve
    else
        as "$server" --no-defaults --initialize-insecure --datadir="$dir/data"
    fi >"$dir/install.log" 2>&1 </dev/null
}

# The server answers when its socket takes a login; with whatever certificate it has, which newer clients verify
# of themselves.
answers()
{
    "$client" --no-defaults --loose-skip-ssl -uroot -S "$dir/s" -e 'CREATE DATABASE IF NOT EXISTS test' \
        >"$dir/client.log" 2>&1 </dev/null
}

find_server()
{
    server=${SQLOCK_TEST_MYSQLD:-}
    [ -n "$server" ] || server=$(find_program mariadbd mysqld) ||
        die "no MariaDB or MySQL server is installed"
    client=$(find_program mariadb mysql) || die "no command line client is installed"
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

# In the background; returns when it answers.
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

create()
{
    find_server
    enter_new_dir
    # Servers put files there, and whoever started this may have named a folder of his own.
    export TMPDIR="$dir"
    fill_dir || { cat "$dir/install.log" >&2; die "the data folder could not be made"; }
}

start()
{
    create
    launch || { stop_dir; die "the server did not start"; }
    trap - EXIT
    echo "mysql://root@localhost/test?socket=$dir/s"
}

run()
{
    find_server
    cd "$dir" || exit 1
    export TMPDIR="$dir"
    with_server become TERM env ${SQLOCK_TEST_PRELOAD:+LD_PRELOAD="$SQLOCK_TEST_PRELOAD"}
}

kill_it()
{
    pid=$(cat "$dir/pid") && [ -n "$pid" ] || die "no server runs in $dir"
    kill_server "$pid"
}

again()
{
    find_server
    cd "$dir" || exit 1
    export TMPDIR="$dir"
    launch || die "the server did not start again"
}

# MySQL's name for itself is not for two.
copy() # DIR
{
    enter_new_dir
    cp -a "$1/data" "$dir/data" && rm -f "$dir/data/auto.cnf" || die "it cannot be copied"
    trap - EXIT
    echo "mysql://root@localhost/test?socket=$dir/s"
}

# A shutdown, kill.
stop_dir()
{
    end_server "$(cat "$dir/pid" 2>/dev/null)" TERM KILL
}

case ${1:-} in
start)
    start
    ;;
create)
    create
    trap - EXIT
    echo "mysql://root@localhost/test?socket=$dir/s"
    ;;
folder)
    enter_new_dir
    trap - EXIT
    echo "mysql://root@localhost/test?socket=$dir/s"
    ;;
stop)
    find_dir socket "$2"
    [ ! -d "$dir" ] || stop_dir
    ;;
run | again)
    find_dir socket "$2"
    "$1"
    ;;
kill)
    find_dir socket "$2"
    kill_it
    ;;
crash)
    find_dir socket "$2"
    kill_it && again
    ;;
copy)
    find_dir socket "$2"
    copy "$dir"
    ;;
*)
    die "usage: my.sh start | create | folder | copy URL | run URL | kill URL | again URL | crash URL | stop URL"
    ;;
esac
