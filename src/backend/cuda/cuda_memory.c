/* cuda_memory.c - memory of the device, copies to and from the host, fault words. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

enum { DIRECT_BELOW = 64 << 10, SMALLEST_PIECE = 256 << 10 };

int kl_cuda_alloc(struct kl_cuda *d, size_t bytes, kl_cuda_address *out, struct kl_error **err) {
    int result = kl_alloc_should_fail() ? KL_CU_OUT_OF_MEMORY : d->api->MemAlloc(out, bytes);
    if (result == KL_CU_OUT_OF_MEMORY)
        return kl_fail(err, KL_ENOMEM, "out of memory on device '%s': %zu bytes wanted", d->name,
                       bytes);
    return kl_cuda_check(d, err, "cuMemAlloc", result);
}

int kl_cuda_alloc_pinned(struct kl_cuda *d, size_t bytes, void **out, struct kl_error **err) {
    int result = kl_alloc_should_fail() ? KL_CU_OUT_OF_MEMORY : d->api->MemHostAlloc(out, bytes, 0);
    if (result == KL_CU_OUT_OF_MEMORY)
        return kl_fail(err, KL_ENOMEM, "device '%s': no %zu bytes of page-locked host memory",
                       d->name, bytes);
    return kl_cuda_check(d, err, "cuMemHostAlloc", result);
}

static int alloc_managed(struct kl_cuda *d, size_t bytes, kl_cuda_address *out,
                         struct kl_error **err) {
    int result = kl_alloc_should_fail()
                     ? KL_CU_OUT_OF_MEMORY
                     : d->api->MemAllocManaged(out, bytes, KL_CU_MEM_ATTACH_GLOBAL);
    if (result == KL_CU_OUT_OF_MEMORY)
        return kl_fail(err, KL_ENOMEM, "out of memory on device '%s': %zu bytes wanted", d->name,
                       bytes);
    return kl_cuda_check(d, err, "cuMemAllocManaged", result);
}

int kl_cuda_mem_alloc(struct kl_driver *driver, size_t bytes, void **ptr, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    kl_cuda_address a;
    KL_TRY(kl_cuda_enter(d, err));
    if (bytes == 0) bytes = 1;
    KL_TRY(d->managed ? alloc_managed(d, bytes, &a, err) : kl_cuda_alloc(d, bytes, &a, err));
    *ptr = (void *)(uintptr_t)a;
    return KL_OK;
}

void kl_cuda_mem_free(struct kl_driver *driver, void *ptr, size_t bytes) {
    struct kl_cuda *d = kl_cuda_of(driver);
    /* The memory of a lost device is lost with it; in the child of a fork it belongs to the
     * parent. */
    if (kl_cuda_enter(d, NULL)) return;
    /* A posted write into it may not have run. */
    if (atomic_load_explicit(&d->posted.n, memory_order_acquire))
        KL_CUDA(d, NULL, StreamSynchronize, (d->transfer));
    KL_CUDA(d, NULL, MemFree, ((kl_cuda_address)(uintptr_t)ptr));
}

/* ---- memory that is shared with the host ---- */

enum {
    /* The widest access of a kernel: a misaligned access would end the context. */
    GIVEN_ALIGNMENT = 16
};

/* The device uses the host's addresses. The host sees what completed commands wrote, and a kernel
 * sees what the host wrote before its launch. */
int kl_cuda_share(struct kl_driver *driver, void *ptr, size_t bytes, bool mine,
                  struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    return mine || (d->sees_pages && (uintptr_t)ptr % GIVEN_ALIGNMENT == 0) ? KL_OK
                                                                            : KL_EUNSUPPORTED;
}

void kl_cuda_unshare(struct kl_driver *driver, void *ptr, size_t bytes, bool mine) {
}

/* ---- copies ---- */

/* Copies memory that CUDA reads or writes at once; CUDA stages memory that is not page-locked, one
 * part after another. */
