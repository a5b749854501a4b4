/* test_opencl.c - the OpenCL driver through its two interfaces, on PoCL: the errors when something
 * is missing, memory at addresses that Keel chooses, queues and events, programs, and failing calls
 * of OpenCL (its functions are replaced one at a time). */
#include "backend/opencl/opencl_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/gpu/lower/kernel_cache.h"

static const char add_source[] =
    "KERNEL(add)(PTR(in), PTR(out), i32 n, i64 count) {\n"
    "    i64 i = gid();\n"
    "    if (i < count) AT(i32, out)[i] = AT(i32, in)[i] + n;\n"
    "}\n"
    "KERNEL(slow_add)(PTR(in), PTR(out), i32 n, i64 count) {\n"
    "    i64 i = gid();\n"
    "    i32 v = 0;\n"
    "    for (i32 k = 0; k < 500; k++) v = v * 3 + AT(i32, in)[(i + k) % count] % 7;\n"
    "    if (i < count) AT(i32, out)[i] = AT(i32, in)[i] + n + (n >> 30) * v; /* n is small */\n"
    "}\n"
    /* The kernel has one work-group, so PoCL runs it on one thread, and other threads could run
     * commands that must wait for it. */
    "KERNEL(slow_one)(PTR(in), PTR(out), i32 n, i64 count) {\n"
    "    i32 v = 0;\n"
    "    for (i32 k = 0; k < 300000; k++) v = v * 3 + AT(i32, in)[(v + k) & 63];\n"
    "    for (i64 i = lid(); i < count; i += LOCAL)\n"
    "        AT(i32, out)[i] = AT(i32, in)[i] + n + (n >> 30) * v; /* n is small */\n"
    "}\n"
    "KERNEL(spoil)(PTR(words), int index) {\n"
    "    fault(AT(u32, words), index, gid());\n"
    "}\n";
enum { N = 4096, LOCAL = 64 };

static void add(void *queue, const char *kernel, const void *in, void *out, int32_t n,
                int64_t count) {
    int64_t groups = strcmp(kernel, "slow_one") == 0 ? 1 : (count + LOCAL - 1) / LOCAL;
    T_LAUNCH(queue, add_source, kernel, groups, LOCAL, KL_KARG_PTR(in, 1), KL_KARG_PTR(out, 1),
             KL_KARG(n), KL_KARG(count));
}

static void expect_ints(const void *p, int first, int step, int count) {
    int32_t *got = malloc((size_t)count * 4);
    assert_non_null(got);
    t_read(p, 0, got, (size_t)count * 4);
    for (int i = 0; i < count; i++)
        if (got[i] != first + step * i)
            fail_msg("element %d is %d, not %d", i, got[i], first + step * i);
    free(got);
}

/* Device memory with the numbers 0, 1, 2, ... in int32. */
static char *counting(void) {
    int32_t v[N];
    for (int i = 0; i < N; i++) v[i] = i;
    return t_alloc_from(v, sizeof v);
}

/* The call must fail with this code and a message that contains the text; *err is released. */
static void expect_failure(int rc, int code, struct kl_error **err, const char *text) {
    if (rc != code || !*err || !strstr((*err)->message, text))
        fail_msg("code %d, '%s' instead of %d, '%s'", rc, *err ? (*err)->message : "", code, text);
    kl_error_release(*err);
    *err = NULL;
}

/* ---- what is missing: in children, before this process loads anything ---- */

static void count_in_child(const char *variable, const char *value, const char *text) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *why = NULL;
        struct kl_backend *b = NULL;
        struct kl_error *err = NULL;
        setenv(variable, value, 1);
        int n = kl_opencl_count(&why), rc = kl_opencl_open(0, &b, &err);
        bool ok = n == 0 && why && strstr(why, text) && rc == KL_EDEVICE && err &&
                  strstr(err->message, text) && !b && kl_opencl_count(NULL) == 0;
        if (!ok) fprintf(stderr, "%d devices, reason '%s'\n", n, why ? why : "");
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void what_is_missing_is_named(void **state) {
    count_in_child("KEEL_OPENCL_LIBRARY", "/nonexistent", "/nonexistent");
    count_in_child("KEEL_OPENCL_LIBRARY", "libm.so.6", "libm.so.6 is not a library of OpenCL");
    count_in_child("OCL_ICD_VENDORS", "/nonexistent", "no driver is installed");
}

