/* test_gguf.c - .gguf files: the values of every type, every rule of the header, files that are cut
 * or changed anywhere, and what is saved and read back. */
#include <math.h>

#include "base/number/dtype.h"
#include "io/gguf.h"
#include "io_support.h"

/* ---- files ---- */

static void add_u32(struct bytes *b, uint32_t v) {
    bytes_add(b, &v, 4);
}

static void add_u64(struct bytes *b, uint64_t v) {
    bytes_add(b, &v, 8);
}

static void add_text(struct bytes *b, const char *text) {
    add_u64(b, strlen(text));
    bytes_add(b, text, strlen(text));
}

static struct bytes head(uint32_t version, uint64_t n_tensors, uint64_t n_values) {
    struct bytes b = {0};
    bytes_add(&b, "GGUF", 4);
    add_u32(&b, version);
    add_u64(&b, n_tensors);
    add_u64(&b, n_values);
    return b;
}

/* Dimensions as in the file: the first varies fastest. */
static void add_tensor(struct bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims,
                       uint32_t type, uint64_t offset) {
    add_text(b, name);
    add_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) add_u64(b, dims[i]);
    add_u32(b, type);
    add_u64(b, offset);
}

static void add_zeros(struct bytes *b, size_t multiple) {
    while (b->n % multiple) bytes_add(b, "", 1);
}

static struct kl_file *open_bytes(const char *name, struct bytes b) {
    struct kl_file *f = open_path(write_file(name, b), KL_FORMAT_ANY);
    assert_int_equal(f->format, KL_FORMAT_GGUF);
    return f;
}

/* ---- types ---- */

static const struct golden {
    const char *name;
    uint32_t id;
    int elements, bytes;
    unsigned char blocks[2 * 210];
    uint16_t values[2 * 256];
} golden[] = {
#include "golden_gguf.inc"
};

static uint16_t half_of(float x) {
    return kl_f32_to_f16(x);
}

/* scale * code + bias, which the packed arrays mean. */
static void expect_packed(struct kl_file *f, const struct golden *g) {
    struct kl_array *codes = array_of(f, "a.weight", NULL), *scales = array_of(f, "a.scales", NULL),
                    *biases = array_of(f, "a.biases", NULL);
    const int bits = g->id == 8 ? 8 : 4;
    assert_int_equal(codes->t.dtype, KL_U32);
    assert_int_equal(codes->t.ndim, 2);
    assert_int_equal(codes->t.dims[0], 2);
    assert_int_equal(codes->t.dims[1], bits);
    assert_int_equal(scales->t.dtype, KL_F16);
    assert_int_equal(scales->t.dims[1], 1);
    assert_int_equal(biases->t.dims[1], 1);
    const uint32_t *words = host_of(codes);
    const uint16_t *s = host_of(scales), *m = host_of(biases);
    for (int i = 0; i < 64; i++) {
        const int per = 32 / bits, row = i / 32, at = i % 32;
        const uint32_t code = words[row * bits + at / per] >> at % per * bits & ((1U << bits) - 1);
        const float y = kl_f16_to_f32(s[row]) * (float)code + kl_f16_to_f32(m[row]),
                    want = kl_f16_to_f32(g->values[i]);
        /* The bias of the file is rounded to float16, the sum of the golden value too. */
        if (!(fabsf(y - want) <= 0x1p-10f * fabsf(kl_f16_to_f32(m[row])) + 0x1p-10f * fabsf(want)))
            fail_msg("%s: element %d is %g, not %g", g->name, i, (double)y, (double)want);
    }
    kl_array_release(codes);
    kl_array_release(scales);
    kl_array_release(biases);
}

