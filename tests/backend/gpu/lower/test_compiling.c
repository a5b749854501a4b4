/* test_compiling.c - kernels that threads of the library compile, on a driver whose compiler waits
 * where a test tells it to: what overlaps, what waits, failures, limits, memory that is short, a
 * fork and the end of the process. A wait of the compiler has a bound, after which its test
 * fails. */
#include "barrier.h"
#include "support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/gpu/lower/fake_driver.h"
#include "backend/gpu/lower/lowering.h"
#include "base/platform/clock.h"

enum { BOUND_S = 20 };

static struct {
    struct kl_driver driver;
    struct kl_mutex mu;
    pthread_cond_t changed;
    /* Guarded by mu. A compiler waits until so many have begun, and until `open`. */
    int must_begin, n_begun;
    bool open;
    bool timed_out;
    int n_compiled, n_inside, most_inside, n_launched;
    uint32_t max_local;
    bool ends; /* helper_begin refuses */
    _Atomic(int) n_helped;
} fake = {.mu = KL_MUTEX_INIT};

/* The caller holds fake.mu. */
static void await(bool (*done)(void)) {
    const int64_t until = kl_clock_ns() + BOUND_S * INT64_C(1000000000);
    while (!done() && !fake.timed_out)
        if (kl_cond_wait_until(&fake.changed, &fake.mu, until)) fake.timed_out = true;
}

static bool may_go_on(void) {
    return fake.open && fake.n_begun >= fake.must_begin;
}

static int fake_compile(struct kl_driver *p, const char *source, const char *name, void **binary,
                        size_t *bytes, struct kl_error **err) {
    kl_mutex_lock(&fake.mu);
    fake.n_begun++;
    if (++fake.n_inside > fake.most_inside) fake.most_inside = fake.n_inside;
    pthread_cond_broadcast(&fake.changed);
    await(may_go_on);
    fake.n_inside--;
    fake.n_compiled++;
    kl_mutex_unlock(&fake.mu);
    if (strstr(source, "MISTAKE"))
        return kl_fail(err, KL_ECOMPILE, "kernel '%s' does not compile: MISTAKE", name);
    return fd_binary(binary, bytes, err);
}

static int fake_limits(struct kl_driver *p, void *kernel, struct kl_kernel_limits *limits,
                       struct kl_error **err) {
    limits->max_local = fake.max_local;
    return KL_OK;
}

static int fake_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                       uint32_t local, const struct kl_karg *args, int n_args,
                       struct kl_error **err) {
    fake.n_launched++;
    return KL_OK;
}

static bool fake_helper_begin(struct kl_driver *p) {
    kl_mutex_lock(&fake.mu);
    const bool may = !fake.ends;
    kl_mutex_unlock(&fake.mu);
    return may;
}

static void fake_helper_end(struct kl_driver *p) {
    atomic_fetch_add(&fake.n_helped, 1);
}

/* The parameters of a command are the text of its kernel. */
static int fake_override(struct kl_emit *e, const struct kl_command *c) {
    if (c->op != KL_OP_CALL) return 0;
    const int rc = kl_emit_source(e, c->name, c->params, "entry", 1, 256, NULL, 0);
    return rc ? rc : 1;
}

static const struct kl_driver_ops fake_ops = {.override = fake_override,
                                              .enter = fd_enter,
                                              .helper_begin = fake_helper_begin,
                                              .helper_end = fake_helper_end,
                                              .compile = fake_compile,
                                              .load = fd_load,
                                              .find = fd_find,
                                              .limits = fake_limits,
                                              .launch = fake_launch};

static struct kl_lowering *l;

static int set_up(void **state) {
    fake.driver = fd_driver(&fake_ops);
    fake.must_begin = fake.n_begun = fake.n_compiled = fake.most_inside = fake.n_launched = 0;
    fake.open = true;
    fake.timed_out = false;
    fake.max_local = 0;
    l = fd_lowering(&fake.driver);
    return 0;
}

