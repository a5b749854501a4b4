/* fake_driver.h - what drivers have in common that compile and launch nothing, for tests of the
 * lowering: binaries of one byte, modules and kernels that are only told from NULL, the numbers of
 * a device, and lowerings. */
#pragma once
#include "support.h"

#include "backend/gpu/lower/lower.h"
#include "base/alloc.h"

/* What such a compiler gives. */
static inline int fd_binary(void **binary, size_t *bytes, struct kl_error **err) {
    *bytes = 1;
    *binary = kl_malloc(1);
    return *binary ? KL_OK : kl_fail_nomem(err);
}

static inline int fd_compile(struct kl_driver *p, const char *source, const char *name,
                             void **binary, size_t *bytes, struct kl_error **err) {
    return fd_binary(binary, bytes, err);
}

static inline int fd_load(struct kl_driver *p, const void *binary, size_t bytes, void **module,
                          struct kl_error **err) {
    *module = p;
    return KL_OK;
}

static inline int fd_find(struct kl_driver *p, void *module, const char *entry, void **kernel,
                          struct kl_error **err) {
    *kernel = module;
    return KL_OK;
}

static inline int fd_enter(struct kl_driver *p, struct kl_error **err) {
    return KL_OK;
}

static inline struct kl_driver fd_driver(const struct kl_driver_ops *ops) {
    return (struct kl_driver){.ops = ops,
                              .prelude = "",
                              .identity = "fake",
                              .max_local = 1024,
                              .local_bytes = 48 << 10,
                              .n_units = 100,
                              .subgroup = 32};
}

/* The address of block i of such a device's memory, of 4 GB each; it is never read. */
static inline char *fd_block(int i) {
    return (char *)(uintptr_t)((uint64_t)(i + 1) << 32);
}

/* A lowering that knows no kernel, and looks for none on disk. The table keeps leak checkers from
 * reporting them: they are never freed. */
static inline struct kl_lowering *fd_lowering(struct kl_driver *driver) {
    enum { MOST = 512 };
    static struct kl_lowering *all[MOST];
    static int n;
    struct kl_error *err = NULL;
    setenv("KEEL_CACHE_DIR", "", 1);
    assert_true(n < MOST);
    all[n] = kl_lowering_new(driver, &err);
    if (!all[n]) fail_msg("%s", err->message);
    return all[n++];
}
