# How each kind of code is run. For examples.sh. Each function takes a file with the code, says what went
# wrong, and returns 0 if all did what it should.

# ---- where the reader is -------------------------------------------------------------------------

# Two checks may install at once, and make writes into the build folder for it.
locked() { flock "${BUILD:-build}/installing" "$@"; }

# A program of the reader's own.
stand_in() # NAME TEXT
{
    printf '#!/bin/sh\necho "${0##*/}" >>%s/ran\n%s\n' "$dir" "$2" >"$dir/usr/bin/$1"
    chmod 755 "$dir/usr/bin/$1"
}

# The script that README runs sees who holds the lock. The nightly job goes on until the test lets it. What
# root does for the system is done for the test's folder already; the packages are those of deps.sh, and make. It
# must not ask: the answer would be the line that was pasted behind it.
make_stage()
{
    mkdir -p "$dir/usr/bin" "$dir/etc" "$dir/var/prometheus/node-exporter"
    locked "${MAKE:-make}" -s DRIVERS="$BUILT_DRIVERS" install PREFIX="$dir/usr" >"$dir/log" 2>&1 ||
        { cat "$dir/log"; return 1; }
    stand_in import.sh '[ "$SQLOCK_HELD" = 1 ] && sqlock ls | grep -q "^import "'
    stand_in read.sh 'sqlock ls | grep -q "^prices .* shared "'
    stand_in encode.sh '[ "$SQLOCK_SLOT" = 0 ]'
    stand_in move.sh 'set -- $SQLOCK_TOKENS; [ $# = 2 ] && [ "$(sqlock ls | grep -c "^from \|^to ")" = 2 ]'
    stand_in scheduler.sh '[ "$SQLOCK_HELD" = 1 ] && sqlock ls | grep -q "^scheduler "'
    stand_in deploy '[ "$1" = --fence ] && [ "$2" -gt 0 ]'
    for job in report nightly-report; do
        stand_in $job "while [ ! -e $dir/go ]; do sleep 0.05; done"
    done
    stand_in ldconfig ''
    stand_in apt-get "[ \"\$*\" != update ] || exit 0
        [ \"\$1 \$2 \$3\" = 'install -y make' ] && shift 3 &&
        for p; do grep -q \"need \$p \" $repo/tests/tools/deps.sh || exit 1; done"
    stand_in make "case \"\$*\" in '' | demo | install*) ;; *) echo 'say in not-run why not'; exit 1 ;; esac
        [ \"\$*\" != demo ] || mkdir $dir/demo 2>/dev/null || exit 0 # once is enough
        [ -n \"\${planted:-}\" ] || exec flock $(readlink -f "${BUILD:-build}")/installing \\
            $(command -v "${MAKE:-make}") -s -C $repo DRIVERS='$BUILT_DRIVERS' \"\$@\""
    stand_in cc "exec $(command -v "${CC:-gcc}") -std=c99 -Wall -Wextra -pedantic -Werror \"\$@\""
}

# The folder that the reader works in, and a database: a migrated one, except where the document itself migrates.
prepare() # DOCUMENT
{
    rm -rf "$dir/work" && mkdir "$dir/work" && (umask 077 && echo "$url" >"$dir/etc/url")
    ln -s "$repo/tests" "$repo/build" "$dir"/usr/bin/{import,read,encode,move,scheduler}.sh "$dir/work"
    [[ $1 == README.md || $1 == docs/setup.md ]] || as_reader sqlock migrate up >"$dir/log" 2>&1 || { cat "$dir/log"; return 1; }
}

as_reader() # COMMAND...
{
    (cd "$dir/work" && HOME=$dir/home PATH=$dir/usr/bin:$PATH LD_LIBRARY_PATH=$dir/usr/lib planted=${planted:-} DOCS_URL=$url \
        PKG_CONFIG_PATH=$dir/usr/lib/pkgconfig SQLOCK_URL=$url timeout 120 "$@")
}

# As cron runs a line: with next to nothing in its environment. Only the folder of the libraries is added,
# which is none of the system's here.
as_cron() # LINE
{
    (cd "$dir/work" && env -i HOME="$dir/work" LOGNAME="$(id -un)" SHELL=/bin/sh PATH=/usr/bin:/bin \
        LD_LIBRARY_PATH="$dir/usr/lib" timeout 120 /bin/sh -c "$1")
}

ran() { grep -cx "$1" "$dir/ran"; }

# ---- C -------------------------------------------------------------------------------------------

# As it stands, and for the database in use changed as its own comments say. It is run twice: a token that is
# printed is larger the second time.
run_program()
{
    local driver=sqlite file=$dir/work/app.c client= first= second= token=
    grep -q 'sqlock/fake.h' "$1" && driver=fake
    if grep -q '<sqlite3.h>' "$1"; then # it speaks to that database by itself
        [ $database = sqlite ] || return 0
        client=sqlite3
    fi
    grep -q '<uv.h>' "$1" && client=libuv
    grep -q '<event2/event.h>' "$1" && client=libevent
    cp "$1" "$file"
    if [ $driver != fake ]; then
        driver=$database
        sed -i -e "s|<sqlock/sqlite.h>|<sqlock/$driver.h>|; s|sqlock_driver_sqlite()|sqlock_driver_$driver()|" "$file"
        [ $driver = sqlite ] || sed -i "s|\"sqlite:app.db\"|\"${url//&/\\&}\"|" "$file"
    fi
    as_reader sh -c "cc -o app app.c \$(pkg-config --cflags --libs libsqlock-$driver $client)" || return 1
    first=$(as_reader ./app) && second=$(as_reader ./app) || { echo "it failed: $first$second"; return 1; }
    [ $driver != fake ] || return 0
    if [[ $first =~ ^ours,\ token\ ([0-9]+)$ ]]; then
        token=${BASH_REMATCH[1]}
        [[ $second =~ ^ours,\ token\ ([0-9]+)$ ]] && [ "${BASH_REMATCH[1]}" -gt "$token" ] && return
    fi
    echo "it said: $first, then: $second" && return 1
}

# ---- shell lines, crontabs, units, SQL -----------------------------------------------------------

run_text()
{
    case $(head -n 1 "$1") in
    '') ;; # all of it stands in not-run
    [0-9*]*' * '*) run_crontab "$1" ;;
    GRANT*) run_grants "$1" ;;
    '[Service]'*) run_unit "$1" ;;
    *) run_shell "$1" ;;
    esac
}

