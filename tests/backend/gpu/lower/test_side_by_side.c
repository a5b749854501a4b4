/* test_side_by_side.c - products that do not depend on each other become one launch, on a driver
 * that notes what is launched: which commands, with which arguments; what keeps commands apart;
 * kernels that cannot be merged; every allocation fails in turn. */
#include "backend/gpu/lower/fake_driver.h"
#include "backend/gpu/lower/side_by_side.h"
#include "base/op/op_params.h"

/* ---- a driver that notes its launches ---- */

enum { MOST_NOTES = 16, PARAMETER = 16 };

struct note {
    uint32_t groups[3], local;
    int n_args;
    bool merged;
    /* Of a merged launch: the number of groups of each, and the parameters of all. */
    uint32_t each[4];
    char values[4096];
    size_t bytes;
    const void *first; /* the first address of an unmerged launch */
};

static struct {
    struct kl_driver driver;
    struct note note[MOST_NOTES];
    int n;
    _Atomic(int) n_compiled; /* merged ones */
    int refuses;             /* the code with which merged sources are refused; 0: they are taken */
    bool multiplies; /* it has dense products of its own, noted as launches of local size 0 */
} fake;

static int fake_compile(struct kl_driver *p, const char *source, const char *name, void **binary,
                        size_t *bytes, struct kl_error **err) {
    const bool merged = strstr(source, "\nMERGED_KERNEL(") != NULL;
    if (merged) assert_non_null(strstr(source, "#define MERGED "));
    fake.n_compiled += merged;
    if (merged && fake.refuses) return kl_fail(err, fake.refuses, "refused");
    return fd_binary(binary, bytes, err);
}

/* A kernel is known by its name. */
static int fake_find(struct kl_driver *p, void *module, const char *entry, void **kernel,
                     struct kl_error **err) {
    static const char merged[] = "merged", single[] = "single";
    *kernel = (void *)(strncmp(entry, "merged_", 7) == 0 ? merged : single);
    return KL_OK;
}

static int fake_launch_3d(struct kl_driver *p, void *queue, void *kernel, const uint32_t *groups,
                          const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                          int n_args, struct kl_error **err) {
    assert_true(fake.n < MOST_NOTES);
    struct note *n = &fake.note[fake.n++];
    *n = (struct note){.local = local[0], .n_args = n_args};
    memcpy(n->groups, groups, sizeof n->groups);
    n->merged = strcmp(kernel, "merged") == 0;
    if (n->merged) {
        assert_int_equal(n_args, 1);
        assert_true(args[0].bytes > sizeof n->each);
        assert_true(args[0].bytes - sizeof n->each <= sizeof n->values);
        memcpy(n->each, args[0].value, sizeof n->each);
        n->bytes = args[0].bytes - sizeof n->each;
        memcpy(n->values, (const char *)args[0].value + sizeof n->each, n->bytes);
    }
    for (int i = n_args - 1; i >= 0; i--)
        if (args[i].bytes == 0) n->first = args[i].value;
    return KL_OK;
}

static int fake_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                       uint32_t local, const struct kl_karg *args, int n_args,
                       struct kl_error **err) {
    return fake_launch_3d(p, queue, kernel, (const uint32_t[]){groups, 1, 1},
                          (const uint32_t[]){local, 1, 1}, 0, args, n_args, err);
}

static int fake_copy(struct kl_driver *p, void *queue, void *dst, const void *src, size_t bytes,
                     struct kl_error **err) {
    fail_msg("nothing is to be copied");
    return KL_EINTERNAL;
}

static int fake_override(struct kl_emit *e, const struct kl_command *c) {
    if (!fake.multiplies || c->op != KL_OP_MATMUL) return 0;
    if (e->dry) return 1;
    assert_true(fake.n < MOST_NOTES);
    fake.note[fake.n++] = (struct note){.groups = {1, 1, 1}};
    return 1;
}

static const struct kl_driver_ops fake_ops = {.override = fake_override,
                                              .compile = fake_compile,
                                              .load = fd_load,
                                              .find = fake_find,
                                              .launch = fake_launch,
                                              .launch_3d = fake_launch_3d,
                                              .copy = fake_copy};

static bool fake_helper_begin(struct kl_driver *p) {
    return true;
}

static void fake_helper_end(struct kl_driver *p) {
}

