/* test_io.c - files and custom readers through the C API. tests/io has the tests of the
 * formats. */
#include <pthread.h>

#include "api/api_support.h"

/* ---- a reader and a writer over memory, which can fail ---- */
struct memory {
    char data[4096];
    size_t n, at;
    bool broken;    /* good() is false from the next call on */
    bool complains; /* every read calls mlx_error */
    int n_free;
};

static bool m_is_open(void *p) {
    return true;
}
static bool m_good(void *p) {
    return !((struct memory *)p)->broken;
}
static size_t m_tell(void *p) {
    return ((struct memory *)p)->at;
}
static void m_seek(void *p, int64_t off, int whence) {
    struct memory *m = p;
    m->at = (size_t)(off + (whence == 1 ? (int64_t)m->at : whence == 2 ? (int64_t)m->n : 0));
}
static void m_read_at(void *p, char *data, size_t n, size_t off) {
    struct memory *m = p;
    if (m->complains) mlx_error("the %s is tired", "memory");
    if (off > m->n || n > m->n - off)
        m->broken = true;
    else
        memcpy(data, m->data + off, n);
}
static void m_read(void *p, char *data, size_t n) {
    struct memory *m = p;
    m_read_at(p, data, n, m->at);
    m->at += n;
}
static void m_write(void *p, const char *data, size_t n) {
    struct memory *m = p;
    if (n > sizeof m->data - m->at) {
        m->broken = true;
        return;
    }
    memcpy(m->data + m->at, data, n);
    m->at += n;
    if (m->at > m->n) m->n = m->at;
}
static const char *m_label(void *p) {
    return "a piece of memory";
}
/* Another thread may free the reader. */
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;

static void m_free(void *p) {
    pthread_mutex_lock(&free_lock);
    ((struct memory *)p)->n_free++;
    pthread_cond_broadcast(&freed);
    pthread_mutex_unlock(&free_lock);
}

static void wait_until_freed(struct memory *m, int times) {
    pthread_mutex_lock(&free_lock);
    while (m->n_free < times) pthread_cond_wait(&freed, &free_lock);
    pthread_mutex_unlock(&free_lock);
}

static const mlx_io_vtable memory_table = {m_is_open, m_good,  m_tell,  m_seek, m_read,
                                           m_read_at, m_write, m_label, m_free};

