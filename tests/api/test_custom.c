/* test_custom.c - functions with rules of their own, and checkpoints. */
#include "api/function_support.h"

#include "api/handles/handles.h"
#include "graph/node.h"

static mlx_closure plain(list_fn *f) {
    return mlx_closure_new_func(f);
}

/* ---- functions and rules ---- */

static int n_calls; /* of the functions below */

static int square_of(mlx_vector_array *res, const mlx_vector_array in) {
    n_calls++;
    return GIVE(res, square(at(in, 0)));
}

/* x y and x + y */
static int two_results(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), y = at(in, 1);
    n_calls++;
    return GIVE(res, multiply(x, y), add(x, y));
}

/* 100 times the cotangent, for each primal */
static int hundred(mlx_vector_array *res, const mlx_vector_array primals,
                   const mlx_vector_array cotangents, const mlx_vector_array outputs) {
    if (mlx_vector_array_size(cotangents) != mlx_vector_array_size(outputs)) return 1;
    mlx_array g[2], c = multiply(at(cotangents, 0), number(100));
    size_t n = mlx_vector_array_size(primals);
    for (size_t i = 0; i < n; i++) g[i] = c;
    return give(res, g, n);
}

/* 1000 times the first tangent, for each output; *argnums is checked by what the test expects */
static int given_argnum, given_n;
static int thousand(mlx_vector_array *res, const mlx_vector_array primals,
                    const mlx_vector_array tangents, const int *argnums, size_t n) {
    given_n = (int)n;
    given_argnum = n ? argnums[0] : -1;
    if (n != mlx_vector_array_size(tangents)) return 1;
    return GIVE(res, multiply(at(tangents, 0), number(1000)));
}

/* the input times 10000, with its axes */
static int lanes_rule(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array in,
                      const int *in_axes, size_t n) {
    *axes = mlx_vector_int_new_data((int *)in_axes, n);
    return GIVE(res, multiply(at(in, 0), number(10000)));
}

static mlx_closure custom_of(mlx_closure f, bool vjp, bool jvp, bool vmap) {
    mlx_closure_custom v = vjp ? mlx_closure_custom_new_func(hundred) : mlx_closure_custom_new();
    mlx_closure_custom_jvp j =
        jvp ? mlx_closure_custom_jvp_new_func(thousand) : mlx_closure_custom_jvp_new();
    mlx_closure_custom_vmap m =
        vmap ? mlx_closure_custom_vmap_new_func(lanes_rule) : mlx_closure_custom_vmap_new();
    mlx_closure made = mlx_closure_new();
    OK(mlx_custom_function(&made, f, v, j, m));
    mlx_closure_custom_free(v);
    mlx_closure_custom_jvp_free(j);
    mlx_closure_custom_vmap_free(m);
    mlx_closure_free(f);
    return made;
}

static mlx_closure checkpoint_of(mlx_closure f) {
    mlx_closure made = mlx_closure_new();
    OK(mlx_checkpoint(&made, f));
    mlx_closure_free(f);
    return made;
}

/* f is freed. Result i of the derivative. */
static mlx_array jvp_of(mlx_closure f, mlx_vector_array primals, mlx_vector_array tangents,
                        size_t i) {
    mlx_vector_array v = mlx_vector_array_new(), d = mlx_vector_array_new();
    OK(mlx_jvp(&v, &d, f, primals, tangents));
    mlx_array a = at(d, i);
    mlx_vector_array lists[] = {v, d, primals, tangents};
    for (int k = 0; k < 4; k++) mlx_vector_array_free(lists[k]);
    mlx_closure_free(f);
    return a;
}
static mlx_array vjp_of(mlx_closure f, mlx_vector_array primals, mlx_vector_array cotangents,
                        size_t i) {
    mlx_vector_array v = mlx_vector_array_new(), d = mlx_vector_array_new();
    OK(mlx_vjp(&v, &d, f, primals, cotangents));
    mlx_array a = at(d, i);
    mlx_vector_array lists[] = {v, d, primals, cotangents};
    for (int k = 0; k < 4; k++) mlx_vector_array_free(lists[k]);
    mlx_closure_free(f);
    return a;
}

