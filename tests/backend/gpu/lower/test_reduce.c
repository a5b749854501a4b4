/* test_reduce.c - reductions on a device against the CPU's. Integers, extremes, truth values:
 * bit for bit. Floats: within the bounds that bound_of states, and the same bits when run again. */
#include "lower_support.h"

#include "backend/cpu/operand/tile.h"

static const int no_dims[1];

/* What elements are, instead of what `values` says. */
enum fill { AS_DRAWN, NEAR_ONE, FAR_APART, ALIKE, FAR_FROM_0, MOSTLY_TRUE, MOSTLY_FALSE };

static void put(void *p, enum kl_dtype d, double x) {
    float f = (float)x;
    switch (d) {
    case KL_F16: *(uint16_t *)p = kl_f32_to_f16(f); break;
    case KL_BF16: *(uint16_t *)p = kl_f32_to_bf16(f); break;
    case KL_F64: *(double *)p = x; break;
    default: memcpy(p, &f, sizeof f);
    }
}

/* A number that is 0 (of any sign), or differs from 0 in one bit, or in all (NaN). */
static void put_truth(char *p, enum kl_dtype d, bool truth) {
    size_t item = kl_dtype_size(d), part = d == KL_C64 ? 4 : item;
    memset(p, 0, item);
    if (d == KL_BOOL) {
        *p = truth;
    } else if (truth) {
        size_t bit = ls_draw() % (8 * item - ls_inexact(d));
        if (bit == 31 && d == KL_C64) bit = 0; /* a sign */
        p[bit / 8] |= (char)(1 << bit % 8);
        if (ls_draw() % 4 == 0) memset(p, 0xff, part);
    }
    for (size_t k = part - 1; ls_inexact(d) && k < item; k += part)
        if (ls_draw() % 2) p[k] |= (char)0x80;
}

/* n_red: about one element in so many is what the others are not. */
static void refill(struct operand *o, enum fill fill, int64_t n_red) {
    enum kl_dtype d = o->arg.dtype;
    size_t item = kl_dtype_size(d), part = d == KL_C64 ? 4 : item;
    for (size_t at = 0; at + part <= o->bytes; at += fill >= MOSTLY_TRUE ? item : part) {
        double u = ls_unit(), sign = ls_draw() % 2 ? -1 : 1;
        switch (fill) {
        case AS_DRAWN: return;
        case NEAR_ONE: /* in magnitude, also a complex number */
            put(o->block + at, d, sign * (0.98 + 0.04 * u) * (d == KL_C64 ? sqrt(0.5) : 1));
            break;
        case FAR_APART: put(o->block + at, d, sign * 900 * u * u * u); break;
        case ALIKE: put(o->block + at, d, 0.1); break;
        case FAR_FROM_0: put(o->block + at, d, 3000 + u); break;
        case MOSTLY_TRUE:
        case MOSTLY_FALSE:
            put_truth(o->block + at, d,
                      (ls_draw() % (uint64_t)(n_red + 1) == 0) == (fill == MOSTLY_FALSE));
        }
    }
    kh_write(o->device, o->block, o->bytes);
}

/* What the bounds of an output are made of. */
struct sums {
    double magnitudes;  /* of the elements, added up */
    double re, im;      /* the sum; of exponentials of distances from top: their sum */
    double top, powers; /* the largest real part; the sum of the exponentials' magnitudes */
    double squares;     /* of the distances from the mean, added up */
};

/* Adds element `from` in the given pass. */
static void add_up(struct sums *s, const struct operand *in, enum kl_op_id op, int pass,
                   int64_t from, double n) {
    enum kl_dtype d = in->arg.dtype;
    bool pair = d == KL_C64, whole = !ls_inexact(d);
    char *p = (char *)in->arg.data + from * (int64_t)kl_dtype_size(d);
    double re, im = pair ? ((float *)p)[1] : 0;
    if (whole)
        kl_convert(KL_F64, &re, d, p, 1);
    else
        re = ls_get(p, d, 0);
    if (pass == 0) {
        s->magnitudes += fabs(re) + fabs(im);
        s->top = re > s->top ? re : s->top;
        if (op == KL_OP_VAR) s->re += re, s->im += im;
    } else if (op == KL_OP_VAR) {
        s->squares += pow(re - s->re / n, 2) + pow(im - s->im / n, 2);
    } else {
        double power = exp(re - s->top);
        if (power == 0) return; /* whatever the angle */
        s->powers += power;
        s->re += power * cos(im);
        s->im += power * sin(im);
    }
}

