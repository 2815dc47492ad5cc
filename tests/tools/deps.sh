#!/bin/sh
# Sees to it that what the build and the tests need is installed; on Debian, as root, installs it.
# Costs next to nothing when all is there. With STRICT=1, clang, clang-format, pgbouncer, faketime and Galera belong to it.
#   tests/tools/deps.sh [demo | quick]    only what the demo needs, or `make quick`: no servers
set -u

packages=
need() # PACKAGE COMMAND...
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || packages="$packages $package"
}
postgres_there()
{
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
        [ -x "$dir/initdb" ] && return 0
    done
    command -v initdb || pg_config --bindir 2>/dev/null | { read -r dir && [ -x "$dir/initdb" ]; }
}
mysql_client_there()
{
    pkg-config --exists libmariadb || pkg-config --exists mysqlclient
}
mariadb_there()
{
    [ -x /usr/sbin/mariadbd ] || command -v mariadbd || [ -x /usr/sbin/mysqld ] || command -v mysqld
}
galera_there()
{
    [ -e /usr/lib/galera/libgalera_smm.so ] || [ -e /usr/lib64/galera-4/libgalera_smm.so ]
}
pooler_there()
{
    [ -x /usr/sbin/pgbouncer ] || command -v pgbouncer
}

case ${CC:-gcc} in
*clang*) need clang command -v "$CC" ;;
*) need gcc command -v "${CC:-gcc}" ;;
esac
need libc6-dev test -e /usr/include/stdio.h
need binutils command -v readelf
need pkg-config command -v pkg-config
need libsqlite3-dev pkg-config --exists sqlite3
need libjansson-dev pkg-config --exists jansson
if [ "${1:-}" != demo ]; then
    need g++ command -v "${CXX:-g++}"
    need libcmocka-dev pkg-config --exists cmocka
fi
if [ -z "${1:-}" ]; then
    need libpq-dev pkg-config --exists libpq
    need liburiparser-dev pkg-config --exists liburiparser
    need libmariadb-dev mysql_client_there
    need openssl command -v openssl
    need sqlite3 command -v sqlite3
    need libuv1-dev pkg-config --exists libuv
    need libevent-dev pkg-config --exists libevent
    need scdoc command -v scdoc
    need postgresql postgres_there
    # The packages without -core start a server.
    need mariadb-server-core mariadb_there
    need mariadb-client-core sh -c 'command -v mariadb || command -v mysql'
    [ "${STRICT:-}" != 1 ] || need clang-format command -v clang-format
    [ "${STRICT:-}" != 1 ] || need pgbouncer pooler_there
    [ "${STRICT:-}" != 1 ] || need clang command -v clang
    # Without it no server's clock can be stepped.
    [ "${STRICT:-}" != 1 ] || need faketime sh -c 'ls /usr/lib/*/faketime/libfaketimeMT.so.1'
    # Without it no MariaDB is a node of a cluster, which is to be refused.
    [ "${STRICT:-}" != 1 ] || need galera-4 galera_there
fi

[ -n "$packages" ] || exit 0
install="apt-get install -y --no-install-recommends$packages"
echo "missing:$packages"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Install it, as root; on Debian: apt-get update && $install"
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# The tests start servers of their own: Debian's package shall not make one that runs from now on.
no_cluster=/etc/postgresql-common/createcluster.d/sqlock-tests.conf
forget()
{
    rm -f "$no_cluster"
    rmdir -p "${no_cluster%/*}" 2>/dev/null
}
trap forget EXIT
mkdir -p "${no_cluster%/*}" && echo "create_main_cluster = false" >"$no_cluster"
apt-get -q update </dev/null && $install </dev/null
