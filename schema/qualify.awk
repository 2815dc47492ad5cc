# PostgreSQL finds what a statement names by the session's search_path. A stranger's schema may come first there. Then
# the stranger's operator or function would run with the rights of the program that wants a lock. So qualify() writes
# every operator, function, type and catalogue of a statement with its schema. It does so here, where none can be
# forgotten, and not by hand, because then no one could read the statements.
#
# OPERATOR(pg_catalog.+) binds as tightly as OPERATOR(pg_catalog.=), and from the left. So parentheses are needed where
# an operator would bind more tightly than the one before it. Some words compare without an operator that could be named
# (IN, BETWEEN, LIKE, NULLIF, IS DISTINCT FROM, CASE x WHEN, USING). These are refused.

# How tightly an operator binds, by PostgreSQL's grammar.
function tightness(op) {
    if (op == "^") return 6
    if (op ~ /^[*\/%]$/) return 5
    if (op ~ /^[-+]$/) return 4
    return op ~ /^(=|<>|<|>|<=|>=)$/ ? 2 : 3
}

# Words in capitals are the grammar's; behind most of them an expression begins anew.
function is_keyword(word) { return word ~ /^[A-Z]+$/ }
function is_operand(word) { return word ~ /^(ALL|ANY|ARRAY|FALSE|NULL|TRUE)$/ }
# Types whose names are words of the grammar. The server looks these up in no schema.
function is_grammar(type) { return type ~ /^(bigint|bit|boolean|int|integer|interval|smallint)$/ }
function is_special(name) { return name ~ /^(coalesce|extract|greatest|least)$/ }

# The next token of rest, which is cut off.
function next_token(    t) {
    if (!match(rest, /^([ \t\n]+|--[^\n]*|'[^']*'|"[^"]*"|\{[a-z_:]*\}|\$[0-9]+|[A-Za-z_][A-Za-z_0-9.]*|[0-9]+|::|[-+*\/<>=~!@#%^&|?]+|.)/))
        match(rest, /^\n/)
    t = substr(rest, 1, RLENGTH)
    rest = substr(rest, RLENGTH + 1)
    return t
}

# bound says how tight the next operator may be, for each parenthesis, bracket and CASE that is open. setting is 1
# before the `=` of an assignment, 2 behind it.
function open_level() { depth++; bound[depth] = 9; setting[depth] = 0 }
function begin_anew(word) {
    if (is_operand(word)) return
    if (word == "CASE") { open_level(); return }
    if (word == "END") { depth--; return }
    bound[depth] = 9
    if (word == "SET" || (setting[depth] && word == ",")) setting[depth] = 1
    else if (word ~ /^(FROM|WHERE|RETURNING|UPDATE)$/) setting[depth] = 0
}

function named_operator(op, where) {
    if (setting[depth] == 1 && op == "=") { setting[depth] = 2; bound[depth] = 9; return op }
    if (prev ~ /^(SELECT|=|\(|\[|,)$/ || prev ~ /[.]$/) {
        if (op == "*" || (op == "-" && rest ~ /^[0-9]/)) return op
        die(where ": what does " op " stand for?")
    }
    if (tightness(op) > bound[depth]) die(where ": parentheses are needed around what " op " stands in")
    bound[depth] = tightness(op)
    return "OPERATOR(pg_catalog." op ")"
}

function named_word(word, where) {
    if (prev == "::") return is_grammar(word) || word ~ /[.]/ ? word : "pg_catalog." word
    if (word ~ /^(BETWEEN|LIKE|ILIKE|SIMILAR|NULLIF|DISTINCT|NATURAL|nullif)$/ && !(word == "DISTINCT" && prev == "SELECT"))
        die(where ": " word " compares by an operator that cannot be named")
    if ((word == "IN" || word == "USING") && rest ~ /^ *\(/) die(where ": " word " compares by an operator that cannot be named")
    if (word == "CASE" && rest !~ /^[ \n]+WHEN/) die(where ": CASE x WHEN compares by an operator that cannot be named")
    if (is_keyword(word)) { begin_anew(word); return word }
    if (making && word ~ /^(bytea|text)$/) return "pg_catalog." word
    if (word ~ /[.]/) return word
    if (rest ~ /^\(/ && !is_special(word)) return "pg_catalog." word
    if (word ~ /^pg_/) return "pg_catalog." word
    return word
}

function qualify(sql, where,    out, t, n, whole) {
    rest = sql; out = ""; depth = 0; prev = ""; bound[0] = 9; setting[0] = 0
    making = sql ~ /^CREATE TABLE/
    while (rest != "") {
        t = next_token()
        if (t ~ /^([ \t\n]|--)/) { out = out t; continue }
        if (t == "(" && prev == "WITH" && making) { # storage parameters are no expressions
            n = index(rest, ")"); out = out t substr(rest, 1, n); rest = substr(rest, n + 1); prev = ")"
            continue
        }
        if (t == "(" || t == "[") open_level()
        else if (t == ")" || t == "]") depth--
        else if (t == ",") begin_anew(",")
        else if (t ~ /^[A-Za-z_]/) { whole = t; t = named_word(t, where); out = out t; prev = whole; continue }
        else if (t != "::" && t ~ /^[-+*\/<>=~!@#%^&|?]/) { out = out named_operator(t, where); prev = t; continue }
        out = out t; prev = t
    }
    return out
}
