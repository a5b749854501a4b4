/* test_compile.c - mlx/c/compile.h: what is traced again and what is not, caches while they are
 * in use, modes, nesting with the other transforms, constants, and refusals. */
#include "api/function_support.h"

#include <pthread.h>

__attribute__((constructor)) static void use_simulated_device(void) {
    setenv("KEEL_GPU", "sim", 1);
}

static _Atomic(int) calls; /* of the functions below */

/* exp-free and exact: x * x + y, and x */
static int formula(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0), y = at(in, 1);
    calls++;
    return GIVE(res, add(square(x), y), x);
}

static int fails(mlx_vector_array *res, const mlx_vector_array in) {
    calls++;
    square(at(in, 0));
    return 3;
}

static int gives_nothing(mlx_vector_array *res, const mlx_vector_array in) {
    return 0;
}

static int evaluates(mlx_vector_array *res, const mlx_vector_array in) {
    return mlx_array_eval(square(at(in, 0))) || GIVE(res, at(in, 0));
}

static int evaluates_later(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array v = LIST_OF(square(at(in, 0)));
    int rc = mlx_async_eval(v);
    mlx_vector_array_free(v);
    return rc || GIVE(res, at(in, 0));
}

static int bad_shapes(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, matmul(at(in, 0), number(2)));
}

static mlx_closure compiled(list_fn *f, bool shapeless) {
    mlx_closure plain = mlx_closure_new_func(f), c = mlx_closure_new();
    OK(mlx_compile(&c, plain, shapeless));
    OK(mlx_closure_free(plain)); /* the compiled one keeps it */
    return c;
}
static mlx_closure compiled_as(list_fn *f, uintptr_t id, const uint64_t *constants, size_t n) {
    mlx_closure plain = mlx_closure_new_func(f), c = mlx_closure_new();
    OK(mlx_detail_compile(&c, plain, id, false, constants, n));
    OK(mlx_closure_free(plain));
    return c;
}

/* Calls f, whose first result must have this text, and checks how often functions were called. */
static void expect(mlx_closure f, mlx_vector_array in, const char *text, int n_calls) {
    mlx_vector_array res = mlx_vector_array_new();
    calls = 0;
    OK(mlx_closure_apply(&res, f, in));
    assert_text(at(res, 0), text);
    assert_int_equal(calls, n_calls);
    mlx_vector_array_free(res);
    mlx_vector_array_free(in);
}
#define TWO_FLOATS LIST_OF(VECTOR(1, 2), VECTOR(3, 4))
#define SUM_TEXT "array([4, 8], dtype=float32)"

/* ---- caches ---- */

static void keys_once(void) {
    mlx_closure c = compiled(formula, false);
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    expect(c, LIST_OF(VECTOR(1, 2, 3), VECTOR(3, 4, 5)), "array([4, 8, 14], dtype=float32)", 1);
    expect(c, LIST_OF(VECTOR(1, 2), number(1)), "array([2, 5], dtype=float32)", 1);
    expect(c, LIST_OF(keep(INTS(1, 2)), VECTOR(3, 4)), SUM_TEXT, 1);
    expect(c, LIST_OF(VECTOR(1, 2), VECTOR(3, 4), number(9)), SUM_TEXT, 1); /* the count */
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    OK(mlx_detail_compile_clear_cache());
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    mlx_closure other = compiled(formula, false); /* has a cache of its own */
    expect(other, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    OK(mlx_detail_compile_erase(0)); /* no function has the number 0 */
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    mlx_closure_free(c);
    mlx_closure_free(other);
    c = compiled(formula, true);
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, LIST_OF(VECTOR(1, 2, 3), VECTOR(3, 4, 5)), "array([4, 8, 14], dtype=float32)", 0);
    expect(c, LIST_OF(VECTOR(1, 2), VECTOR(3)), "array([4, 7], dtype=float32)", 0);
    expect(c, LIST_OF(VECTOR(1, 2), number(1)), "array([2, 5], dtype=float32)", 1); /* the rank */
    expect(c, LIST_OF(keep(INTS(1, 2)), VECTOR(3, 4)), SUM_TEXT, 1);
    mlx_closure_free(c);
    drop_to(0);
}

static void test_keys(void **state) {
    assert_no_leak(keys_once);
}

