/* test_quantized_errors.c - quantized matrices with bad indices, formats, shapes and dtypes. */
#include "ops/support/quantized_support.h"

static void bad_indices(void **state) {
    const struct kl_quant_format f = {KL_QUANT_MXFP4, 32, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(4, 5, 32), 1), *q[3], *out;
    struct kl_array *x = random_of(KL_F32, SHAPE(3, 2, 32), 2);
    struct kl_array *good = I32(SHAPE(3), 0, 1, 2), *high = I32(SHAPE(3), 0, 1, 4),
                    *low = I32(SHAPE(3), 0, -4, 1), *none = array_of(KL_I32, SHAPE(0), NULL),
                    *real = F32(SHAPE(3), 0, 1, 2);
    quantize(q, w, &f, NULL);
    EXPECT_OK(kl_gather_qmm(&out, x, q[0], q[1], NULL, good, high, true, &f, cpu(), &err));
    expect_index_fault(out, 2, 0, 4, 4);
    EXPECT_OK(kl_gather_qmm(&out, x, q[0], q[1], NULL, low, good, true, &f, cpu(), &err));
    expect_index_fault(out, 1, 0, -4, 3);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, none, good, true, &f, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, real, good, true, &f, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, good, real, true, &f, cpu(), &err));
    struct kl_array *one = I32(SHAPE(2), 0, 1);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, good, one, true, &f, cpu(), &err));
    struct kl_array *row = random_of(KL_F32, SHAPE(32), 2);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, row, q[0], q[1], NULL, good, good, true, &f, cpu(), &err));
    struct kl_array *used[] = {w, x, good, high, low, none, real, one, row};
    release(used, 9);
    release(q, 2);
}

/* ---- bad arguments ---- */

