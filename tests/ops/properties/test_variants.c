/* test_variants.c - every variant of the CPU's kernels gives the same bits: each operation on
 * random bits and special values, of every dtype that it takes. A builder that is missing in these
 * tables is not tested here, so a new builder needs a line. */
#include "ops/support/operations.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"
#include "ops/quantized.h"

/* DEPENDS copies an operand that has another owner and is transposed. */
static int depends_on_itself(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                             struct kl_error **err) {
    struct kl_array *t, **outs;
    size_t n;
    KL_TRY(kl_transpose(&t, a, s, err));
    int rc = kl_depends(&outs, &n, &t, 1, &a, 1, s, err);
    kl_array_release(t);
    if (rc) return rc;
    *out = outs[0];
    kl_free(outs);
    return KL_OK;
}

/* Makes a factor of b b', where b tells where a is negative (kl_random_multivariate_normal). Each
 * variant gives the same numbers for the same key. */
static int multivariate_normal(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                               struct kl_error **err) {
    struct kl_array *b, *below, *none, *t, *key, *cov, *mean;
    int zero = 0, rows = a->t.dims[0];
    if (a->t.dtype != KL_F32) return kl_fail(err, KL_EDTYPE, "float32 is enough");
    KL_TRY(kl_random_key(&key, 1, err));
    KL_TRY(kl_array_new_scalar(&none, 0, KL_F32, err));
    KL_TRY(kl_less(&below, a, none, s, err));
    KL_TRY(kl_astype(&b, below, KL_F32, s, err));
    KL_TRY(kl_transpose(&t, b, s, err));
    KL_TRY(kl_matmul(&cov, b, t, s, err));
    KL_TRY(kl_zeros(&mean, &rows, 1, KL_F32, s, err));
    int rc = kl_random_multivariate_normal(out, mean, cov, &zero, 0, KL_F32, key, s, err);
    struct kl_array *used[] = {b, below, none, t, key, cov, mean};
    for (int i = 0; i < 7; i++) kl_array_release(used[i]);
    return rc;
}

/* Packed numbers, scales, and what they stand for, of rows of whole groups: the same bits in every
 * variant. */
static int by_groups(struct kl_array **out, struct kl_array *a, struct kl_quant_format f, int part,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_array *flat, *rows, *made[3];
    int n;
    KL_TRY(kl_flatten(&flat, a, 0, -1, s, err));
    KL_TRY(kl_slice(&rows, flat, LIST(0), LIST(1280), LIST(1), s, err));
    kl_array_release(flat);
    KL_TRY(kl_reshape(&flat, rows, LIST(5, 256), s, err));
    kl_array_release(rows);
    int rc = kl_quantize(made, &n, flat, &f, NULL, s, err);
    kl_array_release(flat);
    if (rc) return rc;
    if (part == 2)
        KL_TRY(
            kl_dequantize(out, made[0], made[1], n > 2 ? made[2] : NULL, &f, NULL, NULL, s, err));
    else
        *out = kl_array_retain(made[part]);
    for (int i = 0; i < n; i++) kl_array_release(made[i]);
    return KL_OK;
}
#define BY_GROUPS(name, part, ...)                                                     \
    static int name(struct kl_array **out, struct kl_array *a, struct kl_stream *s,    \
                    struct kl_error **err) {                                           \
        if (a->t.dtype != KL_F32 && a->t.dtype != KL_F16 && a->t.dtype != KL_BF16)     \
            return kl_fail(err, KL_EDTYPE, "float16, bfloat16 and float32 are taken"); \
        return by_groups(out, a, (struct kl_quant_format){__VA_ARGS__}, part, s, err); \
    }
BY_GROUPS(packed_3, 0, KL_QUANT_AFFINE, 64, 3)
BY_GROUPS(packed_8, 0, KL_QUANT_AFFINE, 32, 8)
BY_GROUPS(scales_4, 1, KL_QUANT_AFFINE, 128, 4)
BY_GROUPS(meant_5, 2, KL_QUANT_AFFINE, 32, 5)
BY_GROUPS(packed_mxfp4, 0, KL_QUANT_MXFP4, 32, 4)
BY_GROUPS(packed_nvfp4, 0, KL_QUANT_NVFP4, 16, 4)
BY_GROUPS(meant_mxfp8, 2, KL_QUANT_MXFP8, 32, 8)

/* Builders that are not element-wise, or that are composed of several operations. */
static const struct {
    const char *name;
    kl_unary_fn *build;
} other_unaries[] = {
    NAMED(kl_sort),      NAMED(kl_argsort),   NAMED(depends_on_itself), NAMED(multivariate_normal),
    NAMED(packed_3),     NAMED(packed_8),     NAMED(scales_4),          NAMED(meant_5),
    NAMED(packed_mxfp4), NAMED(packed_nvfp4), NAMED(meant_mxfp8),
};
static const struct {
    const char *name;
    kl_binary_fn *build;
} other_binaries[] = {NAMED(kl_matmul), NAMED(kl_inner)};
static const int dims[] = {37, 41}; /* several vectors of any width, and a tail */

