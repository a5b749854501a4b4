/* linalg_stand_in.c - a library with the symbols of LAPACK that the CPU's kernels load, computed by
 * Jacobi rotations and a shifted QR iteration in complex double: for the thread sanitizer, which
 * does not see into the real one, and for failures that the real one does not show. A matrix whose
 * first element is 2^40 does not converge in gesdd, one with 2^41 in no function. WITHOUT_CGEEV
 * leaves a symbol out; WITH_THREADS tells that the library has threads, as OpenBLAS tells it. */
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef double complex number;
enum kind { S, D, C };
enum { SWEEPS = 60 };

/* ---- memory in the order of columns ---- */

static number *numbers(int count) {
    number *p = calloc((size_t)count + 1, sizeof *p);
    if (!p) abort();
    return p;
}

static number get(enum kind kind, const void *at, int i) {
    if (kind == D) return ((const double *)at)[i];
    return kind == S ? ((const float *)at)[i] : ((const float complex *)at)[i];
}

static void put(enum kind kind, void *at, int i, number x) {
    if (kind == D)
        ((double *)at)[i] = creal(x);
    else if (kind == S)
        ((float *)at)[i] = (float)creal(x);
    else
        ((float complex *)at)[i] = (float complex)x;
}

static enum kind real_of(enum kind kind) {
    return kind == D ? D : S;
}

/* A copy, divided by 2^e, which makes its largest element about 1. */
static number *scaled(enum kind kind, int count, const void *a, int *e) {
    number *x = numbers(count);
    double most = 0;
    for (int i = 0; i < count; i++) {
        x[i] = get(kind, a, i);
        most = fmax(most, fmax(fabs(creal(x[i])), fabs(cimag(x[i]))));
    }
    *e = 0;
    if (most > 0) (void)frexp(most, e);
    for (int i = 0; i < count; i++) x[i] = ldexp(creal(x[i]), -*e) + ldexp(cimag(x[i]), -*e) * I;
    return x;
}

/* ---- rotations of two vectors ---- */

struct turn {
    double c, s;
    number phase;
};

/* Makes gamma 0 between two vectors of sizes alpha and beta. */
static struct turn turn_of(double alpha, double beta, number gamma) {
    const double size = cabs(gamma), zeta = (beta - alpha) / (2 * size);
    const double t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + hypot(1, zeta)), c = 1 / hypot(1, t);
    return (struct turn){c, c * t, gamma / size};
}

static void turn(int n, struct turn r, number *x, number *y, int step) {
    for (int i = 0; i < n; i++) {
        number *p = x + i * step, *q = y + i * step, a = *p, b = *q;
        *p = r.c * a - r.s * conj(r.phase) * b;
        *q = r.s * r.phase * a + r.c * b;
    }
}

static number inner(int n, const number *x, const number *y) {
    number sum = 0;
    for (int i = 0; i < n; i++) sum += conj(x[i]) * y[i];
    return sum;
}

/* The columns of b (m, n) become orthogonal; those of v (n, n) take part. */
static void orthogonal(int m, int n, number *b, number *v) {
    for (int sweep = 0, turned = 1; turned && sweep < SWEEPS; sweep++) {
        turned = 0;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                number *x = b + i * m, *y = b + j * m, gamma = inner(m, x, y);
                const double alpha = creal(inner(m, x, x)), beta = creal(inner(m, y, y));
                if (alpha < 1e-33 || beta < 1e-33) continue;
                if (cabs(gamma) <= 0x1p-51 * sqrt(alpha * beta)) continue;
                turn(m, turn_of(alpha, beta, gamma), x, y, 1);
                turn(n, turn_of(alpha, beta, gamma), v + i * n, v + j * n, 1);
                turned = 1;
            }
    }
}

