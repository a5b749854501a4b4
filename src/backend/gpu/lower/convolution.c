/* convolution.c - CONVOLUTION: products in tiles whose left operand is read from the input as
 * it is needed, or the kernel for groups of one channel. Long sums of few outputs, as in gradients
 * of weights, are cut into segments. With many positions, parts of the left operand, of 64 MB at
 * most, are written out and multiplied as matrices, which drivers do best. Where the input has
 * zeros between its elements and there are few outputs, as in gradients of images, the products of
 * each element with all of the kernel are written out, and added up where they belong. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"
#include "base/op/phases.h"

enum {
    WANT_LOCAL = 256,
    LEAST_LOCAL = 64,    /* the smaller of the two group sizes that tiles can have */
    ENOUGH_TILES = 128,  /* with fewer large tiles, smaller ones are used */
    ENOUGH_GROUPS = 264, /* with fewer groups, long sums are cut */
    LEAST_TERMS = 256,   /* terms below which a sum is not cut */
    MOST_SEGMENTS = 64,
    VEC_BYTES = 16,
    UNFOLDED_BYTES = 64 << 20,
    LEAST_UNFOLDED = 4096, /* positions, below which tiles are as fast */
    MOST_FOLDED = 15,      /* outputs; with more, other kernels are as fast */
    STRIP = 4,             /* convolution.kl has the same numbers */
    MOST_WEIGHTS = 1024 * VEC_BYTES,
    MOST_ACROSS = 32, /* vectors of channels in a group */
    MOST_KX = 7,
    MOST_STEP = 2,
    SWEEP_LOCAL = 64,
    SWEEP_TURNS = 2,
    MOST_IN_REGISTERS = 64, /* weights of a work-item */
};

/* Elements of x, with fewer of which nothing is folded, and bytes of products at a time. */
#ifdef KL_TEST_HOOKS
enum { LEAST_FOLDED = 8, FOLDED_BYTES = 4 << 10 };
#else
enum { LEAST_FOLDED = LEAST_UNFOLDED, FOLDED_BYTES = UNFOLDED_BYTES / 2 };
#endif

const struct kl_family kl_family_convolution = {
    .name = "convolution",
    .source = kl_source_convolution,
    .defines = {"T:TYPE", "TM", "NDIM", "VECTOR", "KX", "STEP", "KY"}};

struct conv { /* convolution.kl has the same */
    int64_t positions, x_n, x_c, w_o, w_c, x_at[3], w_at[3];
    int32_t in[3], out[3], k[3], stride[3], low[3], dilation[3], cin, cout, groups, some;
    int32_t out_first[3], out_step[3], out_all[3];
};

/* The axes of the command, z, y and x; those that are missing have one element. */
static void take_axes(struct kl_conv_axis *axes, const struct kl_command *c) {
    const struct kl_convolution_params *p = c->params;
    for (int i = 0; i < KL_MAX_SPATIAL; i++)
        axes[i] = (struct kl_conv_axis){1, 1, 1, 1, 0, 1, 0, 1, 0, 1};
    for (int i = 0; i < p->ndim; i++) {
        struct kl_conv_axis *a = &axes[KL_MAX_SPATIAL - p->ndim + i];
        a->out = c->args[2].dims[1 + i];
        a->k = c->args[1].dims[1 + i];
        a->stride = p->stride[i];
        a->low = p->low[i];
        a->dilation = p->dilation[i];
        a->input_dilation = p->input_dilation[i];
    }
}

/* Fills v for axes without zeros between elements, and *w_first, the offset of the first element of
 * w that is read. */
static void describe(struct conv *v, const struct kl_command *c, const struct kl_conv_axis *axes,
                     int64_t *w_first) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    const int n = p->ndim;
    *v = (struct conv){.positions = out->dims[0],
                       .x_n = x->strides[0],
                       .x_c = x->strides[n + 1],
                       .w_o = w->strides[0],
                       .w_c = w->strides[n + 1],
                       .cin = w->dims[n + 1],
                       .cout = w->dims[0] / p->groups,
                       .groups = p->groups};
    *w_first = 0;
    for (int i = 0; i < KL_MAX_SPATIAL; i++) {
        const struct kl_conv_axis *a = &axes[i];
        const int at = i - KL_MAX_SPATIAL + n + 1; /* the axis of x, w and out; below 1: none */
        const int64_t step = at < 1 ? 0 : p->flip ? -w->strides[at] : w->strides[at];
        v->in[i] = at < 1 ? 1 : x->dims[at];
        v->out_all[i] = at < 1 ? 1 : out->dims[at];
        v->out[i] = (int32_t)a->out;
        v->k[i] = (int32_t)a->k;
        v->stride[i] = (int32_t)a->stride;
        v->low[i] = (int32_t)a->low;
        v->dilation[i] = (int32_t)a->dilation;
        v->out_first[i] = (int32_t)a->out_first;
        v->out_step[i] = (int32_t)a->out_step;
        v->some |= v->out[i] != v->out_all[i];
        v->x_at[i] = at < 1 ? 0 : x->strides[at];
        v->w_at[i] = a->k_step * step;
        *w_first += a->k_first * step;
        if (at >= 1 && p->flip) *w_first += (w->dims[at] - 1) * w->strides[at];
        v->positions *= a->out;
    }
}

