/* linalg.c - CHOLESKY, LU, QR, SOLVE, INV and SOLVE_TRIANGULAR of matrices of up to MOST rows and
 * columns: one group of kernels/linalg.kl for each matrix, or a few where the right-hand sides have
 * many columns. A driver may have a library for larger matrices, and for other operations. */
#include "backend/gpu/lower/linalg.h"

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

const struct kl_family kl_family_linalg = {
    .name = "linalg", .source = kl_source_linalg, .defines = {"T:TYPE", "SIZE"}};

enum {
    MOST = 64,  /* rows and columns */
    SMALL = 32, /* so that more groups of small matrices run at once */
    TILE = 32,  /* columns of right-hand sides at once; the same is in linalg.kl */
    TILE_OF_LARGE_F64 = 16,
    ENOUGH_GROUPS = 1024,  /* a matrix that several groups have is factored by each of them */
    SHARED_MORE = 5 << 10, /* bytes; the kernels have no more than these, matrix and tile */
};

/* The operands, as the kernels walk them. */
struct job {
    const struct kl_command *c;
    const struct kl_arg *a, *out;
    const void *data[2];    /* of the matrices and the right-hand sides */
    int64_t row[2], col[2]; /* strides in elements */
    struct kl_space batch;
    struct kl_matrix_range range;
    int m, n, columns; /* columns: of the right-hand sides, or of an inverse */
    int values[2];     /* of the family's macros */
    uint32_t local;
    size_t item;
};

/* Copies operand i to the workspace in row-major order: its batch has too many axes. */
static int copy_operand(struct kl_emit *e, struct job *j, int i) {
    const struct kl_arg *x = &j->c->args[i];
    int64_t strides[KL_AXES_MAX], each = 1;
    void *copy = NULL;
    for (int d = x->ndim - 1; d >= 0; d--) {
        strides[d] = each;
        each *= x->dims[d];
    }
    KL_TRY(kl_emit_workspace(e, (size_t)x->size * j->item, &copy));
    KL_TRY(kl_emit_copy(e, j->item, x->ndim, x->dims, copy, strides, x->data, x->strides));
    j->data[i] = copy;
    j->row[i] = x->dims[x->ndim - 1];
    j->col[i] = 1;
    return KL_OK;
}

static int describe_operands(struct kl_emit *e, struct job *j) {
    const int lead = j->a->ndim - 2, n_in = j->c->n_in;
    struct kl_axes batch = KL_NO_AXES;
    for (int i = 0; i < n_in; i++) {
        const struct kl_arg *x = &j->c->args[i];
        j->data[i] = x->data;
        j->row[i] = x->strides[lead];
        j->col[i] = x->strides[lead + 1];
    }
    for (int d = 0; d < lead; d++)
        kl_axes_add(&batch, j->a->dims[d], j->a->strides[d],
                    n_in == 2 ? j->c->args[1].strides[d] : 0);
    if (kl_axes_space(&batch, &j->batch)) return KL_OK;
    const int64_t matrices = batch.n;
    batch = KL_NO_AXES;
    for (int i = 0; i < n_in; i++) KL_TRY(copy_operand(e, j, i));
    kl_axes_add(&batch, matrices, (int64_t)j->m * j->n, (int64_t)j->n * j->columns);
    kl_axes_space(&batch, &j->batch);
    return KL_OK;
}

bool kl_matrix_is_small(const struct kl_command *c) {
    const struct kl_arg *a = &c->args[0];
    return a->dims[a->ndim - 2] <= MOST && a->dims[a->ndim - 1] <= MOST;
}

static int check_size(struct kl_emit *e, const struct job *j) {
    const char *name = j->c->name ? j->c->name : kl_op_name(j->c->op);
    const size_t size = (size_t)j->values[1],
                 needs = size * (size + 1 + (size == MOST && j->item == 8 ? 16 : TILE)) * j->item +
                         SHARED_MORE;
    if (!kl_matrix_is_small(j->c))
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "%s of matrices of %d rows and %d columns cannot run on this device, which "
                       "takes up to %d of each; a stream of the CPU runs it",
                       name, j->m, j->n, MOST);
    if (needs > e->driver->local_bytes)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "%s of matrices of %d rows and %d columns of %s needs %zu bytes of shared "
                       "memory, and this device has %zu; a stream of the CPU runs it",
                       name, j->m, j->n, kl_dtype_name((enum kl_dtype)j->a->dtype), needs,
                       e->driver->local_bytes);
    return KL_OK;
}

