/* opencl_memory.c - blocks of device memory under addresses that the driver gives out, and the
 * host's access to them. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/opencl/opencl_internal.h"
#include "base/alloc.h"

int kl_opencl_usable(struct kl_opencl *d, struct kl_error **err) {
    if (atomic_load_explicit(&d->forked, memory_order_relaxed))
        return kl_fail(
            err, KL_EDEVICE,
            "device '%s' was opened before this process forked; it cannot be used in the child",
            d->name);
    cl_int status = kl_opencl_lost(d);
    if (status)
        return kl_fail(err, KL_EDEVICELOST, "device '%s' is lost: a command failed with %d (%s)",
                       d->name, (int)status, kl_opencl_status_text(status));
    return KL_OK;
}

int kl_opencl_place(struct kl_opencl *d, const void *address, cl_mem *mem, size_t *offset,
                    struct kl_error **err) {
    void *object;
    if (!kl_places_find(&d->places, address, &object, offset))
        return kl_fail(err, KL_EINTERNAL, "%p is no address on device '%s'", address, d->name);
    *mem = object;
    return KL_OK;
}

/* ---- blocks ---- */

enum { BLOCK_ALIGNMENT = 64 };

static bool is_out_of_memory(cl_int status) {
    return status == CL_OUT_OF_RESOURCES || status == CL_INVALID_BUFFER_SIZE ||
           kl_opencl_code(status) == KL_ENOMEM;
}

static int refused(struct kl_opencl *d, size_t bytes, const char *call, cl_int status,
                   struct kl_error **err) {
    if (!is_out_of_memory(status)) return kl_opencl_result(err, call, status);
    return kl_fail(err, KL_ENOMEM,
                   "out of memory on device '%s': %zu bytes wanted; %s failed with %d (%s)",
                   d->name, bytes, call, (int)status, kl_opencl_status_text(status));
}

/* The address range of a new block, and its memory where the host has the same memory. NULL: no
 * memory or address space. */
