/* lower_elementwise.c - element-wise operations, alone or many in one kernel, by sources that are
 * generated here.
 *
 * A group is a run of element-wise commands with the same number of positions. Values that the
 * group computes stay in registers; a value is stored unless a later step of the group overwrites
 * its memory, or nobody needs it (kl_command.dead). Every step rounds to its own dtype, so a group
 * gives the bits of its operations run one by one. The kernel depends on the structure of the group
 * alone, and is found by a key that describes it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/gpu/kernels.h"
#include "backend/gpu/lower.h"
#include "base/alloc.h"

enum {
    MAX_LEAVES = 10,
    MAX_STEPS = 24,
    MAX_STORES = 4,
    LOCAL = 128, /* work-items per group; 256 are 2 % slower on an H200 where there is arithmetic */
    MAX_PACK_BYTES = 16,
    /* Up to this number of positions a launch costs more than the memory traffic of an
     * operation. */
    SMALL = 1 << 16,
};

/* How the elements of a leaf (an operand that the group reads from memory) are addressed. */
enum walk {
    FLAT,    /* element i at position i */
    SCALAR,  /* one element for all positions */
    STRIDED, /* by the space: neighbouring positions are a stride apart */
    STEADY,  /* by the space: one element along the whole innermost axis */
    PACKED,  /* by the space: neighbouring positions are contiguous and aligned */
};

struct leaf {
    const struct kl_arg *arg;
    uint8_t walk;
    /* Number of the operand in the space; -1: it is not in the space. */
    int operand;
    /* The range of memory that it may read, in bytes from `data`. */
    int64_t n_bytes_from, n_bytes_to;
};
struct step {
    const struct kl_command *c;
    int8_t ref[3]; /* leaf k is k; the value of step k is -1 - k */
    bool stored;
};
struct group {
    int64_t n;
    int n_leaves, n_steps, n_stores;
    struct leaf leaf[MAX_LEAVES];
    struct step step[MAX_STEPS];
    int ndim;
    const int *dims; /* of the strided leaves; NULL: there is none yet */
    int n_strided;
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

static bool same_dims(const struct group *g, const struct kl_arg *a) {
    if (a->ndim != g->ndim) return false;
    return a->ndim == 0 || memcmp(a->dims, g->dims, (size_t)a->ndim * sizeof *a->dims) == 0;
}

static const struct kl_arg *out_of(const struct kl_command *c) {
    return &c->args[c->n_in];
}

/* Finds the number of an input in the group, or adds a leaf for it. KL_EUNSUPPORTED: the group
 * cannot take it. */
static int find_input(struct group *g, const struct kl_arg *a, int8_t *ref) {
    for (int k = g->n_steps - 1; k >= 0; k--) {
        const struct kl_arg *made = out_of(g->step[k].c);
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
            (a->ndim == 0 ||
             (memcmp(l->strides, a->strides, (size_t)a->ndim * sizeof *a->strides) == 0 &&
              memcmp(l->dims, a->dims, (size_t)a->ndim * sizeof *a->dims) == 0))) {
            *ref = (int8_t)k;
            return KL_OK;
        }
    }
    if (g->n_leaves == MAX_LEAVES) return KL_EUNSUPPORTED;
    struct leaf *l = &g->leaf[g->n_leaves];
    *l = (struct leaf){.arg = a, .operand = -1};
    if (one_element(a)) {
        l->walk = SCALAR;
    } else if (flat(a)) {
        l->walk = FLAT;
    } else {
        if (g->n_strided == KL_SPACE_OPERANDS) return KL_EUNSUPPORTED;
        if (g->dims && !same_dims(g, a)) return KL_EUNSUPPORTED;
        g->dims = a->dims;
        g->ndim = a->ndim;
        l->walk = STRIDED;
        l->operand = g->n_strided++;
    }
    *ref = (int8_t)g->n_leaves++;
    return KL_OK;
}

/* A kernel that reads many operands is slower than several kernels that read few. Therefore a large
 * operation joins only when it uses a value of the group, or reads nothing but what the group reads
 * already. Small operations always join, because that saves a launch. */
static bool worth_it(const struct group *before, const struct group *g, bool uses) {
    if (before->n_steps == 0 || uses || g->n <= SMALL) return true;
    for (int k = before->n_leaves; k < g->n_leaves; k++)
        if (g->leaf[k].walk != SCALAR) return false;
    return before->n_leaves > 0;
}

