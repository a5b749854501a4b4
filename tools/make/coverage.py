#!/usr/bin/env python3
"""Writes docs/coverage.md: which operation of MLX's API takes which dtype, on the CPU and on a GPU, found by calling each.

    KEEL_GPU=opencl python3 tools/make/coverage.py path/to/libkeel.so > docs/coverage.md

A call on small arrays is built and evaluated on each device. In the table: `x` it works on both, `c` on the CPU only, nothing: it is refused when it is built. The last column is what the tests allow (tests/ops/golden/golden_*.inc, test_on_gpu_elementwise.c): the CPU
against NumPy and SciPy in float64, and in brackets a device against the CPU."""
import ctypes as C
import os
import re
import sys

lib = C.CDLL(os.path.abspath(sys.argv[1]))


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


for name, res, args in (("mlx_array_new", Handle, []), ("mlx_array_free", C.c_int, [Handle]), ("mlx_array_new_data", Handle, [C.c_void_p, C.c_void_p, C.c_int, C.c_int]), ("mlx_array_eval", C.c_int, [Handle]),
                        ("mlx_default_cpu_stream_new", Handle, []), ("mlx_default_gpu_stream_new", Handle, []), ("keel_errors_return", None, [])):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, args
lib.keel_errors_return()
CPU, GPU = lib.mlx_default_cpu_stream_new(), lib.mlx_default_gpu_stream_new()
DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64"]
SHORT = ["b", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "bf16", "c64"]
NONE = Handle(None)
FALSE, TRUE = C.c_bool(False), C.c_bool(True)
made = []


class Refused(Exception):
    pass


def ints(*v):
    return (C.c_int * max(len(v), 1))(*v)


def call(name, *args):
    out = lib.mlx_array_new()
    f = getattr(lib, "mlx_" + name)
    if f(C.byref(out), *args):
        lib.mlx_array_free(out)
        raise Refused
    made.append(out)
    return out


def pair(name, *args):
    """The first of two results."""
    second = lib.mlx_array_new()
    made.append(second)
    return call(name, C.byref(second), *args)


def array(values, shape, dtype):
    v = (C.c_float * len(values))(*values)
    a = lib.mlx_array_new_data(v, ints(*shape), len(shape), DTYPES.index("float32"))
    made.append(a)
    b = call("astype", a, DTYPES.index(dtype), CPU)
    lib.mlx_array_eval(b)
    return b


# family, tolerance, operations: (name, function of (dtype, stream) that calls it)
def unary(names):
    return [(n, lambda d, s, n=n: call(n, array([0, 0, 1, 1, 0, 1], (2, 3), d), s)) for n in names.split()]


def binary(names):
    return [(n, lambda d, s, n=n: call(n, array([0, 1, 1, 0, 1, 1], (2, 3), d), array([1, 1, 0, 1, 1, 1], (2, 3), d), s)) for n in names.split()]


def axis(names, *more):
    return [(n, lambda d, s, n=n: call(n, array([0, 1, 1, 0, 1, 1], (2, 3), d), 1, *more, s)) for n in names.split()]


def rows(kind, exact):
    """The names of the KL_UNARY or KL_BINARY rows whose function MLX has, those that round or those that do not."""
    table = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/base/op/op_list.def")).read()
    found = [[c.strip() for c in r.split(",")] for r in re.findall(rf"^KL_{kind}\((.*)\)$", table, re.M)]
    return " ".join(r[3].removeprefix("mlx_") for r in found if r[3].startswith("mlx_") and (r[7] == "0" and r[8] == "0") == exact)


def m(d):
    return array([1, 0, 1, 1], (2, 2), d)


def index(d="int32"):
    return array([1, 0], (2,), d)


