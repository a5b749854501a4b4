/* spare.c - see spare.h. A thread has, of each size, a batch that it takes from and adds to, and
 * perhaps a full one. So a thread that only frees gives a batch away when two are full, one that
 * only takes gets one when it has none, and one that does both by turns needs nobody. */
#include "base/spare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/platform/memory.h"

/* The first bytes of a spare block. */
struct spare {
    struct spare *next;
};

struct own {
    struct {
        struct spare *first, *full; /* full: a whole batch, or NULL */
        int n;                      /* blocks in the list `first` */
    } size[KL_SPARE_SIZES];
};

/* Batches that no thread has. `n` is a hint: it is changed after a place is filled or emptied. */
static struct {
    _Alignas(64) _Atomic(int) n;
    _Atomic(struct spare *) batch[KL_SPARE_BATCHES];
} shared[KL_SPARE_SIZES];

static __thread struct own *mine;
static __thread bool ended; /* the thread is about to exit, and keeps nothing more */
static pthread_key_t key;   /* of `mine`, for its destructor */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_ok;

/* The bytes of a block that malloc needs itself: with them blocks are multiples of a step. */
enum { TAKEN = 8 };

/* The number of the smallest size that has room for these bytes; KL_SPARE_SIZES: none has. */
static size_t size_of(size_t bytes) {
    if (bytes > (size_t)KL_SPARE_SIZES * KL_SPARE_STEP - TAKEN) return KL_SPARE_SIZES;
    return (bytes + TAKEN + KL_SPARE_STEP - 1) / KL_SPARE_STEP - 1;
}

static int batch_of(size_t size) {
    return KL_SPARE_BATCH_BYTES / (KL_SPARE_STEP * ((int)size + 1));
}

static void free_list(struct spare *s) {
    while (s) {
        struct spare *next = s->next;
        free(s);
        s = next;
    }
}

/* ---- batches that no thread has ---- */

static struct spare *shared_take(size_t size) {
    int n = atomic_load_explicit(&shared[size].n, memory_order_relaxed);
    if (n <= 0) return NULL;
    for (int i = 0; i < KL_SPARE_BATCHES; i++) {
        _Atomic(struct spare *) *place = &shared[size].batch[(n - 1 - i) & (KL_SPARE_BATCHES - 1)];
        if (!atomic_load_explicit(place, memory_order_relaxed)) continue;
        struct spare *batch = atomic_exchange_explicit(place, NULL, memory_order_acquire);
        if (!batch) continue;
        atomic_fetch_sub_explicit(&shared[size].n, 1, memory_order_relaxed);
        return batch;
    }
    /* A fork may have copied a count that was about to be changed. */
    atomic_compare_exchange_strong(&shared[size].n, &n, 0);
    return NULL;
}

/* Takes a whole batch. */
static void shared_give(size_t size, struct spare *batch) {
    const int n = atomic_load_explicit(&shared[size].n, memory_order_relaxed);
    for (int i = 0; i < KL_SPARE_BATCHES && n < KL_SPARE_BATCHES; i++) {
        _Atomic(struct spare *) *place = &shared[size].batch[(n + i) & (KL_SPARE_BATCHES - 1)];
        struct spare *none = NULL;
        if (!atomic_compare_exchange_strong_explicit(place, &none, batch, memory_order_release,
                                                     memory_order_relaxed))
            continue;
        atomic_fetch_add_explicit(&shared[size].n, 1, memory_order_relaxed);
        return;
    }
    free_list(batch);
}

/* ---- of a thread ---- */

static void drop_own(struct own *own) {
    for (size_t i = 0; i < KL_SPARE_SIZES; i++) {
        free_list(own->size[i].first);
        free_list(own->size[i].full);
    }
    *own = (struct own){0};
}

static void thread_ends(void *arg) {
    ended = true;
    mine = NULL;
    drop_own(arg);
    free(arg);
}

static void make_key(void) {
    key_ok = pthread_key_create(&key, thread_ends) == 0;
}

static struct own *own_of_thread(void) {
    if (mine || ended) return mine;
    pthread_once(&key_once, make_key);
    struct own *own = key_ok ? calloc(1, sizeof *own) : NULL;
    if (own && pthread_setspecific(key, own)) {
        free(own);
        own = NULL;
    }
    return mine = own;
}

size_t kl_spare_room(size_t bytes) {
    const size_t size = size_of(bytes);
    return size < KL_SPARE_SIZES ? (size + 1) * KL_SPARE_STEP - TAKEN : bytes;
}

void *kl_spare_take(size_t bytes) {
    const size_t size = size_of(bytes);
    if (size >= KL_SPARE_SIZES) return NULL;
    struct own *own = own_of_thread();
    if (!own) return NULL;
    if (!own->size[size].first) {
        own->size[size].first = own->size[size].full;
        own->size[size].full = NULL;
        if (!own->size[size].first && !(own->size[size].first = shared_take(size))) return NULL;
        own->size[size].n = batch_of(size);
    }
    struct spare *s = own->size[size].first;
    own->size[size].first = s->next;
    own->size[size].n--;
    return s;
}

bool kl_spare_give(void *p) {
    /* A block is of the largest size that it can serve. 0: the C library does not tell. */
    const size_t bytes = kl_heap_block_bytes(p), size = (bytes + TAKEN) / KL_SPARE_STEP - 1;
    if (size >= KL_SPARE_SIZES) return false;
    struct own *own = own_of_thread();
    if (!own) return false;
    if (own->size[size].n == batch_of(size)) {
        if (own->size[size].full) shared_give(size, own->size[size].full);
        own->size[size].full = own->size[size].first;
        own->size[size].first = NULL;
        own->size[size].n = 0;
    }
    struct spare *s = p;
    s->next = own->size[size].first;
    own->size[size].first = s;
    own->size[size].n++;
    return true;
}

void kl_spare_drop(void) {
    struct spare *batch;
    for (size_t i = 0; i < KL_SPARE_SIZES; i++)
        while ((batch = shared_take(i))) free_list(batch);
    if (mine) drop_own(mine);
}
