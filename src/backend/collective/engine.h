/* engine.h - what an engine offers: a library that moves values between the processes of a group.
 *
 * An engine starts an exchange, which never blocks, and is asked from time to time whether it is
 * done. Its functions are called under the lock of the progress (collective.h), by any thread. A
 * communicator is its form of a group. Every rank starts the exchanges of all ranks in the same
 * order, and both ranks of a pair those in one direction. With an exchange travel a few words, by
 * the same engine and in the same step: the smallest of all ranks, or those of the sender. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/exchange.h"

struct kl_exchange {
    enum kl_exchange_kind kind;
    enum kl_reduction reduction; /* REDUCE, SCATTER: one that the engine has for the dtype */
    enum kl_dtype dtype;         /* others: only its size matters */
    int peer;                    /* SEND, RECEIVE */
    int64_t n;        /* elements of `from` (REDUCE, GATHER, SEND), or of `to` (SCATTER, RECEIVE) */
    const void *from; /* equal to `to`: in place, of REDUCE alone */
    void *to;
    /* given by this rank (RECEIVE: unset); when words_done is set: combined, or the sender's */
    int64_t words[KL_EXCHANGE_N_WORDS];
    bool words_done;
    /* The rest belongs to the engine. */
    int64_t mine[KL_EXCHANGE_N_WORDS]; /* the words as given, until the exchange is done */
    void *state;                       /* NULL: nothing is under way */
};

struct kl_comm {
    const struct kl_engine *engine;
    int rank, size;
};

struct kl_engine {
    const char *name; /* "mpi" */

    /* Whether the engine computes the reduction of the dtype itself, with the results that
     * docs/numerics.md states: sums of integers wrap, and the largest of floats is NaN where one
     * is. Other reductions go through another dtype. */
    bool (*reduces)(enum kl_reduction r, enum kl_dtype dtype);

    /* The x->state of an exchange of n elements. It is taken when the exchange is built, so that
     * start needs no memory. NULL: no memory. drop frees it. */
    void *(*reserve)(struct kl_comm *c, enum kl_exchange_kind kind, int64_t n);
    void (*drop)(void *reserved);

    /* Begins the exchange, with x->state from reserve. It needs no memory of ours. On failure the
     * communicator is broken: some parts may be under way. */
    int (*start)(struct kl_comm *c, struct kl_exchange *x, struct kl_error **err);
    /* Moves the exchange on. *done: it is complete, and x->state may be dropped. x->words_done may
     * become true before. On failure the communicator is broken. */
    int (*test)(struct kl_comm *c, struct kl_exchange *x, bool *done, struct kl_error **err);

    /* A new communicator of the ranks that give the same color, in the order of their keys, then of
     * their ranks. All ranks of c call it at the same time: the caller has seen that all of them
     * are alive and here. */
    int (*split)(struct kl_comm *c, int color, int key, struct kl_comm **out,
                 struct kl_error **err);
    /* The communicator is no longer used. lost: exchanges of it are still under way, for ever; what
     * they need stays. */
    void (*leave)(struct kl_comm *c, bool lost);
};