static int with_tiles(struct kl_emit *e, const struct kl_command *c, const struct conv *v,
                      const int *values_in, const void *w) {
    const struct kl_arg *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    uint32_t local = WANT_LOCAL;
    int64_t side = 16, narrow = v->positions < v->cout ? v->positions : v->cout;
    int64_t depth = (int64_t)v->cin * v->k[0] * v->k[1] * v->k[2];
    if (local > e->driver->max_local) {
        local = LEAST_LOCAL;
        side = 8;
    }
    int tm = 8;
    int64_t tiles = 0;
    for (;; tm /= 2) {
        const int64_t tile = side * tm;
        tiles = kl_groups_for(v->positions, tile) * kl_groups_for(v->cout, tile) * v->groups;
        /* Tiles of eight by eight numbers of 8 bytes would not fit the registers. */
        if (tm == 2 || !(item == 8 && tm == 8)) {
            if (tm == 2 || (narrow > tile / 2 && tiles >= ENOUGH_TILES)) break;
        }
    }
    int64_t n_segs = kl_groups_for(ENOUGH_GROUPS, tiles), most = depth / LEAST_TERMS;
    if (n_segs > most) n_segs = most;
    if (n_segs > MOST_SEGMENTS) n_segs = MOST_SEGMENTS;
    if (v->some) n_segs = 1; /* segments are joined for all positions of the output */
    if (n_segs < 1) n_segs = 1;
    int64_t seg = kl_groups_for(depth, n_segs);
    if (seg) n_segs = kl_groups_for(depth, seg);
    const size_t sum = item < 4 ? 4 : item;
    void *part = NULL;
    if (n_segs > 1) KL_TRY(kl_emit_workspace(e, (size_t)(n_segs * out->size) * sum, &part));
    const int values[] = {values_in[0], tm, values_in[2], 1, 0, 0, 0};
    struct conv sent = *v;
    struct kl_karg args[] = {KL_KARG_PTR(c->args[0].data, item),
                             KL_KARG_PTR(w, item),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG_PTR(part, sum),
                             KL_KARG(depth),
                             KL_KARG(seg),
                             KL_KARG(n_segs),
                             KL_KARG(sent)};
    KL_TRY(kl_emit(e, &kl_family_convolution, values, "tiles", tiles * n_segs, local, args, 8));
    if (n_segs == 1) return KL_OK;
    const int join_values[] = {out->dtype, 0};
    local = kl_local_size(e, WANT_LOCAL);
    int32_t across = (int32_t)(local / kl_pow2_for(n_segs, local));
    struct kl_karg join[] = {KL_KARG_PTR(part, sum), KL_KARG_PTR(out->data, item),
                             KL_KARG(out->size), KL_KARG(n_segs), KL_KARG(across)};
    return kl_emit(e, &kl_family_matmul, join_values, "join_parts",
                   kl_groups_for(out->size, across), local, join, 5);
}

/* ---- as a product of matrices ---- */

/* w as the matrix (outputs, width), where `width` is at least the number of terms. */
static int weights(struct kl_emit *e, const struct conv *v, size_t item, int width, const void *w,
                   const void **matrix) {
    const int dims[] = {v->cout, v->k[0], v->k[1], v->k[2], v->cin};
    const int64_t from[] = {v->w_o, v->w_at[0], v->w_at[1], v->w_at[2], v->w_c};
    int64_t to[] = {width, 0, 0, 0, 1}, depth = v->cin;
    void *copy = NULL;
    for (int i = 3; i > 0; i--) {
        to[i] = depth;
        depth *= dims[i];
    }
    KL_TRY(kl_emit_workspace(e, (size_t)v->cout * (size_t)width * item, &copy));
    if (depth < width) KL_TRY(kl_emit_fill(e, copy, item, (int64_t)v->cout * width, 0));
    *matrix = copy;
    return kl_emit_copy(e, item, 5, dims, copy, to, w, from);
}

