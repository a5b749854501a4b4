/* test_random.c - random numbers equal MLX's bit for bit where MLX defines their bits; the key
 * sequence; bad arguments. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/golden/golden.h"

enum kind { BITS, UNIFORM, RANDINT, NORMAL };
struct random_case {
    enum kind kind;
    uint64_t seed;
    int n, what; /* the width of bits, or the dtype */
    double low, high;
    struct golden_array out;
};
#include "ops/golden/golden_random.inc"

static struct kl_array *key_of(uint64_t seed) {
    struct kl_array *key;
    EXPECT_OK(kl_random_key(&key, seed, &err));
    return key;
}

static void values(void **state) {
    for (size_t i = 0; i < sizeof random_cases / sizeof *random_cases; i++) {
        const struct random_case *c = &random_cases[i];
        enum kl_dtype bound = c->kind == RANDINT ? KL_I32 : KL_F32;
        struct kl_array *key = key_of(c->seed), *low = scalar_of(bound, c->low),
                        *high = scalar_of(bound, c->high), *out;
        if (c->kind == BITS)
            EXPECT_OK(kl_random_bits(&out, &c->n, 1, c->what, key, cpu(), &err));
        else if (c->kind == UNIFORM)
            EXPECT_OK(kl_random_uniform(&out, low, high, &c->n, 1, c->what, key, cpu(), &err));
        else if (c->kind == RANDINT)
            EXPECT_OK(kl_random_randint(&out, low, high, &c->n, 1, c->what, key, cpu(), &err));
        else
            EXPECT_OK(kl_random_normal(&out, &c->n, 1, c->what, (float)c->low, (float)c->high, key,
                                       cpu(), &err));
        assert_int_equal(out->t.dtype, c->out.dtype);
        expect_shape(out, SHAPE(c->n));
        void *v = values_of(out);
        if (c->kind != NORMAL) {
            assert_memory_equal(v, c->out.data, (size_t)c->n * kl_dtype_size(out->t.dtype));
        } else {
            for (int k = 0; k < c->n; k++)
                assert_true(
                    fabs(golden_real(c->what, v, k, 0) - golden_real(c->what, c->out.data, k, 0)) <
                    (c->what == KL_F32 ? 2e-6 : 1e-14));
        }
        free(v);
        kl_array_release(out);
        kl_array_release(key);
        kl_array_release(low);
        kl_array_release(high);
    }
}

static void expect_u32(struct kl_array *a, int n, const uint32_t *want) {
    assert_int_equal(a->t.dtype, KL_U32);
    assert_int_equal(a->t.size, n);
    uint32_t *v = values_of(a);
    assert_memory_equal(v, want, (size_t)n * sizeof *v);
    free(v);
    kl_array_release(a);
}

/* Numbers that MLX 0.32 gave for these keys. */
static void anchors(void **state) {
    struct kl_array *key = key_of(7), *out, *second;
    EXPECT_OK(kl_random_split_num(&out, key, 3, cpu(), &err));
    expect_shape(out, SHAPE(3, 2));
    expect_u32(out, 6,
               (uint32_t[]){276534068, 861967409, 1905761346, 1641862660, 2900896126, 1402713516});
    EXPECT_OK(kl_random_split(&out, &second, key, cpu(), &err));
    expect_shape(out, SHAPE(2));
    expect_u32(out, 2, (uint32_t[]){966301609, 989289821});
    expect_u32(second, 2, (uint32_t[]){1948237315, 1058547403});
    EXPECT_OK(kl_random_bits(&out, LIST(3), 4, key, cpu(), &err));
    expect_u32(out, 3, (uint32_t[]){966301609, 1830345032, 1948237315});
    EXPECT_OK(kl_random_bits(&out, NULL, 0, 4, key, cpu(), &err));
    expect_u32(out, 1, (uint32_t[]){3625411723u});
    EXPECT_OK(kl_random_split_num(&out, key, 0, cpu(), &err));
    expect_shape(out, SHAPE(0, 2));
    kl_array_release(out);
    kl_array_release(key);
    key = key_of(0xFFFFFFFFFFull);
    expect_u32(key, 2, (uint32_t[]){255, 4294967295u});
}

