/* group.c - groups: making and splitting them, what their ranks tell each other, and their end. */
#include "backend/collective/group.h"

#include <stdlib.h>
#include <string.h>

#include "backend/collective/collective.h"
#include "backend/collective/device.h"
#include "base/alloc.h"
#include "base/op/validate.h"
#include "base/platform/clock.h"
#include "base/refs.h"

struct kl_control *kl_group_control;
_Atomic(int) kl_group_n_ended;

static struct kl_group *groups; /* of several processes each; under the lock */

/* A message that nobody has asked for yet. */
struct note {
    struct note *next;
    int from; /* process */
    struct kl_control_message m;
    char text[];
};
static struct note *notes; /* under the lock */
static bool note_missed;   /* there was no memory for one */

/* ---- making ---- */

static void drop_stream(struct kl_lane *l) {
    struct kl_stream *s = atomic_load(&l->stream);
    if (s) kl_collective_host.stream_release(s);
}

static void free_group(struct kl_group *g) {
    kl_group_device_free(g);
    for (int i = 0; g->lanes && i < 2 * g->size + 1; i++) drop_stream(&g->lanes[i]);
    if (g->reserve && kl_refs_drop(&g->reserve->refs)) {
        kl_free(g->reserve->zeros);
        kl_free(g->reserve->sink);
        kl_free(g->reserve);
    }
    kl_error_release(g->broken);
    kl_mutex_deinit(&g->mu);
    kl_mutex_deinit(&g->split_mu);
    kl_free(g->process);
    kl_free(g->lanes);
    kl_free(g);
}

int kl_group_new(struct kl_group **out, int rank, int size, struct kl_comm *comm,
                 struct kl_backend *device, const int *process, uint64_t id,
                 struct kl_error **err) {
    struct kl_group *g = kl_calloc(1, sizeof *g);
    if (!g) return kl_fail_nomem(err);
    atomic_init(&g->refs, 1);
    g->rank = rank;
    g->size = size;
    g->id = id;
    g->checks = kl_validating();
    kl_mutex_init(&g->mu);
    kl_mutex_init(&g->split_mu);
    g->process = kl_malloc((size_t)size * sizeof *g->process);
    g->lanes = kl_calloc((size_t)size * 2 + 1, sizeof *g->lanes);
    if (!g->process || !g->lanes || (device && kl_group_device_new(g, device, err))) {
        free_group(g);
        return kl_fail_nomem(err);
    }
    for (int i = 0; i < size; i++) g->process[i] = process ? process[i] : i;
    g->comm = comm;
    if (size > 1) {
        kl_progress_lock();
        g->next = groups;
        groups = g;
        kl_progress_unlock();
    }
    *out = g;
    return KL_OK;
}

