/* quantized_matrix.c - products of quantized matrices by matrix units: of one row by those for
 * integers, of few rows by those for 16-bit floats. */
#include <string.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/quantized.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    TILE = 16,       /* rows of w that matrix units take at once, */
    EIGHT = 8,       /* and rows of x */
    HELD_WORDS = 8,  /* of packed numbers that a work-item loads ahead, of each of its rows of w */
    MOST_WARPS = 16, /* of a group */
    /* Sub-groups that keep a large device busy: 16 on each multiprocessor of an H200, 8 where
     * each has more than 8 rows of x. */
    ENOUGH_WARPS = 132 * 16,
    LONGEST_ROW = 1 << 24, /* elements between rows of x */
    /* Of one row: quantized_row_matrix.kl has the same numbers. */
    ROW_WARPS = 8,
    ROW_PIECES = 16, /* of 16 bytes of each row of w in a stage */
    ROW_DIGITS = 3,  /* bytes of an element of x */
    ROW_RING = 2,
    ROW_RESIDENT = 2, /* groups on a multiprocessor; more would wait for the first ones to end */
};

const struct kl_family kl_family_quantized_matrix = {
    .name = "quantized_matrix",
    .source = kl_source_quantized_matrix,
    .defines = {"T:TYPE", "BITS", "GROUP", "EIGHTS", "TILES", "BLOCK", "BATCHED"},
    .library = kl_source_quantized_place};
const struct kl_family kl_family_quantized_row = {.name = "quantized_row",
                                                  .source = kl_source_quantized_row_matrix,
                                                  .defines = {"T:TYPE", "BITS", "GROUP", "BATCHED"},
                                                  .library = kl_source_quantized_place};

/* Whether a's elements can be read n at a time, or are copied before that. */
static bool in_runs(const struct kl_arg *a, int64_t n) {
    const int64_t bytes = n * (int64_t)kl_dtype_size(a->dtype);
    if (kl_stride_from_end(a, a->strides, 1) != 1 && a->dims[a->ndim - 1] != 1) return true;
    if ((uintptr_t)a->data % (uintptr_t)bytes) return false;
    for (int i = 0; i < a->ndim - 1; i++)
        if (a->dims[i] != 1 && a->strides[i] % n) return false;
    return true;
}

/* 32-bit words of a group's numbers that each of four work-items has, at least 1. */
static int words_of(const struct kl_quant_format *f) {
    const int words = f->group_size / 4 * f->bits / 32;
    return words ? words : 1;
}

bool kl_quantized_takes_matrix(const struct kl_emit *e, const struct kl_command *c) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_quant_format *f = &p->format;
    const struct kl_arg *in = c->args, *out = &c->args[c->n_in];
    const int words = words_of(f);
    return e->driver->has_matrix_units && e->driver->subgroup == 32 && p->transpose &&
           kl_local_size(e, MOST_WARPS * 32) == MOST_WARPS * 32 && kl_quant_has_biases(f->mode) &&
           (f->bits == 2 || f->bits == 4 || f->bits == 8) && kl_dtype_size(in[0].dtype) == 2 &&
           in_runs(&in[1], words < 4 ? words : 4) && out->size < INT32_MAX;
}

/* x as the kernel reads it: with rows of 16-byte pieces, at distances that fit 32 bits. */
static int in_pieces(struct kl_emit *e, const struct kl_arg *x, struct kl_arg *to,
                     int64_t *strides) {
    const int64_t row = kl_stride_from_end(x, x->strides, 2);
    void *copy = NULL;
    *to = *x;
    if (in_runs(x, KL_QUANTIZED_VEC_BYTES / 2) && row >= 0 && row < LONGEST_ROW) return KL_OK;
    kl_strides_row_major(x->ndim, x->dims, strides);
    KL_TRY(kl_emit_workspace(e, (size_t)x->size * 2, &copy));
    KL_TRY(kl_emit_copy(e, 2, x->ndim, x->dims, copy, strides, x->data, x->strides));
    to->data = copy;
    to->strides = strides;
    to->layout = kl_layout_of(x->ndim, x->dims, strides);
    return KL_OK;
}

/* ---- one row ---- */

/* Groups of a row of w in a stage. */
static int groups_in_stage(const struct kl_quant_format *f) {
    return ROW_PIECES * 128 / (f->group_size * f->bits);
}
static int64_t stages_of(const struct kl_quant_format *f, int64_t k) {
    return k * f->bits / (ROW_PIECES * 128);
}
/* The shared memory of a group with `kept` stages of x. */
static size_t row_bytes(const struct kl_quant_format *f, int64_t kept) {
    const int groups = groups_in_stage(f);
    const size_t stage = TILE * (ROW_PIECES * 16 + 2 * groups * 2),
                 x = (size_t)groups * 8 + (size_t)ROW_PIECES * 128 / (size_t)f->bits * ROW_DIGITS;
    return ROW_WARPS * ROW_RING * stage + 32 + (size_t)2 * ROW_WARPS * TILE * 4 + (size_t)kept * x;
}

/* Each row of x has a matrix of its own, of which the kernel can take whole stages. */
static bool takes_row(const struct kl_emit *e, const struct kl_command *c, int64_t rows) {
    const struct kl_quant_format *f = &((const struct kl_qmm_params *)c->params)->format;
    const struct kl_arg *in = c->args, *out = &c->args[c->n_in];
    const int64_t k = in[0].dims[in[0].ndim - 1];
    const int spread = f->group_size * f->bits;
    return rows == 1 && (f->bits == 4 || f->bits == 8) && (spread == 256 || spread == 512) &&
           out->dims[out->ndim - 1] % TILE == 0 && k * f->bits % (ROW_PIECES * 128) == 0 &&
           stages_of(f, k) >= ROW_WARPS / 2 && in_runs(&in[1], 4) &&
           in_runs(&in[2], groups_in_stage(f)) && in_runs(&in[3], groups_in_stage(f)) &&
           e->driver->dynamic_bytes >= row_bytes(f, stages_of(f, k));
}

