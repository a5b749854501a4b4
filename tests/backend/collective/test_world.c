/* test_world.c - init of processes that no launcher of MPI started (start_by_variables), where it
 * cannot succeed: variables that make no sense, processes that do not come, no memory. */
#include "ops/support/ranks.h"

/* ---- a process ---- */

enum { WRONG = 1, FIRED = 2, FAILED = 4 }; /* bits of its exit status */

/* KEEL_TEST_WANT says what must happen: "" joins, "?" anything, else it is in the error's message.
 */
static bool is_wanted(int rc, const struct kl_error *e) {
    const char *want = getenv("KEEL_TEST_WANT");
    const bool good = strcmp(want, "?") == 0 || (rc ? *want && strstr(e->message, want) : !*want);
    if (!good) fprintf(stderr, "not \"%s\": \"%s\"\n", want, rc ? e->message : "joined");
    return good;
}

static int one_process(void) {
    const char *fails_at = getenv("KEEL_TEST_ALLOC");
    struct kl_error *e = NULL, *again = NULL;
    bool gpu = true;
    setenv("KEEL_GPU", "sim", 1);
    setenv("KEEL_SIM_DEVICES", "1", 1);
    /* A program need not have asked for a device before. */
    const bool asks = !getenv("KEEL_TEST_ASKS_NO_DEVICE");
    if (asks && (kl_device_choose(&gpu, &e) || !gpu)) return WRONG;
    if (fails_at) kl_test_fail_alloc_at(atoi(fails_at));
    const int rc = kl_distributed_init(&world, false, getenv("KEEL_TEST_BACKEND"), &e);
    int status = fails_at && kl_test_alloc_failed() ? FIRED : 0;
    kl_test_fail_alloc_at(-1);
    if (rc) status |= FAILED;
    if (!is_wanted(rc, e)) status |= WRONG;
    /* What failed after the processes had met stays so; what failed before may be tried again. */
    if (rc && getenv("KEEL_TEST_STAYS") && kl_distributed_init(&world, false, NULL, &again) != rc)
        status |= WRONG;
    kl_error_release(e);
    kl_error_release(again);
    return status;
}

/* ---- cases ---- */

static void set_all(const char *const (*settings)[2]) {
    for (; (*settings)[0]; settings++) setenv((*settings)[0], (*settings)[1], 1);
}

static pid_t start_one(const char *want, const char *const (*settings)[2]) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    setenv("KEEL_TEST_WANT", want, 1);
    setenv("KEEL_TEST_RANKS", "1", 1);
    set_all(settings);
    kl_test_run_again((const char *[]){NULL});
}

#define SETTINGS(...)          \
    (const char *const[][2]) { \
        __VA_ARGS__, {         \
            NULL, NULL         \
        }                      \
    }

static void bad_variables(void **state) {
    static const struct {
        const char *variable, *value, *want;
    } rows[] = {
        {"MLX_RANK", "2", "MLX_RANK=2 is no rank of 2 processes"},
        {"MLX_RANK", "-1", "MLX_RANK=-1 is no number from 0"},
        {"MLX_RANK", "0.5", "MLX_RANK=0.5 is no whole number"},
        {"MLX_RANK", "first", "MLX_RANK=first is no number"},
        {"MLX_RANK", "", "MLX_RANK, MLX_WORLD_SIZE, NCCL_HOST_IP and NCCL_PORT must be set"},
        {"NCCL_PORT", "0", "NCCL_PORT=0 is no number from 1 to 65535"},
        {"NCCL_PORT", "70000", "NCCL_PORT=70000 is no number from 1 to 65535"},
        {"NCCL_PORT", "80.5", "NCCL_PORT=80.5 is no whole number"},
        {"NCCL_PORT", "", "NCCL_HOST_IP and NCCL_PORT must be set"},
        {"NCCL_HOST_IP", "", "NCCL_HOST_IP and NCCL_PORT must be set"},
        {"NCCL_HOST_IP", "::1", "NCCL_HOST_IP=::1 is no address"},
        {"MLX_WORLD_SIZE", "0", "MLX_WORLD_SIZE=0 is no number from 1"},
        {"MLX_WORLD_SIZE", "2.5", "MLX_WORLD_SIZE=2.5 is no whole number"},
        {"MLX_WORLD_SIZE", "", "MLX_RANK, MLX_WORLD_SIZE, NCCL_HOST_IP and NCCL_PORT must be set"},
        /* What lacks is a launcher of MPI, or its library where it is not installed. */
        {"KEEL_TEST_BACKEND", "mpi",
         "several processes were started together, says MLX_WORLD_SIZE"},
        {"KEEL_DIST_TIMEOUT", "0", "KEEL_DIST_TIMEOUT=0 is no number from 0.1"},
    };
    char port[12];
    snprintf(port, sizeof port, "%d", free_port());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid = start_one(
            rows[i].want, SETTINGS({"MLX_RANK", "1"}, {"MLX_WORLD_SIZE", "2"},
                                   {"NCCL_HOST_IP", "127.0.0.1"}, {"NCCL_PORT", port},
                                   {"KEEL_DIST_TIMEOUT", "1"}, {rows[i].variable, rows[i].value}));
        if (wait_for(pid) != FAILED) fail_msg("%s=%s", rows[i].variable, rows[i].value);
    }
}

