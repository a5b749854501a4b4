/* convolution_pack.c - the parts into which a convolution's kernel and channels are cut, and w,
 * packed part by part in the order in which tasks (convolution_task.c) read it. */
#include "backend/cpu/convolution/convolution.h"

int64_t kl_convolution_parts(const struct kl_convolution *v) {
    int64_t n = v->channel_parts;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) n *= v->axis[i].parts;
    return n;
}

struct kl_convolution_part kl_convolution_part_of(const struct kl_convolution *v, int64_t index) {
    struct kl_convolution_part p;
    for (int i = KL_CONVOLUTION_AXES - 1; i >= 0; i--) {
        const struct kl_convolution_axis *a = &v->axis[i];
        p.first[i] = index % a->parts * a->part;
        p.n[i] = kl_min64(a->part, a->is.k - p.first[i]);
        index /= a->parts;
    }
    p.channel = index * v->channels;
    p.channels = kl_min64(v->channels, v->group_in - p.channel);
    p.depth = p.channels * p.n[1] * p.n[2] * p.n[3];
    return p;
}

int64_t kl_convolution_tap(const struct kl_convolution *v, const struct kl_convolution_part *p,
                           int64_t tap) {
    int64_t offset = 0;
    for (int i = KL_CONVOLUTION_AXES - 1; i > 0; i--) {
        const struct kl_convolution_axis *a = &v->axis[i];
        const int64_t k = a->is.k_first + (p->first[i] + tap % p->n[i]) * a->is.k_step;
        offset += a->w_first + k * a->w_step;
        tap /= p->n[i];
    }
    return offset;
}

void kl_convolution_take_run(const struct kl_convolution *v, const struct kl_arg *arg,
                             int64_t offset, int64_t step, int64_t n, char *to) {
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

void kl_convolution_pack_panel(const struct kl_convolution *v, const struct kl_convolution_part *p,
                               int64_t group, int64_t col, char *to, char *raw) {
    const struct kl_arg *w = &v->l->in[1];
    const bool f32 = v->type == KL_F32, converts = w->dtype != v->type;
    const int64_t panel = kl_convolution_panel(v), width = kl_min64(panel, v->group_out - col);
    const int64_t n_taps = p->n[1] * p->n[2] * p->n[3];
    for (int64_t tap = 0; tap < n_taps; tap++, to += p->channels * panel * v->bytes) {
        int64_t offset = kl_convolution_tap(v, p, tap) + (group * v->group_out + col) * v->w_out +
                         p->channel * v->w_channel;
        const char *from = (const char *)w->data + offset * v->bytes;
        if (!converts && v->w_out == 1) {
            (f32 ? kl_spread_f32 : kl_spread_f64)(to, from, v->w_channel, width, p->channels, panel,
                                                  0);
        } else if (!converts && v->w_channel == 1) {
            (f32 ? kl_panel_f32 : kl_panel_f64)(to, from, v->w_out, width, p->channels, panel);
        } else {
            for (int64_t o = 0; o < width; o++)
                kl_convolution_take_run(v, w, offset + o * v->w_out, v->w_channel, p->channels,
                                        raw + o * p->channels * v->bytes);
            (f32 ? kl_panel_f32 : kl_panel_f64)(to, raw, p->channels, width, p->channels, panel);
        }
    }
}

/* Elements before part `index` of a group in the packed kernel. All parts have panels for the same
 * output channels. */
static int64_t packed_before(const struct kl_convolution *v, int64_t index) {
    int64_t rows = 0;
    for (int64_t i = 0; i < index; i++) rows += kl_convolution_part_of(v, i).depth;
    return rows * kl_round_up(v->group_out, kl_convolution_panel(v));
}

int64_t kl_convolution_packed(const struct kl_convolution *v) {
    int64_t depth = v->group_in;
    for (int i = 1; i < KL_CONVOLUTION_AXES; i++) depth *= v->axis[i].is.k;
    return depth * kl_round_up(v->group_out, kl_convolution_panel(v));
}

void kl_convolution_pack(void *arg, int64_t task) {
    struct kl_convolution *v = arg;
    const int64_t cols = kl_convolution_panel(v), panels = kl_ceil_div(v->group_out, cols);
    const int64_t parts = kl_convolution_parts(v), panel = task % panels,
                  index = task / panels % parts;
    const int64_t group = task / panels / parts;
    const struct kl_convolution_part p = kl_convolution_part_of(v, index);
    struct kl_scratch raw;
    if (!kl_scratch_take(&raw, v->l, (size_t)(v->channels * cols * v->bytes) + KL_VECTOR)) {
        atomic_store(&v->no_memory, true);
        return;
    }
    char *to = v->packed + (group * kl_convolution_packed(v) + packed_before(v, index) +
                            panel * cols * p.depth) *
                               v->bytes;
    kl_convolution_pack_panel(v, &p, group, panel * cols, to, raw.ptr);
    kl_scratch_give(&raw);
}
