/* convolution.c - CONVOLUTION: in = {x (n, spatial, c), w (o, spatial, c / groups)}. A task
 * computes a block of output positions. It copies the part of x that they see, with zeros for
 * padding, to scratch memory of bounded size, some channels or elements of the kernel at a time; an
 * element that several positions see is copied once. Tiles of positions by output channels read it
 * there (direct.inc), with the kernel packed as for a product. A kernel of one element is a product
 * (matmul.c). 16-bit floats are added up in float32. Cuts follow from shapes and strides alone, so
 * the bits depend on no threads. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/products.h"
#include "base/op/op_params.h"
#include "base/op/phases.h"

enum {
    DEPTH_BYTES = 2048,     /* of the terms that are added at a time, in every variant */
    LEAST_CHANNELS = 64,    /* more channels than this may be taken in parts of it */
    DEPTHWISE_BYTES = 1024, /* channels of a task, where each is a group, in bytes */
    LONG_BYTES = 512,       /* the same for kernels of more than DEPTHWISE_TAPS elements */
    LONG_TAPS = 256,        /* elements of such a kernel that are added at a time */
    DEPTHWISE_TAPS = 64,    /* elements of a shorter kernel that are added at a time */
    MOST_POSITIONS = 256,   /* output positions of a task */
    MOST_COLS = 512,        /* output channels of a task */
    MOST_WINDOW = 1 << 18,  /* bytes of x that a task copies at a time, if one tile needs less */
    MOST_SHARED = 1 << 25,  /* bytes of w that are packed for all tasks; else each packs its part */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
    TASKS = 16,              /* enough for the threads of most machines */
    AXES = 4,                /* batch, and three spatial axes */
};

/* One of the axes batch, z, y, x: extents of x, of the output and of the kernel, and how positions
 * meet elements of x. The axis of the batch has a kernel of one element. */
struct axis {
    struct kl_conv_axis is;
    int64_t in, out_all;             /* elements of x, positions of the whole output */
    int64_t x_step, w_step, w_first; /* strides of x and w, and where w begins, in elements */
    int64_t block, part;             /* positions of a block, elements of the kernel in one part */
    int64_t slots;                   /* copied elements along this axis */
    int64_t per_out,
        per_tap;  /* slots from one position, and from one kernel element, to the next */
    bool shared;  /* positions share slots; else each has its own */
    int64_t unit; /* where they share: elements of x from one slot to the next */
    int64_t parts, blocks;
};

struct conv {
    struct kl_launch *l;
    enum kl_dtype type; /* the compute type */
    int bytes;
    struct axis axis[AXES];
    bool depthwise;
    int64_t groups, group_in, group_out; /* groups of tasks, and the channels of each */
    int64_t channels, channel_parts;     /* input channels in one part */
    int64_t x_channel, w_channel, w_out; /* strides */
    int tiled, rows;                     /* the axis along which tiles run, and their rows */
    int64_t cols, col_blocks;            /* output channels of a task */
    char *packed;                        /* w, packed for all tasks; or NULL */
    _Atomic(bool) no_memory;
};

/* The elements of the copied part of x that a position reads: runs of contiguous elements. */
struct window {
    int64_t runs, length;
    int64_t *at; /* where each begins, relative to the position */
};

#define T float
#define LANES (KL_VECTOR / 4)
#define NAME f32
/* defines add_run_f32, direct_rows_f32, direct_f32, depthwise_f32 */
#include "backend/cpu/convolution/direct.inc"
#define T double
#define LANES (KL_VECTOR / 8)
#define NAME f64
/* defines add_run_f64, direct_rows_f64, direct_f64, depthwise_f64 */
#include "backend/cpu/convolution/direct.inc"

/* ---- how the work is cut ---- */

static int64_t panel_cols(const struct conv *v) {
    return 2 * KL_VECTOR / v->bytes;
}

/* n cut into parts of about the same size, of at most `most` but at least 1. */
static int64_t even_part(int64_t n, int64_t most) {
    if (most < 1) most = 1;
    return kl_ceil_div(n, kl_ceil_div(n, most));
}

