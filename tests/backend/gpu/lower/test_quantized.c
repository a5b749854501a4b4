/* test_quantized.c - QUANTIZE, DEQUANTIZE, QUANTIZED_MATMUL and GATHER_QMM on a device
 * against the CPU: packed numbers and scales bit for bit, dequantized ones too, products within
 * roundings of the sum of magnitudes. */
#include "lower_support.h"

static const struct kl_quant_format formats[] = {
    {KL_QUANT_AFFINE, 64, 4}, {KL_QUANT_AFFINE, 32, 2}, {KL_QUANT_AFFINE, 64, 3},
    {KL_QUANT_AFFINE, 32, 5}, {KL_QUANT_AFFINE, 64, 6}, {KL_QUANT_AFFINE, 128, 8},
    {KL_QUANT_MXFP4, 32, 4},  {KL_QUANT_MXFP8, 32, 8},  {KL_QUANT_NVFP4, 16, 4}};
enum { N_FORMATS = sizeof formats / sizeof *formats };
static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};

static const char *text_of(const char *name, int f, enum kl_dtype dtype, int layout, int extra) {
    static char text[120];
    snprintf(text, sizeof text, "%s, format %d of %s, layout %d, %d", name, f, kl_dtype_name(dtype),
             layout, extra);
    return text;
}

/* ---- quantize ---- */
static void check_quantize(int k, enum kl_dtype dtype, enum layout layout, enum values v,
                           bool global) {
    const struct kl_quant_format *f = &formats[k];
    const int rows = 9, cols = 3 * f->group_size;
    struct operand in[2], out;
    ls_make(&in[0], dtype, 2, (int[]){rows, cols}, layout, v);
    ls_make(&in[1], KL_F32, 0, NULL, DENSE, PLAIN);
    *(float *)in[1].block = 300;
    kh_write(in[1].device, in[1].block, in[1].bytes);
    for (int part = 0; part < 3; part++) {
        struct kl_quantize_params p = {*f, (enum kl_quantize_part)part, KL_F32};
        if (part == KL_QUANTIZE_CODES)
            ls_make_out(&out, KL_U32, 2, (int[]){rows, cols * f->bits / 32});
        else if (part == KL_QUANTIZE_VALUES)
            ls_make_out(&out, KL_F32, 2, (int[]){rows, cols});
        else if (f->mode == KL_QUANT_AFFINE)
            ls_make_out(&out, dtype, 3, (int[]){2, rows, 3});
        else
            ls_make_out(&out, KL_U8, 2, (int[]){rows, 3});
        void *got = ls_run(KL_OP_QUANTIZE, &p, global ? 2 : 1, in, &out);
        ls_same(&out, got, text_of("quantize", k, dtype, (int)layout, part));
        free(got);
        ls_drop(&out);
    }
    ls_drop(&in[0]);
    ls_drop(&in[1]);
}

static void quantized(void **state) {
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++) {
            if (!kl_test_takes("kernels", 3)) continue;
            const bool nv = formats[k].mode == KL_QUANT_NVFP4;
            check_quantize(k, dtypes[d], DENSE, PLAIN, false);
            check_quantize(k, dtypes[d], d ? TRANSPOSED : GAPPED, PLAIN, nv);
            check_quantize(k, dtypes[d], DENSE, SPECIAL, nv);
            check_quantize(k, dtypes[d], REVERSED, FEW, false);
        }
}

/* ---- quantized matrices ---- */

/* Scales that are codes: most are moderate. */
static void make_scales(struct operand *o, const struct kl_quant_format *f, enum kl_dtype dtype,
                        int ndim, const int *dims, enum layout layout) {
    const bool affine = f->mode == KL_QUANT_AFFINE;
    ls_make(o, affine ? dtype : KL_U8, ndim, dims, layout, PLAIN);
    if (affine) return;
    for (size_t i = 0; i < o->bytes; i++)
        o->block[i] =
            (char)(f->mode == KL_QUANT_NVFP4 ? 0x20 + ls_draw() % 40 : 120 + ls_draw() % 12);
    kh_write(o->device, o->block, o->bytes);
}

/* Codes of e4m3 without NaN, which one in 128 would be. */
static void tame(struct operand *w, const struct kl_quant_format *f) {
    if (f->mode != KL_QUANT_MXFP8) return;
    for (size_t i = 0; i < w->bytes; i++) w->block[i] &= (char)0xb7;
    kh_write(w->device, w->block, w->bytes);
}

