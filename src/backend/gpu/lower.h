/* lower.h - from commands to launches of kernels in the common dialect: what the drivers of real devices share.
 *
 * One file per family of operations (lower_<family>.c with kernels/<family>.kl). Such a file chooses a kernel, its parameters and the number of
 * groups for one command, and calls kl_emit. Everything here runs twice: dry, when the operation is encoded (compiles what
 * is missing, so that a failure is that operation's alone), and for good when its command buffer is handed over. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/port.h"

enum { KL_MAX_KARGS = 32, KL_MAX_DEFINES = 8 };

/* A source file of kernels and what it is compiled for. Immortal. */
struct kl_family {
    const char *name;   /* "reduce": kernels/reduce.kl */
    const char *source; /* from kernels.h */
    /* One value each in kl_emit. "T:x" is a dtype: defines x as the storage type's name (u8, f16, ...; the dialect's CAT(load_, x) and the like
     * take it) and x_ID as its number. "x" is an integer: defines x. NULL beyond. */
    const char *defines[KL_MAX_DEFINES];
    const char *library; /* another source that comes in front; may be NULL */
};

extern const struct kl_family kl_family_arg_reduce, kl_family_copy, kl_family_guards,
    kl_family_make, kl_family_matmul, kl_family_reduce, kl_family_softmax, kl_family_sort;
/* All of them, for tests that compile every one: a family that is not here is not compiled before it is used. */
const struct kl_family *const *kl_families(int *n);

struct kl_lowering;
/* The state of lowering one command. */
struct kl_emit {
    struct kl_lowering *lowering;
    struct kl_port *port;
    void *queue; /* the driver's; NULL when dry */
    bool dry;
    struct kl_error **err;
};

/* Launches kernel `entry` of the family compiled with these values (as many as it has defines), with `local` work-items per group
 * (LOCAL in the dialect: the value with which it is compiled). Nothing is launched when dry, or when groups is 0. */
int kl_emit(struct kl_emit *e, const struct kl_family *f, const int *values, const char *entry,
            int64_t groups, uint32_t local, const struct kl_karg *args, int n_args);
/* Source made at run time, complete but for the preludes: compiled once per text. name: of the source, in messages. */
int kl_emit_source(struct kl_emit *e, const char *name, const char *source, const char *entry,
                   int64_t groups, uint32_t local, const struct kl_karg *args, int n_args);
/* The same, named by a key that is cheaper to make than the source, which is asked for only when the key is new (malloc'd). */
int kl_emit_made(struct kl_emit *e, const void *key, size_t key_bytes, char *(*source)(void *ctx),
                 void *ctx, const char *entry, int64_t groups, uint32_t local,
                 const struct kl_karg *args, int n_args);
/* Source of a user. */
struct kl_grid_launch {
    const char *name, *source, *entry; /* as of kl_emit_source */
    const char *library;               /* comes between preludes and source; may be NULL */
    bool bare;                         /* the source stands alone: no prelude, no library */
    uint32_t groups[3], local[3];
    size_t shared_bytes;
};
int kl_emit_grid(struct kl_emit *e, const struct kl_grid_launch *g, const struct kl_karg *args,
                 int n_args);
/* item: the bytes that the kernel reads or writes there at once, which is what the address must be
 * aligned to. */
#define KL_KARG_PTR(p, item) ((struct kl_karg){(p), 0, (uint32_t)(item)})
#define KL_KARG(lvalue) ((struct kl_karg){&(lvalue), sizeof(lvalue), 0})

/* Scratch memory that is divided: each part begins at a multiple of what any kernel accesses. */
enum { KL_SCRATCH_ALIGNMENT = 256 };
static inline size_t kl_scratch_bytes(size_t bytes) {
    return (bytes + KL_SCRATCH_ALIGNMENT - 1) & ~(size_t)(KL_SCRATCH_ALIGNMENT - 1);
}

/* ---- spaces: operands walked together ---- */

enum { KL_SPACE_DIMS = 8, KL_SPACE_OPERANDS = 4 };
/* An iteration space, outermost axis first, axes of size 1 dropped and neighbours merged where all operands allow it. The dialect has the same struct
 * (struct space); strides are in elements. */
struct kl_space {
    int64_t n; /* positions */
    int32_t ndim;
    int32_t dims[KL_SPACE_DIMS];
    int32_t pad;
    int64_t strides[KL_SPACE_OPERANDS][KL_SPACE_DIMS];
};
/* dims and n_operands strides (rows of ndim) to one or more spaces: more than KL_SPACE_DIMS axes become several launches. Calls
 * each(ctx, space, offsets of the operands in elements) until it returns non-zero. Nothing is called when n is 0. */
