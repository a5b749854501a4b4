/* test_distributed.c - operations of groups: values in every dtype with four ranks (launcher.h),
 * shapes, groups that are split, errors of bad input; and a group of one. */
#include "ops/support/ranks.h"

#include "backend/gpu/gpu_internal.h"
#include "base/number/dtype.h"
#include "runtime/device.h"

enum { RANKS = 4, MOST_RANKS = 8 };

/* ---- with several ranks ---- */

/* n elements of dtype: element i is f(i, rank), a small number. */
static struct kl_array *numbers(enum kl_dtype dtype, int n, int of_rank) {
    float *v = malloc(((size_t)n + 1) * sizeof *v);
    for (int i = 0; i < n; i++) {
        int x = (i * 7 + of_rank * 5) % 23;
        v[i] = (float)(dtype == KL_BOOL ? x % 3 == 0 : kl_dtype_is_signed(dtype) ? x - 11 : x);
    }
    struct kl_array *a = array_of(KL_F32, SHAPE(n), v), *out;
    EXPECT_OK(kl_astype(&out, a, dtype, cpu(), &err));
    kl_array_release(a);
    free(v);
    return out;
}

/* Both must have the same shape, dtype and bits; takes both. */
static void expect_same(struct kl_array *got, struct kl_array *want) {
    expect_shape(got, want->t.ndim, want->t.dims);
    assert_int_equal(got->t.dtype, want->t.dtype);
    char *x = values_of(got), *y = values_of(want);
    const size_t item = kl_dtype_size((enum kl_dtype)want->t.dtype);
    for (int64_t i = 0; i < want->t.size; i++)
        if (memcmp(x + (size_t)i * item, y + (size_t)i * item, item))
            fail_msg("rank %d: element %lld of %lld differs (%s)", rank, (long long)i,
                     (long long)want->t.size, kl_dtype_name((enum kl_dtype)want->t.dtype));
    free(x);
    free(y);
    kl_array_release(got);
    kl_array_release(want);
}

static struct kl_array *fold(kl_binary_fn *f, enum kl_dtype dtype, int n) {
    struct kl_array *sum = numbers(dtype, n, 0);
    for (int r = 1; r < n_ranks; r++) {
        struct kl_array *x = numbers(dtype, n, r), *more;
        EXPECT_OK(f(&more, sum, x, cpu(), &err));
        kl_array_release(sum);
        kl_array_release(x);
        sum = more;
    }
    return sum;
}

static void reductions(void **state) {
    static const int sizes[] = {0, 1, 5, 1000, 70001};
    struct {
        kl_collective_fn *all;
        kl_binary_fn *one;
    } ops[] = {{kl_all_sum, kl_add}, {kl_all_max, kl_maximum}, {kl_all_min, kl_minimum}};
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (size_t k = 0; k < 3; k++)
            for (size_t i = 0; i < 5; i++) {
                const int n = sizes[i];
                struct kl_array *x = numbers((enum kl_dtype)d, n, rank), *out;
                EXPECT_OK(ops[k].all(&out, x, world, there(), &err));
                kl_array_release(x);
                expect_same(out, fold(ops[k].one, (enum kl_dtype)d, n));
            }
}

static void gathers(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int n = 0; n < 2000; n = 3 * n + 1) {
            struct kl_array *x = numbers((enum kl_dtype)d, n, rank), *out, *want;
            struct kl_array *all[MOST_RANKS];
            EXPECT_OK(kl_all_gather(&out, x, world, there(), &err));
            for (int r = 0; r < n_ranks; r++) all[r] = numbers((enum kl_dtype)d, n, r);
            EXPECT_OK(kl_concatenate(&want, all, (size_t)n_ranks, cpu(), &err));
            for (int r = 0; r < n_ranks; r++) kl_array_release(all[r]);
            kl_array_release(x);
            expect_same(out, want);
        }
    struct kl_array *x = scalar_of(KL_I32, rank * 10), *out;
    EXPECT_OK(kl_all_gather(&out, x, world, there(), &err));
    int32_t *v = values_of(out);
    for (int r = 0; r < n_ranks; r++) assert_int_equal(v[r], r * 10);
    free(v);
    kl_array_release(out);
    kl_array_release(x);
}

