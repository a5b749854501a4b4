#!/usr/bin/env python3
"""Writes examples/data/digits.safetensors from the copy of the digits that scikit-learn carries. Run it in the repository root.

Needs NumPy and scikit-learn; the file that it writes is committed, so nobody else does. examples/data/README.md says what is in
it. The safetensors file is put together here by the format's text: 8 bytes of header length, the header in JSON, the data.
"""
import json

import numpy as np
from sklearn.datasets import load_digits

OUT = "examples/data/digits.safetensors"
METADATA = {
    "title": "Optical Recognition of Handwritten Digits (test set), 8x8",
    "source": "UCI Machine Learning Repository, data set 80",
    "doi": "10.24432/C50P49",
    "authors": "E. Alpaydin, C. Kaynak",
    "licence": "CC BY 4.0",
    "split": "sample i of the original order is in test if i % 4 == 3, else in train",
}
DTYPES = {"uint8": "U8", "int32": "I32"}


def tensors():
    images, labels = load_digits(return_X_y=True)
    assert images.shape == (1797, 64) and labels.shape == (1797,)
    assert images.min() == 0 and images.max() == 16 and (images == np.floor(images)).all()
    test = np.arange(len(labels)) % 4 == 3
    for part, rows in (("train", ~test), ("test", test)):
        yield part + ".images", images[rows].astype("<u1")
        yield part + ".labels", labels[rows].astype("<i4")


def main():
    header, data = {"__metadata__": METADATA}, b""
    for name, array in tensors():
        begin, data = len(data), data + array.tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data is aligned in a mapped file
    with open(OUT, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    main()
