/* thread.c - the parts of pthread that the library needs. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/platform/clock.h"
#include "base/platform/processors.h"

#ifdef KL_DEBUG
void kl_assert_failed(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
#endif

/* ---- thread numbers ---- */

struct at_exit {
    void (*fn)(void *);
    void *arg;
    struct at_exit *next;
};
struct self {
    uint64_t id;
    struct kl_link link;     /* in living.list; guarded by living.mu */
    struct at_exit *at_exit; /* run in reverse order */
};

static struct {
    struct kl_mutex mu;  /* leaf */
    struct kl_list list; /* of self.link */
} living = {.mu = KL_MUTEX_INIT, .list = {{&living.list.head, &living.list.head}}};

static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;
static bool self_key_ok;
static __thread uint64_t self_id; /* the id in self_key's value, readable without a call */

static void self_ended(void *arg) {
    struct self *self = arg;
    while (self->at_exit) {
        struct at_exit *a = self->at_exit;
        self->at_exit = a->next;
        a->fn(a->arg);
        kl_free(a);
    }
    self_id = 0;
    kl_mutex_lock(&living.mu);
    kl_list_remove(&self->link);
    kl_mutex_unlock(&living.mu);
    kl_free(self);
}

static void make_key(void) {
    self_key_ok = pthread_key_create(&self_key, self_ended) == 0;
}

static struct self *self_get(void) {
    static _Atomic(uint64_t) next_id = 1;
    pthread_once(&self_once, make_key);
    if (!self_key_ok) return NULL;
    struct self *self = pthread_getspecific(self_key);
    if (self) return self;
    self = kl_calloc(1, sizeof *self);
    if (!self || pthread_setspecific(self_key, self)) {
        kl_free(self);
        return NULL;
    }
    self->id = atomic_fetch_add(&next_id, 1);
    kl_mutex_lock(&living.mu);
    kl_list_push(&living.list, &self->link);
    kl_mutex_unlock(&living.mu);
    self_id = self->id;
    return self;
}

uint64_t kl_thread_id(void) {
    if (self_id) return self_id;
    struct self *self = self_get();
    return self ? self->id : 0;
}

bool kl_thread_alive(uint64_t id) {
    bool alive = false;
    kl_mutex_lock(&living.mu);
    for (struct kl_link *n = living.list.head.next; n != &living.list.head && !alive; n = n->next)
        alive = kl_container(n, struct self, link)->id == id;
    kl_mutex_unlock(&living.mu);
    return alive;
}

struct kl_mutex *kl_threads_mutex(void) {
    return &living.mu;
}

int kl_thread_at_exit(void (*fn)(void *), void *arg) {
    struct self *self = self_get();
    struct at_exit *a = self ? kl_malloc(sizeof *a) : NULL;
    if (!a) return KL_ENOMEM;
    *a = (struct at_exit){fn, arg, self->at_exit};
    self->at_exit = a;
    return KL_OK;
}

struct start {
    void (*fn)(void *);
    void *arg;
    char name[16]; /* the system keeps no more */
};

static _Atomic(int) n_starting; /* threads whose struct start is not freed yet */

static void *thread_main(void *arg) {
    struct start s = *(struct start *)arg;
    kl_free(arg);
    atomic_fetch_sub(&n_starting, 1);
    kl_thread_name_self(s.name);
    s.fn(s.arg);
    return NULL;
}

int kl_n_processors(void) {
    return kl_processors_allowed();
}

int kl_thread_start(void (*fn)(void *), void *arg, const char *name) {
    struct start *s = kl_malloc(sizeof *s);
    if (!s) return KL_ENOMEM;
    s->fn = fn;
    s->arg = arg;
    snprintf(s->name, sizeof s->name, "%s", name);
    pthread_attr_t attr;
    pthread_t id;
    int rc = kl_alloc_should_fail() ? -1 : pthread_attr_init(&attr);
    if (rc) goto fail;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* Signals are blocked, because the user's handlers must run on the user's threads. */
    sigset_t all, old;
    atomic_fetch_add(&n_starting, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&id, &attr, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc) {
        atomic_fetch_sub(&n_starting, 1);
        goto fail;
    }
    return KL_OK;
fail:
    kl_free(s);
    return KL_ENOMEM;
}

