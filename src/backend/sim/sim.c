/* sim.c - see sim.h: the devices, and the slots of the driver. */
#include "backend/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/gpu/gpu.h"
#include "backend/sim/sim_internal.h"
#include "base/alloc.h"
#include "base/fork_locks.h"

enum { MAX_DEVICES = 4, THREADS = 2 };

static struct kl_sim devices[MAX_DEVICES];
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void devices_init(void) {
    for (int i = 0; i < MAX_DEVICES; i++) {
        kl_mutex_init(&devices[i].mu);
        kl_mutex_init(&devices[i].calls);
        pthread_cond_init(&devices[i].work, NULL);
        pthread_cond_init(&devices[i].changed, NULL);
        devices[i].fail_submit_in = -1;
        devices[i].budget = (size_t)-1;
        devices[i].rng = 0x5EED + (uint64_t)i;
    }
}

struct kl_sim *kl_sim_get(int device) {
    pthread_once(&devices_once, devices_init);
    return &devices[device];
}

/* ---- the driver's slots ---- */

static struct kl_sim *sim_of(struct kl_driver *d) {
    return (struct kl_sim *)d;
}

/* Around calls of a driver that waits for its device. */
static void enter(struct kl_sim *s) {
    if (s->waits) kl_mutex_lock(&s->calls);
}

/* Around those that wait for all that runs. */
static void enter_idle(struct kl_sim *s) {
    enter(s);
    kl_mutex_lock(&s->mu);
    while (s->waits && s->n_exchanging && !s->lost) kl_sim_cond_wait(s, &s->changed);
    kl_mutex_unlock(&s->mu);
}

static void leave(struct kl_sim *s) {
    if (s->waits) kl_mutex_unlock(&s->calls);
}

static int sim_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err) {
    struct kl_sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    bool fits = s->used + bytes <= s->budget;
    if (fits) s->used += bytes;
    kl_mutex_unlock(&s->mu);
    bool have = fits && !kl_alloc_should_fail() && posix_memalign(ptr, 64, bytes ? bytes : 64) == 0;
    kl_mutex_lock(&s->mu);
    if (have && s->driver.shares && kl_sim_region_add(s, *ptr, bytes, KL_SIM_OWN)) {
        free(*ptr);
        have = false;
    }
    if (fits && !have) s->used -= bytes;
    kl_mutex_unlock(&s->mu);
    if (have) return KL_OK;
    return kl_fail(err, KL_ENOMEM, "out of memory on device '%s': %zu bytes wanted", s->name,
                   bytes);
}

static void sim_free(struct kl_driver *d, void *ptr, size_t bytes) {
    struct kl_sim *s = sim_of(d);
    enter_idle(s);
    kl_mutex_lock(&s->mu);
    s->used -= bytes;
    if (s->driver.shares) kl_sim_region_drop(s, ptr, KL_SIM_OWN);
    kl_mutex_unlock(&s->mu);
    leave(s);
    free(ptr);
}

static int lost(struct kl_sim *s, struct kl_error **err) {
    kl_mutex_lock(&s->mu);
    bool is = s->lost; /* while the device is being lost, its threads still access memory */
    kl_mutex_unlock(&s->mu);
    return is ? kl_fail(err, KL_EDEVICELOST, "device '%s' is lost", s->name) : KL_OK;
}

/* The GPU layer refuses the device after a fork before it calls the driver; tests of the driver
 * alone see this. */
static int usable(struct kl_sim *s, struct kl_error **err) {
    if (s->forked)
        return kl_fail(err, KL_EDEVICE, "device '%s' was opened before this process forked",
                       s->name);
    return lost(s, err);
}

static int sim_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                    struct kl_error **err) {
    KL_TRY(usable(sim_of(d), err));
    enter(sim_of(d));
    memcpy(dst, (const char *)ptr + offset, n);
    leave(sim_of(d));
    return KL_OK;
}

static int sim_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                     struct kl_error **err) {
    KL_TRY(usable(sim_of(d), err));
    enter(sim_of(d));
    memcpy((char *)ptr + offset, src, n);
    leave(sim_of(d));
    return KL_OK;
}

static int sim_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine,
                     struct kl_error **err) {
    struct kl_sim *s = sim_of(d);
    KL_TRY(lost(s, err));
    if (kl_alloc_should_fail()) return kl_fail_nomem(err);
    /* So that tests reach the path that copies. */
    if (!mine && (uintptr_t)ptr % 64) return KL_EUNSUPPORTED;
    kl_mutex_lock(&s->mu);
    int rc = kl_sim_region_add(s, ptr, bytes, mine ? KL_SIM_SHOWN : KL_SIM_GIVEN);
    kl_mutex_unlock(&s->mu);
    return rc ? kl_fail_nomem(err) : KL_OK;
}

