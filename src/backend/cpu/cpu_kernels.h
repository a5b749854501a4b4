/* cpu_kernels.h - the kernels of the CPU: one function for every operation of op_list.def that
 * has a kernel, except CALL. base/op/op_params.h and base/op/launch.h say what each kernel takes.
 * Operands may have any strides; so may the outputs of element-wise operations. Other outputs are
 * row-major. The result does not depend on strides, on alignment or on the number of threads.
 * Kernels know no arrays, no streams and no memory except scratch memory. Any thread may call. */
#pragma once
#include "base/op/declare.h"
#include "base/op/launch.h"
#include "base/op/task.h"

/* The kernel of the variant in use. NULL for views and for CALL. */
kl_kernel_fn *kl_cpu_kernel(enum kl_op_id op);
/* The variants that this CPU can run are numbered from 0 (runs on any CPU) to n - 1 (the widest).
 * The one in use is the widest, or what KEEL_CPU names. */
int kl_cpu_n_variants(void);
int kl_cpu_variant(void);
const char *kl_cpu_variant_name(int variant);
void kl_cpu_use_variant(int variant); /* for tests and benchmarks */
/* Whether products use tile registers; whether those of bfloat16 use vdpbf16ps, or BFMMLA. */
bool kl_cpu_uses_amx(void);
bool kl_cpu_uses_bf16(void);
/* Whether packed products use SDOT; whether those of several rows use SMMLA. */
bool kl_cpu_uses_dot(void);
bool kl_cpu_uses_i8mm(void);
/* Whether the kernel of an operation on matrices can run on this machine for input `a`; it fails
 * where there is no LAPACK and the operation needs it. */
int kl_cpu_takes_matrices(enum kl_op_id op, const struct kl_arg *a, struct kl_error **err);
/* Bytes of a core's first data cache; 32 KB where the system does not say. */
int64_t kl_cpu_l1_bytes(void);

/* of the variant that this file is compiled for */
kl_kernel_fn *kl_cpu_variant_kernel(enum kl_op_id op);

/* ---- fusions: element-wise operations of one shape, in one pass over tiles; the first step may be
 * a reduction to that shape, the last one a sum over leading axes ---- */
struct kl_cpu_step {
    enum kl_op_id op;
    int n_in;                /* at most KL_FUSION_OPERANDS */
    const void *params;      /* read where the operation is not element-wise */
    const struct kl_arg *in; /* the data of input k is not read where from[k] is a step */
    const struct kl_arg *out;
    int from[3]; /* the earlier step that computes input k; -1 where the input is in memory */
    /* its output has memory; an output that is not stored is read by steps of the fusion only */
    bool stored;
};
/* false: there is not enough memory, and nothing is written. */
typedef bool kl_cpu_fusion_fn(const struct kl_cpu_step *steps, int n, kl_parallel_for *parallel);
kl_cpu_fusion_fn kl_cpu_run_fusion, kl_cpu_variant_run_fusion;

/* The kernels: the column kernel of op_list.def. Reductions, scans, softmax and their relatives
 * enter at kl_cpu_along, which calls one of these. */
#define KL_OP(ID, name, n_in, flags, kernel, ...) KL_DECLARE(kl_kernel_fn, kernel)
#include "base/op/op_list.def"
kl_kernel_fn kl_cpu_reduce, kl_cpu_arg_reduce, kl_cpu_softmax, kl_cpu_logsumexp, kl_cpu_var;
kl_kernel_fn kl_cpu_scan;
/* Whether kl_cpu_scan takes contiguous rows of `length` elements (not 0) in square tiles of
 * vectors. There a short row costs no more than a long one. */
bool kl_cpu_scans_squares(const struct kl_launch *l, int64_t length);
