/* numbers.c - dtypes that an engine lacks go through equivalent ones.
 *
 * Sums of 16-bit floats are made in float32 and rounded once; those of short integers, which some
 * engines let saturate, in 32 bits, of which the lower ones are the sum that wraps. Engines do not
 * agree on what the larger of a number and NaN is, nor of two zeros, so floats are compared as
 * integers that have the same order, in which NaN is one number above or below all; so every rank
 * gets the same bits. */
#include <string.h>

#include "backend/collective/collective.h"
#include "base/number/half.h"

static enum kl_dtype ordered_as(enum kl_dtype dtype) {
    switch (kl_dtype_size(dtype)) {
    case 2: return KL_I16;
    case 4: return KL_I32;
    default: return KL_I64;
    }
}

enum kl_passage kl_passage_of(const struct kl_engine *e, enum kl_exchange_kind kind,
                              enum kl_dtype dtype, enum kl_reduction *r, enum kl_dtype *as) {
    *as = dtype;
    if ((kind != KL_EXCHANGE_REDUCE && kind != KL_EXCHANGE_SCATTER) || e->reduces(*r, dtype))
        return KL_PASS_SAME;
    if (dtype == KL_BOOL) { /* the sum is true where one is, as the maximum is */
        if (*r == KL_REDUCE_SUM) *r = KL_REDUCE_MAX;
        *as = KL_U8;
        return KL_PASS_SAME;
    }
    if (*r == KL_REDUCE_SUM) {
        *as = kl_dtype_is_int(dtype) ? KL_U32 : KL_F32;
        return dtype == KL_C64 ? KL_PASS_PAIRS : KL_PASS_WIDE;
    }
    *as = ordered_as(dtype);
    return KL_PASS_ORDERED;
}

/* The library of devices adds and compares all integers of 8, 32 and 64 bits, and adds all floats;
 * it adds 16-bit floats in their own dtype, one rounding per rank. */
enum kl_passage kl_device_passage_of(enum kl_exchange_kind kind, enum kl_dtype dtype,
                                     enum kl_reduction *r, enum kl_dtype *as) {
    *as = dtype;
    if (kind != KL_EXCHANGE_REDUCE && kind != KL_EXCHANGE_SCATTER) return KL_PASS_SAME;
    if (dtype == KL_BOOL) {
        if (*r == KL_REDUCE_SUM) *r = KL_REDUCE_MAX;
        *as = KL_U8;
        return KL_PASS_SAME;
    }
    if (dtype == KL_U16 || dtype == KL_I16) {
        *as = dtype == KL_U16 ? KL_U32 : KL_I32;
        return KL_PASS_WIDE;
    }
    if (kl_dtype_is_int(dtype)) return KL_PASS_SAME;
    if (*r == KL_REDUCE_SUM) {
        if (dtype == KL_C64) *as = KL_F32;
        return dtype == KL_C64 ? KL_PASS_PAIRS : KL_PASS_SAME;
    }
    *as = kl_dtype_size(dtype) == 8 ? KL_I64 : KL_I32;
    return KL_PASS_ORDERED;
}

void kl_numbers_widen(void *to, const void *from, enum kl_dtype dtype, int64_t n) {
    const uint8_t *byte = from;
    const uint16_t *x = from;
    if (dtype == KL_F16)
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] = kl_f16_load(x[i]);
    else if (dtype == KL_BF16)
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] = kl_bf16_load(x[i]);
    else if (kl_dtype_size(dtype) == 2)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)to)[i] = x[i];
    else
        for (int64_t i = 0; i < n; i++) ((uint32_t *)to)[i] = byte[i];
}

void kl_numbers_narrow(void *to, const void *from, enum kl_dtype dtype, int64_t n) {
    uint8_t *byte = to;
    uint16_t *y = to;
    if (dtype == KL_F16)
        for (int64_t i = 0; i < n; i++) y[i] = kl_f16_store(((const float *)from)[i]);
    else if (dtype == KL_BF16)
        for (int64_t i = 0; i < n; i++) y[i] = kl_bf16_store(((const float *)from)[i]);
    else if (kl_dtype_size(dtype) == 2)
        for (int64_t i = 0; i < n; i++) y[i] = (uint16_t)((const uint32_t *)from)[i];
    else
        for (int64_t i = 0; i < n; i++) byte[i] = (uint8_t)((const uint32_t *)from)[i];
}

