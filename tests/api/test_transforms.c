/* test_transforms.c - evaluation of several arrays; vjp, jvp and value_and_grad. Custom
 * functions and checkpoints: test_custom.c; vmap: test_vmap.c. */
#include "api/function_support.h"

static void test_eval(void **state) {
    mlx_array a = INTS(1, 2), r = mlx_array_new(), s = mlx_array_new();
    OK(mlx_add(&r, a, a, cpu));
    OK(mlx_multiply(&s, r, r, cpu));
    mlx_vector_array v = mlx_vector_array_new_data((mlx_array[]){r, s, a}, 3);
    OK(mlx_eval(v));
    bool done = false;
    OK(_mlx_array_is_available(&done, s));
    assert_true(done);
    assert_text(s, "array([4, 16], dtype=int32)");
    mlx_vector_array none = mlx_vector_array_new();
    OK(mlx_eval(none));
    OK(mlx_async_eval(none));
    FAILS(mlx_eval(no_vector), KEEL_EARG, "mlx_eval: outputs is an empty vector handle");
    FAILS(mlx_async_eval(no_vector), KEEL_EARG, "mlx_async_eval: outputs is an empty vector");
    mlx_vector_array_free(v);
    mlx_vector_array_free(none);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_array_free(s);
}

/* The call reports the first failure in the order of the vector. The other arrays can be read. */
static void test_first_failure(void **state) {
    mlx_array a = INTS(1, 2, 3), five = INTS(5), six = INTS(6);
    mlx_array bad5 = mlx_array_new(), bad6 = mlx_array_new(), good = mlx_array_new();
    OK(mlx_take_axis(&bad5, a, five, 0, cpu));
    OK(mlx_take_axis(&bad6, a, six, 0, cpu));
    OK(mlx_add(&good, a, a, cpu));
    mlx_vector_array v = mlx_vector_array_new_data((mlx_array[]){good, bad6, bad5}, 3);
    FAILS(mlx_eval(v), KEEL_EINDEX, "6");
    FAILS(mlx_array_eval(bad5), KEEL_EINDEX, "5");
    bool done = false;
    OK(_mlx_array_is_available(&done, good));
    assert_true(done);
    assert_text(good, "array([2, 4, 6], dtype=int32)");
    mlx_vector_array_free(v);
    mlx_array all[] = {a, five, six, bad5, bad6, good};
    for (int i = 0; i < 6; i++) mlx_array_free(all[i]);
}

static void test_async(void **state) {
    mlx_array a = INTS(1, 2, 3), r = mlx_array_new();
    OK(mlx_add(&r, a, a, cpu));
    mlx_vector_array v = mlx_vector_array_new_value(r);
    OK(mlx_async_eval(v));
    OK(mlx_async_eval(v));
    OK(_mlx_array_wait(r));
    assert_text(r, "array([2, 4, 6], dtype=int32)");
    mlx_vector_array_free(v);
    mlx_array_free(a);
    mlx_array_free(r);
}

/* ---- functions ---- */

static int twice_and_square(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, add(x, x), square(x));
}

/* sum(x * x * y), and x as a further result */
static int cubic(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), y = at(in, 1);
    return GIVE(res, sum(multiply(square(x), y)), x);
}

static int pass_on(mlx_vector_array *res, const mlx_vector_array in) {
    return mlx_vector_array_set(res, in);
}

static int nothing(mlx_vector_array *res, const mlx_vector_array in) {
    *res = mlx_vector_array_new();
    return 0;
}

/* x^3, and two results that take no cotangent */
static int with_stops(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, stop_gradient(x), multiply(x, square(x)), stop_gradient(number(4)));
}

static int cube(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, multiply(x, square(x)));
}

static int fails_midway(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    add(x, square(x));
    return 7;
}

static int bad_call(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, matmul(at(in, 0), number(2)));
}

static int leaves_empty(mlx_vector_array *res, const mlx_vector_array in) {
    return 0;
}

/* ---- vjp and jvp ---- */

typedef int transform_fn(mlx_vector_array *, mlx_vector_array *, const mlx_closure,
                         const mlx_vector_array, const mlx_vector_array);

struct pair {
    mlx_array value[3], made[3];
};

