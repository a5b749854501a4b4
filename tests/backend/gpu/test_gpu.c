/* test_gpu.c - the GPU layer over the simulated device: where command buffers are cut, split
 * launches, thousands of faults, when memory is reused, host shadows, refusals, lost devices, two
 * devices, and errors that do not depend on the schedule. */
#include "graph/graph_support.h"

#include "backend/gpu/gpu_internal.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"

static struct kl_stream *device_stream(int device) {
    struct kl_stream *s = NULL;
    assert_int_equal(kl_stream_new(&s, KL_GPU, device, NULL), 0);
    return s;
}

static struct kl_array *ints(int n, const int *v) {
    struct kl_array *a = NULL;
    assert_int_equal(kl_array_new_data(&a, v, KL_I32, 1, &n, NULL), 0);
    return a;
}

static struct kl_array *take(struct kl_stream *s, struct kl_array *from, struct kl_array *index) {
    struct kl_array *out = NULL;
    assert_int_equal(kl_take_axis(&out, from, index, 0, s, NULL), 0);
    return out;
}

static void async_one(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
}

/* Waits until the device has been given the work of a, and the host has released its inputs. */
static void until_handed_over(struct kl_array *a) {
    kl_timeline_block(a->t.fate->timeline->handed, a->t.fate->ticket);
}

static void release_all(int n, struct kl_array **a) {
    for (int i = 0; i < n; i++) kl_array_release(a[i]);
}

/* ---- command buffers ---- */

static int k_nothing(void *ctx, struct kl_launch *l, struct kl_error **err) {
    *(int *)l->out[0].data = 1;
    return KL_OK;
}

static void command_buffers_are_cut(void **state) {
    struct kl_stream *s = device_stream(0);
    int index = kl_stream_index(s);
    static const struct {
        int n_ops, ints_each;
        uint64_t n_buffers;
    } cases[] = {{1, 1, 1},   {64, 1, 1},       {65, 1, 2},
                 {200, 1, 4}, {4, 32 << 20, 2}, {3, 64 << 20, 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct kl_array *x[200];
        struct kl_call_params p = {.name = "nothing",
                                   .fn = k_nothing}; /* this memory is never read or written */
        for (int i = 0; i < cases[c].n_ops; i++)
            x[i] = t_call(s, &p, NULL, 0, KL_I32, 1, &cases[c].ints_each);
        uint64_t before = kl_sim_executed(0, index);
        assert_int_equal(kl_async_eval(x, (size_t)cases[c].n_ops, NULL), 0);
        assert_int_equal(kl_stream_synchronize(s, NULL), 0);
        assert_int_equal(kl_sim_executed(0, index) - before, cases[c].n_buffers);
        release_all(cases[c].n_ops, x);
        kl_memory_clear_cache();
    }
    kl_stream_release(s);
}

enum { LARGE = 200, RUN = 256 };

static void build_large(struct kl_stream *s, struct kl_array *first, struct kl_array **x) {
    x[0] = t_inc(s, first);
    for (int i = 1; i < LARGE; i++) x[i] = t_const(s, i);
}

/* A large evaluation has the same command buffers whether the device is idle or the evaluation
 * before it is still encoded. */
static void large_evaluations_begin_command_buffers(void **state) {
    struct kl_stream *s = device_stream(0);
    for (int busy = 0; busy < 2; busy++) {
        struct kl_array *x[2][LARGE];
        struct gate g;
        gate_init(&g);
        struct kl_array *held = t_gated(NULL, NULL, &g, false);
        for (int k = 0; k < 2; k++) build_large(s, held, x[k]);
        async_one(held);
        if (!busy) gate_open(&g);
        const uint64_t before = kl_sim_executed(0, kl_stream_index(s));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(kl_async_eval(x[k], LARGE, NULL), 0);
            if (!busy) assert_int_equal(kl_stream_synchronize(s, NULL), 0);
        }
        if (busy) gate_open(&g);
        assert_int_equal(kl_stream_synchronize(s, NULL), 0);
        assert_int_equal(kl_sim_executed(0, kl_stream_index(s)) - before, 2 * 4);
        for (int k = 0; k < 2; k++) release_all(LARGE, x[k]);
        kl_array_release(held);
    }
    kl_stream_release(s);
}

/* The caller encodes the first operations for an idle device, and does not end a run with them. */
static void a_run_is_cut_alike_by_caller_and_pool(void **state) {
    struct kl_stream *s = device_stream(0);
    struct kl_array *x = t_vector(s, 3, 7);
    async_one(x);
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    for (int i = 0; i < RUN; i++) {
        struct kl_array *y = NULL;
        assert_int_equal(kl_negative(&y, x, s, NULL), 0);
        kl_array_release(x);
        x = y;
    }
    const uint64_t before = kl_sim_executed(0, kl_stream_index(s));
    async_one(x);
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    assert_int_equal(kl_sim_executed(0, kl_stream_index(s)) - before, RUN / KL_MOST_OPS);
    kl_array_release(x);
    kl_stream_release(s);
}

