/* fake_cuda.c - a libcuda for tests: the functions that Keel loads, over host memory, with one
 * thread as the device. Streams run in order, concurrently with the host and each other. Events,
 * host functions and errors behave as CUDA documents them: an error of a kernel is sticky, every
 * later call reports it, and no further host functions are called. Kernels are known by name (see
 * `kernels`); others do nothing. Tests find the controls (fake_*) with dlsym. Device addresses are
 * host addresses plus SHIFT, except for managed memory, so the driver under test cannot follow
 * them. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define SHIFT    \
    ((uint64_t)1 \
     << 52) /* device address minus host address: using a device address on the host crashes */

enum {
    OOM = 2,
    INVALID = 1,
    NOT_READY = 600,
    NO_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};
enum { MAX_STREAMS = 256, MAX_FAILURES = 2, STRUCT_BYTES = 3000 };

/* ---- items in a queue ---- */

struct event {
    /* number of the last record made, and of the last record executed */
    uint64_t recorded, reached;
};

struct item {
    struct item *next;
    enum { COPY, SET, WAIT, RECORD, HOST, KERNEL } kind;
    char *dst;
    const char *src;
    size_t bytes;
    uint32_t value;
    struct event *event;
    uint64_t number; /* the number of the record */
    void (*fn)(void *);
    void *arg;
    void (*kernel)(void **params, uint32_t n_threads);
    const void *function; /* the kernel's, with its geometry */
    unsigned geometry[7];
    void *pointers[8]; /* to the parameters, where they are asked for */
    uint64_t params[8];
    uint32_t n_threads;
    int struct_at; /* this parameter is struct_param; -1: none */
    _Alignas(8) char struct_param[STRUCT_BYTES];
};

struct graph;
struct stream {
    struct item *head, **tail;
    bool running;
    struct graph *captures; /* what comes becomes nodes of it */
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct stream *streams[MAX_STREAMS];
    int n_streams, n_live_streams, next;
    bool started;
    int paused;
    int sticky; /* the error that ended the context */
    /* The calls that the test makes fail. */
    struct failure {
        const char *call; /* NULL: no call fails */
        int in, code;
    } fail[MAX_FAILURES];
    int devices;
    size_t budget, used;
    uint64_t n_host_calls, n_launches, n_graphs, n_early, n_changed, n_execs, n_captured;
} f = {.mu = PTHREAD_MUTEX_INITIALIZER,
       .changed = PTHREAD_COND_INITIALIZER,
       .devices = 1,
       .budget = (size_t)1 << 40};

static __thread void *current; /* the current context of the thread */
static int the_context;

/* Managed memory, and host memory that a device sees, has the same address on both sides. */
static const char *host_of(uint64_t a) {
    return (const char *)(uintptr_t)(a >= SHIFT ? a - SHIFT : a);
}

/* ---- kernels: each parameter has 8 bytes; a pointer is two parameters, base and offset ---- */

static void *at(void **params, int i) {
    return (char *)host_of(*(uint64_t *)params[i]) + *(uint64_t *)params[i + 1];
}

/* (PTR(out), u32 first, u32 n): out[i] = first + i */
static void k_count(void **p, uint32_t n_threads) {
    uint32_t first = *(uint32_t *)p[2], n = *(uint32_t *)p[3], *out = at(p, 0);
    for (uint32_t i = 0; i < n && i < n_threads; i++) out[i] = first + i;
}

/* (PTR(in), PTR(out), u32 n): out[i] = in[i] + 1 */
static void k_add_one(void **p, uint32_t n_threads) {
    uint32_t *in = at(p, 0), *out = at(p, 2), n = *(uint32_t *)p[4];
    for (uint32_t i = 0; i < n && i < n_threads; i++) out[i] = in[i] + 1;
}

/* (PTR(word), u32 index, u32 position): raises a fault */
static void k_raise(void **p, uint32_t n_threads) {
    uint32_t *words = at(p, 0), index = *(uint32_t *)p[2], position = *(uint32_t *)p[3];
    if (position < words[index]) words[index] = position;
    if (words[0] == UINT32_MAX) **(uint32_t **)(words + 128) = 0; /* TELL_HOST */
    if (index < words[0]) words[0] = index;
}

/* (struct of 750 words, PTR(out)): out[0] += its last word */
static void k_add_last(void **p, uint32_t n_threads) {
    *(uint32_t *)at(p, 1) += ((uint32_t *)p[0])[STRUCT_BYTES / 4 - 1];
}

