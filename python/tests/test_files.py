"""Loading and saving: formats, paths and file objects, metadata, and files that are cut or wrong."""

import gzip
import io
import json
import os
import pathlib
import tempfile
import threading
import zipfile

import keel.core as mx
import numpy as np
import pytest

DTYPES = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64".split()
a = mx.array([[1.0, 2.0], [3.0, 4.0]])
i = mx.array([1, 2, 3])


def same(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tolist() == y.tolist()


def test_npy(tmp_path):
    mx.save(str(tmp_path / "x"), a)  # the ending is added
    assert (tmp_path / "x.npy").exists()
    for path in (str(tmp_path / "x.npy"), tmp_path / "x.npy"):
        assert same(mx.load(path), a)
    assert same(mx.load(tmp_path / "x.npy", format="npy"), a)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.array(a))
    with pytest.raises(ValueError):
        mx.load(tmp_path / "x.npy", return_metadata=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(tmp_path, dtype):
    x = mx.array([0, 1, 2]).astype(getattr(mx, dtype))
    mx.save_safetensors(tmp_path / "x", {"x": x}) if dtype not in ("complex64",) else None
    if dtype != "complex64":
        assert same(mx.load(tmp_path / "x.safetensors")["x"], x)
    if dtype != "bfloat16":  # NumPy's format has no such dtype
        mx.save(tmp_path / "x", x)
        assert same(mx.load(tmp_path / "x.npy"), x)


def test_files_of_numpy(tmp_path):
    for x in (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(3, "uint8"),
              np.zeros((0, 2), "float16"), np.array([1 + 2j], "complex64")):  # fmt: skip
        np.save(tmp_path / "x.npy", x)
        np.testing.assert_array_equal(np.array(mx.load(tmp_path / "x.npy")), x)
    np.savez(tmp_path / "x.npz", q=np.arange(3), r=np.ones(2))
    assert sorted(mx.load(tmp_path / "x.npz")) == ["q", "r"]


def test_npz(tmp_path):
    for save in (mx.savez, mx.savez_compressed):
        save(tmp_path / "x", a, i, name=i)
        loaded = mx.load(tmp_path / "x.npz")
        assert sorted(loaded) == ["arr_0", "arr_1", "name"] and same(loaded["arr_0"], a) and same(loaded["name"], i)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["arr_1"], np.array(i))
    with pytest.raises(ValueError):
        mx.savez(tmp_path / "y", a, arr_0=a)


def test_safetensors(tmp_path):
    mx.save_safetensors(str(tmp_path / "x"), {"a": a, "i": i}, {"k": "v"})
    arrays, metadata = mx.load(tmp_path / "x.safetensors", return_metadata=True)
    assert same(arrays["a"], a) and same(arrays["i"], i) and metadata["k"] == "v"


def test_gguf(tmp_path):
    metadata = {"n": mx.array(3), "s": "text", "l": ["x", "y"]}
    mx.save_gguf(tmp_path / "x", {"a": a}, metadata)
    arrays, loaded = mx.load(str(tmp_path / "x.gguf"), return_metadata=True)
    assert same(arrays["a"], a)
    assert loaded["s"] == "text" and loaded["l"] == ["x", "y"] and loaded["n"].item() == 3
    assert same(mx.load(tmp_path / "x.gguf")["a"], a)


def in_memory(save, *values):
    file = io.BytesIO()
    save(file, *values)
    file.seek(0)
    return file


def test_files_in_memory():
    assert same(mx.load(in_memory(mx.save, a)), a)
    assert same(mx.load(in_memory(mx.save, a), format="npy"), a)
    assert same(mx.load(in_memory(mx.savez, a), format="npz")["arr_0"], a)
    file = in_memory(lambda f: mx.save_safetensors(f, {"a": a}, {"k": "v"}))
    arrays, metadata = mx.load(file, format="safetensors", return_metadata=True)
    assert same(arrays["a"], a) and metadata["k"] == "v"


