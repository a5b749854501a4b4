/* side_by_side.c - see side_by_side.h. Two commands are independent when none of them writes what
 * the other reads or writes. */
#include "backend/gpu/lower/side_by_side.h"

#include <string.h>

#include "base/number/dtype.h"

struct kl_extent kl_extent_of(const struct kl_arg *a) {
    const int64_t item = (int64_t)kl_dtype_size(a->dtype);
    int64_t low = 0, high = item;
    if (a->layout & KL_ROW_CONTIGUOUS)
        high = a->size * item;
    else
        for (int i = 0; i < a->ndim && a->size > 0; i++) {
            const int64_t reach = (a->dims[i] - 1) * a->strides[i] * item;
            if (reach < 0)
                low += reach;
            else
                high += reach;
        }
    return (struct kl_extent){(uintptr_t)a->data + (uintptr_t)low,
                              (uintptr_t)a->data + (uintptr_t)high};
}

static struct kl_extent workspace_of(const struct kl_command *c) {
    const uintptr_t at = (uintptr_t)c->workspace;
    return (struct kl_extent){at, at + c->workspace_bytes};
}

/* Whether c writes memory of x; not only_writes: or reads it. */
static bool touches(const struct kl_command *c, struct kl_extent x, bool only_writes) {
    for (int i = only_writes ? c->n_in : 0; i < c->n_in + c->n_out; i++)
        if (c->args[i].data && kl_extents_overlap(x, kl_extent_of(&c->args[i]))) return true;
    return kl_extents_overlap(x, workspace_of(c));
}

bool kl_are_independent(const struct kl_command *a, const struct kl_command *b) {
    for (int i = 0; i < a->n_in + a->n_out; i++)
        if (a->args[i].data && touches(b, kl_extent_of(&a->args[i]), i < a->n_in)) return false;
    return !touches(b, workspace_of(a), false);
}

/* The elements that a command makes; 0 for operations that do not run side by side as launches of
 * one kernel. These are products alone: rotations and writes into slices have a kernel of their own
 * for several (rope_few.c). */
static int64_t elements_of(const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH || c->n_guards || c->checked) return 0;
    return kl_op_flags(c->op) & KL_OPF_ROWS_BY_MATRIX ? c->args[c->n_in].size : 0;
}

static bool is_small(const struct kl_command *c) {
    const int64_t n = elements_of(c);
    return n > 0 && n <= KL_SMALL_RESULT;
}

static bool alike(const struct kl_command *a, const struct kl_command *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
        a->params_bytes != b->params_bytes || !is_small(b) ||
        (a->params_bytes && memcmp(a->params, b->params, a->params_bytes) != 0))
        return false;
    for (int i = 0; i < a->n_in + a->n_out; i++)
        if (a->args[i].dtype != b->args[i].dtype || a->args[i].ndim != b->args[i].ndim)
            return false;
    return true;
}

int kl_side_by_side(const struct kl_command *commands, int n) {
    int count = 1;
    if (!is_small(&commands[0])) return count;
    for (; count < n && count < KL_MOST_SIDE_BY_SIDE; count++) {
        if (!alike(&commands[0], &commands[count])) break;
        for (int i = 0; i < count; i++)
            if (!kl_are_independent(&commands[i], &commands[count])) return count;
    }
    return count;
}
