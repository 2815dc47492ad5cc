#!/bin/sh
# Draws what `make bench` measured as SVG: pairs of acquire and release a second, sqlock as it is by default beside the
# lean loop.
#   bench/plot.sh BENCH_JSON "WHERE AND WHEN" >PICTURE.svg
set -eu
awk -v where="$2" '
# The figures come one a line, as jansson writes them: a comparison begins with its runs, and a way with its name.
{ key = $1; gsub(/[":]/, "", key); sub(/^[^:]*: /, ""); gsub(/[",]/, "") }
key == "database" { database = $0 }
key == "runs" { c++; runs = $0; n[c] = 0 }
key == "ms" { ms = $0 }
key == "way" { i = ++n[c]; way[c, i] = $0; of[c] = database }
key ~ /^(clients|processes|pairs_per_s|ratio|ratio_least|ratio_most)$/ { value[c, i, key] = $0 }

function text(x, y, s, more) { printf "  <text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, more, s }
function bar(y, pairs, fill)
{
    printf "  <rect x=\"150\" y=\"%d\" width=\"%.1f\" height=\"14\" rx=\"2\" fill=\"%s\"/>\n", y, 440 * pairs / most, fill
    text(156 + 440 * pairs / most, y + 11, sprintf("%d", pairs + 0.5), " font-size=\"11\"")
}
function lean_of(c,    i)
{
    for (i = 2; i <= n[c]; i++)
        if (way[c, i] == "lean loop") return i
    return 0
}
END {
    # A connection for each client. Releases are durable by default where the database has nothing else.
    for (k = 1; k <= c; k++)
        if (way[k, 1] == "sqlock") lazy[of[k]] = 1
    for (k = 1; k <= c; k++) {
        if (way[k, 1] != (of[k] in lazy ? "sqlock" : "sqlock, durable") || !lean_of(k)) continue
        shown[++rows] = k
        for (i = 1; i <= n[k]; i++)
            if (value[k, i, "pairs_per_s"] > most) most = value[k, i, "pairs_per_s"]
    }
    if (!rows) { print "no figures" >"/dev/stderr"; exit 1 }
    height = 88 + 48 * rows
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 %d\" width=\"860\" height=\"%d\" role=\"img\"", height, height
    printf " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#1f2933\">\n"
    print "  <title>Acquire and release, pairs a second</title>"
    printf "  <rect width=\"860\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n", height
    text(20, 28, "Acquire and release, pairs a second; each client its own lock", " font-weight=\"bold\"")
    print "  <rect x=\"20\" y=\"42\" width=\"12\" height=\"12\" fill=\"#2f6fb0\"/>"
    text(38, 53, "sqlock")
    print "  <rect x=\"100\" y=\"42\" width=\"12\" height=\"12\" fill=\"#bcccdc\"/>"
    text(118, 53, "the leanest loop by hand, which waits for the disk twice")
    text(650, 53, "ratio (least to most)")
    for (row = 1; row <= rows; row++) {
        k = shown[row]
        i = lean_of(k)
        clients = value[k, 1, "clients"]
        y = 20 + 48 * row
        text(20, y + 14, of[k] == "mysql" ? "MariaDB" : of[k] == "postgres" ? "PostgreSQL" : "SQLite, WAL")
        text(20, y + 30, clients == 1 ? "1 thread" : clients " threads", " font-size=\"12\" fill=\"#486581\"")
        bar(y + 2, value[k, 1, "pairs_per_s"], "#2f6fb0")
        bar(y + 19, value[k, i, "pairs_per_s"], "#bcccdc")
        text(650, y + 22, sprintf("%.2f (%.2f to %.2f)", value[k, i, "ratio"], value[k, i, "ratio_least"],
            value[k, i, "ratio_most"]))
    }
    text(20, height - 12, where "; medians of " runs " runs of " ms " ms each way, in turns of 50 ms", " font-size=\"12\" fill=\"#486581\"")
    print "</svg>"
}' "$1"