static void devices_have_facts(void **state) {
    struct kl_gpu_facts f;
    const char *why = "unset";
    int n = kl_opencl_count(&why);
    assert_true(n >= 1);
    assert_null(why);
    for (int i = 0; i < n; i++) {
        kl_opencl_facts(i, &f);
        assert_true(f.name[0] && f.vendor[0] && f.driver[0]);
        assert_non_null(strstr(f.architecture, "OpenCL"));
        assert_true(f.memory_bytes > 0 && f.units > 0);
    }
    struct kl_backend *b = NULL, *again = NULL;
    struct kl_error *err = NULL;
    expect_failure(kl_opencl_open(n, &b, &err), KL_EDEVICE, &err, "does not exist");
    expect_failure(kl_opencl_open(-1, &b, &err), KL_EDEVICE, &err, "does not exist");
    assert_int_equal(kl_opencl_open(0, &b, NULL), 0);
    assert_int_equal(kl_opencl_open(0, &again, NULL), 0);
    assert_ptr_equal(b, again);
    assert_true(d->max_local >= 1 && d->local_bytes >= 1024 && d->n_units == f.units);
    assert_int_equal(strncmp(d->identity, "opencl ", 7), 0);
    assert_non_null(strstr(d->identity, f.driver));
}

/* ---- memory ---- */

static void blocks_are_read_and_written_anywhere(void **state) {
    unsigned char all[1000], got[1000];
    for (int i = 0; i < 1000; i++) all[i] = (unsigned char)(i * 7);
    char *p = t_alloc(1000);
    t_write(p, 0, all, 1000);
    for (size_t at = 0; at <= 1000; at += 37)
        for (size_t n = 0; at + n <= 1000; n += 111) {
            memset(got, 0, sizeof got);
            t_read(p, at, got, n); /* read by an offset, then by an address inside of the block */
            assert_memory_equal(got, all + at, n);
            t_read(p + at, 0, got, n);
            assert_memory_equal(got, all + at, n);
        }
    t_write(p + 100, 23, "xyz", 3);
    memcpy(all + 123, "xyz", 3);
    t_read(p, 0, got, 1000);
    assert_memory_equal(got, all, 1000);
    t_free(p, 1000);
    t_free(t_alloc(0), 0);
}

static void addresses_lead_to_their_blocks(void **state) {
    enum { BLOCKS = 300, ROUNDS = 2000 };
    char *block[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0};
    uint32_t rng = 7;
    for (int round = 0; round < ROUNDS; round++) {
        rng = rng * 1664525u + 1013904223u;
        int i = (int)(rng >> 8) % BLOCKS;
        if (block[i]) {
            uint32_t tag[2] = {0};
            t_read(block[i] + bytes[i] - 4, 0, &tag[1], 4);
            t_read(block[i], 0, &tag[0], 4);
            assert_int_equal(tag[0], i);
            assert_int_equal(tag[1], (uint32_t)i + 1000);
            t_free(block[i], bytes[i]);
            block[i] = NULL;
        } else {
            uint32_t tag[2] = {(uint32_t)i, (uint32_t)i + 1000};
            bytes[i] = 8 + (rng >> 4) % 3 * 4096 + (rng >> 20) % 50;
            block[i] = t_alloc(bytes[i]);
            assert_int_equal((uintptr_t)block[i] % 64, 0);
            t_write(block[i], 0, &tag[0], 4);
            t_write(block[i], bytes[i] - 4, &tag[1], 4);
            /* The address behind the end belongs to no other block either. */
            for (int k = 0; k < BLOCKS; k++)
                if (k != i && block[k])
                    assert_true(block[k] + bytes[k] < block[i] || block[i] + bytes[i] < block[k]);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i]) t_free(block[i], bytes[i]);
    int x = 0;
    struct kl_error *err = NULL;
    expect_failure(d->ops->read(d, &x, 0, &x, 4, &err), KL_EINTERNAL, &err, "no address on device");
    char *p = t_alloc(64); /* beyond the end, with the error that OpenCL gives */
    expect_failure(d->ops->read(d, p, 62, &x, 4, &err), KL_ESUBMIT, &err,
                   "clEnqueueReadBuffer failed with -30 (invalid value)");
    t_free(p, 64);
}