struct kl_group *kl_group_retain(struct kl_group *g) {
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void kl_group_release(struct kl_group *g) {
    if (!g || !kl_refs_drop(&g->refs)) return;
    if (g->size > 1) {
        kl_progress_lock();
        for (struct kl_group **at = &groups; *at; at = &(*at)->next) {
            if (*at != g) continue;
            *at = g->next;
            break;
        }
        if (g->comm) g->comm->engine->leave(g->comm, g->broken != NULL);
        kl_progress_unlock();
    }
    free_group(g);
}

int kl_group_rank(const struct kl_group *g) {
    return g->rank;
}

int kl_group_size(const struct kl_group *g) {
    return g->size;
}

struct kl_backend *kl_group_device(const struct kl_group *g) {
    return g->device ? g->device->backend : NULL;
}

/* ---- breaking ---- */

struct breaking {
    struct kl_group *group;
    struct kl_error *why;
};

static void fail_of_group(struct kl_request *r, void *arg) {
    const struct breaking *b = arg;
    if (r->group == b->group) kl_request_fail(r, r->own ? r->own : b->why);
}

/* Without a rank that is lost, exchanges that it has done its part of can still be completed: they
 * get this long. */
static int64_t grace(void) {
    const int64_t most = 200000000, part = kl_collective_limit_ns / 8;
    return part < most ? part : most;
}

/* New operations fail from now on, with e (taken). */
static void doom(struct kl_group *g, struct kl_error *e, int64_t ends_at) {
    if (g->broken) {
        kl_error_release(e);
        if (ends_at < g->ends_at) g->ends_at = ends_at;
        return;
    }
    g->broken = e;
    g->ends_at = ends_at;
}

static void fail_pending(struct kl_group *g) {
    kl_progress_each(fail_of_group, &(struct breaking){g, g->broken});
    kl_device_fail(g);
    g->ends_at = INT64_MAX;
}

void kl_group_break(struct kl_group *g, struct kl_error *e) {
    const struct kl_control_message m = {
        .kind = KL_CONTROL_BROKEN, .code = e->code, .group = g->id, .value = g->connected};
    for (int i = 0; !g->broken && i < g->size; i++)
        if (i != g->rank) kl_control_send(kl_group_control, g->process[i], &m, e->message);
    doom(g, e, 0);
    fail_pending(g);
}

void kl_groups_end_broken(int64_t now) {
    for (struct kl_group *g = groups; g; g = g->next)
        if (g->broken && now >= g->ends_at) fail_pending(g);
}

void kl_groups_each(void (*f)(struct kl_group *g)) {
    for (struct kl_group *g = groups; g; g = g->next) f(g);
}

void kl_groups_advance_devices(int64_t now) {
    for (struct kl_group *g = groups; g; g = g->next) kl_device_advance(g, now);
}

static int rank_of(const struct kl_group *g, int process) {
    for (int i = 0; i < g->size; i++)
        if (g->process[i] == process) return i;
    return -1;
}

void kl_group_on_lost(int process, const char *why) {
    for (struct kl_group *g = groups; g; g = g->next) {
        const int rank = rank_of(g, process);
        if (rank < 0) continue;
        struct kl_error_info info = {.code = KL_EGROUP};
        doom(g, kl_error_new(&info, "rank %d of the group was lost: %s", rank, why),
             kl_clock_ns() + grace());
    }
}

bool kl_group_any_given_up(void) {
    bool any = false;
    for (struct kl_group *g = groups; g; g = g->next) any = any || g->lost_exchange || g->broken;
    return any;
}

void kl_groups_forked(void) {
    for (struct kl_group *g = groups; g; g = g->next) {
        kl_mutex_init(&g->mu);
        kl_mutex_init(&g->split_mu);
        if (!g->broken) g->broken = kl_error_static(KL_EFORK);
    }
}

/* ---- messages ---- */

static struct kl_group *group_of(uint64_t id) {
    struct kl_group *g = groups;
    while (g && g->id != id) g = g->next;
    return g;
}

static void keep_note(int from, const struct kl_control_message *m, const char *text) {
    const size_t bytes = strlen(text) + 1;
    struct note *n = kl_malloc(sizeof *n + bytes);
    if (!n) {
        note_missed = true;
        return;
    }
    n->next = notes;
    n->from = from;
    n->m = *m;
    memcpy(n->text, text, bytes);
    notes = n;
}

/* The error that a message carries. `from` is the sender's rank, or -1: it is not named. */
static struct kl_error *error_of(const struct kl_control_message *m, int from, const char *text) {
    const bool known = m->code < 0 && m->code >= KL_EGROUP;
    struct kl_error_info info = {.code = known ? m->code : KL_EGROUP};
    if (from < 0) return kl_error_new(&info, "%s", text);
    return kl_error_new(&info, "rank %d: %s", from, text);
}

void kl_group_on_message(int from, const struct kl_control_message *m, const char *text) {
    struct kl_group *g = group_of(m->group);
    switch (m->kind) {
    case KL_CONTROL_ENDS: kl_group_n_ended++; break;
    case KL_CONTROL_CHECK:
        if (g) kl_device_check_on_message(g, rank_of(g, from), m);
        break;
    case KL_CONTROL_BROKEN:
        if (g && !g->broken) g->broke_in_use = m->value != 0;
        if (g) doom(g, error_of(m, rank_of(g, from), text), kl_clock_ns() + grace());
        break;
    default:
        keep_note(from, m, text); /* perhaps of a group that is not made here yet */
        kl_device_note();
    }
}

static int64_t lane_of(struct kl_exchange_name x) {
    return (int64_t)x.of + (kl_lane_of(x.op, x.peer) != KL_LANE_ALL);
}

void kl_group_tell_cause(struct kl_exchange_name x, const struct kl_error *why) {
    const struct kl_group *g = x.group;
    const bool of_all = kl_lane_of(x.op, x.peer) == KL_LANE_ALL;
    const struct kl_control_message m = {.kind = KL_CONTROL_CAUSE,
                                         .code = why->code,
                                         .group = g->id,
                                         .lane = lane_of(x),
                                         .number = x.number};
    for (int i = 0; i < g->size; i++)
        if (i != g->rank && (of_all || (x.op == KL_OP_SEND && i == x.peer)))
            kl_control_send(kl_group_control, g->process[i], &m, why->message);
}

static bool is_cause(const struct note *n, struct kl_exchange_name x) {
    return x.op != KL_OP_SEND && n->m.kind == KL_CONTROL_CAUSE && n->m.group == x.group->id &&
           n->m.lane == lane_of(x) && (x.op != KL_OP_RECV || n->from == x.group->process[x.peer]);
}

struct kl_error *kl_group_cause(struct kl_exchange_name x, int rank) {
    struct kl_error_info info = {.code = KL_EGROUP, .op = kl_op_name(x.op)};
    for (struct note *n = notes; n; n = n->next)
        if (is_cause(n, x) && n->m.number == x.number && n->from == x.group->process[rank])
            return error_of(&n->m, rank, n->text);
    if (!note_missed) return NULL;
    return kl_error_new(&info, "rank %d failed; there was no memory to note why", rank);
}

void kl_group_forget_causes(struct kl_exchange_name x) {
    for (struct note **at = &notes; *at;) {
        struct note *n = *at;
        if (!is_cause(n, x) || n->m.number > x.number) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        kl_free(n);
    }
}

int kl_group_take_comm(const struct kl_group *g, int from_rank, int lane, char *text) {
    for (struct note **at = &notes; *at; at = &(*at)->next) {
        struct note *n = *at;
        if (n->m.kind != KL_CONTROL_COMM || n->m.group != g->id || n->m.lane != lane ||
            n->from != g->process[from_rank])
            continue;
        strcpy(text, n->text); /* messages are shorter than KL_CONTROL_TEXT */
        *at = n->next;
        kl_free(n);
        return 1;
    }
    return note_missed ? KL_ENOMEM : 0;
}

/* ---- splitting ---- */

struct choice {
    int rank, color, key;
};

static int by_key(const void *a, const void *b) {
    const struct choice *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

/* Takes the note with the choice of a rank for this split, when it has come. */
static bool take_choice(const struct kl_group *g, int rank, struct choice *c) {
    for (struct note **at = &notes; *at; at = &(*at)->next) {
        struct note *n = *at;
        if (n->m.kind != KL_CONTROL_SPLIT || n->m.group != g->id || n->m.number != g->n_splits ||
            n->from != g->process[rank])
            continue;
        *c = (struct choice){rank, (int)(n->m.value >> 32), (int)(n->m.value & INT32_MAX)};
        *at = n->next;
        kl_free(n);
        return true;
    }
    return false;
}

/* Tells the others what this rank chooses, and waits until all have chosen. */
static int gather_choices(struct kl_group *g, struct choice *all, struct kl_error **err) {
    const struct choice *mine = &all[g->rank];
    const struct kl_control_message m = {
        .kind = KL_CONTROL_SPLIT,
        .group = g->id,
        .number = g->n_splits,
        .value = (int64_t)((uint64_t)mine->color << 32 | (uint64_t)mine->key)};
    const int64_t until = kl_clock_ns() + kl_collective_limit_ns;
    kl_progress_lock();
    for (int i = 0; i < g->size; i++)
        if (i != g->rank) kl_control_send(kl_group_control, g->process[i], &m, NULL);
    int missing = 0, rc = KL_OK;
    for (;;) {
        missing = -1;
        for (int i = 0; i < g->size; i++)
            if (all[i].rank < 0 && !take_choice(g, i, &all[i])) missing = i;
        if (g->broken) rc = kl_fail_with(err, kl_error_retain(g->broken));
        if (missing < 0 || rc || kl_clock_ns() > until) break;
        kl_progress_unlock();
        kl_progress_poll();
        nanosleep(&(struct timespec){0, 20000}, NULL);
        kl_progress_lock();
    }
    kl_progress_unlock();
    if (missing >= 0 && !rc)
        rc = kl_fail(err, KL_EGROUP,
                     "rank %d did not split the group within %g s (KEEL_DIST_TIMEOUT)", missing,
                     (double)kl_collective_limit_ns / 1e9);
    return rc;
}

/* The same on all ranks of the new group, and no other group's. */
static uint64_t id_of(const struct kl_group *g, int color) {
    uint64_t h = 14695981039346656037u;
    const uint64_t parts[] = {g->id, (uint64_t)g->n_splits, (uint64_t)color};
    for (size_t i = 0; i < sizeof parts; i++)
        h = (h ^ ((const unsigned char *)parts)[i]) * 1099511628211u;
    return h;
}

static int split(struct kl_group *g, struct choice *all, struct kl_group **out,
                 struct kl_error **err) {
    const struct choice mine = all[g->rank];
    struct kl_comm *comm = NULL; /* of the host */
    KL_TRY(gather_choices(g, all, err));
    int n = 0;
    for (int i = 0; i < g->size; i++)
        if (all[i].color == mine.color) all[n++] = all[i];
    qsort(all, (size_t)n, sizeof *all, by_key);
    int *process = kl_malloc((size_t)n * sizeof *process);
    if (process)
        for (int i = 0; i < n; i++) process[i] = g->process[all[i].rank];
    int rank = 0;
    for (int i = 0; i < n; i++)
        if (all[i].rank == g->rank) rank = i;
    /* All ranks are here, and must make the communicator even where one has no memory. */
    int rc = KL_OK;
    kl_progress_lock();
    if (g->comm) rc = g->comm->engine->split(g->comm, mine.color, mine.key, &comm, err);
    kl_progress_unlock();
    if (!rc && !process) rc = kl_fail_nomem(err);
    if (!rc)
        rc = kl_group_new(out, rank, n, n > 1 ? comm : NULL,
                          n > 1 && g->device ? g->device->backend : NULL, process,
                          id_of(g, mine.color), err);
    if (!rc && (rc = kl_device_connect(*out, err))) {
        kl_group_release(*out);
        *out = NULL;
        comm = NULL; /* it went with the group */
    }
    if (comm && (rc || n == 1)) {
        kl_progress_lock();
        comm->engine->leave(comm, false);
        kl_progress_unlock();
    }
    kl_free(process);
    return rc;
}

int kl_group_split(struct kl_group *g, int color, int key, struct kl_group **out,
                   struct kl_error **err) {
    if (color < 0) return kl_fail(err, KL_EARG, "the color is %d, but must not be negative", color);
    if (g->size == 1) return kl_group_new(out, 0, 1, NULL, NULL, NULL, 0, err);
    struct choice *all = kl_malloc((size_t)g->size * sizeof *all);
    if (!all) return kl_fail_nomem(err);
    for (int i = 0; i < g->size; i++) all[i].rank = -1;
    all[g->rank] = (struct choice){g->rank, color, key < 0 ? g->rank : key};
    kl_mutex_lock(&g->split_mu);
    int rc = split(g, all, out, err);
    g->n_splits++;
    kl_mutex_unlock(&g->split_mu);
    kl_free(all);
    return rc;
}
