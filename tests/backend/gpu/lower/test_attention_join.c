/* test_attention_join.c - attention of few rows whose keys are cut into segments, on a driver that
 * notes what is launched: one launch where the device counts groups, two where it does not or has
 * too few counters; the counters are those of the queue. */
#include "backend/gpu/lower/fake_driver.h"
#include "base/op/op_params.h"

enum { MOST_NOTES = 8, COUNTERS_AT = 7, WIDTH = 64 };

static struct {
    struct kl_driver driver;
    struct {
        uint32_t groups;
        int n_args;
        const void *counters; /* of a kernel that takes them */
    } note[MOST_NOTES];
    int n;
} fake;

static int fake_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                       uint32_t local, const struct kl_karg *args, int n_args,
                       struct kl_error **err) {
    assert_true(fake.n < MOST_NOTES);
    fake.note[fake.n].groups = groups;
    fake.note[fake.n].n_args = n_args;
    if (n_args > COUNTERS_AT && args[COUNTERS_AT].bytes == 0)
        fake.note[fake.n].counters = args[COUNTERS_AT].value;
    fake.n++;
    return KL_OK;
}

/* The queue of these tests is its counters. */
static void *fake_counters(void *queue) {
    return queue;
}

static const struct kl_driver_ops fake_ops = {.compile = fd_compile,
                                              .load = fd_load,
                                              .find = fd_find,
                                              .launch = fake_launch,
                                              .counters = fake_counters};

/* Lowers attention of `heads` heads with one row each, in float32. */
static void run(bool counts, int heads, int keys) {
    static struct kl_arg args[4];
    static int dims[4][4];
    static int64_t strides[4][4];
    const struct kl_attention_params params = {.scale = 0.125f};
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = KL_OP_ATTENTION,
                           .name = "attention",
                           .params = &params,
                           .params_bytes = sizeof params,
                           .n_in = 3,
                           .n_out = 1,
                           .args = args,
                           .workspace = fd_block(9)};
    struct kl_error *err = NULL;
    for (int i = 0; i < 4; i++) {
        const int of[] = {1, heads, i == 1 || i == 2 ? keys : 1, WIDTH};
        memcpy(dims[i], of, sizeof of);
        kl_strides_row_major(4, of, strides[i]);
        args[i] = (struct kl_arg){.data = fd_block(i),
                                  .dtype = KL_F32,
                                  .ndim = 4,
                                  .dims = dims[i],
                                  .strides = strides[i],
                                  .size = (int64_t)of[1] * of[2] * WIDTH,
                                  .layout = KL_ROW_CONTIGUOUS | KL_DENSE};
    }
    fake.driver = fd_driver(&fake_ops);
    fake.driver.counts_groups = counts;
    fake.driver.n_units = 4096;
    struct kl_lowering *l = fd_lowering(&fake.driver);
    assert_int_equal(kl_lower_prepare(l, &c, &c.workspace_bytes, &err), KL_OK);
    fake.n = 0;
    assert_int_equal(kl_lower(l, fd_block(20), &c, 1, &err), KL_OK);
}

static void one_launch(void **state) {
    run(true, 8, 1000);
    assert_int_equal(fake.n, 1);
    assert_int_equal(fake.note[0].groups, 8 * 8); /* segments of 128 keys */
    assert_ptr_equal(fake.note[0].counters, fd_block(20));
    /* Keys of one segment need no counter; it is the same kernel. */
    run(true, 8, 100);
    assert_int_equal(fake.n, 1);
    assert_int_equal(fake.note[0].groups, 8);
    run(true, KL_COUNTERS, 1000);
    assert_int_equal(fake.n, 1);
}

static void two_launches(void **state) {
    run(false, 8, 1000);
    assert_int_equal(fake.n, 2);
    assert_int_equal(fake.note[0].n_args, 9);
    assert_int_equal(fake.note[1].groups, 8);
    run(true, KL_COUNTERS + 1, 1000);
    assert_int_equal(fake.n, 2);
    assert_int_equal(fake.note[0].n_args, 10);
    assert_null(fake.note[0].counters);
    assert_int_equal(fake.note[1].groups, KL_COUNTERS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_launch),
                                       cmocka_unit_test(two_launches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
