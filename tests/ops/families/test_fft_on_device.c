/* test_fft_on_device.c - Fourier transforms on a device (on_device.h) against the CPU's, on CUDA
 * large enough for the vendor's library: kinds, dtypes, axes, norms, lengths that cut or pad;
 * chains, compiled, batched, and their gradients; no memory. Every run gives the same bits. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <math.h>

#include "ops/fft.h"
#include "transforms/compile.h"
#include "transforms/transforms.h"

static uint64_t state = 5;

static struct kl_array *random_array(enum kl_dtype t, int ndim, const int *dims) {
    struct kl_array *a;
    int64_t n;
    assert_true(kl_shape_size(ndim, dims, 16, &n));
    float *v = malloc((size_t)n * 2 * sizeof *v);
    double *wide = malloc((size_t)n * sizeof *wide);
    for (int64_t i = 0; i < 2 * n; i++)
        v[i] = (float)(int32_t)(kl_test_random(&state) >> 32) * 0x1p-31f;
    for (int64_t i = 0; i < n; i++) wide[i] = v[i] + v[n + i] * 0x1p-26;
    OK(kl_array_new_data(&a, t == KL_F64 ? (const void *)wide : v, t, ndim, dims, &err));
    free(v);
    free(wide);
    return a;
}

/* Takes both. The relative L2 distance is at most `bound`. */
static void near(struct kl_array *want, struct kl_array *got, double bound, const char *what) {
    struct kl_array *w, *g;
    const float *p = read_elements(want, cpu_stream, &w, what),
                *r = read_elements(got, gpu_stream, &g, what);
    double wrong = 0, all = 0;
    assert_int_equal(want->t.dtype, got->t.dtype);
    assert_int_equal(w->t.size, g->t.size);
    for (int64_t i = 0; i < w->t.size * (w->t.dtype == KL_C64 ? 2 : 1); i++) {
        wrong += ((double)r[i] - p[i]) * ((double)r[i] - p[i]);
        all += (double)p[i] * p[i];
    }
    if (!(wrong <= bound * bound * all))
        fail_msg("%s: the distance is %g", what, sqrt(wrong / all));
    kl_array_release(w);
    kl_array_release(g);
    kl_array_release(want);
    kl_array_release(got);
}

static void check(struct kl_array *a, enum kl_fft_kind kind, int n_axes, const int *axes,
                  const int *n, enum kl_fft_norm norm, const char *what) {
    const size_t count = (size_t)n_axes;
    struct kl_array *out[3];
    size_t bytes = 0;
    const void *bits[2];
    struct kl_array *keep[2];
    for (int i = 0; i < 3; i++)
        OK(kl_fftn(&out[i], a, kind, n, n ? count : 0, axes, count, norm,
                   i ? gpu_stream : cpu_stream, &err));
    for (int i = 0; i < 2; i++) bits[i] = read_elements(out[1 + i], gpu_stream, &keep[i], what);
    bytes = (size_t)keep[0]->t.size * kl_dtype_size((enum kl_dtype)keep[0]->t.dtype);
    if (memcmp(bits[0], bits[1], bytes)) fail_msg("%s: other bits", what);
    for (int i = 0; i < 2; i++) kl_array_release(keep[i]);
    kl_array_release(out[2]);
    near(out[0], out[1], 1.5e-6, what);
}