static void test_npy_file(void **state) {
    const char *path = kl_test_path("a.npy");
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(mlx_save(path, a));
    OK(mlx_load(&r, path, cpu));
    assert_text(r, "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)");
    FAILS(mlx_load(&r, kl_test_path("none.npy"), cpu), KEEL_EFILE, "none.npy");
    FAILS(mlx_load(&r, NULL, cpu), KEEL_EARG, "file is NULL");
    FAILS(mlx_load(&r, path, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_load(NULL, path, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_save(path, no_array), KEEL_EARG, "a is an empty array");
    FAILS(mlx_save(NULL, a), KEEL_EARG, "file is NULL");
    FAILS(mlx_save(kl_test_path("no/such/folder/a.npy"), a), KEEL_EFILE, "a.npy");
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_safetensors_file(void **state) {
    const char *path = kl_test_path("a.safetensors");
    mlx_array a = grid(2, 2), b = FLOATS(1.5f, 2), r = mlx_array_new();
    mlx_map_string_to_array in = mlx_map_string_to_array_new(), out = {NULL}, no_map = {NULL};
    mlx_map_string_to_string meta = mlx_map_string_to_string_new(), got = {NULL}, no_meta = {NULL};
    OK(mlx_map_string_to_array_insert(in, "a", a));
    OK(mlx_map_string_to_array_insert(in, "b.weight", b));
    OK(mlx_map_string_to_string_insert(meta, "format", "keel"));
    OK(mlx_save_safetensors(path, in, meta));
    for (int i = 0; i < 2; i++) { /* the results go to empty handles, then to live ones */
        OK(mlx_load_safetensors(&out, &got, path, cpu));
        OK(mlx_map_string_to_array_get(&r, out, "b.weight"));
        assert_text(r, "array([1.5, 2], dtype=float32)");
        OK(mlx_map_string_to_array_get(&r, out, "a"));
        assert_text(r, "array([[0, 1],\n       [2, 3]], dtype=int32)");
        const char *value = NULL;
        OK(mlx_map_string_to_string_get(&value, got, "format"));
        assert_string_equal(value, "keel");
    }
    FAILS(mlx_load_safetensors(&out, &got, kl_test_path("x"), cpu), KEEL_EFILE, "cannot be opened");
    FAILS(mlx_load_safetensors(&out, NULL, path, cpu), KEEL_EARG, "the second result is NULL");
    FAILS(mlx_load_safetensors(NULL, &got, path, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_load_safetensors(&out, &got, path, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_save_safetensors(path, no_map, meta), KEEL_EARG, "param is an empty map");
    FAILS(mlx_save_safetensors(path, in, no_meta), KEEL_EARG, "metadata is an empty map");
    FAILS(mlx_save_safetensors(NULL, in, meta), KEEL_EARG, "file is NULL");
    mlx_map_string_to_array_free(in);
    mlx_map_string_to_array_free(out);
    mlx_map_string_to_string_free(meta);
    mlx_map_string_to_string_free(got);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
}

/* A tensor whose bytes lie beyond the end of the file fails alone. Its error has the file, the
 * tensor and the range. */
static void test_truncated_file(void **state) {
    const char header[] = "{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    const char *path = kl_test_path("short.safetensors");
    uint64_t n = sizeof header - 1;
    int32_t data[3] = {1, 2, 3};
    FILE *f = fopen(path, "wb");
    fwrite(&n, 8, 1, f);
    fwrite(header, 1, n, f);
    fwrite(data, 4, 3, f);
    fclose(f);
    mlx_map_string_to_array out = {NULL};
    mlx_map_string_to_string meta = {NULL};
    mlx_array a = mlx_array_new(), b = mlx_array_new();
    OK(mlx_load_safetensors(&out, &meta, path, cpu));
    OK(mlx_map_string_to_array_get(&a, out, "a"));
    OK(mlx_map_string_to_array_get(&b, out, "b"));
    assert_text(a, "array([1, 2], dtype=int32)");
    FAILS(mlx_array_eval(b), KEEL_ETRUNCATED, "b");
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_array_error(&e, b), 0);
    assert_string_equal(e.tensor, "b");
    assert_non_null(strstr(e.file, "short.safetensors"));
    assert_true(e.has & KEEL_HAS_BYTES);
    assert_int_equal(e.byte_begin, (int64_t)(8 + n + 8));
    assert_int_equal(e.byte_end, (int64_t)(8 + n + 16));
    mlx_map_string_to_array_free(out);
    mlx_map_string_to_string_free(meta);
    mlx_array_free(a);
    mlx_array_free(b);
}

static void test_readers(void **state) {
    struct memory m = {.n = 0};
    mlx_array a = grid(2, 3), r = mlx_array_new();
    mlx_io_writer w = mlx_io_writer_new(&m, memory_table);
    mlx_string s = mlx_string_new();
    void *desc = NULL;
    OK(mlx_io_writer_descriptor(&desc, w));
    assert_ptr_equal(desc, &m);
    OK(mlx_io_writer_tostring(&s, w));
    assert_string_equal(mlx_string_data(s), "a piece of memory");
    OK(mlx_save_writer(w, a));
    OK(mlx_io_writer_free(w));
    assert_int_equal(m.n_free, 1);

    m.at = 0;
    mlx_io_reader in = mlx_io_reader_new(&m, memory_table);
    OK(mlx_io_reader_descriptor(&desc, in));
    assert_ptr_equal(desc, &m);
    OK(mlx_io_reader_tostring(&s, in));
    assert_string_equal(mlx_string_data(s), "a piece of memory");
    OK(mlx_load_reader(&r, in, cpu));
    OK(mlx_io_reader_free(in)); /* the array keeps the reader alive */
    assert_int_equal(m.n_free, 1);
    assert_text(r, "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)");
    mlx_array_free(r);
    mlx_synchronize(cpu);
    wait_until_freed(&m, 2);
    assert_int_equal(m.n_free, 2);
    mlx_string_free(s);
    mlx_array_free(a);
}

/* An error of the reader belongs to the tensor that was read. The error handler does not get it. */
static void test_reader_complains(void **state) {
    struct memory m = {.n = 0};
    mlx_array a = INTS(1, 2), r = mlx_array_new();
    mlx_map_string_to_array in_map = mlx_map_string_to_array_new(), out = {NULL};
    mlx_map_string_to_string meta = mlx_map_string_to_string_new(), got = {NULL};
    OK(mlx_map_string_to_array_insert(in_map, "a", a));
    mlx_io_writer w = mlx_io_writer_new(&m, memory_table);
    OK(mlx_save_safetensors_writer(w, in_map, meta));
    mlx_io_writer_free(w);
    m.at = 0;
    mlx_io_reader in = mlx_io_reader_new(&m, memory_table);
    OK(mlx_load_safetensors_reader(&out, &got, in, cpu));
    m.complains = true;
    OK(mlx_map_string_to_array_get(&r, out, "a"));
    FAILS(mlx_array_eval(r), KEEL_EREADER, "the memory is tired");
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_array_error(&e, r), 0);
    assert_string_equal(e.tensor, "a");
    FAILS(mlx_load_safetensors_reader(&out, &got, in, cpu), KEEL_EREADER, "tired");
    mlx_io_reader_free(in);
    mlx_map_string_to_array_free(in_map);
    mlx_map_string_to_array_free(out);
    mlx_map_string_to_string_free(meta);
    mlx_map_string_to_string_free(got);
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_bad_readers(void **state) {
    mlx_io_reader in = {NULL};
    mlx_io_writer to = {NULL};
    mlx_string s = mlx_string_new();
    mlx_array r = mlx_array_new(), a = INTS(1);
    mlx_map_string_to_array map = mlx_map_string_to_array_new();
    mlx_map_string_to_string meta = mlx_map_string_to_string_new();
    void *desc;
    FAILS(mlx_io_reader_descriptor(&desc, in), KEEL_EARG, "io is an empty handle");
    FAILS(mlx_io_reader_tostring(&s, in), KEEL_EARG, "io is an empty handle");
    FAILS(mlx_io_writer_descriptor(&desc, to), KEEL_EARG, "io is an empty handle");
    FAILS(mlx_io_writer_tostring(&s, to), KEEL_EARG, "io is an empty handle");
    FAILS(mlx_load_reader(&r, in, cpu), KEEL_EARG, "in_stream is an empty handle");
    FAILS(mlx_load_safetensors_reader(&map, &meta, in, cpu), KEEL_EARG, "in_stream is an empty");
    FAILS(mlx_save_writer(to, a), KEEL_EARG, "out_stream is an empty handle");
    FAILS(mlx_save_safetensors_writer(to, map, meta), KEEL_EARG, "in_stream is an empty handle");
    OK(mlx_io_reader_free(in));
    OK(mlx_io_writer_free(to));
    mlx_map_string_to_array_free(map);
    mlx_map_string_to_string_free(meta);
    mlx_array_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_file),         cmocka_unit_test(test_safetensors_file),
        cmocka_unit_test(test_truncated_file),   cmocka_unit_test(test_readers),
        cmocka_unit_test(test_reader_complains), cmocka_unit_test(test_bad_readers),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
