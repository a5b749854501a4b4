/* fake_nccl.c - an NCCL for tests, used with fake_cuda.c: sums of float32 alone are computed, as if
 * all ranks had the same values. Where a stream captures, its call is a wait, a kernel and a
 * record, as NCCL's is. A communicator must not be ended while what was captured is alive. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { WELL = 0, INTERNAL = 3, INVALID_ARGUMENT = 4, F32 = 7, SUM = 0 };
struct id {
    char bytes[128];
};
struct comm {
    int size;
};
static void *event; /* of all communicators, as events of the fake driver live for ever */
/* test_cuda_nccl.c has the same struct. */
struct asked {
    int n_calls, n_captured, n_ended; /* calls that ran, that were captured; communicators */
};
static struct {
    pthread_mutex_t mu;
    struct asked asked;
    int kernels;    /* of a captured call */
    bool fail_next; /* call of AllReduce */
} f = {.mu = PTHREAD_MUTEX_INITIALIZER, .kernels = 1};

EXPORT void fake_nccl_asked(struct asked *out) {
    pthread_mutex_lock(&f.mu);
    *out = f.asked;
    pthread_mutex_unlock(&f.mu);
}
EXPORT void fake_nccl_kernels(int n) {
    f.kernels = n;
}
EXPORT void fake_nccl_fail_next(void) {
    f.fail_next = true;
}

/* ---- the driver ---- */

static void *symbol(const char *name) {
    static void *lib;
    if (!lib) lib = dlopen(getenv("KEEL_CUDA_DRIVER"), RTLD_NOW);
    void *p = lib ? dlsym(lib, name) : NULL;
    if (!p) abort();
    return p;
}
#define CU(name, params, args) (((int(*) params)symbol(name))args)

static int sum_kernel(const void *from, void *to, size_t n, int size, void *stream) {
    uint64_t p[4] = {(uintptr_t)from, (uintptr_t)to, n, (uint64_t)size};
    void *params[4] = {&p[0], &p[1], &p[2], &p[3]}, *function;
    if (CU("cuModuleGetFunction", (void **, void *, const char *), (&function, NULL, "nccl_sum")))
        return INTERNAL;
    return CU("cuLaunchKernel",
              (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
               void **, void **),
              (function, 1, 1, 1, 512, 1, 1, 0, stream, params, NULL));
}

/* ---- NCCL ---- */

EXPORT int ncclGetVersion(int *version) {
    *version = 22809;
    return WELL;
}
EXPORT int ncclGetUniqueId(struct id *id) {
    memset(id, 7, sizeof *id);
    return WELL;
}
EXPORT int ncclCommInitRankConfig(void **comm, int size, struct id id, int rank, void *config) {
    struct comm *c = calloc(1, sizeof *c);
    if (!c) return INTERNAL;
    c->size = size;
    *comm = c;
    pthread_mutex_lock(&f.mu);
    const int rc = event ? WELL : CU("cuEventCreate", (void **, unsigned), (&event, 2));
    pthread_mutex_unlock(&f.mu);
    return rc;
}
EXPORT int ncclCommGetAsyncError(void *comm, int *state) {
    return *state = WELL;
}
EXPORT int ncclCommFinalize(void *comm) {
    return WELL;
}
static int end(void *comm) {
    if (CU("fake_number", (int), (7))) { /* NCCL waits then, for ever */
        fprintf(stderr, "a communicator was ended while a captured graph lived\n");
        abort();
    }
    free(comm);
    pthread_mutex_lock(&f.mu);
    f.asked.n_ended++;
    pthread_mutex_unlock(&f.mu);
    return WELL;
}
EXPORT int ncclCommDestroy(void *comm) {
    return end(comm);
}
EXPORT int ncclCommAbort(void *comm) {
    return end(comm);
}
EXPORT int ncclGroupStart(void) {
    return WELL;
}
EXPORT int ncclGroupEnd(void) {
    return WELL;
}
EXPORT int ncclAllReduce(const void *from, void *to, size_t n, int dtype, int op, void *comm,
                         void *stream) {
    const struct comm *c = comm;
    int captures = 0, rc = 0;
    if (f.fail_next) {
        f.fail_next = false;
        return INVALID_ARGUMENT;
    }
    if (dtype != F32 || op != SUM) return WELL;
    CU("cuStreamIsCapturing", (void *, int *), (stream, &captures));
    pthread_mutex_lock(&f.mu);
    f.asked.n_captured += captures;
    f.asked.n_calls += !captures;
    pthread_mutex_unlock(&f.mu);
    if (captures) rc = CU("cuStreamWaitEvent", (void *, void *, unsigned), (stream, event, 1));
    for (int i = 0; i < (captures ? f.kernels : 1) && !rc; i++)
        rc = sum_kernel(from, to, n, c->size, stream);
    if (captures && !rc) rc = CU("cuEventRecord", (void *, void *), (event, stream));
    return rc ? INTERNAL : WELL;
}
EXPORT int ncclReduceScatter(const void *from, void *to, size_t n, int dtype, int op, void *comm,
                             void *stream) {
    return WELL;
}
EXPORT int ncclAllGather(const void *from, void *to, size_t n, int dtype, void *comm,
                         void *stream) {
    return WELL;
}
EXPORT int ncclSend(const void *from, size_t n, int dtype, int peer, void *comm, void *stream) {
    return WELL;
}
EXPORT int ncclRecv(void *to, size_t n, int dtype, int peer, void *comm, void *stream) {
    return WELL;
}
