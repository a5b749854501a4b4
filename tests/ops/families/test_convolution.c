/* test_convolution.c - convolutions: golden values, random shapes against loops in double,
 * gradients, tangents, lanes, layouts, bad arguments. */
#include <limits.h>

#include "ops/golden/golden_make.h"

#include "base/op/op_params.h"
#include "ops/build/jvp.h"
#include "ops/support/vjp_support.h"

#include "ops/golden/golden_convolution.inc"

typedef struct kl_convolution_params params;

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(convolution_cases);
}

/* ---- random shapes ---- */
static uint32_t seed = 1;
static int draw(int below) {
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}
static int pick(const int *values, int n) {
    return values[draw(n)];
}
#define PICK(...) pick((int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

struct drawn {
    params p;
    int n, in[3], k[3], out[3], c, o; /* c, o: of one group */
};

/* Extents of the axes that are missing are 1. Returns false when the kernel is too large. */
static bool draw_shapes(struct drawn *d, int extents, int channels) {
    memset(d, 0, sizeof *d);
    d->p.ndim = 1 + draw(3);
    d->p.groups = PICK(1, 1, 1, 2, 3, 20);
    d->p.flip = draw(2);
    d->n = PICK(1, 1, 2, 3);
    d->c = d->p.groups == 20 ? PICK(1, 1, 2, 4, 8) : 1 + draw(channels);
    d->o = d->p.groups == 20 ? PICK(d->c, d->c, d->c, 1, 2) : 1 + draw(channels);
    for (int i = 0; i < 3; i++) d->in[i] = d->k[i] = d->out[i] = 1;
    for (int i = 0; i < d->p.ndim; i++) {
        d->in[i] = 1 + draw(d->p.ndim == 1 ? 4 * extents : extents);
        d->k[i] = PICK(1, 2, 3, 3, 5);
        d->p.stride[i] = PICK(1, 1, 2, 3, 7);
        d->p.dilation[i] = PICK(1, 1, 2, 3, 6);
        d->p.input_dilation[i] = PICK(1, 1, 1, 2, 3);
        d->p.low[i] = PICK(0, 0, 1, 2, 4, -1);
        d->p.high[i] = PICK(0, 0, 1, 2, 4, -1);
        const int there = (d->in[i] - 1) * d->p.input_dilation[i] + 1 + d->p.low[i] + d->p.high[i],
                  reach = (d->k[i] - 1) * d->p.dilation[i] + 1;
        if (there < reach) return false;
        d->out[i] = (there - reach) / d->p.stride[i] + 1;
    }
    return true;
}

/* What element (z, y, x) of the output sees through element (a, b, c) of the kernel: its number
 * among the positions of the input, or -1. */
static int seen(const struct drawn *d, const int *at, const int *tap) {
    int place = 0;
    for (int i = 0; i < d->p.ndim; i++) {
        int p = at[i] * d->p.stride[i] + tap[i] * d->p.dilation[i] - d->p.low[i];
        if (p < 0 || p % d->p.input_dilation[i] || p / d->p.input_dilation[i] >= d->in[i])
            return -1;
        place = place * d->in[i] + p / d->p.input_dilation[i];
    }
    return place;
}

/* Calls f for each product of the sums: numbers of elements of the output, of x and of w. */
static void each_product(const struct drawn *d,
                         void (*f)(void *arg, int64_t to, int64_t x, int64_t w), void *arg) {
    const int in = d->in[0] * d->in[1] * d->in[2], out = d->out[0] * d->out[1] * d->out[2],
              taps = d->k[0] * d->k[1] * d->k[2], o = d->o * d->p.groups, c = d->c * d->p.groups;
    for (int p = 0; p < out; p++)
        for (int t = 0; t < taps; t++) {
            const int at[] = {p / d->out[2] / d->out[1], p / d->out[2] % d->out[1], p % d->out[2]};
            const int tap[] = {t / d->k[2] / d->k[1], t / d->k[2] % d->k[1], t % d->k[2]};
            const int place = seen(d, at, tap), in_w = d->p.flip ? taps - 1 - t : t;
            for (int n = 0; place >= 0 && n < d->n; n++)
                for (int j = 0; j < o; j++)
                    for (int i = 0; i < d->c; i++)
                        f(arg, ((int64_t)n * out + p) * o + j,
                          ((int64_t)n * in + place) * c + j / d->o * d->c + i,
                          ((int64_t)j * taps + in_w) * d->c + i);
        }
}

