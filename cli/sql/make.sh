#!/bin/sh
# One migration for the database's own client, as it is installed: with the default names in it, and its
# record, so that the library finds it applied.
#   cli/sql/make.sh SQLOCK postgres/001_locks.up.sql
set -eu
sqlock=$1 file=${2#*/}
driver=${2%%/*}
to=$(expr "$file" : '0*\([0-9]*\)_')
from=$((to - 1)) better="sqlock migrate up --to $to"
case $file in
*.down.sql) from=$to to=$((to - 1)) better="sqlock migrate down --to $to --yes, which first checks that no lock is held" ;;
esac
case $driver in
postgres) client="psql -v ON_ERROR_STOP=1 -f $file URL" ;;
mysql) client="mariadb DATABASE <$file (or mysql)" ;;
sqlite) client="sqlite3 -bail FILE <$file" ;;
esac
set -- migrate sql --driver "$driver" --from "$from" --to "$to"

cat <<END
-- sqlock $("$sqlock" --version | cut -d' ' -f2), $driver: from version $from of the schema to version $to.
-- Run it with:     $client
-- Or run instead:  $better
-- For other names: sqlock --schema S --prefix P $*

END
exec "$sqlock" "$@"
