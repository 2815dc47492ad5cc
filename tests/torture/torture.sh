#!/usr/bin/env bash
# All cells of tests/torture, those first that have been proved least, one after the other for so many
# minutes. What was proved before stays: each cell adds a line to tests/torture/totals.tsv, and at the end
# tests/torture/RESULTS.md is written from it. So it may be run piece by piece, and stopped at any time.
#   tests/torture/torture.sh PROGRAM
# TORTURE_MINUTES  25       start no cell after so long
# TORTURE_SECONDS  30       of work in each cell
# TORTURE_JOBS     1        cells at a time
# TORTURE_SHARE    the same: so many share the machine; the load that is asked of each cell is divided by it
# CELLS            all      a pattern of grep's: only cells like it ("postgres", "client-stopped", "^sqlite.*k")
# CELL             "ENGINE FAULT": this one alone, with SEED (else a new one); it adds nothing to the totals
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tools/scratch.sh
. tests/tools/scratch.sh

program=$1
totals=tests/torture/totals.tsv
seconds=${TORTURE_SECONDS:-30}
minutes=${TORTURE_MINUTES:-25}
jobs=${TORTURE_JOBS:-1}
share=${TORTURE_SHARE:-$jobs}
log=${program%/tests/*}/log/torture
end=$((SECONDS + minutes * 60))
failed=0 done=0

# Programs that are killed leave their folders behind, so all of them lie in one.
temp=$(scratch_dir torture 2000) || exit 1
export TMPDIR=$temp
finish()
{
    trap - EXIT HUP INT TERM
    local aside
    aside=$(jobs -rp)
    # shellcheck disable=SC2086
    [ -z "$aside" ] || { kill -TERM $aside && wait; } 2>/dev/null
    rm -rf "$temp"
}
trap finish EXIT
trap 'finish; exit 130' HUP INT TERM

new_seed()
{
    echo $((SRANDOM % 999999999 + 1))
}

if [ -n "${CELL:-}" ]; then
    # shellcheck disable=SC2086
    "$program" cell $CELL --seconds "$seconds" --seed "${SEED:-$(new_seed)}"
    exit
fi

# Cells by how many of them are in the totals; those that were tried in this run, and skipped or failed, come
# after all others.
next()
{
    "$program" list | grep -E -e "${CELLS:-.}" | awk -v tried="$temp/tried" -v totals="$totals" '
        BEGIN {
            while ((getline line < totals) > 0) {
                split(line, f, "\t")
                if (f[1] != "skip") n[f[2] " " f[4]]++
            }
            while ((getline line < tried) > 0) late[line] += 1000
        }
        { print n[$0] + late[$0], $0 }' | sort -s -n -k1,1 | head -n 1 | cut -d' ' -f2-
}

run_cell() # ENGINE FAULT
{
    local seed out rc
    seed=$(new_seed)
    out=$log/$1-$2-$seed.log
    "$program" cell "$1" "$2" --seconds "$seconds" --seed "$seed" --totals "$totals" --share "$share" >"$out" 2>&1
    rc=$?
    if [ $rc = 0 ]; then
        tail -n 1 "$out"
        rm -f "$out"
    elif [ $rc = 77 ]; then
        grep '^SKIP' "$out" || tail -n 3 "$out"
        rm -f "$out"
    else
        echo "FAIL $1 $2 seed $seed ($out)"
        sed 's/^/    /' "$out" | head -n 40
        echo "$1 $2 $seed" >>"$temp/failed"
    fi
}

mkdir -p "$log" && : >"$temp/tried" && : >"$temp/failed" || exit 1
while [ $SECONDS -lt $end ]; do
    cell=$(next)
    [ -n "$cell" ] || { echo "no cell is like ${CELLS:-}" && exit 1; }
    echo "$cell" >>"$temp/tried"
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
    done
    # shellcheck disable=SC2086
    run_cell $cell &
    done=$((done + 1))
done
wait
failed=$(wc -l <"$temp/failed")
"$program" kinds | awk -f tests/torture/totals.awk - "$totals" >tests/torture/RESULTS.md.new && mv tests/torture/RESULTS.md.new tests/torture/RESULTS.md
echo "$done cells were run, $failed failed; what they proved is in tests/torture/RESULTS.md"
[ "$failed" = 0 ]
