"""Loading and saving arrays, and functions in files."""

import atexit
import os

from keel import _core
from keel._core import array
from keel.core._transforms import _leaves

__all__ = [
    "load",
    "save",
    "savez",
    "savez_compressed",
    "save_safetensors",
    "save_gguf",
    "export_function",
    "exporter",
    "FunctionExporter",
    "import_function",
    "export_to_dot",
]

atexit.register(_core._finalize)  # threads of the library read no Python file after this

_FORMATS = {"npy": 1, "npz": 2, "safetensors": 3, "gguf": 4}


def _path(file):
    """A path as str, or the file object itself."""
    return os.fspath(file) if isinstance(file, (str, os.PathLike)) else file


def load(file, /, format=None, return_metadata=False, *, stream=None):
    """The arrays of a file: of .npy an array, of .npz, .safetensors and .gguf a dict by name.

    Arrays are lazy: a tensor is read when its value is needed, and a file that is cut short fails
    exactly the tensors whose bytes are missing. file: a path, or a binary file object that can seek.
    format: "npy", "npz", "safetensors" or "gguf"; without it the first bytes of the file tell.
    return_metadata: for safetensors and gguf, a pair of the arrays and the metadata.

    Raises RuntimeError for a file that cannot be opened or breaks a rule of its format, ValueError
    for an unknown format.

    Example:
        >>> mx.save("/tmp/keel_example.npy", mx.array([1, 2]))
        >>> mx.load("/tmp/keel_example.npy")
        array([1, 2], dtype=int32)
    """
    if format is not None and format not in _FORMATS:
        raise ValueError(f"load(): format is {format!r}, but must be one of {sorted(_FORMATS)}")
    file = _path(file)
    name = file if isinstance(file, str) else getattr(file, "name", "")
    kind = format or (name.rpartition(".")[2] if isinstance(name, str) else "")
    if kind == "gguf" and isinstance(file, str):
        arrays, metadata = _core._load_gguf(file)
        return (arrays, metadata) if return_metadata else arrays
    arrays, metadata = _core._load(file, _FORMATS.get(kind, 0))
    if kind == "npy" or list(arrays) == [""]:
        if return_metadata:
            raise ValueError("load(): a .npy file has no metadata")
        return arrays[""]
    if kind == "npz":
        arrays = {key.removesuffix(".npy"): value for key, value in arrays.items()}
    return (arrays, metadata) if return_metadata else arrays


def _with_suffix(file, suffix):
    file = _path(file)
    return file + suffix if isinstance(file, str) and not file.endswith(suffix) else file


def save(file, arr):
    """Writes an array in NumPy's .npy format. The old file stays until the new one is complete.

    file: a path (".npy" is added where it is missing) or a binary file object.

    Raises RuntimeError when the file cannot be written; errors of the array as when it is read.

    Example:
        >>> mx.save("/tmp/keel_example.npy", mx.array([1, 2]))
    """
    if not isinstance(arr, array):
        raise TypeError(f"save() takes an array, not {type(arr).__name__}")
    _core._save_npy(_with_suffix(file, ".npy"), arr)


def _savez(file, args, kwargs, compressed):
    arrays = {k: v if isinstance(v, array) else array(v) for k, v in kwargs.items()}
    for i, value in enumerate(args):
        if f"arr_{i}" in arrays:
            raise ValueError(f"savez(): the name arr_{i} is given twice")
        arrays[f"arr_{i}"] = value if isinstance(value, array) else array(value)
    file = _with_suffix(file, ".npz")
    if isinstance(file, str):
        _core._save_npz(file, arrays, compressed)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arrays.npz")
        _core._save_npz(path, arrays, compressed)
        with open(path, "rb") as made:
            while block := made.read(1 << 20):
                file.write(block)


def savez(file, *args, **kwargs):
    """Writes several arrays in NumPy's .npz format: by keyword, positional ones as arr_0, arr_1.

    file: a path (".npz" is added where it is missing) or a binary file object.

    Raises RuntimeError when the file cannot be written.

    Example:
        >>> mx.savez("/tmp/keel_example.npz", a=mx.array([1, 2]))
    """
    _savez(file, args, kwargs, False)


def savez_compressed(file, *args, **kwargs):
    """The same as savez, with compressed arrays.

    Example:
        >>> mx.savez_compressed("/tmp/keel_example.npz", a=mx.array([1, 2]))
    """
    _savez(file, args, kwargs, True)


def save_safetensors(file, arrays, metadata=None):
    """Writes a dict of arrays in the safetensors format, with metadata: a dict of str by str.

    file: a path (".safetensors" is added where it is missing) or a binary file object.

    Raises TypeError for other keys and values, RuntimeError when the file cannot be written.

    Example:
        >>> mx.save_safetensors("/tmp/keel_example.safetensors", {"w": mx.ones((2,))})
    """
    _core._save_safetensors(_with_suffix(file, ".safetensors"), arrays, metadata or {})


