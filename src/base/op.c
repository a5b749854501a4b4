/* op.c - see op.h. */
#include "base/op.h"

#include <stddef.h>

static const struct {
    const char *name;
    unsigned flags;
} ops[KL_N_OPS] = {
#define KL_OP(ID, name, flags) [KL_OP_##ID] = {#name, flags},
#include "base/op_list.def"
#undef KL_OP
};

const char *kl_op_name(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? ops[op].name : "unknown";
}

unsigned kl_op_flags(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? ops[op].flags : 0;
}
