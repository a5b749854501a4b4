/* test_cuda_blas.c - products by cuBLASLt over fake_cuda.c and fake_cublaslt.c: how operands are
 * described to cuBLASLt, against a plain triple loop; which products use Keel's kernels; every
 * failure. */
#include <sys/wait.h>

#include "backend/cuda/fake_library.h"
#include "base/number/dtype.h"

struct asked { /* the same struct as in fake_cublaslt.c */
    int n_handles, n_heuristics, n_products, n_live;
    int compute, scale, type;
    uint32_t reductions, alignments[4];
    uint64_t most_workspace;
    size_t workspace;
};
static struct {
    void (*asked)(struct asked *out);
    void (*refuse)(const char *call, int code);
    void (*wants)(size_t workspace);
    void (*budget)(size_t bytes); /* budget: bytes that the fake CUDA may allocate */
} fake;

enum { MAX_DIMS = 5, ROOM = 1 << 19 /* ROOM: elements of an operand's block */ };
static float numbers[ROOM]; /* the elements of every operand */

static void bind(const char *file, const char *name, size_t at) {
    void *p = fake_symbol(file, name);
    memcpy((char *)&fake + at, &p, sizeof p);
}

static int setup(void **state) {
    for (int i = 0; i < ROOM; i++) numbers[i] = (float)((i * 7 + i / 13) % 17 - 8);
    name_fakes("KEEL_CUBLASLT");
    bind("libcublasLt.so", "fake_blas_asked", 0);
    bind("libcublasLt.so", "fake_blas_fail", 8);
    bind("libcublasLt.so", "fake_blas_wants", 16);
    bind("libcuda.so", "fake_budget", 24);
    open_device();
    return 0;
}

static struct asked asked(void) {
    struct asked a;
    fake.asked(&a);
    return a;
}

/* ---- operands ---- */

enum layout {
    ROW_MAJOR,
    COLUMN_MAJOR,
    ROWS_WITH_GAPS, /* gaps between the rows */
    COLUMNS_WITH_GAPS,
    N_GOOD,
    NO_UNIT_STRIDE = N_GOOD, /* no axis has a stride of 1 */
    REVERSED,
    BROADCAST_ROW, /* a row with a stride of 0 */
};

struct matrix {
    struct kl_arg arg;
    int dims[MAX_DIMS];
    int64_t strides[MAX_DIMS], zero; /* zero: offset of element 0 in the block */
    void *block;
};

/* Makes an operand. batch has the strides of the leading axes, in matrices; NULL means
 * contiguous. */
static void make(struct matrix *x, enum kl_dtype dtype, int nb, const int *lead, int rows, int cols,
                 enum layout layout, const int64_t *batch) {
    struct kl_error *err = NULL;
    int64_t gap = layout == ROWS_WITH_GAPS || layout == COLUMNS_WITH_GAPS ? 3 : 0, size = 1, one;
    bool by_cols = layout == COLUMN_MAJOR || layout == COLUMNS_WITH_GAPS;
    for (int i = 0; i < nb; i++) x->dims[i] = lead[i];
    x->dims[nb] = rows;
    x->dims[nb + 1] = cols;
    x->strides[nb] = by_cols ? 1 : cols + gap;
    x->strides[nb + 1] = by_cols ? rows + gap : 1;
    one = by_cols ? (rows + gap) * cols : (cols + gap) * rows;
    if (layout == NO_UNIT_STRIDE) {
        x->strides[nb] = 2 * cols;
        x->strides[nb + 1] = 2;
        one *= 2;
    }
    x->zero = 0;
    if (layout == REVERSED) {
        x->zero = cols * (rows - 1);
        x->strides[nb] = -cols;
    }
    if (layout == BROADCAST_ROW) x->strides[nb] = 0;
    int64_t step = one;
    for (int i = nb - 1; i >= 0; i--) {
        x->strides[i] = batch ? batch[i] * one : step;
        step *= lead[i];
    }
    int64_t reach = x->zero + 1; /* elements of the block that belong to the operand */
    for (int i = 0; i < nb + 2; i++) {
        size *= x->dims[i];
        if (x->dims[i] > 1 && x->strides[i] > 0) reach += (x->dims[i] - 1) * x->strides[i];
    }
    assert_true(reach <= ROOM);
    if (drv->ops->alloc(drv, ROOM * sizeof(float), &x->block, &err)) fail_msg("%s", err->message);
    /* What goes to the queue here does not wait for writes that are only posted. */
    size_t bytes = (size_t)reach * sizeof(float);
    if (bytes <= KL_POSTED_MOST) bytes = KL_POSTED_MOST + 1;
    assert_int_equal(drv->ops->write(drv, x->block, 0, numbers, bytes, NULL), 0);
    x->arg = (struct kl_arg){.data = (char *)x->block + (size_t)x->zero * kl_dtype_size(dtype),
                             .dtype = (uint8_t)dtype,
                             .ndim = nb + 2,
                             .size = size,
                             .dims = x->dims,
                             .strides = x->strides};
}

