/* test_linalg_on_device.c - linear algebra on a device (on_device.h): values and gradients, plain,
 * compiled and in lanes, against the CPU's; matrices that fail, with the message that the CPU has;
 * what a device has no kernel for. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <math.h>

#include "ops/linalg.h"
#include "transforms/compile.h"
#include "transforms/transforms.h"

enum { N = 6, BATCH = 5, SIZE = BATCH * N * N };

static double draw(void) {
    static uint64_t seed = 5;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)seed * 0x1p-63;
}

/* A batch of symmetric, positive definite matrices; element (at, at) of matrix `bad` is `x`, and
 * the rest of its row and column is 0. bad -1: none. */
static struct kl_array *matrices(int bad, int at, float x) {
    float v[BATCH][N][N];
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j <= i; j++) v[b][i][j] = v[b][j][i] = (float)(i == j ? 9 + i : draw());
    for (int i = 0; i < N && bad >= 0; i++) v[bad][i][at] = v[bad][at][i] = i == at ? x : 0;
    struct kl_array *a;
    OK(kl_array_new_data(&a, v, KL_F32, 3, (int[]){BATCH, N, N}, &err));
    return a;
}

/* ---- what is computed ---- */

typedef int build_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err);
static int inv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return kl_inv(out, a, s, err);
}
static int tri_inv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_tri_inv(out, a, true, s, err);
}
static int solve(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_array *b;
    KL_TRY(kl_square(&b, a, s, err));
    const int rc = kl_solve(out, a, b, s, err);
    kl_array_release(b);
    return rc;
}
static int solve_triangular(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                            struct kl_error **err) {
    return kl_solve_triangular(out, a, a, false, s, err);
}
static int cholesky(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_cholesky(out, a, false, s, err);
}
static int cholesky_upper(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                          struct kl_error **err) {
    return kl_cholesky(out, a, true, s, err);
}
static int det(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return kl_det(out, a, s, err);
}
static int product_of(struct kl_array **out, enum kl_factors which, struct kl_array *a,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_array **parts;
    size_t n;
    KL_TRY(kl_matrix_parts(&parts, &n, which, a, false, s, err));
    /* The last two parts are matrices; the first one's square has another gradient than a. */
    struct kl_array *square = NULL;
    int rc = kl_square(&square, parts[n - 2], s, err);
    if (!rc) rc = kl_matmul(out, square, parts[n - 1], s, err);
    kl_array_release(square);
    for (size_t i = 0; i < n; i++) kl_array_release(parts[i]);
    kl_free(parts);
    return rc;
}
static int lu(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
              struct kl_error **err) {
    return product_of(out, KL_FACTORS_LU, a, s, err);
}
static int qr(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
              struct kl_error **err) {
    return product_of(out, KL_FACTORS_QR, a, s, err);
}

