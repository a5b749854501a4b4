/* exit_gate.c - see exit_gate.h. */
#include "base/exit_gate.h"

#include <unistd.h>

#include "base/fork_locks.h"

void kl_exit_gate_open(struct kl_exit_gate *g) {
    g->pid = getpid();
    kl_fork_lock_add(&g->mu);
}

static bool enter(struct kl_exit_gate *g, bool waits) {
    kl_mutex_lock(&g->mu);
    const bool never = !waits || (g->closed && pthread_equal(g->closer, pthread_self()));
    while (g->closed && !never) kl_cond_wait(&g->idle, &g->mu);
    const bool entered = !g->closed;
    g->inside += entered;
    kl_mutex_unlock(&g->mu);
    return entered;
}

bool kl_exit_gate_enter(struct kl_exit_gate *g) {
    return enter(g, true);
}

bool kl_exit_gate_try(struct kl_exit_gate *g) {
    return enter(g, false);
}

void kl_exit_gate_leave(struct kl_exit_gate *g) {
    kl_mutex_lock(&g->mu);
    if (--g->inside == 0) pthread_cond_broadcast(&g->idle);
    kl_mutex_unlock(&g->mu);
}

bool kl_exit_gate_close(struct kl_exit_gate *g) {
    if (getpid() != g->pid) return false;
    kl_mutex_lock(&g->mu);
    g->closed = true;
    g->closer = pthread_self();
    while (g->inside) kl_cond_wait(&g->idle, &g->mu);
    kl_mutex_unlock(&g->mu);
    return true;
}
