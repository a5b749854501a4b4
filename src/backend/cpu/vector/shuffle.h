/* shuffle.h - the indices of shuffles of two vectors of n lanes each, for __builtin_shufflevector:
 * KL_SHUFFLE(LOW, n) and so on, n being a number or a macro. */
#pragma once

/* The lower halves of both, interleaved, and the upper ones. */
#define KL_SHUFFLE_LOW_2 0, 2
#define KL_SHUFFLE_HIGH_2 1, 3
#define KL_SHUFFLE_LOW_4 0, 4, 1, 5
#define KL_SHUFFLE_HIGH_4 2, 6, 3, 7
#define KL_SHUFFLE_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define KL_SHUFFLE_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define KL_SHUFFLE_LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define KL_SHUFFLE_HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
/* The even lanes of the two vectors one after the other, and the odd ones. */
#define KL_SHUFFLE_EVEN_2 0, 2
#define KL_SHUFFLE_ODD_2 1, 3
#define KL_SHUFFLE_EVEN_4 0, 2, 4, 6
#define KL_SHUFFLE_ODD_4 1, 3, 5, 7
#define KL_SHUFFLE_EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define KL_SHUFFLE_ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define KL_SHUFFLE_EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define KL_SHUFFLE_ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
/* Lane 0 of the first vector, then lanes n - 1 to 1 of the second. */
#define KL_SHUFFLE_MIRROR_2 0, 3
#define KL_SHUFFLE_MIRROR_4 0, 7, 6, 5
#define KL_SHUFFLE_MIRROR_8 0, 15, 14, 13, 12, 11, 10, 9
#define KL_SHUFFLE_MIRROR_16 0, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17
/* Lanes n - 1 to 0 of the first. */
#define KL_SHUFFLE_BACK_2 1, 0
#define KL_SHUFFLE_BACK_4 3, 2, 1, 0
#define KL_SHUFFLE_BACK_8 7, 6, 5, 4, 3, 2, 1, 0
#define KL_SHUFFLE_BACK_16 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0

#define KL_SHUFFLE_JOINED(which, n) KL_SHUFFLE_##which##_##n
#define KL_SHUFFLE(which, n) KL_SHUFFLE_JOINED(which, n)