static void numbers_once(void) {
    const uint64_t one = 1, two = 2, both[] = {1, 2};
    mlx_closure a = compiled_as(formula, 40, &one, 1), b = compiled_as(formula, 40, &one, 1);
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    expect(b, TWO_FLOATS, SUM_TEXT, 0); /* functions of one number share a cache */
    mlx_closure_free(a);
    mlx_closure_free(b);
    a = compiled_as(formula, 40, &one, 1); /* which outlives them */
    expect(a, TWO_FLOATS, SUM_TEXT, 0);
    mlx_closure_free(a);
    a = compiled_as(formula, 40, &two, 1);
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    mlx_closure_free(a);
    a = compiled_as(formula, 40, both, 2);
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    mlx_closure_free(a);
    a = compiled_as(formula, 40, NULL, 0);
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    b = compiled_as(formula, 41, NULL, 0);
    expect(b, TWO_FLOATS, SUM_TEXT, 1);
    OK(mlx_detail_compile_erase(40)); /* while a uses it */
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    expect(b, TWO_FLOATS, SUM_TEXT, 0);
    OK(mlx_detail_compile_clear_cache());
    expect(a, TWO_FLOATS, SUM_TEXT, 1);
    expect(b, TWO_FLOATS, SUM_TEXT, 1);
    mlx_closure_free(a);
    mlx_closure_free(b);
    OK(mlx_detail_compile_erase(40));
    OK(mlx_detail_compile_erase(41));
    OK(mlx_detail_compile_erase(12345));
    drop_to(0);
}

static void test_numbers(void **state) {
    assert_no_leak(numbers_once);
}

/* The default device, and the thread's default stream on it, belong to the key. */
static void streams_once(void) {
    mlx_device gpu = mlx_device_new_type(MLX_GPU, 0), before = mlx_device_new();
    mlx_stream usual = mlx_default_cpu_stream_new(), own;
    mlx_closure c = compiled(formula, false);
    OK(mlx_get_default_device(&before));
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    OK(mlx_set_default_device(gpu));
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    OK(mlx_set_default_device(before));
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    own = mlx_stream_new_device(before);
    OK(mlx_set_default_stream(own));
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    OK(mlx_set_default_stream(usual));
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    mlx_closure_free(c);
    mlx_stream_free(own);
    mlx_stream_free(usual);
    mlx_device_free(gpu);
    mlx_device_free(before);
    drop_to(0);
}

static void test_streams(void **state) {
    assert_no_leak(streams_once);
}

/* ---- in use ---- */

static mlx_closure itself; /* what the function below is compiled to */
static int how;

/* Erases, clears or frees what it is a part of, while it is traced. */
static int meddles(mlx_vector_array *res, const mlx_vector_array in) {
    calls++;
    int rc = how == 0   ? mlx_detail_compile_erase(50)
             : how == 1 ? mlx_detail_compile_clear_cache()
                        : mlx_closure_free(itself);
    return rc || GIVE(res, square(at(in, 0)));
}

static void in_use_once(void) {
    for (how = 0; how < 3; how++) {
        itself = compiled_as(meddles, how == 0 ? 50 : 0, NULL, 0);
        mlx_closure f = itself;
        expect(f, LIST_OF(VECTOR(1, 2)), "array([1, 4], dtype=float32)", 1);
        if (how < 2) mlx_closure_free(f);
    }
    OK(mlx_detail_compile_erase(50));
    drop_to(0);
}

static void test_in_use(void **state) {
    assert_no_leak(in_use_once);
}

static int payload_value, n_dtor;
static int with_payload(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    assert_ptr_equal(payload, &payload_value);
    return GIVE(res, square(at(in, 0)));
}
static void count_dtor(void *payload) {
    assert_ptr_equal(payload, &payload_value);
    n_dtor++;
}

static void payloads_once(void) {
    n_dtor = 0;
    mlx_closure f = mlx_closure_new_func_payload(with_payload, &payload_value, count_dtor),
                c = mlx_closure_new(), d = mlx_closure_new();
    OK(mlx_compile(&c, f, false));
    OK(mlx_compile(&d, c, false)); /* of a compiled one */
    OK(mlx_closure_free(f));
    expect(c, LIST_OF(VECTOR(1, 2)), "array([1, 4], dtype=float32)", 0);
    expect(d, LIST_OF(VECTOR(1, 2)), "array([1, 4], dtype=float32)", 0);
    OK(mlx_detail_compile_clear_cache());
    OK(mlx_closure_free(c));
    assert_int_equal(n_dtor, 0);
    expect(d, LIST_OF(VECTOR(1, 2)), "array([1, 4], dtype=float32)", 0);
    OK(mlx_closure_free(d));
    assert_int_equal(n_dtor, 1);
    drop_to(0);
}

