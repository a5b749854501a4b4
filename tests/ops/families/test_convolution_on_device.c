/* test_convolution_on_device.c - convolutions and their gradients on a device (on_device.h) against
 * the CPU's, on CUDA large enough for the vendor's library: with strides, dilation, groups,
 * padding that differs, transposed convolutions. Every run gives the same bits. */
#include "ops/support/on_device.h"

#include <math.h>

#include "base/number/half.h"
#include "base/op/op_params.h"
#include "ops/build/vjp.h"

enum { RUNS = 2, MAX_DIMS = KL_MAX_SPATIAL + 2 };

static uint64_t rng = 7;
static double draw(void) { /* -1 to 1, in steps that float32 holds, and TF32 does not */
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 40) / (1 << 23) - 1;
}

static struct kl_array *random_array(enum kl_dtype t, int ndim, const int *dims) {
    size_t n = 1;
    for (int i = 0; i < ndim; i++) n *= (size_t)dims[i];
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (float)draw();
    struct kl_array *a, *b;
    OK(kl_array_new_data(&a, v, KL_F32, ndim, dims, &err));
    OK(kl_astype(&b, a, t, cpu_stream, &err));
    free(v);
    kl_array_release(a);
    return b;
}

static double number(const void *p, enum kl_dtype t, int64_t i) {
    switch (t) {
    case KL_F16: return kl_f16_load(((const uint16_t *)p)[i]);
    case KL_BF16: return kl_bf16_load(((const uint16_t *)p)[i]);
    case KL_F32: return ((const float *)p)[i];
    default: return ((const double *)p)[i];
    }
}

/* Compares sums of `terms` products of numbers up to 1, which may be added one after another. With
 * factors rounded to TF32 they would be too far off by some ten times. Takes `got`. */
static void near(struct kl_array *want, struct kl_array *got, double terms, const char *what) {
    struct kl_array *w, *g;
    const enum kl_dtype t = want->t.dtype;
    const double last = t == KL_BF16  ? 0x1p-8
                        : t == KL_F16 ? 0x1p-11
                                      : 0x1p-24,
                 sums = (t == KL_F64 ? 0x1p-51 : 0x1p-22) * terms;
    const void *p = read_elements(want, cpu_stream, &w, what),
               *q = read_elements(got, gpu_stream, &g, what);
    assert_int_equal(w->t.size, g->t.size);
    assert_int_equal(t, g->t.dtype);
    for (int64_t i = 0; i < w->t.size; i++) {
        const double a = number(p, t, i), b = number(q, t, i);
        if (!(fabs(a - b) <= 2 * last * fabs(a) + sums))
            fail_msg("%s, dtype %d: element %lld is %.9g, on the CPU %.9g", what, (int)t,
                     (long long)i, b, a);
    }
    kl_array_release(w);
    kl_array_release(g);
    kl_array_release(got);
}

/* The bits of an array; to be freed. Takes it. */
static void *bits_of(struct kl_array *a, size_t *bytes) {
    struct kl_array *keep;
    const void *p = read_elements(a, gpu_stream, &keep, "bits");
    *bytes = (size_t)keep->t.size * kl_dtype_size(keep->t.dtype);
    void *copy = malloc(*bytes);
    memcpy(copy, p, *bytes);
    kl_array_release(keep);
    kl_array_release(a);
    return copy;
}

