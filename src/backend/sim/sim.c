/* sim.c - see sim.h.
 *
 * Each device has queues of submitted batches, a few threads, and one lock. A thread that finds
 * several possible actions (to run the head of a queue whose events have executed, or to make an
 * executed event visible) picks one at random from a seeded generator. */
#include "backend/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/gpu/gpu.h"
#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/op/op_params.h"
#include "base/op/validate.h"

enum { MAX_DEVICES = 4, THREADS = 2, MAX_QUEUES = 4096 };

struct event {
    bool executed;           /* other queues of the device wait for this */
    bool visible;            /* the host sees this */
    struct batch *invisible; /* the batch, while it is executed and the host has not been told */
};

struct batch {
    struct kl_link link; /* in its queue, or in the device's invisible list */
    const struct kl_command *commands;
    int n;
    struct event **waits;
    int n_waits;
    struct event *signal;
    struct queue *queue;
};

struct queue {
    int stream_index;
    struct kl_list batches;   /* linked by batch.link; not yet executed */
    struct kl_list invisible; /* executed, not yet visible; in order */
    bool running;
    uint64_t n_executed;
    int n_may_complete; /* how many more batches kl_sim_complete has allowed to become visible */
};

/* Memory that a device with shared memory may use, or must not touch. */
struct region {
    const char *begin;
    size_t bytes;
    /* OWN: memory of the device; SHOWN: of the device, and the host reads it; GIVEN: of the host,
     * and the device may read it. */
    enum { OWN, SHOWN, GIVEN } kind;
    int n; /* how many times it is shown or given */
};

struct sim {
    struct kl_driver driver; /* first */
    char name[8];
    struct kl_backend *backend;
    struct kl_mutex mu; /* leaf; guards everything below */
    pthread_cond_t work, changed;
    struct queue *queues[MAX_QUEUES];
    int n_queues;
    int n_threads, n_running;
    bool hold, paused, lost, losing, woken, forked;
    uint64_t rng, n_launches, n_guarded_off;
    int64_t fail_submit_in; /* submissions until one fails; -1: never */
    uint32_t fail_submit_one_in, lose_one_in;
    size_t budget, used;
    struct region *regions; /* for a device that shares memory */
    int n_regions, regions_room;
};

static struct sim devices[MAX_DEVICES];
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void devices_init(void) {
    for (int i = 0; i < MAX_DEVICES; i++) {
        kl_mutex_init(&devices[i].mu);
        pthread_cond_init(&devices[i].work, NULL);
        pthread_cond_init(&devices[i].changed, NULL);
        devices[i].fail_submit_in = -1;
        devices[i].budget = (size_t)-1;
        devices[i].rng = 0x5EED + (uint64_t)i;
    }
}

static struct sim *get(int device) {
    pthread_once(&devices_once, devices_init);
    return &devices[device];
}

static uint64_t draw(struct sim *s) {
    uint64_t z = s->rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void cond_wait(struct sim *s, pthread_cond_t *c) {
    kl_cond_wait(c, &s->mu);
}

/* ---- shared memory; s->mu is held ---- */

static struct region *region_at(struct sim *s, const void *begin, int kind) {
    for (int i = 0; i < s->n_regions; i++)
        if (s->regions[i].begin == begin && (int)s->regions[i].kind == kind) return &s->regions[i];
    return NULL;
}

static bool lies_in(struct sim *s, const void *p, int kind) {
    for (int i = 0; i < s->n_regions; i++) {
        const struct region *r = &s->regions[i];
        size_t at = (size_t)((const char *)p - r->begin);
        if ((int)r->kind == kind && (at < r->bytes || (kind != SHOWN && at == r->bytes)))
            return true; /* an operand without elements may lie at the very end of its block */
    }
    return false;
}

/* Uses the C library's allocator, because failures injected into kl_malloc must not occur here: a
 * real device needs no such memory. */
static int region_add(struct sim *s, const void *begin, size_t bytes, int kind) {
    struct region *r = region_at(s, begin, kind);
    if (r) {
        r->n++;
        return KL_OK;
    }
    if (s->n_regions == s->regions_room) {
        int room = s->regions_room ? 2 * s->regions_room : 64;
        struct region *more = realloc(s->regions, (size_t)room * sizeof *more);
        if (!more) return KL_ENOMEM;
        s->regions = more;
        s->regions_room = room;
    }
    s->regions[s->n_regions++] = (struct region){begin, bytes, kind, 1};
    return KL_OK;
}

static void region_drop(struct sim *s, const void *begin, int kind) {
    struct region *r = region_at(s, begin, kind);
    kl_assert(r);
    if (--r->n == 0) *r = s->regions[--s->n_regions];
}

static void broken(const struct kl_command *c, const char *what) {
    fprintf(stderr, "keel: simulated device: '%s' %s\n", c->name ? c->name : "?", what);
    abort();
}

/* Looks up the memory of the operands, as real drivers do at hand-over. */
static void check_operands(struct sim *s, const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->args[i].data && !lies_in(s, c->args[i].data, OWN) &&
            !lies_in(s, c->args[i].data, GIVEN))
            broken(c, "uses memory that the device was not given");
}