static int cholesky(struct kl_emit *e, const struct job *j) {
    const struct kl_fault_args f = kl_fault_args(j->c);
    const int32_t upper = ((const struct kl_matrix_params *)j->c->params)->upper;
    const int32_t word = f.checked ? j->c->word.index : -1;
    const struct kl_karg args[] = {KL_KARG_PTR(j->data[0], j->item),
                                   KL_KARG_PTR(j->out->data, j->item),
                                   f.ptr,
                                   KL_KARG(word),
                                   KL_KARG(j->range.begin),
                                   KL_KARG(j->range.origin),
                                   KL_KARG(j->n),
                                   KL_KARG(upper),
                                   KL_KARG(j->row[0]),
                                   KL_KARG(j->col[0]),
                                   KL_KARG(j->batch)};
    return kl_emit(e, &kl_family_linalg, j->values, "cholesky", j->range.end - j->range.begin,
                   j->local, args, sizeof args / sizeof *args);
}

static int factors(struct kl_emit *e, const struct job *j, const char *entry) {
    const struct kl_karg args[] = {KL_KARG_PTR(j->data[0], j->item),
                                   KL_KARG_PTR(j->out->data, j->item),
                                   KL_KARG(j->range.begin),
                                   KL_KARG(j->m),
                                   KL_KARG(j->n),
                                   KL_KARG(j->row[0]),
                                   KL_KARG(j->col[0]),
                                   KL_KARG(j->batch)};
    return kl_emit(e, &kl_family_linalg, j->values, entry, j->range.end - j->range.begin, j->local,
                   args, sizeof args / sizeof *args);
}

static int solve(struct kl_emit *e, const struct job *j) {
    const struct kl_fault_args f = kl_fault_args(j->c);
    const bool of_triangle = j->c->op == KL_OP_SOLVE_TRIANGULAR;
    const int32_t word = f.checked ? j->c->word.index : -1;
    const int32_t how = of_triangle ? ((const struct kl_matrix_params *)j->c->params)->upper
                                    : j->c->op == KL_OP_INV;
    const int64_t matrices = j->range.end - j->range.begin;
    const int most = j->values[1] == MOST && j->item == 8 ? TILE_OF_LARGE_F64 : TILE;
    const int32_t wide = (int32_t)kl_pow2_for(j->columns, most);
    int64_t tiles = kl_groups_for(j->columns, wide);
    if (tiles * matrices > ENOUGH_GROUPS)
        tiles = matrices < ENOUGH_GROUPS ? ENOUGH_GROUPS / matrices : 1;
    const int32_t parts = (int32_t)tiles;
    const struct kl_karg args[] = {KL_KARG_PTR(j->data[0], j->item),
                                   KL_KARG_PTR(j->data[1], j->item),
                                   KL_KARG_PTR(j->out->data, j->item),
                                   f.ptr,
                                   KL_KARG(word),
                                   KL_KARG(j->range.begin),
                                   KL_KARG(j->range.origin),
                                   KL_KARG(j->n),
                                   KL_KARG(j->columns),
                                   KL_KARG(wide),
                                   KL_KARG(parts),
                                   KL_KARG(j->row[0]),
                                   KL_KARG(j->col[0]),
                                   KL_KARG(j->row[1]),
                                   KL_KARG(j->col[1]),
                                   KL_KARG(j->batch),
                                   KL_KARG(how)};
    return kl_emit(e, &kl_family_linalg, j->values, of_triangle ? "solve_triangular" : "solve",
                   matrices * parts, j->local, args, sizeof args / sizeof *args);
}

int kl_lower_matrix(struct kl_emit *e, const struct kl_command *c) {
    struct job j = {.c = c, .a = &c->args[0], .out = &c->args[c->n_in]};
    const int last = j.a->ndim - 1;
    if (j.out->size == 0) return KL_OK;
    j.m = j.a->dims[last - 1];
    j.n = j.a->dims[last];
    j.columns = c->n_in == 2 ? c->args[1].dims[last] : j.n;
    j.item = kl_dtype_size((enum kl_dtype)j.a->dtype);
    j.values[0] = j.a->dtype;
    j.values[1] = j.m > SMALL || j.n > SMALL ? MOST : SMALL;
    j.local = kl_local_size(e, 4 * (uint32_t)j.values[1]);
    KL_TRY(check_size(e, &j));
    KL_TRY(describe_operands(e, &j));
    j.range = kl_matrix_range_of(c);
    if (c->op == KL_OP_CHOLESKY) return cholesky(e, &j);
    if (c->op == KL_OP_LU) return factors(e, &j, "lu");
    if (c->op == KL_OP_QR) return factors(e, &j, "qr");
    return solve(e, &j);
}