static void scatters(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int n = 0; n < 500; n = 3 * n + 1) {
            const int whole = n * n_ranks;
            struct kl_array *x = numbers((enum kl_dtype)d, whole, rank), *out, *part;
            struct kl_array *sum = fold(kl_add, (enum kl_dtype)d, whole);
            EXPECT_OK(kl_sum_scatter(&out, x, world, there(), &err));
            EXPECT_OK(
                kl_slice(&part, sum, LIST(rank * n), LIST(rank * n + n), LIST(1), cpu(), &err));
            kl_array_release(sum);
            kl_array_release(x);
            expect_same(out, part);
        }
}

static void sends(void **state) {
    const int next = (rank + 1) % n_ranks, before = (rank + n_ranks - 1) % n_ranks;
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int n = 0; n < 100000; n = 9 * n + 1) {
            struct kl_array *x = numbers((enum kl_dtype)d, n, rank), *sent, *got, *like;
            EXPECT_OK(kl_send(&sent, x, next, world, there(), &err));
            EXPECT_OK(kl_recv(&got, LIST(n), d, before, world, there(), &err));
            EXPECT_OK(kl_async_eval((struct kl_array *[]){sent, got}, 2, &err));
            expect_same(sent, kl_array_retain(x));
            expect_same(got, numbers((enum kl_dtype)d, n, before));
            EXPECT_OK(kl_send(&sent, x, before, world, there(), &err));
            EXPECT_OK(kl_async_eval(&sent, 1, &err));
            EXPECT_OK(kl_recv_like(&like, x, next, world, there(), &err));
            expect_same(like, numbers((enum kl_dtype)d, n, next));
            kl_array_release(sent);
            kl_array_release(x);
        }
    struct kl_array *x = scalar_of(KL_F32, rank), *sent, *got, *out; /* to itself */
    if (has_no_mpi()) {
        EXPECT_FAIL(KL_EGROUP, kl_send(&out, x, rank, world, there(), &err));
        EXPECT_FAIL(KL_EGROUP, kl_recv_like(&out, x, rank, world, there(), &err));
        EXPECT_FAIL(KL_EGROUP, kl_all_sum(&out, x, world, cpu(), &err));
        kl_array_release(x);
        return;
    }
    EXPECT_OK(kl_send(&sent, x, rank, world, there(), &err));
    EXPECT_OK(kl_async_eval(&sent, 1, &err));
    EXPECT_OK(kl_recv_like(&got, x, rank, world, there(), &err));
    EXPECT_F32(got, SCALAR, (float)rank);
    kl_array_release(sent);
    kl_array_release(x);
}

/* NaN wins, -0.0 is below +0.0, and all ranks get the same bits; complex numbers by their parts. */
static void special_values(void **state) {
    const float mine[] = {rank == 2 ? NAN : 1, rank == 1 ? 0.0f : -0.0f, rank ? 1 : -INFINITY,
                          rank == 3 ? -NAN : 5};
    const float pair[] = {rank == 1 ? 3 : 2, (float)-rank, 7, rank == 3 ? NAN : 1};
    struct kl_array *x = array_of(KL_F32, SHAPE(4), mine), *out;
    struct kl_array *z = array_of(KL_C64, SHAPE(2), pair);
    EXPECT_OK(kl_all_max(&out, x, world, there(), &err));
    EXPECT_F32(out, SHAPE(4), NAN, 0.0f, 1, NAN);
    EXPECT_OK(kl_all_min(&out, x, world, there(), &err));
    EXPECT_F32(out, SHAPE(4), NAN, -0.0f, -INFINITY, NAN);
    EXPECT_OK(kl_all_max(&out, z, world, there(), &err));
    float *v = values_of(out);
    assert_true(v[0] == 3 && v[1] == -1 && isnan(v[2]) && isnan(v[3]));
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_all_min(&out, z, world, there(), &err));
    v = values_of(out);
    assert_true(v[0] == 2 && v[1] == -3 && isnan(v[2]) && isnan(v[3]));
    free(v);
    kl_array_release(out);
    kl_array_release(z);
    kl_array_release(x);
}

