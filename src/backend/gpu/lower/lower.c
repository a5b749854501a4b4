/* lower.c - which family lowers which operation, and the commands of a submission one after the
 * other. */
#include "backend/gpu/lower/lower.h"

#include "backend/gpu/lower/lowering.h"
#include "base/alloc.h"
#include "base/fork_locks.h"

enum {
    ALIGNMENTS = 1024, /* no kernel depends on an alignment above this */
#ifdef KL_TEST_HOOKS
    ALWAYS_MERGES = true, /* launches wait for each other on every device that is tested */
#else
    ALWAYS_MERGES = false,
#endif
};
static const uint64_t mix_size = 0x9E3779B97F4A7C15u; /* of kl_prepared.key */

/* ---- which family ---- */

static kl_lower_fn *const by_op[KL_N_OPS] = {
#define KL_OP(ID, name, n_in, flags, kernel, lowering, ...) [KL_OP_##ID] = lowering,
#include "base/op/op_list.def"
};

/* Copies between different layouts have kernels of their own; a copy between row-major arrays is
 * lowered as an element-wise operation. */
static bool is_move(const struct kl_command *c) {
    return c->op == KL_OP_COPY && !(c->args[0].layout & c->args[1].layout & KL_ROW_CONTIGUOUS);
}

/* 1 when the driver runs c in a way of its own. */
static int by_driver(struct kl_emit *e, const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH || !e->driver->ops->override) return 0;
    return e->driver->ops->override(e, c);
}

int kl_emit_by_family(struct kl_emit *e, const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH) return kl_lower_guards(e, c);
    kl_lower_fn *f = by_op[c->op];
    if (kl_op_flags(c->op) & KL_OPF_ELEMENTWISE && !is_move(c)) f = kl_lower_elementwise;
    if (!f)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "%s cannot run on this device; a stream of the CPU runs it",
                       c->name ? c->name : kl_op_name(c->op));
    return f(e, c);
}

static int lower_one(struct kl_emit *e, const struct kl_command *c) {
    const int rc = by_driver(e, c);
    if (rc) return rc < 0 ? rc : KL_OK;
    return kl_emit_by_family(e, c);
}

int kl_emit_command(struct kl_emit *e, const struct kl_command *c) {
    KL_TRY(kl_side_settle(e)); /* a driver's own way does not wait */
    return lower_one(e, c);
}

/* A hash of everything that decides which kernels c needs. 0: not known, as for kernels of users,
 * whose sources come and go, and operations of groups, whose parameters are references. */
static uint64_t signature(const struct kl_command *c) {
    if (c->kind != KL_CMD_LAUNCH || c->op == KL_OP_KERNEL || c->op == KL_OP_CALL) return 0;
    if (kl_op_is_collective(c->op)) return 0;
    if (c->params && !c->params_bytes) return 0;
    uint64_t h = kl_hash_mix(c->op, (uint64_t)c->checked << 1 | (c->word.words != NULL));
    if (c->params_bytes) h = kl_hash_mix(h, kl_hash_bytes(c->params, c->params_bytes));
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        const struct kl_arg *a = &c->args[i];
        size_t n = (size_t)a->ndim;
        h = kl_hash_mix(h, (uint64_t)a->dtype << 32 | (uint64_t)a->layout << 8 | (uint64_t)n);
        if (n)
            h = kl_hash_mix(kl_hash_mix(h, kl_hash_bytes(a->dims, n * sizeof *a->dims)),
                            kl_hash_bytes(a->strides, n * sizeof *a->strides));
        h = kl_hash_mix(h, (uintptr_t)a->data % ALIGNMENTS);
        for (int k = 0; k < i; k++) h = kl_hash_mix(h, c->args[k].data == a->data);
    }
    return kl_hash_mix(h, (uint64_t)(c->pos_end - c->pos_begin)) | 1;
}

