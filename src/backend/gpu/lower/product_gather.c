/* product_gather.c - GATHER_MM and SEGMENTED_MM: products in tiles, each with the matrices or the
 * part of the sum that its indices name; single rows by matrix units where there are such. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/product_gather.h"
#include "base/number/dtype.h"

enum {
    WANT_LOCAL = 256,
    LEAST_LOCAL = 64,   /* the smaller of the two group sizes that tiles can have */
    ENOUGH_TILES = 128, /* with fewer large tiles, smaller ones are used */
    INDEX_BYTES = 4,
};

const struct kl_family kl_family_gather_mm = {.name = "gather_mm",
                                              .source = kl_source_product_gather,
                                              .defines = {"T:TYPE", "TM", "SEGMENTED", "ROUTED"}};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* ---- by matrix units ---- */

enum {
    PIECE = 8,      /* elements of 16 bytes */
    TERMS = 32,     /* that a sub-group adds at once */
    TILE_ROWS = 16, /* rows of a matrix */
    MOST_WARPS = 8,
    ENOUGH_WARPS = 132 * 16, /* on an H200 */
    /* Tiles in shared memory: 256 rows of a matrix by 64 of x, four steps. */
    WAY_SHARED = 2,
    SHARED_TILES = 4,
    SHARED_EIGHTS = 4,
    SHARED_STEPS = 4,
    W_ROWS = 4 * TILE_ROWS * SHARED_TILES,
    X_ROWS = 2 * 8 * SHARED_EIGHTS,
    SHARED_BYTES = SHARED_STEPS * (W_ROWS + X_ROWS) * TERMS * 2,
    /* The same with 128 of x, by warp groups: product_gather_sm90.kl has the same numbers. */
    GROUP_X_ROWS = 128,
    GROUP_TERMS = 64,
    GROUP_BYTES = 1024 + 4 * (W_ROWS + GROUP_X_ROWS) * GROUP_TERMS * 2,
};

const struct kl_family kl_family_gather_matrix = {
    .name = "gather_matrix",
    .source = kl_source_product_gather_matrix,
    .defines = {"T:TYPE", "TILES", "EIGHTS", "WAY", "ROUTED", "PIECES"}};

const struct kl_family kl_family_gather_sm90 = {
    .name = "gather_sm90", .source = kl_source_product_gather_sm90, .defines = {"T:TYPE"}};

static bool in_pieces(const struct kl_arg *a, int64_t lead, int64_t row) {
    return (uintptr_t)a->data % (PIECE * 2) == 0 && lead % PIECE == 0 && row % PIECE == 0;
}

/* Single rows of 16-bit floats times matrices whose columns are dense. */
static bool takes_matrix(const struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *a = &c->args[0], *b = &c->args[1], *out = &c->args[4];
    const int64_t depth = a->dims[2];
    return c->op == KL_OP_GATHER_MM && e->driver->has_matrix_units && e->driver->subgroup == 32 &&
           kl_local_size(e, MOST_WARPS * 32) == MOST_WARPS * 32 &&
           (out->dtype == KL_F16 || out->dtype == KL_BF16) && out->dims[1] == 1 && depth > 0 &&
           depth % TERMS == 0 && a->strides[2] == 1 && b->strides[1] == 1 &&
           in_pieces(a, a->strides[0], 0) && in_pieces(b, b->strides[0], b->strides[2]) &&
           out->size < INT32_MAX;
}