static void the_host_touches_what_is_shared_only(void **state) {
    enum { BYTES = 1 << 20 };
    char *p = t_alloc(BYTES), byte = 77;
    if (d->shares) {
        struct kl_error *err = NULL;
        t_write(p, 5, &byte, 1);
        SUCCEED(d->ops->share(d, p, BYTES, true, &err), err);
        assert_int_equal(p[5], 77);
        d->ops->unshare(d, p, BYTES, true);
        t_free(p, BYTES);
        return;
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)p = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    t_free(p, BYTES);
}

static void memory_ends(void **state) {
    struct kl_gpu_facts f;
    struct kl_error *err = NULL;
    void *p = NULL, *blocks[64];
    kl_opencl_facts(0, &f);
    expect_failure(d->ops->alloc(d, SIZE_MAX / 2, &p, &err), KL_ENOMEM, &err,
                   "its largest block is");
    assert_null(p);
    size_t each = 64u << 20, n = 0;
    int rc = 0;
    while (n < 64 && !(rc = d->ops->alloc(d, each, &blocks[n], &err))) n++;
    expect_failure(rc, KL_ENOMEM, &err, "out of memory on device 'opencl0'");
    assert_true(n > 0 && (n + 2) * each > f.memory_bytes);
    while (n > 0) t_free(blocks[--n], each);
    t_free(t_alloc(each), each);
}

/* When OpenCL fails while a block is made, no memory stays reserved. */
static cl_int status_to_give;
static cl_mem failing_create(cl_context c, cl_bitfield flags, size_t bytes, void *host,
                             cl_int *status) {
    *status = status_to_give;
    return NULL;
}
static cl_int failing_write(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset,
                            size_t bytes, const void *src, cl_uint n_waits, const cl_event *waits,
                            cl_event *event) {
    return status_to_give;
}

static void failing_calls_of_alloc(void **state) {
    struct kl_opencl_functions real = kl_cl;
    struct kl_error *err = NULL;
    struct kl_gpu_facts f;
    kl_opencl_facts(0, &f);
    static const struct {
        cl_int status;
        int code;
        const char *text;
    } cases[] = {{CL_MEM_OBJECT_ALLOCATION_FAILURE, KL_ENOMEM, "memory object allocation failure"},
                 {CL_OUT_OF_RESOURCES, KL_ENOMEM, "out of resources"},
                 {CL_OUT_OF_HOST_MEMORY, KL_ENOMEM, "out of host memory"},
                 {CL_INVALID_BUFFER_SIZE, KL_ENOMEM, "invalid buffer size"},
                 {CL_DEVICE_NOT_AVAILABLE, KL_EDEVICELOST, "device not available"},
                 {-34, KL_ESUBMIT, "invalid context"},
                 {-7777, KL_ESUBMIT, "unknown status"}};
    for (int which = 0; which < 2; which++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            void *p = NULL;
            status_to_give = cases[i].status;
            if (which)
                kl_cl.clEnqueueWriteBuffer = failing_write;
            else
                kl_cl.clCreateBuffer = failing_create;
            /* Together these are more than the device has, if a failed call kept its bytes
             * counted. */
            int rc = d->ops->alloc(d, f.memory_bytes / 8, &p, &err);
            kl_cl = real;
            if (!err || !strstr(err->message, which ? "clEnqueueWriteBuffer failed with"
                                                    : "clCreateBuffer failed with"))
                fail_msg("%s", err ? err->message : "no message");
            expect_failure(rc, cases[i].code, &err, cases[i].text);
        }
    t_free(t_alloc(f.memory_bytes / 8), f.memory_bytes / 8);
}

static void allocations_may_fail(void **state) {
    static void *queue; /* this queue is never freed */
    int last = -1;
    t_quiet();
    for (int which = 0; which < 4; which++) {
        bool more = true;
        for (int n = 0; more; n++) {
            struct kl_fault_words w = {0};
            struct kl_error *err = NULL;
            void *made = NULL;
            int64_t live = kl_test_n_live();
            kl_test_fail_alloc_at(n);
            int rc = which == 0   ? d->ops->alloc(d, 100, &made, &err)
                     : which == 1 ? d->ops->queue_new(d, 50, &queue, &err)
                     : which == 2 ? d->ops->event_new(d, &made, &err)
                                  : d->ops->words_new(d, &w, &err);
            more = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            assert_int_equal(rc, more ? KL_ENOMEM : KL_OK);
            if (rc) {
                assert_int_equal(err->code, KL_ENOMEM);
                kl_error_release(err);
                assert_int_equal(kl_test_n_live(), live);
                last = which;
            } else {
                if (which == 0) t_free(made, 100);
                if (which == 2) d->ops->event_free(d, made);
                if (which == 3) t_free(w.device, KL_WORDS * 4);
                if (which == 3) kl_free(w.host);
            }
        }
    }
    assert_int_equal(last, 3); /* each of the calls was made at least once */
}

