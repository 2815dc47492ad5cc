# Plants a mutant in the tree that is the current folder.
#   awk -f plant.awk NAME.mutant
# From the first "file:" line on the mutant is pieces: each names a file, and its lines, by their first
# character: ' ' and '-' stand in the file, one behind the other and once; ' ' and '+' replace them.
# Whatever does not fit exactly is told, and ends it with 1.

function refuse(why)
{
    print FILENAME ": " why
    failed = 1
    exit 1
}

function whole(file,    text, line, got)
{
    text = "\n"
    while ((got = (getline line <file)) > 0)
        text = text line "\n"
    if (got < 0)
        refuse("there is no " file)
    close(file)
    return text
}

# Both begin and end with the end of a line, which neighbours share.
function times(text, piece,    n, at)
{
    while ((at = index(text, piece)) > 0) {
        n++
        text = substr(text, at + length(piece) - 1)
    }
    return n + 0
}

function replace(    text, at, n)
{
    if (file == "")
        return
    if (before == after)
        refuse("a piece of " file " changes nothing")
    if (before == "\n")
        refuse("a piece of " file " does not say where")
    text = whole(file)
    if ((n = times(text, before)) != 1)
        refuse("its piece of " file " stands there " n " times, not once:" before)
    at = index(text, before)
    printf "%s", substr(text, 2, at - 1) substr(after, 2) substr(text, at + length(before)) >file
    close(file)
}

/^file:/ {
    replace()
    file = $2
    before = after = "\n"
    next
}
file == "" { next }
/^[ -]/ { before = before substr($0, 2) "\n" }
/^[ +]/ { after = after substr($0, 2) "\n" }
!/^[ +-]/ { refuse("a line of a piece is none: '" $0 "'") }

END {
    if (failed)
        exit 1
    if (file == "")
        refuse("it changes nothing")
    replace()
}
