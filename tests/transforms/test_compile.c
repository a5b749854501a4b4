/* test_compile.c - every operation compiled: replays give the bits of plain code, also of its
 * gradient, in every mode, and of shapes that differ from those of the trace. */
#include "transforms/compile.h"
#include "transforms/subject.h"

static void compiled(struct kl_function *out, const struct kl_function *f, bool shapeless) {
    EXPECT_OK(kl_compile(out, f, 0, shapeless, NULL, 0, &err));
}

static void same_bits(const char *name, struct kl_array *a, struct kl_array *b) {
    assert_int_equal(a->t.dtype, b->t.dtype);
    expect_shape(a, b->t.ndim, b->t.dims);
    void *x = values_of(a), *y = values_of(b);
    if (memcmp(x, y, (size_t)a->t.size * kl_dtype_size((enum kl_dtype)a->t.dtype)) != 0)
        fail_msg("%s: compiled, the bits differ", name);
    free(x);
    free(y);
}

/* f plain and compiled on arguments of the same shapes: once to trace and twice to replay. */
static void check(const char *name, const struct kl_function *f, struct subject *s) {
    struct kl_function c;
    struct kl_array *args[MOST_INPUTS];
    compiled(&c, f, false);
    for (int round = 0; round < 3; round++) {
        struct kl_arrays want = {0}, got = {0};
        arguments_of(s, args);
        double from = 0.5, to = 2;
        row_interval(s->c.op, &from, &to);
        for (int k = 0; k < s->n; k++) args[k] = numbers_like(args[k], from, to);
        EXPECT_OK(kl_function_call(f, args, (size_t)s->n, &want, &err));
        EXPECT_OK(kl_function_call(&c, args, (size_t)s->n, &got, &err));
        assert_int_equal(got.n, want.n);
        for (size_t i = 0; i < want.n; i++) same_bits(name, got.v[i], want.v[i]);
        release_each(args, s->n);
        kl_arrays_free(&want);
        kl_arrays_free(&got);
    }
    kl_function_release(&c);
}

static void every_operation(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_C64, KL_BF16};
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            struct subject s;
            if (subject_of(&s, i, dtypes[d]) && s.c.in[s.which[0]].values != SQUARES) {
                struct kl_function f = {.call = call_case, .ctx = &s};
                check(s.c.name, &f, &s);
                n++;
            }
            subject_free(&s);
        }
    }
    assert_in_range(n, 300, 100000);
}

/* The gradient of a compiled function. */
struct inner {
    struct kl_function c;
    struct subject *s;
};
static int call_gradient_of_compiled(void *ctx, struct kl_array *const *args, size_t n,
                                     struct kl_arrays *outs, struct kl_error **e) {
    struct inner *in = ctx;
    struct kl_arrays values = {0};
    int all[MOST_INPUTS];
    for (size_t i = 0; i < n; i++) all[i] = (int)i;
    int rc = kl_value_and_grad(&in->c, all, n, args, n, &values, outs, e);
    kl_arrays_free(&values);
    return rc;
}

static void gradients(void **state) {
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        struct subject s;
        if (subject_of(&s, i, KL_F32) && s.c.in[s.which[0]].values != SQUARES && give_weights(&s)) {
            struct kl_function g = {.call = call_gradient, .ctx = &s},
                               f = {.call = call_sum, .ctx = &s};
            check(s.c.name, &g, &s); /* a compiled gradient */
            struct inner in = {.s = &s};
            compiled(&in.c, &f, false);
            struct kl_function of = {.call = call_gradient_of_compiled, .ctx = &in};
            struct kl_array *args[MOST_INPUTS];
            struct kl_arrays want = {0}, got = {0};
            arguments_of(&s, args);
            EXPECT_OK(kl_function_call(&g, args, (size_t)s.n, &want, &err));
            for (int round = 0; round < 2; round++) { /* traced, then replayed */
                EXPECT_OK(kl_function_call(&of, args, (size_t)s.n, &got, &err));
                for (size_t k = 0; k < want.n; k++) same_bits(s.c.name, got.v[k], want.v[k]);
                kl_arrays_free(&got);
            }
            kl_arrays_free(&want);
            kl_function_release(&in.c);
            n++;
        }
        subject_free(&s);
    }
    assert_in_range(n, 80, 100000);
}

/* ---- one function, looked at closely ---- */

static int calls;

