#!/bin/sh
# runner.sh DIR: a process that is somewhere else whenever it is looked for. It forks and ends, and its
# child does the same, for 20 s at most; each leaves a byte in DIR/steps.
trap '' TERM HUP
export dir=$1 end="${end:-$(($(date +%s) + 20))}"
printf . >>"$dir/steps"
[ "$(date +%s)" -lt "$end" ] || exit
sh "$0" "$1" &
exit
