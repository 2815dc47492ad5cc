/* Errors: their names and sentences, and what the caller can do about a SQLSTATE. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/text.h"

const char *sqlock_strerror(int code)
{
    switch (code) {
    case SQLOCK_OK:
        return "no error";
#define TEXT_CASE(c, value, text)                                                                  \
    case c:                                                                                        \
        return text;
        SQLOCK_ERRORS(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "unknown error code";
    }
}

const char *sqlock_code_name(int code)
{
    switch (code) {
    case SQLOCK_OK:
        return "SQLOCK_OK";
#define NAME_CASE(c, value, text)                                                                  \
    case c:                                                                                        \
        return #c;
        SQLOCK_ERRORS(NAME_CASE)
#undef NAME_CASE
    default:
        return "SQLOCK_?";
    }
}

const char *sqlock_version(void)
{
    return SQLOCK_VERSION;
}

/* End a text that did not fit. A text of whole words that was cut here ends with the last word that
 * has room, and three dots. Any other text loses a half character at its end: a driver or a server
 * may have cut it there. */
static void error_cut_text(sqlock_error *err, int was_cut)
{
    const size_t last = sizeof err->text - sizeof " ...", longest = 32;

    for (size_t i = last; was_cut && i > last - longest; i--)
        if (err->text[i] == ' ') {
            memcpy(err->text + i, " ...", sizeof " ...");
            return;
        }
    err->text[text_whole(err->text, strlen(err->text))] = '\0';
}

void error_clear(sqlock_error *err)
{
    err->code = 0;
    err->flags = 0;
    err->native = 0;
    err->sqlstate[0] = err->text[0] = '\0';
}

int error_set_list(sqlock_error *err, int code, unsigned flags, const char *fmt, va_list ap)
{
    int len;

    if (err == NULL)
        return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    err->flags = flags;
    len = vsnprintf(err->text, sizeof err->text, fmt, ap);
    error_cut_text(err, len >= (int)sizeof err->text);
    return code;
}

int sqlock_error_set(sqlock_error *err, int code, unsigned flags, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_set_list(err, code, flags, fmt, ap);
    va_end(ap);
    return code;
}

struct error_text {
    int refs; /* one for each error that has it */
    char text[];
};

void error_forget(struct kept_error *kept)
{
    if (kept->text != NULL && --kept->text->refs == 0)
        sqlock_mem_free(kept->text);
    memset(kept, 0, sizeof *kept);
}

void error_keep(struct kept_error *kept, const sqlock_error *err)
{
    size_t size = strlen(err->text) + 1;
    struct error_text *text = sqlock_mem_alloc(sizeof *text + size);

    if (text != NULL) {
        text->refs = 1;
        memcpy(text->text, err->text, size);
    }
    error_forget(kept);
    kept->code = err->code;
    kept->flags = err->flags;
    kept->native = err->native;
    memcpy(kept->sqlstate, err->sqlstate, sizeof kept->sqlstate);
    kept->text = text;
}

void error_share(struct kept_error *kept, const struct kept_error *from)
{
    if (from->text != NULL)
        from->text->refs++;
    error_forget(kept);
    *kept = *from;
}

const char *error_text(const struct kept_error *kept)
{
    return kept->text != NULL ? kept->text->text
           : kept->code != 0  ? sqlock_strerror(kept->code)
                              : "";
}

void error_recall(const struct kept_error *kept, sqlock_error *err)
{
    const char *text = error_text(kept);

    if (err == NULL)
        return;
    memset(err, 0, sizeof *err);
    err->code = kept->code;
    err->flags = kept->flags;
    err->native = kept->native;
    memcpy(err->sqlstate, kept->sqlstate, sizeof err->sqlstate);
    memcpy(err->text, text, strlen(text) + 1);
}

/* What to do about a SQLSTATE. The first entry that the SQLSTATE begins with decides. Drivers of
 * databases without SQLSTATEs use the nearest one. */
