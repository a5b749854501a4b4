/* test_metal.c - the Metal driver on the simulated Metal: which devices it takes, every refusal and
 * failure of Metal's, and that the simulation sees what Metal would not forgive. Most tests run in
 * a child process, since they lose the device. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "backend/driver/driver_support.h"
#include "backend/metal/metal_internal.h"
#include "backend/metal/sim.h"
#include "graph/array.h"
#include "ops/ops.h"
#include "ops/support/ok.h"
#include "runtime/block_pool.h"
#include "runtime/stream.h"

static struct {
    void (*hold)(bool held);
    void (*fail_after)(int n, int code);
    void (*remove)(void);
    void (*budget)(size_t bytes);
    size_t (*bytes)(void);
    int (*committed)(void);
    int (*invalid)(void);
    void (*refuse_after)(int n);
} sim;

static void find_simulation(void) {
    static const char *const names[] = {"hold",  "fail_after", "remove",  "budget",
                                        "bytes", "committed",  "invalid", "refuse_after"};
    void *library = dlopen(getenv("KEEL_METAL_LIBRARY"), RTLD_NOW);
    assert_non_null(library);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "metal_sim_%s", names[i]);
        void *p = dlsym(library, name);
        assert_non_null(p);
        memcpy((char *)&sim + i * sizeof p, &p, sizeof p);
    }
}

/* Runs fn in a child process. A check that fails there makes the child's exit status that of failed
 * tests. */
static void in_child(void (*fn)(int), int argument) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fn(argument);
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail_msg("the child ended with status %#x", (unsigned)status);
}

/* ---- which devices there are ---- */

static void expect_none(const char *why_part) {
    const char *why = NULL;
    struct kl_backend *b = NULL;
    assert_int_equal(kl_metal_count(&why), 0);
    if (!why || !strstr(why, why_part)) fail_msg("no \"%s\" in: %s", why_part, why ? why : "NULL");
    ILL(kl_metal_open(0, &b, &err), KL_EDEVICE, why_part);
    assert_null(b);
}
static void old_system(int unused) {
    setenv("KEEL_METAL_SIM_MACOS", "13", 1);
    expect_none("macOS 13.2.1 is too old");
}
static void another_maker(int unused) {
    setenv("KEEL_METAL_SIM_INTEL", "1", 1);
    expect_none("'Simulated M1' is not one of Apple's own");
}
static void no_device(int unused) {
    setenv("KEEL_METAL_SIM_NONE", "1", 1);
    expect_none("Metal has no device here");
}
static void no_library(int unused) {
    setenv("KEEL_METAL_LIBRARY", "/nowhere/libmetal", 1);
    expect_none("Metal is a part of macOS, and cannot be opened here");
}
static void another_library(int unused) {
    setenv("KEEL_METAL_LIBRARY", "libm.so.6", 1);
    expect_none("libm.so.6 is no library of Metal: it has no sel_registerName");
}
static void reasons(void **state) {
    void (*const cases[])(int) = {old_system, another_maker, no_device, no_library,
                                  another_library};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) in_child(cases[i], 0);
}

static void facts_of_the_device(int unused) {
    const char *name;
    struct kl_gpu_facts f;
    open_driver(&name);
    kl_metal_facts(0, &f);
    assert_string_equal(f.name, "Simulated M1");
    assert_string_equal(f.vendor, "Apple");
    assert_string_equal(f.driver, "Metal, macOS 14.2.1");
    assert_string_equal(f.architecture, "simulated_g13");
    assert_int_equal(f.memory_bytes, 1 << 30);
    assert_int_equal(drv->local_bytes, 32 << 10);
    assert_int_equal(drv->max_local, 1024);
    assert_false(drv->has_f64);
    assert_false(drv->has_atomic64);
    /* Its memory limit is what the device recommends. */
    void *p = NULL, *q = NULL;
    WELL(drv->ops->alloc(drv, (size_t)400 << 20, &p, &err));
    WELL(drv->ops->alloc(drv, (size_t)400 << 20, &q, &err));
    void *more = NULL;
    ILL(drv->ops->alloc(drv, (size_t)400 << 20, &more, &err), KL_ENOMEM,
        "it has 1073741824 in all");
    ILL(drv->ops->alloc(drv, (size_t)1 << 30, &more, &err), KL_ENOMEM, "its largest block is");
    drv->ops->free(drv, p, (size_t)400 << 20);
    drv->ops->free(drv, q, (size_t)400 << 20);
}
static void facts(void **state) {
    in_child(facts_of_the_device, 0);
}

