/* test_side_by_side.c - products of the same rows, which a device may run as one launch, have the
 * bits that each has alone, and are near the CPU's (on_device.h chooses the device): dense and
 * quantized, of one row and of several. */
#include "ops/support/on_device.h"
#include "support.h"

#include <math.h>

#include "base/number/dtype.h"
#include "ops/quantized.h"

enum { WIDTH = 512, MOST_PRODUCTS = 5 };

static struct kl_array *matrix(int rows, int columns, enum kl_dtype dtype, unsigned seed) {
    struct kl_array *wide, *a;
    float *v = malloc(sizeof *v * (size_t)rows * (size_t)columns);
    assert_non_null(v);
    uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < rows * columns; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        v[i] = (float)((double)(x >> 40) * 0x1p-23 - 1);
    }
    OK(kl_array_new_data(&wide, v, KL_F32, 2, (int[]){rows, columns}, &err));
    OK(kl_astype(&a, wide, dtype, cpu_stream, &err));
    OK(kl_eval(&a, 1, &err));
    kl_array_release(wide);
    free(v);
    return a;
}

/* A weight: dense, or packed with its scales and biases. */
struct weight {
    struct kl_array *part[3];
    int n;
};
static const int columns_of[MOST_PRODUCTS] = {512, 128, 128, 1000, 96};

static struct weight weight_of(int columns, enum kl_dtype dtype, int bits, unsigned seed) {
    struct weight w = {.n = 1, .part = {matrix(columns, WIDTH, dtype, seed)}};
    if (bits) {
        struct kl_quant_format f;
        struct kl_array *dense = w.part[0];
        OK(kl_quant_format_of(&f, "affine", &(int){64}, &bits, &err));
        OK(kl_quantize(w.part, &w.n, dense, &f, NULL, cpu_stream, &err));
        OK(kl_eval(w.part, (size_t)w.n, &err));
        kl_array_release(dense);
    }
    return w;
}

static struct kl_array *product(struct kl_array *x, const struct weight *w, int bits,
                                struct kl_stream *s) {
    struct kl_array *out, *turned;
    if (bits) {
        struct kl_quant_format f;
        OK(kl_quant_format_of(&f, "affine", &(int){64}, &bits, &err));
        OK(kl_quantized_matmul(&out, x, w->part[0], w->part[1], w->part[2], true, &f, s, &err));
        return out;
    }
    OK(kl_transpose(&turned, w->part[0], s, &err));
    OK(kl_matmul(&out, x, turned, s, &err));
    kl_array_release(turned);
    return out;
}

/* Between the products of the graph stands work that depends on the one before, as rotations of
 * queries do. */
static void check(int rows, enum kl_dtype dtype, int bits) {
    struct weight w[MOST_PRODUCTS];
    struct kl_array *x = matrix(rows, WIDTH, dtype, 1), *h, *out[2 * MOST_PRODUCTS], *alone, *near;
    OK(kl_negative(&h, x, gpu_stream, &err));
    for (int i = 0; i < MOST_PRODUCTS; i++) {
        w[i] = weight_of(columns_of[i], dtype, bits, 2 + (unsigned)i);
        out[2 * i + 1] = product(h, &w[i], bits, gpu_stream);
        OK(kl_exp(&out[2 * i], out[2 * i + 1], gpu_stream, &err));
    }
    OK(kl_eval(out, 2 * MOST_PRODUCTS, &err));
    for (int i = 0; i < MOST_PRODUCTS; i++) {
        struct kl_array *keep[3];
        alone = product(h, &w[i], bits, gpu_stream);
        const void *p = read_elements(out[2 * i + 1], gpu_stream, &keep[0], "side by side");
        const void *q = read_elements(alone, gpu_stream, &keep[1], "alone");
        const size_t n = (size_t)rows * (size_t)columns_of[i];
        if (memcmp(p, q, n * kl_dtype_size(dtype)) != 0)
            fail_msg("%d rows, dtype %d, %d bits: product %d differs", rows, (int)dtype, bits, i);
        kl_array_release(alone);
        alone = product(x, &w[i], bits, cpu_stream);
        OK(kl_negative(&near, alone, cpu_stream, &err));
        kl_array_release(alone);
        struct kl_array *wide[2];
        OK(kl_astype(&wide[0], near, KL_F32, cpu_stream, &err));
        OK(kl_astype(&wide[1], out[2 * i + 1], KL_F32, gpu_stream, &err));
        const float *a = read_elements(wide[0], cpu_stream, &keep[2], "on the CPU");
        struct kl_array *of_device;
        const float *b = read_elements(wide[1], gpu_stream, &of_device, "on the device");
        const double last = dtype == KL_F32 ? 0x1p-23 : 0x1p-7;
        /* Matrix units may take the numbers that codes stand for rounded to the dtype of x. */
        const double sums = bits && dtype != KL_F32 ? 0x1p-4 : 0x1p-10;
        for (size_t k = 0; k < n; k++)
            if (!(fabs((double)a[k] - b[k]) <= last * fabs((double)a[k]) + sums))
                fail_msg("%d rows, dtype %d, %d bits: product %d: element %zu is %.9g, on the CPU "
                         "%.9g",
                         rows, (int)dtype, bits, i, k, (double)b[k], (double)a[k]);
        struct kl_array *all[] = {keep[0], keep[1], keep[2], of_device, wide[0], wide[1], near};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
    }
    for (int i = 0; i < 2 * MOST_PRODUCTS; i++) kl_array_release(out[i]);
    for (int i = 0; i < MOST_PRODUCTS; i++)
        for (int k = 0; k < w[i].n; k++) kl_array_release(w[i].part[k]);
    kl_array_release(h);
    kl_array_release(x);
}

/* Several rows take long where kernels are not optimised. */
static void check_case(int rows, enum kl_dtype dtype, int bits) {
    if (rows == 1 || takes_case(1)) check(rows, dtype, bits);
}

static void dense(void **state) {
    for (int rows = 1; rows <= 9; rows += 4) {
        check_case(rows, KL_F32, 0);
        check_case(rows, KL_BF16, 0);
    }
}

static void quantized(void **state) {
    for (int rows = 1; rows <= 9; rows += 4) {
        check_case(rows, KL_BF16, 4);
        check_case(rows, KL_BF16, 8);
        check_case(rows, KL_F32, 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense), cmocka_unit_test(quantized)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