/* The slots of a block of `block` positions and a part of `part` kernel elements. */
static void set_slots(struct axis *a) {
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

static int64_t window_bytes(const struct conv *v) {
    int64_t n = kl_round_up(v->channels, v->depthwise ? KL_VECTOR / v->bytes : 1) * v->bytes;
    for (int i = 0; i < AXES; i++) n *= v->axis[i].slots;
    return n;
}

static int64_t block_positions(const struct conv *v) {
    int64_t n = 1;
    for (int i = 0; i < AXES; i++) n *= v->axis[i].block;
    return n;
}

/* The time that tiles take along `extent` positions, with as many wide ones as fit. The last tile
 * has as few rows as can be; rows that are left over are computed in vain. */
static int64_t time_of_rows(int64_t extent, int rows) {
    const int64_t wide = 4 * rows + 2, narrow = 4 * KL_TILE_FEW + 3, left = extent % rows;
    return extent / rows * wide + (left == 0 ? 0 : left <= KL_TILE_FEW ? narrow : wide);
}

/* The rows of a tile for `left` positions. */
static int tile_rows(const struct conv *v, int64_t left) {
    return left <= KL_TILE_FEW ? KL_TILE_FEW : v->rows;
}

/* Chooses the part of the kernel and of the channels that is added at a time. */
static void cut_depth(struct conv *v) {
    int64_t left = DEPTH_BYTES / v->bytes, taps = 1;
    for (int i = 1; i < AXES; i++) taps *= v->axis[i].is.k;
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
    for (int i = AXES - 1; i >= 0; i--) {
        struct axis *a = &v->axis[i];
        a->part = even_part(a->is.k, kl_min64(left, a->is.k));
        left /= a->part;
        a->parts = kl_ceil_div(a->is.k, a->part);
    }
}

/* Chooses the block of positions: along the tiled axis in whole tiles. */
static void cut_positions(struct conv *v, int64_t positions) {
    int64_t best_time = 0, best_extent = 0;
    v->tiled = -1;
    for (int i = AXES - 1; i >= 0; i--) {
        const int64_t extent = v->axis[i].is.out, few = time_of_rows(extent, KL_TILE_FEW);
        int64_t time = time_of_rows(extent, KL_TILE_ROWS);
        int rows = v->depthwise ? 1 : time <= few ? KL_TILE_ROWS : KL_TILE_FEW;
        if (few < time) time = few;
        /* time per position; x before y, y before z */
        if (v->tiled >= 0 && (v->depthwise || time * best_extent >= best_time * extent)) continue;
        v->tiled = i;
        v->rows = rows;
        best_time = time;
        best_extent = extent;
    }
    for (int i = 0; i < AXES; i++) {
        v->axis[i].block = i == v->tiled ? v->rows : 1;
        set_slots(&v->axis[i]);
    }
    /* The groups of a depthwise one are tasks, too. The fewer blocks, the less is copied twice. */
    const int64_t groups = v->depthwise ? v->groups : 1;
    int64_t most = kl_min64(MOST_POSITIONS, kl_ceil_div(positions * groups, TASKS));
    for (int at = 0; at < AXES + 1; at++) { /* the tiled axis first, then from x to the batch */
        int i = at == 0 ? v->tiled : AXES - at;
        struct axis *a = &v->axis[i];
        if (at && i == v->tiled) continue;
        int64_t step = i == v->tiled ? v->rows : 1, steps = kl_ceil_div(a->is.out, step);
        for (int64_t n = steps; n > 1; n = kl_ceil_div(n, 2)) {
            struct axis before = *a;
            a->block = even_part(steps, n) * step;
            set_slots(a);
            if (block_positions(v) <= most && window_bytes(v) <= MOST_WINDOW) break;
            *a = before;
        }
        a->blocks = kl_ceil_div(a->is.out, a->block);
    }
}

/* ---- packing w ---- */

/* One part of the kernel: its first element and number of elements along each axis, and its
 * channels. */
struct part {
    int64_t first[AXES], n[AXES], channel, channels, depth;
};

static int64_t parts_of(const struct conv *v) {
    int64_t n = v->channel_parts;
    for (int i = 0; i < AXES; i++) n *= v->axis[i].parts;
    return n;
}

static struct part part_of(const struct conv *v, int64_t index) {
    struct part p;
    for (int i = AXES - 1; i >= 0; i--) {
        const struct axis *a = &v->axis[i];
        p.first[i] = index % a->parts * a->part;
        p.n[i] = kl_min64(a->part, a->is.k - p.first[i]);
        index /= a->parts;
    }
    p.channel = index * v->channels;
    p.channels = kl_min64(v->channels, v->group_in - p.channel);
    p.depth = p.channels * p.n[1] * p.n[2] * p.n[3];
    return p;
}

/* Where element `tap` of a part is in w. */
static int64_t tap_offset(const struct conv *v, const struct part *p, int64_t tap) {
    int64_t offset = 0;
    for (int i = AXES - 1; i > 0; i--) {
        const struct axis *a = &v->axis[i];
        const int64_t k = a->is.k_first + (p->first[i] + tap % p->n[i]) * a->is.k_step;
        offset += a->w_first + k * a->w_step;
        tap /= p->n[i];
    }
    return offset;
}

/* Copies n elements of an operand, which are `step` apart, to the compute type. */
static void take_run(const struct conv *v, const struct kl_arg *arg, int64_t offset, int64_t step,
                     int64_t n, char *to) {
    const int item = (int)kl_dtype_size(arg->dtype);
    const char *from = (const char *)arg->data + offset * item;
    union kl_tile raw;
    if (arg->dtype == v->type) {
        kl_copy_run(item, n, to, item, from, step * item);
        return;
    }
    for (int64_t at = 0; at < n; at += KL_TILE) {
        int64_t some = kl_min64(KL_TILE, n - at);
        const char *src = from + at * step * item;
        if (step != 1) {
            kl_copy_run(item, some, raw.bytes, item, src, step * item);
            src = (const char *)raw.bytes;
        }
        kl_convert(v->type, to + at * v->bytes, arg->dtype, src, some);
    }
}

/* Packs output channels [col, col + panel) of a group, as far as there are, for one part: for each
 * element of the kernel and each channel one row. raw has room for a panel of v->channels rows. */
static void pack_panel(const struct conv *v, const struct part *p, int64_t group, int64_t col,
                       char *to, char *raw) {
    const struct kl_arg *w = &v->l->in[1];
    const bool f32 = v->type == KL_F32, converts = w->dtype != v->type;
    const int64_t panel = panel_cols(v), width = kl_min64(panel, v->group_out - col);
    const int64_t n_taps = p->n[1] * p->n[2] * p->n[3];
    for (int64_t tap = 0; tap < n_taps; tap++, to += p->channels * panel * v->bytes) {
        int64_t offset = tap_offset(v, p, tap) + (group * v->group_out + col) * v->w_out +
                         p->channel * v->w_channel;
        const char *from = (const char *)w->data + offset * v->bytes;
        if (!converts && v->w_out == 1) {
            (f32 ? kl_spread_f32 : kl_spread_f64)(to, from, v->w_channel, width, p->channels, panel,
                                                  0);
        } else if (!converts && v->w_channel == 1) {
            (f32 ? kl_panel_f32 : kl_panel_f64)(to, from, v->w_out, width, p->channels, panel);
        } else {
            for (int64_t o = 0; o < width; o++)
                take_run(v, w, offset + o * v->w_out, v->w_channel, p->channels,
                         raw + o * p->channels * v->bytes);
            (f32 ? kl_panel_f32 : kl_panel_f64)(to, raw, p->channels, width, p->channels, panel);
        }
    }
}

/* Elements before part `index` of a group in the packed kernel. All parts have panels for the same
 * output channels. */
static int64_t packed_before(const struct conv *v, int64_t index) {
    int64_t rows = 0;
    for (int64_t i = 0; i < index; i++) rows += part_of(v, i).depth;
    return rows * kl_round_up(v->group_out, panel_cols(v));
}

static int64_t packed_group(const struct conv *v) {
    int64_t depth = v->group_in;
    for (int i = 1; i < AXES; i++) depth *= v->axis[i].is.k;
    return depth * kl_round_up(v->group_out, panel_cols(v));
}

static void pack_task(void *arg, int64_t task) {
    struct conv *v = arg;
    const int64_t cols = panel_cols(v), panels = kl_ceil_div(v->group_out, cols);
    const int64_t parts = parts_of(v), panel = task % panels, index = task / panels % parts;
    const int64_t group = task / panels / parts;
    const struct part p = part_of(v, index);
    struct kl_scratch raw;
    if (!kl_scratch_take(&raw, v->l, (size_t)(v->channels * cols * v->bytes) + KL_VECTOR)) {
        atomic_store(&v->no_memory, true);
        return;
    }
    char *to =
        v->packed +
        (group * packed_group(v) + packed_before(v, index) + panel * cols * p.depth) * v->bytes;
    pack_panel(v, &p, group, panel * cols, to, raw.ptr);
    kl_scratch_give(&raw);
}

/* ---- one task ---- */

struct block {
    int64_t group, col, cols; /* output channels, within the group */
    int64_t from, to; /* the output channels, in whole panels, of the kernel packed at present */
    int64_t first[AXES], n[AXES]; /* positions */
    int64_t *source[AXES];        /* for each slot: the element of x, or -1 */
    int64_t at_slot[AXES];        /* elements from one slot to the next */
    char *window, *sums, *own, *raw;
    int64_t pitch; /* sums from one position to the next */
    struct window w;
};

/* Fills the table of slots of one axis. */
static void find_sources(const struct axis *a, int64_t first, int64_t tap, int64_t *source) {
    for (int64_t s = 0; s < a->slots; s++) {
        int64_t at = first * a->is.stride + tap * a->is.dilation - a->is.low;
        at += a->shared ? s * a->unit : s / a->part * a->is.stride + s % a->part * a->is.dilation;
        source[s] = at >= 0 && at < a->in ? at : -1;
    }
}

/* memcpy, which small groups would call for a few bytes at a time. */
static inline void copy_few(char *to, const char *from, int64_t bytes) {
    if (bytes == 16)
        memcpy(to, from, 16);
    else if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 32)
        memcpy(to, from, 32);
    else
        memcpy(to, from, (size_t)bytes);
}

