/* test_alloc.c - every allocation behind the C API fails in turn: each call then reports "out of
 * memory" once, does not change its results, leaks nothing, and works when it is repeated. */
#include "api/api_support.h"

/* Runs body with the n-th allocation failing, for n = 0, 1, ... until none fails any more. The body
 * returns whether a call failed; it frees what it made. */
static void each_allocation(bool (*body)(void), const char *what) {
    mlx_array_size(no_array); /* the first run makes what exists once per process or thread */
    body();
    body();
    for (int64_t n = 0; n < 10000; n++) {
        kl_api_forget_error();
        int64_t live = kl_test_n_live();
        int before = seen.n;
        kl_test_fail_alloc_at(n);
        bool failed = body();
        bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (failed && seen.n == before) fail_msg("%s: allocation %d: silent", what, (int)n);
        if (failed && !strstr(seen.text, "out of memory"))
            fail_msg("%s: allocation %d: %s", what, (int)n, seen.text);
        kl_api_forget_error();
        kl_until_quiet();
        /* A cache has grown, which is no leak. */
        if (!failed && kl_test_n_live() > live) live = kl_test_n_live();
        if (kl_test_n_live() > live)
            fail_msg("%s: allocation %d: %d blocks lost", what, (int)n,
                     (int)(kl_test_n_live() - live));
        if (!fired) {
            if (failed) fail_msg("%s: fails with memory: %s", what, seen.text);
            return;
        }
    }
    fail_msg("%s: no end of allocations", what);
}

static bool arrays(void) {
    mlx_array a = mlx_array_new_int(1), b = mlx_array_new(),
              c = mlx_array_new_data(&(int){3}, LIST(1), 1, MLX_INT32);
    static float data[2];
    mlx_array d = mlx_array_new_data_managed(data, LIST(2), 1, MLX_FLOAT32, NULL);
    bool failed = !a.ctx || !c.ctx || !d.ctx;
    if (a.ctx) failed |= mlx_array_set(&b, a) != 0;
    failed |= mlx_array_set_float(&b, 2) != 0;
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(c);
    mlx_array_free(d);
    return failed;
}

static bool operations(void) {
    mlx_array a = mlx_array_new_int(1), r = mlx_array_new(), t = mlx_array_new();
    bool failed = !a.ctx;
    if (!failed)
        failed =
            mlx_add(&r, a, a, cpu) || mlx_expand_dims(&r, r, 0, cpu) || mlx_sum(&t, r, false, cpu);
    if (!failed) failed = mlx_array_eval(t) != 0;
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_array_free(t);
    return failed;
}

static bool lists(void) {
    mlx_vector_string v = mlx_vector_string_new(), w = {NULL};
    mlx_vector_int i = mlx_vector_int_new_value(3);
    bool failed = !v.ctx || !i.ctx;
    const char *some[] = {"a", "b", "c", "d"};
    if (v.ctx) {
        size_t before = mlx_vector_string_size(v);
        if (mlx_vector_string_append_data(v, some, 4)) {
            failed = true;
            assert_int_equal(mlx_vector_string_size(v), before);
        }
        failed |= mlx_vector_string_set(&w, v) != 0;
    }
    mlx_vector_string_free(v);
    mlx_vector_string_free(w);
    mlx_vector_int_free(i);
    return failed;
}

static bool maps(void) {
    mlx_map_string_to_string m = mlx_map_string_to_string_new(), copy = {NULL};
    bool failed = !m.ctx;
    char key[16];
    for (int i = 0; m.ctx && i < 40; i++) {
        snprintf(key, sizeof key, "key %d", i % 30);
        failed |= mlx_map_string_to_string_insert(m, key, "value") != 0;
    }
    if (m.ctx) {
        failed |= mlx_map_string_to_string_set(&copy, m) != 0;
        mlx_map_string_to_string_iterator it = mlx_map_string_to_string_iterator_new(m);
        failed |= !it.ctx;
        mlx_map_string_to_string_iterator_free(it);
    }
    mlx_map_string_to_string_free(m);
    mlx_map_string_to_string_free(copy);
    return failed;
}

