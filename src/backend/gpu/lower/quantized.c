/* quantized.c - QUANTIZE, DEQUANTIZE, QUANTIZED_MATMUL, GATHER_QMM. Products of few rows with
 * a transposed matrix read packed numbers, by matrix units where there are such for their types;
 * others unpack the matrix into the workspace and are products of floats, unless that would take
 * too much memory; matrices that indices choose, where each has many rows, in parts. */
#include <string.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/product_gather.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL = 128,
    VEC_BYTES = 16,
    FEW_ROWS = 8,     /* with more rows a matrix is unpacked, */
    MATRIX_ROWS = 64, /* by matrix units with more than these */
    TILE = 16,        /* rows of w that matrix units take at once, */
    EIGHT = 8,        /* and rows of x */
    HELD_WORDS = 8,   /* of packed numbers that a work-item loads ahead, of each of its rows of w */
    MOST_WARPS = 16,  /* of a group */
    /* Sub-groups that keep a large device busy: 16 on each multiprocessor of an H200, 8 where
     * each has more than 8 rows of x. */
    ENOUGH_WARPS = 132 * 16,
    LONGEST_ROW = 1 << 24, /* elements between rows of x */
};
/* The most bytes of unpacked matrices. */
#define MOST_UNPACKED ((int64_t)1 << 30)
/* The same at a time, of matrices that indices choose. */
#ifdef KL_TEST_HOOKS
#define MOST_AT_ONCE ((int64_t)1 << 15)
#else
#define MOST_AT_ONCE MOST_UNPACKED
#endif

const struct kl_family kl_family_quantized = {
    .name = "quantized",
    .source = kl_source_quantized,
    .defines = {"T:TYPE", "T:OUT", "Q:MODE", "BITS", "GROUP", "ROWS"},
    .library = kl_source_quantized_place};
const struct kl_family kl_family_quantized_matrix = {
    .name = "quantized_matrix",
    .source = kl_source_quantized_matrix,
    .defines = {"T:TYPE", "BITS", "GROUP", "EIGHTS", "TILES", "BLOCK", "BATCHED"},
    .library = kl_source_quantized_place};

