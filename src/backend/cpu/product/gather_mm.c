/* gather_mm.c - GATHER_MM: in = {a (s, m, k), b (t, k, n), left (p), right (p)}; element i of the
 * output (p, m, n) is a[left[i]] b[right[i]]. SEGMENTED_MM: in = {a (m, k), b (k, n), segments (s,
 * 2)}; element i of the output (s, m, n) is the product over the indices k from segments[i][0] on,
 * before segments[i][1]. Indices have 32 bits and were checked by an operation before; here they
 * are only kept inside. Products with the same matrix of b are one product of more rows, so that
 * the matrix is read once, in any order of the indices. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"

enum { MOST_ROWS = 512 }; /* rows of one product */

/* A product of matrices, by the kernel of MATMUL. */
struct matrix {
    const struct kl_arg *arg; /* the operand of which it is a part */
    int64_t offset;           /* in elements */
    int rows, cols;
    int64_t row, col; /* strides */
};
static struct kl_arg part_of(const struct matrix *m, int *dims, int64_t *strides) {
    struct kl_arg a = *m->arg;
    dims[0] = m->rows;
    dims[1] = m->cols;
    strides[0] = m->row;
    strides[1] = m->col;
    a.data = (char *)a.data + m->offset * (int64_t)kl_dtype_size(a.dtype);
    a.layout = 0;
    a.ndim = 2;
    a.size = (int64_t)m->rows * m->cols;
    a.dims = dims;
    a.strides = strides;
    return a;
}
static int multiply(const struct kl_launch *l, const struct matrix *a, const struct matrix *b,
                    const struct matrix *c) {
    int dims[3][2];
    int64_t strides[3][2];
    const struct kl_arg in[2] = {part_of(a, dims[0], strides[0]), part_of(b, dims[1], strides[1])},
                        out = part_of(c, dims[2], strides[2]);
    struct kl_launch product = *l;
    product.op = KL_OP_MATMUL;
    product.params = NULL;
    product.n_in = 2;
    product.in = in;
    product.out = &out;
    return kl_cpu_matmul(&product);
}

static int64_t index_at(const struct kl_arg *indices, int64_t i, int64_t extent) {
    const int64_t x = ((const int32_t *)indices->data)[i * indices->strides[0]];
    return x < 0 || x >= extent ? 0 : x;
}

/* ---- GATHER_MM ---- */
struct pair {
    int64_t right, at;
};
static int by_right(const void *x, const void *y) {
    const struct pair *a = x, *b = y;
    if (a->right != b->right) return a->right < b->right ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The products at n places, which have the same matrix of b. Rows of a and of the result go through
 * scratch memory, unless there is one place only. */
static int multiply_group(struct kl_launch *l, const struct pair *places, int64_t n, char *room) {
    const struct kl_arg *a = &l->in[0], *b = &l->in[1], *out = l->out;
    const int m = a->dims[1], k = a->dims[2], cols = b->dims[2],
              item = (int)kl_dtype_size(a->dtype);
    const int64_t *as = a->strides, *bs = b->strides, whole = (int64_t)m * cols;
    const struct matrix right = {b, places->right * bs[0], k, cols, bs[1], bs[2]};
    if (n == 1) {
        const int64_t left = index_at(&l->in[2], places->at, a->dims[0]);
        const struct matrix x = {a, left * as[0], m, k, as[1], as[2]},
                            y = {out, places->at * whole, m, cols, cols, 1};
        return multiply(l, &x, &right, &y);
    }
    char *rows = room, *made = room + kl_round_up(n * m * k * item, 64);
    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < m; r++) {
            const int64_t left = index_at(&l->in[2], places[i].at, a->dims[0]);
            kl_copy_run(item, k, rows + (i * m + r) * k * item, item,
                        (const char *)a->data + (left * as[0] + r * as[1]) * item, as[2] * item);
        }
    struct kl_arg x_arg = *a, y_arg = *out;
    x_arg.data = rows;
    y_arg.data = made;
    const struct matrix x = {&x_arg, 0, (int)n * m, k, k, 1},
                        y = {&y_arg, 0, (int)n * m, cols, cols, 1};
    KL_TRY(multiply(l, &x, &right, &y));
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out->data + places[i].at * whole * item, made + i * whole * item,
               (size_t)(whole * item));
    return KL_OK;
}

int kl_cpu_gather_mm(struct kl_launch *l) {
    const struct kl_arg *a = &l->in[0], *b = &l->in[1], *out = l->out;
    const int64_t n = out->dims[0], m = a->dims[1], item = (int64_t)kl_dtype_size(a->dtype);
    const int64_t most = m < MOST_ROWS ? MOST_ROWS / (m ? m : 1) : 1;
    struct kl_scratch room;
    if (out->size == 0) return KL_OK;
    const int64_t together = kl_min64(most, n);
    const size_t pairs = (size_t)kl_round_up(n * (int64_t)sizeof(struct pair), 64);
    size_t bytes = pairs;
    if (together > 1)
        bytes += (size_t)(kl_round_up(together * m * a->dims[2] * item, 64) +
                          together * m * b->dims[2] * item);
    if (!kl_scratch_take(&room, l, bytes)) return kl_fail_nomem(l->err);
    struct pair *places = (struct pair *)(void *)room.ptr;
    bool in_order = true;
    for (int64_t i = 0; i < n; i++) {
        places[i] = (struct pair){index_at(&l->in[3], i, b->dims[0]), i};
        in_order = in_order && (i == 0 || places[i - 1].right <= places[i].right);
    }
    if (!in_order) qsort(places, (size_t)n, sizeof *places, by_right);
    int rc = KL_OK;
    for (int64_t i = 0, some; !rc && i < n; i += some) {
        for (some = 1; some < most && i + some < n; some++)
            if (places[i + some].right != places[i].right) break;
        rc = multiply_group(l, places + i, some, room.ptr + pairs);
    }
    kl_scratch_give(&room);
    return rc;
}

/* ---- SEGMENTED_MM ---- */
int kl_cpu_segmented_mm(struct kl_launch *l) {
    const struct kl_arg *a = &l->in[0], *b = &l->in[1], *segments = &l->in[2], *out = l->out;
    const int64_t whole = (int64_t)a->dims[0] * b->dims[1], k = a->dims[1];
    if (out->size == 0) return KL_OK;
    for (int64_t i = 0; i < out->dims[0]; i++) {
        struct kl_arg row = *segments;
        row.data = (int32_t *)segments->data + i * segments->strides[0];
        row.strides = segments->strides + 1;
        const int64_t from = index_at(&row, 0, k + 1), to = index_at(&row, 1, k + 1);
        const int depth = to > from ? (int)(to - from) : 0;
        const struct matrix x = {a,
                                 depth ? from * a->strides[1] : 0,
                                 a->dims[0],
                                 depth,
                                 a->strides[0],
                                 a->strides[1]},
                            y = {b,
                                 depth ? from * b->strides[0] : 0,
                                 depth,
                                 b->dims[1],
                                 b->strides[0],
                                 b->strides[1]},
                            z = {out, i * whole, a->dims[0], b->dims[1], b->dims[1], 1};
        KL_TRY(multiply(l, &x, &y, &z));
    }
    return KL_OK;
}
