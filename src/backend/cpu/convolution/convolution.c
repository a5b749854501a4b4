/* convolution.c - CONVOLUTION: in = {x (n, spatial, c), w (o, spatial, c / groups)}. A task
 * computes a block of output positions. It copies the part of x that they see, with zeros for
 * padding, to scratch memory of bounded size, some channels or elements of the kernel at a time; an
 * element that several positions see is copied once. Tiles of positions by output channels read it
 * there (direct.inc), with the kernel packed as for a product. A kernel of one element is a product
 * (matmul.c). 16-bit floats are added up in float32. Cuts follow from shapes and strides alone, so
 * the bits depend on no threads. */
#include "backend/cpu/convolution/convolution.h"

enum {
    DEPTH_BYTES = 2048,    /* of the terms that are added at a time, in every variant */
    LEAST_CHANNELS = 64,   /* more channels than this may be taken in parts of it */
    LONG_BYTES = 512,      /* the same for kernels of more than DEPTHWISE_TAPS elements */
    LONG_TAPS = 256,       /* elements of such a kernel that are added at a time */
    DEPTHWISE_TAPS = 64,   /* elements of a shorter kernel that are added at a time */
    MOST_POSITIONS = 256,  /* output positions of a task */
    MOST_IN_PLACE = 4096,  /* the same where nothing is copied */
    MOST_COLS = 512,       /* output channels of a task */
    MOST_WINDOW = 1 << 18, /* bytes of x that a task copies at a time, if one tile needs less */
    MOST_SHARED = 1 << 25, /* bytes of w that are packed for all tasks; else each packs its part */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
    MOST_DOTS = 8,           /* output channels of a group, each of which is summed up in lanes */
    TASKS = 16,              /* enough for the threads of most machines */
};

/* ---- how the work is cut ---- */

/* n cut into parts of about the same size, of at most `most` but at least 1. */
static int64_t even_part(int64_t n, int64_t most) {
    if (most < 1) most = 1;
    return kl_ceil_div(n, kl_ceil_div(n, most));
}

/* The slots of a block of `block` positions and a part of `part` kernel elements. */
static void set_slots(struct kl_convolution_axis *a) {
    const int64_t g = kl_common_divisor(a->is.stride, a->is.dilation);
    const int64_t own = a->block * a->part;
    /* Along one position or one element, the other distance alone counts. */
    a->unit = a->block == 1 ? a->is.dilation : a->part == 1 ? a->is.stride : g;
    a->per_out = a->block == 1 ? 0 : a->part == 1 ? 1 : a->is.stride / g;
    a->per_tap = a->part == 1 ? 0 : a->block == 1 ? 1 : a->is.dilation / g;
    a->shared = a->block == 1 || a->part == 1 || a->per_out < own;
    if (a->shared && a->per_tap < own)
        a->slots = (a->block - 1) * a->per_out + (a->part - 1) * a->per_tap + 1;
    a->shared = a->shared && a->per_tap < own && a->slots <= own;
    if (a->shared) return;
    a->slots = own;
    a->per_out = a->part;
    a->per_tap = 1;
}

/* The time that tiles take along `extent` positions, with as many wide ones as fit. The last tile
 * has as few rows as can be; rows that are left over are computed in vain. */
static int64_t time_of_rows(int64_t extent, int rows) {
    const int64_t wide = 4 * rows + 2, narrow = 4 * KL_TILE_FEW + 3, left = extent % rows;
    return extent / rows * wide + (left == 0 ? 0 : left <= KL_TILE_FEW ? narrow : wide);
}