/* The same where threads of the library compile. */
static struct kl_driver_ops with_helpers;

static int open_with(const struct kl_driver_ops *ops) {
    static const uint32_t max_groups[3] = {INT32_MAX, 65535, 65535},
                          max_group[3] = {1024, 1024, 64};
    memset(&fake, 0, sizeof fake);
    struct kl_driver *d = &fake.driver;
    *d = fd_driver(ops);
    d->merges = d->fast_exchange = d->compiles_cuda = true;
    d->argument_bytes = 4 << 10;
    memcpy(d->max_groups, max_groups, sizeof max_groups);
    memcpy(d->max_group, max_group, sizeof max_group);
    return 0;
}

static int open_port(void **state) {
    return open_with(&fake_ops);
}

static int open_port_with_helpers(void **state) {
    with_helpers = fake_ops;
    with_helpers.enter = fd_enter;
    with_helpers.helper_begin = fake_helper_begin;
    with_helpers.helper_end = fake_helper_end;
    return open_with(&with_helpers);
}

/* ---- commands: one row of 256 times matrices of 256 x columns ---- */

enum { K = 256, MOST_COMMANDS = 6, BLOCK = 1 << 20 };

/* Memory that nothing reads: addresses. Block 0 is the row. */
static char *block(int i) {
    return (char *)(uintptr_t)(BLOCK * (uint64_t)(16 + i));
}

struct product {
    struct kl_arg args[3];
    int dims[3][2];
    int64_t strides[3][2];
};
static struct product products[MOST_COMMANDS];
static struct kl_command commands[MOST_COMMANDS];

/* Command i: block `to` = block `from` times block `by`, which has so many columns. */
static void product(int i, int from, int by, int to, int columns) {
    struct product *p = &products[i];
    const int rows[3] = {1, K, 1}, across[3] = {K, columns, columns};
    const int blocks[3] = {from, by, to};
    for (int k = 0; k < 3; k++) {
        p->dims[k][0] = rows[k];
        p->dims[k][1] = across[k];
        p->strides[k][0] = across[k];
        p->strides[k][1] = 1;
        p->args[k] = (struct kl_arg){.data = block(blocks[k]),
                                     .dtype = KL_F32,
                                     .layout = KL_ROW_CONTIGUOUS,
                                     .ndim = 2,
                                     .dims = p->dims[k],
                                     .strides = p->strides[k],
                                     .size = (int64_t)rows[k] * across[k]};
    }
    /* Weights are stored as the transpose, as layers store them: each column is contiguous. */
    p->strides[1][0] = 1;
    p->strides[1][1] = K;
    p->args[1].layout = KL_COL_CONTIGUOUS;
    commands[i] = (struct kl_command){.kind = KL_CMD_LAUNCH,
                                      .op = KL_OP_MATMUL,
                                      .name = kl_op_name(KL_OP_MATMUL),
                                      .n_in = 2,
                                      .n_out = 1,
                                      .args = p->args};
}

/* Lowers n commands, as the driver does when they are handed over; the notes are of them alone. */
static void lower(struct kl_lowering *l, int n) {
    struct kl_error *err = NULL;
    for (int i = 0; i < n; i++) {
        size_t bytes = 0;
        if (kl_lower_prepare(l, &commands[i], &bytes, &err)) fail_msg("%s", err->message);
        assert_int_equal(bytes, 0);
    }
    fake.n = 0;
    if (kl_lower(l, &fake, commands, n, &err)) fail_msg("%s", err->message);
}

/* The launches that are expected: so many, each of so many commands. */
static void expect(int n, const int *of) {
    assert_int_equal(fake.n, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(fake.note[i].merged, of[i] > 1);
        assert_int_equal(fake.note[i].groups[1], of[i]);
    }
}

static uintptr_t word(const struct note *n, int launch, int parameter) {
    uintptr_t w;
    const size_t each = n->bytes / n->groups[1];
    memcpy(&w, n->values + (size_t)launch * each + (size_t)parameter * PARAMETER, sizeof w);
    return w;
}

