/* device.c - see device.h.
 *
 * Each lane of a group has a communicator of its own, since the exchanges of one communicator run
 * one after the other on all ranks: that of all ranks, and one of two ranks for each pair and
 * direction. The rank that comes first in it makes its address and tells the others by the control
 * connections. */
#include "backend/collective/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/platform/clock.h"
#include "backend/gpu/gpu.h"
#include "base/alloc.h"
#include "base/refs.h"
#include "base/value/failures.h"

enum {
    MOST_IN_LINE = 1 << 20, /* bytes; larger ones run while other operations of the stream do */
    MOST_PAIRED = 4,        /* ranks of which each pair is connected at once */
};

static int n_lanes(const struct kl_group *g) {
    return 2 * g->size + 2;
}
/* KEEL_DIST_IN_LINE=1: small operations of all ranks run on the user's stream, which saves two
 * changes of streams. Later work of the stream then waits for the other ranks too, so
 * all ranks must evaluate in the same order also what does not depend on each other. */
static bool runs_in_line(void) {
    const char *wanted = getenv("KEEL_DIST_IN_LINE");
    return wanted && strcmp(wanted, "1") == 0;
}
/* The last lane: of all ranks, on the stream of the user to which it belongs. */
static int lane_in_line(const struct kl_group *g) {
    return 2 * g->size + 1;
}

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
    struct kl_block *words;   /* of its lane, where it is aborted */
};

static struct ending *endings; /* under the lock */
static _Atomic(int) n_pending, n_changing;
static _Atomic(bool) noted;
static struct kl_backend *_Atomic device; /* of this process */

int kl_device_n_pending(void) {
    return atomic_load(&n_pending);
}

int kl_device_n_changing(void) {
    return atomic_load(&n_changing);
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
    struct kl_device_lane *lanes = kl_calloc((size_t)n_lanes(g), sizeof *lanes);
    if (!d || !lanes) {
        kl_free(d);
        kl_free(lanes);
        return kl_fail_nomem(err);
    }
    *d = (struct kl_group_device){.backend = b, .lanes = lanes};
    kl_list_init(&d->parts);
    atomic_store(&device, b);
    g->device = d;
    return KL_OK;
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
        *e = (struct ending){endings, d->backend, l->comm, kl_group_retain(aborted), l->words};
        endings = e;
        atomic_fetch_add(&n_changing, 1);
    }
    l->comm = NULL;
}

