/* product_route.c - see product_route.h. */
#include "backend/gpu/lower/product_route.h"

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"

enum {
    LOCAL = 1024,
    MOST_MATRICES = 1024, /* a group has a counter for each in shared memory */
    LEAST_ROWS = 32,      /* below, the launch costs more than what is read twice */
    TILE_BYTES = 12,
};

const struct kl_family kl_family_route = {.name = "route", .source = kl_source_product_route};

bool kl_route_pays(const struct kl_emit *e, int64_t n, int64_t n_matrices) {
    return n >= LEAST_ROWS && n <= INT32_MAX && n_matrices <= MOST_MATRICES &&
           n >= n_matrices / 4 && kl_local_size(e, LOCAL) >= 64;
}

int kl_route(struct kl_emit *e, const void *right, int64_t right_step, int64_t n,
             int64_t n_matrices, int64_t rows, struct kl_route *route) {
    const uint32_t count = (uint32_t)n, matrices = (uint32_t)n_matrices, most = (uint32_t)rows;
    /* Each matrix has at most one tile that is not full. */
    route->n_tiles = n / rows + (n_matrices < n ? n_matrices : n);
    const uint32_t n_tiles = (uint32_t)route->n_tiles;
    KL_TRY(kl_emit_workspace(e, (size_t)route->n_tiles * TILE_BYTES, &route->tiles));
    KL_TRY(kl_emit_workspace(e, (size_t)n * 4, &route->order));
    const struct kl_karg args[] = {KL_KARG_PTR(right, 4),
                                   KL_KARG_PTR(route->tiles, 4),
                                   KL_KARG_PTR(route->order, 4),
                                   KL_KARG(right_step),
                                   KL_KARG(count),
                                   KL_KARG(matrices),
                                   KL_KARG(most),
                                   KL_KARG(n_tiles)};
    return kl_emit(e, &kl_family_route, NULL, "route", 1, kl_local_size(e, LOCAL), args, 8);
}
