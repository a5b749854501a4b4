/* test_cuda_compiling.c - values whose kernels threads of the library compile, on the fake CUDA: a
 * kernel that fails is the failure of its value and of those that need it, in the same command
 * buffer and in later ones; command buffers that are put off; refusals, loss and the end of the
 * process while kernels are compiled. What the compiler waits for has a bound, after which the test
 * fails. */
#include "backend/driver/steps.h"

#include "backend/cuda/fake_library.h"
#include "base/op/validate.h"
#include "base/platform/clock.h"
#include "graph/array.h"
#include "runtime/executor.h"
#include "runtime/stream.h"

#include <pthread.h>
#include <sys/wait.h>

enum { BOUND_S = 20, MANY = 3 * KL_MAX_OPS, INVALID = 1 };

static struct {
    struct kl_mutex mu;
    pthread_cond_t changed;
    /* Guarded by mu. Sources with HELD are compiled when `open`. */
    bool open, timed_out;
    int n_held, n_last; /* compilations that have begun, of sources with HELD and with LAST */
} compiler = {.mu = KL_MUTEX_INIT, .open = true};

static struct kl_driver_ops real, ops;
static struct kl_stream *stream;
static void (*break_call)(const char *call, int n, int code);
static uint64_t (*number)(int which);
enum { KERNELS_RUN };

/* ---- the compiler ---- */

/* The lock is held. */
static void await(const bool *condition, const int *count) {
    const int64_t until = kl_clock_ns() + BOUND_S * INT64_C(1000000000);
    while (!(condition && *condition) && !(count && *count) && !compiler.timed_out)
        if (kl_cond_wait_until(&compiler.changed, &compiler.mu, until)) compiler.timed_out = true;
}

static int compile(struct kl_driver *d, const char *source, const char *name, void **binary,
                   size_t *bytes, struct kl_error **err) {
    kl_mutex_lock(&compiler.mu);
    if (strstr(source, "LAST")) compiler.n_last++;
    if (strstr(source, "HELD")) compiler.n_held++;
    pthread_cond_broadcast(&compiler.changed);
    if (strstr(source, "HELD")) await(&compiler.open, NULL);
    kl_mutex_unlock(&compiler.mu);
    return real.compile(d, source, name, binary, bytes, err);
}

static void set_open(bool open) {
    kl_mutex_lock(&compiler.mu);
    compiler.open = open;
    compiler.n_held = compiler.n_last = 0;
    pthread_cond_broadcast(&compiler.changed);
    kl_mutex_unlock(&compiler.mu);
}

static void until_begun(const int *n) {
    kl_mutex_lock(&compiler.mu);
    await(NULL, n);
    assert_false(compiler.timed_out);
    kl_mutex_unlock(&compiler.mu);
}

/* Every kernel is one that does nothing. */
static int find(struct kl_driver *d, void *module, const char *entry, void **kernel,
                struct kl_error **err) {
    return real.find(d, module, "nothing", kernel, err);
}

/* ---- values ---- */

/* The parameters of an operation. Each text is a kernel of its own. */
struct of_text {
    char text[32];
};

static int lower_text(struct kl_emit *e, const struct kl_command *c) {
    const int rc = kl_emit_source(e, "mine", ((const struct of_text *)c->params)->text, "nothing",
                                  1, 256, NULL, 0);
    return rc ? rc : 1;
}

/* A value that the kernel of this text makes, from another one unless that is NULL. */
static struct kl_array *made(const char *text, struct kl_array *from) {
    static int n;
    struct kl_array *a = NULL;
    struct of_text p = {""};
    snprintf(p.text, sizeof p.text, "%s%s", text, strchr(text, ' ') ? "" : " shared");
    if (strchr(text, '*')) snprintf(p.text, sizeof p.text, "%s %d", text, n++); /* its own */
    WELL(kl_array_op1(&a,
                      &(struct kl_operation){.op = from ? KL_OP_SORT : KL_OP_ARANGE,
                                             .stream = stream,
                                             .params = &p,
                                             .params_bytes = sizeof p,
                                             .in = &from,
                                             .n_in = from ? 1 : 0},
                      KL_U32, 1, (const int[]){4}, &err));
    return a;
}

static int setup(void **state) {
    struct kl_error *e = NULL;
    kl_cond_init_clock(&compiler.changed);
    name_fakes("KEEL_CUFFT");
    setenv("KEEL_GPU", "cuda", 1);
    open_device();
    real = ops = *drv->ops;
    ops.compile = compile;
    ops.find = find;
    ops.override = lower_text;
    drv->ops = &ops;
    void *p = fake_symbol("libcuda.so", "fake_fail");
    memcpy(&break_call, &p, sizeof p);
    p = fake_symbol("libcuda.so", "fake_number");
    memcpy(&number, &p, sizeof p);
    if (kl_stream_new(&stream, KL_GPU, 0, &e)) fail_msg("%s", e->message);
    return 0;
}

