/* sim_control.c - how tests steer the simulated device, and the numbers that they read. */
#include "backend/gpu/gpu.h"
#include "backend/sim/sim_internal.h"

#define LOCKED(device, statement)              \
    do {                                       \
        struct kl_sim *s = kl_sim_get(device); \
        kl_mutex_lock(&s->mu);                 \
        statement;                             \
        pthread_cond_broadcast(&s->work);      \
        kl_mutex_unlock(&s->mu);               \
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
    struct kl_sim *s = kl_sim_get(device);
    kl_mutex_lock(&s->mu);
    struct kl_sim_queue *q = which == 0 ? kl_sim_queue_named(s, stream_index) : NULL;
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
    struct kl_sim *s = kl_sim_get(device);
    kl_mutex_lock(&s->mu);
    int n = 0;
    for (int i = 0; i < s->n_regions; i++) n += s->regions[i].kind != KL_SIM_OWN;
    kl_mutex_unlock(&s->mu);
    return n;
}

bool kl_sim_wait_executed(int device, int stream_index, uint64_t n) {
    struct kl_sim *s = kl_sim_get(device);
    kl_mutex_lock(&s->mu);
    struct kl_sim_queue *q = NULL;
    while (!s->lost && !((q = kl_sim_queue_named(s, stream_index)) && q->n_executed >= n))
        kl_sim_cond_wait(s, &s->changed);
    bool ok = !s->lost;
    kl_mutex_unlock(&s->mu);
    return ok;
}

void kl_sim_complete(int device, int stream_index, int n) {
    struct kl_sim *s = kl_sim_get(device);
    kl_mutex_lock(&s->mu);
    struct kl_sim_queue *q = kl_sim_queue_named(s, stream_index);
    if (q) q->n_may_complete += n;
    pthread_cond_broadcast(&s->work);
    while (q && q->n_may_complete > 0 && !s->lost) kl_sim_cond_wait(s, &s->changed);
    kl_mutex_unlock(&s->mu);
}

void kl_sim_revive(int device) {
    struct kl_sim *s = kl_sim_get(device);
    kl_mutex_lock(&s->mu);
    for (int i = 0; i < s->n_queues; i++) {
        struct kl_link *n;
        while ((n = kl_list_pop(&s->queues[i]->batches)))
            kl_sim_batch_free(kl_container(n, struct kl_sim_batch, link));
        /* The batches are unlinked one by one, because a settling thread may still free their
         * events. */
        while ((n = kl_list_pop(&s->queues[i]->invisible))) {
            struct kl_sim_batch *b = kl_container(n, struct kl_sim_batch, link);
            b->signal->invisible = NULL;
            kl_sim_batch_free(b);
        }
        s->queues[i]->n_may_complete = 0;
    }
    s->lost = s->losing = false;
    kl_mutex_unlock(&s->mu);
    kl_gpu_revive(s->backend);
}

void kl_sim_until_empty(int device) {
    kl_gpu_until_empty(kl_sim_get(device)->backend);
}