/* Frees the lists and gives the results in the pool. */
static struct pair apply(transform_fn *transform, list_fn *f, mlx_vector_array primals,
                         mlx_vector_array along) {
    struct pair p = {0};
    mlx_vector_array values = mlx_vector_array_new(), made = mlx_vector_array_new();
    mlx_closure c = mlx_closure_new_func(f);
    OK(transform(&values, &made, c, primals, along));
    for (size_t i = 0; i < mlx_vector_array_size(values); i++) p.value[i] = at(values, i);
    for (size_t i = 0; i < mlx_vector_array_size(made); i++) p.made[i] = at(made, i);
    mlx_vector_array_free(values);
    mlx_vector_array_free(made);
    mlx_vector_array_free(primals);
    mlx_vector_array_free(along);
    mlx_closure_free(c);
    return p;
}

/* The transform must fail like that, and must leave its results as they were. */
static void refuse(transform_fn *transform, list_fn *f, mlx_vector_array primals,
                   mlx_vector_array along, int before, int code, const char *part) {
    mlx_vector_array values = LIST_OF(number(8)), made = mlx_vector_array_new();
    mlx_closure c = mlx_closure_new_func(f);
    int n = seen.n;
    assert_int_equal(transform(&values, &made, c, primals, along), 1);
    check_error(n + before, code, part, "transform", __FILE__, __LINE__);
    assert_int_equal(mlx_vector_array_size(values), 1);
    assert_int_equal(mlx_vector_array_size(made), 0);
    mlx_vector_array_free(values);
    mlx_vector_array_free(made);
    mlx_vector_array_free(primals);
    mlx_vector_array_free(along);
    mlx_closure_free(c);
    /* the next transform works */
    struct pair p = apply(mlx_vjp, cube, LIST_OF(number(2)), LIST_OF(number(1)));
    assert_text(p.made[0], "array(12, dtype=float32)");
}

static void products_once(void) {
    struct pair p = apply(mlx_vjp, twice_and_square, LIST_OF(VECTOR(1, 2)),
                          LIST_OF(VECTOR(1, 10), VECTOR(1, 100)));
    assert_text(p.value[0], "array([2, 4], dtype=float32)");
    assert_text(p.value[1], "array([1, 4], dtype=float32)");
    assert_text(p.made[0], "array([4, 420], dtype=float32)");
    p = apply(mlx_jvp, twice_and_square, LIST_OF(VECTOR(1, 2)), LIST_OF(VECTOR(1, 10)));
    assert_text(p.value[1], "array([1, 4], dtype=float32)");
    assert_text(p.made[0], "array([2, 20], dtype=float32)");
    assert_text(p.made[1], "array([2, 40], dtype=float32)");
    /* outputs of stop_gradient take no cotangent, and their tangents are zeros */
    p = apply(mlx_vjp, with_stops, LIST_OF(number(2)), LIST_OF(number(10)));
    assert_text(p.made[0], "array(120, dtype=float32)");
    /* or one for each output, of which those are not looked at */
    p = apply(mlx_vjp, with_stops, LIST_OF(number(2)),
              LIST_OF(VECTOR(1, 2), number(10), number(0)));
    assert_text(p.made[0], "array(120, dtype=float32)");
    p = apply(mlx_jvp, with_stops, LIST_OF(number(2)), LIST_OF(number(10)));
    assert_text(p.made[0], "array(0, dtype=float32)");
    assert_text(p.made[1], "array(120, dtype=float32)");
    assert_text(p.made[2], "array(0, dtype=float32)");
    /* results are arguments, and one argument given twice */
    mlx_array x = VECTOR(1, 2);
    p = apply(mlx_vjp, pass_on, LIST_OF(x, x), LIST_OF(VECTOR(3, 4), VECTOR(5, 6)));
    assert_text(p.value[0], "array([1, 2], dtype=float32)");
    assert_text(p.made[0], "array([3, 4], dtype=float32)");
    assert_text(p.made[1], "array([5, 6], dtype=float32)");
    p = apply(mlx_jvp, pass_on, LIST_OF(x, x), LIST_OF(VECTOR(3, 4), VECTOR(5, 6)));
    assert_text(p.made[1], "array([5, 6], dtype=float32)");
    /* no result, no argument */
    p = apply(mlx_vjp, nothing, LIST_OF(x), mlx_vector_array_new());
    assert_text(p.made[0], "array([0, 0], dtype=float32)");
    p = apply(mlx_jvp, nothing, LIST_OF(x), LIST_OF(x));
    assert_null(p.made[0].ctx);
    apply(mlx_vjp, pass_on, mlx_vector_array_new(), mlx_vector_array_new());
    apply(mlx_jvp, pass_on, mlx_vector_array_new(), mlx_vector_array_new());
    drop_to(0);
}

