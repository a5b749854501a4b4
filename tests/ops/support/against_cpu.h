/* against_cpu.h - for tests that compare every operation on a real device (opencl, or what
 * KEEL_TEST_GPU names) with the CPU: random arrays of every dtype and layout, and the comparison.
 * Integers, extremes, selections and moves must be equal bit for bit; float functions within a few
 * units in the last place. */
#pragma once
#include <math.h>
#include <stdlib.h>

#include "graph/graph_support.h"
#include "backend/gpu/lower/kernel_cache.h"
#include "base/number/half.h"
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"
#include "ulp.h"

static uint64_t rng = 12345;

static inline uint32_t draw(void) {
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static inline int open_device(void **state) {
    setenv("KEEL_TEST_GPU", "opencl", 0);
    return open_streams(state);
}

static const enum kl_dtype all_dtypes[] = {KL_BOOL, KL_U8,  KL_U16,  KL_U32, KL_U64,
                                           KL_I8,   KL_I16, KL_I32,  KL_I64, KL_F16,
                                           KL_F32,  KL_F64, KL_BF16, KL_C64};

/* A random value, sometimes a special one, as float64. */
static inline double value(enum kl_dtype t) {
    static const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5, 65504, 1e-7};
    if (t == KL_BOOL) return draw() % 2;
    if (kl_dtype_is_int(t)) {
        int bits = (int)kl_dtype_size(t) * 8 - 1;
        double x = ldexp((double)draw() / 4294967296.0, bits > 40 ? 40 : bits);
        if (draw() % 3 == 0) x = draw() % 5;
        return kl_dtype_is_signed(t) && draw() % 2 ? -floor(x) : floor(x);
    }
    if (draw() % 12 == 0) return special[draw() % 10];
    return ((double)draw() / 4294967296.0 - 0.5) * (draw() % 2 ? 4 : 60);
}

static inline struct kl_array *random_array(enum kl_dtype t, int ndim, const int *dims) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= dims[i];
    struct kl_array *x = NULL, *y = NULL;
    if (t == KL_C64) {
        float *v = malloc((size_t)(2 * n + 1) * sizeof *v);
        for (int64_t i = 0; i < 2 * n; i++) v[i] = (float)value(KL_F32);
        OK(kl_array_new_data(&x, v, t, ndim, dims, &err));
        free(v);
        return x;
    }
    if (t == KL_F64 || (kl_dtype_is_int(t) && kl_dtype_size(t) == 8)) {
        union {
            double d;
            int64_t i;
        } *v = malloc((size_t)(n + 1) * sizeof *v);
        for (int64_t i = 0; i < n; i++) {
            double d = value(t);
            if (t == KL_F64)
                v[i].d = d;
            else
                v[i].i = (int64_t)d;
        }
        OK(kl_array_new_data(&x, v, t, ndim, dims, &err));
        free(v);
        return x;
    }
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)value(t);
    OK(kl_array_new_data(&x, v, KL_F32, ndim, dims, &err));
    free(v);
    OK(kl_astype(&y, x, t, cpu_stream, &err));
    kl_array_release(x);
    void *p;
    OK(kl_array_host(y, &p, &err));
    return y;
}

/* An array with layout 0: row-major; 1: transposed; 2: broadcast along the first axis; 3: every
 * second element, reversed. */
static inline struct kl_array *laid_out(enum kl_dtype t, int layout, int rows, int cols) {
    int dims[2] = {rows, cols}, transposed[2] = {cols, rows}, one[2] = {1, cols},
        twice[2] = {rows, 2 * cols};
    struct kl_array *x, *y;
    if (layout == 0) return random_array(t, 2, dims);
    if (layout == 1) {
        x = random_array(t, 2, transposed);
        OK(kl_transpose(&y, x, cpu_stream, &err));
    } else if (layout == 2) {
        x = random_array(t, 2, one);
        OK(kl_broadcast_to(&y, x, dims, 2, cpu_stream, &err));
    } else {
        x = random_array(t, 2, twice);
        int start[2] = {0, 2 * cols - 1}, stop[2] = {rows, -2 * cols - 1}, step[2] = {1, -2};
        OK(kl_slice(&y, x, start, 2, stop, 2, step, 2, cpu_stream, &err));
    }
    kl_array_release(x);
    return y;
}

/* Small numbers: no NaN, no infinity. */
static inline struct kl_array *plain(enum kl_dtype t, int layout, int rows, int cols) {
    struct kl_array *x = laid_out(KL_I8, layout, rows, cols), *y, *z, *s;
    OK(kl_astype(&y, x, t, cpu_stream, &err));
    OK(kl_array_new_scalar(&s, 64, t, &err));
    OK(kl_divide(&z, y, s, cpu_stream, &err));
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(s);
    return z;
}

static inline struct kl_array *indices(enum kl_dtype t, int ndim, const int *dims, int below,
                                       bool distinct) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= dims[i];
    int *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        v[i] = distinct ? (int)(i * 7 % below) : (int)(draw() % (unsigned)below);
        if (kl_dtype_is_signed(t) && draw() % 2) v[i] -= below;
    }
    struct kl_array *x, *y;
    OK(kl_array_new_data(&x, v, KL_I32, ndim, dims, &err));
    free(v);
    OK(kl_astype(&y, x, t, cpu_stream, &err));
    kl_array_release(x);
    return y;
}

/* ---- comparing ---- */

