/* fused_source.c - generates the source of a kernel for a group of element-wise commands; see
 * fused.h. The source calls functions of kernels/elementwise.kl and kernels/math.kl. */
#include "backend/gpu/lower/fused.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "base/alloc.h"

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

static void put_value(struct text *t, const struct kl_fused_step *s, int input) {
    if (s->ref[input] < 0)
        put(t, "step_%d", -1 - s->ref[input]);
    else
        put(t, "value_%d", s->ref[input]);
}

/* The steps of one position: from the values of the leaves (value_<k>) to the values of the steps
 * (step_<k>). */
static void put_steps(struct text *t, const struct kl_fused_group *g) {
    for (int k = 0; k < g->n_steps; k++) {
        const struct kl_fused_step *s = &g->step[k];
        const struct kl_arg *out = kl_fused_out(s->c), *in = s->c->args;
        int value = in[s->c->op == KL_OP_WHERE ? 1 : 0].dtype;
        put(t, "        c_%s step_%d = ", type_of(out->dtype), k);
        if (s->c->op == KL_OP_RANDOM_BITS) {
            put(t, "(c_%s)(turn ? second[e] : first[e])", type_of(out->dtype));
        } else if (s->c->op == KL_OP_COPY || (s->c->op == KL_OP_CAST && value == out->dtype)) {
            put_value(t, s, 0);
        } else if (s->c->op == KL_OP_CAST) {
            put(t, "convert_%s_%s(", kl_dialect_compute_type(value), type_of(out->dtype));
            put_value(t, s, 0);
            put(t, ")");
        } else {
            /* WHERE moves values, so there is nothing to round */
            bool moves = s->c->op == KL_OP_WHERE;
            put(t, moves ? "op_%s_%s(" : "ROUND(%s, op_%s_%s(",
                moves ? kl_op_name(s->c->op) : type_of(out->dtype),
                moves ? kl_dialect_compute_type(value) : kl_op_name(s->c->op),
                kl_dialect_compute_type(value));
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
static void put_offsets(struct text *t, const struct kl_fused_plan *p) {
    if (!p->has_space) return;
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

static int pack_bytes(const struct kl_fused_plan *p, int dtype) {
    return p->pack * (int)kl_dtype_size((enum kl_dtype)dtype);
}

/* The parameter of a kernel for leaf k. */
static void put_parameter(struct text *t, const struct kl_fused_plan *p, int k) {
    if (p->walk[k] == KL_WALK_GIVEN)
        put(t, ", PARAM(%s, from_%d)", type_of(p->g->leaf[k].arg->dtype), k);
    else
        put(t, ", PTR(from_%d)", k);
}

/* The leaves at position i: pointers leaf_<k>, and the values that are the same for all neighbours.
 * Parameters are elements or pointers from_<k>, or, of a kernel, the parts of pointers. */
static void put_leaves(struct text *t, const struct kl_fused_plan *p, bool from_parts) {
    const struct kl_fused_group *g = p->g;
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        int o = g->leaf[k].operand;
        if (p->walk[k] == KL_WALK_GIVEN) {
            put(t, "    c_%s value_%d = value_%s(from_%d);\n", type, k, type, k);
            continue;
        }
        put(t, "    GLOBAL const %s *leaf_%d = ", type, k);
        if (from_parts)
            put(t, "AT(const %s, from_%d)", type, k);
        else
            put(t, "from_%d", k);
        if (p->walk[k] == KL_WALK_FLAT) put(t, " + i");
        if (o >= 0) put(t, " + offset_%d", o);
        put(t, ";\n");
        if (p->walk[k] == KL_WALK_SCALAR || p->walk[k] == KL_WALK_STEADY)
            put(t, "    c_%s value_%d = LOAD(%s, leaf_%d, 0);\n", type, k, type, k);
    }
}

/* Reads the packs of position i, read_<k>. */
static void put_reads(struct text *t, const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    for (int k = 0; k < g->n_leaves; k++) {
        int dtype = g->leaf[k].arg->dtype;
        if (kl_fused_packed(p, k))
            put(t,
                "        PACK(%s, %d, %d) read_%d;\n        read_%d.w = *(GLOBAL const CAT(w, %d) "
                "*)leaf_%d;\n",
                type_of(dtype), p->pack, pack_bytes(p, dtype), k, k, pack_bytes(p, dtype), k);
    }
}

/* The values of the leaves, and the steps, of element e of a pack. */
static void put_pack_steps(struct text *t, const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        if (kl_fused_packed(p, k))
            put(t, "        c_%s value_%d = value_%s(read_%d.e[e]);\n", type, k, type, k);
        if (p->walk[k] == KL_WALK_STRIDED)
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, e * s.strides[%d][%d]);\n", type, k,
                type, k, g->leaf[k].operand, p->space.ndim - 1);
    }
    put_steps(t, g);
}

