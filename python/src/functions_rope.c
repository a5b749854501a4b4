/* functions_rope.c - rotary position embedding */
#include "keel_python.h"

KP_FUNCTION(fast, rope) {
    mlx_array offset, out = mlx_array_new();
    mlx_optional_float base = {.has_value = c->v[3].given, .value = (float)c->v[3].f};
    int dims = (int)c->v[1].i;
    bool traditional = c->v[2].i != 0;
    float scale = (float)c->v[4].f;
    PyObject *o = c->v[5].object;
    if (PyLong_Check(o)) {
        int at;
        if (kp_int32("rope(): argument 'offset'", o, &at)) return NULL;
        return kp_done(mlx_fast_rope(&out, c->v[0].array, dims, traditional, base, scale, at,
                                     kp_optional_array(&c->v[6]), c->stream),
                       out);
    }
    if (kp_one(c, 5, &offset)) return NULL;
    return kp_done(mlx_fast_rope_dynamic(&out, c->v[0].array, dims, traditional, base, scale,
                                         offset, kp_optional_array(&c->v[6]), c->stream),
                   out);
}
