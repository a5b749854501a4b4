/* quantize.c - QUANTIZE and DEQUANTIZE, by groups, in float32. Codes and scales are those of MLX
 * in all bits, also for groups with NaN and infinity. There a scale of mxfp4 and mxfp8 is no
 * number; its code is the one that MLX's conversion gives. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/codes.h"

/* ---- quantize ---- */

struct quantize {
    const struct kl_launch *l;
    const struct kl_quantize_params *p;
    enum kl_dtype dtype;  /* of w */
    int64_t groups, each; /* in all, and in one task */
    float global, back;   /* the factors of nvfp4: 2688 / global scale, and its inverse */
    bool has_global;
};

/* The scale and bias of a quantized group. */
struct group {
    float scale, bias; /* affine */
    uint8_t code;      /* of the scale, else */
    uint8_t codes[KL_MOST_GROUP];
};

/* x, rounded to dtype. */
static __attribute__((noinline)) float in_dtype(enum kl_dtype dtype, float x) {
    if (dtype == KL_F16) return kl_f16_load(kl_f16_store(x));
    if (dtype == KL_BF16) return kl_bf16_load(kl_bf16_store(x));
    return x;
}

/* The scale is chosen so that the edge that is further from zero is met exactly. Comparisons with
 * NaN are false, so that a NaN is left out of the extremes and gets the code 0. */
static void quantize_affine(const struct quantize *q, const float *w, struct group *out) {
    const int n = q->p->format.group_size;
    const float top = (float)((1 << q->p->format.bits) - 1);
    float high = -__builtin_inff(), low = __builtin_inff();
    for (int i = 0; i < n; i++) {
        high = high < w[i] ? w[i] : high;
        low = w[i] < low ? w[i] : low;
    }
    const bool below = __builtin_fabsf(low) > __builtin_fabsf(high);
    const float step = (high - low) / top, least = step < 1e-7f ? 1e-7f : step;
    const float edge = below ? low : high;
    float scale = below ? least : -least, bias = 0;
    const float steps = __builtin_rintf(edge / scale);
    if (steps != 0) {
        scale = edge / steps;
        bias = edge;
    }
    out->scale = scale;
    out->bias = bias;
    for (int i = 0; i < n; i++) {
        float code = __builtin_rintf((w[i] - bias) / scale);
        code = code < 0 ? 0 : code > top ? top : code;
        out->codes[i] = code == code ? (uint8_t)code : 0;
    }
}

/* The nearest of the numbers of e2m1; in the middle of two the smaller one, and 0 for infinity and
 * NaN. Distances are compared in float32, so that far beyond 6, where they are equal, the smallest
 * number wins. */
static __attribute__((noinline)) uint8_t e2m1_of(float x) {
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float m = __builtin_fabsf(x);
    uint8_t best = 0;
    float least = m;
    for (uint8_t i = 1; i < 8; i++) {
        const float d = __builtin_fabsf(m - values[i]);
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best && x < 0 ? best | 8 : best;
}

/* The exponent of the smallest power of two that is not below x, which is positive and finite. */
static int ceil_log2(float x) {
    int e;
    const float fraction = __builtin_frexpf(x, &e);
    return fraction == 0.5f ? e - 1 : e;
}

/* The largest magnitude of the group, or NaN where the group has one. */
static float largest(const float *w, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) {
        const float m = __builtin_fabsf(w[i]);
        most = most < m || m != m ? m : most;
        if (most != most) return most;
    }
    return most;
}

static void quantize_mx(const struct quantize *q, const float *w, struct group *out) {
    const int n = q->p->format.group_size;
    const bool wide = kl_quant_numbers_are(q->p->format.mode, KL_NUMBERS_E4M3);
    const float scale = in_dtype(q->dtype, largest(w, n) / (wide ? 448.0f : 6.0f));
    if (!(scale <= 3.4028234664e38f)) {
        out->code = q->dtype == KL_F32 ? 128 : 0;
        for (int i = 0; i < n; i++)
            out->codes[i] = !wide ? 0 : kl_f32_bits(w[i]) >> 31 ? 0xfe : 0x7e;
        return;
    }
    int e = scale == 0 ? 0 : ceil_log2(scale);
    if (e < -127) e = -127;
    out->code = (uint8_t)(e + 127);
    const float power = kl_e8m0_value(out->code);
    for (int i = 0; i < n; i++)
        out->codes[i] = wide ? kl_e4m3_store(w[i] / power) : e2m1_of(w[i] / power);
}

static void quantize_nv(const struct quantize *q, const float *w, struct group *out) {
    const int n = q->p->format.group_size;
    float scale = in_dtype(q->dtype, largest(w, n) / 6);
    if (q->has_global) scale *= q->global;
    out->code = scale != scale ? 0x7e : kl_e4m3_store(scale);
    const float value = kl_e4m3_value(out->code);
    for (int i = 0; i < n; i++) {
        float x = in_dtype(q->dtype, w[i] / value);
        if (q->has_global) x *= q->global;
        out->codes[i] = value == 0 ? 0 : e2m1_of(x);
    }
}

/* The numbers that the codes of a group stand for. */
static void values_of_group(const struct quantize *q, const struct group *g, float *to) {
    const struct kl_quant_format *f = &q->p->format;
    const bool affine = kl_quant_has_biases(f->mode);
    float scale = affine                                         ? g->scale
                  : kl_quant_scales_are(f->mode, KL_SCALES_E4M3) ? kl_e4m3_value(g->code)
                                                                 : kl_e8m0_value(g->code);
    if (q->has_global) scale *= q->back;
    kl_codes_numbers(f, f->group_size, g->codes, scale, affine ? g->bias : 0, to);
}

