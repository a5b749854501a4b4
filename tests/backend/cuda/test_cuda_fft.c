/* test_cuda_fft.c - Fourier transforms by cuFFT over fake_cuda.c and fake_cufft.c: how commands are
 * described to cuFFT, with results against the CPU's; which transforms use Keel's kernels; every
 * failure. */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "backend/cuda/fake_library.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/number/dtype.h"
#include "ops/build/params.h"

enum { MOST_RANK = 3, MAX_DIMS = 5, R2C = 0x2a, C2R = 0x2c, C2C = 0x29 };
struct asked { /* the same struct as in fake_cufft.c */
    int n_plans, n_live, n_executed, rank, type;
    long long n[MOST_RANK], in_stride, in_distance, out_stride, out_distance, batch;
};
static struct {
    void (*asked)(struct asked *out);
    bool (*refuse)(const char *call, int in, int code);
    void (*workspace)(size_t bytes);
} fake;

static void bind(const char *name, size_t at) {
    void *p = fake_symbol("libcufft.so", name);
    memcpy((char *)&fake + at, &p, sizeof p);
}

static void bind_fake(void) {
    name_fakes("KEEL_CUFFT");
    bind("fake_fft_asked", offsetof(typeof(fake), asked));
    bind("fake_fft_fail", offsetof(typeof(fake), refuse));
    bind("fake_fft_workspace", offsetof(typeof(fake), workspace));
}

static int setup(void **state) {
    bind_fake();
    open_device();
    return 0;
}

static struct asked asked(void) {
    struct asked a;
    fake.asked(&a);
    return a;
}

/* ---- commands ---- */

struct shape {
    enum kl_fft_kind kind;
    int ndim, dims[MAX_DIMS]; /* of the input */
    int n_axes, axes[MAX_DIMS];
    double scale;
    int n;       /* of kinds that are real on one side */
    bool gapped; /* in memory every other number is the input's */
};
struct operand {
    int dims[MAX_DIMS];
    int64_t strides[MAX_DIMS];
    float *host;
    void *block;
    size_t bytes;
};
struct command {
    struct kl_fft_buf p;
    struct operand o[2];
    struct kl_arg args[2];
    struct kl_command c;
};

static void make(struct kl_arg *arg, struct operand *o, enum kl_dtype dtype, int ndim,
                 const int *dims, bool gapped) {
    const int apart = gapped ? 2 : 1;
    int64_t size = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        o->dims[i] = dims[i];
        o->strides[i] = size * apart;
        size *= dims[i];
    }
    o->bytes = (size_t)size * (size_t)apart * kl_dtype_size(dtype);
    o->host = malloc(o->bytes);
    for (size_t i = 0; i < o->bytes / sizeof(float); i++)
        o->host[i] = (float)((i * 7 + i / 13) % 17) - 8;
    assert_int_equal(drv->ops->alloc(drv, o->bytes, &o->block, NULL), 0);
    assert_int_equal(drv->ops->write(drv, o->block, 0, o->host, o->bytes, NULL), 0);
    *arg = (struct kl_arg){.data = o->block,
                           .dtype = (uint8_t)dtype,
                           .ndim = ndim,
                           .size = size,
                           .dims = o->dims,
                           .strides = o->strides,
                           .layout = kl_layout_of(ndim, o->dims, o->strides)};
}

static void command(struct command *m, enum kl_dtype dtype, const struct shape *s) {
    const int last = s->axes[s->n_axes - 1];
    int dims[MAX_DIMS];
    m->p = (struct kl_fft_buf){.scale = s->scale, .kind = s->kind, .n = s->n, .n_axes = s->n_axes};
    memcpy(m->p.axes, s->axes, sizeof s->axes);
    memcpy(dims, s->dims, sizeof dims);
    if (s->kind == KL_FFT_FROM_REAL) dims[last] = s->n / 2 + 1;
    if (s->kind == KL_FFT_TO_REAL) dims[last] = s->n;
    make(&m->args[0], &m->o[0], dtype, s->ndim, s->dims, s->gapped);
    make(&m->args[1], &m->o[1], s->kind == KL_FFT_TO_REAL ? KL_F32 : KL_C64, s->ndim, dims, false);
    m->c = (struct kl_command){.kind = KL_CMD_LAUNCH,
                               .op = KL_OP_FFT,
                               .n_in = 1,
                               .n_out = 1,
                               .args = m->args,
                               .params = &m->p,
                               .params_bytes = sizeof m->p};
}

