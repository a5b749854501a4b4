/* fft.c - FFT: transforms along some axes, one axis after the other. A line that fits the shared
 * memory of a group is one launch. A longer one is cut into two or three factors, each of which is
 * a launch over the whole array (the results times roots of unity but for the last one); lengths
 * with a prime factor above KL_FFT_MOST_RADIX are convolutions (Bluestein). */
#include <math.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/number/fft_factors.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 256,
    MOST_ROOM = 4096, /* numbers of a group */
    LEAST_ROOM = 64,
    BUFFERS = 3, /* of a group: two for the lines, one for roots */
    MOST_FACTORS = 3,
    MOST_PASSES = 30, /* of a launch; fft.kl has the same numbers */
    BY_SPECTRUM = 1,  /* the place of a radix: a product with the spectrum */
    MOST_CHUNK = 8,
    LEAST_CHUNK = 4, /* neighbours that fill a sector of memory */
};
/* Flags of a launch: how numbers are loaded and stored; fft.kl has the same. */
enum {
    MAKES_CHIRP = 1,
    REAL_IN = 2,
    HERMITIAN = 4,
    SWAP_IN = 8,
    CHIRP_IN = 16,
    CONVOLVES = 32, /* here alone: one launch has both transforms of a convolution */
    TWIDDLE = 64,
    SPECTRUM = 128,
    SWAP_CHIRP = 256,
    SWAP_OUT = 512,
    REAL_OUT = 1024,
    ROUNDS = 2048,
};

const struct kl_family kl_family_fft = {
    .name = "fft", .source = kl_source_fft, .defines = {"T:REAL", "ROOM"}};

struct job { /* fft.kl has the same */
    struct kl_space outer;
    int64_t lines, inner, middle;
    int64_t in_step, in_inner, in_middle, in_stride;
    int64_t out_step, out_inner, out_middle, out_stride;
    int64_t n, n_in, n_out, period;
    int32_t flags, length, side, in_chunk, out_chunk, n_passes, radix[MOST_PASSES];
};

/* An array, or NULL in a dry run; strides in elements. */
struct operand {
    char *data;
    bool is_real, is_rounded; /* is_rounded: of float32, whatever the computation has */
    int64_t strides[KL_AXES_MAX];
};

struct task {
    struct kl_emit *e;
    bool wide; /* computed in double */
    int axis;  /* that is transformed */
    int ndim;  /* of the complex side, as are dims */
    int dims[KL_AXES_MAX];
    int64_t room, local; /* numbers, and work-items, of a group */
};

/* A transform of n elements between two operands; what a cut one does at its ends. */
struct ends {
    const struct operand *in, *out;
    int64_t length;         /* computed: n, or that of the convolution */
    int64_t n, n_in, n_out; /* of the axis; the positions that each side has */
    int flags;
    const void *spectrum;
    double scale;
};

static size_t item_of(const struct task *t) {
    return t->wide ? 16 : 8;
}

/* ---- one launch ---- */
static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* How many neighbours along a line are taken before the next line: where they are contiguous, so
 * many that they fill a sector; else lines are innermost. */
static int32_t chunk_of(const struct job *j, int64_t step, int64_t local) {
    return (int32_t)(step == 1 ? least(MOST_CHUNK, local / j->side) : 1);
}

/* Sets the number of lines of a group, a power of two: as many as there is room for, but for all
 * multiprocessors to have work. */
static void choose_side(struct job *j, const struct task *t) {
    const int64_t units = t->e->driver->n_units;
    int64_t side = 1;
    while (2 * side * j->length <= t->room && 2 * side * LEAST_CHUNK <= t->local && side < j->lines)
        side *= 2;
    while (side > LEAST_CHUNK && j->lines / side < units) side /= 2;
    j->side = (int32_t)side;
}