/* Checks that addresses are aligned to their items: real devices stop at a misaligned access, and
 * processors do not notice. */
static int check_addresses(const struct kl_command *c, struct kl_error **err) {
    for (int i = 0; i < c->n_in + c->n_out && c->kind == KL_CMD_LAUNCH; i++) {
        size_t item = kl_dtype_size((enum kl_dtype)c->args[i].dtype);
        if ((uintptr_t)c->args[i].data % item)
            return kl_fail(err, KL_EVALIDATE,
                           "kernel '%s': argument %d, the address %p, is not aligned to its items "
                           "of %zu bytes",
                           c->name ? c->name : kl_op_name(c->op), i, c->args[i].data, item);
    }
    return KL_OK;
}

static void check_written(struct sim *s, const struct kl_command *c) {
    int first = c->kind == KL_CMD_GUARD_FILL ? 0 : c->n_in;
    int end = c->kind == KL_CMD_GUARD_FILL ? 1 : c->n_in + c->n_out;
    for (int i = first; i < end; i++)
        if (c->args[i].data && lies_in(s, c->args[i].data, SHOWN))
            broken(c, "writes memory that the host may be reading");
}

/* ---- execution: the lock is not held ---- */

static void word_min(struct kl_word_ref w, uint32_t value) {
    _Atomic(uint32_t) *words = w.words->device;
    uint32_t old = atomic_load(&words[w.index]);
    while (value < old && !atomic_compare_exchange_weak(&words[w.index], &old, value)) {
    }
    old = atomic_load(&words[0]);
    while ((uint32_t)w.index < old &&
           !atomic_compare_exchange_weak(&words[0], &old, (uint32_t)w.index)) {
    }
}

static uint32_t word_get(struct kl_word_ref w) {
    return atomic_load(&((_Atomic(uint32_t) *)w.words->device)[w.index]);
}

static bool guards_clear(const struct kl_command *c) {
    for (int i = 0; i < c->n_guards; i++)
        if (word_get(c->guards[i]) != KL_WORD_CLEAR) return false;
    return true;
}

static void run_kernel(struct sim *s, const struct kl_command *c) {
    struct kl_error *e = NULL;
    struct kl_launch l = {.op = c->op,
                          .params = c->params,
                          .n_in = c->n_in,
                          .n_out = c->n_out,
                          .in = c->args,
                          .out = c->args + c->n_in,
                          .checked = c->checked,
                          .pos_begin = c->pos_begin,
                          .pos_end = c->pos_end,
                          .fault = KL_NO_FAULT,
                          .err = &e};
    int rc;
    if (c->op == KL_OP_CALL) {
        const struct kl_call_params *call = c->params;
        rc = call->fn(call->ctx, &l, &e);
        if (rc) word_min(c->word, (uint32_t)-rc);
    } else {
        /* A device kernel needs no memory of the host, so when an injected failure hits the scratch
         * memory of the reference kernel, the kernel is tried again. */
        do rc = kl_cpu_kernel(c->op)(&l);
        while (rc);
        if (l.fault != KL_NO_FAULT) word_min(c->word, (uint32_t)(l.fault - c->pos_begin));
    }
    kl_error_release(e);
}

