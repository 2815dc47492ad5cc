#!/usr/bin/env bash
# Runs test programs and checks, JOBS at a time, with a PostgreSQL and a MariaDB server of their own, and sums
# up what they counted.
#   tests/tools/run.sh [--genuine] BUILD_DIR ITEM...
# An ITEM is a program or script. A script is a check: it counts as one test, skipped if it ends with
# 77. Set by the Makefile: T (a program's name, or part of a test's), STRICT, SQLOCK_TEST_DRIVERS.
# Then what knows MySQL is run once more on each genuine server of it that SQLOCK_TEST_MYSQLS names:
# versions that mysqld.sh can fetch, or programs. With --genuine, only there. One that cannot be had is a
# skip, loudly, never a failure.
# The last line is "N passed, N failed", with ", N skipped" behind it if there were any.
set -u
export LC_ALL=C
# shellcheck source=tests/tools/scratch.sh
. tests/tools/scratch.sh

only_genuine=
[ "$1" != --genuine ] || { only_genuine=1 && shift; }
build=$1
shift
log_dir=$build/log
limit_s=${SQLOCK_TEST_LIMIT:-1200}
# Most tests wait, for leases to end: one more at a time than there are cores. While the cores are idle all the same,
# up to twice as many. As many as that all the time make some late that look at a second of a server's. So does
# more than one program that keeps a core busy: these run one after the other; and one that looks at no clock runs
# beside all of it, when no other wants the core. What runs only then counts as idle.
cores=$(nproc 2>/dev/null || echo 1)
jobs=${JOBS:-$((cores + 1))}
most_jobs=${JOBS:-$((2 * jobs))}
passed=0 failed=0 skipped=0
postgres=tests/tools/pg.sh mysql=tests/tools/my.sh
declare -A started=() # the servers, by their scripts
item_group=
without_aslr=
on=
san_options= reports=
mkdir -p "$log_dir" || exit 1
# Programs that are killed leave their temporary folders behind, so all of them lie in one.
temp=$(scratch_dir run 4000) || exit 1
export TMPDIR=$temp
# cmocka's form for programs. What it shows to people differs from version to version.
export CMOCKA_MESSAGE_OUTPUT=TAP

# The program's process group, with the children that it made. A trap runs in the middle of any function, and finds that
# one's local variables. "-1" would be all processes of the machine.
end_item()
{
    [ "${item_group:-0}" -le 1 ] || kill -KILL -- "-$item_group" 2>/dev/null
    item_group=
}

finish()
{
    trap - EXIT HUP INT TERM
    end_item
    local aside
    aside=$(jobs -rp)
    [ -z "$aside" ] || { kill -TERM $aside && wait; } 2>/dev/null
    stop_server $postgres
    stop_server $mysql
    rm -rf "$temp"
}
trap finish EXIT
trap 'finish; exit 130' HUP INT TERM

# Under a sanitizer everything takes longer, and client libraries' own faults are not looked at. Tests are more patient
# there, and what keeps both cores busy does not run there: so more of them at a time.
prepare_sanitizer()
{
    local known=$build/san.supp
    [ -z "${SAN:-}" ] || jobs=${JOBS:-$((cores * 3))} most_jobs=${JOBS:-$((cores * 6))}
    case ${SAN:-} in
    address)
        grep '^leak:' tests/tools/san.supp >"$known"
        export LSAN_OPTIONS=suppressions=$known:print_suppressions=0
        export SQLOCK_TEST_SLOW=${SQLOCK_TEST_SLOW:-2}
        ;;
    thread)
        grep -v '^leak:' tests/tools/san.supp >"$known"
        san_options=suppressions=$known:die_after_fork=0:second_deadlock_stack=1
        export SQLOCK_TEST_SLOW=${SQLOCK_TEST_SLOW:-3}
        # Some kernels scatter addresses more widely than it can bear.
        setarch -R true 2>/dev/null && without_aslr="setarch -R"
        ;;
    undefined)
        san_options=print_stacktrace=1
        ;;
    esac
}

wants() # DRIVER
{
    local drivers
    for drivers in "${BUILT_DRIVERS:-$1}" "${SQLOCK_TEST_DRIVERS:-$1}"; do
        [[ " $drivers " == *" $1 "* ]] || return
    done
}