/* Adds c to the group. false: c cannot join, and the group is unchanged. */
static bool add(struct group *g, const struct kl_command *c) {
    struct group before = *g;
    const struct kl_arg *out = out_of(c);
    if (c->kind != KL_CMD_LAUNCH || !(kl_op_flags(c->op) & KL_OPF_ELEMENTWISE)) return false;
    if (g->n_steps == MAX_STEPS || !flat(out) || c->n_guards || c->n_in > 3) return false;
    if (g->n_steps && out->size != g->n) return false;
    g->n = out->size;
    struct step *s = &g->step[g->n_steps];
    *s = (struct step){.c = c, .stored = true};
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
        const struct kl_arg *made = out_of(g->step[k].c);
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

struct plan {
    const struct group *g;
    struct kl_space space; /* valid when has_space */
    bool has_space, small; /* small: positions fit 32 bits */
    int pack;              /* contiguous elements that one access moves */
    uint8_t walk[MAX_LEAVES];
};

static bool aligned(const void *p, int64_t bytes) {
    return ((uintptr_t)p & (uintptr_t)(bytes - 1)) == 0;
}

static int pack_of(const struct plan *p, const int64_t *offsets) {
    const struct group *g = p->g;
    size_t largest = 1;
    for (int k = 0; k < g->n_leaves; k++) {
        size_t item = kl_dtype_size(g->leaf[k].arg->dtype);
        if (g->leaf[k].walk != SCALAR && item > largest) largest = item;
    }
    for (int k = 0; k < g->n_steps; k++) {
        size_t item = kl_dtype_size(out_of(g->step[k].c)->dtype);
        if (item > largest) largest = item;
    }
    int pack = (int)(MAX_PACK_BYTES / largest);
    for (; pack > 1; pack /= 2) {
        bool fits = true;
        for (int k = 0; k < g->n_leaves && fits; k++) {
            const struct kl_arg *a = g->leaf[k].arg;
            int64_t item = (int64_t)kl_dtype_size(a->dtype);
            if (g->leaf[k].walk == FLAT) fits = aligned(a->data, item * pack);
        }
        for (int k = 0; k < g->n_steps && fits; k++)
            if (g->step[k].stored)
                fits = aligned(out_of(g->step[k].c)->data,
                               (int64_t)kl_dtype_size(out_of(g->step[k].c)->dtype) * pack);
        if (fits && p->has_space)
            fits = p->space.ndim > 0 && p->space.dims[p->space.ndim - 1] % pack == 0;
        if (fits) break;
    }
    /* Elements with a stride above 1 are read better by neighbouring work-items, one each. */
    for (int k = 0; k < g->n_leaves && pack > 1 && p->has_space; k++) {
        int o = g->leaf[k].operand;
        if (o >= 0 && p->space.strides[o][p->space.ndim - 1] > 1) pack = 1;
    }
    (void)offsets;
    return pack;
}

static void walks_of(struct plan *p, const int64_t *offsets) {
    for (int k = 0; k < p->g->n_leaves; k++) {
        const struct leaf *l = &p->g->leaf[k];
        p->walk[k] = l->walk;
        if (l->walk != STRIDED || p->space.ndim == 0) continue;
        int last = p->space.ndim - 1;
        int64_t item = (int64_t)kl_dtype_size(l->arg->dtype);
        if (p->space.strides[l->operand][last] == 0) {
            p->walk[k] = STEADY;
        } else if (p->pack > 1 && p->space.strides[l->operand][last] == 1) {
            bool even =
                aligned((const char *)l->arg->data + offsets[l->operand] * item, item * p->pack);
            for (int d = 0; d < last; d++)
                even = even && p->space.strides[l->operand][d] % p->pack == 0;
            if (even) p->walk[k] = PACKED;
        }
    }
}

static size_t key_of(const struct plan *p, uint8_t *key) {
    const struct group *g = p->g;
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
        const struct step *s = &g->step[k];
        key[n++] = (uint8_t)s->c->op;
        key[n++] = out_of(s->c)->dtype;
        key[n++] = (uint8_t)(s->stored + 2 * s->c->n_in);
        for (int i = 0; i < s->c->n_in; i++) key[n++] = (uint8_t)s->ref[i];
    }
    return n;
}

/* ---- the source ---- */

