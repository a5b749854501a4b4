/* mpi_mpich.c - the binary interface of MPICH, which MVAPICH and Intel MPI share: handles are
 * numbers that this interface fixes. */
#include <dlfcn.h>
#include <string.h>

#include "backend/collective/mpi_abi.h"

typedef int handle;
#define STATUS_IGNORE ((void *)1)

static const int types[KL_MPI_N_TYPES] = {
    0x4c00013b, 0x4c00023c, 0x4c00043d, 0x4c00083e, /* MPI_UINT8_T ... MPI_UINT64_T */
    0x4c000137, 0x4c000238, 0x4c000439, 0x4c00083a, /* MPI_INT8_T ... MPI_INT64_T */
    0x4c00040a, 0x4c00080b};                        /* MPI_FLOAT, MPI_DOUBLE */
static const int ops[KL_MPI_N_OPS] = {0x58000003, 0x58000001, 0x58000002}; /* sum, max, min */
static const int errors_return = 0x54000001;

static int to_mpi(kl_mpi_handle h) {
    return (int)h;
}

static kl_mpi_handle of_mpi(int h) {
    return (kl_mpi_handle)(unsigned)h;
}

#include "backend/collective/mpi_calls.inc"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "comm_idup writes an int into the first bytes of a kl_mpi_handle");

const char *kl_mpi_mpich_bind(void *library, struct kl_mpi *out) {
    if (bind_calls(library, out)) return missing;
    out->abi = "MPICH";
    out->world = 0x44000000;
    out->self = 0x44000001;
    out->no_request = 0x2c000000;
    out->in_place = (void *)-1;
    return NULL;
}
