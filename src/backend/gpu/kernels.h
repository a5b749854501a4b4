/* kernels.h - the sources in kernels/, which the build turns into strings. */
#pragma once
extern const char kl_source_prelude[], kl_source_prelude_opencl[], kl_source_prelude_cuda[];
extern const char kl_source_math[];
extern const char kl_source_elementwise[], kl_source_copy[], kl_source_make[], kl_source_guards[];
extern const char kl_source_reduce[], kl_source_arg_reduce[], kl_source_softmax[], kl_source_scan[];
extern const char kl_source_keys[], kl_source_radix[], kl_source_topk[];
extern const char kl_source_norm[], kl_source_rope[], kl_source_convolution[];
extern const char kl_source_gather_mm[], kl_source_norm_backward[];
extern const char kl_source_convolution_backward[];
extern const char kl_source_attention[], kl_source_attention_sm90[];
extern const char kl_source_attention_backward[];
extern const char kl_source_sort[], kl_source_matmul[], kl_source_gather[], kl_source_scatter[];
extern const char kl_source_indexed[], kl_source_fill[], kl_source_custom[];
extern const char kl_source_scatter_last[], kl_source_quantized[];
extern const char kl_source_quantized_place[], kl_source_quantized_matrix[];
