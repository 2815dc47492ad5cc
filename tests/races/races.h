/* A program of races: those of tests/races/<subject>.races, on each database that is there, as
 * test_<name>_<database>. */
#ifndef SQLOCK_TESTS_RACES_H
#define SQLOCK_TESTS_RACES_H

int run_races(const char *subject);
#define TEST_MAIN_OF_RACES(subject)                                                                \
    int main(void)                                                                                 \
    {                                                                                              \
        return run_races(subject);                                                                 \
    }

#endif
