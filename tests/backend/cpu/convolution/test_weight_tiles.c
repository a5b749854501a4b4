/* test_weight_tiles.c - the gradient of a convolution's weight in tiles of a product: whole
 * numbers, so that sums are exact in any order, against plain loops, in all variants. */
#include "backend/cpu/kernel_support.h"
#include "base/number/half.h"

enum { AXES = 3 };
enum layout { ROWS, CHANNELS_FIRST, WIDE_ROWS };

struct shape {
    int n, c, o, in[AXES], k[AXES], stride[AXES], dilation[AXES], low[AXES], high[AXES];
    enum kl_dtype dtype;
    enum layout layout;
    bool flip;
};

static uint64_t seed = 1;
static int draw(int below) {
    return (int)((kl_test_random(&seed) >> 33) % (uint64_t)below);
}
static int pick(const int *values, int n) {
    return values[draw(n)];
}
#define PICK(...) pick((int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

static float get(const void *data, enum kl_dtype dtype, int64_t i) {
    const uint16_t *half = data;
    if (dtype == KL_F32) return ((const float *)data)[i];
    return dtype == KL_F16 ? kl_f16_load(half[i]) : kl_bf16_load(half[i]);
}
static void set(void *data, enum kl_dtype dtype, int64_t i, float v) {
    uint16_t *half = data;
    if (dtype == KL_F32)
        ((float *)data)[i] = v;
    else
        half[i] = dtype == KL_F16 ? kl_f16_store(v) : kl_bf16_store(v);
}

/* An operand of (n, axes, channels) with whole numbers of at most 2 in magnitude. */
static void *make(struct operand *o, const struct shape *s, int channels, const int *axes) {
    int dims[MAX_DIMS] = {s->n, axes[0], axes[1], axes[2], channels};
    int64_t strides[MAX_DIMS], size = 1;
    const int row = s->layout == WIDE_ROWS ? channels + 3 : channels;
    const int order[2][MAX_DIMS] = {{4, 3, 2, 1, 0}, {3, 2, 1, 4, 0}};
    for (int i = 0; i < MAX_DIMS; i++) {
        const int at = order[s->layout == CHANNELS_FIRST][i];
        strides[at] = size;
        size *= at == 4 ? row : dims[at];
    }
    const size_t item = kl_dtype_size(s->dtype);
    char *data = malloc((size_t)size * item);
    for (int64_t i = 0; i < size; i++) set(data, s->dtype, i, (float)(draw(5) - 2));
    strided_operand(o, data, s->dtype, MAX_DIMS, dims, strides);
    return data;
}

/* The sum for one element of the weight. */
static double wanted(const struct shape *s, const struct operand *x, const struct operand *g,
                     const int *out, const int *tap, int channel, int o) {
    double sum = 0;
    for (int n = 0; n < s->n; n++)
        for (int p = 0; p < out[0] * out[1] * out[2]; p++) {
            const int at[AXES] = {p / out[2] / out[1], p / out[2] % out[1], p % out[2]};
            int64_t from = n * x->strides[0] + channel * x->strides[4],
                    to = n * g->strides[0] + o * g->strides[4];
            bool inside = true;
            for (int i = 0; i < AXES; i++) {
                const int seen = at[i] * s->stride[i] + tap[i] * s->dilation[i] - s->low[i];
                inside = inside && seen >= 0 && seen < s->in[i];
                from += seen * x->strides[1 + i];
                to += at[i] * g->strides[1 + i];
            }
            if (inside) sum += get(x->arg.data, s->dtype, from) * get(g->arg.data, s->dtype, to);
        }
    return sum;
}

/* Computes the gradient in every variant and compares `some` of its elements, or all (0). */
static void compare(const struct shape *s, int some) {
    int out[AXES], taps = 1;
    struct kl_convolution_backward_params p = {.of = {.ndim = AXES, .groups = 1, .flip = s->flip}};
    for (int i = 0; i < AXES; i++) {
        const int reach = (s->k[i] - 1) * s->dilation[i] + 1,
                  there = s->in[i] + s->low[i] + s->high[i];
        if (there < reach) return;
        out[i] = (there - reach) / s->stride[i] + 1;
        p.k[i] = s->k[i];
        p.of.stride[i] = s->stride[i];
        p.of.dilation[i] = s->dilation[i];
        p.of.low[i] = s->low[i];
        p.of.high[i] = s->high[i];
        p.of.input_dilation[i] = 1;
        taps *= s->k[i];
    }
    struct operand x, g, w;
    void *from = make(&x, s, s->c, s->in), *by = make(&g, s, s->o, out);
    const size_t item = kl_dtype_size(s->dtype);
    char *grad = malloc((size_t)(s->o * taps * s->c) * item);
    dense(&w, grad, s->dtype, DIMS(s->o, s->k[0], s->k[1], s->k[2], s->c));
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        memset(grad, 0x55, (size_t)(s->o * taps * s->c) * item);
        RUN(KL_OP_CONVOLUTION_BACKWARD, &p, &w, IN(&x, &g), v % 2 == 0);
        const int all = s->o * taps * s->c;
        for (int i = 0; i < (some ? some : all); i++) {
            const int at = some ? draw(all) : i, t = at / s->c % taps;
            int tap[AXES] = {t / s->k[2] / s->k[1], t / s->k[2] % s->k[1], t % s->k[2]};
            for (int k = 0; k < AXES && s->flip; k++) tap[k] = s->k[k] - 1 - tap[k];
            float want, sum = (float)wanted(s, &x, &g, out, tap, at % s->c, at / s->c / taps);
            set(&want, s->dtype, 0, sum);
            want = get(&want, s->dtype, 0);
            if (get(grad, s->dtype, at) != want)
                fail_msg("variant %d, %d channels to %d, element %d: %g, not %g", v, s->c, s->o, at,
                         get(grad, s->dtype, at), want);
        }
    }
    kl_cpu_use_variant(-1);
    free(from);
    free(by);
    free(grad);
}

