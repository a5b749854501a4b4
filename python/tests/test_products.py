"""Products, norms, convolutions and quantized matrices against NumPy, and the order of einsum."""

import re

import keel.core as mx
import numpy as np
import pytest
from functions_support import I, X, check, rng, x


# ---- products ----
def test_products():
    y = x.T.copy()
    Y = mx.array(y)
    check(mx.matmul(X, Y), x @ y), check(X @ Y[:, 0], x @ y[:, 0]), check(mx.addmm(mx.ones((3, 3)), X, Y, 2.0, 0.5), 0.5 + 2 * (x @ y))
    check(mx.einsum("ij,jk->ik", X, Y), x @ y), check(mx.einsum("ij->ji", X), x.T), check(mx.tensordot(X, Y, 1), x @ y)
    check(mx.tensordot(X, X, [[0], [0]]), x.T @ x), check(mx.vecdot(X, X), (x * x).sum(-1)), check(mx.vecdot(X, X, axis=0), (x * x).sum(0)), check(mx.vecdot(X, X, 0), (x * x).sum(0))
    check(mx.convolve(X[0], X[1]), np.convolve(x[0], x[1])), check(mx.convolve(X[0], X[1][:3], mode="same"), np.convolve(x[0], x[1][:3], "same"))
    check(mx.gather_mm(X[None], Y[None], mx.array([0, 0]), mx.array([0, 0])), np.stack([x @ y] * 2))
    check(mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 32)), 32, mx.array([[False]])), np.zeros((32, 32)))
    check(mx.segmented_mm(X, Y, mx.array([[0, 2], [2, 4]])), np.stack([x[:, :2] @ y[:2], x[:, 2:] @ y[2:]]))
    h = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
    check(mx.hadamard_transform(X), x @ h / 2), check(mx.hadamard_transform(X, scale=1.0), x @ h)
    path, text = mx.einsum_path("ij,jk,kl->il", X, Y, X)
    assert len(path) == 2 and isinstance(text, str)
    for call in (lambda: X @ X, lambda: X @ mx.array(1.0), lambda: mx.einsum("ij,jk->ik", X, X), lambda: mx.tensordot(X, X, 1),
                 lambda: mx.convolve(X, X), lambda: mx.convolve(X[0], X[0], "x"), lambda: mx.vecdot(X, I[:2]), lambda: mx.vecdot(X, mx.array(1)), lambda: mx.vecdot(mx.array(1), X[0]), lambda: mx.vecdot(X[0], X[0], 1), lambda: mx.vecdot(X, X[:, :1])):  # fmt: skip
        with pytest.raises(ValueError):
            mx.eval(call())


def test_norms_and_cross():
    for order, axis in ((None, None), (1, None), (-1, None), (np.inf, None), (-np.inf, None), ("fro", None), (2, 0), (0, 1), (3, -1), (1, 0),
                        (np.inf, 1), (None, 1), (1, (1, 0)), ("fro", (0, 1))):  # fmt: skip
        check(mx.linalg.norm(X, order, axis), np.linalg.norm(x, order, axis))
        check(mx.linalg.norm(X, order, axis, keepdims=True), np.linalg.norm(x, order, axis, keepdims=True))
    assert mx.linalg.norm(I).dtype == mx.float32 and mx.linalg.norm(mx.array([3 + 4j])).item() == 5
    check(mx.linalg.cross(X[:, :3], X[0, :3]), np.cross(x[:, :3], x[0, :3])), check(mx.linalg.cross(X.T[:, :3].T, X[:, :1], 0), np.cross(x[:, :4], x[:, :1], axis=0))
    assert mx.linalg.cross(mx.array([1, 2]), mx.array([3, 4])).tolist() == [0, 0, -2]
    for call in (lambda: mx.linalg.norm(X, "x"), lambda: mx.linalg.norm(X, "fro", 0), lambda: mx.linalg.norm(X, 3), lambda: mx.linalg.norm(mx.ones((2, 2, 2)), 1),
                 lambda: mx.linalg.norm(X, 1, (0, 0)), lambda: mx.linalg.norm(X, 1, (0, 5)), lambda: mx.linalg.cross(X, X), lambda: mx.linalg.cross(X, X, 4)):  # fmt: skip
        with pytest.raises(ValueError):
            call()
    for order in ("nuc", 2, -2):
        check(mx.linalg.norm(X, order, (0, 1)), np.linalg.norm(x, order, (0, 1)))
        check(mx.linalg.norm(X, order, (1, 0), keepdims=True), np.linalg.norm(x, order, (1, 0), keepdims=True))
    for wrong in (mx.array(2), mx.array([1.0, 2.0])):
        with pytest.raises(TypeError, match="ord is an array"):
            mx.linalg.norm(mx.ones((3, 3)), wrong)