static void sim_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine) {
    struct kl_sim *s = sim_of(d);
    if (s->forked) return;
    kl_mutex_lock(&s->mu);
    kl_sim_region_drop(s, ptr, mine ? KL_SIM_SHOWN : KL_SIM_GIVEN);
    kl_mutex_unlock(&s->mu);
}

struct kl_sim_queue *kl_sim_queue_named(struct kl_sim *s, int stream_index) {
    for (int i = 0; i < s->n_queues; i++)
        if (s->queues[i]->stream_index == stream_index) return s->queues[i];
    return NULL;
}

static int sim_queue_new(struct kl_driver *d, int stream_index, void **queue,
                         struct kl_error **err) {
    struct kl_sim *s = sim_of(d);
    struct kl_sim_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    q->stream_index = stream_index;
    kl_list_init(&q->batches);
    kl_list_init(&q->invisible);
    kl_mutex_lock(&s->mu);
    int rc = s->n_queues < KL_SIM_MAX_QUEUES ? KL_OK : KL_ELIMIT;
    while (!rc && s->n_threads < THREADS) {
        if (kl_thread_start(kl_sim_thread, s, "keel-sim")) break;
        s->n_threads++;
    }
    if (!rc && s->n_threads == 0) rc = KL_ENOMEM;
    if (!rc) s->queues[s->n_queues++] = q;
    kl_mutex_unlock(&s->mu);
    if (rc) {
        kl_free(q);
        return kl_fail(err, rc, "device '%s' could not make another queue", s->name);
    }
    *queue = q;
    return KL_OK;
}

static int sim_event_new(struct kl_driver *d, void **event, struct kl_error **err) {
    return (*event = kl_calloc(1, sizeof(struct kl_sim_event))) ? KL_OK : kl_fail_nomem(err);
}

static void sim_event_free(struct kl_driver *d, void *event) {
    struct kl_sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    /* The completion of a consumer may prove a producer complete before the host is told of the
     * producer. */
    struct kl_sim_batch *b = ((struct kl_sim_event *)event)->invisible;
    if (b) {
        kl_list_remove(&b->link);
        if (s->hold && b->queue->n_may_complete > 0) b->queue->n_may_complete--;
        kl_sim_batch_free(b);
        pthread_cond_broadcast(&s->changed);
    }
    kl_mutex_unlock(&s->mu);
    kl_free(event);
}

static int sim_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    w->host = kl_malloc(KL_WORDS * sizeof(uint32_t));
    if (!w->host) return kl_fail_nomem(err);
    w->device = w->host;
    memset(w->host, 0xFF, KL_WORDS * sizeof(uint32_t));
    return KL_OK;
}

static void sim_words_clear(struct kl_driver *d, struct kl_fault_words *w) {
    memset(w->host, 0xFF, KL_WORDS * sizeof(uint32_t));
}

/* There is no compiler, so kernels of users are refused; and so is what the kernels of the CPU
 * cannot do on this machine. */
static int sim_takes(struct kl_driver *d, const struct kl_command *c, struct kl_error **err) {
    enter_idle(sim_of(d));
    leave(sim_of(d));
    if (c->kind != KL_CMD_LAUNCH) return KL_OK;
    if (kl_sim_exchanges(c)) return kl_sim_takes_exchange(c, err);
    if (kl_op_flags(c->op) & KL_OPF_OF_MATRICES) return kl_cpu_takes_matrices(c->op, c->args, err);
    if (c->op != KL_OP_KERNEL) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED,
                   "kernel '%s' needs a GPU with CUDA or OpenCL; '%s' is simulated", c->name,
                   d->name);
}

