/* sim_exchange.c - exchanges between the simulated devices of several processes, through a file
 * that all of them map: the operations of groups on a device, proved without one.
 *
 * Exchanges of a communicator have numbers. A rank writes its values and words to its part of the
 * file and says so; whoever has read them all says that too, and only then is the part written
 * again. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/sim/sim_internal.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

enum { MOST_RANKS = 16 };
static const size_t part_bytes = (size_t)16 << 20; /* for the values of one rank */

struct place {
    _Atomic(int64_t) written, read; /* exchanges */
    int64_t words[KL_EXCHANGE_N_WORDS];
};

struct shared {
    _Atomic(int) n_joined;
    _Atomic(bool) aborted;
    struct place place[MOST_RANKS];
};

struct comm {
    struct shared *shared;
    char *values; /* part_bytes of each rank */
    size_t mapped;
    int rank, size;
    int64_t number;
    _Atomic(bool) aborted;
    struct comm *next; /* in the list of aborted ones */
};

/* An exchange may still look at a communicator that was aborted. */
static struct comm *_Atomic aborted;

static _Atomic(uint64_t) n_exchanges;

uint64_t kl_sim_n_exchanges(void) {
    return atomic_load(&n_exchanges);
}

const char *kl_sim_comm_missing(struct kl_driver *d) {
    return NULL;
}

/* Every process has its own device. */
int64_t kl_sim_comm_device(struct kl_driver *d) {
    return (int64_t)getpid() * 16 + (int64_t)(((struct kl_sim *)d)->name[3]);
}

int kl_sim_comm_id(struct kl_driver *d, char id[KL_COMM_ID_BYTES], struct kl_error **err) {
    memset(id, 0, KL_COMM_ID_BYTES);
    strcpy(id, "/tmp/keel-sim-XXXXXX");
    int fd = mkstemp(id);
    if (fd < 0 || ftruncate(fd, (off_t)(sizeof(struct shared) + MOST_RANKS * part_bytes)))
        return kl_fail(err, KL_EGROUP, "%s: %s", id, strerror(errno));
    close(fd);
    return KL_OK;
}