/* ---- split launches ---- */

enum { POSITIONS = 23 };

static void split_launches_give_the_same(void **state) {
    struct kl_stream *s = device_stream(0);
    int source[10], index[POSITIONS];
    for (int i = 0; i < 10; i++) source[i] = 100 + i;
    struct kl_array *from = ints(10, source);
    static const int64_t most[] = {INT64_C(1) << 31, 1, 5, 22, 23};
    /* bad: the position of a wrong index, -1 for none; a second one behind it must not be
     * reported. */
    for (int bad = -1; bad < POSITIONS; bad++) {
        for (int i = 0; i < POSITIONS; i++) index[i] = i * 7 % 10;
        if (bad >= 0) index[bad] = -11 - bad;
        if (bad >= 0) index[POSITIONS - 1] = bad == POSITIONS - 1 ? -11 - bad : 50;
        struct kl_array *at = ints(POSITIONS, index);
        for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
            kl_sim_max_positions(0, most[m]);
            uint64_t before = kl_sim_n_launches(0);
            struct kl_array *x = take(s, from, at);
            if (bad < 0) {
                void *data = NULL;
                assert_int_equal(kl_array_host(x, &data, NULL), 0);
                for (int i = 0; i < POSITIONS; i++)
                    assert_int_equal(((int *)data)[i], 100 + i * 7 % 10);
            } else {
                struct kl_error *e = t_error(x);
                assert_int_equal(e->code, KL_EINDEX);
                assert_int_equal(e->position, bad);
                assert_int_equal(e->index, -11 - bad);
                assert_int_equal(e->axis_size, 10);
                kl_error_release(e);
            }
            int64_t launches = most[m] >= POSITIONS ? 1 : (POSITIONS + most[m] - 1) / most[m];
            assert_int_equal(kl_sim_n_launches(0) - before, launches);
            kl_array_release(x);
        }
        kl_array_release(at);
    }
    kl_sim_max_positions(0, INT64_C(1) << 31);
    kl_array_release(from);
    kl_stream_release(s);
}

static void split_scatters_give_the_same(void **state) {
    struct kl_stream *s = device_stream(0);
    int zeros[10] = {0}, ones[POSITIONS], index[POSITIONS], expected[10] = {0},
        shape[2] = {POSITIONS, 1};
    for (int i = 0; i < POSITIONS; i++) {
        ones[i] = i + 1;
        index[i] = i * i % 10;
        expected[index[i]] += i + 1;
    }
    struct kl_array *base = ints(10, zeros), *flat = ints(POSITIONS, ones),
                    *at = ints(POSITIONS, index), *updates = NULL;
    assert_int_equal(kl_reshape(&updates, flat, shape, 2, s, NULL), 0);
    for (int most = 1; most <= 24; most++) {
        kl_sim_max_positions(0, most);
        struct kl_array *x = NULL;
        void *data = NULL;
        assert_int_equal(kl_scatter_add_single(&x, base, at, updates, 0, s, NULL), 0);
        assert_int_equal(kl_array_host(x, &data, NULL), 0);
        assert_memory_equal(data, expected, sizeof expected);
        kl_array_release(x);
    }
    kl_sim_max_positions(0, INT64_C(1) << 31);
    kl_array_release(base);
    kl_array_release(flat);
    kl_array_release(at);
    kl_array_release(updates);
    kl_stream_release(s);
}

static void fault_words_run_out(void **state) {
    struct kl_stream *s = device_stream(0);
    int index[POSITIONS] = {0}, wide[130] = {0}, source[2] = {4, 5};
    struct kl_array *from = ints(2, source), *at = ints(POSITIONS, index),
                    *too_many = ints(130, wide), *x[10];
    kl_sim_max_positions(0, 1);
    for (int i = 0; i < 10; i++) x[i] = take(s, from, at);
    uint64_t before = kl_sim_executed(0, kl_stream_index(s));
    assert_int_equal(kl_async_eval(x, 10, NULL), 0);
    /* Evaluated together, since reading one of them would submit it alone. */
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    for (int i = 0; i < 10; i++) assert_int_equal(t_value(x[i]), 4);
    /* The 127 fault words of a chunk hold five operations of 23 words. */
    assert_int_equal(kl_sim_executed(0, kl_stream_index(s)) - before, 2);
    struct kl_array *never = take(s, from, too_many), *after = take(s, from, at);
    t_expect_error(never, KL_EUNSUPPORTED);
    assert_int_equal(t_value(after), 4);
    kl_sim_max_positions(0, INT64_C(1) << 31);
    release_all(10, x);
    kl_array_release(never);
    kl_array_release(after);
    kl_array_release(from);
    kl_array_release(at);
    kl_array_release(too_many);
    kl_stream_release(s);
}

