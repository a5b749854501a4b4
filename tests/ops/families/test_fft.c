/* test_fft.c - Fourier transforms against sums in double: all lengths up to 130 and selected ones,
 * all kinds, dtypes, layouts and norms; several axes; gradients; the same bits everywhere; the
 * cache of plans; bad arguments. */
#include "ops/support/vjp_support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/number/fft_plan.h"
#include "ops/fft.h"
#include "runtime/pool.h"

static uint64_t state = 1;
static double random_number(void) {
    return (double)(int32_t)(kl_test_random(&state) >> 32) * 0x1p-31;
}

/* Pairs of random numbers in dtype; re, im: the numbers as stored. */
static struct kl_array *random_array(enum kl_dtype dtype, int ndim, const int *dims,
                                     struct kl_root *z) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 16, &size));
    double *v = malloc((size_t)(size + 1) * 2 * sizeof *v);
    float *f = malloc((size_t)(size + 1) * 2 * sizeof *f);
    for (int64_t i = 0; i < size; i++) {
        z[i] = (struct kl_root){random_number(), dtype == KL_C64 ? random_number() : 0};
        v[i] = z[i].re;
        if (dtype == KL_F64) continue;
        z[i] = (struct kl_root){(float)z[i].re, (float)z[i].im};
        f[dtype == KL_C64 ? 2 * i : i] = (float)z[i].re;
        if (dtype == KL_C64) f[2 * i + 1] = (float)z[i].im;
    }
    struct kl_array *a = array_of(dtype, ndim, dims, dtype == KL_F64 ? (const void *)v : f);
    free(v);
    free(f);
    return a;
}

static bool to_real(enum kl_fft_kind kind) {
    return kind == KL_FFT_TO_REAL;
}
static bool is_back(enum kl_fft_kind kind) {
    return kind == KL_FFT_INVERSE || kind == KL_FFT_TO_REAL;
}
static int n_in_of(enum kl_fft_kind kind, int n) {
    return to_real(kind) ? n / 2 + 1 : n;
}
static int n_out_of(enum kl_fft_kind kind, int n) {
    return kind == KL_FFT_FROM_REAL ? n / 2 + 1 : n;
}

/* Result k of one line by its definition; x: the numbers of the line. Not divided. */
static struct kl_root by_definition(enum kl_fft_kind kind, int n, const struct kl_root *x,
                                    const struct kl_root *roots, int k) {
    struct kl_root sum = {0, 0};
    int64_t at = 0;
    for (int j = 0; j < n; j++) {
        struct kl_root v = x[to_real(kind) && j > n / 2 ? n - j : j], w = roots[at];
        if (to_real(kind) && j > n / 2) v.im = -v.im;
        if (to_real(kind) && (j == 0 || 2 * j == n)) v.im = 0;
        if (kind == KL_FFT_FROM_REAL) v.im = 0;
        if (is_back(kind)) w.im = -w.im;
        sum.re += v.re * w.re - v.im * w.im;
        sum.im += v.re * w.im + v.im * w.re;
        at += k;
        if (at >= n) at -= n;
    }
    if (to_real(kind)) sum.im = 0;
    return sum;
}

static bool is_prime_or_rough(int n) {
    return !kl_fft_is_smooth(n % 2 ? n : n / 2);
}
/* The largest relative L2 error. */
static double bound(int n) {
    return (is_prime_or_rough(n) ? 3e-7 : 1e-7) * sqrt(n > 2 ? log2(n) : 1);
}

/* Transforms of `lines` lines of length n, along the last axis or, if across, the first; `few`: how
 * many results of a line are compared. */