static void quantize_task(void *arg, int64_t task) {
    const struct quantize *q = arg;
    const struct kl_quant_format *f = &q->p->format;
    const struct kl_arg *out = q->l->out;
    const int n = f->group_size, item = (int)kl_dtype_size(out->dtype);
    const int64_t end = kl_min64((task + 1) * q->each, q->groups);
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_cursor_init_arg(&c, &q->l->in[0]);
    kl_cursor_seek(&c, task * q->each * n);
    for (int64_t i = task * q->each; i < end; i++) {
        const float *w = kl_cursor_next_as(&c, n, q->dtype, KL_F32, &raw, &tile);
        struct group g;
        if (kl_quant_has_biases(f->mode))
            quantize_affine(q, w, &g);
        else if (kl_quant_scales_are(f->mode, KL_SCALES_E4M3))
            quantize_nv(q, w, &g);
        else
            quantize_mx(q, w, &g);
        if (q->p->part == KL_QUANTIZE_CODES) {
            kl_codes_pack(f->bits, n, g.codes, (uint8_t *)out->data + i * n * f->bits / 8);
        } else if (q->p->part == KL_QUANTIZE_VALUES) {
            float values[KL_MOST_GROUP];
            values_of_group(q, &g, values);
            kl_convert(out->dtype, (char *)out->data + i * n * item, KL_F32, values, n);
        } else if (kl_quant_has_biases(f->mode)) {
            kl_convert(out->dtype, (char *)out->data + i * item, KL_F32, &g.scale, 1);
            kl_convert(out->dtype, (char *)out->data + (q->groups + i) * item, KL_F32, &g.bias, 1);
        } else {
            ((uint8_t *)out->data)[i] = g.code;
        }
    }
}

int kl_cpu_quantize(struct kl_launch *l) {
    const struct kl_quantize_params *p = l->params;
    struct quantize q = {.l = l, .p = p, .dtype = l->in[0].dtype};
    if (l->in[0].size == 0) return KL_OK;
    if (l->n_in > 1) {
        q.has_global = true;
        q.global = 2688.0f / *(const float *)l->in[1].data;
        q.back = *(const float *)l->in[1].data / 2688.0f;
    }
    q.groups = l->in[0].size / p->format.group_size;
    q.each = KL_CHUNK / 16 / p->format.group_size;
    struct kl_launch alone = {.parallel =
                                  l->in[0].size >= KL_MAP_PARALLEL_FROM ? l->parallel : NULL};
    kl_run_tasks(&alone, kl_ceil_div(q.groups, q.each), quantize_task, &q);
    return KL_OK;
}

/* ---- dequantize ---- */

struct dequantize {
    const struct kl_launch *l;
    const struct kl_dequantize_params *p;
    int64_t cols, each; /* elements of a row; elements of one task */
    float global;       /* the factor of nvfp4 */
};

/* Elements are taken in runs, each of which lies in one row. */
static void dequantize_task(void *arg, int64_t task) {
    const struct dequantize *q = arg;
    const struct kl_launch *l = q->l;
    const struct kl_quant_format *f = &q->p->format;
    const int g = f->group_size, item = (int)kl_dtype_size(l->out->dtype);
    const bool affine = kl_quant_has_biases(f->mode);
    const int64_t begin = task * q->each, end = kl_min64(begin + q->each, l->out->size);
    struct kl_cursor w, s, b;
    union kl_tile words, raw_scales, raw_biases;
    kl_cursor_init_arg(&w, &l->in[0]);
    kl_cursor_seek(&w, begin * f->bits / 32);
    kl_cursor_init_arg(&s, &l->in[1]);
    kl_cursor_seek(&s, begin / g);
    if (affine) {
        kl_cursor_init_arg(&b, &l->in[2]);
        kl_cursor_seek(&b, begin / g);
    }
    for (int64_t at = begin; at < end;) {
        const int64_t n = kl_min64(kl_min64(KL_TILE, end - at), q->cols - at % q->cols);
        float scales[KL_TILE / 16], biases[KL_TILE / 16], values[KL_TILE];
        uint8_t codes[KL_TILE];
        kl_codes_unpack(f->bits, n, kl_cursor_next(&w, n * f->bits / 32, &words), codes);
        kl_scales_values(f->mode, l->in[1].dtype, n / g, kl_cursor_next(&s, n / g, &raw_scales),
                         scales);
        if (affine)
            kl_convert(KL_F32, biases, l->in[2].dtype, kl_cursor_next(&b, n / g, &raw_biases),
                       n / g);
        for (int64_t i = 0; i < n / g; i++)
            kl_codes_numbers(f, g, codes + i * g, affine ? scales[i] : scales[i] * q->global,
                             affine ? biases[i] : 0, values + i * g);
        kl_convert(l->out->dtype, (char *)l->out->data + at * item, KL_F32, values, n);
        at += n;
    }
}

int kl_cpu_dequantize(struct kl_launch *l) {
    const struct kl_dequantize_params *p = l->params;
    struct dequantize q = {.l = l, .p = p, .global = 1, .each = KL_CHUNK};
    if (l->out->size == 0) return KL_OK;
    q.cols = l->out->dims[l->out->ndim - 1];
    if (!kl_quant_has_biases(p->format.mode) && l->n_in > 2)
        q.global = *(const float *)l->in[2].data / 2688.0f;
    struct kl_launch alone = {.parallel = l->out->size >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_run_tasks(&alone, kl_ceil_div(l->out->size, q.each), dequantize_task, &q);
    return KL_OK;
}
