/* fft_factors.c - see fft_factors.h. */
#include "base/number/fft_factors.h"

#include <math.h>

/* The angle is brought into the first eighth of a turn by exact arithmetic of integers, so that the
 * functions of libm get a small argument, and symmetric roots are equal to the last bit. */
struct kl_root kl_fft_root(int64_t k, int64_t n) {
    int64_t eighths = 8 * k, octant = 0;
    while (eighths >= n) { /* at most 7 steps */
        eighths -= n;
        octant++;
    }
    /* within the octant: eighths / n of 45 degrees, counted from the nearer axis */
    const int64_t part = octant & 1 ? n - eighths : eighths;
    const double angle = 0x1.921fb54442d18p-1 * ((double)part / (double)n);
    double c = cos(angle), s = sin(angle);
    if ((octant + 1) & 2) {
        const double t = c;
        c = s;
        s = t;
    }
    if (octant >= 2 && octant < 6) c = -c;
    return (struct kl_root){c, octant < 4 ? -s : s};
}

bool kl_fft_is_smooth(int64_t n) {
    for (int64_t p = 2; p <= KL_FFT_MOST_RADIX; p++)
        while (n % p == 0) n /= p;
    return n == 1;
}

int kl_fft_radices(int64_t n, int radix[KL_FFT_MOST_PASSES]) {
    int passes = 0, twos = 0;
    for (int p = 3; p <= KL_FFT_MOST_RADIX; p += 2)
        for (; n % p == 0; n /= p) radix[passes++] = p;
    for (; n % 2 == 0; n /= 2) twos++;
    /* Eights first; one or two fours rather than a two. */
    while (twos) {
        const int take = twos == 2 || twos == 4 ? 2 : twos == 1 ? 1 : 3;
        radix[passes++] = 1 << take;
        twos -= take;
    }
    return passes;
}

int64_t kl_fft_good_length(int64_t n) {
    int64_t best = 1;
    while (best < n) best *= 2;
    for (int64_t five = 1; five < 2 * n; five *= 5)
        for (int64_t x = five; x < 2 * n; x *= 3) {
            int64_t y = x;
            while (y < n) y *= 2;
            /* Passes of 3 and 5 cost more than those of 4 and 8. */
            if (y < best - best / 16) best = y;
        }
    return best;
}

bool kl_fft_is_prime(int64_t n) {
    if (n < 2 || (n % 2 == 0 && n != 2)) return false;
    for (int64_t p = 3; p * p <= n; p += 2)
        if (n % p == 0) return false;
    return true;
}

/* The cost of one transform for each element, in about the time of a pass of radix 2. */
static double cost_of(int64_t n, int64_t longest) {
    int radix[KL_FFT_MOST_PASSES];
    double cost = 2;
    if (!kl_fft_is_smooth(n))
        return n > longest ? HUGE_VAL : 4 * cost_of(kl_fft_good_length(2 * n - 1), longest);
    const int passes = kl_fft_radices(n, radix);
    for (int i = 0; i < passes; i++) cost += radix[i] <= 8 ? 2 : 1 + radix[i] / 2.0;
    return n > longest ? 2 * cost : cost;
}

int64_t kl_fft_split(int64_t n, int lanes, int64_t longest) {
    int64_t best = 0;
    double least = HUGE_VAL;
    for (int64_t d = 2; d <= n / d; d++) {
        if (n % d) continue;
        for (int other = 0; other < 2; other++) {
            const int64_t n1 = other ? n / d : d, n2 = n / n1;
            const double groups1 = (double)((n2 + lanes - 1) / lanes),
                         groups2 = (double)((n1 + lanes - 1) / lanes);
            const double cost = groups1 * (double)n1 * cost_of(n1, longest) +
                                groups2 * (double)n2 * cost_of(n2, longest);
            /* among equal costs, the lengths that are closest to each other, which come last */
            if (cost <= least && cost < HUGE_VAL) {
                least = cost;
                best = n1;
            }
        }
    }
    return best;
}

static int64_t power_modulo(int64_t x, int64_t e, int64_t p) {
    uint64_t r = 1, square = (uint64_t)x; /* p is below 2^32 */
    for (; e; e /= 2) {
        if (e % 2) r = r * square % (uint64_t)p;
        square = square * square % (uint64_t)p;
    }
    return (int64_t)r;
}

