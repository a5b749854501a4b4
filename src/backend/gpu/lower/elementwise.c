/* elementwise.c - element-wise operations, alone or many in one kernel, whose source
 * fused_source.c generates, or in the kernel of the reduction or softmax that reads their result.
 *
 * A group is a run of element-wise commands with the same number of positions. Values that the
 * group computes stay in registers; a value is stored unless a later step of the group overwrites
 * its memory, or nobody needs it (kl_command.dead). Every step rounds to its own dtype, so a group
 * gives the bits of its operations run one by one. The kernel depends on the structure of the group
 * alone, and is found by a key that describes it. */
#include <string.h>

#include "backend/gpu/lower/fused.h"

enum {
    MAX_STORES = 4,
    LOCAL = 128, /* work-items per group; 256 are 2 % slower on an H200 where there is arithmetic */
    MAX_PACK_BYTES = 16,
    WORDS_OF_PACK = MAX_PACK_BYTES / 4, /* of random bits */
    /* Up to this number of positions a launch costs more than the memory traffic of an
     * operation. */
    SMALL = 1 << 16,
/* From this number of positions on, a kernel that computes what it reads is worth its
     * compilation: it saves a launch, and to store and load the result. */
#ifdef KL_TEST_HOOKS
    WORTH_A_FEED = 1 << 12,
#else
    WORTH_A_FEED = 1 << 20,
#endif
    MOST_READ_TWICE = 3, /* operands; softmax reads long rows twice */
    /* Operations that a norm computes as it reads: a row has few work-items, so a kernel of its own
     * does long arithmetic sooner. */
    MOST_STEPS_OF_ROWS = 6,
};

/* ---- which commands may join a group ---- */

static bool flat(const struct kl_arg *a) {
    return (a->layout & KL_ROW_CONTIGUOUS) != 0;
}

static bool one_element(const struct kl_arg *a) {
    for (int d = 0; d < a->ndim; d++)
        if (a->strides[d] != 0 && a->dims[d] != 1) return false;
    return true;
}

static void range_of(const struct kl_arg *a, const char **from, const char **to) {
    int64_t lo = 0, hi = 0, item = (int64_t)kl_dtype_size(a->dtype);
    for (int d = 0; d < a->ndim; d++) {
        int64_t reach = a->strides[d] * (a->dims[d] - 1);
        if (reach < 0)
            lo += reach;
        else
            hi += reach;
    }
    *from = (const char *)a->data + lo * item;
    *to = (const char *)a->data + (hi + 1) * item;
}

