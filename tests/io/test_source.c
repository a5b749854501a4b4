/* test_source.c - plain files: files that cannot be opened, and offsets beyond 4 GB. */
#include "io_support.h"

#include <fcntl.h>

#include "io/source.h"

static void what_is_no_file(void **state) {
    struct kl_source *s = NULL;
    struct kl_error *err = NULL;
    int rc = kl_source_open_file(&s, kl_test_path("not-there"), &err);
    assert_string_equal(err->file, kl_test_path("not-there"));
    assert_string_equal(err->op, "load");
    expect_error(rc, err, KL_EFILE, "No such file");
    expect_error(kl_source_open_file(&s, kl_test_dir(), &err), err, KL_EFILE, "not a regular file");
    const char *fifo = kl_test_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    /* The call must return, not wait for a writer. */
    expect_error(kl_source_open_file(&s, fifo, &err), err, KL_EFILE, "not a regular file");
    assert_null(s);
}

static void tensors_beyond_4_gb_of_a_sparse_file(void **state) {
    /* A file with a hole of 5 GB, then four bytes. */
    static const char header[] =
        "{\"hole\":{\"dtype\":\"F32\",\"shape\":[5,262144,1024],\"data_offsets\":[0,5368709120]},"
        "\"end\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5368709120,5368709124]}}";
    struct bytes b = safetensors_bytes(header, 0);
    const char *path = write_file("sparse.safetensors", b);
    float value = 42.5f;
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &value, 4, (off_t)b.n + 5368709120), 4);
    close(fd);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    struct kl_array *end = array_of(f, "end", NULL), *hole = array_of(f, "hole", NULL);
    assert_true(*(float *)host_of(end) == 42.5f);
    assert_false(kl_array_settled(hole)); /* the five gigabytes were not read */
    kl_array_release(end);
    kl_array_release(hole);
    assert_int_equal(truncate(path, (off_t)b.n + 5368709122), 0);
    struct kl_file *g = open_path(path, KL_FORMAT_ANY);
    end = array_of(g, "end", NULL);
    expect_array_fails(end, KL_ETRUNCATED, "end", "bytes 5368709");
    kl_array_release(end);
    kl_file_close(f);
    kl_file_close(g);
    free(b.p);
}

static void loads_of_a_large_file_spread_over_lanes(void **state) {
    const char *path = write_file("lanes", (struct bytes){0});
    assert_int_equal(truncate(path, 100 << 20), 0);
    struct kl_source *s;
    expect_ok(kl_source_open_file(&s, path, NULL), NULL);
    unsigned used = 0;
    for (int i = 0; i < 8; i++) {
        struct kl_stream *stream;
        int lane;
        expect_ok(kl_source_reader(s, 1 << 20, &stream, &lane, NULL), NULL);
        used |= 1u << lane;
    }
    assert_int_equal(used, 15);
    kl_source_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(tensors_beyond_4_gb_of_a_sparse_file),
        cmocka_unit_test(loads_of_a_large_file_spread_over_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