static void test_payloads(void **state) {
    assert_no_leak(payloads_once);
}

/* ---- modes ---- */

static void modes_once(void) {
    mlx_closure c = compiled(formula, false), empty = mlx_closure_new(), r = mlx_closure_new();
    OK(mlx_disable_compile());
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    FAILS(mlx_compile(&r, empty, false), KEEL_EARG, "mlx_compile: fun is an empty");
    OK(mlx_enable_compile());
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    for (int m = MLX_COMPILE_MODE_NO_SIMPLIFY; m < MLX_COMPILE_MODE_ENABLED; m++) {
        OK(mlx_set_compile_mode((mlx_compile_mode)m));
        expect(c, TWO_FLOATS, SUM_TEXT, 1);
        expect(c, TWO_FLOATS, SUM_TEXT, 0);
    }
    OK(mlx_set_compile_mode(MLX_COMPILE_MODE_DISABLED));
    expect(c, TWO_FLOATS, SUM_TEXT, 1);
    OK(mlx_set_compile_mode(MLX_COMPILE_MODE_ENABLED));
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    FAILS(mlx_set_compile_mode((mlx_compile_mode)4), KEEL_EARG,
          "mlx_set_compile_mode: 4 is no mode; they are 0 to 3");
    FAILS(mlx_set_compile_mode((mlx_compile_mode)-1), KEEL_EARG, "is no mode");
    expect(c, TWO_FLOATS, SUM_TEXT, 0);
    mlx_closure_free(c);
    drop_to(0);
}

static void test_modes(void **state) {
    assert_no_leak(modes_once);
}

/* ---- refusals ---- */

/* The closure fails twice alike: the first failure left nothing. */
static void refuse(list_fn *f, int code, const char *part, int errors) {
    mlx_closure c = compiled(f, false);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2)), res = mlx_vector_array_new_value(number(8));
    void *ctx = res.ctx;
    for (int round = 0; round < 2; round++) {
        int before = seen.n;
        keel_error_info e = {.size = sizeof e};
        assert_int_equal(mlx_closure_apply(&res, c, in), 1);
        assert_int_equal(seen.n, before + errors);
        assert_int_equal(keel_last_error(&e), 0);
        assert_int_equal(e.code, code);
        if (!strstr(seen.text, part)) fail_msg("no \"%s\" in: %s", part, seen.text);
        assert_ptr_equal(res.ctx, ctx);
        assert_int_equal(mlx_vector_array_size(res), 1);
    }
    mlx_vector_array_free(res);
    mlx_vector_array_free(in);
    mlx_closure_free(c);
}