def save_gguf(file, arrays, metadata={}):
    """Writes a dict of arrays in the GGUF format, with metadata: arrays, str or lists of str by name.

    file: a path (".gguf" is added where it is missing).

    Raises TypeError for other keys and values, RuntimeError when the file cannot be written.

    Example:
        >>> mx.save_gguf("/tmp/keel_example.gguf", {"w": mx.ones((2,))}, {"name": "example"})
    """
    _core._save_gguf(_with_suffix(file, ".gguf"), arrays, metadata)


# ---- functions in files ----
def _split(args, kwargs):
    """Arguments as MLX takes them: arrays, or one tuple (list) of arrays and one dict."""
    if len(args) == 2 and isinstance(args[0], (tuple, list)) and isinstance(args[1], dict):
        args, kwargs = args[0], {**args[1], **kwargs}
    elif len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    elif len(args) == 1 and isinstance(args[0], dict):
        args, kwargs = (), {**args[0], **kwargs}
    for x in (*args, *kwargs.values()):
        if not isinstance(x, array):
            raise ValueError(f"an exported function takes arrays, not {type(x).__name__}")
    return list(args), dict(kwargs)


def _list_of(result):
    if isinstance(result, array):
        return [result]
    if not isinstance(result, (tuple, list)) or not all(isinstance(r, array) for r in result):
        raise ValueError("an exported function must return an array, or a tuple or list of arrays")
    return list(result)


def export_function(file_or_callback, fun, *args, shapeless=False, metadata=None, **kwargs):
    """Writes what a function does with arguments of these shapes and dtypes to a file.

    file_or_callback: a path. fun returns an array, or a tuple or list of arrays. args, kwargs:
    example arrays; a tuple and a dict of them are taken too. shapeless: the file takes other sizes
    of the same number of axes. The format is Keel's own.

    Raises ValueError for arguments or results that are not arrays, and for a callback.

    Example:
        >>> mx.export_function("/tmp/keel_example.fn", mx.exp, mx.array(0.0))
    """
    if not isinstance(file_or_callback, (str, os.PathLike)):
        raise ValueError("export_function() writes to a path; a callback is not taken")
    arrays, named = _split(args, kwargs)
    _core._export(
        _path(file_or_callback), lambda xs, ks: _list_of(fun(*xs, **ks)), arrays, named, shapeless
    )


class FunctionExporter:
    """Writes several traces of one function, for different shapes, to one file: see exporter."""

    def __init__(self, file, fun, shapeless):
        self._exporter = _core._exporter(_path(file), lambda xs: _list_of(fun(*xs)), shapeless)

    def __call__(self, *args, **kwargs):
        """Adds the trace for arguments of these shapes and dtypes."""
        arrays, named = _split(args, kwargs)
        if named:
            raise ValueError("an exporter takes positional arrays; export_function takes named ones")
        self._exporter.add(arrays)

    def close(self):
        """Writes the file. Raises RuntimeError when it cannot be written."""
        self._exporter.close()

    def __enter__(self):
        return self

    def __exit__(self, exc_type=None, exc_value=None, traceback=None):
        self.close()


def exporter(file, fun, *, shapeless=False, metadata=None):
    """An exporter of a function: call it with arrays of each shape, then close it.

    Example:
        >>> with mx.exporter("/tmp/keel_example.fn", mx.exp) as e:
        ...     e(mx.array(0.0))
        ...     e(mx.array([0.0, 1.0]))
    """
    return FunctionExporter(file, fun, shapeless)


def import_function(file, return_metadata=False):
    """A function from a file that export_function or exporter wrote: it returns a list of arrays.

    Raises RuntimeError for a file that breaks a rule of the format; the function raises ValueError
    for arguments of other shapes or dtypes than were exported.

    Example:
        >>> mx.export_function("/tmp/keel_example.fn", mx.exp, mx.array(0.0))
        >>> mx.import_function("/tmp/keel_example.fn")(mx.array(0.0))
        [array(1, dtype=float32)]
    """
    run = _core._import(_path(file))

    def imported(*args, **kwargs):
        return run(*_split(args, kwargs))

    return (imported, None) if return_metadata else imported


def export_to_dot(file, *args, **kwargs):
    """Writes the graph of arrays that are not evaluated yet, for Graphviz.

    file: a path or a text file object. args: trees of arrays; kwargs: arrays by the name shown.

    Example:
        >>> mx.export_to_dot("/tmp/keel_example.dot", mx.array(1) + mx.array(2))
    """
    arrays = _leaves(args, []) + _leaves(list(kwargs.values()), [])
    text = _core._dot(arrays, {k: v for k, v in kwargs.items() if isinstance(v, array)})
    if hasattr(file, "write"):
        file.write(text)
    else:
        with open(file, "w") as out:
            out.write(text)
