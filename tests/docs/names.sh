#!/usr/bin/env bash
# make check T=docs/names: what the documents call by name is there: commands and options of sqlock, functions,
# constants and variables, targets of make. README has less than 200 lines. docs/promises.md names every promise, and
# what proves it: tests, rules of the torture test and planted bugs that there are. Each row of docs/compared.md has a
# verdict. It names files that there are, and tests that stand in one of them. CHANGELOG.md names tests and files that
# there are; its other names may be gone.
set -u
export LC_ALL=C
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
sqlock=${BUILD:-build}/sqlock
documents=$(git ls-files '*README.md' 'docs/*.md' CONTRIBUTING.md SECURITY.md 2>/dev/null |
    grep . || find . -name README.md -o -path './docs/*.md' -o -name CONTRIBUTING.md -o -name SECURITY.md | sed 's|^\./||')
documents="$documents cli/manual/head.scd cli/manual/tail.scd CHANGELOG.md"

# `...` of a document, one a line; the manual's are *...* as well.
names()
{
    grep -oE '`[^`]+`' "$1" | tr -d '`'
    case $1 in *.scd) grep -oE '\*[^*]+\*' "$1" | tr -d '*' ;; esac
}

# Every "sqlock COMMAND ..." is of a command that there is, with options that it or all commands have.
check_command() # WORDS
{
    local words command word
    read -ra words <<<"$1"
    set -- "${words[@]:1}"
    while [[ ${1:-} == -* ]]; do # global options stand before the command
        case $1 in --url-file | -U | --namespace | --wait-db) shift ;; esac
        shift
    done
    command=${1:-}
    case $command in
    '' | [A-Z]* | *.* | *,* | '|' | help | --version) return ;;
    esac
    [ -e "$dir/global" ] || "$sqlock" help >"$dir/global"
    [ -e "$dir/help.$command" ] || "$sqlock" help "$command" >"$dir/help.$command" 2>/dev/null ||
        { rm "$dir/help.$command" && echo "sqlock $command: no such command"; return; }
    for word in "${words[@]}"; do
        word=${word%%=*}
        case $word in
        --) return ;;
        --[a-z]* | -[a-zA-Z]) ;;
        *) continue ;;
        esac
        grep -qE -- "(^|[][ |,(])$word([][ =,|]|\$)" "$dir/help.$command" "$dir/global" || echo "sqlock $command $word: no such option"
        [ "$word" != -c ] || return 0 # what follows is the user's own
    done
}

# These tests have names of their own, wrong ones too.
sources=$(git ls-files '*.[ch]' '*.sh' Makefile '*.mk' '*.sql' ':!tests/docs' 2>/dev/null | grep . ||
    find . -path ./tests/docs -prune -o \( -name '*.[ch]' -o -name '*.sh' -o -name Makefile -o -name '*.mk' -o -name '*.sql' \) -print)
# shellcheck disable=SC2086
grep -ohE '(sqlock|SQLOCK)_[A-Za-z0-9_]+' $sources | sort -u >"$dir/known"
check_name() # NAME
{
    grep -qx "$1" "$dir/known" || echo "$1: it is not in the sources"
}

check_document()
{
    local name target
    while read -r name; do
        case $name in
        'sqlock '[a-z-]*) [ ! -x "$sqlock" ] || check_command "$name" ;;
        'make '[a-z-]*)
            target=${name#make }
            grep -qE "^([a-z-]+ )*${target%% *}( [a-z-]+)*:" Makefile */*.mk || echo "make ${target%% *}: no such target"
            ;;
        esac
        [[ $name == *sqlock_* || $name == *SQLOCK_* ]] || continue
        for name in $(grep -oE '\b(sqlock_[a-z_]+\(\)|SQLOCK_[A-Z_]+[A-Z]\b[*]?)' <<<"${name//_\*/*}"); do
            [[ $name != *'*' ]] || continue # the beginning of several
            check_name "${name%()}"
        done
    done < <(names "$1" | grep -E 'sqlock_|SQLOCK_|^sqlock |^make ' | sort -u)
}

