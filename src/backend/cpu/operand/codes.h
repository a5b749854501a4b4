/* codes.h - quantized numbers as kernels read them. A row is a sequence of
 * codes of `bits` bits, the lowest bits of a word first; on little-endian machines, which all are
 * that this library runs on, that is a sequence of bytes in the same order. Eight codes begin and
 * end at a byte. */
#pragma once
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "base/number/fp8.h"
#include "base/op/op_params.h"

enum { KL_MOST_GROUP = 128 };

/* An operand whose last axis is contiguous: itself, or a copy of its distinct elements. */
struct kl_rows {
    struct kl_arg arg;
    int64_t strides[KL_LONG_AXES + 2];
    struct kl_scratch room; /* of a copy */
    bool copied;
};

/* Returns false where there is no memory. The caller ends with kl_rows_end. */
static inline bool kl_rows_begin(struct kl_rows *r, const struct kl_launch *l,
                                 const struct kl_arg *a) {
    const int item = (int)kl_dtype_size(a->dtype), last = a->ndim - 1;
    int dims[KL_LONG_AXES + 2];
    r->arg = *a;
    r->copied = false;
    if (a->ndim == 0 || a->strides[last] == 1 || a->dims[last] <= 1 || a->size == 0) return true;
    int64_t size = 1;
    for (int i = last; i >= 0; i--) { /* broadcast axes are not copied */
        const bool once = i < last && a->strides[i] == 0;
        dims[i] = once ? 1 : a->dims[i];
        r->strides[i] = once ? 0 : size;
        size *= dims[i];
    }
    if (!kl_scratch_take(&r->room, l, (size_t)(size * item))) return false;
    r->copied = true;
    kl_copy_strided(item, a->ndim, dims, r->room.ptr, r->strides, a->data, a->strides);
    r->arg.data = r->room.ptr;
    r->arg.strides = r->strides;
    return true;
}

static inline void kl_rows_end(struct kl_rows *r) {
    if (r->copied) kl_scratch_give(&r->room);
}

/* ---- codes ---- */

/* n codes, a multiple of 8, one to a byte; and back. */
void kl_codes_unpack(int bits, int64_t n, const uint8_t *from, uint8_t *to);
void kl_codes_pack(int bits, int64_t n, const uint8_t *from, uint8_t *to);
/* The numbers that n codes of one group stand for. bias is 0 where there is none. */
void kl_codes_numbers(const struct kl_quant_format *f, int64_t n, const uint8_t *codes, float scale,
                      float bias, float *to);
/* n scales as float32. The scales of affine groups have dtype; all other scales are codes. */
void kl_scales_values(enum kl_quant_mode mode, enum kl_dtype dtype, int64_t n, const void *from,
                      float *to);

/* 2^(code - 127); 255 is NaN. */
static inline float kl_e8m0_value(uint8_t code) {
    const uint32_t bits = code == 0 ? 0x00400000u : (uint32_t)code << 23;
    return kl_bits_f32(code == 255 ? 0x7fc00000u : bits);
}

/* The same as kl_e4m3_load, without arithmetic on denormal numbers. */
static inline float kl_e4m3_value(uint8_t code) {
    const uint32_t rest = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    const uint32_t small = kl_f32_bits((float)(int32_t)rest * 0x1p-9f);
    const uint32_t large = (rest << 20) + 0x3c000000u;
    const uint32_t m = rest < 8 ? small : rest == 0x7f ? 0x7fc00000u : large;
    return kl_bits_f32(sign | m);
}
