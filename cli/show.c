/* sqlock show: all that is known about one lock, and who waits for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/admin.h>

#include "cli/base/connect.h"
#include "cli/base/info.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/text.h"
#include "cli/cli.h"

static const struct option_spec options[] = {{0, NULL, NULL, NULL}};

/* Those who hold it shared, or its slots, have rows of their own. */
struct seat_rows {
    const char *name;
    json_t *rows;       /* NULL: only look */
    bool any, any_runs; /* a row; one whose lease runs */
};

static const char *seats_state(const struct seat_rows *s, const sqlock_info *info)
{
    return s->any_runs ? "held" : s->any && !info->held ? "expired" : info_state(info);
}

static void print_words(const sqlock_info *info, const char *state)
{
    char held[TEXT_DURATION], left[TEXT_DURATION], moment[TEXT_MOMENT], owner[TEXT_OWNER];
    char *name = shown_cell(info->name, info->name_len, 0), *holder = info_holder(info);

    printf("name        %s\n", name != NULL ? name : "?");
    printf("state       %s\n", state);
    printf("last token  %lld\n", (long long)info->holder.token);
    if (info->held) {
        printf("holder      %s\n", holder != NULL ? holder : "?");
        printf("owner       %s\n", text_owner(owner, info->owner));
        printf("held since  %s (%s)\n", text_moment_ago(moment, info->holder.held_ms),
               text_span(held, info->holder.held_ms));
        if (info->holder.left_ms > 0)
            printf("expires in  %s\n", text_span(left, info->holder.left_ms));
        else
            printf("expired     %s ago\n", text_span(left, -info->holder.left_ms));
    }
    free(name);
    free(holder);
}

/* Who has a slot, or holds it shared. */
static int print_seat(const sqlock_info *info, void *user)
{
    const char *name = user;
    const int64_t left_ms = info->holder.left_ms;
    char held[TEXT_DURATION], left[TEXT_DURATION], moment[TEXT_MOMENT], seat[INFO_SEAT], *holder;

    if (strcmp(info->name, name) != 0)
        return 1; /* the seats stand behind their lock */
    if (info->slot < 0 || (holder = info_holder(info)) == NULL)
        return 0;
    printf("%-11s %s, token %lld, since %s (%s), ", info_seat(info, seat, sizeof seat),
           *holder != '\0' ? holder : "someone", (long long)info->holder.token,
           text_moment_ago(moment, info->holder.held_ms), text_span(held, info->holder.held_ms));
    printf("%s %s%s\n", left_ms > 0 ? "expires in" : "expired",
           text_span(left, left_ms > 0 ? left_ms : -left_ms), left_ms > 0 ? "" : " ago");
    free(holder);
    return ferror(stdout);
}

static int find_seat(const sqlock_info *info, void *user)
{
    struct seat_rows *s = user;

    if (strcmp(info->name, s->name) != 0)
        return 1;
    if (info->slot < 0)
        return 0;
    s->any = true;
    s->any_runs |= info->holder.left_ms > 0;
    return s->rows == NULL ? 0 : json_array_append_new(s->rows, info_json(info));
}

static int list_seats(sqlock *m, const char *name, sqlock_list_fn fn, void *user)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.prefix = name;
    rc = sqlock_list(m, &opts, fn, user, &err);
    return rc < 0 && err.code == rc ? fail_with(rc, &err) : 0;
}

static const char *waiter_word(const sqlock_waiter *waiter)
{
    return waiter->place == 0 ? "next" : waiter->place == 1 ? "queue" : "";
}

static int print_waiter(const sqlock_waiter *waiter, void *user)
{
    char moment[TEXT_MOMENT], waited[TEXT_DURATION], wants[INFO_SEAT],
        *label = waiter_label(waiter);

    (void)user;
    if (label != NULL)
        printf("%-11s %lld: %s, %s, since %s (%s)\n", waiter_word(waiter), (long long)waiter->place,
               *label != '\0' ? label : "someone", waiter_wants(waiter, wants, sizeof wants),
               text_moment_ago(moment, waiter->waited_ms), text_span(waited, waiter->waited_ms));
    free(label);
    return ferror(stdout);
}

static int add_waiter(const sqlock_waiter *waiter, void *user)
{
    json_t *row = waiter_json(waiter);

    json_object_del(row, "name");
    return json_array_append_new(user, row);
}

/* Where the database has no queue, there is none to show. A role without the right to read it sees
 * the lock all the same. *out_read: all of it was read. Returns 0, or the exit code. */
static int list_queue(sqlock *m, const char *name, sqlock_waiter_fn fn, void *user, bool *out_read)
{
    sqlock_error err = {0};
    int rc = sqlock_list_waiters(m, name, fn, user, &err);

    *out_read = rc == 0;
    if (rc >= 0 || rc == SQLOCK_EREFUSED)
        return 0;
    if (rc != SQLOCK_EDENIED)
        return fail_with(rc, &err);
    say_code(SAY_NOTE, sqlock_code_name(rc), "the queue is not shown: %s", err.text);
    return 0;
}

static int show_words(sqlock *m, const sqlock_info *info)
{
    struct seat_rows seats = {.name = info->name};
    bool read;
    int rc = list_seats(m, info->name, find_seat, &seats);

    if (rc != 0)
        return rc;
    print_words(info, seats_state(&seats, info));
    if ((rc = list_seats(m, info->name, print_seat, (void *)(uintptr_t)info->name)) != 0)
        return rc;
    rc = list_queue(m, info->name, print_waiter, NULL, &read);
    return rc != 0 ? rc : output_end();
}

static int show_json(sqlock *m, const sqlock_info *info)
{
    json_t *out = info_json(info), *queue = json_array();
    struct seat_rows seats = {.name = info->name, .rows = json_array()};
    bool read = false;
    int rc = list_seats(m, info->name, find_seat, &seats);

    if (rc == 0)
        rc = list_queue(m, info->name, add_waiter, queue, &read);
    if (rc == 0 && seats.any) {
        json_object_set_new(out, "state", json_string(seats_state(&seats, info)));
        json_object_set(out, "holders", seats.rows);
    }
    if (rc == 0 && read)
        json_object_set(out, "queue", queue);
    json_decref(seats.rows);
    json_decref(queue);
    if (rc == 0)
        return output_json(out);
    json_decref(out);
    return rc;
}

static int show_lock(const struct cli *cli, sqlock *m, const char *name)
{
    sqlock_info info = {.size = sizeof info};
    sqlock_error err = {0};
    int rc = sqlock_find(m, name, &info, &err);

    if (rc < 0)
        return fail_with(rc, &err);
    if (rc == SQLOCK_ABSENT) {
        say(SAY_NOTE, "no lock \"%s\"", name);
        return EXIT_NO;
    }
    return cli->json ? show_json(m, &info) : show_words(m, &info);
}

static int show_run(struct cli *cli, int argc, char **argv)
{
    struct options o;
    sqlock *m = NULL;
    int rc;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if (o.n != 1)
        return options_refuse(cli, "show needs one NAME");
    if ((rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = show_lock(cli, m, o.operands[0]);
    sqlock_close(m);
    return rc;
}

const struct command command_show = {
    .name = "show",
    .synopsis = "NAME",
    .summary = "show who holds a lock, its last token, and who waits",
    .help = "Exits with 1 if no lock of this name was ever taken. Of each one that waits: its\n"
            "place in the queue (0: next, when the holders have gone), who it is, since when,\n"
            "and for how long.\n",
    .options = options,
    .run = show_run,
};
