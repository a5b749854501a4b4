#!/usr/bin/env python3
"""Layers, losses and optimisers of mlx.nn and mlx.optimizers on Keel beside PyTorch's: python tools/peers/nn_against_torch.py, where mlx.core is Keel and torch is installed.

For each: results and gradients of every parameter and of the input, of the same numbers, in float32. Prints the largest difference relative to the largest value, and ends with 1 where one is over 1e-4."""

import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import torch
import torch.nn.functional as F
from mlx.utils import tree_flatten, tree_unflatten

rng = np.random.default_rng(7)
LIMIT = 1e-4


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def far(ours, theirs):
    ours, theirs = np.array(ours), theirs.detach().numpy()
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float(np.max(np.abs(ours - theirs)) / (np.max(np.abs(theirs)) + 1e-6)) if theirs.size else 0.0


def both(ours, theirs, *inputs):
    """Largest difference of results and of the inputs' gradients, of two functions of arrays."""
    weights = None

    def loss(*xs):
        nonlocal weights
        y = ours(*xs)
        if weights is None:
            weights = numbers(*y.shape)
        return (y * mx.array(weights)).sum(), y

    (_, y), grads = mx.value_and_grad(loss, argnums=list(range(len(inputs))))(*map(mx.array, inputs))
    ts = [torch.tensor(x, requires_grad=True) for x in inputs]
    t = theirs(*ts)
    (t * torch.tensor(weights)).sum().backward()
    grads = grads if isinstance(grads, (tuple, list)) else [grads]
    return max([far(y, t)] + [far(g, x.grad) for g, x in zip(grads, ts)])


def layer(ours, theirs, x, prepare=lambda x: x, unprepare=lambda y: y):
    """The same for a layer with parameters: theirs(x, parameters by name) follows ours."""
    names = [name for name, _ in tree_flatten(ours.parameters())]
    values = [np.array(v) for _, v in tree_flatten(ours.parameters())]

    def run(x, *ps):
        ours.update(tree_unflatten(list(zip(names, ps))))
        return ours(x)

    return both(run, lambda x, *ps: unprepare(theirs(prepare(x), dict(zip(names, ps)))), x, *values)


def first(n):  # channels to the second axis, as PyTorch has them
    return lambda x: x.movedim(-1, 1) if x.dim() == n else x