static struct kl_arg matrix_of(const void *data, enum kl_dtype dtype, const int *dims,
                               const int64_t *strides) {
    return (struct kl_arg){.data = (void *)data,
                           .dtype = dtype,
                           .layout = kl_layout_of(2, dims, strides),
                           .ndim = 2,
                           .size = (int64_t)dims[0] * dims[1],
                           .dims = dims,
                           .strides = strides};
}

/* A part of c: the product of two matrices, and its result. */
static int multiply(struct kl_emit *e, const struct kl_command *c, struct kl_arg *operands) {
    struct kl_command product = *c;
    product.op = KL_OP_MATMUL;
    product.params = NULL;
    product.params_bytes = 0;
    product.n_in = 2;
    product.args = operands;
    return kl_emit_command(e, &product);
}

static bool unfolds(const struct conv *v) {
    return v->groups == 1 && !v->some && v->cin > 0 && v->positions >= LEAST_UNFOLDED &&
           v->cout >= 16;
}

static int by_matrices(struct kl_emit *e, const struct kl_command *c, const struct conv *v,
                       int ndim, const void *w) {
    const struct kl_arg *x = &c->args[0], *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    const int64_t wide = VEC_BYTES / (int64_t)item,
                  depth = (int64_t)v->cin * v->k[0] * v->k[1] * v->k[2],
                  pieces = kl_groups_for(depth, wide), width = pieces * wide,
                  most = UNFOLDED_BYTES / (width * (int64_t)item) + 1,
                  n_parts = kl_groups_for(v->positions, most),
                  rows = kl_groups_for(v->positions, n_parts);
    bool vectors = v->x_c == 1 && v->cin % wide == 0 && (uintptr_t)x->data % VEC_BYTES == 0;
    for (int i = 0; i < 1 + ndim; i++) vectors = vectors && x->strides[i] % wide == 0;
    const int values[] = {out->dtype, 1, ndim, vectors ? (int)wide : 1, 0, 0, 0};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    const void *matrix = NULL;
    void *unfolded = NULL;
    KL_TRY(weights(e, v, item, (int)width, w, &matrix));
    KL_TRY(kl_emit_workspace(e, (size_t)(rows * width) * item, &unfolded));
    for (int64_t first = 0; first < v->positions; first += rows) {
        const int64_t n = rows < v->positions - first ? rows : v->positions - first;
        struct conv sent = *v;
        struct kl_karg args[] = {KL_KARG_PTR(x->data, vectors ? VEC_BYTES : item),
                                 KL_KARG_PTR(unfolded, VEC_BYTES),
                                 KL_KARG(first),
                                 KL_KARG(n),
                                 KL_KARG(pieces),
                                 KL_KARG(depth),
                                 KL_KARG(sent)};
        KL_TRY(kl_emit(e, &kl_family_convolution, values, "unfold",
                       kl_groups_for(n * pieces, local), local, args, 7));
        const int of_x[] = {(int)n, (int)width}, of_w[] = {(int)width, v->cout},
                  of_out[] = {(int)n, v->cout};
        const int64_t by_rows[] = {width, 1}, by_columns[] = {1, width}, dense[] = {v->cout, 1};
        struct kl_arg operands[] = {matrix_of(unfolded, out->dtype, of_x, by_rows),
                                    matrix_of(matrix, out->dtype, of_w, by_columns),
                                    matrix_of((char *)out->data + first * v->cout * (int64_t)item,
                                              out->dtype, of_out, dense)};
        KL_TRY(multiply(e, c, operands));
    }
    return KL_OK;
}

/* ---- as products that are folded ---- */

struct fold {         /* convolution.kl has the same */
    int64_t elements; /* of the input, in the images at hand */
    /* One in `every` elements of the kernel meets no zeros; the next one is `step` elements of the
     * input further. */
    int32_t dilation[3], every[3], step[3];
};

bool kl_convolution_folds(const struct kl_command *c) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    const int last = x->ndim - 1, outputs = w->dims[0];
    int64_t step = 1, each = outputs, positions = 1;
    for (int i = 0; i < p->ndim; i++) {
        step *= p->input_dilation[i];
        each *= w->dims[1 + i];
        positions *= x->dims[1 + i];
    }
    /* 16-bit floats would be rounded before they are added up. */
    return step > 1 && p->groups == 1 && (out->dtype == KL_F32 || out->dtype == KL_F64) &&
           outputs <= MOST_FOLDED && x->dims[last] > 0 && (x->layout & KL_ROW_CONTIGUOUS) &&
           positions * x->dims[0] >= LEAST_FOLDED &&
           positions * each * (int64_t)kl_dtype_size(out->dtype) <= 4 * (int64_t)UNFOLDED_BYTES;
}