/* ---- faults ---- */

enum { FAULTS = 10000, BATCH = 500 };

static void ten_thousand_faults(void **state) {
    struct kl_stream *s[2] = {device_stream(0), device_stream(0)};
    int source[3] = {1, 2, 3}, wrong[2] = {1, 3};
    struct kl_array *from = ints(3, source), *at = ints(2, wrong), *x[BATCH],
                    *warm = take(s[0], from, at);
    t_expect_error(warm, KL_EINDEX);
    kl_array_release(warm);
    size_t active = 0, used = 0;
    for (int done = 0; done < FAULTS; done += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            x[i] = take(s[i % 2], i && i % 3 == 0 ? x[i - 1] : from, at);
            if (i % 50 == 0) async_one(x[i]);
        }
        assert_int_equal(kl_async_eval(x, BATCH, NULL), 0);
        for (int i = BATCH - 1; i >= 0; i--) t_expect_error(x[i], KL_EINDEX);
        release_all(BATCH, x);
        for (int k = 0; k < 2; k++) assert_int_equal(kl_stream_synchronize(s[k], NULL), 0);
        kl_memory_clear_cache();
        if (done == 0) {
            active = kl_memory_active();
            used = kl_sim_used(0);
        }
        assert_int_equal(kl_memory_active(), active);
        assert_int_equal(kl_sim_used(0), used);
    }
    int right[2] = {0, -1};
    /* Afterwards the device works as before. */
    struct kl_array *good = ints(2, right), *y = take(s[0], from, good);
    assert_int_equal(t_value(y), 1);
    kl_array_release(good);
    kl_array_release(y);
    kl_array_release(from);
    kl_array_release(at);
    for (int k = 0; k < 2; k++) kl_stream_release(s[k]);
}

static void the_index_array_lives_until_settlement(void **state) {
    struct kl_stream *s = device_stream(0);
    int source[4] = {1, 2, 3, 4}, four = 4;
    struct kl_array *from = ints(4, source);
    struct kl_call_params p = {.name = "nothing", .fn = k_nothing};
    for (int round = 0; round < 20; round++) {
        int where[4] = {0, 1, 70 + round, 2};
        struct kl_array *host = ints(4, where), *at = NULL, *z = NULL;
        /* The index values are made on the device. */
        assert_int_equal(kl_negative(&at, host, s, NULL), 0);
        kl_array_release(host);
        kl_sim_hold(0, true);
        struct kl_array *x = take(s, from, at);
        async_one(x);
        until_handed_over(x);
        void *block = at->t.buffer->block->ptr;
        /* This result could take the place of its operand. */
        assert_int_equal(kl_negative(&z, at, s, NULL), 0);
        kl_array_release(at);
        /* This result could reuse the block. */
        struct kl_array *y = t_call(s, &p, NULL, 0, KL_I32, 1, &four);
        async_one(z);
        async_one(y);
        until_handed_over(y);
        assert_ptr_not_equal(z->t.buffer->block->ptr, block);
        assert_ptr_not_equal(y->t.buffer->block->ptr, block);
        kl_sim_hold(0, false);
        struct kl_error *e = t_error(x);
        assert_int_equal(e->index, -70 - round);
        assert_int_equal(e->position, 2);
        kl_error_release(e);
        void *data = NULL;
        assert_int_equal(kl_array_host(z, &data, NULL), 0);
        assert_memory_equal(data, where, sizeof where);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
    }
    kl_array_release(from);
    kl_stream_release(s);
}

static void memory_in_flight_is_nobody_elses(void **state) {
    struct kl_stream *s[2] = {device_stream(0), device_stream(0)};
    for (int round = 0; round < 20; round++) {
        kl_sim_hold(0, true);
        struct kl_array *x = t_vector(s[0], 777, 3), *y = t_inc(s[0], x);
        async_one(y);
        until_handed_over(y);
        void *block = x->t.buffer->block->ptr;
        kl_array_release(x);
        struct kl_array *other = t_vector(s[1], 777, 4), *same = t_vector(s[0], 777, 5);
        async_one(other);
        until_handed_over(other);
        assert_ptr_not_equal(other->t.buffer->block->ptr, block);
        async_one(same);
        until_handed_over(same);
        assert_ptr_equal(same->t.buffer->block->ptr, block); /* on the stream of y, behind y */
        kl_sim_hold(0, false);
        assert_int_equal(t_value(y), 4);
        assert_int_equal(t_value(other), 4);
        assert_int_equal(t_value(same), 5);
        kl_array_release(y);
        kl_array_release(other);
        kl_array_release(same);
    }
    for (int k = 0; k < 2; k++) kl_stream_release(s[k]);
}

