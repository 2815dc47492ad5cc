# What is not plain English in a document, in the comments and messages of C, or in the comments of SQL, awk and races:
#   awk -f english.awk -v longest=WORDS -v old='WORD|TWO +WORDS' FILE...
# prints a line for each sentence that is too long, and for each that has an old word. Of tables, headings and the
# strings of a .c only the words are judged. Code is left out: blocks of it, and what stands in `backticks`, which
# counts as one word.

function judge(line, count, text)
{
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    if (count && split(text, words, /[ \t]+/) > longest)
        printf "%s:%d: %d words: %s\n", FILENAME, line, split(text, words, /[ \t]+/), text
    if (match(tolower(" " text " "), "[^a-z_-](" old ")[^a-z_-]"))
        printf "%s:%d: \"%s\": %s\n", FILENAME, line, substr(text, RSTART, RLENGTH - 2), text
}

# What has been gathered is a paragraph: it ends sentence by sentence. An abbreviation ends none.
function flush(    rest, at)
{
    rest = text " "
    gsub(/e\.g\./, "eg", rest)
    gsub(/i\.e\./, "ie", rest)
    while ((at = match(rest, /[.!?][)"*]* +([A-Z("*`\[]|sqlock|$)/)) > 0) {
        judge(begun, 1, substr(rest, 1, at))
        rest = substr(rest, at + 1)
        sub(/^[)"*]* +/, "", rest)
    }
    judge(begun, 1, rest)
    text = ""
}

function plain(line)
{
    gsub(/`[^`]*`/, "X", line)
    while (match(line, /\[[^]]*\]\([^)]*\)/)) {
        link = substr(line, RSTART, RLENGTH)
        sub(/^\[/, "", link)
        sub(/\]\(.*/, "", link)
        line = substr(line, 1, RSTART - 1) link substr(line, RSTART + RLENGTH)
    }
    return line
}

function add(line)
{
    if (text == "")
        begun = FNR
    text = text " " plain(line)
}

FNR == 1 {
    flush()
    fence = comment = code = list = 0
    blank = 1
    header = FILENAME ~ /\.[ch]$/
    source = FILENAME ~ /\.c$/
    mark = FILENAME ~ /\.sql$/ ? "--" : FILENAME ~ /\.(awk|races)$/ ? "#" : ""
}

# ---- C: comments, and the strings of a .c ---------------------------------------------------------

# A word alone is a name or a key, not English.
function strings(line,    text)
{
    while (match(line, /"([^"\\]|\\.)*"/)) {
        text = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        if (text ~ / /)
            judge(FNR, 0, text)
    }
}

header && source && !comment && !/^#include/ {
    line = $0
    sub(/\/\*.*/, "", line)
    strings(line)
}

header {
    line = $0
    if (!comment) {
        if (line !~ /\/\*/)
            next
        begins = line ~ /^[ \t]*\/\*/
        if (!begins)
            flush()
        sub(/^.*\/\*/, "", line)
        comment = 1
    }
    ends = sub(/\*\/.*$/, "", line)
    sub(/^[ \t]*\*( |$)/, "", line)
    if (line ~ /^ *-+ .* -+$/ || line ~ /^[ \t]*$/) {
        flush()
        code = 0
        blank = 1
    } else if (code || (blank && line ~ /^    [^ ]/)) {
        code = 1 # an example
    } else {
        blank = 0
        if (line ~ /^ *(- |[A-Z][a-z]+:? +[^ ]|sqlock_[a-z_]+\(\)  )/ && line ~ /^[^ ]+  |^ *- |^[A-Z][a-z]+: /)
            flush() # "Threads:   any.": an item of a list
        else if (line ~ /^ +(SQLOCK_[A-Z]+|sqlock_[a-z_]+\(\)) /)
            flush() # so is a code that a function returns, or a call
        add(line)
    }
    if (ends) {
        flush()
        comment = 0
    }
    next
}

# ---- SQL, awk, races: comments alone --------------------------------------------------------------

# "-- :step" is a directive, "--   COMMIT;" and "# usage:" are code. Behind code a comment stands by itself.
mark != "" {
    line = $0
    whole = sub("^ *" mark "( |$)", "", line)
    if (!whole && (mark != "--" || !sub(/^.*[^ ] +-- /, "", line)))
        line = ""
    if (list && whole)
        sub(/^  /, "", line)
    item = whole && sub(/^- /, "", line)
    list = whole && (item || list && line != "")
    code = line ~ /^(:|  |usage:|-+ .* -+$|$)/
    if (!whole || item || code || line ~ /^[A-Z]+: /) # "BEHIND: ...": an outcome
        flush()
    if (!code)
        add(line)
    if (!whole)
        flush()
    next
}

# ---- documents -----------------------------------------------------------------------------------

/^ *(```|~~~)/ {
    flush()
    fence = !fence
    next
}
fence { next }
/^ *$/ {
    flush()
    blank = 1
    next
}
/^ *#/ {
    flush()
    judge(FNR, 0, plain($0))
    list = code = blank = 0
    next
}
/^ *<!--/ || /^ *!?\[.*\]\(.*\.svg\)$/ {
    flush()
    blank = 0
    next
}
/^ *\|/ {
    flush()
    if ($0 !~ /^[-| :]*$/)
        judge(FNR, 0, plain($0))
    blank = 0
    next
}
# Code is indented by four behind a blank line; in a list by more.
(blank || code) && (list ? /^      / : /^    /) {
    code = 1
    next
}
/^ *([-*]|[0-9]+\.) / {
    flush()
    list = 1
    item = FNR
    sub(/^ *([-*]|[0-9]+\.) /, "")
}
{
    if (blank && /^[^ ]/ && FNR != item)
        list = 0
    blank = code = 0
    add($0)
}

END { flush() }