static int n_dtor, n_made;
static void dtor(void *p) {
    n_dtor++;
}
static int identity(mlx_vector_array *res, const mlx_vector_array in, void *p) {
    return mlx_vector_array_set(res, in);
}
static int unary(mlx_array *res, const mlx_array a) {
    return mlx_array_set(res, a);
}

static bool closures(void) {
    n_dtor = n_made = 0;
    mlx_closure f = mlx_closure_new_func_payload(identity, &n_dtor, dtor), g = {NULL};
    mlx_closure u = mlx_closure_new_unary(unary);
    mlx_vector_array in = mlx_vector_array_new(), out = {NULL};
    mlx_array a = mlx_array_new_int(1);
    n_made = f.ctx != NULL;
    bool failed = !f.ctx || !u.ctx || !in.ctx || !a.ctx;
    if (!failed) failed = mlx_vector_array_append_value(in, a) != 0;
    if (!failed) {
        failed |= mlx_closure_set(&g, f) != 0;
        failed |= mlx_closure_apply(&out, f, in) != 0;
        failed |= mlx_closure_apply(&out, u, in) != 0;
    }
    if (failed) snprintf(seen.text, sizeof seen.text, "out of memory (or a closure failed of it)");
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(u);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(a);
    /* Called once, or never when the call has not taken the payload. */
    assert_int_equal(n_dtor, n_made);
    return failed;
}

static bool streams(void) {
    mlx_device d = mlx_device_new_type(MLX_CPU, 0), e = mlx_device_new();
    mlx_stream s = mlx_default_cpu_stream_new(), t = mlx_stream_new();
    mlx_device_info info = mlx_device_info_new();
    mlx_vector_string keys = {NULL};
    bool failed = !d.ctx || !s.ctx;
    if (s.ctx) failed |= mlx_stream_set(&t, s) || mlx_stream_get_device(&e, s);
    if (d.ctx) failed |= mlx_device_info_get(&info, d) || mlx_device_info_get_keys(&keys, info);
    mlx_device_free(d);
    mlx_device_free(e);
    mlx_stream_free(s);
    mlx_stream_free(t);
    mlx_device_info_free(info);
    mlx_vector_string_free(keys);
    return failed;
}

/* For functions with several results: either all of them are set, or none. */
static bool several(void) {
    mlx_array k = mlx_array_new(), a = mlx_array_new(), b = mlx_array_new();
    mlx_vector_array v = {NULL}, both = {NULL};
    bool failed = mlx_random_key(&k, 1) != 0;
    if (!failed && mlx_random_split(&a, &b, k, cpu)) {
        failed = true;
        assert_true(!a.ctx && !b.ctx);
    }
    if (k.ctx && mlx_split(&v, k, 2, 0, cpu)) {
        failed = true;
        assert_null(v.ctx);
    }
    if (v.ctx) failed |= mlx_broadcast_arrays(&v, v, cpu) || mlx_concatenate(&a, v, cpu);
    if (k.ctx && mlx_divmod(&both, k, k, cpu)) {
        failed = true;
        assert_null(both.ctx);
    }
    mlx_vector_array_free(both);
    mlx_array_free(k);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_vector_array_free(v);
    return failed;
}

static bool files(void) {
    mlx_map_string_to_array out = {NULL};
    mlx_map_string_to_string meta = {NULL};
    bool failed = mlx_load_safetensors(&out, &meta, "tests/io/data/five.safetensors", cpu) != 0;
    if (failed) assert_true(!out.ctx && !meta.ctx);
    mlx_map_string_to_array_free(out);
    mlx_map_string_to_string_free(meta);
    return failed;
}

