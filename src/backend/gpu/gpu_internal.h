/* gpu_internal.h - the structures of the GPU layer. Only files of backend/gpu/ and tests include
 * it. */
#pragma once
#include "backend/gpu/gpu.h"
#include "base/value/release.h"

enum {
    KL_MAX_OPS = 64, /* operations of one command buffer at which it is cut */
    /* The limit inside a run that becomes one kernel, which is not cut at KL_MAX_OPS. */
    KL_MOST_OPS = 128,
    KL_MAX_TAINTS = 16, /* fault words that a value may depend on before they are merged into one */
    KL_MOST_PUT_OFF = 16, /* command buffers of a queue that wait to be handed over */
};
/* Bytes of new outputs at which a command buffer is cut. */
static const int64_t kl_max_new_bytes = (int64_t)256 << 20;

struct kl_gpu_arena_chunk;
struct kl_gpu_arena { /* Memory of a command buffer; freed with it. */
    struct kl_gpu_arena_chunk *chunks;
};

/* An operation in flight. It lies in the arena of its command buffer. */
struct kl_gpu_op {
    struct kl_gpu_op *next;
    struct kl_command_buffer *cb; /* borrowed: the command buffer contains the operation */
    enum kl_op_id op;
    const char *name;
    struct kl_origin origin; /* for messages */
    const void *params;
    void (*release_ctx)(void *ctx); /* releases ctx, of a CALL or KERNEL; NULL: nothing is held */
    struct kl_device_part *part;    /* of an operation of several processes; owned; or NULL */
    void *ctx;
    int n_in, n_out;
    /* Copies of the inputs. Of each, the fate is held; the buffer is held for index arrays and NULL
     * for other inputs. */
    struct kl_tensor **in;
    struct kl_fate **out; /* held */
    uint64_t submitter;
    bool dropped; /* never launched, because an input has failed or will fail */
    /* Its commands, and kernels of them that were still compiled when it was encoded; or NULL. The
     * encoding thread's. */
    int first_command, n_commands;
    struct kl_pending *pending;
    struct kl_error *error; /* why these kernels cannot be compiled; held; then it is dropped */
    /* First of n_words fault words; words is NULL when the operation cannot fault. */
    struct kl_word_ref word;
    int n_words;
    int64_t positions_per_word;
    /* Validation: bytes of each operand that the guard check looks at. */
    size_t *check_bytes;
    struct kl_word_ref check; /* validation: the fault word of the guard check */
    /* Fault words that the outputs depend on, including the operation's own. */
    struct kl_word_ref *taints;
    int n_taints; /* at most KL_MAX_TAINTS */
    /* Of an exchange that tells of failures of its inputs: their fault words. Its own word is set
     * where one of these is, so they need not be looked at where it is looked at. */
    bool exchange_tells;
    struct kl_word_ref *covered;
    int n_covered;
};

struct kl_command_buffer {
    _Atomic(uint32_t) refs; /* held by its queue and by the command buffers that wait for it */
    struct kl_queue *queue;
    struct kl_gpu_arena arena;
    struct kl_command *commands;
    int n_commands, commands_room;
    struct kl_gpu_op *first, *last;
    struct kl_gpu_op *exchange; /* the last one among them; NULL: there is none */
    int n_ops;
    int64_t new_bytes;
    struct kl_command_buffer **waits; /* held; command buffers of other queues */
    int n_waits, waits_room;
    struct kl_fault_words *words; /* the chunk of its own; held; NULL until needed */
    struct kl_fault_words **held; /* held; chunks of other command buffers that its guards read */
    int n_held, held_room;
    /* The highest ticket of its operations, launched, dropped or skipped. Guarded by dev->mu once
     * the command buffer is handed over. */
    uint64_t last_ticket;
    void *event;
    /* The encoding thread's: whether an operation has `pending`, or an input that a command buffer
     * makes which was not handed over; and kernels of several operations that are compiled. */
    bool uncertain;
    struct kl_pending ahead;
    bool runs_user_code;       /* kl_command_buffer_empty may call a destructor of the user */
    struct kl_release release; /* used when runs_user_code: the release thread then empties it */
    bool submitted;            /* the driver has accepted it */
    /* Why all of it fails (submission refused, device lost); held. Written before `complete`. */
    struct kl_error *error;
    bool complete; /* guarded by dev->mu */
    bool settled;  /* guarded by dev->mu */
    /* The first operation that is not settled yet, once it has begun; the settling thread's. */
    struct kl_gpu_op *at;
    /* Next in the queue, guarded by dev->mu; later, next in the list of the settling thread. */
    struct kl_command_buffer *next;
};

