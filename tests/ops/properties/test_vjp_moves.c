/* test_vjp_moves.c - the vjp rules of views, of operations that move elements, and of the matrix
 * product. */
#include "ops/support/vjp_support.h"

#include "base/alloc.h"

#define BUILD(name)                                                                     \
    static int name(struct kl_array **out, struct kl_array *const *in, const void *how, \
                    struct kl_error **err)

BUILD(reshape) {
    return kl_reshape(out, in[0], LIST(3, 2), cpu(), err);
}
BUILD(expand_dims) {
    return kl_expand_dims_axes(out, in[0], LIST(0, 2), cpu(), err);
}
BUILD(squeeze) {
    return kl_squeeze(out, in[0], cpu(), err);
}
BUILD(transpose) {
    return kl_transpose_axes(out, in[0], LIST(2, 0, 1), cpu(), err);
}
BUILD(broadcast) {
    return kl_broadcast_to(out, in[0], LIST(2, 2, 3), cpu(), err);
}
BUILD(broadcast_empty) {
    return kl_broadcast_to(out, in[0], LIST(0, 1), cpu(), err);
}
BUILD(slice) {
    return kl_slice(out, in[0], LIST(1, -1), LIST(2, -9), LIST(7, -2), cpu(), err);
}
BUILD(slice_empty) {
    return kl_slice(out, in[0], LIST(1, 0), LIST(1, 3), LIST(1, 1), cpu(), err);
}
BUILD(slice_update) {
    return kl_slice_update(out, in[0], in[1], LIST(0, -1), LIST(2, -9), LIST(1, -2), cpu(), err);
}
BUILD(concatenate) {
    return kl_concatenate_axis(out, in, 3, 1, cpu(), err);
}
BUILD(concatenate_again) {
    return kl_concatenate_axis(out, (struct kl_array *[]){in[0], in[1], in[0]}, 3, 1, cpu(), err);
}
BUILD(as_strided) {
    return kl_as_strided(out, in[0], LIST(3, 2, 2), (int64_t[]){-1, 0, 2}, 3, 2, cpu(), err);
}
BUILD(as_strided_0d) {
    return kl_as_strided(out, in[0], NULL, 0, NULL, 0, 4, cpu(), err);
}
BUILD(as_strided_empty) {
    return kl_as_strided(out, in[0], LIST(0), (int64_t[]){1}, 1, 0, cpu(), err);
}
BUILD(diagonal) {
    const int *p = how;
    return kl_diagonal(out, in[0], p[0], p[1], p[2], cpu(), err);
}
BUILD(matmul) {
    return kl_matmul(out, in[0], in[1], cpu(), err);
}
BUILD(gather) {
    return kl_gather(out, in[0], in + 1, 2, LIST(1, 0), LIST(1, 2), cpu(), err);
}
BUILD(take_along_axis) {
    return kl_take_along_axis(out, in[0], in[1], 1, cpu(), err);
}
BUILD(put_along_axis) {
    return kl_put_along_axis(out, in[0], in[1], in[2], 1, cpu(), err);
}
BUILD(scatter_add_axis) {
    return kl_scatter_add_axis(out, in[0], in[1], in[2], 1, cpu(), err);
}
BUILD(scatter) {
    kl_scatter_fn *const *fn = how;
    return (*fn)(out, in[0], in + 2, 1, in[1], LIST(0), cpu(), err);
}
BUILD(depends) {
    struct kl_array **outs;
    size_t n;
    KL_TRY(kl_depends(&outs, &n, in, 1, in + 1, 1, cpu(), err));
    *out = outs[0];
    kl_free(outs);
    return KL_OK;
}

static struct kl_array *numbers(enum kl_dtype dtype, int ndim, const int *dims, int seed) {
    union {
        double d[64];
        float f[64];
    } v;
    for (int i = 0; i < 64; i++) {
        double x = (i * 37 + seed * 11) % 64 / 16.0 - 2; /* all values are different */
        if (dtype == KL_F64)
            v.d[i] = x;
        else
            v.f[i] = (float)x;
    }
    return array_of(dtype, ndim, dims, &v);
}

static void one(const char *what, vjp_build_fn *build, const void *how, int ndim, const int *dims) {
    for (int k = 0; k < 2; k++) {
        struct kl_array *a = numbers(k ? KL_C64 : KL_F64, ndim, dims, 1);
        check_vjp(what, build, how, &a, 1, 0);
        kl_array_release(a);
    }
}

