"""Every function, class and method with arguments of wrong types: what is wrong is said by an exception that is
about the argument. No AttributeError comes out of the inside, no SystemError of the extension."""

import ast
import pathlib

import keel.core as mx
import numpy as np
import pytest

X = mx.array([[1.0, 2.0], [3.0, 4.0]])
WRONG = [
    3, -3.5, "text", None, [1, 2], {}, {"a": 1}, object(), mx.float32, b"bytes", (), mx.array([1.0, 2.0]), mx.array(2), 1j, len, mx.cpu,
    True, [[1], [1, 2]], [object()], np.ones(2), np.float64(2), 2**70, mx.Device(mx.cpu), float, iter([1]),
]  # fmt: skip
# They change the process, write into the working directory, or wait; the last two raise AttributeError as Python does.
LEFT_OUT = {
    "set_default_device", "set_default_stream", "set_memory_limit", "set_cache_limit", "set_wired_limit", "disable_compile",
    "set_printoptions", "seed", "export_to_dot", "save", "savez", "savez_compressed", "save_safetensors", "save_gguf", "export_function",
    "exporter", "FunctionExporter", "start_capture", "__getattr__", "_RandomState",
}  # fmt: skip


def right(annotation, name):
    """A value that the parameter takes, or None."""
    text = annotation.removesuffix(" | None")
    if text.startswith(("array", "scalar | array")):
        return X
    if "[array" in text:
        return [X, X]
    if "Callable" in text:
        return lambda *xs: xs[0].sum()
    values = {"Sequence[int]": (1,), "int": 1, "float": 1.0, "bool": False, "Dtype": mx.float32, "str": "a", "Device": mx.cpu, "tuple": (1,)}
    return next((value for key, value in values.items() if key in text), None)


def parameters_of(node, method):
    args = node.args.posonlyargs + node.args.args
    args = args[1:] if method else args
    n_required = max(0, len(node.args.posonlyargs + node.args.args) - len(node.args.defaults) - method)
    values = [right(ast.unparse(p.annotation) if p.annotation else "", p.arg) for p in args]
    calls = []
    for i, parameter in enumerate(args):
        calls.append((parameter.arg, lambda wrong, i=i: (values[:i] + [wrong] + values[i + 1 : n_required], {})))
    for parameter in node.args.kwonlyargs:
        calls.append((parameter.arg, lambda wrong, name=parameter.arg: (values[:n_required], {name: wrong})))
    if node.args.vararg:
        calls.append((node.args.vararg.arg, lambda wrong: (values[:n_required] + [wrong], {})))
        calls.append((node.args.vararg.arg, lambda wrong: (values[:n_required] + [X, wrong], {})))
    return calls


OBJECTS = {
    "array": X, "Dtype": mx.float32, "Device": mx.Device(mx.cpu), "Stream": mx.default_stream(mx.cpu), "ArrayAt": X.at[0],
    "custom_function": mx.custom_function(len), "distributed.Group": mx.distributed.init(), "ArrayNamespaceInfo": mx.__array_namespace_info__(),
    "finfo": mx.finfo(mx.float32), "iinfo": mx.iinfo(mx.int8), "StreamContext": mx.stream(mx.cpu),
}  # fmt: skip


def everything():
    for path in sorted(pathlib.Path(mx.__file__).parent.glob("*.pyi")):
        module, prefix = (mx, "") if path.stem == "__init__" else (getattr(mx, path.stem), path.stem + ".")
        for node in ast.parse(path.read_text()).body:
            if getattr(node, "name", None) in LEFT_OUT or not hasattr(module, getattr(node, "name", "")):
                continue
            if isinstance(node, ast.FunctionDef):
                yield prefix + node.name, getattr(module, node.name), parameters_of(node, 0)
            elif isinstance(node, ast.ClassDef):
                one = OBJECTS.get(prefix + node.name)
                for item in node.body:
                    if not isinstance(item, ast.FunctionDef) or item.name == "__setstate__":
                        continue
                    if item.name == "__init__":
                        yield prefix + node.name, getattr(module, node.name), parameters_of(item, 1)
                    elif one is not None and callable(getattr(one, item.name, None)) and len(item.args.args + item.args.posonlyargs):
                        yield f"{prefix}{node.name}.{item.name}", getattr(one, item.name), parameters_of(item, 1)


EVERYTHING = [(name, f, calls) for name, f, calls in everything() if calls]


def test_all_are_there():
    assert len(EVERYTHING) > 400 and {"can_cast", "finfo", "searchsorted", "array.reshape", "linalg.norm"} <= {e[0] for e in EVERYTHING}


@pytest.mark.parametrize("name, f, calls", EVERYTHING, ids=[e[0] for e in EVERYTHING])
def test_wrong_types(name, f, calls):
    for parameter, arguments in calls:
        for wrong in WRONG:
            positional, named = arguments(wrong)
            try:
                result = f(*positional, **named)
                if callable(result) and not isinstance(result, type):
                    continue
                mx.eval(result)
            except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError, MemoryError, OSError) as error:
                assert str(error), (name, parameter, wrong)
            except Exception as error:
                raise AssertionError(f"{name}({parameter}={wrong!r}): {type(error).__name__}: {error}") from error
