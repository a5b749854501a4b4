/* test_on_gpu.c - every operation on a real device (KEEL_TEST_GPU: opencl unless set; cuda) against
 * the CPU: dtypes, layouts, special values, faults. Integers, extremes, selections and moves must
 * be equal bit for bit; float functions within a few units in the last place. */
#include <math.h>
#include <stdlib.h>

#include "graph/graph_support.h"
#include "backend/gpu/lower/kernel_cache.h"
#include "base/number/half.h"
#include "ops/ops.h"
#include "ops/support/no_f64.h"
#include "ops/support/ok.h"
#include "ops/quantized.h"
#include "ulp.h"

static struct kl_stream *cpu_stream, *gpu_stream;
static uint64_t rng = 12345;

static uint32_t draw(void) {
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", want ? want : "opencl", 1);
    struct kl_error *e = NULL;
    if (kl_stream_new(&gpu_stream, KL_GPU, 0, &e)) {
        print_error("%s\n", e ? e->message : "no device");
        return -1;
    }
    return kl_stream_new(&cpu_stream, KL_CPU, 0, NULL);
}

static const enum kl_dtype all_dtypes[] = {KL_BOOL, KL_U8,  KL_U16,  KL_U32, KL_U64,
                                           KL_I8,   KL_I16, KL_I32,  KL_I64, KL_F16,
                                           KL_F32,  KL_F64, KL_BF16, KL_C64};

