/* test_share.c - memory that host and device share, on the simulated device: nothing is copied, and
 * nothing is written, reused or freed while the other side may still read it. The simulated device
 * aborts when commands use memory that they were not given, or write memory that the host may
 * read. */
#include "graph/graph_support.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/op/validate.h"
#include "base/value/release.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

enum { N = 1000, ROUNDS = 30 };

/* An array on the host with the values first, first + 1, ... */
static struct kl_array *counted(int first) {
    int v[N], n = N;
    struct kl_array *a = NULL;
    for (int i = 0; i < N; i++) v[i] = first + i;
    assert_int_equal(kl_array_new_data(&a, v, KL_I32, 1, &n, NULL), 0);
    return a;
}

static struct kl_array *negative(struct kl_stream *s, struct kl_array *a) {
    struct kl_array *r = NULL;
    assert_int_equal(kl_negative(&r, a, s, NULL), 0);
    return r;
}

static int *host(struct kl_array *a) {
    void *p = NULL;
    struct kl_error *e = NULL;
    if (kl_array_host(a, &p, &e)) fail_msg("%s", e->message);
    return p;
}

static void expect(struct kl_array *a, int first, int step) {
    const int *p = host(a);
    for (int i = 0; i < N; i++)
        if (p[i] != first + i * step) fail_msg("element %d is %d", i, p[i]);
}

static void *address(struct kl_array *a) {
    return a->t.buffer->block->ptr;
}

static void start(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
}

static void until_handed_over(struct kl_array *a) {
    kl_timeline_block(a->t.fate->timeline->handed, a->t.fate->ticket);
}

/* ---- no copies ---- */

static void values_are_read_where_they_are(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    struct kl_array *x = counted(3), *y = negative(s[0], x), *v = NULL, *z;
    t_settle(y);
    assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
    size_t active = kl_memory_active(), used = kl_sim_used(0);
    uint64_t copied = kl_test_bytes_copied();
    int shared = kl_sim_n_shared(0);
    assert_ptr_equal(host(y), address(y)); /* the user reads the device's block in place */
    int from = 10, to = 20, step = 1;
    assert_int_equal(kl_slice(&v, y, &from, 1, &to, 1, &step, 1, s[0], NULL), 0);
    assert_ptr_equal(host(v), (int *)address(y) + 10);
    assert_int_equal(kl_memory_active(), active);
    assert_int_equal(kl_sim_n_shared(0), shared + 1);
    /* The CPU reads it in place, and has a block of its own for the result. */
    z = negative(s[1], y);
    expect(z, 3, 1);
    assert_int_equal(kl_sim_used(0), used);
    assert_int_equal(kl_test_bytes_copied(), copied);
    assert_null(atomic_load(&y->t.buffer->mirrors));
    struct kl_array *all[4] = {x, y, v, z};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    assert_int_equal(kl_stream_synchronize(s[1], NULL), 0);
    kl_memory_clear_cache();
    assert_int_equal(kl_sim_n_shared(0), 0);
    t_streams_free(2, s);
}

static void both_sides_in_turn(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    for (int whole = 0; whole < 2; whole++) { /* evaluated one by one, or all at once */
        uint64_t copied = kl_test_bytes_copied();
        struct kl_array *x = counted(7);
        for (int i = 0; i < 40; i++) {
            struct kl_array *y = negative(s[i % 2], x);
            kl_array_release(x);
            x = y;
            if (!whole) t_settle(x);
        }
        expect(x, 7, 1);
        kl_array_release(x);
        assert_int_equal(kl_test_bytes_copied(), copied);
    }
    t_streams_free(2, s);
}

static _Atomic(int) n_destroyed;
static void destroyed(void *payload) {
    memset(payload, 0x77, N * sizeof(int));
    atomic_fetch_add(&n_destroyed, 1);
}

/* The device reads memory of the user, and the destructor runs when the device has read it. */
static void memory_of_the_user(void **state) {
    struct kl_stream *s[1];
    t_streams("g", s);
    static _Alignas(64) int memory[N + 1];
    /* misaligned: the address is misaligned, so the memory is copied at once. */
    for (int misaligned = 0; misaligned < 2; misaligned++) {
        int n = N, *v = memory + misaligned, before = atomic_load(&n_destroyed);
        uint64_t copied = kl_test_bytes_copied();
        for (int i = 0; i < N; i++) v[i] = i;
        struct kl_array *x = NULL, *y;
        assert_int_equal(kl_array_new_user(&x, v, KL_I32, 1, &n, v, destroyed, NULL), 0);
        kl_sim_pause(0, true);
        y = negative(s[0], x);
        kl_array_release(x);
        start(y);
        until_handed_over(y);
        kl_release_drain();
        assert_int_equal(atomic_load(&n_destroyed) - before, misaligned);
        assert_int_equal(kl_test_bytes_copied() - copied, misaligned ? N * sizeof(int) : 0);
        kl_sim_pause(0, false);
        expect(y, 0, -1);
        assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
        kl_release_drain();
        assert_int_equal(atomic_load(&n_destroyed) - before, 1);
        expect(y, 0, -1);
        kl_array_release(y);
    }
    t_streams_free(1, s);
}

