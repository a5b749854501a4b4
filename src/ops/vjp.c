/* vjp.c - which rule an operation has. Nothing else. */
#include "ops/vjp.h"

#define KL_VJP(ID, rule) kl_vjp_fn rule;
#include "ops/vjp_list.def"
#undef KL_VJP

static kl_vjp_fn *const rules[KL_N_OPS] = {
#define KL_VJP(ID, rule) [KL_OP_##ID] = rule,
#include "ops/vjp_list.def"
#undef KL_VJP
};

kl_vjp_fn *kl_vjp_rule(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? rules[op] : NULL;
}
