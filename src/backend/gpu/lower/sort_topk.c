/* sort_topk.c - the k largest of long rows (sort_topk.kl). Rows are cut into segments while there
 * are few of them: then the k largest of all segments are the rows of the next launch. */
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/sorts.h"
#include "base/number/dtype.h"

enum {
    WANT_LOCAL = 256,
    SUBGROUPS_LOCAL = 512,
    ENOUGH_GROUPS = 1024,
    SEGMENT = 4096,   /* elements below which a row is not cut: a launch costs as much as that */
    SEGMENT_OF_K = 8, /* a segment has at least this number times k elements */
    COUNTERS = 2304,  /* bytes of shared memory, at most, without the items (sort_topk.kl) */
};

const struct kl_family kl_family_topk = {.name = "topk",
                                         .source = kl_source_sort_topk,
                                         .defines = {"T:IN", "MOST"},
                                         .library = kl_source_sort_keys};

static int64_t segments(int64_t n_rows, int64_t n, int k) {
    int64_t least = SEGMENT_OF_K * (int64_t)k, want = kl_groups_for(ENOUGH_GROUPS, n_rows),
            most = n / (least > SEGMENT ? least : SEGMENT);
    int64_t segs = want < most ? want : most;
    return segs > 1 ? segs : 1;
}

/* The result of the first launch, and that of the second; later ones are smaller. */
static void stages(size_t bytes[2], enum kl_dtype dtype, const struct kl_sort_layout *l, int k) {
    int64_t n = l->n;
    for (int i = 0; i < 2; i++) {
        int64_t segs = segments(l->n_rows, n, k);
        n = segs * k;
        bytes[i] = segs > 1 ? kl_scratch_bytes((size_t)(l->n_rows * n) * kl_dtype_size(dtype)) : 0;
    }
}

int64_t kl_largest_most(const struct kl_emit *e, enum kl_dtype dtype) {
    int64_t most = kl_sort_block(e, dtype);
    while (most > 1 && (size_t)most * kl_sort_item_bytes(dtype) + COUNTERS > e->driver->local_bytes)
        most /= 2;
    return most;
}

size_t kl_largest_scratch(enum kl_dtype dtype, const struct kl_sort_layout *l, int k) {
    size_t bytes[2];
    stages(bytes, dtype, l, k);
    return bytes[0] + bytes[1];
}

int kl_largest(struct kl_emit *e, enum kl_dtype dtype, const struct kl_sort_layout *l, int k,
               const void *in, void *out, void *scratch) {
    size_t item = kl_dtype_size(dtype), bytes[2];
    uint32_t local = kl_local_size(e, e->driver->subgroup > 1 ? SUBGROUPS_LOCAL : WANT_LOCAL);
    int most = (int)kl_largest_most(e, dtype), values[] = {dtype, most};
    int32_t width = (int32_t)kl_pow2_for(k, most), first = 1;
    struct kl_sort_layout stage = *l;
    if (e->driver->on_processor) local = 1; /* it runs a group as a loop */
    stages(bytes, dtype, l, k);
    void *two[] = {scratch, kl_scratch_at(scratch, bytes[0])};
    const void *src = in;
    for (int to = 0;; to = !to, first = 0) {
        int64_t segs = segments(l->n_rows, stage.n, k);
        int32_t last = segs == 1;
        void *dst = last ? out : two[to];
        struct kl_karg args[] = {
            KL_KARG_PTR(src, item), KL_KARG_PTR(dst, item), KL_KARG(segs), KL_KARG(k),
            KL_KARG(width),         KL_KARG(first),         KL_KARG(last), KL_KARG(stage)};
        KL_TRY(kl_emit(e, &kl_family_topk, values, "largest", l->n_rows * segs, local, args, 8));
        if (last) return KL_OK;
        src = dst;
        stage.n = segs * k;
    }
}