/* Chooses the part of the kernel and of the channels that is added at a time. */
static void cut_depth(struct kl_convolution *v) {
    int64_t left = DEPTH_BYTES / v->bytes, taps = 1;
    for (int i = 1; i < KL_CONVOLUTION_AXES; i++) taps *= v->axis[i].is.k;
    if (v->depthwise) left = taps > DEPTHWISE_TAPS ? LONG_TAPS : DEPTHWISE_TAPS;
    v->channels = v->group_in;
    if (!v->depthwise) {
        int64_t most = taps > left ? 0 : left / taps / 16 * 16;
        if (most < LEAST_CHANNELS) most = LEAST_CHANNELS;
        if (v->group_in > most)
            v->channels = kl_min64(kl_round_up(even_part(v->group_in, most), 16), v->group_in);
        left /= v->channels ? v->channels : 1;
    }
    v->channel_parts = v->depthwise || !v->channels ? 1 : kl_ceil_div(v->group_in, v->channels);
    for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
        struct kl_convolution_axis *a = &v->axis[i];
        a->part = even_part(a->is.k, kl_min64(left, a->is.k));
        left /= a->part;
        a->parts = kl_ceil_div(a->is.k, a->part);
    }
}

/* Chooses the block of positions: along the tiled axis in whole tiles. */
static void cut_positions(struct kl_convolution *v, int64_t positions) {
    int64_t best_time = 0, best_extent = 0;
    v->tiled = -1;
    for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
        const int64_t extent = v->axis[i].is.out, few = time_of_rows(extent, KL_TILE_FEW);
        int64_t time = time_of_rows(extent, KL_TILE_ROWS);
        int rows = v->depthwise || v->dots ? 1 : time <= few ? KL_TILE_ROWS : KL_TILE_FEW;
        if (few < time) time = few;
        /* time per position; x before y, y before z */
        if (v->tiled >= 0 && (v->depthwise || v->dots || time * best_extent >= best_time * extent))
            continue;
        v->tiled = i;
        v->rows = rows;
        best_time = time;
        best_extent = extent;
    }
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) {
        v->axis[i].block = i == v->tiled ? v->rows : 1;
        set_slots(&v->axis[i]);
    }
    /* The groups of a depthwise one are tasks, too. The fewer blocks, the less is copied twice. */
    const int64_t groups = v->depthwise ? v->groups : 1;
    int64_t most = kl_min64(v->in_place ? MOST_IN_PLACE : MOST_POSITIONS,
                            kl_ceil_div(positions * groups, TASKS));
    for (int at = 0; at < KL_CONVOLUTION_AXES + 1;
         at++) { /* the tiled axis first, then from x to the batch */
        int i = at == 0 ? v->tiled : KL_CONVOLUTION_AXES - at;
        struct kl_convolution_axis *a = &v->axis[i];
        if (at && i == v->tiled) continue;
        int64_t step = i == v->tiled ? v->rows : 1, steps = kl_ceil_div(a->is.out, step);
        for (int64_t n = steps; n > 1; n = kl_ceil_div(n, 2)) {
            struct kl_convolution_axis before = *a;
            a->block = even_part(steps, n) * step;
            set_slots(a);
            if (kl_convolution_positions(v) <= most &&
                (v->in_place || kl_convolution_window(v) <= MOST_WINDOW))
                break;
            *a = before;
        }
        a->blocks = kl_ceil_div(a->is.out, a->block);
    }
}

/* ---- a kernel of one element ---- */

/* Whether the positions of the output are the elements of x, in one matrix: then the convolution is
 * a product, which reads both operands in place. *step: elements from one row to the next. */
static bool is_product(const struct kl_convolution *v, int64_t positions, int64_t *step) {
    bool found = false;
    int64_t expected = 0;
    *step = v->group_in;
    if (v->groups != 1 || v->depthwise || positions > INT32_MAX) return false;
    for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
        const struct kl_convolution_axis *a = &v->axis[i];
        if (a->is.k != 1 || a->is.low != 0 || a->in != a->is.out) return false;
        if (a->in == 1) continue;
        if (a->is.stride != 1 || (found && a->x_step != expected)) return false;
        if (!found) *step = a->x_step;
        found = true;
        expected = a->x_step * a->in;
    }
    return true;
}

