/* cpu_kernels.c - which function is the kernel of an operation. Nothing else. */
#include "backend/cpu/cpu_kernels.h"

#include <stddef.h>

static kl_kernel_fn *const kernels[KL_N_OPS] = {
    [KL_OP_COPY] = kl_cpu_elementwise,
    [KL_OP_KERNEL] = kl_cpu_no_kernel,
    [KL_OP_CAST] = kl_cpu_elementwise,
    [KL_OP_NEGATIVE] = kl_cpu_elementwise,
    [KL_OP_ABS] = kl_cpu_elementwise,
    [KL_OP_EXP] = kl_cpu_elementwise,
    [KL_OP_LOG] = kl_cpu_elementwise,
    [KL_OP_SQRT] = kl_cpu_elementwise,
    [KL_OP_SQUARE] = kl_cpu_elementwise,
    [KL_OP_FLOOR] = kl_cpu_elementwise,
    [KL_OP_ERFINV] = kl_cpu_elementwise,
    [KL_OP_LOGICAL_NOT] = kl_cpu_elementwise,
    [KL_OP_ADD] = kl_cpu_elementwise,
    [KL_OP_SUBTRACT] = kl_cpu_elementwise,
    [KL_OP_MULTIPLY] = kl_cpu_elementwise,
    [KL_OP_DIVIDE] = kl_cpu_elementwise,
    [KL_OP_MAXIMUM] = kl_cpu_elementwise,
    [KL_OP_MINIMUM] = kl_cpu_elementwise,
    [KL_OP_EQUAL] = kl_cpu_elementwise,
    [KL_OP_NOT_EQUAL] = kl_cpu_elementwise,
    [KL_OP_LESS] = kl_cpu_elementwise,
    [KL_OP_LESS_EQUAL] = kl_cpu_elementwise,
    [KL_OP_GREATER] = kl_cpu_elementwise,
    [KL_OP_GREATER_EQUAL] = kl_cpu_elementwise,
    [KL_OP_LOGICAL_AND] = kl_cpu_elementwise,
    [KL_OP_LOGICAL_OR] = kl_cpu_elementwise,
    [KL_OP_WHERE] = kl_cpu_elementwise,
    [KL_OP_ARANGE] = kl_cpu_arange,
    [KL_OP_RANDOM_BITS] = kl_cpu_random_bits,
    [KL_OP_SLICE_UPDATE] = kl_cpu_slice_update,
    [KL_OP_CONCATENATE] = kl_cpu_concatenate,
    [KL_OP_DEPENDS] = kl_cpu_depends,
    [KL_OP_SUM] = kl_cpu_reduce,
    [KL_OP_MAX] = kl_cpu_reduce,
    [KL_OP_MIN] = kl_cpu_reduce,
    [KL_OP_ARGMAX] = kl_cpu_arg_reduce,
    [KL_OP_ARGMIN] = kl_cpu_arg_reduce,
    [KL_OP_SOFTMAX] = kl_cpu_softmax,
    [KL_OP_SORT] = kl_cpu_sort,
    [KL_OP_ARGSORT] = kl_cpu_sort,
    [KL_OP_MATMUL] = kl_cpu_matmul,
    [KL_OP_ATTENTION] = kl_cpu_attention,
    [KL_OP_FACTOR] = kl_cpu_factor,
    [KL_OP_GATHER] = kl_cpu_gather,
    [KL_OP_GATHER_AXIS] = kl_cpu_gather_axis,
    [KL_OP_SCATTER] = kl_cpu_scatter,
    [KL_OP_SCATTER_AXIS] = kl_cpu_scatter_axis,
};

kl_kernel_fn *kl_cpu_variant_kernel(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? kernels[op] : NULL;
}
