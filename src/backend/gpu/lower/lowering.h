/* lowering.h - the state that the files of lowering share: compiled kernels, how they are found,
 * and launches that wait for others, with which they become one launch. Files of gpu/lower/ include
 * it. */
#pragma once
#include "backend/gpu/lower/lower.h"
#include "backend/gpu/lower/side_by_side.h"
#include "base/thread.h"

/* ---- compiled.c: kernels that are compiled ---- */

enum kl_compiled_state {
    KL_KERNEL_READY,
    KL_KERNEL_NEW,     /* nobody has begun to compile it */
    KL_KERNEL_QUEUED,  /* waits for a thread that compiles it */
    KL_KERNEL_RUNNING, /* a thread compiles it */
    KL_KERNEL_FAILED   /* whoever wants it next has it compiled again */
};

/* A kernel, found by what it is made from: an entry of a family with its values, or a key
 * that stands for a source made at run time. Immortal. */
struct kl_compiled {
    struct kl_compiled *next; /* next entry of its bucket */
    uint64_t hash;
    const struct kl_family *family; /* NULL: found by `key` */
    int values[KL_MAX_DEFINES];
    uint32_t local;
    const void *key; /* a copy of the key, for entries without a family, or that are fed */
    size_t key_bytes;
    const char *name; /* of the kernel; a copy for entries without a family */
    /* The number of launches that are one, each with merged_bytes of arguments; 0: a single
     * launch. */
    int merged;
    size_t merged_bytes;
    /* Written under the lock of compiling.c; READY tells that the two after it are valid. */
    _Atomic(enum kl_compiled_state) state;
    void *kernel;
    struct kl_kernel_limits limits;
    /* Of compiling.c, guarded by its lock. */
    struct kl_lowering *lowering;
    struct kl_link link;    /* while it is queued */
    char *source, *file;    /* owned, until it is compiled */
    struct kl_error *error; /* why it failed; held */
    int rc;
};
struct kl_wanted { /* an entry to find, and how to make it when it is new */
    struct kl_compiled e;
    const char *file; /* what messages call the source */
    /* malloc'd result; with a family what comes before its source. NULL: the source is the
     * family's, or the key is the source itself. */
    char *(*source)(void *ctx);
    void *ctx;
    const char *library; /* for entries without a family; may be NULL */
    bool bare;           /* the source stands alone, without preludes and library */
    bool is_program;     /* the key is a compiled program */
    bool once;           /* not to be compiled again when it has failed */
};
enum {
    KL_COMPILED_BUCKETS = 1024,
    KL_PREPARED = 256,
    /* Merged launches; prelude_cuda.kl has the same alignment. A kernel of CUDA takes 4 KB. */
    KL_MERGED_ALIGN = 16,
    KL_MERGED_MOST = 3 << 10, /* bytes of the arguments of all */
};

/* A command that was prepared lately. Threads write both numbers without a lock; the first is the
 * command's signature only together with the second. */
struct kl_prepared {
    _Atomic(uint64_t) key;  /* the signature, exclusive or a multiple of `size` (lower.c) */
    _Atomic(uint64_t) size; /* of the workspace */
};

struct kl_lowering {
    struct kl_driver *driver;
    struct kl_mutex mu; /* a leaf; guards what is appended to the buckets */
    _Atomic(struct kl_compiled *) bucket[KL_COMPILED_BUCKETS];
    /* Held while a thread compiles what it needs itself, so that a kernel which two threads want is
     * compiled once. Taken before mu. */
    struct kl_mutex compiling;
    _Atomic(bool) one_by_one; /* a merged kernel could not be made: launches stay apart */
    struct kl_prepared prepared[KL_PREPARED];
};

/* h with v mixed in. */
static inline uint64_t kl_hash_mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    return h * 0xBF58476D1CE4E5B9u;
}
uint64_t kl_hash_bytes(const void *data, size_t n);
/* The number of macros of a family. */
int kl_n_defines(const struct kl_family *f);
/* The compiled kernel, made first when it is new; that may block. */
int kl_compiled_get(struct kl_lowering *l, const struct kl_wanted *w, struct kl_compiled **out,
                    struct kl_error **err);
/* The same, but a driver with helper_begin has it compiled by another thread: *out may not be ready
 * yet. */
int kl_compiled_start(struct kl_lowering *l, const struct kl_wanted *w, struct kl_compiled **out,
                      struct kl_error **err);
/* The fields that identify e, to find a kernel like it. */
struct kl_compiled kl_compiled_like(const struct kl_compiled *e);
/* Makes e from its source: sets kernel and limits. */
int kl_compiled_make(struct kl_lowering *l, struct kl_compiled *e, const char *source,
                     const char *file, struct kl_error **err);
/* Fails when a group of the kernel's size is more than the device takes of it. e is ready. */
int kl_compiled_check(const struct kl_compiled *e, struct kl_error **err);
static inline bool kl_compiled_is_ready(const struct kl_compiled *e) {
    return atomic_load_explicit(&e->state, memory_order_acquire) == KL_KERNEL_READY;
}

/* ---- compiling.c: threads that compile ---- */

/* Queues e, which is new or has failed, with what it is made from, and which is taken. Not when
 * another thread has done so. */
void kl_compiling_start(struct kl_compiled *e, char *source, char *file);
/* Waits for e, or compiles it when no thread has begun to. The code and the error of its
 * failure. */
int kl_compiling_wait(struct kl_compiled *e, struct kl_error **err);
/* In the child of a fork: fails e when it waits for a thread, and starts anew without threads. */
void kl_compiling_forked(void);
void kl_compiling_fail_forked(struct kl_compiled *e);

/* ---- lower.c: the commands of a submission ---- */

/* The state of lowering the commands of one submission. */
struct kl_pass {
    const struct kl_command *commands;
    int n;
    /* All that the commands need is compiled or has been started. */
    bool looked_ahead;
};
/* A kernel is not compiled yet: starts to compile all others that are needed from the command at
 * hand on. */
void kl_pass_look_ahead(const struct kl_emit *e);

/* ---- merge.c: launches, and several in one ---- */

/* A launch that waits for those of other commands side by side with its own, with copies of the
 * arguments. */
struct kl_waiting {
    struct kl_compiled *kernel;
    uint32_t groups;
    size_t shared_bytes;
    int n_args;
    struct kl_karg args[KL_MAX_KARGS];
    _Alignas(
        KL_MERGED_ALIGN) char values[KL_MERGED_MOST]; /* of the arguments that are no addresses */
    size_t value_bytes;
};
struct kl_side {
    struct kl_waiting launch[KL_MOST_SIDE_BY_SIDE];
    int n;
    bool again; /* the command at hand has a launch here already */
};

/* Launches a kernel on the queue of e. */
int kl_hand_over(struct kl_emit *e, void *kernel, uint32_t groups, uint32_t local,
                 size_t shared_bytes, const struct kl_karg *args, int n_args);
/* Keeps a launch; false when it cannot wait. */
bool kl_side_keep(struct kl_side *s, struct kl_compiled *kernel, uint32_t groups,
                  size_t shared_bytes, const struct kl_karg *args, int n_args);
/* Launches what waits, launches of one kernel together. */
int kl_side_launch(struct kl_emit *e, const struct kl_side *s);
/* Launches one by one what waits; what follows does not wait. */
int kl_side_settle(struct kl_emit *e);
