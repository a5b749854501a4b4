/* test_distributed_transforms.c - transforms of the operations of groups, with two ranks
 * (launcher.h): gradients as MLX has them, lanes, compiled functions and their order. */
#include "api/function_support.h"

#include <keel/function.h>

#include "launcher.h"

static mlx_distributed_group world;
static int rank;

static int join(void **state) {
    (void)api_setup(state);
    if (mlx_distributed_init(&world, true, "mpi") || mlx_distributed_group_size(world) != 2)
        return 1;
    rank = mlx_distributed_group_rank(world);
    return 0;
}

#define OF_ALL(name)                                                        \
    static mlx_array name(mlx_array a) {                                    \
        mlx_array r = mlx_array_new();                                      \
        mlx_distributed_##name(&r, a, world, cpu);                          \
        return keep(r);                                                     \
    }                                                                       \
    static int f_##name(mlx_vector_array *res, const mlx_vector_array in) { \
        return GIVE(res, name(at(in, 0)));                                  \
    }
OF_ALL(all_sum)
OF_ALL(all_max)
OF_ALL(all_gather)
OF_ALL(sum_scatter)

/* Checks the result, which is that of rank 0 or of rank 1. */
#define EXPECT(a, of_0, of_1) assert_text(a, rank ? (of_1) : (of_0))

/* Each rank's x is [1, 2] or [10, 20], as floats. */
static mlx_array mine(void) {
    return rank ? VECTOR(10, 20) : VECTOR(1, 2);
}

static mlx_array vjp_of(list_fn *f, mlx_array x, mlx_array cotangent) {
    mlx_closure fun = mlx_closure_new_func(f);
    mlx_vector_array outs = mlx_vector_array_new(), grads = mlx_vector_array_new();
    mlx_vector_array in = LIST_OF(x), along = LIST_OF(cotangent);
    OK(mlx_vjp(&outs, &grads, fun, in, along));
    mlx_array g = at(grads, 0);
    mlx_vector_array_free(outs);
    mlx_vector_array_free(grads);
    mlx_vector_array_free(in);
    mlx_vector_array_free(along);
    mlx_closure_free(fun);
    return g;
}

static int jvp_of(mlx_array *out, list_fn *f, mlx_array x, mlx_array tangent) {
    mlx_closure fun = mlx_closure_new_func(f);
    mlx_vector_array outs = mlx_vector_array_new(), along = mlx_vector_array_new();
    mlx_vector_array in = LIST_OF(x), tangents = LIST_OF(tangent);
    int rc = mlx_jvp(&outs, &along, fun, in, tangents);
    if (!rc) *out = at(along, 0);
    mlx_vector_array_free(outs);
    mlx_vector_array_free(along);
    mlx_vector_array_free(in);
    mlx_vector_array_free(tangents);
    mlx_closure_free(fun);
    return rc;
}

static void gradients(void **state) {
    mlx_array g = rank ? VECTOR(5, 6) : VECTOR(3, 4), all = VECTOR(1, 2, 3, 4);
    EXPECT(vjp_of(f_all_sum, mine(), g), "array([3, 4], dtype=float32)",
           "array([5, 6], dtype=float32)");
    EXPECT(vjp_of(f_all_max, mine(), g), "array([3, 4], dtype=float32)",
           "array([5, 6], dtype=float32)");
    EXPECT(vjp_of(f_all_gather, mine(), all), "array([1, 2], dtype=float32)",
           "array([3, 4], dtype=float32)");
    EXPECT(vjp_of(f_sum_scatter, mine(), number(0).ctx && rank ? VECTOR(7) : VECTOR(8)),
           "array([8, 7], dtype=float32)", "array([8, 7], dtype=float32)");
    EXPECT(vjp_of(f_all_gather, number(3), rank ? VECTOR(1, 2) : VECTOR(3, 4)),
           "array(3, dtype=float32)", "array(2, dtype=float32)");
    drop_to(0);
}

static void derivatives(void **state) {
    mlx_array t = rank ? VECTOR(5, 6) : VECTOR(3, 4), out = {NULL};
    OK(jvp_of(&out, f_all_sum, mine(), t));
    assert_text(out, "array([8, 10], dtype=float32)");
    OK(jvp_of(&out, f_all_gather, mine(), t));
    assert_text(out, "array([3, 4, 5, 6], dtype=float32)");
    OK(jvp_of(&out, f_sum_scatter, mine(), t));
    EXPECT(out, "array([8], dtype=float32)", "array([10], dtype=float32)");
    OK(jvp_of(&out, f_all_max, rank ? VECTOR(1, 2) : VECTOR(7, 2), t));
    assert_text(out, "array([3, 5], dtype=float32)");
    drop_to(0);
}

static mlx_array lanes(list_fn *f, mlx_array x, int axis) {
    return result_of(lanes_of(mlx_closure_new_func(f), LIST(axis, 0, 0, 0), ZEROS4), LIST_OF(x), 0);
}

