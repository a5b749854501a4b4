/* test_cuda_solver.c - operations on matrices by cuSOLVER and cuBLAS over fake_cuda.c and
 * fake_cusolver.c: which of them go to a library and with which arguments; every failure. That the
 * numbers are right needs a device: tests/ops/families/test_linalg_on_device.c. */
#include <sys/wait.h>

#include "backend/cuda/fake_library.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

static struct {
    void (*calls)(char *out, size_t room);
    void (*refuse)(const char *call, int code);
} fake;

enum { WORKSPACE = 1 << 20 };

static void bind_fake(void) {
    char path[4300];
    name_fakes("KEEL_CUBLASLT");
    snprintf(path, sizeof path, "%s/lib64/libcusolver.so", fakes);
    setenv("KEEL_CUSOLVER", path, 1);
    setenv("KEEL_CUBLAS", path, 1);
    void *p = fake_symbol("libcusolver.so", "fake_solver_calls");
    memcpy(&fake.calls, &p, sizeof p);
    p = fake_symbol("libcusolver.so", "fake_solver_fail");
    memcpy(&fake.refuse, &p, sizeof p);
}

static int setup(void **state) {
    bind_fake();
    open_device();
    return 0;
}

/* ---- commands ---- */

struct problem {
    enum kl_op_id op;
    enum kl_dtype dtype;
    int batch, m, n, right;
    bool upper, vectors;
};

struct task {
    struct kl_command c;
    struct kl_matrix_params params;
    struct kl_arg args[3];
    int dims[3][3];
    int64_t strides[3][3];
    void *block[3];
    uint32_t host[KL_WORDS];
    struct kl_fault_words words;
};

static void operand(struct task *t, int i, enum kl_dtype dtype, int ndim, const int *dims) {
    struct kl_error *err = NULL;
    int64_t size = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        t->dims[i][d] = dims[d];
        t->strides[i][d] = size;
        size *= dims[d];
    }
    if (drv->ops->alloc(drv, (size_t)size * 16, &t->block[i], &err)) fail_msg("%s", err->message);
    t->args[i] = (struct kl_arg){.data = t->block[i],
                                 .dtype = (uint8_t)dtype,
                                 .layout = KL_ROW_CONTIGUOUS,
                                 .ndim = ndim,
                                 .size = size,
                                 .dims = t->dims[i],
                                 .strides = t->strides[i]};
}

static void make(struct task *t, const struct problem *p) {
    const int k = p->m < p->n ? p->m : p->n, m = p->m, n = p->n;
    const bool two = p->op == KL_OP_SOLVE || p->op == KL_OP_SOLVE_TRIANGULAR;
    enum kl_dtype of_result = p->dtype == KL_C64 && !p->vectors ? KL_F32 : p->dtype;
    memset(t, 0, sizeof *t);
    operand(t, 0, p->dtype, 3, (int[]){p->batch, m, n});
    if (two) operand(t, 1, p->dtype, 3, (int[]){p->batch, n, p->right});
    int packed = 0;
    switch (p->op) {
    case KL_OP_LU: packed = m * n + k + m; break;
    case KL_OP_QR: packed = m * k + k * n; break;
    case KL_OP_SVD: packed = p->vectors ? m * m + k + n * n : k; break;
    case KL_OP_EIGH: packed = p->vectors ? n + n * n : n; break;
    default: break;
    }
    if (packed)
        operand(t, 1, of_result, 2, (int[]){p->batch, packed});
    else
        operand(t, 1 + two, p->dtype, 3, (int[]){p->batch, n, two ? p->right : m});
    t->params = (struct kl_matrix_params){.upper = p->upper, .vectors = p->vectors};
    t->c = (struct kl_command){.kind = KL_CMD_LAUNCH,
                               .op = p->op,
                               .name = kl_op_name(p->op),
                               .params = &t->params,
                               .params_bytes = sizeof t->params,
                               .n_in = 1 + two,
                               .n_out = 1,
                               .args = t->args,
                               .pos_end = INT64_MAX};
}

static void drop(struct task *t) {
    for (int i = 0; i < 3; i++)
        if (t->block[i]) drv->ops->free(drv, t->block[i], (size_t)t->args[i].size * 16);
}

static int fail_alloc_at = -1; /* the allocation that fails while a command is prepared and run */
static bool alloc_failed;

