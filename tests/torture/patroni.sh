#!/usr/bin/env bash
# make patroni: eight clients and a `sqlock run` over a Patroni cluster whose leader is killed, frozen or cut off
# by turns. Three nodes and etcd, each in a network namespace of its own; then the proof over all histories.
# As root, with Debian's packages patroni, etcd-server and iproute2.
#   tests/torture/patroni.sh PROGRAM COMMAND
# STRIKES  10    how often
# LEASE    75    seconds: three times what a failover takes
# TTL      20    seconds after which Patroni takes a silent leader for dead; 20 is its least
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tools/scratch.sh
. tests/tools/scratch.sh

program=$PWD/$1 command=$PWD/$2
strikes=${STRIKES:-10} lease=${LEASE:-75} ttl=${TTL:-20}
net=10.77.0 id=sqlock$$
nodes="1 2 3"
# What libpq keeps of GSSAPI for good would count as left behind.
url="postgresql://postgres@$net.1,$net.2,$net.3/postgres?connect_timeout=2&gssencmode=disable"

[ "$(id -u)" = 0 ] || { echo "patroni.sh: namespaces take root" >&2; exit 1; }
for tool in patroni etcd ip; do
    command -v $tool >/dev/null || { echo "SKIP $tool is not installed (Debian: patroni etcd-server iproute2)"; exit 77; }
done
temp=$(scratch_dir patroni 4000) || exit 1
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
folder=$temp/history
mkdir "$folder" && chmod 755 "$temp" || exit 1

# ---- the cluster ----------------------------------------------------------------------------------

inside() # NAMESPACE COMMAND...
{
    ip netns exec "$id-$1" "${@:2}"
}

finish()
{
    trap - EXIT HUP INT TERM
    for ns in hub $nodes; do
        # shellcheck disable=SC2046
        kill -9 $(ip netns pids "$id-$ns") 2>/dev/null
        ip netns del "$id-$ns" 2>/dev/null
    done
    rm -rf "$temp"
}
trap finish EXIT
trap 'finish; exit 130' HUP INT TERM

# The hub has etcd, the clients, and a bridge to all nodes.
make_network()
{
    ip netns add "$id-hub" && inside hub ip link add br0 type bridge && inside hub ip addr add $net.10/24 dev br0 &&
        inside hub ip link set br0 up && inside hub ip link set lo up || exit 1
    for n in $nodes; do
        ip netns add "$id-$n" &&
            ip link add eth0 netns "$id-$n" type veth peer name "v$n" netns "$id-hub" &&
            inside hub ip link set "v$n" master br0 up && inside "$n" ip addr add "$net.$n/24" dev eth0 &&
            inside "$n" ip link set eth0 up && inside "$n" ip link set lo up || exit 1
    done
}

# Its older protocol: with the newer one Patroni before 3.0.3 lets a leader that was frozen take the key back from the
# one that was promoted meanwhile, which drops what that one had committed.
start_etcd()
{
    inside hub etcd --enable-v2 --data-dir "$temp/etcd" --listen-client-urls http://$net.10:2379 \
        --advertise-client-urls http://$net.10:2379 --listen-peer-urls http://$net.10:2380 \
        >"$temp/etcd.log" 2>&1 &
}

write_node() # N
{
    install -d -o postgres -m 700 "$temp/$1"
    cat >"$temp/$1.yml" <<YML
scope: sqlock
name: n$1
restapi: { listen: "$net.$1:8008", connect_address: "$net.$1:8008" }
etcd: { host: "$net.10:2379" }
bootstrap:
  dcs:
    ttl: $ttl
    loop_wait: 5
    retry_timeout: 5
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: { wal_retrieve_retry_interval: 200ms, shared_buffers: 32MB }
  initdb: [ { encoding: UTF8 }, { locale: C }, data-checksums ]
  pg_hba: [ "local all all trust", "host all all $net.0/24 trust", "host replication all $net.0/24 trust" ]
postgresql:
  listen: "$net.$1:5432"
  connect_address: "$net.$1:5432"
  data_dir: "$temp/$1/data"
  bin_dir: "$bin"
  pgpass: "$temp/$1/pgpass"
  parameters: { unix_socket_directories: "$temp/$1" }
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: { username: postgres }
    replication: { username: postgres }
    rewind: { username: postgres }
YML
}

start_node() # N
{
    inside "$1" setpriv --reuid=postgres --regid=postgres --init-groups --inh-caps=-all \
        env -C "$temp/$1" patroni "$temp/$1.yml" >>"$temp/$1.log" 2>&1 &
}

role() # N: what Patroni says of it: 200 for what is asked
{
    inside hub curl -s -m 1 -o /dev/null -w '%{http_code}' "http://$net.$1:8008/$2" 2>/dev/null
}

# The one that takes part as leader now, and is not the one that was struck.
leader() # [BUT]
{
    for n in $nodes; do
        [ "$n" = "${1:-}" ] || [ "$(role "$n" primary)" != 200 ] || { echo "$n"; return; }
    done
    return 1
}

