# shellcheck shell=sh disable=SC2154,SC2034
# For growth.sh: PostgreSQL.
begin()
{
    url=$(SQLOCK_TEST_PG_CONF="shared_buffers = 128MB
${GROWTH_PG_CONF:-}" tests/tools/pg.sh start) && [ -n "$url" ] || return 1
    server="tests/tools/pg.sh stop $url"
    ask "CREATE DATABASE pacer"
    pacer=$(echo "$url" | sed 's,/postgres?,/pacer?,')
}

ask() { psql "$url" -qAt -v ON_ERROR_STOP=1 -c "$1"; }

fill()
{
    ask "SET synchronous_commit = off;
        INSERT INTO $1lock (ns, name, token, ttl, ended_owner, ended_token, ended_why, idle_since)
        SELECT '', convert_to('name ' || lpad(i::text, 9, '0'), 'UTF8'), 1, 30000000, decode(md5(i::text), 'hex'), 1,
            1, extract(epoch FROM now()) * 1000000 FROM generate_series(0, $2 - 1) i"
    ask "VACUUM ANALYZE $1lock"
    ask "CHECKPOINT"
}

drop()
{
    ask "DROP TABLE $1lock, $1meta, $1migration, $1row, $1register, $1broken"
}

size()
{
    sleep 1 # the statistics come late
    ask "SELECT concat_ws(', ', pg_relation_size(relid) / 8192 || ' pages',
            pg_indexes_size(relid) / 8192 || ' of the index',
            round(100.0 * n_tup_hot_upd / nullif(n_tup_upd, 0), 3) || ' % of ' || n_tup_upd || ' updates HOT',
            n_dead_tup || ' dead rows', autovacuum_count || ' autovacuums')
        FROM pg_stat_user_tables WHERE relname = '$1lock'"
}

hold()
{
    mkfifo "$dir/hold"
    psql "$url" -qAt <"$dir/hold" >/dev/null &
    holder=$!
    exec 9>"$dir/hold"
    echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM c_lock;" >&9
    sleep 1
}

let_go()
{
    exec 9>&-
    wait "$holder"
    rm "$dir/hold"
}

held() { ask "SELECT 'oldest snapshot ' || coalesce(max(age(backend_xmin)), 0) || ' transactions old' FROM pg_stat_activity"; }
