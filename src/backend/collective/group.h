/* group.h - groups of processes, and the operations on values that they do together.
 *
 * A group numbers its operations when they are committed, and does them in that order on streams of
 * its own: one for all ranks together, and one for each other rank and direction. An operation that
 * is committed is always done, because other processes need the part of this one: where its input
 * has failed or there is no memory it takes part with zeros, and says that it failed. */
#pragma once
#include "backend/backend.h"

struct kl_group;
struct kl_stream;

/* The group of all processes; made at the first call. `backend`: "any" (also NULL), or the name of
 * an engine. strict: an error where no engine can be used; else a group of one, unless the
 * environment says that there are several processes. Retained. */
int kl_group_init(struct kl_group **out, bool strict, const char *backend, struct kl_error **err);
/* Whether kl_group_init can use this engine, or any. */
bool kl_group_available(const char *backend);
/* The layer above gives groups this: how to make a stream of a backend, and the memory of the CPU.
 * Called before the first group is made; later calls change nothing. */
struct kl_group_host {
    /* b: the CPU's groups (not on_device), or a device. */
    int (*stream_new)(struct kl_stream **out, struct kl_backend *b, bool on_device,
                      struct kl_error **err);
    void (*stream_release)(struct kl_stream *s);
    struct kl_backend *(*stream_backend)(const struct kl_stream *s);
    struct kl_timeline *(*stream_timeline)(struct kl_stream *s);
    /* A ticket of a stream that runs no tasks; the caller publishes it. */
    uint64_t (*stream_promise)(struct kl_stream *s);
    /* The device on which this process computes, of those of this host that several processes
     * share; rank_on_host -1: not known. wanted: a GPU also where the default device is the CPU.
     * NULL: the CPU. */
    struct kl_backend *(*device)(int rank_on_host, bool wanted);
    /* An operation that was committed for a stream of the user is settled. */
    void (*stream_settled)(struct kl_stream *s);
    /* Hands over what the stream holds back, when no other thread runs it. */
    void (*hand_over)(struct kl_stream *s);
    struct kl_memory *memory;
};
void kl_group_set_host(const struct kl_group_host *host);

struct kl_group *kl_group_retain(struct kl_group *g); /* NULL is fine */
void kl_group_release(struct kl_group *g);            /* NULL is fine */
int kl_group_rank(const struct kl_group *g);
int kl_group_size(const struct kl_group *g);
/* The device whose values the group moves by a library of the device, or NULL: the values of all
 * devices go through the host. */
struct kl_backend *kl_group_device(const struct kl_group *g);
/* The ranks of g that give the same color, in the order of their keys, then of their ranks; key -1
 * is the rank. All ranks of g call it; it waits for them. Retained. */
int kl_group_split(struct kl_group *g, int color, int key, struct kl_group **out,
                   struct kl_error **err);

/* ---- for graph/ and transforms/: tasks of operations with KL_OPF_COLLECTIVE ---- */
/* Takes what the task needs so that nothing can fail once it is committed, and a number in the
 * order of building. t has its parameters, inputs and outputs, and its parameters' reference to the
 * group. user, user_index: the stream that the user gave, and its number. On failure the parameters
 * are as before. */
int kl_collective_prepare(struct kl_task *t, struct kl_stream *user, int64_t user_index,
                          struct kl_error **err);
/* Drops what the parameters own. */
void kl_collective_drop(const struct kl_task *t);
/* The task is committed: its value is settled by this ticket. Under the commit lock. */
void kl_collective_committed(const struct kl_task *t, struct kl_timeline *timeline,
                             uint64_t ticket);
/* The stream on which the task runs. */
struct kl_stream *kl_collective_stream(const struct kl_task *t);
/* Whether the task, which is about to be launched, must wait, until the group is connected or for
 * an operation before it: *w says for what. */
bool kl_collective_waits(const struct kl_task *t, struct kl_wait *w);
/* The number in the order of building, over all groups. */
uint64_t kl_collective_serial(const struct kl_task *t);
/* Takes n such numbers for operations that are to be built, and returns the first. */
uint64_t kl_collective_serials(uint64_t n);
/* The next operation that this thread builds gets this number instead of a new one. */
void kl_collective_next_serial(uint64_t serial);

void kl_collective_forked(void); /* in the child of a fork */
