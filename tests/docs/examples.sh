#!/usr/bin/env bash
# make check T=docs: the code in the documents does what they say, on each database: programs are compiled
# and run, shell lines, crontab lines and systemd's are run as their readers would, SQL is given to the server,
# all against what `make install` puts into a folder of its own. A line that cannot be run stands in not-run
# with the reason. At the end lines are broken on purpose: that must be noticed.
set -u
export LC_ALL=C
here=tests/docs
repo=$PWD
bad=0
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX LIBDIR LD_LIBRARY_PATH T ONLY SQLOCK_URL DATABASE_URL
[ -x "${BUILD:-build}/sqlock" ] || { echo "SKIP: the documents' examples need the command, which is not built"; exit 77; }
dir=$(mktemp -d) && chmod 755 "$dir" && : >"$dir/made" || exit 1

. $here/databases.sh
. $here/runners.sh
trap 'drop_databases; rm -rf "$dir"' EXIT

complain()
{
    echo "$*"
    bad=1
}

# ---- one document --------------------------------------------------------------------------------

# What of a block is to be run: all but the lines of not-run, or nothing, if its first line stands there with
# "..." behind it.
to_be_run() # DOCUMENT FILE
{
    awk -v document="$1" -v seen="$dir/seen" '
        FILENAME ~ /not-run$/ && !/^#/ { split($0, f, " [|] "); if (f[1] == document) begins[f[2]] }
        FILENAME ~ /not-run$/ { next }
        {
            for (b in begins) {
                whole = FNR == 1 && sub(/ \.\.\.$/, "", b)
                if (index($0, b) != 1) continue
                print document " | " b (whole ? " ..." : "") >>seen
                if (whole) exit
                next
            }
            print
        }' $here/not-run "$2"
}

# The paths, hosts and pauses that an example has are the reader's own: here, those of the test.
# Its reaper has the role of its jobs.
localize()
{
    sed -e "s|/etc/sqlock/reap-url|$dir/etc/url|g" -e "s|/usr/local|$dir/usr|g" -e "s|/etc/sqlock|$dir/etc|g" -e "s|/var/lib/|$dir/var/|g" \
        -e "s|/run/systemd/system|$dir/no-systemd|g" -e 's|--at-least 60s|--at-least 100ms|g' \
        -e 's|=postgresql://host/dbname|="$DOCS_URL"|' -e "s|%d/url|$dir/etc/url|g"
}

run_block() # DOCUMENT KIND FILE
{
    to_be_run "$1" "$3" | localize >"$3.run"
    case $2 in
    c) run_program "$3.run" ;;
    sql) run_sql "$3.run" ;;
    text) run_text "$3.run" ;;
    *) echo "a block of kind $2: say in runners.sh how it is run" && false ;;
    esac
}

# In a database of its own; it goes on behind a block that failed.
run_document() # DOCUMENT FILE
{
    local number kind failed=0
    new_database "$1" && prepare "$1" || return 1
    rm -rf "$dir/blocks" && mkdir "$dir/blocks"
    awk -f $here/blocks.awk -v out="$dir/blocks" "$2" >"$dir/blocks/list"
    while read -r number kind; do
        run_block "$1" "$kind" "$dir/blocks/$number" >"$dir/blocks/said" 2>&1 </dev/null && continue
        echo "$1, line $number, on $database:" && sed 's/^/    /' "$dir/blocks/said"
        failed=1
    done <"$dir/blocks/list"
    return $failed
}

check_document()
{
    run_document "$1" "${2:-$1}" || bad=1
}

# ---- and the same document with a fault in it ----------------------------------------------------

must_be_noticed() # DOCUMENT SED_SCRIPT
{
    local said
    sed "$2" "$1" >"$dir/faulty"
    ! cmp -s "$1" "$dir/faulty" || { complain "the fault '$2' fits no line of $1"; return; }
    ! said=$(planted=1 run_document "$1" "$dir/faulty") || complain "$1 with '$2' was not noticed"
    grep -q '^    ' <<<"$said" || complain "$1 with '$2' failed without a word: $said"
}

# ---- all -----------------------------------------------------------------------------------------

make_stage || { echo "nothing could be installed"; exit 1; }
for driver in sqlite postgres mysql; do
    wanted $driver && ! databases | grep -qx $driver && echo "SKIP: the documents are not run on $driver"
done
for database in $(databases); do
    check_document README.md
    check_document cli/manual/tail.scd
    check_document cli/cron/README.md
    check_document docs/event-loops.md
    for line in nightly-job.cron sqlock-reap.cron; do
        check_installed "$dir/usr/share/doc/sqlock/$line" run_crontab
    done
    check_installed "$dir/usr/lib/systemd/system/sqlock-reap.service" run_unit
done
database=$(databases | head -n 1)
for document in $(git ls-files '*README.md' 2>/dev/null || find . -name README.md | sed 's|^\./||'); do
    case $document in
    README.md | cli/cron/README.md) ;;
    *) check_document "$document" ;;
    esac
done
for database in $(databases); do
    [ "$database" = sqlite ] || check_document docs/setup.md
done
grep -v '^#' $here/not-run | sed 's/ | [^|]*$//' | while read -r entry; do
    grep -qxF "$entry" "$dir/seen" || echo "not-run: $entry: there is no such line"
done | grep . && bad=1

database=$(databases | head -n 1)
must_be_noticed README.md 's/^    sqlock migrate up /&wards /'
must_be_noticed README.md 's/^    sqlock ls /    sqlock l /'
must_be_noticed README.md 's/ -E 0 / /'
must_be_noticed README.md 's/ -q / -v /'
must_be_noticed README.md 's/--libs libsqlock-sqlite/--libs libsqlok-sqlite/'
must_be_noticed README.md 's/sqlock_close(m)/sqlock_close(n)/'
must_be_noticed README.md 's/libpq-dev/libpq-devel/'
must_be_noticed README.md 's/^    make demo.*/&\n    frobnicate/'
must_be_noticed docs/event-loops.md 's/uv_poll_init(loop, &ready, sqlock_loop_fd(m))/uv_poll_init(loop, \&ready, sqlock_loop_fd(n))/'
[ "$database" != sqlite ] || must_be_noticed include/sqlock/README.md 's/, conn, err); \/\*/, err); \/*/'
must_be_noticed cli/manual/tail.scd 's/--max-time/--most-time/'
must_be_noticed cli/manual/tail.scd 's/sqlock show import/sqlock show imports/'
must_be_noticed cli/manual/tail.scd 's/--token 42/--token 43/'
for database in $(databases); do
    [ "$database" = sqlite ] || must_be_noticed docs/setup.md 's/GRANT DELETE ON sqlock_lock TO reaper/GRANT SELECT ON sqlock_lock TO reaper/'
done
[ $bad = 0 ] && echo "examples: run on" $(databases)
exit $bad
