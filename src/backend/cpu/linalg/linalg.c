/* linalg.c - the operations on matrices of op_params.def: batches of them, one matrix on one
 * thread. Matrices are read from operands of any strides into contiguous memory, where matrix.h
 * works on them. A matrix that fails gives zeros, and the smallest one that does is the fault. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/linalg/interleaved.h"
#include "backend/cpu/linalg/matrix.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "base/op/op_params.h"

enum {
    CHUNK_WORK = 1 << 15, /* about the additions and products of one chunk */
    LARGE = 256,          /* the least rows and columns of a matrix that all threads share */
    FEW = 4,              /* the number of such matrices from which each has a thread */
};

struct job {
    struct kl_launch *l;
    struct kl_matrix_params how;
    enum kl_dtype dtype; /* of the matrices */
    int m, n, k, right;  /* k = min(m, n) */
    int lanes;           /* matrices that are computed at once; 1: none are */
    size_t item; /* bytes of an element of the matrices, and of a real one of its precision */
    size_t real;
    size_t work;                /* bytes that matrix.h needs */
    int64_t elements;           /* of a matrix */
    int64_t count;              /* elements of a result */
    int64_t begin, end, each;   /* the matrices to do, and how many a chunk does */
    kl_parallel_for *parallel;  /* NULL, or what one matrix after the other is computed with */
    _Atomic(int64_t) fault;     /* the smallest failing position */
    atomic_bool without_memory; /* a chunk has had no memory */
};

/* The memory of a chunk: `a` has room for one matrix, `more` for the parts that only some
 * operations need. */
struct room {
    struct kl_matrix x;
    char *a, *more;
};

static void set_real(const struct job *j, char *at, int64_t i, double x) {
    if (j->dtype == KL_F64)
        ((double *)(void *)at)[i] = x;
    else
        ((float *)(void *)at)[i] = (float)x;
}

/* n real numbers as complex64. */
static void widen(char *to, const char *from, int64_t n) {
    kl_convert(KL_C64, to, KL_F32, from, n);
}

/* n complex numbers of two doubles each as complex64. */
static void narrow(char *to, const char *from, int64_t n) {
    kl_convert(KL_F32, to, KL_F64, from, 2 * n);
}

/* `count` matrices, matrix i and those after it, of `elements` elements each. */
static void read_matrices(const struct job *j, int input, int64_t i, int64_t count,
                          int64_t elements, char *to) {
    struct kl_cursor c;
    kl_cursor_init_arg(&c, &j->l->in[input]);
    kl_cursor_seek(&c, i * elements);
    kl_cursor_read(&c, count * elements, to);
}

/* ---- the operations, each of one matrix; a matrix without elements never comes here ---- */

static void lu(const struct job *j, const struct room *r, char *out) {
    int *pivots = (int *)(void *)r->more, *place = pivots + j->k, *row = place + j->m;
    kl_matrix_lu(&r->x, out, pivots);
    for (int i = 0; i < j->m; i++) row[i] = i;
    for (int i = 0; i < j->k; i++) {
        const int other = row[pivots[i]];
        row[pivots[i]] = row[i];
        row[i] = other;
    }
    for (int i = 0; i < j->m; i++) place[row[i]] = i;
    for (int i = 0; i < j->k; i++) set_real(j, out, j->elements + i, pivots[i]);
    for (int i = 0; i < j->m; i++) set_real(j, out, j->elements + j->k + i, place[i]);
}

static enum kl_matrix_info svd(const struct job *j, const struct room *r, char *out) {
    const size_t m = (size_t)j->m, k = (size_t)j->k;
    if (!j->how.vectors) return kl_matrix_svd(&r->x, r->a, NULL, out, NULL);
    char *s = out + m * m * j->item, *vt = s + k * j->item;
    if (j->dtype != KL_C64) return kl_matrix_svd(&r->x, r->a, out, s, vt);
    const enum kl_matrix_info info = kl_matrix_svd(&r->x, r->a, out, r->more, vt);
    widen(s, r->more, (int64_t)k);
    return info;
}

static enum kl_matrix_info eigh(const struct job *j, const struct room *r, char *out) {
    const size_t n = (size_t)j->n;
    const bool upper = j->how.upper;
    if (!j->how.vectors) return kl_matrix_eigh(&r->x, upper, false, r->a, out);
    char *v = out + n * j->item, *w = j->dtype == KL_C64 ? r->more : out;
    memcpy(v, r->a, n * n * j->item);
    const enum kl_matrix_info info = kl_matrix_eigh(&r->x, upper, true, v, w);
    if (j->dtype == KL_C64) widen(out, w, (int64_t)n);
    return info;
}

