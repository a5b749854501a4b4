/* functions_linalg.c - factors, solutions and eigenvalues of matrices; keel/core/linalg.py has the
 * norms and cross products */
#include "keel_python.h"

#include "keel/linalg.h"

typedef int in_two(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s);

/* A tuple of two results, which it takes; or the exception of the error that rc is. */
static PyObject *tuple_of_two(int rc, mlx_array first, mlx_array second) {
    mlx_array parts[] = {first, second};
    mlx_vector_array v = {0};
    if (!rc) v = mlx_vector_array_new_data(parts, 2);
    mlx_array_free(first);
    mlx_array_free(second);
    return kp_done_tuple(rc || !v.ctx, v);
}
static PyObject *two(struct kp_call *c, in_two *f) {
    mlx_array first = mlx_array_new(), second = mlx_array_new();
    int rc = f(&first, &second, c->v[0].array, c->stream);
    return tuple_of_two(rc, first, second);
}

KP_FUNCTION(linalg, qr) {
    return two(c, mlx_linalg_qr);
}
KP_FUNCTION(linalg, eig) {
    return two(c, mlx_linalg_eig);
}
KP_FUNCTION(linalg, lu_factor) {
    return two(c, mlx_linalg_lu_factor);
}
KP_FUNCTION(linalg, slogdet) {
    return two(c, keel_linalg_slogdet);
}

KP_FUNCTION(linalg, eigh) {
    mlx_array values = mlx_array_new(), vectors = mlx_array_new();
    int rc = mlx_linalg_eigh(&values, &vectors, c->v[0].array, c->v[1].str, c->stream);
    return tuple_of_two(rc, values, vectors);
}
KP_FUNCTION(linalg, lu) {
    mlx_vector_array out = mlx_vector_array_new();
    return kp_done_tuple(mlx_linalg_lu(&out, c->v[0].array, c->stream), out);
}
KP_FUNCTION(linalg, svd) {
    mlx_vector_array out = mlx_vector_array_new();
    int rc = mlx_linalg_svd(&out, c->v[0].array, c->v[1].i != 0, c->stream);
    if (rc || c->v[1].i) return kp_done_tuple(rc, out);
    mlx_array values = mlx_array_new();
    rc = mlx_vector_array_get(&values, out, 0);
    mlx_vector_array_free(out);
    return kp_done(rc, values);
}
