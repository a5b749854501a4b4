"""Whether NVIDIA GPUs can be used."""

def is_available() -> bool:
    """Whether Keel can use an NVIDIA GPU through CUDA.

    Example:
        >>> isinstance(mx.cuda.is_available(), bool)
        True
    """
