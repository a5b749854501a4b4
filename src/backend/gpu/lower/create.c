/* create.c - ARANGE and RANDOM_BITS, and filling memory with a value. */
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/lower.h"
#include "base/op/op_params.h"

const struct kl_family kl_family_make = {.name = "make",
                                         .library = kl_source_elementwise,
                                         .source = kl_source_create,
                                         .defines = {"T:T"}};
static const struct kl_family fill_family = {
    .name = "fill", .source = kl_source_create_fill, .defines = {"T:T"}};
enum { LOCAL = 256 };

int kl_emit_fill(struct kl_emit *e, void *out, size_t item, int64_t n, uint64_t bits) {
    int type = item == 1 ? KL_U8 : item == 2 ? KL_U16 : item == 4 ? KL_U32 : KL_U64;
    struct kl_karg args[] = {KL_KARG_PTR(out, item), KL_KARG(n), KL_KARG(bits)};
    return kl_emit(e, &fill_family, &type, "fill", (n + LOCAL - 1) / LOCAL, LOCAL, args, 3);
}

int kl_lower_arange(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arange_params *p = c->params;
    const struct kl_arg *out = &c->args[0];
    int dtype = out->dtype;
    int64_t n = out->size, groups = (n + LOCAL - 1) / LOCAL;
    if (kl_dtype_is_int(out->dtype)) {
        int64_t start = (int64_t)p->start, step = (int64_t)p->step;
        struct kl_karg args[] = {KL_KARG(n), KL_KARG(start), KL_KARG(step),
                                 KL_KARG_PTR(out->data, kl_dtype_size(out->dtype))};
        return kl_emit(e, &kl_family_make, &dtype, "arange_int", groups, LOCAL, args, 4);
    }
    float start_f32 = (float)p->start, step_f32 = (float)p->step;
    struct kl_karg args[] = {KL_KARG(n), KL_KARG(p->start), KL_KARG(p->step),
                             KL_KARG_PTR(out->data, kl_dtype_size(out->dtype))};
    if (!e->driver->has_f64) {
        args[1] = KL_KARG(start_f32);
        args[2] = KL_KARG(step_f32);
    }
    return kl_emit(e, &kl_family_make, &dtype, "arange_float", groups, LOCAL, args, 4);
}

struct bits_job {
    struct kl_space keys;
    bool seen;
};

static int keep_space(void *ctx, const struct kl_space *s, const int64_t *offsets) {
    struct bits_job *j = ctx;
    if (j->seen) return KL_EUNSUPPORTED;
    j->keys = *s;
    j->seen = true;
    return KL_OK;
}

int kl_lower_random_bits(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *key = &c->args[0], *out = &c->args[1];
    struct bits_job j = {.seen = false};
    int u32 = KL_U32;
    if (out->size == 0 || key->size == 0) return KL_OK;
    if (kl_space_each(key->ndim, key->dims, 1, &key->strides, keep_space, &j))
        return kl_fail(e->err, KL_EUNSUPPORTED, "random bits: keys of a layout with over %d axes",
                       KL_SPACE_DIMS);
    int64_t n_keys = key->size / 2, bytes = out->size / n_keys * (int64_t)kl_dtype_size(out->dtype);
    if (n_keys == 1 && bytes % 32 == 0 && (uintptr_t)out->data % 16 == 0 &&
        (key->layout & KL_ROW_CONTIGUOUS)) {
        const int64_t half = bytes / 8;
        const struct kl_karg one[] = {KL_KARG(half), KL_KARG_PTR(key->data, sizeof(uint32_t)),
                                      KL_KARG_PTR(out->data, 16)};
        return kl_emit(e, &kl_family_make, &u32, "random_bits_of_one",
                       (half + 4 * LOCAL - 1) / (4 * LOCAL), LOCAL, one, 3);
    }
    int64_t words = (bytes + 3) / 4, pairs = (words + 1) / 2, n = n_keys * pairs;
    struct kl_karg args[] = {KL_KARG(n),
                             KL_KARG(pairs),
                             KL_KARG(words),
                             KL_KARG(bytes),
                             KL_KARG(j.keys),
                             KL_KARG_PTR(key->data, sizeof(uint32_t)),
                             KL_KARG_PTR(out->data, 1)};
    return kl_emit(e, &kl_family_make, &u32, "random_bits", (n + LOCAL - 1) / LOCAL, LOCAL, args,
                   7);
}
