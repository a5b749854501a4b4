/* kernel_cache.h - compiled kernels on disk, found by source, options, device and driver version.
 *
 * The folder is $KEEL_CACHE_DIR, else $XDG_CACHE_HOME/keel, else $HOME/.cache/keel; an empty
 * KEEL_CACHE_DIR switches the cache off. A missing, damaged or foreign entry is made again; a
 * folder that cannot be written is no error. An entry is written under another name and renamed, so
 * that several processes may write the same entry at once. Any thread may call. */
#pragma once
#include "backend/gpu/driver.h"

/* The module of this source, loaded from the disk, or compiled and stored. name: what messages call
 * the source. */
int kl_kernel_cache_module(struct kl_driver *d, const char *source, const char *name, void **module,
                           struct kl_error **err);
/* For tests and statistics: how many sources this process has compiled, and how many it found on
 * disk. */
uint64_t kl_kernel_cache_compiled(void);
uint64_t kl_kernel_cache_found(void);