/* (struct space, PTR(dst), PTR(src)), elements of 4 bytes */
struct space { /* gpu/lower.h has the same */
    int64_t n;
    int32_t ndim, dims[8], pad;
    int64_t strides[4][8];
};
static void k_copy_strided(void **p, uint32_t n_threads) {
    const struct space *s = p[0];
    uint32_t *dst = at(p, 1), *src = at(p, 3);
    for (int64_t i = 0; i < s->n && i < n_threads; i++) {
        int64_t left = i, to = 0, from = 0;
        for (int d = s->ndim - 1; d >= 0; d--) {
            to += left % s->dims[d] * s->strides[0][d];
            from += left % s->dims[d] * s->strides[1][d];
            left /= s->dims[d];
        }
        dst[to] = src[from];
    }
}

/* (PTR(out), i64 n, u64 bits), elements of 4 bytes */
static void k_fill(void **p, uint32_t n_threads) {
    uint32_t *out = at(p, 0);
    for (int64_t i = 0; i < *(int64_t *)p[2]; i++) out[i] = *(uint32_t *)p[3];
}

/* (PTR(z), i64 lines, i64 bins, i64 edge) of kernels/fft.kl */
static void k_fft_edges(void **p, uint32_t n_threads) {
    float *z = at(p, 0);
    const int64_t bins = *(int64_t *)p[3], edge = *(int64_t *)p[4];
    for (int64_t i = 0; i < *(int64_t *)p[2] && i < n_threads; i++) {
        z[2 * i * bins + 1] = 0;
        if (edge) z[2 * (i * bins + edge) + 1] = 0;
    }
}
/* (PTR(x), PTR(z), i64 n) */
static void k_fft_widen(void **p, uint32_t n_threads) {
    const float *x = at(p, 0);
    float *z = at(p, 2);
    for (int64_t i = 0; i < *(int64_t *)p[4] && i < n_threads; i++) {
        z[2 * i] = x[i];
        z[2 * i + 1] = 0;
    }
}
/* (PTR(x), f32 by, i64 n) */
static void k_fft_scale(void **p, uint32_t n_threads) {
    float *x = at(p, 0), by = *(float *)p[2];
    for (int64_t i = 0; i < *(int64_t *)p[3] && i < 4 * (int64_t)n_threads; i++) x[i] *= by;
}

/* (PTR(to), PTR(from), i64 n, PTR(words), int index): zeros when the word is set */
static void k_copy_if_clear(void **p, uint32_t n_threads) {
    const size_t n = *(uint64_t *)p[4];
    if (((uint32_t *)at(p, 5))[*(int *)p[7]] == UINT32_MAX)
        memcpy(at(p, 0), at(p, 2), n);
    else
        memset(at(p, 0), 0, n);
}

/* The kernel of keel/kernel.h "y[gid()] = 1 << 30; RAISE(7, 3);", with one thread:
 * (PTR(y), PTR(guard), PTR(words), struct { i32 grid[3], guard_at, word_at; }) */
static void k_raising(void **p, uint32_t n_threads) {
    uint32_t *words = at(p, 4);
    const uint32_t index = ((uint32_t *)p[6])[4];
    *(uint32_t *)at(p, 0) = UINT32_C(1) << 30;
    words[index] = 7;
    words[index + 1] = 3;
    if (words[0] == UINT32_MAX) **(uint32_t **)(words + 128) = 0; /* TELL_HOST */
    if (index < words[0]) words[0] = index;
}

/* (from, to, u64 n, u64 ranks), of fake_nccl.c: what all ranks have sums up to that of one times
 * their number */
static void k_nccl_sum(void **p, uint32_t n_threads) {
    const float *from = (const float *)host_of(*(uint64_t *)p[0]);
    float *to = (float *)(uintptr_t)host_of(*(uint64_t *)p[1]);
    for (uint64_t i = 0; i < *(uint64_t *)p[2]; i++) to[i] = from[i] * (float)*(uint64_t *)p[3];
}

/* ---- kernels of tests/api/ops/test_kernel_compiled.c: a pointer is one parameter ---- */

static int32_t *pointer(void **params, int i) {
    return (int32_t *)(uintptr_t)host_of(*(uint64_t *)params[i]);
}

