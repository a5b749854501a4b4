/* quantized.c - formats of quantized numbers, quantize and dequantize. The numbers of a row are
 * packed into words of 32 bits; op_params.def says what the operations take. */
#include <stdio.h>
#include <string.h>

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/quantized_parts.h"

/* ---- formats ---- */

static const struct mode {
    const char *name;
    int group_sizes, bits;  /* the sizes that are taken, a bit for each */
    int group_size, n_bits; /* the defaults */
} modes[KL_N_QUANT_MODES] = {
#define BITS(n) (1 << (n))
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, ...) \
    [KL_QUANT_##ID] = {#name, group_sizes, bits, group_size, n_bits},
#include "base/op/quant_mode.def"
};

/* Appends the item, as one of a list of n of which `at` are there: "a", "a and b", "a, b and c". */
static void add_item(char *list, int at, int n, const char *item) {
    const size_t used = strlen(list);
    const char *before = at == 0 ? "" : at == n - 1 ? " and " : ", ";
    snprintf(list + used, KL_QUANT_LIST_BYTES - used, "%s%s", before, item);
}

/* The numbers that are the bits of `set`, or, powers = false, the positions of these bits. */
static const char *numbers_of(char list[KL_QUANT_LIST_BYTES], int set, bool powers) {
    char item[12];
    const int n = __builtin_popcount((unsigned)set);
    int at = 0;
    *list = 0;
    for (int i = 0; i < 31; i++) {
        if (!(set >> i & 1)) continue;
        snprintf(item, sizeof item, "%d", powers ? 1 << i : i);
        add_item(list, at++, n, item);
    }
    return list;
}

/* The names of the modes that `takes` is true for; NULL: all. */
static const char *modes_that(char list[KL_QUANT_LIST_BYTES],
                              bool (*takes)(enum kl_quant_mode mode)) {
    int n = 0, at = 0;
    *list = 0;
    for (int k = 0; k < KL_N_QUANT_MODES; k++) n += !takes || takes((enum kl_quant_mode)k);
    for (int k = 0; k < KL_N_QUANT_MODES; k++)
        if (!takes || takes((enum kl_quant_mode)k)) add_item(list, at++, n, modes[k].name);
    return list;
}

const char *kl_quant_mode_name(enum kl_quant_mode mode) {
    return modes[mode].name;
}

static bool without_biases(enum kl_quant_mode mode) {
    return !kl_quant_has_biases(mode);
}

const char *kl_quant_modes_without_biases(char list[KL_QUANT_LIST_BYTES]) {
    return modes_that(list, without_biases);
}

int kl_quant_check_format(const struct kl_quant_format *f, struct kl_error **err) {
    const int g = f->group_size, bits = f->bits;
    char list[KL_QUANT_LIST_BYTES];
    if ((unsigned)f->mode >= KL_N_QUANT_MODES)
        return kl_fail(err, KL_EARG, "%d is no quantization mode", (int)f->mode);
    const struct mode *m = &modes[f->mode];
    if (g <= 0 || (g & (g - 1)) || !(m->group_sizes & g))
        return kl_fail(err, KL_EARG, "the group size is %d; mode %s takes %s", g, m->name,
                       numbers_of(list, m->group_sizes, true));
    if (bits < 0 || bits > 30 || !(m->bits >> bits & 1))
        return kl_fail(err, KL_EARG, "the number of bits is %d; mode %s takes %s", bits, m->name,
                       numbers_of(list, m->bits, false));
    return KL_OK;
}

int kl_quant_format_of(struct kl_quant_format *out, const char *mode, const int *group_size,
                       const int *bits, struct kl_error **err) {
    char list[KL_QUANT_LIST_BYTES];
    int k = 0;
    while (mode && k < KL_N_QUANT_MODES && strcmp(mode, modes[k].name) != 0) k++;
    if (!mode || k == KL_N_QUANT_MODES)
        return kl_fail(err, KL_EARG, "mode '%.40s' is no quantization mode; %s are",
                       mode ? mode : "(NULL)", modes_that(list, NULL));
    struct kl_quant_format f = {(enum kl_quant_mode)k,
                                group_size ? *group_size : modes[k].group_size,
                                bits ? *bits : modes[k].n_bits};
    KL_TRY(kl_quant_check_format(&f, err));
    *out = f;
    return KL_OK;
}

