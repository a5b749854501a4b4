/* random.c - random numbers as MLX defines them: keys, Threefry bits, and numbers made of the bits.
 *
 * Without a key the calling thread's sequence supplies one: each use splits the state, keeps the
 * first half as the new state and returns the second half. The split is computed at once here, so
 * that the state owns no growing graph; only a state that has no value yet is split lazily. */
#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "base/number/threefry.h"
#include "base/thread.h"
#include "graph/trace.h"
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

/* ---- keys ---- */
/* The sequence of the calling thread. It is small, because the space for thread-local variables
 * is. */
static __thread struct {
    struct kl_array *array; /* owned; the state, if it is not NULL; then `state` is an older one */
    struct kl_threefry state;
    bool seeded, dropped_at_exit;
} sequence;
/* The seed of every thread's sequence until the thread is seeded: the time of the first use, or 0
 * before that. */
static _Atomic(uint64_t) first_seed;

static struct kl_threefry key_of_seed(uint64_t seed) {
    return (struct kl_threefry){{(uint32_t)(seed >> 32), (uint32_t)seed}};
}

static int new_key(struct kl_array **out, struct kl_threefry key, struct kl_error **err) {
    int two = 2;
    return kl_array_new_data(out, key.x, KL_U32, 1, &two, err);
}

int kl_random_key(struct kl_array **out, uint64_t seed, struct kl_error **err) {
    return new_key(out, key_of_seed(seed), err);
}

static void drop_array(void *unused) {
    struct kl_array *a = sequence.array;
    sequence.array = NULL;
    kl_array_release(a);
}

static void set_state(struct kl_threefry key) {
    drop_array(NULL);
    sequence.state = key;
    sequence.seeded = true;
}

int kl_random_seed(uint64_t seed, struct kl_error **err) {
    set_state(key_of_seed(seed));
    return KL_OK;
}

static uint64_t seed_of_process(void) {
    uint64_t seed = atomic_load_explicit(&first_seed, memory_order_relaxed);
    if (seed) return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return atomic_compare_exchange_strong(&first_seed, &seed, time) ? time : seed;
}

/* Makes the state a raw key again, if that is possible: when its array has a value, or belonged to
 * a trace that has ended (then the state is the one before). Whether it is an array now. */
static bool state_is_array(void) {
    struct kl_array *a = sequence.array;
    void *data;
    if (a && kl_array_outlived_trace(a)) {
        drop_array(NULL);
    } else if (a && !kl_array_is_tracer(a) && kl_array_settled(a) &&
               kl_array_host(a, &data, NULL) == KL_OK) {
        const uint32_t *x = data;
        set_state((struct kl_threefry){{x[0], x[a->t.strides[0]]}});
    }
    if (!sequence.array && !sequence.seeded) set_state(key_of_seed(seed_of_process()));
    return sequence.array != NULL;
}

static struct kl_threefry next_key(void) {
    /* Four words: two Threefry pairs, whose first members come first. */
    struct kl_threefry p = kl_threefry_pair(sequence.state, 4, 0),
                       q = kl_threefry_pair(sequence.state, 4, 1);
    sequence.state = (struct kl_threefry){{p.x[0], q.x[0]}};
    return (struct kl_threefry){{p.x[1], q.x[1]}};
}

static int check_key(const struct kl_array *key, const char *what, struct kl_error **err) {
    KL_TRY(kl_check_array(key, what, err));
    if (key->t.dtype != KL_U32)
        return kl_fail(err, KL_EDTYPE, "the %s is %s; uint32 is taken", what,
                       kl_dtype_name(key->t.dtype));
    if (key->t.ndim != 1 || key->t.dims[0] != 2)
        return kl_fail(err, KL_ESHAPE, "the %s has shape %s; (2) is taken", what,
                       KL_SHAPE_TEXT_OF(key));
    return KL_OK;
}

int kl_random_get_state(struct kl_array **out, struct kl_error **err) {
    if (!state_is_array()) return new_key(out, sequence.state, err);
    *out = kl_array_retain(sequence.array);
    return KL_OK;
}