# Every line has to end with 0, and every program of the reader's that stands in it has to be run.
run_shell()
{
    local token= program who
    ! grep -qE 'sqlite:app\.db|libsqlock-sqlite sqlite3' "$1" || [ $database = sqlite ] || return 0
    ! grep -qE '=postgresql://[a-z]+:' "$1" || [ $database = postgres ] || return 0
    ! grep -qE '=mysql://[a-z]+:' "$1" || [ $database = mysql ] || return 0
    for who in migrator app; do
        sed -i "s#=[a-z]*://$who:secret@host/appdb#='$(url_of $who | sed 's/[&#]/\\&/g')'#" "$1"
    done
    sed -i "s/libsqlock-sqlite/libsqlock-$database/" "$1"
    if grep -q -- '--token 42' "$1"; then
        token=$(as_reader sqlock --json acquire import | sed -n 's/.*"token": *\([0-9]*\).*/\1/p')
        sed -i "s/--token 42/--token $token/" "$1"
    fi
    : >"$dir/ran"
    as_reader sh -e "$1" || { echo "ended with $?"; return 1; }
    for program in import.sh read.sh encode.sh move.sh deploy make cc apt-get; do
        sed 's/ # .*//' "$1" | grep -qE "(^|[ /'])$program( |\$)" || continue
        [ "$(ran $program)" -gt 0 ] || { echo "$program was not run"; return 1; }
    done
    [ -z "$token" ] || ! as_reader sqlock ls | grep '^import ' || { echo "it was not broken"; return 1; }
}

# Fields of time, in /etc/cron.d a user, and the line. What it says would be mailed. A job under a lock is
# started a second time while the first one runs: as another host's would be, which skips it.
run_crontab()
{
    local fields=5 line job codes=0
    [[ $1 != *.cron ]] || fields=6
    line=$(grep -v '^#' "$1" | sed -E "s/^([^ ]+ +){$fields}//")
    [[ $line != *%* ]] || { echo "cron takes a % for the end of the line"; return 1; }
    job=$(grep -oE '[a-z-]*report$' <<<"$line" || true)
    : >"$dir/ran" && rm -f "$dir/go" "$dir/mail"
    if [ -n "$job" ]; then
        as_cron "$line" >"$dir/mail" 2>&1 &
        while [ "$(ran "$job")" = 0 ] && kill -0 $! 2>/dev/null; do sleep 0.05; done
    fi
    as_cron "$line" >>"$dir/mail" 2>&1 || codes=$?
    touch "$dir/go"
    [ -z "$job" ] || wait $! || codes="$codes and $?"
    [ "$codes" = 0 ] || echo "ended with $codes"
    [ -z "$job" ] || [ "$(ran "$job")" = 1 ] || { echo "the job ran $(ran "$job") times"; return 1; }
    ! grep . "$dir/mail" || { echo "cron would mail that"; return 1; }
    [ "$codes" = 0 ]
}

# The last line that says what is started. systemd is no shell, but no line of ours would notice.
run_unit()
{
    local line
    line=$(sed -n 's/^ExecStart=//p' "$1" | grep . | tail -n 1)
    [ -n "$line" ] || { echo "nothing is started"; return 1; }
    as_cron "$line" || { echo "ended with $?"; return 1; }
}

