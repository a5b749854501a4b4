/* join_depends.c - arrays that wait for other arrays. The results have the values of the inputs.
 * They are made when all dependencies have settled, and fail when one of these has failed. */
#include "base/alloc.h"
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

static int depend(struct kl_array **out, struct kl_array *const *in, size_t n, struct kl_stream *s,
                  struct kl_error **err) {
    return kl_array_op1(
        out, &(struct kl_operation){.op = KL_OP_DEPENDS, .stream = s, .in = in, .n_in = (int)n},
        (enum kl_dtype)in[0]->t.dtype, in[0]->t.ndim, in[0]->t.dims, err);
}

/* One 0-d array that depends on all dependencies, so that an output does not need an edge to
 * each. */
static int gate_of(struct kl_array **out, struct kl_array *const *dependencies, size_t n,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_array **in = kl_malloc((n + 1) * sizeof(struct kl_array *));
    if (!in) return kl_fail_nomem(err);
    int rc = kl_array_new_scalar(&in[0], 1, KL_BOOL, err);
    if (!rc) {
        for (size_t i = 0; i < n; i++) in[1 + i] = dependencies[i];
        rc = depend(out, in, n + 1, s, err);
        kl_array_release(in[0]);
    }
    kl_free(in);
    return rc;
}

int kl_depends(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *inputs,
               size_t n_inputs, struct kl_array *const *dependencies, size_t n_dependencies,
               struct kl_stream *s, struct kl_error **err) {
    struct kl_array *gate = NULL;
    size_t made = 0;
    int rc = KL_OK;
    KL_TRY(kl_check_arrays(inputs, n_inputs, "the inputs", err));
    KL_TRY(kl_check_arrays(dependencies, n_dependencies, "the dependencies", err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_array **list = kl_malloc((n_inputs + 1) * sizeof *list);
    if (!list) return kl_fail_nomem(err);
    if (n_inputs && n_dependencies) rc = gate_of(&gate, dependencies, n_dependencies, s, err);
    for (; !rc && made < n_inputs; made++) {
        if (!gate)
            list[made] = kl_array_retain(inputs[made]);
        else if ((rc = depend(&list[made], (struct kl_array *[]){inputs[made], gate}, 2, s, err)))
            break;
    }
    kl_array_release(gate);
    if (rc) {
        kl_release_all(list, made);
        kl_free(list);
        return rc;
    }
    *outs = list;
    *n_outs = n_inputs;
    return KL_OK;
}

/* ---- gradient ---- */
int kl_vjp_depends(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    grad[0] = kl_array_retain(v->cotangent[0]);
    return KL_OK;
}

/* ---- made again ---- */
int kl_rebuild_depends(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (b->n_in < 1) return kl_fail(err, KL_EARG, "no inputs are given; at least one is needed");
    return depend(out, b->in, (size_t)b->n_in, b->s, err);
}

/* ---- batches ---- */
/* The result has the lanes of the first input. The others only have to settle. */
int kl_vmap_depends(const struct kl_vmap *v, struct kl_array **out, int *axis,
                    struct kl_error **err) {
    *axis = v->mapped[0] ? 0 : -1;
    return depend(out, v->in, (size_t)v->n_in, v->s, err);
}
