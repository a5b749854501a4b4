/* quantized.c - QUANTIZE, DEQUANTIZE, QUANTIZED_MATMUL, GATHER_QMM. Products of few rows with
 * a transposed matrix read packed numbers, by matrix units where there are such for their types;
 * others go in tiles by matrices of sub-groups where the dialect has them, or unpack the matrix
 * into the workspace and are products of floats, unless that would take too much memory; matrices
 * that indices choose, where each has many rows, in parts. */
#include <string.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/product_gather.h"
#include "backend/gpu/lower/quantized.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL = 128,
    VEC_BYTES = KL_QUANTIZED_VEC_BYTES,
    /* With more rows a matrix is unpacked, */
    FEW_ROWS = KL_QUANTIZED_FEW_ROWS,
    MATRIX_ROWS = 64, /* by matrix units with more than these */
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
/* The kinds that go together in kernels/quantized.kl. */
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, scales, numbers)            \
    _Static_assert(                                                                                \
        (KL_SCALES_##scales == KL_SCALES_FLOAT) == (KL_NUMBERS_##numbers == KL_NUMBERS_INTEGER) && \
            (KL_SCALES_##scales != KL_SCALES_E4M3 || KL_NUMBERS_##numbers == KL_NUMBERS_E2M1),     \
        #name ": kernels have no such scales with such numbers");
#include "base/op/quant_mode.def"

/* Finds the strides of n operands with the same leading axes, those before the last two. Operands
 * whose last axis is not dense are copied, and all are where the leading axes are too many for a
 * kernel. any_col: not the first one for its last axis. whole: matrices are found by index, not by
 * leading axes, which the operands need not have in common. */
static int find_operands(struct kl_emit *e, struct kl_quantized_operands *o,
                         const struct kl_arg *in, int n, bool any_col, bool whole) {
    int64_t dense[KL_QUANTIZED_IN][KL_AXES_MAX];
    const int64_t *strides[KL_QUANTIZED_IN];
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
        const bool dense_row =
            kl_stride_from_end(a, a->strides, 1) == 1 || a->dims[a->ndim - 1] == 1;
        if (!too_many && (dense_row || (any_col && i == 0))) continue;
        kl_strides_row_major(a->ndim, a->dims, dense[i]);
        strides[i] = dense[i];
        void *to = NULL;
        KL_TRY(kl_emit_workspace(e, (size_t)a->size * o->item[i], &to));
        KL_TRY(kl_emit_copy(e, o->item[i], a->ndim, a->dims, to, dense[i], a->data, a->strides));
        o->data[i] = to;
    }
    for (int i = 0; i < n; i++) {
        o->row[i] = kl_stride_from_end(&in[i], strides[i], 2);
        o->col[i] = kl_stride_from_end(&in[i], strides[i], 1);
        o->matrix[i] = kl_stride_from_end(&in[i], strides[i], 3);
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
static int32_t in_vectors(const struct kl_quantized_operands *o, int i) {
    const int64_t vec = VEC_BYTES / (int64_t)o->item[i];
    bool fits =
        (uintptr_t)o->data[i] % VEC_BYTES == 0 && o->row[i] % vec == 0 && o->matrix[i] % vec == 0;
    for (int k = 0; k < o->lead.ndim; k++) fits = fits && o->lead.strides[i][k] % vec == 0;
    return fits;
}

static size_t access_of(const struct kl_quantized_operands *o, int i, int32_t vector) {
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
    struct kl_quantized_operands o;
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

/* any_col: x may have any distance between elements of a row. */
int kl_quantized_describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *in,
                          bool any_col, struct kl_quantized_args *a) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in];
    const bool affine = kl_quant_has_biases(p->format.mode), gather = c->op == KL_OP_GATHER_QMM;
    struct kl_quantized_operands *o = &a->o;
    a->lhs = a->rhs = NULL;
    if (gather) {
        KL_TRY(dense_indices(e, &c->args[4], &a->lhs));
        KL_TRY(dense_indices(e, &c->args[5], &a->rhs));
    }
    KL_TRY(find_operands(e, o, in, affine ? 4 : 3, any_col, gather));
    struct kl_quantized_product q = {.m = out->dims[out->ndim - 2],
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

/* ---- by multiply-adds ---- */

static int packed(struct kl_emit *e, const struct kl_command *c, int64_t batches) {
    const struct kl_qmm_params *p = c->params;
    const struct kl_arg *in = c->args, *out = &c->args[c->n_in];
    const bool affine = kl_quant_has_biases(p->format.mode);
    struct kl_quantized_args a;
    KL_TRY(kl_quantized_describe(e, c, in, true, &a));
    const struct kl_quantized_operands o = a.o;
    const bool routed = kl_quantized_single_rows(e, &a.q, batches) && p->transpose;
    if (routed) a.q.gather = 2;
    const struct kl_quantized_product q = a.q;
    const int64_t lines = routed ? kl_quantized_lines(&q, batches) : q.m;
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
    if (kl_quantized_takes_tiles(e, c, batches)) return kl_quantized_by_tiles(e, c, batches);
    const int64_t bytes = w->size / p->format.bits * 32 * (int64_t)kl_dtype_size(x->dtype);
    const bool matrix = kl_quantized_takes_matrix(e, c);
    if (c->op == KL_OP_QUANTIZED_MATMUL && bytes <= MOST_UNPACKED &&
        (m > (matrix ? MATRIX_ROWS : FEW_ROWS) || !p->transpose))
        return by_floats(e, c);
    /* Many rows for each of the matrices that indices choose; in parts only dense rows. */
    const bool dense = (x->layout & KL_ROW_CONTIGUOUS) && (uintptr_t)x->data % VEC_BYTES == 0;
    if (c->op == KL_OP_GATHER_QMM && (bytes <= MOST_AT_ONCE || dense) && matrix && m == 1 &&
        kl_route_pays(e, batches, w->dims[0]) && batches > MATRIX_ROWS * w->dims[0])
        return by_floats(e, c);
    return matrix ? kl_quantized_by_matrix(e, c, batches) : packed(e, c, batches);
}
