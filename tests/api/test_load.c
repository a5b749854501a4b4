/* test_load.c - keel/load.h: listing, loading, progress, cancelling, readers with codes, .npz,
 * bad arguments. */
#include <keel/load.h>

#include "api/api_support.h"

static const char five[] = "tests/io/data/five.safetensors";

static void a_file_is_listed_and_loaded(void **state) {
    keel_file f = keel_file_open(five, KEEL_FORMAT_ANY);
    assert_non_null(f.ctx);
    assert_int_equal(keel_file_n_tensors(f), 5);
    keel_tensor t = {.size = sizeof t};
    OK(keel_file_tensor(&t, f, 1));
    assert_string_equal(t.name, "x.weight");
    assert_int_equal(t.dtype, MLX_INT16);
    assert_int_equal(t.ndim, 2);
    assert_int_equal(t.shape[1], 3);
    assert_int_equal(t.byte_end - t.byte_begin, 12);
    assert_false(t.missing);
    const char *key, *value;
    assert_int_equal(keel_file_n_metadata(f), 2);
    OK(keel_file_metadata(&key, &value, f, 1));
    assert_string_equal(key, "format");
    assert_string_equal(value, "pt");

    keel_load load = keel_load_new();
    mlx_map_string_to_array all = mlx_map_string_to_array_new();
    OK(keel_file_load_all(&all, f, load));
    mlx_array a = mlx_array_new();
    assert_int_equal(keel_file_load(&a, f, "nowhere", load), 2);
    OK(keel_file_load(&a, f, "x.bias", (keel_load){NULL}));
    OK(keel_file_free(f));
    assert_true(mlx_array_data_float32(a)[5] == 1.75f);
    OK(mlx_map_string_to_array_get(&a, all, "scale"));
    OK(mlx_array_eval(a));
    keel_load_progress p = {.size = sizeof p};
    OK(keel_load_get(&p, load));
    assert_int_equal(p.n_tensors, 5);
    assert_int_equal(p.bytes_total, 24 + 12 + 6 + 8);
    assert_int_equal(p.n_done, 2); /* the result is an empty vector at first */
    assert_int_equal(p.bytes_done, 8);

    OK(keel_load_cancel(load));
    OK(mlx_map_string_to_array_get(&a, all, "mask"));
    int n = seen.n;
    assert_int_equal(mlx_array_eval(a), 1);
    check_error(n, KEEL_ECANCELLED, "cancelled before 'mask' was read", "eval", __FILE__, __LINE__);
    keel_error_info e = {.size = sizeof e};
    OK(keel_array_error(&e, a));
    assert_string_equal(e.tensor, "mask");
    assert_string_equal(e.file, five);
    assert_string_equal(e.operation, "load");
    mlx_array_free(a);
    mlx_map_string_to_array_free(all);
    OK(keel_load_free(load));
}

struct reader {
    int code, n_freed;
};
static int reader_read_at(void *desc, void *data, size_t n, uint64_t offset) {
    struct reader *r = desc;
    if (r->code < 0) mlx_error("raised in the callback");
    return r->code < 0 ? 0 : r->code;
}
static void reader_free(void *desc) {
    ((struct reader *)desc)->n_freed++;
}

static void readers_are_taken_and_freed_once(void **state) {
    struct reader r = {.code = 5};
    keel_reader calls = {.desc = &r, .read_at = reader_read_at, .free = reader_free};
    int n = seen.n;
    assert_null(keel_file_open_reader(calls, KEEL_FORMAT_ANY).ctx);
    check_error(n, KEEL_EREADER, "the reader returned code 5", "open", __FILE__, __LINE__);
    assert_int_equal(r.n_freed, 1);
    r.code = -1;
    n = seen.n;
    assert_null(keel_file_open_reader(calls, KEEL_FORMAT_SAFETENSORS).ctx);
    check_error(n, KEEL_EREADER, "raised in the callback", "open", __FILE__, __LINE__);
    assert_int_equal(r.n_freed, 2);
    calls.read_at = NULL;
    n = seen.n;
    assert_null(keel_file_open_reader(calls, KEEL_FORMAT_ANY).ctx);
    check_error(n, KEEL_EARG, "no read_at", "open", __FILE__, __LINE__);
    assert_int_equal(r.n_freed, 3);
}

static void npz_goes_and_comes(void **state) {
    mlx_map_string_to_array one = mlx_map_string_to_array_new(), two = {NULL};
    OK(keel_npz_load(&one, "tests/io/data/stored.npz", (keel_load){NULL}));
    const char *path = kl_test_path("api.npz");
    OK(keel_npz_save(path, one, true));
    OK(keel_npz_load(&two, path, (keel_load){NULL}));
    mlx_array a = mlx_array_new();
    OK(mlx_map_string_to_array_get(&a, two, "b"));
    assert_int_equal(mlx_array_data_int64(a)[3], 13);
    mlx_array_free(a);
    mlx_map_string_to_array_free(one);
    mlx_map_string_to_array_free(two);
}

