/* join.h - builders that make arrays depend on others; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- join_depends.c ---- */
/* The inputs, made when all dependencies have settled. An input that does not fail itself fails
 * with the error of the first dependency that failed. */
int kl_depends(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *inputs,
               size_t n_inputs, struct kl_array *const *dependencies, size_t n_dependencies,
               struct kl_stream *s, struct kl_error **err);