/* Copies one line of slots along x. */
static void fill_line(const struct conv *v, const struct block *b, const struct part *p,
                      int64_t offset, char *to) {
    const struct axis *a = &v->axis[AXES - 1];
    const struct kl_arg *x = &v->l->in[0];
    const int64_t each = b->at_slot[AXES - 1], *source = b->source[AXES - 1];
    const bool joined = v->x_channel == 1 && each == p->channels && a->x_step == each,
               plain = v->x_channel == 1 && x->dtype == v->type;
    const char *from = (const char *)x->data + offset * v->bytes; /* of plain ones */
    for (int64_t s = 0; s < a->slots;) {
        int64_t n = 1;
        char *dst = to + s * each * v->bytes;
        if (source[s] < 0) {
            while (s + n < a->slots && source[s + n] < 0) n++;
            memset(dst, 0, (size_t)(n * each * v->bytes));
            s += n;
            continue;
        }
        while (joined && s + n < a->slots && source[s + n] == source[s] + n) n++;
        if (plain)
            copy_few(dst, from + source[s] * a->x_step * v->bytes, n * p->channels * v->bytes);
        else
            take_run(v, x, offset + source[s] * a->x_step, v->x_channel, n * p->channels, dst);
        if (each > p->channels)
            memset(dst + p->channels * v->bytes, 0, (size_t)((each - p->channels) * v->bytes));
        s += n;
    }
}

