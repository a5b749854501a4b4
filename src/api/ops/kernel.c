/* kernel.c - keel/kernel.h: custom kernels in the common dialect, and compiled ones. */
#include <keel/kernel.h>
#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "ops/kernel.h"

static struct kl_kernel *in_kernel(struct kl_call *c, keel_kernel k) {
    if (!k.ctx) kl_fail(&c->err, KL_EARG, "the kernel is an empty handle");
    return k.ctx;
}

static void check_flags(struct kl_call *c, unsigned flags) {
    if (flags & ~(unsigned)KEEL_KERNEL_STRIDED)
        kl_fail(&c->err, KL_EARG, "flags %#x: there is only KEEL_KERNEL_STRIDED", flags);
}

keel_kernel keel_kernel_new(const char *name, const char *const *input_names, size_t n_inputs,
                            const char *const *output_names, size_t n_outputs, const char *source,
                            const char *header, unsigned flags) {
    struct kl_call c = {.func = __func__};
    struct kl_kernel *k = NULL;
    struct kl_kernel_def def = {.name = name,
                                .source = source,
                                .header = header,
                                .in_names = input_names,
                                .out_names = output_names,
                                .n_in = n_inputs,
                                .n_out = n_outputs,
                                .row_contiguous = !(flags & KEEL_KERNEL_STRIDED)};
    kl_need(&c, name, "the name");
    check_flags(&c, flags);
    if (!c.err) kl_kernel_new(&k, &def, &c.err);
    kl_call_end_plain(&c);
    return (keel_kernel){k};
}

int keel_kernel_free(keel_kernel kernel) {
    kl_kernel_free(kernel.ctx);
    return 0;
}

/* ---- configs ---- */

/* A config in the form that the layers below take. The lists have the config's lengths and are made
 * by kl_malloc. */
struct use {
    struct kl_kernel_use v;
    struct kl_out_spec *outs;
    struct kl_kernel_template *templates;
};

static void use_drop(struct use *u) {
    kl_free(u->outs);
    kl_free(u->templates);
}

static void use_init(struct kl_call *c, struct use *u, const keel_kernel_config *from) {
    *u = (struct use){.outs = NULL};
    if (c->err) return;
    if (from->n_outputs > KL_KERNEL_MAX_ARGS || from->n_templates > 1000) {
        kl_fail(&c->err, KL_ELIMIT, "%zu outputs and %zu template arguments are too many",
                from->n_outputs, from->n_templates);
        return;
    }
    if (from->n_outputs) kl_need(c, from->outputs, "the list of outputs");
    if (from->n_templates) kl_need(c, from->templates, "the list of template arguments");
    if (c->err) return;
    u->outs = kl_malloc(from->n_outputs * sizeof *u->outs);
    u->templates = kl_malloc(from->n_templates * sizeof *u->templates);
    if (!u->outs || !u->templates) {
        kl_fail_nomem(&c->err);
        return;
    }
    for (size_t i = 0; i < from->n_outputs; i++) {
        const keel_kernel_output *o = &from->outputs[i];
        u->outs[i] = (struct kl_out_spec){(enum kl_dtype)o->dtype, o->ndim, o->shape};
    }
    for (size_t i = 0; i < from->n_templates; i++) {
        const keel_kernel_template *t = &from->templates[i];
        if ((unsigned)t->kind > KEEL_TEMPLATE_BOOL)
            kl_fail(&c->err, KL_EARG, "template argument %zu is of kind %d, which there is not", i,
                    (int)t->kind);
        u->templates[i] =
            (struct kl_kernel_template){t->name, (enum kl_template_kind)t->kind,
                                        t->kind == KEEL_TEMPLATE_BOOL ? t->value != 0 : t->value};
    }
    u->v = (struct kl_kernel_use){.outs = u->outs,
                                  .n_outs = from->n_outputs,
                                  .templates = u->templates,
                                  .n_templates = from->n_templates,
                                  .grid = {from->grid[0], from->grid[1], from->grid[2]},
                                  .group = {from->group[0], from->group[1], from->group[2]},
                                  .has_init = from->has_init_value,
                                  .init_value = from->init_value,
                                  .shared_bytes = from->shared_bytes};
}

/* The inputs; an empty handle is allowed for a kernel without inputs. */
static const struct kl_vec *in_inputs(struct kl_call *c, const struct kl_kernel *k,
                                      mlx_vector_array inputs) {
    static const struct kl_vec none = {0};
    if (!inputs.ctx && k && k->n_in == 0) return &none;
    return kl_in_vec(c, inputs.ctx, "inputs");
}

