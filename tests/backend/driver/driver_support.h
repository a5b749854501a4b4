/* driver_support.h - the driver under test, chosen by name, and what the suites do with it:
 * blocks, queues, events, and commands that every driver can run.
 *
 * A command of the suites is a CALL. A driver with the slot `run` calls its function, which does on
 * the host what the kernel of that name does; elsewhere `override` launches the kernel. So the same
 * suites run on drivers that compile kernels, on the fake CUDA, which knows these kernels by name,
 * and on the simulated device. */
#pragma once
#include "support.h"

#include <libgen.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/driver/empty_driver.h"
#include "backend/driver/steps.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/lower/lower.h"
#include "backend/metal/metal.h"
#include "backend/opencl/opencl.h"
#include "backend/sim/sim.h"
#include "base/op/op_params.h"
#include "platform/self.h"

static struct kl_driver *drv;

/* ---- commands ---- */

static const char kernels_text[] =
    "KERNEL(count)(PTR(out), PARAM(u32, first), PARAM(u32, n)) {\n"
    "    if (gid() < n) AT(u32, out)[gid()] = first + (u32)gid();\n"
    "}\n"
    "KERNEL(add_one)(PTR(in), PTR(out), PARAM(u32, n)) {\n"
    "    if (gid() < n) AT(u32, out)[gid()] = AT(u32, in)[gid()] + 1;\n"
    "}\n"
    "KERNEL(raise)(PTR(word), PARAM(u32, index), PARAM(u32, position)) {\n"
    "    if (gid() == 0) fault(AT(u32, word), (int)index, position);\n"
    "}\n"
    "KERNEL(nothing)(PARAM(u32, n)) {\n"
    "}\n";

struct call {
    struct kl_call_params params; /* first: the parameters of CALL */
    const char *entry, *source;   /* source: NULL stands for kernels_text */
    uint32_t *in, *out;
    uint32_t first, n; /* first: of raise, the position */
    struct kl_word_ref word;
    struct kl_karg args[4];
    int n_args;
};

static int on_host(void *ctx, struct kl_launch *l, struct kl_error **err) {
    const struct call *c = ctx;
    if (strcmp(c->entry, "raise") == 0) return -(int)c->first;
    for (uint32_t i = 0; i < c->n; i++) c->out[i] = c->in ? c->in[i] + 1 : c->first + i;
    return KL_OK;
}

static int on_device(struct kl_emit *e, const struct kl_command *command) {
    const struct call *c = command->params;
    if (command->op != KL_OP_CALL) return 0;
    int rc = kl_emit_source(e, "suite", c->source ? c->source : kernels_text, c->entry,
                            (c->n + 255) / 256, 256, c->args, c->n_args);
    return rc ? rc : 1;
}

/* These fill a call that stays where it is: its arguments are its own fields. */
static void make_call(struct call *c, const char *entry) {
    c->entry = entry;
    c->params = (struct kl_call_params){.name = entry, .fn = on_host, .ctx = c};
}
/* out[i] = first + i */
static void count(struct call *c, void *out, uint32_t first, uint32_t n) {
    *c = (struct call){.out = out, .first = first, .n = n, .n_args = 3};
    c->args[0] = KL_KARG_PTR(out, 4);
    c->args[1] = KL_KARG(c->first);
    c->args[2] = KL_KARG(c->n);
    make_call(c, "count");
}
/* out[i] = in[i] + 1 */
static void add_one(struct call *c, void *in, void *out, uint32_t n) {
    *c = (struct call){.in = in, .out = out, .n = n, .n_args = 3};
    c->args[0] = KL_KARG_PTR(in, 4);
    c->args[1] = KL_KARG_PTR(out, 4);
    c->args[2] = KL_KARG(c->n);
    make_call(c, "add_one");
}
static void raise_fault(struct call *c, struct kl_fault_words *w, int index, uint32_t position) {
    *c = (struct call){.word = {w, index}, .first = position, .n = 1, .n_args = 3};
    c->args[0] = KL_KARG_PTR(w->device, KL_WORDS_ITEM);
    c->args[1] = KL_KARG(c->word.index);
    c->args[2] = KL_KARG(c->first);
    make_call(c, "raise");
}
/* A kernel that takes no arguments, of this source. */
static void of_source(struct call *c, const char *entry, const char *source) {
    *c = (struct call){.source = source, .n = 1};
    make_call(c, entry);
}

