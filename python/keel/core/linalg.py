"""Linear algebra: factors, solutions, eigenvalues, norms and cross products."""

import math as _math

from keel import _core as _c

globals().update({k: v for k, v in vars(_c._linalg).items() if not k.startswith("_")})


def _vector_norm(a, ord, axis, keepdims, stream):
    if ord is None or ord == 2:
        squares = _c.square(_c.abs(a, stream=stream), stream=stream)
        return _c.sqrt(_c.sum(squares, axis, keepdims, stream=stream), stream=stream)
    size = _c.abs(a, stream=stream)
    if ord == _math.inf:
        return _c.max(size, axis, keepdims, stream=stream)
    if ord == -_math.inf:
        return _c.min(size, axis, keepdims, stream=stream)
    if ord == 0:
        there = _c.not_equal(a, 0, stream=stream).astype(size.dtype, stream)
        return _c.sum(there, axis, keepdims, stream=stream)
    if ord == 1:
        return _c.sum(size, axis, keepdims, stream=stream)
    powers = _c.sum(_c.power(size, ord, stream=stream), axis, keepdims, stream=stream)
    return _c.power(powers, 1 / ord, stream=stream)


def _singular_norm(a, ord, axes, keepdims, stream):
    """The sum of the singular values ("nuc"), the largest (2) or the smallest one (-2)."""
    matrices = _c.moveaxis(a, axes[0], -1, stream=stream)
    matrices = _c.moveaxis(matrices, axes[1] - (axes[0] < axes[1]), -1, stream=stream)
    values = _c._linalg.svd(matrices, False, stream=stream)
    reduce = {"nuc": _c.sum, 2: _c.max, -2: _c.min}[ord]
    out = reduce(values, -1, stream=stream)
    return _c.expand_dims(out, axes, stream=stream) if keepdims else out


def _matrix_norm(a, ord, axis, keepdims, stream):
    row, column = (x + a.ndim if x < 0 else x for x in axis)
    if ord in ("f", "fro"):
        return _vector_norm(a, 2, axis, keepdims, stream)
    if ord in ("nuc", 2, -2):
        return _singular_norm(a, ord, (row, column), keepdims, stream)
    if ord not in (1, -1, _math.inf, -_math.inf):
        raise ValueError(f"norm(): ord is {ord!r}, which is not defined for matrices")
    along, over = (row, column) if abs(ord) == 1 else (column, row)
    sums = _c.sum(_c.abs(a, stream=stream), along, True, stream=stream)
    out = (_c.max if ord > 0 else _c.min)(sums, over, True, stream=stream)
    return out if keepdims else _c.squeeze(out, (row, column), stream=stream)


def norm(a, /, ord=None, axis=None, keepdims=False, *, stream=None):
    if not isinstance(a, _c.array):
        raise TypeError(f"norm() takes an array, not {type(a).__name__}")
    if not (a.dtype._name.startswith("complex") or "float" in a.dtype._name):
        a = a.astype(_c.float32, stream)
    axes = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if ord is None:
        return _vector_norm(a, None, axes, keepdims, stream)
    if isinstance(ord, _c.array):
        raise TypeError("norm(): ord is an array, but must be a number, 'fro' or 'nuc'")
    if axes is None:
        axes = tuple(range(a.ndim))
    if isinstance(ord, str):
        if ord not in ("f", "fro", "nuc"):
            raise ValueError(f"norm(): ord is {ord!r}, but must be a number, 'fro' or 'nuc'")
        if len(axes) != 2:
            raise ValueError(f"norm(): ord {ord!r} is defined for matrices, but {len(axes)} axes were given")
    if len(axes) == 1:
        return _vector_norm(a, ord, axes, keepdims, stream)
    if len(axes) != 2:
        raise ValueError(f"norm(): ord {ord!r} takes one axis or two, not {len(axes)}")
    for x in axes:
        if not -a.ndim <= x < a.ndim:
            _c._axis_error("norm", x, a.ndim)
    if axes[0] % a.ndim == axes[1] % a.ndim:
        raise _c.AxisError(f"norm(): the axes {axes} are the same")
    return _matrix_norm(a, ord, axes, keepdims, stream)


def cross(a, b, axis=-1, *, stream=None):
    a, b = (x if isinstance(x, _c.array) else _c.array(x) for x in (a, b))
    parts = []
    for x in (a, b):
        if not -x.ndim <= axis < x.ndim:
            _c._axis_error("cross", axis, x.ndim)
        n = x.shape[axis]
        if n not in (2, 3):
            raise ValueError(f"cross(): the vectors have {n} components, but must have 2 or 3")
        three = _c.split(x, n, axis, stream=stream)
        if n == 2:
            three.append(_c.zeros_like(three[0], stream=stream))
        parts.append(three)
    (a0, a1, a2), (b0, b1, b2) = parts
    times, minus = _c.multiply, _c.subtract
    rows = [
        minus(times(p, q, stream=stream), times(r, s, stream=stream), stream=stream)
        for p, q, r, s in ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    ]
    return _c.concatenate(rows, axis, stream=stream)
