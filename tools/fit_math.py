#!/usr/bin/env python3
"""Fits the polynomials of src/backend/cpu/cpu_math.h and prints them as C, with their relative errors.

Each is the interpolation at Chebyshev points (computed with 40 digits) of a function that is smooth where it is used; the coefficients are rounded to float64 once."""
from mpmath import asin, atan, chebyfit, erf, expm1, log, log1p, mp, mpf, pi, polyval, sin, sqrt

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
    ("erf_over_x", "x * x, erf(x) / x on [0, 3.93]", even(erf, 2 / sqrt(pi)), mpf(0), mpf("15.5"), 18),
    ("expm1_over_r_fine", "r, the same for powers", ratio(expm1), -HALF_LN2, HALF_LN2, 8),
    ("log1p_over_f_fine", "f, the same for powers", ratio(log1p), sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, 15),
]

for name, text, f, a, b, n in FITS:
    p = chebyfit(f, [a, b], n)
    c = [float(v) for v in reversed(p)]
    worst = max(abs(polyval([mpf(v) for v in reversed(c)], x) / f(x) - 1) for x in (a + (b - a) * i / 3000 for i in range(3001)))
    print(f"/* In {text}; relative error 2^{float(log(worst, 2)):.1f}. */")
    print(f"static const double kl_{name}[] = {{{', '.join(repr(v) for v in c)}}};")
