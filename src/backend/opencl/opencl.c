/* opencl.c - see opencl.h: finds the devices and opens them. */
#include "backend/opencl/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/gpu/gpu.h"
#include "backend/gpu/lower/kernel_cache.h"
#include "backend/opencl/opencl_internal.h"
#include "base/exit_gate.h"
#include "base/fork_locks.h"
#include "base/platform/libraries.h"

enum { MAX_DEVICES = 8, MAX_PLATFORMS = 16, MAX_PER_PLATFORM = 32, SHARE_FROM = 64 << 10 };

static struct {
    struct kl_mutex mu; /* taken before every other lock of this driver */
    bool looked;
    pid_t pid; /* the process that looked: a fork does not copy the threads of the OpenCL runtime */
    struct kl_opencl device[MAX_DEVICES];
    int n;
    const char *why; /* why there is no device; immortal */
    char text[256];  /* holds a `why` that is composed at run time */
} found = {.mu = KL_MUTEX_INIT};

/* ---- what a device reports of itself ---- */

void kl_opencl_device_text(cl_device_id device, cl_uint what, char *out, size_t room) {
    /* Longer than any list of extensions so far; extensions that do not fit count as absent. */
    char all[8192];
    size_t n = 0;
    *out = 0;
    if (kl_cl.clGetDeviceInfo(device, what, sizeof all - 1, all, &n) || n >= sizeof all) return;
    all[n] = 0;
    char *from = all + strspn(all, " ");
    for (size_t end = strlen(from); end > 0 && from[end - 1] == ' ';) from[--end] = 0;
    snprintf(out, room, "%s", from);
}

uint64_t kl_opencl_device_number(cl_device_id device, cl_uint what, size_t bytes) {
    union {
        uint64_t u64;
        uint32_t u32;
    } v = {0};
    if (kl_cl.clGetDeviceInfo(device, what, bytes, &v, NULL)) return 0;
    return bytes == 4 ? v.u32 : v.u64;
}

static bool can_run(cl_device_id id) {
    char version[128];
    int major = 0, minor = 0;
    kl_opencl_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    return sscanf(version, "OpenCL %d.%d", &major, &minor) == 2 &&
           (major > 1 || (major == 1 && minor >= 2)) &&
           kl_opencl_device_number(id, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) &&
           kl_opencl_device_number(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) &&
           kl_opencl_device_number(id, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool));
}

