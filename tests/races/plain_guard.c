/* The guard as plain SQL, as schema/<dialect>/guard.sql gives it to applications in any language:
 * run as it stands there, with literals in the place of its parameters. */
#include "races.h"

#include <stdlib.h>

/* The file's statements: without comments, and {lock} in the place of the table's default name. */
static char *read_statements(const char *dialect)
{
    const char *root = getenv("SQLOCK_SOURCE_DIR");
    char path[4096], line[512], *out = NULL;
    size_t size = 0;
    FILE *file, *text = open_memstream(&out, &size);

    snprintf(path, sizeof path, "%s/schema/%s/guard.sql",
             root != NULL && *root != '\0' ? root : ".", dialect);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "--", 2) != 0)
            fputs(line, text);
    fclose(file);
    fclose(text);
    assert_true(size > 0);
    return out;
}

/* What is not in the text of one database is in the others'. */
static char *guard_for(const char *dialect, request r)
{
    char owner[40] = "'", token[32];
    const char *words[][2] = {{"public.", ""},   {"sqlock_lock", "{lock}"}, {":owner", owner},
                              {":token", token}, {":ttl", "400"},           {":name", "'job'"},
                              {":ns", "'app'"}};
    char *text = read_statements(dialect);
    for (int i = 0; i < 16; i++)
        snprintf(owner + 1 + 2 * i, 4, "%02x'", r.owner[i]);
    snprintf(token, sizeof token, "%lld", (long long)r.token);
    for (size_t i = 0; i < COUNT(words); i++) {
        int hits = 0;
        text = replaced(text, words[i][0], words[i][1], &hits);
        if (hits == 0 && strcmp(words[i][0], ":owner") && strcmp(words[i][0], ":ttl") &&
            strcmp(words[i][0], "public."))
            fail_msg("the guard has no %s", words[i][0]);
    }
    return text;
}

/* 0: all of its statements were run. */
static int guard(conn app, const char *dialect, request r)
{
    char *text = guard_for(dialect, r), *rest = text;
    int rc = 0;

    for (char *end; rc == 0 && (end = strchr(rest, ';')) != NULL; rest = end + 1) {
        *end = '\0';
        rc = try_run(app, rest);
    }
    free(text);
    return rc;
}

TEST(plain_guard_holds, ON_ALL)
{
    conn a = open_conn(), app = open_conn(), thief = open_conn();
    int one_writer = a.lite != NULL;
    const char *dialect = one_writer ? "sqlite" : a.pg != NULL ? "postgres" : "mysql";
    script renew = ours(SQLOCK_STMT_RENEW);
    request r = request_of('A', 400 * MS), t = request_of('T', 400 * MS);

    r.token = acquire(a, r).token;
    run(app, one_writer ? "BEGIN IMMEDIATE" : "BEGIN");
    assert_int_equal(guard(app, dialect, r), 0);
    if (one_writer)
        pause_ms(450);
    for (int i = 0; !one_writer && i < 20; i++)
        EXPECT(ask(a, &renew, &r), SQLOCK_OUT_DONE);
    if (one_writer)
        assert_string_equal(acquire(thief, t).error, "BUSY");
    else
        let_it_run_out(a), EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED);
    run(app, "COMMIT");
    EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);

    run(app, one_writer ? "BEGIN IMMEDIATE" : "BEGIN"); /* the lease is lost: it fails */
    assert_int_not_equal(guard(app, dialect, r), 0);
    run(app, "ROLLBACK");
}

TEST_MAIN_OF_RACES("plain_guard")
