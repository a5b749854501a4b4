/* product_hadamard.c - the Hadamard transform of the last axis. The matrix of n = f1 * f2 * ... is
 * the Kronecker product of the matrices of the factors. So each factor is a matrix product with a
 * small matrix along an axis of its own; every device has matrix products, and they have a
 * gradient. */
#include <math.h>

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

enum { MAX_RADIX = 32, MAX_FACTORS = 16 };

/* The places of -1 in the matrices whose sizes are not powers of two: bit j of row i. The matrix of
 * 12 is symmetric; those of 20 and 28 consist of circulant parts. */
static const uint32_t minus_12[12] = {0x2,   0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba,
                                      0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a};
static const uint32_t minus_20[20] = {0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2,
                                      0x8d764, 0x1aee8, 0x359f0, 0xfa53,  0x174a7, 0x26d4e, 0x45e9c,
                                      0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36};
static const uint32_t minus_28[28] = {
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f,
    0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1,
    0x87fb325, 0xff66ca,  0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2,
    0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c};

static bool is_minus(int n, int i, int j) {
    switch (n) {
    case 12: return minus_12[i] >> j & 1;
    case 20: return minus_20[i] >> j & 1;
    case 28: return minus_28[i] >> j & 1;
    default: return __builtin_parity((unsigned)(i & j)); /* a power of two: Sylvester's matrix */
    }
}

static int matrix(struct kl_array **out, int n, enum kl_dtype dtype, struct kl_stream *s,
                  struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    float v[MAX_RADIX * MAX_RADIX];
    const int dims[2] = {n, n};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) v[i * n + j] = is_minus(n, i, j) ? -1.0f : 1.0f;
    struct kl_array *m = KL_TERM(&t, kl_array_new_data(&t.made, v, KL_F32, 2, dims, err));
    m = KL_TERM(&t, kl_cast_to(&t.made, m, dtype, s, err));
    return kl_terms_end(&t, m, out);
}

/* Splits n into factors for each of which there is a matrix; a factor that is not a power of two
 * comes first. Returns 0 when n has no such factors. */
static int factors(int *f, int n) {
    static const int bases[] = {1, 12, 20, 28};
    for (int k = 0; k < 4; k++) {
        int rest = n % bases[k] ? 0 : n / bases[k], count = 0;
        if (rest == 0 || (rest & (rest - 1))) continue;
        if (bases[k] > 1) f[count++] = bases[k];
        for (; rest > MAX_RADIX; rest /= MAX_RADIX) f[count++] = MAX_RADIX;
        if (rest > 1 || count == 0) f[count++] = rest;
        return count;
    }
    return 0;
}

/* x, of shape (before, f, after), transformed along the middle axis. */
static int transform(struct kl_array **out, struct kl_array *x, int before, int f, int after,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *m = KL_TERM(&t, matrix(&t.made, f, (enum kl_dtype)x->t.dtype, s, err));
    const int dims[3] = {before, f, after};
    struct kl_array *y = KL_TERM(&t, kl_reshape_to(&t.made, x, after == 1 ? 2 : 3, dims, s, err));
    if (after == 1) { /* one matrix product instead of many products of a matrix and a column */
        m = KL_TERM(&t, kl_transpose(&t.made, m, s, err));
        y = KL_TERM(&t, kl_matmul(&t.made, y, m, s, err));
    } else {
        y = KL_TERM(&t, kl_matmul(&t.made, m, y, s, err));
    }
    return kl_terms_end(&t, y, out);
}

int kl_hadamard_transform(struct kl_array **out, struct kl_array *a, const float *scale,
                          struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(HADAMARD, a, scale != NULL, scale ? (double)*scale : 0.0);
    struct kl_terms t = kl_terms_begin(s, err);
    int f[MAX_FACTORS], n_factors;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    if (a->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "complex64 is not taken; real numbers are");
    int n = a->t.ndim ? a->t.dims[a->t.ndim - 1] : 1;
    if (a->t.size == 0)
        return kl_fail(err, KL_ESHAPE, "shape %s has no elements", KL_SHAPE_TEXT_OF(a));
    if (!(n_factors = factors(f, n)))
        return kl_fail(err, KL_ESHAPE,
                       "the last axis has %d elements; m * 2^k with m one of 1, 12, 20, 28 are "
                       "possible",
                       n);
    if (a->t.size / f[n_factors - 1] > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "%lld elements are too many", (long long)a->t.size);
    /* a matrix of one element and the factor 1 change nothing, as in MLX */
    if (n == 1 && (!scale || *scale == 1)) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    enum kl_dtype dtype = kl_dtype_is_float(a->t.dtype) ? (enum kl_dtype)a->t.dtype : KL_F32;
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    int before = (int)(a->t.size / n), after = n;
    struct kl_array *x = KL_TERM(&t, kl_cast_to(&t.made, a, wide, s, err));
    for (int k = 0; k < n_factors; k++) {
        after /= f[k];
        if (f[k] > 1) x = KL_TERM(&t, transform(&t.made, x, before, f[k], after, s, err));
        before *= f[k];
    }
    struct kl_array *factor =
        KL_TERM(&t, kl_array_new_scalar(&t.made, scale ? (double)*scale : 1 / sqrt(n), wide, err));
    x = KL_TERM(&t, kl_multiply(&t.made, x, factor, s, err));
    x = KL_TERM(&t, kl_cast_to(&t.made, x, dtype, s, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, a->t.ndim, a->t.dims, s, err));
    return kl_terms_end(&t, x, out);
}