# One of its own for a driver, unless a variable names one.
start_server() # DRIVER SCRIPT VARIABLE NAME
{
    local driver=$1 script=$2 variable=$3 name=$4 url
    [ -z "${!variable:-}" ] && wants "$driver" || return 0
    if url=$("$script" start 2>"$log_dir/$driver.log"); then
        export "$variable=$url"
        started[$script]=$url
        return 0
    fi
    cat "$log_dir/$driver.log"
    echo "SKIP: no $name server could be started: nothing is tested on it"
    if [ "${STRICT:-}" = 1 ]; then
        echo "FAIL $driver (STRICT=1 needs it)"
        failed=$((failed + 1))
    fi
}

stop_server() # SCRIPT
{
    [ -z "${started[$1]:-}" ] || "$1" stop "${started[$1]}"
    unset "started[$1]"
}

# Passed, failed and skipped tests of a cmocka program's log, which is TAP with what tests say in between: for
# each group a plan, "1..3", and a line for each test. Number 0 is the group's setup or teardown, which failed.
# Old versions write "not ok" for a skip too. A group of which not all tests tell how they ended is one more
# failure.
count()
{
    awk 'function close_group() { bad += open && !group && seen != plan; open = 0 }
         /^1\.\.[0-9]+$/ { close_group(); open = 1; seen = group = 0; plan = substr($0, 4) + 0; next }
         !open { next }
         /^not ok 0 - / { bad++; group = 1; next }
         /^(not )?ok [0-9]+ # SKIP / { skip++; seen++; next }
         /^ok [0-9]+ - / { ok++; seen++ }
         /^not ok [0-9]+ - / { bad++; seen++ }
         END { close_group(); print ok + 0, bad + 0, skip + 0 }' "$1"
}

# What was said before and with each failure, and the end, where a program that died was.
report_failures() # LOG
{
    awk '/^1\.\.[0-9]+$|^(not )?ok [0-9]+ / { told = 0 }
         /^not ok [0-9]+ - / {
             for (i = n > 20 ? n - 20 : 0; i < n; i++) print "    " said[i % 20]
             print "    " $0
             told = 1
         }
         /^1\.\.[0-9]+$|^(not )?ok [0-9]+ / { n = 0; next }
         told && /^#/ { print "    " $0; next }
         { said[n++ % 20] = $0 }' "$1" | head -n 60
    tail -n 20 "$1" | sed 's/^/    /'
    echo "    (all of it: $1)"
}

# In the background and with a process group of its own, so that a trap can run at once and end the
# program with its children.
run_limited() # LOG ITEM
{
    set -m
    timeout -k 5 "$limit_s" $without_aslr "$2" >"$1" 2>&1 </dev/null &
    item_group=$!
    set +m
    wait "$item_group"
    rc=$?
    end_item # what it left behind, if it was killed
    [ $rc -ne 124 ] || echo "not done after $limit_s seconds" >>"$1"
    return $rc
}

report() # RESULT NAME SECONDS TEXT
{
    printf '%-4s %-36s %5.1fs  %s\n' "$1" "$2" "$3" "$4"
}