static const struct state_class {
    const char *state;
    int code;
    unsigned flags;
} state_classes[] = {
    {"08", SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT}, /* connection failed */
    {"25006", SQLOCK_EREADONLY, 0},                           /* read-only transaction */
    {"25P02", SQLOCK_EDB, SQLOCK_RECONNECT},                  /* in a failed transaction */
    {"26000", SQLOCK_EDB, SQLOCK_RETRY | SQLOCK_RECONNECT},   /* prepared statement lost */
    {"28", SQLOCK_EDENIED, SQLOCK_RECONNECT},                 /* login */
    {"3D000", SQLOCK_EUNREACH, SQLOCK_RECONNECT},             /* no such database */
    {"3F000", SQLOCK_ESCHEMA, 0},                             /* no such schema */
    {"40", SQLOCK_EDB, SQLOCK_RETRY},                         /* deadlock, serialization failure */
    {"42501", SQLOCK_EDENIED, 0},                             /* missing privilege */
    {"42P01", SQLOCK_ESCHEMA, 0},                             /* no such table */
    {"42703", SQLOCK_ESCHEMA, 0},                             /* no such column */
    {"53100", SQLOCK_EFULL, SQLOCK_RETRY},                    /* disk full */
    {"53200", SQLOCK_ENOMEM, SQLOCK_RETRY},
    {"53300", SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT}, /* too many connections */
    {"55000", SQLOCK_EREADONLY, 0},                              /* not possible during recovery */
    {"55P03", SQLOCK_EDB, SQLOCK_RETRY},                         /* row or file is locked */
    {"57014", SQLOCK_EDB, SQLOCK_RETRY}, /* cancelled, or a time limit of the server */
    {"57P", SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT}, /* the server stops or starts */
    {"58030", SQLOCK_EFULL, SQLOCK_RETRY},                     /* input or output failed */
    {"XX001", SQLOCK_ECORRUPT, 0},
    {"XX002", SQLOCK_ECORRUPT, 0},
};

static const struct state_class *state_class_of(const char *sqlstate)
{
    static const struct state_class other = {"", SQLOCK_EDB, 0};

    for (size_t i = 0; i < sizeof state_classes / sizeof *state_classes; i++) {
        const char *state = state_classes[i].state;

        if (strncmp(sqlstate, state, strlen(state)) == 0)
            return &state_classes[i];
    }
    return &other;
}

int sqlock_error_db(sqlock_error *err, const char *sqlstate, long native, unsigned flags,
                    const char *text)
{
    const struct state_class *class = state_class_of(sqlstate);

    sqlock_error_set(err, class->code, class->flags | flags, "%s", text);
    if (err != NULL) {
        snprintf(err->sqlstate, sizeof err->sqlstate, "%.5s", sqlstate);
        err->native = native;
    }
    return class->code;
}

void error_prefix(sqlock_error *err, const char *fmt, ...)
{
    char context[sizeof err->text], whole[sizeof err->text * 2 + 4];
    va_list ap;
    int len;

    if (err == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    len = snprintf(whole, sizeof whole, "%s: %s", context, err->text);
    whole[sizeof err->text - 1] = '\0';
    memcpy(err->text, whole, sizeof err->text);
    error_cut_text(err, len >= (int)sizeof err->text);
}

int error_nomem(sqlock_error *err)
{
    return sqlock_error_set(err, SQLOCK_ENOMEM, SQLOCK_RETRY, "out of memory");
}

int error_give(sqlock_error *err, const sqlock_error *from)
{
    assert(err != from);
    if (err != NULL && from->code != 0)
        *err = *from;
    return from->code;
}

int error_give_elsewhere(sqlock_error *err, const sqlock_error *from)
{
    error_give(err, from);
    if (err != NULL && from->code != 0)
        err->flags = from->flags & SQLOCK_RETRY;
    return from->code;
}

int error_contention(int32_t *code, const char *sqlstate, int one_writer)
{
    const int waited = strcmp(sqlstate, "55P03") == 0; /* too long for a lock */
    const int victim = strcmp(sqlstate, "40P01") == 0; /* chosen to end a deadlock */
    const int locked = *code == SQLOCK_EDB && (waited || victim);

    if (locked)
        *code = one_writer ? SQLOCK_EGUARDED : SQLOCK_ETIMEOUT;
    return locked;
}
