/* test_export.c - mlx/c/export.h: functions written and read again, by name and without,
 * several in one file, inside transforms, on another device and in another process; refusals, and
 * files that cannot be written. */
#include <keel/function.h>

#include "api/function_support.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void use_simulated_device(void) {
    setenv("KEEL_GPU", "sim", 1);
}

static mlx_array weight;

/* x * weight + x, on the default stream */
static int scaled(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, add(multiply(x, weight), x));
}

/* x * scale + shift */
static int with_names(mlx_vector_array *res, const mlx_vector_array in,
                      const mlx_map_string_to_array named) {
    mlx_array scale = mlx_array_new(), shift = mlx_array_new();
    int rc = mlx_map_string_to_array_get(&scale, named, "scale");
    if (!rc) rc = mlx_map_string_to_array_get(&shift, named, "shift");
    return rc ? rc : GIVE(res, add(multiply(at(in, 0), keep(scale)), keep(shift)));
}

static int named_fails(mlx_vector_array *res, const mlx_vector_array in,
                       const mlx_map_string_to_array named) {
    return 4;
}

static int fails(mlx_vector_array *res, const mlx_vector_array in) {
    return 3;
}

static int evaluates(mlx_vector_array *res, const mlx_vector_array in) {
    return mlx_array_eval(square(at(in, 0))) || GIVE(res, at(in, 0));
}

static mlx_map_string_to_array names_of(const char *a, mlx_array x, const char *b, mlx_array y) {
    mlx_map_string_to_array m = mlx_map_string_to_array_new();
    if (a) OK(mlx_map_string_to_array_insert(m, a, x));
    if (b) OK(mlx_map_string_to_array_insert(m, b, y));
    return m;
}

/* The first result of what the file holds. */
static mlx_array imported(const char *file, mlx_vector_array in) {
    mlx_imported_function f = mlx_imported_function_new(file);
    mlx_vector_array res = mlx_vector_array_new();
    assert_non_null(f.ctx);
    OK(mlx_imported_function_apply(&res, f, in));
    mlx_array a = at(res, 0);
    OK(mlx_imported_function_free(f));
    mlx_vector_array_free(res);
    mlx_vector_array_free(in);
    return a;
}

static void written_and_read_once(void) {
    const char *file = kl_test_path("scaled");
    mlx_closure f = mlx_closure_new_func(scaled);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2));
    weight = mlx_array_new();
    mlx_array_set(&weight, square(VECTOR(2, 3))); /* a lazy constant */
    OK(mlx_export_function(file, f, in, false));
    mlx_array_set(&weight, VECTOR(0, 0));
    assert_text(imported(file, LIST_OF(VECTOR(1, 2))), "array([5, 20], dtype=float32)");
    assert_text(imported(file, LIST_OF(VECTOR(1, 1))), "array([5, 10], dtype=float32)");
    /* A new file takes the place of the old one. */
    OK(mlx_export_function(file, f, in, true));
    assert_text(imported(file, LIST_OF(VECTOR(1, 2))), "array([1, 2], dtype=float32)");
    /* On the device, which another process may have. */
    mlx_device gpu = mlx_device_new_type(MLX_GPU, 0), before = mlx_device_new();
    mlx_vector_array x = LIST_OF(VECTOR(4, 5));
    OK(mlx_get_default_device(&before));
    OK(mlx_set_default_device(gpu));
    assert_text(imported(file, x), "array([4, 5], dtype=float32)");
    OK(mlx_set_default_device(before));
    mlx_device_free(gpu);
    mlx_device_free(before);
    mlx_array_free(weight);
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_written_and_read(void **state) {
    assert_no_leak(written_and_read_once);
}

