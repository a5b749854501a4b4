"""The tests compute on the CPU, also where a GPU would be the default device; KEEL_TEST_DEVICE=gpu is the GPU."""

import os

import keel.core as mx

mx.set_default_device(mx.gpu if os.environ.get("KEEL_TEST_DEVICE") == "gpu" else mx.cpu)
