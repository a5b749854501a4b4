"""Functions in files: exported, imported, told to a callback, refused."""

import gc
import weakref

import keel.core as mx
import pytest
from transforms_support import Own, a, b, failing, lists


def test_export_and_import(tmp_path):
    path = tmp_path / "f.kf"
    mx.export_function(path, lambda x, y: x + y, a, b)
    f = mx.import_function(str(path))
    assert lists(f(a, b)) == ([4, 6],) and lists(f((a, b))) == ([4, 6],)
    for wrong in ((a,), (mx.ones((3,)), b), (a.astype(mx.int32), b)):
        with pytest.raises(ValueError):
            f(*wrong)
    mx.export_function(path, lambda x, *, y: x - y, a, y=b)
    f = mx.import_function(path)
    assert lists(f(a, y=b)) == ([-2, -2],) and lists(f(x=a, y=b)) == ([-2, -2],)
    for wrong in (lambda: f(a, z=b), lambda: f(y=a, z=b, x=a), lambda: f(x=a, z=b)):
        with pytest.raises(ValueError):
            wrong()
    mx.export_function(path, lambda x, y: x - y, a, b)
    f = mx.import_function(path)
    assert lists(f(a, other=b)) == ([-2, -2],)
    with pytest.raises(ValueError):  # which of them is x?
        f(x=a, y=b)


def test_export_of_several_shapes(tmp_path):
    path = str(tmp_path / "f.kf")
    with mx.exporter(path, lambda x, *rest: x + sum(rest)) as exporter:
        exporter(a)
        exporter(a, b)
    f = mx.import_function(path)
    assert lists(f(a)) == ([1, 2],) and lists(f(a, b)) == ([4, 6],)
    with pytest.raises(ValueError):
        f(a, b, b)
    mx.export_function(path, lambda x: x * 2, a, shapeless=True)
    assert lists(mx.import_function(path)(mx.ones((3,)))) == ([2, 2, 2],)


def test_metadata_of_exported_functions(tmp_path):
    path = str(tmp_path / "f.kf")
    for text in ("", '{"layers": 2}', "ä" * 5000):
        mx.export_function(path, lambda x: x * 2, a, metadata=text)
        f, kept = mx.import_function(path, return_metadata=True)
        assert kept == text and lists(f(a)) == ([2, 4],)
    mx.export_function(path, lambda x: x * 2, a)
    assert mx.import_function(path, True)[1] == ""
    with mx.exporter(path, lambda x: x * 2, metadata="m") as exporter:
        exporter(a)
    assert mx.import_function(path, True)[1] == "m"
    with pytest.raises(TypeError):
        mx.export_function(path, lambda x: x * 2, a, metadata=3)
    with pytest.raises(ValueError):
        mx.export_function(path, lambda x: x * 2, a, metadata="a\0b")
    assert mx.import_function(path, True)[1] == "m"


def test_exporter_with_named_arrays(tmp_path):
    path = str(tmp_path / "f.kf")
    with mx.exporter(path, lambda x, y=None: x if y is None else x - y) as exporter:
        exporter(a)
        exporter(a, y=b)
        with pytest.raises(ValueError):
            exporter(b, y=a)  # was added before
    f = mx.import_function(path)
    assert lists(f(a)) == ([1, 2],) and lists(f(a, y=b)) == ([-2, -2],)
    with pytest.raises(ValueError):
        f(a, z=b)


def test_export_to_a_callback():
    c, told = mx.array([10.0, 20.0]), []
    mx.export_function(told.append, lambda x, *, y: ((x + y) * c).sum(keepdims=True), a, y=b)
    kinds = [t["type"] for t in told]
    assert kinds == ["inputs", "keyword_inputs", "outputs", "constants"] + ["primitive"] * 3
    assert told[0]["inputs"] == [("A", (2,), mx.float32), ("B", (2,), mx.float32)]
    assert told[1]["keywords"] == [("y", "B")]
    ((name, constant),) = told[3]["constants"]
    assert name == "C" and constant.tolist() == [10.0, 20.0]
    add, multiply, total = told[4:]
    assert (add["name"], multiply["name"], total["name"]) == ("add", "multiply", "sum")
    assert [v[0] for v in add["inputs"]] == ["A", "B"] and add["arguments"] == []
    assert [v[0] for v in multiply["inputs"]] == [add["outputs"][0][0], "C"]
    assert total["arguments"] == [1, [0]] and total["outputs"][0][0] == told[2]["outputs"][0][0]
    with pytest.raises(ValueError, match="metadata"):
        mx.export_function(told.append, lambda x: x, a, metadata="m")
    with pytest.raises(Own):
        mx.export_function(lambda t: failing(t), lambda x: x, a)
    with pytest.raises(Own):
        mx.export_function(told.append, failing, a)
    with pytest.raises(ValueError):
        mx.export_function(3, lambda x: x, a)


def test_export_errors(tmp_path):
    path = str(tmp_path / "f.kf")
    with pytest.raises(TypeError):
        mx.export_function(path, 3, a)
    with pytest.raises(ValueError):
        mx.export_function(path, lambda x: 3, a)
    with pytest.raises(ValueError):
        mx.export_function(path, lambda x: x, 3)
    with pytest.raises(Own):
        mx.export_function(path, failing, a)
    with pytest.raises(RuntimeError):
        mx.import_function(str(tmp_path / "none"))


def test_a_plan_keeps_no_argument_alive():
    f = mx.compile(lambda x, y: x + y["z"])
    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    refs = weakref.ref(x), weakref.ref(y)
    assert f(x, {"z": y}).tolist() == [4.0, 6.0]
    del x, y
    gc.collect()
    assert refs[0]() is None and refs[1]() is None
    assert f(mx.array([1.0, 1.0]), {"z": mx.array([1.0, 1.0])}).tolist() == [2.0, 2.0]