/* ---- refusals ---- */

/* Metal may answer nil to every call that makes an object: then the slot fails, nothing is left,
 * and the next attempt succeeds. */
static void every_refusal(int unused) {
    const char *name;
    open_driver(&name);
    void *q = new_queue(), *p = new_block(4096), *copy = new_block(4096);
    int n_refused = 0;
    for (int n = 0;; n++) {
        void *block = NULL, *queue = NULL, *e = new_event();
        struct kl_error *err = NULL;
        struct commands s;
        struct call c[2];
        char source[64];
        snprintf(source, sizeof source, "KERNEL(nothing)(PARAM(u32, n)) {\n} // %d\n", n);
        of_source(&c[0], "nothing", source);
        count(&c[1], p, 7, 1000);
        const size_t bytes = sim.bytes();
        sim.refuse_after(n);
        int rc = drv->ops->alloc(drv, 100, &block, &err);
        if (!rc) rc = drv->ops->queue_new(drv, 200, &queue, &err);
        if (!rc) rc = submit(q, &s, c, 2, NULL, NULL, e, &err);
        sim.refuse_after(-1);
        if (queue) keep(queue);
        if (rc) {
            n_refused++;
            assert_true(rc == KL_ENOMEM || rc == KL_ESUBMIT || rc == KL_ECOMPILE);
            assert_int_equal(err->code, rc);
            kl_error_release(err);
        } else {
            wait_for(e);
        }
        if (block) drv->ops->free(drv, block, 100);
        drv->ops->event_free(drv, e);
        assert_int_equal(sim.bytes(), bytes);
        if (!rc) break;
    }
    assert_true(n_refused >= 7);
    expect_count(p, 7, 1000);
    /* The copy's encoder may be refused too. */
    WELL(drv->ops->begin(drv, q, NULL, 0, &err));
    sim.refuse_after(0);
    ILL(drv->ops->copy(drv, q, copy, p, 4096, &err), KL_ESUBMIT, "blitCommandEncoder gave nil");
    assert_int_equal(drv->ops->abandon(drv, q), KL_OK);
    sim.refuse_after(-1);
}
static void refusals(void **state) {
    in_child(every_refusal, 0);
}

static void limits_of_arguments(int unused) {
    static const char big[4104];
    const char *name;
    open_driver(&name);
    void *q = new_queue();
    struct kl_karg args[33];
    for (int i = 0; i < 33; i++) args[i] = KL_KARG_PTR(NULL, 4);
    /* Before a submission such a command fails alone. */
    struct call c;
    size_t bytes;
    count(&c, NULL, 0, 4);
    assert_int_equal(drv->max_args, 31);
    drv->max_args = 2;
    ILL(prepare(&c, &bytes, &err), KL_EUNSUPPORTED,
        "count: 3 arguments, of which this device takes 2");
    drv->max_args = 31;
    void *module = NULL, *kernel = NULL;
    const char *source = "#include <metal_stdlib>\nusing namespace metal;\n"
                         "kernel void k(constant uint &n) {\n}\n";
    WELL(drv->ops->load(drv, source, strlen(source), &module, &err));
    ILL(drv->ops->find(drv, module, "other", &kernel, &err), KL_ECOMPILE, "kernel 'other'");
    WELL(drv->ops->find(drv, module, "k", &kernel, &err));
    WELL(drv->ops->begin(drv, q, NULL, 0, &err));
    ILL(drv->ops->launch(drv, q, kernel, 1, 32, args, 33, &err), KL_EKERNEL,
        "a kernel with 33 arguments; Metal takes 31");
    args[0] = (struct kl_karg){big, sizeof big, 0};
    ILL(drv->ops->launch(drv, q, kernel, 1, 32, args, 1, &err), KL_EKERNEL,
        "argument 0 has 4104 bytes; setBytes takes 4096");
    assert_int_equal(drv->ops->abandon(drv, q), KL_OK);
    const char *too_much = "#include <metal_stdlib>\nusing namespace metal;\n"
                           "kernel void k(device float *p) {\n    threadgroup float a[9000];\n"
                           "    a[(int)p[2]] = p[0];\n    p[1] = a[(int)p[3]];\n}\n";
    WELL(drv->ops->load(drv, too_much, strlen(too_much), &module, &err));
    ILL(drv->ops->find(drv, module, "k", &kernel, &err), KL_ECOMPILE, "32768");
}
static void limits(void **state) {
    in_child(limits_of_arguments, 0);
}

/* ---- memory of the host ---- */

