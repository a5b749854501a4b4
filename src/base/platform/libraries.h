/* libraries.h - how the libraries of others that are opened at run time are called here, and how
 * they are installed. Lists end with NULL; the first that can be loaded is taken. */
#pragma once

extern const char *const kl_libraries_zip[], *const kl_libraries_lapack[];
extern const char *const kl_libraries_open_mpi[], *const kl_libraries_mpich[];
extern const char kl_library_opencl[];

/* dlopen(name, RTLD_NOW | RTLD_LOCAL) while the environment has one more variable, "NAME=value",
 * which the library reads when it is loaded. The text of the variable is kept. */
void *kl_library_open_with(const char *variable, const char *name);

/* For messages: what to type. */
extern const char kl_install_zip[], kl_install_mpi[], kl_install_opencl[];
extern const char kl_install_opencl_driver[]; /* where OpenCL's loader is there */
