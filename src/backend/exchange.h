/* exchange.h - exchanges of values between the processes of a group, as engines
 * (collective/engine.h) and devices take them, and an operation of a group that a device does
 * itself.
 *
 * Such an operation is a task of the device on a stream of the group. collective/ makes its part
 * when the node is built; the device asks it for a number when it is launched, carries the words
 * of the ranks along with the values, and asks it for the outcome at settlement. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/number/dtype.h"

enum kl_reduction { KL_REDUCE_SUM, KL_REDUCE_MAX, KL_REDUCE_MIN };

enum kl_exchange_kind {
    KL_EXCHANGE_REDUCE,  /* `to` = the reduction of all ranks' `from`, on every rank */
    KL_EXCHANGE_GATHER,  /* `to` = the `from` of all ranks, one after another */
    KL_EXCHANGE_SCATTER, /* `to` = part `rank` of the reduction of all ranks' `from` */
    KL_EXCHANGE_SEND,    /* `from` goes to `peer` */
    KL_EXCHANGE_RECEIVE, /* `to` comes from `peer` */
    KL_EXCHANGE_WORDS,   /* the words alone, combined over all ranks */
};

/* Words travel with an exchange: the smallest of all ranks, or those of the sender. */
enum { KL_EXCHANGE_N_WORDS = 6 };
/* The lowest rank that failed (the size of the group: none); which exchange it is, by operation,
 * dtype and size; and its number: each of these two with its negative, so that the smallest of all
 * ranks shows the largest as well. Where the two differ, ranks do not do the same. */
enum {
    KL_WORD_FAILED,
    KL_WORD_WHAT,
    KL_WORD_NOT_WHAT,
    KL_WORD_NUMBER,
    KL_WORD_NOT_NUMBER,
};

/* How values go through an engine that lacks their dtype. */
enum kl_passage {
    KL_PASS_SAME,    /* as they are */
    KL_PASS_WIDE,    /* 16-bit floats as float32, short integers as integers of 32 bits */
    KL_PASS_ORDERED, /* floats as integers of the same order */
    KL_PASS_PAIRS,   /* complex numbers as twice as many floats */
};

/* ---- by a device ---- */

/* An address of a communicator, made by one rank and told to the others. */
enum { KL_COMM_ID_BYTES = 128 };

/* The words of a lane in the device's memory: those of this rank, and those of all. */
enum { KL_EXCHANGE_BYTES = 2 * KL_EXCHANGE_N_WORDS * sizeof(int64_t) };

/* A joint sum: a few values of a rank and what it tells the others are one array, which the library
 * sums at once. After the values come elements of the same dtype that are 0 or 1: of each bit of
 * the words KL_WORD_WHAT and KL_WORD_NUMBER whether it is set, and of each rank whether it has
 * failed. Their sums are exact in every dtype, since there are at most KL_JOINT_RANKS ranks: ranks
 * differ in a bit whose sum is neither 0 nor the size of the group. A lane has memory for what is
 * sent, and after it for what is received, so joint sums of one size are all alike. */
enum {
    KL_JOINT_BITS = 128,
    KL_JOINT_RANKS = 64,
    KL_JOINT_VALUES = 64 << 10, /* bytes, at most */
    KL_JOINT_ROOM = KL_JOINT_VALUES + (KL_JOINT_BITS + KL_JOINT_RANKS) * sizeof(int64_t),
};

/* An exchange as a driver starts it: device addresses, `to` may be `from` where the kind allows it.
 * The words of this rank are at words; the combined ones, or those of the sender, come after them;
 * SEND gets none. words NULL: a joint sum, of which n is all. n and dtype as in kl_exchange. */
struct kl_transfer {
    enum kl_exchange_kind kind;
    enum kl_reduction reduction;
    enum kl_dtype dtype;
    int peer;
    int64_t n;
    const void *from;
    void *to, *words;
};

/* 32-bit words that the device brings back from an exchange: the verdict, and, when that is
 * KL_VERDICT_UNLIKE, the combined words but the first, each as two halves, the lower one first. */
enum { KL_BROUGHT_WORDS = 1 + 2 * (KL_EXCHANGE_N_WORDS - 2) };
/* Above all ranks; below the value of a clear fault word, which says that nobody failed. */
#define KL_VERDICT_UNLIKE 0xfffffffeu

enum { KL_MOST_HELD = 8 };

struct kl_block;
struct kl_wait;
struct kl_device_part;
struct kl_device_part_ops {
    /* The operation is about to be encoded. own: why this rank takes part without a value, or NULL;
     * borrowed. A failure is that of the operation, which is not encoded then. */
    int (*begin)(struct kl_device_part *p, struct kl_error *own, struct kl_error **err);
    /* It is encoded, after begin. At most KL_MOST_HELD are encoded and not handed over. */
    void (*ready)(struct kl_device_part *p);
    /* Whether it may be handed over, as the first of its queue: then the caller does so and calls
     * started with *token. false: when patient, *w says for what it waits. */
    bool (*may_start)(struct kl_device_part *p, bool patient, struct kl_wait *w, void **token);
    /* It has been handed over, or refused; the part may be gone. */
    void (*started)(void *token);
    /* It cannot be handed over, so other ranks must not wait for it. why: borrowed. */
    void (*refused)(struct kl_device_part *p, struct kl_error *why);
    /* It has run. own: as above, or why its input has failed; borrowed. false: ask again later,
     * when the backend is polled. */
    bool (*is_ready)(struct kl_device_part *p, struct kl_error *own, const uint32_t *brought);
    /* Called once, after is_ready: the error of its output, owned by the caller, or NULL. */
    struct kl_error *(*outcome)(struct kl_device_part *p, struct kl_error *own,
                                const uint32_t *brought);
    void (*drop)(struct kl_device_part *p);
};

/* An operation of a group that a device does, from the building of its node until its command
 * buffer is freed. Fields that are not marked are fixed when it
 * is built. */
struct kl_device_part {
    const struct kl_device_part_ops *ops;
    enum kl_exchange_kind kind;
    enum kl_reduction reduction;
    enum kl_dtype as; /* the dtype in which it goes through the library */
    enum kl_passage passage;
    int rank, size, peer;
    int comm_peer;          /* SEND, RECEIVE: the number of `peer` in the lane's communicator */
    int64_t user_index;     /* the stream that the user gave, which notes failures */
    int64_t n;              /* elements of `as`, as in kl_transfer */
    int64_t what;           /* the word KL_WORD_WHAT */
    struct kl_block *spare; /* on the device: for taking part without a value */
    void *comm;             /* the driver's; set by begin, as are the next three */
    int64_t number;         /* of the group's exchanges */
    void *words;            /* device memory of KL_EXCHANGE_BYTES */
    bool joint;             /* it is a joint sum */
    void *joint_room;       /* device memory of twice KL_JOINT_ROOM; set by begin */
    void *aborted;        /* an int64 that is not 0 once the communicator is about to be aborted */
    bool in_line;         /* it runs on the user's stream, among the other operations there */
    bool failed;          /* set by the device: it takes part without a value */
    bool broken;          /* set by may_start: its library must not be called any more */
    struct kl_error *own; /* set by the device: why, where that is no failed input; owned */
};