/* ---- order ---- */
/* The bits of a float, as a signed integer, rise with the number where it is positive and fall
 * where it is negative: there all but the sign are turned. `inf` are the bits of infinity. */

static int16_t order16(int16_t b, int16_t inf, bool largest) {
    if ((b & 0x7fff) > inf) return largest ? INT16_MAX : INT16_MIN;
    return (int16_t)(b ^ ((b >> 15) & 0x7fff));
}

static int32_t order32(int32_t b, bool largest) {
    if ((b & INT32_MAX) > 0x7f800000) return largest ? INT32_MAX : INT32_MIN;
    return b ^ ((b >> 31) & INT32_MAX);
}

static int64_t order64(int64_t b, bool largest) {
    if ((b & INT64_MAX) > 0x7ff0000000000000) return largest ? INT64_MAX : INT64_MIN;
    return b ^ ((b >> 63) & INT64_MAX);
}

/* By the real part, then by the imaginary part; NaN in either counts as NaN in both. */
static int64_t order_pair(const int32_t *b, bool largest) {
    const int32_t re = order32(b[0], largest), im = order32(b[1], largest);
    const bool is_nan = (b[0] & INT32_MAX) > 0x7f800000 || (b[1] & INT32_MAX) > 0x7f800000;
    if (is_nan) return largest ? INT64_MAX : INT64_MIN;
    return (int64_t)((uint64_t)(uint32_t)re << 32 | ((uint32_t)im ^ 0x80000000u));
}

void kl_numbers_order(void *to, const void *from, enum kl_dtype dtype, bool largest, int64_t n) {
    const int16_t inf = dtype == KL_F16 ? 0x7c00 : 0x7f80;
    if (dtype == KL_F32)
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)to)[i] = order32(((const int32_t *)from)[i], largest);
    else if (dtype == KL_F64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = order64(((const int64_t *)from)[i], largest);
    else if (dtype == KL_C64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = order_pair((const int32_t *)from + 2 * i, largest);
    else
        for (int64_t i = 0; i < n; i++)
            ((int16_t *)to)[i] = order16(((const int16_t *)from)[i], inf, largest);
}

static int16_t unorder16(int16_t k, int16_t nan) {
    return k == INT16_MAX || k == INT16_MIN ? nan : (int16_t)(k ^ ((k >> 15) & 0x7fff));
}

static int32_t unorder32(int32_t k) {
    return k == INT32_MAX || k == INT32_MIN ? 0x7fc00000 : k ^ ((k >> 31) & INT32_MAX);
}

static int64_t unorder64(int64_t k) {
    return k == INT64_MAX || k == INT64_MIN ? 0x7ff8000000000000 : k ^ ((k >> 63) & INT64_MAX);
}

static int64_t unorder_pair(int64_t k) {
    const bool is_nan = k == INT64_MAX || k == INT64_MIN;
    const int32_t parts[2] = {is_nan ? 0x7fc00000 : unorder32((int32_t)(k >> 32)),
                              is_nan ? 0x7fc00000
                                     : unorder32((int32_t)((uint32_t)k ^ 0x80000000u))};
    int64_t b;
    memcpy(&b, parts, sizeof b);
    return b;
}

void kl_numbers_unorder(void *at, enum kl_dtype dtype, int64_t n) {
    const int16_t nan = dtype == KL_F16 ? 0x7e00 : 0x7fc0;
    if (dtype == KL_F32)
        for (int64_t i = 0; i < n; i++) ((int32_t *)at)[i] = unorder32(((int32_t *)at)[i]);
    else if (dtype == KL_F64)
        for (int64_t i = 0; i < n; i++) ((int64_t *)at)[i] = unorder64(((int64_t *)at)[i]);
    else if (dtype == KL_C64)
        for (int64_t i = 0; i < n; i++) ((int64_t *)at)[i] = unorder_pair(((int64_t *)at)[i]);
    else
        for (int64_t i = 0; i < n; i++) ((int16_t *)at)[i] = unorder16(((int16_t *)at)[i], nan);
}