static int as_product(const struct kl_convolution *v, int64_t positions, int64_t step) {
    const struct kl_launch *l = v->l;
    const int a[] = {(int)positions, (int)v->group_in}, b[] = {(int)v->group_in, (int)v->group_out},
              c[] = {(int)positions, (int)v->group_out};
    const int64_t a_strides[] = {step, v->x_channel}, b_strides[] = {v->w_channel, v->w_out},
                  c_strides[] = {v->group_out, 1};
    struct kl_arg in[2] = {l->in[0], l->in[1]}, out = *l->out;
    const struct kl_convolution_part only = {.n = {1, 1, 1, 1}};
    in[1].data =
        (char *)in[1].data + kl_convolution_tap(v, &only, 0) * (int64_t)kl_dtype_size(in[1].dtype);
    const struct {
        struct kl_arg *arg;
        const int *dims;
        const int64_t *strides;
    } each[] = {{&in[0], a, a_strides}, {&in[1], b, b_strides}, {&out, c, c_strides}};
    for (int i = 0; i < 3; i++) {
        each[i].arg->ndim = 2;
        each[i].arg->dims = each[i].dims;
        each[i].arg->strides = each[i].strides;
        each[i].arg->layout = 0;
    }
    struct kl_launch product = *l;
    product.op = KL_OP_MATMUL;
    product.params = NULL;
    product.in = in;
    product.out = &out;
    return kl_cpu_matmul(&product);
}

/* ---- the kernel ---- */

/* Whether vectors have whole groups of this number of channels; these are computed together. */
static bool is_few(int64_t channels) {
    return (channels == 2 || channels == 4 || channels == 8) && channels <= KL_VECTOR / 4;
}

static void describe(struct kl_convolution *v) {
    const struct kl_arg *x = &v->l->in[0], *w = &v->l->in[1], *out = v->l->out;
    const struct kl_convolution_params *p = v->l->params;
    const struct kl_conv_axis one = {1, 1, 1, 1, 0, 1, 0, 1, 0, 1};
    const bool f32 = kl_compute_dtype(out->dtype) == KL_F32;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++)
        v->axis[i] = (struct kl_convolution_axis){.is = one, .in = 1, .out_all = 1};
    v->axis[0].in = v->axis[0].is.out = v->axis[0].out_all = x->dims[0];
    v->axis[0].x_step = x->strides[0];
    for (int i = 0; i < p->ndim; i++) {
        struct kl_convolution_axis *a = &v->axis[KL_CONVOLUTION_AXES - p->ndim + i];
        a->is.out = a->out_all = out->dims[1 + i];
        a->is.k = w->dims[1 + i];
        a->is.stride = p->stride[i];
        a->is.dilation = p->dilation[i];
        a->is.low = p->low[i];
        a->is.input_dilation = p->input_dilation[i];
        a->in = x->dims[1 + i];
        a->x_step = x->strides[1 + i];
        a->w_step = p->flip ? -w->strides[1 + i] : w->strides[1 + i];
        a->w_first = p->flip ? (a->is.k - 1) * w->strides[1 + i] : 0;
    }
    v->x_channel = x->strides[p->ndim + 1];
    v->w_channel = w->strides[p->ndim + 1];
    v->w_out = w->strides[0];
    v->groups = p->groups;
    v->group_in = w->dims[p->ndim + 1];
    v->group_out = w->dims[0] / p->groups;
    v->each = v->group_in;
    v->depthwise =
        p->groups > 1 && v->group_in == v->group_out && (v->each == 1 || (f32 && is_few(v->each)));
    v->dots = f32 && !v->depthwise && v->group_out <= MOST_DOTS && v->group_in > 0 &&
              v->group_in % KL_CONVOLUTION_LANES == 0;
}

/* Whether tasks read whole vectors of channels where x lies, and write where the output does. */
static bool reads_in_place(const struct kl_convolution *v) {
    const int64_t channels = v->l->out->dims[v->l->out->ndim - 1], lanes = KL_VECTOR / v->bytes,
                  last = channels - (v->groups - 1) * v->group_in;
    return v->depthwise && v->each == 1 && kl_convolution_parts(v) == 1 && v->x_channel == 1 &&
           last >= lanes && v->l->in[0].dtype == v->type && v->l->out->dtype == v->type;
}