/* A longer exchange than MPI counts goes in pieces. */
void kl_test_mpi_piece(int64_t elements);
static void pieces(void **state) {
    kl_test_mpi_piece(7);
    gathers(state);
    scatters(state);
    struct kl_array *x = numbers(KL_F64, 1000, rank), *out, *sent;
    EXPECT_OK(kl_all_sum(&out, x, world, there(), &err));
    kl_array_release(x);
    expect_same(out, fold(kl_add, KL_F64, 1000));
    x = numbers(KL_F64, 100, rank);
    EXPECT_OK(kl_send(&sent, x, (rank + 1) % n_ranks, world, there(), &err));
    EXPECT_OK(kl_async_eval(&sent, 1, &err));
    EXPECT_OK(kl_recv_like(&out, x, (rank + n_ranks - 1) % n_ranks, world, there(), &err));
    kl_array_release(x);
    expect_same(out, numbers(KL_F64, 100, (rank + n_ranks - 1) % n_ranks));
    expect_same(sent, numbers(KL_F64, 100, rank));
    kl_test_mpi_piece(INT32_MAX);
}

/* A lazy graph: what depends on a result, inputs that are strided, inputs that are used again, and
 * values of a device, which pass through the host. */
static void lazy_graphs(void **state) {
    struct kl_array *x = strided(count_up(SHAPE(3, 4))), *sum, *twice, *again, *both;
    EXPECT_OK(kl_all_sum(&sum, x, world, there(), &err));
    EXPECT_OK(kl_add(&twice, sum, x, cpu(), &err));
    struct kl_stream *device = ranks_on() ? there() : sim();
    EXPECT_OK(kl_all_max(&again, twice, world, device, &err));
    EXPECT_OK(kl_add(&both, again, x, device, &err));
    kl_array_release(sum);
    kl_array_release(twice);
    kl_array_release(again);
    kl_array_release(x);
    EXPECT_I32(both, SHAPE(3, 4), 0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 66);
}

/* An operation of a group whose input is the result of another one waits for it. */
static void chains(void **state) {
    struct kl_array *x = scalar_of(KL_I32, 1), *out;
    for (int i = 0; i < 5; i++) {
        EXPECT_OK((i % 2 ? kl_all_max : kl_all_sum)(&out, x, world, there(), &err));
        kl_array_release(x);
        x = out;
    }
    EXPECT_I32(out, SCALAR, 64);
}

/* Waiting for a stream waits for the operations of groups that were given it, and tells how they
 * failed. */
static void synchronizes(void **state) {
    struct kl_array *x = count_up(SHAPE(1000)), *at = scalar_of(KL_I32, 9999), *bad, *out, *fails;
    enum kl_device_type type = KL_CPU;
    struct kl_stream *s;
    int index = 0;
    if (has_no_mpi()) kl_device_default(&type, &index);
    EXPECT_OK(kl_stream_new(&s, type, index, &err));
    for (int i = 0; i < 50; i++) {
        EXPECT_OK(kl_all_sum(&out, x, world, s, &err));
        EXPECT_OK(kl_async_eval(&out, 1, &err));
        EXPECT_OK(kl_stream_synchronize(s, &err));
        assert_true(kl_array_settled(out));
        kl_array_release(out);
    }
    EXPECT_OK(kl_take_axis(&bad, x, at, 0, cpu(), &err));
    EXPECT_OK(kl_all_sum(&fails, bad, world, s, &err));
    EXPECT_OK(kl_async_eval(&fails, 1, &err));
    struct kl_error *e = NULL;
    assert_int_equal(kl_stream_synchronize(s, &e), KL_EINDEX);
    kl_error_release(e);
    kl_array_release(fails);
    kl_array_release(bad);
    kl_array_release(at);
    kl_array_release(x);
    kl_stream_release(s);
}

