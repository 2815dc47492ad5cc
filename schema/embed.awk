# Turns schema/<dialect>/ and migrations/<dialect>/ into C. schema/README.md says how those files are written.
# usage: awk -v dialect=D -v style='$'|'?N'|'?' -f embed.awk request.h [own.sql] tables.sql statements.sql up/down.sql...
# own.sql (-v own=) holds the statements in which a dialect differs from the files behind it. `-- :lacks` in
# statements.sql names the requests that a driver does without. If migrate_differ is one, it needs no tables.sql.
# Any fault in the texts ends the build with a message. Nothing is guessed. Needs qualify.awk.

function die(msg) { print FILENAME ":" FNR ": " msg > "/dev/stderr"; failed = 1; exit 1 }
function trim(s) { gsub(/^[ \t\n]+|[ \t\n]+$/, "", s); return s }

# A C string literal, one source line per line of SQL.
function literal(s,    parts, n, i, out) {
    gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s)
    n = split(s, parts, "\n"); out = ""
    for (i = 1; i <= n; i++) out = out "\n        \"" parts[i] (i < n ? "\\n" : "") "\""
    return out
}

# Expand the {macro}s of ":define", and the names of numbers, which are in capitals. Core puts in the others ({lock},
# {meta}) at run time.
function expand(s, where,    m, before) {
    do { # a macro may contain others
        before = s
        for (m in macro) while (index(s, "{" m "}"))
            s = substr(s, 1, index(s, "{" m "}") - 1) macro[m] substr(s, index(s, "{" m "}") + length(m) + 2)
    } while (s != before)
    if (match(s, /\{[A-Z_]+\}/)) die(where ": there is no number called " substr(s, RSTART, RLENGTH))
    return s
}

# Reads "RELEASED 1, BROKEN 2", the comment beside ended_why in tables.sql. {ENDED} + ended_why is the outcome of the
# same name, so both must count alike.
function name_ends(line,    word) {
    while (match(line, /[A-Z]+ [0-9]+/)) {
        split(substr(line, RSTART, RLENGTH), word, " ")
        line = substr(line, RSTART + RLENGTH)
        if (!(word[1] in outcome)) die("sqlock_outcome has no " word[1])
        if (!("ENDED" in macro)) macro["ENDED"] = outcome[word[1]] - word[2]
        if (outcome[word[1]] != macro["ENDED"] + word[2]) die("ended_why " word[1] " is not the outcome of that name")
        macro["ENDED_" word[1]] = word[2]
    }
}

# Behind the request's own parameters; the driver knows it by the request's flag.
function lazy(block) {
    if (flags_of[block] !~ /SQLOCK_REQ_LAZY/) die("block " block " is not SQLOCK_REQ_LAZY")
    return n_params[block] + 1
}

