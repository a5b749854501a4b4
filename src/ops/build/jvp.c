/* jvp.c - see jvp.h. */
#include "ops/build/jvp.h"

#include <stddef.h>

#include "ops/build/build.h"
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

static kl_jvp_fn *const rules[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = jvp,
#include "base/op/op_list.def"
};

kl_jvp_fn *kl_jvp_rule(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? rules[op] : NULL;
}

/* The rules of gradients multiply by the derivative, element by element, and for real numbers the
 * same product serves both directions. */
int kl_jvp_unary(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    *tangent = kl_terms_keep(&t, unary_rules[j->op](&t, j->tangent[0], j->in[0], j->out));
    return kl_terms_end(&t, NULL, NULL);
}

int kl_jvp_binary(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *sum = NULL;
    for (int i = 0; i < 2; i++) {
        if (!j->tangent[i]) continue;
        struct kl_array *part = binary_rules[j->op](&t, i, j->tangent[i], j->in, j->out);
        if (part) sum = sum ? kl_term2(&t, kl_add, sum, part) : part;
    }
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

/* Operations that are linear in input 0, whose other inputs have no tangents (such as indices). */
int kl_jvp_linear(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    enum { MAX_IN = 1 + KL_MAX_NDIM }; /* a gather has one input per axis */
    struct kl_array *in[MAX_IN];
    if (!kl_has_gradient(j->out) || !j->tangent[0]) return KL_OK;
    kl_assert(j->n_in <= MAX_IN);
    for (int i = 0; i < j->n_in; i++) in[i] = i ? j->in[i] : j->tangent[0];
    struct kl_build b = {.op = j->op,
                         .params = j->params,
                         .params_bytes = j->params_bytes,
                         .in = in,
                         .n_in = j->n_in,
                         .s = j->s,
                         .dtype = (enum kl_dtype)j->out->t.dtype,
                         .ndim = j->out->t.ndim,
                         .dims = j->out->t.dims};
    return kl_op_build(&b, tangent, err);
}

/* d(a b) = da b + a db */
int kl_jvp_matmul(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *left = j->tangent[0] ? kl_term2(&t, kl_matmul, j->tangent[0], j->in[1]) : NULL;
    struct kl_array *right =
        j->tangent[1] ? kl_term2(&t, kl_matmul, j->in[0], j->tangent[1]) : NULL;
    struct kl_array *sum = left && right ? kl_term2(&t, kl_add, left, right) : left ? left : right;
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}
