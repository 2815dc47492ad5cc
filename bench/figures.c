/* The figures that the project has set itself, each with its bar and a verdict. A figure that
 * misses its bar fails nothing. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"

#define FIGURES_MAX 256

static struct figure {
    const char *database;
    char what[80];
    struct bench_ratio value;
    enum bench_bar is;
    double bar;
} figures[FIGURES_MAX];
static int n_figures;

static const char *const signs[] = {[BENCH_AT_LEAST] = ">=", [BENCH_AT_MOST] = "<="};

void bench_figure(const char *database, const char *what, struct bench_ratio value,
                  enum bench_bar is, double bar)
{
    struct figure *f = &figures[n_figures++];

    if (n_figures > FIGURES_MAX)
        bench_die("too many figures");
    *f = (struct figure){.database = database, .value = value, .is = is, .bar = bar};
    snprintf(f->what, sizeof f->what, "%s", what);
}

enum verdict { OK, MISSED, UNKNOWN, NO_VERDICT };
static const char *const verdicts[] = {
    [OK] = "ok", [MISSED] = "MISSED", [UNKNOWN] = "NOT MEASURED", [NO_VERDICT] = ""};

static enum verdict verdict_of(const struct figure *f)
{
    if (f->is == BENCH_NO_BAR)
        return NO_VERDICT;
    if (f->value.median < 0)
        return UNKNOWN;
    return (f->is == BENCH_AT_LEAST ? f->value.median >= f->bar : f->value.median <= f->bar)
               ? OK
               : MISSED;
}

static void print(const struct figure *f)
{
    const int decimals = f->value.median < 2 ? 3 : f->value.median < 100 ? 2 : 0;
    char value[24] = "-", spread[40] = "";

    if (f->value.median >= 0)
        snprintf(value, sizeof value, "%.*f", decimals, f->value.median);
    if (f->value.least < f->value.most)
        snprintf(spread, sizeof spread, "(%.*f to %.*f)", decimals, f->value.least, decimals,
                 f->value.most);
    printf("%-9s %-58s %8s  %-17s", f->database, f->what, value, spread);
    if (f->is != BENCH_NO_BAR)
        printf("  %s %-7.7g %s", signs[f->is], f->bar, verdicts[verdict_of(f)]);
    putchar('\n');
}

static json_t *as_json(const struct figure *f)
{
    const enum verdict verdict = verdict_of(f);
    json_t *out = json_pack("{s:s, s:s}", "database", f->database, "what", f->what);

    if (f->value.median >= 0)
        json_object_update_new(out, json_pack("{s:f, s:f, s:f}", "value", f->value.median, "least",
                                              f->value.least, "most", f->value.most));
    if (verdict != NO_VERDICT)
        json_object_set_new(out, signs[f->is], json_real(f->bar));
    if (verdict == OK || verdict == MISSED)
        json_object_set_new(out, "ok", json_boolean(verdict == OK));
    return out;
}

json_t *bench_figures(void)
{
    json_t *all = json_array();
    int counts[NO_VERDICT + 1] = {0};

    printf("\n%-68s %8s%21s\n", "figure", "measured", "bar");
    for (int i = 0; i < n_figures; i++) {
        print(&figures[i]);
        counts[verdict_of(&figures[i])]++;
        json_array_append_new(all, as_json(&figures[i]));
    }
    printf("\n%d of %d bars are met, %d are missed, %d were not measured\n", counts[OK],
           counts[OK] + counts[MISSED] + counts[UNKNOWN], counts[MISSED], counts[UNKNOWN]);
    return all;
}
