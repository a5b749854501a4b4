"""The functions of the extension that pass their arguments on as they are: rows.py writes these bodies.

A function of a type stub whose parameters are, one by one, those of the C function of its name
(mlx_abs or keel_abs for core.abs, mlx_linalg_inv for linalg.inv) needs no line of C.
"""

import ast
import pathlib
import re

# C type: the kinds of the stub's parameter that fit, and how the value is taken from the call.
TAKEN = {
    "const mlx_array": {"ARRAY": "{v}.array", "SCALAR": None},
    "int": {"INT": "(int){v}.i"},
    "bool": {"BOOL": "{v}.i != 0"},
    "float": {"FLOAT": "(float){v}.f"},
    "double": {"FLOAT": "{v}.f"},
    "const char *": {"STRING": "{v}.str"},
    "mlx_dtype": {"DTYPE": "(mlx_dtype){v}.i"},
}


def declarations(include):
    """The functions of the public headers that make one array: {name: (C types of the parameters in between, header)}."""
    out = {}
    for header in sorted(pathlib.Path(include).rglob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, parameters in re.findall(r"\bint\s+((?:mlx|keel)_\w+)\(([^;{]*)\);", text):
            types = [re.sub(r"\s*\w+$", "", " ".join(p.split())) for p in parameters.split(",")]
            if len(types) > 2 and types[0] == "mlx_array *" and types[-1] == "const mlx_stream":
                out[name] = types[1:-1], header.relative_to(include).as_posix()
    return out


def made_in_python(folder, module):
    """The names that a module has of its own: of keel/core/*.py for core, of keel/core/<module>.py for the others."""
    files = pathlib.Path(folder).glob("*.py") if module == "core" else [pathlib.Path(folder, f"{module}.py")]
    names = set()
    for file in files:
        for node in ast.parse(file.read_text()).body if file.exists() else []:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def fits(c_type, parameter):
    """Whether the C type takes the parameter. What may be None must be an array: C takes an empty handle then."""
    return parameter.kind in TAKEN.get(c_type, {}) and (not parameter.none or parameter.kind == "ARRAY")


def taken_of(c_type, parameter, value):
    if parameter.none:
        return f"kp_optional_array(&{value})"
    return TAKEN[c_type][parameter.kind].format(v=value)


def body(symbol, module, name, parameters, declared):
    """C source of kp_<symbol> with the header that it includes, or None where no C function takes just these parameters."""
    if not parameters or parameters[-1].kind != "STREAM" or any(p.how == "REST" for p in parameters):
        return None
    given = parameters[:-1]
    stem = name.removesuffix("_") if module == "core" else f"{module}_{name}"
    for function in (f"mlx_{stem}", f"keel_{stem}"):
        types, header = declared.get(function, ([], ""))
        if given and len(types) == len(given) and all(fits(t, p) for t, p in zip(types, given)):
            break
    else:
        return None
    scalars = [i for i, p in enumerate(given) if p.kind == "SCALAR"]
    if len(scalars) > 2:
        return None
    lines = [f"PyObject *kp_{symbol}(struct kp_call *c) {{", "    mlx_array out = mlx_array_new();"]
    taken = {i: f"s{i}" for i in scalars}
    if scalars:
        lines.append(f"    mlx_array {', '.join(taken.values())};")
        taker, wanted = ("kp_pair", scalars) if len(scalars) == 2 else ("kp_one", scalars)
        lines.append(f"    if ({taker}(c, {', '.join(map(str, wanted))}, {', '.join('&' + v for v in taken.values())})) return NULL;")
    arguments = [taken.get(i) or taken_of(t, p, f"c->v[{i}]") for i, (t, p) in enumerate(zip(types, given))]
    lines.append(f"    return kp_done({function}(&out, {', '.join(arguments)}, c->stream), out);\n}}")
    return header, "\n".join(lines)