static void check_lines(enum kl_fft_kind kind, enum kl_dtype dtype, int n, int lines, bool across,
                        int few) {
    const int n_in = n_in_of(kind, n), n_out = n_out_of(kind, n);
    struct kl_root *x = malloc((size_t)n_in * (size_t)lines * sizeof *x);
    struct kl_root *roots = malloc((size_t)n * sizeof *roots);
    struct kl_array *a = random_array(dtype, SHAPE(lines, n_in), x), *out;
    double wrong = 0, all = 0;
    for (int k = 0; k < n; k++) roots[k] = kl_fft_root(k, n);
    if (across) {
        struct kl_array *t, *c;
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_copy(&c, t, cpu(), &err));
        kl_array_release(t);
        kl_array_release(a);
        a = c;
    }
    EXPECT_OK(kl_fftn(&out, a, kind, LIST(n), LIST(across ? 0 : 1), KL_FFT_BACKWARD, cpu(), &err));
    assert_int_equal(out->t.dtype, to_real(kind) ? KL_F32 : KL_C64);
    if (across) {
        struct kl_array *t;
        EXPECT_OK(kl_transpose(&t, out, cpu(), &err));
        kl_array_release(out);
        out = t;
    }
    expect_shape(out, SHAPE(lines, n_out));
    float *got = values_of(out);
    for (int l = 0; l < lines; l++)
        for (int i = 0; i < n_out; i++) {
            /* of longer lines, some results of some lines */
            if (n_out > few && (i * (int64_t)7919 % n_out >= few || l % 7)) continue;
            struct kl_root want = by_definition(kind, n, x + (size_t)l * (size_t)n_in, roots, i);
            const double by = is_back(kind) ? 1.0 / n : 1;
            const size_t at = (size_t)l * (size_t)n_out + (size_t)i;
            const double re = got[to_real(kind) ? at : 2 * at] - want.re * by,
                         im = to_real(kind) ? 0 : got[2 * at + 1] - want.im * by;
            wrong += re * re + im * im;
            all += (want.re * want.re + want.im * want.im) * by * by;
        }
    if (!(sqrt(wrong) <= bound(n) * sqrt(all)))
        fail_msg("kind %d of %s, %d lines of %d%s: the error is %g, more than %g", (int)kind,
                 kl_dtype_name(dtype), lines, n, across ? " across" : "", sqrt(wrong / all),
                 bound(n));
    free(got);
    free(x);
    free(roots);
    kl_array_release(a);
    kl_array_release(out);
}

static const enum kl_dtype dtypes[] = {KL_C64, KL_F32, KL_F64};

static void short_lengths(void **unused) {
    for (int n = 1; n <= 130; n++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int t = 0; t < 3; t++)
                for (int lines = 1; lines <= 37; lines += 36)
                    for (int across = 0; across < 2; across++) {
                        if (!kl_test_takes("cpu", 6)) continue;
                        check_lines((enum kl_fft_kind)kind, dtypes[t], n, lines, across, n);
                    }
}

static void long_lengths(void **unused) {
    static const int lengths[] = {160,   243,   256,   343,    360,    509,    512,   625,
                                  768,   1000,  1021,  1024,   1155,   1536,   1792,  2048,
                                  2187,  2310,  3840,  4093,   4096,   4099,   4100,  6561,
                                  8192,  10007, 8198,  15015,  16384,  16807,  30030, 46368,
                                  65536, 65537, 99999, 131072, 131074, 100003, 279936};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int t = 0; t < 3; t++)
                for (int many = 0; many < 2; many++) {
                    if (dtypes[t] == KL_F32 && lengths[i] % 256) continue;
                    if (many && lengths[i] > 5000 && lengths[i] != 8192) continue;
                    if (!kl_test_takes("cpu", 6)) continue;
                    check_lines((enum kl_fft_kind)kind, dtypes[t], lengths[i], many ? 19 : 2,
                                many && lengths[i] % 2, 20);
                }
}

/* A line of which one number is not finite says nothing of the other lines. */
static void lines_are_apart(void **unused) {
    static const int lengths[] = {6, 16, 53, 59, 100};
    enum { LINES = 21 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++) {
            const int n = lengths[i], n_in = n_in_of((enum kl_fft_kind)kind, n),
                      bad = 9 * n_in + n_in / 2;
            struct kl_root *z = malloc((size_t)(LINES * n_in) * sizeof *z);
            struct kl_array *a = random_array(KL_C64, SHAPE(LINES, n_in), z), *b, *out[2];
            float *v = values_of(a), *got[2];
            v[2 * bad] = (float)NAN;
            b = array_of(KL_C64, SHAPE(LINES, n_in), v);
            for (int k = 0; k < 2; k++) {
                EXPECT_OK(kl_fftn(&out[k], k ? b : a, (enum kl_fft_kind)kind, LIST(n), LIST(1),
                                  KL_FFT_ORTHO, cpu(), &err));
                got[k] = values_of(out[k]);
            }
            const int64_t row = vjp_parts(out[0]) / LINES;
            for (int64_t at = 0; at < LINES * row; at++) {
                if (at / row != 9)
                    assert_int_equal(kl_f32_bits(got[0][at]), kl_f32_bits(got[1][at]));
                else if (kind == KL_FFT_TO_REAL)
                    assert_true(isnan(got[1][at]));
            }
            for (int k = 0; k < 2; k++) {
                free(got[k]);
                kl_array_release(out[k]);
            }
            free(v);
            free(z);
            kl_array_release(a);
            kl_array_release(b);
        }
}

