/* softmax_columns.c - SOFTMAX along an axis that is not the last one: strips of neighbouring
 * columns of float32 and 16-bit floats, computed as float32. See softmax.h. */
#include "backend/cpu/softmax/softmax.h"

#include <string.h>

#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/vector/wide.h"

enum {
    NEAR = 1 << 13, /* elements of a strip whose exponentials fit on the stack */
    AHEAD = 16,     /* rows that are prefetched */
};
struct strip {
    const struct kl_softmax_job *j;
    int64_t outer, from, n, width; /* n, rounded up to whole vectors */
    struct kl_cursor c;
    bool dense, far;
    union kl_tile raw;
    float top[KL_TILE], centre[KL_TILE], shift[KL_TILE], nothing[KL_TILE];
    double total[KL_TILE];
};
/* Row i, of a strip that is dense. */
static const void *row_in_place(const struct strip *s, int64_t i) {
    const struct kl_arg *in = s->j->l->in;
    const int64_t place = (s->outer * s->j->length + i) * s->j->inner + s->from;
    return (const char *)in->data + place * (int64_t)kl_dtype_size(in->dtype);
}
/* Row i as float32, with room for whole vectors. */
static const float *strip_row(struct strip *s, int64_t i, float *copy) {
    const struct kl_arg *in = s->j->l->in;
    if (i >= s->j->length) return s->nothing;
    const void *x = row_in_place(s, i);
    if (!s->dense) {
        kl_cursor_seek(&s->c, (s->outer * s->j->length + i) * s->j->inner + s->from);
        x = kl_cursor_next(&s->c, s->n, &s->raw);
    }
    if (s->dense && in->dtype == KL_F32 && s->n == s->width && !s->far) return x;
    if (in->dtype == KL_BF16 && s->n == s->width)
        KL_EACH_WIDE(k, s->width) copy[k] = kl_bf16_load(((const uint16_t *)x)[k]);
    else
        kl_convert(KL_F32, copy, in->dtype, x, s->n);
    if (s->far) KL_EACH_WIDE(k, s->width) copy[k] -= s->shift[k];
    return copy;
}
#if KL_HAS_SIMD
KL_INLINE kl_wide load(const enum kl_dtype type, const void *x, int64_t k) {
    if (type == KL_F32) return kl_wide_load((const float *)x + k);
    const uint16_t *halves = (const uint16_t *)x + k;
    return type == KL_BF16 ? kl_wide_load_bf16(halves) : kl_wide_load_f16(halves);
}
#endif
/* Exponentials of four rows, and their sums in pairs, which are exact where elements are equal.
 * type: of the elements; a constant. */
KL_INLINE void four_rows_of(const enum kl_dtype type, float *const *y, const void *const *x,
                            float *top, const float *centre, float (*sum)[KL_TILE], int64_t n) {
#if KL_HAS_SIMD
    for (int64_t k = 0; k < n; k += KL_WIDE_LANES) {
        const kl_wide m = kl_wide_load(centre + k),
                      base = kl_wide_sub(kl_wide_set(KL_SOFTMAX_CENTRE), m),
                      least = kl_wide_sub(kl_wide_mul(m, kl_wide_set(KL_LN2_F32)),
                                          kl_wide_set(KL_SOFTMAX_SPREAD));
        kl_wide t = kl_wide_load(top + k), e[4];
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++) {
            const kl_wide v = load(type, x[h], k);
            t = kl_wide_max(v, t);
            e[h] = kl_wide_exp(kl_wide_max(least, v), base);
            kl_wide_store(y[h] + k, e[h]);
        }
        kl_wide_store(top + k, t);
        kl_wide_store(sum[0] + k, kl_wide_add(e[0], e[1]));
        kl_wide_store(sum[1] + k, kl_wide_add(e[2], e[3]));
    }
#else
    for (int64_t k = 0; k < n; k++) {
        float e[4], least = centre[k] * KL_LN2_F32 - KL_SOFTMAX_SPREAD;
        for (int h = 0; h < 4; h++) {
            float v = ((const float *)x[h])[k];
            top[k] = KL_LARGER(top[k], v);
            y[h][k] = e[h] =
                kl_exp_around_f32(v < least ? least : v, KL_SOFTMAX_CENTRE - centre[k]);
        }
        sum[0][k] = e[0] + e[1];
        sum[1][k] = e[2] + e[3];
    }
