/* device.c - see device.h.
 *
 * Each lane of a group has a communicator of its own, since the exchanges of one communicator run
 * one after the other on all ranks: that of all ranks, and one of two ranks for each pair and
 * direction. The rank that comes first in it makes its address and tells the others by the control
 * connections. */
#include "backend/collective/device.h"

#include <string.h>

#include "backend/collective/device_gate.h"
#include "backend/collective/device_lane.h"
#include "backend/gpu/gpu.h"
#include "base/alloc.h"
#include "base/platform/clock.h"
#include "base/refs.h"
#include "base/value/failures.h"

enum {
    MOST_IN_LINE = 1 << 20, /* bytes; larger ones run while other operations of the stream do */
};

/* Memory of the device for taking part without a value. */
struct kl_spare {
    _Atomic(uint32_t) refs;
    struct kl_block *block;
};

struct part {
    struct kl_device_part base; /* first */
    struct kl_link link;        /* in the group's list, from begin to outcome */
    struct kl_group *group;     /* owned */
    struct kl_spare *spare;     /* owned */
    struct kl_device_lane *lane;
    int lane_number;
    enum kl_op_id op;
    struct kl_stream *user; /* the stream that the user gave; immortal */
    struct kl_wait after;   /* in line: what another stream did before; timeline NULL: nothing */
    int64_t since;
    bool launched, begun;   /* begun: it is in the list */
    bool told;              /* the others know why it fails here */
    struct kl_error *error; /* owned: why it fails with its group; under the lock */
};

/* A communicator that is to be ended. */
struct ending {
    struct ending *next;
    struct kl_backend *backend;
    void *comm;
    struct kl_group *aborted; /* owned; NULL: nothing of it is under way */
    _Atomic(int64_t) *mark;   /* that of its lane */
};

static struct ending *endings; /* under the lock */
static _Atomic(int) n_pending;
static _Atomic(bool) noted;
static struct kl_backend *_Atomic device; /* of this process */

int kl_device_n_pending(void) {
    return atomic_load(&n_pending);
}

void kl_device_note(void) {
    atomic_store(&noted, true);
}

static struct part *part_of(struct kl_device_part *p) {
    return (struct part *)p;
}

/* ---- what a group has ---- */

int kl_group_device_new(struct kl_group *g, struct kl_backend *b, struct kl_error **err) {
    struct kl_group_device *d = kl_calloc(1, sizeof *d);
    struct kl_device_lane *lanes = kl_calloc((size_t)kl_device_n_lanes(g), sizeof *lanes);
    if (!d || !lanes) {
        kl_free(d);
        kl_free(lanes);
        return kl_fail_nomem(err);
    }
    *d = (struct kl_group_device){.backend = b, .lanes = lanes};
    kl_list_init(&d->parts);
    for (int i = 0; i < kl_device_n_lanes(g); i++) lanes[i].group = g;
    atomic_store(&device, b);
    kl_driver_set_stall(kl_device_stall_begin, kl_device_stall_end);
    g->device = d;
    return g->checks ? kl_device_check_new(g, err) : KL_OK;
}

static void give_back(struct kl_block *b) {
    if (b) b->memory->give_back(b->memory, b);
}

static void spare_release(struct kl_spare *s) {
    if (!s || !kl_refs_drop(&s->refs)) return;
    give_back(s->block);
    kl_free(s);
}

/* The communicator is ended by kl_device_work. Without memory it lives as long as the process.
 * aborted: its group; NULL: nothing of it is under way. */
static void end_later(struct kl_group_device *d, struct kl_device_lane *l,
                      struct kl_group *aborted) {
    struct ending *e = l->comm ? kl_malloc(sizeof *e) : NULL;
    if (e) {
        *e = (struct ending){endings, d->backend, l->comm, kl_group_retain(aborted), l->aborted};
        endings = e;
        kl_device_count_changing(1);
    }
    l->comm = NULL;
}

void kl_group_device_free(struct kl_group *g) {
    struct kl_group_device *d = g->device;
    if (!d) return;
    for (int i = 0; i < kl_device_n_lanes(g); i++) {
        kl_progress_lock();
        end_later(d, &d->lanes[i], NULL);
        kl_progress_unlock();
        kl_device_lane_close(g, i);
    }
    spare_release(d->spare);
    kl_free(d->said);
    kl_free(d->lanes);
    kl_free(d);
    kl_progress_wake();
}

/* The group's spare memory, retained, of at least `bytes`. A larger one takes the place of
 * the present one, which lives on while parts have it. */
