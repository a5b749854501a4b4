/* test_rows.c - the element-wise functions compared with their rows in op_list.def: the dtypes
 * that are taken, the dtype of the result, bad arguments, allocation failures, gradients. */
#include "ops/support/helpers.h"

#include "base/alloc.h"
#include "ops/support/rows.h"
#include "ops/support/vjp_support.h"

static int build_row(int which, struct kl_array **out, struct kl_array *const *in,
                     struct kl_stream *s, struct kl_error **err) {
    if (which < N_ROWS_OF_ONE) return rows_of_one[which].build(out, in[0], s, err);
    return rows_of_two[which - N_ROWS_OF_ONE].build(out, in[0], in[1], s, err);
}
enum { N_ROWS = N_ROWS_OF_ONE + N_ROWS_OF_TWO };
static const char *name_of(int which) {
    return which < N_ROWS_OF_ONE ? rows_of_one[which].name
                                 : rows_of_two[which - N_ROWS_OF_ONE].name;
}
static enum kl_op_id op_of(int which) {
    return which < N_ROWS_OF_ONE ? rows_of_one[which].op : rows_of_two[which - N_ROWS_OF_ONE].op;
}

/* Every dtype is taken or refused as the row says. The kernel gets the dtype in which the row says
 * that it computes. */
static void dtypes(void **state) {
    for (int i = 0; i < N_ROWS; i++)
        for (int d = 0; d < KL_N_DTYPES; d++) {
            enum kl_dtype t = (enum kl_dtype)d;
            enum kl_op_id op = op_of(i);
            struct kl_array *x = scalar_of(t, 1), *in[2] = {x, x}, *out = NULL;
            struct kl_error *err = NULL;
            int rc = build_row(i, &out, in, cpu(), &err);
            if (rc != (kl_op_takes(op, t) ? KL_OK : KL_EDTYPE))
                fail_msg("%s of %s: code %d", name_of(i), kl_dtype_name(t), rc);
            kl_error_release(err);
            if (rc == KL_OK) {
                enum kl_dtype computed = kl_op_compute_dtype(op, t);
                enum kl_dtype want = kl_op_result_dtype(op, computed);
                bool shift_of_bool =
                    t == KL_BOOL && (op == KL_OP_LEFT_SHIFT || op == KL_OP_RIGHT_SHIFT);
                if (shift_of_bool) want = KL_U8;
                if ((enum kl_dtype)out->t.dtype != want)
                    fail_msg("%s of %s gives %s", name_of(i), kl_dtype_name(t),
                             kl_dtype_name((enum kl_dtype)out->t.dtype));
                if (kl_op_has_kernel_for(op, t)) {
                    assert_non_null(out->node);
                    if (out->node->task.op != op)
                        fail_msg("%s of %s is %s", name_of(i), kl_dtype_name(t),
                                 kl_op_name(out->node->task.op));
                }
                free(values_of(out)); /* this fails when the CPU has no kernel */
                kl_array_release(out);
            }
            kl_array_release(x);
        }
}

static void bad_arguments(void **state) {
    struct kl_array *two = F32(SHAPE(2), 1, 2), *three = F32(SHAPE(3), 1, 2, 3),
                    *bits = I32(SHAPE(2), 1, 2), *more = I32(SHAPE(3), 1, 2, 3), *out;
    for (int i = 0; i < N_ROWS; i++) {
        bool integers = !kl_op_takes(op_of(i), KL_F32);
        struct kl_array *a = integers ? bits : two, *b = integers ? more : three;
        EXPECT_FAIL(KL_EARG, build_row(i, &out, (struct kl_array *[]){NULL, a}, cpu(), &err));
        EXPECT_FAIL(KL_EARG, build_row(i, &out, (struct kl_array *[]){a, a}, NULL, &err));
        assert_int_equal(build_row(i, &out, (struct kl_array *[]){NULL, NULL}, cpu(), NULL),
                         KL_EARG);
        if (i < N_ROWS_OF_ONE) continue;
        EXPECT_FAIL(KL_EARG, build_row(i, &out, (struct kl_array *[]){a, NULL}, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, build_row(i, &out, (struct kl_array *[]){a, b}, cpu(), &err));
    }
    struct kl_array *all[] = {two, three, bits, more};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* Each builder survives the failure of each of its allocations, also of those for conversions. */
static void allocation_failures(void **state) {
    kl_until_quiet(); /* what was evaluated before is freed by other threads */
    for (int i = 0; i < N_ROWS; i++)
        for (int d = 0; d < KL_N_DTYPES; d++) {
            if (!kl_op_takes(op_of(i), (enum kl_dtype)d)) continue;
            struct kl_array *x = scalar_of((enum kl_dtype)d, 1), *in[2] = {x, x};
            for (int n = 0;; n++) {
                struct kl_array *out = x;
                struct kl_error *err = NULL;
                int64_t live = kl_test_n_live();
                kl_test_fail_alloc_at(n);
                int rc = build_row(i, &out, in, cpu(), &err);
                bool failed = kl_test_alloc_failed();
                kl_test_fail_alloc_at(-1);
                if (!failed) {
                    assert_int_equal(rc, KL_OK);
                    kl_array_release(out);
                    break;
                }
                if (rc != KL_ENOMEM || out != x || !err)
                    fail_msg("%s of %s, allocation %d: code %d", name_of(i),
                             kl_dtype_name((enum kl_dtype)d), n, rc);
                kl_error_release(err);
                assert_int_equal(kl_test_n_live(), live);
            }
            kl_array_release(x);
        }
}

/* ---- gradients ---- */

static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    return build_row(*(const int *)how, out, in, cpu(), err);
}

static void gradients(void **state) {
    for (int i = 0; i < N_ROWS; i++) {
        const enum kl_op_id op = op_of(i);
        const int n_in = i < N_ROWS_OF_ONE ? 1 : 2;
        double from = n_in == 1 ? rows_of_one[i].from : rows_of_two[i - N_ROWS_OF_ONE].from;
        double to = n_in == 1 ? rows_of_one[i].to : rows_of_two[i - N_ROWS_OF_ONE].to;
        /* A row has an interval exactly when it has a vjp rule. */
        assert_int_equal(kl_vjp_rule(op) != NULL, from < to);
        if (from >= to) continue;
        double x[6], y[6];
        for (int k = 0; k < 6; k++) {
            x[k] = from + (to - from) * (k + 0.5) / 6;
            y[k] = to - (to - from) * (k * 5 % 6 + 0.3) / 6;
        }
        struct kl_array *in[2] = {array_of(KL_F64, SHAPE(2, 3), x),
                                  array_of(KL_F64, SHAPE(2, 3), y)};
        bool real = kl_op_has_kernel_for(op, KL_F64);
        if (real) check_vjp(name_of(i), build, &i, in, n_in, 0);
        for (int k = 0; k < 2; k++) kl_array_release(in[k]);
        if (!kl_op_has_kernel_for(op, KL_C64)) {
            assert_true(real);
            continue;
        }
        in[0] = array_of(KL_C64, SHAPE(4),
                         (float[]){0.5f, 0.8f, -0.7f, 0.6f, 0.9f, -1.1f, -1.2f, -0.5f});
        in[1] =
            array_of(KL_C64, SHAPE(4), (float[]){0.3f, -0.8f, 1.1f, 0.2f, -0.4f, 1.0f, 0.5f, 0.5f});
        check_vjp(name_of(i), build, &i, in, n_in, 0);
        for (int k = 0; k < 2; k++) kl_array_release(in[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dtypes), cmocka_unit_test(bad_arguments),
                                       cmocka_unit_test(allocation_failures),
                                       cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
