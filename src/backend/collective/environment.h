/* environment.h - what the environment says of the processes that were started together. */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct kl_environment {
    int size;       /* how many processes there are; 0: nothing says that there are several */
    const char *by; /* the variable that says so; NULL: none does */
    bool by_mpi;    /* a launcher of MPI started them */
    /* Where processes meet that no launcher of MPI started; host NULL: nothing says so. */
    const char *host;
    int rank, port;
    int64_t limit_ns; /* KEEL_DIST_TIMEOUT: how long a value may wait for other processes */
};

/* Reads the variables of launchers and KEEL_DIST_TIMEOUT; KL_EARG where one makes no sense. */
int kl_environment_read(struct kl_environment *out, struct kl_error **err);

/* The number of this process among those of its host, as the launcher says it; 0: nothing does. */
int kl_environment_rank_on_host(void);
