/* cuda_nccl.c - communicators and exchanges between the GPUs of several processes, by NCCL.
 *
 * A communicator is made by a thread of its own, which waits for the other processes, connects them
 * and exchanges a few bytes, so that later exchanges only launch kernels. NCCL's communicators that
 * do not block start a thread for each exchange, which takes a tenth of a millisecond. Another
 * thread can end what waits in NCCL all the same. An exchange and its words are one NCCL group. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

enum { MAKING, MADE, FAILED };

/* A joint sum (backend/exchange.h) that was captured; all of one size are alike. */
enum { MOST_CAPTURED = 32 };
struct sum {
    struct kl_cuda_captured captured; /* graph NULL: it could not be captured */
    struct kl_transfer transfer;
};

struct comm {
    void *nccl; /* valid when state is MADE */
    struct kl_cuda *dev;
    struct kl_nccl_id id;
    int rank, size;
    _Atomic(int) state, result; /* result: NCCL's, when state is FAILED */
    _Atomic(int) n_users;       /* threads that start an exchange, and sums that wait in chains */
    _Atomic(bool) ends;
    void *capture;           /* a stream; NULL: nothing can be captured */
    struct kl_mutex sums_mu; /* a leaf; guards the two after it */
    struct sum *sum[MOST_CAPTURED];
    int n_sums;
    struct comm *next; /* in the list of aborted ones */
};

/* ---- the end of the process ---- */

static _Atomic(int) n_ending; /* threads that end a communicator */
static _Atomic(bool) exits;

/* CUDA and NCCL free what they have when the process ends. A thread that is in them then would use
 * it, so it is waited for, but not for ever: it may wait for a kernel that does not end. */
static void await_ending(void) {
    const int64_t until = kl_clock_ns() + INT64_C(5000000000);
    atomic_store(&exits, true);
    while (atomic_load(&n_ending) && kl_clock_ns() < until)
        nanosleep(&(const struct timespec){0, 1000000}, NULL);
}

/* Registered after a communicator has been made, so that it runs before the functions that CUDA and
 * NCCL have registered by then. */
static void watch_exit(void) {
    (void)atexit(await_ending);
}

/* An exchange that was numbered before a communicator was aborted may still name it. */
static struct comm *_Atomic aborted;

static void keep_aborted(struct comm *c) {
    c->next = atomic_load(&aborted);
    while (!atomic_compare_exchange_weak(&aborted, &c->next, c)) continue;
}

static const char *text_of(int result) {
    static const char *const names[] = {"success",
                                        "a call of CUDA failed",
                                        "a call of the system failed",
                                        "an internal check failed",
                                        "an invalid argument",
                                        "an invalid use",
                                        "another process failed or its connection did",
                                        "in progress"};
    return result >= 0 && result < (int)(sizeof names / sizeof *names) ? names[result] : "unknown";
}

static int check(struct kl_error **err, const char *call, int result) {
    if (result == KL_NCCL_SUCCESS) return KL_OK;
    return kl_fail(err, KL_EGROUP, "%s of NCCL failed: %s (%d)", call, text_of(result), result);
}

const char *kl_cuda_comm_missing(struct kl_driver *d) {
    const char *why = NULL;
    return kl_nccl_api(&why) ? NULL : why;
}

int64_t kl_cuda_comm_device(struct kl_driver *driver) {
    static const int parts[] = {KL_CU_ATTR_PCI_DOMAIN, KL_CU_ATTR_PCI_BUS, KL_CU_ATTR_PCI_DEVICE};
    struct kl_cuda *d = kl_cuda_of(driver);
    int64_t id = 0;
    for (int i = 0; i < 3; i++) {
        int v = 0;
        if (d->api->DeviceGetAttribute(&v, parts[i], d->device)) v = 0;
        id = id << 16 | (v & 0xffff);
    }
    return id;
}

int kl_cuda_comm_id(struct kl_driver *driver, char id[KL_COMM_ID_BYTES], struct kl_error **err) {
    struct kl_nccl_id made;
    _Static_assert(sizeof made == KL_COMM_ID_BYTES, "an address is NCCL's");
    KL_TRY(kl_cuda_enter(kl_cuda_of(driver), err));
    KL_TRY(check(err, "ncclGetUniqueId", kl_nccl_api(NULL)->GetUniqueId(&made)));
    memcpy(id, made.bytes, sizeof made.bytes);
    return KL_OK;
}

/* Connects with all processes in the ways that exchanges use: with the other one of two also for
 * values that go from one to the other. memory: 256 bytes. */