/* A command with the signature of one that was prepared lately is not prepared again: looking up
 * the signature costs less than choosing the kernels. Two different commands collide once in 2^63;
 * then the second is compiled when it is handed over, and a failure of that compilation fails its
 * whole command buffer. */
int kl_lower_prepare(struct kl_lowering *l, const struct kl_command *c, size_t *workspace_bytes,
                     struct kl_error **err) {
    struct kl_emit e = {.lowering = l, .driver = l->driver, .dry = true, .err = err};
    uint64_t s = signature(c);
    struct kl_prepared *p = &l->prepared[(s >> 32) % KL_PREPARED];
    uint64_t size = atomic_load_explicit(&p->size, memory_order_relaxed);
    if (s && atomic_load_explicit(&p->key, memory_order_relaxed) == (s ^ size * mix_size)) {
        *workspace_bytes = (size_t)size;
        return KL_OK;
    }
    KL_TRY(lower_one(&e, c));
    *workspace_bytes = e.used;
    if (!s) return KL_OK;
    atomic_store_explicit(&p->size, e.used, memory_order_relaxed);
    atomic_store_explicit(&p->key, s ^ (uint64_t)e.used * mix_size, memory_order_relaxed);
    return KL_OK;
}

static struct kl_emit emit_of(struct kl_lowering *l, void *queue, const struct kl_command *commands,
                              int at, struct kl_error **err) {
    return (struct kl_emit){.lowering = l,
                            .driver = l->driver,
                            .queue = queue,
                            .err = err,
                            .before = commands,
                            .n_before = at,
                            .workspace = commands[at].workspace,
                            .room = commands[at].workspace_bytes};
}

/* Lowers n commands from `first` on that may run side by side: as one launch when each is a launch
 * of the same kernel. */
static int lower_side_by_side(struct kl_lowering *l, void *queue, const struct kl_command *commands,
                              int first, int n, struct kl_error **err) {
    struct kl_side side; /* of 15 KB, which are not cleared for each group */
    side.n = 0;
    for (int i = first; i < first + n; i++) {
        struct kl_emit e = emit_of(l, queue, commands, i, err);
        const int rc = by_driver(&e, &commands[i]);
        if (rc < 0) return rc;
        if (rc > 0) continue;
        e.side = &side;
        side.again = false;
        KL_TRY(kl_emit_by_family(&e, &commands[i]));
    }
    struct kl_emit e = emit_of(l, queue, commands, first, err);
    return kl_side_launch(&e, &side);
}

int kl_lower(struct kl_lowering *l, void *queue, const struct kl_command *commands, int n,
             struct kl_error **err) {
    for (int i = 0; i < n;) {
        const int together =
            l->driver->merges || ALWAYS_MERGES ? kl_side_by_side(commands + i, n - i) : 1;
        if (together > 1) {
            KL_TRY(lower_side_by_side(l, queue, commands, i, together, err));
            i += together;
            continue;
        }
        struct kl_emit e = emit_of(l, queue, commands, i, err);
        /* A run of element-wise operations becomes one kernel, as far as the run goes. */
        int fused = kl_lower_fused(&e, commands + i, n - i);
        if (fused < 0) return fused;
        if (fused == 0) KL_TRY(lower_one(&e, &commands[i]));
        i += fused ? fused : 1;
    }
    return KL_OK;
}

const struct kl_family *const *kl_families(int *n) {
    static const struct kl_family *const families[] = {
#define KL_FAMILY(name) &kl_family_##name,
#include "backend/gpu/lower/families.def"
    };
    *n = sizeof families / sizeof *families;
    return families;
}

struct kl_lowering *kl_lowering_new(struct kl_driver *d, struct kl_error **err) {
    struct kl_lowering *l = kl_calloc(1, sizeof *l);
    if (!l) {
        kl_fail_nomem(err);
        return NULL;
    }
    l->driver = d;
    kl_mutex_init(&l->mu);
    kl_mutex_init(&l->compiling);
    kl_fork_lock_add(&l->compiling);
    kl_fork_lock_add(&l->mu);
    return l;
}
