# shellcheck shell=sh disable=SC2154,SC2034
# For growth.sh: SQLite.
begin()
{
    url="sqlite:$dir/growth.db"
    pacer="sqlite:$dir/pacer.db"
    mkfifo "$dir/open"
    "$program" migrate "$database=$url" p_ # makes the file, in WAL mode
    # While someone has the file open, the WAL stays, and shows how long it was.
    sqlite3 "$dir/growth.db" <"$dir/open" >/dev/null &
    exec 8>"$dir/open"
    server="exec 8>&-"
    echo "SELECT count(*) FROM p_lock;" >&8
}

ask() { sqlite3 "$dir/growth.db" "$1"; }

fill()
{
    ask "PRAGMA synchronous = OFF;
        INSERT INTO $1lock (ns, name, token, ttl, ended_owner, ended_token, ended_why, idle_since)
        WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $2 - 1)
        SELECT x'', CAST(printf('name %09d', i) AS BLOB), 1, 30000, randomblob(16), 1, 1, unixepoch() * 1000 FROM n;
        PRAGMA wal_checkpoint(TRUNCATE)" >/dev/null
}

drop()
{
    ask "DROP TABLE $1lock; DROP TABLE $1meta; DROP TABLE $1migration; DROP TABLE $1row; DROP TABLE $1register;
        DROP TABLE $1broken"
}

bytes() { stat -c %s "$dir/growth.db$1" 2>/dev/null || echo 0; }
size()
{
    echo "$(ask "PRAGMA page_count") pages of the file, $(ask "PRAGMA freelist_count") free, $(bytes -wal) bytes of WAL"
}

hold()
{
    mkfifo "$dir/hold"
    sqlite3 "$dir/growth.db" <"$dir/hold" >/dev/null &
    holder=$!
    exec 9>"$dir/hold"
    echo "BEGIN; SELECT count(*) FROM c_lock;" >&9
    sleep 1
}

let_go()
{
    exec 9>&-
    wait "$holder"
    rm "$dir/hold"
}

held() { echo "$(bytes -wal) bytes of WAL"; }
