/* quantized_tiles.c - products of more than a few rows with quantized matrices, where the dialect
 * has matrices of sub-groups: no matrix is unpacked into the workspace. */
#include <stdlib.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/quantized.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL = 256,
    SIDE = 16,          /* a tile has this many rows for each TM */
    GROUPS_OF_UNIT = 2, /* with fewer large tiles, smaller ones are used */
};

const struct kl_family kl_family_quantized_tiles = {
    .name = "quantized_tiles",
    .source = kl_source_quantized_tiles,
    .defines = {"T:TYPE", "T:HELD", "Q:MODE", "BITS", "GROUP", "TM", "TRANSPOSED", "ROUTED"},
    .library = kl_source_quantized_place};

/* Rows of x that are multiplied by the same matrix, on average; single rows that are not brought
 * together are alone. */
static int64_t rows_of(const struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_arg *w = &c->args[1], *out = &c->args[c->n_in];
    const int64_t m = out->dims[out->ndim - 2];
    if (c->op != KL_OP_GATHER_QMM || m > 1 || !kl_route_pays(e, batches, w->dims[0])) return m;
    return kl_groups_for(batches, w->dims[0]);
}

bool kl_quantized_takes_tiles(const struct kl_emit *e, const struct kl_command *c,
                              int64_t batches) {
    return e->driver->has_sub_matrix && kl_local_size(e, LOCAL) == LOCAL &&
           rows_of(e, c, batches) > KL_QUANTIZED_FEW_ROWS;
}

int kl_quantized_by_tiles(struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *out = &c->args[c->n_in];
    const bool affine = kl_quant_has_biases(p->format.mode);
    struct kl_quantized_args a;
    KL_TRY(kl_quantized_describe(e, c, c->args, true, &a));
    const struct kl_quantized_operands *o = &a.o;
    const struct kl_quantized_product q = a.q;
    const int64_t rows = rows_of(e, c, batches);
    const bool routed = kl_quantized_single_rows(e, &q, batches);
    const int64_t large = SIDE * 4, matrices = routed ? q.ws : batches;
    const bool enough = matrices * kl_groups_for(rows, large) * kl_groups_for(q.n, large) >=
                        GROUPS_OF_UNIT * (int64_t)e->driver->n_units;
    const int tm = enough && rows > large / 2 && q.n > large / 2 ? 4 : 2;
    const int64_t tile = SIDE * tm;
    struct kl_route route = {NULL, NULL, batches};
    if (routed) KL_TRY(kl_route(e, a.rhs, 1, batches, q.ws, tile, &route));
    /* The numbers of gather_qmm are not rounded to 16 bits. */
    const int held = q.gather ? KL_F32 : x->dtype;
    const int values[] = {
        x->dtype, held,         p->format.mode, p->format.bits, p->format.group_size,
        tm,       p->transpose, routed};
    const int32_t x_along_k = llabs(q.x_col) <= llabs(q.x_row);
    const struct kl_karg args[] = {KL_KARG_PTR(o->data[0], o->item[0]),
                                   KL_KARG_PTR(o->data[1], o->item[1]),
                                   KL_KARG_PTR(o->data[2], o->item[2]),
                                   KL_KARG_PTR(affine ? o->data[3] : NULL, affine ? o->item[3] : 1),
                                   KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                                   KL_KARG_PTR(a.lhs, 4),
                                   KL_KARG_PTR(routed ? route.tiles : a.rhs, 4),
                                   KL_KARG_PTR(route.order, 4),
                                   KL_KARG(q),
                                   KL_KARG(o->lead),
                                   KL_KARG(x_along_k)};
    return kl_emit(e, &kl_family_quantized_tiles, values, "tiles",
                   route.n_tiles * kl_groups_for(q.m, tile) * kl_groups_for(q.n, tile), LOCAL, args,
                   11);
}
