/* device_lane.c - see device_lane.h. */
#include "backend/collective/device_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/collective/device_gate.h"
#include "backend/gpu/gpu.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

enum { MOST_PAIRED = 4 /* ranks of which each pair is connected at once */ };

static _Atomic(int) n_changing;

int kl_device_n_changing(void) {
    return atomic_load(&n_changing);
}

void kl_device_count_changing(int more) {
    atomic_fetch_add(&n_changing, more);
}

bool kl_runs_in_line(void) {
    const char *wanted = getenv("KEEL_DIST_IN_LINE");
    return wanted && strcmp(wanted, "1") == 0;
}

/* Who is in the communicator of a lane, in its order: ranks of the group. */
static int members(const struct kl_group *g, int lane, int *first, int *mine) {
    if (lane == KL_LANE_ALL || lane == kl_device_lane_in_line(g)) {
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

void kl_device_lane_publish(struct kl_device_lane *l, uint64_t ticket) {
    struct kl_timeline *t = kl_collective_host.stream_timeline(l->connector);
    if (kl_timeline_done(t) < ticket) kl_timeline_publish(t, ticket);
}

/* ---- opening ---- */

static int open_gate(struct kl_group *g, int lane, struct kl_error **err) {
    kl_progress_lock();
    const int rc = kl_device_gate_open(g, lane, err);
    kl_progress_unlock();
    return rc;
}

/* The lane may be connected already. */
static void set_connector(struct kl_device_lane *l, struct kl_stream *connector) {
    const uint64_t ticket = kl_collective_host.stream_promise(connector);
    kl_progress_lock();
    l->connector = connector;
    l->ticket = ticket;
    if (l->state == KL_LANE_JOINED || l->state == KL_LANE_ENDED) kl_device_lane_publish(l, ticket);
    kl_progress_unlock();
}

int kl_device_lane_open(struct kl_group *g, int lane, struct kl_stream *mine,
                        struct kl_error **err) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    struct kl_backend *b = g->device->backend;
    struct kl_memory *m = b->memory;
    struct kl_stream *s = mine, *connector = NULL;
    int rc = KL_OK;
    if (atomic_load_explicit(&l->stream, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&g->mu);
    if (!atomic_load(&l->stream)) {
        if (!s) rc = kl_collective_host.stream_new(&s, b, true, err);
        if (!rc && !l->connector)
            rc = kl_collective_host.stream_new(&connector, &kl_collective_backend, false, err);
        if (!rc && !l->words) rc = m->take(m, KL_EXCHANGE_BYTES, NULL, &l->words, err);
        if (!rc && mine && !l->joint) rc = m->take(m, 2 * KL_JOINT_ROOM, NULL, &l->joint, err);
        if (!rc && !l->aborted) rc = kl_gpu_comm_flag(b, &l->aborted, &l->aborted_there, err);
        if (!rc && !mine && !l->connector) rc = open_gate(g, lane, err);
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

void kl_device_lane_close(struct kl_group *g, int lane) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    struct kl_stream *s = atomic_load(&l->stream);
    kl_progress_lock();
    kl_device_gate_close(g, lane);
    kl_progress_unlock();
    if (l->words) l->words->memory->give_back(l->words->memory, l->words);
    if (l->joint) l->joint->memory->give_back(l->joint->memory, l->joint);
    if (s && lane != kl_device_lane_in_line(g)) kl_collective_host.stream_release(s);
    if (l->connector) kl_collective_host.stream_release(l->connector);
}

/* ---- connecting ---- */

void kl_device_lane_want(const struct kl_group *g, struct kl_device_lane *l) {
    if (l->state != KL_LANE_UNUSED) return;
    l->state = g->broken ? KL_LANE_ENDED : KL_LANE_WANTED;
    l->wanted_since = kl_clock_ns();
    if (l->state == KL_LANE_WANTED) atomic_fetch_add(&n_changing, 1);
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
    const bool of_all = lane == KL_LANE_ALL || lane == kl_device_lane_in_line(g);
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
    kl_device_lane_publish(l, l->ticket);
}

void kl_device_lane_end(struct kl_device_lane *l) {
    if (l->state != KL_LANE_UNUSED) connected(l, KL_LANE_ENDED);
    kl_device_gate_end(l);
}

/* Begins to join where the address is known. */
static int join(struct kl_group *g, int lane, struct kl_device_lane *l, struct kl_error **err) {
    char id[KL_COMM_ID_BYTES], text[KL_CONTROL_TEXT];
    int first, mine;
    const int n = members(g, lane, &first, &mine);
    if (first == g->rank) {
        KL_TRY(make_id(g, lane, id, err));
    } else {
        const int taken = kl_group_take_comm(g, first, lane, text);
        if (taken < 0) return kl_fail_nomem(err);
        if (!taken) return KL_OK;
        if (!from_hex(id, text))
            return kl_fail(err, KL_EGROUP, "rank %d sent no address of a communicator", first);
    }
    KL_TRY(kl_gpu_comm_new(g->device->backend, id, mine, n, &l->comm, err));
    l->state = KL_LANE_JOINS;
    return KL_OK;
}

int kl_device_lane_advance(struct kl_group *g, int lane, struct kl_error **err) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    if (l->state == KL_LANE_WANTED) KL_TRY(join(g, lane, l, err));
    kl_device_gate_advance(g, l);
    if (l->state != KL_LANE_JOINS) return KL_OK;
    const int rc = kl_gpu_comm_state(g->device->backend, l->comm, err);
    if (rc == 1) connected(l, KL_LANE_JOINED);
    return rc < 0 ? rc : KL_OK;
}

/* The lanes of a pair with itself are never connected. */
static bool connects_at_once(const struct kl_group *g, int lane) {
    if (lane == KL_LANE_ALL) return true;
    if (lane == kl_device_lane_in_line(g)) return kl_runs_in_line();
    return g->size <= MOST_PAIRED && (lane - 1) / 2 != g->rank;
}

int kl_device_connect(struct kl_group *g, struct kl_error **err) {
    int left = 0, rc = KL_OK;
    if (!g->device) return KL_OK;
    do {
        left = 0;
        kl_progress_lock();
        for (int i = 0; i < kl_device_n_lanes(g) && !g->broken; i++) {
            struct kl_device_lane *l = &g->device->lanes[i];
            if (!connects_at_once(g, i)) continue;
            kl_device_lane_want(g, l);
            left += l->state == KL_LANE_WANTED || l->state == KL_LANE_JOINS;
        }
        /* Others may be ahead, and have failed: operations say so. */
        if (g->broken && !g->broke_in_use) rc = kl_fail_with(err, kl_error_retain(g->broken));
        g->connected = !left && !rc;
        kl_progress_unlock();
        kl_progress_wake();
        if (left && !rc && !kl_progress_poll())
            nanosleep(&(const struct timespec){0, 100000}, NULL);
    } while (left && !rc);
    return rc;
}