/* Numbered names have an underscore before the number (value_3, step_8). No name of the dialect or
 * of a driver's language has that form, so a local variable never hides a type, as one named b8
 * once did. */

struct text {
    char *s;
    size_t n, room;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int more = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (!t->failed && t->n + (size_t)more + 1 > t->room) {
        size_t room = 2 * t->room + (size_t)more + 1024;
        char *s = kl_realloc(t->s, room);
        if (s) {
            t->s = s;
            t->room = room;
        } else {
            t->failed = true;
        }
    }
    if (!t->failed) t->n += (size_t)vsnprintf(t->s + t->n, t->room - t->n, format, again);
    va_end(again);
}

static const char *type_of(int dtype) {
    return kl_dialect_type((enum kl_dtype)dtype);
}

/* The type in which an operation computes: float32 for 16-bit floats. */
static const char *compute_of(int dtype) {
    return dtype == KL_F16 || dtype == KL_BF16 ? "f32" : type_of(dtype);
}

static void put_value(struct text *t, const struct step *s, int input) {
    if (s->ref[input] < 0)
        put(t, "step_%d", -1 - s->ref[input]);
    else
        put(t, "value_%d", s->ref[input]);
}

/* The steps of one position: from the values of the leaves (value_<k>) to the values of the steps
 * (step_<k>). */
static void put_steps(struct text *t, const struct group *g) {
    for (int k = 0; k < g->n_steps; k++) {
        const struct step *s = &g->step[k];
        const struct kl_arg *out = out_of(s->c), *in = s->c->args;
        int value = in[s->c->op == KL_OP_WHERE ? 1 : 0].dtype;
        put(t, "        c_%s step_%d = ", type_of(out->dtype), k);
        if (s->c->op == KL_OP_COPY || (s->c->op == KL_OP_CAST && value == out->dtype)) {
            put_value(t, s, 0);
        } else if (s->c->op == KL_OP_CAST) {
            put(t, "convert_%s_%s(", compute_of(value), type_of(out->dtype));
            put_value(t, s, 0);
            put(t, ")");
        } else {
            /* WHERE moves values, so there is nothing to round */
            bool moves = s->c->op == KL_OP_WHERE;
            put(t, moves ? "op_%s_%s(" : "ROUND(%s, op_%s_%s(",
                moves ? kl_op_name(s->c->op) : type_of(out->dtype),
                moves ? compute_of(value) : kl_op_name(s->c->op), compute_of(value));
            for (int i = 0; i < s->c->n_in; i++) {
                if (i) put(t, ", ");
                put_value(t, s, i);
            }
            put(t, moves ? ")" : "))");
        }
        put(t, ";\n");
    }
}

/* Computes the offsets of the strided leaves at position i. */
static void put_offsets(struct text *t, const struct plan *p) {
    const char *type = p->small ? "u32" : "i64";
    int n = p->g->n_strided;
    for (int o = 0; o < n; o++) put(t, "    i64 offset_%d = 0;\n", o);
    put(t, "    %s left = (%s)i, q;\n", type, type);
    for (int d = p->space.ndim - 1; d >= 0; d--) {
        if (d > 0)
            put(t, "    q = left / (%s)s.dims[%d];\n    left -= q * (%s)s.dims[%d];\n", type, d,
                type, d);
        for (int o = 0; o < n; o++)
            put(t, "    offset_%d += (i64)left * s.strides[%d][%d];\n", o, o, d);
        if (d > 0) put(t, "    left = q;\n");
    }
    put(t, "    (void)q;\n");
}

static bool packed(const struct plan *p, int leaf) {
    return p->walk[leaf] == FLAT || p->walk[leaf] == PACKED;
}

static int pack_bytes(const struct plan *p, int dtype) {
    return p->pack * (int)kl_dtype_size((enum kl_dtype)dtype);
}

/* A whole pack, with one access per operand. (Two packs per work-item were slower on an H200: 4.0
 * against 4.2 TB/s.) */