/* The products of some images are a matrix: rows are elements of the kernel and in each of them the
 * outputs, columns are elements of x, so that neighbours read neighbours. */
static int by_folding(struct kl_emit *e, const struct kl_command *c, const struct conv *v,
                      const struct kl_conv_axis *axes, const void *w) {
    const struct kl_arg *x = &c->args[0], *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    const int64_t width = (int64_t)v->k[0] * v->k[1] * v->k[2] * v->cout,
                  in = (int64_t)v->in[0] * v->in[1] * v->in[2],
                  made = (int64_t)v->out[0] * v->out[1] * v->out[2] * v->cout,
                  fit = FOLDED_BYTES / (in * width * (int64_t)item) + 1,
                  images = fit < x->dims[0] ? fit : x->dims[0];
    const int dims[] = {v->k[0], v->k[1], v->k[2], v->cout, v->cin};
    const int64_t from[] = {v->w_at[0], v->w_at[1], v->w_at[2], v->w_o, v->w_c},
                  to[] = {(int64_t)v->k[1] * v->k[2] * v->cout * v->cin,
                          (int64_t)v->k[2] * v->cout * v->cin, (int64_t)v->cout * v->cin, v->cin,
                          1};
    const int values[] = {out->dtype, 1, x->ndim - 2, 1, 0, 0, 0};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    struct fold f;
    struct conv sent = *v;
    void *matrix = NULL, *products = NULL;
    for (int i = 0; i < KL_MAX_SPATIAL; i++) {
        const int64_t d = axes[i].input_dilation;
        f.dilation[i] = (int32_t)d;
        f.every[i] = (int32_t)(d / kl_common_divisor(axes[i].dilation, d));
        f.step[i] = (int32_t)(f.every[i] * axes[i].dilation / d);
    }
    KL_TRY(kl_emit_workspace(e, (size_t)(width * v->cin) * item, &matrix));
    KL_TRY(kl_emit_workspace(e, (size_t)(images * in * width) * item, &products));
    KL_TRY(kl_emit_copy(e, item, 5, dims, matrix, to, w, from));
    for (int64_t first = 0; first < x->dims[0]; first += images) {
        const int64_t n = images < x->dims[0] - first ? images : x->dims[0] - first;
        f.elements = n * in;
        const int columns = (int)f.elements, of_w[] = {(int)width, v->cin},
                  of_x[] = {v->cin, columns}, of_out[] = {(int)width, columns};
        const int64_t by_rows[] = {v->cin, 1}, by_columns[] = {1, v->cin}, dense[] = {columns, 1};
        struct kl_arg operands[] = {matrix_of(matrix, out->dtype, of_w, by_rows),
                                    matrix_of((char *)x->data + first * in * v->cin * (int64_t)item,
                                              out->dtype, of_x, by_columns),
                                    matrix_of(products, out->dtype, of_out, dense)};
        KL_TRY(multiply(e, c, operands));
        int64_t positions = n * made / v->cout;
        struct kl_karg args[] = {
            KL_KARG_PTR(products, item),
            KL_KARG_PTR((char *)out->data + first * made * (int64_t)item, item), KL_KARG(positions),
            KL_KARG(f), KL_KARG(sent)};
        KL_TRY(kl_emit(e, &kl_family_convolution, values, "fold",
                       kl_groups_for(positions, local) * v->cout, local, args, 5));
    }
    return KL_OK;
}

/* ---- groups of one channel ---- */

/* Vectors of channels, by which groups of work-items share them out: as many as leave few
 * work-items without any, and whose weights fit. 0: not even one vector's do. */
static int64_t across(int64_t vectors, int64_t weight_bytes) {
    int64_t n = MOST_ACROSS;
    while (n && (n * weight_bytes > MOST_WEIGHTS ||
                 (n > 1 && (kl_groups_for(vectors, n) * n - vectors) * 8 > vectors)))
        n /= 2;
    return n;
}

/* Whether x and its weights can be read in vectors of `wide` channels, and all weights of a vector
 * are next to each other. */
