/* vmap.c - the table of batch rules: the column vmap of op_list.def; the rule of element-wise
 * operations and of views without parameters; and what the rules share. */
#include "ops/build/vmap.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"
#include "ops/ops.h"

/* The operands of one lane have one shape, so a lane axis in front of some of them broadcasts by
 * itself. */
int kl_vmap_elementwise(const struct kl_vmap *v, struct kl_array **out, int *axis,
                        struct kl_error **err) {
    *axis = 0;
    return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
}

static kl_vmap_fn *const rules[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = vmap,
#include "base/op/op_list.def"
};

kl_vmap_fn *kl_vmap_rule(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS ? rules[op] : NULL;
}

static int too_many_axes(int ndim, struct kl_error **err) {
    return kl_fail(err, KL_ESHAPE,
                   "an array of %d axes has no room for the axis of lanes; at most %d are possible",
                   ndim, KL_MAX_NDIM);
}

int kl_vmap_build(const struct kl_vmap *v, struct kl_array **out, const void *params,
                  size_t params_bytes, struct kl_array *const *in, struct kl_error **err) {
    int dims[KL_MAX_NDIM];
    if (v->ndim >= KL_MAX_NDIM) return too_many_axes(v->ndim, err);
    dims[0] = v->lanes;
    if (v->ndim) memcpy(dims + 1, v->dims, (size_t)v->ndim * sizeof *dims);
    return kl_op_build(&(struct kl_build){.op = v->op,
                                          .params = params,
                                          .params_bytes = params_bytes,
                                          .in = in,
                                          .n_in = v->n_in,
                                          .s = v->s,
                                          .dtype = v->dtype,
                                          .ndim = v->ndim + 1,
                                          .dims = dims},
                       out, err);
}

int kl_vmap_dims(int *dims, const struct kl_array *a, int at, int n, struct kl_error **err) {
    if (a->t.ndim >= KL_MAX_NDIM) return too_many_axes(a->t.ndim, err);
    for (int i = 0; i < a->t.ndim; i++) dims[i + (i >= at)] = a->t.dims[i];
    dims[at] = n;
    return KL_OK;
}

int kl_vmap_input(const struct kl_vmap *v, struct kl_array **out, int i, struct kl_error **err) {
    int dims[KL_MAX_NDIM];
    if (v->mapped[i]) {
        *out = kl_array_retain(v->in[i]);
        return KL_OK;
    }
    KL_TRY(kl_vmap_dims(dims, v->in[i], 0, v->lanes, err));
    return kl_broadcast_view(out, v->in[i], v->in[i]->t.ndim + 1, dims, err);
}

int kl_vmap_inputs(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err) {
    for (int i = 0; i < v->n_in; i++) {
        int rc = kl_vmap_input(v, &out[i], i, err);
        if (!rc) continue;
        kl_release_all(out, (size_t)i);
        return rc;
    }
    return KL_OK;
}

/* Input i of one lane. */
static int of_lane(const struct kl_vmap *v, struct kl_array **out, int i, int lane,
                   struct kl_error **err) {
    int start[KL_MAX_NDIM] = {lane}, step[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    struct kl_array *a = v->in[i], *part;
    if (!v->mapped[i]) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    for (int k = 0; k < a->t.ndim; k++) {
        step[k] = 1;
        dims[k] = k ? a->t.dims[k] : 1;
    }
    KL_TRY(kl_slice_to(&part, a, start, step, dims, err));
    int rc = kl_squeeze_axis(out, part, 0, v->s, err);
    kl_array_release(part);
    return rc;
}

static int build_lane(const struct kl_vmap *v, struct kl_array **out, struct kl_array **in,
                      int lane, struct kl_error **err) {
    int rc = KL_OK, n = 0;
    for (; !rc && n < v->n_in; n++)
        if ((rc = of_lane(v, &in[n], n, lane, err))) break;
    if (!rc)
        rc = kl_op_build(&(struct kl_build){.op = v->op,
                                            .params = v->params,
                                            .params_bytes = v->params_bytes,
                                            .in = in,
                                            .n_in = v->n_in,
                                            .s = v->s,
                                            .dtype = v->dtype,
                                            .ndim = v->ndim,
                                            .dims = v->dims},
                         out, err);
    kl_release_all(in, (size_t)n);
    return rc;
}

int kl_vmap_each(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err) {
    if (v->lanes == 0) {
        int dims[KL_MAX_NDIM] = {0};
        if (v->ndim >= KL_MAX_NDIM) return too_many_axes(v->ndim, err);
        if (v->ndim) memcpy(dims + 1, v->dims, (size_t)v->ndim * sizeof *dims);
        return kl_zeros(out, dims, (size_t)v->ndim + 1, (int)v->dtype, v->s, err);
    }
    size_t room = (size_t)v->lanes + (size_t)v->n_in, made = 0;
    struct kl_array **lanes = kl_malloc(room * sizeof(struct kl_array *));
    if (!lanes) return kl_fail_nomem(err);
    int rc = KL_OK;
    for (; made < (size_t)v->lanes; made++)
        if ((rc = build_lane(v, &lanes[made], lanes + v->lanes, (int)made, err))) break;
    if (!rc) rc = kl_stack_axis(out, lanes, made, 0, v->s, err);
    kl_release_all(lanes, made);
    kl_free(lanes);
    return rc;
}

int kl_vmap_lane_index(const struct kl_vmap *v, struct kl_array **out, int ndim,
                       struct kl_error **err) {
    int dims[KL_MAX_NDIM] = {v->lanes};
    struct kl_array *numbers;
    if (ndim >= KL_MAX_NDIM) return too_many_axes(ndim, err);
    for (int i = 1; i <= ndim; i++) dims[i] = 1;
    KL_TRY(kl_arange(&numbers, 0, v->lanes, 1, KL_I32, v->s, err));
    int rc = kl_reshape_to(out, numbers, 1 + ndim, dims, v->s, err);
    kl_array_release(numbers);
    return rc;
}