/* ---- checks ---- */

bool kl_quant_takes_float(enum kl_dtype dtype) {
    return dtype == KL_F16 || dtype == KL_BF16 || dtype == KL_F32;
}

int kl_quant_check_float(const char *what, enum kl_dtype dtype, struct kl_error **err) {
    if (kl_quant_takes_float(dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "%s is %s; float16, bfloat16 and float32 are taken", what,
                   kl_dtype_name(dtype));
}

int kl_quant_check_global_scale(const struct kl_quant_format *f, const struct kl_array *scale,
                                const char *what, struct kl_error **err) {
    if (!scale) return KL_OK;
    if (!kl_quant_takes_global_scale(f->mode)) {
        char list[KL_QUANT_LIST_BYTES];
        return kl_fail(err, KL_EARG, "%s is given; mode %s has none, only %s has", what,
                       modes[f->mode].name, modes_that(list, kl_quant_takes_global_scale));
    }
    if (scale->t.dtype != KL_F32)
        return kl_fail(err, KL_EDTYPE, "%s is %s; it is float32", what,
                       kl_dtype_name(scale->t.dtype));
    if (scale->t.size != 1)
        return kl_fail(err, KL_ESHAPE, "%s has shape %s; it is a single number", what,
                       KL_SHAPE_TEXT_OF(scale));
    return KL_OK;
}

int kl_quant_check_operands(const struct kl_quant_format *f, const struct kl_array *w,
                            const struct kl_array *scales, const struct kl_array *biases, int least,
                            int *cols, struct kl_error **err) {
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_array(scales, "scales", err));
    if (kl_quant_has_biases(f->mode) && !biases)
        return kl_fail(err, KL_EARG, "no biases are given; mode %s needs them",
                       modes[f->mode].name);
    if (!kl_quant_has_biases(f->mode) && biases)
        return kl_fail(err, KL_EARG, "biases are given; mode %s has none", modes[f->mode].name);
    if (w->t.dtype != KL_U32)
        return kl_fail(err, KL_EDTYPE, "w is %s; quantized numbers are packed into uint32",
                       kl_dtype_name(w->t.dtype));
    if (!kl_quant_has_biases(f->mode) && scales->t.dtype != KL_U8)
        return kl_fail(err, KL_EDTYPE, "the scales are %s; those of mode %s are uint8",
                       kl_dtype_name(scales->t.dtype), modes[f->mode].name);
    const struct kl_array *both[2] = {scales, biases};
    for (int i = 0; i < 2 && kl_quant_has_biases(f->mode); i++)
        if (both[i]->t.dtype == KL_C64 || both[i]->t.dtype == KL_F64)
            return kl_fail(
                err, KL_EDTYPE,
                "the %s are %s; float16, bfloat16, float32 and what converts to them are "
                "taken",
                i ? "biases" : "scales", kl_dtype_name(both[i]->t.dtype));
    if (w->t.ndim < least)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it needs at least %d axes",
                       KL_SHAPE_TEXT_OF(w), least);
    const int last = w->t.ndim - 1;
    bool fits = scales->t.ndim == w->t.ndim;
    for (int i = 0; fits && i < last; i++) fits = scales->t.dims[i] == w->t.dims[i];
    const int64_t n = fits ? (int64_t)scales->t.dims[last] * f->group_size : 0;
    if (!fits || (int64_t)w->t.dims[last] * 32 != n * f->bits || n > INT32_MAX)
        return kl_fail(err, KL_ESHAPE,
                       "w of shape %s and scales of shape %s do not belong together with groups of "
                       "%d elements of %d bits",
                       KL_SHAPE_TEXT_OF(w), KL_SHAPE_TEXT_OF(scales), f->group_size, f->bits);
    if (biases && !kl_shape_is(biases, scales->t.ndim, scales->t.dims))
        return kl_fail(err, KL_ESHAPE, "the biases have shape %s, the scales %s; they have one",
                       KL_SHAPE_TEXT_OF(biases), KL_SHAPE_TEXT_OF(scales));
    *cols = (int)n;
    return KL_OK;
}

