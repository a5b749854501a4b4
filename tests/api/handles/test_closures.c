/* test_closures.c - closures of every kind: their arguments, their results, and ownership. */
#include "api/api_support.h"

#include <setjmp.h>

static int payload = 42, n_dtor;

static void count_dtor(void *p) {
    assert_ptr_equal(p, &payload);
    n_dtor++;
}

/* ---- arrays to arrays ---- */
static int doubled(mlx_vector_array *res, const mlx_vector_array in) {
    if (res->ctx) return 9; /* the vector of results is empty */
    mlx_array a = mlx_array_new();
    int rc = mlx_vector_array_get(&a, in, 0);
    if (!rc) rc = mlx_add(&a, a, a, cpu);
    if (!rc) rc = mlx_vector_array_set_value(res, a);
    mlx_array_free(a);
    return rc;
}

static int doubled_payload(mlx_vector_array *res, const mlx_vector_array in, void *p) {
    return *(int *)p == 42 ? doubled(res, in) : 8;
}

static int fails(mlx_vector_array *res, const mlx_vector_array in) {
    return 5;
}

static int fails_half_way(mlx_vector_array *res, const mlx_vector_array in) {
    doubled(res, in);
    return 5;
}

static int says_why(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_error("no %s today", "gradient");
    return 1;
}

static int leaves_empty(mlx_vector_array *res, const mlx_vector_array in) {
    return 0;
}

static int squared(mlx_array *res, const mlx_array a) {
    return mlx_square(res, a, cpu);
}

static int unary_fails(mlx_array *res, const mlx_array a) {
    return 3;
}

static int unary_empty(mlx_array *res, const mlx_array a) {
    return 0;
}

static void assert_first(mlx_vector_array v, const char *text) {
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, v, 0));
    assert_text(a, text);
    mlx_array_free(a);
}

static void test_apply(void **state) {
    mlx_array three = mlx_array_new_int(3);
    mlx_vector_array in = mlx_vector_array_new_value(three), out = mlx_vector_array_new();
    void *ctx = out.ctx;
    mlx_closure f = mlx_closure_new_func(doubled), g = mlx_closure_new();
    assert_null(g.ctx);
    OK(mlx_closure_apply(&out, f, in));
    assert_ptr_equal(out.ctx, ctx);
    assert_first(out, "array(6, dtype=int32)");
    OK(mlx_closure_apply(&out, f, out)); /* the result may be the input's handle */
    assert_first(out, "array(12, dtype=int32)");
    OK(mlx_closure_set(&g, f));
    OK(mlx_closure_free(f));
    mlx_vector_array fresh = no_vector;
    OK(mlx_closure_apply(&fresh, g, in));
    assert_first(fresh, "array(6, dtype=int32)");
    mlx_closure u = mlx_closure_new_unary(squared);
    OK(mlx_closure_set(&g, u)); /* the handle of the input is overwritten */
    OK(mlx_closure_apply(&out, g, in));
    assert_first(out, "array(9, dtype=int32)");
    mlx_closure_free(g);
    mlx_closure_free(u);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_vector_array_free(fresh);
    mlx_array_free(three);
}

