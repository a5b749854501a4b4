"""Results whose digits a plain formula would lose: exact quotients, derivatives of logarithms of sums, long sums."""

import fractions
import math

import keel.core as mx
import numpy as np
import pytest


def rounded_once(n, bits):
    """The whole number n rounded to the nearest float of so many bits, ties to even."""
    drop = max(n.bit_length() - bits, 0)
    low, half = abs(n) & ((1 << drop) - 1), 1 << drop >> 1
    kept = abs(n) >> drop
    kept += drop > 0 and (low > half or (low == half and kept & 1))
    return (-1 if n < 0 else 1) * (kept << drop)


@pytest.mark.parametrize(("dtype", "bits"), [(mx.float64, 53), (mx.float32, 24), (mx.float16, 11), (mx.bfloat16, 8)])
def test_floor_division_is_the_floor_of_the_exact_quotient(dtype, bits):
    """Against fractions: quotients near whole numbers, and beyond the numbers that are all whole."""
    rng = np.random.default_rng(5)
    n = 4000
    b = rng.uniform(0.01, 2, n) * rng.choice([-1, 1], n)
    a = np.concatenate([b[: n // 2] * rng.integers(1, 900, n // 2), rng.uniform(-9, 9, n // 2) * 2.0 ** rng.integers(0, 12 if bits == 11 else 2 * bits + 8, n // 2)])
    x, y = (mx.array(v, dtype=mx.float64).astype(dtype) for v in (a, b))
    got = mx.floor_divide(x, y).astype(mx.float64).tolist()
    want = []
    for p, q in zip(x.astype(mx.float64).tolist(), y.astype(mx.float64).tolist()):
        whole = rounded_once(fractions.Fraction(p) // fractions.Fraction(q), bits)
        want.append(float(whole) if bits != 11 or abs(whole) < 65520 else math.copysign(math.inf, whole))
    assert got == want
    assert (mx.divmod(x, y)[0] == mx.floor_divide(x, y)).all().item() and mx.array_equal(mx.compile(lambda u, v: u // v + 0)(x, y), x // y)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("inclusive", [False, True])
def test_second_derivatives_of_logcumsumexp(reverse, inclusive):
    """Against differences of the first ones; cotangents of both signs and 0, reverse over reverse and forward over it."""
    rng = np.random.default_rng(0)
    x, v = (mx.array(rng.normal(size=5), dtype=mx.float64) for _ in range(2))
    weight = mx.array([1.0, -2, 0, 3, 0.5], dtype=mx.float64)
    whole = slice(None) if inclusive else slice(0, 4) if reverse else slice(1, 5)  # the sum of no element is -inf

    def scan(x):
        return mx.logcumsumexp(x, reverse=reverse, inclusive=inclusive)

    first = mx.grad(lambda x: (scan(x)[whole] ** 2 * weight[whole]).sum())
    want = np.array(first(x + 1e-5 * v) - first(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(np.array(mx.grad(lambda x: (first(x) * v).sum())(x)), want, atol=1e-9)
    np.testing.assert_allclose(np.array(mx.jvp(first, [x], [v])[1][0]), want, atol=1e-9)
    if inclusive:  # the gradient is linear in the cotangent, also at 0
        for dtype, close in ((mx.float64, 1e-12), (mx.float32, 1e-4), (mx.bfloat16, 0.1), (mx.float16, 0.02)):
            z, c = x.astype(dtype), v.astype(dtype)
            by = lambda c: mx.vjp(scan, [z], [c])[1][0]
            got, want = mx.jvp(by, [mx.zeros_like(c)], [c])[1][0], by(c)
            np.testing.assert_allclose(np.array(got.astype(mx.float32)), np.array(want.astype(mx.float32)), atol=close)


def test_logarithms_of_sums_of_nothing_have_gradient_zero():
    none = mx.array([-math.inf, -math.inf])
    for f in (mx.logsumexp, lambda x: mx.logcumsumexp(x)[1], lambda x: mx.logaddexp(x[0], x[1])):
        assert not mx.isnan(mx.grad(f)(none)).any().item(), f
    assert mx.grad(mx.logsumexp)(none).tolist() == [0, 0] and mx.jvp(mx.logsumexp, [none], [mx.ones(2)])[1][0].item() == 0
    assert mx.grad(lambda x: mx.logcumsumexp(x).sum())(mx.array([-math.inf, 0.0])).tolist() == [0, 1]
    rows = mx.grad(lambda x: mx.logsumexp(x, axis=1).sum())(mx.array([[-math.inf, -math.inf], [0.0, -math.inf]]))
    assert rows.tolist() == [[0, 0], [1, 0]]


def error_of(got, want):
    return (mx.abs(got.astype(mx.float64) - want) / abs(want)).max().item()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.complex64])
def test_sums_of_many_products_keep_their_digits(dtype):
    """Equal terms, whose rounding errors have one sign: one after the other they are off by 1e-3 and more."""
    n = 700_001 if dtype != mx.float16 else 300_001
    a, b = mx.full((2, n), 0.1).astype(dtype), mx.ones((n, 3)).astype(dtype)
    want, close = n * float(a[0, 0].astype(mx.float32).item()), 1e-5 if dtype != mx.float16 else 5e-4
    got = [mx.inner(a[0], b[:, 0]), a @ b, a[:1] @ b, a @ b[:, 0], mx.contiguous(a.T).T @ b, mx.einsum("i,ij->j", a[0], b)]
    got += [mx.tensordot(a, b, 1), mx.stack([a, a]) @ b, mx.addmm(mx.zeros((2, 3)).astype(dtype), a, b)]
    got.append(mx.vmap(lambda x: x @ b)(a))
    for x in got:
        assert x.dtype == dtype
        assert error_of(mx.real(x) if dtype == mx.complex64 else x, want) < close
    if dtype == mx.float32:
        weight = mx.grad(lambda q: (mx.ones((n, 2)) * 0.1 @ q).sum())(mx.zeros((2, 3)))
        assert error_of(weight, want) < close


@pytest.mark.parametrize("groups", [1, 4])
def test_weight_gradients_over_many_positions(groups):
    """Long sums keep their digits; and with strides, padding and dilation they are those of parts of the batch."""
    x, g = mx.full((2, 300, 300, 4), 0.1), mx.ones((2, 300, 300, 4))
    of = lambda x, g, k, **more: mx.vjp(lambda w: mx.conv_general(x, w, groups=groups, **more), [mx.zeros((4, *k, 4 // groups))], [g])[1][0]
    assert error_of(of(x, g, (1, 1)), 180_000 * float(np.float32(0.1))) < 1e-5
    x = mx.random.normal((12, 64, 67, 4), key=mx.random.key(1))
    for flip in (False, True):
        more = {"stride": (1, 2), "padding": ((2, 1), (0, 3)), "kernel_dilation": (2, 1), "flip": flip}
        shape = mx.conv_general(x, mx.zeros((4, 3, 2, 4 // groups)), groups=groups, **more).shape
        g = mx.random.normal(shape, key=mx.random.key(2))
        x2, g2 = mx.concatenate([x, x, x]), mx.concatenate([g, g, g])
        assert g2.size // 4 > 2**15 > g[:4].size // 4
        parts = sum(of(x[i : i + 4], g[i : i + 4], (3, 2), **more) for i in (0, 4, 8))
        np.testing.assert_allclose(np.array(of(x2, g2, (3, 2), **more)), np.array(parts * 3), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_additions_of_16_bits_are_rounded_once(dtype):
    n, table = 20_000, mx.zeros((4, 3)).astype(dtype)
    at, along = mx.zeros((n,), dtype=mx.int32), mx.zeros((n, 3), dtype=mx.int32)
    updates = mx.full((n, 3), 0.1).astype(dtype)
    sums = [table.at[at].add(updates)[0], table.at[at, 0].add(updates[:, 0])[:1, 0], -table.at[at].subtract(updates)[0]]
    sums.append(mx.grad(lambda t: (t[at].astype(mx.float32) * 0.1).sum())(table)[0])
    sums.append(mx.grad(lambda t: (mx.take_along_axis(t, along, axis=0) * updates).sum())(table)[0])
    sums.append(mx.vmap(lambda u: table.at[at].add(u))(mx.stack([updates, updates]))[1, 0])
    for got in sums:
        assert got.dtype == dtype
        np.testing.assert_allclose(np.array(got.astype(mx.float32)), 2000, rtol=2e-3)
    product = mx.ones((1,)).astype(dtype).at[at[:300]].multiply(mx.full((300,), 1.0078125).astype(dtype))
    np.testing.assert_allclose(product.astype(mx.float32).item(), 1.0078125**300, rtol=4e-3)