/* Prepares and submits the command; the calls of the library in `calls`. */
static int run(const struct problem *p, char *calls, size_t room, struct kl_error **err) {
    struct task t;
    void *event = NULL, *workspace = NULL;
    make(&t, p);
    assert_int_equal(drv->ops->event_new(drv, &event, NULL), 0);
    assert_int_equal(drv->ops->alloc(drv, WORKSPACE, &workspace, NULL), 0);
    fake.calls(calls, room);
    kl_test_fail_alloc_at(fail_alloc_at);
    int rc = kl_driver_prepare(drv, &t.c, &t.c.workspace_bytes, err);
    fake.calls(calls, room);
    assert_string_equal(calls, ""); /* a dry run only asks */
    assert_in_range(t.c.workspace_bytes, 0, WORKSPACE);
    t.c.workspace = workspace;
    if (!rc) rc = kl_driver_submit(drv, q, &t.c, 1, NULL, 0, NULL, event, err);
    alloc_failed = kl_test_alloc_failed();
    kl_test_fail_alloc_at(-1);
    if (!rc)
        while (drv->ops->event_query(drv, event) == 0) drv->ops->wait_any(drv, &event, 1);
    fake.calls(calls, room);
    drv->ops->event_free(drv, event);
    drv->ops->free(drv, workspace, WORKSPACE);
    drop(&t);
    return rc;
}

static void expect_calls(const struct problem *p, const char *want) {
    char calls[4096];
    struct kl_error *err = NULL;
    if (run(p, calls, sizeof calls, &err)) fail_msg("%s: %s", kl_op_name(p->op), err->message);
    if (strcmp(calls, want) != 0)
        fail_msg("%s: \"%s\", not \"%s\"", kl_op_name(p->op), calls, want);
}

/* ---- tests ---- */