/* Launches j, of which the lengths, steps and flags are set, from `in` to `out`. */
static int launch(const struct task *t, struct job *j, const struct operand *in,
                  const struct operand *out, const struct ends *ends) {
    int radix[KL_FFT_MOST_PASSES];
    struct kl_axes outer = KL_NO_AXES;
    const int values[] = {t->wide ? KL_F64 : KL_F32, (int)t->room};
    const bool makes = j->flags & MAKES_CHIRP;
    for (int i = 0; i < t->ndim; i++)
        if (i != t->axis) kl_axes_add(&outer, t->dims[i], in->strides[i], out->strides[i]);
    if (!kl_axes_space(&outer, &j->outer))
        return kl_fail(t->e->err, KL_EINTERNAL, "fft: %d axes of lines", outer.ndim);
    j->lines = outer.n * j->inner * j->middle;
    j->in_stride = t->axis < 0 ? 1 : in->strides[t->axis];
    j->out_stride = t->axis < 0 ? 1 : out->strides[t->axis];
    j->n = ends->n;
    const int n_radices = kl_fft_radices(j->length, radix);
    for (int i = 0; i < n_radices; i++) j->radix[j->n_passes++] = radix[i];
    if (j->flags & CONVOLVES) {
        j->radix[j->n_passes++] = BY_SPECTRUM;
        for (int i = 0; i < n_radices; i++) j->radix[j->n_passes++] = radix[i];
    }
    choose_side(j, t);
    j->in_chunk = chunk_of(j, j->in_step * j->in_stride, t->local);
    j->out_chunk = chunk_of(j, j->out_step * j->out_stride, t->local);
    if (in && in->is_real) j->flags |= REAL_IN;
    if (out->is_real) j->flags |= REAL_OUT;
    if (out->is_rounded) j->flags |= ROUNDS;
    const bool last = ends->out == out;
    const float narrow = last ? (float)ends->scale : 1;
    const double wide = last ? ends->scale : 1;
    const size_t real = item_of(t) / 2, stored = out->is_rounded ? 4 : real;
    struct kl_karg args[] = {
        KL_KARG_PTR(makes ? NULL : in->data, in && in->is_real ? real : 2 * real),
        KL_KARG_PTR(out->data, out->is_real ? stored : 2 * stored),
        KL_KARG_PTR(ends->spectrum, 2 * real), t->wide ? KL_KARG(wide) : KL_KARG(narrow),
        KL_KARG(*j)};
    return kl_emit(t->e, &kl_family_fft, values, "fft_lines", kl_groups_for(j->lines, j->side),
                   (uint32_t)t->local, args, 5);
}

/* ---- a transform: one launch for each factor ---- */

/* Flags of the first and of the last launch. */
enum {
    AT_FIRST = MAKES_CHIRP | HERMITIAN | SWAP_IN | CHIRP_IN,
    AT_LAST = CONVOLVES | SPECTRUM | SWAP_CHIRP | SWAP_OUT,
};

/* Position j of the axis is e n2 n3 + j2 n3 + j3 and position k of the results e + n1 (k2 + n2 k3)
 * for the launch of e; before the last launch, results are where the elements were, in `between`,
 * which may be ends->in. */
static int transform(const struct task *t, const struct ends *ends, const int64_t *factor,
                     int n_factors, const struct operand *between) {
    const int64_t n = ends->length;
    int64_t rest = n, done = 1;
    for (int i = 0; i < n_factors; i++) {
        const bool first = i == 0, last = i == n_factors - 1;
        struct job j = {.length = (int32_t)factor[i], .inner = 1, .middle = 1};
        const int64_t left = rest / factor[i]; /* the product of later factors */
        j.n_in = first ? ends->n_in : n;
        j.n_out = last ? ends->n_out : n;
        j.in_step = j.out_step = left;
        if (!last) {
            j.flags |= TWIDDLE;
            j.period = rest;
            j.inner = left;
            j.middle = done;
            j.in_inner = j.out_inner = 1;
            j.in_middle = j.out_middle = rest;
        } else if (!first) {
            j.inner = factor[0];
            j.middle = done / factor[0];
            j.in_inner = n / factor[0];
            j.in_middle = factor[i];
            j.out_inner = 1;
            j.out_middle = factor[0];
            j.out_step = done;
        }
        if (first) j.flags |= ends->flags & AT_FIRST;
        if (last) j.flags |= ends->flags & AT_LAST;
        if (first && ends->flags & MAKES_CHIRP) j.period = n;
        KL_TRY(launch(t, &j, first ? ends->in : between, last ? ends->out : between, ends));
        rest = left;
        done *= factor[i];
    }
    return KL_OK;
}