int kl_lower_gather_part(struct kl_emit *e, const struct kl_command *c,
                         struct kl_gather_part *part) {
    const struct kl_arg *a = &c->args[0], *b = &c->args[1], *left = &c->args[2],
                        *right = &c->args[3], *out = &c->args[4];
    const int64_t rows = out->dims[0], n_w = b->dims[0], n_x = a->dims[0], x_lead = a->strides[0],
                  w_lead = b->strides[0], w_row = b->strides[2], left_step = left->strides[0],
                  right_step = right->strides[0];
    const uint32_t n = (uint32_t)out->dims[2], k = (uint32_t)a->dims[2];
    const bool routed = kl_route_pays(e, rows, n_w);
    /* A quarter more than a matrix has on average: what is left over reads the matrix again. */
    const int64_t lines = routed ? kl_groups_for(rows * 5, n_w * 4) : 1;
    const int eights = lines <= 8 ? 1 : lines <= 16 ? 2 : lines <= 32 ? 4 : 8;
    const int tiles = eights > 1 ? 2 : 1, pieces = eights > 1 ? 1 : 4;
    const bool shared = lines > 16 && e->driver->dynamic_bytes >= SHARED_BYTES;
    const bool grouped = lines > X_ROWS && e->driver->has_warp_groups && k % GROUP_TERMS == 0 &&
                         e->driver->dynamic_bytes >= GROUP_BYTES;
    const int64_t x_rows = grouped ? GROUP_X_ROWS : shared ? X_ROWS : 8 * eights;
    struct kl_route route = {NULL, NULL, rows};
    if (routed && part->route.tiles)
        route = part->route;
    else if (routed)
        KL_TRY(kl_route(e, right->data, right_step, rows, n_w, x_rows, &route));
    part->route = route;
    const uint32_t w_first = (uint32_t)part->first, w_count = (uint32_t)part->n;
    const int64_t parts = route.n_tiles * kl_groups_for(n, TILE_ROWS * tiles);
    const bool split = parts * MOST_WARPS < ENOUGH_WARPS * 4;
    uint32_t warps = split ? 1 : MOST_WARPS;
    while (split && warps < MOST_WARPS && parts * warps < ENOUGH_WARPS &&
           warps * 2 * TERMS * (uint32_t)pieces <= k)
        warps *= 2;
    const int values[] = {out->dtype, tiles, eights, split, routed, pieces},
              shared_values[] = {out->dtype, SHARED_TILES, SHARED_EIGHTS,
                                 WAY_SHARED, true,         SHARED_STEPS};
    const struct kl_karg args[] = {KL_KARG_PTR(a->data, PIECE * 2),
                                   KL_KARG_PTR(b->data, PIECE * 2),
                                   KL_KARG_PTR(out->data, 2),
                                   KL_KARG_PTR(left->data, INDEX_BYTES),
                                   KL_KARG_PTR(routed ? route.tiles : right->data, INDEX_BYTES),
                                   KL_KARG_PTR(route.order, INDEX_BYTES),
                                   KL_KARG(n_x),
                                   KL_KARG(n_w),
                                   KL_KARG(n),
                                   KL_KARG(k),
                                   KL_KARG(x_lead),
                                   KL_KARG(w_lead),
                                   KL_KARG(w_row),
                                   KL_KARG(left_step),
                                   KL_KARG(right_step),
                                   KL_KARG(w_first),
                                   KL_KARG(w_count)};
    const int64_t wide = TILE_ROWS * tiles * (split ? 1 : (int64_t)warps);
    if (grouped)
        return kl_emit_shared(e, &kl_family_gather_sm90, values, "tiles_by_warp_groups",
                              route.n_tiles * kl_groups_for(n, W_ROWS), MOST_WARPS * 32,
                              GROUP_BYTES, args, 17);
    if (shared)
        return kl_emit_shared(e, &kl_family_gather_matrix, shared_values, "tiles_by_matrices",
                              route.n_tiles * kl_groups_for(n, W_ROWS), MOST_WARPS * 32,
                              SHARED_BYTES, args, 17);
    return kl_emit(e, &kl_family_gather_matrix, values, "rows_by_matrices",
                   route.n_tiles * kl_groups_for(n, wide), warps * 32, args, 17);
}

/* ---- in tiles ---- */

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
    if (takes_matrix(e, c)) return kl_lower_gather_part(e, c, &(struct kl_gather_part){.n = n_b});
    uint32_t local = WANT_LOCAL;
    int64_t side = 16;
    if (local > e->driver->max_local) {
        local = LEAST_LOCAL;
        side = 8;
    }
    /* Single rows are brought together to fill tiles: as many as there are on average. */
    const bool routed = !segmented && m == 1 && kl_route_pays(e, out->dims[0], n_b);
    int64_t lines = routed ? kl_groups_for(out->dims[0], n_b) : m, products = out->dims[0];
    int tm = 4;
    for (;; tm /= 2) {
        tiles = products * kl_groups_for(m, side * tm) * kl_groups_for(n, side * tm);
        if (tm == 2 || ((lines < n ? lines : n) > side * tm / 2 && tiles >= ENOUGH_TILES)) break;
    }
    const void *order = NULL, *matrices = right->data;
    if (routed) {
        struct kl_route route;
        KL_TRY(kl_route(e, right->data, right_step, products, n_b, side * tm, &route));
        order = route.order;
        matrices = route.tiles;
        tiles = route.n_tiles * kl_groups_for(n, side * tm);
    }
    const int values[] = {out->dtype, tm, segmented, routed};
    int32_t a_along_k = magnitude(a_col) <= magnitude(a_row),
            b_along_k = magnitude(b_row) < magnitude(b_col);
    struct kl_karg args[] = {KL_KARG_PTR(a->data, item),
                             KL_KARG_PTR(b->data, item),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG_PTR(left->data, INDEX_BYTES),
                             KL_KARG_PTR(matrices, INDEX_BYTES),
                             KL_KARG_PTR(order, INDEX_BYTES),
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
    return kl_emit(e, &kl_family_gather_mm, values, "tiles", tiles, local, args, 21);
}