static void named_once(void) {
    const char *file = kl_test_path("named");
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(with_names);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2)), res = mlx_vector_array_new();
    mlx_map_string_to_array m = names_of("shift", VECTOR(10, 10), "scale", VECTOR(2, 3)),
                            less = names_of("scale", number(2), NULL, no_array),
                            other = names_of("scale", VECTOR(1, 1), "shifts", VECTOR(2, 3));
    OK(mlx_export_function_kwargs(file, f, in, m, false));
    mlx_imported_function g = mlx_imported_function_new(file);
    OK(mlx_imported_function_apply_kwargs(&res, g, in, m));
    assert_text(at(res, 0), "array([12, 16], dtype=float32)");
    void *ctx = res.ctx;
    FAILS(mlx_imported_function_apply_kwargs(&res, g, in, less), KEEL_EARG,
          "mlx_imported_function_apply_kwargs: nothing was exported for 2 arguments");
    FAILS(mlx_imported_function_apply_kwargs(&res, g, in, other), KEEL_EARG,
          "the first of 1 functions takes (float32 (2), float32 (2) named scale, float32 (2) named "
          "shift)");
    FAILS(mlx_imported_function_apply(&res, g, in), KEEL_EARG, "for 1 arguments");
    /* A name for the only place without one; not for one of two places. */
    mlx_map_string_to_array all = names_of("scale", VECTOR(2, 3), "shift", VECTOR(10, 10));
    mlx_vector_array none = mlx_vector_array_new();
    static const char *const words[] = {"a", "shade",
                                        "x"}; /* before, between and after the names */
    for (int i = 0; i < 3; i++) {
        mlx_map_string_to_array one = names_of("scale", VECTOR(2, 3), "shift", VECTOR(10, 10));
        mlx_array x = VECTOR(1, 2);
        OK(mlx_map_string_to_array_insert(one, words[i], x));
        OK(mlx_imported_function_apply_kwargs(&res, g, none, one));
        assert_text(at(res, 0), "array([12, 16], dtype=float32)");
        OK(mlx_map_string_to_array_insert(one, "y", x));
        FAILS(mlx_imported_function_apply_kwargs(&res, g, none, one), KEEL_EARG, "4 arguments");
        mlx_map_string_to_array_free(one);
    }
    FAILS(mlx_imported_function_apply_kwargs(&res, g, none, all), KEEL_EARG, "2 arguments");
    mlx_map_string_to_array_free(all);
    mlx_vector_array_free(none);
    OK(mlx_imported_function_apply_kwargs(&res, g, in, m));
    ctx = res.ctx;
    FAILS(mlx_imported_function_apply_kwargs(&res, g, in, (mlx_map_string_to_array){NULL}),
          KEEL_EARG, "kwargs");
    assert_ptr_equal(res.ctx, ctx);
    assert_text(at(res, 0), "array([12, 16], dtype=float32)");
    OK(mlx_imported_function_free(g));
    /* Refusals, which leave the file. */
    mlx_closure_kwargs bad = mlx_closure_kwargs_new_func(named_fails);
    FAILS(mlx_export_function_kwargs(file, bad, in, m, false), KEEL_ECALLBACK, "non-zero");
    FAILS(mlx_export_function_kwargs(file, (mlx_closure_kwargs){NULL}, in, m, false), KEEL_EARG,
          "fun is an empty");
    FAILS(mlx_export_function_kwargs(file, f, no_vector, m, false), KEEL_EARG, "args is an empty");
    FAILS(mlx_export_function_kwargs(file, f, in, (mlx_map_string_to_array){NULL}, false),
          KEEL_EARG, "kwargs");
    FAILS(mlx_export_function_kwargs(NULL, f, in, m, false), KEEL_EARG, "the path of the file");
    g = mlx_imported_function_new(file);
    OK(mlx_imported_function_apply_kwargs(&res, g, in, m));
    assert_text(at(res, 0), "array([12, 16], dtype=float32)");
    OK(mlx_imported_function_free(g));
    mlx_map_string_to_array maps[] = {m, less, other};
    for (int i = 0; i < 3; i++) mlx_map_string_to_array_free(maps[i]);
    mlx_closure_kwargs_free(f);
    mlx_closure_kwargs_free(bad);
    mlx_vector_array_free(in);
    mlx_vector_array_free(res);
    drop_to(0);
}

static void test_named(void **state) {
    assert_no_leak(named_once);
}

/* ---- keel/function.h ---- */

