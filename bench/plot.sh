#!/bin/sh
# Draws what `make bench` measured as SVG: pairs of acquire and release a second, sqlock as it is by default beside the
# lean loop.
#   bench/plot.sh BENCH_JSON "WHERE AND WHEN" >PICTURE.svg
set -eu
awk -v where="$2" '
# The figures come one a line, as jansson writes them.
{ gsub(/[",]/, "") }
$1 == "database:" { database = $2 }
$1 == "threads:" { n = $2 }
$1 == "runs:" { runs = $2 }
$1 == "ms:" { ms = $2 }
# A connection for each thread, and the lean loop behind it. Releases are durable by default where the database has
# nothing else.
$1 == "way:" { way = /way: sqlock( durable)?$/ ? "sqlock" : /way: lean loop$/ && compares ? "lean" : "" }
$1 == "way:" && way == "sqlock" {
    compares = 1
    rows++; name[rows] = database; threads[rows] = n; durable[rows] = /durable/
    if (!durable[rows]) lazy[database] = 1
}
$1 == "way:" && /sqlock (default|each)/ { compares = 0 }
way == "" { next }
$1 == "pairs_per_s:" { pairs[rows, way] = $2; if ($2 > most) most = $2 }
$1 == "ratio:" { ratio[rows] = $2 }
$1 == "ratio_least:" { least[rows] = $2 }
$1 == "ratio_most:" { best[rows] = $2 }

function text(x, y, s, more) { printf "  <text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, more, s }
function bar(y, value, fill)
{
    printf "  <rect x=\"150\" y=\"%d\" width=\"%.1f\" height=\"14\" rx=\"2\" fill=\"%s\"/>\n", y, 440 * value / most, fill
    text(156 + 440 * value / most, y + 11, sprintf("%d", value + 0.5), " font-size=\"11\"")
}
END {
    if (!rows) { print "no figures" >"/dev/stderr"; exit 1 }
    for (i = 1; i <= rows; i++)
        if (!(durable[i] && name[i] in lazy)) shown++
    height = 88 + 48 * shown
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 %d\" width=\"860\" height=\"%d\" role=\"img\"", height, height
    printf " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#1f2933\">\n"
    print "  <title>Acquire and release, pairs a second</title>"
    printf "  <rect width=\"860\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n", height
    text(20, 28, "Acquire and release, pairs a second; each thread its own lock", " font-weight=\"bold\"")
    print "  <rect x=\"20\" y=\"42\" width=\"12\" height=\"12\" fill=\"#2f6fb0\"/>"
    text(38, 53, "sqlock")
    print "  <rect x=\"100\" y=\"42\" width=\"12\" height=\"12\" fill=\"#bcccdc\"/>"
    text(118, 53, "the leanest loop by hand, which waits for the disk twice")
    text(650, 53, "ratio (least to most)")
    for (i = 1; i <= rows; i++) {
        if (durable[i] && name[i] in lazy) continue
        y = 68 + 48 * at++
        label = name[i] == "mysql" ? "MariaDB" : name[i] == "postgres" ? "PostgreSQL" : "SQLite, WAL"
        text(20, y + 14, label)
        text(20, y + 30, threads[i] == 1 ? "1 thread" : threads[i] " threads", " font-size=\"12\" fill=\"#486581\"")
        bar(y + 2, pairs[i, "sqlock"], "#2f6fb0")
        bar(y + 19, pairs[i, "lean"], "#bcccdc")
        text(650, y + 22, sprintf("%.2f (%.2f to %.2f)", ratio[i], least[i], best[i]))
    }
    text(20, height - 12, where "; medians of " runs " runs of " ms " ms each way, in turns of 50 ms", " font-size=\"12\" fill=\"#486581\"")
    print "</svg>"
}' "$1"
