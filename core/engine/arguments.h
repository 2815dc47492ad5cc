#ifndef SQLOCK_VERBS_CHECK_H
#define SQLOCK_VERBS_CHECK_H

#include <sqlock/admin.h>
#include <sqlock/retry.h>
#include <sqlock/rows.h>

#include "core/engine/manager.h"

/* Copy a caller's options over defaults: as many bytes as both sides know. NULL: defaults only. */
int check_open_opts(const sqlock_open_opts *in, sqlock_open_opts *out, sqlock_error *err);
int check_acquire_opts(const sqlock *m, const sqlock_acquire_opts *in, sqlock_acquire_opts *out,
                       sqlock_error *err);
int check_list_opts(const sqlock_list_opts *in, sqlock_list_opts *out, sqlock_error *err);
int check_row_opts(const sqlock_row_opts *in, sqlock_row_opts *out, sqlock_error *err);
/* A struct's size that the caller has set; `what` is said if not. */
int check_size(uint32_t size, const char *what, sqlock_error *err);
int check_reap_opts(const sqlock_reap_opts *in, sqlock_reap_opts *out, sqlock_error *err);
int check_retry_opts(const sqlock_retry_opts *in, sqlock_retry_opts *out, sqlock_error *err);

/* A driver that is whole and fits this library, and a URL (or a factory) that is for it. *out: its
 * table as far as this library knows it; what the driver does not have, or says that it cannot, is
 * NULL there. In driver.c. */
int check_driver(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                 sqlock_driver *out, sqlock_error *err);
/* The driver alone, for what needs no database. */
int check_table(const sqlock_driver *driver, sqlock_driver *out, sqlock_error *err);

/* That a name is allowed; its bytes into *out_len. */
int check_name(const char *name, size_t *out_len, sqlock_error *err);
/* A token that a grant can have. */
int check_token(int64_t token, sqlock_error *err);
int check_wait(int32_t wait_ms, sqlock_error *err);

/* A place for a request's handle, which is emptied: after a failure it holds none. */
int check_out_op(sqlock_op **out_op, const char *verb, sqlock_error *err);
/* This process opened it. */
int check_alive(const sqlock *m, sqlock_error *err);
int check_lock(const sqlock_lock *lock, sqlock_error *err);

/* Context for an error of a verb on a name: `acquire "nightly": ...`. Returns code. */
int check_context(sqlock_error *err, const char *verb, const char *name, size_t len, int code);

#endif
