/* rope.c - ROPE, rotary position embedding (Su and others, RoFormer, 2021): pairs of the first
 * `dims` elements of the last axis are rotated by an angle that grows with the position along the
 * axis before it. Pair k of position t is rotated by (t + offset) * scale * base^(-2k / dims), or
 * by (t + offset) * scale / freqs[k]; the two elements of a pair are neighbours (traditional) or
 * dims / 2 apart. Angles, sines and cosines are computed in double and rounded once; of a position
 * with a large angle all are fractions of a turn, as on devices (turns.h). One table of a run
 * of positions serves all heads. Rotations are computed in float32 (float64 in double). */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "base/alloc.h"
#include "base/number/half.h"
#include "base/number/turns.h"
#include "base/op/op_params.h"

enum {
    RUN = 1 << 13, /* elements of one head in one task */
    TASKS = 32,
};

struct job {
    const struct kl_launch *l;
    const struct kl_rope_params *p;
    enum kl_dtype type;
    int64_t batch, heads, length, width, half; /* x is (batch, heads, length, width) */
    int64_t group, n_groups; /* positions of one task; tasks for each batch element */
    const double *rate;      /* [half]: the angle of each pair at position 1, without scale */
    const uint64_t *turns;   /* [half]: the same with scale, as fractions of a turn; NULL: near */
    atomic_bool no_memory;
};

/* Pair k's angle at a position, in radians, less whole turns. */
static double far_angle(const struct job *j, int64_t at, int64_t k) {
    if (j->turns[k] == KL_NO_ANGLE) return NAN;
    return (double)(int64_t)((uint64_t)at * j->turns[k]) * (M_PI * 0x1p-63);
}

#define T float
#define NAME f32
#define SIN kl_sin_wide
#define COS kl_cos_wide
#define LIMIT ((double)KL_CIRCLE_MAX)
#define MINUS(x) kl_bits_f32(kl_f32_bits(x) ^ UINT32_C(1) << 31)
/* defines angles_f32, rotate_f32 */
#include "backend/cpu/rope/rope.inc"
#define T double
#define NAME f64
#define SIN sin
#define COS cos
#define LIMIT ((double)KL_CIRCLE_MAX)
#define MINUS(x) kl_bits_f64(kl_f64_bits(x) ^ UINT64_C(1) << 63)
/* defines angles_f64, rotate_f64 */
#include "backend/cpu/rope/rope.inc"

static int64_t offset_of(const struct job *j, int64_t b) {
    const struct kl_arg *offset = &j->l->in[1];
    return offset->ndim == 0
               ? ((const int32_t *)offset->data)[0]
               : ((const int32_t *)offset->data)[offset->dims[0] == 1 ? 0 : b * offset->strides[0]];
}

