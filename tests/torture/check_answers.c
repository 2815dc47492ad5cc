/* Whether what was said of a grant can be true: yes when it was no more, lost without a cause, busy
 * with one that was over. */
#include <sqlock/sqlock.h>
#include <string.h>
#include <strings.h>

#include "tests/torture/check_parts.h"

/* An answer that was under way for so long may tell the time before the server's clock was stepped
 * back: to who has met the new time it looks like a step forward, which ends leases. */
#define OLD_ANSWER_US INT64_C(5000000)

/* It was asked for by whoever started the command, which is not the thread that noted it. */
static bool by_command(const struct event *e)
{
    return event_acquires(e) && e->value == 3;
}

/* A thread asks one thing at a time, and answers come after questions. Who breaks that is not
 * sqlock but those who write the history: nothing can be proved with it. */
void check_threads(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = b->by_thread[i], *last = i > 0 ? b->by_thread[i - 1] : e;
        bool same = e != last && last->process == e->process && last->thread == e->thread &&
                    !by_command(e) && !by_command(last);

        if (event_returned(e) && e->return_us < e->invoke_us)
            breach(b, RULE_HISTORY, e, NULL, "answered before it was asked");
        if (same && e->verb != V_FAULT && last->verb != V_FAULT && event_returned(last) &&
            last->return_us > e->invoke_us)
            breach(b, RULE_HISTORY, last, e, "one thread asked two things at a time");
    }
}

/* ---- yes ------------------------------------------------------------------------------------- */

/* What the database answers: it must know of all that was answered before it was asked, unless
 * commits were lost. */
static void judge_yes(struct book *b, const struct grant *g, const struct event *e)
{
    if (g->over_us < e->invoke_us && !forgotten_between(b, g->over, e->return_us))
        breach(b, RULE_STALE, g->over, e, "it had ended before it was asked for");
}

/* On MySQL a guard proves only that nobody was granted the name since: a grant that was broken
 * passes for so long (sqlock/transaction.h). */
static bool only_broken(const struct grant *g, const struct event *e)
{
    return e->verb == V_GUARDED && g->over && g->over->verb == V_BREAK &&
           !(g->rival && g->rival->return_us < e->invoke_us);
}

/* What was guarded was so until its commit, whatever became of the lease (P11). */
static void judge_guarded(struct book *b, const struct grant *g, const struct event *e)
{
    bool began = g->over_us >= e->invoke_us || only_broken(g, e);

    if (began && g->rival && g->rival->return_us < e->deadline_us)
        breach(b, RULE_GUARD, e, g->rival, "others were granted it before its commit");
}

/* What the library says by itself: it may not know of a break or of another grant yet. It knows of
 * its own release, and no renewal that was asked for afterwards can have moved the deadline. */
static void judge_held(struct book *b, const struct grant *g, const struct event *e)
{
    if (g->released_us < e->invoke_us)
        breach(b, RULE_STALE, g->told, e, "it was released, and said to be held");
    if (e->deadline_us <= e->invoke_us)
        breach(b, RULE_STALE, e, NULL, "it was said to be held after its deadline");
}

static void judge_deadline(struct book *b, const struct grant *g, const struct event *e)
{
    int64_t usable_us = lease_usable_us(b, e->process);

    if (e->deadline_us <= 0)
        breach(b, RULE_DEADLINE, e, NULL, "it has no deadline");
    if (usable_us == 0)
        return;
    if (e->deadline_us > e->return_us + usable_us)
        breach(b, RULE_DEADLINE, e, NULL, "it would be good for longer than it can be");
    if (e != g->told && g->over_us != NEVER && e->deadline_us > g->over_us + usable_us &&
        !forgotten_between(b, g->over, e->return_us))
        breach(b, RULE_STALE, g->over, e, "it had ended, and its deadline moved on after that");
}

/* If it says yes. */
static bool says_deadline(const struct event *e)
{
    return event_acquires(e) || e->verb == V_RENEW || e->verb == V_HELD ||
           (e->verb == V_SETTLE && e->value != SQLOCK_WHY_RELEASED);
}

