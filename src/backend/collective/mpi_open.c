/* mpi_open.c - the binary interface of Open MPI: handles are addresses of objects that the library
 * exports by name. */
#include <dlfcn.h>
#include <string.h>

#include "backend/collective/mpi_abi.h"

typedef void *handle;
#define STATUS_IGNORE NULL

static void *types[KL_MPI_N_TYPES], *ops[KL_MPI_N_OPS];
static void *errors_return;

static void *to_mpi(kl_mpi_handle h) {
    return (void *)h;
}

static kl_mpi_handle of_mpi(const void *h) {
    return (kl_mpi_handle)h;
}

#include "backend/collective/mpi_calls.inc"

static void *object(void *library, const char *name) {
    void *p = dlsym(library, name);
    if (!p && !missing) missing = name;
    return p;
}

const char *kl_mpi_open_bind(void *library, struct kl_mpi *out) {
    static const char *const type_names[KL_MPI_N_TYPES] = {
        "ompi_mpi_uint8_t", "ompi_mpi_uint16_t", "ompi_mpi_uint32_t", "ompi_mpi_uint64_t",
        "ompi_mpi_int8_t",  "ompi_mpi_int16_t",  "ompi_mpi_int32_t",  "ompi_mpi_int64_t",
        "ompi_mpi_float",   "ompi_mpi_double"};
    static const char *const op_names[KL_MPI_N_OPS] = {"ompi_mpi_op_sum", "ompi_mpi_op_max",
                                                       "ompi_mpi_op_min"};
    if (bind_calls(library, out)) return missing;
    for (int i = 0; i < KL_MPI_N_TYPES; i++) types[i] = object(library, type_names[i]);
    for (int i = 0; i < KL_MPI_N_OPS; i++) ops[i] = object(library, op_names[i]);
    errors_return = object(library, "ompi_mpi_errors_return");
    out->abi = "Open MPI";
    out->world = of_mpi(object(library, "ompi_mpi_comm_world"));
    out->self = of_mpi(object(library, "ompi_mpi_comm_self"));
    out->no_request = of_mpi(object(library, "ompi_request_null"));
    out->in_place = (void *)1;
    return missing;
}
