/* sim_run.c - what the threads of the simulated device do, and the memory that its commands may
 * use.
 *
 * A thread that finds several possible actions (to run the head of a queue whose events have
 * executed, or to make an executed event visible) picks one at random from a seeded generator. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/sim/sim_internal.h"
#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/op/validate.h"

uint64_t kl_sim_draw(struct kl_sim *s) {
    uint64_t z = s->rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void kl_sim_cond_wait(struct kl_sim *s, pthread_cond_t *c) {
    kl_cond_wait(c, &s->mu);
}

/* ---- shared memory; s->mu is held ---- */

static struct kl_sim_region *region_at(struct kl_sim *s, const void *begin, int kind) {
    for (int i = 0; i < s->n_regions; i++)
        if (s->regions[i].begin == begin && (int)s->regions[i].kind == kind) return &s->regions[i];
    return NULL;
}

static bool lies_in(struct kl_sim *s, const void *p, int kind) {
    for (int i = 0; i < s->n_regions; i++) {
        const struct kl_sim_region *r = &s->regions[i];
        size_t at = (size_t)((const char *)p - r->begin);
        if ((int)r->kind == kind && (at < r->bytes || (kind != KL_SIM_SHOWN && at == r->bytes)))
            return true; /* an operand without elements may lie at the very end of its block */
    }
    return false;
}

/* Uses the C library's allocator, because failures injected into kl_malloc must not occur here: a
 * real device needs no such memory. */
int kl_sim_region_add(struct kl_sim *s, const void *begin, size_t bytes, int kind) {
    struct kl_sim_region *r = region_at(s, begin, kind);
    if (r) {
        r->n++;
        return KL_OK;
    }
    if (s->n_regions == s->regions_room) {
        int room = s->regions_room ? 2 * s->regions_room : 64;
        struct kl_sim_region *more = realloc(s->regions, (size_t)room * sizeof *more);
        if (!more) return KL_ENOMEM;
        s->regions = more;
        s->regions_room = room;
    }
    s->regions[s->n_regions++] = (struct kl_sim_region){begin, bytes, kind, 1};
    return KL_OK;
}

void kl_sim_region_drop(struct kl_sim *s, const void *begin, int kind) {
    struct kl_sim_region *r = region_at(s, begin, kind);
    kl_assert(r);
    if (--r->n == 0) *r = s->regions[--s->n_regions];
}

static void broken(const struct kl_command *c, const char *what) {
    fprintf(stderr, "keel: simulated device: '%s' %s\n", c->name ? c->name : "?", what);
    abort();
}

void kl_sim_check_operands(struct kl_sim *s, const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->args[i].data && !lies_in(s, c->args[i].data, KL_SIM_OWN) &&
            !lies_in(s, c->args[i].data, KL_SIM_GIVEN))
            broken(c, "uses memory that the device was not given");
}