# Replaces :param by its placeholder, and sets ord to the positional order. "::" is a cast, not a parameter.
function placeholders(s, block,    out, rest, p, name, n) {
    out = ""; rest = s; ord = ""
    if (style == "?" && index(s, "?")) die("block " block " has a ? of its own")
    while (match(rest, /:[a-z_:]/)) {
        p = RSTART
        if (substr(rest, p, 2) == "::") { out = out substr(rest, 1, p + 1); rest = substr(rest, p + 2); continue }
        if (p > 1 && substr(rest, p - 1, 1) ~ /[a-z{]/) { out = out substr(rest, 1, p); rest = substr(rest, p + 1); continue }
        match(substr(rest, p + 1), /^[a-z_]+/)
        name = substr(rest, p + 1, RLENGTH)
        if (name == "index" && style == "?") number[block, name] = 256
        if (name == "lazy" && style == "$") number[block, name] = lazy(block)
        if (!((block, name) in number)) die("block " block " has no parameter :" name)
        n = number[block, name]
        out = out substr(rest, 1, p - 1) (style == "$" ? "$" n : style == "?N" ? "?" n : "?")
        ord = ord (ord == "" ? "" : ", ") (n - 1)
        rest = substr(rest, p + 1 + length(name))
    }
    return out rest
}

# The first 16 hex digits of a file's SHA-256.
function checksum(path,    command, line) {
    command = "sha256sum '" path "'"
    if ((command | getline line) <= 0 || length(line) < 64) die("no checksum by sha256sum")
    close(command)
    return substr(line, 1, 16)
}

function add_step(list, sql, flags,    n) {
    sql = trim(sql); sub(/;$/, "", sql)
    if (sql == "") die("an empty step in block " block)
    n = ++count[block, list]
    text[block, list, n] = sql; flag[block, list, n] = flags
}
function end_step() {
    if (list == "") return
    if (same) add_step(list, text[block, "steps", same], flag[block, "steps", same])
    else add_step(list, sql, step_flag)
    list = ""; sql = ""; same = 0
}

function print_steps(id, block, list,    n, i, t) {
    n = count[block, list]
    if (!n) return
    for (i = 1; i <= n; i++) {
        t[i] = placeholders(expand(text[block, list, i], "block " block), block)
        if (style == "$") t[i] = qualify(t[i], "block " block)
        if (style == "?" && ord != "") printf "static const uint8_t %s_%s_%d_order[] = {%s};\n", id, list, i, ord
        order[i] = (style == "?" && ord != "") ? id "_" list "_" i "_order, sizeof " id "_" list "_" i "_order" : "NULL, 0"
    }
    printf "static const sqlock_step %s_%s[] = {\n", id, list
    for (i = 1; i <= n; i++)
        printf "    {%s,\n     %s, %s},\n", literal(t[i]), order[i], flag[block, list, i]
    print "};"
}

function print_migration(v,    dir, i, t) {
    for (dir in dirs) {
        printf "static const char *const migration_%d_%s[] = {\n", v, dir
        for (i = 1; i <= statements[v, dir]; i++) {
            t = expand(statement[v, dir, i], "migration " v)
            printf "    %s,\n", literal(style == "$" ? qualify(t, "migration " v) : t)
        }
        print "};"
    }
}

FNR == 1 && pending != "" { die("the file before this one ends within a statement") }
FNR == 1 { kind = FILENAME ~ /\.h$/ ? "header" : FILENAME ~ /tables\.sql$/ ? "tables" : \
        FILENAME ~ /statements\.sql$/ ? "statements" : "migration"
    ours = FILENAME == own
    if (kind == "migration") {
        file = FILENAME; sub(/.*\//, "", file)
        version = substr(file, 1, 3) + 0; direction = file ~ /\.down\.sql$/ ? "down" : "up"
        name = substr(file, 5); sub(/\.(up|down)\.sql$/, "", name)
        title[version] = name; if (version > versions) versions = version
        if (direction == "up") sum[version] = checksum(FILENAME)
        pending = ""
    } }

# A request of SQLOCK_STMTS, in one line or two: X(ID, "block", "parameters", schema, flags).
kind == "header" && (/^    X\([A-Z_]+, "/ || entry != "") {
    entry = entry $0; sub(/ *\\$/, "", entry)
    if (entry !~ /\)$/) next
    if (split(entry, q, "\"") != 5 || q[5] !~ /^, *[0-9]+, *[0A-Z_| ]+\)$/) die("not an entry of SQLOCK_STMTS: " entry)
    id = entry; sub(/^ *X\(/, "", id); sub(/,.*/, "", id)
    blocks[++n_blocks] = q[2]; ids[q[2]] = id; params[q[2]] = q[4]
    is = q[5]; sub(/^, *[0-9]+, */, "", is); sub(/\)$/, "", is); flags_of[q[2]] = is
    n = split(q[4], ps, " "); n_params[q[2]] = n
    for (i = 1; i <= n; i++) number[q[2], substr(ps[i], 3)] = i
    entry = ""
    next
}
kind == "header" && /^    SQLOCK_OUT_[A-Z]+ = [0-9]+/ {
    name = $1; sub(/^SQLOCK_OUT_/, "", name)
    outcome[name] = macro[name] = $3 + 0
}
kind == "header" { next }

# {columns}, {keys} and {tables} stand for a SELECT of what tables.sql lists.
kind == "tables" && /^CREATE TABLE .*\{[a-z]+\} \($/ {
    table = $0; sub(/\} \($/, "", table); sub(/.*\{/, "", table)
    tables[++n_tables] = table; checks[table] = 0
    next
}
kind == "tables" && /^\)/ { table = "" }
kind == "tables" && table != "" {
    line = $0; sub(/--.*/, "", line); checks[table] += gsub(/CHECK \(/, "", line)
}
kind == "tables" && table != "" && /^    [a-z_]+ / {
    line = $0; sub(/--.*/, "", line); type = $2; sub(/[(,].*/, "", type)
    column[++n_columns] = table; column_name[n_columns] = $1; column_type[n_columns] = type
    column_must[n_columns] = line ~ /NOT NULL|PRIMARY KEY/ ? 1 : 0
    place[table, $1] = line ~ /PRIMARY KEY/ ? 1 : 0
}
kind == "tables" && /^    ended_why / { line = $0; sub(/.*--/, "", line); name_ends(line) }
kind == "tables" && table != "" && /^    PRIMARY KEY \(/ {
    keys = $0; sub(/.*\(/, "", keys); sub(/\).*/, "", keys); n = split(keys, key, ", ")
    for (i = 1; i <= n; i++) place[table, key[i]] = i
}
kind == "tables" && table != "" && /^    UNIQUE KEY [a-z]+ \(/ {
    keys = $0; sub(/.*\(/, "", keys); sub(/\).*/, "", keys); gsub(/ DESC| /, "", keys)
    key_table[++n_keys] = table; key_name[n_keys] = $3; key_columns[n_keys] = keys
}
kind == "tables" { next }
function all_tables(    i, out) {
    for (i = 1; i <= n_tables; i++)
        out = out (i > 1 ? " UNION ALL SELECT '" : "SELECT '") tables[i] (i > 1 ? "', " : "' AS tab, ") \
            checks[tables[i]] (i > 1 ? "" : " AS checks")
    return out
}
function unique_keys(    i, out) {
    for (i = 1; i <= n_keys; i++)
        out = out (i > 1 ? " UNION ALL SELECT '" : "SELECT '") key_table[i] (i > 1 ? "', '" : "' AS tab, '") \
            key_name[i] (i > 1 ? "', '" : "' AS name, '") key_columns[i] (i > 1 ? "'" : "' AS cols")
    return out
}
function columns(    i, out) {
    for (i = 1; i <= n_columns; i++) {
        if (!since[column[i]]) die("no migration makes the table " column[i])
        out = out (i > 1 ? "\n    UNION ALL SELECT " : "SELECT ") \
            i (i > 1 ? "" : " AS pos") ", '" column[i] (i > 1 ? "'" : "' AS tab") ", '" \
            column_name[i] (i > 1 ? "'" : "' AS col") ", '" column_type[i] (i > 1 ? "'" : "' AS type") ", " \
            column_must[i] (i > 1 ? "" : " AS must") ", " place[column[i], column_name[i]] (i > 1 ? "" : " AS pk") \
            ", " since[column[i]] (i > 1 ? "" : " AS since")
    }
    return out
}

kind == "statements" && /^-- :define / { m = $3; v = $0; sub(/^-- :define [a-z_]+ /, "", v); if (ours || !(m in macro)) macro[m] = v; next }
kind == "statements" && ours && /^-- :block / {
    end_step(); block = $3
    if (!(block in ids)) die("there is no block " block)
    if ($4 != "before") instead[block]
    next
}
kind == "statements" && /^-- :lacks / {
    for (i = 3; i <= NF; i++) {
        if (!($i in ids)) die("there is no block " $i)
        lacks[$i]
    }
    next
}
function skip_lacks() { while (seen < n_blocks && (blocks[seen + 1] in lacks)) seen++ }
kind == "statements" && /^-- :block / {
    end_step(); block = $3
    if (block in lacks) die("block " block " is also in :lacks")
    skip_lacks()
    if (block != blocks[++seen]) die(block in ids ? "block " block " where " blocks[seen] " belongs (the order of request.h)" : "block " block " is not in SQLOCK_STMTS (include/sqlock/request.h)")
    next
}
kind == "statements" && !ours && (block in instead) { next }
function step_flags(    i, out) {
    for (i = 3; i <= NF && $i != "same"; i++) {
        if ($i == "beside" && list == "steps") { beside[block] = count[block, list] + 1; continue }
        if ($i == "gives" && $(i + 1) !~ /^now$/) die("gives what?")
        if ($i ~ /^with(out)?$/ && !((block, $(i + 1)) in number)) die($i " what?")
        if ($i !~ /^(write|durable|aside|look|nowait|often|gives|first|crowded|with|without)$/) die("what is " $i "?")
        out = out (out == "" ? "" : " | ") ($i == "look" ? "SQLOCK_STEP_ASIDE | " : "") \
            "SQLOCK_STEP_" ($i == "gives" ? "GIVES_" toupper($(++i)) : toupper($i))
        if ($i ~ /^with(out)?$/) out = out " | " (number[block, $(++i)] - 1) " << SQLOCK_STEP_PARAM_SHIFT"
    }
    return out == "" ? "0" : out
}
kind == "statements" && /^-- :(step|array)/ {
    end_step(); list = $2 == ":array" ? "array_steps" : "steps"
    step_flag = step_flags()
    same = $3 == "same" ? $4 : 0
    next
}
kind == "statements" && /^--/ { next }
kind == "statements" { if (list != "") sql = sql (sql == "" ? "" : "\n") $0; else if (trim($0) != "") die("text outside a step"); next }

kind == "migration" && direction == "up" && /^CREATE TABLE .*\{[a-z]+\} \($/ {
    table = $0; sub(/\} \($/, "", table); sub(/.*\{/, "", table)
    if (!since[table]) since[table] = version
}
kind == "migration" {
    if (pending == "" && (/^--/ || trim($0) == "")) next
    pending = pending (pending == "" ? "" : "\n") $0
    if (/;$/) { sub(/;$/, "", pending); statement[version, direction, ++statements[version, direction]] = pending; pending = "" }
}

END {
    if (failed) exit 1
    if (pending != "") die("the file ends within a statement")
    end_step()
    skip_lacks()
    if (seen != n_blocks) { print dialect "/statements.sql: block " blocks[seen + 1] " is missing" > "/dev/stderr"; exit 1 }
    if (!n_columns && !("migrate_differ" in lacks)) { print dialect ": tables.sql has no tables" > "/dev/stderr"; exit 1 }
    macro["columns"] = columns()
    macro["tables"] = all_tables()
    macro["keys"] = unique_keys()
    if (!versions) { print dialect ": no migrations" > "/dev/stderr"; exit 1 }
    print "/* Made by schema/embed.awk from schema/" dialect " and migrations/" dialect "; not for editing. */"
    print "#include <sqlock/driver.h>\n"
    for (b = 1; b <= n_blocks; b++) {
        print_steps(blocks[b], blocks[b], "steps"); print_steps(blocks[b], blocks[b], "array_steps")
    }
    printf "\nstatic const sqlock_script scripts[SQLOCK_STMT_COUNT] = {\n"
    for (b = 1; b <= n_blocks; b++) {
        bl = blocks[b]
        printf "    [SQLOCK_STMT_%s] = {\"%s\", \"%s\", %d, %d, %d,\n     %s, %d, %s, %s},\n", ids[bl], bl, params[bl],
            n_params[bl], count[bl, "steps"] + 0, count[bl, "array_steps"] + 0, flags_of[bl],
            beside[bl], count[bl, "steps"] ? bl "_steps" : "NULL",
            count[bl, "array_steps"] ? bl "_array_steps" : "NULL"
    }
    print "};\n"
    dirs["up"]; dirs["down"]
    for (v = 1; v <= versions; v++) {
        if (!((v, "up") in statements) || !((v, "down") in statements)) {
            print dialect ": migration " v " needs an up and a down file" > "/dev/stderr"; exit 1 }
        print_migration(v)
    }
    print "\nstatic const sqlock_migration migrations[] = {"
    for (v = 1; v <= versions; v++)
        printf "    {%d, \"%s\", \"%s\", migration_%d_up, %d, migration_%d_down, %d},\n", v, title[v], sum[v],
            v, statements[v, "up"], v, statements[v, "down"]
    print "};\n"
    printf "extern const sqlock_dialect sqlock_%s_dialect;\n", dialect
    printf "const sqlock_dialect sqlock_%s_dialect = {\n    sizeof(sqlock_dialect), \"%s\", '%s', \"%s\", %d, scripts, migrations,\n    sizeof migrations / sizeof *migrations, SQLOCK_STMT_COUNT, '%s'};\n",
        dialect, dialect, quote, schema, fixed_schema, substr(style, 1, 1)
}
