/* test_rendezvous.c - processes that meet without a launcher of MPI, and their control connections:
 * here threads stand for processes. Who is missing, refused, or a stranger. launcher.h starts whole
 * processes so ("meeting"). */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/collective/control_connect.h"
#include "backend/collective/listener.h"
#include "backend/collective/rendezvous.h"
#include "base/platform/clock.h"

enum { MOST = 8, LONG_S = 60 };

static int64_t in_seconds(double s) {
    return kl_clock_ns() + (int64_t)(s * 1e9);
}

/* A port at which nobody listens. */
static int free_port(void) {
    struct kl_listener l;
    uint32_t port = 0;
    assert_int_equal(kl_listener_open(&l, htonl(INADDR_LOOPBACK), &port, 1, 16), 0);
    kl_listener_close(&l);
    return (int)port;
}

/* ---- processes ---- */

struct process {
    int rank, size, port;
    double limit;
    pthread_t thread;
    int rc;
    struct kl_rendezvous *r;
    struct kl_error *err;
};

static void *open_one(void *arg) {
    struct process *p = arg;
    p->rc = kl_rendezvous_open(&p->r, "127.0.0.1", p->port, p->rank, p->size,
                               (int64_t)(p->limit * 1e9), &p->err);
    return NULL;
}

static void start(struct process *p, int rank, int size, int port, double limit) {
    *p = (struct process){.rank = rank, .size = size, .port = port, .limit = limit};
    assert_int_equal(pthread_create(&p->thread, NULL, open_one, p), 0);
}

static void finish(struct process *p) {
    assert_int_equal(pthread_join(p->thread, NULL), 0);
}

static void expect_joined(struct process *p) {
    finish(p);
    if (p->rc) fail_msg("rank %d: %s", p->rank, p->err ? p->err->message : "no message");
}

/* It failed, and says both. */
static void expect_failed(struct process *p, const char *text, const char *more) {
    finish(p);
    assert_int_equal(p->rc, KL_EGROUP);
    if (!strstr(p->err->message, text) || !strstr(p->err->message, more))
        fail_msg("rank %d: \"%s\" does not say \"%s\" and \"%s\"", p->rank, p->err->message, text,
                 more);
    kl_error_release(p->err);
}

static void *gather_one(void *arg) {
    struct process *p = arg;
    const struct kl_gathering by = {.state = p->r, .limit_ns = (int64_t)LONG_S * 1000000000};
    int64_t mine[2] = {100 + p->rank, p->size}, all[2 * MOST];
    for (int k = 0; k < 3; k++, mine[0]++) {
        p->rc = kl_rendezvous_gather(&by, mine, all, sizeof mine, &p->err);
        for (int i = 0; i < p->size && !p->rc; i++)
            if (all[2 * i] != 100 + i + k || all[2 * i + 1] != p->size) p->rc = 1;
    }
    kl_rendezvous_close(p->r);
    return NULL;
}

/* All that joined gather, and leave. */
static void gather_all(struct process *p, int n) {
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&p[i].thread, NULL, gather_one, &p[i]), 0);
    for (int i = 0; i < n; i++) expect_joined(&p[i]);
}

static void join_and_gather(struct process *p, int n) {
    for (int i = 0; i < n; i++) expect_joined(&p[i]);
    gather_all(p, n);
}

/* ---- strangers ---- */

/* A connection with the port, as soon as somebody listens there. */
static int stranger(int port) {
    const int64_t until = in_seconds(LONG_S);
    int fd = -1;
    while (fd < 0 && kl_clock_ns() < until)
        fd = kl_connect_until(htonl(INADDR_LOOPBACK), (uint32_t)port, until);
    assert_true(fd >= 0);
    return fd;
}

static void says(int fd, const char *text, size_t n) {
    assert_int_equal(kl_move_whole(fd, (void *)(uintptr_t)text, n, true, in_seconds(LONG_S)), 0);
}

/* ---- cases ---- */

static void joins(void **state) {
    for (int size = 1; size <= MOST; size *= 2) {
        struct process p[MOST];
        const int port = free_port();
        for (int i = size - 1; i >= 0; i--) start(&p[i], i, size, port, LONG_S);
        join_and_gather(p, size);
    }
}

/* The first one names who is missing, to the others too. */
static void one_is_missing(void **state) {
    struct process p[3];
    const int port = free_port();
    for (int i = 0; i < 3; i++) start(&p[i], i == 2 ? 3 : i, 4, port, 1);
    expect_failed(&p[0], "of 4 processes these did not come within 1 s (KEEL_DIST_TIMEOUT): ", "2");
    expect_failed(&p[1], "KEEL_DIST_TIMEOUT", "127.0.0.1, port ");
    expect_failed(&p[2], "KEEL_DIST_TIMEOUT", "127.0.0.1, port ");
}