/* Column `at` of u (m, m), whose columns before it are orthonormal, becomes orthogonal to them. */
static void complete(int m, int at, number *u) {
    number *x = u + at * m;
    int best = 0;
    double least = 2;
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < at; j++) sum += creal(u[j * m + i] * conj(u[j * m + i]));
        if (sum < least) least = sum, best = i;
    }
    for (int i = 0; i < m; i++) x[i] = i == best;
    for (int twice = 0; twice < 2; twice++)
        for (int j = 0; j < at; j++) {
            const number part = inner(m, u + j * m, x);
            for (int i = 0; i < m; i++) x[i] -= part * u[j * m + i];
        }
    const double norm = sqrt(creal(inner(m, x, x)));
    for (int i = 0; i < m; i++) x[i] /= norm;
}

/* order: the positions of values, ascending. */
static void sort(int n, const double *values, int *order) {
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && values[order[at - 1]] > values[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* ---- the factorisations ---- */

/* a (m, n), m >= n: u (m, m), s (n) descending, v (n, n). */
static void svd(int m, int n, number *a, number *u, double *s, number *v) {
    double *values = calloc((size_t)n + 1, sizeof *values);
    int *order = calloc((size_t)n + 1, sizeof *order);
    number *turns = numbers(n * n);
    for (int i = 0; i < n; i++) turns[i * n + i] = 1;
    orthogonal(m, n, a, turns);
    for (int j = 0; j < n; j++) values[j] = -sqrt(creal(inner(m, a + j * m, a + j * m)));
    sort(n, values, order);
    for (int j = 0; j < n; j++) {
        s[j] = -values[order[j]];
        memcpy(v + j * n, turns + order[j] * n, (size_t)n * sizeof *v);
        if (s[j] > 1e-16)
            for (int i = 0; i < m; i++) u[j * m + i] = a[order[j] * m + i] / s[j];
        else
            complete(m, j, u);
    }
    for (int j = n; j < m; j++) complete(m, j, u);
    free(values), free(order), free(turns);
}

/* a (n, n) is Hermitian; its diagonal becomes the eigenvalues and v, the identity at first, the
 * eigenvectors. */
static void eigh(int n, number *a, number *v) {
    for (int sweep = 0, turned = 1; turned && sweep < SWEEPS; sweep++) {
        turned = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                const number gamma = a[q * n + p];
                if (cabs(gamma) < 1e-17) continue;
                struct turn r = turn_of(creal(a[p * n + p]), creal(a[q * n + q]), gamma);
                turn(n, r, a + p * n, a + q * n, 1);
                turn(n, r, v + p * n, v + q * n, 1);
                r.phase = conj(r.phase);
                turn(n, r, a + p, a + q, n);
                turned = 1;
            }
    }
}

/* Rotates rows p and q of h (n, n) so that element (q, column) becomes 0, and its columns, and
 * those of z. */
struct givens {
    double c;
    number s;
};

static struct givens givens_of(number x, number y) {
    const double norm = hypot(cabs(x), cabs(y));
    if (norm == 0) return (struct givens){1, 0};
    if (cabs(x) == 0) return (struct givens){0, 1};
    return (struct givens){cabs(x) / norm, x / cabs(x) * conj(y) / norm};
}

static void turn_rows(int n, struct givens g, number *h, int p, int q) {
    for (int k = 0; k < n; k++) {
        const number x = h[k * n + p], y = h[k * n + q];
        h[k * n + p] = g.c * x + g.s * y;
        h[k * n + q] = -conj(g.s) * x + g.c * y;
    }
}

static void turn_columns(int n, struct givens g, number *h, int p, int q) {
    for (int k = 0; k < n; k++) {
        const number x = h[p * n + k], y = h[q * n + k];
        h[p * n + k] = g.c * x + conj(g.s) * y;
        h[q * n + k] = -g.s * x + g.c * y;
    }
}

static number shift_of(int n, const number *h, int last, int step) {
    const number a = h[(last - 1) * n + last - 1], b = h[last * n + last - 1],
                 c = h[(last - 1) * n + last], d = h[last * n + last];
    const number root = csqrt((a - d) * (a - d) / 4 + b * c), mean = (a + d) / 2;
    if (step % 10 == 9) return d + cabs(c); /* where the usual one goes in circles */
    return cabs(mean + root - d) < cabs(mean - root - d) ? mean + root : mean - root;
}

/* h (n, n) becomes upper triangular and z, the identity at first, unitary with a z = z h;
 * false: no convergence. */
static bool schur(int n, number *h, number *z) {
    struct givens *all = calloc((size_t)n + 1, sizeof *all);
    int steps = 0, last = n - 1;
    for (int k = 0; k < n; k++)
        for (int i = n - 1; i > k + 1; i--) {
            const struct givens g = givens_of(h[k * n + i - 1], h[k * n + i]);
            turn_rows(n, g, h, i - 1, i);
            turn_columns(n, g, h, i - 1, i);
            turn_columns(n, g, z, i - 1, i);
            h[k * n + i] = 0;
        }
    while (last > 0 && steps < SWEEPS) {
        int first = last;
        for (; first > 0; first--) {
            number *below = &h[(first - 1) * n + first];
            const double size = cabs(h[first * n + first]) + cabs(h[(first - 1) * (n + 1)]);
            if (cabs(*below) > 0x1p-52 * size && cabs(*below) > 1e-18) continue;
            *below = 0;
            break;
        }
        if (first == last) {
            last--, steps = 0;
            continue;
        }
        const number shift = shift_of(n, h, last, steps++);
        for (int i = first; i <= last; i++) h[i * (n + 1)] -= shift;
        for (int k = first; k < last; k++) {
            all[k] = givens_of(h[k * n + k], h[k * n + k + 1]);
            turn_rows(n, all[k], h, k, k + 1);
        }
        for (int k = first; k < last; k++) {
            turn_columns(n, all[k], h, k, k + 1);
            turn_columns(n, all[k], z, k, k + 1);
        }
        for (int i = first; i <= last; i++) h[i * (n + 1)] += shift;
    }
    free(all);
    return steps < SWEEPS;
}

/* The eigenvectors of z h z', h upper triangular, of norm 1. */
static void eigenvectors(int n, const number *h, const number *z, number *v) {
    number *y = numbers(n);
    for (int j = 0; j < n; j++) {
        number *x = v + j * n;
        y[j] = 1;
        for (int i = j - 1; i >= 0; i--) {
            number sum = 0, gap = h[i * (n + 1)] - h[j * (n + 1)];
            for (int k = i + 1; k <= j; k++) sum -= h[k * n + i] * y[k];
            y[i] = sum / (cabs(gap) < 0x1p-53 ? 0x1p-53 : gap);
        }
        for (int i = 0; i < n; i++) {
            x[i] = 0;
            for (int k = 0; k <= j; k++) x[i] += z[k * n + i] * y[k];
        }
        const double norm = sqrt(creal(inner(n, x, x)));
        for (int i = 0; i < n; i++) x[i] /= norm;
    }
    free(y);
}

/* ---- as LAPACK calls them ---- */

/* Whether a query was answered, or the matrix does not converge. */
static bool is_done(enum kind kind, const void *a, void *work, int lwork, bool first, int *info) {
    *info = 0;
    if (lwork == -1) put(kind, work, 0, 1);
    if (lwork == -1) return true;
    const number x = get(kind, a, 0);
    *info = x == 0x1p41 || (first && x == 0x1p40);
    return *info != 0;
}

static void gesvd(enum kind kind, const char *job, int m, int n, const void *a, void *s, void *u,
                  void *vt) {
    int e;
    const int k = m < n ? m : n, most = m < n ? n : m;
    number *x = scaled(kind, m * n, a, &e), *b = x, *left = numbers(most * most),
           *right = numbers(k * k);
    double *values = calloc((size_t)k + 1, sizeof *values);
    if (m < n) {
        b = numbers(m * n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) b[i * n + j] = conj(x[j * m + i]);
    }
    svd(most, k, b, left, values, right);
    for (int i = 0; i < k; i++) put(real_of(kind), s, i, ldexp(values[i], e));
    const number *of_u = m < n ? right : left, *of_v = m < n ? left : right;
    for (int i = 0; i < m * m && *job == 'A'; i++) put(kind, u, i, of_u[i]);
    for (int i = 0; i < n && *job == 'A'; i++)
        for (int j = 0; j < n; j++) put(kind, vt, j * n + i, conj(of_v[i * n + j]));
    if (b != x) free(b);
    free(x), free(left), free(right), free(values);
}

static void syevd(enum kind kind, const char *job, bool lower, int n, void *a, void *w) {
    int e, *order = calloc((size_t)n + 1, sizeof *order);
    double *values = calloc((size_t)n + 1, sizeof *values);
    for (int i = 0; i < n; i++) /* the other triangle may be anything */
        for (int j = 0; j < n; j++)
            if (lower ? i < j : i > j) put(kind, a, j * n + i, conj(get(kind, a, i * n + j)));
    number *x = scaled(kind, n * n, a, &e), *v = numbers(n * n);
    for (int i = 0; i < n; i++) v[i * n + i] = 1;
    eigh(n, x, v);
    for (int i = 0; i < n; i++) values[i] = creal(x[i * n + i]);
    sort(n, values, order);
    for (int i = 0; i < n; i++) put(real_of(kind), w, i, ldexp(values[order[i]], e));
    for (int j = 0; j < n && *job == 'V'; j++)
        for (int i = 0; i < n; i++) put(kind, a, j * n + i, v[order[j] * n + i]);
    free(x), free(v), free(order), free(values);
}

/* w (n) and v (n, n) complex; false: no convergence. */
static bool geev(enum kind kind, int n, const void *a, number *w, number *v) {
    int e;
    number *h = scaled(kind, n * n, a, &e), *z = numbers(n * n);
    for (int i = 0; i < n; i++) z[i * n + i] = 1;
    const bool done = schur(n, h, z);
    if (done) eigenvectors(n, h, z, v);
    for (int i = 0; i < n; i++)
        w[i] = ldexp(creal(h[i * (n + 1)]), e) + ldexp(cimag(h[i * (n + 1)]), e) * I;
    free(h), free(z);
    return done;
}

/* The eigenvalues of a real matrix, those with an imaginary part in pairs: of the largest and the
 * smallest imaginary parts as many as are beyond what rounding makes. */
static bool geev_of_reals(enum kind kind, const char *job, int n, const void *a, void *wr, void *wi,
                          void *vr) {
    number *w = numbers(n), *v = numbers(n * n);
    double *key = calloc((size_t)n + 1, sizeof *key), most = 0;
    int *order = calloc((size_t)n + 1, sizeof *order), above = 0, below = 0, at = 0;
    const bool done = geev(kind, n, a, w, v);
    for (int i = 0; i < n; i++) key[i] = cimag(w[i]), most = fmax(most, cabs(w[i]));
    for (int i = 0; i < n; i++) above += key[i] > 1e-14 * most, below += key[i] < -1e-14 * most;
    sort(n, key, order);
    const int pairs = above < below ? above : below;
    for (int k = n - 1; k >= pairs; k--) {
        const bool pair = k >= n - pairs;
        const number *x = v + order[k] * n;
        number phase = 1;
        double size = 0;
        for (int i = 0; i < n && !pair; i++)
            if (cabs(x[i]) > size) size = cabs(x[i]), phase = conj(x[i]) / size;
        double norm = 0;
        for (int i = 0; i < n; i++) norm += pow(creal(x[i] * phase), 2);
        for (int i = 0; i < n && *job == 'V'; i++) {
            put(kind, vr, at * n + i, creal(x[i] * phase) / (pair ? 1 : sqrt(norm)));
            if (pair) put(kind, vr, (at + 1) * n + i, cimag(x[i]));
        }
        for (int i = 0; i < 1 + pair; i++, at++) {
            put(kind, wr, at, creal(w[order[k]]));
            put(kind, wi, at, pair ? (i ? -1 : 1) * key[order[k]] : 0);
        }
    }
    free(w), free(v), free(key), free(order);
    return done;
}

#ifdef WITH_THREADS
int openblas_get_parallel(void) {
    return 1;
}
#endif

#define OF_REALS(p, kind, R)                                                                       \
    void p##gesdd_(const char *job, const int *m, const int *n, R *a, const int *lda, R *s, R *u,  \
                   const int *ldu, R *vt, const int *ldvt, R *work, const int *lwork, int *iwork,  \
                   int *info, size_t length) {                                                     \
        if (!is_done(kind, a, work, *lwork, true, info)) gesvd(kind, job, *m, *n, a, s, u, vt);    \
    }                                                                                              \
    void p##gesvd_(const char *job, const char *jobvt, const int *m, const int *n, R *a,           \
                   const int *lda, R *s, R *u, const int *ldu, R *vt, const int *ldvt, R *work,    \
                   const int *lwork, int *info, size_t length, size_t length_vt) {                 \
        if (!is_done(kind, a, work, *lwork, false, info)) gesvd(kind, job, *m, *n, a, s, u, vt);   \
    }                                                                                              \
    void p##syevd_(const char *job, const char *uplo, const int *n, R *a, const int *lda, R *w,    \
                   R *work, const int *lwork, int *iwork, const int *liwork, int *info,            \
                   size_t length, size_t length_uplo) {                                            \
        if (*liwork == -1) *iwork = 1;                                                             \
        if (!is_done(kind, a, work, *lwork, false, info))                                          \
            syevd(kind, job, *uplo == 'L', *n, a, w);                                              \
    }                                                                                              \
    void p##geev_(const char *jobvl, const char *jobvr, const int *n, R *a, const int *lda, R *wr, \
                  R *wi, R *vl, const int *ldvl, R *vr, const int *ldvr, R *work,                  \
                  const int *lwork, int *info, size_t length, size_t length_vr) {                  \
        if (!is_done(kind, a, work, *lwork, false, info))                                          \
            *info = !geev_of_reals(kind, jobvr, *n, a, wr, wi, vr);                                \
    }
