# keel.core - arrays and what is computed with them, under the names and signatures of mlx.core.
# This file is the source of the signatures and of the texts that help() shows: the build reads it
# and makes the tables of the extension module from each `def`.

import builtins
import enum
from pathlib import Path
from types import ModuleType
from typing import (
    Any,
    BinaryIO,
    Callable,
    Iterator,
    Literal,
    ParamSpec,
    Protocol,
    Sequence,
    TypeAlias,
    TypeVar,
    overload,
)

from . import cuda as cuda
from . import distributed as distributed
from . import fast as fast
from . import fft as fft
from . import linalg as linalg
from . import metal as metal
from . import random as random

P = ParamSpec("P")
R = TypeVar("R")

class DLPackCompatible(Protocol):
    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[Any, ...]: ...

scalar: TypeAlias = bool | int | float | complex
StreamOrDevice: TypeAlias = Stream | ThreadLocalStream | Device | DeviceType | None

# Constants

__version__: str
e: float
euler_gamma: float
inf: float
nan: float
newaxis: None
pi: float
cpu: DeviceType
gpu: DeviceType
bool_: Dtype
uint8: Dtype
uint16: Dtype
uint32: Dtype
uint64: Dtype
int8: Dtype
int16: Dtype
int32: Dtype
int64: Dtype
float16: Dtype
bfloat16: Dtype
float32: Dtype
float64: Dtype
complex64: Dtype
complexfloating: DtypeCategory
floating: DtypeCategory
generic: DtypeCategory
inexact: DtypeCategory
integer: DtypeCategory
number: DtypeCategory
signedinteger: DtypeCategory
unsignedinteger: DtypeCategory

# Functions

