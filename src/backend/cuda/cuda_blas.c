/* cuda_blas.c - MATMUL by cuBLASLt where that is installed. The kernels of the dialect
 * (lower/product.c) do the products that cuBLASLt is not asked for or refuses.
 *
 * cuBLASLt expects column-major matrices. A row-major matrix read so is its transpose; therefore
 * D^T = B^T A^T is computed, and cuBLASLt's A is the second operand. Each problem's algorithm is
 * chosen once per device, from shapes and alignment alone; none that adds partial sums in the
 * output is allowed, so every run gives the same bits. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/lower/axes.h"
#include "base/alloc.h"
#include "base/number/dtype.h"

enum {
    /* Multiplications; below this number the launch is most of the time. */
    LEAST_WORK = 64 * 64 * 64,
    WORKSPACE_MOST = 32 << 20, /* bytes; devices of the Hopper kind need that */
    /* Bytes; the alignment of a vector load and of the tensor memory engine. */
    ALIGNMENT_MOST = 16,
    MOST_PROBLEMS = 4096, /* most problems that are remembered */
};

/* An operand as cuBLASLt sees it, column-major. */
struct operand {
    int64_t ld, batch_stride; /* elements */
    int32_t op; /* KL_BLAS_OP_T: the stored matrix is the transpose of the wanted one */
    int32_t alignment;
};

/* Everything that the choice of an algorithm may depend on. Compared as bytes, so it has no
 * padding. */
struct key {
    int64_t rows, cols, depth, batches; /* of D^T: rows is n of the command, cols is m */
    struct operand a, b, d;
    int64_t dtype;
};

/* A remembered problem. Immutable except for `refused`. */
struct kl_cuda_problem {
    struct kl_cuda_problem *next; /* next in its bucket; guarded by the lock */
    struct key key;
    bool remembered;
    _Atomic(bool) refused; /* cuBLASLt cannot do this problem */
    _Atomic(bool) ran;
    void *desc, *a, *b, *d;
    struct kl_blas_algo algo;
    size_t workspace_bytes;
};

/* ---- types ---- */

static const struct kind {
    int type, scale_type, compute;
} kinds[KL_N_DTYPES] = {
    [KL_F16] = {KL_BLAS_R_F16, KL_BLAS_R_F32, KL_BLAS_COMPUTE_F32},
    [KL_BF16] = {KL_BLAS_R_BF16, KL_BLAS_R_F32, KL_BLAS_COMPUTE_F32},
    [KL_F32] = {KL_BLAS_R_F32, KL_BLAS_R_F32, KL_BLAS_COMPUTE_F32},
    [KL_F64] = {KL_BLAS_R_F64, KL_BLAS_R_F64, KL_BLAS_COMPUTE_F64},
    /* PEDANTIC, because otherwise three real products may replace four, with other rounding errors
     * than those of our kernels. */
    [KL_C64] = {KL_BLAS_C_F32, KL_BLAS_C_F32, KL_BLAS_COMPUTE_F32_PEDANTIC},
};

static const char *status_name(int status) {
    switch (status) {
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case KL_BLAS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    default: return "status";
    }
}

/* ---- from a command to a problem ---- */

static int32_t alignment(const void *p) {
    uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
    return low == 0 || low > ALIGNMENT_MOST ? ALIGNMENT_MOST : (int32_t)low;
}

/* Describes a matrix of rows x cols with the given strides between rows and columns. Row-major
 * storage is the transpose to cuBLASLt, which is the wanted one. false: the layout does not fit. */
static bool fits_layout(struct operand *o, int64_t rows, int64_t cols, int64_t row, int64_t col) {
    bool by_rows = (cols == 1 || col == 1) && (rows == 1 || row >= cols);
    bool by_cols = (rows == 1 || row == 1) && (cols == 1 || col >= rows);
    o->op = by_rows ? KL_BLAS_OP_N : KL_BLAS_OP_T;
    o->ld = by_rows ? (rows == 1 ? cols : row) : (cols == 1 ? rows : col);
    return (by_rows || by_cols) && o->ld <= INT32_MAX;
}

