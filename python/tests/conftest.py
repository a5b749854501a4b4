"""The tests compute on the CPU, also where a GPU would be the default device; KEEL_TEST_DEVICE=gpu is the GPU.

KEEL_TEST_SAMPLE=python/4 runs about one test in four, drawn by KEEL_TEST_SEED (1 unless set), and says how many."""

import os
import random
import re

import keel.core as mx
import pytest

pytest.register_assert_rewrite("functions_support", "index_support", "transforms_support")
mx.set_default_device(mx.gpu if os.environ.get("KEEL_TEST_DEVICE") == "gpu" else mx.cpu)


def pytest_collection_modifyitems(config, items):
    sample = re.search(r"(?:^|,)python/(\d+)(?:,|$)", os.environ.get("KEEL_TEST_SAMPLE", ""))
    if not sample:
        return
    seed = os.environ.get("KEEL_TEST_SEED", "1")
    draw = random.Random(seed)
    one_in = int(sample[1])
    taken, left = [], []
    for item in items:
        (left if draw.randrange(one_in) else taken).append(item)
    items[:] = taken
    config.hook.pytest_deselected(items=left)
    print(f"SAMPLE: {len(taken)} of {len(taken) + len(left)} tests, KEEL_TEST_SEED={seed}")
