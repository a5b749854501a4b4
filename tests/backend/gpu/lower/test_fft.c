/* test_fft.c - FFT on a device against sums in double: all lengths up to 64 and selected ones, all
 * kinds, dtypes and layouts; against the CPU along several axes; the bounds are those of the CPU's
 * tests. Small shared memory makes lengths long that are not. */
#include "lower_support.h"

#include "base/number/fft_factors.h"
#include "ops/build/params.h"

static bool is_to_real(enum kl_fft_kind kind) {
    return kind == KL_FFT_TO_REAL;
}
static bool is_inverse(enum kl_fft_kind kind) {
    return kind == KL_FFT_INVERSE || kind == KL_FFT_TO_REAL;
}

/* The largest relative L2 error. */
static double bound(double n, bool smooth) {
    return (smooth ? 1e-7 : 3e-7) * sqrt(n > 2 ? log2(n) : 1);
}

static struct kl_root element(const struct operand *o, int64_t at) {
    const char *p = (const char *)o->arg.data + at * (int64_t)kl_dtype_size(o->arg.dtype);
    switch (o->arg.dtype) {
    case KL_F32: return (struct kl_root){((const float *)p)[0], 0};
    case KL_F64: return (struct kl_root){((const double *)p)[0], 0};
    default: return (struct kl_root){((const float *)p)[0], ((const float *)p)[1]};
    }
}

/* Result k of the line that begins at `first`, by its definition. */
static struct kl_root by_definition(const struct operand *in, int64_t first, int64_t stride,
                                    enum kl_fft_kind kind, int n, const struct kl_root *roots,
                                    int k) {
    struct kl_root sum = {0, 0};
    int64_t at = 0;
    for (int j = 0; j < n; j++) {
        const bool mirrored = is_to_real(kind) && j > n / 2;
        struct kl_root v = element(in, first + (mirrored ? n - j : j) * stride), w = roots[at];
        if (mirrored) v.im = -v.im;
        if (is_to_real(kind) && (j == 0 || 2 * j == n)) v.im = 0;
        if (is_inverse(kind)) w.im = -w.im;
        sum.re += v.re * w.re - v.im * w.im;
        sum.im += v.re * w.im + v.im * w.re;
        at += k;
        if (at >= n) at -= n;
    }
    if (is_to_real(kind)) sum.im = 0;
    return sum;
}

static double worst_smooth, worst_rough; /* errors, as shares of 1e-7 sqrt(log2 n) */

/* Lines of length n along axis 1 of (before, n, after), `few` results of some of them. */
static void check(enum kl_fft_kind kind, enum kl_dtype dtype, int n, int before, int after,
                  enum layout layout, int few) {
    struct kl_fft_buf params = {.scale = 0.375, .kind = kind, .n_axes = 1, .axes = {1}};
    const int n_in = is_to_real(kind) ? n / 2 + 1 : n,
              n_out = kind == KL_FFT_FROM_REAL ? n / 2 + 1 : n;
    const int dims[] = {before, n_in, after}, out_dims[] = {before, n_out, after};
    struct operand in, out;
    double wrong = 0, all = 0;
    if (kind >= KL_FFT_FROM_REAL) params.n = n;
    ls_make(&in, dtype, 3, dims, layout, PLAIN);
    ls_make_out(&out, is_to_real(kind) ? KL_F32 : KL_C64, 3, out_dims);
    float *got = ls_run(KL_OP_FFT, &params, 1, &in, &out);
    struct kl_root *roots = malloc((size_t)n * sizeof *roots);
    for (int k = 0; k < n; k++) roots[k] = kl_fft_root(k, n);
    for (int line = 0; line < before * after; line++) {
        const int64_t a = line / after, b = line % after;
        if (n_out > few && line % 5) continue;
        for (int k = 0; k < n_out; k++) {
            if (n_out > few && k * (int64_t)7919 % n_out >= few) continue;
            const struct kl_root want = by_definition(&in, a * in.strides[0] + b * in.strides[2],
                                                      in.strides[1], kind, n, roots, k);
            const int64_t at = (a * n_out + k) * after + b;
            const double re = got[is_to_real(kind) ? at : 2 * at] - want.re * 0.375,
                         im = is_to_real(kind) ? 0 : got[2 * at + 1] - want.im * 0.375;
            wrong += re * re + im * im;
            all += (want.re * want.re + want.im * want.im) * 0.375 * 0.375;
        }
    }
    const bool smooth = kl_fft_is_smooth(n);
    const double error = all > 0 ? sqrt(wrong / all) : sqrt(wrong);
    if (dtype != KL_F64) {
        const double share = error / bound(n, true);
        double *worst = smooth ? &worst_smooth : &worst_rough;
        if (share > *worst) *worst = share;
    }
    if (!(error <= bound(n, smooth)))
        fail_msg("kind %d of %s, (%d, %d, %d), layout %d: the error is %g, more than %g", (int)kind,
                 kl_dtype_name(dtype), before, n, after, layout, error, bound(n, smooth));
    free(roots);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static bool takes(enum kl_fft_kind kind, enum kl_dtype dtype) {
    return kind != KL_FFT_FROM_REAL || dtype != KL_C64;
}
static const enum kl_dtype dtypes[] = {KL_C64, KL_F32, KL_F64};

static void short_lengths(void **state) {
    for (int n = 1; n <= 64; n++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int d = 0; d < 3; d++) {
                if (!takes((enum kl_fft_kind)kind, dtypes[d])) continue;
                if (!kl_test_takes("kernels", 1)) continue;
                check((enum kl_fft_kind)kind, dtypes[d], n, 3, 5, DENSE, n);
                check((enum kl_fft_kind)kind, dtypes[d], n, 7, 1, DENSE, n);
            }
}

static void layouts(void **state) {
    static const int lengths[] = {1, 2, 12, 47, 53, 100, 128};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++)
            for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
                for (int d = 0; d < 3; d++) {
                    if (!takes((enum kl_fft_kind)kind, dtypes[d])) continue;
                    if (!kl_test_takes("kernels", 1)) continue;
                    check((enum kl_fft_kind)kind, dtypes[d], lengths[i], 37, 3, (enum layout)layout,
                          lengths[i]);
                }
}

