/* softmax.h - builders of softmax; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* Integers and bools give float32. 16-bit floats are computed in float32, with or without
 * `precise`. */
int kl_softmax(struct kl_array **out, struct kl_array *a, bool precise, struct kl_stream *s,
               struct kl_error **err);
int kl_softmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool precise,
                    struct kl_stream *s, struct kl_error **err);
int kl_softmax_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    bool precise, struct kl_stream *s, struct kl_error **err);
