/* cpu_kernels.c - which function is the kernel of an operation: the column of op_list.def. */
#include "backend/cpu/cpu_kernels.h"

#include <stddef.h>

static kl_kernel_fn *const kernels[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, ...) [KL_OP_##ID] = kernel,
#include "base/op/op_list.def"
};

kl_kernel_fn *kl_cpu_variant_kernel(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? kernels[op] : NULL;
}
