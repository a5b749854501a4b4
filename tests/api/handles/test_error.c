/* test_error.c - the error handler, the thread's last error, errors of arrays: mlx/c/error.h
 * and keel/error.h. */
#include "api/api_support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/value/capture.h"

static void fail_somehow(void) {
    mlx_array r = mlx_array_new();
    assert_int_equal(mlx_add(&r, no_array, no_array, cpu), 1);
    assert_null(r.ctx);
}

/* ---- the handler ---- */
static int n_dtor;
static void *handler_data;

static void count_dtor(void *data) {
    n_dtor++;
    assert_ptr_equal(data, &n_dtor);
}

static void keep_data(const char *msg, void *data) {
    seen.n++;
    handler_data = data;
}

static void test_handler_gets_its_data(void **state) {
    /* Without a destructor the data arrives all the same. */
    mlx_set_error_handler(keep_data, &seen, NULL);
    fail_somehow();
    assert_ptr_equal(handler_data, &seen);
    mlx_set_error_handler(remember, NULL, NULL);
}

static void test_replacing_destroys_data_once(void **state) {
    n_dtor = 0;
    mlx_set_error_handler(keep_data, &n_dtor, count_dtor);
    assert_int_equal(n_dtor, 0);
    mlx_set_error_handler(keep_data, &n_dtor, count_dtor);
    assert_int_equal(n_dtor, 1);
    keel_errors_return();
    assert_int_equal(n_dtor, 2);
    mlx_set_error_handler(remember, NULL, NULL);
    assert_int_equal(n_dtor, 2);
}

static void test_message_names_the_function(void **state) {
    mlx_array r = mlx_array_new();
    int n = seen.n;
    assert_int_equal(mlx_add(&r, no_array, no_array, cpu), 1);
    assert_int_equal(seen.n, n + 1);
    assert_string_equal(seen.text, "mlx_add: a is an empty array handle");
    assert_null(r.ctx);
}

/* The text is passed on unchanged, also with percent signs. */
static void test_message_is_no_format(void **state) {
    int n = seen.n;
    mlx_error("%s", "100%s %n %d");
    assert_int_equal(seen.n, n + 1);
    assert_non_null(strstr(seen.text, "100%s %n %d at "));
    assert_non_null(strstr(seen.text, "test_error.c:"));
    _mlx_error("file.c", 7, "value %d", 3);
    assert_string_equal(seen.text, "mlx_error: value 3 at file.c:7");
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_last_error(&e), 0);
    assert_int_equal(e.code, KEEL_ECALLBACK);
}

static jmp_buf back;

static void jump(const char *msg, void *data) {
    seen.n++;
    longjmp(back, 1);
}

static void test_handler_may_longjmp(void **state) {
    mlx_array r = mlx_array_new_int(3);
    n_dtor = 0;
    mlx_set_error_handler(jump, &n_dtor, count_dtor);
    for (volatile int i = 0; i < 1000; i++) {
        if (setjmp(back) == 0) {
            mlx_add(&r, r, no_array, cpu);
            fail_msg("the handler did not jump");
        }
    }
    mlx_set_error_handler(remember, NULL, NULL); /* no lock is held after the jump */
    assert_int_equal(n_dtor, 1);
    int32_t v = 0;
    OK(mlx_array_item_int32(&v, r));
    assert_int_equal(v, 3);
    mlx_array_free(r);
}

static void longjmp_body(void) {
    mlx_array r = mlx_array_new_int(3), wrong = INTS(1, 2, 3), other = INTS(1, 2);
    mlx_set_error_handler(jump, NULL, NULL);
    if (setjmp(back) == 0) mlx_add(&r, wrong, other, cpu);
    mlx_set_error_handler(remember, NULL, NULL);
    mlx_array_free(r);
    mlx_array_free(wrong);
    mlx_array_free(other);
}

static void test_longjmp_leaks_nothing(void **state) {
    assert_no_leak(longjmp_body);
}

static int depth;

/* Calls the API with a bad argument, which calls a handler again, and replaces itself. */
static void busy(const char *msg, void *data) {
    char before[256];
    snprintf(before, sizeof before, "%s", msg);
    if (depth++ == 0) {
        mlx_array a = mlx_array_new_int(1), r = mlx_array_new();
        OK(mlx_add(&r, a, a, cpu));
        OK(mlx_array_eval(r));
        mlx_array_size(no_array); /* fails, and so calls this handler again */
        mlx_set_error_handler(remember, NULL, NULL);
        mlx_array_free(a);
        mlx_array_free(r);
    }
    assert_string_equal(msg, before); /* the text stays valid during these calls */
}

static void test_handler_may_call_the_api(void **state) {
    depth = 0;
    n_dtor = 0;
    mlx_set_error_handler(busy, &n_dtor, count_dtor);
    fail_somehow();
    assert_int_equal(depth, 2);
    assert_int_equal(n_dtor, 1);
    int n = seen.n;
    fail_somehow(); /* the handler is `remember` now */
    assert_int_equal(seen.n, n + 1);
}

