/* convolution_task.c - one task of a convolution: copies what a block of output
 * positions sees of x, and runs tiles over it. convolution.c cuts the work. */
#include "backend/cpu/convolution/convolution.h"

/* The elements of the copied part of x that a position reads: runs of contiguous elements. */
struct window {
    int64_t runs, length;
    int64_t *at; /* where each begins, relative to the position */
};

#define T float
#define LANES (KL_VECTOR / 4)
#define NAME f32
/* defines add_run_f32, direct_rows_f32, direct_f32 */
#include "backend/cpu/convolution/direct.inc"
#define T double
#define LANES (KL_VECTOR / 8)
#define NAME f64
/* defines add_run_f64, direct_rows_f64, direct_f64 */
#include "backend/cpu/convolution/direct.inc"

#include "backend/cpu/convolution/depthwise.h"

/* Lane `at` of a vector goes to lane 0 and so on: AT is a function of the lane. */
#define FOUR(from, i) AT(from, i), AT(from + 1, i), AT(from + 2, i), AT(from + 3, i)
#if defined __AVX512F__
#define WIDE 1
#define SPREAD(v, i) __builtin_shufflevector(v, v, FOUR(0, i), FOUR(4, i), FOUR(8, i), FOUR(12, i))
#elif defined __AVX2__
#define WIDE 1
#define SPREAD(v, i) __builtin_shufflevector(v, v, FOUR(0, i), FOUR(4, i))
#else
#define WIDE 0
#define SPREAD(v, i) __builtin_shufflevector(v, v, FOUR(0, i))
#endif
#define GROUP 2
/* defines side_vectors_2, side_group_2 */
#include "backend/cpu/convolution/groups.inc"
#define GROUP 4
/* defines side_vectors_4, side_group_4 */
#include "backend/cpu/convolution/groups.inc"
#if WIDE
#define GROUP 8
/* defines side_vectors_8, side_group_8 */
#include "backend/cpu/convolution/groups.inc"
#endif

/* One position of groups side by side. */
typedef void side_fn(const struct window *w, int64_t n, const void *a, const void *b, void *c,
                     bool add);
static side_fn *side_of(const struct kl_convolution *v) {
    switch (v->each) {
    case 2: return side_group_2;
    case 4: return side_group_4;
#if WIDE
    default: return side_group_8;
#else
    default: return NULL; /* is_few: vectors do not have whole groups */
#endif
    }
}

#include "backend/cpu/convolution/dots.h"

/* The rows of a tile for `left` positions. */
static int tile_rows(const struct kl_convolution *v, int64_t left) {
    return left <= KL_TILE_FEW ? KL_TILE_FEW : v->rows;
}

/* ---- one task ---- */

struct block {
    int64_t group, col, cols; /* output channels, within the group */
    int64_t from, to; /* the output channels, in whole panels, of the kernel packed at present */
    int64_t first[KL_CONVOLUTION_AXES], n[KL_CONVOLUTION_AXES]; /* positions */
    int64_t *source[KL_CONVOLUTION_AXES]; /* for each slot: the element of x, or -1 */
    int64_t at_slot[KL_CONVOLUTION_AXES]; /* elements from one slot to the next */
    char *window, *sums, *own, *raw;
    int64_t pitch; /* sums from one position to the next */
    struct window w;
    struct side side; /* the same for channels that are groups */
};

/* Fills the table of slots of one axis. */
static void find_sources(const struct kl_convolution_axis *a, int64_t first, int64_t tap,
                         int64_t *source) {
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
static void fill_line(const struct kl_convolution *v, const struct block *b,
                      const struct kl_convolution_part *p, int64_t offset, char *to) {
    const struct kl_convolution_axis *a = &v->axis[KL_CONVOLUTION_AXES - 1];
    const struct kl_arg *x = &v->l->in[0];
    const int64_t each = b->at_slot[KL_CONVOLUTION_AXES - 1],
                  *source = b->source[KL_CONVOLUTION_AXES - 1];
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
            kl_convolution_take_run(v, x, offset + source[s] * a->x_step, v->x_channel,
                                    n * p->channels, dst);
        if (each > p->channels)
            memset(dst + p->channels * v->bytes, 0, (size_t)((each - p->channels) * v->bytes));
        s += n;
    }
}

