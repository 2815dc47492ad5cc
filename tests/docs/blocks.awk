# The code blocks of a document, each in a file of its own:
#   awk -f blocks.awk -v out=FOLDER DOCUMENT
# prints for each block the number of its first line, and its kind: what stands behind the fence, or "text"
# where nothing does, or where it is an indented one. Its lines are in FOLDER/NUMBER. What stands between
# <!-- NAME: begin --> and <!-- NAME: end --> is printed by a test of its own, and left out here.

function code(line)
{
    if (!open) {
        open = FNR
        print open, kind
    }
    print line >(out "/" open)
}

/^<!-- .*: begin -->$/ { printed = 1 }
/^<!-- .*: end -->$/ { printed = 0 }
printed { next }

/^ *```/ {
    fence = !fence
    indent = kind = $0
    sub(/`.*/, "", indent)
    sub(/^ *```/, "", kind)
    kind = kind == "" ? "text" : kind
    open = 0
    next
}
fence {
    line = $0
    sub("^" indent, "", line)
    code(line)
    next
}

# An indented block begins behind a blank line; in a list it is indented further.
/^    / && (open || blank) {
    if (!open) {
        indent = $0
        sub(/[^ ].*/, "", indent)
        kind = "text"
    }
    line = $0
    sub("^" indent, "", line)
    code(line)
    next
}
{
    open = 0
    blank = /^$/
}