static void drop(struct command *m) {
    for (int i = 0; i < 2; i++) {
        drv->ops->free(drv, m->o[i].block, m->o[i].bytes);
        free(m->o[i].host);
    }
}

/* Asks the driver for a command, which may have a workspace of `room` bytes. *used: what it asked
 * for. */
enum { ROOM_GIVEN = 32 << 20 };
static int run_in(struct command *m, void *queue, bool dry, size_t room, size_t *used,
                  struct kl_error **err) {
    static __thread void *space; /* never freed */
    if (!space) assert_int_equal(drv->ops->alloc(drv, ROOM_GIVEN, &space, NULL), 0);
    struct kl_emit e = {.lowering = cu->driver.lowering,
                        .driver = &cu->driver,
                        .queue = queue,
                        .dry = dry,
                        .err = err,
                        .workspace = space,
                        .room = room};
    int rc = cu->driver.ops->override(&e, &m->c);
    if (used) *used = e.used;
    return rc;
}
static int try(struct command *m, bool dry, struct kl_error **err) {
    return run_in(m, dry ? NULL : q, dry, ROOM_GIVEN, NULL, err);
}

static int finish(void *queue) {
    struct kl_error *err = NULL;
    int rc = kl_cuda_chain_flush(cu, queue, &err);
    return rc ? rc : cu->api->StreamSynchronize(((struct kl_cuda_queue *)queue)->stream);
}

/* Whether the output on the device is that of the CPU, and the input as it was. */
static bool right(const struct command *m) {
    struct kl_arg args[2] = {m->args[0], m->args[1]};
    struct kl_error *err = NULL;
    const struct operand *in = &m->o[0], *out = &m->o[1];
    float *got = malloc(out->bytes), *was = malloc(in->bytes);
    double wrong = 0, all = 0;
    args[0].data = in->host;
    args[1].data = out->host;
    struct kl_launch l = {.op = KL_OP_FFT,
                          .params = &m->p,
                          .n_in = 1,
                          .n_out = 1,
                          .in = args,
                          .out = &args[1],
                          .fault = KL_NO_FAULT,
                          .err = &err};
    assert_int_equal(kl_cpu_kernel(KL_OP_FFT)(&l), KL_OK);
    assert_int_equal(drv->ops->read(drv, out->block, 0, got, out->bytes, NULL), 0);
    assert_int_equal(drv->ops->read(drv, in->block, 0, was, in->bytes, NULL), 0);
    for (size_t i = 0; i < out->bytes / sizeof(float); i++) {
        wrong += ((double)got[i] - out->host[i]) * ((double)got[i] - out->host[i]);
        all += (double)out->host[i] * out->host[i];
    }
    const bool same = memcmp(was, in->host, in->bytes) == 0;
    free(got);
    free(was);
    return same && wrong <= 1e-12 * all;
}

/* cuFFT must compute it, in so many calls: the check when the operation is encoded says so, and the
 * result is right. */
static void by_cufft_from(enum kl_dtype dtype, const struct shape *s, int calls) {
    struct command m;
    struct kl_error *err = NULL;
    size_t used = 0, again = 0;
    command(&m, dtype, s);
    const int before = asked().n_executed;
    const int rc = run_in(&m, NULL, true, 0, &used, &err);
    if (rc != 1)
        fail_msg("kind %d, %d axes of %d: %d, %s", (int)s->kind, s->n_axes, s->ndim, rc,
                 err ? err->message : "not taken");
    assert_int_equal(asked().n_executed, before);
    if (run_in(&m, q, false, used, &again, &err) != 1)
        fail_msg("%s", err ? err->message : "not taken at the launch");
    assert_int_equal(asked().n_executed, before + calls);
    assert_true(again <= used);
    assert_int_equal(finish(q), 0);
    if (!right(&m)) fail_msg("wrong: kind %d, %d axes of %d", (int)s->kind, s->n_axes, s->ndim);
    drop(&m);
}

static void by_cufft(const struct shape *s, int calls) {
    by_cufft_from(s->kind == KL_FFT_FROM_REAL ? KL_F32 : KL_C64, s, calls);
}

/* It must be left to Keel's kernels. */
static void by_kernels(enum kl_dtype dtype, const struct shape *s) {
    struct command m;
    struct kl_error *err = NULL;
    const struct asked before = asked();
    command(&m, dtype, s);
    assert_int_equal(try(&m, true, &err), 0);
    assert_int_equal(try(&m, false, &err), 0);
    assert_null(err);
    assert_int_equal(asked().n_plans, before.n_plans);
    drop(&m);
}