static void test_products(void **state) {
    assert_no_leak(products_once);
}

static void refusals_once(void) {
    mlx_array x = VECTOR(1, 2), whole = keep(INTS(1, 2)), half = keep(mlx_array_new());
    mlx_astype(&pool[n_pooled - 1], x, MLX_FLOAT16, cpu);
    half = pool[n_pooled - 1];
    refuse(mlx_vjp, twice_and_square, LIST_OF(x), LIST_OF(x), 0, KEEL_EARG,
           "mlx_vjp: 1 cotangents are too few for 2 outputs");
    refuse(mlx_vjp, twice_and_square, LIST_OF(x), LIST_OF(x, x, x), 0, KEEL_EARG,
           "3 cotangents are too many for 2 outputs");
    refuse(mlx_vjp, twice_and_square, LIST_OF(x), LIST_OF(x, number(1)), 0, KEEL_ESHAPE,
           "cotangent 1 has shape ()");
    refuse(mlx_vjp, twice_and_square, LIST_OF(x), LIST_OF(x, half), 0, KEEL_EDTYPE,
           "cotangent 1 is float16, and its output is float32");
    refuse(mlx_vjp, twice_and_square, LIST_OF(whole), LIST_OF(x, x), 0, KEEL_EDTYPE,
           "argument 0 is int32");
    refuse(mlx_jvp, twice_and_square, LIST_OF(x), LIST_OF(x, x), 0, KEEL_EARG,
           "2 tangents for 1 arguments");
    refuse(mlx_jvp, twice_and_square, LIST_OF(x), mlx_vector_array_new(), 0, KEEL_EARG,
           "0 tangents for 1 arguments");
    refuse(mlx_jvp, twice_and_square, LIST_OF(x), LIST_OF(number(1)), 0, KEEL_ESHAPE,
           "tangent 0 has shape ()");
    refuse(mlx_jvp, twice_and_square, LIST_OF(x), LIST_OF(half), 0, KEEL_EDTYPE,
           "tangent 0 is float16, and its argument is float32");
    refuse(mlx_jvp, twice_and_square, LIST_OF(whole), LIST_OF(x), 0, KEEL_EDTYPE,
           "argument 0 is int32");
    /* functions that fail: their own error comes first, if there is one */
    transform_fn *const both[] = {mlx_vjp, mlx_jvp};
    for (int i = 0; i < 2; i++) {
        refuse(both[i], fails_midway, LIST_OF(x), LIST_OF(x), 0, KEEL_ECALLBACK,
               "closure returned a non-zero value (7)");
        refuse(both[i], bad_call, LIST_OF(x), LIST_OF(x), 1, KEEL_ECALLBACK,
               "closure returned a non-zero value");
        refuse(both[i], leaves_empty, LIST_OF(x), LIST_OF(x), 0, KEEL_ECALLBACK,
               "left a result empty");
    }
    mlx_closure none = mlx_closure_new();
    mlx_vector_array list = LIST_OF(x), r = mlx_vector_array_new();
    FAILS(mlx_vjp(&r, &r, none, list, list), KEEL_EARG, "fun is an empty");
    FAILS(mlx_jvp(&r, &r, none, list, list), KEEL_EARG, "fun is an empty");
    mlx_closure f = mlx_closure_new_func(cube);
    FAILS(mlx_vjp(&r, &r, f, no_vector, list), KEEL_EARG, "primals is an empty");
    FAILS(mlx_vjp(&r, &r, f, list, no_vector), KEEL_EARG, "cotangents is an empty");
    FAILS(mlx_jvp(&r, &r, f, list, no_vector), KEEL_EARG, "tangents is an empty");
    FAILS(mlx_vjp(NULL, &r, f, list, list), KEEL_EARG, "NULL");
    FAILS(mlx_vjp(&r, NULL, f, list, list), KEEL_EARG, "NULL");
    mlx_closure_free(f);
    mlx_vector_array_free(list);
    mlx_vector_array_free(r);
    drop_to(0);
}

static void test_refusals(void **state) {
    assert_no_leak(refusals_once);
}

