"""The names of mlx.core.fft. They are not built yet."""

from keel.core._later import later as _later

globals().update(
    _later(
        "fft",
        "fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft irfft2 irfftn istft rfft rfft2 "
        "rfftfreq rfftn stft",
    )
)