static int copy_direct(struct kl_cuda *d, bool read, kl_cuda_address device, char *host, size_t n,
                       struct kl_error **err) {
    int rc = read ? KL_CUDA(d, err, MemcpyDtoHAsync, (host, device, n, d->transfer))
                  : KL_CUDA(d, err, MemcpyHtoDAsync, (device, host, n, d->transfer));
    /* Also after a failure, because nothing may access the caller's memory after the return. */
    int done = KL_CUDA(d, rc ? NULL : err, StreamSynchronize, (d->transfer));
    return rc ? rc : done;
}

/* ---- small writes ---- */

/* To wait for a small write takes some 20 microseconds, and every number that a program multiplies
 * an array by is one. So it is copied into a ring, the transfer from there is only posted, and what
 * is handed over to a stream later waits for it. Reads are in the same stream as the writes. */
enum { POSTED_HALF = KL_POSTED_BYTES / 2, POSTED_ALIGN = 16 };

static int posted_make(struct kl_cuda *d, struct kl_cuda_posted *p) {
    void *ring = NULL;
    if (p->ring) return KL_OK;
    void **const events[] = {&p->event, &p->half[0], &p->half[1]};
    for (int i = 0; i < 3; i++)
        if (!*events[i])
            KL_TRY(KL_CUDA(d, NULL, EventCreate, (events[i], KL_CU_EVENT_HAS_NO_TIMING)));
    KL_TRY(kl_cuda_alloc_pinned(d, KL_POSTED_BYTES, &ring, NULL));
    p->ring = ring;
    return KL_OK;
}

/* Goes to the other half of the ring when n bytes do not fit into the rest of this one. The writes
 * from there were posted before all of this half's, so they have mostly run. */
static int posted_room(struct kl_cuda *d, struct kl_cuda_posted *p, size_t n,
                       struct kl_error **err) {
    if (p->used + n <= POSTED_HALF) return KL_OK;
    KL_TRY(KL_CUDA(d, err, EventRecord, (p->half[p->side], d->transfer)));
    KL_TRY(KL_CUDA(d, err, EventSynchronize, (p->half[!p->side])));
    p->side = !p->side;
    p->used = 0;
    return KL_OK;
}

/* The caller holds the lock. */
static int post(struct kl_cuda *d, struct kl_cuda_posted *p, kl_cuda_address device,
                const char *host, size_t n, struct kl_error **err) {
    KL_TRY(posted_room(d, p, n, err));
    char *from = memcpy(p->ring + (size_t)p->side * POSTED_HALF + p->used, host, n);
    p->used += (n + POSTED_ALIGN - 1) & ~(size_t)(POSTED_ALIGN - 1);
    KL_TRY(KL_CUDA(d, err, MemcpyHtoDAsync, (device, from, n, d->transfer)));
    atomic_fetch_add_explicit(&p->n, 1, memory_order_release);
    return KL_OK;
}

/* The caller holds the lock. */
static int after_posted(struct kl_cuda *d, struct kl_cuda_posted *p, void *stream, uint64_t *seen,
                        struct kl_error **err) {
    const uint64_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
    if (p->recorded != n) KL_TRY(KL_CUDA(d, err, EventRecord, (p->event, d->transfer)));
    p->recorded = n;
    KL_TRY(KL_CUDA(d, err, StreamWaitEvent, (stream, p->event, 0)));
    *seen = n;
    return KL_OK;
}

