/* device_check.c - the debug mode (KEEL_VALIDATE=1) of operations that devices do: an exchange
 * begins when all ranks of its lane have said over the control connections that they do the same. A
 * library that moves values between devices would wait for ever, or give wrong numbers, where they
 * do not. The stream of the lane waits meanwhile, and no thread does. */
#include "backend/collective/device.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

int kl_device_check_new(struct kl_group *g, struct kl_error **err) {
    struct kl_group_device *d = g->device;
    const size_t n = 2 * (size_t)g->size;
    d->said = kl_calloc((size_t)kl_device_n_lanes(g) * n, sizeof *d->said);
    if (!d->said) return kl_fail_nomem(err);
    for (int i = 0; i < kl_device_n_lanes(g); i++) d->lanes[i].check.said = d->said + (size_t)i * n;
    return KL_OK;
}

/* The other rank of the lane; -1: it is of all ranks. */
static int peer_of(const struct kl_group *g, int lane) {
    const bool of_all = lane == KL_LANE_ALL || lane == kl_device_lane_in_line(g);
    return of_all ? -1 : (lane - 1) / 2;
}

/* The lane as the other ranks count it: what one sends the other receives. */
static int lane_there(const struct kl_group *g, int lane) {
    const int peer = peer_of(g, lane);
    if (peer < 0) return lane;
    return lane == kl_lane_send(peer) ? kl_lane_receive(g->rank) : kl_lane_send(g->rank);
}

static void tell(struct kl_group *g, int lane) {
    const struct kl_device_lane *l = &g->device->lanes[lane];
    const int peer = peer_of(g, lane);
    const struct kl_control_message m = {.kind = KL_CONTROL_CHECK,
                                         .group = g->id,
                                         .lane = lane_there(g, lane),
                                         .number = l->number,
                                         .value = l->check.what};
    for (int i = 0; i < g->size; i++)
        if (i != g->rank && (peer < 0 || i == peer))
            kl_control_send(kl_group_control, g->process[i], &m, NULL);
}

static void stop_asking(struct kl_device_lane *l, enum kl_check_state state) {
    if (l->check.state != KL_CHECK_ASKS) return;
    l->check.state = state;
    kl_device_lane_publish(l, l->check.ticket);
}

bool kl_device_check_waits(struct kl_group *g, int lane, enum kl_op_id op, int64_t what,
                           struct kl_wait *w) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    struct kl_device_check *c = &l->check;
    if (g->broken || l->state != KL_LANE_JOINED) return false;
    if (c->state == KL_CHECK_NONE) {
        c->state = KL_CHECK_ASKS;
        c->op = op;
        c->what = what;
        c->since = kl_clock_ns();
        c->ticket = kl_collective_host.stream_promise(l->connector);
        tell(g, lane);
        kl_device_check_advance(g, lane, c->since);
    }
    w->ticket = c->ticket;
    return c->state == KL_CHECK_ASKS;
}

void kl_device_check_begun(struct kl_device_lane *l) {
    l->check.state = KL_CHECK_NONE;
}

void kl_device_check_on_message(struct kl_group *g, int from, const struct kl_control_message *m) {
    if (!g->device || !g->device->said || from < 0) return;
    if (m->lane < 0 || m->lane >= kl_device_n_lanes(g) || m->number < 0) return;
    struct kl_said *said = g->device->lanes[m->lane].check.said;
    said[2 * from + m->number % 2] = (struct kl_said){m->number + 1, m->value};
}

void kl_device_check_advance(struct kl_group *g, int lane, int64_t now) {
    struct kl_device_lane *l = &g->device->lanes[lane];
    const struct kl_device_check *c = &l->check;
    const int peer = peer_of(g, lane);
    bool all = true;
    if (c->state != KL_CHECK_ASKS) return;
    for (int i = 0; i < g->size; i++) {
        const struct kl_said *said = &c->said[2 * i + l->number % 2];
        if (i == g->rank || (peer >= 0 && i != peer)) continue;
        if (said->n != l->number + 1) {
            all = false;
        } else if (said->what != c->what) {
            /* The lower rank's first, so that both say the same. */
            const bool first = i < g->rank;
            kl_group_break(g, kl_unlike_error(c->op, first ? said->what : c->what,
                                              first ? c->what : said->what, l->number, l->number));
            return;
        }
    }
    if (all)
        stop_asking(l, KL_CHECK_AGREED);
    else if (now - c->since > kl_collective_limit_ns)
        kl_group_break(g, kl_late_error(c->op, l->number));
}

void kl_device_check_end(struct kl_device_lane *l) {
    stop_asking(l, KL_CHECK_NONE);
}
