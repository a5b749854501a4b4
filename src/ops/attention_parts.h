/* attention_parts.h - what attention.c, which builds attention, and attention_backward.c share. */
#pragma once
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/terms.h"
#include "ops/build/vmap.h"

struct kl_attention {
    int b, heads, kv_heads, n, m, d, e;
    enum kl_dtype dtype;
    struct kl_attention_params p;
    struct kl_array *in
        /* q, k, v, then mask and sinks where given; of one dtype (a mask may be bool) and of the
         * shapes that the kernel takes; then, for the backward pass, output and cotangent; owned */
        [7];
    int n_in;
    struct kl_stream *s;
};

/* Checks one of q, k and v, a result or a cotangent. */
int kl_attention_check_operand(const struct kl_array *a, const char *what, struct kl_error **err);
/* Fills the extents and the dtype of *t. */
int kl_attention_check(struct kl_attention *t, const struct kl_array *q, const struct kl_array *k,
                       const struct kl_array *v, struct kl_error **err);
/* Fills the inputs of *t from checked operands. */
int kl_attention_prepare(struct kl_attention *t, struct kl_array *q, struct kl_array *k,
                         struct kl_array *v, struct kl_array *mask, struct kl_array *sinks,
                         struct kl_error **err);
/* One more input, converted to dtype. */
int kl_attention_add(struct kl_attention *t, struct kl_array *a, enum kl_dtype dtype,
                     struct kl_error **err);

/* ---- the composed form ---- */
struct kl_attention_parts {     /* arrays of the type kl_attention_wide, made by composed code */
    struct kl_array *q, *k, *v; /* with the heads grouped; q is already multiplied by scale */
    struct kl_array *weights;   /* the weights of all keys: (b, kv heads, group, n, m) */
    struct kl_array *sink; /* the weights of the sinks, (..., n, 1); NULL when there are no sinks */
    struct kl_array *keep; /* which keys are seen; NULL: all of them, or a mask is added */
};

void kl_attention_weigh(struct kl_terms *t, struct kl_attention_parts *w,
                        const struct kl_attention *p);
/* The type in which the composed form computes. */
enum kl_dtype kl_attention_wide(const struct kl_attention *t);
/* Reshapes (b, heads, rows, cols) to (b, kv heads, heads of a group, rows, cols). */
int kl_attention_grouped(struct kl_array **out, struct kl_array *a, const struct kl_attention *t,
                         struct kl_error **err);
/* With the last two axes exchanged. */
int kl_attention_swapped(struct kl_array **out, struct kl_array *a, struct kl_error **err);

/* ---- made again, and batches ---- */
/* Reads and checks the parameters. more: inputs after q, k, v, mask and sinks. */
int kl_attention_check_params(const struct kl_build *b, struct kl_attention_params *p, int more,
                              struct kl_error **err);
/* The axis with which an axis of lanes is joined. */
enum { KL_JOIN_BATCH, KL_JOIN_HEADS };
/* Whether the lanes of input i can be joined with its axis `with` without a copy. */
bool kl_attention_joins(const struct kl_vmap *v, int i, int with);
/* Input i with an axis of lanes, broadcast where it has none, joined with the axis `with`: before
 * the elements of the batch, or after the heads. */
struct kl_array *kl_attention_joined(struct kl_terms *t, const struct kl_vmap *v, int i, int with);