static enum kl_matrix_info eig(const struct job *j, const struct room *r, char *out) {
    const size_t n = (size_t)j->n;
    const bool wide = j->dtype == KL_F64;
    const size_t item = wide ? 2 * sizeof(double) : 2 * sizeof(float);
    char *w = wide ? r->more : out, *v = j->how.vectors ? w + n * item : NULL;
    const enum kl_matrix_info info = kl_matrix_eig(&r->x, r->a, w, v);
    if (wide) narrow(out, w, (int64_t)(v ? n + n * n : n));
    return info;
}

/* The pseudoinverse of a = u s vt is vt' s^-1 u', without the singular values that are at most 10
 * eps max(m, n) times the largest one. */
#define PINV(T, eps)                                                                           \
    static void invert_##T(const struct job *j, const T *u, const T *s, const T *vt, T *out) { \
        const size_t m = (size_t)j->m, n = (size_t)j->n;                                       \
        const T least = 10 * (T)(m > n ? m : n) * (eps)*s[0];                                  \
        memset(out, 0, m *n * sizeof *out);                                                    \
        for (size_t q = 0; q < (size_t)j->k && s[q] > least; q++)                              \
            for (size_t i = 0; i < n; i++) {                                                   \
                const T x = vt[q * n + i] / s[q];                                              \
                for (size_t h = 0; h < m; h++) out[i * m + h] += x * u[h * m + q];             \
            }                                                                                  \
    }
/* defines invert_float */
PINV(float, 0x1p-23f)
/* defines invert_double */
PINV(double, 0x1p-52)

static enum kl_matrix_info pinv(const struct job *j, const struct room *r, char *out) {
    const size_t m = (size_t)j->m, k = (size_t)j->k;
    char *u = r->more, *s = u + m * m * j->item, *vt = s + k * j->item;
    const enum kl_matrix_info info = kl_matrix_svd(&r->x, r->a, u, s, vt);
    if (info) return info;
    if (j->dtype == KL_F64)
        invert_double(j, (void *)u, (void *)s, (void *)vt, (void *)out);
    else
        invert_float(j, (void *)u, (void *)s, (void *)vt, (void *)out);
    return info;
}

static enum kl_matrix_info run_one(const struct job *j, const struct room *r, int64_t i,
                                   char *out) {
    const size_t m = (size_t)j->m, k = (size_t)j->k;
    const enum kl_op_id op = j->l->op;
    const bool in_place = op == KL_OP_CHOLESKY || op == KL_OP_INV || op == KL_OP_LU;
    read_matrices(j, 0, i, 1, j->elements, in_place ? out : r->a);
    if (j->l->n_in == 2) read_matrices(j, 1, i, 1, j->count, out);
    switch (op) {
    case KL_OP_CHOLESKY: return kl_matrix_cholesky(&r->x, j->how.upper, out);
    case KL_OP_INV: return kl_matrix_inv(&r->x, out);
    case KL_OP_SOLVE: return kl_matrix_solve(&r->x, r->a, j->right, out);
    case KL_OP_SOLVE_TRIANGULAR:
        return kl_matrix_solve_triangular(&r->x, j->how.upper, r->a, j->right, out);
    case KL_OP_LU: lu(j, r, out); break;
    case KL_OP_QR: kl_matrix_qr(&r->x, r->a, out, out + m * k * j->item); break;
    case KL_OP_SVD: return svd(j, r, out);
    case KL_OP_EIGH: return eigh(j, r, out);
    case KL_OP_EIG: return eig(j, r, out);
    default: return pinv(j, r, out);
    }
    return KL_MATRIX_DONE;
}

#define BY_DTYPE(name, ...) (j->dtype == KL_F64 ? name##_f64(__VA_ARGS__) : name##_f32(__VA_ARGS__))

/* How many small matrices are computed at once, each as run_one computes it. */
static int lanes_of(const struct job *j, int64_t batch) {
    const enum kl_op_id op = j->l->op;
    const bool can = op == KL_OP_CHOLESKY || op == KL_OP_INV || op == KL_OP_SOLVE ||
                     op == KL_OP_SOLVE_TRIANGULAR;
    const int lanes = BY_DTYPE(kl_interleaved);
    const bool small = j->n <= KL_INTERLEAVED_ROWS && j->right <= KL_INTERLEAVED_RIGHT;
    return can && small && j->elements && batch >= lanes ? lanes : 1;
}