/* Ends a call that has made the first arrays of outs, which has n_out places; outs may be NULL. */
static int end_outputs(struct kl_call *c, mlx_vector_array *outputs, struct kl_array **outs,
                       size_t n_out) {
    size_t n = 0;
    while (outs && n < n_out && outs[n]) n++;
    return kl_call_end_list(c, outputs, outs, n);
}

int keel_kernel_apply(mlx_vector_array *outputs, keel_kernel kernel, const mlx_vector_array inputs,
                      const keel_kernel_config *config, const mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, outputs);
    const struct kl_kernel *k = in_kernel(&c, kernel);
    const struct kl_vec *in = in_inputs(&c, k, inputs);
    struct kl_stream *on = kl_in_stream(&c, stream);
    struct kl_array **outs = NULL;
    struct use u;
    kl_need(&c, config, "config");
    use_init(&c, &u, config);
    if (!c.err && !(outs = kl_calloc((size_t)k->n_out, sizeof *outs))) kl_fail_nomem(&c.err);
    if (!c.err) kl_kernel_apply(outs, k, &u.v, kl_vec_array_items(in), in->n, on, &c.err);
    use_drop(&u);
    return end_outputs(&c, outputs, outs, k ? (size_t)k->n_out : 0);
}

int keel_kernel_source(mlx_string *source, keel_kernel kernel, const mlx_vector_array inputs,
                       const keel_kernel_config *config) {
    struct kl_call c = kl_call_begin(__func__, source);
    const struct kl_kernel *k = in_kernel(&c, kernel);
    const struct kl_vec *in = in_inputs(&c, k, inputs);
    char *text = NULL;
    struct use u;
    kl_need(&c, config, "config");
    use_init(&c, &u, config);
    if (!c.err) kl_kernel_source(&text, k, &u.v, kl_vec_array_items(in), in->n, &c.err);
    use_drop(&u);
    return kl_call_end_text(&c, source, text);
}

/* ---- compiled programs ---- */

static void scalars_init(struct kl_call *c, struct kl_kernel_scalar *to,
                         const keel_kernel_scalar *from, size_t n) {
    if (n) kl_need(c, from, "the list of scalars");
    if (n > KL_KERNEL_MAX_PARAMS)
        kl_fail(&c->err, KL_ELIMIT, "%zu scalars; %d arguments at most", n, KL_KERNEL_MAX_PARAMS);
    for (size_t i = 0; i < n && !c->err; i++) {
        const keel_kernel_scalar *s = &from[i];
        if ((unsigned)s->kind > KEEL_SCALAR_FLOAT)
            kl_fail(&c->err, KL_EARG, "scalar %zu is of kind %d, which there is not", i,
                    (int)s->kind);
        to[i] = (struct kl_kernel_scalar){.bytes = s->kind == KEEL_SCALAR_BOOL ? 1 : 4};
        memcpy(to[i].value, &s->value, to[i].bytes);
    }
}

int keel_kernel_apply_compiled(mlx_vector_array *outputs, const char *name, const void *program,
                               size_t program_bytes, const mlx_vector_array inputs,
                               const keel_kernel_scalar *scalars, size_t n_scalars,
                               const keel_kernel_config *config, unsigned flags,
                               const mlx_stream stream) {
    struct kl_call c = kl_call_begin(__func__, outputs);
    const struct kl_vec *in = kl_in_vec(&c, inputs.ctx, "inputs");
    struct kl_stream *on = kl_in_stream(&c, stream);
    struct kl_kernel_scalar own[KL_KERNEL_MAX_PARAMS];
    struct kl_kernel_program k = {.name = name,
                                  .bytes = program,
                                  .n_bytes = program_bytes,
                                  .scalars = own,
                                  .n_scalars = n_scalars,
                                  .row_contiguous = !(flags & KEEL_KERNEL_STRIDED)};
    struct kl_array **outs = NULL;
    struct use u;
    kl_need(&c, name, "the name");
    kl_need(&c, program, "the program");
    kl_need(&c, config, "config");
    check_flags(&c, flags);
    if (!c.err) scalars_init(&c, own, scalars, n_scalars);
    use_init(&c, &u, config);
    if (!c.err && !(outs = kl_calloc(u.v.n_outs, sizeof *outs))) kl_fail_nomem(&c.err);
    if (!c.err) kl_kernel_apply_program(outs, &k, &u.v, kl_vec_array_items(in), in->n, on, &c.err);
    use_drop(&u);
    return end_outputs(&c, outputs, outs, u.v.n_outs);
}