static void metadata_once(void) {
    const char *file = kl_test_path("metadata");
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(with_names);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2)), res = mlx_vector_array_new(),
                     more = LIST_OF(number(1));
    mlx_map_string_to_array m = names_of("shift", VECTOR(10, 10), "scale", VECTOR(2, 3)),
                            ones = names_of("shift", number(1), "scale", number(2));
    static const char *const texts[] = {"{\"layers\": 2}", "", NULL};
    for (int i = 0; i < 3; i++) {
        OK(keel_export_function(file, f, in, m, false, texts[i]));
        mlx_imported_function g = mlx_imported_function_new(file);
        assert_string_equal(keel_imported_function_metadata(g), texts[i] ? texts[i] : "");
        OK(mlx_imported_function_apply_kwargs(&res, g, in, m));
        assert_text(at(res, 0), "array([12, 16], dtype=float32)");
        OK(mlx_imported_function_free(g));
    }
    mlx_function_exporter x = keel_function_exporter_new(file, f, false, "text");
    OK(mlx_function_exporter_apply_kwargs(x, in, m));
    OK(mlx_function_exporter_apply_kwargs(x, more, ones));
    FAILS(mlx_function_exporter_apply_kwargs(x, in, m), KEEL_EARG, "before");
    OK(mlx_function_exporter_free(x));
    mlx_imported_function g = mlx_imported_function_new(file);
    assert_string_equal(keel_imported_function_metadata(g), "text");
    OK(mlx_imported_function_apply_kwargs(&res, g, more, ones));
    assert_text(at(res, 0), "array(3, dtype=float32)");
    OK(mlx_imported_function_free(g));
    assert_null(keel_imported_function_metadata((mlx_imported_function){NULL}));
    FAILS(keel_export_function(file, (mlx_closure_kwargs){NULL}, in, m, false, NULL), KEEL_EARG,
          "fun is an empty");
    mlx_map_string_to_array_free(m);
    mlx_map_string_to_array_free(ones);
    mlx_closure_kwargs_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(more);
    mlx_vector_array_free(res);
    drop_to(0);
}

static void test_metadata(void **state) {
    assert_no_leak(metadata_once);
}

/* What a visitor was told, as text. */
struct told {
    char text[1000];
    int until; /* events before it fails */
};

static int tell(const keel_export_event *e, void *payload) {
    static const char *const kinds[] = {"inputs", "outputs", "constant"};
    struct told *t = payload;
    char *to = t->text;
    size_t n = strlen(to), room = sizeof t->text;
    if (t->until-- == 0) return 7;
    n += (size_t)snprintf(to + n, room - n, "%s", e->name ? e->name : kinds[e->kind]);
    if (e->parameters) n += (size_t)snprintf(to + n, room - n, "%s", e->parameters);
    for (size_t i = 0; i < e->n_inputs; i++)
        n += (size_t)snprintf(to + n, room - n, " %d", e->inputs[i].number);
    for (size_t i = 0; i < e->n_names; i++)
        n += (size_t)snprintf(to + n, room - n, " %s", e->names[i]);
    for (size_t i = 0; i < e->n_outputs; i++)
        n += (size_t)snprintf(to + n, room - n, " -> %d", e->outputs[i].number);
    if (e->constant.ctx) n += (size_t)snprintf(to + n, room - n, " %d", e->outputs[0].shape[0]);
    snprintf(to + n, room - n, "; ");
    return 0;
}

static int times_weight(mlx_vector_array *res, const mlx_vector_array in,
                        const mlx_map_string_to_array named) {
    return GIVE(res, multiply(at(in, 0), VECTOR(3, 4)));
}

static void described_once(void) {
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(with_names);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2));
    mlx_map_string_to_array m = names_of("shift", VECTOR(10, 10), "scale", VECTOR(2, 3));
    struct told t = {.until = -1};
    OK(keel_export_describe(tell, &t, f, in, m, false));
    assert_string_equal(t.text, "inputs 0 1 2 scale shift; outputs -> 4; "
                                "multiply[] 0 1 -> 3; add[] 3 2 -> 4; ");
    mlx_closure_kwargs g = mlx_closure_kwargs_new_func(times_weight);
    t = (struct told){.until = -1};
    OK(keel_export_describe(tell, &t, g, in, (mlx_map_string_to_array){NULL}, false));
    assert_string_equal(t.text, "inputs 0; outputs -> 2; constant -> 1 2; multiply[] 0 1 -> 2; ");
    mlx_closure_kwargs_free(g);
    t = (struct told){.until = 2};
    FAILS(keel_export_describe(tell, &t, f, in, m, false), KEEL_ECALLBACK,
          "the visitor returned 7");
    FAILS(keel_export_describe(NULL, NULL, f, in, m, false), KEEL_EARG, "the visitor is NULL");
    mlx_map_string_to_array_free(m);
    mlx_closure_kwargs_free(f);
    mlx_vector_array_free(in);
    drop_to(0);
}

