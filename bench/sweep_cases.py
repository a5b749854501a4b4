"""The cases of sweep.py: for each function its dtypes, its shapes and layouts, and what NumPy and PyTorch call it. A table of a family has one line for a function: its name, NumPy's, PyTorch's ("=" the same, "-" none), and what else the family asks for."""
INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
REAL = ["bool"] + INTEGERS + FLOATS
ALL = REAL + ["complex64"]
DTYPES = {"all": ALL, "real": REAL, "number": INTEGERS + FLOATS + ["complex64"], "ordered": INTEGERS + FLOATS, "integer": ["bool"] + INTEGERS, "counts": INTEGERS, "float": FLOATS, "inexact": FLOATS + ["complex64"], "complex": ["complex64"],
          "matrix": ["float16", "bfloat16", "float32", "float64", "complex64"], "solved": ["float32", "float64"], "keel_float": ["float16", "bfloat16", "float32"], "f32": ["float32"], "bool": ["bool"], "uint8": ["uint8"], "keys": ["uint32"]}

# name, NumPy, PyTorch, dtypes, from, to: the interval of real operands.
UNARY = """
negative = neg number -3 3|abs = = all -3 3|exp = = all -3 3|log = = all 0.1 10|sqrt = = all 0 10|square = = all -3 3|floor = = real -9 9|ceil = = real -9 9|sign = = all -3 3
erfinv - = real -0.99 0.99|logical_not = = all -3 3|expm1 = = real -3 3|log1p = = all -0.9 3|log2 = = all 0.1 10|log10 = = all 0.1 10|sinc = = real -3 3|sin = = all -9 9|cos = = all -9 9|tan = = all -1.5 1.5
arcsin = = all -0.99 0.99|arccos = = all -0.99 0.99|arctan = = all -9 9|sinh = = all -3 3|cosh = = all -3 3|tanh = = all -3 3|arcsinh = = all -9 9|arccosh = = all 1.1 9|arctanh = = all -0.99 0.99|cbrt = - real -9 9
erf - = real -3 3|rsqrt - = all 0.1 9|sigmoid - = real -9 9|conj = = all -3 3|real = = complex -3 3|imag = = complex -3 3|bitwise_invert = bitwise_not integer 0 100|isnan = = inexact -3 3|isinf = = inexact -3 3
isfinite = = inexact -3 3|isposinf = = float -3 3|isneginf = = float -3 3|nan_to_num = = float -3 3|degrees = rad2deg float -3 3|radians = deg2rad float -99 99|reciprocal = = inexact 0.1 9|trunc = = real -9 9|round = = number -9 9|positive = = number -3 3
"""
# name, NumPy, PyTorch, dtypes, the intervals of the first and the second operand.
BINARY = """
add = = all -3 3 -3 3|subtract = = number -3 3 -3 3|multiply = = all -3 3 -3 3|divide = = all -3 3 0.5 3|maximum = = real -3 3 -3 3|minimum = = real -3 3 -3 3|equal = eq all -3 3 -3 3|not_equal = ne all -3 3 -3 3|less = lt real -3 3 -3 3
less_equal = le real -3 3 -3 3|greater = gt real -3 3 -3 3|greater_equal = ge real -3 3 -3 3|logical_and = = all -3 3 -3 3|logical_or = = all -3 3 -3 3|logical_xor = = all -3 3 -3 3|arctan2 = = real -3 3 -3 3|power = pow number 0.1 3 0 3|logaddexp = = float -3 3 -3 3
floor_divide = = ordered -99 99 1 9|remainder = = ordered -99 99 1 9|bitwise_and = = integer 0 99 0 99|bitwise_or = = integer 0 99 0 99|bitwise_xor = = integer 0 99 0 99|left_shift = bitwise_left_shift counts 0 99 0 7|right_shift = bitwise_right_shift counts 0 99 0 7
silu_mul - - keel_float -3 3 -3 3|isclose = = float -3 3 -3 3|divmod = - ordered -99 99 1 9
"""
# The same with a Python number as the second operand: name, NumPy, PyTorch, dtypes, the interval, the number.
SCALAR = """
add = = number -3 3 2|multiply = = number -3 3 2|divide = = number -3 3 3|maximum = - ordered -3 3 1|less = lt ordered -3 3 1|power = pow inexact 0.1 3 3|power = pow float 0.1 3 2.5|floor_divide = = ordered 0 99 7|remainder = = ordered 0 99 7|bitwise_and = = counts 0 99 7
left_shift = bitwise_left_shift counts 0 99 3|right_shift = bitwise_right_shift counts 0 99 3
"""
# name, NumPy, PyTorch, dtypes; `along` 1: reduces an axis or everything, 2: keeps the shape and works along an axis.
ALONG = """
sum = = all 1|prod = = all 1|max = amax real 1|min = amin real 1|mean = = inexact 1|var = = float 1|std = = float 1|all = = all 1|any = = all 1|argmax = = real 1|argmin = = real 1|logsumexp - = float 1|median = = ordered 1|count_nonzero = = all 1|minmax - aminmax ordered 1
softmax - = float 2|cumsum = = all 2|cumprod = = all 2|cummax maximum.accumulate - real 2|cummin minimum.accumulate - real 2|logcumsumexp - = float 2|sort = = real 2|argsort = = real 2|flip = - all 2|roll = - all 2|diff = = number 2
"""
TRANSFORMS = "fft = = |ifft = = |fft2 = = |ifft2 = = |fftn = = |ifftn = = |rfft = = |irfft = = |rfft2 = = |irfft2 = = |rfftn = = |irfftn = = |fftshift = = |ifftshift = = "
MATRICES = """
inv = = |pinv = = |det = = |slogdet = = |cholesky = = definite|cholesky_inv - - lower|tri_inv - - lower|lu - = |lu_factor - = |qr = = |svd = = |eigh = = definite|eigvalsh = = definite|eig = = |eigvals = = |norm = = 
"""
RANDOM = """
normal standard_normal randn|uniform random rand|bernoulli - -|gumbel - -|laplace - -|truncated_normal - -
"""
# What the API has and no case times, and why.
NOT_TIMED = {
    **dict.fromkeys("reshape transpose swapaxes moveaxis matrix_transpose expand_dims squeeze flatten unflatten broadcast_to broadcast_arrays as_strided view diagonal slice split unstack atleast_1d atleast_2d atleast_3d meshgrid real_view stop_gradient".split(), "a view, no kernel"),
    **dict.fromkeys("acos acosh asin asinh atan atan2 atanh bitwise_left_shift bitwise_right_shift concat conjugate cumulative_prod cumulative_sum matrix_norm permute_dims pow".split(), "another name of a function that is timed"),
    **dict.fromkeys("empty empty_like".split(), "computes nothing"),
    "gather_qqmm": "as gather_qmm and qqmm, which are timed",
    **dict.fromkeys("argument custom_function placeholder deferred call depends".split(), "no kernel of its own"),
    **dict.fromkeys("kernel metal_kernel cuda_kernel precompiled_cuda_kernel fast.metal_kernel fast.cuda_kernel fast.precompiled_cuda_kernel".split(), "the user's kernel; GPUs only"),
    **dict.fromkeys("norm_backward attention_backward convolution_backward".split(), "gradients: cpu_peers.py, train_peers.py"),
    **dict.fromkeys("async_eval eval synchronize compile enable_compile disable_compile checkpoint grad jvp vjp vmap value_and_grad export_function export_to_dot exporter import_function".split(), "transforms and evaluation: train_peers.py, bench_transforms"),
    **dict.fromkeys("load save save_gguf save_safetensors savez savez_compressed from_dlpack asarray array".split(), "files and conversions: bench_load, python_peers.py"),
    **dict.fromkeys(("broadcast_shapes can_cast clear_cache clear_streams default_device default_stream device_count device_info einsum_path get_active_memory get_array_buffer_size get_cache_memory get_memory_limit get_peak_memory get_printoptions is_available isdtype issubdtype "
                     "new_stream new_thread_local_stream new_thread_unsafe_stream printoptions reset_peak_memory result_type set_cache_limit set_default_device set_default_stream set_memory_limit set_printoptions set_wired_limit stream "
                     "random.key random.seed random.split linalg.cross").split(), "computes nothing, or a handful of numbers"),
}
# The function of Python that computes an operation's row, where its name is another one.
OF_ROWS = {"conjugate": "conj", "copy": "contiguous", "argmax": "argmax", "random_bits": "random.normal", "gather": "take", "scatter": "at.add", "put_along_axis": "put_along_axis", "convolution": "conv2d", "scaled_dot_product_attention": "fast.scaled_dot_product_attention", "rope": "fast.rope",
           "rms_norm": "fast.rms_norm", "layer_norm": "fast.layer_norm", "fft": "fft.fft", "silu_mul": "silu_mul", **{n: "linalg." + n for n in "cholesky solve_triangular lu solve inv pinv qr svd eigh eig".split()}, "slice_update": "slice_update"}