static void refusals_once(void) {
    mlx_closure empty = mlx_closure_new(), f = mlx_closure_new_func(formula), r = mlx_closure_new();
    FAILS(mlx_compile(&r, empty, true), KEEL_EARG, "mlx_compile: fun is an empty");
    FAILS(mlx_compile(NULL, f, true), KEEL_EARG, "mlx_compile: the result is NULL");
    FAILS(mlx_detail_compile(&r, empty, 3, true, NULL, 0), KEEL_EARG, "fun is an empty");
    FAILS(mlx_detail_compile(&r, f, 3, true, NULL, 2), KEEL_EARG,
          "constants is NULL and its count is 2");
    FAILS(mlx_detail_compile(&r, f, 3, true, &(uint64_t){1}, SIZE_MAX / 4), KEEL_ELIMIT,
          "constants; at most 1000000 are taken");
    assert_null(r.ctx);
    refuse(fails, KEEL_ECALLBACK, "closure returned a non-zero value", 1);
    refuse(gives_nothing, KEEL_ECALLBACK, "", 1);
    refuse(evaluates, KEEL_ECALLBACK, "closure returned a non-zero value", 2);
    refuse(evaluates_later, KEEL_ECALLBACK, "closure returned a non-zero value", 2);
    refuse(bad_shapes, KEEL_ECALLBACK, "closure returned a non-zero value", 2);
    /* The handle of a result is overwritten in place, and may be the argument. */
    OK(mlx_compile(&r, f, false));
    void *ctx = r.ctx;
    OK(mlx_compile(&r, f, false));
    assert_ptr_equal(r.ctx, ctx);
    OK(mlx_compile(&r, r, true));
    assert_ptr_equal(r.ctx, ctx);
    expect(r, TWO_FLOATS, SUM_TEXT, 1);
    mlx_closure_free(r);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_refusals(void **state) {
    assert_no_leak(refusals_once);
}

/* What the user sees of an evaluation inside, and of a placeholder that got out. */
static mlx_array escaped;
static int lets_out(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array_set(&escaped, square(at(in, 0)));
    return GIVE(res, escaped);
}
static int asks(mlx_vector_array *res, const mlx_vector_array in) {
    FAILS(mlx_array_eval(square(at(in, 0))), KEEL_ETRACE, "");
    mlx_vector_array v = LIST_OF(square(at(in, 0)));
    FAILS(mlx_async_eval(v), KEEL_ETRACE, "");
    mlx_vector_array_free(v);
    FAILS_ZERO(mlx_array_data_float32(at(in, 0)), KEEL_ETRACE, "");
    return GIVE(res, at(in, 0));
}
static void placeholders_once(void) {
    mlx_closure c = compiled(asks, false);
    expect(c, LIST_OF(VECTOR(1, 2)), "array([1, 2], dtype=float32)", 0);
    mlx_closure_free(c);
    c = compiled(lets_out, false);
    escaped = mlx_array_new();
    expect(c, LIST_OF(VECTOR(1, 2)), "array([1, 4], dtype=float32)", 0);
    FAILS(mlx_array_eval(escaped), KEEL_ETRACE, "");
    mlx_array_free(escaped);
    mlx_closure_free(c);
    drop_to(0);
}

static void test_placeholders(void **state) {
    assert_no_leak(placeholders_once);
}

/* ---- with the other transforms ---- */

static int cube_sum(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    calls++;
    return GIVE(res, sum(multiply(x, square(x))));
}

static int call_inner(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    mlx_closure f = {payload};
    mlx_vector_array r = mlx_vector_array_new();
    int rc = mlx_closure_apply(&r, f, in);
    if (!rc) rc = GIVE(res, add(at(r, 0), at(in, 0)));
    mlx_vector_array_free(r);
    return rc;
}
static void free_inner(void *payload) {
    mlx_closure_free((mlx_closure){payload});
}
static mlx_closure compiled_of(mlx_closure f /* taken */) {
    mlx_closure c = mlx_closure_new();
    OK(mlx_compile(&c, f, false));
    mlx_closure_free(f);
    return c;
}

static void nested_once(void) {
    const int zero = 0;
    /* compile of compile: the inner one is traced once, inside the trace of the outer one */
    mlx_closure c = compiled_of(
        mlx_closure_new_func_payload(call_inner, compiled(formula, false).ctx, free_inner));
    expect(c, TWO_FLOATS, "array([5, 10], dtype=float32)", 1);
    expect(c, TWO_FLOATS, "array([5, 10], dtype=float32)", 0);
    mlx_closure_free(c);
    /* compile of grad */
    c = compiled_of(gradient_of(mlx_closure_new_func(cube_sum), &zero, 1));
    expect(c, LIST_OF(VECTOR(1, 2)), "array([3, 12], dtype=float32)", 1);
    expect(c, LIST_OF(VECTOR(1, 2)), "array([3, 12], dtype=float32)", 0);
    /* grad of compile of grad, summed: the second derivative */
    mlx_closure_free(c);
    /* grad of compile */
    c = gradient_of(compiled(cube_sum, false), &zero, 1);
    expect(c, LIST_OF(VECTOR(1, 2)), "array([3, 12], dtype=float32)", 1);
    expect(c, LIST_OF(VECTOR(1, 3)), "array([3, 27], dtype=float32)", 0);
    mlx_closure_free(c);
    /* vmap of compile, and compile of vmap */
    mlx_array rows = keep(of_floats((float[]){1, 2, 3, 4}, LIST(2, 2), 2));
    c = lanes_of(compiled(cube_sum, false), ZEROS4, ZEROS4);
    expect(c, LIST_OF(rows), "array([9, 91], dtype=float32)", 1);
    expect(c, LIST_OF(rows), "array([9, 91], dtype=float32)", 0);
    mlx_closure_free(c);
    c = compiled_of(lanes_of(mlx_closure_new_func(cube_sum), ZEROS4, ZEROS4));
    expect(c, LIST_OF(rows), "array([9, 91], dtype=float32)", 1);
    expect(c, LIST_OF(rows), "array([9, 91], dtype=float32)", 0);
    mlx_closure_free(c);
    /* vmap of grad of compile, compiled */
    c = compiled_of(lanes_of(gradient_of(compiled(cube_sum, false), &zero, 1), ZEROS4, ZEROS4));
    for (int round = 0; round < 2; round++)
        expect(c, LIST_OF(rows), "array([[3, 12],\n       [27, 48]], dtype=float32)", !round);
    mlx_closure_free(c);
    drop_to(0);
}

static void test_nested(void **state) {
    assert_no_leak(nested_once);
}

/* ---- constants ---- */

static mlx_array captured;
static int uses_captured(mlx_vector_array *res, const mlx_vector_array in) {
    calls++;
    return GIVE(res, add(at(in, 0), captured));
}

/* An array that the function finds elsewhere is a constant, also when it is lazy, or fails, or the
 * handle gets another array afterwards. */
static void constants_once(void) {
    mlx_closure c = compiled(uses_captured, false);
    captured = mlx_array_new();
    mlx_array_set(&captured, square(VECTOR(2, 3)));
    expect(c, LIST_OF(VECTOR(1, 1)), "array([5, 10], dtype=float32)", 1);
    mlx_array_set(&captured, VECTOR(0, 0));
    expect(c, LIST_OF(VECTOR(1, 2)), "array([5, 11], dtype=float32)", 0);
    OK(mlx_detail_compile_clear_cache());
    mlx_array_set(&captured, take0(VECTOR(2, 3), keep(INTS(0, 5))));
    mlx_vector_array in = LIST_OF(VECTOR(1, 2)), res = mlx_vector_array_new();
    for (int round = 0; round < 2; round++) {
        OK(mlx_closure_apply(&res, c, in));
        FAILS(mlx_array_eval(at(res, 0)), KEEL_EINDEX, "5");
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(res);
    mlx_array_free(captured);
    mlx_closure_free(c);
    drop_to(0);
}

static void test_constants(void **state) {
    assert_no_leak(constants_once);
}

/* A function inside another one that is traced, with an argument of that as a constant: traced each
 * time. */
static mlx_closure inside;
static int around(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array y = at(in, 1);
    mlx_array_set(&captured, y);
    mlx_vector_array own = LIST_OF(at(in, 0));
    int rc = mlx_closure_apply(res, inside, own);
    mlx_vector_array_free(own);
    return rc;
}
static void captured_argument_once(void) {
    inside = compiled(uses_captured, false);
    captured = mlx_array_new();
    mlx_closure c = compiled(around, false);
    expect(c, TWO_FLOATS, "array([4, 6], dtype=float32)", 1);
    expect(c, LIST_OF(VECTOR(1, 2), VECTOR(5, 5)), "array([6, 7], dtype=float32)", 0);
    mlx_array_set(&captured, VECTOR(7, 7));
    expect(inside, LIST_OF(VECTOR(1, 2)), "array([8, 9], dtype=float32)", 1);
    mlx_closure_free(c);
    mlx_closure_free(inside);
    mlx_array_free(captured);
    drop_to(0);
}

static void test_captured_argument(void **state) {
    assert_no_leak(captured_argument_once);
}

/* ---- threads ---- */

struct job {
    mlx_closure c;
    mlx_stream s;
};

static void *replay_often(void *job) {
    const struct job *j = job;
    if (j->s.ctx) OK(mlx_set_default_stream(j->s));
    for (int i = 0; i < 200; i++) {
        mlx_vector_array in = TWO_FLOATS, res = mlx_vector_array_new();
        OK(mlx_closure_apply(&res, j->c, in));
        assert_text(at(res, 0), SUM_TEXT);
        if (i % 50 == 7) OK(mlx_detail_compile_clear_cache());
        mlx_vector_array_free(in);
        mlx_vector_array_free(res);
        drop_to(0);
    }
    return NULL;
}

/* Threads with the same default stream share a plan, the others have their own. */
static void threads_once(void) {
    pthread_t t[4];
    mlx_closure c = compiled(formula, false);
    struct job own = {c, no_stream}, shared = {c, cpu};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, replay_often, i % 2 ? &own : &shared), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    mlx_closure_free(c);
}

static void test_threads(void **state) {
    threads_once();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_in_use),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_placeholders),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_captured_argument),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
