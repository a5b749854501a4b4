/* test_pool.c - the shared threads: every chunk runs exactly once, chunks may be started inside
 * chunks, and the caller can run all chunks alone. */
#include "graph/graph_support.h"
#include "platform/self.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNKS = 5000, MAX_THREADS = 512 };

typedef void parallel_fn(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
static parallel_fn *const ways[] = {kl_pool_parallel, kl_pool_parallel_short};
enum { N_WAYS = 2 };

static _Atomic(int) runs[CHUNKS];

static void count_chunk(void *arg, int64_t i) {
    atomic_fetch_add(&runs[i], 1);
    atomic_fetch_add((_Atomic(int64_t) *)arg, i);
}

static void expect_once(int64_t n, _Atomic(int64_t) *sum) {
    assert_int_equal(atomic_load(sum), n * (n - 1) / 2);
    for (int64_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(atomic_load(&runs[i]), i < n);
        atomic_store(&runs[i], 0);
    }
}

/* This test is the first one of the process. */
static void before_the_pool_starts(void **state) {
    assert_int_equal(kl_pool_n_threads(), 0);
    for (int w = 0; w < N_WAYS; w++) {
        _Atomic(int64_t) sum = 0;
        ways[w](1000, count_chunk, &sum);
        expect_once(1000, &sum);
    }
    assert_int_equal(kl_pool_n_threads(), 0);
    struct kl_error *e = NULL;
    kl_test_fail_alloc_at(0); /* fails: the start of the first thread */
    assert_int_equal(kl_pool_start(&e), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    assert_non_null(strstr(e->message, "pool"));
    kl_error_release(e);
    assert_int_equal(kl_pool_start(NULL), 0);
    int n = kl_pool_n_threads();
    assert_true(n >= 1);
    assert_int_equal(kl_pool_start(NULL), 0); /* a second start makes no more threads */
    assert_int_equal(kl_pool_n_threads(), n);
}

/* A process that may use one of several processors gets one thread, where a system binds one. The
 * test runs in a child, whose pool has not started. */
static void as_many_threads_as_processors(void **state) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (kl_n_processors() != t_n_processors()) _exit(2);
        const int left = t_bind_to_one() ? t_n_processors() : 1;
        if (kl_n_processors() != left) _exit(3);
        if (kl_pool_start(NULL) || kl_pool_n_threads() != left) _exit(4);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void every_chunk_once(void **state) {
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, CHUNKS};
    for (int round = 0; round < 80; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            _Atomic(int64_t) sum = 0;
            ways[round % N_WAYS](sizes[i], count_chunk, &sum);
            expect_once(sizes[i], &sum);
        }
}

/* Short jobs one right after another: no chunk of one is lost or runs in the next. */
static void chain_chunk(void *arg, int64_t i) {
    atomic_fetch_add((_Atomic(int64_t) *)arg, 1);
}
static void a_chain_of_short_jobs(void **state) {
    for (int round = 0; round < 20000; round++) {
        _Atomic(int64_t) n_done = 0;
        const int64_t n = 2 + round % 30;
        kl_pool_parallel_short(n, chain_chunk, &n_done);
        assert_int_equal(atomic_load(&n_done), n);
    }
}

/* ---- several callers, and items that call ---- */

static void add_chunk(void *arg, int64_t i) {
    atomic_fetch_add((_Atomic(int64_t) *)arg, i + 1);
}

static void *call_in_a_thread(void *arg) {
    for (int i = 0; i < 400; i++) {
        _Atomic(int64_t) sum = 0;
        ways[i / 3 % N_WAYS](50, add_chunk, &sum);
        if (atomic_load(&sum) != 50 * 51 / 2) return NULL;
    }
    return arg;
}

static void several_callers(void **state) {
    pthread_t threads[4];
    int token;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_in_a_thread, &token), 0);
    for (int i = 0; i < 4; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
}

struct work {
    struct kl_item item;
    struct gate *gate; /* a gate that the item waits at; NULL: none */
    int64_t sum;
    struct gate *done;
};

