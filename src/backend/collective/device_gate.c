/* device_gate.c - see device_gate.h.
 *
 * CUDA waits for all that runs when it loads a kernel or frees memory, and lets nobody launch
 * meanwhile. Were an exchange to run then whose other ranks wait for something that this one
 * launches later, all would wait for ever. So a rank arrives at the gate of an exchange when its
 * kernels are loaded, its memory is taken, and everything before it is handed over; and before a
 * call that waits for the device it withdraws. Where the gate is open already it first hands over
 * the exchange, by the same thread, because there may be no other one that can. */
#include "backend/collective/device_gate.h"

#include <sched.h>

#include "base/alloc.h"

enum { SPINS = 500 /* a few microseconds, in which the other ranks mostly come */ };

static _Atomic(int) n_open; /* lanes with a gate */
static _Atomic(int) n_held;
static int n_stalls, n_through;  /* under the lock */
static __thread bool hands_over; /* this thread hands over what is through */

int kl_device_n_held(void) {
    return atomic_load(&n_held);
}

/* ---- lanes ---- */

/* The same on both ranks of a pair, and no other lane's. */
static uint64_t name_of(const struct kl_group *g, int lane) {
    const int peer = (lane - 1) / 2;
    const bool sends = lane == kl_lane_send(peer);
    const int from = sends ? g->rank : peer, to = sends ? peer : g->rank;
    const int pair = lane == KL_LANE_ALL ? 0 : 1 + from * g->size + to;
    return (g->id + (uint64_t)pair) * 1099511628211u + 2;
}

int kl_device_gate_open(struct kl_group *g, int lane, struct kl_error **err) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    const int peer = (lane - 1) / 2;
    const int maker = lane == KL_LANE_ALL ? 0 : lane == kl_lane_send(peer) ? g->rank : peer;
    if (!kl_gates_are_shared()) return KL_OK;
    l->gate_name = name_of(g, lane);
    l->gate_size = lane == KL_LANE_ALL ? g->size : 2;
    l->gate_maker = g->process[maker];
    l->made = maker == g->rank;
    if (l->made && !(l->gate = kl_gate_new(l->gate_name)))
        return kl_fail(err, KL_ELIMIT, "this process has too many groups on its device");
    l->place = KL_PLACE_AWAY;
    atomic_fetch_add(&n_open, 1);
    return KL_OK;
}

void kl_device_gate_close(struct kl_group *g, int lane) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    if (l->place == KL_PLACE_NONE) return;
    if (l->made) kl_gate_end(l->gate);
    l->place = KL_PLACE_NONE;
    atomic_fetch_sub(&n_open, 1);
}

/* ---- passing ---- */

/* The thread that waits goes on, and asks again. */
static void let_go(struct kl_device_lane *l) {
    if (!l->held) return;
    atomic_fetch_sub(&n_held, 1);
    kl_timeline_publish(kl_collective_host.stream_timeline(l->connector), l->held);
    l->held = 0;
}

static void go_through(struct kl_device_lane *l) {
    l->place = KL_PLACE_THROUGH;
    n_through++;
}

/* Arrives at the gate where that is allowed, and looks whether it is open. */
static enum kl_gate_state try_to_pass(struct kl_device_lane *l, int64_t *theirs) {
    if (l->place == KL_PLACE_THROUGH) return KL_GATE_OPEN;
    if (!l->gate && !(l->gate = kl_gate_find(l->gate_maker, l->gate_name))) return KL_GATE_CLOSED;
    if (l->place == KL_PLACE_AWAY) {
        if (n_stalls) return KL_GATE_CLOSED;
        const enum kl_gate_state s =
            kl_gate_arrive(l->gate, l->gate_name, l->gate_size, l->gate_number, l->what, theirs);
        if (s == KL_GATE_CLOSED) l->place = KL_PLACE_ARRIVED;
        if (s != KL_GATE_OPEN) return s;
    } else if (!kl_gate_is_open(l->gate, l->gate_name, l->gate_number)) {
        return KL_GATE_CLOSED;
    }
    go_through(l);
    return KL_GATE_OPEN;
}

