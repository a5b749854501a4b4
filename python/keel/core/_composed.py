"""Functions of keel.core that are composed of others."""

from keel import _core
from keel._core import array

__all__ = [
    "asarray",
    "broadcast_shapes",
    "convolve",
    "count_nonzero",
    "diff",
    "einsum_path",
    "gather_qqmm",
    "get_array_buffer_size",
    "minmax",
    "searchsorted",
    "unique",
    "vecdot",
]


def asarray(a, dtype=None, *, copy=None):
    """An array of what is given; an array of the wanted dtype is returned as it is.

    a: as for `array`. copy=True makes a copy in any case; copy=False forbids one.

    Raises ValueError when copy is False and a copy would be needed.

    Example:
        >>> mx.asarray([1, 2])
        array([1, 2], dtype=int32)
    """
    if isinstance(a, array):
        if dtype is None or a.dtype == dtype:
            return array(a) if copy else a
        if copy is False:
            raise ValueError("asarray(): another dtype needs a copy, which copy=False forbids")
        return a.astype(dtype)
    if copy is False and not hasattr(a, "__dlpack__"):
        raise ValueError("asarray(): copy is False, but the value cannot be used in place")
    if copy is False or (copy is None and dtype is None and hasattr(a, "__dlpack__") and not hasattr(a, "__array__")):
        return _core.from_dlpack(a)
    return array(a, dtype)


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to.

    Raises ValueError when they do not fit.

    Example:
        >>> mx.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
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
    """The discrete convolution of two 1-d arrays (numpy.convolve).

    mode: "full": every overlap, of size n + m - 1; "same": the middle, of the larger size; "valid":
    whole overlaps only. The dtype is the common floating point one.

    Raises ValueError for arrays that are not 1-d or are empty, and for another mode.

    Example:
        >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0]), mode="full")
        array([0, 1, 2, 3], dtype=float32)
    """
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
    """The number of elements that are not 0, as int32, over all axes or the given ones.

    Example:
        >>> mx.count_nonzero(mx.array([0, 3, 4]))
        array(2, dtype=int32)
    """
    return _core.sum(_core.not_equal(a, 0, stream=stream).astype(_core.int32), axis, keepdims, stream=stream)


def diff(a, /, n=1, axis=-1, *, stream=None):
    """The n-th difference of neighbours along an axis, which is n elements shorter.

    Raises ValueError for a negative n and for an axis out of range. bool gives bool: whether
    neighbours differ.

    Example:
        >>> mx.diff(mx.array([1, 4, 9]))
        array([3, 5], dtype=int32)
    """
    if n < 0:
        raise ValueError(f"diff(): n is {n}, but must not be negative")
    if not -a.ndim <= axis < a.ndim:
        raise ValueError(f"diff(): axis {axis} is out of range for an array of {a.ndim} axes")
    for _ in range(n):
        size = a.shape[axis]
        if size == 0:
            break
        parts = [slice(None)] * a.ndim
        parts[axis] = slice(1, None)
        high = a[tuple(parts)]
        parts[axis] = slice(None, size - 1)
        low = a[tuple(parts)]
        a = (_core.not_equal if a.dtype == _core.bool_ else _core.subtract)(high, low, stream=stream)
    return a


def minmax(a, /, axis=None, keepdims=False, *, stream=None):
    """The smallest and the largest element, over all axes or the given ones; NaN where one is.

    Example:
        >>> mx.minmax(mx.array([3, 1, 2]))
        (array(1, dtype=int32), array(3, dtype=int32))
    """
    return _core.min(a, axis, keepdims, stream=stream), _core.max(a, axis, keepdims, stream=stream)


def vecdot(a, b, /, *, axis=-1, stream=None):
    """The sum of conj(a) * b along an axis (the array API's vecdot).

    Example:
        >>> mx.vecdot(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
        array(11, dtype=float32)
    """
    return _core.sum(_core.multiply(_core.conj(a, stream=stream), b, stream=stream), axis, stream=stream)