/* For each output, how far the results may be apart, in half units in the last place of float64 for
 * it, else of float32.
 * SUM: 4 log2(n) + 8 of the sum of magnitudes. PROD: n + 8 of the result. LOGSUMEXP: 4 log2(n) + 16
 * of 1 (complex: of the magnitudes of the exponentials over that of their sum), and what the CPU's
 * exponentials of 16-bit floats are off by. VAR: 4 log2(n) + 16 of the variance and of the mean
 * times the deviation, and the square of so many of the mean. */
static double *bound_of(enum kl_op_id op, const struct operand *in, const struct operand *out,
                        double n, double divisor) {
    struct sums *sums = calloc((size_t)out->arg.size + 1, sizeof *sums);
    double *bound = calloc((size_t)out->arg.size + 1, sizeof *bound), eps;
    enum kl_dtype to = out->arg.dtype;
    for (int64_t o = 0; o < out->arg.size; o++) sums[o].top = -INFINITY;
    for (int pass = 0; pass < (op == KL_OP_LOGSUMEXP || op == KL_OP_VAR ? 2 : 1); pass++) {
        int at[LS_DIMS] = {0};
        for (int64_t k = 0; k < in->arg.size; k++) {
            int64_t from = 0, o = 0;
            for (int i = 0; i < in->arg.ndim; i++) {
                from += at[i] * in->strides[i];
                o += out->dims[i] == 1 ? 0 : at[i] * out->strides[i];
            }
            add_up(&sums[o], in, op, pass, from, n);
            for (int i = in->arg.ndim - 1; i >= 0; i--) {
                if (++at[i] < in->dims[i]) break;
                at[i] = 0;
            }
        }
    }
    eps = to == KL_F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t o = 0; o < out->arg.size; o++) {
        const struct sums *s = &sums[o];
        double some = 4 * log2(n + 1), mean = hypot(s->re, s->im) / n;
        if (op == KL_OP_SUM) {
            bound[o] = eps * (some + 8) * s->magnitudes;
        } else if (op == KL_OP_PROD) {
            double re = ls_get(out->block, to, o * ls_parts(to)),
                   im = to == KL_C64 ? ls_get(out->block, to, o * 2 + 1) : 0;
            bound[o] = eps * (n + 8) * hypot(re, im);
        } else if (op == KL_OP_LOGSUMEXP) {
            bound[o] = eps * (some + 16) * (to == KL_C64 ? s->powers / hypot(s->re, s->im) : 1);
            if (to == KL_F16 || to == KL_BF16) bound[o] += 0x1p-16;
        } else {
            double off = eps * (some + 16), root = sqrt(s->squares);
            bound[o] = (off * root * (root + mean * sqrt(n)) + n * pow(off * mean, 2)) / divisor;
        }
    }
    free(sums);
    return bound;
}

/* A complex number is NaN when one part is: then the other part does not matter. */
static void same_nan(const struct operand *out, void *got) {
    if (out->arg.dtype != KL_C64) return;
    for (int64_t i = 0; i < out->arg.size; i++) {
        const float *a = (const float *)(void *)out->block + 2 * i;
        float *b = (float *)got + 2 * i;
        if ((isnan(a[0]) || isnan(a[1])) && (isnan(b[0]) || isnan(b[1])))
            memcpy(b, a, 2 * sizeof *a);
    }
}

static int ddof, n_true, n_false; /* ddof: of the variances */

