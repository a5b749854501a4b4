/* cuda.c - see cuda.h: devices, their contexts, and the codes that calls of the CUDA driver
 * become. */
#include "backend/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/gpu.h"
#include "backend/gpu/lower/kernels.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

enum { MAX_DEVICES = 16, SUBGROUP = 32 };

static struct kl_cuda *devices[MAX_DEVICES]; /* written only by kl_cuda_open */

/* ---- results ---- */

void kl_cuda_note_lost(struct kl_cuda *d, int result) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&d->lost, &none, result)) return;
    kl_mutex_lock(&d->mu);
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
}

int kl_cuda_check(struct kl_cuda *d, struct kl_error **err, const char *call, int result) {
    char text[64];
    if (result == KL_CU_SUCCESS) return KL_OK;
    kl_cuda_error_name(result, text, sizeof text);
    if (kl_cuda_is_fatal(result)) {
        kl_cuda_note_lost(d, result);
        return kl_fail(err, KL_EDEVICELOST, "device '%s' is lost: %s failed with %s", d->name, call,
                       text);
    }
    return kl_fail(err, result == KL_CU_OUT_OF_MEMORY ? KL_ENOMEM : KL_ESUBMIT,
                   "device '%s': %s failed with %s", d->name, call, text);
}

/* ---- contexts ---- */

/* The primary context is shared with everything else in the process that uses the CUDA runtime, so
 * its flags are not changed. */
static int make_context(struct kl_cuda *d, struct kl_error **err) {
    void *context = NULL;
    KL_TRY(KL_CUDA(d, err, DevicePrimaryCtxRetain, (&context, d->device)));
    KL_TRY(KL_CUDA(d, err, CtxSetCurrent, (context)));
    if (!d->transfer)
        KL_TRY(KL_CUDA(d, err, StreamCreate, (&d->transfer, KL_CU_STREAM_IS_NON_BLOCKING)));
    if (!d->bulk) KL_TRY(KL_CUDA(d, err, StreamCreate, (&d->bulk, KL_CU_STREAM_IS_NON_BLOCKING)));
    atomic_store_explicit(&d->context, context, memory_order_release);
    return KL_OK;
}

/* KL_EDEVICE after a fork, KL_EDEVICELOST. */
static int check_usable(struct kl_cuda *d, struct kl_error **err) {
    char text[64];
    if (atomic_load_explicit(&d->forked, memory_order_relaxed))
        return kl_fail(err, KL_EDEVICE,
                       "device '%s' was opened before this process forked; CUDA cannot be used in "
                       "the child",
                       d->name);
    int lost = atomic_load_explicit(&d->lost, memory_order_relaxed);
    if (lost)
        return kl_fail(err, KL_EDEVICELOST, "device '%s' is lost: %s", d->name,
                       kl_cuda_error_name(lost, text, sizeof text));
    return KL_OK;
}

int kl_cuda_enter(struct kl_cuda *d, struct kl_error **err) {
    KL_TRY(check_usable(d, err));
    void *context = atomic_load_explicit(&d->context, memory_order_acquire);
    /* The context is made current on every call, because other code of the process (a user's own
     * CUDA code) may have made another one current meanwhile. It costs nanoseconds. */
    if (context) return KL_CUDA(d, err, CtxSetCurrent, (context));
    kl_mutex_lock(&d->context_mu);
    int rc = atomic_load(&d->context) ? KL_CUDA(d, err, CtxSetCurrent, (d->context))
                                      : make_context(d, err);
    kl_mutex_unlock(&d->context_mu);
    return rc;
}

static void cuda_forked(struct kl_driver *driver) {
    atomic_store(&kl_cuda_of(driver)->forked, true);
}

/* Called for each operation, of which few call CUDA: those make the context current themselves. */
static int cuda_enter(struct kl_driver *driver, struct kl_error **err) {
    return check_usable(kl_cuda_of(driver), err);
}