static void test_described(void **state) {
    assert_no_leak(described_once);
}

static int ignores_names(mlx_vector_array *res, const mlx_vector_array in,
                         const mlx_map_string_to_array named) {
    return GIVE(res, square(at(in, 0)));
}

/* The longest name that a file takes, and one that is longer. */
static void long_names_once(void) {
    const char *file = kl_test_path("long");
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(ignores_names);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2)), res = mlx_vector_array_new();
    for (int n = 1000; n <= 1001; n++) {
        char name[1100];
        memset(name, 'x', sizeof name);
        name[n] = 0;
        mlx_map_string_to_array m = names_of(name, number(2), NULL, no_array);
        if (n == 1000) {
            OK(mlx_export_function_kwargs(file, f, in, m, false));
            mlx_imported_function g = mlx_imported_function_new(file);
            OK(mlx_imported_function_apply_kwargs(&res, g, in, m));
            OK(mlx_imported_function_free(g));
        } else {
            FAILS(mlx_export_function_kwargs(file, f, in, m, false), KEEL_ELIMIT,
                  "has 1001 bytes; a file takes at most 1000");
        }
        mlx_map_string_to_array_free(m);
    }
    mlx_closure_kwargs_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(res);
    drop_to(0);
}

static void test_long_names(void **state) {
    assert_no_leak(long_names_once);
}

/* ---- several traces in one file ---- */

