/* linalg_support.h - matrices of float32, float64 and complex64 for the tests of matrix.h, and its
 * workspace, which is followed by bytes that no function may write. */
#pragma once
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/linalg/matrix.h"
#include "support.h"
#include "ulp.h"

static inline void *test_alloc(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    return p;
}

static inline double *doubles(int n) {
    double *p = test_alloc((size_t)n * sizeof *p);
    memset(p, 0, (size_t)n * sizeof *p);
    return p;
}

/* From -1 to 1. */
static inline double draw(void) {
    static uint64_t seed = 12345;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)seed * 0x1p-63;
}

/* Real numbers of a dtype; of complex64, pairs of them. */
struct numbers {
    enum kl_dtype dtype;
    int n;
    void *at;
};

static inline struct numbers numbers_of(enum kl_dtype dtype, int n) {
    size_t bytes = (size_t)n * (dtype == KL_F64 ? 8 : 4);
    struct numbers a = {dtype, n, test_alloc(bytes)};
    memset(a.at, 0, bytes);
    return a;
}

static inline double numbers_get(const struct numbers *a, int i) {
    return a->dtype == KL_F64 ? ((double *)a->at)[i] : ((float *)a->at)[i];
}

static inline void numbers_set(struct numbers *a, int i, double x) {
    if (a->dtype == KL_F64)
        ((double *)a->at)[i] = x;
    else
        ((float *)a->at)[i] = (float)x;
}

static inline void numbers_assign(struct numbers *to, const struct numbers *from) {
    memcpy(to->at, from->at, (size_t)from->n * (from->dtype == KL_F64 ? 8 : 4));
}

static inline struct numbers numbers_copy(const struct numbers *from) {
    struct numbers a = numbers_of(from->dtype, from->n);
    numbers_assign(&a, from);
    return a;
}

static inline void numbers_free(struct numbers *a) {
    free(a->at);
}

/* Random, of rank at most `rank`: from min(m, n) on, of full rank. */
static inline struct numbers matrix_of_rank(enum kl_dtype dtype, int m, int n, int rank) {
    struct numbers a = numbers_of(dtype, m * n);
    for (int i = 0; i < m * n && rank >= (m < n ? m : n); i++) numbers_set(&a, i, draw());
    for (int r = 0; r < rank && rank < (m < n ? m : n); r++) {
        double *row = doubles(n);
        for (int j = 0; j < n; j++) row[j] = draw();
        for (int i = 0; i < m; i++) {
            double x = draw();
            for (int j = 0; j < n; j++)
                numbers_set(&a, i * n + j, numbers_get(&a, i * n + j) + x * row[j]);
        }
        free(row);
    }
    return a;
}

enum { WORK_GUARD = 64 };

static inline struct kl_matrix matrix_of(int op, enum kl_dtype dtype, int m, int n, int right) {
    size_t bytes = kl_matrix_work((enum kl_op_id)op, dtype, m, n, right, NULL);
    /* The size is kept before the workspace, which begins at a multiple of 64. */
    char *p = test_alloc(64 + bytes + WORK_GUARD);
    memcpy(p, &bytes, sizeof bytes);
    memset(p + 64, 0xff, bytes + WORK_GUARD);
    return (struct kl_matrix){dtype, m, n, p + 64, NULL};
}

static inline void matrix_free(struct kl_matrix *x) {
    char *p = (char *)x->work - 64;
    size_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    for (int i = 0; i < WORK_GUARD; i++) assert_int_equal((unsigned char)p[64 + bytes + i], 0xff);
    free(p);
}

/* An operand of a kernel: a batch of matrices, `size` elements at `at` in row-major order. */
static inline struct kl_arg matrices_at(void *at, enum kl_dtype dtype, int64_t size,
                                        const int *dims, const int64_t *strides) {
    return (struct kl_arg){.data = at,
                           .dtype = dtype,
                           .layout = KL_ROW_CONTIGUOUS,
                           .ndim = 3,
                           .size = size,
                           .dims = dims,
                           .strides = strides};
}
