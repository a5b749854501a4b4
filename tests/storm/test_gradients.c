/* test_gradients.c - random functions, differentiated and vmapped by several threads at once on
 * streams of the CPU and of the simulated device, while allocations and submissions fail and the
 * device is lost. Some arguments have failed, some indices are bad. The value and the gradients are
 * compared with those on one stream of the CPU without faults: the same numbers, or the same error,
 * or an error of an injected fault where there are some. KEEL_STORM_FUNCTIONS (80). */
#include <pthread.h>
#include <unistd.h>

#include "backend/sim/sim.h"
#include "ops/support/helpers.h"
#include "runtime/block_pool.h"
#include "transforms/custom.h"
#include "transforms/transforms.h"

enum { THREADS = 4, FUNCTIONS = 80, ROUNDS = 3, STEPS = 12 };
enum { N_FLOATS = 3, N_ARGS = 4, LANES = 2, N_VALUES = 2 * (1 + N_FLOATS) };

struct random_function {
    uint32_t seed;
    struct kl_stream *streams[4];
};

static uint32_t next(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* ---- a function, by its number ---- */

static int step(struct kl_array **out, uint32_t *seed, struct kl_array *a, struct kl_array *b,
                struct kl_array *index, struct kl_stream *s, struct kl_error **e) {
    switch (next(seed, 10)) {
    case 0: return kl_add(out, a, b, s, e);
    case 1: return kl_subtract(out, a, b, s, e);
    case 2:
    case 3: return kl_multiply(out, a, b, s, e);
    case 4: return kl_tanh(out, a, s, e);
    case 5: return kl_sin(out, a, s, e);
    case 6: return kl_take_axis(out, a, index, 0, s, e); /* checked: indices may be bad */
    case 7: return kl_slice(out, a, LIST(3), LIST(-5), LIST(-1), s, e);
    case 8: return kl_softmax_axis(out, a, 0, false, s, e);
    default: return kl_cumsum(out, a, 0, next(seed, 2) == 0, true, s, e);
    }
}

/* Half of the steps: the arguments are those of the whole, and the result has their shape. */
static int some_steps(const struct random_function *f, uint32_t seed, struct kl_array *const *in,
                      struct kl_array **out, struct kl_error **e) {
    struct kl_array *made[N_FLOATS + STEPS];
    int n = N_FLOATS, rc = KL_OK;
    for (int i = 0; i < n; i++) made[i] = kl_array_retain(in[i]);
    for (int i = 0; i < STEPS / 2 && !rc; i++) {
        struct kl_array *a = made[next(&seed, (uint32_t)n)], *b = made[n - 1];
        rc = step(&made[n], &seed, a, b, in[N_FLOATS], f->streams[next(&seed, 4)], e);
        n += !rc;
    }
    if (!rc) *out = kl_array_retain(made[n - 1]);
    while (n > 0) kl_array_release(made[--n]);
    return rc;
}

static int call_part(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                     struct kl_error **e) {
    const struct random_function *f = ctx;
    KL_TRY(kl_arrays_new(outs, 1, e));
    int rc = some_steps(f, f->seed, in, &outs->v[0], e);
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* The sum of the second half, of which the first half is one argument; every third first half is
 * behind a checkpoint. */
static int call_whole(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                      struct kl_error **e) {
    const struct random_function *f = ctx;
    const struct kl_function part = {.call = call_part, .ctx = ctx};
    struct kl_custom_function *kept = NULL;
    struct kl_array *again[N_ARGS], *last = NULL;
    struct kl_arrays half = {0};
    int rc;
    if (f->seed % 3 == 0) {
        rc = kl_checkpoint_new(&kept, &part, e);
        if (!rc) rc = kl_custom_function_call(kept, in, n_in, &half, e);
    } else {
        rc = kl_function_call(&part, in, n_in, &half, e);
    }
    for (int i = 0; i < N_ARGS && !rc; i++) again[i] = i == 1 ? half.v[0] : in[i];
    if (!rc) rc = some_steps(f, f->seed + 1, again, &last, e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], last, false, f->streams[f->seed % 4], e);
    if (rc) kl_arrays_free(outs);
    kl_array_release(last);
    kl_arrays_free(&half);
    kl_custom_function_release(kept);
    return rc;
}

/* The value and the gradients with respect to the floats. */
static int call_gradient(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                         struct kl_error **e) {
    const struct kl_function whole = {.call = call_whole, .ctx = ctx};
    struct kl_arrays value = {0}, grads = {0};
    KL_TRY(kl_value_and_grad(&whole, (int[]){0, 1, 2}, 3, in, n_in, &value, &grads, e));
    int rc = kl_arrays_new(outs, 1 + N_FLOATS, e);
    for (int i = 0; i < 1 + N_FLOATS && !rc; i++)
        outs->v[i] = kl_array_retain(i ? grads.v[i - 1] : value.v[0]);
    kl_arrays_free(&grads);
    kl_arrays_free(&value);
    return rc;
}

/* All values of one call: of the gradient, and of its vmap over two lanes of argument 0. */
static int all_values(struct random_function *f, struct kl_array *const *args,
                      struct kl_array *lanes, struct kl_array **out, struct kl_error **e) {
    const struct kl_function gradient = {.call = call_gradient, .ctx = f};
    const int axes[N_ARGS] = {0, KL_VMAP_NONE, KL_VMAP_NONE, KL_VMAP_NONE}, to[N_ARGS] = {0};
    struct kl_array *mapped[N_ARGS] = {lanes, args[1], args[2], args[3]};
    struct kl_arrays one = {0}, in = {0}, traced = {0}, many = {0};
    int rc = kl_function_call(&gradient, args, N_ARGS, &one, e);
    if (!rc) rc = kl_vmap_trace(&gradient, mapped, N_ARGS, axes, &in, &traced, e);
    if (!rc) rc = kl_vmap_replace(mapped, N_ARGS, in.v, traced.v, traced.n, axes, to, &many, e);
    for (int i = 0; i < N_VALUES && !rc; i++)
        out[i] = kl_array_retain(i < 1 + N_FLOATS ? one.v[i] : many.v[i - 1 - N_FLOATS]);
    kl_arrays_free(&many);
    kl_arrays_free(&traced);
    kl_arrays_free(&in);
    kl_arrays_free(&one);
    return rc;
}

/* ---- comparing ---- */

static int lost, false_errors, wrong, other_errors, failed, checked, injected, retried;

static void count(int *n) {
    __atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static bool is_injected(const struct kl_error *e) {
    return e->code == KL_ENOMEM || e->code == KL_ESUBMIT || e->code == KL_EDEVICELOST;
}

/* The error with which a is settled, or that of the last attempt to read it; NULL: *v are its
 * values. A failure before the commit leaves an array lazy, so the next attempt must work. */
static struct kl_error *read_values(struct kl_array *a, float *v) {
    struct kl_error *e = NULL;
    void *data;
    while (kl_array_host(a, &data, &e) == KL_ENOMEM &&
           (!kl_array_settled(a) || !kl_fate_error(a->t.fate))) {
        count(&retried);
        kl_error_release(e);
        e = NULL;
    }
    if (!e)
        for (int64_t i = 0; i < a->t.size; i++) {
            const int64_t at = a->t.ndim == 2 ? i / 4 * a->t.strides[0] + i % 4 * a->t.strides[1]
                               : a->t.ndim    ? i * a->t.strides[0]
                                              : 0;
            v[i] = ((float *)data)[at];
        }
    return e;
}

/* Without memory for its text an error has a short one. */
static bool same_error(const struct kl_error *e, const struct kl_error *want, bool faults) {
    return e->code == want->code && (strcmp(e->message, want->message) == 0 ||
                                     (faults && strcmp(e->message, "index out of range") == 0));
}

struct expected {
    struct kl_error *error; /* or NULL */
    float v[4 * LANES];
};

static void compare(const struct expected *want, struct kl_array *got, bool faults) {
    float v[4 * LANES];
    struct kl_error *e = read_values(got, v);
    count(&checked);
    if (e) count(&failed);
    if (e && faults && is_injected(e)) {
        count(&injected);
    } else if (want->error && !e) {
        count(&lost);
    } else if (e && !want->error) {
        count(&false_errors);
        print_message("false error: %s\n", e->message);
    } else if (e && !same_error(e, want->error, faults)) {
        count(&other_errors);
        print_message("%s\ninstead of %s\n", e->message, want->error->message);
    } else if (!e && memcmp(v, want->v, (size_t)got->t.size * sizeof *v) != 0) {
        count(&wrong);
    }
    kl_error_release(e);
}

/* ---- the storm ---- */

static struct kl_array *numbers(uint32_t *seed, int ndim, const int *dims) {
    float v[4 * LANES];
    for (int i = 0; i < 4 * LANES; i++) v[i] = (float)next(seed, 1000) / 500 - 1;
    return array_of(KL_F32, ndim, dims, v);
}

/* Numbers that a stream of the device computes, or one time in six an array that has failed. */
static struct kl_array *argument(uint32_t *seed, struct kl_stream *s, int which) {
    struct kl_array *a, *lazy;
    if (next(seed, 6) == 0) {
        struct kl_error *e = NULL;
        kl_fail(&e, KL_EFILE, "argument %d is lost", which);
        EXPECT_OK(kl_array_new_failed(&a, KL_F32, 1, (int[]){4}, e, &err));
        kl_error_release(e);
        return a;
    }
    a = numbers(seed, 1, (int[]){4});
    EXPECT_OK(kl_negative(&lazy, a, s, &err));
    kl_array_release(a);
    return lazy;
}

static struct kl_array *indices(uint32_t *seed) {
    int32_t v[4];
    for (int i = 0; i < 4; i++) v[i] = (int32_t)next(seed, 4);
    if (next(seed, 3) == 0) v[next(seed, 4)] = 4 + (int32_t)next(seed, 3); /* out of range */
    return array_of(KL_I32, SHAPE(4), v);
}

struct job { /* one for all threads */
    struct random_function f;
    struct kl_array *args[N_ARGS], *lanes;
    struct expected want[N_VALUES];
    bool faults;
};

static void *differentiate(void *arg) {
    struct job *j = arg;
    for (int round = 0; round < ROUNDS; round++) {
        struct kl_array *got[N_VALUES];
        struct kl_error *e = NULL;
        while (all_values(&j->f, j->args, j->lanes, got, &e)) {
            if (!j->faults || e->code != KL_ENOMEM) fail_msg("%s", e->message);
            count(&retried);
            kl_error_release(e);
            e = NULL;
        }
        if (round % 2 && kl_async_eval(got, N_VALUES, &e) && e->code != KL_ENOMEM)
            fail_msg("%s", e->message);
        kl_error_release(e);
        for (int i = N_VALUES - 1; i >= 0; i--) compare(&j->want[i], got[i], j->faults);
        for (int i = 0; i < N_VALUES; i++) kl_array_release(got[i]);
    }
    return NULL;
}

static void inject(uint32_t number, bool on) {
    kl_test_fail_alloc_random(number, on && number % 4 == 1 ? 600 : 0);
    kl_sim_fail_submit_random(0, on && number % 4 == 2 ? 20 : 0);
    kl_sim_lose_random(0, on && number % 4 == 3 ? 100 : 0);
}

static void one_function(uint32_t number, struct kl_stream **streams) {
    uint32_t seed = number * 7919 + 3;
    struct random_function plain = {number, {streams[0], streams[0], streams[0], streams[0]}};
    struct job j = {.f = {number, {streams[0], streams[1], streams[2], streams[3]}},
                    .faults = number % 4 != 0};
    struct kl_array *want[N_VALUES];
    pthread_t t[THREADS];
    for (int i = 0; i < N_FLOATS; i++) j.args[i] = argument(&seed, streams[0], i);
    j.args[N_FLOATS] = indices(&seed);
    j.lanes = numbers(&seed, 2, (int[]){LANES, 4});
    EXPECT_OK(all_values(&plain, j.args, j.lanes, want, &err));
    for (int i = 0; i < N_VALUES; i++) {
        j.want[i].error = read_values(want[i], j.want[i].v);
        kl_array_release(want[i]);
    }
    for (int i = 0; i < N_FLOATS; i++) { /* the storm computes its arguments itself */
        kl_array_release(j.args[i]);
        if (i == 0) seed = number * 7919 + 3;
        j.args[i] = argument(&seed, streams[i + 1], i);
    }
    kl_sim_seed(0, number);
    inject(number, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, differentiate, &j), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    inject(number, false);
    for (int i = 0; i < 4; i++) (void)kl_stream_synchronize(streams[i], NULL);
    if (number % 4 == 3) kl_sim_revive(0);
    for (int i = 0; i < N_ARGS; i++) kl_array_release(j.args[i]);
    kl_array_release(j.lanes);
    for (int i = 0; i < N_VALUES; i++) kl_error_release(j.want[i].error);
}

static void storm(void **state) {
    const char *functions = getenv("KEEL_STORM_FUNCTIONS");
    uint32_t n =
        functions ? (uint32_t)strtoul(functions, NULL, 10) : kl_test_share("storm", FUNCTIONS);
    struct kl_stream *streams[4] = {cpu(), NULL, sim(), NULL};
    EXPECT_OK(kl_stream_new(&streams[1], KL_CPU, 0, &err));
    EXPECT_OK(kl_stream_new(&streams[3], KL_GPU, 0, &err));
    one_function(0, streams); /* makes what exists once */
    kl_until_quiet();
    const size_t active = kl_memory_active();
    for (uint32_t number = 0; number < n; number++) one_function(number, streams);
    kl_until_quiet();
    print_message("%d values, of which %d fail, %d by injected faults, %d attempts repeated: "
                  "%d errors lost, %d false, %d other, %d wrong\n",
                  checked, failed, injected, retried, lost, false_errors, other_errors, wrong);
    assert_int_equal(checked, (int)(n + 1) * THREADS * ROUNDS * N_VALUES);
    assert_in_range(failed - injected, checked / 10, checked * 9 / 10);
    assert_in_range(injected, checked / 1000, checked / 2);
    assert_in_range(retried, 1, 1000000);
    assert_int_equal(lost + false_errors + other_errors + wrong, 0);
    assert_int_equal(kl_memory_active(), active);
    kl_stream_release(streams[1]);
    kl_stream_release(streams[3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(storm)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    fflush(NULL);
    _exit(rc); /* without the report of errors that nobody read: of values that were dropped */
}