struct sums {
    const double *x, *w;
    double *to, *size;
    int grad; /* 0: the output; 1, 2: the gradient of x or w for the cotangent g */
    const double *g;
};
static void add_product(void *arg, int64_t to, int64_t x, int64_t w) {
    struct sums *s = arg;
    const int64_t at = s->grad == 0 ? to : s->grad == 1 ? x : w;
    const double term =
        s->grad == 0 ? s->x[x] * s->w[w] : s->g[to] * (s->grad == 1 ? s->w[w] : s->x[x]);
    s->to[at] += term;
    s->size[at] += fabs(term);
}

/* Numbers that all float dtypes hold exactly. */
static struct kl_array *numbers(enum kl_dtype dtype, int ndim, const int *dims, double **values) {
    int64_t size;
    struct kl_array *wide, *out;
    assert_true(kl_shape_size(ndim, dims, 8, &size));
    double *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) v[i] = (draw(41) - 20) / 16.0;
    wide = array_of(KL_F64, ndim, dims, v);
    EXPECT_OK(kl_astype(&out, wide, dtype, cpu(), &err));
    kl_array_release(wide);
    *values = v;
    return out;
}

static void expect_sums(struct kl_array *a, const struct sums *s, const char *what) {
    static const double eps[] = {
        [KL_F16] = 0x1p-10, [KL_BF16] = 0x1p-7, [KL_F32] = 0x1p-20, [KL_F64] = 0x1p-48};
    struct kl_array *wide;
    const enum kl_dtype d = (enum kl_dtype)a->t.dtype;
    EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
    double *v = values_of(wide);
    for (int64_t i = 0; i < a->t.size; i++) /* 16-bit results are rounded once */
        if (!(fabs(v[i] - s->to[i]) <= eps[d] * fabs(s->to[i]) + 0x1p-20 * s->size[i]))
            fail_msg("%s of %s: element %lld is %g, not %g", what, kl_dtype_name(d), (long long)i,
                     v[i], s->to[i]);
    free(v);
    kl_array_release(wide);
}

static void check(const struct drawn *d, enum kl_dtype dtype) {
    int xd[5] = {d->n}, wd[5] = {d->o * d->p.groups}, od[5] = {d->n}, nd = d->p.ndim;
    for (int i = 0; i < nd; i++) {
        xd[1 + i] = d->in[i];
        wd[1 + i] = d->k[i];
        od[1 + i] = d->out[i];
    }
    xd[1 + nd] = d->c * d->p.groups;
    wd[1 + nd] = d->c;
    od[1 + nd] = wd[0];
    struct sums s = {0};
    double *xv, *wv, *gv;
    struct kl_array *x = numbers(dtype, nd + 2, xd, &xv), *w = numbers(dtype, nd + 2, wd, &wv),
                    *g = numbers(dtype, nd + 2, od, &gv), *out, *grad[2] = {NULL};
    if (draw(2)) x = strided(x);
    if (draw(2)) w = strided(w);
    EXPECT_OK(kl_convolution(&out, x, w, &d->p, cpu(), &err));
    expect_shape(out, nd + 2, od);
    s.x = xv;
    s.w = wv;
    s.g = gv;
    struct kl_vjp v = {.op = KL_OP_CONVOLUTION,
                       .params = &d->p,
                       .n_in = 2,
                       .n_out = 1,
                       .in = (struct kl_array *[]){x, w},
                       .out = &out,
                       .cotangent = &g,
                       .wanted = (bool[]){true, true},
                       .s = cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_CONVOLUTION)(&v, grad, &err));
    for (s.grad = 0; s.grad < 3; s.grad++) {
        struct kl_array *a = s.grad == 0 ? out : grad[s.grad - 1];
        s.to = calloc((size_t)a->t.size + 1, sizeof(double));
        s.size = calloc((size_t)a->t.size + 1, sizeof(double));
        each_product(d, add_product, &s);
        expect_sums(a, &s,
                    s.grad == 0   ? "convolution"
                    : s.grad == 1 ? "the gradient of the input"
                                  : "the gradient of the weight");
        free(s.to);
        free(s.size);
    }
    struct kl_array *all[] = {x, w, g, out, grad[0], grad[1]};
    for (int i = 0; i < 6; i++) kl_array_release(all[i]);
    free(xv);
    free(wv);
    free(gv);
}