/* bad: what makes a matrix fail, and how; text NULL: nothing does. */
static const struct subject {
    const char *name;
    build_fn *build;
    float bad;
    const char *text;
} subjects[] = {
    {"inv", inv, 0, "is singular"},
    {"tri_inv", tri_inv, 0, "is singular"},
    {"solve", solve, 0, "is singular"},
    {"solve_triangular", solve_triangular, 0, "is singular"},
    {"cholesky", cholesky, -1, "is not positive definite"},
    {"cholesky", cholesky_upper, NAN, "is not positive definite"},
    {"det", det, 0, NULL},
    {"lu", lu, 0, NULL},
    {"qr", qr, 0, NULL},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

struct call {
    build_fn *build;
    struct kl_stream *s;
};

static int call_build(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                      struct kl_error **err) {
    const struct call *x = ctx;
    KL_TRY(kl_arrays_new(outs, 1, err));
    return x->build(&outs->v[0], in[0], x->s, err);
}

/* The gradient of the sum of what is computed. */
static int call_total(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                      struct kl_error **err) {
    const struct call *x = ctx;
    struct kl_array *y = NULL;
    KL_TRY(kl_arrays_new(outs, 1, err));
    KL_TRY(x->build(&y, in[0], x->s, err));
    const int rc = kl_sum(&outs->v[0], y, false, x->s, err);
    kl_array_release(y);
    return rc;
}
static int call_gradient(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                         struct kl_error **err) {
    const struct kl_function f = {.call = call_total, .ctx = ctx};
    struct kl_arrays values = {0};
    const int first = 0;
    const int rc = kl_value_and_grad(&f, &first, 1, in, 1, &values, outs, err);
    kl_arrays_free(&values);
    return rc;
}

static void near(const char *name, struct kl_array *want, struct kl_array *got) {
    struct kl_array *keep[2];
    assert_int_equal(want->t.size, got->t.size);
    const float *a = read_elements(want, cpu_stream, &keep[0], name),
                *b = read_elements(got, gpu_stream, &keep[1], name);
    float largest = 0;
    for (int64_t i = 0; i < want->t.size; i++) largest = fmaxf(largest, fabsf(a[i]));
    for (int64_t i = 0; i < want->t.size; i++)
        if (!(fabsf(a[i] - b[i]) <= 0x1p-16f * largest))
            fail_msg("%s: element %lld is %.9g, on the CPU %.9g", name, (long long)i, (double)b[i],
                     (double)a[i]);
    kl_array_release(keep[0]);
    kl_array_release(keep[1]);
}

/* Plain and compiled, twice, so that the second time is a replay. */
static void check(const char *name, build_fn *build,
                  int (*call)(void *, struct kl_array *const *, size_t, struct kl_arrays *,
                              struct kl_error **)) {
    struct call on_cpu = {build, cpu_stream}, on_gpu = {build, gpu_stream};
    const struct kl_function f = {.call = call, .ctx = &on_cpu}, g = {.call = call, .ctx = &on_gpu};
    struct kl_function compiled;
    OK(kl_compile(&compiled, &g, 0, false, NULL, 0, &err));
    for (int round = 0; round < 3; round++) {
        struct kl_array *a = matrices(-1, 0, 0);
        struct kl_arrays want = {0}, got = {0};
        OK(kl_function_call(&f, &a, 1, &want, &err));
        OK(kl_function_call(round ? &compiled : &g, &a, 1, &got, &err));
        near(name, want.v[0], got.v[0]);
        kl_arrays_free(&want);
        kl_arrays_free(&got);
        kl_array_release(a);
    }
    kl_function_release(&compiled);
}

static void values(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++) check(subjects[i].name, subjects[i].build, call_build);
}

static void gradients(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++) check(subjects[i].name, subjects[i].build, call_gradient);
}

/* ---- failures ---- */

static struct kl_error *error_of(struct kl_array *a) {
    struct kl_error *e = NULL;
    assert_int_not_equal(kl_eval(&a, 1, &e), 0);
    assert_non_null(e);
    return e;
}

static void expect_error(struct kl_array *x, int code, const char *text) {
    struct kl_error *e = error_of(x);
    assert_int_equal(e->code, code);
    if (strcmp(e->message, text) != 0) fail_msg("\"%s\", not \"%s\"", e->message, text);
    kl_error_release(e);
}

/* The result fails, and what is made of it on the device and on the CPU; nothing else does. */
static void failures(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++)
        for (int bad = 0; bad < BATCH && subjects[i].text; bad += 2) {
            struct kl_array *a = matrices(bad, bad % N, subjects[i].bad), *x, *fine, *made[2];
            struct kl_array *other = matrices(-1, 0, 0);
            char text[160];
            OK(subjects[i].build(&x, a, gpu_stream, &err));
            OK(subjects[i].build(&fine, other, gpu_stream, &err));
            OK(kl_exp(&made[0], x, gpu_stream, &err));
            OK(kl_exp(&made[1], x, cpu_stream, &err));
            snprintf(text, sizeof text, "%s: matrix %d of the batch %s", subjects[i].name, bad,
                     subjects[i].text);
            for (int k = 0; k < 2; k++) expect_error(made[k], KL_EMATRIX, text);
            expect_error(x, KL_EMATRIX, text);
            OK(kl_eval(&fine, 1, &err));
            struct kl_array *all[] = {a, x, fine, made[0], made[1], other};
            for (int k = 0; k < 6; k++) kl_array_release(all[k]);
        }
}

