/* convolution_backward.c - CONVOLUTION_BACKWARD: a launch in which work-items keep sums of
 * some channels and elements of the kernel in registers while they go over positions, and one that
 * adds the parts up. How work is cut follows from extents, strides and alignment alone, so every
 * run gives the same bits. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 128,
    ENOUGH_GROUPS = 792, /* six of this size on each of 132 multiprocessors */
    LEAST_UNITS = 8,     /* strips that a work-item has at least where positions are cut */
    MOST_SUMS = 96,      /* in registers of a work-item, in 4 bytes each */
    MOST_LINES = 72,     /* the same where it has several rows of the kernel */
    MOST_IN = 8,         /* input channels of a group, */
    MOST_X = 16,         /* and of all groups that a work-item has */
    MOST_ACROSS = 32,    /* vectors of channels in a group of work-items */
    MOST_KX = 7,
    MOST_STEP = 2,
    MOST_WIDTH = 8, /* work-items that add parts of one element */
    VEC_BYTES = 16,
    STRIP = 4, /* convolution_backward.kl has the same */
    N_AXES = KL_MAX_SPATIAL,
};

const struct kl_family kl_family_convolution_backward = {
    .name = "convolution_backward",
    .source = kl_source_convolution_backward,
    .defines = {"T:TYPE", "VECTOR", "CI", "CO", "KX", "LINES", "STEP", "XVEC"}};

struct back { /* convolution_backward.kl has the same */
    int64_t x_n, x_c, g_n, g_c, x_at[N_AXES], g_at[N_AXES];
    int32_t in[N_AXES], out[N_AXES], k[N_AXES], stride[N_AXES], low[N_AXES], dilation[N_AXES],
        input_dilation[N_AXES];
    int32_t cin, cout, o, flip;
};

static void describe(struct back *v, const struct kl_command *c) {
    const struct kl_convolution_backward_params *p = c->params;
    const struct kl_arg *x = &c->args[0], *g = &c->args[1];
    const int n = p->of.ndim;
    *v = (struct back){.x_n = x->strides[0],
                       .x_c = x->strides[n + 1],
                       .g_n = g->strides[0],
                       .g_c = g->strides[n + 1],
                       .cin = x->dims[n + 1] / p->of.groups,
                       .cout = g->dims[n + 1] / p->of.groups,
                       .o = g->dims[n + 1],
                       .flip = p->of.flip};
    for (int i = 0; i < N_AXES; i++) {
        const int at = i - N_AXES + n;
        v->in[i] = at < 0 ? 1 : x->dims[1 + at];
        v->out[i] = at < 0 ? 1 : g->dims[1 + at];
        v->k[i] = at < 0 ? 1 : p->k[at];
        v->stride[i] = at < 0 ? 1 : p->of.stride[at];
        v->low[i] = at < 0 ? 0 : p->of.low[at];
        v->dilation[i] = at < 0 ? 1 : p->of.dilation[at];
        v->input_dilation[i] = at < 0 ? 1 : p->of.input_dilation[at];
        v->x_at[i] = at < 0 ? 0 : x->strides[1 + at];
        v->g_at[i] = at < 0 ? 0 : g->strides[1 + at];
    }
}

/* Whether `n` channels side by side, of those that begin at multiples of n, can be loaded in
 * accesses of at most 16 bytes. */
static bool side_by_side(const struct kl_arg *a, int n) {
    const int64_t item = (int64_t)kl_dtype_size(a->dtype), most = VEC_BYTES / item,
                  each = n < most ? n : most;
    if ((n & (n - 1)) || (uintptr_t)a->data % (uint64_t)(each * item)) return false;
    if (n > 1 && a->strides[a->ndim - 1] != 1) return false;
    for (int i = 0; i < a->ndim - 1; i++)
        if (a->strides[i] % each) return false;
    return true;
}

/* The share of a work-item. */
struct share {
    int vector, ci, co, kx, lines, step;
};

static struct share share_of(const struct back *v, const struct kl_arg *g, int64_t sum_bytes) {
    const int item = (int)kl_dtype_size(g->dtype), most = MOST_SUMS * 4 / (int)sum_bytes,
              lines = MOST_LINES * 4 / (int)sum_bytes;
    struct share s = {.vector = VEC_BYTES / item, .ci = v->cin, .kx = 1, .lines = 1, .step = 1};
    if (v->cin > 4) s.ci = v->cin % MOST_IN ? 4 : MOST_IN;
    const bool whole = v->k[2] > 1 && v->k[2] <= MOST_KX && v->stride[2] <= MOST_STEP &&
                       v->dilation[2] == 1 && v->input_dilation[2] == 1;
    if (whole && v->k[2] * s.ci * (s.vector < 4 ? s.vector : 4) <= most) s.kx = v->k[2];
    while (s.vector > 1) {
        const bool one = v->cout % s.vector == 0, some = s.vector % v->cout == 0;
        const int groups = one ? 1 : s.vector / v->cout;
        if ((one || (some && s.ci == v->cin)) && groups * s.ci <= MOST_X &&
            s.kx * s.ci * s.vector <= most && v->o % s.vector == 0 && side_by_side(g, s.vector))
            break;
        s.vector /= 2;
    }
    s.co = v->cout < s.vector ? v->cout : s.vector;
    if (s.vector == 1) s.co = 1;
    if (s.kx > 1) s.step = v->stride[2];
    if (s.kx > 1 && v->k[1] <= MOST_KX && v->k[1] * s.kx * s.ci * s.vector <= lines)
        s.lines = v->k[1];
    return s;
}

