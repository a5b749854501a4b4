/* matrix_lapack.c - svd, eigh and eig of matrix.h by LAPACK; see matrix_lapack.h. */
#include "backend/cpu/linalg/matrix_lapack.h"

#include <string.h>

#include "backend/cpu/linalg/lapack.h"
#include "backend/cpu/operand/tile.h"

#define T float
#define R float
#define NAME f32
#define REAL(x) (x)
#define CONJUGATE(x) (x)
#define COMPLEX 0
#define IF_COMPLEX(x)
#define GESDD kl_lapack()->sgesdd
#define GESVD kl_lapack()->sgesvd
#define SYEVD kl_lapack()->ssyevd
/* defines kl_lapack_svd_f32, kl_lapack_eigh_f32, answer_f32, transpose_f32 */
#include "backend/cpu/linalg/matrix_lapack.inc"
#define T double
#define R double
#define NAME f64
#define REAL(x) (x)
#define CONJUGATE(x) (x)
#define COMPLEX 0
#define IF_COMPLEX(x)
#define GESDD kl_lapack()->dgesdd
#define GESVD kl_lapack()->dgesvd
#define SYEVD kl_lapack()->dsyevd
/* defines kl_lapack_svd_f64, kl_lapack_eigh_f64, answer_f64, transpose_f64 */
#include "backend/cpu/linalg/matrix_lapack.inc"
#define T float complex
#define R float
#define NAME c64
#define REAL(x) crealf(x)
#define CONJUGATE(x) conjf(x)
#define COMPLEX 1
#define IF_COMPLEX(x) x,
#define GESDD kl_lapack()->cgesdd
#define GESVD kl_lapack()->cgesvd
#define SYEVD kl_lapack()->cheevd
/* defines kl_lapack_svd_c64, kl_lapack_eigh_c64, answer_c64, transpose_c64 */
#include "backend/cpu/linalg/matrix_lapack.inc"

#define T float
#define NAME f32
#define GEEV kl_lapack()->sgeev
/* defines kl_lapack_eig_f32 */
#include "backend/cpu/linalg/matrix_eig.inc"
#define T double
#define NAME f64
#define GEEV kl_lapack()->dgeev
/* defines kl_lapack_eig_f64 */
#include "backend/cpu/linalg/matrix_eig.inc"

enum kl_matrix_info kl_lapack_eig_c64(struct kl_room *r, int n, float complex *a, float complex *w,
                                      float complex *v) {
    int lwork = -1, info = 0;
    float complex size[2] = {0};
    float written[4]; /* the query writes to rwork */
    float *rwork = kl_take(r, 2 * (size_t)n * sizeof *rwork);
    for (int i = 0; i < 2; i++)
        kl_lapack()->cgeev("N", i ? "V" : "N", &n, a, &n, w, v, &n, v, &n, &size[i], &lwork,
                           written, &info, 1, 1);
    lwork = answer_c64(size[0]) > answer_c64(size[1]) ? answer_c64(size[0]) : answer_c64(size[1]);
    float complex *work = kl_take(r, (size_t)lwork * sizeof *work);
    if (!work) return KL_MATRIX_DONE;
    transpose_c64(n, a);
    kl_lapack()->cgeev("N", v ? "V" : "N", &n, a, &n, w, NULL, &n, v, &n, work, &lwork, rwork,
                       &info, 1, 1);
    if (info > 0) return KL_MATRIX_FAILS;
    if (v) transpose_c64(n, v);
    return KL_MATRIX_DONE;
}
