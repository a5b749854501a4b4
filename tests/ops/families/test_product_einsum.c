/* test_product_einsum.c - einsum: golden values, the order of many operands, bad subscripts. */
#include "ops/golden/golden_make.h"

#include "base/error.h"

#include "ops/golden/golden_einsum.inc"

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(einsum_cases);
}

/* A chain of n matrices of 2 x 2 with one order, as products of two. n is more than is searched in
 * full, or less. */
static void chains(void **state) {
    for (int n = 2; n <= 30; n += 7) {
        struct kl_array *m[30], *want, *out;
        char text[128];
        int at = 0;
        for (int i = 0; i < n; i++) {
            const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGH";
            m[i] = F32(SHAPE(2, 2), (float)(i % 3), 1, -1, (float)(i % 2));
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%c%c", i ? "," : "", letters[i],
                           letters[i + 1]);
        }
        want = kl_array_retain(m[0]);
        for (int i = 1; i < n; i++) {
            struct kl_array *product;
            EXPECT_OK(kl_matmul(&product, want, m[i], cpu(), &err));
            kl_array_release(want);
            want = product;
        }
        if (n > 25) at += snprintf(text + at, sizeof text - (size_t)at, "->aE");
        EXPECT_OK(kl_einsum(&out, text, m, (size_t)n, cpu(), &err));
        float *v = values_of(want);
        EXPECT_F32(out, SHAPE(2, 2), v[0], v[1], v[2], v[3]);
        free(v);
        kl_array_release(want);
        for (int i = 0; i < n; i++) kl_array_release(m[i]);
    }
}

/* The order matters: (a b) with a long b first would need 10^12 elements. */
static void order(void **state) {
    struct kl_array *a, *b, *c, *out;
    EXPECT_OK(kl_ones(&a, LIST(1000000), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&b, LIST(1000000), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&c, LIST(1000000, 1), KL_F32, cpu(), &err));
    EXPECT_OK(kl_einsum(&out, "i,j,jk->ik", (struct kl_array *[]){a, b, c}, 3, cpu(), &err));
    expect_shape(out, SHAPE(1000000, 1));
    float *v = values_of(out);
    assert_true(v[0] == 1000000 && v[999999] == 1000000);
    free(v);
    struct kl_array *used[] = {a, b, c, out};
    for (int i = 0; i < 4; i++) kl_array_release(used[i]);
}

static void empty(void **state) {
    struct kl_array *a = F32(SHAPE(2, 0), 0), *b = F32(SHAPE(0, 3), 0), *x = scalar_of(KL_F32, 3),
                    *out;
    EXPECT_OK(kl_einsum(&out, "ij,jk", (struct kl_array *[]){a, b}, 2, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_einsum(&out, "ij->i", &a, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 0, 0);
    EXPECT_OK(kl_einsum(&out, "", &x, 1, cpu(), &err));
    EXPECT_F32(out, SCALAR, 3);
    EXPECT_OK(kl_einsum(&out, ",->", (struct kl_array *[]){x, x}, 2, cpu(), &err));
    EXPECT_F32(out, SCALAR, 9);
    struct kl_array *used[] = {a, b, x};
    for (int i = 0; i < 3; i++) kl_array_release(used[i]);
}

static void bad(void **state) {
    struct kl_array *a = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *i = count_up(SHAPE(3, 2)), *out;
    struct kl_array *two[] = {a, a}, *whole[] = {i, i}, *many[65], *hole[] = {a, NULL};
    static const struct {
        const char *text;
        int n, code;
    } cases[] = {
        {"i1->i", 1, KL_EARG},        {"i..->i", 1, KL_EARG},      {"....->", 1, KL_EARG},
        {"...i...->i", 1, KL_EARG},   {"ij->i->j", 1, KL_EARG},    {"ij->i,j", 1, KL_EARG},
        {"ij-i", 1, KL_EARG},         {"ij>i", 1, KL_EARG},        {"ij\n->i", 1, KL_EARG},
        {"\xce\xb1j->j", 1, KL_EARG}, {"ij->ii", 1, KL_EARG},      {"ij->ik", 1, KL_EARG},
        {"ij,jk", 1, KL_EARG},        {"ij", 2, KL_EARG},          {"ij,,jk->ik", 2, KL_EARG},
        {"ijk", 1, KL_ESHAPE},        {"i", 1, KL_ESHAPE},         {"ijk...", 1, KL_ESHAPE},
        {"ii", 1, KL_ESHAPE},         {"ij,jk->ik", 2, KL_ESHAPE}, {"...j,j...", 2, KL_ESHAPE},
        {"", 1, KL_ESHAPE},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct kl_error *err = NULL;
        const int rc = kl_einsum(&out, cases[k].text, two, (size_t)cases[k].n, cpu(), &err);
        if (rc != cases[k].code) fail_msg("%s: %d, not %d", cases[k].text, rc, cases[k].code);
        kl_error_release(err);
    }
    for (int k = 0; k < 65; k++) many[k] = a;
    EXPECT_FAIL(KL_EARG, kl_einsum(&out, NULL, two, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_einsum(&out, "->", NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_einsum(&out, "ij,jk", NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_einsum(&out, "ij,jk", hole, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_einsum(&out, "ij,ij", two, 2, NULL, &err));
    EXPECT_FAIL(KL_ELIMIT, kl_einsum(&out, "ij", many, 65, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_einsum(&out, "ij,ik", whole, 2, cpu(), &err));
    kl_array_release(a);
    kl_array_release(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(chains),
                                       cmocka_unit_test(order), cmocka_unit_test(empty),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
