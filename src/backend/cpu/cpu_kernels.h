/* cpu_kernels.h - the reference kernels: plain C for every operation that has a kernel, but CALL.
 *
 * What each takes is said in base/op_params.h and base/launch.h. All of them: operands may have any
 * strides (outputs too, where the operation is element-wise; else outputs are row-major); the
 * result does not depend on strides, on alignment or on the number of threads. They know no arrays,
 * no streams and no memory but scratch. Any thread may call. */
#pragma once
#include "backend/cpu/cpu_variant.h"
#include "base/launch.h"

/* In the variant that is used. NULL for views and CALL. */
kl_kernel_fn *kl_cpu_kernel(enum kl_op_id op);
/* The variants that this CPU can run, 0 (for any CPU) to n - 1 (the widest), and which is used: the widest, or what KEEL_CPU names. */
int kl_cpu_n_variants(void);
int kl_cpu_variant(void);
const char *kl_cpu_variant_name(int variant);
void kl_cpu_use_variant(int variant); /* for tests and benchmarks */

kl_kernel_fn *kl_cpu_variant_kernel(enum kl_op_id op); /* of the variant that is compiled */

kl_kernel_fn kl_cpu_elementwise; /* COPY .. WHERE */
kl_kernel_fn kl_cpu_arange, kl_cpu_random_bits, kl_cpu_slice_update, kl_cpu_concatenate;
kl_kernel_fn kl_cpu_reduce, kl_cpu_arg_reduce, kl_cpu_softmax, kl_cpu_sort, kl_cpu_matmul;
kl_kernel_fn kl_cpu_logsumexp, kl_cpu_var, kl_cpu_scan, kl_cpu_norm, kl_cpu_rope, kl_cpu_partition;
kl_kernel_fn kl_cpu_no_kernel; /* KERNEL: fails */
kl_kernel_fn kl_cpu_gather, kl_cpu_gather_axis, kl_cpu_scatter, kl_cpu_scatter_axis;
