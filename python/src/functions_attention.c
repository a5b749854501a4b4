/* functions_attention.c - attention */
#include "keel_python.h"

/* mask: "causal", an array, or None. */
KP_FUNCTION(fast, scaled_dot_product_attention) {
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