static void random_shapes(void **state) {
    for (int i = 0; i < 150; i++) {
        struct shape s = {.n = PICK(1, 2, 3),
                          .c = PICK(1, 2, 3, 5, 16, 40),
                          .o = PICK(1, 3, 8, 9, 31, 32, 64, 70),
                          .dtype = (enum kl_dtype)PICK(KL_F32, KL_F32, KL_BF16, KL_F16),
                          .layout = (enum layout)PICK(ROWS, ROWS, CHANNELS_FIRST, WIDE_ROWS),
                          .flip = draw(4) == 0};
        const int first = draw(AXES);
        for (int k = 0; k < AXES; k++) {
            const bool flat = k < first;
            s.in[k] = flat ? 1 : 1 + draw(k == 2 ? 12 : 5);
            s.k[k] = flat ? 1 : PICK(1, 2, 3, 3, 4);
            s.stride[k] = flat ? 1 : PICK(1, 1, 2, 3);
            s.dilation[k] = flat ? 1 : PICK(1, 1, 2);
            s.low[k] = flat ? 0 : PICK(0, 1, 2, 5, -1);
            s.high[k] = flat ? 0 : PICK(0, 1, 2, 5, -1);
        }
        compare(&s, 60);
    }
}

/* Blocks of rows and columns, parts that are joined, rows that are copied in stretches, and parts
 * so long that their sums are totals of blocks. */
static void large_shapes(void **state) {
    const enum kl_dtype F = KL_F32, B = KL_BF16;
    const struct shape shapes[] = {
        {1, 150, 130, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, F, ROWS, 0},
        {2, 64, 64, {1, 40, 40}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, F, ROWS, 0},
        {1, 2100, 16, {1, 3, 9}, {1, 1, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}, {0, 0, 1}, B, ROWS, 0},
        {1, 1, 8, {1, 370, 370}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}, {0, 0, 0}, F, ROWS, 0},
        {1, 3, 40, {1, 1, 9000}, {1, 1, 7}, {1, 1, 2}, {1, 1, 1}, {0, 0, 3}, {0, 0, 3}, F, ROWS, 0},
        {3, 9, 12, {6, 7, 8}, {2, 3, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {0, 1, 1}, F, ROWS, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) compare(&shapes[i], 25);
}

static void no_memory(void **state) {
    float x[2 * 600] = {0}, g[600 * 8] = {0}, w[2 * 8];
    struct operand a, b, c;
    struct kl_convolution_backward_params p = {
        .of = {.ndim = 1, .groups = 1, .stride = {1}, .dilation = {1}, .input_dilation = {1}},
        .k = {1}};
    dense(&a, x, KL_F32, DIMS(2, 300, 2));
    dense(&b, g, KL_F32, DIMS(2, 300, 8));
    dense(&c, w, KL_F32, DIMS(8, 1, 2));
    struct kl_arg in[2] = {a.arg, b.arg};
    int refused = 0;
    for (int n = 0;; n++) {
        struct kl_error *e = NULL;
        struct kl_launch l = {.op = KL_OP_CONVOLUTION_BACKWARD,
                              .params = &p,
                              .n_in = 2,
                              .n_out = 1,
                              .in = in,
                              .out = &c.arg,
                              .err = &e};
        kl_test_fail_alloc_at(n);
        const int rc = kl_cpu_kernel(l.op)(&l);
        const bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (!failed) {
            assert_int_equal(rc, KL_OK);
            break;
        }
        assert_int_equal(rc, KL_ENOMEM);
        kl_error_release(e);
        refused++;
    }
    assert_true(refused > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_shapes),
                                       cmocka_unit_test(large_shapes), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