def test_convolutions():
    a, k = rng.normal(size=(1, 6, 2)).astype("float32"), rng.normal(size=(3, 2, 2)).astype("float32")
    wanted = np.stack([[(a[0, t : t + 2] * k[o]).sum() for o in range(3)] for t in range(5)])[None]
    check(mx.conv1d(mx.array(a), mx.array(k)), wanted), check(mx.conv1d(mx.array(a), mx.array(k), stride=2), wanted[:, ::2])
    check(mx.conv_general(mx.array(a), mx.array(k), padding=([0], [0])), wanted)
    check(mx.conv2d(mx.array(a)[:, :, None], mx.array(k)[:, :, None]), wanted[:, :, None])
    check(mx.conv2d(mx.array(a)[:, :, None], mx.array(k)[:, :, None], stride=(2, 1), padding=[0, 0]), wanted[:, ::2, None])
    assert mx.conv_transpose1d(mx.array(a), mx.ones((3, 2, 2)), stride=2, output_padding=1).shape == (1, 13, 3)
    assert mx.conv3d(mx.ones((1, 3, 3, 3, 1)), mx.ones((1, 2, 2, 2, 1)), padding=1).shape == (1, 4, 4, 4, 1)
    for call in (lambda: mx.conv1d(mx.array(a), mx.ones((3, 2, 3))), lambda: mx.conv2d(mx.array(a), mx.array(k)), lambda: mx.conv2d(mx.ones((1, 4, 4, 2)), mx.ones((1, 2, 2, 2)), (1, 1, 1))):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("bits, group_size", [(4, 64), (8, 32), (2, 32), (6, 64)])
def test_quantized(bits, group_size):
    w = rng.normal(size=(8, 64)).astype("float32")
    made = mx.quantize(mx.array(w), group_size=group_size, bits=bits)
    assert isinstance(made, list) and len(made) == 3
    back = mx.dequantize(*made, group_size=group_size, bits=bits)
    assert np.abs(np.array(back) - w).max() < 8 / 2**bits
    v = rng.normal(size=(3, 64)).astype("float32")
    check(mx.quantized_matmul(mx.array(v), *made, group_size=group_size, bits=bits), v @ np.array(back).T, 1e-4)
    gathered = mx.gather_qmm(mx.array(v)[None], *[m[None] for m in made], mx.array([0, 0]), mx.array([0, 0]), group_size=group_size, bits=bits)
    check(gathered, np.stack([v @ np.array(back).T] * 2), 1e-4)


def test_quantized_activations():
    w, v = mx.array(rng.normal(size=(2, 8, 64)).astype("float32")), mx.array(rng.normal(size=(2, 3, 64)).astype("float32"))
    rounded = [mx.dequantize(*mx.quantize(y, mode="mxfp8"), mode="mxfp8", dtype=mx.float32) for y in (v, w)]
    wanted = np.array(rounded[0])[[1, 0]] @ np.array(rounded[1])[[0, 0]].transpose(0, 2, 1)
    index = mx.array([1, 0]), mx.array([0, 0])
    check(mx.gather_qqmm(v, w, None, *index, mode="mxfp8"), wanted, 1e-4)
    check(mx.gather_qqmm(v, *mx.quantize(w, mode="mxfp8"), *index, mode="mxfp8"), wanted, 1e-4)
    check(mx.qqmm(v[0], w[0], mode="mxfp8"), np.array(rounded[0])[0] @ np.array(rounded[1])[0].T, 1e-4)
    assert mx.gather_qqmm(v, w, None, *index, global_scale_x=mx.array(1.0), global_scale_w=mx.array(1.0)).shape == (2, 3, 8)
    for arguments in ({"mode": "affine"}, {"global_scale_x": mx.array(1.0)}):
        with pytest.raises(ValueError):
            mx.gather_qqmm(v, w, None, *index, **arguments)


