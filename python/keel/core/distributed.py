"""The names of mlx.core.distributed for a group of one process."""

from keel import _core as _c


class Group:
    """A group of processes. This build knows groups of one."""

    def rank(self):
        """The number of this process in the group: 0."""
        return 0

    def size(self):
        """The number of processes in the group: 1."""
        return 1

    def split(self, color, key=-1):
        """The part of the group that has the same color: the group itself."""
        return Group()


def is_available(backend="any"):
    """Whether processes can talk to each other through a backend: not yet.

    Example:
        >>> mx.distributed.is_available()
        False
    """
    return False


def init(strict=False, backend="any", *, all_gather_factory=None):
    """The group of all processes: a group of one.

    Raises RuntimeError when strict is True.

    Example:
        >>> mx.distributed.init().size()
        1
    """
    if strict:
        raise RuntimeError(f"init(): there is no backend {backend!r} for several processes")
    return Group()


def _same(x, group, stream):
    return _c.array(x)


def all_sum(x, *, group=None, stream=None):
    """The sum of the arrays of all processes: of one, the array itself.

    Example:
        >>> mx.distributed.all_sum(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _same(x, group, stream)


def all_max(x, *, group=None, stream=None):
    """The largest elements among all processes: of one, the array itself.

    Example:
        >>> mx.distributed.all_max(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _same(x, group, stream)


def all_min(x, *, group=None, stream=None):
    """The smallest elements among all processes: of one, the array itself.

    Example:
        >>> mx.distributed.all_min(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _same(x, group, stream)


def all_gather(x, *, group=None, stream=None):
    """The arrays of all processes, joined along the first axis: of one, the array itself.

    Example:
        >>> mx.distributed.all_gather(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _same(x, group, stream)


def sum_scatter(x, *, group=None, stream=None):
    """The part of the sum of all arrays that falls to this process: of one, the array itself.

    Example:
        >>> mx.distributed.sum_scatter(mx.array([1, 2]))
        array([1, 2], dtype=int32)
    """
    return _same(x, group, stream)


def _alone(name):
    raise ValueError(f"{name}(): a group of one process has nobody to talk to")


def send(x, dst, *, group=None, stream=None):
    """Sends an array to another process. Raises ValueError in a group of one.

    Example:
        >>> mx.distributed.send(mx.array(1), 0)
        Traceback (most recent call last):
        ValueError: send(): a group of one process has nobody to talk to
    """
    _alone("send")


def recv(shape, dtype, src, *, group=None, stream=None):
    """Receives an array from another process. Raises ValueError in a group of one.

    Example:
        >>> mx.distributed.recv((1,), mx.int32, 0)
        Traceback (most recent call last):
        ValueError: recv(): a group of one process has nobody to talk to
    """
    _alone("recv")


def recv_like(x, src, *, group=None, stream=None):
    """Receives an array of the shape and dtype of x. Raises ValueError in a group of one.

    Example:
        >>> mx.distributed.recv_like(mx.array(1), 0)
        Traceback (most recent call last):
        ValueError: recv_like(): a group of one process has nobody to talk to
    """
    _alone("recv_like")