static int warm_up(const struct kl_nccl_api *nccl, struct comm *c, char *memory, void *stream) {
    int rc = nccl->AllReduce(memory, memory + 64, 1, KL_NCCL_I64, KL_NCCL_MIN, c->nccl, stream);
    if (rc || c->size != 2) return rc;
    if ((rc = nccl->GroupStart())) return rc;
    rc = nccl->Send(memory, 1, KL_NCCL_I64, !c->rank, c->nccl, stream);
    if (!rc) rc = nccl->Recv(memory + 128, 1, KL_NCCL_I64, !c->rank, c->nccl, stream);
    const int end = nccl->GroupEnd();
    return rc ? rc : end;
}

static int make_and_connect(struct comm *c) {
    enum { CUDA_FAILED = 1 }; /* as NCCL says it */
    const struct kl_nccl_api *nccl = kl_nccl_api(NULL);
    struct kl_nccl_config config = {.size = sizeof config,
                                    .magic = KL_NCCL_MAGIC,
                                    .version = KL_NCCL_CONFIG_VERSION,
                                    .blocking = 1,
                                    .cga_cluster_size = KL_NCCL_UNSET,
                                    .min_ctas = KL_NCCL_UNSET,
                                    .max_ctas = KL_NCCL_UNSET,
                                    .split_share = KL_NCCL_UNSET};
    kl_cuda_address memory = 0;
    void *stream = NULL;
    if (kl_cuda_enter(c->dev, NULL) || kl_cuda_alloc(c->dev, 256, &memory, NULL))
        return CUDA_FAILED;
    int rc = c->dev->api->StreamCreate(&stream, KL_CU_STREAM_IS_NON_BLOCKING) ? CUDA_FAILED : 0;
    if (!rc) rc = nccl->CommInit(&c->nccl, c->size, c->id, c->rank, &config);
    if (!rc) rc = warm_up(nccl, c, (char *)(uintptr_t)memory, stream);
    if (!rc && c->dev->api->StreamSynchronize(stream)) rc = CUDA_FAILED;
    if (rc && stream)
        c->dev->api->StreamDestroy(stream);
    else
        c->capture = stream;
    const bool begun = kl_driver_stall_begin();
    (void)c->dev->api->MemFree(memory);
    kl_driver_stall_end(begun);
    return rc;
}

static void make(void *arg) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct comm *c = arg;
    const int rc = make_and_connect(c);
    (void)pthread_once(&once, watch_exit);
    atomic_store(&c->result, rc);
    atomic_store(&c->state, rc ? FAILED : MADE);
}

int kl_cuda_comm_new(struct kl_driver *driver, const char *id, int rank, int size, void **comm,
                     struct kl_error **err) {
    struct comm *c = kl_calloc(1, sizeof *c);
    if (!c) return kl_fail_nomem(err);
    memcpy(c->id.bytes, id, sizeof c->id.bytes);
    c->dev = kl_cuda_of(driver);
    c->rank = rank;
    c->size = size;
    kl_mutex_init(&c->sums_mu);
    if (kl_thread_start(make, c, "keel-nccl")) {
        kl_free(c);
        return kl_fail(err, KL_ENOMEM, "the thread that connects GPUs could not be started");
    }
    *comm = c;
    return KL_OK;
}

int kl_cuda_comm_state(struct kl_driver *driver, void *comm, struct kl_error **err) {
    struct comm *c = comm;
    const int state = atomic_load(&c->state);
    if (state == FAILED) return check(err, "making a communicator", atomic_load(&c->result));
    return state == MADE;
}

/* NCCL ends a communicator only when no graph has what was captured. The sums themselves live on
 * where an exchange may still name them. */
static void end_sums(struct comm *c) {
    kl_mutex_lock(&c->sums_mu);
    for (int i = 0; i < c->n_sums; i++) kl_cuda_captured_end(c->dev, &c->sum[i]->captured);
    kl_mutex_unlock(&c->sums_mu);
    if (c->capture) (void)c->dev->api->StreamDestroy(c->capture);
    c->capture = NULL;
}

static void destroy(void *arg) { /* waits for exchanges of this process, which are over */
    struct comm *c = arg;
    const bool begun = kl_driver_stall_begin();
    if (!atomic_load(&exits) && !kl_cuda_enter(c->dev, NULL)) {
        end_sums(c);
        (void)kl_nccl_api(NULL)->CommDestroy(c->nccl);
    }
    kl_driver_stall_end(begun);
    for (int i = 0; i < c->n_sums; i++) kl_free(c->sum[i]);
    kl_free(c);
    atomic_fetch_sub(&n_ending, 1);
}