struct sample {
    const char *what;
    struct kl_convolution_params p;
    int x[MAX_DIMS], w[MAX_DIMS];
};
static const struct sample samples[] = {
    {"3 x 3",
     {.ndim = 2, .groups = 1, .low = {1, 1}, .high = {1, 1}},
     {2, 30, 41, 32},
     {48, 3, 3, 32}},
    {"1 x 1", {.ndim = 2, .groups = 1}, {3, 40, 43, 64}, {64, 1, 1, 64}},
    {"strides",
     {.ndim = 2, .groups = 1, .stride = {2, 2}, .low = {3, 3}, .high = {3, 3}},
     {4, 64, 65, 3},
     {64, 7, 7, 3}},
    {"strides and dilation that differ",
     {.ndim = 2, .groups = 1, .stride = {1, 2}, .dilation = {2, 1}, .low = {2, 0}, .high = {1, 1}},
     {3, 43, 60, 24},
     {40, 3, 4, 24}},
    {"groups",
     {.ndim = 2, .groups = 4, .low = {1, 1}, .high = {1, 1}},
     {2, 50, 52, 64},
     {64, 3, 3, 16}},
    {"channels of their own",
     {.ndim = 2, .groups = 128, .low = {1, 1}, .high = {1, 1}},
     {2, 40, 43, 128},
     {128, 3, 3, 1}},
    {"channels of their own, lines that do not come out even",
     {.ndim = 2, .groups = 64, .low = {1, 2}, .high = {0, 2}},
     {2, 37, 42, 64},
     {64, 2, 5, 1}},
    {"channels of their own, strides, flipped",
     {.ndim = 2, .groups = 64, .flip = true, .stride = {2, 2}, .low = {2, 1}, .high = {1, 2}},
     {3, 45, 60, 64},
     {64, 5, 3, 1}},
    {"groups of four",
     {.ndim = 2, .groups = 16, .low = {1, 1}, .high = {1, 1}},
     {3, 30, 42, 64},
     {64, 3, 3, 4}},
    {"flipped",
     {.ndim = 2, .groups = 1, .flip = true, .low = {1, 1}, .high = {1, 1}},
     {2, 30, 41, 32},
     {48, 3, 3, 32}},
    {"transposed",
     {.ndim = 2,
      .groups = 1,
      .flip = true,
      .low = {2, 1},
      .high = {2, 2},
      .input_dilation = {2, 2}},
     {2, 31, 40, 32},
     {24, 4, 3, 32}},
    {"one axis", {.ndim = 1, .groups = 1, .low = {2}, .high = {2}}, {3, 1100, 64}, {32, 5, 64}},
    {"three axes",
     {.ndim = 3, .groups = 1, .low = {1, 1, 1}, .high = {1, 1, 1}},
     {1, 10, 21, 20, 16},
     {16, 3, 3, 3, 16}},
};

/* The result (0) or a gradient (1, 2). */
static struct kl_array *result(const struct kl_convolution_params *p, struct kl_array *const *in,
                               int which, struct kl_stream *s) {
    struct kl_array *grad[2] = {NULL}, *y;
    if (which == 0) {
        OK(kl_convolution(&y, in[0], in[1], p, s, &err));
        return y;
    }
    const bool wanted[2] = {which == 1, which == 2};
    const struct kl_vjp v = {.op = KL_OP_CONVOLUTION,
                             .params = p,
                             .n_in = 2,
                             .n_out = 1,
                             .in = in,
                             .cotangent = in + 2,
                             .wanted = wanted,
                             .s = s};
    OK(kl_vjp_convolution(&v, grad, &err));
    return grad[which - 1];
}

static void all(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F16, KL_BF16};
    static const char *const names[] = {"result", "gradient of the input",
                                        "gradient of the filter"};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int t = 0; t < 3; t++) {
            if (!takes_case(6)) continue;
            struct kl_convolution_params p = samples[i].p;
            const int n = p.ndim;
            int x[MAX_DIMS];
            memcpy(x, samples[i].x, sizeof x);
            for (int a = 1; a <= n && strcmp(device_name(), "cuda"); a++) x[a] = (x[a] + 1) / 2;
            for (int a = 0; a < n; a++) {
                if (!p.stride[a]) p.stride[a] = 1;
                if (!p.dilation[a]) p.dilation[a] = 1;
                if (!p.input_dilation[a]) p.input_dilation[a] = 1;
            }
            struct kl_array *in[3] = {random_array(types[t], n + 2, x),
                                      random_array(types[t], n + 2, samples[i].w)},
                            *y;
            OK(kl_convolution(&y, in[0], in[1], &p, cpu_stream, &err));
            in[2] = random_array(types[t], n + 2, y->t.dims);
            const double taps = (double)in[1]->t.size / samples[i].w[0] / samples[i].w[n + 1],
                         terms[] = {taps * samples[i].w[n + 1], taps * samples[i].w[0],
                                    (double)y->t.size / samples[i].w[0]};
            for (int which = 0; which < 3; which++) {
                char what[100];
                snprintf(what, sizeof what, "%s: %s", samples[i].what, names[which]);
                struct kl_array *want = result(&p, in, which, cpu_stream);
                size_t bytes, again;
                near(want, result(&p, in, which, gpu_stream), terms[which], what);
                void *bits = bits_of(result(&p, in, which, gpu_stream), &bytes);
                for (int run = 1; run < RUNS; run++) {
                    void *other = bits_of(result(&p, in, which, gpu_stream), &again);
                    assert_int_equal(bytes, again);
                    if (memcmp(bits, other, bytes)) fail_msg("%s: other bits", what);
                    free(other);
                }
                free(bits);
                kl_array_release(want);
            }
            for (int k = 0; k < 3; k++) kl_array_release(in[k]);
            kl_array_release(y);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
