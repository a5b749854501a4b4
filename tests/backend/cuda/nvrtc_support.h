/* nvrtc_support.h - a driver that compiles with NVRTC for sm_90 and runs nothing, for tests of what
 * the CUDA driver would compile. No device is needed. Without NVRTC nothing is compiled, and
 * nvrtc_report says so. */
#pragma once
#include "support.h"

#include "backend/cuda/cuda_api.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "base/alloc.h"

enum { CC = 90 };
static bool have_nvrtc;
static int n_made, n_compiled,
    n_not_done; /* kernels compiled by an earlier stage of the tests are found in its cache */
static struct { /* the binary that was loaded last */
    char *binary;
    size_t bytes;
} module;

static int nvrtc_compile(struct kl_driver *p, const char *source, const char *name, void **binary,
                         size_t *bytes, struct kl_error **err) {
    int rc = kl_nvrtc_compile(CC, source, name, binary, bytes, err);
    if (!rc) n_compiled++;
    return rc;
}

static int nvrtc_load(struct kl_driver *p, const void *binary, size_t bytes, void **out,
                      struct kl_error **err) {
    free(module.binary);
    assert_true(bytes > 4);
    assert_memory_equal(binary, "\177ELF", 4); /* machine code, not PTX */
    n_made++;
    module.binary = malloc(bytes);
    module.bytes = bytes;
    memcpy(module.binary, binary, bytes);
    *out = &module;
    return KL_OK;
}

/* The code of a kernel is in a section with the kernel's name. entry "" finds any kernel. */
static int nvrtc_find(struct kl_driver *p, void *of, const char *entry, void **kernel,
                      struct kl_error **err) {
    char section[128];
    size_t n = (size_t)snprintf(section, sizeof section, ".text.%s", entry) + (*entry != 0);
    if (!memmem(module.binary, module.bytes, section, n))
        return kl_fail(err, KL_ECOMPILE, "the program has no kernel '%s'", entry);
    *kernel = p;
    return KL_OK;
}

static int n_launched;
static struct { /* the last launch */
    uint32_t groups, local;
} last_launch;
static int nvrtc_launch(struct kl_driver *p, void *queue, void *kernel, uint32_t groups,
                        uint32_t local, const struct kl_karg *args, int n_args,
                        struct kl_error **err) {
    n_launched++;
    last_launch.groups = groups;
    last_launch.local = local;
    return KL_OK;
}

static const struct kl_driver_ops nvrtc_ops = {
    .compile = nvrtc_compile, .load = nvrtc_load, .find = nvrtc_find, .launch = nvrtc_launch};
static struct kl_driver driver = {.ops = &nvrtc_ops,
                                  .prelude = kl_source_prelude_cuda,
                                  .identity = "test",
                                  .max_local = 1024,
                                  .local_bytes = 48 << 10,
                                  .n_units = 132,
                                  .subgroup = 32,
                                  .has_f64 = true,
                                  .has_atomic64 = true,
                                  .has_wide_sums = true,
                                  .flushes_sums = true,
                                  .fast_exchange = true,
                                  .leaves_out = true,
                                  .compiles_cuda = true,
                                  .argument_bytes = 4 << 10};
static struct kl_lowering *lowering;

static int nvrtc_setup(void **state) {
    setenv("KEEL_CACHE_DIR", "", 0); /* the cache folder of the stages, or none */
    if (getenv("KEEL_TEST_QUICK_KERNELS")) strcpy(driver.identity, "test, quick");
    lowering = kl_lowering_new(&driver, NULL);
    return lowering ? 0 : -1;
}

/* Returns true, and says so, when nothing was done. */
static inline bool no_nvrtc(int n) {
    if (!have_nvrtc) n_not_done += n;
    return !have_nvrtc;
}

static inline int nvrtc_report(int rc) {
    const char *why = NULL;
    free(module.binary);
    if (!kl_nvrtc_api(&why))
        printf("NOT TESTED: %d programs were not compiled, since there is no NVRTC here: %s\n",
               n_not_done, why);
    else
        printf("%d programs for sm_%d, of which %d were compiled now\n", n_made, CC, n_compiled);
    return rc;
}
