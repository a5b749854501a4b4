"""The names of mlx.core.distributed for a group of one process."""

from keel import _core as _c


class Group:
    def rank(self):
        return 0

    def size(self):
        return 1

    def split(self, color, key=-1):
        return Group()


_BACKENDS = ("any", "mpi", "ring", "nccl", "jaccl")


def is_available(backend="any"):
    _check(backend, "is_available")
    return False


def _check(backend, function):
    if not isinstance(backend, str):
        raise TypeError(f"{function}(): argument 'backend' is a {type(backend).__name__}, but must be a str")


def init(strict=False, backend="any", *, all_gather_factory=None):
    _check(backend, "init")
    if backend not in _BACKENDS:
        raise ValueError(f"init(): backend is {backend!r}, but must be one of {', '.join(map(repr, _BACKENDS))}")
    if strict:
        raise RuntimeError(f"init(): there is no backend {backend!r} for several processes")
    return Group()


def _same(x, group, stream):
    return _c.array(x)


def all_sum(x, *, group=None, stream=None):
    return _same(x, group, stream)


def all_max(x, *, group=None, stream=None):
    return _same(x, group, stream)


def all_min(x, *, group=None, stream=None):
    return _same(x, group, stream)


def all_gather(x, *, group=None, stream=None):
    return _same(x, group, stream)


def sum_scatter(x, *, group=None, stream=None):
    return _same(x, group, stream)


def _alone(name):
    raise ValueError(f"{name}(): a group of one process has nobody to talk to")


def send(x, dst, *, group=None, stream=None):
    _alone("send")


def recv(shape, dtype, src, *, group=None, stream=None):
    _alone("recv")


def recv_like(x, src, *, group=None, stream=None):
    _alone("recv_like")
