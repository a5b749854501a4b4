/* test_sample.c - which cases the stages of `make test` leave out (kl_test_takes of support.h). */
#include "support.h"

enum { CASES = 3000 };

static int n_taken(const char *sample, const char *what, unsigned one_in) {
    assert_int_equal(sample ? setenv("KEEL_TEST_SAMPLE", sample, 1) : unsetenv("KEEL_TEST_SAMPLE"),
                     0);
    int n = 0;
    for (int i = 0; i < CASES; i++) n += kl_test_takes(what, one_in);
    return n;
}

static void every_case_runs_unless_it_is_named(void **state) {
    assert_int_equal(n_taken(NULL, "kernels", 3), CASES);
    assert_false(kl_test_samples("kernels"));
    assert_int_equal(n_taken("", "kernels", 3), CASES);
    assert_int_equal(n_taken("cpu", "kernels", 3), CASES);
    assert_int_equal(n_taken("kernels/3", "cpu", 3), CASES);
    /* Names are compared whole. */
    assert_int_equal(n_taken("kernels_of_cpu,xcpu", "cpu", 3), CASES);
    assert_false(kl_test_samples("cpu"));
    /* What is no number above 0 names nothing. */
    assert_int_equal(n_taken("cpu/,cpu/0,cpu/x", "cpu", 3), CASES);
}

static void a_sample_has_one_case_in_so_many(void **state) {
    static const struct {
        const char *sample, *what;
        int expected;
    } rows[] = {{"cpu", "cpu", CASES / 4},           {"kernels,cpu", "kernels", CASES / 4},
                {"kernels,cpu", "cpu", CASES / 4},   {"kernels/3,cpu", "kernels", CASES / 12},
                {"kernels/3,cpu", "cpu", CASES / 4}, {"cpu,kernels/3", "kernels", CASES / 12}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = n_taken(rows[i].sample, rows[i].what, 4);
        assert_true(kl_test_samples(rows[i].what));
        assert_in_range(n, rows[i].expected * 3 / 4, rows[i].expected * 5 / 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_runs_unless_it_is_named),
                                       cmocka_unit_test(a_sample_has_one_case_in_so_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
