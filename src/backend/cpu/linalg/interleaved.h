/* interleaved.h - small matrices of a batch, several at once: one in each lane of a vector. An
 * element of all of them is one vector; the vectors of a matrix are in the order of columns, and
 * right-hand sides are columns after those of the matrix. Each lane computes what dense.h computes
 * for a matrix of these extents, by the same operations in the same order: the bits do not depend
 * on whether a matrix was alone. All memory is aligned to 64 bytes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum {
    KL_INTERLEAVED_ROWS = 32, /* the most rows and columns; dense.h does not halve such matrices */
    /* The most right-hand sides: with more, one matrix after the other is faster. */
    KL_INTERLEAVED_RIGHT = 64,
};

/* The functions, for each type T; those that return bits return bit l where the matrix in lane l
 * fails as that of matrix.h does, whose lane then has no meaning.
 * kl_interleaved: the lanes, as many as a vector of the processor has.
 * kl_interleave: matrices (m, n) that follow each other become vectors; `turned`, their transposes.
 * kl_separate: the other way.
 * kl_interleaved_solve: a y = b; x has the n columns of a and then those of b, which become y.
 * kl_interleaved_triangular: the same for a triangular a, whose other triangle is not read.
 * kl_interleaved_cholesky: the upper triangle of x becomes u, a = transpose(u) u; the other one
 *     becomes 0. */
#define KL_INTERLEAVED_DECLARE(T, NAME)                                            \
    int kl_interleaved_##NAME(void);                                               \
    void kl_interleave_##NAME(bool turned, int m, int n, const T *from, T *x);     \
    void kl_separate_##NAME(bool turned, int m, int n, const T *x, T *to);         \
    unsigned kl_interleaved_solve_##NAME(int n, int right, T *x);                  \
    unsigned kl_interleaved_triangular_##NAME(bool upper, int n, int right, T *x); \
    unsigned kl_interleaved_cholesky_##NAME(int n, T *x);
KL_INTERLEAVED_DECLARE(float, f32)
KL_INTERLEAVED_DECLARE(double, f64)
#undef KL_INTERLEAVED_DECLARE
