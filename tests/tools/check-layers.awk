# Which layer may include what, and call what: prints every breach as FILE:LINE: text.
#   awk -f check-layers.awk core/base/clock.c ...      (paths from the root of the tree)

# The folders that a file of this one may open, its own included.
BEGIN {
    may["include/sqlock"] = ""
    may["core/base"] = "core/base"
    may["core/model"] = "core/base core/model"
    may["core/sql"] = may["core/base"] " core/sql"
    may["core/engine"] = may["core/model"] " core/sql core/engine"
    may["core/leases"] = may["core/engine"] " core/leases"
    may["core/schema"] = may["core/leases"] " core/schema"
    may["core/transaction"] = may["core/leases"] " core/transaction"
    # Recipes are clients, and so is the command: public headers, jansson, recipes and itself.
    may["recipes"] = "recipes"
    may["cli"] = "cli cli/base cli/reap cli/run recipes"
    may["cli/base"] = may["cli/reap"] = may["cli/run"] = may["cli"]
    client["fake"] = client["sqlite"] = "sqlite3\\.h"
    client["postgres"] = "libpq-fe\\.h|postgres_ext\\.h"
    client["mysql"] = "mysql\\.h|mysql/.*|ma_pvio\\.h|errmsg\\.h|mysqld_error\\.h|uriparser/.*"

    more["cli"] = more["cli/base"] = more["cli/reap"] = more["cli/run"] = \
        "^(dirent|fnmatch|getopt|jansson|wchar)\\.h$"
    more["drivers/sqlite"] = "^dirent\\.h$" # it looks through the descriptors of the process
    libc = "assert|ctype|dlfcn|endian|errno|fcntl|inttypes|limits|link|locale|math|netdb|poll|pthread"
    libc = libc "|sched|semaphore|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio"
    libc = libc "|stdlib|stdnoreturn|string|strings|time|ucontext|unistd|sanitizer/[a-z_]+|sys/[a-z_]+|netinet/[a-z]+|arpa/inet"
    libc = "^(" libc ")\\.h$"

    # The machine: core/base alone touches it, so that a simulation can take its place.
    calls = "clock_gettime|clock_nanosleep|nanosleep|usleep|sleep|gettimeofday|time|timerfd_[a-z]+"
    calls = calls "|getrandom|getentropy|random|rand|socket|socketpair|accept4?|pipe2?|poll|ppoll"
    calls = calls "|select|epoll_[a-z0-9]+|eventfd|pthread_create|pthread_cond_timedwait|thrd_create"
    calls = "(^|[^A-Za-z0-9_.>])(" calls ")[ \t]*\\("
}

function breach(text) { print FILENAME ":" FNR ": " text; n_breaches++ }
function word_of(list, word) { return index(" " list " ", " " word " ") > 0 }

function check_system(header,    name) {
    if (folder in more && header ~ more[folder]) return
    if (header ~ /^sqlock\//) {
        name = substr(header, 8)
        sub(/\.h$/, "", name)
        if (!(name in client) || name == driver) return # the others are for all
        breach("<" header "> belongs to another driver")
    } else if (header !~ libc && !(!public && driver in client && header ~ ("^(" client[driver] ")$")))
        breach("<" header "> is neither of libc nor " (public ? "public" : "this driver's client library"))
}

function check_own(header,    dir) {
    if (header ~ /\.\./) { breach("\"" header "\" climbs out of its folder"); return }
    if (header !~ /\//) return
    dir = header; sub(/\/[^\/]*$/, "", dir)
    if (driver != "" ? dir != folder : !word_of(may[folder], dir))
        breach("\"" header "\" is not below " folder)
}

# The line without comments and with empty strings; a comment may go on over lines.
function code_of(s,    out, c, two) {
    out = ""
    while (s != "") {
        two = substr(s, 1, 2); c = substr(s, 1, 1)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; s = substr(s, 3) } else s = substr(s, 2)
        } else if (two == "/*") { in_comment = 1; s = substr(s, 3) }
        else if (two == "//") s = ""
        else if (match(s, /^"([^"\\]|\\.)*"/) || match(s, /^'([^'\\]|\\.)*'/)) {
            out = out "\"\""; s = substr(s, RLENGTH + 1)
        } else { out = out c; s = substr(s, 2) }
    }
    return out
}

FNR == 1 {
    in_comment = 0; driver = ""; public = 0
    folder = FILENAME; sub(/\/[^\/]*$/, "", folder)
    if (folder ~ /^drivers\//) { driver = folder; sub(/^drivers\//, "", driver) }
    else if (folder == "include/sqlock") {
        # A driver's public header may name its own, never a client library.
        driver = FILENAME; sub(/.*\//, "", driver); sub(/\.h$/, "", driver); public = 1
    } else if (!(folder in may)) breach("no layer is called " folder)
}

/^[ \t]*#[ \t]*include[ \t]*</ { header = $0; sub(/^[^<]*</, "", header); sub(/>.*/, "", header); check_system(header) }
/^[ \t]*#[ \t]*include[ \t]*"/ { header = $0; sub(/^[^"]*"/, "", header); sub(/".*/, "", header); check_own(header) }
/^[ \t]*#[ \t]*include[ \t]*[^<" \t]/ { breach("a computed include cannot be checked") }

folder != "core/base" && folder !~ /^(cli|recipes)/ {
    code = code_of($0)
    # The fake database's clock is its server's, as a real server's would be.
    if (FILENAME == "drivers/fake/db.c") gsub(/clock_gettime/, "server_clock", code)
    # libpq has no call for a connection that only asks whether a server answers.
    if (FILENAME == "drivers/postgres/cancel.c") gsub(/socket\(/, "probe(", code)
    if (code ~ calls) breach("the machine is for core/base alone: " code)
    stmt = code; gsub(/SQLOCK_STMT_COUNT/, "", stmt)
    if (driver != "" && !public && stmt ~ /SQLOCK_STMT_[A-Z]/) breach("a driver knows requests by their scripts alone: " code)
    if (stmt ~ /([=!]=|case) *SQLOCK_STMT_[A-Z]/) breach("what a request is stands in SQLOCK_STMTS: " code)
}

END { exit n_breaches > 0 }
