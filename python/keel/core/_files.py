"""Loading and saving arrays, and functions in files."""

import atexit
import io
import json
import os
import stat
import sys

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


def _readable(file, name):
    """A path as str, or a binary file that can be read from any place."""
    file = _path(file)
    if isinstance(file, str):
        return file
    if isinstance(file, io.TextIOBase) or not (hasattr(file, "read") and hasattr(file, "seek")):
        raise ValueError(f"{name}() takes a path or a file opened in binary mode, not {type(file).__name__}")
    return file


_REAL = (io.FileIO, io.BufferedReader, io.BufferedRandom)


def _descriptor(file):
    """A descriptor of our own for an open file of the system, or None: for files in memory, or
    those of which each byte is computed, as gzip's, whose descriptor leads to other bytes."""
    tempfile = sys.modules.get("tempfile")
    if tempfile and isinstance(file, tempfile._TemporaryFileWrapper):
        file = file.file
    raw = file if type(file) is io.FileIO else getattr(file, "raw", None)
    if type(file) not in _REAL or type(raw) is not io.FileIO:
        return None
    if file.writable():
        file.flush()
    if not file.readable() or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    return os.dup(file.fileno())


def _load_from(file, kind, with_metadata):
    if isinstance(file, str):
        return _core._load(file, kind, False, with_metadata)
    descriptor = _descriptor(file)
    if descriptor is not None:
        return _core._load(descriptor, kind, False, with_metadata)
    # The program may close the file after this call. One that is a BytesIO with a read of its own
    # is read when the arrays are needed: its bytes are in memory already.
    now = not isinstance(file, io.BytesIO) or type(file) is io.BytesIO
    return _core._load(file, kind, now, with_metadata)


def load(file, /, format=None, return_metadata=False, *, stream=None):
    if format is not None and format not in _FORMATS:
        raise ValueError(f"load(): format is {format!r}, but must be one of {sorted(_FORMATS)}")
    file = _readable(file, "load")
    name = file if isinstance(file, str) else getattr(file, "name", "")
    kind = format or (name.rpartition(".")[2] if isinstance(name, str) else "")
    if kind == "gguf" and isinstance(file, str):
        arrays, metadata = _core._load_gguf(file, return_metadata)
        return (arrays, metadata) if return_metadata else arrays
    arrays, metadata = _load_from(file, _FORMATS.get(kind, 0), return_metadata)
    if kind == "npy" or list(arrays) == [""]:
        if return_metadata:
            raise ValueError("load(): a .npy file has no metadata")
        return arrays[""]
    if kind == "npz":
        arrays = {key.removesuffix(".npy"): value for key, value in arrays.items()}
    return (arrays, metadata) if return_metadata else arrays


def _with_suffix(file, suffix):
    file = _path(file)
    if not isinstance(file, str) and (isinstance(file, io.TextIOBase) or not hasattr(file, "write")):
        raise ValueError(f"arrays are saved to a path or a file opened in binary mode, not {type(file).__name__}")
    return file + suffix if isinstance(file, str) and not file.endswith(suffix) else file


def save(file, arr):
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
    _savez(file, args, kwargs, False)


def savez_compressed(file, *args, **kwargs):
    _savez(file, args, kwargs, True)


def save_safetensors(file, arrays, metadata=None):
    _core._save_safetensors(_with_suffix(file, ".safetensors"), arrays, metadata or {})


def save_gguf(file, arrays, metadata=None):
    _core._save_gguf(_with_suffix(file, ".gguf"), arrays, {} if metadata is None else metadata)


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


def _with_lists(fun):
    if not callable(fun):
        raise TypeError(f"a function is exported, not {type(fun).__name__}")
    return lambda xs, ks: _list_of(fun(*xs, **ks))


def _metadata(text):
    if text is not None and not isinstance(text, str):
        raise TypeError(f"metadata is a str, not {type(text).__name__}")
    return text


def _letters(number):
    """A, B, ... Z, AA, AB, ... as names of values."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def _tell(callback, events):
    """Calls the callback with a dict for each thing of a function, in MLX's form."""
    inputs, outputs, constants, operations = [], [], [], []
    keywords = []
    for kind, name, parameters, takes, gives, names, constant in events:
        takes, gives = ([(_letters(n), shape, dtype) for n, shape, dtype in values] for values in (takes, gives))
        if kind == 0:
            inputs = takes
            keywords = [(key, value[0]) for key, value in zip(names, takes[len(takes) - len(names) :])]
        elif kind == 1:
            outputs = gives
        elif kind == 2:
            constants.append((gives[0][0], constant))
        else:
            operation = {"type": "primitive", "name": name, "inputs": takes, "outputs": gives}
            operations.append({**operation, "arguments": json.loads(parameters)})
    callback({"type": "inputs", "inputs": inputs})
    callback({"type": "keyword_inputs", "keywords": keywords})
    callback({"type": "outputs", "outputs": outputs})
    callback({"type": "constants", "constants": constants})
    for operation in operations:
        callback(operation)


def export_function(file_or_callback, fun, *args, shapeless=False, metadata=None, **kwargs):
    callback = file_or_callback if callable(file_or_callback) else None
    if callback is not None and metadata is not None:
        raise ValueError("export_function() keeps metadata in a file; a callback has none")
    path = _path(file_or_callback)
    if callback is None and not isinstance(path, str):
        raise ValueError(f"export_function() takes a path or a callback, not {type(path).__name__}")
    arrays, named = _split(args, kwargs)
    fun = _with_lists(fun)
    if callback is None:
        _core._export(path, fun, arrays, named, shapeless, _metadata(metadata))
    else:
        _tell(callback, _core._describe(fun, arrays, named, shapeless))


class FunctionExporter:
    def __init__(self, file, fun, shapeless, metadata=None):
        """Opens the file; exporter() does that."""
        self._exporter = _core._exporter(_path(file), _with_lists(fun), shapeless, _metadata(metadata))

    def __call__(self, *args, **kwargs):
        self._exporter.add(*_split(args, kwargs))

    def close(self):
        self._exporter.close()

    def __enter__(self):
        return self

    def __exit__(self, exc_type=None, exc_value=None, traceback=None):
        self.close()


def exporter(file, fun, *, shapeless=False, metadata=None):
    return FunctionExporter(file, fun, shapeless, metadata)


def import_function(file, return_metadata=False):
    run = _core._import(_path(file))

    def imported(*args, **kwargs):
        return tuple(run(*_split(args, kwargs)))

    return (imported, run.metadata()) if return_metadata else imported


def export_to_dot(file, *args, **kwargs):
    arrays = _leaves(args, []) + _leaves(list(kwargs.values()), [])
    text = _core._dot(arrays, {k: v for k, v in kwargs.items() if isinstance(v, array)})
    if hasattr(file, "write"):
        file.write(text)
    else:
        with open(file, "w") as out:
            out.write(text)
