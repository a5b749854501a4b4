/* test_npy.c - files as NumPy writes them (tests/io/data, by golden_io.py), every rule of the
 * header, and saving. */
#include "base/number/dtype.h"
#include "io_support.h"

static const struct {
    char descr[4];
    enum kl_dtype dtype;
} types[] = {{"b1", KL_BOOL}, {"u1", KL_U8},  {"u2", KL_U16},  {"u4", KL_U32}, {"u8", KL_U64},
             {"i1", KL_I8},   {"i2", KL_I16}, {"i4", KL_I32},  {"i8", KL_I64}, {"f2", KL_F16},
             {"f4", KL_F32},  {"f8", KL_F64}, {"V2", KL_BF16}, {"c8", KL_C64}};

static double element(const void *data, enum kl_dtype d, int64_t i) {
    switch (d) {
    case KL_BOOL:
    case KL_U8: return ((const uint8_t *)data)[i];
    case KL_U16: return ((const uint16_t *)data)[i];
    case KL_U32: return ((const uint32_t *)data)[i];
    case KL_U64: return (double)((const uint64_t *)data)[i];
    case KL_I8: return ((const int8_t *)data)[i];
    case KL_I16: return ((const int16_t *)data)[i];
    case KL_I32: return ((const int32_t *)data)[i];
    case KL_I64: return (double)((const int64_t *)data)[i];
    case KL_F16: return (double)kl_f16_to_f32(((const uint16_t *)data)[i]);
    case KL_F32: return (double)((const float *)data)[i];
    case KL_F64: return ((const double *)data)[i];
    case KL_BF16: return (double)kl_bf16_to_f32(((const uint16_t *)data)[i]);
    default: return (double)((const float *)data)[2 * i];
    }
}

static double expected(enum kl_dtype d, int64_t i) {
    if (d == KL_BOOL) return (double)(i % 2);
    if (d == KL_U8) return (double)(41 * i % 256);
    if (!kl_dtype_is_int(d)) return 0.75 * (double)i - 2;
    return kl_dtype_is_signed(d) ? (double)(21 * i - 50) : (double)(41 * i);
}

static struct kl_array *load_path(const char *path) {
    struct kl_source *s;
    struct kl_array *a = NULL;
    struct kl_error *err = NULL;
    expect_ok(kl_source_open_file(&s, path, &err), err);
    expect_ok(kl_load_npy(&a, s, &err), err);
    kl_source_release(s);
    return a;
}

static void every_dtype_in_both_byte_orders(void **state) {
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int big = 0; big < 2; big++) {
            char path[64];
            snprintf(path, sizeof path, "tests/io/data/%s_%.3s.npy", big ? "be" : "le",
                     types[k].descr);
            struct kl_array *a = load_path(path);
            assert_int_equal(a->t.dtype, types[k].dtype);
            assert_int_equal(a->t.ndim, 2);
            const void *data = host_of(a);
            for (int64_t i = 0; i < 6; i++)
                if (element(data, types[k].dtype, i) != expected(types[k].dtype, i))
                    fail_msg("%s: element %d is %g", path, (int)i,
                             element(data, types[k].dtype, i));
            if (types[k].dtype == KL_C64)
                for (int64_t i = 0; i < 6; i++)
                    assert_true(((const float *)data)[2 * i + 1] == (float)i);
            kl_array_release(a);
        }
}

static void fortran_order_is_a_view(void **state) {
    struct kl_array *a = load_path("tests/io/data/fortran.npy");
    assert_int_equal(a->t.ndim, 3);
    assert_int_equal(a->t.dims[0], 2);
    assert_int_equal(a->t.dims[2], 4);
    const float *data = host_of(a);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                assert_true(
                    (double)data[i * a->t.strides[0] + j * a->t.strides[1] + k * a->t.strides[2]] ==
                    expected(KL_F32, 12 * i + 4 * j + k));
    assert_true(a->t.layout & KL_COL_CONTIGUOUS);
    kl_array_release(a);
}

static void header_versions_and_shapes(void **state) {
    static const struct {
        const char *name;
        int ndim, size;
    } files[] = {{"version2", 2, 6},
                 {"version3", 2, 6},
                 {"scalar", 0, 1},
                 {"vector", 1, 5},
                 {"empty", 2, 0}};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char path[64];
        snprintf(path, sizeof path, "tests/io/data/%s.npy", files[k].name);
        struct kl_array *a = load_path(path);
        assert_int_equal(a->t.ndim, files[k].ndim);
        assert_int_equal(a->t.size, files[k].size);
        const void *data = host_of(a);
        for (int i = 0; i < files[k].size; i++)
            assert_true(element(data, KL_F32, i) == expected(KL_F32, i));
        kl_array_release(a);
    }
}

