/* subject.h - every operation that has a gradient as a function of its operands, for tests of
 * transforms. */
#pragma once
#include <math.h>

#include "ops/support/cases.h"
#include "transforms/transforms.h"

/* A case as a function of the operands that have gradients; the others are constants. */
struct subject {
    struct op_case c;
    struct kl_array *in[MOST_INPUTS]; /* all operands */
    int which[MOST_INPUTS], n;        /* the operands that are arguments */
    struct kl_array *weights;         /* of the outputs, when the function is their sum */
};

static inline int call_case(void *ctx, struct kl_array *const *args, size_t n,
                            struct kl_arrays *outs, struct kl_error **e) {
    struct subject *f = ctx;
    struct kl_array *in[MOST_INPUTS];
    assert_int_equal(n, f->n);
    memcpy(in, f->in, sizeof in);
    for (int k = 0; k < f->n; k++) in[f->which[k]] = args[k];
    KL_TRY(kl_arrays_new(outs, 1, e));
    int rc = build_case(&outs->v[0], &f->c, in, e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* The sum of weight times output; real, also where the output is complex. */
static inline int call_sum(void *ctx, struct kl_array *const *args, size_t n,
                           struct kl_arrays *outs, struct kl_error **e) {
    struct subject *f = ctx;
    struct kl_arrays made = {0};
    struct kl_array *product = NULL, *real = NULL;
    KL_TRY(call_case(ctx, args, n, &made, e));
    int rc = kl_multiply(&product, f->weights, made.v[0], cpu(), e);
    if (!rc) rc = kl_real(&real, product, cpu(), e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], real, false, cpu(), e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(real);
    kl_array_release(product);
    kl_arrays_free(&made);
    return rc;
}

/* The gradient of call_sum with respect to all arguments. */
static inline int call_gradient(void *ctx, struct kl_array *const *args, size_t n,
                                struct kl_arrays *outs, struct kl_error **e) {
    struct kl_function f = {.call = call_sum, .ctx = ctx};
    struct kl_arrays values = {0};
    int all[MOST_INPUTS];
    for (size_t i = 0; i < n; i++) all[i] = (int)i;
    int rc = kl_value_and_grad(&f, all, n, args, n, &values, outs, e);
    kl_arrays_free(&values);
    return rc;
}

/* ---- numbers ---- */

static uint32_t seed = 7;

static inline double number(double from, double to) {
    seed = seed * 1664525u + 1013904223u;
    return from + (to - from) * ((double)(seed >> 8) / (double)(1 << 24));
}

/* Random numbers of the shape and dtype of `like`. */
static inline struct kl_array *numbers_like(const struct kl_array *like, double from, double to) {
    const bool is_complex = like->t.dtype == KL_C64;
    int64_t parts = like->t.size * (is_complex ? 2 : 1);
    float *single = malloc((size_t)(parts + 1) * sizeof *single);
    double *v = malloc((size_t)(parts + 1) * sizeof *v);
    for (int64_t i = 0; i < parts; i++) single[i] = (float)(v[i] = number(from, to));
    enum kl_dtype made = like->t.dtype == KL_F64 ? KL_F64 : is_complex ? KL_C64 : KL_F32;
    struct kl_array *a =
        array_of(made, like->t.ndim, like->t.dims, made == KL_F64 ? (void *)v : (void *)single);
    free(v);
    free(single);
    return cast_to(a, (enum kl_dtype)like->t.dtype);
}

static inline double *doubles_of(struct kl_array *a) {
    struct kl_array *wide;
    int64_t parts = a->t.size * (a->t.dtype == KL_C64 ? 2 : 1);
    double *out = malloc((size_t)(parts + 1) * sizeof *out);
    if (a->t.dtype == KL_C64) {
        float *v = values_of(a);
        for (int64_t i = 0; i < parts; i++) out[i] = v[i];
        free(v);
        return out;
    }
    EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
    void *v = values_of(wide);
    memcpy(out, v, (size_t)parts * sizeof *out);
    free(v);
    kl_array_release(wide);
    return out;
}

/* The sum of products of all parts, and the sum of their absolute values. */
static inline double dot(struct kl_array *a, struct kl_array *b, double *most) {
    double *x = doubles_of(a), *y = doubles_of(b), sum = 0;
    int64_t parts = a->t.size * (a->t.dtype == KL_C64 ? 2 : 1);
    assert_int_equal(a->t.size, b->t.size);
    for (int64_t i = 0; i < parts; i++) {
        sum += x[i] * y[i];
        *most += fabs(x[i] * y[i]);
    }
    free(x);
    free(y);
    return sum;
}

/* ---- subjects ---- */

static inline void row_interval(enum kl_op_id op, double *from, double *to) {
    for (int i = 0; i < N_ROWS_OF_ONE; i++)
        if (rows_of_one[i].op == op) *from = rows_of_one[i].from, *to = rows_of_one[i].to;
    for (int i = 0; i < N_ROWS_OF_TWO; i++)
        if (rows_of_two[i].op == op) *from = rows_of_two[i].from, *to = rows_of_two[i].to;
}

/* False: the case has no operand with a gradient in this dtype, or no gradient at all. */
static inline bool subject_of(struct subject *f, int which, enum kl_dtype dtype) {
    *f = (struct subject){.c = case_number(which)};
    kl_vjp_fn *rule = kl_vjp_rule(f->c.op);
    if (!rule || rule == kl_vjp_refuse || !(f->c.dtypes & BIT(dtype))) return false;
    /* These have none: test_vjp_moves.c, test_quantized_gradients.c. */
    if (strstr(f->c.name, "scatter_prod") || strstr(f->c.name, "quantize_scales")) return false;
    double from = -3, to = 3;
    row_interval(f->c.op, &from, &to);
    /* The numbers of a case do not depend on the cases before it. */
    seed = 7 + (uint32_t)dtype;
    for (const char *c = f->c.name; *c; c++) seed = seed * 31 + (uint32_t)*c;
    for (int i = 0; i < f->c.n_in; i++) {
        struct kl_array *x = make_input(&f->c.in[i], dtype, -1, &seed);
        bool floats = kl_has_gradient(x);
        if (floats && f->c.in[i].values != SQUARES) {
            struct kl_array *y = numbers_like(x, from, to);
            kl_array_release(x);
            x = y;
        }
        f->in[i] = x;
        if (floats && x->t.size > 0) f->which[f->n++] = i;
    }
    return f->n > 0;
}

static inline void subject_free(struct subject *f) {
    for (int i = 0; i < f->c.n_in; i++) kl_array_release(f->in[i]);
    kl_array_release(f->weights);
}

static inline void arguments_of(const struct subject *f, struct kl_array **args) {
    for (int k = 0; k < f->n; k++) args[k] = f->in[f->which[k]];
}

static inline void release_each(struct kl_array **a, int n) {
    for (int i = 0; i < n; i++) kl_array_release(a[i]);
}

/* Gives call_sum its weights: random numbers of the shape of the output. False: the output has no
 * gradient. */
static inline bool give_weights(struct subject *f) {
    struct kl_array *args[MOST_INPUTS];
    struct kl_arrays outs = {0};
    arguments_of(f, args);
    EXPECT_OK(call_case(f, args, (size_t)f->n, &outs, &err));
    bool ok = kl_has_gradient(outs.v[0]);
    if (ok) f->weights = numbers_like(outs.v[0], -1, 1);
    kl_arrays_free(&outs);
    return ok;
}

static inline double tolerance_of(enum kl_dtype d) {
    return d == KL_F64 ? 1e-9 : d == KL_F16 ? 2e-2 : d == KL_BF16 ? 1e-1 : 2e-4;
}
