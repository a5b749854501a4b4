/* test_norm_rope.c - norms and rotary position embedding against the formulas in double; dtypes;
 * shapes; gradients; bad arguments. */
#include "ops/support/helpers.h"

#include "ops/support/vjp_support.h"

static struct kl_array *random_of(enum kl_dtype dtype, int ndim, const int *dims, uint32_t seed) {
    int64_t n;
    struct kl_array *a, *out;
    assert_true(kl_shape_size(ndim, dims, 8, &n));
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        v[i] = (double)(int32_t)seed * 0x1p-30 + 0.25;
    }
    a = array_of(KL_F64, ndim, dims, v);
    free(v);
    EXPECT_OK(kl_astype(&out, a, (int)dtype, cpu(), &err));
    kl_array_release(a);
    return out;
}

/* The values of a as doubles; a is not released. */
static double *doubles_of(struct kl_array *a) {
    struct kl_array *d;
    EXPECT_OK(kl_astype(&d, a, KL_F64, cpu(), &err));
    double *v = values_of(d);
    kl_array_release(d);
    return v;
}

static double tolerance(enum kl_dtype dtype) {
    return dtype == KL_F16 ? 0x1p-10 : dtype == KL_BF16 ? 0x1p-7 : dtype == KL_F32 ? 2e-6 : 1e-13;
}

static void near(struct kl_array *out, const double *want, double allowed, const char *what) {
    double *v = doubles_of(out);
    for (int64_t i = 0; i < out->t.size; i++)
        if (!(fabs(v[i] - want[i]) <= allowed * fmax(1, fabs(want[i]))))
            fail_msg("%s of %s: element %lld is %.9g, not %.9g", what,
                     kl_dtype_name((enum kl_dtype)out->t.dtype), (long long)i, v[i], want[i]);
    free(v);
}

/* ---- norms ---- */
static void norms(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    static const int lengths[] = {1, 7, 31, 32, 33, 100, 1000, 4097};
    for (int d = 0; d < 4; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int way = 0; way < 8; way++) {
                int n = lengths[l], rows = n == 1000 ? 300 : 3;
                bool layer = way & 4;
                struct kl_array *x = random_of(dtypes[d], SHAPE(rows, n), 1), *w = NULL, *b = NULL,
                                *out;
                if (way & 1) w = random_of(dtypes[d], SHAPE(n), 2);
                if (layer && way & 2) b = random_of(dtypes[d], SHAPE(n), 3);
                if (l % 2) x = strided(x);
                if (layer)
                    EXPECT_OK(kl_layer_norm(&out, x, w, b, 1e-3f, cpu(), &err));
                else
                    EXPECT_OK(kl_rms_norm(&out, x, w, 1e-3f, cpu(), &err));
                assert_int_equal(out->t.dtype, dtypes[d]);
                expect_shape(out, SHAPE(rows, n));
                double *v = doubles_of(x), *wv = w ? doubles_of(w) : NULL,
                       *bv = b ? doubles_of(b) : NULL;
                double *want = malloc((size_t)(rows * n) * sizeof *want);
                for (int r = 0; r < rows; r++) {
                    double mean = 0, square = 0;
                    for (int i = 0; i < n && layer; i++) mean += v[r * n + i] / n;
                    for (int i = 0; i < n; i++) square += pow(v[r * n + i] - mean, 2) / n;
                    for (int i = 0; i < n; i++)
                        want[r * n + i] = (v[r * n + i] - mean) / sqrt(square + (double)1e-3f) *
                                              (wv ? wv[i] : 1) +
                                          (bv ? bv[i] : 0);
                }
                near(out, want, tolerance(dtypes[d]) * (layer ? 4 : 1), "norm");
                free(v);
                free(wv);
                free(bv);
                free(want);
                kl_array_release(x);
                kl_array_release(w);
                kl_array_release(b);
                kl_array_release(out);
            }
}