static void views(void **state) {
    one("reshape", reshape, NULL, SHAPE(2, 3));
    one("expand_dims", expand_dims, NULL, SHAPE(2, 3));
    one("squeeze", squeeze, NULL, SHAPE(1, 3, 1));
    one("transpose", transpose, NULL, SHAPE(2, 1, 3));
    one("broadcast_to", broadcast, NULL, SHAPE(2, 1));
    one("broadcast_to, 0-d", broadcast, NULL, SCALAR);
    one("broadcast_to, empty", broadcast_empty, NULL, SHAPE(1, 1));
    one("slice", slice, NULL, SHAPE(3, 5));
    one("slice, empty", slice_empty, NULL, SHAPE(2, 3));
    one("as_strided", as_strided, NULL, SHAPE(2, 3));
    one("as_strided, 0-d", as_strided_0d, NULL, SHAPE(2, 3));
    one("as_strided, empty", as_strided_empty, NULL, SHAPE(2, 3));
    one("diagonal", diagonal, (int[]){0, 0, 1}, SHAPE(2, 3));
    one("diagonal 1", diagonal, (int[]){1, 2, 0}, SHAPE(2, 2, 3));
    one("diagonal -1", diagonal, (int[]){-1, 0, 2}, SHAPE(4, 2, 2));
    one("diagonal, empty", diagonal, (int[]){9, 0, 1}, SHAPE(2, 3));
}

static void joins(void **state) {
    for (int k = 0; k < 2; k++) {
        enum kl_dtype d = k ? KL_C64 : KL_F64;
        struct kl_array *a = numbers(d, SHAPE(2, 4), 1), *b = numbers(d, SHAPE(2, 2), 2),
                        *c = numbers(d, SHAPE(2, 0), 3);
        check_vjp("slice_update", slice_update, NULL, (struct kl_array *[]){a, b}, 2, 0);
        check_vjp("concatenate", concatenate, NULL, (struct kl_array *[]){a, c, b}, 3, 0);
        check_vjp("concatenate with itself", concatenate_again, NULL, (struct kl_array *[]){a, b},
                  2, 0);
        kl_array_release(a);
        kl_array_release(b);
        kl_array_release(c);
    }
    struct kl_array *a = numbers(KL_F64, SHAPE(2, 3), 1), *i = I32(SHAPE(2), 1, 0), *t;
    EXPECT_OK(kl_add(&t, i, i, cpu(), &err));
    check_vjp("depends", depends, NULL, (struct kl_array *[]){a, t}, 2, 0);
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(t);
}

static void products(void **state) {
    for (int k = 0; k < 2; k++) {
        enum kl_dtype d = k ? KL_C64 : KL_F64;
        struct kl_array *a = numbers(d, SHAPE(2, 2, 3), 1), *b = numbers(d, SHAPE(2, 3, 4), 2);
        check_vjp("matmul", matmul, NULL, (struct kl_array *[]){a, b}, 2, 0);
        kl_array_release(a);
        kl_array_release(b);
    }
}

static void indexed(void **state) {
    struct kl_array *i = I32(SHAPE(2, 2), 0, -1, 1, 0), *j = I32(SHAPE(2, 2), 0, 2, 1, 2),
                    *distinct = I32(SHAPE(2, 2), 3, 1, 0, -2), *rows = I32(SHAPE(2), 2, 0),
                    *same = I32(SHAPE(2), 1, 1), *from = I32(SHAPE(2, 2), 0, 1, 1, 0);
    for (int k = 0; k < 2; k++) {
        enum kl_dtype d = k ? KL_C64 : KL_F64;
        struct kl_array *a = numbers(d, SHAPE(3, 3), 1), *b = numbers(d, SHAPE(2, 4), 2),
                        *v = numbers(d, SHAPE(2, 2), 3), *u = numbers(d, SHAPE(2, 1, 3), 4);
        /* Index array 0 selects along axis 1, array 1 along axis 0. */
        check_vjp("gather", gather, NULL, (struct kl_array *[]){a, from, j}, 3, 0);
        check_vjp("take_along_axis", take_along_axis, NULL, (struct kl_array *[]){b, i}, 2, 0);
        check_vjp("put_along_axis", put_along_axis, NULL, (struct kl_array *[]){b, distinct, v}, 3,
                  0);
        check_vjp("scatter_add_axis", scatter_add_axis, NULL, (struct kl_array *[]){b, i, v}, 3, 0);
        kl_scatter_fn *const assign = kl_scatter, *const add = kl_scatter_add,
                             *const max = kl_scatter_max, *const min = kl_scatter_min,
                             *const prod = kl_scatter_prod;
        check_vjp("scatter", scatter, &assign, (struct kl_array *[]){a, u, rows}, 3, 0);
        check_vjp("scatter_add", scatter, &add, (struct kl_array *[]){a, u, rows}, 3, 0);
        check_vjp("scatter_add, one place", scatter, &add, (struct kl_array *[]){a, u, same}, 3, 0);
        check_vjp("scatter_prod", scatter, &prod, (struct kl_array *[]){a, u, rows}, 3, 0);
        check_vjp("scatter_prod, one place", scatter, &prod, (struct kl_array *[]){a, u, same}, 3,
                  0);
        struct kl_array *seven = numbers(d, SHAPE(7, 1, 3), 4),
                        *mixed = I32(SHAPE(7), 2, 0, -1, 2, 1, 0, 2);
        check_vjp("scatter_prod, runs", scatter, &prod, (struct kl_array *[]){a, seven, mixed}, 3,
                  0);
        kl_array_release(seven);
        kl_array_release(mixed);
        if (d == KL_F64) {
            check_vjp("scatter_max", scatter, &max, (struct kl_array *[]){a, u, rows}, 3, 0);
            check_vjp("scatter_min, one place", scatter, &min, (struct kl_array *[]){a, u, same}, 3,
                      0);
        }
        struct kl_array *used[] = {a, b, v, u};
        for (int n = 0; n < 4; n++) kl_array_release(used[n]);
    }
    struct kl_array *used[] = {i, j, distinct, rows, same, from};
    for (int n = 0; n < 6; n++) kl_array_release(used[n]);
}

