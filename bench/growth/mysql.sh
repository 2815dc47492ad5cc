# shellcheck shell=sh disable=SC2154,SC2034
# For growth.sh: MariaDB and MySQL.
begin()
{
    url=$(SQLOCK_TEST_MYSQL_ARGS="--innodb-buffer-pool-size=128M ${GROWTH_MYSQL_ARGS:-}" tests/tools/my.sh start) &&
        [ -n "$url" ] || return 1
    server="tests/tools/my.sh stop $url"
    ask "CREATE DATABASE pacer"
    pacer=$(echo "$url" | sed 's,/test?,/pacer?,')
}

client()
{
    mariadb --no-defaults --loose-skip-ssl -uroot -S "${url#*socket=}" -N "$@"
}
ask() { client test -e "$1"; }

# In parts, for one long transaction would leave a long history behind.
fill()
{
    digits="(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL
        SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
    part=$(($2 < 100000 ? $2 : 100000))
    at=0
    while [ "$at" -lt "$2" ]; do
        echo "INSERT INTO $1lock (ns, name, token, ttl, ended_owner, ended_token, ended_why, idle_since)
            SELECT '', CONCAT('name ', LPAD(i, 9, '0')), 1, 30000000, UNHEX(MD5(i)), 1, 1,
                UNIX_TIMESTAMP() * 1000000
            FROM (SELECT $at + a.d * 10000 + b.d * 1000 + c.d * 100 + d.d * 10 + e.d AS i
                FROM $digits a, $digits b, $digits c, $digits d, $digits e) n WHERE i < $at + $part ORDER BY i;"
        at=$((at + part))
    done | client test
    ask "ANALYZE TABLE $1lock" >/dev/null
}

drop() { ask "DROP TABLE $1lock, $1meta, $1migration, $1row, $1register, $1broken"; }

tablespaces()
{
    ask "SELECT table_name FROM information_schema.tables WHERE table_schema = 'information_schema'
        AND UPPER(table_name) IN ('INNODB_SYS_TABLESPACES', 'INNODB_TABLESPACES')"
}

size()
{
    ask "SELECT CONCAT(file_size DIV 16384, ' pages of 16 kB') FROM information_schema.$(tablespaces)
        WHERE name = 'test/$1lock'"
}

hold()
{
    mkfifo "$dir/hold"
    client test <"$dir/hold" >/dev/null &
    holder=$!
    exec 9>"$dir/hold"
    echo "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM c_lock;" >&9
    sleep 1
}

let_go()
{
    exec 9>&-
    wait "$holder"
    rm "$dir/hold"
}

held()
{
    ask "SHOW ENGINE INNODB STATUS\G" | sed -n 's/^History list length/history list length/p' | tr '\n' ' '
    data=${url#*socket=}
    data=${data%/s}/data
    du -cm "$data"/ibdata1 "$data"/undo* 2>/dev/null | sed -n 's/[[:blank:]]*total/ MB with undo logs/p'
}