static char *range_new(struct kl_opencl *d, size_t bytes, size_t *reserved) {
    *reserved = 0;
    if (d->sharing == KL_OPENCL_COHERENT)
        /* The end address must belong to no other block either. */
        return kl_cl.clSVMAlloc(d->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                                bytes + 1, BLOCK_ALIGNMENT);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *reserved = bytes / page * page + page;
    void *p =
        mmap(NULL, *reserved, d->sharing == KL_OPENCL_COPIED ? PROT_NONE : PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void range_free(struct kl_opencl *d, char *base, size_t reserved) {
    if (reserved)
        munmap(base, reserved);
    else
        kl_cl.clSVMFree(d->context, base);
}

int kl_opencl_alloc(struct kl_driver *driver, size_t bytes, void **ptr, struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    KL_TRY(kl_opencl_usable(d, err));
    if (bytes == 0) bytes = 1;
    if (kl_alloc_should_fail())
        return kl_fail(err, KL_ENOMEM, "out of memory on device '%s': %zu bytes wanted", d->name,
                       bytes);
    if (bytes > d->max_alloc_bytes)
        return kl_fail(err, KL_ENOMEM,
                       "out of memory on device '%s': %zu bytes wanted, its largest block is %zu",
                       d->name, bytes, d->max_alloc_bytes);
    /* An OpenCL driver takes memory when a buffer is first used. An error then would come too late
     * to free the block cache and try again. So no more than the device reports is requested, and
     * each buffer is used at once. */
    if (!kl_places_account(&d->places, bytes, d->memory_bytes))
        return kl_fail(err, KL_ENOMEM,
                       "out of memory on device '%s': %zu bytes wanted, it has %zu in all", d->name,
                       bytes, d->memory_bytes);
    struct kl_place b = {.bytes = bytes};
    int rc;
    if (!(b.base = range_new(d, bytes, &b.reserved))) {
        rc = kl_fail(err, KL_ENOMEM, "out of memory for device '%s': %zu bytes wanted", d->name,
                     bytes);
        goto fail_range;
    }
    cl_int status;
    /* The buffer is made over the memory of this range. */
    bool over = d->sharing != KL_OPENCL_COPIED;
    cl_mem mem =
        kl_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE | (over ? CL_MEM_USE_HOST_PTR : 0),
                             bytes, over ? b.base : NULL, &status);
    if (status) {
        rc = refused(d, bytes, "clCreateBuffer", status, err);
        goto fail_buffer;
    }
    static const char zero;
    status = kl_cl.clEnqueueWriteBuffer(d->touches, mem, CL_TRUE, 0, 1, &zero, 0, NULL, NULL);
    if (status) {
        rc = refused(d, bytes, "clEnqueueWriteBuffer", status, err);
        goto fail_touch;
    }
    b.object = mem;
    if ((rc = kl_places_add(&d->places, &b, err))) goto fail_touch;
    *ptr = b.base;
    return KL_OK;
fail_touch:
    kl_cl.clReleaseMemObject(mem);
fail_buffer:
    range_free(d, b.base, b.reserved);
fail_range:
    kl_places_unaccount(&d->places, bytes);
    return rc;
}

void kl_opencl_free(struct kl_driver *driver, void *ptr, size_t bytes) {
    struct kl_opencl *d = kl_opencl_of(driver);
    /* In the child of a fork the memory is the parent's. */
    if (!ptr || atomic_load(&d->forked)) return;
    struct kl_place b = kl_places_remove(&d->places, ptr);
    kl_cl.clReleaseMemObject(b.object);
    /* This is the last step, because the system may give these addresses to the next block as soon
     * as they are free. */
    range_free(d, b.base, b.reserved);
}

/* ---- memory that is shared with the host ---- */

/* The alignment that drivers need. They copy memory with a smaller alignment. */
enum { GIVEN_ALIGNMENT = 64, GIVEN_ALIGNMENT_GPU = 4096 };

/* Makes a buffer over a block of the host, which commands only read. A race may give a block twice,
 * and blocks over the user's memory may overlap. */
static int give(struct kl_opencl *d, char *base, size_t bytes, struct kl_error **err) {
    uintptr_t alignment = d->is_gpu ? GIVEN_ALIGNMENT_GPU : GIVEN_ALIGNMENT;
    if (bytes == 0 || bytes < d->share_from || (uintptr_t)base % alignment) return KL_EUNSUPPORTED;
    if (kl_alloc_should_fail()) return kl_fail_nomem(err);
    cl_int status;
    bool same = false;
    struct kl_place given = {.base = base, .bytes = bytes, .n_given = 1};
    given.object = kl_cl.clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes,
                                        base, &status);
    if (status) return KL_EUNSUPPORTED; /* a driver may refuse some memory; then it is copied */
    int rc = kl_places_give(&d->places, &given, base + bytes - 1, &same, err);
    if (same || rc) kl_cl.clReleaseMemObject(given.object);
    return rc;
}

static void take_back(struct kl_opencl *d, const char *base) {
    cl_mem mem = kl_places_take_back(&d->places, base);
    if (mem) kl_cl.clReleaseMemObject(mem);
}

/* The next command that writes the block may come from any queue, so this waits for the unmap. */
static void unmap(struct kl_opencl *d, cl_mem mem, void *mapped) {
    cl_event done;
    cl_int status = kl_cl.clEnqueueUnmapMemObject(d->transfers, mem, mapped, 0, NULL, &done);
    if (!status) {
        status = kl_cl.clWaitForEvents(1, &done);
        kl_cl.clReleaseEvent(done);
    }
    /* Still mapped, so a command that writes it has no defined result. */
    if (status) kl_opencl_lose(d, status);
}

