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
int kl_lower_start(struct kl_lowering *l, const struct kl_command *c, struct kl_pending *pending,
                   size_t *workspace_bytes, struct kl_error **err) {
    struct kl_emit e = {
        .lowering = l, .driver = l->driver, .dry = true, .err = err, .pending = pending};
    const int n_pending = pending ? pending->n : 0;
    uint64_t s = signature(c);
    struct kl_prepared *p = &l->prepared[(s >> 32) % KL_PREPARED];
    uint64_t size = atomic_load_explicit(&p->size, memory_order_relaxed);
    if (s && atomic_load_explicit(&p->key, memory_order_relaxed) == (s ^ size * mix_size)) {
        *workspace_bytes = (size_t)size;
        return KL_OK;
    }
    KL_TRY(lower_one(&e, c));
    *workspace_bytes = e.used;
    /* A command like this one, too, has to know of the kernels that may still fail. */
    if (!s || (pending && pending->n > n_pending)) return KL_OK;
    atomic_store_explicit(&p->size, e.used, memory_order_relaxed);
    atomic_store_explicit(&p->key, s ^ (uint64_t)e.used * mix_size, memory_order_relaxed);
    return KL_OK;
}

int kl_lower_prepare(struct kl_lowering *l, const struct kl_command *c, size_t *workspace_bytes,
                     struct kl_error **err) {
    return kl_lower_start(l, c, NULL, workspace_bytes, err);
}

bool kl_lower_is_ready(const struct kl_pending *pending) {
    for (int i = 0; i < pending->n; i++) {
        const enum kl_compiled_state state =
            atomic_load_explicit(&pending->kernel[i]->state, memory_order_acquire);
        if (state == KL_KERNEL_QUEUED || state == KL_KERNEL_RUNNING) return false;
    }
    return true;
}

int kl_lower_wait(const struct kl_pending *pending, struct kl_error **err) {
    for (int i = 0; i < pending->n; i++) {
        KL_TRY(kl_compiling_wait(pending->kernel[i], err));
        KL_TRY(kl_compiled_check(pending->kernel[i], err));
    }
    return KL_OK;
}

/* ---- the commands of a submission ---- */

static struct kl_emit emit_of(const struct kl_emit *all, const struct kl_command *commands,
                              int at) {
    struct kl_emit e = *all;
    e.before = commands;
    e.n_before = at;
    e.workspace = commands[at].workspace;
    e.room = commands[at].workspace_bytes;
    return e;
}

/* Lowers n commands from `first` on that may run side by side: as one launch when each is a launch
 * of the same kernel. */
static int lower_side_by_side(const struct kl_emit *all, const struct kl_command *commands,
                              int first, int n) {
    struct kl_side side; /* of 15 KB, which are not cleared for each group */
    int64_t elements = 0;
    side.n = 0;
    for (int i = first; i < first + n; i++) elements += commands[i].args[commands[i].n_in].size;
    for (int i = first; i < first + n; i++) {
        struct kl_emit e = emit_of(all, commands, i);
        const int rc = by_driver(&e, &commands[i]);
        if (rc < 0) return rc;
        if (rc > 0) continue;
        e.side = &side;
        e.elements = elements;
        side.again = false;
        KL_TRY(kl_emit_by_family(&e, &commands[i]));
    }
    struct kl_emit e = emit_of(all, commands, first);
    return kl_side_launch(&e, &side);
}

#ifdef KL_TEST_HOOKS
static _Atomic(int) n_rotations;
int kl_test_rotations(void) {
    return atomic_load(&n_rotations);
}
#endif

/* The commands from `at` on that move rows by one launch. */
static int lower_rotations(struct kl_emit *e, const struct kl_command *commands, int n) {
    const int taken = kl_lower_rotations(e, commands, n);
#ifdef KL_TEST_HOOKS
    if (taken > 1 && !e->dry) atomic_fetch_add(&n_rotations, taken - 1);
#endif
    return taken;
}

/* Lowers the commands from `at` on that become launches together, at least one; *taken: how
 * many. */
static int lower_next(const struct kl_emit *all, const struct kl_command *commands, int at, int n,
                      int *taken) {
    const bool merges = all->driver->merges || ALWAYS_MERGES;
    *taken = merges ? kl_side_by_side(commands + at, n - at) : 1;
    if (*taken > 1) return lower_side_by_side(all, commands, at, *taken);
    struct kl_emit e = emit_of(all, commands, at);
    const int rotations = lower_rotations(&e, commands + at, n - at);
    if (rotations > 0) *taken = rotations;
    if (rotations) return rotations < 0 ? rotations : KL_OK;
    /* A run of element-wise operations becomes one kernel, as far as the run goes. */
    const int fused = kl_lower_fused(&e, commands + at, n - at);
    if (fused > 0) *taken = fused;
    return fused > 0 ? KL_OK : fused < 0 ? fused : lower_one(&e, &commands[at]);
}

int kl_lower(struct kl_lowering *l, void *queue, const struct kl_command *commands, int n,
             struct kl_error **err) {
    struct kl_pass pass = {.commands = commands, .n = n};
    const struct kl_emit all = {
        .lowering = l, .driver = l->driver, .queue = queue, .err = err, .pass = &pass};
    for (int i = 0, taken; i < n; i += taken) KL_TRY(lower_next(&all, commands, i, n, &taken));
    return KL_OK;
}

/* A failure here is ignored: it comes again, and is told, when the commands are lowered. */
static void look_ahead(struct kl_lowering *l, const struct kl_command *commands, int at, int n,
                       struct kl_pending *pending) {
    if (!l->driver->ops->helper_begin) return;
    struct kl_error *ignored = NULL;
    const struct kl_emit all = {.lowering = l,
                                .driver = l->driver,
                                .dry = true,
                                .ahead = true,
                                .err = &ignored,
                                .pending = pending};
    for (int i = at, taken; i < n && pending->n < KL_MOST_PENDING; i += taken)
        (void)lower_next(&all, commands, i, n, &taken);
    kl_error_release(ignored);
}

void kl_lower_ahead(struct kl_lowering *l, const struct kl_command *commands, int n,
                    struct kl_pending *pending) {
    look_ahead(l, commands, 0, n, pending);
}

void kl_pass_look_ahead(const struct kl_emit *e) {
    struct kl_pass *p = e->pass;
    struct kl_pending others = {0};
    if (!p || p->looked_ahead) return;
    p->looked_ahead = true;
    look_ahead(e->lowering, p->commands, e->n_before, p->n, &others);
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