# To a role that can do nothing yet: with the first block it takes locks, with another it prunes rows that
# nobody has used for long, and with the last it breaks locks.
run_grants()
{
    [ $database = postgres ] || return 0
    local as=${url/user=postgres/user=$name} old="UPDATE sqlock_lock SET idle_since = idle_since / 2" token
    [ "$as" != "$url" ] || { echo "$url names no user to be replaced"; return 1; }
    sed -i "s/ TO app;/ TO $name;/" "$1"
    if grep -q sqlock_broken "$1"; then
        token=$(as_reader sqlock -U "$as" acquire --ttl 60s stuck) && token=${token#* } || return 1
        ! as_reader sqlock -U "$as" break stuck --token "$token" 2>/dev/null || { echo "it could break before"; return 1; }
        send_postgres "$(cat "$1")" "$url" && as_reader sqlock -U "$as" break stuck --token "$token"
    elif grep -q sqlock_waiter "$1"; then
        as_reader sqlock -U "$as" acquire --ttl 3s waited >/dev/null || return 1
        ! as_reader sqlock -U "$as" run -w 10s waited true 2>/dev/null || { echo "it could wait before"; return 1; }
        send_postgres "$(cat "$1")" "$url" && as_reader sqlock -U "$as" run -w 10s waited true
    elif ! grep -qE 'USAGE|DELETE' "$1"; then # for calls that the command has not
        send_postgres "$(cat "$1")" "$url"
    elif ! grep -q DELETE "$1"; then
        send_postgres "CREATE ROLE $name LOGIN" || return 1
        ! as_reader sqlock -U "$as" run -n x true 2>/dev/null || { echo "it could lock before"; return 1; }
        send_postgres "$(cat "$1")" "$url" && as_reader sqlock -U "$as" run -n x true
    else
        send_postgres "$old" "$url" || return 1
        ! as_reader sqlock -U "$as" reap 2>/dev/null || { echo "it could prune before"; return 1; }
        send_postgres "$(cat "$1")" "$url" && as_reader sqlock -U "$as" -q reap || return 1
        ! as_reader sqlock show x >/dev/null 2>&1 || { echo "it has not pruned"; return 1; }
    fi
}

# SQL of docs/setup.md, as the user that its first line names. The names in it are the test's own.
run_sql() # FILE
{
    local kind=PostgreSQL as=root who
    [ "$database" != mysql ] || kind=MariaDB
    grep -q "^-- $kind" "$1" || return 0
    own_names <"$1" >"$1.own"
    ! grep -q '^-- .* as migrator' "$1" || as=migrator
    if [ $database = mysql ]; then
        send_mysql "$(cat "$1.own")" || return 1
    else
        [ $as = root ] && set -- "$1" "$SQLOCK_TEST_POSTGRES_URL" || set -- "$1" "$(url_of $as)"
        psql -q -v ON_ERROR_STOP=1 -d "$2" -f "$1.own" 2>&1 || return 1
    fi
    for who in $(sed -nE 's/^CREATE (ROLE|USER) ([a-z]+) .*/\2/p' "$1"); do echo "$database ${name}_$who" >>"$dir/users"; done
    ! grep -q '^GRANT.* TO operator;' "$1" || check_users
}

own_names() { sed -E "s/\b(migrator|app|reaper|operator)\b/${name}_\1/g; s/\bappdb\b/$name/g"; }

# The URL of a user that setup.md makes; with its own password where the server asks for one.
url_of() # USER
{
    case $database in
    mysql) echo "${url/root@/${name}_$1:secret@}" ;;
    *) echo "${url/user=postgres/user=${name}_$1}" ;;
    esac
}

as_user() # USER COMMAND...
{
    (umask 077 && url_of "$1" >"$dir/url_user")
    as_reader sqlock --url-file "$dir/url_user" "${@:2}"
}

# Each user can do what it is there for, and the application can neither break nor drop the tables.
check_users()
{
    local old="UPDATE sqlock_lock SET idle_since = idle_since / 2"
    as_reader sqlock acquire --ttl 100ms old >/dev/null && sleep 0.3 && as_user app run -n x true || return 1
    if [ $database = mysql ]; then send_mysql "USE $name; $old"; else send_postgres "$old" "$url"; fi || return 1
    as_user reaper -q reap --grace 0 && as_user operator acquire --ttl 60s stuck >"$dir/stuck" &&
        as_user operator break stuck --token "$(sed 's/.* //' "$dir/stuck")" &&
        as_user operator ls >/dev/null && as_user operator migrate verify || return 1
    ! as_user operator show x >/dev/null 2>&1 || { echo "it has not pruned"; return 1; }
    ! as_user app migrate down --to 0 --yes >/dev/null 2>&1 || { echo "app could drop it"; return 1; }
    ! as_user app break stuck --token 1 2>/dev/null || { echo "app could break"; return 1; }
}

# What make install has put where it is looked for.
check_installed() # FILE RUNNER
{
    new_database && prepare installed || { bad=1; return; }
    localize <"$1" >"$dir/work/${1##*/}"
    "$2" "$dir/work/${1##*/}" >"$dir/log" 2>&1 </dev/null && return
    complain "${1##*/}, on $database: $(cat "$dir/log")"
}
