/* madd_x86.h - the multiply-add of vectors for products.h, which includes it. Written with
 * intrinsics, since gcc turns a loop over lanes into one instruction in small functions only. */
#include <immintrin.h>

#if defined(__AVX512F__)
#define KL_MADD_VEC_F32(a, b, c) (kl_vec_f32) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define KL_MADD_VEC_F64(a, b, c) \
    (kl_vec_f64) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#else
#define KL_MADD_VEC_F32(a, b, c) (kl_vec_f32) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define KL_MADD_VEC_F64(a, b, c) \
    (kl_vec_f64) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#endif
