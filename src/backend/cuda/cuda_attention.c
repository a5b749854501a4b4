/* cuda_attention.c - ATTENTION of 16-bit floats on tensor cores, for devices of compute capability
 * 9.0. The kernels of the dialect (lower/attention.c) do what does not fit: other widths and types,
 * few rows, for which memory is the limit, and layouts that the tensor memory accelerator does not
 * read. */
#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    FEW_ROWS = 16,  /* up to this number lower/attention.c has a kernel */
    ALIGNMENT = 16, /* bytes; of addresses and strides */
    /* attention_sm90.kl has the same numbers. */
    ROWS = 128,
    KEYS = 128,
    STAGES = 2,
    LOCAL = 384,
    PANEL_BYTES = 128 * 128,
    N_BARRIERS = 1 + 4 * STAGES,
    SWIZZLE_BYTES = 1024, /* the alignment of tiles in shared memory */
    NO_MASK = 0,
    CAUSAL,
    MASK_OF_BOOL,
    MASK_ADDED,
};
static const int64_t MOST_STRIDE = INT64_C(1) << 40; /* bytes */

const struct kl_family kl_family_attention_sm90 = {.name = "attention_sm90",
                                                   .source = kl_source_attention_sm90,
                                                   .defines = {"WIDTH", "IS_BF16", "MASK"}};

struct map { /* CUtensorMap */
    _Alignas(64) uint64_t word[16];
};
struct shape { /* attention_sm90.kl has the same */
    int64_t mask_strides[4], n, m;
    uint32_t heads, per_key_head, tiles, has_sinks, has_pairs;
    float scale, power;
};

/* Whether the tensor memory accelerator can read x, of shape (batch, heads, rows, width). */
static bool readable(const struct kl_arg *x) {
    const int64_t item = (int64_t)kl_dtype_size(x->dtype);
    if (x->strides[3] != 1 || (uintptr_t)x->data % ALIGNMENT) return false;
    for (int i = 0; i < 3; i++) {
        if (x->dims[i] == 1) continue;
        const int64_t bytes = x->strides[i] * item;
        if (bytes <= 0 || bytes % ALIGNMENT || bytes >= MOST_STRIDE) return false;
    }
    return true;
}

static int describe(struct kl_cuda *d, struct map *map, const struct kl_arg *x,
                    struct kl_error **err) {
    const int type = x->dtype == KL_BF16 ? KL_CU_MAP_BF16 : KL_CU_MAP_F16;
    const uint64_t dims[] = {(uint64_t)x->dims[3], (uint64_t)x->dims[2], (uint64_t)x->dims[1],
                             (uint64_t)x->dims[0]};
    const uint32_t box[] = {64, ROWS, 1, 1}, steps[] = {1, 1, 1, 1};
    uint64_t strides[3];
    for (int i = 0; i < 3; i++) /* an axis of one element has any stride */
        strides[i] = x->dims[2 - i] == 1 ? ALIGNMENT : (uint64_t)x->strides[2 - i] * 2;
    return kl_cuda_check(d, err, "cuTensorMapEncodeTiled",
                         d->api->maps.TensorMapEncodeTiled(map, type, 4, x->data, dims, strides,
                                                           box, steps, 0, KL_CU_MAP_SWIZZLE_128,
                                                           KL_CU_MAP_L2_256, 0));
}

/* Whether the kernel takes this command. */
static bool takes(const struct kl_cuda *d, const struct kl_command *c) {
    const struct kl_attention_params *p = c->params;
    const struct kl_arg *q = &c->args[0], *k = &c->args[1], *v = &c->args[2];
    const int64_t width = q->dims[3], n = q->dims[2], m = k->dims[2];
    if (d->cc != 90 || !d->api->maps.TensorMapEncodeTiled) return false;
    if ((q->dtype != KL_BF16 && q->dtype != KL_F16) || q->size == 0 || k->size == 0) return false;
    if ((width != 64 && width != 128) || v->dims[3] != width) return false;
    /* Negative scales turn the order of scores around. A row without any key that it may see has
     * equal weights, which tiles that are left out do not give. */
    if (!(p->scale > 0) || kl_attention_power(q->dtype, p->scale) == 0 || (p->causal && n > m))
        return false;
    if (n * (q->dims[1] / k->dims[1]) <= FEW_ROWS) return false;
    if (kl_groups_for(n, ROWS) * q->dims[1] * q->dims[0] > INT32_MAX) return false;
    return readable(q) && readable(k) && readable(v);
}

/* Whether two neighbouring elements of each row of the mask can be read at once. */
static bool has_pairs(const struct kl_arg *mask) {
    const size_t item = kl_dtype_size(mask->dtype);
    if (mask->strides[3] != 1 || (uintptr_t)mask->data % (2 * item)) return false;
    for (int i = 0; i < 3; i++)
        if (mask->strides[i] % 2) return false;
    return true;
}

int kl_cuda_attention(struct kl_emit *e, const struct kl_command *c) {
    struct kl_cuda *d = kl_cuda_of(e->driver);
    const struct kl_attention_params *p = c->params;
    const struct kl_arg *q = &c->args[0], *k = &c->args[1], *v = &c->args[2],
                        *out = &c->args[c->n_in], *mask = p->has_mask ? &c->args[3] : NULL,
                        *sinks = p->has_sinks ? &c->args[3 + p->has_mask] : NULL;
    if (!takes(d, c) || (sinks && sinks->strides[0] != 1)) return 0;
    const int masking = p->causal                ? CAUSAL
                        : !mask                  ? NO_MASK
                        : mask->dtype == KL_BOOL ? MASK_OF_BOOL
                                                 : MASK_ADDED,
              values[] = {q->dims[3], q->dtype == KL_BF16, masking};
    struct {
        struct map q, k, v;
    } maps;
    struct shape s = {.n = q->dims[2],
                      .m = k->dims[2],
                      .heads = (uint32_t)q->dims[1],
                      .per_key_head = (uint32_t)(q->dims[1] / k->dims[1]),
                      .tiles = (uint32_t)kl_groups_for(q->dims[2], ROWS),
                      .has_sinks = p->has_sinks,
                      .has_pairs = mask && has_pairs(mask),
                      .scale = p->scale,
                      .power = kl_attention_power(q->dtype, p->scale)};
    for (int i = 0; i < 4; i++) s.mask_strides[i] = mask ? mask->strides[i] : 0;
    if (!e->dry) {
        KL_TRY(describe(d, &maps.q, q, e->err));
        KL_TRY(describe(d, &maps.k, k, e->err));
        KL_TRY(describe(d, &maps.v, v, e->err));
    }
    const size_t tile = (size_t)(q->dims[3] / 64) * PANEL_BYTES,
                 shared = (1 + 2 * STAGES) * tile + N_BARRIERS * 8 + SWIZZLE_BYTES;
    struct kl_karg args[] = {
        KL_KARG(maps), KL_KARG(s),
        KL_KARG_PTR(mask ? mask->data : NULL, mask ? kl_dtype_size(mask->dtype) << s.has_pairs : 1),
        KL_KARG_PTR(sinks ? sinks->data : NULL, 2), KL_KARG_PTR(out->data, 4)};
    const int64_t groups = (int64_t)s.tiles * s.heads * q->dims[0];
    KL_TRY(kl_emit_shared(e, &kl_family_attention_sm90, values, "attention", groups, LOCAL, shared,
                          args, 5));
    return 1;
}