int kl_opencl_share(struct kl_driver *driver, void *ptr, size_t bytes, bool mine,
                    struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    KL_TRY(kl_opencl_usable(d, err));
    if (!mine) return give(d, ptr, bytes, err);
    if (d->sharing == KL_OPENCL_COHERENT) return KL_OK;
    if (bytes < d->share_from) return KL_EUNSUPPORTED;
    cl_mem mem;
    size_t at;
    cl_int status;
    KL_TRY(kl_opencl_place(d, ptr, &mem, &at, err));
    void *mapped = kl_cl.clEnqueueMapBuffer(d->transfers, mem, CL_TRUE, CL_MAP_READ, at, bytes, 0,
                                            NULL, NULL, &status);
    KL_TRY(kl_opencl_result(err, "clEnqueueMapBuffer", status));
    /* The standard promises this for buffers over our own memory. */
    if (mapped == ptr) return KL_OK;
    unmap(d, mem, mapped);
    return KL_EUNSUPPORTED;
}

void kl_opencl_unshare(struct kl_driver *driver, void *ptr, size_t bytes, bool mine) {
    struct kl_opencl *d = kl_opencl_of(driver);
    cl_mem mem;
    size_t at;
    if (atomic_load(&d->forked)) return;
    if (!mine)
        take_back(d, ptr);
    else if (d->sharing == KL_OPENCL_MAPPED && !kl_opencl_place(d, ptr, &mem, &at, NULL))
        unmap(d, mem, ptr);
}

/* ---- the host's access ---- */

int kl_opencl_read(struct kl_driver *driver, const void *ptr, size_t offset, void *dst, size_t n,
                   struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    cl_mem mem;
    size_t at;
    KL_TRY(kl_opencl_usable(d, err));
    if (n == 0) return KL_OK;
    KL_TRY(kl_opencl_place(d, (const char *)ptr + offset, &mem, &at, err));
    return KL_CL(err, clEnqueueReadBuffer, d->transfers, mem, CL_TRUE, at, n, dst, 0, NULL, NULL);
}

int kl_opencl_write(struct kl_driver *driver, void *ptr, size_t offset, const void *src, size_t n,
                    struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    cl_mem mem;
    size_t at;
    KL_TRY(kl_opencl_usable(d, err));
    if (n == 0) return KL_OK;
    KL_TRY(kl_opencl_place(d, (char *)ptr + offset, &mem, &at, err));
    return KL_CL(err, clEnqueueWriteBuffer, d->transfers, mem, CL_TRUE, at, n, src, 0, NULL, NULL);
}

/* ---- fault words ---- */

enum { WORDS_BYTES = KL_WORDS * sizeof(uint32_t) };

static int clear(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    memset(w->host, 0xFF, WORDS_BYTES);
    _Static_assert(KL_WORD_CLEAR == 0xFFFFFFFFu, "words are cleared byte by byte");
    return kl_opencl_write(d, w->device, 0, w->host, WORDS_BYTES, err);
}

int kl_opencl_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    if (!(w->host = kl_malloc(WORDS_BYTES))) return kl_fail_nomem(err);
    int rc = kl_opencl_alloc(d, WORDS_BYTES, &w->device, err);
    if (rc) goto fail_device;
    if ((rc = clear(d, w, err))) goto fail_clear;
    return KL_OK;
fail_clear:
    kl_opencl_free(d, w->device, WORDS_BYTES);
fail_device:
    kl_free(w->host);
    w->host = NULL;
    w->device = NULL;
    return rc;
}

void kl_opencl_words_clear(struct kl_driver *d, struct kl_fault_words *w) {
    if (atomic_load(&kl_opencl_of(d)->forked)) return;
    /* Words that cannot be cleared would report faults of operations that have none. A device that
     * cannot be written to is lost anyway. */
    if (clear(d, w, NULL)) kl_opencl_lose(kl_opencl_of(d), CL_OUT_OF_RESOURCES);
}
