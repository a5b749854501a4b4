/* fusion_support.h - for tests that compare groups of operations with the same operations one by
 * one: random operands, and whether two results are the same. */
#pragma once
#include "ops/support/operations.h"

#include "runtime/fusion.h"

static inline uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline struct kl_array *random_of(enum kl_dtype dtype, int ndim, const int *dims,
                                         uint32_t *state) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 8, &size));
    float *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) {
        uint32_t r = next_random(state);
        v[i] = r % 50 == 0 ? 0.0f : ((float)(r % 4096) - 2048) / 64;
    }
    struct kl_array *a = array_of(KL_F32, ndim, dims, v), *b;
    free(v);
    EXPECT_OK(kl_astype(&b, a, dtype, cpu(), &err));
    EXPECT_OK(kl_eval(&b, 1, &err));
    kl_array_release(a);
    return b;
}

/* Whether both have the same dtype, shape and values. Evaluates both, and releases neither. */
static inline bool same_values(struct kl_array *a, struct kl_array *b) {
    assert_int_equal(a->t.dtype, b->t.dtype);
    assert_true(a->t.size == b->t.size);
    void *x = values_of(a), *y = values_of(b);
    size_t bytes = (size_t)a->t.size * kl_dtype_size((enum kl_dtype)a->t.dtype);
    bool same = true, equal = memcmp(x, y, bytes) == 0;
    for (int64_t i = 0; i < a->t.size && same && !equal; i++)
        same = same_element((enum kl_dtype)a->t.dtype, x, y, i);
    free(x);
    free(y);
    return same;
}
