/* lower.h - from commands to launches of kernels in the common dialect; the drivers of real devices
 * share it.
 *
 * Each family of operations has one file <family>.c and a source kernels/<family>.kl. The
 * file chooses a kernel, its parameters and the number of groups for one command, and calls
 * kl_emit. All of this runs twice: as a dry run when the operation is encoded, which compiles
 * missing kernels so that a failure is that operation's alone, and again when the command buffer is
 * handed over. */
#pragma once
#include "backend/gpu/driver.h"
#include "base/op/declare.h"

enum { KL_MAX_KARGS = 32, KL_MAX_DEFINES = 8 };

/* A source file of kernels and the macros for which it is compiled. Immortal. */
struct kl_family {
    const char *name;   /* "reduce": kernels/reduce.kl */
    const char *source; /* declared in kernels.h */
    /* The macros; kl_emit takes one value for each. "T:x" is a dtype: x is defined as the name of
     * the storage type (u8, f16, ...; the dialect's CAT(load_, x) and similar macros take it) and
     * x_ID as its number. "Q:x" is a mode of quantization: SCALES_<kind> and NUMBERS_<kind> of its
     * row are defined. "x" is an integer: x is defined as its value. NULL after the last one. */
    const char *defines[KL_MAX_DEFINES];
    const char *library; /* another source that is placed in front; may be NULL */
};

#define KL_FAMILY(name) extern const struct kl_family kl_family_##name;
#include "backend/gpu/lower/families.def"
/* All families of families.def, for tests that compile each of them. */
const struct kl_family *const *kl_families(int *n);

/* Scratch memory is divided into parts, each of which begins at a multiple of this number of bytes:
 * no kernel makes a wider access. */
enum { KL_SCRATCH_ALIGNMENT = 256 };
static inline size_t kl_scratch_bytes(size_t bytes) {
    return (bytes + KL_SCRATCH_ALIGNMENT - 1) & ~(size_t)(KL_SCRATCH_ALIGNMENT - 1);
}

struct kl_lowering;
/* The state of lowering one command. */
struct kl_emit {
    struct kl_lowering *lowering;
    struct kl_driver *driver;
    void *queue; /* the queue of the driver; NULL in a dry run */
    bool dry;
    struct kl_error **err;
    /* The workspace of the command, of `room` bytes; a dry run has none. `used`: the bytes of
     * it that were asked for until now. */
    char *workspace;
    size_t room, used;
    bool sizes_only; /* a dry run that compiles nothing */
    /* A dry run notes kernels here that are still compiled. NULL: it waits for them. */
    struct kl_pending *pending;
    bool ahead;           /* a dry run of a whole submission, whose addresses are known */
    struct kl_pass *pass; /* the submission at hand; NULL in a dry run */
    /* The commands of the same command buffer before the one at hand; none in a dry run. */
    const struct kl_command *before;
    int n_before;
    struct kl_side *side; /* where launches wait for others; NULL: they do not wait */
    int64_t elements; /* of the results of all commands whose launches may become one with those of
                         the command at hand; 0: there are no others */
    const struct kl_feed *feed; /* what makes the first input; NULL: it is in memory */
};

/* Element-wise commands that are computed in the kernels that read their result. Such kernels are
 * written for it (READ in prelude.kl), and take `args` after their own. */
struct kl_feed {
    const void *address; /* where the result would be */
    const void *key;     /* everything that the source depends on */
    size_t key_bytes;
    char *(*source)(void *ctx); /* malloc'd; NULL: out of memory */
    void *ctx;
    const struct kl_karg *args;
    int n_args;
};

/* Whether nothing that may still run when the command at hand starts stores into the memory of a:
 * a kernel may load it before AFTER_EARLIER of the dialect. */
bool kl_emit_unwritten(const struct kl_emit *e, const struct kl_arg *a);

/* A part of the command's workspace, which kernels of this command alone use: *ptr is a device
 * address aligned to 64 bytes at least, NULL in a dry run and when bytes is 0. A dry run adds up
 * what the real run, which asks for the same, will be given. Parts begin at multiples of
 * KL_SCRATCH_ALIGNMENT in the workspace. */
int kl_emit_workspace(struct kl_emit *e, size_t bytes, void **ptr);

/* Launches kernel `entry` of the family compiled with these values (one per define), with `local`
 * work-items per group (LOCAL in the dialect; the kernel is compiled with it). Compiles, but
 * launches nothing, in a dry run or when groups is 0. */
int kl_emit(struct kl_emit *e, const struct kl_family *f, const int *values, const char *entry,
            int64_t groups, uint32_t local, const struct kl_karg *args, int n_args);
/* The same, with `shared_bytes` of dynamic shared memory per group. */
int kl_emit_shared(struct kl_emit *e, const struct kl_family *f, const int *values,
                   const char *entry, int64_t groups, uint32_t local, size_t shared_bytes,
                   const struct kl_karg *args, int n_args);
