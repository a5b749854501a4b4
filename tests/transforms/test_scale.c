/* test_scale.c - transforms of chains of a million operations on a thread with a small stack, what
 * lanes share, and the memory of a gradient with and without checkpoints. */
#include "ops/support/helpers.h"

#include <pthread.h>

#include "runtime/block_pool.h"
#include "transforms/compile.h"
#include "transforms/custom.h"
#include "transforms/export.h"
#include "transforms/transforms.h"

/* Sanitizers are slow, and a third is still far deeper than the stack. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LENGTH = 100000 };
#else
enum { LENGTH = 300000 };
#endif

/* ---- long chains ---- */

typedef int step_fn(struct kl_array **out, struct kl_array *a, struct kl_array *constant,
                    struct kl_error **e);

struct chain {
    step_fn *step;
    int n;
    struct kl_array *constant;
};

static int times(struct kl_array **out, struct kl_array *a, struct kl_array *constant,
                 struct kl_error **e) {
    return kl_multiply(out, a, constant, cpu(), e);
}

/* A view, which has no stream of its own. */
static int reshaped(struct kl_array **out, struct kl_array *a, struct kl_array *constant,
                    struct kl_error **e) {
    int dims[2] = {1, (int)a->t.size};
    return a->t.ndim == 1 ? kl_reshape(out, a, dims, 2, cpu(), e)
                          : kl_reshape(out, a, dims + 1, 1, cpu(), e);
}

static int run_chain(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                     struct kl_error **e) {
    const struct chain *c = ctx;
    struct kl_array *a = kl_array_retain(in[0]), *next;
    int rc = KL_OK;
    for (int i = 0; i < c->n && !rc; i++) {
        rc = c->step(&next, a, c->constant, e);
        kl_array_release(a);
        a = next;
    }
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) outs->v[0] = a;
    return rc;
}

static void expect_twos(struct kl_array *a) {
    float *v = values_of(a);
    for (int64_t i = 0; i < a->t.size; i++) assert_true(v[i] == 2);
    free(v);
}

static void transform_chain(struct chain *c) {
    struct kl_function f = {.call = run_chain, .ctx = c};
    struct kl_array *x = F32(SHAPE(2), 2, 2);
    struct kl_arrays a = {0}, b = {0};
    const int axis = 0;
    EXPECT_OK(kl_vjp(&f, &x, 1, &x, 1, &a, &b, &err));
    expect_twos(a.v[0]);
    expect_twos(b.v[0]);
    kl_arrays_free(&a);
    kl_arrays_free(&b);
    EXPECT_OK(kl_jvp(&f, &x, 1, &x, 1, &a, &b, &err));
    expect_twos(b.v[0]);
    kl_arrays_free(&b); /* the other half is freed without having been evaluated */
    kl_arrays_free(&a);
    struct kl_array *lanes = F32(SHAPE(3, 2), 2, 2, 2, 2, 2, 2);
    struct kl_arrays whole = {0};
    EXPECT_OK(kl_vmap_trace(&f, &lanes, 1, &axis, &a, &b, &err));
    EXPECT_OK(kl_vmap_replace(&lanes, 1, a.v, b.v, 1, &axis, &axis, &whole, &err));
    kl_arrays_free(&b);
    kl_arrays_free(&a);
    expect_twos(whole.v[0]);
    kl_arrays_free(&whole);
    kl_array_release(lanes);
    kl_array_release(x);
}

static int call_checkpoint(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                           struct kl_error **e) {
    return kl_custom_function_call(ctx, in, n, outs, e);
}

/* Compiled, called twice, exported, imported and called. */
static void chain_as_plan(struct chain *c) {
    const struct kl_names none = {NULL, 0};
    const char *path = kl_test_path("chain");
    struct kl_function f = {.call = run_chain, .ctx = c}, compiled;
    struct kl_array *x = F32(SHAPE(2), 2, 2);
    struct kl_arrays a = {0};
    struct kl_exporter *to;
    struct kl_imported *from;
    EXPECT_OK(kl_compile(&compiled, &f, 0, false, NULL, 0, &err));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(kl_function_call(&compiled, &x, 1, &a, &err));
        expect_twos(a.v[0]);
        kl_arrays_free(&a);
    }
    kl_function_release(&compiled);
    EXPECT_OK(kl_exporter_new(&to, path, false, &err));
    EXPECT_OK(kl_exporter_add(to, &f, &x, 1, none, &err));
    EXPECT_OK(kl_exporter_finish(to, &err));
    EXPECT_OK(kl_import(&from, path, &err));
    EXPECT_OK(kl_imported_call(from, &x, 1, none, &a, &err));
    expect_twos(a.v[0]);
    kl_arrays_free(&a);
    kl_imported_release(from);
    kl_array_release(x);
}