static void batches(void **state) {
    float v[4];
    for (int i = 0; i < 4; i++) v[i] = (float)(i + 10 * rank);
    mlx_array x = keep(of_floats(v, LIST(2, 2), 2));
    assert_text(lanes(f_all_sum, x, 0), "array([[10, 12],\n       [14, 16]], dtype=float32)");
    assert_text(lanes(f_all_sum, x, 1), "array([[10, 14],\n       [12, 16]], dtype=float32)");
    assert_text(lanes(f_all_gather, x, 0),
                "array([[0, 1, 10, 11],\n       [2, 3, 12, 13]], dtype=float32)");
    assert_text(lanes(f_all_gather, x, 1),
                "array([[0, 2, 10, 12],\n       [1, 3, 11, 13]], dtype=float32)");
    EXPECT(lanes(f_sum_scatter, x, 0), "array([[10],\n       [14]], dtype=float32)",
           "array([[12],\n       [16]], dtype=float32)");
    assert_text(lanes(f_all_gather, mine(), 0), "array([[1, 10],\n       [2, 20]], dtype=float32)");
    drop_to(0);
}

/* ---- compiled functions ---- */

/* Two equal operations, both of which are done, and one that no result needs. */
static int several(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array a = all_sum(at(in, 0)), unused = all_max(at(in, 0)), b = all_sum(at(in, 0));
    (void)unused;
    return GIVE(res, add(multiply(b, number(100)), a), all_gather(at(in, 0)), a);
}

static void compiled(bool shapeless) {
    mlx_closure f = mlx_closure_new_func(several), c = mlx_closure_new();
    OK(mlx_compile(&c, f, shapeless));
    for (int i = 0; i < 4; i++) {
        /* In between, operations that no compiled function has. */
        mlx_array before = all_sum(mine());
        mlx_vector_array in = LIST_OF(add(mine(), number((float)i))), out = mlx_vector_array_new();
        OK(mlx_closure_apply(&out, c, in));
        mlx_array after = all_sum(mine());
        /* Evaluated in another order by each rank. */
        mlx_vector_array turned = rank ? LIST_OF(after, at(out, 2), at(out, 1), at(out, 0), before)
                                       : LIST_OF(at(out, 0), before, at(out, 1), after, at(out, 2));
        OK(mlx_eval(turned));
        char text[80];
        snprintf(text, sizeof text, "array([%d, %d], dtype=float32)", 101 * (11 + 2 * i),
                 101 * (22 + 2 * i));
        assert_text(at(out, 0), text);
        snprintf(text, sizeof text, "array([%d, %d, %d, %d], dtype=float32)", 1 + i, 2 + i, 10 + i,
                 20 + i);
        assert_text(at(out, 1), text);
        assert_text(before, "array([11, 22], dtype=float32)");
        assert_text(after, "array([11, 22], dtype=float32)");
        mlx_vector_array_free(turned);
        mlx_vector_array_free(in);
        mlx_vector_array_free(out);
    }
    mlx_closure_free(c);
    mlx_closure_free(f);
    drop_to(0);
}

static void compiling(void **state) {
    compiled(false);
    compiled(true);
}

/* The gradient of a function that was compiled; its input is a view in another order. */
static int loss(mlx_vector_array *res, const mlx_vector_array in) {
    return GIVE(res, sum(square(all_sum(at(in, 0)))));
}

static void gradient_of_compiled(void **state) {
    mlx_closure f = mlx_closure_new_func(loss), c = mlx_closure_new(), g = mlx_closure_new();
    OK(mlx_compile(&c, f, false));
    mlx_closure d = gradient_of(c, LIST(0), 1);
    OK(mlx_compile(&g, d, false));
    for (int i = 0; i < 3; i++) {
        float v[4] = {1, 2, 3, 4};
        mlx_array x = keep(of_floats(v, LIST(2, 2), 2)), t = mlx_array_new();
        OK(mlx_transpose(&t, x, cpu));
        mlx_vector_array in = LIST_OF(keep(t)), out = mlx_vector_array_new();
        OK(mlx_closure_apply(&out, g, in));
        assert_text(at(out, 0), "array([[4, 12],\n       [8, 16]], dtype=float32)");
        mlx_vector_array_free(in);
        mlx_vector_array_free(out);
    }
    mlx_closure_free(g);
    mlx_closure_free(d);
    mlx_closure_free(f);
    drop_to(0);
}

static void exporting(void **state) {
    mlx_closure f = mlx_closure_new_func(loss);
    mlx_vector_array in = LIST_OF(mine());
    FAILS(mlx_export_function(kl_test_path("f.mlxfn"), f, in, false), KEEL_EUNSUPPORTED, "all_sum");
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    drop_to(0);
}

/* ---- alone ---- */

static void of_one(void **state) {
    OK(mlx_distributed_init(&world, false, NULL));
    assert_text(vjp_of(f_all_gather, VECTOR(1, 2), VECTOR(3, 4)), "array([3, 4], dtype=float32)");
    drop_to(0);
    OK(mlx_distributed_group_free(world));
}

int main(void) {
    const struct CMUnitTest alone[] = {cmocka_unit_test(of_one)};
    const struct CMUnitTest of_ranks[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(batches),
        cmocka_unit_test(compiling),
        cmocka_unit_test(gradient_of_compiled),
        cmocka_unit_test(exporting),
    };
    int status;
    if (starts_ranks(2, &status)) return status;
    if (is_a_rank()) return cmocka_run_group_tests(of_ranks, join, api_teardown);
    return cmocka_run_group_tests(alone, api_setup, api_teardown);
}