static void test_apply_fails(void **state) {
    mlx_array one = mlx_array_new_int(1);
    mlx_vector_array in = mlx_vector_array_new_value(one), out = mlx_vector_array_new_value(one);
    mlx_closure f = mlx_closure_new_func(fails), none = mlx_closure_new();
    FAILS(mlx_closure_apply(&out, f, in), KEEL_ECALLBACK, "closure returned a non-zero value (5)");
    assert_first(out, "array(1, dtype=int32)"); /* the result is unchanged */
    FAILS(mlx_closure_apply(&out, none, in), KEEL_EARG, "cls is an empty closure");
    FAILS(mlx_closure_apply(&out, f, no_vector), KEEL_EARG, "input is an empty vector");
    FAILS(mlx_closure_apply(NULL, f, in), KEEL_EARG, "the result is NULL");
    FAILS(mlx_closure_set(&f, none), KEEL_EARG, "src is an empty closure");
    FAILS(mlx_closure_set(NULL, f), KEEL_EARG, "the result is NULL");
    mlx_closure_free(f);
    f = mlx_closure_new_func(fails_half_way);
    FAILS(mlx_closure_apply(&out, f, in), KEEL_ECALLBACK, "non-zero");
    mlx_closure_free(f);
    f = mlx_closure_new_func(leaves_empty);
    FAILS(mlx_closure_apply(&out, f, in), KEEL_ECALLBACK, "left a result empty");
    mlx_closure_free(f);
    /* The error inside is reported first, and then the failure of the closure. */
    f = mlx_closure_new_func(says_why);
    int n = seen.n;
    assert_int_equal(mlx_closure_apply(&out, f, in), 1);
    assert_int_equal(seen.n, n + 2);
    assert_non_null(strstr(seen.text, "non-zero"));
    mlx_closure_free(f);
    mlx_closure u = mlx_closure_new_unary(unary_fails), e = mlx_closure_new_unary(unary_empty);
    FAILS(mlx_closure_apply(&out, u, in), KEEL_ECALLBACK, "non-zero value (3)");
    FAILS(mlx_closure_apply(&out, e, in), KEEL_ECALLBACK, "left a result empty");
    OK(mlx_vector_array_append_value(in, one));
    FAILS(mlx_closure_apply(&out, u, in), KEEL_EARG, "takes 1 array, not 2");
    mlx_closure_free(u);
    mlx_closure_free(e);
    FAILS_ZERO(mlx_closure_new_func(NULL).ctx, KEEL_EARG, "fun is NULL");
    FAILS_ZERO(mlx_closure_new_unary(NULL).ctx, KEEL_EARG, "fun is NULL");
    OK(mlx_closure_free(none));
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(one);
}

static void test_payload(void **state) {
    mlx_array one = mlx_array_new_int(1);
    mlx_vector_array in = mlx_vector_array_new_value(one), out = mlx_vector_array_new();
    n_dtor = 0;
    mlx_closure f = mlx_closure_new_func_payload(doubled_payload, &payload, count_dtor);
    mlx_closure g = mlx_closure_new();
    OK(mlx_closure_set(&g, f));
    mlx_closure_free(f);
    assert_int_equal(n_dtor, 0);
    OK(mlx_closure_apply(&out, g, in));
    assert_first(out, "array(2, dtype=int32)");
    mlx_closure_free(g);
    assert_int_equal(n_dtor, 1);
    /* A destructor is not required. */
    f = mlx_closure_new_func_payload(doubled_payload, &payload, NULL);
    OK(mlx_closure_apply(&out, f, in));
    mlx_closure_free(f);
    FAILS_ZERO(mlx_closure_new_func_payload(NULL, &payload, count_dtor).ctx, KEEL_EARG, "fun");
    assert_int_equal(n_dtor, 1); /* a failed call has not taken the payload */
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(one);
}

/* ---- the other kinds ---- */
static int kwargs(mlx_vector_array *res, const mlx_vector_array in,
                  const mlx_map_string_to_array named) {
    mlx_array a = mlx_array_new();
    int rc = mlx_map_string_to_array_get(&a, named, "x");
    if (!rc) rc = mlx_vector_array_set_value(res, a);
    mlx_array_free(a);
    return rc;
}
static int kwargs_payload(mlx_vector_array *res, const mlx_vector_array in,
                          const mlx_map_string_to_array named, void *p) {
    return *(int *)p == 42 ? kwargs(res, in, named) : 8;
}

static int value_and_grad(mlx_vector_array *values, mlx_vector_array *grads,
                          const mlx_vector_array in) {
    return doubled(values, in) || mlx_vector_array_set(grads, in);
}
static int value_and_grad_payload(mlx_vector_array *values, mlx_vector_array *grads,
                                  const mlx_vector_array in, void *p) {
    return *(int *)p == 42 ? value_and_grad(values, grads, in) : 8;
}
static int no_grad(mlx_vector_array *values, mlx_vector_array *grads, const mlx_vector_array in) {
    return doubled(values, in);
}

static int custom(mlx_vector_array *res, const mlx_vector_array a, const mlx_vector_array b,
                  const mlx_vector_array c) {
    return mlx_vector_array_set(res, c);
}
static int custom_payload(mlx_vector_array *res, const mlx_vector_array a, const mlx_vector_array b,
                          const mlx_vector_array c, void *p) {
    return *(int *)p == 42 ? custom(res, b, a, c) : 8;
}