/* ---- quantize ---- */

int kl_quantize_part(struct kl_array **out, struct kl_array *w, struct kl_array *global_scale,
                     const struct kl_quantize_params *given, struct kl_stream *s,
                     struct kl_error **err) {
    struct kl_quantize_params p = *given;
    const struct kl_quant_format *f = &p.format;
    struct kl_shape shape = kl_shape_of(w);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_quant_check_float("w", w->t.dtype, err));
    KL_TRY(kl_quant_check_global_scale(f, global_scale, "the global scale", err));
    if (w->t.ndim < 1 || w->t.dims[w->t.ndim - 1] % f->group_size)
        return kl_fail(err, KL_ESHAPE,
                       "w has shape %s; its last axis is a multiple of the group size, %d",
                       KL_SHAPE_TEXT_OF(w), f->group_size);
    int *last = &shape.dims[shape.ndim - 1];
    if (p.part == KL_QUANTIZE_CODES) {
        *last = (int)((int64_t)*last * f->bits / 32);
        p.dtype = KL_U32;
    } else if (p.part == KL_QUANTIZE_SCALES) {
        *last /= f->group_size;
        p.dtype = kl_quant_has_biases(f->mode) ? (enum kl_dtype)w->t.dtype : KL_U8;
        if (kl_quant_has_biases(f->mode)) {
            if (shape.ndim >= KL_MAX_NDIM)
                return kl_fail(err, KL_ESHAPE, "w has %d axes; at most %d are possible", w->t.ndim,
                               KL_MAX_NDIM - 1);
            memmove(shape.dims + 1, shape.dims, (size_t)shape.ndim++ * sizeof *shape.dims);
            shape.dims[0] = 2;
        }
    }
    struct kl_array *in[2] = {w, global_scale}, *y;
    if (global_scale) in[1] = KL_TERM(&t, kl_reshape_to(&t.made, global_scale, 0, NULL, s, err));
    y = KL_TERM(&t, kl_array_op1(&t.made,
                                 &(struct kl_operation){.op = KL_OP_QUANTIZE,
                                                        .stream = s,
                                                        .params = &p,
                                                        .params_bytes = sizeof p,
                                                        .in = in,
                                                        .n_in = global_scale ? 2 : 1},
                                 p.dtype, shape.ndim, shape.dims, err));
    return kl_terms_end(&t, y, out);
}

/* Row `which` of the first axis of a. */
static int row_of(struct kl_array **out, struct kl_array *a, int which, struct kl_stream *s,
                  struct kl_error **err) {
    int start[KL_MAX_NDIM] = {which}, step[KL_MAX_NDIM];
    struct kl_shape part = kl_shape_of(a);
    struct kl_array *row;
    for (int i = 0; i < a->t.ndim; i++) step[i] = 1;
    part.dims[0] = 1;
    KL_TRY(kl_slice_to(&row, a, start, step, part.dims, err));
    int rc = kl_squeeze_axis(out, row, 0, s, err);
    kl_array_release(row);
    return rc;
}

/* Each part of what quantize gives is a call of its own. */
static int defer_parts(struct kl_array **outs, int *n_out, struct kl_array *w,
                       const struct kl_quant_format *f, struct kl_array *global_scale,
                       struct kl_stream *s, struct kl_error **err) {
    const int n = kl_quant_has_biases(f->mode) ? 3 : 2;
    struct kl_array *made[3];
    for (int i = 0; i < n; i++) {
        int rc;
        if (!kl_defer(&rc, &made[i], KL_DEFERRED_QUANTIZE, s, err, w, (int)f->mode, f->group_size,
                      f->bits, global_scale, i))
            rc = kl_fail(err, KL_EARG, "w is NULL");
        if (!rc) continue;
        kl_release_all(made, (size_t)i);
        return rc;
    }
    for (int i = 0; i < n; i++) outs[i] = made[i];
    *n_out = n;
    return KL_OK;
}