/* Copies what the positions of the block see of x through one part of the kernel. */
static void fill(const struct conv *v, struct block *b, const struct part *p) {
    const struct axis *a = v->axis;
    const int64_t channel = b->group * v->group_in + p->channel;
    const int64_t lane = v->depthwise ? KL_VECTOR / v->bytes : 1;
    b->at_slot[AXES - 1] = kl_round_up(p->channels, lane);
    for (int i = AXES - 2; i >= 0; i--) b->at_slot[i] = b->at_slot[i + 1] * a[i + 1].slots;
    for (int i = 0; i < AXES; i++) find_sources(&a[i], b->first[i], p->first[i], b->source[i]);
    for (int64_t n = 0; n < a[0].slots; n++)
        for (int64_t z = 0; z < a[1].slots; z++)
            for (int64_t y = 0; y < a[2].slots; y++) {
                int64_t sn = b->source[0][n], sz = b->source[1][z], sy = b->source[2][y];
                char *to = b->window +
                           (n * b->at_slot[0] + z * b->at_slot[1] + y * b->at_slot[2]) * v->bytes;
                if (sn < 0 || sz < 0 || sy < 0)
                    memset(to, 0, (size_t)(b->at_slot[2] * v->bytes));
                else
                    fill_line(v, b, p,
                              sn * a[0].x_step + sz * a[1].x_step + sy * a[2].x_step +
                                  channel * v->x_channel,
                              to);
            }
}

