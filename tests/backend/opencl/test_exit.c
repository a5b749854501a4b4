/* test_exit.c - a process that ends while an OpenCL device computes and compiles ends well, and
 * what is released at its end is not lost: the program calls itself, evaluates without waiting, and
 * returns from main. */
#include "ops/support/on_device.h"
#include "support.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/gpu/driver.h"
#include "backend/opencl/opencl.h"

enum { SIDE = 120, PRODUCTS = 12, ENDS = 8 };

/* Registered first, and so the last handler: in the meantime those of OpenCL have run, and threads
 * that still compute for it go on with what is left. */
static void let_threads_go_on(void) {
    while (atomic_load(&kl_opencl_driver(0)->n_owed)) sched_yield();
}

/* What this program does when it is called with an argument. "at once": it ends when the first
 * kernels were handed over. "later": when the first value is there; the device has others to
 * compute, for which it compiles kernels of its own. */
static int end_while_computing(bool at_once) {
    static float values[SIDE * SIDE];
    struct kl_array *x, *next, *first = NULL;
    if (atexit(let_threads_go_on)) return 97;
    if (open_streams(NULL)) return 98;
    OK(kl_array_new_data(&x, values, KL_F32, 2, (int[]){SIDE, SIDE}, &err));
    for (int i = 0; i < PRODUCTS && at_once; i++) {
        OK(kl_matmul(&next, x, x, gpu_stream, &err));
        OK(kl_multiply(&x, next, next, gpu_stream, &err));
    }
    if (at_once) {
        OK(kl_async_eval(&x, 1, &err));
        return 0;
    }
    for (int i = 0; i < PRODUCTS; i++) {
        OK(kl_matmul(&next, x, x, gpu_stream, &err));
        OK(kl_cumsum(&x, next, i & 1, i & 2, i & 4, gpu_stream, &err));
        OK(kl_async_eval(&x, 1, &err));
        if (!first) first = x;
    }
    OK(kl_eval(&first, 1, &err));
    return 0;
}

/* An event that has lost its last owner when OpenCL is no longer used: the settlement thread
 * releases command buffers at any time. */
static void release_an_event(void) {
    struct kl_driver *driver = kl_opencl_driver(0);
    const int64_t before = kl_test_n_live();
    void *event;
    if (driver->ops->event_new(driver, &event, NULL)) _exit(96);
    driver->ops->event_free(driver, event);
    if (kl_test_n_live() != before) _exit(95);
}

/* "an event": the handler is registered first, and so runs last, when the driver's functions are
 * no longer entered. */
static int end_with_an_event(void) {
    if (atexit(release_an_event)) return 97;
    return open_streams(NULL) ? 98 : 0;
}

/* Calls this program with the argument and returns the status with which it ended. */
static int run(const char *argument, const char *pocl_cache) {
    pid_t child = fork();
    if (child == 0) {
        setenv("KEEL_TEST_GPU", "opencl", 1);
        setenv("KEEL_CACHE_DIR", "", 1);
        if (pocl_cache) setenv("POCL_CACHE_DIR", pocl_cache, 1);
        kl_test_run_again((const char *[]){argument, NULL});
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_the_end_of_the_process(void **state) {
    /* A sample has each way of ending once. */
    for (int i = 0; i < (kl_test_samples("device") ? ENDS / 2 : ENDS); i++) {
        /* Every second process finds nothing compiled. */
        char cache[64];
        snprintf(cache, sizeof cache, "pocl%d", i);
        const int status = run(i & 2 ? "at once" : "later", i & 1 ? kl_test_path(cache) : NULL);
        if (status) fail_msg("process %d ended with status %#x", i, (unsigned)status);
    }
}

static void test_what_is_released_at_the_end(void **state) {
    const int status = run("an event", NULL);
    if (status) fail_msg("the process ended with status %#x", (unsigned)status);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "an event") == 0) return end_with_an_event();
    if (argc > 1) return end_while_computing(strcmp(argv[1], "at once") == 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_end_of_the_process),
                                       cmocka_unit_test(test_what_is_released_at_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