static int jvp(mlx_vector_array *res, const mlx_vector_array a, const mlx_vector_array b,
               const int *numbers, size_t n) {
    return n == 2 && numbers[1] == 5 ? mlx_vector_array_set(res, b) : 7;
}
static int jvp_payload(mlx_vector_array *res, const mlx_vector_array a, const mlx_vector_array b,
                       const int *numbers, size_t n, void *p) {
    return *(int *)p == 42 ? jvp(res, a, b, numbers, n) : 8;
}

static int vmap(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array in,
                const int *numbers, size_t n) {
    mlx_vector_int_set_data(axes, (int *)numbers, n);
    return mlx_vector_array_set(res, in);
}
static int vmap_payload(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array in,
                        const int *numbers, size_t n, void *p) {
    return *(int *)p == 42 ? vmap(res, axes, in, numbers, n) : 8;
}

static void test_kwargs(void **state) {
    mlx_array one = mlx_array_new_int(1);
    mlx_vector_array in = mlx_vector_array_new_value(one), out = mlx_vector_array_new();
    mlx_map_string_to_array named = mlx_map_string_to_array_new(), no_map = {NULL};
    OK(mlx_map_string_to_array_insert(named, "x", one));
    n_dtor = 0;
    mlx_closure_kwargs f = mlx_closure_kwargs_new(), g = mlx_closure_kwargs_new_func(kwargs);
    FAILS(mlx_closure_kwargs_apply(&out, f, in, named), KEEL_EARG, "cls is an empty closure");
    OK(mlx_closure_kwargs_apply(&out, g, in, named));
    OK(mlx_closure_kwargs_set(&f, g));
    OK(mlx_closure_kwargs_free(g));
    g = mlx_closure_kwargs_new_func_payload(kwargs_payload, &payload, count_dtor);
    OK(mlx_closure_kwargs_set(&f, g));
    OK(mlx_closure_kwargs_apply(&out, f, in, named));
    assert_first(out, "array(1, dtype=int32)");
    FAILS(mlx_closure_kwargs_apply(&out, f, in, no_map), KEEL_EARG, "input_1 is an empty map");
    mlx_closure_kwargs_free(g);
    mlx_closure_kwargs_free(f);
    assert_int_equal(n_dtor, 1);
    mlx_map_string_to_array_free(named);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(one);
}

static void test_value_and_grad(void **state) {
    mlx_array one = mlx_array_new_int(1);
    mlx_vector_array in = mlx_vector_array_new_value(one), v = mlx_vector_array_new(),
                     w = no_vector;
    n_dtor = 0;
    mlx_closure_value_and_grad f = mlx_closure_value_and_grad_new();
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new_func(value_and_grad);
    FAILS(mlx_closure_value_and_grad_apply(&v, &w, f, in), KEEL_EARG, "empty closure");
    OK(mlx_closure_value_and_grad_apply(&v, &w, g, in));
    assert_first(v, "array(2, dtype=int32)");
    assert_first(w, "array(1, dtype=int32)");
    FAILS(mlx_closure_value_and_grad_apply(&v, NULL, g, in), KEEL_EARG, "second result is NULL");
    mlx_closure_value_and_grad_free(g);
    g = mlx_closure_value_and_grad_new_func_payload(value_and_grad_payload, &payload, count_dtor);
    OK(mlx_closure_value_and_grad_set(&f, g));
    OK(mlx_closure_value_and_grad_apply(&v, &w, f, in));
    mlx_closure_value_and_grad_free(g);
    mlx_closure_value_and_grad_free(f);
    assert_int_equal(n_dtor, 1);
    g = mlx_closure_value_and_grad_new_func(no_grad);
    FAILS(mlx_closure_value_and_grad_apply(&v, &w, g, in), KEEL_ECALLBACK, "left a result empty");
    mlx_closure_value_and_grad_free(g);
    mlx_vector_array_free(in);
    mlx_vector_array_free(v);
    mlx_vector_array_free(w);
    mlx_array_free(one);
}