static void many_are_missing(void **state) {
    struct process p;
    start(&p, 0, 40, free_port(), 0.1);
    expect_failed(&p, "of 40 processes", ": 1, 2, 3, 4, 5, 6, 7, 8 and 31 more");
}

static void nobody_listens(void **state) {
    struct process p;
    start(&p, 1, 2, free_port(), 0.1);
    expect_failed(&p, "within 0.1 s (KEEL_DIST_TIMEOUT) no connection with rank 0",
                  "Connection refused");
}

/* What a process says first, spoken by the test itself. */
static int speaker(int port, int rank, int size) {
    struct {
        char magic[8];
        int32_t rank, size;
    } hello = {"keel-2?", rank, size};
    const int fd = stranger(port);
    says(fd, (const char *)&hello, sizeof hello);
    return fd;
}

/* The second one is refused, and told why; the group is made without it. One that ends before all
 * have come leaves its place to another. */
static void same_rank_twice(void **state) {
    struct process p[3], twin;
    const int port = free_port();
    start(&p[0], 0, 3, port, LONG_S);
    const int first = speaker(port, 1, 3);
    start(&twin, 1, 3, port, LONG_S);
    expect_failed(&twin, "a second process says that it is rank 1 of 3", "port ");
    close(first);
    start(&p[1], 1, 3, port, LONG_S);
    start(&p[2], 2, 3, port, LONG_S);
    join_and_gather(p, 3);
}

static void wrong_numbers(void **state) {
    struct process p[2], wrong;
    const int port = free_port();
    start(&p[0], 0, 2, port, LONG_S);
    start(&wrong, 1, 5, port, LONG_S);
    expect_failed(&wrong, "rank 1 of 5", "the first one that there are 2");
    start(&wrong, 7, 2, port, LONG_S);
    expect_failed(&wrong, "a process says that it is rank 7 of 2", "port ");
    const int zero = speaker(port, 0, 2);
    char answer[256];
    assert_int_equal(kl_move_whole(zero, answer, sizeof answer, false, in_seconds(LONG_S)), 0);
    assert_non_null(strstr(answer + 8, "a second process says that it is rank 0 of 2"));
    close(zero);
    start(&p[1], 1, 2, port, LONG_S);
    join_and_gather(p, 2);
}

/* Who was refused is said with who is missing. */
static void refused_and_missing(void **state) {
    struct process p, wrong;
    const int port = free_port();
    start(&p, 0, 2, port, 1);
    const int fd = speaker(port, 1, 3);
    expect_failed(&p, "KEEL_DIST_TIMEOUT): 1; refused: a process says that it is rank 1 of 3", "");
    close(fd);
    start(&wrong, 0, 2, port, 0.1); /* the port is free again */
    expect_failed(&wrong, "KEEL_DIST_TIMEOUT): 1", "");
}

/* Strangers that say nothing, too little, nonsense, or leave at once, keep nobody waiting: the
 * limit is longer than any test may take. */
static void strangers(void **state) {
    enum { SILENT = KL_LISTENER_WAITING + 10 };
    static const char nonsense[16] = "GET / HTTP/1.1\r";
    struct process p[4];
    const int port = free_port();
    int fd[SILENT + 3];
    start(&p[0], 0, 4, port, 100000);
    start(&p[1], 1, 4, port, 100000);
    for (int i = 0; i < SILENT + 3; i++) fd[i] = stranger(port);
    says(fd[SILENT], nonsense, sizeof nonsense);
    says(fd[SILENT + 1], "keel-2?", 8);
    close(fd[SILENT + 2]);
    start(&p[2], 2, 4, port, 100000);
    start(&p[3], 3, 4, port, 100000);
    join_and_gather(p, 4);
    for (int i = 0; i < SILENT + 2; i++) close(fd[i]);
}