/* ---- host shadows ---- */

static void a_host_shadow_is_made_once(void **state) {
    struct kl_stream *s = device_stream(0);
    struct kl_array *x = t_vector(s, 1000, 6), *v = NULL, *y;
    t_settle(x);
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    size_t active = kl_memory_active();
    void *p = NULL, *q = NULL;
    assert_int_equal(kl_array_host(x, &p, NULL), 0);
    /* The host copy is counted, in its size class of 4,096 bytes. */
    assert_int_equal(kl_memory_active(), active + (kl_sim_shares() ? 0 : 4096));
    kl_test_fail_alloc_at(-1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(kl_array_host(x, &q, NULL), 0);
        assert_ptr_equal(q, p);
    }
    assert_int_equal(kl_test_n_alloc_attempts(), 0);
    int start = 10, stop = 20, step = 1;
    /* Views share the host copy of their base. */
    assert_int_equal(kl_slice(&v, x, &start, 1, &stop, 1, &step, 1, s, NULL), 0);
    assert_int_equal(kl_array_host(v, &q, NULL), 0);
    assert_ptr_equal(q, (int *)p + 10);
    kl_array_release(x);
    kl_memory_clear_cache();
    y = t_vector(s, 1000, 9); /* takes any block that is free */
    assert_int_equal(t_value(y), 9);
    for (int i = 0; i < 10; i++)
        assert_int_equal(((int *)q)[i], 6); /* the address is valid while a handle lives */
    kl_array_release(y);
    kl_array_release(v);
    kl_memory_clear_cache();
    assert_true(kl_memory_active() < active);
    kl_stream_release(s);
}

/* ---- out of memory, refusals, loss ---- */

static void out_of_device_memory(void **state) {
    struct kl_stream *s = device_stream(0);
    struct kl_array *warm = t_const(s, 1);
    assert_int_equal(t_value(warm), 1);
    kl_memory_clear_cache();
    size_t used = kl_sim_used(0);
    kl_sim_budget(0, used + (1 << 20));
    struct kl_array *big = t_vector(s, 1 << 20, 2), *after = t_inc(s, big),
                    *small = t_vector(s, 100, 3), *all[3] = {big, after, small};
    assert_int_equal(kl_async_eval(all, 3, NULL), 0);
    struct kl_error *e = t_error(big);
    assert_int_equal(e->code, KL_ENOMEM);
    assert_non_null(strstr(e->message, "sim0"));
    struct kl_error *same = t_error(after);
    assert_ptr_equal(same, e);
    kl_error_release(e);
    kl_error_release(same);
    assert_int_equal(t_value(small), 3); /* the others are not affected */
    release_all(3, all);
    assert_int_equal(kl_stream_synchronize(s, NULL), 0);
    kl_memory_clear_cache();
    assert_int_equal(kl_sim_used(0), used);
    /* Takes 800 kB of the 1 MB; the block is soon cached only. */
    struct kl_array *x = t_vector(s, 200000, 4);
    assert_int_equal(t_value(x), 4);
    kl_array_release(x);
    assert_true(kl_sim_used(0) > used);
    x = t_vector(s, 250000, 5); /* fits only when the cached block is given back */
    assert_int_equal(t_value(x), 5);
    kl_array_release(x);
    kl_array_release(warm);
    kl_sim_budget(0, (size_t)-1);
    kl_stream_release(s);
}

enum { HOPS = 12 };

/* Makes x[i] on stream i % 3, each in a command buffer of its own. They are submitted in this
 * order. */
static void hops(struct kl_stream **s, struct kl_array **x) {
    for (int i = 0; i < HOPS; i++) x[i] = i ? t_inc(s[i % 3], x[i - 1]) : t_const(s[0], 1);
}

