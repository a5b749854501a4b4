/* op.h - the operations by number, and what their rows in op_list.def say that every layer may know.
 * Everybody may include it; it knows no arrays and no kernels. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum kl_op_id {
#define KL_OP(ID, ...) KL_OP_##ID,
#include "base/op_list.def"
    KL_N_OPS
};

enum {
    KL_OPF_ELEMENTWISE = 1,   /* input element i is read only where output element i is written */
    KL_OPF_VIEW = 2,          /* never executed */
    KL_OPF_CHECKED = 4,       /* may raise a fault at a position; see base/launch.h */
    KL_OPF_BASE_IN_PLACE = 8, /* may write its result into the block of input 0 */
};

/* How the range of an operation's integer results follows from those of its inputs. */
enum kl_range_rule {
    KL_RANGE_NONE,
    KL_RANGE_FIRST,     /* that of input 0 */
    KL_RANGE_VALUES,    /* what holds for inputs 1 and 2 (WHERE) */
    KL_RANGE_ALL,       /* what holds for every input that has elements */
    KL_RANGE_LARGER,    /* the larger of the two lower bounds and of the two upper bounds */
    KL_RANGE_SMALLER,   /* the smaller ones */
    KL_RANGE_CONVERTED, /* that of input 0 if the result's dtype holds it; bool: 0 and 1 */
    KL_RANGE_BUILDER,   /* the builder sets it, from the parameters */
};

const char *kl_op_name(enum kl_op_id op);
unsigned kl_op_flags(enum kl_op_id op);
enum kl_range_rule kl_op_range_rule(enum kl_op_id op);
/* The first input that holds indices; 0: none does. */
int kl_op_first_index(enum kl_op_id op);

/* ---- element-wise operations that are functions of one or two numbers ---- */

enum kl_op_takes {
    KL_TAKES_ANY,
    KL_TAKES_REAL,    /* all but complex64 */
    KL_TAKES_NUMBER,  /* all but bool */
    KL_TAKES_INTEGER, /* integers and bool */
    KL_TAKES_FLOAT,
};
/* The dtype of the operands as the kernel sees them. */
enum kl_op_computes {
    KL_COMPUTES_SAME,
    KL_COMPUTES_INEXACT, /* integers and bool in float32 */
    KL_COMPUTES_BOOLEAN,
    KL_COMPUTES_WHOLE,   /* integers and bool never come to the kernel */
    KL_COMPUTES_COMPLEX, /* real numbers never do */
    KL_COMPUTES_NO_BOOL, /* bool never does */
};
enum kl_op_gives { KL_GIVES_SAME, KL_GIVES_BOOLEAN, KL_GIVES_REAL_PART, KL_GIVES_CODE };

struct kl_op_map {
    uint8_t n_in; /* 1 or 2; 0: the operation has no such row */
    uint8_t takes, computes, gives;
};
struct kl_op_map kl_op_map(enum kl_op_id op);
/* Whether the builder takes an operand of dtype. */
bool kl_op_takes(enum kl_op_id op, enum kl_dtype dtype);
/* Of operands that meet in dtype: what the kernel sees, and what it gives for that. */
enum kl_dtype kl_op_compute_dtype(enum kl_op_id op, enum kl_dtype dtype);
enum kl_dtype kl_op_result_dtype(enum kl_op_id op, enum kl_dtype computed);
/* Whether operands of dtype come to the operation's kernel as they are. */
bool kl_op_has_kernel_for(enum kl_op_id op, enum kl_dtype dtype);