static void set_open(bool open) {
    kl_mutex_lock(&fake.mu);
    fake.open = open;
    pthread_cond_broadcast(&fake.changed);
    kl_mutex_unlock(&fake.mu);
}

static int number(const int *which) {
    kl_mutex_lock(&fake.mu);
    const int n = *which;
    kl_mutex_unlock(&fake.mu);
    return n;
}

static bool one_has_begun(void) {
    return fake.n_begun > 0;
}

static void until_one_has_begun(void) {
    kl_mutex_lock(&fake.mu);
    await(one_has_begun);
    kl_mutex_unlock(&fake.mu);
}

static int start(const char *text, struct kl_pending *p, struct kl_error **err) {
    const struct kl_command c = {
        .kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = "mine", .params = text};
    size_t bytes;
    return kl_lower_start(l, &c, p, &bytes, err);
}

/* ---- what waits and what does not ---- */

/* The compiler waits until the lowering has come back. */
static void lowering_does_not_wait(void **state) {
    struct kl_pending p = {0};
    struct kl_error *err = NULL;
    set_open(false);
    assert_int_equal(start("a", &p, &err), KL_OK);
    assert_int_equal(start("b", &p, &err), KL_OK);
    assert_int_equal(start("a", &p, &err), KL_OK); /* it is noted once */
    assert_int_equal(p.n, 2);
    assert_false(kl_lower_is_ready(&p));
    set_open(true);
    assert_int_equal(kl_lower_wait(&p, &err), KL_OK);
    assert_true(kl_lower_is_ready(&p));
    assert_false(fake.timed_out);
    assert_int_equal(number(&fake.n_compiled), 2);
    p.n = 0;
    assert_int_equal(start("a", &p, &err), KL_OK); /* it is known now */
    assert_int_equal(p.n, 0);
}

/* Each compiler waits until the other one has begun. With one thread for them, the one that waits
 * for the second kernel compiles it. */
static void compilers_overlap(void **state) {
    struct kl_pending first = {0}, second = {0};
    fake.must_begin = 2;
    assert_int_equal(start("a", &first, NULL), KL_OK);
    assert_int_equal(start("b", &second, NULL), KL_OK);
    assert_int_equal(kl_lower_wait(&second, NULL), KL_OK);
    assert_int_equal(kl_lower_wait(&first, NULL), KL_OK);
    assert_false(fake.timed_out);
    assert_int_equal(fake.most_inside, 2);
    assert_true(atomic_load(&fake.n_helped) > 0);
}

static struct t_barrier together;

static void *start_and_wait(void *arg) {
    struct kl_pending p = {0};
    t_barrier_wait(&together);
    if (start("same", &p, NULL) || kl_lower_wait(&p, NULL)) return arg;
    return kl_lower_is_ready(&p) ? NULL : arg;
}

static void a_kernel_is_compiled_once(void **state) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    t_barrier_init(&together, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_and_wait, &fake), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    t_barrier_destroy(&together);
    assert_int_equal(number(&fake.n_compiled), 1);
}

/* A dry run that may not leave kernels behind waits for those that another one has started. */
static void who_prepares_waits(void **state) {
    struct kl_pending p = {0};
    const struct kl_command c = {
        .kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = "mine", .params = "a"};
    size_t bytes;
    assert_int_equal(start("a", &p, NULL), KL_OK);
    assert_int_equal(kl_lower_prepare(l, &c, &bytes, NULL), KL_OK);
    assert_true(kl_lower_is_ready(&p));
    assert_int_equal(number(&fake.n_compiled), 1);
}

/* More kernels than a list takes: the dry run waits for the others. */
static void lists_may_be_full(void **state) {
    struct kl_pending p = {0};
    char text[8] = "a";
    set_open(false);
    for (int i = 0; i < KL_MOST_PENDING + 2; i++, text[0]++) {
        if (i == KL_MOST_PENDING) set_open(true);
        assert_int_equal(start(text, &p, NULL), KL_OK);
    }
    assert_int_equal(p.n, KL_MOST_PENDING);
    assert_int_equal(kl_lower_wait(&p, NULL), KL_OK);
    assert_int_equal(number(&fake.n_compiled), KL_MOST_PENDING + 2);
}

