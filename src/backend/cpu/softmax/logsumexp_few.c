/* logsumexp_few.c - LOGSUMEXP of few elements for each output, where leaves and lanes would take
 * most of the time. Outputs are computed side by side; rows are transposed for this. The
 * exponentials of a column are added four at a time. See logsumexp.h. */
#include "backend/cpu/softmax/logsumexp.h"

#include <string.h>

#include "backend/cpu/math/functions.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/vector/lanes.h"

enum {
    ROOM = 1 << 12, /* elements that are transposed at a time */
    CHUNK = 1 << 14 /* elements of all outputs of a task */
};

struct job {
    const struct kl_launch *l;
    struct kl_split s;
    bool rows;     /* the elements of an output are a row, so rows are transposed */
    int64_t group; /* outputs of a task */
    const struct kl_logsumexp_taker *taker;
};

/* The address of element i of outputs [begin, begin + n). */
static const void *few_of(const struct job *j, struct kl_cursor *c, int64_t offset, int64_t begin,
                          int64_t n, union kl_tile *raw, union kl_tile *tile) {
    const struct kl_arg *in = j->l->in;
    c->data = (char *)in->data + offset * (int64_t)kl_dtype_size(in->dtype);
    kl_cursor_seek(c, begin);
    return kl_cursor_next_as(c, n, in->dtype, KL_F32, raw, tile);
}

#if KL_HAS_SIMD
/* Adds four more elements of 16 outputs. */
KL_INLINE void add_four_wide(kl_wide *top, kl_wide *sum, kl_wide centre, const kl_wide *x) {
    const kl_wide base = kl_wide_sub(kl_wide_set(KL_EXP_BASE), centre);
    const kl_wide least =
        kl_wide_sub(kl_wide_mul(centre, kl_wide_set(KL_LN2_F32)), kl_wide_set(KL_LOGSUMEXP_SPREAD));
    kl_wide v[4], y[4], power[4], s[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) *top = kl_wide_max(x[i], *top);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v[i] = kl_wide_max(least, x[i]);
    kl_wide_terms(kl_term_f32, KL_TERMS_F32, 4, v, base, y, power);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++)
        s[h] = kl_wide_fma(y[2 * h + 1], power[2 * h + 1], kl_wide_mul(y[2 * h], power[2 * h]));
    *sum = kl_wide_add(*sum, kl_wide_add(s[0], s[1]));
}
#endif
/* Adds four more elements of each of n outputs, a multiple of KL_WIDE_LANES. Each four are added in
 * pairs first, since the rounding errors of one sum after another would show. */
static void add_four(float *top, float *sum, const float *centre, const float *const *x, int64_t n,
                     const float *ahead) {
#if KL_HAS_SIMD
    for (int64_t k = 0; k < n; k += KL_WIDE_LANES) {
        kl_wide t = kl_wide_load(top + k), s = kl_wide_load(sum + k), v[4];
        kl_prefetch(ahead + 4 * k, 4 * sizeof(kl_wide));
        for (int i = 0; i < 4; i++) v[i] = kl_wide_load(x[i] + k);
        add_four_wide(&t, &s, kl_wide_load(centre + k), v);
        kl_wide_store(top + k, t);
        kl_wide_store(sum + k, s);
    }
#else
    for (int64_t k = 0; k < n; k++) {
        float s[2] = {0, 0}, power;
        for (int i = 0; i < 4; i++) {
            float v = x[i][k], least = kl_logsumexp_least(centre[k]);
            top[k] = KL_LARGER(top[k], v);
            v = v < least ? least : v;
            float y = kl_logsumexp_term(false, v, KL_EXP_BASE - centre[k], &power);
            s[i / 2] = __builtin_fmaf(y, power, s[i / 2]);
        }
        sum[k] += s[0] + s[1];
    }
#endif
}

/* A group of outputs; few_at gives the addresses of their elements. */
struct few {
    const struct job *j;
    struct kl_cursor c;
    int64_t begin, n, offsets[KL_LOGSUMEXP_FEW];
    int64_t width;      /* the number of outputs, rounded up to whole vectors */
    const float *ahead; /* the rows of the next group, which are prefetched; NULL: none */
    union kl_tile raw;
    /* The rows, transposed: element 0 of all outputs, then element 1, and so on. */
    _Alignas(64) char transposed[ROOM * sizeof(float)];
    float nothing[KL_TILE];
};
static const float *few_at(struct few *f, int64_t i, union kl_tile *tile) {
    const struct kl_arg *in = f->j->l->in;
    const void *x;
    if (i >= f->j->s.n_red) return f->nothing;
    if (f->j->rows) {
        x = f->transposed + i * f->width * (int64_t)kl_dtype_size(in->dtype);
        if (in->dtype == KL_F32) return x;
        kl_convert(KL_F32, tile->bytes, in->dtype, x, f->n);
        return (const float *)tile->bytes;
    }
    x = few_of(f->j, &f->c, f->offsets[i], f->begin, f->n, &f->raw, tile);
    if (x == f->raw.bytes || (x != tile->bytes && f->n < f->width))
        x = memcpy(tile->bytes, x, (size_t)f->n * sizeof(float));
    return x;
}
static void few_all(struct few *f, float *top, float *sum, const float *centre) {
    memset(sum, 0, (size_t)f->width * sizeof *sum);
    for (int64_t i = 0; i < f->j->s.n_red; i += 4) {
        const float *x[4];
        union kl_tile tiles[4];
        for (int k = 0; k < 4; k++) x[k] = few_at(f, i + k, &tiles[k]);
        add_four(top, sum, centre, x, f->width, f->ahead ? f->ahead + i * f->width : x[0]);
    }
}
/* The largest element of output k and what is added to it, where elements or the result are special
 * values, or are too large for add_four. */
