/* Inside of races.c: a race as its file has it, and what is known while it is played. README.md
 * tells what the lines mean. */
#ifndef SQLOCK_TESTS_RACES_PLAY_H
#define SQLOCK_TESTS_RACES_PLAY_H

#include "bench.h"
#include "tests/lib/words.h"

struct line {
    int at;      /* in its file, from 1 */
    int heading; /* it is not indented */
    char *text;  /* what was indented further than its neighbours belongs to the one before */
};

struct race {
    const char *file;
    const struct line *defines, *lines; /* the file's, and its own; the first one has its name */
    int n_defines, n_lines;
};

/* Whether the race is for the database. On it, ours and all wrong ones. */
int race_is_on(const struct race *race, const char *name, const char *mode);
void play(const struct race *race);
/* A file of the source tree. */
FILE *source(const char *path);

/* ---- stage.c --------------------------------------------------------------------------------- */

struct asked { /* by whom, or for whom: a name of the race */
    char name[24];
    request r;
    answer a;
    int64_t not_after; /* that it asked with */
};

struct session {
    char name[24];
    conn c;
    int sent;    /* 1: and its answer was not asked for */
    script rest; /* of what was sent */
    request r;
    int n;
    struct asked *of[8]; /* whose requests those are */
};

struct word { /* {name} in a text stands for this */
    char name[24];
    const char *text;
};

struct stage {
    const struct race *race;
    int wrong; /* 0: ours; else which wrong one */
    int row;   /* of the table of `with` */
    struct asked asked[16];
    struct session sessions[16];
    struct word words[48];
    int n_requested, n_sessions, n_words;
    int over;
};
extern struct stage stage;

struct asked *requested_of(const char *name); /* these are made when they are first heard of */
struct session *session_of(const char *name);
conn looker(void);       /* of nobody's */
bool skips_locked(void); /* the server can step over locked rows */

/* Texts that are made live until the test's teardown. */
void define(const char *name, const char *text);
char *expanded(const char *text); /* with what stands for the words in braces */
/* The whole text, or what stands before the first `end`; *rest: what is behind it, or "". */
char *cut(const char *text, const char *end, const char **rest);
char *next_word(const char **text);
/* [postgres mysql wrong]: on these databases, for wrong statements only. NULL: not now; else the
 * text behind it. */
const char *meant(const char *text);
/* What stands for now in "ours | first wrong | second wrong": the last one is for all others. */
const char *column(const char *text);

/* Where the section behind the k-th heading of that word begins, or -1. */
int section(const char *word, int k);
const char *heading(int section_at);
sqlock_stmt stmt_called(const char *name);
/* The statement on trial: ours, perhaps with a place where it can be held, or the wrong one. */
script on_trial(script s);
/* Is there this wrong one on this database? What is wrong with the steps alone is so on all. */
int is_wrong_here(int section_at);
/* The words of the n-th row of `with`, whose columns stand two blanks apart; 0: there is none. */
int define_row(int n);
void define_all(void);

#endif