/* ---- queues and events ---- */

static void kernels_run_in_order(void **state) {
    void *q = t_queue(1);
    char *a = counting(), *b = t_alloc(N * 4 + 64);
    add(q, "add", a, b + 64, 5, N);
    add(q, "slow_add", b + 64, a, 100, N);
    add(q, "add", a + 4, b, 1000, N - 1); /* runs behind the slow kernel */
    t_finish(q, NULL);
    expect_ints(a, 105, 1, N);
    expect_ints(b, 1106, 1, N - 1);
    t_free(a, N * 4);
    t_free(b, N * 4 + 64);
}

static void events_order_queues(void **state) {
    enum { QUEUES = 20, ROUNDS = 4 };
    void *q[QUEUES], *last[QUEUES];
    char *a[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        q[i] = t_queue(10 + i);
        a[i] = counting();
    }
    for (int round = 0; round < ROUNDS; round++) {
        /* A chain over the queues, in which each command waits for the one before; then a command
         * that waits for all. */
        for (int i = 0; i < QUEUES; i++) {
            if (i > 0) d->ops->event_free(d, t_submit(q[i], &last[i - 1], 1, NULL));
            add(q[i], i ? "add" : "slow_one", a[i ? i - 1 : QUEUES - 1], a[i], 1, N);
            last[i] = t_submit(q[i], NULL, 0, NULL);
        }
        void *all = t_submit(q[0], last, QUEUES, NULL);
        assert_int_equal(t_wait(all), 1);
        for (int i = 0; i < QUEUES; i++) {
            assert_int_equal(d->ops->event_query(d, last[i]), 1);
            d->ops->event_free(d, last[i]);
        }
        d->ops->event_free(d, all);
        expect_ints(a[QUEUES - 1], QUEUES * (round + 1), 1, N);
        expect_ints(a[0], QUEUES * round + 1, 1, N);
    }
    for (int i = 0; i < QUEUES; i++) t_free(a[i], N * 4);
}

/* PoCL itself orders commands that share a buffer. So the commands here share none, and only Keel's
 * events order them. */
static void events_are_waited_for(void **state) {
    enum { QUEUES = 20 };
    void *q[QUEUES], *e[QUEUES];
    char *a = counting(), *b = t_alloc(N * 4), *c = counting(), *o = t_alloc(N * 4);
    for (int i = 0; i < QUEUES; i++) q[i] = t_queue(40 + i);
    for (int n_waits = 1; n_waits <= QUEUES - 1;
         n_waits += QUEUES - 2) { /* the slow kernel is submitted last */
        add(q[0], "slow_one", a, b, 1, N);
        e[n_waits - 1] = t_submit(q[0], NULL, 0, NULL);
        for (int i = 0; i < n_waits - 1; i++) e[i] = t_submit(q[i + 1], NULL, 0, NULL);
        void *waited = t_submit(q[QUEUES - 1], e, n_waits, NULL);
        add(q[QUEUES - 1], "add", c, o, 1, N);
        void *after = t_submit(q[QUEUES - 1], NULL, 0, NULL);
        assert_int_equal(t_wait(after), 1);
        for (int i = 0; i < n_waits; i++) {
            assert_int_equal(d->ops->event_query(d, e[i]), 1);
            d->ops->event_free(d, e[i]);
        }
        assert_int_equal(d->ops->event_query(d, waited), 1);
        d->ops->event_free(d, waited);
        d->ops->event_free(d, after);
        expect_ints(b, 1, 1, N);
    }
    t_free(a, N * 4);
    t_free(b, N * 4);
    t_free(c, N * 4);
    t_free(o, N * 4);
}