static void rules_once(void) {
    mlx_array x = VECTOR(1, 2), u = VECTOR(1, 10);
    /* outside transforms it is the function */
    assert_text(result_of(custom_of(plain(square_of), true, true, true), LIST_OF(x), 0),
                "array([1, 4], dtype=float32)");
    /* each rule where it is given, the recorded operations where not */
    assert_text(vjp_of(custom_of(plain(square_of), true, false, false), LIST_OF(x), LIST_OF(u), 0),
                "array([100, 1000], dtype=float32)");
    assert_text(jvp_of(custom_of(plain(square_of), true, false, false), LIST_OF(x), LIST_OF(u), 0),
                "array([2, 40], dtype=float32)");
    assert_text(jvp_of(custom_of(plain(square_of), false, true, false), LIST_OF(x), LIST_OF(u), 0),
                "array([1000, 10000], dtype=float32)");
    assert_int_equal(given_n, 1);
    assert_int_equal(given_argnum, 0);
    assert_text(vjp_of(custom_of(plain(square_of), false, true, false), LIST_OF(x), LIST_OF(u), 0),
                "array([2, 40], dtype=float32)");
    assert_text(vjp_of(custom_of(plain(square_of), false, false, false), LIST_OF(x), LIST_OF(u), 0),
                "array([2, 40], dtype=float32)");
    assert_text(result_of(lanes_of(custom_of(plain(square_of), true, true, true), ZEROS4, ZEROS4),
                          LIST_OF(x), 0),
                "array([10000, 20000], dtype=float32)");
    assert_text(result_of(lanes_of(custom_of(plain(square_of), true, true, false), ZEROS4, ZEROS4),
                          LIST_OF(x), 0),
                "array([1, 4], dtype=float32)");
    /* custom_vjp */
    mlx_closure f = plain(square_of), c = mlx_closure_new();
    mlx_closure_custom rule = mlx_closure_custom_new_func(hundred);
    OK(mlx_custom_vjp(&c, f, rule));
    FAILS(mlx_custom_vjp(&c, f, mlx_closure_custom_new()), KEEL_EARG, "fun_vjp is an empty");
    FAILS(mlx_custom_vjp(&c, mlx_closure_new(), rule), KEEL_EARG, "fun is an empty");
    FAILS(mlx_checkpoint(&c, mlx_closure_new()), KEEL_EARG, "fun is an empty");
    FAILS(mlx_checkpoint(NULL, f), KEEL_EARG, "NULL");
    mlx_closure_custom_free(rule);
    mlx_closure_free(f);
    assert_text(vjp_of(c, LIST_OF(x), LIST_OF(u), 0), "array([100, 1000], dtype=float32)");
    drop_to(0);
}

static void test_rules(void **state) {
    assert_no_leak(rules_once);
}

/* Several arguments and results: a missing cotangent is zeros, and a tangent that is missing is not
 * among those that the rule gets. */
static mlx_closure inner; /* what the functions below call; set by the test */

static int second_argument_only(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array args = LIST_OF(number(3), at(in, 0)), made = mlx_vector_array_new();
    int rc = mlx_closure_apply(&made, inner, args);
    if (!rc) rc = GIVE(res, at(made, 0));
    mlx_vector_array_free(args);
    mlx_vector_array_free(made);
    return rc;
}

static void several_once(void) {
    mlx_array x = number(5), one = number(1);
    inner = custom_of(plain(two_results), true, false, false);
    assert_text(vjp_of(plain(second_argument_only), LIST_OF(x), LIST_OF(one), 0),
                "array(100, dtype=float32)");
    mlx_closure_free(inner);
    inner = checkpoint_of(plain(two_results));
    assert_text(vjp_of(plain(second_argument_only), LIST_OF(x), LIST_OF(one), 0),
                "array(3, dtype=float32)");
    assert_text(jvp_of(plain(second_argument_only), LIST_OF(x), LIST_OF(one), 0),
                "array(3, dtype=float32)");
    mlx_closure_free(inner);
    inner = custom_of(plain(two_results), false, true, false);
    mlx_vector_array v = mlx_vector_array_new(), d = mlx_vector_array_new(), args = LIST_OF(x);
    mlx_closure f = plain(second_argument_only);
    FAILS(mlx_jvp(&v, &d, f, args, args), KEEL_ECALLBACK,
          "the custom jvp rule gave 1 arrays for 2 outputs");
    assert_int_equal(given_n, 1);
    assert_int_equal(given_argnum, 1);
    mlx_closure_free(f);
    mlx_closure_free(inner);
    mlx_vector_array_free(v);
    mlx_vector_array_free(d);
    mlx_vector_array_free(args);
    drop_to(0);
}

