/* test_op.c - op.h: names are unique, and flags are as the kernels need them. */
#include "support.h"

#include "base/op/op.h"

static void names(void **state) {
    for (int i = 0; i < KL_N_OPS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(kl_op_name((enum kl_op_id)i), kl_op_name((enum kl_op_id)j));
    assert_string_equal(kl_op_name(KL_OP_CAST), "astype");
    assert_string_equal(kl_op_name((enum kl_op_id) - 1), "unknown");
    assert_string_equal(kl_op_name(KL_N_OPS), "unknown");
}

static void flags(void **state) {
    assert_int_equal(kl_op_flags(KL_OP_ADD), KL_OPF_ELEMENTWISE);
    assert_int_equal(kl_op_flags(KL_OP_RESHAPE), KL_OPF_VIEW);
    assert_int_equal(kl_op_flags(KL_OP_SCATTER), KL_OPF_CHECKED | KL_OPF_BASE_IN_PLACE);
    assert_int_equal(kl_op_flags(KL_OP_SUM), KL_OPF_FETCHES);
    assert_int_equal(kl_op_flags(KL_OP_RANDOM_BITS), KL_OPF_BEGINS_RUN);
    assert_int_equal(kl_op_flags(KL_OP_SORT), 0);
    assert_int_equal(kl_op_flags(KL_N_OPS), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(flags)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