static void put_pack(struct text *t, const struct plan *p) {
    const struct group *g = p->g;
    put(t, "    if (i + %d <= n) {\n", p->pack);
    for (int k = 0; k < g->n_leaves; k++) {
        int dtype = g->leaf[k].arg->dtype;
        if (packed(p, k))
            put(t,
                "        PACK(%s, %d, %d) read_%d;\n        read_%d.w = *(GLOBAL const CAT(w, %d) "
                "*)leaf_%d;\n",
                type_of(dtype), p->pack, pack_bytes(p, dtype), k, k, pack_bytes(p, dtype), k);
    }
    for (int k = 0; k < g->n_steps; k++) {
        int dtype = out_of(g->step[k].c)->dtype;
        if (g->step[k].stored)
            put(t, "        PACK(%s, %d, %d) made_%d;\n", type_of(dtype), p->pack,
                pack_bytes(p, dtype), k);
    }
    put(t, "        UNROLL\n        for (int e = 0; e < %d; e++) {\n", p->pack);
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        if (packed(p, k))
            put(t, "        c_%s value_%d = value_%s(read_%d.e[e]);\n", type, k, type, k);
        if (p->walk[k] == STRIDED)
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, e * s.strides[%d][%d]);\n", type, k,
                type, k, g->leaf[k].operand, p->space.ndim - 1);
    }
    put_steps(t, g);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        made_%d.e[e] = stored_%s(step_%d);\n", k,
                type_of(out_of(g->step[k].c)->dtype), k);
    put(t, "        }\n");
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        *(GLOBAL CAT(w, %d) *)result_%d = made_%d.w;\n",
                pack_bytes(p, out_of(g->step[k].c)->dtype), k, k);
    put(t, "        return;\n    }\n");
}

/* The positions one by one: all of them, or those that do not fill a pack. With a space, n is a
 * multiple of the pack. */
static void put_elements(struct text *t, const struct plan *p) {
    const struct group *g = p->g;
    put(t, "    for (int e = 0; e < %d && i + e < n; e++) {\n", p->pack);
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        if (packed(p, k))
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, e);\n", type, k, type, k);
        if (p->walk[k] == STRIDED)
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, %s);\n", type, k, type, k,
                p->pack > 1 ? "e" : "0");
    }
    put_steps(t, g);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        STORE(%s, result_%d, e, step_%d);\n",
                type_of(out_of(g->step[k].c)->dtype), k, k);
    put(t, "    }\n}\n");
}

/* Whether elementwise.kl has the function of op. The functions of the other operations are in
 * math.kl, which is left out where nothing needs it. */
static bool is_basic(enum kl_op_id op) {
    switch (op) {
    case KL_OP_COPY:
    case KL_OP_CAST:
    case KL_OP_NEGATIVE:
    case KL_OP_ABS:
    case KL_OP_EXP:
    case KL_OP_LOG:
    case KL_OP_SQRT:
    case KL_OP_SQUARE:
    case KL_OP_FLOOR:
    case KL_OP_ERFINV:
    case KL_OP_LOGICAL_NOT:
    case KL_OP_ADD:
    case KL_OP_SUBTRACT:
    case KL_OP_MULTIPLY:
    case KL_OP_DIVIDE:
    case KL_OP_MAXIMUM:
    case KL_OP_MINIMUM:
    case KL_OP_EQUAL:
    case KL_OP_NOT_EQUAL:
    case KL_OP_LESS:
    case KL_OP_LESS_EQUAL:
    case KL_OP_GREATER:
    case KL_OP_GREATER_EQUAL:
    case KL_OP_LOGICAL_AND:
    case KL_OP_LOGICAL_OR:
    case KL_OP_WHERE: return true;
    default: return false;
    }
}

static char *source(void *ctx) {
    const struct plan *p = ctx;
    const struct group *g = p->g;
    struct text t = {0};
    bool basic = true;
    for (int k = 0; k < g->n_steps; k++) basic = basic && is_basic(g->step[k].c->op);
    put(&t, "%s%s\nKERNEL(map)(i64 n", kl_source_elementwise, basic ? "" : kl_source_math);
    if (p->has_space) put(&t, ", struct space s");
    for (int k = 0; k < g->n_leaves; k++) put(&t, ", PTR(from_%d)", k);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored) put(&t, ", PTR(to_%d)", k);
    put(&t, ") {\n    i64 i = gid() * %d;\n    if (i >= n) return;\n", p->pack);
    if (p->has_space) put_offsets(&t, p);
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        int o = g->leaf[k].operand;
        put(&t, "    GLOBAL const %s *leaf_%d = AT(const %s, from_%d)", type, k, type, k);
        if (p->walk[k] == FLAT) put(&t, " + i");
        if (o >= 0) put(&t, " + offset_%d", o);
        put(&t, ";\n");
        if (p->walk[k] == SCALAR || p->walk[k] == STEADY)
            put(&t, "    c_%s value_%d = LOAD(%s, leaf_%d, 0);\n", type, k, type, k);
    }
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(&t, "    GLOBAL %s *result_%d = AT(%s, to_%d) + i;\n",
                type_of(out_of(g->step[k].c)->dtype), k, type_of(out_of(g->step[k].c)->dtype), k);
    if (p->pack > 1) put_pack(&t, p);
    put_elements(&t, p);
    if (t.failed) {
        kl_free(t.s);
        return NULL;
    }
    return t.s;
}

