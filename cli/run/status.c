#include "cli/run/status.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/plan.h"

int status_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

/* null: it has none, or it was not held. */
static json_t *token_of(const struct outcome *o, int i)
{
    return i < o->n_tokens ? json_integer(o->tokens[i]) : json_null();
}

static json_t *slot_of(const struct outcome *o, int i)
{
    return i < o->n_tokens && o->slots[i] >= 0 ? json_integer(o->slots[i]) : json_null();
}

/* Of several locks: {"NAME": VALUE, ...}. */
static json_t *of_all(const struct plan *plan, const struct outcome *o,
                      json_t *(*value_of)(const struct outcome *, int))
{
    json_t *all = json_object();

    for (int i = 0; i < o->n_tokens; i++) {
        const char *name = plan->names[i].text;
        json_t *text = json_text(name, strlen(name));

        json_object_set_new(all, json_string_value(text), value_of(o, i));
        json_decref(text);
    }
    return all;
}

static char *as_line(const struct plan *plan, const struct outcome *o)
{
    bool signalled = o->has_child && WIFSIGNALED(o->child_status);
    json_t *json =
        json_pack("{s:o, s:s, s:i, s:o, s:o, s:I, s:I, s:o, s:o}", "name",
                  json_text(plan->names[0].text, strlen(plan->names[0].text)), "outcome", o->word,
                  "exit", o->exit, "child_status",
                  o->has_child ? json_integer(status_code(o->child_status)) : json_null(),
                  "child_signal", signalled ? json_integer(WTERMSIG(o->child_status)) : json_null(),
                  "waited_ms", (json_int_t)(o->waited_us / 1000), "held_ms",
                  (json_int_t)(o->held_us / 1000), "token", token_of(o, 0), "slot", slot_of(o, 0));
    char *text;

    if (plan->n_names > 1) {
        json_object_set_new(json, "tokens", of_all(plan, o, token_of));
        json_object_set_new(json, "slots", of_all(plan, o, slot_of));
    }
    text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

void status_write(const struct plan *plan, const struct outcome *outcome)
{
    char *text;

    if (plan->status_fd < 0)
        return;
    text = as_line(plan, outcome);
    if (text == NULL || dprintf(plan->status_fd, "%s\n", text) < 0)
        say(SAY_ERROR, "--status-fd: %s", text == NULL ? "out of memory" : strerror(errno));
    free(text);
}