static void results(void **unused) {
    static const struct {
        int ndim, dims[4], n_axes, axes[3], n[3]; /* n[0] 0: all elements */
    } cases[] = {
        {1, {16384}, 1, {0}, {0}},
        {1, {20000}, 1, {0}, {10007}},
        {1, {9000}, 1, {0}, {16400}},
        {2, {64, 256}, 1, {1}, {0}},
        {2, {170, 100}, 1, {1}, {0}},
        {2, {17, 1021}, 1, {1}, {0}},
        {2, {300, 70}, 1, {0}, {0}},
        {3, {3, 50, 128}, 1, {1}, {0}},
        {2, {128, 130}, 2, {0, 1}, {0}},
        {3, {5, 64, 60}, 2, {1, 2}, {60, 70}},
        {3, {24, 30, 28}, 3, {0, 1, 2}, {0}},
        {3, {24, 30, 28}, 2, {0, 2}, {0}},
        {3, {24, 30, 28}, 2, {2, 0}, {20, 31}},
    };
    static const enum kl_dtype types[] = {KL_C64, KL_F32, KL_F64};
    char what[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < (device_lacks_f64() ? 2 : 3); t++) {
            struct kl_array *a = random_array(types[t], cases[i].ndim, cases[i].dims);
            for (int kind = 0; kind <= KL_FFT_TO_REAL; kind++) {
                if (kind == KL_FFT_FROM_REAL && types[t] == KL_C64) continue;
                snprintf(what, sizeof what, "case %zu, kind %d of %s", i, kind,
                         kl_dtype_name(types[t]));
                check(a, (enum kl_fft_kind)kind, cases[i].n_axes, cases[i].axes,
                      cases[i].n[0] ? cases[i].n : NULL,
                      (enum kl_fft_norm)((i + (size_t)kind + (size_t)t) % 3), what);
            }
            kl_array_release(a);
        }
}

/* ---- in functions ---- */

/* The real numbers, along the last axis, filtered: there, times bins, and back. ctx: the stream. */
static int filtered(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                    struct kl_error **err) {
    struct kl_stream *s = ctx;
    struct kl_array *z = NULL, *product = NULL;
    const int last = in[0]->t.ndim - 1, n = in[0]->t.dims[last];
    KL_TRY(kl_arrays_new(outs, 1, err));
    int rc = kl_fftn(&z, in[0], KL_FFT_FROM_REAL, NULL, 0, &last, 1, KL_FFT_BACKWARD, s, err);
    if (!rc) rc = kl_multiply(&product, z, in[1], s, err);
    if (!rc)
        rc =
            kl_fftn(&outs->v[0], product, KL_FFT_TO_REAL, &n, 1, &last, 1, KL_FFT_BACKWARD, s, err);
    kl_array_release(z);
    kl_array_release(product);
    if (rc) kl_arrays_free(outs);
    return rc;
}

static struct kl_array *first_of(struct kl_arrays *all) {
    struct kl_array *a = kl_array_retain(all->v[0]);
    kl_arrays_free(all);
    return a;
}

enum { ROWS = 40, LENGTH = 500, BINS = LENGTH / 2 + 1 };

static void compiled(void **unused) {
    struct kl_array *in[2] = {random_array(KL_F32, 2, (int[]){ROWS, LENGTH}),
                              random_array(KL_C64, 1, (int[]){BINS})};
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        struct kl_function on_cpu = {.call = filtered, .ctx = cpu_stream},
                           on_gpu = {.call = filtered, .ctx = gpu_stream}, c;
        OK(kl_compile(&c, &on_gpu, 0, shapeless, NULL, 0, &err));
        for (int round = 0; round < 3; round++) {
            struct kl_arrays want = {0}, got = {0};
            OK(kl_function_call(&on_cpu, in, 2, &want, &err));
            OK(kl_function_call(&c, in, 2, &got, &err));
            near(first_of(&want), first_of(&got), 1e-6, "compiled");
        }
        kl_function_release(&c);
    }
    for (int i = 0; i < 2; i++) kl_array_release(in[i]);
}

static void gradients(void **unused) {
    struct kl_array *in[2] = {random_array(KL_F32, 2, (int[]){ROWS, LENGTH}),
                              random_array(KL_C64, 1, (int[]){BINS})},
                    *cotangent = random_array(KL_F32, 2, (int[]){ROWS, LENGTH});
    struct kl_arrays grads[2] = {{0}}, outs = {0};
    for (int i = 0; i < 2; i++) {
        const struct kl_function f = {.call = filtered, .ctx = i ? gpu_stream : cpu_stream};
        OK(kl_vjp(&f, in, 2, &cotangent, 1, &outs, &grads[i], &err));
        kl_arrays_free(&outs);
    }
    for (int k = 0; k < 2; k++)
        near(kl_array_retain(grads[0].v[k]), kl_array_retain(grads[1].v[k]), 2e-6, "gradient");
    for (int i = 0; i < 2; i++) {
        kl_arrays_free(&grads[i]);
        kl_array_release(in[i]);
    }
    kl_array_release(cotangent);
}