static void k_affine(void **p, uint32_t n_threads) {
    const int32_t *x = pointer(p, 0), n = *(int32_t *)p[2];
    int32_t *y = pointer(p, 1);
    for (int i = 0; i < n && (uint32_t)i < n_threads; i++)
        y[i] = (int32_t)((float)x[i] * *(float *)p[3]) * (*(char *)p[4] ? -1 : 1);
}

static void k_pick(void **p, uint32_t n_threads) {
    const int32_t *x = pointer(p, 0);
    *pointer(p, 1) = x[x[0]];
}

static void k_first(void **p, uint32_t n_threads) {
    *pointer(p, 0) = 5;
}

static void k_crash(void **p, uint32_t n_threads) {
    pthread_mutex_lock(&f.mu);
    f.sticky = LAUNCH_FAILED;
    pthread_mutex_unlock(&f.mu);
}

static void k_nothing(void **p, uint32_t n_threads) {
}

static const struct {
    const char *name;
    void (*run)(void **, uint32_t);
    int n_params;
    uint8_t bytes[8]; /* 0, for one of them: struct_bytes */
    size_t struct_bytes;
}
#define IDLE(name) \
    { name, k_nothing, 0, {0}, 0 } /* what surrounds a library is not computed */
kernels[] = {IDLE("copy_transposed"),
             IDLE("look"),
             IDLE("look_at_diagonal"),
             IDLE("clear_triangle"),
             IDLE("clear_flagged"),
             IDLE("permute"),
             IDLE("places"),
             IDLE("widen"),
             IDLE("adjoint"),
             IDLE("pseudoinverse"),
             IDLE("judge"),
             IDLE("qr"),
             IDLE("solve"),
             IDLE("solve_triangular"),
             {"count", k_count, 4, {8, 8, 4, 4}, 0},
             {"add_one", k_add_one, 5, {8, 8, 8, 8, 4}, 0},
             {"raise", k_raise, 4, {8, 8, 4, 4}, 0},
             {"add_last", k_add_last, 3, {0, 8, 8}, STRUCT_BYTES},
             {"crash", k_crash, 0, {0}, 0},
             {"nothing", k_nothing, 0, {0}, 0},
             {"copy_strided", k_copy_strided, 5, {0, 8, 8, 8, 8}, sizeof(struct space)},
             {"fft_edges", k_fft_edges, 5, {8, 8, 8, 8, 8}, 0},
             {"fft_widen", k_fft_widen, 5, {8, 8, 8, 8, 8}, 0},
             {"fft_scale", k_fft_scale, 4, {8, 8, 4, 8}, 0},
             {"fill", k_fill, 4, {8, 8, 8, 8}, 0},
             {"copy_if_clear", k_copy_if_clear, 8, {8, 8, 8, 8, 8, 8, 8, 4}, 0},
             {"keel_raising", k_raising, 7, {8, 8, 8, 8, 8, 8, 0}, 5 * sizeof(int32_t)},
             {"nccl_sum", k_nccl_sum, 4, {8, 8, 8, 8}, 0},
             {"affine", k_affine, 5, {8, 8, 4, 4, 1}, 0},
             {"pick", k_pick, 2, {8, 8}, 0},
             {"first", k_first, 1, {8}, 0}};

/* ---- the device's thread ---- */

static bool may_run(struct stream *s) {
    if (!s->head || s->running || f.paused) return false;
    struct item *i = s->head;
    return i->kind != WAIT || i->event->reached >= i->number || f.sticky;
}

static void run_item(struct item *i) {
    switch (i->kind) {
    case COPY: memcpy(i->dst, i->src, i->bytes); break;
    case SET:
        for (size_t k = 0; k < i->bytes; k++) ((uint32_t *)i->dst)[k] = i->value;
        break;
    case HOST: i->fn(i->arg); break;
    case KERNEL: {
        void *params[8];
        for (int k = 0; k < 8; k++) params[k] = &i->params[k];
        if (i->struct_at >= 0) params[i->struct_at] = i->struct_param;
        i->kernel(params, i->n_threads);
        break;
    }
    case WAIT:
    case RECORD: break;
    }
}

