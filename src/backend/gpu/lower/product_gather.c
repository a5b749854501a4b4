/* product_gather.c - GATHER_MM and SEGMENTED_MM: products in tiles, each with the matrices or the
 * part of the sum that its indices name. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"

enum {
    WANT_LOCAL = 256,
    LEAST_LOCAL = 64,   /* the smaller of the two group sizes that tiles can have */
    ENOUGH_TILES = 128, /* with fewer large tiles, smaller ones are used */
    INDEX_BYTES = 4,
};

const struct kl_family kl_family_gather_mm = {.name = "gather_mm",
                                              .source = kl_source_product_gather,
                                              .defines = {"T:TYPE", "TM", "SEGMENTED"}};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

int kl_lower_gather_mm(struct kl_emit *e, const struct kl_command *c) {
    const bool segmented = c->op == KL_OP_SEGMENTED_MM;
    const struct kl_arg *a = &c->args[0], *b = &c->args[1], *left = &c->args[2],
                        *right = &c->args[segmented ? 2 : 3], *out = &c->args[c->n_in];
    const size_t item = kl_dtype_size(out->dtype);
    const int lead = !segmented;
    int64_t n_a = a->dims[0], n_b = b->dims[0], m = a->dims[lead], n = b->dims[lead + 1],
            depth = a->dims[lead + 1], a_lead = lead ? a->strides[0] : 0,
            b_lead = lead ? b->strides[0] : 0, a_row = a->strides[lead],
            a_col = a->strides[lead + 1], b_row = b->strides[lead], b_col = b->strides[lead + 1],
            left_step = left->strides[0], right_step = right->strides[segmented ? 1 : 0], tiles = 0;
    if (out->size == 0) return KL_OK;
    uint32_t local = WANT_LOCAL;
    int64_t side = 16;
    if (local > e->driver->max_local) {
        local = LEAST_LOCAL;
        side = 8;
    }
    int tm = 4;
    for (;; tm /= 2) {
        tiles = out->dims[0] * kl_groups_for(m, side * tm) * kl_groups_for(n, side * tm);
        if (tm == 2 || ((m < n ? m : n) > side * tm / 2 && tiles >= ENOUGH_TILES)) break;
    }
    const int values[] = {out->dtype, tm, segmented};
    int32_t a_along_k = magnitude(a_col) <= magnitude(a_row),
            b_along_k = magnitude(b_row) < magnitude(b_col);
    struct kl_karg args[] = {KL_KARG_PTR(a->data, item),
                             KL_KARG_PTR(b->data, item),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG_PTR(left->data, INDEX_BYTES),
                             KL_KARG_PTR(right->data, INDEX_BYTES),
                             KL_KARG(n_a),
                             KL_KARG(n_b),
                             KL_KARG(m),
                             KL_KARG(n),
                             KL_KARG(depth),
                             KL_KARG(a_lead),
                             KL_KARG(a_row),
                             KL_KARG(a_col),
                             KL_KARG(b_lead),
                             KL_KARG(b_row),
                             KL_KARG(b_col),
                             KL_KARG(left_step),
                             KL_KARG(right_step),
                             KL_KARG(a_along_k),
                             KL_KARG(b_along_k)};
    return kl_emit(e, &kl_family_gather_mm, values, "tiles", tiles, local, args, 20);
}