/* The runs of a position: one for each element of the kernel, or for each line of it where those
 * elements are contiguous. */
static void find_runs(const struct conv *v, struct block *b, const struct part *p) {
    const struct axis *a = v->axis;
    const bool lines = !v->depthwise && a[AXES - 1].per_tap == 1;
    int64_t *at = b->w.at;
    b->w.length = p->channels * (lines ? p->n[3] : 1);
    for (int64_t z = 0; z < p->n[1]; z++)
        for (int64_t y = 0; y < p->n[2]; y++)
            for (int64_t x = 0; x < (lines ? 1 : p->n[3]); x++)
                *at++ = z * a[1].per_tap * b->at_slot[1] + y * a[2].per_tap * b->at_slot[2] +
                        x * a[3].per_tap * b->at_slot[3];
    b->w.runs = at - b->w.at;
}

/* Adds one part for the positions of a block along the tiled axis, which begin at a and c. */
static void add_tiles(const struct conv *v, const struct block *b, const struct part *p,
                      const char *packed, const char *a, char *c, bool add) {
    const struct axis *t = &v->axis[v->tiled];
    const int64_t step = t->per_out * b->at_slot[v->tiled], cols = panel_cols(v);
    int64_t between = b->pitch;
    for (int i = AXES - 1; i > v->tiled; i--) between *= v->axis[i].block;
    if (v->depthwise) {
        for (int64_t i = 0; i < b->n[v->tiled]; i++)
            (v->type == KL_F32 ? depthwise_f32 : depthwise_f64)(
                &b->w, b->pitch, a + i * step * v->bytes, packed, c + i * between * v->bytes, add);
        return;
    }
    for (int64_t col = b->from; col < b->to; col += cols)
        for (int64_t i = 0; i < b->n[v->tiled]; i += v->rows)
            (v->type == KL_F32 ? direct_f32 : direct_f64)(
                tile_rows(v, b->n[v->tiled] - i), &b->w, a + i * step * v->bytes, step,
                packed + (col - b->from) * p->depth * v->bytes, c + (i * between + col) * v->bytes,
                between, add);
}

/* Calls add_tiles, or stores the sums, for all lines of positions along the tiled axis. */
static void add_part(const struct conv *v, const struct block *b, const struct part *p,
                     const char *packed, bool add) {
    int64_t n[AXES], at[AXES];
    for (int i = 0; i < AXES; i++) n[i] = i == v->tiled ? 1 : b->n[i];
    for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (at[1] = 0; at[1] < n[1]; at[1]++)
            for (at[2] = 0; at[2] < n[2]; at[2]++)
                for (at[3] = 0; at[3] < n[3]; at[3]++) {
                    int64_t slot = 0, row = 0;
                    for (int i = 0; i < AXES; i++) {
                        slot += at[i] * v->axis[i].per_out * b->at_slot[i];
                        row = row * v->axis[i].block + at[i];
                    }
                    add_tiles(v, b, p, packed, b->window + slot * v->bytes,
                              b->sums + row * b->pitch * v->bytes, add);
                }
}

