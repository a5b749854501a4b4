"""Functions of keel.core that are composed of others."""

from keel import _core
from keel._core import Dtype, array
from keel.core._arguments import need_arrays, need_int

__all__ = [
    "asarray",
    "broadcast_shapes",
    "convolve",
    "count_nonzero",
    "diff",
    "gather_qqmm",
    "get_array_buffer_size",
    "minmax",
    "searchsorted",
    "unique",
    "vecdot",
]


_HAS_NAN = (_core.float16, _core.bfloat16, _core.float32, _core.float64, _core.complex64)


def asarray(a, dtype=None, *, copy=None):
    if dtype is not None and not isinstance(dtype, Dtype):
        raise TypeError(f"asarray(): argument 'dtype' is a {type(dtype).__name__}, but must be a Dtype, or None")
    if isinstance(a, array):
        if dtype is None or a.dtype == dtype:
            return array(a) if copy else a
        if copy is False:
            raise ValueError("asarray(): another dtype needs a copy, which copy=False forbids")
        return a.astype(dtype)
    if copy is False:
        if not hasattr(a, "__dlpack__"):
            raise ValueError("asarray(): copy is False, but the value cannot be used in place")
        shared = _core.from_dlpack(a, copy=False)
        wanted = dtype or (_core.float32 if shared.dtype == _core.float64 else shared.dtype)  # as with a copy
        if shared.dtype != wanted:
            raise ValueError(f"asarray(): {shared.dtype} becomes {wanted} only by a copy, which copy=False forbids")
        return shared
    if copy is None and dtype is None and hasattr(a, "__dlpack__") and not hasattr(a, "__array__"):
        return _core.from_dlpack(a)
    return array(a, dtype)


def broadcast_shapes(*shapes):
    out = []
    for shape in shapes:
        shape = list(shape)
        n = max(len(out), len(shape))
        a, b = [1] * (n - len(out)) + out, [1] * (n - len(shape)) + shape
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y and 1 not in (x, y):
                raise ValueError(f"broadcast_shapes(): shapes {shapes} do not fit at axis {i - n}: {x} and {y}")
        out = [y if x == 1 else x for x, y in zip(a, b)]
    return tuple(out)


def convolve(a, v, /, mode="full", *, stream=None):
    need_arrays("convolve", a=a, v=v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"convolve() takes arrays of one axis, not of {a.ndim} and {v.ndim}")
    if not a.size or not v.size:
        raise ValueError("convolve() takes arrays with elements")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolve(): mode is {mode!r}, but must be 'full', 'same' or 'valid'")
    if v.size > a.size:
        a, v = v, a
    n, m = a.size, v.size
    low, high = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    out = _core.conv_general(
        a.reshape(1, n, 1), v.reshape(1, m, 1), padding=([low], [high]), flip=True, stream=stream
    )
    return out.reshape(-1)


def count_nonzero(a, /, *, axis=None, keepdims=False, stream=None):
    a = a if isinstance(a, _core.array) else _core.array(a)
    total = _core.sum(a.astype(_core.bool_, stream=stream), axis, keepdims, stream=stream)
    return total.astype(_core.int32, stream=stream)  # the sum of no axes stays bool


def diff(a, /, n=1, axis=-1, *, stream=None):
    need_arrays("diff", a=a)
    need_int("diff", n=n, axis=axis)
    if n < 0:
        raise ValueError(f"diff(): n is {n}, but must not be negative")
    if not -a.ndim <= axis < a.ndim:
        _core._axis_error("diff", axis, a.ndim)
    for _ in range(n):
        if not _core._is_shapeless(a) and a.shape[axis] == 0:
            break
        parts = [slice(None)] * a.ndim
        parts[axis] = slice(1, None)
        high = a[tuple(parts)]
        parts[axis] = slice(None, -1)
        low = a[tuple(parts)]
        a = (_core.not_equal if a.dtype == _core.bool_ else _core.subtract)(high, low, stream=stream)
    return a


def minmax(a, /, axis=None, keepdims=False, *, stream=None):
    return _core.min(a, axis, keepdims, stream=stream), _core.max(a, axis, keepdims, stream=stream)


def vecdot(a, b, /, axis=-1, *, stream=None):
    need_arrays("vecdot", a=a, b=b)
    for x in (a, b):
        if not x.ndim:
            raise ValueError("vecdot() takes arrays of one axis or more, not a scalar")
        if not -x.ndim <= axis < x.ndim:
            _core._axis_error("vecdot", axis, x.ndim)
    if not (_core._is_shapeless(a) or _core._is_shapeless(b)) and a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot() of shapes {tuple(a.shape)} and {tuple(b.shape)}: axis {axis} has one extent in both")
    return _core.sum(_core.multiply(_core.conj(a, stream=stream), b, stream=stream), axis, stream=stream)


