/* test_cuda_dnn.c - convolutions by cuDNN over fake_cuda.c and fake_cudnn.c: how commands and their
 * gradients are described to cuDNN, against plain loops; which engines are taken; which
 * convolutions use Keel's kernels; every failure. */
#include <sys/wait.h>

#include "backend/cuda/fake_library.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum { MAX_NOTES = 4, N_DESCS = 8 /* that a remembered convolution keeps */ };
struct engine { /* the same structs as in fake_cudnn.c */
    int n_notes, notes[MAX_NOTES], n_behaviours, behaviours[MAX_NOTES];
    int64_t workspace;
    bool unsupported;
};
struct asked {
    int n_handles, n_heuristics, n_executed, n_live, n_streams, mode, kind, engine;
    int64_t dims[3][5], alignment[3];
    int64_t type, compute;
    bool has_workspace;
};
static struct {
    void (*asked)(struct asked *out);
    bool (*refuse)(const char *call, int in, int code);
    void (*engines)(const struct engine *engines, int n);
} fake;
enum { FORWARD = 10, FILTER_GRADIENT = 11, DATA_GRADIENT = 12 };

enum { MAX_DIMS = 5, ROOM = 1 << 20 /* ROOM: elements of an operand's block */ };
static float numbers[ROOM]; /* the elements of every operand */

static void bind(const char *name, size_t at) {
    void *p = fake_symbol("libcudnn.so", name);
    memcpy((char *)&fake + at, &p, sizeof p);
}

static void bind_fake(void) {
    name_fakes("KEEL_CUDNN");
    bind("fake_dnn_asked", offsetof(typeof(fake), asked));
    bind("fake_dnn_fail", offsetof(typeof(fake), refuse));
    bind("fake_dnn_engines", offsetof(typeof(fake), engines));
}

static int setup(void **state) {
    for (int i = 0; i < ROOM; i++) numbers[i] = (float)((i * 7 + i / 13) % 17 - 8);
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

enum layout { PLAIN, EXCHANGED /* first and last axis, in memory */, REVERSED, GAPPED };

struct operand {
    int dims[MAX_DIMS];
    int64_t strides[MAX_DIMS], zero; /* zero: offset of element 0 in the block */
    void *block;
};
struct conv {
    struct kl_convolution_params p;
    int x[MAX_DIMS], w[MAX_DIMS];
    enum layout x_layout, w_layout;
};
struct command {
    struct kl_convolution_params p;
    struct operand o[3];
    struct kl_arg args[3];
    struct kl_command c;
};

static void make(struct kl_arg *arg, struct operand *o, enum kl_dtype dtype, int ndim,
                 const int *dims, enum layout layout) {
    int64_t each = layout == GAPPED ? 2 : 1, size = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        const int axis = layout == EXCHANGED && (i == 0 || i == ndim - 1) ? ndim - 1 - i : i;
        o->dims[axis] = dims[axis];
        o->strides[axis] = each;
        each *= dims[axis];
        size *= dims[axis];
    }
    assert_true(each <= ROOM);
    o->zero = 0;
    if (layout == REVERSED) {
        o->zero = (dims[1] - 1) * o->strides[1];
        o->strides[1] = -o->strides[1];
    }
    assert_int_equal(drv->ops->alloc(drv, ROOM * sizeof(float), &o->block, NULL), 0);
    /* What goes to the queue here does not wait for writes that are only posted. */
    size_t bytes = (size_t)each * sizeof(float);
    if (bytes <= KL_POSTED_MOST) bytes = KL_POSTED_MOST + 1;
    assert_int_equal(drv->ops->write(drv, o->block, 0, numbers, bytes, NULL), 0);
    *arg = (struct kl_arg){.data = (char *)o->block + (size_t)o->zero * kl_dtype_size(dtype),
                           .dtype = (uint8_t)dtype,
                           .ndim = ndim,
                           .size = size,
                           .dims = o->dims,
                           .strides = o->strides};
}

