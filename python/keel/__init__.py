"""Keel: lazy arrays, gradients and models on CPUs and GPUs.

`keel.core` has the arrays and everything that is computed with them, under the names of
`mlx.core`. `python -m keel.doctor` tells what this machine offers and what is missing.
"""

__version__ = "0.1.0"
