/* lapack.c - loads LAPACK once; see lapack.h. Only a library is taken that computes on the thread
 * that calls it and may be called by several: then the bits do not depend on its threads, and no
 * setting of a library is changed that the program uses too. KEEL_LAPACK names the library. */
#include "backend/cpu/linalg/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kl_lapack functions;
static bool loaded;

static bool find(void *library, const char *name, void *slot) {
    void *p = dlsym(library, name);
    memcpy(slot, &p, sizeof p); /* POSIX: a function pointer fits into a void * */
    return p;
}

/* OpenBLAS says how it was built; builds for one thread that distributions make lock its memory. */
static bool is_for_one_thread(void *library) {
    int (*parallel)(void);
    return !find(library, "openblas_get_parallel", &parallel) || parallel() == 0;
}

static bool open_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    const struct {
        const char *name;
        void *slot;
    } all[] = {
        {"sgesdd_", &functions.sgesdd}, {"dgesdd_", &functions.dgesdd},
        {"cgesdd_", &functions.cgesdd}, {"sgesvd_", &functions.sgesvd},
        {"dgesvd_", &functions.dgesvd}, {"cgesvd_", &functions.cgesvd},
        {"ssyevd_", &functions.ssyevd}, {"dsyevd_", &functions.dsyevd},
        {"cheevd_", &functions.cheevd}, {"sgeev_", &functions.sgeev},
        {"dgeev_", &functions.dgeev},   {"cgeev_", &functions.cgeev},
    };
    bool whole = is_for_one_thread(library);
    for (size_t i = 0; whole && i < sizeof all / sizeof *all; i++)
        whole = find(library, all[i].name, all[i].slot);
    if (!whole) dlclose(library);
    return whole;
}

static void load(void) {
    /* Where Debian and Ubuntu keep OpenBLAS for one thread; other systems have it on the path. */
    static const char *const names[] = {
#if defined __x86_64__
        "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0",
#elif defined __aarch64__
        "/usr/lib/aarch64-linux-gnu/openblas-serial/libopenblas.so.0",
#endif
        "libopenblas.so.0",
        "liblapack.so.3",
    };
    const char *libs = getenv("KEEL_LIBS"), *given = getenv("KEEL_LAPACK");
    if (libs && !strcmp(libs, "none")) return;
    if (given) {
        loaded = strcmp(given, "none") != 0 && open_library(given);
        return;
    }
    for (size_t i = 0; !loaded && i < sizeof names / sizeof *names; i++)
        loaded = open_library(names[i]);
}

const struct kl_lapack *kl_lapack(void) {
    pthread_once(&once, load);
    return loaded ? &functions : NULL;
}