/* A row-major copy of an operand. */
struct copy {
    struct kl_arg arg;
    int64_t strides[KL_MAX_SPATIAL + 2];
};
static int copy_of(struct kl_emit *e, struct copy *to, const struct kl_arg *a) {
    const size_t item = kl_dtype_size(a->dtype);
    to->arg = *a;
    to->arg.strides = to->strides;
    kl_strides_row_major(a->ndim, a->dims, to->strides);
    to->arg.layout = kl_layout_of(a->ndim, a->dims, to->strides);
    KL_TRY(kl_emit_workspace(e, (size_t)a->size * item, &to->arg.data));
    return kl_emit_copy(e, item, a->ndim, a->dims, to->arg.data, to->strides, a->data, a->strides);
}

static int sum_up(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *x = &c->args[0], *g = &c->args[1], *out = &c->args[2];
    const size_t item = kl_dtype_size(out->dtype), wide = item < 4 ? 4 : item;
    struct back v;
    describe(&v, c);
    const struct share s = share_of(&v, g, (int64_t)wide);
    const int xn = s.vector / s.co * s.ci;
    const bool xvec = v.cin % s.ci == 0 && side_by_side(x, xn);
    const int values[] = {out->dtype, s.vector, s.ci, s.co, s.kx, s.lines, s.step, xvec};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    const int64_t vectors = kl_groups_for(v.o, s.vector);
    int32_t across = (int32_t)kl_pow2_for(vectors, MOST_ACROSS < local ? MOST_ACROSS : local),
            blocks = (int32_t)kl_groups_for(vectors, across),
            in_blocks = (int32_t)kl_groups_for(v.cin, s.ci),
            line_blocks = v.k[0] * (s.lines > 1 ? 1 : v.k[1]) * (s.kx > 1 ? 1 : v.k[2]);
    int64_t units = g->dims[0] * (int64_t)v.out[0] * v.out[1] * kl_groups_for(v.out[2], STRIP),
            others = (int64_t)blocks * in_blocks * line_blocks,
            n_segs = kl_groups_for(ENOUGH_GROUPS, others),
            most = units / (LEAST_UNITS * (int64_t)(local / (uint32_t)across));
    if (n_segs > most) n_segs = most;
    if (n_segs < 1) n_segs = 1;
    int64_t seg = kl_groups_for(units, n_segs), size = out->size;
    n_segs = kl_groups_for(units, seg);
    void *part = NULL;
    KL_TRY(kl_emit_workspace(e, (size_t)(n_segs * size) * wide, &part));
    const int64_t in_bytes = (int64_t)item * (xvec ? xn : 1);
    struct kl_karg args[] = {KL_KARG_PTR(x->data, in_bytes < VEC_BYTES ? in_bytes : VEC_BYTES),
                             KL_KARG_PTR(g->data, item * (size_t)s.vector),
                             KL_KARG_PTR(part, wide),
                             KL_KARG(units),
                             KL_KARG(seg),
                             KL_KARG(across),
                             KL_KARG(blocks),
                             KL_KARG(in_blocks),
                             KL_KARG(line_blocks),
                             KL_KARG(v)};
    KL_TRY(kl_emit(e, &kl_family_convolution_backward, values, "weights", others * n_segs, local,
                   args, 10));
    int32_t width = (int32_t)kl_pow2_for(n_segs, MOST_WIDTH);
    struct kl_karg join[] = {KL_KARG_PTR(part, wide), KL_KARG_PTR(out->data, item),
                             KL_KARG(size),           KL_KARG(n_segs),
                             KL_KARG(width),          KL_KARG(v)};
    return kl_emit(e, &kl_family_convolution_backward, values, "join_weights",
                   kl_groups_for(size, local / (uint32_t)width), local, join, 6);
}

int kl_lower_convolution_backward(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *x = &c->args[0], *g = &c->args[1], *out = &c->args[2];
    const int vector = VEC_BYTES / (int)kl_dtype_size(out->dtype), last = g->ndim - 1;
    if (out->size == 0) return KL_OK;
    if (x->size == 0 || g->size == 0)
        return kl_emit_fill(e, out->data, kl_dtype_size(out->dtype), out->size, 0);
    /* Row-major copies cost less than channels that are far apart, or one for all. */
    const bool copies[] = {x->dims[last] > 1 && x->strides[last] != 1,
                           g->dims[last] % vector == 0 && !side_by_side(g, vector)};
    struct copy copy[2];
    struct kl_command used = *c;
    struct kl_arg args[] = {*x, *g, *out};
    for (int i = 0; i < 2; i++)
        if (copies[i]) {
            KL_TRY(copy_of(e, &copy[i], &c->args[i]));
            args[i] = copy[i].arg;
        }
    used.args = args;
    return sum_up(e, &used);
}