/* Many threads set the arguments of one kernel object. */
static void *launching(void *arg) {
    void *q = arg;
    int32_t v[N];
    void *p = NULL, *out = NULL, *event = NULL;
    if (d->ops->alloc(d, sizeof v, &p, NULL) || d->ops->alloc(d, sizeof v, &out, NULL)) return arg;
    for (int i = 0; i < N; i++) v[i] = i;
    if (d->ops->write(d, p, 0, v, sizeof v, NULL)) return arg;
    struct kl_emit e = {.lowering = lowering, .driver = d, .queue = q, .dry = false, .err = NULL};
    for (int32_t k = 1; k <= 100; k++) {
        int64_t count = N;
        struct kl_karg args[] = {KL_KARG_PTR(p, 1), KL_KARG_PTR(out, 1), KL_KARG(k),
                                 KL_KARG(count)};
        if (kl_emit_source(&e, "add", add_source, "add", N / LOCAL, LOCAL, args, 4)) return arg;
        if (d->ops->copy(d, q, p, out, sizeof v, NULL)) return arg;
    }
    if (d->ops->event_new(d, &event, NULL)) return arg;
    if (kl_driver_submit(d, q, NULL, 0, NULL, 0, NULL, event, NULL) || t_wait(event) != 1)
        return arg;
    d->ops->event_free(d, event);
    if (d->ops->read(d, p, 0, v, sizeof v, NULL)) return arg;
    for (int i = 0; i < N; i++)
        if (v[i] != i + 5050) return arg;
    d->ops->free(d, p, sizeof v);
    d->ops->free(d, out, sizeof v);
    return NULL;
}

static void threads_launch_at_once(void **state) {
    enum { THREADS = 6 };
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, launching, t_queue(60 + i)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
    }
}

static void *sleeper(void *event) {
    d->ops->wait_any(d, &event, 1);
    return NULL;
}

static void wake_wakes(void **state) {
    pthread_t t;
    void *never = t_event();
    d->ops->wake(d);
    assert_int_equal(pthread_create(&t, NULL, sleeper, never), 0);
    pthread_join(t, NULL); /* a wake before the sleep counts */
    assert_int_equal(pthread_create(&t, NULL, sleeper, never), 0);
    d->ops->wake(d);
    pthread_join(t, NULL);
    assert_int_equal(d->ops->event_query(d, never), 0);
    d->ops->event_free(d, never);
}

static void copies(void **state) {
    void *q = t_queue(70);
    char *a = counting(), *b = t_alloc(N * 4), *c = t_alloc(1 << 20);
    struct kl_error *err = NULL;
    SUCCEED(d->ops->copy(d, q, c, a + 400, 1000, &err), err);
    SUCCEED(d->ops->copy(d, q, b + 4, c, 1000, &err), err);
    SUCCEED(d->ops->copy(d, q, c + (1 << 20) - 4, a, 4, &err), err);
    SUCCEED(d->ops->copy(d, q, b, a, 0, &err), err);
    t_finish(q, NULL);
    expect_ints(b + 4, 100, 1, 250);
    expect_ints(c + (1 << 20) - 4, 0, 0, 1);
    t_free(a, N * 4);
    t_free(b, N * 4);
    t_free(c, 1 << 20);
}

/* ---- programs ---- */

/* *state is as_sources for PoCL, which stores programs as sources. It is NULL for every other
 * implementation, which stores binaries. */
