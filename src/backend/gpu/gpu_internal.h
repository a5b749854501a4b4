/* gpu_internal.h - the structures of the GPU layer. Only files of backend/gpu/ include it. */
#pragma once
#include "backend/gpu/gpu.h"
#include "base/release.h"

enum {
    MAX_OPS = 64, /* operations of one command buffer at which it is cut */
    /* The limit inside a run that becomes one kernel, which is not cut at MAX_OPS. */
    MOST_OPS = 128,
    MAX_TAINTS = 16, /* fault words that a value may depend on before they are merged into one */
};
/* Bytes of new outputs at which a command buffer is cut. */
static const int64_t max_new_bytes = (int64_t)256 << 20;

struct chunk;
struct arena { /* Memory of a command buffer; freed with it. */
    struct chunk *chunks;
};

/* An operation in flight. It lies in the arena of its command buffer. */
struct op {
    struct op *next;
    struct cb *cb; /* borrowed: the command buffer contains the operation */
    enum kl_op_id op;
    const char *name;
    const void *params;
    void (*release_ctx)(void *ctx); /* releases ctx, of a CALL or KERNEL; NULL: nothing is held */
    void *ctx;
    int n_in, n_out;
    /* Copies of the inputs. Of each, the fate is held; the buffer is held for index arrays and NULL
     * for other inputs. */
    struct kl_tensor **in;
    struct kl_fate **out; /* held */
    uint64_t submitter;
    bool dropped; /* never launched, because an input has failed or will fail */
    /* First of n_words fault words; words is NULL when the operation cannot fault. */
    struct kl_word_ref word;
    int n_words;
    int64_t positions_per_word;
    /* Validation: bytes of each operand that the guard check looks at. */
    size_t *check_bytes;
    struct kl_word_ref check; /* validation: the fault word of the guard check */
    /* Fault words that the outputs depend on, including the operation's own. */
    struct kl_word_ref *taints;
    int n_taints; /* at most MAX_TAINTS */
};

struct cb {
    _Atomic(uint32_t) refs; /* held by its queue and by the command buffers that wait for it */
    struct kl_queue *queue;
    struct arena arena;
    struct kl_command *commands;
    int n_commands, commands_room;
    struct op *first, *last;
    int n_ops;
    int64_t new_bytes;
    struct cb **waits; /* held; command buffers of other queues */
    int n_waits, waits_room;
    struct kl_fault_words *words; /* the chunk of its own; held; NULL until needed */
    struct kl_fault_words **held; /* held; chunks of other command buffers that its guards read */
    int n_held, held_room;
    /* The highest ticket of its operations, launched, dropped or skipped. Guarded by dev->mu once
     * the command buffer is handed over. */
    uint64_t last_ticket;
    void *event;
    bool runs_user_code;       /* cb_empty may call a destructor of the user */
    struct kl_release release; /* used when runs_user_code: the release thread then empties it */
    bool submitted;            /* the driver has accepted it */
    /* Why all of it fails (submission refused, device lost); held. Written before `complete`. */
    struct kl_error *error;
    bool complete; /* guarded by dev->mu */
    bool settled;  /* guarded by dev->mu */
    /* Next in the queue, guarded by dev->mu; later, next in the list of the settling thread. */
    struct cb *next;
};

struct kl_queue {
    struct device *dev;
    struct kl_timeline *timeline;
    void *driver_queue;
    /* Being encoded; only the holder of the executor role touches it. */
    struct cb *open;
    struct kl_fault_words *clear_words; /* guarded by dev->mu */
    struct cb *head, *tail;             /* handed over, oldest first; guarded by dev->mu */
    struct kl_queue *next;              /* next queue of the device; guarded by dev->mu */
};

struct device {
    struct kl_backend backend; /* first: the backend is the device */
    struct kl_memory memory;
    struct kl_driver *driver;
    struct kl_mutex mu;          /* a leaf */
    struct kl_queue *queues;     /* guarded by mu */
    bool settling, settle_again; /* guarded by mu */
    /* A waiting thread settles instead of the settlement thread; guarded by mu. */
    bool watched;
    _Atomic(bool) thread_started; /* written under mu */
    int n_unsettled;              /* command buffers handed over; guarded by mu */
    /* Wakes the settlement thread: n_unsettled has become positive. */
    pthread_cond_t work;
    struct kl_error *_Atomic lost; /* set once, then held for ever */
    _Atomic(int) n_cbs;            /* number of command buffers that exist; for tests */
    _Atomic(bool) forked;
};

static inline struct device *device_of(struct kl_backend *b) {
    return (struct device *)b;
}

/* ---- command buffers (command_buffer.c) ---- */
struct cb *cb_new(struct kl_queue *q, struct kl_error **err);
/* Drops all that a settled command buffer holds, except its event, which others may wait for.
 * Called without the lock. */
void cb_empty(struct cb *cb);
/* Whether the counts, lists and states of cb agree, for self-checks. The caller holds dev->mu or is
 * the only user of cb. */
bool cb_is_valid(const struct cb *cb);
void cb_release(struct cb *cb); /* called without the lock */
void *cb_alloc(struct cb *cb,
               size_t bytes); /* Zeroed memory that lives as long as cb; NULL when out of memory. */
struct kl_command *
cb_command(struct cb *cb); /* A new zeroed command at the end; NULL when out of memory. */
int cb_wait_for(struct cb *cb, struct cb *other);
int cb_hold_words(struct cb *cb, struct kl_fault_words *w);
/* Takes n consecutive words of cb's own chunk. KL_ENOMEM; KL_ELIMIT when the chunk has too few
 * words left. */
int cb_words(struct cb *cb, int n, struct kl_word_ref *out, struct kl_error **err);
/* Takes two words that form one aligned 64-bit value. */
int cb_word_pair(struct cb *cb, struct kl_word_ref *out, struct kl_error **err);
void words_release(struct device *dev, struct kl_queue *q, struct kl_fault_words *w);

/* ---- encode.c: slots of the backend ---- */
bool gpu_waits_for(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f, struct kl_wait *w);
int gpu_launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t, struct kl_error **err);
int gpu_drop(struct kl_backend *b, struct kl_queue *q, struct kl_task *t, struct kl_error **err);
void gpu_skip(struct kl_backend *b, struct kl_queue *q, struct kl_task *t);

/* ---- submit.c ---- */
void gpu_flush(struct kl_backend *b, struct kl_queue *q);

/* ---- share.c: slots of the memory ---- */
int gpu_share(struct kl_memory *m, struct kl_block *b, struct kl_error **err);
void gpu_unshare(struct kl_memory *m, struct kl_block *b);

/* ---- settle.c ---- */
void gpu_settle(struct device *dev);
void gpu_poll(struct kl_backend *b, struct kl_queue *q);
bool gpu_watch(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket);
/* Starts the settlement thread when it is not running; KL_ENOMEM. */
int gpu_settlement_start(struct device *dev, struct kl_error **err);
/* The device is gone: everything unsettled fails. `submitting` names the operation that the driver
 * was just given; it may be NULL. */
void gpu_lose(struct device *dev, const char *submitting);
void gpu_forked(struct kl_backend *b);