static void test_errors_return(void **state) {
    keel_errors_return();
    int n = seen.n;
    fail_somehow();
    assert_int_equal(seen.n, n);
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_last_error(&e), 0);
    assert_int_equal(e.code, KEEL_EARG);
    assert_string_equal(e.operation, "mlx_add");
    mlx_set_error_handler(remember, NULL, NULL);
}

/* The handler at the start of the process, which NULL brings back, prints the error and exits. */
static void test_default_handler(void **state) {
    int fd[2], status;
    assert_int_equal(pipe(fd), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        mlx_set_error_handler(NULL, NULL, NULL);
        mlx_array_size(no_array);
        _exit(0);
    }
    close(fd[1]);
    char text[512] = "";
    size_t n = 0;
    ssize_t got;
    while (n < sizeof text - 1 && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 255);
    assert_non_null(strstr(text, "MLX error: mlx_array_size: "));
}

/* ---- the last error ---- */
static void *other_thread(void *arg) {
    keel_error_info e = {.size = sizeof e};
    *(int *)arg = keel_last_error(&e) == 2 && e.code == KEEL_OK;
    mlx_array_size(no_array);
    *(int *)arg += keel_last_error(&e) == 0 && e.code == KEEL_EARG;
    return NULL;
}

static void test_last_error_is_per_thread(void **state) {
    fail_somehow();
    int good = 0;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, other_thread, &good), 0);
    pthread_join(t, NULL);
    assert_int_equal(good, 2);
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_last_error(&e), 0);
    assert_string_equal(e.operation, "mlx_add");
    assert_int_equal(keel_last_error(NULL), 1);
}

static void test_code_names(void **state) {
    assert_string_equal(keel_code_name(KEEL_OK), "OK");
    assert_string_equal(keel_code_name(KEEL_EINDEX), "EINDEX");
    assert_string_equal(keel_code_name(KEEL_EINTERNAL), "EINTERNAL");
    assert_string_equal(keel_code_name(1), "unknown");
    assert_string_equal(keel_code_name(-1000), "unknown");
}

/* ---- errors of arrays ---- */
static void test_array_error(void **state) {
    mlx_array a = INTS(10, 20, 30), at = INTS(0, 2, 5), r = mlx_array_new(), sum = mlx_array_new();
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_array_error(&e, a), 2);
    assert_int_equal(e.code, KEEL_OK);
    assert_int_equal(keel_array_error(&e, no_array), 1);
    assert_int_equal(keel_array_error(NULL, a), 1);
    OK(mlx_take_axis(&r, a, at, 0, cpu));
    OK(mlx_add(&sum, r, a, cpu));
    assert_int_equal(keel_array_error(&e, r), 2); /* the operation has not run yet */
    FAILS(mlx_array_eval(sum), KEEL_EINDEX, "5");
    FAILS(mlx_array_eval(sum), KEEL_EINDEX, "5"); /* each evaluation reports the failure */
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "5");
    assert_int_equal(keel_array_error(&e, sum), 0);
    assert_int_equal(e.code, KEEL_EINDEX);
    unsigned all = KEEL_HAS_INDEX | KEEL_HAS_AXIS | KEEL_HAS_SIZE | KEEL_HAS_POSITION;
    assert_int_equal(e.has & all, all);
    assert_int_equal(e.index, 5);
    assert_int_equal(e.axis, 0);
    assert_int_equal(e.axis_size, 3);
    assert_int_equal(e.position, 2);
    assert_non_null(e.operation);
    assert_null(strstr(e.operation, "mlx_array_eval"));
    keel_error_info again = {.size = sizeof again};
    assert_int_equal(keel_last_error(&again), 0);
    assert_int_equal(again.index, 5);
    FAILS_ZERO(mlx_array_data_int32(sum), KEEL_EINDEX, "5");
    OK(mlx_array_eval(a)); /* an array that does not depend on the failure is fine */
    mlx_array_free(a);
    mlx_array_free(at);
    mlx_array_free(r);
    mlx_array_free(sum);
}

