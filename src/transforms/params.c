/* params.c - see params.h. */
#include "transforms/params.h"

#include "base/op/op_params.h"

#define AT(kind, name) offsetof(struct kl_##kind##_params, name)
#define SIZE(kind) sizeof(struct kl_##kind##_params)

/* clang-format off */
static const struct kl_param_form
    none = {.head = 0},
    arange = {{{'d', AT(arange, start)}, {'d', AT(arange, step)}}, 0, SIZE(arange)},
    reduce = {{{'i', AT(reduce, n_axes)}}, 'i', AT(reduce, axes)},
    var = {{{'i', AT(var, ddof)}, {'i', AT(var, n_axes)}}, 'i', AT(var, axes)},
    scan = {{{'i', AT(scan, axis)}, {'b', AT(scan, reverse)}, {'b', AT(scan, inclusive)}}, 0,
            SIZE(scan)},
    partition = {{{'i', AT(partition, axis)}, {'i', AT(partition, kth)}}, 0, SIZE(partition)},
    norm = {{{'f', AT(norm, eps)}, {'b', AT(norm, has_weight)}, {'b', AT(norm, has_bias)}}, 0,
            SIZE(norm)},
    norm_backward = {{{'f', AT(norm_backward, eps)}, {'b', AT(norm_backward, centred)},
                      {'b', AT(norm_backward, has_weight)}, {'b', AT(norm_backward, of_weight)},
                      {'b', AT(norm_backward, of_bias)}}, 0, SIZE(norm_backward)},
    rope = {{{'i', AT(rope, dims)}, {'b', AT(rope, traditional)}, {'b', AT(rope, inverse)},
             {'f', AT(rope, base)}, {'f', AT(rope, scale)}}, 0, SIZE(rope)},
    axis = {{{'i', AT(axis, axis)}}, 0, SIZE(axis)},
    softmax = {{{'i', AT(softmax, axis)}, {'i', AT(softmax, n_axes)}}, 0, SIZE(softmax)},
    slice = {{{'i', AT(slice, ndim)}}, 'l', AT(slice, v)},
    dims = {{{'i', AT(dims, n)}}, 'i', AT(dims, v)},
    deferred = {{{'i', AT(deferred, n)}}, 'i', AT(deferred, v)},
    strided = {{{'i', AT(strided, ndim)}}, 'l', AT(strided, v)},
    diagonal = {{{'i', AT(diagonal, offset)}, {'i', AT(diagonal, axis1)},
                 {'i', AT(diagonal, axis2)}}, 0, SIZE(diagonal)},
    bits = {{{'i', AT(bits, width)}}, 0, SIZE(bits)},
    gather = {{{'i', AT(gather, n_axes)}, {'i', AT(gather, ndim)}}, 'i', AT(gather, v)},
    scatter = {{{'i', AT(scatter, mode)}, {'i', AT(scatter, n_axes)}}, 'i', AT(scatter, axes)},
    scatter_axis = {{{'i', AT(scatter_axis, mode)}, {'i', AT(scatter_axis, axis)}}, 0,
                    SIZE(scatter_axis)},
    attention = {{{'f', AT(attention, scale)}, {'b', AT(attention, causal)},
                  {'b', AT(attention, has_mask)}, {'b', AT(attention, has_sinks)}}, 0,
                 SIZE(attention)},
    /* the five lists of extents follow each other */
    convolution = {{{'i', AT(convolution, ndim)}, {'i', AT(convolution, groups)},
                    {'b', AT(convolution, flip)}}, 'i', AT(convolution, stride)},
    /* the same five lists, then the extents of the weight */
    convolution_backward = {{{'i', AT(convolution_backward, of.ndim)},
                             {'i', AT(convolution_backward, of.groups)},
                             {'b', AT(convolution_backward, of.flip)}}, 'i',
                            AT(convolution_backward, of.stride)},
    quantize = {{{'i', AT(quantize, format.mode)}, {'i', AT(quantize, format.group_size)},
                 {'i', AT(quantize, format.bits)}, {'i', AT(quantize, part)},
                 {'i', AT(quantize, dtype)}}, 0, SIZE(quantize)},
    dequantize = {{{'i', AT(dequantize, format.mode)}, {'i', AT(dequantize, format.group_size)},
                   {'i', AT(dequantize, format.bits)}, {'i', AT(dequantize, dtype)}}, 0,
                  SIZE(dequantize)},
    qmm = {{{'i', AT(qmm, format.mode)}, {'i', AT(qmm, format.group_size)},
            {'i', AT(qmm, format.bits)}, {'b', AT(qmm, transpose)}}, 0, SIZE(qmm)};