check_promises() # promises.md
{
    local number name row
    for number in $(seq 1 20); do
        row=$(grep "^| P$number " "$1") || { echo "there is no P$number"; continue; }
        awk -F'|' '{ print $(NF - 1) }' <<<"$row" | grep -q '`' || echo "P$number: nothing proves it"
    done
    grep '^| P' "$1" | awk -F'|' '{ print $(NF - 1) }' | grep -oE '`[^`]+`' | tr -d '`' | while read -r name; do
        case $name in
        */*.c) [ -f "tests/$name" ] || echo "tests/$name: no such test" ;;
        RULE_*) grep -qw "$name" tests/torture/check.h || echo "$name: no such rule" ;;
        *) [ -f "tests/mutants/$name.mutant" ] || echo "$name: no such planted bug" ;;
        esac
    done
}

check_compared() # compared.md
{
    local row verdict files name names
    while IFS= read -r row; do
        verdict=$(sed -nE 's/^\| [^|]* \| [^|]* \| \*\*(yes|in part|no)\*\*.*/\1/p' <<<"$row")
        files=$(cut -d '|' -f 4- <<<"$row" | grep -oE '`[a-z]+/[^` ]+`' | tr -d '`')
        names=$(cut -d '|' -f 5 <<<"$row" | grep -oE '`[^`]+`' | tr -d '`' | grep -v /)
        [ -n "$verdict" ] || echo "no verdict: ${row:0:60}"
        [[ ! $verdict =~ ^(yes|in part)$ || -n $names ]] || echo "no test: ${row:0:60}"
        for name in $files; do
            [ -f "$name" ] || echo "$name: no such file"
        done
        for name in $names; do
            # shellcheck disable=SC2086
            grep -qsw -- "$name" $files || echo "$name: it is not in the files of its row"
        done
    done < <(sed -n '/^## Guarantees/,$p' "$1" | grep '^| ' | grep -v '^| feature ')
}

# Races, and tests of hosts that run on two databases, stand in the sources without the beginning of their names.
check_changes() # CHANGELOG.md
{
    local name
    for name in $(grep -owE 'test_[A-Za-z0-9_]+' "$1" | sed -E 's/^test_(mysql_|postgres_)?//' | sort -u); do
        grep -rqwE "(test_)?(mysql_|postgres_)?$name" tests --include='*.c' --include='*.races' || echo "$name: no such test"
    done
    for name in $(grep -oE '\b(tests/[A-Za-z0-9_./-]*\w|docs/\w+\.md)' "$1" | sort -u); do
        [ -e "$name" ] || echo "$name: no such file"
    done
}

check_all() # DOCUMENT [WHICH]
{
    case ${2:-$1} in CHANGELOG.md) check_changes "$1"; return ;; esac
    check_document "$1"
    case ${2:-$1} in
    docs/promises.md) check_promises "$1" ;;
    docs/compared.md) check_compared "$1" ;;
    README.md) [ "$(wc -l <"$1")" -lt 200 ] || echo "it has $(wc -l <"$1") lines" ;;
    esac
}

must_be_noticed() # DOCUMENT SED_SCRIPT
{
    sed "$2" "$1" >"$dir/faulty"
    ! cmp -s "$1" "$dir/faulty" || { echo "the fault '$2' fits no line of $1"; return; }
    check_all "$dir/faulty" "$1" | grep -q . || echo "$1 with '$2' was not noticed"
}

# What the command says of itself, names commands too.
check_help()
{
    local command
    [ -x "$sqlock" ] || return
    for command in '' $("$sqlock" help | sed -n '/^  [a-z]/s/^  \([a-z]*\) .*/\1/p'); do
        "$sqlock" help $command | tr '\n' ' ' >"$dir/text"
        check_document "$dir/text" | sed "s|^|sqlock help $command: |"
    done
}

{
    for document in $documents; do
        check_all "$document" | sed "s|^|$document: |"
    done
    check_help
    must_be_noticed docs/setup.md 's/`sqlock reap`/`sqlock sweep`/'
    must_be_noticed docs/setup.md 's/`sqlock reap`/`sqlock reap --metric-file`/'
    must_be_noticed docs/setup.md 's/`sqlock reap`/`sqlock --url-files x reap`/'
    must_be_noticed docs/setup.md 's/sqlock_reap()/sqlock_sweep()/'
    must_be_noticed docs/promises.md 's/SQLOCK_OPEN_ACCEPT_WEAK/SQLOCK_OPEN_ACCEPT_WEAKNESS/'
    must_be_noticed docs/promises.md 's/`make counted`/`make counting`/'
    must_be_noticed docs/promises.md 's/^| P17 /| P177 /'
    must_be_noticed docs/promises.md 's/suite_fork.c/suite_forks.c/'
    must_be_noticed docs/promises.md 's/RULE_BUSY/RULE_BUSIER/'
    must_be_noticed docs/promises.md 's/`no-margin`/`no-margins`/'
    must_be_noticed docs/compared.md 's/suite_fence.c/suite_fences.c/'
    must_be_noticed docs/compared.md 's/`test_late_release_does_not_free_successor`/`test_late_release_frees_no_one`/'
    must_be_noticed docs/compared.md 's/lease_granted_in_an_old_transaction_is_whole/batch_breaks_nothing_without_a_note/'
    must_be_noticed docs/compared.md 's|`recipes/lead.h`|`recipes/elect.h`|'
    must_be_noticed docs/compared.md 's/[*][*]yes[*][*]/soon/'
    must_be_noticed docs/compared.md 's/; `tests[^;|]*`test_two_forks_draw_different_owners`//'
    must_be_noticed CHANGELOG.md 's/test_metrics_follow_no_link/test_metrics_follow_no_links/'
    must_be_noticed CHANGELOG.md 's|tests/input/hosts_test.c|tests/input/postgres_hosts_test.c|'
} >"$dir/said"
cat "$dir/said"
[ ! -s "$dir/said" ]
