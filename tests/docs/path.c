/* Which functions one acquire enters, in order: their addresses, for path.sh. The connection is
 * open, the lock is free, and no other thread wants anything. Core and the fake driver are made
 * once more for this, with calls of the functions below (-finstrument-functions). */
#include <sqlock/fake.h>
#include <stdio.h>

enum { PATH_MOST = 100000 };

static void *entered[PATH_MOST];
static int n_entered;
static _Thread_local int watched; /* the caller's thread alone, during the call */

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (watched && n_entered < PATH_MOST)
        entered[n_entered++] = function;
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function, (void)site;
}

static int take(sqlock *m, int watch, sqlock_error *err)
{
    sqlock_lock *lock = NULL;
    int rc;

    watched = watch;
    rc = sqlock_acquire(m, "nightly", NULL, &lock, err);
    watched = 0;
    if (rc == 0)
        rc = sqlock_release(lock, err);
    sqlock_lock_free(lock);
    return rc;
}

int main(void)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_fake *fake = sqlock_fake_new();
    sqlock_error err = {0};
    sqlock *m = NULL;
    int rc;

    opts.connect = sqlock_fake_connect;
    opts.connect_user = fake;
    if (fake == NULL || (rc = sqlock_open(sqlock_driver_fake(), NULL, &opts, &m, &err)) != 0 ||
        (rc = take(m, 0, &err)) != 0 || (rc = take(m, 1, &err)) != 0 || n_entered == PATH_MOST) {
        fprintf(stderr, "no acquire can be watched: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < n_entered; i++)
        printf("%p\n", entered[i]);
    sqlock_close(m);
    sqlock_fake_free(fake);
    return 0;
}
