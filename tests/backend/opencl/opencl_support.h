/* opencl_support.h - the opened device 0, of OpenCL, or of Metal where KEEL_TEST_GPU names it, and
 * small things that the tests of the OpenCL driver share. */
#pragma once
#include "support.h"

#include <sched.h>

#include "backend/gpu/driver.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/lower/lower.h"
#include "backend/metal/metal.h"
#include "backend/opencl/opencl.h"
#include "backend/opencl/opencl_api.h"

static struct kl_driver *d;
static struct kl_lowering *lowering;

/* OpenCL calls callbacks at any time, and each callback holds an event. The callbacks are counted,
 * so that a test can wait for the last one. */
struct t_callback {
    void (*fn)(cl_event, cl_int, void *);
    void *arg;
};
static _Atomic(int) t_n_callbacks;
static cl_int (*t_real_set_callback)(cl_event, cl_int, void (*)(cl_event, cl_int, void *), void *);

static void t_called_back(cl_event e, cl_int status, void *arg) {
    struct t_callback c = *(struct t_callback *)arg;
    free(arg);
    c.fn(e, status, c.arg);
    atomic_fetch_sub(&t_n_callbacks, 1);
}
static cl_int t_set_callback(cl_event e, cl_int when, void (*fn)(cl_event, cl_int, void *),
                             void *arg) {
    struct t_callback *c = malloc(sizeof *c);
    assert_non_null(c);
    *c = (struct t_callback){fn, arg};
    atomic_fetch_add(&t_n_callbacks, 1);
    cl_int status = t_real_set_callback(e, when, t_called_back, c);
    if (status) free(c);
    if (status) atomic_fetch_sub(&t_n_callbacks, 1);
    return status;
}
/* Waits until every callback has run and has released its event. Everything submitted must be
 * complete. */
static inline void t_quiet(void) {
    while (atomic_load(&t_n_callbacks) > 0) sched_yield();
}

static bool on_metal(void) {
    const char *gpu = getenv("KEEL_TEST_GPU");
    return gpu && strcmp(gpu, "metal") == 0;
}
static int open_metal(void) {
    struct kl_backend *b = NULL;
    struct kl_error *err = NULL;
    kl_metal_count(NULL);
    if (kl_metal_open(0, &b, &err)) {
        print_error("%s\n", err->message);
        return -1;
    }
    d = kl_gpu_device_of(b)->driver;
    return (lowering = kl_lowering_new(d, NULL)) ? 0 : -1;
}

/* A machine without a device fails these tests: tools/setup.sh installs one. */
static int open_device(void **state) {
    const char *why = NULL;
    struct kl_backend *b = NULL;
    struct kl_error *err = NULL;
    if (on_metal()) return open_metal();
    setenv("POCL_MEMORY_LIMIT", "1", 1); /* GiB: running out of it must not hurt the machine */
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (kl_opencl_count(&why) < 1) {
        print_error("no OpenCL device: %s (tools/setup.sh installs PoCL)\n", why);
        return -1;
    }
    if (kl_opencl_open(0, &b, &err)) {
        print_error("%s\n", err->message);
        return -1;
    }
    t_real_set_callback = kl_cl.clSetEventCallback;
    kl_cl.clSetEventCallback = t_set_callback;
    d = kl_opencl_driver(0);
    return (lowering = kl_lowering_new(d, NULL)) ? 0 : -1;
}

/* ---- steps that succeed, or the test fails with the driver's message ---- */

/* err: the variable that call fills. */
#define SUCCEED(call, err)                                                              \
    do {                                                                                \
        int rc_ = (call);                                                               \
        if (rc_) fail_msg("code %d: %s", rc_, (err) ? (err)->message : "(no message)"); \
    } while (0)

static inline char *t_alloc(size_t bytes) {
    struct kl_error *err = NULL;
    void *p = NULL;
    SUCCEED(d->ops->alloc(d, bytes, &p, &err), err);
    return p;
}
static inline void t_write(void *p, size_t offset, const void *src, size_t n) {
    struct kl_error *err = NULL;
    SUCCEED(d->ops->write(d, p, offset, src, n, &err), err);
}
static inline void t_read(const void *p, size_t offset, void *dst, size_t n) {
    struct kl_error *err = NULL;
    SUCCEED(d->ops->read(d, p, offset, dst, n, &err), err);
}
static inline char *t_alloc_from(const void *src, size_t bytes) {
    char *p = t_alloc(bytes);
    t_write(p, 0, src, bytes);
    return p;
}
void *t_queues[128]; /* queues are never freed; the table keeps leak checkers from reporting them */
static inline void *t_queue(int index) {
    static int n;
    struct kl_error *err = NULL;
    void *q = NULL;
    SUCCEED(d->ops->queue_new(d, index, &q, &err), err);
    assert_true(n < 128);
    t_queues[n++] = q;
    return q;
}
static inline void *t_event(void) {
    struct kl_error *err = NULL;
    void *e = NULL;
    SUCCEED(d->ops->event_new(d, &e, &err), err);
    return e;
}

/* Adds a kernel of this source to the queue. */
static inline void t_launch(void *queue, const char *source, const char *entry, int64_t groups,
                            uint32_t local, const struct kl_karg *args, int n_args) {
    struct kl_error *err = NULL;
    struct kl_emit e = {
        .lowering = lowering, .driver = d, .queue = queue, .dry = false, .err = &err};
    SUCCEED(kl_emit_source(&e, entry, source, entry, groups, local, args, n_args), err);
}
#define T_LAUNCH(queue, source, entry, groups, local, ...)                               \
    t_launch(queue, source, entry, groups, local, (const struct kl_karg[]){__VA_ARGS__}, \
             (int)(sizeof(struct kl_karg[]){__VA_ARGS__} / sizeof(struct kl_karg)))

/* Closes the queue's command buffer and returns its event. */
static inline void *t_submit(void *queue, void *const *waits, int n_waits,
                             struct kl_fault_words *words) {
    struct kl_error *err = NULL;
    void *e = t_event();
    SUCCEED(kl_driver_submit(d, queue, NULL, 0, waits, n_waits, words, e, &err), err);
    return e;
}
static inline int t_wait(void *event) {
    int rc;
    while ((rc = d->ops->event_query(d, event)) == 0) d->ops->wait_any(d, &event, 1);
    return rc;
}
/* Waits until all commands in the queue have run. */
static inline void t_finish(void *queue, struct kl_fault_words *words) {
    void *e = t_submit(queue, NULL, 0, words);
    assert_int_equal(t_wait(e), 1);
    d->ops->event_free(d, e);
}
static inline void t_free(void *p, size_t bytes) {
    d->ops->free(d, p, bytes);
}
