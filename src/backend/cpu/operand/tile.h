/* tile.h - how kernels see their operands: as runs of contiguous elements in row-major order. A
 * kernel's inner functions work on contiguous memory of a *compute type* only (16-bit floats are
 * computed in float32). A cursor turns any operand into such runs: contiguous ones are used in
 * place, others are gathered into a tile that stays in the L1 cache. So each function exists once
 * for each compute type, not once for each layout and dtype. */
#pragma once
#include <stddef.h>

#include "base/op/launch.h"

enum {
    KL_TILE = 512,      /* elements of any type; 4 KiB of the widest one */
    KL_CHUNK = 1 << 16, /* elements of one chunk of a parallel loop; a multiple of KL_TILE */
    KL_PARALLEL_FROM = 1 << 18, /* elements; smaller work is not given to several threads */
    /* The same for element-wise loops, whose results cannot depend on this size. */
    KL_MAP_CHUNK = 1 << 14,
    KL_MAP_PARALLEL_FROM = 1 << 16,
    KL_LONG_AXES = 62, /* the most axes longer than 1 that a shape under 2^62 elements can have */
};

/* Each operand has one on the kernel's stack. */
union kl_tile {
    _Alignas(64) unsigned char bytes[KL_TILE * 8];
};
/* Elements of a tile of types with at most `widest` bytes: more of narrow ones, which makes tiles
 * fewer and what each of them costs less. */
static inline int64_t kl_tile_elements(size_t widest) {
    return (int64_t)(sizeof(union kl_tile) / widest);
}

/* ---- walking over an operand ---- */
/* Axes of length 1 are left out and axes that are contiguous to each other are merged. So ndim is
 * small, and dims and strides are not those of the operand. */
struct kl_cursor {
    char *data; /* element 0 */
    int item_bytes;
    int ndim;       /* 0: a single element, or the same element everywhere */
    int64_t filled; /* elements that the tile holds already: of one, or of one row, repeated */
    int64_t dims[KL_LONG_AXES];    /* extents, in elements */
    int64_t strides[KL_LONG_AXES]; /* strides, in bytes */
    int64_t at[KL_LONG_AXES];      /* coordinates of the next element */
    char *next;                    /* the address of the next element */
};

/* Moves the cursor to position pos of the row-major order of dims. */
void kl_cursor_init(struct kl_cursor *c, void *data, int item_bytes, int ndim, const int *dims,
                    const int64_t *strides);
void kl_cursor_init_arg(struct kl_cursor *c, const struct kl_arg *a);
void kl_cursor_seek(struct kl_cursor *c, int64_t pos);
/* The next n elements, as many as a tile has at most, as contiguous memory: in place, or gathered
 * into `tile`, which must be the same, and as the last call left it, until the next seek. */
const void *kl_cursor_next(struct kl_cursor *c, int64_t n, union kl_tile *tile);
/* The address to which the next n elements can be written directly, or NULL where kl_cursor_write
 * must be used. */
void *kl_cursor_claim(struct kl_cursor *c, int64_t n);
void kl_cursor_read(struct kl_cursor *c, int64_t n, void *dst);
void kl_cursor_write(struct kl_cursor *c, int64_t n, const void *src);

/* The offsets (in the unit of strides) of n positions from pos on, in the row-major order of dims.
 * No dim is 0. */
void kl_offsets(int ndim, const int *dims, const int64_t *strides, int64_t pos, int64_t n,
                int64_t *out);

/* Copies n elements of 1, 2, 4 or 8 bytes; steps in bytes. A step of 0 repeats the element. No
 * overlap. */
void kl_copy_run(int item_bytes, int64_t n, void *dst, int64_t dst_step, const void *src,
                 int64_t src_step);
/* Copies rows of a length of `bytes`, which may be short; steps in bytes. No overlap. */
void kl_copy_rows(int64_t rows, int64_t bytes, void *dst, int64_t dst_step, const void *src,
                  int64_t src_step);
/* n elements each of two arrays, by turns. */
void kl_interleave(int item_bytes, int64_t n, void *dst, const void *even, const void *odd);
/* Copies every element of src to dst, which have the same dims and item size. No overlap. */
void kl_copy_strided(int item_bytes, int ndim, const int *dims, void *dst,
                     const int64_t *dst_strides, const void *src, const int64_t *src_strides);

/* Prefetches memory into the L2 cache. Needed where a loop computes much for each byte: the
 * processor's own prefetching does not look far enough ahead then. Any address may be given. */
static inline void kl_prefetch(const void *p, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)p + at, 0, 2);
}

/* ---- types ---- */
/* The type that a dtype is computed in: float32 for 16-bit floats, else the dtype itself. */
static inline enum kl_dtype kl_compute_dtype(enum kl_dtype dtype) {
    return dtype == KL_F16 || dtype == KL_BF16 ? KL_F32 : dtype;
}
/* dst[i] = src[i], converted. dst == src is allowed where both types have the same size. Integers
 * wrap; floats saturate to integers, and NaN gives 0; to bool: x != 0; complex to real takes the
 * real part. Rounds once. */
void kl_convert(enum kl_dtype to, void *dst, enum kl_dtype from, const void *src, int64_t n);
/* The next n elements of c, whose dtype is `from`, as type `to`, contiguous. */
const void *kl_cursor_next_as(struct kl_cursor *c, int64_t n, enum kl_dtype from, enum kl_dtype to,
                              union kl_tile *raw, union kl_tile *tile);

/* ---- running tasks ---- */
/* Calls chunk(arg, i) for all i in [0, n): on the thread pool where there is one and n > 1. */
static inline void kl_run_tasks(const struct kl_launch *l, int64_t n,
                                void (*chunk)(void *arg, int64_t i), void *arg) {
    if (l->parallel && n > 1) {
        l->parallel(n, chunk, arg);
        return;
    }
    for (int64_t i = 0; i < n; i++) chunk(arg, i);
}
static inline int64_t kl_min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t kl_max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t kl_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t kl_round_up(int64_t n, int64_t unit) {
    return kl_ceil_div(n, unit) * unit;
}

/* A loop over contiguous operands where out may be exactly one of the inputs: no iteration reads
 * what another one wrote. */
#ifdef __clang__
#define KL_EACH(i, n) \
    _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < (n); i++)
#elif defined \
    __aarch64__ /* two vectors at a time: in short loops three of seven instructions count */
#define KL_EACH(i, n) _Pragma("GCC ivdep") _Pragma("GCC unroll 2") for (int64_t i = 0; i < (n); i++)
#else
#define KL_EACH(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)
#endif

#define KL_PASTE2(a, b) a##_##b
#define KL_PASTE(a, b) KL_PASTE2(a, b)

/* One element of complex64. */
struct kl_c64 {
    float re, im;
};
