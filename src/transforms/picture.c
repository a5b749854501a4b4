/* picture.c - see picture.h. The graph is copied under the commit lock, and written afterwards. */
#include "transforms/picture.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/node.h"
#include "ops/build/check.h"

/* ---- names ---- */

struct named {
    struct kl_array *array; /* owned */
    char *name;             /* owned */
    bool set;               /* by the caller */
};

struct kl_namer {
    struct named *v;
    size_t n, room;
    uint32_t *slots; /* number of an entry + 1; n_slots is a power of two */
    size_t n_slots;
    size_t tried; /* how many names were made up, used or not */
    size_t n_set; /* how many names were set by the caller */
};

struct kl_namer *kl_namer_new(struct kl_error **err) {
    struct kl_namer *n = kl_calloc(1, sizeof *n);
    if (!n) kl_fail_nomem(err);
    return n;
}

void kl_namer_free(struct kl_namer *n) {
    if (!n) return;
    for (size_t i = 0; i < n->n; i++) {
        kl_array_release(n->v[i].array);
        kl_free(n->v[i].name);
    }
    kl_free(n->v);
    kl_free(n->slots);
    kl_free(n);
}

/* Where the array is in the table, or the free place for it. n_slots is not 0. */
static uint32_t *place(const struct kl_namer *n, const struct kl_array *a) {
    size_t at = ((uintptr_t)a >> 4) * (size_t)0x9e3779b97f4a7c15u >> 7;
    for (;; at++) {
        uint32_t *slot = &n->slots[at & (n->n_slots - 1)];
        if (*slot == 0 || n->v[*slot - 1].array == a) return slot;
    }
}

static int make_room(struct kl_namer *n, struct kl_error **err) {
    if (n->n == n->room) {
        size_t more = n->room ? 2 * n->room : 32;
        void *v = kl_realloc(n->v, more * sizeof *n->v);
        if (!v) return kl_fail_nomem(err);
        n->v = v;
        n->room = more;
    }
    if (2 * (n->n + 1) > n->n_slots) {
        size_t more = n->n_slots ? 2 * n->n_slots : 64;
        uint32_t *slots = kl_calloc(more, sizeof *slots);
        if (!slots) return kl_fail_nomem(err);
        kl_free(n->slots);
        n->slots = slots;
        n->n_slots = more;
        for (size_t i = 0; i < n->n; i++) *place(n, n->v[i].array) = (uint32_t)i + 1;
    }
    return KL_OK;
}

/* Gives a the name, which is copied. */
static int name_it(struct kl_namer *n, struct kl_array *a, const char *name,
                   struct kl_error **err) {
    KL_TRY(make_room(n, err));
    char *own = kl_strdup(name);
    if (!own) return kl_fail_nomem(err);
    uint32_t *slot = place(n, a);
    if (*slot) {
        kl_free(n->v[*slot - 1].name);
        n->v[*slot - 1].name = own;
        return KL_OK;
    }
    n->v[n->n++] = (struct named){.array = kl_array_retain(a), .name = own};
    *slot = (uint32_t)n->n;
    return KL_OK;
}

int kl_namer_set(struct kl_namer *n, struct kl_array *a, const char *name, struct kl_error **err) {
    if (!name) return kl_fail(err, KL_EARG, "the name is NULL");
    KL_TRY(name_it(n, a, name, err));
    struct named *to = &n->v[*place(n, a) - 1];
    n->n_set += !to->set;
    to->set = true;
    return KL_OK;
}

/* Whether an array got the name from the caller. */
static bool is_set(const struct kl_namer *n, const char *name) {
    size_t left = n->n_set;
    for (size_t i = 0; left > 0; i++) {
        if (!n->v[i].set) continue;
        if (strcmp(n->v[i].name, name) == 0) return true;
        left--;
    }
    return false;
}

/* A, B, ..., Z, AA, AB, ...: the name of number x, written at the end of text. */
static const char *letters(char text[16], size_t x) {
    char *at = text + 15;
    *at = 0;
    do {
        *--at = (char)('A' + x % 26);
        x = x / 26;
    } while (x-- > 0);
    return at;
}

