/* test_share.c - memory that the host and a device of OpenCL share. Runs three times: with
 * fine-grained shared virtual memory, where the device has it; with map and unmap
 * (KEEL_ZERO_COPY=map); and without sharing (KEEL_ZERO_COPY=0), where copies give the same values.
 * tests/runtime/test_share.c tests the rules of lifetime on the simulated device. */
#include "graph/graph_support.h"

#include <sys/mman.h>
#include <unistd.h>

#include "backend/opencl/opencl_internal.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"

enum { N = 1 << 16, SMALL = 100 };
static struct kl_opencl *device;
static struct kl_driver *d;

static struct kl_array *counted(int first, int n) {
    static int v[N];
    struct kl_array *a = NULL;
    for (int i = 0; i < n; i++) v[i] = first + i;
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
    for (int i = 0; i < a->t.size; i++)
        if (p[i] != first + i * step) fail_msg("element %d is %d", i, p[i]);
}

static void *address(struct kl_array *a) {
    return a->t.buffer->block->ptr;
}

static void the_mode_is_what_was_asked_for(void **state) {
    const char *mode = getenv("KEEL_ZERO_COPY");
    bool off = mode && strcmp(mode, "0") == 0, map = mode && strcmp(mode, "map") == 0;
    assert_int_equal(d->shares, device->sharing != KL_OPENCL_COPIED);
    if (off) assert_int_equal(device->sharing, KL_OPENCL_COPIED);
    if (map) assert_int_not_equal(device->sharing, KL_OPENCL_COHERENT);
    if (strstr(device->facts.architecture, "PoCL") && !off)
        assert_int_equal(device->sharing, map ? KL_OPENCL_MAPPED : KL_OPENCL_COHERENT);
}

static void nothing_is_copied(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    for (int small = 0; small < 2; small++) {
        int n = small ? SMALL : N;
        uint64_t copied = kl_test_bytes_copied(), in = 0, out = 0;
        if (!d->shares || small) in = (uint64_t)n * sizeof(int);
        if (!d->shares || (small && device->sharing == KL_OPENCL_MAPPED)) out = in;
        struct kl_array *x = counted(3, n), *y = negative(s[0], x), *z;
        t_settle(y);
        assert_int_equal(kl_test_bytes_copied() - copied, in);
        assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
        size_t active = kl_memory_active();
        const int *p = host(y);
        assert_int_equal(p == address(y), out == 0);
        assert_ptr_equal(host(y), p);
        if (!out) assert_int_equal(kl_memory_active(), active);
        z = negative(s[1], y);
        expect(z, 3, 1);
        expect(y, -3, -1);
        assert_int_equal(kl_test_bytes_copied() - copied, in + out);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z);
    }
    t_streams_free(2, s);
}

/* Blocks go through the pools and are used by host and device in turn, many times. */
static void both_sides_in_turn(void **state) {
    struct kl_stream *s[4];
    t_streams("gcgc", s);
    for (int whole = 0; whole < 2; whole++) {
        uint64_t copied = kl_test_bytes_copied();
        struct kl_array *x = counted(7, N), *kept[20];
        for (int i = 0; i < 40; i++) {
            struct kl_array *y = negative(s[i % 4], x);
            if (i % 2)
                kept[i / 2] = x;
            else
                kl_array_release(x);
            x = y;
            if (!whole) t_settle(x);
        }
        expect(x, 7, 1);
        for (int i = 0; i < 20; i++) expect(kept[i], -7, -1);
        for (int i = 0; i < 20; i++) kl_array_release(kept[i]);
        kl_array_release(x);
        if (d->shares) assert_int_equal(kl_test_bytes_copied(), copied);
    }
    t_streams_free(4, s);
}

/* The host has read a block; then the block is written again, in place or by another stream, and is
 * read again. */
static void memory_is_used_again(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    for (int round = 0; round < 30; round++) {
        struct kl_array *x = counted(round, N), *y = negative(s[0], x), *z, *w;
        const int *p = host(y);
        assert_int_equal(p[N - 1], -round - (N - 1));
        assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
        z = negative(s[0], y);
        kl_array_release(y);
        t_settle(z);
        if (d->shares) assert_ptr_equal(address(z), p);
        expect(z, round, 1);
        kl_array_release(z);
        assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
        w = negative(s[1], x);
        expect(w, -round, -1);
        kl_array_release(w);
        kl_array_release(x);
    }
    t_streams_free(2, s);
}

