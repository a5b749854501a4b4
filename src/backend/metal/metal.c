/* metal.c - see metal.h: finds the devices and opens them. */
#include "backend/metal/metal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/gpu/gpu.h"
#include "backend/gpu/lower/lower.h"
#include "backend/metal/metal_internal.h"
#include "base/fork_locks.h"

enum { MAX_DEVICES = 4, NEEDS_MACOS = 14 };

static struct {
    struct kl_mutex mu; /* taken before every other lock of this driver */
    bool looked;
    pid_t pid; /* the process that looked: a fork does not copy Metal's threads */
    struct kl_metal device[MAX_DEVICES];
    int n;
    const char *why; /* why there is no device; immortal */
    char text[256];  /* holds a `why` that is composed at run time */
} found = {.mu = KL_MUTEX_INIT};

/* ---- finding devices ---- */

/* The version of macOS; its major number. */
static int system_version(char *text, size_t room) {
    kl_metal_id cls = kl_metal_class("NSProcessInfo");
    struct kl_metal_version v = {0};
    if (cls) v = kl_metal_os_version(kl_metal_process_info(cls));
    snprintf(text, room, "macOS %ld.%ld.%ld", v.major, v.minor, v.patch);
    return (int)v.major;
}

static void text_of(kl_metal_id string, char *out, size_t room) {
    const char *s = string ? kl_metal_utf8(string) : NULL;
    snprintf(out, room, "%s", s ? s : "");
}

static void describe(struct kl_metal *d, const char *system) {
    struct kl_gpu_facts *f = &d->facts;
    text_of(kl_metal_name_of(d->device), f->name, sizeof f->name);
    snprintf(f->vendor, sizeof f->vendor, "Apple");
    snprintf(f->driver, sizeof f->driver, "Metal, %s", system);
    if (kl_metal_responds(d->device, which_kl_metal_architecture)) {
        kl_metal_id architecture = kl_metal_architecture(d->device);
        if (architecture)
            text_of(kl_metal_name_of(architecture), f->architecture, sizeof f->architecture);
    }
    d->working_set_bytes = kl_metal_working_set(d->device);
    d->max_buffer_bytes = kl_metal_max_buffer(d->device);
    d->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    f->memory_bytes = d->working_set_bytes;
}

/* Whether the kernels and the driver are right on this device. */
static bool can_run(kl_metal_id device) {
    return kl_metal_supports_family(device, KL_METAL_FAMILY_APPLE7) &&
           kl_metal_has_unified_memory(device);
}

static const char *look(void) {
    const char *why = kl_metal_load();
    char system[64];
    if (why) return why;
    if (system_version(system, sizeof system) < NEEDS_MACOS) {
        snprintf(found.text, sizeof found.text,
                 "%s is too old: the kernels are written in Metal's language 3.1, which macOS %d "
                 "brings",
                 system, NEEDS_MACOS);
        return found.text;
    }
    kl_metal_id all = kl_metal_all_devices();
    kl_metal_uint n = all ? kl_metal_count_of(all) : 0;
    char refused[128] = "";
    for (kl_metal_uint i = 0; i < n && found.n < MAX_DEVICES; i++) {
        kl_metal_id device = kl_metal_object_at(all, i);
        if (!can_run(device)) {
            text_of(kl_metal_name_of(device), refused, sizeof refused);
            continue;
        }
        struct kl_metal *d = &found.device[found.n];
        d->index = found.n++;
        d->device = kl_metal_retain(device);
        describe(d, system);
    }
    if (all) kl_metal_release(all);
    if (found.n > 0) return NULL;
    if (!refused[0]) return "Metal has no device here";
    snprintf(found.text, sizeof found.text,
             "Metal's device '%s' is not one of Apple's own (M1 or later), for which the kernels "
             "are written",
             refused);
    return found.text;
}

static void look_once(void) {
    if (found.looked) return;
    kl_fork_lock_add(&found.mu);
    found.pid = getpid();
    const char *why = kl_metal_load();
    void *pool = why ? NULL : kl_metal_pool_push();
    found.why = look();
    kl_metal_pool_pop(pool);
    found.looked = true;
}

int kl_metal_count(const char **why) {
    kl_mutex_lock(&found.mu);
    look_once();
    if (why) *why = found.why;
    int n = found.n;
    kl_mutex_unlock(&found.mu);
    return n;
}

