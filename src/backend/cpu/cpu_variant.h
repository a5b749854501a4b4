/* cpu_variant.h - names of kernels that are compiled for several instruction sets.
 *
 * Every file of this folder but cpu_backend.c and cpu_variant.c is compiled once for any CPU and again for wider ones (CMakeLists.txt); there KL_VARIANT is v3 or v4,
 * and each name that crosses files gets it behind it. A name that is missing here is defined several times: the linker says so. The
 * sources are the same and nothing is contracted or reordered, so all variants give the same bits. */
#pragma once

#ifdef KL_VARIANT
#define KL_VARIANT_PASTE2(a, b) a##_##b
#define KL_VARIANT_PASTE(a, b) KL_VARIANT_PASTE2(a, b)
#define KL_V(name) KL_VARIANT_PASTE(name, KL_VARIANT)
/* cpu_kernels.h */
#define kl_cpu_variant_kernel KL_V(kl_cpu_variant_kernel)
#define kl_cpu_elementwise KL_V(kl_cpu_elementwise)
#define kl_cpu_arange KL_V(kl_cpu_arange)
#define kl_cpu_random_bits KL_V(kl_cpu_random_bits)
#define kl_cpu_slice_update KL_V(kl_cpu_slice_update)
#define kl_cpu_concatenate KL_V(kl_cpu_concatenate)
#define kl_cpu_reduce KL_V(kl_cpu_reduce)
#define kl_cpu_arg_reduce KL_V(kl_cpu_arg_reduce)
#define kl_cpu_softmax KL_V(kl_cpu_softmax)
#define kl_cpu_sort KL_V(kl_cpu_sort)
#define kl_cpu_matmul KL_V(kl_cpu_matmul)
#define kl_cpu_no_kernel KL_V(kl_cpu_no_kernel)
#define kl_cpu_gather KL_V(kl_cpu_gather)
#define kl_cpu_gather_axis KL_V(kl_cpu_gather_axis)
#define kl_cpu_scatter KL_V(kl_cpu_scatter)
#define kl_cpu_scatter_axis KL_V(kl_cpu_scatter_axis)
/* cpu_map.h */
#define kl_cpu_unary_map KL_V(kl_cpu_unary_map)
#define kl_cpu_binary_map KL_V(kl_cpu_binary_map)
#define kl_cpu_compare_map KL_V(kl_cpu_compare_map)
#define kl_cpu_transcendental_map KL_V(kl_cpu_transcendental_map)
#define kl_cpu_rounding_map KL_V(kl_cpu_rounding_map)
#define kl_cpu_bitwise_map KL_V(kl_cpu_bitwise_map)
#define kl_cpu_erfinv KL_V(kl_cpu_erfinv)
#define kl_cpu_erfinv_f32 KL_V(kl_cpu_erfinv_f32)
/* cpu_complex.h */
#define kl_c64_exp KL_V(kl_c64_exp)
#define kl_c64_log KL_V(kl_c64_log)
#define kl_c64_sqrt KL_V(kl_c64_sqrt)
#define kl_c64_rsqrt KL_V(kl_c64_rsqrt)
#define kl_c64_sign KL_V(kl_c64_sign)
#define kl_c64_log1p KL_V(kl_c64_log1p)
#define kl_c64_log2 KL_V(kl_c64_log2)
#define kl_c64_log10 KL_V(kl_c64_log10)
#define kl_c64_sin KL_V(kl_c64_sin)
#define kl_c64_cos KL_V(kl_c64_cos)
#define kl_c64_tan KL_V(kl_c64_tan)
#define kl_c64_arcsin KL_V(kl_c64_arcsin)
#define kl_c64_arccos KL_V(kl_c64_arccos)
#define kl_c64_arctan KL_V(kl_c64_arctan)
#define kl_c64_sinh KL_V(kl_c64_sinh)
#define kl_c64_cosh KL_V(kl_c64_cosh)
#define kl_c64_tanh KL_V(kl_c64_tanh)
#define kl_c64_arcsinh KL_V(kl_c64_arcsinh)
#define kl_c64_arccosh KL_V(kl_c64_arccosh)
#define kl_c64_arctanh KL_V(kl_c64_arctanh)
#define kl_c64_power KL_V(kl_c64_power)
#define kl_c64_logaddexp KL_V(kl_c64_logaddexp)
/* cpu_tile.h */
#define kl_copy_run KL_V(kl_copy_run)
#define kl_copy_strided KL_V(kl_copy_strided)
#define kl_convert KL_V(kl_convert)
#define kl_cursor_claim KL_V(kl_cursor_claim)
#define kl_cursor_init KL_V(kl_cursor_init)
#define kl_cursor_init_arg KL_V(kl_cursor_init_arg)
#define kl_cursor_next KL_V(kl_cursor_next)
#define kl_cursor_next_as KL_V(kl_cursor_next_as)
#define kl_cursor_read KL_V(kl_cursor_read)
#define kl_cursor_seek KL_V(kl_cursor_seek)
#define kl_cursor_write KL_V(kl_cursor_write)
#define kl_offsets KL_V(kl_offsets)
#endif
