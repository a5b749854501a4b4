/* lower_convolution.c - CONVOLUTION: products in tiles whose left operand is read from the input as
 * it is needed, or the kernel for groups of one channel. Long sums of few outputs, as in gradients
 * of weights, are cut into segments. */
#include "backend/gpu/axes.h"
#include "backend/gpu/kernels.h"
#include "base/dtype.h"
#include "base/op_params.h"

enum {
    WANT_LOCAL = 256,
    LEAST_LOCAL = 64,    /* the smaller of the two group sizes that tiles can have */
    ENOUGH_TILES = 128,  /* with fewer large tiles, smaller ones are used */
    ENOUGH_GROUPS = 264, /* with fewer groups, long sums are cut */
    LEAST_TERMS = 256,   /* terms below which a sum is not cut */
    MOST_SEGMENTS = 64,
    VEC_BYTES = 16,
};

const struct kl_family kl_family_convolution = {
    .name = "convolution",
    .source = kl_source_convolution,
    .defines = {"T:TYPE", "TM", "NDIM", "BETWEEN", "VECTOR"}};

struct conv { /* convolution.kl has the same */
    int64_t positions, x_n, x_c, w_o, w_c, x_at[3], w_at[3];
    int32_t in[3], out[3], k[3], stride[3], low[3], dilation[3], between[3], cin, cout, groups, pad;
};

/* Fills v and *w_first, the offset of the first element of w that is read. */
static void describe(struct conv *v, const struct kl_command *c, int64_t *w_first) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *w = &c->args[1], *out = &c->args[2];
    const int n = p->ndim;
    *v = (struct conv){.positions = out->dims[0],
                       .x_n = x->strides[0],
                       .x_c = x->strides[n + 1],
                       .w_o = w->strides[0],
                       .w_c = w->strides[n + 1],
                       .cin = w->dims[n + 1],
                       .cout = w->dims[0] / p->groups,
                       .groups = p->groups};
    *w_first = 0;
    for (int i = 0; i < KL_MAX_SPATIAL; i++)
        v->in[i] = v->out[i] = v->k[i] = v->stride[i] = v->dilation[i] = v->between[i] = 1;
    for (int i = 0; i < n; i++) {
        const int to = KL_MAX_SPATIAL - n + i;
        v->in[to] = x->dims[1 + i];
        v->out[to] = out->dims[1 + i];
        v->k[to] = w->dims[1 + i];
        v->stride[to] = p->stride[i];
        v->low[to] = p->low[i];
        v->dilation[to] = p->dilation[i];
        v->between[to] = p->input_dilation[i];
        v->x_at[to] = x->strides[1 + i];
        v->w_at[to] = p->flip ? -w->strides[1 + i] : w->strides[1 + i];
        if (p->flip) *w_first += (v->k[to] - 1) * w->strides[1 + i];
        v->positions *= v->out[to];
    }
}

static int with_tiles(struct kl_emit *e, const struct kl_command *c, const struct conv *v,
                      const int *values_in, const void *w) {
    const struct kl_arg *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype);
    uint32_t local = WANT_LOCAL;
    int64_t side = 16, narrow = v->positions < v->cout ? v->positions : v->cout;
    int64_t depth = (int64_t)v->cin * v->k[0] * v->k[1] * v->k[2];
    if (local > e->port->max_local) {
        local = LEAST_LOCAL;
        side = 8;
    }
    int tm = 8;
    int64_t tiles = 0;
    for (;; tm /= 2) {
        const int64_t tile = side * tm;
        tiles = kl_groups_for(v->positions, tile) * kl_groups_for(v->cout, tile) * v->groups;
        /* Tiles of eight by eight numbers of 8 bytes would not fit the registers. */
        if (tm == 2 || !(item == 8 && tm == 8)) {
            if (tm == 2 || (narrow > tile / 2 && tiles >= ENOUGH_TILES)) break;
        }
    }
    int64_t n_segs = kl_groups_for(ENOUGH_GROUPS, tiles), most = depth / LEAST_TERMS;
    if (n_segs > most) n_segs = most;
    if (n_segs > MOST_SEGMENTS) n_segs = MOST_SEGMENTS;
    if (n_segs < 1) n_segs = 1;
    int64_t seg = kl_groups_for(depth, n_segs);
    if (seg) n_segs = kl_groups_for(depth, seg);
    const size_t sum = item < 4 ? 4 : item;
    void *part = NULL;
    if (n_segs > 1) KL_TRY(kl_emit_workspace(e, (size_t)(n_segs * out->size) * sum, &part));
    const int values[] = {values_in[0], tm, values_in[2], values_in[3], 1};
    struct conv sent = *v;
    struct kl_karg args[] = {KL_KARG_PTR(c->args[0].data, item),
                             KL_KARG_PTR(w, item),
                             KL_KARG_PTR(out->data, item),
                             KL_KARG_PTR(part, sum),
                             KL_KARG(depth),
                             KL_KARG(seg),
                             KL_KARG(n_segs),
                             KL_KARG(sent)};
    KL_TRY(kl_emit(e, &kl_family_convolution, values, "tiles", tiles * n_segs, local, args, 8));
    if (n_segs == 1) return KL_OK;
    const int join_values[] = {out->dtype, 0};
    local = kl_local_size(e, WANT_LOCAL);
    int32_t across = (int32_t)(local / kl_pow2_for(n_segs, local));
    struct kl_karg join[] = {KL_KARG_PTR(part, sum), KL_KARG_PTR(out->data, item),
                             KL_KARG(out->size), KL_KARG(n_segs), KL_KARG(across)};
    return kl_emit(e, &kl_family_matmul, join_values, "join_parts",
                   kl_groups_for(out->size, across), local, join, 5);
}

int kl_lower_convolution(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_convolution_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *out = &c->args[2];
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    int64_t w_first;
    struct conv v;
    if (out->size == 0) return KL_OK;
    describe(&v, c, &w_first);
    const void *w = (const char *)c->args[1].data + w_first * item;
    bool between = false, vectors = v.x_c == 1 && v.groups % (VEC_BYTES / item) == 0;
    for (int i = 0; i < KL_MAX_SPATIAL; i++) between = between || v.between[i] != 1;
    if (v.cin != 1 || v.cout != 1 || v.groups == 1) {
        const int values[] = {out->dtype, 0, p->ndim, between};
        return with_tiles(e, c, &v, values, w);
    }
    vectors = vectors && item < VEC_BYTES && (uintptr_t)x->data % VEC_BYTES == 0;
    for (int i = 0; i < 1 + p->ndim; i++)
        vectors = vectors && x->strides[i] % (VEC_BYTES / item) == 0;
    const int vec = vectors ? (int)(VEC_BYTES / item) : 1;
    const int values[] = {out->dtype, 0, p->ndim, between, vec};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    struct kl_karg args[] = {KL_KARG_PTR(x->data, vec * item), KL_KARG_PTR(w, item),
                             KL_KARG_PTR(out->data, item), KL_KARG(v)};
    return kl_emit(e, &kl_family_convolution, values, "depthwise",
                   kl_groups_for(v.positions * (v.groups / vec), local), local, args, 4);
}
