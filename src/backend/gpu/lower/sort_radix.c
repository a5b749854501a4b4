/* sort_radix.c - sorts of long rows by the digits of their keys (sort_radix.kl): three launches per
 * digit of 8 bits, for all rows together. */
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/sorts.h"
#include "base/number/dtype.h"

enum {
    /* The larger a tile, the longer the runs of one digit that go to neighbouring addresses. Two
     * such groups fit a multiprocessor. */
    SUBGROUPS_LOCAL = 512,
    PER = 16,         /* elements of a work-item; half as many of 8 bytes */
    ALONE_PER = 4096, /* of a work-item that is a group: processors run a group as a loop */
    DIGITS = 256,     /* sort_keys.kl has the same number */
    LINE_PER = 4,     /* counts of a work-item of radix_scan, in rows of few tiles */
};

const struct kl_family kl_family_radix = {.name = "radix",
                                          .source = kl_source_sort_radix,
                                          .defines = {"T:IN", "ARG", "PER"},
                                          .library = kl_source_sort_keys};

struct shape {
    uint32_t local;
    int per;
    int64_t tile, n_tiles;
};

/* The shared memory of radix_move, as sort_radix.kl declares it. */
static size_t shared_bytes(const struct kl_emit *e, const struct shape *s, size_t item) {
    size_t tile = (size_t)s->local * (size_t)s->per, room = (item < 4 ? 4 : item) * tile,
           counts = e->driver->subgroup > 1 ? (size_t)s->local / e->driver->subgroup * DIGITS * 2
                                            : DIGITS * 4;
    return (room > counts ? room : counts) + (2 * DIGITS + (size_t)s->local) * sizeof(uint32_t);
}

static struct shape shape_for(const struct kl_emit *e, size_t item, int64_t n) {
    struct shape s = {.local = 1, .per = ALONE_PER};
    if (e->driver->subgroup > 1) {
        s.local = kl_local_size(e, SUBGROUPS_LOCAL);
        s.per = item < 8 ? PER : PER / 2;
    }
    while (s.per > 1 && shared_bytes(e, &s, item) > e->driver->local_bytes) s.per /= 2;
    s.tile = (int64_t)s.local * s.per;
    s.n_tiles = kl_groups_for(n, s.tile);
    return s;
}

/* The parts of the scratch memory, in bytes: two buffers of elements (one for two digits, none for
 * one), as many of places, and the counts. */
struct parts {
    size_t elements, places, counts, totals, buffers;
};
static struct parts parts_of(const struct kl_sort_layout *l, const struct shape *s, size_t item) {
    size_t n = (size_t)(l->n_rows * l->n), lines = (size_t)l->n_rows * DIGITS;
    return (struct parts){.elements = kl_scratch_bytes(n * item),
                          .places = l->arg ? kl_scratch_bytes(n * sizeof(uint32_t)) : 0,
                          .counts = kl_scratch_bytes(lines * (size_t)s->n_tiles * sizeof(uint32_t)),
                          .totals = kl_scratch_bytes(lines * sizeof(uint32_t)),
                          .buffers = item > 2 ? 2 : item - 1};
}

bool kl_radix_runs(const struct kl_emit *e) {
    return e->driver->subgroup > 1 || e->driver->on_processor;
}

size_t kl_radix_scratch(const struct kl_emit *e, enum kl_dtype dtype,
                        const struct kl_sort_layout *l) {
    struct shape s = shape_for(e, kl_dtype_size(dtype), l->n);
    struct parts p = parts_of(l, &s, kl_dtype_size(dtype));
    return p.buffers * (p.elements + p.places) + p.counts + p.totals;
}

int kl_radix_sort(struct kl_emit *e, enum kl_dtype dtype, const struct kl_sort_layout *l,
                  const void *in, void *out, void *scratch) {
    size_t item = kl_dtype_size(dtype);
    struct shape s = shape_for(e, item, l->n);
    struct parts parts = parts_of(l, &s, item);
    int values[] = {dtype, l->arg, s.per};
    void *counts = scratch, *totals = kl_scratch_at(scratch, parts.counts), *elements[2],
         *places[2];
    int64_t lines = l->n_rows * DIGITS;
    int32_t width = (int32_t)kl_pow2_for(kl_groups_for(s.n_tiles, LINE_PER), s.local);
    for (size_t i = 0; i < 2; i++) { /* what lies beyond the buffers is not used */
        size_t at = parts.counts + parts.totals + i * (parts.elements + parts.places);
        elements[i] = i < parts.buffers ? kl_scratch_at(scratch, at) : NULL;
        places[i] = i < parts.buffers ? kl_scratch_at(scratch, at + parts.elements) : NULL;
    }
    for (int pass = 0; pass < (int)item; pass++) {
        int32_t shift = 8 * pass, first = pass == 0, last = pass + 1 == (int)item;
        const void *src = first ? in : elements[(pass - 1) % 2], *from = places[(pass + 1) % 2];
        void *dst = last ? out : elements[pass % 2], *to = last ? out : places[pass % 2];
        struct kl_karg count[] = {KL_KARG_PTR(src, item), KL_KARG_PTR(counts, sizeof(uint32_t)),
                                  KL_KARG(s.n_tiles),     KL_KARG(shift),
                                  KL_KARG(first),         KL_KARG(*l)};
        struct kl_karg scan[] = {KL_KARG_PTR(counts, sizeof(uint32_t)),
                                 KL_KARG_PTR(totals, sizeof(uint32_t)), KL_KARG(lines),
                                 KL_KARG(s.n_tiles), KL_KARG(width)};
        /* The last pass of ARGSORT stores places only: `dst` is not followed then. */
        struct kl_karg move[] = {KL_KARG_PTR(src, item),
                                 KL_KARG_PTR(from, sizeof(uint32_t)),
                                 KL_KARG_PTR(dst, last && l->arg ? sizeof(uint32_t) : item),
                                 KL_KARG_PTR(to, l->arg ? sizeof(uint32_t) : item),
                                 KL_KARG_PTR(counts, sizeof(uint32_t)),
                                 KL_KARG_PTR(totals, sizeof(uint32_t)),
                                 KL_KARG(s.n_tiles),
                                 KL_KARG(shift),
                                 KL_KARG(first),
                                 KL_KARG(last),
                                 KL_KARG(*l)};
        KL_TRY(kl_emit(e, &kl_family_radix, values, "radix_count", l->n_rows * s.n_tiles, s.local,
                       count, 6));
        KL_TRY(kl_emit(e, &kl_family_radix, values, "radix_scan",
                       kl_groups_for(lines, s.local / (uint32_t)width), s.local, scan, 5));
        KL_TRY(kl_emit(e, &kl_family_radix, values, "radix_move", l->n_rows * s.n_tiles, s.local,
                       move, 11));
    }
    return KL_OK;
}
