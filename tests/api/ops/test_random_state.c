/* test_random_state.c - keel/random.h: the random state as an array, given and taken, lazy,
 * failed, of other threads, and through compiled functions. */
#include "api/function_support.h"

#include <keel/random.h>
#include <pthread.h>

/* A handle that calls overwrite in place, in the pool. */
static mlx_array live(void) {
    return keep(mlx_array_new_int(0));
}

/* The next three numbers that are drawn without a key, as text. */
static const char *draw(void) {
    mlx_array r = live();
    OK(mlx_random_bits(&r, AXES(3), 4, no_array, cpu));
    return text_of(r);
}
static mlx_array state_now(void) {
    mlx_array s = mlx_array_new();
    OK(keel_random_get_state(&s));
    return keep(s);
}

static void given_and_taken_once(void) {
    char first[100], second[100];
    OK(mlx_random_seed(5));
    mlx_array s = state_now();
    assert_text(s, "array([0, 5], dtype=uint32)");
    snprintf(first, sizeof first, "%s", draw());
    snprintf(second, sizeof second, "%s", draw());
    assert_string_not_equal(first, second);
    OK(keel_random_set_state(s));
    assert_string_equal(draw(), first);
    s = state_now();
    assert_string_equal(draw(), second);
    OK(keel_random_set_state(s));
    assert_string_equal(draw(), second);
    /* A key that is not computed yet, as a view with another stride. */
    mlx_array lazy = live(), more = keep(INTS(-5, 9, -1, 0));
    OK(mlx_astype(&lazy, more, MLX_UINT32, cpu));
    OK(mlx_add(&lazy, lazy, lazy, cpu));
    OK(mlx_slice(&lazy, lazy, AXES(3), AXES(0), AXES(-2), cpu));
    mlx_array plain = keep(mlx_array_new_data((uint32_t[]){0, 18}, LIST(2), 1, MLX_UINT32));
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        OK(keel_random_set_state(plain));
        snprintf(first, sizeof first, "%s", draw());
        snprintf(second, sizeof second, "%s", draw());
        OK(keel_random_set_state(lazy));
        mlx_array r = live(), q = live();
        OK(mlx_random_bits(&r, AXES(3), 4, no_array, cpu)); /* twice with nothing evaluated */
        OK(mlx_random_bits(&q, AXES(3), 4, no_array, cpu));
        assert_text(q, second);
        assert_text(r, first);
        assert_text(state_now(), text_of(state_now()));
        OK(mlx_array_eval(lazy));
    }
    OK(mlx_random_seed(5)); /* in place of an array */
    assert_text(state_now(), "array([0, 5], dtype=uint32)");
    /* The handle of a result is overwritten. */
    mlx_array old = live();
    void *ctx = old.ctx;
    OK(keel_random_get_state(&old));
    assert_ptr_equal(old.ctx, ctx);
    assert_text(old, "array([0, 5], dtype=uint32)");
    drop_to(0);
}

static void test_given_and_taken(void **state) {
    assert_no_leak(given_and_taken_once);
}

static void refused_once(void) {
    OK(mlx_random_seed(9));
    mlx_array bad = keep(INTS(1, 2)), long_key = live();
    OK(mlx_random_split_num(&long_key, state_now(), 2, cpu));
    FAILS(keel_random_set_state(no_array), KEEL_EARG, "keel_random_set_state: state is an empty");
    FAILS(keel_random_set_state(bad), KEEL_EDTYPE, "the state is int32; uint32 is taken");
    FAILS(keel_random_set_state(long_key), KEEL_ESHAPE, "the state has shape (2,2); (2) is taken");
    FAILS(keel_random_get_state(NULL), KEEL_EARG, "keel_random_get_state: the result is NULL");
    assert_text(state_now(), "array([0, 9], dtype=uint32)");
    /* A state that fails: draws have its error, until there is another one. */
    mlx_array failed = live(), r = live();
    OK(mlx_astype(&failed, take0(bad, keep(INTS(0, 7))), MLX_UINT32, cpu));
    OK(keel_random_set_state(failed));
    for (int i = 0; i < 2; i++) {
        OK(mlx_random_bits(&r, AXES(3), 4, no_array, cpu));
        FAILS(mlx_array_eval(r), KEEL_EINDEX, "7");
    }
    OK(mlx_random_seed(9));
    draw();
    drop_to(0);
}

static void test_refused(void **state) {
    assert_no_leak(refused_once);
}

/* ---- threads ---- */

static void *elsewhere(void *given) {
    mlx_array s = {given}, r = mlx_array_new();
    OK(keel_random_set_state(s)); /* lazy, and the thread ends with it */
    OK(mlx_random_bits(&r, AXES(3), 4, no_array, cpu));
    OK(keel_random_get_state(&r));
    mlx_array_free(r);
    return NULL;
}

static void threads_once(void) {
    pthread_t t;
    OK(mlx_random_seed(4));
    mlx_array lazy = live();
    OK(mlx_add(&lazy, state_now(), state_now(), cpu));
    assert_int_equal(pthread_create(&t, NULL, elsewhere, lazy.ctx), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_text(state_now(), "array([0, 4], dtype=uint32)");
    drop_to(0);
}

static void test_threads(void **state) {
    assert_no_leak(threads_once);
}

/* ---- compiled functions ---- */

/* {state, x}: x plus two draws; the state that follows */
static int sample(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 1), a = live(), b = live(), s = live();
    int rc = keel_random_set_state(at(in, 0));
    if (!rc) rc = mlx_random_normal(&a, AXES(3), MLX_FLOAT32, 0, 1, no_array, cpu);
    if (!rc) rc = mlx_random_normal(&b, AXES(3), MLX_FLOAT32, 2, 3, no_array, cpu);
    if (!rc) rc = keel_random_get_state(&s);
    return rc ? rc : GIVE(res, add(add(x, a), b), s);
}

/* Five samples, each with the state of the one before, by f. */
static void samples(mlx_closure f, char text[5][100]) {
    mlx_array s = live(), x = VECTOR(1, 2, 3);
    OK(mlx_random_key(&s, 77));
    for (int i = 0; i < 5; i++) {
        mlx_vector_array in = LIST_OF(s, x), res = mlx_vector_array_new();
        OK(mlx_closure_apply(&res, f, in));
        snprintf(text[i], 100, "%s", text_of(at(res, 0)));
        s = at(res, 1);
        mlx_vector_array_free(in);
        mlx_vector_array_free(res);
    }
}

static void compiled_once(void) {
    char want[5][100], got[5][100];
    mlx_closure f = mlx_closure_new_func(sample), c = mlx_closure_new();
    samples(f, want);
    OK(mlx_random_seed(3));
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        OK(mlx_compile(&c, f, shapeless));
        samples(c, got);
        for (int i = 0; i < 5; i++) {
            assert_string_equal(got[i], want[i]);
            if (i) assert_string_not_equal(got[i], got[i - 1]);
        }
        /* When a trace ends, so does the state that it made. */
        assert_text(state_now(), "array([0, 3], dtype=uint32)");
    }
    mlx_closure_free(c);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_compiled(void **state) {
    assert_no_leak(compiled_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_and_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_compiled),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