static void host_memory(int unused) {
    const char *name;
    open_driver(&name);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 4 * page;
    char *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint32_t n = (uint32_t)(bytes / 4);
    for (uint32_t i = 0; i < n; i++) ((uint32_t *)mine)[i] = 100 + i;
    struct kl_error *e1 = NULL;
    assert_int_equal(drv->ops->share(drv, mine + 64, page, false, &e1), KL_EUNSUPPORTED);
    assert_int_equal(drv->ops->share(drv, mine, page + 4, false, &e1), KL_EUNSUPPORTED);
    assert_null(e1);
    WELL(drv->ops->share(drv, mine, bytes, false, &err));
    WELL(drv->ops->share(drv, mine, bytes, false, &err)); /* a race may do it twice */
    struct call c;
    void *out = new_block(bytes);
    add_one(&c, mine, out, n);
    run(new_queue(), &c, 1, NULL);
    expect_count(out, 101, n);
    drv->ops->unshare(drv, mine, bytes, false);
    run(new_queue(), &c, 1, NULL); /* still given once */
    drv->ops->unshare(drv, mine, bytes, false);
    struct commands s;
    void *e = new_event();
    ILL(submit(new_queue(), &s, &c, 1, NULL, NULL, e, &err), KL_EINTERNAL, "is no address");
    drv->ops->event_free(drv, e);
    free_block(out, bytes);
}
static void memory_of_the_host(void **state) {
    in_child(host_memory, 0);
}

/* ---- a lost device ---- */

static void expect_lost(void *event, const char *words) {
    char why[160] = "";
    void *p = NULL;
    while (drv->ops->event_query(drv, event) == 0) drv->ops->wait_any(drv, &event, 1);
    assert_int_equal(drv->ops->event_query(drv, event), KL_EDEVICELOST);
    drv->ops->why_lost(drv, why, sizeof why);
    if (!strstr(why, words)) fail_msg("no \"%s\" in: %s", words, why);
    ILL(drv->ops->alloc(drv, 64, &p, &err), KL_EDEVICELOST, words);
    /* Nothing runs any more, so memory may be released. */
    assert_null(kl_metal_of(drv)->flight);
}

/* One submission of two queues fails while the other one waits for it. */
static void fails(int code) {
    const char *name;
    open_driver(&name);
    void *q[] = {new_queue(), new_queue()}, *p = new_block(4096), *e[] = {new_event(), new_event()};
    struct commands s[2];
    struct call c[2];
    count(&c[0], p, 1, 10);
    count(&c[1], p, 2, 10);
    sim.hold(true);
    if (code) sim.fail_after(0, code);
    WELL(submit(q[0], &s[0], &c[0], 1, NULL, NULL, e[0], &err));
    WELL(submit(q[1], &s[1], &c[1], 1, e[0], NULL, e[1], &err));
    if (!code) sim.remove();
    sim.hold(false);
    expect_lost(e[0], code ? "Internal Error" : "Device removed");
    assert_int_not_equal(drv->ops->event_query(drv, e[1]), 0);
    free_block(p, 4096);
    for (int i = 0; i < 2; i++) drv->ops->event_free(drv, e[i]);
}
static void losses(void **state) {
    const int codes[] = {0, 1, SIM_TIMEOUT, SIM_NO_MEMORY};
    for (int i = 0; i < 4; i++) in_child(fails, codes[i]);
}

/* ---- what the simulation sees ---- */

/* Without the wait for the submission before it, a queue's submissions run in any order. */
static void order_is_lost(int waits) {
    const char *name;
    open_driver(&name);
    struct kl_metal_queue *q = new_queue();
    void *p = new_block(4096);
    int wrong = 0;
    for (int i = 0; i < 40; i++) {
        struct commands s[2];
        struct call c[2];
        void *e[] = {new_event(), new_event()};
        count(&c[0], p, 10, 64);
        count(&c[1], p, 20, 64);
        sim.hold(true);
        for (int k = 0; k < 2; k++) {
            uint64_t signalled = q->signalled;
            if (!waits) q->signalled = 0;
            WELL(submit(q, &s[k], &c[k], 1, NULL, NULL, e[k], &err));
            q->signalled = signalled + 1;
        }
        sim.hold(false);
        for (int k = 0; k < 2; k++) wait_for(e[k]);
        uint32_t first;
        WELL(drv->ops->read(drv, p, 0, &first, sizeof first, &err));
        wrong += first != 20;
        for (int k = 0; k < 2; k++) drv->ops->event_free(drv, e[k]);
    }
    if (waits)
        assert_int_equal(wrong, 0);
    else
        assert_true(wrong > 5);
}
static void order(void **state) {
    in_child(order_is_lost, true);
    in_child(order_is_lost, false);
}

