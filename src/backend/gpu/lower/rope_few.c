/* rope_few.c - ROPE of a few rows, and what stands next to it when a language model generates: the
 * rotations of queries and keys, and the writes of keys and values into the cache. One launch has
 * up to KL_ROPE_PARTS of them. Rotated rows that a write into a slice alone needs are stored there
 * at once. The angles of position 1 are an argument of the kernel, or each work-item makes its own
 * from given frequencies. */
#include <string.h>

#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/rope.h"
#include "backend/gpu/lower/side_by_side.h"
#include "base/number/dtype.h"
#include "base/number/turns.h"

enum {
    AXES = 3, /* of rows; rope.kl has the same number, and the next one */
    PER_COPY = 2,
    LOCAL = 128,
};

/* Rows that are rotated, or copied where `turned` is 0; rope.kl has the same. The last stride is
 * that of elements in a row. */
struct part {
    int64_t from[AXES + 1], to[AXES + 1], offset_step;
    uint32_t inner[AXES - 1]; /* the extents of all axes but the first */
    uint32_t rows, width, turned, length, per_batch;
    uint32_t end; /* the groups of this part and those before */
};
struct parts {
    struct part of[KL_ROPE_PARTS];
};

struct rotations {
    int n;
    int64_t most; /* elements of a part */
    uint8_t dtype;
    const struct kl_rope_params *params; /* of the rotations; NULL: there is none yet */
    const struct kl_arg *freqs;          /* theirs; NULL: they have a base */
    /* The command of each part, and for a rotation that stores into a slice the write too. */
    const struct kl_command *command[KL_ROPE_PARTS], *write[KL_ROPE_PARTS];
    const void *in[KL_ROPE_PARTS], *offset[KL_ROPE_PARTS];
    void *out[KL_ROPE_PARTS];
    struct parts parts;
};

/* ---- parts ---- */

/* Fills what concerns places: from rows of `in` to an operand with these strides. false: they have
 * too many axes. */
static bool place(struct part *x, const struct kl_arg *in, const int64_t *to) {
    struct kl_axes lead = KL_NO_AXES;
    const int last = in->ndim - 1;
    for (int i = 0; i < last; i++) kl_axes_add(&lead, in->dims[i], in->strides[i], to[i]);
    if (lead.ndim > AXES) return false;
    *x = (struct part){.inner = {1, 1},
                       .rows = (uint32_t)lead.n,
                       .width = (uint32_t)in->dims[last],
                       .length = 1,
                       .per_batch = (uint32_t)lead.n};
    for (int i = 0; i < lead.ndim; i++) {
        const int at = AXES - lead.ndim + i;
        x->from[at] = lead.strides[0][i];
        x->to[at] = lead.strides[1][i];
        if (at > 0) x->inner[at - 1] = (uint32_t)lead.dims[i];
    }
    x->from[AXES] = in->strides[last];
    x->to[AXES] = to[last];
    return true;
}

static bool is_plain(const struct kl_command *c) {
    return c->kind == KL_CMD_LAUNCH && !c->n_guards && !c->checked;
}

static bool is_few(const struct rotations *r, const struct kl_arg *a) {
    return a->ndim > 0 && a->size > 0 && a->size <= r->most;
}

static bool alike(const struct kl_rope_params *a, const struct kl_rope_params *b) {
    return a->dims == b->dims && a->traditional == b->traditional && a->inverse == b->inverse &&
           memcmp(&a->base, &b->base, sizeof a->base) == 0 &&
           memcmp(&a->scale, &b->scale, sizeof a->scale) == 0;
}

/* Describes a rotation to `out` with these strides, as part k. */
static bool rotate(struct rotations *r, int k, const struct kl_command *c, void *out,
                   const int64_t *to) {
    const struct kl_arg *in = &c->args[0], *offset = &c->args[1];
    const struct kl_rope_params *p = c->params;
    struct part *x = &r->parts.of[k];
    if (!place(x, in, to)) return false;
    x->turned = (uint32_t)p->dims;
    x->length = (uint32_t)in->dims[in->ndim - 2];
    x->per_batch = x->rows / (uint32_t)in->dims[0];
    x->offset_step = offset->ndim && offset->dims[0] > 1 ? offset->strides[0] : 0;
    r->in[k] = in->data;
    r->offset[k] = offset->data;
    r->out[k] = out;
    return true;
}

