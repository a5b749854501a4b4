#!/usr/bin/env python3
"""Fits the polynomials of src/backend/cpu/math/functions.h, functions_f64.h, piecewise.h, exp.h and elementwise/half.c and prints them as C, with their errors.

Each is the interpolation at Chebyshev points (computed with 40 digits) of a function that is smooth where it is used; the coefficients are rounded to float64 once."""
import struct

from mpmath import asin, atan, binomial, chebyfit, cos, erf, erfc, exp, expm1, log, log1p, mp, mpf, pi, polyval, sin, sqrt, tan, tanh

mp.dps = 40
HALF_LN2 = log(2) / 2


def ratio(f, at_0=1):
    """f(x) / x, continued to 0."""
    return lambda x: f(x) / x if x != 0 else mpf(at_0)


def even(f, at_0=1):
    """f(x) / x of an odd f, as a function of x * x."""
    return lambda t: f(sqrt(t)) / sqrt(t) if t > 0 else mpf(at_0)


FITS = [
    ("expm1_over_r", "r, (exp(r) - 1) / r on [-ln 2 / 2, ln 2 / 2]", ratio(expm1), -HALF_LN2, HALF_LN2, 7),
    ("log1p_over_f", "f, log(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1]", ratio(log1p), sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, 12),
    ("sin_over_r", "r * r, sin(r) / r on [0, pi / 2]", even(sin), mpf(0), (pi / 2) ** 2, 6),
    ("atan_over_x", "x * x, atan(x) / x on [0, 1]", even(atan), mpf(0), mpf(1), 11),
    ("asin_over_x", "x * x, asin(x) / x on [0, 1/2]", even(asin), mpf(0), mpf(1) / 4, 7),
    ("pow_log2_over_r", "r, log2(1 + r) / r on [-1/32, 1/16]", ratio(lambda r: log(1 + r, 2), 1 / log(2)), mpf(-1) / 32, mpf(1) / 16, 7),
    ("pow_exp2", "r, (2^r - 1) / r on [-1/2, 1/2], whose 1 comes first there", ratio(lambda r: mpf(2) ** r - 1, log(2)), mpf(-1) / 2, mpf(1) / 2, 8),
]

for name, text, f, a, b, n in FITS:
    p = chebyfit(f, [a, b], n)
    c = [float(v) for v in reversed(p)]
    worst = max(abs(polyval([mpf(v) for v in reversed(c)], x) / f(x) - 1) for x in (a + (b - a) * i / 3000 for i in range(3001)))
    print(f"/* In {text}; relative error 2^{float(log(worst, 2)):.1f}. */")
    print(f"static const double kl_{name}[] = {{{', '.join(repr(v) for v in c)}}};")


def single(v):
    return struct.unpack("f", struct.pack("f", float(v)))[0]


def f32_bits(v):
    return struct.unpack("I", struct.pack("f", float(v)))[0]


def bits_f32(u):
    return mpf(struct.unpack("f", struct.pack("I", u))[0])


def beyond(f, first, at_0):
    """(f(x) / x - first) / x^2 of an odd f, as a function of x * x."""
    return lambda t: (f(sqrt(t)) / sqrt(t) - first) / t if t > mpf(10) ** -12 else mpf(at_0)


def place(i):
    """The i-th number of kl_pow_inverse: of the float32 near the inverse of the middle, the one whose logarithm is closest to a float32."""
    if i in (0, 15):
        return 1.0, 0.0
    lo, width = (1 + i / 16, 1 / 16) if i < 8 else (1 / 2 + i / 32, 1 / 32)
    middle = f32_bits(1 / (lo + width / 2))
    near = (bits_f32(middle + k) for k in range(-90000, 90001))
    inverse = min(near, key=lambda v: abs(-log(v, 2) - mpf(single(-log(v, 2)))))
    return float(inverse), single(-log(inverse, 2))


for name, column in zip(("kl_pow_inverse", "kl_pow_log2"), zip(*map(place, range(16)))):
    print(f"{name}[16] = {{{', '.join('%.9gf' % v for v in column)}}};")

# Half of a turn's quarter and a little, since quarters are counted in float32.
EIGHTH = (pi / 4 + mpf(2) ** -10) ** 2

