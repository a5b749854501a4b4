/* attention.h - builders of attention and its gradient; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* softmax(scale q k' + mask) v. Shapes: q (b, heads, n, d), k (b, kv heads, m, d), v (b, kv heads,
 * m, e), with heads a multiple of kv heads. The result is (b, heads, n, e) in the common dtype,
 * which must be a float. mask_mode: "" or NULL, "causal" (the last query sees all keys), "array".
 * mask: bool (false: the key is not seen) or added to the scores; it broadcasts to (b, heads, n,
 * m). sinks: (heads), each the score of one more key whose value is 0. */
int kl_attention(struct kl_array **out, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                 float scale, const char *mask_mode, struct kl_array *mask /* may be NULL */,
                 struct kl_array *sinks /* may be NULL */, struct kl_stream *s,
                 struct kl_error **err);

/* The backward pass of kl_attention: the operation ATTENTION_BACKWARD (base/op/op_params.h) on q, k
 * and v (qkv[0] to [2]), mask, sinks, the result of kl_attention on them and its cotangent. The
 * gradients are one array with one axis. KL_EDTYPE also for float64; KL_ELIMIT when they have more
 * than INT32_MAX elements. */
int kl_attention_backward(struct kl_array **out, struct kl_array *const *qkv, float scale,
                          bool causal, struct kl_array *mask /* may be NULL */,
                          struct kl_array *sinks /* may be NULL */, struct kl_array *result,
                          struct kl_array *cotangent, struct kl_stream *s, struct kl_error **err);
