"""Every name of the API is there, documented, has the signature of the stubs, and can be called.

`python test_names.py` prints the report: which names are called, and which are not.
"""

import ast
import copy
import inspect
import pathlib
import pickle

import keel.core as mx
import pytest

HERE = pathlib.Path(__file__).parent
NAMES = [tuple(line.split("\t")) for line in (HERE / "names.txt").read_text().splitlines()]


def find(owner, name):
    """The object that a row of names.txt names: "core.fast" or "class core.array", and a name."""
    at = mx
    for part in owner.removeprefix("class ").split(".")[1:]:
        at = getattr(at, part)
    if name == "__name__" and isinstance(at, type):
        return at.__name__
    return getattr(at, name)


# ---- names, texts and signatures ----
@pytest.mark.parametrize("owner, name", NAMES, ids=lambda x: x)
def test_exists_and_is_documented(owner, name):
    x = find(owner, name)
    if callable(x) or isinstance(x, property):
        assert x.__doc__ and x.__doc__.strip(), f"{owner}.{name} has no docstring"


def stub_functions():
    for path in sorted(pathlib.Path(mx.__file__).parent.glob("*.pyi")):
        module = mx if path.stem == "__init__" else getattr(mx, path.stem)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield path.stem, module, node
            elif isinstance(node, ast.ClassDef) and hasattr(module, node.name):
                for item in node.body:
                    # Operators are slots of the type, whose signatures CPython writes.
                    if isinstance(item, ast.FunctionDef) and not item.name.startswith("__"):
                        yield f"{path.stem}.{node.name}", getattr(module, node.name), item


STUBS = list(stub_functions())


def test_stubs_are_there():
    assert len(STUBS) > 400


@pytest.mark.parametrize("where, owner, node", STUBS, ids=lambda x: getattr(x, "name", x if isinstance(x, str) else ""))
def test_signature_is_that_of_the_stub(where, owner, node):
    marks = [ast.unparse(d) for d in node.decorator_list]
    if any("overload" in m or "property" in m or "setter" in m for m in marks):
        return  # several signatures, or none
    kinds = inspect.Parameter
    a = node.args
    wanted = [(p.arg, kinds.POSITIONAL_ONLY) for p in a.posonlyargs]
    wanted += [(p.arg, kinds.POSITIONAL_OR_KEYWORD) for p in a.args]
    wanted += [(a.vararg.arg, kinds.VAR_POSITIONAL)] if a.vararg else []
    wanted += [(p.arg, kinds.KEYWORD_ONLY) for p in a.kwonlyargs]
    wanted += [(a.kwarg.arg, kinds.VAR_KEYWORD)] if a.kwarg else []
    made = inspect.signature(getattr(owner, node.name)).parameters.values()
    assert [n for n, _ in wanted if n != "self"] == [p.name for p in made if p.name != "self"]
    assert [k for n, k in wanted if n != "self"] == [p.kind for p in made if p.name != "self"]


# ---- no other names ----
MODULES = [mx, mx.cuda, mx.distributed, mx.fast, mx.fft, mx.linalg, mx.metal, mx.random]


def documented(module):
    """What the API has in a module, and what the stubs say is there besides, by owner."""
    owner = module.__name__.removeprefix("keel.")
    names = {}
    for o, name in NAMES:
        names.setdefault(o.removeprefix("class "), set()).add(name)
    path = pathlib.Path(mx.__file__).parent / f"{owner.removeprefix('core.').replace('core', '__init__')}.pyi"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.setdefault(owner, set()).add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.setdefault(owner, set()).add(node.target.id)
        if isinstance(node, ast.ClassDef):
            of_class = names.setdefault(f"{owner}.{node.name}", set())
            of_class |= {x.name for x in node.body if isinstance(x, ast.FunctionDef)}
            of_class |= {x.target.id for x in node.body if isinstance(x, ast.AnnAssign)}
    return names


