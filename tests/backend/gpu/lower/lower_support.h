/* lower_support.h - runs one operation through the lowering and through the CPU's reference kernel,
 * for the tests of the kernel families: makes operands with any strides, runs both sides, and
 * compares the results. kernel_host.h chooses the device that runs the kernels. */
#pragma once
#include "kernel_host.h"

#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"
#include "base/value/tensor.h"
#include "ulp.h"

enum { LS_DIMS = 12 };

/* The layout of an operand in memory. */
enum layout { DENSE, TRANSPOSED, REVERSED, BROADCAST, GAPPED, SHIFTED, N_LAYOUTS };

struct operand {
    struct kl_arg arg; /* its data is on the host */
    int dims[LS_DIMS];
    int64_t strides[LS_DIMS];
    char *block; /* memory on the host that holds the operand */
    size_t bytes;
    int64_t first; /* offset of element 0 in the block, in elements */
    void *device;
};

static uint64_t ls_state = 88172645463325252u;
static inline uint64_t ls_draw(void) {
    ls_state ^= ls_state << 13;
    ls_state ^= ls_state >> 7;
    ls_state ^= ls_state << 17;
    return ls_state;
}
static inline double ls_unit(void) {
    return (double)(ls_draw() >> 11) * 0x1p-53;
}

/* The kinds of values that operands get. */
enum values {
    PLAIN,
    SPECIAL /* includes NaN, infinities and zeros of both signs */,
    FEW /* many elements are equal */
};

static inline double ls_value(enum values v) {
    if (v == SPECIAL && ls_draw() % 5 == 0) {
        static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, -0.0};
        return special[ls_draw() % 6];
    }
    if (v == FEW) return (double)(ls_draw() % 5) - 2;
    return (ls_unit() * 2 - 1) * 4;
}

static inline void ls_put(void *p, enum kl_dtype dtype, enum values v) {
    double x = ls_value(v);
    uint64_t bits = v == FEW ? ls_draw() % 4 : ls_draw();
    float f = (float)x;
    switch (dtype) {
    case KL_BOOL: *(uint8_t *)p = bits & 1; break;
    case KL_F16: *(uint16_t *)p = kl_f32_to_f16(f); break;
    case KL_BF16: *(uint16_t *)p = kl_f32_to_bf16(f); break;
    case KL_F32: *(float *)p = f; break;
    case KL_F64: *(double *)p = x; break;
    case KL_C64:
        ((float *)p)[0] = f;
        ((float *)p)[1] = (float)ls_value(v);
        break;
    default: memcpy(p, &bits, kl_dtype_size(dtype));
    }
}

static inline void ls_make(struct operand *o, enum kl_dtype dtype, int ndim, const int *dims,
                           enum layout layout, enum values v) {
    size_t item = kl_dtype_size(dtype);
    int64_t places = 1;
    memset(o, 0, sizeof *o);
    o->arg = (struct kl_arg){
        .dtype = (uint8_t)dtype, .ndim = ndim, .dims = o->dims, .strides = o->strides};
    for (int i = 0; i < ndim; i++) o->dims[i] = dims[i];
    assert_true(kl_shape_size(ndim, dims, item, &o->arg.size));
    int64_t gap = layout == GAPPED ? 3 : 1;
    for (int k = 0; k < ndim; k++) {
        int i = layout == TRANSPOSED ? k : ndim - 1 - k;
        if (layout == BROADCAST && i % 2 == 0) {
            o->strides[i] = 0;
            continue;
        }
        o->strides[i] = places * gap;
        places *= dims[i];
    }
    places = places * gap + 3;
    if (layout == SHIFTED) o->first = 1;
    if (layout == REVERSED)
        for (int i = 0; i < ndim; i++)
            if (dims[i] > 0) {
                o->first += (dims[i] - 1) * o->strides[i];
                o->strides[i] = -o->strides[i];
            }
    o->bytes = (size_t)places * item;
    o->block = malloc(o->bytes);
    memset(o->block, 0xA5, o->bytes);
    if (v <= FEW)
        for (int64_t i = 0; i < places; i++) ls_put(o->block + (size_t)i * item, dtype, v);
    o->arg.data = o->block + (size_t)o->first * item;
    o->arg.layout = kl_layout_of(ndim, o->dims, o->strides);
    o->device = kh_new(o->bytes);
    kh_write(o->device, o->block, o->bytes);
}
/* A row-major output, followed by a few bytes that no kernel may change. */
static inline void ls_make_out(struct operand *o, enum kl_dtype dtype, int ndim, const int *dims) {
    ls_make(o, dtype, ndim, dims, DENSE, (enum values)99);
}
static inline void ls_drop(struct operand *o) {
    kh_free(o->device, o->bytes);
    free(o->block);
}

/* Whether an operand is of float64, which the device has not. */
static inline bool ls_lacks_f64(int n_in, const struct operand *in, const struct operand *out) {
    bool any = out->arg.dtype == KL_F64;
    for (int i = 0; i < n_in; i++) any |= in[i].arg.dtype == KL_F64;
    return any && !kh.driver->has_f64;
}

