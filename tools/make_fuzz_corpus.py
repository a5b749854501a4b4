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


def main():
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
