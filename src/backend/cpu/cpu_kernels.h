/* cpu_kernels.h - the reference kernels: plain C for every operation that has a kernel, but CALL.
 *
 * What each takes is said in base/op_params.h and base/launch.h. All of them: operands may have any
 * strides (outputs too, where the operation is element-wise; else outputs are row-major); the
 * result does not depend on strides, on alignment or on the number of threads. They know no arrays,
 * no streams and no memory but scratch. Any thread may call. */
#pragma once
#include "backend/cpu/cpu_variant.h"
#include "base/launch.h"
#include "base/task.h"

/* In the variant that is used. NULL for views and CALL. */
kl_kernel_fn *kl_cpu_kernel(enum kl_op_id op);
/* The variants that this CPU can run, 0 (for any CPU) to n - 1 (the widest), and which is used: the widest, or what KEEL_CPU names. */
int kl_cpu_n_variants(void);
int kl_cpu_variant(void);
const char *kl_cpu_variant_name(int variant);
void kl_cpu_use_variant(int variant); /* for tests and benchmarks */
bool kl_cpu_uses_amx(void);
/* Of a core's first cache for data; 32 KB where the system does not say. */
int64_t kl_cpu_l1_bytes(void);

kl_kernel_fn *kl_cpu_variant_kernel(enum kl_op_id op); /* of the variant that is compiled */

/* ---- groups: element-wise operations over one shape as one pass over tiles (elementwise/group.c) ---- */
struct kl_cpu_step {
    enum kl_op_id op;
    int n_in;                /* at most KL_GROUP_OPERANDS */
    const struct kl_arg *in; /* data is not looked at where `from` is a step */
    const struct kl_arg *out;
    int from[3]; /* the earlier step that makes input k; -1: it lies in memory */
    bool stored; /* its output has memory; else only steps of the group read it */
};
typedef void kl_cpu_group_fn(const struct kl_cpu_step *steps, int n, kl_parallel_for *parallel);
kl_cpu_group_fn kl_cpu_run_group, kl_cpu_variant_run_group;

kl_kernel_fn kl_cpu_elementwise; /* COPY .. WHERE */
kl_kernel_fn kl_cpu_arange, kl_cpu_random_bits, kl_cpu_slice_update, kl_cpu_concatenate;
kl_kernel_fn kl_cpu_depends, kl_cpu_factor;
kl_kernel_fn
    kl_cpu_along; /* the five families of operations along axes, of which it is the entrance */
kl_kernel_fn kl_cpu_reduce, kl_cpu_arg_reduce, kl_cpu_softmax, kl_cpu_sort, kl_cpu_matmul;
kl_kernel_fn kl_cpu_attention;
kl_kernel_fn kl_cpu_logsumexp, kl_cpu_var, kl_cpu_scan, kl_cpu_norm, kl_cpu_rope, kl_cpu_partition;
/* Whether kl_cpu_scan takes contiguous rows of so many elements, not 0, as squares of vectors, in which a short row costs no more than a long one. */
bool kl_cpu_scans_squares(const struct kl_launch *l, int64_t length);
kl_kernel_fn kl_cpu_no_kernel; /* KERNEL: fails */
kl_kernel_fn kl_cpu_gather, kl_cpu_gather_axis, kl_cpu_scatter, kl_cpu_scatter_axis;
