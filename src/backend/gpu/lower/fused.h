/* fused.h - a group of element-wise commands that become one kernel: its description, which
 * lower/elementwise.c makes, and its source, which fused_source.c generates from the description.
 * Only these two files include it. */
#pragma once
#include "backend/gpu/lower/lower.h"

/* How the elements of a leaf are addressed. */
enum kl_walk {
    KL_WALK_FLAT,    /* element i at position i */
    KL_WALK_SCALAR,  /* one element for all positions */
    KL_WALK_GIVEN,   /* the same, and the element is an argument of the kernel */
    KL_WALK_STRIDED, /* by the space: neighbouring positions are a stride apart */
    KL_WALK_STEADY,  /* by the space: one element along the whole innermost axis */
    KL_WALK_PACKED,  /* by the space: neighbouring positions are contiguous and aligned */
    KL_WALK_KEY,     /* the key of random bits: leaf 0, if step 0 makes them */
};

/* An operand that the group reads from memory. */
struct kl_fused_leaf {
    const struct kl_arg *arg;
    uint8_t walk;
    /* Number of the operand in the space; -1: it is not in the space. */
    int operand;
};
/* One command of the group. stored: its value is written to memory. */
struct kl_fused_step {
    const struct kl_command *c;
    int8_t ref[3]; /* leaf k is k; the value of step k is -1 - k */
    bool stored;
};
/* A run of element-wise commands with n positions each. */
struct kl_fused_group {
    int64_t n;
    int n_leaves, n_steps, n_stores;
    struct kl_fused_leaf leaf[KL_FUSED_LEAVES];
    struct kl_fused_step step[KL_FUSED_STEPS];
    int ndim;
    const int *dims; /* of the strided leaves; NULL: there is none yet */
    int n_strided;
    /* Step 0 makes random bits, of positions i and i + n / 2 at once; one work-item has both. */
    bool random;
};

/* Everything that the source of a group depends on. */
struct kl_fused_plan {
    const struct kl_fused_group *g;
    struct kl_space space; /* valid when has_space */
    bool has_space, small; /* small: positions fit 32 bits */
    int pack;              /* contiguous elements that one access moves */
    uint8_t walk[KL_FUSED_LEAVES];
};

/* Whether a leaf is one element for all positions. */
static inline bool kl_fused_is_one(uint8_t walk) {
    return walk == KL_WALK_SCALAR || walk == KL_WALK_GIVEN;
}

/* The output of an element-wise command. */
static inline const struct kl_arg *kl_fused_out(const struct kl_command *c) {
    return &c->args[c->n_in];
}

/* Whether one access reads a whole pack of the leaf. */
static inline bool kl_fused_packed(const struct kl_fused_plan *p, int leaf) {
    return p->walk[leaf] == KL_WALK_FLAT || p->walk[leaf] == KL_WALK_PACKED;
}

/* The functions by which a reader's kernel computes the group's last value (READ in prelude.kl),
 * for ctx, a struct kl_fused_plan. kl_malloc'd; NULL when out of memory. */
char *kl_feed_source(void *ctx);
/* The source of the kernel `map` for ctx, a struct kl_fused_plan. kl_malloc'd; NULL when out of
 * memory. */
char *kl_fused_source(void *ctx);
