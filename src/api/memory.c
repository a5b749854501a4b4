/* memory.c - mlx/c/memory.h. */
#include "api/handles/handles.h"
#include "base/alloc.h"
#include "runtime/block_pool.h"

static int give(const char *func, size_t *res, size_t (*figure)(void)) {
    struct kl_call c = kl_call_begin(func, res);
    if (!c.err) *res = figure();
    return kl_call_end_plain(&c);
}

static int change(const char *func, size_t *res, size_t (*set)(size_t), size_t limit) {
    struct kl_call c = kl_call_begin(func, res);
    if (!c.err) *res = set(limit);
    return kl_call_end_plain(&c);
}

int mlx_clear_cache(void) {
    kl_memory_clear_cache();
    kl_heap_trim();
    return 0;
}

int mlx_get_active_memory(size_t *res) {
    return give(__func__, res, kl_memory_active);
}

int mlx_get_cache_memory(size_t *res) {
    return give(__func__, res, kl_memory_cached);
}

int mlx_get_memory_limit(size_t *res) {
    return give(__func__, res, kl_memory_limit);
}

int mlx_get_peak_memory(size_t *res) {
    return give(__func__, res, kl_memory_peak);
}

int mlx_reset_peak_memory(void) {
    kl_memory_reset_peak();
    return 0;
}

int mlx_set_cache_limit(size_t *res, size_t limit) {
    return change(__func__, res, kl_memory_cache_limit_set, limit);
}

int mlx_set_memory_limit(size_t *res, size_t limit) {
    return change(__func__, res, kl_memory_set_limit, limit);
}

int mlx_set_wired_limit(size_t *res, size_t limit) {
    return change(__func__, res, kl_memory_set_wired_limit, limit);
}
