/* product_route.h - products of single rows with matrices that indices choose, as mixtures of
 * experts have them: the rows of one matrix are brought together, so that it is read once for many
 * rows. */
#pragma once
#include "backend/gpu/lower/lower.h"

struct kl_route {
    void *tiles;     /* n_tiles of struct route_tile (product_tile.kl), on the device */
    void *order;     /* the rows, in the order of the tiles: uint32 */
    int64_t n_tiles; /* as many as there can be; what is left over has no rows */
};

/* Whether n rows are brought together: there are enough of them, and not too many matrices. */
bool kl_route_pays(const struct kl_emit *e, int64_t n, int64_t n_matrices);

/* Tiles of at most `rows` of n rows, of which row i has matrix right[i * right_step], int32; an
 * index that is out of range counts as 0. All memory is of the workspace. */
int kl_route(struct kl_emit *e, const void *right, int64_t right_step, int64_t n,
             int64_t n_matrices, int64_t rows, struct kl_route *route);