static void *long_chains(void *arg) {
    struct chain c = {times, LENGTH, F32(SHAPE(1), 1)};
    transform_chain(&c);
    c.step = reshaped;
    transform_chain(&c);
    /* one checkpoint around all of it */
    struct kl_function f = {.call = run_chain, .ctx = &c};
    struct kl_custom_function *checkpoint;
    c.step = times;
    EXPECT_OK(kl_checkpoint_new(&checkpoint, &f, &err));
    struct kl_function g = {.call = call_checkpoint, .ctx = checkpoint};
    struct kl_array *x = F32(SHAPE(2), 2, 2);
    struct kl_arrays a = {0}, b = {0};
    EXPECT_OK(kl_vjp(&g, &x, 1, &x, 1, &a, &b, &err));
    expect_twos(b.v[0]);
    kl_arrays_free(&a);
    kl_arrays_free(&b);
    kl_custom_function_release(checkpoint);
    kl_array_release(x);
    c.n = LENGTH / 10; /* a plan takes a kilobyte per operation */
    chain_as_plan(&c);
    kl_array_release(c.constant);
    return NULL;
}

/* The stack of the thread has room for no more than five bytes for each operation. */
static void small_stack(void **state) {
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 512 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, long_chains, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

/* ---- memory ---- */

enum { LANES = 64, INNER = 16, OUTER = 16 << 10 };

static int product(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                   struct kl_error **e) {
    KL_TRY(kl_arrays_new(outs, 1, e));
    int rc = kl_matmul(&outs->v[0], in[0], in[1], cpu(), e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* A vector of each lane times a matrix that all of them share, of 1 MB: it is not copied for each
 * lane. */
static void shared_inputs(void **state) {
    const int axes[2] = {0, KL_VMAP_NONE}, to = 0;
    const size_t matrix = INNER * OUTER * sizeof(float), result = LANES * OUTER * sizeof(float);
    struct kl_function f = {.call = product};
    struct kl_array *in[2], *one = scalar_of(KL_F32, 1);
    struct kl_arrays a = {0}, b = {0}, whole = {0};
    EXPECT_OK(kl_full(&in[0], (int[]){LANES, INNER}, 2, one, KL_F32, cpu(), &err));
    EXPECT_OK(kl_full(&in[1], (int[]){INNER, OUTER}, 2, one, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(in, 2, &err));
    const size_t before = kl_memory_active();
    kl_memory_reset_peak();
    EXPECT_OK(kl_vmap_trace(&f, in, 2, axes, &a, &b, &err));
    EXPECT_OK(kl_vmap_replace(in, 2, a.v, b.v, 1, axes, &to, &whole, &err));
    EXPECT_OK(kl_eval(whole.v, 1, &err));
    assert_in_range(kl_memory_peak() - before, result, result + 2 * matrix);
    float *v = values_of(whole.v[0]);
    for (int i = 0; i < LANES * OUTER; i++) assert_true(v[i] == INNER);
    free(v);
    kl_arrays_free(&whole);
    kl_arrays_free(&b);
    kl_arrays_free(&a);
    kl_array_release(in[0]);
    kl_array_release(in[1]);
    kl_array_release(one);
}

enum { LAYERS = 1000, SEGMENT = 32, WIDTH = 16 << 10 /* 64 KB */ };

struct network {
    struct kl_custom_function *segment; /* a checkpoint of SEGMENT layers; NULL: none */
};

static int sines(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                 struct kl_error **e) {
    struct kl_array *a = kl_array_retain(in[0]), *next = NULL;
    int rc = KL_OK;
    for (int i = 0; i < *(int *)ctx && !rc; i++) {
        rc = kl_sin(&next, a, cpu(), e);
        kl_array_release(a);
        a = next;
    }
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) outs->v[0] = a;
    return rc;
}

/* The sum of LAYERS sines of sines, in checkpoints if there is one. */
static int deep(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                struct kl_error **e) {
    const struct network *net = ctx;
    int length = SEGMENT;
    struct kl_arrays at = {0}, next = {0};
    EXPECT_OK(kl_arrays_new(&at, 1, e));
    at.v[0] = kl_array_retain(in[0]);
    for (int i = 0; i < LAYERS; i += SEGMENT) {
        if (i + SEGMENT > LAYERS) length = LAYERS - i;
        if (net->segment && length == SEGMENT)
            EXPECT_OK(kl_custom_function_call(net->segment, at.v, 1, &next, e));
        else
            EXPECT_OK(sines(&length, at.v, 1, &next, e));
        kl_arrays_free(&at);
        at = next;
        next = (struct kl_arrays){0};
    }
    EXPECT_OK(kl_arrays_new(outs, 1, e));
    EXPECT_OK(kl_sum(&outs->v[0], at.v[0], false, cpu(), e));
    kl_arrays_free(&at);
    return KL_OK;
}

/* The gradient, and the peak of active memory in arrays of one layer. */
static float *gradient_of(struct network *net, double *peak) {
    const int dims[1] = {WIDTH}, number = 0;
    struct kl_array *x, *all[2];
    struct kl_arrays values = {0}, grads = {0};
    struct kl_function f = {.call = deep, .ctx = net};
    struct kl_array *value = scalar_of(KL_F32, 0.75);
    EXPECT_OK(kl_full(&x, dims, 1, value, KL_F32, cpu(), &err));
    kl_array_release(value);
    EXPECT_OK(kl_eval(&x, 1, &err));
    const size_t before = kl_memory_active();
    kl_memory_reset_peak();
    EXPECT_OK(kl_value_and_grad(&f, &number, 1, &x, 1, &values, &grads, &err));
    all[0] = values.v[0];
    all[1] = grads.v[0];
    EXPECT_OK(kl_eval(all, 2, &err));
    *peak = (double)(kl_memory_peak() - before) / (WIDTH * sizeof(float));
    float *v = values_of(grads.v[0]);
    kl_arrays_free(&values);
    kl_arrays_free(&grads);
    kl_array_release(x);
    return v;
}

/* In theory a gradient without checkpoints keeps the input of every layer, and one with a
 * checkpoint after every 32 the input of every segment and the layers of one segment. */
static void peak_memory(void **state) {
    double all, few;
    int length = SEGMENT;
    struct network net = {NULL};
    float *want = gradient_of(&net, &all);
    struct kl_function segment = {.call = sines, .ctx = &length};
    EXPECT_OK(kl_checkpoint_new(&net.segment, &segment, &err));
    float *got = gradient_of(&net, &few);
    print_message("peak: %.1f arrays without checkpoints, %.1f with; in theory %d and %d\n", all,
                  few, LAYERS, LAYERS / SEGMENT + SEGMENT);
    assert_memory_equal(got, want, WIDTH * sizeof(float));
    assert_true(all > 0.9 * LAYERS && all < 1.1 * LAYERS);
    assert_true(few < 2 * (LAYERS / SEGMENT + SEGMENT));
    free(got);
    free(want);
    kl_custom_function_release(net.segment);
}

/* ---- weights ---- */

static int rows_times_matrix(void *unused, struct kl_array *const *args, size_t n_args,
                             struct kl_arrays *outs, struct kl_error **e) {
    struct kl_array *product;
    KL_TRY(kl_arrays_new(outs, 1, e));
    KL_TRY(kl_matmul(&product, args[0], args[1], cpu(), e));
    int rc = kl_sum(&outs->v[0], product, false, cpu(), e);
    kl_array_release(product);
    return rc;
}

/* The gradient of a matrix that multiplies the rows of many batches takes the memory of one matrix:
 * the batches are summed by the product itself. Each of its numbers is the sum of a column of the
 * rows. */
static void one_matrix_for_all_batches(void **state) {
    enum { BATCHES = 512, ROWS = 3, COLUMNS = 64 };
    const struct kl_function fn = {.call = rows_times_matrix};
    for (int batches = 0; batches <= BATCHES; batches += BATCHES) {
        struct kl_array *counted = count_up(3, (int[]){batches, ROWS, COLUMNS}), *args[2], *scaled,
                        *small = scalar_of(KL_F32, 1.0 / (BATCHES * ROWS * COLUMNS));
        struct kl_arrays outs = {0}, grads = {0};
        EXPECT_OK(kl_multiply(&scaled, counted, small, cpu(), &err));
        EXPECT_OK(kl_astype(&args[0], scaled, KL_F32, cpu(), &err));
        EXPECT_OK(kl_ones(&args[1], (int[]){COLUMNS, COLUMNS}, 2, KL_F32, cpu(), &err));
        EXPECT_OK(kl_eval(args, 2, &err));
        kl_memory_reset_peak();
        const size_t before = kl_memory_active(), rows = (size_t)batches * ROWS * COLUMNS * 4,
                     matrix = (size_t)COLUMNS * COLUMNS * 4;
        EXPECT_OK(kl_value_and_grad(&fn, (int[]){1}, 1, args, 2, &outs, &grads, &err));
        EXPECT_OK(kl_eval(grads.v, 1, &err));
        assert_in_range(kl_memory_peak() - before, matrix, 3 * rows + 4 * matrix);
        float *g = values_of(grads.v[0]), *x = values_of(args[0]);
        for (int k = 0; k < COLUMNS; k++) {
            double sum = 0;
            for (int i = 0; i < batches * ROWS; i++) sum += x[i * COLUMNS + k];
            for (int j = 0; j < COLUMNS; j++)
                assert_true(fabs(g[k * COLUMNS + j] - sum) <= 1e-4 * sum + 1e-30);
        }
        free(g);
        free(x);
        kl_arrays_free(&grads);
        kl_arrays_free(&outs);
        struct kl_array *all[] = {counted, small, scaled, args[0], args[1]};
        for (int i = 0; i < 5; i++) kl_array_release(all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_stack),
        cmocka_unit_test(shared_inputs),
        cmocka_unit_test(one_matrix_for_all_batches),
        cmocka_unit_test(peak_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