static int spare_get(struct kl_group *g, size_t bytes, struct kl_spare **out,
                     struct kl_error **err) {
    struct kl_group_device *d = g->device;
    struct kl_memory *m = d->backend->memory;
    int rc = KL_OK;
    kl_mutex_lock(&g->mu);
    if (!d->spare || d->spare->block->bytes < bytes) {
        struct kl_spare *more = kl_calloc(1, sizeof *more);
        rc = more ? m->take(m, bytes, NULL, &more->block, err) : kl_fail_nomem(err);
        if (rc) {
            kl_free(more);
        } else {
            atomic_init(&more->refs, 1);
            spare_release(d->spare);
            d->spare = more;
        }
    }
    if (!rc) atomic_fetch_add(&d->spare->refs, 1);
    *out = rc ? NULL : d->spare;
    kl_mutex_unlock(&g->mu);
    return rc;
}

/* ---- parts ---- */

static const struct kl_device_part_ops part_ops;

/* Bytes with which a rank can take part that has no value: at most what it receives or gives. */
static size_t spare_bytes(const struct kl_device_part *p) {
    const bool all = p->kind == KL_EXCHANGE_GATHER || p->kind == KL_EXCHANGE_SCATTER;
    const size_t n = (size_t)p->n * (all ? (size_t)p->size : 1);
    return n * kl_dtype_size(p->as) + 1;
}

static bool is_joint(const struct kl_device_part *p) {
    const bool as_they_are = p->passage == KL_PASS_SAME || p->passage == KL_PASS_PAIRS;
    return p->in_line && p->kind == KL_EXCHANGE_REDUCE && p->reduction == KL_REDUCE_SUM &&
           as_they_are && p->size <= KL_JOINT_RANKS && p->n > 0 &&
           p->n * (int64_t)kl_dtype_size(p->as) <= KL_JOINT_VALUES;
}

int kl_device_prepare(struct kl_task *t, struct kl_group *g, struct kl_stream *user,
                      int64_t user_index, struct kl_error **err) {
    struct kl_collective_params *params = (struct kl_collective_params *)(uintptr_t)t->params;
    struct part *p = kl_calloc(1, sizeof *p);
    if (!p) return kl_fail_nomem(err);
    struct kl_device_part *b = &p->base;
    b->ops = &part_ops;
    b->rank = g->rank;
    b->size = g->size;
    b->peer = params->peer;
    b->comm_peer = t->op == KL_OP_SEND; /* the sender is rank 0 of a pair */
    b->user_index = user_index;
    p->group = kl_group_retain(g);
    p->op = t->op;
    p->user = user;
    kl_describe_for_device(b, t);
    p->lane_number = kl_lane_of(t->op, params->peer);
    b->in_line =
        kl_runs_in_line() && p->lane_number == KL_LANE_ALL && spare_bytes(b) <= MOST_IN_LINE;
    if (b->in_line) p->lane_number = kl_device_lane_in_line(g);
    b->joint = is_joint(b);
    p->lane = &g->device->lanes[p->lane_number];
    int rc = kl_device_lane_open(g, p->lane_number, b->in_line ? user : NULL, err);
    if (!rc) rc = spare_get(g, spare_bytes(b), &p->spare, err);
    if (rc) {
        part_ops.drop(b);
        return rc;
    }
    b->spare = p->spare->block;
    params->part = b;
    return KL_OK;
}

struct kl_stream *kl_device_stream(const struct kl_device_part *p) {
    const struct part *of = (const struct part *)p;
    if (p->in_line) return of->user;
    return atomic_load_explicit(&of->lane->stream, memory_order_acquire);
}

/* Exchanges in line come one after the other, in the order of commits, whatever their streams: so a
 * rank has launched all those that one which runs on another rank may wait for, and the words of
 * the lane are those of one exchange. */
void kl_device_committed(struct kl_device_part *base, struct kl_timeline *t, uint64_t ticket) {
    struct part *p = part_of(base);
    if (!base->in_line) return;
    if (p->lane->last.timeline != t) p->after = p->lane->last;
    p->lane->last = (struct kl_wait){t, ticket};
}

bool kl_device_waits(struct kl_device_part *base, struct kl_wait *w) {
    struct part *p = part_of(base);
    struct kl_device_lane *l = p->lane;
    if (p->after.timeline && kl_timeline_done(p->after.timeline) < p->after.ticket) {
        *w = p->after;
        return true;
    }
    kl_progress_lock();
    kl_device_lane_want(p->group, l);
    bool waits = l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS;
    *w = (struct kl_wait){kl_collective_host.stream_timeline(l->connector), l->ticket};
    /* Where there is a gate the ranks see there what each of them does. */
    if (!waits && p->group->checks && !l->has_gate)
        waits = kl_device_check_waits(p->group, p->lane_number, p->op, base->what, w);
    kl_progress_unlock();
    if (waits) kl_progress_wake();
    return waits;
}

