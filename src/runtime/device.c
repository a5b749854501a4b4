/* device.c - see device.h. It decides which driver's devices are the GPUs, and explains why there
 * is no GPU.
 *
 * KEEL_GPU=cuda|opencl|none takes the devices of that driver. When it is not set: CUDA's devices,
 * or else OpenCL's GPUs. KEEL_GPU_DEVICE=n takes only the driver's n-th device. No driver is loaded
 * before somebody asks for a GPU, or for the facts about the CPU, which say what is missing. */
#include "runtime/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/collective/environment.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda.h"
#include "backend/metal/metal.h"
#include "backend/opencl/opencl.h"
#include "base/platform/memory.h"
#include "runtime/block_pool.h"
#include "runtime/pool.h"
#ifdef KL_TEST_HOOKS
#include "backend/gpu/gpu.h"
#include "backend/sim/sim.h"
#endif

/* ---- drivers ---- */

/* One row per driver. Where several have GPUs, the first row is taken. */
static const struct driver {
    const char *name, *missing; /* missing: key of the CPU fact that says what is missing */
    /* The number of devices. *why: what is missing; when there are devices all the same, they run
     * only kernels that were compiled before, since there is no compiler. */
    int (*count)(const char **why);
    int (*open)(int index, struct kl_backend **out, struct kl_error **err);
    void (*facts)(int index, struct kl_gpu_facts *out);
    bool (*is_gpu)(int index);                     /* NULL: all its devices are GPUs */
    const char *(*lacks)(int i, const char **key); /* of optional libraries; NULL: there is none */
    /* Its first device becomes the default device of the process without KEEL_GPU. */
    bool is_default;
} drivers[] = {
    {"cuda", "missing_cuda", kl_cuda_count, kl_cuda_open, kl_cuda_facts, NULL, kl_cuda_lacks, true},
    {"metal", "missing_metal", kl_metal_count, kl_metal_open, kl_metal_facts, NULL, NULL, true},
    {"opencl", "missing_opencl", kl_opencl_count, kl_opencl_open, kl_opencl_facts, kl_opencl_is_gpu,
     NULL, false},
};
enum {
    N_DRIVERS = sizeof drivers / sizeof *drivers,
    MAX_GPUS = 8,
    MOST_LIBRARIES = 4, /* optional ones of a driver */
    CPU_FACTS = 4,      /* of the CPU itself */
    MAX_CPU_FACTS = CPU_FACTS + N_DRIVERS * (1 + MOST_LIBRARIES),
    MAX_GPU_FACTS = 6,
    REASON_BYTES = 320
};

struct gpu {
    struct kl_backend *backend;
    struct kl_gpu_facts known;
    struct kl_device_fact facts[MAX_GPU_FACTS];
    size_t n_facts;
};

static struct {
    struct kl_mutex mu;
    struct kl_backend *cpu; /* guarded by mu until cpu_ready */
    struct gpu gpus[MAX_GPUS];
    int n_gpus;
    /* why the driver in `drivers` gave no device; empty: it was not tried, or gave devices */
    char reason[N_DRIVERS][REASON_BYTES];
    char no_gpu[(N_DRIVERS + 1) * REASON_BYTES]; /* why there is no GPU */
    char not_gpus[N_DRIVERS][REASON_BYTES]; /* the fact of a driver whose devices are no GPUs */
    struct kl_device_fact cpu_facts[MAX_CPU_FACTS];
    size_t n_cpu_facts;
    _Atomic(int) cpu_ready, gpus_ready, facts_ready; /* 1 once done */
    _Atomic(uint32_t) chosen;                        /* default device: type << 16 | index */
    _Atomic(bool) told;                              /* somebody has set the default device */
    _Atomic(int) rank_on_host; /* see kl_device_prefer; -1: nobody has asked for it */
} dev = {.mu = KL_MUTEX_INIT, .rank_on_host = -1};

static const struct driver *driver_named(const char *name) {
    for (int i = 0; i < N_DRIVERS; i++)
        if (strcmp(name, drivers[i].name) == 0) return &drivers[i];
    return NULL;
}

