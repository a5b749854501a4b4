"""Trains a network on handwritten digits in Python: python examples/train.py [SEED]

Two layers that connect everything, learned by gradients and Adam from examples/data/digits.safetensors (data/README.md). The
step is a compiled function over a dict of arrays. The exit status is 0 when the loss has fallen below 0.05 and at least 95 % of
the digits that the network has not seen are right.
"""

import pathlib
import sys

import keel.core as mx

DATA = pathlib.Path(__file__).parent / "data" / "digits.safetensors"
HIDDEN, CLASSES, BATCH, EPOCHS = 128, 10, 64, 40
RATE, BETA1, BETA2, SMALL = 2e-3, 0.9, 0.999, 1e-8


def load():
    """Pixels from 0 to 1 and labels: for training, and held out."""
    data = mx.load(str(DATA))
    pixels = {part: data[f"{part}.images"].astype(mx.float32).flatten(1) / 16 for part in ("train", "test")}
    return pixels["train"], data["train.labels"], pixels["test"], data["test.labels"]


def new_network(n_pixels):
    """The weights by name: random ones with the variance that keeps that of the values, and zeros."""
    layers = {"hidden": (n_pixels, HIDDEN), "out": (HIDDEN, CLASSES)}
    network = {}
    for name, (n, m) in layers.items():
        network[f"{name}.weight"] = mx.random.normal((n, m), scale=(2 / n) ** 0.5)
        network[f"{name}.bias"] = mx.zeros((m,))
    return network


def scores(network, pixels):
    hidden = mx.maximum(pixels @ network["hidden.weight"] + network["hidden.bias"], 0)
    return hidden @ network["out.weight"] + network["out.bias"]


def loss_of(network, pixels, labels):
    return mx.fast.cross_entropy(scores(network, pixels), labels).mean()


@mx.compile
def step(network, mean, square, n, pixels, labels):
    """One step of Adam. mean and square are running means of gradients and of their squares; n counts the steps."""
    loss, gradients = mx.value_and_grad(loss_of)(network, pixels, labels)
    mean = {k: BETA1 * mean[k] + (1 - BETA1) * g for k, g in gradients.items()}
    square = {k: BETA2 * square[k] + (1 - BETA2) * g * g for k, g in gradients.items()}
    n = n + 1
    rate = RATE * mx.sqrt(1 - BETA2**n) / (1 - BETA1**n)
    network = {k: w - rate * mean[k] / (mx.sqrt(square[k]) + SMALL) for k, w in network.items()}
    return loss, network, mean, square, n


def main(seed=0):
    mx.random.seed(seed)
    pixels, labels, new_pixels, new_labels = load()
    network = new_network(pixels.shape[1])
    mean, square = ({k: mx.zeros_like(w) for k, w in network.items()} for _ in range(2))
    n = mx.array(0.0)
    for epoch in range(EPOCHS):
        order = mx.random.permutation(len(pixels))
        losses = []
        for start in range(0, len(pixels) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss, network, mean, square, n = step(network, mean, square, n, pixels[batch], labels[batch])
            losses.append(loss)
        # Arrays are lazy: this is where the epoch is computed.
        loss = mx.stack(losses).mean()
        mx.eval(loss, network, mean, square, n)
        if epoch % 10 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch + 1:2}  loss {loss.item():.4f}")
    right = (scores(network, new_pixels).argmax(axis=1) == new_labels).astype(mx.float32).mean().item()
    print(f"{100 * right:.1f} % of {len(new_labels)} digits that it has not seen are right")
    return loss.item() < 0.05 and right >= 0.95


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
