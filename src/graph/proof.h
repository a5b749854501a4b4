/* proof.h - what is known about integers before they are computed: ranges of values, and from them
 * whether the indices of an operation are in range. */
#pragma once
#include "graph/array.h"

/* True when every index operand has no elements, or has a proved range (kl_array_set_range) that
 * fits its axis. False for operations without indices. `in` are the operation's inputs. */
bool kl_op_indices_proved(enum kl_op_id op, const void *params, struct kl_array *const *in,
                          int n_in);

/* Sets the range of a new output of op by the rule in the range column of base/op/op_list.def. */
void kl_op_prove_range(struct kl_array *out, enum kl_op_id op, struct kl_array *const *in,
                       int n_in);
