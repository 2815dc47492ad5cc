#ifndef SQLOCK_ENGINE_ARGUMENTS_H
#define SQLOCK_ENGINE_ARGUMENTS_H

#include <sqlock/admin.h>
#include <sqlock/retry.h>
#include <sqlock/rows.h>

#include "core/engine/manager.h"

/* Copy a caller's options over the defaults: as many bytes as both sides know. NULL: only
 * defaults. */
int check_open_opts(const sqlock_open_opts *in, sqlock_open_opts *out, sqlock_error *err);
int check_acquire_opts(const sqlock *m, const sqlock_acquire_opts *in, sqlock_acquire_opts *out,
                       sqlock_error *err);
/* Who may hold a lock beside others. Of a list of names each has its own, of one name there is one.
 */
int check_mode(int64_t mode, sqlock_error *err);
int check_one_mode(const sqlock_acquire_opts *opts, sqlock_error *err);
int check_list_opts(const sqlock_list_opts *in, sqlock_list_opts *out, sqlock_error *err);
int check_row_opts(const sqlock_row_opts *in, sqlock_row_opts *out, sqlock_error *err);
/* The caller must have set a struct's size. `what` is the error's text if not. */
int check_size(uint32_t size, const char *what, sqlock_error *err);
int check_reap_opts(const sqlock_reap_opts *in, sqlock_reap_opts *out, sqlock_error *err);
int check_retry_opts(const sqlock_retry_opts *in, sqlock_retry_opts *out, sqlock_error *err);

/* The driver must be complete and fit this library, and the URL (or the factory) must be for it.
 * *out is the driver's table as far as this library knows it. A slot that the driver lacks, or says
 * it cannot use, is NULL there. In open.c. */
int check_driver(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                 sqlock_driver *out, sqlock_error *err);
/* Only the driver, for calls that need no database. */
int check_table(const sqlock_driver *driver, sqlock_driver *out, sqlock_error *err);

/* The name must be allowed. *out_len becomes its length in bytes. */
int check_name(const char *name, size_t *out_len, sqlock_error *err);
/* The token must be one that a grant can have. */
int check_token(int64_t token, sqlock_error *err);
int check_wait(int32_t wait_ms, sqlock_error *err);
/* NULL, or one of this process: what a parent made may never be fired here (SQLOCK_EFORK). */
int check_cancel(const sqlock_cancel *cancel, sqlock_error *err);

/* The caller must give a place for the request's handle. It is set to NULL, so that it is NULL
 * after a failure. */
int check_out_op(sqlock_op **out_op, const char *verb, sqlock_error *err);
/* This process must have opened the manager or the lock. */
int check_alive(const sqlock *m, sqlock_error *err);
int check_lock(const sqlock_lock *lock, sqlock_error *err);

/* Put context before the error of a verb: `acquire "nightly": ...`. Returns code. */
int check_context(sqlock_error *err, const char *verb, const char *name, size_t len, int code);

#endif