/* slice_dynamic and slice_update_dynamic are composed of a gather and a scatter. */
BUILD(slice_dynamic) {
    return kl_slice_dynamic(out, in[0], in[1], LIST(0, 1), LIST(2, 2), cpu(), err);
}
BUILD(slice_update_dynamic) {
    return kl_slice_update_dynamic(out, in[0], in[1], in[2], LIST(1), cpu(), err);
}

static void dynamic_slices(void **state) {
    for (int k = 0; k < 2; k++) {
        enum kl_dtype d = k ? KL_C64 : KL_F64;
        struct kl_array *a = numbers(d, SHAPE(3, 4), 1), *u = numbers(d, SHAPE(2, 3), 2),
                        *at = I32(SHAPE(2), 1, 2), *one_at = I32(SHAPE(1), 1);
        check_vjp("slice_dynamic", slice_dynamic, NULL, (struct kl_array *[]){a, at}, 2, 0);
        check_vjp("slice_update_dynamic", slice_update_dynamic, NULL,
                  (struct kl_array *[]){a, u, one_at}, 3, 0);
        struct kl_array *used[] = {a, u, at, one_at};
        for (int n = 0; n < 4; n++) kl_array_release(used[n]);
    }
}

/* Each allocation of a rule fails in turn, and nothing leaks. */
static void without_memory(const char *what, vjp_build_fn *build, const void *how,
                           struct kl_array *const *in, int n_in) {
    struct kl_array *out;
    bool wanted[8] = {true, true, true, true};
    struct kl_trace *trace = begin_trace(in, n_in);
    EXPECT_OK(build(&out, in, how, &err));
    leave_trace(in, n_in);
    struct kl_node *node = out->node;
    struct kl_vjp v = {
        node->task.op, node->task.params, node->n_in, 1, node->in, &out, &out, wanted, cpu()};
    for (int n = 0;; n++) {
        struct kl_array *grad[8] = {0};
        struct kl_error *err = NULL;
        int64_t live = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        int rc = kl_vjp_rule(node->task.op)(&v, grad, &err);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        for (int k = 0; k < 8; k++) kl_array_release(grad[k]);
        if (rc && !(failed && rc == KL_ENOMEM)) fail_msg("%s, allocation %d: code %d", what, n, rc);
        kl_error_release(err);
        if (kl_test_n_live() > live) fail_msg("%s, allocation %d: leak", what, n);
        if (!failed) break;
    }
    kl_trace_end(trace);
    kl_array_release(out);
}