int kl_random_set_state(struct kl_array *state, struct kl_error **err) {
    KL_TRY(check_key(state, "state", err));
    if (!sequence.dropped_at_exit) {
        if (kl_thread_at_exit(drop_array, NULL)) return kl_fail_nomem(err);
        sequence.dropped_at_exit = true;
    }
    struct kl_array *own = kl_array_retain(state);
    drop_array(NULL);
    sequence.array = own;
    state_is_array();
    return KL_OK;
}

/* The given key after a check, or the next key of the sequence. */
int kl_random_use_key(struct kl_array **out, struct kl_array *key, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_array *state;
    if (key) {
        KL_TRY(check_key(key, "key", err));
        *out = kl_array_retain(key);
        return KL_OK;
    }
    if (!state_is_array()) return new_key(out, next_key(), err);
    KL_TRY(kl_random_split(&state, out, sequence.array, s, err));
    drop_array(NULL);
    sequence.array = state;
    return KL_OK;
}

/* ---- bits ---- */
/* The operation, for keys of shape (..., 2). The shape is that of the output. */
static int bits_of(struct kl_array **out, int ndim, const int *dims, int width,
                   struct kl_array *keys, struct kl_stream *s, struct kl_error **err) {
    struct kl_bits_params p = {width};
    enum kl_dtype dtype = width == 1 ? KL_U8 : width == 2 ? KL_U16 : KL_U32;
    return kl_array_op1(out,
                        &(struct kl_operation){.op = KL_OP_RANDOM_BITS,
                                               .stream = s,
                                               .params = &p,
                                               .params_bytes = sizeof p,
                                               .in = &keys,
                                               .n_in = 1},
                        dtype, ndim, dims, err);
}

static int bits(struct kl_array **out, int ndim, const int *dims, int width, struct kl_array *key,
                struct kl_stream *s, struct kl_error **err) {
    struct kl_array *used;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_random_use_key(&used, key, s, err));
    int rc = bits_of(out, ndim, dims, width, used, s, err);
    kl_array_release(used);
    return rc;
}

static int check_width(int width, struct kl_error **err) {
    if (width == 1 || width == 2 || width == 4) return KL_OK;
    return kl_fail(err, KL_EARG, "width %d; 1, 2 or 4 bytes are taken", width);
}

int kl_random_bits(struct kl_array **out, const int *shape, size_t shape_num, int width,
                   struct kl_array *key, struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    KL_TRY(check_width(width, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_U32, NULL, err));
    return bits(out, to.ndim, to.dims, width, key, s, err);
}

int kl_random_split_num(struct kl_array **out, struct kl_array *key, int num, struct kl_stream *s,
                        struct kl_error **err) {
    int dims[2] = {num, 2};
    KL_TRY(kl_check_array(key, "key", err));
    if (num < 0) return kl_fail(err, KL_EARG, "%d keys are asked for; 0 or more are possible", num);
    return bits(out, 2, dims, 4, key, s, err);
}

int kl_random_split(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *key,
                    struct kl_stream *s, struct kl_error **err) {
    struct kl_array *both, **halves, *keys[2];
    size_t n;
    KL_TRY(kl_random_split_num(&both, key, 2, s, err));
    int rc = kl_split(&halves, &n, both, 2, 0, s, err);
    kl_array_release(both);
    if (rc) return rc;
    if (!(rc = kl_squeeze_axis(&keys[0], halves[0], 0, s, err))) {
        if (!(rc = kl_squeeze_axis(&keys[1], halves[1], 0, s, err))) {
            *out_0 = keys[0];
            *out_1 = keys[1];
        } else {
            kl_array_release(keys[0]);
        }
    }
    kl_release_all(halves, n);
    kl_free(halves);
    return rc;
}

/* ---- uniform ---- */
/* The largest number of the dtype below 1. */
static double below_one(enum kl_dtype dtype) {
    return dtype == KL_F16 ? 1 - 0x1p-11 : dtype == KL_BF16 ? 1 - 0x1p-8 : 1 - 0x1p-24;
}

