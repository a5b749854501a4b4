/* softmax_rows.c - SOFTMAX of contiguous rows of float32 and 16-bit floats, computed as float32. Up
 * to 16 rows are computed side by side; their exponentials stay in a cache until the sums are
 * known. See softmax.h. */
#include "backend/cpu/softmax/softmax.h"

#include <string.h>

#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/vector/wide.h"

enum { LANES = 16 };

enum {
    WAITING = 8192,       /* elements of the rows whose exponentials stay in the L1 cache */
    SIDE = KL_WIDE_LANES, /* the most rows that are computed side by side */
    FURTHER = 2048,       /* bytes of a row that are prefetched */
};
#if !KL_HAS_SIMD
typedef struct {
    float lane[LANES];
} kl_wide;
static void kl_wide_sums(float *sum, const kl_wide *v) {
    for (int row = 0; row < SIDE; row++) {
        kl_wide w = v[row];
        KL_HALVE_16(KL_LANE_SUM, w.lane);
        sum[row] = w.lane[0];
    }
}
KL_INLINE kl_wide kl_wide_load(const float *x) {
    kl_wide v;
    memcpy(v.lane, x, sizeof v.lane);
    return v;
}
KL_INLINE kl_wide kl_wide_add(kl_wide x, kl_wide y) {
    KL_LANES(k, LANES) x.lane[k] += y.lane[k];
    return x;
}
KL_INLINE kl_wide kl_wide_sub(kl_wide x, kl_wide y) {
    KL_LANES(k, LANES) x.lane[k] -= y.lane[k];
    return x;
}
static void kl_wide_tops(float *top, const kl_wide *v) {
    for (int row = 0; row < SIDE; row++) {
        kl_wide w = v[row];
        KL_HALVE_16(KL_LARGER, w.lane);
        top[row] = w.lane[0];
    }
}
#endif
/* x without the lower half of its mantissa. */
KL_INLINE kl_wide upper_half(kl_wide x) {
    enum { LOWER = 0xfff };
#if KL_HAS_SIMD
    return kl_wide_clear(x, LOWER);
#else
    KL_LANES(k, LANES) x.lane[k] = kl_bits_f32(kl_f32_bits(x.lane[k]) & ~(uint32_t)LOWER);
    return x;
#endif
}
/* Adds n more elements, with room for whole vectors, to a sum of lanes; `rest` has the rounding
 * errors. Four vectors, or two, or the last one, are added first. That addition is exact where all
 * elements are equal. */
KL_INLINE void add_up(kl_wide *sum, kl_wide *rest, const float *y, int64_t n, bool first) {
    kl_wide s = *sum, left = *rest;
    for (int64_t i = 0; i < n; first = false) {
        kl_wide v = kl_wide_load(y + i);
        if (n - i > LANES) v = kl_wide_add(v, kl_wide_load(y + i + LANES));
        if (n - i >= 4 * LANES) {
            v = kl_wide_add(
                v, kl_wide_add(kl_wide_load(y + i + 2 * LANES), kl_wide_load(y + i + 3 * LANES)));
            i += 2 * LANES;
        }
        i += 2 * LANES;
        const kl_wide now = first ? v : kl_wide_add(s, v);
        if (!first) left = kl_wide_add(left, kl_wide_sub(v, kl_wide_sub(now, s)));
        s = now;
    }
    *sum = s, *rest = left;
}
/* The function kl_wide_sums for two sums. */
#if KL_HAS_SIMD && KL_WIDE_PARTS == 2
#include "backend/cpu/softmax/softmax_avx2.h"
#else
KL_INLINE void both_sums(float *a, float *b, const kl_wide *v, const kl_wide *w) {
    kl_wide_sums(a, v);
    kl_wide_sums(b, w);
}
#endif
/* The reciprocal of each row's sum, as a float and its rounding error. Joining the lanes is exact
 * as well: the upper halves of mantissas are added separately from the lower ones, to which `rest`
 * belongs. */
