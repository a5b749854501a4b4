# keel.core.random - random numbers.

from typing import Iterator, Sequence

from keel.core import Dtype, StreamOrDevice, array, float32, int32, scalar

def bernoulli(
    p: scalar | array = 0.5,
    shape: Sequence[int] | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def gumbel(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def key(seed: int) -> array: ...
def laplace(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def multivariate_normal(
    mean: array,
    cov: array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def normal(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: scalar | array | None = None,
    scale: scalar | array | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def permutation(
    x: int | array, axis: int = 0, key: array | None = None, stream: StreamOrDevice = None
) -> array: ...
def randint(
    low: scalar | array,
    high: scalar | array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = int32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def seed(seed: int) -> None: ...
def split(key: array, num: int = 2, stream: StreamOrDevice = None) -> array: ...
def truncated_normal(
    lower: scalar | array,
    upper: scalar | array,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def uniform(
    low: scalar | array = 0,
    high: scalar | array = 1,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...

class _RandomState:
    def __getitem__(self, index: int) -> object: ...
    def __iter__(self) -> Iterator[array]: ...
    def __len__(self) -> int: ...

state: _RandomState
