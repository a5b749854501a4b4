/* test_safetensors.c - every rule of the header, the result of a good header, and the effect of a
 * file that is too short. */
#include "io_support.h"

#define F32_2 "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static const struct {
    const char *header;
    size_t n_data;
    int code;
    const char *message;
} rules[] = {
    {"[]", 0, KL_EFORMAT, "does not start with '{'"},
    {" {}", 0, KL_EFORMAT, "does not start with '{'"},
    {"{", 0, KL_EFORMAT, "not valid JSON"},
    {"{}x", 0, KL_EFORMAT, "not valid JSON"},
    {"{\"a\":" F32_2 ",\"a\":" F32_2 "}", 8, KL_EFORMAT, "a key appears twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     KL_EFORMAT, "a key appears twice"},
    {"{\"\xff\":" F32_2 "}", 8, KL_EFORMAT, "not valid UTF-8"},
    {"{\"a\":1}", 0, KL_EFORMAT, "'a' is not an object"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KL_EFORMAT, "'a' has no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, KL_EFORMAT, "'a' has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, KL_EFORMAT, "'a' has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":0}}", 8, KL_EFORMAT,
     "none of dtype, shape"},
    {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KL_EFORMAT,
     "dtype is not a string"},
    {"{\"a\":{\"dtype\":\"F4_E2M1\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, KL_EDTYPE,
     "'a': dtype F4_E2M1"},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KL_EDTYPE,
     "dtype f32 is not taken"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, KL_EFORMAT,
     "shape is not a list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, KL_EFORMAT,
     "non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, KL_EFORMAT,
     "non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[true],\"data_offsets\":[0,8]}}", 8, KL_EFORMAT,
     "non-negative integers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2147483648],\"data_offsets\":[0,2147483648]}}", 0,
     KL_EFORMAT, "a dimension is over 2147483647"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 0,
     KL_EFORMAT, "not valid JSON"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2147483647,2147483647,1073741824],\"data_offsets\":[0,8]"
     "}}",
     8, KL_EFORMAT, "too many elements"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[0,2147483647,2147483647,2147483647],\"data_offsets\":[0,"
     "0]}}",
     0, KL_EFORMAT, "too many elements"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
     1, KL_EFORMAT, "more than 64"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, KL_EFORMAT,
     "not two non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8, KL_EFORMAT,
     "not two non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, KL_EFORMAT,
     "not two non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{\"0\":8}}}", 8, KL_EFORMAT,
     "not two non-negative integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, KL_EFORMAT,
     "begin after their end"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[9223372036854775799,"
     "9223372036854775807]}}",
     8, KL_EFORMAT, "over 2^62"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}", 9, KL_EFORMAT,
     "hold 9 bytes, shape and dtype need 8"},
    {"{\"a\":" F32_2 ",\"b\":" F32_2 "}", 8, KL_EFORMAT, "the data of 'a' and 'b' overlap"},
    {"{\"a\":" F32_2 ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[7,9]}}", 9,
     KL_EFORMAT, "overlap"},
    {"{\"a\":" F32_2 ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[9,11]}}", 11,
     KL_EFORMAT, "a gap of 1 bytes between the data of 'a' and 'b'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, KL_EFORMAT,
     "the first 4 bytes"},
    {"{\"a\":" F32_2 "}", 9, KL_EFORMAT, "1 bytes after the data"},
    {"{}", 1, KL_EFORMAT, "1 bytes after the data"},
    {"{\"__metadata__\":null,\"__metadata__\":null}", 0, KL_EFORMAT, "a key appears twice"},
    {"{\"__metadata__\":{\"a\":\"\",\"b\":\"\",\"a\":\"\"}}", 0, KL_EFORMAT, "a key appears twice"},
    {"{\"a\":" F32_2 ",}", 8, KL_EFORMAT, "not valid JSON"},
    {"{\"__metadata__\":nul}", 0, KL_EFORMAT, "not valid JSON at byte"},
    {"{\"__metadata__\":{\"a\":nul}}", 0, KL_EFORMAT, "not valid JSON at byte"},
    {"{\"__metadata__\":[]}", 0, KL_EFORMAT, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, KL_EFORMAT, "__metadata__ 'k' is not a string"},
};

