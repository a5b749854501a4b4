/* test_graph.c - mlx/c/graph_utils.h: graphs as text and for Graphviz, with names that are set
 * and names that are made up. */
#include "api/function_support.h"

/* What the call writes. */
static const char *picture(bool dot, mlx_node_namer namer, mlx_vector_array outs) {
    static char text[4][4000];
    static int next;
    char *to = text[next++ % 4];
    to[0] = 0;
    FILE *f = fmemopen(to, sizeof text[0], "w");
    assert_non_null(f);
    OK(dot ? mlx_export_to_dot(f, namer, outs) : mlx_print_graph(f, namer, outs));
    fclose(f);
    return to;
}

static void pictures_once(void) {
    mlx_array x = VECTOR(1, 2), y = VECTOR(3, 4), p = multiply(x, y), q = add(p, x);
    mlx_vector_array outs = LIST_OF(q);
    mlx_node_namer none = {NULL}, names = mlx_node_namer_new();
    assert_string_equal(picture(false, none, outs), "A = multiply(B, C)  float32 (2)\n"
                                                    "D = add(A, B)  float32 (2)\n");
    assert_string_equal(picture(true, none, outs), "digraph {\n"
                                                   "  op0 [label=\"Multiply\", shape=box];\n"
                                                   "  \"A\" -> op0;\n"
                                                   "  \"B\" -> op0;\n"
                                                   "  op0 -> \"C\";\n"
                                                   "  op1 [label=\"Add\", shape=box];\n"
                                                   "  \"C\" -> op1;\n"
                                                   "  \"A\" -> op1;\n"
                                                   "  op1 -> \"D\";\n"
                                                   "}\n");
    OK(mlx_node_namer_set_name(names, x, "in \"put\"\n"));
    OK(mlx_node_namer_set_name(names, q, "first"));
    OK(mlx_node_namer_set_name(names, q, "B")); /* so B is taken */
    assert_string_equal(picture(false, names, outs), "A = multiply(in \"put\"\n, C)  float32 (2)\n"
                                                     "B = add(A, in \"put\"\n)  float32 (2)\n");
    assert_non_null(strstr(picture(true, names, outs), "  \"in \\\"put\\\" \" -> op0;\n"));
    /* What is evaluated has no past, and is named all the same. */
    OK(mlx_array_eval(p));
    assert_string_equal(picture(false, none, outs), "A = add(B, C)  float32 (2)\n");
    OK(mlx_array_eval(q));
    assert_string_equal(picture(false, none, outs), "");
    assert_string_equal(picture(true, none, outs), "digraph {\n}\n");
    mlx_vector_array empty = mlx_vector_array_new();
    assert_string_equal(picture(false, none, empty), "");
    OK(mlx_node_namer_free(names));
    OK(mlx_node_namer_free(none));
    mlx_vector_array_free(empty);
    mlx_vector_array_free(outs);
    drop_to(0);
}

/* Operations have the names of MLX: by their words, or by another name there. */
static void mlx_names_once(void) {
    mlx_array x = VECTOR(1, 2), y = mlx_array_new(), z = mlx_array_new();
    OK(mlx_logical_not(&y, stop_gradient(x), cpu));
    OK(mlx_all(&z, y, false, cpu));
    OK(mlx_arctan2(&z, x, z, cpu));
    mlx_node_namer none = {NULL};
    mlx_vector_array outs = LIST_OF(z);
    const char *dot = picture(true, none, outs);
    assert_non_null(strstr(dot, "[label=\"LogicalNot\", shape=box]"));
    assert_non_null(strstr(dot, "[label=\"And\", shape=box]"));
    assert_non_null(strstr(dot, "[label=\"ArcTan2\", shape=box]"));
    mlx_array_free(y);
    mlx_array_free(z);
    mlx_vector_array_free(outs);
    drop_to(0);
}

static void test_mlx_names(void **state) {
    assert_no_leak(mlx_names_once);
}

static void test_pictures(void **state) {
    assert_no_leak(pictures_once);
}

