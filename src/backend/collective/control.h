/* control.h - small messages between the processes, over TCP: who is alive, why a value failed, who
 * splits a group. They carry no values.
 *
 * Every process has a connection to every other one. Each sends a sign of life several times within
 * the limit; a connection that ends, or on which nothing came for the limit, means that the process
 * at the other end is lost. All functions are called under the lock of the progress (progress.h);
 * none of them blocks, but kl_control_open. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "backend/collective/engine.h"

enum kl_control_kind {
    KL_CONTROL_ALIVE,  /* a sign of life */
    KL_CONTROL_CAUSE,  /* why an exchange fails: its group, lane and number, code and text */
    KL_CONTROL_BROKEN, /* a group cannot be used any more: code and text; value: it was connected */
    KL_CONTROL_SPLIT,  /* number: of the split; value: color and key */
    KL_CONTROL_COMM,   /* the address of a communicator of devices, as text: its group and lane */
    KL_CONTROL_CHECK,  /* debug mode: which exchange is to begin; its lane, number, and what */
    KL_CONTROL_ENDS,   /* the process ends in an orderly way */
};

struct kl_control_message {
    uint32_t kind;
    int32_t code; /* of an error */
    uint64_t group;
    int64_t lane;   /* of the group's exchanges (collective.h) */
    int64_t number; /* of the exchange or split */
    int64_t value;
    uint32_t text_bytes; /* of the text that follows, without an end */
    uint32_t pad;
};
enum { KL_CONTROL_TEXT = 2048 }; /* the longest text */

struct kl_control;

/* How processes gather before they have control connections. */
struct kl_gathering {
    /* Gathers n bytes of every rank, in the order of ranks. */
    int (*gather)(const struct kl_gathering *g, const void *from, void *to, size_t n,
                  struct kl_error **err);
    /* false: a process has given up, so nobody need wait for it. NULL: not known. */
    bool (*all_here)(const struct kl_gathering *g);
    void *state;
    int64_t limit_ns;
};
/* Connects all `size` processes, of which this is number `rank`. on_message gets every message but
 * signs of life; text ends in 0. on_lost is called once for a process that is lost. */
int kl_control_open(struct kl_control **out, int rank, int size, const struct kl_gathering *by,
                    void (*on_message)(int from, const struct kl_control_message *m,
                                       const char *text),
                    void (*on_lost)(int process, const char *why), struct kl_error **err);
/* Sends to a process; a process that is lost, or does not read, gets nothing: it is lost. */
void kl_control_send(struct kl_control *c, int to, const struct kl_control_message *m,
                     const char *text);
/* Reads what has come, sends signs of life, and notices who is lost. */
void kl_control_poll(struct kl_control *c);
/* Sleeps until something has come, kl_control_wake is called, or ms have passed. Called without the
 * lock, by one thread. */
void kl_control_sleep(struct kl_control *c, int ms);
void kl_control_wake(struct kl_control *c); /* any thread, with or without the lock */
bool kl_control_is_lost(const struct kl_control *c, int process);
bool kl_control_any_lost(const struct kl_control *c);
int kl_control_size(const struct kl_control *c);
int kl_control_rank_on_host(const struct kl_control *c);
/* In the child of a fork: the parent's connections are closed here, and nothing is sent. */
void kl_control_forked(struct kl_control *c);