/* Matrices i to i + lanes - 1; returns the bits of those that fail. */
static unsigned run_lanes(const struct job *j, const struct room *r, int64_t i, char *out) {
    const enum kl_op_id op = j->l->op;
    const bool two = j->l->n_in == 2, turned = op == KL_OP_CHOLESKY && !j->how.upper;
    const int n = j->n, lanes = j->lanes;
    char *x = r->x.work, *b = x + (size_t)(n * n * lanes) * j->item;
    unsigned bad = 0;
    read_matrices(j, 0, i, lanes, j->elements, two ? r->a : out);
    BY_DTYPE(kl_interleave, turned, n, n, (void *)(two ? r->a : out), (void *)x);
    if (two) read_matrices(j, 1, i, lanes, j->count, out);
    if (two) BY_DTYPE(kl_interleave, false, n, j->right, (void *)out, (void *)b);
    switch (op) {
    case KL_OP_CHOLESKY:
        bad = BY_DTYPE(kl_interleaved_cholesky, n, (void *)x);
        BY_DTYPE(kl_separate, turned, n, n, (void *)x, (void *)out);
        return bad;
    case KL_OP_INV:
        memset(b, 0, (size_t)(n * n * lanes) * j->item);
        for (int e = 0; e < n * lanes; e++)
            set_real(j, b, e / lanes * (n + 1) * lanes + e % lanes, 1);
        bad = BY_DTYPE(kl_interleaved_solve, n, n, (void *)x);
        break;
    case KL_OP_SOLVE: bad = BY_DTYPE(kl_interleaved_solve, n, j->right, (void *)x); break;
    default: bad = BY_DTYPE(kl_interleaved_triangular, j->how.upper, n, j->right, (void *)x); break;
    }
    BY_DTYPE(kl_separate, false, n, two ? j->right : n, (void *)b, (void *)out);
    return bad;
}

/* The result for a matrix with no rows or no columns: factors are identities, and rows keep their
 * places. */
static void run_empty(const struct job *j, char *out) {
    const size_t item = kl_dtype_size((enum kl_dtype)j->l->out->dtype);
    static const float one[2] = {1, 0};
    if (j->l->op == KL_OP_LU)
        for (int i = 0; i < j->m; i++) set_real(j, out, j->k + i, i);
    if (j->l->op != KL_OP_SVD || !j->how.vectors) return;
    const size_t n = (size_t)(j->m > j->n ? j->m : j->n);
    for (size_t i = 0; i < n; i++)
        kl_convert((enum kl_dtype)j->l->out->dtype, out + i * (n + 1) * item, KL_C64, one, 1);
}

/* ---- batches ---- */