static void test_custom(void **state) {
    mlx_array one = mlx_array_new_int(1), two = mlx_array_new_int(2);
    mlx_vector_array a = mlx_vector_array_new_value(one), c = mlx_vector_array_new_value(two);
    mlx_vector_array out = mlx_vector_array_new();
    n_dtor = 0;
    mlx_closure_custom f = mlx_closure_custom_new(), g = mlx_closure_custom_new_func(custom);
    FAILS(mlx_closure_custom_apply(&out, f, a, a, c), KEEL_EARG, "empty closure");
    OK(mlx_closure_custom_apply(&out, g, a, a, c));
    assert_first(out, "array(2, dtype=int32)");
    mlx_closure_custom_free(g);
    g = mlx_closure_custom_new_func_payload(custom_payload, &payload, count_dtor);
    OK(mlx_closure_custom_set(&f, g));
    mlx_closure_custom_free(g);
    OK(mlx_closure_custom_apply(&out, f, a, a, c));
    FAILS(mlx_closure_custom_apply(&out, f, a, no_vector, c), KEEL_EARG, "input_1 is an empty");
    mlx_closure_custom_free(f);
    assert_int_equal(n_dtor, 1);
    mlx_vector_array_free(a);
    mlx_vector_array_free(c);
    mlx_vector_array_free(out);
    mlx_array_free(one);
    mlx_array_free(two);
}

static void test_custom_jvp(void **state) {
    mlx_array one = mlx_array_new_int(1), two = mlx_array_new_int(2);
    mlx_vector_array a = mlx_vector_array_new_value(one), b = mlx_vector_array_new_value(two);
    mlx_vector_array out = mlx_vector_array_new();
    n_dtor = 0;
    mlx_closure_custom_jvp f = mlx_closure_custom_jvp_new();
    mlx_closure_custom_jvp g = mlx_closure_custom_jvp_new_func(jvp);
    FAILS(mlx_closure_custom_jvp_apply(&out, f, a, b, AXES(4, 5)), KEEL_EARG, "empty closure");
    OK(mlx_closure_custom_jvp_apply(&out, g, a, b, AXES(4, 5)));
    assert_first(out, "array(2, dtype=int32)");
    FAILS(mlx_closure_custom_jvp_apply(&out, g, a, b, NULL, 2), KEEL_EARG, "input_2 is NULL");
    FAILS(mlx_closure_custom_jvp_apply(&out, g, a, b, NULL, 0), KEEL_ECALLBACK, "(7)");
    mlx_closure_custom_jvp_free(g);
    g = mlx_closure_custom_jvp_new_func_payload(jvp_payload, &payload, count_dtor);
    OK(mlx_closure_custom_jvp_set(&f, g));
    mlx_closure_custom_jvp_free(g);
    OK(mlx_closure_custom_jvp_apply(&out, f, a, b, AXES(4, 5)));
    mlx_closure_custom_jvp_free(f);
    assert_int_equal(n_dtor, 1);
    mlx_vector_array_free(a);
    mlx_vector_array_free(b);
    mlx_vector_array_free(out);
    mlx_array_free(one);
    mlx_array_free(two);
}

static void test_custom_vmap(void **state) {
    mlx_array one = mlx_array_new_int(1);
    mlx_vector_array a = mlx_vector_array_new_value(one), out = mlx_vector_array_new();
    mlx_vector_int axes = {NULL};
    n_dtor = 0;
    mlx_closure_custom_vmap f = mlx_closure_custom_vmap_new();
    mlx_closure_custom_vmap g = mlx_closure_custom_vmap_new_func(vmap);
    FAILS(mlx_closure_custom_vmap_apply(&out, &axes, f, a, AXES(3)), KEEL_EARG, "empty closure");
    OK(mlx_closure_custom_vmap_apply(&out, &axes, g, a, AXES(3)));
    int axis = 0;
    OK(mlx_vector_int_get(&axis, axes, 0));
    assert_int_equal(axis, 3);
    FAILS(mlx_closure_custom_vmap_apply(&out, NULL, g, a, AXES(3)), KEEL_EARG, "second result");
    FAILS(mlx_closure_custom_vmap_apply(&out, &axes, g, a, NULL, 1), KEEL_EARG, "input_1 is NULL");
    mlx_closure_custom_vmap_free(g);
    g = mlx_closure_custom_vmap_new_func_payload(vmap_payload, &payload, count_dtor);
    OK(mlx_closure_custom_vmap_set(&f, g));
    mlx_closure_custom_vmap_free(g);
    OK(mlx_closure_custom_vmap_apply(&out, &axes, f, a, AXES(-1, 0)));
    assert_int_equal(mlx_vector_int_size(axes), 2);
    mlx_closure_custom_vmap_free(f);
    assert_int_equal(n_dtor, 1);
    mlx_vector_int_free(axes);
    mlx_vector_array_free(a);
    mlx_vector_array_free(out);
    mlx_array_free(one);
}

