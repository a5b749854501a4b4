/* functions_convert.c - the same values in another dtype or layout */
#include "keel_python.h"

KP_FUNCTION(core, contiguous) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_contiguous(&out, c->v[0].array, c->v[1].i != 0, c->stream), out);
}
KP_FUNCTION(core, astype) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_astype(&out, c->v[0].array, (mlx_dtype)c->v[1].i, c->stream), out);
}
KP_FUNCTION(core, view) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    return kp_done(mlx_view(&out, a, (mlx_dtype)c->v[1].i, c->stream), out);
}
KP_FUNCTION(core, from_fp8) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_from_fp8(&out, c->v[0].array, (mlx_dtype)c->v[1].i, c->stream), out);
}
