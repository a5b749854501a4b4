/* kernel.h - kernels of your own that run on every GPU, CUDA's and OpenCL's.
 *
 * The source is the body of a function in Keel's kernel dialect, C with a few names (docs/kernels.md
 * has all of them, and a complete example):
 *
 *     keel_kernel k = keel_kernel_new("scale", (const char *[]){"x"}, 1, (const char *[]){"y"}, 1,
 *         "i64 i = gid();\n"
 *         "if (i < y_size) STORE(T, y, i, LOAD(T, x, i) * FACTOR);\n", NULL, 0);
 *     keel_kernel_config c = {
 *         .outputs = &(keel_kernel_output){(int[]){n}, 1, MLX_FLOAT32}, .n_outputs = 1,
 *         .templates = (keel_kernel_template[]){keel_kernel_dtype("T", MLX_FLOAT32),
 *                                               keel_kernel_int("FACTOR", 3)}, .n_templates = 2,
 *         .grid = {n, 1, 1}, .group = {64, 1, 1}};
 *     keel_kernel_apply(&outputs, k, inputs, &c, stream);
 *
 * A kernel may fail: RAISE(code, position) makes its outputs fail with KEEL_EKERNEL, `index` the code
 * and `position` the smallest position raised, the same on every run (keel/error.h). A kernel never
 * runs on inputs that have failed: its outputs fail with their error.
 *
 * Functions return 0, or 1 with an error raised. Any thread may call; kernels are immutable and may
 * be used by several threads at once. */
#ifndef KEEL_KERNEL_H
#define KEEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct keel_kernel_ {
    void *ctx;
} keel_kernel;

/* Flags of keel_kernel_new, or-ed. */
enum keel_kernel_flag {
    /* Inputs come as they lie in memory, to be read through their strides. Without it those that
     * are not row-major are copied first. */
    KEEL_KERNEL_STRIDED = 1
};

/* An output: row-major, of any dtype. */
typedef struct keel_kernel_output_ {
    const int *shape; /* may be NULL when ndim is 0 */
    int ndim;
    mlx_dtype dtype;
} keel_kernel_output;

enum keel_kernel_template_kind {
    KEEL_TEMPLATE_DTYPE = 0, /* value: an mlx_dtype. The name is a storage type of the dialect */
    KEEL_TEMPLATE_INT = 1,   /* a constant */
    KEEL_TEMPLATE_BOOL = 2   /* 0 or 1 */
};
/* Something that the source is compiled for. */
typedef struct keel_kernel_template_ {
    const char *name; /* an identifier */
    enum keel_kernel_template_kind kind;
    int value;
} keel_kernel_template;

static inline keel_kernel_template keel_kernel_dtype(const char *name, mlx_dtype dtype) {
    keel_kernel_template t = {name, KEEL_TEMPLATE_DTYPE, (int)dtype};
    return t;
}
static inline keel_kernel_template keel_kernel_int(const char *name, int value) {
    keel_kernel_template t = {name, KEEL_TEMPLATE_INT, value};
    return t;
}
static inline keel_kernel_template keel_kernel_bool(const char *name, bool value) {
    keel_kernel_template t = {name, KEEL_TEMPLATE_BOOL, value ? 1 : 0};
    return t;
}

/* One call. Zero what you do not use; all of it is read during the call only. */
typedef struct keel_kernel_config_ {
    const keel_kernel_output *outputs; /* in the order of the kernel's output names */
    size_t n_outputs;
    const keel_kernel_template *templates;
    size_t n_templates;
    /* Threads of the whole launch, and of one group, along each of three axes: all 1 or more.
     * Groups are launched whole: where the grid is no multiple of the group, threads beyond the
     * grid run too. in_grid() tells them, and gid() gives them a position beyond every array. */
    int grid[3];
    int group[3];
    /* Fill the outputs before the kernel runs. Without it the kernel must write every element. */
    bool has_init_value;
    float init_value;    /* converted to each output's dtype, which must be able to hold it */
    size_t shared_bytes; /* dynamic shared memory per group: keel_shared, SHARED_AT */
} keel_kernel_config;

/* A kernel. All texts are copied; header (may be NULL) comes before the function, for functions
 * and macros of yours. name and the names of arrays are identifiers, at most 100 letters, all
 * different, none beginning with keel_; 24 arrays at most, at least one output. Nothing is compiled
 * yet. ctx is NULL, and KEEL_EARG, KEEL_ELIMIT or KEEL_ENOMEM raised, on failure. */
KEEL_API keel_kernel keel_kernel_new(const char *name, const char *const *input_names,
                                     size_t n_inputs, const char *const *output_names,
                                     size_t n_outputs, const char *source, const char *header,
                                     unsigned flags);
/* Arrays that it will make keep what they need. An empty handle is fine. */
KEEL_API int keel_kernel_free(keel_kernel kernel);

/* outputs gets one lazy array per output. inputs: as many as the kernel has input names; an empty
 * handle when it has none. Fails at once, and changes nothing: KEEL_EARG (NULL, empty handles,
 * numbers of arrays, grid or group below 1, template arguments, an initial value that a dtype does
 * not hold), KEEL_ELIMIT (the threads of the grid, whole groups, are over 2^63 - 1), KEEL_EDTYPE,
 * KEEL_ESHAPE, KEEL_EUNSUPPORTED (the stream is not a GPU's). The arrays fail when they are
 * evaluated: KEEL_ECOMPILE with the compiler's words, whose line numbers are those of `source`, in
 * a file of the kernel's name; KEEL_EARG when group, grid or shared memory (the source's and the
 * config's together) are more than the device takes, of this kernel; KEEL_EUNSUPPORTED when it
 * lacks float64, or the 64-bit atomics that RAISE needs; KEEL_EKERNEL when the kernel raised an
 * error. */
KEEL_API int keel_kernel_apply(mlx_vector_array *outputs, keel_kernel kernel,
                               const mlx_vector_array inputs, const keel_kernel_config *config,
                               const mlx_stream stream);

/* The generated source that apply would compile, behind the dialect's own definitions. */
KEEL_API int keel_kernel_source(mlx_string *source, keel_kernel kernel,
                                const mlx_vector_array inputs, const keel_kernel_config *config);

#ifdef __cplusplus
}
#endif
#endif