/* Three products of one row: one launch, with the groups and the addresses of each. */
static void test_one_launch(void **state) {
    struct kl_lowering *l = fd_lowering(&fake.driver);
    const int columns[3] = {512, 128, 128};
    uint32_t groups[3];
    for (int i = 0; i < 3; i++) {
        product(0, 0, 1 + i, 5 + i, columns[i]);
        lower(l, 1);
        expect(1, (const int[]){1});
        groups[i] = fake.note[0].groups[0];
    }
    for (int i = 0; i < 3; i++) product(i, 0, 1 + i, 5 + i, columns[i]);
    lower(l, 3);
    expect(1, (const int[]){3});
    const struct note *n = &fake.note[0];
    assert_int_equal(n->groups[0], groups[0]); /* the most; the others leave some idle */
    assert_true(groups[0] > groups[1]);
    for (int i = 0; i < 3; i++) {
        bool has[3] = {false};
        assert_int_equal(n->each[i], groups[i]);
        const int parameters = (int)(n->bytes / 3 / PARAMETER);
        for (int k = 0; k < parameters; k++) {
            has[0] = has[0] || word(n, i, k) == (uintptr_t)block(0);
            has[1] = has[1] || word(n, i, k) == (uintptr_t)block(1 + i);
            has[2] = has[2] || word(n, i, k) == (uintptr_t)block(5 + i);
        }
        assert_true(has[0] && has[1] && has[2]);
    }
    assert_int_equal(n->each[3], 0);
}

/* What a product reads or writes keeps it apart from one that writes or reads it. */
static void test_apart(void **state) {
    struct kl_lowering *l = fd_lowering(&fake.driver);
    product(0, 0, 1, 5, K);
    product(1, 5, 2, 6, K); /* reads what the first writes */
    lower(l, 2);
    expect(2, (const int[]){1, 1});
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    product(1, 0, 2, 0, K); /* writes what both read */
    lower(l, 2);
    expect(2, (const int[]){1, 1});
    product(1, 0, 2, 5, K); /* writes the same */
    lower(l, 2);
    expect(2, (const int[]){1, 1});
    product(1, 0, 2, 6, K);
    commands[1].workspace = block(5); /* works where the first writes */
    commands[1].workspace_bytes = 4;
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    commands[1].workspace = block(7);
    assert_int_equal(kl_side_by_side(commands, 2), 2);
    commands[1].checked = true; /* it may leave a fault */
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    commands[1].checked = false;
    commands[1].n_guards = 1;
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    product(1, 0, 2, 6, 1 << 17); /* large enough to fill a device */
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    product(1, 0, 2, 6, K);
    commands[1].op = KL_OP_QUANTIZED_MATMUL;
    assert_int_equal(kl_side_by_side(commands, 2), 1);
    product(1, 0, 2, 6, K);
    products[1].args[1].dtype = KL_BF16;
    assert_int_equal(kl_side_by_side(commands, 2), 1);
}

/* The third product depends on the first: two launches, in order, and at most four in one. */
static void test_groups(void **state) {
    struct kl_lowering *l = fd_lowering(&fake.driver);
    product(0, 0, 1, 5, K);
    product(1, 0, 2, 6, K);
    product(2, 5, 3, 7, K);
    product(3, 6, 4, 8, K);
    lower(l, 4);
    expect(2, (const int[]){2, 2});
    for (int i = 0; i < 6; i++) product(i, 0, 1 + i, 8 + i, K);
    lower(l, 6);
    expect(2, (const int[]){4, 2});
}

/* Products that need other kernels, or that run on a driver without merged kernels, are launched
 * one by one, in order. */
static void test_other_kernels(void **state) {
    struct kl_lowering *l = fd_lowering(&fake.driver);
    product(0, 0, 1, 5, K);
    product(1, 0, 2, 6, K);
    products[1].strides[1][0] = K; /* rows of the matrix are contiguous */
    products[1].strides[1][1] = 1;
    products[1].args[1].layout = KL_ROW_CONTIGUOUS;
    product(2, 0, 3, 7, K);
    lower(l, 3);
    assert_int_equal(fake.n, 2);
    assert_true(fake.note[0].merged && fake.note[0].groups[1] == 2);
    assert_false(fake.note[1].merged);
    fake.driver.merges = false;
    for (int i = 0; i < 3; i++) product(i, 0, 1 + i, 5 + i, K);
    lower(l, 3);
    expect(3, (const int[]){1, 1, 1});
    fake.driver.merges = true;
}

/* Packed numbers are unpacked by a kernel, and the driver multiplies them by a library: it must see
 * them unpacked, so nothing waits meanwhile. */
