/* kernel.h - custom kernels: checking them, writing the source around the user's text, and building
 * the operation; and kernels of programs that the user compiled.
 *
 * docs/kernels.md is the user's manual of the common dialect, mlx/c/fast.h that of CUDA's. */
#pragma once
#include "base/op/kernel_desc.h"
#include "graph/array.h"

/* The properties that all calls of a kernel share. Immutable; the struct owns its texts. */
struct kl_kernel {
    char *name, *source, *header;
    char **names; /* the names of inputs, then of outputs */
    int n_in, n_out;
    bool is_cuda, is_metal, row_contiguous, raises, atomic_outputs;
    size_t shared_bytes;
    uint32_t described; /* bit i: the source uses the shape, strides, ndim or size of names[i] */
};

struct kl_kernel_def {
    const char *name, *source, *header; /* header may be NULL */
    const char *const *in_names, *const *out_names;
    size_t n_in, n_out;
    /* The source is CUDA C++, or in Metal's language; otherwise it is in the common dialect. */
    bool is_cuda, is_metal;
    bool atomic_outputs; /* of a kernel in Metal's language: outputs are pointers to atomic<T> */
    bool row_contiguous; /* inputs that are not row-major are copied */
    size_t shared_bytes; /* bytes of dynamic shared memory per group */
};

enum kl_template_kind { KL_TEMPLATE_DTYPE, KL_TEMPLATE_INT, KL_TEMPLATE_BOOL };
struct kl_kernel_template {
    const char *name;
    enum kl_template_kind kind;
    int value; /* an enum kl_dtype, a number, or 0 or 1 */
};

/* The properties of one call. */
struct kl_kernel_use {
    const struct kl_out_spec *outs;
    size_t n_outs;
    const struct kl_kernel_template *templates;
    size_t n_templates;
    int grid[3], group[3]; /* work-items of the launch and of one group, along each axis */
    bool has_init;
    float init_value;
    size_t shared_bytes; /* bytes, in addition to those of the kernel */
};

/* KL_EARG: there is no name or no output, or a name is not an identifier or is given twice. */
int kl_kernel_new(struct kl_kernel **out, const struct kl_kernel_def *def, struct kl_error **err);
void kl_kernel_free(struct kl_kernel *k); /* NULL is fine */
/* The generated source for these inputs and this use, in memory of kl_malloc, which the caller
 * frees. Errors are those of kl_kernel_apply. */
int kl_kernel_source(char **out, const struct kl_kernel *k, const struct kl_kernel_use *use,
                     struct kl_array *const *in, size_t n_in, struct kl_error **err);
/* outs gets k->n_out new arrays. KL_EARG, KL_EDTYPE, KL_ESHAPE; KL_EUNSUPPORTED when the stream's
 * device has no compiler for the kernel. When a limit of the device is exceeded, the operation
 * fails later. */
int kl_kernel_apply(struct kl_array **outs, const struct kl_kernel *k,
                    const struct kl_kernel_use *use, struct kl_array *const *in, size_t n_in,
                    struct kl_stream *s, struct kl_error **err);

/* A kernel of a compiled program for CUDA, with what one call passes to it. */
struct kl_kernel_program {
    const char *name; /* of the function in the program */
    const void *bytes;
    size_t n_bytes;
    const struct kl_kernel_scalar *scalars;
    size_t n_scalars;
    bool row_contiguous; /* inputs that are not row-major are copied */
};
/* outs gets use->n_outs new arrays. Errors as those of kl_kernel_apply; KL_ELIMIT when there are
 * too many arguments. When the device does not take the program, the operation fails later. */
int kl_kernel_apply_program(struct kl_array **outs, const struct kl_kernel_program *k,
                            const struct kl_kernel_use *use, struct kl_array *const *in,
                            size_t n_in, struct kl_stream *s, struct kl_error **err);
