/* fft.c - FFT: discrete Fourier transforms along some axes, one axis after the other. Results of
 * the axes before the last stand in the output where it has room for them, else in scratch memory.
 * Float64 is computed in double throughout and rounded once, at the end.
 * docs/notes/cpu-kernels.md describes the methods. */
#include "backend/cpu/fft/fft.h"

#include "backend/cpu/cpu_kernels.h"

/* An operand of all axes. */
struct operand {
    char *data;
    enum kl_fft_store store;
    int64_t strides[KL_LONG_AXES]; /* in elements */
};

enum { MOST_AXES = 64 }; /* of an array */

struct whole {
    struct kl_launch *l;
    const struct kl_fft_params *p;
    bool wide;
    int ndim, dims[KL_LONG_AXES]; /* of the complex side: the axes that are not left out */
};

static void row_major(struct operand *o, int ndim, const int *dims) {
    int64_t stride = 1;
    for (int i = ndim; i-- > 0;) {
        o->strides[i] = stride;
        stride *= dims[i];
    }
}

/* Adds an axis of lines to the job, or makes the last one longer. */
static void add_axis(struct kl_fft_job *j, int dim, int64_t in, int64_t out) {
    const int k = j->n_axes - 1;
    j->lines *= dim;
    if (k >= 0 && j->in.strides[k] == in * dim && j->out.strides[k] == out * dim &&
        (int64_t)j->dims[k] * dim <= INT32_MAX) {
        j->dims[k] *= dim;
        j->in.strides[k] = in;
        j->out.strides[k] = out;
        return;
    }
    j->dims[j->n_axes] = dim;
    j->in.strides[j->n_axes] = in;
    j->out.strides[j->n_axes++] = out;
}

/* Transforms along axis `axis` of w: of length n, from `in` to `out`. */
static int along(const struct whole *w, int axis, enum kl_fft_kind kind, int64_t n,
                 const struct operand *in, const struct operand *out, double scale) {
    struct kl_fft_job j = {.l = w->l, .kind = kind, .n = n, .scale = scale, .lines = 1};
    const bool is_real = kind == KL_FFT_FROM_REAL || kind == KL_FFT_TO_REAL;
    j.in = (struct kl_fft_side){in->data, in->store, in->strides[axis], {0}};
    j.out = (struct kl_fft_side){out->data, out->store, out->strides[axis], {0}};
    for (int i = 0; i < w->ndim; i++)
        if (i != axis && w->dims[i] != 1) add_axis(&j, w->dims[i], in->strides[i], out->strides[i]);
    j.run = j.n_axes ? j.dims[j.n_axes - 1] : 1;
    j.halved = is_real && n % 2 == 0;
    const int64_t length = j.halved ? n / 2 : n;
    j.plan =
        kl_fft_plan_get(length, w->wide, kl_fft_is_alone(length, j.lines), j.halved, w->l->err);
    if (!j.plan) return KL_ENOMEM;
    const int rc = w->wide ? kl_fft_run_f64(&j) : kl_fft_run_f32(&j);
    kl_fft_plan_release(j.plan);
    return rc;
}

/* The axes that count, and the two operands along them. axis[k]: which of these is axis k of the
 * transforms; it stays as it is where the transform does nothing. */
static void look(struct whole *w, struct operand *in, struct operand *out, int axis[MOST_AXES]) {
    const struct kl_arg *a = w->l->in, *b = w->l->out;
    const struct kl_arg *complex = w->p->kind == KL_FFT_TO_REAL ? a : b;
    for (int i = 0; i < a->ndim; i++) {
        int which = -1;
        for (int k = 0; k < w->p->n_axes; k++)
            if (w->p->axes[k] == i) which = k;
        /* A transform of one number is that number; one transform is kept, which copies. */
        if (a->dims[i] == 1 && b->dims[i] == 1 && which != w->p->n_axes - 1) continue;
        if (w->ndim == KL_LONG_AXES) break; /* such a shape has too many elements for any memory */
        if (which >= 0) axis[which] = w->ndim;
        w->dims[w->ndim] = complex->dims[i];
        in->strides[w->ndim] = a->strides[i];
        out->strides[w->ndim++] = b->strides[i];
    }
    in->data = a->data;
    out->data = b->data;
    in->store = a->dtype == KL_F32 ? KL_FFT_R32 : a->dtype == KL_F64 ? KL_FFT_R64 : KL_FFT_C32;
    out->store = b->dtype == KL_F32 ? KL_FFT_R32 : KL_FFT_C32;
}

int kl_cpu_fft(struct kl_launch *l) {
    struct whole w = {.l = l, .p = l->params, .wide = l->in->dtype == KL_F64};
    const struct kl_fft_params *p = w.p;
    struct operand in, out, between;
    int axis[MOST_AXES], order[MOST_AXES], passes = 0;
    const int last = p->n_axes - 1;
    if (l->out->size == 0) return KL_OK;
    for (int k = 0; k <= last; k++) axis[k] = -1;
    look(&w, &in, &out, axis);
    /* The real numbers' axis is the first of a transform from them, and the last of one to them. */
    if (p->kind == KL_FFT_FROM_REAL) order[passes++] = last;
    for (int k = last - (p->kind >= KL_FFT_FROM_REAL); k >= 0; k--)
        if (axis[k] >= 0) order[passes++] = k;
    if (p->kind == KL_FFT_TO_REAL) order[passes++] = last;

    const bool needs_room = passes > 1 && (w.wide || p->kind == KL_FFT_TO_REAL);
    int64_t numbers = 1;
    for (int i = 0; i < w.ndim; i++) numbers *= w.dims[i];
    between = out;
    struct kl_scratch room = {0};
    if (needs_room) {
        between.store = w.wide ? KL_FFT_C64 : KL_FFT_C32;
        row_major(&between, w.ndim, w.dims);
        if (!kl_scratch_take(&room, l, (size_t)numbers * (size_t)kl_fft_item(between.store)))
            return kl_fail_nomem(l->err);
        between.data = room.ptr;
    }
    int rc = KL_OK;
    for (int i = 0; i < passes && !rc; i++) {
        const int k = order[i];
        const bool is_real = k == last && p->kind >= KL_FFT_FROM_REAL;
        const enum kl_fft_kind kind = is_real                       ? p->kind
                                      : p->kind == KL_FFT_TO_REAL   ? KL_FFT_INVERSE
                                      : p->kind == KL_FFT_FROM_REAL ? KL_FFT_FORWARD
                                                                    : p->kind;
        const int64_t n = !is_real                      ? w.dims[axis[k]]
                          : p->kind == KL_FFT_FROM_REAL ? l->in->dims[p->axes[last]]
                                                        : p->n;
        rc = along(&w, axis[k], kind, n, i ? &between : &in, i == passes - 1 ? &out : &between,
                   i == passes - 1 ? p->scale : 1);
    }
    if (needs_room) kl_scratch_give(&room);
    return rc;
}
