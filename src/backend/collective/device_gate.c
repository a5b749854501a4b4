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
#include "base/platform/clock.h"

/* How long a thread looks for the other ranks before it parks the stream: a chain of operations of
 * groups waits at each of them, and waking threads takes longer than most of them are late. */
enum { MANY_PROCESSORS = 8, LONG_NS = 200000, SHORT_NS = 5000 };

_Static_assert((int)KL_GATE_AHEAD == (int)KL_MOST_HELD, "what a queue holds has arrived");

static _Atomic(int) n_open; /* lanes with a gate */
static _Atomic(int) n_held;
static int n_stalls;             /* under the lock */
static __thread bool hands_over; /* this thread hands an exchange over */

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
    const bool of_all = lane == KL_LANE_ALL, sends = !of_all && lane == kl_lane_send(peer);
    const int maker = of_all ? 0 : sends ? g->rank : peer;
    if (!kl_gates_are_shared() || g->size > KL_GATE_RANKS) return KL_OK;
    l->gate_name = name_of(g, lane);
    l->gate_size = of_all ? g->size : 2;
    l->gate_member = of_all ? g->rank : !sends;
    l->gate_maker = g->process[maker];
    if (maker == g->rank && !(l->gate = kl_gate_new(l->gate_name)))
        return kl_fail(err, KL_ELIMIT, "this process has too many groups on its device");
    l->has_gate = true;
    atomic_fetch_add(&n_open, 1);
    return KL_OK;
}

void kl_device_gate_close(struct kl_group *g, int lane) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    if (!l->has_gate) return;
    if (l->gate_maker == g->process[g->rank]) kl_gate_end(l->gate);
    l->has_gate = false;
    atomic_fetch_sub(&n_open, 1);
}

/* ---- passing ---- */

/* The thread that waits goes on, and asks again. */
static void let_go(struct kl_device_lane *l) {
    if (!l->held) return;
    atomic_fetch_sub(&n_held, 1);
    kl_device_lane_publish(l, l->held);
    l->held = 0;
}

/* Arrives for what is encoded, where that is allowed. */
static void arrive(struct kl_device_lane *l) {
    if (n_stalls || l->n_arrived == l->n_encoded) return;
    if (!l->gate && !(l->gate = kl_gate_find(l->gate_maker, l->gate_name))) return;
    for (; l->n_arrived < l->n_encoded; l->n_arrived++)
        kl_gate_arrive(l->gate, l->gate_member, l->n_arrived,
                       l->what[l->n_arrived % KL_GATE_AHEAD]);
}

static bool is_open(const struct kl_device_lane *l, int64_t number) {
    return number < l->n_arrived && kl_gate_is_open(l->gate, l->gate_name, l->gate_size, number);
}

void kl_device_gate_arrive(struct kl_device_lane *l, int64_t number, int64_t what) {
    if (!l->has_gate) return;
    kl_progress_lock();
    l->what[number % KL_GATE_AHEAD] = what;
    l->n_encoded = number + 1;
    arrive(l);
    kl_progress_unlock();
}

static void look_at(const struct kl_device_lane *l, const struct kl_gate *gate, int64_t number) {
    const bool many = kl_n_processors() >= MANY_PROCESSORS;
    const int64_t until = kl_clock_ns() + (many ? LONG_NS : SHORT_NS);
    while (!kl_gate_is_open(gate, l->gate_name, l->gate_size, number) && kl_clock_ns() < until)
        kl_pause_cpu();
}

bool kl_device_gate_pass(struct kl_group *g, struct kl_device_lane *l, int64_t number, bool patient,
                         bool *is_unlike, int64_t *theirs) {
    bool open = false;
    *is_unlike = false;
    if (!l->has_gate) return true;
    for (int attempt = 0; attempt < 1 + patient && !open; attempt++) {
        kl_progress_lock();
        arrive(l);
        open = is_open(l, number);
        if (open)
            *is_unlike = kl_gate_is_unlike(l->gate, l->gate_name, l->gate_size, number,
                                           l->what[number % KL_GATE_AHEAD], theirs);
        open = (open && !*is_unlike) || g->broken;
        const struct kl_gate *gate = number < l->n_arrived ? l->gate : NULL;
        if (open) let_go(l); /* another thread may have waited for it */
        hands_over = open;
        kl_progress_unlock();
        if (patient && gate && !open) look_at(l, gate, number);
    }
    return open;
}

void kl_device_gate_passed(struct kl_device_lane *l) {
    hands_over = false;
    if (!l->has_gate) return;
    kl_progress_lock();
    l->n_handed++;
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
    if (!l->has_gate) return;
    arrive(l);
    if (l->held && is_open(l, l->n_handed)) let_go(l);
}

void kl_device_gate_end(struct kl_device_lane *l) {
    let_go(l);
}

/* ---- calls that wait for the device ---- */

static void withdraw(struct kl_group *g) {
    for (int i = 0; g->device && i < kl_device_lane_in_line(g); i++) {
        struct kl_device_lane *l = &g->device->lanes[i];
        while (l->n_arrived > l->n_handed &&
               kl_gate_withdraw(l->gate, l->gate_name, l->gate_size, l->n_arrived - 1))
            l->n_arrived--;
    }
}

static struct kl_stream *to_hand_over; /* under the lock */

/* Finds a stream with an exchange that other ranks count on. */
static void find_open(struct kl_group *g) {
    for (int i = 0; g->device && i < kl_device_lane_in_line(g); i++) {
        struct kl_device_lane *l = &g->device->lanes[i];
        if (l->n_arrived <= l->n_handed || g->broken) continue;
        let_go(l);
        to_hand_over = atomic_load(&l->stream);
    }
}

bool kl_device_stall_begin(void) {
    if (!atomic_load(&n_open)) return false;
    kl_progress_lock();
    n_stalls++;
    kl_groups_each(withdraw);
    for (bool more = !hands_over; more;) {
        to_hand_over = NULL;
        kl_groups_each(find_open);
        struct kl_stream *s = to_hand_over;
        kl_progress_unlock();
        if (s) {
            kl_collective_host.hand_over(s);
            sched_yield();
        }
        more = s != NULL;
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
