/* test_header_memory.c - the memory that the header of a file takes, accepted or refused: at most
 * four times its bytes. Headers are made of the smallest entries there are, and of what hostile
 * files are made of. */
#include <dlfcn.h>

#include "base/alloc.h"
#include "base/platform/memory.h"
#include "io/gguf.h"
#include "io_support.h"

enum { BYTES = 512 << 10, SLACK = 160 << 10 }; /* of the slack, 64 KiB are the buffer of .gguf */

/* The JSON library's memory is counted too. */
static int count_json(void **state) {
    void (*set)(void *(*)(size_t), void (*)(void *));
    *(void **)&set = dlsym(RTLD_DEFAULT, "json_set_alloc_funcs");
    if (!set) return -1;
    set(kl_malloc, kl_free);
    return 0;
}

/* Bytes are put into room for all of them: bytes_add would move them each time. */
enum { ROOM = 2 * BYTES };
static struct bytes room(void) {
    struct bytes b = {malloc(ROOM), 0};
    assert_non_null(b.p);
    return b;
}

static void put(struct bytes *b, const void *data, size_t n) {
    assert_true(n <= ROOM - b->n);
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

/* Opens b, whose header has n bytes. part NULL: it is accepted, and returned. */
static struct kl_file *open_measured(const char *what, struct bytes b, size_t n, const char *part) {
    struct kl_source *s;
    struct kl_file *f = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_source_open_file(&s, write_file("header", b), &err), err);
    kl_test_peak_reset();
    int rc = kl_file_open(&f, s, KL_FORMAT_ANY, &err);
    const int64_t peak = kl_test_peak_bytes();
    if (getenv("KEEL_TEST_SHOW"))
        printf("%s: %.2f times %zu bytes\n", what, (double)peak / (double)n, n);
    if (peak > 4 * (int64_t)n + SLACK)
        fail_msg("%s: %lld bytes for a header of %zu", what, (long long)peak, n);
    assert_true(peak > 0 || kl_heap_block_bytes(b.p) == 0);
    if (part)
        expect_error(rc, err, KL_EFORMAT, part);
    else
        expect_ok(rc, err);
    kl_source_release(s);
    free(b.p);
    return f;
}

/* ---- .safetensors ---- */

static void add(struct bytes *b, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(b, text, (size_t)n);
}

/* begin, then `fmt` with the numbers from 0 on and commas, then end. */
static struct bytes json_of(const char *begin, const char *fmt, const char *end) {
    struct bytes b = room();
    put(&b, "\0\0\0\0\0\0\0", 8);
    add(&b, "%s", begin);
    for (unsigned i = 0; b.n < BYTES; i++) {
        if (i) add(&b, ",");
        add(&b, fmt, i);
    }
    add(&b, "%s", end);
    const uint64_t n = b.n - 8;
    memcpy(b.p, &n, 8);
    return b;
}

static void json(const char *begin, const char *fmt, const char *end, const char *part) {
    struct bytes b = json_of(begin, fmt, end);
    kl_file_close(open_measured(fmt, b, b.n, part));
}

static void safetensors(void **state) {
    json("{", "\"%x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}", "}", "overlap");
    json("{", "\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", "}", NULL);
    json("{", "\"%x\":{\"dtype\":\"U8\",\"shape\":[0,1,1,1,1,1,1,1,1],\"data_offsets\":[0,0]}", "}",
         NULL);
    json("{", "\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", "}",
         "a key appears twice");
    json("{", "\"%x\":1", "}", "'0' is not an object");
    json("{", "\"%x\":{}", "}", "'0' has no dtype");
    json("{\"a\":[", "1", "]}", "'a' has more than dtype, shape");
    json("{\"a\":{\"shape\":[", "[]", "]}}", "'a' has more than dtype, shape");
    json("{\"a\":{\"dtype\":\"", "%x", "\"}}", "'a' has more than dtype, shape");
    json("{\"a\":\"", "%x", "\"}", "'a' is not an object");
    json("{\"a\":", "[[[[[[[[[[[[[[[[", "", "not valid JSON");
    json("{\"", "%x", "", "premature end of input");
    json("{", "\"%x\"", "}", "':' expected");
    json("{\"__metadata__\":{", "\"%x\":\"\"", "}}", NULL);
    json("{\"__metadata__\":{", "\"\":\"\"", "}}", "a key appears twice: ''");
    json("{\"__metadata__\":{\"a\":\"", "\\\"\\u00e9\\ud83d\\ude00", "\"}}", NULL);
}

