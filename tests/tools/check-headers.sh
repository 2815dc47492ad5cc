#!/bin/sh
# make check-headers: each public header compiles alone and twice, as C99, C11 and C++, without any
# header of a database. (It could not find one: the client libraries' folders are hidden from it.)
# And answers that must be looked at are marked.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
checked=0

# Headers of client libraries that lie in /usr/include itself: whoever opens one stops here.
for header in sqlite3.h libpq-fe.h mysql.h postgresql/libpq-fe.h mysql/mysql.h mariadb/mysql.h; do
    mkdir -p "$dir/traps/$(dirname $header)"
    echo "#error a public header opens $header" >"$dir/traps/$header"
done

alone() # HEADER COMPILER FLAGS...
{
    header=$1
    shift
    printf '#include <sqlock/%s>\n#include <sqlock/%s>\n' "$header" "$header"  >"$dir/x.src"
    "$@" -I"$dir/traps" -Iinclude -Wall -Wextra -pedantic -Werror -fsyntax-only - <"$dir/x.src" ||
        { echo "FAILED: $header with $*"; bad=1; }
    checked=$((checked + 1))
}

for path in include/sqlock/*.h; do
    header=${path##*/}
    alone "$header" "${CC:-gcc}" -x c -std=c99 -Wstrict-prototypes -Wshadow
    alone "$header" "${CC:-gcc}" -x c -std=c11 -Wstrict-prototypes -Wshadow
    alone "$header" "${CXX:-g++}" -x c++ -std=c++11
done

# What has an outcome is looked at: all that return an int, but for getters and what driver authors and
# tests call. And a compiler that warns of it does.
unchecked=$(grep -oE '^SQLOCK_API int sqlock_[a-z_]+' include/sqlock/*.h |
    grep -vE 'include/sqlock/(driver|fake)\.h:|sqlock_(is_held|same_actor|lock_fd|op_fd|op_step|loop_fd|loop_step)$')
[ -z "$unchecked" ] || { echo "without SQLOCK_CHECKED: $unchecked"; bad=1; }
drop() # FLAGS...
{
    printf '#include <sqlock/sqlock.h>\nvoid f(sqlock_lock *l);\nvoid f(sqlock_lock *l) { sqlock_renew(l, NULL); }\n' |
        "${CC:-gcc}" -Iinclude -Wall -Werror "$@" -x c -c -o "$dir/drop.o" - 2>/dev/null
}
drop && { echo "an answer that is not looked at is not warned of"; bad=1; }
drop -DSQLOCK_CHECKED= || { echo "SQLOCK_CHECKED cannot be turned off"; bad=1; }

# It must be able to fail.
mkdir -p "$dir/bad/sqlock"
for line in '#include <sqlite3.h>' 'typedef struct new { int class } new;' 'size_t unknown;'; do
    echo "$line" >"$dir/bad/sqlock/x.h"
    if printf '#include <sqlock/x.h>\n' | "${CXX:-g++}" -I"$dir/traps" -I"$dir/bad" -x c++ \
        -fsyntax-only - 2>/dev/null; then
        echo "self test: '$line' was accepted"
        bad=1
    fi
done
[ $bad = 0 ] && echo "headers: $checked compilations"
