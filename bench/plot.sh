#!/bin/sh
# Draws what `make bench` measured as SVG: pairs of acquire and release a second.
#   bench/plot.sh lean  BENCH_JSON "WHERE AND WHEN" >PICTURE.svg    sqlock as it is by default beside the lean loop
#   bench/plot.sh peers BENCH_JSON "WHERE AND WHEN" >PICTURE.svg    one manager on PostgreSQL beside all others
set -eu
awk -v picture="$1" -v where="$3" '
# The figures come one a line, as jansson writes them: a comparison begins with its runs, and a way with its name.
{ key = $1; gsub(/[":]/, "", key); sub(/^[^:]*: /, ""); sub(/,$/, ""); gsub(/"/, "") }
key == "database" { database = $0 }
key == "runs" { if (!c++) runs = $0; n[c] = 0 }
key == "ms" && c == 1 { ms = $0 }
key == "way" { i = ++n[c]; way[c, i] = $0; of[c] = database }
key ~ /^(clients|processes|pairs_per_s|ratio|ratio_least|ratio_most)$/ { value[c, i, key] = $0 + 0 }

function text(x, y, s, more) { printf "  <text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, more, s }
function box(x, y, width, height, fill, more)
{
    printf "  <rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"%s/>\n", x, y, width, height, fill, more
}
# Of a scale on which the longest bar is for `most` pairs.
function bar(x, y, pairs, fill)
{
    box(x, y, 440 * pairs / most, 14, fill, " rx=\"2\"")
    text(x + 6 + 440 * pairs / most, y + 11, sprintf("%d", pairs + 0.5), " font-size=\"11\"")
}
function begin(height, title)
{
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 %d\" width=\"860\" height=\"%d\" role=\"img\"", height, height
    printf " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#1f2933\">\n"
    print "  <title>" title "</title>"
    box(0, 0, 860, height, "#ffffff", " rx=\"8\"")
    text(20, 28, title "; each client its own lock", " font-weight=\"bold\"")
}
function end(height, turns)
{
    text(20, height - 12, where "; medians of " runs " runs of " ms " ms each way, in turns" turns, " font-size=\"12\" fill=\"#486581\"")
    print "</svg>"
}
function find(c, name,    i)
{
    for (i = 1; i <= n[c]; i++)
        if (way[c, i] == name) return i
    return 0
}
function clients_of(c) { return value[c, 1, "clients"] == 1 ? "1 client" : value[c, 1, "clients"] " clients" }
function label_of(c) { return of[c] == "mysql" ? "MariaDB" : of[c] == "postgres" ? "PostgreSQL" : "SQLite, WAL" }

# A connection for each client. Releases are durable by default where the database has nothing else.
function lean(    k, i, y, row, rows, shown, lazy, height)
{
    for (k = 1; k <= c; k++)
        if (way[k, 1] == "sqlock") lazy[of[k]] = 1
    for (k = 1; k <= c; k++) {
        if (way[k, 1] != (of[k] in lazy ? "sqlock" : "sqlock, durable") || !find(k, "lean loop")) continue
        shown[++rows] = k
        for (i = 1; i <= n[k]; i++)
            if (value[k, i, "pairs_per_s"] > most) most = value[k, i, "pairs_per_s"]
    }
    if (!rows) return 0
    height = 88 + 48 * rows
    begin(height, "Acquire and release, pairs a second")
    box(20, 42, 12, 12, "#2f6fb0")
    text(38, 53, "sqlock")
    box(100, 42, 12, 12, "#bcccdc")
    text(118, 53, "the leanest loop by hand, which waits for the disk twice")
    text(650, 53, "ratio (least to most)")
    for (row = 1; row <= rows; row++) {
        k = shown[row]
        i = find(k, "lean loop")
        y = 20 + 48 * row
        text(20, y + 14, label_of(k))
        text(20, y + 30, clients_of(k), " font-size=\"12\" fill=\"#486581\"")
        bar(150, y + 2, value[k, 1, "pairs_per_s"], "#2f6fb0")
        bar(150, y + 19, value[k, i, "pairs_per_s"], "#bcccdc")
        text(650, y + 22, sprintf("%.2f (%.2f to %.2f)", value[k, i, "ratio"], value[k, i, "ratio_least"], value[k, i, "ratio_most"]))
    }
    end(height, " of 50 ms")
    return 1
}

# One process. Bars of a group have a scale of their own.
function peers(    k, i, y, w, group, groups, shown, height, called, names, fills, ways)
{
    ways = split("one manager|one manager, durable|lean loop|Redis, AOF always|etcd|ZooKeeper|Redis, AOF everysec|advisory, not durable", names, "|")
    split("sqlock|sqlock, durable release|lean loop|Redis, AOF always|etcd|ZooKeeper|Redis, AOF everysec (*)|advisory locks (*)", called, "|")
    split("#2f6fb0|#7aa5d2|#bcccdc|#c0504d|#7b9e4b|#8064a2|#e3b4b3|#dddddd", fills, "|")
    for (k = 1; k <= c; k++)
        if (of[k] == "postgres" && way[k, 1] == "one manager" && find(k, "advisory, not durable") && value[k, 1, "processes"] == 1) shown[++groups] = k
    if (!groups) return 0
    height = 96
    for (group = 1; group <= groups; group++)
        for (w = 1; w <= ways; w++)
            if (find(shown[group], names[w])) height += 18
    height += 20 * groups
    begin(height, "Acquire and release on PostgreSQL and beside it, pairs a second")
    text(20, 50, "one process; sqlock: one manager for all of them, the others: a connection for each client", " font-size=\"12\" fill=\"#486581\"")
    y = 66
    for (group = 1; group <= groups; group++) {
        k = shown[group]
        most = 0
        for (i = 1; i <= n[k]; i++)
            if (value[k, i, "pairs_per_s"] > most) most = value[k, i, "pairs_per_s"]
        text(20, y + 12, clients_of(k), " font-weight=\"bold\"")
        for (w = 1; w <= ways; w++) {
            if (!(i = find(k, names[w]))) continue
            text(110, y + 12, called[w], " font-size=\"12\"")
            bar(290, y + 1, value[k, i, "pairs_per_s"], fills[w])
            y += 18
        }
        y += 20
    }
    end(height, "; (*) a crash may lose them")
    return 1
}
END {
    if (!(picture == "lean" ? lean() : picture == "peers" ? peers() : 0)) { print "no figures" >"/dev/stderr"; exit 1 }
}' "$2"
