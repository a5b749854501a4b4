# keel.core.distributed - communication between processes.

from typing import Callable, Sequence

from keel.core import Dtype, StreamOrDevice, array

def all_gather(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def all_max(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def all_min(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def all_sum(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group: ...
def is_available(backend: str = "any") -> bool: ...
def recv(
    shape: Sequence[int],
    dtype: Dtype,
    src: int,
    *,
    group: Group | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def recv_like(
    x: array, src: int, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def send(
    x: array, dst: int, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...
def sum_scatter(
    x: array, *, group: Group | None = None, stream: StreamOrDevice = None
) -> array: ...

class Group:
    def rank(self) -> int: ...
    def size(self) -> int: ...
    def split(self, color: int, key: int = -1) -> Group: ...