static void *device_thread(void *arg) {
    pthread_mutex_lock(&f.mu);
    for (;;) {
        struct stream *s = NULL;
        for (int k = 0; k < f.n_streams && !s; k++) {
            struct stream *c = f.streams[(f.next + k) % f.n_streams];
            if (may_run(c)) s = c;
        }
        if (!s) {
            pthread_cond_wait(&f.changed, &f.mu);
            continue;
        }
        f.next++;
        struct item *i = s->head;
        /* nothing runs in a context with an error, not even host functions */
        bool skip = f.sticky != 0;
        s->head = i->next;
        if (!s->head) s->tail = &s->head;
        s->running = true;
        if (!skip && i->kind == HOST) f.n_host_calls++;
        if (!skip && i->kind == KERNEL) f.n_launches++;
        pthread_mutex_unlock(&f.mu);
        if (!skip) run_item(i);
        pthread_mutex_lock(&f.mu);
        if (!skip && i->kind == RECORD && !f.sticky && i->number > i->event->reached)
            i->event->reached = i->number;
        s->running = false;
        free(i);
        pthread_cond_broadcast(&f.changed);
    }
    return NULL;
}

/* ---- calls ---- */

/* What the test wants of the call, or 0. The lock is held. */
static int begin_held(const char *call) {
    for (struct failure *x = f.fail; x < f.fail + MAX_FAILURES; x++)
        if (x->call && strcmp(x->call, call) == 0 && x->in-- == 0) {
            x->call = NULL;
            if (x->code >= 700) f.sticky = x->code;
            return x->code;
        }
    return 0;
}

/* The start of every call: takes the lock. Returns what the call must return, or 0 to continue. */
static int begin(const char *call, bool context) {
    pthread_mutex_lock(&f.mu);
    const int rc = begin_held(call);
    if (rc) return rc;
    if (context && current != &the_context) return NO_CONTEXT;
    return context ? f.sticky : 0;
}

static int end(int rc) {
    pthread_mutex_unlock(&f.mu);
    return rc;
}

#define BEGIN(name, context)            \
    do {                                \
        int rc_ = begin(name, context); \
        if (rc_) return end(rc_);       \
    } while (0)

static int add_item(struct graph *g, struct item i);
static int queue(struct stream *s, struct item i) {
    if (s->captures) return add_item(s->captures, i);
    struct item *own = malloc(sizeof *own);
    *own = i;
    own->next = NULL;
    *s->tail = own;
    s->tail = &own->next;
    pthread_cond_broadcast(&f.changed);
    return 0;
}

EXPORT int cuInit(unsigned flags) {
    BEGIN("cuInit", false);
    if (getenv("FAKE_CUDA_DEVICES")) f.devices = atoi(getenv("FAKE_CUDA_DEVICES"));
    if (!f.started) {
        pthread_t t;
        pthread_create(&t, NULL, device_thread, NULL);
        pthread_detach(t);
        f.started = true;
    }
    return end(0);
}
EXPORT int cuDriverGetVersion(int *v) {
    *v = 13000;
    return 0;
}
EXPORT int cuGetErrorName(int rc, const char **name) {
    *name = rc == OOM             ? "CUDA_ERROR_OUT_OF_MEMORY"
            : rc == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                  : "CUDA_ERROR_FAKE";
    return 0;
}
EXPORT int cuDeviceGetCount(int *n) {
    BEGIN("cuDeviceGetCount", false);
    *n = f.devices;
    return end(0);
}
EXPORT int cuDeviceGet(int *d, int index) {
    BEGIN("cuDeviceGet", false);
    *d = index;
    return end(index < f.devices ? 0 : 101);
}
EXPORT int cuDeviceGetName(char *name, int room, int d) {
    snprintf(name, (size_t)room, "Fake %d", d);
    return 0;
}
EXPORT int cuDeviceGetAttribute(int *v, int which, int d) {
    /* the second device is an integrated one */
    if (d == 1 && (which == 18 || which == 88 || which == 89)) return *v = 1, 0;
    *v = which == 1 ? 1024 : which == 8 ? 49152 : which == 16 ? 7 : which == 75 ? 9 : 0;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int d) {
    *bytes = (size_t)8 << 30;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int d) {
    BEGIN("cuDevicePrimaryCtxRetain", false);
    *context = &the_context;
    return end(0);
}
EXPORT int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}

/* ---- memory ---- */

/* The header before each block. Headers are in a list, so that leak checkers find blocks to which
 * only shifted addresses point. */
struct block {
    struct block *next, **at;
    size_t bytes;
    char pad[64 - 3 * sizeof(void *)];
};
static struct block *blocks;

