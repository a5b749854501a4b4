/* rows.c - the builders of element-wise operations that their rows say everything of: ROW in the
 * column `made` of base/op/op_list.def. The others have a builder in the file of their family. */
#include "ops/build/meet.h"
#include "ops/ops.h"

#define UNARY_OWN(ID, builder)
#define BINARY_OWN(ID, builder)
#define UNARY_ROW(ID, builder)                                                  \
    int builder(struct kl_array **out, struct kl_array *a, struct kl_stream *s, \
                struct kl_error **err) {                                        \
        return kl_build_unary(out, KL_OP_##ID, a, s, err);                      \
    }
#define BINARY_ROW(ID, builder)                                                \
    int builder(struct kl_array **out, struct kl_array *a, struct kl_array *b, \
                struct kl_stream *s, struct kl_error **err) {                  \
        return kl_build_binary(out, KL_OP_##ID, a, b, s, err);                 \
    }

#define KL_OP(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                 range, gradient, made)                                                      \
    UNARY_##made(ID, builder)
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                  range, gradient, made)                                                      \
    BINARY_##made(ID, builder)
#include "base/op/op_list.def"
