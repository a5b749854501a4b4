/* test_elementwise_binary.c - element-wise operations of several operands against NumPy; promotion,
 * broadcasting, bad arguments. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_binary.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(binary_cases);
}

static void broadcasting(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 1, 3)), *b = count_up(SHAPE(2, 1)), *out;
    EXPECT_OK(kl_add(&out, a, b, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 3), 0, 1, 2, 1, 2, 3, 3, 4, 5, 4, 5, 6);
    struct kl_array *ten = scalar_of(KL_I32, 10), *none = count_up(SHAPE(0, 1, 3));
    EXPECT_OK(kl_subtract(&out, ten, b, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1), 10, 9);
    EXPECT_OK(kl_multiply(&out, none, b, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 2, 3), 0);
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(ten);
    kl_array_release(none);
}

static void promotion(void **state) {
    static const struct {
        enum kl_dtype a, b, sum, quotient;
    } rows[] = {{KL_BOOL, KL_BOOL, KL_BOOL, KL_F32}, {KL_U8, KL_I8, KL_I16, KL_F32},
                {KL_U32, KL_I32, KL_I64, KL_F32},    {KL_U64, KL_I8, KL_F32, KL_F32},
                {KL_F16, KL_BF16, KL_F32, KL_F32},   {KL_F16, KL_I64, KL_F16, KL_F16},
                {KL_F64, KL_F32, KL_F64, KL_F64},    {KL_C64, KL_F64, KL_C64, KL_C64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kl_array *a = scalar_of(rows[i].a, 1), *b = scalar_of(rows[i].b, 1), *out;
        EXPECT_OK(kl_add(&out, a, b, cpu(), &err));
        assert_int_equal(out->t.dtype, rows[i].sum);
        kl_array_release(out);
        EXPECT_OK(kl_divide(&out, b, a, cpu(), &err));
        assert_int_equal(out->t.dtype, rows[i].quotient);
        kl_array_release(out);
        EXPECT_OK(kl_less(&out, b, a, cpu(), &err));
        assert_int_equal(out->t.dtype, KL_BOOL);
        kl_array_release(out);
        kl_array_release(a);
        kl_array_release(b);
    }
}

static void where(void **state) {
    struct kl_array *c = F32(SHAPE(4), 0, -0.0f, NAN, 2), *x = count_up(SHAPE(2, 4)),
                    *y = scalar_of(KL_F32, 0.5), *out;
    EXPECT_OK(kl_where(&out, c, x, y, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 4), 0.5f, 0.5f, 2, 3, 0.5f, 0.5f, 6, 7);
    struct kl_array *z = array_of(KL_C64, SHAPE(2), (float[]){0, 1, 0, 0}),
                    *one = scalar_of(KL_I32, 1), *two = scalar_of(KL_I32, 2);
    /* A complex number is true when its imaginary part is not 0. */
    EXPECT_OK(kl_where(&out, z, one, two, cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 1, 2);
    EXPECT_FAIL(KL_ESHAPE, kl_where(&out, c, x, z, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_where(&out, NULL, x, y, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_where(&out, c, NULL, y, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_where(&out, c, x, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_where(&out, c, x, y, NULL, &err));
    kl_array_release(c);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(z);
    kl_array_release(one);
    kl_array_release(two);
}

/* The result of a step is the only owner of its memory, so the next step may write into it. A long
 * chain must still be right. */
static void chains_in_place(void **state) {
    int n = 5000;
    struct kl_array *x = count_up(1, &n), *one = scalar_of(KL_I32, 1), *next;
    for (int i = 0; i < 40; i++) {
        EXPECT_OK((i & 1 ? kl_subtract : kl_multiply)(&next, x, i & 1 ? one : x, cpu(), &err));
        kl_array_release(x);
        x = next;
    }
    int32_t *v = values_of(x);
    for (int i = 0; i < n; i++) {
        uint32_t want = (uint32_t)i;
        for (int k = 0; k < 40; k++) want = k & 1 ? want - 1 : want * want;
        assert_int_equal((uint32_t)v[i], want);
    }
    free(v);
    kl_array_release(x);
    kl_array_release(one);
}

static void ranges(void **state) {
    struct kl_array *a, *b, *c, *out;
    EXPECT_OK(kl_arange(&a, 0, 5, 1, KL_I32, cpu(), &err));
    EXPECT_OK(kl_arange(&b, -3, 2, 1, KL_I32, cpu(), &err));
    EXPECT_OK(kl_less(&c, a, b, cpu(), &err));
    EXPECT_OK(kl_where(&out, c, a, b, cpu(), &err));
    assert_true(out->has_range && out->lo == -3 && out->hi == 4);
    kl_array_release(out);
    EXPECT_OK(kl_maximum(&out, a, b, cpu(), &err));
    assert_true(out->has_range && out->lo == 0 && out->hi == 4);
    kl_array_release(out);
    EXPECT_OK(kl_minimum(&out, a, b, cpu(), &err));
    assert_true(out->has_range && out->lo == -3 && out->hi == 1);
    kl_array_release(out);
    EXPECT_OK(kl_add(&out, a, b, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(c);
}

/* Logical operations of any two dtypes, in rows and of every second element, one by one and in a
 * fusion, beside those of the bools that a conversion gives. */
static void truths_of(enum kl_dtype da, enum kl_dtype db, int n) {
    static const double some[] = {0, -0.0, 1, -1, (double)NAN, 0.25, 256, 65536, 0x1p32, 7, 0};
    double first[3000], second[3000];
    for (int i = 0; i < 2 * n; i++) {
        first[i] = some[i / 2 % 11];
        second[i] = some[i / 22 % 11];
    }
    struct kl_array *a[2], *b[2], *bools[2], *out[4];
    struct kl_array *wide[2] = {array_of(KL_F64, SHAPE(2 * n), first),
                                array_of(KL_F64, SHAPE(2 * n), second)};
    EXPECT_OK(kl_astype(&a[0], wide[0], da, cpu(), &err));
    EXPECT_OK(kl_astype(&b[0], wide[1], db, cpu(), &err));
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(kl_slice(k ? &b[1] : &a[1], k ? b[0] : a[0], (int[]){k}, 1, (int[]){2 * n}, 1,
                           (int[]){2}, 1, cpu(), &err));
        EXPECT_OK(kl_astype(&bools[k], k ? b[1] : a[1], KL_BOOL, cpu(), &err));
    }
    EXPECT_OK(kl_logical_and(&out[0], a[1], b[1], cpu(), &err));
    EXPECT_OK(kl_logical_or(&out[1], a[1], b[1], cpu(), &err));
    EXPECT_OK(kl_logical_not(&out[2], a[1], cpu(), &err));
    struct kl_array *no, *both;
    EXPECT_OK(kl_logical_not(&no, b[1], cpu(), &err));
    EXPECT_OK(kl_logical_and(&both, no, a[1], cpu(), &err));
    EXPECT_OK(kl_logical_or(&out[3], both, b[1], cpu(), &err));
    kl_array_release(no);
    kl_array_release(both);
    uint8_t *x = values_of(bools[0]), *y = values_of(bools[1]);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(out[k]->t.dtype, KL_BOOL);
        uint8_t *got = values_of(out[k]);
        for (int i = 0; i < n; i++) {
            const int want = k == 0 ? x[i] && y[i] : k == 2 ? !x[i] : x[i] || y[i];
            if (got[i] != want)
                fail_msg("%s, %s: operation %d, element %d of %d", kl_dtype_name(da),
                         kl_dtype_name(db), k, i, n);
        }
        free(got);
        kl_array_release(out[k]);
    }
    free(x);
    free(y);
    for (int k = 0; k < 2; k++) {
        kl_array_release(wide[k]);
        kl_array_release(a[k]);
        kl_array_release(b[k]);
        kl_array_release(bools[k]);
    }
}

static void truths(void **state) {
    for (int da = 0; da < KL_N_DTYPES; da++)
        for (int db = 0; db < KL_N_DTYPES; db++)
            for (int n = 121; n <= 1452; n += 1331)
                truths_of((enum kl_dtype)da, (enum kl_dtype)db, n);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2)), *b = count_up(SHAPE(3)), *out;
    kl_binary_fn *const all[] = {kl_add,         kl_subtract,   kl_multiply, kl_divide,
                                 kl_maximum,     kl_minimum,    kl_equal,    kl_not_equal,
                                 kl_less,        kl_less_equal, kl_greater,  kl_greater_equal,
                                 kl_logical_and, kl_logical_or};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        EXPECT_FAIL(KL_ESHAPE, all[i](&out, a, b, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, b, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, a, NULL, &err));
    }
    /* Each array fits into memory, but their broadcast result does not. */
    struct kl_array *one = scalar_of(KL_F64, 1), *p, *q;
    EXPECT_OK(kl_broadcast_to(&p, one, (int[]){1 << 30, 1, 1 << 20}, 3, cpu(), &err));
    EXPECT_OK(kl_broadcast_to(&q, one, (int[]){1, 1 << 20, 1}, 3, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_add(&out, p, q, cpu(), &err));
    kl_array_release(p);
    kl_array_release(q);
    kl_array_release(one);
    kl_array_release(a);
    kl_array_release(b);
}

/* ---- gradients ---- */

static int choose(struct kl_array **out, struct kl_array *const *in, const void *how,
                  struct kl_error **err) {
    return kl_where(out, in[0], in[1], in[2], cpu(), err);
}

static void gradient_of_choice(void **state) {
    struct kl_array *c = array_of(KL_BOOL, SHAPE(3), (uint8_t[]){1, 0, 1}),
                    *x = array_of(KL_F64, SHAPE(3), (double[]){1, 2, 3}),
                    *y = array_of(KL_F64, SHAPE(3), (double[]){4, 5, 6}),
                    *z = array_of(KL_C64, SHAPE(3), (float[]){1, 2, 3, 4, 5, 6}),
                    *w = array_of(KL_C64, SHAPE(3), (float[]){7, 8, 9, 0, 1, 2});
    check_vjp("where", choose, NULL, (struct kl_array *[]){c, x, y}, 3, 0);
    check_vjp("where", choose, NULL, (struct kl_array *[]){c, z, w}, 3, 0);
    struct kl_array *all[] = {c, x, y, z, w};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}

/* Of equal operands the second one gets the gradient. Where one of them is NaN, neither gets it. */
static void gradients_of_ties(void **state) {
    struct kl_array *a = F32(SHAPE(5), 1, 2, 3, NAN, 1), *b = F32(SHAPE(5), 1, 1, 5, 1, NAN),
                    *one = F32(SHAPE(5), 1, 1, 1, 1, 1);
    for (int k = 0; k < 2; k++) {
        struct kl_array *y, *g[2] = {NULL, NULL}, *in[2] = {a, b};
        bool wanted[2] = {true, true};
        EXPECT_OK((k ? kl_minimum : kl_maximum)(&y, a, b, cpu(), &err));
        enum kl_op_id op = k ? KL_OP_MINIMUM : KL_OP_MAXIMUM;
        struct kl_vjp v = {op, NULL, 2, 1, in, &y, &one, wanted, cpu()};
        EXPECT_OK(kl_vjp_rule(op)(&v, g, &err));
        if (k) {
            EXPECT_F32(g[0], SHAPE(5), 0, 0, 1, 0, 0);
            EXPECT_F32(g[1], SHAPE(5), 1, 1, 0, 0, 0);
        } else {
            EXPECT_F32(g[0], SHAPE(5), 0, 1, 0, 0, 0);
            EXPECT_F32(g[1], SHAPE(5), 1, 0, 1, 0, 0);
        }
        kl_array_release(y);
    }
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(promotion),
        cmocka_unit_test(where),
        cmocka_unit_test(chains_in_place),
        cmocka_unit_test(ranges),
        cmocka_unit_test(truths),
        cmocka_unit_test(bad),

        cmocka_unit_test(gradient_of_choice),
        cmocka_unit_test(gradients_of_ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