static inline double as_double(enum kl_dtype t, const char *p) {
    switch (t) {
    case KL_F16: return kl_f16_to_f32(*(const uint16_t *)p);
    case KL_BF16: return kl_bf16_to_f32(*(const uint16_t *)p);
    case KL_F32: return *(const float *)p;
    case KL_F64: return *(const double *)p;
    default: return 0;
    }
}

/* Further units for each unit by which the result's logarithm differs from 0. This is the effect of
 * the argument's rounding error on an exponential. */
static double ulps_per_log;

static inline bool close_enough(enum kl_dtype t, const char *a, const char *b, double ulps,
                                double scale) {
    double x = as_double(t, a), y = as_double(t, b);
    if (x != x || y != y) return x != x && y != y;
    if (x == y) return true;
    double most = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
    if (ulps_per_log > 0 && most > 0) ulps += ulps_per_log * fabs(log(most));
    if (scale > most) most = scale;
    return fabs(x - y) <= ulps * kl_test_epsilon(t) * most + 1e-37;
}

/* Both must agree; evaluates and releases both. With ulps 0 their bits must be equal, or both
 * NaN. */
static inline void same(struct kl_array *want, struct kl_array *got, double ulps, double scale,
                        const char *what) {
    void *p, *q;
    struct kl_array *w, *g;
    if (refused_for_f64(got)) {
        kl_array_release(want);
        kl_array_release(got);
        return;
    }
    OK(kl_contiguous(&w, want, false, cpu_stream, &err));
    OK(kl_contiguous(&g, got, false, gpu_stream, &err));
    OK(kl_array_host(w, &p, &err));
    struct kl_error *e = NULL;
    if (kl_array_host(g, &q, &e)) fail_msg("%s: %s", what, e ? e->message : "no message");
    assert_int_equal(w->t.size, g->t.size);
    assert_int_equal(w->t.dtype, g->t.dtype);
    enum kl_dtype t = w->t.dtype, part = t == KL_C64 ? KL_F32 : t;
    size_t item = kl_dtype_size(part);
    int64_t n = w->t.size * (t == KL_C64 ? 2 : 1);
    for (int64_t i = 0; i < n; i++) {
        const char *a = (const char *)p + i * (int64_t)item,
                   *b = (const char *)q + i * (int64_t)item;
        if (memcmp(a, b, item) == 0) continue;
        /* A complex number with a NaN part is NaN. Which NaN, and its other part, are open. */
        if (t == KL_C64) {
            const float *x = (const float *)p + i / 2 * 2, *y = (const float *)q + i / 2 * 2;
            if ((x[0] != x[0] || x[1] != x[1]) && (y[0] != y[0] || y[1] != y[1])) continue;
        }
        if (kl_dtype_is_float(part) && close_enough(part, a, b, ulps, scale) &&
            (ulps > 0 || as_double(part, a) != as_double(part, a)))
            continue;
        uint64_t x = 0, y = 0;
        memcpy(&x, a, item);
        memcpy(&y, b, item);
        fail_msg("%s, %s: element %lld is %llx (%.9g), on the CPU %llx (%.9g)", what,
                 kl_dtype_name(t), (long long)i, (unsigned long long)y, as_double(part, b),
                 (unsigned long long)x, as_double(part, a));
    }
    kl_array_release(w);
    kl_array_release(g);
    kl_array_release(want);
    kl_array_release(got);
}

/* Results that are evaluated together, so that the device makes one kernel for some of them. */
enum { TOGETHER = 4 };
static struct {
    struct kl_array *want, *got;
    double ulps, scale;
    const char *what;
} later[TOGETHER];
static int n_later;

static inline void compare_now(void) {
    struct kl_array *all[TOGETHER];
    int n = 0;
    for (int i = 0; i < n_later && !device_lacks_f64(); i++) all[n++] = later[i].got;
    if (n > 0) OK(kl_eval(all, (size_t)n, &err));
    for (int i = 0; i < n_later; i++)
        same(later[i].want, later[i].got, later[i].ulps, later[i].scale, later[i].what);
    n_later = 0;
}

static inline void compare(struct kl_array *want, struct kl_array *got, double ulps, double scale,
                           const char *what) {
    later[n_later].want = want;
    later[n_later].got = got;
    /* Without float64 complex functions are computed in float32 (docs/numerics.md). */
    const bool rough = want->t.dtype == KL_C64 && device_lacks_f64();
    if (rough && strcmp(what, "sign") == 0) ulps = 2; /* a quotient by the absolute value */
    later[n_later].ulps = rough ? ulps * 1024 : ulps;
    later[n_later].scale = scale;
    later[n_later++].what = what;
    if (n_later == TOGETHER) compare_now();
}

/* PoCL takes a fifth of a second to compile the kernels for each dtype. So, unless KEEL_TEST_FULL
 * is set, one in `one_in` cases runs; of those, a sample runs where kernels are sampled. */
static inline bool skipped(size_t number, size_t one_in) {
    static int full = -1;
    if (full < 0) full = getenv("KEEL_TEST_FULL") != NULL;
    return !full && (number % one_in != 0 || !kl_test_takes("kernels", 3));
}

/* ---- the program ---- */

static inline void choose_tests(void) {
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
}

static inline int with_programs(int failed) {
    printf("%llu programs compiled, %llu found\n", (unsigned long long)kl_kernel_cache_compiled(),
           (unsigned long long)kl_kernel_cache_found());
    return failed;
}