static void release(int n, struct kl_array **a) {
    for (int i = 0; i < n; i++) kl_array_release(a[i]);
    kl_until_quiet();
}

/* So many kernels have run since; those that check guards count too. */
static void expect_launches(uint64_t since, uint64_t n) {
    if (!kl_validating()) assert_int_equal(number(KERNELS_RUN) - since, n);
}

/* ---- failures of kernels ---- */

static void one_kernel_fails(void **state) {
    struct kl_array *good = made("first*", NULL), *bad = made("MISTAKE*", NULL),
                    *needs = made("second*", bad), *after = made("third*", good);
    struct kl_array *all[] = {good, bad, needs, after};
    const uint64_t ran = number(KERNELS_RUN);
    WELL(kl_async_eval(all, 4, &err));
    WELL(kl_eval(&after, 1, &err));
    WELL(kl_eval(&good, 1, &err));
    ILL(kl_eval(&needs, 1, &err), KL_ECOMPILE,
        "kernel 'mine' does not compile: (2): error: MISTAKE is undefined");
    assert_ptr_equal(kl_fate_error(bad->t.fate), kl_fate_error(needs->t.fate));
    expect_launches(ran, 2);
    release(4, all);
}

/* Two values whose kernel is one: each fails, with an error of its own. */
static void one_kernel_of_two_fails(void **state) {
    struct kl_array *all[] = {made("MISTAKE a", NULL), made("MISTAKE a", NULL)};
    WELL(kl_async_eval(all, 2, &err));
    for (int i = 0; i < 2; i++) ILL(kl_eval(&all[i], 1, &err), KL_ECOMPILE, "MISTAKE");
    assert_ptr_not_equal(kl_fate_error(all[0]->t.fate), kl_fate_error(all[1]->t.fate));
    release(2, all);
}

/* A value fails by its first cause: that of its input, though its own kernel fails too. */
static void inputs_come_first(void **state) {
    struct kl_array *first = made("MISTAKE*", NULL), *all[] = {first, made("MISTAKE*", first)};
    WELL(kl_async_eval(all, 2, &err));
    ILL(kl_eval(&all[1], 1, &err), KL_ECOMPILE, "MISTAKE");
    assert_ptr_equal(kl_fate_error(all[0]->t.fate), kl_fate_error(all[1]->t.fate));
    release(2, all);
}

/* ---- command buffers that are put off ---- */

/* A thread that evaluates, since it waits for a compiler that a test holds back. */
static struct {
    pthread_t thread;
    struct kl_array **all;
    int n, rc;
} other;

static void *evaluate(void *arg) {
    other.rc = kl_async_eval(other.all, (size_t)other.n, NULL);
    return arg;
}

static void begin_to_evaluate(int n, struct kl_array **all) {
    other.all = all;
    other.n = n;
    set_open(false);
    assert_int_equal(pthread_create(&other.thread, NULL, evaluate, NULL), 0);
    until_begun(&compiler.n_held);
}

/* The compiler goes on. */
static void end_evaluation(void) {
    set_open(true);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.rc, 0);
}

/* The first of MANY values has a kernel that is held back, the last of them, some command buffers
 * later, one that must begin to be compiled meanwhile; it is made from the first. */
static void make_many(struct kl_array **all, const char *first) {
    all[0] = made(first, NULL);
    for (int i = 1; i < MANY - 1; i++) all[i] = made("other", NULL);
    all[MANY - 1] = made("LAST*", all[0]);
    begin_to_evaluate(MANY, all);
}

static void later_kernels_are_compiled_meanwhile(void **state) {
    struct kl_array *all[MANY];
    const uint64_t ran = number(KERNELS_RUN);
    make_many(all, "HELD*");
    until_begun(&compiler.n_last);
    end_evaluation();
    for (int i = 0; i < MANY; i++) WELL(kl_eval(&all[i], 1, &err));
    expect_launches(ran, MANY);
    release(MANY, all);
}

static void failures_reach_later_command_buffers(void **state) {
    struct kl_array *all[MANY];
    const uint64_t ran = number(KERNELS_RUN);
    make_many(all, "HELD MISTAKE*");
    until_begun(&compiler.n_last);
    end_evaluation();
    for (int i = 1; i < MANY - 1; i++) WELL(kl_eval(&all[i], 1, &err));
    ILL(kl_eval(&all[MANY - 1], 1, &err), KL_ECOMPILE, "MISTAKE");
    assert_ptr_equal(kl_fate_error(all[0]->t.fate), kl_fate_error(all[MANY - 1]->t.fate));
    expect_launches(ran, MANY - 2);
    release(MANY, all);
}

