/* sqlock help, and what --help prints. */
#include <stdio.h>
#include <string.h>

#include "cli/base/output.h"
#include "cli/cli.h"

static const struct option_spec no_options[] = {{0, NULL, NULL, NULL}};

static int print_overview(void)
{
    puts("Usage: sqlock [GLOBAL] COMMAND [OPTION]... [ARGUMENT]...\n"
         "Distributed locks in the database that your application already has.\n");
    for (const struct command *const *c = commands; *c != NULL; c++)
        printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    puts("\nGlobal options, before or after the command:");
    options_print(stdout, global_options);
    puts("\nDurations: 500ms 30s 5m 1h30m 1d 2w; a bare number is seconds.\n"
         "URLs: postgres://... postgresql://... mysql://... mariadb://... sqlite:PATH\n"
         "'sqlock help COMMAND' explains a command.");
    return output_end();
}

/* One line for each form. A long one continues under its first option. */
static void print_synopsis(const struct command *c)
{
    const char *lead = "Usage:", *form = c->synopsis;

    while (*form != '\0') {
        size_t len = strcspn(form, "\n");
        int column = printf("%s sqlock [GLOBAL] %s", lead, c->name);
        const int indent = column;

        for (size_t i = 0; i < len;) {
            size_t word = strcspn(form + i, " \n");

            /* "[-w DUR]" and the like stay together. */
            while (memchr(form + i, '[', word) != NULL && memchr(form + i, ']', word) == NULL &&
                   i + word < len)
                word += 1 + strcspn(form + i + word + 1, " \n");
            if (column + 1 + (int)word > 79)
                column = printf("\n%*s", indent, "") - 1;
            column += printf(" %.*s", (int)word, form + i);
            i += word + (form[i + word] == ' ');
        }
        putchar('\n');
        lead = "      ";
        form += len + (form[len] == '\n');
    }
}

int help_print(const struct command *c)
{
    if (c == NULL)
        return print_overview();
    print_synopsis(c);
    printf("\n%c%s.\n%s", c->summary[0] - 'a' + 'A', c->summary + 1,
           c->help != NULL ? c->help : "");
    if (c->options[0].key != 0) {
        puts("\nOptions:");
        options_print(stdout, c->options);
    }
    puts("\n'sqlock help' lists the global options.");
    return output_end();
}

static int help_run(struct cli *cli, int argc, char **argv)
{
    const struct command *c = NULL;
    struct options o;

    options_begin(&o, cli, no_options, OPTIONS_ANYWHERE, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if (o.n > 1)
        return options_refuse(cli, "at most one COMMAND");
    if (o.n > 0 && (c = command_find(o.operands[0])) == NULL)
        return command_unknown(cli, o.operands[0]);
    return help_print(c);
}

const struct command command_help = {
    .name = "help",
    .synopsis = "[COMMAND]",
    .summary = "explain a command",
    .options = no_options,
    .run = help_run,
};