static void two_devices(void **state) {
    struct kl_stream *s[2];
    assert_int_equal(kl_stream_new(&s[0], KL_GPU, 0, NULL), 0);
    assert_int_equal(kl_stream_new(&s[1], KL_GPU, 1, NULL), 0);
    for (int first = 0; first < 2; first++) {
        uint64_t copied = kl_test_bytes_copied();
        struct kl_array *x = counted(1), *y = negative(s[first], x), *z = negative(s[!first], x);
        expect(y, -1, -1);
        expect(z, -1, -1); /* one device shares the host's block, the other has a copy */
        assert_int_equal(kl_test_bytes_copied() - copied, N * sizeof(int));
        /* The memory of one device is copied for the other. */
        struct kl_array *w = negative(s[!first], y);
        expect(w, 1, 1);
        assert_int_equal(kl_test_bytes_copied() - copied, 2 * N * sizeof(int));
        struct kl_array *all[4] = {x, y, z, w};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
    t_streams_free(2, s);
}

/* ---- nothing is written or handed on too early ---- */

/* The device has not yet run a kernel that reads a block of the host. No result of the CPU may get
 * this block, by donation or from the pool. */
static void the_device_still_reads(void **state) {
    struct kl_stream *s[3];
    t_streams("gcc", s);
    for (int round = 0; round < ROUNDS; round++) {
        struct kl_array *x = counted(round), *c = negative(s[1], x), *y, *mine, *other, *raw;
        kl_array_release(x);
        t_settle(c);
        assert_int_equal(kl_stream_synchronize(s[1], NULL), 0);
        void *block = address(c);
        kl_sim_pause(0, true);
        y = negative(s[0], c);
        start(y);
        until_handed_over(y);
        mine = negative(s[1], c); /* could be computed in place */
        kl_array_release(c);
        t_settle(mine);
        assert_ptr_not_equal(address(mine), block);
        other = t_vector(s[1 + round % 2], N, 99); /* could get the block from the pool */
        raw = counted(5000);
        t_settle(other);
        assert_ptr_not_equal(address(other), block);
        assert_ptr_not_equal(address(raw), block);
        kl_memory_clear_cache(); /* the block is not returned to the system either */
        kl_sim_pause(0, false);
        expect(y, round, 1);
        expect(mine, round, 1);
        struct kl_array *all[4] = {y, mine, other, raw};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
    t_streams_free(3, s);
}

struct reading {
    struct gate gate;
    int first, last;
};
static int k_reads_late(void *ctx, struct kl_launch *l, struct kl_error **err) {
    struct reading *r = ctx;
    const int *p = l->in[0].data;
    pthread_mutex_lock(&r->gate.mu);
    r->gate.n_inside++;
    pthread_cond_broadcast(&r->gate.changed);
    while (!r->gate.open) pthread_cond_wait(&r->gate.changed, &r->gate.mu);
    pthread_mutex_unlock(&r->gate.mu);
    r->first = p[0];
    r->last = p[N - 1];
    *(int *)l->out[0].data = 1;
    return KL_OK;
}

/* A kernel of the CPU is reading a block of the device. */
static void the_host_still_reads(void **state) {
    struct kl_stream *s[3];
    t_streams("ggc", s);
    for (int round = 0; round < ROUNDS; round++) {
        struct reading r;
        gate_init(&r.gate);
        struct kl_array *x = counted(round), *y = negative(s[0], x), *same, *other, *late, *z;
        struct kl_call_params p = {.name = "reads_late", .fn = k_reads_late, .ctx = &r};
        kl_array_release(x);
        t_settle(y);
        void *block = address(y);
        late = t_call(s[2], &p, &y, 1, KL_I32, 0, NULL);
        start(late);
        gate_wait_arrived(&r.gate, 1);
        z = negative(s[0], y);
        kl_array_release(y);
        same = t_vector(s[0], N, 99);
        other = t_vector(s[1], N, 98);
        t_settle(z);
        t_settle(same);
        t_settle(other);
        struct kl_array *all[4] = {z, same, other, late};
        for (int i = 0; i < 3; i++) assert_ptr_not_equal(address(all[i]), block);
        gate_open(&r.gate);
        assert_int_equal(t_value(late), 1);
        assert_int_equal(r.first, -round);
        assert_int_equal(r.last, -round - (N - 1));
        expect(z, round, 1);
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
    t_streams_free(3, s);
}

/* While a handle lives, its address shows its value, whatever the device does. Then the memory is
 * reused, and the host reads it again. */
static void an_address_lives_as_long_as_a_handle(void **state) {
    struct kl_stream *s[1];
    t_streams("g", s);
    for (int round = 0; round < ROUNDS; round++) {
        struct kl_array *x = counted(1), *y = negative(s[0], x), *z, *w;
        const int *p = host(y);
        z = negative(s[0], y);
        for (int i = 0; i < 5; i++) {
            w = t_vector(s[0], N, i);
            t_settle(w);
            kl_array_release(w);
        }
        t_settle(z);
        assert_ptr_not_equal(address(z), p);
        for (int i = 0; i < N; i++) assert_int_equal(p[i], -1 - i);
        assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
        w = negative(s[0], y);
        kl_array_release(y);
        t_settle(w); /* computed in place; the device would abort if the host might still read */
        assert_ptr_equal(address(w), p);
        expect(w, 1, 1);
        kl_array_release(x);
        kl_array_release(z);
        kl_array_release(w);
    }
    t_streams_free(1, s);
}

static void a_failed_value_is_never_shown(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    kl_memory_clear_cache();
    int shared = kl_sim_n_shared(0), wrong[2] = {0, N}, two = 2;
    struct kl_array *x = counted(0), *on_device = negative(s[0], x), *at = NULL, *y = NULL, *z;
    t_settle(on_device);
    assert_int_equal(kl_array_new_data(&at, wrong, KL_I32, 1, &two, NULL), 0);
    assert_int_equal(kl_take_axis(&y, on_device, at, 0, s[0], NULL), 0);
    z = negative(s[1], y);
    struct kl_error *e = t_error(z), *same = t_error(y);
    assert_ptr_equal(e, same);
    assert_int_equal(e->code, KL_EINDEX);
    assert_int_equal(e->index, N);
    assert_null(atomic_load(&y->t.buffer->block->shared_by));
    assert_int_equal(kl_sim_n_shared(0), shared + 2); /* x and the index array */
    kl_error_release(e);
    kl_error_release(same);
    struct kl_array *all[5] = {x, on_device, at, y, z};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
    t_streams_free(2, s);
}

/* ---- what can go wrong ---- */

static void every_allocation_fails(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    struct kl_array *warm = counted(0), *w[2] = {negative(s[0], warm), negative(s[1], warm)};
    expect(w[0], 0, -1);
    expect(w[1], 0, -1);
    bool done = false;
    for (int n = 0; !done; n++) {
        assert_true(n < 1000);
        struct kl_array *x = counted(2), *y = negative(s[0], x), *z = negative(s[1], y);
        kl_memory_clear_cache();
        void *p = NULL;
        struct kl_error *e = NULL;
        kl_test_fail_alloc_at(n);
        int rc = kl_array_host(z, &p, &e);
        kl_test_fail_alloc_at(-1);
        if (rc) {
            assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(e);
        } else {
            expect(z, 2, 1);
            done = kl_test_n_alloc_attempts() <= n;
        }
        (void)kl_stream_synchronize(s[0], NULL);
        (void)kl_stream_synchronize(s[1], NULL);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
    }
    kl_array_release(warm);
    kl_array_release(w[0]);
    kl_array_release(w[1]);
    assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
    kl_memory_clear_cache();
    assert_int_equal(kl_sim_n_shared(0), 0);
    t_streams_free(2, s);
}

static void a_lost_device(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    struct kl_array *x = counted(4), *shown = negative(s[0], x), *unread = negative(s[0], x), *y;
    expect(shown, -4, -1);
    t_settle(unread);
    kl_sim_lose(0);
    y = negative(s[0], x);
    t_expect_error(y, KL_EDEVICELOST);
    expect(shown, -4, -1);
    t_expect_error(unread, KL_EDEVICELOST);
    expect(x, 4, 1); /* the block that the device read belongs to the host as before */
    kl_sim_revive(0);
    expect(unread, -4, -1);
    struct kl_array *all[4] = {x, shown, unread, y};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    t_streams_free(2, s);
}

/* Eight threads ask for the same values at once. They get one address, and the block is shared
 * once. */
static struct kl_array *asked[2];
static void *asking(void *arg) {
    struct kl_stream *s = arg;
    void *p = NULL;
    struct kl_array *z = NULL;
    if (kl_negative(&z, asked[1], s, NULL) || kl_array_host(z, &p, NULL)) return NULL;
    kl_array_release(z);
    return kl_array_host(asked[0], &p, NULL) ? NULL : p;
}
static void threads_ask_at_once(void **state) {
    struct kl_stream *s[8];
    t_streams("ggggcccc", s);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t t[8];
        struct kl_array *x = counted(round);
        asked[1] = counted(1);
        asked[0] = negative(s[0], x);
        t_settle(asked[0]);
        kl_array_release(x);
        for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&t[i], NULL, asking, s[i]), 0);
        for (int i = 0; i < 8; i++) {
            void *p = NULL;
            pthread_join(t[i], &p);
            assert_ptr_equal(p, address(asked[0]));
        }
        expect(asked[0], -round, -1);
        kl_array_release(asked[0]);
        kl_array_release(asked[1]);
        for (int i = 0; i < 8; i++) assert_int_equal(kl_stream_synchronize(s[i], NULL), 0);
        kl_memory_clear_cache();
        assert_int_equal(kl_sim_n_shared(0), 0);
    }
    t_streams_free(8, s);
}

