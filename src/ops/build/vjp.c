/* vjp.c - the table of gradient rules: the columns vjp and gradient of base/op/op_list.def. */
#include "ops/build/vjp.h"

#include <stddef.h>

#include "ops/build/terms.h"

static kl_unary_rule *const unary_rules[KL_N_OPS] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                 range, gradient, made)                                                      \
    [KL_OP_##ID] = gradient,
#include "base/op/op_list.def"
};

static kl_binary_rule *const binary_rules[KL_N_OPS] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                  range, gradient, made)                                                      \
    [KL_OP_##ID] = gradient,
#include "base/op/op_list.def"
};

struct kl_array *kl_no_gradient(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    return NULL;
}

struct kl_array *kl_no_gradient2(struct kl_terms *t, int which, struct kl_array *g,
                                 struct kl_array *const *in, struct kl_array *y) {
    return NULL;
}

int kl_vjp_refuse(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    bool any = false;
    for (int i = 0; i < v->n_in; i++) any |= v->wanted[i] && kl_has_gradient(v->in[i]);
    if (!any) return KL_OK;
    return kl_fail(err, KL_EUNSUPPORTED, "the operation has no gradient");
}

int kl_vjp_unary(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, unary_rules[v->op]);
}

int kl_vjp_binary(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, binary_rules[v->op]);
}

static kl_vjp_fn *const rules[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = vjp,
#include "base/op/op_list.def"
};

kl_vjp_fn *kl_vjp_rule(enum kl_op_id op) {
    if ((unsigned)op >= KL_N_OPS) return NULL;
    const int n_in = kl_op_map(op).n_in;
    if (n_in == 1 && unary_rules[op] == kl_no_gradient) return NULL;
    if (n_in == 2 && binary_rules[op] == kl_no_gradient2) return NULL;
    return rules[op];
}

bool kl_has_gradient(const struct kl_array *a) {
    return kl_dtype_is_inexact((enum kl_dtype)a->t.dtype);
}
