/* linalg.h - what drivers need that give matrices to a library: the matrices of a command, and the
 * kernels that run before and after the library (kernels/linalg_parts.kl). The matrices of infos
 * and flags (uint32) are counted from the first one of the command. All launch kernels, or compile
 * them in a dry run; dtype is that of the matrices. */
#pragma once
#include "backend/gpu/lower/lower.h"

/* The matrices whose positions the command has; operations that cannot fail have all. origin: the
 * position from which faults are counted. */
struct kl_matrix_range {
    int64_t begin, end, origin;
};
struct kl_matrix_range kl_matrix_range_of(const struct kl_command *c);
/* Whether the kernels of the dialect take the command, but for the device's shared memory. */
bool kl_matrix_is_small(const struct kl_command *c);
/* The address of a matrix of the batch. */
char *kl_matrix_at(const struct kl_arg *a, int64_t matrix);

enum kl_triangle { KL_WHOLE, KL_LOWER, KL_UPPER };
/* flags[at], 0 before, becomes 1 where a row-major matrix (m, n) has elements in that part that are
 * not finite; then the matrix becomes 0. */
int kl_matrix_look(struct kl_emit *e, enum kl_dtype dtype, void *a, int m, int n,
                   enum kl_triangle which, void *flags, int64_t at);
/* infos[at] = 1 where an element of the diagonal of a (n, n) is 0; else it stays or, with fresh, is
 * 0. */
int kl_matrix_diagonal(struct kl_emit *e, enum kl_dtype dtype, const void *a, int n, bool fresh,
                       void *infos, int64_t at);
/* The elements outside of the triangle of a row-major matrix (m, n) become 0. infos, if not NULL:
 * infos[at] becomes at least 1 where an element of the diagonal is not above 0. */
int kl_matrix_triangle(struct kl_emit *e, enum kl_dtype dtype, void *a, int m, int n,
                       enum kl_triangle which, void *infos, int64_t at);
/* pivots (k) and places (m), as LU packs them, of a library's k exchanges (int64, from 1 on). */
int kl_matrix_places(struct kl_emit *e, enum kl_dtype dtype, const void *exchanges, void *out,
                     int m, int k);
/* The rows of b, or without b of the identity matrix (m, m), each taken to its place (places has m
 * numbers), in the order of columns. */
int kl_matrix_permute(struct kl_emit *e, enum kl_dtype dtype, const void *places, const void *b,
                      const int64_t *strides, int m, int columns, void *to);
/* n float32 numbers as complex64. */
int kl_matrix_widen(struct kl_emit *e, const void *from, void *to, int n);
/* The conjugate transpose of a (n, n), complex64. */
int kl_matrix_adjoint(struct kl_emit *e, const void *from, void *to, int n);
/* The pseudoinverse (n, m) of u (m, m) s vt (n, n); by_columns: u and vt are in that order. */
int kl_matrix_pseudoinverse(struct kl_emit *e, enum kl_dtype dtype, const void *u, const void *s,
                            const void *vt, void *out, int m, int n, bool by_columns);
/* Matrices with an info or a flag become zeros in the output of c, and are its faults. */
int kl_matrix_judge(struct kl_emit *e, const struct kl_command *c, const void *infos,
                    const void *flags);
