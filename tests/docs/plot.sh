#!/bin/sh
# make check T=docs/plot: bench/plot.sh draws each figure of a bench, and refuses a file that has none.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
cat >"$dir/bench.json" <<'END'
[
  {
    "database": "postgres",
    "acquire_release": [
      {
        "threads": 8,
        "runs": 5,
        "ms": 2000,
        "sqlock": {
          "pairs_per_s": 1234.4,
          "p50_us": 1.0
        },
        "bare": {
          "pairs_per_s": 5678.2,
          "p50_us": 2.0
        },
        "ratio": 0.5,
        "ratio_least": 0.25,
        "ratio_most": 0.75
      }
    ]
  }
]
END
bench/plot.sh "$dir/bench.json" "here, today" >"$dir/bench.svg" || { echo "it ended with $?"; bad=1; }
for words in '>1234<' '>5678<' '>0.50 (0.25 to 0.75)<' '>PostgreSQL<' '>8 threads<' '>here, today; medians of 5 runs of 2000 ms'; do
    grep -qF "$words" "$dir/bench.svg" || { echo "no $words in the picture"; bad=1; }
done
echo '[]' >"$dir/empty.json"
! bench/plot.sh "$dir/empty.json" "" >/dev/null 2>&1 || { echo "it drew nothing, and ended with 0"; bad=1; }
exit $bad
