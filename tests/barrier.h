/* barrier.h - a point where a number of threads meet. Not every system has pthread_barrier_t. */
#pragma once
#include <pthread.h>

struct t_barrier {
    pthread_mutex_t mu;
    pthread_cond_t all_here;
    int n, missing;    /* guarded by mu */
    unsigned meetings; /* guarded by mu */
};

static inline void t_barrier_init(struct t_barrier *b, int n) {
    pthread_mutex_init(&b->mu, NULL);
    pthread_cond_init(&b->all_here, NULL);
    b->n = b->missing = n;
    b->meetings = 0;
}

/* Waits until n threads have called it. */
static inline void t_barrier_wait(struct t_barrier *b) {
    pthread_mutex_lock(&b->mu);
    const unsigned this_one = b->meetings;
    if (--b->missing == 0) {
        b->missing = b->n;
        b->meetings++;
        pthread_cond_broadcast(&b->all_here);
    }
    while (b->meetings == this_one) pthread_cond_wait(&b->all_here, &b->mu);
    pthread_mutex_unlock(&b->mu);
}

/* After all threads have come back from their waits. */
static inline void t_barrier_destroy(struct t_barrier *b) {
    pthread_cond_destroy(&b->all_here);
    pthread_mutex_destroy(&b->mu);
}
