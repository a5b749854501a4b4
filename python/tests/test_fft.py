"""keel.core.fft beside NumPy."""

import numpy as np
import pytest

import keel.core as mx

rng = np.random.default_rng(4)
x = rng.normal(size=(3, 6, 5)).astype("float32")
z = (x + 1j * rng.normal(size=x.shape)).astype("complex64")
X, Z = mx.array(x), mx.array(z)
NORMS = ("backward", "ortho", "forward")


def check(made, wanted, dtype):
    assert made.dtype == dtype and made.shape == wanted.shape
    np.testing.assert_allclose(np.array(made), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n, axis", ((None, -1), (4, 1), (7, 1), (6, -3), (1, 2)))
def test_along_one_axis(n, axis, norm):
    for name, given, dtype in (("fft", z, mx.complex64), ("fft", x, mx.complex64), ("ifft", z, mx.complex64),
                               ("rfft", x, mx.complex64), ("irfft", z, mx.float32)):  # fmt: skip
        check(getattr(mx.fft, name)(mx.array(given), n, axis, norm), getattr(np.fft, name)(given, n, axis, norm), dtype)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s, axes", ((None, (-2, -1)), (None, (0, 1)), ((4, 9), (2, 0)), ((5,), (1,))))
def test_along_several_axes(s, axes, norm):
    for kind in ("2", "n"):
        for name, given, dtype in (("fft", z, mx.complex64), ("ifft", x, mx.complex64), ("rfft", x, mx.complex64),
                                   ("irfft", z, mx.float32)):  # fmt: skip
            made = getattr(mx.fft, name + kind)(mx.array(given), s, axes, norm)
            check(made, getattr(np.fft, name + "n")(given, s, axes, norm), dtype)


def test_defaults():
    check(mx.fft.fft2(Z), np.fft.fft2(z), mx.complex64)
    check(mx.fft.fftn(Z), np.fft.fftn(z), mx.complex64)
    check(mx.fft.irfft2(Z), np.fft.irfft2(z), mx.float32)
    check(mx.fft.rfftn(X), np.fft.rfftn(x), mx.complex64)
    check(mx.fft.fftn(Z, axes=None), np.fft.fftn(z), mx.complex64)
    assert mx.array_equal(mx.fft.fftn(X, axes=[]), X)
    check(mx.fft.rfft(mx.array([True, False, True])), np.fft.rfft([1, 0, 1]), mx.complex64)


def test_shifts_and_frequencies():
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 1, (0, 2), (0, 0), ()):
            wanted = x if axes == () else getattr(np.fft, name)(x, axes)
            assert np.array_equal(np.array(getattr(mx.fft, name)(X, axes)), wanted)
    for n in (1, 2, 5, 8):
        check(mx.fft.fftfreq(n, 0.3), np.fft.fftfreq(n, 0.3), mx.float32)
        check(mx.fft.rfftfreq(n), np.fft.rfftfreq(n), mx.float32)


def test_bad_arguments():
    for call in (lambda: mx.fft.fft(X, 0), lambda: mx.fft.fft(X, -1), lambda: mx.fft.fft(X, norm="x"), lambda: mx.fft.fftn(X, [2]),
                 lambda: mx.fft.fftn(X, [2], [0, 1]), lambda: mx.fft.fftn(X, axes=[0, 0]), lambda: mx.fft.fft(mx.array(1.0)), lambda: mx.fft.irfftn(mx.array(1.0)),
                 lambda: mx.fft.irfft(X[..., :1]), lambda: mx.fft.fftfreq(0), lambda: mx.fft.fftfreq(3, 0.0),
                 lambda: mx.fft.fftn(X, [2, 3, 4, 5], [0, 1, 2, 0])):  # fmt: skip
        with pytest.raises(ValueError):
            call()
    for call in (lambda: mx.fft.fft(X, 2, 3), lambda: mx.fft.fftn(X, axes=[5]), lambda: mx.fft.fftshift(X, 7)):
        with pytest.raises(IndexError):
            call()


def test_transforms():
    def loss(a):
        return mx.abs(mx.fft.rfft(a)).square().sum()

    # of the n // 2 + 1 bins the first (and of even n the last) stands for one of n
    weights = np.array([1, 0.5, 0.5]) if x.shape[-1] % 2 else None
    wanted = 2 * x.shape[-1] * np.fft.irfft(np.fft.rfft(x) * weights, x.shape[-1])
    np.testing.assert_allclose(np.array(mx.grad(loss)(X)), wanted, rtol=1e-4, atol=1e-4)
    f = mx.compile(lambda a: mx.fft.irfft(mx.fft.rfft(a) * 2), shapeless=True)
    for n in (4, 6, 10):
        np.testing.assert_allclose(np.array(f(X[..., :1] * mx.ones(n))), np.array(X[..., :1] * mx.ones(n)) * 2, rtol=1e-5)
    check(mx.vmap(mx.fft.fft, in_axes=1)(Z), np.fft.fft(np.moveaxis(z, 1, 0)), mx.complex64)


