/* op.h - the operations by number: names and flags, from op_list.def.
 * Everybody may include it; it knows no arrays and no kernels. */
#pragma once
#include <stdint.h>

enum kl_op_id {
#define KL_OP(ID, name, flags) KL_OP_##ID,
#include "base/op_list.def"
#undef KL_OP
    KL_N_OPS
};

enum {
    KL_OPF_ELEMENTWISE = 1,   /* input element i is read only where output element i is written */
    KL_OPF_VIEW = 2,          /* never executed */
    KL_OPF_CHECKED = 4,       /* may raise a fault at a position; see base/launch.h */
    KL_OPF_BASE_IN_PLACE = 8, /* may write its result into the block of input 0 */
};

const char *kl_op_name(enum kl_op_id op);
unsigned kl_op_flags(enum kl_op_id op);