static struct kl_exchange_name name_of(const struct part *p) {
    return (struct kl_exchange_name){.group = p->group,
                                     .op = p->op,
                                     .peer = p->base.peer,
                                     .of = p->base.in_line ? KL_CAUSE_IN_LINE : KL_CAUSE_OF_DEVICE,
                                     .number = p->base.number};
}

static void tell_cause(struct part *p, const struct kl_error *own) {
    if (p->told) return;
    p->told = true;
    kl_group_tell_cause(name_of(p), own);
}

static int begin(struct kl_device_part *base, struct kl_error *own, struct kl_error **err) {
    struct part *p = part_of(base);
    struct kl_group *g = p->group;
    struct kl_error *why = NULL;
    p->launched = true;
    kl_progress_lock();
    if (g->broken) {
        why = kl_error_retain(own ? own : g->broken);
    } else {
        base->comm = p->lane->comm;
        base->words = p->lane->words->ptr;
        base->joint_room = p->lane->joint ? p->lane->joint->ptr : NULL;
        base->aborted = p->lane->aborted_there;
        base->number = p->lane->number++;
        p->since = kl_clock_ns();
        kl_device_check_begun(p->lane);
        p->begun = true;
        kl_list_push(&g->device->parts, &p->link);
        atomic_fetch_add(&n_pending, 1);
        if (own) tell_cause(p, own);
    }
    kl_progress_unlock();
    return why ? kl_fail_with(err, why) : KL_OK;
}

/* Breaks the group, because ranks do not do the same; these words tell what two of them do. */
static void unlike(struct part *p, int64_t a, int64_t b, int64_t i, int64_t k) {
    kl_group_break(p->group, kl_unlike_error(p->op, a, b, i, k));
}

static void ready(struct kl_device_part *base) {
    kl_device_gate_arrive(part_of(base)->lane, base->number, base->what);
}

static bool may_start(struct kl_device_part *base, bool patient, struct kl_wait *w, void **token) {
    struct part *p = part_of(base);
    struct kl_group *g = p->group;
    int64_t theirs = 0;
    bool is_unlike;
    bool may = kl_device_gate_pass(g, p->lane, base->number, patient, &is_unlike, &theirs);
    const int64_t least = theirs < base->what ? theirs : base->what;
    kl_progress_lock();
    if (is_unlike && !g->broken)
        unlike(p, least, theirs + base->what - least, base->number, base->number);
    base->broken = g->broken != NULL;
    kl_progress_unlock();
    may = may || base->broken;
    if (may) {
        *token = p->lane;
        (void)kl_group_retain(g);
    } else if (patient) {
        kl_device_gate_hold(g, p->lane, w);
    }
    return may;
}

static void started(void *token) {
    struct kl_device_lane *l = token;
    kl_device_gate_passed(l);
    kl_group_release(l->group);
}

static void refused(struct kl_device_part *base, struct kl_error *why) {
    struct part *p = part_of(base);
    kl_progress_lock();
    if (!p->error) kl_group_break(p->group, kl_error_retain(why));
    kl_progress_unlock();
}

static int64_t told(const uint32_t *brought, int word) {
    return (int64_t)((uint64_t)brought[2 + 2 * word] << 32 | brought[1 + 2 * word]);
}

static bool is_ready(struct kl_device_part *base, struct kl_error *own, const uint32_t *brought) {
    struct part *p = part_of(base);
    const uint32_t verdict = brought[0];
    bool ready = true;
    kl_progress_lock();
    if (own && !p->error) tell_cause(p, own);
    if (!p->error && verdict == KL_VERDICT_UNLIKE)
        unlike(p, told(brought, 0), -told(brought, 1), told(brought, 2), -told(brought, 3));
    if (!p->error && verdict < (uint32_t)base->size && verdict != (uint32_t)base->rank) {
        p->error = kl_group_cause(name_of(p), (int)verdict);
        ready = p->error != NULL;
    }
    kl_progress_unlock();
    return ready;
}

static void finish(struct part *p) {
    if (!p->begun) return;
    p->begun = false;
    kl_list_remove(&p->link);
    atomic_fetch_sub(&n_pending, 1);
    kl_group_forget_causes(name_of(p));
}