/* a, b: NULL where there are none. */
static bool same_freqs(const struct kl_arg *a, const struct kl_arg *b) {
    if (!a || !b) return !a && !b;
    return a->data == b->data && a->strides[0] == b->strides[0];
}

static bool add_rope(struct rotations *r, const struct kl_command *c) {
    const struct kl_rope_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in];
    const struct kl_arg *freqs = c->n_in > 2 ? &c->args[2] : NULL;
    if (!is_few(r, out) || (!freqs && p->dims / 2 > KL_ROPE_TURNS)) return false;
    if (r->params && (!alike(r->params, p) || !same_freqs(r->freqs, freqs))) return false;
    if (!rotate(r, r->n, c, out->data, out->strides)) return false;
    r->params = p;
    r->freqs = freqs;
    return true;
}

/* A write into a slice: its place, and the strides there. */
struct slice {
    char *at;
    int64_t strides[KL_AXES_MAX];
};
static bool slice_of(struct slice *s, const struct kl_command *c) {
    const struct kl_slice_params *p = c->params;
    const struct kl_arg *out = &c->args[2];
    int64_t offset = 0;
    if (out->data != c->args[0].data || p->ndim > KL_AXES_MAX || p->ndim != c->args[1].ndim)
        return false;
    for (int i = 0; i < p->ndim; i++) {
        offset += p->v[i] * out->strides[i];
        s->strides[i] = p->v[p->ndim + i] * out->strides[i];
    }
    s->at = (char *)out->data + offset * (int64_t)kl_dtype_size(out->dtype);
    return true;
}

static bool add_copy(struct rotations *r, const struct kl_command *c) {
    struct slice s;
    const struct kl_arg *in = &c->args[1];
    if (!is_few(r, in) || !slice_of(&s, c) || !place(&r->parts.of[r->n], in, s.strides))
        return false;
    r->in[r->n] = r->offset[r->n] = in->data;
    r->out[r->n] = s.at;
    return true;
}

static bool overlap(const struct kl_arg *a, const struct kl_arg *b) {
    return kl_extents_overlap(kl_extent_of(a), kl_extent_of(b));
}

/* Lets part k, a rotation whose result c alone needs, store it where c would copy it. */
static bool store_there(struct rotations *r, int k, const struct kl_command *c) {
    struct slice s;
    const struct kl_command *rope = r->command[k];
    const struct kl_arg *made = &rope->args[rope->n_in], *in = &c->args[1];
    const struct part before = r->parts.of[k];
    if (rope->op != KL_OP_ROPE || in->data != made->data || in->ndim != made->ndim ||
        !(in->layout & made->layout & KL_ROW_CONTIGUOUS) || !(c->dead & 2) || !slice_of(&s, c) ||
        memcmp(in->dims, made->dims, (size_t)in->ndim * sizeof *in->dims) != 0)
        return false;
    for (int i = 0; i < rope->n_in; i++)
        if (overlap(&rope->args[i], &c->args[2])) return false;
    if (rotate(r, k, rope, s.at, s.strides)) return true;
    r->parts.of[k] = before;
    return false;
}

/* ---- which commands ---- */

static bool is_independent(const struct rotations *r, const struct kl_command *c, int but) {
    for (int k = 0; k < r->n; k++)
        if (k != but && (!kl_are_independent(r->command[k], c) ||
                         (r->write[k] && !kl_are_independent(r->write[k], c))))
            return false;
    return true;
}

