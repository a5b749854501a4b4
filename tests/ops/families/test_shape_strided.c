/* test_shape_strided.c - as_strided, diagonal and view: the elements that they read, the arguments
 * that they reject, and which results are views. */
#include <limits.h>

#include "ops/support/helpers.h"

#define STRIDES(...) (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static bool shares(const struct kl_array *out, const struct kl_array *a) {
    return out->t.buffer == a->t.buffer;
}

static void as_strided(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *part, *t, *sum, *out;
    EXPECT_OK(kl_as_strided(&out, a, LIST(2, 2), STRIDES(1, 1), 1, cpu(), &err));
    assert_true(shares(out, a));
    assert_int_equal(out->t.layout, 0); /* several elements have the same place */
    EXPECT_I32(out, SHAPE(2, 2), 1, 2, 2, 3);
    EXPECT_OK(kl_as_strided(&out, a, LIST(6), STRIDES(-1), 5, cpu(), &err));
    EXPECT_I32(out, SHAPE(6), 5, 4, 3, 2, 1, 0);
    EXPECT_OK(kl_as_strided(&out, a, LIST(3, 2), STRIDES(0, 5), 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2), 0, 5, 0, 5, 0, 5);
    EXPECT_OK(kl_as_strided(&out, a, NULL, 0, NULL, 0, 4, cpu(), &err));
    EXPECT_I32(out, SCALAR, 4);
    EXPECT_OK(kl_as_strided(&out, a, LIST(0, 2), STRIDES(1, INT64_MAX), SIZE_MAX, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 2), 0);
    EXPECT_OK(kl_as_strided(&out, a, LIST(1, 2), STRIDES(INT64_MIN, 1), 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 0, 1);
    /* Not contiguous, so the strides count in a row-major copy. */
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_as_strided(&out, t, LIST(6), STRIDES(1), 0, cpu(), &err));
    assert_false(shares(out, a));
    EXPECT_I32(out, SHAPE(6), 0, 3, 1, 4, 2, 5);
    kl_array_release(t);
    /* The base is a view of a part of a buffer. Elements of the buffer outside of this part are out
     * of range. */
    EXPECT_OK(kl_slice(&part, a, LIST(1, 0), LIST(2, 3), LIST(1, 1), cpu(), &err));
    EXPECT_OK(kl_as_strided(&out, part, LIST(3), STRIDES(-1), 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 5, 4, 3);
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, part, LIST(3), STRIDES(-1), 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, part, LIST(4), STRIDES(1), 0, cpu(), &err));
    kl_array_release(part);
    /* The base is not computed yet, and a kernel reads the view, whose places overlap. */
    EXPECT_OK(kl_add(&sum, a, a, cpu(), &err));
    EXPECT_OK(kl_as_strided(&t, sum, LIST(4, 3), STRIDES(1, 1), 0, cpu(), &err));
    kl_array_release(sum);
    EXPECT_OK(kl_sum_axis(&out, t, 1, false, cpu(), &err));
    kl_array_release(t);
    EXPECT_I32(out, SHAPE(4), 6, 12, 18, 24);
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(7), STRIDES(1), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(1), STRIDES(1), 6, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, NULL, 0, NULL, 0, SIZE_MAX, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(2), STRIDES(-1), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(2, 2), STRIDES(4, 3), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(3), STRIDES(INT64_MAX), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(3), STRIDES(INT64_MIN), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(2, 2), STRIDES(1), 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_as_strided(&out, a, LIST(-1), STRIDES(1), 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_as_strided(&out, a, LIST(1), NULL, 1, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_as_strided(&out, NULL, LIST(1), STRIDES(1), 0, cpu(), &err));
    kl_array_release(a);
}

