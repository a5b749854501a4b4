/* test_gguf.c - mlx_load_gguf, mlx_save_gguf and the functions of mlx_io_gguf. */
#include "api/api_support.h"
#include "base/alloc.h"
#include "keel/load.h"

static mlx_array ints(int n, const int *v) {
    return mlx_array_new_data(v, &n, 1, MLX_INT32);
}

static void set_look_save_load(void **state) {
    mlx_io_gguf g = mlx_io_gguf_new(), back = mlx_io_gguf_new();
    mlx_array a = ints(3, (int[]){1, -2, 3}), number = mlx_array_new_int(7), got = mlx_array_new(),
              square = mlx_array_new();
    mlx_vector_string words = mlx_vector_string_new_data((const char *[]){"x", "y"}, 2),
                      keys = mlx_vector_string_new(), read = mlx_vector_string_new();
    mlx_string text = mlx_string_new();
    mlx_stream s = mlx_default_cpu_stream_new();
    char path[4096], *key;
    bool flag = true;
    int v;
    snprintf(path, sizeof path, "%s", kl_test_path("api.gguf"));
    assert_int_equal(mlx_io_gguf_set_array(g, "numbers", a), 0);
    assert_int_equal(mlx_io_gguf_set_metadata_array(g, "seven", number), 0);
    assert_int_equal(mlx_io_gguf_set_metadata_array(g, "words", a), 0);
    assert_int_equal(mlx_io_gguf_set_metadata_vector_string(g, "words", words), 0); /* replaces */
    assert_int_equal(mlx_io_gguf_set_metadata_string(g, "name", "a model"), 0);
    assert_int_equal(mlx_save_gguf(path, g), 0);
    void *ctx = back.ctx;
    assert_int_equal(mlx_load_gguf(&back, path, s), 0);
    assert_ptr_equal(back.ctx, ctx); /* a handle keeps its pointer */

    assert_int_equal(mlx_io_gguf_get_keys(&keys, back), 0);
    assert_int_equal(mlx_vector_string_size(keys), 1);
    assert_int_equal(mlx_vector_string_get(&key, keys, 0), 0);
    assert_string_equal(key, "numbers");
    assert_int_equal(mlx_io_gguf_get_array(&got, back, "numbers"), 0);
    assert_int_equal(mlx_array_eval(got), 0);
    assert_int_equal(mlx_array_data_int32(got)[1], -2);
    assert_int_equal(mlx_io_gguf_get_metadata_array(&got, back, "seven"), 0);
    assert_int_equal(mlx_array_ndim(got), 0);
    assert_int_equal(mlx_array_item_int32(&v, got), 0);
    assert_int_equal(v, 7);
    assert_int_equal(mlx_io_gguf_get_metadata_string(&text, back, "name"), 0);
    assert_string_equal(mlx_string_data(text), "a model");
    assert_int_equal(mlx_io_gguf_get_metadata_vector_string(&read, back, "words"), 0);
    assert_int_equal(mlx_vector_string_size(read), 2);

    assert_int_equal(mlx_io_gguf_has_metadata_array(&flag, back, "seven"), 0);
    assert_true(flag);
    assert_int_equal(mlx_io_gguf_has_metadata_string(&flag, back, "seven"), 0);
    assert_false(flag);
    assert_int_equal(mlx_io_gguf_has_metadata_vector_string(&flag, back, "words"), 0);
    assert_true(flag);
    assert_int_equal(mlx_io_gguf_has_metadata_vector_string(&flag, back, "none"), 2);
    assert_false(flag);

    /* The same file through load.h: the names of all metadata, sorted, and the text of strings. */
    const char *name, *value;
    keel_file f = keel_file_open(path, KEEL_FORMAT_GGUF);
    assert_non_null(f.ctx);
    assert_int_equal(keel_file_n_tensors(f), 1);
    assert_int_equal(keel_file_n_metadata(f), 3);
    static const char *const expected[][2] = {{"name", "a model"}, {"seven", ""}, {"words", ""}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(keel_file_metadata(&name, &value, f, i), 0);
        assert_string_equal(name, expected[i][0]);
        assert_string_equal(value, expected[i][1]);
    }
    assert_int_equal(keel_file_metadata(&name, &value, f, 3), 1);
    keel_file_free(f);

    /* Codes without an error; the results keep what they had. */
    assert_int_equal(mlx_io_gguf_get_array(&got, back, "none"), 2);
    assert_int_equal(mlx_io_gguf_get_metadata_array(&got, back, "none"), 2);
    assert_int_equal(mlx_io_gguf_get_metadata_array(&got, back, "name"), 3);
    assert_int_equal(mlx_io_gguf_get_metadata_string(&text, back, "seven"), 3);
    assert_int_equal(mlx_io_gguf_get_metadata_vector_string(&read, back, "seven"), 3);
    assert_int_equal(mlx_array_item_int32(&v, got), 0);
    assert_int_equal(v, 7);
    assert_string_equal(mlx_string_data(text), "a model");

    assert_int_equal(mlx_array_set_data(&square, (int[]){1, 2, 3, 4}, (int[]){2, 2}, 2, MLX_INT32),
                     0);
    FAILS(mlx_io_gguf_set_metadata_array(g, "square", square), KEEL_ESHAPE,
          "metadata has at most one axis, not 2");
    mlx_array_free(a);
    mlx_array_free(number);
    mlx_array_free(got);
    mlx_array_free(square);
    mlx_vector_string_free(words);
    mlx_vector_string_free(keys);
    mlx_vector_string_free(read);
    mlx_string_free(text);
    mlx_stream_free(s);
    mlx_io_gguf_free(g);
    mlx_io_gguf_free(back);
}

