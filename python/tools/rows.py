#!/usr/bin/env python3
"""Makes the headers that the extension includes, in a folder: python tools/rows.py FOLDER STUBS SOURCES...

keel_rows.h holds the tables made from the type stubs; dtype.def, the table of dtypes, is libkeel's.
Every build of the extension takes its headers from here, so none can lack one.

The stubs are the only place where a signature and its text stand. For each `KP_FUNCTION(module, name)`
of the C sources this script writes what the call needs (names, kinds and defaults of the
parameters, text for help()), and the entry that Python calls. Where a function of the
C API takes what the stub takes, the function needs no line (bodies.py). Others of the stubs are made
in Python. A method of `array` is served by the function of the same name unless
there is a `KP_FUNCTION(array, name)`; its parameters are matched by name, `self` is the first one.
"""

import ast
import inspect
import json
import pathlib
import re
import shutil
import sys

import bodies

TREE = pathlib.Path(__file__).resolve().parents[2]

KINDS = {
    "array": "ARRAY",
    "scalar | array": "SCALAR",
    "int": "INT",
    "int | Sequence[int]": "INTS",
    "Sequence[int]": "INTS",
    "float": "FLOAT",
    "bool": "BOOL",
    "str": "STRING",
    "Dtype": "DTYPE",
    "StreamOrDevice": "STREAM",
    "Sequence[array]": "ARRAYS",
    "list[array]": "ARRAYS",
}


# The ints that the C API takes as 64 bits without sign; all others are int32.
UINT64 = {
    ("seed", "seed"), ("key", "seed"), ("as_strided", "offset"),
    ("set_cache_limit", "limit"), ("set_memory_limit", "limit"), ("set_wired_limit", "limit"),
}  # fmt: skip


def kind_of(function, arg):
    if (function, arg.arg) in UINT64:
        return "UINT64"
    text = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    return KINDS.get(text.removesuffix(" | None"), "OBJECT")


def literal(text):
    return json.dumps(text, ensure_ascii=False)


def default_of(node, kind, where):
    """C initialiser of `given` and the value of a parameter that the caller leaves out."""
    if node is None or (isinstance(node, ast.Constant) and node.value in (None, ...)):
        return ".given = false"
    if isinstance(node, (ast.Tuple, ast.List)) and not node.elts:
        return ".given = true"
    try:
        value = ast.literal_eval(node)
    except ValueError:
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        return f".given = true, .i = MLX_{name.upper().removesuffix('_')}"
    if kind == "STRING":
        return f".given = true, .str = {literal(value)}"
    if kind == "FLOAT":
        return f".given = true, .f = {float(value)!r}"
    if kind in ("INT", "UINT64", "BOOL"):
        return f".given = true, .i = {int(value)}"
    if kind == "SCALAR":
        return f".given = true, .f = {float(value)!r}"
    if kind == "INTS" and isinstance(value, list):
        numbers = ", ".join(str(int(v)) for v in value)
        return f".given = true, .ints = {{(int[]){{{numbers}}}, {len(value)}}}"
    if kind == "INTS":
        return f".given = true, .one = true, .i = {int(value)}"
    if kind == "OBJECT":
        return ".given = false"
    raise SystemExit(f"{where}: no rule for the default {value!r} of kind {kind}")


class Parameter:
    def __init__(self, function, arg, default, required, how):
        self.name = arg.arg
        self.kind = kind_of(function, arg)
        self.none = arg.annotation is not None and "None" in ast.unparse(arg.annotation)
        self.default = default
        self.required = required
        self.how = how  # POSITIONAL, EITHER, KEYWORD


def parameters_of(node):
    a = node.args
    out = []
    positional = a.posonlyargs + a.args
    missing = len(positional) - len(a.defaults)
    for i, arg in enumerate(positional):
        default = a.defaults[i - missing] if i >= missing else None
        how = "POSITIONAL" if i < len(a.posonlyargs) else "EITHER"
        out.append(Parameter(node.name, arg, default, i < missing, how))
    if a.vararg:
        out.append(Parameter(node.name, a.vararg, None, False, "REST"))
    for arg, default in zip(a.kwonlyargs, a.kw_defaults):
        out.append(Parameter(node.name, arg, default, default is None, "KEYWORD"))
    return out


