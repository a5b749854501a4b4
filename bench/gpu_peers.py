"""GPU benchmark: Keel beside PyTorch, CuPy, JAX and MLX (where they are installed), in one process on one device.

python3 bench/gpu_peers.py path/to/libkeel.so [group:NAME ...] [case ...]

Without group: all groups run; with cases: only cases that have one of these texts in their names.

Each case runs every library in turn, 15 rounds; the figures are medians, the ratio is the median of the rounds' ratios (PyTorch's better
way where two are given). At the end of a case every library gives back what it keeps, so that all cases fit into 80 GB; the last line tells the
most that was in use. Bytes are those that the operation must move: every input read once, every output written once. Inputs are random normal.
"""
import torch

from gpu_cases import measure, memory, products, steps
from gpu_cases.measure import mx, release, results, wanted

GROUPS = [
    memory.streams, memory.rows, memory.reductions, memory.scans, memory.fft, memory.sorts,
    products.attentions, products.products, products.matrices, products.convolutions,
    products.quantised, products.experts, memory.gathers, memory.scatters, steps.chains, steps.hops,
    steps.loads,
]
print(torch.cuda.get_device_name(0), "torch", torch.__version__, "mlx" if mx is not None else "no mlx")
for group in GROUPS:
    if any(w.startswith("group:") for w in wanted) and f"group:{group.__name__}" not in wanted:
        continue
    group()
    torch._dynamo.reset()  # compiled functions hold what they were compiled with
    release()
print(f"most memory in use: {measure.most_used / 2**30:.1f} GiB of {torch.cuda.mem_get_info()[1] / 2**30:.1f}")
print("below 1: " + (", ".join(f"{n} {r:.2f}" for n, r, _ in results if r and r < 1) or "none"))
