#include "cli/base/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/say.h"
#include "cli/cli.h"

/* Rather once too often: a URL that is hidden without need does no harm. */
bool url_has_password(const char *url)
{
    const char *host = strstr(url, "://"), *at, *colon;

    if (strcasestr(url, "password=") != NULL || strcasestr(url, "passwd=") != NULL ||
        strcasestr(url, "pwd=") != NULL)
        return true;
    if (host == NULL)
        return false;
    /* A password may hold a slash or an @ that should have been encoded. */
    at = strrchr(host + 3, '@');
    colon = strchr(host + 3, ':');
    return at != NULL && colon != NULL && colon < at;
}

/* ---- secrets --------------------------------------------------------------------------------- */

/* Hide it as it stands, and decoded, as a server or a client library may repeat it. */
static void hide_secret(const char *secret, size_t len)
{
    char *plain = malloc(len + 1), *to = plain;
    unsigned byte;

    say_hide(secret, len);
    if (plain == NULL)
        return;
    for (size_t i = 0; i < len; i++)
        if (secret[i] == '%' && i + 2 < len && sscanf(secret + i + 1, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            i += 2;
        } else {
            *to++ = secret[i];
        }
    if (!say_hide(plain, (size_t)(to - plain)))
        free(plain); /* else it lives to the end */
}

/* Client libraries quote what they cannot parse. Without an @, the password is where a port should
 * be. */
static void hide_secrets(const char *url)
{
    static const char *const keys[] = {"password=", "passwd=", "pwd="};
    const char *host = strstr(url, "://"), *colon, *end;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (const char *at = url; (at = strcasestr(at, keys[i])) != NULL;) {
            at += strlen(keys[i]);
            hide_secret(at, strcspn(at, "&"));
        }
    if (host == NULL || (colon = strchr(host + 3, ':')) == NULL)
        return;
    end = strrchr(colon, '@');
    end = end != NULL ? end : colon + 1 + strcspn(colon + 1, "/?");
    if (strspn(colon + 1, "0123456789") < (size_t)(end - colon - 1) || *end == '@')
        hide_secret(colon + 1, (size_t)(end - colon - 1));
}

/* ---- where it comes from --------------------------------------------------------------------- */

bool url_from_argument(struct cli *cli, char *argument)
{
    char *copy = strdup(argument);

    if (copy == NULL) {
        say(SAY_ERROR, "out of memory");
        return false;
    }
    cli->url = copy;
    cli->url_text = NULL;
    if (url_has_password(argument)) {
        memset(argument, '*', strlen(argument));
        say(SAY_NOTE, "other users can see a password on the command line for a moment: use "
                      "SQLOCK_URL or --url-file");
    } else {
        cli->url_text = copy;
    }
    return true;
}

static int url_from_file(struct cli *cli)
{
    FILE *file = fopen(cli->url_file, "re");
    char *line = NULL;
    size_t size = 0;
    ssize_t len = file != NULL ? getline(&line, &size, file) : -1;
    int failed = file == NULL || (len < 0 && ferror(file)) ? errno : 0;

    if (file != NULL)
        fclose(file);
    while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL)
        line[--len] = '\0';
    if (len > 0 && strchr("# \t", line[0]) == NULL) {
        cli->url = line;
        return 0;
    }
    free(line);
    if (failed != 0)
        say(SAY_ERROR, "%s: %s", cli->url_file, strerror(failed));
    else
        say(SAY_ERROR, "%s: no URL in its first line", cli->url_file);
    return EXIT_SETUP;
}

/* mkdir -p, for this user alone. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            say(SAY_ERROR, "%s: %s", path, strerror(errno));
            return false;
        }
        *slash = '/';
    }
    return true;
}

static int url_of_local_file(struct cli *cli)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *url = NULL;
    int rc;

    if (state != NULL && state[0] == '/')
        rc = asprintf(&url, "sqlite:%s/sqlock/local.db", state);
    else if (home != NULL && home[0] == '/')
        rc = asprintf(&url, "sqlite:%s/.local/state/sqlock/local.db", home);
    else {
        say(SAY_ERROR, "--local needs HOME or XDG_STATE_HOME");
        return EXIT_SETUP;
    }
    if (rc < 0) {
        say(SAY_ERROR, "out of memory");
        return EXIT_INTERNAL;
    }
    if (!make_folders(url + strlen("sqlite:")))
        return EXIT_SETUP;
    cli->url = url;
    return 0;
}

static const char *url_from_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

/* An outer `sqlock run` emptied it. DATABASE_URL may lead to another database. */
static bool url_was_removed(void)
{
    const char *url = getenv("SQLOCK_URL"), *held = getenv("SQLOCK_HELD");

    return url != NULL && *url == '\0' && held != NULL && *held != '\0';
}

static int url_look(struct cli *cli)
{
    if ((cli->url != NULL) + (cli->url_file != NULL) + cli->local > 1)
        return options_refuse(cli, "use only one of --url, --url-file and --local");
    if (cli->url != NULL)
        return 0;
    if (cli->url_file != NULL && strstr(cli->url_file, "://") != NULL)
        return options_refuse(cli, "--url-file takes the name of a file; use --url for a URL");
    if (cli->url_file != NULL)
        return url_from_file(cli);
    if (cli->local)
        return url_of_local_file(cli);
    if (url_was_removed()) {
        say(SAY_ERROR, "SQLOCK_URL is empty: the outer 'sqlock run' does not pass on a URL with a "
                       "password; use --keep-url there, or --url-file here");
        return EXIT_SETUP;
    }
    if ((cli->url = url_from_environment("SQLOCK_URL")) != NULL ||
        (cli->url = url_from_environment("DATABASE_URL")) != NULL)
        return 0;
    say(SAY_ERROR, "no database given: set SQLOCK_URL, or use --url, --url-file or --local");
    return EXIT_SETUP;
}

/* The command that run starts may go to another folder, and use sqlock there: that is to find the
 * same file. */
static int url_make_absolute(struct cli *cli)
{
    static const char scheme[] = "sqlite:";
    const char *path = cli->url + sizeof scheme - 1;
    char *url, *folder;
    int len;

    if (strncmp(cli->url, scheme, sizeof scheme - 1) != 0 || strchr("/:", path[0]) != NULL ||
        strncmp(path, "file:", 5) == 0) /* which has no relative path, or is refused */
        return 0;
    if ((folder = getcwd(NULL, 0)) == NULL) {
        say(SAY_ERROR, "%s: the current folder is not known: %s", cli->url, strerror(errno));
        return EXIT_SETUP;
    }
    len = asprintf(&url, "%s%s%s%s", scheme, folder, strcmp(folder, "/") == 0 ? "" : "/", path);
    free(folder);
    if (len < 0) {
        say(SAY_ERROR, "out of memory");
        return EXIT_INTERNAL;
    }
    cli->url = url; /* to the end */
    return 0;
}

int url_find(struct cli *cli)
{
    int rc = cli->url_found ? 0 : url_look(cli);

    if (rc == 0 && !cli->url_found)
        rc = url_make_absolute(cli);
    if (rc == 0 && !cli->url_found)
        hide_secrets(cli->url);
    cli->url_found = rc == 0;
    return rc;
}

/* Empty, not absent: else sqlock inside would use DATABASE_URL, which may be another database. */
const char *url_for_command(const struct cli *cli, bool keep)
{
    const char *other = url_from_environment("DATABASE_URL");

    if (url_from_environment("SQLOCK_URL") == NULL && other != NULL && strcmp(other, cli->url) == 0)
        return NULL;
    return keep || !url_has_password(cli->url) ? cli->url : "";
}