/* The results may be the handles of the arguments, and live handles keep their pointers. */
static void test_handles(void **state) {
    mlx_vector_array v = LIST_OF(number(3)), g = LIST_OF(number(1)), none = mlx_vector_array_new();
    void *before[2] = {v.ctx, g.ctx};
    mlx_closure f = mlx_closure_new_func(cube);
    OK(mlx_vjp(&v, &g, f, v, g));
    assert_ptr_equal(v.ctx, before[0]);
    assert_ptr_equal(g.ctx, before[1]);
    assert_text(at(v, 0), "array(27, dtype=float32)");
    assert_text(at(g, 0), "array(27, dtype=float32)");
    mlx_vector_array empty[2] = {{NULL}, {NULL}};
    OK(mlx_jvp(&empty[0], &empty[1], f, v, g));
    assert_text(at(empty[1], 0), "array(59049, dtype=float32)");
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&vg, f, LIST(0), 1));
    void *box = vg.ctx;
    OK(mlx_value_and_grad(&vg, f, LIST(0), 1));
    assert_ptr_equal(vg.ctx, box);
    mlx_closure_free(f); /* the new closure has its own reference */
    OK(mlx_closure_value_and_grad_apply(&v, &g, vg, v));
    assert_text(at(g, 0), "array(2187, dtype=float32)");
    mlx_closure_value_and_grad_free(vg);
    mlx_vector_array lists[] = {v, g, none, empty[0], empty[1]};
    for (int i = 0; i < 5; i++) mlx_vector_array_free(lists[i]);
    drop_to(0);
}

/* ---- value_and_grad ---- */

static void gradients_once(void) {
    mlx_closure f = mlx_closure_new_func(cubic);
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new();
    mlx_vector_array args = LIST_OF(VECTOR(1, 2), VECTOR(3, 5)), v = mlx_vector_array_new(),
                     d = mlx_vector_array_new();
    OK(mlx_value_and_grad(&g, f, LIST(1, 0), 2));
    OK(mlx_closure_value_and_grad_apply(&v, &d, g, args));
    assert_int_equal(mlx_vector_array_size(v), 2);
    assert_int_equal(mlx_vector_array_size(d), 2);
    assert_text(at(v, 0), "array(23, dtype=float32)");
    assert_text(at(v, 1), "array([1, 2], dtype=float32)");
    assert_text(at(d, 0), "array([1, 4], dtype=float32)");
    assert_text(at(d, 1), "array([6, 20], dtype=float32)");
    OK(mlx_value_and_grad(&g, f, LIST(0), 1));
    OK(mlx_closure_value_and_grad_apply(&v, &d, g, args));
    assert_int_equal(mlx_vector_array_size(d), 1);
    assert_text(at(d, 0), "array([6, 20], dtype=float32)");
    mlx_vector_array_free(args);
    mlx_vector_array_free(v);
    mlx_vector_array_free(d);
    mlx_closure_value_and_grad_free(g);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_gradients(void **state) {
    assert_no_leak(gradients_once);
}

/* The gradient must fail like that, after `before` errors of the function itself. */
static void refuse_gradient(list_fn *f, const int *argnums, size_t n, mlx_vector_array args,
                            int before, int code, const char *part) {
    mlx_closure c = mlx_closure_new_func(f);
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new();
    mlx_vector_array values = mlx_vector_array_new(), made = mlx_vector_array_new();
    OK(mlx_value_and_grad(&g, c, argnums, n));
    int seen_before = seen.n;
    assert_int_equal(mlx_closure_value_and_grad_apply(&values, &made, g, args), 1);
    check_error(seen_before + before, code, part, "gradient", __FILE__, __LINE__);
    assert_int_equal(mlx_vector_array_size(values), 0);
    mlx_vector_array_free(values);
    mlx_vector_array_free(made);
    mlx_vector_array_free(args);
    mlx_closure_value_and_grad_free(g);
    mlx_closure_free(c);
}

static void bad_gradients_once(void) {
    mlx_closure f = mlx_closure_new_func(cubic);
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new();
    FAILS(mlx_value_and_grad(&g, f, NULL, 0), KEEL_EARG, "no argument number");
    FAILS(mlx_value_and_grad(&g, f, NULL, 2), KEEL_EARG, "argnums is NULL");
    FAILS(mlx_value_and_grad(&g, f, LIST(0, -1), 2), KEEL_EARG, "argnums[1] is -1");
    FAILS(mlx_value_and_grad(&g, mlx_closure_new(), LIST(0), 1), KEEL_EARG, "fun is an empty");
    FAILS(mlx_value_and_grad(NULL, f, LIST(0), 1), KEEL_EARG, "NULL");
    assert_null(g.ctx);
    mlx_array x = VECTOR(1, 2);
    refuse_gradient(cubic, LIST(0, 1, 0), 3, LIST_OF(x, x), 0, KEEL_EARG,
                    "argument number 0 is given twice");
    refuse_gradient(cubic, LIST(2), 1, LIST_OF(x, x), 0, KEEL_EARG,
                    "argument number 2, and the function has 2 arguments");
    refuse_gradient(cubic, LIST(0), 1, LIST_OF(keep(INTS(1)), x), 0, KEEL_EDTYPE,
                    "argument 0 is int32");
    refuse_gradient(cube, LIST(0), 1, LIST_OF(x), 0, KEEL_ESHAPE,
                    "only a result without axes has a gradient");
    refuse_gradient(nothing, LIST(0), 1, LIST_OF(x), 0, KEEL_EARG, "the function has no result");
    refuse_gradient(fails_midway, LIST(0), 1, LIST_OF(x), 0, KEEL_ECALLBACK,
                    "closure returned a non-zero value (7)");
    refuse_gradient(leaves_empty, LIST(0), 1, LIST_OF(x), 0, KEEL_ECALLBACK, "left a result empty");
    mlx_closure_free(f);
    drop_to(0);
}

static void test_bad_gradients(void **state) {
    assert_no_leak(bad_gradients_once);
}

/* An integer argument that no gradient is asked for is an argument like others; a result of
 * integers has no gradient. */
static int pick(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, sum(take0(at(in, 0), at(in, 1))));
}