int64_t kl_fft_generator(int64_t p) {
    int64_t factor[KL_FFT_MOST_PASSES], left = p - 1;
    int n = 0;
    for (int64_t f = 2; f * f <= left; f++) {
        if (left % f) continue;
        factor[n++] = f;
        while (left % f == 0) left /= f;
    }
    if (left > 1) factor[n++] = left;
    for (int64_t g = 2;; g++) {
        bool generates = true;
        for (int i = 0; i < n && generates; i++)
            generates = power_modulo(g, (p - 1) / factor[i], p) != 1;
        if (generates) return g;
    }
}

static struct kl_root times(struct kl_root a, struct kl_root b) {
    return (struct kl_root){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct kl_root plus(struct kl_root a, struct kl_root b) {
    return (struct kl_root){a.re + b.re, a.im + b.im};
}

static struct kl_root minus(struct kl_root a, struct kl_root b) {
    return (struct kl_root){a.re - b.re, a.im - b.im};
}

/* The transform of a (4) to positions 0, step, 2 step and 3 step of b. */
static inline void four(const struct kl_root *a, struct kl_root *b, int step) {
    const struct kl_root s0 = plus(a[0], a[2]), s1 = plus(a[1], a[3]), d0 = minus(a[0], a[2]),
                         d = minus(a[1], a[3]), d1 = {d.im, -d.re}; /* -i d */
    b[0] = plus(s0, s1);
    b[step] = plus(d0, d1);
    b[2 * step] = minus(s0, s1);
    b[3 * step] = minus(d0, d1);
}

/* Even frequencies are those of the sums of both halves, odd ones those of the differences, each
 * turned by its eighths. */
static inline void eight(const struct kl_root *a, struct kl_root *b) {
    const double h = 0x1.6a09e667f3bcdp-1;
    struct kl_root x[4], y[4];
    for (int j = 0; j < 4; j++) x[j] = plus(a[j], a[j + 4]), y[j] = minus(a[j], a[j + 4]);
    y[1] = (struct kl_root){h * (y[1].re + y[1].im), h * (y[1].im - y[1].re)};
    y[2] = (struct kl_root){y[2].im, -y[2].re};
    y[3] = (struct kl_root){h * (y[3].im - y[3].re), -h * (y[3].im + y[3].re)};
    four(x, b, 2);
    four(y, b + 1, 2);
}

/* The transform of a (r) by its definition. */
static void few(int r, const struct kl_root *matrix, const struct kl_root *a, struct kl_root *b) {
    for (int k = 0; k < r; k++) {
        b[k] = a[0];
        for (int j = 1; j < r; j++) b[k] = plus(b[k], times(a[j], matrix[k * r + j]));
    }
}

/* One pass of radix r: m and s are the products of the later and of the earlier radices. */
static void plain_pass(const struct kl_root *x, struct kl_root *y, const struct kl_root *roots,
                       int64_t m, int r, int64_t s) {
    struct kl_root matrix[KL_FFT_MOST_RADIX * KL_FFT_MOST_RADIX], a[KL_FFT_MOST_RADIX],
        b[KL_FFT_MOST_RADIX];
    for (int k = 0; k < r && r != 4 && r != 8; k++)
        for (int j = 0; j < r; j++) matrix[k * r + j] = roots[j * k % r * (m * s)];
    for (int64_t p = 0; p < m; p++)
        for (int64_t q = 0; q < s; q++) {
            for (int j = 0; j < r; j++) a[j] = x[q + s * (p + m * j)];
            if (r == 8)
                eight(a, b);
            else if (r == 4)
                four(a, b, 1);
            else
                few(r, matrix, a, b);
            y[q + s * r * p] = b[0];
            for (int k = 1; k < r; k++) y[q + s * (r * p + k)] = times(b[k], roots[p * k * s]);
        }
}

void kl_fft_roots(int64_t n, struct kl_root *roots) {
    const int64_t quarter = n % 4 ? n : n / 4;
    for (int64_t k = 0; k < quarter && k <= n / 2; k++) roots[k] = kl_fft_root(k, n);
    for (int64_t k = quarter; k < n; k++)
        roots[k] = (struct kl_root){roots[k - quarter].im, -roots[k - quarter].re};
    for (int64_t k = n / 2 + 1; k < n && quarter == n; k++)
        roots[k] = (struct kl_root){roots[n - k].re, -roots[n - k].im};
}

struct kl_root *kl_fft_plain(struct kl_root *x, struct kl_root *y, const struct kl_root *roots,
                             int64_t n) {
    int radix[KL_FFT_MOST_PASSES];
    const int passes = kl_fft_radices(n, radix);
    int64_t s = 1;
    for (int i = 0; i < passes; i++) {
        struct kl_root *was = x;
        plain_pass(x, y, roots, n / s / radix[i], radix[i], s);
        x = y;
        y = was;
        s *= radix[i];
    }
    return x;
}