/* ---- the drivers ---- */

enum {
    WORKS = 1,     /* the driver supports what every driver has to */
    EMPTY = 2,     /* it supports nothing */
    PROGRAMS = 4,  /* it compiles and launches kernels */
    RUNS = 8,      /* it runs commands by the slot `run` */
    SHARES = 16,   /* host and device share memory */
    COMPILES = 32, /* its compiler reads the sources, which the fake one does not */
    COUNTS = 64,   /* its queues have counters for the groups of a launch */
};
static const char *const capability_names[] = {"a driver that supports something",
                                               "a driver that supports nothing",
                                               "programs",
                                               "commands run without programs",
                                               "memory shared with the host",
                                               "a compiler that reads the source",
                                               "counters of groups"};

static void open_sim(struct kl_backend **b, struct kl_error **err) {
    if (kl_sim_open(0, b, err) == KL_OK) kl_sim_budget(0, (size_t)1 << 30);
}

static void open_opencl(struct kl_backend **b, struct kl_error **err) {
    const char *why = NULL;
    setenv("POCL_MEMORY_LIMIT", "1", 1); /* GiB */
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (kl_opencl_count(&why) < 1) fail_msg("no OpenCL device: %s", why);
    kl_opencl_open(0, b, err);
}

static void open_cuda(struct kl_backend **b, struct kl_error **err) {
    const char *why = NULL;
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (kl_cuda_count(&why) < 1 || why) fail_msg("no CUDA device: %s", why);
    kl_cuda_open(0, b, err);
}

/* The fake libraries are in the folder fake/ next to this program. */
static void open_fake_cuda(struct kl_backend **b, struct kl_error **err) {
    char self[4096], path[4200];
    (void)t_self(self, sizeof self);
    const char *dir = dirname(self);
    snprintf(path, sizeof path, "%s/fake", dir);
    setenv("KEEL_CUDA_PATH", path, 1);
    snprintf(path, sizeof path, "%s/fake/lib64/libcuda.so", dir);
    setenv("KEEL_CUDA_DRIVER", path, 1);
    open_cuda(b, err);
}

static void open_metal(struct kl_backend **b, struct kl_error **err) {
    const char *why = NULL;
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (kl_metal_count(&why) < 1) fail_msg("no device of Metal: %s", why);
    kl_metal_open(0, b, err);
}

static void open_empty(struct kl_backend **b, struct kl_error **err) {
    empty_open(0, b, err);
}

static const struct row {
    const char *name;
    unsigned can; /* SHARES is asked of the driver */
    void (*open)(struct kl_backend **b, struct kl_error **err);
} rows[] = {
    {"sim", WORKS | RUNS, open_sim},
    {"opencl", WORKS | PROGRAMS | COMPILES, open_opencl},
    {"fake_cuda", WORKS | PROGRAMS | COUNTS, open_fake_cuda},
    {"cuda", WORKS | PROGRAMS | COMPILES | COUNTS, open_cuda},
    {"metal", WORKS | PROGRAMS | COMPILES, open_metal},
    {"empty", EMPTY | PROGRAMS, open_empty},
};

static struct kl_driver_ops with_kernels;

/* Opens the driver that KEEL_TEST_DRIVER, or else KEEL_TEST_GPU, names; else the simulated device.
 * Returns what it can do. */
static unsigned open_driver(const char **name) {
    const char *want = getenv("KEEL_TEST_DRIVER");
    if (!want || !*want) want = getenv("KEEL_TEST_GPU");
    if (!want || !*want) want = "sim";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kl_backend *b = NULL;
        struct kl_error *err = NULL;
        if (strcmp(want, rows[i].name) != 0) continue;
        rows[i].open(&b, &err);
        if (!b) fail_msg("%s: %s", want, err ? err->message : "it does not open");
        drv = kl_gpu_device_of(b)->driver;
        if (rows[i].can & WORKS && rows[i].can & PROGRAMS) {
            with_kernels = *drv->ops;
            with_kernels.override = on_device;
            drv->ops = &with_kernels;
        }
        *name = rows[i].name;
        return rows[i].can | (rows[i].can & WORKS && drv->shares ? SHARES : 0u);
    }
    fail_msg("KEEL_TEST_DRIVER=%s names no driver", want);
    return 0;
}

