/* builder.h - the types of builders of one and of two operands; the rules of ops.h hold. */
#pragma once
#include "graph/array.h"

typedef int kl_binary_fn(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                         struct kl_stream *s, struct kl_error **err);
typedef int kl_unary_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                        struct kl_error **err);