static void test_several(void **state) {
    assert_no_leak(several_once);
}

/* ---- rules that are wrong ---- */

static int bad_vjp(mlx_vector_array *res, const mlx_vector_array primals,
                   const mlx_vector_array cotangents, const mlx_vector_array outputs, void *how) {
    mlx_array half = mlx_array_new();
    switch (*(int *)how) {
    case 0: return 3;
    case 1: return 0; /* leaves the result empty */
    case 2: return GIVE(res, at(primals, 0), at(primals, 0));
    case 3: return GIVE(res, number(1));
    default: mlx_astype(&half, at(primals, 0), MLX_FLOAT16, cpu); return GIVE(res, keep(half));
    }
}

static int bad_jvp(mlx_vector_array *res, const mlx_vector_array primals,
                   const mlx_vector_array tangents, const int *argnums, size_t n, void *how) {
    return bad_vjp(res, primals, primals, primals, how);
}

static int bad_vmap(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array in,
                    const int *in_axes, size_t n, void *how) {
    const int kind = *(int *)how;
    if (kind != 5) *axes = mlx_vector_int_new_value(kind == 6 ? 4 : kind == 7 ? -2 : 0);
    if (kind >= 5) return GIVE(res, at(in, 0));
    return bad_vjp(res, in, in, in, how);
}

enum { VJP, JVP, VMAP };

static void refuse_rule(int which, int how, const char *part) {
    mlx_closure f = plain(square_of), c = mlx_closure_new();
    mlx_closure_custom v = mlx_closure_custom_new();
    mlx_closure_custom_jvp j = mlx_closure_custom_jvp_new();
    mlx_closure_custom_vmap m = mlx_closure_custom_vmap_new();
    if (which == VJP) v = mlx_closure_custom_new_func_payload(bad_vjp, &how, NULL);
    if (which == JVP) j = mlx_closure_custom_jvp_new_func_payload(bad_jvp, &how, NULL);
    if (which == VMAP) m = mlx_closure_custom_vmap_new_func_payload(bad_vmap, &how, NULL);
    OK(mlx_custom_function(&c, f, v, j, m));
    mlx_vector_array x = LIST_OF(VECTOR(1, 2)), r0 = mlx_vector_array_new(),
                     r1 = mlx_vector_array_new();
    if (which == VJP)
        FAILS(mlx_vjp(&r0, &r1, c, x, x), KEEL_ECALLBACK, part);
    else if (which == JVP)
        FAILS(mlx_jvp(&r0, &r1, c, x, x), KEEL_ECALLBACK, part);
    else {
        OK(mlx_detail_vmap_trace(&r0, &r1, c, x, LIST(0), 1));
        mlx_vector_array out = mlx_vector_array_new();
        FAILS(mlx_detail_vmap_replace(&out, x, r0, r1, LIST(0), 1, LIST(0), 1), KEEL_ECALLBACK,
              part);
        assert_int_equal(mlx_vector_array_size(out), 0);
        mlx_vector_array_free(out);
    }
    mlx_vector_array_free(x);
    mlx_vector_array_free(r0);
    mlx_vector_array_free(r1);
    mlx_closure_custom_free(v);
    mlx_closure_custom_jvp_free(j);
    mlx_closure_custom_vmap_free(m);
    mlx_closure_free(c);
    mlx_closure_free(f);
}

static void wrong_rules_once(void) {
    static const char *const name[] = {"vjp", "jvp", "vmap"};
    char text[96];
    for (int which = VJP; which <= VMAP; which++) {
        refuse_rule(which, 0, "closure returned a non-zero value (3)");
        refuse_rule(which, 1, "left a result empty");
        snprintf(text, sizeof text, "the custom %s rule gave 2", name[which]);
        refuse_rule(which, 2, text);
        snprintf(text, sizeof text, "the custom %s rule gave float32 of shape ()", name[which]);
        refuse_rule(which, 3, which == VMAP ? "the custom vmap rule gave" : text);
        snprintf(text, sizeof text, "the custom %s rule gave float16 of shape (2)", name[which]);
        refuse_rule(which, 4, text);
    }
    refuse_rule(VMAP, 5, "the custom vmap rule gave 0 axes for 1 outputs");
    refuse_rule(VMAP, 6, "the custom vmap rule gave axis 4 for output 0, which has 1 axes");
    refuse_rule(VMAP, 7, "the custom vmap rule gave axis -2");
    drop_to(0);
}

