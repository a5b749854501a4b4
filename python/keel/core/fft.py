"""Discrete Fourier transforms, and those of overlapping windows."""

from keel import _core as _c
from keel.core._arguments import need_arrays as _need_arrays, need_int as _need_int

globals().update({k: v for k, v in vars(_c._fft).items() if not k.startswith("_")})


def _positive(function, **numbers):
    _need_int(function, **numbers)
    for name, n in numbers.items():
        if n < 1:
            raise ValueError(f"{function}(): {name} is {n}, but must be at least 1")


def _pad_last(a, low, high, mode="constant", *, stream):
    return _c.pad(a, [(0, 0)] * (a.ndim - 1) + [(low, high)], mode, stream=stream)


def _cut_last(a, first, end, stream):
    """Elements first to end of the last axis."""
    return _c.split(a, [first, end], -1, stream=stream)[1]


def _window(function, window, win_length, n_fft, stream):
    """The window with zeros on both sides, n_fft numbers; None where it is ones alone."""
    if win_length is None:
        win_length = n_fft if window is None else window.size
    _positive(function, win_length=win_length)
    if win_length > n_fft:
        raise ValueError(f"{function}(): the window has {win_length} samples, but n_fft is {n_fft}")
    if window is None:
        if win_length == n_fft:
            return None
        window = _c.ones((win_length,), stream=stream)
    elif window.shape != (win_length,):
        raise ValueError(f"{function}(): the window has the shape {window.shape}, but must have ({win_length},)")
    left = (n_fft - win_length) // 2
    return _pad_last(window, left, n_fft - win_length - left, stream=stream)


def _is_complex(a):
    return a is not None and a.dtype._name == "complex64"


def stft(
    x,
    n_fft=2048,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    norm="backward",
    onesided=None,
    stream=None,
):
    _need_arrays("stft", x=x, **({} if window is None else {"window": window}))
    _positive("stft", n_fft=n_fft)
    hop = n_fft // 4 if hop_length is None else hop_length
    _positive("stft", hop_length=hop)
    if x.ndim == 0:
        raise ValueError("stft(): x is a number, but must have an axis of time")
    window = _window("stft", window, win_length, n_fft, stream)
    if onesided is None:
        onesided = not (_is_complex(x) or _is_complex(window))
    elif onesided and (_is_complex(x) or _is_complex(window)):
        raise ValueError("stft(): onesided transforms are those of real numbers, but x or the window is complex")
    side = n_fft // 2 if center else 0
    if center and pad_mode == "reflect" and x.shape[-1] <= side:
        raise ValueError(f"stft(): reflect pads {side} samples on each side and needs more, but x has {x.shape[-1]}")
    if side:
        x = _pad_last(x, side, side, pad_mode, stream=stream)
    *batch, length = x.shape
    if length < n_fft:
        raise ValueError(f"stft(): n_fft is {n_fft}, but x has {length} samples with its padding")
    frames = 1 + (length - n_fft) // hop
    rows = 1
    for extent in batch:
        rows *= extent
    x = _c.reshape(x, (rows, length), stream=stream)
    x = _c.as_strided(x, (rows, frames, n_fft), (length, hop, 1), stream=stream)
    if window is not None:
        x = _c.multiply(x, window, stream=stream)
    out = (_c._fft.rfft if onesided else _c._fft.fft)(x, None, -1, norm, stream)
    out = _c.swapaxes(out, -1, -2, stream=stream)
    return _c.reshape(out, (*batch, n_fft // 2 + 1 if onesided else n_fft, frames), stream=stream)


def _overlap_and_add(frames, hop, stream):
    """The sums of frames (..., frames, n) that begin hop samples after one another.

    A frame is cut into blocks of hop samples, and block j of frame t is a part of block t + j of
    the result. Rows j of blocks, made one block longer than the result's rows and read as if they
    were not, are shifted by j each; then they are summed.
    """
    *batch, count, n = frames.shape
    blocks = -(-n // hop)
    frames = _pad_last(frames, 0, blocks * hop - n, stream=stream)
    frames = _c.reshape(frames, (*batch, count, blocks, hop), stream=stream)
    frames = _c.moveaxis(frames, -3, -1, stream=stream)  # (..., blocks, hop, frames)
    rows = _pad_last(frames, 0, blocks, stream=stream)
    rows = _c.moveaxis(rows, -3, -2, stream=stream)  # (..., hop, blocks, frames + blocks)
    long = count + blocks
    flat = _c.reshape(rows, (*batch, hop, blocks * long), stream=stream)
    flat = _cut_last(flat, 0, blocks * (long - 1), stream)
    sums = _c.sum(_c.reshape(flat, (*batch, hop, blocks, long - 1), stream=stream), -2, stream=stream)
    sums = _c.swapaxes(sums, -1, -2, stream=stream)
    out = _c.reshape(sums, (*batch, (long - 1) * hop), stream=stream)
    return _cut_last(out, 0, n + hop * (count - 1), stream)


def istft(
    stft_matrix,
    n_fft=None,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    norm="backward",
    onesided=None,
    length=None,
    stream=None,
):
    _need_arrays("istft", stft_matrix=stft_matrix, **({} if window is None else {"window": window}))
    if n_fft is not None:
        _positive("istft", n_fft=n_fft)
    if stft_matrix.ndim < 2:
        raise ValueError(f"istft(): stft_matrix has {stft_matrix.ndim} axes, but needs those of values and frames")
    values, frames = stft_matrix.shape[-2:]
    if onesided is None:
        onesided = n_fft is None or values == n_fft // 2 + 1
    if n_fft is None:
        n_fft = 2 * (values - 1) if onesided else values
    hop = n_fft // 4 if hop_length is None else hop_length
    _positive("istft", n_fft=n_fft, hop_length=hop, frames=frames)
    if length is not None:
        _positive("istft", length=length)
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if values != wanted:
        raise ValueError(f"istft(): n_fft {n_fft} has {wanted} values, but stft_matrix has {values}")
    window = _window("istft", window, win_length, n_fft, stream)
    if _is_complex(window):
        raise ValueError("istft(): the window is complex, but must be real")
    x = _c.swapaxes(stft_matrix, -1, -2, stream=stream)
    x = (_c._fft.irfft if onesided else _c._fft.ifft)(x, n_fft, -1, norm, stream)
    squares = _c.ones((n_fft,), stream=stream)
    if window is not None:
        x = _c.multiply(x, window, stream=stream)
        squares = _c.square(window, stream=stream)
    signal = _overlap_and_add(x, hop, stream)
    weight = _overlap_and_add(_c.broadcast_to(squares, (frames, n_fft), stream=stream), hop, stream)
    # Where no window reaches, the sum is 0 and stays so.
    reached = _c.greater(weight, 1e-11, stream=stream)
    signal = _c.divide(signal, _c.where(reached, weight, 1.0, stream=stream), stream=stream)
    total = signal.shape[-1]
    first = min(n_fft // 2, total) if center else 0
    end = max(total - first, first) if length is None else min(total, first + length)
    signal = _cut_last(signal, first, end, stream)
    if length is not None and length > end - first:
        signal = _pad_last(signal, 0, length - (end - first), stream=stream)
    return signal
