/* attention_backward.c - ATTENTION_BACKWARD of every float type but float64: the numbers of
 * the queries, then the gradients of queries, keys, values and sinks, each by a launch of its own
 * that computes the weights anew; with matrix units the first two are one launch, and so are keys
 * and values. No two groups add to the same place, so results do not depend on their order. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    /* attention_backward.kl has the same numbers. */
    NUMBERS,
    OF_Q,
    OF_K,
    OF_V,
    OF_KV,
    CAUSAL = 1, /* the values of MASKED */
    A_MASK,
    COLUMNS = 64, /* of the result, for a group; with matrix units all of them, */
    WIDEST = 128, /* and at most this number */
    N_NUMBERS = 4,
    ROWS_FEW = 16,        /* of a group, */
    ROWS_MANY = 64,       /* and with sub-groups: PoCL is slower, since its registers are memory */
    TILE_ELEMENTS = 4096, /* with matrix units: what comes at once of two operands, two times */
    ROW_PADDING = 8,      /* elements of each row in shared memory */
    TILES_LOCAL = 128,
    VEC_BYTES = 16,
    SINKS_LOCAL = 256,
};

const struct kl_family kl_family_attention_backward = {
    .name = "attention_backward",
    .source = kl_source_attention_backward,
    .defines = {"T:IN", "GOAL", "MASKED", "ROWS", "MATRIX", "WIDTH"}};

struct backward { /* attention_backward.kl has the same */
    int64_t n, m, d, e, q[4], k[4], v[4], g[4], result[4], mask[4], sink;
    int32_t batches, key_heads, per_key, causal, has_mask, has_sinks;
    float scale, power;
};

/* The operands of a command; NULL where there is none. */
struct operands {
    const struct kl_arg *q, *k, *v, *mask, *sinks, *result, *g, *out;
};

static struct operands operands_of(const struct kl_command *c) {
    const struct kl_attention_params *p = c->params;
    return (struct operands){.q = &c->args[0],
                             .k = &c->args[1],
                             .v = &c->args[2],
                             .mask = p->has_mask ? &c->args[3] : NULL,
                             .sinks = p->has_sinks ? &c->args[3 + p->has_mask] : NULL,
                             .result = &c->args[c->n_in - 2],
                             .g = &c->args[c->n_in - 1],
                             .out = &c->args[c->n_in]};
}

static struct backward describe(const struct kl_command *c, const struct operands *o) {
    const struct kl_attention_params *p = c->params;
    struct backward b = {.n = o->q->dims[2],
                         .m = o->k->dims[2],
                         .d = o->q->dims[3],
                         .e = o->v->dims[3],
                         .sink = o->sinks ? o->sinks->strides[0] : 0,
                         .batches = o->q->dims[0],
                         .key_heads = o->k->dims[1],
                         .per_key = o->q->dims[1] / o->k->dims[1],
                         .causal = p->causal && o->q->dims[2] > 1, /* the last sees all keys */
                         .has_mask = !o->mask                    ? 0
                                     : o->mask->dtype == KL_BOOL ? 1
                                                                 : 2,
                         .has_sinks = p->has_sinks,
                         .scale = p->scale,
                         .power = kl_attention_power(o->q->dtype, p->scale)};
    for (int i = 0; i < 4; i++) {
        b.q[i] = o->q->strides[i];
        b.k[i] = o->k->strides[i];
        b.v[i] = o->v->strides[i];
        b.g[i] = o->g->strides[i];
        b.result[i] = o->result->strides[i];
        b.mask[i] = o->mask ? o->mask->strides[i] : 0;
    }
    return b;
}

/* Whether each row of x is contiguous and aligned to 16 bytes. */
static bool rows_aligned(const struct kl_arg *x) {
    const int64_t vec = VEC_BYTES / (int64_t)kl_dtype_size(x->dtype);
    if (x->strides[3] != 1 || (uintptr_t)x->data % VEC_BYTES) return false;
    for (int i = 0; i < 3; i++)
        if (x->strides[i] % vec && x->dims[i] > 1) return false;
    return true;
}

/* Whether matrix units can multiply: 16-bit floats of two widths. */
static bool takes_matrix(const struct kl_emit *e, const struct operands *o,
                         const struct backward *b) {
    return e->driver->has_matrix_units && e->driver->subgroup == 32 && b->power != 0 &&
           kl_local_size(e, TILES_LOCAL) == TILES_LOCAL && kl_dtype_size(o->q->dtype) == 2 &&
           (b->d == COLUMNS || b->d == WIDEST) && b->e == b->d && rows_aligned(o->q) &&
           rows_aligned(o->k) && rows_aligned(o->v) && rows_aligned(o->g) &&
           rows_aligned(o->result) && (uintptr_t)o->out->data % sizeof(uint32_t) == 0;
}