/* low + u * (high - low) with u in [0, 1), computed in dtype, a float type of at most 32 bits. */
static int uniform(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                   const struct kl_shape *shape, enum kl_dtype dtype, struct kl_array *key,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *range = kl_term2(&t, kl_subtract, high, low);
    struct kl_array *x = KL_TERM(&t, bits(&t.made, shape->ndim, shape->dims, 4, key, s, err));
    /* MLX divides by 2^32 - 1, which is 2^32 in float32: this has the same bits. */
    x = kl_term_by(&t, kl_multiply, kl_term_cast(&t, x, KL_F32), 0x1p-32);
    x = kl_term_by(&t, kl_minimum, kl_term_cast(&t, x, dtype), below_one(dtype));
    x = kl_term2(&t, kl_add, kl_term2(&t, kl_multiply, range, x), low);
    return kl_terms_end(&t, x, out);
}

/* Whether the bounds of random numbers broadcast to exactly `shape`. */
static int check_bounds(struct kl_array *low, struct kl_array *high, const struct kl_shape *shape,
                        struct kl_error **err) {
    struct kl_array *const bounds[2] = {low, high};
    struct kl_shape both;
    KL_TRY(kl_broadcast_shape(&both, bounds, 2, err));
    bool fits = both.ndim <= shape->ndim;
    for (int i = 0; fits && i < both.ndim; i++) {
        int want = shape->dims[shape->ndim - both.ndim + i];
        fits = both.dims[i] == 1 || both.dims[i] == want;
    }
    if (fits) return KL_OK;
    return kl_fail(err, KL_ESHAPE, "bounds of shapes %s and %s do not broadcast to shape %s",
                   KL_SHAPE_TEXT_OF(low), KL_SHAPE_TEXT_OF(high),
                   KL_SHAPE_TEXT(shape->ndim, shape->dims));
}

int kl_random_uniform(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int dtype, struct kl_array *key,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    struct kl_array *lo, *hi;
    KL_TRY(kl_check_array(low, "low", err));
    KL_TRY(kl_check_array(high, "high", err));
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_stream(s, err));
    if (dtype != KL_F16 && dtype != KL_BF16 && dtype != KL_F32)
        return kl_fail(err, KL_EDTYPE, "dtype %s; float16, bfloat16 and float32 are possible",
                       kl_dtype_name((enum kl_dtype)dtype));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F32, NULL, err));
    KL_TRY(check_bounds(low, high, &to, err));
    KL_TRY(kl_cast_to(&lo, low, (enum kl_dtype)dtype, s, err));
    int rc = kl_cast_to(&hi, high, (enum kl_dtype)dtype, s, err);
    if (!rc) {
        rc = uniform(out, lo, hi, &to, (enum kl_dtype)dtype, key, s, err);
        kl_array_release(hi);
    }
    kl_array_release(lo);
    return rc;
}

/* Uniform float32 numbers between two numbers. */
static int uniform_between(struct kl_array **out, float low, float high,
                           const struct kl_shape *shape, struct kl_array *key, struct kl_stream *s,
                           struct kl_error **err) {
    struct kl_array *lo, *hi;
    KL_TRY(kl_array_new_scalar(&lo, low, KL_F32, err));
    int rc = kl_array_new_scalar(&hi, high, KL_F32, err);
    if (!rc) {
        rc = uniform(out, lo, hi, shape, KL_F32, key, s, err);
        kl_array_release(hi);
    }
    kl_array_release(lo);
    return rc;
}

/* ---- normal ---- */
/* erfinv of uniform numbers between -1 and 1, as dtype. Multiplied by the square root of 2 the
 * results are normal. */
static int normal_real(struct kl_array **out, const struct kl_shape *shape, enum kl_dtype dtype,
                       struct kl_array *key, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *u =
        KL_TERM(&t, uniform_between(&t.made, nextafterf(-1, 0), 1, shape, key, s, err));
    if (dtype == KL_F64) u = kl_term_cast(&t, u, KL_F64);
    return kl_terms_end(&t, kl_term_cast(&t, kl_term(&t, kl_erfinv, u), dtype), out);
}

