#include <sqlock/admin.h>
#include <sqlock/async.h>
#include <sqlock/import.h>

#include "cli/base/grant.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/connect.h"
#include "cli/base/look.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/signals.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum {
    SETTLE_MS = 2000,
    SAY_US = 1000000,
    LOOK_US = 2000000,
    LOOK_AGAIN_MS = 10,
    PLACE_WORDS = 48,
    AGE_WORDS = 96,
    OLD_MS = 2000
};

/* ---- options --------------------------------------------------------------------------------- */

/* Put them one after the other into the label: a lock's row has room for nothing else. */
static void add_meta(struct options *o, struct grant_opts *g)
{
    const char *equals = strchr(o->value, '=');
    size_t used = strlen(g->label), room = GRANT_LABEL - used;

    if (equals == NULL || equals == o->value) {
        options_refuse(o->cli, "invalid -m \"%s\" (use KEY=VALUE)", o->value);
        o->wrong = true;
    } else if ((size_t)snprintf(g->label + used, room, "%s%s", used > 0 ? " " : "", o->value) >=
               room) {
        options_refuse(o->cli, "-m %s: too long (128 bytes for all of them)", o->value);
        o->wrong = true;
    }
}

void grant_ttl(struct options *o, int32_t *out_ms)
{
    if (options_duration(o, out_ms) &&
        (*out_ms < SQLOCK_LEASE_MIN_MS || *out_ms > SQLOCK_LEASE_MAX_MS)) {
        options_refuse(o->cli, "invalid --ttl \"%s\" (use 100ms to 7d)", o->value);
        o->wrong = true;
    }
}

static void read_grace(struct options *o)
{
    if (options_duration(o, &o->cli->grace_ms) && o->cli->grace_ms > SQLOCK_LEASE_MAX_MS) {
        options_refuse(o->cli, "invalid --grace \"%s\" (use at most 7d)", o->value);
        o->wrong = true;
    }
}

static void read_actor(struct options *o, struct grant_opts *g)
{
    size_t len = strlen(o->value);

    if (len < 1 || len > SQLOCK_ACTOR_MAX) {
        options_refuse(o->cli, "invalid --actor (use 1 to %d bytes)", SQLOCK_ACTOR_MAX);
        o->wrong = true;
    }
    g->actor = o->value;
}

static void set_mode(struct options *o, struct grant_opts *g, int64_t mode)
{
    if (g->has_mode && g->mode != mode) {
        options_refuse(o->cli, g->mode > 0 && mode > 0 ? "--slots is there with two numbers"
                                                       : "use only one of -s, -x and --slots");
        o->wrong = true;
    }
    g->has_mode = true;
    g->mode = mode;
}

static void note_wait(struct options *o, struct grant_opts *g, int key)
{
    g->tries |= key == 'n';
    g->waits |= key == 'w';
    if (g->tries && g->waits) {
        options_refuse(o->cli, "use only one of -n and -w");
        o->wrong = true;
    }
}