static int whole_result(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_argmax(&r, at(in, 0), false, cpu);
    return GIVE(res, keep(r));
}

static void test_integers(void **state) {
    mlx_array x = VECTOR(1, 2, 3);
    mlx_array g = result_of(gradient_of(mlx_closure_new_func(pick), LIST(0), 1),
                            LIST_OF(x, keep(INTS(2, 0, 2))), 0);
    assert_text(g, "array([1, 0, 2], dtype=float32)");
    refuse_gradient(whole_result, LIST(0), 1, LIST_OF(x), 0, KEEL_EDTYPE,
                    "the first result is uint32");
    struct pair p = apply(mlx_jvp, whole_result, LIST_OF(x), LIST_OF(x));
    assert_text(p.made[0], "array(0, dtype=uint32)");
    drop_to(0);
}

/* ---- transforms of transforms ---- */

static int sum_of_cubes(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, sum(multiply(x, square(x))));
}

static int second_derivative(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_closure g = gradient_of(mlx_closure_new_func(sum_of_cubes), LIST(0), 1);
    int rc = mlx_closure_apply(res, g, in);
    mlx_closure_free(g);
    return rc;
}

/* The inner function uses an argument of the outer one. */
static mlx_array of_outer;
static int product_with_outer(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, multiply(square(of_outer), square(at(in, 0))));
}

/* d/dy of (x^2 y^2) at y = x: 2 x^3 */
static int captures(mlx_vector_array *res, const mlx_vector_array in) {
    of_outer = at(in, 0);
    mlx_closure g = gradient_of(mlx_closure_new_func(product_with_outer), LIST(0), 1);
    int rc = mlx_closure_apply(res, g, in);
    mlx_closure_free(g);
    return rc;
}

static void nested_once(void) {
    list_fn *const f = second_derivative;
    struct pair p = apply(mlx_vjp, f, LIST_OF(VECTOR(1, 2)), LIST_OF(VECTOR(1, 10)));
    assert_text(p.value[0], "array([3, 12], dtype=float32)");
    assert_text(p.made[0], "array([6, 120], dtype=float32)");
    p = apply(mlx_jvp, f, LIST_OF(VECTOR(1, 2)), LIST_OF(VECTOR(1, 10)));
    assert_text(p.made[0], "array([6, 120], dtype=float32)");
    mlx_array third = result_of(
        gradient_of(
            gradient_of(gradient_of(mlx_closure_new_func(sum_of_cubes), LIST(0), 1), LIST(0), 1),
            LIST(0), 1),
        LIST_OF(number(2)), 0);
    assert_text(third, "array(6, dtype=float32)");
    mlx_array mixed =
        result_of(gradient_of(mlx_closure_new_func(captures), LIST(0), 1), LIST_OF(number(3)), 0);
    assert_text(mixed, "array(54, dtype=float32)");
    drop_to(0);
}

static void test_nested(void **state) {
    assert_no_leak(nested_once);
}

/* ---- evaluation inside ---- */

static int evaluates(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), y = multiply(x, square(x));
    float value;
    if (mlx_array_eval(y) || mlx_array_item_float32(&value, y)) return 1;
    /* a step that depends on the value */
    return GIVE(res, value > 5 ? multiply(y, number(10)) : y);
}