static char as_sources[] = "sources";
static void compilers_are_quoted(void **state) {
    bool before = kl_opencl_store_sources(0, *state != NULL);
    struct kl_error *err = NULL;
    void *binary = NULL, *module = NULL, *kernel = NULL;
    size_t bytes = 0;
    const char *bad = "__kernel void k(__global int *x) {\n    x[0] = 1;\n    x[1] = nowhere;\n}\n";
    int rc = d->ops->compile(d, bad, "my \"own\".kl", &binary, &bytes, &err);
    assert_non_null(err);
    assert_non_null(strstr(err->message, "nowhere"));
    expect_failure(rc, KL_ECOMPILE, &err, "my _own_.kl:3");
    /* Line numbers count from the first line of the user's source, although the preludes stand
     * before it. */
    struct kl_emit e = {.lowering = lowering, .driver = d, .queue = NULL, .dry = true, .err = &err};
    rc = kl_emit_source(&e, "text", "KERNEL(bad)(PTR(out)) {\n    nothing;\n}\n", "bad", 1, 32,
                        NULL, 0);
    expect_failure(rc, KL_ECOMPILE, &err, "text:2");
    rc = kl_emit_source(&e, "text", "KERNEL(good)(PTR(out)) {\n}\n", "other", 1, 32, NULL, 0);
    expect_failure(rc, KL_ECOMPILE, &err, "kernel 'other': clCreateKernel failed with -46");
    /* A long log is cut, but its first error is kept. */
    char *many = malloc(1 << 16);
    assert_non_null(many);
    size_t n = (size_t)sprintf(many, "__kernel void k(__global int *x) {\n");
    for (int i = 0; i < 500; i++) n += (size_t)sprintf(many + n, "    x[0] = nowhere_%d;\n", i);
    sprintf(many + n, "}\n");
    rc = d->ops->compile(d, many, "many", &binary, &bytes, &err);
    assert_non_null(err);
    assert_true(strlen(err->message) < 2300);
    expect_failure(rc, KL_ECOMPILE, &err, "nowhere_0");
    free(many);
    /* Data that is no binary, and half of a binary. */
    rc = d->ops->load(d, "this is no binary", 17, &module, &err);
    expect_failure(rc, KL_ECOMPILE, &err, *state ? "do not compile" : "failed with");
    const char *good = "__kernel void k(__global int *x) { x[0] = 1; }\n";
    SUCCEED(d->ops->compile(d, good, "good", &binary, &bytes, &err), err);
    SUCCEED(d->ops->load(d, binary, bytes, &module, &err), err);
    SUCCEED(d->ops->find(d, module, "k", &kernel, &err), err);
    assert_int_equal(memmem(binary, bytes, good, strlen(good)) != NULL, *state != NULL);
    kl_free(binary);
    kl_opencl_store_sources(0, before);
}

static void kernels_are_found_on_disk(void **state) {
    const char *source = *state ? "KERNEL(stored)(PTR(out)) { AT(i32, out)[gid()] = 41 + 1; }\n"
                                : "KERNEL(stored)(PTR(out)) { AT(i32, out)[gid()] = 42; }\n";
    bool before = kl_opencl_store_sources(0, *state != NULL);
    char *p = t_alloc(32 * 4);
    void *q = t_queue(80);
    uint64_t compiled = kl_kernel_cache_compiled(), found = kl_kernel_cache_found();
    for (int again = 0; again < 2; again++) {
        struct kl_error *err = NULL;
        struct kl_lowering *fresh = kl_lowering_new(d, NULL);
        assert_non_null(fresh);
        struct kl_emit e = {.lowering = fresh, .driver = d, .queue = q, .dry = false, .err = &err};
        struct kl_karg arg = KL_KARG_PTR(p, 1);
        int32_t zeros[32] = {0};
        t_write(p, 0, zeros, sizeof zeros);
        SUCCEED(kl_emit_source(&e, "stored", source, "stored", 1, 32, &arg, 1), err);
        t_finish(q, NULL);
        expect_ints(p, 42, 0, 32);
        assert_int_equal(kl_kernel_cache_compiled() - compiled, 1);
        assert_int_equal(kl_kernel_cache_found() - found, again);
    }
    kl_opencl_store_sources(0, before);
    t_free(p, 32 * 4);
}

/* ---- calls that fail ---- */

static cl_int failing_marker(cl_command_queue q, cl_uint n_waits, const cl_event *waits,
                             cl_event *event) {
    return status_to_give;
}
static cl_int failing_barrier(cl_command_queue q, cl_uint n_waits, const cl_event *waits,
                              cl_event *event) {
    return status_to_give;
}
static cl_int failing_read(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset,
                           size_t bytes, void *dst, cl_uint n_waits, const cl_event *waits,
                           cl_event *event) {
    return status_to_give;
}
static cl_int failing_flush(cl_command_queue q) {
    return status_to_give;
}
static cl_int failing_callback(cl_event e, cl_int when, void (*fn)(cl_event, cl_int, void *),
                               void *arg) {
    return status_to_give;
}

/* A call fails when half of a submission is in the queue. On return nothing of the submission runs,
 * its fault words are clear, and its event is not complete. */