/* Runs the operation on both sides. The reference's result is in out's block; the device's result
 * is returned, in memory of malloc; where the device refuses float64, the reference's. */
static inline void *ls_run(enum kl_op_id op, const void *params, int n_in, struct operand *in,
                           struct operand *out) {
    struct kl_arg host[8], device[8];
    struct kl_error *err = NULL;
    for (int i = 0; i <= n_in; i++) {
        struct operand *o = i < n_in ? &in[i] : out;
        host[i] = device[i] = o->arg;
        device[i].data = (char *)o->device + (size_t)o->first * kl_dtype_size(o->arg.dtype);
    }
    struct kl_launch l = {.op = op,
                          .params = params,
                          .n_in = n_in,
                          .n_out = 1,
                          .in = host,
                          .out = &host[n_in],
                          .fault = KL_NO_FAULT,
                          .err = &err};
    assert_int_equal(kl_cpu_kernel(op)(&l), KL_OK);
    struct kl_command c = {.kind = KL_CMD_LAUNCH,
                           .op = op,
                           .name = kl_op_name(op),
                           .params = params,
                           .n_in = n_in,
                           .n_out = 1,
                           .args = device};
    int rc = kh_lower(&c, &err);
    char *got = malloc(out->bytes);
    if (rc && ls_lacks_f64(n_in, in, out)) {
        assert_int_equal(rc, KL_EUNSUPPORTED);
        assert_non_null(strstr(err->message, "float64"));
        kl_error_release(err);
        return memcpy(got, out->block, out->bytes);
    }
    if (rc) fail_msg("%s: %s", kl_op_name(op), err->message);
    kh_read(got, out->device, out->bytes);
    for (size_t i = (size_t)out->arg.size * kl_dtype_size(out->arg.dtype); i < out->bytes; i++)
        assert_int_equal((unsigned char)got[i], 0xA5);
    return got;
}

/* ---- comparing ---- */

/* The number of parts of an element: two for a complex number. */
static inline int ls_parts(enum kl_dtype dtype) {
    return dtype == KL_C64 ? 2 : 1;
}
static inline double ls_get(const void *p, enum kl_dtype dtype, int64_t i) {
    switch (dtype) {
    case KL_F16: return kl_f16_to_f32(((const uint16_t *)p)[i]);
    case KL_BF16: return kl_bf16_to_f32(((const uint16_t *)p)[i]);
    case KL_F32: return ((const float *)p)[i];
    case KL_F64: return ((const double *)p)[i];
    case KL_C64: return ((const float *)p)[i];
    case KL_U8: return ((const uint8_t *)p)[i];
    case KL_I32: return ((const int32_t *)p)[i];
    default: fail_msg("not expected here"); return 0;
    }
}
static inline bool ls_inexact(enum kl_dtype dtype) {
    return kl_dtype_is_float(dtype) || dtype == KL_C64;
}

/* Compares bit for bit, except that any NaN equals any NaN (a complex number is NaN when one of its
 * parts is). */
static inline void ls_same(const struct operand *out, const void *got, const char *what) {
    size_t item = kl_dtype_size(out->arg.dtype);
    for (int64_t i = 0; i < out->arg.size; i++) {
        const char *a = out->block + (size_t)i * item, *b = (const char *)got + (size_t)i * item;
        if (memcmp(a, b, item) == 0) continue;
        if (ls_inexact(out->arg.dtype)) {
            int n = ls_parts(out->arg.dtype);
            bool nan_a = false, nan_b = false;
            for (int k = 0; k < n; k++) {
                nan_a |= isnan(ls_get(a, out->arg.dtype, k));
                nan_b |= isnan(ls_get(b, out->arg.dtype, k));
            }
            if (nan_a && nan_b) continue;
        }
        uint64_t x = 0, y = 0;
        memcpy(&x, a, item);
        memcpy(&y, b, item);
        fail_msg("%s (%s): element %lld of %lld is %llx, not %llx", what,
                 kl_dtype_name(out->arg.dtype), (long long)i, (long long)out->arg.size,
                 (unsigned long long)y, (unsigned long long)x);
    }
}

/* |got - wanted| <= bound(i) for each part; NaN and infinities must be the same. scale has one
 * entry per element, or is NULL for 1. */
static inline void ls_near(const struct operand *out, const void *got, const double *scale,
                           double relative, const char *what) {
    int n = ls_parts(out->arg.dtype);
    for (int64_t i = 0; i < out->arg.size * n; i++) {
        double a = ls_get(out->block, out->arg.dtype, i), b = ls_get(got, out->arg.dtype, i);
        double bound =
            (scale ? scale[i / n] : 1) * relative + fabs(a) * kl_test_epsilon(out->arg.dtype);
        if ((isnan(a) && isnan(b)) || a == b) continue;
        if (isfinite(a) && isfinite(b) && fabs(a - b) <= bound) continue;
        fail_msg("%s (%s): part %lld is %.9g, not %.9g (bound %g)", what,
                 kl_dtype_name(out->arg.dtype), (long long)i, b, a, bound);
    }
}