static void random_shapes(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_F16, KL_BF16};
    struct drawn d;
    seed = 7;
    for (int done = 0; done < 300;)
        if (draw_shapes(&d, 9, 5)) check(&d, dtypes[done++ % 4]);
}

/* Few output channels of whole vectors of input channels, whose sums are kept in lanes. */
static void few_outputs(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    struct drawn d;
    seed = 11;
    for (int done = 0; done < 90;) {
        if (!draw_shapes(&d, 6, 1)) continue;
        d.p.groups = PICK(1, 1, 2);
        d.c = 16 * PICK(1, 2, 5);
        d.o = PICK(1, 1, 2, 5, 8);
        check(&d, dtypes[done++ % 3]);
    }
}

/* Channels that are groups, in lines of positions whose ends see padding. Their numbers are whole
 * vectors, or leave a part of one. */
static void channels_apart(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_F32, KL_BF16};
    struct drawn d;
    seed = 17;
    for (int done = 0; done < 60;) {
        if (!draw_shapes(&d, 26, 1)) continue;
        d.p.groups = PICK(2, 5, 17, 32, 36, 64, 83, 300);
        d.c = d.o = 1;
        const int64_t work =
            (int64_t)d.n * d.out[0] * d.out[1] * d.out[2] * d.k[0] * d.k[1] * d.k[2] * d.p.groups;
        if (work < 1 << 19) check(&d, dtypes[done++ % 4]);
    }
}

/* Weights with many channels on both sides, whose gradient is computed by products: of views of the
 * padded input where its padding is small and nothing has a stride, else of copies. */
static void wide_weights(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_BF16};
    struct drawn d;
    seed = 13;
    for (int done = 0; done < 60;) {
        if (!draw_shapes(&d, 14, 1)) continue;
        const bool plain = draw(3) > 0;
        int64_t positions = d.n;
        d.p.groups = 1;
        d.c = PICK(32, 33, 40, 3, 8);
        d.o = PICK(32, 35);
        for (int i = 0; i < d.p.ndim; i++) {
            if (plain) {
                d.p.stride[i] = d.p.dilation[i] = d.p.input_dilation[i] = 1;
                d.p.flip = false;
                d.k[i] = d.p.ndim == 3 ? PICK(1, 2) : PICK(1, 2, 3);
                d.p.low[i] = PICK(0, 0, 1);
                d.p.high[i] = PICK(0, 1, -1);
                d.out[i] = d.in[i] + d.p.low[i] + d.p.high[i] - d.k[i] + 1;
            }
            positions = d.out[i] > 0 ? positions * d.out[i] : 0;
        }
        if (positions > 64 && positions < 600) check(&d, dtypes[done++ % 3]);
    }
}