whole()
{
    local n up=0 sync=0
    for n in $nodes; do
        [ "$(role "$n" replica)" = 200 ] && up=$((up + 1))
        [ "$(role "$n" synchronous)" = 200 ] && sync=$((sync + 1))
    done
    [ $up = 2 ] && [ $sync = 1 ] && leader >/dev/null
}

await() # SECONDS WORDS...
{
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.2
    done
}

# ---- clients --------------------------------------------------------------------------------------

now_us()
{
    python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)'
}

start_clients()
{
    local i
    for i in 1 2 3 4 5 6 7 8; do
        ip netns exec "$id-hub" "$program" client --folder "$folder" --url "$url" --process "$i" --seed "$i" --names 5 \
            --lease $((lease * 1000)) --threads 1 --seconds 100000 \
            --mix "try=1 wait=60 loop=20 late=0 stale=0 long=0 forget=0" \
            --allow "SQLOCK_EUNREACH SQLOCK_ETIMEOUT SQLOCK_EREADONLY SQLOCK_EUNSURE SQLOCK_EDB SQLOCK_ELOST SQLOCK_EREFUSED" \
            </dev/null >"$folder/$i.err" 2>&1 &
        clients="${clients:-} $!"
    done
}

fault() # I|R OP BEGUN ENDED
{
    echo "$1 0 $2 0 fault 0 0 0 1 $3 $4" >>"$folder/99.history"
}

# The longest time without a grant since a moment, in milliseconds.
without_grants() # US
{
    cat "$folder"/[1-8].history | awk -v from="$1" '$1 == "R" && $5 == "acquire" && $6 == 0 && $11 > from { print $11 }' |
        sort -n | awk -v last="$1" '{ if ($1 - last > most) most = $1 - last; last = $1 } END { printf "%d", most / 1000 }'
}

# Some of them may have ended meanwhile.
signal_node() # SIGNAL NODE
{
    # shellcheck disable=SC2046
    kill -s "$1" $(ip netns pids "$id-$2") 2>/dev/null
}

strike() # KIND NODE
{
    case $1 in
    kill) signal_node KILL "$2" ;;
    freeze) signal_node STOP "$2" ;;
    cut) inside hub ip link set "v$2" down ;;
    esac
}

heal() # KIND NODE
{
    case $1 in
    kill) start_node "$2" ;;
    freeze) signal_node CONT "$2" ;;
    cut) inside hub ip link set "v$2" up ;;
    esac
}

# ---- the run ---------------------------------------------------------------------------------------

make_network
start_etcd
await 20 inside hub curl -s -m 1 -o /dev/null http://$net.10:2379/health || { cat "$temp/etcd.log"; exit 1; }
for n in $nodes; do
    write_node "$n"
    start_node "$n"
done
await 120 whole || { tail -n 20 "$temp"/[123].log; echo "FAIL the cluster did not come up"; exit 1; }
echo "a Patroni cluster: ttl $ttl s, synchronous_mode; leases of $lease s"
inside hub "$command" -U "$url" migrate up >/dev/null && inside hub "$program" tables "$url" || exit 1
start_clients
rm -f "$temp/stop"
inside hub "$command" -U "$url" run --ttl "${lease}s" nightly \
    sh -c "until [ -e $temp/stop ]; do sleep 0.5; done" >"$temp/run.log" 2>&1 &
run=$!
sleep 5

failed=0
for ((i = 1; i <= strikes; i++)); do
    kinds=(kill freeze cut)
    kind=${kinds[$(((i - 1) % 3))]}
    old=$(leader) || { echo "FAIL there is no leader"; failed=1; break; }
    begun=$(now_us)
    fault I $i "$begun" -1
    strike "$kind" "$old"
    await 120 leader "$old" >/dev/null || { echo "FAIL nobody was promoted after: $kind"; failed=1; break; }
    promoted=$(now_us)
    sleep 5
    heal "$kind" "$old"
    await 120 whole || { tail -n 20 "$temp"/[123].log; echo "FAIL the cluster did not become whole after: $kind"; failed=1; break; }
    fault R $i "$begun" "$(now_us)"
    echo "$kind: n$old, then n$(leader): promoted after $(((promoted - begun) / 1000)) ms, no grant for $(without_grants "$begun") ms"
    sleep 3
done

sleep $((lease + 5)) # each name must be granted once more, whoever had it
touch "$temp/stop"
wait $run
rc=$?
if [ $rc = 0 ]; then
    echo "sqlock run outlived all of them"
else
    echo "FAIL sqlock run ended with $rc"
    cat "$temp/run.log"
    failed=1
fi
# shellcheck disable=SC2086
kill $clients && wait $clients
printf 'engine patroni\nfault leader\nseed 1\nlease_ms %d\nslack_ms 2000\nmin_rate 0\nmin_grants 1000\nmin_faults %d\n' \
    $((lease * 1000)) "$strikes" >"$folder/rules"
if ! "$program" check "$folder"; then
    failed=1 keep=build/histories/patroni-$$
    mkdir -p build/histories
    cp -r "$folder" "$keep"
    cp "$temp"/*.log "$keep"
    echo "kept in $keep"
fi
cat "$folder"/*.err | sort | uniq -c | sort -rn | head -n 20
exit $failed
