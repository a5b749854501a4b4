/* functions_norm.c - norms */
#include "keel_python.h"

KP_FUNCTION(fast, rms_norm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_fast_rms_norm(&out, c->v[0].array, kp_optional_array(&c->v[1]),
                                     (float)c->v[2].f, c->stream),
                   out);
}
KP_FUNCTION(fast, layer_norm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_fast_layer_norm(&out, c->v[0].array, kp_optional_array(&c->v[1]),
                                       kp_optional_array(&c->v[2]), (float)c->v[3].f, c->stream),
                   out);
}