static void at_float_cas(int bits) {
    static const char text[] =
        "KERNEL(join)(PTR(p)) {\n"
        "#if BITS\n"
        "    u32 was = *AT(u32, p);\n"
        "    for (;;) {\n"
        "        u32 seen = atomic_cas_u32(AT(u32, p), was, as_u32(as_f32(was) + 1.0f));\n"
        "        if (seen == was) return;\n"
        "        was = seen;\n"
        "    }\n"
        "#else\n"
        "    f32 was = *AT(f32, p);\n"
        "    while (!atomic_compare_exchange_weak_explicit((device atomic_float *)p_base, &was,\n"
        "        was + 1.0f, memory_order_relaxed, memory_order_relaxed)) {}\n"
        "#endif\n"
        "}\n";
    const char *name;
    char source[800];
    snprintf(source, sizeof source, "#define BITS %d\n%s", bits, text);
    open_driver(&name);
    void *p = new_block(64), *e = new_event();
    const uint32_t not_a_number = 0x7fc00000;
    WELL(drv->ops->write(drv, p, 0, &not_a_number, 4, &err));
    struct call c;
    struct commands s;
    of_source(&c, "join", source);
    c.args[0] = KL_KARG_PTR(p, 4);
    c.n_args = 1;
    WELL(submit(new_queue(), &s, &c, 1, NULL, NULL, e, &err));
    if (bits)
        wait_for(e);
    else
        expect_lost(e, "GPU Timeout");
}
static void compare_and_swap_of_nan(void **state) {
    in_child(at_float_cas, true);
    in_child(at_float_cas, false);
}

static void barrier_of_some(int unused) {
    const char *name;
    open_driver(&name);
    void *e = new_event();
    struct call c;
    struct commands s;
    of_source(&c, "some", "KERNEL(some)(PARAM(u32, n)) {\n    if (lid() < 7) BARRIER();\n}\n");
    WELL(submit(new_queue(), &s, &c, 1, NULL, NULL, e, &err));
    expect_lost(e, "stopped at different barriers");
}
static void barriers(void **state) {
    in_child(barrier_of_some, 0);
}

/* Matrices of a SIMD group are used by all its lanes at once, in the same way, and by Metal's
 * functions alone: which element a lane holds is not known. */
static const struct {
    const char *use; /* of a, b and c, of which a holds 1 to 64 and c is 0 */
    const char *lost, *refused;
} uses[] = {
    {"SUB_MATRIX_MADD(c, a, b);", NULL, NULL},
    {"if (lid() % 32 < 16) SUB_MATRIX_MADD(c, a, b);", "different functions of its matrices", NULL},
    {"if (lid() < 40) c = SUB_MATRIX_ZERO();", "different functions of its matrices", NULL},
    {"SUB_MATRIX_LOAD(f32, b, sh + lid() % 2, 8, true); SUB_MATRIX_MADD(c, a, b);",
     "different functions of its matrices", NULL},
    {"if (lid() % 2) SUB_MATRIX_LOAD(f32, b, sh, 8, false);\n"
     "else SUB_MATRIX_LOAD(f32, b, sh, 8, true); BARRIER();",
     "different functions of its matrices", NULL},
    {"c.held[0] = 1;", NULL, "private member"},
    {"c = SUB_MATRIX_ZERO(); simdgroup_multiply_accumulate(a, a, b, h);", NULL, "no matching"},
};
static void matrix_use(int which) {
    const char *name;
    char source[1200];
    float seen[64];
    open_driver(&name);
    snprintf(source, sizeof source,
             "KERNEL(multiply)(PTR(p)) {\n"
             "    BEGIN();\n"
             "    SHARED(f32, sh, 80);\n"
             "    SUB_MATRIX(f32) a, b, c = SUB_MATRIX_ZERO();\n"
             "    SUB_MATRIX(f16) h;\n"
             "    for (u32 i = lid(); i < 80; i += LOCAL) sh[i] = (f32)(i + 1);\n"
             "    BARRIER();\n"
             "    SUB_MATRIX_LOAD(f32, a, sh, 8, false);\n"
             "    SUB_MATRIX_LOAD(f32, b, sh, 8, true);\n"
             "    BARRIER();\n"
             "    %s\n"
             "    if (lid() < 32) SUB_MATRIX_STORE(c, sh, 8, false);\n"
             "    BARRIER();\n"
             "    if (lid() < 64) AT(f32, p)[lid()] = sh[lid()];\n"
             "}\n",
             uses[which].use);
    void *p = new_block(sizeof seen), *e = new_event();
    struct call c;
    struct commands s;
    of_source(&c, "multiply", source);
    c.args[0] = KL_KARG_PTR(p, 4);
    c.n_args = 1;
    if (uses[which].refused) {
        size_t bytes;
        ILL(prepare(&c, &bytes, &err), KL_ECOMPILE, uses[which].refused);
        return;
    }
    WELL(submit(new_queue(), &s, &c, 1, NULL, NULL, e, &err));
    if (uses[which].lost) {
        expect_lost(e, uses[which].lost);
        return;
    }
    wait_for(e);
    WELL(drv->ops->read(drv, p, 0, seen, sizeof seen, &err));
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            float sum = 0;
            for (int k = 1; k <= 8; k++) sum += (float)((i * 8 + k) * (j * 8 + k));
            assert_true(seen[i * 8 + j] == sum);
        }
}
static void matrices(void **state) {
    for (int i = 0; i < (int)(sizeof uses / sizeof *uses); i++) in_child(matrix_use, i);
}

