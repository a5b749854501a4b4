/* functions_elementwise.c - element by element: one array, two, three */
#include "keel_python.h"

#include "keel/ops.h"

#define UNARY(module, name, f)                      \
    KP_FUNCTION(module, name) {                     \
        mlx_array a, out = mlx_array_new();         \
        if (kp_one(c, 0, &a)) return NULL;          \
        return kp_done(f(&out, a, c->stream), out); \
    }
#define BINARY(module, name, f)                        \
    KP_FUNCTION(module, name) {                        \
        mlx_array a, b, out = mlx_array_new();         \
        if (kp_pair(c, 0, 1, &a, &b)) return NULL;     \
        return kp_done(f(&out, a, b, c->stream), out); \
    }

UNARY(core, abs, mlx_abs)
UNARY(core, arccos, mlx_arccos)
UNARY(core, arccosh, mlx_arccosh)
UNARY(core, arcsin, mlx_arcsin)
UNARY(core, arcsinh, mlx_arcsinh)
UNARY(core, arctan, mlx_arctan)
UNARY(core, arctanh, mlx_arctanh)
UNARY(core, bitwise_invert, mlx_bitwise_invert)
UNARY(core, cbrt, keel_cbrt)
UNARY(core, ceil, mlx_ceil)
UNARY(core, conj, mlx_conjugate)
UNARY(core, cos, mlx_cos)
UNARY(core, cosh, mlx_cosh)
UNARY(core, degrees, mlx_degrees)
UNARY(core, erf, mlx_erf)
UNARY(core, erfinv, mlx_erfinv)
UNARY(core, exp, mlx_exp)
UNARY(core, expm1, mlx_expm1)
UNARY(core, floor, mlx_floor)
UNARY(core, imag, mlx_imag)
UNARY(core, isfinite, mlx_isfinite)
UNARY(core, isinf, mlx_isinf)
UNARY(core, isnan, mlx_isnan)
UNARY(core, isneginf, mlx_isneginf)
UNARY(core, isposinf, mlx_isposinf)
UNARY(core, log, mlx_log)
UNARY(core, log10, mlx_log10)
UNARY(core, log1p, mlx_log1p)
UNARY(core, log2, mlx_log2)
UNARY(core, logical_not, mlx_logical_not)
UNARY(core, negative, mlx_negative)
UNARY(core, radians, mlx_radians)
UNARY(core, real, mlx_real)
UNARY(core, reciprocal, mlx_reciprocal)
UNARY(core, rsqrt, mlx_rsqrt)
UNARY(core, sigmoid, mlx_sigmoid)
UNARY(core, sign, mlx_sign)
UNARY(core, sin, mlx_sin)
UNARY(core, sinc, keel_sinc)
UNARY(core, sinh, mlx_sinh)
UNARY(core, sqrt, mlx_sqrt)
UNARY(core, square, mlx_square)
UNARY(core, stop_gradient, mlx_stop_gradient)
UNARY(core, tan, mlx_tan)
UNARY(core, tanh, mlx_tanh)
UNARY(core, to_fp8, mlx_to_fp8)

BINARY(core, add, mlx_add)
BINARY(core, arctan2, mlx_arctan2)
BINARY(core, bitwise_and, mlx_bitwise_and)
BINARY(core, bitwise_or, mlx_bitwise_or)
BINARY(core, bitwise_xor, mlx_bitwise_xor)
BINARY(core, divide, mlx_divide)
BINARY(core, equal, mlx_equal)
BINARY(core, floor_divide, mlx_floor_divide)
BINARY(core, greater, mlx_greater)
BINARY(core, greater_equal, mlx_greater_equal)
BINARY(core, left_shift, mlx_left_shift)
BINARY(core, less, mlx_less)
BINARY(core, less_equal, mlx_less_equal)
BINARY(core, logaddexp, mlx_logaddexp)
BINARY(core, logical_and, mlx_logical_and)
BINARY(core, logical_or, mlx_logical_or)
BINARY(core, maximum, mlx_maximum)
BINARY(core, minimum, mlx_minimum)
BINARY(core, multiply, mlx_multiply)
BINARY(core, not_equal, mlx_not_equal)
BINARY(core, power, mlx_power)
BINARY(core, remainder, mlx_remainder)
BINARY(core, right_shift, mlx_right_shift)
BINARY(core, silu_mul, keel_silu_mul)
BINARY(core, subtract, mlx_subtract)

