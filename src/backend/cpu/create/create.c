/* create.c - kernels that make arrays from parameters or from other arrays: ARANGE, RANDOM_BITS,
 * SLICE_UPDATE, CONCATENATE, DEPENDS. */
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/patch.h"
#include "base/number/threefry.h"
#include "base/op/op_params.h"

/* ---- ARANGE ---- */
/* Integers wrap around, as with repeated additions. */
static void arange_int(const struct kl_launch *l, int64_t begin, int64_t n, int64_t *tile) {
    const struct kl_arange_params *p = l->params;
    uint64_t start = (uint64_t)(int64_t)p->start, step = (uint64_t)(int64_t)p->step;
    for (int64_t i = 0; i < n; i++) tile[i] = (int64_t)(start + (uint64_t)(begin + i) * step);
}

static void arange_float(const struct kl_launch *l, int64_t begin, int64_t n, double *tile) {
    const struct kl_arange_params *p = l->params;
    for (int64_t i = 0; i < n; i++) tile[i] = p->start + (double)(begin + i) * p->step;
}

static void arange_chunk(void *arg, int64_t chunk) {
    const struct kl_launch *l = arg;
    enum kl_dtype dtype = l->out->dtype;
    bool is_int = kl_dtype_is_int(dtype);
    int64_t begin = chunk * KL_CHUNK, end = kl_min64(begin + KL_CHUNK, l->out->size);
    union {
        int64_t i[KL_TILE];
        double f[KL_TILE];
    } tile;
    for (int64_t at = begin; at < end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - at);
        if (is_int)
            arange_int(l, at, n, tile.i);
        else
            arange_float(l, at, n, tile.f);
        kl_convert(dtype, (char *)l->out->data + at * (int64_t)kl_dtype_size(dtype),
                   is_int ? KL_I64 : KL_F64, &tile, n);
    }
}

int kl_cpu_arange(struct kl_launch *l) {
    kl_run_tasks(l, kl_ceil_div(l->out->size, KL_CHUNK), arange_chunk, l);
    return KL_OK;
}

/* ---- RANDOM_BITS ---- */
enum { PAIRS_PER_CHUNK = 1 << 14 };

struct bits_job {
    const struct kl_launch *l;
    int64_t bytes, words, pairs; /* sizes of the random stream of one key */
    int64_t chunks;              /* chunks for each key */
};

/* kl_threefry_2x32 of n counters (c0 + i, c1 + i), written out so that the compiler vectorises
 * it. */
static void threefry_run(struct kl_threefry key, uint32_t c0, uint32_t c1, int64_t n, uint32_t *x,
                         uint32_t *y) {
    const uint32_t k0 = key.x[0], k1 = key.x[1], k2 = k0 ^ k1 ^ UINT32_C(0x1BD11BDA);
#define ROUND(turn) a += b, b = (b << (turn) | b >> (32 - (turn))) ^ a
#define EVEN ROUND(13), ROUND(15), ROUND(26), ROUND(6)
#define ODD ROUND(17), ROUND(29), ROUND(16), ROUND(24)
    KL_EACH(i, n) {
        uint32_t a = c0 + (uint32_t)i + k0, b = c1 + (uint32_t)i + k1;
        EVEN, a += k1, b += k2 + 1;
        ODD, a += k2, b += k0 + 2;
        EVEN, a += k0, b += k1 + 3;
        ODD, a += k1, b += k2 + 4;
        EVEN, a += k2, b += k0 + 5;
        x[i] = a;
        y[i] = b;
    }
#undef ROUND
#undef EVEN
#undef ODD
}

static void bits_chunk(void *arg, int64_t chunk) {
    const struct bits_job *j = arg;
    int64_t which = chunk / j->chunks, begin = chunk % j->chunks * PAIRS_PER_CHUNK;
    int64_t end = kl_min64(begin + PAIRS_PER_CHUNK, j->pairs);
    struct kl_cursor keys;
    struct kl_threefry key;
    uint32_t words[2][KL_TILE];
    kl_cursor_init_arg(&keys, &j->l->in[0]);
    kl_cursor_seek(&keys, 2 * which);
    kl_cursor_read(&keys, 2, key.x);
    char *out = (char *)j->l->out->data + which * j->bytes;
    for (int64_t i = begin; i < end; i += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - i);
        threefry_run(key, (uint32_t)i, (uint32_t)(j->pairs + i), n, words[0], words[1]);
        if (i + n == j->pairs) words[0][n - 1] = kl_threefry_pair(key, j->words, j->pairs - 1).x[0];
        /* The last word of a random stream may be used in part, and words of narrow elements need
         * not be aligned. */
        for (int half = 0; half < 2; half++) {
            int64_t at = (i + half * j->pairs) * 4;
            if (at < j->bytes)
                memcpy(out + at, words[half], (size_t)kl_min64(4 * n, j->bytes - at));
        }
    }
}