/* ---- lengths ---- */

/* Cuts n into two factors of at most `most`, the closest to each other. */
static bool cut_in_two(int64_t n, int64_t most, int64_t *factor) {
    int64_t d = (int64_t)sqrt((double)n);
    while (d > 1 && (n % d || d > most)) d--;
    factor[0] = n / d;
    factor[1] = d;
    return factor[0] <= most;
}

/* Cuts a smooth n into factors of at most `most`. Returns their number; 0: it needs more than
 * MOST_FACTORS. */
static int cut(int64_t n, int64_t most, int64_t factor[MOST_FACTORS]) {
    factor[0] = n;
    if (n <= most) return 1;
    if (cut_in_two(n, most, factor)) return 2;
    const int64_t root = (int64_t)cbrt((double)n);
    for (int64_t i = 0; i < most; i++)
        for (int up = 0; up < 2; up++) {
            const int64_t d = up ? root + 1 + i : root - i;
            if (d < 2 || d > most || n % d || !cut_in_two(n / d, most, factor + 1)) continue;
            factor[0] = d;
            return 3;
        }
    return 0;
}

/* ---- memory ---- */

/* Complex numbers of the type of computation in the workspace: `positions` of each line. */
static int take(const struct task *t, struct operand *o, int64_t positions) {
    int64_t stride = positions;
    void *data;
    *o = (struct operand){.is_real = false};
    for (int i = t->ndim; i-- > 0;) {
        if (i == t->axis) continue;
        o->strides[i] = stride;
        stride *= t->dims[i];
    }
    if (t->axis >= 0) o->strides[t->axis] = 1;
    KL_TRY(kl_emit_workspace(t->e, (size_t)stride * item_of(t), &data));
    o->data = data;
    return KL_OK;
}

/* ---- convolutions ---- */

/* Leaves in the workspace the spectrum, divided by m, of the sequence with which elements times the
 * chirp are convolved. between: of m numbers at least; not used with one factor. */
static int make_spectrum(const struct task *t, int64_t n, int64_t m, const int64_t *factor,
                         int n_factors, const struct operand *between, const void **spectrum) {
    const struct task alone = {
        .e = t->e, .wide = t->wide, .axis = -1, .room = t->room, .local = t->local};
    struct operand out, line = *between;
    KL_TRY(take(&alone, &out, m));
    *spectrum = out.data;
    const struct ends ends = {.in = &line,
                              .out = &out,
                              .length = m,
                              .n = n,
                              .n_in = m,
                              .n_out = m,
                              .flags = MAKES_CHIRP,
                              .scale = 1 / (double)m};
    return transform(&alone, &ends, factor, n_factors, &line);
}

/* The transform by a convolution. One that fits a group is one launch after that of the spectrum;
 * else the elements go to the workspace and back. */
static int convolve(const struct task *t, const struct ends *whole) {
    const int64_t n = whole->n;
    int64_t factor[MOST_FACTORS], m = kl_fft_good_length(2 * n - 1);
    int n_factors = cut(m, t->room, factor);
    if (!n_factors) {
        for (m = 1; m < 2 * n - 1;) m *= 2;
        n_factors = cut(m, t->room, factor);
    }
    if (!n_factors)
        return kl_fail(t->e->err, KL_EUNSUPPORTED,
                       "fft: a length of %lld is too long for the shared memory of this device; a "
                       "stream of the CPU takes it",
                       (long long)n);
    struct operand first = {.is_real = false}, second;
    struct ends to = *whole, from = *whole;
    to.length = from.length = m;
    to.flags |= CHIRP_IN;
    if (n_factors == 1) {
        KL_TRY(make_spectrum(t, n, m, factor, 1, &first, &to.spectrum));
        to.flags |= CONVOLVES | SWAP_CHIRP;
        return transform(t, &to, factor, 1, &first);
    }
    KL_TRY(take(t, &first, m));
    KL_TRY(take(t, &second, m));
    KL_TRY(make_spectrum(t, n, m, factor, n_factors, &first, &to.spectrum));
    to.out = &second;
    to.n_out = m;
    to.flags = (to.flags & ~SWAP_OUT) | SPECTRUM;
    to.scale = 1;
    KL_TRY(transform(t, &to, factor, n_factors, &first));
    from.in = &second;
    from.n_in = m;
    from.flags = (from.flags & SWAP_OUT) | SWAP_IN | SWAP_CHIRP;
    return transform(t, &from, factor, n_factors, &second);
}