/* The lanes are the second axis of the real numbers. */
static void lanes(void **unused) {
    struct kl_array *in[2] = {random_array(KL_F32, 3, (int[]){3, ROWS, LENGTH}),
                              random_array(KL_C64, 1, (int[]){BINS})},
                    *result[2];
    static const int in_axes[] = {1, KL_VMAP_NONE}, out_axes[] = {0};
    for (int i = 0; i < 2; i++) {
        const struct kl_function f = {.call = filtered, .ctx = i ? gpu_stream : cpu_stream};
        struct kl_arrays lane_in = {0}, lane_out = {0}, outs = {0};
        OK(kl_vmap_trace(&f, in, 2, in_axes, &lane_in, &lane_out, &err));
        OK(kl_vmap_replace(in, 2, lane_in.v, lane_out.v, lane_out.n, in_axes, out_axes, &outs,
                           &err));
        kl_arrays_free(&lane_in);
        kl_arrays_free(&lane_out);
        result[i] = first_of(&outs);
        assert_int_equal(result[i]->t.dims[0], ROWS);
    }
    near(result[0], result[1], 1e-6, "lanes");
    for (int i = 0; i < 2; i++) kl_array_release(in[i]);
}

/* ---- failures ---- */

/* A number that is not there fails the transform, and what is made of it. */
static void failed_inputs(void **unused) {
    struct kl_array *a = random_array(KL_C64, 1, (int[]){8}), *index, *taken, *z, *back;
    const int32_t far = 100;
    struct kl_error *e = NULL;
    void *data;
    OK(kl_array_new_data(&index, &far, KL_I32, 1, (int[]){1}, &err));
    OK(kl_take_axis(&taken, a, index, 0, gpu_stream, &err));
    OK(kl_fftn(&z, taken, KL_FFT_FORWARD, (int[]){16}, 1, (int[]){0}, 1, KL_FFT_ORTHO, gpu_stream,
               &err));
    OK(kl_fftn(&back, z, KL_FFT_TO_REAL, (int[]){16}, 1, (int[]){0}, 1, KL_FFT_ORTHO, gpu_stream,
               &err));
    assert_int_equal(kl_array_host(back, &data, &e), KL_EINDEX);
    kl_error_release(e);
    struct kl_array *const all[] = {a, index, taken, z, back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

/* Whichever allocation fails, the result is right or an error. */
static void no_memory(void **unused) {
    struct kl_array *a = random_array(KL_C64, 2, (int[]){20, 1021}), *out;
    check(a, KL_FFT_FORWARD, 1, (int[]){1}, NULL, KL_FFT_ORTHO, "warm");
    for (int n = 0, more = 1; more; n++) {
        struct kl_error *e = NULL;
        void *data;
        kl_test_fail_alloc_at(n);
        int rc =
            kl_fftn(&out, a, KL_FFT_FORWARD, NULL, 0, (int[]){1}, 1, KL_FFT_ORTHO, gpu_stream, &e);
        const bool built = rc == 0;
        if (built) rc = kl_array_host(out, &data, &e);
        more = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) {
            assert_int_equal(rc, KL_ENOMEM);
            assert_non_null(e);
            kl_error_release(e);
        } else {
            struct kl_array *want;
            OK(kl_fftn(&want, a, KL_FFT_FORWARD, NULL, 0, (int[]){1}, 1, KL_FFT_ORTHO, cpu_stream,
                       &err));
            near(want, kl_array_retain(out), 1.5e-6, "after a failed allocation");
        }
        if (built) kl_array_release(out);
        assert_true(n < 1000);
    }
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results), cmocka_unit_test(compiled),      cmocka_unit_test(gradients),
        cmocka_unit_test(lanes),   cmocka_unit_test(failed_inputs), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