enum kind { ELEMENTWISE, UNARY, BINARY, REDUCTION };
struct call {
    enum kind kind;
    int which, axis;
    const char *name;
};

static int build(const struct call *c, struct kl_array *const *in, struct kl_array **out,
                 struct kl_error **err) {
    switch (c->kind) {
    case UNARY: return other_unaries[c->which].build(out, in[0], cpu(), err);
    case BINARY: return other_binaries[c->which].build(out, in[0], in[1], cpu(), err);
    case REDUCTION: return reductions[c->which].build(out, in[0], c->axis, false, cpu(), err);
    default: return operation_build(c->which, out, in[0], in[1], err);
    }
}

static bool multiplies_matrices(const struct call *c) {
    return strcmp(c->name, "kl_matmul") == 0 || strcmp(c->name, "kl_inner") == 0 ||
           strcmp(c->name, "multivariate_normal") == 0;
}

static int n_compared;

/* With KEEL_TEST_BITS set: a line with the name, the variant and a sum over the bits of a result,
 * by which machines are compared (tools/cross/aarch64.sh bits). Every NaN counts as the same. */
static void say_bits(const char *name, const struct kl_array *a, const void *got, int variant) {
    static int asked = -1;
    if (asked < 0) asked = getenv("KEEL_TEST_BITS") != NULL;
    if (!asked) return;
    const bool is_complex = a->t.dtype == KL_C64;
    const enum kl_dtype part = is_complex ? KL_F32 : (enum kl_dtype)a->t.dtype;
    const size_t bytes = kl_dtype_size(part);
    const int64_t n = is_complex ? 2 * a->t.size : a->t.size;
    unsigned char nan[8];
    memset(nan, 0xff, sizeof nan);
    uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *element = (const unsigned char *)got + (size_t)i * bytes;
        if (kl_dtype_is_float(part) && same_element(part, element, nan, 0)) element = nan;
        for (size_t b = 0; b < bytes; b++) sum = (sum ^ element[b]) * UINT64_C(0x100000001b3);
    }
    printf("bits %s %s %s %016llx\n", kl_cpu_variant_name(variant), name,
           kl_dtype_name((enum kl_dtype)a->t.dtype), (unsigned long long)sum);
}

static void compare(const struct call *c, enum kl_dtype dtype) {
    struct kl_array *in[2] = {special_bits(dtype, 2, dims, 1), special_bits(dtype, 2, dims, 77)};
    if (c->kind == BINARY && other_binaries[c->which].build == kl_matmul) {
        struct kl_array *t;
        EXPECT_OK(kl_transpose(&t, in[1], cpu(), &err));
        kl_array_release(in[1]);
        in[1] = t;
    }
    void *first = NULL;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        struct kl_array *out = NULL;
        struct kl_error *err = NULL;
        kl_cpu_use_variant(v);
        if (build(c, in, &out, &err)) { /* the builder does not take this dtype */
            assert_int_equal(err->code, KL_EDTYPE);
            kl_error_release(err);
            break;
        }
        void *got = values_of(out);
        char name[100];
        snprintf(name, sizeof name, "%s of %s, axis %d, gives", c->name, kl_dtype_name(dtype),
                 c->axis);
        say_bits(name, out, got, v);
        for (int64_t i = 0; first && i < out->t.size; i++)
            if (!same_element((enum kl_dtype)out->t.dtype, first, got, i))
                fail_msg("%s of %s: element %lld differs between %s and %s", c->name,
                         kl_dtype_name(dtype), (long long)i, kl_cpu_variant_name(0),
                         kl_cpu_variant_name(v));
        if (first)
            free(got);
        else
            first = got;
        n_compared++;
        kl_array_release(out);
        /* The base variant rounds products twice, since not every CPU has a fused multiply-add.
         * Tile registers and BFMMLA add in another order. */
#ifdef __aarch64__
        static const char other[] = "bf16";
#else
        static const char other[] = "amx";
#endif
        bool before_other =
            v + 1 < kl_cpu_n_variants() && strcmp(kl_cpu_variant_name(v + 1), other) == 0;
        if (multiplies_matrices(c) && (v == 0 || (before_other && dtype == KL_BF16))) {
            free(first);
            first = NULL;
        }
    }
    free(first);
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    kl_array_release(in[0]);
    kl_array_release(in[1]);
}

#define EACH(table, KIND, AXIS)                                  \
    for (size_t k = 0; k < sizeof(table) / sizeof *(table); k++) \
        for (int d = 0; d < KL_N_DTYPES; d++)                    \
    compare(&(struct call){KIND, (int)k, AXIS, (table)[k].name}, (enum kl_dtype)d)