/* ---- an axis, and all axes ---- */
static int along(struct task *t, int axis, enum kl_fft_kind kind, int64_t n,
                 const struct operand *in, const struct operand *out, double scale) {
    const bool inverse = kind == KL_FFT_INVERSE || kind == KL_FFT_TO_REAL;
    struct ends ends = {.in = in, .out = out, .length = n, .n = n, .n_in = n, .n_out = n};
    struct operand between = {.is_real = false};
    int64_t factor[MOST_FACTORS];
    t->axis = axis;
    ends.scale = scale;
    if (inverse) ends.flags |= SWAP_IN | SWAP_OUT;
    if (kind == KL_FFT_TO_REAL) ends.flags |= HERMITIAN;
    if (kind == KL_FFT_FROM_REAL) ends.n_out = n / 2 + 1;
    const int n_factors = kl_fft_is_smooth(n) ? cut(n, t->room, factor) : 0;
    if (!n_factors) return convolve(t, &ends);
    if (n_factors > 1) KL_TRY(take(t, &between, n));
    return transform(t, &ends, factor, n_factors, &between);
}

static void operand_of(struct operand *o, const struct kl_arg *a, const int64_t *strides) {
    *o = (struct operand){
        .data = a->data, .is_real = a->dtype != KL_C64, .is_rounded = a->dtype != KL_F64};
    for (int i = 0; i < a->ndim; i++) o->strides[i] = strides[i];
}

/* Whether the lines of the first launch, from a to a row-major operand as b, have few enough axes
 * for a kernel. */
static bool fits(const struct kl_arg *a, const struct kl_arg *b, int axis) {
    struct kl_axes lines = KL_NO_AXES;
    struct kl_space space;
    for (int i = 0; i < a->ndim; i++)
        if (i != axis) kl_axes_add(&lines, a->dims[i], a->strides[i], b->strides[i]);
    return kl_axes_space(&lines, &space);
}

/* A row-major copy in the place of an operand that has too many axes. */
static int make_dense(struct kl_emit *e, const struct kl_arg *a, struct operand *o) {
    void *data;
    kl_strides_row_major(a->ndim, a->dims, o->strides);
    KL_TRY(kl_emit_workspace(e, (size_t)a->size * kl_dtype_size(a->dtype), &data));
    o->data = data;
    return kl_emit_copy(e, kl_dtype_size(a->dtype), a->ndim, a->dims, data, o->strides, a->data,
                        a->strides);
}

/* The numbers for which a group has room: a power of two. */
static int room_of(const struct kl_emit *e, bool wide) {
    const size_t most = e->driver->local_bytes / ((wide ? 16 : 8) * BUFFERS);
    if (most < LEAST_ROOM) return LEAST_ROOM;
    return (int)kl_pow2_below((uint32_t)least(MOST_ROOM, (int64_t)most));
}

/* Sets the shapes and limits of the computation. */
static void begin(struct task *t, struct kl_emit *e, const struct kl_command *c) {
    const struct kl_fft_params *p = c->params;
    const struct kl_arg *complex = &c->args[p->kind == KL_FFT_TO_REAL ? 0 : 1];
    *t = (struct task){.e = e, .wide = c->args[0].dtype == KL_F64, .ndim = complex->ndim};
    t->room = room_of(e, t->wide);
    t->local = kl_local_size(e, WANT_LOCAL);
    for (int i = 0; i < complex->ndim; i++) t->dims[i] = complex->dims[i];
}