static void quantized_types(void **state) {
    assert_int_equal(sizeof golden / sizeof *golden, 11);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        const struct golden *g = &golden[i];
        struct bytes b = head(3, 2, 0);
        const uint64_t dims[] = {(uint64_t)g->elements, 2};
        const size_t n = 2 * (size_t)g->bytes;
        add_tensor(&b, "a.weight", 2, dims, g->id, 0);
        add_tensor(&b, "plain", 2, dims, g->id, 448);
        add_zeros(&b, 32);
        const size_t data = b.n;
        bytes_add(&b, g->blocks, n);
        while (b.n < data + 448) bytes_add(&b, "", 1);
        bytes_add(&b, g->blocks, n);
        struct kl_file *f = open_bytes("types.gguf", b);
        struct kl_array *a = array_of(f, "plain", NULL);
        assert_int_equal(a->t.dtype, KL_F16);
        assert_int_equal(a->t.dims[0], 2);
        assert_int_equal(a->t.dims[1], g->elements);
        const uint16_t *v = host_of(a);
        for (int k = 0; k < 2 * g->elements; k++)
            if (v[k] != g->values[k])
                fail_msg("%s: element %d is 0x%04x, not 0x%04x", g->name, k, v[k], g->values[k]);
        kl_array_release(a);
        const bool packed = g->id == 2 || g->id == 3 || g->id == 8;
        assert_int_equal(f->n, packed ? 4 : 2);
        if (packed) expect_packed(f, g);
        kl_file_close(f);
        free(b.p);
    }
}

