/* fake_library.h - for the tests of one library of CUDA: the driver of fake_cuda.c, and the symbols
 * that a fake library exports to its test. The fakes are in the folder fake/ beside the program. */
#pragma once
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/gpu_internal.h"
#include "support.h"
#include "platform/self.h"

static struct kl_cuda *cu;
static struct kl_driver *drv;
static void *q;
static char fakes[4200];

/* `file`: as libcufft.so. */
static inline void *fake_symbol(const char *file, const char *name) {
    char path[4300];
    snprintf(path, sizeof path, "%s/lib64/%s", fakes, file);
    void *lib = dlopen(path, RTLD_NOW), *p = lib ? dlsym(lib, name) : NULL;
    assert_non_null(p);
    return p;
}

/* Called before the driver is loaded. `variable`, which names the library of the test, is unset. */
static inline void name_fakes(const char *variable) {
    static char self[4096];
    char path[4300];
    (void)t_self(self, sizeof self);
    snprintf(fakes, sizeof fakes, "%s/fake", dirname(self));
    snprintf(path, sizeof path, "%s/lib64/libcuda.so", fakes);
    setenv("KEEL_CUDA_PATH", fakes, 1);
    setenv("KEEL_CUDA_DRIVER", path, 1);
    setenv("KEEL_CACHE_DIR", "", 1);
    unsetenv(variable);
}

/* The first device, and a queue of it, which is made once. */
static inline void open_device(void) {
    struct kl_backend *b = NULL;
    struct kl_error *err = NULL;
    if (kl_cuda_open(0, &b, &err)) fail_msg("%s", err->message);
    drv = kl_gpu_device_of(b)->driver;
    cu = kl_cuda_of(drv);
    if (!q) assert_int_equal(drv->ops->queue_new(drv, 0, &q, &err), 0);
}
