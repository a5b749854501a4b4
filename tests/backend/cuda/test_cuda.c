/* test_cuda.c - the CUDA driver on a real device; without a device the program prints that it
 * tested nothing. test_cuda_fake.c and test_cuda_failures.c need no device. */
#include "cuda_common.h"

static const char *why;
static int n_devices;

/* A driver library that is missing, or that is another library, gives an error with a reason. The
 * test runs in child processes, since a process loads the library once. */
static void loads_nothing(const char *driver, const char *text) {
    pid_t child = fork();
    if (child == 0) {
        const char *reason = NULL;
        setenv("KEEL_CUDA_DRIVER", driver, 1);
        struct kl_gpu_facts facts;
        struct kl_backend *b = NULL;
        struct kl_error *e = NULL;
        bool ok = kl_cuda_count(&reason) == 0 && reason && strstr(reason, text) &&
                  strstr(reason, driver) && kl_cuda_open(0, &b, &e) == KL_EDEVICE && !b && e &&
                  strstr(e->message, text);
        kl_cuda_facts(0, &facts);
        ok = ok && facts.name[0] == 0 && facts.memory_bytes == 0;
        if (!ok) printf("%s: %s\n", driver, reason ? reason : "no reason");
        fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_loading(void **state) {
    loads_nothing("/nonexistent/libcuda.so", "not found");
    loads_nothing("libm.so.6", "has no cuInit");
}

/* The number of devices agrees with the text that says why there is none. */
static void test_count(void **state) {
    n_devices = kl_cuda_count(&why);
    assert_true(n_devices > 0 || (why && why[0]));
}

static void test_facts(void **state) {
    struct kl_gpu_facts f;
    kl_cuda_facts(0, &f);
    printf("device: %s, %s, %s, %s, %zu bytes, %u units; %s\n", f.name, f.vendor, f.architecture,
           f.driver, f.memory_bytes, f.units, cu->driver.identity);
    assert_true(f.name[0] && f.memory_bytes > 0 && f.units > 0);
    assert_int_equal(strncmp(f.architecture, "sm_", 3), 0);
    assert_true(cu->driver.max_local >= 256 && cu->driver.local_bytes >= 16 << 10);
}

/* A kernel that writes to an invalid address loses the device, and every later call reports the
 * loss. */
static void test_loss(void **state) {
    struct test_launch l = crash();
    void *q = new_queue(), *e = new_event(), *p = device_block(64);
    char b[8];
    int rc = submit(q, &l, 1, NULL, NULL, e, NULL);
    while (rc == KL_OK && (rc = drv->ops->event_query(drv, e)) == 0) drv->ops->wait_any(drv, &e, 1);
    assert_int_equal(rc, KL_EDEVICELOST);
    drv->ops->wait_any(drv, &e, 1); /* returns at once */
    ILL(drv->ops->read(drv, p, 0, b, 8, &err), KL_EDEVICELOST, "CUDA_ERROR_");
    ILL(submit(q, NULL, 0, NULL, NULL, e, &err), KL_EDEVICELOST, "lost");
}

static int setup(void **state) {
    open_device();
    return 0;
}

int main(void) {
    const struct CMUnitTest loading[] = {cmocka_unit_test(test_loading),
                                         cmocka_unit_test(test_count)};
    const struct CMUnitTest device[] = {cmocka_unit_test(test_facts), COMMON_TESTS,
                                        cmocka_unit_test(test_loss)};
    int rc = cmocka_run_group_tests_name("loading", loading, NULL, NULL);
    if (n_devices == 0 || why) {
        printf("NOT TESTED: %zu tests of a real CUDA device, since: %s\n",
               sizeof device / sizeof *device, why ? why : "no device");
        return rc;
    }
    return rc + cmocka_run_group_tests_name("device", device, setup, NULL);
}