/* Many channels and large kernels are added in parts; blocks have several tiles and edges. */
static void parts(void **state) {
    static const struct drawn cases[] = {
        /* an element among zeros, under one element of a larger kernel: a product */
        {{1, 1, 1, {1}, {0}, {1}, {1}, {2}}, 3, {1, 1, 1}, {2, 1, 1}, {1, 1, 1}, 5, 2},
        {{2, 1, 0, {1, 1}, {-1, 0}, {2, 1}, {1, 1}, {3, 2}},
         3,
         {1, 1, 1},
         {2, 2, 1},
         {1, 1, 1},
         5,
         2},
        {{1, 1, 0, {1}, {2}, {2}, {1}, {1}}, 1, {150, 1, 1}, {5, 1, 1}, {150, 1, 1}, 130, 40},
        {{2, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
         1,
         {9, 17, 1},
         {3, 3, 1},
         {9, 17, 1},
         130,
         5},
        {{1, 1, 0, {3}, {0}, {0}, {1}, {1}}, 1, {1700, 1, 1}, {1500, 1, 1}, {67, 1, 1}, 1, 3},
        {{2, 1, 0, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
         70,
         {5, 5, 1},
         {3, 3, 1},
         {3, 3, 1},
         2,
         3},
        {{2, 600, 0, {1, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
         1,
         {6, 5, 1},
         {3, 3, 1},
         {6, 3, 1},
         1,
         1},
        /* the gradient of its weight has a long kernel, added in parts */
        {{2, 130, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
         3,
         {30, 17, 1},
         {3, 3, 1},
         {30, 17, 1},
         1,
         1},
        {{1, 20, 0, {1}, {0}, {0}, {1}, {1}}, 2, {200, 1, 1}, {150, 1, 1}, {51, 1, 1}, 1, 1},
        {{2, 1, 0, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
         2,
         {30, 10, 1},
         {1, 1, 1},
         {30, 10, 1},
         33,
         70},
        {{2, 1, 0, {1, 1}, {1, 0}, {1, 0}, {1, 1}, {1, 1}},
         1,
         {40, 1, 1},
         {3, 1, 1},
         {40, 1, 1},
         8,
         600},
        {{2, 1, 0, {100, 1}, {0, 0}, {0, 0}, {1, 90}, {1, 1}},
         1,
         {301, 190, 1},
         {2, 3, 1},
         {3, 10, 1},
         1,
         3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], KL_F32);
        if (cases[i].in[0] < 1000) check(&cases[i], KL_BF16);
    }
}

/* ---- nothing to do ---- */
static void empty(void **state) {
    struct kl_array *x, *w, *out, *none = F32(SHAPE(0, 8, 4), 0), *short_x = F32(SHAPE(2, 0, 4), 0);
    EXPECT_OK(kl_ones(&w, LIST(6, 3, 4), KL_F32, cpu(), &err));
    const struct kl_conv_list one = {NULL, 0}, two = {(const int[]){2}, 1};
    EXPECT_OK(kl_conv_general(&out, none, w, one, one, one, one, one, 1, false, cpu(), &err));
    expect_shape(out, SHAPE(0, 6, 6));
    kl_array_release(out);
    EXPECT_OK(kl_conv_general(&out, short_x, w, one, two, two, one, one, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2, 6), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
               0, 0, 0);
    EXPECT_FAIL(KL_ESHAPE,
                kl_conv_general(&out, short_x, w, one, one, one, one, one, 1, false, cpu(), &err));
    kl_array_release(w);
    /* no input channels: sums without terms; no output channels */
    EXPECT_OK(kl_zeros(&x, LIST(1, 4, 0), KL_F32, cpu(), &err));
    EXPECT_OK(kl_zeros(&w, LIST(2, 3, 0), KL_F32, cpu(), &err));
    EXPECT_OK(kl_conv_general(&out, x, w, one, one, one, one, one, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 2, 2), 0, 0, 0, 0);
    kl_array_release(w);
    EXPECT_OK(kl_zeros(&w, LIST(0, 3, 0), KL_F32, cpu(), &err));
    EXPECT_OK(kl_conv_general(&out, x, w, one, one, one, one, one, 1, false, cpu(), &err));
    expect_shape(out, SHAPE(1, 2, 0));
    struct kl_array *used[] = {x, w, out, none, short_x};
    for (int i = 0; i < 5; i++) kl_array_release(used[i]);
}

/* ---- tangents ---- */
static void tangents(void **state) {
    struct kl_array *x = F32(SHAPE(1, 3, 1), 1, 2, 3), *w = F32(SHAPE(1, 2, 1), 1, 10),
                    *dx = F32(SHAPE(1, 3, 1), 1, 0, 1), *dw = F32(SHAPE(1, 2, 1), 0, 1), *out;
    const params p = {
        .ndim = 1, .groups = 1, .stride = {1}, .dilation = {1}, .input_dilation = {1}};
    struct kl_array *in[] = {x, w};
    EXPECT_OK(kl_convolution(&out, x, w, &p, cpu(), &err));
    for (int which = 1; which < 4; which++) {
        struct kl_array *tangent[] = {which & 1 ? dx : NULL, which & 2 ? dw : NULL}, *got = NULL;
        const struct kl_jvp j = {.op = KL_OP_CONVOLUTION,
                                 .params = &p,
                                 .params_bytes = sizeof p,
                                 .n_in = 2,
                                 .in = in,
                                 .out = out,
                                 .tangent = tangent,
                                 .s = cpu()};
        EXPECT_OK(kl_jvp_rule(KL_OP_CONVOLUTION)(&j, &got, &err));
        const int x_part = which & 1, w_part = which >> 1;
        EXPECT_F32(got, SHAPE(1, 2, 1), (float)(x_part * 1 + w_part * 2),
                   (float)(x_part * 10 + w_part * 3));
    }
    struct kl_array *used[] = {x, w, dx, dw, out};
    for (int i = 0; i < 5; i++) kl_array_release(used[i]);
}

/* ---- bad arguments ---- */
static void bad(void **state) {
    struct kl_array *x, *w, *i, *c, *thin, *none, *part, *out;
    const int one[] = {1, 1, 1, 1}, zero[] = {0, 0, 0, 0}, two[] = {2, 2}, minus[] = {-1, -1},
              big[] = {INT_MAX, INT_MAX}, four[] = {4, 4};
    EXPECT_OK(kl_ones(&x, LIST(2, 8, 4), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&w, LIST(6, 3, 4), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&part, LIST(6, 3, 2), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&i, LIST(6, 3, 4), KL_I32, cpu(), &err));
    EXPECT_OK(kl_ones(&c, LIST(6, 3, 4), KL_C64, cpu(), &err));
    EXPECT_OK(kl_ones(&thin, LIST(6, 4), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&none, LIST(6, 0, 4), KL_F32, cpu(), &err));
#define CONV(code, x, w, s, p, d, g) \
    EXPECT_FAIL(code, kl_conv(&out, x, w, 1, s, p, d, g, cpu(), &err))
    CONV(KL_EARG, NULL, w, one, zero, one, 1);
    CONV(KL_EARG, x, NULL, one, zero, one, 1);
    EXPECT_FAIL(KL_EARG, kl_conv(&out, x, w, 1, one, zero, one, 1, NULL, &err));
    CONV(KL_EDTYPE, x, i, one, zero, one, 1);
    CONV(KL_EDTYPE, i, w, one, zero, one, 1);
    CONV(KL_EDTYPE, x, c, one, zero, one, 1);
    CONV(KL_ESHAPE, thin, w, one, zero, one, 1);
    CONV(KL_ESHAPE, x, thin, one, zero, one, 1);
    CONV(KL_ESHAPE, x, none, one, zero, one, 1);
    CONV(KL_ESHAPE, x, part, one, zero, one, 1);
    CONV(KL_ESHAPE, x, w, one, zero, one, 2);
    CONV(KL_ESHAPE, x, part, one, zero, one, 3); /* 4 channels in 3 groups */
    CONV(KL_ESHAPE, x, w, one, zero, four, 1);
    CONV(KL_ESHAPE, x, w, one, (const int[]){-5}, one, 1);
    CONV(KL_ESHAPE, x, w, one, (const int[]){-3}, one, 1);
    CONV(KL_EARG, x, w, zero, zero, one, 1);
    CONV(KL_EARG, x, w, minus, zero, one, 1);
    CONV(KL_EARG, x, w, one, zero, zero, 1);
    CONV(KL_EARG, x, w, one, zero, one, 0);
    CONV(KL_EARG, x, w, one, zero, one, -1);
    CONV(KL_ELIMIT, x, w, one, big, one, 1);
    CONV(KL_ELIMIT, x, w, one, zero, big, 1);
    EXPECT_FAIL(KL_ESHAPE, kl_conv(&out, x, w, 2, one, zero, one, 1, cpu(), &err));
    const struct kl_conv_list all = {NULL, 0}, pair = {two, 2}, wrong = {NULL, 1};
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, pair, all, all, all, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, all, pair, all, all, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, all, all, pair, all, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, all, all, all, pair, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, all, all, all, all, pair, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_conv_general(&out, x, w, wrong, all, all, all, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_conv_general(&out, x, w, all, all, all, all,
                                         (struct kl_conv_list){zero, 1}, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_conv_general(&out, thin, w, all, all, all, all, all, 1, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_conv_transpose(&out, x, w, 1, zero, zero, one, zero, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_conv_transpose(&out, x, w, 1, one, zero, zero, zero, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_conv_transpose(&out, x, w, 1, one, (const int[]){9}, one, zero, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_conv_transpose(&out, x, thin, 1, one, zero, one, zero, 1, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_conv_transpose(&out, x, w, 1, one, minus, big, big, 1, cpu(), &err));
    params p = {.ndim = 4, .groups = 1};
    EXPECT_FAIL(KL_ESHAPE, kl_convolution(&out, x, w, &p, cpu(), &err));
    p.ndim = 0;
    EXPECT_FAIL(KL_ESHAPE, kl_convolution(&out, x, w, &p, cpu(), &err));
    struct kl_array *used[] = {x, w, i, c, thin, none, part};
    for (int k = 0; k < 7; k++) kl_array_release(used[k]);
}

/* ---- the gradient of the weight as an operation of its own ---- */

/* <a, b> in double. */
static double inner(struct kl_array *a, struct kl_array *b) {
    double *v = values_of(a), *w = values_of(b), sum = 0;
    assert_int_equal(a->t.size, b->t.size);
    for (int64_t i = 0; i < a->t.size; i++) sum += v[i] * w[i];
    free(v);
    free(w);
    return sum;
}

/* For any a of the shape of the weight: <convolution(x, a), g> = <a, backward(x, g)>; and its own
 * gradients and tangents, which are linear in each operand: with them as the second operand, both
 * sides are the same number again. */
static void backward_is_adjoint(void **state) {
    struct drawn d;
    seed = 11;
    for (int done = 0; done < 60;) {
        if (!draw_shapes(&d, 7, 10)) continue;
        done++;
        const int nd = d.p.ndim;
        int xd[5] = {d.n}, wd[5] = {d.o * d.p.groups}, gd[5] = {d.n};
        for (int i = 0; i < nd; i++) {
            xd[1 + i] = d.in[i];
            wd[1 + i] = d.k[i];
            gd[1 + i] = d.out[i];
        }
        xd[1 + nd] = d.c * d.p.groups;
        wd[1 + nd] = d.c;
        gd[1 + nd] = wd[0];
        double *v[3];
        struct kl_array *in[] = {numbers(KL_F64, nd + 2, xd, &v[0]),
                                 numbers(KL_F64, nd + 2, gd, &v[1])},
                        *a = numbers(KL_F64, nd + 2, wd, &v[2]), *y, *back, *grad[2] = {NULL};
        if (draw(2)) in[0] = strided(in[0]);
        if (draw(2)) in[1] = strided(in[1]);
        EXPECT_OK(kl_convolution(&y, in[0], a, &d.p, cpu(), &err));
        EXPECT_OK(kl_convolution_backward(&back, in[0], in[1], &d.p, d.k, cpu(), &err));
        expect_shape(back, nd + 2, wd);
        const double want = inner(y, in[1]), bound = 1e-12 * (double)y->t.size;
        assert_true(fabs(inner(a, back) - want) <= bound);
        struct kl_convolution_backward_params p = {.of = d.p};
        for (int i = 0; i < nd; i++) p.k[i] = d.k[i];
        const struct kl_vjp vjp = {.op = KL_OP_CONVOLUTION_BACKWARD,
                                   .params = &p,
                                   .n_in = 2,
                                   .n_out = 1,
                                   .in = in,
                                   .out = &back,
                                   .cotangent = &a,
                                   .wanted = (bool[]){true, true},
                                   .s = cpu()};
        EXPECT_OK(kl_vjp_rule(KL_OP_CONVOLUTION_BACKWARD)(&vjp, grad, &err));
        for (int i = 0; i < 2; i++) {
            expect_shape(grad[i], nd + 2, in[i]->t.dims);
            assert_true(fabs(inner(grad[i], in[i]) - want) <= bound);
        }
        for (int which = 1; which < 4; which++) { /* along the operands themselves */
            struct kl_array *tangent[] = {which & 1 ? in[0] : NULL, which & 2 ? in[1] : NULL},
                            *got = NULL;
            const struct kl_jvp j = {.op = KL_OP_CONVOLUTION_BACKWARD,
                                     .params = &p,
                                     .params_bytes = sizeof p,
                                     .n_in = 2,
                                     .in = in,
                                     .out = back,
                                     .tangent = tangent,
                                     .s = cpu()};
            EXPECT_OK(kl_jvp_rule(KL_OP_CONVOLUTION_BACKWARD)(&j, &got, &err));
            assert_true(fabs(inner(got, a) - (which == 3 ? 2 : 1) * want) <= 2 * bound);
            kl_array_release(got);
        }
        struct kl_array *all[] = {in[0], in[1], a, y, back, grad[0], grad[1]};
        for (int i = 0; i < 7; i++) kl_array_release(all[i]);
        for (int i = 0; i < 3; i++) free(v[i]);
    }
}

/* Padding is multiplied: by an infinity it is NaN. Batches without elements give zeros. */
static void backward_of_little(void **state) {
    struct kl_array *x = F32(SHAPE(1, 2, 1), 1, 2), *g = F32(SHAPE(1, 3, 1), INFINITY, 1, 1),
                    *none = F32(SHAPE(0, 2, 1), 0), *nothing = F32(SHAPE(0, 3, 1), 0), *out;
    const params p = {.ndim = 1,
                      .groups = 1,
                      .stride = {1},
                      .low = {1},
                      .high = {1},
                      .dilation = {1},
                      .input_dilation = {1}};
    const int k = 2;
    EXPECT_OK(kl_convolution_backward(&out, x, g, &p, &k, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 2, 1), NAN, INFINITY);
    EXPECT_OK(kl_convolution_backward(&out, none, nothing, &p, &k, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 2, 1), 0, 0);
    struct kl_array *used[] = {x, g, none, nothing};
    for (int i = 0; i < 4; i++) kl_array_release(used[i]);
}

static void bad_backward(void **state) {
    struct kl_array *x, *g, *i, *thin, *others, *out;
    const params good = {
        .ndim = 1, .groups = 2, .stride = {2}, .dilation = {1}, .input_dilation = {1}};
    const int k = 3, none = 0, many = INT_MAX;
    EXPECT_OK(kl_ones(&x, LIST(2, 9, 4), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&g, LIST(2, 4, 6), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&i, LIST(2, 4, 6), KL_I32, cpu(), &err));
    EXPECT_OK(kl_ones(&thin, LIST(2, 4), KL_F32, cpu(), &err));
    EXPECT_OK(kl_ones(&others, LIST(1, 4, 6), KL_F32, cpu(), &err));
#define BACK(code, x, g, p, k) \
    EXPECT_FAIL(code, kl_convolution_backward(&out, x, g, p, k, cpu(), &err))
    BACK(KL_EARG, NULL, g, &good, &k);
    BACK(KL_EARG, x, NULL, &good, &k);
    EXPECT_FAIL(KL_EARG, kl_convolution_backward(&out, x, g, &good, &k, NULL, &err));
    BACK(KL_EDTYPE, x, i, &good, &k);
    BACK(KL_EDTYPE, i, g, &good, &k);
    BACK(KL_ESHAPE, thin, g, &good, &k);
    BACK(KL_ESHAPE, x, thin, &good, &k);
    BACK(KL_ESHAPE, x, others, &good, &k); /* another batch */
    BACK(KL_ESHAPE, x, g, &good, &none);
    BACK(KL_ESHAPE, x, g, &good, (const int[]){5}); /* 3 positions */
    BACK(KL_ESHAPE, x, g, &good, (const int[]){10});
    params p = good;
    p.groups = 4; /* of 6 output channels */
    BACK(KL_ESHAPE, x, g, &p, &k);
    p.groups = 0;
    BACK(KL_EARG, x, g, &p, &k);
    p = good;
    p.stride[0] = 0;
    BACK(KL_EARG, x, g, &p, &k);
    p = good;
    p.ndim = 4;
    BACK(KL_ESHAPE, x, g, &p, &k);
    p = good;
    p.low[0] = p.high[0] = INT_MAX;
    BACK(KL_ELIMIT, x, g, &p, &k);
    p = good;
    p.dilation[0] = 2;
    BACK(KL_ELIMIT, x, g, &p, &many);
    struct kl_array *used[] = {x, g, i, thin, others};
    for (int n = 0; n < 5; n++) kl_array_release(used[n]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden),
                                       cmocka_unit_test(random_shapes),
                                       cmocka_unit_test(few_outputs),
                                       cmocka_unit_test(channels_apart),
                                       cmocka_unit_test(wide_weights),
                                       cmocka_unit_test(parts),
                                       cmocka_unit_test(empty),
                                       cmocka_unit_test(tangents),
                                       cmocka_unit_test(bad),
                                       cmocka_unit_test(backward_is_adjoint),
                                       cmocka_unit_test(backward_of_little),
                                       cmocka_unit_test(bad_backward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
