/* convert.c - copies, and the operations made of copies: SLICE_UPDATE and CONCATENATE. */
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "base/op/op_params.h"

const struct kl_family kl_family_copy = {
    .name = "copy", .source = kl_source_convert, .defines = {"BYTES"}};
enum { LOCAL = 256, TILE = 32, WORTH_A_TILE = 16 };

struct job {
    struct kl_emit *e;
    size_t item;
    char *dst;
    const char *src;
};

static bool can_widen(const struct kl_space *s, const char *dst, const char *src, size_t item) {
    int last = s->ndim - 1;
    if (item == 16 || last < 0 || s->dims[last] % 2) return false;
    if (((uintptr_t)dst | (uintptr_t)src) & (2 * item - 1)) return false;
    for (int k = 0; k < 2; k++) {
        if (s->strides[k][last] != 1) return false;
        for (int d = 0; d < last; d++)
            if (s->strides[k][d] % 2) return false;
    }
    return true;
}

static void widen(struct kl_space *s) {
    s->n /= 2;
    s->dims[s->ndim - 1] /= 2;
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < s->ndim - 1; d++) s->strides[k][d] /= 2;
}

/* The axis along which an operand is contiguous and long enough for tiles; -1: there is none. */
static int contiguous_axis(const struct kl_space *s, int operand) {
    for (int d = s->ndim - 1; d >= 0; d--)
        if (s->strides[operand][d] == 1 && s->dims[d] >= WORTH_A_TILE) return d;
    return -1;
}

/* dst is contiguous along axis a, src along axis b. */
static int transposed(struct job *j, const struct kl_space *s, int a, int b, char *dst,
                      const char *src) {
    int item = (int)j->item;
    struct kl_space outer = {.n = 1};
    for (int d = 0; d < s->ndim; d++) {
        if (d == a || d == b) continue;
        outer.dims[outer.ndim] = s->dims[d];
        outer.strides[0][outer.ndim] = s->strides[0][d];
        outer.strides[1][outer.ndim++] = s->strides[1][d];
        outer.n *= s->dims[d];
    }
    int tiles_a = (s->dims[a] + TILE - 1) / TILE, tiles_b = (s->dims[b] + TILE - 1) / TILE;
    struct kl_karg args[] = {KL_KARG(outer),
                             KL_KARG(s->dims[a]),
                             KL_KARG(s->dims[b]),
                             KL_KARG(s->strides[0][b]),
                             KL_KARG(s->strides[1][a]),
                             KL_KARG(tiles_a),
                             KL_KARG(tiles_b),
                             KL_KARG_PTR(dst, item),
                             KL_KARG_PTR(src, item)};
    return kl_emit(j->e, &kl_family_copy, &item, "copy_transposed", outer.n * tiles_a * tiles_b,
                   LOCAL, args, sizeof args / sizeof *args);
}

static int one_space(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct job *j = ctx;
    struct kl_space s = *space;
    size_t item = j->item;
    char *dst = j->dst + offsets[0] * (int64_t)item;
    const char *src = j->src + offsets[1] * (int64_t)item;
    if (kl_space_contiguous(&s, 0) && kl_space_contiguous(&s, 1)) {
        if (j->e->dry) return KL_OK;
        return kl_emit_plain_copy(j->e, dst, src, (size_t)s.n * item);
    }
    const int a = contiguous_axis(&s, 0), b = contiguous_axis(&s, 1);
    if (a >= 0 && b >= 0 && a != b && item <= 8) return transposed(j, &s, a, b, dst, src);
    while (can_widen(&s, dst, src, item)) {
        widen(&s);
        item *= 2;
    }
    int bytes = (int)item;
    struct kl_karg args[] = {KL_KARG(s), KL_KARG_PTR(dst, item), KL_KARG_PTR(src, item)};
    return kl_emit(j->e, &kl_family_copy, &bytes, "copy_strided", (s.n + LOCAL - 1) / LOCAL, LOCAL,
                   args, 3);
}

int kl_emit_copy(struct kl_emit *e, size_t item, int ndim, const int *dims, void *dst,
                 const int64_t *dst_strides, const void *src, const int64_t *src_strides) {
    struct job j = {e, item, dst, src};
    const int64_t *strides[2] = {dst_strides, src_strides};
    return kl_space_each(ndim, dims, 2, strides, one_space, &j);
}

static int whole(struct kl_emit *e, const struct kl_arg *out, const struct kl_arg *in) {
    return kl_emit_copy(e, kl_dtype_size(out->dtype), out->ndim, out->dims, out->data, out->strides,
                        in->data, in->strides);
}

int kl_lower_copy(struct kl_emit *e, const struct kl_command *c) {
    return c->args[1].data == c->args[0].data ? KL_OK : whole(e, &c->args[1], &c->args[0]);
}

int kl_lower_depends(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[c->n_in];
    return out->data == in->data ? KL_OK : whole(e, out, in);
}

enum { MAX_AXES = 64 };

int kl_lower_slice_update(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_slice_params *p = c->params;
    const struct kl_arg *base = &c->args[0], *update = &c->args[1], *out = &c->args[2];
    int64_t item = (int64_t)kl_dtype_size(out->dtype), offset = 0, strides[MAX_AXES];
    if (out->data != base->data) KL_TRY(whole(e, out, base));
    if (p->ndim > MAX_AXES)
        return kl_fail(e->err, KL_EUNSUPPORTED, "slice_update: %d axes; %d are possible", p->ndim,
                       MAX_AXES);
    for (int i = 0; i < p->ndim; i++) {
        offset += p->v[i] * out->strides[i];
        strides[i] = p->v[p->ndim + i] * out->strides[i];
    }
    return kl_emit_copy(e, (size_t)item, p->ndim, update->dims, (char *)out->data + offset * item,
                        strides, update->data, update->strides);
}

int kl_lower_concatenate(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_axis_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in];
    int64_t item = (int64_t)kl_dtype_size(out->dtype), begin = 0;
    for (int k = 0; k < c->n_in; k++) {
        const struct kl_arg *in = &c->args[k];
        KL_TRY(kl_emit_copy(e, (size_t)item, in->ndim, in->dims,
                            (char *)out->data + begin * out->strides[p->axis] * item, out->strides,
                            in->data, in->strides));
        begin += in->dims[p->axis];
    }
    return KL_OK;
}
