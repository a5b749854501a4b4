/* test_norm_backward.c - NORM_BACKWARD on a device against the CPU's: the gradient of x is
 * within log2(n) + 32 roundings of the largest gradient, those of weight and bias within as many
 * times the root of the number of rows; NaN and infinities as on the CPU. */
#include "lower_support.h"

struct problem {
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
    enum layout layout, given, side; /* of x, of the cotangent, of the weight */
    enum values values;
};

static void check(const struct problem *q, bool centred, bool weight, bool of_weight,
                  bool of_bias) {
    if (!kl_test_takes("kernels", 6)) return;
    const struct kl_norm_backward_params p = {1e-3f, centred, weight, of_weight, of_bias};
    struct operand in[3], out;
    const int n = q->dims[q->ndim - 1];
    char what[200];
    int len = snprintf(what, sizeof what, "centred %d weight %d gradients %d %d layouts %d %d of",
                       centred, weight, of_weight, of_bias, q->layout, q->given);
    for (int i = 0; i < q->ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", q->dims[i]);
    ls_make(&in[0], q->dtype, q->ndim, q->dims, q->layout, q->values);
    if (weight) ls_make(&in[1], q->dtype, 1, &n, q->side, PLAIN);
    ls_make(&in[1 + weight], q->dtype, q->ndim, q->dims, q->given, PLAIN);
    const int64_t size = in[0].arg.size, rows = n ? size / n : 0;
    const int total = (int)size + n * (of_weight + of_bias);
    ls_make_out(&out, q->dtype, 1, &total);
    void *got = ls_run(KL_OP_NORM_BACKWARD, &p, 2 + weight, in, &out);
    double *scale = calloc((size_t)total + 1, sizeof *scale), largest = 16;
    for (int64_t i = 0; i < total; i++) {
        const double x = fabs(ls_get(out.block, q->dtype, i));
        if (isfinite(x)) largest = fmax(largest, x);
    }
    /* Where a row is constant, the rounding of its mean is divided by sqrt(eps). */
    if (centred && q->layout == BROADCAST) largest *= 1000;
    /* Of many short rows some are nearly so, and their large terms cancel. */
    if (centred && n > 1 && n < 16) largest *= 16;
    for (int64_t i = 0; i < total; i++)
        scale[i] = largest * (i < size ? 1 : sqrt((double)rows + 1));
    ls_near(&out, got, scale, (q->dtype == KL_F64 ? 0x1p-53 : 0x1p-24) * (log2((double)n + 1) + 32),
            what);
    free(scale);
    free(got);
    for (int i = 0; i < 2 + weight; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void all_kinds(const struct problem *q) {
    check(q, false, false, false, false);
    check(q, false, true, true, false);
    check(q, true, true, false, false);
    check(q, true, true, true, true);
    check(q, true, false, false, true);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
enum { N_TYPES = sizeof dtypes / sizeof *dtypes };

static void layouts(void **state) {
    for (int t = 0; t < N_TYPES; t++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
            const enum layout l = (enum layout)layout;
            struct problem q = {dtypes[t], 2, (int[]){37, 64}, l, DENSE, DENSE, PLAIN};
            all_kinds(&q);
            q = (struct problem){dtypes[t], 3, (int[]){3, 5, 7}, DENSE, l, REVERSED, PLAIN};
            all_kinds(&q);
            q = (struct problem){dtypes[t], 2, (int[]){9, 33}, l, l, GAPPED, SPECIAL};
            all_kinds(&q);
        }
}

/* Lengths around those that a group keeps, and longer ones. */
static void lengths(void **state) {
    static const int n[] = {1,    2,    15,   16,   17,   1000, 1024, 2047,  2048,
                            2056, 4096, 4104, 8191, 8192, 8200, 9000, 40001, 65536};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct problem q = {dtypes[i % N_TYPES], 2, (int[]){5, n[i]}, DENSE, DENSE, DENSE, PLAIN};
        all_kinds(&q);
        q.dtype = dtypes[(i + 1) % N_TYPES];
        q.layout = i % 2 ? TRANSPOSED : SHIFTED;
        all_kinds(&q);
    }
}

/* So many rows that groups have several. */
static void many_rows(void **state) {
    static const int dims[][2] = {{70000, 3}, {40000, 8}, {3000, 128}, {2100, 1024}, {700, 2100}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct problem q = {dtypes[i % 3], 2, dims[i], DENSE, DENSE, DENSE, PLAIN};
        check(&q, false, true, true, false);
        check(&q, true, true, true, true);
    }
}

static void unusual_shapes(void **state) {
    static const int many[] = {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 2};
    struct problem q = {KL_F32, 1, (int[]){40}, DENSE, BROADCAST, BROADCAST, PLAIN};
    all_kinds(&q);
    q = (struct problem){KL_F32, 2, (int[]){0, 4}, DENSE, DENSE, DENSE, PLAIN};
    all_kinds(&q);
    q = (struct problem){KL_F32, 2, (int[]){4, 0}, DENSE, DENSE, DENSE, PLAIN};
    all_kinds(&q);
    for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
        q = (struct problem){KL_F32, 11, many, (enum layout)layout, TRANSPOSED, DENSE, PLAIN};
        all_kinds(&q);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts), cmocka_unit_test(lengths),
                                       cmocka_unit_test(many_rows),
                                       cmocka_unit_test(unusual_shapes)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
