#!/bin/sh
# usage: build.sh DIR: installs the tree into DIR/stage, copies this driver to DIR/driver, and makes it there as a third
# party would: of what is installed, in an environment that knows nothing of the tree. BUILT_DRIVERS is the Makefile's.
# OUTSIDE_CFLAGS are for the compiler besides.
set -eu
dir=$1
here=$(dirname "$0")
mkdir -p "$dir/stage" "$dir/driver"
# make writes into the build folder for it, and a check may install too.
flock "${BUILD:-build}/installing" "${MAKE:-make}" -s DRIVERS="$BUILT_DRIVERS" install PREFIX="$dir/stage" LIBDIR="$dir/stage/lib" \
    DESTDIR= >"$dir/install.log" 2>&1 || { cat "$dir/install.log"; exit 1; }
cp "$here/Makefile" "$here"/*.c "$here"/*.h "$here"/*.sql "$dir/driver"
env -i PATH="$PATH" PKG_CONFIG_PATH="$dir/stage/lib/pkgconfig" \
    make -s -C "$dir/driver" CC="${CC:-gcc}" CFLAGS="-O2 -g ${OUTSIDE_CFLAGS:-}"
