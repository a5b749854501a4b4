"""Functions with kernels of their own: attention, norms, position embedding, user kernels."""

from typing import Any, Sequence

from keel.core import Dtype, StreamOrDevice, array, scalar

def cross_entropy(logits: array, targets: array, *, stream: StreamOrDevice = None) -> array:
    """Cross entropy of logits and the right classes: logsumexp(logits) - logits[target].

    logits is (..., classes) of floats, targets (...) of integers; the result is float32, of the
    shape of targets.

    Raises: ValueError for shapes that do not fit and for targets that are not integers;
        IndexError, when the result is read, for a target out of range.

    Example:
        >>> mx.fast.cross_entropy(mx.array([[2.0, 1.0, 0.1]]), mx.array([0]))
        array([0.41703], dtype=float32)
    """

def cuda_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    shared_memory: int = 0,
) -> object:
    """A function that runs a kernel written in CUDA C++.

    source is the body of the kernel; Keel writes the signature from input_names and
    output_names, and header goes before it. Each input x has x_shape, x_strides, x_ndim and
    x_size. With ensure_row_contiguous inputs are copied into row-major order where they are
    not; shared_memory is in bytes. The function takes inputs, output_shapes, output_dtypes,
    grid, threadgroup and, if wanted, template, init_value, verbose and stream, and returns a
    list of arrays.

    Raises: RuntimeError where there is no CUDA; RuntimeError with the compiler's log, when a
        result is read, for source that does not compile.
    """

def gated_delta_update(
    q: array,
    k: array,
    v: array,
    gamma: array,
    beta: array,
    initial_state: array | None = None,
    mask: array | None = None,
    stream: StreamOrDevice = None,
) -> list[array]:
    """The gated delta rule over a sequence, as a list of the outputs and the last state.

    q and k are (batch, time, key heads, dk), v is (batch, time, value heads, dv), gamma and
    beta are (batch, time, value heads), gamma also (batch, time, value heads, dk); a group of
    value heads shares a key head. At each time the state S (batch, value heads, dv, dk),
    initial_state or zeros, becomes gamma * S, then S + beta * (v - S k) k', and the output is S
    q. Where mask (batch, time) is False, S stays and the output is 0. Outputs have the common
    dtype of q, k and v, S is float32. Yang et al., 2024.

    Raises: ValueError for shapes or dtypes that do not fit.

    Example:
        >>> q, v, beta = mx.ones((1, 3, 2, 32)), mx.ones((1, 3, 4, 32)), mx.ones((1, 3, 4))
        >>> [x.shape for x in mx.fast.gated_delta_update(q, q, v, beta, beta)]
        [(1, 3, 4, 32), (1, 4, 32, 32)]
    """

def layer_norm(
    x: array,
    weight: array | None,
    bias: array | None,
    eps: float,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Normalised rows: (x - mean) / sqrt(var + eps) * weight + bias over the last axis.

    weight and bias have the size of that axis; None leaves them out. The dtypes are floats and
    are promoted to a common one, which the result has; 16-bit floats are summed in float32. Ba,
    Kiros and Hinton, "Layer Normalization", 2016.

    Raises: ValueError for shapes that do not fit, an x without axes, and dtypes that are not
        floats.

    Example:
        >>> mx.fast.layer_norm(mx.array([[1.0, 3.0]]), None, None, 0.0)
        array([[-1, 1]], dtype=float32)
    """

def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: object = None,
) -> object:
    """A function that runs a kernel written in Metal's language.

    It can be made everywhere, so that programs which prepare such kernels can be imported, and
    fails when it is called where there is no Metal. Arguments are those of cuda_kernel;
    atomic_outputs makes outputs `device atomic<T> *`, compile_options is not looked at.

    Raises: RuntimeError when the function is called without Metal.

    Example:
        >>> kernel = mx.fast.metal_kernel("k", ["x"], ["y"], "y[0] = x[0];")
    """

def precompiled_cuda_kernel(
    *,
    name: str,
    compiled_source: bytes,
    inputs: Sequence[scalar | array],
    output_shapes: Sequence[tuple[int, ...]],
    output_dtypes: Sequence[Dtype],
    scalars: Sequence[object],
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    shared_memory: int = 0,
    init_value: float | None = None,
    ensure_row_contiguous: bool = False,
    stream: StreamOrDevice = None,
) -> list[array]:
    """Runs a CUDA kernel that is compiled already, and returns a list of its outputs.

    compiled_source is PTX or a cubin that has a kernel called name; its arguments are inputs,
    then outputs of output_shapes and output_dtypes, then scalars (bool, int and float, of
    1, 4 and 4 bytes). grid and threadgroup are in threads. init_value fills the outputs first.

    Raises: RuntimeError where there is no CUDA, and for code that cannot be loaded.
    """

def rms_norm(
    x: array, weight: array | None, eps: float, *, stream: StreamOrDevice = None
) -> array:
    """Rows divided by their root mean square: x / sqrt(mean(x * x) + eps) * weight.

    The mean is over the last axis. weight has its size; None leaves it out. The dtypes are
    floats and are promoted to a common one, which the result has; 16-bit floats are summed in
    float32. Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Raises: ValueError for shapes that do not fit, an x without axes, and dtypes that are not
        floats.

    Example:
        >>> mx.fast.rms_norm(mx.array([[3.0, 4.0]]), None, 0.0)
        array([[0.848528, 1.13137]], dtype=float32)
    """

def rope(
    a: array,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: int | array,
    freqs: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Rotary position embedding: pairs of features turned by an angle for each position.

    a is (batch, ..., positions, features). The first dims features are taken in pairs:
    neighbours if traditional, else k with k + dims / 2. At position t pair k turns by (t +
    offset) * scale * base ** (-2 * k / dims); with freqs, of shape (dims / 2), which then takes
    the place of base, by (t + offset) * scale / freqs[k]. offset is an int, or an array with
    one integer or one for each batch. Su et al., 2021.

    Raises: ValueError for less than three axes, an odd or too large dims, other dtypes, and
        unless one of base and freqs is given.

    Example:
        >>> x = mx.ones((1, 2, 4))
        >>> mx.fast.rope(x, 4, traditional=True, base=1e4, scale=1.0, offset=0)[0, 1]
        array([-0.301169, 1.38177, 0.98995, 1.00995], dtype=float32)
    """

def scaled_dot_product_attention(
    q: array,
    k: array,
    v: array,
    *,
    scale: float,
    mask: str | array | None = None,
    sinks: array | None = None,
    force_fused: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Attention: softmax(scale * q @ k.T + mask) @ v for each head.

    q is (batch, heads, n, d), k (batch, kv heads, m, d), v (batch, kv heads, m, e); heads is a
    multiple of kv heads, and the result (batch, heads, n, e). mask is None, "causal" (query i
    sees keys up to i + m - n), or an array of bools (True: seen) or of what is added to the
    scores, (batch, heads, n, m). sinks has for each head the score of one more key whose value
    is 0. force_fused changes nothing. Vaswani et al., 2017.

    Raises: ValueError for shapes that do not fit, dtypes that are not floats, and another mask.

    Example:
        >>> q, v = mx.ones((1, 1, 2, 2)), mx.array([[[[1.0], [3.0]]]])
        >>> mx.fast.scaled_dot_product_attention(q, q, v, scale=1.0, mask="causal")[0, 0, :, 0]
        array([1, 2], dtype=float32)
    """