def test_all_modules_are_looked_at():
    there = {x for x in vars(mx).values() if inspect.ismodule(x) and x.__name__.startswith("keel.core.")}
    assert {x for x in there if not x.__name__.split(".")[-1].startswith("_")} == set(MODULES) - {mx}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_no_private_name_is_public(module):
    names = documented(module)
    owner = module.__name__.removeprefix("keel.")
    found = [f"{owner}.{x}" for x in dir(module) if not x.startswith("_") and x not in names[owner]]
    for made in (x for n, x in vars(module).items() if isinstance(x, type) and not n.startswith("_")):
        of_class = names.get(f"{owner}.{made.__name__}", ())
        found += [f"{owner}.{made.__name__}.{x}" for x in vars(made) if not x.startswith("_") and x not in of_class]
    assert found == []


# ---- every name is called ----
a = mx.array([[1.0, 2.0], [3.0, 4.0]])
i = mx.array([[5, 3], [2, 1]])
b = mx.array([True, False])
v = mx.array([0.25, 0.5, 0.75])
key = mx.random.key(0)
wide = mx.ones((4, 64))
quantized = mx.quantize(wide)
image = mx.ones((1, 4, 4, 2))
kernel = mx.ones((3, 2, 2, 2))
square = mx.array([[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 6.0]])


def in_folder(folder, name, save):
    path = str(folder / name)
    save(path)
    return mx.load(path)


def assigned(x, index, value):
    x[index] = value
    return x