static void several_once(void) {
    const char *file = kl_test_path("several");
    mlx_closure f = mlx_closure_new_func(scaled);
    mlx_function_exporter x = mlx_function_exporter_new(file, f, false);
    mlx_vector_array two = LIST_OF(VECTOR(1, 2)), one = LIST_OF(number(3)),
                     three = LIST_OF(VECTOR(1, 2, 3));
    mlx_map_string_to_array none = mlx_map_string_to_array_new(),
                            some = names_of("a", number(1), NULL, no_array);
    weight = mlx_array_new();
    mlx_array_set(&weight, number(10));
    assert_non_null(x.ctx);
    OK(mlx_function_exporter_apply(x, two));
    OK(mlx_function_exporter_apply_kwargs(x, one, none));
    FAILS(mlx_function_exporter_apply(x, two), KEEL_EARG,
          "mlx_function_exporter_apply: the function was exported for arguments of these");
    FAILS(mlx_function_exporter_apply_kwargs(x, two, some), KEEL_EARG, "takes no named arrays");
    FAILS(mlx_function_exporter_apply_kwargs(x, two, (mlx_map_string_to_array){NULL}), KEEL_EARG,
          "kwargs");
    FAILS(mlx_function_exporter_apply(x, no_vector), KEEL_EARG, "args is an empty");
    assert_int_not_equal(access(file, F_OK), 0); /* nothing is written yet */
    OK(mlx_function_exporter_free(x));
    mlx_imported_function g = mlx_imported_function_new(file);
    mlx_vector_array res = mlx_vector_array_new();
    OK(mlx_imported_function_apply(&res, g, two));
    assert_text(at(res, 0), "array([11, 22], dtype=float32)");
    OK(mlx_imported_function_apply(&res, g, one));
    assert_text(at(res, 0), "array(33, dtype=float32)");
    FAILS(mlx_imported_function_apply(&res, g, three), KEEL_EARG, "the first of 2 functions takes");
    FAILS(mlx_imported_function_apply(NULL, g, two), KEEL_EARG, "the result is NULL");
    FAILS(mlx_imported_function_apply(&res, g, no_vector), KEEL_EARG, "args is an empty");
    FAILS(mlx_imported_function_apply(&res, (mlx_imported_function){NULL}, two), KEEL_EARG,
          "xfunc is an empty handle");
    assert_text(at(res, 0), "array(33, dtype=float32)");
    OK(mlx_imported_function_free(g));
    OK(mlx_imported_function_free((mlx_imported_function){NULL}));
    unlink(file);
    /* An exporter without a handle, and one of a function that fails, which can still be used. */
    mlx_closure bad = mlx_closure_new_func(fails), eval = mlx_closure_new_func(evaluates);
    FAILS(mlx_function_exporter_apply((mlx_function_exporter){NULL}, two), KEEL_EARG,
          "xfunc is an empty handle");
    OK(mlx_function_exporter_free((mlx_function_exporter){NULL}));
    FAILS_ZERO(mlx_function_exporter_new(file, (mlx_closure){NULL}, true).ctx, KEEL_EARG,
               "mlx_function_exporter_new: fun is an empty");
    FAILS_ZERO(mlx_function_exporter_new(NULL, f, true).ctx, KEEL_EARG, "the path of the file");
    x = mlx_function_exporter_new(file, bad, true);
    for (int i = 0; i < 2; i++)
        FAILS(mlx_function_exporter_apply(x, two), KEEL_ECALLBACK, "returned a non-zero value");
    OK(mlx_function_exporter_free(x)); /* a file without a function */
    g = mlx_imported_function_new(file);
    FAILS(mlx_imported_function_apply(&res, g, two), KEEL_EARG, "nothing was exported");
    OK(mlx_imported_function_free(g));
    FAILS(mlx_export_function(file, bad, two, false), KEEL_ECALLBACK, "returned a non-zero value");
    FAILS(mlx_export_function(file, (mlx_closure){NULL}, two, false), KEEL_EARG, "fun is an empty");
    FAILS(mlx_export_function(file, f, no_vector, false), KEEL_EARG, "args is an empty");
    FAILS(mlx_export_function(NULL, f, two, false), KEEL_EARG, "the path of the file is NULL");
    int before = seen.n;
    assert_int_equal(mlx_export_function(file, eval, two, false), 1);
    assert_int_equal(seen.n, before + 2); /* that of the evaluation, and that of the closure */
    mlx_closure_free(bad);
    mlx_closure_free(eval);
    mlx_closure_free(f);
    mlx_vector_array lists[] = {one, two, three, res};
    for (int i = 0; i < 4; i++) mlx_vector_array_free(lists[i]);
    mlx_map_string_to_array_free(none);
    mlx_map_string_to_array_free(some);
    mlx_array_free(weight);
    unlink(file);
    drop_to(0);
}

static void test_several(void **state) {
    assert_no_leak(several_once);
}

/* ---- files that cannot be written or read ---- */

static void files_once(void) {
    char nowhere[300], old[40] = "an older file";
    const char *file = kl_test_path("kept");
    snprintf(nowhere, sizeof nowhere, "%s/missing/function", kl_test_dir());
    mlx_closure f = mlx_closure_new_func(scaled);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2));
    weight = mlx_array_new();
    mlx_array_set(&weight, number(10));
    FAILS(mlx_export_function(nowhere, f, in, false), KEEL_EFILE, "missing");
    mlx_function_exporter x = mlx_function_exporter_new(nowhere, f, false);
    OK(mlx_function_exporter_apply(x, in));
    FAILS(mlx_function_exporter_free(x), KEEL_EFILE, "save: ");
    x = mlx_function_exporter_new(kl_test_dir(), f, false); /* a folder */
    OK(mlx_function_exporter_apply(x, in));
    FAILS(mlx_function_exporter_free(x), KEEL_EFILE, "save: ");
    FILE *to = fopen(file, "wb");
    fputs(old, to);
    fclose(to);
    mlx_array_set(&weight, take0(VECTOR(1, 2), keep(INTS(0, 9)))); /* a constant that fails */
    x = mlx_function_exporter_new(file, f, false);
    OK(mlx_function_exporter_apply(x, in));
    FAILS(mlx_function_exporter_free(x), KEEL_EINDEX, "9");
    memset(old, 0, sizeof old);
    to = fopen(file, "rb");
    assert_int_equal(fread(old, 1, sizeof old, to), 13);
    fclose(to);
    assert_string_equal(old, "an older file");
    FAILS_ZERO(mlx_imported_function_new(file).ctx, KEEL_EFORMAT,
               "the file does not begin with KEELFUNC");
    FAILS_ZERO(mlx_imported_function_new(nowhere).ctx, KEEL_EFILE, "missing");
    FAILS_ZERO(mlx_imported_function_new(NULL).ctx, KEEL_EARG, "the path of the file is NULL");
    mlx_array_free(weight);
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_files(void **state) {
    assert_no_leak(files_once);
}

