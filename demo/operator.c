#include "operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"

static char printed[4096];

void operator_begin(const char *command, const char *path)
{
    char url[300];

    snprintf(url, sizeof url, "sqlite:%s", path);
    setenv("SQLOCK_URL", url, 1);
    setenv("SQLOCK_COMMAND", command, 1); /* a folder's name may hold anything */
}

static void run(const char *line)
{
    char whole[300];
    size_t used;
    FILE *from;

    snprintf(whole, sizeof whole, "\"$SQLOCK_COMMAND\" %s", line);
    fflush(stdout);
    if ((from = popen(whole, "re")) == NULL)
        die("no shell could be started");
    used = fread(printed, 1, sizeof printed - 1, from);
    printed[used] = '\0';
    if (pclose(from) != 0)
        die("sqlock %s: failed", line);
}

static void show(const char *text, const char *remark)
{
    for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        printf("   %.*s%s%s\n", (int)len, text, *remark != '\0' ? "  <- " : "", remark);
    }
}

const char *operator_types(const char *line)
{
    printf("   $ sqlock %s\n", line);
    run(line);
    show(printed, "");
    return printed;
}

void operator_looks_again(const char *remark)
{
    const char *rows;

    run("ls");
    rows = strchr(printed, '\n');
    show(rows != NULL ? rows + 1 : "", remark);
}