static void norm_dtypes_and_shapes(void **state) {
    struct kl_array *x = I32(SHAPE(1, 3), 1, 2, 3), *w = F32(SHAPE(3), 1, 1, 1), *h, *out,
                    *e = array_of(KL_F32, SHAPE(0, 3), NULL),
                    *none = array_of(KL_F32, SHAPE(2, 0), NULL), *flat = F32(SHAPE(4), 2, 2, 2, 2),
                    *wd;
    /* The promoted type of int32 and float32 is float32. */
    EXPECT_OK(kl_rms_norm(&out, x, w, 1e-5f, cpu(), &err));
    near(out, (double[]){0.46291, 0.925819, 1.38873}, 1e-5, "rms");
    kl_array_release(out);
    EXPECT_OK(kl_astype(&h, x, KL_F16, cpu(), &err));
    EXPECT_OK(kl_astype(&wd, w, KL_F64, cpu(), &err));
    EXPECT_OK(kl_layer_norm(&out, h, wd, w, 0, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F64);
    near(out, (double[]){1 - sqrt(1.5), 1, 1 + sqrt(1.5)}, 1e-13, "layer");
    kl_array_release(out);
    EXPECT_OK(kl_rms_norm(&out, e, w, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_layer_norm(&out, none, NULL, NULL, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 0), 0);
    EXPECT_OK(kl_rms_norm(&out, flat, NULL, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 1, 1, 1, 1);
    EXPECT_OK(kl_layer_norm(&out, flat, NULL, NULL, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, 0, 0, 0);
    struct kl_array *made[] = {x, w, h, e, none, flat, wd};
    for (int i = 0; i < 7; i++) kl_array_release(made[i]);
}

/* ---- rope ---- */
struct rope {
    int dims;
    bool traditional;
    double base; /* base: 0 stands for freqs */
    float scale;
    int offset[2];
    int n_offsets; /* n_offsets: 0 stands for a 0-d offset */
};

static int rope_of(struct kl_array **out, struct kl_array *x, const struct rope *r,
                   struct kl_array *freqs, struct kl_error **err) {
    struct kl_array *offset = array_of(KL_I32, r->n_offsets ? 1 : 0, &r->n_offsets, r->offset);
    struct kl_rope_base base = {r->base != 0, (float)r->base};
    int rc = kl_rope(out, x, r->dims, r->traditional, base, r->scale, offset, freqs, cpu(), err);
    kl_array_release(offset);
    return rc;
}

static void ropes(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    static const struct rope cases[] = {
        {8, false, 10000, 1, {0}, 0},  {6, true, 10000, 1, {3}, 0},
        {8, true, 100, 0.5f, {-4}, 0}, {4, false, 100, 2, {7, 100000}, 2},
        {2, false, 0, 1, {5}, 1},      {8, false, 0, 0.25f, {1, 2}, 2},
    };
    enum { B = 2, H = 3, T = 5, D = 8 };
    for (int d = 0; d < 4; d++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            const struct rope *r = &cases[k];
            int half = r->dims / 2;
            struct kl_array *x = random_of(dtypes[d], SHAPE(B, H, T, D), 9), *out, *freqs = NULL;
            float f[] = {1, 2.5f, 0.125f, 9};
            if (r->base == 0) freqs = array_of(KL_F32, 1, &half, f);
            if (k % 2) x = strided(x);
            EXPECT_OK(rope_of(&out, x, r, freqs, &err));
            assert_int_equal(out->t.dtype, dtypes[d]);
            double *v = doubles_of(x), *want = malloc(B * H * T * D * sizeof *want);
            memcpy(want, v, B * H * T * D * sizeof *want);
            for (int row = 0; row < B * H * T; row++)
                for (int p = 0; p < half; p++) {
                    int a = row * D + (r->traditional ? 2 * p : p),
                        b = a + (r->traditional ? 1 : half);
                    int offset = r->offset[r->n_offsets == 2 ? row / (H * T) : 0];
                    double rate = freqs ? 1 / (double)f[p] : pow(r->base, -2.0 * p / r->dims);
                    double angle = (row % T + offset) * (double)r->scale * rate;
                    want[a] = v[a] * cos(angle) - v[b] * sin(angle);
                    want[b] = v[a] * sin(angle) + v[b] * cos(angle);
                }
            near(out, want, tolerance(dtypes[d]), "rope");
            free(v);
            free(want);
            kl_array_release(x);
            kl_array_release(out);
            kl_array_release(freqs);
        }
}

/* Arrays of 3 and of 5 axes, without elements, and large enough for several threads. */
static void rope_shapes(void **state) {
    struct rope r = {4, true, 10, 1, {1}, 0};
    struct kl_array *x = random_of(KL_F32, SHAPE(2, 3, 100, 5), 4), *five,
                    *e = array_of(KL_F32, SHAPE(0, 3, 4), NULL), *out, *out_5,
                    *big = random_of(KL_F32, SHAPE(2, 8, 512, 64), 5), *small, *out_big, *part;
    EXPECT_OK(kl_reshape(&five, x, LIST(2, 3, 1, 100, 5), cpu(), &err));
    EXPECT_OK(rope_of(&out, x, &r, NULL, &err));
    EXPECT_OK(rope_of(&out_5, five, &r, NULL, &err));
    float *a = values_of(out), *b = values_of(out_5);
    assert_memory_equal(a, b, 3000 * sizeof *a);
    free(a);
    free(b);
    kl_array_release(out);
    kl_array_release(out_5);
    EXPECT_OK(rope_of(&out, e, &r, NULL, &err));
    EXPECT_F32(out, SHAPE(0, 3, 4), 0);
    /* The last element of the batch has the bits that it has alone. */
    r.dims = 64;
    EXPECT_OK(kl_slice(&small, big, LIST(1, 7, 0, 0), LIST(2, 8, 512, 64), LIST(1, 1, 1, 1), cpu(),
                       &err));
    EXPECT_OK(rope_of(&out_big, big, &r, NULL, &err));
    EXPECT_OK(rope_of(&part, small, &r, NULL, &err));
    a = values_of(out_big);
    b = values_of(part);
    assert_memory_equal(a + 15 * 512 * 64, b, 512 * 64 * sizeof *b);
    free(a);
    free(b);
    struct kl_array *made[] = {x, five, e, big, small, out_big, part};
    for (int i = 0; i < 7; i++) kl_array_release(made[i]);
}

/* ---- gradients ---- */
static int build_norm(struct kl_array **out, struct kl_array *const *in, const void *how,
                      struct kl_error **err) {
    int way = *(const int *)how;
    if (way < 2) return kl_rms_norm(out, in[0], way ? in[1] : NULL, 1e-2f, cpu(), err);
    return kl_layer_norm(out, in[0], way & 1 ? in[1] : NULL, way & 4 ? in[way & 1 ? 2 : 1] : NULL,
                         1e-2f, cpu(), err);
}
/* Results that are larger than the cache have the bits of each head computed alone. */
static void large_ropes(void **state) {
    static const struct {
        int heads, length, width;
        struct rope r;
    } cases[] = {{33, 1000, 128, {128, false, 10000, 1, {3}, 0}},
                 {9, 4999, 96, {20, true, 10000, 1, {0}, 0}},
                 {33, 999, 130, {128, false, 10000, 0.5f, {7}, 0}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int heads = cases[c].heads, length = cases[c].length, width = cases[c].width;
        size_t n = (size_t)length * (size_t)width;
        float *v = malloc((size_t)heads * n * sizeof *v);
        for (size_t i = 0; i < (size_t)heads * n; i++) v[i] = (float)(i * 7919 % 1000) - 500;
        struct kl_array *x = array_of(KL_F32, SHAPE(1, heads, length, width), v), *out, *one, *part;
        EXPECT_OK(rope_of(&out, x, &cases[c].r, NULL, &err));
        float *whole = values_of(out);
        for (int h = 0; h < heads; h += 8) {
            one = array_of(KL_F32, SHAPE(1, 1, length, width), v + (size_t)h * n);
            EXPECT_OK(rope_of(&part, one, &cases[c].r, NULL, &err));
            float *y = values_of(part);
            assert_memory_equal(whole + (size_t)h * n, y, n * sizeof *y);
            free(y);
            kl_array_release(one);
            kl_array_release(part);
        }
        free(whole);
        free(v);
        kl_array_release(x);
        kl_array_release(out);
    }
}

static int build_rope(struct kl_array **out, struct kl_array *const *in, const void *how,
                      struct kl_error **err) {
    return rope_of(out, in[0], how, NULL, err);
}

static void gradients(void **state) {
    struct kl_array *in[3] = {random_of(KL_F64, SHAPE(2, 2, 4), 1), random_of(KL_F64, SHAPE(4), 2),
                              random_of(KL_F64, SHAPE(4), 3)};
    for (int way = 0; way < 8; way++) {
        if (way == 4 || way == 5) continue;
        int n_in = 1 + (way & 1) + (way >> 2);
        check_vjp("norm", build_norm, &way, in, n_in, 0);
    }
    struct rope r[] = {{4, true, 10, 1, {1}, 0}, {2, false, 10, 0.5f, {3, 1}, 2}};
    for (int i = 0; i < 2; i++) check_vjp("rope", build_rope, &r[i], in, 1, 0);
    for (int i = 0; i < 3; i++) kl_array_release(in[i]);
}

static void bad(void **state) {
    struct kl_array *x = random_of(KL_F32, SHAPE(2, 3, 4), 1), *w = F32(SHAPE(3), 1, 2, 3),
                    *s = scalar_of(KL_F32, 1), *i = count_up(SHAPE(2, 3, 4)), *z,
                    *two = F32(SHAPE(1, 4), 1, 2, 3, 4), *out, *at = scalar_of(KL_I32, 1),
                    *ats = I32(SHAPE(3), 1, 2, 3), *freqs = F32(SHAPE(2), 1, 2);
    EXPECT_OK(kl_astype(&z, x, KL_C64, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rms_norm(&out, NULL, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rms_norm(&out, x, NULL, 0, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rms_norm(&out, x, w, 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rms_norm(&out, x, two, 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rms_norm(&out, s, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_rms_norm(&out, i, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_rms_norm(&out, z, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_layer_norm(&out, NULL, NULL, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_layer_norm(&out, x, NULL, w, 0, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_layer_norm(&out, i, NULL, NULL, 0, cpu(), &err));
    struct kl_rope_base base = {true, 10}, no = {false, 0};
    EXPECT_FAIL(KL_EARG, kl_rope(&out, NULL, 4, true, base, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rope(&out, x, 4, true, base, 1, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rope(&out, x, 4, true, base, 1, at, NULL, NULL, &err));
    static const int dims[] = {0, -2, 3, 6};
    for (int k = 0; k < 4; k++)
        EXPECT_FAIL(KL_EARG, kl_rope(&out, x, dims[k], true, base, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rope(&out, x, 4, true, no, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rope(&out, x, 4, true, base, 1, at, freqs, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rope(&out, x, 4, true, no, 1, at, w, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rope(&out, x, 4, true, base, 1, ats, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rope(&out, two, 4, true, base, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_rope(&out, x, 4, true, base, 1, i, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_rope(&out, i, 4, true, base, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_rope(&out, z, 4, true, base, 1, at, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_rope(&out, x, 4, true, base, 1, s, NULL, cpu(), &err));
    struct kl_array *made[] = {x, w, s, i, z, two, at, ats, freqs};
    for (int k = 0; k < 9; k++) kl_array_release(made[k]);
}

/* Results so large that non-temporal stores write them: the last rows have the bits that they have
 * alone. */
static void larger_than_cache(void **state) {
    enum { ROWS = 8200, WIDTH = 1024, PART = 3, FROM = (ROWS - PART) * WIDTH };
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32};
    float *v = malloc((size_t)ROWS * WIDTH * sizeof *v);
    for (int i = 0; i < ROWS * WIDTH; i++) v[i] = (float)(i * 37 % 1009) / 128;
    for (int k = 0; k < 6; k++) {
        const enum kl_dtype dtype = dtypes[k / 2];
        struct kl_array *f = array_of(KL_F32, SHAPE(ROWS, WIDTH), v),
                        *few = array_of(KL_F32, SHAPE(PART, WIDTH), v + FROM),
                        *line = array_of(KL_F32, SHAPE(WIDTH), v + 9), *a, *b, *w, *all, *part;
        EXPECT_OK(kl_astype(&a, f, (int)dtype, cpu(), &err));
        EXPECT_OK(kl_astype(&b, few, (int)dtype, cpu(), &err));
        EXPECT_OK(kl_astype(&w, line, (int)dtype, cpu(), &err));
        if (k % 2) {
            EXPECT_OK(kl_rms_norm(&all, a, w, 1e-5f, cpu(), &err));
            EXPECT_OK(kl_rms_norm(&part, b, w, 1e-5f, cpu(), &err));
        } else {
            EXPECT_OK(kl_layer_norm(&all, a, w, w, 1e-5f, cpu(), &err));
            EXPECT_OK(kl_layer_norm(&part, b, w, w, 1e-5f, cpu(), &err));
        }
        char *x = values_of(all), *y = values_of(part);
        assert_memory_equal(x + FROM * kl_dtype_size(dtype), y,
                            PART * WIDTH * kl_dtype_size(dtype));
        free(x);
        free(y);
        struct kl_array *made[] = {f, few, line, a, b, w, all, part};
        for (int i = 0; i < 8; i++) kl_array_release(made[i]);
    }
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(larger_than_cache),
                                       cmocka_unit_test(norms),
                                       cmocka_unit_test(norm_dtypes_and_shapes),
                                       cmocka_unit_test(ropes),
                                       cmocka_unit_test(rope_shapes),
                                       cmocka_unit_test(large_ropes),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
