#!/bin/sh
# survivors.sh DIR: prints those of the processes noted in DIR/pids that are alive; zombies are not.
for pid in $(cat "$1/pids"); do
    state=$(sed -n 's/^State:[^A-Z]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
    case $state in
    '' | Z | X) ;;
    *) echo "$pid $state $(tr '\0' ' ' <"/proc/$pid/cmdline")" ;;
    esac
done
exit 0