/* The kinds that go together in kernels/quantized.kl. */
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, scales, numbers)            \
    _Static_assert(                                                                                \
        (KL_SCALES_##scales == KL_SCALES_FLOAT) == (KL_NUMBERS_##numbers == KL_NUMBERS_INTEGER) && \
            (KL_SCALES_##scales != KL_SCALES_E4M3 || KL_NUMBERS_##numbers == KL_NUMBERS_E2M1),     \
        #name ": kernels have no such scales with such numbers");
#include "base/op/quant_mode.def"

enum { MOST_IN = 4 };

/* Operands with a dense last axis, and their leading axes. */
struct operands {
    int n;
    const char *data[MOST_IN];
    size_t item[MOST_IN];
    int64_t row[MOST_IN], col[MOST_IN]; /* strides of the last two axes */
    int64_t matrix[MOST_IN];            /* the stride of the axis before them */
    struct kl_space lead;
};

static int64_t stride_of(const struct kl_arg *a, const int64_t *strides, int from_end) {
    return a->ndim >= from_end ? strides[a->ndim - from_end] : 0;
}

/* Finds the strides of n operands with the same leading axes, those before the last two. Operands
 * whose last axis is not dense are copied, and all are where the leading axes are too many for a
 * kernel. any_col: not the first one for its last axis. whole: matrices are found by index, not by
 * leading axes, which the operands need not have in common. */
static int find_operands(struct kl_emit *e, struct operands *o, const struct kl_arg *in, int n,
                         bool any_col, bool whole) {
    int64_t dense[MOST_IN][KL_AXES_MAX];
    const int64_t *strides[MOST_IN];
    const int n_lead = in[0].ndim > 2 ? in[0].ndim - 2 : 0;
    int long_axes = 0;
    for (int i = 0; i < n_lead; i++) long_axes += in[0].dims[i] != 1;
    const bool too_many = !whole && long_axes > KL_SPACE_DIMS;
    o->n = n;
    for (int i = 0; i < n; i++) {
        const struct kl_arg *a = &in[i];
        o->item[i] = kl_dtype_size(a->dtype);
        o->data[i] = a->data;
        strides[i] = a->strides;
        const bool dense_row = stride_of(a, a->strides, 1) == 1 || a->dims[a->ndim - 1] == 1;
        if (!too_many && (dense_row || (any_col && i == 0))) continue;
        kl_strides_row_major(a->ndim, a->dims, dense[i]);
        strides[i] = dense[i];
        void *to = NULL;
        KL_TRY(kl_emit_workspace(e, (size_t)a->size * o->item[i], &to));
        KL_TRY(kl_emit_copy(e, o->item[i], a->ndim, a->dims, to, dense[i], a->data, a->strides));
        o->data[i] = to;
    }
    for (int i = 0; i < n; i++) {
        o->row[i] = stride_of(&in[i], strides[i], 2);
        o->col[i] = stride_of(&in[i], strides[i], 1);
        o->matrix[i] = stride_of(&in[i], strides[i], 3);
    }
    o->lead = (struct kl_space){.n = 1};
    if (too_many) { /* the copies have all leading axes as one */
        int64_t total = 1;
        for (int i = 0; i < n_lead; i++) total *= in[0].dims[i];
        o->lead.n = total;
        o->lead.ndim = 1;
        o->lead.dims[0] = (int32_t)total;
        for (int i = 0; i < n; i++)
            o->lead.strides[i][0] =
                (int64_t)in[i].dims[in[i].ndim - 2] * in[i].dims[in[i].ndim - 1];
        return KL_OK;
    }
    for (int k = 0; k < n_lead && !whole; k++) {
        o->lead.n *= in[0].dims[k];
        if (in[0].dims[k] == 1) continue;
        o->lead.dims[o->lead.ndim] = in[0].dims[k];
        for (int i = 0; i < n; i++) o->lead.strides[i][o->lead.ndim] = strides[i][k];
        o->lead.ndim++;
    }
    return KL_OK;
}

/* Whether all pieces of operand i can be read 16 bytes at a time. */
static int32_t in_vectors(const struct operands *o, int i) {
    const int64_t vec = VEC_BYTES / (int64_t)o->item[i];
    bool fits =
        (uintptr_t)o->data[i] % VEC_BYTES == 0 && o->row[i] % vec == 0 && o->matrix[i] % vec == 0;
    for (int k = 0; k < o->lead.ndim; k++) fits = fits && o->lead.strides[i][k] % vec == 0;
    return fits;
}

static size_t access_of(const struct operands *o, int i, int32_t vector) {
    return vector ? VEC_BYTES : o->item[i];
}

/* ---- quantize ---- */
int kl_lower_quantize(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_quantize_params *p = c->params;
    const struct kl_arg *w = &c->args[0], *out = &c->args[c->n_in];
    const size_t item = kl_dtype_size(w->dtype);
    const void *from = w->data;
    if (w->size == 0) return KL_OK;
    if (!(w->layout & KL_ROW_CONTIGUOUS)) {
        int64_t dense[KL_AXES_MAX];
        void *to = NULL;
        kl_strides_row_major(w->ndim, w->dims, dense);
        KL_TRY(kl_emit_workspace(e, (size_t)w->size * item, &to));
        KL_TRY(kl_emit_copy(e, item, w->ndim, w->dims, to, dense, w->data, w->strides));
        from = to;
    }
    const int values[] = {w->dtype,
                          p->part == KL_QUANTIZE_VALUES ? out->dtype : w->dtype,
                          p->format.mode,
                          p->format.bits,
                          p->format.group_size,
                          1};
    const uint32_t local = kl_local_size(e, LOCAL);
    const int64_t groups = w->size / p->format.group_size;
    const int32_t has_global = c->n_in > 1, part = (int32_t)p->part;
    const void *global = has_global ? c->args[1].data : NULL;
    const struct kl_karg args[] = {KL_KARG_PTR(from, item),
                                   KL_KARG_PTR(global, 4),
                                   KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                                   KL_KARG(groups),
                                   KL_KARG(has_global),
                                   KL_KARG(part)};
    return kl_emit(e, &kl_family_quantized, values, "quantize", kl_groups_for(groups, local), local,
                   args, 6);
}

/* ---- dequantize ---- */

/* in = {w, scales, biases if affine}; out: dense numbers of out_type. */
static int unpack(struct kl_emit *e, const struct kl_quant_format *f, const struct kl_arg *in,
                  const void *global, enum kl_dtype out_type, void *out) {
    const int affine = kl_quant_has_biases(f->mode), last = in[0].ndim - 1;
    const int ch = f->group_size < 32 ? f->group_size : 32;
    struct operands o;
    KL_TRY(find_operands(e, &o, in, affine ? 3 : 2, false, false));
    const int values[] = {
        affine ? in[1].dtype : KL_F32, out_type, f->mode, f->bits, f->group_size, 1};
    const uint32_t local = kl_local_size(e, LOCAL);
    const int64_t rows = last > 0 ? in[0].dims[last - 1] : 1;
    const int64_t per_row = (int64_t)in[1].dims[last] * f->group_size / ch;
    const int64_t pieces = o.lead.n * rows * per_row, b_row = affine ? o.row[2] : 0;
    const int32_t vector = in_vectors(&o, 0), has_global = global != NULL;
    const struct kl_karg args[] = {KL_KARG_PTR(o.data[0], access_of(&o, 0, vector)),
                                   KL_KARG_PTR(o.data[1], o.item[1]),
                                   KL_KARG_PTR(affine ? o.data[2] : NULL, affine ? o.item[2] : 1),
                                   KL_KARG_PTR(global, 4),
                                   KL_KARG_PTR(out, VEC_BYTES),
                                   KL_KARG(pieces),
                                   KL_KARG(per_row),
                                   KL_KARG(o.row[0]),
                                   KL_KARG(o.row[1]),
                                   KL_KARG(b_row),
                                   KL_KARG(rows),
                                   KL_KARG(vector),
                                   KL_KARG(has_global),
                                   KL_KARG(o.lead)};
    return kl_emit(e, &kl_family_quantized, values, "dequantize", kl_groups_for(pieces, local),
                   local, args, 14);
}

int kl_lower_dequantize(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_dequantize_params *p = c->params;
    const bool affine = kl_quant_has_biases(p->format.mode);
    const struct kl_arg *out = &c->args[c->n_in];
    if (out->size == 0) return KL_OK;
    return unpack(e, &p->format, c->args, !affine && c->n_in > 2 ? c->args[2].data : NULL, p->dtype,
                  out->data);
}

/* ---- products ---- */

struct product { /* the same struct is in quantized_place.kl */
    int64_t m, n, k, x_row, x_col, w_row, s_row, b_row;
    int32_t vector, x_vector, gather, pad;
    int64_t x_mat, w_mat, s_mat, b_mat, xs, ws;
};

/* A dense copy of indices where they are none. */
static int dense_indices(struct kl_emit *e, const struct kl_arg *a, const void **at) {
    int64_t dense[KL_AXES_MAX];
    void *to = NULL;
    *at = a->data;
    if (a->layout & KL_ROW_CONTIGUOUS) return KL_OK;
    kl_strides_row_major(a->ndim, a->dims, dense);
    KL_TRY(kl_emit_workspace(e, (size_t)a->size * 4, &to));
    *at = to;
    return kl_emit_copy(e, 4, a->ndim, a->dims, to, dense, a->data, a->strides);
}

/* The indices of a product of single rows, and its result, as GATHER_MM has them. */
struct along_one {
    int n, result[3];
    int64_t step, steps[3];
};
static struct kl_arg flat_indices(const struct kl_arg *a, const void *data, struct along_one *o) {
    return (struct kl_arg){.data = (void *)data,
                           .dtype = a->dtype,
                           .layout = kl_layout_of(1, &o->n, &o->step),
                           .ndim = 1,
                           .size = o->n,
                           .dims = &o->n,
                           .strides = &o->step};
}

/* Matrices [first, first + n) of a, which has them along its first axis of three. */
static struct kl_arg some_of(const struct kl_arg *a, int64_t first, int n, int *dims) {
    struct kl_arg some = *a;
    memcpy(dims, a->dims, 3 * sizeof *dims);
    dims[0] = n;
    some.data = (char *)a->data + first * a->strides[0] * (int64_t)kl_dtype_size(a->dtype);
    some.dims = dims;
    some.size = a->size / a->dims[0] * n;
    return some;
}

/* Unpacks those matrices. */
static int unpack_some(struct kl_emit *e, const struct kl_command *c, int64_t first, int n,
                       void *numbers) {
    const struct kl_qmm_params *p = c->params;
    struct kl_arg in[3];
    int dims[3][3];
    for (int i = 0; i < 3; i++) in[i] = some_of(&c->args[1 + i], first, n, dims[i]);
    return unpack(e, &p->format, in, NULL, c->args[0].dtype, numbers);
}

/* The product of x with chosen matrices, `most` of which have room in `numbers` at a time. */
static int choose_by_floats(struct kl_emit *e, const struct kl_command *c,
                            const struct kl_arg *numbers, int most) {
    const struct kl_arg *out = &c->args[c->n_in];
    const int n = out->dims[out->ndim - 1], matrices = numbers->dims[0];
    struct along_one o = {(int)(out->size / n), {(int)(out->size / n), 1, n}, 1, {n, n, 1}};
    const void *left, *right;
    KL_TRY(dense_indices(e, &c->args[4], &left));
    KL_TRY(dense_indices(e, &c->args[5], &right));
    struct kl_arg args[5] = {c->args[0], *numbers, flat_indices(&c->args[4], left, &o),
                             flat_indices(&c->args[5], right, &o), *out};
    args[4].ndim = 3;
    args[4].dims = o.result;
    args[4].strides = o.steps;
    struct kl_command product = *c;
    product.op = KL_OP_GATHER_MM;
    product.params = NULL;
    product.params_bytes = 0;
    product.n_in = 4;
    product.args = args;
    if (most == matrices) {
        KL_TRY(unpack_some(e, c, 0, matrices, (void *)numbers->data));
        return kl_emit_command(e, &product);
    }
    struct kl_gather_part part = {.n = 0};
    for (int i = 0; i < matrices; i += most) {
        part.first = i;
        part.n = most < matrices - i ? most : matrices - i;
        KL_TRY(unpack_some(e, c, i, (int)part.n, (void *)numbers->data));
        KL_TRY(kl_lower_gather_part(e, &product, &part));
    }
    return KL_OK;
}

/* The matrices in the workspace, as numbers, and a product of floats. */
static int by_floats(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[c->n_in];
    const int last = w->ndim - 1, cols = c->args[2].dims[last] * p->format.group_size;
    const size_t item = kl_dtype_size(x->dtype);
    int dims[KL_AXES_MAX];
    int64_t strides[KL_AXES_MAX], size = 1;
    void *numbers = NULL;
    for (int i = 0; i <= last; i++) size *= dims[i] = i == last ? cols : w->dims[i];
    const int matrices = c->op == KL_OP_GATHER_QMM ? w->dims[0] : 1;
    const int64_t bytes = size / matrices * (int64_t)item, room = MOST_AT_ONCE / bytes;
    const int most = room >= matrices ? matrices : room > 1 ? (int)room : 1;
    KL_TRY(kl_emit_workspace(e, (size_t)(bytes * most), &numbers));
    if (c->op != KL_OP_GATHER_QMM) KL_TRY(unpack(e, &p->format, w, NULL, x->dtype, numbers));
    kl_strides_row_major(last + 1, dims, strides);
    if (p->transpose) {
        const int rows = dims[last - 1];
        const int64_t step = strides[last - 1];
        dims[last - 1] = cols;
        dims[last] = rows;
        strides[last - 1] = strides[last];
        strides[last] = step;
    }
    struct kl_arg args[3] = {*x, *w, *out}; /* the second is the numbers */
    args[1] = (struct kl_arg){.data = numbers,
                              .dtype = x->dtype,
                              .layout = kl_layout_of(last + 1, dims, strides),
                              .ndim = last + 1,
                              .size = size,
                              .dims = dims,
                              .strides = strides};
    if (c->op == KL_OP_GATHER_QMM) return choose_by_floats(e, c, &args[1], most);
    struct kl_command product = *c;
    product.op = KL_OP_MATMUL;
    product.params = NULL;
    product.params_bytes = 0;
    product.n_in = 2;
    product.args = args;
    return kl_emit_command(e, &product);
}

/* The arguments of both kernels of packed numbers, but the last ones. */
struct packed_args {
    struct operands o;
    struct product q;
    const void *lhs, *rhs;
};

/* any_col: x may have any distance between elements of a row. */
static int describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *in,
                    bool any_col, struct packed_args *a) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in];
    const bool affine = kl_quant_has_biases(p->format.mode), gather = c->op == KL_OP_GATHER_QMM;
    struct operands *o = &a->o;
    a->lhs = a->rhs = NULL;
    if (gather) {
        KL_TRY(dense_indices(e, &c->args[4], &a->lhs));
        KL_TRY(dense_indices(e, &c->args[5], &a->rhs));
    }
    KL_TRY(find_operands(e, o, in, affine ? 4 : 3, any_col, gather));
    struct product q = {.m = out->dims[out->ndim - 2],
                        .n = out->dims[out->ndim - 1],
                        .k = in[0].dims[in[0].ndim - 1],
                        .x_row = o->row[0],
                        .x_col = o->col[0],
                        .w_row = o->row[1],
                        .s_row = o->row[2],
                        .b_row = affine ? o->row[3] : 0,
                        .vector = in_vectors(o, 1),
                        .x_vector = p->transpose && o->col[0] == 1 && in_vectors(o, 0),
                        .gather = gather};
    if (gather) {
        q.x_mat = o->matrix[0];
        q.w_mat = o->matrix[1];
        q.s_mat = o->matrix[2];
        q.b_mat = affine ? o->matrix[3] : 0;
        q.xs = in[0].dims[0];
        q.ws = in[1].dims[0];
        o->lead = (struct kl_space){.n = 1};
    }
    a->q = q;
    return KL_OK;
}

