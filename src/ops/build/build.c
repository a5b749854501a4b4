/* build.c - the table of functions that make operations again: the column build of
 * base/op/op_list.def; and the checks of parameters that these functions share. */
#include "ops/build/build.h"

#include <string.h>

#include "ops/build/check.h"
#include "ops/ops.h"

static kl_unary_fn *const unary_builders[KL_N_OPS] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, ...) [KL_OP_##ID] = builder,
#include "base/op/op_list.def"
};

static kl_binary_fn *const binary_builders[KL_N_OPS] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, ...) [KL_OP_##ID] = builder,
#include "base/op/op_list.def"
};

int kl_rebuild_unary(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return unary_builders[b->op](out, b->in[0], b->s, err);
}

int kl_rebuild_binary(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return binary_builders[b->op](out, b->in[0], b->in[1], b->s, err);
}

enum { ANY_NUMBER = -1 };

static const struct {
    kl_build_fn *build;
    int n_in;
} rows[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    [KL_OP_##ID] = {build, n_in},
#include "base/op/op_list.def"
};

bool kl_op_can_build(enum kl_op_id op) {
    return (unsigned)op < KL_N_OPS && rows[op].build;
}

int kl_op_build(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_array *made;
    if ((unsigned)b->op >= KL_N_OPS)
        return kl_fail(err, KL_EARG, "%u is no operation; they are 0 to %d", (unsigned)b->op,
                       KL_N_OPS - 1);
    if (!rows[b->op].build)
        return kl_fail(err, KL_EUNSUPPORTED, "%s cannot be made again from its parameters",
                       kl_op_name(b->op));
    if (b->n_in < 0 || (rows[b->op].n_in != ANY_NUMBER && b->n_in != rows[b->op].n_in))
        return kl_fail(err, KL_EARG, "%d inputs are given; %s takes %d", b->n_in, kl_op_name(b->op),
                       rows[b->op].n_in);
    if (b->params_bytes && !b->params)
        return kl_fail(err, KL_EARG, "the parameters are NULL with %zu bytes", b->params_bytes);
    KL_TRY(kl_check_arrays(b->in, (size_t)b->n_in, "the inputs", err));
    KL_TRY(rows[b->op].build(b, &made, err));
    *out = made;
    return KL_OK;
}

int kl_op_make(struct kl_array **out, enum kl_op_id op, const void *params, size_t params_bytes,
               struct kl_array *const *in, int n_in, struct kl_stream *s, struct kl_error **err) {
    return kl_op_build(&(struct kl_build){.op = op,
                                          .params = params,
                                          .params_bytes = params_bytes,
                                          .in = in,
                                          .n_in = n_in,
                                          .s = s},
                       out, err);
}

/* ---- checks of parameters ---- */

int kl_build_params(const struct kl_build *b, void *to, size_t bytes, struct kl_error **err) {
    if (b->params_bytes != bytes)
        return kl_fail(err, KL_EARG, "%zu bytes of parameters; %s takes %zu", b->params_bytes,
                       kl_op_name(b->op), bytes);
    if (bytes) memcpy(to, b->params, bytes);
    return KL_OK;
}

int kl_build_no_params(const struct kl_build *b, struct kl_error **err) {
    return kl_build_params(b, NULL, 0, err);
}

int kl_build_params_list(const struct kl_build *b, void *to, size_t head, size_t entry, int room,
                         int *n, struct kl_error **err) {
    size_t bytes = b->params_bytes;
    if (bytes < head || (bytes - head) % entry)
        return kl_fail(err, KL_EARG,
                       "%zu bytes of parameters; %s takes %zu and %zu for each entry of a list",
                       bytes, kl_op_name(b->op), head, entry);
    if ((bytes - head) / entry > (size_t)room)
        return kl_fail(err, KL_EARG, "a list of %zu entries; %s takes at most %d",
                       (bytes - head) / entry, kl_op_name(b->op), room);
    memcpy(to, b->params, bytes);
    *n = (int)((bytes - head) / entry);
    return KL_OK;
}

int kl_build_count(int stated, int n, const char *what, struct kl_error **err) {
    if (stated == n) return KL_OK;
    return kl_fail(err, KL_EARG, "the parameters say %d %s; there are %d", stated, what, n);
}

int kl_build_flag(const bool *flag, struct kl_error **err) {
    unsigned char byte;
    memcpy(&byte, flag, 1); /* to read another value as a bool would be undefined */
    if (byte <= 1) return KL_OK;
    return kl_fail(err, KL_EARG, "%u stands for true or false in the parameters; 0 or 1 do",
                   (unsigned)byte);
}

int kl_build_axis(int axis, int ndim, struct kl_error **err) {
    if (axis >= 0 && axis < ndim) return KL_OK;
    return kl_fail_axis(err, axis, "axis %d is not one of %d axes, which are counted from 0", axis,
                        ndim);
}

int kl_build_axes(const int *axes, int n, int ndim, struct kl_error **err) {
    for (int i = 0; i < n; i++) KL_TRY(kl_build_axis(axes[i], ndim, err));
    return KL_OK;
}