static void check_dequantize(int k, enum kl_dtype dtype, enum layout layout, int ndim,
                             const int *lead, bool global) {
    const struct kl_quant_format *f = &formats[k];
    const bool affine = f->mode == KL_QUANT_AFFINE;
    const int cols = 384;
    int dims[LS_DIMS];
    struct operand in[3], out;
    for (int i = 0; i < ndim - 1; i++) dims[i] = lead[i];
    dims[ndim - 1] = cols * f->bits / 32;
    ls_make(&in[0], KL_U32, ndim, dims, layout, PLAIN);
    dims[ndim - 1] = cols / f->group_size;
    make_scales(&in[1], f, dtype, ndim, dims, layout);
    if (affine)
        make_scales(&in[2], f, dtype, ndim, dims, layout);
    else
        ls_make(&in[2], KL_F32, 0, NULL, DENSE, PLAIN);
    for (int d = 0; d < 3; d++) {
        const struct kl_dequantize_params p = {*f, dtypes[d]};
        dims[ndim - 1] = cols;
        ls_make_out(&out, dtypes[d], ndim, dims);
        void *got = ls_run(KL_OP_DEQUANTIZE, &p, affine || global ? 3 : 2, in, &out);
        ls_same(&out, got, text_of("dequantize", k, dtypes[d], (int)layout, ndim));
        free(got);
        ls_drop(&out);
    }
    for (int i = 0; i < 3; i++) ls_drop(&in[i]);
}

static void dequantized(void **state) {
    static const int many[] = {2, 1, 3, 2, 1, 2, 2, 2, 3, 2};
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++) {
            if (!kl_test_takes("kernels", 3)) continue;
            for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                check_dequantize(k, dtypes[d], (enum layout)layout, 3, (int[]){2, 5},
                                 layout == DENSE);
            check_dequantize(k, dtypes[d], DENSE, 1, NULL, false);
            if (k < 2) check_dequantize(k, dtypes[d], TRANSPOSED, 11, many, false);
            check_dequantize(k, dtypes[d], DENSE, 2, (int[]){0}, false);
        }
}

/* ---- products ---- */

/* Compares with bounds from the largest numbers of x and of the matrix, and the length of sums. */
static void compare(const struct operand *out, void *got, int k, const struct kl_quant_format *f,
                    bool unpacked, const char *what) {
    const double top = f->mode == KL_QUANT_AFFINE  ? 4.0 * (1 << f->bits) + 4
                       : f->mode == KL_QUANT_MXFP8 ? 32.0 * 16
                       : f->mode == KL_QUANT_MXFP4 ? 6.0 * 16
                                                   : 6.0 * 64;
    /* Elements of x are below 4. A matrix that was unpacked is rounded to the dtype. */
    const double rounded = unpacked ? kl_test_epsilon(out->arg.dtype) * 2 * top * sqrt(k) : 0;
    const double most = 4.0 * k * top * 0x1p-23 + rounded;
    double *scale = malloc((size_t)(out->arg.size + 1) * sizeof *scale);
    for (int64_t i = 0; i < out->arg.size; i++) scale[i] = most;
    ls_near(out, got, scale, 1, what);
    free(scale);
    free(got);
}