static void diagonal(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *b = count_up(SHAPE(2, 3, 4)),
                    *v = count_up(SHAPE(3)), *e = count_up(SHAPE(0, 3)), *out;
    EXPECT_OK(kl_diagonal(&out, a, 0, 0, 1, cpu(), &err));
    assert_true(shares(out, a));
    EXPECT_I32(out, SHAPE(2), 0, 4);
    EXPECT_OK(kl_diagonal(&out, a, 1, -1, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 3);
    EXPECT_OK(kl_diagonal(&out, a, -1, 0, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 3);
    EXPECT_OK(kl_diagonal(&out, a, INT_MIN, 0, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_diagonal(&out, a, INT_MAX, 0, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_diagonal(&out, e, 1, 0, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_diagonal(&out, b, 1, 0, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2), 1, 14, 5, 18, 9, 22);
    EXPECT_FAIL(KL_EAXIS, kl_diagonal(&out, a, 0, 1, -1, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_diagonal(&out, a, 0, 0, 2, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_diagonal(&out, v, 0, 0, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_diagonal(&out, NULL, 0, 0, 1, cpu(), &err));
    struct kl_array *all[] = {a, b, v, e};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* Every pair of dtypes: the elements are the bytes of a contiguous copy, read with the new
 * dtype. */
static void every_dtype(void **state) {
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i * 37 + 1);
    for (int from = 0; from < KL_N_DTYPES; from++)
        for (int to = 0; to < KL_N_DTYPES; to++) {
            int item = (int)kl_dtype_size((enum kl_dtype)from),
                n = (int)kl_dtype_size((enum kl_dtype)to);
            unsigned char own[64];
            for (int i = 0; i < 64; i++) own[i] = from == KL_BOOL ? bytes[i] & 1 : bytes[i];
            struct kl_array *a = array_of((enum kl_dtype)from, SHAPE(4, 16 / item), own), *out;
            for (int way = 0; way < 2; way++) {
                if (way == 1) a = strided(a);
                EXPECT_OK(kl_view(&out, a, to, cpu(), &err));
                assert_int_equal(out->t.dtype, to);
                expect_shape(out, SHAPE(4, 16 / n));
                unsigned char *v = values_of(out);
                for (int i = 0; i < 64; i++)
                    assert_int_equal(v[i], to == KL_BOOL ? own[i] != 0 : own[i]);
                free(v);
                kl_array_release(out);
            }
            kl_array_release(a);
        }
}

static void view(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 4)), *s = scalar_of(KL_I32, 1), *part, *out, *misaligned,
                    *e = count_up(SHAPE(3, 0)), *empty_rows = count_up(SHAPE(0, 3));
    EXPECT_OK(kl_view(&out, a, KL_I64, cpu(), &err));
    assert_true(shares(out, a));
    kl_array_release(out);
    EXPECT_OK(kl_view(&out, a, KL_I32, cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    /* Reversed rows of pairs of columns are still a view. Columns that begin at 1 are not, since
     * the pairs are not aligned to int64. */
    EXPECT_OK(kl_slice(&part, a, LIST(1, 2), LIST(-9, 4), LIST(-1, 1), cpu(), &err));
    EXPECT_OK(kl_view(&out, part, KL_I64, cpu(), &err));
    assert_true(shares(out, a));
    int64_t *v = values_of(out);
    assert_int_equal(v[0], INT64_C(7) << 32 | 6);
    assert_int_equal(v[1], INT64_C(3) << 32 | 2);
    free(v);
    kl_array_release(out);
    kl_array_release(part);
    EXPECT_OK(kl_slice(&part, a, LIST(0, 1), LIST(2, 3), LIST(1, 1), cpu(), &err));
    EXPECT_OK(kl_view(&out, part, KL_I64, cpu(), &err));
    assert_false(shares(out, a));
    v = values_of(out);
    assert_int_equal(v[0], INT64_C(2) << 32 | 1);
    assert_int_equal(v[1], INT64_C(6) << 32 | 5);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_view(&out, part, KL_I16, cpu(), &err));
    assert_true(shares(out, a));
    expect_shape(out, SHAPE(2, 4));
    kl_array_release(out);
    kl_array_release(part);
    EXPECT_OK(kl_view(&out, e, KL_I64, cpu(), &err));
    expect_shape(out, SHAPE(3, 0));
    kl_array_release(out);
    EXPECT_OK(kl_view(&out, empty_rows, KL_U8, cpu(), &err));
    expect_shape(out, SHAPE(0, 12));
    kl_array_release(out);
    EXPECT_OK(kl_view(&out, s, KL_F32, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1.401298464324817e-45f);
    EXPECT_FAIL(KL_ESHAPE, kl_view(&out, s, KL_I8, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_view(&out, s, KL_BOOL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_view(&out, empty_rows, KL_I64, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_view(&out, a, KL_N_DTYPES, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_view(&out, NULL, KL_I8, cpu(), &err));
    /* Memory of the user that is not aligned to int64. */
    static _Alignas(8) unsigned char memory[24];
    for (int i = 0; i < 24; i++) memory[i] = (unsigned char)i;
    EXPECT_OK(kl_array_new_user(&misaligned, memory + 1, KL_U8, SHAPE(16), NULL, NULL, &err));
    EXPECT_OK(kl_view(&out, misaligned, KL_U64, cpu(), &err));
    assert_false(shares(out, misaligned));
    uint64_t *w = values_of(out);
    assert_memory_equal(w, memory + 1, 16);
    free(w);
    kl_array_release(out);
    kl_array_release(misaligned);
    struct kl_array *all[] = {a, s, e, empty_rows};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* A view of a value that is not computed yet, read when its last other owner is gone. An operation
 * then works in place, and reads it as another dtype on a device. */
static void view_of_pending(void **state) {
    struct kl_stream *on[] = {cpu(), sim()};
    for (int k = 0; k < 2; k++) {
        struct kl_array *a = F32(SHAPE(3), 1, -2, 0.5f), *sum, *bits, *out,
                        *one = scalar_of(KL_I32, 1);
        EXPECT_OK(kl_add(&sum, a, a, on[k], &err));
        EXPECT_OK(kl_view(&bits, sum, KL_I32, on[k], &err));
        kl_array_release(sum);
        EXPECT_OK(kl_add(&out, bits, one, on[k], &err));
        kl_array_release(bits);
        EXPECT_I32(out, SHAPE(3), 0x40000001, (int32_t)0xC0800001, 0x3F800001);
        kl_array_release(a);
        kl_array_release(one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_strided), cmocka_unit_test(diagonal),
                                       cmocka_unit_test(every_dtype), cmocka_unit_test(view),
                                       cmocka_unit_test(view_of_pending)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