def abs(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Absolute value of each element.

    a is an array or a scalar of any shape. The result has its shape and dtype; for complex64 it
    is the modulus, in float32. The smallest number of a signed integer type has no positive
    counterpart and stays.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.abs(mx.array([-1.5, 0.0, 2.0]))
        array([1.5, 0, 2], dtype=float32)
        >>> mx.abs(mx.array([3 + 4j]))
        array([5], dtype=float32)
    """

def add(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Sum of a and b, element by element.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    wrap; for bools it is logical or.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.add(mx.array([1, 2, 3]), 10)
        array([11, 12, 13], dtype=int32)
        >>> mx.add(mx.array([1, 2]), mx.array([0.5, 0.5]))
        array([1.5, 2.5], dtype=float32)
    """

def addmm(
    c: array,
    a: array,
    b: array,
    /,
    alpha: float = 1.0,
    beta: float = 1.0,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """alpha * (a @ b) + beta * c.

    a and b are as in matmul; c broadcasts to the shape of their product. The operands are
    promoted to a common float dtype or complex64. Where beta is 0, c is not read.

    Raises: ValueError as matmul does, and when c does not broadcast.

    Example:
        >>> mx.addmm(mx.array(1.0), mx.array([[1.0, 2.0]]), mx.array([[3.0], [4.0]]), alpha=2.0)
        array([[23]], dtype=float32)
    """

def all(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Whether all elements along the axes are true, that is not 0.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. The result is bool; of no
    elements it is True. NaN is true.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.all(mx.array([[True, False], [True, True]]), axis=1)
        array([False, True], dtype=bool)
    """

def allclose(
    a: array,
    b: array,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    *,
    equal_nan: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Whether all elements of a and b are close, as isclose tests it.

    The shapes broadcast; rtol and atol are the relative and the absolute tolerance. With
    equal_nan, NaN is close to NaN. The result is a bool array without axes.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0 + 1e-7, 2.0]))
        array(True, dtype=bool)
    """

def any(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Whether at least one element along the axes is true, that is not 0.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. The result is bool; of no
    elements it is False. NaN is true.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.any(mx.array([[True, False], [False, False]]), axis=1)
        array([True, False], dtype=bool)
    """

@overload
def arange(
    start: int | float,
    stop: int | float | None,
    step: int | float | None,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Evenly spaced numbers start, start + step, ... that lie before stop.

    With one number the sequence starts at 0; step is 1 when it is left out or None, and may be
    negative. dtype None: int32 when all numbers given are ints, else float32; integer dtypes
    first drop the fractions of start and step. The result has one axis and is empty when stop
    does not lie ahead.

    Raises: ValueError for a step of 0, NaN, an infinite start or stop, dtype bool, and too many
        elements.

    Example:
        >>> mx.arange(4)
        array([0, 1, 2, 3], dtype=int32)
        >>> mx.arange(1, 10, 3)
        array([1, 4, 7], dtype=int32)
        >>> mx.arange(0, 1, 0.25)
        array([0, 0.25, 0.5, 0.75], dtype=float32)
    """

@overload
def arange(
    stop: int | float,
    step: int | float | None = None,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array: ...
def arccos(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse cosine of each element, an angle from 0 to pi in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Real numbers outside of [-1,
    1] give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arccos(mx.array([1.0, 0.0, -1.0]))
        array([0, 1.5708, 3.14159], dtype=float32)
    """

def arccosh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse hyperbolic cosine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Real numbers below 1 give
    NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arccosh(mx.array([1.0, 2.0]))
        array([0, 1.31696], dtype=float32)
    """

def arcsin(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse sine of each element, an angle from -pi/2 to pi/2 in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Real numbers outside of [-1,
    1] give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arcsin(mx.array([0.0, 0.5, 1.0]))
        array([0, 0.523599, 1.5708], dtype=float32)
    """

def arcsinh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse hyperbolic sine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arcsinh(mx.array([0.0, 1.0]))
        array([0, 0.881374], dtype=float32)
    """

def arctan(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse tangent of each element, an angle from -pi/2 to pi/2 in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arctan(mx.array([0.0, 1.0]))
        array([0, 0.785398], dtype=float32)
    """

def arctan2(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """Angle of the point (b, a), from -pi to pi in radians.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are computed in float32. The signs of both operands choose the quadrant.

    Raises: ValueError for complex64, and for shapes that do not broadcast.

    Example:
        >>> mx.arctan2(mx.array([1.0, -1.0]), mx.array([1.0, -1.0]))
        array([0.785398, -2.35619], dtype=float32)
    """

def arctanh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse hyperbolic tangent of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 1 and -1 give infinities;
    other real numbers outside of (-1, 1) give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.arctanh(mx.array([0.0, 0.5]))
        array([0, 0.549306], dtype=float32)
    """

def argmax(
    a: array,
    /,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Position of the largest element along an axis, in uint32.

    axis None takes a as flat and gives the row-major position. With keepdims the axis stays
    with extent 1. Of equal elements the first counts; a NaN counts as the largest.

    Raises: ValueError for an axis that a does not have, and for no elements.

    Example:
        >>> mx.argmax(mx.array([[1, 5, 2], [7, 3, 7]]), axis=1)
        array([1, 0], dtype=uint32)
    """

def argmin(
    a: array,
    /,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Position of the smallest element along an axis, in uint32.

    axis None takes a as flat and gives the row-major position. With keepdims the axis stays
    with extent 1. Of equal elements the first counts; a NaN counts as the smallest.

    Raises: ValueError for an axis that a does not have, and for no elements.

    Example:
        >>> mx.argmin(mx.array([[1, 5, 2], [7, 3, 7]]), axis=1)
        array([0, 1], dtype=uint32)
    """

def argpartition(
    a: array, /, kth: int, axis: int | None = -1, *, stream: StreamOrDevice = None
) -> array:
    """Positions of the elements in an order that partition would give, in uint32.

    The element at position kth of the result is the one that sorting would put there; what is
    before it is not larger, what is behind it is not smaller. A negative kth counts from the
    end. axis None takes all elements, flat.

    Raises: ValueError for a kth outside of the axis, and for an axis that a does not have.

    Example:
        >>> mx.argpartition(mx.array([5, 1, 4, 2]), 1)[1]
        array(3, dtype=uint32)
    """

def argsort(a: array, /, axis: int | None = -1, *, stream: StreamOrDevice = None) -> array:
    """Positions of the elements in ascending order along an axis, in uint32.

    axis None takes all elements, flat. NaN counts as larger than every number, and equal
    elements keep their order. take_along_axis with these positions sorts a.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.argsort(mx.array([30, 10, 20]))
        array([1, 2, 0], dtype=uint32)
    """

def array_equal(
    a: scalar | array, b: scalar | array, equal_nan: bool = False, stream: StreamOrDevice = None
) -> array:
    """Whether a and b have the same shape and equal elements.

    a and b are arrays or scalars; their dtypes are promoted before they are compared. With
    equal_nan, NaN is equal to NaN. The result is a bool array without axes; other shapes give
    False.

    Raises: TypeError when an operand is no array and no number.

    Example:
        >>> mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0]))
        array(True, dtype=bool)
    """

def as_strided(
    a: array,
    /,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """A view of a with the shape, steps and beginning that are given.

    Element (i, j, ...) is element offset + i * strides[0] + j * strides[1] + ... of a in
    row-major order. shape None keeps that of a, strides None are those of a row-major array.
    Strides may be 0 or negative.

    Raises: ValueError when an element would lie outside of a, or there is not one stride for
        each axis.

    Example:
        >>> mx.as_strided(mx.array([1, 2, 3, 4]), (3, 2), (1, 1))
        array([[1, 2],
               [2, 3],
               [3, 4]], dtype=int32)
    """

def asarray(
    a: scalar | array | Sequence[Any] | DLPackCompatible,
    dtype: Dtype | None = None,
    *,
    copy: bool | None = None,
) -> array:
    """a as an array, without a copy where that is possible.

    a is a scalar, an array, a (nested) sequence of numbers, or an object with DLPack or a
    buffer, such as a NumPy array. dtype None keeps that of a. copy True always copies, False
    never (then a copy that is needed is an error), None copies where it must.

    Raises: ValueError when a copy is needed but copy is False, and for sequences of uneven
        length; TypeError for objects that are none of these.

    Example:
        >>> mx.asarray([1, 2], dtype=mx.float32)
        array([1, 2], dtype=float32)
    """

def astype(a: array, dtype: Dtype, /, *, stream: StreamOrDevice = None) -> array:
    """a converted to another dtype.

    Floats become integers by dropping the fraction; numbers beyond the range become the nearest
    end of it, and NaN becomes 0. To bool: whether the element is not 0. From complex64 the real
    part stays. Rounding is to nearest even. The shape stays.

    Raises: TypeError when dtype is no Dtype.

    Example:
        >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
        array([1, -1], dtype=int32)
    """

def async_eval(*args: Any) -> None: ...
def atleast_1d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least one axis.

    An array without axes gets one of extent 1; others stay. One argument gives an array,
    several give a list.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.atleast_1d(mx.array(5))
        array([5], dtype=int32)
    """

def atleast_2d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least two axes.

    Axes of extent 1 are put in front: (n) becomes (1, n). One argument gives an array, several
    give a list.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.atleast_2d(mx.array([1, 2]))
        array([[1, 2]], dtype=int32)
    """

def atleast_3d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least three axes.

    (n) becomes (1, n, 1) and (n, m) becomes (n, m, 1). One argument gives an array, several
    give a list.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.atleast_3d(mx.ones((2, 3))).shape
        (2, 3, 1)
    """

def bartlett(M: int, *, stream: StreamOrDevice = None) -> array:
    """Bartlett (triangular) window of M points: 1 - abs(x) for x from -1 to 1.

    M below 1 gives no elements, M 1 gives [1]. The result is float32, computed in double.

    Raises: TypeError when M is no int.

    Example:
        >>> mx.bartlett(5)
        array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """

def bitwise_and(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Bits that are set in both a and b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    operands are integers or bools; for bools it is logical and.

    Raises: ValueError for floats, complex64 and uint64 with a signed integer, and for shapes
        that do not broadcast.

    Example:
        >>> mx.bitwise_and(mx.array([12, 10]), 6)
        array([4, 2], dtype=int32)
    """

def bitwise_invert(a: scalar | array, stream: StreamOrDevice = None) -> array:
    """Each bit of each element inverted.

    a is an array or a scalar of integers or bools; for bools the result is logical not. Shape
    and dtype stay.

    Raises: ValueError for floats and complex64.

    Example:
        >>> mx.bitwise_invert(mx.array([0, 5]))
        array([-1, -6], dtype=int32)
    """

def bitwise_or(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Bits that are set in a, in b or in both.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    operands are integers or bools; for bools it is logical or.

    Raises: ValueError for floats, complex64 and uint64 with a signed integer, and for shapes
        that do not broadcast.

    Example:
        >>> mx.bitwise_or(mx.array([12, 10]), 1)
        array([13, 11], dtype=int32)
    """

def bitwise_xor(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Bits that are set in exactly one of a and b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    operands are integers or bools; for bools it is logical exclusive or.

    Raises: ValueError for floats, complex64 and uint64 with a signed integer, and for shapes
        that do not broadcast.

    Example:
        >>> mx.bitwise_xor(mx.array([12, 10]), 6)
        array([10, 12], dtype=int32)
    """

def blackman(M: int, *, stream: StreamOrDevice = None) -> array:
    """Blackman window of M points.

    It is 0.42 + 0.5 * cos(pi * x) + 0.08 * cos(2 * pi * x) for x from -1 to 1. M below 1 gives
    no elements, M 1 gives [1]. The result is float32, computed in double.

    Raises: TypeError when M is no int.

    Example:
        >>> mx.blackman(4)
        array([0, 0.63, 0.63, 0], dtype=float32)
    """

def block_masked_mm(
    a: array,
    b: array,
    /,
    block_size: int = 64,
    mask_out: array | None = None,
    mask_lhs: array | None = None,
    mask_rhs: array | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Matrix product with masks for square blocks of the operands and of the result.

    mask_lhs, mask_rhs and mask_out have one element for each block of block_size rows and
    columns (fewer at the edges) of a, b and the result; they broadcast. A bool mask keeps a
    block or makes it 0, another one is multiplied. None means no mask. Shapes and dtypes are as
    in matmul.

    Raises: ValueError as matmul does, for complex64, for masks that do not fit, and for a
        block_size below 1.

    Example:
        >>> mask = mx.array([[True, False], [False, True]])
        >>> mx.block_masked_mm(mx.ones((64, 64)), mx.ones((64, 64)), 32, mask)[0, 30:34]
        array([64, 64, 0, 0], dtype=float32)
    """

def broadcast_arrays(*arrays: array, stream: StreamOrDevice = None) -> list[array]:
    """The arrays, each repeated to the common shape of all.

    The result is a list with one view for each argument; dtypes stay.

    Raises: ValueError for shapes that do not broadcast.

    Example:
        >>> [x.shape for x in mx.broadcast_arrays(mx.ones((2, 1)), mx.ones(3))]
        [(2, 3), (2, 3)]
    """

def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast.

    Shapes are sequences of extents. They are aligned at the last axis; an extent of 1 or a
    missing axis takes that of the others.

    Raises: ValueError for shapes that do not broadcast, and without shapes.

    Example:
        >>> mx.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """

def broadcast_to(
    a: scalar | array, /, shape: Sequence[int], *, stream: StreamOrDevice = None
) -> array:
    """a repeated to a larger shape.

    Shapes are aligned at the last axis; an extent of 1 or a missing axis is repeated. The
    result is a view; the dtype stays.

    Raises: ValueError when the shapes do not allow it.

    Example:
        >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
        array([[1, 2],
               [1, 2]], dtype=int32)
    """

def can_cast(from_: array | Dtype, to: Dtype) -> bool: ...
def ceil(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Smallest whole number that is not below each element.

    a is an array or a scalar of any shape, whose dtype stays; integers and bools do not change.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.ceil(mx.array([1.2, -1.2, 3.0]))
        array([2, -1, 3], dtype=float32)
    """

def checkpoint(fun: Callable[P, R]) -> Callable[P, R]: ...
def clear_cache() -> None: ...
def clear_streams() -> None: ...
def clip(
    a: array,
    /,
    a_min: scalar | array | None,
    a_max: scalar | array | None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Each element limited to the range from a_min to a_max.

    a_min and a_max are arrays or scalars that broadcast with a; one of them may be None, which
    means no limit. The result has the common dtype of all: minimum(maximum(a, a_min), a_max).

    Raises: ValueError when both limits are None, and for shapes that do not broadcast.

    Example:
        >>> mx.clip(mx.array([-1, 4, 9]), 0, 5)
        array([0, 4, 5], dtype=int32)
    """

def compile(
    fun: Callable[P, R], inputs: object = None, outputs: object = None, shapeless: bool = False
) -> Callable[P, R]: ...
def concatenate(
    arrays: Sequence[array], axis: int | None = 0, *, stream: StreamOrDevice = None
) -> array:
    """Arrays joined along an axis that they have.

    The other extents are equal; dtypes are promoted to a common one. axis None flattens the
    arrays first, whatever their shapes.

    Raises: ValueError without arrays, for other shapes, and for an axis that they do not have.

    Example:
        >>> mx.concatenate([mx.array([1, 2]), mx.array([3])])
        array([1, 2, 3], dtype=int32)
        >>> mx.concatenate([mx.ones((1, 2)), mx.zeros((1, 2))], axis=1)
        array([[1, 1, 0, 0]], dtype=float32)
    """

def conj(a: array, *, stream: StreamOrDevice = None) -> array:
    """Complex conjugate of each element.

    For complex64 the imaginary part changes its sign; other dtypes do not change. The result
    has the shape and dtype of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.conj(mx.array([1 + 2j, 3 - 1j]))
        array([1-2j, 3+1j], dtype=complex64)
    """

def contiguous(
    a: array, /, allow_col_major: bool = False, *, stream: StreamOrDevice = None
) -> array:
    """a with its elements in row-major order in memory.

    The result is a itself when it is in that order, or, with allow_col_major, in column-major
    order; else it is a copy. Values, shape and dtype stay.

    Raises: TypeError when a is no array.

    Example:
        >>> mx.contiguous(mx.array([[1, 2], [3, 4]]).T)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """

def conv1d(
    input: array,
    weight: array,
    /,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Convolution along one axis, as layers of neural networks define it.

    Channels come last: input is (batch, n, channels), weight (output channels, k, channels /
    groups), the result (batch, m, output channels) with m = (n + 2 * padding - dilation * (k -
    1) - 1) // stride + 1. The kernel is not reversed; outside of the input is 0. Both have
    float dtypes, which are promoted to a common one. Output channels of a group see the
    channels of that group.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv1d(mx.array([[[1.0], [2.0], [4.0]]]), mx.array([[[1.0], [1.0]]]))
        array([[[3],
                [6]]], dtype=float32)
    """

def conv2d(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Convolution along two axes, as layers of neural networks define it.

    Channels come last: input is (batch, height, width, channels), weight (output channels,
    kernel height, kernel width, channels / groups), the result (batch, height, width, output
    channels). stride, padding and dilation are one number or one for each axis. Both operands
    have float dtypes, which are promoted to a common one.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv2d(mx.ones((1, 5, 5, 2)), mx.ones((3, 3, 3, 2)), padding=1).shape
        (1, 5, 5, 3)
    """

def conv3d(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Convolution along three axes, as layers of neural networks define it.

    Channels come last: input is (batch, depth, height, width, channels), weight (output
    channels, kernel depth, kernel height, kernel width, channels / groups). stride, padding and
    dilation are one number or one for each axis. Both operands have float dtypes, which are
    promoted to a common one.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv3d(mx.ones((1, 3, 3, 3, 1)), mx.ones((2, 2, 2, 2, 1))).shape
        (1, 2, 2, 2, 2)
    """

def conv_general(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | tuple[Sequence[int], Sequence[int]] = 0,
    kernel_dilation: int | Sequence[int] = 1,
    input_dilation: int | Sequence[int] = 1,
    groups: int = 1,
    flip: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Convolution along one to three axes, with padding for each end and dilated inputs.

    Shapes are those of conv1d, conv2d and conv3d. Numbers count for all axes, sequences have
    one entry for each; padding may be a pair of sequences (before, behind). input_dilation puts
    zeros between the elements of input; flip reverses the kernel.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv_general(mx.ones((1, 8, 2)), mx.ones((4, 3, 2)), 2, padding=([1], [2])).shape
        (1, 5, 4)
    """

def conv_transpose1d(
    input: array,
    weight: array,
    /,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Transposed convolution along one axis: the gradient of conv1d for its input.

    input is (batch, n, channels), weight (output channels, k, channels / groups), the result
    (batch, m, output channels) with m = (n - 1) * stride - 2 * padding + dilation * (k - 1) + 1
    + output_padding. Both have float dtypes, which are promoted to a common one.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv_transpose1d(mx.array([[[1.0], [2.0]]]), mx.ones((1, 2, 1)), stride=2).shape
        (1, 4, 1)
    """

def conv_transpose2d(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Transposed convolution along two axes: the gradient of conv2d for its input.

    Shapes are as in conv2d; the extents are those of conv_transpose1d for each axis. stride,
    padding, dilation and output_padding are one number or one for each axis.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv_transpose2d(mx.ones((1, 2, 2, 1)), mx.ones((1, 2, 2, 1)), stride=2).shape
        (1, 4, 4, 1)
    """

def conv_transpose3d(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Transposed convolution along three axes: the gradient of conv3d for its input.

    Shapes are as in conv3d; the extents are those of conv_transpose1d for each axis. stride,
    padding, dilation and output_padding are one number or one for each axis.

    Raises: ValueError for operands that are not floats, a stride, dilation or number of groups
    below 1, and shapes or channels that do not fit each other.

    Example:
        >>> mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1))).shape
        (1, 3, 3, 3, 1)
    """

def convolve(
    a: array, v: array, /, mode: str = "full", *, stream: StreamOrDevice = None
) -> array:
    """Convolution of two arrays of one axis.

    mode "full" has all places where the two overlap, len(a) + len(v) - 1; "same" the middle
    ones, as many as the longer operand has; "valid" those where they overlap entirely. Dtypes
    are floats and are promoted to a common one.

    Raises: ValueError for another mode, operands without elements or with another number of
        axes, and for dtypes that are not floats.

    Example:
        >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0, 0.5]))
        array([0, 1, 2.5, 4, 1.5], dtype=float32)
    """

def cos(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Cosine of each element, an angle in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.cos(mx.array([0.0, 1.0]))
        array([1, 0.540302], dtype=float32)
    """

def cosh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic cosine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.cosh(mx.array([0.0, 1.0]))
        array([1, 1.54308], dtype=float32)
    """

def count_nonzero(
    a: array,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Number of elements along the axes that are not 0.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. The result is int32. NaN is
    not 0.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.count_nonzero(mx.array([[1, 0], [2, 3]]), axis=0)
        array([2, 1], dtype=int32)
    """

def cummax(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamOrDevice = None,
) -> array:
    """Largest one of the elements up to each one, along an axis.

    axis is one axis; None flattens a first. With reverse the elements are taken from the last
    to the first. Without inclusive, element i itself is left out; where nothing is left the
    result is the lowest value of the dtype. Shape and dtype stay. From a NaN on all is NaN.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.cummax(mx.array([1, 3, 2, 5]))
        array([1, 3, 3, 5], dtype=int32)
    """

def cummin(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamOrDevice = None,
) -> array:
    """Smallest one of the elements up to each one, along an axis.

    axis is one axis; None flattens a first. With reverse the elements are taken from the last
    to the first. Without inclusive, element i itself is left out; where nothing is left the
    result is the highest value of the dtype. Shape and dtype stay. From a NaN on all is NaN.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.cummin(mx.array([4, 1, 2, 0]))
        array([4, 1, 1, 0], dtype=int32)
    """

def cumprod(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Dtype | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Products of the elements up to each one, along an axis.

    axis is one axis; None flattens a first. With reverse the elements are taken from the last
    to the first. Without inclusive, element i itself is left out; where nothing is left the
    result is 1. dtype is the dtype of the result; None keeps that of a. Integers wrap.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.cumprod(mx.array([1, 2, 3, 4]))
        array([1, 2, 6, 24], dtype=int32)
    """

def cumsum(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Dtype | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Sums of the elements up to each one, along an axis.

    axis is one axis; None flattens a first. With reverse the elements are taken from the last
    to the first. Without inclusive, element i itself is left out; where nothing is left the
    result is 0. dtype is the dtype of the result; None keeps that of a, but int32 for bools.
    Integers wrap.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.cumsum(mx.array([[1, 2, 3], [4, 5, 6]]), axis=1)
        array([[1, 3, 6],
               [4, 9, 15]], dtype=int32)
        >>> mx.cumsum(mx.array([1, 2, 3]), reverse=True, inclusive=False)
        array([5, 3, 0], dtype=int32)
    """

def default_device() -> Device: ...
def default_stream(device: Device | DeviceType) -> Stream: ...
def degrees(a: scalar | array, /, *, stream: StreamOrDevice = None) -> array:
    """Each element converted from radians to degrees: a * 180 / pi.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. 16-bit floats are computed in float32 and
    rounded once.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.degrees(mx.array([0.0, mx.pi]))
        array([0, 180], dtype=float32)
    """

def depends(
    inputs: array | Sequence[array], dependencies: array | Sequence[array]
) -> array | list[array]:
    """inputs, which are evaluated only after all dependencies are.

    inputs and dependencies are an array or a sequence of arrays. The result has the kind of
    inputs: an array, or a list. When a dependency has failed, the results fail with its error.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.depends(mx.array(1), mx.array([2.0]))
        array(1, dtype=int32)
    """

def dequantize(
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """The matrix that quantized numbers stand for.

    w, scales and biases are as quantize gives them; group_size, bits and mode are those that
    quantize was given, None meaning the same defaults. In mode affine an element is scale * q +
    bias. dtype None means the dtype of the scales, in other modes bfloat16 (float32 with
    global_scale).

    Raises: ValueError for shapes or dtypes that do not belong together, and for another mode,
        group size or number of bits.

    Example:
        >>> mx.dequantize(*mx.quantize(mx.ones((1, 64))))[0, :3]
        array([1, 1, 1], dtype=float32)
    """

def device_count(device_type: DeviceType) -> int: ...
def device_info(d: Device | DeviceType | None = None) -> dict[str, str | int]: ...
def diag(a: array, /, k: int = 0, *, stream: StreamOrDevice = None) -> array:
    """A matrix with a on its diagonal, or the diagonal of a matrix.

    For one axis: the square matrix with a where column - row is k, and zeros elsewhere. For two
    axes: those elements of a. The dtype stays.

    Raises: ValueError when a has another number of axes.

    Example:
        >>> mx.diag(mx.array([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
        >>> mx.diag(mx.array([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """

def diagonal(
    a: array, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: StreamOrDevice = None
) -> array:
    """Elements (i, i + offset) of two axes of a, along a new last axis.

    axis1 and axis2 are dropped; the other axes come first. The new axis is empty when the
    diagonal lies outside. The dtype stays.

    Raises: ValueError for less than two axes, and for axes that a does not have or that are
        equal.

    Example:
        >>> mx.diagonal(mx.array([[1, 2], [3, 4]]), offset=1)
        array([2], dtype=int32)
    """

def diff(
    a: array, /, n: int = 1, axis: int = -1, *, stream: StreamOrDevice = None
) -> array:
    """Differences of neighbours along an axis, taken n times.

    Element i is a[i + 1] - a[i]; each time the axis is one shorter. n 0 gives a. The dtype
    stays; bools are compared (not equal), unsigned integers wrap.

    Raises: ValueError for an n below 0, and for an axis that a does not have.

    Example:
        >>> mx.diff(mx.array([1, 4, 9, 16]))
        array([3, 5, 7], dtype=int32)
    """

def disable_compile() -> None: ...
def divide(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Quotient of a and b, element by element: a / b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are divided in float32. Division by 0 gives inf, -inf or NaN.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.divide(mx.array([7, -7]), 2)
        array([3.5, -3.5], dtype=float32)
    """

def divmod(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> list[array]:
    """Quotient rounded down, and remainder: [floor_divide(a, b), remainder(a, b)].

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    result is a list of two arrays.

    Raises: ValueError for complex64, and for shapes that do not broadcast.

    Example:
        >>> mx.divmod(mx.array([7, -7]), 2)
        [array([3, -4], dtype=int32), array([1, 1], dtype=int32)]
    """

def einsum(subscripts: str, *operands: array, stream: StreamOrDevice = None) -> array:
    """Sums of products by Einstein's convention.

    subscripts such as "ij,jk->ik" give each axis of each operand a letter; letters that the
    result has not are summed. A letter twice in one operand takes its diagonal, "..." stands
    for axes that broadcast. Without "->" the result has the letters that occur once, in
    alphabetical order. Operands are multiplied two at a time in a cheap order.

    Raises: ValueError for subscripts that cannot be read or that do not fit the operands, sums
        of products of integers over an axis of both, and more than 64 operands.

    Example:
        >>> a = mx.array([[1.0, 2.0], [3.0, 4.0]])
        >>> mx.einsum("ij,jk->ik", a, a)
        array([[7, 10],
               [15, 22]], dtype=float32)
        >>> mx.einsum("ii->", a)
        array(5, dtype=float32)
    """

def einsum_path(subscripts: str, *operands: array) -> tuple[list[tuple[int, ...]], str]:
    """The order in which einsum multiplies its operands, and what it costs.

    The result is a list of tuples with the positions of the operands of each step (a result
    goes to the end of the list), and a text with the numbers of operations. Nothing is
    computed.

    Raises: ValueError for subscripts that cannot be read or that do not fit the operands.

    Example:
        >>> path, text = mx.einsum_path("ij,jk->ik", mx.ones((2, 3)), mx.ones((3, 4)))
        >>> path
        [(0, 1)]
    """

def enable_compile() -> None: ...
def equal(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a and b are equal, element by element: a == b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. NaN is not equal to anything.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.equal(mx.array([1, 2, 3]), mx.array([1, 5, 3]))
        array([True, False, True], dtype=bool)
    """

def erf(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Error function of each element.

    It is 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to a. a is an array or a scalar
    of any shape. Integers and bools are computed in float32; floats keep their dtype. The
    result has the shape of a.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.erf(mx.array([0.0, 1.0]))
        array([-0, 0.842701], dtype=float32)
    """

def erfinv(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse of the error function of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. 1 and -1 give infinities, numbers beyond
    them NaN.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.erfinv(mx.array([0.0, 0.5]))
        array([0, 0.476936], dtype=float32)
    """

def eval(*args: Any) -> None: ...
def exp(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """e to the power of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.exp(mx.array([0.0, 1.0]))
        array([1, 2.71828], dtype=float32)
    """

def expand_dims(
    a: array, /, axis: int | Sequence[int], *, stream: StreamOrDevice = None
) -> array:
    """New axes of extent 1.

    axis is one axis or several, as positions in the result; negative ones count from its end.
    The result is a view.

    Raises: ValueError for a position outside of the result or one that is given twice.

    Example:
        >>> mx.expand_dims(mx.array([1, 2]), 0)
        array([[1, 2]], dtype=int32)
    """

def expm1(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """exp(a) - 1 of each element, accurate also where a is close to 0.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.expm1(mx.array([0.0, 1e-6]))
        array([0, 1e-06], dtype=float32)
    """

def export_function(
    file_or_callback: str | Callable[..., Any],
    fun: Callable[..., Any],
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    **kwargs: Any,
) -> None: ...
def export_to_dot(file: object, *args: Any, **kwargs: Any) -> None: ...
def exporter(
    file: str, fun: Callable[..., Any], *, shapeless: bool = False, metadata: str | None = None
) -> FunctionExporter: ...
def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: Dtype | None = float32,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """A matrix with ones on one diagonal and zeros elsewhere.

    It has n rows and m columns (None: n). The ones are where column - row is k, which may be
    outside of the matrix. dtype None means float32.

    Raises: ValueError for a negative n or m.

    Example:
        >>> mx.eye(2, 3, k=1)
        array([[0, 1, 0],
               [0, 0, 1]], dtype=float32)
    """

def flatten(
    a: array, /, start_axis: int = 0, end_axis: int = -1, *, stream: StreamOrDevice = None
) -> array:
    """The axes from start_axis to end_axis, both included, joined into one.

    Negative axes count from the end; an axis beyond the ends means the end. An array without
    axes gets one. The dtype stays.

    Raises: ValueError when start_axis lies behind end_axis.

    Example:
        >>> mx.flatten(mx.array([[1, 2], [3, 4]]))
        array([1, 2, 3, 4], dtype=int32)
    """

def flip(
    a: array, /, axis: int | Sequence[int] | None = None, *, stream: StreamOrDevice = None
) -> array:
    """a with the elements along the axes in reverse order.

    axis is one axis or several; None means all.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.flip(mx.array([[1, 2], [3, 4]]), axis=1)
        array([[2, 1],
               [4, 3]], dtype=int32)
    """

def floor(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Largest whole number that is not above each element.

    a is an array or a scalar of any shape, whose dtype stays; integers and bools do not change.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.floor(mx.array([1.8, -1.2, 3.0]))
        array([1, -2, 3], dtype=float32)
    """

def floor_divide(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Quotient of a and b rounded down: a // b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    give 0 where b is 0; floats are divided, and the quotient is rounded down.

    Raises: ValueError for complex64, and for shapes that do not broadcast.

    Example:
        >>> mx.floor_divide(mx.array([7, -7]), 2)
        array([3, -4], dtype=int32)
    """

def from_dlpack(x: DLPackCompatible, /, *, copy: bool | None = None) -> array:
    """An array of the memory that another library exports through DLPack.

    x has __dlpack__ and __dlpack_device__, as arrays of NumPy, PyTorch and JAX do. Memory is
    shared where the device allows it. copy True always copies, False never, None copies where
    it must.

    Raises: ValueError for a dtype that Keel has not, and when a copy is needed but copy is
        False; TypeError when x has no __dlpack__.

    Example:
        >>> mx.from_dlpack(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

def from_fp8(x: array, dtype: Dtype = bfloat16, *, stream: StreamOrDevice = None) -> array:
    """8-bit floats (E4M3) converted to a float dtype, exactly.

    x is uint8, as to_fp8 gives it; 0x7f and 0xff are NaN. The shape stays.

    Raises: ValueError when x is not uint8 or dtype is no float dtype.

    Example:
        >>> mx.from_fp8(mx.array([56, 48], dtype=mx.uint8), mx.float32)
        array([1, 0.5], dtype=float32)
    """

def full(
    shape: int | Sequence[int],
    vals: scalar | array,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """An array of the given shape that is filled with vals.

    shape is an int for one axis, or a sequence of extents. vals is a scalar or an array that
    broadcasts to it. dtype None keeps that of vals; a Python int gives int32, a float float32.

    Raises: ValueError for a negative extent, and when vals does not broadcast to shape.

    Example:
        >>> mx.full((2, 2), 7)
        array([[7, 7],
               [7, 7]], dtype=int32)
        >>> mx.full((2, 2), mx.array([1, 2]), dtype=mx.float32)
        array([[1, 2],
               [1, 2]], dtype=int32)
    """

def full_like(
    a: array, vals: scalar | array, dtype: Dtype | None = None, *, stream: StreamOrDevice = None
) -> array:
    """An array of the shape of a that is filled with vals.

    vals is a scalar or an array that broadcasts to the shape of a. dtype None keeps the dtype
    of a, to which vals is converted.

    Raises: ValueError when vals does not broadcast to the shape of a.

    Example:
        >>> mx.full_like(mx.array([1, 2, 3]), 9)
        array([9, 9, 9], dtype=int32)
    """

def gather_mm(
    a: array,
    b: array,
    /,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Products of chosen pairs of matrices: a[lhs_indices[i]] @ b[rhs_indices[i]].

    Leading axes of a and of b are batches, which the indices count in row-major order; negative
    ones count from the end. The indices broadcast, and the result has their shape, then rows
    and columns. None takes all matrices in order. sorted_indices is a hint that rhs_indices is
    in ascending order.

    Raises: ValueError as matmul does, and for complex64 or indices that are not integers;
        IndexError, when the result is read, for an index out of range.

    Example:
        >>> rhs = mx.array([0, 2])
        >>> mx.gather_mm(mx.ones((2, 1, 2)), mx.ones((3, 2, 1)), rhs_indices=rhs).shape
        (2, 1, 1)
    """

def gather_qmm(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Products of chosen pairs of matrices, the second of them quantized.

    lhs_indices says which matrix of x, rhs_indices which one of w; they count leading axes in
    row-major order and broadcast, and the result has their shape, then rows and columns. None
    takes all matrices in order. The other arguments are those of quantized_matmul;
    sorted_indices is a hint that rhs_indices is in ascending order.

    Raises: ValueError as quantized_matmul does, and for indices that are not integers;
        IndexError, when the result is read, for an index out of range.

    Example:
        >>> w = mx.quantize(mx.ones((3, 2, 64)))
        >>> mx.gather_qmm(mx.ones((2, 1, 64)), *w, rhs_indices=mx.array([0, 2])).shape
        (2, 1, 2)
    """

def gather_qqmm(
    x: array,
    w: array,
    /,
    scales: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Products of chosen pairs of matrices, both quantized: gather_qmm for qqmm.

    lhs_indices and rhs_indices are those of gather_qmm, the other arguments those of qqmm.

    Raises: ValueError as qqmm does, and for indices that are not integers; IndexError, when the
        result is read, for an index out of range.
    """

def get_active_memory() -> int: ...
def get_array_buffer_size(*args: Any) -> int: ...
def get_cache_memory() -> int: ...
def get_memory_limit() -> int: ...
def get_peak_memory() -> int: ...
def get_printoptions() -> PrintOptions: ...
def grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = [],
) -> Callable[P, Any]: ...
def greater(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a is larger than b, element by element: a > b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. With NaN it is False. Complex
    numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.greater(mx.array([1, 2, 3]), 2)
        array([False, False, True], dtype=bool)
    """

def greater_equal(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Whether a is at least b, element by element: a >= b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. With NaN it is False. Complex
    numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.greater_equal(mx.array([1, 2, 3]), 2)
        array([False, True, True], dtype=bool)
    """

def hadamard_transform(
    a: array, scale: float | None = None, stream: StreamOrDevice = None
) -> array:
    """The last axis of a multiplied by a Hadamard matrix and by scale.

    Its extent n is m * 2**k with m 1, 12, 20 or 28. The matrix has entries 1 and -1 and
    orthogonal rows; for m 1 it is Sylvester's. scale None means 1 / sqrt(n), which keeps
    lengths. Integers and bools give float32; floats stay.

    Raises: ValueError for another extent, and for complex64.

    Example:
        >>> mx.hadamard_transform(mx.array([1.0, 2.0, 3.0, 4.0]))
        array([5, -1, -2, 0], dtype=float32)
    """

def hamming(M: int, *, stream: StreamOrDevice = None) -> array:
    """Hamming window of M points: 0.54 + 0.46 * cos(pi * x) for x from -1 to 1.

    M below 1 gives no elements, M 1 gives [1]. The result is float32, computed in double.

    Raises: TypeError when M is no int.

    Example:
        >>> mx.hamming(4)
        array([0.08, 0.77, 0.77, 0.08], dtype=float32)
    """

def hanning(M: int, *, stream: StreamOrDevice = None) -> array:
    """Hann window of M points: 0.5 + 0.5 * cos(pi * x) for x from -1 to 1.

    M below 1 gives no elements, M 1 gives [1]. The result is float32, computed in double.

    Raises: TypeError when M is no int.

    Example:
        >>> mx.hanning(5)
        array([0, 0.5, 1, 0.5, 7.64274e-15], dtype=float32)
    """

def identity(
    n: int, dtype: Dtype | None = float32, *, stream: StreamOrDevice = None
) -> array:
    """The square matrix of n rows with ones on the main diagonal.

    dtype None means float32.

    Raises: ValueError for a negative n.

    Example:
        >>> mx.identity(2)
        array([[1, 0],
               [0, 1]], dtype=float32)
    """

def imag(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Imaginary part of each element.

    For complex64 the result is float32; for other dtypes it is 0 in the dtype of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.imag(mx.array([1 + 2j, 3 - 1j]))
        array([2, -1], dtype=float32)
    """

def import_function(
    file: str, return_metadata: bool = False
) -> Callable[..., list[array]] | tuple[Callable[..., list[array]], str]: ...
def inner(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Sums of products over the last axes of a and b.

    The last axes have equal extents. The result has the other axes of a, then those of b; with
    an operand without axes it is the product. The operands are promoted to a common float dtype
    or complex64.

    Raises: ValueError when the last extents differ, and when both operands are integers or
        bools.

    Example:
        >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
        array(11, dtype=float32)
    """

def is_available(device: Device | DeviceType) -> bool: ...
def isclose(
    a: array,
    b: array,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    *,
    equal_nan: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """Whether a and b are close, element by element: abs(a - b) <= atol + rtol * abs(b).

    The shapes broadcast. Infinities are close to themselves only; NaN is close to NaN only with
    equal_nan. 16-bit floats and integers are compared in float32. The result is bool.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0 + 1e-7, 2.1]))
        array([True, False], dtype=bool)
    """

def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool: ...
def isfinite(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is neither NaN nor infinite.

    a has any shape and dtype; of complex64 both parts are tested. The result is bool, of the
    shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.isfinite(mx.array([1.0, mx.inf, mx.nan]))
        array([True, False, False], dtype=bool)
    """

def isinf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is infinite, with either sign.

    a has any shape and dtype; of complex64 it is enough that one part is. The result is bool,
    of the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.isinf(mx.array([1.0, -mx.inf, mx.nan]))
        array([False, True, False], dtype=bool)
    """

def isnan(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is NaN.

    a has any shape and dtype; of complex64 it is enough that one part is. The result is bool,
    of the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.isnan(mx.array([1.0, mx.inf, mx.nan]))
        array([False, False, True], dtype=bool)
    """

def isneginf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is negative infinity.

    a has any shape and dtype. The result is bool, of the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.isneginf(mx.array([-mx.inf, 0.0, mx.inf]))
        array([True, False, False], dtype=bool)
    """

def isposinf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is positive infinity.

    a has any shape and dtype. The result is bool, of the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.isposinf(mx.array([-mx.inf, 0.0, mx.inf]))
        array([False, False, True], dtype=bool)
    """

def issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory) -> bool: ...
def jvp(
    fun: Callable[..., Any], primals: Sequence[array], tangents: Sequence[array]
) -> tuple[list[array], list[array]]: ...
def kron(a: array, b: array, *, stream: StreamOrDevice = None) -> array:
    """Kronecker product: each element of a replaced by its product with all of b.

    The shapes are aligned at the last axis; each extent is the product of both. Dtypes are
    promoted to a common one.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
        array([1, 10, 2, 20], dtype=int32)
    """

def left_shift(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Bits of a moved to the left by b places: a << b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    operands are integers; bools are taken as uint8. A shift by the width of the type or more,
    or by a negative number, gives 0.

    Raises: ValueError for floats, complex64 and uint64 with a signed integer, and for shapes
        that do not broadcast.

    Example:
        >>> mx.left_shift(mx.array([1, 3]), 2)
        array([4, 12], dtype=int32)
    """

def less(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a is smaller than b, element by element: a < b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. With NaN it is False. Complex
    numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.less(mx.array([1, 2, 3]), 2)
        array([True, False, False], dtype=bool)
    """

def less_equal(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Whether a is at most b, element by element: a <= b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. With NaN it is False. Complex
    numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.less_equal(mx.array([1, 2, 3]), 2)
        array([True, True, False], dtype=bool)
    """

def linspace(
    start: scalar,
    stop: scalar,
    num: int | None = 50,
    endpoint: bool = True,
    dtype: Dtype | None = float32,
    stream: StreamOrDevice = None,
) -> array:
    """num evenly spaced numbers from start to stop.

    Both ends are included and exact; with endpoint False stop is left out. num None means 50,
    dtype None float32. Numbers are computed in double and rounded once (integers: truncated).

    Raises: ValueError for a negative num.

    Example:
        >>> mx.linspace(0, 1, 5)
        array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
        >>> mx.linspace(0, 1, 4, endpoint=False)
        array([0, 0.25, 0.5, 0.75], dtype=float32)
    """

def load(
    file: str | Path | BinaryIO,
    /,
    format: str | None = None,
    return_metadata: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array | dict[str, array] | tuple[dict[str, array], dict[str, Any]]: ...
def log(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Natural logarithm of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.log(mx.array([1.0, 10.0]))
        array([0, 2.30259], dtype=float32)
    """

def log10(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logarithm to the base 10 of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.log10(mx.array([1.0, 1000.0]))
        array([0, 3], dtype=float32)
    """

def log1p(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """log(1 + a) of each element, accurate also where a is close to 0.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. -1 gives -inf; real numbers
    below -1 give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.log1p(mx.array([0.0, 1e-6]))
        array([0, 1e-06], dtype=float32)
    """

def log2(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logarithm to the base 2 of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.log2(mx.array([1.0, 8.0]))
        array([0, 3], dtype=float32)
    """

def logaddexp(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """log(exp(a) + exp(b)), computed without overflow of the exponentials.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are computed in float32. It adds probabilities that are kept as logarithms.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.logaddexp(mx.array([0.0, 1000.0]), mx.array([0.0, 1000.0]))
        array([0.693147, 1000.69], dtype=float32)
    """

def logcumsumexp(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamOrDevice = None,
) -> array:
    """log of the sum of the exponentials of the elements up to each one, along an axis.

    axis is one axis; None flattens a first. With reverse the elements are taken from the last
    to the first. Without inclusive, element i itself is left out; where nothing is left the
    result is -inf. Integers and bools give float32; other dtypes stay. Exponentials do not
    overflow.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.logcumsumexp(mx.array([0.0, 0.0, 0.0]))
        array([0, 0.693147, 1.09861], dtype=float32)
    """

def logical_and(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Whether both a and b are true, element by element.

    a and b have any dtype, and their shapes broadcast; an element is true when it is not 0 (NaN
    is true). The result is bool.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.logical_and(mx.array([True, True, False]), mx.array([True, False, False]))
        array([True, False, False], dtype=bool)
    """

def logical_not(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Whether each element is 0 (or False).

    a has any shape and dtype; NaN counts as true. The result is bool, of the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.logical_not(mx.array([True, False]))
        array([False, True], dtype=bool)
    """

def logical_or(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Whether a or b is true, or both, element by element.

    a and b have any dtype, and their shapes broadcast; an element is true when it is not 0 (NaN
    is true). The result is bool.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.logical_or(mx.array([True, True, False]), mx.array([True, False, False]))
        array([True, True, False], dtype=bool)
    """

def logical_xor(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """Whether exactly one of a and b is true, element by element.

    a and b have any dtype, and their shapes broadcast; an element is true when it is not 0 (NaN
    is true). The result is bool.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.logical_xor(mx.array([True, True, False]), mx.array([True, False, False]))
        array([False, True, False], dtype=bool)
    """

def logsumexp(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """log(sum(exp(a))) along the axes, computed without overflow of the exponentials.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Integers and bools give
    float32; other dtypes stay. Of no elements, or of -inf alone, it is -inf.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.logsumexp(mx.array([[0.0, 0.0], [1000.0, 1000.0]]), axis=1)
        array([0.693147, 1000.69], dtype=float32)
    """

def matmul(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Matrix product of a and b.

    It is taken over the last axis of a and the last but one of b; leading axes broadcast. An
    operand of one axis is a row on the left and a column on the right, and its axis is dropped.
    The operands are promoted to a common float dtype or complex64.

    Raises: ValueError for an operand without axes, extents that do not fit, and when both
    operands are integers or bools.

    Example:
        >>> mx.matmul(mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]))
        array([3, 7], dtype=float32)
    """

def matrix_transpose(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """The last two axes of a exchanged.

    Leading axes are a batch. The result is a view.

    Raises: ValueError when a has less than two axes.

    Example:
        >>> mx.matrix_transpose(mx.array([[1, 2], [3, 4]]))
        array([[1, 3],
               [2, 4]], dtype=int32)
    """

def max(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Largest element along the axes.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. The dtype stays. With a NaN
    the result is NaN. Complex numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for an axis that a does not have or that is given twice, and for no
        elements.

    Example:
        >>> mx.max(mx.array([[1, 5], [7, 3]]), axis=1)
        array([5, 7], dtype=int32)
    """

def maximum(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """Larger one of a and b, element by element.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. With NaN
    the result is NaN. Complex numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.maximum(mx.array([1, 5, 3]), 2)
        array([2, 5, 3], dtype=int32)
    """

def mean(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Mean of the elements along the axes.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Integers and bools give
    float32; floats and complex64 stay. The mean of no elements is NaN.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.mean(mx.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        array([2, 3], dtype=float32)
    """

def median(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Median of the elements along the axes.

    The middle element in ascending order; of an even number the mean of the middle two. axis is
    one axis or several; None means all of them. With keepdims a reduced axis stays with extent
    1; without axes (an empty sequence) nothing is reduced. Integers and bools give float32;
    floats stay. With a NaN the result is NaN.

    Raises: ValueError for an axis that a does not have or that is given twice, and for no
        elements.

    Example:
        >>> mx.median(mx.array([[1, 2, 9], [4, 6, 5]]), axis=1)
        array([2, 5], dtype=float32)
    """

def meshgrid(
    *arrays: array,
    sparse: bool | None = False,
    indexing: str | None = "xy",
    stream: StreamOrDevice = None,
) -> tuple[array, ...]:
    """Coordinate arrays of a grid, from one array of coordinates per axis.

    Result i holds array i (flat) along its axis and repeats it along the others; with sparse
    the other axes have extent 1 instead. indexing "ij" puts array i along axis i; "xy" swaps
    the first two axes. The result is a tuple with one array for each argument.

    Raises: ValueError for another indexing, and without arrays.

    Example:
        >>> mx.meshgrid(mx.array([1, 2]), mx.array([3, 4]))[0]
        array([[1, 2],
               [1, 2]], dtype=int32)
    """

def min(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Smallest element along the axes.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. The dtype stays. With a NaN
    the result is NaN. Complex numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for an axis that a does not have or that is given twice, and for no
        elements.

    Example:
        >>> mx.min(mx.array([[1, 5], [7, 3]]), axis=1)
        array([1, 3], dtype=int32)
    """

def minimum(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """Smaller one of a and b, element by element.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. With NaN
    the result is NaN. Complex numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.minimum(mx.array([1, 5, 3]), 2)
        array([1, 2, 2], dtype=int32)
    """

def minmax(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> tuple[array, array]:
    """Smallest and largest element along the axes, as a tuple (min, max).

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Both have the dtype of a.
    With a NaN both are NaN.

    Raises: ValueError for an axis that a does not have or that is given twice, and for no
        elements.

    Example:
        >>> mx.minmax(mx.array([[3, 1], [2, 5]]), axis=1)
        (array([1, 2], dtype=int32), array([3, 5], dtype=int32))
    """

def moveaxis(
    a: array, /, source: int, destination: int, *, stream: StreamOrDevice = None
) -> array:
    """One axis of a moved to another place; the others keep their order.

    source is the axis in a, destination its place in the result; negative ones count from the
    end. The result is a view.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """

def multiply(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Product of a and b, element by element: a * b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    wrap; for bools it is logical and.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.multiply(mx.array([1.0, 2.0]), mx.array([[2.0], [3.0]]))
        array([[2, 4],
               [3, 6]], dtype=float32)
    """

def nan_to_num(
    a: scalar | array,
    nan: float = 0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """NaN and infinities replaced by numbers.

    NaN becomes nan, inf becomes posinf and -inf becomes neginf; where posinf or neginf is None,
    the largest or the lowest finite number of the dtype is taken. Integers and bools do not
    change. Of complex64 each part is replaced by itself, and posinf and neginf must both be
    given.

    Raises: ValueError for complex64 without posinf and neginf.

    Example:
        >>> mx.nan_to_num(mx.array([1.0, mx.nan, mx.inf]), posinf=9.0)
        array([1, 0, 9], dtype=float32)
    """

def negative(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Each element with the opposite sign.

    a is an array or a scalar of any shape; the dtype stays. Unsigned integers wrap.

    Raises: ValueError for bools (use logical_not).

    Example:
        >>> mx.negative(mx.array([1.0, -2.0]))
        array([-1, 2], dtype=float32)
    """

def new_stream(device: Device | DeviceType) -> Stream: ...
def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream: ...
def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream: ...
def not_equal(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a and b differ, element by element: a != b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. NaN differs from everything, also
    from itself.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.not_equal(mx.array([1, 2, 3]), mx.array([1, 5, 3]))
        array([False, True, False], dtype=bool)
    """

def ones(
    shape: int | Sequence[int], dtype: Dtype | None = float32, *, stream: StreamOrDevice = None
) -> array:
    """An array of ones.

    shape is an int for one axis, or a sequence of extents; () gives an array without axes.
    dtype None means float32.

    Raises: ValueError for a negative extent.

    Example:
        >>> mx.ones(3)
        array([1, 1, 1], dtype=float32)
    """

def ones_like(
    a: array, /, dtype: Dtype | None = None, *, stream: StreamOrDevice = None
) -> array:
    """Ones of the shape of a.

    dtype None keeps that of a.

    Raises: TypeError when a is no array.

    Example:
        >>> mx.ones_like(mx.array([5, 7]), dtype=mx.float16)
        array([1, 1], dtype=float16)
    """

def outer(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Matrix of the products a[i] * b[j].

    Both operands are taken as flat; their dtypes are promoted to a common one.

    Raises: TypeError for what is no array.

    Example:
        >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
        array([[3, 4],
               [6, 8]], dtype=int32)
    """

def pad(
    a: array,
    pad_width: int | Sequence[int] | Sequence[tuple[int, int]],
    mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    constant_values: scalar | array = 0,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """a with elements added before and behind along its axes.

    pad_width is one number for all ends, (before, behind) for all axes, or such a pair for each
    axis. mode "constant" fills with constant_values, "edge" with the outermost element;
    "reflect" and "symmetric" continue with the elements of a backwards, without and with the
    outermost one. The dtype of a stays.

    Raises: ValueError for negative widths, another mode, a number of pairs that is not that of
        the axes, several constant values, and an empty axis in another mode than "constant".

    Example:
        >>> mx.pad(mx.array([1, 2]), 1)
        array([0, 1, 2, 0], dtype=int32)
        >>> mx.pad(mx.array([[1, 2]]), ((0, 1), (0, 0)), constant_values=9)
        array([[1, 2],
               [9, 9]], dtype=int32)
    """

def partition(
    a: array, /, kth: int, axis: int | None = -1, *, stream: StreamOrDevice = None
) -> array:
    """The elements along an axis, rearranged around the one that sorting would put at kth.

    No element before kth is larger, and none behind it is smaller. A negative kth counts from
    the end. axis None takes all elements, flat. NaN counts as larger than every number, and
    equal elements keep their order.

    Raises: ValueError for a kth outside of the axis, and for an axis that a does not have.

    Example:
        >>> mx.partition(mx.array([5, 1, 4, 2]), 1)[1]
        array(2, dtype=int32)
    """

def positive(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """The elements as they are: the same as +a.

    a has any shape and dtype, and the result has both.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.positive(mx.array([1, -2]))
        array([1, -2], dtype=int32)
    """

def power(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """a to the power b, element by element: a ** b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    wrap, and a negative power of an integer is 0, except of 1 and -1. A real number below 0 to
    a power that is no whole number is NaN.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.power(mx.array([1.0, 2.0, 3.0]), 2)
        array([1, 4, 9], dtype=float32)
    """

def printoptions(precision: int = -1) -> _PrintOptionsContext: ...
def prod(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Product of the elements along the axes.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Bools and integers of less
    than 32 bits give int32 or uint32; other dtypes stay. Integers wrap. The product of no
    elements is 1.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.prod(mx.array([[1, 2], [3, 4]]), axis=1)
        array([2, 12], dtype=int32)
    """

def put_along_axis(
    a: array,
    /,
    indices: array,
    values: array,
    axis: int | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """A copy of a with values written at indices along an axis.

    indices and values are as take_along_axis would read them; values broadcasts to the shape of
    indices and is converted to the dtype of a. axis None takes a as flat. Where several values
    have one place, the last one in row-major order stays.

    Raises: ValueError for shapes that do not fit, indices that are not integers, and an axis
        that a does not have; IndexError, when the result is read, for an index out of range.

    Example:
        >>> mx.put_along_axis(mx.zeros((2, 2)), mx.array([[1], [0]]), mx.array(5.0), axis=1)
        array([[0, 5],
               [5, 0]], dtype=float32)
    """

def qqmm(
    x: array,
    w: array,
    scales: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Product of x, quantized on the way, with a quantized matrix: x @ W.T.

    x is (..., k). w is packed as quantize gives it, with scales, or a matrix of floats (n, k),
    which is quantized too. Modes are "mxfp4", "mxfp8" and "nvfp4", which may have both global
    scales. The result has the dtype of x. Gradients are those of the product without
    quantization.

    Raises: ValueError for mode "affine", a quantized w without scales, one global scale alone,
        and shapes that do not fit.
    """

def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    global_scale: array | None = None,
    stream: StreamOrDevice = None,
) -> list[array]:
    """A matrix quantized by groups of its rows, as a list [packed, scales] or [packed, scales,
    biases].

    w has at least two axes and float16, bfloat16 or float32; packed is uint32 with the numbers
    of a row in words of 32 bits, the lowest bits first. mode "affine": numbers of bits 2, 3, 4,
    5, 6 or 8 (None: 4) in groups of 32, 64 or 128 (None: 64), with a scale and a bias for each
    group. "mxfp4", "mxfp8": 4-bit and 8-bit floats in groups of 32 with scales that are powers
    of two; "nvfp4": 4-bit floats in groups of 16 with 8-bit scales. Only affine has biases.
    global_scale divides the scales of nvfp4 further.

    Raises: ValueError when the last axis is no multiple of the group size, for another mode,
        group size or number of bits, and for another dtype.

    Example:
        >>> [x.shape for x in mx.quantize(mx.ones((4, 64)))]
        [(4, 8), (4, 1), (4, 1)]
    """

def quantized_matmul(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Product of x with a quantized matrix: x @ W.T, or x @ W without transpose.

    w, scales and biases are as quantize gives them; group_size, bits and mode are those that
    quantize was given. x is (..., m, k), W is (n, k) with transpose, else (k, n); leading axes
    broadcast. The result has the common dtype of x, scales and biases.

    Raises: ValueError for shapes or dtypes that do not belong together, and for another mode,
        group size or number of bits.

    Example:
        >>> mx.quantized_matmul(mx.ones((1, 64)), *mx.quantize(mx.ones((2, 64))))
        array([[64, 64]], dtype=float32)
    """

def radians(a: scalar | array, /, *, stream: StreamOrDevice = None) -> array:
    """Each element converted from degrees to radians: a * pi / 180.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. 16-bit floats are computed in float32 and
    rounded once.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.radians(mx.array([0.0, 180.0]))
        array([0, 3.14159], dtype=float32)
    """

def real(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Real part of each element.

    For complex64 the result is float32; other dtypes do not change.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.real(mx.array([1 + 2j, 3 - 1j]))
        array([1, 3], dtype=float32)
    """

def reciprocal(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """1 / a for each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.reciprocal(mx.array([2.0, 4.0]))
        array([0.5, 0.25], dtype=float32)
    """

def remainder(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """What is left of a after division by b, with the sign of b: a % b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. a equals
    b * floor_divide(a, b) + remainder(a, b). Integers give 0 where b is 0; floats give NaN.

    Raises: ValueError for complex64, and for shapes that do not broadcast.

    Example:
        >>> mx.remainder(mx.array([7, -7]), 3)
        array([1, 2], dtype=int32)
    """

def repeat(
    array: array, repeats: int, axis: int | None = None, *, stream: StreamOrDevice = None
) -> array:
    """Each element repeated a number of times in a row.

    axis is the axis along which it is done; None flattens first. The dtype stays.

    Raises: ValueError for negative repeats, and for an axis that array does not have.

    Example:
        >>> mx.repeat(mx.array([1, 2]), 2)
        array([1, 1, 2, 2], dtype=int32)
        >>> mx.repeat(mx.array([[1, 2]]), 2, axis=0)
        array([[1, 2],
               [1, 2]], dtype=int32)
    """

def reset_peak_memory() -> None: ...
def reshape(a: array, /, shape: Sequence[int], *, stream: StreamOrDevice = None) -> array:
    """The elements of a, in row-major order, under another shape.

    The product of the extents stays; one extent may be -1 and follows from the others. The
    dtype stays. No element is moved where a view is possible.

    Raises: ValueError when the number of elements differs, or more than one extent is -1;
        TypeError when shape is no sequence of ints.

    Example:
        >>> mx.reshape(mx.array([1, 2, 3, 4, 5, 6]), (2, -1))
        array([[1, 2, 3],
               [4, 5, 6]], dtype=int32)
    """

def result_type(*arrays_and_dtypes: array | Dtype) -> Dtype: ...
def right_shift(
    a: scalar | array, b: scalar | array, stream: StreamOrDevice = None
) -> array:
    """Bits of a moved to the right by b places: a >> b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. The
    operands are integers; bools are taken as uint8. Signed numbers keep their sign: a shift by
    the width of the type or more, or by a negative number, gives 0, or -1 for negative numbers.

    Raises: ValueError for floats, complex64 and uint64 with a signed integer, and for shapes
        that do not broadcast.

    Example:
        >>> mx.right_shift(mx.array([8, -8]), 2)
        array([2, -2], dtype=int32)
    """

def roll(
    a: array,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    /,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """a with its elements moved along the axes; what leaves at one end enters at the other.

    shift is how far: one number, or one for each axis; negative numbers move backwards. axis
    None rolls a as if it were flat and keeps its shape; with one axis several shifts are added
    up.

    Raises: ValueError for an axis that a does not have, and when there are fewer shifts than
        axes.

    Example:
        >>> mx.roll(mx.array([1, 2, 3, 4]), 1)
        array([4, 1, 2, 3], dtype=int32)
        >>> mx.roll(mx.array([[1, 2], [3, 4]]), 1, 0)
        array([[3, 4],
               [1, 2]], dtype=int32)
    """

def round(a: array, /, decimals: int = 0, stream: StreamOrDevice = None) -> array:
    """Each element rounded to a number of decimals, halves to the even neighbour.

    decimals may be negative: -2 rounds to hundreds. The result has the shape and dtype of a.
    Integers change only for negative decimals, and then exactly; of complex64 both parts are
    rounded. A number that would overflow on the way does not change.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.round(mx.array([0.5, 1.5, 2.718]))
        array([0, 2, 3], dtype=float32)
        >>> mx.round(mx.array([2.718]), 2)
        array([2.72], dtype=float32)
    """

def rsqrt(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """1 / sqrt(a) for each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Negative real numbers give
    NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.rsqrt(mx.array([1.0, 4.0]))
        array([1, 0.5], dtype=float32)
    """

def save(file: str | Path | BinaryIO, arr: array) -> None: ...
def save_gguf(
    file: str | Path | BinaryIO,
    arrays: dict[str, array],
    metadata: dict[str, array | str | list[str]],
) -> None: ...
def save_safetensors(
    file: str | Path | BinaryIO,
    arrays: dict[str, array],
    metadata: dict[str, str] | None = None,
) -> None: ...
def savez(file: str | Path | BinaryIO, *args: Any, **kwargs: Any) -> None: ...
def savez_compressed(file: str | Path | BinaryIO, *args: Any, **kwargs: Any) -> None: ...
def searchsorted(
    sorted_sequence: array,
    values: array,
    /,
    side: str = "left",
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Positions at which values would have to be inserted into a sorted sequence to keep its
    order.

    sorted_sequence has one axis and is in ascending order, which is not checked; values has any
    shape, which the result has, in uint32. side tells where a value that is there already goes:
    before the equal ones ("left") or behind them ("right").

    Raises: ValueError for another side, and when sorted_sequence has not one axis.

    Example:
        >>> mx.searchsorted(mx.array([1, 3, 5, 7]), mx.array([3, 6, 0]))
        array([1, 3, 0], dtype=uint32)
    """

def segmented_mm(
    a: array, b: array, /, segments: array, *, stream: StreamOrDevice = None
) -> array:
    """Matrix products over segments of the inner axis.

    a is (m, k), b is (k, n), segments (..., 2) has pairs of integers. Result (..., m, n) holds
    a[:, begin:end] @ b[begin:end] for each pair; an empty segment gives zeros. The operands are
    promoted to a common float dtype or complex64.

    Raises: ValueError for shapes that do not fit, segments that are not integers, and
        complex64; IndexError, when the result is read, for a number below 0 or above k.

    Example:
        >>> segments = mx.array([[0, 1], [1, 4]])
        >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 2)), segments)
        array([[[1, 1]],
               [[3, 3]]], dtype=float32)
    """

def set_cache_limit(limit: int) -> int: ...
def set_default_device(device: Device | DeviceType) -> None: ...
def set_default_stream(stream: Stream) -> None: ...
def set_memory_limit(limit: int) -> int: ...
def set_printoptions(precision: int = -1) -> None: ...
def set_wired_limit(limit: int) -> int: ...
def sigmoid(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logistic function of each element: 1 / (1 + exp(-a)).

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.sigmoid(mx.array([-1.0, 0.0, 1.0]))
        array([0.268941, 0.5, 0.731059], dtype=float32)
    """

def sign(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Sign of each element: -1, 0 or 1.

    The result has the shape and dtype of a. NaN gives NaN. For complex64 it is a / abs(a), and
    0 for 0.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.sign(mx.array([-2.0, 0.0, 3.0]))
        array([-1, 0, 1], dtype=float32)
    """

def sin(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Sine of each element, an angle in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.sin(mx.array([0.0, 1.0]))
        array([0, 0.841471], dtype=float32)
    """

def sinh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic sine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.sinh(mx.array([0.0, 1.0]))
        array([0, 1.1752], dtype=float32)
    """

def slice(
    a: array,
    start_indices: array,
    axes: Sequence[int],
    slice_size: Sequence[int],
    *,
    stream: StreamOrDevice = None,
) -> array:
    """The part of a that begins at start_indices and has the shape slice_size.

    start_indices is an array of integers, one for each entry of axes; a slice begins there
    along that axis, and at 0 along others. slice_size has one extent for each axis of a. Other
    than with a[i:j] the beginning may be the result of a computation.

    Raises: ValueError when slice_size does not fit into a, start_indices has not one entry for
        each axis, or axes repeat; IndexError, when the result is read, where the slice does not
        fit behind its beginning.

    Example:
        >>> mx.slice(mx.arange(10), mx.array([2]), (0,), (3,))
        array([2, 3, 4], dtype=int32)
    """

def slice_update(
    a: array,
    update: array,
    start_indices: array,
    axes: Sequence[int],
    *,
    stream: StreamOrDevice = None,
) -> array:
    """A copy of a with update written from start_indices on.

    start_indices is an array of integers, one for each entry of axes; along other axes writing
    begins at 0. update is converted to the dtype of a, and its missing leading axes have extent
    1.

    Raises: ValueError when update does not fit into a, start_indices has not one entry for each
        axis, or axes repeat; IndexError, when the result is read, where update does not fit
        behind its beginning.

    Example:
        >>> mx.slice_update(mx.zeros(5), mx.ones(2), mx.array([2]), (0,))
        array([0, 0, 1, 1, 0], dtype=float32)
    """

def softmax(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    *,
    precise: bool = False,
    stream: StreamOrDevice = None,
) -> array:
    """exp(a) divided by the sum of exp(a) along the axes.

    axis is one axis or several; None means all. The largest element is subtracted first where
    exponentials would overflow. Integers and bools give float32; other dtypes stay. 16-bit
    floats are computed in float32, with or without precise.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.softmax(mx.array([[0.0, 0.0], [0.0, 1.0]]), axis=-1)
        array([[0.5, 0.5],
               [0.268941, 0.731059]], dtype=float32)
    """

def sort(a: array, /, axis: int | None = -1, *, stream: StreamOrDevice = None) -> array:
    """The elements in ascending order along an axis.

    axis None sorts all elements, flat. The dtype stays. NaN counts as larger than every number,
    and equal elements keep their order.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.sort(mx.array([[3, 1, 2], [9, 8, 7]]))
        array([[1, 2, 3],
               [7, 8, 9]], dtype=int32)
    """

def split(
    a: array,
    /,
    indices_or_sections: int | Sequence[int],
    axis: int = 0,
    *,
    stream: StreamOrDevice = None,
) -> list[array]:
    """a cut into parts along an axis, as a list of arrays.

    An int cuts into as many equal parts; a sequence of indices cuts before each of them, which
    gives one part more. The dtype stays; the parts are views.

    Raises: ValueError when the axis cannot be cut into equal parts, for a number of parts below
        1, and for an axis that a does not have.

    Example:
        >>> mx.split(mx.arange(6), 3)
        [array([0, 1], dtype=int32), array([2, 3], dtype=int32), array([4, 5], dtype=int32)]
        >>> mx.split(mx.arange(6), [1, 4])
        [array([0], dtype=int32), array([1, 2, 3], dtype=int32), array([4, 5], dtype=int32)]
    """

def sqrt(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Square root of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Negative real numbers give
    NaN.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.sqrt(mx.array([4.0, 2.0]))
        array([2, 1.41421], dtype=float32)
    """

def square(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Square of each element: a * a.

    a is an array or a scalar of any shape; shape and dtype stay. Integers wrap.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.square(mx.array([2.0, -3.0]))
        array([4, 9], dtype=float32)
    """

def squeeze(
    a: array, /, axis: int | Sequence[int] | None = None, *, stream: StreamOrDevice = None
) -> array:
    """a without axes of extent 1.

    axis is one axis or several; None drops every axis of extent 1. The result is a view.

    Raises: ValueError for an axis whose extent is not 1, that a does not have, or that is given
        twice.

    Example:
        >>> mx.squeeze(mx.array([[[1], [2]]])).shape
        (2,)
    """

def stack(
    arrays: Sequence[array], axis: int | None = 0, *, stream: StreamOrDevice = None
) -> array:
    """Arrays of one shape joined along a new axis.

    axis is the place of the new axis in the result; None means 0. Dtypes are promoted to a
    common one.

    Raises: ValueError without arrays, when the shapes differ, and for an axis outside of the
        result.

    Example:
        >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """

def std(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Standard deviation of the elements along the axes: the square root of var.

    ddof is subtracted from the number of elements by which the sum of squares is divided. axis
    is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Integers, bools and complex64
    give float32; floats stay.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.std(mx.array([1.0, 2.0, 3.0]), ddof=1)
        array(1, dtype=float32)
    """

def stop_gradient(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """The elements of a, as a constant for gradients.

    The result has the values, shape and dtype of a. grad, vjp and jvp take it for a constant:
    no derivative passes through it to a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
        array(3, dtype=float32)
    """

def stream(s: StreamOrDevice) -> StreamContext: ...
def subtract(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Difference of a and b, element by element: a - b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    wrap.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.subtract(mx.array([1, 2, 3]), 1)
        array([0, 1, 2], dtype=int32)
    """

def sum(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Sum of the elements along the axes.

    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Bools and integers of less
    than 32 bits are summed in 32 bits and give int32 or uint32; other dtypes stay. Integers
    wrap. 16-bit floats are summed in float32 and rounded once. The sum of no elements is 0.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.sum(mx.array([[1, 2], [3, 4]]))
        array(10, dtype=int32)
        >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
        array([4, 6], dtype=int32)
    """

def swapaxes(
    a: array, /, axis1: int, axis2: int, *, stream: StreamOrDevice = None
) -> array:
    """Two axes of a exchanged.

    Negative axes count from the end. The result is a view.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """

def synchronize(stream: StreamOrDevice = None) -> None: ...
def take(
    a: array, /, indices: int | array, axis: int | None = None, *, stream: StreamOrDevice = None
) -> array:
    """The elements or slices of a at indices.

    indices is an int or an array of integers of any shape; negative ones count from the end.
    axis None reads a as flat, and the result has the shape of indices; else that shape takes
    the place of the axis. The dtype stays.

    Raises: ValueError for indices that are not integers, and for an axis that a does not have;
        IndexError, when the result is read, for an index out of range, with its value, position
        and axis.

    Example:
        >>> mx.take(mx.array([10, 20, 30]), mx.array([2, 0]))
        array([30, 10], dtype=int32)
        >>> mx.take(mx.array([[1, 2], [3, 4]]), mx.array([1, 1]), axis=1)
        array([[2, 2],
               [4, 4]], dtype=int32)
    """

def take_along_axis(
    a: array, /, indices: array, axis: int | None = -1, *, stream: StreamOrDevice = None
) -> array:
    """One element of a for each index, along an axis.

    indices is an array of integers with as many axes as a; axes other than axis broadcast, and
    negative indices count from the end. axis None reads a as flat. Element [.., i, ..] of the
    result is a[.., indices[.., i, ..], ..]. The dtype stays.

    Raises: ValueError for shapes that do not fit, indices that are not integers, and an axis
        that a does not have; IndexError, when the result is read, for an index out of range.

    Example:
        >>> mx.take_along_axis(mx.array([[1, 2], [3, 4]]), mx.array([[1], [0]]), axis=1)
        array([[2],
               [3]], dtype=int32)
    """

def tan(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Tangent of each element, an angle in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.tan(mx.array([0.0, 1.0]))
        array([0, 1.55741], dtype=float32)
    """

def tanh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic tangent of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: TypeError when a is no array and no number.

    Example:
        >>> mx.tanh(mx.array([0.0, 1.0]))
        array([0, 0.761594], dtype=float32)
    """

def tensordot(
    a: array,
    b: array,
    /,
    axes: int | Sequence[Sequence[int]] = 2,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Sums of products over several axes of a and b.

    axes is a number n (the last n axes of a with the first n of b), or two sequences with the
    axes of a and of b that belong together. The result has the other axes of a, then those of
    b. The operands are promoted to a common float dtype or complex64.

    Raises: ValueError for pairs of different extents, lists of different lengths, axes that an
        operand does not have, and when both operands are integers or bools.

    Example:
        >>> mx.tensordot(mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]), 1)
        array([3, 7], dtype=float32)
    """

def tile(a: array, reps: int | Sequence[int], /, *, stream: StreamOrDevice = None) -> array:
    """a as a whole repeated along its axes.

    reps is how often, for the last axis, or for each one; it is aligned with the shape at the
    last axis, and missing entries of either are 1. The dtype stays.

    Raises: ValueError for a negative number.

    Example:
        >>> mx.tile(mx.array([1, 2]), (2, 2))
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """

def to_fp8(x: array, *, stream: StreamOrDevice = None) -> array:
    """Floats converted to 8 bits: sign, 4 bits of exponent, 3 bits of fraction (E4M3).

    x has any shape and a float dtype; the result is uint8. Rounding is to nearest even; numbers
    beyond 448 become 448 with their sign, NaN becomes 0x7f. There are no infinities.

    Raises: ValueError when x is not of floats.

    Example:
        >>> mx.to_fp8(mx.array([1.0, 0.5]))
        array([56, 48], dtype=uint8)
    """

def topk(
    a: array, /, k: int, axis: int | None = -1, *, stream: StreamOrDevice = None
) -> array:
    """The k largest elements along an axis, in ascending order.

    axis None takes all elements, flat. Extent k replaces that of the axis; the dtype stays. NaN
    counts as the largest.

    Raises: ValueError for a k below 0 or above the extent, and for an axis that a does not
        have.

    Example:
        >>> mx.topk(mx.array([5, 1, 4, 2]), 2)
        array([4, 5], dtype=int32)
    """

def trace(
    a: array,
    /,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Sum of a diagonal.

    The elements (i, i + offset) of the axes axis1 and axis2 are summed; other axes stay. They
    are converted to dtype first (None: that of a); the dtype of the result is the one that sum
    gives.

    Raises: ValueError for less than two axes, and for axes that a does not have or that are
        equal.

    Example:
        >>> mx.trace(mx.array([[1, 2], [3, 4]]))
        array(5, dtype=int32)
    """

def transpose(
    a: array, /, axes: Sequence[int] | None = None, *, stream: StreamOrDevice = None
) -> array:
    """The axes of a in another order.

    Axis i of the result is axis axes[i] of a; axes names each axis once. None reverses the
    order. The result is a view.

    Raises: ValueError when axes does not name every axis of a once.

    Example:
        >>> mx.transpose(mx.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
        >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
        (3, 2, 4)
    """

def tri(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: Dtype | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """A matrix with ones on and below a diagonal and zeros above it.

    It has n rows and m columns (None: n). The ones are where column - row is at most k. dtype
    None means float32. A negative extent counts as 0.

    Example:
        >>> mx.tri(3)
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]], dtype=float32)
    """

def tril(x: array, k: int = 0, *, stream: StreamOrDevice = None) -> array:
    """x with zeros above a diagonal of the last two axes.

    Elements stay where column - row is at most k. Shape and dtype stay; leading axes are a
    batch.

    Raises: ValueError when x has less than two axes.

    Example:
        >>> mx.tril(mx.array([[1, 2], [3, 4]]))
        array([[1, 0],
               [3, 4]], dtype=int32)
    """

def triu(x: array, k: int = 0, *, stream: StreamOrDevice = None) -> array:
    """x with zeros below a diagonal of the last two axes.

    Elements stay where column - row is at least k. Shape and dtype stay; leading axes are a
    batch.

    Raises: ValueError when x has less than two axes.

    Example:
        >>> mx.triu(mx.array([[1, 2], [3, 4]]))
        array([[1, 2],
               [0, 4]], dtype=int32)
    """

def trunc(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Each element without its fraction: rounded towards 0.

    a is an array or a scalar of any shape, whose dtype stays; integers and bools do not change.

    Raises: ValueError for complex64; TypeError when a is no array and no number.

    Example:
        >>> mx.trunc(mx.array([1.8, -1.8]))
        array([1, -1], dtype=float32)
    """

def unflatten(
    a: array, /, axis: int, shape: Sequence[int], *, stream: StreamOrDevice = None
) -> array:
    """One axis split into several.

    The product of shape is the extent of the axis; one entry may be -1. The other axes and the
    dtype stay.

    Raises: ValueError for another product, an empty shape, and an axis that a does not have.

    Example:
        >>> mx.unflatten(mx.array([1, 2, 3, 4]), 0, (2, -1))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """

def unique(
    a: array,
    /,
    size: int,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    fill_value: scalar | array | None = None,
    *,
    stream: StreamOrDevice = None,
) -> array | tuple[array, ...]:
    """The distinct elements of a, sorted, in an array of the given size.

    a is taken as flat. size fixes the length of the result: with more distinct elements the
    first ones stay, with fewer the rest is fill_value (None: the smallest element). With
    return_index, return_inverse or return_counts the result is a tuple that also has, in this
    order, the first position of each element in a (uint32), the position in the result for each
    element of a (uint32), and how often each occurs (int32; 0 for fill values).

    Raises: ValueError for a size below 0; TypeError when size is missing.

    Example:
        >>> mx.unique(mx.array([3, 1, 2, 1, 3]), size=3)
        array([1, 2, 3], dtype=int32)
        >>> mx.unique(mx.array([3, 1, 1]), size=2, return_counts=True)
        (array([1, 3], dtype=int32), array([2, 1], dtype=int32))
    """

def unstack(
    x: array, /, *, axis: int = 0, stream: StreamOrDevice = None
) -> tuple[array, ...]:
    """The slices of x along an axis, as a tuple of arrays without that axis.

    The dtype stays; the slices are views.

    Raises: ValueError for an axis that x does not have.

    Example:
        >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
        (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    """

def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = [],
) -> Callable[P, tuple[R, Any]]: ...
def var(
    a: array,
    /,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Variance of the elements along the axes.

    The sum of the squared distances from the mean, divided by n - ddof (0 if that is negative).
    axis is one axis or several; None means all of them. With keepdims a reduced axis stays with
    extent 1; without axes (an empty sequence) nothing is reduced. Integers, bools and complex64
    give float32; floats stay. It is computed in two passes and never negative.

    Raises: ValueError for an axis that a does not have, or that is given twice.

    Example:
        >>> mx.var(mx.array([1.0, 2.0, 3.0, 4.0]), ddof=1)
        array(1.66667, dtype=float32)
    """

def vecdot(
    a: array, b: array, /, *, axis: int = -1, stream: StreamOrDevice = None
) -> array:
    """Sums of the products conj(a) * b along one axis.

    The other axes broadcast; axis counts in both operands and is dropped. Dtypes are promoted
    to a common one; integers of less than 32 bits and bools are summed in 32.

    Raises: ValueError for shapes that do not fit, and for an axis that an operand does not
        have.

    Example:
        >>> mx.vecdot(mx.array([[1, 2], [3, 4]]), mx.array([[1, 1], [1, 1]]))
        array([3, 7], dtype=int32)
    """

def view(a: scalar | array, dtype: Dtype, stream: StreamOrDevice = None) -> array:
    """The bits of a, taken for elements of another dtype.

    When the sizes of the dtypes differ, the last axis grows or shrinks. As bool, an element is
    True when its byte is not 0.

    Raises: ValueError when the bytes of the last axis are no multiple of the new size, or a has
        no axes and the sizes differ.

    Example:
        >>> mx.view(mx.array([1.0, 2.0]), mx.int32)
        array([1065353216, 1073741824], dtype=int32)
    """

def vjp(
    fun: Callable[..., Any], primals: Sequence[array], cotangents: Sequence[array]
) -> tuple[list[array], list[array]]: ...
def vmap(fun: Callable[P, R], in_axes: object = 0, out_axes: object = 0) -> Callable[P, R]: ...
def where(
    condition: scalar | array,
    x: scalar | array,
    y: scalar | array,
    /,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """x where condition is true, else y, element by element.

    The three are arrays or scalars whose shapes broadcast. An element of condition is true when
    it is not 0. x and y are promoted to a common dtype, which the result has.

    Raises: ValueError for shapes that do not broadcast; TypeError when an operand is no array
    and no number.

    Example:
        >>> mx.where(mx.array([True, False, True]), mx.array([1, 2, 3]), 0)
        array([1, 0, 3], dtype=int32)
    """

def zeros(
    shape: int | Sequence[int], dtype: Dtype | None = float32, *, stream: StreamOrDevice = None
) -> array:
    """An array of zeros.

    shape is an int for one axis, or a sequence of extents; () gives an array without axes.
    dtype None means float32.

    Raises: ValueError for a negative extent.

    Example:
        >>> mx.zeros((2, 3), dtype=mx.int32)
        array([[0, 0, 0],
               [0, 0, 0]], dtype=int32)
    """

def zeros_like(
    a: array, /, dtype: Dtype | None = None, *, stream: StreamOrDevice = None
) -> array:
    """Zeros of the shape of a.

    dtype None keeps that of a.

    Raises: TypeError when a is no array.

    Example:
        >>> mx.zeros_like(mx.array([1, 2]))
        array([0, 0], dtype=int32)
    """

# Other names of the same functions

acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift
concat = concatenate
conjugate = conj
cumulative_prod = cumprod
cumulative_sum = cumsum
empty = zeros
empty_like = zeros_like
matrix_norm = linalg.norm
permute_dims = transpose
pow = power

# Classes

class array:
    @property
    def T(self) -> array: ...
    def __abs__(self) -> array: ...
    def __add__(self, other: scalar | array) -> array: ...
    def __and__(self, other: scalar | array) -> array: ...
    def __array__(self, dtype: object = None, copy: object = None) -> Any: ...
    def __array_namespace__(self, api_version: str | None = None) -> ModuleType: ...
    def __bool__(self) -> bool: ...
    def __bytes__(self) -> bytes: ...
    def __complex__(self) -> complex: ...
    def __copy__(self) -> array: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> array: ...
    def __div__(self, other: scalar | array) -> array: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: object = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: scalar | array) -> array: ...  # type: ignore[override]
    def __float__(self) -> float: ...
    def __floordiv__(self, other: scalar | array) -> array: ...
    def __format__(self, arg: object, /) -> str: ...
    def __ge__(self, other: scalar | array) -> array: ...
    def __getitem__(self, index: object, /) -> array: ...
    def __getstate__(self) -> tuple[Any, ...]: ...
    def __gt__(self, other: scalar | array) -> array: ...
    def __iadd__(self, other: scalar | array) -> array: ...
    def __iand__(self, other: scalar | array) -> array: ...
    def __ifloordiv__(self, other: scalar | array) -> array: ...
    def __ilshift__(self, other: scalar | array) -> array: ...
    def __imatmul__(self, other: array) -> array: ...
    def __imod__(self, other: scalar | array) -> array: ...
    def __imul__(self, other: scalar | array) -> array: ...
    def __index__(self) -> int: ...
    def __init__(
        self, val: scalar | array | Sequence[Any] | DLPackCompatible, dtype: Dtype | None = None
    ) -> None: ...
    def __int__(self) -> int: ...
    def __invert__(self) -> array: ...
    def __ior__(self, other: scalar | array) -> array: ...
    def __ipow__(self, other: scalar | array) -> array: ...
    def __irshift__(self, other: scalar | array) -> array: ...
    def __isub__(self, other: scalar | array) -> array: ...
    def __iter__(self) -> ArrayIterator: ...
    def __itruediv__(self, other: scalar | array) -> array: ...
    def __ixor__(self, other: scalar | array) -> array: ...
    def __le__(self, other: scalar | array) -> array: ...
    def __len__(self) -> int: ...
    def __lshift__(self, other: scalar | array) -> array: ...
    def __lt__(self, other: scalar | array) -> array: ...
    def __matmul__(self, other: array) -> array: ...
    def __mod__(self, other: scalar | array) -> array: ...
    def __mul__(self, other: scalar | array) -> array: ...
    def __ne__(self, other: scalar | array) -> array: ...  # type: ignore[override]
    def __neg__(self) -> array: ...
    def __or__(self, other: scalar | array) -> array: ...
    def __pos__(self) -> array: ...
    def __pow__(self, other: scalar | array) -> array: ...
    def __radd__(self, other: scalar | array) -> array: ...
    def __rdiv__(self, other: scalar | array) -> array: ...
    def __repr__(self) -> str: ...
    def __rfloordiv__(self, other: scalar | array) -> array: ...
    def __rmod__(self, other: scalar | array) -> array: ...
    def __rmul__(self, other: scalar | array) -> array: ...
    def __rpow__(self, other: scalar | array) -> array: ...
    def __rshift__(self, other: scalar | array) -> array: ...
    def __rsub__(self, other: scalar | array) -> array: ...
    def __rtruediv__(self, other: scalar | array) -> array: ...
    def __setitem__(self, index: object, value: scalar | array, /) -> None: ...
    def __setstate__(self, state: tuple[Any, ...], /) -> None: ...
    def __sub__(self, other: scalar | array) -> array: ...
    def __truediv__(self, other: scalar | array) -> array: ...
    def __xor__(self, other: scalar | array) -> array: ...
    def abs(self, *, stream: StreamOrDevice = None) -> array: ...
    def all(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def any(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def argmax(
        self, axis: int | None = None, keepdims: bool = False, *, stream: StreamOrDevice = None
    ) -> array: ...
    def argmin(
        self, axis: int | None = None, keepdims: bool = False, *, stream: StreamOrDevice = None
    ) -> array: ...
    def astype(self, dtype: Dtype, stream: StreamOrDevice = None) -> array: ...
    @property
    def at(self) -> ArrayAt: ...
    def conj(self, *, stream: StreamOrDevice = None) -> array: ...
    def cos(self, *, stream: StreamOrDevice = None) -> array: ...
    def cummax(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def cummin(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def cumprod(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def cumsum(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def diag(self, k: int = 0, *, stream: StreamOrDevice = None) -> array: ...
    def diagonal(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: StreamOrDevice = None
    ) -> array: ...
    @property
    def dtype(self) -> Dtype: ...
    def exp(self, *, stream: StreamOrDevice = None) -> array: ...
    def flatten(
        self, start_axis: int = 0, end_axis: int = -1, *, stream: StreamOrDevice = None
    ) -> array: ...
    @property
    def imag(self) -> array: ...
    def item(self) -> scalar: ...
    @property
    def itemsize(self) -> int: ...
    def log(self, *, stream: StreamOrDevice = None) -> array: ...
    def log10(self, *, stream: StreamOrDevice = None) -> array: ...
    def log1p(self, *, stream: StreamOrDevice = None) -> array: ...
    def log2(self, *, stream: StreamOrDevice = None) -> array: ...
    def logcumsumexp(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def logsumexp(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    @property
    def mT(self) -> array: ...
    def max(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def mean(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def min(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def moveaxis(
        self, source: int, destination: int, *, stream: StreamOrDevice = None
    ) -> array: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    def prod(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    @property
    def real(self) -> array: ...
    def reciprocal(self, *, stream: StreamOrDevice = None) -> array: ...
    def reshape(self, *shape: int | Sequence[int], stream: StreamOrDevice = None) -> array: ...
    def round(self, decimals: int = 0, *, stream: StreamOrDevice = None) -> array: ...
    def rsqrt(self, *, stream: StreamOrDevice = None) -> array: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def sin(self, *, stream: StreamOrDevice = None) -> array: ...
    @property
    def size(self) -> int: ...
    def split(
        self,
        indices_or_sections: int | Sequence[int],
        axis: int = 0,
        *,
        stream: StreamOrDevice = None,
    ) -> list[array]: ...
    def sqrt(self, *, stream: StreamOrDevice = None) -> array: ...
    def square(self, *, stream: StreamOrDevice = None) -> array: ...
    def squeeze(
        self, axis: int | Sequence[int] | None = None, *, stream: StreamOrDevice = None
    ) -> array: ...
    def std(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        correction: int | None = None,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def sum(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def swapaxes(self, axis1: int, axis2: int, *, stream: StreamOrDevice = None) -> array: ...
    def tolist(self) -> Any: ...
    def transpose(
        self, *axes: int | Sequence[int] | None, stream: StreamOrDevice = None
    ) -> array: ...
    def var(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        correction: int | None = None,
        stream: StreamOrDevice = None,
    ) -> array: ...
    def view(self, dtype: Dtype, *, stream: StreamOrDevice = None) -> array: ...

class ArrayAt:
    def __getitem__(self, indices: object) -> ArrayAt: ...
    def add(self, value: scalar | array) -> array: ...
    def divide(self, value: scalar | array) -> array: ...
    def maximum(self, value: scalar | array) -> array: ...
    def minimum(self, value: scalar | array) -> array: ...
    def multiply(self, value: scalar | array) -> array: ...
    def subtract(self, value: scalar | array) -> array: ...

class ArrayIterator:
    def __iter__(self) -> ArrayIterator: ...
    def __next__(self) -> array: ...

class ArrayLike:
    def __init__(self, arg: object, /) -> None: ...

class Device:
    def __eq__(self, arg: object, /) -> bool: ...
    def __init__(self, type: DeviceType, index: int = 0) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def type(self) -> DeviceType: ...

class DeviceType(enum.Enum):
    cpu = 0
    gpu = 1

class Dtype:
    def __eq__(self, arg: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    @property
    def size(self) -> int: ...

class DtypeCategory(enum.Enum):
    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

class FunctionExporter:
    def __call__(self, *args: Any, **kwargs: Any) -> None: ...
    def __enter__(self) -> FunctionExporter: ...
    def __exit__(
        self, exc_type: object = None, exc_value: object = None, traceback: object = None
    ) -> None: ...
    def close(self) -> None: ...

class PrintOptions:
    def __init__(self, precision: int = -1) -> None: ...
    @property
    def precision(self) -> int: ...
    @precision.setter
    def precision(self, arg: int, /) -> None: ...

class Stream:
    def __eq__(self, arg: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    @property
    def device(self) -> Device: ...

class StreamContext:
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        exc_type: builtins.type | None = None,
        exc_value: object = None,
        traceback: object = None,
    ) -> None: ...
    def __init__(self, s: StreamOrDevice) -> None: ...

class ThreadLocalStream:
    def __eq__(self, arg: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    @property
    def device(self) -> Device: ...

class custom_function:
    def __call__(self, *args: Any, **kwargs: Any) -> object: ...
    def __init__(self, f: Callable[..., Any]) -> None: ...
    def jvp(self, f: Callable[..., Any]) -> None: ...
    def vjp(self, f: Callable[..., Any]) -> None: ...
    def vmap(self, f: Callable[..., Any]) -> None: ...

class finfo:
    def __init__(self, arg: Dtype, /) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def bits(self) -> int: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def eps(self) -> float: ...
    @property
    def max(self) -> float: ...
    @property
    def min(self) -> float: ...
    @property
    def smallest_normal(self) -> float: ...

class iinfo:
    def __init__(self, arg: Dtype, /) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def max(self) -> int: ...
    @property
    def min(self) -> int: ...

class _PrintOptionsContext:
    def __enter__(self) -> _PrintOptionsContext: ...
    def __exit__(self, *args: Any) -> None: ...
    def __init__(self, arg: PrintOptions, /) -> None: ...

class _gc_func:
    def __call__(self, *args: Any, **kwargs: Any) -> object: ...