/* Another program listens at the port. */
static void wrong_listener(void **state) {
    static const char page[256] = "HTTP/1.1 400 Bad Request";
    struct kl_listener l;
    struct process p;
    char hello[16];
    uint32_t port = (uint32_t)free_port();
    assert_int_equal(kl_listener_open(&l, htonl(INADDR_LOOPBACK), &port, 1, sizeof hello), 0);
    start(&p, 1, 2, (int)port, LONG_S);
    int fd = kl_listener_next(&l, hello, in_seconds(LONG_S));
    says(fd, page, sizeof page);
    expect_failed(&p, "what listens there is not the first process of the group", "");
    close(fd);
    /* It leaves, and then a first process comes: another attempt finds it. */
    struct process joins[2];
    start(&joins[1], 1, 2, (int)port, LONG_S);
    fd = kl_listener_next(&l, hello, in_seconds(LONG_S));
    kl_listener_close(&l);
    close(fd);
    start(&joins[0], 0, 2, (int)port, LONG_S);
    join_and_gather(joins, 2);
    /* It stays and says nothing. */
    assert_int_equal(kl_listener_open(&l, htonl(INADDR_LOOPBACK), &port, 1, sizeof hello), 0);
    start(&p, 1, 2, (int)port, 0.1);
    expect_failed(&p, "rank 0 did not say within KEEL_DIST_TIMEOUT", "");
    kl_listener_close(&l);
}

static void bad_places(void **state) {
    struct kl_rendezvous *r = NULL;
    struct kl_error *err = NULL;
    struct process p[2];
    const int port = free_port();
    assert_int_equal(kl_rendezvous_open(&r, "::1", port, 0, 2, 1000000, &err), KL_EGROUP);
    assert_non_null(strstr(err->message, "NCCL_HOST_IP=::1 is no address"));
    kl_error_release(err);
    err = NULL;
    start(&p[0], 0, 2, port, LONG_S);
    const int there = stranger(port);
    assert_int_equal(kl_rendezvous_open(&r, "127.0.0.1", port, 0, 2, 1000000, &err), KL_EGROUP);
    assert_non_null(strstr(err->message, "listen: Address already in use"));
    kl_error_release(err);
    close(there);
    start(&p[1], 1, 2, port, LONG_S);
    join_and_gather(p, 2);
}

/* A process that ends after all have met. */
static void ends_before_gathering(void **state) {
    struct process p[3];
    const int port = free_port();
    for (int i = 0; i < 3; i++) start(&p[i], i, 3, port, LONG_S);
    for (int i = 0; i < 3; i++) expect_joined(&p[i]);
    kl_rendezvous_close(p[1].r);
    for (int i = 0; i < 3; i += 2)
        assert_int_equal(pthread_create(&p[i].thread, NULL, gather_one, &p[i]), 0);
    expect_failed(&p[0], "rank 1 ended, or stood still, during init", "");
    expect_failed(&p[2], "rank 0 ended, or stood still, during init", "");
}

/* Each allocation and each socket fails in turn, of the first process and of another. */
static void no_memory(void **state) {
    struct process p = {0};
    struct kl_error *err;
    for (int rank = 0; rank < 2; rank++) {
        const int port = free_port();
        const int64_t live = kl_test_n_live();
        int rc = -1, n_failed = 0;
        if (rank) start(&p, 0, 2, port, LONG_S);
        if (rank) close(stranger(port)); /* all its memory is taken */
        for (int n = 0; rc; n++) {
            struct kl_rendezvous *r = NULL;
            err = NULL;
            kl_test_fail_alloc_at(n);
            rc = kl_rendezvous_open(&r, "127.0.0.1", port, rank, rank + 1, 60000000000, &err);
            kl_test_fail_alloc_at(-1);
            assert_int_equal(rc == KL_OK, r != NULL);
            assert_true(rc == KL_OK || rc == KL_ENOMEM || rc == KL_EGROUP);
            n_failed += rc != KL_OK;
            kl_error_release(err);
            if (rank && !rc) finish(&p), kl_rendezvous_close(p.r);
            kl_rendezvous_close(r);
        }
        assert_true(n_failed >= 2);
        assert_int_equal(kl_test_n_live(), live);
    }
}

/* ---- control connections ---- */

struct control {
    struct process *p;
    int fds[MOST], on_host, n_gathered;
    int strangers[8 * MOST], n_strangers;
    bool gives_up;         /* after all know where it listens */
    _Atomic(int) n_asked;  /* how often it was asked whether all are here */
    struct control *after; /* it connects when that one has been asked a few times */
};

/* Connects with whatever this process listens at, and says nothing. */
static void visit_listeners(struct control *c) {
    for (int fd = 3; fd < 256; fd++) {
        int on = 0;
        struct sockaddr_in a;
        socklen_t n = sizeof on, m = sizeof a;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) || !on) continue;
        if (getsockname(fd, (struct sockaddr *)(void *)&a, &m)) continue;
        const int s = kl_connect_until(htonl(INADDR_LOOPBACK), ntohs(a.sin_port), in_seconds(1));
        if (s >= 0) c->strangers[c->n_strangers++] = s;
    }
}

