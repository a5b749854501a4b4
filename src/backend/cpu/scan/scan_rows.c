/* scan_rows.c - scans row by row: whole rows; short contiguous rows, several as one; long rows by
 * segments, where there are too few for all threads. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/scan/scan.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

/* Elements [from, from + count) of the scan of a row; count <= KL_SCAN_SEGMENT, except for whole
 * rows. write: the results are stored. */
static void scan_part(const struct kl_scan_job *j, struct kl_scan_state *s, int64_t in_offset,
                      int64_t out_offset, int64_t from, int64_t count, bool write) {
    int dim = (int)j->length;
    struct kl_cursor x, y;
    union kl_tile raw, tile, result, stored;
    if (count == 0) return;
    kl_cursor_init(&x, kl_scan_element(j->l->in, in_offset), j->in_item, 1, &dim, &j->in_step);
    kl_cursor_init(&y, kl_scan_element(j->l->out, out_offset), j->out_item, 1, &dim, &j->out_step);
    kl_cursor_seek(&x, from);
    kl_cursor_seek(&y, from);
    bool same = j->l->out->dtype == j->read;
    for (int64_t at = 0; at < count; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, count - at);
        const void *v = kl_cursor_next_as(&x, n, j->l->in->dtype, j->read, &raw, &tile);
        void *to = write && same ? kl_cursor_claim(&y, n) : NULL;
        j->join.row(s, write ? (to ? to : (void *)result.bytes) : NULL, v, n);
        if (write && !to) {
            if (!same) kl_convert(j->l->out->dtype, stored.bytes, j->read, result.bytes, n);
            kl_cursor_write(&y, n, same ? result.bytes : stored.bytes);
        }
        if ((from + at + n) % KL_SCAN_SEGMENT == 0 && write) j->join.segment(s, 1, 1);
    }
}

/* Scans whole rows. */
static void row_chunk(void *arg, int64_t i) {
    const struct kl_scan_job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows), in, out;
    struct kl_scan_state s;
    s.row_groups = 0;
    for (int64_t row = i * j->group; row < end; row++) {
        kl_scan_offsets(j, row, &in, &out);
        if (!j->inclusive) kl_scan_put_first(j, out, 1);
        s.has_prefix = s.has_total = false;
        scan_part(j, &s, in, out, 0, j->length, true);
    }
}

bool kl_cpu_scans_squares(const struct kl_launch *l, int64_t length) {
#if KL_HAS_SIMD
    const struct kl_scan_params *p = l->params;
    const enum kl_dtype dtype = l->in->dtype;
    return l->op == KL_OP_CUMSUM && p->inclusive && !p->reverse && dtype == l->out->dtype &&
           (dtype == KL_F32 || dtype == KL_F16 || dtype == KL_BF16) &&
           length % KL_SCAN_GROUP == 0 && KL_SCAN_GROUP * KL_SIMD % length == 0;
#else
    return false;
#endif
}

#if KL_HAS_SIMD
/* Whether the rows are contiguous, so that several rows are scanned together. */
static bool has_squares(const struct kl_scan_job *j) {
    return kl_cpu_scans_squares(j->l, j->length) && j->in_step == 1 && j->out_step == 1 &&
           (j->n == 0 ||
            (j->n == 1 && j->in_strides[0] == j->length && j->out_strides[0] == j->length));
}

static void squares_chunk(void *arg, int64_t i) {
    const struct kl_scan_job *j = arg;
    const int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->rows),
                  rest = (end - begin) % (KL_SCAN_GROUP * KL_SIMD / j->length);
    struct kl_scan_state s;
    for (int64_t row = begin, n; row < end;
         row += n) { /* First whole square tiles, then the remaining rows one by one. */
        n = row == begin && end - begin > rest ? end - begin - rest : 1;
        s.has_prefix = s.has_total = false;
        s.row_groups = n > 1 ? (int)(j->length / KL_SCAN_GROUP) : 0;
        j->join.row(&s, kl_scan_element(j->l->out, row * j->length),
                    kl_scan_element(j->l->in, row * j->length), n * j->length);
    }
}
#endif

/* The two passes over segments of long rows. The first finds the totals of the segments. The second
 * scans the elements, starting with the total of the segments before. */
static void total_chunk(void *arg, int64_t i) {
    const struct kl_scan_job *j = arg;
    int64_t row = i / j->segments, segment = i % j->segments, from = segment * KL_SCAN_SEGMENT, in,
            out;
    struct kl_scan_state s = {.has_prefix = false};
    kl_scan_offsets(j, row, &in, &out);
    scan_part(j, &s, in, out, from, kl_min64(KL_SCAN_SEGMENT, j->length - from), false);
    memcpy(j->totals + i * j->bytes, s.parts + KL_SCAN_TOTAL * j->bytes, (size_t)j->bytes);
}
static void segment_chunk(void *arg, int64_t i) {
    const struct kl_scan_job *j = arg;
    int64_t row = i / j->segments, segment = i % j->segments, from = segment * KL_SCAN_SEGMENT, in,
            out;
    struct kl_scan_state s = {.has_prefix = segment > 0};
    kl_scan_offsets(j, row, &in, &out);
    if (segment > 0) /* the total of the segments before this one */
        memcpy(s.parts + KL_SCAN_PREFIX * j->bytes, j->totals + (i - 1) * j->bytes,
               (size_t)j->bytes);
    else if (!j->inclusive)
        kl_scan_put_first(j, out, 1);
    scan_part(j, &s, in, out, from, kl_min64(KL_SCAN_SEGMENT, j->length - from), true);
}

static int scan_long(struct kl_scan_job *j, const struct kl_launch *alone) {
    int64_t n = j->rows * j->segments;
    struct kl_scan_state s;
    j->totals = kl_malloc((size_t)(n * j->bytes));
    if (!j->totals) return kl_fail_nomem(j->l->err);
    kl_run_tasks(alone, n, total_chunk, j);
    for (int64_t row = 0; row < j->rows;
         row++) { /* Replaces the total of a segment by the total of all segments up to it. */
        s.has_prefix = false;
        for (int64_t k = 0; k < j->segments; k++) {
            char *total = j->totals + (row * j->segments + k) * j->bytes;
            memcpy(s.parts + KL_SCAN_TOTAL * j->bytes, total, (size_t)j->bytes);
            j->join.segment(&s, 1, 1);
            memcpy(total, s.parts + KL_SCAN_PREFIX * j->bytes, (size_t)j->bytes);
        }
    }
    kl_run_tasks(alone, n, segment_chunk, j);
    kl_free(j->totals);
    return KL_OK;
}

int kl_scan_rows(struct kl_scan_job *j, const struct kl_launch *l) {
    enum { FEW = 16 }; /* fewer rows than these do not keep all threads busy */
    j->segments = kl_ceil_div(j->length, KL_SCAN_SEGMENT);
    if (l->parallel && j->rows < FEW && j->segments > 1) return scan_long(j, l);
    j->group = kl_ceil_div(KL_CHUNK / 4, j->length + !j->inclusive);
#if KL_HAS_SIMD
    if (has_squares(j)) {
        kl_run_tasks(l, kl_ceil_div(j->rows, j->group), squares_chunk, j);
        return KL_OK;
    }
#endif
    kl_run_tasks(l, kl_ceil_div(j->rows, j->group), row_chunk, j);
    return KL_OK;
}