static void check_product(int k, enum kl_dtype dtype, enum layout layout, int m, bool transpose,
                          int n_lead, const int *lead) {
    const struct kl_quant_format *f = &formats[k];
    const bool affine = f->mode == KL_QUANT_AFFINE;
    const int wide = 384, other = transpose ? 21 : 18, depth = transpose ? wide : other;
    const int cols = transpose ? other : wide, ndim = n_lead + 2;
    const struct kl_qmm_params p = {*f, transpose};
    int dims[LS_DIMS];
    struct operand in[4], out;
    for (int i = 0; i < n_lead; i++) dims[i] = lead[i];
    dims[n_lead] = m;
    dims[n_lead + 1] = depth;
    ls_make(&in[0], dtype, ndim, dims, layout, PLAIN);
    dims[n_lead] = other;
    dims[n_lead + 1] = wide * f->bits / 32;
    ls_make(&in[1], KL_U32, ndim, dims, layout, PLAIN);
    tame(&in[1], f);
    dims[n_lead + 1] = wide / f->group_size;
    make_scales(&in[2], f, dtype, ndim, dims, layout);
    make_scales(&in[3], f, dtype, ndim, dims, layout);
    dims[n_lead] = m;
    dims[n_lead + 1] = cols;
    ls_make_out(&out, dtype, ndim, dims);
    void *got = ls_run(KL_OP_QUANTIZED_MATMUL, &p, affine ? 4 : 3, in, &out);
    compare(&out, got, depth, f, (m > 8 || !transpose) && dtype != KL_F32,
            text_of("product", k, dtype, (int)layout, m));
    for (int i = 0; i < 4; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void products(void **state) {
    static const int rows[] = {1, 2, 3, 7, 8, 9, 33}, many[] = {2, 2, 1, 2, 2, 2, 2, 2, 2, 2};
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++)
            for (int transpose = 0; transpose < 2; transpose++) {
                if (!kl_test_takes("kernels", 4)) continue;
                for (int r = 0; r < 7; r++)
                    check_product(k, dtypes[d], DENSE, rows[r], transpose, 0, NULL);
                for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                    check_product(k, dtypes[d], (enum layout)layout, layout % 2 ? 3 : 12, transpose,
                                  2, (int[]){2, 3});
            }
    for (int transpose = 0; transpose < 2; transpose++) /* nine axes: more than a kernel takes */
        if (kl_test_takes("kernels", 1))
            check_product(0, KL_F32, TRANSPOSED, 1, transpose, 10, many);
}

static void check_gather(int k, enum kl_dtype dtype, enum layout layout, int m, bool transpose) {
    const struct kl_quant_format *f = &formats[k];
    const bool affine = f->mode == KL_QUANT_AFFINE;
    const int wide = 256, other = 10, depth = transpose ? wide : other;
    const int cols = transpose ? other : wide;
    const struct kl_qmm_params p = {*f, transpose};
    struct operand in[6], out;
    ls_make(&in[0], dtype, 3, (int[]){3, m, depth}, layout == BROADCAST ? DENSE : layout, PLAIN);
    ls_make(&in[1], KL_U32, 3, (int[]){4, other, wide * f->bits / 32}, layout, PLAIN);
    tame(&in[1], f);
    make_scales(&in[2], f, dtype, 3, (int[]){4, other, wide / f->group_size}, layout);
    make_scales(&in[3], f, dtype, 3, (int[]){4, other, wide / f->group_size}, layout);
    if (!affine) {
        ls_drop(&in[3]);
        make_scales(&in[3], f, dtype, 3, (int[]){4, other, wide / f->group_size}, DENSE);
    }
    for (int side = 0; side < 2; side++) {
        struct operand *o = &in[4 + side];
        ls_make(o, KL_I32, 2, (int[]){2, 3}, layout, PLAIN);
        for (size_t i = 0; i < o->bytes / 4; i++)
            ((int32_t *)o->block)[i] = (int32_t)(ls_draw() % (side ? 4 : 3));
        kh_write(o->device, o->block, o->bytes);
    }
    ls_make_out(&out, dtype, 4, (int[]){2, 3, m, cols});
    void *got = ls_run(KL_OP_GATHER_QMM, &p, 6, in, &out);
    compare(&out, got, depth, f, false, text_of("gather", k, dtype, (int)layout, m));
    for (int i = 0; i < 6; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void gathers(void **state) {
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++)
            for (int transpose = 0; transpose < 2; transpose++) {
                if (!kl_test_takes("kernels", 4)) continue;
                for (int layout = DENSE; layout < N_LAYOUTS; layout++)
                    check_gather(k, dtypes[d], (enum layout)layout, layout % 3 ? 2 : 11, transpose);
            }
}

/* No rows, no columns, no terms. */
static void nothing(void **state) {
    const struct kl_qmm_params p = {formats[0], false};
    struct operand in[4], out;
    ls_make(&in[0], KL_F32, 2, (int[]){3, 0}, DENSE, PLAIN);
    ls_make(&in[1], KL_U32, 2, (int[]){0, 8}, DENSE, PLAIN);
    ls_make(&in[2], KL_F32, 2, (int[]){0, 1}, DENSE, PLAIN);
    ls_make(&in[3], KL_F32, 2, (int[]){0, 1}, DENSE, PLAIN);
    ls_make_out(&out, KL_F32, 2, (int[]){3, 64});
    void *got = ls_run(KL_OP_QUANTIZED_MATMUL, &p, 4, in, &out);
    ls_same(&out, got, "no terms");
    free(got);
    ls_drop(&out);
    ls_make_out(&out, KL_F32, 2, (int[]){0, 64});
    free(ls_run(KL_OP_QUANTIZED_MATMUL, &p, 4, in, &out));
    ls_drop(&out);
    for (int i = 0; i < 4; i++) ls_drop(&in[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantized), cmocka_unit_test(dequantized),
                                       cmocka_unit_test(products), cmocka_unit_test(gathers),
                                       cmocka_unit_test(nothing)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
