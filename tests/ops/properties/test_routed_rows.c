/* test_routed_rows.c - products of single rows with matrices that indices choose, as mixtures of
 * experts have them, on a device that brings the rows of a matrix together (on_device.h chooses the
 * device), against products of each row with its own matrix, unpacked, in float64. */
#include "ops/support/on_device.h"

#include <math.h>

#include "ops/quantized.h"

enum { DEPTH = 128, COLUMNS = 40 };
static const int wide_type = KL_F32; /* of unpacked matrices, which products do not round either */

static uint32_t state_of_numbers = 1;
static double number(void) {
    state_of_numbers = state_of_numbers * 1664525u + 1013904223u;
    return (double)(state_of_numbers >> 16 & 255) / 128 - 1;
}

static struct kl_array *numbers(enum kl_dtype dtype, int ndim, const int *dims) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= dims[i];
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)number();
    struct kl_array *wide, *out;
    OK(kl_array_new_data(&wide, v, KL_F32, ndim, dims, &err));
    OK(kl_astype(&out, wide, dtype, cpu_stream, &err));
    free(v);
    kl_array_release(wide);
    return out;
}

/* How the rows are spread over the matrices. */
enum spread { EVEN, RANDOM, ALL_THE_LAST, NEGATIVE, N_SPREADS };

static struct kl_array *matrices_of_rows(enum spread spread, int n, int n_matrices, int32_t *v) {
    struct kl_array *out;
    for (int i = 0; i < n; i++) {
        const int any = (int)((number() + 1) * 128 * 7919) % n_matrices;
        v[i] = spread == EVEN           ? i % n_matrices
               : spread == ALL_THE_LAST ? n_matrices - 1
               : spread == NEGATIVE     ? any - n_matrices
                                        : any;
    }
    OK(kl_array_new_data(&out, v, KL_I32, 1, &n, &err));
    return out;
}

static double *in_doubles(struct kl_array *a) {
    struct kl_array *wide, *kept;
    OK(kl_astype(&wide, a, KL_F64, cpu_stream, &err));
    const double *v = read_elements(wide, cpu_stream, &kept, "operand");
    double *out = malloc((size_t)a->t.size * sizeof *out);
    memcpy(out, v, (size_t)a->t.size * sizeof *out);
    kl_array_release(wide);
    kl_array_release(kept);
    return out;
}

/* Row i of got is row left[i] of x times the transpose of matrix right[i] of w. each: the error of
 * a term, where matrices are unpacked and rounded. */
static void expect_products(struct kl_array *got, struct kl_array *x, struct kl_array *w,
                            const int32_t *left, const int32_t *right, int n, double eps,
                            double each, const char *what) {
    double *g = in_doubles(got), *xv = in_doubles(x), *wv = in_doubles(w);
    const int n_x = x->t.dims[0], n_w = w->t.dims[0];
    assert_int_equal(got->t.size, (int64_t)n * COLUMNS);
    for (int i = 0; i < n; i++) {
        const double *row = xv + (left ? (left[i] + n_x) % n_x : i) * DEPTH,
                     *matrix = wv + (int64_t)((right[i] + n_w) % n_w) * COLUMNS * DEPTH;
        for (int c = 0; c < COLUMNS; c++) {
            double sum = 0, size = 0;
            for (int k = 0; k < DEPTH; k++) {
                sum += row[k] * matrix[c * DEPTH + k];
                size += fabs(row[k] * matrix[c * DEPTH + k]);
            }
            if (!(fabs(g[i * COLUMNS + c] - sum) <= eps * fabs(sum) + (each + 1e-6) * size))
                fail_msg("%s: row %d, column %d is %g, not %g", what, i, c, g[i * COLUMNS + c],
                         sum);
        }
    }
    free(g);
    free(xv);
    free(wv);
}

static const struct {
    enum kl_dtype dtype;
    double eps;
} types[] = {{KL_F32, 1e-6}, {KL_F16, 0x1p-10}, {KL_BF16, 0x1p-7}};
/* rows, matrices: just too few to be brought together, some with a matrix, many (of matrices that
 * are unpacked together, and in two parts), one matrix alone, as many matrices as are counted, and
 * one more. */
static const int sizes[][2] = {{31, 3},  {32, 3}, {100, 40},   {200, 3},
                               {330, 5}, {40, 1}, {256, 1024}, {300, 1025}};
enum { N_TYPES = sizeof types / sizeof *types, N_SIZES = sizeof sizes / sizeof *sizes };