/* The same for complex64: the real and imaginary parts are neighbours in a float32 array with one
 * more axis. */
static int normal_complex(struct kl_array **out, const struct kl_shape *shape, struct kl_array *key,
                          struct kl_stream *s, struct kl_error **err) {
    static const float i_unit[2] = {0, 1};
    struct kl_shape parts = *shape;
    struct kl_array *both, **halves;
    size_t n;
    if (shape->ndim == KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "%d axes are too many for complex64 here", shape->ndim);
    parts.dims[parts.ndim++] = 2;
    KL_TRY(normal_real(&both, &parts, KL_F32, key, s, err));
    int rc = kl_split(&halves, &n, both, 2, parts.ndim - 1, s, err);
    kl_array_release(both);
    if (rc) return rc;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *re = KL_TERM(&t, kl_squeeze_axis(&t.made, halves[0], -1, s, err));
    struct kl_array *im = KL_TERM(&t, kl_squeeze_axis(&t.made, halves[1], -1, s, err));
    struct kl_array *unit = KL_TERM(&t, kl_array_new_data(&t.made, i_unit, KL_C64, 0, NULL, err));
    rc = kl_terms_end(&t, kl_term2(&t, kl_add, re, kl_term2(&t, kl_multiply, im, unit)), out);
    kl_release_all(halves, n);
    kl_free(halves);
    return rc;
}

/* scale * sqrt(2) * erfinv(u) + loc, in dtype; loc and scale have that dtype or are NULL. For
 * complex numbers each part has half the variance, so the factor sqrt(2) is left out. */
static int normal(struct kl_array **out, const struct kl_shape *shape, enum kl_dtype dtype,
                  struct kl_array *loc, struct kl_array *scale, struct kl_array *key,
                  struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = dtype == KL_C64
                             ? KL_TERM(&t, normal_complex(&t.made, shape, key, s, err))
                             : KL_TERM(&t, normal_real(&t.made, shape, dtype, key, s, err));
    struct kl_array *factor = kl_term_number(&t, dtype == KL_C64 ? 1 : sqrt(2.0), dtype);
    if (scale) factor = kl_term2(&t, kl_multiply, scale, factor);
    x = kl_term2(&t, kl_multiply, factor, x);
    if (loc) x = kl_term2(&t, kl_add, x, loc);
    return kl_terms_end(&t, x, out);
}

static int check_normal(struct kl_shape *to, const int *shape, size_t shape_num, int dtype,
                        struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_stream(s, err));
    if (!kl_dtype_is_float((enum kl_dtype)dtype) && dtype != KL_C64)
        return kl_fail(err, KL_EDTYPE, "dtype %s; floating types and complex64 are possible",
                       kl_dtype_name((enum kl_dtype)dtype));
    return kl_check_shape(to, shape, shape_num, KL_C64, NULL, err);
}

int kl_random_normal_broadcast(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                               struct kl_array *loc, struct kl_array *scale, struct kl_array *key,
                               struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    struct kl_array *l = NULL, *c = NULL;
    KL_TRY(check_normal(&to, shape, shape_num, dtype, s, err));
    if (loc) KL_TRY(kl_check_array(loc, "loc", err));
    if (scale) KL_TRY(kl_check_array(scale, "scale", err));
    int rc = loc ? kl_cast_to(&l, loc, (enum kl_dtype)dtype, s, err) : KL_OK;
    if (!rc && scale) rc = kl_cast_to(&c, scale, (enum kl_dtype)dtype, s, err);
    if (!rc) rc = normal(out, &to, (enum kl_dtype)dtype, l, c, key, s, err);
    kl_array_release(l);
    kl_array_release(c);
    return rc;
}