int kl_cpu_random_bits(struct kl_launch *l) {
    struct bits_job j = {.l = l};
    int64_t n_keys = l->in[0].size / 2;
    if (l->out->size == 0) return KL_OK;
    j.bytes = l->out->size / n_keys * (int64_t)kl_dtype_size(l->out->dtype);
    j.words = kl_ceil_div(j.bytes, 4);
    j.pairs = kl_ceil_div(j.words, 2);
    j.chunks = kl_ceil_div(j.pairs, PAIRS_PER_CHUNK);
    kl_run_tasks(l, n_keys * j.chunks, bits_chunk, &j);
    return KL_OK;
}

/* ---- SLICE_UPDATE ---- */
/* Elements that are copied to other places: those of all axes but the ones of length 1. */
struct box {
    char *dst;
    const char *src;
    int item, n;
    int dims[KL_LONG_AXES];
    int64_t to[KL_LONG_AXES], from[KL_LONG_AXES], each; /* of the first axis, in one task */
};

/* Adds n places of an axis to a box; steps in elements. */
static __attribute__((noinline)) void box_axis(struct box *b, int64_t n, int64_t to, int64_t from) {
    if (n == 1 || b->n == KL_LONG_AXES) return;
    b->dims[b->n] = (int)n;
    b->to[b->n] = to;
    b->from[b->n++] = from;
}

static void box_task(void *arg, int64_t i) {
    const struct box *b = arg;
    const int64_t at = i * b->each;
    int dims[KL_LONG_AXES];
    memcpy(dims, b->dims, (size_t)b->n * sizeof *dims);
    dims[0] = (int)kl_min64(b->each, dims[0] - at);
    kl_copy_strided(b->item, b->n, dims, b->dst + at * b->item * b->to[0], b->to,
                    b->src + at * b->item * b->from[0], b->from);
}

static __attribute__((noinline)) void copy_box(const struct kl_launch *l, struct box *b) {
    int64_t size = 1;
    for (int i = 0; i < b->n && size > 0; i++) size *= b->dims[i];
    if (size < KL_PARALLEL_FROM) {
        kl_copy_strided(b->item, b->n, b->dims, b->dst, b->to, b->src, b->from);
        return;
    }
    b->each = kl_max64(1, KL_CHUNK / (size / b->dims[0]));
    kl_run_tasks(l, kl_ceil_div(b->dims[0], b->each), box_task, b);
}

/* Copies what the update does not write: of each axis the places before it and after it, which are
 * as long in the axes before as the update, and whole in the axes after. */
static void copy_around(const struct kl_launch *l, const struct kl_slice_params *p) {
    const struct kl_arg *base = &l->in[0], *update = &l->in[1], *out = l->out;
    for (int part = 0; part < 2 * out->ndim; part++) {
        const int axis = part / 2;
        const int64_t after = p->v[axis] + update->dims[axis];
        const int64_t length = part % 2 ? out->dims[axis] - after : p->v[axis];
        struct box b;
        int64_t to = 0, from = 0;
        if (length == 0) continue;
        b.n = 0;
        b.item = (int)kl_dtype_size(out->dtype);
        for (int i = 0; i < out->ndim; i++) {
            const int64_t start = i < axis ? p->v[i] : i == axis && part % 2 ? after : 0;
            const int64_t n = i < axis ? update->dims[i] : i == axis ? length : out->dims[i];
            to += start * out->strides[i];
            from += start * base->strides[i];
            box_axis(&b, n, out->strides[i], base->strides[i]);
        }
        b.dst = (char *)out->data + to * b.item;
        b.src = (const char *)base->data + from * b.item;
        copy_box(l, &b);
    }
}

int kl_cpu_slice_update(struct kl_launch *l) {
    const struct kl_slice_params *p = l->params;
    const struct kl_arg *base = &l->in[0], *update = &l->in[1], *out = l->out;
    struct box b; /* not zeroed: it has room for far more axes than there are */
    bool near = update->size > 0;
    b.src = update->data;
    b.item = (int)kl_dtype_size(out->dtype);
    b.n = 0;
    int64_t to = 0;
    for (int i = 0; i < p->ndim; i++) {
        const int64_t step = p->v[p->ndim + i];
        if (step != 1 && update->dims[i] != 1) near = false;
        to += p->v[i] * out->strides[i];
        box_axis(&b, update->dims[i], step * out->strides[i], update->strides[i]);
    }
    b.dst = (char *)out->data + to * b.item;
    if (out->data != base->data) {
        if (near)
            copy_around(l, p);
        else
            kl_copy_strided(b.item, out->ndim, out->dims, out->data, out->strides, base->data,
                            base->strides);
    }
    if (update->size > 0) copy_box(l, &b);
    return KL_OK;
}

