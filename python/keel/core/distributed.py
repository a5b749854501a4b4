"""The names of mlx.core.distributed for a group of one process."""

from keel import _core as _c


class Group:
    def rank(self):
        return 0

    def size(self):
        return 1

    def split(self, color, key=-1):
        return Group()


def is_available(backend="any"):
    return False


def init(strict=False, backend="any", *, all_gather_factory=None):
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
