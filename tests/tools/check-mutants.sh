#!/usr/bin/env bash
# make check-mutants: tests/mutants/mutant.sh takes nothing for a bug that was caught but one that was. Tried
# on a tree with one program, which does what a word in it says.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset BUILD BUILT_DRIVERS MAKEFLAGS SQLOCK_TEST_DRIVERS SQLOCK_TEST_POSTGRES_URL
bad=0 planted=0

mkdir -p "$dir/core" "$dir/tests/mutants" "$dir/build/tests/unit"
cp tests/mutants/mutant.sh tests/mutants/plant.awk "$dir/tests/mutants"
cat >"$dir/Makefile" <<'MAKE'
build/tests/unit/x: core/x.c
	@mkdir -p $(@D) && sh -n $< && cp $< $@ && chmod +x $@
MAKE
cat >"$dir/core/x.c" <<'PROGRAM'
#!/bin/sh
echo '1..1'
word=good
case $word in
good) echo 'ok 1 - test_of_it' ;;
wrong) echo 'gave 1, not 2'; echo 'not ok 1 - test_of_it (here)' ;;
later) echo 'not ok 1 - test_of_it'; echo '# gave 1, not 2' ;;
other) echo 'gave 3, not 4'; echo 'not ok 1 - test_of_it'; echo '# x'; echo 'ok 2 - test'; echo 'gave 1, not 2' ;;
fault) echo 'not ok 1 - test_of_it'; echo '# Test failed with exception: gave 1, not 2' ;;
crash) kill -SEGV $$ ;;
hang) exec sleep 59 ;;
setup) echo 'gave 1, not 2'; echo 'not ok 1 - test_of_it Could not run test: Test setup failed' ;;
skip) echo 'ok 1 # SKIP test_of_it' ;;
old-skip) echo 'not ok 1 # SKIP test_of_it' ;;
none) ;;
esac
# twice
# twice
echo '# ok - tests'
PROGRAM
make -s -C "$dir"
before=$(cat "$dir/core/x.c")

expect() # STATUS TEXT PIECES [FIELD VALUE]
{
    local said status limit=9 on=fake says='gave 1, not 2'
    [ $# = 3 ] || local "$4=$5"
    printf '%s: %s\n' wrong 'It is.' promise P0 check 'unit/x test_of_it' says "$says" on "$on" limit "$limit" \
        >"$dir/tests/mutants/m.mutant"
    printf '%s\n' "" "$3" >>"$dir/tests/mutants/m.mutant"
    said=$(cd "$dir" && tests/mutants/mutant.sh m --control 2>&1)
    status=$?
    planted=$((planted + 1))
    if [ $status != "$1" ] || ! grep -qF -- "$2" <<<"$said"; then
        printf '%s\nstatus %d, not %d with "%s":\n%s\n' "$3" $status "$1" "$2" "$said"
        bad=1
    fi
}

word() { printf 'file: core/x.c\n-word=good\n+%s' "$1"; }

expect 0 "caught by test_of_it" "$(word word=wrong)"
expect 0 "gave 1, not 2" "$(word word=wrong)"
expect 0 "gave 1, not 2" "$(word word=later)"
expect 1 "a test is missing" "$(word 'word=good # an equal one')"
expect 1 "did not say 'gave 1, not 2'" "$(word word=other)"
expect 1 "crashed" "$(word word=fault)"
expect 1 "crashed" "$(word word=crash)"
expect 1 "not done after 1 seconds" "$(word word=hang)" limit 1
expect 1 "no test called" "$(word word=none)"
expect 1 "no test called" "$(word word=setup)"
expect 1 "it does not build" "$(word 'word=(')"
expect 77 "was skipped" "$(word word=skip)"
expect 77 "was skipped" "$(word word=old-skip)"
expect 77 "there is no PostgreSQL" "$(word word=wrong)" on postgres
expect 1 "does not tell 'says:'" "$(word word=wrong)" says ""

# What does not fit is told, and nothing is planted.
expect 1 "stands there 0 times" $'file: core/x.c\n-word=better\n+word=wrong'
expect 1 "stands there 0 times" $'file: core/x.c\n-word=goo\n+word=wrong'
expect 1 "stands there 2 times" $'file: core/x.c\n-# twice\n+# once'
expect 1 "there is no core/y.c" $'file: core/y.c\n-a\n+b'
expect 1 "changes nothing" $'file: core/x.c\n word=good'
expect 1 "changes nothing" ""
expect 1 "does not say where" $'file: core/x.c\n+word=wrong'
expect 1 "a line of a piece is none" $'file: core/x.c\n-word=good\n\n+word=wrong'
expect 1 "does not apply any more" $'file: core/x.c\n-word=better\n+word=wrong'

[ "$(cat "$dir/core/x.c")" = "$before" ] || { echo "a mutant was planted in the tree itself"; bad=1; }
printf '#!/bin/sh\nexit 1\n' >"$dir/build/tests/unit/x"
touch "$dir/build/tests/unit/x"
expect 1 "does not pass without it" "$(word word=wrong)"

# The test's last three words are in the program's folder. Those before them may be put together by a macro or a table,
# as may a database's name at the end.
finds_test() # PROGRAM TEST
{
    local words
    words=$(sed -E 's/_(postgres|mysql|sqlite)$//; s/.*_(([^_]+_){2}[^_]+)$/\1/; s/_/[_ ]/g' <<<"$2")
    [ -f "tests/$1.c" ] && grep -rq "$words" "tests/${1%/*}"
}

# Each mutant of the tree still finds its test and its lines, which also says that none of them was left planted. They
# are planted in copies of the files that they name.
here=$PWD all=0
for mutant in tests/mutants/*.mutant; do
    read -r program test < <(sed -n 's/^check: *//p' "$mutant")
    finds_test "$program" "$test" || { echo "$mutant: there is no $program $test"; bad=1; }
    rm -rf "$dir/copy"
    for file in $(sed -n 's/^file: //p' "$mutant" | sort -u); do
        mkdir -p "$dir/copy/$(dirname "$file")"
        cp "$file" "$dir/copy/$file"
    done
    (cd "$dir/copy" && awk -f "$here/tests/mutants/plant.awk" "$here/$mutant") || bad=1
    all=$((all + 1))
done

[ $bad = 0 ] && echo "mutants: $planted were judged right, $all find their lines and their tests"
