/* functions_reduce.c - reductions, variance, the place of the largest */
#include "keel_python.h"

typedef int over_all(mlx_array *, const mlx_array, bool, const mlx_stream);
typedef int over_axis(mlx_array *, const mlx_array, int, bool, const mlx_stream);
typedef int over_axes(mlx_array *, const mlx_array, const int *, size_t, bool, const mlx_stream);
static PyObject *reduce(struct kp_call *c, over_all *all, over_axis *axis, over_axes *axes) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    struct kp_value *v = &c->v[1];
    bool keep = c->v[2].i != 0;
    int rc = !v->given ? all(&out, a, keep, c->stream)
             : v->one  ? axis(&out, a, v->ints.at[0], keep, c->stream)
                       : axes(&out, a, v->ints.at, v->ints.n, keep, c->stream);
    return kp_done(rc, out);
}
KP_FUNCTION(core, all) {
    return reduce(c, mlx_all, mlx_all_axis, mlx_all_axes);
}
KP_FUNCTION(core, any) {
    return reduce(c, mlx_any, mlx_any_axis, mlx_any_axes);
}
KP_FUNCTION(core, logsumexp) {
    return reduce(c, mlx_logsumexp, mlx_logsumexp_axis, mlx_logsumexp_axes);
}
KP_FUNCTION(core, max) {
    return reduce(c, mlx_max, mlx_max_axis, mlx_max_axes);
}
KP_FUNCTION(core, mean) {
    return reduce(c, mlx_mean, mlx_mean_axis, mlx_mean_axes);
}
KP_FUNCTION(core, min) {
    return reduce(c, mlx_min, mlx_min_axis, mlx_min_axes);
}
KP_FUNCTION(core, prod) {
    return reduce(c, mlx_prod, mlx_prod_axis, mlx_prod_axes);
}
KP_FUNCTION(core, sum) {
    return reduce(c, mlx_sum, mlx_sum_axis, mlx_sum_axes);
}
KP_FUNCTION(core, median) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    int every[64], n = (int)mlx_array_ndim(a);
    const int *axes = c->v[1].given ? c->v[1].ints.at : every;
    for (int i = 0; i < n && i < 64; i++) every[i] = i;
    size_t n_axes = c->v[1].given ? c->v[1].ints.n : (size_t)n;
    return kp_done(mlx_median(&out, a, axes, n_axes, c->v[2].i != 0, c->stream), out);
}
static PyObject *
spread(struct kp_call *c, int (*all)(mlx_array *, const mlx_array, bool, int, const mlx_stream),
       int (*axes)(mlx_array *, const mlx_array, const int *, size_t, bool, int, const mlx_stream),
       int ddof) {
    mlx_array out = mlx_array_new();
    struct kp_value *v = &c->v[1];
    bool keep = c->v[2].i != 0;
    int rc = v->given ? axes(&out, c->v[0].array, v->ints.at, v->ints.n, keep, ddof, c->stream)
                      : all(&out, c->v[0].array, keep, ddof, c->stream);
    return kp_done(rc, out);
}
KP_FUNCTION(core, var) {
    return spread(c, mlx_var, mlx_var_axes, (int)c->v[3].i);
}
KP_FUNCTION(core, std) {
    return spread(c, mlx_std, mlx_std_axes, (int)c->v[3].i);
}
/* The methods also take `correction`, the array API's name of ddof. */
KP_FUNCTION(array, var) {
    return spread(c, mlx_var, mlx_var_axes, (int)c->v[c->v[4].given ? 4 : 3].i);
}
KP_FUNCTION(array, std) {
    return spread(c, mlx_std, mlx_std_axes, (int)c->v[c->v[4].given ? 4 : 3].i);
}
KP_FUNCTION(core, argmax) {
    mlx_array out = mlx_array_new();
    bool keep = c->v[2].i != 0;
    return kp_done(c->v[1].given
                       ? mlx_argmax_axis(&out, c->v[0].array, (int)c->v[1].i, keep, c->stream)
                       : mlx_argmax(&out, c->v[0].array, keep, c->stream),
                   out);
}
KP_FUNCTION(core, argmin) {
    mlx_array out = mlx_array_new();
    bool keep = c->v[2].i != 0;
    return kp_done(c->v[1].given
                       ? mlx_argmin_axis(&out, c->v[0].array, (int)c->v[1].i, keep, c->stream)
                       : mlx_argmin(&out, c->v[0].array, keep, c->stream),
                   out);
}
