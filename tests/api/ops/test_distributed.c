/* test_distributed.c - mlx/c/distributed.h and distributed_group.h: alone, and with two ranks
 * (launcher.h). */
#include "api/api_support.h"

#include "launcher.h"

static mlx_distributed_group world;

/* ---- alone ---- */

static void groups(void **state) {
    mlx_distributed_group g = mlx_distributed_group_new(), part = mlx_distributed_group_new();
    assert_null(g.ctx);
    OK(mlx_distributed_init(&g, false, NULL));
    assert_int_equal(mlx_distributed_group_rank(g), 0);
    assert_int_equal(mlx_distributed_group_size(g), 1);
    void *kept = g.ctx;
    OK(mlx_distributed_init(&g, false, "mpi")); /* a live handle keeps its pointer */
    assert_ptr_equal(g.ctx, kept);
    OK(mlx_distributed_group_split(&part, g, 2, 0));
    assert_int_equal(mlx_distributed_group_size(part), 1);
    OK(mlx_distributed_group_split(&part, part, 0, -1));
    OK(mlx_distributed_group_free(part));
    OK(mlx_distributed_group_free(g));
    OK(mlx_distributed_group_free(mlx_distributed_group_new()));
    assert_false(mlx_distributed_is_available("ring"));
    assert_false(mlx_distributed_is_available("no such"));
    assert_int_equal(mlx_distributed_is_available(NULL), mlx_distributed_is_available("any"));
}

