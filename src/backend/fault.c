/* fault.c - see fault.h. */
#include "backend/fault.h"

#include <stdio.h>

#include "base/op/index.h"
#include "base/op/launch.h"
#include "base/value/out_of_range.h"

/* Writes "at position 7" or "lane 3, at position 7"; returns the position within the lane. */
static int64_t place_of(char *text, size_t size, struct kl_origin origin, enum kl_op_id op,
                        int n_in, struct kl_tensor *const *in, int64_t position) {
    const int64_t in_one = origin.lanes > 0 ? kl_fault_positions(op, n_in, in) / origin.lanes : 0;
    if (in_one == 0) {
        snprintf(text, size, "at position %lld", (long long)position);
        return position;
    }
    snprintf(text, size, "lane %lld, at position %lld", (long long)(position / in_one),
             (long long)(position % in_one));
    return position % in_one;
}

/* The end of a message: how a program goes on after such an index. */
static const char *way_on(char *text, size_t size, enum kl_op_id op, struct kl_origin origin) {
    const bool take =
        (op == KL_OP_GATHER && origin.alias <= KL_ALIAS_TAKE) || op == KL_OP_GATHER_AXIS;
    const char *unknown = kl_out_of_range_unknown();
    if (kl_out_of_range_zero()) return "";
    if (unknown)
        snprintf(text, size, "; KEEL_OUT_OF_RANGE=%s is neither error nor zero", unknown);
    else
        snprintf(text, size, "; to go on all the same: %sKEEL_OUT_OF_RANGE=zero",
                 take ? "take with mode \"clip\", \"wrap\" or \"fill\", or " : "");
    return text;
}

static int fail(struct kl_error **err, enum kl_op_id op, const char *name, struct kl_origin origin,
                const void *params, int n_in, struct kl_tensor *const *in, int64_t position,
                int64_t stream,
                bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                void *ctx) {
    struct kl_fault_site site;
    char place[64], text[128];
    const int64_t in_lane = place_of(place, sizeof place, origin, op, n_in, in, position);
    const char *on = way_on(text, sizeof text, op, origin);
    struct kl_error_info info = {.code = KL_EINDEX,
                                 .op = name,
                                 .has = KL_HAS_POSITION | KL_HAS_STREAM,
                                 .position = in_lane,
                                 .stream = stream};
    if (!kl_fault_locate(op, params, n_in, in, position, read, ctx, &site))
        return kl_fail_info(err, &info, "%s: an index is out of range (%s)%s", name, place, on);
    info.has |= KL_HAS_INDEX | KL_HAS_AXIS | KL_HAS_SIZE;
    info.index = site.index;
    info.axis = site.axis - origin.lane_axes;
    info.axis_size = site.axis_size;
    char index[24];
    if (site.above)
        snprintf(index, sizeof index, "%llu", (unsigned long long)site.above);
    else
        snprintf(index, sizeof index, "%lld", (long long)site.index);
    if (site.extent > 1)
        return kl_fail_info(err, &info,
                            "%s: a slice of %lld from index %s runs off axis %lld of size %lld "
                            "(%s)%s",
                            name, (long long)site.extent, index, (long long)info.axis,
                            (long long)site.axis_size, place, on);
    return kl_fail_info(err, &info,
                        "%s: index %s is out of range for axis %lld of size %lld (%s)%s", name,
                        index, (long long)info.axis, (long long)site.axis_size, place, on);
}

/* Says how the matrix fails; the text follows its name. */
static const char *wrong_with(enum kl_op_id op, int64_t kind) {
    if (kind == KL_MATRIX_HAS_NAN) return "has an element that is NaN or infinite";
    switch (op) {
    case KL_OP_CHOLESKY: return "is not positive definite";
    case KL_OP_SVD:
    case KL_OP_PINV: return "has singular values to which the iterations did not converge";
    case KL_OP_EIGH:
    case KL_OP_EIG: return "has eigenvalues to which the iterations did not converge";
    default: return "is singular";
    }
}

static int fail_matrix(struct kl_error **err, enum kl_op_id op, const char *name,
                       struct kl_origin origin, int n_in, struct kl_tensor *const *in,
                       int64_t position, int64_t stream) {
    const int64_t matrices = kl_fault_positions(op, n_in, in) / KL_MATRIX_POSITIONS;
    const int64_t in_lane = origin.lanes > 0 ? matrices / origin.lanes : matrices;
    const int64_t matrix = position / KL_MATRIX_POSITIONS;
    const char *wrong = wrong_with(op, position % KL_MATRIX_POSITIONS);
    char lane[48] = "", number[64] = "the matrix";
    if (in_lane != matrices)
        snprintf(lane, sizeof lane, "lane %lld, ", (long long)(matrix / in_lane));
    if (in_lane > 1)
        snprintf(number, sizeof number, "matrix %lld of the batch", (long long)(matrix % in_lane));
    struct kl_error_info info = {.code = KL_EMATRIX,
                                 .op = name,
                                 .has = KL_HAS_INDEX | KL_HAS_STREAM,
                                 .index = in_lane ? matrix % in_lane : matrix,
                                 .stream = stream};
    return kl_fail_info(err, &info, "%s: %s%s %s", name, lane, number, wrong);
}

int kl_fault_fail(struct kl_error **err, enum kl_op_id op, const char *name,
                  struct kl_origin origin, const void *params, int n_in,
                  struct kl_tensor *const *in, int64_t position, int64_t stream,
                  bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                  void *ctx) {
    struct kl_error *first = NULL;
    if (kl_op_flags(op) & KL_OPF_OF_MATRICES)
        return fail_matrix(err, op, name, origin, n_in, in, position, stream);
    if (!kl_out_of_range_zero())
        return fail(err, op, name, origin, params, n_in, in, position, stream, read, ctx);
    if (!kl_out_of_range_count()) return KL_OK;
    fail(&first, op, name, origin, params, n_in, in, position, stream, read, ctx);
    kl_out_of_range_first(first);
    return KL_OK;
}

int64_t kl_fault_positions(enum kl_op_id op, int n_in, struct kl_tensor *const *in) {
    if (kl_op_flags(op) & KL_OPF_OF_MATRICES) {
        int64_t batch = 1;
        for (int i = 0; i < in[0]->ndim - 2; i++) batch *= in[0]->dims[i];
        return batch * KL_MATRIX_POSITIONS;
    }
    int first = op == KL_OP_GATHER || op == KL_OP_GATHER_AXIS ? 1 : 2;
    int ndim = 0;
    for (int i = first; i < n_in; i++)
        if (in[i]->ndim > ndim) ndim = in[i]->ndim;
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) { /* axis d, counted from the last */
        int extent = 1;
        for (int i = first; i < n_in; i++)
            if (d < in[i]->ndim && in[i]->dims[in[i]->ndim - 1 - d] != 1)
                extent = in[i]->dims[in[i]->ndim - 1 - d];
        n *= extent;
    }
    return n;
}
