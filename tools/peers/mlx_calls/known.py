"""The differences that docs/differences.md explains: which operation, kind of difference and calls, and the reason."""
import mlx.core as mx
import numpy as np

from .both import drawn, endless_or_0, exact, INTS, MX, near, SMALL, WIDTH
from .transforms import TRANSFORM_LOOSE, steps


def right(k, loose=64, m=None):
    """Keel's values, or those that differ from m's, are those that NumPy gives in float64 (or, of integers, exactly)."""
    if not exact:
        return False
    with np.errstate(all="ignore"):
        want = np.asarray(exact[-1]())
        if k[1] in SMALL:
            want = np.array(mx.array(want.astype(np.float32)).astype(MX[k[1]]).astype(mx.float32))
        fits = near(k[2], want.reshape(k[0]).astype(k[2].dtype), k[1], loose)
        return bool(np.all(fits if m is None else fits | near(k[2], m[2], k[1], loose)))


def everywhere(k, m, d, where):
    """The elements that differ are among those of which where(operands, broadcast) is true."""
    with np.errstate(all="ignore"):
        operands = [np.broadcast_to(x.exact(), k[0]) for x in d]
        return bool(np.all(where(*operands) | near(k[2], m[2], k[1], 1)))


def integers(k):
    return k[1] in INTS or k[1] == "bool"


def has(d, dtype):
    return dtype in (x.dtype for x in d)


