/* test_on_gpu_workspace.c - workspaces on a real device (KEEL_TEST_GPU: opencl unless set; cuda):
 * they are counted, come back to the cache and from there to the driver, and an operation for whose
 * workspace there is no memory fails alone. */
#include "graph/graph_support.h"
#include "ops/ops.h"
#include "ops/support/ok.h"
#include "runtime/block_pool.h"

enum { N = 1 << 18 };
static struct kl_stream *stream;
static float values[N];

static int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", want ? want : "opencl", 1);
    struct kl_error *e = NULL;
    for (int i = 0; i < N; i++) values[i] = (float)((i * 7919LL) % N);
    if (kl_stream_new(&stream, KL_GPU, 0, &e)) print_error("%s\n", e ? e->message : "no device");
    return stream ? 0 : -1;
}

static int tear_down(void **state) {
    kl_stream_release(stream);
    return 0;
}

/* `values` in the device's memory alone. */
static struct kl_array *on_device(void) {
    const int n = N;
    struct kl_array *host, *zero, *x;
    OK(kl_array_new_data(&host, values, KL_F32, 1, &n, &err));
    OK(kl_zeros(&zero, &n, 1, KL_F32, stream, &err));
    OK(kl_add(&x, host, zero, stream, &err));
    OK(kl_eval(&x, 1, &err));
    kl_array_release(host);
    kl_array_release(zero);
    return x;
}

static int sort(struct kl_array **out, struct kl_array *x, struct kl_error **err) {
    return kl_sort_axis(out, x, 0, stream, err);
}
static int scan(struct kl_array **out, struct kl_array *x, struct kl_error **err) {
    return kl_cumsum(out, x, 0, false, true, stream, err);
}

static void wait_until_settled(struct kl_array *x) {
    OK(kl_eval(&x, 1, &err));
    OK(kl_stream_synchronize(stream, &err));
}

static void memory_comes_back(void **state) {
    static int (*const ops[])(struct kl_array **, struct kl_array *, struct kl_error **) = {sort,
                                                                                            scan};
    /* A sort needs at least a copy of its elements, a scan less. */
    static const size_t least[] = {(size_t)N * 4, 1};
    for (int i = 0; i < 2; i++) {
        struct kl_array *x = on_device(), *y;
        kl_memory_clear_cache();
        size_t before = kl_memory_active();
        assert_int_equal(kl_memory_cached(), 0);
        kl_memory_reset_peak();
        OK(ops[i](&y, x, &err));
        wait_until_settled(y);
        assert_true(kl_memory_peak() >= before + (size_t)N * 4 + least[i]);
        kl_array_release(y);
        assert_int_equal(kl_memory_active(), before);
        assert_true(kl_memory_cached() >= (size_t)N * 4 + least[i]);
        kl_memory_clear_cache();
        assert_int_equal(kl_memory_cached(), 0);
        kl_array_release(x);
    }
}

/* Sorts that follow each other on a stream use the same memory. */
static void one_after_another(void **state) {
    struct kl_array *x = on_device(), *y[4];
    kl_memory_clear_cache();
    size_t before = kl_memory_active();
    kl_memory_reset_peak();
    OK(sort(&y[0], x, &err));
    wait_until_settled(y[0]);
    size_t one = kl_memory_peak() - before - (size_t)N * 4;
    for (int i = 1; i < 4; i++) OK(sort(&y[i], x, &err));
    OK(kl_eval(y + 1, 3, &err));
    wait_until_settled(y[1]);
    assert_true(kl_memory_active() + kl_memory_cached() <= before + 4 * (size_t)N * 4 + one);
    for (int i = 0; i < 4; i++) kl_array_release(y[i]);
    kl_array_release(x);
}

static void no_memory(void **state) {
    struct kl_array *x = on_device(), *all[3];
    void *got;
    kl_memory_clear_cache();
    /* There is room for the three results, and for nothing else of their size. */
    kl_test_memory_budget(kl_memory_active() + 3 * (size_t)N * 4 + (size_t)N);
    OK(kl_negative(&all[0], x, stream, &err));
    OK(sort(&all[1], x, &err));
    OK(kl_abs(&all[2], x, stream, &err));
    struct kl_error *e = NULL;
    kl_async_eval(all, 3, &e);
    kl_error_release(e);
    e = t_error(all[1]);
    assert_int_equal(e->code, KL_ENOMEM);
    kl_error_release(e);
    wait_until_settled(all[0]);
    wait_until_settled(all[2]);
    kl_test_memory_budget((size_t)-1);
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
    OK(sort(&all[1], x, &err)); /* now there is enough */
    OK(kl_array_host(all[1], &got, &err));
    for (int i = 0; i < N; i++) assert_true(((float *)got)[i] == (float)i);
    kl_array_release(all[1]);
    kl_array_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_comes_back),
                                       cmocka_unit_test(one_after_another),
                                       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
