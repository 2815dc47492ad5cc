#!/usr/bin/env bash
# make check T=docs/path: core/README.md shows the way of an acquire in at most 12 steps, a function in each. A trace of
# an acquire (path.c) enters each of them once, in that order, and each is in the file that the step names. The first
# step begins the trace. If you change the way, change the list: the message says which step is wrong.
# The trace is of the fake driver. So the driver's step is the slot `run`: of the driver that the step names, and in the
# trace the fake's.
set -u
export LC_ALL=C
most=12
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
traced=${BUILD:-build}/tests/docs/path
[ -x "$traced" ] || { echo "SKIP: $traced is not built (it needs the fake driver)"; exit 77; }

# "number function path", a step a line. Paths begin in core, or with drivers/.
steps() # README
{
    awk '/^## / { on = $0 == "## The life of an acquire" }
        on && /^[0-9]+\. / {
            split($0, word, "`"); at = word[4] ~ /^drivers\// ? word[4] : "core/" word[4]
            print $1 + 0, word[2], at
        }' "$1"
}

slot() { sed -nE 's/^ *\.run = ([a-z_]+),$/\1/p' "$1"/*.c | grep -vx '.*_adopted_run' | sort -u; }

# "function path", an entry a line. Paths begin in the tree.
trace()
{
    "$traced" >"$dir/addresses" || return 1
    addr2line -f -e "$traced" <"$dir/addresses" | awk 'NR % 2 { name = $1; next }
        { sub(/:[0-9?].*/, ""); if (match($0, /(core|drivers)\/[a-z_]+\/[a-z_]+\.[ch]$/)) $0 = substr($0, RSTART); print name, $0 }'
}

# 0: the list is the trace's. Otherwise it says what is wrong.
compare() # STEPS TRACE
{
    awk -v most=$most -v run="$fake_run" 'BEGIN { wrong = 0 }
        function say(text) { print "core/README.md, step " number[i] ", " name[i] ": " text; wrong = 1 }
        FILENAME == ARGV[1] { n++; number[n] = $1; name[n] = $2; path[n] = $3; next }
        { t++; entered[t] = $1; at[t] = $2 }
        END {
            if (n < 2) { print "core/README.md has no steps"; exit 1 }
            if (n > most) { print "core/README.md has " n " steps (at most " most ")"; wrong = 1 }
            for (i = 1; i <= n; i++) {
                if (number[i] != i) say("its number is not " i)
                driver = path[i] ~ /^drivers\//
                wanted = driver ? run : name[i]
                times = here = 0
                for (j = 1; j <= t; j++)
                    if (entered[j] == wanted) { times++; if (!here) here = j; found = at[j] }
                if (times == 0) { say("an acquire does not enter it"); continue }
                if (times > 1) say("an acquire enters it " times " times")
                if (!driver && found != path[i]) say("it is in " found ", not in " path[i])
                if (i == 1 && here != 1) say("an acquire begins with " entered[1])
                if (here < last) say("it is entered before step " last_step)
                last = here; last_step = number[i]
            }
            exit wrong
        }' "$1" "$2"
}

fake_run=$(slot drivers/fake)
trace >"$dir/trace" && [ -s "$dir/trace" ] || { echo "there is no trace"; exit 1; }
steps core/README.md >"$dir/steps"
compare "$dir/steps" "$dir/trace" || bad=1
while read -r number name path; do
    case $path in
    drivers/*)
        slot "${path%/*}" | grep -qx "$name" && grep -qE "^int $name\(" "$path" ||
            { echo "core/README.md, step $number: $name in $path is not the driver's run"; bad=1; }
        ;;
    esac
done <"$dir/steps"
grep -q ' drivers/' "$dir/steps" || { echo "core/README.md: no step is the driver's"; bad=1; }

# A list that is wrong must be refused.
planted=0
refused() # WHAT SED_SCRIPT WORDS
{
    planted=$((planted + 1))
    sed -E "$2" "$dir/steps" >"$dir/wrong"
    if cmp -s "$dir/steps" "$dir/wrong"; then
        echo "self test: '$2' changes nothing"
        bad=1
    fi
    if compare "$dir/wrong" "$dir/trace" >"$dir/said"; then
        echo "self test: accepted: $1"
        bad=1
    fi
    grep -q "$3" "$dir/said" || { echo "self test: $1: the message is $(head -n 3 "$dir/said")"; bad=1; }
}
refused "two steps in the wrong order" 's/^([0-9]+) op_drive .*/\1 op_take_result core\/engine\/op.c/' "entered before step"
refused "a function that is not there" 's/ lock_new / lock_make /' "step 2, lock_make: an acquire does not enter it"
refused "a function in another file" 's/ pool_take .*/ pool_take core\/engine\/op.c/' "pool_take: it is in core/engine/pool.c"
refused "a function that is entered often" 's/ op_step / mutex_lock /' "mutex_lock: an acquire enters it"
refused "a list that begins late" 1d "an acquire begins with sqlock_acquire"
refused "too many steps" '$p;$p;$p' "at most $most"
refused "no list" d "no steps"

[ $bad = 0 ] && echo "path: $(wc -l <"$dir/steps") steps among $(wc -l <"$dir/trace") functions; $planted wrong lists were refused"
