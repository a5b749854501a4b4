/* Every variant of the CPU's kernels gives the same bits: each operation on random bits and special values, of every dtype that it takes. A builder that is not in these
 * tables is not tested here, so a new one gets its line. */
#include "helpers.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"

/* DEPENDS copies: of an operand that somebody else has, in another order. */
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

/* A factor of b b', b being where a is negative (kl_random_multivariate_normal); the same numbers of the same key for every variant. */
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

static int rounded(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_round(out, a, -1, s, err);
}
static int from_fp8(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_from_fp8(out, a, KL_F16, s, err);
}
static int close_to(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    return kl_isclose(out, a, b, 0.5, 1, true, s, err);
}

#define NAMED(f) \
    { #f, f }
static const struct {
    const char *name;
    kl_unary_fn *build;
} unaries[] = {
    NAMED(kl_negative),
    NAMED(kl_abs),
    NAMED(kl_exp),
    NAMED(kl_log),
    NAMED(kl_sqrt),
    NAMED(kl_square),
    NAMED(kl_erfinv),
    NAMED(kl_logical_not),
    NAMED(kl_sort),
    NAMED(kl_argsort),
    NAMED(depends_on_itself),
    NAMED(multivariate_normal),
    NAMED(kl_sin),
    NAMED(kl_cos),
    NAMED(kl_tan),
    NAMED(kl_arcsin),
    NAMED(kl_arccos),
    NAMED(kl_arctan),
    NAMED(kl_sinh),
    NAMED(kl_cosh),
    NAMED(kl_tanh),
    NAMED(kl_arcsinh),
    NAMED(kl_arccosh),
    NAMED(kl_arctanh),
    NAMED(kl_expm1),
    NAMED(kl_log1p),
    NAMED(kl_log2),
    NAMED(kl_log10),
    NAMED(kl_rsqrt),
    NAMED(kl_reciprocal),
    NAMED(kl_sigmoid),
    NAMED(kl_erf),
    NAMED(kl_degrees),
    NAMED(kl_radians),
    NAMED(kl_floor),
    NAMED(kl_ceil),
    NAMED(kl_sign),
    NAMED(kl_conjugate),
    NAMED(kl_real),
    NAMED(kl_imag),
    NAMED(kl_bitwise_invert),
    NAMED(kl_to_fp8),
    NAMED(kl_isnan),
    NAMED(kl_isinf),
    NAMED(kl_isfinite),
    NAMED(kl_isposinf),
    NAMED(kl_isneginf),
    NAMED(rounded),
    NAMED(from_fp8),
};
static const struct {
    const char *name;
    kl_binary_fn *build;
} binaries[] = {
    NAMED(kl_add),         NAMED(kl_subtract),    NAMED(kl_multiply),   NAMED(kl_divide),
    NAMED(kl_maximum),     NAMED(kl_minimum),     NAMED(kl_equal),      NAMED(kl_not_equal),
    NAMED(kl_less),        NAMED(kl_less_equal),  NAMED(kl_greater),    NAMED(kl_greater_equal),
    NAMED(kl_logical_and), NAMED(kl_logical_or),  NAMED(kl_matmul),     NAMED(kl_inner),
    NAMED(kl_arctan2),     NAMED(kl_logaddexp),   NAMED(kl_power),      NAMED(kl_floor_divide),
    NAMED(kl_remainder),   NAMED(kl_bitwise_and), NAMED(kl_bitwise_or), NAMED(kl_bitwise_xor),
    NAMED(kl_left_shift),  NAMED(kl_right_shift), NAMED(close_to),
};
/* Other operations along an axis, as reductions; keepdims means reversed for a scan. */
#define ALONG(name, call)                                                               \
    static int name(struct kl_array **out, struct kl_array *a, int axis, bool keepdims, \
                    struct kl_stream *s, struct kl_error **err) {                       \
        return call;                                                                    \
    }
ALONG(var_axis, kl_var_axis(out, a, axis, keepdims, 1, s, err))
ALONG(std_axis, kl_std_axis(out, a, axis, keepdims, 0, s, err))
ALONG(median_axis, kl_median_axes(out, a, &axis, 1, keepdims, s, err))
ALONG(partition_axis, kl_partition_axis(out, a, 17, axis, s, err))
ALONG(topk_axis, kl_topk_axis(out, a, 9, axis, s, err))
ALONG(cumsum_axis, kl_cumsum(out, a, axis, keepdims, true, s, err))
ALONG(cumprod_axis, kl_cumprod(out, a, axis, keepdims, true, s, err))
ALONG(cummax_axis, kl_cummax(out, a, axis, keepdims, true, s, err))
ALONG(cummin_axis, kl_cummin(out, a, axis, keepdims, true, s, err))
ALONG(logcumsumexp_axis, kl_logcumsumexp(out, a, axis, keepdims, true, s, err))
ALONG(rms_norm_axis, kl_rms_norm(out, a, NULL, 1e-5f, s, err))
ALONG(layer_norm_axis, kl_layer_norm(out, a, NULL, NULL, 1e-5f, s, err))
static int rope_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_array *three, *offset = scalar_of(KL_I32, 5);
    int rc = kl_expand_dims(&three, a, 0, s, err);
    if (rc == KL_OK) {
        rc = kl_rope(out, three, 40, axis, (struct kl_rope_base){true, 100}, 1, offset, NULL, s,
                     err);
        kl_array_release(three);
    }
    kl_array_release(offset);
    return rc;
}
static const struct {
    const char *name;
    kl_reduce_axis_fn *build;
} reductions[] = {
    NAMED(kl_sum_axis),       NAMED(kl_mean_axis),   NAMED(kl_max_axis),       NAMED(kl_min_axis),
    NAMED(kl_argmax_axis),    NAMED(kl_argmin_axis), NAMED(kl_softmax_axis),   NAMED(kl_prod_axis),
    NAMED(kl_all_axis),       NAMED(kl_any_axis),    NAMED(kl_logsumexp_axis), NAMED(var_axis),
    NAMED(std_axis),          NAMED(median_axis),    NAMED(partition_axis),    NAMED(topk_axis),
    NAMED(cumsum_axis),       NAMED(cumprod_axis),   NAMED(cummax_axis),       NAMED(cummin_axis),
    NAMED(logcumsumexp_axis), NAMED(rms_norm_axis),  NAMED(layer_norm_axis),   NAMED(rope_axis),
};

