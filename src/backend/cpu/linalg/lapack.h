/* lapack.h - LAPACK's functions of svd, eigh and eig, from OpenBLAS or any other library that has
 * them, loaded when they are first asked for. Fortran's calling convention: matrices in the order
 * of columns, 32-bit integers, all arguments by address, and the lengths of strings at the end. */
#pragma once
#include <complex.h>
#include <stddef.h>

#define KL_LAPACK_DRIVERS(R, p)                                                                   \
    void (*p##gesdd)(const char *job, const int *m, const int *n, R *a, const int *lda, R *s,     \
                     R *u, const int *ldu, R *vt, const int *ldvt, R *work, const int *lwork,     \
                     int *iwork, int *info, size_t);                                              \
    void (*p##gesvd)(const char *jobu, const char *jobvt, const int *m, const int *n, R *a,       \
                     const int *lda, R *s, R *u, const int *ldu, R *vt, const int *ldvt, R *work, \
                     const int *lwork, int *info, size_t, size_t);                                \
    void (*p##syevd)(const char *job, const char *uplo, const int *n, R *a, const int *lda, R *w, \
                     R *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t, \
                     size_t);                                                                     \
    void (*p##geev)(const char *jobvl, const char *jobvr, const int *n, R *a, const int *lda,     \
                    R *wr, R *wi, R *vl, const int *ldvl, R *vr, const int *ldvr, R *work,        \
                    const int *lwork, int *info, size_t, size_t);

struct kl_lapack {
    KL_LAPACK_DRIVERS(float, s)
    KL_LAPACK_DRIVERS(double, d)
    void (*cgesdd)(const char *job, const int *m, const int *n, float complex *a, const int *lda,
                   float *s, float complex *u, const int *ldu, float complex *vt, const int *ldvt,
                   float complex *work, const int *lwork, float *rwork, int *iwork, int *info,
                   size_t);
    void (*cgesvd)(const char *jobu, const char *jobvt, const int *m, const int *n,
                   float complex *a, const int *lda, float *s, float complex *u, const int *ldu,
                   float complex *vt, const int *ldvt, float complex *work, const int *lwork,
                   float *rwork, int *info, size_t, size_t);
    void (*cheevd)(const char *job, const char *uplo, const int *n, float complex *a,
                   const int *lda, float *w, float complex *work, const int *lwork, float *rwork,
                   const int *lrwork, int *iwork, const int *liwork, int *info, size_t, size_t);
    void (*cgeev)(const char *jobvl, const char *jobvr, const int *n, float complex *a,
                  const int *lda, float complex *w, float complex *vl, const int *ldvl,
                  float complex *vr, const int *ldvr, float complex *work, const int *lwork,
                  float *rwork, int *info, size_t, size_t);
};
#undef KL_LAPACK_DRIVERS

/* NULL: there is none, or KEEL_LIBS=none or KEEL_LAPACK=none does without. */
const struct kl_lapack *kl_lapack(void);