static void packed(void **state) {
    static const struct kl_quant_format formats[] = {{KL_QUANT_AFFINE, 64, 4},
                                                     {KL_QUANT_AFFINE, 32, 8},
                                                     {KL_QUANT_AFFINE, 128, 2},
                                                     {KL_QUANT_MXFP4, 32, 4}};
    for (int f = 0; f < 4; f++)
        for (int t = 0; t < N_TYPES; t++) {
            if (!takes_case(6)) continue;
            for (int z = 0; z < N_SIZES - (f || t ? 2 : 0); z++) {
                const int n = sizes[z][0], n_w = sizes[z][1], lanes[] = {n_w, COLUMNS, DEPTH},
                          rows[] = {n, 1, DEPTH};
                struct kl_array *w = numbers(types[t].dtype, 3, lanes), *q[3] = {NULL}, *plain,
                                *x = numbers(types[t].dtype, 3, rows), *wide;
                int n_q;
                OK(kl_quantize(q, &n_q, w, &formats[f], NULL, cpu_stream, &err));
                OK(kl_dequantize(&plain, q[0], q[1], q[2], &formats[f], NULL, &wide_type,
                                 cpu_stream, &err));
                OK(kl_astype(&wide, plain, KL_F64, cpu_stream, &err));
                for (int spread = 0; spread < N_SPREADS; spread++) {
                    int32_t *to = malloc((size_t)n * sizeof *to);
                    struct kl_array *right = matrices_of_rows(spread, n, n_w, to), *got;
                    char what[100];
                    snprintf(what, sizeof what,
                             "mode %d of %d bits, dtype %d, %d rows, %d matrices, %d",
                             formats[f].mode, formats[f].bits, types[t].dtype, n, n_w, spread);
                    OK(kl_gather_qmm(&got, x, q[0], q[1], q[2], NULL, right, true, &formats[f],
                                     gpu_stream, &err));
                    expect_products(got, x, wide, NULL, to, n, types[t].eps * 4,
                                    n > 64 * n_w ? types[t].eps : 0, what);
                    kl_array_release(right);
                    kl_array_release(got);
                    free(to);
                }
                struct kl_array *used[] = {w, x, plain, wide, q[0], q[1]};
                for (size_t i = 0; i < sizeof used / sizeof *used; i++) kl_array_release(used[i]);
                if (q[2]) kl_array_release(q[2]);
            }
        }
}

static void plain(void **state) {
    for (int t = 0; t < N_TYPES; t++)
        for (int z = 0; z < N_SIZES - 2; z++)
            for (int columns = 0; columns < 2; columns++) { /* how w is stored */
                if (!takes_case(15)) continue;
                const int n = sizes[z][0], n_w = sizes[z][1], lanes[] = {n_w, COLUMNS, DEPTH},
                          rows[] = {n, 1, DEPTH};
                struct kl_array *w = numbers(types[t].dtype, 3, lanes),
                                *x = numbers(types[t].dtype, 3, rows), *turned, *dense;
                OK(kl_swapaxes(&turned, w, 1, 2, cpu_stream, &err));
                OK(kl_contiguous(&dense, turned, false, cpu_stream, &err));
                for (int spread = 0; spread < N_SPREADS; spread++) {
                    int32_t *to = malloc((size_t)n * sizeof *to);
                    struct kl_array *right = matrices_of_rows(spread, n, n_w, to), *got;
                    char what[100];
                    snprintf(what, sizeof what, "dtype %d, %d rows, %d matrices, %d, %d",
                             types[t].dtype, n, n_w, spread, columns);
                    OK(kl_gather_mm(&got, x, columns ? dense : turned, NULL, right, gpu_stream,
                                    &err));
                    expect_products(got, x, w, NULL, to, n, types[t].eps, 0, what);
                    kl_array_release(right);
                    kl_array_release(got);
                    free(to);
                }
                struct kl_array *used[] = {w, x, turned, dense};
                for (size_t i = 0; i < sizeof used / sizeof *used; i++) kl_array_release(used[i]);
            }
}

/* Rows of x that are used several times, and an index that is out of range. */
static void chosen_rows(void **state) {
    enum { N = 200, N_X = 7, N_W = 6 };
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 64, 4};
    const int lanes[] = {N_W, COLUMNS, DEPTH}, rows[] = {N_X, 1, DEPTH}, n = N;
    for (int t = 0; t < N_TYPES; t++) {
        struct kl_array *w = numbers(types[t].dtype, 3, lanes), *q[3], *unpacked, *turned, *got,
                        *x = numbers(types[t].dtype, 3, rows), *left, *right, *bad;
        int32_t from[N], to[N];
        int n_q;
        right = matrices_of_rows(RANDOM, N, N_W, to);
        left = matrices_of_rows(NEGATIVE, N, N_X, from);
        OK(kl_quantize(q, &n_q, w, &f, NULL, cpu_stream, &err));
        OK(kl_dequantize(&unpacked, q[0], q[1], q[2], &f, NULL, &wide_type, cpu_stream, &err));
        OK(kl_gather_qmm(&got, x, q[0], q[1], q[2], left, right, true, &f, gpu_stream, &err));
        expect_products(got, x, unpacked, from, to, N, types[t].eps * 4, 0, "packed");
        kl_array_release(got);
        OK(kl_swapaxes(&turned, w, 1, 2, cpu_stream, &err));
        OK(kl_gather_mm(&got, x, turned, left, right, gpu_stream, &err));
        expect_products(got, x, w, from, to, N, types[t].eps, 0, "plain");
        kl_array_release(got);
        to[150] = N_W;
        OK(kl_array_new_data(&bad, to, KL_I32, 1, &n, &err));
        for (int way = 0; way < 2; way++) {
            struct kl_error *why = NULL;
            if (way)
                OK(kl_gather_mm(&got, x, turned, left, bad, gpu_stream, &err));
            else
                OK(kl_gather_qmm(&got, x, q[0], q[1], q[2], left, bad, true, &f, gpu_stream, &err));
            assert_int_equal(kl_eval(&got, 1, &why), KL_EINDEX);
            assert_int_equal(why->position, 150);
            assert_int_equal(why->index, N_W);
            kl_error_release(why);
            kl_array_release(got);
        }
        struct kl_array *used[] = {w, x, q[0], q[1], q[2], unpacked, turned, left, right, bad};
        for (size_t i = 0; i < sizeof used / sizeof *used; i++) kl_array_release(used[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed), cmocka_unit_test(plain),
                                       cmocka_unit_test(chosen_rows)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