static int gather_with_strangers(const struct kl_gathering *g, const void *from, void *to, size_t n,
                                 struct kl_error **err) {
    struct control *c = g->state;
    const struct kl_gathering by = {.state = c->p->r, .limit_ns = g->limit_ns};
    if (c->n_gathered++ == 1) visit_listeners(c);
    const int rc = kl_rendezvous_gather(&by, from, to, n, err);
    while (c->n_gathered == 2 && c->after && atomic_load(&c->after->n_asked) < 3) sched_yield();
    return rc || c->n_gathered < 2 || !c->gives_up ? rc : kl_fail(err, KL_EGROUP, "it gives up");
}

static bool all_here(const struct kl_gathering *g) {
    struct control *c = g->state;
    atomic_fetch_add(&c->n_asked, 1);
    return kl_rendezvous_all_here(&(struct kl_gathering){.state = c->p->r});
}

static void *connect_one(void *arg) {
    struct control *c = arg;
    struct process *p = c->p;
    const struct kl_gathering by = {.gather = gather_with_strangers,
                                    .all_here = all_here,
                                    .state = c,
                                    .limit_ns = 100000000000000};
    p->rc = kl_control_connect(c->fds, &c->on_host, p->rank, p->size, &by, &p->err);
    if (p->rc) kl_rendezvous_close(p->r);
    return NULL;
}

/* All meet, and connect; gives_up: a rank that does not; late: one that lets rank 0 wait. */
static void connect_all(struct process *p, struct control *c, int n, int gives_up, int late) {
    const int port = free_port();
    for (int i = 0; i < n; i++) start(&p[i], i, n, port, LONG_S);
    for (int i = 0; i < n; i++) expect_joined(&p[i]);
    for (int i = 0; i < n; i++) {
        c[i] = (struct control){
            .p = &p[i], .gives_up = i == gives_up, .after = i == late ? &c[0] : NULL};
        for (int k = 0; k < MOST; k++) c[i].fds[k] = -1;
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&p[i].thread, NULL, connect_one, &c[i]), 0);
    }
}

static void close_all(struct control *c, int n) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++)
            if (c[i].fds[k] >= 0) close(c[i].fds[k]);
        for (int k = 0; k < c[i].n_strangers; k++) close(c[i].strangers[k]);
    }
}

/* A rank that gives up while others wait for its connection keeps nobody. */
static void one_gives_up(void **state) {
    enum { N = 2 };
    struct process p[N];
    struct control c[N];
    connect_all(p, c, N, 1, -1);
    expect_failed(&p[1], "it gives up", "");
    expect_failed(&p[0], "rank 1 did not connect with rank 0", "a process gave up");
    close_all(c, N);
}

/* A rank that is late, but here, is waited for. */
static void one_is_late(void **state) {
    enum { N = 3 };
    struct process p[N];
    struct control c[N];
    connect_all(p, c, N, -1, 2);
    for (int i = 0; i < N; i++) expect_joined(&p[i]);
    close_all(c, N);
    for (int i = 0; i < N; i++) kl_rendezvous_close(p[i].r);
}

static void strangers_at_control(void **state) {
    enum { N = 4 };
    struct process p[N];
    struct control c[N];
    connect_all(p, c, N, -1, -1);
    for (int i = 0; i < N; i++) expect_joined(&p[i]);
    for (int i = 0; i < N; i++) {
        assert_true(c[i].n_strangers >= 1);
        assert_int_equal(c[i].on_host, i);
        for (int k = 0; k < N; k++) assert_int_equal(c[i].fds[k] >= 0, k != i);
    }
    char byte = 0;
    says(c[0].fds[3], "x", 1);
    assert_int_equal(kl_move_whole(c[3].fds[0], &byte, 1, false, in_seconds(LONG_S)), 0);
    assert_int_equal(byte, 'x');
    close_all(c, N);
    for (int i = 0; i < N; i++) kl_rendezvous_close(p[i].r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins),
        cmocka_unit_test(one_is_missing),
        cmocka_unit_test(many_are_missing),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(same_rank_twice),
        cmocka_unit_test(wrong_numbers),
        cmocka_unit_test(refused_and_missing),
        cmocka_unit_test(strangers),
        cmocka_unit_test(wrong_listener),
        cmocka_unit_test(bad_places),
        cmocka_unit_test(ends_before_gathering),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(strangers_at_control),
        cmocka_unit_test(one_gives_up),
        cmocka_unit_test(one_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