static void no_memory(void **state) {
    struct kl_array *m = numbers(KL_F64, SHAPE(2, 4), 1), *z = numbers(KL_C64, SHAPE(2, 2), 1),
                    *u = numbers(KL_F64, SHAPE(2, 1, 4), 2), *i = I32(SHAPE(2, 1), 0, 1),
                    *rows = I32(SHAPE(2), 1, 0), *v = numbers(KL_F64, SHAPE(2, 1), 2),
                    *six = numbers(KL_F64, SHAPE(2, 3), 1);
    kl_scatter_fn *const assign = kl_scatter, *const max = kl_scatter_max,
                         *const prod = kl_scatter_prod;
    kl_until_quiet();
    without_memory("reshape", reshape, NULL, &six, 1);
    without_memory("transpose", transpose, NULL, &u, 1);
    without_memory("broadcast", broadcast, NULL, &v, 1);
    without_memory("slice", slice, NULL, &m, 1);
    without_memory("as_strided", as_strided, NULL, &m, 1);
    without_memory("diagonal", diagonal, (int[]){1, 0, 1}, &m, 1);
    without_memory("slice_update", slice_update, NULL, (struct kl_array *[]){m, v}, 2);
    without_memory("concatenate", concatenate, NULL, (struct kl_array *[]){m, m, m}, 3);
    without_memory("matmul", matmul, NULL, (struct kl_array *[]){z, z}, 2);
    without_memory("take_along_axis", take_along_axis, NULL, (struct kl_array *[]){m, i}, 2);
    without_memory("put_along_axis", put_along_axis, NULL, (struct kl_array *[]){m, i, v}, 3);
    without_memory("slice_dynamic", slice_dynamic, NULL, (struct kl_array *[]){m, rows}, 2);
    without_memory("scatter", scatter, &assign, (struct kl_array *[]){m, u, rows}, 3);
    without_memory("scatter_max", scatter, &max, (struct kl_array *[]){m, u, rows}, 3);
    without_memory("scatter_prod", scatter, &prod, (struct kl_array *[]){m, u, rows}, 3);
    struct kl_array *used[] = {m, z, u, i, rows, v, six};
    for (int k = 0; k < 7; k++) kl_array_release(used[k]);
}

/* The gradient of one factor is the product of the others: it is no quotient, so a zero, or a
 * product that overflows, does no harm. Place 0 has no update, 1 one, 2 three, 3 two. */
static void zeros_in_products(void **state) {
    struct kl_array *a = array_of(KL_F64, SHAPE(4), (double[]){2, 3, 5, 1}),
                    *u = array_of(KL_F64, SHAPE(6, 1), (double[]){7, 0, 4, 1e200, 6, 1e250}),
                    *i = I32(SHAPE(6), 1, 2, 2, 3, 2, 3),
                    *g = array_of(KL_F64, SHAPE(4), (double[]){1, 10, 100, 1}), *out,
                    *grad[3] = {0};
    bool wanted[3] = {true, true, false};
    EXPECT_OK(kl_scatter_prod(&out, a, &i, 1, u, LIST(0), cpu(), &err));
    struct kl_node *n = out->node;
    struct kl_vjp v = {n->task.op, n->task.params, 3, 1, n->in, &out, &g, wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_SCATTER)(&v, grad, &err));
    double *base = values_of(grad[0]), *updates = values_of(grad[1]);
    assert_memory_equal(base, ((double[]){1, 70, 0, INFINITY}), 4 * sizeof *base);
    assert_memory_equal(updates, ((double[]){30, 12000, 0, 1e250, 0, 1e200}), 6 * sizeof *updates);
    free(base);
    free(updates);
    struct kl_array *used[] = {a, u, i, g, out, grad[0], grad[1]};
    for (int k = 0; k < 7; k++) kl_array_release(used[k]);
}

/* A rule makes only what is wanted. */
static void no_gradient(void **state) {
    struct kl_array *a = numbers(KL_F64, SHAPE(3, 3), 1), *u = numbers(KL_F64, SHAPE(1, 1, 3), 2),
                    *i = I32(SHAPE(1), 1), *out, *grad[3] = {0};
    bool none[3] = {0};
    EXPECT_OK(kl_scatter_prod(&out, a, &i, 1, u, LIST(0), cpu(), &err));
    struct kl_node *n = out->node;
    struct kl_vjp v = {n->task.op, n->task.params, 3, 1, n->in, &out, &out, none, cpu()};
    assert_int_equal(kl_vjp_rule(KL_OP_SCATTER)(&v, grad, NULL), KL_OK);
    assert_null(grad[0]);
    assert_null(grad[1]);
    assert_ptr_equal(kl_vjp_rule(KL_OP_VIEW),
                     kl_vjp_refuse); /* a view of the bits has no gradient */
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(u);
    kl_array_release(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views),
                                       cmocka_unit_test(joins),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(indexed),
                                       cmocka_unit_test(dynamic_slices),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(zeros_in_products),
                                       cmocka_unit_test(no_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
