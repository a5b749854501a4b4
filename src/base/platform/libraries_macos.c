/* libraries_macos.c - see libraries.h. The loader does not look into Homebrew's folders by itself:
 * /opt/homebrew on Apple's processors, /usr/local on Intel's. */
#include "base/platform/libraries.h"

#include <dlfcn.h>
#include <stddef.h>

#if defined __aarch64__
#define BREW "/opt/homebrew/"
#else
#define BREW "/usr/local/"
#endif

const char *const kl_libraries_zip[] = {"libzip.5.dylib", BREW "opt/libzip/lib/libzip.5.dylib",
                                        BREW "lib/libzip.dylib", NULL};

/* The reference LAPACK, which has no threads of its own, before OpenBLAS, which Homebrew builds
 * with threads. */
const char *const kl_libraries_lapack[] = {
    "liblapack.3.dylib", BREW "opt/lapack/lib/liblapack.3.dylib", "libopenblas.0.dylib",
    BREW "opt/openblas/lib/libopenblas.0.dylib", NULL};

const char *const kl_libraries_open_mpi[] = {
    "libmpi.40.dylib", BREW "opt/open-mpi/lib/libmpi.40.dylib", "libmpi.80.dylib", NULL};
const char *const kl_libraries_mpich[] = {"libmpi.12.dylib", BREW "opt/mpich/lib/libmpi.12.dylib",
                                          "libmpich.dylib", NULL};

const char kl_library_opencl[] = "libOpenCL.1.dylib";

const char kl_install_zip[] = "brew install libzip";
const char kl_install_mpi[] =
    "libmpi.40.dylib of Open MPI, libmpi.12.dylib of MPICH; brew install open-mpi or mpich";
const char kl_install_opencl[] = "brew install opencl-icd-loader, and a driver: brew install pocl";
const char kl_install_opencl_driver[] = "brew install pocl, for processors";

/* Its threads, and what they run when they end, are of this library: it stays loaded when a program
 * closes it, as the linker has it stay on Linux. */
__attribute__((constructor)) static void stay_loaded(void) {
    static const char here = 0;
    Dl_info of;
    if (dladdr(&here, &of)) (void)dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* The environment belongs to the program, and its functions take a lock that a library cannot: the
 * variable is not given, and the library chooses for itself. */
void *kl_library_open_with(const char *variable, const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
