/* More than one request, perhaps of several kinds, in one packet and one transaction. Rows that
 * have come count only after the answer to its COMMIT. Few requests are their single statements,
 * which the session keeps. Of many, those of a kind are one statement. */
#include <string.h>

#include "mysql.h"

struct groups {
    sqlock_group of[MY_GROUPS_MAX];
    size_t n;
};

static const sqlock_script *group_script(const struct my_conn *c, const sqlock_group *group)
{
    return &c->scripts[group->stmt];
}

static int groups_leave_doubt(const struct my_conn *c, const struct groups *all, size_t n)
{
    int doubt = 0;

    for (size_t i = 0; i < n; i++)
        doubt |= SQLOCK_LEAVES_DOUBT(group_script(c, &all->of[i])->flags) != 0;
    return doubt;
}

static int groups_fail_unanswered(struct my_conn *c, const struct my_call *call)
{
    c->broken = 1;
    return sqlock_error_set(call->err, SQLOCK_EDB, SQLOCK_RECONNECT | SQLOCK_MAYBE,
                            "the server did not answer each statement of a transaction");
}

/* Of a transaction that failed before its COMMIT, nothing is left. The server may have ended it
 * with the failure (a deadlock, innodb_rollback_on_timeout); its answer does not say. */
int my_roll_back(struct my_conn *c, const struct my_call *failed)
{
    sqlock_error ignored;
    struct my_call call = {.deadline = failed->deadline, .err = &ignored};
    int pauses = c->pauses, rc;

    c->pauses = 0;
    rc = my_query_all(c, &call, "ROLLBACK", strlen("ROLLBACK"));
    c->pauses = pauses;
    if (rc != 0) { /* then the connection's end does it */
        c->broken = 1;
        failed->err->flags |= SQLOCK_RECONNECT;
    }
    return rc;
}

/* The transaction is sent, and rolled back if it fails. text is freed, or kept for after a pause.
 * *out_began is 0 if not even what stands before the transaction was done. */
static int groups_send(struct my_conn *c, struct my_call *call, char *text, size_t len,
                       int *out_began)
{
    int rc;

    c->at.text = NULL;
    *out_began = 0;
    if (text == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the statements");
    call->rolls_back = 1;
    rc = my_query_all(c, call, text, len);
    call->rolls_back = 0;
    if (rc == SQLOCK_NOT_YET) {
        c->at.text = text;
        return rc;
    }
    if (rc == SQLOCK_EDB && !c->broken)
        my_roll_back(c, call);
    *out_began = rc == 0 || strncmp(call->at, "PREPARE ", 8) != 0;
    sqlock_mem_free(text);
    return rc;
}

/* ---- few ------------------------------------------------------------------------------------- */

#define FEW          8  /* statements: of more, one for all costs the server less */
#define RUNS_WITHOUT 16 /* where few were in trouble, such as for names that others hold */
#define TRY_MANY     2

static size_t step_statements(const sqlock_step *step)
{
    const char *at = step->sql;
    size_t n = 1;

    while ((at = my_next_statement(at)) != NULL)
        n++;
    return n;
}

/* Each is decided by the first step of its script, which waits for no row. */
static int groups_are_few(const struct my_conn *c, const struct groups *all)
{
    size_t n = 0;

    if (!c->waits_not || c->few_rest > 0)
        return 0;
    for (size_t i = 0; i < all->n; i++) {
        const sqlock_script *s = group_script(c, &all->of[i]);

        if (s->n_array_steps == 0 || !my_step_is_kept(c, s->steps, 0))
            return 0;
        n += all->of[i].n * step_statements(s->steps);
    }
    return n <= FEW;
}

struct few {
    struct my_part parts[FEW];
    char names[MY_GROUPS_MAX][MY_NAME_SIZE];
    size_t n, kept; /* so many are to be kept first */
};

static void few_plan(const struct my_conn *c, const struct groups *all, struct few *few)
{
    few->n = few->kept = 0;
    for (size_t i = 0; i < all->n; i++) {
        const sqlock_group *group = &all->of[i];
        const sqlock_script *s = group_script(c, group);
        int keep = !(c->kept[group->stmt] & 1u);

        my_step_name(c, s, 0, few->names[i]);
        for (size_t r = 0; r < group->n; r++)
            few->parts[few->n++] =
                (struct my_part){s->steps,
                                 {group->values + r * s->n_params, s->n_params, 1, NULL},
                                 few->names[i],
                                 keep && r == 0};
        few->kept += keep ? step_statements(s->steps) : 0;
    }
}

static int few_take(struct my_conn *c, const struct my_call *call, const struct few *few,
                    sqlock_rows *rows)
{
    const struct my_results *got = &c->at.got;
    size_t at = few->kept + 1, before = sqlock_rows_count(rows);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < few->n; i++) {
        const sqlock_step *step = few->parts[i].step;
        size_t last = at + step_statements(step) - 1;

        if (last + 1 >= got->n)
            return groups_fail_unanswered(c, call);
        if (step->flags & SQLOCK_STEP_GIVES_NOW)
            rc = my_give(&got->of[at], rows, i);
        else if (got->of[last].rows != NULL)
            rc = my_take_rows(got->of[last].rows, rows, i);
        at = last + 1;
    }
    if (sqlock_rows_count(rows) - before < few->n)
        c->few_rest = RUNS_WITHOUT;
    if (rc == 0 && (at + 1 != got->n || (c->my->server_status & SERVER_STATUS_IN_TRANS)))
        return groups_fail_unanswered(c, call);
    return rc == 0 ? 0 : my_fail_rows(call, rc, call->applies ? SQLOCK_MAYBE : 0);
}

