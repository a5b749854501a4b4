/* functions_join.c - arrays joined to one */
#include "keel_python.h"

KP_FUNCTION(core, concatenate) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given
                       ? mlx_concatenate_axis(&out, c->v[0].arrays, (int)c->v[1].i, c->stream)
                       : mlx_concatenate(&out, c->v[0].arrays, c->stream),
                   out);
}
KP_FUNCTION(core, stack) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given ? mlx_stack_axis(&out, c->v[0].arrays, (int)c->v[1].i, c->stream)
                                 : mlx_stack(&out, c->v[0].arrays, c->stream),
                   out);
}