static void long_lengths(void **state) {
    static const int lengths[] = {243,  256,  343,  509,  1021, 1024,  2048,  2187,  2209,  2310,
                                  4093, 4096, 4099, 6561, 8192, 10007, 16807, 46368, 65537, 79507};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int d = 0; d < 3; d += 2) {
                if (!takes((enum kl_fft_kind)kind, dtypes[d]) || (i + kind + d / 2) % 2) continue;
                const int some = lengths[i] < 5000 ? 20 : 3;
                if (lengths[i] > 5000 && !kl_test_takes("kernels", 1)) continue;
                check((enum kl_fft_kind)kind, dtypes[d], lengths[i], 2, 1 + 2 * d, DENSE, some);
            }
    if (kl_test_takes("kernels", 1)) check(KL_FFT_FORWARD, KL_C64, 1 << 20, 1, 1, DENSE, 3);
    if (kl_test_takes("kernels", 1)) check(KL_FFT_INVERSE, KL_C64, 1000003, 1, 1, DENSE, 3);
    print_message("errors: %.2f of 1e-7 sqrt(log2 n), %.2f where a prime is above %d\n",
                  worst_smooth, worst_rough, KL_FFT_MOST_RADIX);
}

/* In so little shared memory that short lengths are cut in two and in three. */
static void little_memory(void **state) {
    static const int lengths[] = {60, 65, 128, 1021, 2209, 4096, 6561, 10007, 16807};
    const size_t had = kh.driver->local_bytes;
    kh.driver->local_bytes = 4096;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int d = 0; d < 3; d++) {
                if (!takes((enum kl_fft_kind)kind, dtypes[d]) || (i + kind + d) % 3) continue;
                check((enum kl_fft_kind)kind, dtypes[d], lengths[i], 2, 2, DENSE, 20);
            }
    kh.driver->local_bytes = had;
}

/* A length whose convolution is longer than three factors of what fits a group. */
static void too_long(void **state) {
    const size_t had = kh.driver->local_bytes;
    const struct kl_fft_buf params = {.scale = 1, .kind = KL_FFT_FORWARD, .n_axes = 1, .axes = {0}};
    struct operand in, out;
    struct kl_error *err = NULL;
    size_t bytes;
    ls_make(&in, KL_C64, 1, (int[]){300007}, DENSE, PLAIN);
    ls_make_out(&out, KL_C64, 1, (int[]){300007});
    struct kl_arg args[] = {in.arg, out.arg};
    args[0].data = in.device;
    args[1].data = out.device;
    const struct kl_command c = {.kind = KL_CMD_LAUNCH,
                                 .op = KL_OP_FFT,
                                 .params = &params,
                                 .params_bytes = sizeof params,
                                 .n_in = 1,
                                 .n_out = 1,
                                 .args = args};
    kh.driver->local_bytes = 1024;
    assert_int_equal(kl_lower_prepare(kh.lowering, &c, &bytes, &err), KL_EUNSUPPORTED);
    assert_non_null(strstr(err->message, "fft: a length of 300007 is too long"));
    kl_error_release(err);
    kh.driver->local_bytes = had;
    assert_int_equal(kl_lower_prepare(kh.lowering, &c, &bytes, NULL), KL_OK);
    ls_drop(&in);
    ls_drop(&out);
}

