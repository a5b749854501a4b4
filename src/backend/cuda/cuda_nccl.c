/* cuda_nccl.c - communicators and exchanges between the GPUs of several processes, by NCCL.
 *
 * Communicators do not block: a call may go on in the background, and another thread can end what
 * is under way. An exchange and its words are one NCCL group, so that they are one kernel as far as
 * NCCL can. */
#include <sched.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

struct comm {
    void *nccl;
    _Atomic(int) n_users; /* threads that start an exchange */
    _Atomic(bool) ends;
    struct comm *next; /* in the list of aborted ones */
};

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
    if (result == KL_NCCL_SUCCESS || result == KL_NCCL_IN_PROGRESS) return KL_OK;
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

int kl_cuda_comm_new(struct kl_driver *driver, const char *id, int rank, int size, void **comm,
                     struct kl_error **err) {
    struct kl_nccl_config config = {.size = sizeof config,
                                    .magic = KL_NCCL_MAGIC,
                                    .version = KL_NCCL_CONFIG_VERSION,
                                    .blocking = 0,
                                    .cga_cluster_size = KL_NCCL_UNSET,
                                    .min_ctas = KL_NCCL_UNSET,
                                    .max_ctas = KL_NCCL_UNSET,
                                    .split_share = KL_NCCL_UNSET};
    struct kl_nccl_id address;
    struct comm *c = kl_calloc(1, sizeof *c);
    if (!c) return kl_fail_nomem(err);
    memcpy(address.bytes, id, sizeof address.bytes);
    int rc = kl_cuda_enter(kl_cuda_of(driver), err);
    if (!rc)
        rc = check(err, "ncclCommInitRankConfig",
                   kl_nccl_api(NULL)->CommInit(&c->nccl, size, address, rank, &config));
    if (rc) {
        kl_free(c);
        return rc;
    }
    *comm = c;
    return KL_OK;
}

int kl_cuda_comm_state(struct kl_driver *driver, void *comm, struct kl_error **err) {
    struct comm *c = comm;
    int state = KL_NCCL_IN_PROGRESS;
    KL_TRY(kl_cuda_enter(kl_cuda_of(driver), err));
    KL_TRY(check(err, "ncclCommGetAsyncError", kl_nccl_api(NULL)->CommState(c->nccl, &state)));
    KL_TRY(check(err, "a communicator", state));
    return state == KL_NCCL_SUCCESS;
}

bool kl_cuda_comm_end(struct kl_driver *driver, void *comm, bool abort) {
    const struct kl_nccl_api *nccl = kl_nccl_api(NULL);
    struct comm *c = comm;
    int state = KL_NCCL_SUCCESS;
    if (kl_cuda_enter(kl_cuda_of(driver), NULL)) return true; /* it ends with the device */
    if (!abort) {
        const bool begun = atomic_exchange(&c->ends, true);
        if (!begun && check(NULL, "", nccl->CommFinalize(c->nccl))) state = -1;
        if (state == KL_NCCL_SUCCESS && nccl->CommState(c->nccl, &state)) state = -1;
        if (state == KL_NCCL_IN_PROGRESS) return false;
    }
    if (!abort && state == KL_NCCL_SUCCESS) {
        (void)nccl->CommDestroy(c->nccl);
        kl_free(c);
        return true;
    }
    atomic_store(&c->ends, true);
    while (atomic_load(&c->n_users)) sched_yield();
    (void)nccl->CommAbort(c->nccl);
    keep_aborted(c);
    return true;
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
    int state = KL_NCCL_IN_PROGRESS;
    KL_TRY(check(err, "ncclGroupStart", nccl->GroupStart()));
    int rc = check(err, "the exchange of values", start_values(nccl, c->nccl, stream, t));
    if (!rc) rc = check(err, "the exchange of words", start_words(nccl, c->nccl, stream, t));
    if (rc) {
        (void)nccl->GroupEnd();
        return rc;
    }
    KL_TRY(check(err, "ncclGroupEnd", nccl->GroupEnd()));
    /* The first exchange may go on in the background, to connect with the other processes.
     * Later work of the stream must come after it. */
    for (;;) {
        KL_TRY(check(err, "ncclCommGetAsyncError", nccl->CommState(c->nccl, &state)));
        if (state != KL_NCCL_IN_PROGRESS) return check(err, "an exchange", state);
        if (atomic_load(&c->ends))
            return kl_fail(err, KL_EGROUP, "the group was broken while an exchange began");
        sched_yield();
    }
}

int kl_cuda_exchange(struct kl_driver *driver, void *queue, void *comm, const struct kl_transfer *t,
                     struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    struct comm *c = comm;
    KL_TRY(kl_cuda_chain_flush(d, q, err));
    atomic_fetch_add(&c->n_users, 1);
    int rc = atomic_load(&c->ends)
                 ? kl_fail(err, KL_EGROUP, "the group was broken before an exchange began")
                 : start(kl_nccl_api(NULL), c, q->stream, t, err);
    atomic_fetch_sub(&c->n_users, 1);
    return rc;
}