/* A whole pack, with one access per operand. (Two packs per work-item were slower on an H200: 4.0
 * against 4.2 TB/s.) */
static void put_pack(struct text *t, const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    put_reads(t, p);
    for (int k = 0; k < g->n_steps; k++) {
        int dtype = kl_fused_out(g->step[k].c)->dtype;
        if (g->step[k].stored)
            put(t, "        PACK(%s, %d, %d) made_%d;\n", type_of(dtype), p->pack,
                pack_bytes(p, dtype), k);
    }
    put(t, "        UNROLL\n        for (int e = 0; e < %d; e++) {\n", p->pack);
    put_pack_steps(t, p);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        made_%d.e[e] = stored_%s(step_%d);\n", k,
                type_of(kl_fused_out(g->step[k].c)->dtype), k);
    put(t, "        }\n");
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        *(GLOBAL CAT(w, %d) *)result_%d = made_%d.w;\n",
                pack_bytes(p, kl_fused_out(g->step[k].c)->dtype), k, k);
}

/* The positions one by one: all of them, or those that do not fill a pack. With a space, n is a
 * multiple of the pack. */
static void put_elements(struct text *t, const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    put(t, "    for (int e = 0; e < %d && i + e < n; e++) {\n", p->pack);
    for (int k = 0; k < g->n_leaves; k++) {
        const char *type = type_of(g->leaf[k].arg->dtype);
        if (kl_fused_packed(p, k))
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, e);\n", type, k, type, k);
        if (p->walk[k] == KL_WALK_STRIDED)
            put(t, "        c_%s value_%d = LOAD(%s, leaf_%d, %s);\n", type, k, type, k,
                p->pack > 1 ? "e" : "0");
    }
    put_steps(t, g);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "        STORE(%s, result_%d, e, step_%d);\n",
                type_of(kl_fused_out(g->step[k].c)->dtype), k, k);
    put(t, "    }\n");
}

/* Whether elementwise.kl has the function of op. The functions of the other operations are in
 * math.kl, which is left out where nothing needs it. */