/* Copies what the positions of the block see of x through one part of the kernel. */
static void fill(const struct kl_convolution *v, struct block *b,
                 const struct kl_convolution_part *p) {
    const struct kl_convolution_axis *a = v->axis;
    const int64_t channel = b->group * v->group_in + p->channel;
    const int64_t lane = v->depthwise ? KL_VECTOR / v->bytes : 1;
    b->at_slot[KL_CONVOLUTION_AXES - 1] = kl_round_up(p->channels, lane);
    for (int i = KL_CONVOLUTION_AXES - 2; i >= 0; i--)
        b->at_slot[i] = b->at_slot[i + 1] * a[i + 1].slots;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++)
        find_sources(&a[i], b->first[i], p->first[i], b->source[i]);
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
static void find_runs(const struct kl_convolution *v, struct block *b,
                      const struct kl_convolution_part *p) {
    const struct kl_convolution_axis *a = v->axis;
    const bool lines = !v->depthwise && a[KL_CONVOLUTION_AXES - 1].per_tap == 1;
    int64_t *at = b->w.at;
    b->w.length = p->channels * (lines ? p->n[3] : 1);
    for (int64_t z = 0; z < p->n[1]; z++)
        for (int64_t y = 0; y < p->n[2]; y++)
            for (int64_t x = 0; x < (lines ? 1 : p->n[3]); x++)
                *at++ = z * a[1].per_tap * b->at_slot[1] + y * a[2].per_tap * b->at_slot[2] +
                        x * a[3].per_tap * b->at_slot[3];
    b->w.runs = at - b->w.at;
}

/* The lines of the kernel in the copied part of x, for channels that are groups. */
static void find_lines(const struct kl_convolution *v, struct block *b,
                       const struct kl_convolution_part *p) {
    const struct kl_convolution_axis *a = v->axis;
    struct side *s = &b->side;
    s->n_lines = 0;
    s->taps = p->n[3];
    s->n = s->channels = b->pitch;
    for (int64_t z = 0; z < p->n[1]; z++)
        for (int64_t y = 0; y < p->n[2]; y++)
            s->line[s->n_lines++] =
                (struct side_line){.at = b->window + (z * a[1].per_tap * b->at_slot[1] +
                                                      y * a[2].per_tap * b->at_slot[2]) *
                                                         v->bytes,
                                   .step = a[3].per_out * b->at_slot[3] * v->bytes,
                                   .tap = a[3].per_tap * b->at_slot[3] * v->bytes};
}

/* Adds one part for the positions of a block along the tiled axis, which begin at a and c. */
static void add_tiles(const struct kl_convolution *v, const struct block *b,
                      const struct kl_convolution_part *p, const char *packed, const char *a,
                      char *c, bool add) {
    const struct kl_convolution_axis *t = &v->axis[v->tiled];
    const int64_t step = t->per_out * b->at_slot[v->tiled], cols = kl_convolution_panel(v);
    int64_t between = b->pitch;
    for (int i = KL_CONVOLUTION_AXES - 1; i > v->tiled; i--) between *= v->axis[i].block;
    if (v->depthwise && v->each == 1) {
        (v->type == KL_F32 ? side_f32 : side_f64)(&b->side, b->n[v->tiled], a - b->window, packed,
                                                  c, between * v->bytes, add);
        return;
    }
    if (v->depthwise) {
        side_fn *side = side_of(v);
        for (int64_t i = 0; i < b->n[v->tiled]; i++)
            side(&b->w, b->pitch, a + i * step * v->bytes, packed, c + i * between * v->bytes, add);
        return;
    }
    if (v->dots) {
        for (int64_t o = 0; o < b->cols; o++)
            dots(&b->w, b->n[v->tiled], (const float *)(const void *)a, step,
                 (const float *)(const void *)packed + o * p->depth,
                 (float *)(void *)c + o * DOT_LANES, between, add);
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
static void add_part(const struct kl_convolution *v, const struct block *b,
                     const struct kl_convolution_part *p, const char *packed, bool add) {
    int64_t n[KL_CONVOLUTION_AXES], at[KL_CONVOLUTION_AXES];
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) n[i] = i == v->tiled ? 1 : b->n[i];
    for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (at[1] = 0; at[1] < n[1]; at[1]++)
            for (at[2] = 0; at[2] < n[2]; at[2]++)
                for (at[3] = 0; at[3] < n[3]; at[3]++) {
                    int64_t slot = 0, row = 0;
                    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) {
                        slot += at[i] * v->axis[i].per_out * b->at_slot[i];
                        row = row * v->axis[i].block + at[i];
                    }
                    add_tiles(v, b, p, packed, b->window + slot * v->bytes,
                              b->sums + row * b->pitch * v->bytes, add);
                }
}

