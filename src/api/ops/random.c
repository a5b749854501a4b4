/* random.c - mlx/c/random.h and keel/random.h. An empty key handle stands for the next key of
 * the calling thread's sequence. */
#include "api/ops/api_ops.h"

#include <keel/random.h>

/* ---- keys ---- */
int mlx_random_key(mlx_array *res, uint64_t seed) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *out = NULL;
    if (!c.err) kl_random_key(&out, seed, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_seed(uint64_t seed) {
    struct kl_call c = {.func = __func__};
    kl_random_seed(seed, &c.err);
    return kl_call_end_plain(&c);
}

int keel_random_get_state(mlx_array *res) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *out = NULL;
    if (!c.err) kl_random_get_state(&out, &c.err);
    return kl_call_end(&c, res, out);
}

int keel_random_set_state(const mlx_array state) {
    struct kl_call c = {.func = __func__};
    struct kl_array *in = kl_in(&c, state, "state");
    if (!c.err) kl_random_set_state(in, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_random_split(mlx_array *res_0, mlx_array *res_1, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    kl_need(&c, res_1, "the second result");
    struct kl_array *in = kl_in(&c, key, "key"), *out_0 = NULL, *out_1 = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_random_split(&out_0, &out_1, in, on, &c.err);
    return kl_call_end_pair(&c, res_0, res_1, out_0, out_1);
}

int mlx_random_split_num(mlx_array *res, const mlx_array key, int num, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_random_split_num, res, key, num, s);
}

/* ---- numbers ---- */
int mlx_random_bits(mlx_array *res, const int *shape, size_t shape_num, int width,
                    const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_random_bits(&out, shape, shape_num, width, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

typedef int between_fn(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                       const int *shape, size_t shape_num, int dtype, struct kl_array *key,
                       struct kl_stream *s, struct kl_error **err);

static int between(const char *func, between_fn *build, mlx_array *res, mlx_array low,
                   mlx_array high, const int *shape, size_t shape_num, mlx_dtype dtype,
                   mlx_array key, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *from = kl_in(&c, low, "low"), *to = kl_in(&c, high, "high"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        build(&out, from, to, shape, shape_num, (int)dtype, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_uniform(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape,
                       size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s) {
    return between(__func__, kl_random_uniform, res, low, high, shape, shape_num, dtype, key, s);
}

int mlx_random_randint(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape,
                       size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s) {
    return between(__func__, kl_random_randint, res, low, high, shape, shape_num, dtype, key, s);
}

int mlx_random_normal(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                      float loc, float scale, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        kl_random_normal(&out, shape, shape_num, (int)dtype, loc, scale, kl_in_optional(key), on,
                         &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_normal_broadcast(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array loc, const mlx_array scale, const mlx_array key,
                                const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        kl_random_normal_broadcast(&out, shape, shape_num, (int)dtype, kl_in_optional(loc),
                                   kl_in_optional(scale), kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- numbers of other distributions ---- */
int mlx_random_bernoulli(mlx_array *res, const mlx_array p, const int *shape, size_t shape_num,
                         const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, p, "p"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_random_bernoulli(&out, in, shape, shape_num, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_gumbel(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                      const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        kl_random_gumbel(&out, shape, shape_num, (int)dtype, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_categorical(mlx_array *res, const mlx_array logits, int axis, const mlx_array key,
                           const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, logits, "logits"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_random_categorical(&out, in, axis, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_categorical_num_samples(mlx_array *res, const mlx_array logits_, int axis,
                                       int num_samples, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, logits_, "logits"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_random_categorical_num_samples(&out, in, axis, num_samples, kl_in_optional(key), on,
                                          &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_categorical_shape(mlx_array *res, const mlx_array logits, int axis, const int *shape,
                                 size_t shape_num, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, logits, "logits"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_random_categorical_shape(&out, in, axis, shape, shape_num, kl_in_optional(key), on,
                                    &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_laplace(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                       float loc, float scale, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        kl_random_laplace(&out, shape, shape_num, (int)dtype, loc, scale, kl_in_optional(key), on,
                          &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_truncated_normal(mlx_array *res, const mlx_array lower, const mlx_array upper,
                                const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array key, const mlx_stream s) {
    return between(__func__, kl_random_truncated_normal, res, lower, upper, shape, shape_num, dtype,
                   key, s);
}

int mlx_random_multivariate_normal(mlx_array *res, const mlx_array mean, const mlx_array cov,
                                   const int *shape, size_t shape_num, mlx_dtype dtype,
                                   const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *m = kl_in(&c, mean, "mean"), *v = kl_in(&c, cov, "cov"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_random_multivariate_normal(&out, m, v, shape, shape_num, (int)dtype, kl_in_optional(key),
                                      on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- random orders ---- */
int mlx_random_permutation(mlx_array *res, const mlx_array x, int axis, const mlx_array key,
                           const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_random_permutation(&out, in, axis, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_random_permutation_arange(mlx_array *res, int x, const mlx_array key, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_random_permutation_arange(&out, x, kl_in_optional(key), on, &c.err);
    return kl_call_end(&c, res, out);
}
