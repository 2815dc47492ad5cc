/* What the schema tests of all databases share. A program says what its database is like, with the
 * functions that stand under "by the program"; schema.c has the tests that are the same for all. */
#ifndef SQLOCK_TESTS_SCHEMA_H
#define SQLOCK_TESTS_SCHEMA_H

#include <stdint.h>

#include "tests/lib/check.h"

#include <sqlock/driver.h>

/* Of this library (core/engine/handshake.c). */
#define GENERATION 4

/* Where a schema is, or shall be. Its names live to the end of the process. */
struct place {
    const sqlock_driver *driver;
    const sqlock_dialect *dialect;
    char url[512];
    const char *schema; /* as options have it: NULL is the default */
    const char *prefix;
};

/* A piece of tables.sql and what a damaged schema has in its place. */
struct damage {
    const char *from, *to;
    bool verified; /* sqlock_migration_verify() notices it too; else it must not */
};

/* ---- by the program ---------------------------------------------------------------------------
 */

/* An empty database, or schema, with nothing of ours in it. */
struct place place_new(void);
/* Run SQL past the library, all in one transaction; a failure fails the test. */
void place_exec_text(const struct place *p, const char *sql);
int64_t place_number_text(const struct place *p, const char *sql);
/* All that the database knows about the schema of the place, and what stands in meta, as a text
 * that has neither the schema's name nor times in it. free() it. */
char *place_catalogue(const struct place *p);
/* Run SQL by the database's own client, with pipe_to(). */
bool place_pipe(const struct place *p, const char *sql);
/* Whether the lock table is there. */
bool place_has_locks(const struct place *p);
/* SQL that lets a migrator's lease run out; NULL: none is taken here. */
extern const char *const place_end_lease;
/* Ends with NULL. */
extern const struct damage place_damages[];
/* MySQL before 8.0.16 reads over CHECKs. */
bool place_keeps_checks(void);

/* ---- by schema.c ------------------------------------------------------------------------------
 */

/* The words in braces replaced by the place's names. free() it. */
char *place_fill(const struct place *p, const char *text);
void place_exec(const struct place *p, const char *text);
int64_t place_number(const struct place *p, const char *text);

sqlock_open_opts place_opts(const struct place *p);
/* The number of migrations that were applied. */
int place_migrate(const struct place *p);
sqlock *place_open(const struct place *p);
/* A killed migrator's lease, if it left one, runs out now: a test need not wait for it. */
void place_forget_migrator(const struct place *p);
/* Take the lock and give it back; the grant's token. */
int64_t place_use(const struct place *p, const char *name);
/* The tables of tables.sql with `damage` (NULL: none) in them. The test fails if the damage is not
 * possible, because the file was rewritten. */
void place_build(const struct place *p, const struct damage *damage);
/* Whether a database could notice it. */
bool damage_shows(const struct damage *d);
/* A text where every `from` became `to`. Frees text. */
char *text_replace(char *text, const char *from, const char *to);

/* Hand text to a shell command that begins with the client's name. True: it ended well. Where there
 * is no such client the test is skipped, loudly; with STRICT=1 it fails. */
bool pipe_to(const char *client, const char *command, const char *text);
/* steps.c: place_catalogue() without the floor of tokens, which is a clock's, and rises with each
 * way down. */
char *place_tables(const struct place *p);
/* records.c: write migrations out and run them by place_pipe(). */
void place_pipe_written(const struct place *p, int from, int to);

void test_migrating_builds_what_tables_sql_says(void **state);
void test_the_comparison_notices_every_planted_difference(void **state);
void test_migrating_twice_applies_nothing_and_records_all(void **state);
void test_P2_tokens_rise_over_down_and_up_again(void **state);
void test_P2_tokens_rise_over_down_after_a_server_was_lost(void **state);
void test_P13_versions_rise_over_down_and_up_again(void **state);
void test_migrators_at_once_do_the_work_once(void **state);
void test_a_killed_migrator_leaves_all_or_nothing(void **state);
void test_a_schema_that_needs_a_newer_library_is_refused_with_both_versions(void **state);
void test_P20_a_newer_schema_that_we_may_read_works(void **state);
void test_P2_libraries_of_two_generations_never_work_on_one_schema(void **state);
void test_an_absent_schema_is_told_and_not_made(void **state);
void test_prefixes_are_different_locks(void **state);
void test_bad_prefixes_and_schemas_are_refused(void **state);