static void what_the_host_gives(void **state) {
    if (!d->shares) skip();
    static _Alignas(4096) char memory[N * 4];
    size_t half = sizeof memory / 2;
    int blocks = device->places.n;
    struct kl_error *e = NULL;
    assert_int_equal(d->ops->share(d, memory, half, false, &e), 0);
    /* Two threads use the same memory. */
    assert_int_equal(d->ops->share(d, memory, half, false, &e), 0);
    assert_int_equal(device->places.n, blocks + 1);
    /* Memory that overlaps shared memory, is not aligned, or is small is not shared. Such memory is
     * copied. */
    assert_int_equal(d->ops->share(d, memory + 4096, half, false, &e), KL_EUNSUPPORTED);
    assert_int_equal(d->ops->share(d, memory, half + 1, false, &e), KL_EUNSUPPORTED);
    assert_int_equal(d->ops->share(d, memory + half + 4, half - 64, false, &e), KL_EUNSUPPORTED);
    assert_int_equal(d->ops->share(d, memory + half, 64, false, &e), KL_EUNSUPPORTED);
    assert_null(e);
    /* The memory behind it can be shared. */
    assert_int_equal(d->ops->share(d, memory + half, half, false, &e), 0);
    cl_mem mem[2];
    size_t at;
    assert_int_equal(kl_opencl_place(device, memory + half - 1, &mem[0], &at, &e), 0);
    assert_int_equal(at, half - 1);
    assert_int_equal(kl_opencl_place(device, memory + half, &mem[1], &at, &e), 0);
    assert_int_equal(at, 0);
    assert_ptr_not_equal(mem[0], mem[1]);
    d->ops->unshare(d, memory, half, false);
    assert_int_equal(device->places.n, blocks + 2);
    d->ops->unshare(d, memory, half, false);
    d->ops->unshare(d, memory + half, half, false);
    assert_int_equal(device->places.n, blocks);
}

/* Two arrays of the user have the same memory. One is used in place, the other is copied, and both
 * have the right values. */
static void memory_of_the_user(void **state) {
    static _Alignas(4096) int v[N];
    struct kl_stream *s[1];
    t_streams("g", s);
    for (int i = 0; i < N; i++) v[i] = i;
    int n = N, half = N / 2;
    struct kl_array *x = NULL, *part = NULL, *y, *z;
    uint64_t copied = kl_test_bytes_copied();
    assert_int_equal(kl_array_new_user(&x, v, KL_I32, 1, &n, NULL, NULL, NULL), 0);
    assert_int_equal(kl_array_new_user(&part, v + half, KL_I32, 1, &half, NULL, NULL, NULL), 0);
    y = negative(s[0], x);
    z = negative(s[0], part);
    expect(y, 0, -1);
    expect(z, -half, -1);
    if (d->shares) assert_int_equal(kl_test_bytes_copied() - copied, half * sizeof(int));
    struct kl_array *all[4] = {x, part, y, z};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    t_streams_free(1, s);
}

/* The user's memory ends at the end of a page, and the next page is not mapped. So a kernel that
 * reads beyond the end crashes where kernels run on the CPU. Rows of 17 never fill whole packs or
 * tiles. */
static void kernels_stay_inside(void **state) {
    enum { ROWS = 1072, COLS = 17, MORE = ROWS * COLS };
    struct kl_stream *s[1];
    t_streams("g", s);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = MORE * sizeof(int),
           room = (bytes + page - 1) / page * page;
    char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED && mprotect(map + room, page, PROT_NONE) == 0);
    int *v = (int *)(void *)(map + room - bytes), dims[2] = {ROWS, COLS};
    for (int i = 0; i < MORE; i++) v[i] = 0x3F800000; /* the bits of 1 as float32 */
    static const enum kl_dtype dtypes[] = {KL_F32, KL_I32, KL_F16, KL_U8, KL_C64};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        struct kl_array *x = NULL, *y[10] = {0};
        size_t item = kl_dtype_size(dtypes[k]);
        dims[0] = (int)(bytes / item / COLS);
        uint64_t copied = kl_test_bytes_copied();
        assert_int_equal(kl_array_new_user(&x, v, dtypes[k], 2, dims, NULL, NULL, NULL), 0);
        int n = 0;
        assert_int_equal(kl_negative(&y[n++], x, s[0], NULL), 0);
        assert_int_equal(kl_sum_axis(&y[n++], x, 0, false, s[0], NULL), 0);
        assert_int_equal(kl_sum_axis(&y[n++], x, 1, false, s[0], NULL), 0);
        assert_int_equal(kl_sum(&y[n++], x, false, s[0], NULL), 0);
        struct kl_array *turned = NULL;
        assert_int_equal(kl_transpose(&turned, x, s[0], NULL), 0);
        assert_int_equal(kl_contiguous(&y[n++], turned, false, s[0], NULL), 0);
        if (dtypes[k] != KL_C64) assert_int_equal(kl_sort_axis(&y[n++], x, 1, s[0], NULL), 0);
        if (dtypes[k] == KL_F32) {
            assert_int_equal(kl_softmax_axis(&y[n++], x, 1, false, s[0], NULL), 0);
            assert_int_equal(kl_matmul(&y[n++], turned, x, s[0], NULL), 0);
        }
        assert_int_equal(kl_eval(y, (size_t)n, NULL), 0);
        if (d->shares) assert_int_equal(kl_test_bytes_copied(), copied);
        if (dtypes[k] == KL_F32) assert_true(((float *)(void *)host(y[3]))[0] == MORE);
        for (int i = 0; i < n; i++) kl_array_release(y[i]);
        kl_array_release(turned);
        kl_array_release(x);
    }
    assert_int_equal(kl_stream_synchronize(s[0], NULL), 0);
    t_streams_free(1, s);
    kl_memory_clear_cache();
    munmap(map, room + page);
}

