/* mpi_library.c - finds and loads a library of MPI, once, and tells which binary interface it has.
 * The launcher that started the process decides which library can join the other processes, so its
 * variables choose the order; MLX_MPI_LIBNAME names a library, as it does for MLX. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/collective/mpi_abi.h"
#include "base/platform/libraries.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kl_mpi mpi;
static char reason[512]; /* why there is none; empty: mpi is filled in */

/* The library of these names that the process has loaded (now: only one that is loaded already). */
static void *load(const char *const *names, int now) {
    void *lib = NULL;
    /* Plug-ins of Open MPI look for its names among those of the whole process. */
    for (int i = 0; names[i] && !lib; i++) lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL | now);
    return lib;
}

static void *load_any(void) {
    const bool by_mpich = getenv("PMI_RANK") && !getenv("OMPI_COMM_WORLD_RANK");
    const char *const *first = by_mpich ? kl_libraries_mpich : kl_libraries_open_mpi;
    const char *const *second = by_mpich ? kl_libraries_open_mpi : kl_libraries_mpich;
    void *lib = load(first, RTLD_NOLOAD);
    if (!lib) lib = load(second, RTLD_NOLOAD);
    if (!lib) lib = load(first, 0);
    return lib ? lib : load(second, 0);
}

static void bind(void) {
    const char *given = getenv("MLX_MPI_LIBNAME");
    void *lib = given && *given ? dlopen(given, RTLD_NOW | RTLD_GLOBAL) : load_any();
    if (!lib) {
        if (given && *given)
            snprintf(reason, sizeof reason, "%s, which MLX_MPI_LIBNAME names, cannot be loaded: %s",
                     given, dlerror());
        else
            snprintf(reason, sizeof reason, "no library of MPI can be loaded (%s)", kl_install_mpi);
        return;
    }
    const char *missing = dlsym(lib, "ompi_mpi_comm_world") ? kl_mpi_open_bind(lib, &mpi)
                                                            : kl_mpi_mpich_bind(lib, &mpi);
    if (missing) {
        snprintf(reason, sizeof reason, "the library of MPI has no %s", missing);
        return;
    }
    char text[KL_MPI_TEXT_BYTES] = "";
    int bytes = 0;
    if (strcmp(mpi.abi, "MPICH") != 0 || mpi.version(text, &bytes)) return;
    if (!strstr(text, "MPICH") && !strstr(text, "MVAPICH") && !strstr(text, "Intel"))
        snprintf(reason, sizeof reason,
                 "the library of MPI is neither Open MPI nor one with MPICH's binary interface: "
                 "%.200s",
                 text);
}

const struct kl_mpi *kl_mpi_library(const char **why) {
    pthread_once(&once, bind);
    *why = reason[0] ? reason : NULL;
    return reason[0] ? NULL : &mpi;
}
