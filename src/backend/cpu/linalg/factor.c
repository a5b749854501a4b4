/* factor.c - FACTOR: a matrix F with F * transpose(F) = A, for each symmetric positive
 * semi-definite A of a batch, by Cholesky's method with the largest remaining diagonal element as
 * pivot. Remainders below the rounding error of float32 are taken as 0, so singular matrices have a
 * factor too. In double. */
#include <math.h>
#include <stddef.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/tile.h"
#include "base/alloc.h"

struct factor {
    int n;
    double *a, *l; /* n * n elements each; row i of l belongs to row order[i] of a */
    double *left;  /* the remaining diagonal elements, in the order of pivots */
    int *order;
};

static void swap_rows(struct factor *f, int i, int j) {
    int at = f->order[i];
    double x = f->left[i];
    f->order[i] = f->order[j];
    f->order[j] = at;
    f->left[i] = f->left[j];
    f->left[j] = x;
    for (int k = 0; k < i; k++) {
        x = f->l[(size_t)i * f->n + k];
        f->l[(size_t)i * f->n + k] = f->l[(size_t)j * f->n + k];
        f->l[(size_t)j * f->n + k] = x;
    }
}

/* Computes column j of the factor, below its diagonal element. */
static void column(struct factor *f, int j) {
    size_t n = (size_t)f->n;
    const double *row_j = f->l + (size_t)j * n;
    double pivot = sqrt(f->left[j]);
    f->l[(size_t)j * n + j] = pivot;
    for (int i = j + 1; i < f->n; i++) {
        double *row_i = f->l + (size_t)i * n, sum = 0;
        size_t p = (size_t)f->order[i], q = (size_t)f->order[j];
        for (int k = 0; k < j; k++) sum += row_i[k] * row_j[k];
        row_i[j] = ((f->a[p * n + q] + f->a[q * n + p]) / 2 - sum) / pivot;
        f->left[i] -= row_i[j] * row_i[j];
    }
}

static void factorize(struct factor *f) {
    double most = 0;
    for (size_t i = 0; i < (size_t)f->n * f->n; i++) f->l[i] = 0;
    for (int i = 0; i < f->n; i++) {
        f->order[i] = i;
        f->left[i] = f->a[(size_t)i * f->n + i];
        most = f->left[i] > most || isnan(f->left[i]) ? f->left[i] : most;
    }
    for (int j = 0; j < f->n; j++) {
        int best = j;
        for (int i = j + 1; i < f->n; i++)
            if (f->left[i] > f->left[best]) best = i;
        if (best != j) swap_rows(f, j, best);
        /* the comparison is false for NaN, which then spreads to the results */
        if (f->left[j] <= f->n * 0x1p-24 * most) break;
        column(f, j);
    }
}

int kl_cpu_factor(struct kl_launch *l) {
    int n = l->out->ndim ? l->out->dims[l->out->ndim - 1] : 0;
    size_t elements = (size_t)n * (size_t)n, bytes = kl_dtype_size(l->out->dtype);
    struct kl_cursor c;
    if (l->out->size == 0) return KL_OK;
    double *room = kl_malloc((2 * elements + 2 * (size_t)n) * sizeof *room);
    float *single = kl_malloc(elements * sizeof *single);
    if (!room || !single) {
        kl_free(room);
        kl_free(single);
        return kl_fail_nomem(l->err);
    }
    struct factor f = {n, room, room + elements, room + 2 * elements,
                       (int *)(room + 2 * elements + n)};
    kl_cursor_init_arg(&c, &l->in[0]);
    char *out = l->out->data;
    for (int64_t at = 0; at < l->out->size; at += (int64_t)elements, out += elements * bytes) {
        kl_cursor_read(&c, (int64_t)elements, single);
        for (size_t i = 0; i < elements; i++) f.a[i] = single[i];
        factorize(&f);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                ((float *)(void *)out)[(size_t)f.order[i] * n + k] = (float)f.l[(size_t)i * n + k];
    }
    kl_free(room);
    kl_free(single);
    return KL_OK;
}