static void a_refused_submission_in_the_middle(void **state) {
    struct kl_stream *s[3] = {device_stream(0), device_stream(0), device_stream(0)};
    for (int refused = 0; refused < HOPS; refused++) {
        struct kl_array *x[HOPS];
        hops(s, x);
        kl_sim_fail_submit_at(0, refused);
        async_one(x[HOPS - 1]);
        struct kl_error *last = t_error(x[HOPS - 1]);
        assert_int_equal(last->code, KL_ESUBMIT);
        for (int i = 0; i < HOPS; i++) {
            if (i < refused) {
                assert_int_equal(t_value(x[i]), i + 1);
            } else {
                struct kl_error *e = t_error(x[i]);
                assert_ptr_equal(e, last); /* all have the same error object */
                kl_error_release(e);
            }
        }
        kl_error_release(last);
        for (int k = 0; k < 3; k++) { /* the streams can be used again */
            struct kl_array *y = t_const(s[k], k);
            assert_int_equal(t_value(y), k);
            kl_array_release(y);
        }
        release_all(HOPS, x);
    }
    kl_sim_fail_submit_at(0, -1);
    for (int k = 0; k < 3; k++) kl_stream_release(s[k]);
}

static void a_device_lost_at_any_point(void **state) {
    struct kl_stream *s[3] = {device_stream(0), device_stream(0), device_stream(0)}, *cpu;
    t_streams("c", &cpu);
    size_t active = kl_memory_active();
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct kl_array *x[HOPS], *y;
        hops(s, x);
        y = t_inc(cpu, x[HOPS - 1]);
        kl_sim_seed(0, seed);
        kl_sim_lose_random(0, 6);
        async_one(y);
        bool failed = kl_eval(&x[0], 1, NULL) != 0;
        for (int i = 0; i < HOPS; i++) { /* good values, then failed ones */
            int rc = kl_eval(&x[i], 1, NULL);
            assert_true(rc == 0 || rc == KL_EDEVICELOST);
            if (failed) assert_int_equal(rc, KL_EDEVICELOST);
            failed = rc != 0;
        }
        if (failed) {
            t_expect_error(y, KL_EDEVICELOST);
        } else {
            struct kl_error *e = NULL;
            /* The value was good, but the device may have been lost before its copy to the host. */
            int rc = kl_eval(&y, 1, &e);
            assert_true(rc == 0 || rc == KL_EDEVICELOST);
            kl_error_release(e);
        }
        struct kl_array *z = t_const(cpu, 4); /* the CPU still works */
        assert_int_equal(t_value(z), 4);
        kl_sim_lose_random(0, 0);
        release_all(HOPS, x);
        kl_array_release(y);
        kl_array_release(z);
        for (int k = 0; k < 3; k++) (void)kl_stream_synchronize(s[k], NULL);
        kl_sim_revive(0);
    }
    struct kl_array *x[HOPS];
    hops(s, x);
    assert_int_equal(t_value(x[HOPS - 1]), HOPS);
    release_all(HOPS, x);
    for (int k = 0; k < 3; k++) assert_int_equal(kl_stream_synchronize(s[k], NULL), 0);
    assert_int_equal(kl_memory_active(), active);
    for (int k = 0; k < 3; k++) kl_stream_release(s[k]);
    kl_stream_release(cpu);
}

/* ---- two devices ---- */

static void from_device_to_device(void **state) {
    struct kl_stream *s[2] = {device_stream(0), device_stream(1)};
    assert_int_equal(kl_stream_device_index(s[1]), 1);
    struct kl_array *x = t_const(s[0], 0);
    uint64_t launches = kl_sim_n_launches(1);
    for (int i = 1; i <= 20; i++) {
        struct kl_array *y = t_inc(s[i % 2], x);
        kl_array_release(x);
        x = y;
    }
    assert_int_equal(t_value(x), 20);
    assert_int_equal(kl_sim_n_launches(1) - launches, 10);
    kl_array_release(x);
    /* An index array from the other device has a wrong index there. */
    int source[3] = {1, 2, 3}, where[2] = {2, 8};
    struct kl_array *host = ints(2, where), *at = NULL, *from = ints(3, source);
    assert_int_equal(kl_negative(&at, host, s[0], NULL), 0);
    x = take(s[1], from, at);
    struct kl_array *y = t_inc(s[0], x);
    struct kl_error *e = t_error(y);
    assert_int_equal(e->index, -8);
    assert_int_equal(e->position, 1);
    assert_int_equal(e->stream, kl_stream_index(s[1]));
    kl_error_release(e);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(host);
    kl_array_release(at);
    /* One device is lost. Its values are lost; copies of them elsewhere, and the other device, are
     * not. */
    x = t_const(s[0], 5);
    y = t_const(s[1], 6);
    struct kl_array *copied = t_add(s[1], x, y);
    assert_int_equal(t_value(copied), 11);
    kl_sim_lose(0);
    struct kl_array *dead = t_inc(s[0], y), *alive = t_inc(s[1], y), *of_copy = t_add(s[1], x, y);
    t_expect_error(dead, KL_EDEVICELOST);
    assert_int_equal(t_value(alive), 7);
    assert_int_equal(t_value(of_copy), 11);
    kl_sim_revive(0);
    struct kl_array *all[7] = {x, y, copied, dead, alive, of_copy, from};
    release_all(7, all);
    for (int k = 0; k < 2; k++) kl_stream_release(s[k]);
}

