/* gate.c - see gate.h.
 *
 * Each process makes gates in its own part of a file that all map, where others find them by their
 * names. A gate counts arrivals for each of a few exchanges that follow each other, so that ranks
 * need not keep step. A count never falls below that of an open gate, so all see alike whether a
 * rank withdrew before it opened. */
#include "backend/collective/gate.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
    GATES = 1024, /* of a process */
    CHANGES = 1,  /* instead of a name */
    /* One rank may be KL_GATE_AHEAD exchanges ahead of the gate, another one as many before it. */
    WHATS = 2 * KL_GATE_AHEAD,
};

struct kl_gate {
    _Alignas(64) _Atomic(uint64_t) name; /* 0: it was never used */
    _Atomic(bool) ended;
    _Atomic(int64_t)
        count[KL_GATE_AHEAD]; /* arrivals for exchange n, and those KL_GATE_AHEAD apart */
    _Atomic(int64_t) what[KL_GATE_RANKS][WHATS];
};

static struct kl_gate *shared; /* GATES of each process; NULL: none; written once */
static size_t bytes;
static char made[KL_GATES_NAME]; /* the file that this process has made; may be empty */
static int self;
static int next_place; /* under the lock, as is all_used */
static bool all_used;

static size_t bytes_for(int size) {
    return (size_t)size * GATES * sizeof *shared;
}

/* Writes zeros, so that the memory is there: where it is not, an access would end the process. */
static bool fill(int fd, size_t n) {
    static const char zeros[4096];
    for (size_t at = 0; at < n; at += sizeof zeros)
        if (write(fd, zeros, sizeof zeros) != (ssize_t)sizeof zeros) return false;
    return true;
}

void kl_gates_make(char file[KL_GATES_NAME], int size) {
    static const char *const places[] = {"/dev/shm", "/tmp"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, KL_GATES_NAME, "%s/keel-gates-XXXXXX", places[i]);
        const int fd = kl_alloc_should_fail() ? -1 : mkstemp(file);
        if (fd < 0) continue;
        const bool fits = fill(fd, bytes_for(size));
        close(fd);
        strcpy(made, file);
        if (fits) return;
        (void)unlink(file);
    }
    file[0] = made[0] = 0;
}

void kl_gates_map(const char *file, int rank, int size) {
    const int fd = file[0] && !kl_alloc_should_fail() ? open(file, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    bytes = bytes_for(size);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    shared = at == MAP_FAILED ? NULL : at;
    self = rank;
}

void kl_gates_agree(bool all_have) {
    if (made[0]) (void)unlink(made);
    made[0] = 0;
    if (all_have || !shared) return;
    (void)munmap(shared, bytes);
    shared = NULL;
}

bool kl_gates_are_shared(void) {
    return shared != NULL;
}

/* ---- gates ---- */

/* A place that was never used, or after all were, one whose gate has ended. */
static bool may_take(const struct kl_gate *g) {
    const bool was_used = atomic_load(&g->name) != 0;
    return !was_used || (all_used && atomic_load(&g->ended));
}

struct kl_gate *kl_gate_new(uint64_t name) {
    for (int i = 0; shared && i < GATES; i++) {
        struct kl_gate *g = shared + (size_t)self * GATES + next_place;
        next_place = (next_place + 1) % GATES;
        if (next_place == 0) all_used = true;
        if (!may_take(g)) continue;
        atomic_store(&g->name, CHANGES);
        for (int k = 0; k < KL_GATE_AHEAD; k++) atomic_store(&g->count[k], 0);
        atomic_store(&g->ended, false);
        atomic_store(&g->name, name);
        return g;
    }
    return NULL;
}

struct kl_gate *kl_gate_find(int process, uint64_t name) {
    struct kl_gate *of_it = shared + (size_t)process * GATES;
    for (int i = 0; i < GATES; i++) {
        const uint64_t other = atomic_load(&of_it[i].name);
        if (other == name) return &of_it[i];
        if (!other) return NULL; /* the places after it were never used */
    }
    return NULL;
}

void kl_gate_end(struct kl_gate *g) {
    if (g) atomic_store(&g->ended, true);
}

/* ---- arriving ---- */

void kl_gate_arrive(struct kl_gate *g, int member, int64_t number, int64_t what) {
    atomic_store(&g->what[member][number % WHATS], what);
    atomic_fetch_add(&g->count[number % KL_GATE_AHEAD], 1);
}

/* Where its maker has ended it, all exchanges that were to pass have passed. */
static bool is_over(const struct kl_gate *g, uint64_t name) {
    return atomic_load(&g->ended) || atomic_load(&g->name) != name;
}

/* The count at which the gate is open for exchange `number`. */
static int64_t needed(int size, int64_t number) {
    return size * (number / KL_GATE_AHEAD + 1);
}

bool kl_gate_is_open(const struct kl_gate *g, uint64_t name, int size, int64_t number) {
    return atomic_load(&g->count[number % KL_GATE_AHEAD]) >= needed(size, number) ||
           is_over(g, name);
}

bool kl_gate_withdraw(struct kl_gate *g, uint64_t name, int size, int64_t number) {
    _Atomic(int64_t) *count = &g->count[number % KL_GATE_AHEAD];
    int64_t n = atomic_load(count);
    do {
        if (n >= needed(size, number) || is_over(g, name)) return false;
    } while (!atomic_compare_exchange_weak(count, &n, n - 1));
    return true;
}

bool kl_gate_is_unlike(const struct kl_gate *g, uint64_t name, int size, int64_t number,
                       int64_t what, int64_t *theirs) {
    for (int i = 0; i < size; i++) {
        *theirs = atomic_load(&g->what[i][number % WHATS]);
        if (*theirs != what) return !is_over(g, name);
    }
    return false;
}