static bool sweeps(const struct kl_arg *x, const struct conv *v, const void *w, int ndim, int wide,
                   const void *out) {
    const int64_t item = (int64_t)kl_dtype_size(x->dtype), bytes = wide * item;
    const int kx = v->k[2], ky = v->k[1];
    bool takes = ndim == 2 && !v->some && kx <= MOST_KX && v->stride[2] <= MOST_STEP &&
                 v->dilation[2] == 1 && v->stride[1] == 1 && v->dilation[1] == 1 &&
                 kx * ky * wide <= MOST_IN_REGISTERS && v->x_c == 1 && v->groups % wide == 0 &&
                 v->w_o == kx * ky && (kx == 1 || v->w_at[2] == 1) &&
                 (ky == 1 || v->w_at[1] == kx) && (uintptr_t)w % (uintptr_t)bytes == 0 &&
                 (uintptr_t)x->data % (uintptr_t)bytes == 0 &&
                 (uintptr_t)out % (uintptr_t)bytes == 0;
    for (int i = 0; i < 1 + ndim; i++) takes = takes && x->strides[i] % wide == 0;
    return takes;
}

/* Two turns are 4 lines for a kernel of 3. On an H200, 8x56x56x256 takes 10.2 microseconds in
 * bfloat16 and 16.4 in float32; with three turns 10.6 and 19, with five 11.8 and 17.6. */
static int sweep(struct kl_emit *e, const struct kl_command *c, const struct conv *v, const void *w,
                 int wide) {
    const struct kl_arg *x = &c->args[0], *out = &c->args[2];
    const size_t bytes = (size_t)wide * kl_dtype_size(out->dtype);
    const uint32_t local = kl_local_size(e, SWEEP_LOCAL);
    const int ky = v->k[1];
    /* A work-item goes over lines of the input by turns of ky. */
    int32_t lines = SWEEP_TURNS * ky - (ky - 1), strips = (int32_t)kl_groups_for(v->out[2], STRIP),
            per = (int32_t)kl_groups_for(v->out[1], lines);
    const int64_t images = v->positions / v->out[1] / v->out[2],
                  n = images * per * strips * (v->groups / wide);
    struct conv sent = *v;
    const int values[] = {out->dtype, 0, 2, wide, v->k[2], v->stride[2], ky};
    struct kl_karg args[] = {KL_KARG_PTR(x->data, bytes),
                             KL_KARG_PTR(w, bytes),
                             KL_KARG_PTR(out->data, bytes),
                             KL_KARG(n),
                             KL_KARG(per),
                             KL_KARG(lines),
                             KL_KARG(strips),
                             KL_KARG(sent)};
    return kl_emit(e, &kl_family_convolution, values, "depthwise_sweep", kl_groups_for(n, local),
                   local, args, 8);
}

static int depthwise(struct kl_emit *e, const struct kl_command *c, const struct conv *v,
                     const void *w) {
    const struct kl_arg *x = &c->args[0], *out = &c->args[2];
    const int ndim = x->ndim - 2;
    const size_t item = kl_dtype_size(out->dtype), sum = item < 4 ? 4 : item;
    const int wide = (int)(VEC_BYTES / item), few = item == 2 ? 4 : wide;
    struct conv sent = *v;
    if (few > 1 && sweeps(x, v, w, ndim, few, out->data)) return sweep(e, c, v, w, few);
    bool vectors =
        v->x_c == 1 && v->groups % wide == 0 && wide > 1 && (uintptr_t)x->data % VEC_BYTES == 0;
    for (int i = 0; i < 1 + ndim; i++) vectors = vectors && x->strides[i] % wide == 0;
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    const int vec = vectors ? wide : 1;
    const int64_t taps = (int64_t)v->k[0] * v->k[1] * v->k[2];
    int64_t n = vectors ? across(v->groups / vec, taps * vec * (int64_t)sum) : 0;
    if (n > local) n = local;
    if (n == 0 || v->some || v->k[2] > MOST_KX || v->stride[2] > MOST_STEP || v->dilation[2] != 1 ||
        (uintptr_t)out->data % VEC_BYTES) {
        const int values[] = {out->dtype, 0, ndim, vec, 0, 0, 0};
        struct kl_karg args[] = {KL_KARG_PTR(x->data, vec * item), KL_KARG_PTR(w, item),
                                 KL_KARG_PTR(out->data, item), KL_KARG(sent)};
        return kl_emit(e, &kl_family_convolution, values, "depthwise",
                       kl_groups_for(v->positions * (v->groups / vec), local), local, args, 4);
    }
    const int values[] = {out->dtype, 0, ndim, vec, v->k[2], v->stride[2], 0};
    int32_t in_group = (int32_t)n, blocks = (int32_t)kl_groups_for(v->groups / vec, n),
            strips = (int32_t)kl_groups_for(v->out[2], STRIP);
    int64_t rows = v->positions / v->out[2];
    struct kl_karg args[] = {KL_KARG_PTR(x->data, VEC_BYTES),
                             KL_KARG_PTR(w, item),
                             KL_KARG_PTR(out->data, VEC_BYTES),
                             KL_KARG(rows),
                             KL_KARG(in_group),
                             KL_KARG(blocks),
                             KL_KARG(strips),
                             KL_KARG(sent)};
    return kl_emit(e, &kl_family_convolution, values, "depthwise_strips",
                   kl_groups_for(rows, local / n) * strips * blocks, local, args, 8);
}

