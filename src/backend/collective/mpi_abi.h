/* mpi_abi.h - the calls of MPI that the engine makes, the same for both binary interfaces. Handles
 * of Open MPI are addresses, those of MPICH are numbers; here both are a kl_mpi_handle. The library
 * is loaded at run time, and no header of it is needed.
 *
 * Every call returns MPI's code, of which 0 alone means success. None of them blocks, but for those
 * that say so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t kl_mpi_handle;

/* The element types in which MPI moves and reduces values. */
enum kl_mpi_type {
    KL_MPI_U8,
    KL_MPI_U16,
    KL_MPI_U32,
    KL_MPI_U64,
    KL_MPI_I8,
    KL_MPI_I16,
    KL_MPI_I32,
    KL_MPI_I64,
    KL_MPI_F32,
    KL_MPI_F64,
    KL_MPI_N_TYPES
};
enum kl_mpi_op { KL_MPI_SUM, KL_MPI_MAX, KL_MPI_MIN, KL_MPI_N_OPS };

/* Levels of support for threads, as MPI numbers them. */
enum { KL_MPI_THREAD_SERIALIZED = 2, KL_MPI_THREAD_MULTIPLE = 3 };
enum { KL_MPI_TEXT_BYTES = 8192 }; /* room for the longest text of either library */

struct kl_mpi {
    const char *abi; /* "Open MPI" or "MPICH" */
    kl_mpi_handle world, self, no_request;
    const void *in_place; /* as `from`: the operand is already at `to` */

    int (*initialized)(int *flag);
    int (*finalized)(int *flag);
    int (*init_thread)(int required, int *provided); /* blocks */
    int (*query_thread)(int *provided);
    int (*finalize)(void); /* blocks */
    int (*version)(char *text, int *bytes);
    int (*error_string)(int code, char *text, int *bytes);
    int (*comm_rank)(kl_mpi_handle comm, int *rank);
    int (*comm_size)(kl_mpi_handle comm, int *size);
    int (*comm_return_errors)(kl_mpi_handle comm);
    int (*comm_idup)(kl_mpi_handle comm, kl_mpi_handle *made, kl_mpi_handle *request);
    int (*comm_split)(kl_mpi_handle comm, int color, int key, kl_mpi_handle *made); /* blocks */
    int (*comm_free)(kl_mpi_handle *comm);
    int (*iallreduce)(const void *from, void *to, int n, enum kl_mpi_type type, enum kl_mpi_op op,
                      kl_mpi_handle comm, kl_mpi_handle *request);
    int (*ireduce)(const void *from, void *to, int n, enum kl_mpi_type type, enum kl_mpi_op op,
                   int root, kl_mpi_handle comm, kl_mpi_handle *request);
    int (*ireduce_scatter_block)(const void *from, void *to, int n, enum kl_mpi_type type,
                                 enum kl_mpi_op op, kl_mpi_handle comm, kl_mpi_handle *request);
    int (*iallgather)(const void *from, void *to, int n, enum kl_mpi_type type, kl_mpi_handle comm,
                      kl_mpi_handle *request);
    int (*ibcast)(void *data, int n, enum kl_mpi_type type, int root, kl_mpi_handle comm,
                  kl_mpi_handle *request);
    int (*isend)(const void *from, int n, enum kl_mpi_type type, int to, int tag,
                 kl_mpi_handle comm, kl_mpi_handle *request);
    int (*irecv)(void *to, int n, enum kl_mpi_type type, int from, int tag, kl_mpi_handle comm,
                 kl_mpi_handle *request);
    int (*test)(kl_mpi_handle *request, int *done);
};

/* Finds the functions and handles in a loaded library. NULL: all are there, and *out is filled in;
 * else the name of one that is missing. */
const char *kl_mpi_open_bind(void *library, struct kl_mpi *out);  /* Open MPI: mpi_open.c */
const char *kl_mpi_mpich_bind(void *library, struct kl_mpi *out); /* MPICH: mpi_mpich.c */

/* A library of MPI that can be loaded; loads it the first time. Where the process has loaded one
 * already it is that one. NULL, with what is missing in *why (static), when there is none. */
const struct kl_mpi *kl_mpi_library(const char **why);