static void store(const struct conv *v, const struct block *b) {
    const struct kl_arg *out = v->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    const struct axis *a = v->axis, *x = &a[AXES - 1];
    const int64_t o = out->dims[out->ndim - 1];
    for (int64_t n = 0; n < b->n[0]; n++)
        for (int64_t z = 0; z < b->n[1]; z++)
            for (int64_t y = 0; y < b->n[2]; y++) {
                const int64_t place[] = {n, z, y, 0},
                              row = ((n * a[1].block + z) * a[2].block + y) * x->block;
                int64_t at = 0;
                for (int i = 0; i < AXES; i++)
                    at = at * a[i].out_all + a[i].is.out_first +
                         (b->first[i] + place[i]) * a[i].is.out_step;
                char *to = (char *)out->data + (at * o + b->group * v->group_out + b->col) * item;
                const char *from = b->sums + row * b->pitch * v->bytes;
                for (int64_t i = 0; i < b->n[AXES - 1]; i++) {
                    if (out->dtype == v->type)
                        copy_few(to, from, b->cols * item);
                    else
                        kl_convert(out->dtype, to, v->type, from, b->cols);
                    to += x->is.out_step * o * item;
                    from += b->pitch * v->bytes;
                }
            }
}

/* w for channels of their own: for each element of the kernel one row of the task's channels. */
static void pack_depthwise(const struct conv *v, const struct part *p, const struct block *b,
                           char *to) {
    const int64_t n = p->n[1] * p->n[2] * p->n[3];
    memset(to, 0, (size_t)(n * b->pitch * v->bytes));
    for (int64_t tap = 0; tap < n; tap++)
        take_run(v, &v->l->in[1],
                 tap_offset(v, p, tap) + (b->group * v->group_in + p->channel) * v->w_out, v->w_out,
                 p->channels, to + tap * b->pitch * v->bytes);
}

/* The room that a task needs, in bytes; with `room`, divides it. */
static int64_t divide(const struct conv *v, struct block *b, char *room) {
    const struct axis *a = v->axis;
    const int64_t cols = panel_cols(v), depth = v->channels * a[1].part * a[2].part * a[3].part;
    const int64_t taps = a[1].part * a[2].part * a[3].part;
    int64_t at = 0, size[8], n = 0;
    for (int i = 0; i < AXES; i++) size[n++] = a[i].slots * (int64_t)sizeof(int64_t);
    size[n++] = taps * (int64_t)sizeof(int64_t);
    size[n++] = window_bytes(v);
    size[n++] = block_positions(v) * b->pitch * v->bytes;
    size[n++] = v->packed ? 0 : (v->depthwise ? taps * b->pitch : cols * depth) * v->bytes;
    char *place[9];
    for (int i = 0; i < n; i++) {
        place[i] = room ? room + at : NULL;
        at += kl_round_up(size[i], 64);
    }
    for (int i = 0; i < AXES; i++) b->source[i] = (int64_t *)(void *)place[i];
    b->w.at = (int64_t *)(void *)place[4];
    b->window = place[5];
    b->sums = place[6];
    b->own = place[7];
    b->raw = room ? room + at : NULL;
    return at + (v->packed || v->depthwise ? 0 : v->channels * cols * v->bytes + KL_VECTOR);
}