static void drop(struct matrix *x) {
    drv->ops->free(drv, x->block, ROOM * sizeof(float));
}

struct product {
    struct matrix x[3];
    struct kl_arg args[3];
    struct kl_command c;
};

static void product(struct product *p, enum kl_dtype dtype, int nb, const int *lead, int m, int k,
                    int n, enum layout a, enum layout b, const int64_t *a_batch,
                    const int64_t *b_batch) {
    make(&p->x[0], dtype, nb, lead, m, k, a, a_batch);
    make(&p->x[1], dtype, nb, lead, k, n, b, b_batch);
    make(&p->x[2], dtype, nb, lead, m, n, ROW_MAJOR, NULL);
    for (int i = 0; i < 3; i++) p->args[i] = p->x[i].arg;
    p->c = (struct kl_command){
        .kind = KL_CMD_LAUNCH, .op = KL_OP_MATMUL, .n_in = 2, .n_out = 1, .args = p->args};
}

static void product_drop(struct product *p) {
    for (int i = 0; i < 3; i++) drop(&p->x[i]);
}

/* Asks the driver for a product, which may have a workspace of `room` bytes. *used: what it asked
 * for. */
enum { ROOM_GIVEN = 8 << 20 };
static int run_in(struct product *p, void *queue, bool dry, size_t room, size_t *used,
                  struct kl_error **err) {
    static void *space;
    if (!space) assert_int_equal(drv->ops->alloc(drv, ROOM_GIVEN, &space, NULL), 0);
    struct kl_emit e = {.lowering = cu->driver.lowering,
                        .driver = &cu->driver,
                        .queue = queue,
                        .dry = dry,
                        .err = err,
                        .workspace = space,
                        .room = room};
    int rc = cu->driver.ops->override(&e, &p->c);
    *used = e.used;
    return rc;
}

static int try(struct product *p, bool dry, struct kl_error **err) {
    size_t used;
    return run_in(p, dry ? NULL : q, dry, ROOM_GIVEN, &used, err);
}

static void finish(void) {
    assert_int_equal(cu->api->StreamSynchronize(((struct kl_cuda_queue *)q)->stream), 0);
}

__attribute__((no_sanitize_thread)) static float element(const struct matrix *x, const int *batch,
                                                         int nb, int r, int c) {
    int64_t at = x->zero + r * x->strides[nb] + c * x->strides[nb + 1];
    for (int i = 0; i < nb; i++) at += batch[i] * x->strides[i];
    return numbers[at];
}

/* Whether the output on the device is the product. The numbers are small integers, so there is no
 * rounding. The thread sanitizer would see but one thread. */
__attribute__((no_sanitize_thread)) static bool right(struct product *p, int nb) {
    const int *dims = p->x[2].dims;
    float *got = malloc((size_t)p->x[2].arg.size * sizeof *got);
    assert_int_equal(
        drv->ops->read(drv, p->x[2].block, 0, got, (size_t)p->x[2].arg.size * sizeof *got, NULL),
        0);
    int k_max = p->x[0].dims[nb + 1], n_batches = 1;
    bool same = true;
    for (int i = 0; i < nb; i++) n_batches *= dims[i];
    for (int i = 0; i < n_batches; i++) {
        int batch[MAX_DIMS], rest = i;
        for (int d = nb - 1; d >= 0; d--) {
            batch[d] = rest % dims[d];
            rest /= dims[d];
        }
        for (int r = 0; r < dims[nb]; r++)
            for (int c = 0; c < dims[nb + 1]; c++) {
                float s = 0;
                for (int k = 0; k < k_max; k++)
                    s += element(&p->x[0], batch, nb, r, k) * element(&p->x[1], batch, nb, k, c);
                same &= s == got[((int64_t)i * dims[nb] + r) * dims[nb + 1] + c];
            }
    }
    free(got);
    return same;
}

/* cuBLASLt must compute the product: the check when the operation is encoded says so, and the
 * result is right. */
