/* test_index_gather.c - gather, take, take_along_axis: values, every index type, faults, bad
 * arguments. */
#include "ops/support/helpers.h"

#include "ops/quantized.h"

static void take(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *i = I32(SHAPE(2, 2), 0, -1, 2, 1),
                    *one = scalar_of(KL_I32, -2), *none = count_up(SHAPE(0)), *out;
    EXPECT_OK(kl_take(&out, a, i, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 5, 2, 1);
    EXPECT_OK(kl_take(&out, a, one, cpu(), &err));
    EXPECT_I32(out, SCALAR, 4);
    EXPECT_OK(kl_take_axis(&out, a, i, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 2), 0, 2, 2, 1, 3, 5, 5, 4);
    EXPECT_OK(kl_take_axis(&out, a, one, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 0, 1, 2);
    EXPECT_OK(kl_take_axis(&out, a, none, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 0), 0);
    struct kl_array *e = count_up(SHAPE(0, 3)), *zero = I32(SHAPE(1), 0);
    EXPECT_OK(kl_take_axis(&out, e, none, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_take_axis(&out, e, zero, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 1), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_take_axis(&out, e, zero, 0, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_take(&out, e, zero, cpu(), &err));
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(one);
    kl_array_release(none);
    kl_array_release(e);
    kl_array_release(zero);
}

static void gather(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(2), 1, -3),
                    *j = array_of(KL_U8, SHAPE(3, 1), (uint8_t[]){0, 3, 2}), *out;
    struct kl_array *both[] = {j, i};
    EXPECT_OK(kl_gather(&out, a, both, 2, LIST(1, 0), LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2, 1, 1), 4, 0, 7, 3, 6, 2);
    /* Slices of two rows and three columns. */
    EXPECT_OK(kl_gather_single(&out, a, i, 0, LIST(2, 3), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 3), 4, 5, 6, 8, 9, 10, 0, 1, 2, 4, 5, 6);
    EXPECT_OK(kl_gather(&out, a, NULL, 0, NULL, 0, LIST(2, 2), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 1, 4, 5);
    struct kl_array *t;
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_gather_single(&out, t, i, 0, LIST(1, 3), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1, 3), 1, 5, 9, 1, 5, 9);
    EXPECT_OK(kl_gather_single(&out, a, i, 0, LIST(1, 0), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1, 0), 0);
    kl_array_release(t);
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(j);
}

/* Slices that several tasks copy, with an end that is shorter than the other parts: contiguous ones
 * and others, whole and cut along each axis. */
static void large_slices(void **state) {
    enum { N = 3, ROWS = 411, COLS = 523 };
    static const int extents[][3] = {
        {1, ROWS, COLS}, {1, ROWS, 400}, {1, 333, COLS}, {2, ROWS, COLS}};
    struct kl_array *a = count_up(SHAPE(N, ROWS, COLS)), *i = I32(SHAPE(2), 1, -3),
                    *bad = I32(SHAPE(2), 0, 3), *out;
    for (int lies = 0; lies < 2; lies++) {
        struct kl_array *from = lies ? strided(kl_array_retain(a)) : kl_array_retain(a);
        for (size_t k = 0; k < sizeof extents / sizeof *extents; k++) {
            const int *e = extents[k];
            EXPECT_OK(kl_gather_single(&out, from, i, 0, e, 3, cpu(), &err));
            int32_t *v = values_of(out), *at = v;
            for (int first = 1; first >= 0; first--)
                for (int x = 0; x < e[0]; x++)
                    for (int y = 0; y < e[1]; y++)
                        for (int z = 0; z < e[2]; z++)
                            assert_int_equal(*at++, ((first + x) * ROWS + y) * COLS + z);
            free(v);
            kl_array_release(out);
            EXPECT_OK(kl_gather_single(&out, from, bad, 0, e, 3, cpu(), &err));
            expect_index_fault(out, 1, 0, 3, N);
        }
        kl_array_release(from);
    }
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(bad);
}

static void every_index_type_and_item_size(void **state) {
    static const enum kl_dtype index_types[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                                KL_I8, KL_I16, KL_I32, KL_I64};
    static const enum kl_dtype values[] = {KL_U8, KL_F16, KL_I32, KL_C64};
    for (size_t k = 0; k < 8; k++)
        for (size_t v = 0; v < 4; v++) {
            struct kl_array *raw = I32(SHAPE(3), 2, kl_dtype_is_signed(index_types[k]) ? -4 : 0, 1),
                            *i, *a, *n = count_up(SHAPE(4)), *out, *back;
            EXPECT_OK(kl_astype(&i, raw, (int)index_types[k], cpu(), &err));
            EXPECT_OK(kl_astype(&a, n, (int)values[v], cpu(), &err));
            EXPECT_OK(kl_take(&out, a, i, cpu(), &err));
            EXPECT_OK(kl_astype(&back, out, KL_I32, cpu(), &err));
            EXPECT_I32(back, SHAPE(3), 2, 0, 1);
            kl_array_release(out);
            EXPECT_OK(kl_take_along_axis(&out, a, i, 0, cpu(), &err));
            EXPECT_OK(kl_astype(&back, out, KL_I32, cpu(), &err));
            EXPECT_I32(back, SHAPE(3), 2, 0, 1);
            kl_array_release(out);
            kl_array_release(raw);
            kl_array_release(i);
            kl_array_release(a);
            kl_array_release(n);
        }
}

static void along_axis(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *i = I32(SHAPE(2, 2), 0, -1, 1, 1),
                    *row = I32(SHAPE(1, 2), 2, 0), *out;
    EXPECT_OK(kl_take_along_axis(&out, a, i, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 2, 4, 4);
    EXPECT_OK(kl_take_along_axis(&out, a, row, -1, cpu(), &err)); /* the indices broadcast */
    EXPECT_I32(out, SHAPE(2, 2), 2, 0, 5, 3);
    struct kl_array *r = count_up(SHAPE(1, 3)), *t;
    EXPECT_OK(kl_take_along_axis(&out, r, i, 1, cpu(), &err)); /* the array broadcasts */
    EXPECT_I32(out, SHAPE(2, 2), 0, 2, 1, 1);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    struct kl_array *c = I32(SHAPE(1, 2), -1, 0);
    EXPECT_OK(kl_take_along_axis(&out, t, c, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 2, 3);
    EXPECT_FAIL(KL_ESHAPE, kl_take_along_axis(&out, a, i, 0, cpu(), &err));
    struct kl_array *flat = count_up(SHAPE(2)), *f = F32(SHAPE(2, 2), 0, 0, 0, 0),
                    *s = scalar_of(KL_I32, 0);
    EXPECT_FAIL(KL_ESHAPE, kl_take_along_axis(&out, a, flat, 1, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_take_along_axis(&out, a, i, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_take_along_axis(&out, s, s, 0, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_take_along_axis(&out, a, f, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_along_axis(&out, NULL, i, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_along_axis(&out, a, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_along_axis(&out, a, i, 1, NULL, &err));
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(row);
    kl_array_release(r);
    kl_array_release(t);
    kl_array_release(c);
    kl_array_release(flat);
    kl_array_release(f);
    kl_array_release(s);
}

/* The error names the smallest position and its lowest axis. Other results are not affected. */
static void faults_on(struct kl_stream *s) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(3), 0, 3, -4),
                    *j = I32(SHAPE(3), 1, 4, 0), *out;
    struct kl_array *both[] = {j, i};
    EXPECT_OK(kl_gather(&out, a, both, 2, LIST(1, 0), LIST(1, 1), s, &err));
    expect_index_fault(out, 1, 0, 3, 3);
    EXPECT_OK(kl_take_axis(&out, a, i, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "3");
    /* In the flattened array of 12 elements, all indices are in range. */
    EXPECT_OK(kl_take(&out, a, i, s, &err));
    EXPECT_I32(out, SHAPE(3), 0, 3, 8);
    /* A slice of two rows that begins at row 2: the index is in range, but the slice ends beyond
     * the axis. */
    struct kl_array *two = I32(SHAPE(1), 2),
                    *huge = array_of(KL_U64, SHAPE(1), (uint64_t[]){UINT64_MAX});
    EXPECT_OK(kl_gather_single(&out, a, two, 0, LIST(2, 4), s, &err));
    expect_eval_fails(out, KL_EINDEX, "2");
    EXPECT_OK(kl_take(&out, a, huge, s, &err));
    struct kl_error *told = NULL;
    assert_int_equal(kl_eval(&out, 1, &told), KL_EINDEX);
    assert_non_null(strstr(told->message, "index 18446744073709551615 is out of range for axis 0"));
    assert_int_equal(told->index, INT64_MAX); /* the largest value of the field */
    kl_error_release(told);
    kl_array_release(out);
    EXPECT_OK(kl_take_along_axis(&out, i, two, 0, s, &err));
    EXPECT_I32(out, SHAPE(1), -4);
    EXPECT_OK(kl_take_along_axis(&out, i, i, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "3");
    /* The indices of slices without elements are checked as well. */
    struct kl_array *e = count_up(SHAPE(2, 0)), *z = I32(SHAPE(2, 1), 0, 0),
                    *good = I32(SHAPE(4), 0, 1, -1, -2), *none = I32(SHAPE(0), 0),
                    *high = I32(SHAPE(2, 2), 0, 1, -1, 2), *low = I32(SHAPE(2), 1, -3);
    EXPECT_OK(kl_take_axis(&out, e, good, 0, s, &err));
    EXPECT_I32(out, SHAPE(4, 0), 0);
    EXPECT_OK(kl_take_axis(&out, e, none, 0, s, &err));
    EXPECT_I32(out, SHAPE(0, 0), 0);
    EXPECT_OK(kl_take_axis(&out, e, high, 0, s, &err));
    expect_index_fault(out, 3, 0, 2, 2);
    EXPECT_OK(kl_take_axis(&out, e, low, 0, s, &err));
    expect_index_fault(out, 1, 0, -3, 2);
    EXPECT_OK(kl_take_axis(&out, e, huge, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "18446744073709551615");
    struct kl_array *transposed = strided(kl_array_retain(high));
    EXPECT_OK(kl_gather_single(&out, a, transposed, 0, LIST(1, 0), s, &err));
    expect_shape(out, SHAPE(2, 2, 1, 0));
    kl_array_release(out);
    EXPECT_OK(kl_gather_single(&out, e, transposed, 0, LIST(1, 0), s, &err));
    expect_index_fault(out, 3, 0, 2, 2);
    /* Slices of extent 0 may begin at every element and at the end. */
    struct kl_array *end = I32(SHAPE(2), 3, 4);
    EXPECT_OK(kl_gather_single(&out, a, end, 0, LIST(0, 4), s, &err));
    expect_index_fault(out, 1, 0, 4, 3);
    /* Many indices, one of them out of range. */
    struct kl_array *zeros, *many, *row = I32(SHAPE(1), 7);
    EXPECT_OK(kl_zeros(&zeros, LIST(300000), KL_I32, cpu(), &err));
    EXPECT_OK(kl_slice_update(&many, zeros, row, LIST(250001), LIST(250002), LIST(1), cpu(), &err));
    EXPECT_OK(kl_take_axis(&out, e, many, 0, s, &err));
    expect_index_fault(out, 250001, 0, 7, 2);
    struct kl_array *used[] = {good, none, high, low, transposed, end, zeros, many, row};
    for (int k = 0; k < 9; k++) kl_array_release(used[k]);
    EXPECT_OK(kl_take_along_axis(&out, e, z, 1, s, &err));
    expect_eval_fails(out, KL_EINDEX, "0");
    kl_array_release(e);
    kl_array_release(z);
    kl_array_release(two);
    kl_array_release(huge);
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(j);
}

static void faults(void **state) {
    faults_on(cpu());
    faults_on(sim());
}

/* More positions than a tile and a chunk hold; one index is out of range. */
static void large(void **state) {
    enum { N = 300000 };
    int32_t *v = malloc(N * sizeof *v);
    for (int i = 0; i < N; i++) v[i] = (int32_t)((int64_t)i * 7919 % N) - (i & 1 ? N : 0);
    struct kl_array *a = count_up(SHAPE(N)), *i = array_of(KL_I32, SHAPE(N), v), *out;
    EXPECT_OK(kl_take(&out, a, i, cpu(), &err));
    int32_t *got = values_of(out);
    for (int k = 0; k < N; k++) assert_int_equal(got[k], v[k] < 0 ? v[k] + N : v[k]);
    free(got);
    kl_array_release(out);
    kl_array_release(i);
    v[299123] = v[123456] = N;
    i = array_of(KL_I32, SHAPE(N), v);
    EXPECT_OK(kl_take(&out, a, i, cpu(), &err));
    expect_index_fault(out, 123456, 0, N, N);
    kl_array_release(i);
    kl_array_release(a);
    free(v);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(2), 0, 1), *f = F32(SHAPE(2), 0, 1),
                    *b = scalar_of(KL_BOOL, 1), *j = count_up(SHAPE(3)), *out;
    struct kl_array *two[] = {i, i}, *apart[] = {i, j}, *null[] = {i, NULL};
    EXPECT_FAIL(KL_EDTYPE, kl_take(&out, a, f, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_take(&out, a, b, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take(&out, NULL, i, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take(&out, a, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take(&out, a, i, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_take_axis(&out, a, i, 2, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_take_axis(&out, a, f, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_axis(&out, NULL, i, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_axis(&out, a, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_take_axis(&out, a, i, 0, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_single(&out, a, i, 0, LIST(4, 1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_single(&out, a, i, 0, LIST(-1, 1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_single(&out, a, i, 0, LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_gather_single(&out, a, i, 2, LIST(1, 1), cpu(), &err));
    /* A negative axis is rejected, as in MLX. */
    EXPECT_FAIL(KL_EAXIS, kl_gather_single(&out, a, i, -1, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_gather_single(&out, a, f, 0, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_single(&out, a, NULL, 0, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_single(&out, NULL, i, 0, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_single(&out, a, i, 0, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_single(&out, a, i, 0, LIST(1, 1), NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_gather(&out, a, two, 2, LIST(0, 0), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather(&out, a, two, 2, LIST(0), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather(&out, a, two, 2, NULL, 2, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather(&out, a, NULL, 2, LIST(0, 1), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather(&out, a, null, 2, LIST(0, 1), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather(&out, a, apart, 2, LIST(0, 1), LIST(1, 1), cpu(), &err));
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(f);
    kl_array_release(b);
    kl_array_release(j);
}

/* ---- what messages say ---- */

/* A message names the call that the user wrote, not the gather that serves it, and offers the modes
 * of take to take alone. */
static void fails_as(struct kl_array *out, const char *name) {
    char start[64];
    struct kl_error *told = NULL;
    snprintf(start, sizeof start, "%s: index 9 is out of range for axis 0 of size 2 (", name);
    assert_int_equal(kl_eval(&out, 1, &told), KL_EINDEX);
    assert_memory_equal(told->message, start, strlen(start));
    assert_int_equal(strstr(told->message, "take with mode") != NULL,
                     strncmp(name, "take", 4) == 0);
    assert_string_equal(told->op, name);
    kl_error_release(told);
    kl_array_release(out);
}

static void messages_name_the_call(void **state) {
    const struct kl_quant_format format = {KL_QUANT_AFFINE, 32, 8};
    const int first = 0, row[] = {1, 2};
    const float zeros[64] = {0};
    struct kl_array *a = F32(SHAPE(2, 2), 1, 2, 3, 4), *m = F32(SHAPE(2, 1, 1), 1, 2),
                    *wide = array_of(KL_F32, SHAPE(2, 1, 32), zeros), *at = I32(SHAPE(1), 9),
                    *square = I32(SHAPE(1, 2), 9, 9), *update = F32(SHAPE(1, 2), 5, 6), *q[3], *out;
    int parts;
    EXPECT_OK(kl_quantize(q, &parts, wide, &format, NULL, cpu(), &err));
    EXPECT_OK(kl_take_axis(&out, a, at, 0, cpu(), &err));
    fails_as(out, "take");
    EXPECT_OK(kl_take_along_axis(&out, a, square, 0, cpu(), &err));
    fails_as(out, "take_along_axis");
    EXPECT_OK(kl_slice_dynamic(&out, a, at, &first, 1, row, 2, cpu(), &err));
    fails_as(out, "slice");
    EXPECT_OK(kl_slice_update_dynamic(&out, a, update, at, &first, 1, cpu(), &err));
    fails_as(out, "slice_update");
    EXPECT_OK(kl_gather_mm(&out, m, m, at, NULL, cpu(), &err));
    fails_as(out, "gather_mm");
    EXPECT_OK(kl_gather_qmm(&out, wide, q[0], q[1], q[2], NULL, at, true, &format, cpu(), &err));
    fails_as(out, "gather_qmm");
    struct kl_array *release[] = {a, m, wide, at, square, update, q[0], q[1], q[2]};
    for (int i = 0; i < 9; i++) kl_array_release(release[i]);
    /* These count otherwise: nine values are missing, and segments may end at the size. */
    const bool places[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct kl_array *ten = count_up(SHAPE(10)), *mask = array_of(KL_BOOL, SHAPE(10), places),
                    *few = count_up(SHAPE(9)), *one = F32(SHAPE(1, 1), 1),
                    *ends = I32(SHAPE(2), 0, 9);
    EXPECT_OK(kl_masked_scatter(&out, ten, mask, few, cpu(), &err));
    expect_eval_fails(out, KL_EINDEX,
                      "masked_scatter: index 9 is out of range for axis 0 of size 9");
    EXPECT_OK(kl_segmented_mm(&out, one, one, ends, cpu(), &err));
    expect_eval_fails(out, KL_EINDEX, "segmented_mm: index 9 is out of range for axis 0 of size 2");
    struct kl_array *also[] = {ten, mask, few, one, ends};
    for (int i = 0; i < 5; i++) kl_array_release(also[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take),
        cmocka_unit_test(gather),
        cmocka_unit_test(large_slices),
        cmocka_unit_test(every_index_type_and_item_size),
        cmocka_unit_test(along_axis),
        cmocka_unit_test(faults),
        cmocka_unit_test(large),
        cmocka_unit_test(bad),
        cmocka_unit_test(messages_name_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