static void check_guards(const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        if (!c->args[i].data) continue;
        enum kl_guard_finding f = kl_guard_check(c->args[i].data, c->bytes[i], c->tenants[i]);
        if (f) word_min(c->word, (uint32_t)(i * 4) + f);
    }
}

static void run_batch(struct sim *s, const struct batch *b) {
    uint64_t launches = 0, off = 0;
    for (int i = 0; i < b->n; i++) {
        const struct kl_command *c = &b->commands[i];
        if (s->driver.shares && (c->kind == KL_CMD_LAUNCH || c->kind == KL_CMD_GUARD_FILL)) {
            kl_mutex_lock(&s->mu);
            check_written(s, c);
            kl_mutex_unlock(&s->mu);
        }
        switch (c->kind) {
        case KL_CMD_LAUNCH:
            if (guards_clear(c)) {
                launches++;
                run_kernel(s, c);
            } else {
                off++;
            }
            break;
        case KL_CMD_MERGE:
            for (int k = 0; k < c->n_guards; k++)
                if (word_get(c->guards[k]) != KL_WORD_CLEAR)
                    word_min(c->word, word_get(c->guards[k]));
            break;
        case KL_CMD_GUARD_FILL: kl_guard_write(c->args[0].data, c->bytes[0], c->tenants[0]); break;
        case KL_CMD_GUARD_CHECK: check_guards(c); break;
        }
    }
    kl_mutex_lock(&s->mu);
    s->n_launches += launches;
    s->n_guarded_off += off;
    kl_mutex_unlock(&s->mu);
}

/* ---- the schedule: the lock is held ---- */

static bool may_run(struct sim *s, struct queue *q) {
    if (q->running || kl_list_empty(&q->batches) || s->paused || s->lost || s->losing) return false;
    struct batch *b = kl_container(kl_list_first(&q->batches), struct batch, link);
    for (int i = 0; i < b->n_waits; i++)
        if (!b->waits[i]->executed) return false;
    return true;
}

static bool may_show(struct sim *s, struct queue *q) {
    return !kl_list_empty(&q->invisible) && !s->lost && (!s->hold || q->n_may_complete > 0);
}

static void batch_free(struct batch *b) {
    kl_free(b->waits);
    kl_free(b);
}

static void show(struct sim *s, struct queue *q) {
    struct batch *b = kl_container(kl_list_pop(&q->invisible), struct batch, link);
    b->signal->visible = true;
    b->signal->invisible = NULL;
    if (s->hold) q->n_may_complete--;
    batch_free(b);
    s->woken = true; /* a completion wakes the settlement thread */
    pthread_cond_broadcast(&s->changed);
}

static void run_head(struct sim *s, struct queue *q) {
    struct batch *b = kl_container(kl_list_pop(&q->batches), struct batch, link);
    q->running = true;
    s->n_running++;
    kl_mutex_unlock(&s->mu);
    run_batch(s, b);
    kl_mutex_lock(&s->mu);
    s->n_running--;
    q->running = false;
    q->n_executed++;
    b->signal->executed = true;
    b->signal->invisible = b;
    kl_list_push(&q->invisible, &b->link);
    if (s->lose_one_in && draw(s) % s->lose_one_in == 0) s->losing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_cond_broadcast(&s->work);
}

/* Does one of the possible actions, chosen at random; false: there is none. */
static bool do_one(struct sim *s) {
    /* Only when nothing runs: the host may free memory as soon as it learns of the loss. */
    if (s->losing && s->n_running == 0) {
        s->losing = false;
        s->lost = s->woken = true;
        pthread_cond_broadcast(&s->changed);
    }
    int n = 0, chosen = -1;
    bool run = false;
    for (int i = 0; i < s->n_queues; i++) {
        if (may_run(s, s->queues[i]) && draw(s) % (uint64_t)++n == 0) {
            chosen = i;
            run = true;
        }
        if (may_show(s, s->queues[i]) && draw(s) % (uint64_t)++n == 0) {
            chosen = i;
            run = false;
        }
    }
    if (chosen < 0) return false;
    if (run)
        run_head(s, s->queues[chosen]);
    else
        show(s, s->queues[chosen]);
    return true;
}