#ifdef KL_TEST_HOOKS
void kl_threads_until_begun(void) {
    while (atomic_load(&n_starting) > 0) sched_yield();
}
#endif

/* ---- mutex ---- */

void kl_mutex_init(struct kl_mutex *mu) {
    mu->m = (pthread_mutex_t)KL_PTHREAD_MUTEX_INIT;
#ifdef KL_DEBUG
    atomic_init(&mu->holder, 0);
#endif
}

void kl_mutex_deinit(struct kl_mutex *mu) {
    pthread_mutex_destroy(&mu->m);
}

#ifdef KL_DEBUG
/* An address in thread-local storage: unique among living threads, and it needs no allocation. */
static uint64_t holder_mark(void) {
    static __thread char mark;
    return (uint64_t)(uintptr_t)&mark;
}
#endif

void kl_mutex_lock(struct kl_mutex *mu) {
    pthread_mutex_lock(&mu->m);
#ifdef KL_DEBUG
    atomic_store_explicit(&mu->holder, holder_mark(), memory_order_relaxed);
#endif
}

void kl_mutex_unlock(struct kl_mutex *mu) {
#ifdef KL_DEBUG
    kl_assert(kl_mutex_held(mu));
    atomic_store_explicit(&mu->holder, 0, memory_order_relaxed);
#endif
    pthread_mutex_unlock(&mu->m);
}

void kl_cond_wait(pthread_cond_t *c, struct kl_mutex *mu) {
#ifdef KL_DEBUG
    atomic_store_explicit(&mu->holder, 0, memory_order_relaxed);
#endif
    pthread_cond_wait(c, &mu->m);
#ifdef KL_DEBUG
    atomic_store_explicit(&mu->holder, holder_mark(), memory_order_relaxed);
#endif
}

int kl_cond_wait_until(pthread_cond_t *c, struct kl_mutex *mu, int64_t until_ns) {
#ifdef KL_DEBUG
    atomic_store_explicit(&mu->holder, 0, memory_order_relaxed);
#endif
    const int rc = kl_cond_until(c, &mu->m, until_ns);
#ifdef KL_DEBUG
    atomic_store_explicit(&mu->holder, holder_mark(), memory_order_relaxed);
#endif
    return rc;
}

bool kl_mutex_held(struct kl_mutex *mu) {
#ifdef KL_DEBUG
    return atomic_load_explicit(&mu->holder, memory_order_relaxed) == holder_mark();
#else
    (void)mu;
    return true;
#endif
}

/* ---- parker ---- */

void kl_parker_init(struct kl_parker *p) {
    pthread_mutex_init(&p->m, NULL);
    kl_cond_init_clock(&p->c);
    p->set = false;
}

void kl_parker_deinit(struct kl_parker *p) {
    pthread_cond_destroy(&p->c);
    pthread_mutex_destroy(&p->m);
}

void kl_parker_set(struct kl_parker *p) {
    /* The signal is sent inside the lock: the sleeper owns the memory and may free it as soon as
     * the lock is open. */
    pthread_mutex_lock(&p->m);
    p->set = true;
    pthread_cond_signal(&p->c);
    pthread_mutex_unlock(&p->m);
}

void kl_parker_wait(struct kl_parker *p) {
    pthread_mutex_lock(&p->m);
    while (!p->set) pthread_cond_wait(&p->c, &p->m);
    pthread_mutex_unlock(&p->m);
}

bool kl_parker_wait_ms(struct kl_parker *p, int ms) {
    const int64_t until = kl_clock_ns() + ms * INT64_C(1000000);
    pthread_mutex_lock(&p->m);
    int rc = 0;
    while (!p->set && !rc) rc = kl_cond_until(&p->c, &p->m, until);
    bool set = p->set;
    pthread_mutex_unlock(&p->m);
    return set;
}
