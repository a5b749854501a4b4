/* quantized_matmul.c - QUANTIZED_MATMUL and GATHER_QMM. With few rows of x each row of the
 * quantized matrix is unpacked in registers and multiplied at once (quantized_dots.inc); with
 * many, panels are unpacked into the packed form that products of floats use (gemm.c), or into
 * tile registers (quantized_amx.h). Processors of ARM multiply codes as integers where they have
 * the instruction (quantized_dot.c). Where the matrix is not transposed, a row is unpacked, scaled
 * and added to the sums. Sums are float32, and so are activations. An index outside of its range,
 * which the builder excludes, reads matrix 0. */
#include "backend/cpu/quantized/quantized_matmul.h"

enum {
    FEW = 8,                 /* with more rows of x than this, panels are unpacked */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
};

int64_t kl_qmm_index(const struct kl_qmm *q, int which, int64_t batch, int64_t size) {
    const struct kl_arg *a = &q->l->in[4 + which];
    int64_t offset;
    kl_offsets(a->ndim, a->dims, a->strides, batch, 1, &offset);
    const int64_t v = ((const int32_t *)a->data)[offset];
    return v >= 0 && v < size ? v : 0;
}

struct kl_qmm_matrices kl_qmm_matrices_of(const struct kl_qmm *q, int64_t batch) {
    const struct kl_arg *all[4] = {q->x, q->w, q->scales, q->biases};
    const char *found[4] = {NULL};
    int64_t index[2] = {0};
    for (int side = 0; side < 2 && q->gather; side++)
        index[side] = kl_qmm_index(q, side, batch, all[side]->dims[0]);
    for (int i = 0; i < 4 && all[i]; i++) {
        int64_t offset;
        if (q->gather)
            offset = index[i > 0] * all[i]->strides[0];
        else
            kl_offsets(q->n_lead, q->dims, q->lead[i], batch, 1, &offset);
        found[i] = kl_qmm_at(all[i], offset);
    }
    return (struct kl_qmm_matrices){found[0], found[2], found[3], (const uint8_t *)found[1]};
}

/* Scale or bias number `i` from `from` on, as float32. */
static inline float number_at(enum kl_quant_mode mode, enum kl_dtype dtype, const char *from,
                              int64_t i) {
    uint16_t half;
    float x;
    if (kl_quant_scales_are(mode, KL_SCALES_E4M3)) return kl_e4m3_value((uint8_t)from[i]);
    if (!kl_quant_has_biases(mode)) return kl_e8m0_value((uint8_t)from[i]);
    if (dtype == KL_F32) {
        memcpy(&x, from + 4 * i, sizeof x);
        return x;
    }
    memcpy(&half, from + 2 * i, sizeof half);
    return dtype == KL_F16 ? kl_f16_load(half) : kl_bf16_load(half);
}

void kl_qmm_numbers(const struct kl_qmm *q, const struct kl_qmm_matrices *a, int64_t row,
                    int64_t col, int64_t n, float *to) {
    const int g = q->f.group_size, bits = q->f.bits;
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    const char *scales = a->scales + row * q->s_row * item;
    const char *biases = q->biases ? a->biases + row * q->b_row * item : NULL;
    const uint8_t *words = a->w + row * q->w_row * 4 + col * bits / 8;
    for (int64_t group = col / g; n > 0; group++) {
        const int64_t some = kl_min64(n, (group + 1) * g - col);
        const float scale = number_at(q->f.mode, q->scale_type, scales, group);
        const float bias = biases ? number_at(q->f.mode, q->scale_type, biases, group) : 0;
        uint8_t codes[KL_MOST_GROUP];
        kl_codes_unpack(bits, some, words, codes);
        kl_codes_numbers(&q->f, some, codes, scale, bias, to);
        words += some * bits / 8;
        to += some;
        col += some;
        n -= some;
    }
}

/* ---- the kernel ---- */

static void multiply(struct kl_qmm *q) {
    const struct kl_launch *l = q->l;
    const struct kl_arg *args[4] = {q->x, q->w, q->scales, q->biases};
    const int last = q->x->ndim - 1;
    q->x_row = q->x->strides[last - 1];
    q->x_col = q->x->strides[last];
    q->w_row = q->w->strides[last - 1];
    q->s_row = q->scales->strides[last - 1];
    q->b_row = q->biases ? q->biases->strides[last - 1] : 0;
    for (int i = 0; i < last - 1 && !q->gather; i++) {
        if (l->out->dims[i] == 1 || q->n_lead == KL_LONG_AXES) continue;
        q->dims[q->n_lead] = l->out->dims[i];
        for (int k = 0; k < 4 && args[k]; k++) q->lead[k][q->n_lead] = args[k]->strides[i];
        q->n_lead++;
    }
    q->batches = l->out->size / (q->m * q->n);
    const bool big = (double)l->out->size * (double)q->k >= PARALLEL_FROM;
    const struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    if (kl_qmm_dot(q, &alone)) return;
    if (q->m > FEW) {
        for (int64_t b = 0; b < q->batches; b++) kl_qmm_many_rows(q, b, &alone);
        return;
    }
    kl_qmm_few_rows(q, &alone);
}

int kl_cpu_quantized_matmul(struct kl_launch *l) {
    const struct kl_qmm_params *p = l->params;
    const struct kl_arg *out = l->out;
    const bool affine = kl_quant_has_biases(p->format.mode);
    struct kl_qmm q = {.l = l,
                       .f = p->format,
                       .transpose = p->transpose,
                       .gather = l->op == KL_OP_GATHER_QMM,
                       .scale_type = l->in[2].dtype,
                       .x = &l->in[0]};
    struct kl_rows rows[3];
    int n = 0;
    if (out->size == 0) return KL_OK;
    q.m = out->dims[out->ndim - 2];
    q.n = out->dims[out->ndim - 1];
    q.k = q.x->dims[q.x->ndim - 1];
    if (q.k == 0) { /* the sums have no terms */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
    q.groups = (q.transpose ? q.k : q.n) / q.f.group_size;
    for (; n < (affine ? 3 : 2); n++)
        if (!kl_rows_begin(&rows[n], l, &l->in[1 + n])) break;
    const bool room = n == (affine ? 3 : 2);
    q.w = &rows[0].arg;
    q.scales = &rows[1].arg;
    q.biases = affine ? &rows[2].arg : NULL;
    if (room) multiply(&q);
    while (n > 0) kl_rows_end(&rows[--n]);
    return !room || atomic_load(&q.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
