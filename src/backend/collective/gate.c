/* gate.c - see gate.h.
 *
 * Each process makes gates in its own part of a file that all map, where others find them by their
 * names. One word says how many exchanges the gate has let pass, and how many ranks have arrived
 * for the next one: so all see alike whether a rank withdrew before the gate opened. */
#include "backend/collective/gate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/collective/control_connect.h"
#include "base/alloc.h"

enum { GATES = 1024, CHANGES = 1 /* instead of a name */ };
static const uint64_t ENDED = UINT64_MAX;

struct kl_gate {
    _Alignas(64) _Atomic(uint64_t) name; /* 0: free */
    _Atomic(uint64_t) word; /* of the exchanges that have passed and the ranks that have arrived */
    _Atomic(int64_t)
        what[2]; /* ranks that arrive for exchange n agree on what[n % 2]; 0: none has come */
};

static struct kl_gate *shared; /* GATES of each process; NULL: none; written once */
static int self;
static int next_place; /* under the lock, as is all_used */
static bool all_used;

struct offer {
    char host[KL_HOST_BYTES];
    char file[64];
    int64_t maps;
};

/* The name of a new file of the given size, or an empty one. */
static void make_file(char *file, size_t room, size_t bytes) {
    static const char *const places[] = {"/dev/shm", "/tmp"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, room, "%s/keel-gates-XXXXXX", places[i]);
        const int fd = kl_alloc_should_fail() ? -1 : mkstemp(file);
        if (fd < 0) continue;
        const bool fits = ftruncate(fd, (off_t)bytes) == 0;
        close(fd);
        if (fits) return;
        (void)unlink(file);
    }
    file[0] = 0;
}

static void *map_file(const char *file, size_t bytes) {
    const int fd = file[0] && !kl_alloc_should_fail() ? open(file, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

int kl_gates_share(int rank, int size, kl_control_gather_fn *gather, void *arg,
                   struct kl_error **err) {
    const size_t bytes = (size_t)size * GATES * sizeof *shared;
    struct offer *all = kl_calloc((size_t)size + 1, sizeof *all), *mine = all ? &all[size] : NULL;
    void *at = NULL;
    if (!all) return kl_fail_nomem(err);
    kl_host_name(mine->host);
    if (rank == 0) make_file(mine->file, sizeof mine->file, bytes);
    int rc = gather(arg, mine, all, sizeof *mine, err);
    bool shares = !rc;
    for (int i = 0; i < size; i++) shares = shares && strcmp(all[i].host, all[0].host) == 0;
    if (shares) at = map_file(all[0].file, bytes);
    mine->maps = at != NULL;
    /* All know now who has mapped the file, and it needs its name no more. */
    if (!rc) rc = gather(arg, mine, all, sizeof *mine, err);
    if (mine->file[0]) (void)unlink(mine->file);
    for (int i = 0; i < size; i++) shares = shares && all[i].maps;
    if (at && (rc || !shares)) {
        (void)munmap(at, bytes);
        at = NULL;
    }
    shared = at;
    self = rank;
    kl_free(all);
    return rc;
}

bool kl_gates_are_shared(void) {
    return shared != NULL;
}

/* ---- gates ---- */

/* A place that was never used, or after all were, one whose gate has ended. */
static bool may_take(const struct kl_gate *g) {
    const bool was_used = atomic_load(&g->name) != 0;
    return !was_used || (all_used && atomic_load(&g->word) == ENDED);
}

struct kl_gate *kl_gate_new(uint64_t name) {
    for (int i = 0; shared && i < GATES; i++) {
        struct kl_gate *g = shared + (size_t)self * GATES + next_place;
        next_place = (next_place + 1) % GATES;
        if (next_place == 0) all_used = true;
        if (!may_take(g)) continue;
        atomic_store(&g->name, CHANGES);
        atomic_store(&g->what[0], 0);
        atomic_store(&g->what[1], 0);
        atomic_store(&g->word, 0);
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
    if (g) atomic_store(&g->word, ENDED);
}

/* ---- arriving ---- */

enum { ARRIVED_BITS = 16 };

static uint64_t n_passed(uint64_t word) {
    return word >> ARRIVED_BITS;
}

/* Where its maker has ended it, all exchanges that were to pass have passed. */
bool kl_gate_is_open(const struct kl_gate *g, uint64_t name, int64_t number) {
    const uint64_t word = atomic_load(&g->word);
    return word == ENDED || atomic_load(&g->name) != name || n_passed(word) > (uint64_t)number;
}

enum kl_gate_state kl_gate_arrive(struct kl_gate *g, uint64_t name, int size, int64_t number,
                                  int64_t what, int64_t *theirs) {
    int64_t none = 0;
    if (kl_gate_is_open(g, name, number)) return KL_GATE_OPEN;
    if (!atomic_compare_exchange_strong(&g->what[number % 2], &none, what) && none != what) {
        *theirs = none;
        return KL_GATE_UNLIKE;
    }
    uint64_t word = atomic_load(&g->word), next;
    bool last;
    do {
        last = (word & ((1u << ARRIVED_BITS) - 1)) + 1 == (uint64_t)size;
        next = last ? (n_passed(word) + 1) << ARRIVED_BITS : word + 1;
        /* Nobody looks at what passed before any more, and nobody has come for the next one. */
        if (last) atomic_store(&g->what[(number + 1) % 2], 0);
    } while (!atomic_compare_exchange_weak(&g->word, &word, next));
    return last ? KL_GATE_OPEN : KL_GATE_CLOSED;
}

bool kl_gate_withdraw(struct kl_gate *g, uint64_t name, int64_t number) {
    uint64_t word = atomic_load(&g->word);
    do {
        if (kl_gate_is_open(g, name, number) || n_passed(word) > (uint64_t)number) return false;
    } while (!atomic_compare_exchange_weak(&g->word, &word, word - 1));
    return true;
}
