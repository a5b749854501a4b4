/* convert.h - builders of the same values in another layout or dtype; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

int kl_copy(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err);
/* a itself when it is row-contiguous, or when it is column-contiguous and allow_col_major is set. A
 * placeholder is copied, because the array that it stands for may have any layout. */
int kl_contiguous(struct kl_array **out, struct kl_array *a, bool allow_col_major,
                  struct kl_stream *s, struct kl_error **err);
/* a itself when it is row-contiguous now. For builders whose replays ask again. */
int kl_row_contiguous(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err);
int kl_astype(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
              struct kl_error **err);

/* A view of a that has no gradient. */
int kl_stop_gradient(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err);