/* The bits depend on the key and the length only, not on the number of chunks. */
static void large(void **state) {
    enum { N = 100001 };
    struct kl_array *key = key_of(3), *out, *zero = scalar_of(KL_F32, 0),
                    *one = scalar_of(KL_F32, 1), *mean;
    EXPECT_OK(kl_random_bits(&out, LIST(N), 4, key, cpu(), &err));
    uint32_t *v = values_of(out);
    struct kl_array *small;
    EXPECT_OK(kl_random_bits(&small, LIST(1, N, 1), 4, key, cpu(), &err));
    uint32_t *w = values_of(small);
    assert_memory_equal(v, w, N * sizeof *v);
    free(v);
    free(w);
    kl_array_release(small);
    kl_array_release(out);
    EXPECT_OK(kl_random_uniform(&out, zero, one, LIST(N), KL_F32, key, cpu(), &err));
    EXPECT_OK(kl_mean(&mean, out, false, cpu(), &err));
    float *m = values_of(mean);
    assert_true(fabsf(*m - 0.5f) < 0.005f);
    free(m);
    kl_array_release(mean);
    kl_array_release(out);
    EXPECT_OK(kl_random_normal(&out, LIST(N), KL_F32, 0, 1, key, cpu(), &err));
    EXPECT_OK(kl_square(&mean, out, cpu(), &err));
    kl_array_release(out);
    EXPECT_OK(kl_mean(&out, mean, false, cpu(), &err));
    m = values_of(out);
    assert_true(fabsf(*m - 1) < 0.02f);
    free(m);
    kl_array_release(mean);
    kl_array_release(out);
    kl_array_release(key);
    kl_array_release(zero);
    kl_array_release(one);
}