LAYOUTS = ["64", "4096", "1M", "4M", "transposed", "strided"]
N = 1024


def rows(table):
    return [line.split() for line in table.replace("\n", "|").split("|") if line.strip()]


class Operands:
    """Makes the same numbers for each library."""

    def __init__(self, mx, np, torch):
        self.mx, self.np, self.torch, self.rng = mx, np, torch, np.random.default_rng(1)

    def numbers(self, dtype, low, high, shape):
        np, rng = self.np, self.rng
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype == "complex64":
            return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(np.complex64)
        if dtype in INTEGERS:
            low = max(low, 0 if dtype[0] == "u" else low)
            return rng.integers(int(np.ceil(low)), max(int(np.ceil(low)), int(high)) + 1, shape).astype(dtype)
        return rng.uniform(low, high, shape).astype("float32" if dtype == "bfloat16" else dtype)

    def all_of(self, a, dtype):
        """(Keel, NumPy, PyTorch): the array of each, None where the library has not this dtype."""
        ours = self.mx.array(a, self.mx.float64) if dtype == "float64" else self.mx.array(a)  # else NumPy's float64 becomes float32, as in MLX
        theirs = self.torch.from_numpy(self.np.ascontiguousarray(a)) if self.torch else None
        if dtype == "bfloat16":
            ours = ours.astype(self.mx.bfloat16)
            theirs = theirs.bfloat16() if self.torch else None
        self.mx.eval(ours)
        return ours, None if dtype == "bfloat16" else self.np.ascontiguousarray(a), theirs

    def laid_out(self, dtype, low, high, layout, second=False):
        """Three arrays in a layout; of a second operand `strided` is a broadcast row."""
        shape = {"64": (64,), "4096": (4096,), "1M": (1 << 20,), "4M": (1 << 22,), "transposed": (N, N), "strided": (1, N) if second else (N, 2 * N)}[layout]
        made = self.all_of(self.numbers(dtype, low, high, shape), dtype)
        if layout == "transposed" and not second:
            return tuple(x if x is None else x.T for x in made)
        if layout == "strided" and not second:
            return tuple(x if x is None else x[:, ::2] for x in made)
        return made


