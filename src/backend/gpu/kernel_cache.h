/* kernel_cache.h - compiled kernels on disk, by source, options, device and driver version.
 *
 * $KEEL_CACHE_DIR, else $XDG_CACHE_HOME/keel, else $HOME/.cache/keel; KEEL_CACHE_DIR= (empty) switches it off. A missing, damaged or
 * foreign entry is made anew; a folder that cannot be written is no error. Entries are written beside and renamed, so that
 * processes that write the same one at once do not meet. Any thread may call. */
#pragma once
#include "backend/gpu/port.h"

/* The module of this source: from the disk, or compiled and stored. name: of the source, in messages. */
int kl_kernel_cache_module(struct kl_port *port, const char *source, const char *name,
                           void **module, struct kl_error **err);
/* For tests and figures: how many sources this process has compiled, and how many it found. */
uint64_t kl_kernel_cache_compiled(void);
uint64_t kl_kernel_cache_found(void);