enum { N = 37 * 41 }; /* several vectors of any width, and a ragged end */
static const int dims[] = {37, 41};

/* Random bits, of floats half of them of moderate size, and special values. */
static struct kl_array *operand_of(enum kl_dtype dtype, uint32_t seed) {
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, 3.4e38f, 88.7f, -104.0f};
    size_t bytes = N * kl_dtype_size(dtype);
    unsigned char *v = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = dtype == KL_BOOL ? seed >> 31 : (unsigned char)(seed >> 24);
    }
    for (size_t i = 0; i < N && (kl_dtype_is_float(dtype) || dtype == KL_C64); i += 2) {
        float x = (float)((int)i - N / 2) / 64.0f;
        if (i % 16 == 0) x = special[i / 16 % (sizeof special / sizeof *special)];
        if (i == 34) x = INFINITY;
        if (i == 36) x = -INFINITY;
        uint16_t half = kl_f32_to_f16(x), brain = kl_f32_to_bf16(x);
        if (dtype == KL_F16) memcpy(v + 2 * i, &half, 2);
        if (dtype == KL_BF16) memcpy(v + 2 * i, &brain, 2);
        if (dtype == KL_F32) memcpy(v + 4 * i, &x, 4);
        if (dtype == KL_F64) memcpy(v + 8 * i, &(double){x}, 8);
        if (dtype == KL_C64) memcpy(v + 8 * i, (float[]){x, x / 3}, 8);
    }
    struct kl_array *a = array_of(dtype, 2, dims, v);
    free(v);
    return a;
}

