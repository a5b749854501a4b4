/* fft_factors.h - the arithmetic of discrete Fourier transforms that has nothing to do with a
 * processor: into which passes and parts a length is cut, roots of unity, and a plain transform for
 * making tables. Any thread may call. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    KL_FFT_MOST_PASSES = 64,
    /* The largest prime factor that a pass takes. Lengths with larger ones are convolutions. */
    KL_FFT_MOST_RADIX = 47,
};

struct kl_root {
    double re, im;
};
/* exp(-2 pi i k / n) with 0 <= k < n, n < 2^60: both parts are right to about an ulp. */
struct kl_root kl_fft_root(int64_t k, int64_t n);
/* The n of them, equal to these: of the symmetric ones one is computed. */
void kl_fft_roots(int64_t n, struct kl_root *roots);

/* Whether n >= 1 has no prime factor above KL_FFT_MOST_RADIX. */
bool kl_fft_is_smooth(int64_t n);
/* The radices of the passes of a smooth n, whose product is n; returns their number. 1 has none. */
int kl_fft_radices(int64_t n, int radix[KL_FFT_MOST_PASSES]);
/* The length, n or more, whose transform is the cheapest: 2^a 3^b 5^c. */
int64_t kl_fft_good_length(int64_t n);
/* The divisor n1 of n for which two sets of transforms, of the lengths n1 and n / n1, cost the
 * least where `lanes` transforms are computed at a time; at least 2 and at most n / 2. 0: each
 * divisor leaves a length that is not smooth and above `longest`. */
int64_t kl_fft_split(int64_t n, int lanes, int64_t longest);
/* A generator of the multiplicative group modulo the odd prime p. */
int64_t kl_fft_generator(int64_t p);
bool kl_fft_is_prime(int64_t n);

/* y = the transform of x, both of smooth length n, in the order of frequencies. roots: the n roots
 * kl_fft_root(k, n). x is destroyed; returns x or y, whichever has the result. */
struct kl_root *kl_fft_plain(struct kl_root *x, struct kl_root *y, const struct kl_root *roots,
                             int64_t n);
