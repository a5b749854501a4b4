/* product.c - MATMUL: chooses the size of the tiles, or one of the two kernels for products
 * with a vector. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"

enum {
    WANT_LOCAL = 256,
    TILES_LOCAL_LEAST = 64, /* the smaller of the two group sizes that tiles can have */
    /* With fewer large tiles a large device is partly idle: then smaller tiles are used. */
    ENOUGH_TILES = 128,
    OUTPUTS_WIDTH = 32,   /* neighbouring outputs of one group in products with a vector */
    ENOUGH_GROUPS = 1024, /* products with a vector: with fewer groups, long sums are cut */
    LEAST_DEPTH = 32,     /* products per work-item below which a sum is not cut */
    PIECE = 16,           /* bytes; product.kl has the same, and the next two */
    PIECES = 2,
    ROWS = 1,
    BY_ROWS = -1, /* instead of the size of tiles */
    /* Work-items of products with rows: with fewer, more share a row. Of 20 combinations of rows,
     * pieces and work-items on an H200 this one read 2.8 to 3.7 TB/s, where four pieces of two
     * rows and an eighth of the work-items read 2.3 to 3.1. */
    ENOUGH_ITEMS = 1 << 19,
};

/* Of a ring in shared memory: product_ring.kl has the same numbers. */
enum {
    RING_WARPS = 8,
    RING_ROWS = 4,
    RING_LINE = 32 * PIECE,
    RING_BYTES = RING_WARPS * 4 * RING_ROWS * RING_LINE,
    RING_RESIDENT = 2, /* groups on a multiprocessor */
};

const struct kl_family kl_family_matmul = {
    .name = "matmul", .source = kl_source_product, .defines = {"T:TYPE", "TM"}};
const struct kl_family kl_family_product_ring = {
    .name = "product_ring", .source = kl_source_product_ring, .defines = {"T:TYPE"}};

struct plan {
    struct kl_axes batches;
    struct kl_space space;
    const void *a, *b;
    int64_t m, n, k, a_row, a_col, b_row, b_col;
};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static void describe(struct plan *p, const struct kl_command *c, const int64_t *a,
                     const int64_t *b) {
    const struct kl_arg *out = &c->args[2];
    int last = out->ndim - 1;
    p->m = out->dims[last - 1];
    p->n = out->dims[last];
    p->k = c->args[0].dims[last];
    p->a_row = a[last - 1];
    p->a_col = a[last];
    p->b_row = b[last - 1];
    p->b_col = b[last];
    p->batches = KL_NO_AXES;
    for (int i = 0; i < last - 1; i++) kl_axes_add(&p->batches, out->dims[i], a[i], b[i]);
}

/* A vector times rows that lie along k: the vector, the rows and the elements between rows. */
struct rows {
    const void *x, *rows;
    int64_t n, step;
    int arg; /* which operand the rows are */
};

static bool are_rows(struct rows *r, const struct plan *p, enum kl_dtype dtype) {
    const bool a_is_x = p->m == 1;
    const int64_t x_step = a_is_x ? p->a_col : p->b_row, along = a_is_x ? p->b_row : p->a_col;
    *r = (struct rows){a_is_x ? p->a : p->b, a_is_x ? p->b : p->a, a_is_x ? p->n : p->m,
                       a_is_x ? p->b_col : p->a_row, a_is_x};
    const int64_t items = PIECE / (int64_t)kl_dtype_size(dtype);
    return (dtype == KL_F16 || dtype == KL_BF16 || dtype == KL_F32) && (a_is_x || p->n == 1) &&
           p->batches.n == 1 && x_step == 1 && along == 1 && p->k > 0 && p->k % items == 0 &&
           (r->n == 1 || r->step % items == 0) && (uintptr_t)r->x % PIECE == 0 &&
           (uintptr_t)r->rows % PIECE == 0;
}

bool kl_matmul_by_rows(const struct kl_command *c) {
    struct plan p = {.a = c->args[0].data, .b = c->args[1].data};
    struct rows r;
    describe(&p, c, c->args[0].strides, c->args[1].strides);
    return are_rows(&r, &p, (enum kl_dtype)c->args[2].dtype);
}

static size_t ring_bytes(int64_t row_bytes) {
    return (size_t)(RING_BYTES + row_bytes + 2 * RING_WARPS * RING_ROWS * 4);
}

/* Whether the rows are enough to keep the device busy, and whole stages of a ring. */
static bool fits_ring(const struct kl_emit *e, const struct plan *p, const struct rows *r,
                      int64_t row_bytes) {
    return e->driver->has_matrix_units && e->driver->subgroup == 32 &&
           kl_local_size(e, RING_WARPS * 32) == RING_WARPS * 32 && r->n % RING_ROWS == 0 &&
           r->n >= (int64_t)RING_ROWS * e->driver->n_units && r->n < INT32_MAX && r->step >= 0 &&
           row_bytes % RING_LINE == 0 && row_bytes / RING_LINE >= RING_WARPS / 2 &&
           p->k < INT32_MAX && RING_RESIDENT * ring_bytes(row_bytes) <= e->driver->dynamic_bytes;
}

