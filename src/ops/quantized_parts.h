/* quantized_parts.h - what the files src/ops/quantized*.c share. */
#pragma once
#include "ops/build/terms.h"
#include "ops/quantized.h"

/* ---- quantized.c: formats and checks ---- */

enum { KL_NV_RANGE = 448 * 6 }; /* the largest number of nvfp4: by it a global scale is divided */
enum { KL_QUANT_LIST_BYTES = 120 };

const char *kl_quant_mode_name(enum kl_quant_mode mode);
/* Their names, for messages. Returns list. */
const char *kl_quant_modes_without_biases(char list[KL_QUANT_LIST_BYTES]);
/* The mode is one, and takes the group size and the number of bits. KL_EARG. */
int kl_quant_check_format(const struct kl_quant_format *f, struct kl_error **err);
/* float16, bfloat16 and float32 are the floats that kernels take. */
bool kl_quant_takes_float(enum kl_dtype dtype);
int kl_quant_check_float(const char *what, enum kl_dtype dtype, struct kl_error **err);
/* scale may be NULL. */
int kl_quant_check_global_scale(const struct kl_quant_format *f, const struct kl_array *scale,
                                const char *what, struct kl_error **err);
/* Quantized numbers with their scales and, if the mode has them, biases: dtypes and shapes. *cols
 * is the number of elements that a row stands for. `least` is the fewest axes. */
int kl_quant_check_operands(const struct kl_quant_format *f, const struct kl_array *w,
                            const struct kl_array *scales, const struct kl_array *biases, int least,
                            int *cols, struct kl_error **err);

/* The operations QUANTIZE and DEQUANTIZE, with checks of the operands. */
int kl_quantize_part(struct kl_array **out, struct kl_array *w, struct kl_array *global_scale,
                     const struct kl_quantize_params *given, struct kl_stream *s,
                     struct kl_error **err);
int kl_dequantize_as(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                     struct kl_array *biases, struct kl_array *global_scale,
                     const struct kl_dequantize_params *p, struct kl_stream *s,
                     struct kl_error **err);

/* ---- quantized_product.c ---- */

/* As kl_quantized_matmul and kl_gather_qmm, of arrays whose extents are known. */
int kl_quantized_product(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                         struct kl_array *scales, struct kl_array *biases,
                         const struct kl_qmm_params *p, struct kl_stream *s, struct kl_error **err);
int kl_gathered_product(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                        struct kl_array *scales, struct kl_array *biases, struct kl_array *lhs,
                        struct kl_array *rhs, const struct kl_qmm_params *p, struct kl_stream *s,
                        struct kl_error **err);
/* a with its leading axes as one. */
struct kl_array *kl_quant_flat_lead(struct kl_terms *t, struct kl_array *a);
/* The indices as int32 in [0, n), checked when they are evaluated (kl_term_checked, which sets
 * *valid). Without indices: the numbers up to n in the shape of the leading axes of `of`. */
struct kl_array *kl_quant_checked_indices(struct kl_terms *t, struct kl_array *given,
                                          const struct kl_array *of, int n,
                                          struct kl_array **valid);
