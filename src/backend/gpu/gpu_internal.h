/* gpu_internal.h - the structures of the GPU layer; inside backend/gpu/ only. */
#pragma once
#include "backend/gpu/gpu.h"
#include "base/release.h"

enum {
    MAX_OPS = 64,    /* of one command buffer, .. */
    MOST_OPS = 128,  /* .. and where it is not cut in the middle of a run that becomes one kernel */
    MAX_TAINTS = 16, /* fault words that a value may depend on before they are merged into one */
};
static const int64_t max_new_bytes = (int64_t)256 << 20; /* outputs of one command buffer */

struct chunk;
struct arena { /* memory of a command buffer, freed with it */
    struct chunk *chunks;
};

/* An operation in flight. In the arena of its command buffer. */
struct op {
    struct op *next;
    struct cb *cb; /* borrowed: contains it */
    enum kl_op_id op;
    const char *name;
    const void *params;
    void (*release_ctx)(void *ctx); /* of a CALL or KERNEL; NULL: nothing is held */
    void *ctx;
    int n_in, n_out;
    struct kl_tensor *
        *in; /* copies; buffer is held only for index arrays (else NULL); fate is held */
    struct kl_fate **out; /* held */
    uint64_t submitter;
    bool dropped;            /* never launched: an input has failed, or will */
    struct kl_word_ref word; /* first of its n_words fault words; words NULL: it cannot fault */
    int n_words;
    int64_t positions_per_word;
    size_t *check_bytes;        /* of the operands that check looks at */
    struct kl_word_ref check;   /* validation */
    struct kl_word_ref *taints; /* fault words that its outputs depend on, its own among them */
    int n_taints;               /* at most MAX_TAINTS */
};

struct cb {
    _Atomic(uint32_t) refs; /* its queue, and those who wait for it */
    struct kl_queue *queue;
    struct arena arena;
    struct kl_command *commands;
    int n_commands, commands_room;
    struct op *first, *last;
    int n_ops;
    int64_t new_bytes;
    struct cb **waits; /* held; of other queues */
    int n_waits, waits_room;
    struct kl_fault_words *words; /* own chunk; held; NULL until needed */
    struct kl_fault_words **held; /* chunks of others that its guards read */
    int n_held, held_room;
    uint64_t
        last_ticket; /* highest of its operations, launched, dropped or skipped; dev->mu once handed over */
    void *event;
    bool runs_user_code;       /* emptying it may call a destructor of the user */
    struct kl_release release; /* then it is emptied by the release thread */
    bool submitted;            /* the driver has it */
    struct kl_error
        *error; /* why all of it fails (submission, device lost); held. Written before `complete` */
    bool complete;   /* guarded by dev->mu */
    bool settled;    /* guarded by dev->mu */
    struct cb *next; /* in the queue; guarded by dev->mu. Afterwards in the settler's list */
};

struct kl_queue {
    struct device *dev;
    struct kl_timeline *timeline;
    void *driver_queue;
    struct cb *open;                    /* being encoded; role holder only */
    struct kl_fault_words *clear_words; /* guarded by dev->mu */
    struct cb *head, *tail;             /* handed over, oldest first; guarded by dev->mu */
    struct kl_queue *next;              /* of the device; guarded by dev->mu */
};

struct device {
    struct kl_backend backend; /* first: the backend is the device */
    struct kl_memory memory;
    struct kl_driver *driver;
    struct kl_mutex mu;            /* leaf */
    struct kl_queue *queues;       /* guarded by mu */
    bool settling, settle_again;   /* guarded by mu */
    bool watched;                  /* a waiting thread settles; guarded by mu */
    _Atomic(bool) thread_started;  /* written under mu */
    int n_unsettled;               /* command buffers handed over; guarded by mu */
    pthread_cond_t work;           /* for the settlement thread: n_unsettled has become positive */
    struct kl_error *_Atomic lost; /* set once, held for ever */
    _Atomic(int) n_cbs;            /* that exist; for tests */
    _Atomic(bool) forked;
};

static inline struct device *device_of(struct kl_backend *b) {
    return (struct device *)b;
}

/* ---- command buffers (command_buffer.c) ---- */
struct cb *cb_new(struct kl_queue *q, struct kl_error **err);
/* Drops all that a settled command buffer holds; what is left is its event, for those who wait for it. Outside the lock. */
void cb_empty(struct cb *cb);
/* Whether the counts, lists and states of cb agree. dev->mu, or nobody else has it. For self-checks. */
bool cb_is_valid(const struct cb *cb);
void cb_release(struct cb *cb); /* outside the lock */
void *cb_alloc(struct cb *cb,
               size_t bytes); /* zeroed, lives as long as cb; NULL when out of memory */
struct kl_command *
cb_command(struct cb *cb); /* a new zeroed one at the end; NULL when out of memory */
int cb_wait_for(struct cb *cb, struct cb *other /* retained */);
int cb_hold_words(struct cb *cb, struct kl_fault_words *w);
/* n consecutive words of cb's own chunk. KL_ENOMEM; KL_ELIMIT when they do not fit into this command buffer. */
int cb_words(struct cb *cb, int n, struct kl_word_ref *out, struct kl_error **err);
/* Two words that are one aligned 64-bit value. */
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
/* The device is gone: everything unsettled fails. `submitting` (may be NULL) is what the driver was just given. */
void gpu_lose(struct device *dev, const char *submitting);
void gpu_forked(struct kl_backend *b);