/* Nothing was done, because a statement could not be kept, was lost, or met a locked row. */
static int few_may_be_mended(const struct my_conn *c, const struct my_call *call, int began)
{
    return !c->broken && call->err->code == SQLOCK_EDB &&
           (!began || call->err->native == MY_NOT_KEPT ||
            strcmp(call->err->sqlstate, "55P03") == 0);
}

static int few_give_up(struct my_conn *c, const struct my_call *call, int began)
{
    if (!began || call->err->native == MY_NOT_KEPT)
        c->keeps = 0;
    c->few_rest = RUNS_WITHOUT;
    memset(call->err, 0, sizeof *call->err);
    return TRY_MANY;
}

static void few_note_kept(struct my_conn *c, const struct groups *all)
{
    for (size_t i = 0; i < all->n; i++)
        c->kept[all->of[i].stmt] |= 1u;
}

static int few_run(struct my_conn *c, struct my_call *call, const struct groups *all,
                   sqlock_rows *rows)
{
    struct few few;
    size_t len = 0;
    char *text = c->at.text;
    int rc, began;

    few_plan(c, all, &few);
    if (!c->under_way)
        text = my_text_together(few.parts, few.n, c->my, &len);
    rc = groups_send(c, call, text, len, &began);
    if (rc == SQLOCK_NOT_YET)
        return rc;
    if (began)
        few_note_kept(c, all);
    if (rc == 0)
        return few_take(c, call, &few, rows);
    return few_may_be_mended(c, call, began) ? few_give_up(c, call, began) : rc;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* The server can skip a locked row, which would delay the other kinds, and each kind is one
 * statement for many. (Breaks first write notes, which must be committed by then.) */
static int groups_go_together(const struct my_conn *c, const struct groups *all)
{
    int fit = c->skips_locked && all->n > 1;

    for (size_t i = 0; fit && i < all->n; i++)
        fit = group_script(c, &all->of[i])->n_array_steps == 1 && all->of[i].n <= MY_CHUNK;
    return fit;
}

static char *groups_text(struct my_conn *c, const struct groups *all, size_t *out_len)
{
    struct my_part parts[MY_GROUPS_MAX];

    for (size_t i = 0; i < all->n; i++) {
        const sqlock_group *group = &all->of[i];
        const sqlock_script *s = group_script(c, group);

        parts[i] =
            (struct my_part){s->array_steps, {group->values, s->n_params, group->n, NULL}, NULL, 0};
    }
    return my_text_together(parts, all->n, c->my, out_len);
}

static int groups_take(struct my_conn *c, const struct my_call *call, const struct groups *all,
                       sqlock_rows *rows)
{
    const struct my_results *got = &c->at.got;
    size_t first = 0, group = 0;
    int rc = 0;

    if (got->with_rows != all->n || (c->my->server_status & SERVER_STATUS_IN_TRANS))
        return groups_fail_unanswered(c, call);
    for (size_t i = 0; rc == 0 && i < got->n; i++)
        if (got->of[i].rows != NULL) {
            rc = my_take_rows(got->of[i].rows, rows, first);
            first += all->of[group++].n;
        }
    return rc == 0 ? 0 : my_fail_rows(call, rc, call->applies ? SQLOCK_MAYBE : 0);
}

static int groups_run_together(struct my_conn *c, struct my_call *call, const struct groups *all,
                               sqlock_rows *rows)
{
    size_t len = 0;
    char *text = c->under_way ? c->at.text : groups_text(c, all, &len);
    int began, rc = groups_send(c, call, text, len, &began);

    return rc == 0 ? groups_take(c, call, all, rows) : rc;
}

static int groups_run_in_turns(struct my_conn *c, struct my_call *call, const struct groups *all,
                               sqlock_rows *rows)
{
    size_t first = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < all->n; first += all->of[i++].n) {
        if (c->under_way && i < c->at.group)
            continue;
        c->at.group = i;
        rc = my_run_group(c, call, &all->of[i], rows, first);
        if (rc < 0 && groups_leave_doubt(c, all, i)) /* those are committed */
            call->err->flags |= SQLOCK_MAYBE;
    }
    return rc;
}

static int groups_run_many(struct my_conn *c, struct my_call *call, const struct groups *all,
                           sqlock_rows *rows)
{
    if (!c->under_way && c->few_rest > 0)
        c->few_rest--;
    return groups_go_together(c, all) ? groups_run_together(c, call, all, rows)
                                      : groups_run_in_turns(c, call, all, rows);
}

int my_run_groups(struct my_conn *c, struct my_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows)
{
    struct groups all = {.n = 1 + more->n_more};
    size_t before = sqlock_rows_count(rows);
    int rc = TRY_MANY;

    if (all.n > MY_GROUPS_MAX)
        return sqlock_error_set(call->err, SQLOCK_EINVAL, 0, "too many kinds of requests");
    all.of[0] = *first;
    if (more->n_more > 0)
        memcpy(all.of + 1, more->more, more->n_more * sizeof *all.of);
    call->applies = groups_leave_doubt(c, &all, all.n);
    call->changes = 1;
    if (!c->under_way)
        c->at.few = groups_are_few(c, &all);
    if (c->at.few)
        rc = few_run(c, call, &all, rows);
    if (rc == TRY_MANY) {
        c->at.few = 0;
        call->applied = 0;
        rc = groups_run_many(c, call, &all, rows);
    }
    if (rc != SQLOCK_NOT_YET)
        my_results_free(&c->at.got);
    if (rc < 0 && (all.n > 1 || c->at.few))
        sqlock_rows_cut(rows, before);
    return rc;
}
