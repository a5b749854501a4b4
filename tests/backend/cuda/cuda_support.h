/* cuda_support.h - what the tests of the CUDA driver share: a device under test, test kernels,
 * submissions. The same tests run on fake_cuda.c, which implements the kernels by name, and on a
 * real device, which compiles them. */
#pragma once
#include "backend/cuda/cuda.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/driver/steps.h"
#include "backend/gpu/gpu_internal.h"
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

static struct kl_cuda *cu;

static struct kl_driver *drv;

static const char kernels_text[] =
    "KERNEL(count)(PTR(out), u32 first, u32 n) {\n"
    "    if (gid() < n) AT(u32, out)[gid()] = first + (u32)gid();\n"
    "}\n"
    "KERNEL(add_one)(PTR(in), PTR(out), u32 n) {\n"
    "    if (gid() < n) AT(u32, out)[gid()] = AT(u32, in)[gid()] + 1;\n"
    "}\n"
    "KERNEL(raise)(PTR(word), u32 index, u32 position) {\n"
    "    if (gid() == 0) fault(AT(u32, word), (int)index, position);\n"
    "}\n"
    "KERNEL(crash)(PTR(nowhere)) {\n"
    "    AT(u32, nowhere)[gid()] = 1;\n"
    "}\n"
    "KERNEL(nothing)(u32 n) {\n"
    "}\n";

/* The parameters of a command of a test. */
struct test_launch {
    const char *entry;
    const char *source; /* NULL stands for kernels_text */
    struct kl_karg args[4];
    int n_args;
    uint32_t n; /* work-items */
};

static inline int test_override(struct kl_emit *e, const struct kl_command *c) {
    const struct test_launch *t = c->params;
    int rc = kl_emit_source(e, "test", t->source ? t->source : kernels_text, t->entry,
                            (t->n + 255) / 256, 256, t->args, t->n_args);
    return rc ? rc : 1;
}

static struct kl_driver_ops test_ops;

static inline void open_device(void) {
    struct kl_backend *b = NULL;
    struct kl_error *e = NULL;
    setenv("KEEL_CACHE_DIR", "", 1);
    if (kl_cuda_open(0, &b, &e)) fail_msg("%s", e->message);
    drv = kl_gpu_device_of(b)->driver;
    cu = kl_cuda_of(drv);
    test_ops = *cu->driver.ops;
    test_ops.override = test_override;
    cu->driver.ops = &test_ops;
}

static inline void *device_block(size_t bytes) {
    void *p = NULL;
    WELL(drv->ops->alloc(drv, bytes, &p, &err));
    return p;
}

static inline void device_free(void *p, size_t bytes) {
    drv->ops->free(drv, p, bytes);
}

/* Keeps a pointer to objects that are never freed, so that leak checkers find them: queues, and
 * events of a lost device that still has a notification outstanding. */
static inline void keep(void *q) {
    static void *kept[256];
    static int n;
    assert_true(n < 256);
    kept[n++] = q;
    assert_non_null(kept[0]);
}

static inline void *new_queue(void) {
    void *q = NULL;
    WELL(drv->ops->queue_new(drv, 0, &q, &err));
    keep(q);
    return q;
}

static inline void *new_event(void) {
    void *e = NULL;
    WELL(drv->ops->event_new(drv, &e, &err));
    return e;
}

static inline struct test_launch count(void *out, const uint32_t *first, const uint32_t *n) {
    return (struct test_launch){
        "count", NULL, {KL_KARG_PTR(out, 1), KL_KARG(*first), KL_KARG(*n)}, 3, *n};
}

static inline struct test_launch add_one(void *in, void *out, const uint32_t *n) {
    return (struct test_launch){
        "add_one", NULL, {KL_KARG_PTR(in, 1), KL_KARG_PTR(out, 1), KL_KARG(*n)}, 3, *n};
}

static inline struct test_launch raise_fault(void *words, const uint32_t *index,
                                             const uint32_t *position) {
    return (struct test_launch){
        "raise", NULL, {KL_KARG_PTR(words, 1), KL_KARG(*index), KL_KARG(*position)}, 3, 1};
}

static inline struct test_launch crash(void) {
    return (struct test_launch){"crash", NULL, {KL_KARG_PTR(NULL, 1)}, 1, 1};
}

enum { MOST = 160 }; /* the most commands of one submission */
static inline int submit(void *q, const struct test_launch *launches, int n, void *wait,
                         struct kl_fault_words *brings_back, void *signal, struct kl_error **err) {
    static struct kl_command c[MOST];
    memset(c, 0, sizeof c);
    assert_true(n <= MOST);
    for (int i = 0; i < n; i++)
        c[i] = (struct kl_command){.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .params = &launches[i]};
    return kl_driver_submit(drv, q, c, n, &wait, wait ? 1 : 0, brings_back, signal, err);
}

/* Waits as the settlement thread does. */
static inline void wait_for(void *event) {
    while (drv->ops->event_query(drv, event) == 0) drv->ops->wait_any(drv, &event, 1);
    assert_int_equal(drv->ops->event_query(drv, event), 1);
}

/* ---- tests that run on both ---- */

static inline void check_count(void *p, uint32_t first, uint32_t n) {
    uint32_t *v = malloc(n * sizeof *v);
    WELL(drv->ops->read(drv, p, 0, v, n * sizeof *v, &err));
    for (uint32_t i = 0; i < n; i++) assert_int_equal(v[i], first + i);
    free(v);
}

/* Submits a chain of launches, each of which needs the one before, with several kernels by turns.
 * Each queue runs it twice, so that the memory for arguments is used again. */
/* In these two blocks of n numbers. */
static inline void run_chain_in(void *q, int length, uint32_t first, void **p, uint32_t n) {
    void *e = new_event();
    struct test_launch l[MOST];
    l[0] = count(p[0], &first, &n);
    for (int i = 1; i < length; i++) l[i] = add_one(p[(i - 1) % 2], p[i % 2], &n);
    WELL(submit(q, l, length, NULL, NULL, e, &err));
    wait_for(e);
    check_count(p[(length - 1) % 2], first + (uint32_t)length - 1, n);
    drv->ops->event_free(drv, e);
}

static inline void run_chain(void *q, int length, uint32_t first) {
    uint32_t n = 300 + (uint32_t)length % 700;
    void *p[] = {device_block(n * 4), device_block(n * 4)};
    run_chain_in(q, length, first, p, n);
    device_free(p[0], n * 4);
    device_free(p[1], n * 4);
}