/* Dynamic shared memory for a group that needs `bytes`, so that no more than `n` groups are on a
 * multiprocessor at a time. A grid of n groups for each multiprocessor would otherwise leave some
 * of them with more and others with less, which then have nothing to do. */
size_t kl_emit_spread_bytes(const struct kl_emit *e, size_t bytes, int n);
/* The same for a source made at run time, complete except for the preludes. It is compiled once per
 * text. name: what messages call the source. */
int kl_emit_source(struct kl_emit *e, const char *name, const char *source, const char *entry,
                   int64_t groups, uint32_t local, const struct kl_karg *args, int n_args);
/* The same, found by a key that is cheaper to make than the source. `source` is called only when
 * the key is new; its result is malloc'd. */
int kl_emit_made(struct kl_emit *e, const void *key, size_t key_bytes, char *(*source)(void *ctx),
                 void *ctx, const char *entry, int64_t groups, uint32_t local,
                 const struct kl_karg *args, int n_args);
/* Copies from device to device, after what was emitted before. */
int kl_emit_plain_copy(struct kl_emit *e, void *to, const void *from, size_t bytes);
/* A launch of a kernel whose source a user wrote, or of a program that a user compiled. */
struct kl_grid_launch {
    const char *name, *source, *entry; /* as in kl_emit_source */
    /* Not 0: `source` is a compiled program of this size, and library and bare are not used. */
    size_t program_bytes;
    const char *library; /* placed between the preludes and the source; may be NULL */
    bool bare;           /* the source stands alone: no prelude, no library */
    uint32_t groups[3], local[3];
    size_t shared_bytes;
};
int kl_emit_grid(struct kl_emit *e, const struct kl_grid_launch *g, const struct kl_karg *args,
                 int n_args);
/* item: the bytes that the kernel reads or writes there in one access; the address must be aligned
 * to it. */
#define KL_KARG_PTR(p, item) ((struct kl_karg){(p), 0, (uint32_t)(item)})
#define KL_KARG(lvalue) ((struct kl_karg){&(lvalue), sizeof(lvalue), 0})

/* ---- spaces: operands walked together ---- */

enum { KL_SPACE_DIMS = 8, KL_SPACE_OPERANDS = 4 };
/* An iteration space: the outermost axis first, without axes of size 1, neighbouring axes merged
 * where all operands allow it. The dialect has the same struct (struct space). Strides are in
 * elements. */
struct kl_space {
    int64_t n; /* positions */
    int32_t ndim;
    int32_t dims[KL_SPACE_DIMS];
    int32_t pad;
    int64_t strides[KL_SPACE_OPERANDS][KL_SPACE_DIMS];
};
/* Converts dims and n_operands strides (rows of ndim) to one or more spaces; arrays with more than
 * KL_SPACE_DIMS axes become several launches. Calls each(ctx, space, offsets of the operands in
 * elements) until it returns non-zero, and returns that code. Does not call `each` when there are
 * no positions. */
int kl_space_each(int ndim, const int *dims, int n_operands, const int64_t *const *strides,
                  int (*each)(void *ctx, const struct kl_space *s, const int64_t *offsets),
                  void *ctx);
/* Whether the operand is contiguous and row-major over the space. */
bool kl_space_contiguous(const struct kl_space *s, int operand);

/* ---- faults ---- */

/* The alignment of a chunk of fault words in bytes: on CUDA an address follows the words. */
enum { KL_WORDS_ITEM = 8 };

/* The fault word of c in the form that checked kernels take: PTR(word), int word_index. CHECKED
 * among their defines says whether the kernel checks. */
struct kl_fault_args {
    struct kl_karg ptr, index;
    int checked;
};
static inline struct kl_fault_args kl_fault_args(const struct kl_command *c) {
    bool checked = c->checked && c->word.words;
    return (struct kl_fault_args){
        KL_KARG_PTR(checked ? c->word.words->device : NULL, KL_WORDS_ITEM), KL_KARG(c->word.index),
        checked};
}

/* ---- one function per family: lowers c, an operation of a row that names it in the column
 * lowering of op_list.def ---- */
typedef int kl_lower_fn(struct kl_emit *e, const struct kl_command *c);
#define KL_OP(ID, name, n_in, flags, kernel, lowering, ...) KL_DECLARE(kl_lower_fn, lowering)
#include "base/op/op_list.def"
kl_lower_fn kl_lower_guards; /* KL_CMD_MERGE, KL_CMD_GUARD_* */
/* Lowers a run of commands at the beginning of `commands` to one kernel, or to the kernels of the
 * last of them. Returns the number of commands (at least 2), 0 when no run of two fits, or a
 * negative code. */