static int by_row(struct kl_emit *e, const struct kl_command *c, const struct kl_quantized_args *a,
                  int64_t batches, int32_t early) {
    const struct kl_quant_format *f = &((const struct kl_qmm_params *)c->params)->format;
    const struct kl_arg *out = &c->args[c->n_in];
    const int64_t all = e->elements ? e->elements : out->size;
    const uint32_t tiles =
        (uint32_t)kl_groups_for(all, (int64_t)TILE * ROW_RESIDENT * e->driver->n_units);
    const int values[] = {out->dtype, f->bits, f->group_size, batches > 1 || a->q.gather};
    const struct kl_karg args[] = {KL_KARG_PTR(a->o.data[0], KL_QUANTIZED_VEC_BYTES),
                                   KL_KARG_PTR(a->o.data[1], KL_QUANTIZED_VEC_BYTES),
                                   KL_KARG_PTR(a->o.data[2], 2 * groups_in_stage(f)),
                                   KL_KARG_PTR(a->o.data[3], 2 * groups_in_stage(f)),
                                   KL_KARG_PTR(out->data, 2),
                                   KL_KARG_PTR(a->lhs, 4),
                                   KL_KARG_PTR(a->rhs, 4),
                                   KL_KARG(a->q),
                                   KL_KARG(a->o.lead),
                                   KL_KARG(tiles),
                                   KL_KARG(early)};
    const size_t bytes = row_bytes(f, tiles == 1 ? ROW_WARPS : stages_of(f, a->q.k));
    return kl_emit_shared(e, &kl_family_quantized_row, values, "multiply_row",
                          batches * kl_groups_for(a->q.n, (int64_t)TILE * tiles), ROW_WARPS * 32,
                          kl_emit_spread_bytes(e, bytes, ROW_RESIDENT), args, 11);
}

/* ---- few rows ---- */

int kl_quantized_by_matrix(struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_quant_format *f = &((const struct kl_qmm_params *)c->params)->format;
    const struct kl_arg *out = &c->args[c->n_in];
    int64_t strides[KL_AXES_MAX];
    struct kl_arg in[4];
    struct kl_quantized_args a;
    memcpy(in, c->args, sizeof in);
    KL_TRY(in_pieces(e, &c->args[0], &in[0], strides));
    KL_TRY(kl_quantized_describe(e, c, in, false, &a));
    /* Single rows with the same matrix are brought together; offsets in x fit 32 bits. */
    const bool routed = kl_quantized_single_rows(e, &a.q, batches) && a.q.x_mat >= 0 &&
                        a.q.xs * a.q.x_mat <= UINT32_MAX;
    const int32_t early = !a.q.gather && kl_emit_unwritten(e, &in[1]) &&
                          kl_emit_unwritten(e, &in[2]) && kl_emit_unwritten(e, &in[3]);
    if (!routed && takes_row(e, c, a.q.m)) return by_row(e, c, &a, batches, early);
    const int64_t lines = routed ? kl_quantized_lines(&a.q, batches) : a.q.m;
    const int eights = lines <= 8 ? 1 : lines <= 16 ? 2 : lines <= 32 ? 4 : 8;
    const int tiles = eights > 1 && f->group_size < 128 ? 2 : 1, words = words_of(f);
    const int held = eights == 8 ? HELD_WORDS / 2 : HELD_WORDS;
    const int64_t groups = a.q.k / f->group_size;
    int block = eights == 1 ? 2 : 4 / tiles; /* at 4 bits and one row 4 took 0 to 23 % longer */
    while (block > 1 && (block * words * tiles > held || groups % block ||
                         !in_runs(&in[2], block) || !in_runs(&in[3], block)))
        block /= 2;
    struct kl_route route = {NULL, NULL, batches * kl_groups_for(a.q.m, EIGHT * eights)};
    if (routed) KL_TRY(kl_route(e, a.rhs, 1, batches, a.q.ws, EIGHT * eights, &route));
    const int64_t parts = route.n_tiles * kl_groups_for(a.q.n, TILE * tiles);
    const int64_t enough = eights > 1 ? ENOUGH_WARPS / 2 : ENOUGH_WARPS;
    uint32_t warps = 1;
    while (warps < MOST_WARPS && parts * warps * 2 <= enough && warps * 2 <= groups / block)
        warps *= 2;
    const int values[] = {in[0].dtype,
                          f->bits,
                          f->group_size,
                          eights,
                          tiles,
                          block,
                          routed ? 2 : batches > 1 || a.q.gather};
    const size_t item = words < 4 ? (size_t)words * 4 : KL_QUANTIZED_VEC_BYTES;
    const struct kl_karg args[] = {KL_KARG_PTR(a.o.data[0], KL_QUANTIZED_VEC_BYTES),
                                   KL_KARG_PTR(a.o.data[1], item),
                                   KL_KARG_PTR(a.o.data[2], 2 * block),
                                   KL_KARG_PTR(a.o.data[3], 2 * block),
                                   KL_KARG_PTR(out->data, 2),
                                   KL_KARG_PTR(a.lhs, 4),
                                   KL_KARG_PTR(routed ? route.tiles : a.rhs, 4),
                                   KL_KARG_PTR(route.order, 4),
                                   KL_KARG(a.q),
                                   KL_KARG(a.o.lead),
                                   KL_KARG(early)};
    return kl_emit(e, &kl_family_quantized_matrix, values, "multiply_packed", parts, warps * 32,
                   args, 11);
}
