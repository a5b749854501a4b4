# keel.core.fft - Fourier transforms.

from typing import Sequence

from keel.core import StreamOrDevice, array

def fft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def fft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def fftfreq(n: int, d: float = 1.0, stream: StreamOrDevice = None) -> array: ...
def fftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def fftshift(
    a: array, axes: int | Sequence[int] | None = None, stream: StreamOrDevice = None
) -> array: ...
def ifft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def ifft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def ifftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def ifftshift(
    a: array, axes: int | Sequence[int] | None = None, stream: StreamOrDevice = None
) -> array: ...
def irfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def irfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def irfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
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
) -> array: ...
def rfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def rfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = [-2, -1],
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
def rfftfreq(n: int, d: float = 1.0, stream: StreamOrDevice = None) -> array: ...
def rfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    stream: StreamOrDevice = None,
) -> array: ...
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
) -> array: ...