static void plain_types(void **state) {
    static const struct {
        uint32_t id;
        enum kl_dtype dtype;
    } types[] = {{0, KL_F32},  {1, KL_F16},  {24, KL_I8},  {25, KL_I16},
                 {26, KL_I32}, {27, KL_I64}, {28, KL_F64}, {30, KL_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const size_t n = 6 * kl_dtype_size(types[i].dtype);
        struct bytes b = head(2, 1, 0);
        add_tensor(&b, "x", 2, (uint64_t[]){3, 2}, types[i].id, 0);
        add_zeros(&b, 32);
        const size_t data = b.n;
        for (size_t k = 0; k < n; k++) bytes_add(&b, &(char){(char)(k * 7)}, 1);
        struct kl_file *f = open_bytes("plain.gguf", b);
        struct kl_array *a = array_of(f, "x", NULL);
        assert_int_equal(a->t.dtype, types[i].dtype);
        assert_int_equal(a->t.dims[0], 2);
        assert_int_equal(a->t.dims[1], 3);
        assert_memory_equal(host_of(a), b.p + data, n);
        kl_array_release(a);
        kl_file_close(f);
        free(b.p);
    }
}

static void expect_no_type(struct kl_file *f, const char *name, const char *message) {
    struct kl_array *a = array_of(f, name, NULL);
    struct kl_error *err = NULL;
    int rc = kl_eval(&a, 1, &err);
    assert_non_null(err);
    assert_string_equal(err->tensor, name);
    assert_non_null(err->file);
    expect_error(rc, err, KL_EUNSUPPORTED, message);
    kl_array_release(a);
}

/* A type that is not taken, and bytes that are missing, are the matter of one tensor. */
static void one_tensor_fails(void **state) {
    struct bytes b = head(3, 4, 0);
    add_tensor(&b, "good", 1, (uint64_t[]){4}, 0, 0);
    add_tensor(&b, "strange", 1, (uint64_t[]){256}, 16, 64);
    add_tensor(&b, "new", 1, (uint64_t[]){256}, 1000, 64);
    add_tensor(&b, "cut", 1, (uint64_t[]){32}, 8, 64);
    add_zeros(&b, 32);
    for (int i = 0; i < 64 + 20; i++) bytes_add(&b, "", 1);
    struct kl_file *f = open_bytes("one.gguf", b);
    struct kl_array *a = array_of(f, "good", NULL);
    assert_true(((float *)host_of(a))[3] == 0);
    kl_array_release(a);
    expect_no_type(f, "strange", "'strange': type 16 (IQ2_XXS) is not taken");
    expect_no_type(f, "new", "'new': type 1000 (unknown) is not taken");
    a = array_of(f, "cut", NULL);
    expect_array_fails(a, KL_ETRUNCATED, "cut", "the file ends before them");
    kl_array_release(a);
    kl_file_close(f);
    free(b.p);
}

/* ---- metadata ---- */

static struct bytes with_metadata(void) {
    struct bytes b = head(3, 0, 5);
    add_text(&b, "name");
    add_u32(&b, 8);
    add_text(&b, "a model");
    add_text(&b, "count");
    add_u32(&b, 4);
    add_u32(&b, 77);
    add_text(&b, "words");
    add_u32(&b, 9);
    add_u32(&b, 8);
    add_u64(&b, 2);
    add_text(&b, "one");
    add_text(&b, "\xff\xfe");
    add_text(&b, "sizes");
    add_u32(&b, 9);
    add_u32(&b, 11);
    add_u64(&b, 3);
    for (int i = 0; i < 3; i++) add_u64(&b, (uint64_t)i - 1);
    add_text(&b, "ready");
    add_u32(&b, 7);
    bytes_add(&b, "\1", 1);
    return b;
}

static void metadata(void **state) {
    struct bytes b = with_metadata();
    struct kl_file *f = open_bytes("metadata.gguf", b);
    const struct kl_gguf_value *v = f->values; /* sorted by key */
    assert_int_equal(f->n_values, 5);
    assert_string_equal(v[0].key, "count");
    assert_int_equal(v[0].kind, KL_GGUF_ARRAY);
    assert_int_equal(v[0].dtype, KL_U32);
    assert_false(v[0].is_list);
    assert_int_equal(*(const uint32_t *)v[0].data, 77);
    assert_int_equal(v[1].kind, KL_GGUF_STRING);
    assert_string_equal(*v[1].texts, "a model");
    assert_int_equal(v[2].dtype, KL_BOOL);
    assert_int_equal(*(const unsigned char *)v[2].data, 1);
    assert_int_equal(v[3].dtype, KL_I64);
    assert_true(v[3].is_list);
    assert_int_equal(v[3].n, 3);
    assert_int_equal(((const int64_t *)v[3].data)[0], -1);
    assert_int_equal(v[4].kind, KL_GGUF_STRINGS);
    assert_string_equal(v[4].texts[1], "\xff\xfe"); /* tokens need not be UTF-8 */
    kl_file_close(f);
    free(b.p);
}

/* ---- rules ---- */

static void expect_refused(struct bytes b, const char *message) {
    expect_open_fails(write_file("rule.gguf", b), KL_FORMAT_GGUF, KL_EFORMAT, message);
    free(b.p);
}

static struct bytes with_value(const char *key, uint32_t type) {
    struct bytes b = head(3, 0, 1);
    add_text(&b, key);
    add_u32(&b, type);
    return b;
}

static void rules_of_the_header(void **state) {
    struct bytes b = {0};
    bytes_add(&b, "GGUX\3\0\0\0", 8);
    expect_refused(b, "does not start with GGUF");
    expect_refused((struct bytes){0}, "the file ends at byte 0, within it");
    b = (struct bytes){0};
    bytes_add(&b, "GGUF\3\0", 6);
    expect_refused(b, "the file ends at byte 6, within it");
    expect_refused(head(1, 0, 0), "version 1; 2 and 3 are taken");
    expect_refused(head(0x03000000, 0, 0), "version 3 in the other byte order");
    expect_refused(head(3, UINT64_MAX, 0), "18446744073709551615 tensors do not fit");
    expect_refused(head(3, 0, UINT64_C(1) << 40), "1099511627776 values do not fit");
}

static void rules_of_metadata(void **state) {
    struct bytes b = head(3, 0, 1);
    add_u64(&b, 70000);
    add_zeros(&b, 1 << 17);
    expect_refused(b, "the length of a key is 70000");
    b = with_value("", 4);
    add_u32(&b, 1);
    expect_refused(b, "a key is empty");
    b = with_value("\xff", 4);
    add_u32(&b, 1);
    expect_refused(b, "a key is not UTF-8");
    b = with_value("k", 13);
    add_u32(&b, 1);
    expect_refused(b, "'k' has type 13, which there is not");
    b = with_value("k", 7);
    bytes_add(&b, "\2", 1);
    expect_refused(b, "'k': a bool is 2");
    b = with_value("k", 8);
    add_u64(&b, 1000);
    expect_refused(b, "the length of a string is 1000");
    b = with_value("k", 9);
    add_u32(&b, 9);
    add_u64(&b, 1);
    expect_refused(b, "'k' is a list of lists");
    b = with_value("k", 9);
    add_u32(&b, 12);
    add_u64(&b, UINT64_C(1) << 61);
    expect_refused(b, "'k': 2305843009213693952 numbers do not fit");
    b = with_value("k", 9);
    add_u32(&b, 8);
    add_u64(&b, UINT64_C(1) << 61);
    expect_refused(b, "'k': 2305843009213693952 strings do not fit");
    b = head(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        add_text(&b, "k");
        add_u32(&b, 4);
        add_u32(&b, 1);
    }
    expect_refused(b, "the key 'k' appears twice");
    b = with_value("general.alignment", 4);
    add_u32(&b, 12);
    expect_refused(b, "general.alignment is no uint32 that is a multiple of 8");
    b = with_value("general.alignment", 10);
    add_u64(&b, 32);
    expect_refused(b, "general.alignment is no uint32");
}

static struct bytes with_tensor(const char *name, uint32_t n_dims, const uint64_t *dims,
                                uint32_t type, uint64_t offset) {
    struct bytes b = head(3, 1, 0);
    add_tensor(&b, name, n_dims, dims, type, offset);
    return b;
}

static void rules_of_tensors(void **state) {
    const uint64_t four[] = {4}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1},
                   huge[] = {INT32_MAX, INT32_MAX, INT32_MAX}, wide[] = {UINT64_C(1) << 31};
    expect_refused(with_tensor("", 1, four, 0, 0), "the name of a tensor is empty");
    expect_refused(with_tensor("x", 9, many, 0, 0), "'x' has 9 dimensions, at most 8 are taken");
    expect_refused(with_tensor("x", 1, wide, 0, 0), "'x': a dimension is over 2147483647");
    expect_refused(with_tensor("x", 3, huge, 0, 0), "'x': too many elements");
    expect_refused(with_tensor("x", 3, huge, 16, 0), "'x': too many elements");
    expect_refused(with_tensor("x", 1, four, 0, 33), "'x': its offset 33 is not a multiple of 32");
    expect_refused(with_tensor("x", 1, four, 0, UINT64_C(1) << 63), "'x': its offset is over 2^62");
    expect_refused(with_tensor("x", 1, four, 2, 0), "'x': its rows of 4 are no multiple of the 32");
    expect_refused(with_tensor("x", 0, four, 2, 0), "'x': its rows of 1 are no multiple of the 32");
    struct bytes b = head(3, 2, 0);
    add_tensor(&b, "x", 1, (uint64_t[]){16}, 0, 0);
    add_tensor(&b, "y", 1, four, 0, 32);
    expect_refused(b, "the data of 'x' and 'y' overlaps");
    b = head(3, 2, 0);
    for (uint64_t i = 0; i < 2; i++) add_tensor(&b, "x", 1, four, 0, 32 * i);
    expect_refused(b, "two tensors are 'x'");
    b = head(3, 2, 0);
    add_tensor(&b, "a.weight", 1, (uint64_t[]){32}, 2, 0);
    add_tensor(&b, "a.scales", 1, four, 0, 32);
    expect_refused(b, "two tensors are 'a.scales'");
}

