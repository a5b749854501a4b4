/* convolution.h - what the files share that cut a convolution into tasks (convolution.c), pack its
 * kernel (convolution_pack.c) and compute a task (convolution_task.c). */
#pragma once
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/products.h"
#include "base/op/op_params.h"
#include "base/op/phases.h"

enum {
    KL_CONVOLUTION_AXES = 4,          /* batch, and three spatial axes */
    KL_CONVOLUTION_SIDE_BYTES = 1024, /* channels of a task, where each is a group, in bytes */
    KL_CONVOLUTION_LANES = 16         /* partial sums of an output channel, where these are few */
};

/* One of the axes batch, z, y, x: extents of x, of the output and of the kernel, and how positions
 * meet elements of x. The axis of the batch has a kernel of one element. */
struct kl_convolution_axis {
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

struct kl_convolution {
    struct kl_launch *l;
    enum kl_dtype type; /* the compute type */
    int bytes;
    struct kl_convolution_axis axis[KL_CONVOLUTION_AXES];
    /* Each channel, or group of `each` channels, has a kernel of its own, and vectors run along the
     * channels of several groups. */
    bool depthwise;
    int64_t each;
    bool in_place; /* each channel is a group, and tasks copy neither x nor results */
    bool dots;     /* output channels are few, and vectors run along the input channels (dots.h) */
    int64_t groups, group_in, group_out; /* groups of tasks, and the channels of each */
    int64_t channels, channel_parts;     /* input channels in one part */
    int64_t x_channel, w_channel, w_out; /* strides */
    int tiled, rows;                     /* the axis along which tiles run, and their rows */
    int64_t cols, col_blocks;            /* output channels of a task */
    char *packed;                        /* w, packed for all tasks; or NULL */
    _Atomic(bool) no_memory;
};

/* One part of the kernel: its first element and number of elements along each axis, and its
 * channels. */
struct kl_convolution_part {
    int64_t first[KL_CONVOLUTION_AXES], n[KL_CONVOLUTION_AXES], channel, channels, depth;
};

/* Output channels of a packed panel. */
static inline int64_t kl_convolution_panel(const struct kl_convolution *v) {
    return 2 * KL_VECTOR / v->bytes;
}
/* Bytes of the part of x that a block copies; output positions of a block. */
static inline int64_t kl_convolution_window(const struct kl_convolution *v) {
    int64_t n = kl_round_up(v->channels, v->depthwise ? KL_VECTOR / v->bytes : 1) * v->bytes;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) n *= v->axis[i].slots;
    return n;
}

static inline int64_t kl_convolution_positions(const struct kl_convolution *v) {
    int64_t n = 1;
    for (int i = 0; i < KL_CONVOLUTION_AXES; i++) n *= v->axis[i].block;
    return n;
}

/* ---- convolution_pack.c ---- */
/* The parts into which kernel and channels are cut, and one of them. */
int64_t kl_convolution_parts(const struct kl_convolution *v);
struct kl_convolution_part kl_convolution_part_of(const struct kl_convolution *v, int64_t index);
/* Where element `tap` of a part is in w. */
int64_t kl_convolution_tap(const struct kl_convolution *v, const struct kl_convolution_part *p,
                           int64_t tap);
/* Copies n elements of an operand, which are `step` apart, to the compute type. */
void kl_convolution_take_run(const struct kl_convolution *v, const struct kl_arg *arg,
                             int64_t offset, int64_t step, int64_t n, char *to);
/* Packs output channels [col, col + panel) of a group, as far as there are, for one part: for each
 * element of the kernel and each channel one row. raw has room for a panel of v->channels rows. */
void kl_convolution_pack_panel(const struct kl_convolution *v, const struct kl_convolution_part *p,
                               int64_t group, int64_t col, char *to, char *raw);
/* Elements of the packed kernel of one group. */
int64_t kl_convolution_packed(const struct kl_convolution *v);
/* A task of kl_run_tasks, with v the convolution: packs one panel of w. */
void kl_convolution_pack(void *v, int64_t task);
/* ---- convolution_task.c ---- */
/* The same: computes one block. */
void kl_convolution_task(void *v, int64_t task);
