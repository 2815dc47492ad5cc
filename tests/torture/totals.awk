# tests/torture/RESULTS.md out of totals.tsv, which has a line for each cell:
#   torture kinds | awk -f tests/torture/totals.awk - tests/torture/totals.tsv
# Its columns, with tabs between, are those of struct total (totals.h). Lines that begin with skip tell of a
# cell that could not be had; those of the first days end before the column of overlaps.
BEGIN {
    FS = "\t"
    split("operations grants events unsure settled frozen late refused steps violations overlaps", columns, " ")
    bar_failovers = 40
}

# ---- what there is, and what was proved -----------------------------------------------------------------

$1 == "engine" { engines[++n_engines] = $2; next }
$1 == "fault" { faults[++n_faults] = $2; sentence[$2] = $3; several[$2] = $4; next }
$1 == "cell" { exists[$2, $3] = 1; next }
$1 == "skip" { skips[++n_skips] = $0; next }
/^#/ { next }
$0 !~ /^[^\t]+\t[^\t]+\t[^\t]+\t[^\t]+(\t[0-9]+)+$/ || NF < 16 {
    printf "%s:%d: not a line of totals\n", FILENAME, FNR >"/dev/stderr"
    failed = 1
    exit 1
}
{
    version[$2] = $3
    add($2 SUBSEP $4)
    add($2)
    add("all")
}

function add(key, i)
{
    cells[key]++
    for (i = 1; i in columns; i++)
        sum[key, columns[i]] += $(i + 6)
}

function of(key, column) { return sprintf("%d", sum[key, column]) }

# ---- the report -----------------------------------------------------------------------------------------

function heading(text) { printf "\n## %s\n\n", text }

function bar(what, column, least) { printf "| %s | %s | %d |\n", what, of("all", column), least }

function put_engines(i, k, e, kinds)
{
    print "| engine | version | cells | kinds of faults | operations | grants | faults | " \
        "replies lost, settled | holders frozen, late writes | clock steps | violations |"
    print "|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= n_engines; i++) {
        e = engines[i]
        kinds = 0
        for (k = 1; k <= n_faults; k++)
            kinds += sum[e, faults[k], "events"] >= 10 && sum[e, faults[k], "grants"] >= 1000
        if (!cells[e])
            printf "| %s | never run |\n", e
        else
            printf "| %s | %s | %d | %d | %s | %s | %s | %s, %s | %s, %s | %s | %s |\n", e, version[e], cells[e], kinds,
                of(e, "operations"), of(e, "grants"), of(e, "events"), of(e, "unsure"), of(e, "settled"),
                of(e, "frozen"), of(e, "late"), of(e, "steps"), of(e, "violations")
    }
}

# What pairs and triples of servers are to reach, each kind on each engine.
function put_failovers(i, k, cell)
{
    print "| fault | engine | promotions | bar | grants | overlaps where commits were lost | violations |"
    print "|---|---|---|---|---|---|---|"
    for (k = 1; k <= n_faults; k++)
        for (i = 1; i <= n_engines; i++) {
            cell = engines[i] SUBSEP faults[k]
            if (!several[faults[k]] || !(cell in exists))
                continue
            printf "| %s | %s | ", faults[k], engines[i]
            if (!cells[cell])
                printf "not run | %d | | | |\n", bar_failovers
            else
                printf "%s | %d | %s | %s | %s |\n", of(cell, "events"), bar_failovers, of(cell, "grants"),
                    of(cell, "overlaps"), of(cell, "violations")
        }
}

function put_cells(i, k, cell)
{
    printf "| fault |"
    for (i = 1; i <= n_engines; i++)
        printf " %s |", engines[i]
    printf "\n|---|"
    for (i = 1; i <= n_engines; i++)
        printf "---|"
    for (k = 1; k <= n_faults; k++) {
        printf "\n| %s: %s |", faults[k], sentence[faults[k]]
        for (i = 1; i <= n_engines; i++) {
            cell = engines[i] SUBSEP faults[k]
            if (!(cell in exists))
                printf " - |"
            else if (!cells[cell])
                printf " not run |"
            else
                printf " %s / %s / %s |", of(cell, "events"), of(cell, "grants"), of(cell, "violations")
        }
    }
    print ""
}

# The last reason for each cell that could not be had and has no line.
function put_skips(i, f)
{
    for (i = 1; i <= n_skips; i++) {
        split(skips[i], f, "\t")
        if (!cells[f[2], f[3]])
            printf "- %s, %s: %s\n", f[2], f[3], f[4]
    }
}

END {
    if (failed)
        exit 1
    print "# Results\n\nWritten by `make torture` from `totals.tsv`, which holds a line for each cell."
    heading("Against the bar")
    print "| measure | reached | bar |\n|---|---|---|"
    bar("operations in checked histories", "operations", 5000000)
    bar("lost replies, settled", "settled", 3000)
    bar("holders frozen past their lease", "frozen", 2000)
    bar("steps of a server's clock", "steps", 200)
    bar("late guarded writes accepted", "late", 0)
    bar("violations", "violations", 0)
    heading("Engines")
    print "A kind of fault counts from 10 events and 1,000 grants on.\n"
    put_engines()
    heading("Failovers")
    print "Two holders of a lock are a violation, except where commits were lost without a grace: those " \
        "are counted. Tokens rise always; in `split-brain` those of the new server are above the old one's.\n"
    put_failovers()
    heading("Cells: faults / grants / violations")
    print "\"-\": there is no such thing on that engine (see the README).\n"
    put_cells()
    heading("Skipped")
    put_skips()
}