/* ---- several axes ---- */
static void check_axes(enum kl_fft_kind kind, enum kl_dtype dtype, int ndim, const int *dims,
                       int n_axes, const int *axes, enum layout layout) {
    struct kl_fft_buf params = {.scale = 2, .kind = kind, .n_axes = n_axes};
    int out_dims[LS_DIMS];
    double wrong = 0, all = 0, n = 1;
    struct operand in, out;
    for (int i = 0; i < ndim; i++) out_dims[i] = dims[i];
    for (int k = 0; k < n_axes; k++) params.axes[k] = axes[k];
    int *last = &out_dims[axes[n_axes - 1]];
    if (kind == KL_FFT_FROM_REAL) {
        params.n = *last;
        *last = *last / 2 + 1;
    } else if (is_to_real(kind)) {
        *last = params.n = 2 * *last - 1;
    }
    for (int k = 0; k < n_axes; k++) n *= out_dims[axes[k]];
    ls_make(&in, dtype, ndim, dims, layout, PLAIN);
    ls_make_out(&out, is_to_real(kind) ? KL_F32 : KL_C64, ndim, out_dims);
    float *got = ls_run(KL_OP_FFT, &params, 1, &in, &out);
    const float *want = (const float *)out.block;
    for (int64_t i = 0; i < out.arg.size * ls_parts(out.arg.dtype); i++) {
        wrong += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    /* both sides are rounded */
    if (!(wrong <= 2 * bound(n, false) * bound(n, false) * all))
        fail_msg("kind %d of %s along %d of %d axes, layout %d: the error is %g", (int)kind,
                 kl_dtype_name(dtype), n_axes, ndim, layout, sqrt(wrong / all));
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void several_axes(void **state) {
    static const struct {
        int ndim, dims[LS_DIMS], n_axes, axes[LS_DIMS];
    } cases[] = {{2, {5, 6}, 2, {0, 1}},
                 {2, {6, 5}, 2, {1, 0}},
                 {3, {7, 4, 9}, 2, {2, 0}},
                 {3, {5, 6, 7}, 3, {0, 1, 2}},
                 {3, {8, 1, 12}, 3, {2, 1, 0}},
                 {3, {1, 1, 1}, 3, {0, 1, 2}},
                 {2, {0, 3}, 1, {1}},
                 {2, {3, 4099}, 2, {0, 1}},
                 {2, {59, 61}, 2, {0, 1}},
                 {11, {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 2}, 2, {4, 9}},
                 {12, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 3, {0, 5, 11}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++)
            for (int d = 0; d < 3; d++)
                for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                    if (takes((enum kl_fft_kind)kind, dtypes[d]) && (i + layout + kind) % 2 &&
                        kl_test_takes("kernels", 1))
                        check_axes((enum kl_fft_kind)kind, dtypes[d], cases[i].ndim, cases[i].dims,
                                   cases[i].n_axes, cases[i].axes, (enum layout)layout);
}

/* Lines whose axes are eight in the input, as many as a kernel takes, and more in both operands:
 * two of them are one in the input alone. */
static void axes_that_merge_on_one_side(void **state) {
    static const int64_t strides[] = {4, 32, 8, 64, 16, 2, 2048, 1, 512, 256, 128, 1024};
    static const int dims[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    struct kl_fft_buf params = {.scale = 1, .kind = KL_FFT_FORWARD, .n_axes = 1, .axes = {6}};
    struct operand in, out;
    ls_make(&in, KL_C64, 12, dims, DENSE, PLAIN);
    memcpy(in.strides, strides, sizeof strides);
    in.arg.layout = kl_layout_of(12, in.dims, in.strides);
    ls_make_out(&out, KL_C64, 12, dims);
    float *got = ls_run(KL_OP_FFT, &params, 1, &in, &out);
    ls_near(&out, got, NULL, 1e-6, "axes that merge on one side");
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

/* A line of which one number is not finite says nothing of the other lines. */
static void lines_are_apart(void **state) {
    static const int lengths[] = {6, 16, 53, 59, 100};
    enum { LINES = 21, BAD = 9 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct kl_fft_buf params = {.scale = 1, .kind = KL_FFT_FORWARD, .n_axes = 1, .axes = {1}};
        const int n = lengths[i];
        struct operand in, out;
        ls_make(&in, KL_C64, 2, (int[]){LINES, n}, DENSE, PLAIN);
        ls_make_out(&out, KL_C64, 2, (int[]){LINES, n});
        ((float *)in.block)[2 * (BAD * n + n / 2)] = INFINITY;
        kh_write(in.device, in.block, in.bytes);
        float *got = ls_run(KL_OP_FFT, &params, 1, &in, &out);
        for (int at = 0; at < LINES * n; at++)
            assert_int_equal(isfinite(got[2 * at]) && isfinite(got[2 * at + 1]), at / n != BAD);
        free(got);
        ls_drop(&in);
        ls_drop(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_lengths), cmocka_unit_test(layouts),
        cmocka_unit_test(long_lengths),  cmocka_unit_test(little_memory),
        cmocka_unit_test(several_axes),  cmocka_unit_test(lines_are_apart),
        cmocka_unit_test(too_long),      cmocka_unit_test(axes_that_merge_on_one_side),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