/* NCCL frees memory then, which waits for what runs on the device: perhaps for an exchange of
 * another communicator that is still to be aborted. So each has a thread. */
static void abort_it(void *arg) {
    struct comm *c = arg;
    /* A thread that is about to call NCCL sees `ends`; one that waits there is woken. */
    for (int i = 0; i < 100000 && atomic_load(&c->n_users); i++) sched_yield();
    if (!atomic_load(&exits) && !kl_cuda_enter(c->dev, NULL)) {
        end_sums(c);
        (void)kl_nccl_api(NULL)->CommAbort(c->nccl);
    }
    keep_aborted(c);
    atomic_fetch_sub(&n_ending, 1);
}

bool kl_cuda_comm_end(struct kl_driver *driver, void *comm, bool abort) {
    struct comm *c = comm;
    atomic_store(&c->ends, true);
    /* The thread that makes it may wait for a lost process for ever. */
    if (atomic_load(&c->state) != MADE) {
        keep_aborted(c);
        return true;
    }
    atomic_fetch_add(&n_ending, 1);
    if (!kl_thread_start(abort ? abort_it : destroy, c, "keel-nccl")) return true;
    if (abort) {
        abort_it(c);
    } else {
        keep_aborted(c); /* it lives as long as the process */
        atomic_fetch_sub(&n_ending, 1);
    }
    return true;
}

/* Flags are taken from pages of page-locked memory, which has one address for both. */
int kl_cuda_comm_flag(struct kl_driver *driver, _Atomic(int64_t) **host, void **device,
                      struct kl_error **err) {
    enum { PAGE = 4096 };
    static struct kl_mutex mu = KL_MUTEX_INIT;
    static _Atomic(int64_t) *page;
    static int n_left;
    int rc = KL_OK;
    kl_mutex_lock(&mu);
    if (!n_left) {
        void *more = NULL;
        rc = kl_cuda_enter(kl_cuda_of(driver), err);
        if (!rc) rc = kl_cuda_alloc_pinned(kl_cuda_of(driver), PAGE, &more, err);
        if (!rc) page = memset(more, 0, PAGE);
        if (!rc) n_left = PAGE / sizeof *page;
    }
    if (!rc) {
        n_left--;
        *host = page++;
        *device = (void *)*host;
    }
    kl_mutex_unlock(&mu);
    return rc;
}

/* ---- exchanges ---- */

/* -1: NCCL has no such numbers. */
static int number_of(enum kl_dtype dtype) {
    static const int numbers[] = {[KL_BOOL] = KL_NCCL_U8,
                                  [KL_U8] = KL_NCCL_U8,
                                  [KL_U16] = -1,
                                  [KL_U32] = KL_NCCL_U32,
                                  [KL_U64] = KL_NCCL_U64,
                                  [KL_I8] = KL_NCCL_I8,
                                  [KL_I16] = -1,
                                  [KL_I32] = KL_NCCL_I32,
                                  [KL_I64] = KL_NCCL_I64,
                                  [KL_F16] = KL_NCCL_F16,
                                  [KL_F32] = KL_NCCL_F32,
                                  [KL_F64] = KL_NCCL_F64,
                                  [KL_BF16] = KL_NCCL_BF16,
                                  [KL_C64] = -1};
    return numbers[dtype];
}

/* Numbers of the same size, for what is moved as it is. */
static int bits_of(enum kl_dtype dtype) {
    switch (kl_dtype_size(dtype)) {
    case 1: return KL_NCCL_U8;
    case 2: return KL_NCCL_F16;
    case 4: return KL_NCCL_U32;
    default: return KL_NCCL_U64;
    }
}

static int start_values(const struct kl_nccl_api *nccl, void *comm, void *stream,
                        const struct kl_transfer *t) {
    static const int ops[] = {[KL_REDUCE_SUM] = KL_NCCL_SUM,
                              [KL_REDUCE_MAX] = KL_NCCL_MAX,
                              [KL_REDUCE_MIN] = KL_NCCL_MIN};
    const size_t n = (size_t)t->n;
    const int number = number_of(t->dtype), bits = bits_of(t->dtype), op = ops[t->reduction];
    if (n == 0) return KL_NCCL_SUCCESS;
    switch (t->kind) {
    case KL_EXCHANGE_REDUCE: return nccl->AllReduce(t->from, t->to, n, number, op, comm, stream);
    case KL_EXCHANGE_SCATTER:
        return nccl->ReduceScatter(t->from, t->to, n, number, op, comm, stream);
    case KL_EXCHANGE_GATHER: return nccl->AllGather(t->from, t->to, n, bits, comm, stream);
    case KL_EXCHANGE_SEND: return nccl->Send(t->from, n, bits, t->peer, comm, stream);
    case KL_EXCHANGE_RECEIVE: return nccl->Recv(t->to, n, bits, t->peer, comm, stream);
    default: return KL_NCCL_SUCCESS;
    }
}