static struct kl_error *outcome(struct kl_device_part *base, struct kl_error *own,
                                const uint32_t *brought) {
    struct part *p = part_of(base);
    const uint32_t verdict = brought[0];
    kl_progress_lock();
    const bool of_other = verdict < (uint32_t)base->size && verdict != (uint32_t)base->rank;
    struct kl_error *e = own && !(of_other && p->error) ? own : p->error;
    kl_error_retain(e);
    finish(p);
    kl_progress_unlock();
    return e;
}

static void drop(struct kl_device_part *base) {
    struct part *p = part_of(base);
    kl_progress_lock();
    finish(p);
    kl_progress_unlock();
    if (p->launched && !base->in_line) kl_collective_host.stream_settled(p->user);
    kl_error_release(base->own);
    kl_error_release(p->error);
    spare_release(p->spare);
    kl_group_release(p->group);
    kl_free(p);
}

static const struct kl_device_part_ops part_ops = {.begin = begin,
                                                   .ready = ready,
                                                   .may_start = may_start,
                                                   .started = started,
                                                   .refused = refused,
                                                   .is_ready = is_ready,
                                                   .outcome = outcome,
                                                   .drop = drop};

/* Breaks the group where a connection or an exchange takes too long. */
static void check_limits(struct kl_group *g, int64_t now) {
    const double limit = (double)kl_collective_limit_ns / 1e9;
    struct kl_error_info info = {.code = KL_EGROUP};
    for (int i = 0; i < kl_device_n_lanes(g) && !g->broken; i++) {
        const struct kl_device_lane *l = &g->device->lanes[i];
        if ((l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS) &&
            now - l->wanted_since > kl_collective_limit_ns)
            kl_group_break(g, kl_error_new(&info,
                                           "the devices of the group were not connected within %g "
                                           "s (KEEL_DIST_TIMEOUT): not all ranks took part",
                                           limit));
    }
    struct kl_link *k = g->broken ? NULL : kl_list_first(&g->device->parts);
    if (!k) return;
    const struct part *p = kl_container(k, struct part, link); /* the oldest */
    if (now - p->since > kl_collective_limit_ns)
        kl_group_break(g, kl_late_error(p->op, p->base.number));
}

void kl_device_advance(struct kl_group *g, int64_t now) {
    struct kl_error *e = NULL;
    if (!g->device || g->broken) return;
    for (int i = 0; i < kl_device_n_lanes(g); i++) {
        const int rc = kl_device_lane_advance(g, i, &e);
        if (!rc) continue;
        kl_group_break(g, e ? e : kl_error_static(rc));
        return;
    }
    for (int i = 0; i < kl_device_n_lanes(g) && !g->broken; i++) kl_device_check_advance(g, i, now);
    check_limits(g, now);
}

void kl_device_fail(struct kl_group *g) {
    struct kl_group_device *d = g->device;
    if (!d) return;
    for (struct kl_link *k = d->parts.head.next; k != &d->parts.head; k = k->next) {
        struct part *p = kl_container(k, struct part, link);
        if (!p->error) p->error = kl_error_retain(g->broken);
    }
    for (int i = 0; i < kl_device_n_lanes(g); i++) {
        struct kl_device_lane *l = &d->lanes[i];
        end_later(d, l, g);
        kl_device_lane_end(l);
    }
    kl_device_note();
}

/* ---- work without the lock ---- */

/* Whether the communicator has been ended. */
static bool end(struct ending *e) {
    /* Tells what runs on the device that the exchange which it follows did not end by itself, so
     * that nothing takes its result for a value: not even what goes to a group that is whole. */
    if (e->aborted && e->mark) atomic_store(e->mark, 1); /* else nothing has used it */
    if (!kl_gpu_comm_end(e->backend, e->comm, e->aborted != NULL)) return false;
    kl_group_release(e->aborted);
    kl_free(e);
    kl_device_count_changing(-1);
    return true;
}

void kl_device_work(void) {
    kl_progress_lock();
    struct ending *all = endings, *later = NULL;
    endings = NULL;
    kl_progress_unlock();
    for (struct ending *e = all, *next; e; e = next) {
        next = e->next;
        if (end(e)) continue;
        e->next = later;
        later = e;
    }
    while (later) {
        struct ending *e = later;
        later = e->next;
        kl_progress_lock();
        e->next = endings;
        endings = e;
        kl_progress_unlock();
    }
    struct kl_backend *b = atomic_load(&device);
    if (b && atomic_exchange(&noted, false)) kl_gpu_nudge(b);
}