EXACT = "exact"
ULP = "1 ulp of float32 or of the type [4 ulp]"
FAMILIES = [
    ("Element by element", EXACT, unary(rows("UNARY", True) + " isnan isinf isfinite isneginf isposinf stop_gradient") + binary(rows("BINARY", True)) + [
            ("where", lambda d, s: call("where", array([1, 0, 1, 1], (2, 2), "bool"), m(d), m(d), s)), ("clip", lambda d, s: call("clip", m(d), array([0], (), d), array([1], (), d), s)),
            ("round", lambda d, s: call("round", m(d), 1, s)), ("nan_to_num", lambda d, s: call("nan_to_num", m(d), C.c_float(0), OptionalFloat(0, False), OptionalFloat(0, False), s)),
            ("astype to float32", lambda d, s: call("astype", m(d), 10, s)), ("copy", lambda d, s: call("copy", m(d), s))]),
    ("Functions", ULP, unary(rows("UNARY", False) + " reciprocal degrees radians") + binary(rows("BINARY", False))),
    ("Shapes and moves", EXACT, unary("transpose flatten squeeze atleast_1d atleast_2d atleast_3d".replace("flatten ", "")) + [
        ("reshape", lambda d, s: call("reshape", m(d), ints(4), C.c_size_t(1), s)), ("broadcast_to", lambda d, s: call("broadcast_to", m(d), ints(3, 2, 2), C.c_size_t(3), s)),
        ("tile", lambda d, s: call("tile", m(d), ints(2, 2), C.c_size_t(2), s)), ("repeat", lambda d, s: call("repeat_axis", m(d), 2, 0, s)), ("roll", lambda d, s: call("roll_axis", m(d), ints(1), C.c_size_t(1), 0, s)),
        ("pad", lambda d, s: call("pad", m(d), ints(0), C.c_size_t(1), ints(1), C.c_size_t(1), ints(1), C.c_size_t(1), array([0], (), d), b"constant", s)), ("tril", lambda d, s: call("tril", m(d), 0, s)),
        ("diag", lambda d, s: call("diag", m(d), 0, s)), ("diagonal", lambda d, s: call("diagonal", m(d), 0, 0, 1, s)), ("eye", lambda d, s: call("eye", 3, 3, 0, DTYPES.index(d), s)), ("zeros", lambda d, s: call("zeros", ints(3), C.c_size_t(1), DTYPES.index(d), s)),
        ("arange", lambda d, s: call("arange", C.c_double(0), C.c_double(5), C.c_double(1), DTYPES.index(d), s)), ("linspace", lambda d, s: call("linspace", C.c_double(0), C.c_double(5), 6, DTYPES.index(d), s)),
        ("take", lambda d, s: call("take_axis", m(d), index(), 0, s)), ("take_along_axis", lambda d, s: call("take_along_axis", m(d), array([0, 1], (2, 1), "int32"), 1, s)),
        ("put_along_axis", lambda d, s: call("put_along_axis", m(d), array([0, 1], (2, 1), "int32"), array([0, 1], (2, 1), d), 1, s)),
        ("scatter", lambda d, s: call("scatter_single", m(d), index(), array([0, 1, 1, 1], (2, 1, 2), d), 0, s)), ("scatter_add", lambda d, s: call("scatter_add_single", m(d), index(), array([0, 1, 1, 1], (2, 1, 2), d), 0, s)),
        ("scatter_max", lambda d, s: call("scatter_max_single", m(d), index(), array([0, 1, 1, 1], (2, 1, 2), d), 0, s)), ("scatter_prod", lambda d, s: call("scatter_prod_single", m(d), index(), array([0, 1, 1, 1], (2, 1, 2), d), 0, s))]),
    ("Along axes", "exact for integers; floats: n u of the sum of magnitudes (docs/numerics.md)", axis("sum_axis prod_axis max_axis min_axis all_axis any_axis mean_axis logsumexp_axis argmax_axis argmin_axis", FALSE) + axis("var_axis std_axis", FALSE, 0) + [
        ("median", lambda d, s: call("median", m(d), ints(1), C.c_size_t(1), FALSE, s))] + axis("softmax_axis", TRUE) + axis("cumsum cumprod cummax cummin logcumsumexp", FALSE, TRUE) + [
            ("sort_axis", lambda d, s: call("sort_axis", m(d), 1, s)), ("argsort_axis", lambda d, s: call("argsort_axis", m(d), 1, s)), ("partition_axis", lambda d, s: call("partition_axis", m(d), 1, 1, s)),
            ("topk_axis", lambda d, s: call("topk_axis", m(d), 1, 1, s))]),
    ("Products and networks", "float32 1e-6 of the sum of magnitudes; 16-bit floats: one rounding of that", binary("inner outer") + [
        ("matmul", lambda d, s: call("matmul", m(d), m(d), s)), ("addmm", lambda d, s: call("addmm", m(d), m(d), m(d), C.c_float(1), C.c_float(1), s)), ("kron", lambda d, s: call("kron", m(d), m(d), s)),
        ("rms_norm", lambda d, s: call("fast_rms_norm", m(d), array([1, 1], (2,), d), C.c_float(1e-5), s)), ("layer_norm", lambda d, s: call("fast_layer_norm", m(d), NONE, NONE, C.c_float(1e-5), s)),
        ("rope", lambda d, s: call("fast_rope", array([1, 0, 1, 1], (1, 2, 2), d), 2, FALSE, OptionalFloat(100, True), C.c_float(1), 0, NONE, s)),
        ("conv1d", lambda d, s: call("conv1d", array([1, 0, 1, 1], (1, 4, 1), d), array([1, 1], (1, 2, 1), d), 1, 0, 1, 1, s)),
        ("conv_transpose1d", lambda d, s: call("conv_transpose1d", array([1, 0, 1, 1], (1, 4, 1), d), array([1, 1], (1, 2, 1), d), 2, 0, 1, 0, 1, s)),
        ("gather_mm", lambda d, s: call("gather_mm", array([1, 0, 1, 1], (1, 2, 2), d), array([1, 0, 1, 1], (1, 2, 2), d), NONE, array([0, 0], (2,), "int32"), FALSE, s)),
        ("segmented_mm", lambda d, s: call("segmented_mm", m(d), m(d), array([0, 2], (1, 2), "int32"), s)),
        ("block_masked_mm", lambda d, s: call("block_masked_mm", m(d), m(d), 32, NONE, NONE, NONE, s)),
        ("scaled_dot_product_attention", lambda d, s: call("fast_scaled_dot_product_attention", array([1, 0, 1, 1], (1, 1, 2, 2), d), array([1, 0, 1, 1], (1, 1, 2, 2), d), array([1, 0, 1, 1], (1, 1, 2, 2), d), C.c_float(1), b"", NONE, NONE, s))]),
    ("Linear algebra", "results of the plain C and of LAPACK, tested by their products", [
        ("linalg." + n, lambda d, s, n=n: call("linalg_" + n, m(d), s)) for n in "inv pinv eigvals".split()] + [
        ("linalg." + n, lambda d, s, n=n: call("linalg_" + n, array([2, 0, 0, 1], (2, 2), d), FALSE, s)) for n in "tri_inv cholesky cholesky_inv".split()] + [
        ("linalg.solve", lambda d, s: call("linalg_solve", m(d), m(d), s)), ("linalg.solve_triangular", lambda d, s: call("linalg_solve_triangular", m(d), m(d), FALSE, s)),
        ("linalg.qr", lambda d, s: pair("linalg_qr", m(d), s)), ("linalg.lu_factor", lambda d, s: pair("linalg_lu_factor", m(d), s)),
        ("linalg.eig", lambda d, s: pair("linalg_eig", m(d), s)), ("linalg.eigh", lambda d, s: pair("linalg_eigh", m(d), C.c_char_p(b"L"), s)),
        ("linalg.eigvalsh", lambda d, s: call("linalg_eigvalsh", m(d), C.c_char_p(b"L"), s)), ("linalg.svd, linalg.norm nuc", lambda d, s: call("linalg_norm_matrix", m(d), C.c_char_p(b"nuc"), None, C.c_size_t(0), FALSE, s)),
        ("linalg.norm", lambda d, s: call("linalg_norm_l2", m(d), None, C.c_size_t(0), FALSE, s)), ("linalg.cross", lambda d, s: call("linalg_cross", array([1, 0, 1], (3,), d), array([0, 1, 1], (3,), d), -1, s)),]),
    ("Fourier transforms", "relative L2 error: 1e-7 sqrt(log2 n); of lengths with a prime factor above 47, 3e-7 sqrt(log2 n)", [
        (n, lambda d, s, n=n: call("fft_" + n, m(d), 2, 1, 0, s)) for n in "fft ifft rfft irfft".split()] + [
            (n, lambda d, s, n=n: call("fft_" + n, m(d), ints(0), C.c_size_t(1), s)) for n in "fftshift ifftshift".split()]),
    ("Random numbers", "bits exact; distributions 1 ulp [4 ulp]", [
        ("uniform", lambda d, s: call("random_uniform", array([0], (), "float32"), array([1], (), "float32"), ints(5), C.c_size_t(1), DTYPES.index(d), NONE, s)),
        ("normal", lambda d, s: call("random_normal", ints(5), C.c_size_t(1), DTYPES.index(d), C.c_float(0), C.c_float(1), NONE, s)),
        ("randint", lambda d, s: call("random_randint", array([0], (), "int32"), array([9], (), "int32"), ints(5), C.c_size_t(1), DTYPES.index(d), NONE, s))]),
]