static void bad_groups(void **state) {
    mlx_distributed_group g = mlx_distributed_group_new();
    const mlx_distributed_group none = {NULL};
    FAILS(mlx_distributed_init(&g, false, "pigeons"), KEEL_EARG, "'pigeons'");
    FAILS(mlx_distributed_init(&g, true, "ring"), KEEL_EGROUP, "ring cannot be used");
    FAILS(mlx_distributed_init(NULL, false, NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_distributed_group_split(&g, none, 0, 0), KEEL_EARG, "empty group handle");
    FAILS_ZERO(mlx_distributed_group_rank(none), KEEL_EARG, "empty group handle");
    FAILS_ZERO(mlx_distributed_group_size(none), KEEL_EARG, "empty group handle");
    OK(mlx_distributed_init(&g, false, NULL));
    FAILS(mlx_distributed_group_split(&g, g, -3, 0), KEEL_EARG, "the color is -3");
    FAILS(mlx_distributed_group_split(NULL, g, 0, 0), KEEL_EARG, "the result is NULL");
    OK(mlx_distributed_group_free(g));
}

typedef int of_all_fn(mlx_array *, const mlx_array, const mlx_distributed_group, const mlx_stream);
static of_all_fn *const all[] = {mlx_distributed_all_sum, mlx_distributed_all_max,
                                 mlx_distributed_all_min, mlx_distributed_all_gather,
                                 mlx_distributed_sum_scatter};

static void of_one(void **state) {
    const mlx_distributed_group none = {NULL};
    mlx_array x = INTS(1, 2), r = mlx_array_new();
    for (int i = 0; i < 5; i++) {
        OK(all[i](&r, x, none, cpu));
        assert_text(r, "array([1, 2], dtype=int32)");
        FAILS(all[i](&r, no_array, none, cpu), KEEL_EARG, "x is an empty array handle");
        FAILS(all[i](&r, x, none, no_stream), KEEL_EARG, "stream");
        FAILS(all[i](NULL, x, none, cpu), KEEL_EARG, "the result is NULL");
    }
    FAILS(mlx_distributed_send(&r, x, 0, none, cpu), KEEL_EARG, "one process");
    FAILS(mlx_distributed_recv(&r, AXES(2), MLX_INT32, 0, none, cpu), KEEL_EARG, "one process");
    FAILS(mlx_distributed_recv_like(&r, x, 0, none, cpu), KEEL_EARG, "one process");
    FAILS(mlx_distributed_send(&r, no_array, 0, none, cpu), KEEL_EARG, "x is an empty");
    FAILS(mlx_distributed_recv_like(&r, no_array, 0, none, cpu), KEEL_EARG, "x is an empty");
    FAILS(mlx_distributed_recv(&r, NULL, 2, MLX_INT32, 0, none, cpu), KEEL_EARG, "NULL");
    mlx_array_free(x);
    mlx_array_free(r);
}

/* Several processes that no launcher of MPI started never become groups of one. */
static void not_alone(void **state) {
    static const char *const settings[][2] = {{"MLX_WORLD_SIZE", "4"},
                                              {"MLX_RANK", "1"},
                                              {"MLX_WORLD_SIZE", "many"},
                                              {"KEEL_DIST_TIMEOUT", "soon"}};
    for (int i = 0; i < 4; i++) {
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            setenv(settings[i][0], settings[i][1], 1);
            setenv("KEEL_TEST_ALONE", settings[i][0], 1);
            kl_test_run_again((const char *[]){NULL});
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* In a process of its own: init must fail, and name the variable. */
static int init_fails(const char *variable) {
    mlx_distributed_group g = mlx_distributed_group_new();
    mlx_set_error_handler(remember, NULL, NULL);
    return mlx_distributed_init(&g, false, NULL) != 1 || !strstr(seen.text, variable);
}

/* ---- two ranks ---- */

static int join(void **state) {
    (void)api_setup(state);
    return mlx_distributed_init(&world, true, "mpi") || mlx_distributed_group_size(world) != 2;
}

static void values(void **state) {
    const int rank = mlx_distributed_group_rank(world);
    const mlx_distributed_group none = {NULL};
    mlx_array x = rank ? INTS(10, 20) : INTS(1, 2), r = mlx_array_new();
    static const char *const want[] = {"array([11, 22], dtype=int32)",
                                       "array([10, 20], dtype=int32)", "array([1, 2], dtype=int32)",
                                       "array([1, 2, 10, 20], dtype=int32)"};
    for (int i = 0; i < 4; i++) {
        OK(all[i](&r, x, i % 2 ? none : world, cpu));
        assert_text(r, want[i]);
    }
    OK(mlx_distributed_sum_scatter(&r, x, world, cpu));
    assert_text(r, rank ? "array([22], dtype=int32)" : "array([11], dtype=int32)");
    if (rank) {
        OK(mlx_distributed_send(&r, x, 0, world, cpu));
        assert_text(r, "array([10, 20], dtype=int32)");
        OK(mlx_distributed_recv_like(&r, x, 0, none, cpu));
        assert_text(r, "array([1, 2], dtype=int32)");
    } else {
        OK(mlx_distributed_recv(&r, AXES(2), MLX_INT32, 1, none, cpu));
        assert_text(r, "array([10, 20], dtype=int32)");
        OK(mlx_distributed_send(&r, x, 1, none, cpu));
        assert_text(r, "array([1, 2], dtype=int32)");
    }
    FAILS(mlx_distributed_send(&r, x, 2, world, cpu), KEEL_EARG, "dst is 2");
    FAILS(mlx_distributed_recv_like(&r, x, -1, world, cpu), KEEL_EARG, "src is -1");
    mlx_array_free(x);
    mlx_array_free(r);
}

static void split(void **state) {
    const int rank = mlx_distributed_group_rank(world);
    mlx_distributed_group g = mlx_distributed_group_new();
    OK(mlx_distributed_group_split(&g, world, 0, -rank + 5));
    assert_int_equal(mlx_distributed_group_size(g), 2);
    assert_int_equal(mlx_distributed_group_rank(g), 1 - rank);
    mlx_array x = INTS(rank), r = mlx_array_new();
    OK(mlx_distributed_all_gather(&r, x, g, cpu));
    OK(mlx_distributed_group_free(g)); /* the operation keeps it */
    assert_text(r, "array([1, 0], dtype=int32)");
    mlx_array_free(x);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(groups),
        cmocka_unit_test(bad_groups),
        cmocka_unit_test(of_one),
        cmocka_unit_test(not_alone),
    };
    const struct CMUnitTest of_ranks[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(split),
    };
    int status;
    if (getenv("KEEL_TEST_ALONE")) return init_fails(getenv("KEEL_TEST_ALONE"));
    if (starts_ranks(2, &status)) return status;
    if (is_a_rank()) return cmocka_run_group_tests(of_ranks, join, api_teardown);
    return cmocka_run_group_tests(alone, api_setup, api_teardown);
}
