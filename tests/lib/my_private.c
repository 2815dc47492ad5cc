#include "tests/lib/my_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"

const struct server *my_private_server(void)
{
    static struct server server;

    if (!server.url[0])
        server = server_mysql();
    return &server;
}

const char *my_private_url(void)
{
    return my_private_server()->url;
}

const char *my_private_socket(void)
{
    return strstr(my_private_url(), "socket=") + strlen("socket=");
}

void my_private_restart(const char *args)
{
    const char *command =
        textf("SQLOCK_TEST_MYSQL_ARGS='%s' tests/tools/my.sh crash '%s'", args, my_private_url());

    if (system(command) != 0)
        fail_msg("%s", command);
}