#endif
}
static void four_rows(const enum kl_dtype type, float *const *y, const void *const *x,
                      struct strip *s, float (*sum)[KL_TILE]) {
    if (type == KL_F32) four_rows_of(KL_F32, y, x, s->top, s->centre, sum, s->width);
#if KL_HAS_SIMD
    else if (type == KL_BF16)
        four_rows_of(KL_BF16, y, x, s->top, s->centre, sum, s->width);
    else
        four_rows_of(KL_F16, y, x, s->top, s->centre, sum, s->width);
#endif
}
/* Whether rows i to i + 3 are widened in registers. */
static bool is_direct(const struct strip *s, int64_t i) {
    return KL_HAS_SIMD && s->dense && !s->far && s->n == s->width && i + 4 <= s->j->length;
}
/* The exponentials of rows i to i + 3, in y[0 .. 3]. */
static void strip_terms(struct strip *s, int64_t i, float *const *y, float (*sum)[KL_TILE]) {
    _Alignas(64) float copy[4][KL_TILE];
    const struct kl_arg *in = s->j->l->in;
    const bool direct = is_direct(s, i);
    const void *x[4];
    for (int h = 0; h < 4; h++)
        x[h] = direct ? row_in_place(s, i + h) : strip_row(s, i + h, copy[h]);
    /* Strips of long columns are too narrow for the processor's own prefetching. */
    if (s->dense && i + AHEAD + 4 <= s->j->length) {
        const int64_t item = (int64_t)kl_dtype_size(in->dtype);
        const char *next = row_in_place(s, i + AHEAD);
        for (int h = 0; h < 4; h++) kl_prefetch(next + h * s->j->inner * item, s->n * item);
    }
    four_rows(direct ? (enum kl_dtype)in->dtype : KL_F32, y, x, s, sum);
}
static void strip_totals(struct strip *s, float *panel) {
    _Alignas(64) float sum[2][KL_TILE], unused[4][KL_TILE];
    KL_EACH_WIDE(k, s->width) {
        s->top[k] = -INFINITY;
        s->total[k] = 0;
    }
    for (int64_t i = 0; i < s->j->length; i += 4) {
        float *y[4];
        for (int h = 0; h < 4; h++)
            y[h] = panel && i + h < s->j->length ? panel + (i + h) * s->width : unused[h];
        strip_terms(s, i, y, sum);
        KL_EACH_WIDE(k, s->width) s->total[k] += (double)sum[0][k] + (double)sum[1][k];
    }
}
/* Stores the results y, which are aligned to a cache line. */
static void put(const struct kl_arg *out, int64_t place, const float *y, int64_t n,
                bool nontemporal) {
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    char *to = (char *)out->data + place * item;
    if (!nontemporal) {
        kl_convert(out->dtype, to, KL_F32, y, n);
        return;
    }
    for (int64_t at = 0; at < n; at += KL_TILE) {
        _Alignas(KL_LINE) float narrow[KL_TILE];
        const int64_t m = kl_min64(KL_TILE, n - at);
        const void *from = y + at;
        if (item != sizeof *y) {
            kl_convert(out->dtype, narrow, KL_F32, from, m);
            from = narrow;
        }
        kl_nontemporal_copy(to + at * item, from, m * item);
    }
}
#if KL_HAS_SIMD
KL_INLINE kl_simd quotient(const float *y, const float *factor, const float *lack) {
    const kl_simd v = kl_simd_load_f32(y);
    return kl_simd_fma(v, kl_simd_load_f32(factor), kl_simd_mul(v, kl_simd_load_f32(lack)));
}
#endif
/* Stores n results as 16-bit floats, rounded in registers as far as two vectors are full. */
static void put_halves(enum kl_dtype dtype, uint16_t *to, const float *y, const float *factor,
                       const float *lack, int64_t n) {
    float z[KL_TILE];
    int64_t k = 0;
#if KL_HAS_SIMD
    for (; k + 2 * KL_SIMD <= n; k += 2 * KL_SIMD) {
        const kl_simd a = quotient(y + k, factor + k, lack + k),
                      b = quotient(y + k + KL_SIMD, factor + k + KL_SIMD, lack + k + KL_SIMD);
        if (dtype == KL_BF16) {
            kl_simd_store_bf16(to + k, a, b);
        } else {
            kl_simd_store_f16(to + k, a);
            kl_simd_store_f16(to + k + KL_SIMD, b);
        }
    }
#endif
    KL_EACH(i, n - k) z[i] = kl_softmax_quotient(y[k + i], factor[k + i], lack[k + i]);
    kl_convert(dtype, to + k, KL_F32, z, n - k);
}
void kl_softmax_columns(const struct kl_softmax_job *j, int64_t outer, int64_t from, int64_t n) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    struct strip s; /* not initialized, since most of it is memory for elements */
    struct kl_scratch scratch;
    _Alignas(64) float near[NEAR], again[4][KL_TILE], z[KL_TILE], was[KL_TILE];
    _Alignas(64) float factor[KL_TILE], lack[KL_TILE], unused[2][KL_TILE];
    float *panel = near;
    bool taken = false, other = false;
    s.j = j, s.outer = outer, s.from = from, s.n = n;
    s.width = kl_ceil_div(n, KL_WIDE_LANES) * KL_WIDE_LANES;
    s.dense = in->layout & KL_ROW_CONTIGUOUS;
    s.far = false;
    if (!s.dense) kl_cursor_init_arg(&s.c, in);
    if (s.width * j->length > NEAR) {
        taken = s.width * j->length <= KL_SOFTMAX_PANEL &&
                kl_scratch_take(&scratch, j->l, (size_t)KL_SOFTMAX_PANEL * sizeof *panel);
        panel = taken ? (float *)scratch.ptr : NULL;
    }
    KL_EACH_WIDE(k, s.width) {
        s.nothing[k] = -INFINITY;
        s.shift[k] = again[0][k] = 0;
    }
    const float *first = strip_row(&s, 0, again[0]);
    KL_EACH_WIDE(k, s.width) s.centre[k] = kl_centre_of(first[k]);
    strip_totals(&s, panel);
    KL_EACH_WIDE(k, s.width) {
        was[k] = s.centre[k];
        s.centre[k] = kl_centre_of(s.top[k]);
        s.shift[k] = kl_is_far(s.top[k]) ? s.top[k] : 0;
    }
    for (int64_t k = 0; k < n; k++) {
        s.far = s.far || s.shift[k] != 0;
        other = other || s.far || s.centre[k] != was[k];
    }
    if (other) strip_totals(&s, panel);
    KL_EACH_WIDE(k, s.width) {
        const float total = (float)s.total[k];
        factor[k] = kl_softmax_inverse(total, s.top[k]);
        lack[k] = kl_softmax_lack(factor[k], total, (float)(s.total[k] - (double)total));
    }
    const bool nontemporal = kl_nontemporal(out, j->inner * item) && from * item % KL_LINE == 0 &&
                             n * item % KL_LINE == 0;
    for (int64_t i = 0; i < j->length; i++) {
        const float *y = panel ? panel + i * s.width : again[i % 4];
        const int64_t place = (outer * j->length + i) * j->inner + from;
        float *q =
            item == sizeof(float) && !nontemporal && n == s.width ? (float *)out->data + place : z;
        if (!panel && i % 4 == 0)
            strip_terms(&s, i, (float *const[]){again[0], again[1], again[2], again[3]}, unused);
        if (item == 2 && !nontemporal) {
            put_halves(out->dtype, (uint16_t *)out->data + place, y, factor, lack, n);
            continue;
        }
        KL_EACH_WIDE(k, s.width) q[k] = kl_softmax_quotient(y[k], factor[k], lack[k]);
        if (q == z) put(out, place, z, n, nontemporal);
    }
    if (nontemporal) kl_nontemporal_end();
    if (taken) kl_scratch_give(&scratch);
}
