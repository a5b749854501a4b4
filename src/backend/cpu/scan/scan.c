/* scan.c - CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP along one axis. The order of joins depends
 * on the length alone, so strides, threads and the way through memory change no bit;
 * docs/notes/cpu-kernels.md describes it. Memory is walked row by row along the axis, or, where
 * other axes lie closer together, by runs of columns side by side. Threads compute segments of long
 * rows, whose totals are found first. An exclusive scan is the scan of all elements but the last,
 * stored one place further. A reversed scan is a scan of the reversed row. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/scan/scan.h"
#include "base/op/op_params.h"

enum { MIN_COLUMNS = 16 }; /* fewer columns than these are not computed side by side */

/* Scans neighbouring columns. */
static void column_chunk(void *arg, int64_t i) {
    const struct kl_scan_job *j = arg;
    const struct kl_arg *in_arg = j->l->in, *out_arg = j->l->out;
    int64_t place = i % j->run_groups * j->group, n = kl_min64(j->group, j->run - place), in, out;
    struct kl_scan_state s;
    union kl_tile typed, result;
    s.has_prefix = s.has_total = false;
    kl_scan_offsets(j, i / j->run_groups * j->run + place, &in, &out);
    if (!j->inclusive) kl_scan_put_first(j, out, n);
    for (int64_t r = 0; r < j->length; r++) {
        const void *x = kl_scan_element(in_arg, in + r * j->in_step);
        void *y = kl_scan_element(out_arg, out + r * j->out_step);
        if (in_arg->dtype != j->read) {
            kl_convert(j->read, typed.bytes, in_arg->dtype, x, n);
            x = typed.bytes;
        }
        if (out_arg->dtype == j->read) {
            j->join.column(&s, y, x, r, n);
        } else {
            j->join.column(&s, result.bytes, x, r, n);
            kl_convert(out_arg->dtype, y, j->read, result.bytes, n);
        }
        if ((r + 1) % KL_SCAN_GROUP == 0) j->join.group(&s, n);
        if ((r + 1) % KL_SCAN_SEGMENT == 0) j->join.segment(&s, KL_SCAN_WIDTH / j->bytes, n);
    }
}

/* The first element of an exclusive scan, which is the result of no elements, in the output's
 * dtype. */
static void find_first(struct kl_scan_job *j, enum kl_op_id op) {
    enum kl_dtype dtype = j->l->out->dtype;
    size_t bytes = kl_dtype_size(dtype);
    memset(j->first, 0, sizeof j->first);
    if (op == KL_OP_CUMSUM) return;
    bool high = op == KL_OP_CUMMIN;
    if (op == KL_OP_CUMPROD || kl_dtype_is_float(dtype) || dtype == KL_C64) {
        float x = op == KL_OP_CUMPROD ? 1 : high ? INFINITY : -INFINITY;
        struct kl_c64 z = {x, op == KL_OP_CUMMAX || high ? x : 0};
        if (dtype == KL_C64)
            memcpy(j->first, &z, sizeof z);
        else
            kl_convert(dtype, j->first, KL_F32, &x, 1);
    } else if (dtype == KL_BOOL) {
        j->first[0] = high;
    } else if (kl_dtype_is_signed(dtype)) {
        /* The bytes below the one with the sign are equal, so the byte order does not matter. */
        uint64_t sign = UINT64_C(1) << (8 * bytes - 1), value = high ? sign - 1 : sign;
        kl_convert(dtype, j->first, KL_U64, &value, 1);
    } else {
        memset(j->first, high ? 0xff : 0, bytes);
    }
}

int kl_cpu_scan(struct kl_launch *l) {
    const struct kl_scan_params *p = l->params;
    const struct kl_arg *in = l->in, *out = l->out;
    struct kl_scan_job j = {.l = l, .inclusive = p->inclusive, .rows = 1};
    if (out->size == 0) return KL_OK;
    j.type = j.read = kl_compute_dtype(out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.in_item = (int)kl_dtype_size(in->dtype);
    j.out_item = (int)kl_dtype_size(out->dtype);
    j.join = kl_scan_joins[l->op - KL_OP_CUMSUM][j.type];
    if (!j.join.row)
        return kl_fail(l->err, KL_EDTYPE, "no kernel for dtype %s", kl_dtype_name(out->dtype));
#if KL_HAS_SIMD
    if (l->op == KL_OP_CUMSUM && in->dtype == out->dtype && kl_scan_halves[in->dtype].row) {
        j.join = kl_scan_halves[in->dtype];
        j.read = in->dtype;
    }
#endif
    find_first(&j, l->op);
    int sign = p->reverse ? -1 : 1;
    int64_t last = in->dims[p->axis] - 1;
    j.length = last + p->inclusive;
    j.in_step = sign * in->strides[p->axis];
    j.out_step = sign * out->strides[p->axis];
    j.in_first = p->reverse ? last * in->strides[p->axis] : 0;
    j.out_first = (p->reverse ? last * out->strides[p->axis] : 0) + (p->inclusive ? 0 : j.out_step);
    for (int i = 0; i < in->ndim; i++) {
        if (i == p->axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.in_strides[j.n] = in->strides[i];
        j.out_strides[j.n++] = out->strides[i];
        j.rows *= in->dims[i];
    }
    /* Merges axes after the axis of the scan which are contiguous in both operands. */
    while (j.n > 1 && j.in_strides[j.n - 2] == j.in_strides[j.n - 1] * j.dims[j.n - 1] &&
           j.out_strides[j.n - 2] == j.out_strides[j.n - 1] * j.dims[j.n - 1] &&
           (int64_t)j.dims[j.n - 2] * j.dims[j.n - 1] <= INT32_MAX) {
        j.n--;
        j.dims[j.n - 1] *= j.dims[j.n];
        j.in_strides[j.n - 1] = j.in_strides[j.n];
        j.out_strides[j.n - 1] = j.out_strides[j.n];
    }
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (j.n && j.in_strides[j.n - 1] == 1 && j.out_strides[j.n - 1] == 1 &&
        j.dims[j.n - 1] >= MIN_COLUMNS) {
        j.run = j.dims[j.n - 1];
        j.group =
            j.read == j.type ? kl_min64(KL_TILE, KL_SCAN_WIDTH / j.bytes) : KL_SCAN_WIDTH / j.bytes;
        j.run_groups = kl_ceil_div(j.run, j.group);
        kl_run_tasks(&alone, j.rows / j.run * j.run_groups, column_chunk, &j);
        return KL_OK;
    }
    return kl_scan_rows(&j, &alone);
}
