/* map.c - see map.h. */
#include "api/handles/map.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/platform/random.h"
#include "base/refs.h"
#include "graph/array.h"

/* ---- SipHash-1-3 of the key string, keyed once per process ---- */
static uint64_t seed[2];

static void seed_make(void) {
    if (kl_random_bytes(seed, sizeof seed, false)) return;
    /* no random bits are available yet; an attacker who wrote the file does not know the time of
     * this call either */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    seed[0] = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uintptr_t)&t;
    seed[1] = (uint64_t)t.tv_sec * 0xff51afd7ed558ccdu ^ (uintptr_t)&seed_make;
}

static inline uint64_t rotl(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

static uint64_t hash(const char *key) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, seed_make);
    size_t n = strlen(key);
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    for (size_t at = 0; at <= n; at += 8) {
        uint64_t word = 0;
        size_t left = n - at < 8 ? n - at : 8;
        memcpy(&word, key + at, left);
        if (left < 8) word |= (uint64_t)(n & 0xff) << 56;
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- the table ---- */
static void *array_dup(const void *value) {
    return kl_array_retain((struct kl_array *)value);
}
static void array_drop(void *value) {
    kl_array_release(value);
}
static void *string_dup(const void *value) {
    return kl_strdup(value);
}
const struct kl_map_kind kl_map_of_arrays = {array_dup, array_drop};
const struct kl_map_kind kl_map_of_strings = {string_dup, kl_free};

struct kl_map *kl_map_new(const struct kl_map_kind *kind, struct kl_error **err) {
    struct kl_map *m = kl_calloc(1, sizeof *m);
    if (!m) {
        kl_fail_nomem(err);
        return NULL;
    }
    atomic_init(&m->refs, 1);
    m->kind = kind;
    return m;
}

struct kl_map *kl_map_retain(struct kl_map *m) {
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

static void content_drop(struct kl_map *m) {
    for (size_t i = 0; i < m->n; i++) {
        kl_free(m->entries[i].key);
        m->kind->drop(m->entries[i].value);
    }
    kl_free(m->entries);
    kl_free(m->slots);
    m->entries = NULL;
    m->slots = NULL;
    m->n = m->cap = m->n_slots = 0;
}

void kl_map_release(struct kl_map *m) {
    if (!m || !kl_refs_drop(&m->refs)) return;
    content_drop(m);
    kl_free(m);
}

/* The slot of key: the one of its entry, or the free slot where its entry belongs. n_slots is not
 * 0. */
static uint32_t *slot_of(const struct kl_map *m, const char *key) {
    size_t i = hash(key) & (m->n_slots - 1);
    while (m->slots[i] && strcmp(m->entries[m->slots[i] - 1].key, key) != 0)
        i = (i + 1) & (m->n_slots - 1);
    return &m->slots[i];
}

struct kl_map_entry *kl_map_find(const struct kl_map *m, const char *key) {
    uint32_t at = m->n_slots ? *slot_of(m, key) : 0;
    return at ? &m->entries[at - 1] : NULL;
}

/* Makes space for one more entry, and for an index that is at most 3/4 full with it. */
static int grow(struct kl_map *m, struct kl_error **err) {
    if (m->n == m->cap) {
        if (m->n >= UINT32_MAX / 4) return kl_fail(err, KL_ELIMIT, "a map takes 2^30 entries");
        size_t cap = m->cap ? 2 * m->cap : 8;
        struct kl_map_entry *entries = kl_realloc(m->entries, cap * sizeof *entries);
        if (!entries) return kl_fail_nomem(err);
        m->entries = entries;
        m->cap = cap;
    }
    if (4 * (m->n + 1) > 3 * m->n_slots) {
        size_t n_slots = m->n_slots ? 2 * m->n_slots : 16;
        uint32_t *slots = kl_calloc(n_slots, sizeof *slots);
        if (!slots) return kl_fail_nomem(err);
        kl_free(m->slots);
        m->slots = slots;
        m->n_slots = n_slots;
        for (size_t i = 0; i < m->n; i++) *slot_of(m, m->entries[i].key) = (uint32_t)(i + 1);
    }
    return 0;
}

int kl_map_insert(struct kl_map *m, const char *key, const void *value, struct kl_error **err) {
    struct kl_map_entry *there = kl_map_find(m, key);
    if (!there) KL_TRY(grow(m, err));
    char *own_key = there ? NULL : kl_strdup(key);
    void *own_value = m->kind->dup(value);
    if (!own_value || (!there && !own_key)) {
        kl_free(own_key);
        if (own_value) m->kind->drop(own_value);
        return kl_fail_nomem(err);
    }
    if (there) {
        m->kind->drop(there->value);
        there->value = own_value;
        return 0;
    }
    uint32_t *slot = slot_of(m, key);
    m->entries[m->n] = (struct kl_map_entry){own_key, own_value};
    *slot = (uint32_t)++m->n;
    return 0;
}

void kl_map_move(struct kl_map *m, struct kl_map *from) {
    struct kl_map_entry *entries = from->entries;
    uint32_t *slots = from->slots;
    size_t n = from->n, cap = from->cap, n_slots = from->n_slots;
    from->entries = NULL;
    from->slots = NULL;
    from->n = from->cap = from->n_slots = 0;
    content_drop(m);
    m->entries = entries;
    m->slots = slots;
    m->n = n;
    m->cap = cap;
    m->n_slots = n_slots;
}

int kl_map_copy(struct kl_map *m, const struct kl_map *src, struct kl_error **err) {
    if (m == src) return 0;
    struct kl_map *copy = kl_map_new(m->kind, err);
    if (!copy) return KL_ENOMEM;
    int rc = 0;
    for (size_t i = 0; i < src->n && !rc; i++)
        rc = kl_map_insert(copy, src->entries[i].key, src->entries[i].value, err);
    if (!rc) kl_map_move(m, copy);
    kl_map_release(copy);
    return rc;
}