/* Singular matrices have factors. */
static void singular_factors(void **state) {
    struct kl_array *a = matrices(1, 2, 0), *want, *got;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (subjects[i].text) continue;
        OK(subjects[i].build(&want, a, cpu_stream, &err));
        OK(subjects[i].build(&got, a, gpu_stream, &err));
        near(subjects[i].name, want, got);
        kl_array_release(want);
        kl_array_release(got);
    }
    kl_array_release(a);
}

/* The function for one lane gives what the batch gives, and a failure names the lane. */
static void lanes(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++)
        for (int bad = -1; bad < (subjects[i].text ? 4 : 0); bad += 4) {
            struct call x = {subjects[i].build, gpu_stream};
            const struct kl_function f = {.call = call_build, .ctx = &x};
            struct kl_array *a = matrices(bad, 1, subjects[i].bad), *want;
            struct kl_arrays in = {0}, out = {0}, all = {0};
            const int axis = 0;
            OK(kl_vmap_trace(&f, &a, 1, &axis, &in, &out, &err));
            OK(kl_vmap_replace(&a, 1, in.v, out.v, 1, &axis, &axis, &all, &err));
            if (bad < 0) {
                OK(subjects[i].build(&want, a, cpu_stream, &err));
                near(subjects[i].name, want, all.v[0]);
                kl_array_release(want);
            } else {
                char text[160];
                snprintf(text, sizeof text, "%s: lane %d, the matrix %s", subjects[i].name, bad,
                         subjects[i].text);
                expect_error(all.v[0], KL_EMATRIX, text);
            }
            kl_arrays_free(&in);
            kl_arrays_free(&out);
            kl_arrays_free(&all);
            kl_array_release(a);
        }
}

/* In a compiled function the result that fails is one of two. */
static int two_of(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                  struct kl_error **err) {
    struct kl_stream *s = ctx;
    KL_TRY(kl_arrays_new(outs, 2, err));
    KL_TRY(kl_inv(&outs->v[0], in[0], s, err));
    return kl_square(&outs->v[1], in[0], s, err);
}

static void compiled_failures(void **state) {
    const struct kl_function f = {.call = two_of, .ctx = gpu_stream};
    struct kl_function compiled;
    OK(kl_compile(&compiled, &f, 0, false, NULL, 0, &err));
    for (int bad = -1; bad < BATCH; bad++) {
        struct kl_array *a = matrices(bad, 3, 0);
        struct kl_arrays got = {0};
        char text[80];
        OK(kl_function_call(&compiled, &a, 1, &got, &err));
        snprintf(text, sizeof text, "inv: matrix %d of the batch is singular", bad);
        if (bad < 0)
            OK(kl_eval(&got.v[0], 1, &err));
        else
            expect_error(got.v[0], KL_EMATRIX, text);
        OK(kl_eval(&got.v[1], 1, &err));
        kl_arrays_free(&got);
        kl_array_release(a);
    }
    kl_function_release(&compiled);
}

/* ---- large matrices, and decompositions: on CUDA by a library, elsewhere an error ---- */

static bool by_kernels_alone(void) {
    return strcmp(device_name(), "opencl") == 0 || strcmp(device_name(), "metal") == 0;
}

/* Numbers from -1 to 1, and `diagonal` more on the diagonal. Complex ones are Hermitian, real ones
 * symmetric where symmetric is set; float64 is computed from float32. */
static struct kl_array *large(enum kl_dtype t, int batch, int m, int n, float diagonal,
                              bool symmetric) {
    const int parts = t == KL_C64 ? 2 : 1, dims[] = {batch, m, n};
    float *v = malloc((size_t)batch * (size_t)(m * n * parts) * sizeof *v);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                for (int p = 0; p < parts; p++) {
                    float *at = v + ((b * m + i) * n + j) * parts + p;
                    const float *other = v + ((b * m + j) * n + i) * parts + p;
                    *at = symmetric && j < i ? (p ? -*other : *other) : (float)draw();
                    if (i == j && (!p || symmetric)) *at = p ? 0 : *at + diagonal;
                }
    struct kl_array *a, *out;
    OK(kl_array_new_data(&a, v, t == KL_C64 ? KL_C64 : KL_F32, 3, dims, &err));
    OK(kl_astype(&out, a, t, cpu_stream, &err));
    kl_array_release(a);
    free(v);
    return out;
}