static int mem_alloc(uint64_t *out, size_t bytes, uint64_t shift) {
    if (bytes == 0) return end(INVALID);
    if (f.used + bytes > f.budget) return end(OOM);
    struct block *b = malloc(sizeof *b + bytes);
    if (!b) return end(OOM);
    *b = (struct block){.next = blocks, .at = &blocks, .bytes = bytes};
    if (blocks) blocks->at = &b->next;
    blocks = b;
    f.used += bytes;
    *out = (uint64_t)(uintptr_t)(b + 1) + shift;
    return end(0);
}
EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    BEGIN("cuMemAlloc", true);
    return mem_alloc(out, bytes, SHIFT);
}
EXPORT int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags) {
    BEGIN("cuMemAllocManaged", true);
    return flags == 1 ? mem_alloc(out, bytes, 0) : end(INVALID);
}
EXPORT int cuMemFree_v2(uint64_t a) {
    BEGIN("cuMemFree", true);
    struct block *b = (struct block *)host_of(a) - 1;
    f.used -= b->bytes;
    *b->at = b->next;
    if (b->next) b->next->at = b->at;
    free(b);
    return end(0);
}
enum { N_PINNED = 256 };
static void *pinned[N_PINNED];
EXPORT int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    BEGIN("cuMemHostAlloc", true);
    /* Leak checkers find here what Keel keeps for ever. */
    for (int i = 0; i < N_PINNED; i++)
        if (!pinned[i]) return end((*p = pinned[i] = malloc(bytes)) ? 0 : OOM);
    return end(OOM);
}
EXPORT int cuMemFreeHost(void *p) {
    BEGIN("cuMemFreeHost", true);
    for (int i = 0; i < N_PINNED; i++)
        if (pinned[i] == p) pinned[i] = NULL;
    free(p);
    return end(0);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t n, void *s) {
    BEGIN("cuMemcpyDtoHAsync", true);
    return end(queue(s, (struct item){.kind = COPY, .dst = dst, .src = host_of(src), .bytes = n}));
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t n, void *s) {
    BEGIN("cuMemcpyHtoDAsync", true);
    return end(
        queue(s, (struct item){.kind = COPY, .dst = (char *)host_of(dst), .src = src, .bytes = n}));
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, void *s) {
    BEGIN("cuMemcpyDtoDAsync", true);
    return end(queue(
        s,
        (struct item){.kind = COPY, .dst = (char *)host_of(dst), .src = host_of(src), .bytes = n}));
}
EXPORT int cuMemsetD32Async(uint64_t dst, unsigned v, size_t n, void *s) {
    BEGIN("cuMemsetD32Async", true);
    return end(
        queue(s, (struct item){.kind = SET, .dst = (char *)host_of(dst), .value = v, .bytes = n}));
}

/* ---- streams and events ---- */

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
    BEGIN("cuStreamCreate", true);
    struct stream *s = f.n_streams < MAX_STREAMS ? calloc(1, sizeof *s) : NULL;
    if (!s) return end(OOM);
    s->tail = &s->head;
    f.streams[f.n_streams++] = s;
    f.n_live_streams++;
    *stream = s;
    return end(0);
}
EXPORT int cuStreamDestroy_v2(void *stream) {
    BEGIN("cuStreamDestroy", true);
    f.n_live_streams--;
    return end(0);
}
EXPORT int cuStreamSynchronize(void *stream) {
    struct stream *s = stream;
    BEGIN("cuStreamSynchronize", true);
    if (f.paused == 2) f.paused = 0;
    pthread_cond_broadcast(&f.changed);
    while ((s->head || s->running) && !f.sticky) pthread_cond_wait(&f.changed, &f.mu);
    return end(f.sticky);
}
EXPORT int cuStreamWaitEvent(void *s, void *event, unsigned flags) {
    BEGIN("cuStreamWaitEvent", true);
    struct event *e = event;
    return end(queue(s, (struct item){.kind = WAIT, .event = e, .number = e->recorded}));
}
EXPORT int cuLaunchHostFunc(void *s, void (*fn)(void *), void *arg) {
    BEGIN("cuLaunchHostFunc", true);
    return end(queue(s, (struct item){.kind = HOST, .fn = fn, .arg = arg}));
}
EXPORT int cuEventCreate(void **event, unsigned flags) {
    BEGIN("cuEventCreate", true);
    *event = calloc(1, sizeof(struct event));
    return end(0);
}
EXPORT int cuEventRecord(void *event, void *s) {
    BEGIN("cuEventRecord", true);
    struct event *e = event;
    return end(queue(s, (struct item){.kind = RECORD, .event = e, .number = ++e->recorded}));
}
EXPORT int cuEventQuery(void *event) {
    BEGIN("cuEventQuery", true);
    struct event *e = event;
    return end(e->reached >= e->recorded ? 0 : NOT_READY);
}
EXPORT int cuEventSynchronize(void *event) {
    BEGIN("cuEventSynchronize", true);
    struct event *e = event;
    while (e->reached < e->recorded && !f.sticky) pthread_cond_wait(&f.changed, &f.mu);
    return end(f.sticky);
}

