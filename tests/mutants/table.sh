#!/bin/sh
# The table of README.md, made of the mutants' own words. With --write it is put there.
set -u
cd "$(dirname "$0")" || exit 1

table()
{
    echo "| mutant | what is wrong | promise | caught by |"
    echo "|---|---|---|---|"
    for mutant in *.mutant; do
        awk -v name="${mutant%.mutant}" '
            /^file:/ { exit }
            { key = $1; sub(/^[a-z]*: */, ""); is[key] = $0 }
            END {
                split(is["check:"], check, " ")
                printf "| %s%s | %s | %s | %s: `%s` |\n", name, is["when:"] == "check" ? " *" : "",
                    is["wrong:"], is["promise:"], check[1], substr(check[2], 6)
            }' "$mutant"
    done
}

if [ "${1:-}" = --write ]; then
    table >table.new && awk '
        /<!-- table: end -->/ { while ((getline line <"table.new") > 0) print line; inside = 0 }
        !inside
        /<!-- table: begin -->/ { inside = 1 }' README.md >README.new && mv README.new README.md
    rm -f table.new
else
    table
fi