static void failed_submissions_leave_nothing_behind(void **state) {
    struct kl_opencl_functions real = kl_cl;
    void *q = t_queue(90);
    char *a = counting(), *b = t_alloc(N * 4);
    struct kl_fault_words w = {0};
    struct kl_error *err = NULL;
    SUCCEED(d->ops->words_new(d, &w, &err), err);
    /* No device runs this command, so the lowering fails in the middle as well. */
    struct kl_command refused = {.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = "refused"};
    void *waited_for = t_submit(q, NULL, 0, NULL);
    int word = 3;
    add(q, "slow_add", a, b, 0, N); /* compiled here, since the test counts live objects below */
    T_LAUNCH(q, add_source, "spoil", 0, LOCAL, KL_KARG_PTR(w.device, 1), KL_KARG(word));
    t_quiet();
    for (int which = 0; which < 6; which++) {
        int64_t live = kl_test_n_live();
        void *e = t_event();
        add(q, "slow_add", a, b, which, N);
        T_LAUNCH(q, add_source, "spoil", 1, LOCAL, KL_KARG_PTR(w.device, 1), KL_KARG(word));
        status_to_give = CL_OUT_OF_RESOURCES;
        if (which == 0) kl_cl.clEnqueueBarrierWithWaitList = failing_barrier;
        if (which == 1) kl_cl.clEnqueueReadBuffer = failing_read;
        if (which == 2) kl_cl.clEnqueueMarkerWithWaitList = failing_marker;
        if (which == 3) kl_cl.clFlush = failing_flush;
        if (which == 4) kl_cl.clSetEventCallback = failing_callback;
        static const char *const calls[] = {"clEnqueueBarrierWithWaitList", "clEnqueueReadBuffer",
                                            "clEnqueueMarkerWithWaitList", "clFlush",
                                            "clSetEventCallback"};
        int rc = kl_driver_submit(d, q, &refused, which == 5, &waited_for, 1, &w, e, &err);
        kl_cl = real;
        char text[96] = "refused cannot run on this device";
        if (which < 5)
            snprintf(text, sizeof text, "%s failed with -5 (out of resources)", calls[which]);
        expect_failure(rc, which < 5 ? KL_ESUBMIT : KL_EUNSUPPORTED, &err, text);
        expect_ints(b, which, 1, N);
        uint32_t words[KL_WORDS];
        t_read(w.device, 0, words, sizeof words);
        for (int i = 0; i < KL_WORDS; i++) {
            assert_int_equal(words[i], KL_WORD_CLEAR);
            assert_int_equal(w.host[i], KL_WORD_CLEAR);
        }
        assert_int_equal(d->ops->event_query(d, e), 0);
        d->ops->event_free(d, e);
        assert_int_equal(kl_test_n_live(), live);
    }
    struct kl_error *none = NULL;
    expect_failure(kl_driver_prepare(d, &refused, &refused.workspace_bytes, &none), KL_EUNSUPPORTED,
                   &none, "refused cannot run on this device");
    /* the queue can still be used */
    add(q, "add", a, b, 9, N);
    t_finish(q, &w);
    expect_ints(b, 9, 1, N);
    assert_int_equal(t_wait(waited_for), 1);
    d->ops->event_free(d, waited_for);
    t_free(a, N * 4);
    t_free(b, N * 4);
    t_free(w.device, KL_WORDS * 4);
    kl_free(w.host);
}

/* A fake OpenCL that runs the callback when the test says so. */
static struct {
    cl_event event;
    void (*fn)(cl_event, cl_int, void *);
    void *arg;
} kept;
static cl_int keep_callback(cl_event e, cl_int when, void (*fn)(cl_event, cl_int, void *),
                            void *arg) {
    kept.event = e;
    kept.fn = fn;
    kept.arg = arg;
    return CL_SUCCESS;
}

static void callbacks_may_come_late(void **state) {
    struct kl_opencl_functions real = kl_cl;
    void *q = t_queue(91);
    t_quiet();
    int64_t live = kl_test_n_live();
    kl_cl.clSetEventCallback = keep_callback;
    void *e = t_submit(q, NULL, 0, NULL);
    kl_cl = real;
    /* A second command on the same queue has ended, so the first one has, too. The driver learns
     * this by a query, not by a callback. */
    t_finish(q, NULL);
    t_quiet();
    assert_int_equal(d->ops->event_query(d, e), 1);
    d->ops->event_free(d, e);
    assert_int_equal(kl_test_n_live(), live + 1);
    kept.fn(kept.event, CL_COMPLETE, kept.arg);
    assert_int_equal(kl_test_n_live(), live);
}