static int convolve(struct kl_convolution *v) {
    struct kl_launch *l = v->l;
    int64_t positions = 1, depth = v->group_in, step;
    bool whole = true;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) {
        positions *= v->axis[i].is.out;
        whole = whole && v->axis[i].is.out == v->axis[i].out_all;
    }
    if (whole && is_product(v, positions, &step)) return as_product(v, positions, step);
    for (int i = 1; i < KL_CONVOLUTION_AXES; i++) depth *= v->axis[i].is.k;
    if (v->depthwise) { /* a group of tasks is some channels, each a group of its own */
        const int64_t lane = KL_VECTOR / v->bytes, channels = v->groups * v->each;
        /* A long kernel, such as that of a weight's gradient, has few positions. */
        const int64_t most =
            (depth > DEPTHWISE_TAPS * v->each ? LONG_BYTES : KL_CONVOLUTION_SIDE_BYTES) / v->bytes;
        v->group_in = kl_min64(kl_round_up(even_part(channels, most), lane), channels);
        v->groups = kl_ceil_div(channels, v->group_in);
        v->group_out = v->group_in;
    }
    cut_depth(v);
    v->in_place = reads_in_place(v);
    cut_positions(v, positions);
    v->cols = v->depthwise ? v->group_out : kl_min64(v->group_out, MOST_COLS);
    v->col_blocks = kl_ceil_div(v->group_out, v->cols);
    int64_t tasks = v->groups;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) tasks *= v->axis[i].blocks;
    if (tasks * v->col_blocks < TASKS && !v->depthwise && !v->dots) {
        const int64_t cols = kl_convolution_panel(v);
        v->cols = kl_round_up(even_part(v->group_out, v->group_out * tasks / TASKS), cols);
        v->col_blocks = kl_ceil_div(v->group_out, v->cols);
    }
    const double work = (double)positions * (double)depth * l->out->dims[l->out->ndim - 1];
    struct kl_launch alone = {.parallel = work >= PARALLEL_FROM ? l->parallel : NULL};
    const int64_t packed = v->groups * kl_convolution_packed(v);
    struct kl_scratch shared;
    const bool shares = !v->depthwise && !v->dots && tasks > 1 && packed <= MOST_SHARED / v->bytes;
    if (shares) {
        if (!kl_scratch_take(&shared, l, (size_t)(packed * v->bytes))) return kl_fail_nomem(l->err);
        v->packed = shared.ptr;
        kl_run_tasks(&alone,
                     v->groups * kl_convolution_parts(v) *
                         kl_ceil_div(v->group_out, kl_convolution_panel(v)),
                     kl_convolution_pack, v);
    }
    if (!atomic_load(&v->no_memory))
        kl_run_tasks(&alone, tasks * v->col_blocks, kl_convolution_task, v);
    if (shares) kl_scratch_give(&shared);
    return atomic_load(&v->no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}

int kl_cpu_convolution(struct kl_launch *l) {
    const struct kl_arg *out = l->out;
    int64_t phases[KL_CONVOLUTION_AXES], n = 1;
    if (out->size == 0) return KL_OK;
    if (l->in[0].size == 0) { /* sums of padding alone, or of no channels */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
    struct kl_convolution first = {.l = l};
    describe(&first);
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++)
        n *= phases[i] = kl_conv_phases(&first.axis[i].is);
    /* there may be positions that see zeros only */
    if (n > 1) memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
    for (int64_t at = 0; at < n; at++) {
        struct kl_convolution v = {.l = l, .type = kl_compute_dtype(out->dtype)};
        int64_t left = at;
        bool sees = true;
        v.bytes = (int)kl_dtype_size(v.type);
        describe(&v);
        for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
            sees = kl_conv_phase(&v.axis[i].is, left % phases[i]) && sees;
            left /= phases[i];
        }
        if (sees) KL_TRY(convolve(&v));
        if (!sees && n == 1) memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
    }
    return KL_OK;
}
