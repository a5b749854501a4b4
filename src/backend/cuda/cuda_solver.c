/* cuda_solver.c - what the dialect has no kernels for, by cuSOLVER and cuBLAS where they are
 * installed: CHOLESKY, LU, QR, SOLVE, INV and SOLVE_TRIANGULAR of large matrices, SVD, EIGH and
 * PINV of any. Matrices of a batch are given to the library one after the other.
 *
 * The library's matrices are in the order of columns. A row-major matrix read so is its transpose,
 * which is what is wanted wherever the transpose has the same result, and a copy in the other order
 * where it has not. Infos are read on the device (lower/linalg.h); what is NaN or infinite is found
 * before svd and eigh, and is 0 for the library. */
#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/lower/linalg.h"
#include "base/alloc.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

struct job {
    struct kl_emit *e;
    const struct kl_command *c;
    struct kl_cuda *d;
    const struct kl_solver_api *api;
    void *handle, *params; /* of the queue; NULL in a dry run, which asks with the device's */
    const struct kl_arg *a, *out;
    struct kl_matrix_range range;
    enum kl_dtype dtype;
    int type, real_type; /* the library's names of dtype, and of its real numbers */
    int m, n, k, right;  /* k = min(m, n) */
    bool upper, vectors;
    size_t item;
    int64_t count;            /* elements of the result of one matrix */
    size_t bytes, host_bytes; /* of the library's workspace */
    void *work, *host;
    int *infos, *flags, *spare; /* of each matrix; of each; one of which nobody asks */
    /* Parts of the workspace: for one matrix, and by operation, see take_memory. */
    void *copy, *left, *right_part, *values;
    int64_t *exchanges;
};

static const char *status_name(int status) {
    switch (status) {
    case 1: return "NOT_INITIALIZED";
    case KL_SOLVER_ALLOC_FAILED: return "ALLOC_FAILED";
    case 3: return "INVALID_VALUE";
    case 6: return "EXECUTION_FAILED";
    case 7: return "INTERNAL_ERROR";
    case 9: return "NOT_SUPPORTED";
    default: return "status";
    }
}

static int check(const struct job *j, const char *call, int status) {
    if (!status) return KL_OK;
    return kl_fail(j->e->err, status == KL_SOLVER_ALLOC_FAILED ? KL_ENOMEM : KL_ESUBMIT,
                   "device '%s': %s failed with %s (%d)", j->d->name, call, status_name(status),
                   status);
}