/* clang-format on */

/* There is no default: an operation without a line here is a warning, which stops the build. */
const struct kl_param_form *kl_param_form(enum kl_op_id op) {
    switch (op) {
#define KL_OP(...)
#define KL_UNARY(ID, ...) case KL_OP_##ID:
#define KL_BINARY(ID, ...) case KL_OP_##ID:
#include "base/op/op_list.def"
    case KL_OP_COPY:
    case KL_OP_CAST:
    case KL_OP_ROUND:
    case KL_OP_FROM_FP8:
    case KL_OP_WHERE:
    case KL_OP_VIEW:
    case KL_OP_STOP_GRADIENT:
    case KL_OP_ARGUMENT:
    case KL_OP_DEPENDS:
    case KL_OP_MATMUL:
    case KL_OP_GATHER_MM:
    case KL_OP_SEGMENTED_MM:
    case KL_OP_FACTOR: return &none;
    case KL_N_OPS:
    case KL_OP_CALL:
    case KL_OP_KERNEL:
    case KL_OP_CUSTOM:
    case KL_OP_PLACEHOLDER: return NULL;
    case KL_OP_ARANGE: return &arange;
    case KL_OP_SUM:
    case KL_OP_PROD:
    case KL_OP_MAX:
    case KL_OP_MIN:
    case KL_OP_ALL:
    case KL_OP_ANY:
    case KL_OP_LOGSUMEXP: return &reduce;
    case KL_OP_VAR: return &var;
    case KL_OP_CUMSUM:
    case KL_OP_CUMPROD:
    case KL_OP_CUMMAX:
    case KL_OP_CUMMIN:
    case KL_OP_LOGCUMSUMEXP: return &scan;
    case KL_OP_PARTITION:
    case KL_OP_ARGPARTITION:
    case KL_OP_TOPK: return &partition;
    case KL_OP_RMS_NORM:
    case KL_OP_LAYER_NORM: return &norm;
    case KL_OP_NORM_BACKWARD: return &norm_backward;
    case KL_OP_ROPE: return &rope;
    case KL_OP_ARGMAX:
    case KL_OP_ARGMIN:
    case KL_OP_SORT:
    case KL_OP_ARGSORT:
    case KL_OP_CONCATENATE:
    case KL_OP_GATHER_AXIS: return &axis;
    case KL_OP_SOFTMAX: return &softmax;
    case KL_OP_SLICE:
    case KL_OP_SLICE_UPDATE: return &slice;
    case KL_OP_RESHAPE:
    case KL_OP_BROADCAST:
    case KL_OP_TRANSPOSE:
    case KL_OP_EXPAND_DIMS:
    case KL_OP_SQUEEZE: return &dims;
    case KL_OP_AS_STRIDED: return &strided;
    case KL_OP_DEFERRED: return &deferred;
    case KL_OP_DIAGONAL: return &diagonal;
    case KL_OP_RANDOM_BITS: return &bits;
    case KL_OP_GATHER: return &gather;
    case KL_OP_SCATTER: return &scatter;
    case KL_OP_SCATTER_AXIS: return &scatter_axis;
    case KL_OP_ATTENTION:
    case KL_OP_ATTENTION_BACKWARD: return &attention;
    case KL_OP_CONVOLUTION: return &convolution;
    case KL_OP_CONVOLUTION_BACKWARD: return &convolution_backward;
    case KL_OP_QUANTIZE: return &quantize;
    case KL_OP_DEQUANTIZE: return &dequantize;
    case KL_OP_QUANTIZED_MATMUL:
    case KL_OP_GATHER_QMM: return &qmm;
    }
    return NULL;
}

bool kl_params_have_form(enum kl_op_id op, size_t bytes) {
    const struct kl_param_form *f = kl_param_form(op);
    if (!f || bytes < f->head) return false;
    return f->tail ? (bytes - f->head) % kl_param_bytes(f->tail) == 0 : bytes == f->head;
}

size_t kl_param_bytes(char type) {
    switch (type) {
    case 'b': return sizeof(bool);
    case 'd': return sizeof(double);
    case 'l': return sizeof(int64_t);
    case 'f': return sizeof(float);
    default: return sizeof(int);
    }
}
