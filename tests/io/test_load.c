/* test_load.c - progress and cancellation of a load. */
#include "io_support.h"

#include "io/file.h"

/* Three tensors: 20 MB (three chunks), 4 bytes, 4 bytes. */
enum { BIG = 20 << 20 };
static const char header[] =
    "{\"big\":{\"dtype\":\"U8\",\"shape\":[20971520],\"data_offsets\":[0,20971520]},"
    "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20971520,20971524]},"
    "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20971524,20971528]}}";

static struct bytes big_file(void) {
    struct bytes b = safetensors_bytes(header, 0);
    b.p = realloc(b.p, b.n + BIG + 8);
    memset(b.p + b.n, 0, BIG + 8);
    b.n += BIG + 8;
    return b;
}

static struct kl_load_progress progress(struct kl_load *l) {
    struct kl_load_progress p;
    kl_load_get(l, &p);
    return p;
}

static void progress_counts_bytes_and_tensors(void **state) {
    struct bytes b = big_file();
    struct kl_load *load = kl_load_new();
    struct kl_file *f = open_path(write_file("big.safetensors", b), KL_FORMAT_ANY);
    struct kl_array *big = array_of(f, "big", load), *x = array_of(f, "x", load),
                    *y = array_of(f, "y", load);
    assert_int_equal(progress(load).bytes_total, BIG + 8);
    assert_int_equal(progress(load).n_tensors, 3);
    assert_int_equal(progress(load).bytes_done, 0);
    host_of(x);
    assert_int_equal(progress(load).bytes_done, 4);
    assert_int_equal(progress(load).n_done, 1);
    host_of(big);
    host_of(x);
    assert_int_equal(progress(load).bytes_done, BIG + 4);
    kl_array_release(y);
    struct kl_load_progress p = progress(load);
    assert_int_equal(p.n_done, 2);
    assert_int_equal(p.n_skipped, 1);
    assert_int_equal(p.n_failed, 0);
    kl_array_release(big);
    kl_array_release(x);
    kl_file_close(f);
    kl_load_release(load);
    free(b.p);
}

static void progress_is_seen_between_chunks_and_cancelling_stops_there(void **state) {
    struct bytes b = big_file();
    struct gate gate = GATE_INIT;
    struct memory m = {.gate = &gate,
                       /* The reader waits in the second chunk. */
                       .block_at = 8 + sizeof header - 1 + KL_READ_CHUNK};
    struct kl_source *s = memory_source(&m, b);
    struct kl_file *f;
    struct kl_error *err = NULL;
    struct kl_load *load = kl_load_new();
    expect_ok(kl_file_open(&f, s, KL_FORMAT_ANY, &err), err);
    struct kl_array *big = array_of(f, "big", load), *x = array_of(f, "x", load),
                    *free_one = array_of(f, "y", NULL);
    struct kl_array *both[] = {big, x};
    expect_ok(kl_async_eval(both, 2, &err), err);
    gate_await(&gate);
    assert_int_equal(progress(load).bytes_done, KL_READ_CHUNK);
    kl_load_cancel(load);
    gate_open(&gate);
    expect_array_fails(big, KL_ECANCELLED, "big", "cancelled before 'big' was read");
    expect_array_fails(x, KL_ECANCELLED, "x", "cancelled before 'x' was read");
    assert_int_equal(progress(load).n_failed, 2);
    /* The chunk that was being read arrived; the third was never requested. */
    assert_int_equal(progress(load).bytes_done, 2 * KL_READ_CHUNK);
    host_of(free_one);                           /* this tensor was read without a load */
    struct kl_array *y = array_of(f, "y", load); /* made after the cancellation */
    expect_array_fails(y, KL_ECANCELLED, "y", "cancelled");
    kl_array_release(y);
    kl_array_release(free_one);
    kl_array_release(big);
    kl_array_release(x);
    kl_file_close(f);
    kl_source_release(s);
    kl_load_release(load);
    memory_end(&m);
    free(b.p);
}

static void missing_tensors_count_as_failed(void **state) {
    struct bytes b = big_file();
    b.n -= 4;
    struct kl_load *load = kl_load_new();
    struct kl_file *f = open_path(write_file("short.safetensors", b), KL_FORMAT_ANY);
    struct kl_array *y = array_of(f, "y", load);
    assert_int_equal(progress(load).n_failed, 1);
    assert_int_equal(progress(load).bytes_total, 4);
    kl_array_release(y);
    kl_file_close(f);
    kl_load_release(load);
    free(b.p);
}

/* Whoever cancels may also end what the reader reads from; that is no failure of its own. */
static void a_read_that_fails_after_the_cancellation(void **state) {
    struct bytes b = big_file();
    struct gate gate = GATE_INIT;
    struct memory m = {
        .gate = &gate, .block_at = 8 + sizeof header - 1, .raise_at = 8 + sizeof header - 1};
    struct kl_source *s = memory_source(&m, b);
    struct kl_file *f;
    struct kl_error *err = NULL;
    struct kl_load *load = kl_load_new();
    expect_ok(kl_file_open(&f, s, KL_FORMAT_ANY, &err), err);
    struct kl_array *big = array_of(f, "big", load);
    expect_ok(kl_async_eval(&big, 1, &err), err);
    gate_await(&gate);
    kl_load_cancel(load);
    gate_open(&gate);
    expect_array_fails(big, KL_ECANCELLED, "big", "cancelled before 'big' was read");
    assert_int_equal(progress(load).n_failed, 1);
    kl_array_release(big);
    kl_file_close(f);
    kl_source_release(s);
    kl_load_release(load);
    memory_end(&m);
    free(b.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_counts_bytes_and_tensors),
        cmocka_unit_test(progress_is_seen_between_chunks_and_cancelling_stops_there),
        cmocka_unit_test(a_read_that_fails_after_the_cancellation),
        cmocka_unit_test(missing_tensors_count_as_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
