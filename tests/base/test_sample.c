/* test_sample.c - which cases the stages of `make test` leave out (kl_test_takes of support.h). */
#include <sys/wait.h>
#include <unistd.h>

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

/* Which cases of "kernels" a process draws, between those of "cpu" and of "device". */
static void draws(const char *sample, bool *taken) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        setenv("KEEL_TEST_SAMPLE", sample, 1);
        for (int i = 0; i < CASES; i++) {
            kl_test_takes("cpu", 2);
            kl_test_takes("device", 2);
            taken[i] = kl_test_takes("kernels", 2);
        }
        _exit(write(ends[1], taken, CASES) != CASES);
    }
    assert_true(child > 0);
    assert_int_equal(read(ends[0], taken, CASES), CASES);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

/* What a stage compiles is what the stage before it has in the cache. */
static void a_thinner_sample_has_fewer_of_the_same_cases(void **state) {
    static bool wide[CASES], thin[CASES];
    int n = 0;
    draws("kernels/3", wide);
    draws("kernels/27,device/2,cpu/3", thin);
    for (int i = 0; i < CASES; i++) {
        assert_true(wide[i] || !thin[i]);
        n += thin[i];
    }
    assert_true(n > 0);
}

static void a_share_is_a_part_and_never_nothing(void **state) {
    static const struct {
        const char *sample;
        unsigned expected;
    } rows[] = {{NULL, 24},           {"cpu/3", 24},   {"storm", 24},   {"storm/3", 8},
                {"cpu/9,storm/5", 4}, {"storm/24", 1}, {"storm/100", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].sample)
            setenv("KEEL_TEST_SAMPLE", rows[i].sample, 1);
        else
            unsetenv("KEEL_TEST_SAMPLE");
        assert_int_equal(kl_test_share("storm", 24), rows[i].expected);
        assert_int_equal(kl_test_share("storm", 0), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_runs_unless_it_is_named),
        cmocka_unit_test(a_sample_has_one_case_in_so_many),
        cmocka_unit_test(a_thinner_sample_has_fewer_of_the_same_cases),
        cmocka_unit_test(a_share_is_a_part_and_never_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
