/* kernels.h - the sources in kernels/, which the build turns into strings. */
#pragma once
extern const char kl_source_prelude[], kl_source_prelude_opencl[], kl_source_prelude_cuda[];
extern const char kl_source_math[];
extern const char kl_source_elementwise[], kl_source_convert[], kl_source_create[],
    kl_source_guards[];
extern const char kl_source_reduce[], kl_source_reduce_arg[], kl_source_softmax[], kl_source_scan[];
extern const char kl_source_sort_keys[], kl_source_sort_radix[], kl_source_sort_topk[];
extern const char kl_source_norm[], kl_source_rope[], kl_source_convolution[];
extern const char kl_source_product_gather[], kl_source_norm_backward[];
extern const char kl_source_convolution_backward[];
extern const char kl_source_attention[], kl_source_attention_sm90[];
extern const char kl_source_attention_backward[];
extern const char kl_source_sort[], kl_source_product[], kl_source_index_gather[],
    kl_source_index_scatter[];
extern const char kl_source_index[], kl_source_create_fill[], kl_source_kernel[];
extern const char kl_source_index_scatter_last[], kl_source_quantized[];
extern const char kl_source_quantized_place[], kl_source_quantized_matrix[];
