/* lapack.c - loads LAPACK once; see lapack.h. Only a library is taken that computes on the thread
 * that calls it and may be called by several: then the bits do not depend on its threads, and no
 * setting of a library is changed that the program uses too. KEEL_LAPACK names the library. An
 * OpenBLAS that is older than the processor is told which kernels the processor can run. */
#include "backend/cpu/linalg/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform/libraries.h"

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

/* ---- the kernels of OpenBLAS ---- */
#if defined __x86_64__
/* The newest kernels that this processor runs; NULL: those that OpenBLAS takes for want of better
 * ones. */
static const char *kernels_of_processor(void) {
    __builtin_cpu_init();
    const bool has_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl");
    if (has_512) return "OPENBLAS_CORETYPE=SkylakeX";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
               ? "OPENBLAS_CORETYPE=Haswell"
               : NULL;
}

/* A processor that OpenBLAS does not know gets its oldest kernels, of SSE3: svd then takes twice as
 * long. */
static bool has_oldest_kernels(void *library) {
    char *(*corename)(void);
    return find(library, "openblas_get_corename", &corename) && !strcmp(corename(), "Prescott");
}

/* The library again, with the kernels of this processor. It stays as it is where the program has
 * loaded it too, or has chosen kernels itself. */
static void *with_good_kernels(void *library, const char *name) {
    const char *variable = kernels_of_processor();
    if (!variable || getenv("OPENBLAS_CORETYPE") || !has_oldest_kernels(library)) return library;
    dlclose(library);
    void *other = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!other) other = kl_library_open_with(variable, name);
    return other ? other : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
#else
static void *with_good_kernels(void *library, const char *name) {
    return library;
}
#endif

static bool open_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) library = with_good_kernels(library, name);
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
    const char *libs = getenv("KEEL_LIBS"), *given = getenv("KEEL_LAPACK");
    if (libs && !strcmp(libs, "none")) return;
    if (given) {
        loaded = strcmp(given, "none") != 0 && open_library(given);
        return;
    }
    for (const char *const *name = kl_libraries_lapack; *name && !loaded; name++)
        loaded = open_library(*name);
}

const struct kl_lapack *kl_lapack(void) {
    pthread_once(&once, load);
    return loaded ? &functions : NULL;
}
