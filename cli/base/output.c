#include "cli/base/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/fds.h"
#include "cli/base/say.h"
#include "cli/exits.h"

json_t *json_text(const char *text, size_t len)
{
    json_t *string = json_stringn(text, len);
    char *plain;

    if (string != NULL || (plain = malloc(len + 1)) == NULL)
        return string;
    for (size_t i = 0; i < len; i++)
        plain[i] = (char)((unsigned char)text[i] < 0x80 ? text[i] : '?');
    string = json_stringn(plain, len);
    free(plain);
    return string;
}

int output_json(json_t *document)
{
    int rc;

    if (document == NULL) {
        say(SAY_ERROR, "out of memory");
        return EXIT_INTERNAL;
    }
    rc = json_dumpf(document, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(document);
    putchar('\n');
    (void)rc; /* stdout remembers an error */
    return output_end();
}

int output_end(void)
{
    int failed = 0;

    errno = EIO;
    if (fflush(stdout) != 0 || ferror(stdout))
        failed = errno;
    else if (fds_was_closed(STDOUT_FILENO))
        failed = EBADF; /* it is /dev/null now, which takes everything */
    if (failed == 0)
        return 0;
    say(SAY_ERROR, "standard output: %s", strerror(failed));
    return EXIT_IO;
}
