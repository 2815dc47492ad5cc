/* The columns of answers; sqlock_rows_put_...() for a call whose answer may be lost. */
#include "fake.h"

void fake_put_int(struct fake_call *k, int64_t i)
{
    if (k->rows != NULL && k->full == 0)
        k->full = sqlock_rows_put_int(k->rows, i);
}

void fake_put_int_or_null(struct fake_call *k, int there, int64_t i)
{
    if (there)
        fake_put_int(k, i);
    else if (k->rows != NULL && k->full == 0)
        k->full = sqlock_rows_put_null(k->rows);
}

void fake_put_bytes_or_null(struct fake_call *k, int there, const void *data, size_t len)
{
    if (!there)
        fake_put_int_or_null(k, 0, 0);
    else if (k->rows != NULL && k->full == 0)
        k->full = sqlock_rows_put_bytes(k->rows, data, len);
}

void fake_start_row(struct fake_call *k, int outcome)
{
    if (k->rows != NULL && k->full == 0)
        k->full = sqlock_rows_add(k->rows, k->request);
    fake_put_int(k, 0);
    fake_put_int(k, outcome);
}

void fake_put_lease(struct fake_call *k, int outcome, const struct fake_state *s)
{
    fake_start_row(k, outcome);
    fake_put_int_or_null(k, s != NULL, s != NULL ? s->token : 0);
    fake_put_int_or_null(k, s != NULL && s->held, s != NULL ? s->exp - k->now : 0);
    fake_put_int(k, k->now);
}

void fake_put_holder(struct fake_call *k, const struct fake_state *s)
{
    fake_put_int_or_null(k, s->held, s->since);
    fake_put_bytes_or_null(k, s->has_label, s->label, s->label_len);
}
