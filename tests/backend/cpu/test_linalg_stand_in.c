/* test_linalg_stand_in.c - how LAPACK is loaded and called, with the stand-in of linalg_stand_in.c:
 * threads that load it together and call it at once, processes that fork meanwhile, matrices for
 * which it does not converge, and libraries that are not taken. Each has a process of its own,
 * since LAPACK is loaded once. */
#include "backend/cpu/linalg_support.h"

#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/linalg/lapack.h"
#include "base/op/launch.h"
#include "base/op/op_params.h"
#include "platform/self.h"

enum { N = 33, THREADS = 4, BATCH = 5 };
#define NO_GESDD 0x1p40 /* the first element of a matrix for which gesdd does not converge */
#define NOTHING_CONVERGES 0x1p41

static void name_library(const char *file) {
    char self[4096], path[4300];
    (void)t_self(self, sizeof self);
    snprintf(path, sizeof path, "%s/fake/%s.so", dirname(self), file);
    assert_int_equal(access(path, R_OK), 0);
    setenv("KEEL_LAPACK", path, 1);
    unsetenv("KEEL_LIBS");
}

/* Runs f, which returns true, in a child process, with the library; NULL: this machine's. */
static void in_a_process(const char *file, bool (*f)(void)) {
    int status = -1;
    if (file)
        name_library(file);
    else
        unsetenv("KEEL_LAPACK");
    const pid_t child = fork();
    if (child == 0) _exit(f() ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool is_taken(void) {
    return kl_lapack() != NULL;
}
static bool is_refused(void) {
    return kl_lapack() == NULL && !kl_matrix_can(KL_OP_EIG, KL_F32, 3, 3) &&
           kl_matrix_can(KL_OP_SVD, KL_F32, N, N);
}

static void test_libraries(void **state) {
    in_a_process("liblapack_whole", is_taken);
    in_a_process("liblapack_without_cgeev", is_refused);
    in_a_process("liblapack_with_threads", is_refused);
}

/* ---- threads ---- */

/* Singular values, eigenvalues and their vectors of one matrix. */
struct factors {
    double a[N * N], u[N * N], s[N], vt[N * N], v[N * N], w[N], z[2 * N];
};

static void *factorise(void *arg) {
    struct factors *f = arg;
    double *copy = doubles(N * N), *vectors = doubles(2 * N * N);
    struct kl_matrix svd = matrix_of(KL_OP_SVD, KL_F64, N, N, 0),
                     eigh = matrix_of(KL_OP_EIGH, KL_F64, N, N, 0);
    memcpy(copy, f->a, sizeof f->a);
    memcpy(f->v, f->a, sizeof f->a);
    int rc = kl_matrix_svd(&svd, copy, f->u, f->s, f->vt);
    rc |= kl_matrix_eigh(&eigh, false, true, f->v, f->w);
    if (kl_matrix_can(KL_OP_EIG, KL_F64, N, N)) {
        struct kl_matrix eig = matrix_of(KL_OP_EIG, KL_F64, N, N, 0);
        memcpy(copy, f->a, sizeof f->a);
        rc |= kl_matrix_eig(&eig, copy, f->z, vectors);
        matrix_free(&eig);
    }
    free(copy), free(vectors);
    matrix_free(&svd), matrix_free(&eigh);
    return rc ? f : NULL;
}

static bool by_threads(void) {
    static struct factors all[THREADS], alone;
    pthread_t threads[THREADS];
    bool good = true;
    for (int i = 0; i < N * N; i++) all[0].a[i] = draw();
    for (int t = 1; t < THREADS; t++) memcpy(all[t].a, all[0].a, sizeof all[0].a);
    alone = all[0];
    for (int t = 0; t < THREADS; t++)
        good &= !pthread_create(&threads[t], NULL, factorise, &all[t]);
    for (int t = 0; t < THREADS; t++) {
        void *failed = NULL;
        pthread_join(threads[t], &failed);
        good &= !failed;
    }
    good &= !factorise(&alone);
    for (int t = 0; t < THREADS; t++) good &= !memcmp(&all[t], &alone, sizeof alone);
    return good;
}

static void test_threads(void **state) {
    in_a_process("liblapack_whole", by_threads);
}

#ifdef __SANITIZE_ADDRESS__ /* a child may find the sanitizer's own allocator locked for ever */
enum { CHILDREN = 0 };
#else
enum { CHILDREN = 6 };
#endif

static atomic_bool enough;
static struct factors wanted;

/* NULL: all were right. */
static void *factorise_often(void *arg) {
    struct factors *f = test_alloc(sizeof *f), *wrong = NULL;
    while (!wrong && !atomic_load(&enough)) {
        memcpy(f->a, wanted.a, sizeof f->a);
        if (factorise(f) || memcmp(f, &wanted, sizeof wanted) != 0) wrong = &wanted;
    }
    free(f);
    return wrong;
}

static bool by_children(void) {
    pthread_t threads[2];
    pid_t child[CHILDREN + 1];
    bool good = true;
    for (int i = 0; i < N * N; i++) wanted.a[i] = draw();
    good &= !factorise(&wanted);
    for (int t = 0; t < 2; t++) good &= !pthread_create(&threads[t], NULL, factorise_often, NULL);
    for (int i = 0; i < CHILDREN; i++)
        if (!(child[i] = fork())) {
            struct factors *f = test_alloc(sizeof *f);
            memcpy(f->a, wanted.a, sizeof f->a);
            _exit(factorise(f) || memcmp(f, &wanted, sizeof wanted) != 0);
        }
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        good &= waitpid(child[i], &status, 0) == child[i] && status == 0;
    }
    atomic_store(&enough, true);
    for (int t = 0; t < 2; t++) {
        void *wrong = NULL;
        pthread_join(threads[t], &wrong);
        good &= !wrong;
    }
    return good;
}

/* Processes that fork while threads factorise can do it too; with this machine's LAPACK as well, or
 * without one. */
static void test_children(void **state) {
    in_a_process("liblapack_whole", by_children);
#ifndef __SANITIZE_THREAD__ /* it does not see into LAPACK */
    in_a_process(NULL, by_children);
#endif
}

/* ---- no convergence ---- */

/* Matrices of which the third and the fifth begin with `first`, as the kernel of an operation
 * computes them: its fault, and whether the matrices that fail are zeros and no others. */
static int64_t fault_of(enum kl_op_id op, enum kl_dtype dtype, bool vectors, double first) {
    static double in[2 * BATCH * N * N], out[2 * BATCH * (2 * N * N + N)];
    const enum kl_dtype made = op == KL_OP_EIG ? KL_C64 : dtype;
    const int part = op == KL_OP_SVD ? 2 * N * N + N : N * N + N, count = vectors ? part : N;
    const int dims[] = {BATCH, N, N}, out_dims[] = {BATCH, count};
    const int64_t strides[] = {N * N, N, 1}, out_strides[] = {count, 1};
    const struct kl_matrix_params how = {.vectors = vectors};
    struct numbers a = {dtype, BATCH * N * N, in};
    for (int i = 0; i < a.n; i++) numbers_set(&a, i, draw());
    numbers_set(&a, 2 * N * N, first);
    numbers_set(&a, 4 * N * N, first);
    struct kl_arg arg = matrices_at(in, dtype, a.n, dims, strides),
                  result = {.data = out,
                            .dtype = made,
                            .layout = KL_ROW_CONTIGUOUS,
                            .ndim = 2,
                            .size = BATCH * count,
                            .dims = out_dims,
                            .strides = out_strides};
    struct kl_launch l = {.op = op,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &arg,
                          .out = &result,
                          .params = &how,
                          .checked = true,
                          .pos_end = INT64_MAX,
                          .fault = KL_NO_FAULT};
    memset(out, 0x7f, sizeof out);
    if (kl_cpu_kernel(op)(&l)) return -1;
    const size_t bytes = (size_t)count * kl_dtype_size(made);
    for (int b = 0; b < BATCH; b++) {
        bool zeros = true;
        for (size_t i = 0; i < bytes; i++) zeros &= ((char *)out)[(size_t)b * bytes + i] == 0;
        if (zeros != (l.fault != KL_NO_FAULT && (b == 2 || b == 4))) return -2;
    }
    return l.fault;
}

static bool without_convergence(void) {
    static const enum kl_op_id ops[] = {KL_OP_SVD, KL_OP_EIGH, KL_OP_EIG};
    const int64_t third = KL_MATRIX_POSITIONS * 2 + KL_MATRIX_BAD;
    bool good = true;
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 2; d++)
            for (int vectors = 0; vectors < 2; vectors++) {
                const enum kl_dtype dtype = d ? KL_F64 : KL_F32;
                /* where gesdd does not converge, gesvd is asked */
                good &= fault_of(ops[i], dtype, vectors, NO_GESDD) == KL_NO_FAULT;
                good &= fault_of(ops[i], dtype, vectors, NOTHING_CONVERGES) == third;
            }
    return good;
}