# Operation, kind of difference, in which calls, reason. k and m: shape, dtype, values of the results, None where the call failed; d: the operands.
KNOWN = [
    ("astype", "value", lambda k, m, d: k[1].startswith("uint") and everywhere(k, m, d, lambda a: np.real(a) < 0), "negative floats to unsigned integers"),
    ("arg", "error", lambda k, m, d: m is None and 0 in d[0].shape, "argmax and argmin of empty results"),
    ("arg", "value", lambda k, m, d: right(k) and bool(np.any(np.isnan(d[0].exact()))), "argmax and argmin of NaN"),
    ("cumsum", "value", lambda k, m, d: k[1] in SMALL and (right(k) or not exact), "16-bit scans"),
    ("cumprod", "value", lambda k, m, d: k[1] in SMALL and (right(k) or not exact), "16-bit scans"),
    ("cumprod", "value", lambda k, m, d: k[1] == "complex64" and not np.all(np.isfinite(m[2])), "complex products of infinities"),
    ("cummax", "value", lambda k, m, d: (k[1] in SMALL or k[1] == "complex64") and bool(np.any(np.isnan(d[0].exact()))), "NaN in cummax and cummin"),
    ("cummin", "value", lambda k, m, d: (k[1] in SMALL or k[1] == "complex64") and bool(np.any(np.isnan(d[0].exact()))), "NaN in cummax and cummin"),
    ("logcumsumexp", "value", lambda k, m, d: k[1] in SMALL, "16-bit scans"),
    ("floor_divide", "error", lambda k, m, d: k is None and has(d, "complex64"), "floor_divide of complex64"),
    ("floor_divide", "value", lambda k, m, d: k[1] in SMALL, "floor_divide of 16-bit floats"),
    ("floor_divide", "value", lambda k, m, d: k[1] in ("float32", "float64") and everywhere(k, m, d, lambda a, b: np.isinf(a) | near(k[2], np.floor_divide(a.astype(k[1]), b.astype(k[1])), k[1], 1)), "floor_divide of floats"),
    ("floor_divide", "value", lambda k, m, d: k[1] == "bool" and everywhere(k, m, d, lambda a, b: b == 0), "integers divided by 0"),
    ("from_fp8", "value", lambda k, m, d: everywhere(k, m, d, lambda a: (a.astype(int) & 0x7F) == 0x7F), "NaN of fp8"),
    ("logical_", "value", lambda k, m, d: everywhere(k, m, d, lambda *v: sum((np.real(a) == 0) & (np.imag(a) != 0) for a in v) > 0), "logical operations of complex64"),
    ("logcumsumexp", "dtype", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "logcumsumexp of integers"),
    ("remainder", "value", lambda k, m, d: integers(k) and everywhere(k, m, d, lambda a, b: b == 0), "remainder of integers by 0"),
    ("remainder", "error", lambda k, m, d: k is None and has(d, "complex64"), "remainder of complex64"),
    ("power", "value", lambda k, m, d: k[1] in INTS and everywhere(k, m, d, lambda a, b: (b < 0) & (np.abs(a) == 1)), "negative powers of 1 and -1"),
    ("power", "value", lambda k, m, d: k[1] == "complex64" and everywhere(k, m, d, lambda a, b: (a == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(m[2]) | near(k[2], np.asarray(exact[-1]()).astype(np.complex64), k[1], 1)), "complex powers of 0 and infinity; large exponents"),
    ("left_shift", "value", lambda k, m, d: everywhere(k, m, d, lambda a, b: (b < 0) | (b >= WIDTH[k[1]])), "shift counts"),
    ("right_shift", "value", lambda k, m, d: everywhere(k, m, d, lambda a, b: (b < 0) | (b >= WIDTH[k[1]])), "shift counts"),
    ("logsumexp", "error", lambda k, m, d: m is None and 0 in d[0].shape, "logsumexp of nothing"),
    ("logsumexp", "value", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "logsumexp of integers"),
    ("mean", "value", lambda k, m, d: d[0].dtype in INTS and right(k), "mean of integers"),
    ("mean", "value", lambda k, m, d: d[0].dtype in ("int64", "uint64") and k[2].size and np.max(np.abs(k[2] - np.asarray(exact[-1]()))) <= 1e-6 * np.max(np.abs(d[0].exact().astype(float))), "mean of integers"),
    ("prod", "value", lambda k, m, d: k[1] in SMALL and right(k), "products of 16-bit floats"),
    ("prod", "value", lambda k, m, d: k[1] in ("float32", "float16", "bfloat16") and bool(np.all(near(k[2], m[2], k[1], 8) | endless_or_0(k[2], m[2]))), "products that overflow on the way"),
    ("var", "value", lambda k, m, d: right(k, m=m), "var in two passes"),
    ("std", "value", lambda k, m, d: right(k, m=m), "var in two passes"),
    ("round", "value", lambda k, m, d: right(k), "round with decimals"),
    ("sign", "value", lambda k, m, d: everywhere(k, m, d, lambda a: ~np.isfinite(a)), "sign of NaN and of complex infinities"),
    ("softmax", "dtype", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "softmax of integers"),
    ("view", "value", lambda k, m, d: k[0] != () and d[0].shape[-1] == 1, "view of columns of a transposed array"),
    ("view", "value", lambda k, m, d: any(x.dtype in SMALL and bool(mx.any(mx.isnan(x.mx)).item()) for x in d), "which NaN a conversion to 16 bits gives"),
    ("median", "value", lambda k, m, d: k[1] == "float16" and not np.all(np.isfinite(m[2])), "median of float16"),
    ("logaddexp", "value", lambda k, m, d: k[1] in SMALL and right(k, 1), "logaddexp of 16-bit floats"),
    ("logaddexp", "value", lambda k, m, d: k[1] == "complex64", "complex logaddexp close to 0"),
    ("", "value", lambda k, m, d: k[1] == "complex64" and bool(np.all(near(k[2], m[2], k[1], 64) | ~(np.isfinite(k[2]) | np.isfinite(m[2])))), "which part of a complex number is NaN or infinite"),
    ("isclose", "value", lambda k, m, d: d[0].dtype in INTS, "isclose of integers"),
    ("allclose", "value", lambda k, m, d: d[0].dtype in INTS, "isclose of integers"),
    ("pad", "error", lambda k, m, d: k is None and 0 in d[0].shape, "the edge of an empty axis"),
    ("dequantize", "value", lambda k, m, d: (has(d, "float16") or has(d, "bfloat16")) and right(k, 1), "dequantize of 16-bit scales"),
    ("dequantize", "dtype", lambda k, m, d: m[1] == "float32" and len(d) == 2, "dequantize with a global scale and a dtype"),
    ("quantized_matmul", "shape", lambda k, m, d: len(d[0].shape) < len(d[1].shape), "quantized products of fewer axes than the matrix has"),
    ("as_strided", "error", lambda k, m, d: m is None and 0 in d[0].shape, "as_strided of nothing"),
    ("transform_jvp", "error", lambda k, m, d: m is None and any(s.startswith("scatter") for s in steps), "jvp of scatter"),
    ("transform_vmap_of_gradient", "", lambda k, m, d: k is not None and right(k, TRANSFORM_LOOSE), "vmap of a function that gives one array twice"),
]


def known(name, kind, k, m):
    for prefix, what, applies, why in KNOWN:
        if name.startswith(prefix) and what in (kind, "") and applies(k, m, drawn):
            return why
    return None