/* Whether each row of x has a matrix that an index chooses, and rows of the same matrix are brought
 * together. */
static bool single_rows(const struct kl_emit *e, const struct product *q, int64_t batches) {
    return q->gather && q->m == 1 && kl_route_pays(e, batches, q->ws);
}

/* The rows for which a tile then needs room: a quarter more than a matrix has on average, since
 * what is left over reads the matrix again. */
static int64_t lines_of_tile(const struct product *q, int64_t batches) {
    return kl_groups_for(batches * 5, q->ws * 4);
}

/* ---- by matrix units ---- */

/* Whether a's elements can be read n at a time, or are copied before that. */
static bool in_runs(const struct kl_arg *a, int64_t n) {
    const int64_t bytes = n * (int64_t)kl_dtype_size(a->dtype);
    if (stride_of(a, a->strides, 1) != 1 && a->dims[a->ndim - 1] != 1) return true;
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

static bool takes_matrix(const struct kl_emit *e, const struct kl_command *c) {
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
    const int64_t row = stride_of(x, x->strides, 2);
    void *copy = NULL;
    *to = *x;
    if (in_runs(x, VEC_BYTES / 2) && row >= 0 && row < LONGEST_ROW) return KL_OK;
    kl_strides_row_major(x->ndim, x->dims, strides);
    KL_TRY(kl_emit_workspace(e, (size_t)x->size * 2, &copy));
    KL_TRY(kl_emit_copy(e, 2, x->ndim, x->dims, copy, strides, x->data, x->strides));
    to->data = copy;
    to->strides = strides;
    to->layout = kl_layout_of(x->ndim, x->dims, strides);
    return KL_OK;
}

static int by_matrix(struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_quant_format *f = &((const struct kl_qmm_params *)c->params)->format;
    const struct kl_arg *out = &c->args[c->n_in];
    int64_t strides[KL_AXES_MAX];
    struct kl_arg in[4];
    struct packed_args a;
    memcpy(in, c->args, sizeof in);
    KL_TRY(in_pieces(e, &c->args[0], &in[0], strides));
    KL_TRY(describe(e, c, in, false, &a));
    /* Single rows with the same matrix are brought together; offsets in x fit 32 bits. */
    const bool routed =
        single_rows(e, &a.q, batches) && a.q.x_mat >= 0 && a.q.xs * a.q.x_mat <= UINT32_MAX;
    const int64_t lines = routed ? lines_of_tile(&a.q, batches) : a.q.m;
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
    const size_t item = words < 4 ? (size_t)words * 4 : VEC_BYTES;
    const int32_t early = !a.q.gather && kl_emit_unwritten(e, &in[1]) &&
                          kl_emit_unwritten(e, &in[2]) && kl_emit_unwritten(e, &in[3]);
    const struct kl_karg args[] = {KL_KARG_PTR(a.o.data[0], VEC_BYTES),
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

/* ---- by multiply-adds ---- */

static int packed(struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *in = c->args, *out = &c->args[c->n_in];
    const bool affine = kl_quant_has_biases(p->format.mode);
    struct packed_args a;
    KL_TRY(describe(e, c, in, true, &a));
    const struct operands o = a.o;
    const bool routed = single_rows(e, &a.q, batches) && p->transpose;
    if (routed) a.q.gather = 2;
    const struct product q = a.q;
    const int64_t lines = routed ? lines_of_tile(&q, batches) : q.m;
    const int rows = !p->transpose || lines == 1 ? 1 : lines == 2 ? 2 : lines <= 4 ? 4 : 8;
    const int values[] = {in[0].dtype,    in[0].dtype,          p->format.mode,
                          p->format.bits, p->format.group_size, rows};
    const int columns = rows <= 2 && p->format.bits <= 4 ? 4 : 2;
    uint32_t local = kl_local_size(e, LOCAL);
    const int64_t teams = local / e->driver->subgroup ? local / e->driver->subgroup : 1;
    struct kl_route route = {NULL, NULL, batches * kl_groups_for(q.m, rows)};
    if (routed) KL_TRY(kl_route(e, a.rhs, 1, batches, q.ws, rows, &route));
    const struct kl_karg args[] = {KL_KARG_PTR(o.data[0], o.item[0]),
                                   KL_KARG_PTR(o.data[1], access_of(&o, 1, q.vector)),
                                   KL_KARG_PTR(o.data[2], o.item[2]),
                                   KL_KARG_PTR(affine ? o.data[3] : NULL, affine ? o.item[3] : 1),
                                   KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                                   KL_KARG_PTR(a.lhs, 4),
                                   KL_KARG_PTR(routed ? route.tiles : a.rhs, 4),
                                   KL_KARG_PTR(route.order, 4),
                                   KL_KARG(q),
                                   KL_KARG(o.lead)};
    if (p->transpose)
        return kl_emit(e, &kl_family_quantized, values, "dots",
                       route.n_tiles * kl_groups_for(q.n, teams * columns), local, args, 10);
    const int64_t total =
        batches * q.m * (q.n / (p->format.group_size < 32 ? p->format.group_size : 32));
    struct kl_karg more[10];
    memcpy(more, args, 7 * sizeof *args);
    memcpy(more + 7, args + 8, 2 * sizeof *args);
    more[9] = KL_KARG(total);
    return kl_emit(e, &kl_family_quantized, values, "add_rows", kl_groups_for(total, local), local,
                   more, 10);
}

int kl_lower_quantized_matmul(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[c->n_in];
    if (out->size == 0) return KL_OK;
    const int64_t m = out->dims[out->ndim - 2], n = out->dims[out->ndim - 1];
    const int64_t batches = out->size / (m * n);
    if (x->dims[x->ndim - 1] == 0) /* the sums have no terms */
        return kl_emit_fill(e, out->data, kl_dtype_size(out->dtype), out->size, 0);
    const int64_t bytes = w->size / p->format.bits * 32 * (int64_t)kl_dtype_size(x->dtype);
    const bool matrix = takes_matrix(e, c);
    if (c->op == KL_OP_QUANTIZED_MATMUL && bytes <= MOST_UNPACKED &&
        (m > (matrix ? MATRIX_ROWS : FEW_ROWS) || !p->transpose))
        return by_floats(e, c);
    /* Many rows for each of the matrices that indices choose; in parts only dense rows. */
    const bool dense = (x->layout & KL_ROW_CONTIGUOUS) && (uintptr_t)x->data % VEC_BYTES == 0;
    if (c->op == KL_OP_GATHER_QMM && (bytes <= MOST_AT_ONCE || dense) && matrix && m == 1 &&
        kl_route_pays(e, batches, w->dims[0]) && batches > MATRIX_ROWS * w->dims[0])
        return by_floats(e, c);
    return matrix ? by_matrix(e, c, batches) : packed(e, c, batches);
}