static const struct kl_driver_ops ops = {.alloc = kl_cuda_mem_alloc,
                                         .free = kl_cuda_mem_free,
                                         .read = kl_cuda_mem_read,
                                         .write = kl_cuda_mem_write,
                                         .queue_new = kl_cuda_queue_new,
                                         .counters = kl_cuda_counters,
                                         .event_new = kl_cuda_event_new,
                                         .event_free = kl_cuda_event_free,
                                         .words_new = kl_cuda_words_new,
                                         .words_fetch = kl_cuda_words_fetch,
                                         .words_clear = kl_cuda_words_clear,
                                         .event_query = kl_cuda_event_query,
                                         .why_lost = kl_cuda_why_lost,
                                         .wait_any = kl_cuda_wait_any,
                                         .wake = kl_cuda_wake,
                                         .forked = cuda_forked,
                                         .share = kl_cuda_share,
                                         .unshare = kl_cuda_unshare,
                                         .enter = cuda_enter,
                                         .helper_begin = kl_cuda_helper_begin,
                                         .helper_end = kl_cuda_helper_end,
                                         .compile = kl_cuda_compile,
                                         .load = kl_cuda_load,
                                         .load_program = kl_cuda_load_program,
                                         .find = kl_cuda_find,
                                         .limits = kl_cuda_limits,
                                         .begin = kl_cuda_begin,
                                         .end = kl_cuda_end,
                                         .abandon = kl_cuda_abandon,
                                         .launch = kl_cuda_launch,
                                         .launch_3d = kl_cuda_launch_3d,
                                         .launch_program = kl_cuda_launch_program,
                                         .copy = kl_cuda_copy,
                                         .override = kl_cuda_override,
                                         .comm_missing = kl_cuda_comm_missing,
                                         .comm_device = kl_cuda_comm_device,
                                         .comm_id = kl_cuda_comm_id,
                                         .comm_new = kl_cuda_comm_new,
                                         .comm_state = kl_cuda_comm_state,
                                         .comm_end = kl_cuda_comm_end,
                                         .comm_flag = kl_cuda_comm_flag,
                                         .exchange = kl_cuda_exchange};

/* ---- opening ---- */

int kl_cuda_count(const char **why) {
    *why = NULL;
    const struct kl_cuda_api *api = kl_cuda_api(why);
    if (!api) return 0;
    kl_nvrtc_api(why);
    return api->n_devices < MAX_DEVICES ? api->n_devices : MAX_DEVICES;
}

const char *kl_cuda_lacks(int i, const char **library) {
    const char *why = NULL;
    static const char *const names[] = {"missing_cublaslt", "missing_cudnn", "missing_cusolver",
                                        "missing_cufft", "missing_nccl"};
    *library = i < (int)(sizeof names / sizeof *names) ? names[i] : NULL;
    if (i == 0) return kl_blas_api(&why) ? NULL : why;
    if (i == 1) return kl_dnn_api(&why) ? NULL : why;
    if (i == 2) return kl_solver_api(&why) ? NULL : why;
    if (i == 3) return kl_cufft_api(&why) ? NULL : why;
    return i == 4 && !kl_nccl_api(&why) ? why : NULL;
}

static int attribute(const struct kl_cuda_api *api, int device, int which, int otherwise) {
    int v = 0;
    return api->DeviceGetAttribute(&v, which, device) == 0 && v > 0 ? v : otherwise;
}

static int compute_capability(const struct kl_cuda_api *api, int device) {
    int minor = 0;
    if (api->DeviceGetAttribute(&minor, KL_CU_ATTR_CC_MINOR, device)) minor = 0;
    return attribute(api, device, KL_CU_ATTR_CC_MAJOR, 0) * 10 + minor;
}

void kl_cuda_facts(int index, struct kl_gpu_facts *out) {
    const struct kl_cuda_api *api = kl_cuda_api(NULL);
    int device;
    memset(out, 0, sizeof *out);
    if (!api || api->DeviceGet(&device, index)) return;
    int cc = compute_capability(api, device);
    if (api->DeviceGetName(out->name, sizeof out->name, device)) out->name[0] = 0;
    snprintf(out->vendor, sizeof out->vendor, "NVIDIA");
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", api->version / 1000,
             api->version % 1000 / 10);
    snprintf(out->architecture, sizeof out->architecture, "sm_%d", cc);
    if (api->DeviceTotalMem(&out->memory_bytes, device)) out->memory_bytes = 0;
    out->units = (uint32_t)attribute(api, device, KL_CU_ATTR_MULTIPROCESSORS, 0);
}

static uint32_t limit(const struct kl_cuda_api *api, int device, int which, int otherwise) {
    return (uint32_t)attribute(api, device, which, otherwise);
}

