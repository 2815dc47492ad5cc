#!/bin/sh
# The manual, for scdoc: what is written here, and between it what each command says of itself.
#   cli/manual/make.sh SQLOCK
set -eu
here=$(dirname "$0")
sqlock=$1

block()
{
    printf '## %s\n\n```\n' "$1"
    "$sqlock" help $2 | sed "/^'sqlock help' lists/d" | cat -s
    printf '```\n\n'
}

cat "$here/head.scd"
block 'Global options' ''
for command in $("$sqlock" help | sed -n '/^  [a-z]/s/^  \([a-z]*\) .*/\1/p'); do
    block "$command" "$command"
done
cat "$here/tail.scd"
