/* functions_softmax.c - softmax */
#include "keel_python.h"

KP_FUNCTION(core, softmax) {
    mlx_array out = mlx_array_new();
    struct kp_value *v = &c->v[1];
    bool precise = c->v[2].i != 0;
    int rc = !v->given ? mlx_softmax(&out, c->v[0].array, precise, c->stream)
             : v->one
                 ? mlx_softmax_axis(&out, c->v[0].array, v->ints.at[0], precise, c->stream)
                 : mlx_softmax_axes(&out, c->v[0].array, v->ints.at, v->ints.n, precise, c->stream);
    return kp_done(rc, out);
}