static void inverses(float *factor, float *lack, const kl_wide *sum, const kl_wide *rest,
                     const float *top) {
    kl_wide high[SIDE], low[SIDE];
    float upper[SIDE], lower[SIDE];
    for (int row = 0; row < SIDE; row++) {
        high[row] = upper_half(sum[row]);
        low[row] = kl_wide_add(kl_wide_sub(sum[row], high[row]), rest[row]);
    }
    both_sums(upper, lower, high, low);
    KL_LANES(k, SIDE) {
        const float total = upper[k] + lower[k];
        factor[k] = kl_softmax_inverse(total, top[k]);
        lack[k] = kl_softmax_lack(factor[k], total, lower[k] - (total - upper[k]));
    }
}
static void inverses_half(float *factor, const kl_wide *sum, const float *top) {
    kl_wide_sums(factor, sum);
    KL_LANES(k, SIDE) factor[k] = kl_softmax_inverse(factor[k], top[k]);
}
/* Rounds 32 elements, in order; NaN may have any bits. */
static inline void narrow_bf16(uint16_t *y, const float *x) {
#if KL_HAS_NARROW_BF16
    if (kl_narrow_bf16(y, x)) return;
#endif
    for (int k = 0; k < 2 * LANES; k++) y[k] = kl_bf16_store(x[k]);
}
static inline void narrow_f16(uint16_t *y, const float *x) {
#if KL_HAS_SIMD
    kl_store_f16(y, x);
#else
    for (int k = 0; k < 2 * LANES; k++) y[k] = kl_f16_store(x[k]);
#endif
}
/* Stores one vector of float32 results, computed from exponentials e. */
KL_INLINE void one_f32(void *to, const float *e, float factor, float lack) {
#if KL_HAS_SIMD
    const kl_wide v = kl_wide_load(e);
    kl_wide_store(to, kl_wide_fma(v, kl_wide_set(factor), kl_wide_mul(v, kl_wide_set(lack))));
#else
    float q[LANES];
    KL_LANES(k, LANES) q[k] = kl_softmax_quotient(e[k], factor, lack);
    memcpy(to, q, sizeof q);
#endif
}
/* Two vectors of results for 16-bit floats, before rounding. */
KL_INLINE void products(float *q, const float *e, float factor) {
#if KL_HAS_SIMD
#pragma GCC unroll 2
    for (int k = 0; k < 2 * LANES; k += LANES)
        kl_wide_store(q + k, kl_wide_mul(kl_wide_load(e + k), kl_wide_set(factor)));
#else
    KL_LANES(k, 2 * LANES) q[k] = e[k] * factor;
#endif
}
/* Exponentials for 16-bit floats are less exact, since rounding the result hides their errors.
 * float16 has three bits more than bfloat16, and its denormals begin at 2^-14. */
#if KL_HAS_SIMD
KL_INLINE kl_wide term_half(kl_wide x, kl_wide base) {
    kl_wide power,
        y = kl_wide_term(kl_term_half, sizeof kl_term_half / sizeof *kl_term_half, x, base, &power);
    return kl_wide_mul(y, power);
}
KL_INLINE kl_wide term_f16(kl_wide x, kl_wide base) {
    kl_wide power,
        y = kl_wide_term(kl_term_f32, sizeof kl_term_f32 / sizeof *kl_term_f32, x, base, &power);
    return kl_wide_mul(y, power);
}
#define term_f32 kl_wide_exp
#else
KL_INLINE float term_half(float x, float base) {
    float power,
        y = kl_term(kl_term_half, sizeof kl_term_half / sizeof *kl_term_half, x, base, &power);
    return y * power;
}
KL_INLINE float term_f16(float x, float base) {
    float power,
        y = kl_term(kl_term_f32, sizeof kl_term_f32 / sizeof *kl_term_f32, x, base, &power);
    return y * power;
}
#define term_f32 kl_exp_around_f32
#endif
#define U float
#define NAME f32
#define TERM term_f32
#define LOAD kl_wide_load
#define VALUE(u) (u)
#define NARROW(y, x) ((void)(x))
#define LOWEST (-INFINITY)
/* defines terms_f32, two_f32, scale_f32 */
#include "backend/cpu/softmax/softmax_rows.inc"
#define U uint16_t
#define NAME bf16
#define TERM term_half
#define LOAD kl_wide_load_bf16
#define VALUE kl_bf16_load
#define NARROW narrow_bf16
#define LOWEST 0xff80
/* defines terms_bf16, two_bf16, scale_bf16 */
#include "backend/cpu/softmax/softmax_rows.inc"
#define U uint16_t
#define NAME f16
#define TERM term_f16
#define LOAD kl_wide_load_f16
#define VALUE kl_f16_load
#define NARROW narrow_f16
#define LOWEST 0xfc00
/* defines terms_f16, two_f16, scale_f16 */
#include "backend/cpu/softmax/softmax_rows.inc"