static void fill_driver(struct kl_cuda *d) {
    const struct kl_cuda_api *api = d->api;
    const struct kl_nvrtc_api *nvrtc = kl_nvrtc_api(NULL);
    struct kl_gpu_facts facts;
    kl_cuda_facts(d->index, &facts);
    int threads = attribute(api, d->device, KL_CU_ATTR_MAX_THREADS_PER_BLOCK, 256);
    d->driver = (struct kl_driver){
        .ops = &ops,
        .name = d->name,
        .max_positions = INT64_C(1) << 31,
        .apart = true,
        .shares = d->managed,
        .prelude = kl_source_prelude_cuda,
        .max_local = (uint32_t)threads,
        .local_bytes =
            (size_t)attribute(api, d->device, KL_CU_ATTR_SHARED_BYTES_PER_BLOCK, 16 << 10),
        .n_units = (uint32_t)attribute(api, d->device, KL_CU_ATTR_MULTIPROCESSORS, 1),
        .subgroup = SUBGROUP,
        .has_f64 = true,
        .has_atomic64 = true,
        .has_wide_sums = d->cc >= 90,
        .flushes_sums = true,
        .merges = true,
        .counts_groups = true,
        .leaves_out = true,
        .has_matrix_units = d->cc >= 80,
        .has_warp_groups = d->cc == 90 && kl_nvrtc_arch(d->cc) == 90,
        .fast_exchange = true,
        .compiles_cuda = true,
        .argument_bytes = 4 << 10,
        .max_groups = {limit(api, d->device, KL_CU_ATTR_MAX_GRID_X, INT32_MAX),
                       limit(api, d->device, KL_CU_ATTR_MAX_GRID_Y, 65535),
                       limit(api, d->device, KL_CU_ATTR_MAX_GRID_Z, 65535)},
        .max_group = {limit(api, d->device, KL_CU_ATTR_MAX_BLOCK_X, 1024),
                      limit(api, d->device, KL_CU_ATTR_MAX_BLOCK_Y, 1024),
                      limit(api, d->device, KL_CU_ATTR_MAX_BLOCK_Z, 64)},
        .dynamic_bytes = limit(api, d->device, KL_CU_ATTR_SHARED_BYTES_OPTIN, 0)};
    snprintf(d->driver.identity, sizeof d->driver.identity, "cuda %d, %.100s, sm_%d, nvrtc %d.%d",
             api->version, facts.name, d->cc, nvrtc ? nvrtc->major : 0, nvrtc ? nvrtc->minor : 0);
}

/* Finds out whether host and device have the same memory and the host may read managed memory while
 * kernels run; on older Jetsons such a read ends the process. Not for cards, nor for Grace with
 * Hopper: each has memory of its own, and a value that is used repeatedly must be in the device's
 * memory. KEEL_ZERO_COPY=0: treated as if there were no shared memory. */
static void find_shared(struct kl_cuda *d) {
    const char *e = getenv("KEEL_ZERO_COPY");
    d->managed = attribute(d->api, d->device, KL_CU_ATTR_INTEGRATED, 0) &&
                 attribute(d->api, d->device, KL_CU_ATTR_CONCURRENT_MANAGED, 0) &&
                 !(e && strcmp(e, "0") == 0);
    d->sees_pages = d->managed && attribute(d->api, d->device, KL_CU_ATTR_PAGEABLE_ACCESS, 0);
}

static int device_new(int index, struct kl_cuda **out, struct kl_error **err) {
    const char *why = NULL;
    const struct kl_cuda_api *api = kl_cuda_api(&why);
    if (!api) return kl_fail(err, KL_EDEVICE, "no CUDA device: %s", why);
    struct kl_cuda *d = kl_calloc(1, sizeof *d);
    if (!d) return kl_fail_nomem(err);
    d->api = api;
    d->index = index;
    snprintf(d->name, sizeof d->name, "cuda%d", index);
    kl_mutex_init(&d->context_mu);
    kl_mutex_init(&d->posted.mu);
    kl_mutex_init(&d->staging_mu);
    kl_mutex_init(&d->blas.mu);
    kl_mutex_init(&d->dnn.mu);
    kl_mutex_init(&d->solver.mu);
    kl_mutex_init(&d->fft.mu);
    kl_mutex_init(&d->mu);
    kl_cond_init_clock(&d->changed);
    int rc = KL_CUDA(d, err, DeviceGet, (&d->device, index));
    if (rc) {
        pthread_cond_destroy(&d->changed);
        kl_mutex_deinit(&d->mu);
        kl_mutex_deinit(&d->fft.mu);
        kl_mutex_deinit(&d->solver.mu);
        kl_mutex_deinit(&d->dnn.mu);
        kl_mutex_deinit(&d->blas.mu);
        kl_mutex_deinit(&d->staging_mu);
        kl_mutex_deinit(&d->posted.mu);
        kl_mutex_deinit(&d->context_mu);
        kl_free(d);
        return rc;
    }
    d->cc = compute_capability(api, d->device);
    find_shared(d);
    fill_driver(d);
    *out = d;
    return KL_OK;
}

int kl_cuda_open(int index, struct kl_backend **out, struct kl_error **err) {
    if (index < 0 || index >= MAX_DEVICES)
        return kl_fail(err, KL_EDEVICE, "there is no CUDA device %d", index);
    if (!devices[index]) KL_TRY(device_new(index, &devices[index], err));
    /* Each step that succeeds stays when a later one fails; the next call goes on from there. */
    struct kl_cuda *d = devices[index];
    struct kl_driver *driver = &d->driver;
    if (!driver->lowering && !(driver->lowering = kl_lowering_new(driver, err))) return KL_ENOMEM;
    if (!d->backend && !(d->backend = kl_gpu_backend_new(driver, index, err))) return KL_ENOMEM;
    *out = d->backend;
    return KL_OK;
}