static void arrive(struct gate *g, bool wait) {
    pthread_mutex_lock(&g->mu);
    g->n_inside++;
    pthread_cond_broadcast(&g->changed);
    while (wait && !g->open) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

static void nested_chunk(void *arg, int64_t i) {
    ways[i % N_WAYS](10, add_chunk, arg);
}

static void run_work(struct kl_item *item) {
    struct work *w = kl_container(item, struct work, item);
    if (w->gate) arrive(w->gate, true);
    _Atomic(int64_t) sum = 0;
    for (int way = 0; way < N_WAYS; way++) ways[way](20, nested_chunk, &sum);
    w->sum = atomic_load(&sum);
    arrive(w->done, false);
}

static void chunks_inside_chunks_inside_items(void **state) {
    static struct work w[300];
    struct gate done;
    gate_init(&done);
    for (int i = 0; i < 300; i++) {
        w[i] = (struct work){.item = {.run = run_work}, .done = &done};
        kl_pool_push(&w[i].item);
    }
    gate_wait_arrived(&done, 300);
    for (int i = 0; i < 300; i++) assert_int_equal(w[i].sum, N_WAYS * 20 * 55);
}

static void a_caller_finishes_alone(void **state) {
    static struct work w[MAX_THREADS];
    int n = kl_pool_n_threads();
    assert_in_range(n, 1, MAX_THREADS);
    struct gate held, done;
    gate_init(&held);
    gate_init(&done);
    for (int i = 0; i < n; i++) {
        w[i] = (struct work){.item = {.run = run_work}, .gate = &held, .done = &done};
        kl_pool_push(&w[i].item);
    }
    gate_wait_arrived(&held, n); /* no thread of the pool is free */
    for (int way = 0; way < N_WAYS; way++) {
        _Atomic(int64_t) sum = 0;
        ways[way](CHUNKS, count_chunk, &sum);
        expect_once(CHUNKS, &sum);
    }
    gate_open(&held);
    gate_wait_arrived(&done, n);
    for (int i = 0; i < n; i++) assert_int_equal(w[i].sum, N_WAYS * 20 * 55);
}

struct ordered {
    struct kl_item item;
    int number;
    struct gate *done;
};

static int trail[200], n_trail;
static pthread_mutex_t trail_mu = PTHREAD_MUTEX_INITIALIZER;

static void run_ordered(struct kl_item *item) {
    struct ordered *o = kl_container(item, struct ordered, item);
    pthread_mutex_lock(&trail_mu);
    trail[n_trail++] = o->number;
    pthread_mutex_unlock(&trail_mu);
    arrive(o->done, false);
}

static void items_are_taken_first_come_first_served(void **state) {
    static struct work w[MAX_THREADS];
    static struct ordered o[200];
    int n = kl_pool_n_threads();
    struct gate held, last, done, ordered_done;
    gate_init(&held);
    gate_init(&last);
    gate_init(&done);
    gate_init(&ordered_done);
    for (int i = 0; i < n; i++) { /* all threads but one are held until the test ends */
        w[i] = (struct work){.item = {.run = run_work}, .gate = i ? &held : &last, .done = &done};
        kl_pool_push(&w[i].item);
    }
    gate_wait_arrived(&last, 1);
    gate_wait_arrived(&held, n - 1);
    for (int i = 0; i < 200; i++) {
        o[i] = (struct ordered){.item = {.run = run_ordered}, .number = i, .done = &ordered_done};
        kl_pool_push(&o[i].item);
    }
    gate_open(&last);
    gate_wait_arrived(&ordered_done, 200);
    for (int i = 0; i < 200; i++) assert_int_equal(trail[i], i);
    gate_open(&held);
    gate_wait_arrived(&done, n);
}

/* A caller that is not a thread of the pool counts as one: caller and threads together are as many
 * as the pool has. Each chunk yields, so that other threads may join. */
struct crowd {
    _Atomic(int) inside, most;
};
static void crowd_chunk(void *arg, int64_t i) {
    struct crowd *c = arg;
    int now = atomic_fetch_add(&c->inside, 1) + 1, most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {
    }
    for (int turns = 0; turns < 1000; turns++) sched_yield();
    atomic_fetch_sub(&c->inside, 1);
}
static void no_more_threads_than_the_pool_has(void **state) {
    struct crowd c = {0};
    for (int round = 0; round < 40; round++) ways[round % N_WAYS](40, crowd_chunk, &c);
    assert_in_range(atomic_load(&c.most), 1, kl_pool_n_threads());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_threads_as_processors),
        cmocka_unit_test(before_the_pool_starts),
        cmocka_unit_test(every_chunk_once),
        cmocka_unit_test(a_chain_of_short_jobs),
        cmocka_unit_test(several_callers),
        cmocka_unit_test(chunks_inside_chunks_inside_items),
        cmocka_unit_test(a_caller_finishes_alone),
        cmocka_unit_test(items_are_taken_first_come_first_served),
        cmocka_unit_test(no_more_threads_than_the_pool_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