def cases(mx, np, torch):
    """Yields (function, dtype, operands, a function that makes {library: call})."""
    import sweep_families
    o = Operands(mx, np, torch)

    def found(module, name, ours):
        """A peer's function, or None: "-" is none, "=" the same name."""
        if module is None or name == "-":
            return None
        for part in (ours if name == "=" else name).split("."):
            module = getattr(module, part, None)
        return module

    def calls(f, g, h, *operands, **keywords):
        """operands: triples, or what all libraries take. Keel evaluates."""
        mine, his, hers = ([x[i] if isinstance(x, tuple) and len(x) == 3 else x for x in operands] for i in range(3))
        made = {"keel": lambda: mx.eval(f(*mine, **keywords))}
        if g is not None and all(x is not None for x in his):
            made["numpy"] = lambda: g(*his, **keywords)
        if h is not None and all(x is not None for x in hers):
            made["torch"] = lambda: h(*hers, **keywords)
        return made

    for name, of_numpy, of_torch, dtypes, low, high in rows(UNARY):
        f, g, h = getattr(mx, name), found(np, of_numpy, name), found(torch, of_torch, name) or found(getattr(torch, "special", None), of_torch, name)
        for dtype in DTYPES[dtypes]:
            for layout in LAYOUTS:
                yield name, dtype, layout, lambda: calls(f, g, h, o.laid_out(dtype, float(low), float(high), layout))
    for name, of_numpy, of_torch, dtypes, low, high, low2, high2 in rows(BINARY):
        f, g, h = getattr(mx, name), found(np, of_numpy, name), found(torch, of_torch, name)
        for dtype in DTYPES[dtypes]:
            for layout in LAYOUTS:
                label = {"transposed": "transposed and contiguous", "strided": "strided and a row"}.get(layout, layout)
                yield name, dtype, label, lambda: calls(f, g, h, o.laid_out(dtype, float(low), float(high), layout), o.laid_out(dtype, float(low2), float(high2), layout, True))
    for name, of_numpy, of_torch, dtypes, low, high, number in rows(SCALAR):
        f, g, h = getattr(mx, name), found(np, of_numpy, name), found(torch, of_torch, name)
        for dtype in DTYPES[dtypes]:
            k = int(number) if "." not in number else float(number)
            for layout in LAYOUTS:
                yield f"{name} by {number}", dtype, layout, lambda: calls(f, g, h, o.laid_out(dtype, float(low), float(high), layout), k)
    for name, of_numpy, of_torch, dtypes, kind in rows(ALONG):
        for dtype in DTYPES[dtypes]:
            yield from sweep_families.along(o, name, getattr(mx, name), found(np, of_numpy, name), found(torch, of_torch, name), dtype, kind == "1")
    yield from sweep_families.others(o, calls, found)
