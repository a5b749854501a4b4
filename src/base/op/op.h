/* op.h - the operations by number, and the facts of their rows in op_list.def that every layer may
 * know. Every file may include it. It knows neither arrays nor kernels. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/number/dtype.h"

enum kl_op_id {
#define KL_OP(ID, ...) KL_OP_##ID,
#include "base/op/op_list.def"
    KL_N_OPS
};

enum {
    KL_OPF_ELEMENTWISE = 1,   /* input element i is read only where output element i is written */
    KL_OPF_VIEW = 2,          /* never executed */
    KL_OPF_CHECKED = 4,       /* may raise a fault at a position; see base/op/launch.h */
    KL_OPF_BASE_IN_PLACE = 8, /* may write its result into the block of input 0 */
    /* the rows of input 0 times a matrix: small ones of the same rows are brought together
     * (graph/arrange.h) and become one launch (backend/gpu/lower/side_by_side.h) */
    KL_OPF_ROWS_BY_MATRIX = 16,
    /* the gradient's rule takes one matrix in place of input 1, which repeats it for every batch,
     * and then sums over the batches itself (kl_vjp_sums_batches) */
    KL_OPF_SUMS_BATCHES = 32,
    KL_OPF_REPEATS = 64, /* repeats input 0 along further axes, or axes of extent 1 */
    /* a checked operation on the matrices in the last two axes of input 0, which may fail for some
     * of them: a position is the matrix, and how it fails (base/op/launch.h) */
    KL_OPF_OF_MATRICES = 128,
    /* its kernels may compute the elements of input 0 where they read them, by the element-wise
     * operations that make it (backend/gpu/lower/elementwise.c) */
    KL_OPF_FETCHES = 256,
    /* other processes take part (backend/collective/group.h): it runs on streams of its group, also
     * when its input has failed, and is never left out or merged with another */
    KL_OPF_COLLECTIVE = 1024,
    /* with few elements it shares a launch with others like it that come next to it
     * (backend/gpu/lower/rope_few.c) */
    KL_OPF_MOVES_ROWS = 2048,
    KL_OPF_BEGINS_RUN = 512, /* its elements may be made in the element-wise kernel of their user */
};

/* A result of at most this many elements leaves most of a device idle. */
enum { KL_SMALL_RESULT = 1 << 16 };

/* How the range of an operation's integer results follows from the ranges of its inputs. */
enum kl_range_rule {
    KL_RANGE_NONE,
    KL_RANGE_FIRST,     /* the range of input 0 */
    KL_RANGE_VALUES,    /* the range that holds inputs 1 and 2 (WHERE) */
    KL_RANGE_ALL,       /* the range that holds every input that has elements */
    KL_RANGE_LARGER,    /* the larger of the lower bounds, the larger of the upper bounds */
    KL_RANGE_SMALLER,   /* the smaller of the lower bounds, the smaller of the upper bounds */
    KL_RANGE_CONVERTED, /* the range of input 0 if the result's dtype holds it; bool: 0 and 1 */
    KL_RANGE_BUILDER,   /* the builder sets the range, from the parameters */
};

/* Whether op has KL_OPF_COLLECTIVE: the rows of these follow each other. */
static inline bool kl_op_is_collective(enum kl_op_id op) {
    return op >= KL_OP_ALL_SUM && op <= KL_OP_RECV;
}

const char *kl_op_name(enum kl_op_id op);
unsigned kl_op_flags(enum kl_op_id op);
enum kl_range_rule kl_op_range_rule(enum kl_op_id op);
/* The number of the first input that holds indices; 0 when no input does. */
int kl_op_first_index(enum kl_op_id op);

/* ---- element-wise operations that are functions of one or two numbers ---- */

enum kl_op_takes {
    KL_TAKES_ANY,
    KL_TAKES_REAL,    /* all but complex64 */
    KL_TAKES_NUMBER,  /* all but bool */
    KL_TAKES_INTEGER, /* integers and bool */
    KL_TAKES_FLOAT,
};
/* In which dtype the kernel computes, that is, the dtype of its operands. */
enum kl_op_computes {
    KL_COMPUTES_SAME,
    KL_COMPUTES_INEXACT, /* integers and bool are computed in float32 */
    KL_COMPUTES_BOOLEAN,
    KL_COMPUTES_WHOLE,   /* there is no kernel for integers and bool */
    KL_COMPUTES_COMPLEX, /* there is a kernel for complex64 only */
    KL_COMPUTES_NO_BOOL, /* there is no kernel for bool */
};
enum kl_op_gives { KL_GIVES_SAME, KL_GIVES_BOOLEAN, KL_GIVES_REAL_PART, KL_GIVES_CODE };

struct kl_op_map {
    uint8_t n_in; /* 1 or 2; 0: the operation has no such row */
    uint8_t takes, computes, gives;
};
struct kl_op_map kl_op_map(enum kl_op_id op);
/* Whether the builder accepts an operand of dtype. */
bool kl_op_takes(enum kl_op_id op, enum kl_dtype dtype);
/* For operands promoted to dtype: the dtype that the kernel takes, and the dtype of its result when
 * it takes `computed`. */
enum kl_dtype kl_op_compute_dtype(enum kl_op_id op, enum kl_dtype dtype);
enum kl_dtype kl_op_result_dtype(enum kl_op_id op, enum kl_dtype computed);
/* Whether the kernel of the operation takes operands of dtype without conversion. */
bool kl_op_has_kernel_for(enum kl_op_id op, enum kl_dtype dtype);