int kl_cuda_after_posted(struct kl_cuda *d, void *stream, uint64_t *seen, struct kl_error **err) {
    if (*seen == atomic_load_explicit(&d->posted.n, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&d->posted.mu);
    int rc = after_posted(d, &d->posted, stream, seen, err);
    kl_mutex_unlock(&d->posted.mu);
    return rc;
}

/* Makes the missing staging buffers. The caller holds staging_mu. */
static int staging_make(struct kl_cuda *d) {
    for (int i = 0; i < KL_N_STAGING; i++) {
        struct kl_cuda_staging *s = &d->staging[i];
        if (!s->event)
            KL_TRY(KL_CUDA(d, NULL, EventCreate, (&s->event, KL_CU_EVENT_HAS_NO_TIMING)));
        if (!s->host) KL_TRY(kl_cuda_alloc_pinned(d, KL_STAGING_BYTES, &s->host, NULL));
    }
    return KL_OK;
}

/* Copies in parts that go through the two buffers in turn: while CUDA moves one part, the host
 * copies the other. */
static int copy_staged(struct kl_cuda *d, bool read, kl_cuda_address device, char *host, size_t n,
                       struct kl_error **err) {
    size_t piece = n / 4 < SMALLEST_PIECE     ? SMALLEST_PIECE
                   : n / 4 > KL_STAGING_BYTES ? KL_STAGING_BYTES
                                              : n / 4;
    size_t n_pieces = (n + piece - 1) / piece;
    int rc = kl_cuda_after_posted(d, d->bulk, &d->bulk_posted, err);
    /* When reading, a part is taken out of its buffer one turn after its transfer was started. */
    for (size_t i = 0; !rc && i < n_pieces + (read ? 1 : 0); i++) {
        if (i < n_pieces) {
            struct kl_cuda_staging *s = &d->staging[i % KL_N_STAGING];
            size_t at = i * piece, bytes = n - at < piece ? n - at : piece;
            if (!read && i >= KL_N_STAGING) rc = KL_CUDA(d, err, EventSynchronize, (s->event));
            if (!rc && !read) memcpy(s->host, host + at, bytes);
            if (!rc)
                rc = read
                         ? KL_CUDA(d, err, MemcpyDtoHAsync, (s->host, device + at, bytes, d->bulk))
                         : KL_CUDA(d, err, MemcpyHtoDAsync, (device + at, s->host, bytes, d->bulk));
            if (!rc) rc = KL_CUDA(d, err, EventRecord, (s->event, d->bulk));
        }
        if (!rc && read && i > 0) {
            struct kl_cuda_staging *s = &d->staging[(i - 1) % KL_N_STAGING];
            size_t at = (i - 1) * piece, bytes = n - at < piece ? n - at : piece;
            rc = KL_CUDA(d, err, EventSynchronize, (s->event));
            if (!rc) memcpy(host + at, s->host, bytes);
        }
    }
    /* Also after a failure, so that the buffers are free again. */
    int done = KL_CUDA(d, rc ? NULL : err, StreamSynchronize, (d->bulk));
    return rc ? rc : done;
}

static int copy(struct kl_cuda *d, bool read, kl_cuda_address device, char *host, size_t n,
                struct kl_error **err) {
    KL_TRY(kl_cuda_enter(d, err));
    if (n == 0) return KL_OK;
    if (n < DIRECT_BELOW) return copy_direct(d, read, device, host, n, err);
    kl_mutex_lock(&d->staging_mu);
    /* Without page-locked memory the copy is only slower. */
    int rc = staging_make(d) ? copy_direct(d, read, device, host, n, err)
                             : copy_staged(d, read, device, host, n, err);
    kl_mutex_unlock(&d->staging_mu);
    return rc;
}

int kl_cuda_mem_read(struct kl_driver *driver, const void *ptr, size_t offset, void *dst, size_t n,
                     struct kl_error **err) {
    return copy(kl_cuda_of(driver), true, (uintptr_t)ptr + offset, dst, n, err);
}

int kl_cuda_mem_write(struct kl_driver *driver, void *ptr, size_t offset, const void *src, size_t n,
                      struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    const kl_cuda_address to = (uintptr_t)ptr + offset;
    if (n == 0 || n > KL_POSTED_MOST) return copy(d, false, to, (char *)src, n, err);
    KL_TRY(kl_cuda_enter(d, err));
    kl_mutex_lock(&d->posted.mu);
    /* Without page-locked memory the host waits. */
    int rc = posted_make(d, &d->posted) ? copy_direct(d, false, to, (char *)src, n, err)
                                        : post(d, &d->posted, to, src, n, err);
    kl_mutex_unlock(&d->posted.mu);
    return rc;
}

/* ---- fault words: cut from slabs, because page-locking is a slow system call ---- */

/* On the device the host's address follows the words: see TELL_HOST in
 * gpu/kernels/prelude_cuda.kl. */
struct words_on_device {
    uint32_t word[KL_WORDS];
    uint32_t *host;
    uint64_t unused; /* makes the size a multiple of 16 bytes */
};
_Static_assert(KL_WORDS == 128, "as TELL_HOST has it");
enum { WORDS_BYTES = KL_WORDS * sizeof(uint32_t) };

static int slab_fill(struct kl_cuda *d, kl_cuda_address device, uint32_t *host,
                     struct kl_error **err) {
    struct words_on_device *w = kl_malloc(KL_SLAB_WORDS * sizeof *w);
    if (!w) return kl_fail_nomem(err);
    memset(host, 0xFF, KL_SLAB_WORDS * WORDS_BYTES);
    memset(w, 0xFF, KL_SLAB_WORDS * sizeof *w);
    for (int i = 0; i < KL_SLAB_WORDS; i++) w[i].host = host + (size_t)i * KL_WORDS;
    int rc = copy_direct(d, false, device, (char *)w, KL_SLAB_WORDS * sizeof *w, err);
    kl_free(w);
    return rc;
}

static int slab_new(struct kl_cuda *d, struct kl_error **err) {
    kl_cuda_address device = 0;
    void *host = NULL;
    KL_TRY(kl_cuda_alloc(d, KL_SLAB_WORDS * sizeof(struct words_on_device), &device, err));
    int rc = kl_cuda_alloc_pinned(d, KL_SLAB_WORDS * WORDS_BYTES, &host, err);
    if (!rc) rc = slab_fill(d, device, host, err);
    if (rc) {
        KL_CUDA(d, NULL, MemFree, (device));
        if (host) KL_CUDA(d, NULL, MemFreeHost, (host));
        return rc;
    }
    kl_mutex_lock(&d->mu);
    /* When two threads make a slab at once, the rest of the first slab (32 KB) is lost; that hardly
     * ever happens. */
    d->words_device = device;
    d->words_host = host;
    d->words_left = KL_SLAB_WORDS;
    kl_mutex_unlock(&d->mu);
    return KL_OK;
}

static bool words_take(struct kl_cuda *d, struct kl_fault_words *w) {
    kl_mutex_lock(&d->mu);
    bool any = d->words_left > 0;
    if (any) {
        d->words_left--;
        w->device = (void *)(uintptr_t)d->words_device;
        w->host = d->words_host;
        d->words_device += sizeof(struct words_on_device);
        d->words_host += KL_WORDS;
    }
    kl_mutex_unlock(&d->mu);
    return any;
}

int kl_cuda_words_new(struct kl_driver *driver, struct kl_fault_words *w, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    while (!words_take(d, w)) {
        KL_TRY(kl_cuda_enter(d, err));
        KL_TRY(slab_new(d, err));
    }
    return KL_OK;
}

int kl_cuda_words_fetch(struct kl_driver *driver, struct kl_fault_words *w, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    KL_TRY(kl_cuda_enter(d, err));
    int rc = copy_direct(d, true, (uintptr_t)w->device, (char *)w->host, WORDS_BYTES, err);
    return rc ? KL_EDEVICELOST : KL_OK;
}

void kl_cuda_words_clear(struct kl_driver *driver, struct kl_fault_words *w) {
    struct kl_cuda *d = kl_cuda_of(driver);
    memset(w->host, 0xFF, WORDS_BYTES);
    /* kl_cuda_enter fails here only when the device is lost; then no kernel reads the words
     * again. */
    if (kl_cuda_enter(d, NULL)) return;
    KL_CUDA(d, NULL, MemsetD32Async, ((uintptr_t)w->device, KL_WORD_CLEAR, KL_WORDS, d->transfer));
    KL_CUDA(d, NULL, StreamSynchronize, (d->transfer));
}
