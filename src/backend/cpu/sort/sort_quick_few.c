/* sort_quick_few.c - what sort_quick_avx512.h sorts in registers: two files include that, and these
 * networks are the largest part of it. */
#ifdef __AVX512F__
#define KL_QUICK_DEFINES_FEW
#include "backend/cpu/sort/sort_quick_avx512.h"
#else
typedef int kl_no_vectors; /* a file is not empty */
#endif
