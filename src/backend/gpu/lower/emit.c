/* emit.c - launches for the families of operations: of kernels of a family, of sources made at run
 * time and of kernels of users; and parts of a command's workspace. */
#include <string.h>

#include "backend/gpu/lower/lowering.h"
#include "base/op/validate.h"

/* Test builds check every launch; other builds check under KEEL_VALIDATE=1. */
static bool checks_addresses(void) {
#ifdef KL_TEST_HOOKS
    return true;
#else
    return kl_validating();
#endif
}

/* A kernel needs each address aligned to the items that it reads or writes there. CUDA loses the
 * device where an address is not aligned, and processors do not notice. This check finds mistakes
 * in the division of scratch memory. */
static int check_addresses(struct kl_emit *e, const char *kernel, const struct kl_karg *args,
                           int n_args) {
    for (int i = 0; i < n_args && checks_addresses(); i++) {
        if (args[i].bytes || !args[i].value) continue;
        if (args[i].item == 0)
            return kl_fail(e->err, KL_EINTERNAL,
                           "kernel '%s': argument %d is an address without the size of its items",
                           kernel, i);
        if ((uintptr_t)args[i].value % args[i].item)
            return kl_fail(e->err, KL_EVALIDATE,
                           "kernel '%s': argument %d, the address %#llx, is not aligned to its "
                           "items of %u bytes",
                           kernel, i, (unsigned long long)(uintptr_t)args[i].value, args[i].item);
    }
    return KL_OK;
}

/* In a dry run the kernel may be one that is still compiled. It is noted then, so that the caller
 * who waits for it can tell its failure. */
static int find(struct kl_emit *e, struct kl_wanted *w, struct kl_compiled **out) {
    struct kl_pending *p = e->pending;
    w->once = e->ahead;
    KL_TRY(kl_compiled_start(e->lowering, w, out, e->err));
    if (!kl_compiled_is_ready(*out) && p && p->n < KL_MOST_PENDING) {
        for (int i = 0; i < p->n; i++)
            if (p->kernel[i] == *out) return KL_OK;
        p->kernel[p->n++] = *out;
        return KL_OK;
    }
    if (!kl_compiled_is_ready(*out)) {
        if (e->ahead) return KL_OK;
        kl_pass_look_ahead(e);
        KL_TRY(kl_compiling_wait(*out, e->err));
    }
    return kl_compiled_check(*out, e->err);
}

static int launch(struct kl_emit *e, struct kl_wanted *w, int64_t groups, size_t shared_bytes,
                  const struct kl_karg *args, int n_args) {
    struct kl_compiled *found;
    if (e->sizes_only) return KL_OK;
    KL_TRY(find(e, w, &found));
    if (e->driver->max_args && n_args > e->driver->max_args)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %d arguments, of which this device takes %d",
                       w->e.name, n_args, e->driver->max_args);
    if (e->ahead && e->side && groups > 0)
        (void)kl_side_keep(e->side, found, (uint32_t)groups, shared_bytes, args, n_args);
    if (e->dry || groups <= 0) return KL_OK;
    if (groups > INT32_MAX)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %lld work-groups, more than a device takes",
                       w->e.name, (long long)groups);
    KL_TRY(check_addresses(e, w->e.name, args, n_args));
    if (e->side && kl_side_keep(e->side, found, (uint32_t)groups, shared_bytes, args, n_args))
        return KL_OK;
    KL_TRY(kl_side_settle(e));
    return kl_hand_over(e, found->kernel, (uint32_t)groups, w->e.local, shared_bytes, args, n_args);
}

int kl_emit_plain_copy(struct kl_emit *e, void *to, const void *from, size_t bytes) {
    KL_TRY(kl_side_settle(e));
    return e->driver->ops->copy(e->driver, e->queue, to, from, bytes, e->err);
}