static void command(struct command *m, enum kl_dtype dtype, const struct conv *k) {
    const int n = k->p.ndim;
    int dims[MAX_DIMS] = {k->x[0]};
    m->p = k->p;
    for (int i = 0; i < n; i++) {
        if (!m->p.stride[i]) m->p.stride[i] = 1;
        if (!m->p.dilation[i]) m->p.dilation[i] = 1;
        if (!m->p.input_dilation[i]) m->p.input_dilation[i] = 1;
        const int there =
                      (k->x[1 + i] - 1) * m->p.input_dilation[i] + 1 + m->p.low[i] + m->p.high[i],
                  reach = (k->w[1 + i] - 1) * m->p.dilation[i] + 1;
        assert_true(there >= reach);
        dims[1 + i] = (there - reach) / m->p.stride[i] + 1;
    }
    if (!m->p.groups) m->p.groups = 1;
    dims[1 + n] = k->w[0];
    make(&m->args[0], &m->o[0], dtype, n + 2, k->x, k->x_layout);
    make(&m->args[1], &m->o[1], dtype, n + 2, k->w, k->w_layout);
    make(&m->args[2], &m->o[2], dtype, n + 2, dims, PLAIN);
    m->c = (struct kl_command){.kind = KL_CMD_LAUNCH,
                               .op = KL_OP_CONVOLUTION,
                               .n_in = 2,
                               .n_out = 1,
                               .args = m->args,
                               .params = &m->p,
                               .params_bytes = sizeof m->p};
}

static void drop(struct command *m) {
    for (int i = 0; i < 3; i++) drv->ops->free(drv, m->o[i].block, ROOM * sizeof(float));
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
    return cu->api->StreamSynchronize(((struct kl_cuda_queue *)queue)->stream);
}

/* Where an element of the filter meets the input at one place of the output. */
struct meeting {
    int64_t in_x, in_w;
    bool there;
};
__attribute__((no_sanitize_thread)) static struct meeting
meet(const struct command *m, const int *at_out, const int *at_k, const int *taps) {
    const struct kl_convolution_params *p = &m->p;
    const struct operand *x = &m->o[0], *w = &m->o[1];
    struct meeting r = {x->zero, w->zero, true};
    for (int i = 0; i < p->ndim; i++) {
        const int s = at_out[i] * p->stride[i] + at_k[i] * p->dilation[i] - p->low[i];
        r.there = r.there && s >= 0 && s % p->input_dilation[i] == 0 &&
                  s / p->input_dilation[i] < x->dims[1 + i];
        r.in_x += s / p->input_dilation[i] * x->strides[1 + i];
        r.in_w += (p->flip ? taps[i] - 1 - at_k[i] : at_k[i]) * w->strides[1 + i];
    }
    return r;
}

/* Whether the output on the device is the convolution. The numbers are small integers, so there is
 * no rounding. The thread sanitizer would see but one thread. */
__attribute__((no_sanitize_thread)) static bool right(const struct command *m) {
    const struct operand *x = &m->o[0], *w = &m->o[1], *y = &m->o[2];
    const int n = m->p.ndim, each = w->dims[n + 1], of_group = w->dims[0] / m->p.groups;
    const int64_t step_x = x->strides[n + 1], step_w = w->strides[n + 1], step_o = w->strides[0];
    int out[3] = {1, 1, 1}, k[3] = {1, 1, 1};
    const size_t bytes = (size_t)m->args[2].size * sizeof(float);
    float *got = malloc(bytes), *sum = malloc((size_t)w->dims[0] * sizeof *sum);
    assert_int_equal(drv->ops->read(drv, y->block, 0, got, bytes, NULL), 0);
    for (int i = 0; i < n; i++) {
        out[i] = y->dims[1 + i];
        k[i] = w->dims[1 + i];
    }
    const int64_t places = (int64_t)out[0] * out[1] * out[2], taps = (int64_t)k[0] * k[1] * k[2];
    bool same = true;
    for (int64_t place = 0; place < x->dims[0] * places; place++) {
        const int at_out[3] = {(int)(place / out[2] / out[1] % out[0]),
                               (int)(place / out[2] % out[1]), (int)(place % out[2])};
        memset(sum, 0, (size_t)w->dims[0] * sizeof *sum);
        for (int64_t tap = 0; tap < taps; tap++) {
            const int at_k[3] = {(int)(tap / k[2] / k[1]), (int)(tap / k[2] % k[1]),
                                 (int)(tap % k[2])};
            const struct meeting at = meet(m, at_out, at_k, k);
            const int64_t in_x = at.in_x + place / places * x->strides[0];
            for (int o = 0; o < w->dims[0] && at.there; o++) {
                const int64_t from = in_x + o / of_group * each * step_x;
                for (int c = 0; c < each; c++)
                    sum[o] +=
                        numbers[from + c * step_x] * numbers[at.in_w + o * step_o + c * step_w];
            }
        }
        same = same && !memcmp(sum, got + place * w->dims[0], (size_t)w->dims[0] * sizeof *sum);
    }
    free(sum);
    free(got);
    return same;
}