struct kind {
    void (*terms)(float *room, const void *in, int64_t n, int m, float centre, kl_wide *sum,
                  kl_wide *rest, kl_wide *top);
    void (*scale)(void *out, const float *room, int64_t n, int m, const float *factor,
                  const float *rest, bool nontemporal);
};
static const struct kind kind_f32 = {terms_f32, scale_f32}, kind_bf16 = {terms_bf16, scale_bf16},
                         kind_f16 = {terms_f16, scale_f16};
/* A row whose largest element is far from 0: takes the exponentials of the distances from this
 * element. */
static __attribute__((cold)) void far_row(enum kl_dtype type, const void *x, int64_t n, float *y,
                                          float top, kl_wide *sum, kl_wide *rest) {
    kl_wide tops[SIDE], sums[SIDE], rests[SIDE];
    kl_convert(KL_F32, y, type, x, n);
    for (int64_t i = 0; i < n; i++) y[i] -= top;
    terms_f32(y, y, n, 1, 0, sums, rests, tops);
    *sum = sums[0], *rest = rests[0];
}
/* Computes rows [row, row + m), whose exponentials are stored in `room` first; *centre is the
 * centre of the rows before. */
static void some_rows(const struct kl_softmax_job *j, int64_t row, int m, float *room,
                      void *gathered, float *centre) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const struct kind *kind = out->dtype == KL_F32    ? &kind_f32
                              : out->dtype == KL_BF16 ? &kind_bf16
                                                      : &kind_f16;
    const int64_t n = j->length, width = kl_ceil_div(n, LANES) * LANES,
                  item = (int64_t)kl_dtype_size(in->dtype);
    const char *x = (const char *)in->data + row * n * item;
    float top[SIDE];
    float factor[SIDE], lack[SIDE];
    kl_wide tops[SIDE], sums[SIDE], rests[SIDE];
    int again = 0;
    if (gathered) {
        struct kl_cursor c;
        kl_cursor_init_arg(&c, in);
        kl_cursor_seek(&c, row * n);
        for (int64_t at = 0; at < m * n; at += KL_TILE)
            kl_cursor_read(&c, kl_min64(KL_TILE, m * n - at), (char *)gathered + at * item);
        x = gathered;
    }
    kind->terms(room, x, n, m, *centre, sums, rests, tops);
    kl_wide_tops(top, tops);
    for (int k = 0; k < m; k++) again |= kl_centre_of(top[k]) != *centre || kl_is_far(top[k]);
    for (int k = 0; again && k < m; k++) {
        kl_wide some[SIDE], left[SIDE];
        if (kl_is_far(top[k])) {
            far_row(in->dtype, x + k * n * item, n, room + k * width, top[k], &sums[k], &rests[k]);
            continue;
        }
        kind->terms(room + k * width, x + k * n * item, n, 1, kl_centre_of(top[k]), some, left,
                    tops);
        sums[k] = some[0], rests[k] = left[0];
    }
    if (kind == &kind_f32)
        inverses(factor, lack, sums, rests, top);
    else
        inverses_half(factor, sums, top);
    kind->scale((char *)out->data + row * n * item, room, n, m, factor, lack, j->nontemporal);
    *centre = kl_centre_of(top[m - 1]);
}

void kl_softmax_rows(void *arg, int64_t i) {
    struct kl_softmax_job *j = arg;
    const int64_t end = kl_min64((i + 1) * j->group, j->rows),
                  width = kl_ceil_div(j->length, LANES) * LANES;
    const int64_t side = width > WAITING ? 1 : kl_min64(SIDE, WAITING / width);
    const bool dense = j->l->in->layout & KL_ROW_CONTIGUOUS, is_long = width > WAITING;
    /* With room for a second vector after the last one. */
    _Alignas(KL_LINE) float near[WAITING + LANES], *room = near;
    struct kl_scratch scratch = {0};
    float centre = 0;
    if (is_long || !dense) {
        const int64_t need = (is_long ? width + LANES : 0) + (dense ? 0 : side * j->length);
        if (!kl_scratch_take(&scratch, j->l, (size_t)need * sizeof *room)) {
            atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
            return;
        }
        if (is_long) room = (float *)scratch.ptr;
    }
    float *gathered = dense ? NULL : (float *)scratch.ptr + (is_long ? width + LANES : 0);
    for (int64_t row = i * j->group; row < end; row += side)
        some_rows(j, row, (int)kl_min64(side, end - row), room, gathered, &centre);
    if (j->nontemporal) kl_nontemporal_end();
    if (is_long || !dense) kl_scratch_give(&scratch);
}
