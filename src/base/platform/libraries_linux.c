/* libraries_linux.c - see libraries.h. */
#include "base/platform/libraries.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

const char *const kl_libraries_zip[] = {"libzip.so.4", "libzip.so.5", "libzip.so", NULL};

/* Where Debian and Ubuntu keep OpenBLAS for one thread; other systems have it on the path. */
const char *const kl_libraries_lapack[] = {
#if defined __x86_64__
    "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0",
#elif defined __aarch64__
    "/usr/lib/aarch64-linux-gnu/openblas-serial/libopenblas.so.0",
#endif
    "libopenblas.so.0", "liblapack.so.3", NULL};

const char *const kl_libraries_open_mpi[] = {"libmpi.so.40", "libmpi.so.80", "libmpi.so", NULL};
const char *const kl_libraries_mpich[] = {"libmpich.so.12", "libmpi.so.12", "libmpich.so", NULL};

const char kl_library_opencl[] = "libOpenCL.so.1";

const char kl_install_zip[] = "Debian: apt install libzip4";
const char kl_install_mpi[] = "libmpi.so.40 of Open MPI, libmpich.so.12 of MPICH; Debian: apt "
                              "install openmpi-bin or mpich";
const char kl_install_opencl[] =
    "Debian: apt install ocl-icd-libopencl1, and a driver: mesa-opencl-icd, intel-opencl-icd or "
    "pocl-opencl-icd";
const char kl_install_opencl_driver[] =
    "Debian: apt install mesa-opencl-icd or intel-opencl-icd for "
    "GPUs, pocl-opencl-icd for processors";

/* Other threads may read the environment meanwhile: so it is not changed, but another one, which
 * stays in memory, takes its place. */
void *kl_library_open_with(const char *variable, const char *name) {
    /* The blocks that were made, each with the address of the one before; never freed, since other
     * threads may still read them. volatile: else nothing reads it, and it is no variable. */
    static char **volatile kept;
    size_t n = 0;
    char **before = environ;
    while (before && before[n]) n++;
    char **block = malloc((n + 3) * sizeof *block);
    if (!block) return NULL;
    char **more = block + 1;
    block[0] = (char *)kept;
    for (size_t i = 0; i < n; i++) more[i] = before[i];
    more[n] = (char *)(uintptr_t)variable;
    more[n + 1] = NULL;
    kept = block;
    __atomic_store_n(&environ, more, __ATOMIC_RELEASE);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    /* Where the program has set a variable meanwhile, the environment is a copy of this one. */
    char **expected = more;
    __atomic_compare_exchange_n(&environ, &expected, before, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
    return library;
}