static void every_allocation_fails(void **state) {
    struct kl_stream *s[2];
    t_streams("gc", s);
    bool done = false;
    for (int n = 0; !done; n++) {
        assert_true(n < 1000);
        struct kl_array *x = counted(2, N), *y = negative(s[0], x), *z = negative(s[1], y);
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
    t_streams_free(2, s);
}

/* When the driver refuses to share memory, there is no error, and the memory is copied. */
static struct kl_opencl_functions real;
static cl_mem refuses_memory_of_the_host(cl_context c, cl_bitfield flags, size_t bytes, void *p,
                                         cl_int *status) {
    if (!(flags & CL_MEM_READ_ONLY)) return real.clCreateBuffer(c, flags, bytes, p, status);
    *status = -37; /* the code of CL_INVALID_HOST_PTR */
    return NULL;
}
static void a_driver_that_takes_no_memory(void **state) {
    struct kl_stream *s[1];
    t_streams("g", s);
    real = kl_cl;
    kl_cl.clCreateBuffer = refuses_memory_of_the_host;
    struct kl_array *x = counted(1, N), *y = negative(s[0], x);
    uint64_t copied = kl_test_bytes_copied();
    t_settle(y);
    kl_cl = real;
    assert_int_equal(kl_test_bytes_copied() - copied, N * sizeof(int));
    struct kl_array *z = negative(s[0], x); /* later arrays are copied as well */
    expect(z, -1, -1);
    expect(y, -1, -1);
    assert_ptr_equal(atomic_load(&x->t.buffer->block->shared_by),
                     d->shares ? &kl_memory_copied : NULL);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(z);
    t_streams_free(1, s);
}

/* This is the last test, since the device is lost for good. The memory belongs to the host as well,
 * so the loss is reported only when no kernel can write any more. */
static void a_lost_device_is_at_rest(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    struct kl_array *x = counted(5, N), *shown = negative(s[0], x), *y[2], *held[2];
    expect(shown, -5, -1);
    for (int i = 0; i < 2; i++) {
        held[i] = y[i] = negative(s[i], x);
        assert_int_equal(kl_async_eval(&y[i], 1, NULL), 0);
        kl_timeline_block(y[i]->t.fate->timeline->handed, y[i]->t.fate->ticket);
    }
    kl_opencl_lose(device, CL_OUT_OF_RESOURCES);
    for (int i = 0; i < 2; i++) {
        void *p = NULL;
        if (kl_array_host(y[i], &p, NULL)) assert_true(kl_array_settled(y[i]));
        const int *v = held[i]->t.buffer->block->ptr;
        if (d->shares) assert_int_equal(v[N - 1], -5 - (N - 1));
    }
    if (d->shares) assert_true(kl_opencl_lost(device) && device->at_rest);
    expect(shown, -5, -1);
    kl_array_release(x);
    kl_array_release(shown);
    for (int i = 0; i < 2; i++) kl_array_release(y[i]);
    t_streams_free(2, s);
}

static int set_up(void **state) {
    struct kl_backend *b;
    struct kl_error *err = NULL;
    setenv("KEEL_GPU", "opencl", 1);
    if (kl_opencl_open(0, &b, &err)) {
        print_error("%s\n", err->message);
        return -1;
    }
    d = kl_opencl_driver(0);
    device = kl_opencl_of(d);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mode_is_what_was_asked_for),
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(both_sides_in_turn),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(what_the_host_gives),
        cmocka_unit_test(memory_of_the_user),
        cmocka_unit_test(kernels_stay_inside),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(a_driver_that_takes_no_memory),
        cmocka_unit_test(a_lost_device_is_at_rest),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
