"""Discrete Fourier transforms."""

from typing import Sequence

from keel.core import StreamOrDevice, array

def fft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform along one axis: sum of a[t] * exp(-2j * pi * k * t / n).

    a has any dtype; the result is complex64. n is the number of elements taken along axis:
    others are cut off, or zeros are added; None takes all. norm says which direction is
    divided: "backward" the inverse transform by n, "forward" the other one by n, "ortho" both
    by sqrt(n).

    Raises: ValueError for another norm, a number of elements below 1, and an axis that a does
    not have.

    Example:
        >>> mx.fft.fft(mx.array([1.0, 0.0, 0.0, 0.0]))
        array([1+0j, 1+0j, 1+0j, 1+0j], dtype=complex64)
    """

def fft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform along two axes, the last two by default.

    a has any dtype; the result is complex64. s has the number of elements for each of axes, as
    n in fft; None takes all. norm says which direction is divided: "backward" the inverse
    transform by n, "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.fft2(mx.array([[1.0, 0.0], [0.0, 0.0]]))
        array([[1+0j, 1+0j],
               [1+0j, 1+0j]], dtype=complex64)
    """

def fftfreq(n: int, d: float = 1.0, stream: StreamOrDevice = None) -> array:
    """Frequencies of the values of fft, for samples that are d apart.

    They are 0, 1, ..., then the negative ones, divided by n * d, in float32.

    Raises: ValueError for an n below 1.

    Example:
        >>> mx.fft.fftfreq(4, 0.5)
        array([0, 0.5, -1, -0.5], dtype=float32)
    """

def fftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform along several axes.

    axes None means all; with s, axes are given too. a has any dtype; the result is complex64. s
    has the number of elements for each of axes, as n in fft; None takes all. norm says which
    direction is divided: "backward" the inverse transform by n, "forward" the other one by n,
    "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.fftn(mx.array([[1.0, 0.0], [0.0, 0.0]]))
        array([[1+0j, 1+0j],
               [1+0j, 1+0j]], dtype=complex64)
    """

def fftshift(
    a: array, axes: int | Sequence[int] | None = None, stream: StreamOrDevice = None
) -> array:
    """The values of fft with frequency 0 moved to the middle.

    axes is one axis or several; None means all. Shape and dtype stay.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
        array([-2, -1, 0, 1, 2], dtype=int32)
    """

def ifft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse discrete Fourier transform along one axis.

    Element t is the sum of a[k] * exp(2j * pi * k * t / n) / n. a has any dtype; the result is
    complex64. n is the number of elements taken along axis: others are cut off, or zeros are
    added; None takes all. norm says which direction is divided: "backward" the inverse
    transform by n, "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, a number of elements below 1, and an axis that a does
    not have.

    Example:
        >>> mx.fft.ifft(mx.array([1.0, 1.0, 1.0, 1.0]))
        array([1+0j, 0+0j, 0+0j, 0+0j], dtype=complex64)
    """

def ifft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse discrete Fourier transform along two axes, the last two by default.

    a has any dtype; the result is complex64. s has the number of elements for each of axes, as
    n in fft; None takes all. norm says which direction is divided: "backward" the inverse
    transform by n, "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.ifft2(mx.array([[4.0, 0.0], [0.0, 0.0]]))
        array([[1+0j, 1+0j],
               [1+0j, 1+0j]], dtype=complex64)
    """

def ifftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse discrete Fourier transform along several axes.

    axes None means all; with s, axes are given too. a has any dtype; the result is complex64. s
    has the number of elements for each of axes, as n in fft; None takes all. norm says which
    direction is divided: "backward" the inverse transform by n, "forward" the other one by n,
    "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.ifftn(mx.array([[4.0, 0.0], [0.0, 0.0]]))
        array([[1+0j, 1+0j],
               [1+0j, 1+0j]], dtype=complex64)
    """

def ifftshift(
    a: array, axes: int | Sequence[int] | None = None, stream: StreamOrDevice = None
) -> array:
    """Inverse of fftshift: frequency 0 moved from the middle to the front.

    axes is one axis or several; None means all. Shape and dtype stay.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
        array([0, 1, 2, -2, -1], dtype=int32)
    """

def irfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse of rfft: n real numbers from n // 2 + 1 values along one axis.

    n None means 2 * (m - 1) for m values. a is converted to complex64; the result is float32.
    norm says which direction is divided: "backward" the inverse transform by n, "forward" the
    other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, a number of elements below 1, and an axis that a does
    not have.

    Example:
        >>> mx.fft.irfft(mx.array([10.0, -2 + 2j, -2.0]))
        array([1, 2, 3, 4], dtype=float32)
    """

def irfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse of rfft2: real numbers along two axes, the last two by default.

    a is converted to complex64; the result is float32. s has the extents of the result along
    axes; None takes those of a, and 2 * (m - 1) for the last. norm says which direction is
    divided: "backward" the inverse transform by n, "forward" the other one by n, "ortho" both
    by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.irfft2(mx.ones((4, 3))).shape
        (4, 4)
    """

def irfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Inverse of rfftn: real numbers along several axes.

    axes None means all; with s, axes are given too. a is converted to complex64; the result is
    float32. s has the extents of the result along axes; None takes those of a, and 2 * (m - 1)
    for the last. norm says which direction is divided: "backward" the inverse transform by n,
    "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.irfftn(mx.ones((2, 4, 3))).shape
        (2, 4, 4)
    """

def istft(
    stft_matrix: array,
    n_fft: int | None = None,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    norm: str = "backward",
    onesided: bool | None = None,
    length: int | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Inverse of stft: the signal from the transforms of its windows, by overlap and add.

    stft_matrix is (..., values, frames); the other arguments are those of stft was given; n_fft
    None follows from the number of values. length cuts the result or adds zeros. The sums are
    divided by those of the squared windows.

    Raises: ValueError for lengths below 1, windows longer than n_fft, and another norm.

    Example:
        >>> mx.fft.istft(mx.fft.stft(mx.ones(5), n_fft=4), n_fft=4, length=5)
        array([1, 1, 1, 1, 1], dtype=float32)
    """

def rfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform of real numbers along one axis: the first n // 2 + 1 values.

    The others are the conjugates of these. Of complex64 the real part is taken; the result is
    complex64. n is the number of elements taken along axis: others are cut off, or zeros are
    added; None takes all. norm says which direction is divided: "backward" the inverse
    transform by n, "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, a number of elements below 1, and an axis that a does
    not have.

    Example:
        >>> mx.fft.rfft(mx.array([1.0, 2.0, 3.0, 4.0]))
        array([10+0j, -2+2j, -2+0j], dtype=complex64)
    """

def rfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform of real numbers along two axes, the last two by default.

    The last one of axes has s // 2 + 1 values, as in rfft. Of complex64 the real part is taken;
    the result is complex64. s has the number of elements for each of axes, as n in fft; None
    takes all. norm says which direction is divided: "backward" the inverse transform by n,
    "forward" the other one by n, "ortho" both by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.rfft2(mx.ones((4, 4))).shape
        (4, 3)
    """

def rfftfreq(n: int, d: float = 1.0, stream: StreamOrDevice = None) -> array:
    """Frequencies of the values of rfft, for samples that are d apart.

    They are 0, 1, ..., n // 2, divided by n * d, in float32.

    Raises: ValueError for an n below 1.

    Example:
        >>> mx.fft.rfftfreq(4, 0.5)
        array([0, 0.5, 1], dtype=float32)
    """

def rfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array:
    """Discrete Fourier transform of real numbers along several axes.

    axes None means all; with s, axes are given too. The last one has s // 2 + 1 values, as in
    rfft. Of complex64 the real part is taken; the result is complex64. s has the number of
    elements for each of axes, as n in fft; None takes all. norm says which direction is
    divided: "backward" the inverse transform by n, "forward" the other one by n, "ortho" both
    by sqrt(n).

    Raises: ValueError for another norm, numbers of elements below 1, lists of different
    lengths, and axes that a does not have or that repeat.

    Example:
        >>> mx.fft.rfftn(mx.ones((2, 4, 4))).shape
        (2, 4, 3)
    """

def stft(
    x: array,
    n_fft: int = 2048,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    norm: str = "backward",
    onesided: bool | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Short-time Fourier transform: the transforms of overlapping windows of x.

    x is (..., time). Frames of n_fft samples, hop_length apart (None: n_fft // 4), are
    multiplied by window (None: ones) of win_length samples (None: n_fft; shorter ones are
    centred) and transformed. With center, x is padded on both ends, by a mode of keel.core.pad,
    so that frame t is around t * hop_length. onesided None means True for real x: n_fft // 2 +
    1 values. The result is (..., values, frames) in complex64; norm is as in fft.

    Raises: ValueError for lengths below 1, windows longer than n_fft, another mode or norm, and
        an x that is too short.

    Example:
        >>> mx.fft.stft(mx.ones(16), n_fft=8).shape
        (5, 9)
    """