static void check_filled(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, int ndim,
                         const int *dims, unsigned axes, enum layout layout, enum values v,
                         enum fill fill) {
    struct {
        struct kl_reduce_params p;
        int axes[LS_DIMS];
    } params = {0};
    struct {
        struct kl_var_params p;
        int axes[LS_DIMS];
    } var = {.p = {.ddof = ddof}};
    int out_dims[LS_DIMS];
    int64_t n_red = 1;
    char what[200];
    int len = snprintf(what, sizeof what, "%s of %s, layout %d, axes %x of", kl_op_name(op),
                       kl_dtype_name(from), layout, axes);
    for (int i = 0; i < ndim; i++) {
        bool gone = axes >> i & 1;
        out_dims[i] = gone ? 1 : dims[i];
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
        if (!gone) continue;
        params.p.axes[params.p.n_axes++] = i;
        var.p.axes[var.p.n_axes++] = i;
        n_red *= dims[i];
    }
    struct operand in, out;
    ls_make(&in, from, ndim, dims, layout, v);
    refill(&in, fill, n_red);
    ls_make_out(&out, to, ndim, out_dims);
    const void *p = op == KL_OP_VAR ? (void *)&var : (void *)&params;
    void *got = ls_run(op, p, 1, &in, &out);
    if (op != KL_OP_MAX && op != KL_OP_MIN && ls_inexact(to)) {
        double n = (double)n_red, *bound = bound_of(op, &in, &out, n, n > ddof ? n - ddof : 0);
        void *again = ls_run(op, p, 1, &in, &out);
        assert_memory_equal(got, again, out.bytes);
        free(again);
        same_nan(&out, got);
        ls_near(&out, got, bound, 1, what);
        free(bound);
    } else {
        ls_same(&out, got, what);
    }
    for (int64_t i = 0; to == KL_BOOL && i < out.arg.size; i++)
        ++*(out.block[i] ? &n_true : &n_false);
    /* The CPU's variance of float64, which stands for that of a device without it, may differ. */
    const bool own = op == KL_OP_VAR && fill == ALIKE && !ls_lacks_f64(1, &in, &out);
    for (int64_t i = 0; own && i < out.arg.size; i++)
        if (n_red > ddof) assert_true(ls_get(got, to, i) == 0);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void check(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, int ndim, const int *dims,
                  unsigned axes, enum layout layout, enum values v) {
    check_filled(op, from, to, ndim, dims, axes, layout, v, AS_DRAWN);
}

/* Shapes that lead through every way. */
static void filled_shapes(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, enum values v,
                          enum fill fill, bool all) {
    static const struct {
        int ndim, dims[5];
        unsigned axes;
    } cases[] = {
        {1, {1000}, 1},     {2, {7, 33}, 2},        {2, {33, 7}, 1},
        {3, {5, 6, 7}, 5},  {3, {5, 6, 7}, 2},      {1, {1}, 1},
        {2, {1, 1}, 3},     {3, {1, 70, 1}, 2},     {1, {100003}, 1},
        {2, {3, 40001}, 2}, {2, {20011, 3}, 1},     {2, {300, 5}, 2},
        {2, {2, 4096}, 2},  {4, {4, 3, 8, 16}, 13}, {4, {4, 3, 5, 7}, 5},
        {2, {0, 4}, 2},     {3, {2, 300, 70}, 2},   {5, {2, 3, 2, 3, 4}, 10},
        {2, {3, 0}, 2},     {3, {9, 700, 64}, 2},   {2, {5000, 96}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int layout = DENSE; layout < (all ? N_LAYOUTS : 1); layout++) {
            if ((op == KL_OP_MAX || op == KL_OP_MIN) && cases[i].dims[1] == 0 && i > 15) continue;
            /* Of truths there must be enough of either kind (truths). */
            if (to != KL_BOOL && !kl_test_takes("device", 2)) continue;
            check_filled(op, from, to, cases[i].ndim, cases[i].dims, cases[i].axes,
                         (enum layout)layout, v, fill);
        }
}
static void shapes(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, enum values v,
                   bool all) {
    filled_shapes(op, from, to, v, AS_DRAWN, all);
}

static void sums_of_every_dtype(void **state) {
    shapes(KL_OP_SUM, KL_F32, KL_F32, PLAIN, true);
    shapes(KL_OP_SUM, KL_I32, KL_I32, PLAIN, true);
    static const enum kl_dtype pairs[][2] = {
        {KL_BOOL, KL_I32}, {KL_U16, KL_U32},   {KL_I64, KL_I64}, {KL_F16, KL_F16},
        {KL_F16, KL_F32},  {KL_BF16, KL_BF16}, {KL_F64, KL_F64}, {KL_C64, KL_C64}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        shapes(KL_OP_SUM, pairs[i][0], pairs[i][1], PLAIN, false);
}

static void sums_of_nothing_and_of_0d(void **state) {
    check(KL_OP_SUM, KL_F32, KL_F32, 2, (int[]){0, 5}, 1, DENSE, PLAIN);
    check(KL_OP_SUM, KL_I32, KL_I32, 1, (int[]){0}, 1, DENSE, PLAIN);
    check(KL_OP_SUM, KL_C64, KL_C64, 2, (int[]){5, 0}, 2, DENSE, PLAIN);
    check(KL_OP_SUM, KL_F32, KL_F32, 0, no_dims, 0, DENSE, PLAIN);
    check(KL_OP_MAX, KL_F32, KL_F32, 0, no_dims, 0, DENSE, SPECIAL);
}

/* Compiling is what takes the time: each dtype once. KEEL_TEST_FULL: with both. */
static void extremes_of_every_dtype(void **state) {
    static const enum kl_dtype some[] = {KL_BOOL, KL_U8, KL_I16, KL_U64, KL_BF16, KL_C64};
    bool full = getenv("KEEL_TEST_FULL") != NULL;
    for (int i = 0; i < (full ? KL_N_DTYPES * 2 : 6); i++) {
        enum kl_dtype d = full ? (enum kl_dtype)(i / 2) : some[i];
        shapes(i % 2 ? KL_OP_MIN : KL_OP_MAX, d, d, ls_inexact(d) ? SPECIAL : PLAIN, d == KL_I16);
    }
}

static void special_values(void **state) {
    for (int i = 0; i < 20; i++) {
        check(KL_OP_MAX, KL_F32, KL_F32, 2, (int[]){40, 6}, 2, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
        check(KL_OP_MIN, KL_F32, KL_F32, 2, (int[]){6, 40}, 1, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
        check(KL_OP_SUM, KL_F32, KL_F32, 2, (int[]){40, 3}, 2, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
    }
}

/* Compiling is what takes the time: some dtypes, and all with KEEL_TEST_FULL. */
static bool takes(enum kl_dtype d, unsigned some) {
    if (getenv("KEEL_TEST_FULL")) return true;
    return some >> d & 1 && (d == KL_F32 || kl_test_takes("kernels", 3));
}
enum {
    FLOATS = 1u << KL_F16 | 1u << KL_F32 | 1u << KL_F64 | 1u << KL_C64,
    SOME = FLOATS | 1u << KL_BOOL | 1u << KL_I64
};

static enum kl_dtype sum_dtype(enum kl_dtype d) {
    if (ls_inexact(d) || kl_dtype_size(d) >= 4) return d;
    return d == KL_BOOL || kl_dtype_is_signed(d) ? KL_I32 : KL_U32;
}

static void products(void **state) {
    for (enum kl_dtype d = KL_BOOL; d < KL_N_DTYPES; d++)
        if (takes(d, SOME | 1u << KL_U8))
            filled_shapes(KL_OP_PROD, d, sum_dtype(d), PLAIN, ls_inexact(d) ? NEAR_ONE : AS_DRAWN,
                          d == KL_F32 || d == KL_U8);
    for (int i = 0; i < 20; i++)
        check(KL_OP_PROD, KL_F32, KL_F32, 2, (int[]){40, 30}, 2, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
    /* A single number is the product, whatever it is. */
    check(KL_OP_PROD, KL_C64, KL_C64, 2, (int[]){400, 1}, 2, DENSE, SPECIAL);
    check(KL_OP_PROD, KL_F32, KL_F32, 0, no_dims, 0, DENSE, SPECIAL);
}

static void truths(void **state) {
    for (enum kl_dtype d = KL_BOOL; d < KL_N_DTYPES; d++)
        for (int any = 0; any < 2 && takes(d, SOME | 1u << KL_U8 | 1u << KL_I16); any++) {
            enum kl_op_id op = any ? KL_OP_ANY : KL_OP_ALL;
            n_true = n_false = 0;
            filled_shapes(op, d, KL_BOOL, PLAIN, any ? MOSTLY_FALSE : MOSTLY_TRUE,
                          d == KL_F32 || d == KL_BOOL || d == KL_I16);
            assert_true(n_true > 20 && n_false > 20);
            filled_shapes(op, d, KL_BOOL, PLAIN, any ? MOSTLY_TRUE : MOSTLY_FALSE, false);
            check(op, d, KL_BOOL, 0, no_dims, 0, DENSE, SPECIAL);
        }
    for (int i = 0; i < 20; i++) {
        check(KL_OP_ALL, KL_F32, KL_BOOL, 2, (int[]){40, 6}, 2, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
        check(KL_OP_ANY, KL_F32, KL_BOOL, 2, (int[]){6, 40}, 1, (enum layout)(i % N_LAYOUTS),
              SPECIAL);
    }
}

static void logarithms_of_sums(void **state) {
    for (enum kl_dtype d = KL_BOOL; d < KL_N_DTYPES; d++)
        if (ls_inexact(d) && takes(d, FLOATS | 1u << KL_BF16)) {
            shapes(KL_OP_LOGSUMEXP, d, d, PLAIN, d == KL_F32);
            filled_shapes(KL_OP_LOGSUMEXP, d, d, PLAIN, FAR_APART, d == KL_F32);
            for (int i = 0; i < 20; i++) { /* rows of one element to batches */
                int dims[2] = {60, 1 << i % 6}, turned[2] = {dims[1], 60};
                check(KL_OP_LOGSUMEXP, d, d, 2, dims, 2, (enum layout)(i % N_LAYOUTS), SPECIAL);
                check(KL_OP_LOGSUMEXP, d, d, 2, turned, 1, (enum layout)(i % N_LAYOUTS), SPECIAL);
            }
        }
    check(KL_OP_LOGSUMEXP, KL_F32, KL_F32, 0, no_dims, 0, DENSE, PLAIN);
}

static void variances(void **state) {
    for (enum kl_dtype d = KL_BOOL; d < KL_N_DTYPES; d++) {
        if (!takes(d, SOME | 1u << KL_BF16)) continue;
        enum kl_dtype to = kl_dtype_is_float(d) ? d : KL_F32;
        for (ddof = 0; ddof < 2; ddof++) shapes(KL_OP_VAR, d, to, PLAIN, d == KL_F32 && ddof);
        ddof = 3; /* x / 0 of one to three elements */
        check(KL_OP_VAR, d, to, 2, (int[]){20, 1}, 2, DENSE, PLAIN);
        check(KL_OP_VAR, d, to, 2, (int[]){20, 2}, 2, DENSE, PLAIN);
        check(KL_OP_VAR, d, to, 2, (int[]){4, 20}, 1, DENSE, PLAIN);
        ddof = -2;
        check(KL_OP_VAR, d, to, 2, (int[]){20, 3}, 2, DENSE, PLAIN);
        check(KL_OP_VAR, d, to, 2, (int[]){20, 0}, 2, DENSE, PLAIN);
        ddof = 0;
        if (!ls_inexact(d)) continue;
        filled_shapes(KL_OP_VAR, d, to, PLAIN, ALIKE, false);
        if (d != KL_BF16 && d != KL_F16)
            filled_shapes(KL_OP_VAR, d, to, PLAIN, FAR_FROM_0, d == KL_F32);
        for (int i = 0; i < 20; i++) {
            int dims[2] = {60, 1 << i % 6}, turned[2] = {dims[1], 60};
            check(KL_OP_VAR, d, to, 2, dims, 2, (enum layout)(i % N_LAYOUTS), SPECIAL);
            check(KL_OP_VAR, d, to, 2, turned, 1, (enum layout)(i % N_LAYOUTS), SPECIAL);
        }
    }
    check(KL_OP_VAR, KL_F32, KL_F32, 0, no_dims, 0, DENSE, PLAIN);
    check(KL_OP_VAR, KL_F32, KL_F32, 2, (int[]){5, 6}, 0, TRANSPOSED, PLAIN);
}

/* More than eight axes that do not merge. */
static void many_axes(void **state) {
    static const int dims[] = {2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2};
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x555, DENSE, PLAIN);
    check(KL_OP_SUM, KL_F32, KL_F32, 11, dims, 0x7ff, REVERSED, PLAIN);
    check(KL_OP_MAX, KL_I16, KL_I16, 11, dims, 0x3fe, GAPPED, PLAIN);
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x001, TRANSPOSED, PLAIN);
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x7fe, TRANSPOSED, PLAIN);
    check(KL_OP_PROD, KL_U8, KL_U32, 11, dims, 0x555, DENSE, PLAIN);
    check_filled(KL_OP_ALL, KL_F32, KL_BOOL, 11, dims, 0x2aa, REVERSED, PLAIN, MOSTLY_TRUE);
    check_filled(KL_OP_ANY, KL_BOOL, KL_BOOL, 11, dims, 0x555, DENSE, PLAIN, MOSTLY_FALSE);
    check(KL_OP_LOGSUMEXP, KL_F32, KL_F32, 11, dims, 0x7fe, TRANSPOSED, PLAIN);
    check(KL_OP_LOGSUMEXP, KL_F32, KL_F32, 11, dims, 0x555, GAPPED, PLAIN);
    check(KL_OP_VAR, KL_F32, KL_F32, 11, dims, 0x555, DENSE, PLAIN);
    check(KL_OP_VAR, KL_C64, KL_F32, 11, dims, 0x2aa, REVERSED, PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_every_dtype),
        cmocka_unit_test(sums_of_nothing_and_of_0d),
        cmocka_unit_test(extremes_of_every_dtype),
        cmocka_unit_test(special_values),
        cmocka_unit_test(products),
        cmocka_unit_test(truths),
        cmocka_unit_test(logarithms_of_sums),
        cmocka_unit_test(variances),
        cmocka_unit_test(many_axes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
