/* quantized_support.h - for tests of quantized matrices: random operands, quantized or as float64,
 * and a comparison. */
#pragma once
#include "ops/support/helpers.h"

#include "ops/quantized.h"

enum { GROUPS = 8 };

static inline struct kl_array *as(enum kl_dtype dtype, struct kl_array *a /* taken */) {
    struct kl_array *out;
    EXPECT_OK(kl_astype(&out, a, (int)dtype, cpu(), &err));
    kl_array_release(a);
    return out;
}

static inline int quantize(struct kl_array **outs, struct kl_array *w,
                           const struct kl_quant_format *f, struct kl_array *scale) {
    int n = 0;
    outs[2] = NULL;
    EXPECT_OK(kl_quantize(outs, &n, w, f, scale, cpu(), &err));
    return n;
}

static inline void release(struct kl_array **a, int n) {
    for (int i = 0; i < n; i++) kl_array_release(a[i]);
}

static inline struct kl_array *random_of(enum kl_dtype dtype, int ndim, const int *dims,
                                         uint32_t seed) {
    int64_t n;
    assert_true(kl_shape_size(ndim, dims, 8, &n));
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(int32_t)seed * 0x1p-30f + 0.125f;
    }
    struct kl_array *a = array_of(KL_F32, ndim, dims, v);
    free(v);
    return as(dtype, a);
}

static inline double *doubles_of(struct kl_array *a) {
    struct kl_array *d;
    EXPECT_OK(kl_astype(&d, a, KL_F64, cpu(), &err));
    double *v = values_of(d);
    kl_array_release(d);
    return v;
}

static inline void near(struct kl_array *out, const double *want, double allowed,
                        const char *what) {
    double *v = doubles_of(out);
    for (int64_t i = 0; i < out->t.size; i++)
        if (!(fabs(v[i] - want[i]) <= allowed * fmax(1, fabs(want[i]))) &&
            !(isnan(v[i]) && isnan(want[i])))
            fail_msg("%s of %s: element %lld is %.9g, not %.9g", what,
                     kl_dtype_name((enum kl_dtype)out->t.dtype), (long long)i, v[i], want[i]);
    free(v);
}
