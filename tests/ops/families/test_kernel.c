/* test_kernel.c - the operation of a custom kernel where it cannot run, and the description that it
 * owns. tests/api/ops/test_kernel.c has kernels that run. */
#include "graph/graph_support.h"
#include "base/op/kernel_desc.h"
#include "base/op/op_params.h"
#include "ops/kernel.h"

static struct kl_kernel_desc *description(void) {
    const struct kl_kernel_desc d = {.name = "mine",
                                     .entry = "keel_mine",
                                     .source = "text",
                                     .grid = {1, 1, 1},
                                     .group = {1, 1, 1}};
    return kl_kernel_desc_new(&d);
}

static void test_description(void **state) {
    int64_t live = kl_test_n_live();
    struct kl_kernel_desc *d = description();
    assert_string_equal(d->name, "mine");
    assert_string_equal(d->entry, "keel_mine");
    assert_string_equal(d->source, "text");
    assert_ptr_equal(kl_kernel_desc_retain(d), d);
    kl_kernel_desc_release(d);
    assert_string_equal(d->source, "text");
    kl_kernel_desc_release(d);
    kl_kernel_desc_release(NULL);
    assert_int_equal(kl_test_n_live(), live);
    kl_test_fail_alloc_at(0);
    assert_null(description());
    kl_test_fail_alloc_at(-1);
}

/* The API lets no kernel reach the CPU. Should one reach it, the operation fails with a message and
 * releases its description. */
static void test_on_the_cpu(void **state) {
    struct kl_stream *s;
    struct kl_error *e = NULL;
    const int dims[] = {3};
    assert_int_equal(kl_stream_default(&s, KL_CPU, 0, NULL), 0);
    for (int n_out = 1; n_out <= 2; n_out++) {
        struct kl_kernel_params p = {kl_kernel_desc_retain(description())};
        struct kl_out_spec specs[] = {{KL_F32, 1, dims}, {KL_I8, 0, NULL}};
        struct kl_array *outs[2] = {NULL};
        assert_int_equal(kl_array_op(outs, n_out, specs,
                                     &(struct kl_operation){.op = KL_OP_KERNEL,
                                                            .stream = s,
                                                            .params = &p,
                                                            .params_bytes = sizeof p},
                                     &e),
                         0);
        assert_int_equal(kl_eval(outs, (size_t)n_out, &e), KL_EUNSUPPORTED);
        assert_non_null(strstr(e->message, "mine"));
        assert_non_null(strstr(e->message, "needs a GPU"));
        kl_error_release(e);
        e = NULL;
        for (int i = 0; i < n_out; i++) kl_array_release(outs[i]);
        kl_stream_synchronize(s, NULL);
        for (int i = 0; atomic_load(&p.desc->refs) > 1 && i < 1000; i++) sched_yield();
        assert_int_equal(atomic_load(&p.desc->refs), 1);
        kl_kernel_desc_release(p.desc);
    }
    kl_stream_release(s);
}

/* An operation that was refused owns nothing. */
static void test_refused(void **state) {
    struct kl_stream *s;
    struct kl_error *e = NULL;
    const int bad[] = {-3}, good[] = {2};
    assert_int_equal(kl_stream_default(&s, KL_CPU, 0, NULL), 0);
    struct kl_kernel_params p = {description()};
    struct kl_out_spec specs[] = {{KL_F32, 1, good}, {KL_F32, 1, bad}};
    struct kl_array *outs[2] = {NULL};
    assert_int_equal(
        kl_array_op(outs, 2, specs,
                    &(struct kl_operation){
                        .op = KL_OP_KERNEL, .stream = s, .params = &p, .params_bytes = sizeof p},
                    &e),
        KL_ESHAPE);
    assert_null(outs[0]);
    assert_int_equal(atomic_load(&p.desc->refs), 1);
    kl_kernel_desc_release(p.desc);
    kl_error_release(e);
    kl_stream_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_on_the_cpu),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
