/* index.h - what the lowerings of gathers and scatters share: how they describe a launch to
 * kernels/index.kl, and how it is launched. lower/index.c has the functions; only it,
 * lower/index_gather.c and lower/index_scatter.c include this file. */
#pragma once
#include "backend/gpu/lower/lower.h"

enum {
    KL_INDEX_ARRAYS = 8,  /* index arrays of one operation */
    KL_MAX_ITEM = 16,     /* bytes of the widest access of a GPU */
    KL_LAST_TABLE = 1024, /* places for which a group finds the last slices in shared memory */
};

/* The axis that an index array indexes. places: the number of places where a slice fits; stride in
 * elements, or in items once accesses are widened. */
struct kl_index_axis {
    int64_t size, places, stride;
};
/* The contents of struct indexed of kernels/index.kl. */
struct kl_indexed {
    int64_t n, inner;
    struct kl_index_axis axis[KL_INDEX_ARRAYS];
    struct kl_space slice;
};

/* Everything that a source depends on. Its bytes are the key, so it has no padding. */
struct kl_indexed_variant {
    uint8_t scatter, n_index, index_dtype[KL_INDEX_ARRAYS], checked, small, narrow, flat_slice;
    uint8_t inner; /* on a processor, items per position when that is at most MAX_INNER; else 0 */
    uint8_t item;  /* bytes moved or added in one access; 0: one element */
    uint8_t each;  /* items per work-item; 0: SERIAL or ORDERED */
    uint8_t dtype, mode, serial, ordered, exchange; /* for scatters */
    uint8_t denormals; /* how sums keep denormal numbers (index_scatter.kl); 0: they need not */
    uint8_t key;       /* for ORDERED: the dtype of the keys */
    uint8_t last;      /* the kernel of index_scatter_last.kl; 0: none */
};

/* The index positions of one launch. */
struct kl_index_range {
    int64_t begin, end;
};

/* The bytes of struct indexed of kernels/index.kl. They are as few as possible, because the cost
 * of a launch grows with the bytes of its arguments. */
struct kl_indexed_bytes {
    size_t bytes;
    char v[sizeof(struct kl_indexed)];
};

/* The state of a gather or scatter along one axis. */
struct kl_axis_job {
    struct kl_emit *e;
    const struct kl_command *c;
    struct kl_indexed_variant v;
    struct kl_indexed x;
    struct kl_index_range r;
    const struct kl_arg *array, *index, *values; /* values: the updates of a scatter */
    void *out;
    int64_t first;
    char *keys;  /* for ORDERED */
    void *flags; /* of index_scatter_sums.kl */
};

static inline struct kl_index_range kl_index_positions(const struct kl_command *c,
                                                       const struct kl_arg *index, int n_index) {
    int64_t n = n_index ? index->size : 1;
    return (struct kl_index_range){c->pos_begin, c->pos_end < n ? c->pos_end : n};
}

/* The address `items` items of `item` bytes after p. */
static inline struct kl_karg kl_index_item_ptr(const void *p, int64_t items, size_t item) {
    return KL_KARG_PTR(p ? (const char *)p + items * (int64_t)item : NULL, item);
}

/* Whether the elements of a slice are contiguous. */
static inline bool kl_indexed_flat_slice(const struct kl_space *s) {
    return s->ndim == 0 || (s->ndim == 1 && s->strides[0][0] == 1);
}

/* Copies to scratch memory each of the n arrays that is not row-major. *more: a further
 * `more_bytes` of scratch memory for the caller. */
int kl_indexed_row_major(struct kl_emit *e, const struct kl_arg *const *args, int n,
                         const void **out, size_t more_bytes, char **more);
/* The space of a slice. KL_EUNSUPPORTED when the slice needs several spaces. */
int kl_indexed_slice_space(struct kl_emit *e, int ndim, const int *dims, int n_operands,
                           const int64_t *const *strides, struct kl_space *out);
/* Fills in the fields that concern the indices. `array` is the indexed array, with the strides of
 * the memory that is used. KL_EUNSUPPORTED: too many index arrays. */
int kl_indexed_describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array,
                        struct kl_indexed_variant *v, struct kl_indexed *x,
                        const struct kl_arg **index);
/* Writes the bytes of x that the kernel takes to p, which must live as long as the argument. */
struct kl_karg kl_indexed_pack(const struct kl_indexed_variant *v, const struct kl_indexed *x,
                               struct kl_indexed_bytes *p);
/* Launches kernel `entry` of this variant for `items` items, v->each per work-item. */
int kl_indexed_emit(struct kl_emit *e, struct kl_indexed_variant *v, const char *entry,
                    int64_t items, const struct kl_karg *args, int n_args);
/* Launches a gather or scatter of slices; args has room for two more arguments. */
int kl_indexed_emit_slices(struct kl_emit *e, struct kl_indexed_variant *v, const char *entry,
                           const struct kl_indexed *x, int64_t item, struct kl_karg *args,
                           int n_args);
/* The widest access in bytes that moves elements on this device. */
size_t kl_indexed_widest(const struct kl_driver *d);
/* Doubles the bytes that are moved in one access, up to `most`, while strides, sizes and alignment
 * allow it. One of `from` and `to` is the indexed array, the other is row-major. */
size_t kl_indexed_widen(struct kl_indexed *x, int n_index, size_t item, size_t most,
                        const void *from, const void *to);
/* Items per work-item: on an H200 two items of 16 bytes are best, and four smaller ones. */
uint8_t kl_indexed_each(int64_t items, int item);
/* For slices without elements, of which nothing is moved: checks the indices only. */
int kl_indexed_check(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array);
/* Launches the gather or scatter of j along `axis`, in several launches where needed. */
int kl_indexed_along_axis(struct kl_axis_job *j, int axis);