/* ---- the commands of a submission ---- */

enum { N = 4 };
static const int sizes[N] = {100, 200, 300, 400};
static const int64_t one = 1;
static struct kl_arg args[N][2];

/* Element-wise operations of different lengths, so that none is in one kernel with another. */
static void make_commands(struct kl_command *c) {
    static const enum kl_op_id ops[N] = {KL_OP_EXP, KL_OP_SIN, KL_OP_COS, KL_OP_TANH};
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 2; k++)
            args[i][k] = (struct kl_arg){
                .data = (void *)(uintptr_t)(UINT64_C(4096) * (uint64_t)(1 + 2 * i + k)),
                .dtype = KL_F32,
                .layout = KL_ROW_CONTIGUOUS | KL_DENSE,
                .ndim = 1,
                .dims = &sizes[i],
                .strides = &one,
                .size = sizes[i]};
        c[i] = (struct kl_command){.kind = KL_CMD_LAUNCH,
                                   .op = ops[i],
                                   .name = kl_op_name(ops[i]),
                                   .n_in = 1,
                                   .n_out = 1,
                                   .args = args[i]};
    }
}

/* Kernels that are known only when commands are handed over: at the first one the others are
 * started too. Each compiler waits until a second one has begun. */
static void submissions_look_ahead(void **state) {
    struct kl_command c[N];
    make_commands(c);
    fake.must_begin = 2;
    assert_int_equal(kl_lower(l, &fake, c, N, NULL), KL_OK);
    assert_false(fake.timed_out);
    assert_int_equal(fake.n_compiled, N);
    assert_int_equal(fake.n_launched, N);
    assert_int_equal(kl_lower(l, &fake, c, N, NULL), KL_OK);
    assert_int_equal(fake.n_compiled, N);
}

static void looking_ahead_launches_nothing(void **state) {
    struct kl_command c[N];
    struct kl_pending p = {0};
    make_commands(c);
    set_open(false);
    kl_lower_ahead(l, c, N, &p);
    assert_int_equal(p.n, N);
    set_open(true);
    assert_int_equal(kl_lower_wait(&p, NULL), KL_OK);
    assert_int_equal(fake.n_launched, 0);
    assert_int_equal(kl_lower(l, &fake, c, N, NULL), KL_OK);
    assert_int_equal(fake.n_compiled, N);
    assert_int_equal(fake.n_launched, N);
}

/* ---- failures ---- */

static void failures_are_told_to_who_waits(void **state) {
    struct kl_error *errors[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) { /* the second time it is compiled anew */
        struct kl_pending good = {0}, bad = {0};
        assert_int_equal(start("fine", &good, NULL), KL_OK);
        assert_int_equal(start("MISTAKE", &bad, NULL), KL_OK);
        assert_int_equal(kl_lower_wait(&good, NULL), KL_OK);
        assert_int_equal(kl_lower_wait(&bad, &errors[i]), KL_ECOMPILE);
        assert_string_equal(errors[i]->message, "kernel 'mine' does not compile: MISTAKE");
        assert_true(kl_lower_is_ready(&bad));
    }
    assert_int_equal(fake.n_compiled, 1 + 2);
    /* An error is delivered once, so two operations do not share one. */
    assert_ptr_not_equal(errors[0], errors[1]);
    kl_error_release(errors[0]);
    kl_error_release(errors[1]);
}