/* ---- several axes ---- */
/* The transform of a 3-d array by its definition, axis after axis, in double. dims: of x, which
 * becomes the result; it has room for 4096 numbers. */
static void all_by_definition(enum kl_fft_kind kind, struct kl_root *x, int dims[3], const int *n,
                              const int *axes, int n_axes) {
    static struct kl_root y[4096], line[64];
    struct kl_root roots[64];
    const int last = n_axes - 1;
    for (int i = 0; i < n_axes; i++) {
        /* the real axis is the first, or the last */
        const int k = kind == KL_FFT_FROM_REAL ? last - i : i, axis = axes[k];
        const bool real = k == last && kind >= KL_FFT_FROM_REAL;
        const enum kl_fft_kind as = real ? kind : is_back(kind) ? KL_FFT_INVERSE : KL_FFT_FORWARD;
        const int was = dims[axis], becomes = n_out_of(as, n[k]);
        int inner = 1, outer = 1;
        for (int d = 0; d < 3; d++) {
            if (d < axis) outer *= dims[d];
            if (d > axis) inner *= dims[d];
        }
        for (int j = 0; j < n[k]; j++) roots[j] = kl_fft_root(j, n[k]);
        for (int o = 0; o < outer; o++)
            for (int in = 0; in < inner; in++) {
                for (int j = 0; j < 64; j++)
                    line[j] = j < was && j < n_in_of(as, n[k]) ? x[(o * was + j) * inner + in]
                                                               : (struct kl_root){0, 0};
                for (int j = 0; j < becomes; j++)
                    y[(o * becomes + j) * inner + in] = by_definition(as, n[k], line, roots, j);
            }
        dims[axis] = becomes;
        memcpy(x, y, (size_t)(outer * becomes * inner) * sizeof *x);
    }
}

