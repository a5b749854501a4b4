/* merge.c - launches of kernels, and launches of several commands that become one launch. */
#include <stdatomic.h>
#include <string.h>

#include "backend/gpu/lower/lowering.h"

int kl_hand_over(struct kl_emit *e, void *kernel, uint32_t groups, uint32_t local,
                 size_t shared_bytes, const struct kl_karg *args, int n_args) {
    if (shared_bytes)
        return e->driver->ops->launch_3d(
            e->driver, e->queue, kernel, (const uint32_t[]){groups, 1, 1},
            (const uint32_t[]){local, 1, 1}, shared_bytes, args, n_args, e->err);
    return e->driver->ops->launch(e->driver, e->queue, kernel, groups, local, args, n_args, e->err);
}

static size_t padded(size_t bytes) {
    return (bytes + KL_MERGED_ALIGN - 1) / KL_MERGED_ALIGN * KL_MERGED_ALIGN;
}

/* The bytes of the arguments as a merged kernel takes them: each parameter at a multiple of
 * KL_MERGED_ALIGN; an address is two parameters. */
static size_t merged_bytes_of(const struct kl_waiting *l) {
    size_t bytes = 0;
    for (int i = 0; i < l->n_args; i++)
        bytes += l->args[i].bytes ? padded(l->args[i].bytes) : 2 * KL_MERGED_ALIGN;
    return bytes;
}

static void put_merged(char *to, const struct kl_waiting *l) {
    for (int i = 0; i < l->n_args; i++) {
        const struct kl_karg *a = &l->args[i];
        memcpy(to, a->bytes ? a->value : &a->value, a->bytes ? a->bytes : sizeof a->value);
        to += a->bytes ? padded(a->bytes) : 2 * KL_MERGED_ALIGN;
    }
}

static int launch_alone(struct kl_emit *e, const struct kl_waiting *l) {
    return kl_hand_over(e, l->kernel->kernel, l->groups, l->kernel->local, l->shared_bytes, l->args,
                        l->n_args);
}

/* Launches n launches of one kernel as one: 1; 0: that is not possible. The groups of each are one
 * row of a grid in two dimensions. */
static int launch_merged(struct kl_emit *e, const struct kl_waiting *const *launches, int n) {
    const struct kl_waiting *first = launches[0];
    const size_t each = merged_bytes_of(first);
    struct { /* prelude_cuda.kl has the same */
        uint32_t groups[KL_MOST_SIDE_BY_SIDE];
        _Alignas(KL_MERGED_ALIGN) char values[KL_MERGED_MOST];
    } all;
    uint32_t most = 0;
    if (n < 2 || !e->driver->merges || !first->kernel->family ||
        (size_t)n * each > sizeof all.values || atomic_load(&e->lowering->one_by_one))
        return 0;
    memset(&all, 0, sizeof all.groups + (size_t)n * each);
    for (int i = 0; i < n; i++) {
        all.groups[i] = launches[i]->groups;
        if (most < launches[i]->groups) most = launches[i]->groups;
        put_merged(all.values + (size_t)i * each, launches[i]);
    }
    struct kl_wanted w = {.e = kl_compiled_like(first->kernel),
                          .file = first->kernel->family->name,
                          .once = e->ahead};
    struct kl_compiled *found;
    w.e.merged = n;
    w.e.merged_bytes = each;
    w.e.hash = kl_hash_mix(kl_hash_mix(w.e.hash, (uint64_t)n), each);
    /* Launches that cannot be merged are launched one by one; an attempt at every command buffer
     * would cost more than merging gains. */
    struct kl_error *ignored = NULL;
    int made = kl_compiled_start(e->lowering, &w, &found, &ignored);
    if (e->ahead) {
        kl_error_release(ignored);
        return 1;
    }
    if (!made && !kl_compiled_is_ready(found)) kl_pass_look_ahead(e);
    if (!made) made = kl_compiling_wait(found, &ignored);
    if (made) {
        if (made != KL_ENOMEM) atomic_store(&e->lowering->one_by_one, true);
        kl_error_release(ignored);
        return 0;
    }
    if (found->limits.max_local && w.e.local > found->limits.max_local) return 0;
    struct kl_karg arg = {&all, sizeof all.groups + (size_t)n * each, 0};
    const int rc = e->driver->ops->launch_3d(
        e->driver, e->queue, found->kernel, (const uint32_t[]){most, (uint32_t)n, 1},
        (const uint32_t[]){w.e.local, 1, 1}, first->shared_bytes, &arg, 1, e->err);
    return rc ? rc : 1;
}

int kl_side_launch(struct kl_emit *e, const struct kl_side *s) {
    bool done[KL_MOST_SIDE_BY_SIDE] = {false};
    for (int i = 0; i < s->n; i++) {
        const struct kl_waiting *same[KL_MOST_SIDE_BY_SIDE];
        int n = 0;
        for (int k = i; k < s->n; k++) {
            if (done[k] || s->launch[k].kernel != s->launch[i].kernel ||
                s->launch[k].shared_bytes != s->launch[i].shared_bytes)
                continue;
            same[n++] = &s->launch[k];
            done[k] = true;
        }
        if (n == 0) continue;
        const int rc = launch_merged(e, same, n);
        if (rc < 0) return rc;
        for (int k = 0; k < n && rc == 0 && !e->ahead; k++) KL_TRY(launch_alone(e, same[k]));
    }
    return KL_OK;
}

int kl_side_settle(struct kl_emit *e) {
    struct kl_side *s = e->side;
    e->side = NULL;
    for (int i = 0; s && i < s->n && !e->ahead; i++) KL_TRY(launch_alone(e, &s->launch[i]));
    if (s) s->n = 0;
    return KL_OK;
}

bool kl_side_keep(struct kl_side *s, struct kl_compiled *kernel, uint32_t groups,
                  size_t shared_bytes, const struct kl_karg *args, int n_args) {
    if (s->again || s->n == KL_MOST_SIDE_BY_SIDE) return false;
    struct kl_waiting *l = &s->launch[s->n];
    l->kernel = kernel;
    l->groups = groups;
    l->shared_bytes = shared_bytes;
    l->n_args = n_args;
    l->value_bytes = 0;
    for (int i = 0; i < n_args; i++) {
        l->args[i] = args[i];
        if (args[i].bytes == 0) continue;
        if (l->value_bytes + padded(args[i].bytes) > sizeof l->values) return false;
        l->args[i].value = memcpy(l->values + l->value_bytes, args[i].value, args[i].bytes);
        l->value_bytes += padded(args[i].bytes);
    }
    s->n++;
    s->again = true;
    return true;
}