# What has no rule in base/op/op_list.def, and why: names, columns, reason. tools/check/rows.sh compares this with the table of operations.
WITHOUT = [
    ("floor ceil round logical_not bitwise_invert equal not_equal less less_equal greater greater_equal logical_and logical_or floor_divide bitwise_and bitwise_or bitwise_xor left_shift right_shift all any", "vjp", "constant almost everywhere, or not a number that has a gradient"),
    ("to_fp8 from_fp8", "vjp", "from or to codes, which are integers"),
    ("view", "vjp", "bits have no gradient"),
    ("argmax argmin argsort argpartition", "vjp", "positions are integers"),
    ("random_bits", "vjp", "keys and bits are integers"),
    ("eig", "vjp", "there is no rule for eigenvectors of matrices that are not symmetric"),
    ("stop_gradient", "vjp", "that is what it is for"),
    ("arange", "vjp vmap", "it has no inputs"),
    ("argument", "vmap build", "a transform puts it in the place of an input"),
    ("placeholder", "vjp vmap build", "an input of a traced function"),
    ("custom_function", "vjp vmap build", "its rules are functions of the user"),
    ("deferred", "vjp vmap build", "a call that each replay makes; transforms of it are such calls too"),
    ("send", "vjp", "the rank that receives has the gradient"),
    ("recv", "vjp vmap", "it has no inputs"),
    ("call kernel", "vjp vmap build", "code that Keel did not write, or that reads files"),
]


