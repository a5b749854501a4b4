/* rope.c - ROPE: one launch makes the table of angles of position 1, one rotates. A few rows go
 * another way (rope_few.c). */
#include <math.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/rope.h"
#include "base/number/dtype.h"
#include "base/number/turns.h"

enum {
    WANT_LOCAL = 256,
    VEC_BYTES = 16,
};

const struct kl_family kl_family_rope = {
    .name = "rope", .source = kl_source_rope, .defines = {"T:IN", "PAIRS", "TRADITIONAL"}};

/* The rates are those of backend/cpu/rope/rope.c. */
struct kl_rope_turns kl_rope_turns_from(const struct kl_rope_params *p, int64_t first) {
    const int64_t half = p->dims / 2;
    struct kl_rope_turns t = {{0}};
    for (int64_t k = first; k < half && k < first + KL_ROPE_TURNS; k++) {
        const double rate = pow((double)p->base, -(double)k / (double)half);
        t.of[k - first] = kl_turns_of_rate(rate, p->scale);
    }
    return t;
}

/* Fills the table from `base`. */
static int from_base(struct kl_emit *e, const struct kl_rope_params *p, const int *values,
                     void *table) {
    int64_t half = p->dims / 2;
    for (int64_t first = 0; first < half; first += KL_ROPE_TURNS) {
        struct kl_rope_turns t = kl_rope_turns_from(p, first);
        struct kl_karg args[] = {KL_KARG_PTR(table, 8), KL_KARG(first), KL_KARG(half), KL_KARG(t)};
        KL_TRY(kl_emit(e, &kl_family_rope, values, "rope_turns", 1, kl_local_size(e, KL_ROPE_TURNS),
                       args, 4));
    }
    return KL_OK;
}

static int from_freqs(struct kl_emit *e, const struct kl_rope_params *p, const int *values,
                      const struct kl_arg *freqs, void *table) {
    int64_t half = p->dims / 2, step = freqs->strides[0];
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    const struct kl_turns_scale by = kl_turns_scale(p->scale);
    struct kl_karg args[] = {KL_KARG_PTR(table, 8), KL_KARG_PTR(freqs->data, 4), KL_KARG(half),
                             KL_KARG(step), KL_KARG(by)};
    return kl_emit(e, &kl_family_rope, values, "rope_freqs", kl_groups_for(half, local), local,
                   args, 5);
}

static void split_axes(struct kl_axes *lead, const struct kl_arg *in, const int64_t *strides) {
    *lead = KL_NO_AXES;
    for (int i = 0; i < in->ndim - 1; i++) kl_axes_add(lead, in->dims[i], strides[i], 0);
}

int kl_lower_rope(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_rope_params *params = c->params;
    const struct kl_arg *in = &c->args[0], *offset = &c->args[1],
                        *freqs = c->n_in > 2 ? &c->args[2] : NULL, *out = &c->args[c->n_in];
    const size_t item = kl_dtype_size(in->dtype);
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    int64_t dense[KL_AXES_MAX], width = in->dims[in->ndim - 1], length = in->dims[in->ndim - 2],
                                step = in->strides[in->ndim - 1], dims = params->dims;
    struct kl_axes lead;
    struct kl_space space;
    const void *data = in->data;
    void *scratch = NULL;
    size_t copied = 0;
    if (out->size == 0) return KL_OK;
    const int few = kl_lower_rotations(e, c, 1);
    if (few) return few < 0 ? few : KL_OK;
    split_axes(&lead, in, in->strides);
    if (!kl_axes_space(&lead, &space)) { /* too many axes: those of a row-major copy merge */
        kl_strides_row_major(in->ndim, in->dims, dense);
        split_axes(&lead, in, dense);
        kl_axes_space(&lead, &space);
        step = 1;
        copied = kl_scratch_bytes((size_t)in->size * item);
    }
    KL_TRY(kl_emit_workspace(e, copied + (size_t)(dims / 2) * 8, &scratch));
    if (copied) {
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, dense, in->data, in->strides));
        data = scratch;
    }
    const int64_t vec = VEC_BYTES / (int64_t)item;
    bool vector = step == 1 && dims / 2 % vec == 0 && width % vec == 0 &&
                  (uintptr_t)data % VEC_BYTES == 0 && (uintptr_t)out->data % VEC_BYTES == 0;
    for (int i = 0; i < lead.ndim; i++)
        if (lead.strides[0][i] % vec) vector = false;
    const int pairs = vector ? (int)vec : 1, values[] = {in->dtype, pairs, params->traditional};
    void *table = kl_scratch_at(scratch, copied);
    if (freqs)
        KL_TRY(from_freqs(e, params, values, freqs, table));
    else
        KL_TRY(from_base(e, params, values, table));
    int64_t per_batch = lead.n / in->dims[0],
            offset_step = offset->ndim && offset->dims[0] > 1 ? offset->strides[0] : 0;
    const int64_t per_row = kl_groups_for(dims / 2, pairs) + kl_groups_for(width - dims, 2 * pairs);
    int32_t inverse = params->inverse;
    const size_t access = vector ? VEC_BYTES : item;
    struct kl_karg args[] = {KL_KARG_PTR(data, access),
                             KL_KARG_PTR(out->data, access),
                             KL_KARG_PTR(offset->data, 4),
                             KL_KARG_PTR(table, 8),
                             KL_KARG(lead.n),
                             KL_KARG(length),
                             KL_KARG(per_batch),
                             KL_KARG(width),
                             KL_KARG(dims),
                             KL_KARG(offset_step),
                             KL_KARG(inverse),
                             KL_KARG(step),
                             KL_KARG(space)};
    return kl_emit(e, &kl_family_rope, values, "rope", kl_groups_for(lead.n * per_row, local),
                   local, args, 13);
}
