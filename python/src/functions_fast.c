/* functions_fast.c - keel.core.fast: norms, rotary embedding, attention */
#include "keel_python.h"

#include <string.h>

FUNCTION(fast, rms_norm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_fast_rms_norm(&out, c->v[0].array, kp_optional_array(&c->v[1]),
                                     (float)c->v[2].f, c->stream),
                   out);
}
FUNCTION(fast, layer_norm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_fast_layer_norm(&out, c->v[0].array, kp_optional_array(&c->v[1]),
                                       kp_optional_array(&c->v[2]), (float)c->v[3].f, c->stream),
                   out);
}
FUNCTION(fast, rope) {
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
/* mask: "causal", an array, or None. */
FUNCTION(fast, scaled_dot_product_attention) {
    mlx_array mask = mlx_array_empty, out = mlx_array_new();
    const char *mode = "";
    PyObject *o = c->v[4].object;
    if (c->v[4].given && PyUnicode_Check(o)) {
        if (!(mode = PyUnicode_AsUTF8AndSize(o, NULL))) return NULL;
    } else if (c->v[4].given) {
        mode = "array";
        if (kp_one(c, 4, &mask)) return NULL;
    }
    return kp_done(mlx_fast_scaled_dot_product_attention(
                       &out, c->v[0].array, c->v[1].array, c->v[2].array, (float)c->v[3].f, mode,
                       mask, kp_optional_array(&c->v[5]), c->stream),
                   out);
}