/* ---- steps that succeed, or the test fails with the driver's message ---- */

static inline void *new_block(size_t bytes) {
    void *p = NULL;
    WELL(drv->ops->alloc(drv, bytes, &p, &err));
    return p;
}
static inline void free_block(void *p, size_t bytes) {
    drv->ops->free(drv, p, bytes);
}
/* Queues and chunks of words are never freed; the table keeps leak checkers from reporting them. */
static inline void keep(void *p) {
    static void *kept[256];
    static int n;
    assert_true(n < 256);
    kept[n++] = p;
    assert_non_null(kept[0]);
}
static inline void *new_queue(void) {
    static int index;
    void *q = NULL;
    WELL(drv->ops->queue_new(drv, index++, &q, &err));
    keep(q);
    return q;
}
static inline void *new_event(void) {
    void *e = NULL;
    WELL(drv->ops->event_new(drv, &e, &err));
    return e;
}
static inline struct kl_fault_words *new_words(void) {
    static struct kl_fault_words chunks[80];
    static int n;
    assert_true(n < 80);
    WELL(drv->ops->words_new(drv, &chunks[n], &err));
    return &chunks[n++];
}

enum { MOST = 80 }; /* commands of one submission */
/* The commands live until the event is complete. */
struct commands {
    struct kl_command c[MOST];
};
static inline int submit(void *q, struct commands *s, struct call *calls, int n, void *wait,
                         struct kl_fault_words *brings_back, void *signal, struct kl_error **err) {
    assert_true(n <= MOST);
    for (int i = 0; i < n; i++)
        s->c[i] = (struct kl_command){.kind = KL_CMD_LAUNCH,
                                      .op = KL_OP_CALL,
                                      .name = calls[i].entry,
                                      .params = &calls[i],
                                      .params_bytes = sizeof calls[i],
                                      .word = calls[i].word};
    return kl_driver_submit(drv, q, s->c, n, &wait, wait ? 1 : 0, brings_back, signal, err);
}
static inline int prepare(struct call *call, size_t *bytes, struct kl_error **err) {
    const struct kl_command c = {
        .kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = call->entry, .params = call};
    return kl_driver_prepare(drv, &c, bytes, err);
}
/* Waits as the settlement thread does. */
static inline void wait_for(void *event) {
    while (drv->ops->event_query(drv, event) == 0) drv->ops->wait_any(drv, &event, 1);
    assert_int_equal(drv->ops->event_query(drv, event), 1);
}
/* Runs the calls on the queue and waits for them. */
static inline void run(void *q, struct call *calls, int n, struct kl_fault_words *brings_back) {
    struct commands s;
    void *e = new_event();
    WELL(submit(q, &s, calls, n, NULL, brings_back, e, &err));
    wait_for(e);
    drv->ops->event_free(drv, e);
}
static inline void expect_count(void *p, uint32_t first, uint32_t n) {
    uint32_t *v = malloc(n * sizeof *v);
    WELL(drv->ops->read(drv, p, 0, v, n * sizeof *v, &err));
    for (uint32_t i = 0; i < n; i++)
        if (v[i] != first + i) fail_msg("element %u is %u, not %u", i, v[i], first + i);
    free(v);
}
/* Makes the words valid on the host as settlement does. */
static inline void fetch(struct kl_fault_words *w) {
    if (w->host[0] != KL_WORD_CLEAR && drv->ops->words_fetch)
        WELL(drv->ops->words_fetch(drv, w, &err));
}
static inline void expect_clear(struct kl_fault_words *w) {
    for (int k = 0; k < KL_WORDS; k++) assert_int_equal(w->host[k], KL_WORD_CLEAR);
}
