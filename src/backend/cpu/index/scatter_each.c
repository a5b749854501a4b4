/* scatter_each.c - scatters of single elements into an output that fits the caches: one after
 * another on one thread, without a call for each. Splitting positions into buckets takes longer
 * than that, even on several threads. */
#include "backend/cpu/index/scatter.h"

#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/extremes.h"
#include "base/number/half.h"

enum {
    NEAR = 1 << 17, /* the most elements of the output */
    FEWEST = 64     /* positions; fewer are written without tiles */
};

typedef void each_fn(void *out, const uint32_t *places, const void *updates, int64_t n);

#define AS_F16(f, a, b) kl_f16_store(f(kl_f16_load(a), kl_f16_load(b)))
#define AS_BF16(f, a, b) kl_bf16_store(f(kl_bf16_load(a), kl_bf16_load(b)))
#define ADD_F16(a, b) AS_F16(PLAIN_ADD, a, b)
#define PROD_F16(a, b) AS_F16(PLAIN_PROD, a, b)
#define MAX_F16(a, b) AS_F16(kl_max_f32, a, b)
#define MIN_F16(a, b) AS_F16(kl_min_f32, a, b)
#define ADD_BF16(a, b) AS_BF16(PLAIN_ADD, a, b)
#define PROD_BF16(a, b) AS_BF16(PLAIN_PROD, a, b)
#define MAX_BF16(a, b) AS_BF16(kl_max_f32, a, b)
#define MIN_BF16(a, b) AS_BF16(kl_min_f32, a, b)

#define SCATTER_FUNCTIONS "backend/cpu/index/scatter_each.inc"
#include "backend/cpu/index/scatter_types.inc"

#define ASSIGN(BITS)                                                                               \
    static void each_assign_##BITS(void *out, const uint32_t *places, const void *in, int64_t n) { \
        typedef uint##BITS##_t element __attribute__((may_alias));                                 \
        element *y = out;                                                                          \
        const element *x = in;                                                                     \
        for (int64_t i = 0; i < n; i++) y[places[i]] = x[i];                                       \
    }
/* defines each_assign_8 */
ASSIGN(8)
/* defines each_assign_16 */
ASSIGN(16)
/* defines each_assign_32 */
ASSIGN(32)
static void each_assign_64(void *out, const uint32_t *places, const void *in, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + 8 * (int64_t)places[i], (const char *)in + 8 * i, 8);
}

#define JOINS(op, signed_8, signed_16, signed_32, signed_64)                                      \
    {                                                                                             \
        [KL_BOOL] = each_##op##_b8, [KL_U8] = each_##op##_u8, [KL_U16] = each_##op##_u16,         \
        [KL_U32] = each_##op##_u32, [KL_U64] = each_##op##_u64, [KL_I8] = each_##op##_##signed_8, \
        [KL_I16] = each_##op##_##signed_16, [KL_I32] = each_##op##_##signed_32,                   \
        [KL_I64] = each_##op##_##signed_64, [KL_F16] = each_##op##_f16,                           \
        [KL_BF16] = each_##op##_bf16, [KL_F32] = each_##op##_f32, [KL_F64] = each_##op##_f64,     \
        [KL_C64] = each_##op##_c64                                                                \
    }
static each_fn *const joins[][KL_N_DTYPES] = {
    [KL_SCATTER_ADD] = JOINS(add, u8, u16, u32, u64),
    [KL_SCATTER_PROD] = JOINS(prod, u8, u16, u32, u64),
    [KL_SCATTER_MAX] = JOINS(max, i8, i16, i32, i64),
    [KL_SCATTER_MIN] = JOINS(min, i8, i16, i32, i64),
    [KL_SCATTER_ADD_DENORMAL] = JOINS(add, u8, u16, u32, u64),
};

static each_fn *each_of(enum kl_scatter_mode mode, enum kl_dtype dtype) {
    if (mode != KL_SCATTER_ASSIGN) return joins[mode][dtype];
    switch (kl_dtype_size(dtype)) {
    case 1: return each_assign_8;
    case 2: return each_assign_16;
    case 4: return each_assign_32;
    default: return each_assign_64;
    }
}

/* Removes the places of wrong indices, and what is written there. Returns how many are left. */
static int64_t leave_out(struct kl_launch *l, int64_t at, int64_t n, int item, uint32_t *places,
                         const char **updates, union kl_tile *kept) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (places[i] == UINT32_MAX) {
            if (l->fault == KL_NO_FAULT) l->fault = at + i;
            continue;
        }
        memmove(kept->bytes + m * item, *updates + i * item, (size_t)item);
        places[m++] = places[i];
    }
    *updates = (const char *)kept->bytes;
    return m;
}

bool kl_scatter_each(struct kl_launch *l, const struct kl_scatter_job *j) {
    const struct kl_arg *out = l->out;
    if (j->n || !j->n_pos || out->size > NEAR || l->pos_end - l->pos_begin < FEWEST) return false;
    each_fn *each = each_of(j->mode, out->dtype);
    uint32_t places[KL_TILE];
    struct kl_scatter_walk w;
    struct kl_cursor updates;
    union kl_tile raw, kept;
    kl_scatter_start(l);
    kl_scatter_walk_init(&w, j, l->pos_begin);
    kl_cursor_init(&updates, l->in[1].data, j->item, j->n_pos, j->pos_dims, j->src_strides);
    kl_cursor_seek(&updates, l->pos_begin);
    for (int64_t at = l->pos_begin; at < l->pos_end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, l->pos_end - at);
        int bad = 0;
        kl_scatter_near_places(&w, n, places);
        const char *x = kl_cursor_next(&updates, n, &raw);
        KL_EACH(i, n) bad |= places[i] == UINT32_MAX;
        if (bad) n = leave_out(l, at, n, j->item, places, &x, &kept);
        each(out->data, places, x, n);
    }
    return true;
}