static void names_once(void) {
    mlx_node_namer names = mlx_node_namer_new();
    const char *name = NULL, *again = NULL;
    mlx_array a = number(1), other = mlx_array_new();
    for (int i = 0; i < 30; i++) OK(mlx_node_namer_get_name(&name, names, number((float)i)));
    assert_string_equal(name, "AD");
    OK(mlx_node_namer_set_name(names, a, "AE"));
    OK(mlx_node_namer_get_name(&name, names, number(2)));
    assert_string_equal(name, "AF");
    mlx_array_set(&other, a); /* another handle on the same array */
    OK(mlx_node_namer_get_name(&again, names, keep(other)));
    assert_string_equal(again, "AE");
    OK(mlx_node_namer_set_name(names, a, ""));
    OK(mlx_node_namer_get_name(&again, names, a));
    assert_string_equal(again, "");
    FAILS(mlx_node_namer_set_name(names, a, NULL), KEEL_EARG,
          "mlx_node_namer_set_name: the name is NULL");
    FAILS(mlx_node_namer_set_name(names, no_array, "a"), KEEL_EARG, "arr is an empty");
    FAILS(mlx_node_namer_set_name((mlx_node_namer){NULL}, a, "a"), KEEL_EARG,
          "namer is an empty handle");
    FAILS(mlx_node_namer_get_name(&name, names, no_array), KEEL_EARG, "arr is an empty");
    FAILS(mlx_node_namer_get_name(&name, (mlx_node_namer){NULL}, a), KEEL_EARG,
          "namer is an empty");
    FAILS(mlx_node_namer_get_name(NULL, names, a), KEEL_EARG, "the result is NULL");
    mlx_vector_array outs = LIST_OF(square(a));
    FAILS(mlx_print_graph(NULL, names, outs), KEEL_EARG, "mlx_print_graph: os is NULL");
    FAILS(mlx_export_to_dot(NULL, names, outs), KEEL_EARG, "mlx_export_to_dot: os is NULL");
    FAILS(mlx_print_graph(stdout, names, no_vector), KEEL_EARG, "outputs is an empty");
    FILE *full = fopen("/dev/full", "w");
    FAILS(mlx_print_graph(full, names, outs), KEEL_EFILE, "the graph could not be written");
    FAILS(mlx_export_to_dot(full, names, outs), KEEL_EFILE, "the graph could not be written");
    fclose(full);
    mlx_vector_array_free(outs);
    OK(mlx_node_namer_free(names));
    drop_to(0);
}

static void test_names(void **state) {
    assert_no_leak(names_once);
}

/* A graph of a hundred thousand operations, and the picture of a traced function. */
static int draws(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array outs = LIST_OF(square(at(in, 0)));
    assert_string_equal(picture(false, (mlx_node_namer){NULL}, outs),
                        "A = placeholder()  float32 (2)\nB = square(A)  float32 (2)\n");
    mlx_vector_array_free(outs);
    return GIVE(res, at(in, 0));
}

static void test_deep_and_traced(void **state) {
    mlx_array x = mlx_array_new_float(1);
    for (int i = 0; i < 100000; i++) OK(mlx_square(&x, x, cpu));
    mlx_vector_array outs = LIST_OF(x);
    FILE *to = tmpfile();
    OK(mlx_print_graph(to, (mlx_node_namer){NULL}, outs));
    rewind(to);
    int lines = 0, c;
    while ((c = fgetc(to)) != EOF) lines += c == '\n';
    assert_int_equal(lines, 100000);
    fclose(to);
    mlx_vector_array_free(outs);
    mlx_array_free(x);
    mlx_closure f = mlx_closure_new_func(draws), compiled = mlx_closure_new();
    OK(mlx_compile(&compiled, f, false));
    assert_text(result_of(compiled, LIST_OF(VECTOR(1, 2)), 0), "array([1, 2], dtype=float32)");
    mlx_closure_free(f);
    drop_to(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_mlx_names),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_deep_and_traced),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