/* Complex matrices too; the values by gesvd are right. */
static bool complex_without_convergence(void) {
    bool good = true;
    for (int what = 0; what < 2; what++) {
        float complex a[9] = {0}, u[9], vt[9], w[3], v[9];
        float s[3] = {0};
        const enum kl_matrix_info svd_info = what ? KL_MATRIX_FAILS : KL_MATRIX_DONE;
        for (int i = 0; i < 9; i += 4) a[i] = (float)(i + 2) * (float complex)I;
        a[0] = what ? NOTHING_CONVERGES : NO_GESDD;
        struct kl_matrix x = matrix_of(KL_OP_SVD, KL_C64, 3, 3, 0);
        good &= kl_matrix_svd(&x, a, u, s, vt) == svd_info;
        if (!what) good &= s[0] == (float)NO_GESDD && fabsf(s[1] - 10) < 1e-5f;
        matrix_free(&x);
        memset(a, 0, sizeof a);
        a[0] = what ? NOTHING_CONVERGES : 1;
        memcpy(v, a, sizeof a);
        x = matrix_of(KL_OP_EIGH, KL_C64, 3, 3, 0);
        good &= kl_matrix_eigh(&x, false, true, v, s) == svd_info;
        matrix_free(&x);
        x = matrix_of(KL_OP_EIG, KL_C64, 3, 3, 0);
        good &= kl_matrix_eig(&x, a, w, v) == svd_info;
        matrix_free(&x);
    }
    return good;
}

static void test_convergence(void **state) {
    in_a_process("liblapack_whole", without_convergence);
    in_a_process("liblapack_whole", complex_without_convergence);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_children), cmocka_unit_test(test_convergence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