/* Bytes of shared memory of a group with matrix units, which has `rows` of its own. */
static size_t shared_of(int rows, int width) {
    const int tile = TILE_ELEMENTS / width;
    return (size_t)(2 * rows + 4 * tile) * (size_t)(width + ROW_PADDING) * 2 +
           (size_t)(2 * tile * N_NUMBERS) * 4;
}

static int masking_of(const struct backward *b) {
    return b->causal ? CAUSAL : b->has_mask ? A_MASK : 0;
}

/* Launches the kernel of a goal, with `out` for its gradient and `more` for a second one. */
static int emit_goal(struct kl_emit *e, const struct operands *o, const struct backward *b,
                     bool matrix, int goal, void *numbers, void *out, void *more) {
    const size_t item = kl_dtype_size(o->q->dtype), read = matrix ? VEC_BYTES : item,
                 written = matrix ? sizeof(uint32_t) : item;
    const bool own_queries = goal == NUMBERS || goal == OF_Q;
    const int masking = masking_of(b), columns = matrix ? (int)b->d : COLUMNS,
              rows = matrix                    ? ROWS_MANY * WIDEST / columns
                     : e->driver->subgroup > 1 ? ROWS_MANY
                                               : ROWS_FEW,
              values[] = {o->q->dtype, goal, masking, rows, matrix, columns};
    int64_t n_blocks = kl_groups_for(own_queries ? b->n : b->m, rows),
            n_columns = goal == NUMBERS ? 1 : kl_groups_for(goal == OF_V ? b->e : b->d, columns);
    const int64_t heads = (int64_t)b->batches * b->key_heads * (own_queries ? b->per_key : 1);
    struct kl_karg args[] = {
        KL_KARG_PTR(o->q->data, read),
        KL_KARG_PTR(o->k->data, read),
        KL_KARG_PTR(o->v->data, read),
        KL_KARG_PTR(o->g->data, read),
        KL_KARG_PTR(o->result->data, read),
        KL_KARG_PTR(o->mask ? o->mask->data : NULL, o->mask ? kl_dtype_size(o->mask->dtype) : 1),
        KL_KARG_PTR(o->sinks ? o->sinks->data : NULL, item),
        KL_KARG_PTR(numbers, matrix ? VEC_BYTES : 4),
        KL_KARG_PTR(out, written),
        KL_KARG_PTR(more, written),
        KL_KARG(n_blocks),
        KL_KARG(n_columns),
        KL_KARG(*b)};
    return kl_emit_shared(e, &kl_family_attention_backward, values, "attend_back",
                          heads * n_blocks * n_columns, kl_local_size(e, TILES_LOCAL),
                          matrix ? shared_of(rows, columns) : 0, args, 13);
}

int kl_lower_attention_backward(struct kl_emit *e, const struct kl_command *c) {
    const struct operands o = operands_of(c);
    const size_t item = kl_dtype_size(o.q->dtype);
    const int64_t queries = (int64_t)o.q->dims[0] * o.q->dims[1] * o.q->dims[2];
    char *dq = o.out->data, *dk = dq + o.q->size * (int64_t)item,
         *dv = dk + o.k->size * (int64_t)item, *dsinks = dv + o.v->size * (int64_t)item;
    void *numbers;
    if (o.out->size == 0) return KL_OK;
    if (queries == 0 || o.k->dims[2] == 0) /* there are no scores */
        return kl_emit_fill(e, o.out->data, item, o.out->size, 0);
    const struct backward b = describe(c, &o);
    KL_TRY(kl_emit_workspace(e, (size_t)queries * N_NUMBERS * 4, &numbers));
    const bool matrix = takes_matrix(e, &o, &b);
    if (matrix) {
        KL_TRY(emit_goal(e, &o, &b, true, OF_Q, numbers, dq, NULL)); /* and the numbers */
        KL_TRY(emit_goal(e, &o, &b, true, OF_KV, numbers, dk, dv));
    } else {
        KL_TRY(emit_goal(e, &o, &b, false, NUMBERS, numbers, NULL, NULL));
        KL_TRY(emit_goal(e, &o, &b, false, OF_Q, numbers, dq, NULL));
        KL_TRY(emit_goal(e, &o, &b, false, OF_K, numbers, dk, NULL));
        KL_TRY(emit_goal(e, &o, &b, false, OF_V, numbers, dv, NULL));
    }
    if (!o.sinks) return KL_OK;
    const int values[] = {o.q->dtype, NUMBERS, masking_of(&b), 0, 0, COLUMNS};
    struct kl_karg args[] = {KL_KARG_PTR(numbers, 4), KL_KARG_PTR(o.sinks->data, item),
                             KL_KARG_PTR(dsinks, item), KL_KARG(b)};
    return kl_emit(e, &kl_family_attention_backward, values, "attend_sinks", o.q->dims[1],
                   kl_local_size(e, SINKS_LOCAL), args, 4);
}