/* ---- tests ---- */

static void complex_ones(void **state) {
    static const struct {
        struct shape s;
        int calls;
    } cases[] = {
        {{KL_FFT_FORWARD, 2, {600, 30}, 1, {1}, .scale = 1}, 1},
        {{KL_FFT_INVERSE, 2, {600, 30}, 1, {1}, .scale = 0.25}, 1},
        {{KL_FFT_FORWARD, 2, {30, 600}, 1, {0}, .scale = 0.5}, 1},
        {{KL_FFT_INVERSE, 3, {4, 30, 160}, 1, {1}, .scale = 1}, 4},
        {{KL_FFT_FORWARD, 3, {20, 30, 40}, 2, {1, 2}, .scale = 2}, 1},
        {{KL_FFT_INVERSE, 3, {20, 30, 40}, 2, {2, 1}, .scale = 1}, 1},
        {{KL_FFT_FORWARD, 3, {20, 30, 40}, 3, {2, 0, 1}, .scale = 1}, 1},
        {{KL_FFT_FORWARD, 3, {20, 30, 40}, 2, {0, 1}, .scale = 1}, 1},
        {{KL_FFT_INVERSE, 4, {2, 9, 10, 100}, 2, {1, 2}, .scale = 1}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) by_cufft(&cases[i].s, cases[i].calls);
    const int plans = asked().n_plans;
    by_cufft(&cases[0].s, 1); /* with the plan of the first time */
    assert_int_equal(asked().n_plans, plans);
}

static void real_ones(void **state) {
    static const struct {
        struct shape s;
        int calls;
    } cases[] = {
        {{KL_FFT_FROM_REAL, 2, {600, 30}, 1, {1}, .scale = 1, .n = 30}, 1},
        {{KL_FFT_FROM_REAL, 2, {600, 31}, 1, {1}, .scale = 0.5, .n = 31}, 1},
        {{KL_FFT_FROM_REAL, 2, {30, 600}, 1, {0}, .scale = 1, .n = 30}, 1},
        {{KL_FFT_FROM_REAL, 3, {20, 30, 40}, 2, {1, 2}, .scale = 1, .n = 40}, 1},
        {{KL_FFT_FROM_REAL, 3, {20, 30, 40}, 3, {1, 0, 2}, .scale = 1, .n = 40}, 1},
        {{KL_FFT_TO_REAL, 2, {1100, 16}, 1, {1}, .scale = 1, .n = 30}, 1},
        {{KL_FFT_TO_REAL, 2, {1100, 16}, 1, {1}, .scale = 0.25, .n = 31}, 1},
        {{KL_FFT_TO_REAL, 3, {10, 110, 16}, 2, {1, 2}, .scale = 1, .n = 30}, 11},
        {{KL_FFT_TO_REAL, 3, {30, 40, 16}, 3, {0, 1, 2}, .scale = 0.5, .n = 31}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) by_cufft(&cases[i].s, cases[i].calls);
}

/* An input in another layout is copied. */
static void copies(void **state) {
    struct shape s = {KL_FFT_FROM_REAL, 2, {600, 30}, 1, {1}, .scale = 2, .n = 30, .gapped = true};
    struct command m;
    size_t used = 0;
    by_cufft(&s, 1);
    command(&m, KL_F32, &s);
    assert_int_equal(run_in(&m, NULL, true, 0, &used, NULL), 1);
    assert_true(used >= (size_t)600 * 30 * 4);
    drop(&m);
}

/* Real numbers where cuFFT takes complex ones. */
static void widened(void **state) {
    static const struct {
        struct shape s;
        int calls;
    } cases[] = {
        {{KL_FFT_FORWARD, 2, {600, 30}, 1, {1}, .scale = 1}, 1},
        {{KL_FFT_INVERSE, 3, {20, 30, 40}, 2, {1, 2}, .scale = 0.5, .gapped = true}, 1},
        {{KL_FFT_TO_REAL, 2, {1100, 16}, 1, {1}, .scale = 1, .n = 30}, 1},
        {{KL_FFT_TO_REAL, 3, {30, 40, 16}, 3, {0, 1, 2}, .scale = 1, .n = 31}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        by_cufft_from(KL_F32, &cases[i].s, cases[i].calls);
}

static void not_for_cufft(void **state) {
    static const struct {
        struct shape s;
        enum kl_dtype dtype;
    } cases[] = {
        {{KL_FFT_FORWARD, 2, {6, 30}, 1, {1}, .scale = 1}, KL_C64},   /* small */
        {{KL_FFT_FORWARD, 2, {600, 30}, 1, {1}, .scale = 1}, KL_F64}, /* other types */
        {{KL_FFT_FROM_REAL, 2, {600, 30}, 1, {1}, .scale = 1, .n = 30}, KL_F64},
        {{KL_FFT_FORWARD, 3, {20, 30, 40}, 2, {0, 2}, .scale = 1}, KL_C64}, /* axes apart */
        {{KL_FFT_FROM_REAL, 3, {20, 30, 40}, 2, {2, 1}, .scale = 1, .n = 30}, KL_F32},
        {{KL_FFT_FORWARD, 4, {10, 12, 11, 13}, 4, {0, 1, 2, 3}, .scale = 1},
         KL_C64},                                                              /* many axes */
        {{KL_FFT_FORWARD, 3, {200, 30, 4}, 1, {1}, .scale = 1}, KL_C64},       /* many calls */
        {{KL_FFT_FORWARD, 3, {3, 11, 501}, 1, {1}, .scale = 1}, KL_C64},       /* alignment */
        {{KL_FFT_TO_REAL, 2, {30, 600}, 1, {0}, .scale = 1, .n = 58}, KL_C64}, /* bins apart */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        by_kernels(cases[i].dtype, &cases[i].s);
    by_kernels(KL_C64, &(struct shape){KL_FFT_FORWARD, 2, {0, 30}, 1, {1}, .scale = 1});
}

/* A shape that no test has asked for. */
static struct shape fresh(void) {
    static int rows = 701;
    return (struct shape){KL_FFT_INVERSE, 2, {rows++, 25}, 1, {1}, .scale = 1};
}

/* Our own kernels may take cuFFT's place at the launch, so they have room for it. */
static void workspace(void **state) {
    struct shape s = {KL_FFT_FORWARD, 1, {1 << 16}, 1, {0}, .scale = 1};
    struct command m;
    size_t used = 0;
    fake.workspace(0);
    command(&m, KL_C64, &s);
    assert_int_equal(run_in(&m, NULL, true, 0, &used, NULL), 1);
    assert_true(used >= (size_t)8 << 16);
    drop(&m);
    s = fresh();
    by_cufft(&s, 1);
    fake.workspace(1 << 16);
    s = fresh();
    command(&m, KL_C64, &s);
    struct kl_error *err = NULL;
    assert_int_equal(run_in(&m, q, false, 100, NULL, &err), KL_EINTERNAL);
    kl_error_release(err);
    drop(&m);
}

/* A plan that cannot be made leaves the transform to our own kernels from then on. */
static void refusals(void **state) {
    static const char *const calls[] = {"Create", "SetAutoAllocation", "MakePlan"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct command m;
        struct kl_error *err = NULL;
        struct shape s = fresh();
        command(&m, KL_C64, &s);
        const int live = asked().n_live;
        fake.refuse(calls[i], 0, 2);
        assert_int_equal(try(&m, true, &err), 0);
        assert_false(fake.refuse(NULL, 0, 0));
        assert_int_equal(asked().n_live, live);
        assert_int_equal(try(&m, true, &err), 0);
        assert_int_equal(try(&m, false, &err), 0);
        assert_null(err);
        drop(&m);
    }
}

/* cuFFT fails at the launch: our own kernels compute this transform and later ones. */
static void failures(void **state) {
    static const struct {
        const char *call;
        int in;
        enum kl_fft_kind kind;
    } cases[] = {{"SetStream", 0, KL_FFT_FORWARD}, {"SetWorkArea", 0, KL_FFT_FORWARD},
                 {"Exec", 0, KL_FFT_FORWARD},      {"Exec", 0, KL_FFT_TO_REAL},
                 {"Exec", 1, KL_FFT_TO_REAL},      {"SetStream", 1, KL_FFT_TO_REAL}};
    struct kl_error *err = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct command m;
        struct shape s = fresh();
        size_t used = 0;
        s.kind = cases[i].kind;
        if (s.kind == KL_FFT_TO_REAL) {
            s.n_axes = 2;
            s.axes[0] = 0;
            s.axes[1] = 1;
            s.n = 48;
        }
        command(&m, KL_C64, &s);
        assert_int_equal(try(&m, true, &err), 1);
        fake.refuse(cases[i].call, cases[i].in, 6);
        assert_int_equal(run_in(&m, q, false, ROOM_GIVEN, &used, &err), 0);
        assert_false(fake.refuse(NULL, 0, 0));
        assert_int_equal(used, 0);
        assert_int_equal(try(&m, false, &err), 0);
        assert_null(err);
        assert_int_equal(finish(q), 0);
        drop(&m);
    }
    /* There is no memory for the record of the plan. */
    struct command m;
    struct shape s = fresh();
    command(&m, KL_C64, &s);
    kl_test_fail_alloc_at(0);
    assert_int_equal(try(&m, true, &err), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    assert_int_equal(try(&m, true, NULL), 1);
    drop(&m);
}

struct caller {
    pthread_t thread;
    void *queue;
    int bad;
};
static void *transforms(void *arg) {
    struct caller *c = arg;
    struct kl_error *err = NULL;
    for (int i = 0; i < 6; i++) {
        struct command m;
        struct shape s = {KL_FFT_FORWARD, 2, {1000, 20 + i % 3}, 1, {1}, .scale = 0.5};
        command(&m, KL_C64, &s);
        c->bad |= kl_cuda_enter(cu, &err) != 0;
        c->bad |= run_in(&m, c->queue, false, ROOM_GIVEN, NULL, &err) != 1;
        c->bad |= finish(c->queue) != 0;
        c->bad |= !right(&m);
        drop(&m);
    }
    return NULL;
}

/* The queues share plans, each of which has one stream and one work area at a time. */
static void threads(void **state) {
    static struct caller c[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(drv->ops->queue_new(drv, i, &c[i].queue, NULL), 0);
        assert_int_equal(pthread_create(&c[i].thread, NULL, transforms, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].bad, 0);
    }
}

/* The number of remembered plans is bounded; transforms beyond are left to our own kernels. */
static void many(void **state) {
    struct command m;
    struct shape s = fresh();
    command(&m, KL_C64, &s);
    int n = 0;
    for (int i = 0; i < 1100; i++) {
        m.o[0].dims[0] = m.o[1].dims[0] = 3000 + i; /* only described */
        int rc = try(&m, true, NULL);
        assert_true(rc == 0 || rc == 1);
        n += rc;
    }
    assert_true(n > 500 && n < 1024);
    by_cufft(&(struct shape){KL_FFT_FORWARD, 2, {600, 30}, 1, {1}, .scale = 1}, 1);
    drop(&m);
}

/* Runs in a process of its own, which has not loaded cuFFT yet. */
static int alone(const char *library, const char *says) {
    const char *key = NULL;
    struct kl_error *err = NULL;
    struct command m;
    struct shape s = fresh();
    setenv("KEEL_CUFFT", library, 1);
    open_device();
    command(&m, KL_C64, &s);
    int bad = try(&m, true, &err) != 0;
    bad |= (try(&m, false, &err) != 0) << 1 | (err != NULL) << 2;
    const char *why = kl_cuda_lacks(3, &key);
    bad |= (strcmp(key, "missing_cufft") != 0) << 3;
    bad |= (!why || !strstr(why, says)) << 4;
    if (bad) printf("%s: %d, %s\n", library, bad, why ? why : "there");
    fflush(stdout);
    return bad;
}

static void missing(void **state) {
    char path[4300];
    bind_fake();
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", fakes);
    const char *const cases[][2] = {
        {"/nonexistent/libcufft.so", "KEEL_CUFFT=/nonexistent/libcufft.so"},
        {"none", "KEEL_CUFFT=none"},
        {path, "libnvrtc.so has no cufftCreate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) _exit(alone(cases[i][0], cases[i][1]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(void) {
    const struct CMUnitTest before[] = {cmocka_unit_test(missing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complex_ones),  cmocka_unit_test(real_ones),
        cmocka_unit_test(copies),        cmocka_unit_test(widened),
        cmocka_unit_test(not_for_cufft), cmocka_unit_test(workspace),
        cmocka_unit_test(refusals),      cmocka_unit_test(failures),
        cmocka_unit_test(threads),       cmocka_unit_test(many),
    };
    int rc = cmocka_run_group_tests(before, NULL, NULL);
    return rc ? rc : cmocka_run_group_tests(tests, setup, NULL);
}
