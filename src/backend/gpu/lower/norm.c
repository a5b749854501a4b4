/* norm.c - RMS_NORM and LAYER_NORM: rows that a group keeps in registers, or longer ones. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL_SHORT = 256,
    LOCAL_LONG = 512,
    VEC_BYTES = 16,
    MOST_KEPT_BYTES = 128, /* of a row, in registers of a work-item */
    LEAST_KEPT = 8,        /* elements */
    /* norm.kl has the same numbers. */
    CENTRED = 1,
    HAS_WEIGHT = 2,
    HAS_BIAS = 4,
};

const struct kl_family kl_family_norm = {
    .name = "norm", .source = kl_source_norm, .defines = {"T:IN", "VECTOR", "FLAGS", "KEPT"}};

static void split_axes(struct kl_axes *lead, const struct kl_arg *in, const int64_t *strides) {
    *lead = KL_NO_AXES;
    for (int i = 0; i < in->ndim - 1; i++) kl_axes_add(lead, in->dims[i], strides[i], 0);
}

/* Whether weight or bias (NULL: none) can be read in vectors. */
static bool vector_of(const struct kl_arg *a) {
    return !a || ((a->strides[0] == 1 || a->size == 1) && (uintptr_t)a->data % VEC_BYTES == 0);
}

/* The elements of a row that a work-item can keep. */
static int64_t most_kept_of(const struct kl_arg *in) {
    const size_t item = kl_dtype_size(in->dtype);
    return MOST_KEPT_BYTES / (int64_t)(item < 4 ? 4 : item);
}

static uint32_t local_for(const struct kl_emit *e, const struct kl_arg *in, int64_t n) {
    return kl_local_size(e, n <= LOCAL_SHORT * most_kept_of(in) ? LOCAL_SHORT : LOCAL_LONG);
}

/* The elements that a work-item keeps: as few as a group can, since with many of them a single row
 * waits for more loads one after the other. */
static int kept_of(const struct kl_arg *in, int64_t n, uint32_t local) {
    const int most = (int)most_kept_of(in);
    int kept = LEAST_KEPT;
    while (kept < most && (int64_t)local * kept < n) kept *= 2;
    return kept;
}

bool kl_norm_reads_once(const struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0];
    const int64_t n = in->ndim ? in->dims[in->ndim - 1] : 1;
    return n <= local_for(e, in, n) * most_kept_of(in);
}

int kl_lower_norm(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_norm_params *params = c->params;
    const struct kl_arg *in = &c->args[0], *out = &c->args[c->n_in],
                        *weight = params->has_weight ? &c->args[1] : NULL,
                        *bias = params->has_bias ? &c->args[1 + params->has_weight] : NULL;
    const size_t item = kl_dtype_size(in->dtype);
    int64_t dense[KL_AXES_MAX], n = in->ndim ? in->dims[in->ndim - 1] : 1,
                                step = in->ndim ? in->strides[in->ndim - 1] : 1;
    struct kl_axes lead;
    struct kl_space space;
    const void *data = in->data;
    if (out->size == 0) return KL_OK;
    split_axes(&lead, in, in->strides);
    if (!kl_axes_space(&lead, &space)) { /* too many axes: those of a row-major copy merge */
        void *scratch = NULL;
        kl_strides_row_major(in->ndim, in->dims, dense);
        split_axes(&lead, in, dense);
        kl_axes_space(&lead, &space);
        step = 1;
        KL_TRY(kl_emit_workspace(e, (size_t)in->size * item, &scratch));
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, dense, in->data, in->strides));
        data = scratch;
    }
    const int64_t vec = VEC_BYTES / (int64_t)item;
    int vector = step == 1 && n % vec == 0 && (uintptr_t)data % VEC_BYTES == 0 &&
                 (uintptr_t)out->data % VEC_BYTES == 0 && vector_of(weight) && vector_of(bias);
    for (int i = 0; i < lead.ndim; i++)
        if (lead.strides[0][i] % vec) vector = 0;
    const uint32_t local = local_for(e, in, n);
    const int kept = kept_of(in, n, local);
    const bool is_long = n > (int64_t)local * kept;
    int32_t width = (int32_t)kl_pow2_for(kl_groups_for(n, kept), local);
    const int flags = (c->op == KL_OP_LAYER_NORM ? CENTRED : 0) | (weight ? HAS_WEIGHT : 0) |
                      (bias ? HAS_BIAS : 0),
              values[] = {in->dtype, vector, flags, kept};
    int64_t weight_step = weight ? weight->strides[0] : 0, bias_step = bias ? bias->strides[0] : 0;
    float eps = params->eps;
    const size_t access = vector ? VEC_BYTES : item;
    struct kl_karg args[] = {KL_KARG_PTR(data, access),
                             KL_KARG_PTR(out->data, access),
                             KL_KARG_PTR(weight ? weight->data : NULL, access),
                             KL_KARG_PTR(bias ? bias->data : NULL, access),
                             KL_KARG(lead.n),
                             KL_KARG(n),
                             KL_KARG(width),
                             KL_KARG(eps),
                             KL_KARG(step),
                             KL_KARG(weight_step),
                             KL_KARG(bias_step),
                             KL_KARG(space)};
    if (is_long) return kl_emit(e, &kl_family_norm, values, "norm_long", lead.n, local, args, 12);
    return kl_emit(e, &kl_family_norm, values, "norm_rows",
                   kl_groups_for(lead.n, local / (uint32_t)width), local, args, 12);
}