/* x * 2 + y and the sum of its exp, with an operand of fewer axes and numbers. */
static int formula(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                   struct kl_error **e) {
    struct kl_array *two = scalar_of(KL_F32, 2), *p = NULL, *q = NULL, *r = NULL, *again = NULL;
    calls++;
    KL_TRY(kl_arrays_new(outs, 2, e));
    int rc = kl_multiply(&p, in[0], two, cpu(), e);
    if (!rc) rc = kl_multiply(&again, in[0], two, cpu(), e);
    if (!rc) rc = kl_add(&q, p, in[1], cpu(), e);
    if (!rc) rc = kl_subtract(&outs->v[0], q, again, cpu(), e);
    if (!rc) rc = kl_exp(&r, q, cpu(), e);
    if (!rc) rc = kl_sum_axes(&outs->v[1], r, LIST(1), false, cpu(), e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(two);
    kl_array_release(p);
    kl_array_release(q);
    kl_array_release(r);
    kl_array_release(again);
    return rc;
}

static struct kl_array *shaped(int rows, int columns) {
    struct kl_array *like = array_of(KL_F32, SHAPE(rows, columns), NULL),
                    *a = numbers_like(like, -1, 1);
    kl_array_release(like);
    return a;
}

static void expect_formula(const struct kl_function *c, int rows, int columns) {
    struct kl_function f = {.call = formula};
    struct kl_array *in[2] = {shaped(rows, columns), shaped(1, columns)};
    struct kl_arrays want = {0}, got = {0};
    EXPECT_OK(kl_function_call(&f, in, 2, &want, &err));
    calls--;
    EXPECT_OK(kl_function_call(c, in, 2, &got, &err));
    for (int i = 0; i < 2; i++) same_bits("formula", got.v[i], want.v[i]);
    kl_arrays_free(&want);
    kl_arrays_free(&got);
    release_each(in, 2);
}

static void traced_once_per_kind(void **state) {
    struct kl_function f = {.call = formula}, c;
    calls = 0;
    compiled(&c, &f, false);
    expect_formula(&c, 2, 3);
    expect_formula(&c, 2, 3);
    assert_int_equal(calls, 1);
    expect_formula(&c, 4, 3);
    assert_int_equal(calls, 2);
    kl_compile_clear();
    expect_formula(&c, 4, 3);
    assert_int_equal(calls, 3);
    kl_compile_set_mode(KL_COMPILE_DISABLED);
    expect_formula(&c, 4, 3);
    assert_int_equal(calls, 4);
    kl_compile_set_mode(KL_COMPILE_NO_SIMPLIFY);
    expect_formula(&c, 4, 3);
    expect_formula(&c, 4, 3);
    assert_int_equal(calls, 5);
    kl_compile_set_mode(KL_COMPILE_ENABLED);
    expect_formula(&c, 4, 3);
    assert_int_equal(calls, 5);
    kl_function_release(&c);
}

static void call_formula(const struct kl_function *c, int rows, int columns) {
    struct kl_array *in[2] = {shaped(rows, columns), shaped(1, columns)};
    struct kl_arrays got = {0};
    EXPECT_OK(kl_function_call(c, in, 2, &got, &err));
    kl_arrays_free(&got);
    release_each(in, 2);
}

/* A function that is called with ever new shapes keeps a bounded number of plans: the one that was
 * not used for the longest time goes. */
static void plans_are_bounded(void **state) {
    enum { MOST = 4096 };
    struct kl_function f = {.call = formula}, c;
    calls = 0;
    compiled(&c, &f, false);
    for (int i = 0; i < MOST; i++) call_formula(&c, i / 64 + 1, i % 64 + 1);
    for (int i = 0; i < MOST; i += 99) call_formula(&c, i / 64 + 1, i % 64 + 1);
    assert_int_equal(calls, MOST); /* until here all are kept, and found */
    call_formula(&c, 1, 65);
    call_formula(&c, 1, 65);
    call_formula(&c, 1, 1); /* it was used again, so it stays */
    assert_int_equal(calls, MOST + 1);
    call_formula(&c, 1, 2); /* the oldest: it is traced again */
    assert_int_equal(calls, MOST + 2);
    call_formula(&c, 1, 4); /* the second oldest went for it */
    assert_int_equal(calls, MOST + 2);
    call_formula(&c, 1, 3);
    assert_int_equal(calls, MOST + 3);
    kl_function_release(&c);
}

static void shapeless(void **state) {
    struct kl_function f = {.call = formula}, c;
    calls = 0;
    compiled(&c, &f, true);
    for (int rows = 1; rows < 5; rows++)
        for (int columns = 1; columns < 5; columns++) expect_formula(&c, rows, columns);
    assert_int_equal(calls, 1);
    kl_function_release(&c);
}

/* Shapes that follow from others: (rows, -1), merged and split axes. */
static int reshapes(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                    struct kl_error **e) {
    struct kl_array *wide = NULL;
    int rc = kl_arrays_new(outs, 3, e);
    if (!rc) rc = kl_reshape(&outs->v[0], in[0], LIST(2, -1), cpu(), e);
    if (!rc) rc = kl_unflatten(&wide, in[0], 1, LIST(2, -1), cpu(), e);
    if (!rc) rc = kl_flatten(&outs->v[1], wide, 0, 1, cpu(), e);
    if (!rc) rc = kl_flatten(&outs->v[2], wide, 0, -1, cpu(), e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(wide);
    return rc;
}

static void shapeless_reshapes(void **state) {
    struct kl_function f = {.call = reshapes}, c;
    compiled(&c, &f, true);
    for (int rows = 1; rows < 5; rows++) {
        for (int columns = 2; columns < 9; columns += 2) {
            struct kl_array *x = shaped(rows, columns);
            struct kl_arrays want = {0}, got = {0};
            EXPECT_OK(kl_function_call(&f, &x, 1, &want, &err));
            EXPECT_OK(kl_function_call(&c, &x, 1, &got, &err));
            for (int i = 0; i < 3; i++) same_bits("reshapes", got.v[i], want.v[i]);
            kl_arrays_free(&want);
            kl_arrays_free(&got);
            kl_array_release(x);
        }
    }
    kl_function_release(&c);
}

static int take(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                struct kl_error **e) {
    KL_TRY(kl_arrays_new(outs, 1, e));
    int rc = kl_take_axis(&outs->v[0], in[0], in[1], 0, cpu(), e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* Traced with indices that are proved to be good, replayed with bad ones: they are checked. And
 * shapeless, with an axis that is smaller. */
static void checks_hold_in_replays(void **state) {
    for (int without_shapes = 0; without_shapes < 2; without_shapes++) {
        struct kl_function f = {.call = take}, c;
        struct kl_array *good, *x = shaped(4, 2), *less = shaped(without_shapes ? 3 : 4, 2),
                               *bad = I32(SHAPE(4), 0, 1, 4, 2);
        struct kl_arrays outs = {0};
        EXPECT_OK(kl_arange(&good, 0, 4, 1, KL_I32, cpu(), &err));
        assert_true(good->has_range);
        compiled(&c, &f, without_shapes);
        struct kl_array *first[2] = {x, good}, *second[2] = {less, without_shapes ? good : bad};
        for (int round = 0; round < 2; round++) {
            EXPECT_OK(kl_function_call(&c, first, 2, &outs, &err));
            EXPECT_OK(kl_eval(outs.v, 1, &err));
            kl_arrays_free(&outs);
            EXPECT_OK(kl_function_call(&c, second, 2, &outs, &err));
            assert_int_equal(kl_eval(outs.v, 1, NULL), KL_EINDEX);
            kl_arrays_free(&outs);
        }
        kl_function_release(&c);
        kl_array_release(good);
        kl_array_release(bad);
        kl_array_release(x);
        kl_array_release(less);
    }
}

static int evaluates(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                     struct kl_error **e) {
    struct kl_array *y;
    KL_TRY(kl_exp(&y, in[0], cpu(), e));
    int rc = kl_eval(&y, 1, e);
    kl_array_release(y);
    return rc ? rc : kl_arrays_new(outs, 0, e);
}

static void failed_traces_leave_nothing(void **state) {
    struct kl_function f = {.call = evaluates}, c;
    struct kl_array *x = shaped(2, 2);
    struct kl_arrays outs = {0};
    compiled(&c, &f, false);
    for (int round = 0; round < 2; round++)
        assert_int_equal(kl_function_call(&c, &x, 1, &outs, NULL), KL_ETRACE);
    kl_function_release(&c);
    kl_array_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation),
        cmocka_unit_test(gradients),
        cmocka_unit_test(traced_once_per_kind),
        cmocka_unit_test(plans_are_bounded),
        cmocka_unit_test(shapeless),
        cmocka_unit_test(shapeless_reshapes),
        cmocka_unit_test(checks_hold_in_replays),
        cmocka_unit_test(failed_traces_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