/* Within one evaluation the order is that of building, whatever the order of arguments. */
static void order_of_building(void **state) {
    enum { N = 12 };
    struct kl_array *out[N], *turned[N];
    for (int i = 0; i < N; i++) {
        struct kl_array *x = scalar_of(KL_I32, i + rank);
        EXPECT_OK((i % 2 ? kl_all_max : kl_all_sum)(&out[i], x, world, there(), &err));
        kl_array_release(x);
    }
    for (int i = 0; i < N; i++) turned[i] = out[(i * 5 + rank) % N];
    EXPECT_OK(kl_eval(turned, N, &err));
    for (int i = 0; i < N; i++) EXPECT_I32(out[i], SCALAR, i % 2 ? i + n_ranks - 1 : 4 * i + 6);
}

static void splits(void **state) {
    struct kl_group *half, *turned, *alone;
    struct kl_array *x = scalar_of(KL_I32, 1 << rank), *out;
    EXPECT_OK(kl_group_split(world, rank % 2, -1, &half, &err));
    assert_int_equal(kl_group_size(half), 2);
    assert_int_equal(kl_group_rank(half), rank / 2);
    EXPECT_OK(kl_all_sum(&out, x, half, there(), &err));
    EXPECT_I32(out, SCALAR, rank % 2 ? 10 : 5);
    EXPECT_OK(kl_group_split(world, 0, n_ranks - rank, &turned, &err));
    assert_int_equal(kl_group_rank(turned), n_ranks - 1 - rank);
    EXPECT_OK(kl_all_gather(&out, x, turned, there(), &err));
    EXPECT_I32(out, SHAPE(4), 8, 4, 2, 1);
    EXPECT_OK(kl_group_split(half, rank, 0, &alone, &err));
    assert_int_equal(kl_group_size(alone), 1);
    EXPECT_OK(kl_all_sum(&out, x, alone, there(), &err));
    EXPECT_I32(out, SCALAR, 1 << rank);
    /* Lazy work keeps its group. */
    EXPECT_OK(kl_all_max(&out, x, half, there(), &err));
    kl_group_release(half);
    kl_group_release(turned);
    kl_group_release(alone);
    EXPECT_I32(out, SCALAR, rank % 2 ? 8 : 4);
    out = NULL;
    kl_array_release(x);
    struct kl_error *err = NULL;
    assert_int_equal(kl_group_split(world, -1, 0, &half, &err), KL_EARG);
    kl_error_release(err);
}