/* steps.c */
void test_a_migrator_killed_after_any_statement_is_just_run_again(void **state);
void test_a_way_down_killed_after_any_statement_is_just_run_again(void **state);
void test_a_way_down_takes_back_what_a_killed_migrator_began(void **state);
void test_P2_up_again_after_a_way_down_that_was_killed(void **state);
void test_migrators_up_and_down_at_once_leave_a_whole_schema(void **state);
void test_going_down_is_refused_while_a_lock_is_held(void **state);
void test_going_down_is_not_held_up_by_locks_that_ran_out(void **state);
void test_P2_no_token_repeats_whoever_acquires_during_the_way_down(void **state);
void test_down_takes_back_what_up_made(void **state);
void test_P20_an_older_library_goes_on_while_a_newer_one_migrates(void **state);
void test_P20_an_older_library_goes_on_through_a_migration_and_back(void **state);
void test_P20_a_newer_library_works_on_an_older_schema(void **state);
void test_P20_breaks_are_noted_as_soon_and_as_long_as_the_schema_has_a_place(void **state);

/* records.c */
void test_status_tells_what_became_of_every_migration(void **state);
void test_a_migration_from_another_file_is_named_and_nothing_is_done(void **state);
void test_verify_tells_what_the_tables_lack(void **state);
void test_baseline_records_what_another_tool_has_run(void **state);
void test_baseline_of_an_older_version_asks_for_its_own_tables_only(void **state);
void test_baseline_refuses_what_is_not_there(void **state);
void test_a_dry_run_changes_nothing(void **state);
void test_bad_versions_flags_and_directions_are_refused(void **state);
void test_a_record_that_a_killed_migrator_left_is_written_anew(void **state);
void test_written_sql_does_what_the_library_does(void **state);
void test_written_sql_stops_when_told(void **state);

#define SCHEMA_TESTS                                                                               \
    cmocka_unit_test(test_migrating_builds_what_tables_sql_says),                                  \
        cmocka_unit_test(test_the_comparison_notices_every_planted_difference),                    \
        cmocka_unit_test(test_migrating_twice_applies_nothing_and_records_all),                    \
        cmocka_unit_test(test_P2_tokens_rise_over_down_and_up_again),                              \
        cmocka_unit_test(test_P2_tokens_rise_over_down_after_a_server_was_lost),                   \
        cmocka_unit_test(test_P13_versions_rise_over_down_and_up_again),                           \
        cmocka_unit_test(test_migrators_at_once_do_the_work_once),                                 \
        cmocka_unit_test(test_a_killed_migrator_leaves_all_or_nothing),                            \
        cmocka_unit_test(test_a_schema_that_needs_a_newer_library_is_refused_with_both_versions),  \
        cmocka_unit_test(test_P20_a_newer_schema_that_we_may_read_works),                          \
        cmocka_unit_test(test_P2_libraries_of_two_generations_never_work_on_one_schema),           \
        cmocka_unit_test(test_an_absent_schema_is_told_and_not_made),                              \
        cmocka_unit_test(test_prefixes_are_different_locks),                                       \
        cmocka_unit_test(test_bad_prefixes_and_schemas_are_refused),                               \
        cmocka_unit_test(test_a_migrator_killed_after_any_statement_is_just_run_again),            \
        cmocka_unit_test(test_a_way_down_killed_after_any_statement_is_just_run_again),            \
        cmocka_unit_test(test_a_way_down_takes_back_what_a_killed_migrator_began),                 \
        cmocka_unit_test(test_P2_up_again_after_a_way_down_that_was_killed),                       \
        cmocka_unit_test(test_migrators_up_and_down_at_once_leave_a_whole_schema),                 \
        cmocka_unit_test(test_going_down_is_refused_while_a_lock_is_held),                         \
        cmocka_unit_test(test_going_down_is_not_held_up_by_locks_that_ran_out),                    \
        cmocka_unit_test(test_P2_no_token_repeats_whoever_acquires_during_the_way_down),           \
        cmocka_unit_test(test_down_takes_back_what_up_made),                                       \
        cmocka_unit_test(test_P20_an_older_library_goes_on_while_a_newer_one_migrates),            \
        cmocka_unit_test(test_P20_an_older_library_goes_on_through_a_migration_and_back),          \
        cmocka_unit_test(test_P20_a_newer_library_works_on_an_older_schema),                       \
        cmocka_unit_test(test_P20_breaks_are_noted_as_soon_and_as_long_as_the_schema_has_a_place), \
        cmocka_unit_test(test_status_tells_what_became_of_every_migration),                        \
        cmocka_unit_test(test_a_migration_from_another_file_is_named_and_nothing_is_done),         \
        cmocka_unit_test(test_verify_tells_what_the_tables_lack),                                  \
        cmocka_unit_test(test_baseline_records_what_another_tool_has_run),                         \
        cmocka_unit_test(test_baseline_of_an_older_version_asks_for_its_own_tables_only),          \
        cmocka_unit_test(test_baseline_refuses_what_is_not_there),                                 \
        cmocka_unit_test(test_a_dry_run_changes_nothing),                                          \
        cmocka_unit_test(test_bad_versions_flags_and_directions_are_refused),                      \
        cmocka_unit_test(test_a_record_that_a_killed_migrator_left_is_written_anew),               \
        cmocka_unit_test(test_written_sql_does_what_the_library_does),                             \
        cmocka_unit_test(test_written_sql_stops_when_told)

#endif
