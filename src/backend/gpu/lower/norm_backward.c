/* norm_backward.c - NORM_BACKWARD: rows that a group keeps in registers, or longer ones, and
 * then a launch that adds the sums of weight and bias. How work is cut follows from the shape
 * alone, so every run gives the same bits. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL_SHORT = 256,
    LOCAL_LONG = 512,
    VEC_BYTES = 16,
    KEPT_FEW = 8, /* 64 registers on CUDA let four groups of 256 run on a multiprocessor, */
    KEPT_MANY = 16,
    /* The most groups of which sums are made: two for each of four that run on each of 132
     * multiprocessors, rounded. More of them would write more sums. */
    MOST_GROUPS = 1024,
    MOST_SUMS = 1 << 20, /* of all groups together, where rows are long; but ENOUGH_GROUPS */
    ENOUGH_GROUPS = 264,
    /* norm_backward.kl has the same numbers. */
    CENTRED = 1,
    HAS_WEIGHT = 2,
    OF_WEIGHT = 4,
    OF_BIAS = 8,
    COLUMNS = 8,
    N_ARGS = 14,
};

const struct kl_family kl_family_norm_backward = {.name = "norm_backward",
                                                  .source = kl_source_norm_backward,
                                                  .defines = {"T:IN", "VECTOR", "FLAGS", "KEPT"}};

static void lead_of(struct kl_axes *lead, const struct kl_arg *x, const int64_t *strides,
                    const int64_t *given) {
    *lead = KL_NO_AXES;
    for (int i = 0; i < x->ndim - 1; i++) kl_axes_add(lead, x->dims[i], strides[i], given[i]);
}

static int row_major(struct kl_emit *e, const struct kl_arg *a, const int64_t *dense,
                     const void **data) {
    const size_t item = kl_dtype_size(a->dtype);
    void *copy = NULL;
    KL_TRY(kl_emit_workspace(e, (size_t)a->size * item, &copy));
    KL_TRY(kl_emit_copy(e, item, a->ndim, a->dims, copy, dense, a->data, a->strides));
    *data = copy;
    return KL_OK;
}

static bool is_aligned(const void *p) {
    return (uintptr_t)p % VEC_BYTES == 0;
}

/* out = the sum of `lines` lines of n sums of the weight, then that of as many of the bias. */
static int join(struct kl_emit *e, const int *values, const void *part, void *out, int64_t lines,
                int64_t n, int sides, size_t wide, size_t item) {
    struct kl_karg args[] = {KL_KARG_PTR(part, wide), KL_KARG_PTR(out, item), KL_KARG(lines),
                             KL_KARG(n)};
    return kl_emit(e, &kl_family_norm_backward, values, "join_lines",
                   kl_groups_for(n, COLUMNS) * sides, kl_local_size(e, LOCAL_LONG), args, 4);
}

int kl_lower_norm_backward(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_norm_backward_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *given = &c->args[c->n_in - 1], *out = &c->args[c->n_in],
                        *weight = p->has_weight ? &c->args[1] : NULL;
    const size_t item = kl_dtype_size(x->dtype), wide = item < 4 ? 4 : item;
    const int last = x->ndim - 1, sides = p->of_weight + p->of_bias;
    int64_t dense[KL_AXES_MAX], n = x->dims[last], step = x->strides[last],
                                given_step = given->strides[last];
    const void *data = x->data, *given_data = given->data;
    struct kl_axes lead;
    struct kl_space space;
    if (x->size == 0) return kl_emit_fill(e, out->data, item, out->size, 0);
    lead_of(&lead, x, x->strides, given->strides);
    if (!kl_axes_space(&lead, &space)) { /* too many axes: those of row-major copies merge */
        kl_strides_row_major(x->ndim, x->dims, dense);
        lead_of(&lead, x, dense, dense);
        kl_axes_space(&lead, &space);
        step = given_step = 1;
        KL_TRY(row_major(e, x, dense, &data));
        KL_TRY(row_major(e, given, dense, &given_data));
    }
    const int64_t vec = VEC_BYTES / (int64_t)item;
    int vector = step == 1 && given_step == 1 && n % vec == 0 && is_aligned(data) &&
                 is_aligned(given_data) && is_aligned(out->data) &&
                 (!weight || (is_aligned(weight->data) && weight->strides[0] == 1));
    for (int i = 0; i < lead.ndim; i++)
        if (lead.strides[0][i] % vec || lead.strides[1][i] % vec) vector = 0;
    const uint32_t local = kl_local_size(e, n <= LOCAL_SHORT * KEPT_FEW ? LOCAL_SHORT : LOCAL_LONG);
    const int kept = n <= (int64_t)local * KEPT_FEW || item == 8 ? KEPT_FEW : KEPT_MANY;
    const bool is_long = n > (int64_t)local * kept;
    int32_t width = (int32_t)kl_pow2_for(kl_groups_for(n, kept), local);
    const int flags = (p->centred ? CENTRED : 0) | (weight ? HAS_WEIGHT : 0) |
                      (p->of_weight ? OF_WEIGHT : 0) | (p->of_bias ? OF_BIAS : 0),
              values[] = {x->dtype, vector, flags, kept};
    const int64_t rows = lead.n, each = local / width, blocks = kl_groups_for(n, local);
    int64_t groups = kl_groups_for(rows, each), lines,
            weight_step = weight ? weight->strides[0] : 0;
    if (sides) {
        int64_t most = MOST_SUMS / (each * n);
        if (most < ENOUGH_GROUPS) most = ENOUGH_GROUPS;
        if (most > MOST_GROUPS) most = MOST_GROUPS;
        if (groups > most) groups = most;
    }
    lines = groups * each;
    if (is_long) {
        lines = kl_groups_for(MOST_GROUPS, blocks);
        if (lines > rows) lines = rows;
    }
    void *part = NULL, *stats = NULL;
    if (sides) KL_TRY(kl_emit_workspace(e, (size_t)(lines * n * sides) * wide, &part));
    if (sides && is_long) KL_TRY(kl_emit_workspace(e, (size_t)rows * 2 * wide, &stats));
    float eps = p->eps;
    const size_t access = vector ? VEC_BYTES : item;
    struct kl_karg args[N_ARGS] = {KL_KARG_PTR(data, access),
                                   KL_KARG_PTR(given_data, access),
                                   KL_KARG_PTR(weight ? weight->data : NULL, access),
                                   KL_KARG_PTR(out->data, access),
                                   KL_KARG_PTR(part, wide),
                                   KL_KARG_PTR(stats, wide),
                                   KL_KARG(rows),
                                   KL_KARG(n),
                                   KL_KARG(width),
                                   KL_KARG(eps),
                                   KL_KARG(step),
                                   KL_KARG(given_step),
                                   KL_KARG(weight_step),
                                   KL_KARG(space)};
    const struct kl_family *f = &kl_family_norm_backward;
    KL_TRY(kl_emit(e, f, values, is_long ? "back_long" : "back_rows", is_long ? rows : groups,
                   local, args, N_ARGS));
    if (!sides) return KL_OK;
    if (is_long) {
        width = (int32_t)lines;
        KL_TRY(kl_emit(e, f, values, "back_columns", blocks * lines, local, args, N_ARGS));
    }
    return join(e, values, part, (char *)out->data + (size_t)x->size * item, lines, n, sides, wide,
                item);
}
