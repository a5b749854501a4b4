"""Operations of models that are computed in one pass, and kernels that the caller writes."""

from keel import _core as _c
from keel._core import array as _array

globals().update({k: v for k, v in vars(_c._fast).items() if not k.startswith("_")})


def _is_integer(dtype):
    return "int" in dtype._name


def _is_float(dtype):
    return "float" in dtype._name


def _as_array(x, name, what):
    if isinstance(x, _array) or hasattr(x, "__mlx_array__"):
        return _c.array(x)
    if isinstance(x, (int, float, list, tuple)) or hasattr(x, "__array__"):
        return _c.array(x)
    raise TypeError(f"{name}(): argument '{what}' must be an array, not {type(x).__name__}")


def cross_entropy(logits, targets, *, stream=None):
    logits = _as_array(logits, "cross_entropy", "logits")
    targets = _as_array(targets, "cross_entropy", "targets")
    if not _is_float(logits.dtype):
        raise ValueError(f"cross_entropy(): logits are {logits.dtype._name}, but must be floats")
    if not _is_integer(targets.dtype):
        raise ValueError(f"cross_entropy(): targets are {targets.dtype._name}, but must be integers")
    if not logits.ndim or _c._unread_shape(logits)[:-1] != _c._unread_shape(targets):
        raise ValueError(
            f"cross_entropy(): targets have the shape {targets.shape}, but must have that of the logits "
            f"{logits.shape} without its last axis"
        )
    logits = logits.astype(_c.float32, stream)
    chosen = _c.take_along_axis(logits, _c.expand_dims(targets, -1, stream=stream), -1, stream=stream)
    total = _c.logsumexp(logits, -1, stream=stream)
    return _c.subtract(total, _c.squeeze(chosen, -1, stream=stream), stream=stream)


