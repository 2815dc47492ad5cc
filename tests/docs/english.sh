#!/usr/bin/env bash
# make check T=docs/english: no sentence of a document, or of a comment in headers, core, drivers, cli, SQL or races, has
# more than 35 words. None of them, and no message of core, drivers and cli, has a word of the glossary's left column
# (CONTRIBUTING.md). Code, and names in `backticks`, are left out. A file may still break this as often as
# english-allowed says: a number there only goes down. Comments of tests in C are left out.
set -u
export LC_ALL=C
here=tests/docs
longest=35
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
kinds=('*.md' '*.scd' 'include/sqlock/*.h' 'cli/*.[ch]' 'core/*.[ch]' 'drivers/*.[ch]' 'schema/*.sql' 'schema/*.awk'
    'migrations/*.sql' 'tests/*.races')
paths=(-false)
for kind in "${kinds[@]}"; do paths+=(-o -path "./$kind"); done
documents=$(git ls-files "${kinds[@]}" 2>/dev/null | grep . || find . "${paths[@]}" | sed 's|^\./||')

# The glossary's old words, as one expression. CONTRIBUTING.md itself may name them there.
old_words()
{
    sed -n '/^<!-- glossary: begin -->/,/^<!-- glossary: end -->/p' CONTRIBUTING.md |
        awk -F ' *[|] *' 'NF > 3 && $2 !~ /^(not|-+)$/ { gsub(/, */, "|", $2); gsub(/ /, "[ ]+", $2); print $2 }' | paste -sd '|'
}

# Breaches in a file: a line each.
breaches() # FILE
{
    sed '/^<!-- glossary: begin -->/,/^<!-- glossary: end -->/s/.*//' "$1" >"$dir/${1##*/}"
    awk -f $here/english.awk -v longest=$longest -v old="$old" "$dir/${1##*/}" |
        sed "s|^$dir/[^:]*|$1|"
}

old=$(old_words)
[ -n "$old" ] || { echo "CONTRIBUTING.md has no glossary"; exit 1; }
bad=0
for document in $documents; do
    case $document in build/*) continue ;; esac
    breaches "$document" >"$dir/said"
    found=$(wc -l <"$dir/said")
    allowed=$(sed -n "s|^$document ||p" $here/english-allowed)
    if [ "$found" -gt "${allowed:-0}" ]; then
        cat "$dir/said" && echo "$document: $found, and ${allowed:-0} are allowed"
        bad=1
    elif [ "$found" -lt "${allowed:-0}" ]; then
        echo "$document: $found are left: put that into $here/english-allowed, in place of $allowed"
    fi
done

# It notices what it is for.
mkdir "$dir/faults"
printf '# A\n\nThis is%s one.\n\nThe talker is here.\n\n    hello\n\n- `talker`, then [a word](hello.md).\n' \
    "$(printf ' word%.0s' {1..34})" >"$dir/faults/planted.md"
printf '/* A talker. */\nsay("the guest is here"); /* %s. */\nsay("hello");\n' "$(printf ' word%.0s' {1..36})" \
    >"$dir/faults/planted.c"
printf -- '-- Nobody is here.\n-- :define told 1\n--   ask\nSELECT told\n    x int, -- somebody\n    -- It is\n    -- told.\n' \
    >"$dir/faults/planted.sql"
for planted in planted.md:2 planted.c:3 planted.sql:3; do
    breaches "$dir/faults/${planted%:*}" >"$dir/said"
    [ "$(wc -l <"$dir/said")" = "${planted#*:}" ] && continue
    echo "faults that were planted in ${planted%:*} were not found" && cat "$dir/said"
    bad=1
done
exit $bad