/* ---- programs ---- */

static const char bad_program[] = ".version 9.9\n"; /* that of a later driver */
EXPORT int cuModuleLoadData(void **module, const void *image) {
    BEGIN("cuModuleLoadData", true);
    *module = (void *)&the_context;
    if (image && strncmp(image, bad_program, strlen(bad_program)) == 0) return end(INVALID_PTX);
    return end(image ? 0 : INVALID);
}
/* Most dynamic shared memory of each kernel; 0: what all may use. */
static int most_shared[sizeof kernels / sizeof *kernels];
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
    BEGIN("cuModuleGetFunction", true);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0) {
            *function = (void *)&kernels[i];
            most_shared[i] = 0;
            return end(0);
        }
    return end(NOT_FOUND);
}
static unsigned
    last_launch[8]; /* groups, threads per group, shared bytes, and the limits set for these */
static int limits[2] = {1024,
                        /* the same for every kernel: threads per group, shared bytes in its
                         * source */
                        0};
enum { MAX_DYNAMIC_SHARED = 8 };
static size_t kernel_number(const void *function) {
    return (size_t)((const char *)function - (const char *)kernels) / sizeof *kernels;
}
static int most_shared_of(const void *function) {
    const int set = most_shared[kernel_number(function)];
    return set ? set : (48 << 10) - limits[1];
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function) {
    BEGIN("cuFuncGetAttribute", true);
    *value = attribute == MAX_DYNAMIC_SHARED ? most_shared_of(function) : limits[attribute & 1];
    return end(0);
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
    BEGIN("cuFuncSetAttribute", true);
    last_launch[7] = (unsigned)value;
    if (attribute != MAX_DYNAMIC_SHARED || value <= 0) return end(INVALID);
    most_shared[kernel_number(function)] = value;
    return end(0);
}
/* The struct as CUDA defines it. */
struct node_params {
    void *function;
    unsigned geometry[7]; /* groups, threads per group, shared bytes */
    void **params, **extra;
    void *kernel, *context;
};
/* Returns 0, or the error that CUDA gives. Parameters are copied at once. */
static int describe(const struct node_params *p, struct item *i) {
    const size_t which = kernel_number(p->function);
    if (p->geometry[0] == 0 || p->geometry[3] > 1024) return INVALID;
    if ((int)p->geometry[6] > most_shared_of(p->function)) return INVALID;
    memcpy(last_launch, p->geometry, sizeof p->geometry);
    *i = (struct item){.kind = KERNEL,
                       .kernel = kernels[which].run,
                       .function = p->function,
                       .struct_at = -1,
                       .n_threads = p->geometry[0] * p->geometry[3]};
    memcpy(i->geometry, p->geometry, sizeof i->geometry);
    for (int k = 0; k < kernels[which].n_params; k++)
        if (kernels[which].bytes[k])
            memcpy(&i->params[k], p->params[k], kernels[which].bytes[k]);
        else
            memcpy(i->struct_param, p->params[i->struct_at = k], kernels[which].struct_bytes);
    return 0;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *s, void **params,
                          void **extra) {
    BEGIN("cuLaunchKernel", true);
    struct item i;
    struct node_params p = {function, {gx, gy, gz, bx, by, bz, shared}, params, extra, NULL, NULL};
    int rc = describe(&p, &i);
    return end(rc ? rc : queue(s, i));
}

/* ---- graphs: chains of kernels, and records of events that come after one of them; the instance
 * of a graph is the graph itself ---- */