/* The largest difference of x and y, which are taken, and the largest element of y, on the CPU. */
static void expect_near(const char *what, struct kl_array *x, struct kl_array *y, double n) {
    struct kl_array *d, *size[2], *most[2], *keep[2];
    const double eps = y->t.dtype == KL_F64 ? 0x1p-50 : 0x1p-21;
    assert_int_equal(x->t.size, y->t.size);
    OK(kl_subtract(&d, x, y, cpu_stream, &err));
    OK(kl_abs(&size[0], d, cpu_stream, &err));
    OK(kl_abs(&size[1], y, cpu_stream, &err));
    double v[2];
    for (int i = 0; i < 2; i++) {
        struct kl_array *wide;
        OK(kl_max(&most[i], size[i], false, cpu_stream, &err));
        OK(kl_astype(&wide, most[i], KL_F64, cpu_stream, &err));
        v[i] = *(const double *)read_elements(wide, cpu_stream, &keep[i], what);
        kl_array_release(wide);
    }
    if (!(v[0] <= eps * n * (v[1] + 1))) fail_msg("%s: %g away, of %g", what, v[0], v[1]);
    struct kl_array *all[] = {x, y, d, size[0], size[1], most[0], most[1], keep[0], keep[1]};
    for (int i = 0; i < 9; i++) kl_array_release(all[i]);
}

/* x y, of which neither is taken. */
static struct kl_array *times(struct kl_array *x, struct kl_array *y) {
    struct kl_array *out;
    OK(kl_matmul(&out, x, y, cpu_stream, &err));
    return out;
}
/* The conjugate transpose. */
static struct kl_array *adjoint_of(struct kl_array *x) {
    struct kl_array *c, *t;
    OK(kl_conjugate(&c, x, cpu_stream, &err));
    OK(kl_swapaxes(&t, c, -1, -2, cpu_stream, &err));
    kl_array_release(c);
    return t;
}
static struct kl_array *identity_like(struct kl_array *x) {
    struct kl_array *one, *out;
    OK(kl_identity(&one, x->t.dims[x->t.ndim - 1], x->t.dtype, cpu_stream, &err));
    OK(kl_broadcast_to(&out, one, x->t.dims, (size_t)x->t.ndim, cpu_stream, &err));
    kl_array_release(one);
    return out;
}
static void expect_orthogonal(const char *what, struct kl_array *q, double n) {
    struct kl_array *t = adjoint_of(q), *x = times(t, q), *one = identity_like(x);
    expect_near(what, x, one, n);
    kl_array_release(t);
}

static void expect_refused(struct kl_array *x) {
    struct kl_error *e = error_of(x);
    assert_int_equal(e->code, KL_EUNSUPPORTED);
    if (!strstr(e->message, "a stream of the CPU runs it") &&
        !(device_lacks_f64() && strstr(e->message, "no float64")))
        fail_msg("%s", e->message);
    kl_error_release(e);
}

/* The parts on the device; false, after a look at the error, where it has none. */
static bool parts_of(struct kl_array *out[3], enum kl_factors which, struct kl_array *a,
                     bool upper) {
    struct kl_array **all;
    size_t n;
    OK(kl_matrix_parts(&all, &n, which, a, upper, gpu_stream, &err));
    for (size_t i = 0; i < n; i++) {
        out[i] = all[i];
        if (!by_kernels_alone()) continue;
        expect_refused(all[i]);
        kl_array_release(all[i]);
    }
    kl_free(all);
    return !by_kernels_alone();
}

static const enum kl_dtype numbers[] = {KL_F32, KL_F64, KL_C64};
/* Complex matrices need LAPACK on the simulated device, which not every machine has. */
static int n_numbers(void) {
    return strcmp(device_name(), "sim") == 0 ? 2 : 3;
}