def layers():
    yield "Linear", layer(nn.Linear(5, 7), lambda x, p: F.linear(x, p["weight"], p["bias"]), numbers(4, 5))
    back = lambda y: y.movedim(1, -1)
    for n, conv, f in ((1, nn.Conv1d, F.conv1d), (2, nn.Conv2d, F.conv2d), (3, nn.Conv3d, F.conv3d)):
        yield f"Conv{n}d", layer(conv(4, 6, 3, stride=2, padding=1), lambda x, p, f=f: f(x, p["weight"].movedim(-1, 1), p["bias"], 2, 1), numbers(2, *[7] * n, 4), first(n + 2), back)
    yield "Conv2d of groups", layer(nn.Conv2d(4, 8, 3, groups=4), lambda x, p: F.conv2d(x, p["weight"].movedim(-1, 1), p["bias"], groups=4), numbers(2, 6, 6, 4), first(4), back)
    yield "ConvTranspose2d", layer(nn.ConvTranspose2d(4, 6, 3, stride=2), lambda x, p: F.conv_transpose2d(x, p["weight"].permute(3, 0, 1, 2), p["bias"], 2), numbers(2, 5, 5, 4), first(4), back)
    yield "LayerNorm", layer(nn.LayerNorm(6), lambda x, p: F.layer_norm(x, (6,), p["weight"], p["bias"], 1e-5), numbers(3, 4, 6))
    yield "RMSNorm", layer(nn.RMSNorm(6), lambda x, p: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * p["weight"], numbers(3, 4, 6))
    yield "GroupNorm", layer(nn.GroupNorm(2, 6, pytorch_compatible=True), lambda x, p: F.group_norm(x, 2, p["weight"], p["bias"], 1e-5), numbers(2, 5, 6), first(3), back)
    yield "InstanceNorm", layer(nn.InstanceNorm(4), lambda x, p: F.instance_norm(x, eps=1e-5), numbers(2, 6, 4), first(3), back)
    bn = nn.BatchNorm(6, track_running_stats=False)
    yield "BatchNorm", layer(bn, lambda x, p: F.batch_norm(x, None, None, p["weight"], p["bias"], True), numbers(5, 6))
    yield "MaxPool2d", both(nn.MaxPool2d(2, 2), lambda x: F.max_pool2d(x.movedim(-1, 1), 2, 2).movedim(1, -1), numbers(2, 6, 6, 3))
    yield "AvgPool2d", both(nn.AvgPool2d(3, 2, 1), lambda x: F.avg_pool2d(x.movedim(-1, 1), 3, 2, 1).movedim(1, -1), numbers(2, 7, 7, 3))
    for name, kind in (("GRU", torch.nn.GRU), ("LSTM", torch.nn.LSTM), ("RNN", torch.nn.RNN)):
        ours, theirs, x = getattr(nn, name)(4, 5), kind(4, 5, batch_first=True), numbers(2, 6, 4)
        with torch.no_grad():
            theirs.weight_ih_l0.copy_(torch.tensor(np.array(ours.Wx if name != "RNN" else ours.Wxh)))
            theirs.weight_hh_l0.copy_(torch.tensor(np.array(ours.Wh if name != "RNN" else ours.Whh)))
            b = np.array(ours.b if name == "GRU" else ours.bias)
            theirs.bias_ih_l0.copy_(torch.tensor(b))
            theirs.bias_hh_l0.zero_()
            if name == "GRU":
                theirs.bias_hh_l0[10:].copy_(torch.tensor(np.array(ours.bhn)))
        run = (lambda x: ours(x)[0]) if name == "LSTM" else ours
        yield name, both(run, lambda x: theirs(x)[0], x)
    attention = nn.MultiHeadAttention(8, 2)

    def heads(x, p):
        split = lambda y: y.reshape(2, 5, 2, 4).transpose(1, 2)
        q, k, v = (split(x @ p[f"{n}_proj.weight"].T) for n in ("query", "key", "value"))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8) @ p["out_proj.weight"].T

    names = [n for n, _ in tree_flatten(attention.parameters())]
    values = [np.array(v) for _, v in tree_flatten(attention.parameters())]

    def ours_heads(x, *ps):
        attention.update(tree_unflatten(list(zip(names, ps))))
        return attention(x, x, x)

    yield "MultiHeadAttention", both(ours_heads, lambda x, *ps: heads(x, dict(zip(names, ps))), numbers(2, 5, 8), *values)


ACTIVATIONS = "relu relu6 gelu silu elu selu celu leaky_relu softplus mish hardswish tanh sigmoid logsigmoid:log_sigmoid softsign softmax log_softmax glu"


def activations():
    for name in ACTIVATIONS.split():
        theirs, _, ours = name.partition(":")
        kwargs = {"dim": -1} if theirs in ("softmax", "log_softmax", "glu") else {}
        axis = {"axis": -1} if kwargs else {}
        yield theirs, both(lambda x: getattr(nn, ours or theirs)(x, **axis), lambda x: getattr(F, theirs)(x, **kwargs), numbers(5, 8))