int kl_namer_get(struct kl_namer *n, struct kl_array *a, const char **name, struct kl_error **err) {
    KL_TRY(make_room(n, err));
    if (!*place(n, a)) {
        char text[16];
        while (is_set(n, letters(text, n->tried))) n->tried++;
        KL_TRY(name_it(n, a, letters(text, n->tried), err));
        n->tried++;
    }
    *name = n->v[*place(n, a) - 1].name;
    return KL_OK;
}

/* ---- the graph ---- */

struct operation {
    const char *name; /* static, or of a node that the arrays keep */
    struct kl_arrays in, out;
};

struct graph {
    struct operation *v;
    size_t n, room;
};

static void graph_free(struct graph *g) {
    for (size_t i = 0; i < g->n; i++) {
        kl_arrays_free(&g->v[i].in);
        kl_arrays_free(&g->v[i].out);
    }
    kl_free(g->v);
}

static int retain_each(struct kl_arrays *to, struct kl_array *const *from, int n,
                       struct kl_error **err) {
    KL_TRY(kl_arrays_new(to, (size_t)n, err));
    to->n = 0; /* an output that nobody holds any more is left out */
    for (int i = 0; i < n; i++)
        if (from[i]) to->v[to->n++] = kl_array_retain(from[i]);
    return KL_OK;
}

static int append(struct graph *g, const struct kl_node *n, struct kl_error **err) {
    if (g->n == g->room) {
        size_t more = g->room ? 2 * g->room : 64;
        void *v = kl_realloc(g->v, more * sizeof *g->v);
        if (!v) return kl_fail_nomem(err);
        g->v = v;
        g->room = more;
    }
    struct operation *o = &g->v[g->n++];
    *o = (struct operation){.name = kl_op_name(n->task.op)};
    KL_TRY(retain_each(&o->in, n->in, n->n_in, err));
    return retain_each(&o->out, n->out, n->n_out, err);
}

struct visit {
    struct kl_node *node;
    int next;
};

/* All operations, makers first. The caller holds the commit lock. */
static int collect(struct graph *g, struct kl_array *const *outs, size_t n, struct kl_error **err) {
    const uint64_t mark = kl_walk_number();
    struct visit *stack = NULL;
    size_t depth = 0, room = 0;
    int rc = KL_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        struct kl_node *push = outs[i]->node;
        while (!rc && (push || depth)) {
            if (push && push->mark != mark) {
                push->mark = mark;
                if (depth == room) {
                    room = room ? 2 * room : 64;
                    void *v = kl_realloc(stack, room * sizeof *stack);
                    if (!v) {
                        rc = kl_fail_nomem(err);
                        break;
                    }
                    stack = v;
                }
                stack[depth++] = (struct visit){push, 0};
            }
            push = NULL;
            if (!depth) break;
            struct visit *top = &stack[depth - 1];
            if (top->next < top->node->n_in) {
                push = top->node->in[top->next++]->node;
            } else {
                rc = append(g, top->node, err);
                depth--;
            }
        }
    }
    kl_free(stack);
    return rc;
}

/* ---- writing ---- */

static int list_names(FILE *to, struct kl_namer *names, const struct kl_arrays *a,
                      struct kl_error **err) {
    for (size_t i = 0; i < a->n; i++) {
        const char *name;
        KL_TRY(kl_namer_get(names, a->v[i], &name, err));
        fprintf(to, "%s%s", i ? ", " : "", name);
    }
    return KL_OK;
}

static int write_text(FILE *to, struct kl_namer *names, const struct graph *g,
                      struct kl_error **err) {
    for (size_t i = 0; i < g->n; i++) {
        const struct operation *o = &g->v[i];
        KL_TRY(list_names(to, names, &o->out, err));
        fprintf(to, " = %s(", o->name);
        KL_TRY(list_names(to, names, &o->in, err));
        fputs(")", to);
        for (size_t k = 0; k < o->out.n; k++)
            fprintf(to, "%s %s %s", k ? "," : " ",
                    kl_dtype_name((enum kl_dtype)o->out.v[k]->t.dtype),
                    KL_SHAPE_TEXT_OF(o->out.v[k]));
        fputs("\n", to);
    }
    return KL_OK;
}