static void elementwise(void **state) {
    for (int k = 0; k < N_OPERATIONS; k++)
        for (int d = 0; d < KL_N_DTYPES; d++)
            compare(&(struct call){ELEMENTWISE, k, 0, operation_name(k)}, (enum kl_dtype)d);
}
static void others(void **state) {
    EACH(other_unaries, UNARY, 0);
    EACH(other_binaries, BINARY, 0);
}
static void reduced(void **state) {
    EACH(reductions, REDUCTION, 0);
    EACH(reductions, REDUCTION, 1);
}

/* Softmax and norms of rows with lengths near those of vectors and runs, contiguous and strided,
 * have the same bits in every variant and layout. */
static void along_rows(void **state) {
    enum { ROWS = 3, WAYS = 4 };
    static const int lengths[] = {1, 7, 31, 32, 33, 63, 64, 65, 95, 100, 600, 2047, 2049, 8193};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    for (size_t k = 0; k < 4 * sizeof lengths / sizeof *lengths; k++) {
        const int n = lengths[k / 4];
        const enum kl_dtype dtype = dtypes[k % 4];
        float *v = malloc((size_t)(ROWS * n) * sizeof *v);
        for (int i = 0; i < ROWS * n; i++) {
            /* The second row reaches from 0 to numbers whose exponentials are denormal, and
             * further. The third row has an infinity. */
            v[i] = (float)(i * 37 % 101 - 50) / 16;
            if (i / n == 1) v[i] *= 40;
            if (i == ROWS * n - 1 && n > 1) v[i] = -INFINITY;
        }
        struct kl_array *f = array_of(KL_F32, SHAPE(ROWS, n), v), *w, *b, *x[2], *t, *transposed;
        free(v);
        EXPECT_OK(kl_astype(&x[0], f, (int)dtype, cpu(), &err));
        EXPECT_OK(kl_transpose(&t, x[0], cpu(), &err));
        EXPECT_OK(kl_copy(&transposed, t, cpu(), &err));
        EXPECT_OK(kl_transpose(&x[1], transposed, cpu(), &err));
        struct kl_array *index[2] = {scalar_of(KL_I32, 0), scalar_of(KL_I32, 1)};
        EXPECT_OK(kl_take_axis(&w, x[0], index[0], 0, cpu(), &err));
        EXPECT_OK(kl_take_axis(&b, x[0], index[1], 0, cpu(), &err));
        for (int way = 0; way < WAYS; way++) {
            void *first = NULL;
            for (int run = 0; run < 2 * kl_cpu_n_variants(); run++) {
                struct kl_array *out, *in = x[run % 2];
                kl_cpu_use_variant(run / 2);
                if (way == 0)
                    EXPECT_OK(kl_softmax_axis(&out, in, 1, true, cpu(), &err));
                else if (way == 1)
                    EXPECT_OK(kl_rms_norm(&out, in, w, 1e-3f, cpu(), &err));
                else
                    EXPECT_OK(kl_layer_norm(&out, in, way == 2 ? w : NULL, b, 1e-3f, cpu(), &err));
                void *got = values_of(out);
                char name[100];
                snprintf(name, sizeof name, "way %d of %s, length %d, layout %d, gives", way,
                         kl_dtype_name(dtype), n, run % 2);
                say_bits(name, out, got, run / 2);
                for (int64_t i = 0; first && i < out->t.size; i++)
                    if (!same_element(dtype, first, got, i))
                        fail_msg("%s, length %d, way %d: element %lld differs in %s, layout %d",
                                 kl_dtype_name(dtype), n, way, (long long)i,
                                 kl_cpu_variant_name(run / 2), run % 2);
                if (first)
                    free(got);
                else
                    first = got;
                n_compared++;
                kl_array_release(out);
            }
            free(first);
        }
        struct kl_array *made[] = {f, x[0], t, transposed, x[1], w, b, index[0], index[1]};
        for (int i = 0; i < 9; i++) kl_array_release(made[i]);
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

/* The variant that KEEL_CPU names is used. For unknown names, and for variants that the CPU does
 * not have, the widest is used. */
static void chosen(void **state) {
    int widest = kl_cpu_n_variants() - 1;
    static const char *const given[] = {"base", "v9", ""};
    /* Builds of tests for one machine alone have no base. */
    const int base = strcmp(kl_cpu_variant_name(0), "base") == 0 ? 0 : widest;
    for (int i = 0; i < 3; i++) {
        setenv("KEEL_CPU", given[i], 1);
        kl_cpu_use_variant(-1);
        assert_int_equal(kl_cpu_variant(), i == 0 ? base : widest);
    }
    for (int v = 0; v <= widest; v++) {
        setenv("KEEL_CPU", kl_cpu_variant_name(v), 1);
        kl_cpu_use_variant(-1);
        assert_int_equal(kl_cpu_variant(), v);
    }
    unsetenv("KEEL_CPU");
    kl_cpu_use_variant(-1);
    assert_int_equal(kl_cpu_variant(), widest);
    printf("%d variants, %d results\n", widest + 1, n_compared);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise), cmocka_unit_test(others),
                                       cmocka_unit_test(reduced), cmocka_unit_test(along_rows),
                                       cmocka_unit_test(chosen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