bool grant_option(struct options *o, int key, struct grant_opts *g)
{
    int64_t slots = 0;

    switch (key) {
    case 'n':
        g->wait_ms = 0;
        note_wait(o, g, key);
        return true;
    case 'w':
        if (options_duration(o, &g->wait_ms))
            note_wait(o, g, key);
        return true;
    case GRANT_TTL:
        grant_ttl(o, &g->lease_ms);
        return true;
    case GRANT_GRACE:
        read_grace(o);
        return true;
    case 'm':
        add_meta(o, g);
        return true;
    case GRANT_ACTOR:
        read_actor(o, g);
        return true;
    case 'x':
        set_mode(o, g, SQLOCK_EXCLUSIVE);
        return true;
    case 's':
        set_mode(o, g, SQLOCK_SHARED);
        return true;
    case GRANT_SLOTS:
        if (options_number(o, 1, SQLOCK_SLOTS_MAX, &slots))
            set_mode(o, g, slots);
        return true;
    default:
        return false;
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static const char *place_words(char out[PLACE_WORDS], int64_t place)
{
    out[0] = '\0';
    if (place > 0)
        snprintf(out, PLACE_WORDS, ", place %lld in the queue", (long long)place);
    return out;
}

/* Only on a terminal, or with -v: a log has no use for it. */
static bool may_say_waiting(void)
{
    return !say_is_quiet() && (isatty(STDERR_FILENO) || say_is_loud());
}

static void line_print(struct grant_line *l, const char *holder)
{
    char words[PLACE_WORDS],
        *shown = may_say_waiting() ? shown_text(l->name, strlen(l->name)) : NULL;

    if (shown != NULL)
        say(SAY_NOTE, "waiting for \"%s\"%s%s; Ctrl-C to give up", shown, holder,
            place_words(words, sqlock_op_place(l->op)));
    free(shown);
    l->due_us = INT64_MAX;
}

void grant_line_begin(struct grant_line *l)
{
    l->looks = false;
    l->due_us = sqlock_now_us() + SAY_US;
}

int grant_line_fd(const struct grant_line *l)
{
    return l->looks && l->due_us != INT64_MAX ? look_fd() : -1;
}

int grant_line_limit_ms(const struct grant_line *l)
{
    int64_t left_us = l->due_us - sqlock_now_us();

    return l->due_us == INT64_MAX ? -1 : left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
}

void grant_line_step(struct grant_line *l, bool looked)
{
    if (looked)
        line_print(l, look_take());
    else if (sqlock_now_us() < l->due_us)
        return;
    else if (!l->looks && may_say_waiting() && look_start(l->m, l->names, l->n)) {
        l->looks = true;
        l->due_us += LOOK_US;
    } else {
        line_print(l, "");
    }
}

void grant_say_given_up(const char *name, int signal, int64_t waited_ms)
{
    char *shown = shown_text(name, strlen(name)), waited[TEXT_DURATION];

    if (shown != NULL)
        say(SAY_NOTE, "gave up waiting for \"%s\" after %s: %s", shown,
            text_span(waited, waited_ms), strsignal(signal));
    free(shown);
}

/* 1: the request is done; 0: something else came, *out_signal or other_fd. Without a descriptor it
 * looks again and again. */
static int wait_done(sqlock *m, const char *name, sqlock_op *op, struct signals *signals,
                     int other_fd, int *out_signal)
{
    struct grant_line line = {.m = m, .name = name, .names = &name, .n = 1, .op = op};
    struct pollfd fds[] = {{.fd = sqlock_op_fd(op), .events = POLLIN},
                           {.fd = signals->fd, .events = POLLIN},
                           {.fd = other_fd, .events = POLLIN},
                           {.fd = -1, .events = POLLIN}};

    grant_line_begin(&line);
    while (!sqlock_op_step(op)) {
        int n;

        fds[3].fd = grant_line_fd(&line);
        n = poll(fds, 4, fds[0].fd >= 0 ? grant_line_limit_ms(&line) : LOOK_AGAIN_MS);
        grant_line_step(&line, n > 0 && fds[3].revents != 0);
        if (n <= 0)
            continue;
        if ((*out_signal = signals_next(signals, NULL)) != 0 || fds[2].revents != 0)
            return 0;
    }
    return 1;
}

/* Find out what a reply said that was lost, or came after the end of the wait. */
static int grant_settle(int rc, sqlock_lock **lock, sqlock_error *err)
{
    sqlock_error answer = {0};

    if (rc != SQLOCK_EUNSURE)
        return rc;
    rc = sqlock_settle(*lock, SETTLE_MS, &answer);
    if (rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED && rc != SQLOCK_ELOST)
        return rc == 0 ? 0 : SQLOCK_EUNSURE; /* err still says what was lost */
    sqlock_lock_free(*lock);
    *lock = NULL;
    *err = answer;
    return rc;
}

int grant_take(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
               struct signals *signals, int other_fd, sqlock_lock **out_lock, int *out_signal,
               sqlock_error *err)
{
    int64_t begun = sqlock_now_us();
    sqlock_op *op = NULL;
    int rc, done;

    *out_signal = 0;
    *out_lock = NULL;
    if ((rc = sqlock_acquire_start(m, name, opts, &op, err)) != 0)
        return rc;
    if (!(done = wait_done(m, name, op, signals, other_fd, out_signal)))
        sqlock_op_cancel(op);
    rc = sqlock_op_finish(op, out_lock, err);
    if (done)
        return grant_settle(rc, out_lock, err);
    /* The lock may have been granted before the cancel: give it back, granted or unsure. */
    sqlock_scope_end(out_lock);
    if (*out_signal != 0)
        grant_say_given_up(name, *out_signal, (sqlock_now_us() - begun) / 1000);
    return SQLOCK_ECANCELLED;
}

int grant_read(const struct cli *cli, int n, char **operands, struct grant_id *out)
{
    if (n != 3 && n != 4)
        return options_refuse(cli,
                              "NAME, OWNER and TOKEN are needed, as 'sqlock acquire' printed them");
    out->name = operands[0];
    if (!text_owner_read(operands[1], out->owner))
        return options_refuse(cli, "invalid OWNER (use 32 hexadecimal digits)");
    if (!text_number(operands[2], 1, SQLOCK_TOKEN_MAX, &out->token))
        return options_refuse(cli, "invalid TOKEN (use the number that 'sqlock acquire' printed)");
    out->slot = -1;
    if (n == 4 && !text_number(operands[3], 0, INT32_MAX, &out->slot))
        return options_refuse(cli, "invalid SLOT (use the number that 'sqlock acquire' printed)");
    return 0;
}

int grant_import(sqlock *m, const struct grant_id *id, int32_t lease_ms, sqlock_lock **out_lock)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.lease_ms = lease_ms;
    opts.flags = SQLOCK_NO_RENEW;
    opts.slot = id->slot;
    rc = sqlock_import(m, id->name, id->owner, id->token, &opts, out_lock, &err);
    return rc != 0 ? fail_with(rc, &err) : 0;
}

struct seat_of {
    const struct grant_id *id;
    bool found;
};

static int seat_each(const sqlock_info *info, void *user)
{
    struct seat_of *s = user;

    if (strcmp(info->name, s->id->name) != 0)
        return 1;
    s->found = info->slot >= 0 && info->holder.token == s->id->token &&
               memcmp(info->owner, s->id->owner, sizeof info->owner) == 0;
    return s->found;
}

/* It is there, but as a shared holder's, or a slot's. */
static bool grant_has_seat(sqlock *m, const struct grant_id *id)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    struct seat_of s = {id, false};

    opts.prefix = id->name;
    return id->slot < 0 && sqlock_list(m, &opts, seat_each, &s, NULL) >= 0 && s.found;
}

