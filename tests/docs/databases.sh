# Which databases the examples run on, and an empty one for each document. For examples.sh.
# $database: which; $url: the one that is in use now.

wanted() # DRIVER
{
    [[ " ${BUILT_DRIVERS:-sqlite} " == *" $1 "* && " ${SQLOCK_TEST_DRIVERS:-$1} " == *" $1 "* ]]
}

databases()
{
    ! wanted sqlite || echo sqlite
    ! wanted postgres || [ -z "${SQLOCK_TEST_POSTGRES_URL:-}" ] || echo postgres
    ! wanted mysql || [ -z "${SQLOCK_TEST_MYSQL_URL:-}" ] || echo mysql
}

# The server's client, as root of its own server.
send_postgres() # SQL
{
    psql -q -v ON_ERROR_STOP=1 -d "${2:-$SQLOCK_TEST_POSTGRES_URL}" -c "$1" 2>&1
}

send_mysql()
{
    local client=mariadb
    command -v mariadb >/dev/null || client=mysql
    $client --no-defaults -uroot -S "${SQLOCK_TEST_MYSQL_URL#*socket=}" -e "$1" 2>&1
}

in_database() # URL NAME: the same server's other database
{
    sed -E "s|^([a-z]+://[^/]*)/[^?]*|\1/$2|" <<<"$1"
}

new_database() # [DOCUMENT]: setup.md makes it by itself
{
    name=docs_$$_$(wc -l <"$dir/made")
    case $database in
    sqlite) url=sqlite:$dir/$name.db ;;
    postgres)
        url=$(in_database "$SQLOCK_TEST_POSTGRES_URL" $name)
        [ "${1:-}" = docs/setup.md ] || send_postgres "CREATE DATABASE $name"
        ;;
    mysql)
        url=$(in_database "$SQLOCK_TEST_MYSQL_URL" $name)
        [ "${1:-}" = docs/setup.md ] || send_mysql "CREATE DATABASE $name"
        ;;
    esac && echo "$database $name" >>"$dir/made"
}

drop_databases()
{
    while read -r database name; do
        case $database in
        postgres) send_postgres "DROP DATABASE $name" && send_postgres "SET client_min_messages = warning; DROP ROLE IF EXISTS $name" ;;
        mysql) send_mysql "DROP DATABASE $name" ;;
        esac
    done <"$dir/made"
    [ ! -e "$dir/users" ] || while read -r database name; do
        case $database in
        postgres) send_postgres "DROP ROLE $name" ;;
        mysql) send_mysql "DROP USER $name" ;;
        esac
    done <"$dir/users"
}
