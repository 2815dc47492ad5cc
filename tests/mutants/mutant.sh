#!/usr/bin/env bash
# Plants one bug in a copy of the tree, builds the program that must catch it, and judges what that says.
#   tests/mutants/mutant.sh NAME [--control]
# What a mutant's file holds: README.md. With --control the program must pass on the tree as it is first.
# Ends with 0 if the bug is caught: the test that the mutant names fails, by an assertion, within the limit,
# and says what the mutant expects of it. Ends with 77 if its database is not there, else with 1. Set by the
# Makefile: BUILD, whose objects are taken over, BUILT_DRIVERS; by run.sh: the servers' URLs.
set -u
export LC_ALL=C CMOCKA_MESSAGE_OUTPUT=TAP
cd "$(dirname "$0")/../.." || exit 1

name=$1
control=${2:-}
build=${BUILD:-build}
mutant=tests/mutants/$name.mutant

end() # STATUS TEXT
{
    echo "$name: $2"
    exit "$1"
}

field()
{
    sed -n "/^file:/q; s/^$1: *//p" "$mutant" | head -n 1
}

# Fields without which nothing can be judged.
read_mutant()
{
    local key
    [ -r "$mutant" ] || end 1 "there is no $mutant"
    for key in wrong promise check says on; do
        [ -n "$(field $key)" ] || end 1 "its file does not tell '$key:'"
    done
    read -r program filter <<<"$(field check)"
    says=$(field says) on=$(field on) limit=$(field limit)
    limit=${limit:-60}
    [ -n "$filter" ] || end 1 "its check is a program without a test's name"
}

missing() # DATABASE
{
    echo "SKIP: $name is not planted: $1"
    exit 77
}

want_databases()
{
    local one
    for one in $on; do
        [[ " ${BUILT_DRIVERS:-$one} " == *" $one "* ]] || missing "the driver $one is not built"
        [[ " ${SQLOCK_TEST_DRIVERS:-$one} " == *" $one "* ]] || missing "$one is left out"
        case $one in
        postgres) [ -n "${SQLOCK_TEST_POSTGRES_URL:-}" ] || missing "there is no PostgreSQL server" ;;
        mysql) [ -n "${SQLOCK_TEST_MYSQL_URL:-}" ] || missing "there is no MariaDB or MySQL server" ;;
        esac
    done
}

# Never in the tree itself. What was made there of sources that stay as they are is taken over.
copy_tree()
{
    local made
    tree=$(mktemp -d "${TMPDIR:-/tmp}/sqlock-mutant.XXXXXX") || exit 1
    trap 'rm -rf "$tree"' EXIT
    tar -cf - --exclude=./.git --exclude=./build --exclude="./$build" . | tar -xf - -C "$tree" || exit 1
    mkdir -p "$tree/build/obj/tests"
    # What was made for the command's tests names the command of this tree.
    for made in flags exports gen obj/core obj/drivers obj/gen obj/tests/lib libtest.a \
        "$([ "${program%/*}" = cli ] || echo "obj/tests/${program%/*}")"; do
        [ -z "$made" ] || [ ! -e "$build/$made" ] || cp -a "$build/$made" "$tree/build/${made%/*}" || exit 1
    done 2>/dev/null
    cp -a "$build"/libsqlock*.[ao] "$tree/build" 2>/dev/null
}

plant()
{
    (cd "$tree" && awk -f tests/mutants/plant.awk "$mutant") || end 1 "it does not apply any more"
    local needs=COMMAND=

    [ "${program%/*}" != cli ] || needs=all # the command, and the drivers that it opens
    (cd "$tree" && "${MAKE:-make}" -s --no-print-directory BUILD=build ONLY="${program%/*}" \
        ${BUILT_DRIVERS:+DRIVERS="$BUILT_DRIVERS"} "$needs" "build/tests/$program") >"$tree/log" 2>&1 ||
        { tail -n 20 "$tree/log"; end 1 "it does not build"; }
}

run_check() # FOLDER PROGRAM
{
    (cd "$1" && SQLOCK_TEST_FILTER="*$filter*" SQLOCK_TEST_DRIVERS="$on" \
        timeout -k 2 "$limit" "$2") >"$log" 2>&1 </dev/null
    rc=$?
}

# From the first test that failed: what it said, with the line of the assertion.
words()
{
    awk '/^1\.\.[0-9]+$/ || /^ok [0-9]+ / || / # SKIP / { if (failed) exit; text = ""; next }
         /^not ok [0-9]+ - / { if (failed) exit; failed = 1 }
         { text = text "    " $0 "\n" }
         match($0, /tests\/[a-z_\/]*\.c:[0-9]+/) {
             split(substr($0, RSTART, RLENGTH), at, ":")
             for (i = 0; i < at[2] && (getline line <at[1]) > 0; i++)
                 ;
             close(at[1])
             text = text "    " line "\n"
         }
         END { if (failed) printf "%s", text }' "$log" | cut -c1-300 | head -n 20
}

must_pass()
{
    run_check . "$build/tests/$program"
    if [ $rc != 0 ] || ! grep -q '^ok [0-9]* - ' "$log"; then
        tail -n 20 "$log"
        end 1 "$filter does not pass without it"
    fi
}

judge()
{
    echo "$name: $(field wrong) ($(field promise))"
    if [ $rc = 124 ] || [ $rc = 137 ]; then
        tail -n 20 "$log"
        end 1 "not caught: $filter was not done after $limit seconds"
    elif grep -q 'Test failed with exception' "$log" || ! grep -qE '^# (not )?ok - ' "$log"; then
        tail -n 20 "$log"
        end 1 "not caught: $program crashed ($rc)"
    elif grep -E '^not ok [0-9]+ - test_' "$log" | grep -qv 'Could not run test:'; then
        words
        words | grep -qF -- "$says" || end 1 "not caught: $filter failed, and did not say '$says'"
        end 0 "caught by $filter"
    elif grep -q '^ok [0-9]* - ' "$log"; then
        end 1 "not caught: $filter passes with it: a test is missing"
    elif grep -qE '^(not )?ok [0-9]+ # SKIP ' "$log"; then
        missing "$filter was skipped"
    else
        cat "$log"
        end 1 "not caught: no test called *$filter* was run"
    fi
}

read_mutant
want_databases
copy_tree
log=$tree/said
[ "$control" != --control ] || must_pass
plant
run_check "$tree" "build/tests/$program"
judge
