#include "cli/base/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/say.h"
#include "cli/exits.h"

struct kind {
    const char *name;
    const char *schemes[3];
    const char *entry;
};

static const struct kind kinds[] = {
    {"postgres", {"postgres", "postgresql", NULL}, "sqlock_driver_postgres"},
    {"sqlite", {"sqlite", NULL, NULL}, "sqlock_driver_sqlite"},
    {"mysql", {"mysql", "mariadb", NULL}, "sqlock_driver_mysql"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int driver_load(const struct kind *kind, const sqlock_driver **out)
{
    const sqlock_driver *(*driver)(void);
    char soname[64];
    void *library, *entry;

    snprintf(soname, sizeof soname, "libsqlock-%s.so.%d", kind->name, SQLOCK_VERSION_MAJOR);
    /* Never closed: the driver's code is needed until the process ends. */
    library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    entry = library != NULL ? dlsym(library, kind->entry) : NULL;
    if (entry == NULL) {
        say(SAY_ERROR, "cannot load the driver libsqlock-%s: %s; is it installed?", kind->name,
            dlerror());
        return EXIT_SETUP;
    }
    memcpy(&driver, &entry, sizeof entry);
    *out = driver();
    return 0;
}

/* Find a driver by one of its schemes. Its own name is one of them. */
static const struct kind *driver_find(const char *name, size_t len)
{
    for (size_t i = 0; i < KINDS; i++)
        for (const char *const *scheme = kinds[i].schemes; *scheme != NULL; scheme++)
            if (strlen(*scheme) == len && strncmp(name, *scheme, len) == 0)
                return &kinds[i];
    return NULL;
}

int driver_by_name(const char *name, const sqlock_driver **out)
{
    const struct kind *kind = driver_find(name, strlen(name));

    if (kind != NULL)
        return driver_load(kind, out);
    say(SAY_ERROR, "unknown driver \"%s\" (use postgres, sqlite or mysql)", name);
    return EXIT_USAGE;
}

int driver_for_url(const char *url, const sqlock_driver **out)
{
    size_t len = strcspn(url, ":");
    const struct kind *kind = url[len] == ':' ? driver_find(url, len) : NULL;

    if (kind != NULL)
        return driver_load(kind, out);
    /* Do not print the URL: it may be a password in the wrong place. */
    say(SAY_ERROR, "unknown kind of database URL (use postgres://, postgresql://, mysql://, "
                   "mariadb:// or sqlite:)");
    return EXIT_SETUP;
}