/* ---- inside transforms ---- */

static int call_imported(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    mlx_vector_array r = mlx_vector_array_new();
    int rc = mlx_imported_function_apply(&r, (mlx_imported_function){payload}, in);
    if (!rc) rc = GIVE(res, sum(at(r, 0)));
    mlx_vector_array_free(r);
    return rc;
}

static int cube(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = at(in, 0);
    return GIVE(res, multiply(x, square(x)));
}

static void transformed_once(void) {
    const char *file = kl_test_path("cube");
    const int zero = 0;
    mlx_closure f = mlx_closure_new_func(cube), c = mlx_closure_new();
    mlx_vector_array in = LIST_OF(VECTOR(1, 2));
    OK(mlx_export_function(file, f, in, false));
    mlx_imported_function g = mlx_imported_function_new(file);
    mlx_closure plain = mlx_closure_new_func_payload(call_imported, g.ctx, NULL);
    OK(mlx_compile(&c, plain, false));
    mlx_array rows = keep(of_floats((float[]){1, 2, 3, 4}, LIST(2, 2), 2));
    assert_text(result_of(gradient_of(plain, &zero, 1), LIST_OF(VECTOR(1, 2)), 0),
                "array([3, 12], dtype=float32)");
    assert_text(result_of(gradient_of(c, &zero, 1), LIST_OF(VECTOR(1, 2)), 0),
                "array([3, 12], dtype=float32)");
    plain = mlx_closure_new_func_payload(call_imported, g.ctx, NULL);
    assert_text(result_of(lanes_of(plain, ZEROS4, ZEROS4), LIST_OF(rows), 0),
                "array([9, 91], dtype=float32)");
    OK(mlx_imported_function_free(g));
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    drop_to(0);
}

static void test_transformed(void **state) {
    assert_no_leak(transformed_once);
}

/* ---- another process ---- */

/* In the other process: 0 when the function gives what it gave here. */
static int read_elsewhere(const char *file, const char *device) {
    float x[2] = {1, 2};
    mlx_device d = mlx_device_new_type(strcmp(device, "gpu") ? MLX_CPU : MLX_GPU, 0);
    mlx_array a = mlx_array_new_data(x, (int[]){2}, 1, MLX_FLOAT32), r = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(a), res = mlx_vector_array_new();
    int rc = mlx_set_default_device(d);
    mlx_imported_function f = mlx_imported_function_new(file);
    rc = rc || !f.ctx || mlx_imported_function_apply(&res, f, in) ||
         mlx_vector_array_get(&r, res, 0) || mlx_array_eval(r);
    const float *v = rc ? NULL : mlx_array_data_float32(r);
    rc = !v || v[0] != 5 || v[1] != 20;
    if (f.ctx) mlx_imported_function_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(res);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_device_free(d);
    return rc;
}

static void test_other_process(void **state) {
    const char *file = kl_test_path("elsewhere");
    mlx_closure f = mlx_closure_new_func(scaled);
    mlx_vector_array in = LIST_OF(VECTOR(1, 2));
    weight = square(VECTOR(2, 3));
    OK(mlx_export_function(file, f, in, false));
    for (int gpu = 0; gpu < 2; gpu++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            kl_test_run_again((const char *[]){"read", file, gpu ? "gpu" : "cpu", NULL});
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    drop_to(0);
}

int main(int argc, char **argv) {
    if (argc == 4) return read_elsewhere(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_process), cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_named),         cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_described),     cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_several),       cmocka_unit_test(test_files),
        cmocka_unit_test(test_transformed),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
