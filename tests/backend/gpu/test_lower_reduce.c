/* test_lower_reduce.c - SUM, MAX and MIN on a device against the CPU's. Integers, extremes: bit for
 * bit. Float sums: within 4 log2(n) + 8 roundings of the sum of the absolute values, and the same
 * bits when run again. */
#include "lower_support.h"

static const int no_dims[1];

static double *magnitudes(const struct operand *in, const struct kl_reduce_params *p,
                          const struct operand *out) {
    double *sum = calloc((size_t)out->arg.size + 1, sizeof *sum);
    int n = ls_parts(in->arg.dtype);
    int at[LS_DIMS] = {0};
    for (int64_t k = 0; k < in->arg.size; k++) {
        int64_t from = 0, to = 0;
        for (int i = 0; i < in->arg.ndim; i++) {
            from += at[i] * in->strides[i];
            to += out->dims[i] == 1 ? 0 : at[i] * out->strides[i];
        }
        for (int part = 0; part < n; part++)
            sum[to] += fabs(ls_get(in->arg.data, in->arg.dtype, from * n + part));
        for (int i = in->arg.ndim - 1; i >= 0; i--) {
            if (++at[i] < in->dims[i]) break;
            at[i] = 0;
        }
    }
    (void)p;
    return sum;
}

static void check(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, int ndim, const int *dims,
                  unsigned axes, enum layout layout, enum values v) {
    struct {
        struct kl_reduce_params p;
        int axes[LS_DIMS];
    } params = {0};
    int out_dims[LS_DIMS], *at = params.p.axes;
    int64_t n_red = 1;
    char what[200];
    int len = snprintf(what, sizeof what, "%s of %s, layout %d, axes %x of", kl_op_name(op),
                       kl_dtype_name(from), layout, axes);
    for (int i = 0; i < ndim; i++) {
        bool gone = axes >> i & 1;
        out_dims[i] = gone ? 1 : dims[i];
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
        if (!gone) continue;
        at[params.p.n_axes++] = i;
        n_red *= dims[i];
    }
    struct operand in, out;
    ls_make(&in, from, ndim, dims, layout, v);
    ls_make_out(&out, to, ndim, out_dims);
    void *got = ls_run(op, &params, 1, &in, &out);
    if (op == KL_OP_SUM && ls_inexact(to)) {
        double *scale = magnitudes(&in, &params.p, &out);
        double eps = to == KL_F64 ? 0x1p-53 : 0x1p-24;
        ls_near(&out, got, scale, eps * (4 * log2((double)n_red + 1) + 8), what);
        void *again = ls_run(op, &params, 1, &in, &out);
        assert_memory_equal(got, again, out.bytes);
        free(again);
        free(scale);
    } else {
        ls_same(&out, got, what);
    }
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

/* The shapes lead to every method of the lowering. */
static void shapes(enum kl_op_id op, enum kl_dtype from, enum kl_dtype to, enum values v,
                   bool all) {
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
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int layout = DENSE; layout < (all ? N_LAYOUTS : 1); layout++)
            check(op, from, to, cases[i].ndim, cases[i].dims, cases[i].axes, (enum layout)layout,
                  v);
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

/* Each dtype runs with one of the two operations, since compiling takes most of the time. With
 * KEEL_TEST_FULL each runs with both. */
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

/* The operand has more than eight axes that cannot be merged. */
static void many_axes(void **state) {
    static const int dims[] = {2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2};
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x555, DENSE, PLAIN);
    check(KL_OP_SUM, KL_F32, KL_F32, 11, dims, 0x7ff, REVERSED, PLAIN);
    check(KL_OP_MAX, KL_I16, KL_I16, 11, dims, 0x3fe, GAPPED, PLAIN);
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x001, TRANSPOSED, PLAIN);
    check(KL_OP_SUM, KL_I32, KL_I32, 11, dims, 0x7fe, TRANSPOSED, PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_every_dtype),
        cmocka_unit_test(sums_of_nothing_and_of_0d),
        cmocka_unit_test(extremes_of_every_dtype),
        cmocka_unit_test(special_values),
        cmocka_unit_test(many_axes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