/* cuDNN must compute the convolution, as an operation of this kind: the check when the operation is
 * encoded says so, and the result is right. copies: the filter has to be copied. */
static void by_cudnn(const struct conv *k, int kind, bool copies) {
    if (!kl_test_takes("cpu", 4)) return;
    struct command m;
    struct kl_error *err = NULL;
    size_t used = 0, again = 0;
    command(&m, KL_F32, k);
    const int before = asked().n_executed;
    int rc = run_in(&m, NULL, true, 0, &used, &err);
    if (rc != 1)
        fail_msg("%d x %d by %d x %d: %d, %s", k->x[0], k->x[1], k->w[0], k->w[1], rc,
                 err ? err->message : "not taken");
    assert_int_equal(asked().n_executed, before);
    assert_int_equal(asked().kind, kind);
    if (run_in(&m, q, false, used, &again, &err) != 1)
        fail_msg("%s", err ? err->message : "not taken at the launch");
    assert_int_equal(asked().n_executed, before + 1);
    assert_int_equal(finish(q), 0);
    assert_int_equal(again > 0, copies);
    if (!right(&m)) fail_msg("wrong: kind %d, filter of %d", kind, k->w[0]);
    drop(&m);
}

/* The convolution must be left to Keel's kernels. */
static void by_kernels(enum kl_dtype dtype, const struct conv *k) {
    struct command m;
    struct kl_error *err = NULL;
    const int before = asked().n_heuristics;
    command(&m, dtype, k);
    assert_int_equal(try(&m, true, &err), 0);
    assert_int_equal(try(&m, false, &err), 0);
    assert_null(err);
    assert_int_equal(asked().n_heuristics, before);
    drop(&m);
}

/* ---- tests ---- */