/* ---- the schedule does not matter ---- */

static void the_same_error_under_every_schedule(void **state) {
    struct kl_stream *s[4] = {device_stream(0), device_stream(0), device_stream(0),
                              device_stream(0)};
    int source[3] = {1, 2, 3}, a[3] = {0, 9, 8}, b[3] = {7, 0, 0}, c[3] = {0, 1, 2};
    struct kl_array *from = ints(3, source), *ia = ints(3, a), *ib = ints(3, b), *ic = ints(3, c);
    for (uint64_t seed = 1; seed <= 150; seed++) {
        kl_sim_seed(0, seed);
        struct kl_array *good = take(s[0], from, ic), *xa = take(s[1], from, ia),
                        *xb = take(s[2], from, ib);
        struct kl_array *ab = t_add(s[3], good, xa), *ba = t_add(s[0], xb, ab),
                        *end = t_add(s[2], ab, ba), *mid = t_add(s[1], ba, ab);
        struct kl_array *all[7] = {good, xa, xb, ab, ba, end, mid};
        assert_int_equal(kl_async_eval(all, 7, NULL), 0);
        struct kl_error *e_end = t_error(end), *e_mid = t_error(mid);
        /* The error is that of the lowest input that failed, at its smallest position. */
        assert_int_equal(e_end->index, 9);
        assert_int_equal(e_end->position, 1);
        assert_int_equal(e_end->stream, kl_stream_index(s[1]));
        assert_int_equal(e_mid->index, 7);
        assert_int_equal(e_mid->position, 0);
        assert_int_equal(e_mid->stream, kl_stream_index(s[2]));
        kl_error_release(e_end);
        kl_error_release(e_mid);
        assert_int_equal(t_value(good), 1);
        release_all(7, all);
    }
    kl_array_release(from);
    kl_array_release(ia);
    kl_array_release(ib);
    kl_array_release(ic);
    for (int k = 0; k < 4; k++) kl_stream_release(s[k]);
}

struct dtor_context {
    struct kl_stream *stream;
    struct gate done;
    int value;
};

static void dtor_that_evaluates(void *payload) {
    struct dtor_context *c = payload;
    struct kl_array *x = t_const(c->stream, 5);
    c->value = t_value(x);
    kl_array_release(x);
    pthread_mutex_lock(&c->done.mu);
    c->done.n_inside++;
    pthread_cond_broadcast(&c->done.changed);
    pthread_mutex_unlock(&c->done.mu);
}

/* An index array over the user's memory is released when its operation is settled. A thread that
 * nobody waits for releases it, since the destructor may itself wait for the device. */
static void a_destructor_may_use_the_device(void **state) {
    for (int round = 0; round < 20; round++) {
        int where[2] = {1, 2}, values[4] = {1, 2, 3, 4}, two = 2;
        struct dtor_context c = {.stream = device_stream(0)};
        gate_init(&c.done);
        struct kl_array *from = ints(4, values), *index = NULL;
        assert_int_equal(
            kl_array_new_user(&index, where, KL_I32, 1, &two, &c, dtor_that_evaluates, NULL), 0);
        struct kl_array *x = take(c.stream, from, index);
        kl_array_release(index);
        kl_sim_hold(0, true);
        async_one(x);
        until_handed_over(x);
        kl_sim_complete(0, kl_stream_index(c.stream), 1);
        kl_timeline_block(x->t.fate->timeline, x->t.fate->ticket);
        kl_sim_hold(0, false);
        gate_wait_arrived(&c.done, 1);
        assert_int_equal(c.value, 5);
        assert_int_equal(t_value(x), 2);
        kl_array_release(x);
        kl_array_release(from);
        kl_stream_release(c.stream);
    }
}

/* Three command buffers on three streams depend on each other. The host is notified of the last one
 * only, and its completion proves the other two complete. The streams are created in both orders,
 * since the settler visits streams in order of creation. The model in docs/model/ found this
 * case. */
