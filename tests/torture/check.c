/* A history, one rule after the other. */
#include <stdlib.h>

#include "tests/torture/check_parts.h"

static bool judge(struct book *b)
{
    check_threads(b);
    check_tokens(b);
    check_spans(b);
    check_claims(b);
    return check_slots(b) && check_answers(b) && check_rows(b) && check_liveness(b);
}

int check_history(const struct check_rules *rules, const struct event *events, int64_t n,
                  struct check_verdict *out, FILE *say)
{
    struct book b = {.rules = rules, .events = events, .n = n, .out = out, .say = say};
    bool fine;

    *out = (struct check_verdict){0};
    fine = book_make(&b) && judge(&b);
    if (fine)
        check_load(&b);
    book_free(&b);
    if (!fine)
        return -1;
    return out->violations > 0;
}
