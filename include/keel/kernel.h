/* kernel.h - kernels that the caller writes, which run on every GPU (CUDA and OpenCL), and kernels
 * of programs that are compiled already (CUDA).
 *
 * The source is the body of a function in Keel's kernel dialect: C with some additional names.
 * docs/kernels.md lists these names and has a complete example. In short:
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
 * A kernel may report an error: after RAISE(code, position) its outputs fail with KEEL_EKERNEL
 * (keel/error.h). `index` of the error is the code, and `position` is the smallest position that
 * was raised, the same on every run. A kernel never runs on inputs that have failed: its outputs
 * then fail with the error of the input.
 *
 * The functions return 0, or 1 with an error raised. Any thread may call them. A kernel is
 * immutable, so several threads may use it at the same time. */
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
    /* Inputs keep their strides, and the kernel reads them through the strides. Without this flag
     * an input that is not row-major is copied first. */
    KEEL_KERNEL_STRIDED = 1
};

/* The shape and dtype of one output. Outputs are always row-major; every dtype is taken. */
typedef struct keel_kernel_output_ {
    const int *shape; /* may be NULL when ndim is 0 */
    int ndim;
    mlx_dtype dtype;
} keel_kernel_output;

enum keel_kernel_template_kind {
    KEEL_TEMPLATE_DTYPE = 0, /* value is an mlx_dtype; name becomes a storage type of the dialect */
    KEEL_TEMPLATE_INT = 1,   /* value is an integer constant */
    KEEL_TEMPLATE_BOOL = 2   /* value is 0 or 1 */
};
/* A template argument: a type or a constant that the source is compiled with. */
typedef struct keel_kernel_template_ {
    const char *name; /* an identifier of C */
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

/* The configuration of one call. Set the fields that you do not use to 0. The configuration and all
 * that it points to are read during the call only. */
typedef struct keel_kernel_config_ {
    const keel_kernel_output *outputs; /* in the order of the kernel's output names */
    size_t n_outputs;
    const keel_kernel_template *templates;
    size_t n_templates;
    /* grid: work-items of the whole launch along each of three axes. group: work-items of one
     * work-group along the same axes. All six are 1 or more. Only whole groups are launched: when
     * the grid is not a multiple of the group, work-items outside of the grid run too. in_grid() is
     * false for these, and gid() gives them a position beyond the end of every array. */
    int grid[3];
    int group[3];
    /* Whether the outputs are filled with init_value before the kernel runs. Without it the kernel
     * must write every element. */
    bool has_init_value;
    float init_value;    /* converted to the dtype of each output, which must be able to hold it */
    size_t shared_bytes; /* bytes of dynamic shared memory per group (keel_shared, SHARED_AT) */
} keel_kernel_config;

/* Makes a kernel. The texts are copied. header (may be NULL) is put before the function and may
 * define functions and macros. name and the names of arrays are different identifiers of at most
 * 100 letters; none begins with keel_. A kernel has at most 24 arrays and at least one output.
 * Nothing is compiled yet. On failure ctx is NULL and KEEL_EARG, KEEL_ELIMIT or KEEL_ENOMEM is
 * raised. The caller frees the kernel with keel_kernel_free. */
KEEL_API keel_kernel keel_kernel_new(const char *name, const char *const *input_names,
                                     size_t n_inputs, const char *const *output_names,
                                     size_t n_outputs, const char *source, const char *header,
                                     unsigned flags);
/* Frees the kernel. Arrays that it made keep what they need, also when they are not evaluated yet.
 * An empty handle is allowed. */
KEEL_API int keel_kernel_free(keel_kernel kernel);

/* Puts one lazy array per output into *outputs. inputs has as many arrays as the kernel has input
 * names; it is an empty handle when the kernel has none.
 * Errors of the call, which change nothing: KEEL_EARG (NULL, empty handles, a wrong number of
 * arrays, grid or group below 1, template arguments, an initial value that a dtype does not hold),
 * KEEL_ELIMIT (the whole groups of the grid have more than 2^63 - 1 work-items), KEEL_EDTYPE,
 * KEEL_ESHAPE, KEEL_EUNSUPPORTED (the stream is not one of a GPU).
 * Errors of the arrays, when they are evaluated: KEEL_ECOMPILE with the message of the compiler,
 * whose line numbers are those of `source`, in a file that has the kernel's name; KEEL_EARG when
 * this kernel's group, grid or shared memory (of the source and the configuration together) is more
 * than the device takes; KEEL_EUNSUPPORTED when the device lacks float64; KEEL_EKERNEL when
 * the kernel raised an error. */
KEEL_API int keel_kernel_apply(mlx_vector_array *outputs, keel_kernel kernel,
                               const mlx_vector_array inputs, const keel_kernel_config *config,
                               const mlx_stream stream);

/* Puts the generated source that keel_kernel_apply would compile into *source, without the
 * definitions of the dialect before it. Raises the errors that keel_kernel_apply raises at once for
 * its inputs and configuration. */
KEEL_API int keel_kernel_source(mlx_string *source, keel_kernel kernel,
                                const mlx_vector_array inputs, const keel_kernel_config *config);

/* ---- compiled programs, on CUDA only ---- */

/* A number that a compiled kernel takes by value. */
enum keel_kernel_scalar_kind {
    KEEL_SCALAR_BOOL = 0, /* bool, 1 byte */
    KEEL_SCALAR_INT = 1,  /* int, 4 bytes */
    KEEL_SCALAR_FLOAT = 2 /* float, 4 bytes */
};
typedef struct keel_kernel_scalar_ {
    enum keel_kernel_scalar_kind kind;
    union {
        bool b;
        int i;
        float f;
    } value;
} keel_kernel_scalar;

/* Puts one lazy array per output of config into *outputs, as keel_kernel_apply does, by the kernel
 * `name` of a program that is compiled already: PTX, a CUBIN or a fatbin of program_bytes bytes,
 * which are copied. The parameters of the kernel are a pointer to every input, a pointer to every
 * output, and the scalars. There are at most 24 arrays and 32 parameters. flags: as in
 * keel_kernel_new. config has no templates. inputs is a list of no arrays when there are none.
 *
 * The kernel does not see whether an operation before it has failed on the device. Where one may
 * have, it gets copies of its inputs that are zero then, and its outputs fail with that error.
 *
 * Errors of the call: as of keel_kernel_apply; KEEL_EUNSUPPORTED when the stream is not one of
 * CUDA. Errors of the arrays: KEEL_ECOMPILE when the device does not take the program, or it has no
 * such kernel; KEEL_EARG when the group, the grid or the shared memory is more than the device
 * takes. */
KEEL_API int keel_kernel_apply_compiled(mlx_vector_array *outputs, const char *name,
                                        const void *program, size_t program_bytes,
                                        const mlx_vector_array inputs,
                                        const keel_kernel_scalar *scalars, size_t n_scalars,
                                        const keel_kernel_config *config, unsigned flags,
                                        const mlx_stream stream);

#ifdef __cplusplus
}
#endif
#endif