# ---- the order of einsum ----
def pairs_of_einsum(subscripts, shapes, tmp_path):
    """The sets of operands that einsum multiplies, from the graph that it makes."""
    operands = [mx.zeros(s) + mx.ones(s) for s in shapes]  # not evaluated: each stays a part of the graph
    names = {f"in{i}": x for i, x in enumerate(operands)}
    mx.export_to_dot(tmp_path / "x.dot", mx.einsum(subscripts, *operands), **names)
    made, inputs, pairs = {}, {}, []
    for line in (tmp_path / "x.dot").read_text().splitlines():
        if match := re.fullmatch(r'  "(\w+)" -> (op\d+);', line):
            inputs.setdefault(match[2], []).append(made.get(match[1], set()))
        elif match := re.fullmatch(r'  (op\d+) -> "(\w+)";', line):
            parts = [x for x in inputs.get(match[1], []) if x]
            made[match[2]] = {int(match[2][2:])} if match[2] in names else set().union(*parts)
            if len(parts) == 2 and parts[0] != parts[1]:
                pairs.append(sorted(map(sorted, parts)))
    return sorted(pairs)


def pairs_of_path(path, n):
    left, pairs = [[i] for i in range(n)], []
    for step in path:
        assert all(0 <= i < len(left) for i in step) and list(step) == sorted(set(step))
        taken = [left[i] for i in step]
        left = [x for i, x in enumerate(left) if i not in step] + [sorted(sum(taken, []))]
        if len(taken) == 2:
            pairs.append(sorted(taken))
    assert len(left) == 1
    return sorted(pairs)


@pytest.mark.parametrize("subscripts, shapes", [
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 50)]), ("ij,jk,kl,lm->im", [(2, 30), (30, 4), (4, 50), (50, 3)]),
    ("ea,fb,abcd,gc,hd->efgh", [(10, 10), (10, 10), (10,) * 4, (10, 10), (10, 10)]), ("ij,jk", [(2, 3), (3, 4)]), ("ij->j", [(2, 3)]),
    ("...j,jk,...k->...", [(5, 1, 3), (3, 4), (7, 4)]), ("ii,ij,jk", [(3, 3), (3, 2), (2, 9)]), ("ij,kj,lk->il", [(2, 1), (5, 6), (7, 5)]),
    ("a,b,c,d,e,f,g,h,i->", [(k,) for k in range(2, 11)]), ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", [(k, k % 4 + 2) for k in range(9)]),
])  # fmt: skip
def test_einsum_path(subscripts, shapes, tmp_path):
    if subscripts.startswith("ab,bc"):
        extent = dict(zip("abcdefghij", [7, 2, 9, 3, 8, 2, 6, 4, 5, 3]))
        shapes = [tuple(extent[k] for k in part) for part in subscripts.split("->")[0].split(",")]
    path, text = mx.einsum_path(subscripts, *[mx.ones(s) for s in shapes])
    pairs = pairs_of_path(path, len(shapes))
    assert len(pairs) == len(shapes) - 1 and pairs == pairs_of_einsum(subscripts, shapes, tmp_path)
    assert subscripts in text and "FLOP" in text


def test_einsum_path_costs():
    path, text = mx.einsum_path("ij,jk,kl->il", mx.ones((2, 3)), mx.ones((3, 4)), mx.ones((4, 50)))
    assert path == [(0, 1), (0, 1)] and "Optimized FLOP count:  848\n" in text and "Naive FLOP count:  3600\n" in text
    for subscripts, shapes in (("ij,jk", [(2, 3)]), ("ij,jk", [(2, 3), (4, 5)]), ("ij->k", [(2, 3)]), ("i!", [(2,)])):
        with pytest.raises(ValueError, match="^einsum_path"):
            mx.einsum_path(subscripts, *[mx.ones(s) for s in shapes])