static void test_wrong_rules(void **state) {
    assert_no_leak(wrong_rules_once);
}

/* ---- checkpoints ---- */

/* sum of exp-like products whose gradient uses every value */
static int deep(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), w = at(in, 1);
    n_calls++;
    for (int i = 0; i < 5; i++) x = multiply(sine(x), add(w, square(x)));
    return GIVE(res, sum(x), x);
}

static void same_gradients(mlx_closure f /* taken */) {
    mlx_array x = VECTOR(0.3f, -0.7f, 1.1f), w = VECTOR(0.2f, 0.9f, -0.4f);
    n_calls = 0;
    mlx_array got[2], want[2];
    for (int k = 0; k < 2; k++) {
        mlx_closure g = mlx_closure_new();
        OK(mlx_closure_set(&g, f));
        got[k] = result_of(gradient_of(g, LIST(k), 1), LIST_OF(x, w), 0);
    }
    assert_int_equal(n_calls, 2); /* once for each gradient */
    for (int k = 0; k < 2; k++) {
        want[k] = result_of(gradient_of(plain(deep), LIST(k), 1), LIST_OF(x, w), 0);
        OK(mlx_array_eval(got[k]));
        OK(mlx_array_eval(want[k]));
        assert_memory_equal(mlx_array_data_float32(got[k]), mlx_array_data_float32(want[k]), 12);
    }
    mlx_closure_free(f);
}

static int calls_inner(mlx_vector_array *res, const mlx_vector_array in) {
    return mlx_closure_apply(res, inner, in);
}

static void checkpoints_once(void) {
    same_gradients(checkpoint_of(plain(deep)));
    same_gradients(checkpoint_of(checkpoint_of(plain(deep))));
    inner = checkpoint_of(plain(deep));
    same_gradients(checkpoint_of(plain(calls_inner)));
    mlx_closure_free(inner);
    drop_to(0);
}

static void test_checkpoints(void **state) {
    assert_no_leak(checkpoints_once);
}

static mlx_array second(mlx_closure f /* taken */, mlx_array x, mlx_array w) {
    inner = gradient_of(f, LIST(0), 1);
    mlx_closure total = plain(calls_inner), g = mlx_closure_new();
    mlx_vector_array args = LIST_OF(x, w), v = mlx_vector_array_new(), d = mlx_vector_array_new(),
                     along = LIST_OF(VECTOR(1, 2, 3));
    OK(mlx_vjp(&v, &d, total, args, along));
    mlx_array r = at(d, 1);
    mlx_vector_array lists[] = {args, v, d, along};
    for (int k = 0; k < 4; k++) mlx_vector_array_free(lists[k]);
    mlx_closure_free(total);
    mlx_closure_free(g);
    mlx_closure_free(inner);
    return r;
}

static void expect_bits(mlx_array a, mlx_array b) {
    OK(mlx_array_eval(a));
    OK(mlx_array_eval(b));
    assert_int_equal(mlx_array_size(a), mlx_array_size(b));
    assert_memory_equal(mlx_array_data_float32(a), mlx_array_data_float32(b),
                        4 * mlx_array_size(a));
}

/* Inside a gradient of a gradient, and inside vmap. */
static void nested_once(void) {
    mlx_array x = VECTOR(0.3f, -0.7f, 1.1f), w = VECTOR(0.2f, 0.9f, -0.4f);
    expect_bits(second(checkpoint_of(plain(deep)), x, w), second(plain(deep), x, w));
    float values[6] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
    mlx_array lanes = keep(of_floats(values, LIST(2, 3), 2));
    mlx_array a[2], b[2];
    for (int k = 0; k < 2; k++) {
        mlx_closure f = k ? plain(deep) : checkpoint_of(plain(deep));
        a[k] = result_of(lanes_of(gradient_of(f, LIST(1), 1), LIST(0, -1, 0, 0), ZEROS4),
                         LIST_OF(lanes, w), 0);
        /* the gradient of vmap */
        f = k ? plain(deep) : checkpoint_of(plain(deep));
        b[k] = vjp_of(lanes_of(f, LIST(0, -1, 0, 0), ZEROS4), LIST_OF(lanes, w),
                      LIST_OF(VECTOR(1, 2), lanes), 1);
    }
    expect_bits(a[0], a[1]);
    expect_bits(b[0], b[1]);
    drop_to(0);
}