def works(f, dtype, stream):
    try:
        return lib.mlx_array_eval(f(dtype, stream)) == 0
    except Refused:
        return False
    finally:
        while made:
            lib.mlx_array_free(made.pop())


print("# Coverage\n")
print("Written by `tools/make/coverage.py`, which calls each operation on the CPU and on an OpenCL device (PoCL): `x` both, `c` the CPU only, nothing: refused with an error that names the dtype. The tests")
print("hold the CPU to the tolerance against NumPy and SciPy in float64, and devices to the one in brackets, if there is one, against the CPU.")
print("Functions that MLX does not have (`include/keel/`) are not in the tables: their contracts say which dtypes they take. A row of element-wise kind holds them to its column `takes` (`tests/ops/properties/test_rows.c`).\n")
for family, tolerance, ops in FAMILIES:
    print(f"## {family}\n\nTolerance: {tolerance}.\n")
    print("| | " + " | ".join(SHORT) + " |\n|---" * 1 + "|---" * len(SHORT) + "|")
    for name, f in ops:
        cells = []
        for d in DTYPES:
            c = works(f, d, CPU)
            g = bool(GPU.ctx) and c and works(f, d, GPU)
            cells.append("x" if g else "c" if c else "")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
print("## Without a rule\n\nOperations for which a transform has no rule: `none`. vjp: they take no gradient, or have none. vmap: batches. build: operations are made again from their parameters (compile, checkpoint, import). Every operation that is not here has all of them, but for the gradient of logcumsumexp in complex64. jvp follows from vjp where it is not written down.\n")
print("| operation | vjp | jvp | vmap | build | why |\n|---|---|---|---|---|---|")
for names, columns, why in WITHOUT:
    for name in names.split():
        print(f"| {name} | " + " | ".join("none" if c in columns.split() else "" for c in ("vjp", "jvp", "vmap", "build")) + f" | {why} |")
