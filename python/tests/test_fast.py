"""The functions of mx.fast, and kernels of the caller's own."""

import keel.core as mx
import numpy as np
import pytest
from keel import _core
from functions_support import I, X, check, p, rng, x


# ---- fast ----
def test_fast_norms():
    w = p[0]
    check(mx.fast.rms_norm(X, mx.array(w), 1e-5), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    check(mx.fast.layer_norm(X, mx.array(w), mx.array(w), 1e-5), normal * w + w), check(mx.fast.layer_norm(X, None, None, eps=1e-5), normal)
    with pytest.raises(ValueError):
        mx.fast.rms_norm(X, mx.ones((3,)), 1e-5)


def test_fast_rope():
    a = rng.normal(size=(1, 2, 4)).astype("float32")
    angle = (np.arange(2)[:, None] + 3) * 100.0 ** (-np.arange(2) / 2)
    c, s = np.cos(angle), np.sin(angle)
    half = np.concatenate([a[..., :2] * c - a[..., 2:] * s, a[..., :2] * s + a[..., 2:] * c], -1)
    for offset in (3, mx.array(3), mx.array([3])):
        check(mx.fast.rope(mx.array(a), 4, traditional=False, base=100.0, scale=1.0, offset=offset), half)
    with pytest.raises(TypeError):
        mx.fast.rope(mx.array(a), 4)
    with pytest.raises(ValueError):
        mx.fast.rope(mx.array(a), 3, traditional=False, base=1.0, scale=1.0, offset=0)


def attention(q, k, v, mask):
    scores = q @ k.transpose(0, 1, 3, 2) * 0.5 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_fast_attention():
    q, k, v = (rng.normal(size=(1, 2, 3, 4)).astype("float32") for _ in range(3))
    Q, K, V = map(mx.array, (q, k, v))
    causal = np.where(np.tri(3, dtype=bool), 0, -np.inf)
    check(mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5), attention(q, k, v, 0))
    for mask in ("causal", mx.array(np.tri(3, dtype=bool)), mx.array(causal.astype("float32"))):
        check(mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5, mask=mask), attention(q, k, v, causal))
    for arguments in ({"mask": "x"}, {"mask": mx.ones((2, 2))}):
        with pytest.raises(ValueError):
            mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5, **arguments)


def test_fast_cross_entropy():
    wanted = np.log(np.exp(x).sum(-1)) - x[np.arange(3), [0, 1, 3]]
    check(mx.fast.cross_entropy(X, mx.array([0, 1, 3])), wanted)
    loss = mx.fast.cross_entropy(X.astype(mx.bfloat16), mx.array([0, 1, 3], dtype=mx.uint8))
    assert loss.dtype == mx.float32 and np.abs(np.array(loss) - wanted).max() < 0.05
    grad = mx.grad(lambda y: mx.fast.cross_entropy(y, mx.array([0, 1, 3])).sum())(X)
    check(grad, np.exp(x) / np.exp(x).sum(-1, keepdims=True) - np.eye(4)[[0, 1, 3]])
    for arguments in ((X, mx.array([0, 1])), (X, mx.array([0.0, 1, 2])), (I, mx.array([0, 1, 2])), (mx.array(1.0), mx.array(0))):
        with pytest.raises(ValueError):
            mx.fast.cross_entropy(*arguments)
    with pytest.raises(IndexError):
        mx.eval(mx.fast.cross_entropy(X, mx.array([0, 1, 4])))
    with pytest.raises(TypeError):
        mx.fast.cross_entropy("x", mx.array(0))