/* A name as a string of Graphviz. */
static void put_quoted(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
    }
    fputc('"', to);
}

/* The words whose capitals do not follow from the operation's name, and the names that are others
 * in MLX: Graphviz shows what MLX shows, and programs look for it there. */
static const struct {
    const char *name, *mlx;
} mlx_names[] = {
    {"all", "And"},
    {"any", "Or"},
    {"arccos", "ArcCos"},
    {"arccosh", "ArcCosh"},
    {"arcsin", "ArcSin"},
    {"arcsinh", "ArcSinh"},
    {"arctan", "ArcTan"},
    {"arctan2", "ArcTan2"},
    {"arctanh", "ArcTanh"},
    {"argmax", "ArgReduce"},
    {"argmin", "ArgReduce"},
    {"argpartition", "ArgPartition"},
    {"argsort", "ArgSort"},
    {"astype", "AsType"},
    {"broadcast_to", "Broadcast"},
    {"cummax", "CumMax"},
    {"cummin", "CumMin"},
    {"cumprod", "CumProd"},
    {"cumsum", "CumSum"},
    {"custom_function", "CustomTransforms"},
    {"erfinv", "ErfInv"},
    {"from_fp8", "FromFP8"},
    {"gather_mm", "GatherMM"},
    {"gather_qmm", "GatherQMM"},
    {"logaddexp", "LogAddExp"},
    {"logcumsumexp", "CumLogAddExp"},
    {"logsumexp", "LogSumExp"},
    {"put_along_axis", "ScatterAxis"},
    {"rms_norm", "RMSNorm"},
    {"rope", "RoPE"},
    {"segmented_mm", "SegmentedMM"},
    {"take_along_axis", "GatherAxis"},
    {"to_fp8", "ToFP8"},
    {"where", "Select"},
};

/* "logical_not" as "LogicalNot". */
static void put_as_mlx(FILE *to, const char *name) {
    for (size_t i = 0; i < sizeof mlx_names / sizeof mlx_names[0]; i++) {
        if (strcmp(mlx_names[i].name, name)) continue;
        fputs(mlx_names[i].mlx, to);
        return;
    }
    for (bool first = true; *name; name++) {
        if (*name != '_') fputc(first && *name >= 'a' && *name <= 'z' ? *name - 32 : *name, to);
        first = *name == '_';
    }
}

static int write_dot(FILE *to, struct kl_namer *names, const struct graph *g,
                     struct kl_error **err) {
    const char *name;
    fputs("digraph {\n", to);
    for (size_t i = 0; i < g->n; i++) {
        const struct operation *o = &g->v[i];
        fprintf(to, "  op%zu [label=\"", i);
        put_as_mlx(to, o->name);
        fputs("\", shape=box];\n", to);
        for (size_t k = 0; k < o->in.n; k++) {
            KL_TRY(kl_namer_get(names, o->in.v[k], &name, err));
            fputs("  ", to);
            put_quoted(to, name);
            fprintf(to, " -> op%zu;\n", i);
        }
        for (size_t k = 0; k < o->out.n; k++) {
            KL_TRY(kl_namer_get(names, o->out.v[k], &name, err));
            fprintf(to, "  op%zu -> ", i);
            put_quoted(to, name);
            fputs(";\n", to);
        }
    }
    fputs("}\n", to);
    return KL_OK;
}

int kl_picture(FILE *to, struct kl_namer *names, struct kl_array *const *outs, size_t n, bool dot,
               struct kl_error **err) {
    struct graph g = {0};
    struct kl_namer *own = NULL;
    if (!names && !(names = own = kl_namer_new(err))) return KL_ENOMEM;
    kl_commit_lock();
    int rc = collect(&g, outs, n, err);
    kl_commit_unlock();
    if (!rc) rc = dot ? write_dot(to, names, &g, err) : write_text(to, names, &g, err);
    if (!rc && (fflush(to) || ferror(to)))
        rc = kl_fail(err, KL_EFILE, "the graph could not be written");
    graph_free(&g);
    kl_namer_free(own);
    return rc;
}