enum { MAX_NODES = 192 };
struct graph {
    int n, owners; /* owners: the graph and its instance */
    int n_linked;  /* nodes that come after another one */
    bool captured;
    struct item *last; /* the last kernel */
    struct item node[MAX_NODES];
};
static int add_item(struct graph *g, struct item i) {
    if (g->n == MAX_NODES) return INVALID;
    g->node[g->n] = i;
    if (i.kind == KERNEL) g->last = &g->node[g->n];
    g->n++;
    return 0;
}
static struct graph *graph_new(void) {
    struct graph *g = calloc(1, sizeof *g);
    if (g) g->owners = 1;
    return g;
}
EXPORT int cuGraphCreate(void **graph, unsigned flags) {
    BEGIN("cuGraphCreate", true);
    return end((*graph = graph_new()) ? 0 : OOM);
}
static int disown(struct graph *g) {
    if (--g->owners) return 0;
    if (g->captured) f.n_captured--;
    free(g);
    return 0;
}
EXPORT int cuGraphDestroy(void *graph) {
    BEGIN("cuGraphDestroy", true);
    return end(disown(graph));
}
EXPORT int cuGraphExecDestroy(void *exec) {
    BEGIN("cuGraphExecDestroy", true);
    f.n_execs--;
    return end(disown(exec));
}
/* Only a chain can be run in this order: `after` is the last kernel. */
static bool follows(struct graph *g, void *const *after, size_t n_after) {
    g->n_linked += (int)n_after;
    return n_after == 0 || (n_after == 1 && *after == g->last);
}
EXPORT int cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t n_after,
                                   const struct node_params *p) {
    BEGIN("cuGraphAddKernelNode", true);
    struct graph *g = graph;
    struct item i;
    if (!follows(g, after, n_after)) return end(INVALID);
    const int rc = describe(p, &i);
    *node = &g->node[g->n];
    return end(rc ? rc : add_item(g, i));
}
EXPORT int cuGraphAddEventRecordNode(void **node, void *graph, void *const *after, size_t n_after,
                                     void *event) {
    BEGIN("cuGraphAddEventRecordNode", true);
    struct graph *g = graph;
    if (n_after != 1 || !follows(g, after, n_after)) return end(INVALID);
    *node = &g->node[g->n];
    return end(add_item(g, (struct item){.kind = RECORD, .event = event}));
}

/* ---- capturing ---- */

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) {
    BEGIN("cuStreamBeginCapture", true);
    struct stream *s = stream;
    if (mode != 1 || s->captures || !(s->captures = graph_new())) return end(INVALID);
    s->captures->captured = true;
    f.n_captured++;
    return end(0);
}
EXPORT int cuStreamEndCapture(void *stream, void **graph) {
    struct stream *s = stream;
    *graph = s->captures;
    s->captures = NULL;
    pthread_mutex_lock(&f.mu);
    const int rc = begin_held("cuStreamEndCapture");
    if (rc && *graph) disown(*graph);
    if (rc) *graph = NULL;
    return end(rc);
}
EXPORT int cuStreamIsCapturing(void *stream, int *status) {
    *status = ((struct stream *)stream)->captures != NULL;
    return 0;
}
EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *n) {
    BEGIN("cuGraphGetNodes", true);
    struct graph *g = graph;
    for (int i = 0; nodes && i < g->n && i < (int)*n; i++) nodes[i] = &g->node[i];
    *n = (size_t)g->n;
    return end(0);
}
EXPORT int cuGraphNodeGetType(void *node, int *type) {
    BEGIN("cuGraphNodeGetType", true);
    const struct item *i = node;
    *type = i->kind == KERNEL ? 0 : i->kind == HOST ? 3 : i->kind == WAIT ? 6 : 7;
    return end(0);
}
EXPORT int cuGraphKernelNodeGetParams_v2(void *node, struct node_params *out) {
    BEGIN("cuGraphKernelNodeGetParams", true);
    struct item *i = node;
    for (int k = 0; k < 8; k++) i->pointers[k] = &i->params[k];
    *out = (struct node_params){.function = (void *)i->function, .params = i->pointers};
    memcpy(out->geometry, i->geometry, sizeof out->geometry);
    return end(0);
}
EXPORT int cuGraphKernelNodeCopyAttributes(void *to, void *from) {
    BEGIN("cuGraphKernelNodeCopyAttributes", true);
    const struct item *a = to, *b = from;
    return end(a->kind == KERNEL && a->function == b->function ? 0 : INVALID);
}
EXPORT int cuGraphEventRecordNodeGetEvent(void *node, void **event) {
    BEGIN("cuGraphEventRecordNodeGetEvent", true);
    *event = ((struct item *)node)->event;
    return end(0);
}

