/* test_wait.c - keel/wait.h: each thread has a hook, and every call that waits asks it. */
#include "api/api_support.h"

#include <keel/load.h>
#include <keel/wait.h>
#include <pthread.h>

static int end(void *n) {
    ++*(int *)n;
    return 1;
}

static const keel_wait_hook none = {NULL, NULL};

static void *hook_of_another_thread(void *before) {
    *(keel_wait_hook *)before = keel_set_wait_hook((keel_wait_hook){end, before});
    return NULL;
}

static void test_hooks(void **state) {
    int n = 0;
    keel_wait_hook h = keel_set_wait_hook((keel_wait_hook){end, &n}), other = {end, &n};
    assert_null(h.fn);
    assert_null(h.ctx);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hook_of_another_thread, &other), 0);
    pthread_join(thread, NULL);
    assert_null(other.fn);
    h = keel_set_wait_hook(none);
    assert_true(h.fn == end);
    assert_ptr_equal(h.ctx, &n);
    assert_int_equal(n, 0);
}

/* ---- a reader that holds the data of a file back ---- */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t opened;
    bool open;
    FILE *f;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, NULL};

enum { DATA = 128 }; /* where the five float32 begin */

static int held_read(void *desc, void *data, size_t n, uint64_t offset) {
    pthread_mutex_lock(&gate.mu);
    while (offset >= DATA && !gate.open) pthread_cond_wait(&gate.opened, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
    return fseek(gate.f, (long)offset, SEEK_SET) || fread(data, 1, n, gate.f) != n;
}

static void test_waits_that_end(void **state) {
    gate.f = fopen("tests/io/data/vector.npy", "rb");
    assert_non_null(gate.f);
    keel_file file = keel_file_open_reader((keel_reader){.read_at = held_read}, KEEL_FORMAT_NPY);
    assert_non_null(file.ctx);
    mlx_array x = mlx_array_new(), y = mlx_array_new(), most = mlx_array_new();
    OK(keel_file_load(&x, file, "", (keel_load){NULL}));
    OK(mlx_add(&y, x, x, cpu));
    OK(mlx_max(&most, y, false, cpu));
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){x, y}, 2);
    mlx_string text = mlx_string_new();
    int asked = 0, n = seen.n;
    float value = 7;
    keel_set_wait_hook((keel_wait_hook){end, &asked});
    assert_int_equal(mlx_array_eval(y), 1);
    check_error(n, KEEL_EINTERRUPTED, "the wait was ended", "eval", __FILE__, __LINE__);
    assert_int_equal(asked, 1);
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_array_error(&e, y), 2); /* y has not failed */
    assert_int_equal(mlx_eval(both), 1);
    assert_int_equal(mlx_array_item_float32(&value, most), 1);
    assert_null(mlx_array_data_float32(x));
    assert_int_equal(mlx_array_tostring(&text, y), 1);
    assert_int_equal(mlx_synchronize(cpu), 1);
    assert_int_equal(mlx_save(kl_test_path("held.npy"), y), 1);
    assert_int_equal(asked, 7);
    check_error(seen.n - 1, KEEL_EINTERRUPTED, "the wait was ended", "save", __FILE__, __LINE__);
    assert_int_equal(seen.n, n + 7);
    assert_true(value == 7);
    keel_set_wait_hook(none);
    pthread_mutex_lock(&gate.mu);
    gate.open = true;
    pthread_cond_broadcast(&gate.opened);
    pthread_mutex_unlock(&gate.mu);
    OK(mlx_array_item_float32(&value, most));
    assert_true(value == 2);
    assert_true(mlx_array_data_float32(x)[0] == -2);
    OK(mlx_synchronize(cpu)); /* nothing failed there */
    mlx_string_free(text);
    mlx_vector_array_free(both);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(most);
    OK(keel_file_free(file));
    fclose(gate.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_waits_that_end),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