static void large_equations(void **state) {
    static build_fn *const builds[] = {inv,      tri_inv,       solve, solve_triangular,
                                       cholesky, cholesky_upper};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 6; i++) {
            struct kl_array *a = large(numbers[t], 2, 100, 100, 100, true), *x, *y;
            OK(builds[i](&x, a, gpu_stream, &err));
            OK(builds[i](&y, a, cpu_stream, &err));
            if (by_kernels_alone()) {
                expect_refused(x);
                kl_array_release(x);
                kl_array_release(y);
            } else {
                expect_near("a large matrix", x, y, 100);
            }
            kl_array_release(a);
        }
}

static void large_factors(void **state) {
    static const int shapes[][2] = {{100, 100}, {130, 70}, {3, 90}, {90, 3}};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 4; i++) {
            const int m = shapes[i][0], n = shapes[i][1];
            struct kl_array *a = large(numbers[t], 2, m, n, 0, false), *f[3];
            if (parts_of(f, KL_FACTORS_LU, a, false)) {
                struct kl_array *product = times(f[1], f[2]), *column, *at, *rows;
                OK(kl_expand_dims(&column, f[0], -1, cpu_stream, &err));
                OK(kl_broadcast_to(&at, column, a->t.dims, 3, cpu_stream, &err));
                OK(kl_take_along_axis(&rows, product, at, -2, cpu_stream, &err));
                expect_near("lu", rows, kl_array_retain(a), m + n);
                struct kl_array *all[] = {f[0], f[1], f[2], product, column, at};
                for (int k = 0; k < 6; k++) kl_array_release(all[k]);
            }
            if (parts_of(f, KL_FACTORS_QR, a, false)) {
                struct kl_array *upper;
                OK(kl_triu(&upper, f[1], 0, cpu_stream, &err));
                expect_near("r", upper, kl_array_retain(f[1]), 0);
                expect_near("qr", times(f[0], f[1]), kl_array_retain(a), m + n);
                expect_orthogonal("q", f[0], m + n);
                for (int k = 0; k < 2; k++) kl_array_release(f[k]);
            }
            kl_array_release(a);
        }
}

/* The columns of x times the numbers in s. */
static struct kl_array *scaled(struct kl_array *x, struct kl_array *s) {
    struct kl_array *row, *out;
    OK(kl_expand_dims(&row, s, -2, cpu_stream, &err));
    OK(kl_multiply(&out, x, row, cpu_stream, &err));
    kl_array_release(row);
    return out;
}
/* The first k rows or, with axis -1, columns. */
static struct kl_array *first_of(struct kl_array *x, int axis, int k) {
    struct kl_array **parts, *out;
    size_t n;
    OK(kl_split_sections(&parts, &n, x, (int[]){k}, 1, axis, cpu_stream, &err));
    out = kl_array_retain(parts[0]);
    for (size_t i = 0; i < n; i++) kl_array_release(parts[i]);
    kl_free(parts);
    return out;
}

static void singular_values(void **state) {
    static const int shapes[][2] = {{5, 5}, {9, 4}, {4, 9}, {1, 6}, {100, 70}, {70, 100}};
    for (int t = 0; t < n_numbers(); t++)
        for (int i = 0; i < 6; i++) {
            const int m = shapes[i][0], n = shapes[i][1], k = m < n ? m : n;
            struct kl_array *a = large(numbers[t], 3, m, n, 0, false), *f[3], *x;
            if (parts_of(f, KL_FACTORS_SVD, a, false)) {
                struct kl_array *u = first_of(f[0], -1, k), *vt = first_of(f[2], -2, k),
                                *us = scaled(u, f[1]);
                expect_near("svd", times(us, vt), kl_array_retain(a), m + n);
                expect_orthogonal("u", f[0], m + n);
                expect_orthogonal("vt", f[2], m + n);
                OK(kl_singular_values(&x, a, gpu_stream, &err));
                expect_near("singular values", x, kl_array_retain(f[1]), m + n);
                struct kl_array *all[] = {f[0], f[1], f[2], u, vt, us};
                for (int c = 0; c < 6; c++) kl_array_release(all[c]);
            }
            if (t < 2 && !by_kernels_alone()) {
                OK(kl_pinv(&x, a, gpu_stream, &err));
                struct kl_array *ax = times(a, x);
                expect_near("pinv", times(ax, a), kl_array_retain(a), 20 * (m + n));
                kl_array_release(ax);
                kl_array_release(x);
            }
            kl_array_release(a);
        }
}