static __attribute__((cold)) float few_special(struct few *f, int64_t k, float *tops) {
    const float top = *tops;
    union kl_tile tile;
    float sum = 0, power;
    bool nan = false;
    for (int64_t i = 0; i < f->j->s.n_red; i++) {
        float x = few_at(f, i, &tile)[k], d = x - top;
        nan = nan || x != x;
        d = d < -KL_LOGSUMEXP_SPREAD ? -KL_LOGSUMEXP_SPREAD : d;
        float y = kl_term(kl_term_f32, KL_TERMS_F32, d, KL_EXP_BASE, &power);
        sum = __builtin_fmaf(y, power, sum);
    }
    *tops = nan ? NAN : top;
    return fabsf(top) == INFINITY ? 0 : kl_log_f32(sum);
}
#ifdef __AVX512F__
#include "backend/cpu/softmax/logsumexp_few_avx512.h"
enum { SQUARES = 1 };
#else
enum { SQUARES = 0 };
static void few_squares(const float *x, int64_t step, int64_t length, int64_t n, float *top,
                        float *sum) {
}
#endif
static void few_outputs(const struct job *j, int64_t begin, int64_t n) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    struct few f; /* not initialized, since most of it is memory for elements */
    const int item = (int)kl_dtype_size(in->dtype);
    float top[KL_TILE], sum[KL_TILE], centre[KL_TILE], was[KL_TILE], rest[KL_TILE];
    union kl_tile tile;
    f.j = j, f.begin = begin, f.n = n, f.ahead = NULL;
    f.width = kl_ceil_div(n, KL_WIDE_LANES) * KL_WIDE_LANES;
    const int64_t step = j->s.n_kept ? j->s.kept_strides[0] : j->s.n_red;
    const char *rows = (const char *)in->data + begin * step * item;
    const bool squares = SQUARES && j->rows && in->dtype == KL_F32 && n % KL_WIDE_LANES == 0 &&
                         j->s.n_red % KL_WIDE_LANES == 0;
    if (!j->rows) {
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, 0, j->s.n_red, f.offsets);
        kl_cursor_init(&f.c, in->data, item, j->s.n_kept, j->s.kept_dims, j->s.kept_strides);
    } else if (!squares) {
        if (item == sizeof(float) && step == j->s.n_red)
            f.ahead = (const float *)in->data + (begin + n) * step;
        kl_cpu_transpose(item, f.transposed, f.width * item, rows, step * item, n, j->s.n_red);
    }
    if (squares) {
        few_squares((const float *)rows, step, j->s.n_red, n, top, sum);
    } else {
        int again = 0;
        KL_EACH_WIDE(k, f.width) f.nothing[k] = top[k] = -INFINITY;
        const float *first = few_at(&f, 0, &tile);
        KL_EACH_WIDE(k, f.width) centre[k] = kl_centre_of(first[k]);
        few_all(&f, top, sum, centre);
        KL_EACH_WIDE(k, f.width) {
            was[k] = centre[k];
            centre[k] = kl_centre_of(top[k]);
        }
        KL_EACH(k, n) again |= was[k] != centre[k];
        if (again) few_all(&f, top, sum, centre);
    }
    int odd = 0;
    KL_EACH_WIDE(k, f.width) {
        float s = sum[k] / kl_logsumexp_at_top(top[k], false);
        rest[k] = kl_log_normal_f32(s, 127);
        sum[k] = fabsf(top[k]) < KL_FAR ? s : NAN;
    }
    KL_EACH(k, n) odd |= sum[k] != sum[k];
    if (odd && squares) /* with special values, the transposed elements are needed as well */
        kl_cpu_transpose(item, f.transposed, f.width * item, rows, step * item, n, j->s.n_red);
    for (int64_t k = 0; odd && k < n; k++)
        if (sum[k] != sum[k]) rest[k] = few_special(&f, k, &top[k]);
    if (j->taker) {
        j->taker->take(j->taker, begin, n, top, rest, NULL);
        return;
    }
    KL_EACH_WIDE(k, f.width) rest[k] += top[k];
    kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype), KL_F32,
               rest, n);
}

static void few_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    const int64_t end = kl_min64((i + 1) * j->group, j->s.n_out);
    int64_t tile = ROOM / j->s.n_red / KL_WIDE_LANES * KL_WIDE_LANES;
    if (tile > KL_TILE || !j->rows) tile = KL_TILE;
    for (int64_t at = i * j->group; at < end; at += tile)
        few_outputs(j, at, kl_min64(tile, end - at));
}

void kl_logsumexp_few(const struct kl_launch *l, const struct kl_split *s, bool rows,
                      const struct kl_logsumexp_taker *taker) {
    struct job j = {.l = l, .s = *s, .taker = taker};
    struct kl_launch alone = {.parallel = l->in->size >= KL_CHUNK ? l->parallel : NULL};
    j.rows = rows && s->n_kept <= 1 && (!s->n_kept || s->kept_strides[0] >= s->n_red);
    j.group = kl_ceil_div(CHUNK, s->n_red * KL_TILE) * KL_TILE;
    kl_run_tasks(&alone, kl_ceil_div(s->n_out, j.group), few_chunk, &j);
}