int kl_lower_fused(struct kl_emit *e, const struct kl_command *commands, int n);
#ifdef KL_TEST_HOOKS
/* How many runs became a part of the kernels of their last command until now. */
int kl_test_feeds(void);
#endif
/* Lowers rotations of a few rows at the beginning of `commands`, and writes into slices next to
 * them, to one launch. Returns the number of commands, 0 when it does not take the first one, or a
 * negative code. */
int kl_lower_rotations(struct kl_emit *e, const struct kl_command *commands, int n);
#ifdef KL_TEST_HOOKS
/* How many launches this has saved until now. */
int kl_test_rotations(void);
#endif
/* Whether c is a product of a vector and rows that the kernel for these takes, which is as fast as
 * any library's. */
bool kl_matmul_by_rows(const struct kl_command *c);
/* Whether the convolution c is computed as products that are added up where they belong, which is
 * faster than a library whose results are always the same bits. */
bool kl_convolution_folds(const struct kl_command *c);

/* Whether the kernel of c, a norm, reads each element of its input once, at a single place, before
 * it stores anything of the same row. */
bool kl_norm_reads_once(const struct kl_emit *e, const struct kl_command *c);

/* Lowers c by kernels of the dialect. */
int kl_emit_by_family(struct kl_emit *e, const struct kl_command *c);
/* Lowers another command as a part of the one at hand, perhaps by a library of the driver. */
int kl_emit_command(struct kl_emit *e, const struct kl_command *c);

/* dst[...] = src[...] over dims, with any strides and elements of `item` bytes. Copies, updates and
 * concatenations are made of this. */
int kl_emit_copy(struct kl_emit *e, size_t item, int ndim, const int *dims, void *dst,
                 const int64_t *dst_strides, const void *src, const int64_t *src_strides);

/* For transforms by a library: makes elements 0 and, unless it is 0, `edge` of each line of `bins`
 * complex numbers real; z: n float32 as complex numbers; multiplies n float32. */
int kl_emit_fft_edges(struct kl_emit *e, void *z, int64_t lines, int64_t bins, int64_t edge);
int kl_emit_fft_widen(struct kl_emit *e, const void *x, void *z, int64_t n);
int kl_emit_fft_scale(struct kl_emit *e, void *x, float by, int64_t n);

/* Sets n elements of `item` bytes each to these bits. */
int kl_emit_fill(struct kl_emit *e, void *out, size_t item, int64_t n, uint64_t bits);

/* order[i] = the place of the i-th smallest of n keys, as uint32; the sort is stable. scratch has
 * kl_argsort_scratch(e, dtype, n) bytes; NULL in a dry run. */
size_t kl_argsort_scratch(const struct kl_emit *e, enum kl_dtype dtype, int64_t n);
int kl_emit_argsort(struct kl_emit *e, enum kl_dtype dtype, int64_t n, const void *keys,
                    void *order, void *scratch);

/* to[to_index] = the smallest of those of the words that are set. `to` is a chunk, or other words
 * with a summary in word 0. */
int kl_emit_merge(struct kl_emit *e, struct kl_karg to, int to_index,
                  const struct kl_word_ref *from, int n_from);

/* ---- for drivers ---- */

/* The driver is borrowed for ever. NULL when out of memory. */
struct kl_lowering *kl_lowering_new(struct kl_driver *d, struct kl_error **err);
/* The name of the storage type in the dialect, such as "f32". */
const char *kl_dialect_type(enum kl_dtype dtype);
/* The type in which an operation computes: float32 for 16-bit floats. */
const char *kl_dialect_compute_type(enum kl_dtype dtype);
/* The functions of these names of the driver (driver.h), between enter and leave; pending may be
 * NULL: then kl_lower_start waits. */
int kl_lower_start(struct kl_lowering *l, const struct kl_command *c, struct kl_pending *pending,
                   size_t *workspace_bytes, struct kl_error **err);
bool kl_lower_is_ready(const struct kl_pending *pending);
int kl_lower_wait(const struct kl_pending *pending, struct kl_error **err);
void kl_lower_ahead(struct kl_lowering *l, const struct kl_command *commands, int n,
                    struct kl_pending *pending);
/* In the child of a fork, in which nothing goes on being compiled. */
void kl_lowering_forked(struct kl_lowering *l);
/* Makes sure that c can be launched: compiles its kernels, and finds the bytes of its workspace.
 * kl_driver_prepare calls it. */
int kl_lower_prepare(struct kl_lowering *l, const struct kl_command *c, size_t *workspace_bytes,
                     struct kl_error **err);
/* Launches the kernels of all commands, which have their workspaces, on the queue, in order. When
 * it fails, some may have been launched. kl_driver_submit calls it. */
int kl_lower(struct kl_lowering *l, void *queue, const struct kl_command *commands, int n,
             struct kl_error **err);