/* A file with n numbers of one byte, whose keys are 0, 1, 2, ... in hexadecimal. */
static size_t write_numbers(const char *path, uint64_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 1, 16, f);
    fwrite(&n, 8, 1, f);
    for (uint64_t i = 0; i < n; i++) {
        char key[32];
        const uint64_t bytes = (uint64_t)snprintf(key, sizeof key, "%llx", (unsigned long long)i);
        fwrite(&bytes, 8, 1, f);
        fwrite(key, 1, bytes, f);
        fwrite("\0\0\0\0\7", 1, 5, f);
    }
    const size_t size = (size_t)ftell(f);
    assert_int_equal(fclose(f), 0);
    return size;
}

/* Metadata become arrays when they are asked for: 300,000 arrays were 40 times the file. */
static void many_numbers(void **state) {
    enum { N = 30000 };
    const char *path = kl_test_path("numbers.gguf");
    const size_t size = write_numbers(path, N);
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_io_gguf g = mlx_io_gguf_new(), back = mlx_io_gguf_new();
    mlx_array a = mlx_array_new(), nine = mlx_array_new_int(9);
    uint8_t v;
    int w;
    kl_test_peak_reset();
    assert_int_equal(mlx_load_gguf(&g, path, s), 0);
    assert_true(kl_test_peak_bytes() <= 4 * (int64_t)size + (100 << 10));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mlx_io_gguf_get_metadata_array(&a, g, "abc"), 0);
        assert_int_equal(mlx_array_item_uint8(&v, a), 0);
        assert_int_equal(v, 7);
    }
    /* What is set counts, and the rest stays. */
    assert_int_equal(mlx_io_gguf_set_metadata_array(g, "abd", nine), 0);
    path = kl_test_path("numbers-again.gguf");
    assert_int_equal(mlx_save_gguf(path, g), 0);
    assert_int_equal(mlx_load_gguf(&back, path, s), 0);
    assert_int_equal(mlx_io_gguf_get_metadata_array(&a, back, "abd"), 0);
    assert_int_equal(mlx_array_item_int32(&w, a), 0);
    assert_int_equal(w, 9);
    assert_int_equal(mlx_io_gguf_get_metadata_array(&a, back, "752f"), 0); /* N - 1 */
    mlx_array_free(a);
    mlx_array_free(nine);
    mlx_io_gguf_free(g);
    mlx_io_gguf_free(back);
    mlx_stream_free(s);
}

