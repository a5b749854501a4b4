/* functions_quantized.c - packed weights */
#include "keel_python.h"

static mlx_optional_int optional_int(const struct kp_value *v) {
    return (mlx_optional_int){.has_value = v->given, .value = v->given ? (int)v->i : 0};
}
static mlx_optional_dtype optional_dtype(const struct kp_value *v) {
    return (mlx_optional_dtype){.has_value = v->given,
                                .value = v->given ? (mlx_dtype)v->i : MLX_FLOAT32};
}
KP_FUNCTION(core, quantize) {
    mlx_vector_array out = mlx_vector_array_new();
    return kp_done_list(mlx_quantize(&out, c->v[0].array, optional_int(&c->v[1]),
                                     optional_int(&c->v[2]), c->v[3].str,
                                     kp_optional_array(&c->v[4]), c->stream),
                        out);
}
KP_FUNCTION(core, dequantize) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_dequantize(&out, c->v[0].array, c->v[1].array, kp_optional_array(&c->v[2]),
                                  optional_int(&c->v[3]), optional_int(&c->v[4]), c->v[5].str,
                                  kp_optional_array(&c->v[6]), optional_dtype(&c->v[7]), c->stream),
                   out);
}
KP_FUNCTION(core, quantized_matmul) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_quantized_matmul(&out, c->v[0].array, c->v[1].array, c->v[2].array,
                                        kp_optional_array(&c->v[3]), c->v[4].i != 0,
                                        optional_int(&c->v[5]), optional_int(&c->v[6]), c->v[7].str,
                                        c->stream),
                   out);
}
KP_FUNCTION(core, qqmm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_qqmm(&out, c->v[0].array, c->v[1].array, kp_optional_array(&c->v[2]),
                            optional_int(&c->v[3]), optional_int(&c->v[4]), c->v[5].str,
                            kp_optional_array(&c->v[6]), kp_optional_array(&c->v[7]), c->stream),
                   out);
}
/* gather_qmm(x, w, /, scales, biases, lhs_indices, rhs_indices, transpose, group_size, bits, mode,
 * global_scale, *, sorted_indices) */
KP_FUNCTION(core, gather_qmm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_gather_qmm(&out, c->v[0].array, c->v[1].array, c->v[2].array,
                                  kp_optional_array(&c->v[3]), kp_optional_array(&c->v[4]),
                                  kp_optional_array(&c->v[5]), c->v[6].i != 0,
                                  optional_int(&c->v[7]), optional_int(&c->v[8]), c->v[9].str,
                                  c->v[11].i != 0, c->stream),
                   out);
}
