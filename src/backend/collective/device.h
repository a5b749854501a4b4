/* device.h - operations of a group that a device does itself (backend/exchange.h): their parts, and
 * the communicators of the device's library. All under the lock of the progress, unless the comment
 * says otherwise. */
#pragma once
#include "backend/collective/collective.h"
#include "backend/collective/gate.h"

struct kl_task;

/* A lane of a group on the device. Its communicator is made when the first operation of the lane is
 * about to be launched. */
enum kl_lane_state {
    KL_LANE_UNUSED,
    KL_LANE_WANTED, /* an operation waits for it */
    KL_LANE_JOINS,  /* the communicator is being made */
    KL_LANE_JOINED,
    KL_LANE_ENDED, /* the group is broken */
};
/* Debug mode (KEEL_VALIDATE=1): the exchange that is to begin on a lane next, and what ranks have
 * said about it and the one after it, by their numbers: no rank is further ahead. */
enum kl_check_state { KL_CHECK_NONE, KL_CHECK_ASKS, KL_CHECK_AGREED };
struct kl_said {
    int64_t n, what; /* n: the number of the exchange, plus one */
};
struct kl_device_check {
    enum kl_check_state state;
    enum kl_op_id op;
    int64_t what, since;
    uint64_t ticket;      /* of the lane's connector; published when it no longer asks */
    struct kl_said *said; /* two of each rank of the group; NULL: the group does not check */
};

struct kl_device_lane {
    struct kl_group *group;             /* that it belongs to; borrowed; fixed */
    _Atomic(struct kl_stream *) stream; /* of the device; made at first use */
    struct kl_stream *connector; /* on its timeline `ticket` is published when state is JOINED
                                  * or ENDED; made with `stream` */
    uint64_t ticket;
    enum kl_lane_state state;
    int64_t wanted_since;
    void *comm;
    struct kl_block *words;    /* made with `stream` */
    struct kl_block *joint;    /* in line: for joint sums; made with `stream` */
    _Atomic(int64_t) *aborted; /* set before the communicator is aborted; made with `stream` */
    void *aborted_there;       /* its address on the device */
    int64_t number;            /* of exchanges begun */
    /* In line: the exchange that was committed last. Under the commit lock. */
    struct kl_wait last;
    /* Where the ranks wait for each other before an exchange is handed over (device_gate.c). */
    bool has_gate;
    struct kl_gate *gate; /* NULL: not found yet */
    uint64_t gate_name;
    int gate_size, gate_maker, gate_member; /* ranks, its maker's process, this rank in the lane */
    /* Exchanges that are encoded here, that this rank has arrived for, and that are handed over. */
    int64_t n_encoded, n_arrived, n_handed;
    int64_t what[KL_GATE_AHEAD];
    uint64_t held; /* a ticket of the connector for which the next one waits, or 0 */
    struct kl_device_check check;
};

/* The part of a group that belongs to its devices; NULL where these have no common library. */
struct kl_group_device {
    struct kl_backend *backend;
    struct kl_device_lane *lanes; /* as those of the group, and the one in line */
    struct kl_spare *spare;       /* of the largest operation built so far; under the group's mu */
    struct kl_list parts;         /* that have begun and are not settled */
    struct kl_said *said;         /* of all lanes; NULL: the group does not check */
};

/* Gives the group what it needs for the device; also frees it. Without the lock. */
int kl_group_device_new(struct kl_group *g, struct kl_backend *b, struct kl_error **err);
void kl_group_device_free(struct kl_group *g);

/* Connects the devices of the group: all ranks call it, and it waits for them. Connections that are
 * made later may have to wait for exchanges that run. Without the lock. */
int kl_device_connect(struct kl_group *g, struct kl_error **err);

/* As kl_collective_prepare, for a task of the group's device. Without the lock. */
int kl_device_prepare(struct kl_task *t, struct kl_group *g, struct kl_stream *user,
                      int64_t user_index, struct kl_error **err);
struct kl_stream *kl_device_stream(const struct kl_device_part *p);
/* The task is committed: its values are settled by this ticket. Under the commit lock. */
void kl_device_committed(struct kl_device_part *p, struct kl_timeline *t, uint64_t ticket);
/* Whether the task must wait: until the lane is connected, or, in line, until what another stream
 * did there before is settled. *w says for what. Without the lock. */
bool kl_device_waits(struct kl_device_part *p, struct kl_wait *w);

/* Moves the communicators of the group on, and notices what has waited too long. */
void kl_device_advance(struct kl_group *g, int64_t now);
/* The group is broken: all parts fail, and its communicators are to be aborted. */
void kl_device_fail(struct kl_group *g);
/* Ends the communicators that are to be ended, without the lock, and lets the device settle what
 * waits for a message. */
void kl_device_work(void);
/* A message has come on which the outcome of a part may depend. */
void kl_device_note(void);
/* Lets go a thread or stream that waits for this ticket of the lane's connector, or for one before
 * it: these ask again. */
void kl_device_lane_publish(struct kl_device_lane *l, uint64_t ticket);
/* The lanes of a group on its device; the last one is in line. */
static inline int kl_device_n_lanes(const struct kl_group *g) {
    return 2 * g->size + 2;
}
static inline int kl_device_lane_in_line(const struct kl_group *g) {
    return 2 * g->size + 1;
}

/* ---- device_check.c: the debug mode ---- */
int kl_device_check_new(struct kl_group *g, struct kl_error **err); /* without the lock */
/* Whether the exchange that is about to begin on the lane must wait until all of its ranks have
 * said what they do: *w says for what. It does not begin where they do not do the same. */
bool kl_device_check_waits(struct kl_group *g, int lane, enum kl_op_id op, int64_t what,
                           struct kl_wait *w);
void kl_device_check_begun(struct kl_device_lane *l); /* the exchange that they agreed on */
void kl_device_check_on_message(struct kl_group *g, int from, const struct kl_control_message *m);
void kl_device_check_advance(struct kl_group *g, int lane, int64_t now);
/* The group is broken: nothing waits any more. */
void kl_device_check_end(struct kl_device_lane *l);

/* How many parts are pending, and how many communicators are being made or ended. Any thread. */
int kl_device_n_pending(void);
int kl_device_n_changing(void);
/* How many exchanges wait until other ranks are ready for them. Any thread. */
int kl_device_n_held(void);
