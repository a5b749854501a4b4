/* metal_memory.c - blocks of memory that host and device share. Reading and writing are copies by
 * the processor; nothing moves between host and device. */
#include <string.h>

#include "backend/metal/metal_internal.h"
#include "base/alloc.h"

int kl_metal_usable(struct kl_metal *d, struct kl_error **err) {
    if (atomic_load_explicit(&d->forked, memory_order_relaxed))
        return kl_fail(
            err, KL_EDEVICE,
            "device '%s' was opened before this process forked; it cannot be used in the child",
            d->name);
    if (kl_metal_is_lost(d))
        return kl_fail(err, KL_EDEVICELOST, "device '%s' is lost: %s", d->name, d->why);
    return KL_OK;
}

/* ---- the table ---- */

/* How many blocks of the table begin at the address or below: only the last of these may contain
 * the address. The caller holds blocks_mu. */
static int n_below(const struct kl_metal *d, const char *address) {
    int low = 0, high = d->n_blocks;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (d->blocks[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int kl_metal_place(struct kl_metal *d, const void *address, kl_metal_id *buffer, size_t *offset,
                   struct kl_error **err) {
    kl_mutex_lock(&d->blocks_mu);
    int n = n_below(d, address);
    const struct kl_metal_memory *b = n > 0 ? &d->blocks[n - 1] : NULL;
    bool inside = b && (size_t)((const char *)address - b->base) <= b->bytes;
    if (inside) {
        *buffer = b->buffer;
        *offset = (size_t)((const char *)address - b->base);
    }
    kl_mutex_unlock(&d->blocks_mu);
    if (inside) return KL_OK;
    return kl_fail(err, KL_EINTERNAL, "%p is no address on device '%s'", address, d->name);
}

/* The caller holds blocks_mu. */
static int insert(struct kl_metal *d, const struct kl_metal_memory *b) {
    if (d->n_blocks == d->blocks_room) {
        int room = d->blocks_room ? 2 * d->blocks_room : 64;
        struct kl_metal_memory *more = kl_realloc(d->blocks, (size_t)room * sizeof *more);
        if (!more) return KL_ENOMEM;
        d->blocks = more;
        d->blocks_room = room;
    }
    int i = n_below(d, b->base);
    memmove(&d->blocks[i + 1], &d->blocks[i], (size_t)(d->n_blocks - i) * sizeof *d->blocks);
    d->blocks[i] = *b;
    d->n_blocks++;
    return KL_OK;
}

/* The caller holds blocks_mu. */
static struct kl_metal_memory *find(struct kl_metal *d, const char *base) {
    int n = n_below(d, base);
    kl_assert(n > 0 && d->blocks[n - 1].base == base);
    return &d->blocks[n - 1];
}

/* The caller holds blocks_mu. */
static struct kl_metal_memory take_out(struct kl_metal *d, struct kl_metal_memory *b) {
    struct kl_metal_memory out = *b;
    d->n_blocks--;
    memmove(b, b + 1, (size_t)(&d->blocks[d->n_blocks] - b) * sizeof *b);
    return out;
}

/* ---- blocks ---- */

/* Notes bytes as used; false when they are more than the device recommends to use. Beyond that
 * Metal goes on, and the system begins to move pages out. */
static bool account(struct kl_metal *d, size_t bytes) {
    kl_mutex_lock(&d->blocks_mu);
    bool fits = bytes <= d->working_set_bytes && d->used_bytes <= d->working_set_bytes - bytes;
    if (fits) d->used_bytes += bytes;
    kl_mutex_unlock(&d->blocks_mu);
    return fits;
}

static void unaccount(struct kl_metal *d, size_t bytes) {
    kl_mutex_lock(&d->blocks_mu);
    d->used_bytes -= bytes;
    kl_mutex_unlock(&d->blocks_mu);
}

static void release_buffer(kl_metal_id buffer) {
    void *pool = kl_metal_pool_push();
    kl_metal_release(buffer);
    kl_metal_pool_pop(pool);
}

/* A buffer of Metal; over: the memory that it is made over, or NULL. NULL: there is none. */
static kl_metal_id new_buffer(struct kl_metal *d, size_t bytes, void *over) {
    const kl_metal_uint options = KL_METAL_STORAGE_SHARED_UNTRACKED;
    void *pool = kl_metal_pool_push();
    kl_metal_id b = !pool  ? NULL
                    : over ? kl_metal_new_buffer_over(d->device, over, bytes, options, NULL)
                           : kl_metal_new_buffer(d->device, bytes, options);
    kl_metal_pool_pop(pool);
    return b;
}

int kl_metal_alloc(struct kl_driver *driver, size_t bytes, void **ptr, struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    if (bytes == 0) bytes = 1;
    if (kl_alloc_should_fail())
        return kl_fail(err, KL_ENOMEM, "out of memory on device '%s': %zu bytes wanted", d->name,
                       bytes);
    if (bytes >= d->max_buffer_bytes)
        return kl_fail(err, KL_ENOMEM,
                       "out of memory on device '%s': %zu bytes wanted, its largest block is %zu",
                       d->name, bytes, d->max_buffer_bytes - 1);
    if (!account(d, bytes))
        return kl_fail(err, KL_ENOMEM,
                       "out of memory on device '%s': %zu bytes wanted, it has %zu in all", d->name,
                       bytes, d->working_set_bytes);
    struct kl_metal_memory b = {.bytes = bytes};
    int rc;
    /* The end address must belong to no other block either. */
    if (!(b.buffer = new_buffer(d, bytes + 1, NULL))) {
        rc = kl_fail(err, KL_ENOMEM,
                     "out of memory on device '%s': %zu bytes wanted; newBufferWithLength gave nil",
                     d->name, bytes);
        goto fail_buffer;
    }
    b.base = kl_metal_contents(b.buffer);
    kl_mutex_lock(&d->blocks_mu);
    rc = insert(d, &b);
    kl_mutex_unlock(&d->blocks_mu);
    if (rc) {
        kl_fail_nomem(err);
        goto fail_insert;
    }
    *ptr = b.base;
    return KL_OK;
fail_insert:
    release_buffer(b.buffer);
fail_buffer:
    unaccount(d, bytes);
    return rc;
}

void kl_metal_free(struct kl_driver *driver, void *ptr, size_t bytes) {
    struct kl_metal *d = kl_metal_of(driver);
    /* In the child of a fork the memory is the parent's. */
    if (!ptr || atomic_load(&d->forked)) return;
    kl_mutex_lock(&d->blocks_mu);
    struct kl_metal_memory b = take_out(d, find(d, ptr));
    d->used_bytes -= b.bytes;
    kl_mutex_unlock(&d->blocks_mu);
    release_buffer(b.buffer);
}

/* ---- memory that is shared with the host ---- */

/* Makes a buffer over a block of the host, which commands only read. Metal takes whole pages. A
 * race may give a block twice. */
static int give(struct kl_metal *d, char *base, size_t bytes, struct kl_error **err) {
    const size_t page = d->page_bytes;
    if (bytes == 0 || (uintptr_t)base % page || bytes % page) return KL_EUNSUPPORTED;
    if (kl_alloc_should_fail()) return kl_fail_nomem(err);
    struct kl_metal_memory given = {.base = base, .bytes = bytes - 1, .n_given = 1};
    if (!(given.buffer = new_buffer(d, bytes, base))) return KL_EUNSUPPORTED;
    kl_mutex_lock(&d->blocks_mu);
    int n = n_below(d, base + bytes - 1), rc = KL_OK;
    struct kl_metal_memory *b = n > 0 ? &d->blocks[n - 1] : NULL;
    bool same = b && b->base == base && b->bytes == bytes - 1;
    if (same)
        b->n_given++;
    else if (b && b->base + b->bytes >= base)
        rc = KL_EUNSUPPORTED;
    else if (insert(d, &given))
        rc = kl_fail_nomem(err);
    kl_mutex_unlock(&d->blocks_mu);
    if (same || rc) release_buffer(given.buffer);
    return rc;
}

int kl_metal_share(struct kl_driver *driver, void *ptr, size_t bytes, bool mine,
                   struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    return mine ? KL_OK : give(d, ptr, bytes, err);
}

void kl_metal_unshare(struct kl_driver *driver, void *ptr, size_t bytes, bool mine) {
    struct kl_metal *d = kl_metal_of(driver);
    if (mine || atomic_load(&d->forked)) return;
    kl_metal_id buffer = NULL;
    kl_mutex_lock(&d->blocks_mu);
    struct kl_metal_memory *b = find(d, ptr);
    kl_assert(b->n_given > 0);
    if (--b->n_given == 0) buffer = take_out(d, b).buffer;
    kl_mutex_unlock(&d->blocks_mu);
    if (buffer) release_buffer(buffer);
}

/* ---- the host's access ---- */

int kl_metal_read(struct kl_driver *driver, const void *ptr, size_t offset, void *dst, size_t n,
                  struct kl_error **err) {
    KL_TRY(kl_metal_usable(kl_metal_of(driver), err));
    if (n > 0) memcpy(dst, (const char *)ptr + offset, n);
    return KL_OK;
}

int kl_metal_write(struct kl_driver *driver, void *ptr, size_t offset, const void *src, size_t n,
                   struct kl_error **err) {
    KL_TRY(kl_metal_usable(kl_metal_of(driver), err));
    if (n > 0) memcpy((char *)ptr + offset, src, n);
    return KL_OK;
}

/* ---- fault words ---- */

enum { WORDS_BYTES = KL_WORDS * sizeof(uint32_t) };
_Static_assert(KL_WORD_CLEAR == 0xFFFFFFFFu, "words are cleared byte by byte");

int kl_metal_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    KL_TRY(kl_metal_alloc(d, WORDS_BYTES, &w->device, err));
    w->host = memset(w->device, 0xFF, WORDS_BYTES);
    return KL_OK;
}

void kl_metal_words_clear(struct kl_driver *d, struct kl_fault_words *w) {
    if (!atomic_load(&kl_metal_of(d)->forked)) memset(w->host, 0xFF, WORDS_BYTES);
}