static void the_last_of_three_proves_the_others(void **state) {
    for (int order = 0; order < 2; order++) {
        struct kl_stream *s[3];
        for (int k = 0; k < 3; k++) s[order ? 2 - k : k] = device_stream(0);
        kl_sim_hold(0, true);
        struct kl_array *x = t_const(s[0], 1), *y = t_inc(s[1], x), *z = t_inc(s[2], y);
        async_one(z);
        until_handed_over(z);
        kl_sim_complete(0, kl_stream_index(s[2]), 1);
        kl_timeline_block(z->t.fate->timeline, z->t.fate->ticket); /* the settler sleeps */
        assert_true(kl_array_settled(x) && kl_array_settled(y));
        kl_sim_hold(0, false);
        assert_int_equal(t_value(z), 3);
        /* The first two are settled by proof, but the device must still complete them. Otherwise
         * the next round on the same stream would take their completion for its own. */
        for (int k = 0; k < 3; k++) {
            struct kl_array *behind = t_const(s[k], k);
            assert_int_equal(t_value(behind), k);
            kl_array_release(behind);
        }
        struct kl_array *all[3] = {x, y, z};
        release_all(3, all);
        for (int k = 0; k < 3; k++) kl_stream_release(s[k]);
    }
}

/* A command buffer that was never submitted proves nothing about those before it in its stream,
 * which may still run. This holds even when a consumer of its value is complete. The storm test
 * found this case. */
static void an_unsubmitted_one_proves_nothing(void **state) {
    for (int order = 0; order < 2; order++) {
        struct kl_stream *s[3];
        for (int k = 0; k < 3; k++) s[order ? 2 - k : k] = device_stream(0);
        struct gate g;
        gate_init(&g);
        struct kl_array *running = t_gated(s[0], NULL, &g, false), *refused = t_const(s[0], 2);
        async_one(running);
        gate_wait_arrived(&g, 1);
        kl_sim_fail_submit_at(0, 0);
        async_one(refused);
        until_handed_over(refused);
        struct kl_array *both[2] = {t_inc(s[1], refused), t_const(s[1], 3)};
        kl_sim_hold(0, true);
        assert_int_equal(kl_async_eval(both, 2, NULL), 0);
        until_handed_over(both[0]);
        until_handed_over(both[1]);
        kl_sim_complete(0, kl_stream_index(s[1]), 1);
        kl_sim_hold(0, false);
        for (int k = 0; k < 20; k++) { /* each submission settles what is complete */
            struct kl_array *x = t_const(s[2], k);
            assert_int_equal(t_value(x), k);
            kl_array_release(x);
        }
        assert_false(kl_array_settled(running));
        gate_open(&g);
        (void)t_value(running);
        t_expect_error(refused, KL_ESUBMIT);
        t_expect_error(both[0], KL_ESUBMIT);
        assert_int_equal(t_value(both[1]), 3);
        struct kl_array *all[4] = {running, refused, both[0], both[1]};
        release_all(4, all);
        for (int k = 0; k < 3; k++) (void)kl_stream_synchronize(s[k], NULL);
        for (int k = 0; k < 3; k++) kl_stream_release(s[k]);
    }
}

/* While the device is busy a thread of its own hands over what is encoded. A refused submission is
 * met after operations that need its values were encoded: they fail with its error and do not run,
 * and others run. */
static void another_thread_hands_over(void **state) {
    enum { CHAIN = 4 * KL_MAX_OPS };
    struct kl_stream *s = device_stream(0);
    struct kl_gpu_device *dev = kl_gpu_device_of(s->backend);
    for (int refused = 0; refused < 2; refused++) {
        struct kl_array *busy = t_const(s, 1), *x[CHAIN];
        kl_sim_hold(0, true);
        async_one(busy);
        until_handed_over(busy);
        x[0] = t_const(s, 0);
        for (int i = 1; i < CHAIN - 1; i++) x[i] = t_inc(s, x[i - 1]);
        x[CHAIN - 1] = t_const(s, 5);
        if (refused) kl_sim_fail_submit_at(0, 1);
        assert_int_equal(kl_async_eval(x, CHAIN, NULL), 0);
        until_handed_over(x[CHAIN - 1]);
        assert_true(atomic_load(&dev->giver_started));
        kl_sim_hold(0, false);
        for (int i = 0; i < KL_MAX_OPS; i++) assert_int_equal(t_value(x[i]), i);
        for (int i = KL_MAX_OPS; i < CHAIN - 1; i++)
            if (refused)
                t_expect_error(x[i], KL_ESUBMIT);
            else
                assert_int_equal(t_value(x[i]), i);
        assert_int_equal(t_value(x[CHAIN - 1]), 5);
        (void)kl_stream_synchronize(s, NULL);
        release_all(CHAIN, x);
        kl_array_release(busy);
    }
    kl_stream_release(s);
}

static void until_watched(struct kl_stream *s, bool want) {
    struct kl_gpu_device *dev = kl_gpu_device_of(s->backend);
    for (bool is = !want; is != want;) {
        kl_mutex_lock(&dev->mu);
        is = dev->watched;
        kl_mutex_unlock(&dev->mu);
        sched_yield();
    }
}

