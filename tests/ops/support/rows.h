/* rows.h - the element-wise functions of op_list.def as tables, for tests that apply one check
 * to all of them. */
#pragma once
#include "base/op/op.h"
#include "ops/ops.h"

struct row_of_one {
    const char *name;
    kl_unary_fn *build;
    enum kl_op_id op;
    double ulp, device; /* largest errors in float32, on the CPU and on devices */
    double from, to;    /* the range in which the gradient is compared with differences */
};
struct row_of_two {
    const char *name;
    kl_binary_fn *build;
    enum kl_op_id op;
    double ulp, device, from, to;
};

static const struct row_of_one rows_of_one[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, ...) \
    {#name, builder, KL_OP_##ID, ulp, device, from, to},
#include "base/op/op_list.def"
};
static const struct row_of_two rows_of_two[] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, ...) \
    {#name, builder, KL_OP_##ID, ulp, device, from, to},
#include "base/op/op_list.def"
};
enum {
    N_ROWS_OF_ONE = sizeof rows_of_one / sizeof *rows_of_one,
    N_ROWS_OF_TWO = sizeof rows_of_two / sizeof *rows_of_two
};