/* Whether a driver has devices and a compiler for them. */
static bool is_whole(const struct driver *d) {
    const char *why = NULL;
    return d->count(&why) > 0 && !why;
}

/* Whether a driver has devices, but no compiler for them. */
static bool lacks_compiler(const struct driver *d) {
    const char *why = NULL;
    return d->count(&why) > 0 && why;
}

#ifdef KL_TEST_HOOKS
static int sim_count(const char **why) {
    int n = kl_sim_n_devices();
    *why = n ? NULL : "KEEL_SIM_DEVICES=0";
    return n;
}

static void sim_facts(int index, struct kl_gpu_facts *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "sim%d", index);
    snprintf(out->architecture, sizeof out->architecture, "sim");
}

static const struct driver sim = {"sim",     NULL, sim_count, kl_sim_open,
                                  sim_facts, NULL, NULL,      false};
#endif

/* ---- the CPU ---- */

static int open_cpu(struct kl_error **err) {
    if (atomic_load_explicit(&dev.cpu_ready, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&dev.mu);
    struct kl_backend *b = kl_cpu_backend(kl_pool_parallel, kl_pool_parallel_short);
    int rc = dev.cpu ? KL_OK : kl_pool_attach(b->memory, err);
    if (!rc) {
        dev.cpu = b;
        atomic_store_explicit(&dev.cpu_ready, 1, memory_order_release);
    }
    kl_mutex_unlock(&dev.mu);
    return rc;
}

/* ---- GPUs ---- */

static void gpu_fact(struct gpu *g, const char *key, const char *string, size_t size) {
    if (string ? string[0] != 0 : size != 0)
        g->facts[g->n_facts++] = (struct kl_device_fact){key, string, size};
}

/* Makes device `index` of a driver the next GPU. */
static int open_gpu(const struct driver *d, int index, struct kl_error **err) {
    struct gpu *g = &dev.gpus[dev.n_gpus];
    KL_TRY(d->open(index, &g->backend, err));
    if (!g->backend->memory->pool)
        KL_TRY(kl_pool_attach(g->backend->memory, err)); /* unless an earlier attempt did that */
    g->backend->index = dev.n_gpus;
    d->facts(index, &g->known);
    g->n_facts = 0;
    gpu_fact(g, "device_name", g->known.name[0] ? g->known.name : g->backend->name, 0);
    gpu_fact(g, "architecture", g->known.architecture, 0);
    gpu_fact(g, "driver", g->known.driver[0] ? g->known.driver : d->name, 0);
    gpu_fact(g, "vendor", g->known.vendor, 0);
    gpu_fact(g, "memory_size", NULL, g->known.memory_bytes);
    gpu_fact(g, "processors", NULL, g->known.units);
    dev.n_gpus++;
    return KL_OK;
}

/* The number of the only device to open, which KEEL_GPU_DEVICE gives; -1: all devices. */
static int only_device(char *reason) {
    const char *want = getenv("KEEL_GPU_DEVICE");
    char *end;
    if (!want || !*want) return -1;
    long v = strtol(want, &end, 10);
    if (*end == 0 && v >= 0 && v < INT32_MAX) return (int)v;
    snprintf(reason, REASON_BYTES, "KEEL_GPU_DEVICE=%.32s is no number of a device", want);
    return -2;
}

/* The reason of a driver that has n devices, and none of them is a GPU. */
static void say_no_gpus(const struct driver *d, int n, char *reason) {
    snprintf(reason, REASON_BYTES, "%d device%s, but no GPU (KEEL_GPU=%s takes %s)", n,
             n == 1 ? "" : "s", d->name, n == 1 ? "it" : "them");
}

/* Opens the devices of a driver. reason (REASON_BYTES long) then says why there are none; it is
 * empty when there are some. */
static int open_driver(const struct driver *d, bool gpus_only, char *reason,
                       struct kl_error **err) {
    const char *why = NULL;
    int n = d->count(&why), only = only_device(reason), first = dev.n_gpus;
    if (only == -2) return KL_OK;
    if (n == 0) {
        snprintf(reason, REASON_BYTES, "%s", why ? why : "there is no device");
        return KL_OK;
    }
    if (only >= n) {
        snprintf(reason, REASON_BYTES, "KEEL_GPU_DEVICE=%d, but there %s %d", only,
                 n == 1 ? "is" : "are", n);
        return KL_OK;
    }
    for (int i = only >= 0 ? only : 0; i < n && dev.n_gpus < MAX_GPUS && (only < 0 || i == only);
         i++) {
        struct kl_error *e = NULL;
        if (gpus_only && d->is_gpu && !d->is_gpu(i)) continue;
        int rc = open_gpu(d, i, &e);
        /* Opening is tried again later only when memory was missing. A device that does not open
         * for another reason never will. */
        if (rc == KL_ENOMEM) return kl_fail_with(err, e ? e : kl_error_static(rc));
        if (rc) snprintf(reason, REASON_BYTES, "%s", e ? e->message : "a device does not open");
        kl_error_release(e);
    }
    if (dev.n_gpus > first)
        reason[0] = 0;
    else if (!reason[0])
        say_no_gpus(d, n, reason);
    return KL_OK;
}

/* Opens the first driver that has devices. One without its compiler runs only what is in the kernel
 * cache, so the others are tried before it. */
static int open_any(struct kl_error **err) {
    bool later[N_DRIVERS];
    for (int i = 0; i < N_DRIVERS && dev.n_gpus == 0; i++)
        if (!(later[i] = lacks_compiler(&drivers[i])))
            KL_TRY(open_driver(&drivers[i], true, dev.reason[i], err));
    for (int i = 0; i < N_DRIVERS && dev.n_gpus == 0; i++)
        if (later[i]) KL_TRY(open_driver(&drivers[i], true, dev.reason[i], err));
    for (int i = 0; i < N_DRIVERS && dev.n_gpus == 0; i++) {
        size_t n = strlen(dev.no_gpu);
        snprintf(dev.no_gpu + n, sizeof dev.no_gpu - n, "%s%s: %s", n ? "; " : "", drivers[i].name,
                 dev.reason[i]);
    }
    return KL_OK;
}

/* KEEL_GPU names no driver: tells which there are. */
static void say_drivers(const char *want) {
    size_t n = (size_t)snprintf(dev.no_gpu, sizeof dev.no_gpu,
                                "KEEL_GPU=%.32s names no driver; there are", want);
    for (int i = 0; i < N_DRIVERS; i++)
        n += (size_t)snprintf(dev.no_gpu + n, sizeof dev.no_gpu - n, "%s %s", i ? "," : "",
                              drivers[i].name);
    snprintf(dev.no_gpu + n, sizeof dev.no_gpu - n, " and none");
}

static int open_named(const char *want, struct kl_error **err) {
    char reason[REASON_BYTES] = "";
    const struct driver *d = driver_named(want);
#ifdef KL_TEST_HOOKS
    if (strcmp(want, sim.name) == 0) d = &sim;
#endif
    if (d) {
        KL_TRY(open_driver(d, false, reason, err));
        if (reason[0]) snprintf(dev.no_gpu, sizeof dev.no_gpu, "KEEL_GPU=%s: %s", want, reason);
    } else if (strcmp(want, "none") == 0) {
        snprintf(dev.no_gpu, sizeof dev.no_gpu, "KEEL_GPU=none");
    } else {
        say_drivers(want);
    }
    return KL_OK;
}

static int open_gpus(struct kl_error **err) {
    if (atomic_load_explicit(&dev.gpus_ready, memory_order_acquire)) return KL_OK;
    KL_TRY(open_cpu(err));
    kl_mutex_lock(&dev.mu);
    int rc = KL_OK;
    if (!atomic_load(&dev.gpus_ready)) {
        const char *want = getenv("KEEL_GPU");
        /* An attempt that ran out of memory may have left devices; opening them again is
         * harmless. */
        dev.n_gpus = 0;
        dev.no_gpu[0] = 0;
        rc = want && *want ? open_named(want, err) : open_any(err);
        if (!rc) atomic_store_explicit(&dev.gpus_ready, 1, memory_order_release);
    }
    kl_mutex_unlock(&dev.mu);
    return rc;
}

/* ---- what other files call ---- */

int kl_device_count(enum kl_device_type type) {
    if (type == KL_CPU ? open_cpu(NULL) : open_gpus(NULL)) return 0;
    return type == KL_CPU ? 1 : dev.n_gpus;
}

bool kl_device_available(enum kl_device_type type, int index) {
    return index >= 0 && index < kl_device_count(type);
}

int kl_device_backend(enum kl_device_type type, int index, struct kl_backend **out,
                      struct kl_error **err) {
    KL_TRY(type == KL_CPU ? open_cpu(err) : open_gpus(err));
    int n = type == KL_CPU ? 1 : dev.n_gpus;
    if (index < 0 || index >= n) {
        if (type == KL_GPU && n == 0)
            return kl_fail(err, KL_EDEVICE, "device gpu %d does not exist: no GPU (%s)", index,
                           dev.no_gpu);
        return kl_fail(err, KL_EDEVICE, "device %s %d does not exist: there %s %d",
                       type == KL_CPU ? "cpu" : "gpu", index, n == 1 ? "is" : "are", n);
    }
    *out = type == KL_CPU ? dev.cpu : dev.gpus[index].backend;
    return KL_OK;
}

void kl_device_default(enum kl_device_type *type, int *index) {
    uint32_t v = atomic_load(&dev.chosen);
    *type = v >> 16 ? KL_GPU : KL_CPU;
    *index = (int)(v & 0xFFFF);
}

static int set_default(enum kl_device_type type, int index, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(type, index, &b, err));
    atomic_store(&dev.chosen, (uint32_t)(type == KL_GPU) << 16 | (uint32_t)index);
    return KL_OK;
}

