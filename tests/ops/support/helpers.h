/* helpers.h - what the tests of builders share: arrays from literals, reading results, expecting
 * errors. */
#pragma once
#include "support.h"

#include <math.h>

#include "base/number/half.h"
#include "graph/array.h"
#include "ops/ops.h"
#include "runtime/stream.h"

/* Makes the simulated device the GPU, before anything looks for devices. */
__attribute__((constructor)) static void use_simulated_device(void) {
    setenv("KEEL_GPU", "sim", 1);
}

/* The default streams; borrowed for the life of the test. */
static inline struct kl_stream *cpu(void) {
    static struct kl_stream *s;
    if (!s) assert_int_equal(kl_stream_default(&s, KL_CPU, 0, NULL), KL_OK);
    return s;
}
static inline struct kl_stream *sim(void) {
    static struct kl_stream *s;
    if (!s) assert_int_equal(kl_stream_default(&s, KL_GPU, 0, NULL), KL_OK);
    return s;
}

/* A row-major array with a copy of data. SHAPE(2, 3) gives ndim and dims. */
#define SHAPE(...)                                               \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) { \
        __VA_ARGS__                                              \
    }
#define SCALAR 0, NULL
#define LIST(...) (int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int)
static inline struct kl_array *array_of(enum kl_dtype dtype, int ndim, const int *dims,
                                        const void *data) {
    struct kl_array *a;
    assert_int_equal(kl_array_new_data(&a, data, dtype, ndim, dims, NULL), KL_OK);
    return a;
}
static inline struct kl_array *scalar_of(enum kl_dtype dtype, double x) {
    struct kl_array *a;
    assert_int_equal(kl_array_new_scalar(&a, x, dtype, NULL), KL_OK);
    return a;
}
#define F32(shape, ...) array_of(KL_F32, shape, (float[]){__VA_ARGS__})
#define I32(shape, ...) array_of(KL_I32, shape, (int32_t[]){__VA_ARGS__})

/* The numbers 0, 1, 2, ... as int32. */
static inline struct kl_array *count_up(int ndim, const int *dims) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 4, &size));
    int32_t *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) v[i] = (int32_t)i;
    struct kl_array *a = array_of(KL_I32, ndim, dims, v);
    free(v);
    return a;
}

/* The same values, computed lazily, in a view whose elements have another order in memory (the axes
 * are stored backwards). Takes a. */
static inline struct kl_array *strided(struct kl_array *a) {
    struct kl_array *t, *c, *b;
    assert_int_equal(kl_transpose(&t, a, cpu(), NULL), KL_OK);
    assert_int_equal(kl_copy(&c, t, cpu(), NULL), KL_OK);
    assert_int_equal(kl_transpose(&b, c, cpu(), NULL), KL_OK);
    kl_array_release(a);
    kl_array_release(t);
    kl_array_release(c);
    return b;
}

/* Evaluates a and returns its elements in row-major order; the caller frees them. */
static inline void *values_of(struct kl_array *a) {
    struct kl_array *c;
    struct kl_error *err = NULL;
    void *p;
    assert_int_equal(kl_contiguous(&c, a, false, cpu(), NULL), KL_OK);
    if (kl_array_host(c, &p, &err)) {
        print_error("%s\n", err ? err->message : "no error object");
        fail();
    }
    size_t bytes = (size_t)c->t.size * kl_dtype_size(c->t.dtype);
    void *copy = malloc(bytes + 1);
    memcpy(copy, p, bytes);
    kl_array_release(c);
    return copy;
}

static inline void expect_shape(const struct kl_array *a, int ndim, const int *dims) {
    assert_int_equal(a->t.ndim, ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(a->t.dims[i], dims[i]);
}
/* Checks shape, dtype and values of an int32 result, which is taken. */
static inline void expect_i32(struct kl_array *a, int ndim, const int *dims, const int32_t *want) {
    expect_shape(a, ndim, dims);
    assert_int_equal(a->t.dtype, KL_I32);
    int32_t *v = values_of(a);
    for (int64_t i = 0; i < a->t.size; i++) assert_int_equal(v[i], want[i]);
    free(v);
    kl_array_release(a);
}
static inline void expect_f32(struct kl_array *a, int ndim, const int *dims, const float *want) {
    expect_shape(a, ndim, dims);
    assert_int_equal(a->t.dtype, KL_F32);
    float *v = values_of(a);
    for (int64_t i = 0; i < a->t.size; i++) {
        if (isnan(want[i]))
            assert_true(isnan(v[i]));
        else
            assert_int_equal(kl_f32_bits(v[i]), kl_f32_bits(want[i]));
    }
    free(v);
    kl_array_release(a);
}
#define EXPECT_I32(a, shape, ...) expect_i32(a, shape, (int32_t[]){__VA_ARGS__})
#define EXPECT_F32(a, shape, ...) expect_f32(a, shape, (float[]){__VA_ARGS__})

/* The call must fail with code `want` and leave its result unchanged. `call` uses &err and the
 * test's own `out`. */
#define EXPECT_FAIL(want, call)                \
    do {                                       \
        struct kl_error *err = NULL;           \
        out = (void *)&cpu;                    \
        assert_int_equal(call, want);          \
        assert_ptr_equal(out, &cpu);           \
        assert_non_null(err);                  \
        assert_int_equal(err->code, want);     \
        assert_true(strlen(err->message) > 8); \
        kl_error_release(err);                 \
        out = NULL;                            \
    } while (0)
#define EXPECT_OK(call)                         \
    do {                                        \
        struct kl_error *err = NULL;            \
        if (call) fail_msg("%s", err->message); \
    } while (0)
/* Evaluating a (taken) must fail with `code`; the message must contain `text`. */
static inline void expect_eval_fails(struct kl_array *a, int code, const char *text) {
    struct kl_error *err = NULL;
    assert_int_equal(kl_eval(&a, 1, &err), code);
    assert_non_null(err);
    if (!strstr(err->message, text)) fail_msg("\"%s\" is not in \"%s\"", text, err->message);
    kl_error_release(err);
    kl_array_release(a);
}
/* Evaluating a (taken) must fail with an index error at this position. */
static inline void expect_index_fault(struct kl_array *a, int64_t position, int64_t axis,
                                      int64_t index, int64_t axis_size) {
    struct kl_error *err = NULL;
    assert_int_equal(kl_eval(&a, 1, &err), KL_EINDEX);
    assert_int_equal(err->has & (KL_HAS_POSITION | KL_HAS_AXIS | KL_HAS_INDEX | KL_HAS_SIZE),
                     KL_HAS_POSITION | KL_HAS_AXIS | KL_HAS_INDEX | KL_HAS_SIZE);
    assert_int_equal(err->position, position);
    assert_int_equal(err->axis, axis);
    assert_int_equal(err->index, index);
    assert_int_equal(err->axis_size, axis_size);
    kl_error_release(err);
    kl_array_release(a);
}