static void sim_thread(void *arg) {
    struct sim *s = arg;
    kl_mutex_lock(&s->mu);
    for (;;)
        if (!do_one(s)) cond_wait(s, &s->work);
}

/* ---- the driver's slots ---- */

static struct sim *sim_of(struct kl_driver *d) {
    return (struct sim *)d;
}

static int sim_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err) {
    struct sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    bool fits = s->used + bytes <= s->budget;
    if (fits) s->used += bytes;
    kl_mutex_unlock(&s->mu);
    bool have = fits && !kl_alloc_should_fail() && posix_memalign(ptr, 64, bytes ? bytes : 64) == 0;
    kl_mutex_lock(&s->mu);
    if (have && s->driver.shares && region_add(s, *ptr, bytes, OWN)) {
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
    struct sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    s->used -= bytes;
    if (s->driver.shares) region_drop(s, ptr, OWN);
    kl_mutex_unlock(&s->mu);
    free(ptr);
}

static int lost(struct sim *s, struct kl_error **err) {
    kl_mutex_lock(&s->mu);
    bool is = s->lost; /* while the device is being lost, its threads still access memory */
    kl_mutex_unlock(&s->mu);
    return is ? kl_fail(err, KL_EDEVICELOST, "device '%s' is lost", s->name) : KL_OK;
}

/* The GPU layer refuses the device after a fork before it calls the driver; tests of the driver
 * alone see this. */
static int usable(struct sim *s, struct kl_error **err) {
    if (s->forked)
        return kl_fail(err, KL_EDEVICE, "device '%s' was opened before this process forked",
                       s->name);
    return lost(s, err);
}

static int sim_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                    struct kl_error **err) {
    KL_TRY(usable(sim_of(d), err));
    memcpy(dst, (const char *)ptr + offset, n);
    return KL_OK;
}

static int sim_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                     struct kl_error **err) {
    KL_TRY(usable(sim_of(d), err));
    memcpy((char *)ptr + offset, src, n);
    return KL_OK;
}

static int sim_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine,
                     struct kl_error **err) {
    struct sim *s = sim_of(d);
    KL_TRY(lost(s, err));
    if (kl_alloc_should_fail()) return kl_fail_nomem(err);
    /* So that tests reach the path that copies. */
    if (!mine && (uintptr_t)ptr % 64) return KL_EUNSUPPORTED;
    kl_mutex_lock(&s->mu);
    int rc = region_add(s, ptr, bytes, mine ? SHOWN : GIVEN);
    kl_mutex_unlock(&s->mu);
    return rc ? kl_fail_nomem(err) : KL_OK;
}

static void sim_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine) {
    struct sim *s = sim_of(d);
    if (s->forked) return;
    kl_mutex_lock(&s->mu);
    region_drop(s, ptr, mine ? SHOWN : GIVEN);
    kl_mutex_unlock(&s->mu);
}

static struct queue *queue_named(struct sim *s, int stream_index) {
    for (int i = 0; i < s->n_queues; i++)
        if (s->queues[i]->stream_index == stream_index) return s->queues[i];
    return NULL;
}

