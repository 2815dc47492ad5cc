#!/bin/sh
# make check-format: the C is as clang-format leaves it. With --write it is made so (make format).
# Not the public headers: they are prose and tables, which are set by hand.
# Without clang-format: skipped, and a failure under STRICT=1. Versions differ in what they leave; version 14,
# Debian 12's, decides: with another one alone it is skipped.
set -u
if ! command -v clang-format >/dev/null; then
    echo "SKIP: clang-format is not installed"
    [ "${STRICT:-}" = 1 ] && exit 1
    exit 77
fi
format=$(command -v clang-format-14 || echo clang-format)
case $($format --version) in
*"version 14."*) ;;
*)
    echo "SKIP: the format is clang-format 14's, and there is only $($format --version)"
    exit 77
    ;;
esac
mode='--dry-run -Werror'
[ "${1:-}" = --write ] && mode=-i
for dir in core drivers cli tests demo bench; do
    [ -d $dir ] && find $dir -name '*.[ch]'
done | xargs $format $mode