static void several_axes(void **unused) {
    static const struct {
        int n_axes, axes[3], n[3];
    } cases[] = {{2, {0, 1}, {5, 6}},
                 {2, {1, 0}, {6, 5}},
                 {2, {-1, -3}, {7, 4}},
                 {3, {0, 1, 2}, {5, 6, 7}},
                 {3, {2, 0, 1}, {9, 3, 8}},
                 {3, {1, 2, 0}, {1, 7, 1}},
                 {1, {1}, {13}},
                 {2, {0, 2}, {1, 1}},
                 {3, {-3, -2, -1}, {8, 2, 12}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int norm = 0; norm < 3; norm++)
                for (int t = 0; t < 3; t++)
                    for (int turned = 0; turned < 2; turned++) {
                        static struct kl_root x[4096];
                        int dims[3] = {5, 6, 7}, axes[3];
                        const size_t n_axes = (size_t)cases[i].n_axes;
                        double elements = 1, wrong = 0, all = 0, by = 1;
                        struct kl_array *a = random_array(dtypes[t], 3, dims, x), *out;
                        if (turned) a = strided(a);
                        for (size_t k = 0; k < n_axes; k++) {
                            axes[k] = (cases[i].axes[k] + 3) % 3;
                            elements *= cases[i].n[k];
                        }
                        EXPECT_OK(kl_fftn(&out, a, (enum kl_fft_kind)kind, cases[i].n, n_axes,
                                          cases[i].axes, n_axes, (enum kl_fft_norm)norm, cpu(),
                                          &err));
                        all_by_definition((enum kl_fft_kind)kind, x, dims, cases[i].n, axes,
                                          (int)n_axes);
                        if (norm == KL_FFT_ORTHO) by = 1 / sqrt(elements);
                        if (norm == (is_back((enum kl_fft_kind)kind) ? KL_FFT_BACKWARD
                                                                     : KL_FFT_ONLY_FORWARD))
                            by = 1 / elements;
                        expect_shape(out, 3, dims);
                        float *got = values_of(out);
                        for (int64_t at = 0; at < out->t.size; at++) {
                            const bool real = out->t.dtype == KL_F32;
                            const double re = got[real ? at : 2 * at] - x[at].re * by,
                                         im = real ? 0 : got[2 * at + 1] - x[at].im * by;
                            wrong += re * re + im * im;
                            all += (x[at].re * x[at].re + x[at].im * x[at].im) * by * by;
                        }
                        if (!(wrong <= all * 1e-7 * 1e-7 * (1 + log2(elements))))
                            fail_msg("case %zu, kind %d, norm %d, %s: the error is %g", i, kind,
                                     norm, kl_dtype_name(dtypes[t]), sqrt(wrong / all));
                        free(got);
                        kl_array_release(a);
                        kl_array_release(out);
                    }
}

static void special_arguments(void **unused) {
    struct kl_array *a = I32(SHAPE(2, 2), 1, 2, 3, 4), *out, *half, *empty, *none, *z;
    EXPECT_OK(kl_fftn(&out, a, KL_FFT_FORWARD, NULL, 0, NULL, 0, KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 1, 2, 3, 4);
    /* without lengths all elements */
    EXPECT_OK(kl_fftn(&z, a, KL_FFT_FROM_REAL, NULL, 0, LIST(-1), KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_OK(kl_real(&out, z, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 3, -1, 7, -1);
    EXPECT_OK(kl_fftn(&out, z, KL_FFT_TO_REAL, NULL, 0, LIST(1), KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 1, 2, 3, 4);
    kl_array_release(z);
    EXPECT_OK(kl_astype(&half, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_fftn(&z, half, KL_FFT_FROM_REAL, LIST(2), LIST(-1), KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_OK(kl_real(&out, z, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 3, -1, 7, -1);
    /* imaginary parts of the first and the last bin, and those of a transform from real numbers */
    kl_array_release(z);
    z = array_of(KL_C64, SHAPE(3), (float[]){1, 5, 2, 0, 3, 7});
    EXPECT_OK(kl_fftn(&out, z, KL_FFT_TO_REAL, LIST(4), LIST(0), KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 2, -0.5f, 0, -0.5f);
    struct kl_array *bins;
    EXPECT_OK(kl_fftn(&bins, z, KL_FFT_FROM_REAL, LIST(1), LIST(0), KL_FFT_BACKWARD, cpu(), &err));
    EXPECT_OK(kl_imag(&out, bins, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 0);
    kl_array_release(bins);
    /* no lines; an axis without elements becomes zeros */
    empty = array_of(KL_F32, SHAPE(0, 3), NULL);
    EXPECT_OK(kl_fftn(&out, empty, KL_FFT_TO_REAL, LIST(4), LIST(1), KL_FFT_ORTHO, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 4), 0);
    EXPECT_OK(kl_fftn(&none, empty, KL_FFT_FORWARD, LIST(2), LIST(0), KL_FFT_ORTHO, cpu(), &err));
    EXPECT_OK(kl_abs(&out, none, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    kl_array_release(none);
    kl_array_release(empty);
    kl_array_release(half);
    kl_array_release(z);
    kl_array_release(a);
}

static void bad_arguments(void **unused) {
    struct kl_array *a = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *one = scalar_of(KL_F32, 1), *out;
    struct kl_array *one_bin = F32(SHAPE(1), 1);
#define FORWARD(a, n, axes) kl_fftn(&out, a, KL_FFT_FORWARD, n, axes, KL_FFT_ORTHO, cpu(), &err)
    EXPECT_FAIL(KL_EARG, FORWARD(NULL, LIST(2), LIST(0)));
    EXPECT_FAIL(KL_EARG, FORWARD(a, LIST(0), LIST(0)));
    EXPECT_FAIL(KL_EARG, FORWARD(a, LIST(2, -1), LIST(0, 1)));
    EXPECT_FAIL(KL_EARG, FORWARD(a, LIST(2), LIST(0, 1)));
    EXPECT_FAIL(KL_EARG, kl_fftn(&out, one_bin, KL_FFT_TO_REAL, NULL, 0, LIST(0), KL_FFT_ORTHO,
                                 cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, FORWARD(a, LIST(2), LIST(2)));
    EXPECT_FAIL(KL_EAXIS, FORWARD(a, LIST(2, 2), LIST(1, -1)));
    EXPECT_FAIL(KL_EAXIS, FORWARD(one, LIST(2), LIST(0)));
    EXPECT_FAIL(KL_EARG,
                kl_fftn(&out, a, KL_FFT_FORWARD, NULL, 1, LIST(0), KL_FFT_ORTHO, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_fftn(&out, a, KL_FFT_FORWARD, LIST(2), LIST(0), (enum kl_fft_norm)3,
                                 cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_fftn(&out, a, KL_FFT_FORWARD, LIST(2), LIST(0), KL_FFT_ORTHO, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_fftshift(&out, a, LIST(2), false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_fftshift(&out, NULL, LIST(0), true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_fftfreq(&out, 0, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_fftfreq(&out, 3, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rfftfreq(&out, 3, HUGE_VAL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_rfftfreq(&out, 3, 1, NULL, &err));
    kl_array_release(a);
    kl_array_release(one);
    kl_array_release(one_bin);
}

/* ---- shifts and frequencies ---- */
static void shifts(void **unused) {
    struct kl_array *a = count_up(SHAPE(5)), *b = count_up(SHAPE(2, 3)), *out, *moved;
    EXPECT_OK(kl_fftshift(&out, a, LIST(0), false, cpu(), &err));
    EXPECT_I32(out, SHAPE(5), 3, 4, 0, 1, 2);
    EXPECT_OK(kl_fftshift(&out, a, LIST(-1), true, cpu(), &err));
    EXPECT_I32(out, SHAPE(5), 2, 3, 4, 0, 1);
    EXPECT_OK(kl_fftshift(&out, b, LIST(0, 1), false, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 5, 3, 4, 2, 0, 1);
    EXPECT_OK(kl_fftshift(&out, b, NULL, 0, false, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_fftshift(&moved, b, LIST(1, 0), false, cpu(), &err));
    EXPECT_OK(kl_fftshift(&out, moved, LIST(0, 1), true, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    kl_array_release(moved);
    kl_array_release(a);
    kl_array_release(b);
}

static void frequencies(void **unused) {
    struct kl_array *out;
    EXPECT_OK(kl_fftfreq(&out, 5, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(5), 0, 0.2f, 0.4f, -0.4f, -0.2f);
    EXPECT_OK(kl_fftfreq(&out, 4, 0.1, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, 2.5f, -5, -2.5f);
    EXPECT_OK(kl_fftfreq(&out, 1, -3, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 0);
    EXPECT_OK(kl_rfftfreq(&out, 6, 0.5, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, (float)(1 / 3.0), (float)(2 / 3.0), 1);
    EXPECT_OK(kl_rfftfreq(&out, 1, 2, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 0);
}

/* ---- gradients ---- */
struct how {
    enum kl_fft_kind kind;
    int n[2];
};
static int build_transform(struct kl_array **out, struct kl_array *const *in, const void *how,
                           struct kl_error **err) {
    const struct how *h = how;
    return kl_fftn(out, in[0], h->kind, h->n, 2, (int[]){1, 0}, 2, KL_FFT_ORTHO, cpu(), err);
}

static void gradients(void **unused) {
    for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
        for (int t = 0; t < 3; t++)
            for (int n = 1; n < 8; n++) {
                struct kl_root z[64];
                const struct how how = {(enum kl_fft_kind)kind, {3, n}};
                char name[64];
                if (dtypes[t] == KL_C64 && kind == KL_FFT_FROM_REAL) continue;
                struct kl_array *a =
                    random_array(dtypes[t], SHAPE(n_in_of((enum kl_fft_kind)kind, n), 3), z);
                snprintf(name, sizeof name, "kind %d of %s, %d", kind, kl_dtype_name(dtypes[t]), n);
                /* linear, so differences are as exact as the results */
                check_vjp(name, build_transform, &how, &a, 1, 1e-3);
                kl_array_release(a);
            }
}

/* ---- the same bits ---- */
static void backwards(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    while (n > 0) chunk(arg, --n);
}

static void same_bits(void **unused) {
    static kl_parallel_fn *const loops[] = {kl_pool_parallel, NULL, backwards};
    static const int shapes[][2] = {{1, 70000}, {100, 700}, {3, 10007}, {40, 1021},
                                    {33, 4096}, {37, 256},  {19, 768},  {9, 1024}};
    const int chosen = kl_cpu_variant(), n_variants = kl_cpu_n_variants();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++) {
            const int *dims = shapes[i],
                      n = to_real((enum kl_fft_kind)kind) ? 2 * dims[1] - 1 - (int)i % 2 : dims[1];
            struct kl_root *z = malloc((size_t)dims[0] * (size_t)dims[1] * sizeof *z);
            const enum kl_dtype dtype = kind != KL_FFT_FROM_REAL ? KL_C64 : i % 2 ? KL_F32 : KL_F64;
            struct kl_array *a = random_array(dtype, 2, dims, z), *out;
            void *first = NULL;
            if (n_in_of((enum kl_fft_kind)kind, n) != dims[1]) fail();
            for (int way = 0; way < 4 + n_variants; way++) {
                if (way && way < 3) kl_cpu_backend(loops[way], loops[way]);
                if (way == 3) a = strided(a);
                if (way >= 4) kl_cpu_use_variant(way - 4);
                EXPECT_OK(kl_fftn(&out, a, (enum kl_fft_kind)kind, LIST(n), LIST(1), KL_FFT_ORTHO,
                                  cpu(), &err));
                void *got = values_of(out);
                const size_t bytes = (size_t)out->t.size * kl_dtype_size(out->t.dtype);
                kl_cpu_backend(kl_pool_parallel, kl_pool_parallel_short);
                kl_cpu_use_variant(chosen);
                if (first && memcmp(first, got, bytes) != 0)
                    fail_msg("kind %d of %d x %d: other bits in way %d", kind, dims[0], dims[1],
                             way);
                if (first)
                    free(got);
                else
                    first = got;
                kl_array_release(out);
            }
            free(first);
            free(z);
            kl_array_release(a);
        }
}

/* ---- plans ---- */
static void number_theory(void **unused) {
    int radix[KL_FFT_MOST_PASSES];
    for (int64_t n = 1; n < 3000; n++) {
        int64_t product = 1;
        if (!kl_fft_is_smooth(n)) continue;
        const int passes = kl_fft_radices(n, radix);
        for (int i = 0; i < passes; i++) product *= radix[i];
        assert_int_equal(product, n);
    }
    for (int64_t n = 1; n < 3000; n++) {
        const int64_t good = kl_fft_good_length(n);
        assert_true(good >= n && good < 2 * n + 1 && kl_fft_is_smooth(good));
    }
    for (int64_t p = 3; p < 2000; p += 2) {
        if (!kl_fft_is_prime(p)) continue;
        const int64_t g = kl_fft_generator(p);
        int64_t power = g, order = 1;
        for (; power != 1; power = power * g % p) order++;
        assert_int_equal(order, p - 1);
    }
    const int64_t split = kl_fft_split(1 << 20, 16, 4096);
    assert_true(split >= 256 && split <= 4096 && (1 << 20) % split == 0);
    assert_int_equal(kl_fft_split(10007, 16, 4096), 0);
    for (int64_t n = 1; n < 100; n++)
        for (int64_t k = 0; k < n; k++) {
            const struct kl_root w = kl_fft_root(k, n);
            const double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
            assert_true(fabs(w.re - cos(angle)) < 4e-15 && fabs(w.im + sin(angle)) < 4e-15);
        }
    for (int n = 1; n < 100; n++) { /* all of them at once are the same */
        struct kl_root all[100];
        kl_fft_roots(n, all);
        for (int k = 0; k < n; k++) {
            const struct kl_root w = kl_fft_root(k, n);
            assert_true(w.re == all[k].re && w.im == all[k].im);
        }
    }
}

static void cache_is_bounded(void **unused) {
    const int64_t live = kl_test_n_live();
    kl_fft_plans_forget();
    assert_int_equal(kl_fft_plans_bytes(), 0);
    const int64_t before = kl_test_n_live();
    assert_true(before <= live);
    const struct kl_fft_plan *held = kl_fft_plan_get(100, false, false, false, NULL);
    const struct kl_fft_plan *again = kl_fft_plan_get(100, false, false, false, NULL);
    assert_non_null(held);
    assert_ptr_equal(held, again);
    kl_fft_plan_release(again);
    for (int64_t n = 1; n < 2 * KL_FFT_CACHE_PLANS; n++) {
        const struct kl_fft_plan *p = kl_fft_plan_get(n, true, false, true, NULL);
        assert_non_null(p);
        kl_fft_plan_release(p);
    }
    again = kl_fft_plan_get(100, false, false, false, NULL);
    assert_ptr_not_equal(held, again); /* it was used longest ago */
    assert_int_equal(held->n, 100);
    kl_fft_plan_release(held);
    kl_fft_plan_release(again);
    size_t bytes = 0;
    for (int n = 1 << 20; bytes <= KL_FFT_CACHE_BYTES; n += 1 << 12) { /* 10 MB each */
        const struct kl_fft_plan *p = kl_fft_plan_get(n, true, true, true, NULL);
        assert_non_null(p);
        bytes += p->bytes;
        kl_fft_plan_release(p);
        assert_in_range(kl_fft_plans_bytes(), 1, KL_FFT_CACHE_BYTES);
    }
    kl_fft_plans_forget();
    assert_int_equal(kl_test_n_live(), before);
}

/* Each allocation of a plan and of a kernel fails in turn. */
static void no_memory(void **unused) {
    static const int lengths[] = {12, 53, 59, 160, 163};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = KL_FFT_FORWARD; kind <= KL_FFT_TO_REAL; kind++) {
            const int n = lengths[i], n_in = n_in_of((enum kl_fft_kind)kind, n);
            struct kl_root *z = malloc((size_t)n_in * 3 * sizeof *z);
            struct kl_array *a = random_array(KL_F64, SHAPE(3, n_in), z), *out;
            int failures = 0;
            for (int64_t at = 0;; at++) {
                struct kl_error *why = NULL;
                kl_fft_plans_forget();
                EXPECT_OK(kl_fftn(&out, a, (enum kl_fft_kind)kind, LIST(3, n), LIST(0, 1),
                                  KL_FFT_ORTHO, cpu(), &err));
                kl_test_fail_alloc_at(at);
                const int rc = kl_eval(&out, 1, &why);
                const bool failed = kl_test_alloc_failed();
                kl_test_fail_alloc_at(-1);
                kl_array_release(out);
                if (!failed) {
                    assert_int_equal(rc, KL_OK);
                    break;
                }
                if (rc) assert_int_equal(rc, KL_ENOMEM);
                failures += rc != KL_OK;
                kl_error_release(why);
            }
            assert_true(failures > 2);
            free(z);
            kl_array_release(a);
        }
}

enum { THREADS = 6, ROUNDS = 40 };
static void *transform_often(void *arg) {
    static char failed[] = "failed", wrong[] = "a wrong result";
    static const int lengths[] = {64, 100, 53, 59, 200, 1000};
    const uintptr_t self = (uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        const int n = lengths[((uintptr_t)i + self) % 6];
        float *v = calloc((size_t)n, sizeof *v);
        struct kl_array *a, *z, *out;
        v[1] = 1;
        a = array_of(KL_F32, SHAPE(1, n), v);
        if (i % 8 == 7) kl_fft_plans_forget();
        if (kl_fftn(&z, a, KL_FFT_FROM_REAL, LIST(n), LIST(1), KL_FFT_BACKWARD, cpu(), NULL) ||
            kl_fftn(&out, z, KL_FFT_TO_REAL, LIST(n), LIST(1), KL_FFT_BACKWARD, cpu(), NULL) ||
            kl_eval(&out, 1, NULL))
            return failed;
        const float *got = values_of(out);
        for (int k = 0; k < n; k++)
            if (fabsf(got[k] - v[k]) > 1e-5f) return wrong;
        free((void *)got);
        free(v);
        kl_array_release(a);
        kl_array_release(z);
        kl_array_release(out);
    }
    return NULL;
}

#ifdef __SANITIZE_ADDRESS__ /* a child may find the sanitizer's own allocator locked for ever */
enum { CHILDREN = 0 };
#else
enum { CHILDREN = 8 };
#endif

/* Processes that fork meanwhile find the cache whole. */
static void threads_share_plans(void **unused) {
    kl_test_skip_under_emulator("a child of fork that starts threads");
    pthread_t t[THREADS];
    pid_t child[CHILDREN + 1];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, transform_often, (void *)i), 0);
    for (int i = 0; i < CHILDREN; i++)
        if (!(child[i] = fork())) _exit(transform_often(NULL) != NULL);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *why;
        pthread_join(t[i], &why);
        if (why) fail_msg("%s", (const char *)why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_lengths),
        cmocka_unit_test(long_lengths),
        cmocka_unit_test(lines_are_apart),
        cmocka_unit_test(several_axes),
        cmocka_unit_test(special_arguments),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(shifts),
        cmocka_unit_test(frequencies),
        cmocka_unit_test(gradients),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(number_theory),
        cmocka_unit_test(cache_is_bounded),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(threads_share_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