/* Strings that are longer than what is read at once, cut at every place of an escape. */
static void long_strings(void **state) {
    for (int shift = 0; shift < 30; shift++) {
        struct bytes b = room();
        put(&b, "\0\0\0\0\0\0\0", 8);
        add(&b, "{\"__metadata__\":{\"a\":\"");
        for (int i = 0; i < 400; i++) add(&b, "\\\"\\u00e9\\ud83d\\ude00\u20ac");
        for (int i = 0; i < shift; i++) add(&b, "x");
        for (int i = 0; i < 400; i++) add(&b, "\\\\\\\\\\u00e9\\uD83D\\uDE00\u20ac\U0001F600z");
        add(&b, "\"}}");
        const uint64_t n = b.n - 8;
        memcpy(b.p, &n, 8);
        struct kl_file *f = open_measured("long", b, n, NULL);
        const char *v = f->metadata[0].value;
        for (int i = 0; i < 400; i++, v += 10)
            assert_memory_equal(v, "\"\u00e9\U0001F600\u20ac", 10);
        for (int i = 0; i < shift; i++) assert_int_equal(*v++, 'x');
        for (int i = 0; i < 400; i++, v += 16)
            assert_memory_equal(v, "\\\\\u00e9\U0001F600\u20ac\U0001F600z", 16);
        assert_int_equal(*v, 0);
        kl_file_close(f);
    }
    static const char *const bad[] = {"\\ud83d", "\\x", "\n", "\x80\x80\x80\x80\x80",
                                      "\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int at = 4080; at < 4100; at++) {
            struct bytes b = room();
            put(&b, "\0\0\0\0\0\0\0", 8);
            add(&b, "{\"__metadata__\":{\"a\":\"");
            for (int k = 0; k < at; k++) add(&b, "x");
            add(&b, "%s", bad[i]);
            for (int k = 0; k < 9000; k++) add(&b, "x");
            add(&b, "\"}}");
            const uint64_t n = b.n - 8;
            memcpy(b.p, &n, 8);
            assert_null(open_measured("bad", b, n, "not valid"));
        }
    }
}

/* ---- .gguf ---- */

static void add_u32(struct bytes *b, uint32_t v) {
    put(b, &v, 4);
}
static void add_u64(struct bytes *b, uint64_t v) {
    put(b, &v, 8);
}
static void add_name(struct bytes *b, unsigned i, const char *suffix) {
    char name[32];
    const int n = snprintf(name, sizeof name, "%x%s", i, suffix);
    add_u64(b, (uint64_t)n);
    put(b, name, (size_t)n);
}
static struct bytes gguf_head(uint64_t n_tensors, uint64_t n_values) {
    struct bytes b = room();
    put(&b, "GGUF", 4);
    add_u32(&b, 3);
    add_u64(&b, n_tensors);
    add_u64(&b, n_values);
    return b;
}

static void gguf_values(void **state) {
    enum { N = 30000 };
    struct bytes b = gguf_head(0, N);
    for (unsigned i = 0; i < N; i++) { /* numbers of one byte */
        add_name(&b, i, "");
        add_u32(&b, 0);
        put(&b, "\7", 1);
    }
    struct kl_file *f = open_measured("gguf numbers", b, b.n, NULL);
    assert_int_equal(f->n_values, N);
    assert_int_equal(*(const unsigned char *)f->values[N - 1].data, 7);
    kl_file_close(f);
    b = gguf_head(0, N);
    for (unsigned i = 0; i < N; i++) { /* the same key */
        add_name(&b, 0, "");
        add_u32(&b, 0);
        put(&b, "\7", 1);
    }
    assert_null(open_measured("gguf keys", b, b.n, "the key '0' appears twice"));
    b = gguf_head(0, N);
    for (unsigned i = 0; i < N; i++) { /* empty strings */
        add_name(&b, i, "");
        add_u32(&b, 8);
        add_u64(&b, 0);
    }
    kl_file_close(open_measured("gguf strings", b, b.n, NULL));
    b = gguf_head(0, 1);
    add_name(&b, 0, "");
    add_u32(&b, 9);
    add_u32(&b, 8);
    add_u64(&b, N);
    for (unsigned i = 0; i < N; i++) add_u64(&b, 0);
    kl_file_close(open_measured("gguf list", b, b.n, NULL));
    b = gguf_head(0, 1); /* a count that is wrong, in a file that is large enough for it */
    add_name(&b, 0, "");
    add_u32(&b, 9);
    add_u32(&b, 8);
    add_u64(&b, N);
    add_u64(&b, UINT64_MAX);
    const size_t n = b.n;
    for (unsigned i = 0; i < N; i++) add_u64(&b, 0);
    assert_null(open_measured("gguf count", b, n, "the length of a string"));
}

static void gguf_tensors(void **state) {
    enum { N = 20000 };
    for (int known = 0; known < 2; known++) {
        struct bytes b = gguf_head(N, 0);
        for (unsigned i = 0; i < N; i++) { /* without axes, of a type that there is or is not */
            add_name(&b, i, "");
            add_u32(&b, 0);
            add_u32(&b, known ? 0 : 1000 + i);
            add_u64(&b, 32 * (uint64_t)i);
        }
        struct kl_file *f = open_measured("gguf tensors", b, b.n, NULL);
        assert_int_equal(f->n, N);
        kl_file_close(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors),
        cmocka_unit_test(long_strings),
        cmocka_unit_test(gguf_values),
        cmocka_unit_test(gguf_tensors),
    };
    return cmocka_run_group_tests(tests, count_json, NULL);
}