static int by_ring(struct kl_emit *e, const struct kl_command *c, const struct plan *p,
                   const struct rows *r) {
    const struct kl_arg *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    const int64_t all = e->elements ? e->elements : out->size,
                  most = (int64_t)RING_ROWS * RING_RESIDENT * e->driver->n_units;
    const uint32_t tiles = (uint32_t)kl_groups_for(all, most);
    const int values[] = {out->dtype};
    const int32_t early = kl_emit_unwritten(e, &c->args[r->arg]);
    struct kl_karg args[] = {KL_KARG_PTR(r->x, PIECE),
                             KL_KARG_PTR(r->rows, PIECE),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG(r->n),
                             KL_KARG(p->k),
                             KL_KARG(r->step),
                             KL_KARG(tiles),
                             KL_KARG(early)};
    return kl_emit_shared(e, &kl_family_product_ring, values, "ring_by_rows",
                          kl_groups_for(r->n, (int64_t)RING_ROWS * tiles), RING_WARPS * 32,
                          kl_emit_spread_bytes(e, ring_bytes(p->k * (int64_t)item), RING_RESIDENT),
                          args, 8);
}

static int by_rows(struct kl_emit *e, const struct kl_command *c, const struct plan *p,
                   const struct rows *r) {
    const size_t item = kl_dtype_size(c->args[2].dtype);
    if (fits_ring(e, p, r, p->k * (int64_t)item)) return by_ring(e, c, p, r);
    const int64_t pieces = p->k * (int64_t)item / PIECE, pairs = kl_groups_for(r->n, ROWS);
    const int values[] = {c->args[2].dtype, BY_ROWS};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    int64_t width = e->driver->subgroup < local ? e->driver->subgroup : local;
    while (width < local && pairs * width < ENOUGH_ITEMS && width * PIECES < pieces) width *= 2;
    const int32_t w = (int32_t)width, early = kl_emit_unwritten(e, &c->args[r->arg]);
    struct kl_karg args[] = {KL_KARG_PTR(r->x, PIECE),
                             KL_KARG_PTR(r->rows, PIECE),
                             KL_KARG_PTR(c->args[2].data, item),
                             KL_KARG(r->n),
                             KL_KARG(p->k),
                             KL_KARG(r->step),
                             KL_KARG(w),
                             KL_KARG(early)};
    return kl_emit(e, &kl_family_matmul, values, "vector_by_rows",
                   kl_groups_for(pairs, local / width), local, args, 8);
}

static int with_vector(struct kl_emit *e, const struct kl_command *c, const struct plan *p) {
    const struct kl_arg *out = &c->args[2];
    size_t item = kl_dtype_size(out->dtype);
    int values[] = {out->dtype, 0};
    uint32_t local = kl_local_size(e, WANT_LOCAL);
    bool by_rows = p->n == 1; /* neighbouring outputs belong to neighbouring rows of a */
    int32_t by_outputs = by_rows ? magnitude(p->a_row) < magnitude(p->a_col)
                                 : magnitude(p->b_col) < magnitude(p->b_row);
    int64_t most = kl_pow2_for(kl_groups_for(p->k, 8), local);
    if (p->m == 1 && p->n == 1) by_outputs = 0;
    int64_t width = by_outputs ? kl_pow2_for(out->size, OUTPUTS_WIDTH) : most;
    if (width > local) width = local;
    if (by_outputs && local / width > most) width = local / most;
    int32_t w = (int32_t)width;
    int64_t share = by_outputs ? local / width : width;
    int64_t blocks = kl_groups_for(out->size, by_outputs ? width : local / width);
    int64_t n_segs = kl_groups_for(ENOUGH_GROUPS, blocks), pieces = p->k / (share * LEAST_DEPTH);
    if (n_segs > pieces) n_segs = pieces;
    if (n_segs < 1) n_segs = 1;
    int64_t seg = kl_groups_for(p->k, n_segs);
    if (seg) n_segs = kl_groups_for(p->k, seg);
    void *part = NULL;
    if (n_segs > 1) KL_TRY(kl_emit_workspace(e, (size_t)(n_segs * out->size) * 8, &part));
    struct kl_karg args[] = {KL_KARG_PTR(p->a, item),
                             KL_KARG_PTR(p->b, item),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG_PTR(part, item < 4 ? 4 : item),
                             KL_KARG(out->size),
                             KL_KARG(p->m),
                             KL_KARG(p->n),
                             KL_KARG(p->k),
                             KL_KARG(seg),
                             KL_KARG(n_segs),
                             KL_KARG(p->a_row),
                             KL_KARG(p->a_col),
                             KL_KARG(p->b_row),
                             KL_KARG(p->b_col),
                             KL_KARG(w),
                             KL_KARG(by_outputs),
                             KL_KARG(p->space)};
    KL_TRY(kl_emit(e, &kl_family_matmul, values, "vectors", blocks * n_segs, local, args, 17));
    if (n_segs == 1) return KL_OK;
    int32_t across = (int32_t)(local / kl_pow2_for(n_segs, local));
    struct kl_karg join[] = {KL_KARG_PTR(part, item < 4 ? 4 : item), KL_KARG_PTR(out->data, item),
                             KL_KARG(out->size), KL_KARG(n_segs), KL_KARG(across)};
    return kl_emit(e, &kl_family_matmul, values, "join_parts", kl_groups_for(out->size, across),
                   local, join, 5);
}