static void judge_ok(struct book *b, const struct grant *g, const struct event *e)
{
    if (e->verb == V_RENEW || (e->verb == V_GUARDED && !only_broken(g, e)) ||
        (e->verb == V_SETTLE && e->value != SQLOCK_WHY_RELEASED))
        judge_yes(b, g, e);
    if (e->verb == V_GUARDED)
        judge_guarded(b, g, e);
    /* A release that is asked again says yes whoever has come since. Only the first one must have
     * found the grant. */
    if (e == g->release)
        judge_yes(b, g, e);
    if (e->verb == V_HELD)
        judge_held(b, g, e);
    if (!by_command(g->told) && says_deadline(e))
        judge_deadline(b, g, e);
}

/* ---- busy ------------------------------------------------------------------------------------ */

/* Who was told that a lock is busy was told by whom, and until when at the latest (P9). That is
 * what the row said, while the holder goes by what it was told itself: so each refusal looks at a
 * grant from the other side. It must be one that had not ended; and the row must not end before its
 * holder stops believing (P4), which is seen here without anybody who comes in too early. */

/* An answer that tells of a larger token than that of a grant of which nobody else tells, and of
 * one that ended it; or NULL. */
static const struct event *reported_above(const struct book *b, const struct event *e)
{
    int64_t i = book_at(b, e->name, e->token);
    const struct grant *g = i < b->n_grants ? &b->grants[i] : NULL;

    if (!g || g->name != e->name || kind_of(b, e->name).slots > 1)
        return NULL;
    if (g->shared)
        return g->rival;
    return g->next && g->next->return_us < g->start_us ? g->next : g->told;
}

/* InnoDB shows a commit to others before it is on the disk. A server that is killed in between
 * knows nothing of it when it is back, nor does the client, whose answer waited for the disk; and
 * the token is granted to another. */
static bool was_forgotten(const struct book *b, const struct grant *g, const struct event *e)
{
    return fault_between(&b->hurt, e->invoke_us, g->sent_us);
}

/* Whether a server that is killed may forget what it has answered a release. MariaDB and MySQL wait
 * for the disk, and what SQLite has written outlives its process. */
static bool forgets_releases(const struct book *b)
{
    const char *engine = b->rules->engine;

    return engine == NULL ||
           (strncasecmp(engine, "sqlite", 6) != 0 && strncmp(engine, "mariadb", 7) != 0 &&
            strncmp(engine, "mysql", 5) != 0);
}

/* A release does not wait for the disk. A server that is killed behind it may know nothing of it
 * when it is back: then the lock stands until its lease ends (P5). Who is granted the lock in its
 * place shows that it was released. Others may hold it beside it, with larger tokens. */
static bool was_undone(const struct book *b, const struct grant *g, const struct event *e)
{
    int64_t until_us = g->deadline_us + lease_usable_us(b, g->told->process);
    const struct event *after = g->shared || kind_of(b, g->name).slots > 1 ? g->rival : g->next;

    return forgets_releases(b) &&
           (g->over->verb == V_RELEASE ||
            (g->over->verb == V_SETTLE && g->over->value == SQLOCK_WHY_RELEASED)) &&
           !(after && after->return_us < e->invoke_us) && e->invoke_us <= until_us &&
           fault_between(&b->hurt, g->over->invoke_us, e->return_us);
}

static void judge_holder(struct book *b, const struct grant *g, const struct event *e)
{
    const struct event *above = g ? NULL : reported_above(b, e);

    if (above && side_of(b, above->process) != side_of(b, e->process))
        above = NULL; /* the servers do not know of each other's grants */
    if (g && g->over_us < e->invoke_us && !forgotten_between(b, g->over, e->return_us) &&
        !was_undone(b, g, e))
        breach(b, RULE_BUSY, g->over, e, "busy with one that had ended");
    else if (above && above->return_us < e->invoke_us && !forgotten_between(b, above, e->return_us))
        breach(b, RULE_BUSY, above, e, "busy with one before a later one");
    else if (g && g->sent_us > e->return_us && !was_forgotten(b, g, e))
        breach(b, RULE_BUSY, e, g->told, "busy with one that nobody had asked for");
}

static void judge_busy(struct book *b, const struct grant *g, const struct event *e,
                       int64_t deadline_us)
{
    if (e->token == 0)
        return;
    judge_holder(b, g, e);
    if (g && e->deadline_us > 0 && deadline_us > e->deadline_us &&
        !fault_between(&b->clock, g->sent_us, e->return_us) &&
        !fault_between(&b->lost, g->sent_us, e->return_us))
        breach(b, RULE_ROW, g->told, e, "the row ended before the deadline that its holder knew");
}

/* ---- lost ------------------------------------------------------------------------------------ */