/* Metadata of a file stays in the file's memory: what a call gives out is the caller's alone, so a
 * program that reads all keys of a long list does not hold them twice. */
static void many_keys(void **state) {
    enum { N = 3000 };
    char key[16], text[24], path[4096];
    mlx_io_gguf g = mlx_io_gguf_new(), back = mlx_io_gguf_new();
    mlx_stream s = mlx_default_cpu_stream_new();
    snprintf(path, sizeof path, "%s", kl_test_path("keys.gguf"));
    for (int i = 0; i < 2 * N; i++) { /* each twice: the second replaces the first */
        snprintf(key, sizeof key, "key %d", i % N);
        snprintf(text, sizeof text, "value %d", i);
        const char *both[] = {text, key};
        mlx_vector_string words = mlx_vector_string_new_data(both, 2);
        if (i % 2)
            assert_int_equal(mlx_io_gguf_set_metadata_string(g, key, text), 0);
        else
            assert_int_equal(mlx_io_gguf_set_metadata_vector_string(g, key, words), 0);
        mlx_vector_string_free(words);
    }
    assert_int_equal(mlx_save_gguf(path, g), 0);
    assert_int_equal(mlx_load_gguf(&back, path, s), 0);
    assert_int_equal(mlx_io_gguf_set_metadata_string(back, "key 1", "own"), 0);
    const int64_t live = kl_test_n_live();
    for (int i = 0; i < N; i++) {
        mlx_string one = mlx_string_new();
        mlx_vector_string words = mlx_vector_string_new();
        char *first;
        snprintf(key, sizeof key, "key %d", i);
        snprintf(text, sizeof text, "value %d", i + N);
        if (i % 2) {
            assert_int_equal(mlx_io_gguf_get_metadata_string(&one, back, key), 0);
            assert_string_equal(mlx_string_data(one), i == 1 ? "own" : text);
        } else {
            assert_int_equal(mlx_io_gguf_get_metadata_vector_string(&words, back, key), 0);
            assert_int_equal(mlx_vector_string_size(words), 2);
            assert_int_equal(mlx_vector_string_get(&first, words, 0), 0);
            assert_string_equal(first, text);
        }
        mlx_vector_string_free(words);
        mlx_string_free(one);
    }
    assert_int_equal(kl_test_n_live(), live);
    mlx_stream_free(s);
    mlx_io_gguf_free(g);
    mlx_io_gguf_free(back);
}

static void errors(void **state) {
    mlx_io_gguf none = {NULL}, g = mlx_io_gguf_new();
    mlx_array a = mlx_array_new(), bools = mlx_array_new_bool(true);
    mlx_stream s = mlx_default_cpu_stream_new();
    bool flag;
    FAILS(mlx_io_gguf_get_array(&a, none, "x"), KEEL_EARG, "io is an empty handle");
    FAILS(mlx_io_gguf_has_metadata_array(&flag, none, "x"), KEEL_EARG, "io is an empty");
    FAILS(mlx_io_gguf_get_array(&a, g, NULL), KEEL_EARG, "key");
    FAILS(mlx_io_gguf_set_array(g, "x", a), KEEL_EARG, "arr is an empty array handle");
    FAILS(mlx_io_gguf_set_metadata_string(g, "x", NULL), KEEL_EARG, "mstr");
    FAILS(mlx_load_gguf(&g, kl_test_path("there-is-none.gguf"), s), KEEL_EFILE,
          "there-is-none.gguf");
    FAILS(mlx_save_gguf("x", none), KEEL_EARG, "io is an empty handle");
    assert_int_equal(mlx_io_gguf_set_array(g, "x", bools), 0);
    FAILS(mlx_save_gguf(kl_test_path("bool.gguf"), g), KEEL_EDTYPE, "'x' is of bool");
    assert_int_equal(mlx_io_gguf_free(none), 0);
    mlx_array_free(a);
    mlx_array_free(bools);
    mlx_stream_free(s);
    mlx_io_gguf_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(set_look_save_load),
                                       cmocka_unit_test(many_numbers), cmocka_unit_test(many_keys),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