static int start_words(const struct kl_nccl_api *nccl, void *comm, void *stream,
                       const struct kl_transfer *t) {
    enum { N = KL_EXCHANGE_N_WORDS };
    int64_t *words = t->words;
    if (t->kind == KL_EXCHANGE_SEND)
        return nccl->Send(words, N, KL_NCCL_I64, t->peer, comm, stream);
    if (t->kind == KL_EXCHANGE_RECEIVE)
        return nccl->Recv(words + N, N, KL_NCCL_I64, t->peer, comm, stream);
    return nccl->AllReduce(words, words + N, N, KL_NCCL_I64, KL_NCCL_MIN, comm, stream);
}

static int start(const struct kl_nccl_api *nccl, struct comm *c, void *stream,
                 const struct kl_transfer *t, struct kl_error **err) {
    if (!t->words) return check(err, "the sum", start_values(nccl, c->nccl, stream, t));
    KL_TRY(check(err, "ncclGroupStart", nccl->GroupStart()));
    int rc = check(err, "the exchange of values", start_values(nccl, c->nccl, stream, t));
    if (!rc) rc = check(err, "the exchange of words", start_words(nccl, c->nccl, stream, t));
    const int end = nccl->GroupEnd();
    return rc ? rc : check(err, "ncclGroupEnd", end);
}

static bool same_transfer(const struct kl_transfer *a, const struct kl_transfer *b) {
    return a->kind == b->kind && a->reduction == b->reduction && a->dtype == b->dtype &&
           a->n == b->n && a->from == b->from && a->to == b->to;
}

/* The sum t, captured by now; NULL: it cannot be. All ranks capture the same: the first that they
 * do. */
static struct sum *sum_of(struct comm *c, const struct kl_transfer *t) {
    struct sum *s = NULL;
    kl_mutex_lock(&c->sums_mu);
    for (int i = 0; i < c->n_sums && !s; i++)
        if (same_transfer(&c->sum[i]->transfer, t)) s = c->sum[i];
    if (!s && c->n_sums < MOST_CAPTURED && c->capture && (s = kl_calloc(1, sizeof *s))) {
        s->transfer = *t;
        c->sum[c->n_sums++] = s;
        if (kl_cuda_capture_begin(c->dev, c->capture)) {
            const int rc = start_values(kl_nccl_api(NULL), c->nccl, c->capture, t);
            if (kl_cuda_capture_end(c->dev, c->capture, &s->captured) && rc)
                kl_cuda_captured_end(c->dev, &s->captured);
        }
        s->captured.owner = c;
    }
    if (s && !s->captured.graph) s = NULL;
    kl_mutex_unlock(&c->sums_mu);
    return s;
}

int kl_nccl_call(const struct kl_cuda_captured *x, void *stream, struct kl_error **err) {
    const struct sum *s = kl_container(x, const struct sum, captured);
    return start(kl_nccl_api(NULL), x->owner, stream, &s->transfer, err);
}

void kl_nccl_left(const struct kl_cuda_captured *x) {
    atomic_fetch_sub(&((struct comm *)x->owner)->n_users, 1);
}

int kl_cuda_exchange(struct kl_driver *driver, void *queue, void *comm, const struct kl_transfer *t,
                     struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    struct comm *c = comm;
    int rc = KL_OK;
    atomic_fetch_add(&c->n_users, 1);
    if (atomic_load(&c->ends)) {
        rc = kl_fail(err, KL_EGROUP, "the group was broken before an exchange began");
    } else {
        const struct sum *s = t->words ? NULL : sum_of(c, t);
        const bool waits = s && kl_cuda_chain_takes_captured(q->chain);
        rc = waits ? kl_cuda_chain_add_captured(d, q, &s->captured, err)
                   : kl_cuda_chain_flush(d, q, err);
        if (waits && !rc) return KL_OK; /* the chain counts as a user until it is handed over */
        if (!rc) rc = start(kl_nccl_api(NULL), c, q->stream, t, err);
    }
    atomic_fetch_sub(&c->n_users, 1);
    return rc;
}
