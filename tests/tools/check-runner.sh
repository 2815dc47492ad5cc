#!/usr/bin/env bash
# The runner counts what happened: a failure, a crash, a hang, a program that tests nothing cannot pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset T STRICT SAN SQLOCK_TEST_FILTER
export SQLOCK_TEST_DRIVERS=fake SQLOCK_TEST_LIMIT=1
bad=0

cat >"$dir/x.c" <<'C'
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
static void good(void **s) { (void)s; }
static void wrong(void **s) { (void)s; assert_int_equal(1, 2); }
static void skipped(void **s) { (void)s; skip(); }
static void crash(void **s) { (void)s; abort(); }
static void hang(void **s) { (void)s; sleep(60); }
static void leave(void **s) { (void)s; exit(0); }
static void noise(void **s) { (void)s; puts("ok\nFAILED\nnot ok\n# not ok - tests"); }
static int no(void **s) { (void)s; return -1; }
int main(void)
{
    const struct CMUnitTest tests[] = {TESTS};
    const struct CMUnitTest more[] = {MORE};
    int failed = cmocka_run_group_tests(tests, SETUP, TEARDOWN);
    return failed + (sizeof more ? cmocka_run_group_tests(more, NULL, NULL) : 0);
}
C

expect() # LINE TESTS [SETUP TEARDOWN [TESTS_OF_ANOTHER_GROUP]]
{
    local program=$dir/tests/self/x last status fits=1
    mkdir -p "${program%/*}"
    "${CC:-gcc}" -w -DTESTS="$2" -DSETUP="${3:-NULL}" -DTEARDOWN="${4:-NULL}" -DMORE="${5:-}" -o "$program" \
        "$dir/x.c" -lcmocka || { bad=1; return; }
    last=$(tests/tools/run.sh "$dir" "$program" 2>&1 | tail -n 1; exit "${PIPESTATUS[0]}")
    status=$?
    case $1 in
    *" 0 failed"*) [ $status = 0 ] || fits=0 ;;
    *) [ $status != 0 ] || fits=0 ;;
    esac
    if [ "$last" != "$1" ] || [ $fits = 0 ]; then
        echo "$2 ${3:-} ${4:-}: '$last' with status $status, not '$1'"
        bad=1
    fi
}

t='cmocka_unit_test'
expect "2 passed, 0 failed" "$t(good),$t(good)"
expect "1 passed, 1 failed" "$t(good),$t(wrong)"
expect "1 passed, 0 failed, 1 skipped" "$t(good),$t(skipped)"
expect "1 passed, 2 failed, 1 skipped" "$t(wrong),$t(skipped),$t(good),$t(wrong)"
expect "1 passed, 1 failed" "$t(good),${t}_setup(good,no)"
expect "0 passed, 1 failed" "${t}_teardown(good,no)"
expect "0 passed, 1 failed" "$t(good)" no
expect "1 passed, 1 failed" "$t(good)" NULL no
expect "1 passed, 1 failed" "$t(good),$t(crash),$t(good)"
expect "1 passed, 1 failed" "$t(good),$t(hang)"
expect "1 passed, 1 failed" "$t(good),$t(leave),$t(good)"
expect "2 passed, 0 failed" "$t(noise),$t(good)"
expect "2 passed, 0 failed, 1 skipped" "$t(good)" NULL NULL "$t(skipped),$t(good)"
expect "2 passed, 2 failed" "$t(good),$t(wrong)" NULL NULL "$t(good),$t(crash),$t(good)"
expect "1 passed, 2 failed" "$t(good)" no NULL "$t(good),$t(wrong)"
expect "0 passed, 1 failed" ""

script() # LINE NAME BODY
{
    printf '#!/bin/sh\n%s\n' "$3" >"$dir/$2"
    chmod +x "$dir/$2"
    last=$(tests/tools/run.sh "$dir" "$dir/$2" 2>&1 | tail -n 1)
    [ "$last" = "$1" ] || { echo "'$3' as $2: '$last', not '$1'"; bad=1; }
}
script "1 passed, 0 failed" check.sh "exit 0"
script "0 passed, 1 failed" check.sh "exit 3"
script "0 passed, 0 failed, 1 skipped" check.sh "exit 77"
script "0 passed, 0 failed, 1 skipped" program "echo 'SKIP: no server'"
script "0 passed, 1 failed" program "echo 'SKIP: no server'; exit 1"
script "0 passed, 1 failed" program "exit 0"
export SAN=address
script "1 passed, 1 failed" check.sh 'echo "a process that nobody waited for" >"${ASAN_OPTIONS#log_path=}.1"'
script "1 passed, 0 failed" check.sh "exit 0"
unset SAN

# Together they count as one by one, and nobody outlives the run.
several()
{
    printf '#!/bin/sh\nsleep 0.2\nexit 0\n' >"$dir/good.sh"
    printf '#!/bin/sh\nexit 3\n' >"$dir/bad.sh"
    printf '#!/bin/sh\nexit 77\n' >"$dir/none.sh"
    printf '#!/bin/sh\necho $$ >%s\nexec sleep 59\n' "$dir/pid" >"$dir/hang.sh"
    chmod +x "$dir"/*.sh
}
several
last=$(SQLOCK_TEST_LIMIT=5 JOBS=2 tests/tools/run.sh "$dir" "$dir/good.sh" "$dir/bad.sh" "$dir/none.sh" "$dir/good.sh" \
    "$dir/hang.sh" | tail -n 1)
[ "$last" = "2 passed, 2 failed, 1 skipped" ] || { echo "two at a time: '$last'"; bad=1; }
# Also while the second one waits for room, in a function with variables of its own.
for jobs in 1 2; do
    rm -f "$dir/pid"
    SQLOCK_TEST_LIMIT=50 JOBS=$jobs tests/tools/run.sh "$dir" "$dir/hang.sh" "$dir/good.sh" >/dev/null 2>&1 &
    run=$!
    for _ in $(seq 400); do [ -s "$dir/pid" ] && break; sleep 0.05; done
    kill -TERM $run
    wait $run
    rc=$?
    [ $rc = 130 ] || { echo "a run that was ended by TERM ended with $rc"; bad=1; }
    case $(ps -o stat= -p "$(cat "$dir/pid")") in
    "" | Z*) ;;
    *) echo "a test outlived the run"; bad=1 ;;
    esac
done

[ "$(T=nothing-like-it tests/tools/run.sh "$dir" "$dir/check.sh" | tail -n 1)" = "0 passed, 1 failed" ] ||
    { echo "a name that fits nothing passed"; bad=1; }
for name in $(awk '!/^#/ { print $1 }' tests/tools/longest); do
    [ -e "tests/$name.c" ] || { echo "tests/tools/longest: there is no $name"; bad=1; }
done

# A genuine server that cannot be had is a skip, and one that is asked for is not forgotten.
last=$(SQLOCK_TEST_DRIVERS=mysql SQLOCK_TEST_MYSQLS="0.0 /nonexistent/mysqld" tests/tools/run.sh --genuine \
    "$dir" "$dir/tests/cli/x" | tail -n 1)
[ "$last" = "0 passed, 0 failed, 2 skipped" ] || { echo "no genuine server: '$last'"; bad=1; }
[ $bad = 0 ] && echo "runner: counts right"