static int sim_run(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                   void *const *waits, int n_waits, struct kl_fault_words *brings_back,
                   void *signal, struct kl_error **err) {
    struct kl_sim *s = sim_of(d);
    struct kl_sim_queue *q = queue;
    for (int i = 0; i < n; i++) KL_TRY(kl_sim_check_addresses(&commands[i], err));
    struct kl_sim_batch *b = kl_calloc(1, sizeof *b);
    struct kl_sim_event **w = kl_malloc((size_t)(n_waits + 1) * sizeof *w);
    if (!b || !w) {
        kl_free(b);
        kl_free(w);
        return kl_fail_nomem(err);
    }
    for (int i = 0; i < n_waits; i++) w[i] = waits[i];
    *b = (struct kl_sim_batch){
        .commands = commands, .n = n, .waits = w, .n_waits = n_waits, .signal = signal, .queue = q};
    enter(s);
    kl_mutex_lock(&s->mu);
    /* While the device is being lost, it accepts batches and never runs them. */
    int rc = s->lost ? KL_EDEVICELOST : KL_OK;
    if (!rc && s->fail_submit_in >= 0 && s->fail_submit_in-- == 0) rc = KL_ESUBMIT;
    if (!rc && s->fail_submit_one_in && kl_sim_draw(s) % s->fail_submit_one_in == 0)
        rc = KL_ESUBMIT;
    for (int i = 0; i < n && !rc && s->driver.shares; i++)
        if (commands[i].kind != KL_CMD_MERGE) kl_sim_check_operands(s, &commands[i]);
    if (!rc) {
        kl_list_push(&q->batches, &b->link);
        pthread_cond_broadcast(&s->work);
    }
    kl_mutex_unlock(&s->mu);
    leave(s);
    if (!rc) return KL_OK;
    kl_sim_batch_free(b);
    return kl_fail(err, rc, "device '%s' %s", s->name,
                   rc == KL_ESUBMIT ? "refused a submission" : "is lost");
}

static int sim_event_query(struct kl_driver *d, void *event) {
    struct kl_sim *s = sim_of(d);
    struct kl_sim_event *e = event;
    enter(s);
    kl_mutex_lock(&s->mu);
    int rc = e->visible ? 1 : s->lost ? KL_EDEVICELOST : 0;
    kl_mutex_unlock(&s->mu);
    leave(s);
    return rc;
}

static void sim_wait_any(struct kl_driver *d, void *const *events, int n) {
    struct kl_sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    for (bool any = false; !any;) {
        any = s->woken;
        for (int i = 0; i < n && !any; i++) any = ((struct kl_sim_event *)events[i])->visible;
        if (!any) kl_sim_cond_wait(s, &s->changed);
    }
    s->woken = false;
    kl_mutex_unlock(&s->mu);
}

static void sim_wake(struct kl_driver *d) {
    struct kl_sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    s->woken = true;
    pthread_cond_broadcast(&s->changed);
    kl_mutex_unlock(&s->mu);
}

static void sim_forked(struct kl_driver *d) {
    struct kl_sim *s = sim_of(d);
    s->forked = true;
    s->n_threads = s->n_running = 0;
}

static const struct kl_driver_ops ops = {.alloc = sim_alloc,
                                         .free = sim_free,
                                         .read = sim_read,
                                         .write = sim_write,
                                         .queue_new = sim_queue_new,
                                         .event_new = sim_event_new,
                                         .event_free = sim_event_free,
                                         .words_new = sim_words_new,
                                         .words_clear = sim_words_clear,
                                         .event_query = sim_event_query,
                                         .wait_any = sim_wait_any,
                                         .wake = sim_wake,
                                         .forked = sim_forked,
                                         .share = sim_share,
                                         .unshare = sim_unshare,
                                         .run = sim_run,
                                         .takes = sim_takes,
                                         .comm_missing = kl_sim_comm_missing,
                                         .comm_device = kl_sim_comm_device,
                                         .comm_id = kl_sim_comm_id,
                                         .comm_new = kl_sim_comm_new,
                                         .comm_state = kl_sim_comm_state,
                                         .comm_end = kl_sim_comm_end,
                                         .comm_flag = kl_sim_comm_flag};

bool kl_sim_shares(void) {
    const char *e = getenv("KEEL_SIM_SHARED");
    return e && *e && strcmp(e, "0") != 0;
}

int kl_sim_n_devices(void) {
    const char *n = getenv("KEEL_SIM_DEVICES");
    int v = n ? atoi(n) : 1;
    return v < 0 ? 0 : v > MAX_DEVICES ? MAX_DEVICES : v;
}

int kl_sim_open(int index, struct kl_backend **out, struct kl_error **err) {
    struct kl_sim *s = kl_sim_get(index);
    if (!s->backend) {
        snprintf(s->name, sizeof s->name, "sim%d", index);
        s->driver = (struct kl_driver){.ops = &ops,
                                       .name = s->name,
                                       .max_positions = INT64_C(1) << 31,
                                       .apart = true,
                                       .shares = kl_sim_shares(),
                                       .copied_on_fork = true};
        const char *waits = getenv("KEEL_SIM_WAITS");
        s->waits = waits && strcmp(waits, "1") == 0;
        if (!(s->backend = kl_gpu_backend_new(&s->driver, index, err))) return KL_ENOMEM;
        kl_fork_lock_add(&s->mu);
    }
    *out = s->backend;
    return KL_OK;
}