static struct bytes everything(void) {
    struct bytes b = with_metadata();
    b.p[8] = 3; /* tensors */
    add_tensor(&b, "a.weight", 2, (uint64_t[]){64, 1}, 3, 0);
    add_tensor(&b, "b", 2, (uint64_t[]){2, 2}, 0, 64);
    add_tensor(&b, "c", 1, (uint64_t[]){256}, 14, 96);
    add_zeros(&b, 32);
    for (int i = 0; i < 96 + 210; i++) bytes_add(&b, &(char){(char)(i * 37)}, 1);
    return b;
}

/* Whatever happens, every failure has a message. */
static void read_all(const char *path) {
    struct kl_source *source;
    struct kl_file *f = NULL;
    struct kl_error *err = NULL;
    assert_int_equal(kl_source_open_file(&source, path, NULL), 0);
    if (kl_file_open(&f, source, KL_FORMAT_GGUF, &err) == 0) {
        for (size_t i = 0; i < f->n; i++) {
            struct kl_array *a;
            void *data;
            if (kl_file_array(&a, f, i, NULL, &err) == 0) {
                kl_array_host(a, &data, &err);
                kl_array_release(a);
            }
            if (err) assert_non_null(err->message);
            kl_error_release(err);
            err = NULL;
        }
    } else {
        assert_non_null(err);
        assert_non_null(err->message);
        kl_error_release(err);
    }
    kl_file_close(f);
    kl_source_release(source);
}