void kl_group_device_free(struct kl_group *g) {
    struct kl_group_device *d = g->device;
    if (!d) return;
    for (int i = 0; i < n_lanes(g); i++) {
        struct kl_device_lane *l = &d->lanes[i];
        struct kl_stream *s = atomic_load(&l->stream);
        kl_progress_lock();
        end_later(d, l, NULL);
        kl_progress_unlock();
        give_back(l->words);
        if (s && i != lane_in_line(g)) kl_collective_host.stream_release(s);
        if (l->connector) kl_collective_host.stream_release(l->connector);
    }
    spare_release(d->spare);
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

/* The lane may be connected already. */
static void set_connector(struct kl_device_lane *l, struct kl_stream *connector) {
    const uint64_t ticket = kl_collective_host.stream_promise(connector);
    kl_progress_lock();
    l->connector = connector;
    l->ticket = ticket;
    if (l->state == KL_LANE_JOINED || l->state == KL_LANE_ENDED)
        kl_timeline_publish(kl_collective_host.stream_timeline(connector), ticket);
    kl_progress_unlock();
}

/* Makes the streams of a lane and its words at first use. mine: the stream that the lane in line
 * gets instead of one of its own; NULL for others. */
static int lane_open(struct kl_group *g, struct kl_device_lane *l, struct kl_stream *mine,
                     struct kl_error **err) {
    struct kl_memory *m = g->device->backend->memory;
    const int64_t zeros[KL_WORD_ABORTED + 1] = {0};
    struct kl_stream *s = mine, *connector = NULL;
    int rc = KL_OK;
    if (atomic_load_explicit(&l->stream, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&g->mu);
    if (!atomic_load(&l->stream)) {
        if (!s) rc = kl_collective_host.stream_new(&s, g->device->backend, true, err);
        if (!rc && !l->connector)
            rc = kl_collective_host.stream_new(&connector, &kl_collective_backend, false, err);
        if (!rc && !l->words) rc = m->take(m, sizeof zeros, NULL, &l->words, err);
        if (!rc) rc = m->write(m, l->words->ptr, 0, zeros, sizeof zeros, err);
        if (!rc) {
            if (connector) set_connector(l, connector);
            atomic_store_explicit(&l->stream, s, memory_order_release);
        }
    }
    kl_mutex_unlock(&g->mu);
    if (rc && s && !mine) kl_collective_host.stream_release(s);
    if (rc && connector) kl_collective_host.stream_release(connector);
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
    struct kl_device_lane *in_line = &g->device->lanes[lane_in_line(g)];
    if (runs_in_line() && p->lane_number == KL_LANE_ALL && spare_bytes(b) <= MOST_IN_LINE) {
        /* The first stream with such an operation has the lane; others take that of large ones. */
        if (lane_open(g, in_line, user, err)) {
            part_ops.drop(b);
            return KL_ENOMEM;
        }
        b->in_line = atomic_load(&in_line->stream) == user;
    }
    if (b->in_line) p->lane_number = lane_in_line(g);
    p->lane = &g->device->lanes[p->lane_number];
    int rc = b->in_line ? KL_OK : lane_open(g, p->lane, NULL, err);
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
    return atomic_load_explicit(&((const struct part *)p)->lane->stream, memory_order_acquire);
}

/* The lane is to be connected, unless that has begun. */
static void want(const struct kl_group *g, struct kl_device_lane *l) {
    if (l->state != KL_LANE_UNUSED) return;
    l->state = g->broken ? KL_LANE_ENDED : KL_LANE_WANTED;
    l->wanted_since = kl_clock_ns();
    if (l->state == KL_LANE_WANTED) atomic_fetch_add(&n_changing, 1);
}

bool kl_device_waits(struct kl_device_part *base, struct kl_wait *w) {
    struct part *p = part_of(base);
    struct kl_device_lane *l = p->lane;
    kl_progress_lock();
    want(p->group, l);
    const bool waits = l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS;
    kl_progress_unlock();
    *w = (struct kl_wait){kl_collective_host.stream_timeline(l->connector), l->ticket};
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
        base->number = p->lane->number++;
        p->since = kl_clock_ns();
        p->begun = true;
        kl_list_push(&g->device->parts, &p->link);
        atomic_fetch_add(&n_pending, 1);
        if (own) tell_cause(p, own);
    }
    kl_progress_unlock();
    return why ? kl_fail_with(err, why) : KL_OK;
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

/* Breaks the group, because ranks do not do the same. */
static void unlike(struct part *p, const uint32_t *brought) {
    const int64_t a = told(brought, 0), b = -told(brought, 1);
    const int64_t i = told(brought, 2), k = -told(brought, 3);
    kl_group_break(p->group, kl_unlike_error(p->op, a, b, i, k));
}

static bool is_ready(struct kl_device_part *base, struct kl_error *own, const uint32_t *brought) {
    struct part *p = part_of(base);
    const uint32_t verdict = brought[0];
    bool ready = true;
    kl_progress_lock();
    if (own && !p->error) tell_cause(p, own);
    if (!p->error && verdict == KL_VERDICT_UNLIKE) unlike(p, brought);
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

static const struct kl_device_part_ops part_ops = {
    .begin = begin, .refused = refused, .is_ready = is_ready, .outcome = outcome, .drop = drop};

/* ---- connecting ---- */

/* Who is in the communicator of a lane, in its order: ranks of the group. */
static int members(const struct kl_group *g, int lane, int *first, int *mine) {
    if (lane == KL_LANE_ALL || lane == lane_in_line(g)) {
        *first = 0;
        *mine = g->rank;
        return g->size;
    }
    const int peer = (lane - 1) / 2;
    const bool sends = lane == kl_lane_send(peer);
    *first = sends ? g->rank : peer;
    *mine = !sends;
    return 2;
}

static void to_hex(char *text, const char *id) {
    for (int i = 0; i < KL_COMM_ID_BYTES; i++) sprintf(text + 2 * i, "%02x", (unsigned char)id[i]);
}

static bool from_hex(char *id, const char *text) {
    for (int i = 0; i < KL_COMM_ID_BYTES; i++) {
        unsigned v;
        if (sscanf(text + 2 * i, "%2x", &v) != 1) return false;
        id[i] = (char)v;
    }
    return true;
}

/* Makes the address of a lane's communicator, and tells the others. */
static int make_id(struct kl_group *g, int lane, char *id, struct kl_error **err) {
    char text[2 * KL_COMM_ID_BYTES + 1];
    const bool of_all = lane == KL_LANE_ALL || lane == lane_in_line(g);
    const int peer = (lane - 1) / 2;
    /* The lane as the receiver of values counts it. */
    const struct kl_control_message m = {
        .kind = KL_CONTROL_COMM, .group = g->id, .lane = of_all ? lane : kl_lane_receive(g->rank)};
    KL_TRY(kl_gpu_comm_id(g->device->backend, id, err));
    to_hex(text, id);
    for (int i = 0; i < g->size; i++)
        if (i != g->rank && (of_all || i == peer))
            kl_control_send(kl_group_control, g->process[i], &m, text);
    return KL_OK;
}

static void connected(struct kl_device_lane *l, enum kl_lane_state state) {
    const bool waited = l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS;
    l->state = state;
    if (!waited) return;
    atomic_fetch_sub(&n_changing, 1);
    if (!l->connector) return; /* nobody waits yet */
    kl_timeline_publish(kl_collective_host.stream_timeline(l->connector), l->ticket);
}

/* Begins to join where the address is known. */
static int join(struct kl_group *g, int lane, struct kl_device_lane *l, struct kl_error **err) {
    char id[KL_COMM_ID_BYTES], text[KL_CONTROL_TEXT];
    int first, mine;
    const int n = members(g, lane, &first, &mine);
    if (first == g->rank) {
        KL_TRY(make_id(g, lane, id, err));
    } else {
        if (!kl_group_take_comm(g, first, lane, text)) return KL_OK;
        if (!from_hex(id, text))
            return kl_fail(err, KL_EGROUP, "rank %d sent no address of a communicator", first);
    }
    KL_TRY(kl_gpu_comm_new(g->device->backend, id, mine, n, &l->comm, err));
    l->state = KL_LANE_JOINS;
    return KL_OK;
}

static int advance_lane(struct kl_group *g, int lane, struct kl_error **err) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    if (l->state == KL_LANE_WANTED) KL_TRY(join(g, lane, l, err));
    if (l->state != KL_LANE_JOINS) return KL_OK;
    const int rc = kl_gpu_comm_state(g->device->backend, l->comm, err);
    if (rc == 1) connected(l, KL_LANE_JOINED);
    return rc < 0 ? rc : KL_OK;
}

/* The lanes of a pair with itself are never connected. */
static bool connects_at_once(const struct kl_group *g, int lane) {
    if (lane == KL_LANE_ALL) return true;
    if (lane == lane_in_line(g)) return runs_in_line();
    return g->size <= MOST_PAIRED && (lane - 1) / 2 != g->rank;
}

int kl_device_connect(struct kl_group *g, struct kl_error **err) {
    int left = 0, rc = KL_OK;
    if (!g->device) return KL_OK;
    do {
        left = 0;
        kl_progress_lock();
        for (int i = 0; i < n_lanes(g) && !g->broken; i++) {
            struct kl_device_lane *l = &g->device->lanes[i];
            if (!connects_at_once(g, i)) continue;
            want(g, l);
            left += l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS;
        }
        if (g->broken) rc = kl_fail_with(err, kl_error_retain(g->broken));
        kl_progress_unlock();
        kl_progress_wake();
        if (left && !rc && !kl_progress_poll())
            nanosleep(&(const struct timespec){0, 100000}, NULL);
    } while (left && !rc);
    return rc;
}

static void check_limits(struct kl_group *g, int64_t now) {
    const double limit = (double)kl_collective_limit_ns / 1e9;
    struct kl_error_info info = {.code = KL_EGROUP};
    for (int i = 0; i < 2 * g->size + 1 && !g->broken; i++) {
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
    for (int i = 0; i < n_lanes(g); i++) {
        const int rc = advance_lane(g, i, &e);
        if (!rc) continue;
        kl_group_break(g, e ? e : kl_error_static(rc));
        return;
    }
    check_limits(g, now);
}

void kl_device_fail(struct kl_group *g) {
    struct kl_group_device *d = g->device;
    if (!d) return;
    for (struct kl_link *k = d->parts.head.next; k != &d->parts.head; k = k->next) {
        struct part *p = kl_container(k, struct part, link);
        if (!p->error) p->error = kl_error_retain(g->broken);
    }
    for (int i = 0; i < n_lanes(g); i++) {
        struct kl_device_lane *l = &d->lanes[i];
        end_later(d, l, g);
        if (l->state != KL_LANE_UNUSED) connected(l, KL_LANE_ENDED);
    }
    kl_device_note();
}

/* ---- work without the lock ---- */

/* Tells what runs on the device that the exchange which it follows did not end by itself, so that
 * nothing takes its result for a value: not even what goes to a group that is whole. */
static void mark_aborted(struct kl_block *words) {
    int64_t mark = 1;
    struct kl_memory *m = words->memory;
    const size_t at = KL_WORD_ABORTED * sizeof mark;
    if (m->write(m, words->ptr, at, &mark, sizeof mark, NULL)) return; /* the device is lost */
    /* The read comes back after the write has arrived. */
    (void)m->read(m, words->ptr, at, &mark, sizeof mark, NULL);
}

/* Whether the communicator has been ended. */
static bool end(struct ending *e) {
    if (e->aborted && e->words) mark_aborted(e->words); /* else nothing has used it */
    if (!kl_gpu_comm_end(e->backend, e->comm, e->aborted != NULL)) return false;
    kl_group_release(e->aborted);
    kl_free(e);
    atomic_fetch_sub(&n_changing, 1);
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
    if (b && atomic_exchange(&noted, false)) b->ops->poll(b, NULL);
}