/* Where the results of a line of positions along x begin. */
static char *line_of_out(const struct kl_convolution *v, const struct block *b,
                         const int64_t place[3]) {
    const struct kl_arg *out = v->l->out;
    int64_t at = 0;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++)
        at = at * v->axis[i].out_all + v->axis[i].is.out_first +
             (b->first[i] + (i < 3 ? place[i] : 0)) * v->axis[i].is.out_step;
    return (char *)out->data + (at * out->dims[out->ndim - 1] + b->group * v->group_out + b->col) *
                                   (int64_t)kl_dtype_size(out->dtype);
}

static void store(const struct kl_convolution *v, const struct block *b) {
    const struct kl_arg *out = v->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    const struct kl_convolution_axis *a = v->axis, *x = &a[KL_CONVOLUTION_AXES - 1];
    const int64_t o = out->dims[out->ndim - 1];
    for (int64_t n = 0; n < b->n[0]; n++)
        for (int64_t z = 0; z < b->n[1]; z++)
            for (int64_t y = 0; y < b->n[2]; y++) {
                const int64_t place[] = {n, z, y},
                              row = ((n * a[1].block + z) * a[2].block + y) * x->block;
                char *to = line_of_out(v, b, place);
                const char *from = b->sums + row * b->pitch * v->bytes;
                for (int64_t i = 0; i < b->n[KL_CONVOLUTION_AXES - 1]; i++) {
                    if (out->dtype == v->type)
                        copy_few(to, from, b->cols * item);
                    else
                        kl_convert(out->dtype, to, v->type, from, b->cols);
                    to += x->is.out_step * o * item;
                    from += b->pitch * v->bytes;
                }
            }
}

/* w for channels or groups of their own: for each element of the kernel, and each channel of a
 * group, one row of the task's channels. */
static void pack_depthwise(const struct kl_convolution *v, const struct kl_convolution_part *p,
                           const struct block *b, char *to) {
    const int64_t n = p->n[1] * p->n[2] * p->n[3];
    memset(to, 0, (size_t)(n * v->each * b->pitch * v->bytes));
    for (int64_t tap = 0; tap < n; tap++)
        for (int64_t i = 0; i < v->each; i++, to += b->pitch * v->bytes)
            kl_convolution_take_run(v, &v->l->in[1],
                                    kl_convolution_tap(v, p, tap) +
                                        (b->group * v->group_in + p->channel) * v->w_out +
                                        i * v->w_channel,
                                    v->w_out, p->channels, to);
}

/* w for few output channels: the elements of each, in the order in which positions read x. */
static void pack_dots(const struct kl_convolution *v, const struct kl_convolution_part *p,
                      const struct block *b, char *to) {
    const int64_t n = p->n[1] * p->n[2] * p->n[3];
    for (int64_t o = 0; o < b->cols; o++)
        for (int64_t tap = 0; tap < n; tap++, to += p->channels * v->bytes)
            kl_convolution_take_run(v, &v->l->in[1],
                                    kl_convolution_tap(v, p, tap) +
                                        (b->group * v->group_out + b->col + o) * v->w_out +
                                        p->channel * v->w_channel,
                                    v->w_channel, p->channels, to);
}

/* ---- channels that are groups, read and written in place ---- */

/* Finds the lines of the kernel for the positions from `x` of the block along x on, or, with
 * `single`, its elements one by one for this position. Outside of x are zeros. */