def gated_delta_update(q, k, v, gamma, beta, initial_state=None, mask=None, stream=None):
    name = "gated_delta_update"
    q, k, v = _as_array(q, name, "q"), _as_array(k, name, "k"), _as_array(v, name, "v")
    gamma, beta = _as_array(gamma, name, "gamma"), _as_array(beta, name, "beta")
    for what, x in (("q", q), ("k", k), ("v", v), ("gamma", gamma), ("beta", beta)):
        if not _is_float(x.dtype):
            raise ValueError(f"{name}(): {what} is {x.dtype._name}, but must be a float")
    if q.ndim != 4 or k.shape != q.shape:
        raise ValueError(f"{name}(): q and k have the shapes {q.shape} and {k.shape}, but must have four equal axes")
    batch, time, key_heads, dk = q.shape
    if v.ndim != 4 or v.shape[:2] != (batch, time) or not key_heads or v.shape[2] % key_heads:
        raise ValueError(
            f"{name}(): v has the shape {v.shape}, but must be ({batch}, {time}, a multiple of {key_heads}, any)"
        )
    heads, dv = v.shape[2:]
    if gamma.shape not in ((batch, time, heads), (batch, time, heads, dk)):
        raise ValueError(f"{name}(): gamma has the shape {gamma.shape}, but must be ({batch}, {time}, {heads}[, {dk}])")
    if beta.shape != (batch, time, heads):
        raise ValueError(f"{name}(): beta has the shape {beta.shape}, but must be ({batch}, {time}, {heads})")
    if mask is not None and tuple(mask.shape) != (batch, time):
        raise ValueError(f"{name}(): mask has the shape {mask.shape}, but must be ({batch}, {time})")
    if not time:
        raise ValueError(f"{name}(): the sequence has no element")
    shape = (batch, heads, dv, dk)
    if initial_state is None:
        state = _c.zeros(shape, _c.float32, stream=stream)
    elif tuple(initial_state.shape) != shape:
        raise ValueError(f"{name}(): initial_state has the shape {initial_state.shape}, but must be {shape}")
    else:
        state = initial_state.astype(_c.float32, stream)
    dtype = _c.add(_c.add(_c.zeros((), q.dtype), _c.zeros((), k.dtype)), _c.zeros((), v.dtype)).dtype

    def steps(x, *reshaped):
        """The slices of an input along time, in float32, as (batch, heads, ...)."""
        x = _c.moveaxis(x.astype(_c.float32, stream), 1, 0, stream=stream)
        if x.shape[2] != heads:
            x = _c.repeat(x, heads // key_heads, 2, stream=stream)
        return [s.reshape(*reshaped, stream=stream) for s in _c.split(x, time, 0, stream=stream)]

    def times(x, y):
        return _c.multiply(x, y, stream=stream)

    qs, ks = steps(q, batch, heads, dk, 1), steps(k, batch, heads, dk, 1)
    vs, betas = steps(v, batch, heads, dv, 1), steps(beta, batch, heads, 1, 1)
    gammas = steps(gamma, batch, heads, 1, -1)
    masks = None
    if mask is not None:
        masks = _c.split(_c.not_equal(mask, 0, stream=stream), time, 1, stream=stream)
        masks = [m.reshape(batch, 1, 1, 1, stream=stream) for m in masks]
    outputs = []
    for t in range(time):
        new = times(state, gammas[t])
        error = _c.subtract(vs[t], _c.matmul(new, ks[t], stream=stream), stream=stream)
        row = ks[t].reshape(batch, heads, 1, dk, stream=stream)
        new = _c.add(new, times(times(error, betas[t]), row), stream=stream)
        out = _c.matmul(new, qs[t], stream=stream)
        if masks is not None:
            new = _c.where(masks[t], new, state, stream=stream)
            out = _c.where(masks[t], out, 0, stream=stream)
        state = new
        outputs.append(out.reshape(batch, 1, heads, dv, stream=stream))
    return [_c.concatenate(outputs, 1, stream=stream).astype(dtype, stream), state]


def metal_kernel(
    name, input_names, output_names, source, header="", ensure_row_contiguous=True, atomic_outputs=False,
    compile_options=None,
):
    for what, text in (("name", name), ("source", source), ("header", header)):
        if not isinstance(text, str):
            raise TypeError(f"metal_kernel(): argument '{what}' must be a str, not {type(text).__name__}")

    def kernel(
        *, inputs, output_shapes, output_dtypes, grid, threadgroup, template=None, init_value=None, verbose=False,
        stream=None,
    ):
        if not _c._metal_is_available():
            raise RuntimeError(f"metal_kernel(): the kernel '{name}' needs Metal, which is not available")
        made = _c._metal_kernel(
            name, list(input_names), list(output_names), source, header, bool(ensure_row_contiguous), bool(atomic_outputs)
        )
        return _c._metal_kernel_apply(
            made,
            [x if isinstance(x, _array) else _array(x) for x in inputs],
            _outputs("metal_kernel", output_shapes, output_dtypes),
            _three("metal_kernel", grid, "grid"),
            _three("metal_kernel", threadgroup, "threadgroup"),
            list(template or []),
            None if init_value is None else float(init_value),
            bool(verbose),
            stream,
        )

    return kernel


def _three(function, values, what):
    values = [int(x) for x in values]
    if len(values) != 3:
        raise ValueError(f"{function}(): {what} has {len(values)} numbers, but must have 3")
    return tuple(values)


def _outputs(function, shapes, dtypes):
    if len(shapes) != len(dtypes):
        raise ValueError(f"{function}(): {len(shapes)} output_shapes, but {len(dtypes)} output_dtypes")
    return [(tuple(s), d) for s, d in zip(shapes, dtypes)]


def cuda_kernel(
    name, input_names, output_names, source, header="", ensure_row_contiguous=True, shared_memory=0
):
    made = _c._cuda_kernel(
        name, list(input_names), list(output_names), source, header, bool(ensure_row_contiguous), shared_memory
    )

    def kernel(
        *, inputs, output_shapes, output_dtypes, grid, threadgroup, template=None, init_value=None, verbose=False,
        stream=None,
    ):
        if not _c._cuda_is_available():
            raise RuntimeError(f"cuda_kernel(): the kernel '{name}' needs CUDA, which is not available")
        return _c._cuda_kernel_apply(
            made,
            [x if isinstance(x, _array) else _array(x) for x in inputs],
            _outputs("cuda_kernel", output_shapes, output_dtypes),
            _three("cuda_kernel", grid, "grid"),
            _three("cuda_kernel", threadgroup, "threadgroup"),
            list(template or []),
            None if init_value is None else float(init_value),
            bool(verbose),
            stream,
        )

    return kernel


def precompiled_cuda_kernel(
    *, name, compiled_source, inputs, output_shapes, output_dtypes, scalars, grid, threadgroup, shared_memory=0,
    init_value=None, ensure_row_contiguous=False, stream=None,
):
    if not _c._cuda_is_available():
        raise RuntimeError(f"precompiled_cuda_kernel(): the kernel '{name}' needs CUDA, which is not available")
    return _c._cuda_kernel_compiled(
        name,
        compiled_source,
        [x if isinstance(x, _array) else _array(x) for x in inputs],
        _outputs("precompiled_cuda_kernel", output_shapes, output_dtypes),
        list(scalars),
        _three("precompiled_cuda_kernel", grid, "grid"),
        _three("precompiled_cuda_kernel", threadgroup, "threadgroup"),
        shared_memory,
        None if init_value is None else float(init_value),
        bool(ensure_row_contiguous),
        stream,
    )