def searchsorted(sorted_sequence, values, /, side="left", *, stream=None):
    need_arrays("searchsorted", sorted_sequence=sorted_sequence, values=values)
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side is {side!r}, but must be 'left' or 'right'")
    if sorted_sequence.ndim != 1:
        raise ValueError(f"searchsorted() takes a sequence of one axis, not of {sorted_sequence.ndim}")

    def before(at, values):  # in the order of sort, in which NaN comes last
        plain = (_core.less if side == "left" else _core.less_equal)(at, values, stream=stream)
        if values.dtype not in _HAS_NAN:
            return plain
        last = _core.isnan(values, stream=stream)
        if side == "left":
            last = _core.logical_and(last, _core.logical_not(_core.isnan(at, stream=stream), stream=stream), stream=stream)
        return _core.logical_or(plain, last, stream=stream)

    low = _core.zeros_like(values, _core.uint32, stream=stream)
    if _core._is_shapeless(sorted_sequence):  # a replay may have any number of elements
        n = _core.sum(_core.ones_like(sorted_sequence, _core.uint32, stream=stream), stream=stream)
        sorted_sequence = _core.concatenate([sorted_sequence, _core.zeros((1,), sorted_sequence.dtype)], stream=stream)
        steps, last = 32, n
    else:
        n = sorted_sequence.size
        if n == 0:
            return low
        steps, last = n.bit_length(), n - 1
    high = _core.full_like(values, n, _core.uint32, stream=stream)
    for _ in range(steps):  # bisection of all values at once
        middle = (low + high) // 2
        at = _core.take(sorted_sequence, _core.minimum(middle, last), stream=stream)
        further = _core.logical_and(low < high, before(at, values), stream=stream)
        low = _core.where(further, middle + 1, low, stream=stream)
        high = _core.where(further, high, middle, stream=stream)
    return low


def unique(
    a, /, size, return_index=False, return_inverse=False, return_counts=False, fill_value=None, *, stream=None
):
    need_arrays("unique", a=a)
    need_int("unique", size=size)
    if size < 0:
        raise ValueError(f"unique(): size is {size}, but must not be negative")
    flat = a.reshape(-1)
    n = flat.size
    if n == 0:
        raise ValueError("unique() takes an array with elements")
    order = _core.argsort(flat, stream=stream)
    ordered = _core.take(flat, order, stream=stream)
    new = _core.concatenate([_core.ones((1,), _core.bool_), ordered[1:] != ordered[: n - 1]], stream=stream)
    rank = _core.cumsum(new.astype(_core.int32), stream=stream) - 1  # of each sorted element
    places = _core.arange(size, dtype=_core.int32)
    # The place of the first of each rank; n where there is none. The others write to the last place.
    at = _core.where(new, _core.minimum(rank, size + 1), size + 1)
    starts = _core.put_along_axis(
        _core.full((size + 2,), n, _core.int32), at, _core.arange(n, dtype=_core.int32), 0, stream=stream
    )
    first = _core.minimum(starts[:size], n - 1)
    found = places <= rank[n - 1]
    fill = ordered[0] if fill_value is None else _core.full((), fill_value, flat.dtype)
    out = [_core.where(found, _core.take(ordered, first), fill, stream=stream)]
    if return_index:
        out.append(_core.take(order, _core.where(found, first, 0)))
    if return_inverse:
        inverse = _core.put_along_axis(_core.zeros((n,), _core.int32), order, rank, 0)
        out.append(inverse.astype(_core.uint32).reshape(a.shape))
    if return_counts:
        counts = _core.where(found, starts[1 : size + 1] - first, 0, stream=stream)
        out.append(counts.astype(_core.int32, stream=stream))
    return out[0] if len(out) == 1 else tuple(out)


def gather_qqmm(
    x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None, mode="nvfp4",
    global_scale_x=None, global_scale_w=None, *, sorted_indices=False, stream=None,
):
    if mode == "affine":
        raise ValueError("gather_qqmm(): mode is 'affine', but must be one whose scales need no biases, as 'nvfp4'")
    if (global_scale_x is None) != (global_scale_w is None):
        raise ValueError("gather_qqmm(): both global scales are given, or none")

    def whole(packed, scale, global_scale):
        return _core.dequantize(
            packed, scale, None, group_size, bits, mode, global_scale, x.dtype, stream=stream
        )

    def rounded(a, global_scale):
        parts = _core.quantize(a, group_size, bits, mode, global_scale=global_scale, stream=stream)
        return whole(*parts, global_scale)

    right = rounded(w, global_scale_w) if scales is None else whole(w, scales, global_scale_w)
    return _core.gather_mm(
        rounded(x, global_scale_x), _core.swapaxes(right, -1, -2, stream=stream), lhs_indices, rhs_indices,
        sorted_indices=sorted_indices, stream=stream,
    )


def get_array_buffer_size(*args):
    from keel.core._transforms import _leaves

    return sum(a.nbytes for a in {id(x): x for x in _leaves(args, [])}.values())