/* ---- launching ---- */

struct job {
    struct kl_emit *e;
    const struct group *g;
    int64_t begin; /* the positions done by the launches before */
};

static int launch(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct job *j = ctx;
    const struct group *g = j->g;
    struct plan p = {.g = g, .has_space = g->n_strided > 0};
    int64_t none[KL_SPACE_OPERANDS] = {0}, n = g->n;
    if (p.has_space) {
        p.space = *space;
        n = space->n;
    }
    const int64_t *at = p.has_space ? offsets : none;
    p.small = n <= INT32_MAX;
    p.pack = pack_of(&p, at);
    /* There are several launches, so a flat operand continues where the last launch stopped, which
     * may not be aligned. */
    if (j->begin % p.pack) p.pack = 1;
    walks_of(&p, at);
    uint8_t key[16 + 3 * MAX_LEAVES + 6 * MAX_STEPS];
    size_t key_bytes = key_of(&p, key);
    struct kl_karg args[KL_MAX_KARGS];
    int n_args = 0;
    args[n_args++] = KL_KARG(n);
    if (p.has_space) args[n_args++] = KL_KARG(p.space);
    for (int k = 0; k < g->n_leaves; k++) {
        const struct leaf *l = &g->leaf[k];
        int64_t item = (int64_t)kl_dtype_size(l->arg->dtype);
        int64_t from = l->operand >= 0 ? at[l->operand] : l->walk == FLAT ? j->begin : 0;
        args[n_args++] = KL_KARG_PTR((const char *)l->arg->data + from * item,
                                     packed(&p, k) ? item * p.pack : item);
    }
    for (int k = 0; k < g->n_steps; k++) {
        const struct kl_arg *out = out_of(g->step[k].c);
        int64_t item = (int64_t)kl_dtype_size(out->dtype);
        if (g->step[k].stored)
            args[n_args++] = KL_KARG_PTR((const char *)out->data + j->begin * item, item * p.pack);
    }
    int64_t items = (n + p.pack - 1) / p.pack, per_group = LOCAL;
    j->begin += n;
    return kl_emit_made(j->e, key, key_bytes, source, &p, "map",
                        (items + per_group - 1) / per_group, LOCAL, args, n_args);
}

static int run(struct kl_emit *e, struct group *g) {
    struct job j = {e, g, 0};
    if (g->n == 0) return KL_OK;
    if (!g->n_strided) return launch(&j, NULL, NULL);
    const int64_t *strides[KL_SPACE_OPERANDS];
    for (int k = 0; k < g->n_leaves; k++)
        if (g->leaf[k].operand >= 0) strides[g->leaf[k].operand] = g->leaf[k].arg->strides;
    return kl_space_each(g->ndim, g->dims, g->n_strided, strides, launch, &j);
}

/* Whether the device has what the operation needs. A lack is an error of the operation; a generated
 * source that does not compile is a bug. */
static int check(struct kl_emit *e, const struct kl_command *c) {
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->args[i].dtype == KL_F64 && !e->port->has_f64)
            return kl_fail(e->err, KL_EUNSUPPORTED, "%s: this device has no float64",
                           kl_op_name(c->op));
    return KL_OK;
}

int kl_lower_elementwise(struct kl_emit *e, const struct kl_command *c) {
    struct group g = {0};
    KL_TRY(check(e, c));
    if (e->dry) return KL_OK; /* the operation may become part of a group later */
    if (!add(&g, c))
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: a layout that no kernel takes",
                       kl_op_name(c->op));
    return run(e, &g);
}

int kl_lower_fused(struct kl_emit *e, const struct kl_command *commands, int n) {
    struct group g = {0};
    int taken = 0;
    while (taken < n && add(&g, &commands[taken])) taken++;
    if (taken < 2) return 0;
    int rc = run(e, &g);
    return rc ? rc : taken;
}