/* Whether c is a product for cuBLASLt, and its key. */
static bool describe(struct key *key, const struct kl_command *c) {
    const struct kl_arg *a = &c->args[0], *b = &c->args[1], *out = &c->args[2];
    int row = out->ndim - 2, col = out->ndim - 1;
    int64_t m = out->dims[row], n = out->dims[col], k = a->dims[col], a_row = a->strides[row];
    memset(key, 0, sizeof *key);
    if (!kinds[out->dtype].compute || out->size == 0 || k == 0) return false;
    struct kl_axes batches = KL_NO_AXES;
    for (int i = 0; i < row; i++) kl_axes_add(&batches, out->dims[i], a->strides[i], b->strides[i]);
    if (batches.ndim > 1) return false;
    int64_t n_batches = batches.n, a_batch = 0, b_batch = 0;
    if (batches.ndim) {
        a_batch = batches.strides[0][0];
        b_batch = batches.strides[1][0];
    }
    if (a_batch < 0 || b_batch < 0) return false;
    /* Many matrices times one matrix are one tall matrix times that matrix, if the many follow each
     * other in memory. */
    if (n_batches > 1 && b_batch == 0 && m * n_batches <= INT32_MAX &&
        (m == 1 || a_batch == m * a_row)) {
        if (m == 1) a_row = a_batch;
        m *= n_batches;
        n_batches = 1;
        a_batch = 0;
    }
    /* Products with a vector are limited by the speed of memory, which our own kernels reach too,
     * except for loads of 16 bits one by one. */
    if ((double)m * (double)n * (double)k * (double)n_batches < LEAST_WORK ||
        ((m == 1 || n == 1) && (kl_dtype_size(out->dtype) > 2 || kl_matmul_by_rows(c))) ||
        n_batches > INT32_MAX)
        return false;
    *key = (struct key){.rows = n,
                        .cols = m,
                        .depth = k,
                        .batches = n_batches,
                        .a = {.batch_stride = b_batch, .alignment = alignment(b->data)},
                        .b = {.batch_stride = a_batch, .alignment = alignment(a->data)},
                        .d = {.ld = n,
                              .batch_stride = n_batches > 1 ? m * n : 0,
                              .alignment = alignment(out->data)},
                        .dtype = out->dtype};
    return fits_layout(&key->a, k, n, b->strides[row], b->strides[col]) &&
           fits_layout(&key->b, m, k, a_row, a->strides[col]);
}
_Static_assert(sizeof(struct operand) == 24 && sizeof(struct key) == 112, "keys have no padding");

/* ---- the descriptors that cuBLASLt needs for a problem ---- */

static void problem_free(const struct kl_blas_api *api, struct kl_cuda_problem *p) {
    if (p->desc) api->DescDestroy(p->desc);
    if (p->a) api->LayoutDestroy(p->a);
    if (p->b) api->LayoutDestroy(p->b);
    if (p->d) api->LayoutDestroy(p->d);
    kl_free(p);
}

/* Makes the layout of x; the matrix op(x) is rows x cols. */
static int layout(const struct kl_blas_api *api, void **out, const struct operand *x,
                  const struct key *key, int64_t rows, int64_t cols) {
    bool transposed = x->op == KL_BLAS_OP_T;
    int32_t batches = (int32_t)key->batches;
    int rc = api->LayoutCreate(out, kinds[key->dtype].type, (uint64_t)(transposed ? cols : rows),
                               (uint64_t)(transposed ? rows : cols), x->ld);
    if (rc || batches == 1) return rc;
    if ((rc = api->LayoutSet(*out, KL_BLAS_LAYOUT_BATCHES, &batches, sizeof batches))) return rc;
    return api->LayoutSet(*out, KL_BLAS_LAYOUT_BATCH_STRIDE, &x->batch_stride,
                          sizeof x->batch_stride);
}

static int choose(const struct kl_blas_api *api, void *handle, struct kl_cuda_problem *p,
                  void *pref) {
    const struct key *key = &p->key;
    uint64_t workspace = WORKSPACE_MOST;
    uint32_t reductions = KL_BLAS_REDUCTION_COMPUTE_TYPE;
    const int32_t alignments[] = {key->a.alignment, key->b.alignment, key->d.alignment,
                                  key->d.alignment};
    struct kl_blas_choice choice;
    int n = 0, rc = api->PrefSet(pref, KL_BLAS_PREF_WORKSPACE, &workspace, sizeof workspace);
    if (!rc) rc = api->PrefSet(pref, KL_BLAS_PREF_REDUCTIONS, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && !rc; i++)
        rc = api->PrefSet(pref, KL_BLAS_PREF_ALIGNMENT_A + i, &alignments[i], sizeof *alignments);
    if (!rc) rc = api->Heuristic(handle, p->desc, p->a, p->b, p->d, p->d, pref, 1, &choice, &n);
    if (rc || n < 1 || choice.state) return rc ? rc : KL_BLAS_NOT_SUPPORTED;
    p->algo = choice.algo;
    p->workspace_bytes = choice.workspace_bytes;
    return 0;
}

static int fill(const struct kl_blas_api *api, void *handle, struct kl_cuda_problem *p) {
    const struct key *key = &p->key;
    void *pref = NULL;
    int rc = api->DescCreate(&p->desc, kinds[key->dtype].compute, kinds[key->dtype].scale_type);
    if (!rc) rc = api->DescSet(p->desc, KL_BLAS_DESC_TRANS_A, &key->a.op, sizeof key->a.op);
    if (!rc) rc = api->DescSet(p->desc, KL_BLAS_DESC_TRANS_B, &key->b.op, sizeof key->b.op);
    if (!rc) rc = layout(api, &p->a, &key->a, key, key->rows, key->depth);
    if (!rc) rc = layout(api, &p->b, &key->b, key, key->depth, key->cols);
    if (!rc) rc = layout(api, &p->d, &key->d, key, key->rows, key->cols);
    if (!rc) rc = api->PrefCreate(&pref);
    if (!rc) rc = choose(api, handle, p, pref);
    if (pref) api->PrefDestroy(pref);
    return rc;
}