static int launch_fed(struct kl_emit *e, struct kl_wanted *w, int64_t groups, size_t shared_bytes,
                      const struct kl_karg *args, int n_args) {
    const struct kl_feed *f = e->feed;
    struct kl_karg all[KL_MAX_KARGS];
    if (n_args + f->n_args > KL_MAX_KARGS)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %d arguments, of which a kernel takes %d",
                       w->e.name, n_args + f->n_args, KL_MAX_KARGS);
    memcpy(all, args, (size_t)n_args * sizeof *all);
    memcpy(all + n_args, f->args, (size_t)f->n_args * sizeof *all);
    w->e.key = f->key;
    w->e.key_bytes = f->key_bytes;
    w->e.hash = kl_hash_mix(w->e.hash, kl_hash_bytes(f->key, f->key_bytes));
    w->source = f->source;
    w->ctx = f->ctx;
    return launch(e, w, groups, shared_bytes, all, n_args + f->n_args);
}

int kl_emit(struct kl_emit *e, const struct kl_family *f, const int *values, const char *entry,
            int64_t groups, uint32_t local, const struct kl_karg *args, int n_args) {
    return kl_emit_shared(e, f, values, entry, groups, local, 0, args, n_args);
}

int kl_emit_shared(struct kl_emit *e, const struct kl_family *f, const int *values,
                   const char *entry, int64_t groups, uint32_t local, size_t shared_bytes,
                   const struct kl_karg *args, int n_args) {
    struct kl_wanted w = {.e = {.family = f, .local = local, .name = entry}, .file = f->name};
    int n = kl_n_defines(f);
    w.e.hash = kl_hash_mix((uintptr_t)f, local);
    for (int i = 0; i < n; i++) {
        w.e.values[i] = values[i];
        w.e.hash = kl_hash_mix(w.e.hash, (uint64_t)(int64_t)values[i]);
        if (strncmp(f->defines[i], "T:", 2) == 0 && values[i] == KL_F64 && !e->driver->has_f64)
            return kl_fail(e->err, KL_EUNSUPPORTED, "%s: this device has no float64", entry);
    }
    w.e.hash = kl_hash_mix(w.e.hash, kl_hash_bytes(entry, strlen(entry)));
    /* Kernels that join parts do not read the input. */
    if (e->feed && args[0].value == e->feed->address)
        return launch_fed(e, &w, groups, shared_bytes, args, n_args);
    return launch(e, &w, groups, shared_bytes, args, n_args);
}

size_t kl_emit_spread_bytes(const struct kl_emit *e, size_t bytes, int n) {
    /* A group may have nearly all of a multiprocessor's shared memory. */
    const size_t least = e->driver->dynamic_bytes / (size_t)(n + 1) / 16 * 16 + 16;
    return bytes > least || e->driver->dynamic_bytes < least ? bytes : least;
}

static int emit_made(struct kl_emit *e, const char *file, const void *key, size_t key_bytes,
                     char *(*source)(void *ctx), void *ctx, const char *entry, int64_t groups,
                     uint32_t local, const struct kl_karg *args, int n_args) {
    struct kl_wanted w = {.e = {.local = local, .name = entry, .key = key, .key_bytes = key_bytes},
                          .file = file,
                          .source = source,
                          .ctx = ctx};
    w.e.hash = kl_hash_mix(kl_hash_mix(kl_hash_bytes(key, key_bytes), local),
                           kl_hash_bytes(entry, strlen(entry)));
    return launch(e, &w, groups, 0, args, n_args);
}

int kl_emit_made(struct kl_emit *e, const void *key, size_t key_bytes, char *(*source)(void *ctx),
                 void *ctx, const char *entry, int64_t groups, uint32_t local,
                 const struct kl_karg *args, int n_args) {
    return emit_made(e, entry, key, key_bytes, source, ctx, entry, groups, local, args, n_args);
}

int kl_emit_source(struct kl_emit *e, const char *name, const char *source, const char *entry,
                   int64_t groups, uint32_t local, const struct kl_karg *args, int n_args) {
    return emit_made(e, name, source, strlen(source) + 1, NULL, NULL, entry, groups, local, args,
                     n_args);
}

/* Whether the compiled kernel can run in groups of the wanted size. A driver would refuse a wrong
 * size only at hand-over, together with the whole command buffer. */
