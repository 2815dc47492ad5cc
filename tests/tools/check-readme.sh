#!/bin/sh
# make check-readme: the program in README.md compiles as it stands, runs, and gets its lock twice in a row
# with a larger token; every file and folder that a README links to is there.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

case " ${BUILT_DRIVERS:-sqlite} " in
*" sqlite "*)
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$dir/example.c"
    # shellcheck disable=SC2046
    ${CC:-gcc} -std=c99 -Wall -Wextra -pedantic -Werror -Iinclude -o "$dir/example" "$dir/example.c" \
        "${BUILD:-build}/libsqlock-sqlite.a" "${BUILD:-build}/libsqlock.a" \
        $(pkg-config --libs sqlite3) -lpthread -ldl || bad=1
    for token in 1 2; do
        said=$(cd "$dir" && ./example) || bad=1
        [ "$said" = "ours, token $token" ] || { echo "run $token of README's example said: $said"; bad=1; }
    done
    ;;
*) echo "without the sqlite driver README's example is not built" ;;
esac

for readme in README.md */README.md */*/README.md; do
    for link in $(sed -n 's/.*](\([a-z/A-Z.]*\)).*/\1/p' "$readme"); do
        [ -e "$(dirname "$readme")/$link" ] || { echo "$readme links to $link, which is not there"; bad=1; }
    done
done

# Every folder, or the one above for all of its folders, says what it owns.
for folder in $(git ls-files 2>/dev/null | sed -n 's|/[^/]*$||p' | sort -u); do
    case $folder in .*) continue ;; esac
    [ -f "$folder/README.md" ] || [ -f "$folder/../README.md" ] ||
        { echo "neither $folder nor the folder above has a README.md"; bad=1; }
done
exit $bad
