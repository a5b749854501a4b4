/* kernel.c - custom kernels: they fail on the CPU, which has no compiler for them. */
#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"

int kl_cpu_no_kernel(struct kl_launch *l) {
    const struct kl_kernel_params *p = l->params;
    return kl_fail(l->err, KL_EUNSUPPORTED,
                   "kernel '%s' needs a GPU with CUDA or OpenCL; its stream runs on the CPU",
                   p->desc->name);
}