static void bad_formats(void **state) {
    struct kl_quant_format format, *out = &format;
    static const struct {
        const char *mode;
        int group_size, bits;
        const char *says;
    } bad[] = {{"affine", 16, 4, "32, 64 and 128"},
               {"affine", 64, 7, "2, 3, 4, 5, 6 and 8"},
               {"affine", 64, 1, "is 1"},
               {"affine", 0, 4, "is 0"},
               {"mxfp4", 64, 4, "takes 32"},
               {"mxfp8", 32, 4, "takes 8"},
               {"affine", 96, 4, "is 96"},
               {"affine", -32, 4, "is -32"},
               {"affine", 64, 32, "is 32"},
               {"affine", 64, -1, "is -1"},
               {"nvfp4", 32, 4, "takes 16"},
               {"int4", 64, 4, "int4"},
               {"int4", 64, 4, "affine, mxfp4, mxfp8 and nvfp4 are"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kl_error *err = NULL;
        assert_int_equal(
            kl_quant_format_of(out, bad[i].mode, &bad[i].group_size, &bad[i].bits, &err), KL_EARG);
        if (!strstr(err->message, bad[i].says)) fail_msg("%s", err->message);
        kl_error_release(err);
    }
    struct kl_error *why = NULL;
    assert_int_equal(kl_quant_format_of(out, NULL, NULL, NULL, &why), KL_EARG);
    kl_error_release(why);
    EXPECT_OK(kl_quant_format_of(out, "affine", NULL, NULL, &err));
    assert_int_equal(format.group_size, 64);
    assert_int_equal(format.bits, 4);
    EXPECT_OK(kl_quant_format_of(out, "nvfp4", NULL, NULL, &err));
    assert_int_equal(format.group_size, 16);
}

#define BAD_QUANTIZE(want, ...)                                     \
    do {                                                            \
        struct kl_error *err = NULL;                                \
        assert_int_equal(kl_quantize(q, &n, __VA_ARGS__), want);    \
        assert_true(err->code == want && strlen(err->message) > 8); \
        kl_error_release(err);                                      \
    } while (0)

static void bad(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 32, 4}, mx = {KL_QUANT_MXFP4, 32, 4},
                                 nv = {KL_QUANT_NVFP4, 16, 4}, wrong = {KL_QUANT_AFFINE, 48, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(5, 64), 1),
                    *x = random_of(KL_F32, SHAPE(2, 64), 1),
                    *odd = random_of(KL_F32, SHAPE(2, 40), 1),
                    *row = random_of(KL_F32, SHAPE(64), 1), *i = I32(SHAPE(1, 1), 3),
                    *one = scalar_of(KL_F32, 1), *two = F32(SHAPE(2), 1, 2),
                    *half = scalar_of(KL_F16, 1), *wide = random_of(KL_F32, SHAPE(2, 64), 1);
    struct kl_array *q[3], *m[3], *h[3], *out, *c = as(KL_C64, kl_array_retain(x));
    int n = 0;
    wide = as(KL_F64, wide);
    BAD_QUANTIZE(KL_EARG, NULL, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &wrong, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &f, one, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &mx, one, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, w, &nv, half, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, w, &nv, two, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, i, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, wide, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, c, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, row, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, odd, &f, NULL, cpu(), &err);
    quantize(q, w, &f, NULL);
    quantize(m, w, &mx, NULL);
    quantize(h, x, &f, NULL); /* of another shape */
    const int i32 = KL_I32;
#define DEQUANTIZE(...) kl_dequantize(&out, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(q[0], q[1], NULL, &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(NULL, q[1], q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(q[0], NULL, q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(m[0], m[1], m[1], &mx, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(m[0], m[1], NULL, &mx, one, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(w, q[1], q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(m[0], q[1], NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(q[0], q[1], q[2], &f, NULL, &i32));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(q[0], h[1], h[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(q[0], q[1], h[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE,
                DEQUANTIZE(q[0], q[1], q[2], (&(struct kl_quant_format){KL_QUANT_AFFINE, 32, 8}),
                           NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE,
                DEQUANTIZE(q[0], q[1], q[2], (&(struct kl_quant_format){KL_QUANT_AFFINE, 64, 4}),
                           NULL, NULL));
    struct kl_array *flat[3];
    for (int k = 0; k < 3; k++) EXPECT_OK(kl_flatten(&flat[k], q[k], 0, -1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(flat[0], flat[1], flat[2], &f, NULL, NULL));
#define MULTIPLY(x, ...) kl_quantized_matmul(&out, x, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, MULTIPLY(NULL, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EARG, MULTIPLY(x, q[0], q[1], NULL, true, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(odd, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(x, q[0], q[1], q[2], false, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(one, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(c, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(wide, q[0], q[1], q[2], true, &f));
    struct kl_array *ints = as(KL_I32, kl_array_retain(x));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(ints, m[0], m[1], NULL, true, &mx));
    EXPECT_FAIL(KL_EARG, kl_quantized_matmul(&out, x, q[0], q[1], q[2], true, &f, NULL, &err));
    struct kl_array *deep = random_of(KL_F32, SHAPE(3, 5, 64), 1), *d[3],
                    *two_rows = random_of(KL_F32, SHAPE(2, 2, 64), 1);
    quantize(d, deep, &f, NULL);
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(two_rows, d[0], d[1], d[2], true, &f));
#define BOTH(x, ...) kl_qqmm(&out, x, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, m[0], NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &nv, one, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &mx, one, one));
    EXPECT_FAIL(KL_EDTYPE, BOTH(ints, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, BOTH(x, ints, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(one, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(x, deep, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(odd, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(odd, odd, NULL, &mx, NULL, NULL));
    struct kl_array *used[] = {w, x, odd, row, i, one, two, half, wide, c, ints, deep, two_rows};
    release(used, 13);
    release(q, 3);
    release(m, 2);
    release(h, 3);
    release(d, 3);
    release(flat, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_indices), cmocka_unit_test(bad_formats),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