enum kl_gate_state kl_device_gate_pass(struct kl_group *g, struct kl_device_lane *l, int64_t number,
                                       int64_t what, int64_t *theirs) {
    enum kl_gate_state s = KL_GATE_CLOSED;
    if (l->place == KL_PLACE_NONE) return KL_GATE_OPEN;
    for (int attempt = 0; attempt < 2 && s == KL_GATE_CLOSED; attempt++) {
        kl_progress_lock();
        l->gate_number = number;
        l->what = what;
        s = g->broken ? KL_GATE_OPEN : try_to_pass(l, theirs);
        if (s == KL_GATE_OPEN) let_go(l); /* another thread may have waited for it */
        const struct kl_gate *gate = l->place == KL_PLACE_ARRIVED ? l->gate : NULL;
        kl_progress_unlock();
        for (int i = 0; i < SPINS && gate && !kl_gate_is_open(gate, l->gate_name, number); i++)
            kl_pause_cpu();
    }
    hands_over = s == KL_GATE_OPEN;
    return s;
}

void kl_device_gate_passed(struct kl_device_lane *l) {
    hands_over = false;
    if (l->place == KL_PLACE_NONE) return;
    kl_progress_lock();
    if (l->place == KL_PLACE_THROUGH) n_through--;
    l->place = KL_PLACE_AWAY;
    kl_progress_unlock();
}

void kl_device_gate_hold(struct kl_group *g, struct kl_device_lane *l, struct kl_wait *w) {
    struct kl_timeline *t = kl_collective_host.stream_timeline(l->connector);
    *w = (struct kl_wait){t, kl_collective_host.stream_promise(l->connector)};
    kl_progress_lock();
    if (!l->held) atomic_fetch_add(&n_held, 1);
    l->held = w->ticket;
    if (g->broken) let_go(l);
    kl_progress_unlock();
    kl_progress_moved();
}

void kl_device_gate_advance(struct kl_group *g, struct kl_device_lane *l) {
    int64_t theirs;
    if (l->held && try_to_pass(l, &theirs) != KL_GATE_CLOSED) let_go(l);
}

void kl_device_gate_end(struct kl_device_lane *l) {
    let_go(l);
}

/* ---- calls that wait for the device ---- */

static void withdraw(struct kl_group *g) {
    for (int i = 0; g->device && i < 2 * g->size + 1; i++) {
        struct kl_device_lane *l = &g->device->lanes[i];
        if (l->place != KL_PLACE_ARRIVED) continue;
        if (kl_gate_withdraw(l->gate, l->gate_name, l->gate_number))
            l->place = KL_PLACE_AWAY;
        else
            go_through(l);
    }
}

static struct kl_stream *to_hand_over; /* under the lock */

static void find_through(struct kl_group *g) {
    for (int i = 0; g->device && i < 2 * g->size + 1; i++) {
        struct kl_device_lane *l = &g->device->lanes[i];
        if (l->place != KL_PLACE_THROUGH) continue;
        let_go(l);
        to_hand_over = atomic_load(&l->stream);
    }
}

bool kl_device_stall_begin(void) {
    if (!atomic_load(&n_open)) return false;
    kl_progress_lock();
    n_stalls++;
    kl_groups_each(withdraw);
    while (n_through && !hands_over) {
        to_hand_over = NULL;
        kl_groups_each(find_through);
        struct kl_stream *s = to_hand_over;
        kl_progress_unlock();
        if (s) kl_collective_host.hand_over(s);
        sched_yield();
        kl_progress_lock();
    }
    kl_progress_unlock();
    return true;
}

void kl_device_stall_end(bool begun) {
    if (!begun) return;
    kl_progress_lock();
    n_stalls--;
    kl_progress_unlock();
    kl_progress_moved();
}
