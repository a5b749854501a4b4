#!/usr/bin/env python3
"""Writes tests/io/golden_gguf.inc: two random blocks of each quantized type of the .gguf format, and their values in float16.

    python3 tools/make/golden_gguf.py        (needs NumPy and the package gguf, whose dequantisation is in NumPy)"""
import os

import gguf
import numpy as np

TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL".split()
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0]}


def lines(values, form, each):
    text = [form % v for v in values]
    return ",\n     ".join(", ".join(text[i:i + each]) for i in range(0, len(text), each))


def main():
    rng = np.random.default_rng(7)
    out = ["/* golden_gguf.inc - written by tools/make/golden_gguf.py */\n"]
    for name in TYPES:
        kind = getattr(gguf.GGMLQuantizationType, name)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 256, (2, size)).astype(np.uint8)
        for at in HALVES[name]:  # scales that are numbers, one of them negative
            raw[:, at:at + 2] = np.array([0.37, -0.021], np.float16).view(np.uint8).reshape(2, 2)
        y = gguf.quants.dequantize(raw.reshape(1, -1), kind).reshape(-1).astype(np.float16).view(np.uint16)
        out.append('{"%s", %d, %d, %d,\n    {%s},\n    {%s}},\n' % (name, int(kind), elements, size, lines(raw.reshape(-1), "%d", 18), lines(y, "0x%04x", 11)))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/io/golden_gguf.inc")
    with open(path, "w") as f:
        f.writelines(out)


main()
