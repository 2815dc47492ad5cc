#!/bin/sh
# The checkout on a fresh, fully updated Debian of another suite, in a root of its own: as root, on Debian, with
# mmdebstrap installed and a kernel that allows mount namespaces.
#   tests/tools/debian.sh SUITE [MAKE_ARGUMENT...]    e.g. trixie; without more: check STRICT=1
# Packages come from the mirror that this machine's apt uses. The root is kept, for the next time, in
# /var/tmp/sqlock-debian (SQLOCK_DEBIAN_ROOTS: elsewhere), brought up to date each time, and can be deleted
# at any time; build/ in it is kept too. Processes, mounts and /dev/shm are gone with the command. The status
# is make's.
set -eu
umask 022
cd "$(dirname "$0")/../.."

die()
{
    echo "debian.sh: $*" >&2
    exit 1
}

[ $# -gt 0 ] || die "which suite? Say trixie, for example"
suite=$1
shift
[ $# -gt 0 ] || set -- check STRICT=1
[ "$(id -u)" = 0 ] || die "only root can do that"
roots=${SQLOCK_DEBIAN_ROOTS:-/var/tmp/sqlock-debian}
root=$roots/$suite

# What this machine's apt says of Debian, for the suite. Nothing if it has never been updated: mmdebstrap then
# knows where Debian is.
# shellcheck disable=SC2016 # apt-get puts in what these mean
mirrors()
{
    apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
        sort -u | awk -v suite="$suite" '
        $2 == "Debian" { print "deb " $1 " " suite " main" }
        suite == "sid" || suite == "unstable" { next }
        $2 == "Debian" { print "deb " $1 " " suite "-updates main" }
        $2 == "Debian-Security" { print "deb " $1 " " suite "-security main" }'
}

in_root()
{
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
        DEBIAN_FRONTEND=noninteractive ${JOBS:+JOBS="$JOBS"} ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} "$@"
}

make_root()
{
    command -v mmdebstrap >/dev/null || die "apt-get install mmdebstrap, first"
    found=$(mirrors)
    rm -rf "$root"
    echo "$found" | mmdebstrap --mode=root --variant=minbase --include=make,ca-certificates "$suite" \
        "$root.new" ${found:+-} || { rm -rf "$root.new"; die "there is no $suite"; }
    mv "$root.new" "$root"
}

# In namespaces of its own, so that nothing stays mounted and nobody stays behind.
if [ "${SQLOCK_DEBIAN_INSIDE:-}" != yes ]; then
    mkdir -p "$roots"
    [ -O "$roots" ] || die "$roots is somebody else's"
    chmod 700 "$roots"
    [ -x "$root/usr/bin/make" ] || make_root
    SQLOCK_DEBIAN_INSIDE=yes exec unshare --mount --pid --fork --kill-child "$0" "$suite" "$@"
fi
mount --make-rprivate /
mount --bind "$root" "$root" # so that tests in there can have namespaces of their own
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
in_root apt-get -qq update
in_root apt-get -qq -y full-upgrade
mkdir -p "$root/src/sqlock"
find "$root/src/sqlock" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tar -cf - --exclude=./.git --exclude=./build . | tar -xf - --no-same-owner -C "$root/src/sqlock"
# shellcheck disable=SC2016
in_root sh -c '. /etc/os-release && echo "$PRETTY_NAME"; cd /src/sqlock && exec make -j"$(nproc)" "$@"' make "$@"