static void find_in_place(const struct kl_convolution *v, struct block *b, int64_t n, int64_t z,
                          int64_t y, int64_t x, bool single) {
    static const char zeros[KL_CONVOLUTION_SIDE_BYTES];
    const struct kl_convolution_axis *a = v->axis;
    const struct side_line none = {.at = zeros};
    struct side_line *line = b->side.line;
    const char *from =
        (const char *)v->l->in[0].data +
        (b->source[0][n * a[0].per_out] * a[0].x_step + b->group * v->group_in) * v->bytes;
    b->side.taps = single ? 1 : a[3].is.k;
    for (int64_t kz = 0; kz < a[1].is.k; kz++)
        for (int64_t ky = 0; ky < a[2].is.k; ky++) {
            const int64_t sz = b->source[1][z * a[1].per_out + kz * a[1].per_tap],
                          sy = b->source[2][y * a[2].per_out + ky * a[2].per_tap],
                          offset = sz * a[1].x_step + sy * a[2].x_step;
            for (int64_t kx = 0; kx < (single ? a[3].is.k : 1); kx++) {
                const int64_t sx = b->source[3][x * a[3].per_out + kx * a[3].per_tap];
                *line++ =
                    sz < 0 || sy < 0 || sx < 0
                        ? none
                        : (struct side_line){.at = from + (offset + sx * a[3].x_step) * v->bytes,
                                             .step = a[3].is.stride * a[3].x_step * v->bytes,
                                             .tap = a[3].is.dilation * a[3].x_step * v->bytes};
            }
        }
    b->side.n_lines = line - b->side.line;
}

/* The positions [*left, *right) of the block along x that see no element outside of x there. */
static void find_inner(const struct kl_convolution *v, const struct block *b, int64_t *left,
                       int64_t *right) {
    const struct kl_convolution_axis *a = &v->axis[3];
    const int64_t last = a->in - 1 + a->is.low - (a->is.k - 1) * a->is.dilation;
    const int64_t first = a->is.low > 0 ? kl_ceil_div(a->is.low, a->is.stride) : 0,
                  end = last < 0 ? 0 : last / a->is.stride + 1;
    *left = kl_min64(first > b->first[3] ? first - b->first[3] : 0, b->n[3]);
    *right = kl_min64(end > b->first[3] ? end - b->first[3] : 0, b->n[3]);
    if (*right < *left) *right = *left;
}

/* Positions [from, end) of the line along x whose results begin at `to`. With `single`, some of
 * the elements that they see may be outside of x. A long kernel and what several positions see
 * stay in the nearest cache for a few channels at a time only. */
static void line_in_place(const struct kl_convolution *v, struct block *b, const int64_t place[3],
                          int64_t from, int64_t end, bool single, char *to) {
    enum { LONG_KERNEL = 16, FEW = 4 * KL_VECTOR };
    const int64_t pitch = v->axis[3].is.out_step * v->l->out->dims[v->l->out->ndim - 1] * v->bytes,
                  all = b->cols * v->bytes;
    for (int64_t x = from; x < end; x += single ? 1 : end - from) {
        find_in_place(v, b, place[0], place[1], place[2], x, single);
        const bool cut = !single && b->side.n_lines * b->side.taps >= LONG_KERNEL;
        for (int64_t at = 0, some; at < all; at += some) {
            some = cut && all - at >= FEW + KL_VECTOR ? FEW : all - at;
            b->side.channels = some / v->bytes;
            (v->type == KL_F32 ? side_f32 : side_f64)(&b->side, single ? 1 : end - from, at,
                                                      b->own + at, to + x * pitch + at, pitch,
                                                      false);
        }
    }
}

static void convolve_in_place(const struct kl_convolution *v, struct block *b) {
    int64_t left, right;
    b->side.n = b->pitch;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++)
        find_sources(&v->axis[i], b->first[i], 0, b->source[i]);
    find_inner(v, b, &left, &right);
    for (int64_t n = 0; n < b->n[0]; n++)
        for (int64_t z = 0; z < b->n[1]; z++)
            for (int64_t y = 0; y < b->n[2]; y++) {
                const int64_t place[] = {n, z, y};
                char *to = line_of_out(v, b, place);
                line_in_place(v, b, place, 0, left, true, to);
                line_in_place(v, b, place, left, right, false, to);
                line_in_place(v, b, place, right, b->n[3], true, to);
            }
}