/* The axes in the order of their transforms. The real axis is the first of a transform from real
 * numbers, and the last of one to them. An axis of one element stays as it is; one transform is
 * kept, which copies. */
static int order_axes(const struct kl_command *c, int order[KL_AXES_MAX]) {
    const struct kl_fft_params *p = c->params;
    const int last = p->n_axes - 1;
    int n = 0;
    if (p->kind != KL_FFT_TO_REAL) order[n++] = last;
    for (int k = last - 1; k >= 0; k--)
        if (c->args[0].dims[p->axes[k]] != 1) order[n++] = k;
    if (p->kind == KL_FFT_TO_REAL) order[n++] = last;
    return n;
}

int kl_lower_fft(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_fft_params *p = c->params;
    const struct kl_arg *a = &c->args[0], *b = &c->args[1];
    const int last = p->n_axes - 1;
    struct task t;
    struct operand in, out, between;
    int order[KL_AXES_MAX];
    const int n_axes = order_axes(c, order);
    if (b->size == 0) return KL_OK;
    begin(&t, e, c);
    operand_of(&in, a, a->strides);
    operand_of(&out, b, b->strides);
    if (!fits(a, b, p->axes[order[0]])) KL_TRY(make_dense(e, a, &in));
    /* Results of axes before the last stand in the output where it has room for them. */
    between = out;
    t.axis = -1;
    if (n_axes > 1 && (t.wide || p->kind == KL_FFT_TO_REAL)) KL_TRY(take(&t, &between, 1));
    for (int i = 0; i < n_axes; i++) {
        const int k = order[i], axis = p->axes[k];
        const bool real = k == last && p->kind >= KL_FFT_FROM_REAL, ends = i == n_axes - 1;
        const enum kl_fft_kind kind = real                          ? p->kind
                                      : p->kind == KL_FFT_TO_REAL   ? KL_FFT_INVERSE
                                      : p->kind == KL_FFT_FROM_REAL ? KL_FFT_FORWARD
                                                                    : p->kind;
        const int64_t n = !real ? t.dims[axis] : p->kind == KL_FFT_FROM_REAL ? a->dims[axis] : p->n;
        KL_TRY(along(&t, axis, kind, n, i ? &between : &in, ends ? &out : &between,
                     ends ? p->scale : 1));
    }
    return KL_OK;
}

/* ---- what goes with transforms by a library ---- */

/* The kernels of these are in every program of the family: the one of float32 that a launch takes.
 */
static int emit_simple(struct kl_emit *e, const char *name, int64_t items, struct kl_karg *args,
                       int n_args) {
    const int values[] = {KL_F32, room_of(e, false)};
    const uint32_t local = kl_local_size(e, WANT_LOCAL);
    return kl_emit(e, &kl_family_fft, values, name, kl_groups_for(items, local), local, args,
                   n_args);
}

int kl_emit_fft_edges(struct kl_emit *e, void *z, int64_t lines, int64_t bins, int64_t edge) {
    struct kl_karg args[] = {KL_KARG_PTR(z, 4), KL_KARG(lines), KL_KARG(bins), KL_KARG(edge)};
    return emit_simple(e, "fft_edges", lines, args, 4);
}

int kl_emit_fft_widen(struct kl_emit *e, const void *x, void *z, int64_t n) {
    struct kl_karg args[] = {KL_KARG_PTR(x, 4), KL_KARG_PTR(z, 8), KL_KARG(n)};
    return emit_simple(e, "fft_widen", n, args, 3);
}

int kl_emit_fft_scale(struct kl_emit *e, void *x, float by, int64_t n) {
    struct kl_karg args[] = {KL_KARG_PTR(x, 16), KL_KARG(by), KL_KARG(n)};
    return emit_simple(e, "fft_scale", kl_groups_for(n, 4), args, 3);
}
