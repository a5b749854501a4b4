/* test_function_file.c - files of functions byte by byte, as docs/function-files.md describes them:
 * one that is right, and for every rule one that breaks it, with its message. */
#include "transforms/export.h"
#include "transforms/subject.h"

/* ---- a file, field by field ---- */

static struct {
    unsigned char v[4096];
    size_t n;
} bytes;

static void put(const void *p, size_t n) {
    assert_true(bytes.n + n <= sizeof bytes.v);
    memcpy(bytes.v + bytes.n, p, n);
    bytes.n += n;
}
static void put8(unsigned x) {
    put(&(unsigned char){(unsigned char)x}, 1);
}
static void put32(uint32_t x) {
    for (int i = 0; i < 4; i++) put8(x >> (8 * i) & 255);
}
static void put_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    put32(bits);
}
static void put_text(const char *text) {
    put32((uint32_t)strlen(text));
    put(text, strlen(text));
}

/* Which field is wrong, and in which way. */
enum wrong {
    NOTHING,
    MAGIC,
    VERSION,
    SHAPELESS,
    N_CONSTANTS,
    CONSTANT_DTYPE,
    CONSTANT_AXES,
    CONSTANT_NEGATIVE,
    CONSTANT_TOO_LARGE,
    CONSTANT_FLAG,
    CONSTANT_BYTES,
    N_FUNCTIONS,
    N_ARGUMENTS,
    ARGUMENT_DTYPE,
    N_NAMES,
    MORE_NAMES,
    LONG_NAME,
    ZERO_IN_NAME,
    SAME_NAMES,
    NAMES_IN_OTHER_ORDER,
    N_OPERATIONS,
    UNKNOWN_OPERATION,
    CALL_OPERATION,
    CUSTOM_OPERATION,
    ARGUMENT_OPERATION,
    OPERATION_FLAG,
    FLAGGED_ADD,
    N_INPUTS,
    LATER_INPUT,
    OUTPUT_DTYPE,
    TRUE_IS_2,
    N_LIST,
    N_RESULTS,
    LATER_RESULT,
    N_METADATA,
    ZERO_IN_METADATA,
    N_EXTENTS,
    EXTENT_OF_CONSTANT,
    EXTENT_AXIS,
    EXTENT_NEGATIVE,
    EXTENTS_ORDER,
    MORE_BYTES,
    N_WRONG,
    /* Files that are right. */
    SECOND_VERSION,
    OLD_SHAPELESS,
};
static const struct {
    enum wrong wrong;
    const char *message;
} rules[] = {
    {MAGIC, "the file does not begin with KEELFUNC"},
    {VERSION, "the file has version 9; this library reads versions 1 to 2"},
    {SHAPELESS, "the flag for any shapes is 2; 0 or 1 is taken"},
    {N_CONSTANTS, "4294967295 constants do not fit into the rest of the file"},
    {CONSTANT_DTYPE, "a constant: 99 is no dtype"},
    {CONSTANT_AXES, "a constant has 200 axes; at most"},
    {CONSTANT_NEGATIVE, "a constant: axis 0 has a negative size"},
    {CONSTANT_TOO_LARGE, "a constant has more elements than can be addressed"},
    {CONSTANT_FLAG, "the flag of a constant is 3; 0 or 1 is taken"},
    {CONSTANT_BYTES, "a constant of 4000 bytes does not fit into the rest of the file"},
    {N_FUNCTIONS, "70000 functions do not fit into the rest of the file"},
    {N_ARGUMENTS, "70000 arguments do not fit into the rest of the file"},
    {ARGUMENT_DTYPE, "an argument: 99 is no dtype"},
    {N_NAMES, "70000 names of arguments do not fit into the rest of the file"},
    {MORE_NAMES, "3 names for 2 arguments"},
    {LONG_NAME, "the name of an argument has 1001 bytes; at most 1000 are taken"},
    {ZERO_IN_NAME, "the name of an argument has a zero byte"},
    {SAME_NAMES, "the names of arguments are not in order"},
    {NAMES_IN_OTHER_ORDER, "the names of arguments are not in order"},
    {N_OPERATIONS, "70000 operations do not fit into the rest of the file"},
    {UNKNOWN_OPERATION, "'format_disk' is no operation of this version"},
    {CALL_OPERATION, "'call' is no operation of this version"},
    {CUSTOM_OPERATION, "'custom_function' is no operation of this version"},
    {ARGUMENT_OPERATION, "'placeholder' is no operation of this version"},
    {OPERATION_FLAG, "the flag of an operation is 2; 0 or 1 is taken"},
    {FLAGGED_ADD, "only a broadcast of one input has the flag of an operation"},
    {N_INPUTS, "70000 inputs of an operation do not fit into the rest of the file"},
    {LATER_INPUT, "an input is value 3, and 3 values were made before"},
    {OUTPUT_DTYPE, "add: 99 is no dtype"},
    {TRUE_IS_2, "2 stands for true or false in the parameters"},
    {N_LIST, "70000 entries of a list of parameters do not fit into the rest of the file"},
    {N_RESULTS, "70000 results do not fit into the rest of the file"},
    {LATER_RESULT, "a result is value 6, and 6 values were made before"},
    {N_METADATA, "70000 bytes of the metadata do not fit into the rest of the file"},
    {ZERO_IN_METADATA, "the metadata has a zero byte"},
    {N_EXTENTS, "70000 extents do not fit into the rest of the file"},
    {EXTENT_OF_CONSTANT, "an extent is not one of an argument or a result"},
    {EXTENT_AXIS, "an extent is not one of an argument or a result"},
    {EXTENT_NEGATIVE, "an extent is not one of an argument or a result"},
    {EXTENTS_ORDER, "the extents are not in order"},
    {MORE_BYTES, "3 bytes follow the last function"},
};

