#!/usr/bin/env bash
# make check-symbols: each shared library exports what its public headers declare as SQLOCK_API and
# nothing else, and needs only what it may. No room of core calls one above it. No object refers to what
# would print, end the process or take over its signals, nor, but for one, to what hands out memory.
# The Makefile sets BUILD, BUILT_DRIVERS and SO.
set -u
export LC_ALL=C
build=$BUILD
bad=0

complain()
{
    echo "$*"
    bad=1
}

# The functions of headers, without comments and macros.
declared()
{
    for header in "$@"; do
        "${CC:-gcc}" -w -fpreprocessed -E -P -x c - <"$header" | tr '\n' ' ' |
            grep -oE 'SQLOCK_API [^;(]*\(' | sed -E 's/.*[ *](sqlock_[a-z0-9_]+)\($/\1/'
    done | sort -u
}

exported()
{
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

# Also through a macro: stdout and stderr are what fprintf() to them leaves behind.
refused='exit|_exit|_Exit|quick_exit|atexit|on_exit|abort|signal|sigaction|bsd_signal|sigset'
refused+='|printf|vprintf|puts|putchar|perror|stdout|stderr|psignal|error|warnx?|errx?|syslog'
refused+='|__v?printf_chk|setlocale|setenv|putenv|unsetenv|chdir|umask|sprintf|vsprintf|strcpy|strcat'

# Memory comes from one object, which tests replace: what asks the system by itself never fails there,
# and is missed when leaks are counted.
allocators='malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|memalign|free|(__)?strn?dup'
allocators+='|v?asprintf|__v?asprintf_chk|getline|getdelim|open_memstream|realpath|scandir'

check_library() # FILE NEEDED_PATTERN HEADER...
{
    local file=$1 needed=$2 extra
    shift 2
    # A sanitizer's own symbols are not ours to judge.
    extra=$(diff <(declared "$@") <(exported "$file")) ||
        complain "$file: < declared in $* only, > exported only"$'\n'"$extra"
    [ -n "$(declared "$@")" ] || complain "$file: no SQLOCK_API function was found in $*"
    extra=$(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vE "^($needed)$") &&
        complain "$file needs $extra"
    readelf -d "$file" | grep -q "SONAME.*\[${file##*/}\]" || complain "$file has no soname"
}

# Objects one by one, so that the message names the source. One puts back what the client libraries of
# MariaDB and MySQL do to SIGPIPE.
check_objects() # FOLDER
{
    local object found pattern
    while read -r object; do
        pattern="$refused|$allocators"
        [[ $object != */core/base/mem.o ]] || pattern=$refused
        found=$(nm -u "$object" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -xE "$pattern") &&
            [[ $object:$found != */drivers/mysql/signals.o:sigaction ]] &&
            complain "$object refers to" $found
    done < <(find "$@" -name '*.o')
}

# ---- rooms of core: which one's functions each of them may use, by the objects -----------------------

# What each room uses of another, "ROOM OTHER FUNCTION FILE". Objects whose source has gone do not count.
uses_between() # OBJECTS SOURCES
{
    for object in "$1"/*/*.o; do
        source=${object#"$1"}
        [ -e "$2${source%.o}.c" ] || continue
        room=$(basename "$(dirname "$object")")
        nm --defined-only "$object" | awk -v room="$room" '$2 ~ /[TDBRC]/ { print "defines", room, $3 }'
        nm -u "$object" | awk -v room="$room" -v file="$(basename "$object" .o)" '{ print "uses", room, $2, file }'
    done | sort | awk '
        $1 == "defines" { of[$3] = $2 }
        $1 == "uses" && $3 in of && of[$3] != $2 { print $2, of[$3], $3, $4 ".c" }'
}

# The rooms below each; whoever calls another one is a breach.
breaches_between() # OBJECTS SOURCES
{
    uses_between "$1" "$2" | awk '
        BEGIN {
            below["base"] = ""
            below["model"] = below["sql"] = " base "
            below["engine"] = " base model sql "
            below["leases"] = below["engine"] "engine "
            below["schema"] = below["transaction"] = below["leases"] "leases "
        }
        !($1 in below) || index(below[$1], " " $2 " ") == 0 { print "core/" $1 "/" $4 " calls " $3 "() of core/" $2 }'
}

libc='libc\.so\.6|libpthread\.so\.0|librt\.so\.1|libdl\.so\.2|ld-linux.*'
mapfile -t headers < <(ls include/sqlock/*.h | grep -vE "/($(cd drivers && ls -d */ | tr -d / | paste -sd'|'))\.h$")
check_library "$build/libsqlock.$SO" "$libc" "${headers[@]}"
check_objects "$build/obj/core"
breaches=$(breaches_between "$build/obj/core" core)
[ -z "$breaches" ] || complain "$breaches"
for driver in $BUILT_DRIVERS; do
    case $driver in
    fake | sqlite) client='|libsqlite3\.so\.0' ;;
    postgres) client='|libpq\.so\.5' ;;
    mysql) client='|liburiparser\.so\.1|libmariadb\.so\.3|libmysqlclient\.so\.[0-9]+' ;;
    esac
    check_library "$build/libsqlock-$driver.$SO" "$libc|libsqlock\.$SO$client" \
        "include/sqlock/$driver.h"
    check_objects "$build/obj/drivers/$driver"
done

# It must be able to fail.
for word in exit printf stderr sigaction; do
    grep -qxE "$refused" <<<"$word" || complain "self test: $word would not be refused"
done
for word in malloc free strndup asprintf; do
    grep -qxE "$allocators" <<<"$word" || complain "self test: $word would not be refused"
done
grep -qxE "$refused|$allocators" <<<snprintf && complain "self test: snprintf would be refused"
[ "$(declared <(printf 'SQLOCK_API int *\nsqlock_x(int (*fn)(void));\nSQLOCK_API void sqlock_y(void);'))" \
    = $'sqlock_x\nsqlock_y' ] || complain "self test: declarations are misread"
# A room that calls a higher one, and one that does not.
rooms=$(mktemp -d) && mkdir "$rooms/base" "$rooms/engine" || exit 1
trap 'rm -rf "$rooms"' EXIT
echo 'int engine_x(void); int base_x(void); int base_x(void) { return engine_x(); }' >"$rooms/base/x.c"
echo 'int engine_x(void); int base_x(void); int engine_x(void) { return base_x(); }' >"$rooms/engine/x.c"
for room in base engine; do
    ${CC:-cc} -c "$rooms/$room/x.c" -o "$rooms/$room/x.o"
done
[ "$(breaches_between "$rooms" "$rooms")" = "core/base/x.c calls engine_x() of core/engine" ] || complain "self test: rooms are misread"
[ $bad = 0 ] && echo "symbols: libsqlock and $BUILT_DRIVERS"
