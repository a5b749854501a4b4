/* test_cpu_kernels.c - every operation has a CPU kernel, except for views, what a plan replaces
 * before anything runs (CALL, PLACEHOLDER and DEFERRED), and what groups of processes do. */
#include "backend/cpu/kernel_support.h"

static void complete(void **state) {
    for (int i = 0; i < KL_N_OPS; i++) {
        bool none = (kl_op_flags((enum kl_op_id)i) & KL_OPF_VIEW) || i == KL_OP_CALL ||
                    i == KL_OP_PLACEHOLDER || i == KL_OP_DEFERRED ||
                    kl_op_is_collective((enum kl_op_id)i);
        if ((kl_cpu_kernel((enum kl_op_id)i) == NULL) != none)
            fail_msg("%s", kl_op_name((enum kl_op_id)i));
    }
    assert_null(kl_cpu_kernel(KL_N_OPS));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(complete)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
