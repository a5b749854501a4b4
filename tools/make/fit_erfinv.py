#!/usr/bin/env python3
"""Fits the polynomials of src/backend/cpu/math/erfinv.h and functions_f64.h for the inverse error function and prints them as C.

erfinv(x) = x * P(w) with w = -log(1 - x*x). P is smooth in w for small w, and close to linear in sqrt(w) for
large w: so one polynomial in w, centred, and one in sqrt(w), centred. Interpolation at Chebyshev points of values
with 40 digits; the errors printed last are relative, over dense points."""
import mpmath as mp
import numpy as np
from numpy.polynomial import chebyshev, polynomial

mp.mp.dps = 40


def ratio(w):
    """P(w) to 40 digits; Newton's method on erfc, where 1 - x would lose the digits."""
    x2 = -mp.expm1(-w)
    x = mp.sqrt(x2)
    tail = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w) * mp.mpf("0.86") + mp.mpf("1e-3")
    for _ in range(200):
        step = (mp.erfc(y) - tail) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf(10) ** -32 * y:
            break
    return y / x


def fit(name, to_w, lo, hi, degree):
    mid, half = (lo + hi) / 2, (hi - lo) / 2
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * (degree + 1))) for k in range(degree + 1)]
    values = np.array([float(ratio(to_w(mid + half * t))) for t in nodes])
    cheb = chebyshev.chebfit(np.array([float(t) for t in nodes]), values, degree)
    c = chebyshev.cheb2poly(cheb) / half ** np.arange(degree + 1)
    u = np.linspace(lo, hi, 400)[1:]
    exact = np.array([float(ratio(to_w(mp.mpf(v)))) for v in u])
    error = np.max(np.abs(polynomial.polyval(u - mid, c) / exact - 1))
    print(f"static const double {name}[] = {{ /* around {mid!r} */")
    print("    " + ", ".join(repr(float(v)) for v in c) + "};")
    print(f"/* relative error {error:.2e} */")


def fit_fine(name, to_w, lo, hi, terms):
    """P(w) - 1 for float64: computed with 40 digits throughout, and the coefficients rounded once."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    mid = (lo + hi) / 2
    c = [float(v) for v in reversed(mp.chebyfit(lambda u: ratio(to_w(u + mid)) - 1, [lo - mid, hi - mid], terms))]
    points = [lo + (hi - lo) * (2 * i + 1) / 400 for i in range(200)]
    error = max(abs((mp.polyval([mp.mpf(v) for v in reversed(c)], u - mid) + 1) / ratio(to_w(u)) - 1) for u in points)
    print(f"static const double {name}[] = {{ /* around {float(mid)!r}; relative error 2^{float(mp.log(error, 2)):.1f} */")
    print("    " + ", ".join(repr(v) for v in c) + "};")


fit("kl_erfinv_middle", lambda u: mp.mpf(u), 0.0, 6.25, 14)
fit("kl_erfinv_ends", lambda u: mp.mpf(u) ** 2, 2.5, 6.2, 14)
fit_fine("kl_erfinv_middle_fine", lambda u: u, "0", "6.25", 24)
fit_fine("kl_erfinv_ends_fine", lambda u: u**2, "2.5", "6.01", 30)
