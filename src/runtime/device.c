/* device.c - see device.h. */
#include "runtime/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "runtime/block_pool.h"
#include "runtime/pool.h"
#ifdef KL_TEST_HOOKS
#include "backend/sim/sim.h"
#endif

enum { MAX_GPUS = 8 };

static struct {
    struct kl_mutex mu;
    bool opened;
    struct kl_backend *cpu;
    struct kl_backend *gpu[MAX_GPUS];
    int n_gpus;
    struct kl_device_fact cpu_facts[4], gpu_facts[MAX_GPUS][3];
    _Atomic(int) ready;       /* 1 once opened */
    _Atomic(uint32_t) chosen; /* default device: type << 16 | index */
} dev = {.mu = KL_MUTEX_INIT};

static int open_cpu(struct kl_error **err) {
    if (dev.cpu) return KL_OK;
    struct kl_backend *b = kl_cpu_backend(kl_pool_parallel);
    KL_TRY(kl_pool_attach(b->memory, err));
    dev.cpu = b;
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    dev.cpu_facts[0] = (struct kl_device_fact){"device_name", "CPU", 0};
    dev.cpu_facts[1] = (struct kl_device_fact){"architecture", kl_cpu_architecture(), 0};
    dev.cpu_facts[2] = (struct kl_device_fact){"memory_size", NULL, (size_t)pages * (size_t)size};
    dev.cpu_facts[3] =
        (struct kl_device_fact){"processors", NULL, (size_t)sysconf(_SC_NPROCESSORS_ONLN)};
    return KL_OK;
}

static int open_gpus(struct kl_error **err) {
#ifdef KL_TEST_HOOKS
    const char *want = getenv("KEEL_GPU");
    if (!want || strcmp(want, "sim") != 0) return KL_OK;
    int n = kl_sim_n_devices();
    for (; dev.n_gpus < n && dev.n_gpus < MAX_GPUS; dev.n_gpus++) {
        struct kl_backend *b;
        KL_TRY(kl_sim_open(dev.n_gpus, &b, err));
        KL_TRY(kl_pool_attach(b->memory, err));
        dev.gpu[dev.n_gpus] = b;
        dev.gpu_facts[dev.n_gpus][0] = (struct kl_device_fact){"device_name", b->name, 0};
        dev.gpu_facts[dev.n_gpus][1] = (struct kl_device_fact){"architecture", "sim", 0};
        dev.gpu_facts[dev.n_gpus][2] = (struct kl_device_fact){"driver", b->name, 0};
    }
#endif
    return KL_OK;
}

static int open_all(struct kl_error **err) {
    if (atomic_load_explicit(&dev.ready, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&dev.mu);
    int rc = open_cpu(err);
    if (!rc) rc = open_gpus(err);
    if (!rc) atomic_store_explicit(&dev.ready, 1, memory_order_release);
    kl_mutex_unlock(&dev.mu);
    return rc;
}

int kl_device_count(enum kl_device_type type) {
    if (open_all(NULL)) return 0;
    return type == KL_CPU ? 1 : dev.n_gpus;
}

bool kl_device_available(enum kl_device_type type, int index) {
    return index >= 0 && index < kl_device_count(type);
}

int kl_device_backend(enum kl_device_type type, int index, struct kl_backend **out,
                      struct kl_error **err) {
    KL_TRY(open_all(err));
    int n = type == KL_CPU ? 1 : dev.n_gpus;
    if (index < 0 || index >= n) {
        if (type == KL_GPU && n == 0)
            return kl_fail(err, KL_EDEVICE,
                           "device gpu %d does not exist: no GPU driver found a device", index);
        return kl_fail(err, KL_EDEVICE, "device %s %d does not exist: there %s %d",
                       type == KL_CPU ? "cpu" : "gpu", index, n == 1 ? "is" : "are", n);
    }
    *out = type == KL_CPU ? dev.cpu : dev.gpu[index];
    return KL_OK;
}

void kl_device_default(enum kl_device_type *type, int *index) {
    uint32_t v = atomic_load(&dev.chosen);
    *type = v >> 16 ? KL_GPU : KL_CPU;
    *index = (int)(v & 0xFFFF);
}

int kl_device_set_default(enum kl_device_type type, int index, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(type, index, &b, err));
    atomic_store(&dev.chosen, (uint32_t)(type == KL_GPU) << 16 | (uint32_t)index);
    return KL_OK;
}

int kl_device_facts(enum kl_device_type type, int index, const struct kl_device_fact **facts,
                    size_t *n, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(type, index, &b, err));
    *facts = type == KL_CPU ? dev.cpu_facts : dev.gpu_facts[index];
    *n = type == KL_CPU ? sizeof dev.cpu_facts / sizeof *dev.cpu_facts
                        : sizeof dev.gpu_facts[0] / sizeof *dev.gpu_facts[0];
    return KL_OK;
}

void kl_devices_fork_child(void) {
    kl_mutex_init(
        &dev.mu); /* a thread that is gone may have been opening a device; opening goes on where it stopped */
    for (int i = 0; i < dev.n_gpus; i++)
        if (dev.gpu[i]->ops->forked) dev.gpu[i]->ops->forked(dev.gpu[i]);
}