static void other_dtypes_are_named(void **state) {
    expect_open_fails("tests/io/data/no_c16.npy", KL_FORMAT_ANY, KL_EDTYPE, "'<c16' is not taken");
    expect_open_fails("tests/io/data/no_text.npy", KL_FORMAT_ANY, KL_EDTYPE, "'<U2' is not taken");
    expect_open_fails("tests/io/data/no_struct.npy", KL_FORMAT_ANY, KL_EDTYPE, "structured");
}

static struct bytes npy_bytes(const char *dict, int version, size_t n_data) {
    struct bytes b = {0};
    uint32_t n = (uint32_t)strlen(dict);
    char v[2] = {(char)version, 0};
    bytes_add(&b, "\x93NUMPY", 6);
    bytes_add(&b, v, 2);
    bytes_add(&b, &n, version == 1 ? 2 : 4);
    bytes_add(&b, dict, n);
    for (size_t i = 0; i < n_data; i++) bytes_add(&b, "\1", 1);
    return b;
}

#define DICT(descr, fortran, shape) \
    "{'descr': " descr ", 'fortran_order': " fortran ", 'shape': " shape "}"

static const struct {
    const char *dict;
    size_t n_data;
    int code;
    const char *message;
} rules[] = {
    {"", 0, KL_EFORMAT, "not a Python dict"},
    {"()", 0, KL_EFORMAT, "not a Python dict"},
    {"{", 0, KL_EFORMAT, "a key is not a plain string"},
    {"{1: 2}", 0, KL_EFORMAT, "a key is not a plain string"},
    {"{'descr", 0, KL_EFORMAT, "a key is not a plain string"},
    {"{'de\\x73cr': '<f4'}", 0, KL_EFORMAT, "a key is not a plain string"},
    {"{'descr' '<f4'}", 0, KL_EFORMAT, "a key without a value"},
    {"{'descr': '<f4'", 0, KL_EFORMAT, "the dict does not end"},
    {"{'descr': '<f4' 'shape': ()}", 0, KL_EFORMAT, "the dict does not end"},
    {"{'other': 1}", 0, KL_EFORMAT, "a key that is none of"},
    {"{'shape': (), 'shape': ()}", 0, KL_EFORMAT, "a key appears twice"},
    {"{'fortran_order': False, 'shape': ()}", 0, KL_EFORMAT, "no 'descr'"},
    {"{'descr': '<f4', 'shape': ()}", 0, KL_EFORMAT, "no 'fortran_order'"},
    {"{'descr': '<f4', 'fortran_order': False}", 0, KL_EFORMAT, "no 'shape'"},
    {DICT("'<f4'", "False", "()") " x", 4, KL_EFORMAT, "text after the dict"},
    {DICT("4", "False", "()"), 4, KL_EFORMAT, "'descr' is not a string"},
    {DICT("[('x', '<f4')]", "False", "()"), 4, KL_EDTYPE, "structured"},
    {DICT("'O'", "False", "()"), 4, KL_EDTYPE, "'O' is not taken"},
    {DICT("'|S4'", "False", "()"), 4, KL_EDTYPE, "'|S4' is not taken"},
    {DICT("'<f16'", "False", "()"), 16, KL_EDTYPE, "'<f16' is not taken"},
    {DICT("''", "False", "()"), 4, KL_EDTYPE, "'' is not taken"},
    {DICT("'<f4'", "0", "()"), 4, KL_EFORMAT, "neither True nor False"},
    {DICT("'<f4'", "False", "[1]"), 4, KL_EFORMAT, "'shape' is not a tuple"},
    {DICT("'<f4'", "False", "(1)"), 4, KL_EFORMAT, "'shape' is not a tuple"},
    {DICT("'<f4'", "False", "(-1,)"), 4, KL_EFORMAT, "non-negative integers"},
    {DICT("'<f4'", "False", "(1.5,)"), 4, KL_EFORMAT, "'shape' is not a tuple"},
    {DICT("'<f4'", "False", "(1, 2"), 8, KL_EFORMAT, "'shape' does not end"},
    {DICT("'<f4'", "False", "(2147483648,)"), 4, KL_EFORMAT, "a dimension is over 2147483647"},
    {DICT("'<f4'", "False", "(99999999999999999999999999,)"), 4, KL_EFORMAT, "a dimension is over"},
    {DICT("'<f8'", "False", "(2147483647, 2147483647, 1073741824)"), 4, KL_EFORMAT,
     "too many elements"},
    {DICT("'<f8'", "False", "(0, 2147483647, 2147483647, 1073741824)"), 0, KL_EFORMAT,
     "too many elements"},
    {DICT("'|u1'", "False",
          "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1,1,1,1,1,1,1,1,1)"),
     1, KL_EFORMAT, "more than 64 dimensions"},
    {DICT("'<f4'", "False", "(2,)"), 9, KL_EFORMAT, "1 bytes after the data"},
};

