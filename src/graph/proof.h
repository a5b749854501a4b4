/* proof.h - whether the indices of an operation are known to be in range before it runs. */
#pragma once
#include "graph/array.h"

/* True when every index operand has a proved range (kl_array_set_range) that fits its axis, or no
 * elements. False for operations without indices. `in` are the operation's inputs. */
bool kl_op_indices_proved(enum kl_op_id op, const void *params, struct kl_array *const *in,
                          int n_in);
