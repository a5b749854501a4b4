/* collective.h - what the files of this folder share: the lock, groups, requests. */
#pragma once
#include "backend/collective/control.h"
#include "backend/collective/engine.h"
#include "backend/collective/group.h"
#include "base/list.h"
#include "base/op/op_params.h"
#include "base/thread.h"

/* The lane of what all ranks do together, and those of a pair of ranks in one direction. */
enum { KL_LANE_ALL = 0 };
static inline int kl_lane_send(int peer) {
    return 1 + 2 * peer;
}
static inline int kl_lane_receive(int peer) {
    return 2 + 2 * peer;
}

/* Memory for taking part without a value: zeros to give, and a place for what comes. */
struct kl_reserve {
    _Atomic(uint32_t) refs;
    size_t zeros_bytes, sink_bytes;
    void *zeros, *sink; /* zeros are never written */
};

struct kl_lane {
    _Atomic(struct kl_stream *) stream; /* made at first use */
    int64_t number;                     /* of exchanges begun; under the lock */
};

struct kl_group {
    _Atomic(uint32_t) refs;
    int rank, size;       /* fixed */
    uint64_t id;          /* the same on all ranks; fixed */
    struct kl_comm *comm; /* of the host; NULL: of one process, or of devices alone; fixed */
    struct kl_group_device *device; /* device.h; NULL: its devices have no library; fixed */
    int *process;                   /* of each rank: its number among all processes; fixed */
    bool checks;                    /* an exchange begins when all ranks agree what it is; fixed */
    struct kl_lane *lanes;          /* 1 + 2 * size */
    struct kl_mutex mu;             /* guards reserve, and the making of streams; leaf */
    struct kl_reserve *reserve;     /* of the largest operation built so far */
    struct kl_mutex split_mu;       /* held by a thread that splits the group, before the lock */
    int64_t n_splits;               /* guarded by split_mu */
    struct kl_error *broken;        /* owned; NULL: it works; under the lock */
    bool connected;                 /* its devices are; under the lock, as is the next one */
    bool broke_in_use;              /* on a rank whose devices were connected */
    int64_t ends_at;                /* when what is pending fails, once the group is broken */
    bool lost_exchange;             /* one of its exchanges was given up; under the lock */
    struct kl_group *next;          /* in the list of groups; under the lock */
};

enum kl_request_state {
    KL_REQUEST_WAITS, /* for those before it, where the group checks */
    KL_REQUEST_CHECKS,
    KL_REQUEST_RUNS,
    KL_REQUEST_ASKS, /* the exchange is done, and why a rank failed has not come yet */
    KL_REQUEST_DONE,
};

/* An operation of a group, from the building of its node until it is settled. */
struct kl_request {
    struct kl_link link;        /* in its queue */
    struct kl_group *group;     /* owned */
    struct kl_reserve *reserve; /* owned */
    struct kl_stream *stream;   /* immortal */
    enum kl_op_id op;
    enum kl_dtype dtype;
    enum kl_passage passage;
    int lane;
    struct kl_stream *user; /* the stream that the user gave; immortal */
    int64_t user_index;
    uint64_t submitter, ticket;
    int64_t number, since;
    enum kl_request_state state;
    struct kl_exchange x, check;
    struct kl_fate *fate; /* owned from the launch on, as are those below */
    struct kl_buffer *in; /* may be NULL */
    struct kl_buffer *out;
    struct kl_block *temp;  /* may be NULL */
    void *result;           /* where the output is; NULL: it has failed or is empty */
    int64_t n_result;       /* elements of the output */
    struct kl_error *own;   /* this rank's own failure */
    struct kl_error *error; /* the failure of the output */
    bool gives_up;          /* the exchange is still under way: it keeps all its memory */
};

struct kl_queue {           /* of one lane */
    struct kl_list pending; /* of kl_request.link; under the lock */
    struct kl_timeline *timeline;
    struct kl_queue *next;
};

/* The name of a request's exchange, for group.c. */
#define KL_NAME_OF(r)                                  \
    ((struct kl_exchange_name){.group = (r)->group,    \
                               .op = (r)->op,          \
                               .peer = (r)->x.peer,    \
                               .of = KL_CAUSE_OF_HOST, \
                               .number = (r)->number})

/* ---- progress.c ---- */
extern struct kl_group_host kl_collective_host;
extern struct kl_backend kl_collective_backend;
extern int64_t kl_collective_limit_ns;
void kl_progress_lock(void); /* after all locks of streams; MPI is called under it */
void kl_progress_unlock(void);
/* Adds a request that has been launched. The caller holds the lock. */
void kl_progress_add(struct kl_queue *q, struct kl_request *r);
/* Something that the progress thread must see has changed. With or without the lock. */
void kl_progress_wake(void);
/* Something was begun, or is done: passes follow each other faster for a while. With or without the
 * lock. */