static int evaluates_later(mlx_vector_array *res, const mlx_vector_array in) {
    return mlx_async_eval(in);
}

static void evaluation_once(void) {
    mlx_array x = number(2);
    struct pair p = apply(mlx_vjp, evaluates, LIST_OF(x), LIST_OF(number(1)));
    assert_text(p.value[0], "array(80, dtype=float32)");
    assert_text(p.made[0], "array(120, dtype=float32)");
    p = apply(mlx_jvp, evaluates, LIST_OF(x), LIST_OF(number(1)));
    assert_text(p.made[0], "array(120, dtype=float32)");
    mlx_array g =
        result_of(gradient_of(mlx_closure_new_func(evaluates), LIST(0), 1), LIST_OF(x), 0);
    assert_text(g, "array(120, dtype=float32)");
    g = result_of(gradient_of(gradient_of(mlx_closure_new_func(evaluates), LIST(0), 1), LIST(0), 1),
                  LIST_OF(number(1)), 0);
    assert_text(g, "array(6, dtype=float32)");
    refuse(mlx_vjp, evaluates_later, LIST_OF(x), LIST_OF(x), 1, KEEL_ECALLBACK, "non-zero");
    drop_to(0);
}

static void test_evaluation(void **state) {
    assert_no_leak(evaluation_once);
}

/* async_eval of an argument is refused; and an argument is an array like others when the function
 * has returned. */
static mlx_array escaped;
static int lets_escape(mlx_vector_array *res, const mlx_vector_array in) {
    escaped = square(at(in, 0));
    FAILS(mlx_async_eval(in), KEEL_ETRACE, "array 0 depends on an argument of a function");
    return GIVE(res, escaped);
}

static void test_escape(void **state) {
    struct pair p = apply(mlx_vjp, lets_escape, LIST_OF(number(3)), LIST_OF(number(1)));
    assert_text(p.made[0], "array(6, dtype=float32)");
    mlx_vector_array v = LIST_OF(escaped);
    OK(mlx_async_eval(v));
    assert_text(escaped, "array(9, dtype=float32)");
    mlx_vector_array_free(v);
    drop_to(0);
}

/* ---- failed arrays ---- */

/* The gradient of what uses a failed array fails with the first cause; another gradient of the same
 * call does not. */
static int uses_failed(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array bad = take0(VECTOR(1, 2), keep(INTS(5)));
    mlx_array x = at(in, 0), y = at(in, 1);
    return GIVE(res, add(sum(multiply(square(x), bad)), sum(square(y))));
}

static void test_failed_input(void **state) {
    struct pair p = apply(mlx_vjp, uses_failed, LIST_OF(number(3), number(4)), LIST_OF(number(1)));
    FAILS(mlx_array_eval(p.value[0]), KEEL_EINDEX, "take: index 5");
    FAILS(mlx_array_eval(p.made[0]), KEEL_EINDEX, "take: index 5");
    assert_text(p.made[1], "array(8, dtype=float32)");
    drop_to(0);
}

/* An operation without a gradient is refused by its name, unless no gradient goes through it. */
static int views_bits(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_view(&r, at(in, 0), MLX_FLOAT16, cpu);
    return GIVE(res, keep(r));
}

static int views_other(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array r = mlx_array_new();
    mlx_view(&r, at(in, 0), MLX_INT32, cpu);
    keep(r);
    return GIVE(res, square(at(in, 0)), r);
}

static void test_without_rule(void **state) {
    mlx_array x = number(3), half = mlx_array_new();
    OK(mlx_zeros(&half, LIST(2), 1, MLX_FLOAT16, cpu));
    refuse(mlx_vjp, views_bits, LIST_OF(VECTOR(1)), LIST_OF(keep(half)), 0, KEEL_EUNSUPPORTED,
           "gradient of view");
    struct pair p =
        apply(mlx_vjp, views_other, LIST_OF(x), LIST_OF(number(1), keep(mlx_array_new_int(0))));
    assert_text(p.made[0], "array(6, dtype=float32)");
    drop_to(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eval),         cmocka_unit_test(test_first_failure),
        cmocka_unit_test(test_async),        cmocka_unit_test(test_products),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_handles),
        cmocka_unit_test(test_gradients),    cmocka_unit_test(test_bad_gradients),
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_nested),
        cmocka_unit_test(test_evaluation),   cmocka_unit_test(test_escape),
        cmocka_unit_test(test_failed_input), cmocka_unit_test(test_without_rule),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