static void broadcasting(void **state) {
    struct kl_array *key = key_of(1), *low = F32(SHAPE(2, 1), 0, 100),
                    *high = F32(SHAPE(3), 1000, 2000, 3000), *out;
    EXPECT_OK(kl_random_uniform(&out, low, high, LIST(2, 3), KL_F32, key, cpu(), &err));
    expect_shape(out, SHAPE(2, 3));
    kl_array_release(out);
    EXPECT_OK(kl_random_randint(&out, low, high, LIST(2, 3), KL_I16, key, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_I16);
    int16_t *v = values_of(out);
    for (int i = 0; i < 6; i++) assert_true(v[i] >= (i < 3 ? 0 : 100) && v[i] < 1000 * (i % 3 + 1));
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_random_normal_broadcast(&out, LIST(2, 3), KL_F16, low, high, key, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F16);
    kl_array_release(out);
    EXPECT_OK(kl_random_normal_broadcast(&out, LIST(4), KL_C64, NULL, NULL, key, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_C64);
    struct kl_array *same;
    EXPECT_OK(kl_random_normal(&same, LIST(4), KL_C64, 0, 1, key, cpu(), &err));
    void *x = values_of(out), *y = values_of(same);
    assert_memory_equal(x, y, 32);
    free(x);
    free(y);
    kl_array_release(same);
    kl_array_release(out);
    EXPECT_FAIL(KL_ESHAPE, kl_random_uniform(&out, low, high, LIST(3), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_randint(&out, low, high, LIST(2, 2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_normal_broadcast(&out, LIST(2, 2), KL_F32, low, high, key, cpu(), &err));
    kl_array_release(key);
    kl_array_release(low);
    kl_array_release(high);
}

/* The chi-square statistic of how often each of 16 values stands among n. */
static double unevenness(const int *counts, int n) {
    double sum = 0, each = n / 16.0;
    for (int i = 0; i < 16; i++) sum += (counts[i] - each) * (counts[i] - each) / each;
    return sum;
}

/* Ranges that float32 cannot hold, of every integer type that can: numbers of every sixteenth of
 * the range, and all last digits, are equally frequent. 50 is passed by chance once in 80,000
 * times. */
static void randint_is_uniform(void **state) {
    static const struct range {
        enum kl_dtype dtype;
        int64_t low;
        uint64_t n;
    } ranges[] = {{KL_I32, 0, 10 << 20},         {KL_I32, INT32_MIN, UINT32_MAX},
                  {KL_U32, 0, UINT32_MAX},       {KL_U32, 7, 3u << 30},
                  {KL_I64, -5, 1ull << 40},      {KL_I64, INT64_MIN, UINT64_MAX},
                  {KL_U64, 0, UINT64_MAX},       {KL_U64, 1, 3ull << 62},
                  {KL_I64, 0, (1ull << 62) + 1}, {KL_I32, -(1 << 20), 1 << 17}};
    enum { N = 1 << 15 };
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        const struct range *g = &ranges[r];
        uint64_t ends[] = {(uint64_t)g->low, (uint64_t)g->low + g->n};
        enum kl_dtype bound = g->dtype == KL_U64 ? KL_U64 : KL_I64;
        struct kl_array *key = key_of(r), *low = array_of(bound, SHAPE(1), &ends[0]),
                        *high = array_of(bound, SHAPE(1), &ends[1]), *out;
        EXPECT_OK(kl_random_randint(&out, low, high, LIST(N), (int)g->dtype, key, cpu(), &err));
        const void *v = values_of(out);
        int parts[16] = {0}, digits[16] = {0};
        for (int i = 0; i < N; i++) {
            uint64_t x = g->dtype == KL_I32   ? (uint64_t)((const int32_t *)v)[i]
                         : g->dtype == KL_U32 ? ((const uint32_t *)v)[i]
                                              : ((const uint64_t *)v)[i];
            x -= (uint64_t)g->low;
            assert_true(x < g->n);
            parts[(int)((double)x / (double)g->n * 16) & 15]++;
            digits[x % 16]++;
        }
        assert_true(unevenness(parts, N) < 50);
        assert_true(unevenness(digits, N) < 50);
        free((void *)v);
        kl_array_release(out);
        kl_array_release(key);
        kl_array_release(low);
        kl_array_release(high);
    }
}

/* Bounds whose values are not known when the operation is built: each element has its own range. */
static void randint_of_both_sizes(void **state) {
    struct kl_array *key = key_of(9), *low = I32(SHAPE(2), 3, 3), *high = I32(SHAPE(2), 9, 1 << 30),
                    *few, *many, *both, *l = scalar_of(KL_I32, 3), *h[2];
    EXPECT_OK(kl_random_randint(&both, low, high, LIST(50, 2), KL_I32, key, cpu(), &err));
    h[0] = scalar_of(KL_I32, 9);
    h[1] = scalar_of(KL_I32, 1 << 30);
    EXPECT_OK(kl_random_randint(&few, l, h[0], LIST(50, 2), KL_I32, key, cpu(), &err));
    EXPECT_OK(kl_random_randint(&many, l, h[1], LIST(50, 2), KL_I32, key, cpu(), &err));
    int32_t *b = values_of(both), *f = values_of(few), *m = values_of(many);
    for (int i = 0; i < 100; i++) assert_int_equal(b[i], (i % 2 ? m : f)[i]);
    free(b);
    free(f);
    free(m);
    struct kl_array *all[] = {key, low, high, few, many, both, l, h[0], h[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

/* Calls without a key split the seeded state: each call takes one key and moves the state on. */
static void sequence(void **state) {
    struct kl_array *a, *b, *state_key = key_of(77), *use, *next, *want,
                            *low = scalar_of(KL_F32, 0), *high = scalar_of(KL_F32, 1);
    assert_int_equal(kl_random_seed(77, NULL), KL_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(kl_random_split(&next, &use, state_key, cpu(), &err));
        kl_array_release(state_key);
        state_key = next;
        EXPECT_OK(kl_random_uniform(&a, low, high, LIST(5), KL_F32, NULL, cpu(), &err));
        EXPECT_OK(kl_random_uniform(&want, low, high, LIST(5), KL_F32, use, cpu(), &err));
        void *x = values_of(a), *y = values_of(want);
        assert_memory_equal(x, y, 20);
        free(x);
        free(y);
        kl_array_release(use);
        kl_array_release(a);
        kl_array_release(want);
    }
    kl_array_release(state_key);
    EXPECT_OK(kl_random_bits(&a, LIST(4), 4, NULL, cpu(), &err));
    EXPECT_OK(kl_random_bits(&b, LIST(4), 4, NULL, cpu(), &err));
    void *x = values_of(a), *y = values_of(b);
    assert_memory_not_equal(x, y, 16);
    free(x);
    free(y);
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(low);
    kl_array_release(high);
}

struct drawn {
    bool seeds;
    uint64_t seed;
    uint32_t v[3];
};

static int draw(uint32_t *v) {
    struct kl_array *a;
    KL_TRY(kl_random_bits(&a, LIST(1), 4, NULL, cpu(), NULL));
    void *p;
    const int rc = kl_array_host(a, &p, NULL);
    if (rc == KL_OK) memcpy(v, p, sizeof *v);
    kl_array_release(a);
    return rc;
}
static void *draw_three(void *arg) {
    struct drawn *d = arg;
    int rc = d->seeds ? kl_random_seed(d->seed, NULL) : KL_OK;
    for (int i = 0; i < 3; i++) rc = rc ? rc : draw(&d->v[i]);
    return rc ? arg : NULL;
}
static void in_a_thread(struct drawn *d) {
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, draw_three, d), 0);
    pthread_join(thread, &failed);
    assert_null(failed);
}

/* Each thread has a random state, and all begin with the same seed. Draws and seeds of one thread
 * do not change another thread's state. The child of a fork goes on with its parent's state. */
static void sequence_of_threads(void **state) {
    kl_test_skip_under_emulator("a child of fork that starts threads");
    struct drawn fresh = {.seeds = false}, again = fresh, five = {.seeds = true, .seed = 5},
                 here = five, later = {.seeds = false};
    uint32_t one, child, parent;
    in_a_thread(&fresh);
    in_a_thread(&again);
    assert_memory_equal(fresh.v, again.v, sizeof fresh.v);
    assert_true(fresh.v[0] != fresh.v[1] && fresh.v[1] != fresh.v[2]);
    assert_null(draw_three(&here));
    in_a_thread(&five);
    assert_memory_equal(here.v, five.v, sizeof here.v);
    assert_memory_not_equal(here.v, fresh.v, sizeof here.v);
    kl_random_seed(5, NULL);
    assert_int_equal(draw(&one), KL_OK);
    in_a_thread(&later); /* the draws of this thread have not changed it */
    assert_memory_equal(later.v, fresh.v, sizeof later.v);
    assert_int_equal(one, here.v[0]);
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const bool good =
            draw(&child) == KL_OK && write(fd[1], &child, sizeof child) == sizeof child;
        _exit(!good);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fd[0], &child, sizeof child), sizeof child);
    assert_int_equal(draw(&parent), KL_OK);
    assert_int_equal(child, here.v[1]);
    assert_int_equal(parent, here.v[1]);
    close(fd[0]);
    close(fd[1]);
}

static void bad(void **state) {
    struct kl_array *key = key_of(1), *signed_key = I32(SHAPE(2), 0, 0), *three, *keys,
                    *a = scalar_of(KL_F32, 0), *out, *other = NULL;
    EXPECT_OK(kl_zeros(&three, LIST(3), KL_U32, cpu(), &err));
    EXPECT_OK(kl_zeros(&keys, LIST(2, 2), KL_U32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bits(&out, LIST(2), 8, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bits(&out, LIST(2), 0, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_bits(&out, LIST(-2), 4, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bits(&out, NULL, 1, 4, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_bits(&out, LIST(2), 4, signed_key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_bits(&out, LIST(2), 4, three, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_bits(&out, LIST(2), 4, keys, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bits(&out, LIST(2), 4, key, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_random_split_num(&out, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_split_num(&out, key, -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_split(&out, &other, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_split(&out, &other, three, cpu(), &err));
    assert_null(other);
    EXPECT_FAIL(KL_EARG, kl_random_uniform(&out, NULL, a, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_uniform(&out, a, NULL, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_uniform(&out, a, a, LIST(2), KL_F32, key, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_uniform(&out, a, a, LIST(2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_uniform(&out, a, a, LIST(2), KL_F64, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_uniform(&out, a, a, LIST(2), 20, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_uniform(&out, a, a, LIST(2), KL_F32, three, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_normal(&out, LIST(2), KL_I32, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_normal(&out, LIST(2), -1, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_normal(&out, LIST(-2), KL_F32, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_normal(&out, LIST(2), KL_F32, 0, 1, key, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_normal_broadcast(&out, LIST(2), KL_F32, NULL, NULL, signed_key,
                                                      cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_randint(&out, a, a, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_randint(&out, NULL, a, LIST(2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_randint(&out, a, NULL, LIST(2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_randint(&out, a, a, LIST(-1), KL_I32, key, cpu(), &err));
    kl_array_release(key);
    kl_array_release(signed_key);
    kl_array_release(three);
    kl_array_release(keys);
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(anchors),
        cmocka_unit_test(large),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(randint_is_uniform),
        cmocka_unit_test(randint_of_both_sizes),
        cmocka_unit_test(sequence),
        cmocka_unit_test(sequence_of_threads),
        cmocka_unit_test(bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
