#!/bin/sh
# Counts the instructions of a pair of acquire and release on one thread, by callgrind: prints those of core and
# driver, a slash, and those of the whole process, which are libpq's and libc's too. The difference between a long and
# a short run is what the pairs take, without what opens and closes. A run that is not counted makes the tables: made in
# the short run, they would be subtracted. Only the thread that makes the pairs counts: the manager's own threads wake
# up by the clock, and under callgrind a pair takes long.
#   bench/instructions.sh BENCH_PROGRAM NAME=URL
set -eu
few=100 many=600
command -v valgrind >/dev/null || { echo "instructions of a pair: SKIPPED, there is no valgrind" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/sqlock-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
"$1" --pairs 1 "$2" >"$dir/log" 2>&1 || { tail -n 5 "$dir/log" >&2; exit 1; }
for pairs in $few $many; do
    valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$dir/$pairs" \
        "$1" --pairs "$pairs" "$2" >"$dir/log" 2>&1 ||
        { echo "instructions of a pair: SKIPPED, valgrind fails:" >&2; tail -n 5 "$dir/log" >&2; exit 1; }
done

# A file of callgrind: ob= and fl= say where the lines of costs after them belong, by a number and, the first time, a
# name. The line after calls= is the cost of what was called, which has lines of its own elsewhere. Core and driver are
# linked into the program; what it has of bench/ does not count.
awk -v few=$few -v many=$many '
function named(of, s,    number)
{
    number = s
    sub(/\).*/, ")", number)
    if (index(s, ") ")) name[of, number] = substr(s, index(s, ") ") + 2)
    return name[of, number]
}
FNR == 1 { sign = NR == 1 ? -1 : 1 }
/^ob=/ { object = named("ob", substr($0, 4)); next }
/^cob=/ { named("ob", substr($0, 5)); next }
/^fl=/ { file = named("fl", substr($0, 4)); next }
/^f[ie]=/ { named("fl", substr($0, 4)); next }
/^cf[il]=/ { named("fl", substr($0, 5)); next }
/^calls=/ { skip = 1; next }
/^[0-9+*-]/ {
    if (!skip) {
        all += sign * $2
        if (object == program && file !~ /(^|\/)bench\/[a-z_]*\.c$/) ours += sign * $2
    }
    skip = 0
}
END { printf "%.0f/%.0f\n", ours / (many - few), all / (many - few) }' \
    program="$(realpath "$1")" "$dir/$few-01" "$dir/$many-01"