# In float32; the error is that of the polynomial before its coefficients are rounded. The exponential's is an older fit by Remez's exchange.
SINGLE = [
    ("kl_log_rest", lambda f: (log1p(f) - f) / f**2 if abs(f) > mpf(10) ** -9 else mpf(-1) / 2, sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, 10),
    ("kl_sin_rest", beyond(sin, 1, mpf(-1) / 6), 0, EIGHTH, 4),
    ("kl_cos_rest", lambda t: (cos(sqrt(t)) - 1) / t if t > mpf(10) ** -12 else mpf(-1) / 2, 0, EIGHTH, 4),
    ("exp_of_r (bfloat16)", exp, -log(2) * mpf("1.01"), log(2) * mpf("1.01"), 8),
    ("log1p_over_f (bfloat16)", ratio(log1p), sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, 8),
    ("sin_over_r (bfloat16)", even(sin), 0, (pi / 2) ** 2, 5),
]
for name, f, a, b, n in SINGLE:
    p, error = chebyfit(f, [a, b], n, error=True)
    print(f"/* error 2^{float(log(error, 2)):.1f} */ {name}[] = {{{', '.join('%.9gf' % single(v) for v in reversed(p))}}};")


def rounded_in_turn(f, b, n):
    """(f(x) / x - 1) / x^2 of an odd f on [0, b] as float32 coefficients in x * x, and the largest error relative to f. Each coefficient is rounded, then the
    later ones are fitted again: least squares over Chebyshev points, the weights moved to where the error is, as Lawson does."""
    import numpy as np

    z = float(b) / 2 * (1 - np.cos(np.pi * (np.arange(400) + 0.5) / 400))
    rest = np.array([float(beyond(f, 1, 0)(mpf(float(v)))) for v in z])
    scale = np.array([float(v**mpf("1.5") / f(sqrt(v))) for v in map(mpf, z.tolist())])
    powers, fixed = np.vander(z, n, increasing=True), []
    for k in range(n):
        weight = np.ones_like(z)
        for _ in range(60):
            rows = weight * scale
            c = np.linalg.lstsq(powers[:, k:] * rows[:, None], rest * rows, rcond=1e-16)[0]
            error = abs(powers[:, k:] @ c - rest) * scale
            weight *= np.sqrt(error / error.max() + 1e-6)
            weight /= weight.mean()
        fixed.append(single(c[0]))
        rest = rest - fixed[-1] * powers[:, k]
    return fixed, max(abs(rest) * scale)


for name, f, b, n in (("kl_asin_rest", asin, mpf(1) / 4, 5), ("kl_atan_rest", atan, mpf(1), 9), ("kl_tan_rest", tan, EIGHTH, 7)):
    c, error = rounded_in_turn(f, b, n)
    print(f"/* error 2^{float(log(error, 2)):.1f} */ {name}[] = {{{', '.join('%.9gf' % v for v in c)}}};")


def pieces(f, last, even_terms):
    """The columns of math/piecewise.h: c, base, q. even_terms: q of column 0."""
    columns = [[0, 0] + even_terms]
    for i in range(1, last + 1):
        lo, hi = bits_f32((249 + i) << 22), bits_f32((250 + i) << 22)
        middle = (lo + hi) / 2
        p = list(reversed(chebyfit(lambda d: f(middle + d), [lo - middle, hi - middle], 8)))
        best = None
        for k in range(-400, 401):  # near 1 only far neighbours differ
            c = bits_f32(f32_bits(middle) + k * (1 if i < 7 else 67))
            value = polyval(list(reversed(p)), c - middle)
            off = abs(value - mpf(single(value))) / value
            if best is None or off < best[0]:
                best = off, c, value
        _, c, value = best
        moved = [sum(p[m] * binomial(m, j) * (c - middle) ** (m - j) for m in range(j, 8)) for j in range(1, 8)]
        columns.append([c, value] + moved)
    return columns


def quotient(f, at_0, b, above, below, fixed):
    """f(x) / x as a quotient of polynomials in x * x on [0, b]: least squares over Chebyshev points, the weights moved to where the error is, as Lawson does. fixed: it is right at 0."""
    import numpy as np

    z = float(b) / 2 * (1 + np.cos(np.pi * (np.arange(600) + 0.5) / 600))
    y = np.array([float(even(f, at_0)(mpf(float(v)))) for v in z])
    weight, den, best = np.ones_like(z), np.ones_like(z), None
    u = z / float(b)
    for _ in range(400):
        powers = np.vander(u, above + 1, increasing=True)[:, 1 if fixed else 0:]
        rows = np.hstack([powers / y[:, None], -np.vander(u, below + 1, increasing=True)[:, 1:]])
        right = 1 - float(at_0) / y if fixed else np.ones_like(y)
        scale = np.sqrt(weight) / den
        c = np.linalg.lstsq(rows * scale[:, None], right * scale, rcond=1e-15)[0]
        k = above if fixed else above + 1
        num = np.r_[float(at_0), c[:k]] if fixed else c[:k]
        bottom = np.r_[1, c[k:]]
        den = np.polyval(bottom[::-1], u)
        e = np.abs(np.polyval(num[::-1], u) / den / y - 1)
        if best is None or e.max() < best[0]:
            best = e.max(), num / float(b) ** np.arange(len(num)), bottom / float(b) ** np.arange(len(bottom))
        weight = weight * (np.sqrt(e / e.max()) + 1e-2)
        weight /= weight.sum()
    return best