static int64_t n_tiles(const struct plan *p, int64_t tile) {
    return kl_groups_for(p->m, tile) * kl_groups_for(p->n, tile) * p->batches.n;
}

static int in_tiles(struct kl_emit *e, const struct kl_command *c, const struct plan *p) {
    const struct kl_arg *out = &c->args[2];
    size_t item = kl_dtype_size(out->dtype);
    uint32_t local = WANT_LOCAL;
    int64_t side = 16, narrow = p->m < p->n ? p->m : p->n;
    if (local > e->driver->max_local) {
        local = TILES_LOCAL_LEAST;
        side = 8;
    }
    /* Tiles of eight by eight numbers of 8 bytes would not fit the registers. */
    int tm = kl_dtype_size(out->dtype) == 8 ? 4 : 8;
    if (tm == 8 && (narrow <= side * 4 || n_tiles(p, side * 8) < ENOUGH_TILES)) tm = 4;
    if (tm == 4 && (narrow <= side * 2 || n_tiles(p, side * 4) < ENOUGH_TILES)) tm = 2;
    int values[] = {out->dtype, tm};
    int32_t a_along_k = magnitude(p->a_col) <= magnitude(p->a_row),
            b_along_k = magnitude(p->b_row) < magnitude(p->b_col);
    struct kl_karg args[] = {
        KL_KARG_PTR(p->a, item), KL_KARG_PTR(p->b, item), KL_KARG_PTR(out->data, item),
        KL_KARG(p->m),           KL_KARG(p->n),           KL_KARG(p->k),
        KL_KARG(p->a_row),       KL_KARG(p->a_col),       KL_KARG(p->b_row),
        KL_KARG(p->b_col),       KL_KARG(a_along_k),      KL_KARG(b_along_k),
        KL_KARG(p->space)};
    return kl_emit(e, &kl_family_matmul, values, "tiles", n_tiles(p, side * tm), local, args, 13);
}

/* The batch axes are too many for a kernel: copies both operands, with broadcast axes written
 * out. */
static int copy_operands(struct kl_emit *e, const struct kl_command *c, struct plan *p) {
    int64_t dense[2][KL_AXES_MAX];
    const struct kl_arg *in = c->args;
    size_t item = kl_dtype_size(in->dtype), bytes[2];
    void *scratch = NULL;
    for (int i = 0; i < 2; i++) {
        kl_strides_row_major(in[i].ndim, in[i].dims, dense[i]);
        bytes[i] = kl_scratch_bytes((size_t)in[i].size * item);
    }
    describe(p, c, dense[0], dense[1]);
    KL_TRY(kl_emit_workspace(e, bytes[0] + bytes[1], &scratch));
    p->a = scratch;
    p->b = kl_scratch_at(scratch, bytes[0]);
    for (int i = 0; i < 2; i++)
        KL_TRY(kl_emit_copy(e, item, in[i].ndim, in[i].dims, (void *)(i ? p->b : p->a), dense[i],
                            in[i].data, in[i].strides));
    return KL_OK;
}

int kl_lower_matmul(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = c->args;
    struct plan p = {.a = in[0].data, .b = in[1].data};
    if (c->args[2].size == 0) return KL_OK;
    describe(&p, c, in[0].strides, in[1].strides);
    if (!kl_axes_space(&p.batches, &p.space)) {
        KL_TRY(copy_operands(e, c, &p));
        kl_axes_space(&p.batches, &p.space);
    }
    /* The kernel `vectors` can do any product; tiles need groups of at least a certain size. */
    bool no_tiles = e->driver->max_local < TILES_LOCAL_LEAST;
    struct rows r;
    if (are_rows(&r, &p, (enum kl_dtype)c->args[2].dtype)) return by_rows(e, c, &p, &r);
    return p.m == 1 || p.n == 1 || no_tiles ? with_vector(e, c, &p) : in_tiles(e, c, &p);
}