static void the_child_of_a_fork_is_refused(void **state) {
    char *p = t_alloc(64);
    void *q = t_queue(92), *e = t_event();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static const char text[] = "opened before this process forked";
        struct kl_error *err = NULL;
        struct kl_fault_words w = {0};
        int x = 0;
        void *made = NULL;
        d->ops->forked(d);
        expect_failure(d->ops->read(d, p, 0, &x, 4, &err), KL_EDEVICE, &err, text);
        expect_failure(d->ops->write(d, p, 0, &x, 4, &err), KL_EDEVICE, &err, text);
        expect_failure(d->ops->alloc(d, 4, &made, &err), KL_EDEVICE, &err, text);
        expect_failure(d->ops->queue_new(d, 1, &made, &err), KL_EDEVICE, &err, text);
        expect_failure(d->ops->words_new(d, &w, &err), KL_EDEVICE, &err, text);
        expect_failure(kl_driver_submit(d, q, NULL, 0, NULL, 0, NULL, e, &err), KL_EDEVICE, &err,
                       text);
        assert_int_equal(d->ops->event_query(d, e), KL_EDEVICELOST);
        d->ops->wake(d);
        d->ops->event_free(d, e);
        d->ops->free(d, p, 64);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    t_write(p, 0, &status, 4); /* the parent's device still works */
    d->ops->event_free(d, e);
    t_free(p, 64);
}

/* This is the last test, since the device is lost for good. */
static void a_failed_command_loses_the_device(void **state) {
    struct kl_opencl_functions real = kl_cl;
    pthread_t t;
    void *q = t_queue(93), *never = t_event(), *p = t_alloc(64);
    struct kl_error *err = NULL;
    int x = 0;
    kl_cl.clSetEventCallback = keep_callback;
    void *e = t_submit(q, NULL, 0, NULL);
    kl_cl = real;
    assert_int_equal(pthread_create(&t, NULL, sleeper, never), 0);
    kept.fn(kept.event, CL_OUT_OF_RESOURCES, kept.arg);
    pthread_join(t, NULL); /* the loss wakes the sleeping thread */
    assert_int_equal(d->ops->event_query(d, e), KL_EDEVICELOST);
    assert_int_equal(d->ops->event_query(d, never), KL_EDEVICELOST);
    static const char text[] =
        "device 'opencl0' is lost: a command failed with -5 (out of resources)";
    expect_failure(d->ops->read(d, p, 0, &x, 4, &err), KL_EDEVICELOST, &err, text);
    expect_failure(d->ops->write(d, p, 0, &x, 4, &err), KL_EDEVICELOST, &err, text);
    expect_failure(kl_driver_submit(d, q, NULL, 0, NULL, 0, NULL, never, &err), KL_EDEVICELOST,
                   &err, text);
    char why[64] = "";
    d->ops->why_lost(d, why, sizeof why);
    assert_string_equal(why, "-5 (out of resources)");
    d->ops->event_free(d, e);
    d->ops->event_free(d, never);
    t_free(p, 64);
}

int main(void) {
    const struct CMUnitTest before[] = {cmocka_unit_test(what_is_missing_is_named)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_have_facts),
        cmocka_unit_test(blocks_are_read_and_written_anywhere),
        cmocka_unit_test(addresses_lead_to_their_blocks),
        cmocka_unit_test(the_host_touches_what_is_shared_only),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(failing_calls_of_alloc),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(kernels_run_in_order),
        cmocka_unit_test(events_order_queues),
        cmocka_unit_test(events_are_waited_for),
        cmocka_unit_test(threads_launch_at_once),
        cmocka_unit_test(wake_wakes),
        cmocka_unit_test(copies),
        cmocka_unit_test(compilers_are_quoted),
        cmocka_unit_test_prestate(compilers_are_quoted, as_sources),
        cmocka_unit_test(kernels_are_found_on_disk),
        cmocka_unit_test_prestate(kernels_are_found_on_disk, as_sources),
        cmocka_unit_test(failed_submissions_leave_nothing_behind),
        cmocka_unit_test(callbacks_may_come_late),
        cmocka_unit_test(the_child_of_a_fork_is_refused),
        cmocka_unit_test(a_failed_command_loses_the_device),
    };
    int failed = cmocka_run_group_tests(before, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, open_device, NULL);
}
