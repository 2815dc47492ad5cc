#!/bin/sh
# make check-readme: every file and folder that a document links to is there, and every folder has a README.
# What the documents show is run by tests/docs.
set -u
bad=0

for document in *.md docs/*.md */README.md */*/README.md; do
    for link in $(grep -o ']([^)]*)' "$document" | sed 's/^](//; s/)$//; s/#.*//'); do
        case $link in http://* | https://*) continue ;; esac
        [ -e "$(dirname "$document")/$link" ] || { echo "$document links to $link, which is not there"; bad=1; }
    done
done

# Every folder, or the one above for all of its folders, says what it owns.
for folder in $(git ls-files 2>/dev/null | sed -n 's|/[^/]*$||p' | sort -u); do
    case $folder in .*) continue ;; esac
    [ -f "$folder/README.md" ] || [ -f "$folder/../README.md" ] ||
        { echo "neither $folder nor the folder above has a README.md"; bad=1; }
done
exit $bad
