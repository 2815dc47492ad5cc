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

static int is_met(const struct figure *f)
{
    return f->is == BENCH_AT_LEAST ? f->value.median >= f->bar : f->value.median <= f->bar;
}

static void print(const struct figure *f)
{
    const int decimals = f->value.median < 2 ? 3 : f->value.median < 100 ? 2 : 0;
    char spread[40] = "";

    if (f->value.least < f->value.most)
        snprintf(spread, sizeof spread, "(%.*f to %.*f)", decimals, f->value.least, decimals,
                 f->value.most);
    printf("%-9s %-52s %8.*f  %-17s", f->database, f->what, decimals, f->value.median, spread);
    if (f->is != BENCH_NO_BAR)
        printf("  %s %-7.7g %s", signs[f->is], f->bar, is_met(f) ? "ok" : "MISSED");
    putchar('\n');
}

static json_t *as_json(const struct figure *f)
{
    json_t *out =
        json_pack("{s:s, s:s, s:f, s:f, s:f}", "database", f->database, "what", f->what, "value",
                  f->value.median, "least", f->value.least, "most", f->value.most);

    if (f->is != BENCH_NO_BAR) {
        json_object_set_new(out, signs[f->is], json_real(f->bar));
        json_object_set_new(out, "ok", json_boolean(is_met(f)));
    }
    return out;
}

json_t *bench_figures(void)
{
    json_t *all = json_array();

    printf("\n%-62s %8s%21s\n", "figure", "measured", "bar");
    for (int i = 0; i < n_figures; i++) {
        print(&figures[i]);
        json_array_append_new(all, as_json(&figures[i]));
    }
    return all;
}