static void arguments(void **state) {
    static const struct {
        struct problem p;
        const char *calls;
    } cases[] = {
        {{KL_OP_CHOLESKY, KL_F32, 2, 70, 70, 0, false, false},
         "potrf(lower 70 type 0) potrf(lower 70 type 0)"},
        {{KL_OP_CHOLESKY, KL_F64, 1, 70, 70, 0, true, false}, "potrf(lower 70 type 1)"},
        {{KL_OP_LU, KL_F32, 1, 80, 70, 0, false, false}, "getrf(80x70 type 0)"},
        {{KL_OP_LU, KL_F64, 2, 3, 65, 0, false, false}, "getrf(3x65 type 1) getrf(3x65 type 1)"},
        {{KL_OP_INV, KL_F32, 1, 90, 90, 0, false, false},
         "getrf(90x90 type 0) Strsm(unit lower left 90 by 90) Strsm(upper left 90 by 90)"},
        {{KL_OP_SOLVE, KL_F32, 2, 66, 66, 5, false, false},
         "getrf(66x66 type 0) Strsm(unit lower left 66 by 5) Strsm(upper left 66 by 5) "
         "getrf(66x66 type 0) Strsm(unit lower left 66 by 5) Strsm(upper left 66 by 5)"},
        {{KL_OP_SOLVE, KL_F64, 1, 66, 66, 5, false, false},
         "getrf(66x66 type 1) Dtrsm(unit lower left 66 by 5) Dtrsm(upper left 66 by 5)"},
        {{KL_OP_SOLVE_TRIANGULAR, KL_F32, 1, 70, 70, 3, false, false},
         "Strsm(transposed upper left 70 by 3)"},
        {{KL_OP_SOLVE_TRIANGULAR, KL_F64, 1, 70, 70, 90, true, false},
         "Dtrsm(transposed lower left 70 by 90)"},
        {{KL_OP_QR, KL_F32, 1, 70, 40, 0, false, false}, "geqrf(70x40 type 0) Sorgqr(70x40 of 40)"},
        {{KL_OP_QR, KL_F64, 1, 40, 70, 0, false, false}, "geqrf(40x70 type 1) Dorgqr(40x40 of 40)"},
        {{KL_OP_EIGH, KL_F32, 1, 5, 5, 0, false, true}, "syevd(vectors upper 5 types 0 0)"},
        {{KL_OP_EIGH, KL_F64, 1, 5, 5, 0, true, false}, "syevd(lower 5 types 1 1)"},
        {{KL_OP_EIGH, KL_C64, 1, 5, 5, 0, true, true}, "syevd(vectors lower 5 types 4 0)"},
        {{KL_OP_SVD, KL_F32, 2, 3, 5, 0, false, true},
         "gesvd(AA 5x3 types 0 0) gesvd(AA 5x3 types 0 0)"},
        {{KL_OP_SVD, KL_F64, 1, 7, 5, 0, false, true}, "gesvd(AA 7x5 types 1 1)"},
        {{KL_OP_SVD, KL_C64, 1, 7, 5, 0, false, true}, "gesvd(AA 7x5 types 4 0)"},
        {{KL_OP_SVD, KL_F32, 1, 7, 5, 0, false, false}, "gesvd(NN 7x5 types 0 0)"},
        {{KL_OP_PINV, KL_F32, 1, 7, 5, 0, false, false}, "gesvd(AA 7x5 types 0 0)"},
        /* the kernels of the dialect */
        {{KL_OP_INV, KL_F32, 3, 64, 64, 0, false, false}, ""},
        {{KL_OP_SOLVE_TRIANGULAR, KL_F32, 1, 64, 64, 500, false, false}, ""},
        {{KL_OP_QR, KL_F64, 1, 64, 10, 0, false, false}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_calls(&cases[i].p, cases[i].calls);
}

static const struct problem samples[] = {
    {KL_OP_CHOLESKY, KL_F32, 1, 70, 70, 0, false, false},
    {KL_OP_SOLVE, KL_F32, 1, 70, 70, 2, false, false},
    {KL_OP_INV, KL_F32, 1, 70, 70, 0, false, false},
    {KL_OP_QR, KL_F32, 1, 70, 70, 0, false, false},
    {KL_OP_QR, KL_F64, 1, 70, 70, 0, false, false},
    {KL_OP_EIGH, KL_F32, 1, 7, 7, 0, false, true},
    {KL_OP_SVD, KL_F32, 1, 7, 7, 0, false, true},
    {KL_OP_SOLVE_TRIANGULAR, KL_F32, 1, 70, 70, 2, false, false},
    {KL_OP_SOLVE_TRIANGULAR, KL_F64, 1, 70, 70, 2, false, false},
};

/* Each call that fails is named, fails the operation alone, and can be made again. */
static void failures(void **state) {
    static const struct {
        const char *call, *says;
        int sample;
    } cases[] = {
        {"PotrfSize", "cusolverDnXpotrf_bufferSize", 0},
        {"potrf", "cusolverDnPotrf", 0},
        {"GetrfSize", "cusolverDnXgetrf_bufferSize", 1},
        {"getrf", "cusolverDnGetrf", 1},
        {"Strsm", "cublasStrsm", 1},
        {"Strsm", "cublasStrsm", 2},
        {"GeqrfSize", "cusolverDnXgeqrf_bufferSize", 3},
        {"geqrf", "cusolverDnGeqrf", 3},
        {"SorgqrSize", "cusolverDnXorgqr_bufferSize", 3},
        {"Sorgqr", "cusolverDnSorgqr", 3},
        {"DorgqrSize", "cusolverDnXorgqr_bufferSize", 4},
        {"Dorgqr", "cusolverDnDorgqr", 4},
        {"SyevdSize", "cusolverDnXsyevd_bufferSize", 5},
        {"syevd", "cusolverDnSyevd", 5},
        {"GesvdSize", "cusolverDnXgesvd_bufferSize", 6},
        {"gesvd", "cusolverDnGesvd", 6},
        {"Strsm", "cublasStrsm", 7},
        {"Dtrsm", "cublasDtrsm", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int memory = 0; memory < 2; memory++) {
            /* Other extents each time: what was prepared lately is not prepared again. */
            struct problem p = samples[cases[i].sample];
            char calls[4096], text[128];
            struct kl_error *err = NULL;
            p.batch = 2 + (int)i * 2 + memory;
            fake.refuse(cases[i].call, memory ? 2 : 7);
            assert_int_equal(run(&p, calls, sizeof calls, &err), memory ? KL_ENOMEM : KL_ESUBMIT);
            snprintf(text, sizeof text, "device 'cuda0': %s failed with %s", cases[i].says,
                     memory ? "ALLOC_FAILED (2)" : "INTERNAL_ERROR (7)");
            if (strcmp(err->message, text) != 0) fail_msg("\"%s\", not \"%s\"", err->message, text);
            kl_error_release(err);
            err = NULL;
            fake.refuse(NULL, 0);
            if (run(&p, calls, sizeof calls, &err)) fail_msg("%s", err->message);
        }
}

/* Without memory on the host, as for the library's workspace. */
static void without_memory(void **state) {
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int n = 0;; n++) {
            struct problem p = samples[i];
            char calls[4096];
            struct kl_error *err = NULL;
            p.batch = 1 + n; /* prepared anew */
            fail_alloc_at = n;
            const int rc = run(&p, calls, sizeof calls, &err);
            fail_alloc_at = -1;
            if (rc) assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(err);
            if (!alloc_failed) break;
            assert_in_range(n, 0, 200);
        }
}

/* Runs in a process of its own, which has not loaded the libraries yet. */
static int alone(const char *variable, const char *library, const char *fails,
                 const struct problem *p, const char *says) {
    char calls[4096];
    struct kl_error *err = NULL;
    if (library) setenv(variable, library, 1);
    open_device();
    fake.refuse(fails, 1);
    int bad = run(p, calls, sizeof calls, &err) == 0;
    if (!err || !strstr(err->message, says)) bad |= 2;
    if (bad) printf("%s: %d, %s\n", says, bad, err ? err->message : "no error");
    kl_error_release(err);
    err = NULL;
    fake.refuse(NULL, 0);
    if (strcmp(variable, "KEEL_CUSOLVER") == 0) {
        const char *key = NULL, *why = kl_cuda_lacks(2, &key);
        if (!why || !strstr(why, library) || strcmp(key, "missing_cusolver") != 0) bad |= 8;
    }
    if (!library && run(p, calls, sizeof calls, &err)) bad |= 4;
    if (err) printf("%s: then %s\n", says, err->message);
    kl_error_release(err);
    fflush(stdout);
    return bad;
}

static void without(const char *variable, const char *library, const char *fails, int sample,
                    const char *says) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(alone(variable, library, fails, &samples[sample], says));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: %#x", says, (unsigned)status);
}

/* No library, one without the functions, and one that cannot be initialized: the operation fails,
 * and the message names the way out. */
static void missing(void **state) {
    char path[4300];
    bind_fake();
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", fakes);
    without("KEEL_CUSOLVER", "/nonexistent/libcusolver.so", NULL, 2,
            "inv of matrices of 70 rows and 70 columns needs cuSOLVER on this device; a stream of "
            "the CPU runs it. KEEL_CUSOLVER=/nonexistent/libcusolver.so cannot be loaded");
    without("KEEL_CUSOLVER", "none", NULL, 6, "svd of matrices of 7 rows and 7 columns needs");
    without("KEEL_CUSOLVER", path, NULL, 5, "libnvrtc.so has no cusolverDnCreate: cuSOLVER 11.1");
    without("KEEL_CUBLAS", "none", NULL, 7,
            "solve_triangular of matrices of 70 rows and 70 columns needs cuBLAS on this device; a "
            "stream of the CPU runs it. KEEL_CUBLAS=none cannot be loaded");
    without(
        "KEEL_CUBLAS", "none", NULL, 2,
        "inv of matrices of 70 rows and 70 columns needs cuBLAS on this device; a stream of the "
        "CPU runs it. KEEL_CUBLAS=none cannot be loaded");
    without("KEEL_CUBLAS", path, NULL, 7, "libnvrtc.so has no cublasCreate_v2: cuBLAS 11 or later");
    static const struct {
        const char *call, *says;
        int sample;
    } first[] = {{"Create", "cusolverDnCreate failed with NOT_INITIALIZED (1)", 2},
                 {"CreateParams", "cusolverDnCreateParams failed with NOT_INITIALIZED (1)", 2},
                 {"SetStream", "cusolverDnSetStream failed with NOT_INITIALIZED (1)", 2},
                 {"BlasCreate", "cublasCreate failed with NOT_INITIALIZED (1)", 7},
                 {"BlasSetStream", "cublasSetStream failed with NOT_INITIALIZED (1)", 7}};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        without("", NULL, first[i].call, first[i].sample, first[i].says);
}

int main(void) {
    const struct CMUnitTest before[] = {cmocka_unit_test(missing)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(arguments), cmocka_unit_test(failures),
                                       cmocka_unit_test(without_memory)};
    int rc = cmocka_run_group_tests(before, NULL, NULL);
    return rc ? rc : cmocka_run_group_tests(tests, setup, NULL);
}