static void two_that_wait_have_an_error_each(void **state) {
    struct kl_error *errors[2] = {NULL, NULL};
    struct kl_pending p[2] = {{0}, {0}};
    set_open(false);
    for (int i = 0; i < 2; i++) assert_int_equal(start("MISTAKE", &p[i], NULL), KL_OK);
    set_open(true);
    for (int i = 0; i < 2; i++) assert_int_equal(kl_lower_wait(&p[i], &errors[i]), KL_ECOMPILE);
    assert_int_equal(fake.n_compiled, 1);
    assert_string_equal(errors[0]->message, errors[1]->message);
    assert_ptr_not_equal(errors[0], errors[1]);
    kl_error_release(errors[0]);
    kl_error_release(errors[1]);
}

/* How large groups may be is known when a kernel is compiled. */
static void groups_may_be_too_large(void **state) {
    for (int i = 0; i < 2; i++) {
        struct kl_pending p = {0};
        struct kl_error *err = NULL;
        fake.max_local = 64;
        int rc = start("a", &p, &err);
        if (!rc) rc = kl_lower_wait(&p, &err);
        assert_int_equal(rc, KL_EUNSUPPORTED);
        assert_string_equal(err->message,
                            "entry: groups of 256 work-items; this device takes 64 of this kernel");
        kl_error_release(err);
    }
}

/* Each allocation fails in turn, on this thread or on another. */
static void memory_may_be_short(void **state) {
    bool more = true;
    for (int n = 0; more; n++) {
        struct kl_pending p = {0};
        struct kl_error *err = NULL;
        set_up(NULL);
        kl_test_fail_alloc_at(n);
        int rc = start("a", &p, &err);
        if (!rc) rc = kl_lower_wait(&p, &err);
        more = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) {
            assert_int_equal(rc, KL_ENOMEM);
            assert_int_equal(err->code, KL_ENOMEM);
        }
        kl_error_release(err);
        p.n = 0;
        assert_int_equal(start("a", &p, NULL), KL_OK); /* nothing stays behind */
        assert_int_equal(kl_lower_wait(&p, NULL), KL_OK);
        assert_true(n < 100);
    }
}

/* ---- ends ---- */

/* A thread that the child does not have was compiling. */
static void a_fork_ends_what_is_compiled(void **state) {
    struct kl_pending p = {0};
    set_open(false);
    assert_int_equal(start("a", &p, NULL), KL_OK);
    until_one_has_begun();
    pid_t child = fork();
    if (child == 0) {
        struct kl_error *err = NULL;
        kl_lowering_forked(l);
        if (!kl_lower_is_ready(&p)) _exit(1);
        if (kl_lower_wait(&p, &err) != KL_EFORK || !err) _exit(2);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    set_open(true);
    assert_int_equal(kl_lower_wait(&p, NULL), KL_OK);
}

/* The last test: no thread takes anything after it. */
static void at_the_end_who_needs_a_kernel_compiles_it(void **state) {
    struct kl_pending p = {0};
    const int helped = atomic_load(&fake.n_helped);
    kl_mutex_lock(&fake.mu);
    fake.ends = true;
    kl_mutex_unlock(&fake.mu);
    for (int i = 0; i < 3; i++) {
        char text[2] = {(char)('a' + i), 0};
        assert_int_equal(start(text, &p, NULL), KL_OK);
    }
    assert_int_equal(kl_lower_wait(&p, NULL), KL_OK);
    assert_int_equal(number(&fake.n_compiled), 3);
    assert_int_equal(atomic_load(&fake.n_helped), helped);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {CASE(lowering_does_not_wait),
                                       CASE(compilers_overlap),
                                       CASE(a_kernel_is_compiled_once),
                                       CASE(who_prepares_waits),
                                       CASE(lists_may_be_full),
                                       CASE(submissions_look_ahead),
                                       CASE(looking_ahead_launches_nothing),
                                       CASE(failures_are_told_to_who_waits),
                                       CASE(two_that_wait_have_an_error_each),
                                       CASE(groups_may_be_too_large),
                                       CASE(memory_may_be_short),
                                       CASE(a_fork_ends_what_is_compiled),
                                       CASE(at_the_end_who_needs_a_kernel_compiles_it)};
    kl_cond_init_clock(&fake.changed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