def signature_text(node):
    """What inspect and help() understand: the parameters without annotations."""
    a = ast.parse("def f(): pass").body[0].args
    a.posonlyargs = [ast.arg(x.arg) for x in node.args.posonlyargs]
    a.args = [ast.arg(x.arg) for x in node.args.args]
    a.vararg = ast.arg(node.args.vararg.arg) if node.args.vararg else None
    a.kwonlyargs = [ast.arg(x.arg) for x in node.args.kwonlyargs]
    plain = lambda d: d if d is None or isinstance(d, (ast.Constant, ast.UnaryOp, ast.List)) else ast.Constant(None)
    a.defaults = [plain(d) for d in node.args.defaults]
    a.kw_defaults = [plain(d) for d in node.args.kw_defaults]
    return ast.unparse(a)


def doc_of(node, name, method=False):
    head = signature_text(node)
    if method:
        head = re.sub(r"^self\b", "$self", head)
        if head.startswith("$self") and "/" not in head:
            head = head.replace("$self", "$self, /", 1)
    text = ast.get_docstring(node) or ""
    return f"{name}({head})\n--\n\n{inspect.cleandoc(text)}"


class Stub:
    def __init__(self, path):
        tree = ast.parse(path.read_text())
        self.overloaded = {
            n.name
            for n in tree.body
            if isinstance(n, ast.FunctionDef) and "overload" in [ast.unparse(d) for d in n.decorator_list]
        }
        self.functions = {}
        self.aliases = []  # (new name, old name)
        self.methods = {}
        self.array_names = set()
        self.texts = {}  # by name, or "class.method"
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
                self.texts.setdefault(node.name, ast.get_docstring(node))
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and ast.get_docstring(item):
                        self.texts.setdefault(f"{node.name}.{item.name}", ast.get_docstring(item))
            if isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, node)  # of overloads, the first
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                self.aliases.append((node.targets[0].id, node.value.id))
            elif isinstance(node, ast.ClassDef) and node.name == "array":
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and not item.decorator_list:
                        self.methods.setdefault(item.name, item)


def emit_row(out, symbol, name, doc, parameters, slots, n_slots, no_stream=False):
    out.append(f"static struct kp_parameter {symbol}_parameters[] = {{")
    for p in parameters:
        value = default_of(p.default, p.kind, f"{symbol}({p.name})")
        slot = slots.get(p.name, 0)
        out.append(
            f"    {{.name = {literal(p.name)}, .kind = K_{p.kind}, .how = H_{p.how}, .slot = {slot}, "
            f".required = {str(p.required).lower()}, .none = {str(p.none).lower()}, .value = {{{value}}}}},"
        )
    if not parameters:
        out.append("    {0},")
    out.append("};")
    n_positional = sum(p.how in ("POSITIONAL", "EITHER") for p in parameters)
    rest = next((i for i, p in enumerate(parameters) if p.how == "REST"), -1)
    out.append(
        f"struct kp_row {symbol}_row = {{.name = {literal(name)}, .parameters = {symbol}_parameters, "
        f".n = {len(parameters)}, .n_positional = {n_positional}, .rest = {rest}, .n_slots = {n_slots}, "
        f".no_stream = {str(no_stream).lower()}}};"
    )
    out.append(f"static const char {symbol}_doc[] = {c_text(doc)};")


def c_text(text):
    """A C string, cut so that no literal is longer than compilers must take."""
    return "\n    ".join(literal(line + "\n") for line in text.split("\n")) if text else '""'


def entry_of(symbol):
    return f"(PyCFunction)(void (*)(void))entry_{symbol}"


def emit_entry(out, symbol, implementation):
    out.append(
        f"static PyObject *entry_{symbol}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {{\n"
        f"    return kp_call(&{symbol}_row, {implementation}, self, args, n, names);\n}}"
    )