/* ---- errors inside a reader's callback ---- */
/* The calling thread's last error is about this axis. */
static void check_axis(int axis, const char *call) {
    keel_error_info e = {.size = sizeof e};
    assert_int_equal(keel_last_error(&e), 0);
    if (e.code != KEEL_EAXIS || !(e.has & KEEL_HAS_AXIS) || e.axis != axis)
        print_error("%s: %s\n", call, e.message);
    assert_int_equal(e.code, KEEL_EAXIS);
    assert_true(e.has & KEEL_HAS_AXIS);
    assert_int_equal(e.axis, axis);
}
#define AXIS(call, axis)           \
    do {                           \
        assert_true((call) == 1);  \
        check_axis((axis), #call); \
    } while (0)

/* An axis that is out of range, or given twice, is given back as the caller gave it. */
static void test_axes(void **state) {
    mlx_array a = mlx_array_new_data((float[6]){0}, (int[]){2, 3}, 2, MLX_FLOAT32),
              i = mlx_array_new_int(0), res = mlx_array_new();
    mlx_vector_array two = mlx_vector_array_new_data((mlx_array[]){a, a}, 2),
                     indices = mlx_vector_array_new_data((mlx_array[]){i, i}, 2);
    AXIS(mlx_sum_axis(&res, a, 2, false, cpu), 2);
    AXIS(mlx_sum_axes(&res, a, (int[]){0, -3}, 2, false, cpu), -3);
    AXIS(mlx_sum_axes(&res, a, (int[]){1, -1}, 2, false, cpu), -1);
    AXIS(mlx_sum_axis(&res, i, -1, false, cpu), -1);
    AXIS(mlx_softmax_axis(&res, a, 5, true, cpu), 5);
    AXIS(mlx_sort_axis(&res, a, 7, cpu), 7);
    AXIS(mlx_concatenate_axis(&res, two, -4, cpu), -4);
    AXIS(mlx_transpose_axes(&res, a, (int[]){0, 2}, 2, cpu), 2);
    AXIS(mlx_expand_dims(&res, a, 4, cpu), 4);
    AXIS(mlx_squeeze_axis(&res, a, 3, cpu), 3);
    AXIS(mlx_take_axis(&res, a, i, -3, cpu), -3);
    AXIS(mlx_cumsum(&res, a, 2, false, true, cpu), 2);
    AXIS(mlx_diagonal(&res, a, 0, 1, -1, cpu), 1);
    AXIS(mlx_gather(&res, a, indices, (int[]){0, 2}, 2, (int[]){1, 1}, 2, cpu), 2);
    AXIS(mlx_gather(&res, a, indices, (int[]){1, 1}, 2, (int[]){1, 1}, 2, cpu), 1);
    mlx_vector_array_free(two);
    mlx_vector_array_free(indices);
    mlx_array_free(a);
    mlx_array_free(i);
    mlx_array_free(res);
}

static void test_capture(void **state) {
    struct kl_capture outer, inner;
    int n = seen.n;
    kl_capture_begin(&outer);
    kl_capture_begin(&inner);
    mlx_error("disk %d is gone", 3);
    fail_somehow(); /* the first error counts */
    struct kl_error *e = kl_capture_end(&inner);
    assert_int_equal(seen.n, n);
    assert_non_null(e);
    assert_int_equal(e->code, KL_EREADER);
    assert_non_null(strstr(e->message, "disk 3 is gone"));
    kl_error_release(e);
    assert_null(kl_capture_end(&outer));
    assert_false(kl_capture_active());
    fail_somehow();
    assert_int_equal(seen.n, n + 1);
}

/* A program that was compiled with an older header has a shorter struct, one with a newer header a
 * longer one: nothing beyond its size, and no field that the library does not know, is written. */
static void test_sizes_of_info(void **state) {
    struct {
        keel_error_info info;
        unsigned char more[32];
    } e;
    const size_t older = offsetof(keel_error_info, tensor), newer = sizeof e,
                 bad[] = {0, 1, sizeof(size_t), older - 1};
    mlx_array a = INTS(1, 2, 3), seven = INTS(7), r = mlx_array_new();
    OK(mlx_take(&r, a, seven, cpu));
    mlx_array_free(seven);
    assert_int_equal(mlx_array_eval(r), 1);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&e, 0x5a, sizeof e);
        e.info.size = bad[i];
        assert_int_equal(keel_last_error(&e.info), 1);
        assert_int_equal(keel_array_error(&e.info, r), 1);
        assert_int_equal(e.info.size, bad[i]);
        assert_int_equal(e.info.code, 0x5a5a5a5a);
    }
    memset(&e, 0x5a, sizeof e);
    e.info.size = older;
    assert_int_equal(keel_array_error(&e.info, r), 0);
    assert_int_equal(e.info.size, older);
    assert_int_equal(e.info.code, KEEL_EINDEX);
    assert_non_null(strstr(e.info.message, "7"));
    for (size_t i = older; i < sizeof e; i++) assert_int_equal(((unsigned char *)&e)[i], 0x5a);

    memset(&e, 0x5a, sizeof e);
    e.info.size = newer;
    assert_int_equal(keel_last_error(&e.info), 0);
    assert_int_equal(e.info.size, newer);
    assert_int_equal(e.info.index, 7);
    assert_true(e.info.has & KEEL_HAS_INDEX);
    for (size_t i = 0; i < sizeof e.more; i++) assert_int_equal(e.more[i], 0x5a);
    mlx_array_free(a);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_handler), /* this test is the first one, since it forks */
        cmocka_unit_test(test_handler_gets_its_data),
        cmocka_unit_test(test_replacing_destroys_data_once),
        cmocka_unit_test(test_message_names_the_function),
        cmocka_unit_test(test_message_is_no_format),
        cmocka_unit_test(test_handler_may_longjmp),
        cmocka_unit_test(test_longjmp_leaks_nothing),
        cmocka_unit_test(test_handler_may_call_the_api),
        cmocka_unit_test(test_errors_return),
        cmocka_unit_test(test_last_error_is_per_thread),
        cmocka_unit_test(test_code_names),
        cmocka_unit_test(test_array_error),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_sizes_of_info),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