/* The GPU of this process. The launcher is asked before the processes have met:
 * streams that are made until then (a module makes some when it is imported) are of this GPU. */
static int own_gpu(void) {
    int n = atomic_load(&dev.rank_on_host);
    if (n < 0) atomic_store(&dev.rank_on_host, n = kl_environment_rank_on_host());
    return dev.n_gpus ? n % dev.n_gpus : 0;
}

int kl_device_own_gpu(void) {
    enum kl_device_type type;
    int index;
    kl_device_default(&type, &index);
    if (type == KL_GPU) return index;
    return kl_device_count(KL_GPU) ? own_gpu() : 0;
}

int kl_device_set_default(enum kl_device_type type, int index, struct kl_error **err) {
    /* "The GPU" is GPU 0 in every process: which of several is meant is not said. */
    const bool tells = type != KL_GPU || index > 0;
    if (!tells && kl_device_count(KL_GPU) && !atomic_load(&dev.told)) index = own_gpu();
    KL_TRY(set_default(type, index, err));
    if (tells) atomic_store(&dev.told, true);
    return KL_OK;
}

void kl_device_prefer(int rank_on_host) {
    enum kl_device_type type;
    int index;
    atomic_store(&dev.rank_on_host, rank_on_host);
    kl_device_default(&type, &index);
    if (type == KL_GPU && !atomic_load(&dev.told)) (void)set_default(KL_GPU, own_gpu(), NULL);
}

