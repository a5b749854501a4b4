/* kernel_fast.c - mlx/c/fast.h: kernels of the user in CUDA C++ and in Metal's language. */
#include <stdio.h>
#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "ops/kernel.h"
#include "ops/ops.h"
#include "runtime/device.h"

/* ---- configs, to which the handles of both kinds point ---- */
struct config {
    struct kl_kernel_use use; /* outs and templates are owned lists, with owned shapes and names */
    bool verbose;
};

/* The lists grow by one entry at a time, because they are short. */
static struct kl_out_spec *outs_of(struct config *cfg) {
    return (struct kl_out_spec *)cfg->use.outs;
}
static struct kl_kernel_template *templates_of(struct config *cfg) {
    return (struct kl_kernel_template *)cfg->use.templates;
}

static struct config *config_new(const char *func) {
    struct kl_call c = {.func = func};
    struct config *cfg = kl_calloc(1, sizeof *cfg);
    if (!cfg) kl_fail_nomem(&c.err);
    kl_call_end_plain(&c);
    return cfg;
}

static void config_free(struct config *cfg) {
    if (!cfg) return;
    for (size_t i = 0; i < cfg->use.n_outs; i++) kl_free((void *)cfg->use.outs[i].dims);
    for (size_t i = 0; i < cfg->use.n_templates; i++) kl_free((void *)cfg->use.templates[i].name);
    kl_free(outs_of(cfg));
    kl_free(templates_of(cfg));
    kl_free(cfg);
}

static struct config *in_config(struct kl_call *c, void *ctx) {
    if (!ctx) kl_fail(&c->err, KL_EARG, "the config is an empty handle");
    return ctx;
}

static int check_output(const int *shape, size_t size, mlx_dtype dtype, struct kl_error **err) {
    if (size && !shape) return kl_fail(err, KL_EARG, "shape is NULL and its size is %zu", size);
    if (size > 64) return kl_fail(err, KL_ESHAPE, "%zu axes; 64 at most", size);
    if (!kl_dtype_valid((int)dtype)) return kl_fail(err, KL_EDTYPE, "%d is no dtype", (int)dtype);
    for (size_t i = 0; i < size; i++)
        if (shape[i] < 0)
            return kl_fail(err, KL_ESHAPE, "axis %zu has size %d; sizes are 0 or more", i,
                           shape[i]);
    return KL_OK;
}

static int append_output(struct config *cfg, const int *shape, size_t size, mlx_dtype dtype,
                         struct kl_error **err) {
    KL_TRY(check_output(shape, size, dtype, err));
    struct kl_out_spec *outs = kl_realloc(outs_of(cfg), (cfg->use.n_outs + 1) * sizeof *outs);
    if (!outs) return kl_fail_nomem(err);
    cfg->use.outs = outs;
    int *dims = kl_malloc((size + 1) * sizeof *dims);
    if (!dims) return kl_fail_nomem(err);
    if (size) memcpy(dims, shape, size * sizeof *dims);
    outs[cfg->use.n_outs++] = (struct kl_out_spec){(enum kl_dtype)dtype, (int)size, dims};
    return KL_OK;
}

static int add_output(const char *func, void *ctx, const int *shape, size_t size, mlx_dtype dtype) {
    struct kl_call c = {.func = func};
    struct config *cfg = in_config(&c, ctx);
    if (!c.err) append_output(cfg, shape, size, dtype, &c.err);
    return kl_call_end_plain(&c);
}

static int append_template(struct config *cfg, const char *name, enum kl_template_kind kind,
                           int value, struct kl_error **err) {
    if (!name) return kl_fail(err, KL_EARG, "the name is NULL");
    if (kind == KL_TEMPLATE_DTYPE && !kl_dtype_valid(value))
        return kl_fail(err, KL_EDTYPE, "%d is no dtype", value);
    struct kl_kernel_template *all =
        kl_realloc(templates_of(cfg), (cfg->use.n_templates + 1) * sizeof *all);
    if (!all) return kl_fail_nomem(err);
    cfg->use.templates = all;
    char *own = kl_strdup(name);
    if (!own) return kl_fail_nomem(err);
    all[cfg->use.n_templates++] = (struct kl_kernel_template){own, kind, value};
    return KL_OK;
}

static int add_template(const char *func, void *ctx, const char *name, enum kl_template_kind kind,
                        int value) {
    struct kl_call c = {.func = func};
    struct config *cfg = in_config(&c, ctx);
    if (!c.err) append_template(cfg, name, kind, value, &c.err);
    return kl_call_end_plain(&c);
}

static int set_sizes(const char *func, void *ctx, bool group, int x, int y, int z) {
    struct kl_call c = {.func = func};
    struct config *cfg = in_config(&c, ctx);
    if (!c.err) {
        int *to = group ? cfg->use.group : cfg->use.grid;
        to[0] = x;
        to[1] = y;
        to[2] = z;
    }
    return kl_call_end_plain(&c);
}