int kl_space_each(int ndim, const int *dims, int n_operands, const int64_t *const *strides,
                  int (*each)(void *ctx, const struct kl_space *s, const int64_t *offsets),
                  void *ctx);
/* The operand is walked in order without gaps. */
bool kl_space_contiguous(const struct kl_space *s, int operand);

/* ---- faults ---- */

/* Behind the words of a chunk is an address, on CUDA. */
enum { KL_WORDS_ITEM = 8 };

/* The word of c in the form that checked kernels take: PTR(word), int word_index; CHECKED in their defines says whether they are there. */
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

/* ---- one function per family: lowers c, whose op it knows ---- */
int kl_lower_elementwise(struct kl_emit *e, const struct kl_command *c);
/* As many of the first commands as one kernel can do: their number, at least 2, else 0; negative codes. */
int kl_lower_fused(struct kl_emit *e, const struct kl_command *commands, int n);
int kl_lower_copy(struct kl_emit *e, const struct kl_command *c);         /* COPY */
int kl_lower_arange(struct kl_emit *e, const struct kl_command *c);       /* ARANGE */
int kl_lower_random_bits(struct kl_emit *e, const struct kl_command *c);  /* RANDOM_BITS */
int kl_lower_slice_update(struct kl_emit *e, const struct kl_command *c); /* SLICE_UPDATE */
int kl_lower_concatenate(struct kl_emit *e, const struct kl_command *c);  /* CONCATENATE */
int kl_lower_depends(struct kl_emit *e, const struct kl_command *c);      /* DEPENDS */
int kl_lower_reduce(struct kl_emit *e, const struct kl_command *c);       /* SUM, MAX, MIN */
int kl_lower_arg_reduce(struct kl_emit *e, const struct kl_command *c);   /* ARGMAX, ARGMIN */
int kl_lower_softmax(struct kl_emit *e, const struct kl_command *c);      /* SOFTMAX */
int kl_lower_sort(struct kl_emit *e, const struct kl_command *c);         /* SORT, ARGSORT */
int kl_lower_matmul(struct kl_emit *e, const struct kl_command *c);       /* MATMUL */
int kl_lower_gather(struct kl_emit *e, const struct kl_command *c);       /* GATHER, GATHER_AXIS */
int kl_lower_scatter(struct kl_emit *e, const struct kl_command *c); /* SCATTER, SCATTER_AXIS */
int kl_lower_kernel(struct kl_emit *e, const struct kl_command *c);  /* KERNEL */
int kl_lower_guards(struct kl_emit *e,
                    const struct kl_command *c); /* KL_CMD_MERGE, KL_CMD_GUARD_* */

/* dst[...] = src[...] over dims, any strides, `item` bytes each: what copies, updates and concatenations are made of. */
int kl_emit_copy(struct kl_emit *e, size_t item, int ndim, const int *dims, void *dst,
                 const int64_t *dst_strides, const void *src, const int64_t *src_strides);

/* n elements of `item` bytes, each with these bits. */
int kl_emit_fill(struct kl_emit *e, void *out, size_t item, int64_t n, uint64_t bits);

/* order[i] = the place of the i-th smallest of n keys, equal ones in order; uint32. scratch: kl_argsort_scratch(e, dtype, n) bytes, NULL when dry. */
size_t kl_argsort_scratch(const struct kl_emit *e, enum kl_dtype dtype, int64_t n);
int kl_emit_argsort(struct kl_emit *e, enum kl_dtype dtype, int64_t n, const void *keys,
                    void *order, void *scratch);

/* to[to_index] = the smallest of the words that are set; to is a chunk's or other words with a summary in front. */
int kl_emit_merge(struct kl_emit *e, struct kl_karg to, int to_index,
                  const struct kl_word_ref *from, int n_from);

/* ---- for drivers ---- */

/* port is borrowed, for ever. NULL when out of memory. */
struct kl_lowering *kl_lowering_new(struct kl_port *port, struct kl_error **err);
/* "f32" and so on: the name of the storage type in the dialect. */
const char *kl_dialect_type(enum kl_dtype dtype);
/* Makes sure that c can be launched: compiles. The driver's slot `prepare`. */
int kl_lower_prepare(struct kl_lowering *l, const struct kl_command *c, struct kl_error **err);
/* Launches all of them on the queue, in order. After a failure some may have been launched. */
int kl_lower(struct kl_lowering *l, void *queue, const struct kl_command *commands, int n,
             struct kl_error **err);