static void forward(void **state) {
    const struct kl_convolution_params plain = {.ndim = 2, .low = {1, 1}, .high = {1, 1}};
    const int x[] = {4, 130, 130, 5}, w[] = {7, 3, 3, 5};
    struct conv k = {.p = plain};
    memcpy(k.x, x, sizeof x);
    memcpy(k.w, w, sizeof w);
    by_cudnn(&k, FORWARD, false);
    k.p.flip = true;
    by_cudnn(&k, FORWARD, true);
    k.w_layout = REVERSED;
    by_cudnn(&k, FORWARD, true);
    k.p.flip = false;
    k.w_layout = EXCHANGED;
    by_cudnn(&k, FORWARD, true);
    k.w_layout = GAPPED;
    by_cudnn(&k, FORWARD, true);
    static const struct conv others[] = {
        /* padding that differs, strides, dilation */
        {.p = {.ndim = 2, .low = {0, 2}, .high = {1, 0}, .stride = {1, 2}, .dilation = {2, 1}},
         {4, 140, 170, 5},
         {9, 3, 4, 5}},
        /* elements at the end that no position reaches */
        {.p = {.ndim = 2, .low = {1, 1}, .high = {1, 1}, .stride = {3, 3}},
         {3, 201, 200, 4},
         {13, 5, 5, 4}},
        {.p = {.ndim = 1, .low = {2}, .high = {2}}, {4, 9000, 8}, {13, 5, 8}},
        {.p = {.ndim = 3, .low = {1, 0, 2}, .high = {1, 1, 0}, .stride = {1, 1, 2}},
         {2, 20, 30, 40, 7},
         {9, 2, 5, 5, 7}},
        {.p = {.ndim = 2, .groups = 2, .low = {1, 1}, .high = {1, 1}},
         {1, 150, 110, 18},
         {22, 3, 3, 9}},
        {.p = {.ndim = 2}, {1, 320, 52, 32}, {33, 1, 1, 32}},
        {.p = {.ndim = 2}, {2, 200, 280, 1}, {3, 8, 8, 1}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        by_cudnn(&others[i], FORWARD, false);
    struct conv grouped = others[4];
    grouped.p.flip = true;
    by_cudnn(&grouped, FORWARD, true);
}

/* As the gradients of inputs are made, and transposed convolutions. */
static void gradients_of_inputs(void **state) {
    struct conv k = {.p = {.ndim = 2, .flip = true, .low = {1, 1}, .high = {1, 1}},
                     {4, 130, 130, 5},
                     {7, 3, 3, 5},
                     PLAIN,
                     EXCHANGED};
    by_cudnn(&k, DATA_GRADIENT, false);
    k.p.low[0] = 0;
    by_cudnn(&k, DATA_GRADIENT, false);
    struct conv strided = {.p = {.ndim = 2,
                                 .flip = true,
                                 .low = {2, 1},
                                 .high = {3, 2},
                                 .dilation = {1, 2},
                                 .input_dilation = {2, 3}},
                           {2, 130, 86, 9},
                           {7, 4, 3, 9},
                           PLAIN,
                           EXCHANGED};
    by_cudnn(&strided, DATA_GRADIENT, false);
    strided.w_layout = PLAIN;
    by_cudnn(&strided, DATA_GRADIENT, true);
    strided.p.flip = false;
    by_cudnn(&strided, DATA_GRADIENT, true);
    by_cudnn(&(struct conv){.p = {.ndim = 2,
                                  .flip = true,
                                  .groups = 2,
                                  .low = {1, 2},
                                  .high = {1, 2},
                                  .input_dilation = {2, 2}},
                            {1, 100, 96, 18},
                            {22, 3, 3, 9}},
             DATA_GRADIENT, true);
    by_cudnn(&(struct conv){.p = {.ndim = 1, .flip = true, .input_dilation = {4}},
                            {3, 3000, 11},
                            {12, 17, 11},
                            PLAIN,
                            EXCHANGED},
             DATA_GRADIENT, false);
}

/* As the gradients of filters are made: channels are the batch, and the cotangent is the filter. */
static void gradients_of_filters(void **state) {
    by_cudnn(&(struct conv){.p = {.ndim = 2, .low = {1, 1}, .high = {1, 1}},
                            {5, 130, 130, 4},
                            {7, 130, 130, 4},
                            EXCHANGED,
                            EXCHANGED},
             FILTER_GRADIENT, true);
    by_cudnn(
        &(struct conv){
            .p = {.ndim = 2, .low = {2, 0}, .high = {1, -1}, .stride = {2, 1}, .dilation = {3, 2}},
            {5, 134, 121, 8},
            {14, 45, 59, 8},
            EXCHANGED,
            EXCHANGED},
        FILTER_GRADIENT, true);
    by_cudnn(&(struct conv){.p = {.ndim = 3, .low = {1, 1, 1}, .high = {1, 1, 1}},
                            {4, 10, 40, 50, 1},
                            {8, 10, 40, 50, 1},
                            EXCHANGED,
                            EXCHANGED},
             FILTER_GRADIENT, true);
    by_cudnn(&(struct conv){.p = {.ndim = 1, .low = {9}, .high = {9}},
                            {1, 26000, 3},
                            {12, 26000, 3},
                            EXCHANGED,
                            EXCHANGED},
             FILTER_GRADIENT, true);
}

static const struct conv usual = {
    .p = {.ndim = 2, .low = {1, 1}, .high = {1, 1}}, {4, 130, 130, 5}, {7, 3, 3, 5}};

static void not_for_cudnn(void **state) {
    struct conv k = usual;
    by_kernels(KL_F64, &k);
    k.x[0] = 1; /* too little work */
    by_kernels(KL_F32, &k);
    k = usual;
    k.x_layout = REVERSED;
    by_kernels(KL_F32, &k);
    k.x_layout = EXCHANGED;
    by_kernels(KL_F32, &k);
    k = usual;
    k.p.low[0] = -1;
    by_kernels(KL_F32, &k);
    k = usual; /* elements at the end are left out, more than a stride */
    k.p.high[1] = -3;
    by_kernels(KL_F32, &k);
    k = usual; /* both the result of a convolution and of a gradient */
    k.p.stride[0] = 2;
    k.p.input_dilation[0] = 2;
    by_kernels(KL_F32, &k);
    k = (struct conv){.p = {.ndim = 2, .groups = 32, .low = {2, 2}, .high = {2, 2}},
                      {3, 70, 70, 32},
                      {64, 5, 5, 1}};
    by_kernels(KL_F32, &k);
    k = (struct conv){.p = {.ndim = 1}, {4, 3000, 4}, {4, 1100, 4}}; /* a long filter */
    by_kernels(KL_F32, &k);
    k = usual;
    k.x[0] = 0;
    by_kernels(KL_F32, &k);
    k = usual;
    k.x[3] = k.w[3] = 0;
    by_kernels(KL_F32, &k);
}

enum { TENSOR_CORE, DOWN_CONVERTS, REDUCED, FFT, NONDETERMINISTIC, WINOGRAD, WINOGRAD_LAST = 8 };
static const struct engine good = {0}; /* nothing is said against it */

/* A new convolution: cuDNN has not been asked for it before. */
static struct conv fresh(void) {
    static int n = 300;
    struct conv k = usual;
    k.x[0] = 1;
    k.x[1] = n++;
    k.x[2] = 180;
    return k;
}

/* The engine that is taken of these; -1: none. Asks twice, the second time nothing is chosen. */
static int taken(enum kl_dtype dtype, const struct engine *e, int n) {
    struct command m;
    struct kl_error *err = NULL;
    struct conv k = fresh();
    const struct asked before = asked();
    fake.engines(e, n);
    command(&m, dtype, &k);
    int rc = try(&m, true, &err);
    fake.engines(&good, 1);
    const struct asked after = asked();
    assert_int_equal(try(&m, true, &err), rc);
    assert_int_equal(asked().n_heuristics, after.n_heuristics);
    assert_null(err);
    assert_int_equal(after.n_live - before.n_live, rc ? N_DESCS : 0);
    assert_int_equal(after.n_heuristics - before.n_heuristics, rc ? 1 : 2);
    assert_int_equal(after.mode, rc ? 1 : 2);
    drop(&m);
    return rc == 1 ? after.engine : -1;
}

/* Engines that give other numbers than promised are left out: of float32 those on tensor cores; of
 * all types those that differ from run to run, or that add up or multiply something else. */
static void engines(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    static const int type[] = {0, 2, 9};
    for (int d = 0; d < 3; d++) {
        for (int note = DOWN_CONVERTS; note <= WINOGRAD_LAST; note++)
            assert_int_equal(taken(dtypes[d],
                                   (struct engine[]){{.n_notes = 2, .notes = {9, note}},
                                                     {.n_notes = 1, .notes = {9}}},
                                   2),
                             1);
        assert_int_equal(
            taken(dtypes[d], (struct engine[]){{.n_notes = 1, .notes = {TENSOR_CORE}}, {0}}, 2),
            d == 0);
        assert_int_equal(asked().type, type[d]);
        assert_int_equal(asked().compute, 0);
        assert_int_equal(
            taken(dtypes[d], &(struct engine){.n_notes = 1, .notes = {NONDETERMINISTIC}}, 1), -1);
    }
    const struct engine compiles = {.n_behaviours = 1, .behaviours = {0}},
                        other = {.n_behaviours = 1, .behaviours = {4}},
                        large = {.workspace = ((int64_t)256 << 20) + 1},
                        largest = {.workspace = (int64_t)256 << 20}, none = {.unsupported = true};
    assert_int_equal(taken(KL_F32, (struct engine[]){compiles, other}, 2), 1);
    assert_int_equal(taken(KL_F32, (struct engine[]){compiles, none, large}, 3), 0);
    assert_int_equal(taken(KL_F32, (struct engine[]){none, large, largest, good}, 4), 2);
    assert_int_equal(taken(KL_F32, (struct engine[]){none, large}, 2), -1);
    assert_int_equal(taken(KL_F32, &good, 0), -1);
}

/* The alignment of each operand is part of what is remembered. */
static void remembered(void **state) {
    struct command m;
    struct conv k = fresh();
    command(&m, KL_F32, &k);
    const int before = asked().n_heuristics;
    for (int i = 0; i < 4; i++) assert_int_equal(try(&m, i < 2, NULL), 1);
    assert_int_equal(asked().n_heuristics, before + 1);
    m.args[0].data = (char *)m.o[0].block + 4;
    assert_int_equal(try(&m, true, NULL), 1);
    assert_int_equal(asked().n_heuristics, before + 2);
    assert_int_equal(asked().alignment[0], 4);
    assert_int_equal(asked().alignment[2], 16);
    m.args[0].data = (char *)m.o[0].block + 64;
    m.args[2].data = (char *)m.o[2].block + 8;
    assert_int_equal(try(&m, true, NULL), 1);
    assert_int_equal(asked().alignment[0], 16);
    assert_int_equal(asked().alignment[2], 8);
    /* A filter that is not aligned is copied. */
    size_t used = 0;
    m.args[2].data = m.o[2].block;
    m.args[0].data = m.o[0].block;
    m.args[1].data = (char *)m.o[1].block + 4;
    assert_int_equal(run_in(&m, q, false, ROOM_GIVEN, &used, NULL), 1);
    assert_true(used >= 7 * 9 * 5 * 4);
    assert_int_equal(asked().alignment[1], 16);
    assert_int_equal(finish(q), 0);
    drop(&m);
    assert_int_equal(asked().n_handles, 1);
}

static void workspace(void **state) {
    struct command m;
    struct kl_error *err = NULL;
    struct conv k = fresh();
    size_t used = 0;
    fake.engines(&(struct engine){.workspace = 5 << 20}, 1);
    command(&m, KL_F32, &k);
    assert_int_equal(run_in(&m, NULL, true, 0, &used, &err), 1);
    assert_true(used >= 5 << 20);
    assert_int_equal(run_in(&m, q, false, 4 << 20, &used, &err), KL_EINTERNAL);
    kl_error_release(err);
    err = NULL;
    assert_int_equal(run_in(&m, q, false, 5 << 20, &used, &err), 1);
    assert_int_equal(finish(q), 0);
    assert_true(asked().has_workspace);
    assert_true(right(&m));
    drop(&m);
    /* Our own kernels need more than this engine: they unfold the input. */
    fake.engines(&good, 1);
    k = (struct conv){
        .p = {.ndim = 2, .low = {1, 1}, .high = {1, 1}}, {1, 90, 90, 16}, {20, 3, 3, 16}};
    command(&m, KL_F32, &k);
    assert_int_equal(run_in(&m, NULL, true, 0, &used, &err), 1);
    assert_true(used >= (size_t)90 * 90 * 16 * 9 * 4);
    drop(&m);
}

/* Whatever fails while a plan is made, the convolution is left to our own kernels or to another
 * engine, from then on, and nothing is leaked. */
static void refusals(void **state) {
    static const char *const calls[] = {"DescCreate", "DescSet", "DescGet", "DescFinish"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 0, more = 1; more; k++) {
            struct command m;
            struct kl_error *err = NULL;
            struct conv c = fresh();
            command(&m, KL_F32, &c);
            const int live = asked().n_live;
            fake.refuse(calls[i], k, k % 2 ? 4003 : 3000);
            const int rc = try(&m, true, &err);
            more = !fake.refuse(NULL, 0, 0);
            assert_null(err);
            assert_true(rc == 0 || rc == 1);
            assert_int_equal(asked().n_live, live + (rc ? N_DESCS : 0));
            if (!more) assert_int_equal(rc, 1);
            assert_int_equal(try(&m, true, &err), rc);
            assert_int_equal(try(&m, false, &err), rc);
            assert_int_equal(finish(q), 0);
            drop(&m);
        }
}

/* cuDNN fails at the launch: our own kernels compute this convolution, and later ones too unless
 * only memory was short. */
static void failures(void **state) {
    static const struct {
        const char *call;
        int in, code, later;
    } cases[] = {{"Execute", 0, 3000, 0},   {"Execute", 0, 5001, 0},    {"Execute", 0, 4003, 1},
                 {"Execute", 0, 4004, 1},   {"DescCreate", 0, 4003, 1}, {"DescSet", 0, 2000, 0},
                 {"DescSet", 1, 2000, 0},   {"DescSet", 2, 2000, 0},    {"DescFinish", 0, 2000, 0},
                 {"SetStream", 0, 4003, 1}, {"SetStream", 0, 2000, 0}};
    struct kl_error *err = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct command m;
        struct conv k = fresh();
        size_t used = 0;
        command(&m, KL_F32, &k);
        assert_int_equal(try(&m, true, &err), 1);
        const int live = asked().n_live;
        cu->dnn.stream = NULL; /* as if another queue had been used last */
        fake.refuse(cases[i].call, cases[i].in, cases[i].code);
        assert_int_equal(run_in(&m, q, false, ROOM_GIVEN, &used, &err), 0);
        assert_false(fake.refuse(NULL, 0, 0));
        assert_int_equal(used, 0);
        assert_int_equal(asked().n_live, live);
        assert_int_equal(try(&m, false, &err), cases[i].later);
        assert_null(err);
        assert_int_equal(finish(q), 0);
        if (cases[i].later) assert_true(right(&m));
        drop(&m);
    }
    /* There is no memory for the record of the convolution. */
    struct command m;
    struct conv k = fresh();
    command(&m, KL_F32, &k);
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
static void *convolves(void *arg) {
    struct caller *c = arg;
    struct kl_error *err = NULL;
    for (int i = 0; i < 6; i++) {
        struct command m;
        struct conv k = usual;
        k.x[2] = 125 + i;
        command(&m, KL_F32, &k);
        c->bad |= kl_cuda_enter(cu, &err) != 0;
        c->bad |= run_in(&m, c->queue, false, ROOM_GIVEN, NULL, &err) != 1;
        c->bad |= finish(c->queue) != 0;
        c->bad |= !right(&m);
        drop(&m);
    }
    return NULL;
}

/* The queues share a handle, which has one stream at a time. */
static void threads(void **state) {
    static struct caller c[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(drv->ops->queue_new(drv, i, &c[i].queue, NULL), 0);
        assert_int_equal(pthread_create(&c[i].thread, NULL, convolves, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].bad, 0);
    }
}

/* The number of remembered convolutions is bounded; those beyond are left to our own kernels. */
static void many(void **state) {
    struct command m, known;
    struct conv k = fresh();
    command(&known, KL_F32, &k);
    assert_int_equal(try(&known, true, NULL), 1);
    k = usual;
    command(&m, KL_F32, &k);
    int n = 0;
    for (int i = 0; i < 1100; i++) {
        m.o[0].dims[0] = m.o[2].dims[0] = 1000 + i; /* only described */
        int rc = try(&m, true, NULL);
        assert_true(rc == 0 || rc == 1);
        n += rc;
    }
    assert_true(n > 500 && n < 1024);
    m.o[0].dims[0] = m.o[2].dims[0] = 4;
    assert_int_equal(try(&known, false, NULL), 1);
    assert_int_equal(finish(q), 0);
    assert_true(right(&known));
    drop(&known);
    drop(&m);
}

/* Runs in a process of its own, which has not loaded cuDNN yet: without the library, and with a
 * library that cannot be initialized. */
static int alone(const char *library, const char *major, int create, const char *says) {
    const char *key = NULL;
    struct kl_error *err = NULL;
    struct command m;
    if (library) setenv("KEEL_CUDNN", library, 1);
    if (major) setenv("FAKE_CUDNN_MAJOR", major, 1);
    open_device();
    command(&m, KL_F32, &usual);
    fake.refuse("Create", -1, create);
    int bad = try(&m, true, &err) != 0;
    fake.refuse(NULL, 0, 0);
    bad |= (try(&m, false, &err) != 0) << 1 | (err != NULL) << 2;
    const char *why = kl_cuda_lacks(1, &key);
    bad |= (strcmp(key, "missing_cudnn") != 0) << 3;
    bad |= (says ? !why || !strstr(why, says) : why != NULL) << 4;
    bad |= (kl_cuda_lacks(5, &key) || key) << 5;
    if (bad) printf("%s: %d, %s\n", library ? library : "", bad, why ? why : "there");
    fflush(stdout);
    return bad;
}

static void without(const char *library, const char *major, int create, const char *says) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(alone(library, major, create, says));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void missing(void **state) {
    char path[4300];
    bind_fake();
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", fakes);
    without("/nonexistent/libcudnn.so", NULL, 0, "KEEL_CUDNN=/nonexistent/libcudnn.so");
    without("none", NULL, 0, "KEEL_CUDNN=none");
    without(path, NULL, 0, "libnvrtc.so has no cudnnGetProperty");
    snprintf(path, sizeof path, "%s/lib64/libcudnn.so", fakes);
    without(path, "8", 0, "libcudnn.so is cuDNN 8: 9 or later is needed");
    without(NULL, NULL, 1001, NULL);
}

int main(void) {
    const struct CMUnitTest before[] = {cmocka_unit_test(missing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(gradients_of_inputs),
        cmocka_unit_test(gradients_of_filters),
        cmocka_unit_test(not_for_cudnn),
        cmocka_unit_test(engines),
        cmocka_unit_test(remembered),
        cmocka_unit_test(workspace),
        cmocka_unit_test(refusals),
        cmocka_unit_test(failures),
        cmocka_unit_test(threads),
        cmocka_unit_test(many),
    };
    int rc = cmocka_run_group_tests(before, NULL, NULL);
    return rc ? rc : cmocka_run_group_tests(tests, setup, NULL);
}
