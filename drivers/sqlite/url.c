/* The path that a URL names, and the same as an absolute one. */
#include "sqlite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *lite_url_path(const char *url, sqlock_error *err)
{
    static const char scheme[] = "sqlite:";
    const char *path = NULL;
    const char *why = NULL;
    int code = SQLOCK_EINVAL;

    if (url == NULL || strncmp(url, scheme, sizeof scheme - 1) != 0) {
        sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL does not start with %s", scheme);
        return NULL;
    }
    path = url + sizeof scheme - 1;
    if (strncmp(path, "//", 2) == 0) {
        path += 2;
        if (path[0] != '/')
            why = "there is no host: write sqlite:PATH or sqlite:///PATH";
    }
    if (path[0] == '\0')
        why = "the path is empty";
    else if (strcmp(path, ":memory:") == 0) {
        why = "a database in memory is private to its connection: it keeps no one out";
        code = SQLOCK_EREFUSED;
    } else if (strncmp(path, "file:", 5) == 0)
        why = "write a plain path: SQLite's own file: URLs are not accepted";
    else if (strpbrk(path, "?#") != NULL)
        why = "options after ? or # are not known";
    if (why == NULL)
        return path;
    sqlock_error_set(err, code, 0, "the URL %s: %s", url, why);
    return NULL;
}

char *lite_path_absolute(const char *front, const char *path, sqlock_error *err)
{
    char cwd[PATH_MAX] = "";
    size_t size;
    char *out;

    if (path[0] != '/' && getcwd(cwd, sizeof cwd) == NULL) {
        sqlock_error_set(err, SQLOCK_ESYS, 0, "%s: the current directory is not known (errno %d)",
                         path, errno);
        return NULL;
    }
    if (strcmp(cwd, "/") == 0)
        cwd[0] = '\0';
    size = strlen(front) + strlen(cwd) + strlen(path) + 2;
    out = sqlock_mem_alloc(size);
    if (out == NULL)
        sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    else
        snprintf(out, size, "%s%s%s%s", front, cwd, path[0] != '/' ? "/" : "", path);
    return out;
}

/* Connections that are made later, for renewals or for more threads, are to the same file. */
int lite_whole_url(const char *url, char **out_url, sqlock_error *err)
{
    const char *path = lite_url_path(url, err);

    *out_url = path != NULL ? lite_path_absolute("sqlite://", path, err) : NULL;
    return *out_url != NULL ? 0 : err->code;
}
