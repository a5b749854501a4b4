/* test_replays.c - random functions, compiled, replayed by several threads at once on streams of
 * the CPU and of the simulated device, with inputs of which some fail. Each output must be what
 * plain code gives for the same arguments: the same bits, or the same error. */
#include <pthread.h>

#include "ops/support/helpers.h"
#include "transforms/compile.h"

enum { THREADS = 4, FUNCTIONS = 40, REPLAYS = 6, N_ARGS = 4, STEPS = 24, N_OUTS = 6 };

/* A function by its number: the same operations whenever it is called. */
struct random_function {
    uint32_t seed;
    struct kl_stream *streams[3]; /* two of the CPU, one of the device */
};

static uint32_t next(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static int step(struct kl_array **out, uint32_t *seed, struct kl_array *a, struct kl_array *b,
                struct kl_array *index, struct kl_stream *s, struct kl_error **e) {
    switch (next(seed, 9)) {
    case 0: return kl_add(out, a, b, s, e);
    case 1: return kl_subtract(out, a, b, s, e);
    case 2: return kl_maximum(out, a, b, s, e);
    case 3: return kl_tanh(out, a, s, e);
    case 4: return kl_negative(out, a, s, e);
    case 5: return kl_sort(out, a, s, e);
    case 6: return kl_take_axis(out, a, index, 0, s, e); /* checked: indices may be bad */
    case 7: return kl_slice(out, a, LIST(3), LIST(-5), LIST(-1), s, e);
    default: return kl_cumsum(out, a, 0, next(seed, 2) == 0, true, s, e);
    }
}

/* Arguments 0 to 2 are float32 of shape (4), argument 3 holds four indices. */
static int call_random(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                       struct kl_error **e) {
    const struct random_function *f = ctx;
    uint32_t seed = f->seed;
    struct kl_array *made[N_ARGS - 1 + STEPS];
    int n = N_ARGS - 1, rc = KL_OK;
    for (int i = 0; i < n; i++) made[i] = kl_array_retain(in[i]);
    for (int i = 0; i < STEPS && !rc; i++) {
        struct kl_array *a = made[next(&seed, (uint32_t)n)], *b = made[next(&seed, (uint32_t)n)];
        rc = step(&made[n], &seed, a, b, in[N_ARGS - 1], f->streams[next(&seed, 3)], e);
        n += !rc;
    }
    if (!rc) rc = kl_arrays_new(outs, N_OUTS, e);
    for (int i = 0; i < N_OUTS && !rc; i++) outs->v[i] = kl_array_retain(made[n - 1 - i]);
    while (n > 0) kl_array_release(made[--n]);
    return rc;
}

static int lost, false_errors, wrong, other_errors, failed, checked;

/* Both are evaluated, in any order. */
static void compare(struct kl_array *want, struct kl_array *got) {
    struct kl_error *a = NULL, *b = NULL;
    kl_eval(&got, 1, &b);
    kl_eval(&want, 1, &a);
    __atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
    if (a) __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    if (a && !b) {
        __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
    } else if (b && !a) {
        __atomic_fetch_add(&false_errors, 1, __ATOMIC_RELAXED);
    } else if (a) {
        if (a->code != b->code || strcmp(a->message, b->message) != 0)
            __atomic_fetch_add(&other_errors, 1, __ATOMIC_RELAXED);
    } else {
        float *x = values_of(want), *y = values_of(got);
        if (memcmp(x, y, 4 * sizeof *x) != 0) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        free(x);
        free(y);
    }
    kl_error_release(a);
    kl_error_release(b);
}

/* Numbers, or one time in five an array that has failed. */
static struct kl_array *argument(uint32_t *seed, int which) {
    float v[4];
    struct kl_array *a;
    if (next(seed, 5) == 0) {
        struct kl_error *e = NULL;
        kl_fail(&e, KL_EFILE, "input %d is lost", which);
        EXPECT_OK(kl_array_new_failed(&a, KL_F32, 1, (int[]){4}, e, &err));
        kl_error_release(e);
        return a;
    }
    for (int i = 0; i < 4; i++) v[i] = (float)next(seed, 1000) / 250 - 2;
    return array_of(KL_F32, SHAPE(4), v);
}

static struct kl_array *indices(uint32_t *seed) {
    int32_t v[4];
    for (int i = 0; i < 4; i++) v[i] = (int32_t)next(seed, 4);
    if (next(seed, 3) == 0) v[next(seed, 4)] = 4 + (int32_t)next(seed, 3); /* out of range */
    return array_of(KL_I32, SHAPE(4), v);
}

struct job {
    struct random_function f;
    struct kl_function compiled;
    uint32_t seed;
};

static void *replay(void *arg) {
    struct job *j = arg;
    const struct kl_function plain = {.call = call_random, .ctx = &j->f};
    EXPECT_OK(kl_stream_set_default(j->f.streams[0], &err)); /* so all threads have one plan */
    for (int round = 0; round < REPLAYS; round++) {
        struct kl_array *args[N_ARGS];
        struct kl_arrays want = {0}, got = {0};
        for (int i = 0; i < N_ARGS - 1; i++) args[i] = argument(&j->seed, i);
        args[N_ARGS - 1] = indices(&j->seed);
        EXPECT_OK(kl_function_call(&j->compiled, args, N_ARGS, &got, &err));
        EXPECT_OK(kl_function_call(&plain, args, N_ARGS, &want, &err));
        if (next(&j->seed, 2)) EXPECT_OK(kl_async_eval(got.v, got.n, &err));
        for (size_t i = 0; i < N_OUTS; i++) compare(want.v[i], got.v[i]);
        kl_arrays_free(&want);
        kl_arrays_free(&got);
        for (int i = 0; i < N_ARGS; i++) kl_array_release(args[i]);
    }
    return NULL;
}

static void storm(void **state) {
    struct kl_stream *streams[3] = {cpu(), NULL, sim()};
    EXPECT_OK(kl_stream_new(&streams[1], KL_CPU, 0, &err));
    for (uint32_t number = 0; number < FUNCTIONS; number++) {
        struct random_function f = {number * 7919 + 3, {streams[0], streams[1], streams[2]}};
        struct kl_function plain = {.call = call_random, .ctx = &f}, c;
        struct job jobs[THREADS];
        pthread_t t[THREADS];
        EXPECT_OK(kl_compile(&c, &plain, 0, number % 4 == 3, NULL, 0, &err));
        for (uint32_t i = 0; i < THREADS; i++) {
            jobs[i] = (struct job){f, c, number * 31 + i};
            assert_int_equal(pthread_create(&t[i], NULL, replay, &jobs[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
        kl_function_release(&c);
    }
    kl_stream_release(streams[1]);
    print_message("%d outputs, of which %d fail: %d errors lost, %d false, %d other, %d wrong\n",
                  checked, failed, lost, false_errors, other_errors, wrong);
    assert_int_equal(checked, FUNCTIONS * THREADS * REPLAYS * N_OUTS);
    assert_in_range(failed, checked / 10, checked * 9 / 10);
    assert_int_equal(lost + false_errors + other_errors + wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(storm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
