# shellcheck shell=sh disable=SC2154
# Private servers: as whom they run, their folder, their start and their end. pg.sh and my.sh read it in, and end
# with `main "$@"`. They set `kind` (pg or my), `user` (as whom the server runs if root starts it), `parameter`
# (what its folder is called in a URL), `signals` (that end it, one after the other); and define:
#   find_server     sets its programs, or dies
#   fill_dir        makes the data in $dir, or fails
#   launch          starts it in the background; returns when it answers
#   become_server   becomes the server
#   server_pid, url print what they are called
#   own_verb URL    what only this kind can do, for $verb; fails if there is no such verb
# The verbs that both have:
#   start           makes a server and starts it; prints its URL
#   stop URL        (or the folder that the URL names); the folder goes too
#   create          makes all that start makes, but starts nothing; prints the URL
#   folder          makes the folder alone, for a copy of another server's data; prints the URL
#   run URL         becomes the server: it is the caller's child, and ends with it
#   kill URL        kills it, with -9
#   again URL       starts it on what is on its disk
# A server never runs as root. It leaves nothing outside of its folder, even if it is killed. Commits are on disk,
# because the library insists. SQLOCK_TEST_PRELOAD is a library that is loaded into it; MySQL's, by `run` alone.
set -u
umask 022

die()
{
    echo "$kind.sh: $*" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    id -u "$user" >/dev/null 2>&1 || user=nobody
    as() { setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@"; }
else
    user=
    as() { "$@"; }
fi

# Becomes the command: without root's rights and, should the caller die, not for long.
become() # SIGNAL COMMAND...
{
    signal=$1
    shift
    [ -z "$user" ] || set -- setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        --pdeathsig "$signal" "$@"
    exec "$@"
}

# A folder that this user can reach, with a name short enough for a socket.
make_dir()
{
    for top in "${TMPDIR:-/tmp}" /tmp; do
        [ ${#top} -le 70 ] || continue
        dir=$(mktemp -d "$top/sqlock-$kind.XXXXXX") || continue
        chmod 755 "$dir" && { [ -z "$user" ] || chown "$user" "$dir"; } &&
            as test -w "$dir" && return
        rmdir "$dir"
    done
    die "no temporary folder that user ${user:-$(id -un)} can reach"
}

# Goes into the folder. Servers put files into TMPDIR, and the caller may have named a folder of its own.
enter_dir()
{
    cd "$dir" || exit 1
    export TMPDIR="$dir"
}

# Into a new one, which goes with this shell, unless keep_dir is called.
enter_new_dir()
{
    make_dir
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 1' HUP INT TERM
    enter_dir
}

keep_dir()
{
    trap - EXIT
    url
}

# The one that a URL names, or that is given itself. A socket in it is called s.
find_dir() # URL
{
    dir=${1#*"$parameter"=}
    dir=${dir%%&*}
    dir=${dir%/s}
    case $dir in
    /*/sqlock-"$kind".??????) ;;
    *) die "not a folder of $kind.sh: $dir" ;;
    esac
}

create()
{
    find_server
    enter_new_dir
    fill_dir || die "the data folder could not be made"
}

start()
{
    launch || { end_server; die "the server did not start"; }
    keep_dir
}

again()
{
    find_server
    enter_dir
    launch || die "the server did not start again"
}

# One that has ended is still there until whoever started it has looked.
lives() # PID
{
    kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' /proc/"$1"/status
}

# With its children, at once.
kill_server()
{
    pid=$(server_pid)
    [ -n "$pid" ] || die "no server runs in $dir"
    # shellcheck disable=SC2046
    kill -s KILL "$pid" $(cat /proc/"$pid"/task/*/children 2>/dev/null) 2>/dev/null
    while lives "$pid"; do
        sleep 0.05
    done
}

# The signals, until one has helped within ten seconds; then the folder goes.
end_server()
{
    pid=$(server_pid)
    for signal in ${pid:+$signals}; do
        kill -s "$signal" "$pid" 2>/dev/null || break
        i=0
        while lives "$pid" && [ $i -lt 100 ]; do
            sleep 0.1
            i=$((i + 1))
        done
    done
    rm -rf "$dir"
}

main() # VERB [URL]
{
    verb=${1:-}
    case $verb in
    start | create | folder) ;;
    *) find_dir "${2:-}" ;;
    esac
    case $verb in
    start) create && start ;;
    create) create && keep_dir ;;
    folder) enter_new_dir && keep_dir ;;
    stop) [ ! -d "$dir" ] || end_server ;;
    run) find_server && enter_dir && become_server ;;
    kill) kill_server ;;
    again) again ;;
    *) own_verb || die "there is no '$verb'; see private.sh and $kind.sh" ;;
    esac
}