/* An edge behind which a kernel may start early, and waits itself. */
struct edge {
    unsigned char from_port, to_port, type, reserved[5];
};
EXPORT int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to,
                                     const struct edge *edges, size_t n) {
    BEGIN("cuGraphAddDependencies", true);
    struct graph *g = graph;
    struct item *last = g->last;
    if (n != 1 || edges->from_port != 1 || edges->to_port || edges->type != 1 || *to != last ||
        *from != last - 1)
        return end(INVALID);
    g->n_linked++;
    f.n_early++;
    return end(0);
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    BEGIN("cuGraphInstantiateWithFlags", true);
    struct graph *g = graph;
    if (g->n_linked != g->n - 1) return end(INVALID);
    g->owners++;
    f.n_execs++;
    *exec = graph;
    return end(0);
}
EXPORT int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const struct node_params *p) {
    BEGIN("cuGraphExecKernelNodeSetParams", true);
    struct graph *g = exec;
    struct item *i = node;
    f.n_changed++;
    return end(i >= g->node && i < g->node + g->n ? describe(p, i) : INVALID);
}
EXPORT int cuGraphLaunch(void *exec, void *s) {
    BEGIN("cuGraphLaunch", true);
    struct graph *g = exec;
    for (int k = 0; k < g->n; k++) {
        struct item i = g->node[k];
        if (i.kind == RECORD) i.number = ++i.event->recorded;
        queue(s, i);
    }
    f.n_graphs++;
    return end(0);
}

/* ---- controls ---- */

/* Makes the n-th call of that function fail (0: the next one), in addition to one earlier request
 * that has not taken effect yet. NULL cancels. Codes from 700 on are sticky. */
EXPORT void fake_fail(const char *call, int n, int code) {
    pthread_mutex_lock(&f.mu);
    struct failure *x = f.fail;
    if (!call) memset(f.fail, 0, sizeof f.fail);
    while (x->call && x < f.fail + MAX_FAILURES - 1) x++;
    *x = (struct failure){call, n, code};
    pthread_mutex_unlock(&f.mu);
}
EXPORT void fake_limits(int threads, int shared_bytes) {
    pthread_mutex_lock(&f.mu);
    limits[0] = threads;
    limits[1] = shared_bytes;
    pthread_mutex_unlock(&f.mu);
}
EXPORT const unsigned *fake_last_launch(void) {
    return last_launch;
}
/* 0: the device works; 1: it is paused; 2: it is paused until the next cuStreamSynchronize. */
EXPORT void fake_pause(int pause) {
    pthread_mutex_lock(&f.mu);
    f.paused = pause;
    pthread_cond_broadcast(&f.changed);
    pthread_mutex_unlock(&f.mu);
}
EXPORT void fake_budget(size_t bytes) {
    pthread_mutex_lock(&f.mu);
    f.budget = bytes ? f.used + bytes : (size_t)1 << 40;
    pthread_mutex_unlock(&f.mu);
}
EXPORT size_t fake_used(void) {
    pthread_mutex_lock(&f.mu);
    size_t n = f.used;
    pthread_mutex_unlock(&f.mu);
    return n;
}
/* The number of: 0 kernels run, 1 host functions called, 2 live streams, 3 graphs launched, 4 edges
 * behind which a kernel may start early, 5 nodes changed, 6 graphs made less those destroyed,
 * 7 graphs that were captured less those destroyed. */
EXPORT uint64_t fake_number(int which) {
    pthread_mutex_lock(&f.mu);
    uint64_t n = which == 0   ? f.n_launches
                 : which == 1 ? f.n_host_calls
                 : which == 2 ? (uint64_t)f.n_live_streams
                 : which == 3 ? f.n_graphs
                 : which == 4 ? f.n_early
                 : which == 5 ? f.n_changed
                 : which == 6 ? f.n_execs
                              : f.n_captured;
    pthread_mutex_unlock(&f.mu);
    return n;
}
/* Repairs a context with an error, which CUDA cannot do; queued items are dropped. */
EXPORT void fake_mend(void) {
    pthread_mutex_lock(&f.mu);
    for (int i = 0; i < f.n_streams; i++)
        while (f.streams[i]->head || f.streams[i]->running) pthread_cond_wait(&f.changed, &f.mu);
    f.sticky = 0;
    pthread_mutex_unlock(&f.mu);
}
