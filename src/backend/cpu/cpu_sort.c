/* cpu_sort.c - SORT and ARGSORT along one axis: ascending, stable, NaN last.
 *
 * Every value becomes an unsigned key in whose order it is sorted; -0.0 and +0.0 have one key, so
 * have all NaN. A key of 32 bits and its place make one 64-bit number, no two of which are equal:
 * sorting those is stable by itself. Longer keys are sorted by merging, with their places beside
 * them. Complex: by real part, then imaginary part; those with a NaN come last: a NaN imaginary
 * part by real part, then a NaN real part by imaginary part, then both. */
#include <string.h>
#include <stdatomic.h>

#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"
#include "base/half.h"
#include "base/op_params.h"

static uint32_t key_f32(float x) {
    uint32_t u = kl_f32_bits(x);
    if (x != x) return UINT32_MAX;
    if (u == UINT32_C(1) << 31) u = 0;
    return u >> 31 ? ~u : u | UINT32_C(1) << 31;
}
static uint64_t key_f64(double x) {
    uint64_t u = kl_f64_bits(x);
    if (x != x) return UINT64_MAX;
    if (u == UINT64_C(1) << 63) u = 0;
    return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}
/* No float has a key of UINT32_MAX - 1: that of infinity is far below. */
static uint64_t key_c64(struct kl_c64 x) {
    uint64_t re = key_f32(x.re), im = key_f32(x.im);
    if (x.im != x.im && x.re == x.re) return (uint64_t)(UINT32_MAX - 1) << 32 | re;
    return re << 32 | im;
}

#define FLIP(x, type) ((x) ^ (type)((type)1 << (sizeof(type) * 8 - 1)))
#define T uint8_t
#define NAME u8
#define KEY(x) (x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint16_t
#define NAME u16
#define KEY(x) (x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint32_t
#define NAME u32
#define KEY(x) (x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint64_t
#define NAME u64
#define KEY(x) (x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint8_t
#define NAME i8
#define KEY(x) FLIP(x, uint8_t)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint16_t
#define NAME i16
#define KEY(x) FLIP(x, uint16_t)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint32_t
#define NAME i32
#define KEY(x) FLIP(x, uint32_t)
#include "backend/cpu/cpu_sort_keys.inc"
#define T uint64_t
#define NAME i64
#define KEY(x) FLIP(x, uint64_t)
#include "backend/cpu/cpu_sort_keys.inc"
#define T float
#define NAME f32
#define KEY(x) key_f32(x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T double
#define NAME f64
#define KEY(x) key_f64(x)
#include "backend/cpu/cpu_sort_keys.inc"
#define T struct kl_c64
#define NAME c64
#define KEY(x) key_c64(x)
#include "backend/cpu/cpu_sort_keys.inc"

static void (*const keys_of[KL_N_DTYPES])(const void *x, int64_t n, uint64_t *key) = {
    [KL_BOOL] = keys_u8, [KL_U8] = keys_u8,   [KL_U16] = keys_u16, [KL_U32] = keys_u32,
    [KL_U64] = keys_u64, [KL_I8] = keys_i8,   [KL_I16] = keys_i16, [KL_I32] = keys_i32,
    [KL_I64] = keys_i64, [KL_F32] = keys_f32, [KL_F64] = keys_f64, [KL_C64] = keys_c64,
};

struct long_key {
    uint64_t key;
    uint64_t place;
};

#define T uint64_t
#define NAME short
#define AFTER(a, b) ((a) > (b))
#include "backend/cpu/cpu_sort_merge.inc"
#define T struct long_key
#define NAME long
#define AFTER(a, b) ((a).key > (b).key)
#include "backend/cpu/cpu_sort_merge.inc"

struct job {
    const struct kl_launch *l;
    int axis;
    int64_t length, rows, group;
    bool is_long;              /* keys of 64 bits */
    int dims[KL_LONG_AXES], n; /* of the other axes */
    int64_t in_strides[KL_LONG_AXES], out_strides[KL_LONG_AXES];
    atomic_bool no_memory;
};

/* Row `row` into out; room is for twice its keys. */
static void sort_row(struct job *j, int64_t row, void *room) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int item = (int)kl_dtype_size(in->dtype), out_item = (int)kl_dtype_size(out->dtype);
    int64_t in_offset, out_offset;
    uint64_t key[KL_TILE];
    uint64_t *shorts = room;
    struct long_key *longs = room;
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_offsets(j->n, j->dims, j->in_strides, row, 1, &in_offset);
    kl_offsets(j->n, j->dims, j->out_strides, row, 1, &out_offset);
    const char *src = (const char *)in->data + in_offset * item;
    char *dst = (char *)out->data + out_offset * out_item;
    kl_cursor_init(&c, (void *)src, item, 1, &in->dims[j->axis], &in->strides[j->axis]);
    for (int64_t at = 0; at < j->length; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, j->length - at);
        enum kl_dtype type = kl_compute_dtype(in->dtype);
        keys_of[type](kl_cursor_next_as(&c, n, in->dtype, type, &raw, &tile), n, key);
        for (int64_t i = 0; i < n; i++) {
            if (j->is_long)
                longs[at + i] = (struct long_key){key[i], (uint64_t)(at + i)};
            else
                shorts[at + i] = key[i] << 32 | (uint64_t)(at + i);
        }
    }
    if (j->is_long)
        longs = sort_long(longs, longs + j->length, j->length);
    else
        shorts = sort_short(shorts, shorts + j->length, j->length);
    int64_t in_step = in->strides[j->axis] * item, out_step = out->strides[j->axis] * out_item;
    for (int64_t i = 0; i < j->length; i++) {
        uint32_t place = (uint32_t)(j->is_long ? longs[i].place : shorts[i]);
        if (j->l->op == KL_OP_ARGSORT)
            memcpy(dst + i * out_step, &place, sizeof place);
        else
            memcpy(dst + i * out_step, src + place * in_step, (size_t)item);
    }
}

static void sort_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    size_t bytes =
        2 * (size_t)j->length * (j->is_long ? sizeof(struct long_key) : sizeof(uint64_t));
    void *room = kl_malloc(bytes);
    if (!room) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return;
    }
    for (int64_t row = i * j->group; row < end; row++) sort_row(j, row, room);
    kl_free(room);
}

int kl_cpu_sort(struct kl_launch *l) {
    struct job j = {.l = l, .axis = ((const struct kl_axis_params *)l->params)->axis};
    const struct kl_arg *in = l->in;
    if (in->size == 0) return KL_OK;
    j.length = in->dims[j.axis];
    j.rows = in->size / j.length;
    j.is_long = kl_dtype_size(in->dtype) == 8;
    for (int i = 0; i < in->ndim; i++) {
        if (i == j.axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.in_strides[j.n] = in->strides[i];
        j.out_strides[j.n++] = l->out->strides[i];
    }
    j.group = kl_ceil_div(KL_CHUNK / 8, j.length);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    kl_share(&alone, kl_ceil_div(j.rows, j.group), sort_chunk, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
