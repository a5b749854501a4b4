/* fft_plan.h - plans of discrete Fourier transforms: tables that depend on the length alone. A plan
 * is made once, shared by all threads and never changed; a cache of bounded size keeps the plans
 * that were used last. All tables are of forward transforms: an inverse one exchanges the real and
 * the imaginary parts before and after.
 *
 * Tables hold numbers of type float, or double if wide, as pairs of real and imaginary part. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>

#include "base/error.h"
#include "base/list.h"
#include "base/number/fft_factors.h"

enum kl_fft_method {
    /* Stockham's passes, for smooth lengths. */
    KL_FFT_PASSES,
    /* A prime n, by Rader: but for element 0, elements in the order of powers of a generator are
     * convolved with roots in that order. n - 1 is smooth and the length of the convolution. */
    KL_FFT_RADER,
    /* Any n, by Bluestein: a convolution with a chirp, of a smooth length of at least 2 n - 1. */
    KL_FFT_BLUESTEIN,
    /* n = n1 n2: transforms of the columns of n1 rows, roots, transforms of the rows. One transform
     * is computed by as many lanes as a vector has. */
    KL_FFT_SPLIT,
};

enum {
    KL_FFT_LANES = 16,       /* the entries of `fine` for each k1, and of `first` for each k */
    KL_FFT_SQUARE = 256,     /* lengths that it divides begin with a pass of radix 16 */
    KL_FFT_LONGEST = 1 << 12 /* the longest transform that is not split */
};

struct kl_fft_pass {
    int radix;
    int64_t m, s; /* the product of the later radices, of the earlier ones */
    /* offsets in numbers: for p = 1 to m - 1 the roots exp(-2 pi i p k / (radix m)), k = 1 to radix
     * - 1; for radices above 8 the roots of the radix */
    int64_t twiddles, roots;
};

struct kl_fft_plan {
    int64_t n;
    enum kl_fft_method method;
    bool wide, alone;
    int64_t rows; /* the most rows of a tile that the method needs at a time */

    int n_passes; /* PASSES */
    struct kl_fft_pass pass[KL_FFT_MOST_PASSES];
    void *table; /* of all passes */
    /* PASSES, of lengths that KL_FFT_SQUARE divides: the twiddles of pass 0, which has the radix
     * 16, for neighbouring p: for each 16 of them and for k = 1 to 15, 16 real and then 16
     * imaginary parts; p = 0 too. Else NULL. */
    void *first;

    /* RADER: of length n - 1. BLUESTEIN. SPLIT: of length n1. */
    const struct kl_fft_plan *inner;
    void *spectrum; /* of the convolution, divided by its length: inner->n numbers */
    /* RADER: element i of the convolution is element in_order[i]; out_order likewise */
    int32_t *in_order, *out_order;
    void *chirp; /* BLUESTEIN: n numbers */

    const struct kl_fft_plan *second; /* SPLIT: of length n2 */
    /* SPLIT: the root exp(-2 pi i k1 j2 / n) is the product of coarse[j2 / LANES][k1] and of
     * fine[k1] for lane j2 % LANES, LANES real and then LANES imaginary parts. */
    void *coarse, *fine;

    /* the n / 2 + 1 roots of 2 n, for real transforms of twice the length; NULL if not asked for */
    void *halves;

    size_t bytes;
    _Atomic(uint32_t) refs; /* of callers, of other plans and of the cache */
    struct kl_link link;    /* in the cache; guarded by its lock */
};

/* A plan for transforms of length n, 1 or more: n numbers in each lane, or, if alone, one transform
 * at a time. halves: a plan that has these roots. The caller releases it. NULL: *err is set. */
const struct kl_fft_plan *kl_fft_plan_get(int64_t n, bool wide, bool alone, bool halves,
                                          struct kl_error **err);
void kl_fft_plan_release(const struct kl_fft_plan *plan); /* NULL is fine */
/* Whether a set of `lines` transforms is computed one after the other, each by all lanes. */
bool kl_fft_is_alone(int64_t n, int64_t lines);

/* Forgets the plans that nobody uses. */
void kl_fft_plans_forget(void);
/* The bytes of the plans in the cache; KL_FFT_CACHE_BYTES at most. */
size_t kl_fft_plans_bytes(void);
enum { KL_FFT_CACHE_BYTES = 1 << 27, KL_FFT_CACHE_PLANS = 256 };