static int set_init(const char *func, void *ctx, float value) {
    struct kl_call c = {.func = func};
    struct config *cfg = in_config(&c, ctx);
    if (!c.err) {
        cfg->use.has_init = true;
        cfg->use.init_value = value;
    }
    return kl_call_end_plain(&c);
}

static int set_verbose(const char *func, void *ctx, bool verbose) {
    struct kl_call c = {.func = func};
    struct config *cfg = in_config(&c, ctx);
    if (!c.err) cfg->verbose = verbose;
    return kl_call_end_plain(&c);
}

#define CONFIG(KIND)                                                                               \
    mlx_fast_##KIND##_kernel_config mlx_fast_##KIND##_kernel_config_new(void) {                    \
        return (mlx_fast_##KIND##_kernel_config){config_new(__func__)};                            \
    }                                                                                              \
    void mlx_fast_##KIND##_kernel_config_free(mlx_fast_##KIND##_kernel_config cls) {               \
        config_free(cls.ctx);                                                                      \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_add_output_arg(                                            \
        mlx_fast_##KIND##_kernel_config cls, const int *shape, size_t size, mlx_dtype dtype) {     \
        return add_output(__func__, cls.ctx, shape, size, dtype);                                  \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_set_grid(mlx_fast_##KIND##_kernel_config cls, int grid1,   \
                                                 int grid2, int grid3) {                           \
        return set_sizes(__func__, cls.ctx, false, grid1, grid2, grid3);                           \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_set_thread_group(mlx_fast_##KIND##_kernel_config cls,      \
                                                         int thread1, int thread2, int thread3) {  \
        return set_sizes(__func__, cls.ctx, true, thread1, thread2, thread3);                      \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_set_init_value(mlx_fast_##KIND##_kernel_config cls,        \
                                                       float value) {                              \
        return set_init(__func__, cls.ctx, value);                                                 \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_set_verbose(mlx_fast_##KIND##_kernel_config cls,           \
                                                    bool verbose) {                                \
        return set_verbose(__func__, cls.ctx, verbose);                                            \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_add_template_arg_dtype(                                    \
        mlx_fast_##KIND##_kernel_config cls, const char *name, mlx_dtype dtype) {                  \
        return add_template(__func__, cls.ctx, name, KL_TEMPLATE_DTYPE, (int)dtype);               \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_add_template_arg_int(mlx_fast_##KIND##_kernel_config cls,  \
                                                             const char *name, int value) {        \
        return add_template(__func__, cls.ctx, name, KL_TEMPLATE_INT, value);                      \
    }                                                                                              \
    int mlx_fast_##KIND##_kernel_config_add_template_arg_bool(mlx_fast_##KIND##_kernel_config cls, \
                                                              const char *name, bool value) {      \
        return add_template(__func__, cls.ctx, name, KL_TEMPLATE_BOOL, value);                     \
    }

/* defines mlx_fast_cuda_kernel_config_new, mlx_fast_cuda_kernel_config_free,
 * mlx_fast_cuda_kernel_config_add_output_arg, mlx_fast_cuda_kernel_config_set_grid,
 * mlx_fast_cuda_kernel_config_set_thread_group, mlx_fast_cuda_kernel_config_set_init_value,
 * mlx_fast_cuda_kernel_config_set_verbose, mlx_fast_cuda_kernel_config_add_template_arg_dtype,
 * mlx_fast_cuda_kernel_config_add_template_arg_int,
 * mlx_fast_cuda_kernel_config_add_template_arg_bool */
CONFIG(cuda)
/* defines mlx_fast_metal_kernel_config_new, mlx_fast_metal_kernel_config_free,
 * mlx_fast_metal_kernel_config_add_output_arg, mlx_fast_metal_kernel_config_set_grid,
 * mlx_fast_metal_kernel_config_set_thread_group, mlx_fast_metal_kernel_config_set_init_value,
 * mlx_fast_metal_kernel_config_set_verbose, mlx_fast_metal_kernel_config_add_template_arg_dtype,
 * mlx_fast_metal_kernel_config_add_template_arg_int,
 * mlx_fast_metal_kernel_config_add_template_arg_bool */
CONFIG(metal)

/* ---- CUDA ---- */

mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new(const char *name, const mlx_vector_string input_names,
                                              const mlx_vector_string output_names,
                                              const char *source, const char *header,
                                              bool ensure_row_contiguous, int shared_memory) {
    struct kl_call c = {.func = __func__};
    struct kl_kernel *k = NULL;
    kl_need(&c, name, "name");
    kl_need(&c, source, "source");
    const struct kl_vec *in = kl_in_vec(&c, input_names.ctx, "input_names");
    const struct kl_vec *out = kl_in_vec(&c, output_names.ctx, "output_names");
    if (shared_memory < 0)
        kl_fail(&c.err, KL_EARG, "shared_memory is %d; bytes are 0 or more", shared_memory);
    if (!c.err) {
        struct kl_kernel_def def = {.name = name,
                                    .source = source,
                                    .header = header,
                                    .in_names = in->items,
                                    .n_in = in->n,
                                    .out_names = out->items,
                                    .n_out = out->n,
                                    .is_cuda = true,
                                    .row_contiguous = ensure_row_contiguous,
                                    .shared_bytes = (size_t)shared_memory};
        kl_kernel_new(&k, &def, &c.err);
    }
    kl_call_end_plain(&c);
    return (mlx_fast_cuda_kernel){k};
}

void mlx_fast_cuda_kernel_free(mlx_fast_cuda_kernel cls) {
    kl_kernel_free(cls.ctx);
}

static void show(const struct kl_kernel *k, const struct kl_kernel_use *use,
                 const struct kl_vec *in, struct kl_error **err) {
    char *text = NULL;
    if (kl_kernel_source(&text, k, use, kl_vec_array_items(in), in->n, err)) return;
    printf("Generated source of kernel '%s':\n%s\n", k->name, text);
    fflush(stdout);
    kl_free(text);
}

/* Applies a kernel of either kind. c: begun by the public function. */
static int apply(struct kl_call *c, mlx_vector_array *outputs, const struct kl_kernel *k,
                 const mlx_vector_array inputs, void *config, const mlx_stream stream) {
    if (!k) kl_fail(&c->err, KL_EARG, "the kernel is an empty handle");
    const struct kl_vec *in = kl_in_vec(c, inputs.ctx, "inputs");
    const struct config *cfg = in_config(c, config);
    struct kl_stream *on = kl_in_stream(c, stream);
    struct kl_array **outs = NULL;
    if (!c->err && cfg->verbose) show(k, &cfg->use, in, &c->err);
    if (!c->err && !(outs = kl_calloc((size_t)k->n_out, sizeof *outs))) kl_fail_nomem(&c->err);
    if (!c->err) kl_kernel_apply(outs, k, &cfg->use, kl_vec_array_items(in), in->n, on, &c->err);
    size_t n = 0;
    while (outs && n < (size_t)k->n_out && outs[n]) n++;
    return kl_call_end_list(c, outputs, outs, n);
}

int mlx_fast_cuda_kernel_apply(mlx_vector_array *outputs, mlx_fast_cuda_kernel cls,
                               const mlx_vector_array inputs,
                               const mlx_fast_cuda_kernel_config config, const mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, outputs);
    return apply(&c, outputs, cls.ctx, inputs, config.ctx, stream);
}

/* ---- Metal ---- */

static void need_metal(struct kl_call *c) {
    if (!c->err && !kl_device_driver_is_there("metal"))
        kl_fail(&c->err, KL_EUNSUPPORTED,
                "there is no Metal device; keel/kernel.h has kernels for the devices that there "
                "are");
}

mlx_fast_metal_kernel mlx_fast_metal_kernel_new(const char *name,
                                                const mlx_vector_string input_names,
                                                const mlx_vector_string output_names,
                                                const char *source, const char *header,
                                                bool ensure_row_contiguous, bool atomic_outputs) {
    struct kl_call c = {.func = __func__};
    struct kl_kernel *k = NULL;
    kl_need(&c, name, "name");
    kl_need(&c, source, "source");
    const struct kl_vec *in = kl_in_vec(&c, input_names.ctx, "input_names");
    const struct kl_vec *out = kl_in_vec(&c, output_names.ctx, "output_names");
    need_metal(&c);
    if (!c.err) {
        struct kl_kernel_def def = {.name = name,
                                    .source = source,
                                    .header = header,
                                    .in_names = in->items,
                                    .n_in = in->n,
                                    .out_names = out->items,
                                    .n_out = out->n,
                                    .is_metal = true,
                                    .row_contiguous = ensure_row_contiguous,
                                    .atomic_outputs = atomic_outputs};
        kl_kernel_new(&k, &def, &c.err);
    }
    kl_call_end_plain(&c);
    return (mlx_fast_metal_kernel){k};
}

void mlx_fast_metal_kernel_free(mlx_fast_metal_kernel cls) {
    kl_kernel_free(cls.ctx);
}

int mlx_fast_metal_kernel_apply(mlx_vector_array *outputs, mlx_fast_metal_kernel cls,
                                const mlx_vector_array inputs,
                                const mlx_fast_metal_kernel_config config,
                                const mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, outputs);
    need_metal(&c);
    return apply(&c, outputs, cls.ctx, inputs, config.ctx, stream);
}
