"""Random numbers that depend on a key only.

A key is a uint32 array of shape (2,), from key or split. The same key gives the same numbers
on every device and with any number of threads. Without a key the next one of the calling
thread's sequence is used, which seed restarts; state holds it.
"""

from typing import Iterator, Sequence

from keel.core import Dtype, StreamOrDevice, array, float32, int32, scalar

def bernoulli(
    p: scalar | array = 0.5,
    shape: Sequence[int] | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Bools that are True with probability p.

    p is a number or an array of floats; shape None is its shape, else p broadcasts to shape.
    key is a uint32 array of shape (2,) from random.key or random.split, which fixes the
    numbers; None takes the next key of the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.bernoulli(0.3, (4,)).shape
        (4,)
    """

def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Positions that are drawn with probabilities in proportion to exp(logits), in uint32.

    axis is the axis of logits along which positions are counted; it is dropped. With
    num_samples there are that many draws along a new last axis; shape, to which the other axes
    broadcast, is an alternative. key is a uint32 array of shape (2,) from random.key or
    random.split, which fixes the numbers; None takes the next key of the calling thread's
    sequence.

    Raises: ValueError for both shape and num_samples, an axis that logits does not have or that
        is empty, complex logits, and a key of another shape or dtype.

    Example:
        >>> mx.random.categorical(mx.zeros((2, 3)), num_samples=4).shape
        (2, 4)
    """

def gumbel(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random numbers of the standard Gumbel distribution.

    They are -log(-log(u)) with u uniform in [0, 1). dtype is float16, bfloat16 or float32
    (None). key is a uint32 array of shape (2,) from random.key or random.split, which fixes the
    numbers; None takes the next key of the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.gumbel((2, 3)).shape
        (2, 3)
    """

def key(seed: int) -> array:
    """A key for random numbers from a seed.

    seed is an int from 0 to 2**64 - 1. The result is a uint32 array of shape (2,). The same key
    gives the same numbers on every device.

    Raises: TypeError for another seed.

    Example:
        >>> mx.random.key(0)
        array([0, 0], dtype=uint32)
    """

def laplace(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random numbers of the Laplace distribution with mean loc and width scale.

    dtype is a float dtype; None is float32. key is a uint32 array of shape (2,) from random.key
    or random.split, which fixes the numbers; None takes the next key of the calling thread's
    sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.laplace((2, 3)).shape
        (2, 3)
    """

def multivariate_normal(
    mean: array,
    cov: array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random vectors of a normal distribution with a mean and a covariance.

    mean is (..., n) and cov (..., n, n), symmetric without negative eigenvalues, which is not
    checked; their leading axes broadcast to shape. The result is (shape..., n) in float32. key
    is a uint32 array of shape (2,) from random.key or random.split, which fixes the numbers;
    None takes the next key of the calling thread's sequence.

    Raises: ValueError for shapes that do not fit, another dtype than float32, and a key of
        another shape or dtype.

    Example:
        >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,), stream=mx.cpu).shape
        (3, 2)
    """

def normal(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: scalar | array | None = None,
    scale: scalar | array | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random numbers of the normal distribution.

    loc is the mean (None: 0), scale the standard deviation (None: 1); both are numbers or
    arrays that broadcast to shape. dtype is a float dtype or complex64; None is float32. key is
    a uint32 array of shape (2,) from random.key or random.split, which fixes the numbers; None
    takes the next key of the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.normal((2, 3)).shape
        (2, 3)
    """

def permutation(
    x: int | array, axis: int = 0, key: array | None = None, stream: StreamOrDevice = None
) -> array:
    """The numbers 0, 1, ..., x - 1, or the slices of an array, in random order.

    For an int x the result has x integers; for an array its slices along axis are rearranged,
    and shape and dtype stay. key is a uint32 array of shape (2,) from random.key or
    random.split, which fixes the numbers; None takes the next key of the calling thread's
    sequence.

    Raises: ValueError for an axis that x does not have and for a key of another shape or dtype.

    Example:
        >>> mx.sort(mx.random.permutation(4))
        array([0, 1, 2, 3], dtype=uint32)
    """

def randint(
    low: scalar | array,
    high: scalar | array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = int32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random integers in [low, high), all equally likely, however large the range is.

    low and high are numbers or arrays that broadcast to shape; low where high is not above it. dtype is an integer dtype or
    bool; None is int32. key is a uint32 array of shape (2,) from random.key or random.split,
    which fixes the numbers; None takes the next key of the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.randint(0, 10, (2, 3)).shape
        (2, 3)
    """

def seed(seed: int) -> None:
    """Restarts the calling thread's sequence of keys.

    After the same seed, an int from 0 to 2**64 - 1, functions without a key give the same
    numbers.

    Raises: TypeError for another seed.

    Example:
        >>> mx.random.seed(7)
    """

def split(key: array, num: int = 2, stream: StreamOrDevice = None) -> array:
    """Several keys from one, independent of it and of each other.

    The result is a uint32 array of shape (num, 2). The old key should not be used again.

    Raises: ValueError for a key of another shape or dtype, and for a negative num.

    Example:
        >>> mx.random.split(mx.random.key(0), 3).shape
        (3, 2)
    """

def truncated_normal(
    lower: scalar | array,
    upper: scalar | array,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random numbers of the standard normal distribution that lie between lower and upper.

    lower and upper are real numbers or arrays; shape None is their common shape, else they
    broadcast to shape. dtype is a float dtype; None is float32. key is a uint32 array of shape
    (2,) from random.key or random.split, which fixes the numbers; None takes the next key of
    the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.truncated_normal(-1, 1, (2, 3)).shape
        (2, 3)
    """

def uniform(
    low: scalar | array = 0,
    high: scalar | array = 1,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Random numbers in [low, high), all equally likely.

    low and high are numbers or arrays that broadcast to shape. dtype is float16, bfloat16 or
    float32 (None). key is a uint32 array of shape (2,) from random.key or random.split, which
    fixes the numbers; None takes the next key of the calling thread's sequence.

    Raises: ValueError for a dtype that is not taken, a key of another shape or dtype, negative
    extents, and arrays that do not broadcast to shape.

    Example:
        >>> mx.random.uniform(0, 1, (2, 3)).shape
        (2, 3)
    """

class _RandomState:
    """The calling thread's sequence of keys, as a list with one array.

    It is random.state, which compile takes in inputs and outputs so that a compiled function
    draws new numbers at each call.
    """

    def __getitem__(self, index: int) -> object:
        """The key at this position; there is one, at 0.

        Raises: IndexError for another position.
        """

    def __iter__(self) -> Iterator[array]:
        """An iterator over the keys."""

    def __len__(self) -> int:
        """The number of keys: 1."""

state: _RandomState
