#!/bin/sh
# make check-format: the C is as clang-format leaves it. With --write it is made so (make format).
# Not the public headers: they are prose and tables, which are set by hand.
# Without clang-format: skipped, and a failure under STRICT=1.
set -u
if ! command -v clang-format >/dev/null; then
    echo "SKIP: clang-format is not installed"
    [ "${STRICT:-}" = 1 ] && exit 1
    exit 77
fi
mode='--dry-run -Werror'
[ "${1:-}" = --write ] && mode=-i
for dir in core drivers cli tests demo bench; do
    [ -d $dir ] && find $dir -name '*.[ch]'
done | xargs clang-format $mode
