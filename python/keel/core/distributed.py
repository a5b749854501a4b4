"""The names of mlx.core.distributed: groups of processes, and what they do together."""

from keel import _core as _c
from keel.core._arguments import need_dtype as _need_dtype, need_int as _need_int


class Group:
    _group = None  # a group that Python made itself: that of all processes

    def rank(self):
        return _c._group_rank(_of("rank", self))

    def size(self):
        return _c._group_size(_of("size", self))

    def split(self, color, key=-1):
        _need_int("split", color=color, key=key)
        return _wrap(_c._group_split(_of("split", self), color, key))


def _wrap(capsule):
    group = Group()
    group._group = capsule
    return group


def _check(backend, function):
    if not isinstance(backend, str):
        raise TypeError(f"{function}(): argument 'backend' is a {type(backend).__name__}, but must be a str")


def is_available(backend="any"):
    _check(backend, "is_available")
    return _c._group_is_available(backend)


def init(strict=False, backend="any", *, all_gather_factory=None):
    _check(backend, "init")
    return _wrap(_c._group_init(bool(strict), backend))


def _of(function, group):
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"{function}(): argument 'group' is a {type(group).__name__}, but must be a Group")
    return group and (group._group or init()._group)


def all_sum(x, *, group=None, stream=None):
    return _c._group_of_all("all_sum", _c.array(x), _of("all_sum", group), stream)


def all_max(x, *, group=None, stream=None):
    return _c._group_of_all("all_max", _c.array(x), _of("all_max", group), stream)


def all_min(x, *, group=None, stream=None):
    return _c._group_of_all("all_min", _c.array(x), _of("all_min", group), stream)


def all_gather(x, *, group=None, stream=None):
    return _c._group_of_all("all_gather", _c.array(x), _of("all_gather", group), stream)


def sum_scatter(x, *, group=None, stream=None):
    return _c._group_of_all("sum_scatter", _c.array(x), _of("sum_scatter", group), stream)


def send(x, dst, *, group=None, stream=None):
    _need_int("send", dst=dst)
    return _c._group_send(_c.array(x), dst, _of("send", group), stream)


def recv(shape, dtype, src, *, group=None, stream=None):
    _need_int("recv", src=src)
    _need_dtype("recv", dtype=dtype)
    return _c._group_recv(tuple(shape), dtype, src, _of("recv", group), stream)


def recv_like(x, src, *, group=None, stream=None):
    _need_int("recv_like", src=src)
    return _c._group_recv_like(_c.array(x), src, _of("recv_like", group), stream)
