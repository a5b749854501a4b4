/* create.c - arrays from parameters: full, zeros, ones, arange, linspace. */
#include <limits.h>
#include <math.h>

#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

/* A new row-major array filled with vals, which are converted and broadcast. */
static int fill(struct kl_array **out, int ndim, const int *dims, struct kl_array *vals,
                enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *view;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_broadcast_view(&view, vals, ndim, dims, err));
    int rc = kl_map_op(out, vals->t.dtype == dtype ? KL_OP_COPY : KL_OP_CAST, &view, 1, NULL, dtype,
                       s, err);
    kl_array_release(view);
    return rc;
}

static int fill_number(struct kl_array **out, int ndim, const int *dims, double x,
                       enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *scalar;
    KL_TRY(kl_array_new_scalar(&scalar, x, dtype, err));
    int rc = fill(out, ndim, dims, scalar, dtype, s, err);
    kl_array_release(scalar);
    return rc;
}

static int full_number(struct kl_array **out, const int *shape, size_t shape_num, double x,
                       int dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, (enum kl_dtype)dtype, NULL, err));
    return fill_number(out, to.ndim, to.dims, x, (enum kl_dtype)dtype, s, err);
}

int kl_zeros(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
             struct kl_stream *s, struct kl_error **err) {
    return full_number(out, shape, shape_num, 0, dtype, s, err);
}

int kl_ones(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
            struct kl_stream *s, struct kl_error **err) {
    return full_number(out, shape, shape_num, 1, dtype, s, err);
}

int kl_zeros_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    KL_DEFER(ZEROS_LIKE, a);
    KL_TRY(kl_check_array(a, "a", err));
    return fill_number(out, a->t.ndim, a->t.dims, 0, a->t.dtype, s, err);
}

int kl_ones_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err) {
    KL_DEFER(ONES_LIKE, a);
    KL_TRY(kl_check_array(a, "a", err));
    return fill_number(out, a->t.ndim, a->t.dims, 1, a->t.dtype, s, err);
}

int kl_full(struct kl_array **out, const int *shape, size_t shape_num, struct kl_array *vals,
            int dtype, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FULL, shape, shape_num, vals, dtype);
    struct kl_shape to;
    KL_TRY(kl_check_array(vals, "vals", err));
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, (enum kl_dtype)dtype, NULL, err));
    return fill(out, to.ndim, to.dims, vals, (enum kl_dtype)dtype, s, err);
}

int kl_full_like(struct kl_array **out, struct kl_array *a, struct kl_array *vals, int dtype,
                 struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FULL_LIKE, a, vals, dtype);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(vals, "vals", err));
    KL_TRY(kl_check_dtype(dtype, err));
    return fill(out, a->t.ndim, a->t.dims, vals, (enum kl_dtype)dtype, s, err);
}

/* Integer dtypes truncate both ends of the first step, start and start + step. */
static int truncate_steps(struct kl_arange_params *p, struct kl_error **err) {
    double next = p->start + p->step;
    if (!(fabs(p->start) < 0x1p63 && fabs(next) < 0x1p63))
        return kl_fail(err, KL_EARG, "start %g with step %g does not fit in 64-bit integers",
                       p->start, p->step);
    p->start = trunc(p->start);
    p->step = trunc(next) - p->start;
    return fabs(p->step) < 0x1p63
               ? KL_OK
               : kl_fail(err, KL_EARG, "step %g does not fit in 64-bit integers", p->step);
}

static int count_from(struct kl_array **out, const struct kl_arange_params *p, int n,
                      enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    int64_t lo, hi;
    KL_TRY(
        kl_array_op1(out,
                     &(struct kl_operation){
                         .op = KL_OP_ARANGE, .stream = s, .params = p, .params_bytes = sizeof *p},
                     dtype, 1, &n, err));
    if (n && kl_int_limits(dtype, &lo, &hi)) {
        double first = p->start, last = p->start + (n - 1.0) * p->step;
        double low = first < last ? first : last, high = first < last ? last : first;
        /* The range proves nothing when values wrap, or beyond 2^53, where doubles are not
         * exact. */
        if (low >= (double)lo && high <= (double)hi && fabs(low) < 0x1p53 && fabs(high) < 0x1p53)
            kl_array_set_range(*out, (int64_t)low, (int64_t)high);
    }
    return KL_OK;
}

