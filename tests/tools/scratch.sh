# shellcheck shell=bash
# Where databases, sockets and servers of a run lie. Read in by what runs tests.
# In memory where there is room: what tests kill are processes, not machines, and an fsync on a disk that is
# busy with other things can take longer than the leases that they live by. A TMPDIR other than /tmp says
# where else.

# It is there, has so many MiB, and so has the machine; and programs can be started in it.
fits_in_memory() # MIB
{
    local free probe
    for free in "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" \
        "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)"; do
        [ "${free:-0}" -gt $(($1 * 1024)) ] || return
    done
    probe=$(mktemp /dev/shm/sqlock-probe.XXXXXX 2>/dev/null) || return
    printf '#!/bin/sh\n' >"$probe" && chmod 700 "$probe" && "$probe" 2>/dev/null
    set -- $?
    rm -f "$probe"
    return "$1"
}

# A new folder that servers' users can reach.
scratch_dir() # NAME MIB
{
    local top=${TMPDIR:-/tmp} dir
    [ "$top" != /tmp ] || ! fits_in_memory "$2" || top=/dev/shm
    dir=$(mktemp -d "$top/sqlock-$1.XXXXXX") && chmod 755 "$dir" && echo "$dir"
}
