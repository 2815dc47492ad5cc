# shellcheck shell=sh disable=SC2154
# The peers that are installed, each started for the bench alone: on loopback, with its data in the bench's folder and
# its usual settings, as a child that ends with the bench. run.sh reads this in; it has $bench, $dir and port().

peers= peer_pids=

# What runs it: without root's rights, and not longer than this shell.
peer_start() # NAME COMMAND...
{
    peer=$1
    shift
    rights=
    [ "$(id -u)" != 0 ] || rights="--reuid nobody --regid $(id -g nobody) --clear-groups"
    # shellcheck disable=SC2086
    (cd "$dir/$peer" && exec setpriv $rights --pdeathsig KILL "$@") >"$dir/$peer/log" 2>&1 </dev/null &
    peer_pids="$peer_pids $!"
}

peer_folder() # NAME
{
    mkdir "$dir/$1" && { [ "$(id -u)" != 0 ] || chown nobody "$dir/$1"; }
}

peer_built() # NAME LIBRARY
{
    case " $built " in *" $1 "*) return 0 ;; esac
    echo "$1: SKIPPED, $2 was not there when bench was built" >&2
    return 1
}

peer_has() # NAME COMMAND
{
    command -v "$2" >/dev/null && return 0
    echo "$1: SKIPPED, $2 is not installed" >&2
    return 1
}

# It is ready when it has locked something.
peer_await() # NAME ADDRESS
{
    i=0
    until "$bench" --try "$1=$2" >"$dir/$1/try" 2>&1; do
        i=$((i + 1))
        if [ $i -ge 300 ] || ! kill -0 "${peer_pids##* }" 2>/dev/null; then
            echo "$1: SKIPPED, its server does not start:" >&2
            tail -n 3 "$dir/$1/log" "$dir/$1/try" >&2
            return 1
        fi
        sleep 0.1
    done
    peers="$peers $1:${peer_pids##* }=$2"
}

redis_start() # always | everysec
{
    peer_folder "redis-$1" && at=$(port) || return
    peer_start "redis-$1" redis-server --bind 127.0.0.1 --port "$at" --dir "$dir/redis-$1" --appendonly yes \
        --appendfsync "$1"
    peer_await "redis-$1" "127.0.0.1:$at"
}

etcd_start()
{
    peer_folder etcd && at=$(port) && members=$(port) || return
    peer_start etcd etcd --data-dir "$dir/etcd/data" --log-level error \
        --listen-client-urls "http://127.0.0.1:$at" --advertise-client-urls "http://127.0.0.1:$at" \
        --listen-peer-urls "http://127.0.0.1:$members" --initial-advertise-peer-urls "http://127.0.0.1:$members" \
        --initial-cluster "default=http://127.0.0.1:$members"
    peer_await etcd "127.0.0.1:$at"
}

zookeeper_start() # JAR
{
    peer_folder zookeeper && at=$(port) || return
    cat >"$dir/zookeeper/zoo.cfg" <<CONF
tickTime=2000
dataDir=$dir/zookeeper/data
clientPort=$at
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
CONF
    peer_start zookeeper java -cp "$1" org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zookeeper/zoo.cfg"
    peer_await zookeeper "127.0.0.1:$at"
}

peers_start()
{
    built=$("$bench" --peers | tr '\n' ' ')
    if peer_built redis-always libhiredis-dev && peer_has redis redis-server; then
        redis_start always
        redis_start everysec
    fi
    ! { peer_built etcd libcurl4-openssl-dev && peer_has etcd etcd; } || etcd_start
    jar=/usr/share/java/zookeeper.jar
    if peer_built zookeeper libzookeeper-mt-dev && peer_has zookeeper java; then
        if [ -e $jar ]; then
            zookeeper_start $jar
        else
            echo "zookeeper: SKIPPED, zookeeper is not installed" >&2
        fi
    fi
}

peers_stop()
{
    for pid in $peer_pids; do
        kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
}