static void conv_task(void *arg, int64_t task) {
    struct conv *v = arg;
    struct block b;
    struct kl_scratch room;
    const int64_t cols = panel_cols(v);
    b.col = task % v->col_blocks * v->cols;
    task /= v->col_blocks;
    for (int i = AXES - 1; i >= 0; i--) {
        const struct axis *a = &v->axis[i];
        b.first[i] = task % a->blocks * a->block;
        b.n[i] = kl_min64(a->block, a->is.out - b.first[i]);
        task /= a->blocks;
    }
    b.group = task;
    b.cols = kl_min64(v->cols, v->group_out - b.col);
    if (v->depthwise) /* the last group may have fewer channels */
        b.cols =
            kl_min64(v->channels, v->l->out->dims[v->l->out->ndim - 1] - b.group * v->channels);
    b.pitch = kl_round_up(b.cols, v->depthwise ? cols / 2 : cols);
    b.from = 0;
    b.to = b.pitch;
    if (!kl_scratch_take(&room, v->l, (size_t)divide(v, &b, NULL))) {
        atomic_store(&v->no_memory, true);
        return;
    }
    divide(v, &b, room.ptr);
    int64_t before = 0;
    for (int64_t i = 0, n = parts_of(v); i < n; i++) {
        struct part p = part_of(v, i);
        if (v->depthwise) p.channels = b.cols;
        fill(v, &b, &p);
        find_runs(v, &b, &p);
        if (v->depthwise) {
            pack_depthwise(v, &p, &b, b.own);
            add_part(v, &b, &p, b.own, i > 0);
        } else if (v->packed) {
            add_part(v, &b, &p,
                     v->packed + (b.group * packed_group(v) + before + b.col * p.depth) * v->bytes,
                     i > 0);
            before += p.depth * kl_round_up(v->group_out, cols);
        } else {
            const int64_t end = b.to;
            for (b.from = 0; b.from < end; b.from += cols) {
                b.to = b.from + cols;
                pack_panel(v, &p, b.group, b.col + b.from, b.own, b.raw);
                add_part(v, &b, &p, b.own, i > 0);
            }
            b.from = 0;
            b.to = end;
        }
    }
    store(v, &b);
    kl_scratch_give(&room);
}

/* ---- a kernel of one element ---- */

/* Whether the positions of the output are the elements of x, in one matrix: then the convolution is
 * a product, which reads both operands in place. *step: elements from one row to the next. */
static bool is_product(const struct conv *v, int64_t positions, int64_t *step) {
    bool found = false;
    int64_t expected = 0;
    *step = v->group_in;
    if (v->groups != 1 || v->depthwise || positions > INT32_MAX) return false;
    for (int i = AXES - 1; i >= 0; i--) {
        const struct axis *a = &v->axis[i];
        if (a->is.k != 1 || a->is.low != 0 || a->in != a->is.out) return false;
        if (a->in == 1) continue;
        if (a->is.stride != 1 || (found && a->x_step != expected)) return false;
        if (!found) *step = a->x_step;
        found = true;
        expected = a->x_step * a->in;
    }
    return true;
}