/* ---- validation sees what the rules prevent ---- */

static int k_fill(void *ctx, struct kl_launch *l, struct kl_error **err) {
    int *p = l->out[0].data;
    for (int64_t i = 0; i < l->out[0].size; i++) p[i] = 1;
    if (ctx) ((int *)l->in[0].data)[N] = 5;
    return KL_OK;
}

static struct kl_array *fill(struct kl_stream *s, const char *name, struct kl_array *in,
                             bool outside) {
    int n = N;
    struct kl_call_params p = {.name = name, .fn = k_fill, .ctx = outside ? (void *)1 : NULL};
    return t_call(s, &p, &in, in ? 1 : 0, KL_I32, 1, &n);
}

static int finding(struct kl_array *x, const char *text) {
    struct kl_error *e = t_error(x);
    assert_int_equal(e->code, KL_EVALIDATE);
    if (!strstr(e->message, text)) fail_msg("no '%s' in: %s", text, e->message);
    kl_error_release(e);
    return 0;
}

/* Runs in a process of its own, since the first block decides whether blocks have guards. */
static int validating(void) {
    kl_test_set_validating(true);
    struct kl_stream *s[3];
    t_streams("gcc", s);
    for (int skip = 0; skip < 2; skip++)
        for (int i = 0; i < 50; i++) {
            struct kl_array *x = fill(s[1], "source", NULL, false), *y, *z;
            t_settle(x);
            assert_int_equal(kl_stream_synchronize(s[1], NULL), 0);
            kl_memory_clear_cache();
            kl_sim_hold(0, true);
            y = fill(s[0], "user", x, false);
            start(y);
            until_handed_over(y);
            kl_array_release(x); /* a block of the host that the device uses */
            kl_test_skip_handover_check(skip);
            z = fill(s[2], "intruder", NULL, false);
            if (skip)
                finding(z, "'user'");
            else
                t_settle(z);
            kl_test_skip_handover_check(false);
            kl_sim_hold(0, false);
            assert_int_equal(t_value(y), 1);
            if (!skip) assert_int_equal(t_value(z), 1);
            kl_array_release(y);
            kl_array_release(z);
        }
    /* A kernel of each side writes outside of the other side's block. */
    for (int k = 0; k < 2; k++) {
        struct kl_array *x = fill(s[k], "source", NULL, false), *y;
        y = fill(s[!k], "writer", x, true);
        finding(y, "input 0 of 'writer'");
        kl_array_release(x);
        kl_array_release(y);
    }
    t_streams_free(3, s);
    return 0;
}

static void validation_sees_both_sides(void **state) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) kl_test_run_again((const char *[]){"validating", NULL});
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int use_sharing_devices(void **state) {
    return t_use_sim(NULL) || setenv("KEEL_SIM_DEVICES", "2", 1) ||
           setenv("KEEL_SIM_SHARED", "1", 1);
}

static void validating_test(void **state) {
    assert_int_equal(validating(), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest validation[] = {cmocka_unit_test(validating_test)};
    if (argc > 1) return cmocka_run_group_tests(validation, use_sharing_devices, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_where_they_are),
        cmocka_unit_test(both_sides_in_turn),
        cmocka_unit_test(memory_of_the_user),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(the_device_still_reads),
        cmocka_unit_test(the_host_still_reads),
        cmocka_unit_test(an_address_lives_as_long_as_a_handle),
        cmocka_unit_test(a_failed_value_is_never_shown),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(a_lost_device),
        cmocka_unit_test(threads_ask_at_once),
        cmocka_unit_test(validation_sees_both_sides),
    };
    return cmocka_run_group_tests(tests, use_sharing_devices, NULL);
}