int kl_quantize(struct kl_array **outs, int *n_out, struct kl_array *w,
                const struct kl_quant_format *f, struct kl_array *global_scale, struct kl_stream *s,
                struct kl_error **err) {
    if (kl_is_shapeless(w) || kl_is_shapeless(global_scale))
        return defer_parts(outs, n_out, w, f, global_scale, s, err);
    struct kl_quantize_params p = {.format = *f};
    struct kl_array *made[3] = {NULL};
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_quant_check_format(f, err));
    KL_TRY(kl_quant_check_float("w", w->t.dtype, err));
    if (w->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it needs at least 2 axes",
                       KL_SHAPE_TEXT_OF(w));
    struct kl_array *rows = KL_TERM(&t, kl_in_rows(&t.made, w, KL_ROWS_READ, s, err));
    p.part = KL_QUANTIZE_CODES;
    made[0] = KL_TERM(&t, kl_quantize_part(&t.made, rows, global_scale, &p, s, err));
    p.part = KL_QUANTIZE_SCALES;
    made[1] = KL_TERM(&t, kl_quantize_part(&t.made, rows, global_scale, &p, s, err));
    if (kl_quant_has_biases(f->mode)) {
        struct kl_array *both = made[1];
        made[1] = KL_TERM(&t, row_of(&t.made, both, 0, s, err));
        made[2] = KL_TERM(&t, row_of(&t.made, both, 1, s, err));
    }
    if (t.rc == KL_OK) {
        *n_out = kl_quant_has_biases(f->mode) ? 3 : 2;
        for (int i = 0; i < *n_out; i++) outs[i] = kl_array_retain(made[i]);
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- dequantize ---- */

int kl_dequantize_as(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                     struct kl_array *biases, struct kl_array *global_scale,
                     const struct kl_dequantize_params *p, struct kl_stream *s,
                     struct kl_error **err) {
    struct kl_array *in[3] = {w, scales};
    struct kl_terms t = kl_terms_begin(s, err);
    int n = 2, cols;
    KL_TRY(kl_quant_check_operands(&p->format, w, scales, biases, 1, &cols, err));
    KL_TRY(kl_quant_check_global_scale(&p->format, global_scale, "the global scale", err));
    KL_TRY(kl_quant_check_float("the result", p->dtype, err));
    if (biases) {
        enum kl_dtype common = kl_dtype_inexact(kl_dtype_promote(scales->t.dtype, biases->t.dtype));
        in[1] = kl_term_cast(&t, scales, common);
        in[n++] = kl_term_cast(&t, biases, common);
    }
    if (global_scale) in[n++] = KL_TERM(&t, kl_reshape_to(&t.made, global_scale, 0, NULL, s, err));
    struct kl_shape shape = kl_shape_of(w);
    shape.dims[shape.ndim - 1] = cols;
    struct kl_array *y = KL_TERM(&t, kl_array_op1(&t.made,
                                                  &(struct kl_operation){.op = KL_OP_DEQUANTIZE,
                                                                         .stream = s,
                                                                         .params = p,
                                                                         .params_bytes = sizeof *p,
                                                                         .in = in,
                                                                         .n_in = n},
                                                  p->dtype, shape.ndim, shape.dims, err));
    return kl_terms_end(&t, y, out);
}

int kl_dequantize(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                  struct kl_array *biases, const struct kl_quant_format *f,
                  struct kl_array *global_scale, const int *dtype, struct kl_stream *s,
                  struct kl_error **err) {
    KL_DEFER(DEQUANTIZE, w, scales, biases, f->mode, f->group_size, f->bits, global_scale,
             dtype != NULL, dtype ? *dtype : 0);
    int cols;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_quant_check_format(f, err));
    KL_TRY(kl_quant_check_operands(f, w, scales, biases, 2, &cols, err));
    struct kl_dequantize_params p = {*f, global_scale ? KL_F32 : KL_BF16};
    if (kl_quant_has_biases(f->mode))
        p.dtype = kl_dtype_inexact(kl_dtype_promote(scales->t.dtype, biases->t.dtype));
    if (dtype) {
        KL_TRY(kl_check_dtype(*dtype, err));
        p.dtype = (enum kl_dtype) * dtype;
    }
    return kl_dequantize_as(out, w, scales, biases, global_scale, &p, s, err);
}