static void put_shape(unsigned dtype, unsigned ndim, uint32_t dim) {
    put8(dtype);
    put8(ndim);
    for (unsigned i = 0; i < ndim && i < 8; i++) put32(dim);
}

static void put_extent(uint32_t value, uint32_t axis, uint32_t extent) {
    put32(value);
    put32(axis);
    put32(extent);
}

/* Two extents that the function saw: of x, and of the sum. */
static void put_extents(enum wrong w) {
    put32(w == N_EXTENTS ? 70000 : 2);
    if (w == EXTENTS_ORDER) put_extent(5, 0, 1);
    put_extent(w == EXTENT_OF_CONSTANT ? 2 : 0, w == EXTENT_AXIS ? 1 : 0,
               w == EXTENT_NEGATIVE ? 0x80000002u : 2);
    if (w != EXTENTS_ORDER) put_extent(5, 0, 1);
}

/* sum(cumsum(x + constant), axis 0), of two float32 arguments of shape (2), the second named b. The
 * file has version 2, and is for any shapes, where something of that is wrong. */
static void make(enum wrong w) {
    const bool second = (w >= N_METADATA && w <= EXTENTS_ORDER) || w == SECOND_VERSION;
    bytes.n = 0;
    put(w == MAGIC ? "NUMPYNPY" : "KEELFUNC", 8);
    put32(w == VERSION ? 9 : second ? 2 : 1);
    put8(w == SHAPELESS ? 2 : second || w == OLD_SHAPELESS);
    if (second) {
        put32(w == N_METADATA ? 70000 : 4);
        put(w == ZERO_IN_METADATA ? "te\0t" : "text", 4);
    }
    put32(w == N_CONSTANTS ? UINT32_MAX : 1);
    if (w == CONSTANT_TOO_LARGE)
        put_shape(KL_F32, 4, INT32_MAX);
    else
        put_shape(w == CONSTANT_DTYPE ? 99 : KL_F32, w == CONSTANT_AXES ? 200 : 1,
                  w == CONSTANT_NEGATIVE ? 0x80000002u
                  : w == CONSTANT_BYTES  ? 1000
                                         : 2);
    put8(w == CONSTANT_FLAG ? 3 : 0);
    put_float(10);
    put_float(20);
    put32(w == N_FUNCTIONS ? 70000 : 1);
    put32(w == N_ARGUMENTS ? 70000 : 2);
    put_shape(KL_F32, 1, 2);
    put_shape(w == ARGUMENT_DTYPE ? 99 : KL_F32, 1, 2);
    if (w == SAME_NAMES || w == NAMES_IN_OTHER_ORDER) {
        put32(2);
        put_text(w == SAME_NAMES ? "b" : "c");
        put_text("b");
    } else {
        put32(w == N_NAMES ? 70000 : w == MORE_NAMES ? 3 : 1);
        if (w == LONG_NAME) {
            static char name[1002];
            memset(name, 'b', 1001);
            put_text(name);
        } else {
            put32(1);
            put(w == ZERO_IN_NAME ? "" : "b", 1);
        }
    }
    put32(w == N_OPERATIONS ? 70000 : 3);
    put_text(w == UNKNOWN_OPERATION    ? "format_disk"
             : w == CALL_OPERATION     ? "call"
             : w == CUSTOM_OPERATION   ? "custom_function"
             : w == ARGUMENT_OPERATION ? "placeholder"
                                       : "add");
    put8(w == OPERATION_FLAG ? 2 : w == FLAGGED_ADD);
    put32(w == N_INPUTS ? 70000 : 2);
    put32(0);
    put32(w == LATER_INPUT ? 3 : 2); /* values: two arguments, the constant, the results */
    put_shape(w == OUTPUT_DTYPE ? 99 : KL_F32, 1, 2);
    put_text("cumsum");
    put8(0);
    put32(1);
    put32(3);
    put_shape(KL_F32, 1, 2);
    put32(0); /* axis */
    put8(w == TRUE_IS_2 ? 2 : 0);
    put8(1);
    put_text("sum");
    put8(0);
    put32(1);
    put32(4);
    put_shape(KL_F32, 1, 1);
    put32(1); /* how many axes, and their list */
    put32(w == N_LIST ? 70000 : 1);
    put32(0);
    put32(w == N_RESULTS ? 70000 : 1);
    put32(w == LATER_RESULT ? 6 : 5);
    if (second) put_extents(w);
    if (w == MORE_BYTES) put("end", 3);
}