int grant_failed(sqlock *m, const char *verb, const struct grant_id *id, sqlock_lock *lock, int rc,
                 const sqlock_error *err)
{
    char *shown = rc == SQLOCK_ELOST ? shown_text(id->name, strlen(id->name)) : NULL, slot[64] = "";

    if (shown == NULL)
        return fail_with(rc, err);
    if (grant_has_seat(m, id)) {
        say(SAY_ERROR,
            "%s: \"%s\" is shared, or has slots: SLOT is needed too, as 'sqlock acquire' "
            "printed it",
            verb, shown);
        free(shown);
        return EXIT_USAGE;
    }
    if (id->slot >= 0)
        snprintf(slot, sizeof slot, ", or is not in slot %lld", (long long)id->slot);
    say_code(SAY_ERROR, sqlock_code_name(rc), "%s: this grant of \"%s\" no longer exists%s (%s)",
             verb, shown, slot, sqlock_why_name(sqlock_lock_why(lock)));
    free(shown);
    return exit_of(rc);
}

/* ---- busy ------------------------------------------------------------------------------------ */

/* The options that lead to the same lock, without a URL's password. */
static void busy_where(char *out, size_t size, const struct cli *cli)
{
    const struct {
        const char *option, *value;
    } parts[] = {{"-U", cli->url_text},
                 {"--url-file", cli->url_file},
                 {"--local", cli->local ? "" : NULL},
                 {"--schema", cli->schema},
                 {"--prefix", cli->prefix},
                 {"--namespace", cli->ns},
                 {"--unprepared", cli->flags & SQLOCK_OPEN_UNPREPARED ? "" : NULL},
                 {"--accept-weak", cli->flags & SQLOCK_OPEN_ACCEPT_WEAK ? "" : NULL}};
    size_t used = 0;

    *out = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && used < size; i++) {
        char *value = parts[i].value != NULL ? shown_word(parts[i].value) : NULL;

        if (value != NULL)
            used += (size_t)snprintf(out + used, size - used, " %s%s%s", parts[i].option,
                                     *parts[i].value != '\0' ? " " : "",
                                     *parts[i].value != '\0' ? value : "");
        free(value);
    }
}