static int check_grid(struct kl_emit *e, const struct kl_grid_launch *g,
                      const struct kl_kernel_limits *limits) {
    size_t has = e->driver->dynamic_bytes && g->shared_bytes ? e->driver->dynamic_bytes
                                                             : e->driver->local_bytes;
    uint32_t in_group = g->local[0] * g->local[1] * g->local[2];
    if (limits->max_local && in_group > limits->max_local)
        return kl_fail(e->err, KL_EARG,
                       "kernel '%s': thread group (%u, %u, %u) is %u threads; this device takes %u "
                       "of this kernel, by what each of them needs",
                       g->name, g->local[0], g->local[1], g->local[2], in_group, limits->max_local);
    if (limits->shared_bytes + g->shared_bytes > has)
        return kl_fail(e->err, KL_EARG,
                       "kernel '%s': %zu bytes of shared memory in its source and %zu in the call; "
                       "this device has %zu per group",
                       g->name, limits->shared_bytes, g->shared_bytes, has);
    return KL_OK;
}

int kl_emit_grid(struct kl_emit *e, const struct kl_grid_launch *g, const struct kl_karg *args,
                 int n_args) {
    const bool is_program = g->program_bytes != 0;
    /* A program is the same for all groups: 0 stands for them, which no source has. */
    struct kl_wanted w = {.e = {.local = is_program ? 0 : g->local[0] * g->local[1] * g->local[2],
                                .name = g->entry,
                                .key = g->source,
                                .key_bytes = is_program ? g->program_bytes : strlen(g->source) + 1},
                          .file = g->name,
                          .library = g->library,
                          .bare = g->bare,
                          .is_program = is_program};
    struct kl_compiled *found;
    if (e->ahead) return KL_OK; /* compiled when the operation was encoded */
    w.e.hash = kl_hash_mix(
        kl_hash_mix(kl_hash_bytes(w.e.key, w.e.key_bytes), w.e.local + (uint64_t)g->bare),
        kl_hash_bytes(g->entry, strlen(g->entry)));
    KL_TRY(kl_compiled_get(e->lowering, &w, &found, e->err));
    if (e->dry) return check_grid(e, g, &found->limits);
    KL_TRY(check_addresses(e, g->name, args, n_args));
    KL_TRY(kl_side_settle(e));
    return (is_program ? e->driver->ops->launch_program : e->driver->ops->launch_3d)(
        e->driver, e->queue, found->kernel, g->groups, g->local, g->shared_bytes, args, n_args,
        e->err);
}

int kl_emit_workspace(struct kl_emit *e, size_t bytes, void **ptr) {
    *ptr = NULL;
    if (bytes == 0) return KL_OK;
    const size_t at = e->used;
    if (bytes > SIZE_MAX / 2 || at > SIZE_MAX / 2)
        return kl_fail(e->err, KL_ENOMEM, "out of memory: a workspace of %zu bytes", bytes);
    e->used += kl_scratch_bytes(bytes);
    if (e->dry) return KL_OK;
    if (e->used > e->room)
        return kl_fail(e->err, KL_EINTERNAL, "a workspace of %zu bytes, where %zu were given",
                       e->used, e->room);
    *ptr = e->workspace + at;
    return KL_OK;
}

/* ---- what was stored before ---- */

bool kl_emit_unwritten(const struct kl_emit *e, const struct kl_arg *a) {
    const struct kl_extent wanted = kl_extent_of(a);
    const uintptr_t own = (uintptr_t)e->workspace; /* earlier kernels of the command store there */
    if (e->dry || kl_extents_overlap(wanted, (struct kl_extent){own, own + e->room})) return false;
    for (int i = 0; i < e->n_before; i++) {
        const struct kl_command *c = &e->before[i];
        for (int k = 0; k < c->n_out && c->kind == KL_CMD_LAUNCH; k++)
            if (kl_extents_overlap(wanted, kl_extent_of(&c->args[c->n_in + k]))) return false;
    }
    return true;
}