static void by_cublas(int nb, const int *lead, int m, int k, int n, enum layout a, enum layout b,
                      const int64_t *a_batch, const int64_t *b_batch) {
    if (!kl_test_takes("cpu", 4)) return;
    struct product p;
    struct kl_error *err = NULL;
    product(&p, KL_F32, nb, lead, m, k, n, a, b, a_batch, b_batch);
    int before = asked().n_products;
    assert_int_equal(try(&p, true, &err), 1);
    assert_int_equal(asked().n_products, before);
    if (try(&p, false, &err) != 1) fail_msg("%s", err ? err->message : "not taken");
    assert_int_equal(asked().n_products, before + 1);
    finish();
    if (!right(&p, nb)) fail_msg("%d x %d x %d, lies %d %d", m, k, n, a, b);
    product_drop(&p);
}

/* The product must be left to Keel's kernels. */
static void by_kernels(enum kl_dtype dtype, int nb, const int *lead, int m, int k, int n,
                       enum layout a, enum layout b, const int64_t *a_batch,
                       const int64_t *b_batch) {
    struct product p;
    struct kl_error *err = NULL;
    int before = asked().n_heuristics;
    product(&p, dtype, nb, lead, m, k, n, a, b, a_batch, b_batch);
    assert_int_equal(try(&p, true, &err), 0);
    assert_int_equal(try(&p, false, &err), 0);
    assert_null(err);
    /* CuBLASLt was not even asked for an algorithm. */
    assert_int_equal(asked().n_heuristics, before);
    product_drop(&p);
}

/* ---- tests ---- */