void kl_progress_moved(void);
/* Starts the thread; control is what it reads. */
int kl_progress_start(struct kl_control *control, struct kl_error **err);
/* One pass over everything that is pending; false: another thread is at it. */
bool kl_progress_poll(void);

/* ---- request.c ---- */
int kl_collective_launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                         struct kl_error **err);
/* Moves a request on; under the lock. */
void kl_request_advance(struct kl_request *r, bool is_first, int64_t now);
/* The request is done: writes its fate. Without the lock. */
void kl_request_settle(struct kl_request *r);
/* Ends a request with the error, which is retained; under the lock. */
void kl_request_fail(struct kl_request *r, struct kl_error *e);
void kl_request_free(struct kl_request *r); /* of one that was not launched, or is settled */
/* The lane of an operation. */
int kl_lane_of(enum kl_op_id op, int peer);
/* Fills what the task is as an exchange of a device. */
void kl_describe_for_device(struct kl_device_part *p, const struct kl_task *t);
/* Errors, owned: ranks do not do the same (the words of two of them, and their numbers); an
 * exchange took too long. */
struct kl_error *kl_unlike_error(enum kl_op_id op, int64_t a, int64_t b, int64_t i, int64_t k);
struct kl_error *kl_late_error(enum kl_op_id op, int64_t number);
/* For each pending request. */
void kl_progress_each(void (*f)(struct kl_request *r, void *arg), void *arg);

/* ---- group.c: under the lock ---- */
/* comm: taken, also after a failure it is the caller's; NULL: none. device: NULL: none. process:
 * NULL: the ranks are the numbers of processes. Without the lock. */
int kl_group_new(struct kl_group **out, int rank, int size, struct kl_comm *comm,
                 struct kl_backend *device, const int *process, uint64_t id, struct kl_error **err);
/* The group is broken from now on, with e (taken), and all that is pending fails. The other ranks
 * are told. */
void kl_group_break(struct kl_group *g, struct kl_error *e);
/* Fails what is still pending in groups that others broke a moment ago. */
void kl_groups_end_broken(int64_t now);
void kl_group_on_message(int from, const struct kl_control_message *m, const char *text);
void kl_group_on_lost(int process, const char *why);
/* The control connections of all groups; NULL before they are made. */
extern struct kl_control *kl_group_control;
extern _Atomic(int) kl_group_n_ended; /* processes that said that they end */
bool kl_group_any_given_up(void);     /* an exchange is under way for ever */
void kl_groups_forked(void);
/* Messages about exchanges: which count a number belongs to. */
enum kl_cause_of { KL_CAUSE_OF_HOST = 0, KL_CAUSE_OF_DEVICE = 2, KL_CAUSE_IN_LINE = 4 };
/* An exchange, for the messages about it. */
struct kl_exchange_name {
    struct kl_group *group;
    enum kl_op_id op;
    int peer; /* SEND, RECV */
    enum kl_cause_of of;
    int64_t number;
};
/* Tells the other ranks why the exchange fails here. */
void kl_group_tell_cause(struct kl_exchange_name x, const struct kl_error *why);
/* Why rank `rank` failed, owned, or NULL when it has not said so yet. */
struct kl_error *kl_group_cause(struct kl_exchange_name x, int rank);
/* No cause is needed any more of this exchange and those before it, which are all done. */
void kl_group_forget_causes(struct kl_exchange_name x);
/* Takes the address of a communicator that this rank sent for the lane; text has KL_CONTROL_TEXT
 * bytes. 1; 0: it has not come yet; KL_ENOMEM: there was no memory for a message, perhaps it. */
int kl_group_take_comm(const struct kl_group *g, int from_rank, int lane, char *text);
/* For each group. */
void kl_groups_each(void (*f)(struct kl_group *g));
/* Moves what the devices of all groups do on. */
void kl_groups_advance_devices(int64_t now);

/* ---- numbers.c ---- */
/* How an exchange of dtype goes through the engine: as which dtype, and by which reduction in place
 * of *r. */
enum kl_passage kl_passage_of(const struct kl_engine *e, enum kl_exchange_kind kind,
                              enum kl_dtype dtype, enum kl_reduction *r, enum kl_dtype *as);
/* The same for the devices' library. */
enum kl_passage kl_device_passage_of(enum kl_exchange_kind kind, enum kl_dtype dtype,
                                     enum kl_reduction *r, enum kl_dtype *as);
void kl_numbers_widen(void *to, const void *from, enum kl_dtype dtype, int64_t n);
void kl_numbers_narrow(void *to, const void *from, enum kl_dtype dtype, int64_t n);
/* Integers whose order is that of the numbers; NaN is above all (largest) or below all. */
void kl_numbers_order(void *to, const void *from, enum kl_dtype dtype, bool largest, int64_t n);
void kl_numbers_unorder(void *at, enum kl_dtype dtype, int64_t n);