/* A random value, sometimes a special one, as float64. */
static double value(enum kl_dtype t) {
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

static struct kl_array *random_array(enum kl_dtype t, int ndim, const int *dims) {
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
static struct kl_array *laid_out(enum kl_dtype t, int layout, int rows, int cols) {
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

static struct kl_array *indices(enum kl_dtype t, int ndim, const int *dims, int below,
                                bool distinct);

/* ---- comparing ---- */

static double as_double(enum kl_dtype t, const char *p) {
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

static bool close_enough(enum kl_dtype t, const char *a, const char *b, double ulps, double scale) {
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
static void same(struct kl_array *want, struct kl_array *got, double ulps, double scale,
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

static void compare_now(void) {
    struct kl_array *all[TOGETHER];
    int n = 0;
    for (int i = 0; i < n_later && !device_lacks_f64(); i++) all[n++] = later[i].got;
    if (n > 0) OK(kl_eval(all, (size_t)n, &err));
    for (int i = 0; i < n_later; i++)
        same(later[i].want, later[i].got, later[i].ulps, later[i].scale, later[i].what);
    n_later = 0;
}

static void compare(struct kl_array *want, struct kl_array *got, double ulps, double scale,
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
static bool skipped(size_t number, size_t one_in) {
    static int full = -1;
    if (full < 0) full = getenv("KEEL_TEST_FULL") != NULL;
    return !full && (number % one_in != 0 || !kl_test_takes("kernels", 3));
}

/* ---- element-wise ---- */

typedef int unary_fn(struct kl_array **, struct kl_array *, struct kl_stream *, struct kl_error **);
typedef int binary_fn(struct kl_array **, struct kl_array *, struct kl_array *, struct kl_stream *,
                      struct kl_error **);

static int round_whole(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                       struct kl_error **err) {
    return kl_round(out, a, 0, s, err);
}
static int round_to_2(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    return kl_round(out, a, 2, s, err);
}
static int round_to_tens(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                         struct kl_error **err) {
    return kl_round(out, a, -1, s, err);
}
static int from_fp8(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_from_fp8(out, a, KL_BF16, s, err);
}
static int nan_to_num(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    return kl_nan_to_num(out, a, 1, NULL, NULL, s, err);
}
static int close_to(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    return kl_isclose(out, a, b, 0.5, 1, true, s, err);
}

static const struct {
    const char *name;
    unary_fn *fn;
    double ulps;
} unaries[] = {{"negative", kl_negative, 0},
               {"abs", kl_abs, 0},
               {"square", kl_square, 0},
               {"sqrt", kl_sqrt, 0},
               {"exp", kl_exp, 4},
               {"log", kl_log, 4},
               {"logical_not", kl_logical_not, 0}};
/* Every element-wise function: the rows of op_list.def with their errors on devices, and the
 * composed functions. ulps holds for float32; the error of complex64 is set below. */
static const struct {
    const char *name;
    unary_fn *fn;
    double ulps;
} functions[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, ...) \
    {#name, builder, device},
#include "base/op/op_list.def"
    {"reciprocal", kl_reciprocal, 1}, {"degrees", kl_degrees, 0},   {"radians", kl_radians, 0},
    {"round", round_whole, 0},        {"round 2", round_to_2, 0},   {"round -1", round_to_tens, 0},
    {"from_fp8", from_fp8, 0},        {"isnan", kl_isnan, 0},       {"isinf", kl_isinf, 0},
    {"isfinite", kl_isfinite, 0},     {"isposinf", kl_isposinf, 0}, {"isneginf", kl_isneginf, 0},
    {"nan_to_num", nan_to_num, 0}};
static const struct {
    const char *name;
    binary_fn *fn;
    double ulps;
} functions_of_two[] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, ...) \
    {#name, builder, device},
#include "base/op/op_list.def"
    {"silu_mul", kl_silu_mul, 8}, {"isclose", close_to, 0}};
/* Functions that are exact for real numbers but round more than once for complex64. */
static bool rounds_complex(const char *name) {
    static const char *const names[] = {"abs", "square", "sqrt", "divide"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}
static const struct {
    const char *name;
    binary_fn *fn;
    double ulps;
} binaries[] = {{"add", kl_add, 0},
                {"subtract", kl_subtract, 0},
                {"multiply", kl_multiply, 0},
                {"divide", kl_divide, 0},
                {"maximum", kl_maximum, 0},
                {"minimum", kl_minimum, 0},
                {"equal", kl_equal, 0},
                {"not_equal", kl_not_equal, 0},
                {"less", kl_less, 0},
                {"less_equal", kl_less_equal, 0},
                {"greater", kl_greater, 0},
                {"greater_equal", kl_greater_equal, 0},
                {"logical_and", kl_logical_and, 0},
                {"logical_or", kl_logical_or, 0}};
enum { N_UNARY = sizeof unaries / sizeof *unaries, N_BINARY = sizeof binaries / sizeof *binaries };

static void unary_operations(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int layout = 0; layout < 4; layout++) {
            if (skipped(d + (size_t)layout, 4)) continue;
            struct kl_array *x = laid_out(all_dtypes[d], layout, 7, 37), *a, *b;
            for (int k = 0; k < N_UNARY; k++) {
                struct kl_error *e = NULL;
                /* The function does not take this dtype. */
                if (unaries[k].fn(&a, x, cpu_stream, &e)) {
                    kl_error_release(e);
                    continue;
                }
                OK(unaries[k].fn(&b, x, gpu_stream, &err));
                double ulps = unaries[k].ulps;
                if (all_dtypes[d] == KL_C64 && ulps == 0 && (k == 1 || k == 3)) ulps = 4;
                if (all_dtypes[d] == KL_C64 && k == 2) ulps = 2;
                compare(a, b, ulps, all_dtypes[d] == KL_C64 ? 1 : 0, unaries[k].name);
            }
            compare_now();
            kl_array_release(x);
        }
}

static void binary_operations(void **state) {
    for (size_t d = 0; d < 14; d++) {
        int l0 = (int)(d % 4), l1 = (int)(d / 2 % 4);
        struct kl_array *x = laid_out(all_dtypes[d], l0, 9, 29),
                        *y = laid_out(all_dtypes[d], l1, 9, 29), *a, *b;
        for (int k = 0; k < N_BINARY; k++) {
            if (!kl_test_takes("kernels", 3)) continue;
            struct kl_error *e = NULL;
            if (binaries[k].fn(&a, x, y, cpu_stream, &e)) {
                kl_error_release(e);
                continue;
            }
            OK(binaries[k].fn(&b, x, y, gpu_stream, &err));
            compare(a, b, all_dtypes[d] == KL_C64 && k == 3 ? 2 : 0, 0, binaries[k].name);
        }
        compare_now();
        kl_array_release(x);
        kl_array_release(y);
    }
}

/* Complex numbers of moderate size. At infinities the CPU's functions follow C, while a device's
 * follow the formulas. */
static struct kl_array *moderate(struct kl_array *x) {
    struct kl_array *zero, *finite, *y;
    OK(kl_array_new_scalar(&zero, 0.5, KL_C64, &err));
    OK(kl_isfinite(&finite, x, cpu_stream, &err));
    OK(kl_where(&y, finite, x, zero, cpu_stream, &err));
    OK(kl_eval(&y, 1, &err));
    kl_array_release(zero);
    kl_array_release(finite);
    kl_array_release(x);
    return y;
}

static void more_functions(void **state) {
    enum {
        N_ONE = sizeof functions / sizeof *functions,
        N_TWO = sizeof functions_of_two / sizeof *functions_of_two
    };
    for (size_t d = 0; d < 14; d++) {
        enum kl_dtype t = all_dtypes[d];
        bool sample = t == KL_U8 || t == KL_I32 || t == KL_F16 || t == KL_F32 || t == KL_C64;
        if (!sample && skipped(1, 2)) continue;
        struct kl_array *x = laid_out(t, (int)(d % 4), 7, 37),
                        *y = laid_out(t, (int)(d / 2 % 4), 7, 37), *a, *b;
        if (t == KL_C64) {
            x = moderate(x);
            y = moderate(y);
        }
        for (int k = 0; k < N_ONE + N_TWO; k++) {
            if (!kl_test_takes("kernels", 3)) continue;
            bool one = k < N_ONE;
            struct kl_error *e = NULL;
            const char *name = one ? functions[k].name : functions_of_two[k - N_ONE].name;
            double ulps = one ? functions[k].ulps : functions_of_two[k - N_ONE].ulps;
            if (one ? functions[k].fn(&a, x, cpu_stream, &e)
                    : functions_of_two[k - N_ONE].fn(&a, x, y, cpu_stream, &e)) {
                kl_error_release(e);
                continue;
            }
            if (one)
                OK(functions[k].fn(&b, x, gpu_stream, &err));
            else
                OK(functions_of_two[k - N_ONE].fn(&b, x, y, gpu_stream, &err));
            if (t == KL_C64 && rounds_complex(name)) ulps = 4;
            if (t == KL_C64 && a->t.dtype == KL_C64 && ulps > 0) ulps = 16;
            if (kl_dtype_is_int(a->t.dtype)) ulps = 0;
            /* The result of logaddexp near 0 is a small difference of its operands, so its error is
             * that of the operands. */
            bool small = strcmp(name, "logaddexp") == 0 || a->t.dtype == KL_C64;
            compare(a, b, ulps, small ? 1 : 0, name);
        }
        compare_now();
        kl_array_release(x);
        kl_array_release(y);
    }
}

static void choices(void **state) {
    for (size_t d = 0; d < 14; d++) {
        if (skipped(d, 2)) continue;
        struct kl_array *c = laid_out(KL_BOOL, (int)(d % 4), 5, 33),
                        *x = laid_out(all_dtypes[d], (int)((d + 1) % 4), 5, 33),
                        *y = laid_out(all_dtypes[d], (int)((d + 2) % 4), 5, 33), *a, *b;
        OK(kl_where(&a, c, x, y, cpu_stream, &err));
        OK(kl_where(&b, c, x, y, gpu_stream, &err));
        same(a, b, 0, 0, "where");
        kl_array_release(c);
        kl_array_release(x);
        kl_array_release(y);
    }
}

static void casts(void **state) {
    for (size_t from = 0; from < 14; from++) {
        struct kl_array *x = laid_out(all_dtypes[from], 0, 8, 64);
        for (size_t to = 0; to < 14; to++) {
            struct kl_array *a, *b;
            OK(kl_astype(&a, x, all_dtypes[to], cpu_stream, &err));
            OK(kl_astype(&b, x, all_dtypes[to], gpu_stream, &err));
            compare(a, b, 0, 0, kl_dtype_name(all_dtypes[from]));
        }
        compare_now();
        kl_array_release(x);
    }
}

static void copies(void **state) {
    static const int shapes[][2] = {{1, 1}, {3, 5}, {64, 64}, {33, 70}, {100, 17}};
    for (size_t d = 0; d < 14; d += 3)
        for (size_t s = 0; s < 5; s++)
            for (int layout = 0; layout < 4; layout++) {
                struct kl_array *x = laid_out(all_dtypes[d], layout, shapes[s][0], shapes[s][1]),
                                *a, *b;
                OK(kl_copy(&a, x, cpu_stream, &err));
                OK(kl_copy(&b, x, gpu_stream, &err));
                same(a, b, 0, 0, "copy");
                kl_array_release(x);
            }
    /* An array of many axes, no two of which can be merged. */
    int dims[10] = {2, 3, 2, 2, 2, 3, 2, 2, 2, 3}, perm[10] = {9, 0, 8, 1, 7, 2, 6, 3, 5, 4};
    struct kl_array *x = random_array(KL_I32, 10, dims), *t, *a, *b;
    OK(kl_transpose_axes(&t, x, perm, 10, cpu_stream, &err));
    OK(kl_copy(&a, t, cpu_stream, &err));
    OK(kl_copy(&b, t, gpu_stream, &err));
    same(a, b, 0, 0, "copy of ten axes");
    OK(kl_add(&a, t, t, cpu_stream, &err));
    OK(kl_add(&b, t, t, gpu_stream, &err));
    same(a, b, 0, 0, "add of ten axes");
    kl_array_release(x);
    kl_array_release(t);
}

/* A chain becomes one kernel. Its values must equal those of the steps run one by one. */
static void fused_chains(void **state) {
    for (int round = 0; round < (skipped(1, 2) ? 9 : 60); round++) {
        enum kl_dtype t = round % 3 == 0 ? KL_F16 : round % 3 == 1 ? KL_F32 : KL_I32;
        struct kl_array *x[2][6];
        for (int k = 0; k < 3; k++) {
            x[0][k] = laid_out(t, (round + k) % 4, 11, 24);
            x[1][k] = kl_array_retain(x[0][k]);
        }
        struct kl_array *out[2];
        uint64_t start = rng;
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            rng = start;
            struct kl_array *v = kl_array_retain(x[dev][0]), *kept = NULL;
            for (int step = 0; step < 8; step++) {
                struct kl_array *next;
                struct kl_array *other = draw() % 3 == 0 && kept ? kept : x[dev][draw() % 3];
                switch (draw() % 8) {
                case 6: OK(kl_remainder(&next, v, other, s, &err)); break;
                case 7: OK(kl_floor_divide(&next, other, v, s, &err)); break;
                case 0: OK(kl_add(&next, v, other, s, &err)); break;
                case 1: OK(kl_subtract(&next, other, v, s, &err)); break;
                case 2: OK(kl_multiply(&next, v, other, s, &err)); break;
                case 3: OK(kl_maximum(&next, v, other, s, &err)); break;
                case 4: OK(kl_negative(&next, v, s, &err)); break;
                default: {
                    struct kl_array *c;
                    OK(kl_less(&c, v, other, s, &err));
                    OK(kl_where(&next, c, v, other, s, &err));
                    kl_array_release(c);
                }
                }
                if (draw() % 4 == 0) { /* has another owner, so it must be stored */
                    kl_array_release(kept);
                    kept = kl_array_retain(next);
                }
                kl_array_release(v);
                v = next;
            }
            if (kept) {
                OK(kl_add(&out[dev], v, kept, s, &err));
                kl_array_release(kept);
                kl_array_release(v);
            } else {
                out[dev] = v;
            }
        }
        same(out[0], out[1], 0, 0, "chain");
        for (int k = 0; k < 3; k++) {
            kl_array_release(x[0][k]);
            kl_array_release(x[1][k]);
        }
    }
}

/* In large arrays each work-item computes several elements. The elements behind the last whole
 * group are computed one by one. */
static void large_arrays(void **state) {
    for (int with_tail = 0; with_tail < 2; with_tail++) {
        int n = (1 << 22) + (1 << 20) + (with_tail ? 7 : 0), rows = 40000, cols = 128,
            dims[2] = {rows, cols};
        struct kl_array *x, *y, *a[3], *b[3];
        OK(kl_arange(&x, 0, n, 1, KL_F32, cpu_stream, &err));
        OK(kl_arange(&y, 5, n + 5, 1, KL_F32, cpu_stream, &err));
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            struct kl_array **r = dev ? b : a, *t;
            OK(kl_add(&r[0], x, y, s, &err));
            OK(kl_copy(&r[1], x, s, &err));
            OK(kl_multiply(&t, x, y, s, &err));
            OK(kl_subtract(&r[2], t, x, s, &err));
            kl_array_release(t);
        }
        for (int k = 0; k < 3; k++) same(a[k], b[k], 0, 0, "large");
        kl_array_release(x);
        kl_array_release(y);
        struct kl_array *from = random_array(KL_F32, 2, dims), *at, *u, *r[4];
        int many = 40000 + with_tail, shape[3] = {many, 1, cols};
        at = indices(KL_I32, 1, &many, rows, false);
        OK(kl_take_axis(&r[0], from, at, 0, cpu_stream, &err));
        OK(kl_take_axis(&r[1], from, at, 0, gpu_stream, &err));
        kl_array_release(at);
        same(r[0], r[1], 0, 0, "large gather");
        many = rows - with_tail;
        shape[0] = many;
        u = random_array(KL_F32, 3, shape);
        /* 7 and 40,000 have no common divisor, so no index occurs twice. */
        at = indices(KL_I32, 1, &many, rows, true);
        OK(kl_scatter_single(&r[2], from, at, u, 0, cpu_stream, &err));
        OK(kl_scatter_single(&r[3], from, at, u, 0, gpu_stream, &err));
        same(r[2], r[3], 0, 0, "large scatter");
        kl_array_release(at);
        kl_array_release(u);
        kl_array_release(from);
    }
}

/* ---- made, moved ---- */

static void made_from_parameters(void **state) {
    for (size_t d = 1; d < 13; d++) {
        struct kl_array *a, *b;
        OK(kl_arange(&a, -3, 120, 1.5, all_dtypes[d], cpu_stream, &err));
        OK(kl_arange(&b, -3, 120, 1.5, all_dtypes[d], gpu_stream, &err));
        same(a, b, 0, 0, "arange");
    }
    struct kl_array *key;
    OK(kl_random_key(&key, 42, &err));
    static const int shapes[][2] = {{1, 1}, {3, 7}, {64, 33}, {1, 1000}};
    for (int w = 1; w <= 4; w *= 2)
        for (int s = 0; s < 4; s++) {
            struct kl_array *a, *b;
            OK(kl_random_bits(&a, shapes[s], 2, w, key, cpu_stream, &err));
            OK(kl_random_bits(&b, shapes[s], 2, w, key, gpu_stream, &err));
            same(a, b, 0, 0, "bits");
        }
    static const enum kl_dtype floats[] = {KL_F16, KL_F32, KL_BF16};
    for (int f = 0; f < 3; f++) {
        struct kl_array *a, *b, *lo, *hi;
        OK(kl_array_new_scalar(&lo, 0, KL_F32, &err));
        OK(kl_array_new_scalar(&hi, 3, KL_F32, &err));
        OK(kl_random_uniform(&a, lo, hi, shapes[2], 2, floats[f], key, cpu_stream, &err));
        OK(kl_random_uniform(&b, lo, hi, shapes[2], 2, floats[f], key, gpu_stream, &err));
        same(a, b, 0, 0, "uniform");
        OK(kl_random_normal(&a, shapes[2], 2, floats[f], 0, 1, key, cpu_stream, &err));
        OK(kl_random_normal(&b, shapes[2], 2, floats[f], 0, 1, key, gpu_stream, &err));
        same(a, b, 4, 0.1, "normal");
        kl_array_release(lo);
        kl_array_release(hi);
    }
    kl_array_release(key);
}

static void parts(void **state) {
    for (size_t d = 0; d < 14; d += 2) {
        struct kl_array *x = laid_out(all_dtypes[d], (int)(d / 2 % 4), 12, 30),
                        *u = laid_out(all_dtypes[d], (int)(d / 2 + 1) % 4, 4, 10), *a, *b;
        int start[2] = {1, 29}, stop[2] = {9, -31}, step[2] = {2, -3};
        OK(kl_slice_update(&a, x, u, start, 2, stop, 2, step, 2, cpu_stream, &err));
        OK(kl_slice_update(&b, x, u, start, 2, stop, 2, step, 2, gpu_stream, &err));
        same(a, b, 0, 0, "slice_update");
        struct kl_array *both[2] = {x, x};
        for (int axis = 0; axis < 2; axis++) {
            OK(kl_concatenate_axis(&a, both, 2, axis, cpu_stream, &err));
            OK(kl_concatenate_axis(&b, both, 2, axis, gpu_stream, &err));
            same(a, b, 0, 0, "concatenate");
        }
        kl_array_release(x);
        kl_array_release(u);
    }
}

/* ---- along axes ---- */

static void reductions(void **state) {
    static const struct {
        int rows, cols;
    } shapes[] = {{1, 1}, {5, 300}, {300, 5}, {3, 5000}, {70, 70}};
    for (size_t d = 0; d < 14; d++)
        for (size_t s = 0; s < 5; s++)
            for (int how = 0; how < 3; how++) {
                if (skipped(d, 3)) continue;
                struct kl_array *x =
                    laid_out(all_dtypes[d], (int)(draw() % 4), shapes[s].rows, shapes[s].cols);
                int axis = how;
                for (int op = 0; op < 3; op++) {
                    struct kl_array *a, *b;
                    struct kl_error *e = NULL;
                    int axes[2] = {0, 1};
                    const int *on = how == 2 ? axes : &axis;
                    size_t n = how == 2 ? 2 : 1;
                    int rc = op == 0   ? kl_sum_axes(&a, x, on, n, false, cpu_stream, &e)
                             : op == 1 ? kl_max_axes(&a, x, on, n, true, cpu_stream, &e)
                                       : kl_min_axes(&a, x, on, n, false, cpu_stream, &e);
                    if (rc) {
                        kl_error_release(e);
                        continue;
                    }
                    OK(op == 0   ? kl_sum_axes(&b, x, on, n, false, gpu_stream, &err)
                       : op == 1 ? kl_max_axes(&b, x, on, n, true, gpu_stream, &err)
                                 : kl_min_axes(&b, x, on, n, false, gpu_stream, &err));
                    same(a, b, op ? 0 : 4, op ? 0 : 30.0 * shapes[s].cols, op ? "extreme" : "sum");
                }
                struct kl_array *a, *b;
                struct kl_error *e = NULL;
                if (how < 2 && !kl_argmax_axis(&a, x, axis, false, cpu_stream, &e)) {
                    OK(kl_argmax_axis(&b, x, axis, false, gpu_stream, &err));
                    same(a, b, 0, 0, "argmax");
                    OK(kl_argmin_axis(&a, x, axis, false, cpu_stream, &err));
                    OK(kl_argmin_axis(&b, x, axis, false, gpu_stream, &err));
                    same(a, b, 0, 0, "argmin");
                }
                kl_error_release(e);
                kl_array_release(x);
            }
}

static struct kl_array *plain(enum kl_dtype t, int layout, int rows, int cols) {
    struct kl_array *x = laid_out(KL_I8, layout, rows, cols), *y, *z, *s; /* no NaN, no infinity */
    OK(kl_astype(&y, x, t, cpu_stream, &err));
    OK(kl_array_new_scalar(&s, 64, t, &err));
    OK(kl_divide(&z, y, s, cpu_stream, &err));
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(s);
    return z;
}

/* Of magnitude 0.98 to 1.02, also as complex numbers. */
static struct kl_array *near_one(enum kl_dtype t, int layout, int rows, int cols) {
    struct kl_array *x = plain(KL_F32, layout, rows, cols), *small, *close, *y;
    struct kl_array *per = NULL, *one = NULL;
    OK(kl_array_new_scalar(&per, 0.01, KL_F32, &err));
    OK(kl_array_new_scalar(&one, 1, KL_F32, &err));
    OK(kl_multiply(&small, x, per, cpu_stream, &err)); /* plain numbers are below 2 */
    OK(kl_add(&close, small, one, cpu_stream, &err));
    OK(kl_astype(&y, close, t, cpu_stream, &err));
    struct kl_array *all[] = {x, small, close, per, one};
    for (int k = 0; k < 5; k++) kl_array_release(all[k]);
    return y;
}

/* Products, of numbers near 1; truth values; logarithms of sums; variances. */
static int var_1(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return kl_var_axes(out, a, axes, axes_num, keepdims, 1, s, err);
}
static int std_0(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return kl_std_axes(out, a, axes, axes_num, keepdims, 0, s, err);
}
static const struct {
    const char *name;
    kl_reduce_axes_fn *fn;
    double ulps, scale; /* as for `same` */
} folds[] = {{"all", kl_all_axes, 0, 0},   {"any", kl_any_axes, 0, 0},
             {"prod", kl_prod_axes, 0, 0}, /* see below */ {"logsumexp", kl_logsumexp_axes, 32, 1},
             {"var", var_1, 64, 0},        {"std", std_0, 64, 0}};

static void more_reductions(void **state) {
    static const struct {
        int rows, cols;
    } shapes[] = {{1, 1}, {5, 300}, {300, 5}, {3, 5000}, {70, 70}, {0, 3}};
    static const int both[2] = {0, 1};
    for (size_t d = 0; d < 14; d++)
        for (size_t k = 0; k < sizeof folds / sizeof *folds; k++) {
            if (skipped(d + k, 3)) continue;
            for (size_t s = 0; s < 6; s++)
                for (int how = 0; how < 3; how++) {
                    enum kl_dtype t = all_dtypes[d];
                    int layout = (int)(draw() % 4);
                    /* of equal elements the CPU's mean may be off by a rounding, a device's not */
                    if (layout == 2 && (folds[k].fn == var_1 || folds[k].fn == std_0)) layout = 0;
                    struct kl_array *a, *b,
                        *x = laid_out(t, layout, shapes[s].rows, shapes[s].cols);
                    /* in some order infinite, in another not */
                    bool wide = kl_dtype_is_float(t) || t == KL_C64;
                    if (wide && folds[k].fn == kl_prod_axes) {
                        kl_array_release(x);
                        x = near_one(t, layout, shapes[s].rows, shapes[s].cols);
                    }
                    const int *on = how == 2 ? both : both + how;
                    const size_t n = how == 2 ? 2 : 1;
                    OK(folds[k].fn(&a, x, on, n, how == 1, cpu_stream, &err));
                    OK(folds[k].fn(&b, x, on, n, how == 1, gpu_stream, &err));
                    /* the CPU's exponentials of 16-bit floats are shorter; a complex sum may be
                     * smaller than its terms */
                    double ulps = folds[k].ulps, scale = folds[k].scale;
                    if (t == KL_C64 && folds[k].fn == kl_logsumexp_axes) ulps = 4096;
                    if (folds[k].fn == kl_prod_axes)
                        ulps = wide ? 4 + (double)(shapes[s].rows * shapes[s].cols) / 2 : 0;
                    same(a, b, ulps, scale, folds[k].name);
                    kl_array_release(x);
                }
        }
    /* What is made of them. */
    struct kl_array *x = laid_out(KL_F32, 0, 40, 50), *y = laid_out(KL_F32, 1, 40, 50), *a, *b;
    OK(kl_allclose(&a, x, x, 1e-5, 1e-8, true, cpu_stream, &err));
    OK(kl_allclose(&b, x, x, 1e-5, 1e-8, true, gpu_stream, &err));
    same(a, b, 0, 0, "allclose");
    OK(kl_array_equal(&a, x, y, true, cpu_stream, &err));
    OK(kl_array_equal(&b, x, y, true, gpu_stream, &err));
    same(a, b, 0, 0, "array_equal");
    kl_array_release(x);
    kl_array_release(y);
}

static void softmaxes(void **state) {
    static const enum kl_dtype floats[] = {KL_F16, KL_F32, KL_F64, KL_BF16};
    static const int cols[] = {1, 5, 300, 5000, 40000};
    ulps_per_log = 1;
    for (int f = 0; f < 4; f++)
        for (int c = 0; c < 5; c++)
            for (int axis = 0; axis < 2; axis++) {
                if (axis == 0 && c > 2) continue;
                struct kl_array *x = laid_out(floats[f], c % 4, 6, cols[c]), *a, *b;
                OK(kl_softmax_axis(&a, x, axis, false, cpu_stream, &err));
                OK(kl_softmax_axis(&b, x, axis, false, gpu_stream, &err));
                same(a, b, 16, 0, "softmax");
                kl_array_release(x);
            }
    ulps_per_log = 0;
}

static void sorts(void **state) {
    static const int cols[] = {1, 2, 33, 1000, 5000};
    for (size_t d = 0; d < 14; d++)
        for (int c = 0; c < 5; c++)
            for (int axis = 0; axis < 2; axis++) {
                if ((axis == 0 && c > 3) || skipped(d, 3)) continue;
                struct kl_array *x = laid_out(all_dtypes[d], (c + axis) % 4, 4, cols[c]), *a, *b;
                struct kl_error *e = NULL;
                if (kl_sort_axis(&a, x, axis, cpu_stream, &e)) {
                    kl_error_release(e);
                    kl_array_release(x);
                    continue;
                }
                OK(kl_sort_axis(&b, x, axis, gpu_stream, &err));
                same(a, b, 0, 0, "sort");
                OK(kl_argsort_axis(&a, x, axis, cpu_stream, &err));
                OK(kl_argsort_axis(&b, x, axis, gpu_stream, &err));
                same(a, b, 0, 0, "argsort");
                int n = axis ? cols[c] : 4, k = n / 3;
                OK(kl_topk_axis(&a, x, k, axis, cpu_stream, &err));
                OK(kl_topk_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "topk");
                OK(kl_sort_axis(&a, x, axis, cpu_stream, &err)); /* a device sorts it all */
                OK(kl_partition_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "partition");
                OK(kl_argsort_axis(&a, x, axis, cpu_stream, &err));
                OK(kl_argpartition_axis(&b, x, k, axis, gpu_stream, &err));
                same(a, b, 0, 0, "argpartition");
                kl_array_release(x);
            }
}

static void products(void **state) {
    static const enum kl_dtype types[] = {KL_F16, KL_F32, KL_F64, KL_BF16, KL_C64};
    static const int mnk[][3] = {{1, 1, 1},       {5, 7, 3},      {33, 65, 100},
                                 {130, 70, 257},  {1, 300, 64},   {300, 1, 64},
                                 {256, 192, 130}, {66, 1000, 40}, {1, 700, 640}};
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < 9; s++) {
            int m = mnk[s][0], n = mnk[s][1], k = mnk[s][2];
            struct kl_array *x = plain(types[t], s % 3 == 2 ? 3 : s % 2, m, k),
                            *y = plain(types[t], (s + t) % 2, k, n), *a, *b;
            OK(kl_matmul(&a, x, y, cpu_stream, &err));
            OK(kl_matmul(&b, x, y, gpu_stream, &err));
            same(a, b, 8, 4.0 * k / 4, "matmul");
            kl_array_release(x);
            kl_array_release(y);
        }
    /* A batch of both factors, or of the first one only; the second factor row-major or
     * transposed. */
    for (int t = 0; t < 5; t++)
        for (int way = 0; way < 4; way++) {
            int n = way & 1 ? 6 : 1, transposed = way >> 1;
            int xd[] = {6, 40, 72}, yd[] = {n, transposed ? 50 : 72, transposed ? 72 : 50};
            struct kl_array *x = plain(types[t], 0, 6 * 40, 72), *x3,
                            *y = plain(types[t], 0, n * yd[1], yd[2]), *y3, *y4, *a, *b;
            OK(kl_reshape(&x3, x, xd, 3, cpu_stream, &err));
            OK(kl_reshape(&y3, y, yd, 3, cpu_stream, &err));
            OK(kl_swapaxes(&y4, y3, 1, transposed ? 2 : 1, cpu_stream, &err));
            OK(kl_matmul(&a, x3, y4, cpu_stream, &err));
            OK(kl_matmul(&b, x3, y4, gpu_stream, &err));
            same(a, b, 8, 72, "batches of matmul");
            kl_array_release(x);
            kl_array_release(y);
            kl_array_release(x3);
            kl_array_release(y3);
            kl_array_release(y4);
        }
}

static void convolutions(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    const struct kl_convolution_params p[] = {
        {2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 1, {2, 1}, {0, 2}, {1, -1}, {1, 2}, {1, 2}},
        {2, 16, 0, {1, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    };
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 3; i++) {
            const int c = 16 / p[i].groups, o = i == 2 ? 16 : 38;
            struct kl_array *x = plain(types[t], i % 2, 2 * 9 * 11, 16), *x4,
                            *w = plain(types[t], i, o * 9, c), *w4, *a, *b;
            OK(kl_reshape(&x4, x, (int[]){2, 9, 11, 16}, 4, cpu_stream, &err));
            OK(kl_reshape(&w4, w, (int[]){o, 3, 3, c}, 4, cpu_stream, &err));
            OK(kl_convolution(&a, x4, w4, &p[i], cpu_stream, &err));
            OK(kl_convolution(&b, x4, w4, &p[i], gpu_stream, &err));
            same(a, b, 8, 9.0 * c, "convolution");
            kl_array_release(x);
            kl_array_release(x4);
            kl_array_release(w);
            kl_array_release(w4);
        }
}

static void chosen_products(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_BF16, KL_F16, KL_F64};
    static const int32_t lefts[] = {3, 0, 0, -1, 2, 1}, rights[] = {1, 2, 2, 0, -3, 1};
    static const uint32_t ends[] = {0, 9, 40, 40, 9, 70};
    struct kl_array *left, *right, *parts;
    OK(kl_array_new_data(&left, lefts, KL_I32, 1, (int[]){6}, &err));
    OK(kl_array_new_data(&right, rights, KL_I32, 1, (int[]){6}, &err));
    OK(kl_array_new_data(&parts, ends, KL_U32, 2, (int[]){3, 2}, &err));
    for (int t = 0; t < 4; t++)
        for (int way = 0; way < 4; way++) {
            const int m = way % 2 ? 70 : 1;
            struct kl_array *x = plain(types[t], way / 2, 4 * m, 70), *x3,
                            *y = plain(types[t], way / 2, 3 * 70, 45), *y3, *rows, *a, *b;
            OK(kl_reshape(&x3, x, (int[]){4, m, 70}, 3, cpu_stream, &err));
            OK(kl_reshape(&y3, y, (int[]){3, 70, 45}, 3, cpu_stream, &err));
            OK(kl_gather_mm(&a, x3, y3, left, right, cpu_stream, &err));
            OK(kl_gather_mm(&b, x3, y3, left, right, gpu_stream, &err));
            same(a, b, 8, 70, "gather_mm");
            OK(kl_slice(&rows, y, (int[]){0, 0}, 2, (int[]){70, 45}, 2, (int[]){1, 1}, 2,
                        cpu_stream, &err));
            OK(kl_segmented_mm(&a, x, rows, parts, cpu_stream, &err));
            OK(kl_segmented_mm(&b, x, rows, parts, gpu_stream, &err));
            same(a, b, 8, 70, "segmented_mm");
            kl_array_release(x);
            kl_array_release(x3);
            kl_array_release(y);
            kl_array_release(y3);
            kl_array_release(rows);
        }
    kl_array_release(left);
    kl_array_release(right);
    kl_array_release(parts);
}

/* ---- quantized matrices ---- */

static void quantized(void **state) {
    static const struct kl_quant_format formats[] = {
        {KL_QUANT_AFFINE, 64, 4}, {KL_QUANT_AFFINE, 32, 5}, {KL_QUANT_AFFINE, 64, 8},
        {KL_QUANT_MXFP4, 32, 4},  {KL_QUANT_MXFP8, 32, 8},  {KL_QUANT_NVFP4, 16, 4}};
    static const enum kl_dtype types[] = {KL_F16, KL_F32, KL_BF16};
    static const int rows[] = {1, 3, 20};
    for (int f = 0; f < 6; f++)
        for (int t = 0; t < 3; t++) {
            if (!kl_test_takes("kernels", 3)) continue;
            const struct kl_quant_format *how = &formats[f];
            struct kl_array *w = plain(types[t], t % 2, 40, 256), *q[3] = {NULL}, *g[3] = {NULL};
            struct kl_array *a, *b;
            int n;
            OK(kl_quantize(q, &n, w, how, NULL, cpu_stream, &err));
            OK(kl_quantize(g, &n, w, how, NULL, gpu_stream, &err));
            for (int i = 0; i < n; i++) same(kl_array_retain(q[i]), g[i], 0, 0, "quantize");
            OK(kl_dequantize(&a, q[0], q[1], q[2], how, NULL, NULL, cpu_stream, &err));
            OK(kl_dequantize(&b, q[0], q[1], q[2], how, NULL, NULL, gpu_stream, &err));
            same(a, b, 0, 0, "dequantize");
            for (int r = 0; r < 3; r++)
                for (int transpose = 0; transpose < 2; transpose++) {
                    const int k = transpose ? 256 : 40;
                    struct kl_array *x = plain(types[t], r % 2, rows[r], k);
                    OK(kl_quantized_matmul(&a, x, q[0], q[1], q[2], transpose, how, cpu_stream,
                                           &err));
                    OK(kl_quantized_matmul(&b, x, q[0], q[1], q[2], transpose, how, gpu_stream,
                                           &err));
                    same(a, b, 16, 4.0 * k, "quantized_matmul");
                    kl_array_release(x);
                }
            /* the same rows as 5 matrices, gathered; then with an index that is out of range */
            struct kl_array *parts[3] = {NULL}, *x = plain(types[t], 0, 2, 256), *x3, *index, *bad;
            for (int i = 0; i < n; i++) {
                const int dims[] = {5, 8, q[i]->t.dims[1]};
                OK(kl_reshape(&parts[i], q[i], dims, 3, cpu_stream, &err));
            }
            const int one[] = {1, 2, 256}, three = 3;
            OK(kl_reshape(&x3, x, one, 3, cpu_stream, &err));
            OK(kl_array_new_data(&index, (int32_t[]){4, 0, -2}, KL_I32, 1, &three, &err));
            OK(kl_array_new_data(&bad, (int32_t[]){4, 5, 0}, KL_I32, 1, &three, &err));
            OK(kl_gather_qmm(&a, x3, parts[0], parts[1], parts[2], NULL, index, true, how,
                             cpu_stream, &err));
            OK(kl_gather_qmm(&b, x3, parts[0], parts[1], parts[2], NULL, index, true, how,
                             gpu_stream, &err));
            same(a, b, 16, 1024, "gather_qmm");
            OK(kl_gather_qmm(&b, x3, parts[0], parts[1], parts[2], NULL, bad, true, how, gpu_stream,
                             &err));
            struct kl_error *why = NULL;
            assert_int_equal(kl_eval(&b, 1, &why), KL_EINDEX);
            assert_int_equal(why->position, 1);
            assert_int_equal(why->index, 5);
            kl_error_release(why);
            kl_array_release(b);
            struct kl_array *used[] = {w, x, x3, index, bad, parts[0], parts[1], parts[2]};
            for (int i = 0; i < 8; i++) kl_array_release(used[i]);
            for (int i = 0; i < n; i++) kl_array_release(q[i]);
        }
}

/* Compares the device's product with the CPU's, both as float32: within a rounding of each, and
 * `sum`, what float32 sums may differ by. Releases both. */
static void near_product(struct kl_array *want, struct kl_array *got, enum kl_dtype t, double sum,
                         const char *what) {
    struct kl_array *w, *g;
    void *p, *q;
    OK(kl_astype(&w, want, KL_F32, cpu_stream, &err));
    OK(kl_astype(&g, got, KL_F32, gpu_stream, &err));
    OK(kl_array_host(w, &p, &err));
    OK(kl_array_host(g, &q, &err));
    assert_int_equal(w->t.size, g->t.size);
    for (int64_t i = 0; i < w->t.size; i++) {
        const double a = ((float *)p)[i], b = ((float *)q)[i], bound = kl_test_epsilon(t) * fabs(a);
        if (a == b || fabs(a - b) <= bound + sum) continue;
        fail_msg("%s of %s: element %lld is %.9g, on the CPU %.9g (bound %g)", what,
                 kl_dtype_name(t), (long long)i, b, a, bound + sum);
    }
    kl_array_release(w);
    kl_array_release(g);
    kl_array_release(want);
    kl_array_release(got);
}

/* x of rows by cols: dense, transposed, the columns from 8 on or from 1 on of a wider array. */
static struct kl_array *rows_of_x(enum kl_dtype t, int how, int rows, int cols) {
    struct kl_array *wide, *x;
    if (how == 0) return plain(t, 0, rows, cols);
    if (how == 1) {
        wide = plain(t, 0, cols, rows);
        OK(kl_transpose(&x, wide, cpu_stream, &err));
        kl_array_release(wide);
        return x;
    }
    const int first = how == 2 ? 8 : 1;
    wide = plain(t, 0, rows, cols + 16);
    int start[2] = {0, first}, stop[2] = {rows, first + cols}, step[2] = {1, 1};
    OK(kl_slice(&x, wide, start, 2, stop, 2, step, 2, cpu_stream, &err));
    kl_array_release(wide);
    return x;
}

/* Every number of rows for which a device has kernels of its own, in every format that matrix units
 * take: with groups in several blocks or one, columns that do not fill a tile, batches, and every
 * layout of x. PoCL compiles for long, so there only a few. */
static void quantized_rows(void **state) {
    static const int bits[] = {4, 8, 2}, sizes[] = {64, 32, 128},
                     n_groups[] = {4, 1, 2, 20, 6, 3, 37}, cols[] = {37, 16, 130, 1};
    const bool cuda = strcmp(getenv("KEEL_GPU"), "cuda") == 0;
    for (int f = 0; f < 18; f++) {
        const enum kl_dtype t = f % 2 ? KL_F16 : KL_BF16;
        const struct kl_quant_format how = {KL_QUANT_AFFINE, sizes[f / 6], bits[f / 2 % 3]};
        if (!cuda && !kl_test_takes("kernels", 6)) continue;
        for (int m = 1; m <= 65; m += cuda ? 1 : 16) {
            const int groups = n_groups[(m + f) % 7], n = cols[(m + f) % 4],
                      k = groups * how.group_size, words = k * how.bits / 32;
            const int batches = m % 4 == 3 ? 3 : 1;
            char what[120];
            struct kl_array *flat[3], *in[3], *x2 = rows_of_x(t, m % 8 / 2, batches * m, k), *x, *a,
                                              *b;
            uint32_t *v = malloc((size_t)(batches * n * words) * sizeof *v);
            for (int i = 0; i < batches * n * words; i++) v[i] = draw() << 16 ^ draw();
            OK(kl_array_new_data(&flat[0], v, KL_U32, 2, (int[]){batches * n, words}, &err));
            free(v);
            flat[1] = plain(t, 0, batches * n, groups);
            flat[2] = plain(t, 0, batches * n, groups);
            for (int i = 0; i < 3; i++) {
                const int dims[] = {batches, n, flat[i]->t.dims[1]};
                OK(kl_reshape(&in[i], flat[i], batches > 1 ? dims : dims + 1, batches > 1 ? 3 : 2,
                              cpu_stream, &err));
            }
            const int dims[] = {batches, m, k};
            OK(kl_reshape(&x, x2, batches > 1 ? dims : dims + 1, batches > 1 ? 3 : 2, cpu_stream,
                          &err));
            snprintf(what, sizeof what, "%d bits, groups of %d: %d x %d x %d by %d", how.bits,
                     how.group_size, batches, m, k, n);
            /* Numbers of x, scales and biases are at most 2; an unpacked matrix is rounded. */
            const double top = 2.0 * (1 << how.bits), packed = 2.0 * k * top * 0x1p-22,
                         sum = packed +
                               (m > (cuda ? 64 : 8) ? kl_test_epsilon(t) * 2 * top * sqrt(k) : 0);
            OK(kl_quantized_matmul(&a, x, in[0], in[1], in[2], true, &how, cpu_stream, &err));
            OK(kl_quantized_matmul(&b, x, in[0], in[1], in[2], true, &how, gpu_stream, &err));
            near_product(a, b, t, sum, what);
            if (batches > 1) { /* the matrices in another order */
                struct kl_array *index;
                OK(kl_array_new_data(&index, (int32_t[]){2, 0, 1}, KL_I32, 1, (int[]){3}, &err));
                OK(kl_gather_qmm(&a, x, in[0], in[1], in[2], NULL, index, true, &how, cpu_stream,
                                 &err));
                OK(kl_gather_qmm(&b, x, in[0], in[1], in[2], NULL, index, true, &how, gpu_stream,
                                 &err));
                near_product(a, b, t, packed, what);
                kl_array_release(index);
            }
            for (int i = 0; i < 3; i++) {
                kl_array_release(flat[i]);
                kl_array_release(in[i]);
            }
            kl_array_release(x);
            kl_array_release(x2);
        }
    }
}

/* ---- indexed ---- */

static struct kl_array *indices(enum kl_dtype t, int ndim, const int *dims, int below,
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

static const enum kl_dtype index_types[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                            KL_I8, KL_I16, KL_I32, KL_I64};

static void gathers(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int layout = 0; layout < 4; layout++) {
            if (skipped(d + 3 * (size_t)layout, 4)) continue;
            enum kl_dtype it = index_types[(d + (size_t)layout) % 8];
            int n[2] = {6, 9}, along[2] = {13, 16};
            struct kl_array *x = laid_out(all_dtypes[d], layout, 13, 40),
                            *i = indices(it, 2, n, 13, false),
                            *j = indices(KL_I32, 1, n + 1, 40, false),
                            *k = indices(it, 2, along, 40, false), *a, *b;
            for (int axis = 0; axis < 2; axis++) {
                OK(kl_take_axis(&a, x, axis ? j : i, axis, cpu_stream, &err));
                OK(kl_take_axis(&b, x, axis ? j : i, axis, gpu_stream, &err));
                same(a, b, 0, 0, "take");
            }
            struct kl_array *two[2] = {i, j};
            int axes[2] = {0, 1}, sizes[2] = {1, 1};
            OK(kl_gather(&a, x, two, 2, axes, 2, sizes, 2, cpu_stream, &err));
            OK(kl_gather(&b, x, two, 2, axes, 2, sizes, 2, gpu_stream, &err));
            same(a, b, 0, 0, "gather");
            int only[1] = {0}, part[2] = {1, 8};
            OK(kl_gather(&a, x, two, 1, only, 1, part, 2, cpu_stream, &err));
            OK(kl_gather(&b, x, two, 1, only, 1, part, 2, gpu_stream, &err));
            same(a, b, 0, 0, "gather of parts");
            OK(kl_take_along_axis(&a, x, k, 1, cpu_stream, &err));
            OK(kl_take_along_axis(&b, x, k, 1, gpu_stream, &err));
            same(a, b, 0, 0, "take_along_axis");
            struct kl_array *all[] = {x, i, j, k};
            for (int m = 0; m < 4; m++) kl_array_release(all[m]);
        }
}

static kl_scatter_single_fn *const scatters[] = {kl_scatter_single, kl_scatter_add_single,
                                                 kl_scatter_prod_single, kl_scatter_max_single,
                                                 kl_scatter_min_single};

static void all_scatters(void **state) {
    for (size_t d = 0; d < 14; d++)
        for (int mode = 0; mode < 5; mode++) {
            if (skipped(d + (size_t)mode, 4)) continue;
            enum kl_dtype t = all_dtypes[d];
            int n = mode == 0 ? 13 : 50, u[3] = {n, 1, 20};
            struct kl_array *x = laid_out(t, mode % 4, 13, 20),
                            *i = indices(index_types[d % 8], 1, &n, 13, mode == 0),
                            *v = random_array(t, 3, u), *a, *b;
            if (kl_dtype_is_float(t) ||
                /* Sums and products have another order, so the numbers are small integers. */
                t == KL_C64) {
                struct kl_array *w = laid_out(KL_I8, 0, n, 20), *y, *small, *three;
                OK(kl_array_new_scalar(&three, 3, KL_I8, &err));
                OK(kl_minimum(&small, w, three, cpu_stream, &err));
                OK(kl_negative(&y, three, cpu_stream, &err));
                struct kl_array *floor3, *flat;
                OK(kl_maximum(&floor3, small, y, cpu_stream, &err));
                OK(kl_reshape(&flat, floor3, u, 3, cpu_stream, &err));
                struct kl_array *drop[] = {w, y, small, three, floor3};
                if (mode == 1 || mode == 2) {
                    kl_array_release(v);
                    OK(kl_astype(&v, flat, t, cpu_stream, &err));
                    kl_array_release(x);
                    x = plain(t, 0, 13, 20);
                }
                kl_array_release(flat);
                for (int m = 0; m < 5; m++) kl_array_release(drop[m]);
            }
            OK(scatters[mode](&a, x, i, v, 0, cpu_stream, &err));
            OK(scatters[mode](&b, x, i, v, 0, gpu_stream, &err));
            bool moves = mode == 0 || mode > 2 || !(kl_dtype_is_float(t) || t == KL_C64);
            same(a, b, moves ? 0 : 64, moves ? 0 : 8, "scatter");
            kl_array_release(x);
            kl_array_release(i);
            kl_array_release(v);
            int along[2] = {13, 4};
            x = laid_out(t, mode % 4, 13, 20);
            i = indices(KL_I64, 2, along, 20, true);
            v = random_array(t, 2, along);
            OK(kl_put_along_axis(&a, x, i, v, 1, cpu_stream, &err));
            OK(kl_put_along_axis(&b, x, i, v, 1, gpu_stream, &err));
            same(a, b, 0, 0, "put_along_axis");
            kl_array_release(x);
            kl_array_release(i);
            kl_array_release(v);
        }
}

/* ---- faults: the same report as the CPU's ---- */

static void faults(void **state) {
    for (int round = 0; round < 30; round++) {
        int n = 1 + (int)(draw() % 3000), bad = (int)(draw() % (unsigned)n), dims[2] = {20, 8};
        int *v = malloc((size_t)n * sizeof *v);
        for (int i = 0; i < n; i++) v[i] = (int)(draw() % 40) - 20;
        v[bad] = draw() % 2 ? 20 + (int)(draw() % 100) : -21 - (int)(draw() % 100);
        for (int i = bad + 1; i < n; i += 1 + (int)(draw() % 50)) v[i] = 500;
        struct kl_array *x = random_array(KL_F32, 2, dims), *i, *u, *r[2], *after[2];
        OK(kl_array_new_data(&i, v, KL_I32, 1, &n, &err));
        int shape[3] = {n, 1, 8};
        u = random_array(KL_F32, 3, shape);
        struct kl_error *e[2] = {NULL, NULL};
        for (int dev = 0; dev < 2; dev++) {
            struct kl_stream *s = dev ? gpu_stream : cpu_stream;
            if (round % 3 == 0)
                OK(kl_take_axis(&r[dev], x, i, 0, s, &err));
            else if (round % 3 == 1)
                OK(kl_scatter_add_single(&r[dev], x, i, u, 0, s, &err));
            else
                OK(kl_scatter_single(&r[dev], x, i, u, 0, s, &err));
            OK(kl_negative(&after[dev], r[dev], s, &err));
            assert_int_equal(kl_eval(&after[dev], 1, &e[dev]), KL_EINDEX);
        }
        assert_int_equal(e[0]->position, bad);
        assert_int_equal(e[1]->position, bad);
        assert_int_equal(e[1]->index, v[bad]);
        assert_int_equal(e[1]->axis, 0);
        assert_int_equal(e[1]->axis_size, 20);
        for (int dev = 0; dev < 2; dev++) {
            kl_error_release(e[dev]);
            kl_array_release(r[dev]);
            kl_array_release(after[dev]);
        }
        struct kl_array *good; /* other operations are not affected */
        OK(kl_negative(&good, x, gpu_stream, &err));
        OK(kl_eval(&good, 1, &err));
        kl_array_release(good);
        kl_array_release(x);
        kl_array_release(i);
        kl_array_release(u);
        free(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_operations),
        cmocka_unit_test(binary_operations),
        cmocka_unit_test(more_functions),
        cmocka_unit_test(choices),
        cmocka_unit_test(casts),
        cmocka_unit_test(copies),
        cmocka_unit_test(fused_chains),
        cmocka_unit_test(large_arrays),
        cmocka_unit_test(made_from_parameters),
        cmocka_unit_test(parts),
        cmocka_unit_test(gathers),
        cmocka_unit_test(all_scatters),
        cmocka_unit_test(faults),
        cmocka_unit_test(reductions),
        cmocka_unit_test(more_reductions),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(sorts),
        cmocka_unit_test(products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(chosen_products),
        cmocka_unit_test(quantized),
        cmocka_unit_test(quantized_rows),
    };
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
    int rc = cmocka_run_group_tests(tests, set_up, NULL);
    printf("%llu programs compiled, %llu found\n", (unsigned long long)kl_kernel_cache_compiled(),
           (unsigned long long)kl_kernel_cache_found());
    return rc;
}