bool kl_device_driver_is_there(const char *name) {
    const char *want = getenv("KEEL_GPU"), *why = NULL;
    const struct driver *d = driver_named(name);
    return d && (!want || !*want || strcmp(want, name) == 0) && d->count(&why) > 0;
}

int kl_device_driver_opens(const char *name, bool *any, struct kl_error **err) {
    *any = false;
    int n = kl_device_driver_is_there(name) ? kl_device_count(KL_GPU) : 0;
    for (int i = 0; i < n && !*any; i++) {
        struct kl_backend *b;
        KL_TRY(kl_device_backend(KL_GPU, i, &b, err));
        *any = strncmp(b->name, name, strlen(name)) == 0;
    }
    return KL_OK;
}

int kl_device_capture(const char *path, struct kl_error **err) {
    bool any;
    KL_TRY(kl_device_driver_opens("metal", &any, err));
    if (!any)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "there is no Metal here, so nothing of it is recorded");
    return path ? kl_metal_capture_start(path, err) : kl_metal_capture_stop(err);
}

static bool has_default(void) {
    for (int i = 0; i < N_DRIVERS; i++)
        if (drivers[i].is_default && is_whole(&drivers[i])) return true;
    return false;
}

int kl_device_choose(bool *gpu, struct kl_error **err) {
    const char *want = getenv("KEEL_GPU");
    *gpu = false;
    if (!(want && *want) && !has_default()) return KL_OK;
    KL_TRY(open_gpus(err));
    if (dev.n_gpus == 0) return KL_OK;
    *gpu = true;
    return set_default(KL_GPU, own_gpu(), err);
}

