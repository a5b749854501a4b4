"""Communication between processes that work together."""

from typing import Callable, Sequence

from keel.core import Dtype, StreamOrDevice, array

def all_gather(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """The arrays x of all processes, joined along the first axis.

    group None is the group that init gave. In a group of one the result is x.

    Raises: ValueError where the group or the dtype does not allow it; RuntimeError when another
    process fails.

    Example:
        >>> mx.distributed.all_gather(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

def all_max(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """The largest elements of the arrays x of all processes.

    Shapes and dtypes are the same everywhere. group None is the group that init gave. In a
    group of one the result is x.

    Raises: ValueError where the group or the dtype does not allow it; RuntimeError when another
    process fails.

    Example:
        >>> mx.distributed.all_max(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

def all_min(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """The smallest elements of the arrays x of all processes.

    Shapes and dtypes are the same everywhere. group None is the group that init gave. In a
    group of one the result is x.

    Raises: ValueError where the group or the dtype does not allow it; RuntimeError when another
    process fails.

    Example:
        >>> mx.distributed.all_min(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

def all_sum(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """The sum of the arrays x of all processes.

    Shapes and dtypes are the same everywhere. group None is the group that init gave. In a
    group of one the result is x.

    Raises: ValueError where the group or the dtype does not allow it; RuntimeError when another
    process fails.

    Example:
        >>> mx.distributed.all_sum(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes.

    It is made at the first call, at which they wait for each other; backend chooses how they
    talk: "mpi", or "any" for what works. "nccl", "ring" and "jaccl" are not available. Where
    nothing says that several processes were started, the result is a group of one, and with
    strict an error unless the backend could be used. all_gather_factory is not needed.

    Raises: RuntimeError with strict when the backend cannot be used, and where several processes
    were started and cannot be joined; ValueError for another backend.

    Example:
        >>> mx.distributed.init().size()
        1
    """

def is_available(backend: str = "any") -> bool:
    """Whether a backend can be used, or with "any", whether one of them can.

    Example:
        >>> isinstance(mx.distributed.is_available(), bool)
        True
    """

def recv(
    shape: Sequence[int],
    dtype: Dtype,
    src: int,
    *,
    group: Group | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """An array of this shape and dtype from the process src.

    group None is the group that init gave.

    Raises: ValueError for a src outside of the group, and in a group of one.
    """

def recv_like(
    x: array, src: int, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """An array of the shape and dtype of x from the process src.

    group None is the group that init gave.

    Raises: ValueError for a src outside of the group, and in a group of one.
    """

def send(
    x: array, dst: int, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """Sends x to the process dst; the result is x, and sending happens when it is evaluated.

    group None is the group that init gave.

    Raises: ValueError for a dst outside of the group, and in a group of one.
    """

def sum_scatter(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array:
    """A part of the sum of the arrays x of all processes: the sum is cut along the first axis.

    The extent of that axis is a multiple of the number of processes; process i gets part i.
    group None is the group that init gave. In a group of one the result is x.

    Raises: ValueError where the group or the dtype does not allow it; RuntimeError when another
    process fails.

    Example:
        >>> mx.distributed.sum_scatter(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """

class Group:
    """Processes that work together."""

    def rank(self) -> int:
        """The number of this process in the group, from 0 on."""

    def size(self) -> int:
        """The number of processes in the group."""

    def split(self, color: int, key: int = -1) -> Group:
        """Cuts the group: processes with the same color are a new group.

        key orders the processes of the new group; -1 takes their rank.

        Raises: RuntimeError in a group of one.
        """
