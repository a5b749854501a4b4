/* sim_internal.h - the structures of the simulated device. Only files of backend/sim/ include it.
 *
 * Each device has queues of submitted batches, a few threads, and one lock. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/sim/sim.h"
#include "base/list.h"
#include "base/thread.h"

enum { KL_SIM_MAX_QUEUES = 4096 };

struct kl_sim_event {
    bool executed; /* other queues of the device wait for this */
    bool visible;  /* the host sees this */
    struct kl_sim_batch
        *invisible; /* the batch, while it is executed and the host has not been told */
};

struct kl_sim_batch {
    struct kl_link link; /* in its queue, or in the device's invisible list */
    const struct kl_command *commands;
    int n;
    struct kl_sim_event **waits;
    int n_waits;
    struct kl_sim_event *signal;
    struct kl_sim_queue *queue;
};

struct kl_sim_queue {
    int stream_index;
    struct kl_list batches;   /* linked by batch.link; not yet executed */
    struct kl_list invisible; /* executed, not yet visible; in order */
    bool running;
    uint64_t n_executed;
    int n_may_complete; /* how many more batches kl_sim_complete has allowed to become visible */
};

/* Memory that a device with shared memory may use, or must not touch. */
struct kl_sim_region {
    const char *begin;
    size_t bytes;
    /* Memory of the device; memory of the device that the host reads; and memory of the host that
     * the device may read. */
    enum { KL_SIM_OWN, KL_SIM_SHOWN, KL_SIM_GIVEN } kind;
    int n; /* how many times it is shown or given */
};

struct kl_sim {
    struct kl_driver driver; /* first */
    char name[8];
    struct kl_backend *backend;
    struct kl_mutex mu; /* leaf; guards everything below */
    pthread_cond_t work, changed;
    struct kl_sim_queue *queues[KL_SIM_MAX_QUEUES];
    int n_queues;
    int n_threads, n_running;
    bool hold, paused, lost, losing, woken, forked;
    int n_exchanging;
    uint64_t rng, n_launches, n_guarded_off;
    int64_t fail_submit_in; /* submissions until one fails; -1: never */
    uint32_t fail_submit_one_in, lose_one_in;
    size_t budget, used;
    struct kl_sim_region *regions; /* for a device that shares memory */
    int n_regions, regions_room;
    /* KEEL_SIM_WAITS=1: the slots free and takes wait until no exchange runs, as CUDA does when it
     * frees memory or loads a kernel, and all other calls wait for that one. */
    bool waits;
    struct kl_mutex calls; /* held by a call then; before mu */
};

/* ---- sim.c ---- */
struct kl_sim *kl_sim_get(int device);
/* The queue of a stream, or NULL. s->mu is held. */
struct kl_sim_queue *kl_sim_queue_named(struct kl_sim *s, int stream_index);

/* ---- sim_run.c; but for kl_sim_thread, and kl_sim_check_addresses, s->mu is held ---- */
/* A number from the device's generator. */
uint64_t kl_sim_draw(struct kl_sim *s);
void kl_sim_cond_wait(struct kl_sim *s, pthread_cond_t *c);
/* Counts one more use of a region; KL_ENOMEM. */
int kl_sim_region_add(struct kl_sim *s, const void *begin, size_t bytes, int kind);
void kl_sim_region_drop(struct kl_sim *s, const void *begin, int kind);
/* Looks up the memory of the operands, as real drivers do at hand-over. Aborts when the device was
 * not given it. */
void kl_sim_check_operands(struct kl_sim *s, const struct kl_command *c);
/* Checks that addresses are aligned to their items: real devices stop at a misaligned access, and
 * processors do not notice. */
int kl_sim_check_addresses(const struct kl_command *c, struct kl_error **err);
void kl_sim_batch_free(struct kl_sim_batch *b);
/* A thread of the device: executes and shows batches for ever. */
void kl_sim_thread(void *arg);

/* ---- sim_exchange.c: the slots of communicators, and exchanges ---- */
const char *kl_sim_comm_missing(struct kl_driver *d);
int64_t kl_sim_comm_device(struct kl_driver *d);
int kl_sim_comm_id(struct kl_driver *d, char id[KL_COMM_ID_BYTES], struct kl_error **err);
int kl_sim_comm_new(struct kl_driver *d, const char *id, int rank, int size, void **comm,
                    struct kl_error **err);
int kl_sim_comm_state(struct kl_driver *d, void *comm, struct kl_error **err);
bool kl_sim_comm_end(struct kl_driver *d, void *comm, bool abort);
int kl_sim_comm_flag(struct kl_driver *d, _Atomic(int64_t) **host, void **device,
                     struct kl_error **err);
bool kl_sim_exchanges(const struct kl_command *k);
int kl_sim_takes_exchange(const struct kl_command *k, struct kl_error **err);
/* Runs an exchange; it waits for the other processes. own_failed: a guard is set. Returns the
 * verdict, and tells what ranks told of each other where they do not do the same. */
uint32_t kl_sim_exchange(const struct kl_command *k, bool own_failed, uint32_t *told);