def losses():
    y, classes = numbers(6, 5), rng.integers(0, 5, 6)
    t, c = torch.tensor(y), torch.tensor(classes)
    p = 1 / (1 + np.exp(-numbers(6, 5)))
    target = (rng.random((6, 5)) < 0.5).astype(np.float32)
    scalar = lambda f: lambda *xs: f(*xs).reshape(1)
    L = nn.losses
    yield "cross_entropy", both(scalar(lambda x: L.cross_entropy(x, mx.array(classes), reduction="mean")), scalar(lambda x: F.cross_entropy(x, c)), numbers(6, 5))
    yield "smoothed", both(scalar(lambda x: L.cross_entropy(x, mx.array(classes), label_smoothing=0.1, reduction="mean")), scalar(lambda x: F.cross_entropy(x, c, label_smoothing=0.1)), numbers(6, 5))
    yield "mse_loss", both(scalar(lambda x: L.mse_loss(x, mx.array(y))), scalar(lambda x: F.mse_loss(x, t)), numbers(6, 5))
    yield "l1_loss", both(scalar(lambda x: L.l1_loss(x, mx.array(y))), scalar(lambda x: F.l1_loss(x, t)), numbers(6, 5))
    yield "smooth_l1_loss", both(scalar(lambda x: L.smooth_l1_loss(x, mx.array(y))), scalar(lambda x: F.smooth_l1_loss(x, t)), numbers(6, 5))
    yield "huber_loss", both(scalar(lambda x: L.huber_loss(x, mx.array(y), reduction="mean")), scalar(lambda x: F.huber_loss(x, t)), numbers(6, 5))
    yield "binary_cross_entropy", both(scalar(lambda x: L.binary_cross_entropy(x, mx.array(target))), scalar(lambda x: F.binary_cross_entropy_with_logits(x, torch.tensor(target))), numbers(6, 5))
    yield "of probabilities", both(scalar(lambda x: L.binary_cross_entropy(x, mx.array(target), with_logits=False)), scalar(lambda x: F.binary_cross_entropy(x, torch.tensor(target))), p.astype(np.float32))
    yield "nll_loss", both(scalar(lambda x: L.nll_loss(x, mx.array(classes), reduction="mean")), scalar(lambda x: F.nll_loss(x, c)), numbers(6, 5))
    yield "kl_div_loss", both(scalar(lambda x: L.kl_div_loss(x, nn.log_softmax(mx.array(y), axis=-1), reduction="sum")), scalar(lambda x: F.kl_div(x, F.log_softmax(t, -1), log_target=True, reduction="sum")), numbers(6, 5))


def optimisers():
    O, T = optim, torch.optim
    pairs = {
        "SGD": (O.SGD(0.1), lambda p: T.SGD(p, 0.1)),
        "SGD, momentum": (O.SGD(0.1, momentum=0.9, weight_decay=0.01), lambda p: T.SGD(p, 0.1, 0.9, weight_decay=0.01)),
        "SGD, Nesterov": (O.SGD(0.1, momentum=0.9, nesterov=True), lambda p: T.SGD(p, 0.1, 0.9, nesterov=True)),
        "Adam": (O.Adam(0.05, bias_correction=True), lambda p: T.Adam(p, 0.05)),
        "AdamW": (O.AdamW(0.05, bias_correction=True), lambda p: T.AdamW(p, 0.05)),
        "Adagrad": (O.Adagrad(0.1, eps=1e-8), lambda p: T.Adagrad(p, 0.1, eps=1e-8)),
        "RMSprop": (O.RMSprop(0.05), lambda p: T.RMSprop(p, 0.05)),
        "AdaDelta": (O.AdaDelta(0.5, rho=0.9, eps=1e-6), lambda p: T.Adadelta(p, 0.5, rho=0.9, eps=1e-6)),
    }
    for name, (ours, make) in pairs.items():
        w = numbers(4, 3)
        model = {"w": mx.array(w)}
        t = torch.nn.Parameter(torch.tensor(w))
        theirs = make([t])
        for _ in range(6):
            g = mx.grad(lambda m: (m["w"] ** 2 * mx.arange(1, 13).reshape(4, 3)).sum())(model)
            model = ours.apply_gradients(g, model)
            mx.eval(model, ours.state)
            theirs.zero_grad()
            (t**2 * torch.arange(1, 13).reshape(4, 3)).sum().backward()
            theirs.step()
        yield name, far(model["w"], t)


def main():
    assert mx.__name__ == "keel.core", f"mlx.core is {mx.__name__}"
    failed = n = 0
    for what in (layers, activations, losses, optimisers):
        for name, difference in what():
            n += 1
            bad = not difference <= LIMIT
            failed += bad
            print(f"{what.__name__:12} {name:22} {difference:.1e}{'  OVER' if bad else ''}")
    print(f"{n} compared with PyTorch {torch.__version__}, {failed} over {LIMIT}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