/* Structs of programs that were compiled with an older or a newer header. */
static void structs_have_sizes(void **state) {
    struct {
        keel_tensor t;
        unsigned char more[32];
    } t;
    struct {
        keel_load_progress p;
        unsigned char more[32];
    } p;
    const size_t old_t = offsetof(keel_tensor, byte_begin),
                 old_p = offsetof(keel_load_progress, n_tensors);
    keel_file f = keel_file_open(five, KEEL_FORMAT_ANY);
    keel_load load = keel_load_new();
    mlx_map_string_to_array all = mlx_map_string_to_array_new();
    OK(keel_file_load_all(&all, f, load));
    memset(&t, 0x5a, sizeof t);
    memset(&p, 0x5a, sizeof p);

    t.t.size = p.p.size = 0;
    FAILS(keel_file_tensor(&t.t, f, 1), KEEL_EARG, "size is 0; set it to sizeof(keel_tensor)");
    FAILS(keel_load_get(&p.p, load), KEEL_EARG, "size is 0; set it to sizeof(keel_load_progress)");
    t.t.size = old_t - 1, p.p.size = old_p - 1;
    FAILS(keel_file_tensor(&t.t, f, 1), KEEL_EARG, "sizeof(keel_tensor)");
    FAILS(keel_load_get(&p.p, load), KEEL_EARG, "sizeof(keel_load_progress)");
    assert_int_equal(t.t.ndim, 0x5a5a5a5a);

    t.t.size = old_t, p.p.size = old_p;
    OK(keel_file_tensor(&t.t, f, 1));
    OK(keel_load_get(&p.p, load));
    assert_int_equal(t.t.ndim, 2);
    assert_int_equal(p.p.bytes_total, 50);
    for (size_t i = old_t; i < sizeof t; i++) assert_int_equal(((unsigned char *)&t)[i], 0x5a);
    for (size_t i = old_p; i < sizeof p; i++) assert_int_equal(((unsigned char *)&p)[i], 0x5a);

    t.t.size = sizeof t, p.p.size = sizeof p;
    OK(keel_file_tensor(&t.t, f, 1));
    OK(keel_load_get(&p.p, load));
    assert_int_equal(t.t.size, sizeof t);
    assert_int_equal(t.t.byte_end - t.t.byte_begin, 12);
    assert_int_equal(p.p.n_tensors, 5);
    for (int i = 0; i < 32; i++) assert_true(t.more[i] == 0x5a && p.more[i] == 0x5a);
    mlx_map_string_to_array_free(all);
    OK(keel_load_free(load));
    OK(keel_file_free(f));
}

static void bad_calls_change_nothing(void **state) {
    keel_file none = {NULL};
    keel_load no_load = {NULL};
    mlx_map_string_to_array map = mlx_map_string_to_array_new();
    keel_tensor t = {.size = sizeof t};
    keel_load_progress p = {.size = sizeof p};
    const char *s;
    FAILS_ZERO(keel_file_open(NULL, KEEL_FORMAT_ANY).ctx, KEEL_EARG, "path");
    FAILS_ZERO(keel_file_open(five, (enum keel_format)9).ctx, KEEL_EARG, "format is 9");
    FAILS_ZERO(keel_file_open("/nonexistent/x", KEEL_FORMAT_ANY).ctx, KEEL_EFILE, "No such file");
    FAILS_ZERO(keel_file_open(five, KEEL_FORMAT_NPY).ctx, KEEL_EFORMAT, "no magic number");
    FAILS_ZERO(keel_file_n_tensors(none), KEEL_EARG, "empty handle");
    FAILS_ZERO(keel_file_n_metadata(none), KEEL_EARG, "empty handle");
    FAILS(keel_file_tensor(&t, none, 0), KEEL_EARG, "empty handle");
    FAILS(keel_file_load_all(&map, none, no_load), KEEL_EARG, "empty handle");
    FAILS(keel_load_get(&p, no_load), KEEL_EARG, "empty handle");
    FAILS(keel_load_cancel(no_load), KEEL_EARG, "empty handle");
    FAILS(keel_npz_load(&map, NULL, no_load), KEEL_EARG, "path");
    FAILS(keel_npz_load(&map, five, no_load), KEEL_EFORMAT, "npz");
    FAILS(keel_npz_save(NULL, map, false), KEEL_EARG, "path");
    FAILS(keel_npz_save("x", (mlx_map_string_to_array){NULL}, false), KEEL_EARG, "arrays");
    keel_file f = keel_file_open(five, KEEL_FORMAT_SAFETENSORS);
    FAILS(keel_file_tensor(NULL, f, 0), KEEL_EARG, "NULL");
    FAILS(keel_file_tensor(&t, f, 5), KEEL_EARG, "index is 5, there are 5");
    FAILS(keel_file_metadata(&s, NULL, f, 0), KEEL_EARG, "NULL");
    FAILS(keel_file_metadata(&s, &s, f, 2), KEEL_EARG, "index is 2");
    FAILS(keel_file_load(NULL, f, "mask", no_load), KEEL_EARG, "NULL");
    FAILS(keel_file_load_all(NULL, f, no_load), KEEL_EARG, "NULL");
    FAILS(keel_load_get(NULL, no_load), KEEL_EARG, "NULL");
    OK(keel_file_free(f));
    OK(keel_file_free(none));
    OK(keel_load_free(no_load));
    mlx_map_string_to_array_free(map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_listed_and_loaded),
        cmocka_unit_test(readers_are_taken_and_freed_once),
        cmocka_unit_test(npz_goes_and_comes),
        cmocka_unit_test(structs_have_sizes),
        cmocka_unit_test(bad_calls_change_nothing),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
