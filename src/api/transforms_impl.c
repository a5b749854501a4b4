/* transforms_impl.c - mlx/c/transforms_impl.h: the two halves of vmap. */
#include "api/handles/closure.h"
#include "transforms/transforms.h"

static void check_axes(struct kl_call *c, const int *axes, size_t n, size_t n_arrays,
                       const char *what) {
    if (c->err) return;
    if (n && !axes)
        kl_fail(&c->err, KL_EARG, "%s is NULL and its count is %zu", what, n);
    else if (n != n_arrays)
        kl_fail(&c->err, KL_EARG, "%s has %zu entries for %zu arrays", what, n, n_arrays);
}

int mlx_detail_vmap_trace(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                          const mlx_vector_array inputs, const int *in_axes, size_t in_axes_num) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    struct kl_arrays in = {0}, out = {0};
    kl_need(&c, res_1, "the second result");
    struct kl_closure *f = kl_in_closure(&c, fun.ctx, "fun");
    const struct kl_vec *v = kl_in_vec(&c, inputs.ctx, "inputs");
    if (v) check_axes(&c, in_axes, in_axes_num, v->n, "in_axes");
    if (c.err) return kl_call_end_plain(&c);
    struct kl_function function = kl_closure_as_function(f);
    kl_vmap_trace(&function, kl_vec_array_items(v), v->n, in_axes, &in, &out, &c.err);
    kl_function_release(&function);
    return kl_call_end_arrays_pair(&c, res_0, res_1, &in, &out);
}

int mlx_detail_vmap_replace(mlx_vector_array *res, const mlx_vector_array inputs,
                            const mlx_vector_array s_inputs, const mlx_vector_array s_outputs,
                            const int *in_axes, size_t in_axes_num, const int *out_axes,
                            size_t out_axes_num) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_arrays out = {0};
    const struct kl_vec *v = kl_in_vec(&c, inputs.ctx, "inputs");
    const struct kl_vec *si = kl_in_vec(&c, s_inputs.ctx, "s_inputs");
    const struct kl_vec *so = kl_in_vec(&c, s_outputs.ctx, "s_outputs");
    if (!c.err) check_axes(&c, in_axes, in_axes_num, v->n, "in_axes");
    if (!c.err) check_axes(&c, out_axes, out_axes_num, so->n, "out_axes");
    if (!c.err && si->n != v->n)
        kl_fail(&c.err, KL_EARG, "%zu traced inputs for %zu inputs", si->n, v->n);
    if (!c.err)
        kl_vmap_replace(kl_vec_array_items(v), v->n, kl_vec_array_items(si), kl_vec_array_items(so),
                        so->n, in_axes, out_axes, &out, &c.err);
    return kl_call_end_arrays(&c, res, &out);
}
