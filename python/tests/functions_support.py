"""What the tests of functions share: operands, as arrays of NumPy and of Keel, and the comparison."""

import keel.core as mx
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(3, 4)).astype("float32")
p = rng.uniform(0.1, 0.9, size=(3, 4)).astype("float32")
i = rng.integers(-5, 6, size=(3, 4)).astype("int32")
b = x > 0
X, P, I, B = map(mx.array, (x, p, i, b))


def check(got, wanted, tolerance=2e-5):
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted):
            check(g, w, tolerance)
        return
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(np.array(got), wanted, rtol=tolerance, atol=tolerance)
