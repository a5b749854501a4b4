/* cpu_variant.h - names of kernels that are compiled for several instruction sets.
 *
 * Every file of this folder but cpu_amx.c, cpu_backend.c and cpu_variant.c is compiled once for any CPU and again for wider ones (CMakeLists.txt); there KL_VARIANT is v3 or v4,
 * and each name that crosses files gets it behind it. A name that is missing here is defined several times: the linker says so. The
 * sources are the same and nothing is contracted or reordered, so all variants give the same bits. */
#pragma once

#ifdef KL_VARIANT
#define KL_VARIANT_PASTE2(a, b) a##_##b
#define KL_VARIANT_PASTE(a, b) KL_VARIANT_PASTE2(a, b)
#define KL_V(name) KL_VARIANT_PASTE(name, KL_VARIANT)
/* cpu_kernels.h */
#define kl_cpu_variant_kernel KL_V(kl_cpu_variant_kernel)
#define kl_cpu_variant_run_group KL_V(kl_cpu_variant_run_group)
#define kl_cpu_elementwise KL_V(kl_cpu_elementwise)
#define kl_cpu_arange KL_V(kl_cpu_arange)
#define kl_cpu_random_bits KL_V(kl_cpu_random_bits)
#define kl_cpu_slice_update KL_V(kl_cpu_slice_update)
#define kl_cpu_concatenate KL_V(kl_cpu_concatenate)
#define kl_cpu_depends KL_V(kl_cpu_depends)
#define kl_cpu_factor KL_V(kl_cpu_factor)
#define kl_cpu_reduce KL_V(kl_cpu_reduce)
#define kl_cpu_logsumexp KL_V(kl_cpu_logsumexp)
#define kl_cpu_var KL_V(kl_cpu_var)
#define kl_cpu_scan KL_V(kl_cpu_scan)
#define kl_cpu_norm KL_V(kl_cpu_norm)
#define kl_cpu_rope KL_V(kl_cpu_rope)
#define kl_cpu_partition KL_V(kl_cpu_partition)
#define kl_cpu_arg_reduce KL_V(kl_cpu_arg_reduce)
#define kl_cpu_softmax KL_V(kl_cpu_softmax)
#define kl_cpu_sort KL_V(kl_cpu_sort)
#define kl_cpu_matmul KL_V(kl_cpu_matmul)
#define kl_cpu_attention KL_V(kl_cpu_attention)
#define kl_cpu_no_kernel KL_V(kl_cpu_no_kernel)
#define kl_cpu_gather KL_V(kl_cpu_gather)
#define kl_cpu_gather_axis KL_V(kl_cpu_gather_axis)
#define kl_cpu_scatter KL_V(kl_cpu_scatter)
#define kl_cpu_scatter_axis KL_V(kl_cpu_scatter_axis)
/* cpu_keys.h */
#define kl_sort_keys KL_V(kl_sort_keys)
#define kl_sort_reaches KL_V(kl_sort_reaches)
#define kl_sort_values KL_V(kl_sort_values)
#define kl_sort_by_key KL_V(kl_sort_by_key)
/* cpu_map.h */
#define kl_cpu_unary_map KL_V(kl_cpu_unary_map)
#define kl_cpu_binary_map KL_V(kl_cpu_binary_map)
#define kl_cpu_compare_map KL_V(kl_cpu_compare_map)
#define kl_cpu_erfinv KL_V(kl_cpu_erfinv)
#define kl_cpu_find_map KL_V(kl_cpu_find_map)
/* cpu_complex.h */
#define kl_c64_exp KL_V(kl_c64_exp)
#define kl_c64_log KL_V(kl_c64_log)
#define kl_c64_sqrt KL_V(kl_c64_sqrt)
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