/* ---- closures within closures ---- */
static int n_freed;

static void free_inner(void *ctx) {
    n_freed++;
    mlx_closure_free((mlx_closure){ctx});
}

static int call_inner(mlx_vector_array *res, const mlx_vector_array in, void *ctx) {
    return mlx_closure_apply(res, (mlx_closure){ctx}, in);
}

/* `doubled` in so many closures: of the user, or made by a transform. */
static mlx_closure tower(int levels, bool of_user) {
    mlx_closure f = mlx_closure_new_func(doubled);
    for (int i = 0; i < levels; i++) {
        if (of_user) {
            f = mlx_closure_new_func_payload(call_inner, f.ctx, free_inner);
            continue;
        }
        mlx_closure g = mlx_closure_new();
        OK(mlx_checkpoint(&g, f));
        mlx_closure_free(f);
        f = g;
    }
    return f;
}

static void test_towers_are_freed(void **state) {
    enum { LEVELS = 300000 };
    n_freed = 0;
    mlx_closure f = tower(LEVELS, true), g = mlx_closure_new();
    OK(mlx_closure_set(&g, f));
    mlx_closure_free(f);
    assert_int_equal(n_freed, 0); /* g still has it */
    mlx_closure_free(g);
    assert_int_equal(n_freed, LEVELS);
    mlx_closure_free(tower(LEVELS, false));
}

static void test_towers_have_a_limit(void **state) {
    mlx_array three = mlx_array_new_int(3);
    mlx_vector_array in = mlx_vector_array_new_value(three), out = mlx_vector_array_new();
    for (int of_user = 0; of_user < 2; of_user++) {
        mlx_closure low = tower(300, of_user), high = tower(100000, of_user);
        OK(mlx_closure_apply(&out, low, in));
        assert_first(out, "array(6, dtype=int32)");
        for (int round = 0; round < 2; round++) { /* the second time as the first */
            const int before = seen.n;
            assert_int_equal(mlx_closure_apply(&out, high, in), 1);
            assert_true(seen.n > before);
            if (!of_user) assert_non_null(strstr(seen.text, "nested deeper than 1000"));
        }
        OK(mlx_closure_apply(&out, low, in)); /* nothing of it is left */
        mlx_closure_free(low);
        mlx_closure_free(high);
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(three);
}

/* Calls that a user leaves by longjmp do not count for ever. */
static jmp_buf way_out;

static int jumps(mlx_vector_array *res, const mlx_vector_array in) {
    longjmp(way_out, 1);
}

static void test_a_jump_leaves_no_level(void **state) {
    mlx_array three = mlx_array_new_int(3);
    mlx_vector_array in = mlx_vector_array_new_value(three), out = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new_func(jumps), g = tower(1, true);
    for (volatile int i = 0; i < 2000; i++)
        if (!setjmp(way_out)) mlx_closure_apply(&out, f, in);
    OK(mlx_closure_apply(&out, g, in));
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(three);
}

static void leak_body(void) {
    test_apply(NULL);
    test_apply_fails(NULL);
    test_payload(NULL);
    test_kwargs(NULL);
    test_value_and_grad(NULL);
    test_custom(NULL);
    test_custom_jvp(NULL);
    test_custom_vmap(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_apply_fails),
        cmocka_unit_test(test_payload),
        cmocka_unit_test(test_kwargs),
        cmocka_unit_test(test_value_and_grad),
        cmocka_unit_test(test_custom),
        cmocka_unit_test(test_custom_jvp),
        cmocka_unit_test(test_custom_vmap),
        cmocka_unit_test(test_towers_are_freed),
        cmocka_unit_test(test_towers_have_a_limit),
        cmocka_unit_test(test_a_jump_leaves_no_level),
        cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
