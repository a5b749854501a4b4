/* test_on_gpu_products.c - products, convolutions and quantized matrices on a real device against
 * the CPU (ops/support/against_cpu.h). */
#include "ops/support/against_cpu.h"

#include "ops/quantized.h"

/* Whether a case runs that takes long without optimisation, and goes the way of a smaller one. */
static bool takes_large(void) {
    return strcmp(getenv("KEEL_GPU"), "cuda") == 0 || kl_test_takes("device", 2);
}

static void products(void **state) {
    static const enum kl_dtype types[] = {KL_F16, KL_F32, KL_F64, KL_BF16, KL_C64};
    static const int mnk[][3] = {{1, 1, 1},     {5, 7, 3},      {33, 65, 100},   {66, 70, 129},
                                 {1, 300, 64},  {300, 1, 64},   {128, 64, 66},   {66, 300, 40},
                                 {1, 300, 320}, {130, 70, 257}, {256, 192, 130}, {66, 1000, 40},
                                 {1, 700, 640}};
    /* A vector and long rows, as many as fill a device. */
    static const int long_rows[][2] = {{1056, 2048}, {2052, 4096}, {532, 1280}};
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < 13; s++) {
            if (s >= 9 && !takes_large()) continue; /* as those before them */
            int m = mnk[s][0], n = mnk[s][1], k = mnk[s][2];
            struct kl_array *x = plain(types[t], s % 3 == 2 ? 3 : s % 2, m, k),
                            *y = plain(types[t], (s + t) % 2, k, n), *a, *b;
            OK(kl_matmul(&a, x, y, cpu_stream, &err));
            OK(kl_matmul(&b, x, y, gpu_stream, &err));
            same(a, b, 8, 4.0 * k / 4, "matmul");
            kl_array_release(x);
            kl_array_release(y);
        }
    for (int t = 0; t < 4; t += t ? 2 : 1)
        for (int s = 0; s < 3; s++)
            for (int left = 0; left < 2; left++) {
                const int n = long_rows[s][0], k = long_rows[s][1];
                if (n > 1000 && !takes_large()) continue;
                struct kl_array *rows = plain(types[t], 0, n, k), *x = plain(types[t], 0, 1, k),
                                *turned, *a, *b;
                OK(kl_transpose(&turned, left ? x : rows, cpu_stream, &err));
                OK(kl_matmul(&a, left ? rows : x, turned, cpu_stream, &err));
                OK(kl_matmul(&b, left ? rows : x, turned, gpu_stream, &err));
                same(a, b, 8, 4.0 * k / 4, "long rows");
                kl_array_release(rows);
                kl_array_release(x);
                kl_array_release(turned);
            }
    /* A batch of both factors, or of the first one only; the second factor row-major or
     * transposed. */
    for (int t = 0; t < 5; t++)
        for (int way = 0; way < 4; way++) {
            int n = way & 1 ? 3 : 1, transposed = way >> 1;
            int xd[] = {3, 40, 36}, yd[] = {n, transposed ? 50 : 36, transposed ? 36 : 50};
            struct kl_array *x = plain(types[t], 0, 3 * 40, 36), *x3,
                            *y = plain(types[t], 0, n * yd[1], yd[2]), *y3, *y4, *a, *b;
            OK(kl_reshape(&x3, x, xd, 3, cpu_stream, &err));
            OK(kl_reshape(&y3, y, yd, 3, cpu_stream, &err));
            OK(kl_swapaxes(&y4, y3, 1, transposed ? 2 : 1, cpu_stream, &err));
            OK(kl_matmul(&a, x3, y4, cpu_stream, &err));
            OK(kl_matmul(&b, x3, y4, gpu_stream, &err));
            same(a, b, 8, 36, "batches of matmul");
            kl_array_release(x);
            kl_array_release(y);
            kl_array_release(x3);
            kl_array_release(y3);
            kl_array_release(y4);
        }
}