int kl_sim_comm_new(struct kl_driver *d, const char *id, int rank, int size, void **comm,
                    struct kl_error **err) {
    struct kl_sim *s = (struct kl_sim *)d;
    struct comm *c = calloc(1, sizeof *c);
    c->mapped = sizeof(struct shared) + (size_t)MOST_RANKS * part_bytes;
    c->rank = rank;
    c->size = size;
    int fd = open(id, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 || size > MOST_RANKS
                   ? MAP_FAILED
                   : mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    /* An exchange that waits for others has a thread of the device for itself. */
    if (at == MAP_FAILED || kl_thread_start(kl_sim_thread, s, "keel-sim")) {
        free(c);
        return kl_fail(err, KL_EGROUP, "%s: %s", id, strerror(errno));
    }
    c->shared = at;
    c->values = (char *)at + sizeof(struct shared);
    if (atomic_fetch_add(&c->shared->n_joined, 1) + 1 == size) (void)unlink(id);
    *comm = c;
    return KL_OK;
}

int kl_sim_comm_state(struct kl_driver *d, void *comm, struct kl_error **err) {
    const struct comm *c = comm;
    return atomic_load(&c->shared->n_joined) == c->size;
}

bool kl_sim_comm_end(struct kl_driver *d, void *comm, bool abort) {
    struct comm *c = comm;
    atomic_store(&c->aborted, true);
    if (abort) {
        c->next = atomic_load(&aborted);
        while (!atomic_compare_exchange_weak(&aborted, &c->next, c)) continue;
        return true;
    }
    (void)munmap(c->shared, c->mapped);
    free(c);
    return true;
}

/* An aborted exchange says so itself here, so nothing reads the flag. */
int kl_sim_comm_flag(struct kl_driver *d, _Atomic(int64_t) **host, void **device,
                     struct kl_error **err) {
    *host = kl_calloc(1, sizeof **host);
    *device = *host;
    return *host ? KL_OK : kl_fail_nomem(err);
}

/* ---- an exchange ---- */

/* Waits until `place` counts at least n; false: the communicator was aborted. */
static bool wait_for(struct comm *c, _Atomic(int64_t) *count, int64_t n) {
    while (atomic_load(count) < n) {
        if (atomic_load(&c->aborted)) return false;
        sched_yield();
    }
    return true;
}

static void add(enum kl_op_id op, const struct kl_arg *to, void *from) {
    struct kl_error *e = NULL;
    struct kl_arg in[2] = {*to, *to};
    in[1].data = from;
    struct kl_launch l = {.op = op,
                          .n_in = 2,
                          .n_out = 1,
                          .in = in,
                          .out = to,
                          .pos_end = INT64_MAX,
                          .fault = KL_NO_FAULT,
                          .err = &e};
    while (kl_cpu_kernel(op)(&l) == KL_ENOMEM) {
        kl_error_release(e);
        e = NULL;
    }
}

/* The CPU's kernels take one part of a NaN for a NaN of both only after a comparison of real parts;
 * groups count a number with a NaN as NaN in both parts. */
static void extremes_of_pairs(const struct kl_arg *to, const float *from, bool largest) {
    float *x = to->data;
    for (int64_t i = 0; i < 2 * to->size; i += 2) {
        const float *a = x + i, *b = from + i;
        const bool a_nan = isnan(a[0]) || isnan(a[1]), b_nan = isnan(b[0]) || isnan(b[1]);
        const bool b_larger = b[0] != a[0] ? b[0] > a[0] : b[1] > a[1];
        if (a_nan || b_nan)
            x[i] = x[i + 1] = NAN;
        else if (b_larger == largest && (b[0] != a[0] || b[1] != a[1]))
            memcpy(x + i, b, 2 * sizeof *b);
    }
}

static enum kl_op_id reducer(enum kl_op_id op, enum kl_dtype dtype) {
    if (op == KL_OP_ALL_MIN) return KL_OP_MINIMUM;
    return op == KL_OP_ALL_MAX || dtype == KL_BOOL ? KL_OP_MAXIMUM : KL_OP_ADD;
}

/* Computes the output from the values of all ranks, which lie in the file. */
static void take_values(struct comm *c, const struct kl_command *k,
                        const struct kl_device_part *p) {
    const struct kl_arg *out = &k->args[k->n_in];
    const size_t bytes = (size_t)out->size * kl_dtype_size((enum kl_dtype)out->dtype);
    const size_t skip = p->kind == KL_EXCHANGE_SCATTER ? (size_t)p->rank * bytes : 0;
    if (!bytes) return;
    if (p->kind == KL_EXCHANGE_RECEIVE) {
        memcpy(out->data, c->values, bytes);
    } else if (p->kind == KL_EXCHANGE_GATHER) {
        for (int r = 0; r < c->size; r++)
            memcpy((char *)out->data + (size_t)r * (bytes / (size_t)c->size),
                   c->values + (size_t)r * part_bytes, bytes / (size_t)c->size);
    } else if (p->kind != KL_EXCHANGE_SEND) {
        memcpy(out->data, c->values + skip, bytes);
        for (int r = 1; r < c->size; r++) {
            void *from = c->values + (size_t)r * part_bytes + skip;
            if (out->dtype == KL_C64 && k->op != KL_OP_ALL_SUM && k->op != KL_OP_SUM_SCATTER)
                extremes_of_pairs(out, from, k->op == KL_OP_ALL_MAX);
            else
                add(reducer(k->op, (enum kl_dtype)out->dtype), out, from);
        }
    }
}

/* Which ranks of the communicator give values: all, or of a pair the first. */
static bool gives(const struct kl_device_part *p, int rank) {
    const bool pair = p->kind == KL_EXCHANGE_SEND || p->kind == KL_EXCHANGE_RECEIVE;
    return !pair || rank == 0;
}

static void put_values(struct comm *c, const struct kl_command *k, const struct kl_device_part *p) {
    if (p->failed || !k->n_in) return;
    const struct kl_arg *in = &k->args[0], *out = &k->args[1];
    const size_t bytes = (size_t)in->size * kl_dtype_size((enum kl_dtype)in->dtype);
    if (!bytes) return;
    memcpy(c->values + (size_t)c->rank * part_bytes, in->data, bytes);
    if (p->kind == KL_EXCHANGE_SEND) memmove(out->data, in->data, bytes);
}

/* The words of all, combined; false: the communicator was aborted. */
static bool exchange(struct comm *c, const struct kl_command *k, const struct kl_device_part *p,
                     int64_t *words) {
    struct place *mine = &c->shared->place[c->rank];
    const int64_t n = c->number++;
    for (int r = 0; r < c->size; r++)
        if (!wait_for(c, &c->shared->place[r].read, n)) return false;
    if (gives(p, c->rank)) put_values(c, k, p);
    memcpy(mine->words, words, sizeof mine->words);
    atomic_store(&mine->written, n + 1);
    for (int r = 0; r < c->size; r++) {
        const struct place *other = &c->shared->place[r];
        if (!wait_for(c, &c->shared->place[r].written, n + 1)) return false;
        for (int i = 0; i < KL_EXCHANGE_N_WORDS; i++)
            if (other->words[i] < words[i]) words[i] = other->words[i];
    }
    if (!p->failed) take_values(c, k, p);
    atomic_store(&mine->read, n + 1);
    return true;
}

bool kl_sim_exchanges(const struct kl_command *k) {
    return k->kind == KL_CMD_LAUNCH && kl_op_is_collective(k->op);
}

int kl_sim_takes_exchange(const struct kl_command *k, struct kl_error **err) {
    for (int i = 0; i < k->n_in; i++)
        if ((size_t)k->args[i].size * kl_dtype_size((enum kl_dtype)k->args[i].dtype) > part_bytes)
            return kl_fail(err, KL_EUNSUPPORTED,
                           "%s: the simulated device exchanges at most %zu bytes of each rank",
                           k->name, part_bytes);
    return KL_OK;
}

uint32_t kl_sim_exchange(const struct kl_command *k, bool own_failed, uint32_t *told) {
    const struct kl_device_part *p = ((const struct kl_collective_params *)k->params)->part;
    const bool failed = own_failed || p->failed;
    int64_t w[KL_EXCHANGE_N_WORDS] = {failed ? p->rank : p->size, p->what, -p->what, p->number,
                                      -p->number};
    int64_t mine[KL_EXCHANGE_N_WORDS];
    memcpy(mine, w, sizeof mine);
    atomic_fetch_add(&n_exchanges, 1);
    if (!exchange(p->comm, k, p, w)) return (uint32_t)p->rank;
    if (p->kind == KL_EXCHANGE_SEND) memcpy(w, mine, sizeof w); /* it hears nothing */
    if (w[KL_WORD_WHAT] != -w[KL_WORD_NOT_WHAT] || w[KL_WORD_NUMBER] != -w[KL_WORD_NOT_NUMBER]) {
        for (int i = 0; i < KL_EXCHANGE_N_WORDS - 2; i++) {
            told[2 * i] = (uint32_t)(uint64_t)w[1 + i];
            told[2 * i + 1] = (uint32_t)((uint64_t)w[1 + i] >> 32);
        }
        return KL_VERDICT_UNLIKE;
    }
    if (w[KL_WORD_FAILED] < p->size)
        return (uint32_t)(p->kind == KL_EXCHANGE_RECEIVE && !failed ? p->peer : w[KL_WORD_FAILED]);
    return KL_WORD_CLEAR;
}