static void busy_who(char *out, size_t size, const char *label)
{
    const char *rest;
    char host[256];
    int64_t pid;

    if (text_label(label, &pid, host, &rest))
        snprintf(out, size, "host %s, pid %lld%s%s%s", host, (long long)pid, *rest ? " (" : "",
                 rest, *rest ? ")" : "");
    else
        snprintf(out, size, "%s", *label != '\0' ? label : "an unnamed holder");
}

/* The database went away while it was waited for. */
static const char *busy_age(char out[AGE_WORDS], const sqlock_holder *holder)
{
    char age[TEXT_DURATION];

    out[0] = '\0';
    if (holder->age_ms >= OLD_MS)
        snprintf(out, AGE_WORDS, ", as of %s ago: the database has not answered since",
                 text_span(age, holder->age_ms));
    return out;
}

bool grant_file_was_locked(const sqlock_error *err)
{
    return err->code == SQLOCK_EGUARDED && strcmp(err->sqlstate, "55P03") == 0;
}

/* No holder is known: the library says what makes it busy. */
static void busy_without_holder(const char *shown_name, const sqlock_error *err)
{
    sqlock_error shown = *err;

    error_for_shell(&shown);
    if (grant_file_was_locked(err))
        say_code(SAY_ERROR, sqlock_code_name(err->code), "%s is busy: %s (perhaps no one holds it)",
                 shown_name, shown.text);
    else
        say_code(SAY_NOTE, sqlock_code_name(err->code), "%s is busy: %s", shown_name, shown.text);
}

void grant_say_busy(const struct cli *cli, const char *name, const sqlock_holder *holder,
                    const sqlock_error *err)
{
    char moment[TEXT_MOMENT], held[TEXT_DURATION], left[TEXT_DURATION], place[PLACE_WORDS];
    char by[600], options[1024], token[32], age[AGE_WORDS];
    char *quoted = shown_word(name);

    busy_who(by, sizeof by, holder->label);
    /* A shell cuts newlines off the end of what $() gives: such a name cannot be copied. */
    if (err->code == SQLOCK_EBUSY && holder->token == 0 && *holder->label != '\0') {
        say_code(SAY_NOTE, sqlock_code_name(err->code),
                 "%s is busy: next is %s, which waits until the holders have released%s",
                 quoted != NULL ? quoted : name, by, place_words(place, holder->place));
    } else if (err->code == SQLOCK_EGUARDED || holder->token <= 0 || quoted == NULL ||
               (*name != '\0' && name[strlen(name) - 1] == '\n')) {
        busy_without_holder(quoted != NULL ? quoted : name, err);
    } else {
        busy_where(options, sizeof options, cli);
        snprintf(token, sizeof token, "--token %lld", (long long)holder->token);
        say_code(SAY_NOTE, sqlock_code_name(err->code),
                 "%s is busy: held by %s, since %s (%s), expires in %s, token %lld%s%s; if the "
                 "holder is dead: sqlock%s break %s%s%s",
                 quoted, by, text_moment_ago(moment, holder->held_ms),
                 text_span(held, holder->held_ms), text_span(left, holder->left_ms),
                 (long long)holder->token, place_words(place, holder->place), busy_age(age, holder),
                 options, *name == '-' ? token : quoted, *name == '-' ? " -- " : " ",
                 *name == '-' ? quoted : token);
    }
    free(quoted);
}