int kl_arange(struct kl_array **out, double start, double stop, double step, int dtype,
              struct kl_stream *s, struct kl_error **err) {
    struct kl_arange_params p = {start, step};
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_stream(s, err));
    if (dtype == KL_BOOL)
        return kl_fail(err, KL_EDTYPE, "a range of bool is not possible; numbers are taken");
    if (isnan(start) || isnan(stop) || isnan(step))
        return kl_fail(err, KL_EARG, "start, stop or step is NaN");
    if (step == 0) return kl_fail(err, KL_EARG, "step is 0");
    if (isinf(start) || isinf(stop))
        return kl_fail(err, KL_EARG, "start %g and stop %g must be finite", start, stop);
    double count = ceil((stop - start) / step);
    if (isinf(step)) { /* a single step leaves the range, so there is at most one element */
        count = step > 0 ? start < stop : start > stop;
        p.step = 0;
    }
    if (count > INT_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%g elements are too many for one axis; at most %d are possible", count,
                       INT_MAX);
    int n = count > 0 ? (int)count : 0;
    if (kl_dtype_is_int((enum kl_dtype)dtype)) KL_TRY(truncate_steps(&p, err));
    return count_from(out, &p, n, (enum kl_dtype)dtype, s, err);
}

/* ---- linspace ---- */
static struct kl_array *steps(struct kl_terms *t, double start, double step, int n,
                              enum kl_dtype dtype) {
    struct kl_arange_params p = {start, step};
    return KL_TERM(t, kl_array_op1(&t->made,
                                   &(struct kl_operation){.op = KL_OP_ARANGE,
                                                          .stream = t->s,
                                                          .params = &p,
                                                          .params_bytes = sizeof p},
                                   dtype, 1, &n, t->err));
}

/* In float64 start + i * step would round the product and the sum, which leaves few digits where
 * they cancel. So start and step are divided: their first parts are multiples of a unit so large
 * that the sum of the first parts is exact for every i, and the sum of the rests is so small that
 * its rounding does not count. */
static struct kl_array *steps_in_parts(struct kl_terms *t, double start, double stop, double step,
                                       int n) {
    int e;
    const double count = n - 1.0, range = stop - start;
    /* The rounding errors of the difference (Knuth, The Art of Computer Programming 2, 4.2.2) and
     * of the quotient. */
    const double back = range + start;
    const double lost = (stop - back) - (start - (back - range));
    const double rest = (fma(-step, count, range) + lost) / count;
    frexp(fmax(fabs(start), fabs(stop)), &e);
    const double unit = ldexp(1, e - 51); /* below 2^53 units, n of them rounded up included */
    const double start_in = rint(start / unit) * unit, step_in = rint(step / unit) * unit;
    struct kl_array *first = steps(t, start_in, step_in, n, KL_F64);
    struct kl_array *second = steps(t, start - start_in, step - step_in + rest, n, KL_F64);
    return kl_term2(t, kl_add, first, second);
}

int kl_linspace(struct kl_array **out, double start, double stop, int num, int dtype,
                struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_stream(s, err));
    if (num < 0)
        return kl_fail(err, KL_EARG, "%d elements are asked for; 0 or more are possible", num);
    const enum kl_dtype to = (enum kl_dtype)dtype;
    const enum kl_dtype in = kl_dtype_is_float(to) || to == KL_C64 ? to : KL_F64;
    double step = num > 1 ? (stop - start) / (num - 1) : 0;
    if (isinf(step)) step = stop / (num - 1) - start / (num - 1); /* stop - start overflows */
    const double most = fmax(fabs(start), fabs(stop));
    const bool in_parts = in == KL_F64 && num > 1 && most > 0x1p-900 && most < 0x1p1000;
    struct kl_array *x =
        in_parts ? steps_in_parts(&t, start, stop, step, num) : steps(&t, start, step, num, in);
    if (num > 1) { /* repeated steps reach stop only approximately, so the last element is set */
        int last = num - 1, one = 1;
        struct kl_array *end = kl_term_number(&t, stop, in);
        x = KL_TERM(&t, kl_slice_update(&t.made, x, end, &last, 1, &num, 1, &one, 1, s, err));
    }
    x = KL_TERM(&t, kl_cast_to(&t.made, x, to, s, err));
    return kl_terms_end(&t, x, out);
}

/* ---- made again ---- */
int kl_rebuild_arange(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_arange_params p;
    struct kl_shape to;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_check_dtype((int)b->dtype, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (b->dtype == KL_BOOL)
        return kl_fail(err, KL_EDTYPE, "a range of bool is not possible; numbers are taken");
    KL_TRY(kl_build_count(b->ndim, 1, "axes", err));
    KL_TRY(kl_check_shape(&to, b->dims, 1, b->dtype, NULL, err));
    if (kl_dtype_is_int(b->dtype) && !(fabs(p.start) < 0x1p63 && fabs(p.step) < 0x1p63 &&
                                       trunc(p.start) == p.start && trunc(p.step) == p.step))
        return kl_fail(err, KL_EARG, "start %g and step %g are not whole 64-bit numbers", p.start,
                       p.step);
    return count_from(out, &p, to.dims[0], b->dtype, b->s, err);
}