struct kl_queue {
    struct kl_gpu_device *dev;
    struct kl_timeline *timeline;
    void *driver_queue;
    /* Being encoded; only the holder of the executor role touches it. */
    struct kl_command_buffer *open;
    /* Exchanges for which other processes may not be ready, oldest first; the role holder's. */
    struct kl_command_buffer *held, *held_tail;
    int n_held;
    /* Complete ones before it, oldest first, that wait for kernels or for the thread that hands
     * over. The first one is NULL when it is handed over and its ticket is not published yet.
     * Written under dev->mu. */
    struct kl_command_buffer *put_off[KL_MOST_PUT_OFF];
    _Atomic(int) n_put_off;
    bool giving;    /* a thread hands over the first of them; guarded by dev->mu */
    bool compile;   /* some wait for kernels: the role holder hands over; written under dev->mu */
    bool exchanges; /* it has had operations of several processes; the role holder's */
    struct kl_command_buffer *_Atomic handing; /* being handed over, for the child of a fork */
    struct kl_fault_words *clear_words;        /* guarded by dev->mu */
    struct kl_command_buffer *head, *tail;     /* handed over, oldest first; guarded by dev->mu */
    struct kl_queue *next;                     /* next queue of the device; guarded by dev->mu */
};

/* The settlement thread runs, waits for a first command buffer, looks again in a while, or is in
 * the slot wait_any. */
enum kl_settler { KL_SETTLER_RUNS, KL_SETTLER_RESTS, KL_SETTLER_DOZES, KL_SETTLER_LISTENS };

struct kl_gpu_device {
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
    uint64_t n_settled;           /* since the device was opened; guarded by mu */
    enum kl_settler settler;      /* guarded by mu */
    /* Wakes the settlement thread: n_unsettled has become positive, or somebody sleeps until a
     * value is there. */
    pthread_cond_t work;
    /* The thread that hands over what other threads have encoded, so that these go on encoding. */
    _Atomic(bool) giver_started;   /* written under mu */
    pthread_cond_t offered;        /* there is something for it */
    pthread_cond_t given;          /* a queue is not `giving` any more */
    struct kl_error *_Atomic lost; /* set once, then held for ever */
    _Atomic(int) n_cbs;            /* number of command buffers that exist; for tests */
    _Atomic(bool) forked;
};

static inline struct kl_gpu_device *kl_gpu_device_of(struct kl_backend *b) {
    return (struct kl_gpu_device *)b;
}

/* ---- command buffers (command_buffer.c) ---- */
struct kl_command_buffer *kl_command_buffer_new(struct kl_queue *q, struct kl_error **err);
/* Drops all that a settled command buffer holds, except its event, which others may wait for.
 * Called without the lock. */
void kl_command_buffer_empty(struct kl_command_buffer *cb);
/* Whether the counts, lists and states of cb agree, for self-checks. The caller holds dev->mu or is
 * the only user of cb. */
bool kl_command_buffer_is_valid(const struct kl_command_buffer *cb);
void kl_command_buffer_release(struct kl_command_buffer *cb); /* called without the lock */
/* Zeroed memory that lives as long as cb; NULL when out of memory. */
void *kl_command_buffer_alloc(struct kl_command_buffer *cb, size_t bytes);
/* A new zeroed command at the end; NULL when out of memory. */
struct kl_command *kl_command_buffer_command(struct kl_command_buffer *cb);
/* Retains `other`, for which cb will wait. KL_ENOMEM. */
int kl_command_buffer_wait_for(struct kl_command_buffer *cb, struct kl_command_buffer *other);
/* Retains a chunk of fault words that guards of cb read. KL_ENOMEM. */
int kl_command_buffer_hold_words(struct kl_command_buffer *cb, struct kl_fault_words *w);
/* Takes n consecutive words of cb's own chunk. KL_ENOMEM; KL_ELIMIT when the chunk has too few
 * words left. */
int kl_command_buffer_words(struct kl_command_buffer *cb, int n, struct kl_word_ref *out,
                            struct kl_error **err);
/* Takes two words that form one aligned 64-bit value. */
int kl_command_buffer_word_pair(struct kl_command_buffer *cb, struct kl_word_ref *out,
                                struct kl_error **err);
void kl_fault_words_release(struct kl_gpu_device *dev, struct kl_queue *q,
                            struct kl_fault_words *w);

/* ---- encode.c: slots of the backend ---- */
bool kl_gpu_waits_for(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w);
int kl_gpu_launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                  struct kl_error **err);
int kl_gpu_drop(struct kl_backend *b, struct kl_queue *q, struct kl_task *t, struct kl_error **err);
void kl_gpu_skip(struct kl_backend *b, struct kl_queue *q, struct kl_task *t);

