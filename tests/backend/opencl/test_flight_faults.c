/* test_flight_faults.c - KEEL_VALIDATE on a device of OpenCL, or on the simulated Metal where
 * KEEL_TEST_GPU names it: a block that is reused in flight, and one that is written outside of its
 * bounds, are reported by name every time. tests/runtime/test_validate.c has the same tests on the
 * simulated device.
 *
 * A block is in flight until the host is told that its use has ended. The test holds back OpenCL's
 * notifications, or Metal's device, so the result does not depend on the speed of the device. */
#include <dlfcn.h>

#include "graph/graph_support.h"

#include "backend/gpu/gpu_internal.h"
#include "backend/metal/metal.h"
#include "backend/opencl/opencl_internal.h"
#include "base/op/validate.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"

enum { N = 1000, TIMES = 50 };

/* ---- what OpenCL says, held back ---- */

struct said {
    void (*fn)(cl_event, cl_int, void *);
    void *arg;
    cl_event event;
    cl_int status;
    struct said *next;
};
static struct {
    pthread_mutex_t mu;
    bool on;
    struct said *said; /* the newest one is first */
} held = {.mu = PTHREAD_MUTEX_INITIALIZER};
static struct kl_opencl_functions real;
static void (*hold_metal)(bool held); /* NULL: the device is one of OpenCL */
static struct kl_driver *driver;

static void called_back(cl_event event, cl_int status, void *arg) {
    struct said *s = arg;
    s->event = event;
    s->status = status;
    pthread_mutex_lock(&held.mu);
    bool wait = held.on;
    if (wait) {
        s->next = held.said;
        held.said = s;
    }
    pthread_mutex_unlock(&held.mu);
    if (wait) return;
    s->fn(event, status, s->arg);
    free(s);
}

static cl_int set_callback(cl_event event, cl_int when, void (*fn)(cl_event, cl_int, void *),
                           void *arg) {
    struct said *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->fn = fn;
    s->arg = arg;
    cl_int status = real.clSetEventCallback(event, when, called_back, s);
    if (status) free(s);
    return status;
}

static cl_int event_info(cl_event event, cl_uint what, size_t room, void *out, size_t *bytes) {
    pthread_mutex_lock(&held.mu);
    bool wait = held.on;
    pthread_mutex_unlock(&held.mu);
    if (!wait) return real.clGetEventInfo(event, what, room, out, bytes);
    *(cl_int *)out = 1; /* the value of CL_RUNNING */
    return CL_SUCCESS;
}

static void hold(void) {
    if (hold_metal) {
        hold_metal(true);
        return;
    }
    pthread_mutex_lock(&held.mu);
    held.on = true;
    pthread_mutex_unlock(&held.mu);
}

static void let_go(void) {
    if (hold_metal) {
        hold_metal(false);
        return;
    }
    pthread_mutex_lock(&held.mu);
    struct said *s = held.said;
    held.said = NULL;
    held.on = false;
    pthread_mutex_unlock(&held.mu);
    while (s) {
        struct said *next = s->next;
        s->fn(s->event, s->status, s->arg);
        free(s);
        s = next;
    }
}

/* ---- tests ---- */

static struct kl_array *count_up(struct kl_stream *s) {
    struct kl_array *a;
    assert_int_equal(kl_arange(&a, 0, N, 1, KL_I32, s, NULL), 0);
    return a;
}

static void handed_to_another_stream_in_flight(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    for (int i = 0; i < 2 * TIMES; i++) {
        bool skip = i % 2;
        struct kl_array *x = count_up(s[0]), *y, *z;
        t_settle(x);
        hold();
        assert_int_equal(kl_sum(&y, x, false, s[0], NULL), 0);
        kl_array_release(x);
        assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
        /* The buffer of x has no owner any more. */
        kl_timeline_block(y->t.fate->timeline->handed, y->t.fate->ticket);
        kl_memory_clear_cache(); /* the one block that is left is the block in flight */
        kl_test_skip_handover_check(skip);
        z = count_up(s[1]);
        if (skip) {
            struct kl_error *e = t_error(z);
            assert_int_equal(e->code, KL_EVALIDATE);
            assert_non_null(strstr(e->message, "'sum'"));
            assert_non_null(strstr(e->message, "handed over"));
            kl_error_release(e);
        } else {
            assert_int_equal(kl_async_eval(&z, 1, NULL), 0);
        }
        kl_test_skip_handover_check(false);
        let_go();
        assert_int_equal(t_value(y), N * (N - 1) / 2);
        if (!skip) assert_int_equal(t_value(z), 0);
        kl_array_release(y);
        kl_array_release(z);
    }
    t_streams_free(2, s);
}

/* The host writes beside a block. The next kernel that uses this block is named in the report.
 * (tests/ops/properties/test_on_gpu_outside.c has kernels that write beside a block themselves.) */
static void written_outside(void **state) {
    struct kl_stream *s;
    static const int wrong = 12345;
    t_streams("g", &s);
    for (int i = 0; i < TIMES; i++) {
        struct kl_array *x = count_up(s), *y;
        t_settle(x);
        struct kl_block *b = x->t.buffer->block;
        size_t before = KL_GUARD_BYTES - sizeof wrong, behind = KL_GUARD_BYTES + b->bytes;
        assert_int_equal(
            driver->ops->write(driver, b->raw, i % 2 ? behind : before, &wrong, sizeof wrong, NULL),
            0);
        assert_int_equal(kl_negative(&y, x, s, NULL), 0);
        struct kl_error *e = t_error(y);
        assert_int_equal(e->code, KL_EVALIDATE);
        assert_string_equal(e->op, "negative");
        assert_non_null(strstr(e->message, "negative"));
        assert_non_null(strstr(e->message, "input 0"));
        assert_non_null(
            strstr(e->message, i % 2 ? "after its last byte" : "in front of its first byte"));
        kl_error_release(e);
        kl_array_release(x);
        kl_array_release(y);
    }
    kl_stream_release(s);
}

static bool on_metal(void) {
    const char *gpu = getenv("KEEL_TEST_GPU");
    return gpu && strcmp(gpu, "metal") == 0;
}

static int set_up(void **state) {
    const bool metal = on_metal();
    struct kl_backend *b;
    struct kl_error *err = NULL;
    kl_test_set_validating(true);
    setenv("KEEL_GPU", metal ? "metal" : "opencl", 1);
    if (metal) kl_metal_count(NULL);
    if (metal ? kl_metal_open(0, &b, &err) : kl_opencl_open(0, &b, &err)) {
        print_error("%s\n", err->message);
        return -1;
    }
    driver = kl_gpu_device_of(b)->driver;
    if (metal) {
        void *library = dlopen(getenv("KEEL_METAL_LIBRARY"), RTLD_NOW),
             *function = library ? dlsym(library, "metal_sim_hold") : NULL;
        memcpy(&hold_metal, &function, sizeof function);
        return function ? 0 : -1;
    }
    real = kl_cl;
    kl_cl.clSetEventCallback = set_callback;
    kl_cl.clGetEventInfo = event_info;
    return 0;
}

int main(void) {
    if (on_metal() && !getenv("KEEL_METAL_LIBRARY")) {
        printf("NOT RUN: this is a test of the simulated Metal\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(handed_to_another_stream_in_flight),
                                       cmocka_unit_test(written_outside)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