static void every_rule_has_its_message(void **state) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int version = 1; version <= 3; version++) {
            struct bytes b = npy_bytes(rules[i].dict, version, rules[i].n_data);
            expect_open_fails(write_file("rule.npy", b), KL_FORMAT_NPY, rules[i].code,
                              rules[i].message);
            free(b.p);
        }
}

static void spellings_that_are_fine(void **state) {
    static const char *const dicts[] = {
        DICT("'<f4'", "False", "(2,)"),
        DICT("'f4'", "True", "(2, )"),
        DICT("'=f4'", "False", "(2L,)"),
        "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\",}   \n",
        "\n{ 'descr' : '|f4' , 'fortran_order' : False , 'shape' : ( 2 , 1 , ) , }\n",
    };
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
        struct bytes b = npy_bytes(dicts[i], 1, 8);
        struct kl_array *a = load_path(write_file("fine.npy", b));
        assert_int_equal(a->t.size, 2);
        assert_memory_equal(host_of(a), "\1\1\1\1\1\1\1\1", 8);
        kl_array_release(a);
        free(b.p);
    }
}

static void prefixes_are_checked_before_use(void **state) {
    static const struct {
        char prefix[13];
        size_t n;
        const char *message;
    } cases[] = {
        {"", 0, "npy: empty"},
        {"\x93NUMPY\1\0", 8, "too short for a header"},
        {"\x93NUMPX\1\0\2\0{}", 12, "no magic number"},
        {"\x93NUMPY\4\0\2\0{}", 12, "version 4.0"},
        {"\x93NUMPY\0\0\2\0{}", 12, "version 0.0"},
        {"\x93NUMPY\1\1\2\0{}", 12, "version 1.1"},
        {"\x93NUMPY\1\0\3\0{}", 12, "longer than what holds it"},
        {"\x93NUMPY\2\0\2\0{", 11, "too short for a header"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff", 12, "over 100 MB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path =
            write_file("prefix.npy", (struct bytes){(char *)cases[i].prefix, cases[i].n});
        expect_open_fails(path, KL_FORMAT_NPY, KL_EFORMAT, cases[i].message);
    }
}

static void a_short_file_fails_when_read(void **state) {
    struct bytes b = npy_bytes(DICT("'<f4'", "True", "(2, 3)"), 1, 23);
    struct kl_array *a = load_path(write_file("short.npy", b));
    expect_array_fails(a, KL_ETRUNCATED, "", "the file ends before them");
    kl_array_release(a);
    free(b.p);
}

static void saving_is_what_numpy_writes(void **state) {
    static const char *const names[] = {"le_b1", "le_u1", "le_u2",  "le_u4",  "le_u8", "le_i1",
                                        "le_i2", "le_i4", "le_i8",  "le_f2",  "le_f4", "le_f8",
                                        "le_c8", "le_V2", "scalar", "vector", "empty"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char golden[64];
        snprintf(golden, sizeof golden, "tests/io/data/%s.npy", names[k]);
        struct kl_array *a = load_path(golden);
        const char *path = kl_test_path("saved.npy");
        struct kl_error *err = NULL;
        expect_ok(kl_save_npy((struct kl_dest){.path = path}, a, &err), err);
        struct bytes want = read_whole(golden), got = read_whole(path);
        if (want.n != got.n || memcmp(want.p, got.p, want.n)) fail_msg("%s differs", names[k]);
        free(want.p);
        free(got.p);
        kl_array_release(a);
    }
}

static void strided_arrays_are_saved_row_major(void **state) {
    struct kl_array *a = load_path("tests/io/data/fortran.npy");
    const char *path = kl_test_path("rows.npy");
    struct kl_error *err = NULL;
    expect_ok(kl_save_npy((struct kl_dest){.path = path}, a, &err), err);
    kl_array_release(a);
    a = load_path(path);
    const void *data = host_of(a);
    assert_true(a->t.layout & KL_ROW_CONTIGUOUS);
    for (int i = 0; i < 24; i++) assert_true(element(data, KL_F32, i) == expected(KL_F32, i));
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_in_both_byte_orders),
        cmocka_unit_test(fortran_order_is_a_view),
        cmocka_unit_test(header_versions_and_shapes),
        cmocka_unit_test(other_dtypes_are_named),
        cmocka_unit_test(every_rule_has_its_message),
        cmocka_unit_test(spellings_that_are_fine),
        cmocka_unit_test(prefixes_are_checked_before_use),
        cmocka_unit_test(a_short_file_fails_when_read),
        cmocka_unit_test(saving_is_what_numpy_writes),
        cmocka_unit_test(strided_arrays_are_saved_row_major),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