# ---- windows ----
def stft(signal, n_fft, hop, window, center, mode):
    """The definition: one transform after the other."""
    if center:
        signal = np.pad(signal, n_fft // 2, mode=mode)
    left = (n_fft - len(window)) // 2
    full = np.zeros(n_fft)
    full[left : left + len(window)] = window
    return np.stack([np.fft.rfft(signal[t : t + n_fft] * full) for t in range(0, len(signal) - n_fft + 1, hop)], -1)


@pytest.mark.parametrize("n_fft, hop, length, center, mode", (
    (16, 4, 16, True, "reflect"), (16, 5, 12, True, "constant"), (15, 3, 15, False, "constant"), (8, 8, 8, True, "edge"), (9, 20, 9, False, "constant")))  # fmt: skip
def test_stft(n_fft, hop, length, center, mode):
    signal, window = rng.normal(size=61).astype("float32"), np.hanning(length + 2)[1:-1].astype("float32")
    made = mx.fft.stft(mx.array(signal), n_fft, hop, length, mx.array(window), center, mode)
    check(made, stft(signal, n_fft, hop, window, center, mode), mx.complex64)
    two = mx.fft.stft(mx.array(np.stack([signal, signal])), n_fft, hop, None, mx.array(window), center, mode)
    assert mx.array_equal(two[1], made)
    if center and hop <= n_fft // 2:
        back = mx.fft.istft(made, n_fft, hop, length, mx.array(window), length=61)
        np.testing.assert_allclose(np.array(back), signal, atol=1e-5)
        assert mx.fft.istft(made, n_fft, hop, length, mx.array(window), length=70).shape == (70,)
        many = mx.fft.istft(two, n_fft, hop, length, mx.array(window), length=61)
        np.testing.assert_allclose(np.array(many[0]), signal, atol=1e-5)


def test_stft_of_complex_numbers():
    signal = (rng.normal(size=40) + 1j * rng.normal(size=40)).astype("complex64")
    made = mx.fft.stft(mx.array(signal), 8, 2)
    assert made.shape == (8, 21)
    np.testing.assert_allclose(np.array(mx.fft.istft(made, 8, 2, onesided=False)), signal, atol=1e-5)
    # of real numbers, all values on request
    real = mx.fft.stft(mx.array(signal.real), 8, 2, onesided=False)
    np.testing.assert_allclose(np.array(real[:5]), np.array(mx.fft.stft(mx.array(signal.real), 8, 2)), atol=1e-5)


def test_stft_is_differentiable():
    w = mx.array(np.hanning(8).astype("float32"))
    gradient = mx.grad(lambda a: mx.abs(mx.fft.stft(a, 8, 2, window=w)).square().sum())(mx.ones(20))
    step = 1e-2
    for at in (0, 7, 19):
        f = lambda d: float(mx.abs(mx.fft.stft(mx.ones(20).at[at].add(d), 8, 2, window=w)).square().sum())
        assert abs((f(step) - f(-step)) / (2 * step) - float(gradient[at])) < 2e-2


def test_bad_windows():
    a, m = mx.ones(20), mx.ones((5, 4))
    for call in (lambda: mx.fft.stft(a, 0), lambda: mx.fft.stft(a, 8, 0), lambda: mx.fft.stft(a, 8, win_length=9), lambda: mx.fft.stft(mx.array(1.0), 8),
                 lambda: mx.fft.stft(a, 8, window=mx.ones((2, 2))), lambda: mx.fft.stft(a, 64), lambda: mx.fft.stft(a, 32, center=False),
                 lambda: mx.fft.stft(a * 1j, 8, onesided=True), lambda: mx.fft.stft(a, 8, pad_mode="x"), lambda: mx.fft.stft(a, 8, norm="x"),
                 lambda: mx.fft.istft(a), lambda: mx.fft.istft(m, 20), lambda: mx.fft.istft(m, 8, 0), lambda: mx.fft.istft(m, 8, length=0),
                 lambda: mx.fft.istft(m, 8, window=mx.ones(8) * 1j)):  # fmt: skip
        with pytest.raises(ValueError):
            call()
