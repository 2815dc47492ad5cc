#!/bin/sh
# tree.sh DIR [stubborn]: a command that does not want to be found. It starts a child, a grandchild, a
# daemon (forked twice, in a session of its own) and a second one that forks all the time; each writes its
# number into DIR/pids, and DIR/ready when all are there. "stubborn": none of them obeys TERM.
dir=$1
[ "${2:-}" != stubborn ] || trap '' TERM HUP INT
export dir
note() { sh -c 'echo $PPID' >>"$dir/pids"; }
note
sh -c 'echo $$ >>$dir/pids; sleep 1000 & wait; sleep 1000' &
(setsid sh -c '(echo $$ >>$dir/pids; while :; do sleep 0.02; done) &' &)
(setsid sh -c 'sh -c "echo \$\$ >>\$dir/pids; exec sleep 1000" & exit 0' &)
while [ "$(wc -l <"$dir/pids")" -lt 4 ]; do sleep 0.01; done
echo ready >"$dir/ready"
while :; do
    date +%s%N >>"$dir/beats"
    sleep 0.02
done