static void bad_input_of_ranks(void **state) {
    struct kl_array *out, *x = count_up(SHAPE(7)), *none = scalar_of(KL_F32, 1);
    EXPECT_FAIL(KL_ESHAPE, kl_sum_scatter(&out, x, world, there(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_sum_scatter(&out, none, world, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_send(&out, x, n_ranks, world, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_send(&out, x, -1, world, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_recv(&out, LIST(2), KL_F32, n_ranks, world, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_recv_like(&out, x, -1, world, there(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_recv(&out, LIST(-2), KL_F32, 0, world, there(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_recv(&out, LIST(2), 99, 0, world, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_all_sum(&out, x, world, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_all_sum(&out, NULL, world, there(), &err));
    kl_array_release(none);
    kl_array_release(x);
}

/* A failed input of one rank fails what depends on it on all, with its cause; the group goes on. */
static void failed_inputs(void **state) {
    for (int bad = 0; bad < n_ranks; bad++) {
        struct kl_array *x = count_up(SHAPE(5)), *at = scalar_of(KL_I32, rank >= bad ? 99 : 2);
        struct kl_array *picked, *sum, *good, *after;
        char text[64];
        EXPECT_OK(kl_take_axis(&picked, x, at, 0, cpu(), &err));
        EXPECT_OK(kl_all_sum(&sum, picked, world, there(), &err));
        EXPECT_OK(kl_all_sum(&good, x, world, there(), &err));
        EXPECT_OK(kl_add(&after, sum, x, cpu(), &err));
        EXPECT_OK(kl_async_eval((struct kl_array *[]){after, good}, 2, &err));
        snprintf(text, sizeof text, rank == bad ? "take: index 99" : "rank %d: take: index 99",
                 bad);
        expect_eval_fails(after, KL_EINDEX, text);
        expect_eval_fails(sum, KL_EINDEX, text);
        EXPECT_I32(good, SHAPE(5), 0, 4, 8, 12, 16);
        kl_array_release(picked);
        kl_array_release(at);
        kl_array_release(x);
    }
}

/* In line (KEEL_DIST_IN_LINE=1) each runs on the stream that the user gave, and after what was
 * committed before it on others. */
static void several_streams(void **state) {
    enum { N = 6 };
    const char *wanted = getenv("KEEL_DIST_IN_LINE");
    const bool in_line = ranks_on() && wanted && *wanted == '1';
    enum kl_device_type type = KL_CPU;
    struct kl_stream *s[N];
    struct kl_array *x = count_up(SHAPE(5)), *sum[N], *fails[N];
    struct kl_group *g;
    int index = 0;
    if (ranks_on()) kl_device_default(&type, &index);
    EXPECT_OK(kl_group_split(world, 0, rank, &g, &err));
    for (int i = 0; i < N; i++) {
        struct kl_array *at = scalar_of(KL_I32, rank == 1 ? 90 + i : 2), *picked;
        EXPECT_OK(kl_stream_new(&s[i], type, index, &err));
        EXPECT_OK(kl_take_axis(&picked, x, at, 0, cpu(), &err));
        EXPECT_OK(kl_all_sum(&fails[i], picked, g, s[i], &err));
        EXPECT_OK(kl_all_sum(&sum[i], x, g, s[i], &err));
        kl_array_release(picked);
        kl_array_release(at);
    }
    EXPECT_OK(kl_async_eval(fails, N, &err));
    EXPECT_OK(kl_async_eval(sum, N, &err));
    for (int i = 0; i < N; i++) {
        const bool own = sum[i]->t.fate->timeline == kl_stream_timeline(s[i]);
        char text[64];
        if (ranks_on()) assert_int_equal(own, in_line);
        snprintf(text, sizeof text, "%stake: index %d", rank == 1 ? "" : "rank 1: ", 90 + i);
        expect_eval_fails(fails[i], KL_EINDEX, text);
        EXPECT_I32(sum[i], SHAPE(5), 0, n_ranks, 2 * n_ranks, 3 * n_ranks, 4 * n_ranks);
        kl_stream_release(s[i]);
    }
    kl_group_release(g);
    kl_array_release(x);
}

/* x and 30 layers that each end in an exchange, as those of a model that all ranks share. */
static struct kl_array *layers_of(const struct kl_array *x, struct kl_group *g) {
    struct kl_array *h = kl_array_retain((struct kl_array *)(uintptr_t)x);
    for (int i = 0; i < 30; i++) {
        struct kl_array *part, *sum, *next;
        EXPECT_OK(kl_sign(&part, h, there(), &err));
        EXPECT_OK(kl_all_sum(&sum, part, g, there(), &err));
        EXPECT_OK(kl_add(&next, h, sum, there(), &err));
        kl_array_release(part);
        kl_array_release(sum);
        kl_array_release(h);
        h = next;
    }
    return h;
}

/* A failure before the first of many exchanges reaches what depends on the last one. In line the
 * word of an exchange stands for those of its inputs: no words are merged. */
static void exchanges_of_many_layers(void **state) {
    const char *wanted = getenv("KEEL_DIST_IN_LINE");
    const bool in_line = ranks_on() && wanted && *wanted == '1';
    struct kl_array *x = count_up(SHAPE(5)), *at = scalar_of(KL_I32, rank == 1 ? 99 : 2), *picked;
    EXPECT_OK(kl_take_axis(&picked, x, at, 0, there(), &err));
    struct kl_array *good = layers_of(x, world), *fails = layers_of(picked, world);
    const int merged = kl_test_merged_words();
    EXPECT_OK(kl_async_eval((struct kl_array *[]){good, fails}, 2, &err));
    expect_eval_fails(fails, KL_EINDEX, rank == 1 ? "take: index 99" : "rank 1: take: index 99");
    EXPECT_I32(good, SHAPE(5), 0, 1 + 30 * n_ranks, 2 + 30 * n_ranks, 3 + 30 * n_ranks,
               4 + 30 * n_ranks);
    if (in_line) assert_int_equal(kl_test_merged_words(), merged);
    kl_array_release(good);
    kl_array_release(fails);
    kl_array_release(picked);
    kl_array_release(x);
    kl_array_release(at);
}

static void failed_sends(void **state) {
    struct kl_array *x = count_up(SHAPE(5)), *at = scalar_of(KL_I32, 99), *bad, *out;
    EXPECT_OK(kl_take_axis(&bad, x, at, 0, cpu(), &err));
    if (rank == 1) {
        EXPECT_OK(kl_send(&out, bad, 2, world, there(), &err));
        expect_eval_fails(out, KL_EINDEX, "take: index 99");
        EXPECT_OK(kl_send(&out, x, 2, world, there(), &err));
        EXPECT_I32(out, SHAPE(5), 0, 1, 2, 3, 4);
    } else if (rank == 2) {
        EXPECT_OK(kl_recv(&out, NULL, 0, KL_I32, 1, world, there(), &err));
        expect_eval_fails(out, KL_EINDEX, "rank 1: take: index 99");
        EXPECT_OK(kl_recv_like(&out, x, 1, world, there(), &err));
        EXPECT_I32(out, SHAPE(5), 0, 1, 2, 3, 4);
    }
    kl_array_release(bad);
    kl_array_release(at);
    kl_array_release(x);
}

/* Failed values go in both directions at once; each side learns the other's cause. */
static void failed_exchanges(void **state) {
    const int other = rank ^ 1;
    for (int i = 0; i < 20; i++) {
        struct kl_array *x = count_up(SHAPE(5)), *at = scalar_of(KL_I32, 100 + rank), *bad;
        struct kl_array *sent, *got;
        char text[64];
        EXPECT_OK(kl_take_axis(&bad, x, at, 0, cpu(), &err));
        EXPECT_OK(kl_send(&sent, bad, other, world, there(), &err));
        EXPECT_OK(kl_recv_like(&got, bad, other, world, there(), &err));
        EXPECT_OK(kl_async_eval((struct kl_array *[]){sent, got}, 2, &err));
        snprintf(text, sizeof text, "rank %d: take: index %d", other, 100 + other);
        expect_eval_fails(got, KL_EINDEX, text);
        snprintf(text, sizeof text, "take: index %d", 100 + rank);
        expect_eval_fails(sent, KL_EINDEX, text);
        kl_array_release(bad);
        kl_array_release(at);
        kl_array_release(x);
    }
}

/* Each rank has a GPU of its own, as far as there are some; where one is set, that one. */
static void gpus(void **state) {
    enum kl_device_type type;
    struct kl_group *again;
    int index;
    bool gpu;
    if (ranks_on()) return; /* each has one device then */
    EXPECT_OK(kl_device_choose(&gpu, &err));
    kl_device_default(&type, &index);
    assert_true(gpu && type == KL_GPU && index == rank % 2);
    EXPECT_OK(kl_device_set_default(KL_GPU, 1, &err));
    EXPECT_OK(kl_distributed_init(&again, true, "mpi", &err));
    kl_device_default(&type, &index);
    assert_true(again == world && index == 1);
    EXPECT_OK(kl_device_set_default(KL_CPU, 0, &err));
    kl_group_release(again);
}

/* The devices of a group are those that its processes joined with: a stream of another GPU is an
 * error at once, since the other ranks would wait. */
static void stream_of_another_gpu(void **state) {
    enum kl_device_type type;
    struct kl_stream *other;
    struct kl_array *x = scalar_of(KL_F32, rank), *out;
    int index;
    const bool several = kl_device_count(KL_GPU) > 1;
    if (ranks_on() && !several) print_message("NOT RUN: there is one GPU\n");
    if (!ranks_on() || !several) { /* without devices a group takes any stream */
        kl_array_release(x);
        return;
    }
    kl_device_default(&type, &index);
    EXPECT_OK(kl_stream_new(&other, KL_GPU, 1 - index % 2, &err));
    EXPECT_FAIL(KL_EGROUP, kl_all_sum(&out, x, world, other, &err));
    kl_array_release(x);
}

/* The child of a fork has no group; that of the parent goes on. */
static void forked(void **state) {
    if (ranks_on()) kl_test_skip_under_emulator("a child of fork that starts threads");
    struct kl_array *x = count_up(SHAPE(3)), *out;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct kl_error *err = NULL;
        bool good = kl_all_sum(&out, x, world, there(), &err) == KL_OK;
        /* On a device the input is what fails first. */
        good = good && kl_eval(&out, 1, &err) == (ranks_on() ? KL_EDEVICE : KL_EFORK);
        if (!good) fprintf(stderr, "child: %s\n", err ? err->message : "no error");
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_OK(kl_all_sum(&out, x, world, there(), &err));
    EXPECT_I32(out, SHAPE(3), 0, 4, 8);
    kl_array_release(x);
}

/* ---- alone ---- */

static void group_of_one(void **state) {
    struct kl_group *g, *part;
    struct kl_array *out, *x = count_up(SHAPE(3));
    kl_collective_fn *const all[] = {kl_all_sum, kl_all_max, kl_all_min, kl_all_gather,
                                     kl_sum_scatter};
    EXPECT_OK(kl_distributed_init(&g, false, "any", &err));
    assert_int_equal(kl_group_size(g), 1);
    assert_int_equal(kl_group_rank(g), 0);
    EXPECT_OK(kl_group_split(g, 3, 1, &part, &err));
    assert_int_equal(kl_group_size(part), 1);
    for (int i = 0; i < 5; i++) {
        EXPECT_OK(all[i](&out, x, i % 2 ? part : NULL, cpu(), &err));
        EXPECT_I32(out, SHAPE(3), 0, 1, 2);
    }
    EXPECT_FAIL(KL_EARG, kl_send(&out, x, 0, g, there(), &err));
    EXPECT_FAIL(KL_EARG, kl_recv_like(&out, x, 0, NULL, cpu(), &err));
    kl_group_release(part);
    kl_group_release(g);
    kl_array_release(x);
}

static void names_of_backends(void **state) {
    struct kl_group *out;
    EXPECT_FAIL(KL_EARG, kl_distributed_init(&out, false, "pigeons", &err));
    EXPECT_FAIL(KL_EGROUP, kl_distributed_init(&out, true, "ring", &err));
    assert_false(kl_distributed_is_available("ring"));
    assert_false(kl_distributed_is_available("jaccl"));
    assert_false(kl_distributed_is_available("pigeons"));
    /* The simulated device can join others. */
    assert_true(kl_distributed_is_available("nccl"));
    assert_true(kl_distributed_is_available(NULL));
}

int main(void) {
    const struct CMUnitTest of_any_number[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(sends),
        cmocka_unit_test(synchronizes),
        cmocka_unit_test(bad_input_of_ranks),
        cmocka_unit_test(failed_exchanges),
        cmocka_unit_test(several_streams),
        cmocka_unit_test(exchanges_of_many_layers),
    };
    const struct CMUnitTest of_ranks[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(sends),
        cmocka_unit_test(special_values),
        cmocka_unit_test(pieces),
        cmocka_unit_test(lazy_graphs),
        cmocka_unit_test(chains),
        cmocka_unit_test(synchronizes),
        cmocka_unit_test(order_of_building),
        cmocka_unit_test(splits),
        cmocka_unit_test(bad_input_of_ranks),
        cmocka_unit_test(failed_inputs),
        cmocka_unit_test(failed_sends),
        cmocka_unit_test(failed_exchanges),
        cmocka_unit_test(gpus),
        cmocka_unit_test(stream_of_another_gpu),
        cmocka_unit_test(several_streams),
        cmocka_unit_test(exchanges_of_many_layers),
        cmocka_unit_test(forked),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(names_of_backends),
        cmocka_unit_test(group_of_one),
    };
    int status;
    if (starts_ranks(ranks_wanted(RANKS), &status)) return status;
    setenv("KEEL_SIM_DEVICES", "2", 1);
    if (is_a_rank() && ranks_wanted(RANKS) != RANKS)
        return cmocka_run_group_tests(of_any_number, join_ranks, NULL);
    if (is_a_rank()) return cmocka_run_group_tests(of_ranks, join_ranks, NULL);
    return cmocka_run_group_tests(alone, NULL, NULL);
}