/* The room that a task needs, in bytes; with `room`, divides it. */
static int64_t divide(const struct kl_convolution *v, struct block *b, char *room) {
    const struct kl_convolution_axis *a = v->axis;
    const int64_t cols = kl_convolution_panel(v),
                  depth = v->channels * a[1].part * a[2].part * a[3].part;
    const int64_t taps = a[1].part * a[2].part * a[3].part;
    int64_t at = 0, size[9], n = 0;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) size[n++] = a[i].slots * (int64_t)sizeof(int64_t);
    size[n++] = taps * (int64_t)sizeof(int64_t);
    size[n++] = v->in_place ? 0 : kl_convolution_window(v);
    size[n++] = v->in_place ? 0 : kl_convolution_positions(v) * b->pitch * v->bytes;
    size[n++] =
        v->packed ? 0 : (v->depthwise ? taps * v->each * b->pitch : cols * depth) * v->bytes;
    size[n++] = v->depthwise ? taps * (int64_t)sizeof(struct side_line) : 0;
    char *place[9];
    for (int i = 0; i < n; i++) {
        place[i] = room ? room + at : NULL;
        at += kl_round_up(size[i], 64);
    }
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) b->source[i] = (int64_t *)(void *)place[i];
    b->w.at = (int64_t *)(void *)place[4];
    b->window = place[5];
    b->sums = place[6];
    b->own = place[7];
    b->side.line = (struct side_line *)(void *)place[8];
    b->raw = room ? room + at : NULL;
    return at + (v->packed || v->depthwise ? 0 : v->channels * cols * v->bytes + KL_VECTOR);
}

void kl_convolution_task(void *arg, int64_t task) {
    struct kl_convolution *v = arg;
    struct block b;
    struct kl_scratch room;
    const int64_t cols = kl_convolution_panel(v);
    b.col = task % v->col_blocks * v->cols;
    task /= v->col_blocks;
    for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
        const struct kl_convolution_axis *a = &v->axis[i];
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
    if (v->dots) b.pitch = b.cols * DOT_LANES;
    b.from = 0;
    b.to = b.pitch;
    if (!kl_scratch_take(&room, v->l, (size_t)divide(v, &b, NULL))) {
        atomic_store(&v->no_memory, true);
        return;
    }
    divide(v, &b, room.ptr);
    int64_t before = 0;
    for (int64_t i = 0, n = kl_convolution_parts(v); i < n; i++) {
        struct kl_convolution_part p = kl_convolution_part_of(v, i);
        if (v->depthwise) p.channels = b.cols;
        if (v->in_place) { /* there is one part */
            pack_depthwise(v, &p, &b, b.own);
            convolve_in_place(v, &b);
            break;
        }
        fill(v, &b, &p);
        find_runs(v, &b, &p);
        if (v->depthwise) find_lines(v, &b, &p);
        if (v->depthwise) {
            pack_depthwise(v, &p, &b, b.own);
            add_part(v, &b, &p, b.own, i > 0);
        } else if (v->dots) {
            pack_dots(v, &p, &b, b.own);
            add_part(v, &b, &p, b.own, i > 0);
        } else if (v->packed) {
            add_part(v, &b, &p,
                     v->packed +
                         (b.group * kl_convolution_packed(v) + before + b.col * p.depth) * v->bytes,
                     i > 0);
            before += p.depth * kl_round_up(v->group_out, cols);
        } else {
            const int64_t end = b.to;
            for (b.from = 0; b.from < end; b.from += cols) {
                b.to = b.from + cols;
                kl_convolution_pack_panel(v, &p, b.group, b.col + b.from, b.own, b.raw);
                add_part(v, &b, &p, b.own, i > 0);
            }
            b.from = 0;
            b.to = end;
        }
    }
    for (int64_t i = 0; v->dots && i < kl_convolution_positions(v); i++)
        join_dots((float *)(void *)b.sums + i * b.pitch, b.cols);
    if (!v->in_place) store(v, &b);
    kl_scratch_give(&room);
}