static void note_fault(struct job *j, int64_t position) {
    int64_t smallest = atomic_load_explicit(&j->fault, memory_order_relaxed);
    while (position < smallest &&
           !atomic_compare_exchange_weak_explicit(&j->fault, &smallest, position,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static size_t line(size_t bytes) {
    return (bytes + KL_LINE - 1) / KL_LINE * KL_LINE;
}

/* Bytes of room.more. */
static size_t more_bytes(const struct job *j) {
    const size_t m = (size_t)j->m, n = (size_t)j->n, k = (size_t)j->k;
    switch (j->l->op) {
    case KL_OP_LU: return (k + 2 * m) * sizeof(int);
    case KL_OP_SVD:
    case KL_OP_EIGH: return k * j->real;
    case KL_OP_EIG: return (n + n * n) * 2 * j->real;
    case KL_OP_PINV: return (m * m + k + n * n) * j->item;
    default: return 0;
    }
}

/* Bytes of workspace, for one matrix and for several at once. */
static size_t work_bytes(const struct job *j) {
    const size_t n = (size_t)j->n, columns = n + (j->l->n_in == 2 ? (size_t)j->right : n),
                 together = n * columns * (size_t)j->lanes * j->item;
    return line(j->lanes > 1 && together > j->work ? together : j->work);
}

static void fail(struct job *j, int64_t i, enum kl_matrix_info info, char *out, size_t bytes) {
    memset(out, 0, bytes);
    note_fault(j, KL_MATRIX_POSITIONS * i +
                      (info == KL_MATRIX_NOT_FINITE ? KL_MATRIX_HAS_NAN : KL_MATRIX_BAD));
}

static void chunk(void *arg, int64_t c) {
    struct job *j = arg;
    const int64_t first = j->begin + c * j->each, last = kl_min64(j->end, first + j->each);
    const size_t bytes = (size_t)j->count * kl_dtype_size((enum kl_dtype)j->l->out->dtype);
    const size_t of_a = line((size_t)(j->elements * j->lanes) * j->item), of_work = work_bytes(j);
    char *out = (char *)j->l->out->data + (size_t)first * bytes;
    struct kl_scratch scratch;
    if (!kl_scratch_take(&scratch, j->l, of_a + of_work + more_bytes(j))) {
        atomic_store_explicit(&j->without_memory, true, memory_order_relaxed);
        return;
    }
    struct room r = {{j->dtype, j->m, j->n, scratch.ptr + of_a, j->parallel},
                     scratch.ptr,
                     scratch.ptr + of_a + of_work};
    int64_t i = first;
    for (; j->lanes > 1 && i + j->lanes <= last; i += j->lanes, out += bytes * (size_t)j->lanes) {
        const unsigned bad = run_lanes(j, &r, i, out);
        for (int lane = 0; bad >> lane; lane++)
            if (bad >> lane & 1)
                fail(j, i + lane, KL_MATRIX_FAILS, out + bytes * (size_t)lane, bytes);
    }
    for (; i < last; i++, out += bytes) {
        enum kl_matrix_info info = KL_MATRIX_DONE;
        memset(out, 0, bytes);
        if (j->elements == 0)
            run_empty(j, out);
        else
            info = run_one(j, &r, i, out);
        if (info) fail(j, i, info, out, bytes);
    }
    kl_scratch_give(&scratch);
}

/* PINV is made of SVD. */
static enum kl_op_id made_of(enum kl_op_id op) {
    return op == KL_OP_PINV ? KL_OP_SVD : op;
}

int kl_cpu_takes_matrices(enum kl_op_id op, const struct kl_arg *a, struct kl_error **err) {
    const int m = a->dims[a->ndim - 2], n = a->dims[a->ndim - 1];
    if (a->size == 0 || kl_matrix_can(made_of(op), (enum kl_dtype)a->dtype, m, n)) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED, "%s: needs LAPACK (OpenBLAS), which was not found",
                   kl_op_name(op));
}

int kl_cpu_matrix(struct kl_launch *l) {
    const struct kl_arg *a = &l->in[0];
    const int m = a->dims[a->ndim - 2], n = a->dims[a->ndim - 1];
    const enum kl_op_id op = made_of(l->op);
    const enum kl_dtype dtype = (enum kl_dtype)a->dtype;
    struct job j = {.l = l,
                    .dtype = dtype,
                    .m = m,
                    .n = n,
                    .k = m < n ? m : n,
                    .right = l->n_in == 2 ? l->in[1].dims[l->in[1].ndim - 1] : 0,
                    .item = kl_dtype_size(dtype),
                    .real = dtype == KL_F64 ? sizeof(double) : sizeof(float),
                    .elements = (int64_t)m * n,
                    .fault = KL_NO_FAULT};
    int64_t batch = 1;
    if (l->out->size == 0) return KL_OK;
    if (op == KL_OP_CHOLESKY || op == KL_OP_SOLVE_TRIANGULAR || op == KL_OP_EIGH ||
        op == KL_OP_EIG || l->op == KL_OP_SVD)
        j.how = *(const struct kl_matrix_params *)l->params;
    for (int i = 0; i < a->ndim - 2; i++) batch *= a->dims[i];
    j.count = l->out->size / batch;
    j.begin = kl_ceil_div(l->pos_begin, KL_MATRIX_POSITIONS);
    j.end = kl_min64(batch, l->pos_end == INT64_MAX ? batch
                                                    : kl_ceil_div(l->pos_end, KL_MATRIX_POSITIONS));
    if (j.begin >= j.end) return KL_OK;
    KL_TRY(kl_cpu_takes_matrices(l->op, a, l->err));
    /* A few large matrices: all threads on each of them. */
    if (j.k >= LARGE && j.end - j.begin < FEW) j.parallel = l->parallel;
    j.work = j.elements ? kl_matrix_work(op, dtype, m, n, j.right, j.parallel) : 0;
    const int64_t one = kl_min64(j.elements, CHUNK_WORK) * (j.k + j.right) + 1;
    j.lanes = lanes_of(&j, j.end - j.begin);
    j.each = kl_ceil_div(kl_ceil_div(CHUNK_WORK, one), j.lanes) * j.lanes;
    if (j.parallel)
        for (int64_t i = 0; i < kl_ceil_div(j.end - j.begin, j.each); i++) chunk(&j, i);
    else
        kl_run_tasks(l, kl_ceil_div(j.end - j.begin, j.each), chunk, &j);
    if (atomic_load(&j.without_memory)) return kl_fail_nomem(l->err);
    l->fault = atomic_load(&j.fault);
    return KL_OK;
}