int kl_random_normal(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     float loc, float scale, struct kl_array *key, struct kl_stream *s,
                     struct kl_error **err) {
    struct kl_shape to;
    struct kl_array *l = NULL, *c = NULL;
    KL_TRY(check_normal(&to, shape, shape_num, dtype, s, err));
    int rc = loc != 0 ? kl_array_new_scalar(&l, loc, (enum kl_dtype)dtype, err) : KL_OK;
    if (!rc && scale != 1) rc = kl_array_new_scalar(&c, scale, (enum kl_dtype)dtype, err);
    if (!rc) rc = normal(out, &to, (enum kl_dtype)dtype, l, c, key, s, err);
    kl_array_release(l);
    kl_array_release(c);
    return rc;
}

/* ---- randint ---- */
/* high - 1 and low as dtype, exact whatever float32 made of the bounds. The numbers are clipped to
 * these. */
static int last_of(struct kl_array **out, struct kl_array *high, enum kl_dtype dtype,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    enum kl_dtype own = high->t.dtype == KL_BOOL ? KL_I32 : (enum kl_dtype)high->t.dtype;
    struct kl_array *last = kl_term2(&t, kl_subtract, high, kl_term_number(&t, 1, own));
    return kl_terms_end(&t, kl_term_cast(&t, last, dtype), out);
}

/* How many whole numbers a float32 in [0, 1) chooses among evenly enough: each has a share of 2^24
 * steps. Up to here a key gives MLX's draws. */
enum { FEW_NUMBERS = 1 << 16 };

/* Whether the bounds are known to hold few numbers (1) or many (0); -1: they are not known. */
static int are_few(struct kl_array *low, struct kl_array *high) {
    int64_t from, to;
    if (!kl_host_integer(low, &from) || !kl_host_integer(high, &to)) return -1;
    return to <= from || (uint64_t)to - (uint64_t)from <= FEW_NUMBERS;
}

/* Numbers of dtype by uniform float32 numbers, as MLX makes them. */
static struct kl_array *one_of_few(struct kl_terms *t, struct kl_array *low, struct kl_array *high,
                                   const struct kl_shape *shape, enum kl_dtype dtype,
                                   struct kl_array *key) {
    struct kl_array *x =
        KL_TERM(t, kl_random_uniform(&t->made, low, high, shape->dims, (size_t)shape->ndim, KL_F32,
                                     key, t->s, t->err));
    return kl_term_cast(t, kl_term(t, kl_floor, x), dtype);
}

/* floor((b (span + 1) + carry) / 2^32) of uint64 numbers, where b < 2^32 and carry <= span. */
static struct kl_array *scaled_by(struct kl_terms *t, struct kl_array *b, struct kl_array *span,
                                  struct kl_array *carry) {
    struct kl_array *low = kl_term_by(t, kl_bitwise_and, span, (double)UINT32_MAX);
    struct kl_array *high = kl_term_by(t, kl_right_shift, span, 32);
    struct kl_array *sum = kl_term2(t, kl_add, kl_term2(t, kl_multiply, b, low), b);
    struct kl_array *top = kl_term2(t, kl_multiply, b, high);
    if (carry) {
        sum = kl_term2(t, kl_add, sum, kl_term_by(t, kl_bitwise_and, carry, (double)UINT32_MAX));
        top = kl_term2(t, kl_add, top, kl_term_by(t, kl_right_shift, carry, 32));
    }
    return kl_term2(t, kl_add, top, kl_term_by(t, kl_right_shift, sum, 32));
}

/* floor(u (span + 1)) with u of 64 random bits, or of 96 where the dtype has 64: the shares of two
 * numbers differ by 2^-32 of them at most. u is read from its last 32 bits on. */
static struct kl_array *one_of_many(struct kl_terms *t, struct kl_array *span,
                                    const struct kl_shape *shape, enum kl_dtype dtype,
                                    struct kl_array *key) {
    const int n = kl_dtype_size(dtype) == 8 ? 3 : 2;
    struct kl_array *keys = KL_TERM(t, kl_random_split_num(&t->made, key, n, t->s, t->err));
    struct kl_array *x = NULL;
    for (int i = 0; i < n && !t->rc; i++) {
        const int start[] = {i, 0}, step[] = {1, 1}, part[] = {1, 2}, two = 2;
        struct kl_array *own = KL_TERM(t, kl_slice_to(&t->made, keys, start, step, part, t->err));
        own = KL_TERM(t, kl_reshape_to(&t->made, own, 1, &two, t->s, t->err));
        struct kl_array *b =
            KL_TERM(t, bits(&t->made, shape->ndim, shape->dims, 4, own, t->s, t->err));
        x = scaled_by(t, kl_term_cast(t, b, KL_U64), span, x);
    }
    return x;
}