static bool add(struct rotations *r, const struct kl_command *c) {
    const bool is_rope = c->op == KL_OP_ROPE;
    if (!is_plain(c) || !(kl_op_flags(c->op) & KL_OPF_MOVES_ROWS)) return false;
    const uint8_t dtype = c->args[c->n_in].dtype;
    if (r->n && r->dtype != dtype) return false;
    for (int k = 0; k < r->n && !is_rope; k++)
        if (!r->write[k] && is_independent(r, c, k) && store_there(r, k, c)) {
            r->write[k] = c;
            return true;
        }
    if (r->n == KL_ROPE_PARTS || !is_independent(r, c, -1)) return false;
    if (is_rope ? !add_rope(r, c) : !add_copy(r, c)) return false;
    r->dtype = dtype;
    r->write[r->n] = NULL;
    r->command[r->n++] = c;
    return true;
}

/* ---- the launch ---- */

static struct kl_rope_turns first_turns(const struct kl_rope_params *p) {
    /* A model asks for the same ones in each layer, and to make them takes longer than a launch, so
     * a thread keeps the last ones. */
    static _Thread_local struct {
        struct kl_rope_turns turns;
        float base, scale;
        int dims; /* 0: none yet */
    } last;
    if (last.dims != p->dims || last.base != p->base || last.scale != p->scale) {
        last.turns = kl_rope_turns_from(p, 0);
        last.base = p->base;
        last.scale = p->scale;
        last.dims = p->dims;
    }
    return last.turns;
}

static int launch(struct kl_emit *e, struct rotations *r) {
    const uint32_t local = kl_local_size(e, LOCAL);
    const size_t item = kl_dtype_size(r->dtype);
    struct kl_rope_turns turns = {{0}};
    struct kl_turns_scale by = {.sign = 0};
    const int32_t traditional = r->params->traditional, inverse = r->params->inverse,
                  has_freqs = r->freqs != NULL;
    const int64_t freq_step = r->freqs ? r->freqs->strides[0] : 0;
    if (r->freqs)
        by = kl_turns_scale(r->params->scale);
    else
        turns = first_turns(r->params);
    const int values[] = {r->dtype, 1, 0};
    struct kl_karg args[3 * KL_ROPE_PARTS + 8];
    uint32_t groups = 0;
    int n = 0;
    for (int k = 0; k < KL_ROPE_PARTS; k++) {
        struct part *x = &r->parts.of[k];
        if (k < r->n) {
            const uint32_t pairs = x->turned / 2,
                           copies = (x->width - x->turned + PER_COPY - 1) / PER_COPY;
            groups += (uint32_t)kl_groups_for((int64_t)x->rows * (pairs + copies), local);
        }
        x->end = groups;
        const int of = k < r->n ? k : 0; /* no group follows the addresses of other parts */
        args[n++] = KL_KARG_PTR(r->in[of], item);
        args[n++] = KL_KARG_PTR(r->out[of], item);
        args[n++] = KL_KARG_PTR(r->offset[of], sizeof(int32_t));
    }
    args[n++] = KL_KARG(turns);
    args[n++] = KL_KARG(r->parts);
    args[n++] = KL_KARG(traditional);
    args[n++] = KL_KARG(inverse);
    args[n++] = KL_KARG_PTR(r->freqs ? r->freqs->data : NULL, sizeof(float));
    args[n++] = KL_KARG(has_freqs);
    args[n++] = KL_KARG(freq_step);
    args[n++] = KL_KARG(by);
    return kl_emit(e, &kl_family_rope, values, "rope_few", groups, local, args, n);
}

int kl_lower_rotations(struct kl_emit *e, const struct kl_command *commands, int n) {
    struct rotations r;
    int taken = 0;
    if (!(kl_op_flags(commands[0].op) & KL_OPF_MOVES_ROWS)) return 0;
    r.n = 0;
    r.params = NULL;
    r.most = e->driver->on_processor ? KL_ROPE_FEW_ON_PROCESSOR : KL_ROPE_FEW;
    memset(&r.parts, 0, sizeof r.parts);
    while (taken < n && add(&r, &commands[taken])) taken++;
    if (!r.params || taken == 0) return 0;
    KL_TRY(launch(e, &r));
    return taken;
}