/* Calls the library, after what was emitted before; a dry run does not. */
#define LIBRARY(j, call, args)                                 \
    ((j)->e->dry ? KL_OK                                       \
     : kl_cuda_chain_flush((j)->d, (j)->e->queue, (j)->e->err) \
         ? KL_ESUBMIT                                          \
         : check(j, "cusolverDn" #call, (j)->api->call args))

/* ---- handles and workspaces ---- */

static int device_handle(struct job *j) {
    struct kl_cuda_solver *s = &j->d->solver;
    if (!s->handle) KL_TRY(check(j, "cusolverDnCreate", j->api->Create(&s->handle)));
    if (!s->params) KL_TRY(check(j, "cusolverDnCreateParams", j->api->CreateParams(&s->params)));
    j->params = s->params;
    return KL_OK;
}

static int queue_handle(struct job *j) {
    struct kl_cuda_queue *q = j->e->queue;
    if (!q->solver) {
        void *made = NULL;
        KL_TRY(check(j, "cusolverDnCreate", j->api->Create(&made)));
        KL_TRY(check(j, "cusolverDnSetStream", j->api->SetStream(made, q->stream)));
        q->solver = made;
    }
    j->handle = q->solver;
    return KL_OK;
}

static int ask_orgqr(struct job *j, void *handle) {
    int count = 0, rc;
    if (j->dtype == KL_F64)
        rc = j->api->DorgqrSize(handle, j->m, j->k, j->k, j->a->data, j->m, j->a->data, &count);
    else
        rc = j->api->SorgqrSize(handle, j->m, j->k, j->k, j->a->data, j->m, j->a->data, &count);
    KL_TRY(check(j, "cusolverDnXorgqr_bufferSize", rc));
    if ((size_t)count * j->item > j->bytes) j->bytes = (size_t)count * j->item;
    return KL_OK;
}

static char svd_job(const struct job *j) {
    return j->vectors || j->c->op == KL_OP_PINV ? 'A' : 'N';
}

/* The library asks for no data, but not every version takes NULL. */
static int ask_sizes(struct job *j, void *handle) {
    const void *a = j->a->data;
    const int64_t m = j->m, n = j->n, most = m > n ? m : n, least = m > n ? n : m;
    const char svd = svd_job(j);
    switch (j->c->op) {
    case KL_OP_CHOLESKY:
        return check(j, "cusolverDnXpotrf_bufferSize",
                     j->api->PotrfSize(handle, j->params, KL_SOLVER_LOWER, n, j->type, a, n,
                                       j->type, &j->bytes, &j->host_bytes));
    case KL_OP_LU:
    case KL_OP_SOLVE:
    case KL_OP_INV:
        return check(j, "cusolverDnXgetrf_bufferSize",
                     j->api->GetrfSize(handle, j->params, m, n, j->type, a, m, j->type, &j->bytes,
                                       &j->host_bytes));
    case KL_OP_QR:
        KL_TRY(check(j, "cusolverDnXgeqrf_bufferSize",
                     j->api->GeqrfSize(handle, j->params, m, n, j->type, a, m, j->type, a, j->type,
                                       &j->bytes, &j->host_bytes)));
        return ask_orgqr(j, handle);
    case KL_OP_EIGH:
        return check(j, "cusolverDnXsyevd_bufferSize",
                     j->api->SyevdSize(handle, j->params, j->vectors,
                                       j->upper ? KL_SOLVER_LOWER : KL_SOLVER_UPPER, n, j->type, a,
                                       n, j->real_type, a, j->type, &j->bytes, &j->host_bytes));
    case KL_OP_SVD:
    case KL_OP_PINV:
        return check(j, "cusolverDnXgesvd_bufferSize",
                     j->api->GesvdSize(handle, j->params, (signed char)svd, (signed char)svd, most,
                                       least, j->type, a, most, j->real_type, a, j->type, a, most,
                                       j->type, a, least, j->type, &j->bytes, &j->host_bytes));
    default: return KL_OK;
    }
}

static int find_sizes(struct job *j) {
    kl_mutex_lock(&j->d->solver.mu);
    int rc = device_handle(j);
    if (!rc) rc = ask_sizes(j, j->d->solver.handle);
    kl_mutex_unlock(&j->d->solver.mu);
    return rc;
}

static int part(struct job *j, int64_t elements, size_t item, void **out) {
    return kl_emit_workspace(j->e, (size_t)elements * item, out);
}

static int take_memory(struct job *j) {
    const enum kl_op_id op = j->c->op;
    const int64_t m = j->m, n = j->n, matrices = j->range.end - j->range.begin;
    const bool whole = op == KL_OP_PINV || (op == KL_OP_SVD && j->vectors && m > n);
    void *exchanges = NULL, *infos = NULL, *spare = NULL;
    KL_TRY(part(j, 2 * matrices, sizeof(int), &infos)); /* and flags, which are filled with them */
    KL_TRY(part(j, 1, sizeof(int), &spare));
    KL_TRY(part(j, (int64_t)j->bytes, 1, &j->work));
    if (op != KL_OP_CHOLESKY || !j->upper) KL_TRY(part(j, m * n, j->item, &j->copy));
    if (op == KL_OP_SOLVE || op == KL_OP_SOLVE_TRIANGULAR)
        KL_TRY(part(j, n * j->right, j->item, &j->right_part));
    if (op == KL_OP_QR) KL_TRY(part(j, j->k, j->item, &j->values)); /* of reflections */
    if (op == KL_OP_LU || op == KL_OP_SOLVE || op == KL_OP_INV)
        KL_TRY(part(j, j->k, sizeof(int64_t), &exchanges));
    if (op == KL_OP_SOLVE || op == KL_OP_INV)
        KL_TRY(part(j, j->k + m, j->item, &j->values)); /* exchanges and places, see permute */
    if (whole) KL_TRY(part(j, m * m, j->item, &j->left));
    if (whole) KL_TRY(part(j, n * n, j->item, &j->right_part));
    if (op == KL_OP_PINV || ((op == KL_OP_SVD || op == KL_OP_EIGH) && j->dtype == KL_C64))
        KL_TRY(part(j, j->k, j->item, &j->values));
    j->infos = infos;
    j->flags = infos ? j->infos + matrices : NULL;
    j->spare = spare;
    j->exchanges = exchanges;
    return KL_OK;
}

/* ---- copies ---- */

/* A matrix of the batch of x as a row-major one, or, by_columns, in the order of columns. */
static int copy_in(struct job *j, const struct kl_arg *x, int64_t matrix, bool by_columns,
                   void *to) {
    const int *dims = x->dims + x->ndim - 2;
    const int64_t strides[] = {by_columns ? 1 : dims[1], by_columns ? dims[0] : 1};
    return kl_emit_copy(j->e, j->item, 2, dims, to, strides, kl_matrix_at(x, matrix),
                        x->strides + x->ndim - 2);
}

/* rows * cols elements in the order of columns, `ld` apart, as a row-major matrix. */
static int copy_out(struct job *j, const void *from, int64_t ld, int rows, int cols, void *to) {
    const int dims[] = {rows, cols};
    const int64_t strides[] = {cols, 1}, from_strides[] = {1, ld};
    return kl_emit_copy(j->e, j->item, 2, dims, to, strides, from, from_strides);
}

/* Element `at` of the result of a matrix. */
static void *result_at(const struct job *j, int64_t matrix, int64_t at) {
    return (char *)j->out->data +
           (matrix * j->count + at) * (int64_t)kl_dtype_size((enum kl_dtype)j->out->dtype);
}

static int *info_of(const struct job *j, int64_t matrix) {
    return j->infos ? j->infos + (matrix - j->range.begin) : NULL;
}

/* ---- triangular systems, by cuBLAS ---- */

static int triangle_handle(struct job *j, const struct kl_triangle_api *api, void **out) {
    struct kl_cuda_queue *q = j->e->queue;
    if (!q->triangles) {
        void *made = NULL;
        KL_TRY(check(j, "cublasCreate", api->Create(&made)));
        KL_TRY(check(j, "cublasSetStream", api->SetStream(made, q->stream)));
        q->triangles = made;
    }
    *out = q->triangles;
    return KL_OK;
}

/* Solves op(a) x = b in place of b (n, columns), all by columns. The library takes a triangle on
 * the left in three quarters of the time of one on the right. */
static int solve_triangle(struct job *j, int triangle, int op, int diagonal, const void *a, void *b,
                          int columns) {
    static const float one_f32 = 1;
    static const double one_f64 = 1;
    const struct kl_triangle_api *api = kl_triangle_api(NULL);
    void *handle;
    if (j->e->dry) return KL_OK;
    KL_TRY(triangle_handle(j, api, &handle));
    KL_TRY(kl_cuda_chain_flush(j->d, j->e->queue, j->e->err));
    if (j->dtype == KL_F64)
        return check(j, "cublasDtrsm",
                     api->Dtrsm(handle, KL_SOLVER_LEFT, triangle, op, diagonal, j->n, columns,
                                &one_f64, a, j->n, b, j->n));
    return check(j, "cublasStrsm",
                 api->Strsm(handle, KL_SOLVER_LEFT, triangle, op, diagonal, j->n, columns, &one_f32,
                            a, j->n, b, j->n));
}

/* The other triangle of the transpose by columns is the triangle by rows. */
static int solve_triangular(struct job *j, int64_t i) {
    const int64_t *apart = j->a->strides + j->a->ndim - 2;
    const void *a = kl_matrix_at(j->a, i);
    if (apart[0] != j->n || apart[1] != 1) {
        a = j->copy;
        KL_TRY(copy_in(j, j->a, i, false, j->copy));
    }
    KL_TRY(copy_in(j, &j->c->args[1], i, true, j->right_part));
    KL_TRY(kl_matrix_diagonal(j->e, j->dtype, a, j->n, true, j->infos, i - j->range.begin));
    KL_TRY(solve_triangle(j, j->upper ? KL_SOLVER_LOWER : KL_SOLVER_UPPER, KL_BLAS_OP_T,
                          KL_SOLVER_NON_UNIT, a, j->right_part, j->right));
    return copy_out(j, j->right_part, j->n, j->n, j->right, result_at(j, i, 0));
}

/* ---- the operations, each of one matrix ---- */

/* The library's code for the lower triangle takes half the time of that for the upper one. The
 * upper triangle by rows is the lower one by columns, and so is its factor; for the other one the
 * matrix is turned before and after. */
static int cholesky(struct job *j, int64_t i) {
    void *result = result_at(j, i, 0), *a = j->upper ? result : j->copy;
    KL_TRY(copy_in(j, j->a, i, !j->upper, a));
    KL_TRY(LIBRARY(j, Potrf,
                   (j->handle, j->params, KL_SOLVER_LOWER, j->n, j->type, a, j->n, j->type, j->work,
                    j->bytes, j->host, j->host_bytes, info_of(j, i))));
    if (!j->upper) KL_TRY(copy_out(j, a, j->n, j->n, j->n, result));
    return kl_matrix_triangle(j->e, j->dtype, result, j->n, j->n, j->upper ? KL_UPPER : KL_LOWER,
                              j->infos, i - j->range.begin);
}

static int factor(struct job *j, int64_t i, int m) {
    return LIBRARY(j, Getrf,
                   (j->handle, j->params, m, j->n, j->type, j->copy, m, j->exchanges, j->type,
                    j->work, j->bytes, j->host, j->host_bytes, info_of(j, i)));
}

static int lu(struct job *j, int64_t i) {
    KL_TRY(copy_in(j, j->a, i, true, j->copy));
    KL_TRY(factor(j, i, j->m));
    KL_TRY(copy_out(j, j->copy, j->m, j->m, j->n, result_at(j, i, 0)));
    return kl_matrix_places(j->e, j->dtype, j->exchanges, result_at(j, i, (int64_t)j->m * j->n),
                            j->m, j->k);
}

/* Factors the copy, and solves by its factors for the rows of b (NULL: of the identity matrix), by
 * columns in x. cuSOLVER's own getrs exchanges rows one after the other; here each is written in
 * its place at once, which takes a twentieth of the time. */
static int factor_and_solve(struct job *j, int64_t i, const void *b, const int64_t *strides,
                            void *x, int columns) {
    KL_TRY(factor(j, i, j->n));
    KL_TRY(kl_matrix_diagonal(j->e, j->dtype, j->copy, j->n, false, j->infos, i - j->range.begin));
    KL_TRY(kl_matrix_places(j->e, j->dtype, j->exchanges, j->values, j->n, j->k));
    KL_TRY(kl_matrix_permute(j->e, j->dtype, (char *)j->values + (size_t)j->k * j->item, b, strides,
                             j->n, columns, x));
    KL_TRY(solve_triangle(j, KL_SOLVER_LOWER, KL_BLAS_OP_N, KL_SOLVER_UNIT, j->copy, x, columns));
    return solve_triangle(j, KL_SOLVER_UPPER, KL_BLAS_OP_N, KL_SOLVER_NON_UNIT, j->copy, x,
                          columns);
}

static int solve(struct job *j, int64_t i) {
    const struct kl_arg *b = &j->c->args[1];
    KL_TRY(copy_in(j, j->a, i, true, j->copy));
    KL_TRY(factor_and_solve(j, i, kl_matrix_at(b, i), b->strides + b->ndim - 2, j->right_part,
                            j->right));
    return copy_out(j, j->right_part, j->n, j->n, j->right, result_at(j, i, 0));
}

/* The inverse of the transpose by columns is the inverse by rows. */
static int inverse(struct job *j, int64_t i) {
    KL_TRY(copy_in(j, j->a, i, false, j->copy));
    return factor_and_solve(j, i, NULL, NULL, result_at(j, i, 0), j->n);
}

static int qr(struct job *j, int64_t i) {
    void *q = result_at(j, i, 0), *r = result_at(j, i, (int64_t)j->m * j->k);
    const int count = (int)(j->bytes / j->item);
    KL_TRY(copy_in(j, j->a, i, true, j->copy));
    KL_TRY(LIBRARY(j, Geqrf,
                   (j->handle, j->params, j->m, j->n, j->type, j->copy, j->m, j->type, j->values,
                    j->type, j->work, j->bytes, j->host, j->host_bytes, j->spare)));
    KL_TRY(copy_out(j, j->copy, j->m, j->k, j->n, r));
    KL_TRY(kl_matrix_triangle(j->e, j->dtype, r, j->k, j->n, KL_UPPER, NULL, 0));
    if (j->dtype == KL_F64)
        KL_TRY(LIBRARY(
            j, Dorgqr,
            (j->handle, j->m, j->k, j->k, j->copy, j->m, j->values, j->work, count, j->spare)));
    else
        KL_TRY(LIBRARY(
            j, Sorgqr,
            (j->handle, j->m, j->k, j->k, j->copy, j->m, j->values, j->work, count, j->spare)));
    return copy_out(j, j->copy, j->m, j->m, j->k, q);
}

/* The other order of a Hermitian matrix is its conjugate, and so are the eigenvectors. */
static int eigh(struct job *j, int64_t i) {
    const bool is_complex = j->dtype == KL_C64;
    void *w = result_at(j, i, 0), *v = result_at(j, i, j->n);
    const bool apart = is_complex && j->vectors; /* eigenvalues alone are real */
    KL_TRY(copy_in(j, j->a, i, false, j->copy));
    KL_TRY(kl_matrix_look(j->e, j->dtype, j->copy, j->n, j->n, j->upper ? KL_UPPER : KL_LOWER,
                          j->flags, i - j->range.begin));
    KL_TRY(LIBRARY(j, Syevd,
                   (j->handle, j->params, j->vectors, j->upper ? KL_SOLVER_LOWER : KL_SOLVER_UPPER,
                    j->n, j->type, j->copy, j->n, j->real_type, apart ? j->values : w, j->type,
                    j->work, j->bytes, j->host, j->host_bytes, info_of(j, i))));
    if (!j->vectors) return KL_OK;
    if (!is_complex) return copy_out(j, j->copy, j->n, j->n, j->n, v);
    KL_TRY(kl_matrix_widen(j->e, j->values, w, j->n));
    return kl_matrix_adjoint(j->e, j->copy, v, j->n);
}

/* The library takes matrices with at least as many rows as columns. One with more columns by rows
 * is such a transpose by columns: transpose(a) = vt' s u', whose factors by columns are vt and u
 * by rows. u and vt of others are in the order of columns. */
static int decompose(struct job *j, int64_t i, void *u, void *s, void *vt) {
    const bool wide = j->m <= j->n;
    const int64_t most = wide ? j->n : j->m, least = wide ? j->m : j->n;
    const signed char job = (signed char)svd_job(j);
    KL_TRY(copy_in(j, j->a, i, !wide, j->copy));
    KL_TRY(kl_matrix_look(j->e, j->dtype, j->copy, j->m, j->n, KL_WHOLE, j->flags,
                          i - j->range.begin));
    return LIBRARY(j, Gesvd,
                   (j->handle, j->params, job, job, most, least, j->type, j->copy, most,
                    j->real_type, s, j->type, wide ? vt : u, most, j->type, wide ? u : vt, least,
                    j->type, j->work, j->bytes, j->host, j->host_bytes, info_of(j, i)));
}

static int svd(struct job *j, int64_t i) {
    const int64_t m = j->m, n = j->n;
    if (!j->vectors) return decompose(j, i, j->copy, result_at(j, i, 0), j->copy);
    const bool tall = m > n, is_complex = j->dtype == KL_C64;
    void *u = result_at(j, i, 0), *s = result_at(j, i, m * m), *vt = result_at(j, i, m * m + j->k);
    KL_TRY(
        decompose(j, i, tall ? j->left : u, is_complex ? j->values : s, tall ? j->right_part : vt));
    if (is_complex) KL_TRY(kl_matrix_widen(j->e, j->values, s, j->k));
    if (!tall) return KL_OK;
    KL_TRY(copy_out(j, j->left, m, j->m, j->m, u));
    return copy_out(j, j->right_part, n, j->n, j->n, vt);
}

static int pseudoinverse(struct job *j, int64_t i) {
    KL_TRY(decompose(j, i, j->left, j->values, j->right_part));
    return kl_matrix_pseudoinverse(j->e, j->dtype, j->left, j->values, j->right_part,
                                   result_at(j, i, 0), j->m, j->n, j->m > j->n);
}

/* ---- commands ---- */

static int run_one(struct job *j, int64_t i) {
    switch (j->c->op) {
    case KL_OP_CHOLESKY: return cholesky(j, i);
    case KL_OP_LU: return lu(j, i);
    case KL_OP_QR: return qr(j, i);
    case KL_OP_SOLVE: return solve(j, i);
    case KL_OP_INV: return inverse(j, i);
    case KL_OP_SOLVE_TRIANGULAR: return solve_triangular(j, i);
    case KL_OP_EIGH: return eigh(j, i);
    case KL_OP_SVD: return svd(j, i);
    default: return pseudoinverse(j, i);
    }
}

static int run_all(struct job *j) {
    const int64_t matrices = j->range.end - j->range.begin;
    const bool checked = (kl_op_flags(j->c->op) & KL_OPF_CHECKED) != 0;
    if (checked) KL_TRY(kl_emit_fill(j->e, j->infos, sizeof(int), 2 * matrices, 0));
    for (int64_t i = j->range.begin; i < j->range.end; i++) KL_TRY(run_one(j, i));
    return checked ? kl_matrix_judge(j->e, j->c, j->infos, j->flags) : KL_OK;
}

/* Whether c is for a library; those that the dialect has kernels for are not. */
static bool is_ours(const struct kl_command *c) {
    const struct kl_arg *a = &c->args[0];
    switch (c->op) {
    case KL_OP_CHOLESKY:
    case KL_OP_LU:
    case KL_OP_QR:
    case KL_OP_SOLVE:
    case KL_OP_INV:
    case KL_OP_SOLVE_TRIANGULAR:
        if (kl_matrix_is_small(c)) return false;
        break;
    case KL_OP_SVD:
    case KL_OP_EIGH:
    case KL_OP_PINV: break;
    default: return false;
    }
    return a->size > 0 && c->args[c->n_in].size > 0;
}

static int find_library(struct job *j) {
    const enum kl_op_id op = j->c->op;
    const char *why = "", *missing = NULL, *name = j->c->name ? j->c->name : kl_op_name(op);
    const bool of_triangle = op == KL_OP_SOLVE_TRIANGULAR;
    j->api = of_triangle ? NULL : kl_solver_api(&why);
    if (!of_triangle && !j->api)
        missing = "cuSOLVER";
    else if ((of_triangle || op == KL_OP_SOLVE || op == KL_OP_INV) && !kl_triangle_api(&why))
        missing = "cuBLAS";
    if (!missing) return KL_OK;
    return kl_fail(j->e->err, KL_EUNSUPPORTED,
                   "%s of matrices of %d rows and %d columns needs %s on this device; a stream of "
                   "the CPU runs it. %s",
                   name, j->m, j->n, missing, why);
}

static void describe(struct job *j) {
    const struct kl_command *c = j->c;
    const int last = j->a->ndim - 1;
    j->dtype = (enum kl_dtype)j->a->dtype;
    j->m = j->a->dims[last - 1];
    j->n = j->a->dims[last];
    j->k = j->m < j->n ? j->m : j->n;
    j->right = c->n_in == 2 ? c->args[1].dims[last] : 0;
    j->item = kl_dtype_size(j->dtype);
    j->type = j->dtype == KL_F64   ? KL_BLAS_R_F64
              : j->dtype == KL_C64 ? KL_BLAS_C_F32
                                   : KL_BLAS_R_F32;
    j->real_type = j->dtype == KL_F64 ? KL_BLAS_R_F64 : KL_BLAS_R_F32;
    j->range = kl_matrix_range_of(c);
    j->count = j->out->size / (j->a->size / j->m / j->n);
    if (c->op != KL_OP_CHOLESKY && c->op != KL_OP_SOLVE_TRIANGULAR && c->op != KL_OP_EIGH &&
        c->op != KL_OP_SVD)
        return;
    j->upper = ((const struct kl_matrix_params *)c->params)->upper;
    j->vectors = ((const struct kl_matrix_params *)c->params)->vectors;
}

int kl_cuda_solver(struct kl_emit *e, const struct kl_command *c) {
    struct job j = {
        .e = e, .c = c, .d = kl_cuda_of(e->driver), .a = &c->args[0], .out = &c->args[c->n_in]};
    if (!is_ours(c)) return 0;
    KL_TRY(kl_cuda_enter(j.d, e->err));
    describe(&j);
    KL_TRY(find_library(&j));
    if (j.api) KL_TRY(find_sizes(&j));
    KL_TRY(take_memory(&j));
    if (j.api && !e->dry) KL_TRY(queue_handle(&j));
    if (j.host_bytes && !e->dry && !(j.host = kl_malloc(j.host_bytes)))
        return kl_fail_nomem(e->err);
    /* Factorisations are rare, and each may load kernels for its size. */
    const bool begun = !e->dry && kl_driver_stall_begin();
    const int rc = run_all(&j);
    kl_driver_stall_end(begun);
    kl_free(j.host);
    return rc ? rc : 1;
}