static void describe(struct kl_opencl *d) {
    struct kl_gpu_facts *f = &d->facts;
    kl_opencl_device_text(d->device, CL_DEVICE_NAME, f->name, sizeof f->name);
    kl_opencl_device_text(d->device, CL_DEVICE_VENDOR, f->vendor, sizeof f->vendor);
    kl_opencl_device_text(d->device, CL_DRIVER_VERSION, f->driver, sizeof f->driver);
    kl_opencl_device_text(d->device, CL_DEVICE_VERSION, f->architecture, sizeof f->architecture);
    f->memory_bytes = kl_opencl_device_number(d->device, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
    f->units = (uint32_t)kl_opencl_device_number(d->device, CL_DEVICE_MAX_COMPUTE_UNITS, 4);
    d->memory_bytes = f->memory_bytes;
    d->max_alloc_bytes = kl_opencl_device_number(d->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
}

/* ---- finding devices ---- */

static int add_devices(cl_platform_id platform, bool gpus) {
    cl_device_id ids[MAX_PER_PLATFORM];
    cl_uint n = 0;
    if (kl_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_PER_PLATFORM, ids, &n)) return 0;
    if (n > MAX_PER_PLATFORM) n = MAX_PER_PLATFORM;
    int refused = 0;
    for (cl_uint i = 0; i < n; i++) {
        bool gpu = kl_opencl_device_number(ids[i], CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_GPU;
        if (gpu != gpus) continue;
        if (!can_run(ids[i])) {
            refused++;
            continue;
        }
        if (found.n == MAX_DEVICES) break;
        struct kl_opencl *d = &found.device[found.n];
        d->index = found.n++;
        d->platform = platform;
        d->device = ids[i];
        d->is_gpu = gpu;
        describe(d);
    }
    return refused;
}

static const char *look(void) {
    const char *why = kl_opencl_load();
    if (why) return why;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    cl_int status = kl_cl.clGetPlatformIDs(MAX_PLATFORMS, platforms, &n);
    if (status == CL_PLATFORM_NOT_FOUND_KHR || (status == CL_SUCCESS && n == 0)) {
        snprintf(found.text, sizeof found.text,
                 "OpenCL's library is here, but no driver is installed for it (%s)",
                 kl_install_opencl_driver);
        return found.text;
    }
    if (status) {
        snprintf(found.text, sizeof found.text, "clGetPlatformIDs failed with %d (%s)", (int)status,
                 kl_opencl_status_text(status));
        return found.text;
    }
    if (n > MAX_PLATFORMS) n = MAX_PLATFORMS;
    int refused = 0;
    for (int gpus = 1; gpus >= 0; gpus--)
        for (cl_uint i = 0; i < n; i++) refused += add_devices(platforms[i], gpus);
    if (found.n > 0) return NULL;
    if (refused == 0) return "OpenCL drivers are installed, but none of them has a device";
    snprintf(found.text, sizeof found.text,
             "OpenCL devices: %d, but none is available with a compiler for OpenCL C 1.2", refused);
    return found.text;
}

static void look_once(void) {
    if (found.looked) return;
    kl_fork_lock_add(&found.mu);
    found.pid = getpid();
    found.why = look();
    found.looked = true;
}

int kl_opencl_count(const char **why) {
    kl_mutex_lock(&found.mu);
    look_once();
    if (why) *why = found.why;
    int n = found.n;
    kl_mutex_unlock(&found.mu);
    return n;
}

void kl_opencl_facts(int index, struct kl_gpu_facts *out) {
    *out = found.device[index].facts; /* does not change once the devices are counted */
}

bool kl_opencl_is_gpu(int index) {
    return found.device[index].is_gpu;
}

/* ---- opening ---- */

static void forked(struct kl_driver *d) {
    atomic_store(&kl_opencl_of(d)->forked, true);
}

/* ---- the end of a process ---- */

/* PoCL and other implementations release their compiler and devices in exit handlers, while our
 * threads, or their own, may be using them. So the driver's functions are entered through a gate;
 * and what was handed over to a processor runs to its end, since its threads are in the process. */
static struct kl_exit_gate gate = KL_EXIT_GATE_INIT;
static pthread_once_t watched = PTHREAD_ONCE_INIT;
/* The programs that were there when at_end was last registered: [0] after commands were handed
 * over, [1] after some were complete. */
static _Atomic(uint64_t) n_known[2];

static void at_end(void) {
    if (!kl_exit_gate_close(&gate)) return;
    for (int i = 0; i < found.n; i++) {
        struct kl_opencl *d = &found.device[i];
        if (!d->backend || d->is_gpu || atomic_load(&d->forked)) continue;
        for (struct kl_opencl_queue *q = d->queues; q; q = q->next) kl_cl.clFinish(q->cl);
        kl_cl.clFinish(d->transfers);
        kl_cl.clFinish(d->touches);
    }
}

/* After a device is open. */
static void watch(void) {
    kl_exit_gate_open(&gate);
    (void)atexit(at_end);
}

/* An implementation may compile a kernel at its first launch, on a thread of its own, and install
 * handlers then, which would run before ours: so where programs are new, ours is registered
 * again. */
static void watch_again(_Atomic(uint64_t) *known) {
    const uint64_t n = kl_kernel_cache_compiled() + kl_kernel_cache_found();
    if (atomic_exchange(known, n) != n) (void)atexit(at_end);
}

void kl_opencl_release_event(cl_event event) {
    if (!kl_exit_gate_try(&gate)) return;
    kl_cl.clReleaseEvent(event);
    kl_exit_gate_leave(&gate);
}

static int enter(struct kl_error **err) {
    if (kl_exit_gate_enter(&gate)) return KL_OK;
    return kl_fail(err, KL_EDEVICE, "the process ends: OpenCL is not used any more");
}

/* The slots of the driver. A slot without a result does nothing when the process ends. */

static int enter_device(struct kl_driver *d, struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_usable(kl_opencl_of(d), err);
    if (rc) kl_exit_gate_leave(&gate);
    return rc;
}

static void leave_device(struct kl_driver *d) {
    kl_exit_gate_leave(&gate);
}

/* From a begin that succeeds to its end or abandonment the thread is inside the gate. */

static void leave_submission(void) {
    watch_again(&n_known[0]);
    kl_exit_gate_leave(&gate);
}

static int begin(struct kl_driver *d, void *queue, void *const *waits, int n_waits,
                 struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_begin(d, queue, waits, n_waits, err);
    if (rc) leave_submission();
    return rc;
}

static int end(struct kl_driver *d, void *queue, struct kl_fault_words *brings_back, void *signal,
               struct kl_error **err) {
    const int rc = kl_opencl_end(d, queue, brings_back, signal, err);
    if (!rc) leave_submission();
    return rc;
}

static int abandon(struct kl_driver *d, void *queue) {
    const int rc = kl_opencl_abandon(d, queue);
    leave_submission();
    return rc;
}

static int alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_alloc(d, bytes, ptr, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static void release(struct kl_driver *d, void *ptr, size_t bytes) {
    if (!kl_exit_gate_try(&gate)) return;
    kl_opencl_free(d, ptr, bytes);
    kl_exit_gate_leave(&gate);
}

static int read_block(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                      struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_read(d, ptr, offset, dst, n, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static int write_block(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                       struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_write(d, ptr, offset, src, n, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static int queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_queue_new(d, stream_index, queue, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static int words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_words_new(d, w, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static void words_clear(struct kl_driver *d, struct kl_fault_words *w) {
    if (!kl_exit_gate_try(&gate)) return;
    kl_opencl_words_clear(d, w);
    kl_exit_gate_leave(&gate);
}

static int event_query(struct kl_driver *d, void *event) {
    if (!kl_exit_gate_try(&gate)) return 0;
    const int rc = kl_opencl_event_query(d, event);
    if (rc == 1) watch_again(&n_known[1]);
    kl_exit_gate_leave(&gate);
    return rc;
}

static int share_block(struct kl_driver *d, void *ptr, size_t bytes, bool mine,
                       struct kl_error **err) {
    KL_TRY(enter(err));
    const int rc = kl_opencl_share(d, ptr, bytes, mine, err);
    kl_exit_gate_leave(&gate);
    return rc;
}

static void unshare_block(struct kl_driver *d, void *ptr, size_t bytes, bool mine) {
    if (!kl_exit_gate_try(&gate)) return;
    kl_opencl_unshare(d, ptr, bytes, mine);
    kl_exit_gate_leave(&gate);
}

static const struct kl_driver_ops ops = {.alloc = alloc,
                                         .free = release,
                                         .read = read_block,
                                         .write = write_block,
                                         .queue_new = queue_new,
                                         .event_new = kl_opencl_event_new,
                                         .event_free = kl_opencl_event_free,
                                         .words_new = words_new,
                                         .words_clear = words_clear,
                                         .event_query = event_query,
                                         .why_lost = kl_opencl_why_lost,
                                         .wait_any = kl_opencl_wait_any,
                                         .wake = kl_opencl_wake,
                                         .forked = forked,
                                         .share = share_block,
                                         .unshare = unshare_block,
                                         .enter = enter_device,
                                         .leave = leave_device,
                                         .compile = kl_opencl_compile,
                                         .load = kl_opencl_load_binary,
                                         .find = kl_opencl_find,
                                         .limits = kl_opencl_limits,
                                         .begin = begin,
                                         .end = end,
                                         .abandon = abandon,
                                         .launch = kl_opencl_launch,
                                         .launch_3d = kl_opencl_launch_3d,
                                         .copy = kl_opencl_copy};

/* KEEL_ZERO_COPY=0: treats the device as if it had memory of its own. KEEL_ZERO_COPY=map: treats it
 * as if it had no shared virtual memory. */
static enum kl_opencl_sharing sharing_of(const struct kl_opencl *d) {
    const char *e = getenv("KEEL_ZERO_COPY");
    if (!e) e = "";
    if (strcmp(e, "0") == 0 ||
        !kl_opencl_device_number(d->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)))
        return KL_OPENCL_COPIED;
    bool coherent = kl_opencl_device_number(d->device, CL_DEVICE_SVM_CAPABILITIES, 8) &
                    CL_DEVICE_SVM_FINE_GRAIN_BUFFER;
    return coherent && kl_cl.clSVMAlloc && kl_cl.clSVMFree && strcmp(e, "map") != 0
               ? KL_OPENCL_COHERENT
               : KL_OPENCL_MAPPED;
}

static int open_device(struct kl_opencl *d, struct kl_error **err) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)d->platform, 0};
    cl_int status;
    int rc;
    d->context = kl_cl.clCreateContext(properties, 1, &d->device, NULL, NULL, &status);
    if ((rc = kl_opencl_result(err, "clCreateContext", status))) return rc;
    d->transfers = kl_cl.clCreateCommandQueue(d->context, d->device, 0, &status);
    if ((rc = kl_opencl_result(err, "clCreateCommandQueue", status))) goto fail_transfers;
    d->touches = kl_cl.clCreateCommandQueue(d->context, d->device, 0, &status);
    if ((rc = kl_opencl_result(err, "clCreateCommandQueue", status))) goto fail_touches;
    snprintf(d->name, sizeof d->name, "opencl%d", d->index);
    d->sharing = sharing_of(d);
    d->share_from = SHARE_FROM;
    d->driver = (struct kl_driver){.ops = &ops,
                                   .name = d->name,
                                   .lowering = d->driver.lowering, /* of an earlier attempt */
                                   .max_positions = INT64_C(1) << 31,
                                   .apart = d->is_gpu,
                                   .shares = d->sharing != KL_OPENCL_COPIED,
                                   .copied_on_fork = !d->is_gpu};
    kl_opencl_programs_init(d);
    kl_places_init(&d->places);
    kl_mutex_init(&d->launching);
    kl_mutex_init(&d->mu);
    pthread_cond_init(&d->changed, NULL);
    /* The lowering is immortal, so it is made once, even when a later step fails and opening is
     * tried again. */
    struct kl_driver *driver = &d->driver;
    if (!driver->lowering && !(driver->lowering = kl_lowering_new(driver, err))) {
        rc = KL_ENOMEM;
        goto fail_lowering;
    }
    if (!(d->backend = kl_gpu_backend_new(driver, d->index, err))) {
        rc = KL_ENOMEM;
        goto fail_lowering;
    }
    return KL_OK;
fail_lowering:
    kl_cl.clReleaseCommandQueue(d->touches);
fail_touches:
    kl_cl.clReleaseCommandQueue(d->transfers);
fail_transfers:
    kl_cl.clReleaseContext(d->context);
    return rc;
}

int kl_opencl_open(int index, struct kl_backend **out, struct kl_error **err) {
    int rc = KL_OK;
    kl_mutex_lock(&found.mu);
    look_once();
    if (index < 0 || index >= found.n)
        rc = kl_fail(err, KL_EDEVICE, "OpenCL device %d does not exist: %s", index,
                     found.why ? found.why : "there are fewer");
    else if (!found.device[index].backend && found.pid != getpid())
        rc = kl_fail(
            err, KL_EDEVICE,
            "OpenCL was started before this process forked; it cannot be used in the child");
    else if (!found.device[index].backend)
        rc = open_device(&found.device[index], err);
    if (!rc) pthread_once(&watched, watch);
    if (!rc) *out = found.device[index].backend;
    kl_mutex_unlock(&found.mu);
    return rc;
}

#ifdef KL_TEST_HOOKS
struct kl_driver *kl_opencl_driver(int index) {
    return &found.device[index].driver;
}
bool kl_opencl_store_sources(int index, bool sources) {
    bool before = found.device[index].keeps_programs;
    found.device[index].keeps_programs = sources;
    return before;
}
#endif
