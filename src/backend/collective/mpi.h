/* mpi.h - the engine over MPI, for values in the host's memory. */
#pragma once
#include "backend/collective/engine.h"

/* Whether a library of MPI can be loaded. false: *why says what is missing. */
bool kl_mpi_available(const char **why);
/* Whether the process has initialised MPI, in a library that kl_mpi_available found. */
bool kl_mpi_is_initialised(void);
/* Initialises MPI, unless somebody did before, and gives the communicator of all processes. Called
 * once. `limit_ns`: how long the other processes may take. */
int kl_mpi_open(struct kl_comm **world, int64_t limit_ns, struct kl_error **err);
/* Ends MPI if kl_mpi_open began it. It waits until all processes end it, so the caller knows that
 * they are alive. */
void kl_mpi_close(void);
