# shellcheck shell=sh disable=SC2154
# What private servers have in common: whom they run as, their folder, and their end. Read in by pg.sh and
# my.sh, with `kind` set to pg or my, and `user` to whom the server runs as if root starts it.
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

# Becomes the command: without a root's rights and, should the caller die, not for long.
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

# Into a new one, which goes with this shell, unless it takes the trap away.
enter_new_dir()
{
    make_dir
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 1' HUP INT TERM
    cd "$dir" || exit 1
}

# The one that a URL names by this parameter, or that is given itself. A socket in it is called s.
find_dir() # PARAMETER URL
{
    dir=${2#*"$1"=}
    dir=${dir%%&*}
    dir=${dir%/s}
    case $dir in
    /*/sqlock-"$kind".??????) ;;
    *) die "not a folder of $kind.sh: $dir" ;;
    esac
}

# With its children, at once.
kill_server() # PID
{
    # shellcheck disable=SC2046
    kill -s KILL "$1" $(cat /proc/"$1"/task/*/children 2>/dev/null) 2>/dev/null
    while kill -0 "$1" 2>/dev/null; do
        sleep 0.05
    done
}

# The signals, until one has helped within ten seconds; then the folder goes.
end_server() # PID SIGNAL...
{
    pid=$1
    shift
    for signal in ${pid:+"$@"}; do
        kill -s "$signal" "$pid" 2>/dev/null || break
        i=0
        while kill -0 "$pid" 2>/dev/null && [ $i -lt 100 ]; do
            sleep 0.1
            i=$((i + 1))
        done
    done
    rm -rf "$dir"
}
