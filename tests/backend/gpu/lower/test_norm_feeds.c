/* test_norm_feeds.c - an addition in the kernel of the norm that reads it, on a driver that notes
 * what is launched: what the kernel is given, and that both are launched one after the other where
 * the kernel cannot be made or there is no memory. */
#include "backend/gpu/lower/fake_driver.h"
#include "base/op/op_params.h"

enum { MOST_NOTES = 8, ROWS = 3, MANY_ROWS = 1 << 12, WIDTH = 64, ARGS_OF_NORM = 12 };

static struct {
    struct kl_driver driver;
    struct {
        int n_args;
        const void *last; /* the last argument, where it is an address */
    } note[MOST_NOTES];
    int n, n_fed;   /* n_fed: kernels that compute what they read, compiled until now */
    bool refuses;   /* these are not taken */
    uint32_t limit; /* work-items of a group of these; 0: no limit */
    bool was_fed;   /* the kernel that was compiled last is one of these */
} fake;

static int fake_compile(struct kl_driver *p, const char *source, const char *name, void **binary,
                        size_t *bytes, struct kl_error **err) {
    fake.was_fed = strstr(source, "#define FED\n") != NULL;
    fake.n_fed += fake.was_fed;
    if (fake.was_fed && fake.refuses) return kl_fail(err, KL_ECOMPILE, "refused");
    return fd_binary(binary, bytes, err);
}

static int fake_limits(struct kl_driver *p, void *kernel, struct kl_kernel_limits *limits,
                       struct kl_error **err) {
    if (fake.was_fed) limits->max_local = fake.limit;
    return KL_OK;
}

static int fake_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                       uint32_t local, const struct kl_karg *args, int n_args,
                       struct kl_error **err) {
    assert_true(fake.n < MOST_NOTES);
    fake.note[fake.n].n_args = n_args;
    fake.note[fake.n].last = args[n_args - 1].bytes ? NULL : args[n_args - 1].value;
    fake.n++;
    return KL_OK;
}

static const struct kl_driver_ops fake_ops = {.compile = fake_compile,
                                              .load = fd_load,
                                              .find = fd_find,
                                              .limits = fake_limits,
                                              .launch = fake_launch};

/* Block 2 is the sum of 0 and 1; block 4 its norm with the weight in 3. That allocation fails; -1:
 * none. */
static int run(int rows, bool kept, int fail_at, struct kl_error **err) {
    static int one_row[] = {WIDTH};
    int dims[] = {rows, WIDTH};
    static int64_t strides[] = {WIDTH, 1}, one[] = {1};
    static struct kl_arg args[2][3];
    const struct kl_norm_params params = {1e-5f, true, false};
    struct kl_command c[2] = {{.op = KL_OP_ADD, .n_in = 2, .n_out = 1, .args = args[0]},
                              {.op = KL_OP_RMS_NORM,
                               .params = &params,
                               .params_bytes = sizeof params,
                               .n_in = 2,
                               .n_out = 1,
                               .args = args[1],
                               .dead = !kept}};
    static const int memory[2][3] = {{0, 1, 2}, {2, 3, 4}};
    for (int i = 0; i < 2; i++) {
        c[i].name = kl_op_name(c[i].op);
        for (int k = 0; k < 3; k++) {
            const bool is_weight = i == 1 && k == 1;
            args[i][k] = (struct kl_arg){.data = fd_block(memory[i][k]),
                                         .dtype = KL_F32,
                                         .ndim = is_weight ? 1 : 2,
                                         .dims = is_weight ? one_row : dims,
                                         .strides = is_weight ? one : strides,
                                         .size = is_weight ? WIDTH : rows * WIDTH,
                                         .layout = KL_ROW_CONTIGUOUS | KL_DENSE};
        }
    }
    fake.driver = fd_driver(&fake_ops);
    struct kl_lowering *l = fd_lowering(&fake.driver);
    size_t bytes;
    fake.n = fake.n_fed = 0;
    kl_test_fail_alloc_at(fail_at);
    for (int i = 0; i < 2; i++) KL_TRY(kl_lower_prepare(l, &c[i], &bytes, err));
    return kl_lower(l, fd_block(20), c, 2, err);
}

static void expect(int rows, bool kept, int launches, int fed) {
    struct kl_error *err = NULL;
    const int rc = run(rows, kept, -1, &err);
    if (rc) fail_msg("%d %s", rc, err->message);
    assert_int_equal(fake.n, launches);
    assert_int_equal(fake.n_fed, fed);
}

static void one_launch(void **state) {
    fake.refuses = false;
    fake.limit = 0;
    expect(MANY_ROWS, false, 1, 1);
    assert_int_equal(fake.note[0].n_args, ARGS_OF_NORM + 2);
    assert_ptr_equal(fake.note[0].last, fd_block(1));
    expect(MANY_ROWS, true, 1, 1);
    assert_int_equal(fake.note[0].n_args, ARGS_OF_NORM + 3);
    assert_ptr_equal(fake.note[0].last, fd_block(2)); /* where the sum is stored */
    for (int kept = 0; kept < 2; kept++) {            /* one program for both */
        expect(ROWS, kept, 1, 1);
        assert_ptr_equal(fake.note[0].last, fd_block(2));
    }
}

static void two_launches(void **state) {
    for (int kept = 0; kept < 2; kept++) {
        fake.refuses = true;
        fake.limit = 0;
        expect(ROWS, kept, 2, 1);
        fake.refuses = false;
        fake.limit = 1;
        expect(ROWS, kept, 2, 1);
    }
    fake.limit = 0;
}

static void no_memory(void **state) {
    int n_failed = 0, n_two = 0;
    bool more = true;
    for (int n = 0; more; n++) {
        struct kl_error *err = NULL;
        const int rc = run(ROWS, true, n, &err);
        more = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_true(rc == KL_OK || (more && rc == KL_ENOMEM));
        if (rc) assert_int_equal(err->code, KL_ENOMEM);
        kl_error_release(err);
        n_failed += rc != KL_OK;
        n_two += rc == KL_OK && fake.n == 2;
        assert_true(n < 100);
    }
    assert_int_equal(fake.n, 1);
    assert_true(n_failed > 0 && n_two > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_launch), cmocka_unit_test(two_launches),
                                       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
