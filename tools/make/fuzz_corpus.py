#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, fuzz/corpus/<format>/: small valid files and a few near misses. Run it in the
repository root; the files are committed."""
import io
import json
import os
import struct

import numpy as np


def write(kind, name, data):
    os.makedirs(f"fuzz/corpus/{kind}", exist_ok=True)
    with open(f"fuzz/corpus/{kind}/{name}", "wb") as f:
        f.write(data)


def npy(array, version=None):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, version=version)
    return f.getvalue()


def safetensors(header, n_data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(n_data))


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


def shape(dtype, *dims):
    return struct.pack("<BB", dtype, len(dims)) + struct.pack(f"<{len(dims)}I", *dims)


def operation(name, inputs, result, params=b"", flag=0):
    return text(name) + struct.pack(f"<BI{len(inputs)}I", flag, len(inputs), *inputs) + result + params


def function(arguments, operations, results, names=()):
    return (struct.pack("<I", len(arguments)) + b"".join(arguments) + struct.pack("<I", len(names)) +
            b"".join(text(n) for n in names) + struct.pack("<I", len(operations)) + b"".join(operations) +
            struct.pack(f"<I{len(results)}I", len(results), *results))


def functions(constants, *parts, shapeless=0):
    return (b"KEELFUNC" + struct.pack("<IBI", 1, shapeless, len(constants)) + b"".join(constants) +
            struct.pack("<I", len(parts)) + b"".join(parts))


def write_functions():
    """docs/function-files.md describes the format."""
    i32, f32 = 7, 10
    ints = lambda *v: struct.pack(f"<{len(v)}i", *v)
    listed = lambda *v: struct.pack(f"<I{len(v)}i", len(v), *v)
    constant = shape(f32, 2) + b"\0" + struct.pack("<2f", 1, 2)
    add = operation("add", [0, 1], shape(f32, 2))
    plus = function([shape(f32, 2)], [add], [2])
    write("function", "add", functions([constant], plus))
    write("function", "shapeless", functions([constant], plus, shapeless=1))
    write("function", "two", functions([constant], plus, function([shape(f32, 3, 2)], [
        operation("broadcast_to", [1], shape(f32, 3, 2), ints(2) + listed(3, 2), flag=1),
        operation("multiply", [0, 2], shape(f32, 3, 2)),
        operation("sum", [3], shape(f32, 1, 2), ints(1) + listed(0)),
        operation("reshape", [4], shape(f32, 2), ints(1) + listed(2))], [5, 4], ["x"])))
    write("function", "moves", functions([shape(i32, 2) + b"\0" + ints(1, 0)], function([shape(f32, 3, 4)], [
        operation("take_along_axis", [0, 5], shape(f32, 2, 4), ints(0)),
        operation("gather", [0, 1], shape(f32, 2, 1, 4), ints(1, 2) + listed(0, 1, 4)),
        operation("slice", [0], shape(f32, 2, 2), ints(2) + struct.pack("<I4q", 4, 1, 0, 1, 2)),
        operation("transpose", [4], shape(f32, 2, 2), ints(2) + listed(1, 0)),
        operation("matmul", [4, 4], shape(f32, 2, 2)),
        operation("cumsum", [4], shape(f32, 2, 2), ints(1) + b"\0\1"),
        operation("softmax", [6], shape(f32, 2, 2), ints(1, 1)),
        operation("as_strided", [6], shape(f32, 3), ints(1) + struct.pack("<I2q", 2, 0, 1))], [3, 8, 9])))
    write("function", "gathered", functions([shape(i32, 2) + b"\0" + ints(1, 7)], function([shape(f32, 3, 4)], [
        operation("gather", [0, 1], shape(f32, 2, 1, 4), ints(1, 2) + listed(0, 1, 4)),
        operation("arange", [], shape(i32, 5), struct.pack("<dd", 0, 1))], [2, 3])))
    write("function", "mlx", struct.pack("<Q", 6) + b"0.32.2" + b"\1" + bytes(8))


def gguf(values, tensors, data, version=3, alignment=32):
    """values: (key, type, bytes); tensors: (name, dims, type, offset)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    word = lambda t: struct.pack("<Q", len(t)) + t
    for key, kind, payload in values:
        out += word(key) + struct.pack("<I", kind) + payload
    for name, dims, kind, offset in tensors:
        out += word(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return out + bytes(-len(out) % alignment) + data


def write_gguf():
    word = lambda t: struct.pack("<Q", len(t)) + t
    every = [(2, 18, 32), (3, 20, 32), (6, 22, 32), (7, 24, 32), (8, 34, 32), (20, 18, 32), (10, 84, 256), (11, 110, 256), (12, 144, 256), (13, 176, 256), (14, 210, 256)]
    for kind, size, n in every:
        write("gguf", f"type{kind}", gguf([], [(b"a.weight", [n, 2], kind, 0)], bytes(i * 37 % 256 for i in range(2 * size))))
    write("gguf", "plain", gguf([], [(b"f", [3, 2], 0, 0), (b"h", [2], 30, 32), (b"i", [1], 27, 64)], bytes(range(72)), version=2))
    write("gguf", "strange", gguf([], [(b"q", [256], 16, 0)], bytes(66)))
    write("gguf", "short", gguf([], [(b"f", [64], 0, 0)], bytes(20)))
    write("gguf", "values", gguf([(b"s", 8, word(b"text")), (b"n", 4, struct.pack("<I", 5)), (b"l", 9, struct.pack("<IQ", 8, 2) + word(b"a") + word(b"")),
                                  (b"v", 9, struct.pack("<IQ3h", 3, 3, 1, -2, 3)), (b"b", 7, b"\1"), (b"general.alignment", 4, struct.pack("<I", 64))],
                                 [(b"x", [4], 0, 64)], bytes(80), alignment=64))


def main():
    write_functions()
    write_gguf()
    for i, d in enumerate(["<f4", ">f8", "|b1", ">i2", "<c8", "<u8", "<f2"]):
        write("npy", f"dtype{i}", npy(np.arange(6).astype(d).reshape(2, 3)))
    write("npy", "fortran", npy(np.asfortranarray(np.arange(6, dtype="<i4").reshape(2, 3))))
    write("npy", "scalar", npy(np.array(7, dtype="<i4")))
    write("npy", "empty", npy(np.zeros((0, 4), dtype="<f4")))
    write("npy", "version2", npy(np.arange(3, dtype="<i4"), (2, 0)))
    write("npy", "version3", npy(np.arange(3, dtype="<i4"), (3, 0)))
    write("npy", "short", npy(np.arange(9, dtype="<i8"))[:-5])
    write("npy", "bf16", npy(np.arange(4, dtype="<i2")).replace(b"<i2", b"<V2"))
    write("npy", "struct", npy(np.zeros(1, dtype=[("x", "<f4")])))
    text = b'{"shape":(2,1L,),"fortran_order":True,"descr":"=u2"}'
    write("npy", "plain", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + b"abcd")

    arrays = {"a": np.arange(4, dtype="<f4"), "b": np.zeros((2, 20), dtype=">i4"), "c": np.array(1, dtype="u1")}
    for name, save in [("stored", np.savez), ("deflated", np.savez_compressed)]:
        f = io.BytesIO()
        save(f, **arrays)
        write("npz", name, f.getvalue())
        write("npz", name + "_cut", f.getvalue()[:-30])
        data = bytearray(f.getvalue())
        data[200] ^= 1
        write("npz", name + "_bad", bytes(data))
    f = io.BytesIO()
    np.savez(f)
    write("npz", "empty", f.getvalue())

    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    write("safetensors", "none", safetensors({}, 0))
    write("safetensors", "null", safetensors({"__metadata__": None}, 0))
    write("safetensors", "metadata", safetensors({"__metadata__": {"format": "pt", "\u00fc": "\U0001f40b"}}, 0))
    write("safetensors", "two", safetensors({"a": entry("F32", [2], 0, 8), "b": entry("BOOL", [3], 8, 11)}, 11))
    write("safetensors", "short", safetensors({"a": entry("I64", [2], 0, 16), "b": entry("U8", [3], 16, 19)}, 17))
    write("safetensors", "scalar", safetensors({"s": entry("BF16", [], 0, 2), "e": entry("C64", [0, 5], 2, 2)}, 2))
    write("safetensors", "overlap", safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, 6))
    write("safetensors", "gap", safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 5, 9)}, 9))
    write("safetensors", "huge", safetensors({"a": entry("F64", [2147483647, 2147483647, 2], 0, 1 << 61)}, 4))
    write("safetensors", "twice", safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                              b'"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}', 1))
    write("safetensors", "trailing", safetensors({"a": entry("F16", [2], 0, 4)}, 6))


main()