# An item may be a part of a program's tests: "program 1/2".
run_item()
{
    local item=${1% *} part= name log rc ok bad skip begun seconds
    [ "$item" = "$1" ] || part=${1##* }
    export SQLOCK_TEST_PART=$part
    name=${item#"$build"/tests/}
    name=${name#tests/}
    name=${name#tools/}
    name=${name%.sh}$on
    log=$log_dir/${name//\//-}${part:+-${part%/*}}.log
    begun=${EPOCHREALTIME/[.,]/}
    collect_reports
    case $item in
    *.sh)
        [[ -z ${T:-} || $name == *$T* ]] || return
        run_limited "$log" "$item"
        rc=$?
        ok=$((rc == 0)) skip=$((rc == 77)) bad=$((rc != 0 && rc != 77))
        ;;
    *)
        # A program's name picks all of its tests; anything else is a part of tests' names.
        unset SQLOCK_TEST_FILTER
        [[ -z ${T:-} || ${name%"$on"} == *$T* ]] || export SQLOCK_TEST_FILTER="*$T*"
        run_limited "$log" "$item"
        rc=$?
        read -r ok bad skip <<<"$(count "$log")"
        # It died, or did nothing: that is a failure too, unless it was all filtered away.
        if [ $rc -ne 0 ] && [ "$bad" = 0 ]; then
            bad=1
            echo "ended with $rc" >>"$log"
        elif [ $((ok + bad + skip)) = 0 ]; then
            [ -z "${SQLOCK_TEST_FILTER:-}" ] || return
            if grep -q '^SKIP' "$log"; then
                skip=1
            else
                bad=1
                echo "no test was run" >>"$log"
            fi
        fi
        ;;
    esac
    count_reports "$log"
    seconds=$((${EPOCHREALTIME/[.,]/} - begun))
    seconds=$((seconds / 1000000)).$((seconds % 1000000 / 100000))
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    if [ "$bad" = 0 ]; then
        report ok "$name${part:+ $part}" "$seconds" "$ok passed, $skip skipped"
        grep '^SKIP' "$log" | sort -u
    else
        report FAIL "$name${part:+ $part}" "$seconds" "$ok passed, $bad failed, $skip skipped"
        report_failures "$log"
    fi
}

# A report of a process whose end no test looked at counts too: each process writes its own into a folder
# of the item's, whoever it runs as.
collect_reports()
{
    [ -n "${SAN:-}" ] || return
    reports=$(mktemp -d "$temp/reports.XXXXXX") && chmod 1777 "$reports" || return
    export ASAN_OPTIONS=log_path=$reports/asan UBSAN_OPTIONS=$san_options:log_path=$reports/ubsan
    export TSAN_OPTIONS=$san_options:log_path=$reports/tsan
}

count_reports() # LOG
{
    [ -n "$reports" ] && [ -n "$(ls -A "$reports")" ] || return
    cat "$reports"/* >>"$1"
    # The leak sanitizer says this of a thread that ends while it looks, and reports leaks all the same. The address
    # sanitizer says the other of each program with coroutines, also if it is told of their stacks.
    grep -qvE "^==[0-9]+==(Unable to get registers from thread [0-9]+\.|WARNING: ASan doesn't fully support makecontext/swapcontext functions and may produce false positives in some cases!)$" "$reports"/* || return
    [ "$bad" != 0 ] || bad=1
}

# What the item says comes in one piece, when it ends; what it counted goes to a file.
run_aside() # NUMBER ITEM
{
    trap - EXIT
    trap 'end_item; exit 130' HUP INT TERM
    passed=0 failed=0 skipped=0
    run_item "$2" >"$temp/$1.out" 2>&1
    cat "$temp/$1.out"
    echo "$passed $failed $skipped" >"$temp/$1.sum"
}

# Those that last longest come first, or the last one would be waited for alone. Some of them run in parts, beside
# each other. Those that keep a core busy come before all others: busy ITEM, patient ITEM.
longest_first() # ITEM...
{
    printf '%s\n' "$@" | awk -v build="$build/tests/" '
        FNR == NR { if (!/^#/) { rank[$1] = ++n; how[$1] = $2 } next }
        {
            name = $0
            if (index(name, build) == 1) name = substr(name, length(build) + 1)
            place = name in rank ? rank[name] : n + FNR
            if (how[name] ~ /^[a-z]/) print 0 + place / 1000, how[name], $0
            else if (!how[name]) print place, $0
            else for (i = 1; i <= how[name]; i++) print place, $0, i "/" how[name]
        }' tests/tools/longest - | sort -n | cut -d" " -f2-
}

# Since the last call the cores had nothing to do for two fifths of the time or more. Waiting for a disk counts as work.
idle_before=0 total_before=0
cores_were_idle()
{
    local user nice system idle wait irq soft steal total was_idle=$idle_before was_total=$total_before
    read -r _ user nice system idle wait irq soft steal _ </proc/stat || return
    total=$((user + nice + system + idle + wait + irq + soft + steal))
    idle=$((idle + nice))
    idle_before=$idle total_before=$total
    [ $((5 * (idle - was_idle))) -ge $((2 * (total - was_total))) ]
}

# Until another program may begin. The patient lane does not count. After each one, its first seconds show what it needs.
wait_for_room()
{
    local n_running looks=0
    cores_were_idle
    while n_running=$(jobs -rp | grep -cvx "$patient") && [ "$n_running" -ge "$jobs" ]; do
        sleep 0.2
        looks=$(((looks + 1) % 10))
        [ $looks = 0 ] && cores_were_idle && [ "$n_running" -lt "$most_jobs" ] && return
    done
}

# One after the other, beside everything else.
run_lane() # LANE ITEM...
{
    local lane=$1 item n=0
    shift
    [ "$lane" = busy ] || renice -n 19 -p $BASHPID >/dev/null
    for item in "$@"; do
        n=$((n + 1))
        run_aside "$lane$n" "$item"
    done
}

run_all() # ITEM...
{
    local item items lane of_lane sums n=0 p f s
    patient=
    mapfile -t items < <(longest_first "$@")
    rm -f "$temp"/*.sum
    for lane in busy patient; do
        mapfile -t of_lane < <(printf '%s\n' "${items[@]}" | sed -n "s/^$lane //p")
        [ ${#of_lane[@]} != 0 ] || continue
        run_lane $lane "${of_lane[@]}" &
        [ $lane = busy ] || patient=$!
    done
    for item in "${items[@]}"; do
        case $item in "busy "* | "patient "*) continue ;; esac
        wait_for_room
        n=$((n + 1))
        run_aside $n "$item" &
    done
    wait
    sums=$(cat "$temp"/*.sum 2>/dev/null)
    [ "$(echo "$sums" | grep -c .)" = ${#items[@]} ] || failed=$((failed + 1)) # one of them left no sum
    while read -r p f s; do
        passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    done <<<"$sums"
}

# ---- genuine MySQL -------------------------------------------------------------------------------

# What the client library makes of URLs, option files and certificates, and what the command does to the
# processes around it, is tried with the server that is installed.
knows_mysql() # ITEM
{
    local source=${1#"$build"/}.c
    case $source in
    *.sh.c | tests/unit/* | tests/cli/usage_test.c | tests/cli/terminal_test.c) return 1 ;;
    tests/input/mysql_tls_test.c | tests/input/mysql_url_test.c | tests/cli/guard_test.c) return 1 ;;
    tests/cli/*) ;;
    *) grep -qs mysql "$source" ;;
    esac
}

skip_genuine() # VERSION WHY
{
    echo "SKIP: nothing is tested on genuine MySQL $1: $2"
    skipped=$((skipped + 1))
}

run_on_genuine() # VERSION ITEM...
{
    local version=$1 program=$1 dir=$temp/${1//\//-} log=$log_dir/mysql-${1//\//-}.log
    shift
    if [ ! -x "$program" ]; then
        program=$(tests/tools/mysqld.sh fetch "$version" 2>&1 >"$log" &&
            tests/tools/mysqld.sh unpack "$version" "$dir" 2>&1) ||
            { skip_genuine "$version" "$program"; return; }
    fi
    stop_server $mysql
    export SQLOCK_TEST_MYSQLD=$program SQLOCK_TEST_DRIVERS=mysql
    unset STRICT SQLOCK_TEST_MYSQL_URL # the other databases are left out on purpose
    start_server mysql $mysql SQLOCK_TEST_MYSQL_URL "MySQL $version"
    if [ -z "${SQLOCK_TEST_MYSQL_URL:-}" ]; then
        skip_genuine "$version" "it does not start here"
        return
    fi
    on=" (MySQL $version)"
    run_all "$@"
    on=
    stop_server $mysql
    rm -rf "$dir"
}

# Sanitizers have seen the driver on the server that is installed.
run_genuine() # ITEM...
{
    local item version items=() versions=${SQLOCK_TEST_MYSQLS:-}
    wants mysql && [ -z "${SAN:-}" ] || return 0
    for item in "$@"; do
        ! knows_mysql "$item" || items+=("$item")
    done
    [ ${#items[@]} != 0 ] || return 0
    [ -n "$versions" ] || [ -n "${T:-}" ] || skip_genuine "5.6 and 9" "make check-mysql does that"
    for version in $versions; do
        run_on_genuine "$version" "${items[@]}"
    done
}

prepare_sanitizer
if [ -z "$only_genuine" ]; then
    start_server postgres $postgres SQLOCK_TEST_POSTGRES_URL PostgreSQL
    start_server mysql $mysql SQLOCK_TEST_MYSQL_URL "MariaDB or MySQL"
    run_all "$@"
fi
run_genuine "$@"
if [ $((passed + failed + skipped)) = 0 ]; then
    echo "no test is called *${T:-}*"
    failed=1
fi
finish
if [ $skipped = 0 ]; then
    echo "$passed passed, $failed failed"
else
    echo "$passed passed, $failed failed, $skipped skipped"
fi
[ $failed = 0 ]