static int sim_queue_new(struct kl_driver *d, int stream_index, void **queue,
                         struct kl_error **err) {
    struct sim *s = sim_of(d);
    struct queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    q->stream_index = stream_index;
    kl_list_init(&q->batches);
    kl_list_init(&q->invisible);
    kl_mutex_lock(&s->mu);
    int rc = s->n_queues < MAX_QUEUES ? KL_OK : KL_ELIMIT;
    while (!rc && s->n_threads < THREADS) {
        if (kl_thread_start(sim_thread, s, "keel-sim")) break;
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
    return (*event = kl_calloc(1, sizeof(struct event))) ? KL_OK : kl_fail_nomem(err);
}

static void sim_event_free(struct kl_driver *d, void *event) {
    struct sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    /* The completion of a consumer may prove a producer complete before the host is told of the
     * producer. */
    struct batch *b = ((struct event *)event)->invisible;
    if (b) {
        kl_list_remove(&b->link);
        if (s->hold && b->queue->n_may_complete > 0) b->queue->n_may_complete--;
        batch_free(b);
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

/* There is no compiler, so kernels of users are refused. */
static int sim_takes(struct kl_driver *d, const struct kl_command *c, struct kl_error **err) {
    if (c->kind != KL_CMD_LAUNCH || c->op != KL_OP_KERNEL) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED,
                   "kernel '%s' needs a GPU with CUDA or OpenCL; '%s' is simulated", c->name,
                   d->name);
}

static int sim_run(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                   void *const *waits, int n_waits, struct kl_fault_words *brings_back,
                   void *signal, struct kl_error **err) {
    struct sim *s = sim_of(d);
    struct queue *q = queue;
    for (int i = 0; i < n; i++) KL_TRY(check_addresses(&commands[i], err));
    struct batch *b = kl_calloc(1, sizeof *b);
    struct event **w = kl_malloc((size_t)(n_waits + 1) * sizeof *w);
    if (!b || !w) {
        kl_free(b);
        kl_free(w);
        return kl_fail_nomem(err);
    }
    for (int i = 0; i < n_waits; i++) w[i] = waits[i];
    *b = (struct batch){
        .commands = commands, .n = n, .waits = w, .n_waits = n_waits, .signal = signal, .queue = q};
    kl_mutex_lock(&s->mu);
    /* While the device is being lost, it accepts batches and never runs them. */
    int rc = s->lost ? KL_EDEVICELOST : KL_OK;
    if (!rc && s->fail_submit_in >= 0 && s->fail_submit_in-- == 0) rc = KL_ESUBMIT;
    if (!rc && s->fail_submit_one_in && draw(s) % s->fail_submit_one_in == 0) rc = KL_ESUBMIT;
    for (int i = 0; i < n && !rc && s->driver.shares; i++)
        if (commands[i].kind != KL_CMD_MERGE) check_operands(s, &commands[i]);
    if (!rc) {
        kl_list_push(&q->batches, &b->link);
        pthread_cond_broadcast(&s->work);
    }
    kl_mutex_unlock(&s->mu);
    if (!rc) return KL_OK;
    batch_free(b);
    return kl_fail(err, rc, "device '%s' %s", s->name,
                   rc == KL_ESUBMIT ? "refused a submission" : "is lost");
}

static int sim_event_query(struct kl_driver *d, void *event) {
    struct sim *s = sim_of(d);
    struct event *e = event;
    kl_mutex_lock(&s->mu);
    int rc = e->visible ? 1 : s->lost ? KL_EDEVICELOST : 0;
    kl_mutex_unlock(&s->mu);
    return rc;
}

static void sim_wait_any(struct kl_driver *d, void *const *events, int n) {
    struct sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    for (bool any = false; !any;) {
        any = s->woken;
        for (int i = 0; i < n && !any; i++) any = ((struct event *)events[i])->visible;
        if (!any) cond_wait(s, &s->changed);
    }
    s->woken = false;
    kl_mutex_unlock(&s->mu);
}

static void sim_wake(struct kl_driver *d) {
    struct sim *s = sim_of(d);
    kl_mutex_lock(&s->mu);
    s->woken = true;
    pthread_cond_broadcast(&s->changed);
    kl_mutex_unlock(&s->mu);
}

static void sim_forked(struct kl_driver *d) {
    struct sim *s = sim_of(d);
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
                                         .takes = sim_takes};

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
    struct sim *s = get(index);
    if (!s->backend) {
        snprintf(s->name, sizeof s->name, "sim%d", index);
        s->driver = (struct kl_driver){.ops = &ops,
                                       .name = s->name,
                                       .max_positions = INT64_C(1) << 31,
                                       .apart = true,
                                       .shares = kl_sim_shares(),
                                       .copied_on_fork = true};
        if (!(s->backend = kl_gpu_backend_new(&s->driver, index, err))) return KL_ENOMEM;
        kl_fork_lock_add(&s->mu);
    }
    *out = s->backend;
    return KL_OK;
}

/* ---- controls ---- */

#define LOCKED(device, statement)         \
    do {                                  \
        struct sim *s = get(device);      \
        kl_mutex_lock(&s->mu);            \
        statement;                        \
        pthread_cond_broadcast(&s->work); \
        kl_mutex_unlock(&s->mu);          \
    } while (0)

void kl_sim_seed(int device, uint64_t seed) {
    LOCKED(device, s->rng = seed);
}
void kl_sim_hold(int device, bool hold) {
    LOCKED(device, s->hold = hold);
}
void kl_sim_pause(int device, bool pause) {
    LOCKED(device, s->paused = pause);
}
void kl_sim_fail_submit_at(int device, int64_t n) {
    LOCKED(device, s->fail_submit_in = n);
}
void kl_sim_fail_submit_random(int device, uint32_t one_in) {
    LOCKED(device, s->fail_submit_one_in = one_in);
}
void kl_sim_lose(int device) {
    LOCKED(device, s->losing = true);
}
void kl_sim_lose_random(int device, uint32_t one_in) {
    LOCKED(device, s->lose_one_in = one_in);
}
void kl_sim_budget(int device, size_t bytes) {
    LOCKED(device, s->budget = bytes);
}
void kl_sim_max_positions(int device, int64_t n) {
    LOCKED(device, s->driver.max_positions = n);
}

static uint64_t number(int device, int which, int stream_index) {
    struct sim *s = get(device);
    kl_mutex_lock(&s->mu);
    struct queue *q = which == 0 ? queue_named(s, stream_index) : NULL;
    uint64_t v = which == 0   ? (q ? q->n_executed : 0)
                 : which == 1 ? s->n_launches
                 : which == 2 ? s->n_guarded_off
                              : s->used;
    kl_mutex_unlock(&s->mu);
    return v;
}

uint64_t kl_sim_executed(int device, int stream_index) {
    return number(device, 0, stream_index);
}
uint64_t kl_sim_n_launches(int device) {
    return number(device, 1, 0);
}
uint64_t kl_sim_guarded_off(int device) {
    return number(device, 2, 0);
}
size_t kl_sim_used(int device) {
    return number(device, 3, 0);
}

int kl_sim_n_shared(int device) {
    struct sim *s = get(device);
    kl_mutex_lock(&s->mu);
    int n = 0;
    for (int i = 0; i < s->n_regions; i++) n += s->regions[i].kind != OWN;
    kl_mutex_unlock(&s->mu);
    return n;
}

bool kl_sim_wait_executed(int device, int stream_index, uint64_t n) {
    struct sim *s = get(device);
    kl_mutex_lock(&s->mu);
    struct queue *q = NULL;
    while (!s->lost && !((q = queue_named(s, stream_index)) && q->n_executed >= n))
        cond_wait(s, &s->changed);
    bool ok = !s->lost;
    kl_mutex_unlock(&s->mu);
    return ok;
}

void kl_sim_complete(int device, int stream_index, int n) {
    struct sim *s = get(device);
    kl_mutex_lock(&s->mu);
    struct queue *q = queue_named(s, stream_index);
    if (q) q->n_may_complete += n;
    pthread_cond_broadcast(&s->work);
    while (q && q->n_may_complete > 0 && !s->lost) cond_wait(s, &s->changed);
    kl_mutex_unlock(&s->mu);
}

void kl_sim_revive(int device) {
    struct sim *s = get(device);
    kl_mutex_lock(&s->mu);
    for (int i = 0; i < s->n_queues; i++) {
        struct kl_link *n;
        while ((n = kl_list_pop(&s->queues[i]->batches)))
            batch_free(kl_container(n, struct batch, link));
        /* The batches are unlinked one by one, because a settling thread may still free their
         * events. */
        while ((n = kl_list_pop(&s->queues[i]->invisible))) {
            struct batch *b = kl_container(n, struct batch, link);
            b->signal->invisible = NULL;
            batch_free(b);
        }
        s->queues[i]->n_may_complete = 0;
    }
    s->lost = s->losing = false;
    kl_mutex_unlock(&s->mu);
    kl_gpu_revive(s->backend);
}

void kl_sim_until_empty(int device) {
    kl_gpu_until_empty(get(device)->backend);
}
