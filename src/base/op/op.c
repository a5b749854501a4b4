/* op.c - see op.h. */
#include "base/op/op.h"

#include <stddef.h>

static const struct {
    const char *name;
    uint16_t flags;
    uint8_t range, first_index;
} ops[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = {#name, flags, KL_RANGE_##range, indices},
#include "base/op/op_list.def"
};

static const struct kl_op_map maps[KL_N_OPS] = {
#define KL_OP(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ...) \
    [KL_OP_##ID] = {1, KL_TAKES_##takes, KL_COMPUTES_##computes, KL_GIVES_##gives},
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ...) \
    [KL_OP_##ID] = {2, KL_TAKES_##takes, KL_COMPUTES_##computes, KL_GIVES_##gives},
#include "base/op/op_list.def"
};

const char *kl_op_name(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? ops[op].name : "unknown";
}

unsigned kl_op_flags(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? ops[op].flags : 0;
}

enum kl_range_rule kl_op_range_rule(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? (enum kl_range_rule)ops[op].range : KL_RANGE_NONE;
}

int kl_op_first_index(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? ops[op].first_index : 0;
}

struct kl_op_map kl_op_map(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? maps[op] : (struct kl_op_map){0};
}

bool kl_op_takes(enum kl_op_id op, enum kl_dtype dtype) {
    switch ((enum kl_op_takes)kl_op_map(op).takes) {
    case KL_TAKES_REAL: return dtype != KL_C64;
    case KL_TAKES_NUMBER: return dtype != KL_BOOL;
    case KL_TAKES_INTEGER: return dtype == KL_BOOL || kl_dtype_is_int(dtype);
    case KL_TAKES_FLOAT: return kl_dtype_is_float(dtype);
    case KL_TAKES_ANY: break;
    }
    return true;
}

enum kl_dtype kl_op_compute_dtype(enum kl_op_id op, enum kl_dtype dtype) {
    switch ((enum kl_op_computes)kl_op_map(op).computes) {
    case KL_COMPUTES_INEXACT: return kl_dtype_inexact(dtype);
    case KL_COMPUTES_BOOLEAN: return KL_BOOL;
    default: return dtype;
    }
}

enum kl_dtype kl_op_result_dtype(enum kl_op_id op, enum kl_dtype computed) {
    switch ((enum kl_op_gives)kl_op_map(op).gives) {
    case KL_GIVES_BOOLEAN: return KL_BOOL;
    case KL_GIVES_REAL_PART: return computed == KL_C64 ? KL_F32 : computed;
    case KL_GIVES_CODE: return KL_U8;
    case KL_GIVES_SAME: break;
    }
    return computed;
}

bool kl_op_has_kernel_for(enum kl_op_id op, enum kl_dtype dtype) {
    const struct kl_op_map m = kl_op_map(op);
    if (!m.n_in || !kl_op_takes(op, dtype)) return false;
    switch ((enum kl_op_computes)m.computes) {
    case KL_COMPUTES_WHOLE: return kl_dtype_is_float(dtype) || dtype == KL_C64;
    case KL_COMPUTES_COMPLEX: return dtype == KL_C64;
    case KL_COMPUTES_NO_BOOL: return dtype != KL_BOOL;
    default: return kl_op_compute_dtype(op, dtype) == dtype;
    }
}
