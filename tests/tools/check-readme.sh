#!/bin/sh
# make check-readme: every file and folder that a README links to is there, and every folder has a README.
# What the documents show is run by tests/docs.
set -u
bad=0

for readme in README.md */README.md */*/README.md; do
    for link in $(sed -n 's/.*](\([a-z/A-Z._0-9-]*\)).*/\1/p' "$readme"); do
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
