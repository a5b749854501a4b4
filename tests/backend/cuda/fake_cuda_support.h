/* fake_cuda_support.h - for tests of the CUDA driver over fake_cuda.c: what the fake is told, and
 * a thread that sleeps until an event. */
#pragma once
#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>

#include "cuda_support.h"
#include "platform/self.h"

static struct {
    void (*break_call)(const char *call, int n, int code);
    void (*pause)(int pause);
    void (*budget)(size_t bytes);
    size_t (*used)(void);
    uint64_t (*number)(int which);
    void (*mend)(void);
    void (*limits)(int threads, int shared_bytes);
} fake;

enum { KERNELS_RUN, HOST_CALLS, STREAMS, GRAPHS, EARLY, CHANGED, EXECS };

enum { INVALID = 1, OOM = 2, LAUNCH_FAILED = 719 };

/* Names the fake libraries, which are in the folder fake/ beside this program. Called before the
 * driver is loaded. */
static inline void name_fakes(void) {
    char self[4096], path[4200];
    (void)t_self(self, sizeof self);
    const char *dir = dirname(self);
    snprintf(path, sizeof path, "%s/fake", dir);
    setenv("KEEL_CUDA_PATH", path, 1);
    snprintf(path, sizeof path, "%s/fake/lib64/libcuda.so", dir);
    setenv("KEEL_CUDA_DRIVER", path, 1);
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    void *lib = dlopen(path, RTLD_NOW);
    assert_non_null(lib);
    const char *names[] = {"fake_fail",   "fake_pause", "fake_budget", "fake_used",
                           "fake_number", "fake_mend",  "fake_limits"};
    for (size_t i = 0; i < 7; i++) {
        void *p = dlsym(lib, names[i]);
        assert_non_null(p);
        memcpy((char *)&fake + i * sizeof p, &p, sizeof p);
    }
}

struct sleeper {
    void *event;
    pthread_t thread;
};

static inline void *sleeps(void *arg) {
    struct sleeper *s = arg;
    while (drv->ops->event_query(drv, s->event) == 0) drv->ops->wait_any(drv, &s->event, 1);
    return NULL;
}

static inline void mend(void) {
    fake.mend();
    atomic_store(&cu->lost, 0);
}

static inline int setup(void **state) {
    name_fakes();
    open_device();
    return 0;
}
