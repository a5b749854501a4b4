#!/usr/bin/env python3
"""Writes tests/ops/golden/golden_train.inc: what optimisers and schedules give, in float64, from NumPy.

    python3 tools/make/golden_train.py [file]

The formulas are written here from the papers that src/train/optimizer.c names, one step after the other, without its
rearrangements. The numbers come from a fixed seed, so the file changes only when this script does."""
import sys
import numpy as np

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/ops/golden/golden_train.inc"
RNG = np.random.default_rng(20261123)
N, STEPS = 6, 7
P0 = RNG.standard_normal(N).astype(np.float32)
GRADS = (RNG.standard_normal((STEPS, N)) * np.array([1, 1e-3, 10, 0, 1e-6, 1])).astype(np.float32)


def sgd(rates, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    p, m = P0.astype(np.float64), np.zeros(N)
    for rate, g in zip(rates, GRADS.astype(np.float64)):
        g = g + weight_decay * p
        m = momentum * m + (1 - dampening) * g
        p = p - rate * (g if momentum == 0 else g + momentum * m if nesterov else m)
    return p, m, np.zeros(N)


def adam(rates, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, bias_correction=True, decoupled=False):
    p, m, v = P0.astype(np.float64), np.zeros(N), np.zeros(N)
    for t, (rate, g) in enumerate(zip(rates, GRADS.astype(np.float64)), 1):
        if decoupled:
            p = p - rate * weight_decay * p
        else:
            g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        mean, size = (m / (1 - beta1**t), v / (1 - beta2**t)) if bias_correction else (m, v)
        p = p - rate * mean / (np.sqrt(size) + eps)
    return p, m, v


CASES = [
    ("sgd", "KL_OPTIMIZER_SGD", sgd, {}, 0.1),
    ("sgd with weight decay", "KL_OPTIMIZER_SGD", sgd, {"weight_decay": 0.01}, 0.1),
    ("momentum", "KL_OPTIMIZER_SGD", sgd, {"momentum": 0.9}, 0.1),
    ("momentum, dampening, weight decay", "KL_OPTIMIZER_SGD", sgd, {"momentum": 0.9, "dampening": 0.25, "weight_decay": 0.05}, 0.1),
    ("nesterov", "KL_OPTIMIZER_SGD", sgd, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.05}, 0.02),
    ("adam", "KL_OPTIMIZER_ADAM", adam, {}, 0.01),
    ("adam, not corrected", "KL_OPTIMIZER_ADAM", adam, {"bias_correction": False}, 0.01),
    ("adam with weight decay", "KL_OPTIMIZER_ADAM", adam, {"beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}, 0.01),
    ("adam, betas 0", "KL_OPTIMIZER_ADAM", adam, {"beta1": 0.0, "beta2": 0.0, "eps": 1e-3}, 0.01),
    ("adamw", "KL_OPTIMIZER_ADAM", adam, {"weight_decay": 0.01, "decoupled": True}, 0.01),
    ("adamw, not corrected", "KL_OPTIMIZER_ADAM", adam, {"weight_decay": 0.1, "decoupled": True, "bias_correction": False}, 0.03),
]


def linear(a, b, n):
    return lambda t: a + (b - a) * min(t, n) / n


def cosine(a, b, n):
    return lambda t: b + (a - b) * 0.5 * (1 + np.cos(np.pi * min(t, n) / n))


def steps(a, factor, n):
    return lambda t: a * factor ** (t // n)


def warm(t):
    return linear(0, 1e-3, 10)(t) if t < 10 else cosine(1e-3, 1e-5, 100)(t - 10) if t < 60 else steps(5e-4, 0.5, 7)(t - 60)


AT = [0, 1, 2, 5, 9, 10, 11, 50, 59, 60, 61, 67, 99, 100, 101, 110, 1000, 16777215]
SCHEDULES = [
    ("constant", "KL_SCHEDULE_CONSTANT", 3e-4, 3e-4, 1, lambda t: 3e-4),
    ("linear", "KL_SCHEDULE_LINEAR", 0, 1e-3, 100, linear(0, 1e-3, 100)),
    ("linear down", "KL_SCHEDULE_LINEAR", 1, 0.25, 7, linear(1, 0.25, 7)),
    ("cosine", "KL_SCHEDULE_COSINE", 1e-3, 1e-5, 100, cosine(1e-3, 1e-5, 100)),
    ("step", "KL_SCHEDULE_STEPS", 0.1, 0.5, 10, steps(0.1, 0.5, 10)),
    ("warmup, cosine, step", "KL_SCHEDULE_JOINED", 0, 0, 0, warm),
]


def numbers(values):
    return ", ".join(float(v).hex() for v in np.ravel(values))


def main():
    lines = ["/* golden_train.inc - written by tools/make/golden_train.py; do not edit. */", "/* clang-format off */",
             f"enum {{ TRAIN_N = {N}, TRAIN_STEPS = {STEPS}, TRAIN_AT = {len(AT)} }};",
             f"static const double train_p[] = {{{numbers(P0)}}};", f"static const double train_grads[] = {{{numbers(GRADS)}}};",
             "static const struct train_case {", "    const char *name;", "    struct kl_optimizer_rule rule;", "    double rate, p[TRAIN_N], m[TRAIN_N], v[TRAIN_N];",
             "} train_cases[] = {"]
    for name, kind, f, options, rate in CASES:
        p, m, v = f([rate] * STEPS, **options)
        every = dict(options) if f is sgd else {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "bias_correction": True, **options}
        rule = "".join(f", .{k} = {str(x).lower()}" for k, x in every.items())
        lines += [f'    {{"{name}", {{.kind = {kind}{rule}}}, {rate},', f"     {{{numbers(p)}}},", f"     {{{numbers(m)}}},", f"     {{{numbers(v)}}}}},"]
    lines += ["};", f"static const int64_t train_at[] = {{{', '.join(map(str, AT))}}};", "static const struct train_schedule {", "    const char *name;",
              "    enum kl_schedule_kind kind;", "    double from, to;", "    int64_t n_steps;", "    double rate[TRAIN_AT];", "} train_schedules[] = {"]
    for name, kind, a, b, n, f in SCHEDULES:
        lines += [f'    {{"{name}", {kind}, {a}, {b}, {n},', f"     {{{numbers([f(t) for t in AT])}}}}},"]
    lines += ["};"]
    with open(OUT, "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
