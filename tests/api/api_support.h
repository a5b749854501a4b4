/* api_support.h - what the tests of the C API share: a handler that records errors, checks of
 * outcomes, and short functions that make and print arrays. */
#pragma once
#include "support.h"

#include <keel/error.h>
#include <mlx/c/mlx.h>

#include "api/handles/error.h"
#include "runtime/stream.h"

/* ---- the handler of the tests ---- */
static struct {
    int n; /* number of calls so far */
    char text[2048];
} seen;

static inline void remember(const char *msg, void *data) {
    (void)data;
    seen.n++;
    snprintf(seen.text, sizeof seen.text, "%s", msg);
}

static mlx_stream cpu; /* the stream on which everything runs */

static inline int api_setup(void **state) {
    (void)state;
    mlx_set_error_handler(remember, NULL, NULL);
    cpu = mlx_default_cpu_stream_new();
    assert_non_null(cpu.ctx);
    return 0;
}

static inline int api_teardown(void **state) {
    (void)state;
    mlx_stream_free(cpu);
    return 0;
}

/* ---- outcomes ---- */
static inline void check_ok(int rc, const char *call, const char *file, int line) {
    if (rc) print_error("%s returned %d: %s\n", call, rc, seen.text);
    _assert_true(rc == 0, call, file, line);
}
#define OK(call) check_ok((call), #call, __FILE__, __LINE__)

/* Exactly one error has reached the handler since n_before, with this code and this text in its
 * message. */
static inline void check_error(int n_before, int code, const char *part, const char *call,
                               const char *file, int line) {
    keel_error_info e = {.size = sizeof e};
    if (seen.n != n_before + 1) print_error("%s: %d errors\n", call, seen.n - n_before);
    _assert_true(seen.n == n_before + 1, call, file, line);
    _assert_true(keel_last_error(&e) == 0, call, file, line);
    if (e.code != code)
        print_error("%s: %s, not %s: %s\n", call, keel_code_name(e.code), keel_code_name(code),
                    seen.text);
    _assert_true(e.code == code, call, file, line);
    if (!strstr(seen.text, part)) print_error("%s: no \"%s\" in: %s\n", call, part, seen.text);
    _assert_true(strstr(seen.text, part) != NULL, call, file, line);
}
/* The call must return 1 and report one error, whose text contains `part`. */
#define FAILS(call, code, part)                                            \
    do {                                                                   \
        int n_before_ = seen.n, rc_ = (call);                              \
        assert_int_equal(rc_, 1);                                          \
        check_error(n_before_, (code), (part), #call, __FILE__, __LINE__); \
    } while (0)
/* The expression must be 0, false or NULL, and report one error. */
#define FAILS_ZERO(expr, code, part)                                       \
    do {                                                                   \
        int n_before_ = seen.n;                                            \
        assert_true((expr) == 0);                                          \
        check_error(n_before_, (code), (part), #expr, __FILE__, __LINE__); \
    } while (0)
/* The call must return 2 and report nothing. */
#define NOT_FOUND(call)                      \
    do {                                     \
        int n_before_ = seen.n;              \
        assert_int_equal((call), 2);         \
        assert_int_equal(seen.n, n_before_); \
    } while (0)

/* The third call of fn must leave as many heap blocks as there were before; the first calls may
 * fill caches. */
static inline void assert_no_leak(void (*fn)(void)) {
    fn();
    fn();
    kl_api_forget_error();
    kl_until_quiet();
    int64_t before = kl_test_n_live();
    fn();
    kl_api_forget_error();
    kl_until_quiet();
    assert_int_equal(kl_test_n_live(), before);
}

/* ---- arrays ---- */
static const mlx_array no_array = {NULL};
static const mlx_stream no_stream = {NULL};
static const mlx_vector_array no_vector = {NULL};
#define LIST(...) ((const int[]){__VA_ARGS__})
#define N_OF(...) (sizeof(LIST(__VA_ARGS__)) / sizeof(int))
/* A list and its count, as the API takes them. */
#define AXES(...) LIST(__VA_ARGS__), N_OF(__VA_ARGS__)

static inline mlx_array of_ints(const int *values, const int *shape, int dim) {
    mlx_array a = mlx_array_new_data(values, shape, dim, MLX_INT32);
    assert_non_null(a.ctx);
    return a;
}
#define INTS(...) of_ints(LIST(__VA_ARGS__), (const int[]){(int)N_OF(__VA_ARGS__)}, 1)

static inline mlx_array of_floats(const float *values, const int *shape, int dim) {
    mlx_array a = mlx_array_new_data(values, shape, dim, MLX_FLOAT32);
    assert_non_null(a.ctx);
    return a;
}
#define FLOATS(...)                         \
    of_floats((const float[]){__VA_ARGS__}, \
              (const int[]){(int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float))}, 1)

/* The numbers 0, 1, ... in int32, of shape (rows, columns). */
static inline mlx_array grid(int rows, int columns) {
    int values[256];
    assert_true(rows * columns <= 256);
    for (int i = 0; i < rows * columns; i++) values[i] = i;
    return of_ints(values, LIST(rows, columns), 2);
}

/* The text that mlx_array_tostring gives, in a buffer that the next 4 calls do not overwrite. */
static inline const char *text_of(mlx_array a) {
    static __thread char ring[4][8192];
    static __thread unsigned next;
    char *out = ring[next++ % 4];
    mlx_string s = mlx_string_new();
    if (mlx_array_tostring(&s, a)) {
        snprintf(out, sizeof ring[0], "(failed: %s)", seen.text);
        return out;
    }
    snprintf(out, sizeof ring[0], "%s", mlx_string_data(s));
    mlx_string_free(s);
    return out;
}
#define assert_text(a, expected) assert_string_equal(text_of(a), expected)

static inline void assert_shape(mlx_array a, const int *shape, size_t n) {
    assert_int_equal(mlx_array_ndim(a), n);
    for (size_t i = 0; i < n; i++) assert_int_equal(mlx_array_shape(a)[i], shape[i]);
}