static int convolve(struct kl_emit *e, const struct kl_command *c,
                    const struct kl_conv_axis *axes) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *out = &c->args[2];
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    int64_t w_first;
    struct conv v;
    describe(&v, c, axes, &w_first);
    const void *w = (const char *)c->args[1].data + w_first * item;
    if (v.cin != 1 || v.cout != 1 || v.groups == 1) {
        const int values[] = {out->dtype, 0, p->ndim};
        if (unfolds(&v)) return by_matrices(e, c, &v, p->ndim, w);
        return with_tiles(e, c, &v, values, w);
    }
    return depthwise(e, c, &v, w);
}

/* ---- operands as gradients of weights have them ---- */

/* Whether the first axis is the innermost one in memory, where the channels should be. */
static bool is_exchanged(const struct kl_arg *x) {
    const int last = x->ndim - 1;
    return x->dims[0] > 1 && x->dims[last] > 1 && x->strides[0] == 1 && x->strides[last] != 1;
}

struct dense {
    struct kl_arg arg;
    int64_t strides[KL_MAX_SPATIAL + 2];
};
static int make_dense(struct kl_emit *e, struct dense *to, const struct kl_arg *x) {
    const size_t item = kl_dtype_size(x->dtype);
    int64_t each = 1;
    to->arg = *x;
    to->arg.strides = to->strides;
    for (int i = x->ndim - 1; i >= 0; i--) {
        to->strides[i] = each;
        each *= x->dims[i];
    }
    to->arg.layout = kl_layout_of(x->ndim, x->dims, to->strides);
    KL_TRY(kl_emit_workspace(e, (size_t)x->size * item, &to->arg.data));
    return kl_emit_copy(e, item, x->ndim, x->dims, to->arg.data, to->strides, x->data, x->strides);
}

static int in_phases(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    struct kl_conv_axis axes[KL_MAX_SPATIAL], some[KL_MAX_SPATIAL];
    int64_t phases[KL_MAX_SPATIAL], n = 1;
    take_axes(axes, c);
    if (kl_convolution_folds(c)) {
        int64_t w_first;
        struct conv v;
        describe(&v, c, axes, &w_first);
        return by_folding(e, c, &v, axes, (const char *)c->args[1].data + w_first * (int64_t)item);
    }
    for (int i = 0; i < KL_MAX_SPATIAL; i++) n *= phases[i] = kl_conv_phases(&axes[i]);
    for (int64_t at = 0; at < n; at++) {
        int64_t left = at;
        bool sees = true;
        for (int i = KL_MAX_SPATIAL - 1; i >= 0; i--) {
            some[i] = axes[i];
            sees = kl_conv_phase(&some[i], left % phases[i]) && sees;
            left /= phases[i];
        }
        /* there may be positions that see zeros only */
        if (at == 0 && (n > 1 || !sees)) KL_TRY(kl_emit_fill(e, out->data, item, out->size, 0));
        if (sees) KL_TRY(convolve(e, c, some));
    }
    return KL_OK;
}

int kl_lower_convolution(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    if (out->size == 0) return KL_OK;
    if (x->size == 0) return kl_emit_fill(e, out->data, kl_dtype_size(out->dtype), out->size, 0);
    if (!is_exchanged(x) || !is_exchanged(w)) return in_phases(e, c);
    struct dense copy[2];
    struct kl_command dense = *c;
    for (int i = 0; i < 2; i++) KL_TRY(make_dense(e, &copy[i], &c->args[i]));
    struct kl_arg args[] = {copy[0].arg, copy[1].arg, *out};
    dense.args = args;
    return in_phases(e, &dense);
}