void kl_metal_facts(int index, struct kl_gpu_facts *out) {
    *out = found.device[index].facts; /* does not change once the devices are counted */
}

kl_metal_id kl_metal_device(int index) {
    return found.device[index].device;
}

/* ---- opening ---- */

static void forked(struct kl_driver *d) {
    atomic_store(&kl_metal_of(d)->forked, true);
}

static int enter(struct kl_driver *d, struct kl_error **err) {
    return kl_metal_usable(kl_metal_of(d), err);
}

static const struct kl_driver_ops ops = {.alloc = kl_metal_alloc,
                                         .free = kl_metal_free,
                                         .read = kl_metal_read,
                                         .write = kl_metal_write,
                                         .queue_new = kl_metal_queue_new,
                                         .event_new = kl_metal_event_new,
                                         .event_free = kl_metal_event_free,
                                         .words_new = kl_metal_words_new,
                                         .words_clear = kl_metal_words_clear,
                                         .event_query = kl_metal_event_query,
                                         .why_lost = kl_metal_why_lost,
                                         .wait_any = kl_metal_wait_any,
                                         .wake = kl_metal_wake,
                                         .forked = forked,
                                         .share = kl_metal_share,
                                         .unshare = kl_metal_unshare,
                                         .enter = enter,
                                         .compile = kl_metal_compile,
                                         .load = kl_metal_load_source,
                                         .find = kl_metal_find_kernel,
                                         .limits = kl_metal_limits,
                                         .begin = kl_metal_begin,
                                         .end = kl_metal_end,
                                         .abandon = kl_metal_abandon,
                                         .launch = kl_metal_launch,
                                         .launch_3d = kl_metal_launch_3d,
                                         .copy = kl_metal_copy};

/* KEEL_ZERO_COPY=0 treats the device as if it had memory of its own. */
static bool shares(void) {
    const char *e = getenv("KEEL_ZERO_COPY");
    return !e || strcmp(e, "0") != 0;
}

static int open_device(struct kl_metal *d, struct kl_error **err) {
    int rc;
    snprintf(d->name, sizeof d->name, "metal%d", d->index);
    struct kl_driver *driver = &d->driver;
    *driver = (struct kl_driver){.ops = &ops,
                                 .name = d->name,
                                 .lowering = driver->lowering, /* of an earlier attempt */
                                 .max_positions = INT64_C(1) << 31,
                                 .apart = true,
                                 .shares = shares()};
    kl_places_init(&d->places);
    kl_mutex_init(&d->fresh_mu);
    kl_mutex_init(&d->mu);
    pthread_cond_init(&d->changed, NULL);
    kl_metal_handler_init(d);
    d->nothing = kl_metal_new_buffer(d->device, 16, KL_METAL_STORAGE_SHARED_UNTRACKED);
    if (!d->nothing) return kl_fail_nomem(err);
    if ((rc = kl_metal_programs_init(d, err))) goto fail_programs;
    /* The lowering is immortal, so it is made once, even when a later step fails and opening is
     * tried again. */
    rc = KL_ENOMEM;
    if (!driver->lowering && !(driver->lowering = kl_lowering_new(driver, err))) goto fail_lowering;
    if (!(d->backend = kl_gpu_backend_new(driver, d->index, err))) goto fail_lowering;
    return KL_OK;
fail_lowering:
    kl_metal_release(d->options);
fail_programs:
    kl_metal_release(d->nothing);
    return rc;
}

int kl_metal_open(int index, struct kl_backend **out, struct kl_error **err) {
    int rc = KL_OK;
    kl_mutex_lock(&found.mu);
    look_once();
    void *pool = found.n > 0 ? kl_metal_pool_push() : NULL;
    if (index < 0 || index >= found.n)
        rc = kl_fail(err, KL_EDEVICE, "Metal's device %d does not exist: %s", index,
                     found.why ? found.why : "there are fewer");
    else if (!found.device[index].backend && found.pid != getpid())
        rc = kl_fail(err, KL_EDEVICE,
                     "Metal was started before this process forked; it cannot be used in the "
                     "child");
    else if (!found.device[index].backend)
        rc = open_device(&found.device[index], err);
    if (!rc) *out = found.device[index].backend;
    kl_metal_pool_pop(pool);
    kl_mutex_unlock(&found.mu);
    return rc;
}
