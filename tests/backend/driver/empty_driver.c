/* empty_driver.c - a driver that supports nothing: every slot fails with KL_EUNSUPPORTED and a
 * message that names the slot. A new driver begins as a copy of this file, and its slots are
 * filled one after the other while the suites next to it tell what is missing
 * (docs/new-driver.md). */
#include "backend/driver/empty_driver.h"

#include "backend/gpu/lower/lower.h"

static int unsupported(struct kl_driver *d, const char *slot, struct kl_error **err) {
    return kl_fail(err, KL_EUNSUPPORTED, "device '%s' does not support %s", d->name, slot);
}

/* ---- memory ---- */

static int alloc_block(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err) {
    return unsupported(d, "alloc", err);
}

static void free_block(struct kl_driver *d, void *ptr, size_t bytes) {
}

static int read_block(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                      struct kl_error **err) {
    return unsupported(d, "read", err);
}

static int write_block(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                       struct kl_error **err) {
    return unsupported(d, "write", err);
}

static int share_block(struct kl_driver *d, void *ptr, size_t bytes, bool mine,
                       struct kl_error **err) {
    return unsupported(d, "share", err);
}

static void unshare_block(struct kl_driver *d, void *ptr, size_t bytes, bool mine) {
}

/* ---- queues, events and fault words ---- */

static int queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err) {
    return unsupported(d, "queue_new", err);
}

static int event_new(struct kl_driver *d, void **event, struct kl_error **err) {
    return unsupported(d, "event_new", err);
}

static void event_free(struct kl_driver *d, void *event) {
}

/* There is no event, so it never completes. */
static int event_query(struct kl_driver *d, void *event) {
    return KL_EUNSUPPORTED;
}

static void why_lost(struct kl_driver *d, char *text, size_t room) {
}

static void wait_any(struct kl_driver *d, void *const *events, int n) {
}

static void wake(struct kl_driver *d) {
}

static int words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    return unsupported(d, "words_new", err);
}

static int words_fetch(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err) {
    return unsupported(d, "words_fetch", err);
}

static void words_clear(struct kl_driver *d, struct kl_fault_words *w) {
}

static void forked(struct kl_driver *d) {
}

/* ---- programs ---- */

static int enter(struct kl_driver *d, struct kl_error **err) {
    return unsupported(d, "enter", err);
}

static void leave(struct kl_driver *d) {
}

static int compile(struct kl_driver *d, const char *source, const char *name, void **binary,
                   size_t *bytes, struct kl_error **err) {
    return unsupported(d, "compile", err);
}

static int load(struct kl_driver *d, const void *binary, size_t bytes, void **module,
                struct kl_error **err) {
    return unsupported(d, "load", err);
}

static int load_program(struct kl_driver *d, const void *program, size_t bytes, const char *name,
                        void **module, struct kl_error **err) {
    return unsupported(d, "load_program", err);
}

static int find(struct kl_driver *d, void *module, const char *entry, void **kernel,
                struct kl_error **err) {
    return unsupported(d, "find", err);
}

static int limits(struct kl_driver *d, void *kernel, struct kl_kernel_limits *out,
                  struct kl_error **err) {
    return unsupported(d, "limits", err);
}

/* ---- submissions ---- */

static int begin(struct kl_driver *d, void *queue, void *const *waits, int n_waits,
                 struct kl_error **err) {
    return unsupported(d, "begin", err);
}

static int end(struct kl_driver *d, void *queue, struct kl_fault_words *brings_back, void *signal,
               struct kl_error **err) {
    return unsupported(d, "end", err);
}

static int abandon(struct kl_driver *d, void *queue) {
    return KL_OK; /* nothing was launched */
}

static int launch(struct kl_driver *d, void *queue, void *kernel, uint32_t groups, uint32_t local,
                  const struct kl_karg *args, int n_args, struct kl_error **err) {
    return unsupported(d, "launch", err);
}

static int launch_3d(struct kl_driver *d, void *queue, void *kernel, const uint32_t *groups,
                     const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                     int n_args, struct kl_error **err) {
    return unsupported(d, "launch_3d", err);
}

static int launch_program(struct kl_driver *d, void *queue, void *kernel, const uint32_t *groups,
                          const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                          int n_args, struct kl_error **err) {
    return unsupported(d, "launch_program", err);
}

static int copy(struct kl_driver *d, void *queue, void *dst, const void *src, size_t bytes,
                struct kl_error **err) {
    return unsupported(d, "copy", err);
}

static int override(struct kl_emit *e, const struct kl_command *c) {
    return 0; /* every command is lowered */
}

static const struct kl_driver_ops ops = {
    .alloc = alloc_block,
    .free = free_block,
    .read = read_block,
    .write = write_block,
    .queue_new = queue_new,
    .event_new = event_new,
    .event_free = event_free,
    .words_new = words_new,
    .words_fetch = words_fetch,
    .words_clear = words_clear,
    .event_query = event_query,
    .why_lost = why_lost,
    .wait_any = wait_any,
    .wake = wake,
    .forked = forked,
    .share = share_block,
    .unshare = unshare_block,
    .enter = enter,
    .leave = leave,
    .compile = compile,
    .load = load,
    .load_program = load_program,
    .find = find,
    .limits = limits,
    .begin = begin,
    .end = end,
    .abandon = abandon,
    .launch = launch,
    .launch_3d = launch_3d,
    .launch_program = launch_program,
    .copy = copy,
    .override = override,
};

/* ---- opening: the functions that a row of runtime/device.c names ---- */

static struct kl_driver driver = {.ops = &ops,
                                  .name = "empty0",
                                  .max_positions = INT64_C(1) << 31,
                                  .prelude = "",
                                  .identity = "empty",
                                  .max_local = 1,
                                  .n_units = 1,
                                  .subgroup = 1,
                                  .argument_bytes = 1 << 10};
static struct kl_backend *backend;

int empty_count(const char **why) {
    *why = NULL;
    return 1;
}

int empty_open(int index, struct kl_backend **out, struct kl_error **err) {
    /* That which one call has made stays when a later step fails. */
    if (!driver.lowering && !(driver.lowering = kl_lowering_new(&driver, err))) return KL_ENOMEM;
    if (!backend && !(backend = kl_gpu_backend_new(&driver, index, err))) return KL_ENOMEM;
    *out = backend;
    return KL_OK;
}

void empty_facts(int index, struct kl_gpu_facts *out) {
    *out = (struct kl_gpu_facts){.name = "empty0", .architecture = "empty"};
}