/* The deadline that the holder of a grant had been told of when it asked. An answer that comes
 * while another thread's question is under way counts for the questions after it. */
struct known {
    int64_t deadline_us;
    int64_t later_us, later_reported_us; /* an answer that may count for the next question */
};

static int64_t known_deadline(struct known *k, int64_t sent_us)
{
    if (k->later_us > k->deadline_us && k->later_reported_us <= sent_us)
        k->deadline_us = k->later_us;
    return k->deadline_us;
}

static void learn(struct known *k, const struct event *e)
{
    known_deadline(k, e->invoke_us);
    k->later_us = e->deadline_us;
    k->later_reported_us = e->return_us;
}

static bool was_ours_to_end(const struct grant *g, const struct event *e)
{
    return (g->release && g->release != e && g->release->invoke_us <= e->return_us) ||
           ((e->verb == V_HELD || e->verb == V_SETTLE) &&
            (e->value == SQLOCK_WHY_CLOSED || e->value == SQLOCK_WHY_FORK ||
             e->value == SQLOCK_WHY_MAX_HOLD));
}

static bool was_broken(const struct grant *g, const struct event *e)
{
    return g->broken && g->broken->invoke_us <= e->return_us;
}

static void judge_reason(struct book *b, const struct grant *g, const struct event *e,
                         int64_t deadline_us)
{
    if (e->value == SQLOCK_WHY_BROKEN && !was_broken(g, e))
        breach(b, RULE_LOST, g->told, e, "said to be broken, by nobody");
    if (e->value == SQLOCK_WHY_RELEASED && !was_ours_to_end(g, e))
        breach(b, RULE_LOST, g->told, e, "said to be released, by nobody");
    if (e->value == SQLOCK_WHY_EXPIRED && e->return_us < deadline_us)
        breach(b, RULE_LOST, g->told, e, "said to have run out before its deadline");
}

static void judge_lost(struct book *b, const struct grant *g, const struct event *e,
                       int64_t deadline_us)
{
    if (fault_between(&b->hurt, g->sent_us, e->return_us) ||
        fault_between(&b->clock, g->sent_us - OLD_ANSWER_US, e->return_us))
        return;
    if (e->return_us < deadline_us && !was_ours_to_end(g, e) && !was_broken(g, e))
        breach(b, RULE_LOST, g->told, e, "lost before its deadline, neither released nor broken");
    else if (e->verb == V_HELD)
        judge_reason(b, g, e, deadline_us);
}

/* A write that is refused because others have the lock by then: what a fence is for. */
static void count_guarded(struct book *b, const struct grant *g, const struct event *e)
{
    if (e->verb == V_GUARDED && event_ok(e))
        b->out->guarded++;
    if (e->verb == V_GUARDED && event_returned(e) && e->outcome == SQLOCK_ELOST && g->rival &&
        g->rival->return_us < e->return_us)
        b->out->late_refused++;
}

static bool must_have_grant(const struct event *e)
{
    return event_ok(e) && e->token != 0 &&
           (e->verb == V_RENEW || e->verb == V_HELD || e->verb == V_GUARDED || e->verb == V_BEAT);
}

/* Of these, a loss says that the grant had ended. */
static bool is_about_grant(int verb)
{
    return verb == V_RENEW || verb == V_HELD || verb == V_RELEASE || verb == V_GUARDED ||
           verb == V_BREAK;
}

static void judge_answer(struct book *b, const struct event *e, struct known *known)
{
    const struct grant *g = b->grant_of[e - b->events];
    struct known *k = g ? &known[g - b->grants] : NULL;

    if (!g && must_have_grant(e))
        breach(b, RULE_STALE, e, NULL, "said to be held, and granted to nobody");
    if (event_refused(e))
        judge_busy(b, g, e, k ? known_deadline(k, e->invoke_us) : 0);
    if (!g || !event_returned(e))
        return;
    count_guarded(b, g, e);
    if (e->outcome == 0)
        judge_ok(b, g, e);
    if (e->outcome == SQLOCK_ELOST && is_about_grant(e->verb))
        judge_lost(b, g, e, known_deadline(k, e->invoke_us));
    if (e->outcome == 0 && says_deadline(e))
        learn(k, e);
}

void check_answers(struct book *b)
{
    struct known *known = book_new(b, b->n_grants, sizeof *known);

    for (int64_t i = 0; i < b->n; i++)
        judge_answer(b, &b->events[i], known);
}