/* ---- remembered problems; the lock is held ---- */

static void *handle_of(struct kl_cuda_products *b, const struct kl_blas_api *api) {
    if (b->handle || b->failed) return b->handle;
    const bool begun = kl_driver_stall_begin();
    b->failed = api->Create(&b->handle) != 0;
    kl_driver_stall_end(begun);
    if (b->failed) b->handle = NULL;
    return b->handle;
}

static struct kl_cuda_problem **bucket_of(struct kl_cuda_products *b, const struct key *key) {
    const unsigned char *s = (const unsigned char *)key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *key; i++) h = (h ^ s[i]) * 1099511628211u;
    return &b->bucket[(h ^ h >> 32) % KL_BLAS_BUCKETS];
}

/* Finds or makes a problem. A problem that cuBLASLt cannot do is remembered as refused.
 * KL_ENOMEM. */
static int find_or_make(struct kl_cuda_products *b, const struct kl_blas_api *api,
                        const struct key *key, struct kl_cuda_problem **out,
                        struct kl_error **err) {
    struct kl_cuda_problem **bucket = bucket_of(b, key), *p = *bucket;
    while (p && memcmp(&p->key, key, sizeof *key) != 0) p = p->next;
    if ((*out = p)) return KL_OK;
    if (!(p = kl_calloc(1, sizeof *p))) return kl_fail_nomem(err);
    p->key = *key;
    const bool begun = kl_driver_stall_begin();
    int status = fill(api, b->handle, p);
    kl_driver_stall_end(begun);
    if (status == KL_BLAS_ALLOC_FAILED) {
        problem_free(api, p);
        return kl_fail_nomem(err);
    }
    atomic_store(&p->refused, status != 0);
    if ((p->remembered = b->n_problems < MOST_PROBLEMS)) {
        p->next = *bucket;
        *bucket = p;
        b->n_problems++;
    }
    *out = p;
    return KL_OK;
}

/* ---- running ---- */

static const union {
    float f32[2]; /* for complex numbers too */
    double f64;
} one_f32 = {.f32 = {1, 0}}, one_f64 = {.f64 = 1}, zero = {.f32 = {0, 0}};

/* Returns 1, or 0 when cuBLASLt refuses; then nothing is in the queue. */
static int run(struct kl_emit *e, const struct kl_blas_api *api, struct kl_cuda_problem *p,
               const struct kl_command *c) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    struct kl_cuda_queue *q = e->queue;
    const void *one = p->key.dtype == KL_F64 ? (const void *)&one_f64 : &one_f32;
    void *out = c->args[2].data, *workspace = NULL;
    const size_t used = e->used;
    KL_TRY(kl_emit_workspace(e, p->workspace_bytes, &workspace));
    KL_TRY(kl_cuda_chain_flush(d, q, e->err));
    const bool begun = kl_cuda_first_call(&p->ran);
    int status = api->Matmul(d->blas.handle, p->desc, one, c->args[1].data, p->a, c->args[0].data,
                             p->b, &zero, out, p->d, out, p->d, &p->algo, workspace,
                             p->workspace_bytes, q->stream);
    kl_driver_stall_end(begun);
    switch (status) {
    case 0: return 1;
    case KL_BLAS_INVALID_VALUE:
    case KL_BLAS_ARCH_MISMATCH:
    case KL_BLAS_NOT_SUPPORTED:
        atomic_store(&p->refused, true);
        e->used = used;
        return 0;
    default:
        return kl_fail(e->err, status == KL_BLAS_ALLOC_FAILED ? KL_ENOMEM : KL_ESUBMIT,
                       "device '%s': cublasLtMatmul failed with %s (%d)", d->name,
                       status_name(status), status);
    }
}

/* Asks for the workspace of the product, which is also that of our own kernel: that one takes its
 * place where cuBLASLt refuses at the launch. */
static int ask(struct kl_emit *e, const struct kl_cuda_problem *p, const struct kl_command *c) {
    struct kl_emit own = *e;
    void *none;
    own.sizes_only = true;
    KL_TRY(kl_lower_matmul(&own, c));
    KL_TRY(kl_emit_workspace(e, p->workspace_bytes, &none));
    if (e->used < own.used) e->used = own.used;
    return 1;
}

int kl_cuda_blas(struct kl_emit *e, const struct kl_command *c) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    struct key key;
    if (c->op != KL_OP_MATMUL || !describe(&key, c)) return 0;
    const struct kl_blas_api *api = kl_blas_api(NULL);
    if (!api) return 0;
    struct kl_cuda_problem *p = NULL;
    KL_TRY(kl_cuda_enter(d, e->err));
    kl_mutex_lock(&d->blas.mu);
    int rc = handle_of(&d->blas, api) ? find_or_make(&d->blas, api, &key, &p, e->err) : KL_OK;
    kl_mutex_unlock(&d->blas.mu);
    if (rc || !p) return rc;
    rc = !atomic_load(&p->refused);
    if (rc) rc = e->dry ? ask(e, p, c) : run(e, api, p, c);
    if (!p->remembered) problem_free(api, p);
    return rc;
}