static void *evaluate(void *a) {
    (void)t_value(a);
    return NULL;
}

/* The settlement thread waits for the first value, and a caller watches. What is handed over now is
 * that caller's to settle, until it stops watching; then it is settled without anybody's help,
 * although the first value is still pending. (The simulated device wakes the settlement thread at
 * each completion; others rely on the wake-up at the end of the watch.) */
static void handed_over_while_a_caller_watches(void **state) {
    struct kl_stream *s[2] = {device_stream(0), device_stream(0)};
    pthread_t caller;
    kl_sim_hold(0, true);
    struct kl_array *first = t_const(s[0], 1), *second = t_const(s[1], 2);
    async_one(first);
    until_handed_over(first);
    assert_int_equal(pthread_create(&caller, NULL, evaluate, first), 0);
    until_watched(s[0], true);
    async_one(second);
    until_handed_over(second);
    until_watched(s[0], false);
    kl_sim_complete(0, kl_stream_index(s[1]), 1);
    while (!kl_array_settled(second)) sched_yield();
    assert_false(kl_array_settled(first));
    kl_sim_hold(0, false);
    pthread_join(caller, NULL);
    assert_int_equal(t_value(second), 2);
    release_all(2, (struct kl_array *[]){first, second});
    for (int k = 0; k < 2; k++) kl_stream_release(s[k]);
}

static void *synchronize(void *s) {
    (void)kl_stream_synchronize(s, NULL);
    return NULL;
}

/* A command buffer of operations that do not run is complete from the beginning, and the driver
 * tells nobody of it. Handed over while a caller watched, and not seen by that one, it is settled
 * by the settlement thread, though another caller has slept for it all the time. */
static void one_that_never_runs_is_settled(void **state) {
    struct kl_stream *s = device_stream(0), *host = NULL;
    struct kl_gpu_device *dev = kl_gpu_device_of(s->backend);
    struct gate g;
    gate_init(&g);
    assert_int_equal(kl_stream_new(&host, KL_CPU, 0, NULL), 0);
    struct kl_array *failed = t_gated(host, NULL, &g, true), *x = t_inc(s, failed);
    pthread_t caller;
    async_one(x);
    gate_wait_arrived(&g, 1);
    kl_mutex_lock(&dev->mu);
    dev->watched = true;
    kl_mutex_unlock(&dev->mu);
    assert_int_equal(pthread_create(&caller, NULL, synchronize, s), 0);
    while (!kl_timeline_is_awaited(x->t.fate->timeline)) sched_yield();
    gate_open(&g);
    until_handed_over(x);
    kl_mutex_lock(&dev->mu);
    dev->watched = false;
    const bool listens = kl_gpu_settler_told(dev);
    kl_mutex_unlock(&dev->mu);
    if (listens) dev->driver->ops->wake(dev->driver);
    pthread_join(caller, NULL);
    t_expect_error(x, KL_EKERNEL);
    release_all(2, (struct kl_array *[]){failed, x});
    kl_stream_release(host);
    kl_stream_release(s);
}

static int two_devices(void **state) {
    return t_use_sim(NULL) || setenv("KEEL_SIM_DEVICES", "2", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_buffers_are_cut),
        cmocka_unit_test(large_evaluations_begin_command_buffers),
        cmocka_unit_test(a_run_is_cut_alike_by_caller_and_pool),
        cmocka_unit_test(split_launches_give_the_same),
        cmocka_unit_test(split_scatters_give_the_same),
        cmocka_unit_test(fault_words_run_out),
        cmocka_unit_test(ten_thousand_faults),
        cmocka_unit_test(the_index_array_lives_until_settlement),
        cmocka_unit_test(memory_in_flight_is_nobody_elses),
        cmocka_unit_test(a_host_shadow_is_made_once),
        cmocka_unit_test(out_of_device_memory),
        cmocka_unit_test(a_refused_submission_in_the_middle),
        cmocka_unit_test(a_device_lost_at_any_point),
        cmocka_unit_test(from_device_to_device),
        cmocka_unit_test(the_same_error_under_every_schedule),
        cmocka_unit_test(a_destructor_may_use_the_device),
        cmocka_unit_test(the_last_of_three_proves_the_others),
        cmocka_unit_test(another_thread_hands_over),
        cmocka_unit_test(handed_over_while_a_caller_watches),
        cmocka_unit_test(one_that_never_runs_is_settled),
        cmocka_unit_test(an_unsubmitted_one_proves_nothing),
    };
    return cmocka_run_group_tests(tests, two_devices, NULL);
}