/* A block that an operation in flight reads is given back to the system when the comparison of
 * tickets is switched off: the command buffer fails each time, and never otherwise. */
static void freed_in_flight(int skip) {
    struct kl_stream *s = NULL;
    struct kl_array *x = NULL, *y = NULL;
    setenv("KEEL_GPU", "metal", 1);
    OK(kl_stream_new(&s, KL_GPU, 0, &err));
    OK(kl_arange(&x, 0, 50000, 1, KL_F32, s, &err));
    OK(kl_eval(&x, 1, &err));
    OK(kl_square(&y, x, s, &err));
    sim.hold(true);
    const int before = sim.committed();
    struct kl_array *z = NULL;
    OK(kl_square(&z, y, s, &err));
    OK(kl_async_eval(&z, 1, &err));
    kl_timeline_block(z->t.fate->timeline->handed, z->t.fate->ticket);
    assert_true(sim.committed() > before);
    kl_array_release(x);
    kl_array_release(y);
    kl_test_skip_handover_check(skip);
    kl_memory_clear_cache();
    kl_test_skip_handover_check(false);
    sim.hold(false);
    void *data = NULL;
    struct kl_error *e = NULL;
    const int rc = kl_array_host(z, &data, &e);
    if (skip) {
        assert_int_equal(rc, KL_EDEVICELOST);
        if (!strstr(e->message, "Invalid Resource")) fail_msg("%s", e->message);
        assert_true(sim.invalid() > 0);
        kl_error_release(e);
    } else {
        assert_int_equal(rc, KL_OK);
        assert_int_equal(sim.invalid(), 0);
    }
}
static void memory_freed_in_flight(void **state) {
    for (int i = 0; i < 20; i++) {
        in_child(freed_in_flight, true);
        in_child(freed_in_flight, false);
    }
}

/* ---- compiler ---- */

static void compiler_messages(int unused) {
    const char *name;
    open_driver(&name);
    void *module = NULL;
    ILL(drv->ops->load(drv, "no metal", 8, &module, &err), KL_ECOMPILE, "stored source");
    /* What a fault of a kernel leaves is in memory that the host reads. */
    struct kl_fault_words *w = new_words();
    struct call c;
    raise_fault(&c, w, 3, 17);
    run(new_queue(), &c, 1, w);
    assert_int_equal(w->host[0], 3);
    assert_int_equal(w->host[3], 17);
    drv->ops->words_clear(drv, w);
    expect_clear(w);
    size_t bytes = 1;
    WELL(prepare(&c, &bytes, &err));
    assert_int_equal(bytes, 0);
}
static void compiler(void **state) {
    in_child(compiler_messages, 0);
}

int main(void) {
    setenv("KEEL_TEST_DRIVER", "metal", 1);
    if (!getenv("KEEL_METAL_LIBRARY")) {
        printf("NOT RUN: this is a test of the simulated Metal\n");
        return 77;
    }
    find_simulation();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),  cmocka_unit_test(facts),
        cmocka_unit_test(refusals), cmocka_unit_test(limits),
        cmocka_unit_test(losses),   cmocka_unit_test(memory_of_the_host),
        cmocka_unit_test(order),    cmocka_unit_test(compare_and_swap_of_nan),
        cmocka_unit_test(barriers), cmocka_unit_test(matrices),
        cmocka_unit_test(compiler), cmocka_unit_test(memory_freed_in_flight)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