int kl_sim_check_addresses(const struct kl_command *c, struct kl_error **err) {
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

static void check_written(struct kl_sim *s, const struct kl_command *c) {
    int first = c->kind == KL_CMD_GUARD_FILL ? 0 : c->n_in;
    int end = c->kind == KL_CMD_GUARD_FILL ? 1 : c->n_in + c->n_out;
    for (int i = first; i < end; i++)
        if (c->args[i].data && lies_in(s, c->args[i].data, KL_SIM_SHOWN))
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

static void lose(struct kl_sim *s) {
    kl_mutex_lock(&s->mu);
    s->losing = true;
    kl_mutex_unlock(&s->mu);
}

static void run_kernel(struct kl_sim *s, const struct kl_command *c) {
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
         * memory of the reference kernel, the kernel is tried again. One that fails otherwise was
         * not to be taken, and the device is lost as one is that runs an invalid instruction. */
        do {
            kl_error_release(e);
            e = NULL;
            rc = kl_cpu_kernel(c->op)(&l);
        } while (rc == KL_ENOMEM);
        if (rc) lose(s);
        if (l.fault != KL_NO_FAULT) word_min(c->word, (uint32_t)(l.fault - c->pos_begin));
    }
    kl_error_release(e);
}

static void count_exchange(struct kl_sim *s, int more) {
    kl_mutex_lock(&s->mu);
    s->n_exchanging += more;
    pthread_cond_broadcast(&s->changed);
    kl_mutex_unlock(&s->mu);
}

static void run_exchange(struct kl_sim *s, const struct kl_command *c) {
    uint32_t told[KL_BROUGHT_WORDS - 1];
    count_exchange(s, 1);
    const uint32_t verdict = kl_sim_exchange(c, !guards_clear(c), told);
    count_exchange(s, -1);
    if (verdict == KL_WORD_CLEAR) return;
    _Atomic(uint32_t) *words = c->word.words->device;
    for (int i = 0; verdict == KL_VERDICT_UNLIKE && i < KL_BROUGHT_WORDS - 1; i++)
        atomic_store(&words[c->word.index + 1 + i], told[i]);
    word_min(c->word, verdict);
}

static void check_guards(const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        if (!c->args[i].data) continue;
        enum kl_guard_finding f = kl_guard_check(c->args[i].data, c->bytes[i], c->tenants[i]);
        if (f) word_min(c->word, (uint32_t)(i * 4) + f);
    }
}

static void run_batch(struct kl_sim *s, const struct kl_sim_batch *b) {
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
            if (kl_sim_exchanges(c)) {
                run_exchange(s, c);
            } else if (guards_clear(c)) {
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

static bool may_run(struct kl_sim *s, struct kl_sim_queue *q) {
    if (q->running || kl_list_empty(&q->batches) || s->paused || s->lost || s->losing) return false;
    struct kl_sim_batch *b = kl_container(kl_list_first(&q->batches), struct kl_sim_batch, link);
    for (int i = 0; i < b->n_waits; i++)
        if (!b->waits[i]->executed) return false;
    return true;
}

static bool may_show(struct kl_sim *s, struct kl_sim_queue *q) {
    return !kl_list_empty(&q->invisible) && !s->lost && (!s->hold || q->n_may_complete > 0);
}

void kl_sim_batch_free(struct kl_sim_batch *b) {
    kl_free(b->waits);
    kl_free(b);
}

static void show(struct kl_sim *s, struct kl_sim_queue *q) {
    struct kl_sim_batch *b = kl_container(kl_list_pop(&q->invisible), struct kl_sim_batch, link);
    b->signal->visible = true;
    b->signal->invisible = NULL;
    if (s->hold) q->n_may_complete--;
    kl_sim_batch_free(b);
    s->woken = true; /* a completion wakes the settlement thread */
    pthread_cond_broadcast(&s->changed);
}

static void run_head(struct kl_sim *s, struct kl_sim_queue *q) {
    struct kl_sim_batch *b = kl_container(kl_list_pop(&q->batches), struct kl_sim_batch, link);
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
    if (s->lose_one_in && kl_sim_draw(s) % s->lose_one_in == 0) s->losing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_cond_broadcast(&s->work);
}

/* Does one of the possible actions, chosen at random; false: there is none. */
static bool do_one(struct kl_sim *s) {
    /* Only when nothing runs: the host may free memory as soon as it learns of the loss. */
    if (s->losing && s->n_running == 0) {
        s->losing = false;
        s->lost = s->woken = true;
        pthread_cond_broadcast(&s->changed);
    }
    int n = 0, chosen = -1;
    bool run = false;
    for (int i = 0; i < s->n_queues; i++) {
        if (may_run(s, s->queues[i]) && kl_sim_draw(s) % (uint64_t)++n == 0) {
            chosen = i;
            run = true;
        }
        if (may_show(s, s->queues[i]) && kl_sim_draw(s) % (uint64_t)++n == 0) {
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

void kl_sim_thread(void *arg) {
    struct kl_sim *s = arg;
    kl_mutex_lock(&s->mu);
    for (;;)
        if (!do_one(s)) kl_sim_cond_wait(s, &s->work);
}