def delta_rule(q, k, v, gamma, beta, state, mask):
    """Yang et al., 2024, step by step in float64."""
    heads = v.shape[2]
    q, k = (np.repeat(y, heads // y.shape[2], 2) for y in (q, k))
    out = np.zeros(v.shape)
    for t in range(q.shape[1]):
        decay = gamma[:, t, :, None, None] if gamma.ndim == 3 else gamma[:, t, :, None, :]
        new = state * decay
        error = (v[:, t] - np.einsum("bhvk,bhk->bhv", new, k[:, t])) * beta[:, t, :, None]
        new = new + error[..., None] * k[:, t, :, None, :]
        seen = mask[:, t][:, None, None]
        out[:, t] = np.where(seen, np.einsum("bhvk,bhk->bhv", new, q[:, t]), 0)
        state = np.where(seen[..., None], new, state)
    return out, state


@pytest.mark.parametrize("vector_decay", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gated_delta_update(vector_decay, masked):
    shape = (2, 4, 2, 8)
    q, k = rng.normal(size=shape), rng.normal(size=shape) * 0.3
    v, state = rng.normal(size=(2, 4, 4, 5)), rng.normal(size=(2, 4, 5, 8))
    gamma = rng.uniform(0.5, 1, size=(2, 4, 4, 8) if vector_decay else (2, 4, 4))
    beta = rng.uniform(size=(2, 4, 4))
    mask = rng.random((2, 4)) > 0.4 if masked else np.ones((2, 4), bool)
    arguments = [mx.array(y.astype("float32")) for y in (q, k, v, gamma, beta)]
    made = mx.fast.gated_delta_update(*arguments, mx.array(state.astype("float32")), mx.array(mask) if masked else None)
    assert isinstance(made, list)
    check(made, delta_rule(q, k, v, gamma, beta, state, mask), 1e-4)
    check(mx.fast.gated_delta_update(*arguments)[0], delta_rule(q, k, v, gamma, beta, 0 * state, np.ones((2, 4), bool))[0], 1e-4)
    half = mx.fast.gated_delta_update(*[y.astype(mx.bfloat16) for y in arguments])
    assert half[0].dtype == mx.bfloat16 and half[1].dtype == mx.float32
    for place, wrong in ((0, arguments[0][:1]), (2, arguments[2][:, :, :3]), (3, arguments[3][:, :2]), (4, arguments[4][:, :, :1]), (0, arguments[0].astype(mx.int32))):
        with pytest.raises(ValueError):
            mx.fast.gated_delta_update(*[wrong if n == place else y for n, y in enumerate(arguments)])
    for options in ({"initial_state": mx.ones((3,))}, {"mask": mx.ones((2, 3))}):
        with pytest.raises(ValueError):
            mx.fast.gated_delta_update(*arguments, **options)


def test_kernels_of_the_caller():
    call = {"inputs": [X], "output_shapes": [(2,)], "output_dtypes": [mx.float32], "grid": (2, 1, 1), "threadgroup": (2, 1, 1)}
    kernel = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source="y[0] = x[0];", header="", ensure_row_contiguous=False)
    with pytest.raises(RuntimeError, match="Metal"):
        kernel(**call)
    with pytest.raises(TypeError):
        mx.fast.metal_kernel(3, [], [], "")
    kernel = mx.fast.cuda_kernel("k", ["x"], ["y"], "y[elem] = x[elem];", shared_memory=16)
    if not mx.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            kernel(**call)
    for arguments in (("k k", ["x"], ["y"], ""), ("k", ["1"], ["y"], "")):
        with pytest.raises(ValueError):
            mx.fast.cuda_kernel(*arguments)
    with pytest.raises(TypeError):
        mx.fast.cuda_kernel("k", [3], ["y"], "")


SCALED = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry scaled(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 by, .param .u8 negate) {
    .reg .pred %p<3>;
    .reg .b16 %h<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [by];
    ld.param.u8 %h1, [negate];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 ret;
    cvta.to.global.u64 %d3, %d1;
    cvta.to.global.u64 %d4, %d2;
    mul.wide.u32 %d5, %r5, 4;
    add.u64 %d6, %d3, %d5;
    add.u64 %d7, %d4, %d5;
    ld.global.f32 %f2, [%d6];
    mul.f32 %f3, %f2, %f1;
    setp.ne.u16 %p2, %h1, 0;
    @%p2 neg.f32 %f3, %f3;
    st.global.f32 [%d7], %f3;
    ret;
}
"""


def test_compiled_kernels():
    x = mx.arange(10, dtype=mx.float32).reshape(2, 5)
    call = {"name": "scaled", "compiled_source": SCALED, "inputs": [x], "output_shapes": [(12,)], "output_dtypes": [mx.float32],
            "scalars": [10, 2.5, True], "grid": (10, 1, 1), "threadgroup": (4, 1, 1)}  # fmt: skip
    run = mx.fast.precompiled_cuda_kernel
    if mx.cuda.is_available():
        (made,) = run(**call, init_value=7, stream=mx.gpu)
        assert made.tolist() == [-2.5 * i for i in range(10)] + [7, 7]
        call["scalars"] = [10, 1.0, False]
        call["inputs"] = [x.T]
        assert run(**call, ensure_row_contiguous=True, init_value=0, stream=mx.gpu)[0].tolist() == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9, 0, 0]
        assert run(**call, init_value=0, stream=mx.gpu)[0].tolist() == [*range(10), 0, 0]
        with pytest.raises(RuntimeError, match="no PTX"):
            mx.eval(run(**call | {"compiled_source": b"x"}, stream=mx.gpu))
    else:
        with pytest.raises(RuntimeError, match="CUDA"):
            run(**call)

    def checked(**changes):
        """Reaches the checks of the extension with CUDA and without it."""
        c = call | {"init_value": None, "shared_memory": 0} | changes
        outputs = [(s, d) for s, d in zip(c["output_shapes"], c["output_dtypes"])]
        return _core._cuda_kernel_compiled(c["name"], c["compiled_source"], c["inputs"], outputs, c["scalars"], c["grid"], c["threadgroup"],
                                           c["shared_memory"], c["init_value"], False, mx.cpu)  # fmt: skip

    with pytest.raises(ValueError, match="needs a GPU with CUDA"):
        checked()
    for error, changes in (
        (TypeError, {"scalars": ["x"]}), (OverflowError, {"scalars": [1 << 40]}), (TypeError, {"name": 3}), (TypeError, {"compiled_source": "x"}),
        (ValueError, {"shared_memory": -1}), (TypeError, {"output_shapes": [("x",)]}), (TypeError, {"grid": (1, 1)}),
        (ValueError, {"compiled_source": b""}), (ValueError, {"threadgroup": (0, 1, 1)}), (ValueError, {"output_shapes": []}),
        (OverflowError, {"output_shapes": [(1 << 40,)]}), (TypeError, {"init_value": "x"}), (TypeError, {"output_dtypes": [3]}),
    ):  # fmt: skip
        with pytest.raises(error):
            checked(**changes)