static bool is_basic(enum kl_op_id op) {
    switch (op) {
    case KL_OP_RANDOM_BITS:
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

/* The functions that the steps of the group call. */
static void put_library(struct text *t, const struct kl_fused_group *g) {
    bool basic = true;
    for (int k = 0; k < g->n_steps; k++) basic = basic && is_basic(g->step[k].c->op);
    put(t, "%s%s\n", kl_source_elementwise, basic ? "" : kl_source_math);
}

static char *finished(struct text *t) {
    if (!t->failed) return t->s;
    kl_free(t->s);
    return NULL;
}

/* The positions of a work-item, one pack of them, or as many as there are. */
static void put_positions(struct text *t, const struct kl_fused_plan *p) {
    const struct kl_fused_group *g = p->g;
    put_offsets(t, p);
    put_leaves(t, p, true);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored)
            put(t, "    GLOBAL %s *result_%d = AT(%s, to_%d) + i;\n",
                type_of(kl_fused_out(g->step[k].c)->dtype), k,
                type_of(kl_fused_out(g->step[k].c)->dtype), k);
    if (g->random) {
        put_pack(t, p);
        return;
    }
    if (p->pack > 1) {
        put(t, "    if (i + %d <= n) {\n", p->pack);
        put_pack(t, p);
        put(t, "        return;\n    }\n");
    }
    put_elements(t, p);
}

/* The random words of a work-item, and its positions, a pack in either half. */
static void put_random(struct text *t, const struct kl_fused_plan *p) {
    put(t,
        "    GLOBAL const u32 *key = AT(const u32, from_0);\n"
        "    u32 first[%d], second[%d];\n"
        "    UNROLL\n    for (int e = 0; e < %d; e++) {\n"
        "        first[e] = (u32)(at + e);\n        second[e] = (u32)(n + at + e);\n"
        "        threefry(key[0], key[1], &first[e], &second[e]);\n    }\n"
        "    UNROLL\n    for (int turn = 0; turn < 2; turn++) {\n    i64 i = at + turn * n;\n",
        p->pack, p->pack, p->pack);
    put_positions(t, p);
    put(t, "    }\n");
}

char *kl_fused_source(void *ctx) {
    const struct kl_fused_plan *p = ctx;
    const struct kl_fused_group *g = p->g;
    struct text t = {0};
    put_library(&t, g);
    put(&t, "KERNEL(map)(PARAM(i64, n)");
    if (p->has_space) put(&t, ", PARAM(struct space, s)");
    for (int k = 0; k < g->n_leaves; k++) put_parameter(&t, p, k);
    for (int k = 0; k < g->n_steps; k++)
        if (g->step[k].stored) put(&t, ", PTR(to_%d)", k);
    const char *at = g->random ? "at" : "i";
    put(&t, ") {\n    BEGIN();\n    i64 %s = gid() * %d;\n    if (%s >= n) return;\n", at, p->pack,
        at);
    if (g->random)
        put_random(&t, p);
    else
        put_positions(&t, p);
    put(&t, "}\n");
    return finished(&t);
}

/* The parameters of the functions of a feed. */
static void put_feed_head(struct text *t, const struct kl_fused_plan *p, const char *head) {
    put(t, "FN %s", head);
    for (int k = 0; k < p->g->n_leaves; k++)
        put(t, p->walk[k] == KL_WALK_GIVEN ? ", %s from_%d" : ", GLOBAL const %s *from_%d",
            type_of(p->g->leaf[k].arg->dtype), k);
    put(t, "%s) {\n", p->has_space ? ", struct space s" : "");
}

/* A reader that reads each element once stores it where others need it too: then its kernel has one
 * parameter more. */
static const char stores[] = "#define KEEP(p, at, v) (AT(IN, fed_to)[(p) + (at)] = (v))\n"
                             "#define KEEP_VEC(p, at, v) "
                             "(*(GLOBAL uint4 *)(AT(IN, fed_to) + (p) + (at)) = (v))\n",
                  drops[] = "#define KEEP(p, at, v) ((void)0)\n"
                            "#define KEEP_VEC(p, at, v) ((void)0)\n";

char *kl_feed_source(void *ctx) {
    const struct kl_fused_plan *p = ctx;
    const struct kl_fused_group *g = p->g;
    const int last = g->n_steps - 1, dtype = kl_fused_out(g->step[last].c)->dtype;
    const char *type = type_of(dtype);
    const int all = 16 / (int)kl_dtype_size((enum kl_dtype)dtype);
    char head[64];
    struct text t = {0};
    put_library(&t, g);
    put(&t, "#define FED_PARAMS ");
    for (int k = 0; k < g->n_leaves; k++) put_parameter(&t, p, k);
    put(&t, "%s%s\n#define FED_ARGS ", p->has_space ? ", PARAM(struct space, fed)" : "",
        g->step[last].stored ? ", PTR(fed_to)" : "");
    for (int k = 0; k < g->n_leaves; k++)
        if (p->walk[k] == KL_WALK_GIVEN)
            put(&t, ", from_%d", k);
        else
            put(&t, ", AT(const %s, from_%d)", type_of(g->leaf[k].arg->dtype), k);
    put(&t, "%s\n%s", p->has_space ? ", fed" : "", g->step[last].stored ? stores : drops);
    /* The element at position i. */
    snprintf(head, sizeof head, "%s fed_one(i64 i", type);
    put_feed_head(&t, p, head);
    put_offsets(&t, p);
    put_leaves(&t, p, false);
    for (int k = 0; k < g->n_leaves; k++)
        if (!kl_fused_is_one(p->walk[k]) && p->walk[k] != KL_WALK_STEADY)
            put(&t, "    c_%s value_%d = LOAD(%s, leaf_%d, 0);\n", type_of(g->leaf[k].arg->dtype),
                k, type_of(g->leaf[k].arg->dtype), k);
    put_steps(&t, g);
    put(&t, "    return stored_%s(step_%d);\n}\n", type, last);
    /* 16 bytes of elements from position `at` on, a pack at a time. */
    put_feed_head(&t, p, "uint4 fed_vec(i64 at");
    put(&t, "    union {\n        uint4 q;\n        %s v[%d];\n    } all;\n", type, all);
    put(&t, "    UNROLL\n    for (int h = 0; h < %d; h += %d) {\n    i64 i = at + h;\n", all,
        p->pack);
    put_offsets(&t, p);
    put_leaves(&t, p, false);
    put_reads(&t, p);
    put(&t, "        UNROLL\n        for (int e = 0; e < %d; e++) {\n", p->pack);
    put_pack_steps(&t, p);
    put(&t, "        all.v[h + e] = stored_%s(step_%d);\n        }\n    }\n    return all.q;\n}\n",
        type, last);
    return finished(&t);
}
