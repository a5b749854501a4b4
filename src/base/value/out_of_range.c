/* out_of_range.c - see out_of_range.h. */
#include "base/value/out_of_range.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static bool zero;        /* written once */
static char unknown[33]; /* the beginning of a value without a meaning; written once */
static _Atomic(uint64_t) n_met;
static _Atomic(struct kl_error *) first; /* owned; of the operation that was counted first */

static void ask(void) {
    const char *e = getenv("KEEL_OUT_OF_RANGE");
    if (!e || !*e || strcmp(e, "error") == 0) return;
    zero = strcmp(e, "zero") == 0;
    if (!zero) strncpy(unknown, e, sizeof unknown - 1);
}

bool kl_out_of_range_zero(void) {
    pthread_once(&asked, ask);
    return zero;
}

const char *kl_out_of_range_unknown(void) {
    pthread_once(&asked, ask);
    return unknown[0] ? unknown : NULL;
}

bool kl_out_of_range_count(void) {
    return atomic_fetch_add(&n_met, 1) == 0;
}

uint64_t kl_out_of_range_n(void) {
    return atomic_load(&n_met);
}

/* Runs at exit. A child that met some of its own registers it once more, so the number is taken. */
static void report(void) {
    const uint64_t n = atomic_exchange(&n_met, 0);
    struct kl_error *e = atomic_load(&first);
    if (n > 0)
        fprintf(stderr,
                "keel: %" PRIu64 " operation%s met an index out of range and went on "
                "(KEEL_OUT_OF_RANGE=zero); the first: %s\n",
                n, n == 1 ? "" : "s", e ? e->message : "its message was not made yet");
}

void kl_out_of_range_first(struct kl_error *e) {
    kl_error_release(atomic_exchange(&first, e));
    atexit(report);
}

void kl_out_of_range_fork_child(void) {
    atomic_store(&n_met, 0);
    kl_error_release(atomic_exchange(&first, NULL));
}