/* CUDA refuses the first command buffer when others have been encoded that need its values. */
static void refusals_reach_later_command_buffers(void **state) {
    struct kl_array *all[MANY];
    make_many(all, "HELD*");
    until_begun(&compiler.n_last);
    break_call("cuEventRecord", 0, INVALID);
    end_evaluation();
    ILL(kl_eval(&all[0], 1, &err), KL_ESUBMIT, "cuEventRecord");
    ILL(kl_eval(&all[MANY - 1], 1, &err), KL_ESUBMIT, "cuEventRecord");
    WELL(kl_eval(&all[MANY - 2], 1, &err));
    release(MANY, all);
}

/* More command buffers than a queue puts off. */
static void the_oldest_are_handed_over(void **state) {
    enum { MORE = (KL_MOST_PUT_OFF + 4) * KL_MAX_OPS };
    static struct kl_array *all[MORE];
    all[0] = made("HELD*", NULL);
    for (int i = 1; i < MORE; i++) all[i] = made("other", i % 100 ? NULL : all[i - 1]);
    begin_to_evaluate(MORE, all);
    end_evaluation();
    WELL(kl_eval(all, MORE, &err));
    release(MORE, all);
}

/* ---- other ends ---- */

static void a_lost_device_ends_it(void **state) {
    struct kl_array *all[MANY];
    make_many(all, "HELD*");
    kl_gpu_lose(kl_gpu_device_of(cu->backend), NULL);
    end_evaluation();
    ILL(kl_eval(&all[0], 1, &err), KL_EDEVICELOST, "cuda0");
    ILL(kl_eval(&all[MANY - 1], 1, &err), KL_EDEVICELOST, "cuda0");
    release(MANY, all);
    kl_gpu_revive(cu->backend);
    struct kl_array *next = made("next*", NULL);
    WELL(kl_eval(&next, 1, &err));
    release(1, &next);
}

/* Each allocation fails in turn, those of the threads that compile among them. */
static void memory_may_be_short(void **state) {
    bool more = true;
    for (int n = 0; more; n++) {
        struct kl_array *a = made("short*", NULL), *all[] = {a, made("shorter*", a)};
        struct kl_error *err = NULL;
        kl_test_fail_alloc_at(n);
        const int rc = kl_eval(&all[1], 1, &err);
        more = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) assert_int_equal(rc, KL_ENOMEM);
        kl_error_release(err);
        release(2, all);
        assert_true(n < 500);
    }
}

static void forks_end_what_is_compiled(void **state) {
    struct kl_array *all[MANY];
    make_many(all, "HELD*");
    pid_t child = fork();
    if (child == 0) {
        struct kl_error *err = NULL;
        alarm(BOUND_S);
        if (kl_eval(&all[MANY - 1], 1, &err) != KL_EFORK) _exit(1);
        _exit(kl_eval(&all[0], 1, NULL) != KL_EFORK);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    end_evaluation();
    WELL(kl_eval(all, MANY, &err));
    release(MANY, all);
}

static void open_at_exit(void) {
    set_open(true);
}

/* What this program does when it is called with an argument: it ends while one kernel is being
 * compiled and others wait. The handler is registered after that of the compiler, so it runs
 * before. */
static int end_while_compiling(void) {
    alarm(BOUND_S);
    setup(NULL);
    static struct kl_array *all[MANY], *first; /* never freed */
    first = made("first*", NULL);
    WELL(kl_eval(&first, 1, &err));
    make_many(all, "HELD*");
    pthread_detach(other.thread);
    return atexit(open_at_exit) ? 97 : 0;
}

static void the_process_may_end_meanwhile(void **state) {
    kl_test_skip_under_emulator("children of fork that start threads");
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) kl_test_run_again((const char *[]){"end", NULL});
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return end_while_compiling();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_kernel_fails),
        cmocka_unit_test(one_kernel_of_two_fails),
        cmocka_unit_test(inputs_come_first),
        cmocka_unit_test(later_kernels_are_compiled_meanwhile),
        cmocka_unit_test(failures_reach_later_command_buffers),
        cmocka_unit_test(refusals_reach_later_command_buffers),
        cmocka_unit_test(the_oldest_are_handed_over),
        cmocka_unit_test(a_lost_device_ends_it),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(forks_end_what_is_compiled),
        cmocka_unit_test(the_process_may_end_meanwhile),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