static void test_libraries(void **state) {
    enum { ROWS = 12, COLUMNS = 128 };
    struct kl_lowering *l = fd_lowering(&fake.driver);
    static const struct kl_qmm_params params = {{KL_QUANT_AFFINE, 64, 4}, true};
    static struct kl_arg args[2][5];
    static const int dims[5][2] = {
        {ROWS, K}, {COLUMNS, K / 8}, {COLUMNS, K / 64}, {COLUMNS, K / 64}, {ROWS, COLUMNS}};
    static const enum kl_dtype dtypes[5] = {KL_F32, KL_U32, KL_F32, KL_F32, KL_F32};
    static int64_t strides[5][2];
    static char space[2][2 * COLUMNS * K * sizeof(float)];
    fake.multiplies = true;
    for (int i = 0; i < 2; i++) {
        for (int a = 0; a < 5; a++) {
            strides[a][0] = dims[a][1];
            strides[a][1] = 1;
            args[i][a] = (struct kl_arg){.data = block(a == 0 ? 0 : 1 + 5 * i + a),
                                         .dtype = (uint8_t)dtypes[a],
                                         .layout = KL_ROW_CONTIGUOUS,
                                         .ndim = 2,
                                         .dims = dims[a],
                                         .strides = strides[a],
                                         .size = (int64_t)dims[a][0] * dims[a][1]};
        }
        commands[i] = (struct kl_command){.kind = KL_CMD_LAUNCH,
                                          .op = KL_OP_QUANTIZED_MATMUL,
                                          .name = kl_op_name(KL_OP_QUANTIZED_MATMUL),
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .n_in = 4,
                                          .n_out = 1,
                                          .args = args[i]};
        struct kl_error *err = NULL;
        size_t bytes = 0;
        if (kl_lower_prepare(l, &commands[i], &bytes, &err)) fail_msg("%s", err->message);
        assert_in_range(bytes, COLUMNS * K * sizeof(float), sizeof space[i]);
        commands[i].workspace = space[i];
        commands[i].workspace_bytes = bytes;
    }
    assert_int_equal(kl_side_by_side(commands, 2), 2);
    fake.n = 0;
    struct kl_error *err = NULL;
    if (kl_lower(l, &fake, commands, 2, &err)) fail_msg("%s", err->message);
    assert_int_equal(fake.n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(fake.note[i].local == 0, i & 1);
    fake.multiplies = false;
}

/* A merged kernel that cannot be compiled is no error, and is tried once. */
static void test_refused(void **state) {
    struct kl_lowering *l = fd_lowering(&fake.driver);
    const int before = fake.n_compiled;
    for (int i = 0; i < 3; i++) product(i, 0, 1 + i, 5 + i, K);
    fake.refuses = KL_ECOMPILE;
    for (int round = 0; round < 3; round++) {
        lower(l, 3);
        expect(3, (const int[]){1, 1, 1});
        assert_int_equal(fake.n_compiled - before, 1);
    }
    fake.refuses = 0;
}

static void test_no_memory(void **state) {
    int n_failed = 0;
    for (int64_t n = 0;; n++) {
        struct kl_lowering *l = fd_lowering(&fake.driver);
        struct kl_error *err = NULL;
        for (int i = 0; i < 3; i++) {
            size_t bytes;
            product(i, 0, 1 + i, 5 + i, K);
            assert_int_equal(kl_lower_prepare(l, &commands[i], &bytes, &err), KL_OK);
        }
        fake.n = 0;
        kl_test_fail_alloc_at(n);
        const int rc = kl_lower(l, &fake, commands, 3, &err);
        const bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_int_equal(rc, KL_OK); /* they are launched one by one then */
        assert_null(err);
        expect(failed ? 3 : 1, failed ? (const int[]){1, 1, 1} : (const int[]){3});
        lower(l, 3); /* the next time there is memory */
        expect(1, (const int[]){3});
        if (!failed) break;
        n_failed++;
    }
    assert_true(n_failed > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_launch), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_groups),     cmocka_unit_test(test_other_kernels),
        cmocka_unit_test(test_libraries),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    const int rc = cmocka_run_group_tests(tests, open_port, NULL);
    return rc ? rc : cmocka_run_group_tests(tests, open_port_with_helpers, NULL);
}