KP_FUNCTION(core, logical_xor) {
    mlx_array a, b, x = mlx_array_new(), y = mlx_array_new(), out = mlx_array_new();
    if (kp_pair(c, 0, 1, &a, &b)) return NULL;
    int rc = mlx_logical_not(&x, a, c->stream) || mlx_logical_not(&y, b, c->stream) ||
             mlx_not_equal(&out, x, y, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(x);
    mlx_array_free(y);
    return result;
}

KP_FUNCTION(core, positive) {
    return kp_new_ref(c->v[0].object);
}

/* Towards zero: the floor of what is positive, the ceiling of what is negative. */
KP_FUNCTION(core, trunc) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    mlx_dtype d = mlx_array_dtype(a);
    if (d <= MLX_INT64) return kp_done(mlx_array_set(&out, a), out);
    mlx_array zero = mlx_array_new_float32(0), low = mlx_array_new(), high = mlx_array_new(),
              negative = mlx_array_new();
    int rc = mlx_astype(&zero, zero, d, c->stream) || mlx_floor(&low, a, c->stream) ||
             mlx_ceil(&high, a, c->stream) || mlx_less(&negative, a, zero, c->stream) ||
             mlx_where(&out, negative, high, low, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(zero);
    mlx_array_free(low);
    mlx_array_free(high);
    mlx_array_free(negative);
    return result;
}

KP_FUNCTION(core, divmod) {
    mlx_array a, b;
    if (kp_pair(c, 0, 1, &a, &b)) return NULL;
    mlx_vector_array out = mlx_vector_array_new();
    return kp_done_list(mlx_divmod(&out, a, b, c->stream), out);
}

KP_FUNCTION(core, round) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_round(&out, c->v[0].array, (int)c->v[1].i, c->stream), out);
}

KP_FUNCTION(core, clip) {
    mlx_array a = c->v[0].array, bound[2] = {{NULL}, {NULL}}, out = mlx_array_new();
    mlx_dtype dtype = mlx_array_dtype(a);
    if (!c->v[1].given && !c->v[2].given) {
        PyErr_SetString(PyExc_ValueError, "clip() needs a_min, a_max, or both");
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (!c->v[i + 1].given) continue;
        PyObject *o = c->v[i + 1].object;
        if (kp_is_array(o)) {
            bound[i] = kp_handle(o);
        } else {
            if (kp_to_array(&bound[i], o, NULL, &dtype)) return NULL;
            kp_own(c, bound[i]);
        }
    }
    return kp_done(mlx_clip(&out, a, bound[0], bound[1], c->stream), out);
}

KP_FUNCTION(core, nan_to_num) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    mlx_optional_float high = {.has_value = c->v[2].given, .value = (float)c->v[2].f},
                       low = {.has_value = c->v[3].given, .value = (float)c->v[3].f};
    return kp_done(mlx_nan_to_num(&out, a, (float)c->v[1].f, high, low, c->stream), out);
}

KP_FUNCTION(core, allclose) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_allclose(&out, c->v[0].array, c->v[1].array, c->v[2].f, c->v[3].f,
                                c->v[4].i != 0, c->stream),
                   out);
}
KP_FUNCTION(core, isclose) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_isclose(&out, c->v[0].array, c->v[1].array, c->v[2].f, c->v[3].f,
                               c->v[4].i != 0, c->stream),
                   out);
}
KP_FUNCTION(core, array_equal) {
    mlx_array a, b, out = mlx_array_new();
    if (kp_pair(c, 0, 1, &a, &b)) return NULL;
    return kp_done(mlx_array_equal(&out, a, b, c->v[2].i != 0, c->stream), out);
}
