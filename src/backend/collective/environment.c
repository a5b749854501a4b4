/* environment.c - see environment.h. Launchers of MPI set the number of processes; mlx.launch sets
 * MLX_RANK, and MLX_WORLD_SIZE or a file with a line per process; for the backend nccl also where
 * the processes meet (NCCL_HOST_IP, NCCL_PORT). */
#include "backend/collective/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT_S = 600, MOST_PROCESSES = 1 << 24 };

/* The number that a variable holds, at least `least`. *out stays as it is where it is not set. */
static int number_of(const char *variable, double least, double most, double *out,
                     struct kl_error **err) {
    const char *text = getenv(variable);
    if (!text || !*text) return KL_OK;
    char *end;
    double v = strtod(text, &end);
    if (*end || !(v >= least && v <= most))
        return kl_fail(err, KL_EARG, "%s=%.64s is no number from %g to %g", variable, text, least,
                       most);
    *out = v;
    return KL_OK;
}

/* As number_of, of whole numbers. */
static int count_of(const char *variable, long least, long most, long *out, struct kl_error **err) {
    double v = -1;
    KL_TRY(number_of(variable, (double)least, (double)most, &v, err));
    if (v < (double)least) return KL_OK;
    if (v != (double)(long)v)
        return kl_fail(err, KL_EARG, "%s=%.64s is no whole number", variable, getenv(variable));
    *out = (long)v;
    return KL_OK;
}

static int size_by(struct kl_environment *e, const char *variable, bool by_mpi,
                   struct kl_error **err) {
    long size = 0;
    if (e->size > 1) return KL_OK;
    KL_TRY(count_of(variable, 1, MOST_PROCESSES, &size, err));
    if (size < 1) return KL_OK;
    e->size = (int)size;
    e->by = variable;
    e->by_mpi = by_mpi;
    return KL_OK;
}

/* MLX_HOSTFILE names a list in JSON with an entry per process; how many there are is left to the
 * engine that reads it, and here it only counts that there are several. */
static void size_by_hosts(struct kl_environment *e) {
    const char *hosts = getenv("MLX_HOSTFILE"), *rank = getenv("MLX_RANK");
    if (e->size > 0 || !rank || !*rank) return;
    if (hosts && *hosts) {
        e->size = 2;
        e->by = "MLX_HOSTFILE";
    } else if (strtol(rank, NULL, 10) > 0) {
        e->size = 2;
        e->by = "MLX_RANK";
    }
}

/* MLX's launcher tells processes of its backend nccl where the first one listens. */
static int meeting_place(struct kl_environment *e, struct kl_error **err) {
    const char *host = getenv("NCCL_HOST_IP");
    long rank = -1, port = -1;
    KL_TRY(count_of("MLX_RANK", 0, MOST_PROCESSES, &rank, err));
    KL_TRY(count_of("NCCL_PORT", 1, 65535, &port, err));
    if (!host || !*host || rank < 0 || port < 0 || e->size < 2 || e->by_mpi) return KL_OK;
    if (rank >= e->size)
        return kl_fail(err, KL_EARG, "MLX_RANK=%d is no rank of %d processes, which %s says",
                       (int)rank, e->size, e->by);
    e->host = host;
    e->rank = (int)rank;
    e->port = (int)port;
    return KL_OK;
}

int kl_environment_read(struct kl_environment *out, struct kl_error **err) {
    double limit = DEFAULT_LIMIT_S;
    *out = (struct kl_environment){0};
    KL_TRY(size_by(out, "OMPI_COMM_WORLD_SIZE", true, err));
    KL_TRY(size_by(out, "PMI_SIZE", true, err));
    KL_TRY(size_by(out, "SLURM_STEP_NUM_TASKS", true, err)); /* srun with PMIx */
    KL_TRY(size_by(out, "MLX_WORLD_SIZE", false, err));
    KL_TRY(meeting_place(out, err));
    size_by_hosts(out);
    KL_TRY(number_of("KEEL_DIST_TIMEOUT", 0.1, 1e7, &limit, err));
    out->limit_ns = (int64_t)(limit * 1e9);
    return KL_OK;
}

/* Whether MLX's launcher started all processes on one host: then their ranks are their numbers
 * there. */
static bool meets_here(void) {
    const char *host = getenv("NCCL_HOST_IP");
    return host && (strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
                    strcmp(host, "::1") == 0);
}

int kl_environment_rank_on_host(void) {
    /* Open MPI; MPICH and Intel MPI; Slurm */
    static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                            "SLURM_LOCALID"};
    long n = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!getenv(variables[i])) continue;
        return count_of(variables[i], 0, MOST_PROCESSES, &n, NULL) ? 0 : (int)n;
    }
    if (!meets_here() || count_of("MLX_RANK", 0, MOST_PROCESSES, &n, NULL)) return 0;
    return (int)n;
}