static void cut_and_changed_anywhere(void **state) {
    struct bytes b = everything();
    struct kl_file *f = open_bytes("whole.gguf", b);
    assert_int_equal(f->n, 5);
    kl_file_close(f);
    for (size_t n = 0; n < b.n; n += 1 + (n > 400) * 7)
        read_all(write_file("cut.gguf", (struct bytes){b.p, n}));
    uint32_t seed = 5;
    for (int i = 0; i < 3000; i++) {
        struct bytes c = {0};
        bytes_add(&c, b.p, b.n);
        for (int k = 0; k <= i % 3; k++) {
            seed = seed * 1664525U + 1013904223U;
            c.p[(seed >> 8) % 360] = (char)(seed >> 4 & 3 ? seed >> 24 : 0xff);
        }
        read_all(write_file("changed.gguf", c));
        free(c.p);
    }
    free(b.p);
}

/* A reader that does not know its size gives the same. */
static void without_a_size(void **state) {
    struct bytes b = everything();
    struct memory m = {.data = b.p, .n = b.n, .no_size = true};
    struct kl_reader_ops ops = memory_ops;
    struct kl_source *source;
    struct kl_file *f;
    struct kl_error *err = NULL;
    ops.seek = NULL;
    ops.tell = NULL;
    expect_ok(kl_source_new_reader(&source, &ops, &m, &err), err);
    expect_ok(kl_file_open(&f, source, KL_FORMAT_GGUF, &err), err);
    assert_int_equal(f->n, 5);
    struct kl_array *a = array_of(f, "b", NULL);
    assert_memory_equal(host_of(a), b.p + b.n - 210 - 32, 16);
    kl_array_release(a);
    kl_file_close(f);
    kl_source_release(source);
    memory_end(&m);
    free(b.p);
}

/* ---- saving ---- */

static struct kl_array *numbers(enum kl_dtype d, int ndim, const int *dims) {
    struct kl_array *a;
    void *data;
    expect_ok(kl_array_new_data(&a, NULL, d, ndim, dims, NULL), NULL);
    expect_ok(kl_array_host(a, &data, NULL), NULL);
    for (size_t i = 0; i < (size_t)a->t.size * kl_dtype_size(d); i++)
        ((char *)data)[i] = (char)(i * 5 + 1);
    return a;
}

