/* functions_scan.c - cumulative operations */
#include "keel_python.h"

/* Scans: without an axis over the flattened array. slot: of `reverse`; `dtype` follows where the
 * function has it. */
static PyObject *scan(struct kp_call *c,
                      int (*f)(mlx_array *, const mlx_array, int, bool, bool, const mlx_stream),
                      int dtype) {
    mlx_array a = c->v[0].array, wide = mlx_array_new(), flat = mlx_array_new(),
              out = mlx_array_new();
    int rc = 0, axis = (int)c->v[1].i;
    if (dtype && c->v[dtype].given) {
        rc = mlx_astype(&wide, a, (mlx_dtype)c->v[dtype].i, c->stream);
        a = wide;
    }
    if (!rc && !c->v[1].given) {
        rc = mlx_flatten(&flat, a, 0, -1, c->stream);
        a = flat;
        axis = 0;
    }
    rc = rc || f(&out, a, axis, c->v[2].i != 0, c->v[3].i != 0, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(wide);
    mlx_array_free(flat);
    return result;
}
KP_FUNCTION(core, cumsum) {
    return scan(c, mlx_cumsum, 4);
}
KP_FUNCTION(core, cumprod) {
    return scan(c, mlx_cumprod, 4);
}
KP_FUNCTION(core, cummax) {
    return scan(c, mlx_cummax, 0);
}
KP_FUNCTION(core, cummin) {
    return scan(c, mlx_cummin, 0);
}
KP_FUNCTION(core, logcumsumexp) {
    return scan(c, mlx_logcumsumexp, 0);
}