def searchsorted(sorted_sequence, values, /, side="left", *, stream=None):
    """Where values would be put into a sorted 1-d array so that it stays sorted, as uint32.

    side: "left": before equal elements; "right": behind them.

    Raises ValueError for an array that is not 1-d and for another side.

    Example:
        >>> mx.searchsorted(mx.array([1, 3, 5]), mx.array([3, 4]))
        array([1, 2], dtype=uint32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side is {side!r}, but must be 'left' or 'right'")
    if sorted_sequence.ndim != 1:
        raise ValueError(f"searchsorted() takes a sequence of one axis, not of {sorted_sequence.ndim}")
    n = sorted_sequence.size
    before = _core.less if side == "left" else _core.less_equal
    low = _core.zeros(values.shape, _core.uint32, stream=stream)
    if n == 0:
        return low
    high = _core.full(values.shape, n, _core.uint32, stream=stream)
    for _ in range(n.bit_length()):  # bisection of all values at once
        middle = (low + high) // 2
        at = _core.take(sorted_sequence, _core.minimum(middle, n - 1), stream=stream)
        further = _core.logical_and(low < high, before(at, values, stream=stream), stream=stream)
        low = _core.where(further, middle + 1, low, stream=stream)
        high = _core.where(further, high, middle, stream=stream)
    return low


def unique(
    a, /, size, return_index=False, return_inverse=False, return_counts=False, fill_value=None, *, stream=None
):
    """The sorted distinct elements of the flattened array: the first `size` of them.

    The result has `size` elements: arrays have shapes that are known before their values, so it is
    cut, or filled with fill_value (default: the smallest element). return_index: where each stands
    first; return_inverse: of each element of `a`, its place among the distinct ones, in the shape
    of `a`; return_counts: how often each one stands there.

    Raises ValueError for a size that is negative.

    Example:
        >>> mx.unique(mx.array([3, 1, 3]), size=2)
        array([1, 3], dtype=int32)
    """
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
    first = _core.minimum(searchsorted(rank, places), n - 1)
    found = places <= rank[n - 1]
    fill = ordered[0] if fill_value is None else array(fill_value).astype(flat.dtype)
    out = [_core.where(found, _core.take(ordered, first), fill, stream=stream)]
    if return_index:
        out.append(_core.take(order, _core.where(found, first, 0)))
    if return_inverse:
        inverse = _core.put_along_axis(_core.zeros((n,), _core.int32), order, rank, 0)
        out.append(inverse.astype(_core.uint32).reshape(a.shape))
    if return_counts:
        behind = searchsorted(rank, places, "right", stream=stream)
        out.append(_core.where(found, behind - first, 0, stream=stream))
    return out[0] if len(out) == 1 else tuple(out)


def einsum_path(subscripts, *operands):
    """The order in which einsum would contract its operands, and a description of the cost.

    Example:
        >>> mx.einsum_path("ij,jk->ik", mx.ones((2, 3)), mx.ones((3, 4)))[0]
        [(0, 1)]
    """
    left, _, right = subscripts.replace(" ", "").partition("->")
    terms = [set(t) - {"."} for t in left.split(",")]
    if len(terms) != len(operands):
        raise ValueError(f"einsum_path(): {len(terms)} terms for {len(operands)} operands")
    size = {}
    for term, x in zip(left.split(","), operands):
        if "." not in term:
            size.update(zip(term, x.shape))
    result = set(right)
    path, cost = [], 0
    while len(terms) > 2:
        best = None
        for i in range(len(terms)):
            for j in range(i + 1, len(terms)):
                both = terms[i] | terms[j]
                rest = set().union(result, *(t for k, t in enumerate(terms) if k not in (i, j)))
                work = 1
                for letter in both:
                    work *= size.get(letter, 1)
                if best is None or work < best[0]:
                    best = (work, i, j, both & rest)
        work, i, j, kept = best
        cost += work
        path.append((i, j))
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [kept]
    path.append(tuple(range(len(terms))))
    return path, f"contracts {len(operands)} operands in {len(path)} steps"


def gather_qqmm(
    x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None, mode="nvfp4",
    global_scale_x=None, global_scale_w=None, *, sorted_indices=False, stream=None,
):
    """Products of chosen matrices, both sides quantized. It is not implemented.

    Raises RuntimeError.
    """
    raise RuntimeError("gather_qqmm() is not implemented; gather_qmm takes activations as they are")


def get_array_buffer_size(*args):
    """The bytes of memory that the arrays of trees hold, each buffer counted once.

    Example:
        >>> mx.get_array_buffer_size(mx.zeros((4,)))
        16
    """
    from keel.core._transforms import _leaves

    return sum(a.nbytes for a in {id(x): x for x in _leaves(args, [])}.values())