static void eigenvalues(void **state) {
    static const int sizes[] = {1, 4, 33, 100};
    for (int t = 0; t < n_numbers(); t++)
        for (int i = 0; i < 8; i++) {
            const int n = sizes[i / 2];
            struct kl_array *a = large(numbers[t], 2, n, n, 0, true), *half, *f[3], *x;
            if (i % 2) /* the other triangle is not read */
                OK(kl_triu(&half, a, 0, cpu_stream, &err));
            else
                OK(kl_tril(&half, a, 0, cpu_stream, &err));
            if (parts_of(f, KL_FACTORS_EIGH, half, i % 2)) {
                struct kl_array *vw = scaled(f[1], f[0]), *v = adjoint_of(f[1]);
                expect_near("eigh", times(vw, v), kl_array_retain(a), 2 * n + 2);
                expect_orthogonal("eigenvectors", f[1], 2 * n + 2);
                OK(kl_eigvalsh(&x, half, i % 2, gpu_stream, &err));
                expect_near("eigvalsh", x, kl_array_retain(f[0]), 2 * n + 2);
                struct kl_array *all[] = {f[0], f[1], vw, v};
                for (int c = 0; c < 4; c++) kl_array_release(all[c]);
            }
            kl_array_release(half);
            kl_array_release(a);
        }
}

static int singular(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_singular_values(out, a, s, err);
}
static int eigvalsh(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_eigvalsh(out, a, true, s, err);
}
static int pinv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    return kl_pinv(out, a, s, err);
}

/* Of a batch of three large matrices the last two are spoilt: element (40, 40) of one is `bad`, and
 * the rest of its row and column is 0. */
static void large_failures(void **state) {
    static const struct subject cases[] = {
        {"inv", inv, 0, "is singular"},
        {"tri_inv", tri_inv, 0, "is singular"},
        {"solve", solve, 0, "is singular"},
        {"solve_triangular", solve_triangular, 0, "is singular"},
        {"cholesky", cholesky, -1, "is not positive definite"},
        {"cholesky", cholesky_upper, NAN, "is not positive definite"},
        {"svd", singular, NAN, "has an element that is NaN or infinite"},
        {"pinv", pinv, INFINITY, "has an element that is NaN or infinite"},
        {"eigvalsh", eigvalsh, NAN, "has an element that is NaN or infinite"},
    };
    enum { M = 80 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases && !by_kernels_alone(); c++) {
        static float v[3][M][M];
        struct kl_array *a, *x;
        char text[160];
        for (int b = 0; b < 3; b++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j <= i; j++)
                    v[b][i][j] = v[b][j][i] = (float)(i == j ? 2 * M : draw());
        for (int b = 1; b < 3; b++)
            for (int i = 0; i < M; i++) v[b][i][40] = v[b][40][i] = i == 40 ? cases[c].bad : 0;
        OK(kl_array_new_data(&a, v, KL_F32, 3, (int[]){3, M, M}, &err));
        OK(cases[c].build(&x, a, gpu_stream, &err));
        snprintf(text, sizeof text, "%s: matrix 1 of the batch %s", cases[c].name, cases[c].text);
        expect_error(x, KL_EMATRIX, text);
        kl_array_release(a);
        kl_array_release(x);
    }
}

/* What only the CPU has fails by name. */
static void refusals(void **state) {
    struct kl_array *a = matrices(-1, 0, 0), *x;
    OK(kl_eigvals(&x, a, gpu_stream, &err));
    /* The simulated device has the CPU's kernels. */
    if (strcmp(device_name(), "sim") != 0)
        expect_error(x, KL_EUNSUPPORTED,
                     "eigvals cannot run on this device; a stream of the CPU runs it");
    kl_array_release(x);
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),          cmocka_unit_test(gradients),
        cmocka_unit_test(failures),        cmocka_unit_test(singular_factors),
        cmocka_unit_test(lanes),           cmocka_unit_test(compiled_failures),
        cmocka_unit_test(large_equations), cmocka_unit_test(large_factors),
        cmocka_unit_test(singular_values), cmocka_unit_test(eigenvalues),
        cmocka_unit_test(large_failures),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