def power_of_two(degree):
    """2^f on [-1/2, 1/2], right at 0: least squares over Chebyshev points, weighted as in quotient."""
    import numpy as np

    f = 0.5 * np.cos(np.pi * (np.arange(4001) + 0.5) / 4001)
    y, weight, best = 2.0**f, np.ones_like(f), None
    rows = np.vander(f, degree + 1, increasing=True)[:, 1:] / y[:, None]
    for _ in range(3000):
        scale = np.sqrt(weight)
        c = np.linalg.lstsq(rows * scale[:, None], (1 - 1 / y) * scale, rcond=None)[0]
        e = np.abs(rows @ c - (1 - 1 / y))
        if best is None or e.max() < best[0]:
            best = e.max(), c
        weight = weight * (e / e.max() + 1e-3)
        weight /= weight.sum()
    return best


def two_quadratics(square):
    """2^f on [0, 1] as f^2 + square times a quadratic polynomial: the least largest relative error over Chebyshev points, by linear programming."""
    import numpy as np
    from scipy.optimize import linprog

    f = (1 - np.cos(np.linspace(0, np.pi, 2001))) / 2
    rows, ones = np.vander(f, 3, increasing=True) * ((f * f + square) / 2.0**f)[:, None], np.ones_like(f)
    found = linprog([0, 0, 0, 1], np.block([[rows, -ones[:, None]], [-rows, -ones[:, None]]]), np.r_[ones, -ones], bounds=[(None, None)] * 3 + [(0, None)])
    return found.x[3], found.x[:3]


for name, degree in (("kl_term_f32", 5), ("kl_term_half", 4)):
    error, c = power_of_two(degree)
    print(f"/* error 2^{float(log(error, 2)):.1f} */ {name}[] = {{1, {', '.join('%.9gf' % single(v) for v in c)}}};")

(error, c), square = min(((two_quadratics(k / 32), k / 32) for k in range(408, 418)), key=lambda fit: fit[0][0])
print(f"/* error 2^{float(log(error, 2)):.1f} */ kl_term_below[] = {{{', '.join('%.9gf' % single(v) for v in c)}}}; KL_TERM_SQUARE {square}f")

for name, f, at_0, b, above, below, fixed in (("tanh", tanh, mpf(1), 14.5, 2, 3, False), ("erf", erf, 2 / sqrt(pi), 9.6, 3, 3, True)):
    error, num, bottom = quotient(f, at_0, b, above, below, fixed)
    for part, c in (("above", num), ("below", bottom)):
        print(f"/* error 2^{float(log(error, 2)):.1f} */ {name}_{part}[] (bfloat16) = {{{', '.join('%.9gf' % single(v) for v in c)}}};")

near = chebyfit(beyond(tanh, 1, mpf(-1) / 3), [0, mpf(1) / 16], 3)[::-1]
tanh_pieces = pieces(tanh, 11, [0, 0, near[0], 0, near[1], 0, near[2]])
near = chebyfit(lambda t: even(erf, 2 / sqrt(pi))(t) - 1, [0, mpf(1) / 16], 4)[::-1]
erf_pieces = pieces(erf, 8, [near[0], 0, near[1], 0, near[2], 0, near[3]])
for name, columns in (("tanh", tanh_pieces), ("erf", erf_pieces)):
    print(f"kl_{name}_pieces = {{" + ", ".join("{" + ", ".join("%.9gf" % single(v) for v in row) + "}" for row in zip(*columns)) + "};")


def scaled_erfc(t):
    """exp(x^2) erfc(x) as a function of t = (x - 3) / (x + 3)."""
    x = 3 * (1 + t) / (1 - t)
    return exp(x * x) * erfc(x)


# In float64; errors are absolute, that of the second where it is multiplied by exp(-x^2).
for name, f, a, b, n, weight in (
    ("kl_erf_near", lambda z: even(erf, 2 / sqrt(pi))(z) - 1, mpf(0), mpf(1), 13, lambda z: 1),
    ("kl_erf_far", scaled_erfc, -mpf(1) / 2, mpf(1) / 3, 15, lambda t: exp(-((3 * (1 + t) / (1 - t)) ** 2))),
):
    c = [float(v) for v in reversed(chebyfit(f, [a, b], n))]
    worst = max(abs(polyval([mpf(v) for v in reversed(c)], x) - f(x)) * weight(x) for x in (a + (b - a) * i / 500 for i in range(501)))
    print(f"/* error 2^{float(log(worst, 2)):.1f} */ static const double {name}[] = {{{', '.join(repr(v) for v in c)}}};")
