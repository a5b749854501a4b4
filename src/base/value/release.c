/* release.c - see release.h. */
#include "base/value/release.h"

#include "base/error.h"
#include "base/fork_locks.h"

static struct {
    struct kl_mutex mu; /* leaf */
    pthread_cond_t work;
    struct kl_release *head, *tail; /* guarded by mu */
    uint64_t n_left, n_run;         /* guarded by mu */
    pthread_cond_t ran;
    bool started; /* guarded by mu */
} releases = {
    .mu = KL_MUTEX_INIT, .work = PTHREAD_COND_INITIALIZER, .ran = PTHREAD_COND_INITIALIZER};

__attribute__((constructor)) static void watch_fork(void) {
    kl_fork_lock_add(&releases.mu);
}

static void release_thread(void *arg) {
    for (;;) {
        kl_mutex_lock(&releases.mu);
        while (!releases.head) kl_cond_wait(&releases.work, &releases.mu);
        struct kl_release *r = releases.head;
        releases.head = releases.tail = NULL;
        kl_mutex_unlock(&releases.mu);
        while (r) {
            struct kl_release *next = r->next;
            r->run(r);
            r = next;
            kl_mutex_lock(&releases.mu);
            releases.n_run++;
            pthread_cond_broadcast(&releases.ran);
            kl_mutex_unlock(&releases.mu);
        }
    }
}

int kl_release_start(void) {
    kl_mutex_lock(&releases.mu);
    int rc = releases.started ? KL_OK : kl_thread_start(release_thread, NULL, "keel-release");
    releases.started = rc == KL_OK;
    kl_mutex_unlock(&releases.mu);
    return rc;
}

void kl_release_later(struct kl_release *r) {
    if (kl_release_start()) {
        r->run(r);
        return;
    }
    r->next = NULL;
    kl_mutex_lock(&releases.mu);
    releases.n_left++;
    if (releases.tail)
        releases.tail->next = r;
    else
        releases.head = r;
    releases.tail = r;
    pthread_cond_signal(&releases.work);
    kl_mutex_unlock(&releases.mu);
}

void kl_release_drain(void) {
    kl_mutex_lock(&releases.mu);
    uint64_t left = releases.n_left;
    while (releases.n_run < left) kl_cond_wait(&releases.ran, &releases.mu);
    kl_mutex_unlock(&releases.mu);
}

void kl_release_forked(void) {
    releases.n_run = releases.n_left; /* the parent process runs what is left */
    releases.head = releases.tail = NULL;
    releases.started = false;
    pthread_cond_init(&releases.work, NULL);
    pthread_cond_init(&releases.ran, NULL);
}
