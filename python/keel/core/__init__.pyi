"""Arrays and what is computed with them, under the names and signatures of mlx.core.

Arrays are lazy: an operation is remembered, and runs when its result is evaluated (eval),
printed or read. `stream` says where an operation runs: a Stream, a ThreadLocalStream, a Device
or a DeviceType (the default stream of that device); None is the default stream of the default
device.

Operands of several dtypes are promoted to a common one: bool, integers, floats, complex64; a
signed with an unsigned integer gives a signed type that holds both, uint64 with a signed one
float32, float16 with bfloat16 float32. Python numbers adapt to the array beside them. Shapes
broadcast: they are aligned at the last axis, and an extent of 1 or a missing axis is repeated.

Exceptions of the library have the attributes code, operation, index, axis, axis_size, position,
tensor, file and bytes. A failure inside an operation, such as an index out of range, belongs to
its result: it is raised where the result is read, each time.
"""

# This file is the source of the signatures and of the texts that help() shows: the build reads
# it and makes the tables of the extension module from each `def`.

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
    """An object whose memory other libraries can read through DLPack."""

    def __dlpack__(self) -> object:
        """The memory as a DLPack capsule."""

    def __dlpack_device__(self) -> tuple[Any, ...]:
        """The type and the number of the device that holds the memory."""

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

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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
    negative. dtype None: float32 when a number given is no int, int64 when one is beyond
    int32, else int32; integer dtypes first drop the fractions of start and step. Ints are
    taken exactly. The result is empty when stop does not lie ahead.

    Raises: ValueError for a step of 0, NaN, infinite ends, bool, and too many elements;
    TypeError for what is no number, and ints beyond 64 bits.

    Example:
        >>> mx.arange(4)
        array([0, 1, 2, 3], dtype=int32)
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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.arccos(mx.array([1.0, 0.0, -1.0]))
        array([0, 1.5708, 3.14159], dtype=float32)
    """

def arccosh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse hyperbolic cosine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Real numbers below 1 give
    NaN.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.arccosh(mx.array([1.0, 2.0]))
        array([0, 1.31696], dtype=float32)
    """