static const char *write_file(void) {
    const char *path = kl_test_path("function");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.v, 1, bytes.n, f), bytes.n);
    fclose(f);
    return path;
}

static void refuse(const char *message) {
    struct kl_imported *m;
    struct kl_error *e = NULL;
    const char *path = write_file();
    assert_int_equal(kl_import(&m, path, &e), KL_EFORMAT);
    if (!strstr(e->message, message) || strncmp(e->message, "import: ", 8) != 0)
        fail_msg("no \"%s\" in: %s", message, e->message);
    assert_string_equal(e->file, path);
    kl_error_release(e);
}

static const struct kl_names b = {(const char *const[]){"b"}, 1};

static void right_file(void **state) {
    struct kl_imported *m;
    struct kl_arrays outs = {0};
    struct kl_array *args[2] = {F32(SHAPE(2), 1, 2), F32(SHAPE(2), 0, 0)};
    make(NOTHING);
    EXPECT_OK(kl_import(&m, write_file(), &err));
    EXPECT_OK(kl_imported_call(m, args, 2, b, &outs, &err));
    EXPECT_F32(kl_array_retain(outs.v[0]), SHAPE(1), 11 + 33);
    kl_arrays_free(&outs);
    struct kl_error *e = NULL;
    assert_int_equal(kl_imported_call(m, args, 1, b, &outs, &e), KL_EARG);
    assert_non_null(strstr(e->message, "(float32 (2), float32 (2) named b)"));
    kl_error_release(e);
    kl_imported_release(m);
    release_each(args, 2);
}

/* A file of the second version, for any shapes, in which the function saw two extents. */
static void second_version(void **state) {
    struct kl_imported *m;
    struct kl_arrays outs = {0};
    struct kl_error *e = NULL;
    struct kl_array *args[2] = {F32(SHAPE(2), 1, 2), F32(SHAPE(2), 0, 0)};
    struct kl_array *longer[2] = {F32(SHAPE(1), 1), F32(SHAPE(3), 0, 0, 0)};
    make(SECOND_VERSION);
    EXPECT_OK(kl_import(&m, write_file(), &err));
    assert_string_equal(kl_imported_metadata(m), "text");
    EXPECT_OK(kl_imported_call(m, args, 2, b, &outs, &err));
    EXPECT_F32(kl_array_retain(outs.v[0]), SHAPE(1), 11 + 33);
    kl_arrays_free(&outs);
    assert_int_equal(kl_imported_call(m, longer, 2, b, &outs, &e), KL_ESHAPE);
    assert_string_equal(e->message, "argument 0 has size 1 along axis 0; the function was exported "
                                    "with 2, and read that number");
    kl_error_release(e);
    kl_imported_release(m);
    release_each(args, 2);
    release_each(longer, 2);
}

/* A file for any shapes of the first version may have numbers of old extents: it holds for the
 * shapes that it was exported with. */