/* ---- exchange.c: operations of several processes ---- */
/* As kl_gpu_launch. *err: why this process takes part without a value. */
int kl_gpu_exchange(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                    struct kl_error **err);
/* The slot `holds` of the backend. */
enum kl_holds kl_gpu_holds(struct kl_backend *b, struct kl_queue *q, bool patient,
                           struct kl_wait *w);
/* Whether the operation, which has run and whose inputs are settled, can be settled. The caller is
 * the settling thread, and has fetched the words. */
bool kl_gpu_exchange_is_ready(struct kl_gpu_op *op);
/* The error of the operation, owned, or NULL. input: why its input has failed; taken. */
struct kl_error *kl_gpu_exchange_outcome(struct kl_gpu_op *op, struct kl_error *input);

/* ---- encode.c, for exchange.c ---- */
/* Encodes t into the open command buffer, as kl_gpu_launch does after cutting. part: of an
 * operation of several processes, which the operation owns afterwards; NULL for others. */
int kl_gpu_encode(struct kl_queue *q, struct kl_task *t, bool drop, struct kl_device_part *part,
                  struct kl_error **err);

/* ---- submit.c ---- */
/* Hands over all that is encoded, and waits for its kernels. */
void kl_gpu_flush(struct kl_backend *b, struct kl_queue *q);
/* Gives cb, which is the queue's `handing` meanwhile, to the driver. Also of one that was put off:
 * then it is the first of these, and the queue is `giving`. */
void kl_gpu_hand_over(struct kl_command_buffer *cb);
/* Ends the open command buffer; more will be encoded. It is handed over now, or later: while its
 * kernels or those of one before it are compiled, or by another thread while the device has other
 * work. */
void kl_gpu_cut(struct kl_backend *b, struct kl_queue *q);
bool kl_gpu_ends_before(struct kl_backend *b, struct kl_queue *q, const struct kl_task *t);

/* ---- kernels.c: kernels that are compiled while operations are encoded ---- */
/* Whether cb can be handed over without waiting for a compiler. */
bool kl_gpu_kernels_ready(const struct kl_command_buffer *cb);
/* Starts to compile the kernels that cb will need for several operations together. */
void kl_gpu_kernels_ahead(struct kl_command_buffer *cb);
/* Before cb is handed over: waits for the kernels of its operations. An operation without one
 * fails, and those that need its value are dropped. */
void kl_gpu_kernels_settle(struct kl_command_buffer *cb);

/* ---- encode.c: for taints.c ---- */
/* A new command of op with room for n_args arguments; NULL when out of memory. */
struct kl_command *kl_gpu_command_new(struct kl_command_buffer *cb, enum kl_command_kind kind,
                                      const struct kl_gpu_op *op, int n_args);

/* ---- taints.c: the fault words that values depend on ---- */
/* The inputs of an operation determine the fault words that it depends on, and whether an
 * input is known to have failed. */
struct kl_gpu_inputs {
    bool drop;
    struct kl_word_ref *taints;
    int n_taints;
};
/* The command buffers to wait for are noted in cb, the open one. KL_ENOMEM. */
int kl_gpu_look_at_inputs(struct kl_command_buffer *cb, struct kl_task *t,
                          struct kl_gpu_inputs *in);
/* Sets the fault words that the outputs depend on: those of the inputs and those of the operation
 * itself. When they are many, a command merges them into one word. */
int kl_gpu_set_taints(struct kl_command_buffer *cb, struct kl_gpu_op *op, struct kl_gpu_inputs *in,
                      struct kl_error **err);
#ifdef KL_TEST_HOOKS
int kl_test_merged_words(void); /* how many times words were merged so far */
#endif

/* ---- share.c: slots of the memory ---- */
int kl_gpu_share(struct kl_memory *m, struct kl_block *b, struct kl_error **err);
void kl_gpu_unshare(struct kl_memory *m, struct kl_block *b);

/* ---- settle.c ---- */
void kl_gpu_settle(struct kl_gpu_device *dev);
void kl_gpu_poll(struct kl_backend *b, struct kl_queue *q);
/* The slot `awaited` of the timelines of the device. */
void kl_gpu_awaited(struct kl_timeline *t);
/* After something was handed over, or a thread stopped to watch, with mu held. true: the caller
 * must call the slot `wake`, without the lock. */
bool kl_gpu_settler_told(struct kl_gpu_device *dev);
bool kl_gpu_watch(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket);
/* Starts the settlement thread when it is not running; KL_ENOMEM. */
int kl_gpu_settlement_start(struct kl_gpu_device *dev, struct kl_error **err);
/* The device is gone: everything unsettled fails. `submitting` names the operation that the driver
 * was just given; it may be NULL. */
void kl_gpu_lose(struct kl_gpu_device *dev, const char *submitting);
void kl_gpu_forked(struct kl_backend *b);