def test_open_files(tmp_path):
    with open(tmp_path / "x.npy", "wb") as file:
        mx.save(file, a)
    with open(tmp_path / "x.npy", "rb") as file:
        loaded = mx.load(file)
        assert same(loaded, a)


def test_a_file_is_read_when_the_array_is_needed():
    """The array keeps the file object alive that it reads from."""
    loaded = mx.load(in_memory(mx.save, mx.arange(1000)))
    assert mx.sum(loaded).item() == 499500


def test_a_path_of_another_name(tmp_path):
    mx.save(tmp_path / "x", a)
    other = tmp_path / "file"
    other.write_bytes((tmp_path / "x.npy").read_bytes())
    assert same(mx.load(other), a) and same(mx.load(other, format="npy"), a)


# ---- errors ----
def test_no_such_file(tmp_path):
    path = str(tmp_path / "none.npy")
    with pytest.raises(RuntimeError) as info:
        mx.load(path)
    assert info.value.code == "EFILE" and info.value.file == path
    with pytest.raises(RuntimeError):
        mx.save(tmp_path / "no" / "x", a)


@pytest.mark.parametrize("call", [
    lambda: mx.load("x.npy", format="xyz"), lambda: mx.load(3), lambda: mx.load(None), lambda: mx.load(b"x"),
    lambda: mx.load(io.StringIO("x")), lambda: mx.save(3, a), lambda: mx.save(io.StringIO(), a),
    lambda: mx.save_safetensors(io.BytesIO(), {"a": a}, {"k": 3}), lambda: mx.savez(3, a),
])  # fmt: skip
def test_wrong_values(call):
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize("call", [
    lambda: mx.save(io.BytesIO(), 3), lambda: mx.save(io.BytesIO(), [1]), lambda: mx.save_safetensors(io.BytesIO(), [a]),
    lambda: mx.save_safetensors(io.BytesIO(), {"a": 3}), lambda: mx.save_safetensors(io.BytesIO(), {1: a}),
])  # fmt: skip
def test_wrong_types(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY\x01\x00\xff\xff", b"PK\x03\x04", b"\x08\0\0\0\0\0\0\0{broken}"])
def test_files_that_are_none(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    for source in (path, io.BytesIO(content)):
        with pytest.raises(RuntimeError) as info:
            mx.load(source)
        assert info.value.code in ("EFORMAT", "ETRUNCATED", "EFILE", "EREADER")
        assert info.value.file


def test_cut_safetensors(tmp_path):
    """The tensor that is missing fails when it is read; the others are good."""
    path = tmp_path / "x.safetensors"
    mx.save_safetensors(path, {"a": mx.arange(100), "b": mx.arange(100, 200)})
    path.write_bytes(path.read_bytes()[:-100])
    loaded = mx.load(path)
    values = {}
    for name, x in loaded.items():
        try:
            values[name] = x.tolist()
        except RuntimeError as error:
            assert error.code == "ETRUNCATED" and error.tensor == name and error.file == str(path)
            assert error.bytes[1] > error.bytes[0] >= 0
            values[name] = None
    assert values == {"a": list(range(100)), "b": None}


def test_cut_npy(tmp_path):
    path = tmp_path / "x.npy"
    mx.save(path, mx.arange(1000))
    whole = path.read_bytes()
    for n in (len(whole) - 1, 200):
        path.write_bytes(whole[:n])
        with pytest.raises(RuntimeError):
            mx.load(path).tolist()


class Failing(io.BytesIO):
    """A file whose data cannot be read, only its header."""

    def read(self, n=-1):
        if self.tell() > 120:
            raise OSError("the disk is gone")
        return super().read(n)


def test_a_file_object_that_fails():
    file = Failing(in_memory(mx.save, mx.arange(1000)).getvalue())
    with pytest.raises(RuntimeError) as info:
        mx.load(file).tolist()
    assert info.value.code == "EREADER"


class Odd(Exception):
    pass


@pytest.mark.parametrize("method", ["read", "seek"])
@pytest.mark.parametrize("format", ["npy", "safetensors"])
def test_an_exception_while_a_header_is_read(method, format):
    """It comes back as itself: the header is read by the thread that calls."""
    file = in_memory(lambda f: mx.save(f, mx.arange(3)) if format == "npy" else mx.save_safetensors(f, {"a": mx.arange(3)}))
    file.seek(0)

    def fail(*args):
        raise Odd(method)

    kind = type("File", (io.BytesIO,), {method: fail})
    with pytest.raises(Odd, match=method):
        mx.load(kind(file.getvalue()), format=format)
    assert mx.load(io.BytesIO(file.getvalue()), format=format) is not None


def test_many_threads_read_one_file():
    """Readers take the GIL while other threads hold it and let it go."""
    file = in_memory(lambda f: mx.save_safetensors(f, {str(n): mx.full((1000,), n) for n in range(32)}))
    arrays = mx.load(file, format="safetensors")
    sums, stop = {}, threading.Event()

    def busy():
        while not stop.is_set():
            sum(range(1000))

    def read(names):
        for name in names:
            sums[name] = arrays[name].sum().item()

    others = [threading.Thread(target=busy) for _ in range(2)]
    readers = [threading.Thread(target=read, args=([str(n) for n in range(k, 32, 8)],)) for k in range(8)]
    for thread in others + readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert sums == {str(n): 1000 * n for n in range(32)}


def test_export_to_dot(tmp_path):
    text = io.StringIO()
    mx.export_to_dot(text, a + 1)
    mx.export_to_dot(str(tmp_path / "x.dot"), a + 1)
    assert "digraph" in text.getvalue() and "digraph" in pathlib.Path(tmp_path / "x.dot").read_text()


def test_gguf_without_metadata(tmp_path):
    for i, arguments in enumerate(((), (None,), ({},))):
        mx.save_gguf(tmp_path / f"{i}.gguf", {"x": mx.array([1.0, 2.0])}, *arguments)
        arrays, metadata = mx.load(tmp_path / f"{i}.gguf", return_metadata=True)
        assert arrays["x"].tolist() == [1, 2] and metadata == {}
        mx.save_safetensors(tmp_path / f"{i}.safetensors", {"x": mx.array([1.0])}, *arguments)
    with pytest.raises(TypeError):
        mx.save_gguf(tmp_path / "x.gguf", {"x": mx.array([1.0])}, 3)


# ---- files that the program closes ----
def opened(path):
    return open(path, "rb")


OPENERS = {
    "open": opened, "unbuffered": lambda p: open(p, "rb", buffering=0), "update": lambda p: open(p, "r+b"),
    "bytes": lambda p: io.BytesIO(p.read_bytes()), "gzip": lambda p: gzip.open(p.with_suffix(".gz"), "rb"),
    "zip": lambda p: zipfile.ZipFile(p.with_suffix(".zip")).open(p.name), "temporary": lambda p: temporary(p.read_bytes(), tempfile.TemporaryFile),
    "named": lambda p: temporary(p.read_bytes(), tempfile.NamedTemporaryFile),
    "spooled": lambda p: temporary(p.read_bytes(), tempfile.SpooledTemporaryFile), "of a program": lambda p: OfAProgram(open(p, "rb")),
}  # fmt: skip


def temporary(data, make):
    file = make()
    file.write(data)  # not flushed
    file.seek(0)
    return file


class OfAProgram:
    def __init__(self, file):
        self.file = file
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.file.close()


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("format", ["npy", "safetensors", "npz"])
def test_a_file_that_is_closed(tmp_path, opener, format):
    path = tmp_path / f"x.{format}"
    x = mx.arange(3000)
    save = {"npy": lambda: mx.save(path, x), "npz": lambda: mx.savez(path, a=x, b=a),
            "safetensors": lambda: mx.save_safetensors(path, {"a": x, "b": a}, {"k": "v"})}[format]  # fmt: skip
    save()
    with gzip.open(path.with_suffix(".gz"), "wb") as packed, zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        packed.write(path.read_bytes())
        archive.write(path, path.name)
    with OPENERS[opener](path) as file:
        loaded = mx.load(file, format=format)
    if format == "npy":
        assert same(loaded, x)
    else:
        assert sorted(loaded) == ["a", "b"] and same(loaded["a"], x) and same(loaded["b"], a)


def test_a_file_of_the_system_is_read_when_needed(tmp_path):
    """Loading takes no bytes of the data: what is written before the first use is seen; nothing stays open."""
    before = set(os.listdir("/proc/self/fd"))
    mx.save(tmp_path / "x.npy", mx.zeros((4,), mx.uint8))
    with open(tmp_path / "x.npy", "r+b") as file:
        loaded = mx.load(file)
        assert file.tell() == 0
        file.seek(-4, io.SEEK_END)
        file.write(b"\x01\x02\x03\x04")
    assert loaded.tolist() == [1, 2, 3, 4]
    del loaded
    mx.synchronize()
    assert set(os.listdir("/proc/self/fd")) == before


def test_what_is_missing_in_a_closed_file(tmp_path):
    path = tmp_path / "x.safetensors"
    mx.save_safetensors(path, {"a": mx.arange(100), "b": mx.arange(100, 200)})
    data = path.read_bytes()[:-100]
    path.write_bytes(data)
    for file in (io.BytesIO(data), open(path, "rb")):
        with file:
            loaded = mx.load(file, format="safetensors")
        failed = []
        for name, x in loaded.items():
            try:
                x.tolist()
            except RuntimeError as error:
                failed.append((name, error.code))
        assert failed == [("b", "ETRUNCATED")]


def test_pipes(tmp_path):
    """A pipe has a descriptor, and no places to read from."""
    read, write = os.pipe()
    os.close(write)
    with open(read, "rb") as file, pytest.raises((RuntimeError, OSError)):
        mx.load(file, format="npy")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0"])
def test_fp8_is_loaded_as_bytes(tmp_path, dtype):
    header = json.dumps({"x": {"dtype": dtype, "shape": [2, 2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes([0x38, 0xB8, 0x40, 0x7F]))
    x = mx.load(tmp_path / "x.safetensors")["x"]
    assert x.dtype == mx.uint8 and x.tolist() == [[0x38, 0xB8], [0x40, 0x7F]]
    if dtype == "F8_E4M3":
        assert mx.from_fp8(x, mx.float32)[0].tolist() == [1, -1]


# ---- links ----
SAVES = {
    "npy": lambda path: mx.save(path, a),
    "npz": lambda path: mx.savez(path, a),
    "compressed.npz": lambda path: mx.savez_compressed(path, a),
    "safetensors": lambda path: mx.save_safetensors(path, {"a": a}),
    "gguf": lambda path: mx.save_gguf(path, {"a": a}),
    "mlxfn": lambda path: mx.export_function(path, lambda x: x + 1, a),
    "dot": lambda path: mx.export_to_dot(path, a + 1),
}


def exported(path):
    with mx.exporter(path, lambda x: x + 1) as export:
        export(a)


SAVES["exporter.mlxfn"] = exported


@pytest.mark.parametrize("kind", SAVES)
def test_saving_follows_links_to_nothing(kind, tmp_path):
    (tmp_path / "sub").mkdir()
    link, between, target = tmp_path / f"link.{kind}", tmp_path / "sub" / "between", tmp_path / "target"
    link.symlink_to("sub/between")
    between.symlink_to("../target")
    SAVES[kind](str(link))
    assert link.is_symlink() and between.is_symlink() and target.is_file() and not target.is_symlink()
    assert target.stat().st_size > 0


@pytest.mark.parametrize("kind", SAVES)
def test_saving_through_links_in_a_circle_fails(kind, tmp_path):
    link, other = tmp_path / f"link.{kind}", tmp_path / "other"
    link.symlink_to("other")
    other.symlink_to(link.name)
    with pytest.raises((RuntimeError, OSError), match="Too many levels of symbolic links"):
        SAVES[kind](str(link))
    assert link.is_symlink() and other.is_symlink()