/* One process alone says so, and asks for nobody. */
static void alone(void **state) {
    pid_t pid = start_one("", SETTINGS({"MLX_RANK", "0"}, {"MLX_WORLD_SIZE", "1"},
                                       {"NCCL_HOST_IP", "127.0.0.1"}, {"NCCL_PORT", "9"}));
    assert_int_equal(wait_for(pid), 0);
}

static void nobody_comes(void **state) {
    setenv("KEEL_DIST_TIMEOUT", "0.2", 1);
    setenv("KEEL_TEST_STAYS", "1", 1);
    setenv("KEEL_TEST_WANT", "within 0.2 s (KEEL_DIST_TIMEOUT)", 1);
    for (int r = 0; r < 2; r++)
        assert_int_equal(wait_for(start_by_variables(r, 2, free_port())), FAILED);
    setenv("KEEL_TEST_WANT", "(KEEL_DIST_TIMEOUT): 1, 2, 3", 1);
    assert_int_equal(wait_for(start_by_variables(0, 4, free_port())), FAILED);
    unsetenv("KEEL_TEST_STAYS");
}

/* init itself finds the device that moves values. */
static void joins(void **state) {
    setenv("KEEL_TEST_WANT", "", 1);
    setenv("KEEL_DIST_TIMEOUT", "60", 1);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        assert_int_equal(launch_by_variables(ranks), 0);
        setenv("KEEL_TEST_ASKS_NO_DEVICE", "1", 1);
        assert_int_equal(launch_by_variables(ranks), 0);
        unsetenv("KEEL_TEST_ASKS_NO_DEVICE");
    }
}

/* Each allocation of one rank fails in turn: then both fail, or both join. Only where a rank fails
 * before it has met the other is it the limit that tells. */
static void no_memory(void **state) {
    enum { MET = 8 }; /* allocations before that */
    setenv("KEEL_TEST_WANT", "?", 1);
    for (int r = 0; r < 2; r++) {
        int n_failed = 0, fired = FIRED;
        for (int n = 0; fired; n++) {
            if (!kl_test_takes("cpu", 1)) continue;
            const int port = free_port();
            setenv("KEEL_DIST_TIMEOUT", n < MET ? "0.2" : "1000", 1);
            const pid_t other = start_by_variables(!r, 2, port);
            set_number("KEEL_TEST_ALLOC", n);
            const pid_t poor = start_by_variables(r, 2, port);
            unsetenv("KEEL_TEST_ALLOC");
            const int a = wait_for(other), b = wait_for(poor);
            const bool differ = n >= MET && (a & FAILED) != (b & FAILED);
            if ((a | b) & ~(FAILED | FIRED) || differ)
                fail_msg("allocation %d of rank %d: %d and %d", n, r, a, b);
            fired = b & FIRED;
            n_failed += (b & FAILED) != 0;
        }
        assert_true(n_failed > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_variables), cmocka_unit_test(alone),
        cmocka_unit_test(nobody_comes),  cmocka_unit_test(joins),
        cmocka_unit_test(no_memory),
    };
    if (is_a_rank()) return one_process();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