/* The sum of the squares. */
static int squares(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new(), r = mlx_array_new();
    int rc = mlx_vector_array_get(&x, in, 0) || mlx_square(&r, x, cpu) ||
             mlx_sum(&r, r, false, cpu) || mlx_vector_array_set_value(res, r);
    mlx_array_free(x);
    mlx_array_free(r);
    return rc;
}

/* vjp, jvp, value_and_grad, vmap, compile, checkpoint, export and import of `squares`. */
static bool transforms(void) {
    enum { N = 10 };
    const char *file = kl_test_path("squares");
    mlx_closure f = mlx_closure_new_func(squares), compiled = {NULL}, kept = {NULL};
    mlx_closure_value_and_grad grad = {NULL};
    mlx_vector_array in = mlx_vector_array_new(), one = mlx_vector_array_new(), out[N] = {{NULL}};
    mlx_array x = mlx_array_new_data((float[]){1, 2, 3}, LIST(3), 1, MLX_FLOAT32),
              c = mlx_array_new_float(1);
    bool failed = !f.ctx || !in.ctx || !one.ctx || !x.ctx || !c.ctx ||
                  mlx_vector_array_append_value(in, x) || mlx_vector_array_append_value(one, c);
    if (!failed)
        failed = mlx_vjp(&out[0], &out[1], f, in, one) || mlx_jvp(&out[2], &out[3], f, in, in) ||
                 mlx_value_and_grad(&grad, f, LIST(0), 1) ||
                 mlx_closure_value_and_grad_apply(&out[4], &out[5], grad, in) ||
                 mlx_detail_vmap_trace(&out[6], &out[7], f, in, LIST(0), 1) ||
                 mlx_detail_vmap_replace(&out[8], in, out[6], out[7], LIST(0), 1, LIST(0), 1) ||
                 mlx_compile(&compiled, f, false) || mlx_closure_apply(&out[9], compiled, in) ||
                 mlx_closure_apply(&out[9], compiled, in) || mlx_checkpoint(&kept, f) ||
                 mlx_closure_apply(&out[9], kept, in) || mlx_export_function(file, f, in, false);
    if (!failed) {
        mlx_imported_function imported = mlx_imported_function_new(file);
        failed = !imported.ctx || mlx_imported_function_apply(&out[9], imported, in);
        if (imported.ctx) mlx_imported_function_free(imported);
    }
    if (failed) snprintf(seen.text, sizeof seen.text, "out of memory (or a closure failed of it)");
    mlx_closure_free(f);
    mlx_closure_free(compiled);
    mlx_closure_free(kept);
    mlx_closure_value_and_grad_free(grad);
    mlx_vector_array_free(in);
    mlx_vector_array_free(one);
    for (int i = 0; i < N; i++) mlx_vector_array_free(out[i]);
    mlx_array_free(x);
    mlx_array_free(c);
    return failed;
}

static void test_each(void **state) {
    each_allocation(arrays, "arrays");
    each_allocation(operations, "operations");
    each_allocation(lists, "lists");
    each_allocation(maps, "maps");
    each_allocation(closures, "closures");
    each_allocation(streams, "streams");
    each_allocation(several, "several results");
    each_allocation(files, "files");
    each_allocation(transforms, "transforms");
}

/* Function grid() asserts that it gets its array, so the texts of arrays have a loop of their
 * own. */
static mlx_array printed;
static bool texts(void) {
    mlx_string s = mlx_string_new_data("text"), t = mlx_string_new();
    bool failed = !s.ctx;
    if (s.ctx) failed |= mlx_string_set(&t, s) != 0;
    failed |= mlx_version(&t) != 0;
    failed |= mlx_array_tostring(&t, printed) != 0;
    mlx_string_free(s);
    mlx_string_free(t);
    return failed;
}

static void test_texts(void **state) {
    printed = grid(3, 4);
    each_allocation(texts, "texts");
    mlx_array_free(printed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