static void every_rule_has_its_message(void **state) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct bytes b = safetensors_bytes(rules[i].header, rules[i].n_data);
        const char *path = write_file("rule.safetensors", b);
        expect_open_fails(path, KL_FORMAT_SAFETENSORS, rules[i].code, rules[i].message);
        free(b.p);
    }
}

static void lengths_are_checked_before_use(void **state) {
    static const struct {
        char prefix[17];
        size_t n;
        const char *message;
    } cases[] = {
        {"", 0, "the file is empty"},
        {"\1\0\0\0", 4, "too short for the length"},
        {"\0\0\0\0\0\0\0\0{}", 10, "its length is 0"},
        {"\3\0\0\0\0\0\0\0{}", 10, "longer than the file: 3 bytes of 10"},
        {"\1\0\0\0\0\0\0\0", 8, "longer than the file"},
        {"\1\xe1\xf5\5\0\0\0\0{}", 10, "over 100 MB: 100000001 bytes"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "over 100 MB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path =
            write_file("length.safetensors", (struct bytes){(char *)cases[i].prefix, cases[i].n});
        expect_open_fails(path, KL_FORMAT_SAFETENSORS, KL_EFORMAT, cases[i].message);
    }
    expect_open_fails(write_file("none", (struct bytes){0}), KL_FORMAT_ANY, KL_EFORMAT,
                      "the file is empty");
}

static void messages_are_safe_to_print(void **state) {
    struct bytes b = safetensors_bytes("{\"\\u001b[2J\":1}", 0);
    expect_open_fails(write_file("escape.safetensors", b), KL_FORMAT_ANY, KL_EFORMAT,
                      "'?[2J' is not an object");
    free(b.p);
    b = safetensors_bytes(
        "{\"\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 0);
    struct kl_file *f = open_path(write_file("escape.safetensors", b), KL_FORMAT_ANY);
    struct kl_array *a = array_of(f, "\033[2J", NULL);
    expect_array_fails(a, KL_ETRUNCATED, "\033[2J", "'?[2J', bytes");
    kl_array_release(a);
    kl_file_close(f);
    free(b.p);
}

static void a_file_lists_its_tensors_without_reading_them(void **state) {
    struct kl_file *f = open_path("tests/io/data/five.safetensors", KL_FORMAT_ANY);
    static const char *const names[] = {"x.bias", "x.weight", "mask", "scale", "none"};
    assert_int_equal(f->format, KL_FORMAT_SAFETENSORS);
    assert_int_equal(f->n, 5);
    for (int i = 0; i < 4; i++) assert_string_equal(f->tensors[i].name, names[i]);
    struct kl_file_tensor *t = &f->tensors[index_of(f, "x.weight")];
    assert_int_equal(t->dtype, KL_I16);
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->dims[1], 3);
    assert_int_equal(t->end - t->begin, 12);
    assert_int_equal(f->n_metadata, 2);
    assert_string_equal(f->metadata[0].key, "author");
    assert_string_equal(f->metadata[0].value, "J\u00fcrgen");
    kl_file_close(f);
}

static void tensors_arrive(void **state) {
    struct kl_file *f = open_path("tests/io/data/five.safetensors", KL_FORMAT_SAFETENSORS);
    struct kl_array *a = array_of(f, "x.weight", NULL);
    assert_false(kl_array_settled(a));
    const int16_t *v = host_of(a);
    for (int i = 0; i < 6; i++) assert_int_equal(v[i], 21 * i - 50);
    kl_array_release(a);
    a = array_of(f, "scale", NULL);
    assert_int_equal(a->t.ndim, 0);
    assert_true(*(double *)host_of(a) == -2.0);
    kl_array_release(a);
    a = array_of(f, "none", NULL);
    assert_int_equal(a->t.size, 0);
    assert_int_equal(a->t.dims[1], 7);
    host_of(a);
    kl_array_release(a);
    kl_file_close(f);
}

static void arrays_outlive_the_file_handle(void **state) {
    struct kl_file *f = open_path("tests/io/data/five.safetensors", KL_FORMAT_ANY);
    struct kl_array *a = array_of(f, "x.bias", NULL);
    kl_file_close(f);
    assert_true(((float *)host_of(a))[5] == 1.75f);
    kl_array_release(a);
}

static void bools_are_zero_or_one(void **state) {
    struct bytes b =
        safetensors_bytes("{\"a\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    struct kl_file *f = open_path(write_file("bool.safetensors", b), KL_FORMAT_ANY);
    struct kl_array *a = array_of(f, "a", NULL);
    assert_memory_equal(host_of(a), "\0\1\1\1", 4);
    kl_array_release(a);
    kl_file_close(f);
    free(b.p);
}

static void nothing_and_null_metadata_are_fine(void **state) {
    struct bytes b =
        safetensors_bytes("{\"__metadata__\":null}  ", 0); /* what MLX writes for an empty table */
    struct kl_file *f = open_path(write_file("empty.safetensors", b), KL_FORMAT_ANY);
    assert_int_equal(f->n, 0);
    assert_int_equal(f->n_metadata, 0);
    kl_file_close(f);
    free(b.p);
}

static const char three[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
                            "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},"
                            "\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}";

static void a_short_file_fails_exactly_what_is_missing(void **state) {
    for (int got = 0; got <= 12; got++) {
        struct bytes b = safetensors_bytes(three, (size_t)got);
        struct kl_file *f = open_path(write_file("short.safetensors", b), KL_FORMAT_ANY);
        static const char *const names[] = {"a", "b", "c"};
        for (int i = 0; i < 3; i++) {
            struct kl_array *a = array_of(f, names[i], NULL);
            assert_int_equal(f->tensors[index_of(f, names[i])].missing, got < 4 * i + 4);
            if (got < 4 * i + 4)
                for (int again = 0; again < 2; again++)
                    expect_array_fails(a, KL_ETRUNCATED, names[i], "the file ends before them");
            else
                assert_int_equal(((uint8_t *)host_of(a))[3], 4 * i + 3);
            kl_array_release(a);
        }
        struct kl_array *e = array_of(f, "e", NULL);
        host_of(e);
        kl_array_release(e);
        kl_file_close(f);
        free(b.p);
    }
}

static void a_file_that_shrinks_after_opening_fails_when_read(void **state) {
    struct bytes b = safetensors_bytes(three, 12);
    const char *path = write_file("shrinks.safetensors", b);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    struct kl_array *a = array_of(f, "a", NULL), *c = array_of(f, "c", NULL);
    assert_int_equal(truncate(path, (off_t)b.n - 2), 0);
    expect_array_fails(c, KL_ETRUNCATED, "c", "the file ends before them");
    assert_int_equal(((uint8_t *)host_of(a))[1], 1);
    kl_array_release(a);
    kl_array_release(c);
    kl_file_close(f);
    free(b.p);
}

static void a_claim_of_terabytes_allocates_nothing(void **state) {
    struct bytes b = safetensors_bytes("{\"a\":{\"dtype\":\"F64\",\"shape\":[2147483647,1000],"
                                       "\"data_offsets\":[0,17179869176000]}}",
                                       4);
    struct kl_file *f = open_path(write_file("huge.safetensors", b), KL_FORMAT_ANY);
    struct kl_array *a = array_of(f, "a", NULL);
    expect_array_fails(a, KL_ETRUNCATED, "a", "the file ends before them");
    kl_array_release(a);
    kl_file_close(f);
    free(b.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_its_message),
        cmocka_unit_test(lengths_are_checked_before_use),
        cmocka_unit_test(messages_are_safe_to_print),
        cmocka_unit_test(a_file_lists_its_tensors_without_reading_them),
        cmocka_unit_test(tensors_arrive),
        cmocka_unit_test(arrays_outlive_the_file_handle),
        cmocka_unit_test(bools_are_zero_or_one),
        cmocka_unit_test(nothing_and_null_metadata_are_fine),
        cmocka_unit_test(a_short_file_fails_exactly_what_is_missing),
        cmocka_unit_test(a_file_that_shrinks_after_opening_fails_when_read),
        cmocka_unit_test(a_claim_of_terabytes_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