static void test_nested(void **state) {
    assert_no_leak(nested_once);
}

/* Evaluation inside a checkpoint, one of whose arguments is a constant. */
static int evaluates(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), w = at(in, 1), y = multiply(x, square(w));
    if (mlx_array_eval(y) || mlx_array_eval(w)) return 1;
    return GIVE(res, multiply(y, x));
}

static int with_constant(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array lazy = add(number(1), number(2));
    mlx_vector_array args = LIST_OF(at(in, 0), lazy);
    int rc = mlx_closure_apply(res, inner, args);
    mlx_vector_array_free(args);
    return rc;
}

static void evaluation_once(void) {
    inner = checkpoint_of(plain(evaluates));
    assert_text(vjp_of(plain(with_constant), LIST_OF(number(5)), LIST_OF(number(1)), 0),
                "array(90, dtype=float32)");
    mlx_closure_free(inner);
    drop_to(0);
}

static void test_evaluation(void **state) {
    assert_no_leak(evaluation_once);
}

/* A checkpoint of arguments of two nested traces: sin(c) x^2, called in the gradient with respect
 * to x, whose value the outer gradient differentiates with respect to c. */
static mlx_array of_outer;
static mlx_closure inner_checkpoint;

static int sine_times_square(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, multiply(sine(at(in, 0)), square(at(in, 1))));
}

static int in_inner(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array args = LIST_OF(of_outer, at(in, 0));
    int rc = mlx_closure_apply(res, inner_checkpoint, args);
    mlx_vector_array_free(args);
    return rc;
}

/* the value of the inner gradient at x = 3, as a function of c */
static int value_of_inner(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new();
    mlx_closure f = plain(in_inner);
    mlx_vector_array x = LIST_OF(number(3)), unused = mlx_vector_array_new();
    of_outer = at(in, 0);
    int rc = mlx_value_and_grad(&g, f, LIST(0), 1) ||
             mlx_closure_value_and_grad_apply(res, &unused, g, x);
    mlx_vector_array_free(x);
    mlx_vector_array_free(unused);
    mlx_closure_value_and_grad_free(g);
    mlx_closure_free(f);
    return rc;
}

static void two_traces_once(void) {
    inner_checkpoint = checkpoint_of(plain(sine_times_square));
    mlx_array got = vjp_of(plain(value_of_inner), LIST_OF(number(0)), LIST_OF(number(1)), 0);
    assert_text(got, "array(9, dtype=float32)"); /* cos(0) 3^2 */
    mlx_closure_free(inner_checkpoint);
    drop_to(0);
}

static void test_two_traces(void **state) {
    assert_no_leak(two_traces_once);
}

/* Inside a trace a call is one operation, of the arguments and the results. */
static int looks_at_operation(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array made = mlx_vector_array_new();
    int rc = mlx_closure_apply(&made, inner, in);
    mlx_array y = at(made, 0);
    const struct kl_node *n = ((struct kl_array_box *)y.ctx)->array->node;
    assert_non_null(n);
    assert_int_equal(n->task.op, KL_OP_CUSTOM);
    assert_int_equal(n->n_in, 4);
    assert_int_equal(n->n_out, 2);
    mlx_vector_array_free(made);
    return rc ? rc : GIVE(res, y);
}

static void test_operation(void **state) {
    inner = custom_of(plain(two_results), true, false, false);
    assert_text(
        vjp_of(plain(looks_at_operation), LIST_OF(number(2), number(3)), LIST_OF(number(1)), 1),
        "array(100, dtype=float32)");
    mlx_closure_free(inner);
    drop_to(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),       cmocka_unit_test(test_several),
        cmocka_unit_test(test_wrong_rules), cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_nested),      cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_two_traces),  cmocka_unit_test(test_operation),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