/* ---- CONCATENATE ---- */
enum {
    ROOM = 1 << 14,   /* bytes of a tile of rows */
    LEAST_BLOCK = 16, /* the fewest rows in it */
};

struct concat_job {
    const struct kl_launch *l;
    const struct kl_arg *in;
    int64_t begin;        /* the length of this input along the axis times the elements per step */
    int64_t row, out_row; /* elements per step of the outer axes, in the input and the output */
    int64_t outer, block; /* the number of steps; those that fit into a tile */
    int cell;             /* the bytes of a row, where they are those of an element in all inputs */
};

static void concat_chunk(void *arg, int64_t chunk) {
    const struct concat_job *j = arg;
    int bytes = (int)kl_dtype_size(j->l->out->dtype);
    int64_t at = chunk * KL_CHUNK, end = kl_min64(at + KL_CHUNK, j->in->size);
    struct kl_cursor c;
    kl_cursor_init_arg(&c, j->in);
    kl_cursor_seek(&c, at);
    while (at < end) {
        int64_t outer = at / j->row, inner = at % j->row, n = kl_min64(j->row - inner, end - at);
        kl_cursor_read(&c, n,
                       (char *)j->l->out->data + (outer * j->out_row + j->begin + inner) * bytes);
        at += n;
    }
}

/* Short rows: all inputs are read for a block of steps, whose results are then still in a cache. */
static void concat_block(void *arg, int64_t block) {
    const struct concat_job *j = arg;
    const struct kl_launch *l = j->l;
    const int64_t item = (int64_t)kl_dtype_size(l->out->dtype), at = block * j->block,
                  n = kl_min64(j->block, j->outer - at);
    _Alignas(64) char tile[ROOM];
    char *to = (char *)l->out->data + at * j->out_row * item, *dst = to;
    for (int k = 0; k < l->n_in; k++) {
        const int64_t row = l->in[k].size / j->outer;
        struct kl_cursor c;
        if (row == 0) continue;
        kl_cursor_init_arg(&c, &l->in[k]);
        kl_cursor_seek(&c, at * row);
        kl_cursor_read(&c, n * row, tile + (j->cell ? k * n * j->cell : 0));
        if (!j->cell) kl_copy_rows(n, row * item, dst, j->out_row * item, tile, row * item);
        dst += row * item;
    }
    if (j->cell && l->n_in == 2)
        kl_interleave(j->cell, n, to, tile, tile + n * j->cell);
    else if (j->cell)
        kl_cpu_transpose(j->cell, to, l->n_in * j->cell, tile, n * j->cell, l->n_in, n);
}

int kl_cpu_concatenate(struct kl_launch *l) {
    const struct kl_axis_params *p = l->params;
    const int64_t item = (int64_t)kl_dtype_size(l->out->dtype);
    struct concat_job j = {.l = l, .outer = l->out->size > 0};
    if (!j.outer) return KL_OK;
    for (int i = 0; i < p->axis && j.outer > 0; i++) j.outer *= l->out->dims[i];
    j.out_row = l->out->size / j.outer;
    j.block = ROOM / (j.out_row * item);
    int64_t cell = l->in[0].size / j.outer * item;
    bool cells = cell == 1 || cell == 2 || cell == 4 || cell == 8;
    for (int k = 1; k < l->n_in && cells; k++) cells = l->in[k].size == l->in[0].size;
    if (cells) j.cell = (int)cell;
    if (j.block >= LEAST_BLOCK && j.outer > 1) {
        struct kl_launch alone = {.parallel = l->out->size < KL_CHUNK ? NULL : l->parallel};
        kl_run_tasks(&alone, kl_ceil_div(j.outer, j.block), concat_block, &j);
        return KL_OK;
    }
    for (j.in = l->in; j.in < l->in + l->n_in; j.in++) {
        j.row = j.in->size / j.outer;
        kl_run_tasks(l, kl_ceil_div(j.in->size, KL_CHUNK), concat_chunk, &j);
        j.begin += j.row;
    }
    return KL_OK;
}

/* ---- DEPENDS ---- */
/* The other inputs only order execution: they have settled before this kernel runs. */
int kl_cpu_depends(struct kl_launch *l) {
    const struct kl_arg *in = &l->in[0], *out = l->out;
    if (out->data != in->data && out->size > 0)
        kl_copy_strided((int)kl_dtype_size(out->dtype), out->ndim, out->dims, out->data,
                        out->strides, in->data, in->strides);
    return KL_OK;
}
