# keel.core.fast - functions with kernels of their own for parts of language models.

from typing import Any, Sequence

from keel.core import Dtype, StreamOrDevice, array, scalar

def cross_entropy(logits: array, targets: array, *, stream: StreamOrDevice = None) -> array: ...
def cuda_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    shared_memory: int = 0,
) -> object: ...
def gated_delta_update(
    q: array,
    k: array,
    v: array,
    gamma: array,
    beta: array,
    initial_state: array | None = None,
    mask: array | None = None,
    stream: StreamOrDevice = None,
) -> list[array]: ...
def layer_norm(
    x: array,
    weight: array | None,
    bias: array | None,
    eps: float,
    *,
    stream: StreamOrDevice = None,
) -> array: ...
def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: object = None,
) -> object: ...
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
) -> list[array]: ...
def rms_norm(
    x: array, weight: array | None, eps: float, *, stream: StreamOrDevice = None
) -> array: ...
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
) -> array: ...
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
) -> array: ...