OF_REALS(s, S, float)
OF_REALS(d, D, double)

void cgesdd_(const char *job, const int *m, const int *n, float complex *a, const int *lda,
             float *s, float complex *u, const int *ldu, float complex *vt, const int *ldvt,
             float complex *work, const int *lwork, float *rwork, int *iwork, int *info,
             size_t length) {
    if (!is_done(C, a, work, *lwork, true, info)) gesvd(C, job, *m, *n, a, s, u, vt);
}

void cgesvd_(const char *job, const char *jobvt, const int *m, const int *n, float complex *a,
             const int *lda, float *s, float complex *u, const int *ldu, float complex *vt,
             const int *ldvt, float complex *work, const int *lwork, float *rwork, int *info,
             size_t length, size_t length_vt) {
    if (!is_done(C, a, work, *lwork, false, info)) gesvd(C, job, *m, *n, a, s, u, vt);
}

void cheevd_(const char *job, const char *uplo, const int *n, float complex *a, const int *lda,
             float *w, float complex *work, const int *lwork, float *rwork, const int *lrwork,
             int *iwork, const int *liwork, int *info, size_t length, size_t length_uplo) {
    if (*lrwork == -1) *rwork = 1;
    if (*liwork == -1) *iwork = 1;
    if (!is_done(C, a, work, *lwork, false, info)) syevd(C, job, *uplo == 'L', *n, a, w);
}

#ifndef WITHOUT_CGEEV
void cgeev_(const char *jobvl, const char *jobvr, const int *n, float complex *a, const int *lda,
            float complex *w, float complex *vl, const int *ldvl, float complex *vr,
            const int *ldvr, float complex *work, const int *lwork, float *rwork, int *info,
            size_t length, size_t length_vr) {
    if (is_done(C, a, work, *lwork, false, info)) return;
    number *values = numbers(*n), *v = numbers(*n * *n);
    *info = !geev(C, *n, a, values, v);
    for (int i = 0; i < *n; i++) put(C, w, i, values[i]);
    for (int i = 0; i < *n * *n && *jobvr == 'V'; i++) put(C, vr, i, v[i]);
    free(values), free(v);
}
#endif
