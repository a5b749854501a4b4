/* kernel.h - custom kernels: checking them, writing the source around the user's, and building the operation.
 *
 * docs/kernels.md is what users are told of the common dialect, mlx/c/fast.h of CUDA's. */
#pragma once
#include "base/kernel_desc.h"
#include "graph/array.h"

/* What does not change from call to call. Immutable once made; texts are its own. */
struct kl_kernel {
    char *name, *source, *header;
    char **names; /* inputs, then outputs */
    int n_in, n_out;
    bool is_cuda, row_contiguous, raises;
    size_t shared_bytes;
    uint32_t
        described; /* bit i: the source speaks of the shape, strides, ndim or size of names[i] */
};

struct kl_kernel_def {
    const char *name, *source, *header; /* header may be NULL */
    const char *const *in_names, *const *out_names;
    size_t n_in, n_out;
    bool is_cuda;        /* CUDA C++; else the common dialect */
    bool row_contiguous; /* inputs that are not are copied */
    size_t shared_bytes; /* dynamic shared memory */
};

enum kl_template_kind { KL_TEMPLATE_DTYPE, KL_TEMPLATE_INT, KL_TEMPLATE_BOOL };
struct kl_kernel_template {
    const char *name;
    enum kl_template_kind kind;
    int value; /* an enum kl_dtype, a number, 0 or 1 */
};

/* What one call adds. */
struct kl_kernel_use {
    const struct kl_out_spec *outs;
    size_t n_outs;
    const struct kl_kernel_template *templates;
    size_t n_templates;
    int grid[3], group[3]; /* threads */
    bool has_init;
    float init_value;
    size_t shared_bytes; /* in addition to the kernel's */
};

/* KL_EARG: no name, no output, a name that is no identifier or that is given twice. */
int kl_kernel_new(struct kl_kernel **out, const struct kl_kernel_def *def, struct kl_error **err);
void kl_kernel_free(struct kl_kernel *k); /* NULL is fine */
/* The source for these inputs and this use: of kl_malloc. Errors as of apply. */
int kl_kernel_source(char **out, const struct kl_kernel *k, const struct kl_kernel_use *use,
                     struct kl_array *const *in, size_t n_in, struct kl_error **err);
/* outs: k->n_out new arrays. KL_EARG, KL_EDTYPE, KL_ESHAPE; KL_EUNSUPPORTED when the stream's device has no compiler for it. What depends
 * on the device's limits fails the operation. */
int kl_kernel_apply(struct kl_array **outs, const struct kl_kernel *k,
                    const struct kl_kernel_use *use, struct kl_array *const *in, size_t n_in,
                    struct kl_stream *s, struct kl_error **err);