def main():
    folder, stubs_dir, *sources = sys.argv[1:]
    served, about_devices = set(), set()
    for source in sources:
        text = pathlib.Path(source).read_text()
        served |= set(re.findall(r"^KP_(?:DEVICE_)?FUNCTION\((\w+), (\w+)\)", text, re.M))
        about_devices |= set(re.findall(r"^KP_DEVICE_FUNCTION\((\w+), (\w+)\)", text, re.M))
        for module, name in re.findall(r"^(?:[A-Z_0-9]+)\((\w+), (\w+), *(?:mlx|keel)_\w+", text, re.M):
            served.add((module, name))
    modules = {"core": Stub(pathlib.Path(stubs_dir, "__init__.pyi"))}
    for path in sorted(pathlib.Path(stubs_dir).glob("*.pyi")):
        if path.stem != "__init__":
            modules[path.stem] = Stub(path)
    out = ["/* Made by tools/rows.py from the type stubs. */"]
    rows, written, headers = [], [], set()
    declared = bodies.declarations(TREE / "include")
    for module, stub in modules.items():
        own = bodies.made_in_python(stubs_dir, module)
        for name, node in stub.functions.items():
            symbol = f"{module}_{name}"
            parameters = parameters_of(node)
            if (module, name) not in served and name not in own and name not in stub.overloaded:
                if made := bodies.body(symbol, module, name, parameters, declared):
                    served.add((module, name))
                    headers.add(made[0])
                    written.append(made[1])
            if (module, name) not in served:
                continue
            if name in stub.overloaded:
                for p in parameters:
                    p.required = False  # the function finds out which form it is
            slots = {p.name: i for i, p in enumerate(parameters)}
            out.append(f"PyObject *kp_{symbol}(struct kp_call *c);")
            emit_row(out, symbol, name, doc_of(node, name), parameters, slots, len(parameters), (module, name) in about_devices)
            emit_entry(out, symbol, f"kp_{symbol}")
            rows.append(symbol)
        known = set(stub.functions)
        out.append(f"PyMethodDef kp_{module}_methods[] = {{")
        for name in stub.functions:
            if (module, name) in served:
                symbol = f"{module}_{name}"
                out.append(f"    {{{literal(name)}, {entry_of(symbol)}, METH_FASTCALL | METH_KEYWORDS, {symbol}_doc}},")
        out.append("    {0},\n};")
        for module_, name in sorted(served):
            if module_ == module and name not in known:
                raise SystemExit(f"KP_FUNCTION({module}, {name}) stands in no stub")
    core = modules["core"]
    for name, node in core.methods.items():
        if name.startswith("__") and ("array", name) not in served:
            continue
        own = ("array", name) in served
        if not own and ("core", name) not in served:
            continue
        symbol = f"array_{name}"
        method = parameters_of(node)
        if own:
            slots = {p.name: i for i, p in enumerate(method)}
            parameters, impl = method, f"kp_array_{name}"
            out.append(f"PyObject *{impl}(struct kp_call *c);")
            n_slots = len(method)
        else:
            of_function = parameters_of(core.functions[name])
            slots = {p.name: i for i, p in enumerate(of_function)}
            slots["self"] = 0
            names = {p.name for p in method} - {"self"}
            if names - set(slots):
                raise SystemExit(f"array.{name}: {names - set(slots)} is no parameter of {name}")
            hidden = [p for p in of_function[1:] if p.name not in names]
            for p in hidden:
                p.how = "HIDDEN"
            parameters, impl, n_slots = method + hidden, f"kp_core_{name}", len(of_function)
        for p in parameters:
            if p.name == "self":
                p.kind, p.how = "ARRAY", "POSITIONAL"
        emit_row(out, symbol, name, doc_of(node, name, method=True), parameters, slots, n_slots)
        emit_entry(out, symbol, impl)
        rows.append(symbol)
    out.append("PyMethodDef kp_array_methods[] = {")
    for symbol in rows:
        if symbol.startswith("array_"):
            name = symbol.removeprefix("array_")
            out.append(f"    {{{literal(name)}, {entry_of(symbol)}, METH_FASTCALL | METH_KEYWORDS, {symbol}_doc}},")
    out.append("    {0},\n};")
    out.append("struct kp_row *const kp_rows[] = {")
    out.extend(f"    &{symbol}_row," for symbol in rows)
    out.append("    NULL,\n};")
    aliases = [
        (module, new, old)
        for module, stub in modules.items()
        for new, old in stub.aliases
        if (module, old) in served
    ]
    # The texts of what is made in Python: keel/core/__init__.py gives them to its functions.
    out.append("const struct kp_text kp_texts[] = {")
    for module, stub in modules.items():
        for name, text in stub.texts.items():
            method = name.removeprefix("array.")
            if (module, name) not in served and ("array", method) not in served and name != "array":
                out.append(f"    {{{literal(module)}, {literal(name)}, {c_text(text)}}},")
    out.append("    {0},\n};")
    out.append("const struct kp_alias kp_aliases[] = {")
    out.extend(f"    {{{literal(m)}, {literal(new)}, {literal(old)}}}," for m, new, old in aliases)
    out.append("    {0},\n};")
    out.extend(f'#include "{header}"' for header in sorted(headers))
    out.extend(written)
    shutil.copyfile(TREE / "src/base/number/dtype.def", pathlib.Path(folder) / "dtype.def")
    pathlib.Path(folder, "keel_rows.h").write_text("\n".join(out) + "\n")


main()