/* Equal bits, or both NaN: which NaN an operation gives depends on the order of its operands in the instruction. */
static bool same(enum kl_dtype dtype, const void *x, const void *y, int64_t i) {
    size_t bytes = kl_dtype_size(dtype);
    const char *a = (const char *)x + (size_t)i * bytes, *b = (const char *)y + (size_t)i * bytes;
    if (memcmp(a, b, bytes) == 0) return true;
    float f[2];
    double d[2];
    uint16_t h[2];
    switch (dtype) {
    case KL_F16:
    case KL_BF16:
        memcpy(&h[0], a, 2), memcpy(&h[1], b, 2);
        if (dtype == KL_F16) return isnan(kl_f16_to_f32(h[0])) && isnan(kl_f16_to_f32(h[1]));
        return isnan(kl_bf16_to_f32(h[0])) && isnan(kl_bf16_to_f32(h[1]));
    case KL_F32: memcpy(&f[0], a, 4), memcpy(&f[1], b, 4); return isnan(f[0]) && isnan(f[1]);
    case KL_F64: memcpy(&d[0], a, 8), memcpy(&d[1], b, 8); return isnan(d[0]) && isnan(d[1]);
    case KL_C64:
        for (int part = 0; part < 2; part++) {
            memcpy(&f[0], a + 4 * part, 4), memcpy(&f[1], b + 4 * part, 4);
            if (memcmp(&f[0], &f[1], 4) != 0 && !(isnan(f[0]) && isnan(f[1]))) return false;
        }
        return true;
    default: return false;
    }
}

enum kind { UNARY, BINARY, REDUCTION, CAST };
struct call {
    enum kind kind;
    int which, axis;
    const char *name;
};

static int build(const struct call *c, struct kl_array *const *in, struct kl_array **out,
                 struct kl_error **err) {
    switch (c->kind) {
    case UNARY: return unaries[c->which].build(out, in[0], cpu(), err);
    case BINARY: return binaries[c->which].build(out, in[0], in[1], cpu(), err);
    case REDUCTION: return reductions[c->which].build(out, in[0], c->axis, false, cpu(), err);
    default: return kl_astype(out, in[0], c->which, cpu(), err);
    }
}

static bool multiplies_matrices(const struct call *c) {
    return strcmp(c->name, "kl_matmul") == 0 || strcmp(c->name, "kl_inner") == 0 ||
           strcmp(c->name, "multivariate_normal") == 0;
}

static int n_compared;

static void compare(const struct call *c, enum kl_dtype dtype) {
    struct kl_array *in[2] = {operand_of(dtype, 1), operand_of(dtype, 77)};
    if (c->kind == BINARY && binaries[c->which].build == kl_matmul) {
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
        if (build(c, in, &out, &err)) { /* this dtype is not taken */
            assert_int_equal(err->code, KL_EDTYPE);
            kl_error_release(err);
            break;
        }
        void *got = values_of(out);
        for (int64_t i = 0; first && i < out->t.size; i++)
            if (!same((enum kl_dtype)out->t.dtype, first, got, i))
                fail_msg("%s of %s: element %lld differs between %s and %s", c->name,
                         kl_dtype_name(dtype), (long long)i, kl_cpu_variant_name(0),
                         kl_cpu_variant_name(v));
        if (first)
            free(got);
        else
            first = got;
        n_compared++;
        kl_array_release(out);
        /* Without a fused multiply-add for every CPU, products round twice where the others round once; tile registers add in another order. */
        bool before_amx =
            v + 1 < kl_cpu_n_variants() && strcmp(kl_cpu_variant_name(v + 1), "amx") == 0;
        if (multiplies_matrices(c) && (v == 0 || (before_amx && dtype == KL_BF16))) {
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

static void unary(void **state) {
    EACH(unaries, UNARY, 0);
}
static void binary(void **state) {
    EACH(binaries, BINARY, 0);
}
static void reduced(void **state) {
    EACH(reductions, REDUCTION, 0);
    EACH(reductions, REDUCTION, 1);
}
static void casts(void **state) {
    for (int to = 0; to < KL_N_DTYPES; to++)
        for (int d = 0; d < KL_N_DTYPES; d++)
            compare(&(struct call){CAST, to, 0, "astype"}, (enum kl_dtype)d);
}

/* The name that KEEL_CPU gives is used; names of wider ones than the CPU has, and unknown ones, mean the widest. */
static void chosen(void **state) {
    int widest = kl_cpu_n_variants() - 1;
    static const char *const given[] = {"base", "v9", ""};
    for (int i = 0; i < 3; i++) {
        setenv("KEEL_CPU", given[i], 1);
        kl_cpu_use_variant(-1);
        assert_int_equal(kl_cpu_variant(), i == 0 ? 0 : widest);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(unary), cmocka_unit_test(binary),
                                       cmocka_unit_test(reduced), cmocka_unit_test(casts),
                                       cmocka_unit_test(chosen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