static void matrices(void **state) {
    static const int sizes[][3] = {{64, 64, 64},  {33, 130, 71},  {200, 3, 450}, {450, 7, 130},
                                   {2, 300, 500}, {300, 1, 1000}, {70, 2000, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int a = 0; a < N_GOOD; a++)
            for (int b = 0; b < N_GOOD; b++)
                by_cublas(0, NULL, sizes[s][0], sizes[s][1], sizes[s][2], (enum layout)a,
                          (enum layout)b, NULL, NULL);
}

static void batches(void **state) {
    for (int a = 0; a < N_GOOD; a++)
        for (int b = 0; b < N_GOOD; b++) {
            by_cublas(1, (int[]){5}, 33, 40, 65, (enum layout)a, (enum layout)b, NULL, NULL);
            by_cublas(3, (int[]){2, 1, 3}, 33, 40, 65, (enum layout)a, (enum layout)b, NULL, NULL);
            /* One operand has a single matrix for the whole batch. */
            by_cublas(1, (int[]){5}, 33, 40, 65, (enum layout)a, (enum layout)b, (int64_t[]){0},
                      NULL);
            by_cublas(1, (int[]){5}, 33, 40, 65, (enum layout)a, (enum layout)b, NULL,
                      (int64_t[]){0});
            by_cublas(2, (int[]){2, 3}, 33, 40, 65, (enum layout)a, (enum layout)b, NULL,
                      (int64_t[]){0, 0});
            /* One operand has every other matrix of its block. */
            by_cublas(1, (int[]){5}, 33, 40, 65, (enum layout)a, (enum layout)b, (int64_t[]){2},
                      NULL);
            by_cublas(1, (int[]){5}, 33, 40, 65, (enum layout)a, (enum layout)b, (int64_t[]){2},
                      (int64_t[]){0});
        }
    /* A batch of single rows with the same matrix b is one product, also with gaps between the
     * rows. */
    by_cublas(1, (int[]){70}, 1, 64, 65, ROW_MAJOR, COLUMN_MAJOR, NULL, (int64_t[]){0});
    by_cublas(1, (int[]){70}, 1, 64, 65, ROWS_WITH_GAPS, ROW_MAJOR, (int64_t[]){2}, (int64_t[]){0});
}

static void not_for_cublas(void **state) {
    /* Too small to be worth a call of cuBLASLt. */
    by_kernels(KL_F32, 0, NULL, 63, 64, 64, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    by_kernels(KL_F32, 0, NULL, 1, 700, 700, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    by_kernels(KL_F32, 0, NULL, 700, 700, 1, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    by_kernels(KL_F32, 0, NULL, 700, 0, 700, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    by_kernels(KL_F32, 0, NULL, 0, 700, 700, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    by_kernels(KL_F32, 1, (int[]){0}, 100, 100, 100, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    for (int layout = NO_UNIT_STRIDE; layout <= BROADCAST_ROW; layout++) {
        by_kernels(KL_F32, 0, NULL, 100, 100, 100, (enum layout)layout, ROW_MAJOR, NULL, NULL);
        by_kernels(KL_F32, 0, NULL, 100, 100, 100, COLUMN_MAJOR, (enum layout)layout, NULL, NULL);
    }
    /* Batches whose matrices have no constant stride, in one operand or in both. */
    by_kernels(KL_F32, 2, (int[]){2, 3}, 50, 40, 60, ROW_MAJOR, ROW_MAJOR, (int64_t[]){1, 2}, NULL);
    by_kernels(KL_F32, 2, (int[]){2, 3}, 50, 40, 60, ROW_MAJOR, ROW_MAJOR, NULL, (int64_t[]){1, 0});
    by_kernels(KL_F32, 1, (int[]){2}, 50, 90, 60, ROW_MAJOR, ROW_MAJOR, (int64_t[]){-1}, NULL);
}

/* The types that cuBLASLt is asked for: 16-bit floats are summed in float32, no operand is
 * narrowed, and partial sums are not added in the output. */
static void types(void **state) {
    static const struct {
        enum kl_dtype dtype;
        int type, scale, compute;
    } cases[] = {{KL_F16, 2, 0, 68},
                 {KL_BF16, 14, 0, 68},
                 {KL_F32, 0, 0, 68},
                 {KL_F64, 1, 1, 70},
                 {KL_C64, 4, 4, 69}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct product p;
        struct kl_error *err = NULL;
        product(&p, cases[i].dtype, 0, NULL, 90, 91, 92, ROW_MAJOR, COLUMN_MAJOR, NULL, NULL);
        assert_int_equal(try(&p, true, &err), 1);
        struct asked a = asked();
        assert_int_equal(a.type, cases[i].type);
        assert_int_equal(a.scale, cases[i].scale);
        assert_int_equal(a.compute, cases[i].compute);
        assert_int_equal(a.reductions, 2);
        assert_int_equal(a.most_workspace, 32 << 20);
        for (int k = 0; k < 4; k++) assert_int_equal(a.alignments[k], 16);
        product_drop(&p);
    }
    /* cuBLASLt takes a vector times a matrix when the elements have 16 bits. */
    struct product p;
    product(&p, KL_BF16, 0, NULL, 1, 700, 700, ROW_MAJOR, COLUMN_MAJOR, NULL, NULL);
    assert_int_equal(try(&p, true, NULL), 1);
    product_drop(&p);
    by_kernels(KL_C64, 0, NULL, 1, 700, 700, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
}

/* The answer of cuBLASLt is remembered for each problem; operands with another alignment are
 * another problem. */
static void remembered(void **state) {
    struct product p;
    struct kl_error *err = NULL;
    product(&p, KL_F32, 0, NULL, 101, 102, 103, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    int before = asked().n_heuristics, live = asked().n_live;
    for (int i = 0; i < 5; i++) assert_int_equal(try(&p, i < 2, &err), 1);
    assert_int_equal(asked().n_heuristics, before + 1);
    /* The four descriptors live; the preference is freed. */
    assert_int_equal(asked().n_live, live + 4);
    static const int shifts[] = {4, 8, 16, 32, 64};
    for (int i = 0; i < 5; i++) {
        p.args[0].data = (char *)p.x[0].block + shifts[i];
        assert_int_equal(try(&p, false, &err), 1);
        struct asked a = asked();
        assert_int_equal(a.n_heuristics, before + (i < 1 ? 2 : 3));
        /* Operand B as cuBLASLt names it. */
        if (i < 2) assert_int_equal(a.alignments[1], shifts[i]);
        assert_int_equal(a.alignments[0], 16);
    }
    finish();
    product_drop(&p);
    assert_int_equal(asked().n_handles, 1);
}

static void workspace(void **state) {
    struct product p;
    struct kl_error *err = NULL;
    fake.wants(5 << 20);
    product(&p, KL_F32, 0, NULL, 104, 105, 106, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    size_t used = 0;
    /* It is asked for in the dry run, which takes no memory; the launch takes what it is given. */
    fake.budget(1);
    assert_int_equal(run_in(&p, NULL, true, 0, &used, &err), 1);
    fake.budget(0);
    assert_int_equal(used, 5 << 20);
    assert_int_equal(run_in(&p, q, false, 4 << 20, &used, &err), KL_EINTERNAL);
    kl_error_release(err);
    err = NULL;
    assert_int_equal(try(&p, false, &err), 1);
    finish();
    assert_true(right(&p, 0));
    assert_int_equal(asked().workspace, 5 << 20);
    fake.wants(0);
    product_drop(&p);
    /* Where cuBLASLt refuses at the launch, our own kernel runs. This one needs a workspace. */
    product(&p, KL_F16, 0, NULL, 1, 100000, 4, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    assert_int_equal(run_in(&p, NULL, true, 0, &used, &err), 1);
    assert_true(used > 0);
    fake.refuse("Matmul", 15);
    size_t after;
    assert_int_equal(run_in(&p, q, false, used, &after, &err), 0);
    assert_int_equal(after, 0);
    fake.refuse(NULL, 0);
    product_drop(&p);
}

/* A problem that cuBLASLt cannot prepare is left to the kernels from then on, and its descriptors
 * are freed. */
static void refusals(void **state) {
    static const char *const calls[] = {"DescCreate", "DescSet", "LayoutCreate", "LayoutSet",
                                        "PrefCreate", "PrefSet", "Heuristic"};
    static const int codes[] = {1, 7, 14, 15, -1};
    int m = 110;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 0; k < 5; k++) {
            struct product p;
            struct kl_error *err = NULL;
            if (codes[k] < 0 && strcmp(calls[i], "Heuristic") != 0) continue;
            product(&p, KL_F32, 1, (int[]){2}, m++, 50, 60, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
            fake.refuse(calls[i], codes[k]);
            assert_int_equal(try(&p, true, &err), 0);
            fake.refuse(NULL, 0);
            assert_int_equal(try(&p, true, &err), 0);
            assert_int_equal(try(&p, false, &err), 0);
            assert_null(err);
            /* Out of memory is reported, and the next attempt works. */
            struct product other;
            product(&other, KL_F32, 1, (int[]){2}, m++, 50, 60, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
            int live = asked().n_live;
            fake.refuse(calls[i], 3);
            assert_int_equal(try(&other, true, &err), KL_ENOMEM);
            fake.refuse(NULL, 0);
            kl_error_release(err);
            err = NULL;
            assert_int_equal(asked().n_live, live);
            assert_int_equal(try(&other, false, &err), 1);
            finish();
            assert_true(right(&other, 1));
            product_drop(&p);
            product_drop(&other);
        }
    /* cuBLASLt refuses only at the product itself, when nothing is in the queue yet. */
    static const int late[] = {7, 8, 15};
    for (int k = 0; k < 3; k++) {
        struct product p;
        struct kl_error *err = NULL;
        product(&p, KL_F32, 0, NULL, m++, 50, 60, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
        assert_int_equal(try(&p, true, &err), 1);
        fake.refuse("Matmul", late[k]);
        assert_int_equal(try(&p, false, &err), 0);
        fake.refuse(NULL, 0);
        assert_int_equal(try(&p, false, &err), 0);
        assert_null(err);
        product_drop(&p);
    }
}

/* An error of the product is an error of the submission. */
static void failures(void **state) {
    struct product p;
    struct kl_error *err = NULL;
    void *e = NULL;
    product(&p, KL_F32, 0, NULL, 107, 108, 109, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    assert_int_equal(kl_driver_prepare(drv, &p.c, &p.c.workspace_bytes, &err), 0);
    assert_int_equal(drv->ops->event_new(drv, &e, &err), 0);
    fake.refuse("Matmul", 13);
    assert_int_equal(kl_driver_submit(drv, q, &p.c, 1, NULL, 0, NULL, e, &err), KL_ESUBMIT);
    assert_non_null(strstr(err->message, "cublasLtMatmul failed with "
                                         "CUBLAS_STATUS_EXECUTION_FAILED (13)"));
    kl_error_release(err);
    err = NULL;
    fake.refuse("Matmul", 3);
    assert_int_equal(try(&p, false, &err), KL_ENOMEM);
    kl_error_release(err);
    err = NULL;
    fake.refuse(NULL, 0);
    assert_int_equal(kl_driver_submit(drv, q, &p.c, 1, NULL, 0, NULL, e, &err), 0);
    while (drv->ops->event_query(drv, e) == 0) drv->ops->wait_any(drv, &e, 1);
    assert_true(right(&p, 0));
    drv->ops->event_free(drv, e);
    product_drop(&p);
    /* There is no memory for the record of the problem. */
    product(&p, KL_F32, 0, NULL, 97, 98, 99, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    kl_test_fail_alloc_at(0);
    assert_int_equal(try(&p, true, &err), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    assert_int_equal(try(&p, true, &err), 1);
    product_drop(&p);
}

/* The number of remembered problems is bounded; problems beyond the bound are computed all the
 * same. */
static void many(void **state) {
    struct product p;
    struct kl_error *err = NULL;
    product(&p, KL_F32, 0, NULL, 300, 50, 60, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    int live = asked().n_live;
    for (int i = 0; i < 5000; i++) {
        /* Each stride is a problem of its own; the results are not compared. */
        p.x[0].strides[0] = 60 + i;
        p.x[0].dims[0] = p.x[2].dims[0] = 100;
        assert_int_equal(try(&p, true, &err), 1);
    }
    assert_true(asked().n_live - live <= 4 * 4096);
    p.x[0].strides[0] = 50;
    p.x[0].dims[0] = p.x[2].dims[0] = 300;
    assert_int_equal(try(&p, false, &err), 1);
    finish();
    assert_true(right(&p, 0));
    product_drop(&p);
}

struct caller {
    pthread_t thread;
    void *queue;
    int bad;
};
static void *multiplies(void *arg) {
    struct caller *c = arg;
    struct kl_error *err = NULL;
    for (int i = 0; i < 20; i++) {
        struct product p;
        product(&p, KL_F32, 0, NULL, 80 + i, 61, 62, i % 2 ? ROW_MAJOR : COLUMN_MAJOR, ROW_MAJOR,
                NULL, NULL);
        c->bad |= kl_cuda_enter(cu, &err) != 0;
        size_t used;
        c->bad |= run_in(&p, c->queue, false, ROOM_GIVEN, &used, &err) != 1;
        c->bad |= cu->api->StreamSynchronize(((struct kl_cuda_queue *)c->queue)->stream) != 0;
        c->bad |= !right(&p, 0);
        product_drop(&p);
    }
    return NULL;
}

static void threads(void **state) {
    static struct caller c[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(drv->ops->queue_new(drv, i, &c[i].queue, NULL), 0);
        assert_int_equal(pthread_create(&c[i].thread, NULL, multiplies, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].bad, 0);
    }
}

/* Runs in a process of its own, which has not loaded cuBLASLt yet: without the library, and with a
 * library that cannot be initialized. */
static int alone(const char *library, int create, const char *says) {
    const char *key = NULL;
    struct kl_error *err = NULL;
    struct product p;
    if (library) setenv("KEEL_CUBLASLT", library, 1);
    open_device();
    product(&p, KL_F32, 0, NULL, 100, 100, 100, ROW_MAJOR, ROW_MAJOR, NULL, NULL);
    fake.refuse("Create", create);
    int bad = try(&p, true, &err) != 0;
    fake.refuse(NULL, 0);
    bad |= (try(&p, false, &err) != 0) << 1 | (err != NULL) << 2;
    const char *why = kl_cuda_lacks(0, &key);
    bad |= (strcmp(key, "missing_cublaslt") != 0) << 3;
    bad |= (says ? !why || !strstr(why, says) : why != NULL) << 4;
    if (bad) printf("%s: %d, %s\n", library ? library : "", bad, why ? why : "there");
    fflush(stdout);
    return bad;
}

static void without(const char *library, int create, const char *says) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(alone(library, create, says));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void missing(void **state) {
    char path[4300];
    name_fakes("KEEL_CUBLASLT");
    bind("libcublasLt.so", "fake_blas_fail", 8);
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", fakes);
    without("/nonexistent/libcublasLt.so", 0, "KEEL_CUBLASLT=/nonexistent/libcublasLt.so");
    without("none", 0, "KEEL_CUBLASLT=none");
    without(path, 0, "libnvrtc.so has no cublasLtCreate");
    without(NULL, 1, NULL);
}

int main(void) {
    const struct CMUnitTest before[] = {cmocka_unit_test(missing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices), cmocka_unit_test(batches),    cmocka_unit_test(not_for_cublas),
        cmocka_unit_test(types),    cmocka_unit_test(remembered), cmocka_unit_test(workspace),
        cmocka_unit_test(refusals), cmocka_unit_test(failures),   cmocka_unit_test(threads),
        cmocka_unit_test(many),
    };
    int rc = cmocka_run_group_tests(before, NULL, NULL);
    return rc ? rc : cmocka_run_group_tests(tests, setup, NULL);
}