static void old_file_for_any_shapes(void **state) {
    struct kl_imported *m;
    struct kl_arrays outs = {0};
    struct kl_error *e = NULL;
    struct kl_array *args[2] = {F32(SHAPE(2), 1, 2), F32(SHAPE(2), 0, 0)};
    struct kl_array *other[2] = {args[0], F32(SHAPE(3), 0, 0, 0)};
    make(OLD_SHAPELESS);
    EXPECT_OK(kl_import(&m, write_file(), &err));
    assert_string_equal(kl_imported_metadata(m), "");
    EXPECT_OK(kl_imported_call(m, args, 2, b, &outs, &err));
    EXPECT_F32(kl_array_retain(outs.v[0]), SHAPE(1), 11 + 33);
    kl_arrays_free(&outs);
    assert_int_equal(kl_imported_call(m, other, 2, b, &outs, &e), KL_ESHAPE);
    assert_string_equal(e->message,
                        "argument 1 (b) has size 3 along axis 0; the function was exported with 2, "
                        "and a file of version 1 holds for no other; export it again");
    kl_error_release(e);
    kl_imported_release(m);
    release_each(args, 2);
    kl_array_release(other[1]);
}

static void every_rule(void **state) {
    assert_int_equal(sizeof rules / sizeof *rules, N_WRONG - 1);
    for (int i = 0; i < N_WRONG - 1; i++) {
        assert_int_equal(rules[i].wrong, i + 1);
        make(rules[i].wrong);
        refuse(rules[i].message);
    }
}

/* Wherever the file ends, the message says before which field. */
static void cut_files(void **state) {
    make(NOTHING);
    const size_t n = bytes.n;
    for (size_t cut = 8; cut < n; cut++) {
        bytes.n = cut;
        struct kl_imported *m;
        struct kl_error *e = NULL;
        assert_int_equal(kl_import(&m, write_file(), &e), KL_EFORMAT);
        assert_true(strstr(e->message, "the file ends before ") ||
                    strstr(e->message, " fit into the rest of the file"));
        kl_error_release(e);
    }
}

/* MLX begins with the length of its version, and that. */
static void files_of_mlx(void **state) {
    static const char *const versions[] = {"0.32.2", "0.9.10", "1.0.0", "0.33.0.dev20261101+ab"};
    for (int i = 0; i < 4; i++) {
        bytes.n = 0;
        put32((uint32_t)strlen(versions[i]));
        put32(0);
        put(versions[i], strlen(versions[i]));
        put("\1\0\0\0\0\0\0\0\0", 9);
        refuse("the file was exported by MLX, whose functions cannot be read here");
    }
    bytes.n = 0;
    put32(6);
    put32(0);
    put("binary", 6);
    refuse("the file does not begin with KEELFUNC");
}

/* What a file says of an operation is no proof: builders refuse what does not fit, when the
 * function is called. */
static void builders_decide(void **state) {
    static const struct {
        size_t from_end; /* of a byte that is changed */
        unsigned char to;
        int code;
    } changes[] = {
        {12, 7, KL_EAXIS}, /* an axis that does not exist */
        {20, 2, KL_EARG},  /* another count than that of the list */
    };
    struct kl_array *args[2] = {F32(SHAPE(2), 1, 2), F32(SHAPE(2), 0, 0)};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct kl_imported *m;
        struct kl_arrays outs = {0};
        make(NOTHING);
        bytes.v[bytes.n - changes[i].from_end] = changes[i].to;
        EXPECT_OK(kl_import(&m, write_file(), &err));
        assert_int_equal(kl_imported_call(m, args, 2, b, &outs, NULL), changes[i].code);
        kl_imported_release(m);
    }
    release_each(args, 2);
}

/* Many functions and many constants: each function owns what it uses, so memory and time follow the
 * size of the file. */
static void many_of_both(void **state) {
    enum { MANY = 20000 };
    const size_t n = 8 + 4 + 1 + 4 + MANY * 7 + 4 + MANY * 16;
    unsigned char *all = calloc(1, n), *at = all;
    memcpy(at, "KEELFUNC\1\0\0\0\0", 13);
    at += 13;
    memcpy(at, &(uint32_t){MANY}, 4);
    at += 4;
    for (int i = 0; i < MANY; i++, at += 7) {
        at[0] = KL_F32;
        at[1] = 1; /* one axis of size 0 */
    }
    memcpy(at, &(uint32_t){MANY}, 4);
    const char *path = kl_test_path("many");
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(all, 1, n, f), n);
    fclose(f);
    free(all);
    struct kl_imported *m;
    int64_t attempts = kl_test_n_alloc_attempts();
    EXPECT_OK(kl_import(&m, path, &err));
    assert_in_range(kl_test_n_alloc_attempts() - attempts, MANY, 10 * MANY);
    kl_imported_release(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_version),  cmocka_unit_test(old_file_for_any_shapes),
        cmocka_unit_test(right_file),      cmocka_unit_test(every_rule),
        cmocka_unit_test(cut_files),       cmocka_unit_test(files_of_mlx),
        cmocka_unit_test(builders_decide), cmocka_unit_test(many_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
