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

int kl_metal_place(struct kl_metal *d, const void *address, kl_metal_id *buffer, size_t *offset,
                   struct kl_error **err) {
    if (kl_places_find(&d->places, address, buffer, offset)) return KL_OK;
    return kl_fail(err, KL_EINTERNAL, "%p is no address on device '%s'", address, d->name);
}

/* ---- blocks ---- */

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
    /* Beyond what the device recommends Metal goes on, and the system begins to move pages out. */
    if (!kl_places_account(&d->places, bytes, d->working_set_bytes))
        return kl_fail(err, KL_ENOMEM,
                       "out of memory on device '%s': %zu bytes wanted, it has %zu in all", d->name,
                       bytes, d->working_set_bytes);
    struct kl_place b = {.bytes = bytes};
    int rc;
    /* The end address must belong to no other block either. */
    if (!(b.object = new_buffer(d, bytes + 1, NULL))) {
        rc = kl_fail(err, KL_ENOMEM,
                     "out of memory on device '%s': %zu bytes wanted; newBufferWithLength gave nil",
                     d->name, bytes);
        goto fail_buffer;
    }
    b.base = kl_metal_contents(b.object);
    if ((rc = kl_places_add(&d->places, &b, err))) goto fail_add;
    *ptr = b.base;
    return KL_OK;
fail_add:
    release_buffer(b.object);
fail_buffer:
    kl_places_unaccount(&d->places, bytes);
    return rc;
}

void kl_metal_free(struct kl_driver *driver, void *ptr, size_t bytes) {
    struct kl_metal *d = kl_metal_of(driver);
    /* In the child of a fork the memory is the parent's. */
    if (!ptr || atomic_load(&d->forked)) return;
    release_buffer(kl_places_remove(&d->places, ptr).object);
}

/* ---- memory that is shared with the host ---- */

/* Makes a buffer over a block of the host, which commands only read. Metal takes whole pages. A
 * race may give a block twice. */
static int give(struct kl_metal *d, char *base, size_t bytes, struct kl_error **err) {
    const size_t page = d->page_bytes;
    if (bytes == 0 || (uintptr_t)base % page || bytes % page) return KL_EUNSUPPORTED;
    if (kl_alloc_should_fail()) return kl_fail_nomem(err);
    bool same = false;
    struct kl_place given = {.base = base, .bytes = bytes - 1, .n_given = 1};
    if (!(given.object = new_buffer(d, bytes, base))) return KL_EUNSUPPORTED;
    int rc = kl_places_give(&d->places, &given, base + bytes - 1, &same, err);
    if (same || rc) release_buffer(given.object);
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
    kl_metal_id buffer = kl_places_take_back(&d->places, ptr);
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