/* Computes positions [from, from + n) of all heads of one batch element. */
static void rope_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int64_t b = i / j->n_groups, from = i % j->n_groups * j->group,
            n = kl_min64(j->group, j->length - from);
    int bytes = (int)kl_dtype_size(j->type), item = (int)kl_dtype_size(in->dtype);
    const bool in_place = in->dtype == j->type && (in->layout & KL_ROW_CONTIGUOUS);
    const int64_t offset = offset_of(j, b);
    const bool nontemporal = in_place && kl_nontemporal(out, j->width * item);
    char *memory = kl_malloc((size_t)((2 * n * j->half + 2 * j->width) * bytes) + KL_LINE);
    if (!memory) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return;
    }
    char *rotated = (char *)(((uintptr_t)memory + KL_LINE - 1) / KL_LINE * KL_LINE),
         *row = rotated + j->width * bytes, *cosine = row + j->width * bytes,
         *sine = cosine + n * j->half * bytes;
    for (int64_t t = 0; t < n; t++)
        (j->type == KL_F64 ? angles_f64 : angles_f32)(
            j, from + t + offset, cosine + t * j->half * bytes, sine + t * j->half * bytes);
    struct kl_cursor c;
    union kl_tile raw;
    kl_cursor_init_arg(&c, in);
    for (int64_t h = 0; h < j->heads; h++) {
        int64_t first = ((b * j->heads + h) * j->length + from) * j->width;
        char *dst = (char *)out->data + first * item;
        kl_cursor_seek(&c, first);
        for (int64_t t = 0; t < n; t++) {
            char *to = dst + t * j->width * item;
            if (in_place) {
                const char *given = (const char *)in->data + (first + t * j->width) * item;
                (j->type == KL_F64 ? rotate_f64 : rotate_f32)(j, nontemporal ? rotated : to, given,
                                                              cosine + t * j->half * bytes,
                                                              sine + t * j->half * bytes);
                if (nontemporal) kl_nontemporal_copy(to, rotated, j->width * item);
                continue;
            }
            for (int64_t at = 0; at < j->width; at += KL_TILE) {
                int64_t m = kl_min64(KL_TILE, j->width - at);
                kl_convert(j->type, row + at * bytes, in->dtype, kl_cursor_next(&c, m, &raw), m);
            }
            (j->type == KL_F64 ? rotate_f64 : rotate_f32)(
                j, rotated, row, cosine + t * j->half * bytes, sine + t * j->half * bytes);
            kl_convert(out->dtype, to, j->type, rotated, j->width);
        }
    }
    if (nontemporal) kl_nontemporal_end();
    kl_free(memory);
}

static float freq_of(const struct job *j, int64_t k) {
    const struct kl_arg *freqs = &j->l->in[2];
    return ((const float *)freqs->data)[k * freqs->strides[0]];
}

/* Makes the table of rates, and that of turns if some angle is large. */
static void make_rates(struct job *j, double *rate, uint64_t *turns) {
    const bool given = j->l->n_in > 2;
    double last = 0;
    bool near = true;
    for (int64_t b = 0; b < j->batch; b++)
        last = fmax(last, fabs((double)offset_of(j, b)) + (double)j->length);
    last *= fabs((double)j->p->scale);
    for (int64_t k = 0; k < j->half; k++) {
        rate[k] = given ? 1 / (double)freq_of(j, k)
                        : pow((double)j->p->base, -(double)k / (double)j->half);
        near = near && last * fabs(rate[k]) < (double)KL_CIRCLE_MAX;
    }
    j->rate = rate;
    if (near) return;
    const struct kl_turns_scale by = kl_turns_scale(j->p->scale);
    for (int64_t k = 0; k < j->half; k++)
        turns[k] =
            given ? kl_turns_of_freq(&by, freq_of(j, k)) : kl_turns_of_rate(rate[k], j->p->scale);
    j->turns = turns;
}

int kl_cpu_rope(struct kl_launch *l) {
    const struct kl_arg *in = l->in;
    struct job j = {.l = l, .p = l->params};
    if (in->size == 0) return KL_OK;
    j.type = kl_compute_dtype(in->dtype);
    j.width = in->dims[in->ndim - 1];
    j.length = in->dims[in->ndim - 2];
    j.batch = in->dims[0];
    j.heads = in->size / (j.batch * j.length * j.width);
    j.half = j.p->dims / 2;
    /* The number of positions in a task is such that the run of a head is long, which suits memory,
     * but that there are enough tasks for all threads. */
    j.group = kl_min64(kl_ceil_div(RUN, j.width), kl_ceil_div(j.batch * j.length, TASKS));
    int64_t least = kl_ceil_div(KL_CHUNK / 4, j.width * j.heads);
    if (j.group < least) j.group = least;
    if (j.group > j.length) j.group = j.length;
    j.n_groups = kl_ceil_div(j.length, j.group);
    double *rate = kl_malloc((size_t)j.half * (sizeof *rate + sizeof *j.turns));
    if (!rate) return kl_fail_nomem(l->err);
    make_rates(&j, rate, (uint64_t *)(rate + j.half));
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    kl_run_tasks(&alone, j.batch * j.n_groups, rope_chunk, &j);
    kl_free(rate);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
