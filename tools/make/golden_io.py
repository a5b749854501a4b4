#!/usr/bin/env python3
"""Writes tests/io/data/: files as NumPy writes them, for tests/io/. Run it in the repository root.

Element i of every array, in row-major order: unsigned 41 i, signed 21 i - 50, floats 0.75 i - 2, complex 0.75 i - 2 + i j,
bool i odd. The safetensors file is put together here by the format's text.
"""
import io
import json
import struct
import zipfile

import numpy as np

OUT = "tests/io/data/"


def values(descr, shape):
    i = np.arange(int(np.prod(shape, dtype=int)))
    kind = np.dtype(descr).kind
    v = {"b": i % 2, "u": 41 * i, "i": 21 * i - 50, "f": 0.75 * i - 2, "c": 0.75 * i - 2 + 1j * i}[kind]
    return v.astype(descr).reshape(shape)


def npy(array, version=None):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, version=version)
    return f.getvalue()


def write(name, data):
    with open(OUT + name, "wb") as f:
        f.write(data)


def main():
    for d in ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"]:
        write(f"le_{d}.npy", npy(values("<" + d, (2, 3))))
        write(f"be_{d}.npy", npy(values(">" + d, (2, 3))))
    bf16 = (values("f4", (2, 3)).view("u4") >> 16).astype("<u2")
    write("le_V2.npy", npy(values("<f2", (2, 3))).replace(b"<f2", b"<V2")[:-12] + bf16.tobytes())
    write("be_V2.npy", npy(values(">f2", (2, 3))).replace(b">f2", b">V2")[:-12] + bf16.byteswap().tobytes())
    write("fortran.npy", npy(np.asfortranarray(values("<f4", (2, 3, 4)))))
    write("version2.npy", npy(values("<f4", (2, 3)), (2, 0)))
    write("version3.npy", npy(values("<f4", (2, 3)), (3, 0)))
    write("scalar.npy", npy(values("<f4", ())))
    write("vector.npy", npy(values("<f4", (5,))))
    write("empty.npy", npy(values("<f4", (0, 3))))
    write("no_c16.npy", npy(values("<f4", (2,)).astype("c16")))
    write("no_text.npy", npy(np.array(["a", "bc"])))
    write("no_struct.npy", npy(np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")])))
    arrays = {"a": values("<f4", (2, 3)), "b": values("<i8", (4,)), "c": values("<u1", ()), "d": values("<f4", (0, 3)),
              "e": values(">i4", (40, 50)), "f": np.asfortranarray(values("<f4", (2, 3)))}
    np.savez(OUT + "stored.npz", **arrays)
    np.savez_compressed(OUT + "deflated.npz", **arrays)
    np.savez(OUT + "empty.npz")
    with zipfile.ZipFile(OUT + "not_npy.npz", "w") as z:
        z.writestr("readme.txt", "no array")
    with zipfile.ZipFile(OUT + "bzip2.npz", "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("a.npy", npy(arrays["a"]))
    header = {"__metadata__": {"format": "pt", "author": "J\u00fcrgen"}}
    data = b""
    for name, d in [("x.bias", "F32"), ("x.weight", "I16"), ("mask", "BOOL"), ("scale", "F64"), ("none", "F32")]:
        kind = {"F32": "<f4", "I16": "<i2", "BOOL": "b1", "F64": "<f8"}[d]
        shape = {"scale": [], "none": [0, 7]}.get(name, [2, 3])
        raw = values(kind, shape).tobytes()
        header[name] = {"dtype": d, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write("five.safetensors", struct.pack("<Q", len(text)) + text + data)


main()