static int as_product(const struct conv *v, int64_t positions, int64_t step) {
    const struct kl_launch *l = v->l;
    const int a[] = {(int)positions, (int)v->group_in}, b[] = {(int)v->group_in, (int)v->group_out},
              c[] = {(int)positions, (int)v->group_out};
    const int64_t a_strides[] = {step, v->x_channel}, b_strides[] = {v->w_channel, v->w_out},
                  c_strides[] = {v->group_out, 1};
    struct kl_arg in[2] = {l->in[0], l->in[1]}, out = *l->out;
    const struct part only = {.n = {1, 1, 1, 1}};
    in[1].data = (char *)in[1].data + tap_offset(v, &only, 0) * (int64_t)kl_dtype_size(in[1].dtype);
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

static void describe(struct conv *v) {
    const struct kl_arg *x = &v->l->in[0], *w = &v->l->in[1], *out = v->l->out;
    const struct kl_convolution_params *p = v->l->params;
    const struct kl_conv_axis one = {1, 1, 1, 1, 0, 1, 0, 1, 0, 1};
    for (int i = 0; i < AXES; i++) v->axis[i] = (struct axis){.is = one, .in = 1, .out_all = 1};
    v->axis[0].in = v->axis[0].is.out = v->axis[0].out_all = x->dims[0];
    v->axis[0].x_step = x->strides[0];
    for (int i = 0; i < p->ndim; i++) {
        struct axis *a = &v->axis[AXES - p->ndim + i];
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
    v->depthwise = v->group_in == 1 && v->group_out == 1 && p->groups > 1;
}

static int convolve(struct conv *v) {
    struct kl_launch *l = v->l;
    int64_t positions = 1, depth = v->group_in, step;
    bool whole = true;
    for (int i = 0; i < AXES; i++) {
        positions *= v->axis[i].is.out;
        whole = whole && v->axis[i].is.out == v->axis[i].out_all;
    }
    if (whole && is_product(v, positions, &step)) return as_product(v, positions, step);
    for (int i = 1; i < AXES; i++) depth *= v->axis[i].is.k;
    if (v->depthwise) { /* a group of tasks is some channels, each a group of its own */
        const int64_t lane = KL_VECTOR / v->bytes;
        /* A long kernel, such as that of a weight's gradient, has few positions. */
        const int64_t most = (depth > DEPTHWISE_TAPS ? LONG_BYTES : DEPTHWISE_BYTES) / v->bytes;
        v->group_in = kl_min64(kl_round_up(even_part(v->groups, most), lane), v->groups);
        v->groups = kl_ceil_div(v->groups, v->group_in);
        v->group_out = v->group_in;
    }
    cut_depth(v);
    cut_positions(v, positions);
    v->cols = v->depthwise ? v->group_out : kl_min64(v->group_out, MOST_COLS);
    v->col_blocks = kl_ceil_div(v->group_out, v->cols);
    int64_t tasks = v->groups;
    for (int i = 0; i < AXES; i++) tasks *= v->axis[i].blocks;
    if (tasks * v->col_blocks < TASKS && !v->depthwise) {
        const int64_t cols = panel_cols(v);
        v->cols = kl_round_up(even_part(v->group_out, v->group_out * tasks / TASKS), cols);
        v->col_blocks = kl_ceil_div(v->group_out, v->cols);
    }
    const double work = (double)positions * (double)depth * l->out->dims[l->out->ndim - 1];
    struct kl_launch alone = {.parallel = work >= PARALLEL_FROM ? l->parallel : NULL};
    const int64_t packed = v->groups * packed_group(v);
    struct kl_scratch shared;
    const bool shares = !v->depthwise && tasks > 1 && packed <= MOST_SHARED / v->bytes;
    if (shares) {
        if (!kl_scratch_take(&shared, l, (size_t)(packed * v->bytes))) return kl_fail_nomem(l->err);
        v->packed = shared.ptr;
        kl_run_tasks(&alone, v->groups * parts_of(v) * kl_ceil_div(v->group_out, panel_cols(v)),
                     pack_task, v);
    }
    if (!atomic_load(&v->no_memory)) kl_run_tasks(&alone, tasks * v->col_blocks, conv_task, v);
    if (shares) kl_scratch_give(&shared);
    return atomic_load(&v->no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}

int kl_cpu_convolution(struct kl_launch *l) {
    const struct kl_arg *out = l->out;
    int64_t phases[AXES], n = 1;
    if (out->size == 0) return KL_OK;
    if (l->in[0].size == 0) { /* sums of padding alone, or of no channels */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
    struct conv first = {.l = l};
    describe(&first);
    for (int i = 0; i < AXES; i++) n *= phases[i] = kl_conv_phases(&first.axis[i].is);
    /* there may be positions that see zeros only */
    if (n > 1) memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
    for (int64_t at = 0; at < n; at++) {
        struct conv v = {.l = l, .type = kl_compute_dtype(out->dtype)};
        int64_t left = at;
        bool sees = true;
        v.bytes = (int)kl_dtype_size(v.type);
        describe(&v);
        for (int i = AXES - 1; i >= 0; i--) {
            sees = kl_conv_phase(&v.axis[i].is, left % phases[i]) && sees;
            left /= phases[i];
        }
        if (sees) KL_TRY(convolve(&v));
        if (!sees && n == 1) memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
    }
    return KL_OK;
}