int kl_random_randint(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int given, struct kl_array *key,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    KL_TRY(kl_check_array(low, "low", err));
    KL_TRY(kl_check_array(high, "high", err));
    KL_TRY(kl_check_dtype(given, err));
    KL_TRY(kl_check_stream(s, err));
    const enum kl_dtype dtype = (enum kl_dtype)given;
    if (!kl_dtype_is_int(dtype) && dtype != KL_BOOL)
        return kl_fail(err, KL_EDTYPE, "dtype %s; integers and bool are possible",
                       kl_dtype_name(dtype));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_U64, NULL, err));
    KL_TRY(check_bounds(low, high, &to, err));
    const int few = kl_dtype_size(dtype) <= 2 ? 1 : are_few(low, high);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *used = KL_TERM(&t, kl_random_use_key(&t.made, key, s, err)), *x = NULL;
    struct kl_array *last = KL_TERM(&t, last_of(&t.made, high, dtype, s, err));
    struct kl_array *first = kl_term_cast(&t, low, dtype);
    if (few) x = one_of_few(&t, low, high, &to, dtype, used);
    if (few != 1) {
        struct kl_array *start = kl_term_cast(&t, first, KL_U64);
        struct kl_array *span = kl_term2(&t, kl_subtract, kl_term_cast(&t, last, KL_U64), start);
        struct kl_array *one = kl_term2(&t, kl_add, one_of_many(&t, span, &to, dtype, used), start);
        struct kl_array *many = kl_term_by(&t, kl_greater_equal, span, FEW_NUMBERS);
        one = kl_term_cast(&t, one, dtype);
        x = few ? kl_term_where(&t, many, one, x) : one;
    }
    x = kl_term2(&t, kl_maximum, kl_term2(&t, kl_minimum, x, last), first);
    return kl_terms_end(&t, x, out);
}

/* ---- made again ---- */
/* A batch of keys, of shape (..., 2), may have other extents than it had; the shape for each key
 * stays. */
int kl_rebuild_random_bits(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_bits_params p;
    struct kl_array *keys = b->in[0];
    struct kl_shape to;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(check_width(p.width, err));
    KL_TRY(kl_check_stream(b->s, err));
    const int lead = keys->t.ndim - 1;
    if (keys->t.dtype != KL_U32)
        return kl_fail(err, KL_EDTYPE, "the keys are %s; uint32 is taken",
                       kl_dtype_name((enum kl_dtype)keys->t.dtype));
    if (lead < 0 || keys->t.dims[lead] != 2)
        return kl_fail(err, KL_ESHAPE, "the keys have shape %s; (..., 2) is taken",
                       KL_SHAPE_TEXT_OF(keys));
    if (b->ndim < lead || b->ndim > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE,
                       "a result of %d axes for keys of shape %s; %d to %d are "
                       "possible",
                       b->ndim, KL_SHAPE_TEXT_OF(keys), lead, KL_MAX_NDIM);
    to = kl_shape_of(keys);
    for (int i = lead; i < b->ndim; i++) to.dims[i] = b->dims[i];
    KL_TRY(kl_check_shape(&to, to.dims, (size_t)b->ndim, KL_U32, NULL, err));
    return bits_of(out, to.ndim, to.dims, p.width, keys, b->s, err);
}

/* ---- batches ---- */
/* Each key has its own random stream, in a batch too. */
int kl_vmap_random_bits(const struct kl_vmap *v, struct kl_array **out, int *axis,
                        struct kl_error **err) {
    *axis = 0;
    return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
}