def arcsin(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse sine of each element, an angle from -pi/2 to pi/2 in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. Real numbers outside of [-1,
    1] give NaN.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.arcsin(mx.array([0.0, 0.5, 1.0]))
        array([0, 0.523599, 1.5708], dtype=float32)
    """

def arcsinh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse hyperbolic sine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.arcsinh(mx.array([0.0, 1.0]))
        array([0, 0.881374], dtype=float32)
    """

def arctan(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse tangent of each element, an angle from -pi/2 to pi/2 in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

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

def argwhere(
    a: array, /, *, size: int | None = None, fill_value: int = 0, stream: StreamOrDevice = None
) -> array:
    """The indices of the elements of a that are not 0: int32, of shape (elements, axes of a).

    size and fill_value are those of nonzero.

    Example:
        >>> mx.argwhere(mx.array([[0, 3], [4, 0]]))
        array([[0, 1],
               [1, 0]], dtype=int32)
    """

def array_equal(
    a: scalar | array, b: scalar | array, equal_nan: bool = False, stream: StreamOrDevice = None
) -> array:
    """Whether a and b have the same shape and equal elements.

    a and b are arrays or scalars; their dtypes are promoted before they are compared. With
    equal_nan, NaN is equal to NaN. The result is a bool array without axes; other shapes give
    False.

    Raises: ValueError when an operand is neither an array nor a number.

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

def astype(a: array, /, dtype: Dtype, *, stream: StreamOrDevice = None) -> array:
    """a converted to another dtype.

    Floats become integers by dropping the fraction; numbers beyond the range become the nearest
    end of it, and NaN becomes 0. To bool: whether the element is not 0. From complex64 the real
    part stays. Rounding is to nearest even. The shape stays.

    Raises: TypeError when dtype is no Dtype.

    Example:
        >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
        array([1, -1], dtype=int32)
    """

def async_eval(*args: Any) -> None:
    """Submits everything that the arrays need, and returns at once.

    Arguments are arrays or trees of them. Reading an array waits for it, and raises the error
    if it failed.

    Raises: ValueError inside a function that is being transformed.

    Example:
        >>> x = mx.ones((2, 2)) + 1
        >>> mx.async_eval(x)
    """

def atleast_1d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least one axis.

    An array without axes gets one of extent 1; others stay. One argument gives an array,
    several give a list.

    Raises: ValueError for what is neither an array nor a number.

    Example:
        >>> mx.atleast_1d(mx.array(5))
        array([5], dtype=int32)
    """

def atleast_2d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least two axes.

    Axes of extent 1 are put in front: (n) becomes (1, n). One argument gives an array, several
    give a list.

    Raises: ValueError for what is neither an array nor a number.

    Example:
        >>> mx.atleast_2d(mx.array([1, 2]))
        array([[1, 2]], dtype=int32)
    """

def atleast_3d(*arys: array, stream: StreamOrDevice = None) -> array | list[array]:
    """Each array with at least three axes.

    (n) becomes (1, n, 1) and (n, m) becomes (n, m, 1). One argument gives an array, several
    give a list.

    Raises: ValueError for what is neither an array nor a number.

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

def can_cast(from_: array | Dtype, to: Dtype) -> bool:
    """Whether one dtype may be converted to another by the rules of promotion.

    from_ is a Dtype or an array, whose dtype counts. An integer may become a float and a float
    may become complex64; a larger type may not become a smaller one.

    Raises: TypeError for what is no Dtype or array.

    Example:
        >>> mx.can_cast(mx.int8, mx.float16), mx.can_cast(mx.float32, mx.int32)
        (True, False)
    """

def cbrt(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Real cube root of each element, also of negative numbers.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. The gradient is 1 / (3 cbrt(a)**2), which
    is infinite at 0. MLX has no such function.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.cbrt(mx.array([-8.0, 27.0]))
        array([-2, 3], dtype=float32)
    """

def ceil(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Smallest whole number that is not below each element.

    a is an array or a scalar of any shape, whose dtype stays; integers and bools do not change.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.ceil(mx.array([1.2, -1.2, 3.0]))
        array([2, -1, 3], dtype=float32)
    """

def checkpoint(fun: Callable[P, R]) -> Callable[P, R]:
    """A function that does what fun does and forgets the values inside fun.

    The gradient computes them again from the operations that were recorded, when it needs them:
    less memory for about one more forward pass. Arguments and results may be trees: dicts,
    lists and tuples with arrays in them. fun is called once. Chen et al., "Training Deep Nets
    with Sublinear Memory Cost", 2016.

    Raises: TypeError when fun cannot be called. What fun raises comes through.

    Example:
        >>> mx.grad(mx.checkpoint(lambda x: x * x))(mx.array(3.0))
        array(6, dtype=float32)
    """

def clear_cache() -> None:
    """Gives memory that is kept for reuse back to the system.

    Example:
        >>> mx.clear_cache()
    """

def clear_streams() -> None:
    """Drops the streams that the calling thread has made.

    Work that was submitted is finished first. Default streams are made again when they are
    needed.
    """

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
) -> Callable[P, R]:
    """A function that does what fun does, traced once for each kind of arguments.

    The first call with arguments of new dtypes and shapes (with shapeless: of new dtypes and
    numbers of axes) calls fun with placeholders; later calls replay its operations. With shapeless
    a size that fun reads (x.shape[0]) is compared, and for another fun is called again. Arguments
    and results may be trees: dicts, lists and tuples with arrays in them. Other arrays that fun
    reads or changes are named by inputs and outputs, as trees; without that, what it reads is
    constant. It works as a decorator.

    Raises: TypeError when fun cannot be called; ValueError, when the function is called, where
        fun evaluates a placeholder. What fun raises comes through.

    Example:
        >>> mx.compile(lambda x: mx.exp(x) + 1)(mx.array(0.0))
        array(2, dtype=float32)
    """

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

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

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
    float dtypes, which are promoted.

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
        >>> x, w = mx.ones((1, 8, 2)), mx.ones((4, 3, 2))
        >>> mx.conv_general(x, w, stride=2, padding=([1], [2])).shape
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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.cos(mx.array([0.0, 1.0]))
        array([1, 0.540302], dtype=float32)
    """

def cosh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic cosine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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
    """

def default_device() -> Device:
    """The device on which operations run unless they name another.

    It is a GPU where one can be used, else the CPU, until set_default_device changes it.

    Example:
        >>> isinstance(mx.default_device(), mx.Device)
        True
    """

def default_stream(device: Device | DeviceType) -> Stream:
    """The calling thread's default stream of a device.

    device is a Device or a DeviceType (its first device). It is made at the first use.
    Operations without a stream run on that of the default device.

    Raises: ValueError when the device does not exist.

    Example:
        >>> mx.default_stream(mx.cpu).device
        Device(cpu, 0)
    """

def degrees(a: scalar | array, /, *, stream: StreamOrDevice = None) -> array:
    """Each element converted from radians to degrees: a * 180 / pi.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. 16-bit floats are computed in float32 and
    rounded once.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for what is neither an array nor a number.

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

def device_count(device_type: DeviceType) -> int:
    """The number of devices of a type that can be used.

    Raises: TypeError when device_type is no DeviceType.

    Example:
        >>> mx.device_count(mx.cpu)
        1
    """

def device_info(d: Device | DeviceType | None = None) -> dict[str, str | int]:
    """What is known about a device, as a dict.

    d is a Device or a DeviceType; None is the default device. Keys are names such as
    "device_name" and "architecture", values texts or ints; which ones there are depends on the
    device. A device that does not exist gives an empty dict.

    Example:
        >>> isinstance(mx.device_info(mx.cpu), dict)
        True
    """

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

def disable_compile() -> None:
    """Makes compiled functions call their Python function each time, in the whole process.

    enable_compile takes it back. It helps when a function is debugged.

    Example:
        >>> mx.disable_compile()
        >>> mx.enable_compile()
    """

def divide(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Quotient of a and b, element by element: a / b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are divided in float32. Division by 0 gives inf, -inf or NaN.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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
    alphabetical order.

    Raises: ValueError for subscripts that cannot be read or do not fit, products of integers
        that are summed over an axis of both, and more than 64 operands.

    Example:
        >>> mx.einsum("ij,j->i", mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]))
        array([3, 7], dtype=float32)
    """

def einsum_path(subscripts: str, *operands: array) -> tuple[list[tuple[int, ...]], str]:
    """The order in which einsum multiplies its operands, and what it costs.

    The result is a list of tuples with the positions of the operands of each step (a result
    goes to the end of the list), and a text with the numbers of operations. Nothing is
    computed. Up to 8 operands the order has the fewest multiplications; of more, each step
    takes the pair whose result is smallest beside its operands.

    Raises: ValueError for subscripts that cannot be read or that do not fit the operands.

    Example:
        >>> path, text = mx.einsum_path("ij,jk->ik", mx.ones((2, 3)), mx.ones((3, 4)))
        >>> path
        [(0, 1)]
    """

def enable_compile() -> None:
    """Makes compiled functions replay their traces again, after disable_compile.

    It holds for the whole process and is how a process begins, unless the environment says
    otherwise.

    Example:
        >>> mx.enable_compile()
    """

def equal(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a and b are equal, element by element: a == b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. NaN is not equal to anything.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

    Example:
        >>> mx.equal(mx.array([1, 2, 3]), mx.array([1, 5, 3]))
        array([True, False, True], dtype=bool)
    """

def erf(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Error function of each element.

    It is 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to a. a is an array or a scalar
    of any shape. Integers and bools are computed in float32; floats keep their dtype. The
    result has the shape of a.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.erf(mx.array([0.5, 1.0]))
        array([0.5205, 0.842701], dtype=float32)
    """

def erfinv(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Inverse of the error function of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. 1 and -1 give infinities, numbers beyond
    them NaN.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.erfinv(mx.array([0.0, 0.5]))
        array([0, 0.476936], dtype=float32)
    """

def eval(*args: Any) -> None:
    """Computes arrays and waits for them.

    Arguments are arrays or trees of them; what is no array is passed over. Operations are lazy:
    they run when their result is evaluated, printed or read. All arguments are evaluated
    together.

    Raises: the error of the first array that failed (for example IndexError for an index out of
        range), after all have settled.

    Example:
        >>> x = mx.ones((2, 2)) + 1
        >>> mx.eval(x)
    """

def exp(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """e to the power of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for complex64, and when a is neither an array nor a number.

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
) -> None:
    """Writes what fun does to a file, which can be called in another process.

    fun is traced with args and kwargs, arrays whose dtypes and shapes count; with shapeless the
    sizes of axes may differ in later calls. Arrays that fun finds elsewhere become constants in
    the file, whose format is Keel's own. metadata is a text that is kept in the file.

    A callback in place of the file name is called with dicts that describe the function. Their
    "type" is "inputs" (values), "keyword_inputs" (pairs of an argument's name and a value's name),
    "outputs" (values), "constants" (pairs of a value's name and an array), and then for each
    operation "primitive", with its "name", "inputs", "outputs" and "arguments". A value is its
    name, its shape and its dtype. Names of operations and their arguments are Keel's own.

    With shapeless, sizes that fun reads (x.shape[0]) must be the same in later calls.

    Raises: ValueError when fun evaluates an argument or calls what cannot be exported, and for
        metadata with a callback; RuntimeError when the file cannot be written. What fun or the
        callback raises comes through.

    Example:
        >>> mx.export_function("double.mlxfn", lambda x: x * 2, mx.array(1.0))
        >>> mx.import_function("double.mlxfn")(mx.array(3.0))
        (array(6, dtype=float32),)
    """

def export_to_dot(file: object, *args: Any, **kwargs: Any) -> None:
    """Writes the graph of operations behind arrays, in the language of Graphviz.

    file is a name or a file that is open for text; args are the arrays, kwargs give arrays
    names. Arrays that are evaluated have no operations behind them.

    Raises: RuntimeError when the file cannot be written.

    Example:
        >>> mx.export_to_dot("graph.dot", mx.array(1) + 1)
    """

def exporter(
    file: str, fun: Callable[..., Any], *, shapeless: bool = False, metadata: str | None = None
) -> FunctionExporter:
    """A context that writes several traces of fun into one file.

    Inside of `with`, each call traces fun for the names, dtypes and shapes of its arguments. The
    file is written at the end. shapeless and metadata are as in export_function.

    Raises: TypeError when fun cannot be called; RuntimeError, at the end, when the file cannot
        be written.

    Example:
        >>> with mx.exporter("inc.mlxfn", lambda x: x + 1) as export:
        ...     export(mx.ones(2))
        >>> mx.import_function("inc.mlxfn")(mx.ones(2))
        (array([2, 2], dtype=float32),)
    """

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

def flatnonzero(
    a: array, /, *, size: int | None = None, fill_value: int = 0, stream: StreamOrDevice = None
) -> array:
    """The positions of the elements of a, read as flat, that are not 0: int32.

    size and fill_value are those of nonzero.

    Example:
        >>> mx.flatnonzero(mx.array([0, 3, 0, 4]))
        array([1, 3], dtype=int32)
    """

def floor(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Largest whole number that is not above each element.

    a is an array or a scalar of any shape, whose dtype stays; integers and bools do not change.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

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
    give 0 where b is 0; of floats the exact quotient is rounded down: 1.0 // 0.1 is 9.

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
        >>> mx.full((2, 2), mx.array([1, 2]))
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

def get_active_memory() -> int:
    """Bytes of memory that arrays hold now.

    Example:
        >>> mx.get_active_memory() >= 0
        True
    """

def get_array_buffer_size(*args: Any) -> int:
    """Bytes of the memory blocks that hold the given arrays.

    Arguments are arrays or trees of them; a block that several share counts once.

    Raises: ValueError for an array that has not been evaluated.

    Example:
        >>> x = mx.ones(1024)
        >>> mx.eval(x)
        >>> mx.get_array_buffer_size(x) >= x.nbytes
        True
    """

def get_cache_memory() -> int:
    """Bytes of memory that are free but kept for reuse.

    clear_cache gives them back to the system.

    Example:
        >>> mx.get_cache_memory() >= 0
        True
    """

def get_memory_limit() -> int:
    """The limit in bytes that set_memory_limit set, or the one that was chosen at the start.

    Example:
        >>> mx.get_memory_limit() > 0
        True
    """

def get_peak_memory() -> int:
    """The largest number of bytes that arrays have held since the start or reset_peak_memory.

    Example:
        >>> mx.get_peak_memory() >= 0
        True
    """

def get_printoptions() -> PrintOptions:
    """How arrays are printed in the calling thread, as PrintOptions.

    Example:
        >>> mx.get_printoptions().precision
        -1
    """

def grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = [],
) -> Callable[P, Any]:
    """A function that computes the gradient of fun.

    fun returns an array without axes; value_and_grad also takes one that returns more. argnums
    is the position of the argument to differentiate for, or several (None: the first, unless
    argnames are given); argnames are names of keyword arguments. Arguments may be trees of
    dicts, lists and tuples; the result has the structure of the argument. With several argnums
    it is a tuple, with argnames a pair of that and a dict.

    Raises: ValueError for a negative argnum; when called, for a missing argument, a result with
        axes, and arguments that are neither floats nor complex64. What fun raises comes
        through.

    Example:
        >>> mx.grad(lambda p: (p["w"] * p["w"]).sum())({"w": mx.array([1.0, 2.0])})
        {'w': array([2, 4], dtype=float32)}
    """

def greater(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a is larger than b, element by element: a > b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. With NaN it is False. Complex
    numbers are ordered by their real, then by their imaginary parts.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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
        >>> mx.hanning(5)[:3]
        array([0, 0.5, 1], dtype=float32)
    """

def hypot(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """The length sqrt(a ** 2 + b ** 2), as numpy.hypot: no square overflows on the way.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are computed in float32. MLX has no such function.

    Raises: ValueError for complex64, for shapes that do not broadcast, and for operands that
    are neither arrays nor numbers.

    Example:
        >>> mx.hypot(mx.array([3.0, 0.0]), mx.array([4.0, -2.0]))
        array([5, 2], dtype=float32)
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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.imag(mx.array([1 + 2j, 3 - 1j]))
        array([2, -1], dtype=float32)
    """

def import_function(
    file: str, return_metadata: bool = False
) -> Callable[..., tuple[array, ...]] | tuple[Callable[..., tuple[array, ...]], str]:
    """A function from a file that export_function or exporter wrote.

    It takes arrays of the dtypes and shapes for which it was exported and returns a tuple of
    arrays. With return_metadata the result is a pair of the function and the metadata text, which
    is "" where none was given.

    Raises: RuntimeError when the file cannot be read or breaks a rule of the format;
        ValueError, when the function is called, for arguments for which it was not exported.

    Example:
        >>> mx.export_function("add.mlxfn", lambda x, y: x + y, mx.array(1.0), mx.array(1.0))
        >>> mx.import_function("add.mlxfn")(mx.array(2.0), mx.array(3.0))
        (array(5, dtype=float32),)
    """

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

def is_available(device: Device | DeviceType) -> bool:
    """Whether a device can be used.

    device is a Device or a DeviceType (its first device).

    Raises: TypeError when device is neither.

    Example:
        >>> mx.is_available(mx.cpu)
        True
    """

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

    Example:
        >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0 + 1e-7, 2.1]))
        array([True, False], dtype=bool)
    """

def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether dtype is of a kind.

    kind is a Dtype, a name or a tuple of these: "bool", "signed integer", "unsigned integer",
    "integral", "real floating", "complex floating" or "numeric", as in the Python array API
    standard.

    Raises: ValueError for another name; TypeError for what is neither.

    Example:
        >>> mx.isdtype(mx.int8, "integral"), mx.isdtype(mx.int8, ("real floating", mx.int8))
        (True, True)
    """

def isfinite(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is neither NaN nor infinite.

    a has any shape and dtype; of complex64 both parts are tested. The result is bool, of the
    shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.isfinite(mx.array([1.0, mx.inf, mx.nan]))
        array([True, False, False], dtype=bool)
    """

def isinf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is infinite, with either sign.

    a has any shape and dtype; of complex64 it is enough that one part is. The result is bool,
    of the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.isinf(mx.array([1.0, -mx.inf, mx.nan]))
        array([False, True, False], dtype=bool)
    """

def isnan(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is NaN.

    a has any shape and dtype; of complex64 it is enough that one part is. The result is bool,
    of the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.isnan(mx.array([1.0, mx.inf, mx.nan]))
        array([False, False, True], dtype=bool)
    """

def isneginf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is negative infinity.

    a has any shape and dtype. The result is bool, of the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.isneginf(mx.array([-mx.inf, 0.0, mx.inf]))
        array([True, False, False], dtype=bool)
    """

def isposinf(a: array, stream: StreamOrDevice = None) -> array:
    """Whether each element is positive infinity.

    a has any shape and dtype. The result is bool, of the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.isposinf(mx.array([-mx.inf, 0.0, mx.inf]))
        array([False, False, True], dtype=bool)
    """

def issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory) -> bool:
    """Whether a dtype or category is part of another one.

    A Dtype contains itself. Categories are generic, number, integer, signedinteger,
    unsignedinteger, inexact, floating and complexfloating.

    Raises: TypeError for what is neither a Dtype nor a DtypeCategory.

    Example:
        >>> mx.issubdtype(mx.float32, mx.inexact), mx.issubdtype(mx.int8, mx.floating)
        (True, False)
    """

def jvp(
    fun: Callable[..., Any], primals: Sequence[array], tangents: Sequence[array]
) -> tuple[list[array], list[array]]:
    """What fun returns for primals, and the Jacobian-vector products with tangents.

    fun takes and returns arrays. tangents has one array for each primal, of its shape and
    dtype; the result is a pair of lists: the outputs, and one product for each output. Forward
    mode: one pass for all outputs.

    Raises: ValueError for another number, shape or dtype of tangents. What fun raises comes
        through.

    Example:
        >>> mx.jvp(lambda x: x * x, [mx.array(3.0)], [mx.array(1.0)])
        ([array(9, dtype=float32)], [array(6, dtype=float32)])
    """

def kron(a: array, b: array, *, stream: StreamOrDevice = None) -> array:
    """Kronecker product: each element of a replaced by its product with all of b.

    The shapes are aligned at the last axis; each extent is the product of both. Dtypes are
    promoted to a common one.

    Raises: ValueError for what is neither an array nor a number.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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
) -> array | dict[str, array] | tuple[dict[str, array], dict[str, Any]]:
    """An array, or a dict of arrays, from a file.

    file is a name, a Path, or a file that is open for bytes. format is "npy", "npz",
    "safetensors" or "gguf"; None takes it from the end of the name. A .npy file gives an array,
    others a dict of names and arrays; with return_metadata (safetensors, gguf) a pair of that
    and the metadata. Arrays read their bytes when they are used;
    the file may be closed before: from other files than those of the system the bytes are read
    by this call. Numbers of 8 bits with a fraction (F8_E4M3, ...) are uint8, for from_fp8.

    Raises: RuntimeError when the file cannot be read or breaks a rule of its format, and, when
        an array is used, where its bytes are missing; ValueError for another format.

    Example:
        >>> mx.save("a.npy", mx.array([1, 2]))
        >>> mx.load("a.npy")
        array([1, 2], dtype=int32)
    """

def log(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Natural logarithm of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.log(mx.array([1.0, 10.0]))
        array([0, 2.30259], dtype=float32)
    """

def log10(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logarithm to the base 10 of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.log10(mx.array([1.0, 1000.0]))
        array([0, 3], dtype=float32)
    """

def log_softmax(a: array, /, axis: int = -1, *, stream: StreamOrDevice = None) -> array:
    """The logarithm of softmax along an axis, a - logsumexp(a), in one pass.

    Elements far below the others keep their distance, where the logarithm of softmax would be
    -infinity. Integers and bools give float32; other dtypes stay. 16-bit floats are computed in
    float32. Along an axis with NaN the result is NaN. MLX has this function in nn only.

    Raises: ValueError for an axis that a does not have.

    Example:
        >>> mx.log_softmax(mx.array([[0.0, 0.0], [0.0, -1000.0]]))
        array([[-0.693147, -0.693147],
               [0, -1000]], dtype=float32)
    """

def log1p(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """log(1 + a) of each element, accurate also where a is close to 0.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. -1 gives -inf; real numbers
    below -1 give NaN.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.log1p(mx.array([0.0, 1e-6]))
        array([0, 1e-06], dtype=float32)
    """

def log2(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logarithm to the base 2 of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a. 0 gives -inf; negative real
    numbers give NaN.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

    Example:
        >>> mx.logical_and(mx.array([True, True, False]), mx.array([True, False, False]))
        array([True, False, False], dtype=bool)
    """

def logical_not(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Whether each element is 0 (or False).

    a has any shape and dtype; NaN counts as true. The result is bool, of the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.logical_not(mx.array([True, False]))
        array([False, True], dtype=bool)
    """

def logical_or(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Whether a or b is true, or both, element by element.

    a and b have any dtype, and their shapes broadcast; an element is true when it is not 0 (NaN
    is true). The result is bool.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

def matrix_transpose(a: array, /, stream: StreamOrDevice = None) -> array:
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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for another indexing.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

def new_stream(device: Device | DeviceType) -> Stream:
    """A new stream of a device.

    Operations of one stream run in order; different streams run side by side. device is a
    Device or a DeviceType (its first device). The stream may be used by any thread.

    Raises: ValueError when the device does not exist.

    Example:
        >>> mx.new_stream(mx.cpu).device
        Device(cpu, 0)
    """

def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """A stream that stands for another stream on each thread.

    device is a Device or a DeviceType (its first device). Each thread that uses it gets a
    stream of its own, which is made at the first use.

    Raises: ValueError when the device does not exist.

    Example:
        >>> mx.new_thread_local_stream(mx.cpu).device
        Device(cpu, 0)
    """

def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """A new stream of a device; the same as new_stream.

    MLX has streams that only one thread may use at a time; in Keel all streams may be used by
    any thread. device is a Device or a DeviceType (its first device).

    Raises: ValueError when the device does not exist.

    Example:
        >>> mx.new_thread_unsafe_stream(mx.cpu).device
        Device(cpu, 0)
    """

def nonzero(
    a: array,
    /,
    *,
    size: int | None = None,
    fill_value: int | Sequence[int] = 0,
    stream: StreamOrDevice = None,
) -> tuple[array, ...]:
    """The indices of the elements of a that are not 0: an array for each axis, int32.

    The elements come in row-major order. How many there are depends on the values of a, so a is
    evaluated. In a function of grad, vjp and jvp this works; in one of compile, vmap and export
    an argument has no values, and size says how many there are to be: the first ones, and where
    there are fewer, fill_value, an int or one for each axis, in the places that are left.

    Raises: ValueError for an array without axes, for a negative size, and without a size where a
        has no values.

    Example:
        >>> mx.nonzero(mx.array([0, 3, 0, 4]))
        (array([1, 3], dtype=int32),)
        >>> mx.nonzero(mx.array([0, 3, 0, 4]), size=3, fill_value=-1)
        (array([1, 3, -1], dtype=int32),)
    """

def not_equal(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Whether a and b differ, element by element: a != b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one before they are compared. The result is bool. NaN differs from everything, also
    from itself.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.ones_like(mx.array([5, 7]), dtype=mx.float16)
        array([1, 1], dtype=float16)
    """

def outer(a: array, b: array, /, *, stream: StreamOrDevice = None) -> array:
    """Matrix of the products a[i] * b[j].

    Both operands are taken as flat; their dtypes are promoted to a common one.

    Raises: ValueError for what is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

    Example:
        >>> mx.power(mx.array([1.0, 2.0, 3.0]), 2)
        array([1, 4, 9], dtype=float32)
    """

def printoptions(precision: int = -1) -> _PrintOptionsContext:
    """A context in which arrays are printed with other options.

    precision is as in set_printoptions; the options before come back at the end of `with`.

    Raises: TypeError when precision is no int.

    Example:
        >>> with mx.printoptions(precision=3):
        ...     print(mx.array(3.14159))
        array(3.142, dtype=float32)
    """

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
    """A matrix quantized by groups of its rows.

    The result is a list [packed, scales, biases]; only affine has biases. w has two axes or
    more, and float16, bfloat16 or float32; packed is uint32, the lowest bits first. mode
    "affine": numbers of bits 2, 3, 4, 5, 6 or 8 (None: 4) in groups of 32, 64 or 128 (None: 64)
    with a scale and a bias. "mxfp4", "mxfp8": 4-bit and 8-bit floats in groups of 32 with
    scales that are powers of two; "nvfp4": 4-bit floats in groups of 16 with 8-bit scales.
    global_scale divides those further.

    Raises: ValueError for a last axis that is no multiple of the group size, and for another
        mode, group size, number of bits or dtype.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.radians(mx.array([0.0, 180.0]))
        array([0, 3.14159], dtype=float32)
    """

def real(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Real part of each element.

    For complex64 the result is float32; other dtypes do not change.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.real(mx.array([1 + 2j, 3 - 1j]))
        array([1, 3], dtype=float32)
    """

def reciprocal(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """1 / a for each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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

def reset_peak_memory() -> None:
    """Makes get_peak_memory count from what arrays hold now.

    Example:
        >>> mx.reset_peak_memory()
    """

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

def result_type(*arrays_and_dtypes: array | Dtype) -> Dtype:
    """The common dtype of arrays and dtypes.

    Bool, then integers, floats and complex64; float16 with bfloat16 gives float32, and uint64
    with a signed integer gives float32.

    Raises: ValueError without arguments; TypeError for what is neither.

    Example:
        >>> mx.result_type(mx.array(1, dtype=mx.int8), mx.float16)
        mlx.core.float16
    """

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
    /,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
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
        >>> mx.roll(mx.array([[1, 2], [3, 4]]), 1, 0)
        array([[3, 4],
               [1, 2]], dtype=int32)
    """

def round(a: array, /, decimals: int = 0, stream: StreamOrDevice = None) -> array:
    """Each element rounded to a number of decimals, halves to the even neighbour.

    decimals may be negative: -2 rounds to hundreds. The result has the shape and dtype of a.
    Integers change only for negative decimals, and then exactly; of complex64 both parts are
    rounded. A number that would overflow on the way does not change.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.rsqrt(mx.array([1.0, 4.0]))
        array([1, 0.5], dtype=float32)
    """

def save(file: str | Path | BinaryIO, arr: array) -> None:
    """Writes an array to a .npy file.

    file is a name or a Path, to which ".npy" is added where it is missing, or a file that is
    open for writing bytes. An older file is replaced when the new one is complete.

    Raises: RuntimeError when the file cannot be written. The error of arr if it failed.

    Example:
        >>> mx.save("b.npy", mx.array([1, 2]))
        >>> mx.load("b.npy")
        array([1, 2], dtype=int32)
    """

def save_gguf(
    file: str | Path | BinaryIO,
    arrays: dict[str, array],
    metadata: dict[str, array | str | list[str]] | None = None,
) -> None:
    """Writes a dict of arrays and metadata to a .gguf file of version 3.

    ".gguf" is added to a name where it is missing. metadata is a dict of texts, lists of texts,
    or arrays. An older file is replaced when the new one is complete.

    Raises: RuntimeError when the file cannot be written; ValueError for dtypes that the format
        has not and for arrays of more than 8 axes. The error of an array that failed.

    Example:
        >>> mx.save_gguf("f.gguf", {"w": mx.array([1.0])}, {"author": "me"})
        >>> mx.load("f.gguf")
        {'w': array([1], dtype=float32)}
    """

def save_safetensors(
    file: str | Path | BinaryIO,
    arrays: dict[str, array],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes a dict of arrays to a .safetensors file.

    ".safetensors" is added to a name where it is missing; file may also be open for writing
    bytes. metadata is a dict of texts, or None for none. An older file is replaced when the new
    one is complete.

    Raises: RuntimeError when the file cannot be written; TypeError for names or metadata that
        are no texts. The error of an array that failed.

    Example:
        >>> mx.save_safetensors("e.safetensors", {"w": mx.array([1.0])}, {"author": "me"})
        >>> mx.load("e.safetensors", return_metadata=True)
        ({'w': array([1], dtype=float32)}, {'author': 'me'})
    """

def savez(file: str | Path | BinaryIO, *args: Any, **kwargs: Any) -> None:
    """Writes several arrays to a .npz file, without compression.

    args get the names arr_0, arr_1, ...; kwargs have their own. ".npz" is added to a name where
    it is missing.

    Raises: RuntimeError when the file cannot be written; ValueError for a name that is given
        twice. The error of an array that failed.

    Example:
        >>> mx.savez("c.npz", mx.array([1, 2]), bias=mx.array([0.5]))
        >>> sorted(mx.load("c.npz"))
        ['arr_0', 'bias']
    """

def savez_compressed(file: str | Path | BinaryIO, *args: Any, **kwargs: Any) -> None:
    """Writes several arrays to a .npz file, compressed.

    args get the names arr_0, arr_1, ...; kwargs have their own. ".npz" is added to a name where
    it is missing.

    Raises: RuntimeError when the file cannot be written; ValueError for a name that is given
        twice. The error of an array that failed.

    Example:
        >>> mx.savez_compressed("d.npz", weight=mx.zeros(4))
        >>> mx.load("d.npz")
        {'weight': array([0, 0, 0, 0], dtype=float32)}
    """

def searchsorted(
    sorted_sequence: array,
    values: array,
    /,
    side: str = "left",
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Positions at which values would be inserted into a sorted sequence to keep its order.

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

def set_cache_limit(limit: int) -> int:
    """Sets how many bytes are kept for reuse at most, and returns the limit before.

    0 keeps nothing. What is over the limit is given back when memory is freed.

    Raises: TypeError when limit is no int.

    Example:
        >>> old = mx.set_cache_limit(2**20)
        >>> mx.set_cache_limit(old)
        1048576
    """

def set_default_device(device: Device | DeviceType) -> None:
    """Sets the device on which operations run unless they name another.

    device is a Device or a DeviceType (its first device).

    Raises: ValueError when the device does not exist.

    Example:
        >>> mx.set_default_device(mx.cpu)
        >>> mx.default_device()
        Device(cpu, 0)
    """

def set_default_stream(stream: Stream) -> None:
    """Makes a stream the calling thread's default stream of its device.

    Raises: TypeError when stream is no Stream.

    Example:
        >>> mx.set_default_stream(mx.default_stream(mx.cpu))
    """

def set_memory_limit(limit: int) -> int:
    """Sets how many bytes arrays should hold at most, and returns the limit before.

    Over the limit, work waits for earlier work, and memory that is kept for reuse is given
    back; when neither helps, the limit is exceeded.

    Raises: TypeError when limit is no int.

    Example:
        >>> old = mx.set_memory_limit(2**33)
        >>> mx.set_memory_limit(old)
        8589934592
    """

def set_printoptions(precision: int = -1) -> None:
    """Sets how arrays are printed in the calling thread.

    precision is the number of digits after the point; -1 prints six significant digits.

    Raises: TypeError when precision is no int.

    Example:
        >>> mx.set_printoptions(precision=2)
        >>> mx.array(3.14159)
        array(3.14, dtype=float32)
        >>> mx.set_printoptions()
    """

def set_wired_limit(limit: int) -> int:
    """Stores a limit for memory that stays resident, and returns the limit before.

    Only Metal has such memory; Keel has no Metal, and the limit has no effect.

    Raises: TypeError when limit is no int.

    Example:
        >>> mx.set_wired_limit(0)
        0
    """

def sigmoid(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Logistic function of each element: 1 / (1 + exp(-a)).

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.sigmoid(mx.array([-1.0, 0.0, 1.0]))
        array([0.268941, 0.5, 0.731059], dtype=float32)
    """

def sign(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Sign of each element: -1, 0 or 1.

    The result has the shape and dtype of a. NaN gives NaN. For complex64 it is a / abs(a), and
    0 for 0.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.sign(mx.array([-2.0, 0.0, 3.0]))
        array([-1, 0, 1], dtype=float32)
    """

def silu_mul(
    a: scalar | array, b: scalar | array, /, *, stream: StreamOrDevice = None
) -> array:
    """a * sigmoid(a) * b in one pass, the gate of SwiGLU layers.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    and bools are computed in float32. MLX has no such function.

    Raises: ValueError for complex64, for shapes that do not broadcast, and for operands that
    are neither arrays nor numbers.

    Example:
        >>> mx.silu_mul(mx.array([-1.0, 0.0, 2.0]), mx.array([1.0, 2.0, 3.0]))
        array([-0.268941, 0, 5.28478], dtype=float32)
    """

def sin(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Sine of each element, an angle in radians.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.sin(mx.array([0.0, 1.0]))
        array([0, 0.841471], dtype=float32)
    """

def sinc(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """sin(pi a) / (pi a) of each element, as numpy.sinc: 1 at 0, and exactly 0 at the other
    whole numbers and at infinity.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    keep their dtype. The result has the shape of a. MLX has no such function.

    Raises: ValueError for complex64, and when a is neither an array nor a number.

    Example:
        >>> mx.sinc(mx.array([0.0, 0.5, 2.0]))
        array([1, 0.63662, 0], dtype=float32)
    """

def sinh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic sine of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.sqrt(mx.array([4.0, 2.0]))
        array([2, 1.41421], dtype=float32)
    """

def square(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Square of each element: a * a.

    a is an array or a scalar of any shape; shape and dtype stay. Integers wrap.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
        array(3, dtype=float32)
    """

def stream(s: StreamOrDevice) -> StreamContext:
    """A context in which operations run on a stream or device unless they name another.

    s is a Stream, a ThreadLocalStream, a Device or a DeviceType; it is the default inside of
    `with`, for the calling thread.

    Raises: TypeError when s is none of these; ValueError when the device does not exist.

    Example:
        >>> with mx.stream(mx.cpu):
        ...     x = mx.ones(2) + 1
        >>> x
        array([2, 2], dtype=float32)
    """

def subtract(a: scalar | array, b: scalar | array, stream: StreamOrDevice = None) -> array:
    """Difference of a and b, element by element: a - b.

    a and b are arrays or scalars; their shapes broadcast, and their dtypes are promoted to a
    common one, which the result has. A Python scalar adapts to the dtype of the array. Integers
    wrap.

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

def synchronize(stream: StreamOrDevice = None) -> None:
    """Waits until all work of a stream is done.

    stream is a stream, a device (its default stream) or None: the default stream of the default
    device.

    Raises: the oldest failure on the stream that the calling thread submitted and has not seen.

    Example:
        >>> mx.synchronize()
    """

def take(
    a: array,
    /,
    indices: int | array,
    axis: int | None = None,
    *,
    mode: str = "error",
    fill_value: scalar | array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """The elements or slices of a at indices.

    indices is an int or an array of integers of any shape; negative ones count from the end.
    axis None reads a as flat; else the shape of indices takes the place of the axis.

    mode says what an index outside of an axis of n elements means: "error" raises; "clip" takes
    the nearest index from 0 to n - 1, for negative ones 0; "wrap" is the index modulo n; "fill"
    gives fill_value, a number, by default NaN in a float or complex dtype and else 0, and such
    elements have no gradient.

    Raises: ValueError for an axis that a does not have, indices that are not integers and an
        unknown mode; IndexError, when the result is read, for an index out of range.

    Example:
        >>> mx.take(mx.array([10, 20, 30]), mx.array([2, 0]))
        array([30, 10], dtype=int32)
        >>> mx.take(mx.array([[1, 2], [3, 4]]), mx.array([1, 1]), axis=1)
        array([[2, 2],
               [4, 4]], dtype=int32)
    """

def take_along_axis(
    a: array,
    /,
    indices: array,
    axis: int | None = -1,
    *,
    mode: str = "error",
    fill_value: scalar | array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """One element of a for each index, along an axis.

    indices is an array of integers with as many axes as a; axes other than axis broadcast, and
    negative indices count from the end. axis None reads a as flat. Element [.., i, ..] of the
    result is a[.., indices[.., i, ..], ..]. The dtype stays. mode and fill_value are those of
    take.

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

    Raises: ValueError when a is neither an array nor a number.

    Example:
        >>> mx.tan(mx.array([0.0, 1.0]))
        array([0, 1.55741], dtype=float32)
    """

def tanh(a: array, /, *, stream: StreamOrDevice = None) -> array:
    """Hyperbolic tangent of each element.

    a is an array or a scalar of any shape. Integers and bools are computed in float32; floats
    and complex64 keep their dtype. The result has the shape of a.

    Raises: ValueError when a is neither an array nor a number.

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

    Raises: ValueError for complex64, and when a is neither an array nor a number.

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
) -> Callable[P, tuple[R, Any]]:
    """A function that computes what fun returns and its gradient, as a pair.

    fun, argnums and argnames are as in grad. Where fun returns a tuple, its first entry is
    differentiated and the whole tuple is the value.

    Raises: ValueError as grad does. What fun raises comes through.

    Example:
        >>> mx.value_and_grad(lambda x: x * x)(mx.array(3.0))
        (array(9, dtype=float32), array(6, dtype=float32))
        >>> mx.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(mx.array(2.0), mx.array(5.0))
        (array(10, dtype=float32), (array(5, dtype=float32), array(2, dtype=float32)))
    """

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
    a: array, b: array, /, axis: int = -1, *, stream: StreamOrDevice = None
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
) -> tuple[list[array], list[array]]:
    """What fun returns for primals, and the vector-Jacobian products with cotangents.

    fun takes and returns arrays. cotangents has one array for each output, of its shape and
    dtype; the result is a pair of lists: the outputs, and one product for each primal. Reverse
    mode: one pass for all primals.

    Raises: ValueError for another number, shape or dtype of cotangents, and for primals that
        are neither floats nor complex64. What fun raises comes through.

    Example:
        >>> mx.vjp(lambda x: x * x, [mx.array(3.0)], [mx.array(1.0)])
        ([array(9, dtype=float32)], [array(6, dtype=float32)])
    """

def vmap(fun: Callable[P, R], in_axes: object = 0, out_axes: object = 0) -> Callable[P, R]:
    """A function that applies fun to each slice of its arguments along an axis.

    in_axes and out_axes say which axis of each argument and result is counted: an int for all,
    or a tree of the structure of the arguments or results, with None for what is the same for
    every slice. fun is called once, with arrays that stand for one slice.

    Raises: ValueError when the extents of the axes differ, for an axis that an argument does
        not have, and for trees of another structure. What fun raises comes through.

    Example:
        >>> mx.vmap(lambda x, y: x @ y, in_axes=(0, None))(mx.ones((3, 2)), mx.ones(2))
        array([2, 2, 2], dtype=float32)
    """

def where(
    condition: scalar | array,
    x: scalar | array | None = None,
    y: scalar | array | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: int | Sequence[int] = 0,
    stream: StreamOrDevice = None,
) -> array | tuple[array, ...]:
    """x where condition is true, else y, element by element.

    The three are arrays or scalars whose shapes broadcast. An element of condition is true when
    it is not 0. x and y are promoted to a common dtype, which the result has.

    Without x and y: the same as nonzero(condition, size=size, fill_value=fill_value).

    Raises: ValueError for shapes that do not broadcast, and for operands that are neither
    arrays nor numbers.

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

    Raises: ValueError when a is neither an array nor a number.

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
    """An array of numbers of one dtype, on any device.

    Arrays are lazy: an operation is remembered and runs when its result is evaluated, printed
    or read (eval). Operands of different dtypes are promoted to a common one, and shapes
    broadcast: they are aligned at the last axis, and an extent of 1 or a missing axis is
    repeated. An array supports the buffer protocol, DLPack, NumPy and pickling.

    Example:
        >>> mx.array([[1, 2], [3, 4]]) * 2
        array([[2, 4],
               [6, 8]], dtype=int32)
        >>> mx.array([1, 2, 3])[-1]
        array(3, dtype=int32)
    """

    @property
    def T(self) -> array:
        """The axes in reverse order, as a view. Same as keel.core.transpose(self)."""

    def __abs__(self) -> array:
        """abs(self). Same as keel.core.abs(self)."""

    def __add__(self, other: scalar | array) -> array:
        """self + other. Same as keel.core.add(self, other)."""

    def __and__(self, other: scalar | array) -> array:
        """self & other. Same as keel.core.bitwise_and(self, other)."""

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        """The elements as a NumPy array, for numpy.asarray.

        Memory of the CPU is shared unless copy is True or dtype is another one; bfloat16
        becomes float32.

        Raises: ValueError when copy is False and a copy is needed; the error of the array if it
            failed.
        """

    __array_priority__: float
    """NumPy's operators leave what has an array on their right to the array: np.ones(2) * a is
    an array of the dtype of a * np.ones(2)."""

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        """The module with the functions for this array: keel.core.

        Raises: ValueError when api_version is given.
        """

    def __bool__(self) -> bool:
        """Whether the only element is not 0. It evaluates the array.

        Raises: ValueError when there is not exactly one element.
        """

    def __bytes__(self) -> bytes:
        """The elements in row-major order as bytes. It evaluates the array."""

    def __complex__(self) -> complex:
        """The only element as a complex. It evaluates the array.

        Raises: ValueError when there is not exactly one element.
        """

    def __copy__(self) -> array:
        """Another array with the same value, which does not change when self is assigned to."""

    def __deepcopy__(self, memo: dict[int, Any]) -> array:
        """Another array with the same value, which does not change when self is assigned to."""

    def __div__(self, other: scalar | array) -> array:
        """self / other, under the name that Python 2 used.

        Same as keel.core.divide(self, other).
        """

    def __divmod__(self, other: scalar | array) -> tuple[array, array]:
        """self // other and self % other, for divmod."""

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: object = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The memory of the array as a DLPack capsule, for from_dlpack of other libraries.

        It evaluates the array. The memory is shared unless copy is True; dl_device asks for a
        device, max_version for a version of the protocol, stream for a stream of the consumer.

        Raises: BufferError for a device or version that is not possible, and when copy is False
            and a copy is needed; the error of the array if it failed.
        """

    def __dlpack_device__(self) -> tuple[Any, ...]:
        """The type and the number of the device that holds the array, as DLPack counts them."""

    def __eq__(self, other: scalar | array) -> array:  # type: ignore[override]
        """self == other, element by element. Same as keel.core.equal(self, other).

        For another object that is no number the result is False, not an array.
        """

    def __float__(self) -> float:
        """The only element as a float. It evaluates the array.

        Raises: ValueError when there is not exactly one element.
        """

    def __floordiv__(self, other: scalar | array) -> array:
        """self // other. Same as keel.core.floor_divide(self, other)."""

    def __format__(self, arg: object, /) -> str:
        """A text of the array.

        An array without axes is formatted as the number that it is.

        Raises: TypeError for a format where there are axes.
        """

    def __ge__(self, other: scalar | array) -> array:
        """self >= other, element by element. Same as keel.core.greater_equal(self, other)."""

    def __getitem__(self, index: object, /) -> array:
        """The part of the array that an index names.

        An index is an int, a slice (with any step), None for a new axis, ..., an array or list
        of integers, or a tuple of these. Ints and slices give views; arrays of integers
        broadcast with each other and read one element or slice for each index.

        Raises: ValueError for more indices than axes and for objects that are no index;
            IndexError for an index out of range, for an array of integers when the result is
            read.

        Example:
            >>> mx.array([10, 20, 30])[mx.array([2, 0])]
            array([30, 10], dtype=int32)
        """

    def __getstate__(self) -> tuple[Any, ...]:
        """What pickle stores: the elements with their shape, and the dtype."""

    def __gt__(self, other: scalar | array) -> array:
        """self > other, element by element. Same as keel.core.greater(self, other)."""

    def __iadd__(self, other: scalar | array) -> array:
        """self += other. self gets the value of self + other; other arrays keep theirs."""

    def __iand__(self, other: scalar | array) -> array:
        """self &= other. self gets the value of self & other; other arrays keep theirs."""

    def __ifloordiv__(self, other: scalar | array) -> array:
        """self //= other. self gets the value of self // other; other arrays keep theirs."""

    def __ilshift__(self, other: scalar | array) -> array:
        """self <<= other. self gets the value of self << other; other arrays keep theirs."""

    def __imatmul__(self, other: array) -> array:
        """self @= other. self gets the value of self @ other; other arrays keep theirs."""

    def __imod__(self, other: scalar | array) -> array:
        """self %= other. self gets the value of self % other; other arrays keep theirs."""

    def __imul__(self, other: scalar | array) -> array:
        """self *= other. self gets the value of self * other; other arrays keep theirs."""

    def __index__(self) -> int:
        """The only element as an int, for slices and ranges. It evaluates the array.

        Raises: TypeError unless the array has no axes and is of integers.
        """

    def __init__(
        self, val: scalar | array | Sequence[Any] | DLPackCompatible, dtype: Dtype | None = None
    ) -> None:
        """An array from numbers, sequences of numbers or arrays, or other array objects.

        val is a scalar, a (nested) list or tuple, an array, or an object with a buffer or
        DLPack, such as a NumPy array. dtype None: ints give int32 (int64 where they do not
        fit), floats float32, complex numbers complex64, bools bool; other arrays keep their
        dtype.

        Raises: ValueError for sequences of uneven length and for objects that are no numbers;
            TypeError for None.

        Example:
            >>> mx.array([[1, 2.5], [3, 4]], dtype=mx.float16)
            array([[1, 2.5],
                   [3, 4]], dtype=float16)
        """

    def __int__(self) -> int:
        """The only element as an int, without its fraction. It evaluates the array.

        Raises: ValueError when there is not exactly one element.
        """

    def __invert__(self) -> array:
        """~self. Same as keel.core.bitwise_invert(self)."""

    def __ior__(self, other: scalar | array) -> array:
        """self |= other. self gets the value of self | other; other arrays keep theirs."""

    def __ipow__(self, other: scalar | array) -> array:
        """self **= other. self gets the value of self ** other; other arrays keep theirs."""

    def __irshift__(self, other: scalar | array) -> array:
        """self >>= other. self gets the value of self >> other; other arrays keep theirs."""

    def __isub__(self, other: scalar | array) -> array:
        """self -= other. self gets the value of self - other; other arrays keep theirs."""

    def __iter__(self) -> ArrayIterator:
        """An iterator over the slices along the first axis.

        Raises: TypeError when the array has no axes.
        """

    def __itruediv__(self, other: scalar | array) -> array:
        """self /= other. self gets the value of self / other; other arrays keep theirs."""

    def __ixor__(self, other: scalar | array) -> array:
        """self ^= other. self gets the value of self ^ other; other arrays keep theirs."""

    def __le__(self, other: scalar | array) -> array:
        """self <= other, element by element. Same as keel.core.less_equal(self, other)."""

    def __len__(self) -> int:
        """The extent of the first axis.

        Raises: TypeError when the array has no axes.
        """

    def __lshift__(self, other: scalar | array) -> array:
        """self << other. Same as keel.core.left_shift(self, other)."""

    def __lt__(self, other: scalar | array) -> array:
        """self < other, element by element. Same as keel.core.less(self, other)."""

    def __matmul__(self, other: array) -> array:
        """self @ other. Same as keel.core.matmul(self, other)."""

    def __mod__(self, other: scalar | array) -> array:
        """self % other. Same as keel.core.remainder(self, other)."""

    def __mul__(self, other: scalar | array) -> array:
        """self * other. Same as keel.core.multiply(self, other)."""

    def __ne__(self, other: scalar | array) -> array:  # type: ignore[override]
        """self != other, element by element. Same as keel.core.not_equal(self, other).

        For another object that is no number the result is True, not an array.
        """

    def __neg__(self) -> array:
        """-self. Same as keel.core.negative(self)."""

    def __or__(self, other: scalar | array) -> array:
        """self | other. Same as keel.core.bitwise_or(self, other)."""

    def __pos__(self) -> array:
        """+self. Same as keel.core.positive(self)."""

    def __pow__(self, other: scalar | array) -> array:
        """self ** other. Same as keel.core.power(self, other)."""

    def __radd__(self, other: scalar | array) -> array:
        """other + self, where other is no array. Same as keel.core.add(other, self)."""

    def __rdiv__(self, other: scalar | array) -> array:
        """other / self, where other is no array. Same as keel.core.divide(other, self)."""

    def __repr__(self) -> str:
        """The elements, rounded for reading, and the dtype. It evaluates the array."""

    def __rdivmod__(self, other: scalar | array) -> tuple[array, array]:
        """other // self and other % self, where other is no array."""

    def __rfloordiv__(self, other: scalar | array) -> array:
        """other // self, where other is no array.

        Same as keel.core.floor_divide(other, self).
        """

    def __rmod__(self, other: scalar | array) -> array:
        """other % self, where other is no array. Same as keel.core.remainder(other, self)."""

    def __rmul__(self, other: scalar | array) -> array:
        """other * self, where other is no array. Same as keel.core.multiply(other, self)."""

    def __rpow__(self, other: scalar | array) -> array:
        """other ** self, where other is no array. Same as keel.core.power(other, self)."""

    def __rshift__(self, other: scalar | array) -> array:
        """self >> other. Same as keel.core.right_shift(self, other)."""

    def __rsub__(self, other: scalar | array) -> array:
        """other - self, where other is no array. Same as keel.core.subtract(other, self)."""

    def __rtruediv__(self, other: scalar | array) -> array:
        """other / self, where other is no array. Same as keel.core.divide(other, self)."""

    def __setitem__(self, index: object, value: scalar | array, /) -> None:
        """Replaces the part of the array that an index names.

        The index is as in reading, or an array of bools, which chooses where it is True. value
        broadcasts and is converted to the dtype of the array. Only this Python object gets a
        new value: arrays computed from the old one, views too, keep it. Where indices repeat,
        the last value stays.

        Raises: ValueError for shapes that do not fit and for what is no index; IndexError for
            an index out of range (of an array: when the result is read).

        Example:
            >>> a = mx.array([1, 2, 3])
            >>> a[1:] = 9
            >>> a
            array([1, 9, 9], dtype=int32)
        """

    def __setstate__(self, state: tuple[Any, ...], /) -> None:
        """Takes what __getstate__ gave; pickle calls it."""

    def __sub__(self, other: scalar | array) -> array:
        """self - other. Same as keel.core.subtract(self, other)."""

    def __truediv__(self, other: scalar | array) -> array:
        """self / other. Same as keel.core.divide(self, other)."""

    def __xor__(self, other: scalar | array) -> array:
        """self ^ other. Same as keel.core.bitwise_xor(self, other)."""

    def abs(self, *, stream: StreamOrDevice = None) -> array:
        """Absolute value of each element. Same as keel.core.abs(self)."""

    def all(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Whether all elements along the axes are true. Same as keel.core.all(self, ...)."""

    def any(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Whether at least one element along the axes is true.

        Same as keel.core.any(self, ...).
        """

    def argmax(
        self, axis: int | None = None, keepdims: bool = False, *, stream: StreamOrDevice = None
    ) -> array:
        """Position of the largest element along an axis.

        Same as keel.core.argmax(self, ...).
        """

    def argmin(
        self, axis: int | None = None, keepdims: bool = False, *, stream: StreamOrDevice = None
    ) -> array:
        """Position of the smallest element along an axis.

        Same as keel.core.argmin(self, ...).
        """

    def astype(self, dtype: Dtype, stream: StreamOrDevice = None) -> array:
        """The array converted to another dtype. Same as keel.core.astype(self, ...)."""

    @property
    def at(self) -> ArrayAt:
        """A helper for updates in which every index counts: a.at[i].add(x).

        Other than in a[i] += x, a place whose index repeats is updated each time.
        """

    def conj(self, *, stream: StreamOrDevice = None) -> array:
        """Complex conjugate of each element. Same as keel.core.conj(self)."""

    def cos(self, *, stream: StreamOrDevice = None) -> array:
        """Cosine of each element. Same as keel.core.cos(self)."""

    def cummax(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array:
        """Largest one of the elements up to each one. Same as keel.core.cummax(self, ...)."""

    def cummin(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array:
        """Smallest one of the elements up to each one. Same as keel.core.cummin(self, ...)."""

    def cumprod(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array:
        """Products of the elements up to each one. Same as keel.core.cumprod(self, ...)."""

    def cumsum(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array:
        """Sums of the elements up to each one. Same as keel.core.cumsum(self, ...)."""

    def diag(self, k: int = 0, *, stream: StreamOrDevice = None) -> array:
        """A matrix with this diagonal, or the diagonal of a matrix.

        Same as keel.core.diag(self, ...).
        """

    def diagonal(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: StreamOrDevice = None
    ) -> array:
        """Elements (i, i + offset) of two axes. Same as keel.core.diagonal(self, ...)."""

    @property
    def dtype(self) -> Dtype:
        """The dtype of the elements."""

    def exp(self, *, stream: StreamOrDevice = None) -> array:
        """e to the power of each element. Same as keel.core.exp(self)."""

    def flatten(
        self, start_axis: int = 0, end_axis: int = -1, *, stream: StreamOrDevice = None
    ) -> array:
        """Several axes joined into one. Same as keel.core.flatten(self, ...)."""

    @property
    def imag(self) -> array:
        """Imaginary part of each element. Same as keel.core.imag(self)."""

    def item(self) -> scalar:
        """The only element as a Python number. It evaluates the array.

        Raises: ValueError when there is not exactly one element; the error of the array if it
            failed.

        Example:
            >>> mx.array(2.5).item()
            2.5
        """

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""

    def log(self, *, stream: StreamOrDevice = None) -> array:
        """Natural logarithm of each element. Same as keel.core.log(self)."""

    def log10(self, *, stream: StreamOrDevice = None) -> array:
        """Logarithm to the base 10 of each element. Same as keel.core.log10(self)."""

    def log1p(self, *, stream: StreamOrDevice = None) -> array:
        """log(1 + self) of each element. Same as keel.core.log1p(self)."""

    def log2(self, *, stream: StreamOrDevice = None) -> array:
        """Logarithm to the base 2 of each element. Same as keel.core.log2(self)."""

    def logcumsumexp(
        self,
        axis: int | None = None,
        *,
        reverse: bool = False,
        inclusive: bool = True,
        stream: StreamOrDevice = None,
    ) -> array:
        """log of the sum of the exponentials of the elements up to each one.

        Same as keel.core.logcumsumexp(self, ...).
        """

    def logsumexp(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """log(sum(exp(self))) along the axes. Same as keel.core.logsumexp(self, ...)."""

    @property
    def mT(self) -> array:
        """The last two axes exchanged, as a view. Same as keel.core.matrix_transpose(self)."""

    def max(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Largest element along the axes. Same as keel.core.max(self, ...)."""

    def mean(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Mean of the elements along the axes. Same as keel.core.mean(self, ...)."""

    def min(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Smallest element along the axes. Same as keel.core.min(self, ...)."""

    def moveaxis(
        self, source: int, destination: int, *, stream: StreamOrDevice = None
    ) -> array:
        """One axis moved to another place. Same as keel.core.moveaxis(self, ...)."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements: size * itemsize."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    def prod(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Product of the elements along the axes. Same as keel.core.prod(self, ...)."""

    @property
    def real(self) -> array:
        """Real part of each element. Same as keel.core.real(self)."""

    def reciprocal(self, *, stream: StreamOrDevice = None) -> array:
        """1 / self for each element. Same as keel.core.reciprocal(self)."""

    def reshape(self, *shape: int | Sequence[int], stream: StreamOrDevice = None) -> array:
        """The elements under another shape. Same as keel.core.reshape(self, shape).

        The extents are given one by one or as one sequence.

        Example:
            >>> mx.array([1, 2, 3, 4]).reshape(2, -1)
            array([[1, 2],
                   [3, 4]], dtype=int32)
        """

    def round(self, decimals: int = 0, *, stream: StreamOrDevice = None) -> array:
        """Each element rounded to a number of decimals. Same as keel.core.round(self, ...)."""

    def rsqrt(self, *, stream: StreamOrDevice = None) -> array:
        """1 / sqrt(self) for each element. Same as keel.core.rsqrt(self)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes, as a tuple."""

    def sin(self, *, stream: StreamOrDevice = None) -> array:
        """Sine of each element. Same as keel.core.sin(self)."""

    @property
    def size(self) -> int:
        """The number of elements."""

    def split(
        self,
        indices_or_sections: int | Sequence[int],
        axis: int = 0,
        *,
        stream: StreamOrDevice = None,
    ) -> list[array]:
        """The array cut into parts along an axis. Same as keel.core.split(self, ...)."""

    def sqrt(self, *, stream: StreamOrDevice = None) -> array:
        """Square root of each element. Same as keel.core.sqrt(self)."""

    def square(self, *, stream: StreamOrDevice = None) -> array:
        """Square of each element. Same as keel.core.square(self)."""

    def squeeze(
        self, axis: int | Sequence[int] | None = None, *, stream: StreamOrDevice = None
    ) -> array:
        """The array without axes of extent 1. Same as keel.core.squeeze(self, ...)."""

    def std(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        correction: int | None = None,
        stream: StreamOrDevice = None,
    ) -> array:
        """Standard deviation of the elements along the axes.

        Same as keel.core.std(self, ...).

        correction is the name that the Python array API standard has for ddof, and comes before
        it.
        """

    def sum(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        stream: StreamOrDevice = None,
    ) -> array:
        """Sum of the elements along the axes. Same as keel.core.sum(self, ...)."""

    def swapaxes(self, axis1: int, axis2: int, *, stream: StreamOrDevice = None) -> array:
        """Two axes exchanged. Same as keel.core.swapaxes(self, ...)."""

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number when there are no axes.

        It evaluates the array.

        Raises: the error of the array if it failed.

        Example:
            >>> mx.array([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """

    def transpose(
        self, *axes: int | Sequence[int] | None, stream: StreamOrDevice = None
    ) -> array:
        """The axes in another order. Same as keel.core.transpose(self, axes).

        The axes are given one by one or as one sequence; without them the order is reversed.

        Example:
            >>> mx.ones((2, 3, 4)).transpose(1, 0, 2).shape
            (3, 2, 4)
        """

    def var(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        correction: int | None = None,
        stream: StreamOrDevice = None,
    ) -> array:
        """Variance of the elements along the axes. Same as keel.core.var(self, ...).

        correction is the name that the Python array API standard has for ddof, and comes before
        it.
        """

    def view(self, dtype: Dtype, *, stream: StreamOrDevice = None) -> array:
        """The bits of the array, taken for elements of another dtype.

        Same as keel.core.view(self, ...).
        """

class ArrayAt:
    """Updates of an array at an index, in which every index counts: array.at[index].

    Other than a[i] += x, which joins only the last one of equal indices, each value counts. The
    result is a new array; the old one stays. value broadcasts to the part and is converted to
    the dtype of the array.

    Example:
        >>> mx.array([1, 2]).at[mx.array([0, 0])].add(10)
        array([21, 2], dtype=int32)
    """

    def __getitem__(self, indices: object) -> ArrayAt:
        """Chooses the part of the array, by any index that reading takes."""

    def add(self, value: scalar | array) -> array:
        """A copy of the array with value added at the index.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

    def divide(self, value: scalar | array) -> array:
        """A copy of the array divided by value at the index; integers drop the fraction.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

    def maximum(self, value: scalar | array) -> array:
        """A copy of the array with the larger one of its element and value at the index.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

    def minimum(self, value: scalar | array) -> array:
        """A copy of the array with the smaller one of its element and value at the index.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

    def multiply(self, value: scalar | array) -> array:
        """A copy of the array multiplied by value at the index.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

    def subtract(self, value: scalar | array) -> array:
        """A copy of the array with value subtracted at the index.

        Raises: ValueError without an index or for shapes that do not fit; IndexError, when the
            result is read, for an index out of range.
        """

class ArrayIterator:
    """An iterator over the slices of an array along its first axis."""

    def __iter__(self) -> ArrayIterator:
        """The iterator itself."""

    def __next__(self) -> array:
        """The next slice.

        Raises: StopIteration at the end.
        """

class ArrayLike:
    """A wrapper for an object that functions shall take for an array.

    Python programs rarely need it: functions take such objects as they are.
    """

    def __init__(self, arg: object, /) -> None:
        """Wraps an object with a buffer, DLPack or __array__."""

class AxisError(ValueError, IndexError):
    """An axis is out of range, or given twice.

    Like every exception of the library it has the attributes code, operation, index, axis, axis_size,
    position, tensor, file and bytes, None where they do not apply.
    """

    code: str
    operation: str | None
    index: int | None
    axis: int | None
    axis_size: int | None
    position: int | None
    tensor: str | None
    file: str | None
    bytes: tuple[int, int] | None

class Device:
    """A device: a type and a number.

    Example:
        >>> mx.Device(mx.cpu)
        Device(cpu, 0)
        >>> mx.Device(mx.cpu) == mx.cpu
        True
    """

    def __eq__(self, arg: object, /) -> bool:
        """Whether both are the same device; a DeviceType stands for its first device."""

    def __init__(self, type: DeviceType, index: int = 0) -> None:
        """The device of this type and number, which need not exist (is_available tells).

        Raises: TypeError when type is no DeviceType.
        """

    def __repr__(self) -> str:
        """A text such as "Device(cpu, 0)"."""

    @property
    def index(self) -> int:
        """The number of the device among those of its type."""

    @property
    def type(self) -> DeviceType:
        """The type of the device."""

class DeviceType(enum.Enum):
    """The types of devices: cpu and gpu."""

    cpu = 0
    gpu = 1

class Dtype:
    """The type of the elements of an array, such as keel.core.float32.

    Example:
        >>> mx.float32.size
        4
    """

    def __eq__(self, arg: object, /) -> bool:
        """Whether both are the same dtype."""

    def __hash__(self) -> int:
        """A number that equal dtypes share, so that they can be keys of a dict."""

    def __repr__(self) -> str:
        """The name of the dtype with its module."""

    @property
    def size(self) -> int:
        """Bytes of one element."""

class DtypeCategory(enum.Enum):
    """Groups of dtypes, for issubdtype."""

    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

class FunctionExporter:
    """What exporter gives: a context that writes traces of a function into a file."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Traces the function for the dtypes and shapes of these arguments.

        Raises: ValueError for arguments that were traced before and for functions that cannot
            be exported. What the function raises comes through.
        """

    def __enter__(self) -> FunctionExporter:
        """The exporter itself."""

    def __exit__(
        self, exc_type: object = None, exc_value: object = None, traceback: object = None
    ) -> None:
        """Writes the file, as close does."""

    def close(self) -> None:
        """Writes the file and ends the export.

        Raises: RuntimeError when the file cannot be written.
        """

class LimitError(ValueError, OverflowError):
    """An extent, or another number, is larger than what is possible.

    Like every exception of the library it has the attributes code, operation, index, axis, axis_size,
    position, tensor, file and bytes, None where they do not apply.
    """

    code: str
    operation: str | None
    index: int | None
    axis: int | None
    axis_size: int | None
    position: int | None
    tensor: str | None
    file: str | None
    bytes: tuple[int, int] | None

class PrintOptions:
    """How arrays are printed."""

    def __init__(self, precision: int = -1) -> None:
        """Options with this precision.

        It is the number of digits after the point; -1 prints six significant digits.
        """

    @property
    def precision(self) -> int:
        """The number of digits after the point, or -1."""

    @precision.setter
    def precision(self, arg: int, /) -> None: ...

class Stream:
    """An ordered queue of work on one device (new_stream, default_stream)."""

    def __eq__(self, arg: object, /) -> bool:
        """Whether both are the same stream."""

    def __repr__(self) -> str:
        """A text such as "Stream(Device(cpu, 0), 0)"."""

    @property
    def index(self) -> int:
        """The number of the stream."""

    @property
    def device(self) -> Device:
        """The device on which the stream runs."""

class StreamContext:
    """A context in which operations run on another stream or device; stream makes it."""

    def __enter__(self) -> None:
        """Makes the stream the default one of the calling thread."""

    def __exit__(
        self,
        exc_type: builtins.type | None = None,
        exc_value: object = None,
        traceback: object = None,
    ) -> None:
        """Restores the default stream and device."""

    def __init__(self, s: StreamOrDevice) -> None:
        """s is a Stream, a ThreadLocalStream, a Device or a DeviceType.

        Raises: TypeError when s is none of these.
        """

class ThreadLocalStream:
    """A stream that stands for another stream on each thread (new_thread_local_stream)."""

    def __eq__(self, arg: object, /) -> bool:
        """Whether both are the same thread-local stream."""

    def __repr__(self) -> str:
        """A text such as "ThreadLocalStream(Device(cpu, 0), 0)"."""

    @property
    def index(self) -> int:
        """The number of the calling thread's stream."""

    @property
    def device(self) -> Device:
        """The device on which the streams run."""

class custom_function:
    """A function with rules of its own for gradients and vectorisation.

    It is made of a function, as a decorator; vjp, jvp and vmap set the rules, as decorators
    too. A rule that is not set follows from the operations inside. Arguments and results may be
    trees: dicts, lists and tuples with arrays in them.

    Example:
        >>> f = mx.custom_function(lambda x: x * x)
        >>> rule = f.vjp(lambda primals, cotangents, outputs: 5 * cotangents)
        >>> mx.grad(f)(mx.array(3.0))
        array(5, dtype=float32)
    """

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        """What the function returns; its rules are used when the call is transformed."""

    def __init__(self, f: Callable[..., Any]) -> None:
        """f takes and returns arrays or trees of them.

        Raises: TypeError when f cannot be called.
        """

    def jvp(self, f: Callable[..., Any]) -> custom_function:
        """Sets the forward rule: f(primals, tangents) gives the tangents of the outputs.

        Returns the custom_function.

        Raises: TypeError when f cannot be called; when the rule is used, ValueError for another
            structure, shape or dtype.
        """

    def vjp(self, f: Callable[..., Any]) -> custom_function:
        """Sets the rule for gradients: f(primals, cotangents, outputs).

        It returns one product for each primal. The three have the structures of the arguments
        and of the result. Returns the custom_function.

        Raises: TypeError when f cannot be called; when the rule is used, ValueError for another
            structure, shape or dtype.
        """

    def vmap(self, f: Callable[..., Any]) -> custom_function:
        """Sets the rule for vmap: f(inputs, axes) gives the outputs and their axes.

        axes has the axis of each input along which slices are counted, or None. Returns the
        custom_function.

        Raises: TypeError when f cannot be called; when the rule is used, ValueError for another
            structure.
        """

class ArrayNamespaceInfo:
    """What __array_namespace_info__ gives: facts about keel.core for programs of the array API.

    Example:
        >>> mx.__array_namespace_info__().default_dtypes()["integral"]
        mlx.core.int32
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether a mask reads elements and shapes may depend on data (they do not), and the
        largest number of axes.
        """

    def default_device(self) -> Device:
        """The device on which arrays are made."""

    def default_dtypes(self, *, device: Device | DeviceType | None = None) -> dict[str, Dtype]:
        """The dtypes of Python's floats, complex numbers and ints, and of indices.

        Raises: TypeError for what is no device.
        """

    def devices(self) -> tuple[Device, ...]:
        """The devices of this machine."""

    def dtypes(
        self, *, device: Device | DeviceType | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """The dtypes of the standard by their names: of a kind ("bool", "signed integer",
        "unsigned integer", "integral", "real floating", "complex floating", "numeric"), of several,
        or all.

        Raises: ValueError for another kind, TypeError for what is no device or no kind.
        """

def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Facts about this namespace, as the array API standard asks for them.

    Example:
        >>> sorted(mx.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
    """

class finfo:
    """Limits of a float dtype or of complex64.

    Example:
        >>> mx.finfo(mx.float16)
        finfo(min=-65504, max=65504, dtype=float16)
    """

    def __init__(self, arg: Dtype, /) -> None:
        """The limits of this dtype.

        Raises: ValueError when it is neither a float dtype nor complex64.
        """

    def __repr__(self) -> str:
        """A text with the limits."""

    @property
    def bits(self) -> int:
        """The number of bits of a float; of complex64 that of each part."""

    @property
    def dtype(self) -> Dtype:
        """The dtype; for complex64 that of its parts, float32."""

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number."""

    @property
    def max(self) -> float:
        """The largest finite number."""

    @property
    def min(self) -> float:
        """The lowest finite number."""

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number that is not denormal."""

class iinfo:
    """Limits of an integer dtype.

    Example:
        >>> mx.iinfo(mx.int8)
        iinfo(min=-128, max=127, dtype=int8)
    """

    def __init__(self, arg: Dtype, /) -> None:
        """The limits of this dtype.

        Raises: ValueError when it is no integer dtype.
        """

    def __repr__(self) -> str:
        """A text with the limits."""

    @property
    def dtype(self) -> Dtype:
        """The dtype."""

    @property
    def max(self) -> int:
        """The largest number."""

    @property
    def min(self) -> int:
        """The lowest number."""

class _PrintOptionsContext:
    """What printoptions gives: a context with other print options."""

    def __enter__(self) -> _PrintOptionsContext:
        """Sets the options for the calling thread."""

    def __exit__(self, *args: Any) -> None:
        """Restores the options."""

    def __init__(self, arg: PrintOptions, /) -> None:
        """The options to set."""

class _gc_func:
    """A function that a transform made, such as compile or grad."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        """Calls the transformed function."""
