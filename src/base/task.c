/* task.c - see task.h. */
#include "base/task.h"

#include "base/op_params.h"

const char *kl_task_name(const struct kl_task *t) {
    if (t->op == KL_OP_CALL) return ((const struct kl_call_params *)t->params)->name;
    return kl_op_name(t->op);
}