static bool overlap(const struct kl_arg *a, const struct kl_arg *b) {
    const char *a0, *a1, *b0, *b1;
    /* Operands without elements may have no address. */
    if (a->size == 0 || b->size == 0) return false;
    range_of(a, &a0, &a1);
    range_of(b, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

/* Whether position i of a and position i of b are the same element, for every i. */
static bool same_places(const struct kl_arg *a, const struct kl_arg *b) {
    return a->data == b->data && flat(a) && flat(b) &&
           kl_dtype_size(a->dtype) == kl_dtype_size(b->dtype);
}

static bool same_dims(const struct kl_fused_group *g, const struct kl_arg *a) {
    if (a->ndim != g->ndim) return false;
    return a->ndim == 0 || memcmp(a->dims, g->dims, (size_t)a->ndim * sizeof *a->dims) == 0;
}

/* Finds the number of an input in the group, or adds a leaf for it. KL_EUNSUPPORTED: the group
 * cannot take it. */
static int find_input(struct kl_fused_group *g, const struct kl_arg *a, int8_t *ref) {
    for (int k = g->n_steps - 1; k >= 0; k--) {
        const struct kl_arg *made = kl_fused_out(g->step[k].c);
        if (same_places(a, made) && a->dtype == made->dtype) {
            *ref = (int8_t)(-1 - k);
            return KL_OK;
        }
        /* It reads other elements of a value that this group computes. */
        if (overlap(a, made)) return KL_EUNSUPPORTED;
    }
    for (int k = 0; k < g->n_leaves; k++) {
        const struct kl_arg *l = g->leaf[k].arg;
        if (l->data == a->data && l->dtype == a->dtype && l->ndim == a->ndim &&
            l->given == a->given && l->value == a->value &&
            (a->ndim == 0 ||
             (memcmp(l->strides, a->strides, (size_t)a->ndim * sizeof *a->strides) == 0 &&
              memcmp(l->dims, a->dims, (size_t)a->ndim * sizeof *a->dims) == 0))) {
            *ref = (int8_t)k;
            return KL_OK;
        }
    }
    if (g->n_leaves == KL_FUSED_LEAVES) return KL_EUNSUPPORTED;
    struct kl_fused_leaf *l = &g->leaf[g->n_leaves];
    *l = (struct kl_fused_leaf){.arg = a, .operand = -1};
    if (one_element(a)) {
        l->walk = a->given ? KL_WALK_GIVEN : KL_WALK_SCALAR;
    } else if (flat(a)) {
        l->walk = KL_WALK_FLAT;
    } else {
        if (g->n_strided == KL_SPACE_OPERANDS) return KL_EUNSUPPORTED;
        if (g->random && a->ndim > KL_SPACE_DIMS) return KL_EUNSUPPORTED; /* several launches */
        if (g->dims && !same_dims(g, a)) return KL_EUNSUPPORTED;
        g->dims = a->dims;
        g->ndim = a->ndim;
        l->walk = KL_WALK_STRIDED;
        l->operand = g->n_strided++;
    }
    *ref = (int8_t)g->n_leaves++;
    return KL_OK;
}

/* A kernel that reads many operands is slower than several kernels that read few. Therefore a large
 * operation joins only when it uses a value of the group, or reads nothing but what the group reads
 * already. Small operations always join, because that saves a launch. */
static bool worth_it(const struct kl_fused_group *before, const struct kl_fused_group *g,
                     bool uses) {
    if (before->n_steps == 0 || uses || g->n <= SMALL) return true;
    for (int k = before->n_leaves; k < g->n_leaves; k++)
        if (!kl_fused_is_one(g->leaf[k].walk)) return false;
    return before->n_leaves > 0;
}

/* Begins the group with random bits: words of one key, two halves of them in whole packs. */
static bool add_random(struct kl_fused_group *g, const struct kl_command *c) {
    const struct kl_arg *key = &c->args[0], *out = kl_fused_out(c);
    if (g->n_steps || c->n_guards || !flat(out) || !flat(key) || key->size != 2 || out->size == 0 ||
        kl_dtype_size((enum kl_dtype)out->dtype) != 4 || out->size % (2 * WORDS_OF_PACK))
        return false;
    g->random = true;
    g->n = out->size;
    g->leaf[g->n_leaves++] = (struct kl_fused_leaf){.arg = key, .walk = KL_WALK_KEY, .operand = -1};
    g->step[g->n_steps++] = (struct kl_fused_step){.c = c, .stored = true};
    g->n_stores = 1;
    return true;
}

/* Adds c to the group. false: c cannot join, and the group is unchanged. */
static bool add(struct kl_fused_group *g, const struct kl_command *c) {
    struct kl_fused_group before = *g;
    const struct kl_arg *out = kl_fused_out(c);
    if (c->kind == KL_CMD_LAUNCH && kl_op_flags(c->op) & KL_OPF_BEGINS_RUN) return add_random(g, c);
    if (c->kind != KL_CMD_LAUNCH || !(kl_op_flags(c->op) & KL_OPF_ELEMENTWISE)) return false;
    if (g->n_steps == KL_FUSED_STEPS || !flat(out) || c->n_guards || c->n_in > 3) return false;
    if (g->n_steps && out->size != g->n) return false;
    g->n = out->size;
    struct kl_fused_step *s = &g->step[g->n_steps];
    *s = (struct kl_fused_step){.c = c, .stored = true};
    bool uses = false;
    for (int i = 0; i < c->n_in; i++) {
        if (find_input(g, &c->args[i], &s->ref[i])) goto no;
        uses = uses || s->ref[i] < 0;
    }
    if (!worth_it(&before, g, uses)) goto no;
    /* No other step of the group may read or write the memory that c writes, except at the same
     * position. */
    for (int k = 0; k < g->n_leaves; k++)
        if (overlap(out, g->leaf[k].arg) && !same_places(out, g->leaf[k].arg) &&
            !(g->n == 1 && out->data == g->leaf[k].arg->data))
            goto no;
    for (int k = 0; k < g->n_steps; k++) {
        const struct kl_arg *made = kl_fused_out(g->step[k].c);
        if (!overlap(out, made)) continue;
        if (!same_places(out, made)) goto no;
        g->step[k].stored = false; /* this step overwrites it */
    }
    for (int i = 0; i < c->n_in; i++)
        if (s->ref[i] < 0 && i < 32 && c->dead & UINT32_C(1) << i)
            g->step[-1 - s->ref[i]].stored = false; /* no later operation needs it */
    g->n_steps++;
    g->n_stores = 0;
    for (int k = 0; k < g->n_steps; k++) g->n_stores += g->step[k].stored;
    if (g->n_stores > MAX_STORES) goto no;
    return true;
no:
    *g = before;
    return false;
}

/* ---- the key: everything that the source depends on ---- */

static bool aligned(const void *p, int64_t bytes) {
    return ((uintptr_t)p & (uintptr_t)(bytes - 1)) == 0;
}

static int pack_of(const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    size_t largest = 1;
    for (int k = 0; k < g->n_leaves; k++) {
        size_t item = kl_dtype_size(g->leaf[k].arg->dtype);
        if (!kl_fused_is_one(g->leaf[k].walk) && g->leaf[k].walk != KL_WALK_KEY && item > largest)
            largest = item;
    }
    for (int k = 0; k < g->n_steps; k++) {
        size_t item = kl_dtype_size(kl_fused_out(g->step[k].c)->dtype);
        if (item > largest) largest = item;
    }
    int pack = (int)(MAX_PACK_BYTES / largest);
    for (; pack > 1; pack /= 2) {
        bool fits = true;
        for (int k = 0; k < g->n_leaves && fits; k++) {
            const struct kl_arg *a = g->leaf[k].arg;
            int64_t item = (int64_t)kl_dtype_size(a->dtype);
            if (g->leaf[k].walk == KL_WALK_FLAT) fits = aligned(a->data, item * pack);
        }
        for (int k = 0; k < g->n_steps && fits; k++)
            if (g->step[k].stored)
                fits = aligned(kl_fused_out(g->step[k].c)->data,
                               (int64_t)kl_dtype_size(kl_fused_out(g->step[k].c)->dtype) * pack);
        if (fits && p->has_space)
            fits = p->space.ndim > 0 && p->space.dims[p->space.ndim - 1] % pack == 0;
        if (fits) break;
    }
    /* Elements with a stride above 1 are read better by neighbouring work-items, one each. */
    for (int k = 0; k < g->n_leaves && pack > 1 && p->has_space; k++) {
        int o = g->leaf[k].operand;
        if (o >= 0 && p->space.strides[o][p->space.ndim - 1] > 1) pack = 1;
    }
    return pack;
}

static void walks_of(struct kl_fused_plan *p, const int64_t *offsets) {
    for (int k = 0; k < p->g->n_leaves; k++) {
        const struct kl_fused_leaf *l = &p->g->leaf[k];
        p->walk[k] = l->walk;
        if (l->walk != KL_WALK_STRIDED || p->space.ndim == 0) continue;
        int last = p->space.ndim - 1;
        int64_t item = (int64_t)kl_dtype_size(l->arg->dtype);
        if (p->space.strides[l->operand][last] == 0) {
            p->walk[k] = KL_WALK_STEADY;
        } else if (p->pack > 1 && p->space.strides[l->operand][last] == 1) {
            bool even =
                aligned((const char *)l->arg->data + offsets[l->operand] * item, item * p->pack);
            for (int d = 0; d < last; d++)
                even = even && p->space.strides[l->operand][d] % p->pack == 0;
            if (even) p->walk[k] = KL_WALK_PACKED;
        }
    }
}

static size_t key_of(const struct kl_fused_plan *p, uint8_t *key) {
    const struct kl_fused_group *g = p->g;
    size_t n = 0;
    key[n++] = (uint8_t)p->pack;
    key[n++] = (uint8_t)(p->has_space ? 1 + p->space.ndim : 0);
    key[n++] = p->small;
    key[n++] = (uint8_t)g->n_leaves;
    for (int k = 0; k < g->n_leaves; k++) {
        key[n++] = g->leaf[k].arg->dtype;
        key[n++] = p->walk[k];
        key[n++] = (uint8_t)g->leaf[k].operand;
    }
    for (int k = 0; k < g->n_steps; k++) {
        const struct kl_fused_step *s = &g->step[k];
        key[n++] = (uint8_t)s->c->op;
        key[n++] = kl_fused_out(s->c)->dtype;
        key[n++] = (uint8_t)(s->stored + 2 * s->c->n_in);
        for (int i = 0; i < s->c->n_in; i++) key[n++] = (uint8_t)s->ref[i];
    }
    return n;
}

/* ---- launching ---- */

enum { KEY_BYTES = 16 + 3 * KL_FUSED_LEAVES + 6 * KL_FUSED_STEPS };

/* The operands as arguments, from position `begin` on. at: the first elements of those in the
 * space. */
static int leaf_args(const struct kl_fused_plan *p, int64_t begin, const int64_t *at,
                     struct kl_karg *args) {
    const struct kl_fused_group *g = p->g;
    for (int k = 0; k < g->n_leaves; k++) {
        const struct kl_fused_leaf *l = &g->leaf[k];
        int64_t item = (int64_t)kl_dtype_size(l->arg->dtype);
        if (l->walk == KL_WALK_GIVEN) {
            args[k] = (struct kl_karg){&l->arg->value, (size_t)item, 0};
            continue;
        }
        int64_t from = l->operand >= 0 ? at[l->operand] : l->walk == KL_WALK_FLAT ? begin : 0;
        args[k] = KL_KARG_PTR((const char *)l->arg->data + from * item,
                              kl_fused_packed(p, k) ? item * p->pack : item);
    }
    return g->n_leaves;
}

struct job {
    struct kl_emit *e;
    const struct kl_fused_group *g;
    int64_t begin; /* the positions done by the launches before */
};

static int launch(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct job *j = ctx;
    const struct kl_fused_group *g = j->g;
    struct kl_fused_plan p = {.g = g, .has_space = g->n_strided > 0};
    int64_t none[KL_SPACE_OPERANDS] = {0}, n = g->n;
    if (p.has_space) {
        p.space = *space;
        n = space->n;
    }
    const int64_t *at = p.has_space ? offsets : none;
    p.small = n <= INT32_MAX;
    p.pack = pack_of(&p);
    /* There are several launches, so a flat operand continues where the last launch stopped, which
     * may not be aligned. */
    if (j->begin % p.pack) p.pack = 1;
    walks_of(&p, at);
    uint8_t key[KEY_BYTES];
    size_t key_bytes = key_of(&p, key);
    struct kl_karg args[KL_MAX_KARGS];
    int n_args = 0;
    const int64_t walked = g->random ? n / 2 : n; /* two positions of a work-item */
    args[n_args++] = KL_KARG(walked);
    if (p.has_space) args[n_args++] = KL_KARG(p.space);
    n_args += leaf_args(&p, j->begin, at, args + n_args);
    for (int k = 0; k < g->n_steps; k++) {
        const struct kl_arg *out = kl_fused_out(g->step[k].c);
        int64_t item = (int64_t)kl_dtype_size(out->dtype);
        if (g->step[k].stored)
            args[n_args++] = KL_KARG_PTR((const char *)out->data + j->begin * item, item * p.pack);
    }
    int64_t items = (walked + p.pack - 1) / p.pack, per_group = LOCAL;
    j->begin += n;
    return kl_emit_made(j->e, key, key_bytes, kl_fused_source, &p, "map",
                        (items + per_group - 1) / per_group, LOCAL, args, n_args);
}

/* Calls f for each space in which the strided operands of the group are walked. */
static int each_space(const struct kl_fused_group *g,
                      int (*f)(void *ctx, const struct kl_space *s, const int64_t *offsets),
                      void *ctx) {
    if (!g->n_strided) return f(ctx, NULL, NULL);
    const int64_t *strides[KL_SPACE_OPERANDS];
    for (int k = 0; k < g->n_leaves; k++)
        if (g->leaf[k].operand >= 0) strides[g->leaf[k].operand] = g->leaf[k].arg->strides;
    return kl_space_each(g->ndim, g->dims, g->n_strided, strides, f, ctx);
}

static int run(struct kl_emit *e, struct kl_fused_group *g) {
    struct job j = {e, g, 0};
    return g->n == 0 ? KL_OK : each_space(g, launch, &j);
}

/* ---- in the kernel of the reader ---- */

#ifdef KL_TEST_HOOKS
static _Atomic(int) n_feeds;
int kl_test_feeds(void) {
    return atomic_load(&n_feeds);
}
#endif

/* The operands that are more than one number. */
static int arrays_of(const struct kl_fused_group *g) {
    int arrays = 0;
    for (int k = 0; k < g->n_leaves; k++) arrays += !kl_fused_is_one(g->leaf[k].walk);
    return arrays;
}

/* Whether a reader that reads each element of its input once has nothing else to do with what the
 * group makes. */
static bool reads_no_more(const struct kl_fused_group *g, const struct kl_command *reader) {
    for (int k = 0; k < g->n_steps; k++)
        for (int i = 1; i < reader->n_in; i++)
            if (overlap(&reader->args[i], kl_fused_out(g->step[k].c))) return false;
    return true;
}

/* How a reader's kernel reads its first input. */
enum reading { IN_MEMORY, SEVERAL_TIMES, ONCE };
static enum reading reading_of(const struct kl_emit *e, const struct kl_command *reader) {
    const bool fetches = reader->kind == KL_CMD_LAUNCH &&
                         kl_op_flags(reader->op) & KL_OPF_FETCHES && !reader->n_guards;
    if (!fetches) return IN_MEMORY;
    if (reader->op != KL_OP_RMS_NORM && reader->op != KL_OP_LAYER_NORM) return SEVERAL_TIMES;
    return kl_norm_reads_once(e, reader) ? ONCE : IN_MEMORY;
}

/* Whether the group's last value, which alone is stored, may be computed where reader reads it. It
 * is stored no more where reader alone needs it and it has many elements, and by the reader where
 * others need it and it is read once. */
static bool may_feed(const struct kl_emit *e, struct kl_fused_group *g,
                     const struct kl_command *reader) {
    const enum reading reading = reading_of(e, reader);
    struct kl_fused_step *last = &g->step[g->n_steps - 1];
    const struct kl_arg *in = &reader->args[0], *made = kl_fused_out(last->c),
                        *out = &reader->args[reader->n_in];
    if (g->random || reading == IN_MEMORY || g->n > INT32_MAX || g->n_stores != 1 || !last->stored)
        return false;
    /* With more axes the reader might copy its input first. */
    if (!same_places(in, made) || in->dtype != made->dtype || in->ndim > KL_SPACE_DIMS)
        return false;
    const bool alone = reader->dead & 1, by_rows = reading == ONCE || reader->op == KL_OP_SOFTMAX;
    if (reading == ONCE ? g->n_steps > MOST_STEPS_OF_ROWS || !reads_no_more(g, reader)
                        : !alone || g->n < WORTH_A_FEED)
        return false;
    if (by_rows && arrays_of(g) > MOST_READ_TWICE) return false;
    /* A softmax and a norm store an element after it was read for the last time; a reduction stores
     * while others read. */
    for (int k = 0; k < g->n_leaves; k++)
        if (overlap(out, g->leaf[k].arg) && !(by_rows && same_places(out, g->leaf[k].arg)))
            return false;
    if (!alone && overlap(out, made)) return false;
    /* To store fewer elements costs less than to compile a second program that does not. */
    last->stored = !alone || (reading == ONCE && g->n < WORTH_A_FEED && !overlap(out, made));
    return true;
}

struct only_space {
    struct kl_fused_plan *p;
    int64_t offsets[KL_SPACE_OPERANDS];
    int n;
};

static int take_space(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct only_space *o = ctx;
    if (o->n++ || !space) return KL_OK;
    o->p->space = *space;
    memcpy(o->offsets, offsets, (size_t)o->p->g->n_strided * sizeof *offsets);
    return KL_OK;
}

/* Runs reader with the group in its kernel. 0: the group is not for it. */
static int feed(struct kl_emit *e, struct kl_fused_group *g, const struct kl_command *reader) {
    struct kl_fused_plan p = {.g = g, .has_space = g->n_strided > 0, .small = true};
    struct only_space only = {.p = &p};
    struct kl_karg args[KL_MAX_KARGS];
    uint8_t key[KEY_BYTES];
    if (!may_feed(e, g, reader)) return 0;
    each_space(g, take_space, &only);
    if (only.n > 1) goto no;
    p.pack = pack_of(&p);
    walks_of(&p, only.offsets);
    int n_args = leaf_args(&p, 0, only.offsets, args);
    if (p.has_space) args[n_args++] = KL_KARG(p.space);
    if (g->step[g->n_steps - 1].stored)
        args[n_args++] = KL_KARG_PTR(reader->args[0].data, kl_dtype_size(reader->args[0].dtype));
    const struct kl_feed feed = {.address = reader->args[0].data,
                                 .key = key,
                                 .key_bytes = key_of(&p, key),
                                 .source = kl_feed_source,
                                 .ctx = &p,
                                 .args = args,
                                 .n_args = n_args};
    struct kl_emit fed = *e;
    struct kl_error *why = NULL;
    fed.feed = &feed;
    fed.n_before += (int)(reader - (e->before + e->n_before));
    fed.workspace = reader->workspace;
    fed.room = reader->workspace_bytes;
    /* A group of the reader's size may be too large for a kernel that needs more registers. */
    fed.dry = true;
    fed.err = &why;
    const int rc = kl_emit_by_family(&fed, reader);
    kl_error_release(why);
    if (rc) goto no;
    if (e->ahead) return 1;
    fed.dry = false;
    fed.used = 0;
    fed.err = e->err;
    KL_TRY(kl_emit_by_family(&fed, reader));
#ifdef KL_TEST_HOOKS
    atomic_fetch_add(&n_feeds, 1);
#endif
    return 1;
no:
    g->step[g->n_steps - 1].stored = true;
    return 0;
}

/* Whether the device has what the operation needs. A lack is an error of the operation; a generated
 * source that does not compile is a bug. */
static int check(struct kl_emit *e, const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->args[i].dtype == KL_F64 && !e->driver->has_f64)
            return kl_fail(e->err, KL_EUNSUPPORTED, "%s: this device has no float64",
                           kl_op_name(c->op));
    return KL_OK;
}

int kl_lower_elementwise(struct kl_emit *e, const struct kl_command *c) {
    struct kl_fused_group g = {0};
    KL_TRY(check(e, c));
    /* The operation may become part of a group later. */
    if (e->dry && !e->ahead) return KL_OK;
    if (!add(&g, c))
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: a layout that no kernel takes",
                       kl_op_name(c->op));
    return run(e, &g);
}

int kl_lower_fused(struct kl_emit *e, const struct kl_command *commands, int n) {
    struct kl_fused_group g = {0};
    int taken = 0;
    while (taken < n && add(&g, &commands[taken])) taken++;
    const int fed = taken && taken < n ? feed(e, &g, &commands[taken]) : 0;
    if (fed) return fed < 0 ? fed : taken + 1;
    if (taken < 2) return 0;
    int rc = run(e, &g);
    return rc ? rc : taken;
}