/* Why no device of a driver is taken unless KEEL_GPU names the driver; NULL: some are GPUs. */
static const char *without_gpus(const struct driver *d, int n) {
    char *text = dev.not_gpus[d - drivers];
    for (int i = 0; i < n; i++)
        if (!d->is_gpu || d->is_gpu(i)) return NULL;
    say_no_gpus(d, n, text);
    return text;
}

/* Makes a fact about each driver that has no device, or none that is a GPU, or lacks a library. It
 * loads only the drivers that KEEL_GPU allows. */
static void missing_facts(void) {
    const char *want = getenv("KEEL_GPU");
    for (int i = 0; i < N_DRIVERS; i++) {
        const char *why = NULL, *key = NULL;
        const bool any = !want || !*want;
        if (any || strcmp(want, drivers[i].name) == 0) {
            int n = drivers[i].count(&why);
            if (any && n > 0 && !why) why = without_gpus(&drivers[i], n);
            for (int k = 0; n > 0 && drivers[i].lacks && k < MOST_LIBRARIES; k++) {
                const char *slow = drivers[i].lacks(k, &key);
                if (!key) break;
                if (slow) dev.cpu_facts[dev.n_cpu_facts++] = (struct kl_device_fact){key, slow, 0};
            }
            if (n > 0 && !why) continue;
        } else {
            why = "KEEL_GPU names another driver, or none";
        }
        dev.cpu_facts[dev.n_cpu_facts++] =
            (struct kl_device_fact){drivers[i].missing, why ? why : "there is no device", 0};
    }
}

static void cpu_facts(void) {
    if (atomic_load_explicit(&dev.facts_ready, memory_order_acquire)) return;
    kl_mutex_lock(&dev.mu);
    if (!atomic_load(&dev.facts_ready)) {
        dev.cpu_facts[0] = (struct kl_device_fact){"device_name", "CPU", 0};
        dev.cpu_facts[1] = (struct kl_device_fact){"architecture", kl_cpu_architecture(), 0};
        dev.cpu_facts[2] = (struct kl_device_fact){"memory_size", NULL, kl_memory_installed()};
        dev.cpu_facts[3] = (struct kl_device_fact){"processors", NULL, (size_t)kl_n_processors()};
        dev.n_cpu_facts = CPU_FACTS;
        missing_facts();
        atomic_store_explicit(&dev.facts_ready, 1, memory_order_release);
    }
    kl_mutex_unlock(&dev.mu);
}

int kl_device_facts(enum kl_device_type type, int index, const struct kl_device_fact **facts,
                    size_t *n, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(type, index, &b, err));
    if (type == KL_CPU) cpu_facts();
    *facts = type == KL_CPU ? dev.cpu_facts : dev.gpus[index].facts;
    *n = type == KL_CPU ? dev.n_cpu_facts : dev.gpus[index].n_facts;
    return KL_OK;
}

void kl_devices_fork_child(void) {
    /* A thread of the parent may have been opening a device. Opening goes on where it stopped. */
    kl_mutex_init(&dev.mu);
    for (int i = 0; i < dev.n_gpus; i++) {
        struct kl_backend *b = dev.gpus[i].backend;
        if (b->ops->forked) b->ops->forked(b);
    }
}

#ifdef KL_TEST_HOOKS
void kl_test_device_until_empty(struct kl_backend *gpu) {
    kl_gpu_until_empty(gpu);
}
#endif