static void saved_and_read_back(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16,  KL_I8,  KL_I16, KL_I32,
                                           KL_I64, KL_BF16, KL_F64, KL_F32};
    struct kl_named named[9];
    char names[9][16];
    for (int i = 0; i < 9; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        named[i] = (struct kl_named){names[i], i == 8 ? numbers(KL_F32, 0, NULL)
                                                      : numbers(dtypes[i], 2, (int[]){3, i + 1})};
    }
    const uint32_t alignment = 64;
    const double list[] = {1.5, -2};
    const char *const words[] = {"a", ""}, *const word[] = {"w"};
    const struct kl_gguf_value values[] = {
        {"general.alignment", KL_GGUF_ARRAY, KL_U32, false, 1, {&alignment}},
        {"list", KL_GGUF_ARRAY, KL_F64, true, 2, {list}},
        {"word", KL_GGUF_STRING, 0, false, 1, {.texts = word}},
        {"words", KL_GGUF_STRINGS, 0, false, 2, {.texts = words}}};
    struct kl_error *err = NULL;
    const char *path = kl_test_path("saved.gguf");
    expect_ok(kl_save_gguf(path, named, 9, values, 4, &err), err);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    assert_int_equal(f->n, 9);
    assert_int_equal(f->n_values, 4);
    assert_memory_equal(f->values[1].data, list, sizeof list);
    assert_string_equal(*f->values[2].texts, "w");
    assert_string_equal(f->values[3].texts[0], "a");
    assert_string_equal(f->values[3].texts[1], "");
    for (int i = 0; i < 9; i++) {
        struct kl_array *a = array_of(f, names[i], NULL);
        assert_int_equal(a->t.dtype, dtypes[i]);
        assert_int_equal(a->t.size, named[i].array->t.size);
        assert_int_equal(f->tensors[i].begin % 64, 0);
        assert_memory_equal(host_of(a), host_of(named[i].array),
                            (size_t)a->t.size * kl_dtype_size(dtypes[i]));
        kl_array_release(a);
    }
    kl_file_close(f);
    for (int i = 0; i < 9; i++) kl_array_release(named[i].array);
}

static void what_cannot_be_saved(void **state) {
    struct kl_array *good = numbers(KL_F32, 1, (int[]){2}), *bad = numbers(KL_U32, 1, (int[]){2}),
                    *deep = numbers(KL_F32, 9, (int[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    const char *path = kl_test_path("never.gguf");
    const uint32_t twelve = 12;
    const uint16_t half = half_of(1);
    const struct {
        struct kl_named tensors[2];
        struct kl_gguf_value value;
        int code;
        const char *message;
    } cases[] = {
        {{{"x", bad}, {"y", good}}, {0}, KL_EDTYPE, "'x' is of uint32; a .gguf file takes int8"},
        {{{"x", deep}, {"y", good}}, {0}, KL_ESHAPE, "'x' has 9 dimensions"},
        {{{"x", good}, {"x", good}}, {0}, KL_EARG, "'x' is given twice"},
        {{{"", good}, {"x", good}}, {0}, KL_EARG, "the name of a tensor is empty"},
        {{{"\xff", good}, {"x", good}}, {0}, KL_EARG, "not UTF-8"},
        {{{"x", good}, {"y", good}},
         {"k", KL_GGUF_ARRAY, KL_F16, false, 1, {&half}},
         KL_EDTYPE,
         "the metadata 'k' is of float16"},
        {{{"x", good}, {"y", good}},
         {"", KL_GGUF_ARRAY, KL_U32, false, 1, {&twelve}},
         KL_EARG,
         "a key of the metadata is empty"},
        {{{"x", good}, {"y", good}},
         {"general.alignment", KL_GGUF_ARRAY, KL_U32, false, 1, {&twelve}},
         KL_EARG,
         "general.alignment is no uint32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kl_error *err = NULL;
        expect_error(kl_save_gguf(path, cases[i].tensors, 2, &cases[i].value,
                                  cases[i].value.key != NULL, &err),
                     err, cases[i].code, cases[i].message);
    }
    assert_int_equal(access(path, F_OK), -1);
    kl_array_release(good);
    kl_array_release(bad);
    kl_array_release(deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_types),     cmocka_unit_test(plain_types),
        cmocka_unit_test(one_tensor_fails),    cmocka_unit_test(metadata),
        cmocka_unit_test(rules_of_the_header), cmocka_unit_test(rules_of_metadata),
        cmocka_unit_test(rules_of_tensors),    cmocka_unit_test(cut_and_changed_anywhere),
        cmocka_unit_test(without_a_size),      cmocka_unit_test(saved_and_read_back),
        cmocka_unit_test(what_cannot_be_saved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