static void convolutions(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    const struct kl_convolution_params p[] = {
        {2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 1, {2, 1}, {0, 2}, {1, -1}, {1, 2}, {1, 2}},
        {2, 16, 0, {1, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    };
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 3; i++) {
            const int c = 16 / p[i].groups, o = i == 2 ? 16 : 38;
            struct kl_array *x = plain(types[t], i % 2, 2 * 9 * 11, 16), *x4,
                            *w = plain(types[t], i, o * 9, c), *w4, *a, *b;
            OK(kl_reshape(&x4, x, (int[]){2, 9, 11, 16}, 4, cpu_stream, &err));
            OK(kl_reshape(&w4, w, (int[]){o, 3, 3, c}, 4, cpu_stream, &err));
            OK(kl_convolution(&a, x4, w4, &p[i], cpu_stream, &err));
            OK(kl_convolution(&b, x4, w4, &p[i], gpu_stream, &err));
            same(a, b, 8, 9.0 * c, "convolution");
            kl_array_release(x);
            kl_array_release(x4);
            kl_array_release(w);
            kl_array_release(w4);
        }
}

static void chosen_products(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    static const int32_t lefts[] = {3, 0, 0, -1, 2, 1}, rights[] = {1, 2, 2, 0, -3, 1};
    static const uint32_t ends[] = {0, 9, 40, 40, 9, 70};
    struct kl_array *left, *right, *parts;
    OK(kl_array_new_data(&left, lefts, KL_I32, 1, (int[]){6}, &err));
    OK(kl_array_new_data(&right, rights, KL_I32, 1, (int[]){6}, &err));
    OK(kl_array_new_data(&parts, ends, KL_U32, 2, (int[]){3, 2}, &err));
    for (int t = 0; t < 4; t++)
        for (int way = 0; way < 4; way++) {
            const int m = way % 2 ? 70 : 1;
            struct kl_array *x = plain(types[t], way / 2, 4 * m, 70), *x3,
                            *y = plain(types[t], way / 2, 3 * 70, 45), *y3, *rows, *a, *b;
            OK(kl_reshape(&x3, x, (int[]){4, m, 70}, 3, cpu_stream, &err));
            OK(kl_reshape(&y3, y, (int[]){3, 70, 45}, 3, cpu_stream, &err));
            OK(kl_gather_mm(&a, x3, y3, left, right, cpu_stream, &err));
            OK(kl_gather_mm(&b, x3, y3, left, right, gpu_stream, &err));
            same(a, b, 8, 70, "gather_mm");
            OK(kl_slice(&rows, y, (int[]){0, 0}, 2, (int[]){70, 45}, 2, (int[]){1, 1}, 2,
                        cpu_stream, &err));
            OK(kl_segmented_mm(&a, x, rows, parts, cpu_stream, &err));
            OK(kl_segmented_mm(&b, x, rows, parts, gpu_stream, &err));
            same(a, b, 8, 70, "segmented_mm");
            kl_array_release(x);
            kl_array_release(x3);
            kl_array_release(y);
            kl_array_release(y3);
            kl_array_release(rows);
        }
    kl_array_release(left);
    kl_array_release(right);
    kl_array_release(parts);
}

/* ---- quantized matrices ---- */

static void quantized(void **state) {
    static const struct kl_quant_format formats[] = {
        {KL_QUANT_AFFINE, 64, 4}, {KL_QUANT_AFFINE, 32, 5}, {KL_QUANT_AFFINE, 64, 8},
        {KL_QUANT_MXFP4, 32, 4},  {KL_QUANT_MXFP8, 32, 8},  {KL_QUANT_NVFP4, 16, 4}};
    static const enum kl_dtype types[] = {KL_F16, KL_F32, KL_BF16};
    static const int rows[] = {1, 3, 20};
    for (int f = 0; f < 6; f++)
        for (int t = 0; t < 3; t++) {
            if (!kl_test_takes("kernels", 3)) continue;
            const struct kl_quant_format *how = &formats[f];
            struct kl_array *w = plain(types[t], t % 2, 40, 256), *q[3] = {NULL}, *g[3] = {NULL};
            struct kl_array *a, *b;
            int n;
            OK(kl_quantize(q, &n, w, how, NULL, cpu_stream, &err));
            OK(kl_quantize(g, &n, w, how, NULL, gpu_stream, &err));
            for (int i = 0; i < n; i++) same(kl_array_retain(q[i]), g[i], 0, 0, "quantize");
            OK(kl_dequantize(&a, q[0], q[1], q[2], how, NULL, NULL, cpu_stream, &err));
            OK(kl_dequantize(&b, q[0], q[1], q[2], how, NULL, NULL, gpu_stream, &err));
            same(a, b, 0, 0, "dequantize");
            for (int r = 0; r < 3; r++)
                for (int transpose = 0; transpose < 2; transpose++) {
                    const int k = transpose ? 256 : 40;
                    struct kl_array *x = plain(types[t], r % 2, rows[r], k);
                    OK(kl_quantized_matmul(&a, x, q[0], q[1], q[2], transpose, how, cpu_stream,
                                           &err));
                    OK(kl_quantized_matmul(&b, x, q[0], q[1], q[2], transpose, how, gpu_stream,
                                           &err));
                    same(a, b, 16, 4.0 * k, "quantized_matmul");
                    kl_array_release(x);
                }
            /* the same rows as 5 matrices, gathered; then with an index that is out of range */
            struct kl_array *parts[3] = {NULL}, *x = plain(types[t], 0, 2, 256), *x3, *index, *bad;
            for (int i = 0; i < n; i++) {
                const int dims[] = {5, 8, q[i]->t.dims[1]};
                OK(kl_reshape(&parts[i], q[i], dims, 3, cpu_stream, &err));
            }
            const int one[] = {1, 2, 256}, three = 3;
            OK(kl_reshape(&x3, x, one, 3, cpu_stream, &err));
            OK(kl_array_new_data(&index, (int32_t[]){4, 0, -2}, KL_I32, 1, &three, &err));
            OK(kl_array_new_data(&bad, (int32_t[]){4, 5, 0}, KL_I32, 1, &three, &err));
            OK(kl_gather_qmm(&a, x3, parts[0], parts[1], parts[2], NULL, index, true, how,
                             cpu_stream, &err));
            OK(kl_gather_qmm(&b, x3, parts[0], parts[1], parts[2], NULL, index, true, how,
                             gpu_stream, &err));
            same(a, b, 16, 1024, "gather_qmm");
            OK(kl_gather_qmm(&b, x3, parts[0], parts[1], parts[2], NULL, bad, true, how, gpu_stream,
                             &err));
            struct kl_error *why = NULL;
            assert_int_equal(kl_eval(&b, 1, &why), KL_EINDEX);
            assert_int_equal(why->position, 1);
            assert_int_equal(why->index, 5);
            kl_error_release(why);
            kl_array_release(b);
            struct kl_array *used[] = {w, x, x3, index, bad, parts[0], parts[1], parts[2]};
            for (int i = 0; i < 8; i++) kl_array_release(used[i]);
            for (int i = 0; i < n; i++) kl_array_release(q[i]);
        }
}

/* Compares the device's product with the CPU's, both as float32: within a rounding of each, and
 * `sum`, what float32 sums may differ by. Releases both. */
static void near_product(struct kl_array *want, struct kl_array *got, enum kl_dtype t, double sum,
                         const char *what) {
    struct kl_array *w, *g;
    void *p, *q;
    OK(kl_astype(&w, want, KL_F32, cpu_stream, &err));
    OK(kl_astype(&g, got, KL_F32, gpu_stream, &err));
    OK(kl_array_host(w, &p, &err));
    OK(kl_array_host(g, &q, &err));
    assert_int_equal(w->t.size, g->t.size);
    for (int64_t i = 0; i < w->t.size; i++) {
        const double a = ((float *)p)[i], b = ((float *)q)[i], bound = kl_test_epsilon(t) * fabs(a);
        if (a == b || fabs(a - b) <= bound + sum) continue;
        fail_msg("%s of %s: element %lld is %.9g, on the CPU %.9g (bound %g)", what,
                 kl_dtype_name(t), (long long)i, b, a, bound + sum);
    }
    kl_array_release(w);
    kl_array_release(g);
    kl_array_release(want);
    kl_array_release(got);
}

/* x of rows by cols: dense, transposed, the columns from 8 on or from 1 on of a wider array. */
static struct kl_array *rows_of_x(enum kl_dtype t, int how, int rows, int cols) {
    struct kl_array *wide, *x;
    if (how == 0) return plain(t, 0, rows, cols);
    if (how == 1) {
        wide = plain(t, 0, cols, rows);
        OK(kl_transpose(&x, wide, cpu_stream, &err));
        kl_array_release(wide);
        return x;
    }
    const int first = how == 2 ? 8 : 1;
    wide = plain(t, 0, rows, cols + 16);
    int start[2] = {0, first}, stop[2] = {rows, first + cols}, step[2] = {1, 1};
    OK(kl_slice(&x, wide, start, 2, stop, 2, step, 2, cpu_stream, &err));
    kl_array_release(wide);
    return x;
}

/* Every number of rows for which a device has kernels of its own, in every format that matrix units
 * take: with groups in several blocks or one, columns that do not fill a tile, batches, and every
 * layout of x. PoCL compiles for long, so there only a few. */
static void quantized_rows(void **state) {
    static const int bits[] = {4, 8, 2}, sizes[] = {64, 32, 128},
                     n_groups[] = {4, 1, 2, 20, 6, 3, 37}, cols[] = {37, 16, 130, 1};
    const bool cuda = strcmp(getenv("KEEL_GPU"), "cuda") == 0;
    for (int f = 0; f < 18; f++) {
        const enum kl_dtype t = f % 2 ? KL_F16 : KL_BF16;
        const struct kl_quant_format how = {KL_QUANT_AFFINE, sizes[f / 6], bits[f / 2 % 3]};
        if (!cuda && !kl_test_takes("kernels", 6)) continue;
        for (int m = 1; m <= 65; m += cuda ? 1 : 16) {
            const int groups = n_groups[(m + f) % 7], n = cols[(m + f) % 4],
                      k = groups * how.group_size, words = k * how.bits / 32;
            const int batches = m % 4 == 3 ? 3 : 1;
            char what[120];
            struct kl_array *flat[3], *in[3], *x2 = rows_of_x(t, m % 8 / 2, batches * m, k), *x, *a,
                                              *b;
            uint32_t *v = malloc((size_t)(batches * n * words) * sizeof *v);
            for (int i = 0; i < batches * n * words; i++) v[i] = draw() << 16 ^ draw();
            OK(kl_array_new_data(&flat[0], v, KL_U32, 2, (int[]){batches * n, words}, &err));
            free(v);
            flat[1] = plain(t, 0, batches * n, groups);
            flat[2] = plain(t, 0, batches * n, groups);
            for (int i = 0; i < 3; i++) {
                const int dims[] = {batches, n, flat[i]->t.dims[1]};
                OK(kl_reshape(&in[i], flat[i], batches > 1 ? dims : dims + 1, batches > 1 ? 3 : 2,
                              cpu_stream, &err));
            }
            const int dims[] = {batches, m, k};
            OK(kl_reshape(&x, x2, batches > 1 ? dims : dims + 1, batches > 1 ? 3 : 2, cpu_stream,
                          &err));
            snprintf(what, sizeof what, "%d bits, groups of %d: %d x %d x %d by %d", how.bits,
                     how.group_size, batches, m, k, n);
            /* Numbers of x, scales and biases are at most 2; an unpacked matrix is rounded. */
            const double top = 2.0 * (1 << how.bits), packed = 2.0 * k * top * 0x1p-22,
                         sum = packed +
                               (m > (cuda ? 64 : 8) ? kl_test_epsilon(t) * 2 * top * sqrt(k) : 0);
            OK(kl_quantized_matmul(&a, x, in[0], in[1], in[2], true, &how, cpu_stream, &err));
            OK(kl_quantized_matmul(&b, x, in[0], in[1], in[2], true, &how, gpu_stream, &err));
            near_product(a, b, t, sum, what);
            if (batches > 1) { /* the matrices in another order */
                struct kl_array *index;
                OK(kl_array_new_data(&index, (int32_t[]){2, 0, 1}, KL_I32, 1, (int[]){3}, &err));
                OK(kl_gather_qmm(&a, x, in[0], in[1], in[2], NULL, index, true, &how, cpu_stream,
                                 &err));
                OK(kl_gather_qmm(&b, x, in[0], in[1], in[2], NULL, index, true, &how, gpu_stream,
                                 &err));
                near_product(a, b, t, packed, what);
                kl_array_release(index);
            }
            for (int i = 0; i < 3; i++) {
                kl_array_release(flat[i]);
                kl_array_release(in[i]);
            }
            kl_array_release(x);
            kl_array_release(x2);
        }
    }
}

/* One row, of matrices whose rows are whole stages of the kernel for it: with one tile of rows for
 * a group and with several, and x whose groups have numbers of very different size. */
static void one_quantized_row(void **state) {
    static const struct {
        int bits, group, k, n, batches;
    } cases[] = {{4, 64, 2048, 48, 1},   {4, 64, 4096, 16, 3},   {4, 128, 2560, 32, 1},
                 {8, 64, 1024, 48, 2},   {8, 32, 1280, 16, 1},   {4, 64, 14336, 64, 1},
                 {4, 64, 2048, 9232, 1}, {8, 64, 2048, 4624, 2}, {4, 64, 1536, 32, 1}};
    const bool cuda = strcmp(getenv("KEEL_GPU"), "cuda") == 0;
    for (int i = 0; i < 18; i++) {
        const enum kl_dtype t = i % 2 ? KL_F16 : KL_BF16;
        const int b = cases[i / 2].batches, n = cases[i / 2].n, k = cases[i / 2].k,
                  groups = k / cases[i / 2].group, words = k * cases[i / 2].bits / 32;
        const struct kl_quant_format how = {KL_QUANT_AFFINE, cases[i / 2].group, cases[i / 2].bits};
        if (!cuda && (n > 1000 || !kl_test_takes("kernels", 6))) continue;
        char what[120];
        snprintf(what, sizeof what, "%d bits, groups of %d: %d x 1 x %d by %d", how.bits,
                 how.group_size, b, k, n);
        uint32_t *v = malloc((size_t)(b * n * words) * sizeof *v);
        float *small = malloc((size_t)(b * k) * sizeof *small);
        for (int j = 0; j < b * n * words; j++) v[j] = draw() << 16 ^ draw();
        for (int j = 0; j < b * k; j++)
            small[j] = ldexpf((float)(draw() % 255) - 127, -7 - (int)(draw() % 18));
        struct kl_array *in[3], *x, *x32, *y, *z, *index;
        const int of_w[] = {b, n, words}, of_s[] = {b, n, groups}, of_x[] = {b, 1, k};
        OK(kl_array_new_data(&in[0], v, KL_U32, 3, of_w, &err));
        for (int j = 1; j < 3; j++) {
            struct kl_array *flat = plain(t, 0, b * n, groups);
            OK(kl_reshape(&in[j], flat, of_s, 3, cpu_stream, &err));
            kl_array_release(flat);
        }
        OK(kl_array_new_data(&x32, small, KL_F32, 3, of_x, &err));
        OK(kl_astype(&x, x32, t, cpu_stream, &err));
        const double bound = 2.0 * k * 2 * (1 << how.bits) * 0x1p-22;
        OK(kl_quantized_matmul(&y, x, in[0], in[1], in[2], true, &how, cpu_stream, &err));
        OK(kl_quantized_matmul(&z, x, in[0], in[1], in[2], true, &how, gpu_stream, &err));
        near_product(y, z, t, bound, what);
        OK(kl_array_new_data(&index, (int32_t[]){b - 1, 0}, KL_I32, 1, (int[]){2}, &err));
        OK(kl_gather_qmm(&y, x, in[0], in[1], in[2], index, index, true, &how, cpu_stream, &err));
        OK(kl_gather_qmm(&z, x, in[0], in[1], in[2], index, index, true, &how, gpu_stream, &err));
        near_product(y, z, t, bound, what);
        /* One number that is none. */
        small[(b - 1) * k + k / 2] = NAN;
        kl_array_release(x32);
        kl_array_release(x);
        OK(kl_array_new_data(&x32, small, KL_F32, 3, of_x, &err));
        OK(kl_astype(&x, x32, t, cpu_stream, &err));
        OK(kl_quantized_matmul(&y, x, in[0], in[1], in[2], true, &how, gpu_stream, &err));
        OK(kl_astype(&z, y, KL_F32, gpu_stream, &err));
        void *p;
        OK(kl_array_host(z, &p, &err));
        for (int j = 0; j < b * n; j++)
            if (isnan(((float *)p)[j]) != (j / n == b - 1))
                fail_msg("%s: element %d is %g", what, j, (double)((float *)p)[j]);
        struct kl_array *all[] = {in[0], in[1], in[2], x, x32, y, z, index};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) kl_array_release(all[j]);
        free(small);
        free(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),        cmocka_unit_test(convolutions),
        cmocka_unit_test(chosen_products), cmocka_unit_test(quantized),
        cmocka_unit_test(quantized_rows),  cmocka_unit_test(one_quantized_row),
    };
    choose_tests();
    return with_programs(cmocka_run_group_tests(tests, open_device, NULL));
}