UNARY = """abs arccos arcsin arctan arcsinh arctanh ceil conj conjugate cos cosh degrees erf erfinv exp expm1 floor
imag isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not negative positive radians real reciprocal
rsqrt sigmoid sign sin sinh sqrt square stop_gradient tan tanh trunc zeros_like ones_like empty_like acos asin asinh
atan atanh atleast_1d atleast_2d atleast_3d contiguous""".split()
BINARY = """add arctan2 atan2 array_equal allclose divide divmod equal floor_divide greater greater_equal inner isclose
kron less less_equal logaddexp logical_and logical_or logical_xor matmul maximum minimum multiply not_equal outer pow
power remainder subtract vecdot""".split()
BITWISE = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor left_shift right_shift".split()
ALONG = """all any argmax argmin cummax cummin cumprod cumsum cumulative_prod cumulative_sum logcumsumexp logsumexp max
mean median min minmax prod softmax std sum var count_nonzero argsort sort diff flip unstack""".split()
CALLS = {("core", n): f"mx.{n}(v)" for n in UNARY}
CALLS |= {("core", n): f"mx.{n}(v, v)" for n in BINARY}
CALLS |= {("core", n): f"mx.{n}(i, i)" for n in BITWISE}
CALLS |= {("core", n): f"mx.{n}(a, axis=0)" for n in ALONG}
CALLS |= {("core", n): f"mx.{n}(mx.array([1.5]))" for n in ("acosh", "arccosh")}
CALLS |= {("core", n): f"mx.{n}(4)" for n in "bartlett blackman hamming hanning eye identity tri zeros ones empty".split()}
CALLS |= {("core", n): f"mx.{n}(a, 1)" for n in "argpartition partition topk repeat tile expand_dims".split()}
CALLS |= {("core", n): f"mx.{n}(a)" for n in "diag diagonal flatten trace tril triu transpose squeeze matrix_transpose matrix_norm nan_to_num round".split()}
CALLS |= {("core", n): f"mx.{n}.size" for n in "bfloat16 bool_ complex64 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()}
CALLS |= {("core", n): f"mx.issubdtype(mx.float32, mx.{n})" for n in
          "complexfloating floating inexact signedinteger unsignedinteger integer number generic".split()}  # fmt: skip
CALLS |= {("core", n): f"mx.array(1.0) + mx.{n}" for n in "pi e inf nan euler_gamma".split()}
CALLS |= {("core", n): f"mx.default_device() == mx.{n}" for n in ("cpu", "gpu")}
CALLS |= {("core", n): f"mx.{n}.__name__" for n in "cuda distributed fast fft linalg metal random".split()}
CALLS |= {("core", n): f"mx.{n}()" for n in """clear_cache clear_streams default_device disable_compile enable_compile
device_info get_active_memory get_cache_memory get_memory_limit get_peak_memory get_printoptions reset_peak_memory
synchronize""".split()}  # fmt: skip
CALLS |= {("core", n): f"mx.{n}" for n in """Device DeviceType Dtype DtypeCategory Stream ThreadLocalStream array
custom_function finfo iinfo FunctionExporter StreamContext PrintOptions _PrintOptionsContext ArrayAt ArrayIterator
ArrayLike _gc_func""".split()}  # classes: their methods are called below
CALLS |= {("core", n): call for n, call in {
    "addmm": "mx.addmm(a, a, a)",
    "arange": "mx.arange(3)",
    "as_strided": "mx.as_strided(a, (2,), (1,))",
    "asarray": "mx.asarray([1])",
    "astype": "mx.astype(a, mx.int32)",
    "async_eval": "mx.async_eval(a + 1)",
    "eval": "mx.eval(a + 1)",
    "bitwise_invert": "mx.bitwise_invert(i)",
    "block_masked_mm": "mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 32)), 32)",
    "broadcast_arrays": "mx.broadcast_arrays(a, v[:2])",
    "broadcast_shapes": "mx.broadcast_shapes((2, 1), (3,))",
    "broadcast_to": "mx.broadcast_to(v, (2, 3))",
    "can_cast": "mx.can_cast(mx.int8, mx.int32)",
    "checkpoint": "mx.checkpoint(mx.exp)(a)",
    "clip": "mx.clip(a, 0, 1)",
    "compile": "mx.compile(lambda x: x + 1)(a)",
    "concat": "mx.concat([a, a])",
    "concatenate": "mx.concatenate([a, a])",
    "conv1d": "mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)))",
    "conv2d": "mx.conv2d(image, kernel)",
    "conv3d": "mx.conv3d(mx.ones((1, 3, 3, 3, 1)), mx.ones((1, 2, 2, 2, 1)))",
    "conv_general": "mx.conv_general(image, kernel)",
    "conv_transpose1d": "mx.conv_transpose1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)))",
    "conv_transpose2d": "mx.conv_transpose2d(image, kernel)",
    "conv_transpose3d": "mx.conv_transpose3d(mx.ones((1, 3, 3, 3, 1)), mx.ones((1, 2, 2, 2, 1)))",
    "convolve": "mx.convolve(v, v)",
    "default_stream": "mx.default_stream(mx.cpu)",
    "depends": "mx.depends(a, a + 1)",
    "dequantize": "mx.dequantize(*quantized)",
    "device_count": "mx.device_count(mx.cpu)",
    "einsum": "mx.einsum('ij,jk->ik', a, a)",
    "einsum_path": "mx.einsum_path('ij,jk->ik', a, a)",
    "export_function": "mx.export_function(str(folder / 'f.kf'), lambda x: x + 1, a)",
    "export_to_dot": "mx.export_to_dot(str(folder / 'g.dot'), a + 1)",
    "exporter": "mx.exporter(str(folder / 'e.kf'), lambda x: x + 1).close()",
    "import_function": "[mx.export_function(str(folder / 'i.kf'), lambda x: x + 1, a), mx.import_function(str(folder / 'i.kf'))(a)]",
    "from_dlpack": "mx.from_dlpack(a)",
    "from_fp8": "mx.from_fp8(mx.to_fp8(a))",
    "to_fp8": "mx.to_fp8(a)",
    "full": "mx.full((2,), 3)",
    "full_like": "mx.full_like(a, 3)",
    "gather_mm": "mx.gather_mm(a, a, mx.array(0), mx.array(0))",
    "gather_qmm": "mx.gather_qmm(mx.ones((2, 2, 64)), *[x[None] for x in quantized], mx.array([1]), mx.array([0]))",
    "gather_qqmm": "mx.gather_qqmm(mx.ones((2, 2, 64)), mx.ones((1, 4, 64)), None, mx.array([1]), mx.array([0]))",
    "get_array_buffer_size": "mx.get_array_buffer_size(a)",
    "grad": "mx.grad(lambda x: x.sum())(a)",
    "hadamard_transform": "mx.hadamard_transform(a)",
    "is_available": "mx.is_available(mx.cpu)",
    "isdtype": "mx.isdtype(mx.float32, 'real floating')",
    "issubdtype": "mx.issubdtype(mx.float32, mx.inexact)",
    "jvp": "mx.jvp(mx.exp, [a], [a])",
    "vjp": "mx.vjp(mx.exp, [a], [a])",
    "linspace": "mx.linspace(0, 1, 3)",
    "load": "in_folder(folder, 'l.npy', lambda p: mx.save(p, a))",
    "save": "in_folder(folder, 's.npy', lambda p: mx.save(p, a))",
    "save_gguf": "in_folder(folder, 's.gguf', lambda p: mx.save_gguf(p, {'a': a}))",
    "save_safetensors": "in_folder(folder, 's.safetensors', lambda p: mx.save_safetensors(p, {'a': a}))",
    "savez": "in_folder(folder, 's.npz', lambda p: mx.savez(p, a))",
    "savez_compressed": "in_folder(folder, 'c.npz', lambda p: mx.savez_compressed(p, a))",
    "meshgrid": "mx.meshgrid(v, v)",
    "moveaxis": "mx.moveaxis(a, 0, 1)",
    "new_stream": "mx.new_stream(mx.cpu)",
    "new_thread_local_stream": "mx.new_thread_local_stream(mx.cpu)",
    "new_thread_unsafe_stream": "mx.new_thread_unsafe_stream(mx.cpu)",
    "newaxis": "a[mx.newaxis]",
    "pad": "mx.pad(a, 1)",
    "permute_dims": "mx.permute_dims(a, (1, 0))",
    "printoptions": "mx.printoptions(precision=3).__enter__().__exit__()",
    "put_along_axis": "mx.put_along_axis(a, mx.array([[0]]), mx.array(1.0), 0)",
    "qqmm": "mx.qqmm(wide, wide)",
    "quantize": "mx.quantize(wide)",
    "quantized_matmul": "mx.quantized_matmul(wide, *quantized)",
    "reshape": "mx.reshape(a, (4,))",
    "result_type": "mx.result_type(a, i)",
    "roll": "mx.roll(a, 1)",
    "searchsorted": "mx.searchsorted(v, v)",
    "segmented_mm": "mx.segmented_mm(a, a, mx.array([[0, 1], [1, 2]]))",
    "set_cache_limit": "mx.set_cache_limit(mx.set_cache_limit(1 << 30))",
    "set_memory_limit": "mx.set_memory_limit(mx.set_memory_limit(1 << 40))",
    "set_wired_limit": "mx.set_wired_limit(0)",
    "set_default_device": "mx.set_default_device(mx.default_device())",
    "set_default_stream": "mx.set_default_stream(mx.default_stream(mx.default_device()))",
    "set_printoptions": "mx.set_printoptions()",
    "slice": "mx.slice(a, mx.array([0, 0]), (0, 1), (1, 1))",
    "slice_update": "mx.slice_update(a, a[:1, :1], mx.array([0, 0]), (0, 1))",
    "split": "mx.split(a, 2)",
    "stack": "mx.stack([a, a])",
    "stream": "mx.stream(mx.cpu)",
    "swapaxes": "mx.swapaxes(a, 0, 1)",
    "take": "mx.take(v, mx.array([0]))",
    "take_along_axis": "mx.take_along_axis(a, i * 0, 1)",
    "tensordot": "mx.tensordot(a, a)",
    "unflatten": "mx.unflatten(v, 0, (3, 1))",
    "unique": "mx.unique(i, 4)",
    "value_and_grad": "mx.value_and_grad(lambda x: x.sum())(a)",
    "view": "mx.view(a, mx.int32)",
    "vmap": "mx.vmap(mx.exp)(a)",
    "where": "mx.where(b, 1, 2)",
}.items()}  # fmt: skip
CALLS |= {("core.random", n): call for n, call in {
    "_RandomState": "mx.random._RandomState()",
    "bernoulli": "mx.random.bernoulli(shape=(2,), key=key)",
    "categorical": "mx.random.categorical(a, key=key)",
    "gumbel": "mx.random.gumbel((2,), key=key)",
    "key": "mx.random.key(3)",
    "laplace": "mx.random.laplace((2,), key=key)",
    "multivariate_normal": "mx.random.multivariate_normal(v[:2], mx.eye(2), key=key)",
    "normal": "mx.random.normal((2,), key=key)",
    "permutation": "mx.random.permutation(4, key=key)",
    "randint": "mx.random.randint(0, 9, (2,), key=key)",
    "seed": "mx.random.seed(0)",
    "split": "mx.random.split(key)",
    "truncated_normal": "mx.random.truncated_normal(-1, 1, (2,), key=key)",
    "uniform": "mx.random.uniform(key=key)",
    "state": "mx.random.state[0]",
}.items()}  # fmt: skip
rows = "mx.ones((1, 2, 2, 32))"
CALLS |= {("core.fast", n): call for n, call in {
    "cross_entropy": "mx.fast.cross_entropy(a, mx.array([0, 1]))",
    "cuda_kernel": "mx.fast.cuda_kernel('k', ['x'], ['y'], 'y[0] = x[0];')",
    "gated_delta_update": f"mx.fast.gated_delta_update({rows}, {rows}, {rows}, mx.ones((1, 2, 2)), mx.ones((1, 2, 2)))",
    "layer_norm": "mx.fast.layer_norm(a, None, None, 1e-5)",
    "metal_kernel": "mx.fast.metal_kernel('k', ['x'], ['y'], 'y[0] = x[0];')",
    "rms_norm": "mx.fast.rms_norm(a, None, 1e-5)",
    "rope": "mx.fast.rope(mx.ones((1, 2, 4)), 4, traditional=False, base=1e4, scale=1.0, offset=0)",
    "scaled_dot_product_attention": f"mx.fast.scaled_dot_product_attention({rows}, {rows}, {rows}, scale=1.0)",
}.items()}  # fmt: skip
CALLS |= {("core.linalg", "norm"): "mx.linalg.norm(a)", ("core.linalg", "cross"): "mx.linalg.cross(v, v)",
          ("core.linalg", "solve"): "mx.linalg.solve(square, v)", ("core.linalg", "cholesky"): "mx.linalg.cholesky(mx.eye(3))",
          ("core.linalg", "solve_triangular"): "mx.linalg.solve_triangular(square, v)"}  # fmt: skip
CALLS |= {("core.linalg", n): f"mx.linalg.{n}(square)" for n in
          "cholesky_inv det eig eigh eigvals eigvalsh inv lu lu_factor pinv qr slogdet svd tri_inv".split()}  # fmt: skip
CALLS |= {("core.fft", n): f"mx.fft.{n}(square)" for n in
          "fft fft2 fftn fftshift ifft ifft2 ifftn ifftshift irfft irfft2 irfftn rfft rfft2 rfftn".split()}  # fmt: skip
CALLS |= {("core.fft", "fftfreq"): "mx.fft.fftfreq(4)", ("core.fft", "rfftfreq"): "mx.fft.rfftfreq(4)",
          ("core.fft", "stft"): "mx.fft.stft(mx.ones(9), n_fft=4)", ("core.fft", "istft"): "mx.fft.istft(mx.ones((3, 4)))"}  # fmt: skip
CALLS |= {("core.cuda", "is_available"): "mx.cuda.is_available()", ("core.metal", "is_available"): "mx.metal.is_available()"}
CALLS |= {("core.metal", n): f"mx.metal.{n}()" for n in
          "clear_cache device_info get_active_memory get_cache_memory get_peak_memory reset_peak_memory".split()}  # fmt: skip
CALLS |= {("core.metal", n): f"mx.metal.{n}(mx.metal.{n}(1 << 40))" for n in "set_cache_limit set_memory_limit set_wired_limit".split()}
CALLS |= {("core.distributed", n): f"mx.distributed.{n}(a)" for n in "all_gather all_max all_min all_sum sum_scatter".split()}
CALLS |= {("core.distributed", n): f"mx.distributed.{n}()" for n in ("Group", "init", "is_available")}

METHODS = """abs all any argmax argmin conj cos cummax cummin cumprod cumsum diag diagonal exp flatten item log log10
log1p log2 logcumsumexp logsumexp max mean min prod reciprocal round rsqrt sin sqrt square squeeze std sum tolist
transpose var __abs__ __array_namespace__ __bool__ __bytes__ __complex__ __copy__ __dlpack__ __dlpack_device__ __float__
__getstate__ __index__ __int__ __invert__ __iter__ __len__ __neg__ __pos__ __repr__ __array__""".split()
ONE = "item __bool__ __complex__ __float__ __int__".split()
CALLS |= {("class core.array", n): f"a.{n}()" for n in METHODS}
CALLS |= {("class core.array", n): f"a[0, 0].{n}()" for n in ONE}
CALLS |= {("class core.array", n): f"i[0, 0].{n}()" for n in ("__index__", "__invert__")}
OPERATORS = "add div floordiv mod mul pow sub truediv".split()
CALLS |= {("class core.array", f"__{k}{n}__"): f"(a + 0).__{k}{n}__(2)" for n in OPERATORS for k in ("", "r", "i")}
CALLS |= {("class core.array", f"__{k}{n}__"): f"(i + 0).__{k}{n}__(1)" for n in "and or xor lshift rshift".split() for k in ("", "i")}
CALLS |= {("class core.array", f"__{n}__"): f"a.__{n}__(1.0)" for n in "eq ne lt le gt ge".split()}
CALLS |= {("class core.array", f"__{k}matmul__"): f"(a + 0).__{k}matmul__(a)" for k in ("", "i")}
CALLS |= {("class core.array", n): f"a.{n}" for n in "T at dtype imag itemsize mT nbytes ndim real shape size".split()}
CALLS |= {("class core.array", n): call for n, call in {
    "__new__": "mx.array.__new__(mx.array, [1])",
    "__init__": "mx.array([1], dtype=mx.int8)",
    "__deepcopy__": "copy.deepcopy({'x': a})",
    "__format__": "format(a[0, 0], '.2f')",
    "__getitem__": "a[0]",
    "__setitem__": "assigned(a + 0, 0, 1.0)",
    "__setstate__": "(a + 0).__setstate__(a.__getstate__())",
    "astype": "a.astype(mx.int8)",
    "moveaxis": "a.moveaxis(0, 1)",
    "reshape": "a.reshape(4)",
    "split": "a.split(2)",
    "swapaxes": "a.swapaxes(0, 1)",
    "view": "a.view(mx.int32)",
    "__reduce__": "pickle.loads(pickle.dumps(a))",
}.items()}  # fmt: skip
CALLS |= {("class core.ArrayAt", n): f"a.at[0].{n}(2.0)" for n in "add divide maximum minimum multiply subtract".split()}
CALLS |= {("class core.ArrayAt", "__getitem__"): "a.at[0]"}
CALLS |= {("class core.ArrayIterator", n): "next(iter(iter(a)))" for n in ("__iter__", "__next__")}
CALLS |= {("class core.ArrayLike", n): "mx.ArrayLike([1])" for n in ("__init__", "__new__")}
for owner, made, methods in (
    ("Device", "mx.Device(mx.cpu, 0)", {"__eq__": "x == x", "__repr__": "repr(x)", "type": "x.type"}),
    ("Stream", "mx.default_stream(mx.cpu)", {"__eq__": "x == x", "__repr__": "repr(x)", "device": "x.device"}),
    ("ThreadLocalStream", "mx.new_thread_local_stream(mx.cpu)", {"__eq__": "x == x", "__repr__": "repr(x)", "device": "x.device"}),
    ("Dtype", "mx.int8", {"__eq__": "x == x", "__repr__": "repr(x)", "__hash__": "hash(x)", "size": "x.size"}),
    ("StreamContext", "mx.StreamContext(mx.cpu)", {"__enter__": "[x.__enter__(), x.__exit__()]", "__exit__": "[x.__enter__(), x.__exit__()]"}),
    ("PrintOptions", "mx.PrintOptions(precision=2)", {"precision": "x.precision"}),
    ("_PrintOptionsContext", "mx._PrintOptionsContext(mx.PrintOptions(2))",
     {"__enter__": "[x.__enter__(), x.__exit__()]", "__exit__": "[x.__enter__(), x.__exit__()]"}),
    ("finfo", "mx.finfo(mx.float32)", {n: f"x.{n}" for n in "bits dtype eps max min smallest_normal".split()} | {"__repr__": "repr(x)"}),
    ("iinfo", "mx.iinfo(mx.int8)", {n: f"x.{n}" for n in "dtype max min".split()} | {"__repr__": "repr(x)"}),
    ("FunctionExporter", "mx.exporter(str(folder / 'x.kf'), lambda x: x + 1)",
     {"__call__": "[x(a), x.close()]", "__enter__": "[x.__enter__(), x.close()]", "__exit__": "x.__exit__()", "close": "x.close()"}),
    ("custom_function", "mx.custom_function(mx.exp)",
     {"__call__": "x(a)", "vjp": "x.vjp(lambda p, c, o: c)", "jvp": "x.jvp(lambda p, t: t)", "vmap": "x.vmap(lambda i, a: (i, a))"}),
    ("_gc_func", "mx.compile(mx.exp)", {"__call__": "x(a)", "__getattribute__": "x.__doc__"}),
    ("random._RandomState", "mx.random.state", {"__getitem__": "x[0]", "__iter__": "list(x)", "__len__": "len(x)"}),
    ("distributed.Group", "mx.distributed.Group()", {"rank": "x.rank()", "size": "x.size()", "split": "x.split(0)"}),
):  # fmt: skip
    CALLS |= {(f"class core.{owner}", n): f"[{call} for x in [{made}]]" for n, call in methods.items()}
    CALLS |= {(f"class core.{owner}", n): f"type({made})" for n in ("__init__", "__new__")}
for owner in ("DeviceType", "DtypeCategory"):
    first = next(iter(getattr(mx, owner))).name
    CALLS |= {(f"class core.{owner}", n.name): f"mx.{owner}.{n.name}.value" for n in getattr(mx, owner)}
    CALLS |= {(f"class core.{owner}", n): call for n, call in {
        "__contains__": f"mx.{owner}.{first} in mx.{owner}", "__getitem__": f"mx.{owner}[{first!r}]",
        "__iter__": f"list(mx.{owner})", "__len__": f"len(mx.{owner})", "__members__": f"mx.{owner}.__members__",
        "__name__": f"mx.{owner}.__name__"}.items()}  # fmt: skip

# What must fail: (exception, call).
FAILING = {("core.distributed", n): (ValueError, call) for n, call in {
    "send": "mx.distributed.send(a, 0)", "recv": "mx.distributed.recv((2,), mx.float32, 0)",
    "recv_like": "mx.distributed.recv_like(a, 0)"}.items()}  # fmt: skip
FAILING |= {("core.metal", "start_capture"): (RuntimeError, "mx.metal.start_capture('x')"),
            ("core.metal", "stop_capture"): (RuntimeError, "mx.metal.stop_capture()"),
            ("class core.ArrayAt", "__init__"): (TypeError, "mx.ArrayAt()"),
            ("class core.ArrayAt", "__new__"): (TypeError, "mx.ArrayAt()"),
            ("class core.ArrayIterator", "__init__"): (TypeError, "mx.ArrayIterator()"),
            ("class core.ArrayIterator", "__new__"): (TypeError, "mx.ArrayIterator()"),
            ("core.fast", "precompiled_cuda_kernel"): (RuntimeError,
             "mx.eval(mx.fast.precompiled_cuda_kernel(name='k', compiled_source=b'x', inputs=[a], output_shapes=[(1,)], "
             "output_dtypes=[mx.float32], scalars=[], grid=(1, 1, 1), threadgroup=(1, 1, 1), stream=mx.gpu))")}  # fmt: skip


def uncalled():
    return [row for row in NAMES if not CALLS.get(row) and row not in FAILING]


def test_every_name_is_called():
    assert uncalled() == []


def evaluated(x):
    if isinstance(x, mx.array):
        mx.eval(x)
    elif isinstance(x, (list, tuple)):
        for item in x:
            evaluated(item)


@pytest.mark.parametrize("row", [row for row in NAMES if CALLS.get(row)], ids="-".join)
def test_call(row, tmp_path):
    evaluated(eval(CALLS[row], globals() | {"folder": tmp_path}))


@pytest.mark.parametrize("row", [row for row in NAMES if row in FAILING], ids="-".join)
def test_call_fails(row):
    error, call = FAILING[row]
    with pytest.raises(error):
        eval(call, globals())


if __name__ == "__main__":
    print(f"{len(NAMES)} names, {len([r for r in NAMES if CALLS.get(r)])} called, "
          f"{len([r for r in NAMES if r in FAILING])} called and fail as they must")  # fmt: skip
    for owner, name in uncalled():
        print(f"not called: {owner}.{name}")
