/* dtype.c - see dtype.h. One table of facts; promotion is computed from it. */
#include "base/number/dtype.h"

#include "base/number/half.h"

enum kind { BOOL, UNSIGNED, SIGNED, FLOAT, COMPLEX };

static const struct {
    const char *name;
    uint8_t bytes, kind;
} facts[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, ...) [KL_##ID] = {#name, bytes, kind},
#include "base/number/dtype.def"
};

size_t kl_dtype_size(enum kl_dtype dtype) {
    return kl_dtype_valid((int)dtype) ? facts[dtype].bytes : 0;
}

const char *kl_dtype_name(enum kl_dtype dtype) {
    return kl_dtype_valid((int)dtype) ? facts[dtype].name : "unknown";
}

bool kl_dtype_is_float(enum kl_dtype dtype) {
    return facts[dtype].kind == FLOAT;
}

bool kl_dtype_is_int(enum kl_dtype dtype) {
    return facts[dtype].kind == UNSIGNED || facts[dtype].kind == SIGNED;
}

bool kl_dtype_is_signed(enum kl_dtype dtype) {
    return facts[dtype].kind == SIGNED;
}

bool kl_dtype_is_inexact(enum kl_dtype dtype) {
    return facts[dtype].kind == FLOAT || facts[dtype].kind == COMPLEX;
}

enum kl_dtype kl_dtype_inexact(enum kl_dtype dtype) {
    return kl_dtype_is_inexact(dtype) ? dtype : KL_F32;
}

bool kl_int_limits(enum kl_dtype dtype, int64_t *lo, int64_t *hi) {
    if (!kl_dtype_is_int(dtype)) return false;
    int bits = 8 * (int)kl_dtype_size(dtype);
    bool is_signed = kl_dtype_is_signed(dtype);
    *hi = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - is_signed)) - 1;
    *lo = is_signed ? -*hi - 1 : 0;
    return true;
}

static enum kl_dtype signed_of(int bytes) {
    return bytes == 1 ? KL_I8 : bytes == 2 ? KL_I16 : bytes == 4 ? KL_I32 : KL_I64;
}

enum kl_dtype kl_dtype_promote(enum kl_dtype a, enum kl_dtype b) {
    if (facts[a].kind > facts[b].kind) { /* afterwards the kind of b is not the lower one */
        enum kl_dtype t = a;
        a = b;
        b = t;
    }
    enum kind ka = facts[a].kind, kb = facts[b].kind;
    if (a == b) return a;
    if (ka == UNSIGNED && kb == SIGNED) {
        if (facts[a].bytes == 8) return KL_F32;
        return facts[b].bytes > facts[a].bytes ? b : signed_of(2 * facts[a].bytes);
    }
    if (ka != kb) return b;
    if (facts[a].bytes == facts[b].bytes) return KL_F32; /* float16 with bfloat16 */
    return facts[a].bytes > facts[b].bytes ? a : b;
}

float kl_f16_to_f32(uint16_t bits) {
    return kl_f16_load(bits);
}

uint16_t kl_f32_to_f16(float x) {
    return kl_f16_store(x);
}

float kl_bf16_to_f32(uint16_t bits) {
    return kl_bf16_load(bits);
}

uint16_t kl_f32_to_bf16(float x) {
    return kl_bf16_store(x);
}
